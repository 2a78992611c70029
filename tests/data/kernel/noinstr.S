/* SPDX-License-Identifier: MIT */
/*
 * Code that must not be instrumented, and entry code that must reset the CPU's prediction of returns, with each warning of
 * --noinstr and --unret, and what looks alike and is right; noinstr-*.objtool has what objtool warns of. For
 * tests/objtool/test_objtool_noinstr.py.
 */
#ifdef LINUX_6_12
#define HINT_CALL       2
#define HINT_IRET       4
#define HINT_FUNC       5
#else
#define HINT_CALL       0
#define HINT_IRET       2
#define HINT_FUNC       3
#define HINT_ENTRY      4
#endif
#ifdef LINUX_7_2
#define REG_SP 3
#else
#define REG_SP 5
#endif

.macro hint at type reg=0 offset=0
	.pushsection .discard.unwind_hints, "a"
	.long \at - .
	.short \offset
	.byte \reg, \type
	.byte 0
	.balign 4
	.popsection
.endm

/* An annotation: a number of .discard.annotate_insn, or its own section. */
.macro annotate at kind section
#ifdef LINUX_7_2
	.pushsection .discard.annotate_insn, "M", @progbits, 8
	.long \at - ., \kind
#else
	.pushsection .discard.\section, "a"
	.long \at - .
#endif
	.popsection
.endm

.macro begins
77:	nop
	annotate 77b 3 instr_begin
.endm

.macro ends
77:	nop
	annotate 77b 4 instr_end
.endm

.macro safe
	annotate 78f 2 retpoline_safe
78:
.endm

/* The place that --unret follows code from. */
.macro enters
#ifdef LINUX_6_12
	annotate 79f 5 validate_unret
79:	nop
#else
	hint 79f HINT_ENTRY REG_SP 8
79:	nop
#endif
.endm

.macro untrains
	safe
	nop
.endm

.macro function name
	.globl \name
	.type \name, @function
\name:
.endm

.macro end name
	int3
	.size \name, . - \name
.endm

/* Code that no function holds. */
.macro code name type=HINT_CALL
	.globl \name
\name:
80:	hint 80b \type REG_SP 8
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

.macro key
1:	.byte 0x0f, 0x1f, 0x44, 0, 0
	.pushsection __jump_table, "aw"
	.long 1b - ., 2f - .
	.quad the_key - .
	.popsection
.endm

.text
function elsewhere
	ret
end elsewhere

function calls_elsewhere
	call elsewhere
	call other
	ret
end calls_elsewhere

.section .text..__x86.thunks, "ax"
function __x86_of_thunks
	call elsewhere
	ret
end __x86_of_thunks

.section .noinstr.text, "ax"
function right
	call right_too
	call __x86_of_thunks
	call __ubsan_handle_overflow
	begins
	call elsewhere
	call *%rax
	ends
	ret
end right

function right_too
	begins
	test %edi, %edi
	je 2f
	begins
	call other
	ends
	jmp 3f
2:	nop
3:	call elsewhere
	ends
	ret
end right_too

function right_tail
	jmp right_too
end right_tail

function calls
	call elsewhere
	ret
end calls

function calls_another_file
	call other
	ret
end calls_another_file

function tail_calls
	jmp other
end tail_calls

function tail_calls_here
	jmp elsewhere
end tail_calls_here

function calls_pointer
	call *%rax
	ret
end calls_pointer

function calls_thunk
	call __x86_indirect_thunk_rax
	ret
end calls_thunk

function jumps_thunk
	jmp __x86_indirect_thunk_rax
end jumps_thunk

function calls_trampoline
	call __SCT__static
	ret
end calls_trampoline

function never_ends
	begins
	call elsewhere
	ret
end never_ends

function ends_on_one_way
	begins
	test %edi, %edi
	je 2f
	ends
2:	ret
end ends_on_one_way

function ends_before
	ends
	begins
	call elsewhere
	ends
	ret
end ends_before

function ends_too_early
	begins
	ends
	test %edi, %edi
	je 2f
	nop
2:	call elsewhere
	ret
end ends_too_early

function begins_twice
77:	nop
	annotate 77b 3 instr_begin
	annotate 77b 3 instr_begin
	ends
	call elsewhere
	ends
	ret
end begins_twice

function in_replacement
	alternative 5, "call right_too", "call elsewhere"
	ret
end in_replacement

function in_original
	alternative 5, "call elsewhere", "call right_too"
	ret
end in_original

function by_key
	key
	ret
2:	call elsewhere
	ret
end by_key

function with_profiler
	call __sanitizer_cov_trace_pc
	ret
end with_profiler

function tail_profiler
	jmp __sanitizer_cov_trace_pc
end tail_profiler

function down
	std
	call elsewhere
	cld
	ret
end down

function down_inside
	begins
	std
	call elsewhere
	cld
	ends
	ret
end down_inside

function framed_tail
	push %rbx
	jmp other
end framed_tail

function through_clean_slot
	safe
	call *pv_ops+8(%rip)
	ret
end through_clean_slot

function through_dirty_slot
	safe
	call *pv_ops+16(%rip)
	ret
end through_dirty_slot

function through_stored_slot
	safe
	call *pv_ops+24(%rip)
	ret
end through_stored_slot

function through_first_slot
	safe
	call *pv_ops(%rip)
	ret
end through_first_slot

function through_empty_slot
	safe
	call *pv_ops+32(%rip)
	ret
end through_empty_slot

