# SPDX-License-Identifier: MIT
"""`etch rewrite --eh-frame`: FDEs for code that has none, beside the linker's, read by pyelftools, readelf, gdb and libgcc."""

import os
import re
import shutil
from pathlib import Path

import pytest
from elftools.dwarf.callframe import instruction_name
from elftools.elf.elffile import ELFFile

import rows as unwind_rows
from cfi_files import rows_for_saves
from conftest import DATA, ROOT, TIMEOUT, fetch, run

LIBDIR = Path("/usr/lib/x86_64-linux-gnu")
NO_CFI = ["-fno-asynchronous-unwind-tables", "-fno-unwind-tables"]
PROGRAM = """#include <stdio.h>
#include <stdlib.h>
#include <string.h>
__attribute__((noinline)) int leaf(int x) { __asm__ volatile("" : "+r"(x)); return x * 3; }
static int cmp(const void *a, const void *b) { return leaf(*(const int *)a) - leaf(*(const int *)b); }
__attribute__((noinline)) int middle(int n)
{
	int *p = __builtin_alloca(4 * n + 16), s = 0;

	for (int i = 0; i < n; i++)
		p[i] = i * 7919 % n;
	qsort(p, n, 4, cmp);
	for (int i = 0; i < n; i++)
		s += p[i] * leaf(i) + snprintf(NULL, 0, "%d %s", i, "x");
	return s;
}
int main(void) { int s = 0; for (int i = 10; i < 30; i++) s += middle(i); printf("%d\\n", s); return 0; }
"""


def sections(path):
    with open(path, "rb") as f:
        return {s.name: (s["sh_addr"], s.data()) for s in ELFFile(f).iter_sections() if s["sh_type"] != "SHT_NOBITS"}


def fdes(path):
    """Of .eh_frame by pyelftools: start -> length."""
    with open(path, "rb") as f:
        entries = ELFFile(f).get_dwarf_info().EH_CFI_entries()
    return {e["initial_location"]: e["address_range"] for e in entries if hasattr(e, "lsda_pointer")}


def strip_cfi(path, out):
    """A copy whose FDEs no reader finds."""
    run(["objcopy", "--remove-section", ".eh_frame", "--remove-section", ".eh_frame_hdr", path, out])


@pytest.fixture(scope="module")
def programs(tmp_path_factory):
    """name -> a program without .eh_frame, or with one for part of its code."""
    top, found = tmp_path_factory.mktemp("eh"), {}
    (top / "t.c").write_text(PROGRAM)
    for name, cc in {"glibc": ["gcc"], "pie": ["gcc", "-pie", "-fPIE"], "static": ["gcc", "-static"],
                     "musl": ["musl-gcc", "-static"], "clang": ["clang"]}.items():
        if shutil.which(cc[0]):
            run([*cc, "-O2", *NO_CFI, "-o", top / name, top / "t.c"])
            found[name] = top / name
    return found


@pytest.mark.parametrize("name", ["glibc", "pie", "static", "musl", "clang"])
def test_a_program(name, programs, build, tmp_path):
    """Every FDE is read, says what etch says, and is in the sorted table; the linker's are there unchanged in meaning."""
    if name not in programs:
        pytest.skip(f"no compiler for {name}")
    etch, was, t = build / "etch", programs[name], tmp_path / "t"
    shutil.copy(was, t)
    run([etch, "rewrite", "--eh-frame", t])
    before, after = fdes(was), fdes(t)
    assert set(before.items()) <= set(after.items()) and len(after) > len(before)
    raw = sections(t)
    addr, hdr = raw[".eh_frame_hdr"]
    table = [(int.from_bytes(hdr[i:i + 4], "little", signed=True) + addr, int.from_bytes(hdr[i + 4:i + 8], "little", signed=True) + addr)
             for i in range(12, len(hdr), 8)]
    assert table == sorted(table) and [a for a, _ in table] == sorted(after)
    base, frame = raw[".eh_frame"]
    assert all(base < at < base + len(frame) for _, at in table)
    run(["readelf", "--debug-dump=frames-interp", t])
    if before:
        assert raw[".eh_frame.linked"] == sections(was)[".eh_frame"]
    p = run([t])
    assert p.stdout == run([was]).stdout
    mark = t.read_bytes(), t.stat().st_mtime_ns, t.stat().st_ino
    for args in ([], ["--eh-frame"], ["--only", "imv"]):
        run([etch, "rewrite", *args, t])
        assert (t.read_bytes(), t.stat().st_mtime_ns, t.stat().st_ino) == mark
    for tool in (["strip", "-o", tmp_path / "s", t], ["objcopy", t, tmp_path / "s"]):
        run(tool)
        assert run([tmp_path / "s"]).stdout == p.stdout and fdes(tmp_path / "s") == after
    run([etch, "rewrite", "--undo", t])
    assert t.read_bytes() == was.read_bytes()


