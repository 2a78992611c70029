# SPDX-License-Identifier: MIT
"""Tables of settings, { "name", &variable }, whose every store is an etch_set: ETCH_TABLE on the table, and what compilers make of
a loop over a short one, where the addresses of several variables meet in the register of one set."""
import pytest

from conftest import CCS, Flow, run

TABLE = """
#include <etch/imv.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
MARK int work_mem = 4; MARK int debug = 0; MARK int level = 1;
static CONST struct { const char *name; int *var; } table[] ETCH_TABLE = { { "work_mem", &work_mem }, { "debug", &debug } };
ETCH_TABLE static CONST int *const levels[] = { &level };
__attribute__((noinline)) int work(int x) { return debug ? x : x * 2 + work_mem + level; }
__attribute__((noinline)) int set(const char *n, int v)
{
	for (int i = 0; i < 2; i++)
		if (!strcmp(table[i].name, n))
			return etch_set(table[i].var, v);
	return etch_set((int *)levels[0], v);
}
static unsigned long armed(int *p)
{
	struct etch_state s = { .size = sizeof s };
	return etch_state(p, sizeof *p, &s) ? 99 : s.armed;
}
int main(int argc, char **argv)
{
	int err = set("work_mem", atoi(argv[1]));
	for (int i = 0; i < 2; i++)
		err |= etch_sync(table[i].var, sizeof(int));
	err |= etch_sync(&level, sizeof level);
	printf("%d: %lu %lu %lu; %d;", err, armed(ETCH_ADDR(work_mem)), armed(ETCH_ADDR(debug)), armed(ETCH_ADDR(level)), work(argc));
	err = set("work_mem", 64) | set("level", 8);
	printf(" %d: %d, %ld\\n", err, work(argc), etch_verify(0, 0));
}
"""
WANT = "0: 1 1 1; 8; 0: 76, 0\n"


@pytest.mark.parametrize("mark", ["ETCHED", "ETCHED_SHARED", "ETCHED_DENSE"])
@pytest.mark.parametrize("const", ["", "const"])
@pytest.mark.parametrize("cc", CCS)
def test_a_table_that_says_so(tmp_path, build, cc, const, mark):
    for n, (flags, linking) in enumerate([(["-O2"], []), (["-O0", "-g"], []), (["-O2", "-fno-pie"], ["-no-pie"])]):
        flow = Flow(tmp_path, build, cc)
        exe = flow.program(TABLE, "plain", [*flags, f"-DMARK={mark}", f"-DCONST={const}", "-w"], linking, f"t{n}")
        flow.rewrite(exe)
        assert run([exe, 3]).stdout == WANT, flags
        exe = flow.program(TABLE, "linked", [*flags, f"-DMARK={mark}", f"-DCONST={const}", "-w"], linking, f"l{n}")
        assert run([exe, 3]).stdout == WANT, flags


START_UP = """
#include <etch/imv.h>
#include <stdio.h>
MARK int work_mem = 4; MARK int debug = 0;
MARK struct { int pad, limit; unsigned long requests; } g = { 0, 1, 0 };
static struct { const char *name; int *var; int start; } table[] ETCH_TABLE = { { "work_mem", &work_mem, 7 }, { "debug", &debug, 1 }, { "limit", &g.limit, 30 } };
__attribute__((noinline)) int work(int x) { g.requests++; return debug ? x + work_mem + g.limit : -1; }
int main(int argc, char **argv)
{
	(void)argv;
	for (int i = 0; i < 3; i++)
		*table[i].var = table[i].start;         /* plain stores of the set-up, as of default values */
	printf("%d", work(argc));
	int err = etch_sync_all();
	printf(" %d %d", err, work(argc));
	for (int i = 0; i < 3; i++)
		err |= etch_set(table[i].var, table[i].start + 1);
	printf(" %d %d %ld\\n", err, work(argc), etch_verify(0, 0));
	struct etch_info info = { .size = sizeof info };
	etch_info(&info);
	return info.armed < 3;
}
"""


