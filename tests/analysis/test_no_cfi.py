# SPDX-License-Identifier: MIT
"""Rows of stripped files without .eh_frame, beside the .eh_frame that was taken from them. Many
files: scripts/no_cfi.py, docs/correctness.md."""

from pathlib import Path

import pytest

import no_cfi
import rows
from conftest import run


# An executable, a library, and one whose calls reach nearly all of it.
FILES = [Path("/usr/bin/gzip"), Path("/lib/x86_64-linux-gnu/libz.so.1"), Path("/usr/bin/sqlite3")]
FILES = [p for p in FILES if p.exists()]


def looked_at(etch, tmp_path, source, *flags):
    """A library of this assembly, its rows made without .eh_frame compared with it."""
    file, library = tmp_path / "a.s", tmp_path / "a.so"
    file.write_text(source)
    run(["gcc", "-shared", *flags, "-o", library, file])
    return no_cfi.look((etch, library, tmp_path))


@pytest.mark.parametrize("path", FILES, ids=lambda p: p.name)
def test_rows_of_code_alone(etch, path, tmp_path):
    r = no_cfi.look((etch, path, tmp_path))
    assert not r.error
    assert r.covered > 10_000 and r.right >= 0.95 * r.covered, (r.right, r.covered)
    assert r.wrong <= 0.0005 * r.covered, r.places[:10]


def test_the_check_can_fail(etch, tmp_path, monkeypatch):
    of = no_cfi.survey_rows.Ours.of

    def wrong(etch, path):
        ours = of(etch, path)
        ours.rule = [("rsp+8", "same", "cfa-8", "call") if r[0] == "rsp+16" else r for r in ours.rule]
        return ours

    monkeypatch.setattr(no_cfi.survey_rows.Ours, "of", staticmethod(wrong))
    r = no_cfi.look((etch, FILES[0], tmp_path))
    assert r.wrong > 0.001 * r.covered


# bug() ends by exit and, in its cold part, which nothing else leads to, by abort. After the call of it, and
# no more padding than in front of a loop, lies a function that does not begin as most do.
COLD = """
	.text
	.cfi_startproc
cold:	.cfi_def_cfa_offset 32
	call	abort@plt
	.cfi_endproc
	.p2align 4
	.globl	first
	.type	first,@function
first:	.cfi_startproc
	subq	$8, %rsp
	.cfi_def_cfa_offset 16
	testl	%edi, %edi
	je	1f
	addq	$8, %rsp
	.cfi_remember_state
	.cfi_def_cfa_offset 8
	ret
1:	.cfi_restore_state
	movl	$7, %esi
	xorl	%eax, %eax
	call	bug
	.cfi_endproc
	.p2align 4
hidden:	.cfi_startproc
	leaq	4(%rdi), %rax
	ret
	.cfi_endproc
	.p2align 4
	.globl	last
	.type	last,@function
last:	.cfi_startproc
	leaq	hidden(%rip), %rax
	ret
	.cfi_endproc
	.p2align 4
bug:	.cfi_startproc
	subq	$24, %rsp
	.cfi_def_cfa_offset 32
	testl	%edi, %edi
	jne	cold
	call	exit@plt
	.cfi_endproc
	.section .note.GNU-stack,"",@progbits
"""


def test_a_cold_part_that_does_not_come_back(etch, tmp_path):
    r = looked_at(etch, tmp_path, COLD)
    assert not r.error and r.covered > 50
    assert not r.wrong, r.places


# What clang makes of a loop after a call: up to 15 bytes in front of it, which is as much as in front of a function.
# After the one that does not return there is one that begins with what it was handed.
LOOPS = """
	.text
	.globl	first
	.type	first,@function
	.p2align 4
first:	.cfi_startproc
	pushq	%rbx
	.cfi_def_cfa_offset 16
	.cfi_offset 3, -16
	movl	%edi, %ebx
	leal	1(%rdi), %edi
	xorl	%eax, %eax
	movl	$7, %esi
	call	work
	.p2align 4,,15
1:	addl	%eax, %ebx
	decl	%eax
	jne	1b
	movl	%ebx, %eax
	popq	%rbx
	.cfi_def_cfa_offset 8
	ret
	.cfi_endproc
	.p2align 4
work:	.cfi_startproc
	testl	%edi, %edi
	je	2f
	movl	%edi, %eax
	ret
2:	subq	$8, %rsp
	.cfi_def_cfa_offset 16
	nop
	call	bug
	.cfi_endproc
	.p2align 4
hidden:	.cfi_startproc
	leaq	4(%rdi), %rax
	movq	%rax, -8(%rsp)
	ret
	.cfi_endproc
	.p2align 4
	.globl	last
	.type	last,@function
last:	.cfi_startproc
	leaq	hidden(%rip), %rax
	ret
	.cfi_endproc
	.p2align 4
bug:	.cfi_startproc
	subq	$8, %rsp
	.cfi_def_cfa_offset 16
	call	abort@plt
	.cfi_endproc
	.section .note.GNU-stack,"",@progbits
"""


