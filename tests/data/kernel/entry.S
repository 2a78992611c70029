/* SPDX-License-Identifier: MIT */
/*
 * Entry code as a kernel has it, with unwind hints of Linux 6.1 or, with LINUX_6_12, 6.12: frames of interrupts, saved and restored frames, other
 * stacks, calls that only push, code retbleed_return_thunk in an instruction. For tests/objtool/test_objtool_judged.py.
 */
#ifdef LINUX_6_12
#define ENTRY   1
#define CALL    2
#define REGS    3
#define PARTIAL 4
#define FUNC    5
#define SAVE    6
#define RESTORE 7
#define SIGNAL  1
#else
#define CALL    0
#define REGS    1
#define PARTIAL 2
#define FUNC    3
#define ENTRY   4
#define SAVE    5
#define RESTORE 6
#define SIGNAL  0
#endif
#define RSP     5
#define BP      4
#define SP_IND  9

.macro hint kind reg=0 off=0 end=0
.Lhint\@:
	.pushsection .discard.unwind_hints
	.long .Lhint\@ - .
	.short \off
	.byte \reg, \kind, \end
	.balign 4
	.popsection
.endm

.macro note section
.Lnote\@:
	.pushsection .discard.\section
	.long .Lnote\@ - .
	.popsection
.endm

.macro safe
.Lsafe\@:
	.pushsection .discard.retpoline_safe
	.quad .Lsafe\@
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

.macro alternative feature new
	.pushsection .altinstr_replacement, "ax"
.Lnew\@:
	\new
.Lend\@:
	.popsection
	.pushsection .altinstructions, "a"
	.long 661b - ., .Lnew\@ - .
	.word \feature
#ifdef LINUX_6_12
	.word 0
#endif
	.byte 662b - 661b, .Lend\@ - .Lnew\@
	.popsection
.endm

	.text
/* A system call: from a stack that is the user's to a full frame. */
	.globl enter
enter:
	hint ENTRY 0 0 1
	swapgs
	mov %rsp, %gs:8
	mov %gs:16, %rsp
	hint ENTRY 0 0 1
	push $0x2b
	push %gs:8
	push %r11
	push $0x33
	push %rcx
	hint PARTIAL RSP
	push %rax
	push %rdi
	push %rsi
	push %rdx
	push %rcx
	push $-38
	push %r8
	push %r9
	push %r10
	push %r11
	push %rbx
	push %rbp
	push %r12
	push %r13
	push %r14
	push %r15
	hint REGS RSP 0 SIGNAL
	mov %rsp, %rdi
	call handle
	jne 1f
	call panic
1:	add $120, %rsp
	hint PARTIAL RSP 8 SIGNAL
	add $8, %rsp
	swapgs
	iretq
	.size enter, . - enter

/* An interrupt on another stack: the frame stays where it was. */
	.globl interrupted
interrupted:
	hint PARTIAL RSP 8
	push %rbp
	hint CALL RSP 24
	mov %rsp, %rbp
	hint CALL BP 24
	mov %gs:24, %rsp
	call handle
	mov %rbp, %rsp
	hint CALL RSP 24
	pop %rbp
	hint PARTIAL RSP 8
	add $8, %rsp
	iretq
	.size interrupted, . - interrupted

/* To the interrupt's stack, whose top keeps rsp. */
function switches
	push %rbx
	mov %rsp, (%r11)
	mov %r11, %rsp
	call handle
	pop %rsp
	pop %rbx
	jmp __x86_return_thunk
	int3
end switches

/* Goes on at a label after iretq to itself. */
function serialize
	push %rbx
	hint SAVE
	mov %ss, %eax
	push %rax
	push %rsp
	addq $8, (%rsp)
	pushfq
	mov %cs, %eax
	push %rax
	push $1f
	iretq
1:	hint RESTORE
	pop %rbx
	jmp __x86_return_thunk
	int3
end serialize

/* A retpoline, and one that alternatives replace. */
	.globl thunks
thunks:
	hint ENTRY 0 0 1
	note intra_function_calls
	call 2f
1:	hint ENTRY 0 0 1
	pause
	lfence
	jmp 1b
2:	mov %rcx, (%rsp)
	hint FUNC
	jmp __x86_return_thunk
	int3
	.size thunks, . - thunks

/* One instruction holds another, which the jump back runs. */
	.balign 64
	.skip 63, 0xcc
	.type retbleed_untrain_ret, @function
	.globl retbleed_untrain_ret, retbleed_return_thunk
retbleed_untrain_ret:
	.byte 0xf6
retbleed_return_thunk:
	ret
	int3
	.size retbleed_return_thunk, . - retbleed_return_thunk
	lfence
	jmp retbleed_return_thunk
	int3
	.size retbleed_untrain_ret, . - retbleed_untrain_ret

function patched
	push %rbx
	push %r12
661:	.nops 8
662:	alternative 0x12 "push %rcx; pushfq; pop %rax; pop %rcx"
661:	call handle
662:	alternative 0x13 "pushfq; pop %rax"
	alternative 0x14 "cli"
	mov %rdi, %rbx
	safe
	call *%rbx
	pop %r12
	pop %rbx
661:	jmp __x86_return_thunk
	int3
662:	alternative 0x15 "jmp switches"
end patched

function its_own
	mov %rdi, %rsp
	pop %rbp
	jmp *8(%rsp)
	int3
end its_own
	.pushsection .discard.func_stack_frame_non_standard, "aw"
#ifdef LINUX_6_12
	.long its_own - .
#else
	.quad its_own
#endif
	.popsection

function tails
	test %edi, %edi
	jne 1f
	jmp __SCT__hook
	int3
1:	sub $8, %rsp
	call __x86_indirect_thunk_rax
	add $8, %rsp
	jmp __SCT__hook
	int3
end tails

/* To another code segment: no branches that retpolines replace. */
function far
	lretq
end far
function farther
	ljmp *8(%rsp)
end farther

/* What is warned of. */
function warned
	test %edi, %edi
	je 1f
	call *%rax
1:	ret
end warned

	.section .noinstr.text, "ax"
function quiet
	push %rbx
	call __sanitizer_cov_trace_pc
	pop %rbx
	jmp __x86_return_thunk
	int3
end quiet

	.data
	.quad __SCK__hook
