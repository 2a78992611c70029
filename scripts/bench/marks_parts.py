# SPDX-License-Identifier: MIT
"""scripts/bench/run marks: markers and static branches beside a plain flag and a call."""
import collections

from common import B, HERE, OUT, TOP, etch_needed, sh, spread, table


def part_marks(args):
    etch_needed()
    for cc in args.cc:
        exe = OUT / f"marks-{cc}"
        sh(cc, "-O2", "-D_GNU_SOURCE", f"-I{TOP}/lib/include", "-o", exe, HERE / "marks.c", B / "libetch.a", "-pthread")
        sh(B / "etch", "rewrite", exe)
        samples = collections.defaultdict(list)
        for line in sh(exe, 3 if args.quick else 20).splitlines():
            name, value = line.split()
            samples[name].append(float(value))
        print(f"### marks, {cc}\n\nns an iteration; on: it calls a function that adds to a variable, as `call` does.\n")
        table(["", "ns"], [[name, spread(v)] for name, v in samples.items()])
