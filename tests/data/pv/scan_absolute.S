/* SPDX-License-Identifier: MIT */
/* As scan_shapes.S: code that is linked to a fixed address. */
	.section etched,"aw",@progbits
	.balign 4096
	.globl ops
	.type ops, @object
	.size ops, 64
ops:	.quad _start, 0, 0, 0, 0, 0, 0, 0
	.balign 4096

	.text
	.balign 16
	.globl _start
	.type _start, @function
_start:
	call *ops+8			# WANT call-abs 8
	notrack call *ops+8		# WANT call-abs 8
	jmp *ops			# WANT jmp-abs 0
	.size _start, . - _start
	.type a_index, @function
a_index:
	call *ops(,%rdi,8)		# WANT no: indexed
	jmp *ops+8(,%rdi,8)		# WANT no: indexed
	.size a_index, . - a_index
	.type a_immediate, @function
a_immediate:
	mov $ops, %eax
	call *16(%rax)			# WANT call-base 16
	mov $ops+8, %rbx
	call *(%rbx)			# WANT call-base 8
	movabs $ops, %rax
	mov 24(%rax), %rax
	call *%rax			# WANT call-reg 24
	mov ops+16, %rax
	xor %ebx, %ebx
	jmp *%rax			# WANT jmp-reg 16
	.size a_immediate, . - a_immediate
	.type a_table, @function
a_table:
	mov %rsi, %rax
	jmp *a_entries(,%rdi,8)
1:	mov ops, %rax
2:	call *%rax			# WANT no: the pointer comes from different slots
	ret
	.size a_table, . - a_table
	.section .rodata
	.balign 8
a_entries:
	.quad 1b, 2b
	.section .note.GNU-stack,"",@progbits
