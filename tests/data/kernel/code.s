/* SPDX-License-Identifier: MIT */
/* Code and data that tables of the kernel speak of, by its numbered labels; the tables come behind it. */
	.text
	.globl f
	.type f, @function
f:	nop
	push %rbp
1:	lock incl (%rdi)
2:	.byte 0x0f, 0x1f, 0x44, 0, 0
3:	call g
4:	mov (%rdi), %rax
5:	pop %rbp
	ret
	.size f, . - f
	.globl g
	.type g, @function
g:	ret
	.size g, . - g
	.section .altinstr_replacement, "ax"
6:	popcnt %edi, %eax
	.data
	.balign 8
	.type key, @object
key:	.quad 0
	.size key, 8
	.section .rodata.str, "a"
7:	.asciz "drivers/x.c"
8:	.asciz "it is %d"
