# SPDX-License-Identifier: MIT
"""The parts of scripts/bench/run about calls through ops tables."""
import collections
import pathlib
import re
import shutil
import statistics
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))
from call_options import call_options
from counts import Code, callgrind, classify, kind
from common import B, HERE, OUT, TOP, etch_needed, fail, parse, quartiles, sections, sh, spread, table

# ---- building ----------------------------------------------------------------------

CFLAGS = ["-O2", "-Wall", "-Wextra", "-I", str(TOP / "lib/include"), "-I", str(HERE)]


def build(cc, out, source, flags=(), rewrite=False, libraries=()):
    """A program, and its object beside it."""
    etch_needed()
    out.parent.mkdir(parents=True, exist_ok=True)
    o = out.with_name(out.name + ".o")
    sh(cc, *CFLAGS, *flags, "-c", source, "-o", o)
    if rewrite:
        sh(B / "etch", "rewrite", o)
    sh(cc, "-o", out, o, *libraries, B / "libetch.a", "-pthread")
    if rewrite:
        sh(B / "etch", "rewrite", out)
    return out


# ---- mmap -----------------------------------------------------------------------------

NATIVE, UNPATCHED, PATCHED, CALLED = "native", "ops, unpatched", "ops, patched", "patched, idents called"
IN_PLACE = "patched, in place"


def mmap_builds(cc, name, flags=()):
    """The four programs, by name, from one source."""
    source, dir_ = HERE / "mmap-perf.c", OUT / cc
    ops = [*flags, *call_options(cc)]
    return {NATIVE: build(cc, dir_ / f"{name}-native", source, [*flags, "-DNATIVE"]),
            UNPATCHED: build(cc, dir_ / f"{name}-unpatched", source, ops),
            PATCHED: build(cc, dir_ / f"{name}-patched", source, ops, True),
            CALLED: build(cc, dir_ / f"{name}-called", source, [*ops, "-DIDENT_CALLED"], True),
            IN_PLACE: build(cc, dir_ / f"{name}-in-place", source, [*ops, "-DINLINE"], True)}


def mmap_counts(programs, operations):
    """By program: what it printed (checksum and statistics; all the same), and the
    counts below work(), with those at call sites added by what stands there."""
    code, found, said = Code(), {}, set()
    for name, program in programs.items():
        text, counts = callgrind(program, [operations], "work")
        found[name] = classify(counts, code)
        info, rows = parse(text)
        said.add((rows[0][2], *(info[k] for k in ("vmas", "pages", "zero_pages", "tables", "faults", "flushed"))))
        sites = {s["address"] for s in call_sites(program) if s["form"]}
        for (file, address), (executed, _, _) in counts.items():
            text = code.at(file, address)[0]
            if file.endswith(".stripped") and address in sites:  # callgrind names the file that it ran
                found[name]["site " + kind(text)] += executed
            elif kind(text) != "nop" and not text.startswith("rep"):
                found[name]["shape " + shape(text)] += executed
    if len(said) != 1:
        fail(f"mmap: the four programs do not agree: {said}")
    return said.pop(), found


def shape(text):
    """What an instruction costs a caller of something: it saves and restores registers
    on the stack, moves arguments into place, or neither."""
    text = text.split("#")[0]
    if re.match(r"(push|pop) ", text) or "(%rsp" in text:
        return "stack"
    if re.match(r"mov\w* +%\w+,%\w+\s*$", text):
        return "move"
    return "memory" if "(" in text else "other"


def call_sites(program):
    """Calls and tail jumps through etched objects, of a program."""
    rows = [line.split("\t") for line in sh(B / "etch", "inspect", "sites", "--format", "tsv", program).splitlines()]
    sites = [dict(zip(rows[0], r)) for r in rows[1:]]
    return [{**s, "address": int(s["address"], 16), "form": "" if s["form"] == "-" else s["form"]}
            for s in sites if s["kind"] in ("call", "jmp")]


