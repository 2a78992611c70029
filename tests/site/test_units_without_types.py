# SPDX-License-Identifier: MIT
"""-g1 describes functions without their arguments and results: gcc all functions, clang those that are called. What DWARF does
not say must not count as "takes no arguments" or "returns nothing", or stores through passed addresses are not seen."""
import pytest

from conftest import run

PROGRAM = """
#include <etch/imv.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>
ETCHED_DENSE int passed = 1; ETCHED_DENSE int status = 2; ETCHED_DENSE int returned = 3; ETCHED_DENSE int other = 4; ETCHED_DENSE int quiet = 5;
#define ALONE __attribute__((noinline, used))
void put(int *p, int v); int *keep(int *p); int *which(void);
ALONE int *returns(void) { return &returned; }
ALONE void shown(const char *w) { printf("%s %d %d %d %d %d\\n", w, passed, status, returned, other, quiet); }
int main(int argc, char **argv)
{
	pid_t child = fork();
	(void)argv;
	if (!child)
		_exit(argc);
	shown("start");
	int err = etch_sync_all();
	if (wait(&status) != child)
		perror("wait");
	put(&passed, argc + 10);
	*which() = argc + 20;
	*keep(&other) = argc + 30;
	shown("after");
	return err || etch_verify(0, 0) ? 9 : 0;
}
"""
OTHERS = """
void put(int *p, int v) { *p = v; }
int *keep(int *p) { return p; }
int *returns(void);
int *which(void) { return returns(); }
"""
WANT = "start 1 2 3 4 5\nafter 12 512 22 32 5\n"


@pytest.mark.parametrize("debug", ["-g1", "-g", "-g0", "-gsplit-dwarf -g1"])
@pytest.mark.parametrize("level", ["-O0", "-O1", "-O2", "-O3", "-O2 -flto"])
def test_stores_through_what_is_passed(flow, level, debug):
    flags = [*level.split(), *debug.split(), "-Wno-unused-result"]
    objects = [flow.compile(flow.source(PROGRAM, "main.c"), flags), flow.compile(flow.source(OTHERS, "others.c"), flags)]
    exe = flow.link(objects, [*flags, *(["-fuse-ld=lld"] if flow.cc == "clang" and "lto" in level else [])], "program")
    flow.rewrite(exe)
    p = run([exe, "x"])
    assert (p.returncode, p.stdout, p.stderr) == (0, WANT, "")
    armed = {r["object"] for r in flow.inspect("fields", exe)["fields"] if r["armed"] == "yes"}
    assert armed & {"passed", "status", "returned", "other"} == set()
    assert "quiet" in armed or debug != "-g" or "lto" in level


def test_some_units_without_types(flow):
    """The units of one program may differ; a declaration that has its arguments counts, wherever it is."""
    objects = [flow.compile(flow.source(PROGRAM, "main.c"), ["-O2", "-g1", "-Wno-unused-result"]),
               flow.compile(flow.source(OTHERS, "others.c"), ["-O2", "-g"])]
    exe = flow.link(objects, ["-O2"], "program")
    flow.rewrite(exe)
    assert run([exe, "x"]).stdout == WANT
