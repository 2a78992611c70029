# SPDX-License-Identifier: MIT
"""Programs and profilers that take backtraces by glibc's, libgcc's or libunwind's interface, with libetch-unwind
preloaded and without: the same stacks, address by address."""
import collections
import os
import re
import shutil

import pytest

from conftest import DATA, run

LIB = "/usr/lib/x86_64-linux-gnu"
JEMALLOC, TCMALLOC, HEAPTRACK = f"{LIB}/libjemalloc.so.2", f"{LIB}/libtcmalloc.so.4", "/usr/lib/heaptrack/libheaptrack_preload.so"
PROFILER = f"{LIB}/libprofiler.so.0"


def installed(path):
    if not os.path.exists(path):
        pytest.skip(f"{path} is not installed")
    return path


@pytest.fixture(scope="session")
def consumer(once):
    return once("interfaces-consumer", lambda d: run(
        ["g++", "-O2", "-g", "-rdynamic", "-o", d / "consumer", DATA / "interfaces/consumer.cc"])) / "consumer"


@pytest.fixture(scope="session")
def library(build):
    return str(build / "libetch-unwind.so.0")


def both(library, argv, preload, env, where):
    """Runs with and without the library; yields the directory of each."""
    for name, more in (("without", []), ("with", [library])):
        directory = where / name
        directory.mkdir()
        run(argv, cwd=directory, env={**os.environ, **env, "LD_PRELOAD": ":".join(more + preload)})
        yield directory


class Maps:
    """Addresses as file and offset."""

    def __init__(self, text):
        self.ranges = [(int(a, 16), int(b, 16), int(off, 16), path) for a, b, off, path in
                       re.findall(r"^([0-9a-f]+)-([0-9a-f]+) \S+ ([0-9a-f]+) \S+ \d+ +(/\S+)", text, re.M)]

    def name(self, address):
        for start, end, offset, path in self.ranges:
            if start <= address < end:
                return f"{os.path.basename(path)}+{address - start + offset:x}"
        return "?"


def heap_stacks(path):
    """{stack: what is counted there} of a profile in the format of gperftools or jemalloc."""
    text = path.read_text()
    maps, found = Maps(text), collections.Counter()
    for before, addresses, after in re.findall(r"^(.*)@ ((?:0x[0-9a-f]+ ?)+)\n(  t\*.*)?", text, re.M):
        found[" ".join(maps.name(int(a, 16)) for a in addresses.split()), (before + after).strip()] += 1
    return found


@pytest.mark.parametrize("sample", ["0", "12"])
def test_jemalloc(consumer, library, sample, tmp_path):
    """With libgcc, as Debian builds it. Every allocation; and as it samples by itself."""
    env = {"MALLOC_CONF": f"prof:true,lg_prof_sample:{sample},prof_final:true,prof_prefix:je"}
    a, b = (heap_stacks(next(d.glob("je*.heap"))) for d in both(library, [consumer], [installed(JEMALLOC)], env, tmp_path))
    # dlsym(3) allocates the message for a function that is nowhere (next.c).
    b = collections.Counter({k: n for k, n in b.items() if "libetch-unwind" not in k[0]})
    if sample == "0":
        assert len(a) > 10 and a == b
    else:
        assert a and b


@pytest.mark.parametrize("method", ["libunwind", "libgcc"])
def test_gperftools_heap_profiler(consumer, library, method, tmp_path):
    env = {"HEAPPROFILE": "tc", "TCMALLOC_STACKTRACE_METHOD": method}
    a, b = (heap_stacks(next(d.glob("tc*.heap"))) for d in both(library, [consumer], [installed(TCMALLOC)], env, tmp_path))
    assert len(a) > 20 and a == b


