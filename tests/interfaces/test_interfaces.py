# SPDX-License-Identifier: MIT
"""libetch-unwind: the interfaces of glibc, libgcc and libunwind, beside the stock ones in the same process, frame by
frame; exceptions under it; and the programs of tests/data/interfaces/zoo.cc, which hang or crash with other unwinders."""
import os
import re
import struct
import subprocess
import sys
import time
from pathlib import Path

import pytest

from conftest import DATA, GLIBC, need, run

HERE = DATA / "interfaces"
C = ["-std=gnu11", "-D_GNU_SOURCE", "-O2", "-g", "-Wall", "-Wextra", "-Werror"]
# What the linker would leave out if the program did not refer to it.
STOCK = ["-Wl,--no-as-needed", "-lc", "-lgcc_s", "-lunwind", "-Wl,--as-needed", "-pthread"]
# What is made of .eh_frame: nothing but a map that walks fill in; tables at the end of the first walk; nothing; tables before main.
MODES = {mode: {"ETCH_UNWIND_TABLES": mode} if mode else {} for mode in ("", "first", "never", "start")}
WALKS = ["backtrace", "gcc", "unw_backtrace", "unw_step"]


@pytest.fixture(scope="session")
def library(build):
    return build / "libetch-unwind.so.0"


def preloaded(library, **env):
    return {**os.environ, "LD_PRELOAD": str(library), **env}


@pytest.fixture(scope="session")
def contracts(build, once):
    """The program by how it comes by the library."""
    kinds = {
        "linked": ["gcc", f"-L{build}", "-letch-unwind", f"-Wl,-rpath,{build}", "-pthread"],
        "preloaded": ["gcc", *STOCK],
        "clang": ["clang", "-O1", "-fno-omit-frame-pointer", *STOCK],
    }

    def get(kind):
        cc, *more = kinds[kind]
        return once(f"contracts-{kind}", lambda d: run([cc, *C, "-o", d / "contracts", HERE / "contracts.c", *more])) / "contracts"
    return get


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("kind", ["linked", "preloaded", "clang"])
def test_each_interface_gives_the_frames_of_the_stock_one(contracts, library, kind, mode):
    """Addresses, CFAs, callee-saved registers, function bounds, LSDAs, personalities, signal frames, return codes."""
    env = {**os.environ, **MODES[mode]} if kind == "linked" else preloaded(library, **MODES[mode])
    p = run([contracts(kind)], env=env, ok=None)
    found = re.search(r"(\d+) frames compared, (\d+) registers, (\d+) unknown, (\d+) failures", p.stdout)
    assert p.returncode == 0 and found, p.stdout[-4000:] + p.stderr
    frames, registers, unknown, failures = map(int, found.groups())
    assert frames > 500 and registers > 1500 and unknown == failures == 0


def test_the_comparison_needs_the_library(contracts):
    """Without it both sides would be the stock one."""
    assert "the public names are the stock functions" in run([contracts("preloaded")], ok=3).stdout


@pytest.mark.parametrize("libc", ["glibc", "glibc static", "musl static"])
def test_the_archive(build, libc, tmp_path):
    """Also where _dl_find_object is missing: musl, and a static program of any libc. Such a program has no
    .eh_frame_hdr unless it is asked for; but it may have a table of its own."""
    exe, cc = tmp_path / "t", "musl-gcc" if "musl" in libc else "gcc"
    need(cc)
    for flag, rewrite in (("-Wl,--eh-frame-hdr", False), ("-O2", True)):
        if "musl" in libc and not rewrite:
            continue  # it has no .eh_frame, and the signal interrupts it
        run([cc, *C, flag, "-o", exe, HERE / "archive.c", build / "libetch-unwind.a", *(["-static"] if "static" in libc else []), "-pthread"])
        if rewrite:
            run([build / "etch", "rewrite", exe])
        assert run([exe]).stdout == "main main main\nhandler handler handler\nthread thread thread\n"


