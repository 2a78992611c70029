# SPDX-License-Identifier: MIT
"""A call is found not to return where another path reaches the code behind it with another rsp (tool/analysis/flow/clashes.c).
Which of the two is walked first makes no difference: a branch is followed before a jump table is."""
import itertools

import pytest

from marked_rows import LIBRARY, wrong


def function(paths, code):
    """f, which leads to each label of `paths` by a branch or by an entry of a jump table."""
    branches = "".join(f"	cmpl	${n + 100}, %edi\n	je	{label}\n" for n, (label, how) in enumerate(paths.items()) if how == "branch")
    entries = [label for label, how in paths.items() if how == "table"]
    table = "".join(f"	.long	{label} - table\n" for label in entries)
    jump = f"""	cmpl	${len(entries) - 1}, %edi
	ja	out
	movl	%edi, %edi
	leaq	table(%rip), %rax
	movslq	(%rax,%rdi,4), %rdx
	addq	%rax, %rdx
	jmp	*%rdx
""" if entries else "	jmp	out\n"
    return f"""	.globl	f
	.type	f, @function
f:	subq	$24, %rsp
	row	32
{branches}{jump}{code}
out:	row	32
	addq	$24, %rsp
	ret
	.size	f, .-f
	.section .rodata
	.p2align 2
table:
{table}	.text
"""


def orders(*labels):
    """Each label by a branch or by the table, in every combination."""
    return [pytest.param(dict(zip(labels, hows)), id="-".join(hows)) for hows in itertools.product(("branch", "table"), repeat=len(labels))]


@pytest.mark.parametrize("paths", orders("call", "behind"))
def test_the_code_behind_a_call_has_the_frame_of_the_other_path(paths, etch, tmp_path):
    """Twice, and the code behind both calls is reached in the same way."""
    source = function({**paths, "second": paths["call"], "last": paths["behind"]}, """
call:	subq	$16, %rsp
	row	48
	call	g@PLT
behind:	row	32
	xorl	%eax, %eax
	jmp	out
second:	subq	$32, %rsp
	row	64
	call	g@PLT
last:	row	32
	addq	$24, %rsp
	row	8
	ret
""")
    assert not wrong(etch, tmp_path, source, *LIBRARY)


@pytest.mark.parametrize("paths", orders("call"))
def test_a_path_that_only_the_call_leads_to_shows_nothing_of_it(paths, etch, tmp_path):
    """A loop behind the call that pushes: its back edge comes with another rsp, and there is no other way into it."""
    source = function(paths, """
call:	pushq	%rbp
	movq	%rsp, %rbp
	row	40
	call	g@PLT
loop:	row	rbp40
	pushq	%rax
	decl	%edi
	jne	loop
	call	g@PLT
	nop
	row	rbp40
	leave
	jmp	out
""")
    assert not wrong(etch, tmp_path, source, *LIBRARY)


@pytest.mark.parametrize("paths", orders("call", "same", "other"))
def test_paths_that_disagree_by_themselves_show_nothing_of_the_call(paths, etch, tmp_path):
    source = function(paths, """
call:	subq	$16, %rsp
	row	48
	call	g@PLT
behind:	row	undef
	movl	$1, %eax
	jmp	out2
same:	subq	$16, %rsp
	row	48
	jmp	behind
other:	row	32
	jmp	behind
out2:	row	undef
	ud2
""")
    assert not wrong(etch, tmp_path, source, *LIBRARY)


@pytest.mark.parametrize("paths", orders("allocates", "behind"))
def test_memory_that_a_path_allocates_shows_nothing_of_a_call(paths, etch, tmp_path):
    """As alloca() in a branch: both paths are correct, and the frame is found by rbp."""
    source = function(paths, """
allocates:
	subq	$32, %rsp
	row	rbp16
	call	g@PLT
behind:	row	rbp16
	xorl	%eax, %eax
	jmp	out
""").replace("f:	subq	$24, %rsp\n	row	32", "f:	pushq	%rbp\n	movq	%rsp, %rbp\n	subq	$16, %rsp").replace(
        "out:	row	32\n	addq	$24, %rsp", "out:	row	rbp16\n	leave\n	row	8")
    assert not wrong(etch, tmp_path, source, *LIBRARY)
