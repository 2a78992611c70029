#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""One pass of `etch objtool` beside the kernel's objtool: what both print and which sections they make.

    [ETCH_KERNEL_RELEASE=6.12] scripts/parity/passes.py OPTIONS [--etch build/etch] [--examples N] [FILE.o...]

OPTIONS in one word: "--stackval --backtrace". Without files, the kept objects of scripts/kernel_objects.py. All lines are compared,
each as often as it is printed; a function that has several names counts by its address. Of the lines of --backtrace the
instructions are not compared, which are the text of different disassemblers. Exit status 1 where any differs.
"""

import argparse
import collections
import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import kernel as parity

ROOT = parity.ROOT
SECTIONS = (".ibt_endbr_seal", ".call_sites", ".cfi_sites")
STEP = re.compile(r"  \S+:( \((?:alt|branch|branch-cond|call)\)| <=== \((?:sym|hint)\)|)(?= |$)")  # of a backtrace
PLACE = re.compile(r"([^ :+]+)\+(0x[0-9a-f]+)")


def places(o):
    """Names of functions that are the only ones of their name, with where they are."""
    at = collections.defaultdict(set)
    for name, info, section, value, _ in o.symbols:
        if section and info & 15 == 2:
            at[name].add((section, value))
    return {name: min(found) for name, found in at.items() if len(found) == 1}


def placed(o, known, text):
    """A line with the addresses of its functions instead of their names."""
    def place(m):
        section, value = known.get(m[1], (0, 0))
        return f"{o.names[section]}+{value + int(m[2], 16):#x}" if section else m[0]
    return PLACE.sub(place, text)


def run(argv, path, release):
    """(lines, sites) of one tool on a copy."""
    with tempfile.TemporaryDirectory() as d:
        copy = Path(d, "copy.o")
        shutil.copy(path, copy)
        p = subprocess.run([*map(str, argv), str(copy)], capture_output=True, text=True, errors="replace", check=False,
                           env=dict(os.environ, KERNELVERSION=release))
        lines = [x.split("objtool: ", 1)[-1] for x in p.stderr.splitlines() if "forcing --link" not in x and "libopcodes" not in x]
        lines = [m[0] if (m := STEP.match(x)) else x for x in lines]
        lines += [f"status {p.returncode}"] if p.returncode else []
        o = parity.Object(copy)
        return lines, {s: o.sites(s) for s in SECTIONS}


def compare(path, name, argvs, opt, out):
    found = [run(argv, path, parity.kernel_objects.RELEASE) for argv in argvs]
    out["in the same order"] += found[0][0] == found[1][0]
    mine, theirs = (collections.Counter(lines) for lines, _ in found)
    if mine != theirs:
        o = parity.Object(path)
        known = places(o)
        mine, theirs = ({placed(o, known, k): n for k, n in x.items()} for x in (mine, theirs))
    out["lines of objtool's"] += sum(theirs.values())
    for s in SECTIONS:
        out[f"entries of objtool's {s}"] += len(found[1][1][s])
    other = [s for s in SECTIONS if found[0][1][s] != found[1][1][s]]
    same = mine == theirs and not other
    out["objects"] += 1
    out["the same"] += same
    if same or out["the same"] + opt.examples < out["objects"]:
        return same
    print(name, *other)
    for who, a, b in (("etch", mine, theirs), ("objtool", theirs, mine)):
        for k in [k for k in a if a[k] != b.get(k)][:5]:
            print(f"    {who}: {k}")
    return False


def main():
    p = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    p.add_argument("options")
    p.add_argument("files", nargs="*", type=Path)
    p.add_argument("--etch", default=ROOT / "build" / "etch")
    p.add_argument("--examples", type=int, default=20)
    opt = p.parse_intermixed_args([f" {sys.argv[1]}", *sys.argv[2:]] if sys.argv[1:] else None)  # a word with dashes
    kept, objtool = parity.kernel_objects.objects()
    out = collections.Counter()
    for path in opt.files or sorted(kept.rglob("*.o")):
        args = Path(f"{path}.args")
        more = ["--module"] if args.exists() and "--module" in args.read_text() else []
        name = path.relative_to(kept) if path.is_relative_to(kept) else path
        compare(path, name, [[*tool, *opt.options.split(), *more] for tool in ((opt.etch, "objtool"), (objtool,))], opt, out)
    for key, n in out.items():
        print(f"{key:40} {n}")
    return 0 if out["objects"] == out["the same"] else 1


if __name__ == "__main__":
    sys.exit(main())
