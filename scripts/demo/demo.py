#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""make demo: a real program, etched.

Fetches SQLite, marks its configuration with one attribute, builds it with gcc
and with clang, rewrites the object and the program, and runs one workload on
the unprocessed and on the etched program: before, during and after its settings
are changed under four running threads. Then says what became of each
instruction that touches the configuration. Last, a program of this machine, as it is.
Exit 0 when all results agree.
"""

import difflib
import json
import os
import re
import shutil
import subprocess
import sys
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
import counts  # noqa: E402
from call_options import call_options  # noqa: E402
import fetch  # noqa: E402

ROOT = Path(__file__).resolve().parent.parent.parent
BUILD = ROOT / os.environ.get("B", "build")
OUT = BUILD / "demo"
ETCH = BUILD / "etch"
COMPILERS = ["gcc", "clang"]
OBJECT = "sqlite3Config"
DEFINITION = "SQLITE_PRIVATE SQLITE_WSD struct Sqlite3Config sqlite3Config = {"
THREADS, ROUNDS = 4, 10
COUNTED_ROUNDS = 2  # under valgrind
CODE = counts.Code()  # libc's is that of all programs


def step(text):
    print(f"\n== {text}", flush=True)


def fail(text):
    print(f"demo: {text}", file=sys.stderr)
    sys.exit(1)


def relative(argv):
    """A command as a reader at the top of the repository would type it."""
    return " ".join(str(a).replace(f"{ROOT}/", "") for a in argv)


def run(argv, show=False):
    if show:
        print(f"  $ {relative(argv)}", flush=True)
    p = subprocess.run([str(a) for a in argv], text=True, capture_output=True)
    if p.returncode:
        fail(f"exit {p.returncode}: {relative(argv)}\n{p.stdout}{p.stderr}")
    return p.stdout


# ---- the steps -----------------------------------------------------------------

def mark(source):
    """Marks the configuration object in a copy of the source: the whole change to
    SQLite. Returns the number of changed lines."""
    old = (source / "sqlite3.c").read_text().splitlines(keepends=True)
    at = [i for i, line in enumerate(old) if line.startswith(DEFINITION)]
    if len(at) != 1:
        fail(f"{len(at)} definitions of {OBJECT} in this SQLite, expected one")
    new = old[: at[0]] + ["#include <etch/pv.h>\n", "ETCHED " + old[at[0]]] + old[at[0] + 1:]
    (OUT / "sqlite3.c").write_text("".join(new))
    shutil.copy(source / "sqlite3.h", OUT / "sqlite3.h")
    # Of the neighbourhood: difflib is slow on a quarter of a million lines.
    i = at[0]
    diff = list(difflib.unified_diff(old[i - 2:i + 2], new[i - 2:i + 3], "sqlite3.c", "sqlite3.c, marked", n=2))
    for line in diff:
        print(f"  @@ line {i + 1} @@" if line.startswith("@@") else "  " + line.rstrip())
    return sum(line[0] == "+" and not line.startswith("+++") for line in diff)


def compile_and_link(cc):
    """The object, and the program that no tool has seen."""
    obj = OUT / f"{cc}.o"
    compiler = [cc, "-std=gnu11", "-D_GNU_SOURCE", "-O2", "-g1", "-w", *call_options(cc), f"-I{ROOT}/lib/include",
                f"-I{OUT}", "-c", "-o", obj, ROOT / "scripts" / "demo" / "workload.c"]
    run(compiler)
    link(cc, obj, OUT / f"{cc}-plain")
    return compiler


def link(cc, obj, out):
    argv = [cc, "-o", out, obj, BUILD / "libetch.a", "-pthread", "-lm", "-ldl"]
    run(argv)
    return argv


def workload(program, shown=()):
    argv = [program, THREADS, ROUNDS, *(f"{s['address']}:{s['length']}" for s in shown)]
    return json.loads(run(argv, show=True))


def stands(code):
    """What a call site's bytes (hex) are now, as counts.kind() says it."""
    code = bytes.fromhex(code)
    first = code.lstrip(b"\x67\x2e\x3e\x41")[0]
    return {0xff: "call *", 0xe8: "call", 0xe9: "jmp", 0xc3: "ret"}.get(first, "inline")


