/* SPDX-License-Identifier: MIT */
/*
 * Functions that build and leave frames as Linux does it, with frame pointers, and wrongly; stack.objtool has what objtool
 * warns of. With REACHED those that have nothing wrong but code that nothing reaches. For tests/objtool/test_objtool_stack.py.
 */
.macro function name
	.globl \name
	.type \name, @function
\name:
.endm

.macro end name
	.size \name, . - \name
.endm

.macro enter
	push %rbp
	mov %rsp, %rbp
.endm

.macro alternative feature old new
661:	\old
662:	.pushsection .altinstr_replacement, "ax"
663:	\new
664:	.popsection
	.pushsection .altinstructions, "a"
	.long 661b - ., 663b - .
	.word \feature
#ifdef LINUX_6_12
	.word 0
#endif
	.byte 662b - 661b, 664b - 663b
	.popsection
.endm

/* .discard.annotate_insn of 7.2 */
.macro annotate at kind
	.pushsection .discard.annotate_insn, "M", @progbits, 8
	.long \at - ., \kind
	.popsection
.endm

.macro key
1:	jmp 2f
	.pushsection __jump_table, "aw"
	.long 1b - ., 2f - .
	.quad the_key - .
	.popsection
.endm

.text
function right
	call __fentry__
	enter
	push %rbx
	sub $16, %rsp
	call other
	mov %rbx, -8(%rbp)
	add $16, %rsp
	pop %rbx
	pop %rbp
	ret
	int3
end right

/* rsp is aligned, and r10 keeps the CFA. */
function aligned
	lea 8(%rsp), %r10
	and $-32, %rsp
	push -8(%r10)
	enter
	push %r10
	push %rbx
	sub $48, %rsp
	call other
	add $48, %rsp
	pop %rbx
	pop %r10
	pop %rbp
	lea -8(%r10), %rsp
	ret
	int3
end aligned

function aligned_saves_by_mov
	lea 8(%rsp), %r10
	and $-32, %rsp
	push -8(%r10)
	enter
	sub $64, %rsp
	mov %r10, -24(%rbp)
	mov %rbx, -16(%rbp)
	call other
	mov -24(%rbp), %r10
	mov -16(%rbp), %rbx
	leave
	lea -8(%r10), %rsp
	ret
	int3
end aligned_saves_by_mov

function another_stack
	enter
	mov %rsp, (%r11)
	mov %r11, %rsp
	call other
	pop %rsp
	pop %rbp
	ret
	int3
end another_stack

function in_the_middle
	enter
	mov %rsp, %rax
	sub $64, %rsp
	mov %rax, %rsp
	lea -32(%rbp), %rsp
	lea (%rbp), %rsp
	pop %rbp
	jmp other
end in_the_middle

#ifdef REACHED
function behind_a_jump
	jmp other
	int3
	nop
	mov %rax, %rbx
	ret
	int3
end behind_a_jump

function behind_what_does_not_return
	enter
	call panic
	ud2
	mov %rax, %rbx
	ret
	int3
end behind_what_does_not_return

function behind_a_local_one
	enter
	call never
	mov %rax, %rbx
	jmp other
end behind_a_local_one

	.type never, @function
never:	enter
	call panic
	ud2
end never

/* What ends only in others that do not return does not either, global or not, but weak. */
function calls_a_global_one
	enter
	call never_global
end calls_a_global_one

function calls_a_weak_one
	enter
	call never_weak
	pop %rbp
	ret
	int3
end calls_a_weak_one

function never_global
	enter
	call panic
	ud2
end never_global

	.weak never_weak
	.type never_weak, @function
never_weak:
	enter
	call panic
	ud2
end never_weak

function trap_behind_panic
	enter
	call panic
	jmp 1f
1:	ud2
end trap_behind_panic

function sanitizer
	jmp other
	mov %rax, %rbx
	jmp 1f
	int3
1:	call __ubsan_handle_builtin_unreachable
	ret
	int3
end sanitizer

function warns
	enter
	test %edi, %edi
	je 2f
1:	ud2
#ifdef LINUX_7_2
	annotate 1b, 8
#else
1:	.pushsection .discard.reachable
	.long 1b - .
	.popsection
#endif
2:	pop %rbp
	ret
	int3
end warns

function ignored
	jmp other
	mov %rax, %rbx