def mmap_table(cc, name, flags, args):
    operations = 50_000 if args.quick else 1_000_000
    programs = mmap_builds(cc, name, flags)
    said, counts = mmap_counts(programs, operations)
    again = "native, again"
    times = {k: [] for k in [*programs, again]}
    for _ in range(3 if args.quick else 41):
        for k, program in [*programs.items(), (again, programs[NATIVE])]:
            ticks, per_ns, checksum = parse(sh(program, 1_000_000))[1][0]
            times[k].append(int(ticks) / float(per_ns) / 1e6)
            if not args.quick and checksum != said[0]:
                fail(f"mmap: {k} gives {checksum} here and {said[0]} under callgrind")
    text = {k: sum(n for s, n in sections(p.with_name(p.name + ".o")).items() if s.startswith(".text"))
            for k, p in programs.items()}
    tables = {k: sum(n for s, n in sections(p).items() if s in ("__pv_sites", "__pv_native", "__etch_obj"))
              for k, p in programs.items()}

    def row(label, values, digits=0, delta=True):
        cells, base = [], values[NATIVE]
        for k in programs:
            cells.append(f"{values[k]:,.{digits}f}")
            if k != NATIVE:
                cells.append(f"{100 * (values[k] / base - 1):+.2f}%" if base and delta else "")
        return [label, *cells]

    def counted(label, key, delta=True):
        return row(label, {k: counts[k][key] for k in programs}, delta=delta)

    # Against the run of the native program in the same turn.
    ratio = {k: statistics.median(a / b - 1 for a, b in zip(v, times[NATIVE])) for k, v in times.items()}
    print(f"{operations:,} operations, checksum {said[0]} in all four; {said[5]:,.0f} page faults, "
          f"{said[6]:,.0f} pages unmapped or moved. Time: medians of {len(times[NATIVE])} runs of each program, in turn, "
          f"and of each turn's ratios; the native program a second time: {100 * ratio[again]:+.2f}%.\n")
    table(["", NATIVE] + [c for k in list(programs)[1:] for c in (k, "")],
          [counted("instructions, without NOPs", "useful"), counted("NOPs", "nop", False),
           counted("instructions", "instructions"),
           counted("branches", "branches"), counted("  of them indirect calls and jumps", "indirect"),
           counted("data references", "data"),
           ["time, ms"] + [c for k in programs for c in [f"{statistics.median(times[k]):.1f}"] +
                           [f"{100 * ratio[k]:+.2f}%"] * (k != NATIVE)],
           ["  quartiles"] + [c for k in programs for c in
                              (["{:.1f} to {:.1f}".format(*quartiles(times[k])[::2])] + [""] * (k != NATIVE))],
           row("text, bytes", text), row("tables, bytes", tables)])
    sites = call_sites(programs[PATCHED])
    left = collections.Counter(s["live"] for s in sites if not s["form"] or s["live"] != "yes")
    print(f"Sites: {sum(bool(s['form']) for s in sites)} of {len(sites)} calls through the ops" +
          ("; left: " + "; ".join(f"{n} {why}" for why, n in left.items()) if left else "") + ".")
    per = lambda n: f"{n / operations:.2f}"
    p, n = counts[PATCHED], counts[NATIVE]
    extra = p["useful"] - n["useful"]
    # A store that an op does is done by native code too; a mov of an identity is not.
    moves = p["site other"] - counts[CALLED]["site other"]
    more = {k: p["shape " + k] - n["shape " + k] for k in SHAPES}
    more["memory"] += p["site other"] - moves
    print(f"An operation executes {per(sum(v for k, v in p.items() if k.startswith('site')))} ops: {per(p['site nop'])} as "
          f"NOPs, {per(moves)} as the mov of an identity, {per(p['site other'] - moves)} as a store, "
          f"{per(p['site call'])} as a direct call, {per(p['indirect'])} indirect. Patched executes {per(extra)} "
          f"instructions more than native: {per(moves)} are those movs; the rest is " +
          ", ".join(f"{more[k] / operations:+.2f} {what}" for k, what in SHAPES.items()) + ".\n")


SHAPES = {"stack": "saving and restoring on the stack", "move": "moves between registers",
          "memory": "other references to memory", "other": "other instructions"}


def part_mmap(args):
    if not shutil.which("valgrind"):
        fail("mmap: valgrind is needed for the counts")
    for cc in args.cc:
        print(f"### mmap, {cc}\n")
        mmap_table(cc, "mmap-perf", [], args)
        if cc == "clang":
            print("With ops that are declared to preserve registers (preserve_most):\n")
            mmap_table(cc, "mmap-perf-preserve", ["-DCALLEE_SAVE"], args)


# ---- calls ----------------------------------------------------------------------------

CALLS = {"inline": "no call: the instruction inline", "direct": "direct call",
         "indirect": "indirect call, one target", "indirect to nop": "indirect call of pv_nop",
         "table, same": "indirect call from an array, one target",
         "table, alternating": "indirect call from an array, two targets in turn",
         "table, random": "indirect call from an array, two targets at random",
         "patched": "patched: a direct call", "patched live": "patched by pv_set: a direct call",
         "nop": "patched: pv_nop", "ident": "patched: pv_ident_64",
         "native": "patched: a PV_NATIVE instruction", "constant": "patched: a function that returns a constant",
         "ifunc": "ifunc of the program, through the PLT", "shared": "function of a shared object, through the PLT"}


def calls_build(cc):
    dir_ = OUT / cc
    dir_.mkdir(parents=True, exist_ok=True)
    shared = dir_ / "libcalls.so"
    sh(cc, *CFLAGS, "-fPIC", "-shared", HERE / "calls-shared.c", "-o", shared)
    return build(cc, dir_ / "calls", HERE / "calls.c", call_options(cc), True,
                 [shared, f"-Wl,-rpath,{dir_}"])


def part_calls(args):
    print("### calls\n\nPeers: " + "; ".join(sh(*c).splitlines()[0] for c in (["ldd", "--version"], ["ld", "--version"])) +
          ".\n")
    cells = collections.defaultdict(list)
    for cc in args.cc:
        info, rows = parse(sh(calls_build(cc), 20 if args.quick else 300))
        per = collections.defaultdict(list)
        for name, t in rows:
            per[name].append(int(t) / info["ticks_per_ns"] / info["tested"])
        base = statistics.median(per["empty"])
        print(f"{cc}: {len(per['empty'])} tests of {int(info['tested']):,} calls of each variant, in turn; of "
              f"{int(info['calls'])} sites {int(info['direct'])} are direct calls and {int(info['inline'])} inline. "
              f"The loop without calls: {spread(per['empty'])} ns a call.")
        for name in CALLS:
            cells[name] += [spread(per[name]), f"{statistics.median(per[name]) - base:+.2f}"]
    print("\nns a call:\n")
    table(["variant"] + [h for cc in args.cc for h in (cc, "above the loop")],
          [[text, *cells[name]] for name, text in CALLS.items()])