def count(program, calls):
    """Instructions that one worker's rounds execute; "calls *": indirect at call sites."""
    output, profile = counts.callgrind(program, [0, COUNTED_ROUNDS, *(f"{s['address']}:{s['length']}" for s in calls)],
                                       "counted_work")
    output = json.loads(output)
    file = str(program.with_name(program.name + ".stripped"))
    now = {(file, int(s["address"], 16)): stands(b) for s, b in zip(calls, output["bytes_synced"])}
    if program.name.endswith("-plain") and set(now.values()) != {"call *"}:
        fail(f"{program.name}: no indirect calls where {program.name.replace('plain', 'etched')} has its sites")
    found = counts.classify(profile, CODE, now)
    found["calls"] = sum(profile[k][0] for k in now if k in profile)
    found["calls *"] = sum(profile[k][0] for k, what in now.items() if what == "call *" and k in profile)
    return {**found, "checksum": output["checksum"], "sync": output["sync"]}


def inspect(what, program):
    return json.loads(run([ETCH, "inspect", what, "--json", program]))


def disassemble(hex_bytes, address):
    """One instruction as objdump shows it."""
    raw = OUT / "one.bin"
    raw.write_bytes(bytes.fromhex(hex_bytes))
    text = run(["objdump", "-D", "-b", "binary", "-mi386:x86-64", f"--adjust-vma=0x{address}", raw])
    lines = [line.split("\t") for line in text.splitlines() if line.count("\t") >= 2]
    return re.sub(r"\s+", " ", lines[0][2].split("#")[0]).strip() if len(lines) == 1 else "?"


# ---- the report ----------------------------------------------------------------

def table(title, rows):
    """Rows of (label, one value per compiler)."""
    print(f"\n  {title:<58}" + "".join(f"{cc:>13}" for cc in COMPILERS))
    for label, values in rows:
        print(f"    {label:<56}" + "".join(f"{v:>13}" for v in values))


