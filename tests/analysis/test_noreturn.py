# SPDX-License-Identifier: MIT
"""Functions of a file that do not return are found before the first round, so that code which calls them is analysed
once: no more instructions are decoded than objdump finds in the file."""

import json
import re

import pytest

from conftest import run

# Every `worker` calls a function that does not return, with code after the call that other paths lead to. What the
# functions named after it call themselves is known from the start (exit), or only from each other.
SOURCE = """
#include <stdio.h>
#include <stdlib.h>
#define WORKERS W(0) W(1) W(2) W(3) W(4) W(5) W(6) W(7) W(8) W(9)
static __attribute__((noinline, noreturn)) void last(int n) { printf("%d", n); exit(n); }
static __attribute__((noinline, noreturn, cold)) void cold(int n) { puts("cold"); last(n + 1); }
static __attribute__((noinline, noreturn)) void either(int n)
{
	if (n & 1)
		cold(n);
	puts("even");
	last(n);
}
static __attribute__((noinline, noreturn)) void stop(int n) { fprintf(stderr, "%d", n); either(n); }
#define W(i) __attribute__((noinline)) int worker##i(int n) { \\
	if (n == 0x100 + i) stop(i); \\
	n = printf("%d", n * i); \\
	if (n == 0x200 + i) either(n); \\
	while (n & 0x40) { n += getchar(); if (n > 0x1234) break; if (n < i) stop(n); } \\
	return n ^ rand(); }
WORKERS
#undef W
#define W(i) + worker##i(n)
int main(int n, char **v) { return n == 77 && v ? atexit(NULL) : 0 WORKERS; }
"""


@pytest.mark.parametrize("level", ["-O1", "-O2"])
def test_callers_are_analysed_once(etch, tmp_path, level):
    path = tmp_path / "t"
    run(["gcc", level, "-fno-inline", "-fno-ipa-icf", "-s", "-o", path, "-x", "c", "-"], input=SOURCE)
    listed = run(["objdump", "-d", "--no-show-raw-insn", path]).stdout
    instructions = len(re.findall(r"^ +[0-9a-f]+:", listed, re.M))
    count = json.loads(run([etch, "inspect", "summary", "--json", path]).stdout)
    count = int(re.search(r'"instructions": (\d+)', json.dumps(count))[1])
    assert instructions * 0.8 < count <= instructions
