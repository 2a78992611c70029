# SPDX-License-Identifier: MIT
"""Code that only computed gotos enter: handlers of an interpreter, in a frame of another's, and OCaml's exception
handlers, which a list on the stack leads to. Stripped, without .eh_frame; the rows that are right are written down here."""

import bisect

import pytest

from conftest import DATA, INCLUDE, run
from marked_rows import LIBRARY, PROGRAM, wrong

# run() makes the frame; from there each handler jumps to the next through a table. What the handlers call is code like any
# other: slow() is found by them alone. leaf() is no handler, though it is in the table, too: it uses rbp for its own ends.
HANDLERS = """
	.text
	.globl	_start, run
	.type	run, @function
_start:	call	run
	hlt
	.p2align 4
run:	pushq	%rbp
	movq	%rsp, %rbp
	pushq	%rbx
	pushq	%r13
	subq	$64, %rsp
	movq	%rdi, %r13
	{fill}
at.rbp.run:
	movzbl	(%r13), %eax
	leaq	table(%rip), %rsi
	jmp	*(%rsi,%rax,8)
	.size	run, .-run

	.long	1
local:
at.handler.local:
	movq	-40(%rbp), %rdx
	movq	%rdx, -48(%rbp)
	incq	%r13
	movzbl	(%r13), %eax
	leaq	table(%rip), %rsi
	jmp	*(%rsi,%rax,8)

	.long	2
argument:
	incq	%r13
	movq	16(%rbp), %rdi
at.handler.argument:
	testq	%rdi, %rdi
	je	leaves
	movzbl	(%r13), %eax
	leaq	table(%rip), %rsi
	jmp	*(%rsi,%rax,8)

	.long	3
calls:	movq	%r13, %rdi
	call	slow
at.handler.calls:
	movq	%rax, -40(%rbp)
	jmp	leaves

	.long	4
jumps:	testq	%rax, %rax
at.handler.jumps:
	je	leaves
	incq	%r13
	movzbl	(%r13), %eax
	leaq	table(%rip), %rsi
	jmp	*(%rsi,%rax,8)

	.long	5
raises:	cmpq	$-1, -40(%rbp)
	je	thrown
at.handler.raises:
	movzbl	(%r13), %eax
	leaq	table(%rip), %rsi
	jmp	*(%rsi,%rax,8)

	.long	6
leaves:	movq	-40(%rbp), %rax
at.handler.leaves:
	leaq	-16(%rbp), %rsp
	popq	%r13
	popq	%rbx
	popq	%rbp
	ret

	.p2align 4
slow:	subq	$24, %rsp
at.rsp24.slow:
	call	*8(%rdi)
	addq	$24, %rsp
	ret

	.p2align 4
leaf:	pushq	%rbp
	movq	(%rdi), %rbp
	movq	8(%rbp), %rax
at.rsp16.leaf:
	popq	%rbp
	ret

	.long	7
thrown:	movq	-48(%rbp), %rsi
at.handler.thrown:
	movq	%rbx, (%rsi)
	jmp	*8(%rsi)

	.section .data.rel.ro, "aw"
	.p2align 3
table:	{table}
"""
NAMES = ["local", "argument", "calls", "jumps", "raises", "leaves", "leaf"]
FILLED = ["leaq table(%rip), %rdx"]
for number, name in enumerate(NAMES):
    FILLED += [f"leaq {name}(%rip), %rcx", f"movl ${number}, %r8d", "movq %rcx, (%rdx,%r8,8)"]
TABLES = {"relocated": ("", ".quad " + ", ".join(NAMES)), "filled": ("\n\t".join(FILLED), ".skip 64")}
RIGHT = {"rbp": {"rbp+16"}, "handler": {"rbp+16"}, "rsp24": {"rsp+32"}, "rsp16": {"rsp+16", "undef"}}


