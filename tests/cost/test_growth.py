# SPDX-License-Identifier: MIT
"""What each command takes grows as n log n with the file: instructions are counted for n and 4 n of what a file
can have many of (tests/cost/files.py), and may grow by 4 ** 1.25. No clock decides."""
import os
import struct

import pytest

import files
import growth
from conftest import run

FILES = files.OBJECTS | files.LINKED | files.ARCHIVES
FEW = 250
START = 8_000_000  # instructions: more than any command takes for next to nothing
SIZES = {"findings": 1000, "long_names": 100, "archive.a": 60, "thin.a": 60, "tails": 1000, "alias_tails": 1000, "one_name": 1000,
         "section_tails": 1000, "sframe_blocks.so": 1000, "etched_constructors.etched.so": 2500, "own_tables.so": 1000}
# The short version: each command on what it is about.
SHORT = [
    ("rewrite", "etched_aliases"), ("rewrite", "etched_constructors.etched.so"), ("rewrite --undo", "sections"), ("check", "findings"), ("check --format json", "aliases"),
    ("inspect summary", "nested_fdes"), ("inspect sites", "debug_units"), ("inspect orc", "entries"), ("inspect code", "entries"),
    ("inspect code ADDR", "functions"), ("inspect tables", "etched_objects.etched.so"), ("diff", "same_bodies"), ("check", "thin.a"),
    ("check", "unread_cies"), ("inspect fields", "etched_fields.etched.so"), ("inspect marks", "marks"), ("inspect cfi", "fdes"),
    ("inspect sframe", "sframe_blocks.so"), ("rewrite --sframe --fix-cfi", "functions.so"), ("objtool", "kernel_keys"),
    ("objtool", "kernel_calls"), ("objtool", "calls"),
]


@pytest.fixture(scope="module")
def floors(etch, tmp_path_factory):
    tmp, found = tmp_path_factory.mktemp("start"), {}
    made = growth.Made(files.code(files.shapes.functions), 1, tmp, "start.o")

    def floor(command):
        if command not in found:
            found[command] = made.counted(command)[0]
        return found[command]
    return floor


def grows(floors, tmp_path, command, name):
    few = SIZES.get(name, FEW)
    counts = []
    for n in (few, 4 * few):
        count, status, said = growth.Made(FILES[name], n, tmp_path, name).counted(command)
        assert count and status in (0, 1, 2), said
        if status == 2:  # refused, or a view that such a file does not have: in one line, and in proportion, too
            assert len(said.splitlines()) == 1, said
        counts.append(count)
    # Without more than it may take to start, it grows the most: what passes so needs no count of what the command takes. Where the
    # few take no more than that, it says nothing.
    if counts[0] < START + growth.LEAST or growth.exponent(*counts, 4, START) >= growth.MOST:
        assert floors(command) < START and growth.exponent(*counts, 4, floors(command)) < growth.MOST, (counts, floors(command))


@pytest.mark.parametrize("command,name", SHORT, ids=lambda x: x)
def test_grows(floors, tmp_path, command, name):
    grows(floors, tmp_path, command, name)


@pytest.mark.long
@pytest.mark.parametrize("name", FILES)
def test_all_grow(floors, tmp_path, name):
    for command in growth.COMMANDS:
        if name not in files.ARCHIVES or command.split()[0] in ("check", "diff") and "other" not in command:
            grows(floors, tmp_path, command, name)


BIG = 200_000_000
DATA = 4 * BIG + (256 << 20)  # bytes of private writable memory


def big(source, path):
    """The file with a section of 200 MB that is a hole, at its end."""
    o = files.Object(source(shape, path))
    last = next(i for i in range(1, o.shnum) if o.named(i) == ".big")
    struct.pack_into("<QQ", o.data, o.shoff + 64 * last + 24, len(o.data), BIG)
    o.write()
    os.truncate(path, len(o.data) + BIG)
    return path


def shape(n=300):
    return files.etched_objects(n) + '.text\n.globl f\n.type f,@function\nf: ret\n.size f,.-f\n.section .big,"",@progbits\n.skip 16\n'


@pytest.mark.parametrize("linked", [False, pytest.param(True, marks=pytest.mark.long)], ids=["object", "library"])
def test_200_mb(etch, tmp_path, linked):
    """Every command ends, with four times the file; the hole stays one."""
    path = tmp_path / "big"
    big(lambda make, at: (files.link if linked else files.assemble)(make(), at), path)
    made = growth.Made(lambda n, at: path, 0, tmp_path, "made")
    for command in growth.COMMANDS:
        words = made.argv(command)
        p = run(["prlimit", f"--data={DATA}", etch, *words], ok=None)
        usual = (0, 1) if command.startswith("diff") else (0,)
        if command in (("objtool",) if linked else ("inspect tables", "inspect fields", "rewrite --sframe --fix-cfi", "rewrite --eh-frame=OUT")):
            usual = (0, 2)  # not for such files
        assert p.returncode in usual, (command, p.returncode, p.stderr)
    assert (made.dir / "done").stat().st_blocks * 512 < BIG // 4


@pytest.mark.parametrize("make", [files.tails, files.one_name, files.alias_tails, files.section_tails], ids=lambda m: m.__name__)
def test_names_that_are_many_times_the_file(etch, tmp_path, make):
    """Names that share one string: a file of 4 MB says 16 GB of them."""
    p = run([etch, "check", make(8000, tmp_path / "a.o")], ok=2)
    assert "add up to many times the file size" in p.stderr and len(p.stderr.splitlines()) == 1


def test_long_names_are_read(etch, tmp_path):
    """One name of a megabyte, some that share one of 100 KB, and many of 3 KB that are one."""
    one = files.renamed(3, tmp_path / "a.o", lambda k: 0 if k == 2 else 900_000, b"x" * 1_000_000 + b"\0")
    run([etch, "check", "-q", "--fail-on", "never", one])
    many = files.renamed(3000, tmp_path / "b.o", lambda k: 0, b"x" * 3000 + b"\0")
    run([etch, "rewrite", many])
