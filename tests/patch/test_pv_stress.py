# SPDX-License-Identifier: MIT
"""Call sites under stress (tests/data/pv/stress.c: threads, sets, signals and walks,
modules, forks), at the limits of the system (stress_limits.c), across shared objects
(stress_shared_*.c), in random programs (stress_programs.py), and seen one instruction
at a time and by a debugger. The long versions: scripts/soak.sh."""

import itertools
import re
import shutil
import signal
import subprocess
from pathlib import Path

import pytest

import dynamic
import dynamic_truth
import mutate
import stress_programs
from conftest import CCS, DATA, ROOT, Flow, call_options, need, run
from fuzzing import common as fuzzing, files as fuzzed

PV = DATA / "pv"
INCLUDE = ROOT / "lib" / "include"
KINDS = {"pie": (["-fPIE"], ["-pie"]), "no-pie": (["-fno-pie"], ["-no-pie"])}
FORMS = {f"{what}-{how}" for what in ("call", "jmp") for how in ("rip", "base", "reg")}


# ---- threads ----------------------------------------------------------------------

@pytest.fixture(scope="module")
def stress(build, tmp_path_factory):
    """The stress program and its plugin, of a compiler, kind and stage; more flags."""
    made = {}

    def make(cc, kind, stage, *more):
        key = cc, kind, stage, more
        if key not in made:
            flow = Flow(tmp_path_factory.mktemp("stress"), build, cc)
            cflags, link = KINDS[kind]
            objects = [flow.compile(PV / "stress.c", ["-O2", "-g", *cflags, *call_options(cc), *more]),
                       flow.compile(PV / "stress_plugin.c", ["-O2", "-g", "-fPIC", *call_options(cc), *more])]
            if stage != "plain":
                flow.rewrite(*objects)
            lib = [f"-L{build}", "-letch", f"-Wl,-rpath,{build}", "-pthread", "-ldl"]
            run([cc, *link, "-rdynamic", "-o", flow.tmp / "stress", objects[0], *lib])
            run([cc, "-shared", "-o", flow.tmp / "plugin.so", objects[1], *lib])
            if stage == "linked":
                flow.rewrite(flow.tmp / "stress", flow.tmp / "plugin.so")
            made[key] = flow
        return made[key]

    return make


@pytest.mark.parametrize("cc", CCS)
@pytest.mark.parametrize("kind", KINDS)
def test_every_form_is_there(stress, cc, kind):
    """What the stress is about: live sites of each form, and in the plugin through the GOT."""
    flow = stress(cc, kind, "linked")
    live = {s["form"] for s in flow.sites(flow.tmp / "stress") if s["live"] == "yes"}
    assert FORMS | ({"call-abs", "jmp-abs"} if kind == "no-pie" else set()) <= live
    plugin = [s for s in flow.sites(flow.tmp / "plugin.so") if s["live"] == "yes"]
    assert {s["object"] for s in plugin} == {"stress_ops", "own"}


@pytest.mark.parametrize("cc,kind,stage,sets", [
    ("gcc", "pie", "linked", 20_000), ("clang", "no-pie", "object", 20_000), ("gcc", "no-pie", "object", 5_000),
    ("clang", "pie", "linked", 5_000), ("gcc", "pie", "plain", 5_000), ("clang", "no-pie", "plain", 5_000)])
def test_threads(stress, cc, kind, stage, sets):
    """Every call ran one target that its slot held; every walk from a callee or a
    handler is glibc's."""
    flow = stress(cc, kind, stage)
    out = run([flow.tmp / "stress", 10**6, sets, 4, flow.tmp / "plugin.so"], timeout=900).stdout
    n = {k: int(v) for k, v in re.findall(r"(\w+) (\d+)", out)}
    assert n["calls"] >= 10**6 and n["sets"] >= sets and n["nops"] > sets / 20
    assert n["loads"] >= 10 and n["forks"] >= 10 and n["signals"] > 10
    assert n["walks"] > 100 and n["whole"] > n["walks"] * 0.9
    assert n["wrong"] == n["errors"] == n["verify"] == n["walkswrong"] == 0


# ---- by other eyes ------------------------------------------------------------------

