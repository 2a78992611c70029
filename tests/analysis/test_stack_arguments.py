# SPDX-License-Identifier: MIT
"""Functions without .eh_frame that only addresses lead to, and that read arguments where C has none. The labels of a
computed goto read the stack as well, in a frame of another's: what tells them apart is how they return."""

from marked_rows import LIBRARY, wrong

# copies() returns after a jump that is not followed; tails() and also(), in functions that they jump to; closure(), in
# the middle of another one; forwards(), in one with a name. What begins with unwinds is a label in run()'s frame.
SOURCE = """
	.globl	run
	.type	run, @function
run:	pushq	%rbx
	subq	$48, %rsp
	row	64
	movq	%rdi, %rbx
	movzbl	(%rbx), %eax
	leaq	table(%rip), %r11
	jmp	*(%r11,%rax,8)
	.size	run, .-run
	.p2align 4
copies:	row	8
	movl	8(%rsp), %eax
	leaq	offsets(%rip), %r10
	movslq	(%r10,%r8,4), %r8
	addq	%r10, %r8
	row	8
	jmp	*%r8
	row	8
	movl	%eax, (%rdi)
	ret
	row	8
	movq	%rax, (%rdi)
	ret
	.p2align 4
tails:	row	8
	movl	$16, %eax
	cmpl	$32, 8(%rsp)
	jne	slow
	row	8
	jmp	fast
	.p2align 4
also:	row	8
	cmpl	$16, 8(%rsp)
	je	fast
	jmp	slow
	.p2align 4
slow:	row	8
	movl	8(%rsp), %ecx
1:	movb	%al, (%rdi)
	subl	$1, %ecx
	jg	1b
	row	8
	ret
	.p2align 4
fast:	row	8
	movq	%rax, (%rdi)
	ret
	.p2align 4
closure: row	8
	movq	%rcx, 8(%rsp)
	movq	8(%r10), %rcx
	jmp	1f
	.p2align 4
another: row	8
	movq	%rcx, 8(%rsp)
	movq	32(%r10), %rcx
1:	row	8
	subq	$88, %rsp
	row	96
	leaq	40(%rsp), %r9
	call	*%rcx
	movq	40(%rsp), %rax
	addq	$88, %rsp
	row	8
	ret
	.p2align 4
forwards: row	8
	movl	8(%rsp), %eax
	jmp	sums
	.globl	sums
	.type	sums, @function
sums:	addl	8(%rsp), %eax
	row	8
	ret
	.size	sums, .-sums
	.p2align 4
unwinds: row	undef
	movq	16(%rsp), %rax
	jmp	leaves
	.p2align 4
leaves:	row	undef
	addq	$48, %rsp
	popq	%rbx
	ret
	.p2align 4
drops:	row	undef
	movq	16(%rsp), %rax
	subq	$8, %rsp
	jmp	taken
	.p2align 4
taken:	row	undef
	ret
	.p2align 4
dispatches: row	undef
	movq	16(%rsp), %rax
	incq	%rbx
	jmp	*(%r11,%rax,8)
	.p2align 4
goes:	row	undef
	incq	%rbx
	jmp	either
	.p2align 4
either:	row	undef
	movq	16(%rsp), %rax
	jmp	*(%r11,%rax,8)
	movq	%rdx, (%rdi)
	ret
	addq	$48, %rsp
	popq	%rbx
	ret
	.section .data.rel.ro, "aw"
	.p2align 3
table:	.quad	copies, tails, also, closure, another, forwards, unwinds, drops, dispatches, goes, either
	.section .rodata
offsets: .long	1, 2
"""


def test_a_function_may_read_its_arguments_from_the_stack(etch, tmp_path):
    assert wrong(etch, tmp_path, SOURCE, *LIBRARY) == []


# clang's preserve_none hands arguments on in r12 to r15. The functions save rbp alone, and end in jumps to the next one.
PRESERVE_NONE = """
	.globl	main
	.type	main, @function
main:	leaq	table(%rip), %r11
	jmp	*(%r11,%rdi,8)
	.size	main, .-main
	.p2align 4
parses:	row	8
	pushq	%rbp
	movq	%rsp, %rbp
	row	rbp16
	testb	%r15b, %r15b
	jne	1f
	movq	%r14, %rdi
	call	*8(%r13)
	popq	%rbp
	row	8
	jmp	fields
1:	row	rbp16
	shrq	$48, %r15
	popq	%rbp
	row	8
	jmp	fields
	.p2align 4
fields:	row	8
	movzbl	(%rdi), %eax
	jmp	*(%rsi,%rax,8)
	.section .data.rel.ro, "aw"
	.p2align 3
table:	.quad	parses, fields
"""


def test_a_function_may_take_its_arguments_in_callee_saved_registers(etch, tmp_path):
    assert wrong(etch, tmp_path, PRESERVE_NONE, *LIBRARY) == []
