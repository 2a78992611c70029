# SPDX-License-Identifier: MIT
"""The C of tool/ and lib/ is as .clang-format has it."""
import re
import shutil
import subprocess

import pytest

from conftest import ROOT


def test_sources_are_formatted():
    tool, = re.findall(r"^CLANG_FORMAT := (\S+)$", (ROOT / "Makefile").read_text(), re.M)
    if not shutil.which(tool):
        pytest.skip(f"{tool} is not installed; other releases format otherwise")
    files = sorted(p for top in ("tool", "lib") for p in (ROOT / top).rglob("*.[ch]"))
    assert len(files) > 100
    p = subprocess.run([tool, "--dry-run", "-Werror", *files], cwd=ROOT, text=True, capture_output=True)
    assert not p.returncode, f"make format would change:\n{p.stderr[:4000]}"