def test_a_dynamic_section_outside_of_the_program_is_not_read(build, tmp_path):
    """In a static program nothing but the library looks for it. Where the header leads there is no memory."""
    exe = tmp_path / "t"
    run(["gcc", *C, "-static", "-Wl,--eh-frame-hdr", "-o", exe, HERE / "archive.c", build / "libetch-unwind.a", "-pthread"])
    data = bytearray(exe.read_bytes())
    offset, = struct.unpack_from("<Q", data, 32)
    count, = struct.unpack_from("<H", data, 56)
    for at in range(offset, offset + 56 * count, 56):
        if struct.unpack_from("<I", data, at) == (0x6474e551,):  # PT_GNU_STACK becomes PT_DYNAMIC
            struct.pack_into("<I", data, at, 2)
            struct.pack_into("<QQQQ", data, at + 16, 0x7ff000000000, 0x7ff000000000, 0x1000, 0x1000)
            break
    exe.write_bytes(data)
    assert "DYNAMIC        0x000000 0x00007ff000000000" in run(["readelf", "-lW", exe], ok=None).stdout
    assert run([exe]).stdout == "main main main\nhandler handler handler\nthread thread thread\n"


@pytest.mark.parametrize("cc", ["gcc", "musl-gcc"])
def test_the_archive_knows_modules_that_are_loaded_later(build, cc, tmp_path):
    """musl has no _dl_find_object."""
    need(cc)
    exe, plugin, flags = tmp_path / "t", tmp_path / "plugin.so", [*C, "-fasynchronous-unwind-tables", "-Wl,--eh-frame-hdr"]
    run([cc, *flags, "-fPIC", "-shared", "-o", plugin, HERE / "zoo_plugin.c"])
    run([cc, *flags, "-rdynamic", "-o", exe, HERE / "late.c", build / "libetch-unwind.a", "-pthread"])
    lines = run([exe, plugin]).stdout.split()
    assert lines == ["1", "1"]


def test_exceptions_are_unchanged(library, tmp_path):
    exe = tmp_path / "exceptions"
    run(["g++", "-O2", "-Wall", "-Wextra", "-Werror", "-o", exe, HERE / "exceptions.cc", "-pthread"])
    plain = run([exe]).stdout
    assert len(plain.splitlines()) == 11 and plain.endswith("terminated\n")
    for env in MODES.values():
        assert run([exe], env=preloaded(library, **env)).stdout == plain


def test_code_made_at_run_time(library, tmp_path):
    """Registered with __register_frame(): as libgcc walks it. Not registered: by frame pointers, if asked for, and then
    no register but those is known."""
    exe = tmp_path / "jit"
    run(["gcc", *C, "-mno-red-zone", "-o", exe, HERE / "jit.c"])
    kinds = ["unregistered", "registered", "deregistered", "registered"]
    plain = [f"{k}: 1 1 1 1 rbx" if k == "registered" else f"{k}: 0 0 0 0 -" for k in kinds]
    guessed = [f"{k}: 1 1 1 1 {'rbx' if k == 'registered' else 'unknown'}" for k in kinds]
    assert run([exe]).stdout.splitlines() == plain
    assert run([exe], env=preloaded(library)).stdout.splitlines() == plain
    assert run([exe], env=preloaded(library, ETCH_UNWIND_FRAME_POINTERS="1")).stdout.splitlines() == guessed


@pytest.mark.parametrize("mode", ["", "never"])
def test_the_stack_at_every_instruction(library, tmp_path, mode):
    """As the processor goes through printf, qsort, malloc and the like, a step at a time: a handler's stack is glibc's at each."""
    run(["gcc", *C, "-mno-red-zone", "-o", tmp_path / "steps", HERE / "steps.c"])
    out = run([tmp_path / "steps"], env=preloaded(library, **MODES[mode])).stdout
    steps, same = map(int, re.match(r"(\d+) steps, (\d+) the same\n", out).groups())
    assert steps > 50000 and same == steps, out


# Frames of another size, in code of the same size.
PLUGIN = """int call(int (*fn)(void));
int call(int (*fn)(void)) { char pad[SPACE]; int r; __asm__ volatile("" : : "r"(pad) : "memory"); r = fn(); __asm__ volatile("" : "+r"(r)); return r; }"""


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("id", ["sha1", "none"])
def test_a_plugin_that_is_replaced_by_another_file(build, id, mode, tmp_path):
    """Rules that were kept of the first do not hold for the second, which lies at the same addresses."""
    (tmp_path / "plugin.c").write_text(PLUGIN)
    for size in (24, 56):
        run(["gcc", *C, "-fPIC", "-shared", f"-DSPACE={size}", f"-Wl,--build-id={id}", "-o", tmp_path / f"{size}.so", tmp_path / "plugin.c"])
    run(["gcc", *C, "-o", tmp_path / "replaced", HERE / "replaced.c", f"-L{build}", "-letch-unwind", f"-Wl,-rpath,{build}"])
    p = run([tmp_path / "replaced", tmp_path / "plugin.so", tmp_path / "24.so", tmp_path / "56.so"], env={**os.environ, **MODES[mode]}, ok=None)
    assert p.stdout == "15 walks, 4 loads at the same address\n", p.stdout


