# SPDX-License-Identifier: MIT
"""An address may be meant for an object beside the one that has it: compilers fold the constant part of an index into
it, and where an array ends another object begins. The judge is the CPU: the program that was never rewritten, and marks
nothing, says what is right."""
import re
import subprocess

import pytest

from conftest import Flow, run

PROGRAM = """
#include <etch/imv.h>
#include <stdio.h>
#define N __attribute__((noinline))
struct pair { long x, y; };
M_before int before[100] = { 1 };
M_table int table[26] = { 2, 3 };
M_behind int behind[100] = { 4 };
M_own struct { long a; int list[8]; } own = { 5, { 6 } };
M_one long one = 9;
M_arr long arr[12] = { 1, 2 };
M_last long last[4] = { 7, 8, 9, 10 };
M_point struct pair point = { 1, 2 };
M_path struct pair path[6] = { { 3, 4 } };
M_ends long ends[3] = { 1, 2, 3 };
M_after int after = 77;
M_text char text[64] = "abc";
M_wide int wide[300] = { 3 };
N long sum(void)
{
	return before[1] + 3 * table[1] + 5 * behind[1] + 7 * own.a + 11 * own.list[2] + 13 * one + 17 * arr[1] +
	       19 * last[3] + 23 * point.y + 29 * path[1].y + 31 * ends[2] + 37 * after + 41 * text[2] + 43 * wide[9];
}
N void count(const char *s) { while (*s) table[*s++ - 'a']++; }
N void number(int n) { for (int i = 0; i < n; i++) own.list[i] = i + 2; }
N void shift(int n) { for (int i = 1; i <= n; i++) arr[i - 1] = i; }
N void down(int n, long v) { long *p = last + 4; while (n--) *--p = v; }
N void move(int i, long v) { path[i - 1].y = v; }
N void fill(long *end, int n) { while (n--) *--end = 5; }
N void end_text(int n) { text[n - 1] = 1; }
N void widen(int i) { wide[i - 300] = i; }
int main(int argc, char **argv)
{
	printf("%ld", sum());
	number(argc + 4);
	count(argc > 1 ? argv[1] : "bb");
	shift(argc + 2);
	down(argc, 50);
	move(argc + 1, 4);
	fill(ends + 3, argc);
	end_text(argc + 2);
	widen(308 + argc);
	printf(" %ld %ld\\n", sum(), etch_verify(0, 0));
	return 0;
}
"""


@pytest.fixture
def flow_in(tmp_path, build):
    return lambda cc: Flow(tmp_path, build, cc)


OBJECTS = re.findall(r"^M_(\w+)", PROGRAM, re.M)
LINK = {"-fPIE": "-pie", "-fno-pie": "-no-pie"}


def outcome(flow, mark, flags, marked, steps):
    """What a program prints of which these objects are marked."""
    marks = [f"-DM_{o}={mark if o in marked else ''}" for o in OBJECTS]
    o = flow.compile(PROGRAM, [*flags, *marks], "t.o")
    if "object" in steps:
        flow.rewrite(o)
    exe = flow.link([o], [LINK[f] for f in flags if f in LINK], "t")
    if "linked" in steps:
        flow.rewrite(exe)
    p = subprocess.run([exe], capture_output=True, text=True)
    return p.stdout or p.stderr


CASES = [(cc, level, place, mark, steps, debug)
         for cc, level, place in [("gcc", "-O2", "-fPIE"), ("gcc", "-O1", "-fno-pie"), ("clang", "-O2", "-fPIE"),
                                  ("clang", "-O3", "-fno-pie")]
         for mark, steps, debug in [("ETCHED_SHARED", "linked", "-g"), ("static ETCHED_SHARED", "object", "-g0"), ("ETCHED_DENSE", "linked", "-g"),
                                    ("static ETCHED_DENSE", "object linked", "-g0"),
                                    ("static ETCHED_SHARED", "object linked", "-g")]]


@pytest.mark.parametrize("case", CASES, ids=lambda c: "-".join(c).replace(" ", "_"))
def test_of_objects_side_by_side_none_keeps_a_stale_value(flow_in, case):
    cc, level, place, mark, steps, debug = case
    flow = flow_in(cc)
    assert outcome(flow, "", ["-O0", place], [], "") == outcome(flow, mark, [level, place, debug], OBJECTS, steps)


@pytest.mark.parametrize("cc,place,name", [("gcc", "-fPIE", "arr"), ("gcc", "-fno-pie", "arr"), ("clang", "-fno-pie", "table"),
                                           ("clang", "-fno-pie", "wide"), ("gcc", "-fPIE", "last")])
@pytest.mark.parametrize("mark", ["ETCHED", "static ETCHED_SHARED", "static ETCHED_DENSE"])
def test_nor_does_an_object_alone_of_which_an_address_is_outside_of_its_section(flow_in, cc, place, name, mark):
    """gcc: lea arr-8(%rip). Taken for no use of arr, the store would end the program."""
    flow = flow_in(cc)
    assert outcome(flow, "", ["-O0", place], [], "") == outcome(flow, mark, ["-O2", place], [name], "linked")


