# SPDX-License-Identifier: MIT
"""Takes checks out of the code, one by one: which fuzz target notices, with the inputs that are kept?

Each part of a condition of FILE (of an `if`, a `while` or a `return`) is replaced by what makes it do
nothing: 0 in a row of ||, 1 in a row of &&. The targets (default: all) then replay tests/data/fuzz, the files
that fuzzing begins with and what a run of it has kept (--corpus: build-fuzz/corpus), under ASan and UBSan of gcc. Prints a line for each part: what noticed, or
SURVIVES. That one does is no error: the part may be there for another reason, or be implied by others;
but each wants to be looked at. The tree is copied to DIR, where an earlier run's build is used again.
"""
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

from .common import DATA, ROOT

SECONDS = 120  # a target that takes longer hangs, which is noticed too


def closing(text, at):
    """Index of the parenthesis that closes the one at `at`."""
    depth = 0
    for i in range(at, len(text)):
        depth += (text[i] == "(") - (text[i] == ")")
        if not depth:
            return i
    raise ValueError(text[at:at + 60])


def split(text, start, end):
    """(operator, [(start, end)]) of the operands at the top level; ("", ...) of one alone."""
    depth, cuts = 0, {"||": [], "&&": []}
    for i in range(start, end):
        depth += (text[i] in "([{") - (text[i] in ")]}")
        if not depth and text[i:i + 2] in cuts:
            cuts[text[i:i + 2]].append(i)
    for op in ("||", "&&"):
        if cuts[op]:
            marks = [start - 2, *cuts[op], end]
            return op, [(a + 2, b) for a, b in zip(marks, marks[1:])]
    return "", [(start, end)]


def parts(text, start, end, outer=""):
    """(start, end, what it becomes) of each operand, and of those in parentheses inside."""
    op, operands = split(text, start, end)
    for a, b in operands:
        while text[a].isspace():
            a += 1
        while text[b - 1].isspace():
            b -= 1
        if op or outer == "if":
            yield a, b, "1" if op == "&&" else "0"
        if op and text[a] == "(" and closing(text, a) == b - 1:
            inner, _ = split(text, a + 1, b - 1)
            if inner:
                yield from parts(text, a + 1, b - 1)


def conditions(text):
    for m in re.finditer(r"\b(if|while) (\()|\breturn ([^;]*(?:&&|\|\|)[^;]*);", text):
        if m[1]:
            yield from parts(text, m.start(2) + 1, closing(text, m.start(2)), m[1])
        elif "?" not in m[3]:
            yield from parts(text, m.start(3), m.end(3))


def function_at(text, at):
    """Its name, by the last line before that begins one."""
    names = re.findall(r"^[a-z][^;={]*?\b(\w+)\([^;]*?\)\n\{", text[:at], re.M)
    return names[-1] if names else "?"


def copy(directory):
    files = subprocess.run(["git", "ls-files", "-z", "Makefile", "tool", "lib", "tests/fuzz"], cwd=ROOT, check=True, capture_output=True)
    for name in files.stdout.decode().split("\0")[:-1]:
        to = directory / name
        if not to.exists() or to.read_bytes() != (ROOT / name).read_bytes():
            to.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, to)
            os.utime(to)


def make(directory):
    flags = next(l.split(":=", 1)[1].strip() for l in (ROOT / "Makefile").read_text().splitlines() if l.startswith("SANITIZE"))
    return subprocess.run(["make", "-s", "-C", directory, "B=b", "WARN=", f"CFLAGS={flags} -w", "b/replay"], capture_output=True, text=True)


def noticed(directory, inputs):
    """The first target that does not come to its end, or None."""
    env = dict(os.environ, ETCH_BOUNDS="none", ASAN_OPTIONS="allocator_may_return_null=1", UBSAN_OPTIONS="halt_on_error=1")
    for target, files in inputs.items():
        try:
            p = subprocess.run([directory / "b" / "replay", target, *files], env=env, capture_output=True, timeout=SECONDS)
        except subprocess.TimeoutExpired:
            return f"{target}: hangs"
        if p.returncode:
            said = [l for l in p.stderr.decode(errors="replace").splitlines() if "violated" in l or "ERROR" in l or "runtime error" in l]
            return f"{target}: {(said or [p.returncode])[0]}"
    return None


def arguments(parser):
    parser.add_argument("--targets")
    parser.add_argument("--only", default="")
    parser.add_argument("--corpus", type=Path)
    parser.add_argument("--list", action="store_true")
    parser.add_argument("directory", type=Path)
    parser.add_argument("files", nargs="+")


def run(options):
    options.directory = options.directory.resolve()
    copy(options.directory)
    names = options.targets.split(",") if options.targets else re.findall(r'^\t\{"(\w+)"', (ROOT / "tests/fuzz/targets.c").read_text(), re.M)
    only = {n for n in options.only.split(",") if n}
    seeds = options.directory / "seeds"
    if not options.list:
        p = make(options.directory)
        if p.returncode:
            sys.exit(p.stderr)
        if not seeds.exists():
            subprocess.run([sys.executable, ROOT / "tests/fuzz/seeds.py", os.environ.get("ETCH_BUILD", ROOT / "build"), seeds], check=True)
        kept = [DATA / "fuzz", seeds, *([options.corpus.resolve()] if options.corpus else [])]
        inputs = {t: [p for d in kept for p in sorted((d / t).glob("*"))] for t in names}
        what = noticed(options.directory, inputs)
        if what:
            sys.exit(f"as it is: {what}")
    count = survive = 0
    for name in options.files:
        path = options.directory / name
        text = path.read_text()
        for a, b, new in conditions(text):
            where = function_at(text, a)
            if only and where not in only:
                continue
            line = f"{name}:{text.count(chr(10), 0, a) + 1} {where}: {' '.join(text[a:b].split())} -> {new}"
            count += 1
            if options.list:
                print(line)
                continue
            path.write_text(text[:a] + new + text[b:])
            try:
                p = make(options.directory)
                what = "does not compile" if p.returncode else noticed(options.directory, inputs)
            finally:
                path.write_text(text)
            survive += what is None
            print(f"{'SURVIVES' if what is None else 'noticed '} {line}{f' ({what})' if what else ''}", flush=True)
    print(f"{count} parts" + ("" if options.list else f", {survive} survive"))
    return 0