def test_a_loop_behind_much_padding(etch, tmp_path):
    r = looked_at(etch, tmp_path, LOOPS)
    assert not r.error and not r.wrong, r.places
    assert r.right == r.covered, r


# One that only reads memory by what it keeps in a callee-saved register (WTF's locks in bun).
SPINS = LOOPS.replace("1:\taddl\t%eax, %ebx\n\tdecl\t%eax\n", "1:\tmovzbl\t(%rbx), %eax\n\tmovl\t%eax, %ecx\n\tandb\t$0xc0, %cl\n\tcmpb\t$0x40, %cl\n")


def test_a_loop_that_reads_by_a_register(etch, tmp_path):
    assert "(%rbx)" in SPINS
    r = looked_at(etch, tmp_path, SPINS)
    assert not r.error and not r.wrong, r.places
    assert r.right == r.covered, r


# As dav1d's assembly has it, of which only data says that it is there. Tables by the logarithm of a width have
# no bound, and begin with what is another one's; each is jumped through with a frame of its own. A piece in the
# middle, which goes on with what all share, is called, and changes rbp. `numbers` is referred to as well.
ASSEMBLY = """
	.text
	.p2align 4
widths:	.cfi_startproc
	leaq	.Lwidths(%rip), %rax
	tzcntl	%ecx, %ecx
	movslq	(%rax,%rcx,4), %rcx
	addq	%rax, %rcx
	jmp	*%rcx
.Lw4:	incl	%esi
	ret
.Lw8:	subq	$24, %rsp
	.cfi_def_cfa_offset 32
	jmp	2f
1:	xorl	%edx, %edx
	addq	$24, %rsp
	.cfi_remember_state
	.cfi_def_cfa_offset 8
	ret
2:	.cfi_restore_state
	decl	%esi
	jne	1b
	leaq	.Lbase(%rip), %r8
	movslq	.Lagain-.Lbase(%r8,%rdx,4), %rdx
	leaq	.Lagain-.Lbase(%r8,%rdx), %rdx
	jmp	*%rdx
	.cfi_endproc
	.p2align 4
numbers: .fill 4, 4, 0x5a827999
	.fill 2, 4, 0x6ed9eba1
	.p2align 4
parts:	.cfi_startproc
	leaq	numbers(%rip), %rax
	pushq	%rbp
	.cfi_def_cfa_offset 16
	.cfi_offset 6, -16
	call	5f
	decl	%edi
	jne	7f
	popq	%rbp
	.cfi_remember_state
	.cfi_restore 6
	.cfi_def_cfa_offset 8
	ret
	.cfi_endproc
5:	.cfi_startproc
	movl	$3, %ebp
	.cfi_undefined 6
6:	decl	%ebp
	jne	6b
	ret
	.cfi_endproc
7:	.cfi_startproc
	.cfi_def_cfa_offset 16
	.cfi_offset 6, -16
	call	5b
	popq	%rbp
	.cfi_restore 6
	.cfi_def_cfa_offset 8
	ret
	.cfi_endproc
	.section .rodata
	.p2align 2
.Lbase:	.long 1, 2, 3
.Lagain: .long 1b-.Lagain, 2b-.Lagain
	.long	0x7fffffff, 0x7ffffff1
.Lwidths: .long	0x70000000, 0x70000001, .Lw4-.Lwidths, .Lw8-.Lwidths
	.long	0x7fffffff
	.section .data.rel.ro,"aw"
	.quad	widths, parts
	.section .note.GNU-stack,"",@progbits
"""


def test_assembly_that_only_data_refers_to(etch, tmp_path):
    r = looked_at(etch, tmp_path, ASSEMBLY, "-nostdlib")
    assert not r.error and r.covered > 90
    assert not r.wrong and not r.gaps and r.right == r.covered, (r.places, r.gaps)