@pytest.mark.parametrize("source", ["etch", pytest.param("cfi", marks=pytest.mark.long)])
@pytest.mark.parametrize("cc,kind,stage", [("gcc", "pie", "linked"), pytest.param("clang", "no-pie", "linked", marks=pytest.mark.long)])
def test_unwinding_at_each_instruction(stress, stepper, etch, tmp_path, cc, kind, stage, source):
    """A shadow call stack against etch's rows and libetch, and against .eh_frame by
    pyelftools, from every instruction of every form at every target."""
    program = tmp_path / "stress"
    # Of what its assembly pushes .eh_frame says nothing: callee-saved registers are found by the register table alone.
    run([etch, "rewrite", "--registers", "-o", program, stress(cc, kind, stage).tmp / "stress"])
    table = dynamic.Rows(tmp_path / "rows", etch, [] if source == "etch" else "cfi")
    r = dynamic.in_process(stepper(library=source == "etch"), table, [program, "once"], library=source == "etch")
    assert r.walked > 100_000 and r.calls > 2000 and r.odd_returns == 0
    assert source == "cfi" or r.library_frames >= r.checked
    # The stepper's own way out is hand-made; what .eh_frame does not cover has no row there.
    silent = ("undef", "no-table") if source == "cfi" else ()
    wrong = [t for t in dynamic_truth.unexplained([r]) if t.what not in silent and not t.file.endswith("/shadow.so")]
    assert not wrong, "\n".join(map(str, wrong[:20]))


def frames(text):
    """The functions of each `bt` of a gdb session."""
    stops, now = [], None
    for line in text.splitlines():
        m = re.match(r"#(\d+) +(?:0x[0-9a-f]+ in )?([\w.]+)", line)
        if m and m[1] == "0":
            now = []
            stops.append(now)
        if m:
            now.append(m[2])
    return stops


@pytest.mark.parametrize("cc,kind", [("gcc", "pie"), ("clang", "no-pie")])
def test_gdb_backtraces(stress, tmp_path, cc, kind):
    """From inside the callee of each form: the frames are those of the program that no
    tool has seen, and its sites are direct calls then."""
    need("gdb")

    script = tmp_path / "script.gdb"
    script.write_text("".join(f"break {f}\ncommands\nsilent\nbt\ncontinue\nend\n" for f in ("direct1", "count0")))

    def session(stage):
        flow = stress(cc, kind, stage)
        p = run(["gdb", "-q", "-batch", "-nx", "-iex", "set debuginfod enabled off", "-x", script, "-ex", "run once",
                 flow.tmp / "stress"], stdin=subprocess.DEVNULL)
        assert "wrong 0 errors 0" in p.stdout, p.stdout[-2000:] + p.stderr[-2000:]
        return frames(p.stdout)

    want, got = session("plain"), session("linked")
    assert len(want) > 20 and got == want
    callers = {s[1] for s in got}
    assert {"call_rip", "call_base", "call_base32", "call_got", "call_reg", "call_rip_notrack"} <= callers


def test_gdb_breakpoint_on_a_site(stress):
    """Busy, nothing changed; once it is gone the set goes through."""
    need("gdb")
    flow = stress("gcc", "pie", "linked")
    p = run(["gdb", "-q", "-batch", "-nx", "-iex", "set debuginfod enabled off", "-ex", "break sites_call", "-ex", "run once",
             # after sub $8,%rsp and padding: the site is the first call in there
             "-ex", "python import gdb; a = [i['addr'] for i in gdb.selected_frame().architecture().disassemble("
             "int(gdb.parse_and_eval('(long)&call_rip')), count=8) if 'call' in i['asm']][0]; "
             "gdb.execute('break *%d' % a)",
             "-ex", "continue", "-ex", "continue", "-ex", "print (int)set_errors", "-ex", "delete", "-ex", "continue", flow.tmp / "stress"],
            stdin=subprocess.DEVNULL)
    assert "set: " in p.stderr and "breakpoint" in p.stderr, p.stdout + p.stderr
    assert re.search(r"\$1 = [1-9]", p.stdout), p.stdout


# ---- control-flow protection -----------------------------------------------------------

AT_SITE = {
    "call": r"(addr32 )*call |nop|cs |data16|xchg|(cs )*(mov|xor|lea|and|sub)|(notrack )?call ",
    "jmp": r"(cs )*jmp |(cs )*ret|(notrack )?jmp ",
}


