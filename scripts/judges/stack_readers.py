#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Who can walk the stacks of programs without unwind data, before and after `etch rewrite --eh-frame`.

    scripts/judges/stack_readers.py [--stops 200] [--steps 1000000] [--only musl,rust,git,node,chromium] [--json FILE]

Each program is stopped at random times, and its main thread's stack is walked by gdb, by libunwind (libunwind-ptrace), by
eu-stack and by framehop (of samply and others; cargo fetches it); `perf script` walks samples with copied stacks; libgcc's _Unwind_Backtrace from a signal handler, which is preloaded,
or linked into the static programs (tests/data/unwind/own_stops.c). A stack is complete if its last frame is in the program's entry
code. Then the program is stepped from its entry on by tests/data/unwind/saves.c: at each instruction, in all frames, the new
.eh_frame has to give the CFA and rbx, rbp, r12 to r15 that were there when the call was made.

    musl   static and stripped, compiled without unwind tables
    rust   panic=abort, its own code compiled without unwind tables; the standard library has them. Linked by GNU ld: of
           what lld links, libunwind 1.6 walks none, with whatever unwind data
    git    Debian's, stripped, its .eh_frame removed
    node   Debian's or another: V8's builtins have none
    chromium  Debian's chromium-headless-shell, in one process: most of its code has none
"""

import argparse
import json
import os
import random
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from elftools.elf.elffile import ELFFile

ROOT = Path(__file__).resolve().parents[2]
ETCH = ROOT / "build" / "etch"
PIE = 0x555555554000    # without address randomization
ENTRY = 0x100           # bytes of entry code: _start, and musl's _start_c
STOPS = ROOT / "tests" / "data" / "unwind" / "own_stops.c"
CHROMIUM = Path("/usr/lib/chromium/chromium-headless-shell")
KEPT = ["rbx", "rbp", "r12", "r13", "r14", "r15"]   # as saves.c has them

MUSL = r"""
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
__attribute__((noinline)) int leaf(int x) { __asm__ volatile("" : "+r"(x)); return x * 3; }
static int cmp(const void *a, const void *b) { return leaf(*(const int *)a) - leaf(*(const int *)b); }
__attribute__((noinline)) int middle(int n)
{
	int *p = __builtin_alloca(4 * n + 16), s = 0;
	char *t = malloc(n + 20), text[40];

	for (int i = 0; i < n; i++) p[i] = i * 7919 % n;
	qsort(p, n, 4, cmp);
	for (int i = 0; i < n; i++) s += p[i] * leaf(i) + snprintf(text, 40, "%d %s %g", i, "x", i / 7.0) + strlen(text);
	free(t);
	return s;
}
int main(void) { long s = 0; for (long i = 0; i < 100000000; i++) s += middle(10 + i % 20); return s == 1; }
"""
RUST = r"""
use std::collections::BTreeMap;
#[inline(never)] fn fib(n: u64) -> u64 { if n < 2 { n } else { fib(n - 1) + fib(n - 2) } }
#[inline(never)] fn words(n: usize) -> usize {
    let mut m: BTreeMap<String, usize> = BTreeMap::new();
    for i in 0..n { *m.entry(format!("{:x}", i * 7919 % 1009)).or_insert(0) += i; }
    let mut v: Vec<&str> = m.keys().map(|s| s.as_str()).collect();
    v.sort_by(|a, b| b.len().cmp(&a.len()).then(b.cmp(a)));
    m.iter().map(|(k, v)| k.len() * v).sum::<usize>() + v.len()
}
fn main() {
    let mut s = 0u64;
    for i in 0..100000000usize { s = s.wrapping_add(fib(12)).wrapping_add(words(50 + i % 7) as u64); }
    println!("{s}");
}
"""
NODE = "function f(n) { return n < 2 ? n : f(n - 1) + f(n - 2); } for (;;) { [3, 1, 2].sort((a, b) => f(8) + a - b).map(x => f(x + 4)); JSON.parse(JSON.stringify({a: [1, 'x'.repeat(9)]})); }"
GDB = """
import gdb, json
gdb.execute("set pagination off")
gdb.execute("handle SIGALRM stop print nopass")
gdb.execute("set backtrace past-main on")
gdb.execute("set backtrace past-entry on")
gdb.execute("set debuginfod enabled off")
out = open({out!r}, "w")
gdb.execute("run {args} >/dev/null 2>&1")
open({pid!r}, "w").write(str(gdb.selected_inferior().pid))
for i in range({stops}):
    if not gdb.selected_inferior().pid:
        break
    gdb.execute("thread 1", to_string=True)
    frame, chain = gdb.newest_frame(), []
    while frame and len(chain) < 2000:
        chain.append(frame.pc())
        try:
            frame = frame.older()
        except gdb.error:
            break
    print(*(hex(a)[2:] for a in chain), file=out, flush=True)
    gdb.execute("continue", to_string=True)
