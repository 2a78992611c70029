/* SPDX-License-Identifier: MIT */
/* The macros of etch/extable.h in an assembly file; called by what tests/faults/test_fault_handling.py
 * generates. */
#include <etch/extable.h>

	.text
	.globl	asm_plain, asm_efault, asm_zero, asm_len
	.type	asm_plain, @function
asm_plain:	/* long (const char *): 1, or 2 on a fault */
	mov	$2, %eax
1:	cmpb	$0, (%rdi)
	mov	$1, %eax
2:	ret
	ETCH_EX_PLAIN 1b, 2b
	.type	asm_efault, @function
asm_efault:	/* long (const char *) */
	xor	%r9d, %r9d
1:	cmpb	$0, (%rdi)
2:	mov	%r9, %rax
	ret
	ETCH_EX_EFAULT 1b, 2b, 9
	.type	asm_zero, @function
asm_zero:	/* long (const long *): what is there, or 0 */
	mov	$7, %eax
1:	mov	(%rdi), %rax
2:	ret
	ETCH_EX_ZERO 1b, 2b, 0
	.type	asm_len, @function
asm_len:	/* size_t (void *, const void *, size_t): bytes not copied, by whole words */
	mov	%rdx, %rcx
	shr	$3, %rcx
	and	$7, %edx
1:	rep movsq
	mov	%edx, %ecx
2:	rep movsb
3:	mov	%rcx, %rax
	ret
	ETCH_EX_LEN 1b, 3b, 2, 8
	ETCH_EX_PLAIN 2b, 3b
	.section .note.GNU-stack, "", @progbits
