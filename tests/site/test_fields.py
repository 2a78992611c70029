# SPDX-License-Identifier: MIT
"""Arming by field: a store to one field leaves the others armed, and no reader ever sees a stale value."""
import re
import subprocess

import pytest

from check_findings import findings
from conftest import run, stray

SERVER = """
#include <etch/imv.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>
#include "threads.h"
struct server { long clients; int hz; int port; long maxmemory; int verbosity; int samples[4]; int last; char name[16]; int tail; };
ETCHED struct server server = { 0, 10, 6379, 1 << 20, 1, { 1, 2, 3, 4 }, 7, "x", 5 };
#define NOINLINE __attribute__((noinline))
NOINLINE int hz(void) { return server.hz; }
NOINLINE int port(void) { return server.port; }
NOINLINE long maxmemory(void) { return server.maxmemory; }
NOINLINE int verbosity(void) { return server.verbosity; }
NOINLINE int last(void) { return server.last; }
NOINLINE int tail(void) { return server.tail; }
NOINLINE long clients(void) { return server.clients; }
NOINLINE int sample(void) { return server.samples[2]; }
NOINLINE void accepted(void) { server.clients++; }
NOINLINE void sampled(int i, int v) { server.samples[i & 3] = v; }
NOINLINE void configure(int *field, int v) { *(volatile int *)field = v; }
NOINLINE void set_up(int argc) { server.port = 7000 + argc; server.last = argc; }
int *(*volatile hide)(int *);
static int *same(int *p) { return p; }
static volatile int stop, bad;
/* The judge: the memory itself, read by the CPU through a pointer that the compiler does not know. */
static int memory(size_t off) { int v; memcpy(&v, (char *)hide((int *)ETCH_ADDR(server)) + off, sizeof(v)); return v; }
static void *reader(void *arg)
{
	(void)arg;
	thread_begun();
	do {
		int before = memory(offsetof(struct server, hz)), got = hz(), after = memory(offsetof(struct server, hz));

		/* A set stores memory first. */
		if (got < before - 1 || got > after)
			bad = 1;
	} while (!stop);
	return 0;
}
static void *storer(void *arg)
{
	int i = 0;

	thread_begun();
	do {
		accepted();
		sampled(i, i);
		configure(&server.verbosity, i);
		i++;
	} while (!stop);
	*(long *)arg = i;
	return 0;
}
int main(int argc, char **argv)
{
	struct etch_info info = { .size = sizeof(info) };
	pthread_t t[3];
	int err, status;
	long stored;

	(void)argv;
	hide = same;
	set_up(argc);
	etch_info(&info);
	printf("start fields %lu armed %lu\\n", info.fields, info.fields_armed);
	err = etch_sync(&server, sizeof server);
	etch_info(&info);
	printf("sync %d armed %lu objects %lu of %lu\\n", err, info.fields_armed, info.armed_objects, info.objects);
	pthread_create(&t[0], 0, reader, 0);
	pthread_create(&t[1], 0, reader, 0);
	pthread_create(&t[2], 0, storer, &stored);
	threads_wait(3);
	for (int i = 11; i < 400 + 11; i++) {
		if (etch_set(&server.hz, i) || hz() != i || verbosity() > memory(offsetof(struct server, verbosity)))
			bad = 2;
		if (i % 100 == 0) {
			pid_t child = fork();

			if (!child) {
				accepted();
				configure(&server.verbosity, 77);
				_exit(etch_set(&server.hz, 9999) || hz() != 9999 || verbosity() != 77 || etch_verify(0, 0) ? 1 : 0);
			}
			waitpid(child, &status, 0);
			if (status)
				bad = 3;
		}
	}
	stop = 1;
	for (int i = 0; i < 3; i++)
		pthread_join(t[i], 0);
	configure(&server.verbosity, 42);
	sampled(2, 43);
	printf("bad %d hz %d port %d verbosity %d sample %d clients %ld stored %ld verify %ld\\n", bad, hz(), port(), verbosity(), sample(),
	       clients(), stored, etch_verify(0, 0));
	printf("released %d", etch_release(&server, sizeof server));
	memset(hide((int *)ETCH_ADDR(server)), 0, sizeof(server));
	printf(" %d %d %ld %d %d\\n", hz(), port(), maxmemory(), last(), tail());
	return 0;
}
"""


