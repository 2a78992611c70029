# SPDX-License-Identifier: MIT
"""pv_call_inline: one case compiled in place, after a jump that etch makes a nop."""
import re
import struct
import subprocess

import pytest
from elftools.elf.elffile import ELFFile

from conftest import run

SOURCE = """
#include <etch/pv.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include "threads.h"

#ifdef __cplusplus
extern "C" {
#endif
struct ops { unsigned long (*val)(unsigned long); void (*set)(unsigned long *, unsigned long); void (*flush)(void);
             int (*pick)(int, int); };
HIDDEN void native_set(unsigned long *p, unsigned long v);
HIDDEN unsigned long ident(unsigned long v);
HIDDEN void nothing(void);
HIDDEN int first(int a, int b);
#ifdef __cplusplus
}
#endif
void native_set(unsigned long *p, unsigned long v) { *p = v; }
unsigned long ident(unsigned long v) { return v; }
void nothing(void) { }
int first(int a, int b) { (void)b; return a; }
static unsigned long calls;
static unsigned long other(unsigned long v) { calls++; return v ^ 1; }
static void other_set(unsigned long *p, unsigned long v) { calls += 100; *p = v + 1; }
static void other_flush(void) { calls += 10000; }
static int second(int a, int b) { (void)a; calls += 1000000; return b; }
extern HIDDEN struct ops ops;
DEFINE_PV_OPS(struct ops, ops) = { ident, native_set, nothing, first };

#define val(x)     pv_call_inline(ops, val, ident, (x), (x))
#define set(p, v)  pv_call_inline(ops, set, native_set, (void)(*(p) = (v)), (p), (v))
#define flush()    pv_call_inline(ops, flush, nothing, (void)0)
#define pick(a, b) pv_call_inline(ops, pick, first, (a), (a), (b))

__attribute__((noinline)) unsigned long work(unsigned long *p, unsigned long n)
{
	unsigned long s = 0, i;

	for (i = 0; i < n; i++) {
		set(&p[i], i);
		s += val(p[i]);
		flush();
		s += (unsigned long)pick((int)i, -1);
	}
	return s;
}

static void show(const char *what)
{
	unsigned long p[10], v;

	calls = 0;
	v = work(p, 10);
	printf("%s %ld %lu verify %ld\\n", what, (long)v, calls, etch_verify(NULL, NULL));
}

static volatile int stop;
static void *reader(void *arg)
{
	unsigned long p[4], *wrong = (unsigned long *)arg;

	thread_begun();
	do {
		unsigned long v;

		p[0] = 0;
		v = val(40);
		*wrong += v != 40 && v != 41;
		set(&p[0], 7);
		*wrong += p[0] != 7 && p[0] != 8;
	} while (!stop);
	return arg;
}

int main(int argc, char **argv)
{
	struct etch_info info;
	int i, n = argc > 1 ? atoi(argv[1]) : 0;

	info.size = sizeof(info);
	etch_info(&info);
	fprintf(stderr, "in place %lu of %lu\\n", info.calls_in_place_now, info.calls_in_place);
	show("start");
	pv_set(ops.val, other);
	show("other val");
	pv_set(ops.set, other_set);
	pv_set(ops.flush, other_flush);
	pv_set(ops.pick, second);
	show("all other");
	pv_set(ops.val, ident);
	show("val back");
	{
		struct ops all = { ident, native_set, nothing, first };

		etch_set(&ops, all);
	}
	show("all back");
	etch_release(&ops, sizeof(ops));
	show("released");
	etch_sync(&ops, sizeof(ops));
	show("synced");
	etch_info(&info);
	fprintf(stderr, "at last %lu\\n", info.calls_in_place_now);
	if (n) {
		unsigned long wrong[2] = {0, 0};
		pthread_t t[2];

		for (i = 0; i < 2; i++)
			pthread_create(&t[i], NULL, reader, &wrong[i]);
		threads_wait(2);
		for (i = 0; i < n; i++) {
			if (i & 1) {
				pv_set(ops.val, ident);
				pv_set(ops.set, native_set);
			} else {
				pv_set(ops.val, other);
				pv_set(ops.set, other_set);
			}
		}
		stop = 1;
		for (i = 0; i < 2; i++)
			pthread_join(t[i], NULL);
		printf("wrong %lu\\n", wrong[0] + wrong[1]);
	}
	return 0;
}
""".replace("HIDDEN", '__attribute__((visibility("hidden")))')


