# SPDX-License-Identifier: MIT
"""ETCH-F001 and F006 for every way by which control leaves a function without an instruction that ends it, combined with
everything that can stand after the function; and sound counterparts, of which nothing is said."""

import io
import itertools
import json
import struct

import pytest
from elftools.elf.elffile import ELFFile

from conftest import run

NOPS = ("\tnop\n", "\txchgw\t%ax, %ax\n", "\tnopl\t(%rax)\n", "\tcs nopw 0(%rax,%rax,1)\n", "\tnopl\t8(%rax)\n\tnop\n")
JUMPS = ("je", "jmp", "jrcxz", "jne", "je.d32", "jmp.d32")

# Bodies whose end is label 9: control comes there, and nothing is there. "#" is in front of the
# instruction that counts; "@" is the function's number.
LEAVES = {
    "falls": "\tmovl\t%edi, %eax\n#\taddl\t$1, %eax\n9:\n",
    "a branch not taken": "1:\tdecl\t%edi\n#\tjne\t1b\n9:\n",
    **{f"falls from {n.split()[0]} {k}": f"\tmovl\t%edi, %eax\n#{n}9:\n" for k, n in enumerate(NOPS[:4])},
    **{f"jumps by {j}": f"\ttestl\t%edi, %edi\n\tjs\t1f\n#\t{j}\t9f\n1:\tmovl\t$3, %eax\n\tret\n9:\n" for j in JUMPS},
    "jumps from its start": "#\tje\t9f\n\tret\n9:\n",
    "jumps behind a call": "\tsubq\t$8, %rsp\n\tcall\tg\n\taddq\t$8, %rsp\n#\tje\t9f\n\tret\n9:\n",
    "jumps over a call at the end": "\tsubq\t$8, %rsp\n\ttestl\t%edi, %edi\n#\tje\t9f\n\tcall\tfails\n9:\n",
}
# Ends of a function: the label has an end of its own, or is not reached.
ENDS = {
    "a return": "9:\tret\n",
    "a trap": "9:\tud2\n",
    "int3": "9:\tint3\n",
    "a jump back": "9:\tjmp\tf\n",
    "a tail call": "9:\tjmp\tg\n",
    "a call that does not return": "9:\tpushq\t%rax\n\tcall\tfails\n",
    **{f"such a call, and {n.split()[0]} {k}": f"9:\tpushq\t%rax\n\tcall\tfails\n{n}" for k, n in enumerate(NOPS)},
    "a call by a pointer, and nops": "9:\tpushq\t%rax\n\tcall\t*%rdi\n\tnop\n\tnop\n",
    "a system call, and nops": "9:\tmovl\t$231, %eax\n\tsyscall\n\tnop\n",
    "an endless loop": "9:\tjmp\t9b\n",
}
NEXT = "\t.globl\tnext@\n\t.type\tnext@, @function\nnext@:\tmovl\t$7, %eax\n\tret\n\t.size\tnext@, .-next@\n"
SIZE = "\t.size\tf@, .-f@\n"
# What stands after: (text, what is said of falling there, of a jump there).
BEHIND = {
    "aligned": (f"{SIZE}\t.p2align 5\n{NEXT}", "F001", "F001"),
    "aligned by zeros": (f"{SIZE}\t.p2align 5, 0\n{NEXT}", "F001", "F001"),
    "64 bytes of nops": (f"{SIZE}\t.nops 64\n{NEXT}", "F001", "F001"),
    "its size covers nops": (f"\tnop\n\tnopl\t(%rax)\n{SIZE}{NEXT}", "F001", "F001"),
    "a function right there": (f"{SIZE}{NEXT}", "F001", ""),  # the jump is a tail call
    "traps": (f"{SIZE}\t.fill 7, 1, 0xcc\n{NEXT}", "", ""),
    "code without a symbol": (f"{SIZE}\tmovl\t$1, %eax\n\tret\n{NEXT}", "", ""),
    "the section's end": (SIZE, "F006", "F006"),
    "nops, then the section's end": (f"{SIZE}\t.nops 5\n", "F006", "F006"),
    "zeros, then the section's end": (f"{SIZE}\t.zero 6\n", "F006", "F006"),
    "its cold part": (f"{SIZE}\t.type\tf@.cold, @function\nf@.cold:\tmovl\t$1, %eax\n\tret\n\t.size\tf@.cold, .-f@.cold\n{NEXT}",
                      "", ""),
}


def source(number, body, behind, cfi):
    """A section with the function, and what stands after."""
    start, end = ("\t.cfi_startproc\n", "\t.cfi_endproc\n") if cfi else ("", "")
    if cfi:
        behind = behind.replace(SIZE, f"{end}{SIZE}", 1).replace("next@:", "next@:\t.cfi_startproc\n").replace(
            "\t.size\tnext", "\t.cfi_endproc\n\t.size\tnext")
    text = (f'\t.section\t.text.f@,"ax",@progbits\n\t.p2align 5\n\t.globl\tf@\n\t.type\tf@, @function\nf@:\n'
            f"{start}{body.replace('#', f'.Lplace{number}:')}{behind}"
            f"\t.section\t.expect\n\t.quad\t{f'.Lplace{number}-f@' if '#' in body else '0'}\n")
    return text.replace("@,", "\0").replace("@function", "\1").replace("@progbits", "\2").replace("@", str(number)).replace(
        "\0", f"{number},").replace("\1", "@function").replace("\2", "@progbits")


