#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Tries etch on files of toolchains that it was not made with.

    scripts/unfamiliar/run.py [--directory DIR] [--etch FILE] [--install] [--no-steps] [--list] [NAME...]

Each file of toolchains.py is rewritten, rewritten again, and restored with --undo. Its task, which is a real use of it, runs
with the file as it is and with the rewritten one mounted over it, and must give the same output, exit status and files, with
no process more that crashes. Then a command runs one instruction at a time, with a shadow stack as the truth, through the
rows of the file and of all that it loads. The table goes to standard output:

    code            bytes of code without padding, as coverage.py counts them
    etch, counted   how much of it has a row: by `etch rewrite -v`, and by coverage.py
    task            what the comparison gave
    steps, frames   instructions unwound from, and frames of these stacks that were checked
    wrong           frames that a row described wrongly
    ended           stacks that were left at a frame without a row, or with one by a register that only the first frame has

--install first installs the packages, by name, with apt-get, or with pip into a virtual environment in DIR
(build/unfamiliar). The directory of a trial, DIR/NAME, has what it left. Exit status 1 if something differs, crashes, is
refused or cannot be made, or if a row is wrong.
"""

import argparse
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent
sys.path.insert(0, str(ROOT / "scripts"))
import pinned  # noqa: E402,F401
from toolchains import TRIALS  # noqa: E402
from trial import Bench, Failed, Run  # noqa: E402

COLUMNS = {"code": "code", "said": "etch", "covered": "counted", "task": "task", "steps": "steps", "frames": "frames",
           "wrong": "wrong", "ended": "ended"}


def row(*cells):
    print(f"| {' | '.join(cells)} |", flush=True)


def main():
    p = argparse.ArgumentParser(formatter_class=argparse.RawDescriptionHelpFormatter, description=__doc__)
    p.add_argument("--directory", metavar="DIR", default=ROOT / "build" / "unfamiliar", type=Path)
    p.add_argument("--etch", metavar="FILE", default=ROOT / "build" / "etch", type=Path)
    p.add_argument("--install", action="store_true")
    p.add_argument("--no-steps", dest="steps", action="store_false")
    p.add_argument("--list", action="store_true")
    p.add_argument("names", nargs="*", metavar="NAME")
    a = p.parse_args()
    if unknown := set(a.names) - {t.name for t in TRIALS}:
        p.error(f"no trial {', '.join(sorted(unknown))}")
    chosen = [t for t in TRIALS if not a.names or t.name in a.names]
    if a.list:
        for t in chosen:
            print(f"{t.name}\t{t.toolchain}\t{t.installer}: {t.packages}")
        return 0
    bench, bad = Bench(a.directory, a.etch), []
    bench.begin(a.steps)
    row("file", "toolchain", *COLUMNS.values())
    row("---", "---", *("---:" if c != "task" else "---" for c in COLUMNS))
    for t in chosen:
        if a.install:
            bench.install(t)
        run = Run(bench, t)
        try:
            run.done(a.steps)
        except (Failed, OSError, RuntimeError, subprocess.SubprocessError) as why:
            run.fail(f"{why}")
        bad += run.bad
        row(t.name, t.toolchain, *(run.words.get(c, "") for c in COLUMNS))
        for why in run.bad:
            print(why, file=sys.stderr, flush=True)
    print(f"{len(chosen)} files of {len({t.packages for t in chosen})} toolchains, {len(bad)} failures", file=sys.stderr)
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