# clang's C++: functions that only a table of virtual ones refers to, and that hand their call on. In `walk` words
# of data refer to what is none: labels, which leave in the same way, except for the register that is given back.
# `early` seems at first to run into what is no code, for nothing says yet that `die` does not return; meanwhile the code
# after it is found to be other functions, one after the other.
REFERRED = """
	.text
	.macro function name
	.p2align 4, 0xcc
	.type	\\name, @function
\\name:	.cfi_startproc
	.endm
	.macro pushes register, offset
	pushq	%\\register
	.cfi_def_cfa_offset \\offset
	.cfi_offset \\register, -\\offset
	.endm
	.macro pops register, offset
	popq	%\\register
	.cfi_def_cfa_offset \\offset
	.cfi_restore \\register
	.endm
	.globl	known, walk
	function known
	pushes	rbx, 16
	call	last
	testl	%eax, %eax
	je	1f
	pops	rbx, 8
	ret
1:	.cfi_def_cfa_offset 16
	.cfi_offset rbx, -16
	call	die
	.cfi_endproc
	function walk
	subq	$24, %rsp
	.cfi_def_cfa_offset 32
	leaq	labels(%rip), %rdx
.Lone:	movzbl	(%rsi), %eax
	jmp	*(%rdx,%rax,8)
	.p2align 4
.Ltwo:	pushq	%rdi
	.cfi_adjust_cfa_offset 8
	pushq	%rsi
	.cfi_adjust_cfa_offset 8
	call	*%rcx
	addq	$16, %rsp
	.cfi_adjust_cfa_offset -16
	movzbl	(%rsi), %eax
	jmp	*(%rdx,%rax,8)
	.p2align 4
.Lout:	addq	$24, %rsp
	.cfi_def_cfa_offset 8
	ret
	.cfi_endproc
	function handing
	pushes	rbp, 16
	movq	%rsp, %rbp
	.cfi_def_cfa_register rbp
	pushq	%rbx
	.cfi_offset rbx, -24
	pushq	%rax
	movq	%rdi, %rbx
	movq	16(%rdi), %rdi
	movq	(%rdi), %rax
	call	*0x88(%rax)
	movq	(%rbx), %rax
	movq	%rbx, %rdi
	addq	$8, %rsp
	popq	%rbx
	.cfi_restore rbx
	popq	%rbp
	.cfi_def_cfa rsp, 8
	.cfi_restore rbp
	jmp	*0x80(%rax)
	.cfi_endproc
	function die
	pushq	%rax
	.cfi_def_cfa_offset 16
	call	abort@plt
	.cfi_endproc
	function early
	pushes	rbx, 16
	call	next
	pops	rbx, 8
	ret
	.cfi_endproc
	function next
	pushes	rbx, 16
	testl	%edi, %edi
	je	1f
	pops	rbx, 8
	ret
1:	.cfi_def_cfa_offset 16
	.cfi_offset rbx, -16
	call	die
	.cfi_endproc
	.byte	6, 6
	function inner
	pushes	rbx, 16
	pops	rbx, 8
	ret
	.cfi_endproc
	function last
	pushes	rbx, 16
	call	inner
	pops	rbx, 8
	ret
	.cfi_endproc
	.section .data.rel.ro,"aw"
	.p2align 3
labels:	.quad	.Lone, .Ltwo, .Lout
	.quad	0
table:	.quad	0, 0, handing, early
	.section .note.GNU-stack,"",@progbits
"""


# A switch without a bound that the code shows: what nothing reaches, as far as its table seems to lead, begins in its
# frame. `other`, which lies after a return of it and whose address it takes, is a function.
BEHIND = """
	.text
	.globl	switch
	.type	switch, @function
switch:	.cfi_startproc
	subq	$24, %rsp
	.cfi_def_cfa_offset 32
	leaq	.Ltable(%rip), %rdx
	movslq	(%rdx,%rdi,4), %rax
	addq	%rdx, %rax
	jmp	*%rax
	.p2align 4
.Lone:	leaq	other(%rip), %rax
	addq	$24, %rsp
	.cfi_remember_state
	.cfi_def_cfa_offset 8
	ret
	.cfi_restore_state
	.cfi_endproc
	.p2align 4
	.type	other, @function
other:	.cfi_startproc
	pushq	%rbx
	.cfi_def_cfa_offset 16
	.cfi_offset rbx, -16
	call	*%rdi
	popq	%rbx
	.cfi_def_cfa_offset 8
	ret
	.cfi_endproc
	.p2align 4
.Lend:	ret
	.section .rodata
	.p2align 2
.Ltable: .long .Lone-.Ltable, .Lend-.Ltable, .Lend-.Ltable
	.long	0x7fffffff
	.section .note.GNU-stack,"",@progbits
"""


