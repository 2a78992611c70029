/* SPDX-License-Identifier: MIT */
/* call_on_x86.S: a call on another stack. */
	.text

/* void interfaces_call_on(void *top, void (*fn)(void *), void *arg). The CFA is relative to rbx: a walk from inside
 * then expects the other stack there, above or below. */
	.globl	interfaces_call_on
	.hidden	interfaces_call_on
	.type	interfaces_call_on, @function
interfaces_call_on:
	.cfi_startproc
	push	%rbx
	.cfi_adjust_cfa_offset 8
	.cfi_offset %rbx, -16
	mov	%rsp, %rbx
	.cfi_def_cfa_register %rbx
	mov	%rdi, %rsp
	and	$-16, %rsp
	mov	%rdx, %rdi
	call	*%rsi
	mov	%rbx, %rsp
	.cfi_def_cfa_register %rsp
	pop	%rbx
	.cfi_adjust_cfa_offset -8
	.cfi_restore %rbx
	ret
	.cfi_endproc
	.size	interfaces_call_on, .-interfaces_call_on

	.section .note.GNU-stack, "", @progbits