def fields(flow, exe):
    return {f["field"]: f for f in flow.inspect("fields", exe)["fields"] if f["object"] == "server"}


def linked(flow, text, flags, ld=(), objects=False, rewrite=()):
    o = flow.compile(flow.source(text, "server.c"), flags)
    if objects:
        flow.rewrite(o)
    exe = flow.link([o], ["-pthread", *ld], "server")
    flow.rewrite(exe, args=list(rewrite))
    return exe


@pytest.mark.parametrize("objects", [False, True], ids=["link-step", "both-steps"])
@pytest.mark.parametrize("flags", [["-O2", "-g"], ["-O2", "-g", "-fno-pie"]], ids=["pie", "no-pie"])
def test_stores_to_some_fields_leave_the_others_armed(flow, flags, objects):
    exe = linked(flow, SERVER, flags, ["-no-pie"] if "-fno-pie" in flags else [], objects)
    f = fields(flow, exe)
    assert {n for n, x in f.items() if x["armed"] == "yes"} >= {"hz", "maxmemory", "tail"}, f
    assert {n for n, x in f.items() if x["armed"] == "by etch_sync"} == {"port", "last"}, f
    assert {n for n, x in f.items() if x["armed"] == "no"} == {"clients", "verbosity", "samples", "name"}, f
    assert "accepted" in f["clients"]["because"] and "server.c:21" in f["clients"]["because"]
    assert f["verbosity"]["because"].startswith("address: ")
    found = [(x["id"], x["text"]) for x in findings(flow.etch, exe)]
    assert ("ETCH-I005", "stores to server.clients without etch_set") in found, found
    assert not [x for x in found if x[0].startswith("ETCH-T")], found
    last = run([flow.etch, "inspect", "fields", exe]).stdout.splitlines()[-1]
    assert re.fullmatch(r"server: 3 fields \(3 reads\) armed now, 2 more \(2\) by etch_sync, 1 \(1\) not: something takes the "
                        r"address; 3 \(2\) after etch_set in place of 2 lines: \S*server.c:21 \S*server.c:22", last), last
    out = run([exe]).stdout
    assert re.search(r"^start fields \d+ armed [345]\n^sync 0 armed [567] objects 0 of 1$", out, re.M), out
    assert re.search(r"^bad 0 hz 410 port 7001 verbosity 42 sample 43 clients (\d+) stored \1 verify 0\nreleased 0 0 0 0 0 0$", out, re.M), out


FLOATS = """
#include <etch/imv.h>
#include <stdio.h>
#include <string.h>
ETCHED struct settings { double rate; int limit; char name[16]; int last; } settings = { 0.5, 3, "x", 1 };
__attribute__((noinline)) double rate(void) { return settings.rate * 2; }
__attribute__((noinline)) int limit(void) { return settings.limit; }
int main(int argc, char **argv)
{
	settings.rate = argc;
	memset(&settings.last, argc, sizeof(settings.last));
	strcpy(settings.name, argv[0]);
	return printf("%f %d %s\\n", rate(), limit(), settings.name) < 0;
}
"""


def test_a_field_that_no_read_can_have_as_an_immediate_is_not_armed(flow):
    exe = flow.link([flow.compile(flow.source(FLOATS, "floats.c"), ["-O2", "-g"])], ["-pthread"], "floats")
    flow.rewrite(exe)
    f = {x["field"]: x for x in flow.inspect("fields", exe)["fields"]}
    assert (f["rate"]["armed"], f["rate"]["reads"], f["rate"]["because"]) == ("no", 1, "none of its reads has an immediate form")
    assert f["limit"]["armed"] == "yes"
    assert "(1 read) armed now" in (last := run([flow.etch, "inspect", "fields", exe]).stdout.splitlines()[-1]), last
    assert "1 read without an immediate form" in last, last