def report(results):
    def both(value):
        return [value(results[cc]) for cc in COMPILERS]

    def count_of(test):
        return both(lambda r: sum(map(test, r["sites"])))

    def reasons(test):
        """Why the instructions that pass the test are as the compiler wrote them."""
        found = Counter(s["live"] for cc in COMPILERS for s in results[cc]["sites"] if test(s))
        return [why for why, _ in found.most_common() if why != "yes"]

    def is_call(s):
        return s["kind"] in ("call", "jmp")

    def is_site(s):
        return s["form"] is not None and not is_call(s)

    rows = [("instructions that touch the configuration", count_of(lambda s: True)),
            ("  reads that have an immediate form", count_of(is_site)),
            ("    patched while the program ran", both(lambda r: r["etched"]["info_synced"]["armed"])),
            ("    live, but its value does not fit an immediate now", both(
                lambda r: r["etched"]["info_synced"]["loads"] - r["etched"]["info_synced"]["fixed"]))]
    for why in reasons(is_site):
        rows.append(("    stays a load: " + reason_short(why), count_of(lambda s: is_site(s) and s["live"] == why)))
    rows += [("  calls and jumps through its methods", count_of(is_call)),
             ("    patched: direct calls and jumps", both(lambda r: r["etched"]["info_synced"]["direct"])),
             ("    patched: a nop, or the function's only instruction", both(
                 lambda r: r["etched"]["info_synced"]["inline"])),
             ("    live, but indirect now: null, or has no space", both(
                 lambda r: sum(is_call(s) and s["live"] == "yes" for s in r["sites"])
                 - r["etched"]["info_synced"]["direct"] - r["etched"]["info_synced"]["inline"]))]
    for why in reasons(is_call):
        rows.append(("    stays indirect: " + reason_short(why), count_of(lambda s: is_call(s) and s["live"] == why)))
    for why in reasons(lambda s: s["form"] is None and not is_call(s)):
        rows.append(("  untouched: " + reason_short(why),
                     count_of(lambda s: s["form"] is None and not is_call(s) and s["live"] == why)))
    table("What stands in the code", rows)

    def of_field(name):
        def value(r):
            mine = [s for s in r["sites"] if s["form"] is not None and s["offset"] == r["etched"]["fields"][name][0]]
            return f"{sum(s['live'] == 'yes' for s in mine)} of {len(mine)}"
        return both(value)

    fields = results[COMPILERS[0]]["etched"]["fields"]
    table("What was changed: its live sites, of all its sites *", [(name, of_field(name)) for name in fields])
    print("    * the others stay loads and see the change in memory; 0 of 0: the compiler only compares it in memory")

    executed = [("instructions, unprocessed", "useful", "counted_plain"), ("instructions, etched", "useful", "counted"),
                ("data references, unprocessed", "data", "counted_plain"), ("data references, etched", "data", "counted"),
                ("calls through the methods, both", "calls", "counted_plain"),
                ("  of them indirect, unprocessed", "calls *", "counted_plain"),
                ("  of them indirect, etched", "calls *", "counted"),
                ("all indirect calls and jumps, unprocessed", "indirect", "counted_plain"),
                ("all indirect calls and jumps, etched", "indirect", "counted")]
    table(f"What {COUNTED_ROUNDS} rounds of work execute, NOPs not counted",
          [(label, both(lambda r: f"{r[run][key]:,}")) for label, key, run in executed])

    table("Cost", [("tables of sites, bytes a site", both(lambda r: r["summary"]["bytes_per_site"])),
                   ("tables of sites, bytes", both(lambda r: r["summary"]["bytes_per_site"] *
                                                   (r["summary"]["sites"] + r["summary"]["call_sites"]))),
                   ("dynamic relocations, plain program", both(lambda r: r["relocations"][0])),
                   ("dynamic relocations, etched program", both(lambda r: r["relocations"][1]))])

    table("What the etched program saw",
          [("immediates and direct calls before etch_sync", both(lambda r: patched(r["etched"]["info_start"]))),
           ("immediates and direct calls after it", both(lambda r: patched(r["etched"]["info_synced"]))),
           ("changes made (etch_set), all but 8 under running queries", both(lambda r: r["etched"]["changes"])),
           ("changes refused", both(lambda r: r["etched"]["failed"])),
           ("sites that differ from memory in the end (etch_verify)", both(lambda r: r["etched"]["verify"])),
           ("a query reads, with bUseCis = 1", both(lambda r: plan(r["etched"]["effect_before"]))),
           ("a query reads, with bUseCis = 0", both(lambda r: plan(r["etched"]["effect_after"]))),
           ("pooled allocations, with nLookaside = 40", both(lambda r: r["etched"]["effect_before"]["pooled"])),
           ("pooled allocations, with nLookaside = 0", both(lambda r: r["etched"]["effect_after"]["pooled"])),
           ("calls of the hook in a run, with xTestCallback = 0", both(lambda r: r["etched"]["effect_before"]["hook_calls"])),
           ("calls of the hook in a run, with xTestCallback = hook", both(
               lambda r: r["etched"]["effect_after"]["hook_calls"])),
           ("calls of a mutex method of ours, before it is set", both(
               lambda r: r["etched"]["effect_before"]["enter_calls"])),
           ("calls of it in a run after", both(lambda r: r["etched"]["effect_after"]["enter_calls"]))])


def patched(info):
    return info["armed"] + info["direct"] + info["inline"]


def reason_short(why):
    """The tool's reason as it fits a column."""
    why = why.removeprefix("no: ")
    for long, short in (("the pointer is kept", "its pointer is kept in a register"),
                        ("compare of memory", "compare with memory"),
                        ("vector or x87", "vector load"),
                        ("a data word holds", "a data word holds its address")):
        if why.startswith(long):
            return short
    return why


def relocations(program):
    out = run(["readelf", "-rW", program])
    return sum("R_X86_64_" in line for line in out.splitlines())


def plan(effect):
    return "the index" if "COVERING INDEX" in effect["plan"] else "the table"


def sites_to_show(rows, fields):
    """For a narrow and for a wide setting that the workload changes, and for a method, a
    live site."""
    offsets = {offset for offset, _ in fields.values()}
    mine = [s for s in rows if s["live"] == "yes" and s["offset"] in offsets]
    hooks = [s for s in mine if s["offset"] == fields["xTestCallback"][0] and s["kind"] == "load"]
    calls = [s for s in mine if s["offset"] == fields["mutex.xMutexEnter"][0] and s["kind"] == "call"]
    return [s for s in mine if s["size"] == 4][:1] + hooks[-1:] + [s for s in calls if s["length"] == 6][:1]