def findings(etch, directory, sources):
    """By source (body, what stands after): {(ID, offset)} of the function, and the offset of the instruction that
    counts."""
    cases = list(sources)
    (directory / "t.s").write_text("".join(sources[c] for c in cases) + '\t.section .note.GNU-stack,"",@progbits\n')
    run(["as", "-o", "t.o", "t.s"], cwd=directory)
    p = run([etch, "check", "--each", "--format", "json", "--fail-on", "never", directory / "t.o"])
    data = ELFFile(io.BytesIO((directory / "t.o").read_bytes())).get_section_by_name(".expect").data()
    places = struct.unpack(f"<{len(cases)}Q", data)
    found = {c: (set(), place) for c, place in zip(cases, places)}
    for x in json.loads(p.stdout)["files"][0]["findings"]:
        name = x["place"].get("function", "")
        if x["id"] in ("ETCH-F001", "ETCH-F003", "ETCH-F006", "ETCH-D005") and name.startswith("f"):
            found[cases[int(name[1:].split(".")[0])]][0].add((x["id"].removeprefix("ETCH-"), x["place"]["offset"]))
    return found


@pytest.mark.parametrize("cfi", [False, True], ids=["nocfi", "cfi"])
def test_leaves(etch, tmp_path, cfi):
    sources, expected = {}, {}
    for how, body in LEAVES.items():
        for where, (behind, falls, jumps) in BEHIND.items():
            case = how, where
            sources[case] = source(len(sources), body, behind, cfi)
            expected[case] = jumps if "jumps" in how else falls
    found = findings(etch, tmp_path, sources)
    wrong = {}
    for case, (got, place) in found.items():
        if case[1] == "its size covers nops":  # the last nop runs out
            got, place = {(i, 0) for i, _ in got}, 0
        if got != {(i, place) for i in expected[case].split()}:
            wrong[case] = expected[case], place, got
    assert not wrong, (len(wrong), wrong)


@pytest.mark.parametrize("cfi", [False, True], ids=["nocfi", "cfi"])
def test_ends(etch, tmp_path, cfi):
    """The same functions with an end where the label is."""
    sources = {}
    for how, body in LEAVES.items():
        for end, last in ENDS.items():
            for where in ("aligned", "the section's end"):
                sources[how, end, where] = source(len(sources), body.replace("9:\n", last), BEHIND[where][0], cfi)
    found = findings(etch, tmp_path, sources)
    assert not {case: got for case, (got, _) in found.items() if got}


TABLE = """
	.text
	.globl	_start
	.type	_start, @function
_start:	movl	$1, %edi
	call	f
	ud2
	.size	_start, .-_start
	.p2align 4
	.globl	f
	.type	f, @function
f:	cmpl	$3, %edi
	ja	1f
	movl	%edi, %edi
	jmp	*table(,%rdi,8)
1:	xorl	%eax, %eax
	ret
2:	movl	$1, %eax
	ret
9:
	.size	f, .-f
	{}
	.globl	next
	.type	next, @function
next:	movl	$2, %eax
	ret
	.size	next, .-next
	.section .rodata
	.p2align 3
table:	.quad	{}
	.section .note.GNU-stack,"",@progbits
"""


def test_jump_tables(etch, tmp_path):
    """In a linked file: an entry that leads to the function's end, where padding follows; marked as the compiler's."""
    wrong = {}
    for entries, padding in itertools.product(
            ("1b, 2b, 1b, 2b", "9b, 1b, 2b, 1b", "1b, 9b, 2b, 1b", "1b, 2b, 1b, 9b", "9b, 9b, 1b, 2b"),
            (".p2align 4", ".nops 3", "int3", "")):
        (tmp_path / "t.s").write_text(TABLE.format(padding, entries))
        run(["gcc", "-nostdlib", "-static", "-no-pie", "-o", "t", "t.s"], cwd=tmp_path)
        p = run([etch, "check", "--format", "json", "--fail-on", "never", tmp_path / "t"])
        got = [(x["id"], x["place"]["function"], x["severity"], x["text"].split(" of ")[0])
               for x in json.loads(p.stdout)["files"][0]["findings"] if x["id"] in ("ETCH-F001", "ETCH-F006", "ETCH-F003")]
        first = entries.split(", ").index("9b") if "9b" in entries else None
        want = [("ETCH-F001", "f", "note", f"entry {first}")] if "9b" in entries and padding not in ("int3", "") else []
        if got != want:
            wrong[entries, padding] = got
    assert not wrong