@pytest.mark.parametrize("seed", range(4))
def test_control_flow_protection(build, tmp_path, cc, seed):
    """-fcf-protection=full: what stands at a site neither pushes nor returns but as the
    indirect form would: a ret only where a tail call was; and the functions keep their endbr64."""
    flow = Flow(tmp_path, build, cc)
    text = stress_programs.program(400 + seed)
    o = flow.compile(flow.source(text), ["-O2", "-w", "-fcf-protection=full", "-fPIE", *call_options(cc),
                                         *stress_programs.needed_flags(text, cc)])
    want = run([flow.link([o], ["-pie"], "plain")]).stdout
    flow.rewrite(o)
    exe = flow.link([o], ["-pie"], "linked")
    flow.rewrite(exe)
    assert run([exe]).stdout == want
    sites = [s for s in flow.sites(exe) if s["kind"] in AT_SITE]
    assert len([s for s in sites if s["live"] == "yes"]) > 3
    text = run(["objdump", "-d", "--no-show-raw-insn", "-j", ".text", exe]).stdout
    at = dict(re.findall(r"^ +([0-9a-f]+):\t(.*?) *$", text, re.M))
    for s in sites:
        insn = at[s["address"].lstrip("0")]
        assert re.match(AT_SITE[s["kind"]], insn), (s, insn)
        assert "push" not in insn and ("ret" not in insn or s["kind"] == "jmp"), (s, insn)
    assert re.search(r"<a0>:\n.*endbr64", text)


# ---- limits -----------------------------------------------------------------------------

LIMITS = "forms busy code mdwe membarrier mprotect far gone null seal fork itself chained early".split()
LINKS = {**KINDS, "static": (["-fno-pie"], ["-static"]), "static-pie": (["-fPIE"], ["-static-pie"])}


@pytest.fixture(scope="module")
def limits(build, tmp_path_factory):
    made = {}

    def make(cc, link, stage):
        if (cc, link, stage) not in made:
            flow = Flow(tmp_path_factory.mktemp("limits"), build, cc)
            cflags, ldflags = LINKS[link]
            made[cc, link, stage] = flow.program(PV / "stress_limits.c", stage, ["-O2", *cflags, *call_options(cc)], ldflags)
        return made[cc, link, stage]

    return make


@pytest.mark.parametrize("cc,link,stage", [
    (cc, link, stage) for cc in CCS for link in LINKS for stage in ("plain", "object", "linked")
    # A statically linked libc's data may look like an address of ours: its object starts unarmed.
    if (link, stage) not in (("static", "linked"), ("static", "plain"), ("static-pie", "plain"))])
def test_limits(limits, cc, link, stage):
    exe = limits(cc, link, stage)
    for case in LIMITS:
        p = run([exe, case], ok=None)
        assert (p.returncode, p.stdout) == (0, "done\n"), f"{case}: exit {p.returncode}\n{p.stdout}{p.stderr}"


@pytest.mark.parametrize("cc", CCS)
def test_stray_store(limits, cc):
    p = run([limits(cc, "pie", "linked"), "stray"], ok=-signal.SIGSEGV)
    assert re.match(r"etch: stray store: case_stray\+0x[0-9a-f]+ .* stores to the etched object ops\+0x0,", p.stderr)


# ---- shared objects ------------------------------------------------------------------------

SHARED = {  # the library's flags, its link; the program's flags, its link; definitions for library, for users
    "pic": ([], [], ["-fPIC"], ["-pie"], [], []),
    "pie": ([], [], ["-fPIE"], ["-pie"], [], []),
    "copy relocation": ([], [], ["-fno-pie"], ["-no-pie"], [], []),
    "own target": ([], [], ["-fPIC"], ["-pie"], [], ["-DOWN_TARGET"]),
    "symbolic": ([], ["-Wl,-Bsymbolic"], ["-fPIC"], ["-pie"], [], ["-DOWN_TARGET"]),
    "symbolic functions": ([], ["-Wl,-Bsymbolic-functions"], ["-fPIC"], ["-pie"], [], ["-DOWN_TARGET"]),
    "now": ([], ["-Wl,-z,now"], ["-fPIC"], ["-pie", "-Wl,-z,now"], [], []),
    "lazy": ([], ["-Wl,-z,lazy"], ["-fPIC"], ["-pie", "-Wl,-z,lazy"], [], []),
    "protected": ([], [], ["-fPIC"], ["-pie"], ['-DOPS_VISIBILITY="protected"'], []),
    "hidden": ([], [], ["-fPIE"], ["-pie"], ['-DOPS_VISIBILITY="hidden"'], ["-DNO_OPS"]),
    "no interposition": (["-fno-plt", "-fno-semantic-interposition"], [], ["-fPIC", "-fno-plt"], ["-pie"], [], []),
    "lld": ([], ["-fuse-ld=lld"], ["-fPIC"], ["-pie", "-fuse-ld=lld"], [], ["-DOWN_TARGET"]),
    "relr": ([], ["-Wl,-z,pack-relative-relocs"], ["-fPIC"], ["-pie", "-Wl,-z,pack-relative-relocs"], [], []),
}


