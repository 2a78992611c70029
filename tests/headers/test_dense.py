# SPDX-License-Identifier: MIT
"""ETCHED_DENSE: objects that lie as unmarked ones do, on pages that stay writable. Their place is judged by readelf, nm
and the kernel's maps, their values by the CPU: the program that was never rewritten says what is right."""
import re

import pytest

from conftest import CCS, STAGES, Flow, run, stray

FILES = 24
UNIT = """
#ifdef DENSE
#include <etch/imv.h>
#define MARK MARKED
#else
#define MARK
#endif
MARK struct { int hz; long limit; char rest[84]; } conf_%d = { %d, 2 };
MARK int flag_%d = 3;
__attribute__((noinline)) long read_%d(void) { return conf_%d.limit + flag_%d; }
"""
MAIN = "".join(f"long read_{i}(void);\n" for i in range(FILES)) + "int main(void) { return (%s) != %d; }\n" % (
    " + ".join(f"read_{i}()" for i in range(FILES)), 5 * FILES)


def objects(exe):
    """{name: (address, size)} by nm, and {name: (address, size)} of sections by readelf."""
    names = {w[3]: (int(w[0], 16), int(w[1], 16)) for line in run(["nm", "-S", exe]).stdout.splitlines()
             if len(w := line.split()) == 4 and w[3].startswith(("conf_", "flag_"))}
    sections = {m[1]: (int(m[2], 16), int(m[4], 16)) for m in
                re.finditer(r"\] (\S+)\s+\w+\s+(\w+) (\w+) (\w+)", run(["readelf", "-SW", exe]).stdout)}
    return names, sections


