/* SPDX-License-Identifier: MIT */
/*
 * Functions that enable access to user memory as Linux 6.1 does it, right and wrong; access.objtool has what objtool warns
 * of. For tests/objtool/test_objtool_judged.py.
 */
#define SMAP 0x134 /* X86_FEATURE_SMAP */

.macro alternative new
661:	.nops 8
662:	.pushsection .altinstr_replacement, "ax"
663:	\new
664:	.popsection
	.pushsection .altinstructions, "a"
	.long 661b - ., 663b - .
	.word SMAP
	.byte 662b - 661b, 664b - 663b
	.popsection
.endm

.macro function name
	.globl \name
	.type \name, @function
\name:
.endm

.macro end name
	.size \name, . - \name
.endm

.text
function right
	alternative stac
1:	mov (%rdi), %rax
	alternative clac
	ret
	int3
2:	alternative clac
	mov $-14, %rax
	ret
	int3
	.pushsection __ex_table, "a"
	.long 1b - ., 2b - ., 1
	.popsection
end right

function a_fixup_that_forgets
	alternative stac
1:	mov (%rdi), %rax
	alternative clac
	ret
	int3
2:	mov $-14, %rax
	ret
	int3
	.pushsection __ex_table, "a"
	.long 1b - ., 2b - ., 1
	.popsection
end a_fixup_that_forgets

function calls
	alternative stac
	call other
	alternative clac
	ret
	int3
end calls

function calls_what_may_be
	alternative stac
	call __asan_load8_noabort
	alternative clac
	ret
	int3
end calls_what_may_be

function calls_a_pointer
	alternative stac
	call __x86_indirect_thunk_rdx
	alternative clac
	ret
	int3
end calls_a_pointer

function jumps_to_another
	alternative stac
	jmp other
	int3
end jumps_to_another

function returns
	test %edi, %edi
	je 1f
	alternative stac
1:	ret
	int3
end returns

function returns_by_a_thunk
	alternative stac
	jmp __x86_return_thunk
	int3
end returns_by_a_thunk

function enables_twice
	alternative stac
	alternative stac
	alternative clac
	ret
	int3
end enables_twice

function disables_twice
	alternative stac
	alternative clac
	alternative clac
	ret
	int3
end disables_twice

function saves_and_restores
	alternative stac
	alternative "pushf; pop %rax; clac"
	call other
	alternative "push %rax; popf"
	alternative clac
	ret
	int3
end saves_and_restores

function ends_in_panic
	alternative stac
	mov (%rdi), %rax
	alternative clac
	test %eax, %eax
	jne 1f
	call panic
1:	ret
	int3
end ends_in_panic

function goes_elsewhere
	alternative stac
	test %edi, %edi
	jne goes_elsewhere.cold
	alternative clac
	ret
	int3
end goes_elsewhere

function copy_mc_fragile
	mov (%rdi), %rax
	call other
	ret
	int3
end copy_mc_fragile

function copy_mc_enhanced_fast_string
	alternative clac
	ret
	int3
end copy_mc_enhanced_fast_string

function clear_user_erms
	alternative "pushf; pop %rax; clac"
	call other
	alternative "push %rax; popf"
	ret
	int3
end clear_user_erms

function csum_partial_copy_generic
	alternative "pushf; pop %rax; clac"
	ret
	int3
end csum_partial_copy_generic

.section .text.unlikely, "ax"
	.type goes_elsewhere.cold, @function
goes_elsewhere.cold:
	call other
	alternative clac
	ret
	int3
	.size goes_elsewhere.cold, . - goes_elsewhere.cold

.section .note.GNU-stack, "", @progbits
