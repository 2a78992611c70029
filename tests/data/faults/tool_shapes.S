/* SPDX-License-Identifier: MIT */
/*
 * Entries as assembly writes them: fixups in the function, in code that nothing else
 * reaches, in a section for fixups alone, and one that several functions share. Each
 * function: long NAME(char *dst, const char *src, size_t n).
 */
#include <etch/extable.h>

.macro FUNC name
	.globl	\name
	.type	\name, @function
	.p2align 4
\name:
	CFI .cfi_startproc
.endm
.macro END name
	CFI .cfi_endproc
	.size	\name, . - \name
.endm
.macro CFI directive:vararg
#ifndef WITHOUT_CFI
	\directive
#endif
.endm

	.text

/* What it left, in bytes: EX_TYPE_LEN. */
FUNC shape_len
	mov	%rdx, %rcx
	mov	%rdx, %rax
	shr	$3, %rcx
	and	$7, %eax
1:	rep movsq
	mov	%eax, %ecx
2:	rep movsb
3:	mov	%rcx, %rax
	ret
	ETCH_EX_LEN 1b, 3b, 0, 8
	ETCH_EX_PLAIN 2b, 3b
END shape_len

/* A frame, and a fixup that only the table leads to. */
FUNC shape_frame
	push	%rbx
	CFI .cfi_def_cfa_offset 16
	CFI .cfi_offset %rbx, -16
	sub	$32, %rsp
	CFI .cfi_def_cfa_offset 48
	mov	$7, %ebx
1:	movzbl	(%rsi), %eax
	add	$32, %rsp
	CFI .cfi_def_cfa_offset 16
	pop	%rbx
	CFI .cfi_def_cfa_offset 8
	ret
	CFI .cfi_def_cfa_offset 48
	.globl	shape_frame_fixup
	.hidden	shape_frame_fixup
shape_frame_fixup:
	lea	-107(%rbx), %rax
	add	$32, %rsp
	CFI .cfi_def_cfa_offset 16
	pop	%rbx
	CFI .cfi_def_cfa_offset 8
	ret
	ETCH_EX_PLAIN 1b, shape_frame_fixup
END shape_frame

/* Its fixup is in a section for fixups. */
FUNC shape_section
	push	%rbp
	CFI .cfi_adjust_cfa_offset 8
	CFI .cfi_offset %rbp, -16
	mov	$11, %ebp
1:	movzbl	(%rsi), %eax
2:	pop	%rbp
	CFI .cfi_adjust_cfa_offset -8
	ret
	ETCH_EX_PLAIN 1b, shape_section_fixup
	.pushsection .text.fixup, "ax", @progbits
	.globl	shape_section_fixup
	.hidden	shape_section_fixup
shape_section_fixup:
	lea	-211(%rbp), %rax
	jmp	2b
	.popsection
END shape_section

/* One fixup for the leaf functions of the file. */
FUNC shape_shared_a
1:	movzbl	(%rsi), %eax
	ret
	ETCH_EX_PLAIN 1b, shape_fault
END shape_shared_a
FUNC shape_shared_b
1:	mov	(%rsi), %rax
	ret
	ETCH_EX_PLAIN 1b, shape_fault
END shape_shared_b
	.type	shape_fault, @function
shape_fault:
	CFI .cfi_startproc
	mov	$-300, %rax
	ret
	CFI .cfi_endproc
	.size	shape_fault, . - shape_fault

/* Stores, a read and write, a string. */
FUNC shape_store
1:	movb	$0, (%rsi)
	xor	%eax, %eax
2:	ret
	ETCH_EX_EFAULT 1b, 2b, 0
END shape_store
FUNC shape_update
	mov	$5, %eax
1:	lock xadd %rax, (%rsi)
2:	ret
	ETCH_EX_ZERO 1b, 2b, 0
END shape_update
FUNC shape_string
	mov	$1, %eax
1:	lodsb
2:	movsx	%al, %rax
	ret
	ETCH_EX_ZERO 1b, 2b, 0
END shape_string

	.section .note.GNU-stack, "", @progbits
