# SPDX-License-Identifier: MIT
"""etch profile: where a program's time goes, by programs whose answer is known (tests/data/profile/burn.c)."""

import collections
import gzip
import json
import os
import re
import shutil
import signal
import socket
import subprocess
import time
import xml.etree.ElementTree as ET
from collections import Counter
from pathlib import Path

import pytest

from conftest import DATA, TIMEOUT, need, run
from flame_browser import browser, drive
from pprof_reader import read_pprof

BURN = DATA / "profile" / "burn.c"
HZ = "4000"


@pytest.fixture(scope="module")
def sampled(etch):
    """Skips where the kernel samples for nobody."""
    p = run([etch, "profile", "-q", "--", "true"], ok=(0, 2))
    if p.returncode:
        pytest.skip(p.stderr.strip())


@pytest.fixture(scope="module")
def burn(tmp_path_factory, sampled):
    out = tmp_path_factory.mktemp("burn") / "burn"
    run(["gcc", "-O1", "-pthread", BURN, "-o", out])
    return out


def stacks(text):
    """Folded stacks: [(frames, count)]."""
    lines = [line.rpartition(" ") for line in text.splitlines()]
    return [(names.split(";"), int(count)) for names, _, count in lines]


def folded(etch, tmp_path, *argv, options=(), ok=0):
    """The stacks of a command, and the last lines of the table."""
    out = tmp_path / "folded"
    p = run([etch, "profile", "-F", HZ, "-o", out, *options, "--", *argv], ok=ok)
    return stacks(out.read_text()), p.stderr


def leaves(found):
    count = Counter()
    for frames, n in found:
        count[frames[-1]] += n
    return count


def processor_time(pid):
    """What a process has had outside of the kernel, in seconds."""
    return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[11]) / os.sysconf("SC_CLK_TCK")


def check_shares(found):
    """hot() above warm() above cool(), and little else."""
    count = leaves(found)
    assert count["hot"] > count["warm"] > count["cool"] > 0, count
    assert sum(count[f] for f in ("hot", "warm", "cool")) > 0.8 * sum(count.values()), count


def test_a_stack_with_a_page_that_was_never_used(etch, tmp_path, sampled):
    """The kernel copies no page that is not in memory. A function with a large array that it does not write has such pages."""
    (tmp_path / "a.c").write_text("""
static volatile unsigned sink;
__attribute__((noinline)) static void busy(void) { for (unsigned n = 0; n < 100000000; n++) sink += n; }
__attribute__((noinline)) static void wide(void) { char unused[24000]; __asm__("" : : "r"(unused) : "memory"); busy(); sink++; }
int main(void) { wide(); }
""")
    run(["gcc", "-O1", "-o", tmp_path / "a", tmp_path / "a.c"])
    found, text = folded(etch, tmp_path, tmp_path / "a")
    reason = "the kernel's copy of the stack ends at a page that the program has not used yet"
    assert re.search(rf"incomplete: {reason}$", text, re.M) and "out of order" not in text, text
    assert any(f"[{reason}];wide;busy" in ";".join(frames) for frames, _ in found), found


@pytest.mark.parametrize("flags", [[], ["-fomit-frame-pointer", "-O2"], ["-static"], ["-no-pie"]], ids=str)
def test_shares_and_chains(etch, tmp_path, sampled, flags):
    run(["gcc", "-O1", *flags, "-pthread", BURN, "-o", tmp_path / "burn"])
    found, table = folded(etch, tmp_path, tmp_path / "burn", "0.3")
    check_shares(found)
    for frames, _ in found:
        assert frames[0] in ("burn", "etch"), frames  # the name of the thread
        if frames[-1] in ("hot", "warm", "cool"):
            assert frames[-2] == "middle" and frames[-3] == "outer" and "main" in frames, frames
            assert frames[1] == "_start" or frames[1].startswith("[burn+0x"), frames
    assert re.search(r"\d+ samples, (?:99\.[5-9]\d|100\.00)% with a complete stack; 0 lost\n", table), table
    assert re.match(r"   self   total  function\n +\d+\.\d\d% +\d+\.\d\d%  hot  burn\n", table), table


def test_no_sample_says_why(etch, sampled):
    """A command that is too short, a process that waits, waits of a command without any."""
    short = run([etch, "profile", "-F", "1", "--no-kernel", "--", "true"]).stderr
    assert re.match(r"0 samples: the command ran for \d+\.\d ms outside the kernel, and one is taken every 1000 ms: "
                        r"run it for longer, or use a higher -F \(\d+\.\d ms in the kernel are not sampled\)\n", short)
    short = run([etch, "profile", "-F", "1", "--", "true"]).stderr
    assert re.match(r"0 samples: the command ran for \d+\.\d ms(?: outside the kernel)?, and one is taken every 1000 ms: .*\n", short)
    with subprocess.Popen(["sleep", "60"]) as p:
        while not Path(f"/proc/{p.pid}/syscall").read_text().startswith("230 "):  # clock_nanosleep: it waits
            time.sleep(0.01)
        waits = run([etch, "profile", "--no-kernel", "-p", p.pid, "--duration", "0.05"]).stderr
        p.kill()
    assert waits.startswith("0 samples: the process did not run outside the kernel meanwhile (where does it wait? --off-cpu)\n")


def test_threads(etch, burn, tmp_path):
    found, _ = folded(etch, tmp_path, burn, "0.2", "threads")
    workers = [(f, n) for f, n in found if f[0] == "worker"]
    check_shares(workers)
    assert sum(n for _, n in workers) > 0.9 * sum(n for _, n in found)
    assert all("main" not in f and f[-4] == "all" for f, _ in workers if f[-1] == "hot")


