# SPDX-License-Identifier: MIT
"""Where functions begin that no symbol and no .eh_frame names, by what calls, jumps to and takes the address of them
(tool/analysis/interproc/starts.c, range_analysis.c): each source has what may be taken for a function and is none, and the other way round."""

import pytest

from marked_rows import LIBRARY, wrong

# The linker has put the resolver's address into a relocation, and nowhere else.
RESOLVER = """
	.globl	first
	.type	first, @function
first:	ret
	.size	first, .-first
	.p2align 4, 0xcc
	.type	choose, @gnu_indirect_function
choose:	subq	$8, %rsp
	row	16
	xorl	%eax, %eax
	addq	$8, %rsp
	ret
	.data
	.quad	choose
"""


# Nothing says where these end. What first() takes the address of, and what lies after the call of what comes back, is
# a label of its own, which no function begins at; after one that does not, and after a return, functions do.
# What a signal's handler returns to is known by its bytes; its row begins one byte before, but not in other code.
TAKEN = """
	.globl	work, first
	.type	work, @function
work:	movl	%edi, %eax
	ret
	.size	work, .-work
	.type	first, @function
	.p2align 4
first:	pushq	%rbx
	row	16
	leaq	1f(%rip), %rbx
	leaq	next(%rip), %rsi
	leaq	restorer(%rip), %rdx
	leaq	hidden(%rip), %rcx
	leaq	behind(%rip), %r8
	.p2align 4
	nopl	(%rax)
	nopl	(%rax)
	nopw	(%rax)
	nopw	(%rax,%rax)
	call	work
	nopl	(%rax)
1:	row	16
	decl	%edi
	je	2f
	jmp	*%rbx
2:	popq	%rbx
	row	8
	ret
	.p2align 4
next:	row	8
	movl	%edi, %eax
	pushq	%rax
	row	16
	call	*%rsi
	popq	%rcx
	row	8
	ret
	.globl	third, fourth
	.type	third, @function
	.p2align 4
third:	pushq	%rbx
	row	16
	testl	%esi, %esi
	je	1f
	popq	%rbx
	row	8
	ret
1:	row	16
	movl	$7, %edi
	movl	$7, %esi
	call	other@plt
	.p2align 4
hidden:	row	8
	leaq	4(%rdi), %rax
	ret
	.type	fourth, @function
	.p2align 4
fourth:	pushq	%rbx
	row	16
	call	*%rdi
	nop
restorer: row	restorer
	movq	$15, %rax
	syscall
	.globl	fifth
	.type	fifth, @function
	.p2align 4
fifth:	pushq	%rbx
	row	16
	call	*%rdi
at.behind.restorer:
behind:	movq	$15, %rax
	syscall
	.set	at.last.undef, behind - 1
"""


# thunk() is all that calls its argument, as in musl's qsort(); nothing but its address leads there. label is no function: no
# argument says where it goes on; neither is label2, in the middle of a line of code.
THUNK = """
	.globl	first, second
	.type	first, @function
first:	pushq	%rbx
	row	16
	leaq	thunk(%rip), %rcx
	leaq	label(%rip), %r11
	leaq	label2(%rip), %rbx
	call	*%rdi
	popq	%rbx
	row	8
	ret
	.size	first, .-first
	.p2align 4
thunk:	row	8
	jmp	*%rdx
	.p2align 4
label:	row	undef
	jmp	*%r11
	.p2align 4, 0xcc
	row	undef
	nop
label2:	jmp	*%rdx
	.p2align 4, 0xcc
second:	row	8
	ret
	.size	second, .-second
	.type	second, @function
"""


# first() calls shared(), so that a function begins there, whatever else seems to lead there: second() comes from a stack that
# nothing tells, and third() falls into it after a call that does not come back.
CALLED = """
	.globl	first, second, third
	.type	first, @function
first:	pushq	%rbx
	row	16
	call	shared
	popq	%rbx
	row	8
	ret
	.size	first, .-first
	.type	second, @function
second:	movq	(%rdi), %rsp
	jmp	shared
	.size	second, .-second
	.type	third, @function
third:	subq	$24, %rsp
	row	32
	call	*(%rdi)
	.size	third, .-third
shared:	row	8
	pushq	%rbp
	row	16
	movq	%rsp, %rbp
	row	rbp16
	call	*%rsi
	popq	%rbp
	row	8
	ret
"""


