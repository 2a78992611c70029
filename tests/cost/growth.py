# SPDX-License-Identifier: MIT
"""How what a command takes grows with a file: instructions, counted by cachegrind, for files of files.py; for
tests/cost/test_growth.py and scripts/bench/run commands."""
import math
import os
import pathlib
import re
import shutil
import subprocess

import files

HERE = pathlib.Path(__file__).parent
ETCH = HERE.parents[1] / "build" / "etch"

# What stands for the file (FILE), its rewritten copy (DONE), one with .sframe (ROWS), another output (OUT), a copy of the
# file that is changed in place (COPY). One thread each.
COMMANDS = {
    "rewrite": ["rewrite", "-j", "1", "-o", "OUT", "FILE"],
    "rewrite --undo": ["rewrite", "--undo", "-j", "1", "-o", "OUT", "DONE"],
    "check": ["check", "-q", "-j", "1", "--fail-on", "never", "--level", "note", "FILE"],
    "check --format json": ["check", "-q", "-j", "1", "--format", "json", "--fail-on", "never", "FILE"],
    "check --format sarif": ["check", "-q", "-j", "1", "--format", "sarif", "--fail-on", "never", "FILE"],
    "inspect summary": ["inspect", "summary", "-j", "1", "FILE"],
    "inspect sites": ["inspect", "sites", "-j", "1", "FILE"],
    "inspect orc": ["inspect", "orc", "-j", "1", "FILE"],
    "inspect orc --at": ["inspect", "orc", "-j", "1", "--at", "f", "FILE"],
    "inspect code": ["inspect", "code", "-j", "1", "f", "FILE"],
    "inspect code ADDR": ["inspect", "code", "-j", "1", "ADDR", "FILE"],
    "inspect tables": ["inspect", "tables", "-j", "1", "DONE"],
    "inspect marks": ["inspect", "marks", "-j", "1", "FILE"],
    "inspect fields": ["inspect", "fields", "-j", "1", "DONE"],
    "inspect cfi": ["inspect", "cfi", "-j", "1", "FILE"],
    "inspect sframe": ["inspect", "sframe", "-j", "1", "ROWS"],
    "rewrite --sframe --fix-cfi": ["rewrite", "--sframe", "--fix-cfi", "-j", "1", "-o", "OUT", "FILE"],
    "rewrite --eh-frame=OUT": ["rewrite", "--eh-frame=OUT", "-j", "1", "FILE"],
    "objtool": ["objtool", "--orc", "--hacks=jump_label,noinstr", "--retpoline", "--rethunk", "--static-call", "--sls", "COPY"],
    "diff": ["diff", "-j", "1", "FILE", "DONE"],
    "diff, of other names": ["diff", "-j", "1", "FILE", "OTHER"],
}
LEAST = 1_000_000  # instructions that say nothing
MOST = 1.25  # the exponent: n log n, and what a cache or a hash of a small file hides


def named_anew(path, out):
    """The same file with other names for its functions."""
    syms = subprocess.run(["nm", path], capture_output=True, text=True).stdout.split("\n")
    names = sorted({x.split()[-1] for x in syms if " T " in x or " t " in x} - {""})
    (out.parent / "map").write_text("".join(f"{x} other_{x}\n" for x in names))
    subprocess.run(["objcopy", f"--redefine-syms={out.parent / 'map'}", path, out], check=True, stderr=subprocess.DEVNULL)


def first_code(path):
    """An address that holds code: hexadecimal."""
    out = subprocess.run(["readelf", "-SW", path], capture_output=True, text=True).stdout
    m = re.search(r"\.text\S* +PROGBITS +([0-9a-f]+) .* AX", out)
    return "0x" + m[1].lstrip("0").rjust(1, "0") if m else "0x0"


class Made:
    """A file and what is made of it, in a directory of its own."""

    def __init__(self, make, n, tmp, name):
        self.dir = tmp / f"{name}.{n}"
        self.dir.mkdir(parents=True, exist_ok=True)
        self.file = make(n, self.dir / name)

    def argv(self, command):
        names = {"FILE": self.file, "OUT": self.dir / "out", "DONE": self.dir / "done", "OTHER": self.dir / "other", "ADDR": None,
                 "ROWS": self.dir / "rows", "COPY": self.dir / "copy"}
        words = COMMANDS[command]
        if "DONE" in words and not names["DONE"].exists():
            subprocess.run([ETCH, "rewrite", "-o", names["DONE"], self.file], stderr=subprocess.DEVNULL)
        if "OTHER" in words and not names["OTHER"].exists():
            named_anew(self.file, names["OTHER"])
        if "ROWS" in words and not names["ROWS"].exists():
            p = subprocess.run([ETCH, "rewrite", "--sframe", "-o", names["ROWS"], self.file], stderr=subprocess.DEVNULL)
            names["ROWS"] = names["ROWS"] if p.returncode == 0 else self.file
        if "COPY" in words:
            shutil.copyfile(self.file, names["COPY"])
        if "ADDR" in words:
            names["ADDR"] = first_code(self.file)
        return [w.replace("OUT", str(names["OUT"])) if "=" in w else str(names.get(w) or w) for w in words]

    def counted(self, command):
        """(instructions, exit status, what it said)"""
        p = subprocess.run(["valgrind", "--tool=cachegrind", "--cache-sim=no", "--cachegrind-out-file=/dev/null", ETCH, *self.argv(command)],
                           stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, errors="replace",
                           env=dict(os.environ, ETCH_BOUNDS="none"))
        m = re.search(r"I +refs: +([\d,]+)", p.stderr)
        said = [line for line in p.stderr.splitlines() if not re.match(r"(==|--)\d+\1 ", line)]
        return int(m[1].replace(",", "")) if m else 0, p.returncode, "\n".join(said)


def start(tmp):
    """Instructions of each command for next to nothing."""
    made = Made(files.code(files.shapes.functions), 1, tmp, "start.o")
    return {c: made.counted(c)[0] for c in COMMANDS}


def exponent(a, b, times, floor):
    """Of the growth from a to b; what any process takes, and instructions that say nothing, left out."""
    a, b = max(a - floor, LEAST), max(b - floor, LEAST)
    return math.log(b / a) / math.log(times)
