# SPDX-License-Identifier: MIT
"""Compile as ever, link as ever, one `etch rewrite PROGRAM`: the same sites as with the
object step, stripped before or not, and the program does the same. What differs is told
here: the linker keeps code for the object step's tables that it drops without them, and
what a stripped file does not say keeps loads loads, never more."""
import os
import shutil

import pytest

from conftest import DATA, Flow, run
from stores import program as stores
from test_escapes import HEAD

APP = [DATA / "acceptance" / "app.c", DATA / "acceptance" / "other.c"]
PV = [DATA / "pv" / "rewrite_main.c"]
LIB = [DATA / "acceptance" / "lib.c"]

# name: (sources, compiler flags, linker flags)
KINDS = {
    "pie": (APP, ["-fPIE"], ["-pie"]),
    "pie-pv": (PV, ["-fPIE"], ["-pie"]),
    "nopie": (APP, ["-fno-pie"], ["-no-pie"]),
    "nopie-pv": (PV, ["-fno-pie", "-DABSOLUTE"], ["-no-pie"]),
    "pic": (APP, ["-fPIC", "-fno-plt"], ["-pie", "-Wl,-z,now"]),
    "static": (APP, ["-fno-pie"], ["-static"]),
    "static-pv": (PV, ["-fno-pie", "-DABSOLUTE"], ["-static"]),
    "static-pie": (APP, ["-fPIE"], ["-static-pie"]),
    "gold": (PV, ["-fPIE"], ["-pie", "-fuse-ld=gold"]),
    "gold-static": (APP, ["-fno-pie"], ["-static", "-fuse-ld=gold"]),
    "lld": (PV, ["-fPIE"], ["-pie", "-fuse-ld=lld"]),
    "lld-nopie": (APP, ["-fno-pie"], ["-no-pie", "-fuse-ld=lld"]),
    "lld-static": (APP, ["-fno-pie"], ["-static", "-fuse-ld=lld"]),
    "gc": (APP, ["-fPIE", "-ffunction-sections", "-fdata-sections"], ["-pie", "-Wl,--gc-sections"]),
    "gc-icf-gold": (APP, ["-fPIE", "-ffunction-sections"], ["-pie", "-fuse-ld=gold", "-Wl,--gc-sections,--icf=all"]),
    "gc-icf-lld": (APP, ["-fPIE", "-ffunction-sections"], ["-pie", "-fuse-ld=lld", "-Wl,--gc-sections,--icf=all"]),
    "emit-relocs": (PV, ["-fno-pie"], ["-no-pie", "-Wl,--emit-relocs"]),
    "lto": (APP, ["-fPIE", "-flto"], ["-pie", "-flto"]),
    "large": (PV, ["-fno-pie", "-mcmodel=large"], ["-no-pie"]),
    "large-app": (APP, ["-fno-pie", "-mcmodel=large"], ["-no-pie"]),
    "no-tables": (APP, ["-fPIE", "-fno-asynchronous-unwind-tables", "-fno-exceptions"], ["-pie"]),
    "shared": (PV, ["-fPIC", "-DLIBRARY"], ["-shared"]),
    "shared-lld": (PV, ["-fPIC", "-DLIBRARY"], ["-shared", "-fuse-ld=lld"]),
    "shared-app": (LIB, ["-fPIC", "-fvisibility=hidden"], ["-shared"]),
}
LEVELS = ["-O0", "-O1", "-O2", "-O3", "-Os"]
# By default each linker, format and code model once, with turns of compiler and level; `make
# test-all` has the rest.
USUAL = ["pie-gcc-O2", "nopie-pv-clang-Os", "pic-gcc-O3", "static-gcc-O2", "gold-gcc-O2", "gc-icf-lld-clang-O2", "lto-gcc-O2",
         "large-gcc-O2", "shared-clang-O1", "no-tables-clang-O0", "nopie-gcc-O0", "emit-relocs-gcc-O2"]


def cases():
    for kind in KINDS:
        for cc in ("gcc", "clang"):
            for level in LEVELS:
                name = f"{kind}-{cc}{level}"
                if os.environ.get("ETCH_TESTS") == "all" or name in USUAL:
                    yield pytest.param(kind, cc, level, id=name)


