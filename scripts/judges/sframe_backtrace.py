#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""glibc's backtrace() on what `etch rewrite --sframe=2` wrote: a glibc from 2.42 on, configured with --enable-sframe.

    scripts/judges/sframe_backtrace.py --glibc DIR [--stops 1000] [PROGRAM ARGS...]

DIR has its ld-linux-x86-64.so.2 and libc.so.6 (and libm.so.6, if PROGRAM wants it). Its reader knows version 2 only: the
.sframe of the libraries, libc.so.6 too, is written by etch, so that no frame needs libgcc and .eh_frame.

Without PROGRAM: a C program calls backtrace() 2,021 times: under qsort, in signal handlers, with alloca, in a thread. The
compiler's .eh_frame, read by libgcc, is the judge: `judge` has it, `bare` has it removed, `seen` is bare rewritten.
With PROGRAM: bare and seen, from a signal handler at random times of its processor time (tests/data/unwind/own_stops.c); a stack
is complete if it ends in the program's entry code. Of a program that has .eh_frame (`both`), backtrace() and
_Unwind_Backtrace() are compared at each stop: frames by address.
"""

import argparse
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from elftools.elf.elffile import ELFFile
from stack_readers import ENTRY, ETCH, STOPS, run, without_eh_frame

LOADER = "ld-linux-x86-64.so.2"
SOURCE = r"""
#include <dlfcn.h>
#include <execinfo.h>
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static unsigned seed = 1;
static unsigned next(void) { return (seed = seed * 1103515245 + 12345) >> 16; }
static void *image;

__attribute__((noinline)) static void show(void)
{
	void *a[256];
	int i, n = backtrace(a, 256);
	Dl_info d;

	for (i = 0; i < n; i++)
		if (dladdr(a[i], &d))
			printf("%s+%lx ", d.dli_fbase == image ? "program" : strrchr(d.dli_fname, '/') + 1, (long)((char *)a[i] - (char *)d.dli_fbase));
		else
			printf("? ");
	puts("");
}
static void handler(int sig) { (void)sig, show(); }

static long go(int depth);
__attribute__((noinline)) static long plain(int depth) { return go(depth) + depth; }
__attribute__((noinline)) static long array(int depth)
{
	volatile char pad[300];

	pad[depth] = (char)depth;
	return go(depth) + pad[depth];
}
__attribute__((noinline)) static long variable(int depth)
{
	volatile char *p = __builtin_alloca(16 + next() % 500);

	p[0] = 1;
	return go(depth) + p[0];
}
__attribute__((noinline)) static long registers(int depth)
{
	long a = next(), b = next(), c = next(), d = next(), e = next(), f = next();

	a += go(depth);
	return a ^ b * c ^ d * e ^ f;
}
__attribute__((noinline)) static long many(int depth, ...)
{
	va_list ap;
	long x = depth;

	va_start(ap, depth);
	while (depth && (x = va_arg(ap, long)))
		x += go(depth);
	va_end(ap);
	return x;
}
static int depth_now;
static int compare(const void *a, const void *b)
{
	const int *x = a, *y = b;

	if (depth_now > 0) {
		int depth = depth_now;

		depth_now = 0;
		go(depth);
	}
	return *x - *y;
}
__attribute__((noinline)) static long sorted(int depth)
{
	int v[] = {5, 3, (int)next(), 1};

	depth_now = depth;
	qsort(v, 4, sizeof(*v), compare);
	return v[0];
}
__attribute__((noinline)) static long go(int depth)
{
	static long (*const of[])(int) = {plain, array, variable, registers, sorted};

	if (depth > 0)
		return next() % 6 == 5 ? many(depth - 1, 1l, 0l) : of[next() % 5](depth - 1);
	if (next() % 4 == 0)
		raise(SIGUSR1);
	else
		show();
	return 1;
}
static void *thread(void *n)
{
	long i;

	for (i = 0; i < (long)n; i++)
		go((int)(next() % 30));
	return NULL;
}
int main(void)
{
	pthread_t t;
	Dl_info d;

	dladdr((void *)&image, &d);
	image = d.dli_fbase;
	signal(SIGUSR1, handler);
	thread((void *)2000l);
	pthread_create(&t, NULL, thread, (void *)1000l);
	pthread_join(t, NULL);
	return 0;
}
"""


def rewritten(path, out):
    """Its .sframe of version 2, if need be in the place of the assembler's."""
    run([ETCH, "rewrite", "--sframe=2", "-o", out, path])
    return out


