/* SPDX-License-Identifier: MIT */
/*
 * Code that LLVM 19 compiled for APX (llc -O2 -mattr=+push2pop2,+ppx,+egpr,+ndd,+ccmp,+cf,+nf,+zu), whose instructions
 * no assembler of Debian 12 knows: callee-saved registers in pairs, r16 to r31, third operands, cfcmov, a realigned frame
 * and one of variable size. Its .eh_frame is LLVM's.
 */
	.text
	.globl	saves
	.p2align	4, 0x90
	.type	saves,@function
saves:
	.cfi_startproc
	pushq %rax
	.cfi_def_cfa_offset 16
	.byte	0x62,0xd4,0xd4,0x18,0xff,0xf7	# push2p %r15, %rbp
	.cfi_def_cfa_offset 32
	.byte	0x62,0xd4,0x8c,0x18,0xff,0xf5	# push2p %r13, %r14
	.cfi_def_cfa_offset 48
	.byte	0x62,0xf4,0x9c,0x18,0xff,0xf3	# push2p %rbx, %r12
	.cfi_def_cfa_offset 64
	subq $16, %rsp
	.cfi_def_cfa_offset 80
	.cfi_offset %rbx, -64
	.cfi_offset %r12, -56
	.cfi_offset %r13, -48
	.cfi_offset %r14, -40
	.cfi_offset %r15, -32
	.cfi_offset %rbp, -24
	movq %rcx, %rbx
	movq %rdx, %r14
	movq %rsi, %r15
	movq %rdi, 8(%rsp)
	leaq 8(%rsp), %r12
	movq %r12, %rdi
	callq g@PLT
	movq %rax, %r13
	movq %r12, %rdi
	callq g@PLT
	movq %rax, %rbp
	movq %r12, %rdi
	callq g@PLT
	imulq %rax, %rbx
	movq %r12, %rdi
	callq g@PLT
	.byte	0x62,0x74,0xf4,0x1c,0x01,0xfd	# {nf} addq %r15, %rbp, %rcx
	imulq %r14, %rcx
	.byte	0x62,0x54,0xec,0x1c,0x01,0xfd	# {nf} addq %r15, %r13, %rdx
	addq %rbx, %rdx
	addq %rdx, %rax
	addq %rcx, %rax
	addq $16, %rsp
	.cfi_def_cfa_offset 64
	.byte	0x62,0xd4,0xe4,0x18,0x8f,0xc4	# pop2p %r12, %rbx
	.cfi_def_cfa_offset 48
	.byte	0x62,0xd4,0x94,0x18,0x8f,0xc6	# pop2p %r14, %r13
	.cfi_def_cfa_offset 32
	.byte	0x62,0xf4,0x84,0x18,0x8f,0xc5	# pop2p %rbp, %r15
	.cfi_def_cfa_offset 16
	popq %rcx
	.cfi_def_cfa_offset 8
	retq
.Lfunc_end0:
	.size	saves, .Lfunc_end0-saves
	.cfi_endproc
	.globl	pressure
	.p2align	4, 0x90
	.type	pressure,@function
pressure:
	.cfi_startproc
	.byte	0xd5,0x09,0x56	# pushp %r14
	.cfi_def_cfa_offset 16
	.byte	0xd5,0x08,0x53	# pushp %rbx
	.cfi_def_cfa_offset 24
	pushq %rax
	.cfi_def_cfa_offset 32
	.cfi_offset %rbx, -24
	.cfi_offset %r14, -16
	.byte	0xd5,0x48,0x8b,0x2f	# movq (%rdi), %r21
	movq 8(%rdi), %rax
	movq 16(%rdi), %r8
	movq 24(%rdi), %rcx
	movq 32(%rdi), %rdx
	movq 40(%rdi), %r10
	.byte	0xd5,0x48,0x8b,0x47,0x30	# movq 48(%rdi), %r16
	movq 56(%rdi), %r11
	.byte	0xd5,0x48,0x8b,0x4f,0x40	# movq 64(%rdi), %r17
	.byte	0xd5,0x48,0x8b,0x67,0x48	# movq 72(%rdi), %r20
	.byte	0xd5,0x48,0x8b,0x5f,0x50	# movq 80(%rdi), %r19
	.byte	0xd5,0x48,0x8b,0x57,0x58	# movq 88(%rdi), %r18
	movq 96(%rdi), %r9
	movq 104(%rdi), %rbx
	testq %rsi, %rsi
	jle .LBB1_1
	.byte	0xd5,0x50,0x31,0xf6	# xorl %r22d, %r22d
	.p2align	4, 0x90
