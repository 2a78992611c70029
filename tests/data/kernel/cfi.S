/* SPDX-License-Identifier: MIT */
/*
 * What clang makes with -fsanitize=kcfi and -fpatchable-function-entry=11,11: in front of each function whose address may
 * be taken a symbol of 5 bytes with the hash of its type, then 11 nops; and in front of each indirect call a check of it.
 * What is not so, too. For tests/objtool/test_objtool_cfi.py.
 */
.macro annotate at kind
#ifdef LINUX_7_2
	.pushsection .discard.annotate_insn, "M", @progbits, 8
	.long \at - ., \kind
	.popsection
#endif
.endm

.macro checked name bind=.globl size=5
	\bind \name
	\bind __cfi_\name
	.type __cfi_\name, @function
	.balign 16
__cfi_\name:
	mov $0x12345678, %eax
	.size __cfi_\name, \size
99:	.fill 11, 1, 0x90
	.pushsection __patchable_function_entries, "awo", @progbits, .text
	.quad 99b - 5
	.popsection
	.type \name, @function
\name:
.endm

/* Releases of the assembler pad with nops in different orders, and a prefix symbol needs one that begins 11 bytes in front. */
.macro padding last:vararg
	.byte 0x66, 0x66, 0x2e, 0x0f, 0x1f, 0x84, 0, 0, 0, 0, 0, \last
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

.macro check
	mov $0xedcba988, %r10d
	add -15(%r11), %r10d
	je 1f
88:	ud2
	annotate 88b 8
#ifndef LINUX_7_2
	.pushsection .discard.reachable, "a"
	.long 1f - .
	.popsection
#endif
1:
.endm

.text
checked right
	check
	cs
	call __x86_indirect_thunk_r11
	ret
end right

checked small, .local
	ret
end small
	padding 0x0f, 0x1f, 0

checked tail
	check
	jmp __x86_indirect_thunk_r11
end tail
	padding 0x90

checked unchecked
	call __x86_indirect_thunk_r11
	nop
	call __x86_indirect_thunk_r11
	ret
end unchecked

checked unchecked_tail
	nop
	jmp __x86_indirect_thunk_r11
end unchecked_tail

checked allowed
77:	nop
	annotate 77b 9
	call __x86_indirect_thunk_r11
	ret
end allowed

/* Of another size than clang's. */
checked longer, .globl, 6
	ret
end longer
	padding 0x0f, 0x1f, 0

/* Without a function behind. */
	.globl __cfi_alone
	.type __cfi_alone, @function
	.balign 16
__cfi_alone:
	mov $1, %eax
	.size __cfi_alone, 5
	.fill 11, 1, 0x90

/* A function without a check in front, after nops. */
	.fill 16, 1, 0x90
function plain
	check
	call __x86_indirect_thunk_r11
	ret
end plain

/* ud2 in front is another function's. */
function ends_in_trap
	ud2
	.size ends_in_trap, . - ends_in_trap
function begins_with_call
	call __x86_indirect_thunk_r11
	ret
end begins_with_call

	.globl entry
entry:
	call __x86_indirect_thunk_r11
	ret
	.size entry, . - entry

/* No symbol's. */
	call __x86_indirect_thunk_r11
	ret

	.globl data
	.type __cfi_data, @object
	.data
__cfi_data: .long 1
	.size __cfi_data, 4
