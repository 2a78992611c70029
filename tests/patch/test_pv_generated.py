# SPDX-License-Identifier: MIT
"""Generated calls through ops objects, of many signatures, in many contexts, while
their targets change: unprocessed, after the object step, after the link step alone
and after both, a program must print the same bytes. See gen_programs.py and
pv/gen_driver.c."""
import collections
import os
import re
import shutil
import sys

import pytest

from conftest import CCS, CXX, DATA, TESTS, Flow, call_options, run

PV = DATA / "pv"
LEVELS = ["-O0", "-O1", "-O2", "-O3", "-Os", "-Og"]  # clang takes -Og for -O1
MODES = {  # compiler flags, linker flags; pic: all but the driver is in a shared object
    "pic": (["-fPIC"], []),
    "pie": (["-fPIE"], ["-pie"]),
    "nopie": (["-fno-pie", "-ffunction-sections", "-fdata-sections"], ["-no-pie", "-Wl,--gc-sections"]),
    "cet": (["-fPIE", "-fcf-protection=full"], ["-pie", "-Wl,-z,ibt,-z,shstk"]),
}
FILES = ["gen.c", "targets.c", "imv.c", "targets.cc", "cxx.cc"]
SITES = 70 if os.environ.get("ETCH_TESTS") == "all" else 40   # functions that call
ROUNDS = 8   # no slot has more targets, so each meets nearly all of its own
STAGES = ["plain", "object", "alone", "linked"]


def seed(cc, level, mode):
    """A different program for each build."""
    return 1 + CCS.index(cc) + 2 * LEVELS.index(level) + 12 * list(MODES).index(mode)


def compile_all(flow, number, flags, sites=SITES):
    """The objects of a generated program, the driver's last."""
    run([sys.executable, TESTS / "patch" / "gen_programs.py", number, sites, flow.tmp])
    flags = ["-w", f"-I{PV}", f"-I{flow.tmp}", *call_options(flow.cc), *flags]
    objects = [flow.compile(flow.tmp / f, flags, f.replace(".", "_") + ".o").name for f in FILES]
    return [*objects, flow.compile(PV / "gen_driver.c", flags).name]


def link(flow, directory, mode, objects, extra=()):
    """The program in `directory`, and what of it can be rewritten."""
    cxx, flags = CXX[flow.cc], [*MODES[mode][1], *extra]
    program, files = directory / "program", [directory / o for o in objects]
    if mode == "pic":
        library = directory / "libgen.so"
        run([cxx, "-shared", "-o", library, *files[:-1], *flags, f"-L{flow.build}", "-letch"])
        run([cxx, "-rdynamic", "-o", program, files[-1], *flags, library, f"-L{flow.build}", "-letch",
             f"-Wl,-rpath,{directory}:{flow.build}"])
        return program, [library, program]
    run([cxx, *flags, "-o", program, *files, flow.build / "libetch.a", "-pthread"])
    return program, [program]


def play(program, number):
    """Output and counts of a run."""
    r = run([program, number * 77 + 5, ROUNDS], ok=None)
    assert r.returncode == 0, (r.returncode, r.stderr, [s for s in r.stdout.splitlines() if not s[:1].isdigit()][:20])
    print(program, r.stderr, end="")
    return r.stdout, {k: int(v) for k, v in (w.split("=") for w in r.stderr.split())}


def calls_of(flow, file):
    """Its call sites, as etch inspect has them."""
    return [s for s in flow.inspect("sites", file)["sites"] if s["kind"] in ("call", "jmp")]


# Bytes of what stands in the place of a call, which is not called then, whatever the compiler made of other functions. What a
# generated program has besides is longer than three bytes.
BODIES = {"pv_nop": 0, "pv_ident_32": 2, "pv_ident_64": 3, "native_nothing": 0, "native_load": 3, "native_store": 3}


def shortest_bodies(directory):
    """(name of an object, offset of its slot) -> bytes of the shortest body that is set there, by the program's source."""
    text = "".join((directory / f).read_text() for f in ("gen.h", "gen.c", "cxx.cc"))
    found = {}
    for tag, name in ((tag, tag.removeprefix("gen_")) for tag in re.findall(r"^struct ops_(\w+) \{$", text, re.M)):
        members = re.search(rf"^struct ops_{tag} \{{\n(.*?)^\}};", text, re.M | re.S)[1].splitlines()
        for offset, field in ((8 * i, re.search(r"\(\*(\w+)\)", m)) for i, m in enumerate(members)):   # a gap takes eight bytes, too
            targets = re.findall(rf"pv_set\((?:gen::)?{name}\.{field[1]}, (\w+)\)", text) if field else []
            sizes = [BODIES[t] for t in targets if t in BODIES]
            if sizes:
                found[name, offset] = min(sizes)
    return found


BUILDS = [(cc, level, mode) for cc in CCS for level in LEVELS for mode in MODES if (cc, level) != ("clang", "-Og")]


