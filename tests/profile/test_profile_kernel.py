# SPDX-License-Identifier: MIT
"""etch profile and the kernel: its functions where the system shows them, one frame where not, and what waits for it."""

import os
import re
import resource
import shutil
import subprocess

import pytest

from conftest import last_line, run
from test_profile import folded, leaves

SOURCE = """
#include <fcntl.h>
#include <unistd.h>
static volatile unsigned sink;
static char b[65536];
__attribute__((noinline)) void within(int n) { int f = open("/dev/zero", O_RDONLY); while (n--) sink += read(f, b, sizeof(b)); close(f); }
__attribute__((noinline)) void without(unsigned n) { while (n--) sink += n; }
int main(void) { within(20000); without(200000000); return 0; }
"""


@pytest.fixture(scope="module")
def both(etch, tmp_path_factory):
    p = run([etch, "profile", "-q", "--", "true"], ok=(0, 2))
    if p.returncode:
        pytest.skip(p.stderr.strip())
    out = tmp_path_factory.mktemp("both")
    (out / "a.c").write_text(SOURCE)
    run(["gcc", "-O1", out / "a.c", "-o", out / "a"])
    return out / "a"


def kernel_is_sampled(text):
    return "in the kernel, shown as [kernel]" not in text


def share(found, test):
    return sum(n for frames, n in found if test(frames)) / sum(n for _, n in found)


def test_kernel_functions(etch, both, tmp_path):
    """The kernel's frames are innermost, below the function that made the system call, which is below main."""
    found, text = folded(etch, tmp_path, both)
    if not kernel_is_sampled(text):
        pytest.skip("the system does not let the kernel be sampled")
    inside = [frames for frames, _ in found if frames[-1].endswith("_[k]") and "within" in frames]
    assert inside and "not seen" not in text
    for frames in inside:
        first = next(i for i, name in enumerate(frames) if name.endswith("_[k]"))
        assert all(name.endswith("_[k]") for name in frames[first:]) and "main" in frames[:first], frames
    if open("/proc/sys/kernel/kptr_restrict").read().strip() == "0":
        assert any("read_zero_[k]" in frames or "read_iter_zero_[k]" in frames for frames in inside), inside


def test_the_same_shares_without_kernel_functions(etch, both, tmp_path):
    """One frame has the kernel's time, as getrusage(2) says it: shares add up, and the last line says what is not seen."""
    found, text = folded(etch, tmp_path, both, options=["--no-kernel"])
    last = last_line(text)
    seen = re.match(r"not seen: (\d+) ms in the kernel, shown as \[kernel\]", last)
    assert seen and "100.00%" not in text.partition("samples,")[2], text
    assert "CAP_PERFMON" not in last, "no right is missing: the user asked for this"
    one = [(frames, n) for frames, n in found if frames[-1] == "[kernel]"]
    assert len(one) == 1 and one[0][0] == ["a", "[kernel]"]
    assert one[0][1] == pytest.approx(int(seen.group(1)) * 4, abs=4)  # at 4000 Hz
    assert not any(name.endswith("_[k]") for frames, _ in found for name in frames)
    sampled, other = folded(etch, tmp_path, both)
    if kernel_is_sampled(other):
        assert share(found, lambda f: f[-1] == "[kernel]") == pytest.approx(share(sampled, lambda f: f[-1].endswith("_[k]")), abs=0.2)


@pytest.mark.parametrize("lock", [None, 64 << 10, 0])
def test_a_user_without_rights(etch, both, tmp_path, lock):
    """With kernel.perf_event_paranoid at 2, a user's own programs are profiled, the kernel as one frame. Each processor has
    a buffer, also where the user may lock no memory beyond what perf_event_mlock_kb gives."""
    if os.geteuid() or not shutil.which("setpriv") or open("/proc/sys/kernel/perf_event_paranoid").read().strip() != "2":
        pytest.skip("needs root, setpriv and kernel.perf_event_paranoid at 2")
    room = f"/tmp/etch-user-{os.getpid()}"
    shutil.copytree(both.parent, room)
    os.chmod(room, 0o755)
    shutil.copy(etch, f"{room}/etch")
    try:
        p = subprocess.run(["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", f"{room}/etch", "profile", "--", f"{room}/a"],
                           capture_output=True, text=True, cwd=room, preexec_fn=lambda: lock is None or resource.setrlimit(resource.RLIMIT_MEMLOCK, (lock, lock)))
    finally:
        shutil.rmtree(room)
    assert p.returncode == 0 and re.search(r"^not seen: \d+ ms in the kernel, shown as \[kernel\] \(its functions need CAP_PERFMON", p.stderr, re.M), p.stderr


def test_clock_time(etch, tmp_path, both):
    """--wall: running and waiting in one picture; a thread's time adds up to the clock's."""
    (tmp_path / "a.c").write_text("""
#include <stdio.h>
#include <time.h>
#include <unistd.h>
static volatile unsigned sink;
static double now(void) { struct timespec t; clock_gettime(CLOCK_MONOTONIC, &t); return t.tv_sec * 1e6 + t.tv_nsec / 1e3; }
__attribute__((noinline)) void running(void) { for (unsigned i = 0; i < 300000000; i++) sink += i; }
__attribute__((noinline)) void sleeping(void) { usleep(300000); }
int main(void) { double from = now(); running(); sleeping(); printf("%.0f\\n", now() - from); return 0; }
""")
    run(["gcc", "-O1", tmp_path / "a.c", "-o", tmp_path / "a"])
    out = tmp_path / "folded"
    p = run([etch, "profile", "--wall", "-o", out, "--", tmp_path / "a"], ok=(0, 2))
    if p.returncode:
        assert "CAP_PERFMON" in p.stderr
        pytest.skip(p.stderr)
    found = [(line.rpartition(" ")[0].split(";"), int(line.rpartition(" ")[2])) for line in out.read_text().splitlines()]
    waits = sum(n for f, n in found if "sleeping" in f and f[-1] == "[waiting]")
    assert 290000 < waits < 10 * 290000
    assert sum(n for f, n in found if "running" in f and not f[-1].startswith("[waiting")) > 0
    assert sum(n for f, n in found if "running" in f or "sleeping" in f) == pytest.approx(int(p.stdout), rel=0.1)
    assert {f[-1] for f, _ in found if f[-1].startswith("[")} <= {"[waiting]", "[waiting for a processor]"}


def test_threads_by_number(etch, tmp_path, both):
    """--threads tells threads of one name apart."""
    (tmp_path / "a.c").write_text("""
#include <pthread.h>
static volatile unsigned sink;
static void *spin(void *a) { for (unsigned i = 0; i < 100000000; i++) sink += i; return a; }
int main(void) { pthread_t t; pthread_create(&t, 0, spin, 0); spin(0); pthread_join(t, 0); return 0; }
""")
    run(["gcc", "-O1", "-pthread", tmp_path / "a.c", "-o", tmp_path / "a"])
    found, _ = folded(etch, tmp_path, tmp_path / "a", options=["--threads"])
    roots = {f[0] for f, _ in found if "spin" in f}
    assert len(roots) == 2 and all(re.fullmatch(r"a \(thread \d+\)", r) for r in roots), roots
    assert leaves(found)["spin"]