def pieces(got, want):
    """(start, end, rule of the first or None, rule of the second) where the second has one."""
    marks = sorted({x for rows in (got, want) for r in rows for x in r[:2]})
    i = k = 0
    for start, end in zip(marks, marks[1:]):
        while i < len(got) and got[i][1] <= start:
            i += 1
        while k < len(want) and want[k][1] <= start:
            k += 1
        if k < len(want) and want[k][0] <= start and want[k][2] != unwind_rows.UNDEF:
            yield start, end, got[i][2] if i < len(got) and got[i][0] <= start else None, want[k][2]


@pytest.mark.parametrize("name", ["musl", "libc.so.6", "libcrypto.so.3", "bash", pytest.param("git", marks=pytest.mark.long)])
def test_rows_are_those_of_etch(name, programs, build, tmp_path):
    """Without .eh_frame: the rows of the new FDEs, computed by pyelftools, are those that etch makes of the code."""
    path = programs.get(name) or (LIBDIR / name if name.startswith("lib") else Path("/usr/bin") / name)
    strip_cfi(path, tmp_path / "t")
    want = unwind_rows.inspect_rows(build / "etch", tmp_path / "t")
    run([build / "etch", "rewrite", "--eh-frame", tmp_path / "t"])
    got = unwind_rows.cfi_rows(tmp_path / "t")[0]
    missing = different = same = 0
    for start, end, have, rule in pieces(got, want):
        if have is None:
            missing += end - start
        elif have == rule or (have[0], *have[2:]) == (rule[0], *rule[2:]) and rule[1] == "same" and have[1].startswith("cfa-"):
            same += end - start  # after a pop the slot still has the caller's rbp, and the rule of compilers is that
        else:
            different += end - start
            assert rule[3] == "end" and have[2] == "undef", (hex(start), have, rule)
    assert same > 10000 and missing < same / 1000, (same, different, missing)


def backtrace(program, at, count):
    """gdb's frames at the `count`th time that it comes to an address."""
    p = run(["gdb", "-batch", "-nx", "-ex", f"break *{at:#x}", "-ex", f"ignore 1 {count}", "-ex", "run", "-ex", "bt", program], timeout=60)
    return [int(x, 16) for x in re.findall(r"^#\d+ +0x([0-9a-f]+) in", p.stdout, re.M)]


def test_gdb_walks_a_stripped_static_program(programs, build, tmp_path):
    if "musl" not in programs:
        pytest.skip("no musl-gcc")
    names = {line.split()[2]: int(line.split()[0], 16) for line in run(["nm", programs["musl"]]).stdout.splitlines()
             if len(line.split()) == 3}
    run(["strip", "-o", tmp_path / "t", programs["musl"]])
    bare = backtrace(tmp_path / "t", names["leaf"], 7)
    run([build / "etch", "rewrite", "--eh-frame", tmp_path / "t"])
    full = backtrace(tmp_path / "t", names["leaf"], 7)
    symbols = sorted((a, n) for n, a in names.items())
    chain = [[n for a, n in symbols if a <= pc][-1] for pc in full]
    assert chain[0] == "leaf" and "middle" in chain and chain[-3:] in (["main", "libc_start_main_stage2", "_start_c"],) or \
        ("main" in chain and len(chain) > len(bare)), (chain, bare)
    assert len(full) >= 7 and full[1:2] == bare[1:2]


@pytest.mark.parametrize("name", ["musl", "static"])
def test_saved_registers_step_by_step(name, programs, build, tmp_path):
    """At each instruction, and in all its callers: what the rows say of rbx, rbp, r12 to r15 is what the caller had."""
    if name not in programs:
        pytest.skip(f"no compiler for {name}")
    strip_cfi(programs[name], tmp_path / "t")
    run([build / "etch", "rewrite", "--eh-frame", tmp_path / "t"])
    rows_for_saves(tmp_path / "t", tmp_path / "rows")
    run(["gcc", "-std=gnu11", "-D_GNU_SOURCE", "-O2", "-Wall", "-Wextra", "-Werror", "-o", tmp_path / "saves", DATA / "unwind" / "saves.c"])
    p = run([tmp_path / "saves", tmp_path / "rows", os.environ.get("ETCH_STEPS", "30000"), tmp_path / "t"])
    *shown, last = p.stdout.splitlines()
    count = dict(zip(last.split()[::2], map(int, last.split()[1::2])))
    assert count["wrong-frame"] == count["wrong-value"] == 0, p.stdout
    assert count["values"] > 10 * count["steps"] > 100000 and count["unknown"] < count["values"] / 100, p.stdout
    assert count["no-row"] < count["steps"] / 100, p.stdout