.LBB1_4:
	.byte	0x62,0xfc,0xc4,0x14,0xc1,0xfd,0x03	# {nf} sarq $3, %r21, %r23
	.byte	0x62,0xfc,0x8c,0x1c,0x31,0xc7	# {nf} xorq %rax, %r23, %r14
	.byte	0x62,0x7c,0xfc,0x1c,0x01,0xc5	# {nf} addq %r8, %r21, %rax
	.byte	0x62,0xfc,0x3c,0x1c,0x83,0xe5,0x07	# {nf} andl $7, %r21d, %r8d
	.byte	0x62,0x74,0xbc,0x1c,0x29,0xc1	# {nf} subq %r8, %rcx, %r8
	.byte	0x62,0xd4,0xf4,0x1c,0x31,0xd6	# {nf} xorq %rdx, %r14, %rcx
	.byte	0x62,0x74,0xec,0x1c,0x01,0xd0	# {nf} addq %r10, %rax, %rdx
	.byte	0x62,0x7c,0xac,0x1c,0x29,0xc0	# {nf} subq %r8, %r16, %r10
	.byte	0x62,0x74,0xfc,0x14,0x31,0xd9	# {nf} xorq %r11, %rcx, %r16
	.byte	0x62,0xe4,0xa4,0x1c,0x01,0xca	# {nf} addq %r17, %rdx, %r11
	.byte	0x62,0x7c,0xf4,0x14,0x29,0xd4	# {nf} subq %r10, %r20, %r17
	.byte	0x62,0xec,0xdc,0x14,0x31,0xd8	# {nf} xorq %r19, %r16, %r20
	.byte	0x62,0xc4,0xe4,0x14,0x01,0xd3	# {nf} addq %r18, %r11, %r19
	.byte	0x62,0xc4,0xec,0x14,0x29,0xc9	# {nf} subq %r17, %r9, %r18
	.byte	0x62,0xfc,0xb4,0x1c,0x31,0xdc	# {nf} xorq %rbx, %r20, %r9
	.byte	0xd5,0x58,0x01,0xdd	# addq %r19, %r21
	cmpq %rcx, %r8
	.byte	0x62,0xec,0xfc,0x0c,0x45,0xf7	# cfcmovneq %r22, %r23
	cmpq %rax, %r14
	.byte	0x62,0xec,0xfc,0x0c,0x4c,0xff	# cfcmovlq %r23, %r23
	.byte	0x62,0xec,0xe4,0x1c,0x01,0xfd	# {nf} addq %r23, %r21, %rbx
	.byte	0xd5,0x18,0xff,0xc6	# incq %r22
	.byte	0xd5,0x48,0x39,0xf6	# cmpq %r22, %rsi
	.byte	0xd5,0x1c,0x89,0xf5	# movq %r14, %r21
	jne .LBB1_4
	jmp .LBB1_2
.LBB1_1:
	.byte	0xd5,0x49,0x89,0xee	# movq %r21, %r14
