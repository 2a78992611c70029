# SPDX-License-Identifier: MIT
"""etch::ops (etch/pv.hpp): tables of functions of every kind of C++ variable are found, and called directly while they
are set under threads."""
import re
import struct

import pytest

from conftest import CXX, DATA, INCLUDE, Flow, asan_env, run
from test_values import MODES, WARNINGS

# By the C++ meaning of ops.cc.
EXPECTED = f"""\
start: {3 + 10 * 3 + 100 * 9 + 1000 * 6 + 10000 * 9 + 100000 * 5} 2
set: {3 + 10 * 9 + 100 * 3 + 1000 * 6 + 10000 * 3 + 100000 * 6} 4 8 16
printed 1
threads: 0 wrong
"""
TABLES = 7  # with static storage: shared, member, per<9>, own[0] and [1], turns, local
MANY = ("g++-O0", "g++-O1", "g++-O2", "g++-lto", "clang++-O0", "clang++-O2", "g++-no-pie", "clang++-lld")
MARK = struct.pack("<2Q", 0xb5a1470e9d36f2c8, 0x6e93d80b57fc2a41)


def made(flow, mode, name="ops"):
    _, flags, ldflags, _ = MODES[mode]
    obj = flow.tmp / f"{name}.o"
    run([CXX[flow.cc], "-std=c++17", *WARNINGS, *flags, f"-I{INCLUDE}", "-c", "-o", obj, DATA / "lib" / "ops.cc"])
    return obj, [*ldflags, *(["-flto-partition=one"] if "lto" in mode else [])]


def grid():
    for mode in MANY:
        for stage in ("plain", "linked", "both"):
            yield pytest.param(mode, stage, marks=[pytest.mark.long] * (stage != "linked" or mode not in ("g++-O0", "g++-O2", "clang++-O2")))


@pytest.mark.parametrize("mode,stage", grid())
def test_ops_hold_under_threads(tmp_path, build, mode, stage):
    flow = Flow(tmp_path, build, MODES[mode][0])
    obj, ldflags = made(flow, mode)
    if stage == "both":
        flow.rewrite(obj)
    program = flow.link([obj], ldflags, stage, cxx=True)
    if stage != "plain":
        flow.rewrite(program)
        once = program.read_bytes()
        flow.rewrite(program)
        assert program.read_bytes() == once
    p = run([program, "200"])
    assert p.stdout == EXPECTED
    objects, armed, calls, direct, inline, reads = map(int, p.stderr.split())
    if stage == "plain":
        assert objects == calls == 0
        return
    assert TABLES - 1 <= objects == armed <= TABLES and calls >= 9  # a compiler sees that `local` is never set
    if "O0" not in mode:
        assert direct + inline >= calls - 1 and reads >= 1  # printf may be too far away for a direct call


@pytest.mark.parametrize("size", [0, 12, (1 << 64) - 8, 4104])
def test_a_mark_with_another_size_is_data(tmp_path, build, etch_asan, size):
    """Only 8 to 4096 bytes, whole words, that are there."""
    flow = Flow(tmp_path, build, "gcc")
    obj, ldflags = made(flow, "g++-O2")
    program = flow.link([obj], ldflags, "p", cxx=True)
    data = bytearray(program.read_bytes())
    at = [m.start() for m in re.finditer(re.escape(MARK), bytes(data))]
    assert len(at) >= TABLES
    for i in at:
        data[i + 16:i + 24] = struct.pack("<Q", size)
    program.write_bytes(data)
    run([etch_asan, "rewrite", program], env=asan_env())
    p = run([program, "20"])
    assert p.stdout == EXPECTED and p.stderr.split()[2] == "0"


def test_a_mark_at_the_end_of_its_section_is_data(tmp_path, build, etch_asan):
    flow = Flow(tmp_path, build, "gcc")
    words = ", ".join(f"{w:#x}" for w in struct.unpack("<2Q", MARK))
    source = flow.source(f"""
#include <etch/imv.h>
DEFINE_IMV(int, other) = 1;
__attribute__((section("at_end"))) unsigned long tail[] = {{1, {words}}};
int main(void) {{ return imv_read(other) != 1 || tail[0] != 1; }}
""")
    program = flow.tmp / "t"
    run(["gcc", "-O2", f"-I{INCLUDE}", "-o", program, source, build / "libetch.a", "-pthread"])
    run([etch_asan, "rewrite", program], env=asan_env())
    run([program])


@pytest.mark.parametrize("wrong,message", [
    ("struct t { char c; }; etch::ops<t> x{{}};", "words of 8 bytes"),
    ("struct t { void (*f)(); t(const t &); }; extern etch::ops<t> x; auto use() { return x->f; }", "copied bytewise"),
    ("struct t { void (*f)(); }; etch::ops<t> x{{pv_nop}}, y = x;", "deleted"),
    ("struct t { void (*f)(); }; etch::ops<t> x{{pv_nop}}; void f() { x->f = pv_nop; }", "read-only|const-qualified")])
@pytest.mark.parametrize("cc", ["gcc", pytest.param("clang", marks=pytest.mark.long)])
def test_what_does_not_compile(tmp_path, cc, wrong, message):
    p = run([CXX[cc], "-std=c++17", f"-I{INCLUDE}", "-fsyntax-only", "-x", "c++", "-"], input=f"#include <etch/pv.hpp>\n{wrong}\n", ok=1)
    assert re.search(message, p.stderr)