THROW = """#include <cstdio>
#include <pthread.h>
#include <stdexcept>
#include <string>
#include <vector>
static int destroyed;
struct D { ~D() { destroyed++; } };
__attribute__((noinline)) int deep(int n) { D d; if (!n) throw std::runtime_error("x"); std::vector<int> v(n); return deep(n - 1) + (int)v.size(); }
static void *thread(void *) { D d; for (;;) pthread_testcancel(); }
int main()
{
	for (int i = 0; i < 5; i++) {
		try { deep(20); } catch (std::exception &e) { try { throw; } catch (std::runtime_error &) { destroyed += 1000; } }
	}
	pthread_t t;
	pthread_create(&t, nullptr, thread, nullptr);
	pthread_cancel(t);
	pthread_join(t, nullptr);
	std::printf("%d\\n", destroyed);
}
"""


@pytest.mark.parametrize("link", [[], ["-static"], ["-no-pie"], ["-static-pie"], ["-static-libgcc", "-static-libstdc++"]],
                         ids=lambda a: "".join(a) or "default")
def test_exceptions(link, build, tmp_path):
    """Throws through 20 frames, rethrow and cancellation: the same with and without."""
    (tmp_path / "t.cc").write_text(THROW)
    run(["g++", "-O2", "-pthread", *link, "-o", tmp_path / "was", tmp_path / "t.cc"])
    run([build / "etch", "rewrite", "--eh-frame", "-o", tmp_path / "t", tmp_path / "was"])
    assert run([tmp_path / "t"]).stdout == run([tmp_path / "was"]).stdout == "5106\n"


PLUGIN = """#include <stdexcept>
struct D { int *n; ~D() { ++*n; } };
extern "C" int thrower(int n, int *destroyed, void (*f)(void)) { D d{destroyed}; if (!n) { f(); throw std::out_of_range("n"); } return thrower(n - 1, destroyed, f) + 1; }
extern "C" int catcher(int *destroyed, void (*f)(void)) { try { return thrower(20, destroyed, f); } catch (std::out_of_range &) { return 7; } }
"""
# The library is loaded, throws out of itself and within, ends a thread through its frames, and is loaded again.
HOST = """#include <cstdio>
#include <dlfcn.h>
#include <exception>
#include <pthread.h>
static void nothing() {}
static void leave() { pthread_exit(nullptr); }
static int destroyed, (*thrower)(int, int *, void (*)()), (*catcher)(int *, void (*)());
static void *thread(void *) { catcher(&destroyed, leave); return nullptr; }
int main(int, char **v)
{
	for (int i = 0; i < 3; i++) {
		void *l = dlopen(v[1], RTLD_NOW);
		*(void **)&thrower = dlsym(l, "thrower");
		*(void **)&catcher = dlsym(l, "catcher");
		try { thrower(20, &destroyed, nothing); } catch (std::exception &e) { destroyed += 1000; }
		destroyed += 10000 * catcher(&destroyed, nothing);
		pthread_t t;
		pthread_create(&t, nullptr, thread, nullptr);
		pthread_join(t, nullptr);
		dlclose(l);
	}
	std::printf("%d\\n", destroyed);
}
"""


@pytest.mark.parametrize("option", ["--eh-frame", "--eh-frame=all"])
def test_exceptions_of_a_loaded_library(option, build, tmp_path):
    (tmp_path / "p.cc").write_text(PLUGIN)
    (tmp_path / "h.cc").write_text(HOST)
    run(["g++", "-O2", "-fPIC", "-shared", "-o", tmp_path / "was.so", tmp_path / "p.cc"])
    run(["g++", "-O2", "-pthread", "-o", tmp_path / "host", tmp_path / "h.cc", "-ldl"])
    for name in ("was.so", "host"):
        run([build / "etch", "rewrite", option, "-o", tmp_path / f"new-{name}", tmp_path / name])
    # Each round: 21 objects three times, a throw that the host catches, one that the library does.
    assert {run([tmp_path / host, tmp_path / so]).stdout for host in ("host", "new-host") for so in ("was.so", "new-was.so")} == {f"{3 * (63 + 1000 + 70000)}\n"}