@pytest.mark.parametrize("flags", [LIBRARY, PROGRAM], ids=["library", "program"])
@pytest.mark.parametrize("table", TABLES)
def test_handlers_that_a_table_leads_to_are_no_functions(etch, tmp_path, table, flags):
    fill, words = TABLES[table]
    (tmp_path / "i.s").write_text(HANDLERS.format(fill=fill, table=words) + '\t.section .note.GNU-stack,"",@progbits\n')
    path = tmp_path / "i"
    run(["gcc", "-nostdlib", *flags, "-o", path, tmp_path / "i.s"])
    places = [line.split() for line in run(["nm", path]).stdout.splitlines() if " at." in line]
    run(["strip", path])
    rows = [line.split("\t") for line in run([etch, "inspect", "orc", "--format", "tsv", path]).stdout.splitlines()[1:]]
    starts = [int(r[0], 16) for r in rows]
    assert len(places) == 10
    bad = []
    for at, _, name in places:
        r = rows[bisect.bisect_right(starts, int(at, 16)) - 1]
        cfa = r[2] if int(at, 16) < int(r[0], 16) + int(r[1], 16) else "undef"
        if cfa not in RIGHT[name.split(".")[1]]:
            bad.append((name, cfa))
    assert not bad


def test_every_instruction_of_handlers_has_the_true_caller(etch, tmp_path, build):
    out = tmp_path / "handlers"
    run(["gcc", "-std=gnu11", "-D_GNU_SOURCE", "-O2", "-Wall", "-Wextra", "-Werror", f"-I{INCLUDE}", "-o", out,
         DATA / "unwind" / "handlers.c", build / "libetch.a", "-pthread"])
    run([etch, "rewrite", out])
    seen = [line.split() for line in run([out]).stdout.splitlines()]
    assert [s[0] for s in seen] == ["calls", "tail", "catch", "both", "grow", "wide"]
    for name, right, copying, stopped, wrong, *at in seen:
        assert (int(stopped), int(wrong)) == (0, 0) and int(right) > 30, seen
        assert (int(copying) > 0) == (name == "grow"), seen


# shared() is found to be jumped to by one handler after another, of whose frames nothing is known before all of them are:
# what its edges have brought until then, joined, is forgotten. Functions between them make each a code range of its own.
JOINED = """
	.text
	.globl	run
	.type	run, @function
run:	pushq	%rbp
	movq	%rsp, %rbp
	pushq	%r13
	subq	$72, %rsp
	movq	%rdi, %r13
	movzbl	(%r13), %eax
	leaq	table(%rip), %rsi
	jmp	*(%rsi,%rax,8)
	.size	run, .-run
	{chain}
shared:	row	rbp16
	incq	%r13
	movzbl	(%r13), %eax
	leaq	table(%rip), %rsi
	jmp	*(%rsi,%rax,8)
	.globl	last
	.type	last, @function
last:	ret
	.size	last, .-last
	.section .data.rel.ro, "aw"
	.p2align 3
table:	.quad	first, shown
"""
SHOWN = """	.long	1
shown:	movq	-40(%rbp), %rax
	leaq	-8(%rbp), %rsp
	popq	%r13
	popq	%rbp
	ret
	.globl	after
	.type	after, @function
after:	ret
	.size	after, .-after
	.long	1
"""
LINK = """{name}:	movq	-40(%rbp), %rdx
	row	rbp16
	testq	%rdx, %rdx
	je	shared
	jmp	{next}
	.globl	f{name}
	.type	f{name}, @function
f{name}: ret
	.size	f{name}, .-f{name}
"""


def test_edges_before_the_handlers_were_known_are_forgotten(etch, tmp_path):
    names = ["first", *(f"c{i}" for i in range(12))]
    chain = "".join(LINK.format(name=name, next=after) for name, after in zip(names, [*names[1:], "shared"]))
    assert wrong(etch, tmp_path, JOINED.format(chain=SHOWN + chain), *LIBRARY) == []