def shared_compile(flow, what):
    """The objects of libhome.so with the ops table and targets, of libuser.so, of the program; and
    LD_PRELOAD's two libraries."""
    libc, _, progc, _, home, users = SHARED[what]
    flags = ["-O2", "-g", "-w", *call_options(flow.cc)]
    for preload in ("FUNCTION", "TABLE"):
        run([flow.cc, "-shared", "-fPIC", f"-D{preload}", "-o", flow.tmp / f"{preload}.so", PV / "stress_shared_preload.c"])
    return [flow.compile(PV / "stress_shared_home.c", [*flags, "-fPIC", *libc, *home]),
            flow.compile(PV / "stress_shared_user.c", [*flags, "-fPIC", *users]),
            flow.compile(PV / "stress_shared_main.c", [*flags, *progc, *users])]


def shared_run(flow, what, stage, compiled):
    """For each of LD_PRELOAD's two libraries and none, what the program prints."""
    _, libl, _, progl, _, _ = SHARED[what]
    objects = [Path(shutil.copy(o, flow.tmp)) for o in compiled]
    lib = [f"-L{flow.build}", "-letch", f"-Wl,-rpath,{flow.build}", "-Wl,-rpath,$ORIGIN", "-L", flow.tmp]
    files = [flow.tmp / name for name in ("libhome.so", "libuser.so", "main")]
    if stage != "plain":
        flow.rewrite(*objects)
    run([flow.cc, "-shared", *libl, "-o", files[0], objects[0], *lib])
    run([flow.cc, "-shared", "-o", files[1], objects[1], "-lhome", *lib])
    run([flow.cc, *progl, "-o", files[2], objects[2], "-luser", "-lhome", *lib])
    if stage == "linked":
        flow.rewrite(*files)
    out = {}
    for preload in (None, "FUNCTION", "TABLE"):
        env = {}
        if preload:
            env["LD_PRELOAD"] = str(compiled[0].with_name(f"{preload}.so"))
        for argv in ([], ["sync"]):
            out[preload, len(argv)] = run([files[2], *argv], env=env).stdout
    return out


# The others take like ways.
USUAL = {"pic", "pie", "copy relocation", "own target", "symbolic", "protected", "hidden", "lld"}


@pytest.mark.parametrize("what", [w if w in USUAL else pytest.param(w, marks=pytest.mark.long) for w in SHARED])
def test_shared(build, tmp_path, cc, what):
    """A table of one shared library, called and set from another and from the program:
    also where another module's table or target takes the place of its own."""
    out, compiled = {}, shared_compile(Flow(tmp_path, build, cc), what)
    for stage in ("plain", "object", "linked"):
        directory = tmp_path / stage
        directory.mkdir()
        flow = Flow(directory, build, cc)
        out[stage] = shared_run(flow, what, stage, compiled)
    assert all(text.endswith("\n0\n") for text in out["plain"].values())
    assert out["object"] == out["plain"] and out["linked"] == out["plain"]
    kinds = {name: [s for s in flow.sites(flow.tmp / name) if s["kind"] in ("call", "jmp") and s["live"] == "yes"]
             for name in ("libhome.so", "libuser.so")}
    assert len(kinds["libhome.so"]) >= 3 and (len(kinds["libuser.so"]) >= 3 or what == "hidden")
    # The two things that LD_PRELOAD can do are seen where they can be.
    taken = itertools.chain.from_iterable(re.findall(r"4: (\d+) ", out["plain"][k, 1]) for k in ("FUNCTION", "TABLE"))
    assert what == "symbolic" or what == "protected" or what == "hidden" or {"7784", "5562"} & set(taken)


# ---- random programs -------------------------------------------------------------------------

@pytest.mark.parametrize("seed", range(16))
def test_random_programs(build, tmp_path, seed):
    """Longer: tests/patch/stress_programs.py --run 16 1000 build"""
    assert stress_programs.steps(seed, build, tmp_path, INCLUDE) is None


# ---- damaged tables -----------------------------------------------------------------------------

@pytest.mark.parametrize("step", ["object", "linked"])
def test_damaged_tables_at_run_time(build_asan, once, cc, step):
    """The library under ASan and UBSan, in a program whose tables alone are damaged: it
    works, or refuses. Longer: scripts/fuzz.py."""
    names = [f"{cc}-{step}" for cc, step in itertools.product(CCS, ["object", "linked"])]

    def make(directory):
        for name, program in zip(names, fuzzed.programs_make(build_asan, directory)):
            (directory / name).symlink_to(program)
    program = (once("damaged", make) / f"{cc}-{step}").resolve()
    assert re.fullmatch(r"[1-9] calls, [1-9] sites: done\n", run([program], env=fuzzing.environment()).stdout)
    refused, problems = mutate.library_problems(program, 1, 150, fuzzing.environment())
    assert not problems, problems[0]
    assert 20 < refused < 150
