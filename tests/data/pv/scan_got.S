/* SPDX-License-Identifier: MIT */
/* As scan_shapes.S: an object that another module may define anew. */
	.section etched,"aw",@progbits
	.balign 4096
	.globl ops
	.type ops, @object
	.size ops, 2048
ops:	.zero 2048
	.globl inside
	.type inside, @object
	.size inside, 8
	.set inside, ops + 8
	.balign 4096

	.text
	.balign 16
	.globl g_base
	.type g_base, @function
g_base:
	mov ops@GOTPCREL(%rip), %rax
	call *(%rax)			# WANT call-base 0
	mov ops@GOTPCREL(%rip), %r12
	call *16(%r12)			# WANT call-base 16
	mov ops@GOTPCREL(%rip), %rbx
	mov %rbx, %r13
	call *8(%r13)			# WANT call-base 8
	add $8, %rbx
	call *8(%rbx)			# WANT no: a table inside an object reached through the GOT
	xor %ebx, %ebx
	xor %r12d, %r12d
	xor %r13d, %r13d
	mov ops@GOTPCREL(%rip), %rax
	jmp *8(%rax)			# WANT jmp-base 8
	.size g_base, . - g_base
	.type g_pointer, @function
g_pointer:
	mov ops@GOTPCREL(%rip), %rax
	mov 16(%rax), %rdx
	call *%rdx			# WANT call-reg 16
	mov ops@GOTPCREL(%rip), %rax
	mov 1024(%rax), %rdx
	call *%rdx			# WANT no: its offset in the table is too large
	mov ops@GOTPCREL(%rip), %rax
	mov (%rax), %rdx
	jmp *%rdx			# WANT jmp-reg 0
	.size g_pointer, . - g_pointer
	.type g_inside, @function
g_inside:
	mov inside@GOTPCREL(%rip), %rax
	call *(%rax)			# WANT no: its address differs between paths
	ret
	.size g_inside, . - g_inside
	.section .note.GNU-stack,"",@progbits
