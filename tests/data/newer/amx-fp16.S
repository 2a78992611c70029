/* SPDX-License-Identifier: MIT */
/* An instruction of AMX-FP16, as in libtensorflow, in a function without .cfi. */
	.globl f
	.type f,@function
f:	sub $24,%rsp
	.byte 0xc4,0xe2,0x6b,0x5c,0xc1	# tdpfp16ps %tmm2,%tmm1,%tmm0
	call g
	add $24,%rsp
	ret
	.size f,.-f
	.section .note.GNU-stack,"",@progbits
