# SPDX-License-Identifier: MIT
"""What the benchmarks of call sites rely on, in counts: the four builds of mmap-perf
do the same work, and what etch has patched executes no indirect call. No times."""

import sys

import pytest

from conftest import ROOT, need, run

sys.path[:0] = [str(ROOT / "scripts" / "bench"), str(ROOT / "scripts")]
import common  # noqa: E402
import counts  # noqa: E402
import pv_parts  # noqa: E402


@pytest.fixture
def bench(build, tmp_path, monkeypatch):
    """The module, with this build and a directory of the test's own."""
    for module in (common, pv_parts):
        monkeypatch.setattr(module, "B", build)
        monkeypatch.setattr(module, "OUT", tmp_path)
    return pv_parts


@pytest.mark.long  # make demo counts in the same way
@pytest.mark.parametrize("cc, flags", [("gcc", []), ("clang", []), ("clang", ["-DCALLEE_SAVE"])], ids=["gcc", "clang", "clang-preserve"])
def test_mmap_perf_four_builds(bench, cc, flags):
    need("valgrind")
    programs = bench.mmap_builds(cc, "mmap-perf", flags)
    # Fails itself where checksums or statistics differ.
    _, by_program = bench.mmap_counts(programs, 1000)
    native, unpatched, patched, called = (
        by_program[k] for k in (bench.NATIVE, bench.UNPATCHED, bench.PATCHED, bench.CALLED))
    sites = bench.call_sites(programs[bench.PATCHED])
    assert len(sites) > 30 and all(s["form"] and s["live"] == "yes" for s in sites)
    assert native["indirect"] == 0
    assert unpatched["indirect"] > 3 * 1000
    assert patched["indirect"] == called["indirect"] == 0
    # All that was a call stands at its site now: as a nop, as one instruction of an
    # op, or, in the fourth program, as a direct call of an identity.
    assert patched["site nop"] + patched["site other"] == unpatched["indirect"]
    assert patched["site call"] == 0
    assert called["site call"] + called["site other"] == patched["site other"]
    assert called["site call"] > patched["site other"] / 2
    assert called["site nop"] == patched["site nop"] > 0
    # The body and the return of each function are gone, and the call where a nop stands.
    assert patched["branches"] == unpatched["branches"] - 2 * unpatched["indirect"]
    assert native["useful"] < patched["useful"] < called["useful"] < unpatched["useful"]


def test_calls_all_variants(bench, cc):
    """Each variant returns what its target makes; 8 sites each."""
    program = bench.calls_build(cc)
    info, rows = common.parse(run([program, 1]).stdout)
    assert {name for name, _ in rows} == set(bench.CALLS) | {"empty"}
    assert (info["calls"], info["direct"], info["inline"], info["indirect"]) == (48, 16, 32, 0)


def test_instructions_are_classified():
    """The classes after the counts, on lines as objdump prints them."""
    kind = counts.kind
    assert [kind(t) for t in ("nopw   0x0(%rax,%rax,1)", "cs nopw 0x0(%rax,%rax,1)", "xchg   %ax,%ax",
                              "data16 cs nopw 0x0(%rax,%rax,1)")] == ["nop"] * 4
    assert kind("cs cs cs mov %rdi,%rax") == kind("rep stos %rax,%es:(%rdi)") == kind("xchg   %rax,%rbx") == "other"
    assert kind("call   1234 <f>") == kind("addr32 call 1234 <f>") == "call"
    assert kind("call   *0x2fe2(%rip)        # 4000 <mmu>") == kind("notrack call *%rax") == "call *"
    assert kind("jmp    1234 <f+0x10>") == "jmp" and kind("bnd jmp *0x10(%rip)") == "jmp *"
    assert kind("repz ret") == kind("ret") == "ret" and kind("jne    1234 <f>") == "branch"