@pytest.mark.parametrize("mode,made", [("", False), ("first", True), ("never", False), ("start", True)])
def test_when_tables_are_made(library, mode, made, tmp_path):
    """A table is memory without a name that can only be read."""
    (tmp_path / "often.c").write_text("""
#include <execinfo.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
static int tables(void)
{
	FILE *f = fopen("/proc/self/maps", "r");
	char line[4096], *perm;
	int n = 0;
	while (fgets(line, sizeof line, f))
		n += (perm = strchr(line, ' ')) && !strncmp(perm, " r--p", 5) && !strpbrk(line, "[/");
	fclose(f);
	return n;
}
int main(void)
{
	void *ips[32];
	backtrace(ips, 32);
	for (int i = 0; i < 30000; i++)
		backtrace(ips, 32);
	printf("%d\\n", tables());
	return 0;
}""")
    run(["gcc", *C, "-o", tmp_path / "often", tmp_path / "often.c"])
    found = run([tmp_path / "often"], env=preloaded(library, **MODES[mode])).stdout
    assert (found != "0\n") == made, found


def test_what_a_preload_and_walks_cost(library, tmp_path):
    """Instructions. A preload reads no .eh_frame: a program that does nothing pays a small part of what that takes. The first walk reads
    that of its own frames, and later ones go by what it has found, as by tables."""
    need("valgrind")
    (tmp_path / "w.c").write_text("""#include <execinfo.h>
#include <stdlib.h>
static int deep(int n, int depth)
{
	void *ips[64];
	volatile int more = 1;
	if (depth)
		return deep(n, depth - 1) + more;
	while (n--)
		backtrace(ips, 64);
	return more;
}
int main(int argc, char **argv) { return argc > 1 && !deep(atoi(argv[1]), 20); }
""")
    run(["gcc", *C, "-Wno-unused-result", "-fno-optimize-sibling-calls", "-o", tmp_path / "w", tmp_path / "w.c", "-lgcc_s", "-Wl,--no-as-needed"])

    def counted(walks, env):
        p = run(["valgrind", "--tool=cachegrind", "--cache-sim=no", "--cachegrind-out-file=/dev/null", tmp_path / "w", walks], env=env)
        return int(re.search(r"I +refs: +([\d,]+)", p.stderr)[1].replace(",", ""))
    none = counted(0, {**os.environ, "LD_PRELOAD": ""})
    cost = {mode: [counted(n, preloaded(library, **MODES[mode])) for n in (0, 1, 1001)] for mode in ("", "first")}
    reading = cost["first"][1] - cost["first"][0]
    assert cost[""][0] - none < reading / 50
    if GLIBC <= (2, 36):  # later ones start a program with fewer instructions
        assert cost[""][0] < 2.5 * none
    assert cost[""][1] - cost[""][0] < reading / 50
    assert cost[""][2] - cost[""][1] < 1.2 * (cost["first"][2] - cost["first"][1])


def test_what_it_exports(library):
    """Nothing that raises or resumes."""
    names = {line.split()[-1] for line in run(["nm", "-D", "--defined-only", library]).stdout.splitlines()}
    assert {"backtrace", "_Unwind_Backtrace", "unw_backtrace", "_ULx86_64_step", "unw_step"} <= names
    assert all(re.match(r"(backtrace|_Unwind_(Backtrace|Get\w+|Set\w+|FindEnclosingFunction)|_?_?(de)?register_frame\w*|unw_\w+|_UL?x86_64_\w+)$",
                        n) for n in names), names


# ---- programs that hang ------------------------------------------------------------------------

@pytest.fixture(scope="session")
def zoo(once):
    def make(d):
        run(["g++", "-O2", "-g", "-Wall", "-Wextra", "-Werror", "-o", d / "zoo", HERE / "zoo.cc", *STOCK])
        # Without crt's .init, which has no unwind information.
        run(["gcc", *C, "-fPIC", "-shared", "-nostartfiles", "-o", d / "zoo-plugin.so", HERE / "zoo_plugin.c"])
        run(["gcc", *C, "-fno-builtin", "-o", d / "first", HERE / "first.c", "-pthread"])
    return once("interfaces-zoo", make)


