# SPDX-License-Identifier: MIT
"""V8's builtins: functions without .eh_frame or symbols, reached only by offsets in a table of read-only data. The rows
that are right are written down here; a table that does not fit the code everywhere makes none."""

import pytest

from conftest import run
from marked_rows import LIBRARY, PROGRAM, wrong

# None returns, as handlers of an interpreter do not, so that nothing about a stretch of code says it is a function.
BUILTINS = [
    "row 8\n movq (%rdi), %rax\n pushq %rbx\n row 16\n call *%rax\n popq %rbx\n row 8\n jmp *%rcx",
    "row 8\n pushq %rbp\n row 16\n movq %rsp, %rbp\n row rbp16\n pushq %rdi\n call *(%rsi)\n row rbp16\n leave\n row 8\n jmp *%rcx",
    "row 8\n incq %r9\n pushq %rsi\n row 16\n addq $8, %rsp\n row 8\n jmp *8(%r13,%r9,8)",
]
COUNT = 300


def blob(words, align, name="blob"):
    code = "".join(f"{name}b{i}: {BUILTINS[i % 3]}\n{name}e{i}: int3\n .balign {align}, 0xcc\n" for i in range(COUNT))
    table = "".join(f" .long {name}b{i}-{name}, {name}e{i}-{name}b{i}{', 0' * (words - 2)}\n" for i in range(COUNT))
    return f" .balign 64\n{name}:\n{code}", f" .quad 1, 2, 3\n{table} .quad -1, -1\n"


def source(code, table):
    return f" .globl f\n .type f, @function\nf: row 8\n ret\n .size f, .-f\n{code}\n ud2\n .section .rodata\n .balign 8\n{table}"


@pytest.mark.parametrize("flags", [LIBRARY, PROGRAM], ids=["library", "program"])
@pytest.mark.parametrize("words,align", [(2, 32), (3, 64), (8, 64)])
def test_a_table_of_offsets_gives_the_rows_that_symbols_give(etch, tmp_path, words, align, flags):
    code, table = blob(words, align)
    assert wrong(etch, tmp_path, source(code, table), *flags) == []
    rows = []
    typed = "".join(f" .type blobb{i}, @function\n .size blobb{i}, blobe{i}-blobb{i}\n" for i in range(COUNT))
    for tables in table, "":    # by both, by symbols alone
        assert wrong(etch, tmp_path, source(typed + code, tables), *flags, strip=False) == []
        lines = run([etch, "inspect", "orc", "--format", "tsv", tmp_path / "s"]).stdout.splitlines()
        rows.append([line.split("\t")[1:6] for line in lines if line.split("\t")[5] != "undef"])
    assert rows[0] == rows[1]


PART = "row rbp16\n movq -16(%rbp), %rbx\n movq 8(%rbx), %rbx\n addq $0xe2, %rbx\n row rbp16\n jmp *%rbx"
PUSHES = "row rbp16\n movq -16(%rbp), %rbx\n movq 8(%rbx), %rbx\n addq $0xdc, %rbx\n pushq %rbx\n movq (%r15,%r10,8), %rcx\n row rbp16\n jmp *%rcx"
HANDLER = "row 8\n movslq -24(%rbp), %rbx\n movq (%r15,%rbx,8), %rcx\n row 8\n jmp *%rcx"


@pytest.mark.parametrize("part", [PART, PART.replace("addq $0xe2", "addq %rax"), PUSHES], ids=["number", "register", "pushed"])
def test_a_builtin_that_goes_on_amidst_another_is_no_function(etch, tmp_path, part):
    """It is in that one's frame, which rbp points to, whether it jumps there itself or has a handler return there; a handler,
    which reads that frame as well, is called."""
    code, table = blob(3, 64)
    code = code.replace(f"blobb4: {BUILTINS[1]}", f"blobb4: {part}").replace(f"blobb7: {BUILTINS[1]}", f"blobb7: {HANDLER}")
    assert part in code and HANDLER in code
    for typed in "", " .type blobb4, @function\n .size blobb4, blobe4-blobb4\n":
        assert wrong(etch, tmp_path, source(typed + code, table), *LIBRARY, strip=not typed) == []


def test_a_tail_call_through_the_isolate_is_one(etch, tmp_path):
    """Its table of builtins is at a callee-saved register, as other compilers' code without C's frames has it. Who jumps to such
    a builtin, or is jumped to by it, has the frames of a function, too."""
    code, table = blob(3, 64)
    through = "row 8\n incq %rcx\n pushq %rcx\n row 16\n popq %rax\n row 8\n jmp *0x6130(%r13)"
    to = "row 8\n pushq %rbp\n row 16\n movq %rsp, %rbp\n row rbp16\n call *(%rsi)\n leave\n row 8\n jmp blobb4"
    code = code.replace(f"blobb4: {BUILTINS[1]}", f"blobb4: {through}").replace(f"blobb7: {BUILTINS[1]}", f"blobb7: {to}")
    assert through in code and to in code
    for typed in "", " .type blobb4, @function\n .size blobb4, blobe4-blobb4\n":
        assert wrong(etch, tmp_path, source(typed + code, table), *LIBRARY, strip=not typed) == []


TWO = [blob(3, 64, name) for name in ("one", "two")]
FIRST_LENGTH = " .long blobb0-blob, blobe0-blobb0, 0\n"
UNFIT = {
    "padding is other bytes": lambda code, table: (code.replace("blobe7: int3", "blobe7: nop"), table),
    "a length is another": lambda code, table: (code, table.replace("blobe9-blobb9", "blobe9-blobb9-1")),
    "an offset is another": lambda code, table: (code, table.replace("blobb5-blob,", "blobb5-blob+64,")),
    "the code ends before": lambda code, table: (code, table.replace(" .quad -1, -1", f" .long blobe{COUNT - 1}-blob+1+((-(blobe{COUNT - 1}-blob+1))&63), 0x7fffff00, 0\n")),
    "two places fit": lambda code, table: (TWO[0][0] + TWO[1][0], TWO[0][1]),
    "few entries": lambda code, table: (code, "\n".join(table.splitlines()[:200])),
}


@pytest.mark.parametrize("name", UNFIT)
def test_a_table_that_does_not_fit_makes_no_rows(etch, tmp_path, name):
    text = source(*UNFIT[name](*blob(3, 64)))
    assert {cfa for _, cfa in wrong(etch, tmp_path, text, *LIBRARY)} == {"undef"}
