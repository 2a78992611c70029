# SPDX-License-Identifier: MIT
"""One FDE over many functions, with the rule of their bodies for all of it, as compilers write it for code that they have made
ahead of time (Dart's), and assembly with one pair of directives around several functions. Where a function begins and ends
the code proves another frame: its row wins, and both sides are a finding."""

import json

import pytest

import dynamic
import survey
import survey_rows
from conftest import run
from marked_rows import LIBRARY, wrong

FUNCTION = """
	.macro	begin
	row	8
	pushq	%rbp
	row	16
	movq	%rsp, %rbp
	row	rbp16
	.endm
	.macro	end
	popq	%rbp
	row	8
	ret
	row	rbp16
	.p2align 4, 0xcc
	.endm
	.macro	wide name
	.globl	\\name
	.type	\\name, @function
	.cfi_startproc
	.cfi_def_cfa %rbp, 16
	.cfi_offset %rbp, -16
\\name:
	.endm
"""

# second() is found by its call, from elsewhere or from the first.
CALLED = FUNCTION + """
	wide	first
	begin
	call	second
	subq	$32, %rsp
	row	rbp16
	leave
	row	8
	ret
	.p2align 4, 0xcc
	.type	second, @function
second:	begin
	nop
	end
	.cfi_endproc
	.type	other, @function
	.globl	other
other:	.cfi_startproc
	row	8
	subq	$8, %rsp
	.cfi_adjust_cfa_offset 8
	row	16
	call	third
	addq	$8, %rsp
	.cfi_adjust_cfa_offset -8
	row	8
	ret
	.cfi_endproc
	.p2align 4
	wide	last
	begin
	nop
	end
	.type	third, @function
third:	row	8
	movl	%edi, %eax
	pushq	%rbx
	row	16
	popq	%rbx
	row	8
	ret
	.cfi_endproc
"""

# One by what data holds, without a frame of its own; and one that nothing refers to, which begins and ends as functions do, though
# it keeps no rbx.
REFERRED = FUNCTION + """
	wide	first
	begin
	end
	.type	second, @function
second:	row	8
	movl	%edi, %eax
	ret
	.p2align 4, 0xcc
	.type	third, @function
third:	begin
	movl	%edi, %ebx
	testl	%edi, %edi
	jne	1f
	end
1:	row	rbp16
	movl	$1, %eax
	leave
	row	8
	ret
	.cfi_endproc
	.section .data.rel.ro, "aw"
	.quad	second
"""

# The frame that is pushed within a frame, for a call of C on an aligned stack, is none of a function, though nothing is seen to
# lead there. What ends in no return may be anything, and what is no function's beginning has a row as .eh_frame says.
WITHIN = FUNCTION + """
	wide	first
	begin
	subq	$16, %rsp
	testl	%edi, %edi
	je	1f
	movq	%rbp, %rbx
	pushq	%rbp
	row	rbp16
	movq	%rsp, %rbp
	andq	$-16, %rsp
	call	*%rax
	movq	%rbp, %rsp
	popq	%rbp
	row	rbp16
1:	nop
	row	rbp16
	movq	%rbp, %rsp
	popq	%rbp
	row	8
	ret
	row	rbp16
	.p2align 4, 0xcc
2:	row	rbp16
	pushq	%rbp
	row	rbp16
	movq	%rsp, %rbp
	andq	$-16, %rsp
	call	*%rax
	movq	%rbp, %rsp
	popq	%rbp
	row	rbp16
	movq	%rbp, %rsp
	popq	%rbp
	ret
	.p2align 4, 0xcc
	row	rbp16
	movl	%edi, %eax
	row	rbp16
	ret
	.cfi_endproc
"""

# Data before a function, which decodes to instructions that run into its first, or over it; an entry of a function that only an
# indirect call takes, before the one that is called. What the indirect jump says of them is nothing of the function after.
BEFORE = FUNCTION + """
	wide	first
	.globl	data
	.type	data, @object
data:	.quad	0, 0x0050000000000022
	.byte	0, 0, 0, 0, 0, 0
	.type	second, @function
second:	begin
	subq	$8, %rsp
	row	rbp16
	testl	%edi, %edi
	je	1f
	movq	%rbp, %rsp
	end
1:	row	rbp16
	call	third
	jmp	*%rax
	.type	miss, @function
miss:	row	8
	jmp	*0x250(%r14)
	row	rbp16
	sarq	%rbx
	cmpq	%rbx, %rax
	jne	miss
third:	begin
	subq	$8, %rsp
	row	rbp16
	leave
	row	8
	ret
	.cfi_endproc
"""