@pytest.mark.long
def test_size_is_at_most_that_of_gcc(build, tmp_path):
    """SQLite's FDEs by etch, made from the code alone, against gcc's."""
    # Half a minute of a processor's time, which a machine busy with other tests may take long to give.
    run(["gcc", "-O1", "-DSQLITE_OMIT_JSON", "-fPIC", "-S", "-o", tmp_path / "with.s", fetch("sqlite") / "sqlite3.c"], timeout=4 * TIMEOUT)
    # The same code without .eh_frame: what says it is left out. Compiled once, which takes most of this test.
    (tmp_path / "without.s").write_text(re.sub(r"(?m)^\t\.cfi_.*\n", "", (tmp_path / "with.s").read_text()))
    for name in ("with", "without"):
        run(["gcc", "-shared", "-o", tmp_path / name, tmp_path / f"{name}.s"])
    run([build / "etch", "rewrite", "--eh-frame", tmp_path / "without"])
    assert len(sections(tmp_path / "without")[".eh_frame"][1]) <= len(sections(tmp_path / "with")[".eh_frame"][1])
    # Readers have space for one state, or two; OpenTelemetry's profiler gives up the file at the third.
    for fde in (x for x in unwind_rows.elf_entries(tmp_path / "without") if isinstance(x, unwind_rows.FDE)):
        names = [instruction_name(x.opcode) for x in fde.instructions]
        stack = [x for x in names if x in ("DW_CFA_remember_state", "DW_CFA_restore_state")]
        assert stack == stack[:2] * (len(stack) // 2)


def test_parts_share_an_fde(build, tmp_path):
    """gcc's cold parts begin with the frame that jumps bring: with one FDE for those in a row, not one each."""
    one = "int f%d(char *p) { int s = 0; for (; *p; p++) { s += g(p); if (s == %d) s += h(p + s); } return s; }\n"
    (tmp_path / "t.c").write_text("int g(char *);\n__attribute__((cold)) int h(char *);\n" + "".join(one % (i, i) for i in range(30)))
    for name, flags in {"with": [], "without": NO_CFI}.items():
        run(["gcc", "-O2", "-fPIC", "-shared", "-nostartfiles", *flags, "-s", "-o", tmp_path / name, tmp_path / "t.c"])
    run([build / "etch", "rewrite", "--eh-frame", tmp_path / "without"])
    count = [sum(isinstance(x, unwind_rows.FDE) for x in unwind_rows.elf_entries(tmp_path / name)) for name in ("with", "without")]
    assert count[0] >= 60 and 30 <= count[1] < 40, count


SHARED_TAIL = """#include <etch/imv.h>
#include <stdio.h>
ETCHED int v = 3;
int other = 4;
int fa(void), fb(void);
__asm__(".text\\n\\t.p2align 4\\nfa:\\tlea v(%rip), %rax\\n\\tjmp g\\n\\t.p2align 4\\ng:\\tmovl (%rax), %ecx\\n\\tmovl %ecx, %eax\\n\\tret\\n"
	"\\t.p2align 4\\nfb:\\tpush %rbx\\n\\tlea other(%rip), %rax\\n\\tcall g\\n\\tpop %rbx\\n\\tret\\n");
int main(void) { printf("%d %d\\n", fa(), fb()); return 0; }
"""


def test_sites_do_not_depend_on_new_fdes(build, tmp_path):
    """Where functions begin is asked of the linker's FDEs, not of those of an earlier run: else the object would escape in
    the second, by a jump out of what was one function in the first."""
    (tmp_path / "t.c").write_text(SHARED_TAIL)
    run(["gcc", "-O2", *NO_CFI, "-I", ROOT / "lib/include", "-s", "-o", tmp_path / "t", tmp_path / "t.c", build / "libetch.a", "-pthread"])
    for args in (["--eh-frame"], ["--no-cfi", "--eh-frame"], ["--sframe"], ["--eh-frame=all"]):
        run([build / "etch", "rewrite", *args, "-o", tmp_path / "once", tmp_path / "t"])
        run([build / "etch", "rewrite", *args, "-o", tmp_path / "twice", tmp_path / "once"])
        assert (tmp_path / "once").read_bytes() == (tmp_path / "twice").read_bytes(), args


def test_objects_and_sidecars_are_refused(build, tmp_path):
    (tmp_path / "t.c").write_text("int f(void) { return 1; }")
    run(["gcc", "-c", "-o", tmp_path / "t.o", tmp_path / "t.c"])
    assert "object file" in run([build / "etch", "rewrite", "--eh-frame", tmp_path / "t.o"], ok=2).stderr
    assert "cannot be combined" in run([build / "etch", "rewrite", "--eh-frame", "--sidecar", tmp_path, "/usr/bin/true"], ok=2).stderr
