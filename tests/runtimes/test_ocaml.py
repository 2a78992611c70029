# SPDX-License-Identifier: MIT
"""Code as OCaml's compiler makes it, by hand: a trap frame is two words, and who raises takes them off."""

import json

import pytest

from conftest import run

# A handler lies after a call that raises; it begins with the trap frame gone, as its CFI says.
HANDLER = """
	.text
	.globl	camlM__f
	.type	camlM__f, @function
camlM__f:
	.cfi_startproc
	subq	$24, %rsp
	.cfi_adjust_cfa_offset 24
	leaq	handler(%rip), %r11
	pushq	%r11
	.cfi_adjust_cfa_offset 8
	pushq	16(%r14)
	.cfi_adjust_cfa_offset 8
	movq	%rsp, 16(%r14)
inside:	call	{raises}@PLT
	.cfi_adjust_cfa_offset -16
handler:
	addq	$24, %rsp
	.cfi_adjust_cfa_offset -24
	ret
	.cfi_endproc
	.size	camlM__f, . - camlM__f
"""


def assemble(tmp_path, text, *args):
    (tmp_path / "t.s").write_text(text + '\t.section .note.GNU-stack, "", @progbits\n')
    run(["gcc", "-nostdlib", *args, "-o", tmp_path / "t", tmp_path / "t.s"])
    return tmp_path / "t"


@pytest.mark.parametrize("raises", ["caml_raise_exn", "caml_raise_exception", "caml_reraise_exn", "caml_ml_array_bound_error"])
@pytest.mark.parametrize("args", [["-c"], ["-shared"]], ids=["object", "library"])
def test_handler(etch, tmp_path, raises, args):
    path = assemble(tmp_path, HANDLER.format(raises=raises), *args)
    at = {line.split()[2]: int(line.split()[0], 16) for line in run(["nm", path]).stdout.splitlines() if " t " in line}
    table = [line.split("\t") for line in run([etch, "inspect", "orc", "--format", "tsv", path]).stdout.splitlines()[1:]]
    rows = {name: [r[2] for r in table if int(r[0], 16) <= at[name]][-1] for name in at}
    assert rows["inside"] == "rsp+48" and rows["handler"] == "rsp+32"
    assert "C001" not in run([etch, "check", path], ok=None).stdout


# Until 4.13 a call puts the address of the handler on the stack, and the body after it is in the frame that it was called
# from: the word is part of the trap frame, and dropped.
TRAP = """
	.text
	.globl	camlM__g
	.type	camlM__g, @function
camlM__g:
	.cfi_startproc
	subq	$8, %rsp
	.cfi_adjust_cfa_offset 8
	call	body
handler:
	movl	$1, %eax
	addq	$8, %rsp
	.cfi_adjust_cfa_offset -8
	ret
	.cfi_adjust_cfa_offset 8
body:
	.cfi_adjust_cfa_offset 8
	pushq	%r14
	.cfi_adjust_cfa_offset 8
inside:	movq	%rsp, %r14
	movq	%rax, %rdi
	call	other@PLT
	popq	%r14
	.cfi_adjust_cfa_offset -8
popped:	addq	$8, %rsp
	.cfi_adjust_cfa_offset -8
after:	addq	$8, %rsp
	.cfi_adjust_cfa_offset -8
last:	ret
	.cfi_endproc
	.size	camlM__g, . - camlM__g
"""


@pytest.mark.parametrize("args", [["-c"], ["-shared"], ["-shared", "-s"]], ids=["object", "library", "stripped"])
def test_trap_by_call(etch, tmp_path, args):
    path = assemble(tmp_path, TRAP, *[a for a in args if a != "-s"])
    at = {line.split()[2]: int(line.split()[0], 16) for line in run(["nm", path]).stdout.splitlines() if " t " in line}
    if "-s" in args:
        run(["strip", path])
    table = [line.split("\t") for line in run([etch, "inspect", "orc", "--format", "tsv", path]).stdout.splitlines()[1:]]
    rows = {name: [r[2] for r in table if int(r[0], 16) <= at[name]][-1] for name in at}
    assert {n: rows[n] for n in ("handler", "body", "inside", "popped", "after", "last")} == {
        "handler": "rsp+16", "body": "rsp+24", "inside": "rsp+32", "popped": "rsp+24", "after": "rsp+16", "last": "rsp+8"}
    assert "C001" not in run([etch, "check", path], ok=None).stdout


# Such code keeps no register for its caller; C, and the run-time system's assembly, do.
FUNCTION = """
	.globl	{name}
	.type	{name}, @function
{name}:
	.cfi_startproc
	subq	$8, %rsp
	.cfi_adjust_cfa_offset 8
	movl	$1, %ebp
	movq	%rdi, %rbx
	call	caml_call_gc@PLT
	addq	$8, %rsp
	.cfi_adjust_cfa_offset -8
	testq	%rax, %rax
	je	1f
	ret
1:	jmp	{name}_next@PLT
	.cfi_endproc
	.size	{name}, . - {name}
	.globl	{name}_next
	.type	{name}_next, @function
{name}_next:
	ret
	.size	{name}_next, . - {name}_next
"""


