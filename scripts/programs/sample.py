#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Samples the stacks of rewritten programs while they run. See docs/unwinding.md.

    scripts/programs/sample.py [--root DIR] [--build DIR] [--compare N] [--places N] [NAME...]

Each program of list.py is run with the files that etch made of those that it loads, and
tests/run/sampler.c preloaded: a thousand times a second of CPU time libetch walks the
stack from wherever the process is. The table says how many walks were complete, which is:
ended where a row says that the stack ends (_start, a thread's first function), and of those
that were not, where they stopped. `in JIT` are those that stopped at a frame of code that no
loader has mapped; `share` leaves them out. Of one in N (16; 0: none) libunwind walks the same stack:
`other` are those where it found another frame than libetch. --places prints so many places
(5) where walks stop, each with the last frames of an example.
Exit status 1 if a program's output is another one than without the sampler.
"""

import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import command
from root import Root

SOURCE = Path(__file__).resolve().parent.parent.parent
sys.path.insert(0, str(SOURCE / "tests" / "run"))
import samples  # noqa: E402

HEAD = ["program", "processes", "samples", "frames", "complete", "in JIT", "stopped", "share", "compared", "other", "output"]


def build_sampler(build, root):
    """The library to preload, with a table of its own."""
    plain = root.path / "sampler-plain.so"
    samples.compile_to(build, plain)
    library = root.path / "sampler.so"
    subprocess.run([build / "etch", "rewrite", "-o", library, plain], check=True)
    return library


def sampled(program, root, library, compare):
    """(sum of all processes, the sampled run, the run without)"""
    program.prepare(root)
    before = program.run(root)
    with tempfile.TemporaryDirectory(prefix="etch-samples-") as directory:
        env = samples.environment(directory, library, compare=compare)
        after = program.run(root, env)
        return samples.Sum(samples.read(directory)), after, before


def row(name, s, output):
    return [name, s.processes, s.samples, f"{s.frames / max(s.samples, 1):.1f}", s.complete, s.jit, s.incomplete,
            f"{100 * s.share:.3f}%", s.compared, s.different, output]


def print_row(cells):
    widths = [18, 9, 9, 7, 9, 8, 8, 9, 9, 6, 8]
    print("| " + " | ".join(f"{c:,}".rjust(w) if isinstance(c, int) else str(c).rjust(w) if i else str(c).ljust(w)
                           for i, (c, w) in enumerate(zip(cells, widths))) + " |", flush=True)


def print_places(s, names, most):
    stopped = s.listed(lambda kind, where, *_: kind < 0 and where not in samples.JIT)
    for count, p in stopped[:most]:
        frame = names.at(p.module, p.offset, p.at > 0)
        print(f"    {count} stopped: {samples.STATUS[p.kind]}, in {p.where}: {frame}")
        for line in names.lines(p)[max(0, p.at - p.first - 2):p.at - p.first + 4]:
            print(f"        {line}")
    for count, p in s.listed(lambda kind, *_: kind in (102, 103, 104))[:most]:
        if p.kind == 102 and stopped:
            continue    # of a walk that stopped
        print(f"    {count} {samples.DIFFER[p.kind]}: {p.frames} frames, libunwind {p.their_frames}")
        for line in names.lines(p)[max(0, p.at - p.first - 2):p.at - p.first + 4]:
            print(f"        {line}")
    if s.lost or s.full:
        print(f"    {s.lost} samples without an array for their frames, {s.full} without a place to be counted at")
    if without := [n for n in s.without_table if "vdso" not in n and n]:
        print(f"    no table of its own: {' '.join(without)}")


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
    library = build_sampler(args.build, root)
    names, everything, same = samples.Names(), [], True
    print_row(HEAD)
    for program in programs:
        if program.missing():
            continue
        s, after, before = sampled(program, root, library, args.compare)
        output = "same" if after.text == before.text else "differs" if after.status == before.status else f"exit {after.status}"
        same &= output == "same"
        everything.append(s)
        print_row(row(program.name, s, output))
        print_places(s, names, args.places)
    print_row(row("all", samples.total(everything), ""))
    return 0 if same else 1


if __name__ == "__main__":
    sys.exit(main())
