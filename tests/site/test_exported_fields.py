# SPDX-License-Identifier: MIT
"""An exported object may be stored to by a module that nobody has seen. Its fields are armed where a read-only page
guards them, not on a page that stays writable: there is no proof of them, unless --closed says that there is no such
module."""
import pytest

from conftest import run

HOST = """
#include <etch/imv.h>
#include <dlfcn.h>
#include <stdio.h>
struct cfg { int level; int timeout; unsigned counter; };
MARK struct cfg cfg = { 1, 10 };
__attribute__((noinline)) int level(void) { COUNT; return cfg.level + cfg.timeout; }
int main(int argc, char **argv)
{
	printf("sync %d\\n", etch_sync(&cfg, sizeof cfg));
	void *h = argc > 1 ? dlopen(argv[1], RTLD_NOW) : 0;
	void (*f)(int) = h ? (void (*)(int))dlsym(h, "plug_set") : 0;
	if (f)
		f(5);
	printf("memory %d code %d verify %ld\\n", *(volatile int *)&cfg.level + 10, level(), etch_verify(0, 0));
	return 0;
}
"""
PLUG_IN = "struct cfg { int level, timeout; unsigned counter; };\nextern struct cfg cfg;\nvoid plug_set(int v) { cfg.level = v; }\n"
WHY = "exported: another module may store to it; --closed says that none does"


def host(flow, count, mark="ETCHED", ld=("-rdynamic",), rewrite=(), name="host"):
    o = flow.compile(flow.source(HOST, "host.c"), ["-O2", "-g", f"-DCOUNT={count}", f"-DMARK={mark}"], f"{name}.o")
    exe = flow.link([o], list(ld), name)
    return exe, flow.rewrite(exe, args=["-v", *rewrite]).stderr


def armed(flow, exe):
    return {r["field"]: (r["armed"], r["because"]) for r in flow.inspect("fields", exe)["fields"]}


def test_fields_beside_a_counter(flow):
    exe, said = host(flow, "cfg.counter++")
    f = armed(flow, exe)
    assert f["level"] == f["timeout"] == ("no", WHY) and f["counter"][0] == "no", f
    assert f"note: cfg: {WHY}" in said
    plug = flow.compile(flow.source(PLUG_IN, "plug.c"), ["-O2", "-fPIC"])
    run([flow.cc, "-shared", "-o", flow.tmp / "plug.so", plug])
    assert run([exe, flow.tmp / "plug.so"]).stdout == "sync 0\nmemory 15 code 15 verify 0\n"


@pytest.mark.parametrize("how", ["closed", "hidden", "not exported"])
def test_nobody_else_can_store(flow, how):
    exe, said = host(flow, "cfg.counter++", 'ETCHED __attribute__((visibility("hidden")))' if how == "hidden" else "ETCHED",
                     [] if how == "not exported" else ["-rdynamic"], ["--closed"] if how == "closed" else [])
    f = armed(flow, exe)
    assert f["level"] == f["timeout"] == ("yes", None) and "exported" not in said, f
    assert run([exe]).stdout == "sync 0\nmemory 11 code 11 verify 0\n"


def test_a_page_that_is_armed_as_a_whole_guards(flow):
    exe, _ = host(flow, "(void)0")
    assert armed(flow, exe) == {None: ("guarded", WHY)}
    assert run([exe]).stdout == "sync 0\nmemory 11 code 11 verify 0\n"


def test_shared_and_dense_objects(flow):
    for mark in "ETCHED_SHARED", "ETCHED_DENSE":
        for count in "cfg.counter++", "(void)0":
            exe, _ = host(flow, count, mark)
            f = armed(flow, exe)
            guarded = mark == "ETCHED_SHARED" and count == "(void)0"  # all of its page is armed with it
            assert {a for a, _ in f.values()} == {"guarded" if guarded else "no"}, (mark, count, f)
            assert count == "(void)0" or f["level"] == ("no", WHY), (mark, count, f)
            closed, _ = host(flow, count, mark, rewrite=["--closed"], name="closed")
            assert {a for a, _ in armed(flow, closed).values()} >= {"yes"}


PAGES = """
#include <etch/imv.h>
struct cfg { int first; unsigned counter; int n[1022]; int middle, m[1023]; int last; };
ETCHED struct cfg cfg = { 1 };
int read_cfg(void) { return cfg.first + cfg.middle + cfg.last; }
void count_cfg(void) { cfg.counter++; }
"""


def test_only_pages_with_a_load_are_given_up(flow):
    o = flow.compile(flow.source(PAGES, "pages.c"), ["-O2", "-g", "-fPIC"])
    lib = flow.link([o], ["-shared"], "pages.so")
    flow.rewrite(lib)
    f = armed(flow, lib)
    assert {n: f[n][0] for n in ("first", "middle", "last", "counter")} == {
        "first": "no", "middle": "guarded", "last": "guarded", "counter": "no"}, f