@pytest.mark.parametrize("how", ["fork", "exec"])
def test_children(etch, burn, tmp_path, how):
    other = tmp_path / "burned"
    shutil.copy(burn, other)
    found, _ = folded(etch, tmp_path, burn, "0.2", how, other)
    check_shares(found)
    name = {"fork": "burn", "exec": "burned"}[how]
    assert sum(n for f, n in found if f[0] == name) > 0.8 * sum(n for _, n in found)
    found, _ = folded(etch, tmp_path, burn, "0.2", how, other, options=["--no-follow"])
    assert not leaves(found)["hot"]


def test_a_shell_and_its_commands(etch, burn, tmp_path):
    found, _ = folded(etch, tmp_path, "sh", "-c", f"{burn} 0.1; {burn} 0.1 threads; true")
    assert {f[0] for f, _ in found} >= {"burn", "worker"}
    check_shares([(f, n) for f, n in found if f[0] in ("burn", "worker")])


def test_stripped(etch, burn, tmp_path):
    """Functions without a symbol are named by the file and where they begin."""
    shutil.copy(burn, tmp_path / "bare")
    run(["strip", tmp_path / "bare"])
    symbols = {line.split()[2]: int(line.split()[0], 16) for line in run(["nm", burn]).stdout.splitlines() if len(line.split()) == 3}
    found, _ = folded(etch, tmp_path, tmp_path / "bare", "0.3")
    count = leaves(found)
    hot, warm, cool = (count[f"[bare+0x{symbols[name]:x}]"] for name in ("hot", "warm", "cool"))
    assert hot > warm > cool > 0
    assert not any(re.search("hot|warm|cool|middle", name) for frames, _ in found for name in frames)


@pytest.mark.parametrize("known_by", ["build-id", "checksum"])
def test_debug_file(etch, sampled, tmp_path, known_by):
    """... or by the debug file that .gnu_debuglink names, if it is the one."""
    program, debug, bare = (tmp_path / name for name in ("burn", "bare.debug", "bare"))
    run(["gcc", "-O1", "-pthread", BURN, "-o", program, "-Wl,--build-id=" + ("sha1" if known_by == "build-id" else "none")])
    run(["objcopy", "--only-keep-debug", program, debug])
    run(["objcopy", "--strip-all", f"--add-gnu-debuglink={debug}", program, bare])
    check_shares(folded(etch, tmp_path, bare, "0.3")[0])
    if known_by == "checksum":
        debug.write_bytes(debug.read_bytes() + b"\n")
        assert not leaves(folded(etch, tmp_path, bare, "0.1")[0])["hot"]


def test_a_container(etch, burn, tmp_path):
    """Another root, other processes' and mounts' namespaces: the container's file, though another has its path here."""
    need("unshare")
    root = tmp_path / "root"
    inside, here = root / str(burn)[1:], tmp_path / "burn"
    for file in [burn, *re.findall(r"(/\S+) \(0x", run(["ldd", burn]).stdout)]:
        (root / str(file)[1:]).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(os.path.realpath(file), root / str(file)[1:])
    inside.rename(root / "burn")
    (root / str(here)[1:]).parent.mkdir(parents=True, exist_ok=True)
    (root / "burn").rename(root / str(here)[1:])
    run(["gcc", "-O1", "-x", "c", "-", "-o", here], input="int outside(void); int outside(void) { return 1; } int main(void) { return outside(); }")
    into = ["unshare", "--map-root-user", "--mount", "--pid", "--fork", "chroot", root]
    if subprocess.run([*into, here, "0.01"], capture_output=True).returncode:
        pytest.skip("no namespaces")
    found, _ = folded(etch, tmp_path, *into, here, "0.3")
    check_shares([(frames, n) for frames, n in found if "main" in frames or "middle" in frames])
    assert "outside" not in str(found)


def test_a_symbol_table_within(etch, burn, tmp_path):
    """... or by .gnu_debugdata, an ELF file with symbols, compressed (gdb's MiniDebugInfo)."""
    need("xz")
    run(["objcopy", "--only-keep-debug", burn, tmp_path / "symbols"])
    run(["xz", tmp_path / "symbols"])
    run(["objcopy", "--strip-all", f"--add-section=.gnu_debugdata={tmp_path / 'symbols.xz'}", burn, tmp_path / "bare"])
    assert "hot" not in run(["nm", tmp_path / "bare"], ok=(0, 1)).stdout
    check_shares(folded(etch, tmp_path, tmp_path / "bare", "0.3")[0])


@pytest.mark.parametrize("cc", ["gcc", "clang"])
def test_inlined(etch, tmp_path, sampled, cc):
    """DWARF's inlined functions are frames."""
    need(cc)
    run([cc, "-O2", "-g", "-pthread", BURN, "-o", tmp_path / "burn"])
    found, _ = folded(etch, tmp_path, tmp_path / "burn", "0.2")
    inside = [f for f, _ in found if f[-1] == "work"]
    assert {f[-2] for f in inside} >= {"hot", "warm", "cool"}


def test_demangled(etch, tmp_path, sampled):
    (tmp_path / "a.cc").write_text("""
namespace space { template <typename T> struct box { __attribute__((noinline)) T spin(T n) {
  volatile T sum = 0; for (T i = 0; i < n; i++) sum = sum + i; return sum; } }; }
int main() { space::box<long> b; return b.spin(100000000) == 1; }
""")
    run(["g++", "-O1", tmp_path / "a.cc", "-o", tmp_path / "a"])
    found, _ = folded(etch, tmp_path, tmp_path / "a")
    assert leaves(found).most_common(1)[0][0] == "space::box<long>::spin"


def test_musl(etch, tmp_path, sampled):
    need("musl-gcc")
    run(["musl-gcc", "-O1", "-static", BURN, "-o", tmp_path / "burn"])
    found, _ = folded(etch, tmp_path, tmp_path / "burn", "0.3")
    check_shares(found)
    assert all("main" in f for f, _ in found if f[-1] == "hot")