def mark(module, sep, name):
    return f"\t.globl\t{module}{sep}{name}\n{module}{sep}{name}:\n"


def module(name, sep="__", section=".text"):
    """Two functions between the marks; with sections of their own the marks lie in others, too."""
    each = '\t.section {}, "ax", @progbits\n' if section != ".text" else "\t.text\n"
    return (each.format(f"{section}{name}{sep}code_begin") + mark(name, sep, "code_begin") +
            each.format(f"{section}{name}{sep}f_1") + FUNCTION.format(name=f"{name}{sep}f_1") +
            each.format(f"{section}{name}{sep}code_end") + mark(name, sep, "code_end"))


def found(etch, path):
    out = {}
    for x in json.loads(run([etch, "check", "--format", "json", "--fail-on", "never", path]).stdout)["files"][0]["findings"]:
        if x["id"] in ("ETCH-S005", "ETCH-F004", "ETCH-C001"):
            out.setdefault(x["place"]["function"], set()).add(x["id"])
    return out


ALL = {"ETCH-S005", "ETCH-F004", "ETCH-C001"}


@pytest.mark.parametrize("args", [["-c"], ["-shared"], ["-shared", "-s"]], ids=["object", "library", "stripped"])
def test_registers(etch, tmp_path, args):
    names = "camlA", "camlB", "camlC", "caml_startup"
    text = "\t.text\n" + FUNCTION.format(name="before") + module("camlA") + module("camlB", ".") + FUNCTION.format(name="camlX__between")
    text += module("camlC", section=".text.caml.") + '\t.text\n' + FUNCTION.format(name="after")
    text += module("caml_startup") + module("caml_system") + mark("camlLone", "__", "code_begin") + FUNCTION.format(name="lone")
    path = assemble(tmp_path, text, *args)
    functions = run(["nm", "-D" if "-s" in args else "-g", path]).stdout
    assert all(f"{n}{'.' if n == 'camlB' else '__'}f_1" in functions for n in names)
    assert found(etch, path) == {n: ALL for n in ("before", "camlX__between", "after", "caml_system__f_1", "lone")}


def test_rbp_that_no_function_keeps(etch, tmp_path):
    """.eh_frame's silence about it is no error there; of C's code `etch rewrite` says that the code denies it."""
    path = assemble(tmp_path, "\t.text\n" + FUNCTION.format(name="before") + module("camlA"), "-shared")
    said = run([etch, "rewrite", "-o", tmp_path / "out", path]).stderr.splitlines()
    assert len(said) == 1 and "ETCH-C001: before+" in said[0] and "places" not in said[0], said


def test_marks_that_are_none(etch, tmp_path):
    """Of no module of OCaml's, of two, of one in another section, or both where a module begins: what lies between them
    is C."""
    text = "\t.text\n" + mark("camlJ", "__", "code_begin") + FUNCTION.format(name="section") + FUNCTION.format(name="section2")
    text += '\t.section .elsewhere, "ax", @progbits\n' + FUNCTION.format(name="elsewhere") + mark("camlJ", "__", "code_end") + "\t.text\n"
    text += mark("other", "__", "code_begin") + FUNCTION.format(name="prefix") + mark("other", "__", "code_end")
    text += mark("camlD", "__", "code_begin") + FUNCTION.format(name="name") + mark("camlE", "__", "code_end")
    text += mark("camlF", "__", "code_begin") + FUNCTION.format(name="length") + mark("camlFG", "__", "code_end")
    text += mark("camlH", ".", "code_begin") + FUNCTION.format(name="twice") + module("camlH")
    names = {"section", "section2", "elsewhere", "prefix", "name", "length", "twice"}
    for args in (["-c"], ["-shared"]):
        assert found(etch, assemble(tmp_path, text, *args)) == {n: ALL for n in names}


# fail() ends by a raise on all paths, so no call of it returns; the compiler, which does not know, goes on after each. One
# jump through a table has a trap frame below it: its index is a tagged number, which has a bound before it is halved. Of the
# other table nothing shows the size, and where each trap changes rsp nothing is said of what it may lead to.
NEVER = mark("camlM", ".", "code_begin") + """
	.globl	camlM__fail
	.type	camlM__fail, @function
camlM__fail:
.Lfail:	subq	$8, %rsp
	movq	%rax, (%rsp)
	call	caml_raise_exn@PLT
	.size	camlM__fail, . - camlM__fail
	.globl	camlM__g
	.type	camlM__g, @function
camlM__g:
	subq	$24, %rsp
	cmpq	$5, %rax
	jbe	1f
	call	.Lfail
behind:	jmp	common
1:	leaq	handler(%rip), %r11
	pushq	%r11
	pushq	16(%r14)
	movq	%rsp, 16(%r14)
	sarq	%rax
	leaq	table(%rip), %rdx
	movslq	(%rdx,%rax,4), %rax
	addq	%rdx, %rax
inside:	jmp	*%rax
one:	popq	16(%r14)
	addq	$8, %rsp
common:	movl	$1, %eax
	addq	$24, %rsp
last:	ret
two:	popq	16(%r14)
	addq	$8, %rsp
	testq	%rbx, %rbx
	je	common
	leaq	unbounded(%rip), %rdx
	movslq	(%rdx,%rbx,4), %rax
	addq	%rdx, %rax
	jmp	*%rax
three:	addq	$24, %rsp
	ret
handler:
	addq	$24, %rsp
	ret
	.size	camlM__g, . - camlM__g
""" + mark("camlM", ".", "code_end") + """
	.section .rodata
	.p2align 2
table:	.long	one - table, two - table, one - table
	.long	0, 0
unbounded: .long three - unbounded
"""


