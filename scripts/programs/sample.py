#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Samples the stacks of rewritten programs while they run. See docs/unwinding.md.

    scripts/programs/sample.py [--root DIR] [--build DIR] [--compare N] [--places N] [NAME...]

Each program of list.py is run with the files that etch made of those that it loads, and
tests/data/sampler/sampler.c preloaded: a thousand times a second of CPU time libetch walks the
stack from wherever the process is. The table says how many walks were complete, which is:
ended where a row says that the stack ends (_start, a thread's first function), and of those
that were not, where they stopped. `in JIT` are those that stopped at a frame of code that no
loader has mapped; `share` leaves them out. Of one in N (16; 0: none) libunwind walks the same stack:
`other` are those where it found another frame than libetch; of those that stop it walks all. --places
prints so many places (5) where walks stop, each with the last frames of an example.

`output` is `same` where the program puts out what it does without the sampler, and no process of
it crashes that does not crash then. Where it is another, the program is run unrewritten with
the library that only loads, and with its signals and no walks: `loaded` and `signals` say that
this gives the same. All else (`DIFFERS`, `exit N`, `CRASHES`, `not the same twice`) is etch's until shown otherwise: the
exit status is 1, and the outputs are kept in DIR/differs. `libunwind`: with etch's walks alone it is the same, and the
samples are of that run.
"""

import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import command
import run
from root import Root

SOURCE = Path(__file__).resolve().parent.parent.parent
sys.path.insert(0, str(SOURCE / "tests" / "scripts"))
import samples  # noqa: E402

HEAD = ["program", "processes", "samples", "frames", "complete", "in JIT", "stopped", "share", "compared", "other", "output"]

# Runs that tell what does it: unrewritten, with a part of what the sampler does.
CONTROLS = {"loaded": "nothing", "signals": "signals"}


def build_sampler(build, root):
    """The library to preload, with a table of its own."""
    plain = root.path / "sampler-plain.so"
    samples.compile_to(build, plain)
    library = root.path / "sampler.so"
    subprocess.run([build / "etch", "rewrite", "-o", library, plain], check=True)
    return library


class Sampler:
    """The library, and what programs are run with it."""

    def __init__(self, root, library, compare):
        self.root, self.library, self.compare = root, library, compare

    def run(self, program, root, only=None, compare=None):
        """(sum of all processes, the run)"""
        with tempfile.TemporaryDirectory(prefix="etch-samples-") as directory:
            env = samples.environment(directory, self.library, compare=self.compare if compare is None else compare, only=only)
            env["ETCH"] = str(self.root.etch)   # for what a program makes and runs
            out = program.run(root, env)
            return samples.Sum(samples.read(directory)), out

    def control(self, program, after):
        """The control that gives what a sampled run has given, or None."""
        for name, only in CONTROLS.items():
            control = self.run(program, None, only)[1]
            if program.same(control, after) and not run.crashes(control, after):
                return name
        return None

    def look(self, program):
        """(sum of all processes, what to say of the output, more about it)"""
        program.prepare(self.root)
        before = program.run(self.root)
        s, after = self.run(program, self.root)
        crashes = run.crashes(before, after)
        if after.text == before.text and not crashes:
            return s, "same", []
        run.keep(self.root, program, unsampled=before, sampled=after)
        why = crashes + run.differences(before.text, after.text)
        if name := self.control(program, after):
            return s, name, why
        if self.compare:
            alone, after_alone = self.run(program, self.root, compare=0)
            if after_alone.text == before.text and not run.crashes(before, after_alone):
                return alone, "libunwind", why
        if crashes:
            return s, "CRASHES", why
        if after.status != before.status:
            return s, f"exit {after.status}", why
        again = program.run(self.root)
        return s, "DIFFERS" if again.text == before.text else "not the same twice", why


def row(name, s, output):
    return [name, s.processes, s.samples, f"{s.frames / max(s.samples, 1):.1f}", s.complete, s.jit, s.incomplete,
            f"{100 * s.share:.3f}%", s.compared, s.different, output]


def print_row(cells):
    widths = [18, 9, 9, 7, 9, 8, 8, 9, 9, 6, 8]
    print("| " + " | ".join(f"{c:,}".rjust(w) if isinstance(c, int) else str(c).rjust(w) if i else str(c).ljust(w)
                           for i, (c, w) in enumerate(zip(cells, widths))) + " |", flush=True)


def print_example(names, p):
    for line in names.lines(p)[max(0, p.at - p.first - 2):p.at - p.first + 4]:
        print(f"        {line}")


def print_places(s, names, most):
    stopped = s.listed(lambda kind, where, *_: kind < 0 and where not in samples.JIT)
    for count, p in stopped[:most]:
        frame = names.at(p.module, p.offset, p.at > 0)
        print(f"    {count} stopped: {samples.STATUS[p.kind]}, in {p.where}: {frame}")
        print_example(names, p)
    for count, p in s.listed(lambda kind, *_: kind in (102, 103, 104))[:most]:
        if p.kind == 102 and stopped:
            continue    # of a walk that stopped
        print(f"    {count} {samples.DIFFER[p.kind]}: {p.frames} frames, libunwind {p.their_frames}")
        print_example(names, p)
    if s.deeper:
        print(f"    {s.deeper} of the stopped are of stacks deeper than the {s.deepest:,} frames that the sampler has space for")
    if s.lost or s.full:
        print(f"    {s.lost} samples without an array for their frames, {s.full} without a place to be counted at")
    if without := [n for n in s.without_table if "vdso" not in n and n]:
        print(f"    no table of its own: {' '.join(without)}")


def print_totals(sums):
    print_row(row("all", samples.total(sums), ""))


def options():
    parser = command.parser(__doc__)
    parser.add_argument("--build", default=command.BUILD, metavar="DIR", type=Path)
    parser.add_argument("--compare", default=16, metavar="N", type=int)
    parser.add_argument("--places", default=5, metavar="N", type=int)
    return parser.parse_args()


def main():
    args = options()
    programs = command.programs(args.names)
    if not shutil.which("gcc"):
        sys.exit("sample.py: no gcc")
    root = Root(args.root, args.build / "etch")
    sampler = Sampler(root, build_sampler(args.build, root), args.compare)
    names, everything, bad = samples.Names(), [], []
    print_row(HEAD)
    for program in programs:
        if program.missing():
            continue
        s, output, why = sampler.look(program)
        everything.append(s)
        print_row(row(program.name, s, output))
        print("".join(f"    {line}\n" for line in why), end="")
        print_places(s, names, args.places)
        if output not in ("same", "libunwind", *CONTROLS):
            bad.append(f"{program.name} ({output})")
    print_totals(everything)
    print(f"{len(everything)} programs; not the same, nor for the sampler alone: {', '.join(bad) or 'none'}")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