@pytest.mark.parametrize("cc,level,mode", BUILDS)
def test_same_output(tmp_path, build, cc, level, mode):
    flow = Flow(tmp_path, build, cc)
    number = seed(cc, level, mode)
    objects = compile_all(flow, number, [level, *MODES[mode][0]])
    outputs, counts, files = {}, {}, {}
    for stage in STAGES:
        directory = tmp_path / stage
        directory.mkdir()
        for o in objects:
            shutil.copy(tmp_path / o, directory / o)
        if stage in ("object", "linked"):
            together = [directory / o for o in objects]
            for group in [together] if number % 2 else [[f] for f in together]:
                flow.rewrite(*group)
        program, files[stage] = link(flow, directory, mode, objects)
        if stage in ("alone", "linked"):
            flow.rewrite(*files[stage])
        outputs[stage], counts[stage] = play(program, number)
    for stage in STAGES[1:]:
        assert outputs[stage] == outputs["plain"], stage
    assert outputs["plain"].count("\n") == SITES * (ROUNDS + 2)
    assert outputs["plain"].count("null") < SITES * ROUNDS // 3

    # It was not the same for want of sites.
    assert counts["plain"]["calls"] == 0
    sites = calls_of(flow, files["linked"][0])
    taken = [s for s in sites if s["form"] not in ("", "-", None)]
    live = [s for s in taken if s["live"] in ("yes", "swap")]
    # Without optimisation most pointers are kept on the stack while arguments are made.
    wanted = SITES // 4 if level == "-O0" else SITES * 2 // 3
    assert len(taken) >= wanted and len(live) >= wanted * 3 // 4, collections.Counter(s["live"] for s in sites)
    assert counts["linked"]["calls"] == len(taken) and counts["object"]["calls"] >= len(taken) * 2 // 3
    # What crosses a word is in the one file that neither etch/pv.h nor a flag has aligned.
    crossing = [s["function"] for s in taken if s["live"] == "swap"]
    assert counts["linked"]["fixed"] == 0 and len(live) == len(taken)
    assert all(cc == "gcc" and name.startswith(("calli", "taili")) for name in crossing), crossing
    # Patched, in some round. What holds null is indirect, and so is what is too short for a call: without optimisation,
    # nearly all, `call *%rdx`. Then not even `pv_ident_64` fits, and no function of the program's own is a short body.
    direct, inline = len(live) // 8, len(live) // 16
    if level == "-O0":
        bodies = shortest_bodies(tmp_path)
        names = [re.sub(r"^_ZN3genL?\d(\w+)E$", r"\1", s["object"]) for s in live]
        assert set(names) <= {name for name, _ in bodies}
        fitting = [s for s, name in zip(live, names) if bodies.get((name, s["offset"]), 99) <= s["length"]]
        direct, inline = 0, min(1, len(fitting))
    for stage in ("alone", "linked"):
        assert counts[stage]["direct"] >= direct and counts[stage]["inline"] >= inline, (stage, counts)
    # The object step arms what no other file can name.
    if level != "-O0":
        assert counts["object"]["direct"] > 0 and counts["object"]["inline"] > 0, counts


@pytest.mark.parametrize("options", [["-flto", "-flto-partition=one"], ["-flto=auto", "-fno-plt"]], ids=" ".join)
def test_link_time_optimisation(tmp_path, build, cc, options):
    """There the link step sees the code first."""
    flow = Flow(tmp_path, build, cc)
    if cc == "clang":
        options = ["-flto"] + (["-fno-plt"] if "-fno-plt" in options else [])
    extra = ["-O2", *options]
    if cc == "clang":
        extra += ["-fuse-ld=lld", "-Wl,-mllvm,-x86-align-branch-boundary=8,-mllvm,-x86-align-branch=indirect+call"]
    objects = compile_all(flow, 99, ["-O2", "-fPIE", *options])
    program, _ = link(flow, tmp_path, "pie", objects, extra)
    plain = play(program, 99)[0]
    flow.rewrite(program)
    output, counts = play(program, 99)
    assert output == plain
    assert counts["direct"] > SITES // 16 and counts["inline"] > 0
    if "-flto-partition=one" in options or cc == "clang":
        assert counts["fixed"] == 0


@pytest.mark.long
def test_every_form_and_reason(tmp_path, build):
    """The contexts reach every form of a site, every kind of image, and reasons for
    leaving a call alone."""
    forms, states, reasons = set(), set(), set()
    builds = [("clang", ["-O2"], "nopie"), ("gcc", ["-Os"], "pic"), ("clang", ["-O2"], "pie"), ("gcc", ["-O2"], "pie"),
              ("gcc", ["-O1"], "nopie")]
    for number, (cc, flags, mode) in enumerate(builds):
        directory = tmp_path / str(number)
        directory.mkdir()
        flow = Flow(directory, build, cc)
        objects = compile_all(flow, 200 + number, [*flags, *MODES[mode][0]], 70)
        _, files = link(flow, directory, mode, objects)
        flow.rewrite(*files)
        for s in calls_of(flow, files[0]):
            forms.add(s["form"])
            states.add(s["state"])
            reasons.add(s["live"])
    wanted = {f"{kind}-{how}" for kind in ("call", "jmp") for how in ("rip", "base", "reg")}
    assert not wanted - forms, forms
    assert {"indirect", "direct", "nop", "mov", "body"} <= states, states
    assert {"yes", "swap"} < reasons, reasons