def cpu_samples(path):
    """[(count, stack)] of gperftools' binary format (docs/cpuprofile-fileformat.html): words, then the maps."""
    data = path.read_bytes()
    words = memoryview(data[:len(data) // 8 * 8]).cast("Q")
    at, found = 2 + words[1], []
    while words[at]:
        count, frames = words[at], words[at + 1]
        found.append((count, list(words[at + 2:at + 2 + frames])))
        at += 2 + frames
    maps = Maps(data[8 * (at + 3):].decode(errors="replace"))
    return [(count, [maps.name(a) for a in stack]) for count, stack in found]


@pytest.mark.parametrize("method", ["libunwind", "libgcc"])
def test_gperftools_cpu_profiler(library, method, tmp_path):
    """Samples differ from run to run; every stack ends where the other's do."""
    work = ["perl", "-e", "my $s = 0; for my $i (1 .. 6000000) { $s += sqrt($i) } print $s"]
    env = {"CPUPROFILE": "cpu", "CPUPROFILE_FREQUENCY": "2000", "TCMALLOC_STACKTRACE_METHOD": method}
    ends = []
    for d in both(library, work, [installed(PROFILER)], env, tmp_path):
        samples = cpu_samples(d / "cpu")
        assert sum(count for count, _ in samples) > 20
        ends.append(collections.Counter(stack[-1] for count, stack in samples for _ in range(count)))
    plain, ours = ends
    (end, times), = ours.most_common(1)
    assert times == ours.total() and end == plain.most_common(1)[0][0], ends


def heaptrack_stacks(path):
    """{stack: allocations} of the recorder's own file."""
    modules, tree, found = [], [""], collections.Counter()
    for line in path.read_text().splitlines():
        kind, *f = line.split()
        if kind == "m" and f[0] == "1" and f[1] == "-":
            modules = []
        elif kind == "m":
            segments = [int(x, 16) for x in f[3:]]
            base = int(f[2], 16)
            modules += [(base + a, base + a + n, base, os.path.basename(f[1])) for a, n in zip(segments[::2], segments[1::2])]
        elif kind == "t":
            at = int(f[0], 16)
            name = next((f"{m[3]}+{at - m[2]:x}" for m in modules if m[0] <= at < m[1]), "?")
            tree.append(f"{name} {tree[int(f[1], 16)]}")
        elif kind == "+":
            found[tree[int(f[1], 16)], f[0]] += 1
    return found


def test_heaptrack(consumer, library, tmp_path):
    env = {"DUMP_HEAPTRACK_OUTPUT": "heap"}
    a, b = (heaptrack_stacks(d / "heap") for d in both(library, [consumer], [installed(HEAPTRACK)], env, tmp_path))
    assert len(a) > 20 and a.total() > 800 and a == b


def test_asan_with_the_slow_unwinder(library, tmp_path):
    source, exe = tmp_path / "t.c", tmp_path / "t"
    source.write_text("""#include <stdlib.h>
__attribute__((noinline)) static char *make(int n) { char *p = malloc(n); return p; }
__attribute__((noinline)) static char use(char *p) { return p[3]; }
int main(int c, char **v) { char *p = make(10); free(p); return use(p); }
""")
    run(["gcc", "-g", "-O1", "-fomit-frame-pointer", "-fsanitize=address", "-o", exe, source])
    asan = os.path.realpath(run(["gcc", "-print-file-name=libasan.so"]).stdout.strip())
    env = {**os.environ, "ASAN_OPTIONS": "fast_unwind_on_malloc=0:fast_unwind_on_fatal=0:exitcode=7"}
    reports = [re.findall(r"#\d+ 0x[0-9a-f]+ (.*)", run([exe], env={**env, **more}, ok=7).stderr)
               for more in ({}, {"LD_PRELOAD": f"{asan}:{library}"})]
    assert len(reports[0]) > 10 and reports[0] == reports[1]


def lines(text):
    """Frames without the addresses and the thread ids that are other ones in each run."""
    return re.sub(r"\b0x[0-9a-fA-F]+|' \(\d+\) ", "0x", text).splitlines()


def test_backtrace_symbols_in_a_crash_handler(consumer, library):
    plain, ours = (lines(run([consumer, "crash"], env={**os.environ, **more}).stdout) for more in ({}, {"LD_PRELOAD": library}))
    assert len(plain) > 5 and any("main" in x for x in plain) and plain == ours


def test_boost_stacktrace(library, tmp_path):
    installed("/usr/include/boost/stacktrace.hpp")
    exe = tmp_path / "boost"
    run(["g++", "-O2", "-rdynamic", "-DBOOST", "-o", exe, DATA / "interfaces/consumer.cc", "-ldl"])
    plain, ours = (lines(run([exe, "boost"], env={**os.environ, **more}).stdout) for more in ({}, {"LD_PRELOAD": library}))
    assert len(plain) >= 4 and plain == ours


def test_rust(library, tmp_path):
    """std::backtrace, and the backtrace of a panic in another thread and of one that is caught."""
    if not shutil.which("rustc"):
        pytest.skip("rustc is not installed")
    source, exe = tmp_path / "t.rs", tmp_path / "t"
    source.write_text("""
#[inline(never)] fn deep(n: u32) -> u32 { if n == 0 { eprintln!("{}", std::backtrace::Backtrace::force_capture()); 1 } else { deep(n - 1) + 1 } }
fn main() {
    deep(5);
    let _ = std::thread::spawn(|| { deep(2); panic!("in a thread") }).join();
    println!("{}", std::panic::catch_unwind(|| { let v: Vec<u32> = vec![]; v[std::env::args().count()] }).is_err());
}
""")
    run(["rustc", "-g", "-O", "-o", exe, source], cwd=tmp_path)
    env = {**os.environ, "RUST_BACKTRACE": "full"}
    plain, ours = (run([exe], env={**env, **more}) for more in ({}, {"LD_PRELOAD": library}))
    assert plain.stdout == ours.stdout == "true\n"
    assert len(plain.stderr.splitlines()) > 60 and lines(plain.stderr) == lines(ours.stderr)
