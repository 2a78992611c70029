# SPDX-License-Identifier: MIT
"""etch heap: who allocates, by a program whose sums are known (tests/data/heap/work.c) and an independent count."""

import collections
import gzip
import json
import os
import re
import shutil
import struct
import subprocess

import pytest

from conftest import DATA, need, run
from pprof_reader import read_pprof

HERE = DATA / "heap"
SUM = r"(?:[\d.]+ .B \()?(\d+) bytes?\)? in (\d+)"  # 1.3 MB (1340216 bytes) in 12
SUMMARY = re.compile(rf"leaked {SUM} blocks?; peak {SUM} blocks?; in all {SUM} allocations?")


@pytest.fixture(scope="module")
def work(tmp_path_factory):
    out = tmp_path_factory.mktemp("work") / "work"
    run(["gcc", "-O1", "-pthread", HERE / "work.c", "-o", out])
    return out


@pytest.fixture(scope="module")
def counter(tmp_path_factory):
    out = tmp_path_factory.mktemp("counter") / "counter.so"
    run(["gcc", "-O1", "-shared", "-fPIC", "-pthread", "-Wno-builtin-declaration-mismatch", HERE / "counter.c", "-o", out])
    return out


def heap(etch, *argv, options=(), ok=0, env=None):
    """What etch says on standard error."""
    return run([etch, "heap", *options, "--", *argv], ok=ok, env=env).stderr


def summary(text):
    """leaked, peak, total: (bytes, blocks) of each."""
    n = list(map(int, SUMMARY.search(text).groups()))
    return tuple(zip(n[::2], n[1::2]))


def clean(text):
    """Nothing was lost, and each stack is complete."""
    assert "100.00% with a complete stack" in text and not re.search("lost|incomplete|without a stack|not recorded|not counted|malloc of its own", text), text


def folded(etch, tmp_path, *argv, measure, options=(), ok=0):
    out = tmp_path / "folded"
    text = heap(etch, *argv, options=["-m", measure, "-o", out, *options], ok=ok)
    lines = [line.rpartition(" ") for line in out.read_text().splitlines()]
    return [(names.split(";"), int(n)) for names, _, n in lines], text


def of(found, function):
    """Bytes of the stacks with a function."""
    return sum(n for frames, n in found if function in frames)


MEASURES = {"leaked": {"leaky": 10000, "peaky": 0, "busy": 0}, "total": {"leaky": 10000, "peaky": 100000, "busy": 100000},
            "peak": {"leaky": 10000, "peaky": 100000, "busy": 0}}


@pytest.mark.parametrize("flags", [["-O1"], ["-O2", "-fomit-frame-pointer", "-no-pie"]], ids=str)
@pytest.mark.parametrize("measure", MEASURES)
def test_known_sums(etch, tmp_path, flags, measure):
    run(["gcc", *flags, "-pthread", HERE / "work.c", "-o", tmp_path / "work"])
    found, text = folded(etch, tmp_path, tmp_path / "work", measure=measure)
    clean(text)
    assert {f: of(found, f) for f in MEASURES[measure]} == MEASURES[measure]
    for frames, _ in found:
        if frames[-1] in ("leaky", "peaky", "busy"):
            assert frames[0] == "work" and frames[-3:-1] == ["main", "all"], frames
    assert sum(n for _, n in found) == summary(text)[["leaked", "peak", "total"].index(measure)][0]