def link(flow, objects, flags, name):
    if "-shared" in flags:
        out = flow.tmp / name
        run([flow.cc, *flags, "-o", out, *objects, f"-L{flow.build}", "-letch"])
        return out
    return flow.link(objects, flags, name)


def rewritten(flow, path):
    """Once; and twice is once."""
    out = flow.tmp / (path.name + "-etched")
    flow.rewrite(path, args=["-o", out])
    again = flow.tmp / "again"
    flow.rewrite(out, args=["-o", again])
    assert again.read_bytes() == out.read_bytes()
    return out


def patched(sites):
    return [s for s in sites if s["kind"] not in ("escape", "store")]


def place(s, moved=False):
    """A site by its function: the two ways' files differ in their addresses. `moved`: in functions that are
    aligned to less than a word, so that what is live differs."""
    where = ("function", "kind", "length", "object", "offset", "size", "form")
    return tuple(s[k] for k in (where if moved else (*where, "live", "state", "target")))


def function(s):
    return s["function"].split("+")[0]


def spot(s):
    return tuple(s[k] for k in ("address", "kind", "length", "size", "form", "live"))


def state(s):
    return s["address"], s["state"]


AS_COMPILED = {"load", "indirect"}


@pytest.mark.parametrize("kind,cc,level", cases())
def test_the_same_sites(tmp_path, build, kind, cc, level):
    sources, cflags, ldflags = KINDS[kind]
    flow = Flow(tmp_path, build, cc)
    plain_objects = [flow.compile(s, [level, *cflags], s.stem + ".o") for s in sources]
    objects = [shutil.copy(o, tmp_path / f"object-{o.name}") for o in plain_objects]
    flow.rewrite(*objects)
    plain = link(flow, plain_objects, [level, *ldflags], "plain")
    one = rewritten(flow, plain)
    two = rewritten(flow, link(flow, objects, [level, *ldflags], "object"))
    sites, theirs = flow.inspect("sites", one)["sites"], flow.inspect("sites", two)["sites"]
    if "static" in kind and "pie" not in kind:
        # An object at a round address: without relocations, words of glibc's tables may be pointers to it.
        chance = {s["object"] for s in sites + theirs if s["live"] == "no: a data word holds the address"}
        assert len(chance) <= 2
    else:
        chance = set()
    dropped = "gc" in kind
    kept = {function(s) for s in sites} if dropped else {function(s) for s in sites + theirs}
    places = [[place(s, dropped) for s in some if function(s) in kept and s["object"] not in chance] for some in (sites, theirs)]
    assert places[0] == places[1]
    assert len([s for s in patched(sites) if s["form"] and s["live"] in ("yes", "swap")]) >= {"shared-app": 2, "large-app": 6}.get(kind, 8)  # the others are too short
    want = None if "-shared" in ldflags else run([plain]).stdout
    for path in ([one, two] if want else []):
        assert run([path]).stdout == want, path
    if "-shared" in ldflags or kind == "lto":
        strips = ["strip"]
    else:
        strips = ["strip", "eu-strip"] if level == "-O2" else ["strip"]
    for tool in strips:
        bare = tmp_path / f"plain-{tool}"
        run([tool, "-o", bare, plain])
        bare = rewritten(flow, bare)
        stripped = flow.inspect("sites", bare)["sites"]
        if kind == "no-tables":
            # One function, for all that is known: what is in a register is not followed as far.
            assert {spot(s)[:4] for s in patched(stripped)} == {spot(s)[:4] for s in patched(sites)}
        else:
            assert list(map(spot, patched(stripped))) == list(map(spot, patched(sites)))
        if kind == "emit-relocs":  # BOLT would move immediates that no set finds; without relocations it does not come
            assert {s["state"] for s in patched(sites)} <= AS_COMPILED
            # strip takes them away, eu-strip does not.
            assert ({s["state"] for s in patched(stripped)} <= AS_COMPILED) == (tool == "eu-strip")
        elif not any(s["kind"] == "escape" for s in stripped):
            followed = {s["address"] for s in stripped if s["form"]} if kind == "no-tables" else {s["address"] for s in sites}
            assert followed
            assert [state(s) for s in patched(stripped) if s["address"] in followed] == [state(s) for s in patched(sites) if s["address"] in followed]
        # Never a site that the names speak against.
        assert kind == "emit-relocs" or not {state(s) for s in patched(stripped) if s["state"] not in AS_COMPILED} - set(map(state, sites))
        if want:
            assert run([bare]).stdout == want, tool


