# SPDX-License-Identifier: MIT
"""etch profile and Python's own functions: by the trampolines of Python 3.12 and later, and a line where there are none."""

import glob
import os
import re
import shutil
import subprocess

import pytest

from conftest import last_line, run
from test_profile import folded

SPIN = """
def inner(n):
    s = 0
    for i in range(n): s += i * i
    return s
def middle(n): return inner(n) + 1
def outer(n): return middle(n)
outer(3000000)
"""


def pythons():
    """(minor version, path) of those that are installed."""
    found = {}
    for path in [*map(shutil.which, (f"python3.{n}" for n in range(6, 20))), *glob.glob(os.path.expanduser("~/.pyenv/versions/3.*/bin/python3")),
                 "/usr/bin/python3"]:
        p = subprocess.run([path, "-c", "import sys; print(sys.version_info[1])"], capture_output=True, text=True) if path else None
        if p and p.returncode == 0:
            found.setdefault(int(p.stdout), path)
    return found


@pytest.fixture(scope="module")
def spin(etch, tmp_path_factory):
    p = run([etch, "profile", "-q", "--", "true"], ok=(0, 2))
    if p.returncode:
        pytest.skip(p.stderr.strip())
    out = tmp_path_factory.mktemp("spin") / "spin.py"
    out.write_text(SPIN)
    return out


def test_functions_of_python(etch, tmp_path, spin):
    """Each Python function is a frame, in its place, by name and file; nothing is left in /tmp."""
    usable = {minor: path for minor, path in pythons().items() if minor >= 12}
    if not usable:
        pytest.skip("no Python 3.12 or later")
    for minor, path in usable.items():
        before = set(glob.glob("/tmp/perf-*.map"))
        found, text = folded(etch, tmp_path, path, spin)
        names = ["outer (spin.py)", "middle (spin.py)", "inner (spin.py)"]
        spent = sum(n for f, n in found if [name for name in f if name in names] == names)
        assert spent > 0.8 * sum(n for _, n in found), (minor, text)
        assert re.search(r", (?:99\.[5-9]\d|100\.00)% with a complete stack", text) and "not seen" not in text, text
        assert not {p for p in set(glob.glob("/tmp/perf-*.map")) - before if "spin.py" in open(p).read()}


def test_python_without_them(etch, tmp_path, spin):
    """Older ones, and those that were told not to: the last line says so."""
    found = pythons()
    older = next((path for minor, path in found.items() if 6 <= minor < 12), None)
    newer = next((path for minor, path in found.items() if minor >= 12), None)
    if not older and not newer:
        pytest.skip("no Python")
    if older:
        last = last_line(run([etch, "profile", "--", older, spin]).stderr)
        assert re.search(r"^not seen: .*the Python functions of \d+ samples \(3\.12 and later name them; this is 3\.\d+\)$", last), last
    if newer:
        last = last_line(run([etch, "profile", "--", newer, spin], env={**os.environ, "PYTHONPERFSUPPORT": "0"}).stderr)
        assert re.search(r"the Python functions of \d+ samples \(PYTHONPERFSUPPORT=1 in its environment names them\)$", last), last