INLINED = {"first.cc": """
static volatile unsigned sink;
static inline __attribute__((always_inline)) void innermost(unsigned n) { while (n--) sink += n; }
static inline __attribute__((always_inline)) void middle(unsigned n) { innermost(n); }
__attribute__((noinline)) void outer(unsigned n) { middle(n); sink++; }
""", "second.cc": """
#include <map>
#include <regex>
void outer(unsigned);
void inlined_elsewhere(unsigned);
int main(int, char **argv) { std::map<int, std::string> m; std::regex r(argv[0][0] ? "a" : "b"); outer(300000000); inlined_elsewhere(300000000); return (int)m.size(); }
""", "third.cc": """
#include <functional>
static volatile unsigned sink;
static inline __attribute__((always_inline)) void third_innermost(unsigned n) { while (n--) sink += n; }
__attribute__((noinline)) void inlined_elsewhere(unsigned n) { third_innermost(n); sink++; }
"""}


@pytest.mark.parametrize("flags", [["-gz=none"], ["-gz=zlib"], ["-gz=zlib", "-flto"], ["-gz=zlib", "-fno-eliminate-unused-debug-types", "-ffunction-sections"]], ids=str)
def test_inlined_functions_in_compressed_dwarf(etch, tmp_path, sampled, flags):
    """Of a compressed .debug_info only the units that have samples are expanded, or all of them if one refers to others."""
    for name, text in INLINED.items():
        (tmp_path / name).write_text(text)
    run(["g++", "-g", "-O1", *flags, *INLINED, "-o", "a"], cwd=tmp_path)
    found, _ = folded(etch, tmp_path, tmp_path / "a")
    chains = collections.Counter()
    for frames, n in found:
        chains[tuple(f for f in frames if not f.endswith("_[k]"))[-4:]] += n
    assert any(c == ("main", "outer", "middle", "innermost") for c in chains), chains
    assert any(c[-3:] == ("main", "inlined_elsewhere", "third_innermost") for c in chains), chains


def test_a_file_without_symbols(etch, burn, tmp_path, sampled):
    run(["strip", "-o", tmp_path / "bare", burn])
    line = r"\d+ samples are in functions of bare that no symbol names: a debug file would"
    assert re.search(line, run([etch, "profile", tmp_path / "bare", "0.3"]).stderr)
    assert "no symbol names" not in run([etch, "profile", burn, "0.3"]).stderr


def test_rust(etch, tmp_path, sampled):
    if not shutil.which("rustc"):
        pytest.skip("rustc is not installed, and not needed to build etch")
    (tmp_path / "a.rs").write_text("""
#[inline(never)] fn spin(n: u64) -> u64 { let mut s = 0u64; for i in 0..n { s = std::hint::black_box(s ^ i); } s }
fn main() { std::process::exit((spin(100_000_000) == 1) as i32); }
""")
    run(["rustc", "-O", tmp_path / "a.rs", "-o", tmp_path / "a"])
    found, _ = folded(etch, tmp_path, tmp_path / "a")
    assert leaves(found).most_common(1)[0][0] == "a::spin"


@pytest.mark.parametrize("flags", ["", "-s -w"], ids=["symbols", "stripped"])
def test_go(etch, go, tmp_path, sampled, flags):
    """Go's linker writes no .eh_frame: the code is analysed, and where symbols are gone its own table has the names."""
    (tmp_path / "go.mod").write_text("module a\ngo 1.20\n")
    (tmp_path / "main.go").write_text("""package main
import "os"
//go:noinline
func spin(n int) int { s := 1; for i := 0; i < n; i++ { s = s*3 + i }; return s }
//go:noinline
func outer(n int) int { return spin(n) + 1 }
func main() { if outer(400000000) == 1 { os.Exit(1) } }
""")
    go("build", f"-ldflags={flags}", "-o", tmp_path / "a", ".", cwd=tmp_path, GOFLAGS="-mod=mod")
    found, table = folded(etch, tmp_path, tmp_path / "a")
    assert leaves(found).most_common(1)[0][0] == "main.spin"
    chains = {tuple(f[1:]) for f, _ in found if f[-1] == "main.spin"}
    assert ("runtime.goexit.abi0", "runtime.main", "main.main", "main.outer", "main.spin") in chains or \
        ("runtime.goexit", "runtime.main", "main.main", "main.outer", "main.spin") in chains, chains


def test_go_on_another_stack(etch, go, tmp_path, sampled):
    """Go's runtime collects garbage on a stack of its own, above or below the goroutine's, which the kernel does not copy.
    All such stacks have this reason, and no other one."""
    (tmp_path / "go.mod").write_text("module a\ngo 1.20\n")
    (tmp_path / "main.go").write_text("""package main
import ("os"; "fmt")
type node struct { left, right *node }
func tree(n int) *node { if n == 0 { return &node{} }; return &node{tree(n - 1), tree(n - 1)} }
func main() { keep := tree(18); for i := 0; i < 60; i++ { tree(14) }; if keep.left == nil { fmt.Println(1); os.Exit(1) } }
""")
    go("build", "-o", tmp_path / "a", ".", cwd=tmp_path, GOFLAGS="-mod=mod")
    found, table = folded(etch, tmp_path, tmp_path / "a")
    switched = sum(n for f, n in found if any(name.startswith("runtime.systemstack") for name in f[:3]))
    assert switched > 5
    assert re.search(r"\d+ stacks are incomplete: the caller's frame is on another stack, which is not copied", table), table
    assert "frames out of order" not in table and "deeper than its copy" not in table, table


