#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""How right are rows that are made from code alone, of a file of which nothing else says
where its functions are? A copy of each file is made that is stripped and has no .eh_frame,
and its rows are compared with the .eh_frame of the original. See docs/correctness.md.

    scripts/no_cfi.py [--etch build/etch] [-j N] [-v] [FILE...]

Without FILE: some 150 programs and libraries of this machine, by the rule of
tests/analysis/systemfiles.py, and those of NAMED. Exit status 1 if more than the share
--wrong of the bytes has a wrong row.
"""

import argparse
import bisect
import collections
import os
import shutil
import struct
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT / "scripts"), str(ROOT / "tests" / "analysis")]
import pinned  # noqa: E402,F401
import rows  # noqa: E402
import survey_rows  # noqa: E402
import systemfiles  # noqa: E402

LIB = systemfiles.LIBDIR
BIN = systemfiles.BINDIR
# By what they are written in, and how.
NAMED = {
    "C": [LIB / "libc.so.6", (BIN / "python3").resolve(), BIN / "sqlite3", BIN / "git", BIN / "perl", BIN / "gdb"],
    "C++": [LIB / "libstdc++.so.6", BIN / "cmake", LIB / "libicui18n.so.72", LIB / "libQt5Core.so.5", BIN / "bolt-16"],
    "Rust": [BIN / "cargo", LIB / "librsvg-2.so.2"],
    "assembly": [LIB / "libcrypto.so.3", LIB / "libx264.so.164", LIB / "libavcodec.so.59", LIB / "libgmp.so.10",
                 LIB / "libnettle.so.8", LIB / "libopenblas.so.0", LIB / "libgcrypt.so.20"],
    "OCaml": [BIN / "ocamlc.opt", BIN / "ocamllex.opt"],
    "Haskell": [Path("/usr/lib/ghc/bin/ghc-pkg"), Path("/usr/lib/ghc/bin/hsc2hs")],
    "Fortran, Ada, D": [LIB / "libgfortran.so.5", LIB / "libgnat-12.so", LIB / "libgphobos.so.3"],
}


def without_cfi(path, out):
    """The stripped file as if there had never been an .eh_frame: neither section nor header
    names one, and where it was are zeros."""
    subprocess.run(["strip", "-s", "-o", str(out), str(path)], check=True, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
    with open(out, "rb") as f:
        elf = rows.ELFFile(f)
        gone = [(elf["e_shoff"] + i * elf["e_shentsize"], s["sh_offset"], s["sh_size"])
                for i, s in enumerate(elf.iter_sections()) if s.name in (".eh_frame", ".eh_frame_hdr", ".gcc_except_table")]
        headers = [elf["e_phoff"] + i * elf["e_phentsize"] for i, s in enumerate(elf.iter_segments())
                   if s["p_type"] == "PT_GNU_EH_FRAME"]
    os.chmod(out, 0o644)
    with open(out, "r+b") as f:
        for header, at, size in gone:
            f.seek(header + 4)
            f.write(struct.pack("<I", 0))   # SHT_NULL
            f.seek(at)
            f.write(bytes(size))
        for header in headers:
            f.seek(header)
            f.write(struct.pack("<I", 0))   # PT_NULL


class Found:
    """One file, in bytes of what its FDEs cover."""

    def __init__(self, path):
        self.path, self.error = str(path), None
        self.covered = self.right = self.missing = self.wrong = self.odd = 0
        self.text = self.has_row = 0   # all code of the file
        self.why = collections.Counter()   # right in other words: reason -> bytes
        self.places = []   # (start, end, truth, ours, class, where), of what is wrong
        self.gaps = []     # (start, end), of what is missing
        self.seconds = 0.0


def judge(r, path, place, fde, truth, mine, symbols, text):
    """A place where the rules differ: right or wrong?"""
    what, start, end, t, o = place
    reason = "the same CFA and return address; rbp is not known" if (o[0], o[1], o[2:]) == (t[0], "undef", t[2:]) else None
    reason = reason or survey_rows._reason(path, fde, truth, mine, symbols, place, text)
    if reason:
        r.right += end - start
        r.why[reason] += end - start
    else:
        r.wrong += end - start
        r.places.append((start, end, t, o, what, symbols.at(start)))


def compare(r, ours, path, frame, base, text):
    symbols = None
    for start, end, truth in survey_rows.apart(frame, base):
        if not truth:
            continue
        n = truth[-1][1] - truth[0][0]
        r.covered += n
        i = bisect.bisect_right(ours.start, truth[0][0]) - 1
        if i >= 0 and survey_rows.is_same(truth, ours, i):
            r.right += n
            continue
        mine = ours.between(truth[0][0], truth[-1][1])
        c = rows.compare([(s, e, t, "cfi") for s, e, t in truth], mine)
        r.right += c.agree
        for what, list_ in c.where.items():
            if what in rows.AGREE:
                continue
            symbols = symbols or systemfiles.Symbols(path)
            for s, e, t, o, _ in list_:
                if rows.is_odd(t) or t[3] == "end":
                    r.odd += e - s
                elif what == "undef":
                    r.missing += e - s
                    r.gaps.append((s, e))
                else:
                    judge(r, path, (what, s, e, t, o), (start, end), truth, mine, symbols, text)


def look(job):
    etch, path, scratch = job
    r, begin = Found(path), time.time()
    with tempfile.NamedTemporaryFile(dir=scratch, prefix=os.path.basename(str(path)) + ".") as copy:
        try:
            without_cfi(path, copy.name)
            r.text, _, frame, base = sections(path)
            ours = survey_rows.Ours.of(etch, copy.name)
            r.has_row = sum(n for source, n in ours.bytes.items() if source != "undefined")
            compare(r, ours, str(path), frame, base, r.text)
        except (survey_rows.Unreadable, subprocess.CalledProcessError, rows.Odd) as why:
            r.error = str(why)
    r.seconds = time.time() - begin
    return r


def sections(path):
    """Bytes of code, and .eh_frame with its address."""
    with open(path, "rb") as f:
        elf = rows.ELFFile(f)
        text = sum(s["sh_size"] for s in elf.iter_sections() if s["sh_flags"] & 4 and s["sh_type"] != "SHT_NOBITS")
        frame = elf.get_section_by_name(".eh_frame")
        return text, None, frame.data(), frame["sh_addr"]


def percent(part, whole):
    return f"{100 * part / whole:.4f}%" if whole else "-"


def line(name, list_):
    covered = sum(r.covered for r in list_)
    return (f"| {name} | {len(list_)} | {covered:,} | " +
            " | ".join(percent(sum(getattr(r, k) for r in list_), covered) for k in ("right", "missing", "wrong", "odd")) + " |")


HEAD = "| | files | bytes in FDEs | right | no row | wrong | not to say |\n|---|---|---|---|---|---|---|"


def merged(gaps):
    """Neighbours as one; the longest first."""
    out = []
    for s, e in sorted(gaps):
        if out and s - out[-1][1] < 16:
            out[-1] = (out[-1][0], e)
        else:
            out.append((s, e))
    return sorted(out, key=lambda g: g[0] - g[1])


def show(r, verbose):
    name = os.path.basename(r.path)
    if r.error:
        print(f"{name:<32} {r.error}")
        return
    print(f"{name:<32} {r.covered:>10} right {percent(r.right, r.covered):>9} none {percent(r.missing, r.covered):>9} "
          f"wrong {r.wrong:>8} ({percent(r.wrong, r.covered)}) odd {r.odd:>7}  {r.seconds:.1f} s", flush=True)
    if not verbose:
        return
    symbols = systemfiles.Symbols(r.path)
    for start, end, t, o, what, where in r.places[:verbose]:
        print(f"    {what:<18} {start:x}-{end:x} {where}: CFI {' '.join(t)} | ours {' '.join(o)}")
    for start, end in merged(r.gaps)[:verbose]:
        print(f"    none               {start:x}-{end:x} {symbols.at(start)}: {end - start} bytes")


def main():
    p = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    p.add_argument("--etch", default=ROOT / "build" / "etch")
    p.add_argument("-j", type=int, default=2)
    p.add_argument("-v", type=int, default=0, metavar="N", help="N places of each file that are wrong or have no row")
    p.add_argument("--count", type=int, default=120, help="files by the rule, besides the named ones")
    p.add_argument("--wrong", type=float, default=0.0001, help="share of wrong rows that is let through")
    p.add_argument("file", nargs="*")
    a = p.parse_args()
    named = {str(f.resolve()): kind for kind, list_ in NAMED.items() for f in list_ if f.exists()}
    files = [str(f) for f in a.file] or list(dict.fromkeys([*named, *(str(f.resolve()) for f in systemfiles.picked(a.count))]))
    scratch = tempfile.mkdtemp(prefix="no-cfi.")
    results = []
    try:
        with ProcessPoolExecutor(a.j) as pool:
            for r in pool.map(look, [(a.etch, f, scratch) for f in files]):
                show(r, a.v)
                results.append(r)
    finally:
        shutil.rmtree(scratch, ignore_errors=True)
    good = [r for r in results if not r.error]
    print("\n" + HEAD)
    for kind in [*NAMED, None]:
        some = [r for r in good if named.get(r.path) == kind]
        if some:
            print(line(kind or "by the rule", some))
    print(line("all", good))
    why = sum((r.why for r in good), collections.Counter())
    print("\n| of what is right, in other words than .eh_frame | bytes |\n|---|---|")
    for reason, n in why.most_common():
        print(f"| {reason} | {n:,} |")
    wrong, covered = sum(r.wrong for r in good), sum(r.covered for r in good)
    return 1 if wrong > a.wrong * covered or len(good) < len(results) else 0


if __name__ == "__main__":
    sys.exit(main())