def test_a_line_is_the_programs_not_that_of_a_libc_header(flow):
    exe = flow.link([flow.compile(flow.source(FLOATS, "floats.c"), ["-O2", "-g", "-D_FORTIFY_SOURCE=2"])], ["-pthread"], "floats")
    f = {x["field"]: x for x in flow.inspect("fields", exe)["fields"]}
    lines = FLOATS.splitlines()
    for field, text in (("last", "memset"), ("name", "strcpy")):
        number = next(i for i, line in enumerate(lines, 1) if text in line)
        assert f"floats.c:{number}" in f[field]["because"] and ".h:" not in f[field]["because"], f[field]


def test_rewriting_twice_is_rewriting_once(flow):
    exe = linked(flow, SERVER, ["-O2", "-g"])
    once = exe.read_bytes()
    flow.rewrite(exe)
    assert exe.read_bytes() == once
    run(["strip", exe])
    assert "bad 0 hz 410" in run([exe]).stdout


def test_without_dwarf_only_stores_at_known_places_are_known(flow):
    """An address that escapes, or an index, may then reach any byte."""
    exe = linked(flow, SERVER, ["-O2"])
    assert list(fields(flow, exe)) == [None]
    plain = SERVER.replace("configure(&server.verbosity, i)", "server.verbosity = i").replace("sampled(i, i);", "")
    plain = re.sub(r"configure\(&server.verbosity, (\d+)\)", r"server.verbosity = \1", plain)
    plain = re.sub(r"(NOINLINE void )(sampled|configure).*", "", plain).replace("sampled(2, 43);", "server.samples[2] = 43;")
    exe = linked(flow, plain, ["-O2"])
    f = fields(flow, exe)
    assert f["+0x8"]["armed"] == "yes" and len(f) > 4, f
    assert "bad 0 hz 410 port 7001 verbosity 42 sample 43" in run([exe]).stdout


WHOLE = {
    "an address that may be that of the object": "__attribute__((noinline, noclone)) void use(void *); void use(void *p) { *(volatile char *)p = 1; }\n"
                                                 "void f(void); void f(void) { use(&server); }",
    "an index that may be a choice": "void f(int c, long v); void f(int c, long v) { *(c ? &server.clients : &server.maxmemory) = v; }",
    "bytes through the object": "void f(long i); void f(long i) { ((volatile char *)&server)[i] = 1; }",
}


@pytest.mark.parametrize("why", WHOLE)
def test_what_may_reach_any_byte_is_about_the_object(flow, why):
    text = SERVER.split("#define NOINLINE")[0] + "int hz(void); int hz(void) { return server.hz; }\n" + WHOLE[why] + \
        "\nint main(void) { return hz() != 10; }\n"
    exe = linked(flow, text, ["-O2", "-g"])
    f = fields(flow, exe)
    if why == "an index that may be a choice":  # or two stores, each at its place
        assert all(f[n]["armed"] != "yes" for n in ("clients", "maxmemory") if n in f), f
    else:
        assert list(f) == [None] and f[None]["armed"] == "guarded", f
        last = run([flow.etch, "inspect", "fields", exe]).stdout.splitlines()[-1]
        assert re.match(r"server: not armed by field, because 1 place may reach any byte; .* because 1 store may follow later", last) or \
            why == "an address that may be that of the object", last
    run([exe])


