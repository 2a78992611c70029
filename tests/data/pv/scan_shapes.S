/* SPDX-License-Identifier: MIT */
/*
 * Calls and jumps through an etched object, in position-independent code. After each
 * site, what `etch inspect sites` is to say: its form and slot, or the reason why it is
 * none; per function in order of address. Kinds other than call and jmp: only escape.
 */
#include <etch/extable.h>

	.macro shape name
	.globl \name
	.hidden \name
	.type \name, @function
\name:
	.endm
	.macro end name
	.size \name, . - \name
	.endm

	.section etched,"aw",@progbits
	.balign 4096
	.globl ops
	.hidden ops
	.type ops, @object
	.size ops, 64
ops:	.quad target, 0, target, 0, 0, 0, 0, 0
	.hidden big
	.globl big
	.type big, @object
	.size big, 2048
big:	.zero 2048
	.balign 4096

	.text
	.balign 16
shape target
	ret
end target

/* ---- memory operands ---- */
shape m_call
	call *ops+16(%rip)		# WANT call-rip 16
	ret
end m_call
shape m_jump
	jmp *ops(%rip)			# WANT jmp-rip 0
end m_jump
shape m_notrack
	notrack call *ops+8(%rip)	# WANT call-rip 8
	notrack jmp *ops+8(%rip)	# WANT jmp-rip 8
end m_notrack
shape m_rex
	.byte 0x40
	call *ops(%rip)			# WANT call-rip 0
	.byte 0x48
	call *ops(%rip)			# WANT no: unusual call encoding
	.byte 0xf2
	call *ops(%rip)			# WANT no: unusual call encoding
	ret
end m_rex
shape m_wrong
	.byte 0xff, 0x1d		/* lcall *ops(%rip) */
	.reloc ., R_X86_64_PC32, ops - 4
	.long 0				# WANT no: a far or 16-bit call
	call *ops+60(%rip)		# WANT no: its slot is past the end
	call *ops+12(%rip)		# WANT no: its slot is not aligned
	ret
end m_wrong
shape m_base
	lea ops(%rip), %rax
	call *(%rax)			# WANT call-base 0
	lea ops(%rip), %rbx
	call *8(%rbx)			# WANT call-base 8
	call *16(%rbx)			# WANT call-base 16
	lea ops+32(%rip), %r12
	call *-16(%r12)			# WANT call-base 16
	lea ops(%rip), %r13
	call *0(%r13)			# WANT call-base 0
	lea big(%rip), %r14
	call *1016(%r14)		# WANT call-base 1016
	call *1024(%r14)		# WANT no: its offset in the table is too large
	lea ops+4(%rip), %r14
	call *4(%r14)			# WANT no: its offset in the table is not a multiple of 8
	lea ops(%rip), %r15
	mov %r15, %rbp
	add $8, %rbp
	xor %ebx, %ebx			/* a caller finds nothing in what it keeps */
	xor %r12d, %r12d
	xor %r13d, %r13d
	xor %r14d, %r14d
	xor %r15d, %r15d
	mov %rbp, %rax
	xor %ebp, %ebp
	jmp *8(%rax)			# WANT jmp-base 16
end m_base
shape m_index
	lea ops(%rip), %rax		/* the index may be anything, but it is no escape */
	call *(%rax,%rdi,8)		# WANT no: indexed
	ret
end m_index
shape m_two
	lea ops(%rip), %rax
	test %edi, %edi
	je 1f
	add $8, %rax
1:	call *(%rax)			# WANT no: its address differs between paths
	ret
end m_two
shape m_loop				/* a hoisted address */
	push %rbx
	lea ops(%rip), %rbx
1:	call *8(%rbx)			# WANT call-base 8
	dec %ebp
	jne 1b
	pop %rbx
	jmp *ops(%rip)			# WANT jmp-rip 0
end m_loop
shape m_argument
	lea ops(%rip), %rdi
	call *8(%rdi)			# WANT escape; call-base 8
	ret
