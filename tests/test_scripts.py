# SPDX-License-Identifier: MIT
"""scripts/: each can be started by itself, by a Python that has no package of ours."""

import os
import subprocess

import pytest

from conftest import ROOT

PINNED = sorted(p.relative_to(ROOT) for p in (ROOT / "scripts").glob("**/*")
                if p.is_file() and "\nimport pinned" in p.read_text(errors="replace"))


@pytest.mark.parametrize("script", PINNED, ids=str)
def test_help_by_a_bare_python(script, tmp_path):
    env = dict(os.environ, PYTHONNOUSERSITE="1")
    p = subprocess.run(["/usr/bin/python3", ROOT / script, "--help"], text=True, capture_output=True, env=env, cwd=tmp_path)
    assert p.returncode == 0 and p.stdout.startswith("usage:"), p.stderr


def test_scripts_are_found():
    assert len(PINNED) >= 6
