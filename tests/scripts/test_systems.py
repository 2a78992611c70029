# SPDX-License-Identifier: MIT
"""scripts/systems.py without its roots: what it says where they cannot be made, and its table."""
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import systems
from conftest import ROOT, run

SCRIPT = ROOT / "scripts" / "systems.py"
LOG = """\
......s..                                                                [100%]
=========================== short test summary info ============================
SKIPPED [2] tests/elf/test_unusual_links.py:71: llvm-bolt-16 is not installed
SKIPPED [1] tests/style/test_clang_format.py:15: clang-format-14 is not installed
SKIPPED [1] tests/rust/test_rust.py: llvm-bolt-16 is not installed
{}
"""


def test_without_debootstrap_or_root_it_says_so(tmp_path):
    (tmp_path / "bin").mkdir()
    python = f"{tmp_path}/bin/python3"
    os.symlink(sys.executable, python)
    p = subprocess.run([python, SCRIPT], env={"PATH": f"{tmp_path}/bin"}, text=True, capture_output=True)
    assert p.returncode == 2 and p.stderr.startswith("systems: debootstrap is not installed; ") and p.stderr.count("\n") == 1
    (tmp_path / "bin" / "debootstrap").write_text("#!/bin/sh\nexit 9\n")
    (tmp_path / "bin" / "debootstrap").chmod(0o755)
    if os.geteuid():
        p = subprocess.run([sys.executable, SCRIPT], env={"PATH": f"{tmp_path}/bin"}, text=True, capture_output=True)
        assert p.returncode == 2 and p.stderr == "systems: needs root, for debootstrap and mount\n"
        return
    # As root, a root directory that cannot be made.
    p = subprocess.run([sys.executable, SCRIPT, "--folder", tmp_path / "roots", "--suites", "trixie"],
                       env={"PATH": f"{tmp_path}/bin:{os.environ['PATH']}"}, text=True, capture_output=True)
    assert p.returncode == 2 and p.stderr.startswith("systems: trixie: debootstrap: ") and not p.stdout
    assert not list((tmp_path / "roots").glob("trixie/*"))


@pytest.mark.skipif(not shutil.which("setpriv") or os.geteuid() != 0, reason="root and setpriv")
def test_a_user_is_told_that_root_is_needed(tmp_path):
    (tmp_path / "debootstrap").write_text("#!/bin/sh\n")
    (tmp_path / "debootstrap").chmod(0o755)
    tmp_path.chmod(0o755)
    text = SCRIPT.read_text()     # the checkout may be for root alone
    p = subprocess.run(["setpriv", "--reuid=65534", "--clear-groups", "--", "/usr/bin/python3", "-c",
                        f"import os, shutil; __file__ = '/x/scripts/systems.py'; shutil.which = lambda name: name\n{text}"],
                       text=True, capture_output=True, cwd="/")
    assert p.returncode == 2 and p.stderr == "systems: needs root, for debootstrap and mount\n"


def test_an_unknown_step_is_an_error():
    p = subprocess.run([sys.executable, SCRIPT, "--steps", "demo,tset"], text=True, capture_output=True)
    assert p.returncode == 2 and "tset: not a step; they are demo, test, deb, headers" in p.stderr


@pytest.mark.parametrize("step", systems.STEPS)
def test_a_step_is_a_command_of_the_shell(step):
    command = systems.COMMANDS[step].format(jobs=2, tests="tests/faults/test_copy.py")
    run(["sh", "-n", "-c", command])
    assert "{" not in command


def small_root(folder):
    """A root directory with a shell and what a step's command below needs."""
    for name in ("proc", "sys", "dev", "mnt", "root/etch", "tmp"):
        (folder / name).mkdir(parents=True)
    for tool in ("sh", "unshare", "sleep", "cat"):
        path = shutil.which(tool)
        libraries = re.findall(r"(/\S+) \(0x", run(["ldd", path]).stdout)
        for name in {path, *libraries}:
            (folder / name[1:]).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(name, folder / name[1:])
    return folder


@pytest.mark.skipif(os.geteuid() != 0 or subprocess.run(["unshare", "--mount", "true"]).returncode, reason="root, with namespaces")
def test_a_step_has_the_release_as_its_root_and_leaves_nothing(tmp_path):
    """It may make namespaces there, as tests do, which is refused in a chroot. Its processes end with it, its mounts too."""
    system = systems.System(tmp_path, "small", "no mirror")
    small_root(system.root)
    system.logs.mkdir()
    (system.root / "root/etch/here").write_text("the checkout\n")
    long = f"1000.{os.getpid()}"
    status, text = system.run(f"unshare --map-root-user --mount cat here; cat /proc/self/mounts; sleep {long} & exit 7", "log")
    assert status == 7
    assert text.startswith("the checkout\n") and "proc /proc proc " in text and str(tmp_path) not in text
    assert str(tmp_path) not in Path("/proc/self/mounts").read_text()
    assert not [p for p in Path("/proc").glob("[0-9]*/cmdline") if long in p.read_text()]


@pytest.mark.parametrize("closing,want", [
    ("5 passed, 4 skipped in 1.02s", "5 passed, 4 skipped"),
    ("= 1 failed, 4 passed, 4 skipped, 30 deselected in 1.02s (0:01:02) =", "4 passed, 1 failed, 4 skipped"),
    ("2 passed, 1 warning, 2 errors in 0.30s", "2 passed, 2 error"),
    ("no tests ran in 0.01s", "fails"),
    ("make: *** [Makefile:104: build/o/tool/elf/undo.o] Error 1", "fails")])
def test_counts(closing, want):
    found, reasons = systems.counts(LOG.format(closing))
    assert systems.cell("test", 1, found).replace(" (fails)", "") == want
    assert reasons == {"llvm-bolt-16 is not installed": 3, "clang-format-14 is not installed": 1}


def test_the_table():
    found, reasons = systems.counts(LOG.format("5 passed, 4 skipped in 1.02s"))
    text = systems.table({
        "trixie": {"versions": {"gcc": "14.2.0"}, "steps": {"demo": ("runs", {}), "test": (systems.cell("test", 0, found), reasons)}},
        "sid": {"versions": {"gcc": "16.2.0"}, "steps": {"demo": ("fails", {})}}}).splitlines()
    assert text[0] == "| release | gcc | clang | binutils | glibc | python | demo | test |"
    assert text[2:4] == ["| trixie | 14.2.0 | - | - | - | - | runs | 5 passed, 4 skipped |", "| sid | 16.2.0 | - | - | - | - | fails | - |"]
    assert "trixie, test: skipped" in text and "- 3: llvm-bolt-16 is not installed" in text
