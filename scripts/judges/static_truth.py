#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Every row that etch makes, beside .eh_frame as pyelftools reads it, at every
address of every FDE. See docs/correctness.md.

    scripts/judges/static_truth.py [--etch build/etch] [FILE...]

Without FILE: libc, libstdc++, libcrypto, python3.11, and 20 more by the rule in
tests/analysis/systemfiles.py. Two tables: with CFI allowed, and from code alone.
Exit status 1 if a row differs that is not explained, or too much is undefined.
"""

import argparse
import bisect
import os
import sys
import time
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "scripts"), str(ROOT / "tests" / "analysis")]
import pinned  # noqa: E402,F401
import rows  # noqa: E402
import systemfiles  # noqa: E402
from explained import explain, is_dead  # noqa: E402

MODES = {"cfi": [], "code": ["--no-cfi"]}


class Result:
    """One file in one mode."""

    def __init__(self, path, mode):
        self.path, self.mode = str(path), mode
        self.error = None
        self.compared = None
        self.odd = 0            # bytes whose CFI no rule can say, and that we leave undefined
        self.dead = 0           # bytes left undefined after a call that never returns: code alone
        self.differ = []        # (start, end, truth, ours, source, class, function)
        self.explained = {}     # reason -> bytes
        self.undefined = []     # (bytes, function), largest first
        self.rows = 0
        self.seconds = 0.0

    @property
    def ok(self):
        c = self.compared
        if self.error or self.differ:
            return False
        left = c.undefined - self.odd
        return left == 0 if self.mode == "cfi" else left <= 0.005 * c.covered


def look(job):
    etch, path, mode = job
    r = Result(path, mode)
    begin = time.time()
    try:
        ours = rows.inspect_rows(etch, path, *MODES[mode])
    except (rows.Inspect, ValueError) as why:
        r.error = str(why)
        return r
    r.seconds = time.time() - begin
    truth, fdes = rows.cfi_rows(path)
    starts, begins = [f[0] for f in fdes], [t[0] for t in truth]
    c = r.compared = rows.compare(truth, ours)
    r.rows = len(ours)
    symbols = None
    for what, places in c.where.items():
        if what in rows.AGREE:
            continue
        symbols = symbols or systemfiles.Symbols(path)
        if what == "undef":
            by = {}
            for start, end, t, _, _ in places:
                if rows.is_odd(t):
                    r.odd += end - start
                    continue
                if mode == "code" and end - start <= 64 and is_dead(path, start):
                    r.dead += end - start
                    continue
                name = symbols.at(start)
                by[name.split("+")[0]] = by.get(name.split("+")[0], 0) + end - start
            r.undefined = sorted(((n, f) for f, n in by.items()), reverse=True)
            continue
        for start, end, t, o, source in places:
            where = symbols.at(start)
            fde = fdes[bisect.bisect_right(starts, start) - 1]
            first = truth[bisect.bisect_right(begins, fde[0]) - 1][2]
            reason = explain(path, where, start, end, t, o, what, fde, first)
            if reason:
                r.explained[reason] = r.explained.get(reason, 0) + end - start
            else:
                r.differ.append((start, end, t, o, source, what, where))
    c.where = {}
    return r


def text(rule):
    return " ".join(rule)


def show(r, verbose, out=sys.stdout):
    name = os.path.basename(r.path)
    if r.error:
        print(f"{name:<28} {r.error}", file=out)
        return
    c = r.compared
    total = c.covered or 1
    src = " ".join(f"{k}:{100 * v / total:.1f}" for k, v in sorted(c.sources.items()) if v)
    popped = c.bytes.get("bp-popped", 0)
    print(f"{name:<28} {c.covered:>9} {r.rows:>7} {100 * c.agree / total:>9.4f} {100 * popped / total:>7.3f} "
          f"{100 * (c.undefined - r.odd) / total:>8.4f} {r.odd:>6} {sum(r.explained.values()):>6} "
          f"{sum(d[1] - d[0] for d in r.differ):>7} {len(r.differ):>6}  {src}", file=out)
    for start, end, t, o, source, what, where in r.differ[:None if verbose else 4]:
        print(f"    {what:<18} {start:x}-{end:x} {where}: CFI {text(t)} | ours {text(o)} ({source})", file=out)
    if verbose and r.dead:
        print(f"    never reached      {r.dead} bytes of the undefined, behind calls that do not return", file=out)
    if verbose:
        for n, f in r.undefined[:12]:
            print(f"    undefined          {n} bytes in {f}", file=out)
        for why, n in r.explained.items():
            print(f"    explained          {n} bytes: {why}", file=out)


HEAD = (f"{'file':<28} {'covered':>9} {'rows':>7} {'agree %':>9} {'popped%':>7} {'undef %':>8} {'odd B':>6} "
        f"{'expl B':>6} {'differB':>7} {'places':>6}  source of ours, %")


def run(etch, files, modes=("cfi", "code"), jobs=2):
    work = [(str(etch), str(f), m) for m in modes for f in files]
    with ProcessPoolExecutor(jobs) as pool:
        return list(pool.map(look, work))


def main():
    p = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    p.add_argument("--etch", default=ROOT / "build" / "etch")
    p.add_argument("--mode", choices=list(MODES), action="append")
    p.add_argument("-j", type=int, default=2)
    p.add_argument("-v", action="store_true", help="every difference, and what is undefined")
    p.add_argument("file", nargs="*")
    a = p.parse_args()
    files = a.file or [*systemfiles.NAMED, *systemfiles.picked()]
    bad = 0
    for mode in a.mode or list(MODES):
        print(f"\n{'with CFI' if mode == 'cfi' else 'from code alone (--no-cfi)'}\n{HEAD}")
        covered = agree = undefined = differ = 0
        for r in run(a.etch, files, [mode], a.j):
            show(r, a.v)
            bad += not r.ok
            if r.compared:
                covered += r.compared.covered
                agree += r.compared.agree
                undefined += r.compared.undefined - r.odd
                differ += sum(d[1] - d[0] for d in r.differ)
        total = covered or 1
        print(f"{'all':<28} {covered:>9} {'':>7} {100 * agree / total:>9.4f} {'':>7} {100 * undefined / total:>8.4f} "
              f"{'':>6} {'':>6} {differ:>7}")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