# Ends that functions jump to in their frame, with names, in one FDE that is right for all of it (__resms64fx_12 of libgcc and
# its like); a function between them has a frame of its own.
ENDS = FUNCTION + """
	.macro	end_at name
	.globl	\\name
	.type	\\name, @function
\\name:	row	rbp16
	.endm
	wide	all
	row	rbp16
	movq	-16(%rsi), %r13
	end_at	some
	movq	-8(%rsi), %rbx
	row	rbp16
	leave
	.cfi_remember_state
	.cfi_def_cfa %rsp, 8
	row	8
	ret
	.cfi_restore_state
	.p2align 4, 0xcc
	.type	function, @function
	.globl	function
function: begin
	nop
	end
	end_at	another
	testl	%edi, %edi
	je	1f
	movq	-8(%rsi), %rbx
1:	row	rbp16
	movq	%rbp, %rsp
	popq	%rbp
	.cfi_def_cfa %rsp, 8
	row	8
	ret
	.cfi_endproc
"""

# A slow path that nothing leads to, as compilers leave some after, and that goes back into the function. An indirect jump, whose state
# it is given, knows nothing of rsp: the function's own instructions do, up to the frame within the frame and its end.
UNUSED = FUNCTION + """
	wide	first
	begin
	end
	.type	third, @function
third:	begin
	subq	%rdi, %rsp
	row	rbp16
	jmp	*%rax
	.type	second, @function
second:	begin
	testl	%edi, %edi
	je	2f
1:	row	rbp16
	testl	%esi, %esi
	je	4f
3:	row	rbp16
	movq	%rbp, %rsp
	end
2:	pushq	%rax
	row	rbp16
	call	*%rdx
	popq	%rax
	jmp	1b
	pushq	%rax
	row	rbp16
	call	*%rcx
	popq	%rax
	jmp	1b
4:	pushq	%rax
	row	rbp16
	pushq	%rbp
	row	rbp16
	movq	%rsp, %rbp
	row	32
	andq	$-16, %rsp
	row	rbp32
	call	*%rbx
	movq	%rbp, %rsp
	row	32
	popq	%rbp
	row	rbp16
	popq	%rax
	jmp	3b
	.cfi_endproc
"""

# Parts of functions, with a name (of basic block sections) or without, begin in the middle of the frame: their rows are right.
PARTS = FUNCTION + """
	.globl	first
	.type	first, @function
first:	.cfi_startproc
	row	8
	pushq	%rbp
	.cfi_def_cfa_offset 16
	.cfi_offset %rbp, -16
	row	16
	movq	%rsp, %rbp
	.cfi_def_cfa_register %rbp
	row	rbp16
	testl	%edi, %edi
	je	first.__part.1
	testl	%esi, %esi
	je	hidden
	popq	%rbp
	.cfi_def_cfa %rsp, 8
	row	8
	ret
	.cfi_endproc
	.p2align 4
	wide	first.__part.1
	row	rbp16
	nop
	popq	%rbp
	.cfi_def_cfa %rsp, 8
	row	8
	ret
	.cfi_endproc
	.p2align 4
	wide	first.__part.2
	row	rbp16
	nop
	popq	%rbp
	.cfi_def_cfa %rsp, 8
	row	8
	ret
	.cfi_endproc
	.p2align 4
hidden:	.cfi_startproc
	.cfi_def_cfa %rbp, 16
	.cfi_offset %rbp, -16
	row	rbp16
	movl	$1, %eax
	ud2
	.cfi_endproc
"""


@pytest.mark.parametrize("strip", [True, False], ids=["stripped", "symbols"])
@pytest.mark.parametrize("source", [CALLED, REFERRED, WITHIN, PARTS], ids=["called", "referred", "within", "parts"])
def test_rows_are_those_of_the_code_and_not_of_the_fde(etch, tmp_path, source, strip):
    assert not wrong(etch, tmp_path, source, *LIBRARY, strip=strip)


def test_what_an_indirect_jump_says_of_the_bytes_before_a_function_is_nothing_of_it(etch, tmp_path):
    assert not wrong(etch, tmp_path, BEFORE, *LIBRARY, strip=False)


def test_a_symbol_at_the_end_of_functions_begins_none(etch, tmp_path):
    assert not wrong(etch, tmp_path, ENDS, *LIBRARY, strip=False)


