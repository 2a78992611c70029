# SPDX-License-Identifier: MIT
"""Many files in one command: directories, processes, make's jobserver; the same for any of it."""

import os
import re
import shutil
import signal
import subprocess
import time
from pathlib import Path

import pytest

from conftest import run

NAMES = [p for p in ("ls", "cp", "mv", "cat", "make", "perl", "sed", "grep", "gzip", "tar", "find", "sort") if shutil.which(p)]


@pytest.fixture
def tree(tmp_path):
    """Programs in two directories, a symbolic link, an archive, a script."""
    root = tmp_path / "tree"
    (root / "sub dir").mkdir(parents=True)
    for i, name in enumerate(NAMES):
        shutil.copy(os.path.realpath(shutil.which(name)), root / ("sub dir" if i % 3 == 0 else "") / name)
    (root / "link").symlink_to(Path("sub dir") / NAMES[0])
    (root / "script").write_text("#!/bin/sh\n")
    run(["ar", "rc", root / "a.a", shutil.which("ls")])
    return root


def contents(root):
    return {str(p.relative_to(root)): p.read_bytes() for p in sorted(root.rglob("*")) if p.is_file()}


def test_a_directory(tree, etch, tmp_path):
    before = contents(tree)
    copy = tmp_path / "copy"
    shutil.copytree(tree, copy, symlinks=True)
    one = run([etch, "rewrite", "-j1", "-v", tree])
    two = run([etch, "rewrite", "-j4", "-v", copy])
    assert contents(tree) == contents(copy)
    assert one.stdout.replace(str(tree), "X") == two.stdout.replace(str(copy), "X")
    assert one.stderr.replace(str(tree), "X") == two.stderr.replace(str(copy), "X")
    after = contents(tree)
    changed = {name for name in before if before[name] != after[name]}
    # All programs (the link shows the one after it); neither script nor archive.
    assert changed == set(before) - {"script", "a.a"} and (tree / "link").is_symlink()
    assert [line.split(": ")[0] for line in one.stdout.splitlines()] == \
        [str(tree / name) for name in sorted(changed - {"link"}, key=lambda n: n.split("/"))]
    run([etch, "rewrite", "--undo", "-j2", tree])
    assert contents(tree) == before


def test_what_cannot_be_used_costs_itself(tree, etch, tmp_path):
    bad = tree / "bad"
    bad.write_bytes((tree / NAMES[1]).read_bytes()[:5000])
    p = run([etch, "rewrite", "-j2", tree, tmp_path / "none", tree / "a.a", tree / "script"], ok=2)
    lines = p.stderr.splitlines()
    assert [line for line in lines if line.startswith(f"etch: {bad}: ")]
    assert f"etch: {tmp_path / 'none'}: No such file or directory" in lines
    assert [line for line in lines if line.startswith(f"etch: {tree / 'a.a'}: is an archive")]
    assert b".etch.unwind" in (tree / NAMES[1]).read_bytes()
    # The worst of them is the status, whatever comes last.
    uneven = tmp_path / "uneven"
    (tmp_path / "t.s").write_text(".globl f\n.type f,@function\nf: .cfi_startproc\npush %rbx\nnop\npop %rbx\nret\n"
                                  ".cfi_endproc\n.size f,.-f\n")
    run(["gcc", "-c", "-o", uneven, tmp_path / "t.s"])
    run([etch, "rewrite", "--werror", bad, uneven], ok=2)
    run([etch, "rewrite", "--werror", tree / NAMES[1], uneven, tree / NAMES[2]], ok=1)


def test_one_file_alone_has_an_output(tree, etch, tmp_path):
    p = run([etch, "rewrite", "-o", tmp_path / "out", tree], ok=2)
    assert len(p.stderr.splitlines()) == 1 and not (tmp_path / "out").exists()
    only = tmp_path / "only"
    only.mkdir()
    shutil.copy(tree / NAMES[1], only / "file")
    run([etch, "rewrite", "-o", tmp_path / "out", only])
    assert (tmp_path / "out").read_bytes() != (only / "file").read_bytes()


def forks(trace):
    return len(re.findall(r" (?:clone3?|v?fork)\(", trace.read_text()))