def expected():
    # val ^ 1, values + 1, pick -1: reckoned by hand from work().
    vals = [i + 1 for i in range(10)]
    other_all = sum(v ^ 1 for v in vals) - 10
    back = sum(vals) - 10
    plain = sum(range(10)) * 2
    other_val = sum(i ^ 1 for i in range(10)) + 45
    rows = [("start", plain, 0), ("other val", other_val, 10), ("all other", other_all, 10 * 1010101),
            ("val back", back, 10 * 1010100), ("all back", plain, 0), ("released", plain, 0), ("synced", plain, 0)]
    return "".join(f"{n} {v} {c} verify 0\n" for n, v, c in rows)


MODES = {
    "gcc-O0": ("gcc", ["-O0"], [], ".c"), "gcc-O2": ("gcc", ["-O2"], [], ".c"), "gcc-O3": ("gcc", ["-O3", "-fcf-protection=full"], [], ".c"),
    "gcc-Os": ("gcc", ["-Os"], [], ".c"), "gcc-no-pie": ("gcc", ["-O2", "-fno-pie"], ["-no-pie"], ".c"),
    "gcc-PIC": ("gcc", ["-O2", "-fPIC"], [], ".c"), "gcc-gc": ("gcc", ["-O2", "-ffunction-sections"], ["-Wl,--gc-sections"], ".c"),
    "clang-O0": ("clang", ["-O0"], [], ".c"), "clang-O2": ("clang", ["-O2"], [], ".c"),
    "clang-lld-gc": ("clang", ["-O2", "-ffunction-sections"], ["-fuse-ld=lld", "-Wl,--gc-sections"], ".c"),
    "g++-O2": ("gcc", ["-O2"], [], ".cc"), "clang++-O0": ("clang", ["-O0"], [], ".cc"), "clang++-O2": ("clang", ["-O2"], [], ".cc"),
}


@pytest.fixture(scope="module", params=MODES)
def mode(request, tmp_path_factory, build):
    from conftest import Flow
    cc, flags, ldflags, suffix = MODES[request.param]
    flow = Flow(tmp_path_factory.mktemp("inline"), build, cc)
    return flow, flags, ldflags, suffix


@pytest.mark.parametrize("steps", ["none", "object", "link", "both"])
def test_runs(mode, steps):
    flow, flags, ldflags, suffix = mode
    obj = flow.compile(flow.source(SOURCE, "t" + suffix), flags, out=flow.tmp / f"{steps}.o")
    if steps in ("object", "both"):
        flow.rewrite(obj)
    out = flow.link([obj], [*ldflags, "-pthread"], out=f"p-{steps}", cxx=suffix == ".cc")
    if steps in ("link", "both"):
        flow.rewrite(out)
        once = out.read_bytes()
        flow.rewrite(out)
        assert out.read_bytes() == once
        sites = [s for s in flow.inspect("sites", out)["sites"] if s["kind"] == "inline"]
        assert len(sites) >= 6 and {s["state"] for s in sites} == {"in place"} and {s["live"] for s in sites} == {"yes"}
        assert {s["length"] for s in sites} == {7}
    p = run([out])
    assert p.stdout == expected()
    now, of, last = map(int, re.fullmatch(r"in place (\d+) of (\d+)\nat last (\d+)\n", p.stderr).groups())
    assert last == (0 if steps == "none" else of)  # made nops again by libetch
    assert of >= 6 and now == (of if steps in ("link", "both") else 0)


def test_threads(mode):
    flow, flags, ldflags, suffix = mode
    obj = flow.compile(flow.source(SOURCE, "threads" + suffix), flags, out=flow.tmp / "threads.o")
    flow.rewrite(obj)
    out = flow.link([obj], [*ldflags, "-pthread"], out="threads", cxx=suffix == ".cc")
    flow.rewrite(out)
    assert run([out, "400"]).stdout == expected() + "wrong 0\n"