def test_code_that_nothing_leads_to_takes_no_proof_away(etch, tmp_path):
    assert not wrong(etch, tmp_path, UNUSED, *LIBRARY, strip=False)


def many(n):
    """n functions under one FDE, of which each is called by main."""
    functions = "".join(f"""
	.globl	f{i}
	.type	f{i}, @function
f{i}:	pushq	%rbp
	movq	%rsp, %rbp
	call	leaf
	nop
	{"leave" if i % 2 else "popq	%rbp"}
	ret
	.size	f{i}, .-f{i}
	.p2align 4, 0xcc
""" for i in range(n))
    return f"""
	.text
	.cfi_startproc
	.cfi_def_cfa %rbp, 16
	.cfi_offset %rbp, -16
{functions}
	.type	leaf, @function
leaf:	movl	$1, %eax
	ret
	.cfi_endproc
	.section .note.GNU-stack,"",@progbits
"""


def check(etch, tmp_path, n):
    (tmp_path / "many.s").write_text(many(n))
    run(["gcc", "-c", "-o", tmp_path / "many.o", tmp_path / "many.s"])
    out = run([etch, "check", "--format", "json", tmp_path / "many.o"], ok=1).stdout
    return [f for f in json.loads(out)["files"][0]["findings"] if f["id"] == "ETCH-C001"]


@pytest.fixture(scope="module")
def table(tmp_path_factory, etch):
    """Rows by etch; those of libc are made once."""
    return dynamic.Rows(tmp_path_factory.mktemp("rows"), etch, [])


@pytest.mark.parametrize("strip", [True, False], ids=["stripped", "symbols"])
def test_the_stack_unwinds_at_every_instruction_under_such_an_fde(table, tmp_path, stepper, strip):
    """Each by a call, the last by a pointer in data; the shadow stack of tests/data/unwind is the truth."""
    (tmp_path / "many.s").write_text(many(6))
    (tmp_path / "main.c").write_text("".join(f"void f{i}(void); " for i in range(6)) + "void (*volatile last)(void) = f5;\n"
                                     "int main(void) { f0(); f1(); f2(); f3(); f4(); last(); return 0; }\n")
    run(["gcc", "-O2", *(["-s"] if strip else []), "-o", tmp_path / "many", tmp_path / "many.s", tmp_path / "main.c"])
    r = dynamic.in_process(stepper(library=True), table, [tmp_path / "many"], library=True)
    assert r.checked > 100 and r.library_frames >= r.checked
    here = [str(t) for t in r.trouble if t.file.endswith("/many")]
    assert not here, "\n".join(here)


def test_a_few_functions_are_told_one_by_one_with_both_sides(etch, tmp_path):
    found = check(etch, tmp_path, 2)
    assert {f["place"]["function"] for f in found} == {"f0", "f1"}
    assert {(x["label"], x["text"]) for f in found for x in f["facts"]} == {
        (".eh_frame", "CFA rbp+16, rbp cfa-16"), ("the code", "CFA rsp+8, rbp same")}


def test_one_fde_that_is_wrong_for_many_functions_is_one_finding(etch, tmp_path):
    found = check(etch, tmp_path, 40)
    assert len(found) == 1 and "41 functions contradict the one FDE" in found[0]["text"]  # and leaf()
    assert [x["text"] for x in found[0]["facts"]] == ["CFA rbp+16, rbp cfa-16", *["CFA rsp+8, rbp same"] * 3]
    assert [x["place"]["function"] for x in found[0]["facts"][1:]] == ["f0", "f1", "f2"]


@pytest.mark.parametrize("strip", [True, False], ids=["stripped", "symbols"])
def test_the_survey_does_not_take_the_word_of_such_an_fde(etch, tmp_path, monkeypatch, strip):
    """Rows that are the FDE's agree with it everywhere, and are refuted by the functions' instructions all the same."""
    (tmp_path / "many.s").write_text(many(12))
    path = tmp_path / "many.so"
    run(["gcc", "-shared", "-nostdlib", *(["-s"] if strip else []), "-o", path, tmp_path / "many.s"])
    run([etch, "rewrite", path])
    text, _, frame, base = survey.sections(path)
    good = survey_rows.verify(etch, path, frame, base, text)
    assert not good.differ and good.judged > 12 * 10
    assert good.explained["proved; one FDE spans several functions"] > 12 * 4

    def believing(*args):
        ours = real(*args)
        ours.start, ours.end, ours.rule = map(list, zip(*(r for _, _, own in survey_rows.apart(frame, base) for r in own)))
        return ours

    real = survey_rows.Ours.of
    monkeypatch.setattr(survey_rows.Ours, "of", believing)
    bad = survey_rows.verify(etch, path, frame, base, text)
    assert bad.agree == bad.covered and not bad.explained
    assert bad.differ_bytes >= 12 * 3 and all(d.startswith("refuted ") for d in bad.differ)  # push, mov and ret of each


