# SPDX-License-Identifier: MIT
"""Generated compares of etched memory (generate_compares.py), feeding jumps, setcc, cmov, adc and sbb: a program whose
sites are all armed must print what the unprocessed one prints, at every value."""
import collections
import os
import sys

import pytest

from conftest import DATA, TESTS, Flow, run

HERE = DATA / "compares"
LONG = os.environ.get("ETCH_TESTS") == "all"
FUNCTIONS = 600 if LONG else 120
SEEDS = range(20) if LONG else range(1)
LEVELS = ["-O0", "-O1", "-O2", "-O3", "-Os"]
PLACES = [("-fPIE", "-pie"), ("-fno-pie", "-no-pie")]


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("level", LEVELS)
def test_same_outcomes(tmp_path, build, cc, level, seed):
    flow = Flow(tmp_path, build, cc)
    number = 100 * seed + 10 * LEVELS.index(level) + (cc == "clang")
    source = tmp_path / "gen.c"
    source.write_text(run([sys.executable, TESTS / "site" / "generate_compares.py", number, FUNCTIONS]).stdout)
    compile_flag, link_flag = PLACES[(number // 10 + number) % 2]
    flags = ["-w", "-fwrapv", level, compile_flag, f"-I{HERE}"]
    objects = [flow.compile(s, flags) for s in (source, HERE / "driver.c")]

    def link(name):
        run([cc, link_flag, "-o", tmp_path / name, *objects, flow.build / "libetch.a", "-pthread"])
        return tmp_path / name

    plain = link("plain")
    want = run([plain]).stdout
    assert want.count("\n") == 60 * FUNCTIONS
    linked = link("linked")
    flow.rewrite(linked)
    stages = [linked]
    if not seed:
        flow.rewrite(*objects)
        stages.append(link("object"))
    for program in stages:
        for sealed in ([], ["seal"]):
            r = run([program, *sealed])
            assert r.stdout == want, (program, sealed)
            info = {k: int(v) for k, v in (w.split("=") for w in r.stderr.split())}
            assert info["verify"] == 0
        assert info["armed"] > 0.8 * info["sites"]  # sealed: all but 64-bit values that do not fit
    forms = collections.Counter(s["form"].rstrip("0123456789") for s in flow.sites(linked) if s["kind"] == "load")
    assert sum(forms[f] for f in ("cmpi", "testi", "cmpr")) >= (0 if level == "-O0" else FUNCTIONS // 5), forms


POINTERS = """
#include <etch/imv.h>
#include <stdio.h>
#include <stdlib.h>
static int one = 1, two = 2;
ETCHED_SHARED static int *p = &one;
ETCHED_SHARED static int *q;
static int __attribute__((noinline)) both(void) { return *p + 10 * *q; }
static void say(void)
{
	struct etch_info i = { .size = sizeof(i) };

	etch_info(&i);
	printf("%lu %lu %lu %ld %d\\n", i.armed, i.loads, i.unfit, etch_verify(0, 0), both());
}
int main(int argc, char **argv)
{
	int *heap = malloc(100), far_away = 5;

	*heap = 3;
	q = &two;
	if (etch_sync(&p, sizeof(p)) || etch_sync(&q, sizeof(q)))
		return 1;
	say();
	if (etch_set(&p, heap) || etch_set(&q, &one))
		return 2;
	say();
	if (etch_set(&q, &far_away)) /* the stack: out of reach */
		return 3;
	say();
	if (etch_set(&q, &two))
		return 4;
	say();
	return argc > 5 ? *argv[5] : 0;
}
"""


@pytest.mark.parametrize("how", [["-pie"], ["-no-pie"]])
def test_pointers_near_the_code(flow, how):
    """Static and heap pointers become immediates in a PIE by lea; what is out of reach is a load, and counted."""
    out = flow.program(flow.source(POINTERS, "near.c"), "linked", ["-O2", "-fno-pie" if how == ["-no-pie"] else "-fPIE"], how)
    assert run([out]).stdout.splitlines() == ["2 0 0 0 21", "2 0 0 0 13", "1 1 1 0 53", "2 0 0 0 23"]


UNFIT = """
#include <etch/imv.h>
#include <stdio.h>
DEFINE_IMV(long, big) = 1;
static void say(void)
{
	struct etch_info i = { .size = sizeof(i) };

	etch_info(&i);
	printf("%lu %lu %lu %ld\\n", i.armed, i.loads, i.unfit, imv_read(big) + imv_read(big));
}
int main(void)
{
	say();
	imv_set(big, 1l << 40);
	say();
	imv_set(big, -1);
	say();
	return 0;
}
"""


def test_values_that_do_not_fit_are_counted(flow):
    rows = [[int(w) for w in line.split()] for line in run([flow.program(UNFIT)]).stdout.splitlines()]
    n = rows[0][0]  # clang inlines say()
    assert n >= 2 and rows == [[n, 0, 0, 2], [0, n, n, 2**41], [n, 0, 0, -2]]


def test_inspect_says_which_values_do_not_fit(flow):
    """A value of the file alone: a pointer, which the dynamic linker writes, may be near the code."""
    text = UNFIT.replace("DEFINE_IMV(long, big) = 1;", "DEFINE_IMV(long, big) = 1l << 40;\nDEFINE_IMV(long, small) = -5;\n"
                         "static int x; DEFINE_IMV(int *, near) = &x;").replace(
        "int main(void)\n{", "int main(void)\n{\n\tif (imv_read(small) != -5 || *imv_read(near)) return 1;")
    exe = flow.program(text)
    states = {(s["object"].split("__")[0], s["state"]) for s in flow.inspect("sites", exe)["sites"] if s["kind"] == "load"}
    assert states == {("big", "unfit"), ("small", "immediate"), ("near", "load")}
    n = sum(s["object"] == "big__imv" for s in flow.inspect("sites", exe)["sites"] if s["kind"] == "load")
    assert flow.inspect("summary", exe)["unfit"] == n
    assert f"are immediates now; {n} hold values that do not fit\n" in run([flow.etch, "inspect", "summary", exe]).stdout
    assert f"\nunfit\t{n}\n" in run([flow.etch, "inspect", "summary", "--format", "tsv", exe]).stdout


ANSWER = """
#include <etch/imv.h>
#include <stdio.h>
ETCHED struct { long small, wide; int stored, held; } conf = { 1, 1, 1, 1 };
ETCHED_SHARED long other = 1;
#define N __attribute__((noinline))
N long small(void) { return conf.small; }
N long wide(void) { return conf.wide; }
N long wide_again(void) { return conf.wide + 1; }
N int stored(void) { return conf.stored; }
N int held(void) { return conf.held; }
N long others(void) { return other; }
N void store(int v) { conf.stored = v; }
static void say(const char *what)
{
	struct etch_state s = { .size = sizeof(s) };
	int err = etch_state(&conf, sizeof(conf), &s);

	printf("%s: %d %lu %lu %lu %lu %lu: %s\\n", what, err, s.sites, s.armed, s.unfit, s.unarmed, s.fixed, s.text);
}
int main(int argc, char **argv)
{
	struct { size_t size; unsigned long sites; } old = { sizeof(old), 9 };
	struct etch_state s = { .size = sizeof(s) };
	int plain = 0;

	(void)argv;
	conf.wide = 0x123456789abcL + argc;
	printf("%d ", etch_sync(&conf, sizeof(conf)));
	say("after etch_sync");
	printf("%d ", etch_set(&conf.wide, 5));
	say("after etch_set");
	store(argc);
	printf("%d ", etch_state(&conf.wide, sizeof(conf.wide), (struct etch_state *)&old));
	printf("%lu %d ", old.sites, etch_state_bytes(&plain, 4, &s) == ETCH_ENOTETCHED);
	printf("%d ", etch_state(&other, sizeof(other), &s));
	printf("%d\\n", s.text[0]);
	return small() + wide() + wide_again() + stored() + held() + others() == 15 ? 0 : 1;
}
"""


def test_the_answer_of_a_sync_says_why_sites_are_loads(flow):
    """Two hold a value that does not fit, one reads a field that is stored to later; others' sites do not count."""
    none = run([flow.program(ANSWER, "plain", ["-O2", "-g"])]).stdout.splitlines()
    assert none == ["0 after etch_sync: 0 0 0 0 0 0: 0 sites", "0 after etch_set: 0 0 0 0 0 0: 0 sites", "0 0 1 0 48"]
    exe = flow.program(ANSWER, "linked", ["-O2", "-g"])
    lines = run([exe]).stdout.splitlines()
    assert lines[0] == ("0 after etch_sync: 0 5 2 2 1 0: 5 sites: 2 are immediates; 2 hold values that do not fit; 1 read what is "
                        "not armed")
    assert lines[1] == "0 after etch_set: 0 5 4 0 1 0: 5 sites: 4 are immediates; 1 read what is not armed"
    assert lines[2] == "0 2 1 0 49"


ADDRESSES = """
#include <etch/pv.h>
#include <stdio.h>
typedef int function(int);
int one(int x) { return x + 1; }
int two(int x) { return x + 2; }
static int cells[4];
struct ops { function *f; int *cell; long after; };
DEFINE_PV_OPS(struct ops, ops) = { one, cells, 3 };
__attribute__((noinline)) int is_one(void) { return ops.f == one; }
__attribute__((noinline)) int is_cell(void) { return ops.cell == &cells[1]; }
__attribute__((noinline)) int is_after(void) { return ops.after == 4; }
static void say(int err) { printf("%d %d %d %d %ld\\n", err, is_one(), is_cell(), is_after(), etch_verify(0, 0)); }
int main(void)
{
	say(etch_sync(&ops, sizeof(ops)));
	say(etch_set(&ops.f, two) | etch_set(&ops.cell, &cells[1]) | etch_set(&ops.after, 4));
	say(etch_set(&ops.f, one) | etch_set(&ops.cell, &cells[2]) | etch_set(&ops.after, 5));
	return 0;
}
"""


@pytest.mark.parametrize("stage", ["object", "linked"])
def test_a_constant_that_the_linker_writes(flow, stage):
    """Without PIE a compare holds the address of a function or an object: an object file does not know it yet."""
    exe = flow.program(flow.source(ADDRESSES, "addresses.c"), stage, ["-O2", "-fno-pie"], ["-no-pie"])
    assert run([exe]).stdout.splitlines() == ["0 1 0 0 0", "0 0 1 1 0", "0 1 0 0 0"]
    armed = {s["function"].split("+")[0] for s in flow.inspect("sites", exe)["sites"] if s["live"] in ("yes", "swap")}
    assert stage == "object" or armed >= {"is_one", "is_cell", "is_after"}, armed
    lines = run([flow.etch, "inspect", "sites", flow.tmp / f"t-{flow.cc}-{stage}-0.o"]).stdout.splitlines()
    wait = "no: the linker writes its constant: only the link step knows it"
    assert {line.split("+0x")[0].split()[-1] for line in lines if wait in line} == {"is_one", "is_cell"}, lines
