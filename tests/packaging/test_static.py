# SPDX-License-Identifier: MIT
"""`make static`: etch as one file, which needs nothing else, and does what the other does."""
import os
import shutil
import subprocess

import pytest

from conftest import ROOT, run

pytestmark = pytest.mark.long
FILES = ["/bin/ls", "/usr/bin/make", "/usr/lib/x86_64-linux-gnu/libz.so.1", "/usr/lib/x86_64-linux-gnu/libz.a"]


@pytest.fixture(scope="module")
def static(build):
    p = subprocess.run(["make", "-s", "-C", ROOT, f"B={os.path.relpath(build, ROOT)}", "static"], capture_output=True, text=True, timeout=900)
    if p.returncode and "no way worked" in p.stderr:
        pytest.skip(p.stderr.splitlines()[-2])
    assert p.returncode == 0, p.stderr
    return build / "static" / "etch"


@pytest.fixture
def empty(static, tmp_path):
    """A root directory with that file alone, and what it is to read: a way to run it there."""
    if os.geteuid():
        pytest.skip("chroot needs root")
    root = tmp_path / "root"
    root.mkdir()
    shutil.copy(static, root)
    for path in FILES:
        shutil.copy(path, root)
    return root, lambda *argv, ok=0, env=None: run(["chroot", root, "/etch", *argv], ok=ok, env=env)


def test_nothing_is_loaded(static):
    assert "INTERP" not in run(["readelf", "-lW", static]).stdout
    assert "There is no dynamic section" in run(["readelf", "-dW", static]).stdout


def test_the_same_in_an_empty_root(etch, empty, tmp_path):
    """The same bytes and the same findings, by both decoders."""
    root, inside = empty
    names = [path.rpartition("/")[2] for path in FILES]
    for argv in (["check", "--format", "json"], ["check"], ["inspect", "summary"], ["inspect", "orc", "--format", "tsv"]):
        for name in names[:3] + names[3:] * (argv[0] == "check"):
            p = run([etch, *argv, name], cwd=root, ok=(0, 1))
            q = inside(*argv, name, ok=(0, 1))
            assert (q.returncode, q.stdout, q.stderr) == (p.returncode, p.stdout, p.stderr), (argv, name)
    for name in names[:3]:
        run([etch, "rewrite", "-o", tmp_path / "here", root / name])
        inside("rewrite", name)
        assert (root / name).read_bytes() == (tmp_path / "here").read_bytes()
        inside("rewrite", "--undo", name)
    assert (root / "ls").read_bytes() == open("/bin/ls", "rb").read()
    inside("tables", "update", "--directory", "/tables", "/ls", "/make")
    assert len([p for p in (root / "tables").iterdir() if p.name[0] != "."]) == 2


def test_memory_that_is_refused_is_noticed(empty):
    """The allocator is put in between by the linker here (tool/support/no_memory.c)."""
    _, inside = empty
    p = inside("check", "make", ok=2, env={**os.environ, "ETCH_BOUNDS": "1,0.001"})
    assert "out of memory" in p.stderr