def test_code_made_at_run_time(etch, tmp_path, sampled):
    """A JIT's map file has the names; without it nothing is guessed."""
    (tmp_path / "jit.c").write_text(r"""
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>
int main(int argc, char **argv)
{
	/* mov $300000000, %ecx; 1: dec %ecx; jne 1b; ret */
	static const unsigned char code[] = {0xb9, 0x00, 0xa3, 0xe1, 0x11, 0xff, 0xc9, 0x75, 0xfc, 0xc3};
	unsigned char *p = mmap(0, 4096, 7, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	char path[64];
	memcpy(p, code, sizeof(code));
	if (argc > 1) {
		snprintf(path, sizeof(path), "/tmp/perf-%d.map", getpid());
		FILE *f = fopen(path, "w");
		fprintf(f, "%lx %lx LazyCompile:~spin;one\n", (long)p, (long)sizeof(code));
		fclose(f);
		puts(path);
	}
	fflush(stdout);
	((void (*)(void))p)();
	return 0;
}
""")
    run(["gcc", tmp_path / "jit.c", "-o", tmp_path / "jit"])
    out = tmp_path / "folded"
    p = run([etch, "profile", "-o", out, "--", tmp_path / "jit", "map"])
    os.unlink(p.stdout.strip())
    assert leaves(stacks(out.read_text())).most_common(1)[0][0] == "LazyCompile:~spin:one"
    assert re.search(r"\d+ stacks are incomplete: code made at run time has no table", p.stderr)
    found, _ = folded(etch, tmp_path, tmp_path / "jit")
    assert leaves(found).most_common(1)[0][0] == "[code made at run time]"
    assert ["jit", "[code made at run time has no table]", "[code made at run time]"] in [f for f, _ in found]


def test_frame_pointers_through_code_made_at_run_time(etch, tmp_path, sampled):
    """With --frame-pointers such code is walked by rbp, in both directions of its edge, and the walk says so."""
    (tmp_path / "jit.c").write_text(r"""
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>
static unsigned char *p;
__attribute__((noinline)) static int enter(void) { ((void (*)(void))p)(); return *(volatile unsigned char *)p; }
__attribute__((noinline)) int inside(void) { volatile unsigned n = 100000000; while (--n) ; return 1; }
int main(void)
{
	/* push %rbp; mov %rsp,%rbp; call 1f; call inside; pop %rbp; ret; 1: push %rbp; mov %rsp,%rbp; loop; pop %rbp; ret */
	unsigned char code[64] = {0x55, 0x48, 0x89, 0xe5, 0xe8, 39, 0, 0, 0, 0x48, 0xb8, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xd0, 0x5d, 0xc3};
	static const unsigned char loop[] = {0x55, 0x48, 0x89, 0xe5, 0xb9, 0x00, 0xa3, 0xe1, 0x11, 0xff, 0xc9, 0x75, 0xfc, 0x5d, 0xc3};
	int (*to)(void) = inside;
	char path[64];
	memcpy(code + 11, &to, 8);
	memcpy(code + 48, loop, sizeof(loop));
	p = mmap(0, 4096, 7, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	memcpy(p, code, sizeof(code));
	snprintf(path, sizeof(path), "/tmp/perf-%d.map", getpid());
	FILE *f = fopen(path, "w");
	fprintf(f, "%lx 17 around\n%lx f within\n", (long)p, (long)p + 48);
	fclose(f);
	puts(path);
	fflush(stdout);
	return enter() == 0;
}
""")
    run(["gcc", "-O2", tmp_path / "jit.c", "-o", tmp_path / "jit"])
    seen = {}
    for options in ([], ["--frame-pointers"]):
        out = tmp_path / "folded"
        p = run([etch, "profile", *options, "-o", out, "--", tmp_path / "jit"])
        os.unlink(p.stdout.strip())
        seen[len(options)] = stacks(out.read_text()), p.stderr
    found, table = seen[0]
    assert "code made at run time has no table (try --frame-pointers)" in table and "a guess" not in table
    assert not any("main" in f for f, _ in found if f[-1] in ("within", "inside"))
    found, table = seen[1]
    count = Counter()
    for f, n in found:
        if f[-1] in ("within", "inside"):
            count[tuple(f[f.index("main"):] if "main" in f else f)] += n
    assert len(count) <= 4 and {("main", "enter", "around", "within"), ("main", "enter", "around", "inside")} == {c for c, _ in count.most_common(2)}, count
    assert re.search(r"\d+ stacks are found by frame pointers in part, which is a guess", table), table


def test_deep_stacks_are_marked(etch, tmp_path, sampled):
    """A stack of 42 KB is whole by default, and cut where less is copied."""
    (tmp_path / "deep.c").write_text("""
volatile unsigned long sink;
__attribute__((noinline)) void spin(void) { for (long i = 0; i < 200000000; i++) sink = i; }
__attribute__((noinline)) void deep(int n) { volatile char space[1000]; space[0] = 1; if (n) deep(n - 1); else spin(); sink += space[0]; }
int main(void) { deep(40); }
""")
    run(["gcc", "-O1", "-fno-optimize-sibling-calls", tmp_path / "deep.c", "-o", tmp_path / "deep"])
    found, table = folded(etch, tmp_path, tmp_path / "deep", options=["--stack", "8192"])
    cut = [f for f, _ in found if f[-1] == "spin"]
    assert cut and all(f[1] == "[the stack is deeper than its copy]" and "main" not in f for f in cut)
    assert re.search(r"\d+ stacks are incomplete: the stack is deeper than its copy \(use a larger --stack\)", table)
    found, _ = folded(etch, tmp_path, tmp_path / "deep", options=["-F", "1000"] if not os.geteuid() else ["--stack", "65000"])
    whole = [f for f, _ in found if f[-1] == "spin"]
    assert whole and all("main" in f and f[1:].count("deep") == 41 for f in whole)


