# SPDX-License-Identifier: MIT
"""No reader ever sees a value that memory does not hold: what starts unarmed, what
arming protects, and what the compiler must not assume."""
import re
import shutil
import subprocess

import pytest

from conftest import DATA, run, stray

FOLDED = "5613 21 5623\n6627 85 9\n0 2210 6717 0\n1 5\n"
FLAGS = [["-O0"], ["-O2"], ["-O2", "-fPIC"], ["-O2", "-flto"], ["-O3", "-fno-pie"]]


@pytest.mark.parametrize("flags", FLAGS, ids=" ".join)
def test_the_compiler_does_not_take_an_etched_object_for_a_constant(flow, flags, stage):
    ldflags = [*flags, "-fuse-ld=lld"] if flow.cc == "clang" and "-flto" in flags else list(flags)
    ldflags += ["-no-pie"] if "-fno-pie" in flags else []
    exe = flow.program(DATA / "folded.c", stage, flags, ldflags)
    assert run([exe]).stdout == FOLDED


READER = """
#include <etch/imv.h>
#include <stdio.h>
#include <stdlib.h>
ETCHED struct config { int a; int b; } cfg = { 1, 2 };
ETCHED int other = 3;
int cfg_read(void) { return cfg.a * 10 + cfg.b; }
int other_read(void) { return other; }
struct config *cfg_address(void);
void cfg_store(int);
int main(int argc, char **argv)
{
	int mode = argc > 1 ? atoi(argv[1]) : 0;

	setvbuf(stdout, NULL, _IONBF, 0);
	printf("%d", cfg_read());
	if (mode == 0) {
		cfg_store(4);
		printf(" %d %ld", cfg_read(), etch_verify(0, 0));
		printf(" %d", etch_sync(&cfg, sizeof cfg));
		printf(" %d", cfg_read());
		etch_set(&cfg.b, 5);
		printf(" %d %ld\\n", cfg_read(), etch_verify(0, 0));
		return 0;
	}
	if (mode == 1) { /* a store after the program promised there would be none */
		etch_sync(&cfg, sizeof cfg);
		cfg_store(6);
	}
	if (mode == 2) { /* through a pointer, to an object with nothing against it */
		volatile int *p = (int *)strtoul(argv[2], NULL, 16);
		*p = 7;
	}
	if (mode == 3) { /* released: plain stores are lawful again */
		etch_sync(&cfg, sizeof cfg);
		printf(" %d", etch_release(&cfg, sizeof cfg));
		cfg_store(6);
		printf(" %d\\n", cfg_read());
		return 0;
	}
	printf("not stopped %d\\n", cfg_read());
	return 0;
}
"""
STORE = """
struct config { int a; int b; };
extern struct config cfg;
void cfg_store(int v) { cfg.a = v; }
"""
ESCAPE = """
struct config { int a; int b; };
extern struct config cfg;
struct config *cfg_keep = &cfg;
void cfg_store(int v) { ((volatile struct config *)cfg_keep)->a = v; }
"""


def build(flow, second, stage, second_processed=True):
    """READER and a second file, which the object step may never have seen."""
    a = flow.compile(flow.source(READER, "reader.c"), ["-O2", "-g"])
    b = flow.compile(flow.source(second, "second.c"), ["-O2"])
    if stage != "plain":
        flow.rewrite(a, *([b] if second_processed else []))
    exe = flow.link([a, b], ["-no-pie"], f"t-{stage}")
    if stage == "linked":
        flow.rewrite(exe)
    return exe


@pytest.mark.parametrize("processed", [True, False], ids=["object-step", "no-object-step"])
@pytest.mark.parametrize("second", [STORE, ESCAPE], ids=["store", "escape"])
def test_an_object_with_something_against_it_starts_as_loads_until_etch_sync(flow, second, processed):
    exe = build(flow, second, "linked", processed)
    objects = {o["object"]: o for o in flow.inspect("summary", exe)["objects"]}
    assert objects["cfg"]["armed"] == "no" and objects["other"]["armed"] == "yes"
    assert ("stored" if second is STORE else "escapes") in objects["cfg"]["because"]
    assert run([exe]).stdout == "12 42 0 0 42 45 0\n"


