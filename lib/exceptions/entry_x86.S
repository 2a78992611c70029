/* SPDX-License-Identifier: MIT */
/*
 * entry_x86.S: the functions that raise and resume exceptions, and the landing.
 *
 * Each calls its C function (raise.c) with the exception and the registers of its caller, and the C function answers:
 *
 *     -1 (LAND)       land: registers, stack pointer and address are in the second half of the struct it was given
 *     -2 (HAND_OVER)  libgcc's function takes the caller's place, with all registers as they came
 *     else            return it
 *
 * A walk must find its way from every instruction of this file. Until the last register is loaded, it finds the
 * thrower's stack, and the thrower's registers, which are saved here. After that it finds the frame with the landing
 * pad, at the call that this frame has made: rdi is the frame's stack pointer at that call, and the word below it still
 * holds the call's return address. A signal handler does not overwrite that word (RECORD_ARGS_SIZE).
 *
 * A landing pad reads none of the registers that a call may change, except rax and rdx. If a damaged table of handlers
 * leads to other code, that code may read them. So rcx, rsi and rdi have the values here that they have after a landing
 * by libgcc (gcc 12's; rcx also by others): the address of the landing pad in rcx and rsi, and the frame's stack pointer
 * in rdi.
 */
#ifdef __CET__ /* the property note that the compiler emits for C files */
#include <cet.h>
#else
#define _CET_ENDBR
#endif

#define CAME 0    /* rbx rbp r12 r13 r14 r15 rsp rip, as in struct frame */
#define LAND 64   /* the same registers for the landing */
#define LAND_RSP 112
#define LAND_RIP 120
#define LAND_CFA 128
#define LAND_RAX 136
#define LAND_RDX 144
#define EXCEPTION 152
#define SIZE 168

	.text

	.macro	ENTRY name, function, next
	.globl	\name
	.type	\name, @function
	.balign	64
\name:
	.cfi_startproc
	_CET_ENDBR
	lea	8(%rsp), %rax
	mov	(%rsp), %rdx
	sub	$SIZE, %rsp
	.cfi_adjust_cfa_offset SIZE
	mov	%rbx, CAME(%rsp)
	mov	%rbp, CAME+8(%rsp)
	mov	%r12, CAME+16(%rsp)
	mov	%r13, CAME+24(%rsp)
	mov	%r14, CAME+32(%rsp)
	mov	%r15, CAME+40(%rsp)
	mov	%rax, CAME+48(%rsp)
	mov	%rdx, CAME+56(%rsp)
	mov	%rdi, EXCEPTION(%rsp)
	mov	%rsp, %rsi
	call	\function
	cmp	$-1, %eax
	je	exceptions_land
	mov	EXCEPTION(%rsp), %rdi
	add	$SIZE, %rsp
	.cfi_adjust_cfa_offset -SIZE
	cmp	$-2, %eax
	jne	1f
	jmp	*exceptions_next+\next(%rip)
1:	ret
	.cfi_endproc
	.size	\name, .-\name
	.endm

	ENTRY	_Unwind_RaiseException, exceptions_raise, 0
	ENTRY	_Unwind_Resume, exceptions_resume, 8
	ENTRY	_Unwind_Resume_or_Rethrow, exceptions_rethrow, 16

	.type	exceptions_land, @function
	.balign	64
exceptions_land:
	.cfi_startproc
	.cfi_def_cfa rsp, SIZE+8
	.cfi_offset rbx, CAME-SIZE-8
	.cfi_offset rbp, CAME+8-SIZE-8
	.cfi_offset r12, CAME+16-SIZE-8
	.cfi_offset r13, CAME+24-SIZE-8
	.cfi_offset r14, CAME+32-SIZE-8
	.cfi_offset r15, CAME+40-SIZE-8
	mov	LAND_RAX(%rsp), %rax
	mov	LAND_RDX(%rsp), %rdx
	mov	LAND_RIP(%rsp), %rcx
	mov	%rcx, %rsi
	mov	LAND_CFA(%rsp), %rdi
	mov	LAND_RSP(%rsp), %r8
	mov	LAND(%rsp), %rbx
	mov	LAND+8(%rsp), %rbp
	mov	LAND+16(%rsp), %r12
	mov	LAND+24(%rsp), %r13
	mov	LAND+32(%rsp), %r14
	mov	LAND+40(%rsp), %r15
	.cfi_def_cfa rdi, 0
	.cfi_restore rbx
	.cfi_restore rbp
	.cfi_restore r12
	.cfi_restore r13
	.cfi_restore r14
	.cfi_restore r15
	/* libgcc's probe, at which debuggers stop to follow an exception; its arguments are the frame and the address. */
990:	nop
	mov	%r8, %rsp
	notrack jmp *%rcx
	.cfi_endproc
	.size	exceptions_land, .-exceptions_land

	/* SystemTap's note (sys/sdt.h): the addresses of the probe, of .stapsdt.base, and of a semaphore. */
	.section .note.stapsdt, "?", "note"
	.balign	4
	.long	992f-991f, 994f-993f, 3
991:	.asciz	"stapsdt"
992:	.balign	4
993:	.quad	990b, _.stapsdt.base, 0
	.asciz	"libgcc"
	.asciz	"unwind"
	.asciz	"8@%rdi 8@%rcx"
994:	.balign	4

	.section .stapsdt.base, "aG", "progbits", .stapsdt.base, comdat
	.weak	_.stapsdt.base
	.hidden	_.stapsdt.base
_.stapsdt.base:
	.space	1
	.size	_.stapsdt.base, 1

	.section .note.GNU-stack, "", @progbits
