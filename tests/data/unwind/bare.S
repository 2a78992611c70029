/* SPDX-License-Identifier: MIT */
/*
 * A program without a C library and without .eh_frame, which begins in one of the ways in which such
 * programs do: -DNEXT, what it calls follows it; -DAWAY, what it calls does not come back, and another function
 * follows; -DHALT, so it is behind hlt; -DJUMP, it jumps there. -DTIGHT: nothing lies between a return and what
 * the signal's handler returns to.
 */
	.text
	.globl	_start
_start:
#ifdef NEXT
	xor	%ebp, %ebp
	mov	%rsp, %rdi
	lea	8(%rdi), %rdx
	and	$-16, %rsp
	call	first
#elif defined(JUMP)
	mov	%rsp, %rdi
	jmp	first
#else
	xor	%ebp, %ebp
	call	first
#endif
#ifdef HALT
	hlt
#endif
#ifndef NEXT
plain:	lea	1(%rdi), %rax
	push	%rax
	pop	%rcx
	ret
#endif
first:	jmp	begin	/* as libc's first function in C does */

	.p2align 4
begin:	push	%rbx
	push	%r12
	sub	$8, %rsp
	lea	plain(%rip), %rdi
	call	invoke
	lea	handler(%rip), %rdi
	call	install
	mov	$39, %eax	/* getpid */
	syscall
	mov	%eax, %edi
	mov	$10, %esi	/* SIGUSR1 */
	mov	$62, %eax	/* kill */
	syscall
	call	popped
	add	$8, %rsp
	pop	%r12
	pop	%rbx
#ifdef JUMP
	jmp	last
#else
	lea	last(%rip), %rax
	jmp	*%rax
#endif

	.p2align 4
invoke:	sub	$8, %rsp
	call	*%rdi
	lea	looks(%rip), %rdi
	call	*%rdi
	add	$8, %rsp
	ret

	.p2align 4
handler:
	mov	%edi, %eax
	push	%rbx
	call	popped
	pop	%rbx
	ret

	.p2align 4
popped:	xor	%eax, %eax	/* goes back without a return */
	pop	%rcx
	mov	%edi, %edx
	jmp	*%rcx

	.p2align 4
install:
	sub	$40, %rsp
	mov	%rdi, (%rsp)
	movq	$0x04000000, 8(%rsp)	/* SA_RESTORER */
	lea	restore(%rip), %rax
	mov	%rax, 16(%rsp)
	movq	$0, 24(%rsp)
	mov	$10, %edi
	mov	%rsp, %rsi
	xor	%edx, %edx
	mov	$8, %r10d
	mov	$13, %eax	/* rt_sigaction */
	syscall
	add	$40, %rsp
	ret
#ifndef TIGHT
	nop
#endif
restore:
	mov	$15, %rax	/* rt_sigreturn */
	syscall
looks:	push	%rbx	/* after it, a function that only pointers lead to */
	mov	%edi, %ebx
	pop	%rbx
	ret
#ifdef NEXT
plain:	lea	1(%rdi), %rax
	push	%rax
	pop	%rcx
	ret
#endif

	.p2align 4
last:	mov	%eax, %esi	/* ends in a call that does not come back */
	sub	$24, %rsp
	call	popped
	mov	$3, %edi
	call	leave
	.p2align 4
leave:	mov	$60, %eax	/* exit */
	syscall
	.section .note.GNU-stack,"",@progbits