end m_argument

/* ---- the pointer in a register ---- */
shape r_call
	mov ops+16(%rip), %rax
	call *%rax			# WANT call-reg 16
	mov ops+8(%rip), %r11
	jmp *%r11			# WANT jmp-reg 8
end r_call
shape r_notrack
	mov ops(%rip), %r10
	notrack call *%r10		# WANT call-reg 0
	ret
end r_notrack
shape r_copy
	mov ops(%rip), %rax
	mov %rax, %rcx
	mov %rcx, %rbx
	xor %ecx, %ecx
	test %rax, %rax
	je 1f
	call *%rbx			# WANT call-reg 0
1:	ret
end r_copy
shape r_base
	lea ops(%rip), %rax
	mov 16(%rax), %rdx
	call *%rdx			# WANT call-reg 16
	ret
end r_base
shape r_same				/* the same slot on both paths */
	test %edi, %edi
	je 1f
	mov ops(%rip), %rax
	jmp 2f
1:	mov ops(%rip), %rax
2:	call *%rax			# WANT call-reg 0
	ret
end r_same
shape r_two_slots
	mov ops(%rip), %rax
	test %edi, %edi
	je 1f
	mov ops+8(%rip), %rax
1:	call *%rax			# WANT no: the pointer comes from different slots
	ret
end r_two_slots
shape r_other
	lea target(%rip), %rax
	test %edi, %edi
	je 1f
	mov ops(%rip), %rax
1:	call *%rax			# WANT no: the pointer comes from different slots
	ret
end r_other
shape r_one_path			/* ... but here it is */
	lea target(%rip), %rax
	test %edi, %edi
	je 1f
	mov ops(%rip), %rax
	call *%rax			# WANT call-reg 0
1:	ret
end r_one_path
shape r_cmov
	mov ops(%rip), %rax
	test %edi, %edi
	cmovne %rsi, %rax
	call *%rax			# WANT no: the pointer was modified after
	ret
end r_cmov
shape r_computed
	mov ops(%rip), %rax
	add $8, %rax
	call *%rax			# WANT no: the pointer was modified after
	mov ops(%rip), %rcx
	mov $0, %cl
	call *%rcx			# WANT no: the pointer was modified after
	mov ops(%rip), %rdx
	mov %edx, %edx
	call *%rdx			# WANT no: the pointer was modified after
	mov ops(%rip), %rax
	xchg %rax, %rsi
	call *%rsi			# WANT no: the pointer was modified after
	mov ops(%rip), %rax
	lea 16(%rax), %rdi
	call *%rdi			# WANT no: the pointer was modified after
	ret
end r_computed
shape r_gone				/* not through ops at all: nothing to say */
	mov ops(%rip), %rax
	lea target(%rip), %rax
	call *%rax
	mov ops(%rip), %rax
	xor %eax, %eax
	call *%rax
	mov ops(%rip), %eax
	call *%rax
	mov ops(%rip), %rax
	call *(%rdi)
	call *%rax
	ret
end r_gone
shape r_kept				/* old = ops.f; set(&ops.f, new); old() */
	mov ops(%rip), %rbx
	call other
	call *%rbx			# WANT no: the pointer is kept across a call or barrier
	mov ops+8(%rip), %rbx
1:	call *%rbx			# WANT no: the pointer is kept across a call or barrier
	dec %ebp
	jne 1b
	mov ops(%rip), %rax
	lock incl (%rdi)
	call *%rax			# WANT no: the pointer is kept across a call or barrier
	mov ops(%rip), %rax
2:	testl $1, (%rdi)			/* waits for another thread */
	je 2b
	call *%rax			# WANT no: the pointer is kept across a call or barrier
	mov ops(%rip), %rbx
	syscall
	call *%rbx			# WANT no: the pointer is kept across a call or barrier
	mov ops(%rip), %rax
	mov %rdi, ops+8(%rip)
	call *%rax			# WANT no: the pointer is kept across a call or barrier
	mov ops(%rip), %rax		/* ... by another thread, which is waited for */
