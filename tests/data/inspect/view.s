# SPDX-License-Identifier: MIT
# One function with all that etch inspect code draws: arrows that nest and meet, a call, a
# reference to a string, saved registers, padding, a jump that leaves. Assembled, so that
# what is expected depends on no compiler.
	.text
	.globl	view
	.type	view, @function
view:
	.cfi_startproc
	pushq	%rbp
	.cfi_def_cfa_offset 16
	.cfi_offset 6, -16
	pushq	%rbx
	.cfi_def_cfa_offset 24
	.cfi_offset 3, -24
	subq	$8, %rsp
	.cfi_def_cfa_offset 32
	movl	%edi, %ebx
	testl	%edi, %edi
	je	.Lnone
.Lagain:
	leaq	.Lhello(%rip), %rdi
	call	puts@PLT
	testl	%eax, %eax
	js	.Lout
	cmpl	$7, %eax
	je	.Lskip
	addl	shared(%rip), %ebx
.Lskip:
	decl	%ebx
	jne	.Lagain
.Lnone:
	xorl	%eax, %eax
.Lout:
	addq	$8, %rsp
	.cfi_def_cfa_offset 24
	popq	%rbx
	.cfi_restore 3
	.cfi_def_cfa_offset 16
	popq	%rbp
	.cfi_restore 6
	.cfi_def_cfa_offset 8
	ret
	.cfi_endproc
	.size	view, .-view

	.globl	leave
	.type	leave, @function
leave:
	.cfi_startproc
	testl	%edi, %edi
	jne	view
	jmp	other
	.cfi_endproc
	.size	leave, .-leave

	.section	.rodata.str1.1,"aMS",@progbits,1
.Lhello:
	.string	"hello, \"world\"\n"

	.data
	.type	shared, @object
	.size	shared, 4
shared:
	.long	1
	.section	.note.GNU-stack,"",@progbits
