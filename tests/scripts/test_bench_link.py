# SPDX-License-Identifier: MIT
"""The benchmark of the link step runs to its end on small programs, with whichever of its linkers are installed. No times."""
import os
import re
import sys

from conftest import ROOT, run


def test_quick_run_prints_its_tables(build):
    r = run([sys.executable, ROOT / "scripts/bench/run", "--quick", "--cc", "gcc", "link"], env={**os.environ, "B": str(build)})
    assert "### link" in r.stdout
    tables = re.findall(r"^(\w+): [\d,]+ bytes, ([\d,]+) of them code\.\n\n((?:\|.*\n)+)", r.stdout, re.M)
    assert "small" in [name for name, _, _ in tables], r.stdout
    for _, code, rows in tables:
        assert int(code.replace(",", "")) > 0
        for step in ("etch rewrite -j1", "etch rewrite -j2", "etch check -j1", "etch check -j2"):
            assert f"| {step} " in rows, rows