# cold, after the end of first(), of which nothing says where that is, and cold2, which lies in what a symbol says is sized():
# second() jumps there with its frame.
COLD = """
	.globl	second, first, sized
	.type	second, @function
second:	subq	$24, %rsp
	row	32
	testl	%edi, %edi
	jne	cold
	js	cold2
	addq	$24, %rsp
	ret
	.size	second, .-second
	.type	sized, @function
	.p2align 4
sized:	pushq	%rbx
	row	16
	popq	%rbx
	ret
cold2:	row	32
	call	*%rdi
	addq	$24, %rsp
	row	8
	ret
	.size	sized, .-sized
	.type	first, @function
	.p2align 4
first:	pushq	%rbx
	row	16
	popq	%rbx
	ret
cold:	row	32
	call	*%rdi
	addq	$24, %rsp
	row	8
	ret
"""


# The entry point seems to go on after its call, and to jump from there with its own stack to what is a function
# that is jumped to as if to call it.
ENTRY = """
	.globl	_start, known
	.type	_start, @function
_start:	xorl	%ebp, %ebp
	movq	%rsp, %rdi
	andq	$-16, %rsp
	pushq	%rax
	call	begin
follows: row	8
	testl	%edi, %edi
	je	1f
	jmp	handed
1:	ret
	.p2align 4
	.type	known, @function
known:	subq	$8, %rsp
	row	16
	call	follows
	addq	$8, %rsp
	ret
	.size	known, .-known
	.p2align 4
begin:	pushq	%rbx
	row	16
1:	call	known
	jmp	1b
	.p2align 4
handed:	subq	$24, %rsp
	row	32
	call	*%rdi
	addq	$24, %rsp
	row	8
	ret
"""


# Calls whose return address is put on the stack by hand: of one that has a name, of one that data refers to, too. What data
# refers to and takes the frame of others off is theirs.
JUMPED = """
	.globl	pushing, named, other
	.type	pushing, @function
pushing: subq	$24, %rsp
	row	32
	leaq	1f(%rip), %rax
	pushq	%rax
	row	40
	testl	%edi, %edi
	je	named
	js	referred
1:	addq	$24, %rsp
	ret
	.size	pushing, .-pushing
	.p2align 4
	.type	named, @function
named:	row	8
	movl	%edi, %eax
	pushq	%rbx
	row	16
	popq	%rbx
	ret
	.size	named, .-named
	.p2align 4
	.type	other, @function
other:	subq	$24, %rsp
	row	32
	testl	%edi, %edi
	jne	label
	addq	$24, %rsp
	row	8
	ret
	.size	other, .-other
	.p2align 4
referred: row	8
	pushq	%rbx
	row	16
	popq	%rbx
	ret
	.p2align 4
label:	row	32
	call	*%rdi
	addq	$24, %rsp
	row	8
	ret
	.data
	.quad	referred, label
"""


# A call, and another: so many rounds before it is known what lies after them.
HOP = """	.p2align 4
hop:	subq	$8, %rsp
	row	16
	call	hop2
	addq	$8, %rsp
	ret
	.p2align 4
hop2:	subq	$8, %rsp
"""