# What was saved is written over while the register still has it, and then changes: the caller's is nowhere.
LOST = """
	.text
	.globl	lost
	.type	lost, @function
lost:	.cfi_startproc
	pushq	%rbx
	.cfi_def_cfa_offset 16
	pushq	%rbp
	.cfi_def_cfa_offset 24
	.cfi_offset rbp, -24
	movq	$0, (%rsp)
	.cfi_same_value rbp
	call	*%rdi
	xorl	%ebp, %ebp
	.cfi_undefined rbp
	call	*%rsi
	addq	$8, %rsp
	.cfi_def_cfa_offset 16
	popq	%rbx
	.cfi_def_cfa_offset 8
	ret
	.cfi_endproc
	.section .note.GNU-stack,"",@progbits
"""


# Name: the assembly, and of how many bytes of it at least there are rows.
ALL_RIGHT = {
    "functions_that_only_data_refers_to": (REFERRED, 150),
    "a_function_behind_a_switch_whose_address_is_taken": (BEHIND, 30),
    "a_slot_that_is_written_over_is_no_save": (LOST, 15),
}


@pytest.mark.parametrize("name", ALL_RIGHT)
def test_nothing_is_wrong_or_missing(etch, tmp_path, name):
    source, covered = ALL_RIGHT[name]
    r = looked_at(etch, tmp_path, source, "-nostdlib")
    assert not r.error and r.covered > covered
    assert not r.wrong and not r.gaps, (r.places, r.gaps)


# GHC's way: Sp is rbp, code is entered by jumps, and *(rbp) is where it returns to. What rsp points
# to is nobody's return address. `plain` is C's, in the same file.
FOREIGN = """
	.text
	.globl	plain
	.type	plain,@function
plain:	subq	$24, %rsp
	call	*%rdi
	addq	$24, %rsp
	ret
	.size	plain, .-plain
	.globl	first
	.type	first,@function
first:	leaq	-16(%rbp), %rax
	movq	%rbx, (%rax)
	jmp	second
	.size	first, .-first
	.globl	second
	.type	second,@function
second:	addq	$16, %rbp
	jmp	*(%rbp)
	.size	second, .-second
	.section .note.GNU-stack,"",@progbits
"""


def test_code_without_a_frame_of_c(etch, tmp_path):
    source, library = tmp_path / "f.s", tmp_path / "f.so"
    source.write_text(FOREIGN)
    run(["gcc", "-shared", "-nostdlib", "-o", library, source])
    rows = [line.split("\t") for line in run([etch, "inspect", "orc", "--format", "tsv", library]).stdout.splitlines()[1:]]
    assert [r[2] for r in rows if r[5] == "call"] == ["rsp+8", "rsp+32", "rsp+8"], rows


@pytest.mark.parametrize("section,kinds", [(".data", {"call"}), (".etchx", set())])
def test_words_of_etchs_own_sections_are_no_pointers(etch, tmp_path, section, kinds):
    """A number in a table that etch has added may look like an address: rewritten once more, a program
    would have functions that it had not before."""
    source, program = tmp_path / "w.s", tmp_path / "w"
    source.write_text("\t.globl _start\n_start:\txor %edi, %edi\n\tmov $60, %eax\n\tsyscall\n\thlt\n\t.p2align 4, 0xcc\n"
                      "hidden:\tmov %edi, %eax\n\tlea 1(%rax, %rdi), %eax\n\tlea (%rax, %rax, 4), %eax\n\tret\n"  # no prologue
                      f"\t.section {section}, \"aw\"\n\t.p2align 3\n\t.quad hidden\n")
    run(["gcc", "-nostdlib", "-static", "-no-pie", "-o", program, source])
    at = next(int(line.split()[0], 16) for line in run(["nm", program]).stdout.splitlines() if line.endswith(" hidden"))
    run(["strip", program])
    run([etch, "rewrite", "--only", "orc", program])
    ours = [r for r in rows.inspect_rows(etch, program) if r[0] < at + 9 and r[1] > at]
    assert {r[2][3] for r in ours} - {"undef"} == kinds, ours


# Each function has padding after its first jump, of which .eh_frame says what it says of the code around it.
PADDED = """
	.text
	.rept	500
	.p2align 4
	.cfi_startproc
	pushq	%rbx
	.cfi_def_cfa_offset 16
	.cfi_offset %rbx, -16
	testl	%edi, %edi
	je	1f
	popq	%rbx
	.cfi_remember_state
	.cfi_def_cfa_offset 8
	ret
	.cfi_restore_state
	nopl	(%rax)
1:	popq	%rbx
	.cfi_def_cfa_offset 8
	ret
	.cfi_endproc
	.endr
"""


def test_every_difference_is_asked_about(etch, tmp_path):
    r = looked_at(etch, tmp_path, PADDED, "-nostdlib")
    assert not r.error and not r.wrong
    assert r.why["padding: NOPs that nothing reaches"] == 500 * 3