@pytest.mark.parametrize("mark", ["ETCHED", "ETCHED_SHARED", "ETCHED_DENSE"])
@pytest.mark.parametrize("cc", CCS)
def test_what_starts_up_may_store(tmp_path, build, cc, mark):
    """The promise of ETCH_TABLE begins with etch_sync: a program gives its settings their first values by the table, too."""
    for n, flags in enumerate((["-O2", "-g"], ["-O0", "-g"], ["-O2", "-g", "-fno-pie", "-no-pie"])):
        flow = Flow(tmp_path, build, cc)
        for kind in ("plain", "linked"):
            exe = flow.program(START_UP, kind, [*[f for f in flags if f != "-no-pie"], f"-DMARK={mark}", "-w"], flags[3:], f"{kind}{n}")
            if kind == "plain":
                flow.rewrite(exe)
            assert run([exe]).stdout == "38 0 38 0 40 0\n", flags


def test_a_table_without_the_mark(tmp_path, build):
    """Its addresses escape: nothing proves that nobody stores through them."""
    flow = Flow(tmp_path, build, "gcc")
    exe = flow.program(TABLE.replace("ETCH_TABLE", ""), "linked", ["-O0", "-DMARK=ETCHED_DENSE", "-DCONST=", "-w"])
    assert run([exe, 3]).stdout == WANT.replace("1 1 1;", "0 0 0;")
    assert {r["armed"] for r in flow.inspect("fields", exe)["fields"]} == {"no"}


CHOICE = """
#include <etch/imv.h>
ETCHED_DENSE int a = 1, b = 2, c = 3;
int *leak, got;
extern void other(int *);
int reads(void) { return a + b + c; }
__attribute__((noinline)) int by_branch(int x, int v)
{
	int *p;
	if (x > 3) { p = &a; got++; __asm__ volatile("" : "+m"(got)); }
	else if (x > 1) { p = &b; got += v; __asm__ volatile("" : "+m"(got)); }
	else { p = &c; got += 2; __asm__ volatile("" : "+m"(got)); }
	AFTER_JOIN
	int err = etch_set(p, v);
	AFTER_SET
	return err;
}
#ifdef CHOICE
__attribute__((noinline)) int by_choice(int x, int v) { return etch_set(x ? &a : &b, v); }
int main(int argc, char **argv) { (void)argv; return by_choice(argc, 1) | (reads() != 6); }
#endif
"""
USES = {
    "only the set": ("", "", True),
    "a store before it": ("*p = 7;", "", False),
    "a store after it": ("", "*p = v + 1;", False),
    "kept after it": ("", "leak = p;", False),
    "passed on before it": ("__asm__ volatile(\"\" : : \"r\"(p) : \"memory\");", "", True),  # reads nothing that counts
    "returned": ("", "return (int)(long)p;", False),
}


@pytest.mark.parametrize("flags", ["-O1", "-O2", "-O2 -fno-pie"])
@pytest.mark.parametrize("cc", CCS)
def test_addresses_that_meet_in_the_register_of_a_set(tmp_path, build, cc, flags):
    flow = Flow(tmp_path, build, cc)
    for n, (what, (join, after, proven)) in enumerate(USES.items()):
        text = CHOICE.replace("AFTER_JOIN", join).replace("AFTER_SET", after)
        o = flow.compile(text, [*flags.split(), "-w"], f"c{n}.o")
        flow.rewrite(o)
        escapes = {r["object"] for r in flow.sites(o) if r["kind"] in ("escape", "store")}
        assert escapes == (set() if proven else {"a", "b", "c"}), (what, escapes)


@pytest.mark.parametrize("flags", ["-O1", "-O2", "-O2 -fno-pie"])
@pytest.mark.parametrize("cc", CCS)
def test_a_set_of_one_of_two(tmp_path, build, cc, flags):
    """By a conditional move. In a linked file, since the register may be one that a call passes an argument in."""
    flow = Flow(tmp_path, build, cc)
    text = CHOICE.replace("AFTER_JOIN", "").replace("AFTER_SET", "")
    exe = flow.program(text, "plain", [*flags.split(), "-DCHOICE", "-w"], ["-no-pie"] if "pie" in flags else [])
    flow.rewrite(exe)
    assert {r["object"] for r in flow.sites(exe) if r["kind"] in ("escape", "store")} == set()
    run([exe])
