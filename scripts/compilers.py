#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""What etch makes of the code of each compiler that is installed: gcc-12, clang-22 and so on, under many options. One
Markdown table by compiler, one of why reads stay loads, and one by options.

    make compilers                                            # all that are installed; hours
    scripts/compilers.py --compilers gcc-16,clang-22 --options='-O2;-O2 -flto'
    scripts/compilers.py --parts reads,calls                  # generated code alone
    scripts/compilers.py --systems bookworm,sid               # with the compilers of these Debian releases, each in a root; as root
    scripts/compilers.py --merge a.json b.json                # the tables of earlier runs (--json) together

Each part compiles a program with a compiler and options, has etch rewrite it, and holds the result against a judge that is not
etch:

    reads     generated reads of etched objects (tests/data/forms): their sites, and the same output as before
    branches  static branches and values (tests/data/lib/branches.c): those that are armed, and the output that C's rules give
    marks     markers (tests/data/lib/marks.c), which check by themselves what is called and with what
    calls     generated calls through ops tables (tests/data/pv): their sites, and the same output
    frames    C frames and jump tables, C++ exceptions (tests/data/unwind/step_zoo.c, step_throw.cc): rows beside .eh_frame as
              pyelftools reads it, with it and from the code alone; rows by single steps
    headers   the public headers in each standard of C from C11 and of C++ from C++11 on: none may make it warn
    programs  SQLite, zlib, lua, a C++ library that throws (scripts/fetch.py): rows in the same two ways, and steps of lua

