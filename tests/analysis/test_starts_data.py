# SPDX-License-Identifier: MIT
"""Where functions begin that only data refers to, or that nothing but how they end says to be one, in files without symbols
(tool/analysis/interproc/starts.c, range_analysis.c)."""

import pytest

from marked_rows import EXIT, LIBRARY, PACKED, PROGRAM, wrong

# Words of data: two functions; and tables of data among the code, which begin with what looks like `ret`. What lies beside
# such a word leads to where no function begins.
WORDS = EXIT + """	.p2align 4, 0xcc
hidden:	subq	$24, %rsp
	row	32
	call	*%rdi
	addq	$24, %rsp
	row	8
	ret
	.p2align 4, 0xcc
other:	pushq	%rbx
	row	16
	call	*%rdi
	popq	%rbx
	ret
	.p2align 4, 0xcc
one:	row	undef
	.byte	0xc3, 1, 2, 3, 4
two:	.byte	5, 6
	.p2align 4, 0xcc
three:	row	undef
	.byte	0xc3, 1, 2, 3, 4
	.data
	.p2align 3
	.quad	hidden, other, 0, 0
	.quad	one, two, 0, 0
	.quad	two, three, 0, 0
"""


@pytest.mark.parametrize("flags", [PROGRAM, PACKED], ids=["program", "packed"])
def test_words_of_data(etch, tmp_path, flags):
    assert not wrong(etch, tmp_path, WORDS, *flags)


# What only words lead to is judged once it is known where each ends: `hidden` goes on in `third`, which lies after `second`,
# as a function does and no label. `frame` has no other end than that, and its frame pointer says that it is a function.
ENDS = EXIT + """	.p2align 4, 0xcc
hidden:	row	8
	testl	%edi, %edi
	je	third
	pushq	%rbx
	row	16
	call	*%rsi
	popq	%rbx
	row	8
	ret
	.p2align 4, 0xcc
second:	row	8
	leaq	(%rdi,%rdi), %rax
	ret
	.p2align 4, 0xcc
third:	row	8
	leaq	(%rdi,%rsi), %rax
	ret
	.p2align 4, 0xcc
frame:	row	8
	pushq	%rbp
	row	16
	movq	%rsp, %rbp
	row	rbp16
	call	*%rsi
	popq	%rbp
	row	8
	jmp	fourth
	.p2align 4, 0xcc
last:	row	8
	leaq	3(%rdi), %rax
	ret
	.p2align 4, 0xcc
fourth:	row	8
	leaq	1(%rdi), %rax
	ret
	.data
	.p2align 3
	.quad	hidden, 0, second, 0, frame, 0, last, 0
"""


@pytest.mark.parametrize("flags", [PROGRAM, PACKED], ids=["program", "packed"])
def test_what_words_lead_to_is_judged_when_its_ends_are_known(etch, tmp_path, flags):
    assert not wrong(etch, tmp_path, ENDS, *flags)


# A number that is an address amid an instruction of `cut`, after a byte that decodes as a return: the frame pointer at the
# word before shows that a function goes on there. In front of it lie bytes that are no code.
NUMBER = EXIT + """	.p2align 4, 0xcc
	.byte	6, 6, 6, 6
	.p2align 4, 0xcc
cut:	row	8
	pushq	%rbp
	movq	%rsp, %rbp
	testl	%edi, %edi
	je	1f
	call	*%rsi
	nopl	(%rax)
	row	rbp16
	movl	$0x0606c300, %ecx
1:	movl	%ecx, %eax
	row	rbp16
	popq	%rbp
	row	8
	ret
	.data
	.p2align 3
	.quad	cut, 0, cut + 16, 0
"""


@pytest.mark.parametrize("flags", [PROGRAM, PACKED], ids=["program", "packed"])
def test_a_number_amid_a_function_does_not_cut_it(etch, tmp_path, flags):
    assert not wrong(etch, tmp_path, NUMBER, *flags)