def test_without_the_link_step_the_object_steps_facts_do(flow):
    assert run([build(flow, STORE, "object")]).stdout == "12 42 0 0 42 45 0\n"


def test_a_plain_program_keeps_all_promises(flow):
    assert run([build(flow, STORE, "plain")]).stdout == "12 42 0 0 42 45 0\n"


@pytest.mark.parametrize("stripped", [False, True], ids=["symbols", "stripped"])
def test_a_stray_store_stops_the_program_and_says_who_what_and_how(flow, stripped):
    exe = build(flow, STORE, "linked")
    if stripped:
        run(["strip", exe])
    p = stray([exe, "1"], ok=None)
    assert p.returncode == -11 and "not stopped" not in p.stdout
    assert re.search(r"\bcfg\b", p.stderr) and "etch_set" in p.stderr and "etch_release" in p.stderr
    if not stripped:
        assert "cfg_store" in p.stderr


def test_a_store_through_a_pointer_that_nobody_saw_stops_the_program(flow):
    exe = build(flow, STORE, "linked")
    address = next(l.split()[0] for l in run(["nm", exe]).stdout.splitlines() if l.endswith(" other"))
    p = stray([exe, "2", address], ok=None)
    assert p.returncode == -11 and re.search(r"\bother\b", p.stderr) and "main" in p.stderr


def test_etch_release_makes_plain_stores_lawful_again(flow):
    assert run([build(flow, STORE, "linked"), "3"]).stdout == "12 0 62\n"


@pytest.mark.parametrize("second", [STORE, ESCAPE], ids=["store", "escape"])
def test_without_the_link_step_an_object_that_other_files_can_name_starts_as_loads(flow, second):
    # Neither step has seen second.c.
    assert run([build(flow, second, "object", second_processed=False)]).stdout == "12 42 0 0 42 45 0\n"


def test_an_exported_object_starts_as_loads_and_a_scalar_or_hidden_one_does_not(flow):
    text = """
#include <etch/imv.h>
ETCHED int open_to_all = 1;
ETCHED __attribute__((visibility("hidden"))) int hidden = 2;
DEFINE_IMV(int, scalar) = 3;
int sum(void);
int sum(void) { return open_to_all + hidden + imv_read(scalar); }
"""
    o = flow.compile(text, ["-O2", "-fPIC"])
    flow.rewrite(o)
    lib = flow.tmp / "lib.so"
    run([flow.cc, "-shared", "-o", lib, o, f"-L{flow.build}", "-letch"])
    flow.rewrite(lib)
    armed = {x["object"]: (x["armed"], x["because"]) for x in flow.inspect("summary", lib)["objects"]}
    assert armed["open_to_all"][0] == "no" and "exported" in armed["open_to_all"][1]
    assert armed["hidden"][0] == armed["scalar__imv"][0] == "yes"


def test_a_load_wider_than_one_field_follows_a_set_of_either(flow, stage):
    text = """
#include <etch/imv.h>
#include <stdio.h>
#include <string.h>
ETCHED struct { int lo; int hi; short s[4]; } pair = { 1, 2, { 1, 2, 3, 4 } };
__attribute__((noinline)) unsigned long both(void) { unsigned long v; memcpy(&v, &pair, 8); return v; }
__attribute__((noinline)) unsigned long four(void) { unsigned long v; memcpy(&v, pair.s, 8); return v; }
int main(void)
{
	printf("%lx %lx\\n", both(), four());
	etch_set(&pair.hi, 0x77);
	etch_set(&pair.s[1], 0x55);
	printf("%lx %lx\\n", both(), four());
	etch_set(&pair.lo, -1);
	etch_set(&pair.hi, 0);
	etch_set(&pair.s[3], 0);
	etch_set(&pair.s[2], 0);
	printf("%lx %lx %ld\\n", both(), four(), etch_verify(0, 0));
	return 0;
}
"""
    exe = flow.program(text, stage, ["-O2", "-falign-functions=16"])
    assert run([exe]).stdout == (
        "200000001 4000300020001\n7700000001 4000300550001\nffffffff 550001 0\n"
    )
    if stage == "linked":
        wide = [s for s in flow.sites(exe) if s["size"] == "8" and s["object"] == "pair" and s["live"] == "yes"]
        assert len(wide) >= 2, "the 8-byte loads of both functions are sites"