gdb.execute("kill")
"""


def run(argv, **kw):
    done = subprocess.run([str(a) for a in argv], capture_output=True, text=True, check=False, **kw)
    if done.returncode:
        sys.exit(f"{argv[0]} ended with {done.returncode}:\n{done.stderr}")
    return done


class Program:
    def __init__(self, name, bare, args, env=None):
        self.name, self.bare, self.args, self.env = name, bare, [str(a) for a in args], {**os.environ, **(env or {})}
        with open(bare, "rb") as f:
            elf = ELFFile(f)
            self.base = PIE if elf["e_type"] == "ET_DYN" else 0
            self.entry = elf["e_entry"] + self.base
        self.seen = bare.with_suffix(".seen")
        run([ETCH, "rewrite", "--eh-frame", "-o", self.seen, bare])

    def share(self, path, stacks):
        """(stacks, complete ones, frames of all)"""
        last = [[a for a in s if a] for s in stacks]
        with open(path, "rb") as f:  # perf prints offsets in the file where it has no symbol
            elf = ELFFile(f)
            at = next(s for s in elf.iter_segments() if s["p_type"] == "PT_LOAD" and 0 <= elf["e_entry"] - s["p_vaddr"] < s["p_filesz"])
            ends = (self.entry, elf["e_entry"] - at["p_vaddr"] + at["p_offset"], elf["e_entry"])
        return {"stacks": len(stacks), "complete": sum(bool(s) and any(e <= s[-1] < e + ENTRY for e in ends) for s in last),
                "frames": sum(map(len, last))}


def without_eh_frame(path, out):
    run(["objcopy", "--remove-section", ".eh_frame", "--remove-section", ".eh_frame_hdr", path, out])


def programs(top, wanted):
    if "musl" in wanted and shutil.which("musl-gcc"):
        (top / "musl.c").write_text(MUSL)
        run(["musl-gcc", "-D_GNU_SOURCE", "-O2", "-static", "-s", "-fno-asynchronous-unwind-tables", "-fno-unwind-tables", "-fomit-frame-pointer", "-o",
             top / "musl.linked", top / "musl.c", STOPS, "-lgcc_eh"])
        without_eh_frame(top / "musl.linked", top / "musl.bare")
        yield Program("musl", top / "musl.bare", [])
    if "rust" in wanted and shutil.which("rustc"):
        (top / "rust.rs").write_text(RUST)
        run(["gcc", "-O2", "-D_GNU_SOURCE", "-fno-asynchronous-unwind-tables", "-fno-unwind-tables", "-c", "-o", top / "stops.o", STOPS])
        run(["rustc", "-O", "-C", "panic=abort", "-C", "force-unwind-tables=no", "-C", "target-feature=+crt-static", "-C",
             "relocation-model=static", "-C", "link-arg=-fuse-ld=bfd", "-C", f"link-arg={top / 'stops.o'}", "-o", top / "rust.bare", top / "rust.rs"])
        yield Program("rust", top / "rust.bare", [])
    if "git" in wanted and shutil.which("git"):
        without_eh_frame(shutil.which("git"), top / "git.bare")
        repo = top / "repo"
        run(["git", "init", "-q", repo])
        for i in range(500):
            (repo / f"f{i}").write_text("".join(f"{i * k % 977}\n" for k in range(6000)))
        run(["git", "-C", repo, "add", "."])
        # All pairs of files are compared for renames: minutes.
        for i in range(500):
            (repo / f"f{i}").rename(repo / f"g{i}")
            with open(repo / f"g{i}", "a", encoding="ascii") as f:
                f.write("more\n" * 200)
        run(["git", "-C", repo, "-c", "user.name=a", "-c", "user.email=a", "commit", "-q", "-m", "a"])
        run(["git", "-C", repo, "add", "-A"])
        yield Program("git", top / "git.bare", ["-C", repo, "diff", "--cached", "-M10%", "--stat", "-l0"], {"GIT_PAGER": "cat"})
    if "node" in wanted and shutil.which("node"):
        os.link(shutil.which("node"), top / "node.bare") if os.stat(top).st_dev == os.stat(shutil.which("node")).st_dev \
            else shutil.copy(shutil.which("node"), top / "node.bare")
        yield Program("node", top / "node.bare", ["--jitless", "-e", NODE])
    if "chromium" in wanted and CHROMIUM.exists():
        os.symlink(CHROMIUM, top / "chromium.bare")
        for one in CHROMIUM.parent.iterdir():
            os.symlink(one, top / one.name)
        yield Program("chromium", top / "chromium.bare", ["--headless", "--no-sandbox", "--disable-gpu", "--no-zygote", "--single-process",
                                                          f"--user-data-dir={top / 'profile'}", "--dump-dom", f"data:text/html,<script>{NODE}</script>"])


# ---- readers ----------------------------------------------------------------------

def hex_lines(text):
    return [[int(a, 16) for a in line.split()] for line in text.splitlines()]


def by_libunwind(p, path, stops, top):
    tool = top / "remote_stops"
    if not tool.exists():
        run(["gcc", "-O2", "-D_GNU_SOURCE", "-o", tool, ROOT / "tests" / "data" / "unwind" / "remote_stops.c", "-lunwind-ptrace", "-lunwind-generic", "-lunwind"])
    return hex_lines(run([tool, stops, 1, path, *p.args], env=p.env).stdout)


FRAMEHOP = """[package]
name = "hop_stops"
version = "0.0.0"
edition = "2021"
[[bin]]
name = "hop_stops"
path = "main.rs"
[dependencies]
framehop = { version = "=0.16.0", features = ["std"] }
object = "0.39"
"""


def by_framehop(p, path, stops, _top):
    made = ETCH.parent / "framehop"
    made.mkdir(exist_ok=True)
    (made / "Cargo.toml").write_text(FRAMEHOP)
    shutil.copy(ROOT / "tests" / "data" / "unwind" / "hop_stops.rs", made / "main.rs")
    run(["cargo", "build", "--release", "--quiet"], cwd=made)
    return hex_lines(run([made / "target" / "release" / "hop_stops", stops, 1, path, *p.args], env=p.env).stdout)


def by_gdb(p, path, stops, top):
    """SIGALRM from outside stops it; gdb keeps the signal."""
    out, pid = top / "gdb.out", top / "gdb.pid"
    pid.unlink(missing_ok=True)
    args = " ".join("'" + a.replace("'", "'\\''") + "'" for a in p.args)
    script = top / "gdb.py"
    script.write_text(GDB.format(out=str(out), pid=str(pid), args=args.replace('"', '\\"').replace("\\'", "\\\\'"), stops=stops))
    rng = random.Random(1)
    with subprocess.Popen(["gdb", "-q", "-batch", "-nx", "-ex", "set startup-with-shell on", "-x", script, str(path)], env=p.env,
                          stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as g:
        name = path.name[:15]

        def child():
            """The process that gdb runs."""
            for one in Path("/proc").glob("[0-9]*"):
                try:
                    text = (one / "stat").read_text()
                except OSError:
                    continue
                rest = text[text.rindex(")") + 2:].split()
                if text[text.index("(") + 1:text.rindex(")")] == name and int(rest[1]) == g.pid:
                    return int(one.name), rest[0]
            return None, None
        began = None
        while g.poll() is None:
            number, state = child()
            if state in ("R", "S"):
                began = began or time.time()
                if time.time() > began + 0.3:
                    os.kill(number, signal.SIGALRM)
            time.sleep(rng.uniform(0.002, 0.02))
    return hex_lines(out.read_text())


def by_eu_stack(p, path, stops, _top):
    """eu-stack attaches, prints and detaches."""
    rng, found = random.Random(2), []
    with subprocess.Popen(["setarch", "-R", str(path), *p.args], env=p.env, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as running:
        time.sleep(0.5)
        for _ in range(stops):
            if running.poll() is not None:
                break
            time.sleep(rng.uniform(0.001, 0.01))
            text = subprocess.run(["eu-stack", "-1", "-n", "2000", "-p", str(running.pid)], capture_output=True, text=True, check=False).stdout
            stack = [int(a, 16) for a in re.findall(r"^#\d+\s+0x([0-9a-f]+)", text, re.M)]
            if stack or running.poll() is None:  # else the program has ended before it could be stopped
                found.append(stack)
        running.kill()
    return found


def by_perf(p, path, _stops, top):
    """Three seconds of samples. perf keeps copies of files by their build-id, which etch leaves as it is: none here."""
    data = top / "perf.data"
    perf = ["perf", "--buildid-dir", str(top / f"{path.name}.debug")]
    with subprocess.Popen([*perf, "record", "-q", "-F", "200", "--call-graph", "dwarf,16384", "-o", str(data), "--", "setarch", "-R", str(path), *p.args],
                          env=p.env, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as recorder:
        time.sleep(3)
        os.kill(recorder.pid, signal.SIGINT)
    text = run([*perf, "script", "--no-inline", "-F", "comm,ip", "-i", data], timeout=400).stdout
    stacks = [[int(a, 16) for a in re.findall(r"^\s+([0-9a-f]+)$", one, re.M)] for one in text.split("\n\n")
              if one.strip().startswith(path.name)]
    return [[a for a in s if a < 1 << 47] for s in stacks if any(a < 1 << 47 for a in s)]


def by_libgcc(p, path, stops, top):
    out = top / "own"
    out.unlink(missing_ok=True)
    own = [f"OWN_STOPS={out}", f"COUNT={stops}"]
    if p.name not in ("musl", "rust"):
        run(["gcc", "-O2", "-D_GNU_SOURCE", "-shared", "-fPIC", "-o", top / "stops.so", STOPS])
        own.append(f"LD_PRELOAD={top / 'stops.so'}")
    try:
        subprocess.run(["setarch", "-R", "env", *own, str(path), *p.args], env=p.env, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=False, timeout=200)
    except subprocess.TimeoutExpired:
        pass
    return hex_lines(out.read_text())


READERS = {"libgcc": by_libgcc, "gdb": by_gdb, "libunwind": by_libunwind, "eu-stack": by_eu_stack, "perf dwarf": by_perf,
           "framehop": by_framehop}


# ---- step by step ------------------------------------------------------------------

def rows_of(path, base):
    """Lines for saves.c, from `etch inspect cfi`."""
    for line in run([ETCH, "inspect", "cfi", "--format", "tsv", path]).stdout.splitlines()[1:]:
        addr, size, cfa, bp, ra, kind, _source, registers = line.split("\t")[:8]
        found = re.fullmatch(r"(rsp|rbp)([+-]\d+)", cfa)
        if kind != "call" or ra != "cfa-8" or not found:
            continue
        rules = dict(r.split("@") for r in registers.split() if "@" in r)
        rules |= {r.split("=")[0]: "?" for r in registers.split() if "@" not in r and r != "-"}
        rules["rbp"] = bp if bp != "same" else None
        kept = [(0, 0) if not rules.get(r) else (1, int(rules[r][3:])) if rules[r].startswith("cfa") else (2, 0) for r in KEPT]
        yield (int(addr, 16) + base, int(addr, 16) + base + int(size, 16), 4 if found.group(1) == "rsp" else 5, int(found.group(2)), kept)


def libraries(p, path):
    """(path, base) of those it is linked with, where they are without address randomization."""
    with open(path, "rb") as f:
        if not any(s["p_type"] == "PT_INTERP" for s in ELFFile(f).iter_segments()):
            return
    text = subprocess.run(["setarch", "-R", "env", "LD_TRACE_LOADED_OBJECTS=1", str(path)], env=p.env, capture_output=True, text=True, check=False).stdout
    for found in re.finditer(r"(/\S+) \(0x([0-9a-f]+)\)", text):
        yield Path(found.group(1)), int(found.group(2), 16)


def step(p, steps, top):
    tool = top / "saves"
    if not tool.exists():
        run(["gcc", "-O2", "-std=gnu11", "-D_GNU_SOURCE", "-o", tool, ROOT / "tests" / "data" / "unwind" / "saves.c"])
    rows = [*rows_of(p.seen, p.base), *(r for lib, base in libraries(p, p.seen) for r in rows_of(lib, base))]
    with open(top / "rows", "w", encoding="ascii") as f:
        for a, b, reg, off, kept in sorted(rows):
            f.write(f"{a:x} {b:x} {reg} {off} " + " ".join(f"{h} {o}" for h, o in kept) + "\n")
    done = subprocess.run([str(tool), "-e", f"{p.entry:x}", str(top / "rows"), str(steps), str(p.seen), *p.args], env=p.env, capture_output=True, text=True,
                          check=True)
    *shown, last = done.stdout.splitlines()
    print(*shown[:10], sep="\n", file=sys.stderr)
    return dict(zip(last.split()[::2], map(int, last.split()[1::2]), strict=True))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--stops", type=int, default=200)
    parser.add_argument("--steps", type=int, default=1000000)
    parser.add_argument("--only", default="musl,rust,git,node,chromium")
    parser.add_argument("--readers", default=",".join(READERS))
    parser.add_argument("--json")
    args = parser.parse_args()
    result = {}
    with tempfile.TemporaryDirectory() as temp:
        for p in programs(Path(temp), args.only.split(",")):
            result[p.name] = {}
            for reader in filter(None, args.readers.split(",")):
                tool = "cargo" if reader == "framehop" else reader.split()[0]
                if not shutil.which(tool) and not reader.startswith("lib"):
                    continue
                for path in (p.bare, p.seen):
                    found = p.share(path, READERS[reader](p, path, args.stops, Path(temp)))
                    result[p.name].setdefault(reader, []).append(found)
                print(p.name, reader, *(f"{r['complete']} of {r['stacks']}" for r in result[p.name][reader]), sep="\t", flush=True)
            if args.steps:
                result[p.name]["steps"] = step(p, args.steps, Path(temp))
                print(p.name, result[p.name]["steps"], flush=True)
    if args.json:
        Path(args.json).write_text(json.dumps(result, indent=1) + "\n", encoding="ascii")


if __name__ == "__main__":
    main()
