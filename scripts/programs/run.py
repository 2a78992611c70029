#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Runs programs rewritten and not, and compares what they put out. See docs/survey.md.

    scripts/programs/run.py [--root DIR] [--etch FILE] [--install] [--list] [NAME...]

Each program of list.py is run as it is; then the files that it loads are rewritten into
DIR (build/programs), and it is run again with those. Where the outputs differ it is run
a third time as it is, to see whether it ever gives one output twice. A process of it that crashes though it does not as
it is (the kernel tells root so) is a difference, too. Outputs that differ are kept in DIR/differs.
A program that is not installed is left out with a word; --install installs all of their
packages by apt, npm and pip first. --list only lists them.
Exit status 1 if an output differs, or a file of a program is refused.
"""

import os
import subprocess
import sys
from collections import Counter

import command
from list import packages as foreign
from root import Root


class Result:
    """One program: what there is to say about it."""

    def __init__(self, program):
        self.program = program
        self.loaded = self.rewritten = 0
        self.seconds = []
        self.word = ""
        self.why = []

    @property
    def ok(self):
        return self.word in ("same", "same except for what is known", "absent")

    def line(self):
        files = f"{self.rewritten}/{self.loaded}" if self.loaded else ""
        times = "".join(f"{s:9.2f}" for s in self.seconds)
        return f"{self.program.name:16}{files:>9}{times or 18 * ' ':18}  {self.word}"


def differences(before, after):
    """The first lines that are not the same."""
    pairs = zip(before.split(b"\n"), after.split(b"\n"))
    lines = [(a, b) for a, b in pairs if a != b][:3]
    return [f"{name} {line[:160].decode(errors='replace')}" for pair in lines for name, line in zip("-+", pair)]


def crashes(before, after):
    """Lines about processes that have crashed in the second run and not in the first."""
    more = (after.crashes or Counter()) - (before.crashes or Counter())
    return [f"{command} ended by {name}, {n} times more" for (command, name), n in sorted(more.items())]


def keep(root, program, **outputs):
    where = root.path / "differs"
    where.mkdir(exist_ok=True)
    for how, output in outputs.items():
        (where / f"{program.name}.{how}").write_bytes(output.text)


def look(program, root):
    """One program, from the start."""
    result = Result(program)
    if missing := program.missing():
        result.word, result.why = "absent", [f"{missing}: not installed (package {program.package or program.fetched})"]
        return result
    before = program.run()
    if before.status != program.ok:
        result.word = f"exit {before.status} as it is"
        result.why = before.text.decode(errors="replace").splitlines()[-8:]
        return result
    result.loaded, result.rewritten = program.prepare(root)
    after = program.run(root)
    result.seconds = [before.seconds, after.seconds]
    result.word = {"same": "same", "known": "same except for what is known", None: ""}[program.same(before, after)]
    result.why = crashes(before, after)
    if not result.word or result.why:
        keep(root, program, plain=before, rewritten=after)
        again = program.run()
        result.why = crashes(again, after) + differences(before.text, after.text)
        if not result.word:
            result.word = "DIFFERS" if again.text == before.text else "not the same twice"
        elif result.why:
            result.word = "CRASHES"
    refused = [f"{p}: {root.refused[p]}" for p in program.files(root) if p in root.refused]
    if refused:
        result.word += ", files refused"
        result.why += refused
    return result


def install(programs):
    if names := sorted({p.fetched for p in programs if p.fetched and p.missing()}):
        for name, why in foreign.fetch(names).items():
            print(f"run: not fetched: {name}: {why}")
    packages = sorted({p for program in programs if program.missing() for p in program.package.split()})
    if packages:
        env = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
        subprocess.run(["apt-get", "-q", "-y", "--no-install-recommends", "install", *packages], check=True, env=env)


def options():
    parser = command.parser(__doc__)
    parser.add_argument("--etch", default=command.BUILD / "etch", metavar="FILE")
    parser.add_argument("--install", action="store_true")
    parser.add_argument("--list", action="store_true")
    return parser.parse_args()


def main():
    args = options()
    programs = command.programs(args.names)
    if args.list:
        for p in programs:
            print(f"{p.name:16}{p.package or p.fetched}{'' if p.missing() is None else '  (not installed)'}")
        return 0
    if args.install:
        install(programs)
    root = Root(args.root, args.etch)
    print(f"{'program':16}{'files':>9}{'plain':>9}{'etch':>9}  output", flush=True)
    results = []
    for program in programs:
        results.append(look(program, root))
        print(results[-1].line(), flush=True)
        for why in results[-1].why:
            print(f"    {why}", flush=True)
    absent = sum(r.word == "absent" for r in results)
    same = sum(r.ok for r in results) - absent
    print(f"{same} of {len(results) - absent} the same; {absent} not installed")
    return 0 if all(r.ok for r in results) else 1


if __name__ == "__main__":
    sys.exit(main())