LIBRARY = """
#include <etch/imv.h>
struct server { long clients; char pad[4088]; int hz; int port; long maxmemory; int verbosity; int last; };
ETCHED struct server server = { 0, "", 10, 6379, 1 << 20, 1, 7 };
int hz(void) { return server.hz; }
int port(void) { return server.port; }
int last(void) { return server.last; }
void accepted(void) { server.clients++; }
int sync_all(void) { return etch_sync(&server, sizeof server); }
"""
PLUGIN = """
#include <etch/imv.h>
struct server { long clients; char pad[4088]; int hz; int port; long maxmemory; int verbosity; int last; };
ETCH_DECLARE(server);
extern struct server server;
void plugin_store(int v) { server.port = v; }
int plugin_read(void) { return server.hz * 100000 + server.port; }
"""
HOST = """
#include <dlfcn.h>
#include <etch/imv.h>
#include <stdio.h>
int hz(void); int port(void); int last(void); void accepted(void); int sync_all(void);
extern char server[];
static void say(const char *when)
{
	struct etch_info i = { .size = sizeof(i) };

	etch_info(&i);
	printf("%s fields %lu armed %lu hz %d port %d last %d verify %ld\\n", when, i.fields, i.fields_armed, hz(), port(), last(),
	       etch_verify(0, 0));
}
int main(int argc, char **argv)
{
	void *h;

	(void)argc;
	printf("sync %d\\n", sync_all());
	accepted();
	say("before");
	h = dlopen(argv[1], RTLD_NOW);
	if (!h)
		return puts(dlerror()), 1;
	say("loaded");
	((void (*)(int))dlsym(h, "plugin_store"))(8080);
	printf("plugin %d\\n", ((int (*)(void))dlsym(h, "plugin_read"))());
	say("stored");
	printf("sync %d\\n", sync_all());
	((void (*)(int))dlsym(h, "plugin_store"))(9090);
	say("again");
	return 0;
}
"""


def test_a_module_that_comes_later_disarms_the_field_that_it_stores_to(flow, build):
    """And no other; nor does a later etch_sync arm it."""
    so = ["-shared", "-L", str(build), f"-Wl,-rpath,{build}"]
    lib = flow.compile(flow.source(LIBRARY, "library.c"), ["-O2", "-g", "-fPIC"])
    plug = flow.compile(flow.source(PLUGIN, "plugin.c"), ["-O2", "-g", "-fPIC"])
    host = flow.compile(flow.source(HOST, "host.c"), ["-O2"])
    flow.rewrite(lib, plug)
    library, plugin, exe = (flow.tmp / n for n in ("libserver.so", "plugin.so", "host"))
    run([flow.cc, *so, "-o", library, lib, "-letch"])
    run([flow.cc, *so, "-o", plugin, plug, library, "-letch"])
    run([flow.cc, "-o", exe, host, library, "-L", build, "-letch", f"-Wl,-rpath,{build}", f"-Wl,-rpath,{flow.tmp}", "-ldl"])
    for f in (library, plugin, exe):
        flow.rewrite(f)
    out = run([exe, plugin]).stdout
    counts = [tuple(map(int, x)) for x in re.findall(r"fields (\d+) armed (\d+)", out)]
    assert counts[0][1] == counts[0][0] - 2, out  # all but clients, and what is beside it on a page that stays writable
    assert [c[1] for c in counts[1:]] == [counts[0][1] - 1] * 3, out
    assert "hz 10 port 8080 last 7 verify 0\nsync 0\nagain" in out and "hz 10 port 9090 last 7 verify 0\n" in out, out
    assert "plugin 1008080" in out


def test_closed_says_that_exported_names_are_not_used(flow):
    text = SERVER.replace("ETCHED struct server", '__attribute__((visibility("default"))) ETCHED struct server')
    for args, at_start in (([], False), (["--closed"], True)):
        exe = linked(flow, text, ["-O2", "-g"], ["-rdynamic"], rewrite=args)
        f = fields(flow, exe)
        assert (f["hz"]["armed"] == "yes") == at_start, f
        assert (f["port"]["armed"] == "by etch_sync") == at_start, f
        flow.rewrite(exe)
        assert fields(flow, exe) == f
        assert "bad 0 hz 410 port 7001" in run([exe]).stdout


def test_a_stray_store_names_the_field(flow):
    """On a page of which every field is armed; here two, of which one is stored to during set-up alone."""
    text = """
#include <etch/imv.h>
ETCHED struct { int a, b, late, c[4000]; } cfg = { 1, 2, 3, {0} };
int a(void) { return cfg.a; }
int b(void) { return cfg.b; }
int *(*volatile hide)(int *);
static int *same(int *p) { return p; }
__attribute__((noinline)) void stray(int *p) { *(volatile int *)p = 5; }
int main(int argc, char **argv)
{
	(void)argv;
	hide = same;
	cfg.b = argc;
	if (etch_sync(&cfg, sizeof cfg) || a() != 1 || b() != argc)
		return 1;
	stray(hide((int *)ETCH_ADDR(cfg.b)));
	return b() == 5 ? 0 : 2;
}
"""
    exe = linked(flow, text, ["-O2", "-g"])
    assert run([exe]).stderr == ""
    p = stray([exe], ok=None)
    assert p.returncode == -11 and "stray+0x" in p.stderr and "etched object cfg.b+0x0," in p.stderr, p.stderr