# OCaml 5, and 4.14 with the head of the list in r14: after a call that raises lies the handler, with the two words taken
# off. entry() ends in a jump to what a closure says, its frame gone, rbx and r12 changed: code after it that nothing
# leads to has no row.
TRAPS = """
	.globl	entry
	.type	entry, @function
entry:	subq	$24, %rsp
	row	32
	movq	8(%rax), %rbx
	leaq	handler(%rip), %r11
	pushq	%r11
	pushq	{head}
	movq	%rsp, {head}
	row	48
	movq	%rbx, %r12
	call	raise
handler: row	32
	movq	8(%rax), %rdi
	testq	%rdi, %rdi
	je	1f
	leaq	second(%rip), %r11
	pushq	%r11
	pushq	{head}
	movq	%rsp, {head}
	row	48
	call	*%rdi
	popq	{head}
	addq	$8, %rsp
	row	32
1:	movq	(%rax), %rdi
	addq	$24, %rsp
	row	8
	jmp	*%rdi
unseen:	row	undef
	movq	%rax, 8(%rsp)
	nopl	8(%rax)
second:	row	32
	movq	%rax, (%rsp)
	addq	$24, %rsp
	row	8
	ret
	.size	entry, .-entry
	.p2align 4
	.globl	raise
	.type	raise, @function
raise:	movq	{head}, %rsp
	popq	{head}
	ret
	.size	raise, .-raise
"""


@pytest.mark.parametrize("head", ["48(%r14)", "%r14"], ids=["field", "register"])
def test_an_exception_handler_begins_with_the_words_of_its_list_taken_off(etch, tmp_path, head):
    assert wrong(etch, tmp_path, TRAPS.format(head=head), *LIBRARY) == []


# rsp is put away in the frame before a variable array is made, and loaded back from there; no frame pointer. What a local
# variable holds that points to the frame's bottom is no way back: it may have been changed through a pointer.
SAVED = """
	.globl	saves, points
	.type	saves, @function
saves:	pushq	%rbx
	subq	$48, %rsp
	row	64
	movq	%rsp, 16(%rsp)
	movl	%edi, %ebx
1:	call	*%rsi
	row	64
	movq	16(%rsp), %rsp
	row	64
	decl	%ebx
	jne	1b
	addq	$48, %rsp
	popq	%rbx
	row	8
	ret
	.size	saves, .-saves
	.type	points, @function
points:	pushq	%rbx
	subq	$48, %rsp
	movq	%rsp, 16(%rsp)
	leaq	16(%rsp), %rdi
	call	*%rsi
	movq	16(%rsp), %rax
	row	64
	movq	%rax, %rsp
	row	undef
	nop
	ud2
	.size	points, .-points
"""


def test_rsp_that_the_frame_keeps_is_loaded_back(etch, tmp_path):
    assert wrong(etch, tmp_path, SAVED, *LIBRARY) == []