def test_a_running_process(etch, burn, tmp_path):
    p = subprocess.Popen([burn, "30", "threads"])
    try:
        out = tmp_path / "folded"
        run([etch, "profile", "-o", out, "-F", HZ, "-p", p.pid, "--duration", "0.5"])
        assert p.poll() is None
    finally:
        p.kill()
        p.wait()
    check_shares(stacks(out.read_text()))


def test_interrupted(etch, burn, tmp_path):
    """After ^C there is a profile, and etch ends by the signal."""
    out = tmp_path / "folded"
    p = subprocess.Popen([etch, "profile", "-F", HZ, "-o", out, "--", burn, "30"], start_new_session=True, stderr=subprocess.PIPE)
    children = Path(f"/proc/{p.pid}/task/{p.pid}/children")
    while not any(processor_time(child) > 0.3 for child in children.read_text().split()):
        assert p.poll() is None
        time.sleep(0.01)
    os.killpg(p.pid, signal.SIGINT)
    p.communicate(timeout=60)
    assert p.returncode == -signal.SIGINT
    check_shares(stacks(out.read_text()))


def test_off_cpu(etch, tmp_path, sampled):
    """A sleep of 0.4 s and one of 0.1 s, by who called them, in microseconds: as the program's own clocks have them. On a
    busy machine it waits for a processor, too, and it may be stopped on the way to sleep."""
    (tmp_path / "a.c").write_text("""
#include <stdio.h>
#include <time.h>
#include <unistd.h>
static long now(clockid_t clock) { struct timespec t; clock_gettime(clock, &t); return t.tv_sec * 1000000 + t.tv_nsec / 1000; }
static long waited(void) { return now(CLOCK_MONOTONIC) - now(CLOCK_THREAD_CPUTIME_ID); }
__attribute__((noinline)) long longer(void) { long from = waited(); usleep(400000); return waited() - from; }
__attribute__((noinline)) long shorter(void) { long from = waited(); usleep(100000); return waited() - from; }
int main(void) { long a = longer(), b = shorter(); return printf("%ld %ld\\n", a, b) < 0; }
""")
    run(["gcc", "-O1", tmp_path / "a.c", "-o", tmp_path / "a"])
    out = tmp_path / "folded"
    begin = time.monotonic()
    p = run([etch, "profile", "--off-cpu", "-o", out, "--", tmp_path / "a"], ok=(0, 2))
    elapsed = (time.monotonic() - begin) * 1000000
    if p.returncode:
        assert "CAP_PERFMON" in p.stderr
        pytest.skip(p.stderr)
    found = stacks(out.read_text())
    for name, waited in zip(("longer", "shorter"), map(int, p.stdout.split()), strict=True):
        assert waited / 2 <= sum(n for f, n in found if name in f) <= elapsed, (name, waited, elapsed, found)
    assert all("main" in f for f, _ in found if "longer" in f)


# ---- formats ---------------------------------------------------------------------------------


def test_pprof(etch, burn, tmp_path):
    out = tmp_path / "a.pb.gz"
    table = run([etch, "profile", "-F", HZ, "-o", out, "--", burn, "0.3"]).stderr
    profile = read_pprof(gzip.decompress(out.read_bytes()))
    assert profile.types == [("samples", "count"), ("cpu", "nanoseconds")] and profile.period == 250000
    count = sum(s.values[0] for s in profile.samples)
    assert count == int(re.search(r"(\d+) samples", table).group(1))
    assert sum(s.values[1] for s in profile.samples) == count * 250000
    check_shares([(s.names[::-1], s.values[0]) for s in profile.samples])
    for s in profile.samples:
        if s.names[0] == "hot":
            assert s.names[1:3] == ["middle", "outer"] and s.labels == {"thread": "burn"}
            assert s.mappings[0] == (str(burn), run(["readelf", "-n", burn]).stdout.partition("Build ID: ")[2].split()[0])


@pytest.mark.long  # Go compiles its pprof first
def test_go_reads_pprof(etch, burn, go, tmp_path):
    out = tmp_path / "a.pb.gz"
    run([etch, "profile", "-F", HZ, "-o", out, "--", burn, "0.3"])
    text = go("tool", "pprof", "-sample_index=samples", "-top", out).stdout
    assert re.findall(r"^ +\d+ .* (\w+)$", text, re.M)[:3] == ["hot", "warm", "cool"]


def test_firefox(etch, burn, tmp_path):
    out = tmp_path / "a.json"
    table = run([etch, "profile", "-F", HZ, "-o", out, "--", burn, "0.2", "threads"]).stderr
    profile = json.loads(out.read_text())
    assert profile["meta"]["preprocessedProfileVersion"] == 44 and profile["meta"]["interval"] == 0.25
    found, total = [], 0
    for thread in profile["threads"]:
        for name in ("samples", "stackTable", "frameTable", "funcTable", "markers", "resourceTable", "nativeSymbols"):
            table_of = thread[name]
            assert {len(v) for v in table_of.values() if isinstance(v, list)} == {table_of["length"]}, name
        stack, frame, func = thread["stackTable"], thread["frameTable"], thread["funcTable"]
        for at, weight in zip(thread["samples"]["stack"], thread["samples"]["weight"], strict=True):
            names = []
            while at is not None:
                assert stack["prefix"][at] is None or stack["prefix"][at] < at
                names.insert(0, thread["stringArray"][func["name"][frame["func"][stack["frame"][at]]]])
                at = stack["prefix"][at]
            found.append((names, weight))
            total += weight
        assert thread["samples"]["time"] == sorted(thread["samples"]["time"])
        assert set(thread["samples"]["threadCPUDelta"]) == {250000}  # ns: a track shows how much of a processor a thread used
    check_shares(found)
    assert profile["meta"]["sampleUnits"]["threadCPUDelta"] == "ns"
    assert total == int(re.search(r"(\d+) samples", table).group(1))
    assert [t["name"] for t in profile["threads"]].count("worker") == 2


