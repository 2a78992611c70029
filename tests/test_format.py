# SPDX-License-Identifier: MIT
"""The C of tool/ and lib/ is as .clang-format has it."""
import subprocess

from conftest import ROOT


def test_sources_are_formatted():
    files = sorted(p for top in ("tool", "lib") for p in (ROOT / top).rglob("*.[ch]"))
    assert len(files) > 100
    p = subprocess.run(["clang-format-14", "--dry-run", "-Werror", *files], cwd=ROOT, text=True, capture_output=True)
    assert not p.returncode, f"make format would change:\n{p.stderr[:4000]}"
