# SPDX-License-Identifier: MIT
"""Calls whose callee takes words off the stack that its caller has put there, in code without .eh_frame.

Compiled Lisp does this (SBCL's funcall_alien_callback). What a callee does is not seen through a pointer, so the rows
after such a call would be wrong by those words. The return shows it: by the states it would not be at the return address.
Then no row after a call may claim a proof. The generator knows how far rsp is from the CFA at each place; the programs run,
which shows that it is right."""

import itertools
import json

import pytest

from conftest import run

SAVED = ("rbx", "r12", "r13", "r14")

# How the caller takes its frame down, and how it finds what it calls.
DOWN = ("pop", "add", "leave")
CALLS = {"memory": ["call *target(%rip)"], "register": ["mov target(%rip), %rax", "call *%rax"], "direct": ["call lisp"]}


def program(saved, words, down, call, lines):
    """The assembly of a caller that pushes `words` words, which its callee takes off; lines gets (label, CFA minus rsp)."""
    out, depth = [], 8

    def place(text, change=0):
        nonlocal depth
        label = f"at{len(lines)}"
        lines.append((label, depth))
        out.append(f"{label}: {text}")
        depth += change

    out += [".globl _start", ".text", ".type caller,@function", "caller:"]
    if down == "leave":
        place("push %rbp", 8)
        place("mov %rsp, %rbp")
    for r in SAVED[:saved]:
        place(f"push %{r}", 8)
    for _ in range(words):
        place("push %rdi", 8)
    for text in CALLS[call]:
        place(text)
    after = len(lines)
    depth -= 8 * words
    if down == "add":
        place(f"add ${8 * saved}, %rsp", -8 * saved)
    else:
        for r in reversed(SAVED[:saved]):
            place(f"pop %{r}", -8)
    if down == "leave":
        place("leave", -8)
    place("ret")
    out += [".size caller, .-caller", ".type lisp,@function", f"lisp: popq {8 * words - 8}(%rsp)"]
    out += [f"add ${8 * words - 8}, %rsp"] if words > 1 else []
    out += ["mov $7, %ecx", "ret", ".size lisp, .-lisp", ".type _start,@function", "_start: xor %ebp, %ebp", "call caller",
            "mov %ecx, %edi", "mov $60, %eax", "syscall", ".size _start, .-_start", ".data", "target: .quad lisp",
            '.section .note.GNU-stack,"",@progbits']
    return "\n".join(out) + "\n", after


def addresses(path):
    p = run(["nm", path])
    return {c[2]: int(c[0], 16) for c in (line.split() for line in p.stdout.splitlines()) if len(c) == 3}


@pytest.mark.parametrize("call", CALLS)
@pytest.mark.parametrize("down", DOWN)
def test_no_row_after_a_call_that_takes_words(etch, tmp_path, down, call):
    for saved, words in itertools.product((1, 4), (1, 2)):
        lines = []
        text, after = program(saved, words, down, call, lines)
        path = tmp_path / f"p{saved}{words}"
        source = path.with_suffix(".s")
        source.write_text(text)
        run(["gcc", "-nostdlib", "-static", "-o", path, source])
        run([path], ok=7)
        at = addresses(path)
        p = run([etch, "inspect", "orc", "--format", "json", path])
        rows = [(int(r["address"], 16), r) for r in json.loads(p.stdout)["rows"]]
        for k, (label, depth) in enumerate(lines):
            row = [r for a, r in rows if a <= at[label]][-1]
            known = row["kind"] != "undef"
            assert known or k >= after, (saved, words, label)
            if known:  # rbp is the caller's own after the call, too
                assert row["cfa"] in (f"rsp+{depth}", "rbp+16" if down == "leave" else ""), (saved, words, label)