@pytest.fixture(scope="module")
def profiler_cli(tmp_path_factory):
    """The Firefox profiler's own reader, as Mozilla publishes it for the command line."""
    if not shutil.which("node") or not shutil.which("npm"):
        pytest.skip("node and npm are not installed")
    folder = tmp_path_factory.mktemp("cli")
    p = run(["npm", "install", "--silent", "--no-audit", "--no-fund", "--prefix", folder, "@firefox-devtools/profiler-cli"], ok=None)
    if p.returncode:
        pytest.skip(f"npm: {p.stderr.strip()[-200:]}")
    return folder / "node_modules" / "@firefox-devtools" / "profiler-cli" / "dist" / "profiler-cli.js"


def test_the_firefox_profiler_reads_it(etch, burn, tmp_path, profiler_cli):
    """It brings the file up to its own version, and counts the same.

    Its command `load` starts a daemon and waits half a second for it; a command that finds the daemon's socket closed, or
    gets no answer in a second, gives the session up. So the daemon is started here, as its help says, and asked when it
    listens, again if a command was too slow for its own clock."""
    out, sessions = tmp_path / "a.json", tmp_path / "s"
    table = run([etch, "profile", "-F", HZ, "-o", out, "--", burn, "0.3"]).stderr
    env = {**os.environ, "HOME": str(tmp_path), "PROFILER_CLI_SESSION_DIR": str(sessions)}
    deadline = time.monotonic() + TIMEOUT

    def listens():
        try:
            with socket.socket(socket.AF_UNIX) as s:
                s.connect(json.loads((sessions / "s.json").read_text())["socketPath"])
            return True
        except (OSError, ValueError):
            return False

    def functions_of():
        p = run(["node", profiler_cli, "thread", "functions", "--json", "--limit", "0", "--session", "s"], env=env, ok=None)
        return None if p.returncode else json.loads(p.stdout)["functions"]

    with open(tmp_path / "log", "w") as log, subprocess.Popen(
            ["node", profiler_cli, "--daemon", out, "--session", "s"], env=env, stdout=log, stderr=log) as daemon:
        try:
            for ask in (listens, functions_of):
                while not (functions := ask()):
                    assert daemon.poll() is None and time.monotonic() < deadline, (tmp_path / "log").read_text()
                    time.sleep(0.05)
        finally:
            daemon.kill()
    count = Counter({f["name"]: f["selfSamples"] for f in functions})
    assert [name for name, _ in count.most_common(3)] == ["hot", "warm", "cool"]
    assert sum(count.values()) == int(re.search(r"(\d+) samples", table).group(1))
    total = {f["name"]: f["totalSamples"] for f in functions}
    assert total["middle"] >= count["hot"] + count["warm"] + count["cool"]


SVG = "{http://www.w3.org/2000/svg}"


def boxes(svg):
    """(name, x, y, width) of each frame."""
    for g in svg.iter(SVG + "g"):
        r = g.find(SVG + "rect")
        yield g.find(SVG + "title").text.split("\n")[0], float(r.get("x")), float(r.get("y")), float(r.get("width"))


@pytest.fixture(scope="module")
def picture(etch, burn, tmp_path_factory):
    out = tmp_path_factory.mktemp("svg") / "a.svg"
    run([etch, "profile", "-F", HZ, "-o", out, "--", burn, "0.3"])
    return out


def fetches(svg):
    """What the picture would load from elsewhere: attributes, rules of style and calls of the script. Names of functions and
    files are text and may hold any word, so they are not looked at."""
    found = [name for e in svg.iter() for name in e.attrib if re.search(r"href|src", name, re.I)]
    for e in svg.iter():
        found += [v for v in e.attrib.values() if "url(" in v]
        if e.tag == SVG + "style":
            found += re.findall(r"url\(|@import", e.text)
        if e.tag == SVG + "script" and e.get("type") != "application/json":
            found += re.findall(r"\bfetch\(|XMLHttpRequest|\bimport\b|\.(?:src|href)\b|url\(", e.text)
    return found


def test_svg_fetches_nothing_by_a_name(picture):
    """The check finds a reference in each place that can hold one, and none in a name."""
    svg = ET.fromstring(picture.read_text())
    title = next(svg.iter(SVG + "title"))
    title.text = "copy_src(href, url(a))\n" + title.text
    assert not fetches(svg)
    ET.SubElement(svg, SVG + "image", {"{http://www.w3.org/1999/xlink}href": "a.png"})
    ET.SubElement(svg, SVG + "rect", {"fill": "url(#a)"})
    ET.SubElement(svg, SVG + "style").text = "@import 'a.css';"
    ET.SubElement(svg, SVG + "script").text = "fetch('a')"
    assert len(fetches(svg)) == 4


def test_svg(picture):
    """Each frame lies below its caller and inside of it; nothing is taken from elsewhere."""
    text = picture.read_text()
    svg = ET.fromstring(text)
    assert not fetches(svg)
    assert set(re.findall(r"https?://[^\s\"']*", text)) == {"http://www.w3.org/2000/svg"}
    found = list(boxes(svg))
    width = {name: w for name, _, _, w in found if name in ("all", "hot", "warm", "cool")}
    assert width["hot"] > width["warm"] > width["cool"] and max(width.values()) == width["all"]
    top = min(y for _, _, y, _ in found)
    for _, x, y, w in found:
        if y != top:
            assert any(abs(y - y2 - 17) < 0.01 and x2 <= x + 0.01 and x2 + w2 >= x + w - 0.01 for _, x2, y2, w2 in found)