def processes(etch, tree, tmp_path, jobs, recipe, rewrite=""):
    """How many processes etch makes under `make -jJOBS`, while there is another job."""
    makefile = tmp_path / "Makefile"
    flags = [tmp_path / "b-runs", tmp_path / "a-done"] # both jobs at the same time, however slow
    for flag in flags:
        flag.unlink(missing_ok=True)
    wait = "while ! [ -e %s ]; do sleep 0.02; done"
    makefile.write_text(f"all: a b\na:\n\t{recipe}{wait % flags[0]}; strace -f -qq -o {tmp_path}/trace "
                        f"-e trace=clone,fork,vfork,clone3 {etch} rewrite {rewrite} '{tree}'; touch {flags[1]}\n"
                        f"b:\n\ttouch {flags[0]}; {wait % flags[1]}\n")
    env = {k: v for k, v in os.environ.items() if k not in ("MAKEFLAGS", "MFLAGS", "MAKELEVEL")}
    # By default GNU make 4.4 has a named pipe, which anybody can open.
    pipe = ["--jobserver-style=pipe"] if "--jobserver-style" in run(["make", "--help"]).stdout else []
    run(["make", "-s", *pipe, "-f", makefile, f"-j{jobs}"], env=env)
    return forks(tmp_path / "trace")


@pytest.mark.parametrize("style", ["pipe", "fifo"])
def test_makes_jobserver(tree, etch, tmp_path, style):
    if style == "pipe":
        cpus = os.cpu_count()
        # 3 jobs: one waits, one is etch itself, one is left for a second process.
        assert processes(etch, tree, tmp_path, 3, "+") == min(2, cpus)
        assert processes(etch, tree, tmp_path, 2, "+", "-j8") == 1
        # Not told of it, one process; unless asked for.
        assert processes(etch, tree, tmp_path, 3, "") == 1
        return
    # GNU make 4.4 has a named pipe. Two tokens, and all of them are there again in the end.
    fifo = tmp_path / "fifo"
    os.mkfifo(fifo)
    fd = os.open(fifo, os.O_RDWR | os.O_NONBLOCK)
    os.write(fd, b"ab")
    env = dict(os.environ, MAKEFLAGS=f" -j3 --jobserver-auth=fifo:{tmp_path}/older --jobserver-auth=fifo:{fifo}")
    run(["strace", "-f", "-qq", "-o", tmp_path / "trace", "-e", "trace=clone,fork,vfork,clone3", etch, "rewrite", "-j8", tree], env=env)
    assert forks(tmp_path / "trace") == 3
    assert sorted(os.read(fd, 10)) == sorted(b"ab")
    os.close(fd)


def processes_of(exe):
    found = []
    for p in Path("/proc").iterdir():
        try:
            if p.name.isdigit() and os.path.samefile(p / "exe", exe):
                found.append(p.name)
        except OSError:
            pass
    return found


def test_killed_in_the_middle(tree, etch, tmp_path):
    """Whole files, as they were or done, and no others."""
    mine = shutil.copy(etch, tmp_path / "etch")  # nobody else runs this one
    before = contents(tree)
    done = tmp_path / "done"
    shutil.copytree(tree, done, symlinks=True)
    run([etch, "rewrite", done])
    after = contents(done)
    for delay in (0.005, 0.02, 0.05, 0.1):
        p = subprocess.Popen([mine, "rewrite", "-j2", tree], stderr=subprocess.DEVNULL)
        time.sleep(delay)
        p.send_signal(signal.SIGKILL)
        p.wait()
        deadline = time.monotonic() + 60
        while processes_of(mine) and time.monotonic() < deadline:  # its workers
            time.sleep(0.01)
        now = contents(tree)
        assert set(now) == set(before)
        assert all(now[name] in (before[name], after[name]) for name in now)


def test_more_processes_than_files_may_be_open(etch, tmp_path):
    for i in range(40):
        shutil.copy(os.path.realpath(shutil.which("true")), tmp_path / f"f{i}")
    p = run(["timeout", "60", "sh", "-c", 'ulimit -n 24; exec "$0" rewrite -j64 "$1"', etch, tmp_path])
    assert not p.stderr


@pytest.mark.parametrize("auth", ["fifo:{file}", "0,1"])
def test_what_is_no_jobserver_is_left_alone(tree, etch, tmp_path, auth):
    """A wrong name, or numbers that are by now those of other files."""
    file = tmp_path / "file"
    file.write_text("abcdef")
    env = dict(os.environ, MAKEFLAGS=" -j4 --jobserver-auth=" + auth.format(file=file))
    p = subprocess.run(["sh", "-c", '"$0" rewrite -j4 "$1" && cat', etch, tree], env=env, input=b"ABCDEF", capture_output=True, check=True)
    assert (p.stdout, file.read_text()) == (b"ABCDEF", "abcdef")