2:	cmpl $0, (%rdi)
	je 2b
	call *%rax			# WANT no: the pointer is kept across a call or barrier
	ret
end r_kept
shape r_indexed
	lea ops(%rip), %rax
	mov (%rax,%rdi,8), %rax
	call *%rax			# WANT no: the pointer was read from different places
	ret
end r_indexed
shape r_spilled				/* not followed */
	mov ops(%rip), %rax
	mov %rax, -8(%rsp)
	mov -8(%rsp), %rax
	call *%rax
	ret
end r_spilled

/* ---- control that comes from elsewhere ---- */
shape e_table				/* case 0: f = ops.f; falls into case 1: f(); f = rsi before */
	mov %rsi, %rax
	lea e_entries(%rip), %rdx
	movslq (%rdx,%rdi,4), %rcx
	add %rdx, %rcx
	notrack jmp *%rcx
1:	mov ops(%rip), %rax
	nop
2:	call *%rax			# WANT no: the pointer comes from different slots
	ret
3:	mov ops(%rip), %rax
	call *%rax			# WANT call-reg 0
	call *ops(%rip)			# WANT call-rip 0
	ret
end e_table
	.section .rodata
	.balign 4
e_entries:
	.long 1b - e_entries
	.long 2b - e_entries
	.long 3b - e_entries
	.text
shape e_cold				/* the cold part of a function comes back into it */
	lea ops(%rip), %rbx
	mov ops(%rip), %rax
	test %edi, %edi
	jne e_cold.cold			# WANT escape
e_back:	call *%rax			# WANT no: the pointer comes from different slots
	call *8(%rbx)			# WANT no: its address differs between paths
	ret
end e_cold
	.section .text.unlikely,"ax",@progbits
	.type e_cold.cold, @function
e_cold.cold:
	lea target(%rip), %rax
	mov %rbx, %rcx
	jmp e_back
	.size e_cold.cold, . - e_cold.cold
	.text
shape e_label				/* goto *p */
	lea 1f(%rip), %rdx
	mov %rdx, (%rsi)
	mov ops(%rip), %rax
	test %edi, %edi
	je 1f
	jmp *(%rsi)
1:	call *%rax			# WANT no: the pointer comes from different slots
	ret
end e_label
shape e_word				/* a label in data */
	mov ops(%rip), %rax
e_in:	call *%rax			# WANT no: the pointer comes from different slots
	ret
end e_word
	.section .data.rel.ro.local,"aw",@progbits
	.balign 8
	.quad e_in
	.text
shape e_tail				/* a jump that leaves is no way back in */
	mov ops(%rip), %rax
	test %rax, %rax
	je 1f
	jmp *%rax			# WANT jmp-reg 0
1:	jmp *8(%rdi)
end e_tail
shape e_fault				/* only a fault leads to the fixup, with rax and rcx */
	lea ops(%rip), %rax
	mov ops(%rip), %rcx
1:	mov (%rdi), %rdx
	xor %eax, %eax
	ret
2:	call *%rcx			# WANT no: the pointer comes from different slots
	ret
3:	call *8(%rax)			# WANT no: its address differs between paths
	ret
	ETCH_EX_PLAIN 1b, 2b
	ETCH_EX_PLAIN 1b, 3b
end e_fault
shape e_reckoned			/* goto *(&&a + constant[i]): no table says where to */
	lea 1f(%rip), %rdx
	mov ops+8(%rip), %rax
	add %rdi, %rdx
	jmp *%rdx
1:	mov ops(%rip), %rax
	nop
	call *%rax			# WANT no: the pointer comes from different slots
	ret
end e_reckoned
shape other
	ret
end other
	.section .note.GNU-stack,"",@progbits
