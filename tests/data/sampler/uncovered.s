# SPDX-License-Identifier: MIT
# Assembly as video codecs have it: no .eh_frame, no symbols once it is stripped; it is called
# through pointers that C code takes with lea, or that relocations make. Data lies among it.
# "# row LABEL CFA RBP": what tests/scripts/test_sampler.py wants of a label.
	.text
	.p2align 4
	.type first, @function
first:				# no size: nothing says where it ends
	ret
	.p2align 4
leaf:				# row leaf rsp+8 same
	xor	%eax, %eax
	jmp	1f
	nop
1:	ret
	.p2align 4
framed:				# row framed rsp+8 same
	push	%rbx
framed_in:			# row framed_in rsp+16 same
	push	%rbp
framed_deep:			# row framed_deep rsp+24 cfa-24
	sub	$40, %rsp
framed_low:			# row framed_low rsp+64 cfa-24
	call	inner
	add	$40, %rsp
	pop	%rbp
	pop	%rbx
framed_end:			# row framed_end rsp+8 same
	ret
	.p2align 4
inner:				# called only
	nop
inner_end:			# row inner_end rsp+8 same
	ret
	.p2align 4
realigned:			# as x86inc.asm does: rsp in a register, then in memory
	mov	%rsp, %rax
	sub	$96, %rsp
	and	$-32, %rsp
	mov	%rax, 64(%rsp)
realigned_in:			# row realigned_in *(rsp+64)+8 same
	xor	%eax, %eax
	mov	64(%rsp), %rsp
realigned_end:			# row realigned_end rsp+8 same
	ret
	.p2align 4
tail:				# row tail rsp+8 same
	test	%edi, %edi
	jmp	unseen
	.p2align 4
unseen:				# only a jump leads here
	nop
unseen_end:			# row unseen_end rsp+8 same
	ret
	.p2align 4
table:				# row table undef undef
	.byte	0x06, 0x07, 0x0e, 0x16, 0x17, 0x1e, 0x1f, 0x27	# no instructions
	.p2align 4
alike:				# row alike undef undef
	.byte	0x50, 0x50, 0xc3, 0x90	# push, push, ret: code, but no function
	.p2align 4
into:				# row into undef undef
	.byte	0x50, 0xe9		# push; jmp into the middle of what .eh_frame covers
	.long	covered_in - . - 4
	.p2align 4
by_data:			# row by_data rsp+8 same
	push	%r12
by_data_in:			# row by_data_in rsp+16 same
	pop	%r12
	ret
	.p2align 4
	nop

	.globl	covered
	.type	covered, @function
covered:
	.cfi_startproc
	lea	leaf(%rip), %rax
	lea	framed(%rip), %rcx
	lea	realigned(%rip), %rdx
	lea	tail(%rip), %rsi
	lea	table(%rip), %r8
	lea	alike(%rip), %r9
	lea	into(%rip), %r10
	push	%rax
	.cfi_adjust_cfa_offset 8
covered_in:			# row covered_in rsp+16 same
	pop	%rcx
	.cfi_adjust_cfa_offset -8
	ret
	.cfi_endproc
	.size	covered, . - covered

	.section .init_array, "aw"
	.quad	first
	.data
	.quad	by_data
	.section .note.GNU-stack, "", @progbits
