/* SPDX-License-Identifier: MIT */
/* REX2.W push and pop, as in Intel's libsvml of 2026. */
	.globl f
	.type f,@function
f:	.cfi_startproc
	endbr64
	.byte 0xd5,0x08,0x55	# pushp %rbp (REX2.W push: Intel SDM, APX)
	.cfi_adjust_cfa_offset 8
	call g
	.byte 0xd5,0x08,0x5d	# popp %rbp
	.cfi_adjust_cfa_offset -8
	ret
	.cfi_endproc
	.size f,.-f
	.section .note.GNU-stack,"",@progbits