# What words lead to ends in a jump to a function that nothing else leads to, or that lies after a jump to it: its frame
# pointer says that it is one. `label` jumps to code that says nothing.
TAILS = EXIT + """	.p2align 4, 0xcc
leaf:	row	8
	movq	(%rdi), %rax
	movb	$0, (%rax)
	testl	%esi, %esi
	jne	1f
	jmp	framed
1:	ud2
	.p2align 4, 0xcc
thunk:	row	8
	pushq	%rbp
	row	16
	movq	%rsp, %rbp
	row	rbp16
	popq	%rbp
	row	8
	jmp	behind
	.p2align 4, 0xcc
behind:	row	8
	pushq	%rbp
	movq	%rsp, %rbp
	row	rbp16
	call	*%rdi
	popq	%rbp
	row	8
	ret
	.p2align 4, 0xcc
label:	row	undef
	movq	(%rdi), %rax
	jmp	plain
	.p2align 4, 0xcc
again:	row	8
	pushq	%rbp
	row	16
	movq	%rsp, %rbp
	popq	%rbp
	row	8
	jmp	behind
	.p2align 4, 0xcc
framed:	row	8
	pushq	%rbp
	movq	%rsp, %rbp
	row	rbp16
	call	*%rdi
	popq	%rbp
	row	8
	ret
	.p2align 4, 0xcc
plain:	row	undef
	movl	$1, %eax
	jmp	*(%rax)
	.data
	.p2align 3
	.quad	leaf, 0, thunk, 0, label, 0, again, 0
"""


@pytest.mark.parametrize("flags", [PROGRAM, PACKED], ids=["program", "packed"])
def test_what_words_lead_to_may_end_in_a_jump_to_a_frame(etch, tmp_path, flags):
    assert not wrong(etch, tmp_path, TAILS, *flags)


# Words of data: functions, and numbers that happen to be addresses in their middle: in an instruction, and between two of
# which the first goes on. After a return, a jump or a call without padding a function may begin.
NUMBERS = """
	.globl	_start
	.type	_start, @function
_start:	xorl	%edi, %edi
	call	known
	movl	$60, %eax
	syscall
	.size	_start, .-_start
	.p2align 4, 0xcc
known:	row	8
	incl	%edi
	ret
	.p2align 4, 0xcc
stops:	ud2
	.p2align 4, 0xcc
	.macro	upto left		# with `cltd`, one byte
	.p2align 4, 0x99
	.skip	(16 - \\left) % 16, 0x99
	.endm
cut:	pushq	%rbx
	row	16
	call	*%rdi
	upto	2
	.byte	0x48, 0xb8		# movabs
in_one:	.quad	0x1122334455667788
	row	16
	popq	%rbx
	row	8
	ret
	.p2align 4, 0xcc
tall:	pushq	%rbx
	row	16
	subq	$32, %rsp
	row	48
	call	*%rdi
	upto	0
between: row	48
	movl	$1, %eax
	addq	$32, %rsp
	row	16
	popq	%rbx
	row	8
	ret
	.p2align 4, 0xcc
	pushq	%rbx
	call	*%rdi
	popq	%rbx
	upto	1
	ret
behind_return:
	row	8
	pushq	%rbx
	row	16
	call	*%rdi
	popq	%rbx
	upto	5
	.byte	0xe9
	.long	known - . - 4
behind_jump:
	row	8
	pushq	%rbx
	row	16
	testl	%edi, %edi
	je	1f
	popq	%rbx
	row	8
	ret
1:	upto	5
	call	stops
behind_call:
	row	8
	subq	$8, %rsp
	row	16
	call	*%rdi
	addq	$8, %rsp
	ret
	.data
	.p2align 3
	.quad	cut, 0, in_one, 0, tall, 0, between, 0, behind_return, 0, behind_jump, 0, behind_call, 0
"""


@pytest.mark.parametrize("flags", [PROGRAM, PACKED], ids=["program", "packed"])
def test_a_number_that_is_an_address_in_a_function_cuts_none(etch, tmp_path, flags):
    """What control runs through from where one word of data leads is no function of another word's."""
    assert not wrong(etch, tmp_path, NUMBERS, *flags)


