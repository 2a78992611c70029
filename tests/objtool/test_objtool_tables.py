# SPDX-License-Identifier: MIT
"""Jump tables in `etch objtool --stackval`: entries that dangle, as clang leaves them where a case cannot be, lead to the
end of the function. They are in any place of the table, and the table goes on after them: its size is that of the run
of relocations. What no entry leads to is still warned of."""

import itertools
import re
import subprocess

import pytest

from conftest import run

CASES = 4
# What stands after the function: the section's end, a function right there, padding, or the function has a cold part.
BEHIND = {
    "the section's end": "",
    "another function": "\t.globl\tnext\n\t.type\tnext, @function\nnext:\tret\n\t.size\tnext, .-next\n",
    "padding": "\t.p2align 4\n\t.globl\tnext\n\t.type\tnext, @function\nnext:\tret\n\t.size\tnext, .-next\n",
}
DISPATCH = {
    "addresses": ("\tjmp\t*.Ltable(,%rdi,8)\n", "\t.quad\t{}\n"),
    "distances": ("\tleaq\t.Ltable(%rip), %rax\n\tmovslq\t(%rax,%rdi,4), %rdi\n\taddq\t%rax, %rdi\n\tjmp\t*%rdi\n",
                  "\t.long\t{}-.Ltable\n"),
}


def source(kind, behind, entries, name="f"):
    """A function that jumps through a table of these entries: numbers of cases, None for one that dangles, "cold" for
    one that leads to the end of the cold part."""
    dispatch, word = DISPATCH[kind]
    cases = "".join(f".Lcase{n}:\tmovl\t${n}, %eax\n\tret\n" for n in range(CASES))
    where = {None: ".Lend", "cold": ".Lcold_end", **{n: f".Lcase{n}" for n in range(CASES)}}
    table = "".join(word.format(where[e]) for e in entries)
    cold = (f'\t.section .text.unlikely,"ax",@progbits\n\t.type\t{name}.cold, @function\n{name}.cold:\tmovl\t$9, %eax\n'
            f"\tret\n.Lcold_end:\n\t.size\t{name}.cold, .-{name}.cold\n\t.text\n") if "cold" in entries else ""
    return (f"{cold}\t.text\n\t.p2align 4\n\t.globl\t{name}\n\t.type\t{name}, @function\n{name}:\n"
            + (f"\ttestl\t%esi, %esi\n\tjne\t{name}.cold\n" if cold else "") + dispatch + cases
            + f".Lend:\n\t.size\t{name}, .-{name}\n{BEHIND[behind]}"
            f'\t.section .rodata,"a",@progbits\n\t.p2align 3\n.Ltable:\n{table}\t.section .note.GNU-stack,"",@progbits\n')


def assembled(directory, text):
    (directory / "t.s").write_text(text)
    run(["as", "-o", "t.o", "t.s"], cwd=directory)


def warnings(etch, directory):
    said = subprocess.run([etch, "objtool", "--stackval", "t.o"], cwd=directory, capture_output=True, text=True, check=True)
    return re.findall(r"warning: objtool: (.*)", said.stderr)


@pytest.mark.parametrize("behind", BEHIND)
@pytest.mark.parametrize("kind", DISPATCH)
def test_dangling_entries(etch, tmp_path, kind, behind):
    sound = list(range(CASES))
    tables = [sound[:k] + [None] + sound[k:] for k in range(CASES + 1)]
    tables += [sound[:k] + [None, None] + sound[k:] for k in (0, 2, 4)]
    tables += [[None, 0, None, 1, None, 2, None, 3, None], sound[:2] + ["cold"] + sound[2:]]
    for entries in (sound, *tables):
        assembled(tmp_path, source(kind, behind, entries))
        assert not warnings(etch, tmp_path), entries


@pytest.mark.parametrize("kind", DISPATCH)
def test_what_no_entry_leads_to(etch, tmp_path, kind):
    for missing, k in itertools.product(range(CASES), (0, 2)):
        entries = [n for n in range(CASES) if n != missing]
        entries.insert(k, None)
        assembled(tmp_path, source(kind, "padding", entries))
        (said,) = warnings(etch, tmp_path)
        assert re.fullmatch(r"f\+0x[0-9a-f]+: unreachable instruction", said), (entries, said)


@pytest.mark.parametrize("flags", [["-fno-pie"], ["-fPIC"]], ids=["no-pie", "pic"])
def test_as_clang_makes_them(etch, tmp_path, flags):
    """A switch of which the compiler knows that one case cannot be."""
    (tmp_path / "t.c").write_text(
        "int g(int);\nint sw(unsigned x) { switch (x) { case 0: return g(1); case 1: return g(20);\n"
        "case 2: __builtin_unreachable(); case 3: return g(31) + 1; case 4: return g(5) * 3; case 5: return g(77) - 2;\n"
        "case 6: return g(44) + 8; case 7: return g(9) ^ 4; default: __builtin_unreachable(); } }\n")
    for cc in ("gcc", "clang"):
        run([cc, "-O2", "-fno-omit-frame-pointer", "-fcf-protection=none", *flags, "-c", "-o", "t.o", "t.c"], cwd=tmp_path)
        assert not warnings(etch, tmp_path), cc