def show_sites(results):
    print("\n  Three sites, in the memory of the running program: a value that fits an immediate always; one that does\n"
          "  not in the end (the address of a function in a PIE), so that its site becomes a load again; and a call")
    for cc in COMPILERS:
        e = results[cc]["etched"]
        for n, site in enumerate(results[cc]["shown"]):
            name = next(name for name, (offset, _) in e["fields"].items() if offset == site["offset"])
            source = f" ({site['source']})" if site["source"] else ""
            verb = "calls" if site["kind"] == "call" else "reads"
            print(f"    {cc}: {verb} {name}, in {site['function']}{source}")
            for key, when in (("bytes_start", "as linked"), ("bytes_synced", "after etch_sync"),
                              ("bytes_changed", "after etch_set")):
                data = e[key][n]
                print(f"      {when:<16} {bytes.fromhex(data).hex(' '):<22} {disassemble(data, site['address'])}")


def verdict(results):
    """Prints whether all is as promised, and returns what is not."""
    trouble = []
    sums = {cc: results[cc]["plain"]["checksums"] + results[cc]["etched"]["checksums"] for cc in COMPILERS}
    different = {s for cc in COMPILERS for s in sums[cc]}
    print("\n  Results of the workload: a checksum over every value of every row")
    for cc in COMPILERS:
        for kind, three in (("unprocessed", sums[cc][:3]), ("etched", sums[cc][3:])):
            seconds = results[cc]["plain" if kind == "unprocessed" else "etched"]["seconds"]
            print(f"    {cc:<6} {kind:<12} before {three[0]}  during {three[1]}  after {three[2]}"
                  f"   ({', '.join(f'{s:.1f}' for s in seconds)} s)")
    if len(different) != 1:
        trouble.append("the checksums differ")
    for cc in COMPILERS:
        e = results[cc]["etched"]
        if e["sync"] != "ok":
            trouble.append(f"{cc}: etch_sync: {e['sync']}")
        if e["failed"]:
            trouble.append(f"{cc}: {e['failed']} changes refused: {e['error']}")
        if e["verify"]:
            trouble.append(f"{cc}: etch_verify: {e['verify']}")
        if not e["info_synced"]["armed"] or not e["info_synced"]["direct"]:
            trouble.append(f"{cc}: no site was patched")
        if plan(e["effect_before"]) == plan(e["effect_after"]):
            trouble.append(f"{cc}: the query planner did not see the change of bUseCis")
        if not e["effect_before"]["pooled"] or e["effect_after"]["pooled"]:
            trouble.append(f"{cc}: new connections did not see the change of nLookaside")
        for name in ("hook_calls", "enter_calls"):
            if e["effect_before"][name] or not e["effect_after"][name]:
                trouble.append(f"{cc}: {name}: called when it should not be, or not when it should")
        before, after = results[cc]["counted_plain"], results[cc]["counted"]
        if before["checksum"] != after["checksum"]:
            trouble.append(f"{cc}: the checksums under valgrind differ")
        if after["calls *"] * 100 > before["calls *"]:
            trouble.append(f"{cc}: {after['calls *']} of {before['calls *']} calls are still executed as indirect ones")
    if trouble:
        print("\n  NOT AS PROMISED: " + "; ".join(trouble))
    else:
        print(f"    all {sum(map(len, sums.values()))} are identical: same results with loads, with immediates,"
              " and while they change")
    return trouble


# The first of these that is here, and an argument with which it says something.
OTHERS = [("postgres", "--version"), ("mysqld", "--version"), ("sqlite3", "--version"), ("perl", "-v"), ("python3", "-V")]


def any_program():
    """A program that was built without any of this gets unwind tables, and loses them again. What is not
    as promised, or None."""
    name, argument = next(((n, a) for n, a in OTHERS if is_elf(shutil.which(n))), (None, None))
    if not name:
        return None
    source, out = Path(shutil.which(name)).resolve(), OUT / name
    step(f"6. A program that was built without any of this: {source}")
    start = time.monotonic()
    run([ETCH, "rewrite", "-o", out, source], show=True)
    seconds = time.monotonic() - start
    code = inspect("summary", out)["code"]
    text = sum(code["coverage"].values())
    print(f"    {seconds:.1f} s for {text / 1e6:.1f} MB of code; {code['rows']:,} unwind rows for"
          f" {100 - 100 * code['undefined_in_functions'] / text:.2f}% of its functions' bytes")
    same = run([out, argument], show=True) == run([source, argument])
    run([ETCH, "rewrite", "--undo", out], show=True)
    undone = out.read_bytes() == source.read_bytes()
    if same and undone:
        print("    it says the same with the tables, and has the bytes of before without them")
        return None
    return f"{name}: " + ("other bytes after --undo" if same else "other output")


