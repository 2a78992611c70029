# SPDX-License-Identifier: MIT
"""The last message of a stray store names file and line. The judges: the line in the source, and addr2line."""
import random
import re
import subprocess

import pytest

from conftest import ROOT, run, stray

OTHER = """
int dropped(int a) { return a + 1; }
int kept(int a)
{
	return a + 2;
}
"""
STRAY = """
#include <etch/imv.h>
ETCHED struct { int a, b, c[4000]; } cfg = { 1, 2, { 0 } };
int *(*volatile hide)(int *);
int kept(int a);
static int *same(int *p) { return p; }
#line 70000
__attribute__((noinline)) void stray(int *p)
{
	*(volatile int *)p = 5; /* here */
}
int main(int argc, char **argv)
{
	(void)argv;
	hide = same;
	if (cfg.b == 2 && argc == 1)
		stray(hide((int *)ETCH_ADDR(cfg.b)));
	return kept(0) + etch_set(&cfg.a, argc);
}
"""
HERE = 70002


def built(flow, flags, ld=()):
    (flow.tmp / "src").mkdir(exist_ok=True)
    objects = []
    for name, text in (("other.c", OTHER), ("stray.c", STRAY)):
        (flow.tmp / "src" / name).write_text(text)
        objects.append(flow.tmp / f"{name}.o")
        run([flow.cc, "-O1", "-ffunction-sections", f"-I{ROOT}/lib/include", *flags, "-c", "-o", objects[-1], f"src/{name}"], cwd=flow.tmp)
    exe = flow.link(objects, ["-Wl,--gc-sections", *ld], "stray")
    flow.rewrite(exe)
    return exe


def said(exe):
    p = stray([exe], ok=None)
    assert p.returncode == -11 and "etched object cfg.b+0x0," in p.stderr or "cfg+0x4," in p.stderr, p
    return re.match(r"etch: stray store: stray\+0x[0-9a-f]+(?: at (\S+))? \((\S+)\) stores to", p.stderr)[1]


@pytest.mark.parametrize("flags", [["-gdwarf-2"], ["-gdwarf-4"], ["-gdwarf-5", "-no-pie", "-fno-pie"]], ids=" ".join)
def test_a_stray_store_names_file_and_line(flow, flags):
    assert said(built(flow, flags, flags[1:2])) == f"src/stray.c:{HERE}"


@pytest.mark.parametrize("what", ["stripped", "compressed"])
def test_without_a_line_table_that_can_be_read_it_names_the_function(flow, what):
    exe = built(flow, ["-g"], ["-Wl,--compress-debug-sections=zlib"] if what == "compressed" else [])
    if what == "stripped":
        run(["strip", "-g", exe])
    assert said(exe) is None


MAIN = """
#include "patch/trap_line.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
/* Each argument: a file. Its bytes are at the end of a heap block, whose neighbours ASan guards. */
int main(int argc, char **argv)
{
	for (int i = 2; i < argc; i++) {
		FILE *f = fopen(argv[i], "r");
		static unsigned char all[1 << 20];
		size_t n = fread(all, 1, sizeof(all), f);
		unsigned char *p = memcpy(malloc(n), all, n);
		struct trap_line l;

		fclose(f);
		if (trap_line_find(p, n, strtoul(argv[1], 0, 16), &l))
			printf("%s%s%s:%lu\\n", l.directory ? l.directory : "", l.directory ? "/" : "", l.file, l.line);
		else
			puts("?");
		free(p);
	}
	return 0;
}
"""


def reader(tmp):
    (tmp / "main.c").write_text(MAIN)
    run(["gcc", "-O1", "-g", "-fsanitize=address,undefined", "-fno-sanitize-recover", f"-I{ROOT}/lib", "-o", tmp / "reader", tmp / "main.c",
         ROOT / "lib/patch/trap_line.c"])
    return tmp / "reader"


@pytest.mark.parametrize("version", [3, 5])
def test_every_line_is_that_of_addr2line(flow, version):
    exe = built(flow, [f"-gdwarf-{version}"])
    code = run(["objdump", "-d", "--no-show-raw-insn", exe]).stdout
    body = "".join(re.findall(r"<(?:stray|main|kept)>:\n(.*?)\n\n", code, re.S))
    at = re.findall(r"^\s+([0-9a-f]+):\t", body, re.M)
    read = reader(flow.tmp)
    mine = [run([read, a, exe]).stdout.strip() for a in at]
    judge = run(["addr2line", "-e", exe, *at]).stdout.splitlines()
    assert len(at) > 10 and [re.sub(r" \(disc.*", "", x).removeprefix(f"{flow.tmp}/").replace("??:?", "?") for x in judge] == mine


@pytest.mark.parametrize("version", [4, 5])
def test_a_broken_line_table_is_read_inside_its_bounds(flow, version):
    exe = built(flow, [f"-gdwarf-{version}"])
    good, chance = exe.read_bytes(), random.Random(version)
    place = [(int(a, 16), int(b, 16)) for a, b in
             re.findall(r"\] \.(?:debug_line\w*|debug_str|shstrtab)\s+\S+\s+\S+ (\w+) (\w+)", run(["readelf", "-SW", exe]).stdout)]
    headers = int(re.search(r"Start of section headers: +(\d+)", run(["readelf", "-hW", exe]).stdout)[1])
    place += [(headers, len(good) - headers), (0, 64)]
    names = []
    for i in range(150):
        bad = bytearray(good)
        for _ in range(chance.choice([1, 1, 2, 8])):
            start, size = chance.choice(place)
            bad[start + chance.randrange(size)] = chance.choice([0, 255, 128, chance.randrange(256)])
        if i % 10 == 0:
            del bad[chance.randrange(64, len(bad)):]
        names.append(flow.tmp / f"m{i}")
        names[-1].write_bytes(bad)
    at = re.search(r"^0*([0-9a-f]+) T stray$", run(["nm", exe]).stdout, re.M)[1]
    out = run([reader(flow.tmp), at, *names], text=False, stdout=subprocess.PIPE).stdout.split(b"\n")
    assert len(out) > 150 and sum(x.startswith(b"src/stray.c:7000") for x in out) > 50 and b"?" in out
