/* SPDX-License-Identifier: MIT */
/*
 * pads.S: functions with hand-written tables of handlers: void NAME(void (*then)(void)) calls then(). If an exception comes
 * to the call, the landing pad stores the registers that a call may change, and resumes the exception. The landing
 * pad of pad_inside is in the function; the table of pad_outside is damaged, and leads to another function.
 */
	.text

	/* Registers to `landed`: rax rdx rcx rsi rdi r8 r9 r10 r11 rsp */
	.macro	LANDED
	mov	%rax, landed(%rip)
	mov	%rdx, landed+8(%rip)
	mov	%rcx, landed+16(%rip)
	mov	%rsi, landed+24(%rip)
	mov	%rdi, landed+32(%rip)
	mov	%r8, landed+40(%rip)
	mov	%r9, landed+48(%rip)
	mov	%r10, landed+56(%rip)
	mov	%r11, landed+64(%rip)
	mov	%rsp, landed+72(%rip)
	mov	%rax, %rdi
	call	_Unwind_Resume@PLT
	.endm

	.macro	PAD name, outside
	.globl	\name
	.type	\name, @function
\name:
	.cfi_startproc
	.cfi_personality 0x9b, personality
	.cfi_lsda 0x1b, .Llsda_\name
	sub	$8, %rsp
	.cfi_adjust_cfa_offset 8
.Lfrom_\name:
	call	*%rdi
.Lto_\name:
	add	$8, %rsp
	.cfi_remember_state
	.cfi_adjust_cfa_offset -8
	ret
	.cfi_restore_state
	.globl	\name\()_landing
	.ifc \outside, yes
	.cfi_endproc
	.size	\name, .-\name
	.cfi_startproc
	.cfi_def_cfa_offset 16
\name\()_landing:
	LANDED
	.cfi_endproc
	.else
\name\()_landing:
	LANDED
.Lend_\name:
	.cfi_endproc
	.size	\name, .-\name
	.endif

	.section .gcc_except_table, "a", @progbits
.Llsda_\name:
	.byte	0xff, 0xff, 1
	.uleb128 1f-0f
0:	.uleb128 .Lfrom_\name-\name
	.uleb128 .Lto_\name-.Lfrom_\name
	.uleb128 \name\()_landing-\name
	.uleb128 0
	.ifc \outside, no
	.uleb128 \name\()_landing-\name
	.uleb128 .Lend_\name-\name\()_landing
	.uleb128 0
	.uleb128 0
	.endif
1:
	.text
	.endm

	PAD	pad_inside, no
	PAD	pad_outside, yes

	.data
	.balign	8
personality:
	.quad	__gxx_personality_v0
	.globl	landed
landed:
	.fill	10, 8

	.section .note.GNU-stack, "", @progbits
