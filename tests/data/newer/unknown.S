/* SPDX-License-Identifier: MIT */
/*
 * Functions with an instruction that no decoder knows, in a part of the opcode map that extensions use: where the bytes
 * are, and what other paths there are. `plain` has none. In `joined` code after it is reached on another way, too.
 */
	.text
	.macro unknown
	.byte 0xc4,0xe2,0x7b,0x0f,0xc1
	.endm
	.macro function name
	.globl \name
	.type \name,@function
\name:	.cfi_startproc
	.endm
	.macro end name
	.cfi_endproc
	.size \name,.-\name
	.endm

	function straight
	push %rbx
	.cfi_adjust_cfa_offset 8
	unknown
	call other
	pop %rbx
	.cfi_adjust_cfa_offset -8
	ret
	end straight

	function joined
	sub $24,%rsp
	.cfi_adjust_cfa_offset 24
	test %edi,%edi
	je 1f
	unknown
	call other
1:	add $24,%rsp
	.cfi_adjust_cfa_offset -24
	ret
	end joined

	function jumped
	test %edi,%edi
	jne 2f
	ret
2:	unknown
	ret
	end jumped

	function plain
	push %rbx
	.cfi_adjust_cfa_offset 8
	call straight
	pop %rbx
	.cfi_adjust_cfa_offset -8
	ret
	end plain
	.section .note.GNU-stack,"",@progbits