# Labels of a computed goto in a frame that rsp keeps: what they use of the registers that run() has set, or of its stack,
# shows that they are no functions, or that they jump to such code does. takes() is one, of a language that hands arguments
# on in rbx, and so is keeps(), which changes r15 for its caller: both return.
LABELS = """
	.globl	run
	.type	run, @function
run:	pushq	%r12
	pushq	%rbp
	pushq	%rbx
	subq	$48, %rsp
	row	80
	movq	%rdi, %rbx
	movq	%rsi, %r12
	leaq	table(%rip), %r11
	movq	%rdx, %r10
	movzbl	(%rbx), %eax
	jmp	*(%r11,%rax,8)
	.size	run, .-run
	.p2align 4
memory:	row	undef
	movq	-16(%r12), %rdx
	testq	%rdx, %rdx
	je	number
	movq	8(%rdx), %rdx
	jmp	next
	.p2align 4
number:	row	undef
	movl	%ebp, %eax
	shrl	$16, %eax
	jmp	next
	.p2align 4
next:	row	undef
	addq	$2, %rbx
	movzwl	(%rbx), %eax
	leaq	table(%rip), %r11
	jmp	*(%r11,%rax,8)
	.p2align 4
jumps:	row	undef
	jmp	number
	.p2align 4
behind:	row	undef
	movl	$3, %edi
	call	helper
	row	undef
	movq	(%r12), %rax
	jmp	next
	.p2align 4
scratch: row	undef
	movslq	4(%r10), %rax
	addq	$8, %r10
	jmp	*(%r11,%rax,8)
	.p2align 4
hops:	row	undef
	movl	$1, %edx
	jmp	scratch
	.p2align 4
stack:	row	undef
	movq	16(%rsp), %rax
	jmp	*(%rdx,%rax,8)
	.p2align 4
above:	row	undef
	movl	$2, %edx
	jmp	stack
	.p2align 4
leaves:	row	undef
	addq	$48, %rsp
	popq	%rbx
	popq	%rbp
	popq	%r12
	ret
	.p2align 4
takes:	row	8
	movq	8(%rbx), %rax
	addq	(%rbx), %rax
	row	8
	ret
	.globl	seventh
	.type	seventh, @function
seventh: movq	8(%rsp), %rax
	row	8
	ret
	.size	seventh, .-seventh
	.globl	hands
	.type	hands, @function
hands:	row	8
	movl	$1, %eax
	jmp	keeps
	.size	hands, .-hands
	.p2align 4
keeps:	pushq	%rbx
	row	16
	movq	24(%r14), %rbx
	addq	$32, %r15
	popq	%rbx
	row	8
	ret
	.p2align 4
helper:	subq	$24, %rsp
	row	32
	call	*%rdi
	addq	$24, %rsp
	row	8
	ret
	.section .data.rel.ro, "aw"
	.p2align 3
table:	.quad memory, number, next, jumps, behind, hops, scratch, above, stack, leaves
	.skip	64
	.quad takes
"""


def test_labels_that_use_their_functions_registers_are_no_functions(etch, tmp_path):
    assert wrong(etch, tmp_path, LABELS, *LIBRARY) == []


# Two functions jump through one table: run() with a frame that rbp points to, and other(), in which rbp is still its
# caller's. So no rule of rbp holds in the handlers. Without other() they have run()'s frame.
SHARED = """
	.globl	run
	.type	run, @function
run:	pushq	%rbp
	movq	%rsp, %rbp
	subq	$64, %rsp
	row	rbp16
	movzbl	(%rdi), %eax
	leaq	table(%rip), %rsi
	jmp	*(%rsi,%rax,8)
	.size	run, .-run
{other}
	.long	1
local:	row	{rule}
	movq	-40(%rbp), %rdx
	incq	%rdi
	movzbl	(%rdi), %eax
	leaq	table(%rip), %rsi
	row	{rule}
	jmp	*(%rsi,%rax,8)
	.long	2
again:	row	{rule}
	movq	16(%rbp), %rdx
	incq	%rdi
	movzbl	(%rdi), %eax
	leaq	table(%rip), %rsi
	jmp	*(%rsi,%rax,8)
	.section .data.rel.ro, "aw"
	.p2align 3
table:	.quad local, again
"""
OTHER = """
	.globl	other
	.type	other, @function
other:	subq	$24, %rsp
	row	32
	movzbl	(%rdi), %eax
	leaq	table(%rip), %rsi
	jmp	*(%rsi,%rax,8)
	.size	other, .-other
"""


@pytest.mark.parametrize("other,rule", [("", "rbp16"), (OTHER, "undef")], ids=["one-frame", "two-frames"])
def test_a_table_that_is_jumped_through_in_two_frames_shows_neither(etch, tmp_path, other, rule):
    assert wrong(etch, tmp_path, SHARED.format(other=other, rule=rule), *LIBRARY) == []