def with_counter(etch, counter, folder, *argv, ok=0):
    """Runs etch with the counter after the recorder. What etch says, and what the counter has seen of all processes: bytes and blocks
    leaked, bytes at the peak, bytes and blocks in all."""
    env = {**os.environ, "LD_PRELOAD": str(counter), "COUNT_DIR": str(folder)}
    p = subprocess.Popen([etch, "heap", "--", *argv], env=env, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    text = p.communicate()[1]
    assert p.returncode == ok, text
    for own in folder.glob(f"{p.pid}.*"):  # etch itself
        own.unlink()
    sums = [struct.unpack("<5Q", f.read_bytes()[:40]) for f in folder.iterdir()]
    return text, [sum(s[i] for s in sums) for i in (3, 2, 4, 1, 0)]


@pytest.mark.parametrize("how", ["all", "kinds", "threads", "fork", "rawfork", "abort", "kill", "crash", "deep", "closefrom", "fail"])
def test_the_same_as_an_independent_count(etch, work, counter, tmp_path, how):
    """... however the process ends."""
    ok = {"abort": 134, "kill": 137, "crash": 139, "fail": 1}.get(how, 0)
    text, want = with_counter(etch, counter, tmp_path, work, how, ok=ok)
    clean(text.replace("SIG", "")) if how != "deep" else None
    leaked, peak, total = summary(text)
    assert [*leaked, *total] == [*want[:2], *want[3:]], text
    if how != "threads":  # which of two threads comes first, each of the two sees otherwise
        assert peak[0] == want[2], text
    assert want[4] >= 10


def test_programs_as_they_are(etch, counter, tmp_path):
    """A shell with its commands, an interpreter with modules that it loads."""
    json.dump([{"a": i} for i in range(3000)], open(tmp_path / "a.json", "w"))
    for argv in (["sh", "-c", "ls / | sort | tail -1; exit 1"], ["/usr/bin/python3", "-m", "json.tool", tmp_path / "a.json"]):
        folder = tmp_path / argv[0].split("/")[-1]
        folder.mkdir()
        text, want = with_counter(etch, counter, folder, *argv, ok=argv[0] == "sh")
        leaked, _, total = summary(text)
        clean(text)
        assert [*leaked, *total] == [*want[:2], *want[3:]], text


def test_threads(etch, work, tmp_path):
    found, text = folded(etch, tmp_path, work, "threads", measure="total")
    clean(text)
    assert of(found, "busy") == 40 * 20 * 100000 and of(found, "leaky") == 40 * 10000
    assert all(frames[-2] == "thread" for frames, _ in found if frames[-1] == "busy")


@pytest.mark.parametrize("how", ["fork", "rawfork"])
def test_children(etch, work, tmp_path, how):
    found, text = folded(etch, tmp_path, work, how, measure="leaked")
    clean(text)
    assert of(found, "leaky") == 20 * 10000 and "21 processes" in text
    found, text = folded(etch, tmp_path, work, how, measure="leaked", options=["--no-follow"])
    assert of(found, "leaky") == 0 and "processes" not in text


def test_exec(etch, work, tmp_path):
    found, text = folded(etch, tmp_path, work, "exec", work, measure="total")
    clean(text)
    assert of(found, "leaky") == 2 * 10000 and of(found, "busy") == 100000 and "2 processes" in text


def test_signal_handlers(etch, work, tmp_path):
    found, text = folded(etch, tmp_path, work, "signals", measure="total")
    clean(text)
    calls = of(found, "handler") // 333
    assert calls >= 300 and of(found, "handler") == calls * 333
    assert all("signals" in frames and "main" in frames for frames, _ in found if "handler" in frames)


def test_deep_stacks_are_marked(etch, work, tmp_path):
    found, text = folded(etch, tmp_path, work, "deep", measure="leaked")
    assert of(found, "leaky") == 10000 and "10 stacks are incomplete: more frames than are recorded" in text
    assert {frames[1] for frames, _ in found if "leaky" in frames} == {"[more frames than are recorded]"}


def test_an_address_that_is_other_code_later(etch, work, tmp_path):
    """Two libraries, one after the other at the same place: each has its name, and its frames."""
    for name, size in (("one", 111), ("two", 222)):
        (tmp_path / "a.c").write_text(f"#include <stdlib.h>\nvoid *volatile kept_{name};\n"
                                      f"__attribute__((noinline)) static void in_{name}(void) {{ volatile char space[{8 * size}]; space[0] = 1; "
                                      f"kept_{name} = malloc({size}); }}\n"
                                      f"void plugin(void) {{ in_{name}(); kept_{name} = 0; }}\n")
        run(["gcc", "-O1", "-shared", "-fPIC", tmp_path / "a.c", "-o", tmp_path / f"{name}.so"])
    found, text = folded(etch, tmp_path, work, "dlclose", tmp_path / "one.so", tmp_path / "two.so", measure="leaked")
    clean(text)
    assert of(found, "in_one") == 111 and of(found, "in_two") == 222


def test_removed_files(etch, work, tmp_path):
    """A program that is gone by the end is still named: its file was opened meanwhile."""
    shutil.copy(work, tmp_path / "gone")
    found, _ = folded(etch, tmp_path, "sh", "-c", f"{tmp_path}/gone all; sleep 1; rm {tmp_path}/gone", measure="total")
    assert of(found, "busy") == 100000


@pytest.mark.parametrize("threads", [1, 3])
@pytest.mark.parametrize("flags", [["-O1"], ["-O2", "-fno-omit-frame-pointer"]], ids=str)
def test_each_stack_is_right(etch, tmp_path, flags, threads):
    """Walks reuse the frames of the thread's last walk. The program itself counts allocations by their path of calls."""
    program = tmp_path / "paths"
    run(["gcc", *flags, "-pthread", HERE / "paths.c", "-o", program])
    told = dict(line.split() for line in run([program, threads, 150000]).stdout.splitlines())
    found, text = folded(etch, tmp_path, program, threads, 150000, measure="total")
    clean(text)
    counted = collections.Counter()
    for frames, size in found:
        if "allocate" in frames:
            counted["".join(f[1] for f in frames if re.fullmatch("f[a-f]", f)) or "-"] += size // 16
    assert len(told) > 5000
    assert counted == {path: int(count) for path, count in told.items()}


def test_sampled(etch, work, tmp_path):
    """Estimates: within a few standard deviations of the truth."""
    found, text = folded(etch, tmp_path, work, "threads", measure="total", options=["--sample", "1000"])
    assert "(by a sample)" in text
    assert of(found, "busy") == pytest.approx(40 * 20 * 100000, rel=0.1)
    assert of(found, "leaky") == 40 * 10000  # as large as the interval: each is recorded


# ---- formats ---------------------------------------------------------------------------------


def test_pprof(etch, work, tmp_path):
    out = tmp_path / "a.pb.gz"
    text = heap(etch, work, options=["-o", out])
    profile = read_pprof(gzip.decompress(out.read_bytes()))
    assert profile.types == [("alloc_space", "bytes"), ("alloc_objects", "count"), ("peak_space", "bytes"), ("peak_objects", "count"),
                             ("inuse_space", "bytes"), ("inuse_objects", "count")]
    sums = [sum(s.values[i] for s in profile.samples) for i in range(6)]
    leaked, peak, total = summary(text)
    assert sums == [*total, *peak, *leaked]
    busy = [s for s in profile.samples if s.names[0] == "busy"]
    assert [s.values for s in busy] == [[100000, 1000, 0, 0, 0, 0]] and busy[0].names[1:3] == ["all", "main"]


def test_go_reads_pprof(etch, work, go, tmp_path):
    out = tmp_path / "a.pb.gz"
    heap(etch, work, options=["-o", out])
    text = go("tool", "pprof", "-sample_index=inuse_space", "-unit=B", "-top", out).stdout
    assert re.search(r"^ +10000B .* leaky$", text, re.M) and "busy" not in text


def test_firefox(etch, work, tmp_path):
    out = tmp_path / "a.json"
    text = heap(etch, work, options=["-m", "total", "-o", out])
    profile = json.loads(out.read_text())
    assert [t["samples"]["weightType"] for t in profile["threads"]] == ["bytes"]
    assert sum(profile["threads"][0]["samples"]["weight"]) == summary(text)[2][0]


def test_svg(etch, work, tmp_path):
    from test_profile import boxes, browser
    import xml.etree.ElementTree as ET
    out = tmp_path / "a.svg"
    heap(etch, work, options=["-m", "total", "-o", out])
    width = {name: w for name, _, _, w in boxes(ET.fromstring(out.read_text()))}
    assert width["peaky"] == pytest.approx(width["busy"]) and width["leaky"] == pytest.approx(width["busy"] / 10, abs=0.01)
    assert "\n100000 bytes, " in out.read_text()
    dom, console = browser(out.as_uri() + "#search=%5Ebusy%24", tmp_path)
    assert len(re.findall(r'<g class="f hit"', dom)) == 1 and re.search(r"Matched: [1-9]", dom) and console == []


def test_the_table(etch, tmp_path):
    """Sorted by the measure; C++'s own functions count for their callers."""
    (tmp_path / "a.cc").write_text("""#include <vector>
#include <string>
__attribute__((noinline)) static std::vector<int> *grow(int n) { auto *v = new std::vector<int>; for (int i = 0; i < n; i++) v->push_back(i); return v; }
__attribute__((noinline)) static void text(int n) { std::string s; for (int i = 0; i < n; i++) s += "0123456789"; }
int main() { auto *v = grow(1000); text(100000); return v->size() == 1; }
""")
    run(["g++", "-O1", tmp_path / "a.cc", "-o", tmp_path / "a"])
    first = {}
    for measure in ("leaked", "total"):
        text = heap(etch, tmp_path / "a", options=["-m", measure])
        clean(text)
        rows = re.findall(r"^ *([\d.]+ [kKMB]+) +([\d.]+ [kKMB]+) +([\d.]+ [kKMB]+) +(\d+)  (\S+)", text, re.M)
        names = [r[4] for r in rows]
        assert {"grow", "text"} <= set(names) and not any(n.startswith(("std::", "operator")) for n in names), text
        first[measure] = [n for n in names if n in ("grow", "text")][0]
    assert first == {"leaked": "grow", "total": "text"}


# ---- what goes wrong ----------------------------------------------------------------------------


def test_a_full_disk(etch, work, tmp_path):
    """Of the recordings: sums stay right, and what has no stack is said."""
    if os.geteuid() or subprocess.run(["mount", "-t", "tmpfs", "-o", "size=60k", "none", tmp_path], capture_output=True).returncode:
        pytest.skip("needs a file system of its own")
    try:
        text = heap(etch, work, "closefrom", options=["--directory", tmp_path])
    finally:
        run(["umount", tmp_path])
    leaked, _, total = summary(text)
    assert leaked == (3000000, 3000) and total[0] >= 3000000 and re.search(r"\d+ allocations are counted without a stack", text), text


def test_no_space_at_all(etch, work, tmp_path):
    if os.geteuid() or subprocess.run(["mount", "-t", "tmpfs", "-o", "size=4k", "none", tmp_path], capture_output=True).returncode:
        pytest.skip("needs a file system of its own")
    try:
        p = run([etch, "heap", "--directory", tmp_path, "--", work], ok=2)
    finally:
        run(["umount", tmp_path])
    assert p.stderr == f"etch: {work}: nothing was recorded: the recorder could not begin: there is no space for its file\n"


def test_small_limits(etch, work):
    """Of address space and file size: less of it, the same sums."""
    for limit in ("-v 4000000", "-f 100000"):
        text = heap(etch, "sh", "-c", f"ulimit {limit}; exec {work} all")
        clean(text)
        assert summary(text)[0][0] >= 10000


def test_programs_that_cannot_be_recorded(etch, work, tmp_path):
    run(["gcc", "-static", "-pthread", HERE / "work.c", "-o", tmp_path / "static"])
    error = heap(etch, tmp_path / "static", ok=2)
    assert error == f"etch: {tmp_path / 'static'}: it is a static program, which loads no library: its allocations cannot be recorded\n"
    (tmp_path / "script").write_text(f"#!{tmp_path / 'static'}\n")
    (tmp_path / "script").chmod(0o755)
    assert "it is a static program" in heap(etch, tmp_path / "script", ok=2)
    if not os.geteuid():
        shutil.copy(work, tmp_path / "rights")
        os.chown(tmp_path / "rights", 65534, 65534)
        (tmp_path / "rights").chmod(0o4755)
        assert "the dynamic linker preloads nothing into it" in heap(etch, tmp_path / "rights", ok=2)


def test_the_dynamic_linker_has_code_without_a_rule(etch, tmp_path):
    """Constructors of libraries are run by it, from code that .eh_frame does not describe. That there is no rule is looked up once: an
    allocation there costs less than two of main()'s, whose stacks have as many frames. Instructions are counted."""
    need("valgrind")
    (tmp_path / "l.c").write_text("""#include <stdlib.h>
void work(int n) { while (n-- > 0) free(malloc(32)); }
static __attribute__((constructor)) void begin(void) { work(atoi(getenv("FIRST"))); }
""")
    (tmp_path / "m.c").write_text("""#include <stdlib.h>
void work(int n);
int main(void) { work(atoi(getenv("THEN"))); return 0; }
""")
    run(["gcc", "-O1", "-fno-builtin", "-shared", "-fPIC", tmp_path / "l.c", "-o", tmp_path / "l.so"])
    run(["gcc", "-O1", tmp_path / "m.c", tmp_path / "l.so", "-o", tmp_path / "m"])

    def counted(first, then):
        text = heap(etch, "valgrind", "--tool=cachegrind", "--cache-sim=no", "--cachegrind-out-file=/dev/null", tmp_path / "m",
                    env={**os.environ, "FIRST": str(first), "THEN": str(then), "ETCH_UNWIND_TABLES": "never"})
        return int(re.search(r"I +refs: +([\d,]+)", text)[1].replace(",", ""))
    base = counted(100, 100)
    assert 0 < counted(600, 100) - base < 2 * (counted(100, 600) - base)


def test_a_program_without_cfi(etch, tmp_path):
    """The advice, taken at its word, makes its stacks complete; --frame-pointers, which is no option here, is not advised."""
    from test_profile import follow_advice
    run(["gcc", "-O1", "-pthread", "-fno-asynchronous-unwind-tables", "-fno-unwind-tables", HERE / "work.c", "-o", tmp_path / "work"])
    text = heap(etch, tmp_path / "work")
    assert "100.00%" not in text
    follow_advice(etch, text)
    found, text = folded(etch, tmp_path, tmp_path / "work", measure="leaked")
    clean(text)
    assert [frames[-3:] for frames, _ in found if frames[-1] == "leaky"] == [["main", "all", "leaky"]]


def test_a_malloc_of_its_own(etch, tmp_path):
    (tmp_path / "a.c").write_text("""#include <stddef.h>
static char space[1 << 20]; static size_t used;
void *malloc(size_t n) { void *p = space + used; used += (n + 15) & ~15ul; return p; }
void free(void *p) { (void)p; }
int main(void) { free(malloc(10)); return 0; }
""")
    run(["gcc", "-O0", tmp_path / "a.c", "-o", tmp_path / "a"])
    assert "not seen: the allocations of 1 process that has a malloc of its own\n" in heap(etch, tmp_path / "a")


def test_a_malloc_whose_address_is_taken(etch, tmp_path):
    """A program that is not a PIE has it at its own PLT entry: that is no malloc of its own."""
    (tmp_path / "a.c").write_text("""#include <stdlib.h>
void *(*volatile where)(size_t) = malloc;
int main(void) { where(10); return 0; }
""")
    run(["gcc", "-O1", "-fno-pie", "-no-pie", tmp_path / "a.c", "-o", tmp_path / "a"])
    assert re.search(r" UND +malloc", run(["readelf", "-W", "--dyn-syms", tmp_path / "a"]).stdout)
    text = heap(etch, tmp_path / "a")
    clean(text)
    assert summary(text)[0] == (10, 1)


@pytest.mark.parametrize("args,message", [
    ([], "no command to run; see etch heap --help"),
    (["--", "no-such-command-here"], "no-such-command-here: command not found"),
    (["--sample", "0", "--", "true"], "--sample must be a number from 1 to 1073741824, not '0'"),
    (["-m", "most", "--", "true"], "--measure must be total, peak or leaked, not 'most'"),
    (["--format", "jpeg", "--", "true"], "--format must be folded, svg, pprof or firefox, not 'jpeg'"),
    (["--directory", "/nonexistent", "--", "true"], "true: /nonexistent: No such file or directory"),
    (["-o", "/nonexistent/a.svg", "--", "true"], "/nonexistent/a.svg: No such file or directory"),
])
def test_wrong(etch, args, message):
    assert run([etch, "heap", *args], ok=2).stderr == f"etch: {message}\n"


def test_the_command_needs_no_dashes(etch, work, tmp_path):
    """Its options are its own; and the last line says what was written and how to look at it."""
    with_dashes = run([etch, "heap", "-m", "leaked", "-o", tmp_path / "a.folded", "--", work, "threads"])
    without = run([etch, "heap", "-m", "leaked", "-o", tmp_path / "b.folded", work, "threads"])
    assert (tmp_path / "a.folded").read_text() == (tmp_path / "b.folded").read_text() != ""
    assert with_dashes.stderr.splitlines()[-1].startswith(f"etch: wrote {tmp_path}/a.folded: ")
    assert without.stderr.splitlines()[-1].startswith(f"etch: wrote {tmp_path}/b.folded: ")
    p = run([etch, "heap", "sh", "-c", "echo $0", "-q"])
    assert p.stdout == "-q\n" and p.stderr.splitlines()[-1].startswith("etch: no picture was written; etch heap -o heap.svg ")
    assert run([etch, "heap", "-q", "-o", tmp_path / "c.svg", work, "threads"]).stderr == ""


def test_nothing_is_left(etch, work, tmp_path):
    heap(etch, work, "fork", options=["--directory", tmp_path])
    heap(etch, work, "kill", options=["--directory", tmp_path], ok=137)
    assert os.listdir(tmp_path) == []


JIT = """#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
static void *volatile kept;
__attribute__((noinline, noipa)) static void inner(void) { kept = malloc(4000); }
__attribute__((noinline, noipa)) static void outer(void *code) { ((void (*)(void (*)(void)))code)(inner); kept = NULL; }
int main(void)
{
	static const unsigned char code[] = {0x55, 0x48, 0x89, 0xe5, 0xff, 0xd7, 0x5d, 0xc3}; /* a frame by rbp: call *%rdi */
	void *at = mmap(NULL, 4096, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	memcpy(at, code, sizeof(code));
	for (int i = 0; i < 3; i++)
		outer(at);
}
"""


def test_frame_pointers_through_code_made_at_run_time(etch, tmp_path):
    (tmp_path / "jit.c").write_text(JIT)
    run(["gcc", "-O1", tmp_path / "jit.c", "-o", tmp_path / "jit"])
    found, text = folded(etch, tmp_path, tmp_path / "jit", measure="total")
    assert "3 stacks are incomplete: code made at run time has no table (try --frame-pointers)" in text and "guess" not in text
    assert of(found, "inner") == 12000 and of(found, "outer") == 0
    found, text = folded(etch, tmp_path, tmp_path / "jit", measure="total", options=["--frame-pointers"])
    assert "in code made at run time, stacks are found by frame pointers, which is a guess" in text and "incomplete" not in text
    assert of(found, "outer") == of(found, "inner") == 12000


def test_code_without_a_rule_in_a_file_that_has_others(etch, tmp_path):
    """The message does not say that the file has no unwind information at all. The list of stacks has frames only."""
    (tmp_path / "f.c").write_text("#include <stdlib.h>\nvoid *volatile kept;\n__attribute__((noinline, noipa)) void bare(void) { kept = malloc(8); kept = 0; }\n")
    (tmp_path / "m.c").write_text("void bare(void);\nint main(void) { bare(); }\n")
    run(["gcc", "-O1", "-c", "-fno-asynchronous-unwind-tables", tmp_path / "f.c", "-o", tmp_path / "f.o"])
    run(["gcc", "-O1", tmp_path / "f.o", tmp_path / "m.c", "-o", tmp_path / "prog"])
    text = heap(etch, tmp_path / "prog")
    assert "1 stack is incomplete: no rule for the address (it can be made from the code: etch rewrite" in text
    stack = text.partition("live at the peak by\n")[2].partition("\n\n")[0].splitlines()
    assert [line.split()[0] for line in stack][:1] == ["bare"] and "prog" not in [line.strip() for line in stack], text
