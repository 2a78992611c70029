# SPDX-License-Identifier: MIT
"""Assembly that hands on an address of its own code in a register, for other code to jump to: a continuation. Which row
it has, the source says; so does the processor, where the program runs one instruction at a time."""

import pytest

import dynamic
from conftest import run
from marked_rows import LIBRARY, MACROS, PROGRAM, wrong


# Some of it stores above its return address, by which it would be taken for a label in a frame of other code.
SOURCE = """
	.globl	_start
	.type	_start, @function
_start:	xorl	%ebp, %ebp
	call	begins
	movl	$60, %eax
	xorl	%edi, %edi
	syscall
	.size	_start, .-_start
	.globl	begins
	.type	begins, @function
begins:	leaq	first(%rip), %rax
	call	*%rax
	leaq	second(%rip), %rax
	call	*%rax
	call	third
	call	fourth
	call	fifth
	call	sixth
	call	seventh
	ret
	.size	begins, .-begins

/* The callee jumps to it, and it jumps back into the middle of what is called elsewhere. */
	.p2align 4
first:	row	8
	subq	$88, %rsp
	leaq	1f(%rip), %r8
	row	96
	call	turns
	movdqu	%xmm0, 48(%rsp)
	leaq	2f(%rip), %r8
	call	turns
	addq	$88, %rsp
	row	8
	ret
	.p2align 4
turns:	row	8
	movdqu	%xmm1, 24(%rsp)
	call	leaf
	row	8
	movdqu	24(%rsp), %xmm1
again:	row	8
	paddw	%xmm1, %xmm0
	jmp	*%r8
	.p2align 4
1:	row	8
	movdqu	%xmm1, 40(%rsp)
	leaq	2f(%rip), %r8
	call	leaf
	row	8
	jmp	again
	.p2align 4
2:	row	8
	movdqu	40(%rsp), %xmm1
	ret
	.p2align 4
leaf:	row	8
	paddw	%xmm0, %xmm0
	ret

/* In the frame of the jump; twice one after the other, which waits on the stack, then in another register. */
	.p2align 4
second:	row	8
	leaq	3f(%rip), %r8
	jmp	deepens
	.p2align 4
deepens: row	8
	subq	$120, %rsp
	row	128
	movdqu	%xmm0, (%rsp)
	call	leaf
	jmp	shared
	.p2align 4
3:	row	128
	movdqu	%xmm0, (%rsp)
	addq	$120, %rsp
	row	8
	ret
	.p2align 4
shared:	row	128
	movq	%r8, 64(%rsp)
	leaq	4f(%rip), %r8
	jmp	5f
	.p2align 4
4:	row	128
	movq	64(%rsp), %rcx
	leaq	6f(%rip), %r8
5:	row	128
	paddw	%xmm0, %xmm1
	jmp	*%r8
	.p2align 4
6:	row	128
	movdqu	%xmm0, (%rsp)
	movq	%rcx, %r8
	jmp	5b

/* As musl's __libc_start_main goes on, to end the program: what was saved is the caller's again, and not where it was. */
	.p2align 4
seventh: row	8
	pushq	%rbx
	pushq	%rbp
	row	24
	movq	%rdi, %rbp
	movq	%rsi, %rbx
	leaq	stage(%rip), %r8
	popq	%rbp
	popq	%rbx
	row	8
	pushq	%rdx
	pushq	%rdx
	row	24
	addq	$16, %rsp
	row	8
	jmp	*%r8
	.p2align 4
stage:	row	8
	movl	$1, %eax
	pushq	%rbp
	row	16
	movq	%rdi, %rbp
	call	leaf
	movl	$60, %eax
	xorl	%edi, %edi
	syscall
	hlt

/* Frames of two sizes: known at each continuation, unknown in what both jump through. */
	.p2align 4
third:	row	8
	subq	$24, %rsp
	leaq	7f(%rip), %r9
	row	32
	jmp	9f
	.p2align 4
fourth:	row	8
	subq	$56, %rsp
	leaq	8f(%rip), %r9
	row	64
	jmp	9f
	.p2align 4
7:	row	32
	movq	%rax, (%rsp)
	addq	$24, %rsp
	ret
	.p2align 4
8:	row	64
	movq	%rax, (%rsp)
	addq	$56, %rsp
	ret
	.p2align 4
9:	row	undef
	incl	%eax
	jmp	*%r9

/* One continuation, in two frames. */
	.p2align 4
fifth:	row	8
	leaq	13f(%rip), %r10
	leaq	12f(%rip), %r11
	jmp	*%r10
	.p2align 4
sixth:	row	8
	leaq	13f(%rip), %r10
	leaq	12f(%rip), %r11
	pushq	%r11
	leaq	11f(%rip), %r11
	row	16
	jmp	*%r10
	.p2align 4
11:	popq	%r11
	incl	%eax
	jmp	*%r11
	.p2align 4
12:	incl	%eax
	ret
	.p2align 4
13:	row	undef
	incl	%eax
	row	undef
	jmp	*%r11
"""


@pytest.mark.parametrize("flags", [LIBRARY, PROGRAM], ids=["library", "program"])
def test_a_continuation_has_the_frame_of_the_jump(etch, tmp_path, flags):
    assert wrong(etch, tmp_path, SOURCE, *flags) == []


def test_so_says_the_processor(etch, stepper, tmp_path):
    file, path = tmp_path / "s.s", tmp_path / "s"
    file.write_text(MACROS + SOURCE + '\n\t.section .note.GNU-stack,"",@progbits\n')
    run(["gcc", "-nostdlib", "-static", "-no-pie", "-o", path, file])
    run(["strip", path])
    report = dynamic.over_ptrace(stepper(), dynamic.Rows(tmp_path / "rows", etch, []), [path], entry=True)
    assert report.steps > 60
    assert [str(t) for t in report.trouble if t.what in dynamic.WRONG] == []


# What only begins so: a label of a table that is jumped through; an address that is kept, or whose jumps find rsp in
# two places; a callback, which is a function.
OTHERS = """
	.globl	runs
	.type	runs, @function
runs:	leaq	kept(%rip), %r8
	movq	%r8, (%rdi)
	call	takes
	leaq	calls(%rip), %rsi
	jmp	hands
	.size	runs, .-runs
	.p2align 4
takes:	row	8
	subq	$40, %rsp
	row	48
	leaq	twice(%rip), %r8
	testl	%eax, %eax
	je	1f
	pushq	%rax
	row	56
	jmp	*%r8
1:	row	48
	jmp	*%r8
	.p2align 4
twice:	row	undef
	movq	%rax, (%rsp)
	incl	%eax
	jmp	leaves
	.p2align 4
leaves:	hlt
	.p2align 4
kept:	row	8
	pushq	%rbx
	row	16
	popq	%rbx
	ret
	.p2align 4
hands:	row	8
	movq	%rdi, %rax
	jmp	*%rsi
	.p2align 4
calls:	row	8
	pushq	%rbx
	row	16
	movq	%rax, %rbx
	popq	%rbx
	row	8
	ret
"""


def test_others_are_as_before(etch, tmp_path):
    assert wrong(etch, tmp_path, OTHERS, *PROGRAM) == []
