# SPDX-License-Identifier: MIT
"""Item 2 of the issue: readers that never pause, on a site of every form and
size, while sets, dlopen, dlclose and fork go on (tests/data/lib/stress.c): no read is
torn, stale or of a value never set. The long version is scripts/soak.sh."""

import re

import pytest

from conftest import CCS, DATA, Flow, run

LIB = DATA / "lib"

# Forms of etch/forms.h, as `etch inspect sites` names them.
FORMS = {f"{op}{w}" for op in "add or adc sbb and sub xor cmp test mov".split() for w in (8, 16, 32, 64)} | {
    f"imul{w}" for w in (16, 32, 64)} | {"push64"} | {
    f"mov{x}{pair}" for x in ("zx", "sx") for pair in ("8_16", "8_32", "8_64", "16_32", "16_64")} | {"movsx32_64"}


@pytest.fixture(scope="module")
def programs(build, tmp_path_factory):
    made = {}

    def make(cc, stage, place=None):
        if (cc, stage, place) not in made:
            tmp = tmp_path_factory.mktemp(f"stress-{cc}-{stage}")
            flow = Flow(tmp, build, cc)
            where = [f'-DPLACE=".p2align {place[0]}; .skip {place[1]}, 0x90; "'] if place else []
            objects = [flow.compile(LIB / "stress.c", ["-O2", "-fPIE", *where]),
                       flow.compile(LIB / "stress_plugin.c", ["-O2", "-fPIC"])]
            if stage != "plain":
                flow.rewrite(*objects)
            lib = [f"-L{build}", "-letch", f"-Wl,-rpath,{build}", "-pthread", "-ldl"]
            run([cc, "-pie", "-rdynamic", "-o", tmp / "stress", objects[0], *lib])
            run([cc, "-shared", "-o", tmp / "plugin.so", objects[1], *lib])
            if stage == "linked":
                flow.rewrite(tmp / "stress", tmp / "plugin.so")
            made[cc, stage, place] = flow
        return made[cc, stage, place]

    return make


def stress(flow, reads, sets):
    out = run([flow.tmp / "stress", reads, sets, 4, flow.tmp / "plugin.so"], timeout=900).stdout
    numbers = {k: int(v) for k, v in re.findall(r"(\w+) (\d+)", out.splitlines()[1])}
    assert numbers["reads"] >= reads and numbers["sets"] >= sets
    assert numbers["loads"] >= 10 and numbers["forks"] >= 10
    assert numbers["wrong"] == numbers["errors"] == numbers["verify"] == 0
    return out


@pytest.mark.parametrize("cc", CCS)
def test_every_form_is_there(programs, cc):
    """What the stress test is about: each form has a site, and it is live."""
    flow = programs(cc, "linked")
    sites = flow.sites(flow.tmp / "stress")
    assert FORMS <= {s["form"] for s in sites if s["live"] == "yes"}
    assert any(s["object"] == "shared__imv" and s["live"] == "yes" for s in flow.sites(flow.tmp / "plugin.so"))


@pytest.mark.parametrize("cc,stage", [("gcc", "linked"), ("clang", "object")])
@pytest.mark.long
def test_stress(programs, cc, stage):
    """The full count: 10^8 reads and 10^5 sets."""
    out = stress(programs(cc, stage), 10**8, 10**5)
    assert int(out.split()[1]) > 60


@pytest.mark.parametrize("cc,stage", [("gcc", "object"), ("gcc", "linked"), ("clang", "object"), ("clang", "linked"), ("gcc", "plain"),
                                      ("clang", "plain")])
def test_stress_short(programs, cc, stage):
    stress(programs(cc, stage), 10**7, 10**4)


# (log2 of the alignment, bytes after it): across an 8-byte word at each distance, a cache line, a page.
PLACES = [*((3, n) for n in range(1, 8)), (6, 61), (5, 30), (12, 4093)]


@pytest.mark.parametrize("place", PLACES, ids=str)
def test_sites_anywhere(programs, place):
    """Sites that no single store can replace: their pages are swapped under the readers."""
    cc, stage = ("gcc", "linked") if place[1] % 2 else ("clang", "object")
    flow = programs(cc, stage, place)
    out = stress(flow, 10**6, 2 * 10**3)
    armed, sites = map(int, re.match(r"armed (\d+) of (\d+) sites", out).groups())
    assert armed == sites > 60


@pytest.mark.parametrize("place", PLACES, ids=str)
@pytest.mark.long
def test_sites_anywhere_long(programs, place):
    """10^9 reads and 10^5 sets at each place: 10^10 and 10^6 in all."""
    stress(programs("gcc", "linked", place), 10**9, 10**5)


@pytest.fixture(scope="module")
def swaps(build, tmp_path_factory):
    """tests/data/lib/swaps.c and its plugin, rewritten."""
    flow = Flow(tmp_path_factory.mktemp("swaps"), build)
    objects = [flow.compile(LIB / "swaps.c", ["-O2", "-fPIE"]), flow.compile(LIB / "swaps_plugin.c", ["-O2", "-fPIC"])]
    flow.rewrite(*objects)
    lib = [f"-L{build}", "-letch", f"-Wl,-rpath,{build}"]
    run(["gcc", "-pie", "-rdynamic", "-o", flow.tmp / "swaps", objects[0], *lib, "-pthread", "-ldl"])
    run(["gcc", "-shared", "-o", flow.tmp / "swaps_plugin.so", objects[1], *lib])
    flow.rewrite(flow.tmp / "swaps", flow.tmp / "swaps_plugin.so")
    return flow


def sweep(flow, reads, sets):
    out = run([flow.tmp / "swaps", reads, sets, flow.tmp / "swaps_plugin.so"], timeout=7200).stdout
    armed, sites, by_swap = map(int, re.match(r"armed (\d+) of (\d+) sites, (\d+) by swap", out).groups())
    numbers = {k: int(v) for k, v in re.findall(r"(\w+) (\d+)", out.splitlines()[1])}
    assert armed == sites > 1500 and by_swap > 900
    assert numbers["reads"] >= reads and numbers["sets"] >= sets
    assert numbers["wrong"] == numbers["errors"] == numbers["verify"] == 0
    assert min(numbers[x] for x in ("forks", "signals", "loads", "maps")) >= 5


def test_swaps(swaps):
    """Sites at every offset in a line and across pages at each distance, a setter on each CPU."""
    places = {int(s["address"], 16) for s in swaps.sites(swaps.tmp / "swaps") if s["form"] == "mov32"}
    assert {at % 64 for at in places} == set(range(64))
    assert {4096 - at % 4096 for at in places} >= {1, 2, 3, 4, 5}
    sweep(swaps, 10**7, 10**3)


@pytest.mark.long
def test_swaps_long(swaps):
    """10^10 reads in 10^6 swaps."""
    sweep(swaps, 10**10, 10**6)
