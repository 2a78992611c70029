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


def compare_builds(old, new, *words):
    return subprocess.run([ROOT / "scripts" / "compare_builds", *words, old, new, "/bin/true", "/bin/false"],
                          text=True, capture_output=True)


def test_a_build_is_the_same_as_itself(build):
    p = compare_builds(build / "etch", build / "etch", "--views", "rewrite,undo,check,orc")
    assert (p.returncode, p.stdout) == (0, "2 files, 2 the same in every view, 0 not\n")


def test_a_build_that_writes_one_byte_differently_is_told(build, tmp_path):
    other = tmp_path / "etch"
    other.write_text(f"""#!/bin/sh
{build / "etch"} "$@" || exit
[ "$1 $2" = "rewrite -o" ] && printf x >>"$3"
exit 0
""")
    other.chmod(0o755)
    p = compare_builds(build / "etch", other, "--views", "rewrite,check")
    assert p.returncode == 1 and "2 files, 0 the same in every view, 2 not; rewrite 2\n" in p.stdout
    assert p.stdout.count(": rewrite: other bytes") == 2
