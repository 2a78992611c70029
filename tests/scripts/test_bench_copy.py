# SPDX-License-Identifier: MIT
"""The benchmarks of copies: they build, all copies give the same bytes, and the quick
run prints its tables. No times."""
import os
import sys

import pytest

from conftest import ROOT, need, run

sys.path[:0] = [str(ROOT / "scripts" / "bench"), str(ROOT / "scripts")]
import common  # noqa: E402
import copy_parts  # noqa: E402


@pytest.fixture
def bench(build, tmp_path, monkeypatch):
    """The module, with this build and a directory of the test's own."""
    for module in (common, copy_parts):
        monkeypatch.setattr(module, "B", build)
        monkeypatch.setattr(module, "OUT", tmp_path)
    return copy_parts


def test_copies_agree(bench, cc):
    program = bench.build(cc, "copy")
    rows = common.parse(run([program, "check"]).stdout)[1]
    sums = {}
    for size, name, value in rows:
        sums.setdefault(size, {})[name] = value
    assert len(sums) > 10
    for size, by_name in sums.items():
        assert set(by_name) == set(bench.NAMES) and len(set(by_name.values())) == 1, size
    assert len({v["memcpy"] for v in sums.values()}) == len(sums)


def test_workload_agrees(bench, cc):
    program = bench.build(cc, "copy-workload")
    for record in (4096, 20480, 65536):
        rows = common.parse(run([program, 2, record, 1000, "memcpy", "auto", "nt", "from"]).stdout)[1]
        assert len(rows) == 8 and len({r[3] for r in rows}) == 1


def test_simulated_misses(bench):
    """Counts, not times: a copy of twice the simulated cache drives the hot set out, no copy does not."""
    need("valgrind")
    program = bench.build("gcc", "copy")
    missed = {name: bench.misses(bench.cachegrind(program, "reread-once", 512 << 10, 4 << 20, name)["walk_after"])
              for name in ("none", "memcpy")}
    assert missed["none"] < 8192 / 20 and missed["memcpy"] > 8192 * 0.9


PARTS = {"copy": ["| 64 KiB "], "iozone": ["| 2005: nt "], "safety": ["| etch_probe_read_64 ", "| 64 KiB, aligned "]}


@pytest.mark.parametrize("part", [pytest.param("copy", marks=pytest.mark.long), pytest.param("iozone", marks=pytest.mark.long), "safety"])
def test_quick_run_prints_tables(build, part):
    """Each part ends well and prints rows."""
    r = run([sys.executable, ROOT / "scripts/bench/run", "--quick", "--cc", "gcc", part], env={**os.environ, "B": str(build)})
    for text in (f"### {part}", *PARTS[part]):
        assert text in r.stdout, text