@pytest.mark.parametrize("cc", CCS)
def test_dense_objects_take_no_more_than_unmarked_ones(tmp_path, build, cc):
    """Of many files: bytes an object, and how many begin in the same set of a cache of 64 sets (32 KiB in 8 ways)."""
    flow, spans, most = Flow(tmp_path, build, cc), {}, {}
    for mark in ("", "ETCHED_DENSE", "ETCHED"):
        flags = ["-O2", *([f"-DDENSE", f"-DMARKED={mark}"] if mark else [])]
        exe = flow.link([flow.compile(flow.source(MAIN, "main.c"), flags)] +
                        [flow.compile(flow.source(UNIT % ((i, 1, i, i, i, i)), f"u{i}.c"), flags) for i in range(FILES)], out=f"t{mark}")
        run([exe])
        names, sections = objects(exe)
        assert len(names) == 2 * FILES
        spans[mark] = max(at + size for at, size in names.values()) - min(at for at, _ in names.values())
        sets = [at // 64 % 64 for at, _ in names.values()]
        most[mark] = max(sets.count(x) for x in sets)
        if mark == "ETCHED_DENSE":
            assert all(sections["etched_dense"][0] <= at < sum(sections["etched_dense"]) for at, _ in names.values())
            assert sections["etched_dense"][1] == spans[mark] and "etched" not in sections
    assert spans["ETCHED_DENSE"] <= spans[""] and most["ETCHED_DENSE"] <= 4, (spans, most)
    assert spans["ETCHED"] >= 4096 * (2 * FILES - 1) and most["ETCHED"] == 2 * FILES  # what this is about


# As the man page has it: the section is whole pages, and nothing else is on them.
PAGES = "SECTIONS { etched_dense : ALIGN(4096) { *(etched_dense) . = ALIGN(4096); } } INSERT AFTER .data;\n"
GUARDED = """
#include <etch/imv.h>
#include <stdio.h>
#include <string.h>
%s
ETCHED_DENSE struct { int a; long b[3]; } given = { 1, { 2 } };
ETCHED_DENSE int early = 3;
__attribute__((noinline)) long sum(void) { return given.a + early; }
__attribute__((noinline)) void give(void *p) { __asm__ volatile("" : : "r"(p) : "memory"); *(int *)p = 60; }
static void prot(const void *at)
{
	FILE *f = fopen("/proc/self/maps", "r");
	unsigned long lo, hi;
	char line[300], p[5];

	while (fgets(line, sizeof(line), f))
		if (sscanf(line, "%%lx-%%lx %%4s", &lo, &hi, p) == 3 && (unsigned long)at - lo < hi - lo)
			printf(" %%s", p);
	fclose(f);
}
int main(int argc, char **argv)
{
	struct etch_state s = { .size = sizeof(s) };
	int err = 0;

	(void)argv;
	give(&given);
	early = argc;
	prot(ETCH_ADDR(given));
	%s
	err |= etch_sync(&given, sizeof(given)) | etch_sync(&early, sizeof(early));
	prot(ETCH_ADDR(given));
	etch_state(&given, sizeof(given), &s);
	err |= etch_set(&given.a, 70);
	printf(" %%d %%ld %%ld %%d\\n", err, sum(), etch_verify(0, 0), s.sites && s.armed == s.sites);
	fflush(stdout);
	if (argc > 1)
		give(&given);
	return 0;
}
"""


@pytest.mark.parametrize("stage", ["object", "linked"])
@pytest.mark.parametrize("linker", ["bfd", "lld"])
def test_whole_pages_by_the_linker_protect_them(tmp_path, build, linker, stage):
    """All of a program's dense objects on pages of their own together, once for all files: then as any other's."""
    flow = Flow(tmp_path, build, "gcc" if linker == "bfd" else "clang")
    script = flow.source(PAGES, "pages.ld")
    units = "".join(f"extern struct {{ int hz; long limit; char rest[84]; }} conf_{i}; extern int flag_{i};\n" for i in range(FILES))
    syncs = "".join(f"err |= etch_sync(&conf_{i}, sizeof(conf_{i})) | etch_sync(&flag_{i}, sizeof(flag_{i}));\n" for i in range(FILES))
    paths = [flow.source(GUARDED % (units, syncs), "main.c"),
             *(flow.source(UNIT % ((i, 1, i, i, i, i)), f"u{i}.c") for i in range(FILES))]
    outs = [flow.compile(p, ["-O2", "-DDENSE", "-DMARKED=ETCHED_DENSE"]) for p in paths]
    flow.rewrite(*outs)
    exe = flow.link(outs, [f"-fuse-ld={linker}", f"-Wl,-T,{script}"])
    if stage == "linked":
        flow.rewrite(exe)
    at, size = objects(exe)[1]["etched_dense"]
    assert not at % 4096 and size == 4096 * -(-(FILES * 104 + 100) // 4096)
    assert run([exe]).stdout == " rw-p r--p 0 71 0 1\n"
    assert run([exe, "x"]).stdout == " rw-p r--p 0 72 0 1\n"  # 71 and the store
    p = stray([exe, "x"], ok=None)
    assert p.returncode == -11 and re.search(r"stray store: give\+\S+ .*stores to the etched object given\b", p.stderr), p.stderr


VALUES = """
#include <etch/imv.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#define N __attribute__((noinline))
LINKAGE ETCHED_DENSE int later = 3;                       /* stored to behind etch_sync, too */
LINKAGE ETCHED_DENSE int early = 4;                       /* before it alone */
LINKAGE ETCHED_DENSE int never = 5;
LINKAGE ETCHED_DENSE struct { int a, b, list[6]; long c; } fields = { 1, 2, { 3 }, 4 };
LINKAGE ETCHED_DENSE struct { int a, b; char text[16]; } taken = { 6, 7, "abc" };
LINKAGE ETCHED_DENSE int counted[2] = { 8, 9 };
LINKAGE ETCHED_DENSE short threaded = 10;
volatile int neighbour = 11;                              /* not marked */
N long sum(void)
{
	return later + 3 * early + 5 * never + 7 * fields.a + 11 * fields.b + 13 * fields.list[2] + 17 * fields.c + 19 * taken.a +
	       23 * taken.b + 29 * counted[1] + 31 * threaded;
}
N void store(int v) { later = v; fields.b = v; fields.list[v % 3] = v; }
N void count(int v) { counted[v & 1]++; }
N void give(void *p) { __asm__ volatile("" : : "r"(p) : "memory"); *(int *)p = 60; }
N void set_up(int v) { early = v; fields.c = v; }
static void *thread(void *arg) { threaded = 12; return arg; }
int main(int argc, char **argv)
{
	pthread_t t;
	int err = 0;

	(void)argv;
	printf("%ld", sum());
	set_up(argc + 40);
	err |= etch_sync(&later, sizeof(later)) | etch_sync(&early, sizeof(early)) | etch_sync(&never, sizeof(never));
	err |= etch_sync(&fields, sizeof(fields)) | etch_sync(&taken, sizeof(taken)) | etch_sync(&counted, sizeof(counted));
	err |= etch_sync(&threaded, sizeof(threaded));
	printf(" %ld", sum());
	store(argc + 50);
	count(argc);
	give(&taken);
	neighbour++;
	pthread_create(&t, 0, thread, 0);
	pthread_join(t, 0);
	printf(" %ld", sum());
	err |= etch_set(&early, 100) | etch_set(&never, 200) | etch_set(&fields.a, 300) | etch_set(&later, 400);
	printf(" %ld", sum());
	store(argc + 60);
	printf(" %ld %d\\n", sum(), err);
#ifdef SHOW
	struct { const char *name; void *at; unsigned long size; } all[] = { { "later", ETCH_ADDR(later), sizeof(later) },
		{ "early", ETCH_ADDR(early), sizeof(early) }, { "never", ETCH_ADDR(never), sizeof(never) },
		{ "fields", ETCH_ADDR(fields), sizeof(fields) }, { "taken", ETCH_ADDR(taken), sizeof(taken) },
		{ "counted", ETCH_ADDR(counted), sizeof(counted) }, { "threaded", ETCH_ADDR(threaded), sizeof(threaded) } };
	for (unsigned i = 0; i < sizeof(all) / sizeof(*all); i++) {
		struct etch_state s = { .size = sizeof(s) };
		etch_state_bytes(all[i].at, all[i].size, &s);
		printf("%s %lu %lu\\n", all[i].name, s.sites, s.armed);
	}
	printf("%ld", etch_verify(0, 0));
	FILE *f = fopen("/proc/self/maps", "r");
	for (char line[300]; fgets(line, sizeof(line), f);) {
		unsigned long lo, hi;
		char prot[5];
		if (sscanf(line, "%lx-%lx %4s", &lo, &hi, prot) == 3 && (unsigned long)all[0].at - lo < hi - lo)
			printf(" %s\\n", prot);
	}
#endif
	return 0;
}
"""


@pytest.mark.parametrize("stripped", [False, True])
@pytest.mark.parametrize("linkage,debug", [("", "-g"), ("static", "-g0")])
@pytest.mark.parametrize("cc,level,place", [("gcc", "-O2", "-fPIE"), ("gcc", "-O1", "-fno-pie"), ("clang", "-O2", "-fPIE"),
                                            ("clang", "-O3", "-fno-pie")])
def test_no_store_leaves_a_stale_value(tmp_path, build, cc, level, place, linkage, debug, stripped):
    """Their pages are not protected, so a store that was not counted would: by each way through the tool."""
    flow, said = Flow(tmp_path, build, cc), {}
    for stage in (*STAGES, "link"):
        flags = [level, place, debug, f"-DLINKAGE={linkage}"]
        o = flow.compile(flow.source(VALUES, "v.c"), flags, f"{stage}.o")
        if stage in ("object", "linked"):
            flow.rewrite(o)
        exe = flow.link([o], ["-pie" if place == "-fPIE" else "-no-pie", *(["-s"] if stripped else [])], stage)
        if stage in ("link", "linked"):
            flow.rewrite(exe)
        said[stage] = run([exe]).stdout
    assert set(said.values()) == {said["plain"]} and said["plain"].endswith(" 0\n"), said


@pytest.mark.parametrize("cc", CCS)
def test_what_etch_sync_arms(tmp_path, build, cc):
    """Objects and fields without a later store, all of their sites; no others, on a page that stays writable."""
    flow = Flow(tmp_path, build, cc)
    exe = flow.program(VALUES, "linked", flags=("-O2", "-g", "-DLINKAGE=", "-DSHOW"))
    values, *lines, last = run([exe]).stdout.splitlines()
    state = {w[0]: (int(w[1]), int(w[2])) for line in lines if (w := line.split())}
    assert last == "0 rw-p", last
    assert all(sites and armed == sites for name, (sites, armed) in state.items() if name in ("early", "never")), state
    assert not any(state[name][1] for name in ("later", "taken", "counted", "threaded")) and state["later"][0], state
    # clang selects the element by an address that it computes: all of `fields` may be stored to.
    assert state["fields"][1] < state["fields"][0] and (state["fields"][1] >= 2 or cc == "clang"), state
    # Before any etch_sync, in the file, by objdump: 5 of `never` is in the code, and no read of memory at its address.
    at = objects_of(exe, "never")
    assert not re.search(rf"\b{at:x} <", run(["objdump", "-d", "--no-show-raw-insn", "--disassemble=sum", exe]).stdout)
    fields = {(r["object"], r["field"]): r for r in flow.inspect("fields", exe)["fields"]}
    assert fields["never", None]["armed"] == "yes" and fields["early", None]["armed"] == "by etch_sync", fields
    assert fields["later", None]["armed"] == fields["taken", None]["armed"] == "no" and fields["later", None]["stores"] == fields["early", None]["stores"] == 1, fields
    flags = {r["name"]: r["flags"] for r in flow.inspect("tables", exe)["obj"] if r["kind"] == "object"}
    assert all("dense" in x for x in flags.values()) and "kept" in flags["later"] and "kept" not in flags["early"], flags


def objects_of(exe, name):
    return next(int(w[0], 16) for line in run(["nm", exe]).stdout.splitlines() if (w := line.split())[-1] == name)


PLUGIN = """
#include <etch/imv.h>
ETCH_DECLARE(shared_value);
extern int shared_value;
void plugin(int v) { shared_value = v; }
"""
HOST = """
#include <etch/imv.h>
#include <dlfcn.h>
#include <stdio.h>
ETCHED_DENSE int shared_value = 3;
__attribute__((noinline)) int get(void) { return shared_value; }
int main(int argc, char **argv)
{
	int err = etch_sync(&shared_value, sizeof(shared_value)), before = get();
	void *h = dlopen(argv[argc - 1], RTLD_NOW);
	void (*f)(int) = h ? (void (*)(int))dlsym(h, "plugin") : 0;
	if (!f)
		return puts(dlerror()), 2;
	f(77);
	printf("%d %d %d", err, before, get());
	err = etch_sync(&shared_value, sizeof(shared_value));
	f(78);
	printf(" %d %d %ld\\n", err, get(), etch_verify(0, 0));
	return 0;
}
"""


@pytest.mark.parametrize("closed", [(), ("--closed",)])
def test_a_library_that_stores_to_one_disarms_it_for_good(tmp_path, build, closed):
    flow = Flow(tmp_path, build)
    host = flow.link([flow.compile(flow.source(HOST, "host.c"))], ["-rdynamic"], "host", shared_lib=True)
    o = flow.compile(flow.source(PLUGIN, "plugin.c"), ["-O2", "-fPIC"])
    flow.rewrite(o)
    plugin = flow.link([o], ["-shared"], "plugin.so", shared_lib=True)
    flow.rewrite(host, args=closed)
    flow.rewrite(plugin)
    assert run([host, plugin]).stdout == "0 3 77 0 78 0\n"


def test_seal_arms_all_of_them(tmp_path, build):
    """As of any object: the program says that nothing stores to it any more."""
    flow = Flow(tmp_path, build)
    text = """#include <etch/imv.h>
#include <stdio.h>
ETCHED_DENSE struct { int a, b; } s = { 1, 2 };
__attribute__((noinline)) void store(int v) { s.b = v; }
__attribute__((noinline)) int sum(void) { return s.a + s.b; }
int main(int argc, char **argv)
{
	struct etch_state x = { .size = sizeof(x) };
	(void)argv;
	store(argc + 4);
	int err = etch_seal(&s, sizeof(s));
	etch_state(&s, sizeof(s), &x);
	printf("%d %d %d", err, x.sites && x.armed == x.sites, sum());
	err = etch_release(&s, sizeof(s));
	store(9);
	printf(" %d %d\\n", err, sum());
	return 0;
}
"""
    for stage in ("object", "linked"):
        assert run([flow.program(text, stage)]).stdout == "0 1 6 0 10\n"


@pytest.mark.parametrize("cc", CCS)
def test_twice_is_once_and_undo_gives_the_linkers_file(tmp_path, build, cc):
    flow = Flow(tmp_path, build, cc)
    exe = flow.program(VALUES, "object", flags=("-O2", "-g", "-DLINKAGE="))
    linked = exe.read_bytes()
    flow.rewrite(exe)
    once = exe.read_bytes()
    flow.rewrite(exe)
    assert exe.read_bytes() == once != linked
    flow.rewrite(exe, args=("--undo",))
    assert exe.read_bytes() == linked


def test_an_unprocessed_program_sets_them(tmp_path, build):
    """By the bounds of their section, which the header passes; what lies beside it is no object."""
    flow = Flow(tmp_path, build)
    text = """#include <etch/imv.h>
#include <stdio.h>
ETCHED_DENSE int a = 1;
int other = 2;
int main(void)
{
	int v = 5;
	printf("%d", etch_set(&a, 4));
	printf(" %d %d %d\\n", a, etch_set_bytes(&other, &v, 4), other);
	return 0;
}
"""
    assert run([flow.program(text, "plain")]).stdout == "0 4 2 2\n"