PARTS = """
ETCHED struct big { long a; char text[5000]; long b; } big = { 1, "x", 2 };
ETCHED_SHARED struct small { int x, y; long z, w; } small = { 3, 4, 5, 6 };
static ETCHED_SHARED int alone = 7;
DEFINE_IMV(int, value) = 8;
ETCHED struct big later = { 9, "y", 10 };
__attribute__((noinline)) long look(void) { return big.a + big.b * 10 + small.x * 100 + small.z * 1000 + small.w + alone + imv_read(value); }
__attribute__((noinline)) long late(void) { return later.a + later.b; }
__attribute__((noinline)) void store(long v) { later.b = v; }
int main(int c, char **v)
{
	struct big b = { 11, "z", 12 }; struct small s = { 13, 14, 15, 16 }; int bad = 0; (void)v;
	printf("%ld %ld\\n", look(), late()); store(c); printf("%ld\\n", late());
	bad |= etch_set(&big, b); bad |= etch_set(&small, s); bad |= etch_set(&small.w, 17); bad |= imv_set(value, 18);
	bad |= etch_set(&alone, 19); printf("%ld\\n", look());
	bad |= etch_sync(&later, sizeof(later)); bad |= etch_set(&later.b, 20); printf("%ld\\n", late());
	bad |= etch_release(&later, sizeof(later)); store(21); later.a = 22; printf("%ld\\n", late());
	printf("%d %ld\\n", bad, etch_verify(0, 0)); return bad;
}
"""


@pytest.mark.parametrize("mode", ["pie", "static"])
def test_sets_over_parts(flow, mode):
    """Objects of several parts: set whole, synced, released; stores to one part of known extent."""
    o = flow.compile(HEAD + PARTS, ["-O2", "-fno-pie"] if mode == "static" else ["-O2"])
    plain = flow.link([o], ["-static", "-s"] if mode == "static" else ["-s"], "plain")
    want = run([plain]).stdout
    exe = rewritten(flow, plain)
    assert run([exe]).stdout == want and want.endswith("\n0 0\n")
    parts = [r for r in flow.inspect("summary", exe)["objects"] if r["object"].startswith("etched")]
    assert {r["armed"] for r in parts if r["object"] != "etched+0x4000"} >= {"yes", "no"}
    assert sum(s["state"] == "immediate" for s in flow.inspect("sites", exe)["sites"]) >= 1


@pytest.mark.parametrize("how", ["-s", "-x"])
@pytest.mark.parametrize("seed", [29, 4])
def test_stores_of_stripped_programs(flow, how, seed):
    """Seed 29 has an address that stays in a register which the callee, whose end nobody knows, seems to
    change. Longer: see test_escapes.py."""
    no_tables = ["-O2", "-fno-asynchronous-unwind-tables", "-fno-pie", "-w"]
    plain = flow.link([flow.compile(stores(seed).replace("[40]", "[1500]"), no_tables)], ["-no-pie"], "plain")
    want = run([plain]).stdout
    run(["strip", how, plain])
    assert run([rewritten(flow, plain)]).stdout == want


def test_a_store_by_64_bit_address_is_seen(flow_gcc):
    """mov %eax, moffs: the large code model's store, in a program that saw no object step."""
    o = flow_gcc.compile(HEAD + """
ETCHED int number = 1;
int main(int c, char **v) { (void)v; printf("%d\\n", number); __asm__ volatile("movabs %%eax, number" : : "a"(c + 5) : "memory"); printf("%d\\n", number); return 0; }
""", ["-O2", "-fno-pie", "-mcmodel=large"])
    for flags in (["-no-pie"], ["-no-pie", "-s"]):
        exe = flow_gcc.link([o], flags, "t")
        flow_gcc.rewrite(exe)
        assert run([exe]).stdout == "1\n6\n"
        assert any(s["kind"] == "store" for s in flow_gcc.inspect("sites", exe)["sites"])