def waits(pid):
    """How often each thread of a process has gone to sleep, or None if one ends or waits for something else than a futex."""
    try:
        tasks = list(Path(f"/proc/{pid}/task").iterdir())
        if not all((t / "syscall").read_text().startswith("202 ") for t in tasks):
            return None
        return {t.name: re.search(r"^voluntary_ctxt_switches:\s+(\d+)", (t / "status").read_text(), re.M)[1] for t in tasks}
    except OSError:
        return None


def hangs(argv, **kw):
    """Do all threads of a program wait for one another? Then no time wakes them."""
    with subprocess.Popen([str(a) for a in argv], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, **kw) as p:
        before = None
        while p.poll() is None:
            now = waits(p.pid)
            if now and now == before:
                p.kill()
                return True
            before = now
            time.sleep(0.1)
    return False


@pytest.mark.parametrize("walk", ["backtrace", "unw_step", "unw_backtrace"])
def test_a_walk_needs_no_lock_of_the_dynamic_linker(zoo, library, walk):
    """libunwind#580; and glibc's first backtrace(3)."""
    assert hangs([zoo / "zoo", "dl-lock", walk])
    assert run([zoo / "zoo", "dl-lock", walk], env=preloaded(library), timeout=60).stdout == "done\n"


@pytest.mark.parametrize("where", ["hook", "handler"])
def test_the_first_walk_allocates_nothing(zoo, library, where):
    """foundationdb#14022, yugabyte-db#33917."""
    assert hangs([zoo / "first", where])
    assert run([zoo / "first", where], env=preloaded(library), timeout=60).stdout == "1\n"


SIGNALS = 4200  # of each walk in each storm: 100,000 in all


def storm(zoo, library, walk, what, count, **env):
    p = run([zoo / "zoo", "storm", walk, what, count], env=preloaded(library, **env), ok=(0, 1), timeout=60 + count / 1000)
    handled, whole, lost = map(int, re.match(r"(\d+) handled, (\d+) whole, (\d+) without", p.stdout).groups())
    assert handled >= count
    if what == "throw":
        # While uw_install_context overwrites its frame (docs/unwinding.md, "Limits"), which is a few instructions in each function
        # that ends with it. The share of time there depends on the processor: it copies by `rep movsq`.
        places = re.findall(r"^lost at (\S+) \w+$", p.stdout, re.M)
        assert bool(lost) == bool(places) and len(places) <= 64 and all("/libgcc_s" in f for f in places), p.stdout
    else:
        assert (whole, lost) == (handled, 0), p.stdout


@pytest.mark.parametrize("what", ["dlopen", "throw", "malloc", "fork", "thread", "format"])
@pytest.mark.parametrize("walk", WALKS)
def test_storm(zoo, library, walk, what):
    """With tables from the first walk on, and with maps that handlers fill in."""
    storm(zoo, library, walk, what, SIGNALS, **MODES["first" if WALKS.index(walk) + len(what) & 1 else ""])


@pytest.mark.long
@pytest.mark.parametrize("mode", ["", "first"])
@pytest.mark.parametrize("what", ["dlopen", "throw", "malloc", "fork", "thread", "format"])
@pytest.mark.parametrize("walk", WALKS)
def test_storm_for_long(zoo, library, walk, what, mode):
    storm(zoo, library, walk, what, int(os.environ.get("ETCH_STORM", "200000")), **MODES[mode])


# ---- programs as they are -----------------------------------------------------------------------

PROGRAMS = {
    "python3": [sys.executable, "-c", "import json, re, ctypes, threading; print(json.dumps({'a': re.sub('x', 'y', 'axa')}))"],
    "perl": ["perl", "-e", "my %h = map { $_ => $_ * 2 } 1 .. 1000; print join(',', sort keys %h), qq(\\n)"],
    "gdb": ["gdb", "-nx", "-batch", "-ex", "info functions ^main$", "/usr/bin/perl"],
    "c++": ["g++", "-x", "c++", "-fsyntax-only", "-include", "regex", "/dev/null"],
    "sh": ["sh", "-c", "ls / | sort | head -3; echo $((1 + 2))"],
}


@pytest.mark.parametrize("program", PROGRAMS)
def test_programs_run_as_before(library, program):
    need(PROGRAMS[program][0])
    plain = run(PROGRAMS[program])
    ours = run(PROGRAMS[program], env=preloaded(library))
    assert (ours.stdout, ours.stderr) == (plain.stdout, plain.stderr)