# A call over a few instructions whose address is wanted, as of the code that a signal handler returns to: what it leads to
# takes the return address off the stack, and is no function.
RESTORER = """
	.globl	installs
	.type	installs, @function
installs: .cfi_startproc
	pushq	%rbp
	.cfi_def_cfa_offset 16
	.cfi_offset 6, -16
	movq	%rsp, %rbp
	.cfi_def_cfa_register 6
	subq	$64, %rsp
	row	rbp16
	call	1f
	movq	$15, %rax
	syscall
1:	row	rbp16
	popq	%rax
	row	rbp16
	addq	$6, %rax
	xorl	%edx, %edx
	row	rbp16
	movq	%rax, -40(%rbp)
	movslq	(%r8), %rdi
	syscall
	row	rbp16
	leave
	.cfi_def_cfa 7, 8
	row	8
	ret
	.cfi_endproc
	.size	installs, .-installs
"""


@pytest.mark.parametrize("strip", [False, True], ids=["named", "stripped"])
def test_what_pops_its_return_address_is_no_function(etch, tmp_path, strip):
    assert wrong(etch, tmp_path, RESTORER, *LIBRARY, strip=strip) == []


# Dart: a frame whose code is no longer valid returns to one of these stubs, and the runtime jumps to the others. They have
# symbols as functions have, but no return address lies on top of the stack: rbp still points to the frame.
STUBS = """
	.globl	_kDartVmSnapshotText
	.type	_kDartVmSnapshotText, @object
_kDartVmSnapshotText:
	.cfi_startproc
	.cfi_def_cfa %rbp, 16
	.cfi_offset %rbp, -16
	.type	plain, @function
plain:	row	8
	movl	$1, %eax
	ret
	.size	plain, .-plain
	.p2align 4, 0xcc
	.type	"stub DeoptimizeLazyFromReturn", @function
"stub DeoptimizeLazyFromReturn":
	row	rbp16
	movl	$0xf1f1f1f1, %r11d
	pushq	%r11
	row	rbp16
	movl	$0xe1e1e1e1, %r11d
	pushq	%r11
	pushq	%rbp
	movq	%rsp, %rbp
	pushq	%rax
	movq	%rsp, %rdi
	call	*%rax
	movq	%rbp, %rsp
	popq	%rbp
	popq	%rcx
	movq	%rbp, %rsp
	row	rbp16
	subq	%rax, %rsp
	pushq	%rcx
	pushq	%rbp
	movq	%rsp, %rbp
	movq	%rbp, %rdi
	call	*%rbx
	movq	%rbp, %rsp
	popq	%rbp
	ret
	.size	"stub DeoptimizeLazyFromReturn", .-"stub DeoptimizeLazyFromReturn"
	.p2align 4, 0xcc
	.type	"stub RunExceptionHandler", @function
"stub RunExceptionHandler":
	row	{there}
	movq	0x6a8(%r14), %rdi
	jmp	*%rdi
	.size	"stub RunExceptionHandler", .-"stub RunExceptionHandler"
	.p2align 4, 0xcc
	.type	another, @function
another: row	8
	pushq	%rbp
	movq	%rsp, %rbp
	row	rbp16
	call	plain
	popq	%rbp
	ret
	.size	another, .-another
	.cfi_endproc
	.size	_kDartVmSnapshotText, .-_kDartVmSnapshotText
"""


@pytest.mark.parametrize("dart", [True, False], ids=["dart", "another"])
def test_stubs_that_no_call_enters_have_the_frame_of_who_returns_there(etch, tmp_path, dart):
    source = STUBS.format(there="rbp16" if dart else 8)
    if not dart:         # no snapshot: then the names say nothing, and only the first shows by itself whose frame it leaves
        source = source.replace("_kDartVmSnapshotText", "text")
    assert wrong(etch, tmp_path, source, *LIBRARY, strip=False) == []
