#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""etch beside the kernel's objtool (linux-kbuild-6.1), object by object.

    scripts/parity/objtool.py [--etch build/etch] [--limit N] [ARCHIVE...]

Without ARCHIVE: libc.a, libstdc++.a, libz.a, libcrypto.a. Both tools read the same
objects; etch from code alone (--no-cfi), since objtool reads no CFI either. At
every address of every function (FDE or sized symbol) the two rules are
compared; where they differ, .eh_frame, read by pyelftools, is the judge.
Exit status 1 if objtool has a right row anywhere that etch has not.
"""

import argparse
import bisect
import io
import os
import sys
import tempfile
import time
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent
sys.path[:0] = [str(ROOT / "scripts"), str(ROOT / "tests" / "analysis")]
import pinned  # noqa: E402,F401
import explained  # noqa: E402
import objects  # noqa: E402
import rows  # noqa: E402
from elftools.elf.elffile import ELFFile  # noqa: E402

ARCHIVES = ["/usr/lib/x86_64-linux-gnu/libc.a", "/usr/lib/gcc/x86_64-linux-gnu/12/libstdc++.a",
            "/usr/lib/x86_64-linux-gnu/libz.a", "/usr/lib/x86_64-linux-gnu/libcrypto.a"]

# Byte for byte, what the pair means. "worse" must stay empty.
BETTER = ("better: objtool has no row", "better: CFI agrees with etch", "better: objtool has no table",
          "better: proved against CFI")
WORSE = ("worse: etch has no row", "worse: CFI agrees with objtool")
KEYS = ("equal", *BETTER, *WORSE, "differ, no CFI to judge", "differ, CFI says a third", "neither has a row",
        "padding")


def agree(truth, rule):
    return truth is not None and rows.classify(truth, rule) in rows.AGREE


def judge(ours, theirs, truth, table):
    if ours == theirs:
        return "neither has a row" if ours == rows.UNDEF else "equal"
    if theirs == rows.UNDEF:
        if truth is not None and not agree(truth, ours) and not rows.is_odd(truth):
            return "differ, CFI says a third"
        return "better: objtool has no row" if table else "better: objtool has no table"
    if ours == rows.UNDEF:
        # A row of objtool's that CFI calls wrong is not one that etch lacks.
        if truth is not None and not agree(truth, theirs):
            return "neither has a row"
        return "worse: etch has no row"
    # A slot below rsp, or one still alive after a reload: the same frame.
    if rows.classify(theirs, ours) in rows.AGREE or rows.classify(ours, theirs) in rows.AGREE:
        return "equal"
    if truth is None:
        return "differ, no CFI to judge"
    if agree(truth, ours):
        return "better: CFI agrees with etch"
    if agree(truth, theirs):
        return "worse: CFI agrees with objtool"
    return "differ, CFI says a third"


def cuts(start, end, *lists):
    """Every place in [start, end) where one of the row lists changes."""
    points = {start, end}
    for rows_ in lists:
        for r in rows_:
            for p in r[:2]:
                if start < p < end:
                    points.add(p)
    return sorted(points)


def at(rows_, addr):
    lo, hi = 0, len(rows_)
    while lo < hi:
        mid = (lo + hi) // 2
        if rows_[mid][0] <= addr:
            lo = mid + 1
        else:
            hi = mid
    return rows_[lo - 1][2] if lo and addr < rows_[lo - 1][1] else None


def look(job):
    etch, archive, name, data = job
    r = {"archive": archive, "name": name, "bytes": dict.fromkeys(KEYS, 0), "rows": dict.fromkeys(KEYS, 0),
         "places": {}, "refused": None, "objtool": None, "covered": 0, "undef": 0, "undef_theirs": 0}
    elf = ELFFile(io.BytesIO(data))
    sizes = objects.text_sections(elf)
    said, theirs = objects.objtool(data)
    r["objtool"] = "no table" if theirs is None else "warned" if said.strip() else "ok"
    with tempfile.NamedTemporaryFile(suffix=".o") as f:
        f.write(data)
        f.flush()
        try:
            ours = objects.etch_rows(etch, f.name, "--no-cfi")
        except rows.Inspect as why:
            r["refused"] = str(why).replace(f.name, name)
            ours = {}
    names = {i: s.name for i, s in enumerate(elf.iter_sections())}
    truth, fdes = objects.cfi_rows(elf)
    codes = {}

    def witness(index, a, b, o, c):
        """Where CFI and etch differ: what the instructions say (tests/analysis/prover.py)."""
        fde = fdes[index][bisect.bisect_right(fdes[index], (a, 1 << 62)) - 1]
        if index not in codes:
            with tempfile.NamedTemporaryFile(suffix=".o") as f:
                f.write(data)
                f.flush()
                codes[index] = explained.Code(f.name, "-j", names[index])
        return explained.third(codes[index], fde, at(cfi, fde[0]), a, b, c, o)

    ranges = objects.function_ranges(elf)
    for index in sizes:
        mine = ours.get(str(index)) or ours.get(names[index]) or []
        his = (theirs or {}).get(index, [])
        cfi = truth.get(index, [])
        spans = objects.merged([*ranges.get(index, []), *((s, e) for s, e, _, _ in cfi)])
        for start, end in spans:
            points = cuts(start, end, mine, his, cfi)
            for a, b in zip(points, points[1:]):
                o, t, c = at(mine, a) or rows.UNDEF, at(his, a) or rows.UNDEF, at(cfi, a)
                what = judge(o, t, c, theirs is not None)
                if c is not None and (what == "differ, CFI says a third" or what == WORSE[1]):
                    verdict = witness(index, a, b, o, c)
                    if verdict == "padding":
                        what = "padding"
                    elif verdict in ("both", "ours"):
                        what = "better: proved against CFI" if t != rows.UNDEF else BETTER[0 if theirs else 2]
                r["bytes"][what] += b - a
                r["rows"][what] += 1
                if c is not None:
                    r["covered"] += b - a
                    r["undef"] += (b - a) * (o == rows.UNDEF)
                    r["undef_theirs"] += (b - a) * (t == rows.UNDEF)
                if what != "equal":
                    r["places"].setdefault(what, []).append((names[index], a, b, o, t, c))
    return r


def jobs_of(etch, archives, limit):
    for archive in archives:
        n = 0
        for name, data in objects.members(archive):
            if data[:4] != b"\x7fELF" or not objects.text_sections(ELFFile(io.BytesIO(data))):
                continue
            if limit and n == limit:
                break
            n += 1
            yield str(etch), archive, name, data


def run(etch, archives, limit=0, jobs=2):
    with ProcessPoolExecutor(jobs) as pool:
        yield from pool.map(look, jobs_of(etch, archives, limit), chunksize=8)


def place_text(r, what, p):
    section, a, b, o, t, c = p
    return (f"{os.path.basename(r['archive'])}({r['name']}) {section}+{a:#x}-{b:#x}\n"
            f"        etch    {' '.join(o)}\n        objtool {' '.join(t)}\n"
            f"        CFI     {' '.join(c) if c else '-'}")


def main():
    p = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    p.add_argument("--etch", default=ROOT / "build" / "etch")
    p.add_argument("--limit", type=int, default=0, help="objects of each archive")
    p.add_argument("-v", action="store_true", help="every place where etch is worse or both differ")
    p.add_argument("-j", type=int, default=2)
    p.add_argument("archive", nargs="*")
    a = p.parse_args()
    begin = time.time()
    total = {}
    worse, examples, wrong = 0, {}, []
    for r in run(a.etch, a.archive or ARCHIVES, a.limit, a.j):
        for key in (os.path.basename(r["archive"]), "all"):
            t = total.setdefault(key, {"objects": 0, "refused": 0, "no table": 0, "warned": 0, "ok": 0, "covered": 0,
                                       "undef": 0, "undef_theirs": 0, "bytes": dict.fromkeys(KEYS, 0),
                                       "rows": dict.fromkeys(KEYS, 0)})
            t["objects"] += 1
            t["refused"] += r["refused"] is not None
            t[r["objtool"]] += 1
            for k in ("covered", "undef", "undef_theirs"):
                t[k] += r[k]
            for k in KEYS:
                t["bytes"][k] += r["bytes"][k]
                t["rows"][k] += r["rows"][k]
        if r["refused"]:
            wrong.append(f"refused: {r['archive']}({r['name']}): {r['refused']}")
        for what, places in r["places"].items():
            examples.setdefault(what, place_text(r, what, places[0]))
            if what in WORSE or what.startswith("differ"):
                wrong += [f"{what}: {place_text(r, what, x)}" for x in places]
    print(f"{'archive':<16} {'objects':>7} | {'etch refused':>12} {'undefined':>10} {'%':>7} | "
          f"{'objtool none':>12} {'warned':>6} {'undefined':>10} {'%':>7}")
    for key, t in total.items():
        c = t["covered"] or 1
        print(f"{key:<16} {t['objects']:>7} | {t['refused']:>12} {t['undef']:>10} {100 * t['undef'] / c:>7.3f} | "
              f"{t['no table']:>12} {t['warned']:>6} {t['undef_theirs']:>10} {100 * t['undef_theirs'] / c:>7.3f}")
    print("(undefined: bytes that an FDE of the object covers)\n")
    print(f"{'':<34} {'rows':>9} {'bytes':>10}")
    for k in KEYS:
        print(f"{k:<34} {total['all']['rows'][k]:>9} {total['all']['bytes'][k]:>10}")
    for what, text in examples.items():
        print(f"\n{what}, for example\n    {text}")
    if a.v:
        print("\n" + "\n".join(wrong))
    worse = sum(total["all"]["rows"][k] for k in WORSE) + total["all"]["refused"]
    print(f"\n{time.time() - begin:.0f} s; worse: {worse}")
    return 1 if worse else 0


if __name__ == "__main__":
    sys.exit(main())