.LBB1_2:
	.byte	0x62,0xec,0xcc,0x1c,0x31,0xe1	# {nf} xorq %r20, %r17, %rsi
	.byte	0xd5,0x48,0x31,0xde	# xorq %r19, %rsi
	.byte	0xd5,0x48,0x31,0xd6	# xorq %r18, %rsi
	.byte	0xd5,0x49,0x31,0xc2	# xorq %r16, %r10
	xorq %r11, %r10
	xorq %rdx, %rcx
	xorq %r8, %rax
	xorq %rcx, %rax
	xorq %r10, %rax
	xorq %rsi, %rax
	.byte	0x62,0xd4,0xf4,0x1c,0x31,0xd9	# {nf} xorq %rbx, %r9, %rcx
	xorq %r14, %rcx
	xorq %rcx, %rax
	movq %rax, (%rdi)
	callq g@PLT
	.byte	0x62,0xd4,0xf4,0x1c,0x01,0xde	# {nf} addq %rbx, %r14, %rcx
	addq %rcx, %rax
	addq $8, %rsp
	.cfi_def_cfa_offset 24
	.byte	0xd5,0x08,0x5b	# popp %rbx
	.cfi_def_cfa_offset 16
	.byte	0xd5,0x09,0x5e	# popp %r14
	.cfi_def_cfa_offset 8
	retq
.Lfunc_end1:
	.size	pressure, .Lfunc_end1-pressure
	.cfi_endproc
	.globl	variable
	.p2align	4, 0x90
	.type	variable,@function
variable:
	.cfi_startproc
	.byte	0xd5,0x08,0x55	# pushp %rbp
	.cfi_def_cfa_offset 16
	.cfi_offset %rbp, -16
	movq %rsp, %rbp
	.cfi_def_cfa_register %rbp
	.byte	0x62,0xd4,0x84,0x18,0xff,0xf6	# push2p %r14, %r15
	.byte	0x62,0xf4,0x9c,0x18,0xff,0xf3	# push2p %rbx, %r12
	.cfi_offset %rbx, -48
	.cfi_offset %r12, -40
	.cfi_offset %r14, -32
	.cfi_offset %r15, -24
	movl %edi, %ebx
	movl %edi, %eax
	movq %rsp, %r15
	leaq 15(,%rax,8), %rax
	andq $-16, %rax
	.byte	0x62,0xd4,0x8c,0x1c,0x29,0xc7	# {nf} subq %rax, %r15, %r14
	movq %r14, %rsp
	.byte	0x62,0xf4,0x9c,0x1c,0xf7,0xd8	# {nf} negq %rax, %r12
	movq %r14, %rdi
	callq g@PLT
	movl (%r15,%r12), %esi
	movl %ebx, %edi
	callq h@PLT
	movq %r14, %rdi
	callq g@PLT
	leaq -32(%rbp), %rsp
	.byte	0x62,0xd4,0xe4,0x18,0x8f,0xc4	# pop2p %r12, %rbx
	.byte	0x62,0xd4,0x8c,0x18,0x8f,0xc7	# pop2p %r15, %r14
	.byte	0xd5,0x08,0x5d	# popp %rbp
	.cfi_def_cfa %rsp, 8
	retq
.Lfunc_end2:
	.size	variable, .Lfunc_end2-variable
	.cfi_endproc
	.globl	aligned
	.p2align	4, 0x90
	.type	aligned,@function
aligned:
	.cfi_startproc
	.byte	0xd5,0x08,0x55	# pushp %rbp
	.cfi_def_cfa_offset 16
	.cfi_offset %rbp, -16
	movq %rsp, %rbp
	.cfi_def_cfa_register %rbp
	.byte	0x62,0xf4,0x8c,0x18,0xff,0xf3	# push2p %rbx, %r14
	andq $-64, %rsp
	subq $192, %rsp
	.cfi_offset %rbx, -32
	.cfi_offset %r14, -24
	movl %esi, %ebx
	movl %edi, %r14d
	movq %rsp, %rdi
	callq g@PLT
	movl %r14d, %edi
	movl %ebx, %esi
	callq h@PLT
	movslq %r14d, %rcx
	movsbl (%rsp,%rcx), %ecx
	addl %ecx, %eax
	leaq -16(%rbp), %rsp
	.byte	0x62,0xd4,0xe4,0x18,0x8f,0xc6	# pop2p %r14, %rbx
	.byte	0xd5,0x08,0x5d	# popp %rbp
	.cfi_def_cfa %rsp, 8
	retq
.Lfunc_end3:
	.size	aligned, .Lfunc_end3-aligned
	.cfi_endproc
	.section	".note.GNU-stack","",@progbits