def test_rows_of_both_ways(flow):
    """The code after the jump is reached: rows from code alone are those of .eh_frame,
    baked or not."""
    obj = flow.compile(SOURCE, ("-O2", "-fno-pie"))
    out = flow.link([obj], ["-no-pie", "-pthread"])
    flow.rewrite(out)

    def rows(path, *how):
        flow.rewrite(path, args=["--only", "orc", *how])
        text = run([flow.etch, "inspect", "orc", "--format", "tsv", path]).stdout
        at = {int(s["address"], 16): s for s in flow.inspect("sites", path)["sites"] if s["function"].startswith("work")}
        work = [a for a in at]
        cfa = {}
        for r in text.splitlines()[1:]:
            start, size, rule, _, ra, kind = r.split("\t")[:6]
            if min(work) - 64 <= int(start, 16) <= max(work) + 16:
                cfa.update({at: (rule, ra, kind) for at in range(int(start, 16), int(start, 16) + int(size, 16))})
        return cfa
    with_cfi, code = rows(out), rows(out, "--no-cfi")
    both = with_cfi.keys() & code.keys()
    assert len(both) > 100 and all(with_cfi[a] == code[a] for a in both)
    assert len({r[0] for r in code.values()}) >= 3 and all(r[2] == "call" for r in code.values())


def test_a_sidecar_of_either(flow_gcc):
    """Where the jump is a nop, nothing leads to the call after it: its rows are those of the jump all the same."""
    tmp = flow_gcc.tmp
    out = flow_gcc.link([flow_gcc.compile(SOURCE, ("-O2",))], ["-pthread", "-Wl,--build-id=0x01"])
    made = []
    for how in ("linked", "baked"):
        (tmp / how).mkdir()
        flow_gcc.rewrite(out, args=["--sidecar", tmp / how, "--no-cfi"])
        made.append((tmp / how / "01").read_bytes()[128:])
        flow_gcc.rewrite(out)
    assert made[0] == made[1]


def table_offset(path):
    with open(path, "rb") as f:
        s = ELFFile(f).get_section_by_name("__pv_inline")
        return s["sh_offset"], s["sh_size"], s["sh_addr"]


@pytest.mark.parametrize("harm", ["size", "site", "slot", "code", "misplaced"])
def test_damaged(flow_gcc, harm):
    """The tool refuses, or leaves the entry alone; libetch ignores the module or the entry."""
    obj = flow_gcc.compile(SOURCE, ("-O2",))
    out = flow_gcc.link([obj], ["-pthread"])
    flow_gcc.rewrite(out)
    off, size, addr = table_offset(out)
    data = bytearray(out.read_bytes())
    refused = False
    if harm == "size":
        with open(out, "rb") as f:
            elf = ELFFile(f)
            i = next(i for i, s in enumerate(elf.iter_sections()) if s.name == "__pv_inline")
            at = elf["e_shoff"] + i * elf["e_shentsize"] + 32
        data[at:at + 8] = struct.pack("<Q", size - 4)
        refused = True
    elif harm == "site":
        data[off:off + 4] = struct.pack("<i", 0x7f000000)
    elif harm == "slot":
        data[off + 4:off + 8] = struct.pack("<i", 0x7f000000)
    elif harm == "misplaced":
        data[off:off + 4] = struct.pack("<i", struct.unpack_from("<i", data, off)[0] + 1)
        refused = True
    else:
        site = addr + struct.unpack_from("<i", data, off)[0]
        with open(out, "rb") as f:
            p = next(p for p in ELFFile(f).iter_segments() if p["p_type"] == "PT_LOAD" and
                     p["p_vaddr"] <= site < p["p_vaddr"] + p["p_filesz"])
            data[p["p_offset"] + site - p["p_vaddr"]] ^= 1
        refused = True
    out.write_bytes(data)
    before = out.read_bytes()
    p = subprocess.run([flow_gcc.etch, "rewrite", out], capture_output=True, text=True)
    assert p.returncode == (2 if refused else 0), p.stderr
    if refused:
        assert out.read_bytes() == before and p.stderr.count("\n") == 1
    if harm in ("site", "slot"):
        q = subprocess.run([out], capture_output=True, text=True)
        assert q.returncode in (0, 1) and q.stdout.startswith("start 90 0")
