# SPDX-License-Identifier: MIT
"""Lines of 64 bytes that one walk touches: part `lines` of scripts/bench/run."""
import bisect
import collections
import re
import shutil
import subprocess

from common import B, OUT, etch_needed, fail, parse, sh, table
from unwind_parts import CFLAGS, SRC, tree_build

LINE = 64


def symbols(program):
    """Functions of a program that is not position-independent, by address."""
    found = []
    for line in sh("nm", "-n", program).splitlines():
        m = re.match(r"([0-9a-f]+) [tTwWi] (.+)", line)
        if m:
            found.append((int(m[1], 16), m[2]))
    return sorted(found)


def references(program, *words):
    """The references between the marks, as (kind, address, size), and what the program has printed."""
    marks = {name: at for at, name in symbols(program) if name in ("lines_begin", "lines_end")}
    begin, end = f"I  {marks['lines_begin']:08x},", f"I  {marks['lines_end']:08x},"
    command = ["valgrind", "--tool=lackey", "--trace-mem=yes", "--log-fd=9", str(program), *words]
    with subprocess.Popen(["sh", "-c", 'exec "$@" 9>&1 1>&2', "sh", *command], stdout=subprocess.PIPE,
                          stderr=subprocess.PIPE, text=True) as p:
        found, last = [], []
        on = False
        for line in p.stdout:
            if line.startswith(begin):
                on, last = True, []
            elif line.startswith(end):
                on, found = False, last
            elif on and line[:2] in ("I ", " L", " S", " M"):
                at, size = line[3:].split(",")
                last.append((line[:2].strip(), int(at, 16), int(size)))
        said = p.stderr.read()
    if p.wait() or not found:
        fail(f"lines: valgrind ended with {p.returncode}:\n{said[-2000:]}")
    return found, said


def places(said):
    """Mapped ranges: (start, end, permissions, file)."""
    found = []
    for line in said.splitlines():
        m = re.match(r"([0-9a-f]+)-([0-9a-f]+) (\S+) \S+ \S+ \S+ *(.*)", line)
        if m:
            found.append((int(m[1], 16), int(m[2], 16), m[3], m[4]))
    return found


def part_of(at, kind, maps, program, is_stack):
    """The row of the table that an address belongs to."""
    name = next((f for lo, hi, _, f in maps if lo <= at < hi), "")
    own = name == str(program)
    if is_stack(at):
        return "stack"
    if kind == "I":
        return "code" if own else "code of others"
    if own:
        perms = next(p for lo, hi, p, _ in maps if lo <= at < hi)
        return "data of the walker" if "w" in perms else "tables and other constants"
    return "memory of others" if name.startswith("/") else "memory without a file"


def count(program, *words):
    refs, said = references(program, *words)
    maps, names = places(said), symbols(program)
    starts = [a for a, _ in names]
    # The marks are called on the stack: whatever lies within 1 MiB of their frame.
    stack = max(a for k, a, _ in refs if k != "I")
    near = lambda at: stack - (1 << 20) < at <= stack + (1 << 20)
    lines, functions = {}, collections.defaultdict(set)
    for kind, at, size in refs:
        for line in range(at // LINE, (at + size - 1) // LINE + 1):
            lines.setdefault(line, part_of(at, kind, maps, program, near))
            if kind == "I":
                i = bisect.bisect_right(starts, at) - 1
                inside = any(lo <= at < hi and f == str(program) for lo, hi, _, f in maps)
                functions[names[i][1] if inside else "of others"].add(line)
    return parse(said)[0], collections.Counter(lines.values()), functions, sum(k == "I" for k, _, _ in refs)


PARTS = ("code", "code of others", "stack", "tables and other constants", "data of the walker", "memory of others",
         "memory without a file")


def part_lines(args):
    etch_needed()
    print("### lines\n")
    if not shutil.which("valgrind"):
        print("valgrind is not installed.\n")
        return
    dir_ = OUT / "unwind" / "lines"
    dir_.mkdir(parents=True, exist_ok=True)
    program = dir_ / "lines"
    sh("gcc", *CFLAGS, "-no-pie", "-o", dir_ / "plain", SRC / "lines.c", *tree_build("spread", False), B / "libetch.a", "-pthread")
    sh(B / "etch", "rewrite", "--only", "orc", "--unwind-map=64", "-o", program, dir_ / "plain")
    out, code = [], []
    for words in (("none", "warm"), ("tables", "warm"), ("tables", "fresh")):
        info, found, functions, instructions = count(program, *words)
        out.append([", ".join(words), int(info["frames"]), sum(found.values()), *(found[p] for p in PARTS), instructions])
        code.append((words, sorted(functions.items(), key=lambda x: -len(x[1]))))
    print("Lines of 64 bytes touched by one walk from a signal handler (valgrind's lackey):\n")
    table(["walk", "frames", "lines", *PARTS, "instructions"], out)
    for words, functions in code:
        print(f"{', '.join(words)}: lines of code: " + ", ".join(f"{n} {len(s)}" for n, s in functions) + "\n")