@pytest.mark.parametrize("call,dies", [("sync", False), ("seal", True)])
def test_a_known_store_after_etch_seal_ends_the_program_and_after_etch_sync_does_not(flow, call, dies):
    text = """
#include <etch/imv.h>
ETCHED struct { int a, b, c; } cfg = { 1, 2, 3 };
__attribute__((noinline)) int all(void) { return cfg.a * 100 + cfg.b * 10 + cfg.c; }
__attribute__((noinline)) void store(int x) { cfg.b = x; }
int main(int argc, char **argv)
{
	(void)argv;
	if (etch_CALL(&cfg, sizeof cfg) || all() != 123 || etch_set(&cfg.a, 4) || all() != 423)
		return 1;
	store(argc);
	return all() == 413 && !etch_verify(0, 0) ? 0 : 2;
}
""".replace("CALL", call)
    p = subprocess.run([linked(flow, text, ["-O2"])], capture_output=True, text=True)
    assert p.returncode == (-11 if dies else 0), p
    assert not dies or ("store+0x" in p.stderr and "etched object cfg+0x4+0x0," in p.stderr), p.stderr


def test_objects_that_share_pages_are_armed_by_field(flow):
    """Of two objects on one page one is stored to: its page stays writable, its other fields and the other object are
    armed on proof; a set, and a store to the field that nobody armed, are seen at once."""
    text = """
#include <etch/imv.h>
#include <stdio.h>
ETCHED_SHARED struct { long a; int hits, b; long c; } first = { 1, 0, 2, 3 };
ETCHED_SHARED struct { long d; int e, f; } second = { 4, 5, 6 };
DEFINE_IMV(int, alone) = 7;
#define NOINLINE __attribute__((noinline))
NOINLINE long sum(void) { return first.a + first.b + first.c + second.d + second.e + second.f + imv_read(alone); }
NOINLINE int hits(void) { return first.hits; }
NOINLINE void hit(void) { first.hits++; }
int main(void)
{
	struct etch_info i = { .size = sizeof(i) };
	int err = 0;

	etch_info(&i);
	printf("armed %lu of %lu sum %ld hits %d\\n", i.armed, i.sites, sum(), hits());
	hit();
	err |= etch_set(&first.a, 10) | etch_set(&second.f, 60) | imv_set(alone, 70);
	hit();
	printf("%d sum %ld hits %d verify %ld\\n", err, sum(), hits(), etch_verify(0, 0));
	err |= etch_sync(&first, sizeof first) | etch_sync(&second, sizeof second);
	hit();
	err |= etch_set(&first.b, 20) | etch_set(&first.hits, 100);
	hit();
	err |= etch_release(&second, sizeof second);
	*(volatile int *)ETCH_ADDR(second.e) = 50;
	printf("%d sum %ld hits %d verify %ld\\n", err, sum(), hits(), etch_verify(0, 0));
	return 0;
}
"""
    exe = linked(flow, text.replace("\\\\n", "\\n"), ["-O2", "-g"])
    f = {(x["object"], x["field"]): x["armed"] for x in flow.inspect("fields", exe)["fields"]}
    assert f["first", "hits"] == "no" and {f["first", n] for n in "abc"} == {"yes"} and f["second", None] == "yes", f
    address = {n: int(a, 16) for a, n in re.findall(r"^(\w+) \w (first|second|alone__imv)$", run(["nm", exe]).stdout, re.M)}
    assert len({a >> 12 for a in address.values()}) == 1, address
    assert run([exe]).stdout.splitlines() == ["armed 7 of 8 sum 28 hits 0", "0 sum 154 hits 2 verify 0", "0 sum 217 hits 101 verify 0"]