and, with compilers of their own, `rust` and `go`: a small program each, its rows in the same ways. Every file that was rewritten
goes through etch check, too. What a compiler does not know (an option, APX) and what this processor cannot run is said, not
counted. Exit status 1 if an output differs, a row differs that is not explained, or a step is wrong; 2 if there is no compiler.
"""

import argparse
import collections
import functools
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ProcessPoolExecutor, as_completed
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT / "scripts"), str(ROOT / "scripts" / "judges"), str(ROOT / "tests" / "analysis")]
import pinned  # noqa: E402,F401
import compiler_roots  # noqa: E402
import dynamic  # noqa: E402
import dynamic_truth  # noqa: E402
import fetch  # noqa: E402
import header_standards  # noqa: E402
import static_truth  # noqa: E402
import systems  # noqa: E402

TESTS = ROOT / "tests"
DATA = TESTS / "data"
OPTIONS = ["-O0", "-O1", "-O2", "-O3", "-Os", "-O2 -flto", "-O2 -fcf-protection", "-O2 -fhardened", "-O2 -march=x86-64-v3",
           "-O2 -march=x86-64-v4", "-O2 -mapxf"]
# Compiling and judging a real program takes minutes: under these options alone, where no others are asked for.
PROGRAM_OPTIONS = ["-O2", "-O3", "-Os"]
PARTS = ["reads", "branches", "marks", "calls", "frames", "headers", "programs", "rust", "go"]
# What /proc/cpuinfo must have for code of these options to run.
NEEDS = {"x86-64-v3": ("avx2", "bmi2", "fma"), "x86-64-v4": ("avx512f", "avx512bw", "avx512vl", "avx512dq"), "mapxf": ("apx",)}
# For clang, as docs/paravirt.md says; gcc's calls are aligned by etch/pv.h.
ALIGNED_CALLS = ["-mllvm", "-x86-align-branch-boundary=8", "-mllvm", "-x86-align-branch=indirect+call"]
READS, CALLS, STEPS = 80, 30, 40_000
LIVE = ("yes", "swap")
TIME = 900


class Skipped(Exception):
    """A compiler does not know an option, or something else that it needs is missing."""


class Wrong(Exception):
    """Something that must hold does not."""


# ---- compilers ----------------------------------------------------------------------

def installed(pattern=r"(gcc|g\+\+|clang|clang\+\+)(-\d+)?"):
    """Compilers in PATH by the names that Debian gives them; each program once, by the shortest of its names."""
    found = {}
    for folder in os.environ["PATH"].split(":"):
        for name in sorted(os.listdir(folder), key=len) if os.path.isdir(folder) else ():
            if re.fullmatch(pattern, name) and shutil.which(name):
                # clang++ is a link to clang.
                found.setdefault((os.path.realpath(os.path.join(folder, name)), "+" in name), name)
    return sorted(found.values())


def of_cxx(cc):
    """The C++ compiler beside a C compiler: where gcc is there and g++ is not, that of its number."""
    name = re.sub(r"\bgcc|\bclang", lambda m: {"gcc": "g++", "clang": "clang++"}[m[0]], cc)
    if not shutil.which(name) and shutil.which(cc):
        numbered = name + re.sub(r".* (\d+).*", r"-\1", version(cc))
        return numbered if shutil.which(numbered) else name
    return name


def is_clang(cc):
    return "clang" in cc


def order(name):
    """For sorting: gcc-9 or gcc 9.5.0 before gcc 12.2.0."""
    return re.match("[a-z]*", name)[0], [int(n) for n in re.findall(r"\d+", name)]


@functools.cache
def version(cc):
    """gcc 12.2.0, clang 22.1.8, rustc 1.90.0, go 1.24.4."""
    text = subprocess.run([cc, "version" if cc == "go" else "--version"], capture_output=True, text=True).stdout
    found = re.findall(r"\d+\.\d+(?:\.\d+)?", text)
    return f"{re.sub(r'-.*', '', cc)} {found[0] if found else '?'}"


def command(argv, ok=0, **kw):
    p = subprocess.run([str(a) for a in argv], stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=TIME,
                       env={**os.environ, "LC_ALL": "C"}, **kw)
    if ok is not None and p.returncode != ok:
        raise Wrong(f"`{' '.join(map(str, argv))[:200]}` ended with {p.returncode}: {p.stderr.decode(errors='replace')[-1500:]}")
    return p


@functools.cache
def knows(cc, options):
    """Whether a compiler takes the options, and can link with them (clang's -flto needs a plugin or lld). -fhardened asks for an
    optimisation, and warns where it cannot do all."""
    with tempfile.TemporaryDirectory() as d:
        source = Path(d) / "t.c"
        source.write_text("int main(void) { return 0; }\n")
        p = subprocess.run([cc, *options.split(), "-Werror=unused-command-line-argument" if is_clang(cc) else "-w", "-o", f"{d}/t", source],
                           capture_output=True, text=True)
        return p.returncode == 0


@functools.cache
def processor():
    text = Path("/proc/cpuinfo").read_text()
    return frozenset(re.search(r"^flags\s*:(.*)$", text, re.M)[1].split())


def can_run(options):
    return all(feature in processor() for word, features in NEEDS.items() if word in options for feature in features)


# ---- one program --------------------------------------------------------------------

class Job:
    """A compiler, options, and what is counted of them."""

    def __init__(self, etch, build, cc, options, folder, stepper, scale=1):
        self.etch, self.build, self.cc, self.options, self.folder, self.stepper, self.scale = etch, build, cc, options, folder, stepper, scale
        self.out = {"compiler": cc, "version": version(cc), "options": options, "numbers": collections.Counter(), "reasons": collections.Counter(),
                    "findings": collections.Counter(), "wrong": [], "skipped": []}

    def count(self, **numbers):
        self.out["numbers"].update(numbers)

    def wrong(self, text):
        self.out["wrong"].append(text)

    def compile(self, source, *flags, name=None):
        cxx = Path(source).suffix in (".cc", ".cpp")
        out = self.folder / (name or Path(source).name.replace(".", "_") + ".o")
        command([of_cxx(self.cc) if cxx else self.cc, *self.options.split(), "-w", f"-I{ROOT}/lib/include", *flags, "-c", "-o", out, source])
        return out

    def link(self, objects, *flags, cxx=False, name="program"):
        out = self.folder / name
        command([of_cxx(self.cc) if cxx else self.cc, *self.options.split(), "-w", "-o", out, *objects, *flags])
        return out

    def rewrite(self, path):
        """A rewritten copy, and what etch check says of it."""
        out = path.with_name(path.name + ".etched")
        command([self.etch, "rewrite", "-o", out, path])
        p = command([self.etch, "check", "--format", "json", out], ok=None)
        if p.returncode not in (0, 1):
            self.wrong(f"etch check: {p.stderr.decode(errors='replace')[-300:]}")
            return out
        for finding in (f for file in json.loads(p.stdout)["files"] for f in file["findings"]):
            if finding["severity"] != "note":
                self.out["findings"][f"{finding['id']} {finding['severity']}"] += 1
        return out

    def sites(self, path, kinds):
        lines = command([self.etch, "inspect", "sites", "--format", "tsv", path]).stdout.decode().splitlines()
        head = lines[0].split("\t")
        return [s for s in (dict(zip(head, line.split("\t"))) for line in lines[1:]) if s["kind"] in kinds]

    def same_output(self, plain, etched, *arguments):
        """Both programs' output; None where this processor cannot run them."""
        if not can_run(self.options):
            self.count(not_run=1)
            return None
        a, b = (command([p, *arguments], ok=None) for p in (plain, etched))
        self.count(runs=1)
        if a.returncode:
            self.wrong(f"{plain.name}: as it comes from the compiler it ends with {a.returncode}")
        elif (a.returncode, a.stdout) != (b.returncode, b.stdout):
            self.wrong(f"{etched.name}: ends with {b.returncode}, or has another output: {b.stderr.decode(errors='replace')[-300:]}")
        else:
            self.count(same=1)
        return b

    def rows(self, path):
        """A linked file's rows beside .eh_frame."""
        for mode in static_truth.MODES:
            r = static_truth.look((self.etch, path, mode))
            if r.error:
                self.wrong(f"{path.name}: {r.error}")
                continue
            c = r.compared
            # From the code alone a path may seem to lead on where a call does not return. Then rbp may be unknown, which is not wrong.
            unknown = [d for d in r.differ if mode == "code" and d[3][1] == "undef" and (d[2][0], *d[2][2:]) == (d[3][0], *d[3][2:])]
            differ = [d for d in r.differ if d not in unknown]
            self.count(**{f"covered_{mode}": c.covered, f"agree_{mode}": c.agree, f"explained_{mode}": sum(r.explained.values()),
                          f"undefined_{mode}": c.undefined - r.odd, f"differ_{mode}": sum(d[1] - d[0] for d in differ),
                          "unknown_rbp": sum(d[1] - d[0] for d in unknown)})
            for start, end, truth, ours, source, what, where in differ[:10]:
                self.wrong(f"{path.name}, {mode}: {what} {start:x}-{end:x} {where}: CFI {' '.join(truth)}, ours {' '.join(ours)} ({source})")

    def steps(self, argv, steps):
        """A program under the trap flag: every frame of every stack. Its own code has rows without .eh_frame."""
        if not can_run(self.options):
            return
        table = dynamic.Rows(self.folder / "rows", self.etch, [])
        r = dynamic.in_process(self.stepper, table, argv, steps=int(steps * self.scale))
        # What a program has put on its stack to run there (trampolines of nested functions) is in no file, and has no rows.
        wrong = [t for t in dynamic_truth.unexplained([r]) if (t.what, t.file) != ("undef", "[stack]")]
        self.count(steps=r.steps, frames=r.checked, wrong_frames=len(wrong))
        for trouble in wrong[:5]:
            self.wrong(f"{Path(argv[0]).name}: by steps: {trouble}")

    def libetch(self):
        return [self.build / "libetch.a", "-pthread"]


def count_sites(job, what, sites):
    live = [s for s in sites if s["live"] in LIVE]
    job.count(**{what: len(sites), f"{what}_live": len(live)})
    job.out["reasons"].update(f"{what}: {s['live'].removeprefix('no: ')}" for s in sites if s["live"] not in LIVE)


# ---- the parts ----------------------------------------------------------------------

def seed_of(job):
    """Another program for each options, the same for each compiler."""
    return 1 + sum(job.options.encode()) % 97


def part_reads(job):
    command([sys.executable, TESTS / "site" / "generate_reads.py", seed_of(job), int(READS * job.scale), job.folder])
    flags = ["-fwrapv", "-fPIE", f"-I{DATA / 'forms'}", f"-I{job.folder}"]
    sources = [*(job.folder / f"{n}.c" for n in ("gen", "gen2", "shadow")), DATA / "forms" / "driver.c"]
    program = job.link([job.compile(s, *flags) for s in sources], "-pie", *job.libetch())
    etched = job.rewrite(program)
    count_sites(job, "reads", job.sites(etched, ("load",)))
    job.same_output(program, etched, 24301, 6)


def part_calls(job):
    command([sys.executable, TESTS / "patch" / "gen_programs.py", seed_of(job), int(CALLS * job.scale), job.folder])
    flags = ["-fPIE", f"-I{DATA / 'pv'}", f"-I{job.folder}", *(ALIGNED_CALLS if is_clang(job.cc) else [])]
    sources = [*(job.folder / n for n in ("gen.c", "targets.c", "imv.c", "targets.cc", "cxx.cc")), DATA / "pv" / "gen_driver.c"]
    program = job.link([job.compile(s, *flags) for s in sources], "-pie", *job.libetch(), cxx=True)
    etched = job.rewrite(program)
    count_sites(job, "calls", job.sites(etched, ("call", "jmp")))
    job.same_output(program, etched, 82, 4)


def part_branches(job):
    program = job.link([job.compile(DATA / "lib" / "branches.c", "-fPIE")], "-pie", *job.libetch())
    etched = job.rewrite(program)
    run = job.same_output(program, etched, 30)
    if run and not run.returncode:
        armed = dict((m[0], (int(m[1]), int(m[2]))) for m in re.findall(r"^(\w+) (\d+) of (\d+)$", run.stderr.decode(), re.M))
        job.count(branches=armed["start"][1], branches_armed=armed["start"][0])
        # All but the two switches of values that no case is for.
        if armed["start"][0] < armed["start"][1] - 2:
            job.wrong(f"branches: {armed['start'][0]} of {armed['start'][1]} are armed")


def part_marks(job):
    program = job.link([job.compile(DATA / "lib" / "marks.c", "-fPIE")], "-pie", *job.libetch(), "-ldl")
    etched = job.rewrite(program)
    job.count(marks=len(json.loads(command([job.etch, "inspect", "marks", "--json", etched]).stdout)["marks"]))
    job.same_output(program, etched)


def part_frames(job):
    for source, cxx in (("step_zoo.c", False), ("step_throw.cc", True)):
        program = job.link([job.compile(DATA / "unwind" / source)], cxx=cxx, name=source.replace(".", "_"))
        job.rewrite(program)
        job.rows(program)
        job.steps([program], STEPS)


def part_headers(job):
    for cc, language in ((job.cc, "c"), (of_cxx(job.cc), "c++")):
        taken, errors = header_standards.wrong(cc, language)
        job.out["standards"] = job.out.get("standards", []) + taken
        job.out["wrong"] += errors


# name: (how it is compiled, sources by a pattern, without those that match, flags, of C++)
REAL = {
    "sqlite": (["sqlite3.c"], None, ["-DSQLITE_THREADSAFE=1"], False),
    "zlib": (["*.c"], None, ["-D_LARGEFILE64_SOURCE=1", "-DHAVE_UNISTD_H"], False),
    "lua": (["src/*.c"], r"/(luac|onelua|ltests)\.c$", ["-DLUA_USE_LINUX"], False),
    "jsoncpp": (["src/lib_json/*.cpp"], None, ["-Iinclude"], True),
}
LUA = """local t = {} for i = 1, 40 do t[i] = (i * 7919) % 1009 end table.sort(t)
local ok, why = pcall(function() error({code = #t}) end)
local co = coroutine.wrap(function(a) for i = 1, 3 do a = coroutine.yield(a .. i) end end)
print(ok, why.code, co("x"), co("y"), string.format("%5.2f %s", 1 / 3, ("ab"):rep(3)), t[1], t[40])
"""


def part_programs(job, names):
    for name in names:
        at = fetch.fetch(name)
        patterns, without, flags, cxx = REAL[name]
        flags = [f"-I{at}/{f[2:]}" if f.startswith("-I") else f for f in flags]
        sources = sorted(p for pattern in patterns for p in at.glob(pattern) if not without or not re.search(without, str(p)))
        objects = [job.compile(s, "-fPIC", *flags, name=f"{name}_{s.stem}.o") for s in sources]
        if name == "lua":
            made = job.link(objects, "-Wl,-E", "-lm", "-ldl", name="lua")
            script = job.folder / "t.lua"
            script.write_text(LUA)
            etched = job.rewrite(made)
            job.same_output(made, etched, script)
            job.steps([made, script], STEPS * 4)
        else:
            made = job.link(objects, "-shared", "-lm", cxx=cxx, name=f"lib{name}.so")
            job.rewrite(made)
        job.rows(made)


RUST = """use std::collections::BTreeMap;
#[derive(Debug)] enum Error { Odd(u64), Text(std::num::ParseIntError) }
trait Shape { fn area(&self) -> f64; }
struct Square(f64); struct Circle(f64);
impl Shape for Square { fn area(&self) -> f64 { self.0 * self.0 } }
impl Shape for Circle { fn area(&self) -> f64 { self.0 * self.0 * 3.14 } }
impl Drop for Square { fn drop(&mut self) { eprint!(""); } }
fn halve(text: &str) -> Result<u64, Error> {
    let n: u64 = text.parse().map_err(Error::Text)?;
    if n % 2 == 1 { return Err(Error::Odd(n)); }
    Ok(n / 2)
}
fn main() {
    std::panic::set_hook(Box::new(|_| {}));
    let shapes: Vec<Box<dyn Shape>> = vec![Box::new(Square(2.0)), Box::new(Circle(1.0)), Box::new(Square(3.0))];
    let mut words: BTreeMap<String, usize> = BTreeMap::new();
    for w in "a b c a b a".split(' ') { *words.entry(w.to_string()).or_insert(0) += 1; }
    let caught = std::panic::catch_unwind(|| { let _s = Square(1.0); let v: Vec<u32> = Vec::new(); v[std::env::args().count() + 3] });
    println!("{:?} {:?} {:?} {:?} {} {}", halve("8"), halve("7"), halve("x").is_err(), words, caught.is_err(), shapes.iter().map(|s| s.area()).sum::<f64>());
}
"""
GO = """package main

import (
	"errors"
	"fmt"
	"sort"
	"strings"
	"sync"
)

type shape interface{ area() float64 }
type square struct{ side float64 }

func (s square) area() float64 { return s.side * s.side }

func caught(n int) (err error) {
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("caught: %v", r)
		}
	}()
	var v []int
	return errors.New(fmt.Sprint(v[n]))
}

func main() {
	var group sync.WaitGroup
	words := map[string]int{}
	var lock sync.Mutex
	for i := 0; i < 8; i++ {
		group.Add(1)
		go func(n int) {
			defer group.Done()
			lock.Lock()
			defer lock.Unlock()
			for _, w := range strings.Fields(strings.Repeat("a b c ", n)) {
				words[w]++
			}
		}(i)
	}
	group.Wait()
	keys := []string{}
	for k, n := range words {
		keys = append(keys, fmt.Sprintf("%s=%d", k, n))
	}
	sort.Strings(keys)
	var s shape = square{2}
	fmt.Println(keys, caught(3), s.area())
}
"""


def part_rust(job):
    source, program = job.folder / "t.rs", job.folder / "rust"
    source.write_text(RUST)
    command([job.cc, "--edition", "2021", *job.options.split(), "-o", program, source])
    etched = job.rewrite(program)
    job.same_output(program, etched)
    job.rows(program)
    job.steps([program], STEPS * 4)


def part_go(job):
    source, program = job.folder / "t.go", job.folder / "go"
    source.write_text(GO)
    env = {**os.environ, "GOCACHE": str(job.folder / "cache"), "GOFLAGS": "-mod=mod", "CGO_ENABLED": "0", "HOME": str(job.folder)}
    subprocess.run([job.cc, "build", *job.options.split(), "-o", program, source], check=True, env=env, capture_output=True, cwd=job.folder)
    etched = job.rewrite(program)
    job.same_output(program, etched)
    job.rows(program)


# Of rustc and go: the options of their own.
OTHERS = {"rust": ("rustc", ["-Copt-level=0", "-Copt-level=2", "-Copt-level=3 -Clto"]), "go": ("go", ["-trimpath", "-gcflags=-N"])}


def run_part(what):
    """One part of one compiler and options, in a process of its own: what was counted."""
    etch, build, cc, options, part, programs, stepper, scale = what
    begin = time.time()
    with tempfile.TemporaryDirectory(prefix="etch-compilers-") as d:
        job = Job(etch, build, cc, options, Path(d), stepper, scale)
        try:
            if part == "programs":
                part_programs(job, programs)
            else:
                globals()[f"part_{part}"](job)
        except fetch.Unavailable as e:
            job.out["skipped"].append(f"{part}: {e}")
        except (Wrong, subprocess.SubprocessError, RuntimeError, OSError) as e:
            job.wrong(f"{part}: {e}")
    job.out["part"], job.out["seconds"] = part, round(time.time() - begin, 1)
    return job.out


# ---- tables -------------------------------------------------------------------------

def share(part, whole):
    return f"{part:,} of {whole:,} ({100 * part / whole:.1f}%)" if whole else "-"


def markdown(head, rows):
    return "\n".join(["| " + " | ".join(head) + " |", "|" + "---|" * len(head)] + ["| " + " | ".join(map(str, r)) + " |" for r in rows])


def total(results, field="numbers"):
    out = collections.Counter()
    for r in results:
        out.update(r[field])
    return out


def table(results):
    compilers = sorted({r["version"] for r in results}, key=order)
    of = {cc: [r for r in results if r["version"] == cc] for cc in compilers}
    names = {cc: cc for cc in compilers}
    rows = []
    for cc in compilers:
        n, f = total(of[cc]), total(of[cc], "findings")
        rows.append([names[cc], share(n["reads_live"], n["reads"]), share(n["branches_armed"], n["branches"]), share(n["calls_live"], n["calls"]),
                     f"{n['same']} of {n['runs']}" + (f", {n['not_run']} not run" if n["not_run"] else ""),
                     f"{n['covered_cfi']:,}", f"{n['explained_cfi']:,}", f"{n['differ_cfi']:,}",
                     f"{n['covered_code'] - n['undefined_code']:,}", f"{n['explained_code']:,}", f"{n['unknown_rbp']:,}", f"{n['differ_code']:,}",
                     f"{n['frames']:,}", n["wrong_frames"], ", ".join(f"{k}: {v}" for k, v in sorted(f.items())) or "none"])
    lines = [markdown(["compiler", "reads live", "branches armed", "calls live", "same output", "bytes of FDEs", "explained", "differ",
                       "from code alone", "explained", "rbp unknown", "differ", "frames by steps", "wrong", "check"], rows), ""]
    standards = {cc: [s for r in of[cc] for s in r.get("standards", [])] for cc in compilers}
    if any(standards.values()):
        lines += ["Headers, with `-Wall -Wextra -Wpedantic -Werror`:", "",
                  markdown(["compiler", "standards", "warns"], [[cc, ", ".join(standards[cc]), sum(len(r["wrong"]) for r in of[cc] if r["part"] == "headers")]
                                                               for cc in compilers if standards[cc]]), ""]
    reasons = {cc: total(of[cc], "reasons") for cc in compilers}
    kinds = [k for k, _ in total(results, "reasons").most_common()]
    head = ["", *(names[cc] for cc in compilers)]
    lines += ["Stays as it is, since:", "", markdown(head, [[k, *(reasons[cc][k] or "" for cc in compilers)] for k in kinds]), ""]
    lines += ["By options: reads live; bytes whose row differs from .eh_frame, and from the code alone; wrong frames by steps. \"-\": not run,",
              "as this processor cannot; empty: not known to the compiler.", "", markdown(head, by_options(results, compilers, of))]
    return "\n".join(lines)


def by_options(results, compilers, of):
    """A line for each option that compilers share: what was counted by each of them."""
    rows = []
    for o in sorted({r["options"] for r in results if r["part"] not in (*OTHERS, "headers")}, key=lambda o: (OPTIONS + [o]).index(o)):
        line = [f"`{o}`"]
        for cc in compilers:
            these = [r for r in of[cc] if r["options"] == o]
            n = total(these)
            cells = [f"{100 * n['reads_live'] / n['reads']:.1f}%" if n["reads"] else ""]
            if n["covered_cfi"]:
                cells += [f"{n['differ_cfi']:,}", f"{n['differ_code']:,}", f"{n['wrong_frames']:,}" if n["frames"] else "-"]
            line.append("; ".join(filter(None, cells)) if these else "")
        rows.append(line)
    return rows


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--build", type=Path, default=ROOT / "build", help="where etch and libetch.a are (default: build)")
    p.add_argument("--etch", type=Path, help="another etch than the build's")
    p.add_argument("--compilers", help="names in PATH, separated by commas (default: every gcc and clang, rustc and go)")
    p.add_argument("--options", help="options, separated by semicolons; of the real programs too")
    p.add_argument("--parts", default=",".join(PARTS), help="(%(default)s)")
    p.add_argument("--programs", default=",".join(REAL), help="of the part `programs` (%(default)s)")
    p.add_argument("--scale", type=float, default=1, help="share of the generated reads and calls, and of the steps (%(default)s)")
    p.add_argument("--jobs", "-j", type=int, default=2)
    p.add_argument("--json", type=Path, help="all results")
    p.add_argument("--systems", default="", metavar="SUITES", help="Debian releases, by debootstrap's names, whose compilers are looked at, too")
    p.add_argument("--folder", type=Path, default=ROOT / "build" / "systems", help="where the roots of these are (build/systems)")
    p.add_argument("--mirror", default="http://deb.debian.org/debian")
    p.add_argument("--without", default="", metavar="VERSIONS", help="leave out compilers, as `gcc 12,clang 14`")
    p.add_argument("--merge", type=Path, nargs="+", metavar="FILE", help="run nothing: the tables of these results")
    a = p.parse_args()
    if a.merge:
        files = [json.loads(path.read_text()) for path in a.merge]
        show([r for f in files for r in f["results"]], [u for f in files for u in f["unknown"]])
        return
    parts = a.parts.split(",")
    for unknown in [x for x in parts if x not in PARTS]:
        p.error(f"{unknown}: not a part; they are {', '.join(PARTS)}")
    etch, build = (a.etch or a.build / "etch").resolve(), a.build.resolve()
    if not etch.exists():
        sys.exit(fail(f"{etch} is missing: run make first"))
    without = set(filter(None, a.without.split(",")))
    names = a.compilers.split(",") if a.compilers else installed(r"(gcc|clang)(-\d+)?|rustc|go")
    names = {version(n): n for n in names if shutil.which(n)}     # each once, as gcc and gcc-16 may be one
    names = [n for v, n in names.items() if not compiler_roots.majors([v]) & without]
    if not names and not a.systems:
        sys.exit(fail("no compiler is installed"))
    programs = [x for x in a.programs.split(",") if x]
    with tempfile.TemporaryDirectory(prefix="etch-stepper-") as d:
        dynamic.build(d)
        results, unknown = run_all(a, etch, build, names, parts, programs, d)
    try:
        for suite in filter(None, a.systems.split(",")):
            more = run_there(a, suite, without | compiler_roots.majors(r["version"] for r in results))
            results += more["results"]
            unknown += more["unknown"]
    except (systems.Failed, subprocess.CalledProcessError) as e:
        sys.exit(fail(e))
    if a.json:
        write(a.json, results, unknown)
    show(results, unknown)
    sys.exit(1 if any(r["wrong"] for r in results) else 0)


def write(path, results, unknown):
    path.write_text(json.dumps({"results": results, "unknown": unknown}))


def run_there(a, suite, without):
    """What the compilers of a release make that were not looked at yet. The file of its results is in this checkout."""
    system = compiler_roots.make(a.folder, suite, a.mirror)
    # The static one: a release need not have the libraries of this one.
    subprocess.run(["make", "-s", "-C", ROOT, f"B={a.build.resolve()}", "static"], check=True, stdout=sys.stderr)
    out = a.build.resolve() / f"compilers-{suite}-{os.getpid()}.json"
    same = [f"--{name}={getattr(a, name)}" for name in ("compilers", "options", "parts", "programs", "scale", "jobs") if getattr(a, name)]
    compiler_roots.run(system, ROOT, ["--build", a.build.resolve(), "--etch", a.build.resolve() / "static/etch", "--json", out, "--without", ",".join(sorted(without)), *same])
    if not out.exists():
        return {"results": [], "unknown": []}
    text = out.read_text()
    out.unlink()
    return json.loads(text)


def plan(a, etch, build, names, parts, programs, stepper):
    """What is run, and what a compiler does not know."""
    todo, unknown = [], []
    for cc in sorted(names, key=order):
        other = [part for part, (name, _) in OTHERS.items() if name == cc]
        if other:
            todo += [(etch, build, cc, o, part, programs, stepper, a.scale) for part in other if part in parts for o in OTHERS[part][1]]
            continue
        if "headers" in parts:
            todo.append((etch, build, cc, "", "headers", programs, stepper, a.scale))
        for options in a.options.split(";") if a.options else OPTIONS:
            if not knows(cc, options):
                unknown.append(f"{version(cc)} {options}")
                continue
            todo += [(etch, build, cc, options, part, programs, stepper, a.scale) for part in parts
                     if part not in OTHERS and part != "headers" and (part != "programs" or programs and (a.options or options in PROGRAM_OPTIONS))]
    return todo, unknown


def run_all(a, etch, build, names, parts, programs, stepper):
    for name in programs if "programs" in parts else ():
        try:
            fetch.fetch(name)
        except fetch.Unavailable as e:
            print(f"compilers: {name}: {e}", file=sys.stderr)
    todo, unknown = plan(a, etch, build, names, parts, programs, stepper)
    results = []
    with ProcessPoolExecutor(a.jobs) as pool:
        waiting = [pool.submit(run_part, what) for what in todo]
        for n, future in enumerate(as_completed(waiting)):
            r = future.result()
            results.append(r)
            if a.json:      # what is done stays where the run is stopped
                write(a.json, results, unknown)
            print(f"compilers: {n + 1} of {len(todo)}: {r['compiler']} {r['options']}, {r['part']}: {r['seconds']} s", file=sys.stderr, flush=True)
            for text in [*r["wrong"], *r["skipped"]]:
                print(f"  {text}", file=sys.stderr, flush=True)
    return results, unknown


def show(results, unknown):
    results = sorted(results, key=lambda r: (order(r["version"]), r["options"], r["part"]))
    print(table(results))
    if unknown:
        print("\nNot known to the compiler, or not to be linked here: " + "; ".join(f"`{u}`" for u in unknown) + ".")
    for r in results:
        for text in r["wrong"]:
            print(f"\nWrong: {r['compiler']} {r['options']}: {text}")


def fail(why):
    print(f"compilers: {why}", file=sys.stderr)
    return 2


if __name__ == "__main__":
    main()
