/* SPDX-License-Identifier: MIT */
/*
 * gcc_entry_x86.S: the entry of gcc_context.c, which must see its caller's registers before any C code changes them.
 */
	.text

/* _Unwind_Reason_Code _Unwind_Backtrace(_Unwind_Trace_Fn fn, void *arg): calls interfaces_backtrace() with the
 * registers of the caller, in the order of enum etch_reg (rax to r15, rip), as its third argument. */
	.globl	_Unwind_Backtrace
	.type	_Unwind_Backtrace, @function
_Unwind_Backtrace:
	.cfi_startproc
	lea	8(%rsp), %rax
	mov	(%rsp), %rdx
	sub	$136, %rsp
	.cfi_adjust_cfa_offset 136
	mov	%rbx, 3*8(%rsp)
	mov	%rax, 4*8(%rsp)
	mov	%rbp, 5*8(%rsp)
	mov	%r12, 12*8(%rsp)
	mov	%r13, 13*8(%rsp)
	mov	%r14, 14*8(%rsp)
	mov	%r15, 15*8(%rsp)
	mov	%rdx, 16*8(%rsp)
	mov	%rsp, %rdx
	call	interfaces_backtrace
	add	$136, %rsp
	.cfi_adjust_cfa_offset -136
	ret
	.cfi_endproc
	.size	_Unwind_Backtrace, .-_Unwind_Backtrace

	.section .note.GNU-stack, "", @progbits