def test_code_behind_a_call_that_never_returns(etch, tmp_path):
    path = assemble(tmp_path, "\t.text\n" + NEVER, "-shared")
    at = {line.split()[2]: int(line.split()[0], 16) for line in run(["nm", path]).stdout.splitlines() if " t " in line}
    run(["strip", path])
    table = [line.split("\t") for line in run([etch, "inspect", "orc", "--format", "tsv", path]).stdout.splitlines()[1:]]
    rows = {name: [r[2] for r in table if int(r[0], 16) <= at[name]][-1] for name in at}
    assert {n: rows[n] for n in ("behind", "inside", "one", "two", "common", "last", "three", "handler")} == {
        "behind": "rsp+32", "inside": "rsp+48", "one": "rsp+48", "two": "rsp+48", "common": "rsp+32", "last": "rsp+8",
        "three": "undef", "handler": "rsp+32"}


# OCaml 5 puts what is rarely run after a function's last return, in the CFI of that place, though a trap frame is on the
# stack where it comes from and goes back to. Here both paths into the second trap are known: the handler of the first, where
# {frame} is what .eh_frame adds to the frame, and the code without an exception.
SLOW = mark("camlM", ".", "code_begin") + """
	.globl	camlM__f
	.type	camlM__f, @function
camlM__f:
	.cfi_startproc
	subq	$24, %rsp
	.cfi_adjust_cfa_offset 24
	leaq	first(%rip), %r11
	pushq	%r11
	.cfi_adjust_cfa_offset 8
	pushq	0x30(%r14)
	.cfi_adjust_cfa_offset 8
	movq	%rsp, 0x30(%r14)
	call	camlM__g@PLT
	popq	0x30(%r14)
	.cfi_adjust_cfa_offset -8
	addq	$8, %rsp
	.cfi_adjust_cfa_offset -8
	jmp	joined
	.cfi_adjust_cfa_offset {frame}
first:	movq	%rax, (%rsp)
	.cfi_adjust_cfa_offset -{frame}
joined:	leaq	second(%rip), %r11
	pushq	%r11
	.cfi_adjust_cfa_offset 8
	pushq	0x30(%r14)
	.cfi_adjust_cfa_offset 8
	movq	%rsp, 0x30(%r14)
	subq	$24, %r15
	cmpq	(%r14), %r15
branch:	jb	slow
back:	popq	0x30(%r14)
	.cfi_adjust_cfa_offset -8
	addq	$8, %rsp
	.cfi_adjust_cfa_offset -8
second:	addq	$24, %rsp
	.cfi_adjust_cfa_offset -24
	ret
	.cfi_adjust_cfa_offset 24
slow:	call	caml_call_gc@PLT
again:	jmp	back
	.cfi_endproc
	.size	camlM__f, . - camlM__f
""" + mark("camlM", ".", "code_end")


@pytest.mark.parametrize("frame", [0, 8], ids=["both", "code"])
def test_slow_path_below_a_trap(etch, tmp_path, frame):
    """Where .eh_frame has the frame that a handler begins with, what the code shows from there on is proved; where it has
    another, .eh_frame is taken."""
    path = assemble(tmp_path, "\t.text\n" + SLOW.format(frame=frame), "-shared")
    at = {line.split()[2]: int(line.split()[0], 16) for line in run(["nm", path]).stdout.splitlines() if " t " in line}
    lines = run(["readelf", "-wF", path]).stdout.split(f"pc={at_function(path):016x}")[1].splitlines()
    cfi = {int(x[0], 16): x[1] for x in map(str.split, lines) if len(x) > 2 and len(x[0]) == 16}
    table = [line.split("\t") for line in run([etch, "inspect", "orc", "--format", "tsv", path]).stdout.splitlines()[1:]]
    rows = {name: [r[2] for r in table if int(r[0], 16) <= at[name]][-1] for name in at}
    truth = {name: cfi[max(a for a in cfi if a <= at[name])] for name in ("branch", "back", "slow", "again", "first")}
    assert truth["branch"] == truth["back"] == "rsp+48" and truth["slow"] == truth["again"] == "rsp+32"
    assert rows["first"] == truth["first"] and rows["back"] == rows["branch"] == truth["back"]
    assert rows["slow"] == rows["again"] == (truth["slow"] if frame else truth["branch"])


def at_function(path):
    return next(int(line.split()[0], 16) for line in run(["nm", path]).stdout.splitlines() if line.endswith(" T camlM__f"))