def is_elf(path):
    if not path:
        return False
    with open(path, "rb") as f:
        return f.read(4) == b"\x7fELF"


def in_short(results, changed):
    """The tables above in four lines, of gcc's program."""
    r = results["gcc"]
    calls = sum(s["kind"] in ("call", "jmp") for s in r["sites"])
    info, e = r["etched"]["info_synced"], r["etched"]
    print(f"\n  In short, with gcc: {changed} lines of SQLite changed.\n"
          f"    {info['direct'] + info['inline']} of {calls} calls through its methods are direct or gone, {info['armed']} of its reads"
          " are constants in the code;\n"
          f"    of {r['counted_plain']['calls *']:,} indirect calls that were executed there {r['counted']['calls *']:,} are left;\n"
          f"    {e['changes']:,} changes, all but 8 under running queries, {e['failed']} refused; the same results throughout.")


def main():
    start = time.monotonic()
    source = fetch.fetch("sqlite")
    fetched = time.monotonic() - start
    start = time.monotonic()
    shutil.rmtree(OUT, ignore_errors=True)
    OUT.mkdir(parents=True)

    step(f"1. Mark one object in SQLite's source (from {relative([source])})")
    changed = mark(source)
    print(f"  {changed} changed lines; nothing else in SQLite is touched")

    step("2. Build it with gcc and with clang, and link with libetch (a minute or so)")
    with ThreadPoolExecutor(len(COMPILERS)) as pool:
        for argv in pool.map(compile_and_link, COMPILERS):
            print(f"  $ {relative(argv)}")

    step("3. etch rewrite: the object, then the program")
    results = {}
    for cc in COMPILERS:
        obj, program = OUT / f"{cc}.o", OUT / f"{cc}-etched"
        run([ETCH, "rewrite", obj], show=True)
        print(f"  $ {relative(link(cc, obj, program))}")
        run([ETCH, "rewrite", program], show=True)
        results[cc] = {"summary": inspect("summary", program), "sites": inspect("sites", program)["sites"],
                       "relocations": [relocations(OUT / f"{cc}-plain"), relocations(program)]}

    step(f"4. Run its workload: as built, under live changes, changed ({THREADS} threads)")
    for cc in COMPILERS:
        r = results[cc]
        r["plain"] = workload(OUT / f"{cc}-plain")
        r["shown"] = sites_to_show(r["sites"], r["plain"]["fields"])
        r["etched"] = workload(OUT / f"{cc}-etched", r["shown"])

    step("5. Count what one worker executes, unprocessed and etched (valgrind)")
    with ThreadPoolExecutor(len(COMPILERS)) as pool:
        jobs = {(cc, key): pool.submit(count, OUT / f"{cc}-{program}", [s for s in results[cc]["sites"] if s["form"]
                                                                        and s["kind"] in ("call", "jmp")])
                for cc in COMPILERS for key, program in (("counted_plain", "plain"), ("counted", "etched"))}
        for (cc, key), job in jobs.items():
            results[cc][key] = job.result()

    report(results)
    show_sites(results)
    trouble = verdict(results)
    if not trouble:
        in_short(results, changed)
    other = any_program()
    if other:
        trouble.append(other)
        print(f"  NOT AS PROMISED: {other}")
    print(f"\n  {time.monotonic() - start:.0f} s, and {fetched:.0f} s to fetch the source\n")
    print("What next:\n"
          "  build/etch inspect sites build/demo/gcc-etched     each site, with function and line\n"
          "  build/etch inspect summary build/demo/gcc-etched   the same in numbers\n"
          "  scripts/demo/workload.c                            how a program uses it: etch_sync, etch_set\n"
          "  docs/live-patching.md                              why a site is changed live, or is not")
    return 1 if trouble else 0


if __name__ == "__main__":
    sys.exit(main())