AHEAD = """
/* All of the page before the etched section. */
__attribute__((section("ahead"), aligned(4096))) struct { long a; int other[1022]; } plain = { 1, { 2 } };
"""
OTHER = """
#include <etch/imv.h>
#include <stdio.h>
extern struct { long a; int other[1022]; } plain;
ETCHED int table[26] = { 2, 3 };
__attribute__((noinline)) void count(const char *s) { while (*s) table[*s++ - 'a']++; }
int main(int argc, char **argv)
{
	(void)argv;
	count(argc > 5 ? "x" : "bb");
	for (int i = 0; i < argc; i++)
		plain.other[i]++;
	printf("%d %d %ld\\n", table[1], plain.other[0], etch_verify(0, 0));
	return 0;
}
"""


def test_an_index_whose_address_is_in_a_variable_that_is_not_marked(flow_in):
    flow = flow_in("clang")
    objects = [flow.compile(flow.source(text, name), ["-O2", "-g", "-fno-pie"])
               for name, text in (("ahead.c", AHEAD), ("other.c", OTHER))]
    exe = flow.link(objects, ["-no-pie"])
    flow.rewrite(exe)
    assert run([exe]).stdout == "5 3 0\n"


ARMED = """
#include <etch/imv.h>
#include <stdio.h>
ETCHED_SHARED int hz = 3;
ETCHED_SHARED struct { long size, limit; } conf = { 4, 5 };
ETCHED_SHARED struct { int n; int list[8]; int last; } stored = { 1, { 2 }, 3 };
ETCHED_SHARED int read_only[4] = { 6, 7 };
DEFINE_IMV(char, flag) = 1;
int main(int argc, char **argv)
{
	(void)argv;
	for (int i = 0; i < argc; i++)
		stored.list[i] = i;
	printf("%ld\\n", hz + conf.limit + stored.list[0] + read_only[1] + imv_read(flag));
	return 0;
}
"""


@pytest.mark.parametrize("place", LINK)
def test_an_index_of_an_array_by_its_type_is_about_no_other(flow_in, place):
    flow = flow_in("gcc")
    exe = flow.program(ARMED, flags=["-O2", "-g", place], ldflags=[LINK[place]])
    armed = {o["object"]: o["armed"] for o in flow.inspect("summary", exe)["objects"]}
    assert {k for k, v in armed.items() if v == "yes"} >= {"hz", "conf", "read_only", "flag__imv"}, armed
    assert run([exe]).stdout == "16\n"


BY_REGISTER = """
#include <etch/imv.h>
#include <stdio.h>
ETCHED_SHARED int table[4] = { 6, 7 }; /* gcc places it behind mixed */
ETCHED_SHARED struct { long a, b, c; long list[8]; long last; } mixed = { 1, 2, 3, { 4 }, 5 };
__attribute__((noinline)) void store(long i)
{
	long at;
	__asm__ volatile("lea mixed(%%rip), %0\\n\\t" MOVE USE " " OFF "(%0,%1,8)" OUT : "=&r"(at) : "r"(i) : "memory", "rdx");
}
int main(int argc, char **argv)
{
	(void)argv;
	store(argc);
	printf("%ld\\n", mixed.list[2] + table[1]);
	return 0;
}
"""


@pytest.mark.parametrize("move,off,known", [("", 24, True), ("add $8, %0; ", 16, True), ("add $40, %0; ", -16, True), ("", 16, False),
                                            ("", -8, False), ("add $16, %0; ", 0, False)])
def test_an_index_is_where_address_and_constant_lead_together(flow_in, move, off, known):
    """As of clang: lea object(%rip), %r12 for all uses, then 24(%r12,%rbx,8). Of -8 it may be an array that ends there."""
    flow = flow_in("gcc")
    exe = flow.program(BY_REGISTER, flags=["-O2", "-g", "-fPIE", f'-DMOVE="{move}"', f'-DOFF="{off}"',
                                               '-DUSE="movq $9,"', '-DOUT=""'], ldflags=["-pie"])
    armed = {o["object"]: o["armed"] for o in flow.inspect("summary", exe)["objects"]}
    assert ((armed["table"] == "yes") == known) and armed["mixed"] != "yes", armed
    assert run([exe]).stdout == "7\n"


def test_an_address_that_goes_elsewhere_from_there_may_be_of_any(flow_in):
    """Who gets it may go on: the array in which it begins then says nothing."""
    flow = flow_in("gcc")
    exe = flow.program(BY_REGISTER, flags=["-O2", "-g", "-fPIE", '-DMOVE=""', '-DOFF="24"', '-DUSE="lea"', '-DOUT=", %%rdx; push %%rdx; pop %%rdx"'],
                       ldflags=["-pie"])
    armed = {o["object"]: o["armed"] for o in flow.inspect("summary", exe)["objects"]}
    assert armed["table"] != "yes" and armed["mixed"] != "yes", armed
    assert run([exe]).stdout == "7\n"


def test_an_argument_that_is_an_element_of_an_array_is_about_no_other(flow_in):
    """A function may use the argument in the array in which it begins, by the rules of C."""
    flow = flow_in("gcc")
    exe = flow.program(BY_REGISTER.replace(': "memory"', ': "rdi", "rax", "rcx", "rsi", "r8", "r9", "r10", "r11", "xmm0", "memory"'),
                       flags=["-O2", "-g", "-fPIE", '-DMOVE=""', '-DOFF="24"', '-DUSE="lea"',
                              '-DOUT=", %%rdi; sub $136, %%rsp; call labs@PLT; add $136, %%rsp"'], ldflags=["-pie"])
    armed = {o["object"]: o["armed"] for o in flow.inspect("summary", exe)["objects"]}
    assert armed["table"] == "yes" and armed["mixed"] != "yes", armed
    assert run([exe]).stdout == "7\n"