# The same in the first function after one that is called, which nothing but data refers to, and not at an address that a
# function has by its alignment. A number lies in the middle of it after a jump; what decides is that a branch leads there.
FIRST = """
	.globl	_start
	.type	_start, @function
_start:	xorl	%edi, %edi
	call	known
	movl	$60, %eax
	syscall
	.size	_start, .-_start
	.p2align 4, 0xcc
known:	row	8
	incl	%edi
	ret
first:	row	8
	pushq	%rbp
	row	16
	movq	%rsp, %rbp
	row	rbp16
	testl	%edi, %edi
	je	amidst
	call	*%rsi
	cltd
	.p2align 4, 0x99
between: row	rbp16
	incl	%eax
	leave
	row	8
	ret
	.p2align 4, 0x99
amidst:	row	rbp16
	call	*%rdi
	leave
	row	8
	ret
second:	row	8
	pushq	%rbp
	row	16
	movq	%rsp, %rbp
	row	rbp16
	call	*%rsi
	leave
	row	8
	ret
	.data
	.p2align 3
	.quad	first, 0, between, 0, amidst, 0, second, 0
"""


@pytest.mark.parametrize("flags", [PROGRAM, PACKED], ids=["program", "packed"])
def test_a_number_in_a_function_that_only_data_refers_to(etch, tmp_path, flags):
    assert not wrong(etch, tmp_path, FIRST, *flags)


# Data refers to all of it; what a function is ends as one on all paths, or begins as one and goes on for ever. `called` is
# one whatever it does, and so is what a jump with a frame leads to.
DATA = """
	.macro	begin name
	.p2align 4, 0xcc
\\name:
	.endm
	.globl	known
	.type	known, @function
known:	subq	$8, %rsp
	row	16
	testl	%edi, %edi
	jne	part
inside:	call	called
	call	hop
	call	leads
	addq	$8, %rsp
	row	8
	ret
	.size	known, .-known
	begin	called
	row	8
	testl	%edi, %edi
	je	1f
	ret
1:	incl	%edi
	.byte	6
	begin	part
	row	16
	testl	%esi, %esi
	je	1f
	addq	$8, %rsp
	ret
1:	incl	%edi
	.byte	6
	begin	hop
	subq	$8, %rsp
	call	shares
	addq	$8, %rsp
	ret
	begin	shares
	row	8
	subq	$8, %rsp
	row	16
	jmp	inside
	begin	leads
	movl	$1, %esi
	jmp	shares2
	begin	shares2
	row	8
	subq	$8, %rsp
	row	16
	jmp	inside
	begin	handing
	row	8
	incl	%edi
	jmp	handed
	begin	loops
	pushq	%rbx
	row	16
1:	call	*%rdi
	jmp	1b
	begin	restorer
	row	restorer
	movq	$15, %rax
	syscall
	.macro	either
	row	undef
	testl	%edi, %edi
	je	1f
	ret
1:
	.endm
	begin	broken
	either
	incl	%edi
	.byte	6
	begin	astray
	either
	.byte	6
	begin	odd
	either
	movq	%rax, %rsp
	ret
	begin	unbalanced
	either
	movl	$5, %ebx
	ret
	begin	pops
	either
	popq	%rcx
	popq	%rcx
	jmp	*%rcx
	begin	amidst
	either
	jmp	inside
	begin	round
	row	undef
1:	incl	%ebx
	jmp	1b
	begin	swapped
	row	undef
	xchgq	%rbx, %r12
	row	undef
	ret
	begin	scratch
	row	undef
	pushq	%rax
	popq	%rcx
	row	undef
	jmp	*(%rcx)
	begin	unaligned
	nop
frame:	row	8
	pushq	%rbp
	movq	%rsp, %rbp
	row	rbp16
1:	call	*%rdi
	jmp	1b
	begin	unaligned2
	nop
push:	row	undef
	pushq	%rbp
	movq	%rdi, %rbp
	row	undef
1:	call	*%rdi
	jmp	1b
	.section .elsewhere, "ax"
	begin	handed
	row	8
	pushq	%rbx
	row	16
	popq	%rbx
	ret
	.data
	.quad	called, part, shares, shares2, handing, loops, restorer
	.quad	broken, astray, odd, unbalanced, pops, amidst, round
	.quad	swapped, scratch, frame, push
"""


