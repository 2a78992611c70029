# SPDX-License-Identifier: MIT
"""Walks that leave the stack that they began on, by functions that keep their frame by rbp (tests/data/unwind/switches.c), and
walks that begin where no code is (tests/data/unwind/no_code.c); by each of the library's interfaces."""
import itertools
import os
import re

import pytest

from conftest import DATA, INCLUDE, need, run

C = ["-std=gnu11", "-D_GNU_SOURCE", "-g", "-Wall", "-Wextra", "-Werror", f"-I{INCLUDE}"]
# compiler and flags; is it rewritten, or are its tables made at run time?
OWN = {"gcc": (["gcc", "-O2"], False), "rewritten": (["gcc", "-O2", "-fno-pie", "-static", "-Wl,--eh-frame-hdr"], True), "clang": (["clang", "-O1"], True),
       "O0": (["gcc", "-O0", "-fcf-protection"], False)}
OTHERS = {"as it is": {}, "first": {"ETCH_UNWIND_TABLES": "first"}, "pointers": {"ETCH_UNWIND_FRAME_POINTERS": "1"}}


@pytest.fixture(scope="session")
def program(build, once):
    def get(name, kind):
        def make(directory):
            (cc, *flags), rewritten = OWN[kind]
            run([cc, *C, *flags, "-o", directory / name, DATA / "unwind" / f"{name}.c", build / "libetch.a", "-pthread"])
            if rewritten:
                run([build / "etch", "rewrite", "--only", "orc", directory / name])
        return once(f"{name}-{kind}", make) / name
    return get


@pytest.fixture(scope="session")
def client(once):
    """The program by the names of glibc's, libgcc's and libunwind's functions."""
    def get(name):
        return once(f"{name}-client", lambda d: run(["gcc", *C, "-O2", "-DINTERFACES", "-o", d / name, DATA / "unwind" / f"{name}.c",
                                                     "-lunwind", "-lgcc_s", "-pthread"])) / name
    return get


def numbers(out):
    assert out.endswith("done\n"), out
    return list(map(int, re.findall(r"\d+", out)))


@pytest.mark.parametrize("kind", ["gcc", "rewritten"])
def test_stacks_in_every_order(program, kind):
    """Nested up to three deep on four stacks, adjacent or not, from the main stack, a thread and a context, in the place and
    from a handler on a stack below or above. And frames that go round in circles, or into a stack that is gone."""
    longest, walks, most = numbers(run([program("switches", kind)]).stdout)
    assert walks > 4000 and most == 6 and 10 < longest < 2000


@pytest.mark.parametrize("mode", ["as it is", "first"])
def test_stacks_in_every_order_by_other_names(client, build, mode):
    env = {**os.environ, **OTHERS[mode], "LD_PRELOAD": str(build / "libetch-unwind.so.0")}
    walks, most = numbers(run([client("switches")], env=env).stdout)
    assert walks > 3000 and most == 6


@pytest.mark.parametrize("kind", OWN)
def test_no_code(program, kind):
    """Eight ways to twelve places: the caller is found and the status marked, or the walk ends where it did."""
    (tries,) = numbers(run([program("no_code", kind)]).stdout)
    assert tries == 960


@pytest.mark.parametrize("mode", OTHERS)
def test_no_code_by_other_names(client, build, mode):
    env = {**os.environ, **OTHERS[mode], "LD_PRELOAD": str(build / "libetch-unwind.so.0")}
    (tries,) = numbers(run([client("no_code")], env=env).stdout)
    assert tries == 384


def test_a_profile_of_calls_to_no_code(etch, tmp_path):
    """The handler of each fault takes time: its samples go on to the function that called nothing, and are counted."""
    p = run([etch, "profile", "-q", "--", "true"], ok=(0, 2))
    if p.returncode:
        pytest.skip(p.stderr.strip())
    (tmp_path / "spin.c").write_text("""#include <setjmp.h>
#include <signal.h>
#include <stddef.h>
static sigjmp_buf back;
static volatile unsigned long sink;
static void (*volatile nothing)(void);
__attribute__((noinline)) void spin(void) { for (long i = 0; i < 2000000; i++) sink = i; }
static void handler(int sig) { (void)sig; spin(); siglongjmp(back, 1); }
__attribute__((noinline)) void calls_nothing(void) { nothing(); sink++; }
int main(int argc, char **argv)
{
	signal(SIGSEGV, handler);
	for (volatile int i = 0; i < 60; i++)
		if (!sigsetjmp(back, 1))
			argv[argc] == NULL && argc > 1 ? spin() : calls_nothing();
}
""")
    run(["gcc", "-O1", "-o", tmp_path / "spin", tmp_path / "spin.c"])
    tables = []
    for more in ([], ["x"]):
        p = run([etch, "profile", "-o", tmp_path / "folded", "--", tmp_path / "spin", *more])
        tables.append(p.stderr)
        found = [line.rpartition(" ")[0].split(";") for line in (tmp_path / "folded").read_text().splitlines()]
        found = [f for f in found if f[-1] == "spin" and "main" in f]
        assert found and all(("calls_nothing" in f) == (not more) for f in found), found
    samples, marked = (int(re.search(rf"^(\d+) {what}", tables[0], re.M)[1]) for what in ("samples", "stacks have a call to an address"))
    assert samples > 20 and marked > samples / 2
    assert "no code" not in tables[1]