def test_svg_in_a_browser(picture, tmp_path):
    """A click zooms, a search marks, a reset goes back; the console stays empty."""
    script = """
var steps = [], g = function (name) { return [...document.querySelectorAll('g.f')].find(f => f.textContent.startsWith(name + '\\n')); };
var wide = function (name) { var f = g(name); return f.style.display == 'none' ? 0 : +f.querySelector('rect').getAttribute('width'); };
var state = function () { return [wide('hot'), wide('warm'), wide('main'), document.querySelectorAll('g.hit').length,
  document.querySelector('#matched').textContent, document.querySelector('#reset').style.display]; };
steps.push(state());
g('hot').dispatchEvent(new MouseEvent('click', {bubbles: true})); steps.push(state());
document.querySelector('#reset').dispatchEvent(new MouseEvent('click')); steps.push(state());
window.prompt = function () { return '^(hot|warm)$'; };
document.querySelector('#search').dispatchEvent(new MouseEvent('click')); steps.push(state());
window.prompt = function () { return ''; };
window.dispatchEvent(new KeyboardEvent('keydown', {key: 'f', ctrlKey: true})); steps.push(state());
"""
    before, zoomed, back, marked, cleared = drive(picture, tmp_path, script)
    full = 1380
    assert 0 < before[1] < before[0] < full and before[3:] == [0, "", "none"]
    assert zoomed[0] == pytest.approx(full, abs=0.1) and zoomed[1] == 0 and zoomed[2] == pytest.approx(full, abs=0.1) and zoomed[5] == ""
    assert back[3:] == before[3:] and back[0] == pytest.approx(before[0], abs=0.1)
    assert marked[3] == 2
    share = float(re.fullmatch(r"Matched: ([\d.]+)%", marked[4]).group(1))
    assert share == pytest.approx(100 * (before[0] + before[1]) / full, abs=0.1)
    assert cleared[3:] == [0, "", "none"]


def test_svg_alone_in_a_browser(picture, tmp_path):
    """It is as wide as the window."""
    dom, console = browser(picture.as_uri() + "#search=%5Ewarm%24", tmp_path, "--window-size=1000,700")
    assert len(re.findall(r'<g class="f hit"', dom)) == 1 and re.search(r"Matched: [1-9]", dom) and console == []
    outermost = float(re.search(r'<title>all\n.*?<rect x="10" y="\d+" width="([\d.]+)"', dom, re.S).group(1))
    assert 900 < outermost < 1000


def test_names_that_could_be_markup(etch, tmp_path, sampled):
    """Names come from files: none is markup, a control character or the end of a frame."""
    (tmp_path / "a.c").write_text(r"""
void spin(void) __asm__("\"a<b>&c;d]]></script>\033e\"");
volatile unsigned long sink;
__attribute__((noinline)) void spin(void) { for (long i = 0; i < 100000000; i++) sink = i; }
int main(void) { spin(); return 0; }
""")
    run(["gcc", "-O1", tmp_path / "a.c", "-o", tmp_path / "a"])
    p = run([etch, "profile", "-o", tmp_path / "a.svg", "--", tmp_path / "a"])
    assert "\x1b" not in p.stderr
    names = {name for name, *_ in boxes(ET.fromstring((tmp_path / "a.svg").read_bytes()))}
    assert "a<b>&c;d]]></script>?e" in names
    found, _ = folded(etch, tmp_path, tmp_path / "a")
    assert leaves(found).most_common(1)[0][0] == "a<b>&c:d]]></script>?e"


# ---- the command line --------------------------------------------------------------------------


@pytest.mark.parametrize("name,head", [("a.svg", b"<?xml"), ("a.pb.gz", b"\x1f\x8b"), ("a.json", b'{"meta"'), ("a.txt", b"")])
def test_the_name_decides_the_format(etch, burn, tmp_path, name, head):
    run([etch, "profile", "-o", tmp_path / name, "--", burn, "0.02"])
    assert (tmp_path / name).read_bytes().startswith(head)


def test_standard_output(etch, burn):
    """The command keeps it, unless the profile goes there."""
    p = run([etch, "profile", "--", "sh", "-c", f"echo said; {burn} 0.05"])
    assert p.stdout == "said\n" and "self" in p.stderr
    p = run([etch, "profile", "-q", "--format", "folded", "--", "sh", "-c", f"echo said; {burn} 0.05"])
    assert p.stderr == "said\n" and leaves(stacks(p.stdout))["hot"]


def follow_advice(etch, text):
    """Runs the command that a line of the table advises."""
    advice = re.findall(r"incomplete: .*\(it can be made from the code: etch (rewrite .*)\)$", text, re.M)
    assert len(advice) == 1 and "frame-pointers" not in text, text
    run([etch, *advice[0].split()], ok=(0, 1))


