/* SPDX-License-Identifier: MIT */
/* Functions without .eh_frame whose fixups make calls. long NAME(const char *p). */
#include <etch/extable.h>

	.text
	.globl	walk_frame, walk_section, walk_far
	.type	walk_frame, @function
walk_frame:
	push	%rbx
	sub	$64, %rsp
1:	movzbl	(%rdi), %eax
	add	$64, %rsp
	pop	%rbx
	ret
2:	call	walk_probe@PLT
	add	$64, %rsp
	pop	%rbx
	ret
	ETCH_EX_PLAIN 1b, 2b
	.size	walk_frame, . - walk_frame

	.type	walk_section, @function
walk_section:
	push	%rbp
	mov	%rsp, %rbp
	push	%r12
	push	%r13
1:	movzbl	(%rdi), %eax
2:	pop	%r13
	pop	%r12
	pop	%rbp
	ret
	ETCH_EX_EFAULT 1b, walk_section_fixup, 0
	.pushsection .text.fixup, "ax", @progbits
walk_section_fixup:
	call	walk_probe@PLT
	jmp	2b
	.popsection
	.size	walk_section, . - walk_section

/* A fixup faults in its turn: it and its own fixup are reached by the table alone. */
	.type	walk_far, @function
walk_far:
	sub	$24, %rsp
1:	movzbl	(%rdi), %eax
	add	$24, %rsp
	ret
2:	movzbl	8(%rdi), %eax
	add	$24, %rsp
	ret
	.balign 8
3:	call	walk_probe@PLT
	add	$24, %rsp
	ret
	ETCH_EX_PLAIN 1b, 2b
	ETCH_EX_ZERO 2b, 3b, 0
	.size	walk_far, . - walk_far

	.section .note.GNU-stack, "", @progbits