function through_native_slot
	safe
	call *pv_ops+40(%rip)
	ret
end through_native_slot

.section .init.text, "ax"
function stores_op
	movq $elsewhere, pv_ops+24(%rip)
	movq $right_too, pv_ops+8(%rip)
	ret
end stores_op

.section .entry.text, "ax"
code in_entry
	call right_too
	jmp 1f
1:	call elsewhere
	jmp 1b
	int3
	.size in_entry, . - in_entry

function of_entry
	call elsewhere
	ret
end of_entry

.section .cpuidle.text, "ax"
function idles
	call elsewhere
	ret
end idles

.data
	.globl the_key
the_key: .quad 0, 0
	.globl __SCK__static
__SCK__static: .quad 0, 0
	.globl pv_ops
	.type pv_ops, @object
pv_ops:
	.quad elsewhere, right, calls_elsewhere, right_tail, 0, _paravirt_nop
	.size pv_ops, . - pv_ops
#ifndef LINUX_7_2
	.globl xen_irq_ops
	.type xen_irq_ops, @object
xen_irq_ops:
	.quad right_tail, other_op
	.size xen_irq_ops, . - xen_irq_ops
#else
	.globl pv_ops_lock
	.type pv_ops_lock, @object
pv_ops_lock:
	.quad other_op
	.size pv_ops_lock, . - pv_ops_lock
#endif

/* ---- --unret ---- */
.section .entry.text, "ax"
code e_right
	enters
	untrains
	ret
	int3
	.size e_right, . - e_right

code e_right_by_call
	enters
	call untrain
	ret
	int3
	.size e_right_by_call, . - e_right_by_call

code e_returns
	enters
	ret
	int3
	.size e_returns, . - e_returns

code e_returns_by_thunk
	enters
	jmp __x86_return_thunk
	.size e_returns_by_thunk, . - e_returns_by_thunk

code e_calls_what_returns
	enters
	call elsewhere
	untrains
	ret
	int3
	.size e_calls_what_returns, . - e_calls_what_returns

code e_pointer
	enters
	safe
	call *%rax
	untrains
	ret
	int3
	.size e_pointer, . - e_pointer

code e_jumps_by_pointer
	enters
	safe
	jmp *%rax
	int3
	.size e_jumps_by_pointer, . - e_jumps_by_pointer

code e_calls_thunk
	enters
	call __x86_indirect_thunk_rax
	untrains
	ret
	int3
	.size e_calls_thunk, . - e_calls_thunk

code e_on_one_way
	enters
	test %edi, %edi
	je 2f
	untrains
2:	ret
	int3
	.size e_on_one_way, . - e_on_one_way

code e_on_the_other
	enters
	test %edi, %edi
	je 2f
	ret
	int3
2:	untrains
	ret
	int3
	.size e_on_the_other, . - e_on_the_other

code e_in_replacement
	enters
	alternative 5, "call untrain", "call elsewhere"
	ret
	int3
	.size e_in_replacement, . - e_in_replacement

code e_only_in_replacement
	enters
	alternative 5, ".byte 0x0f, 0x1f, 0x44, 0, 0", "call untrain"
	ret
	int3
	.size e_only_in_replacement, . - e_only_in_replacement

code e_by_key
	enters
	key
	untrains
	ret
	int3
2:	ret
	int3
	.size e_by_key, . - e_by_key

code e_dead
	enters
	ud2
	.size e_dead, . - e_dead

code e_iret HINT_IRET
	enters
	iretq
	hint 1f HINT_CALL REG_SP 8
1:	ret
	int3
	.size e_iret, . - e_iret

code e_sysret
	enters
	sysretq
	hint 1f HINT_CALL REG_SP 8
1:	ret
	int3
	.size e_sysret, . - e_sysret

code e_syscall
	enters
	syscall
	hint 1f HINT_CALL REG_SP 8
1:	ret
	int3
	.size e_syscall, . - e_syscall

function f_iret
	enters
	iretq
	ret
end f_iret

function f_sysret
	enters
	sysretq
	hint 1f HINT_FUNC
1:	ret
end f_sysret

code e_noendbr_nop
	enters
	endbr64
	ret
	int3
	.size e_noendbr_nop, . - e_noendbr_nop

code e_jumps_to_function
	enters
	jmp untrain
	.size e_jumps_to_function, . - e_jumps_to_function

code e_jumps_to_function_that_returns
	enters
	test %edi, %edi
	je elsewhere
	ud2
	.size e_jumps_to_function_that_returns, . - e_jumps_to_function_that_returns

function f_tail
	enters
	jmp elsewhere
end f_tail

function f_branches_away
	enters
	test %edi, %edi
	je untrain
	ret
end f_branches_away

/* No symbol says which code is its own: a jump to a function is no call. */
code e_unsized
	enters
	test %edi, %edi
	je untrain
	ret
	int3

code e_loop
	enters
1:	test %edi, %edi
	jne 1b
	untrains
	ret
	int3
	.size e_loop, . - e_loop

.section .noinstr.text, "ax"
function untrain
	untrains
	ret
end untrain
#ifdef UNRESOLVED
.section .entry.text, "ax"
code e_calls_another_file
	enters
	call other
	ud2
	.size e_calls_another_file, . - e_calls_another_file
code e_after_that
	enters
	ret
	int3
	.size e_after_that, . - e_after_that
#endif
#ifdef TO_THE_END
.section .entry.text.last, "ax"
code e_to_the_end
	enters
	nop
	.size e_to_the_end, . - e_to_the_end
#endif
