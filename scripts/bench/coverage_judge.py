# SPDX-License-Identifier: MIT
"""The part `judge` of scripts/bench/run: do armed reads touch the object no more? The programs of coverage_load.py under
their load, where every access to the marked objects faults after the etch_sync (coverage-judge.c): which instructions
read them, beside those that etch says it has armed. ETCH_PROGRAMS, ETCH_REQUESTS, ETCH_LOAD_COMPILER as there."""
import os
import pathlib
import re
import tempfile

from common import HERE, TOP, etch_needed, fail, sh, table
import coverage_load
import coverage_parts
from coverage_parts import sites


def sizes(path):
    return {w[3]: int(w[1], 16) for w in map(str.split, sh("nm", "-S", path).splitlines()) if len(w) == 4}


def program(name, cc):
    """The program with the judge, rewritten; the marked objects."""
    main = HERE / "coverage-sqlite.c" if name == "SQLite" else None
    plain, _, objects = coverage_parts.linked(name, cc, TOP, "judged", coverage_load.PROBE, main=main)
    size = sizes(plain)
    at, command, target, _ = coverage_parts.built(name, cc)
    out, probe = at / "etched.judge", at / "judge.o"
    sh(coverage_parts.driver(cc), "-O1", f"-I{TOP}/lib/include", "-DJUDGE_OBJECTS=" + " ".join(f"X({o}, {size[o]})" for o in objects), "-c", "-o", probe,
       HERE / "coverage-judge.c")
    cwd = coverage_parts.linked_in(name, at)
    coverage_parts.link(command, target, out, cwd, [probe, f"{TOP}/build/libetch.a"], main, cc)
    sh(TOP / "build/etch", "rewrite", out)
    return out, objects


def part_judge(args):
    """Instructions that read marked objects after the etch_sync, by page faults."""
    etch_needed()
    del args
    cc = os.environ.get("ETCH_LOAD_COMPILER", "gcc")
    rows = []
    for name in os.environ.get("ETCH_PROGRAMS", " ".join(coverage_load.LOADS)).split():
        exe, _ = program(name, cc)
        judging = next(int(w[0], 16) for w in map(str.split, sh("nm", exe).splitlines()) if w[-1] == "judging")
        live = {int(s["address"], 16) for s in sites(TOP, exe) if s["live"] in ("yes", "swap")}
        other = {int(s["address"], 16) for s in sites(TOP, exe)} - live
        with tempfile.TemporaryDirectory(prefix="etch-judge-") as d:
            n = int(os.environ.get("ETCH_REQUESTS", max(coverage_load.LOADS[name][2] // 10, 10)))
            wrap = ["env", f"ETCH_JUDGED={d}/judged"]
            _, answer = coverage_load.run_load(name, exe, n, wrap, d, hooked=False)
            text = (pathlib.Path(d) / "judged").read_text()
        if not text.endswith("end 0 0\n"):
            fail(f"judge: {name}: the program has not told")
        seen = {int(m[1], 16) + judging: int(m[2]) for m in re.finditer(r"^(-?[0-9a-f]+) (\d+) \d+$", text, re.M) if int(m[2])}
        seen = {a % 2**64: k for a, k in seen.items()}
        rows.append([name, answer.group(2), answer.group(3), len(seen), sum(seen.values()), len(live & seen.keys()), len(other & seen.keys()),
                     len(seen.keys() - live - other), " ".join(f"{a:x}" for a in sorted(live & seen.keys()))[:60]])
        print(f"judge: {name} done", flush=True)
    table(["program", "sites", "armed", "instructions that read", "reads", "of these, live sites", "sites that stay loads", "others", "live ones"], rows)
