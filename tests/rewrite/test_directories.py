# SPDX-License-Identifier: MIT
"""`etch rewrite DIR`: the directories of a system need --yes, and Ctrl-C leaves each file old or new and nothing else."""

import os
import pty
import shutil
import signal
import subprocess
import time
from pathlib import Path

import pytest

from conftest import need, run

NOBODY = 65534
SYSTEM = ["/", "/usr", "/usr/", "/usr/.", "/usr/bin/..", "//usr", "/etc", "/bin", "/lib", "/lib64", "/sbin", "/boot", "/opt", "/var", "/home", "/root",
          "/tmp", "/var/tmp", "/usr/lib", "/usr/bin", "/usr/lib/x86_64-linux-gnu", "/usr/local", "/proc", "/dev", "/usr/share", "HOME", "LINK"]


@pytest.fixture(scope="module")
def guarded(etch, tmp_path_factory):
    """Runs etch as a user who can change nothing of the system: the test must do no harm where etch does not refuse."""
    if os.getuid() != 0:
        pytest.skip("runs etch as another user")
    tmp = tmp_path_factory.mktemp("guarded")
    for p in (tmp, *tmp.parents):
        if p != Path("/") and not p.stat().st_mode & 1:
            p.chmod(p.stat().st_mode | 0o011)
    mine = shutil.copy(etch, tmp / "etch")
    (tmp / "home").mkdir()
    (tmp / "link").symlink_to("/usr")

    def go(*args, trace=None, **kw):
        argv = ["strace", "-f", "-o", trace, "-e", "trace=openat,getdents64,renameat,rename", mine, *args] if trace else [mine, *args]
        return run(argv, user=NOBODY, group=NOBODY, extra_groups=[], env={**os.environ, "HOME": str(tmp / "home")}, cwd=tmp, **kw)
    go.tmp = tmp
    return go


@pytest.mark.parametrize("path", SYSTEM)
def test_directories_of_the_system_need_yes(guarded, path):
    """Nothing in them is listed, let alone opened."""
    need("strace")
    path = {"HOME": str(guarded.tmp / "home"), "LINK": str(guarded.tmp / "link")}.get(path, path)
    if not os.path.isdir(path):
        pytest.skip("not here")
    trace = guarded.tmp / "home/log"
    os.chown(guarded.tmp / "home", NOBODY, NOBODY)
    for args in ([], ["--no-cfi", "-j2"], ["--", "/nonexistent"]):
        p = guarded("rewrite", *args, path, trace=trace, ok=2)
        assert p.stderr == f"etch: {path}: is a directory of the system: --yes rewrites every program and library in it\n" and not p.stdout
        calls = trace.read_text()
        assert "getdents64" not in calls and "rename" not in calls
        assert not [c for c in calls.splitlines() if f'"{path}' in c and "O_PATH" not in c and "openat" in c and c.split('"')[1] == path]


def test_what_is_no_directory_of_the_system(guarded, program_in):
    """What writes elsewhere, what takes back, a directory of one's own, and --yes."""
    tmp = guarded.tmp
    own = program_in(tmp / "own")
    for p in (tmp / "own", *own):
        os.chown(p, NOBODY, NOBODY)
    (tmp / "side").mkdir(exist_ok=True)
    os.chown(tmp / "side", NOBODY, NOBODY)
    was = [p.read_bytes() for p in own]
    assert guarded("rewrite", tmp / "own").stderr == ""
    assert all(p.read_bytes() != b for p, b in zip(own, was))
    guarded("rewrite", "--undo", tmp / "own")
    assert [p.read_bytes() for p in own] == was
    env = {**os.environ, "HOME": str(tmp / "own")}
    mine = tmp / "etch"
    for args, ok in ((["rewrite"], 2), (["rewrite", "--yes"], 0), (["rewrite", "--undo"], 0), (["rewrite", "--sidecar", tmp / "side"], 0)):
        run([mine, *args, tmp / "own"], user=NOBODY, group=NOBODY, extra_groups=[], env=env, ok=ok)
    assert [p.read_bytes() for p in own] == was and os.listdir(tmp / "side")


@pytest.fixture(scope="module")
def program_in():
    def make(folder, count=4):
        folder.mkdir()
        return [Path(shutil.copy("/usr/bin/env", folder / f"f{i}")) for i in range(count)]
    return make


def on_terminal(argv, seconds=None):
    """What a command prints on a terminal, and how it ended; with Ctrl-C so long after its first line."""
    pid, fd = pty.fork()
    if not pid:
        os.execv(argv[0], [str(a) for a in argv])
    text = b""
    while True:
        try:
            part = os.read(fd, 4096)
        except OSError:
            break
        if not part:
            break
        text += part
        if seconds is not None and b"\n" in text:
            time.sleep(seconds)
            try:
                os.write(fd, b"\x03")
            except OSError:
                pass
            seconds = None
    os.close(fd)
    return text.decode().replace("\r\n", "\n"), os.waitpid(pid, 0)[1]


def test_a_terminal_is_told_how_many_files(etch, tmp_path, program_in):
    files = program_in(tmp_path / "d", 3)
    text, status = on_terminal([etch, "rewrite", tmp_path / "d"])
    assert not status and text.startswith("etch: 3 files to rewrite in place; Ctrl-C ends it, and leaves each file old or new; "
                                          "etch rewrite --undo restores them\n")
    assert on_terminal([etch, "rewrite", files[0]])[0] == ""    # a file is what it is
    assert run([etch, "rewrite", tmp_path / "d"]).stderr == ""
    assert on_terminal([etch, "rewrite", "--undo", tmp_path / "d"])[0].startswith("etch: 3 files to restore;")


@pytest.mark.parametrize("how", [[], ["-j3"], ["--undo", "-j2"]])
@pytest.mark.parametrize("seconds", [0, 0.03, 0.1])
def test_ctrl_c_leaves_each_file_old_or_new(etch, tmp_path, program_in, how, seconds):
    files = program_in(tmp_path / "d", 40)
    if "--undo" in how:
        run([etch, "rewrite", tmp_path / "d"])
    run([etch, "rewrite", "-o", tmp_path / "new", files[0]] if "--undo" not in how else [etch, "rewrite", "--undo", "-o", tmp_path / "new", files[0]])
    old, new = files[0].read_bytes(), (tmp_path / "new").read_bytes()
    text, status = on_terminal([etch, "rewrite", *how, tmp_path / "d"], seconds)
    assert text.startswith("etch: 40 files")
    assert status == 0 or (os.WIFSIGNALED(status) and os.WTERMSIG(status) == signal.SIGINT)
    assert sorted(p.name for p in (tmp_path / "d").iterdir()) == sorted(p.name for p in files)    # no temporary files
    assert {p.read_bytes() for p in files} <= {old, new}
    if "--undo" not in how:
        subprocess.run([etch, "rewrite", "--undo", *files], capture_output=True)
        assert all(p.read_bytes() == old for p in files)