class Place:
    """The libraries of a glibc: as they are (plain), and with the .sframe of etch (framed)."""

    def __init__(self, glibc, top):
        self.top, self.plain, self.framed = top, top / "plain", top / "framed"
        self.plain.mkdir()
        self.framed.mkdir()
        for path in sorted(Path(glibc).glob("*.so*")):
            with open(path, "rb") as f:
                if f.read(4) == b"\x7fELF":
                    self.add(path, path.name)
        self.loader = self.plain / LOADER

    def add(self, path, name):
        shutil.copy(path, self.plain / name)
        rewritten(path, self.framed / name)

    def need(self, program):
        """Copies the libraries of a program."""
        text = run([self.loader, "--library-path", f"{self.plain}:/lib/x86_64-linux-gnu:/usr/lib/x86_64-linux-gnu", "--list", program]).stdout
        for found in re.finditer(r"(\S+) => (/\S+)", text):
            if not (self.plain / found.group(1)).exists():
                self.add(found.group(2), found.group(1))

    def command(self, directory, program, args=(), preload=None):
        more = ["--preload", preload] if preload else []
        return ["setarch", "-R", directory / LOADER, "--library-path", directory, *more, program, *args]


def frames_of_program(place):
    """{kind: stacks}, each a list of what dladdr() says."""
    top = place.top
    (top / "t.c").write_text(SOURCE)
    run(["gcc", "-O2", "-D_GNU_SOURCE", "-fomit-frame-pointer", "-fasynchronous-unwind-tables", "-Wl,-z,now", "-o", top / "judge", top / "t.c"])
    without_eh_frame(top / "judge", top / "bare")
    rewritten(top / "bare", top / "seen")
    place.need(top / "judge")
    out = {}
    for kind, directory in (("judge", place.plain), ("bare", place.plain), ("seen", place.framed)):
        out[kind] = [line.split() for line in run(place.command(directory, top / kind)).stdout.splitlines()]
    return out


def differences(one, other):
    """Stacks that are not the same, and their number."""
    return [(a, b) for a, b in zip(one, other, strict=True) if a != b]


def random_stops(place, program, args, stops):
    """{kind: lines of own_stops.c}"""
    top, name = place.top, Path(program).name
    bare, both, seen = (top / f"{name}.{k}" for k in ("bare", "both", "seen"))
    without_eh_frame(program, bare)
    rewritten(bare, seen)
    rewritten(program, both)
    place.need(program)
    run(["gcc", "-O2", "-D_GNU_SOURCE", "-shared", "-fPIC", "-o", place.plain / "stops.so", STOPS])
    rewritten(place.plain / "stops.so", place.framed / "stops.so")
    out = {}
    for kind, directory in ((bare, place.plain), (seen, place.framed), (both, place.framed)):
        lines = top / "lines"
        lines.unlink(missing_ok=True)
        own = ["env", f"OWN_STOPS={lines}", f"COUNT={stops}", f"OWN_BACKTRACE={1 + (kind == both)}"]
        subprocess.run([*own, *map(str, place.command(directory, kind, args, directory / "stops.so"))], stdout=subprocess.DEVNULL,
                       stderr=subprocess.DEVNULL, check=False)
        out[kind.suffix[1:]] = [[int(a, 16) for a in line.split()] for line in lines.read_text().splitlines()]
    return out


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--glibc", required=True)
    parser.add_argument("--stops", type=int, default=1000)
    parser.add_argument("program", nargs=argparse.REMAINDER)
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as temp:
        place = Place(args.glibc, Path(temp))
        if not args.program:
            got = frames_of_program(place)
            for kind in ("bare", "seen"):
                wrong = differences(got["judge"], got[kind])
                print(kind, len(got[kind]), "stacks,", len(wrong), "not as the judge's,", sum(map(len, got[kind])), "frames of", sum(map(len, got["judge"])))
                for a, b in wrong[:3]:
                    print("  judge", *a, "\n  ", kind, *b, file=sys.stderr)
            return
        with open(args.program[0], "rb") as f:
            entry = ELFFile(f)["e_entry"]
        got = random_stops(place, args.program[0], args.program[1:], args.stops)
        for kind in ("bare", "seen"):
            # The loader maps the program at a page: its base is what makes the last frame an entry.
            ends = [s for s in got[kind] if s and (s[-1] - entry) % 4096 < ENTRY and len(s) > 1]
            print(kind, len(got[kind]), "stacks,", len(ends), "complete,", sum(map(len, got[kind])), "frames")
        pairs = [(a, b[:-1] if b[-1:] == [0] else b) for a, b in zip(got["both"][::2], got["both"][1::2], strict=False)]
        wrong = [p for p in pairs if p[0] != p[1]]
        print("both", len(pairs), "stacks,", len(wrong), "different,", sum(len(a) for a, _ in pairs), "frames")
        for a, b in wrong[:3]:
            print(*map(hex, a), "\n ", *map(hex, b), file=sys.stderr)


if __name__ == "__main__":
    main()
