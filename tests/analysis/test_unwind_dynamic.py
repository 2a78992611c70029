# SPDX-License-Identifier: MIT
"""Programs one instruction at a time, with a shadow call stack as truth: from each
instruction the whole stack is unwound through the rows that etch makes. The long
version, 5 million instructions: scripts/judges/dynamic_truth.py, docs/correctness.md."""

import os
import shutil
import struct

import pytest

import dynamic
import dynamic_truth
from conftest import DATA, run

NAMES = ["gzip", "sqlite3", "python", "cmake", "openssl-dgst"]
STEPS = 40_000 if os.environ.get("ETCH_TESTS") == "all" else 15_000


@pytest.fixture(scope="module")
def tools(stepper):
    """step.c and shadow.c with libetch, which is compared beside the rows."""
    return stepper(library=True)


@pytest.fixture(scope="module")
def plain_tools(stepper):
    return stepper()


@pytest.fixture(scope="module", params=["etch", "cfi"])
def table(request, tmp_path_factory, etch):
    """Rows by etch, and by pyelftools from .eh_frame: the second tests the truth."""
    return dynamic.Rows(tmp_path_factory.mktemp("rows"), etch, [] if request.param == "etch" else "cfi")


def check(r, table):
    # What .eh_frame does not cover (_init, crt code) has no row when rows are its.
    silent = ("undef", "no-table") if table.source == "cfi" else ()
    wrong = [t for t in dynamic_truth.unexplained([r]) if t.what not in silent]
    assert not wrong, "\n".join(map(str, wrong[:20]))


@pytest.mark.parametrize("name", [pytest.param(n, marks=pytest.mark.long) if n == "cmake" else n for n in NAMES])
def test_program(tools, plain_tools, table, name, tmp_path):
    if table.source == "cfi" and name != "sqlite3":
        pytest.skip("the truth itself is tested on one program")
    argv, stdin, _, _ = dynamic_truth.programs(tmp_path)[name]
    if not shutil.which(argv[0]):
        pytest.skip(f"no {argv[0]} here")
    library = table.source != "cfi"
    r = dynamic.in_process(tools if library else plain_tools, table, argv, steps=STEPS, stdin=stdin, library=library)
    assert r.walked == STEPS and r.checked > 4 * STEPS and r.calls > 100 and r.odd_returns == 0
    assert not library or r.library_frames >= r.checked
    # rbx and r12 to r15 of all frames but those outside of main, as they were at the call
    assert not library or r.library_values > 2 * r.library_frames and not r.library_unknown
    check(r, table)


@pytest.mark.parametrize("inject,least", [
    (["10,call"], 30),                  # the first instruction of a function, on an alternate stack
    (["12,call"], 30),                  # the same on the stack that it finds
    (["10,plt", "12,plt+"], 30),        # inside PLT stubs, nested
    (["12,37+", "10,53+"], 50),         # anywhere, three deep, on both stacks
], ids=["first-alternate", "first", "plt", "nested"])
def test_signals(tools, plain_tools, table, inject, least, tmp_path):
    program = tmp_path / "sig"
    run(["gcc", "-O2", "-g", "-Wall", "-Wextra", "-Werror", "-Wl,-z,lazy", "-o", program, DATA / "unwind" / "sig.c"])
    tools = plain_tools if table.source == "cfi" else tools
    r = dynamic.over_ptrace(tools, table, [program, "2"], entry=True, steps=12_000, inject=inject)
    assert r.injected >= least and r.signals == r.injected
    # The rows alone cannot go on where a CFA counts from rbx, as in the lazy resolver; libetch can.
    assert table.source == "cfi" or r.library_frames >= r.checked > 20_000
    check(r, table)


def test_jump_out_of_handler(tools, plain_tools, table, tmp_path):
    program = tmp_path / "sig"
    run(["gcc", "-O2", "-g", "-Wall", "-Wextra", "-Werror", "-o", program, DATA / "unwind" / "sig.c"])
    # main does not come to an end while it is thrown back: the steps end it
    tools = plain_tools if table.source == "cfi" else tools
    r = dynamic.over_ptrace(tools, table, [program, "3", "jump"], entry=True, steps=8_000, inject=["1,197"])
    assert r.signals >= 5
    check(r, table)


def test_from_the_first_instruction(tools, plain_tools, table):
    """ld.so starts a program with calls like any other code."""
    tools = plain_tools if table.source == "cfi" else tools
    r = dynamic.over_ptrace(tools, table, ["/bin/true"], steps=6_000)
    assert r.checked > 10_000
    check(r, table)


@pytest.mark.parametrize("damage", ["cfa", *(pytest.param(d, marks=pytest.mark.long) for d in ("slot", "missing"))])
def test_the_check_can_fail(plain_tools, etch, damage, tmp_path):
    """Rows of gzip itself that its walks use, changed: the walk must see it."""
    table = dynamic.Rows(tmp_path / "rows", etch, "cfi")
    table.make("/usr/bin/gzip")
    target = next(table.dir.glob("*gzip.rows"))
    data = bytearray(target.read_bytes())
    changed = 0
    for at in range(0, len(data), 24):
        off, add, bp_off, cfa, bp, kind, ra = struct.unpack_from("<iiiBBBB", data, at + 8)
        if kind != 1 or cfa != 4:
            continue
        if damage == "cfa" and off >= 32:
            struct.pack_into("<i", data, at + 8, off + 8)
        elif damage == "slot" and bp == 1:
            struct.pack_into("<i", data, at + 16, bp_off - 8)
        elif damage == "missing" and off >= 32:
            struct.pack_into("<iiiBBBB", data, at + 8, 0, 0, 0, 0, 0, 0, 0)
        else:
            continue
        changed += 1
    assert changed
    target.write_bytes(data)
    source = tmp_path / "text"
    source.write_text("some text\n" * 50)
    r = dynamic.in_process(plain_tools, table, ["gzip", "-c", str(source)], steps=STEPS)
    what = {"cfa": "cfa", "slot": "rbp", "missing": "undef"}[damage]
    assert r.counts[what] > 0


@pytest.mark.parametrize("how", ["NEXT", "AWAY", "HALT", "JUMP", "TIGHT"])
def test_without_eh_frame(tools, etch, how, tmp_path):
    """Assembly of which nothing says where functions are: a row may be missing, but is never wrong."""
    run(["gcc", "-nostdlib", "-static", "-s", f"-D{how}", "-o", tmp_path / "t", DATA / "unwind" / "bare.S"])
    table = dynamic.Rows(tmp_path / "rows", etch, [])
    r = dynamic.over_ptrace(tools, table, [tmp_path / "t"], entry=True)
    assert r.steps > 60 and r.signals == 1 and r.library_frames >= r.checked > 60
    # Who asks for the byte before what a handler returns to may be at the `ret` that lies there.
    assert {t.what for t in r.trouble} <= ({"undef"} if how == "TIGHT" else set()), "\n".join(map(str, r.trouble))