GO = r"""
package main

/*
#include <execinfo.h>
#include <stdio.h>
static __attribute__((noinline)) int inner(void)
{
	void *ips[64];
	int n = backtrace(ips, 64);
	fflush(stdout);
	backtrace_symbols_fd(ips, n, 1);
	puts("");
	fflush(stdout);
	return n;
}
static __attribute__((noinline)) int outer(void) { int n = inner(); __asm__ volatile(""); return n + 1; }
extern int goback(int);
static __attribute__((noinline)) int twice(int x) { int n = goback(x); __asm__ volatile(""); return n + 1; }
*/
import "C"

//export goback
func goback(x C.int) C.int { return C.outer() + x }

//go:noinline
func once(x int) int { return int(C.outer()) + x }

//go:noinline
func again(x int) int { return int(C.twice(3)) + x }

func main() { println(once(1) + again(1) > 0) }
"""


def test_go_callers_of_c(go, build, tmp_path):
    """asmcgocall() switches to the thread's stack; the goroutine's is lower. C, Go, C, Go and the runtime's start."""
    need("gcc")
    (tmp_path / "main.go").write_text(GO)
    (tmp_path / "go.mod").write_text("module x\n\ngo 1.20\n")
    go("build", "-o", "g", cwd=tmp_path)
    if "push   %rbp" not in run(["objdump", "-d", "--disassemble=runtime.asmcgocall.abi0", tmp_path / "g"]).stdout:
        pytest.skip("asmcgocall() of this Go keeps no frame pointer, so that walks end there (Go 1.19)")
    run([build / "etch", "rewrite", "--only", "orc", tmp_path / "g"])
    out = run([tmp_path / "g"], env={**os.environ, "LD_PRELOAD": str(build / "libetch-unwind.so.0")}).stdout
    symbols = sorted((int(a, 16), n) for a, _, n in (line.split(maxsplit=2) for line in run(["nm", tmp_path / "g"]).stdout.splitlines() if line[0] != " "))

    def name(address):
        return [n for a, n in symbols if a <= address][-1]
    stacks = [[name(int(a, 16) - 1) for a in re.findall(r"\[0x([0-9a-f]+)\]", part)] for part in out.split("\n\n") if "[0x" in part]
    assert len(stacks) == 2
    wanted = [["inner", "outer", "runtime.asmcgocall.abi0", "main.once", "main.main", "runtime.main"],
              ["inner", "outer", "runtime.asmcgocall.abi0", "_cgoexp", "crosscall2", "twice", "runtime.asmcgocall.abi0", "main.again",
               "main.main", "runtime.main"]]
    for stack, names in zip(stacks, wanted):
        at = iter(stack)
        assert all(any(f == n or f.startswith(n + "_") for f in at) for n in names), (stack, names)


def test_memcheck_reports_nothing(build, etch, tmp_path):
    """valgrind holds a system call with an address that cannot be read against the program. In the place, in handlers, on other
    stacks; and under the allocation functions of etch heap."""
    need("valgrind")
    exe = tmp_path / "memcheck"
    run(["gcc", *C, "-O1", "-o", exe, DATA / "interfaces" / "memcheck.c", "-pthread"])
    check = ["valgrind", "-q", "--error-exitcode=9", exe]
    for argv, env in ((check, {**os.environ, "LD_PRELOAD": str(build / "libetch-unwind.so.0")}),
                      ([etch, "heap", "-q", "-o", tmp_path / "heap.folded", "--", *check], None)):
        p = run(argv, env=env)
        assert int(re.search(r"(\d+) walks", p.stdout)[1]) > 180
        assert p.stderr == ""


@pytest.fixture(scope="session")
def unloading(build, once):
    """The program and its plugins: without a table, with one of either encoding; with a build-id and without. Of each kind
    there are two that differ in the size of a frame alone, so that without a build-id their headers are the same."""
    def make(d):
        run(["gcc", *C, "-O2", "-o", d / "unloading", DATA / "unwind" / "unloading.c", build / "libetch.a", "-pthread", "-ldl"])
        for known, frame in itertools.product(("sha1", "none"), (400, 480)):
            plain = d / f"plain-{known}-{frame}.so"
            run(["gcc", *C, "-O2", "-fPIC", "-shared", f"-DFRAME={frame}", f"-Wl,--build-id={known}", "-o", plain,
                 DATA / "unwind" / "unloading_plugin.c"])
            for encoding in ("block", "orc"):
                run([build / "etch", "rewrite", "--only", "orc", "--encoding", encoding, "-o", d / f"{encoding}-{known}-{frame}.so", plain])
    return once("unloading", make)


UNLOADED = [f"{table}-{known}" for table in ("plain", "block", "orc") for known in ("sha1", "none")]


@pytest.mark.parametrize("plugin", UNLOADED)
def test_headers_that_cannot_be_read_any_more(unloading, plugin):
    """What one walk was told of a module's first page does not hold for the next: that one ends there, and does not crash."""
    whole, without, again = map(int, run([unloading / "unloading", unloading / f"{plugin}-400.so", "head"]).stdout.split())
    assert whole == again == 6 and without == 1000 - 2  # ETCH_UNWIND_NOTABLE, two frames


@pytest.mark.parametrize("preload", [False, True], ids=["libetch", "preloaded"])
@pytest.mark.parametrize("plugin", UNLOADED)
def test_a_module_that_is_unloaded_during_walks_into_it(build, unloading, plugin, preload):
    """By addresses that are on no stack any more, while it and another are loaded and unloaded by turns and their place is
    mapped anew. Walks from frames inside them use no other file's rows. Preloaded, .eh_frame is read where there is no table."""
    env = {**os.environ, "LD_PRELOAD": str(build / "libetch-unwind.so.0")} if preload else None
    out = run([unloading / "unloading", unloading / f"{plugin}-400.so", "race", "0.4", unloading / f"{plugin}-480.so"], env=env).stdout
    loads, walks, samples, frames, wrong, without = map(int, re.findall(r"\d+", out))
    assert frames == 5 and not wrong
    assert not without or plugin.startswith("plain")  # tables are made at the places of the first plugins only
