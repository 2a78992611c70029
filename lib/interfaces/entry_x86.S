/* SPDX-License-Identifier: MIT */
/*
 * entry_x86.S: the entries that must see their caller's registers before any C code changes them, except the one in
 * gcc_entry_x86.S. Offsets of ucontext_t: asm-generic/ucontext.h, asm/sigcontext.h.
 */
#define UC_FLAGS 0
#define UC_R8    40
#define UC_R9    48
#define UC_R10   56
#define UC_R11   64
#define UC_R12   72
#define UC_R13   80
#define UC_R14   88
#define UC_R15   96
#define UC_RDI   104
#define UC_RSI   112
#define UC_RBP   120
#define UC_RBX   128
#define UC_RDX   136
#define UC_RAX   144
#define UC_RCX   152
#define UC_RSP   160
#define UC_RIP   168
#define UC_FPREGS 224
#define UC_FPREGS_MEM 424
#define FPREGS_MXCSR 24

	.text

/* int unw_getcontext(unw_context_t *): stores the caller's registers as they are after the return, and in uc_flags
 * the mark that tells a return address from an interrupted instruction. Calls from libunwind itself go on to
 * libunwind's function. */
	.globl	_Ux86_64_getcontext
	.type	_Ux86_64_getcontext, @function
_Ux86_64_getcontext:
	.cfi_startproc
	mov	(%rsp), %rax
	sub	interfaces_getcontext_text(%rip), %rax
	cmp	interfaces_getcontext_size(%rip), %rax
	jb	1f
	movabs	$0x6574636875637478, %rax
	mov	%rax, UC_FLAGS(%rdi)
	mov	%r8, UC_R8(%rdi)
	mov	%r9, UC_R9(%rdi)
	mov	%r10, UC_R10(%rdi)
	mov	%r11, UC_R11(%rdi)
	mov	%r12, UC_R12(%rdi)
	mov	%r13, UC_R13(%rdi)
	mov	%r14, UC_R14(%rdi)
	mov	%r15, UC_R15(%rdi)
	mov	%rdi, UC_RDI(%rdi)
	mov	%rsi, UC_RSI(%rdi)
	mov	%rbp, UC_RBP(%rdi)
	mov	%rbx, UC_RBX(%rdi)
	mov	%rdx, UC_RDX(%rdi)
	mov	%rcx, UC_RCX(%rdi)
	lea	8(%rsp), %rax
	mov	%rax, UC_RSP(%rdi)
	mov	(%rsp), %rax
	mov	%rax, UC_RIP(%rdi)
	lea	UC_FPREGS_MEM(%rdi), %rax
	mov	%rax, UC_FPREGS(%rdi)
	fnstenv	(%rax)
	fldenv	(%rax)
	stmxcsr	FPREGS_MXCSR(%rax)
	xor	%eax, %eax
	mov	%rax, UC_RAX(%rdi)
	ret
1:	jmp	*interfaces_next_getcontext(%rip)
	.cfi_endproc
	.size	_Ux86_64_getcontext, .-_Ux86_64_getcontext

/* LLVM's unw_getcontext: stores 21 words, laid out as in its class Registers_x86_64; the last four, flags and
 * segments, are not used. */
	.globl	unw_getcontext
	.type	unw_getcontext, @function
unw_getcontext:
	.cfi_startproc
	mov	%rbx, 1*8(%rdi)
	mov	%rcx, 2*8(%rdi)
	mov	%rdx, 3*8(%rdi)
	mov	%rdi, 4*8(%rdi)
	mov	%rsi, 5*8(%rdi)
	mov	%rbp, 6*8(%rdi)
	lea	8(%rsp), %rax
	mov	%rax, 7*8(%rdi)
	mov	%r8, 8*8(%rdi)
	mov	%r9, 9*8(%rdi)
	mov	%r10, 10*8(%rdi)
	mov	%r11, 11*8(%rdi)
	mov	%r12, 12*8(%rdi)
	mov	%r13, 13*8(%rdi)
	mov	%r14, 14*8(%rdi)
	mov	%r15, 15*8(%rdi)
	mov	(%rsp), %rax
	mov	%rax, 16*8(%rdi)
	xor	%eax, %eax
	mov	%rax, 0*8(%rdi)
	mov	%rax, 17*8(%rdi)
	mov	%rax, 18*8(%rdi)
	mov	%rax, 19*8(%rdi)
	mov	%rax, 20*8(%rdi)
	ret
	.cfi_endproc
	.size	unw_getcontext, .-unw_getcontext

	.section .note.GNU-stack, "", @progbits
