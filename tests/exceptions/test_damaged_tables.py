# SPDX-License-Identifier: MIT
"""Damaged tables of handlers (.gcc_except_table): what libetch-exceptions reads in them is what the personality
routines answer, or libgcc handles the exception."""
import os
import re

import pytest
from conftest import DATA, ROOT, run
from test_exceptions import CXX, MODES, preloaded

HERE = DATA / "exceptions"
MUTANTS = 200_000 if os.environ.get("ETCH_TESTS") == "all" else 20_000


def mutants(directory, cc, optimize, reader, seed, ok=0):
    """The counts that call_sites prints, by their names, and its status."""
    run([cc, "-std=gnu11", "-D_GNU_SOURCE", optimize, "-fexceptions", "-Wall", "-Wextra", f"-I{ROOT / 'lib'}", "-c", "-o", directory / "judge.o",
         HERE / "call_sites.c"])
    run([CXX[cc], "-std=c++14", "-Wno-deprecated", optimize, "-o", directory / "call_sites", HERE / "call_sites.cc", directory / "judge.o", reader])
    p = run([directory / "call_sites", seed, MUTANTS], ok=ok, timeout=600)
    return p.returncode, {name: int(n) for n, name in re.findall(r"(\d+) ([a-z ]+)", p.stdout.splitlines()[-1])}


@pytest.mark.parametrize("optimize", ["-O0", "-O2"])
@pytest.mark.parametrize("cc", CXX)
def test_answers_are_those_of_the_routines(build, tmp_path, cc, optimize):
    _, counts = mutants(tmp_path, cc, optimize, build / "o" / "lib" / "exceptions" / "call_site.o", 1)
    assert counts.pop("wrong") == 0
    assert len(counts) == 8 and all(n > (4 if name == "functions" else 500) for name, n in counts.items()), counts


@pytest.mark.parametrize("check", [" || (encoding & 0x60)", "c.from < end || "])
def test_a_missing_check_is_noticed(tmp_path, check):
    """The reader without one of its checks gives wrong answers."""
    source = (ROOT / "lib" / "exceptions" / "call_site.c").read_text()
    assert source.count(check) == 1
    (tmp_path / "reader.c").write_text(source.replace(check, ""))
    run(["gcc", "-std=gnu11", "-O2", f"-I{ROOT / 'lib'}", "-c", "-o", tmp_path / "reader.o", tmp_path / "reader.c"])
    status, counts = mutants(tmp_path, "clang", "-O0", tmp_path / "reader.o", 1, ok=None)
    assert status == 1 and counts["wrong"] > 0


@pytest.mark.parametrize("mode", MODES)
def test_registers_at_a_landing_pad(once, build, mode):
    """Outside the function, which no compiler writes: they are libgcc's. In the function: rcx, rsi and rdi are those of gcc 12's libgcc."""
    d = once("exceptions-pads", lambda d: run(["g++", "-O2", "-o", d / "pads", HERE / "pads.cc", HERE / "pads.S", "-ldl"]))
    expected = run([d / "pads"]).stdout.splitlines()
    p = run([d / "pads"], env=preloaded(build / "libetch-exceptions.so.0", mode))
    lines = p.stdout.splitlines()
    assert p.stderr == "" and len(lines) == 16
    assert [s for s in lines if s.startswith(("outside", "caught"))] == [s for s in expected if s.startswith(("outside", "caught"))]
    assert lines[1:5] == ["inside: rdx 0", "inside rcx: the landing pad", "inside rsi: the landing pad", "inside rdi: the stack pointer"]