end ignored
	.pushsection .discard.func_stack_frame_non_standard, "aw"
	.quad ignored
	.popsection

function by_table
	cmp $3, %edi
	ja 1f
	mov %edi, %edi
	jmp *table(, %rdi, 8)
2:	mov $1, %eax
	ret
	int3
3:	mov $2, %eax
	ret
	int3
1:	ret
	int3
end by_table
	.section .rodata
table:	.quad 2b, 3b, 2b, 1b
	.text
#else

function without_pointer
	push %rbx
	call other
	pop %rbx
	ret
	int3
end without_pointer

function pointer_without_save
	mov %rsp, %rbp
	call other
	ret
	int3
end pointer_without_save

function indirect_without_pointer
	call *%rax
	ret
	int3
end indirect_without_pointer

function returns_with_a_frame
	enter
	ret
	int3
end returns_with_a_frame

function returns_with_a_register
	push %rbx
	add $8, %rsp
	ret
	int3
end returns_with_a_register

function tail_with_a_frame
	enter
	jmp other
end tail_with_a_frame

function indirect_tail_with_a_frame
	push %r12
	jmp *%rax
	int3
end indirect_tail_with_a_frame

function branch_with_a_frame
	push %r12
	je other
	pop %r12
	ret
	int3
end branch_with_a_frame

function to_itself
	push %r12
	je to_itself
	pop %r12
	ret
	int3
end to_itself

function aligns_without
	and $-16, %rsp
	ret
	int3
end aligns_without

function aligns_with_another
	enter
	lea 8(%rsp), %r10
	lea 8(%rbp), %r10
	and $-16, %rsp
	leave
	ret
	int3
end aligns_with_another

function scratch
	push %rbp
	xor %ebp, %ebp
	mov (%rdi, %rbp), %rax
	pop %rbp
	ret
	int3
end scratch

function sets_the_pointer
	enter
	lea 8(%rdi), %rbp
	pop %rbp
	ret
	int3
end sets_the_pointer

function copies_to_the_pointer
	enter
	mov %rdi, %rbp
	call other
	pop %rbp
	ret
	int3
end copies_to_the_pointer

function copies_a_copy
	enter
	mov %rsp, %rdx
	mov %rdx, %rcx
	sub $32, %rsp
	mov %rcx, %rsp
	pop %rbp
	ret
	int3
end copies_a_copy

function lost_stack
	mov %rdi, %rsp
	push %rax
	ret
	int3
end lost_stack

function two_depths
	test %edi, %edi
	je 1f
	push %rax
1:	mov (%rdi), %rax
	ret
	int3
end two_depths

function two_registers
	test %edi, %edi
	je 1f
	push %rbx
	jmp 2f
1:	push %r12
2:	mov (%rdi), %rax
	jmp 2b
end two_registers

function aligned_or_not
	lea 8(%rsp), %r10
	test %edi, %edi
	je 1f
	and $-32, %rsp
1:	push -8(%r10)
	pop %rax
	ret
	int3
end aligned_or_not

function loop_that_grows
	enter
1:	push %rax
	dec %edi
	jne 1b
	leave
	ret
	int3
end loop_that_grows

function restores_from_memory
	sub $24, %rsp
	mov %rbx, 8(%rsp)
	mov %rbp, 16(%rsp)
	mov 8(%rsp), %rbx
	mov 16(%rsp), %rbp
	add $24, %rsp
	ret
	int3
end restores_from_memory

function restores_the_wrong_way
	sub $24, %rsp
	mov %rbx, 8(%rsp)
	mov %r12, 16(%rsp)
	mov 16(%rsp), %rbx
	mov 8(%rsp), %r12
	add $24, %rsp
	ret
	int3
end restores_the_wrong_way

function pushes_and_pops_memory
	pushf
	pop 8(%rdi)
	push 8(%rdi)
	popf
	push $5
	push %fs
	pop %fs
	ret
	int3
end pushes_and_pops_memory

function direction_down
	std
	ret
	int3
end direction_down

function direction_twice
	std
	std
	cld
	ret
	int3
end direction_twice

function direction_up
	cld
	ret
	int3
end direction_up

function direction_down_at_a_call
	enter
	std
	call other
	cld
	pop %rbp
	ret
	int3
end direction_down_at_a_call

