# SPDX-License-Identifier: MIT
"""A single large file is worked on by several threads, unless make counts this program as one job."""
import os
import subprocess

import pytest
from conftest import need, run

LARGE = 33 << 20
FUNCTIONS = 400  # enough for threads to share


@pytest.fixture(scope="module")
def programs(tmp_path_factory):
    """By name: a program of 33 MB, most of which is data, and a small one with the same code."""
    at = tmp_path_factory.mktemp("threads")
    code = ".globl _start\n_start: hlt\n" + "".join(
        f".type f{k},@function\nf{k}: .cfi_startproc\npush %rbx\n.cfi_def_cfa_offset 16\n.cfi_offset %rbx,-16\ncall f{(k * 7 + 1) % FUNCTIONS}\n"
        f"pop %rbx\n.cfi_def_cfa_offset 8\nret\n.cfi_endproc\n.size f{k}, .-f{k}\n" for k in range(FUNCTIONS))
    made = {}
    for name, size in (("large", LARGE), ("small", 8)):
        o = at / f"{name}.o"
        subprocess.run(["as", "-o", o, "-"], input=f"{code}.section .bulk,\"a\"\n.zero {size}\n", text=True, check=True)
        made[name] = at / name
        run(["ld", "-o", made[name], o])
    return made


def threads(etch, tmp_path, path, *words, env=()):
    """Threads that etch starts for a file, beside its first, in all rounds."""
    trace = tmp_path / "trace"
    command = [etch, *words, path] if words[0] == "check" else [etch, *words, "-o", tmp_path / "out", path]
    run(["strace", "-f", "-e", "trace=clone,clone3", "-o", trace, *command], env={**os.environ, "MAKEFLAGS": "", **dict(env)}, ok=None)
    return sum("CLONE_THREAD" in line for line in trace.read_text().splitlines())


@pytest.mark.parametrize("command", [["rewrite"], ["check", "-q", "--fail-on", "never"]], ids=lambda c: c[0])
def test_default(etch, tmp_path, programs, command):
    need("strace")
    several = len(os.sched_getaffinity(0)) > 1
    assert bool(threads(etch, tmp_path, programs["large"], *command)) == several
    assert not threads(etch, tmp_path, programs["small"], *command)
    assert not threads(etch, tmp_path, programs["large"], *command, "-j1")
    # Whether or not make has left its pipe open, it has counted one job.
    assert not threads(etch, tmp_path, programs["large"], *command, env={"MAKEFLAGS": " -j4 --jobserver-auth=-2,-2"})
    fifo = tmp_path / "fifo"
    os.mkfifo(fifo)
    assert not threads(etch, tmp_path, programs["large"], *command, env={"MAKEFLAGS": f" -j4 --jobserver-auth=fifo:{fifo}"})