# Nothing but words of data refers to these. What ends in a jump to where no function is known to begin, or goes round for
# ever, may be a label: no rows. `leads` hands on to what is called.
WORD_LABELS = """
	.globl	_start
	.type	_start, @function
_start:	xorl	%edi, %edi
	call	known
	movl	$60, %eax
	syscall
	.size	_start, .-_start
	.p2align 4, 0xcc
known:	subq	$8, %rsp
	row	16
	call	*%rdi
	addq	$8, %rsp
	ret
	.macro	begin name
	.p2align 4, 0xcc
\\name:
	.endm
	begin	leads
	row	8
	incl	%edi
	jmp	known
	begin	inner
	row	8
	incl	%edi
	pushq	%rbx
	row	16
	popq	%rbx
	ret
	begin	amidst
	row	undef
	testl	%edi, %edi
	je	1f
	ret
1:	jmp	inner + 2
	begin	odd
	row	undef
	testl	%edi, %edi
	je	1f
	ret
1:	jmp	1f
	begin	hands
	row	undef
	incl	%edi
	jmp	nobody
	begin	round
	row	undef
	pushq	%rbx
1:	call	*%rdi
	jmp	1b
	.section .elsewhere, "ax"
	begin	nobody
	row	undef
	incl	%edi
	jmp	*%rdi
	.byte	6, 6, 6
1:	ret
	.data
	.p2align 3
	.quad	leads, 0, inner, 0, amidst, 0, odd, 0, hands, 0, round, 0
"""


@pytest.mark.parametrize("source,flags", [(DATA, LIBRARY), (WORD_LABELS, PROGRAM)], ids=["addresses", "words"])
def test_what_data_refers_to(etch, tmp_path, source, flags):
    assert not wrong(etch, tmp_path, source, *flags)


# From code alone, where .eh_frame's ranges are all that is known: what has a sign that a function begins there has rows, and a
# part of a function, or code that takes off more than there is, has none. `part` and its like are labels of jump tables.
JUDGED = """
	.macro	begin name
	.type	\\name, @function
	.p2align 4
\\name:	.cfi_startproc
	.endm
	.macro	finish name
	.cfi_endproc
	.size	\\name, .-\\name
	.endm
	.globl	_start, named, restores, exported
_start:	hlt
	begin	named
	row	8
	pushq	%rbx
	row	16
1:	call	*%rdi
	jmp	1b
	finish	named
	begin	takes
	row	8
	leaq	taken(%rip), %rax
.Lone:	incl	%edi
.Ltwo:	ret
	finish	takes
	begin	taken
	row	8
	pushq	%rbx
	row	16
1:	call	*%rdi
	jmp	1b
	finish	taken
	begin	referred
	row	8
	pushq	%rbx
	row	16
1:	call	*%rdi
	jmp	1b
	finish	referred
	begin	sound
	row	8
	pushq	%rbx
	row	16
	popq	%rbx
	ret
	finish	sound
	begin	restores
	row	undef
	testl	%edi, %edi
	je	1f
	popq	%rbx
	ret
1:	popq	%rbx
	popq	%rbx
	ret
	finish	restores
	begin	pushes
	row	8
	testl	%edi, %edi
	js	1f
	ret
1:	leaq	2f(%rip), %rax
	pushq	%rax
	row	16
	jmp	jumped
2:	ret
	finish	pushes
	begin	jumped
	row	8
	pushq	%rbx
	row	16
	popq	%rbx
	ret
	finish	jumped
	.macro	pops name, cfa
	begin	\\name
	row	\\cfa
	testl	%edi, %edi
	je	1f
	row	\\cfa
	ret
1:	popq	%rcx
	popq	%rcx
	jmp	*%rcx
	finish	\\name
	.endm
	.macro	part name
	begin	\\name
	row	undef
1:	call	*%rdi
	jmp	1b
	finish	\\name
	.endm
	pops	exported, 8
	pops	local, undef
	part	left
	part	right
	part	nowhere
	.data
	.p2align 3
	.quad	0, referred, 0, jumped, 0
	.quad	.Lone, left, 0
	.quad	0, right, .Ltwo
	.quad	0, named, 0, exported, 0
"""


@pytest.mark.parametrize("flags", [LIBRARY, [*LIBRARY, "-fuse-ld=lld"], PROGRAM], ids=["library", "relocations alone", "program"])
def test_signs_of_a_function(etch, tmp_path, flags):
    source = JUDGED if flags == PROGRAM else JUDGED[:JUDGED.index("\t.quad\t.Lone")]
    assert not wrong(etch, tmp_path, source, *flags, args=["--no-cfi"])