function leaves_the_kernel
	sysretq
end leaves_the_kernel

function far_return
	lretq
end far_return

function interrupt_return
	mov %ss, %eax
	push %rax
	push %rsp
	addq $8, (%rsp)
	pushf
	mov %cs, %eax
	push %rax
	push $1f
	iretq
1:	ret
	int3
end interrupt_return

function alternative_grows
	alternative 100 "nop; nop; nop", "push %rax; nop; nop"
	ret
	int3
end alternative_grows

function alternative_conflicts
	alternative 100 "push %rax; nop; pop %rax", "nop; push %rax; pop %rax"
	ret
	int3
end alternative_conflicts

function alternative_is_short
	enter
	alternative 100 "push %rax; pop %rax; nop; nop; nop", "push %rax; pop %rax"
	pop %rbp
	ret
	int3
end alternative_is_short

function alternative_calls
	alternative 100 "nop; nop; nop; nop; nop", "call other"
	ret
	int3
end alternative_calls

/* popcnt is assumed. */
function alternative_rules
	alternative 4*32+23 "call other", ".byte 0xf3, 0x48, 0x0f, 0xb8, 0xc7"
	ret
	int3
end alternative_rules

function alternative_is_not_followed
1:	alternative 100 "nop; nop; nop; nop; nop", "call other"
#ifdef LINUX_7_2
	annotate 661b, 6
#else
	.pushsection .discard.ignore_alts
	.quad 1b
	.popsection
#endif
	ret
	int3
end alternative_is_not_followed

function key_with_a_frame
	push %rbx
	key
	pop %rbx
	ret
	int3
2:	ret
	int3
end key_with_a_frame

function fixup_with_a_frame
	push %rbx
1:	mov (%rdi), %rax
	pop %rbx
2:	ret
	int3
	.pushsection __ex_table, "a"
	.long 1b - ., 2b - ., 1
	.popsection
end fixup_with_a_frame

function has_a_cold_part
	push %rbx
	test %edi, %edi
	je 1f
	pop %rbx
	ret
	int3
	.pushsection .text.unlikely, "ax"
	.type has_a_cold_part.cold, @function
has_a_cold_part.cold:
1:	call other
	ud2
end has_a_cold_part.cold
	.popsection
end has_a_cold_part

function into_another
	push %rbx
	je in_another
	pop %rbx
	ret
	int3
end into_another

	.type has_a_middle, @function
has_a_middle:
	push %rbx
.globl in_another
in_another:
	pop %rbx
	ret
	int3
end has_a_middle

	.type to_the_middle, @function
to_the_middle:
	push %rbx
	je .Lmiddle
	pop %rbx
	ret
	int3
end to_the_middle

	.type with_a_middle, @function
with_a_middle:
	push %rbx
.Lmiddle:
	pop %rbx
	ret
	int3
end with_a_middle

/* Entry code is no function, and may leave a frame to one. */
	.globl entry_code
entry_code:
.Lentry_code:
	.pushsection .discard.unwind_hints
	.long .Lentry_code - .
	.short 0
#ifdef LINUX_6_12
	.byte 0, 5, 0
#else
	.byte 0, 3, 0
#endif
	.balign 4
	.popsection
	push %rbx
	jmp right
	.size entry_code, . - entry_code

	.globl without_a_size
	.type without_a_size, @function
without_a_size:
	ret
	int3

function ignored
	push %rbx
.Linside:
	.pushsection .discard.unwind_hints
	.long .Linside - .
	.short 0
#ifdef LINUX_6_12
	.byte 0, 5, 0
#else
	.byte 0, 3, 0
#endif
	.balign 4
	.popsection
	call other
	ret
	int3
end ignored
	.pushsection .discard.func_stack_frame_non_standard, "aw"
	.quad ignored
	.popsection

function by_table
	enter
	mov %edi, %edi
	jmp *table(, %rdi, 8)
2:	mov $1, %eax
	pop %rbp
	ret
	int3
3:	mov $2, %eax
	ret
	int3
end by_table
	.section .rodata
	.quad 2b
table:	.quad 2b, 2b, 3b
	.text

function falls_through
	mov %rax, %rbx
end falls_through

function next
	ret
	int3
end next

	.section .text.end, "ax"
function to_the_end
	mov %rax, %rbx
end to_the_end
#endif