@pytest.mark.parametrize("where", ["program", "library", "both"])
def test_a_program_without_cfi(etch, sampled, tmp_path, where):
    """The advice, taken at its word, makes its stacks complete."""
    (tmp_path / "l.c").write_text("""volatile unsigned sink;
__attribute__((noinline)) static void inner(unsigned n) { while (n--) sink += n; }
void outer(unsigned n) { inner(n); sink++; }
""")
    (tmp_path / "m.c").write_text("""void outer(unsigned);
__attribute__((noinline)) static void middle(void) { outer(30000000); __asm__ __volatile__(""); }
int main(void) { middle(); return 0; }
""")
    without = ["-fno-asynchronous-unwind-tables", "-fno-unwind-tables"]
    (tmp_path / "other.c").write_text("int other(void) { return 1; }\n")  # a file without .eh_frame is analysed unasked
    run(["gcc", "-O2", "-fPIC", "-c", tmp_path / "other.c", "-o", tmp_path / "other.o"])
    run(["gcc", "-O2", "-shared", "-fPIC", *(without if where != "program" else []), tmp_path / "l.c", tmp_path / "other.o", "-o", tmp_path / "l.so"])
    run(["gcc", "-O2", *(without if where != "library" else []), tmp_path / "m.c", tmp_path / "l.so", "-o", tmp_path / "m"])
    found, text = folded(etch, tmp_path, tmp_path / "m")
    assert not any("main" in frames and "inner" in frames for frames, _ in found) or where == "program"
    for _ in range(2 if where == "both" else 1):  # a walk tells of the first file only
        assert "100.00% with a complete stack" not in text
        follow_advice(etch, text)
        found, text = folded(etch, tmp_path, tmp_path / "m")
    assert "100.00% with a complete stack" in text, text
    assert any({"main", "outer"} <= set(frames) for frames, _ in found)


def test_status(etch, burn):
    assert "self" in run([etch, "profile", "--", burn, "0.05", "fail"], ok=1).stderr
    assert "samples" in run([etch, "profile", "--", "true"]).stderr


@pytest.mark.parametrize("args,message", [
    ([], "no command to run; see etch profile --help"),
    (["--"], "no command to run; see etch profile --help"),
    (["--no-such"], "unrecognized option '--no-such'; see etch profile --help"),
    (["--", "/nonexistent/x"], "/nonexistent/x: No such file or directory"),
    (["--", "no-such-command-here"], "no-such-command-here: command not found"),
    (["-F", "0", "--", "true"], "--frequency must be a number from 1 to 50000, not '0'"),
    (["--stack", "70000", "--", "true"], "--stack must be a number from 256 to 65000, not '70000'"),
    (["--format", "jpeg", "--", "true"], "--format must be folded, svg, pprof or firefox, not 'jpeg'"),
    (["--duration", "1", "--", "true"], "--duration needs --pid"),
    (["--duration", "x", "-p", "1"], "--duration must be a number of seconds above 0, not 'x'"),
    (["-p", "1", "--", "true"], "--pid cannot be combined with a command"),
    (["-p", "999999999"], "profile: no process with the ID 999999999"),
    (["-o", "/nonexistent/a.svg", "--", "true"], "/nonexistent/a.svg: No such file or directory"),
    (["-o", "/", "--", "true"], "/: Is a directory"),
])
def test_wrong(etch, args, message):
    assert run([etch, "profile", *args], ok=2).stderr == f"etch: {message}\n"


def test_the_command_needs_no_dashes(etch, burn, tmp_path):
    p = run([etch, "profile", "-F", HZ, "-o", tmp_path / "a.svg", "sh", "-c", f"echo $0; {burn} 0.05", "-q"])
    assert p.stdout.startswith("-q\n") and p.stderr.splitlines()[-1] == f"etch: wrote {tmp_path}/a.svg: open it in a browser"
    assert run([etch, "profile", burn, "0.05"]).stderr.splitlines()[-1].startswith("etch: no picture was written; ")
    assert run([etch, "profile", "-q", "-o", tmp_path / "b.pb.gz", burn, "0.05"]).stderr == ""


@pytest.mark.parametrize("name", ["folded", "svg", "pprof", "firefox"])
def test_a_full_disk(etch, burn, name):
    p = run([etch, "profile", "-q", "--format", name, "-o", "/dev/full", "--", burn, "0.02"], ok=2)
    assert p.stderr.splitlines()[0] == "etch: /dev/full: cannot write: No space left on device"
    assert len(p.stderr.splitlines()) == 1
    with open("/dev/full", "w") as full:
        error = run([etch, "profile", "-q", "--format", name, "--", burn, "0.02"], ok=2, stdout=full, stderr=-1).stderr
    assert error == "etch: standard output: cannot write: No space left on device\n"


def test_nothing_is_written_where_the_command_cannot_run(etch, tmp_path, sampled):
    (tmp_path / "a.svg").write_text("mine")
    (tmp_path / "script").write_text("#!/nonexistent/interpreter\n")
    (tmp_path / "script").chmod(0o755)
    error = run([etch, "profile", "-o", tmp_path / "a.svg", "--", tmp_path / "script"], ok=2).stderr
    assert error == f"etch: {tmp_path / 'script'}: No such file or directory\n"
    assert (tmp_path / "a.svg").read_text() == "mine" and sorted(os.listdir(tmp_path)) == ["a.svg", "script"]


def test_programs_that_take_rights(etch, tmp_path):
    if os.geteuid():
        pytest.skip("only root can make such a program here")
    shutil.copy("/bin/true", tmp_path / "true")
    os.chown(tmp_path / "true", 65534, 65534)
    (tmp_path / "true").chmod(0o4755)
    error = run([etch, "profile", "--", tmp_path / "true"], ok=2).stderr
    assert error == f"etch: {tmp_path / 'true'}: a set-user-ID or set-group-ID program cannot be sampled: the kernel ends sampling at its exec\n"


@pytest.mark.parametrize("error,words", [("EACCES", "kernel.perf_event_paranoid"), ("ENOSYS", "CONFIG_PERF_EVENTS")])
def test_refused(etch, tmp_path, error, words):
    """One line that says what is missing; the command does not run."""
    need("strace")
    p = run(["strace", "-o", tmp_path / "trace", "-e", f"inject=perf_event_open:error={error}", etch, "profile", "-o", tmp_path / "a.svg",
             "--", "touch", tmp_path / "ran"], ok=2)
    assert p.stderr.startswith("etch: touch: perf_event_open: ") and words in p.stderr and p.stderr.count("\n") == 1
    assert not (tmp_path / "ran").exists() and not (tmp_path / "a.svg").exists()
