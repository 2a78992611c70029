# SPDX-License-Identifier: MIT
"""Page swaps under other kernels, in virtual machines (scripts/vm): Debian's 6.1 and 6.12. `make vm` runs all cases."""

import shutil
import subprocess
import sys

import pytest

from conftest import ROOT

sys.path.insert(0, str(ROOT / "scripts" / "vm"))
import machine  # noqa: E402
import swaps  # noqa: E402


@pytest.fixture(scope="module")
def files(build, tmp_path_factory):
    if not machine.installed():
        pytest.skip(f"needs {', '.join(machine.PACKAGES.values())}")
    return swaps.compile_programs(build, tmp_path_factory.mktemp("vm"))


def check(files, release, cases, reads=0, sets=0):
    kernel = machine.debian_kernel(release)
    if not kernel:
        pytest.skip(f"apt has no kernel {release}")
    got = swaps.run(kernel, files, cases, reads, sets)
    assert [x[0] for x in got] == [*cases, *(["swaps"] if sets else [])], got
    assert all(status in (0, 77) for _, status, _ in got), got
    return {case: status for case, status, _ in got}


@pytest.mark.parametrize("release", ["6.1", "6.12"])
@pytest.mark.long
def test_swaps(files, release):
    """With a probe on the page, with memory that is committed or used up, and under readers on two processors."""
    got = check(files, release, "swap_busy swap_limit uprobe swap_memcg swap_overcommit".split(), 10**5, 50)
    assert not any(got.values())


def test_initramfs():
    """The archive, read by cpio(1)."""
    if not shutil.which("cpio"):
        pytest.skip("needs cpio")
    data = machine.cpio({"init": b"1\n", "a/b/c": b"12345"})
    names = subprocess.run(["cpio", "-t", "--quiet"], input=data, capture_output=True, check=True).stdout.decode().split()
    assert sorted(names) == ["a", "a/b", "a/b/c", "init"]


def test_results():
    """A case that the machine did not come through is not one that passed."""
    text = "x\n@@ swap\ndone\n@@ status 0\n@@ uprobe\nno uprobe here\n@@ status 77\n@@ swap_hole\nBUG\n"
    assert swaps.results(text) == [("swap", 0, []), ("uprobe", 77, ["no uprobe here"]), ("swap_hole", None, ["BUG"])]