# The call in first() seems to come back, for nothing says yet that die() does not, and what lies after it jumps on with
# a frame. To `theirs`, which takes a part of it off, second() does so, too.
MISLED = """
	.globl	first, known
	.type	first, @function
first:	subq	$24, %rsp
	row	32
	call	die
follows: row	8
	testl	%edi, %edi
	je	1f
	jmp	handed
1:	ret
	.p2align 4
	.type	known, @function
known:	subq	$24, %rsp
	row	32
	call	hop
	testl	%edi, %edi
	jne	theirs
	addq	$24, %rsp
	ret
	.size	known, .-known
""" + HOP + """	call	follows
	addq	$8, %rsp
	row	8
	ret
	.p2align 4
handed:	row	8
	subq	$8, %rsp
	row	16
	call	*%rdi
	addq	$8, %rsp
	ret
	.p2align 4
theirs:	row	32
	testl	%esi, %esi
	je	1f
	addq	$8, %rsp
	row	24
	ret
1:	addq	$16, %rsp
	row	16
	ret
	.p2align 4
die:	pushq	%rax
	call	die2
	.p2align 4
die2:	pushq	%rax
	call	die3
	.p2align 4
die3:	pushq	%rax
	call	abort@plt
"""


# `again` and `ever` are jumped to with a frame before it is known that somebody calls
# them; the first shows by its return that it is a function, the other might be either. `resolver` is jumped to with two words on top of
# the return address, as the dynamic linker's are.
LATE = """
	.globl	known, resolver
	.type	known, @function
known:	subq	$24, %rsp
	row	32
	leaq	1f(%rip), %rax
	pushq	%rax
	testl	%edi, %edi
	je	again
	js	ever
1:	call	hop
	addq	$24, %rsp
	ret
	.size	known, .-known
	.type	resolver, @function
	.p2align 4
resolver: row	24
	pushq	%rax
	row	32
	movq	16(%rsp), %rsi
	call	known
	movq	%rax, %r11
	popq	%rax
	row	24
	addq	$16, %rsp
	row	8
	jmp	*%r11
	.size	resolver, .-resolver
""" + HOP + """	call	again
	testl	%eax, %eax
	jne	1f
	addq	$8, %rsp
	row	8
	ret
1:	call	ever
	.p2align 4
again:	row	8
	pushq	%rbx
	row	16
	popq	%rbx
	ret
	.p2align 4
ever:	row	undef
	pushq	%rbx
1:	call	*%rdi
	jmp	1b
"""


# GHC's way (test_no_cfi.py): `zero` to `two` hand on; so does `hands`, which is C's, as is what has .eh_frame.
FOREIGN = """
	.globl	zero, one, two, last, described, hands
	.macro	function name
	.type	\\name, @function
	.p2align 4
\\name:
	.endm
	function zero
	row	undef
	incl	%ecx
	jmp	one
	.size	zero, .-zero
	function one
	row	undef
	incl	%ecx
	jmp	two
	.size	one, .-one
	function two
	row	undef
	incl	%ecx
	jmp	last
	.size	two, .-two
	function last
	row	undef
	addq	$16, %rbp
	testl	%ecx, %ecx
	je	1f
	jmp	*(%rbp)
1:	jmp	outside@PLT
	.size	last, .-last
	function hands
	row	8
	jmp	outside@PLT
	.size	hands, .-hands
"""
DESCRIBED = """
	function described
	.cfi_startproc
	row	8
	jmp	last
	.cfi_endproc
	.size	described, .-described
"""

CASES = {
    "a call proves more than edges": (CALLED, LIBRARY),
    "a_resolver": (RESOLVER, LIBRARY),
    "an_address_that_is_taken": (TAKEN, LIBRARY),
    "a_function_that_calls_its_argument": (THUNK, LIBRARY),
    "a_part_behind_another_function": (COLD, LIBRARY),
    "what_the_entry_point_seems_to_run_into": (ENTRY, ["-pie", "-rdynamic"]),
    "what_is_jumped_to_with_a_frame": (JUMPED, LIBRARY),
    "what_a_call_seems_to_come_back_to": (MISLED, LIBRARY),
    "what_is_called_after_all": (LATE, LIBRARY),
    "code_without_a_frame_of_c": (FOREIGN, LIBRARY),
    "code_without_a_frame_of_c_beside_some_that_has": (FOREIGN + DESCRIBED, LIBRARY),
}


@pytest.mark.parametrize("name", CASES)
def test_starts(etch, tmp_path, name):
    source, flags = CASES[name]
    assert not wrong(etch, tmp_path, source, *flags)
