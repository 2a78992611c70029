# SPDX-License-Identifier: MIT
"""scripts/bench/run set, swap: the latency of sets. Under a load a cell with a sibling may have no samples, since only those count
where it ran before and after. ETCH_BEFORE=DIR (another checkout that is built): sets by its libetch beside these, in turn."""
import collections
import os
import pathlib
import re
import statistics

from common import CFLAGS, HERE, OUT, TOP, build, parse, sh, spread, state, table

TURNS = 8  # of the programs that are compared


def measured(program, rounds):
    """What the last run said of itself, and the samples in us: by operation, without and with a sibling."""
    data = []
    for siblings in (0, 1):
        info, rows = parse(sh(program, siblings, rounds))
        per = collections.defaultdict(list)
        for name, t in rows:
            per[name].append(int(t) / info["ticks_per_ns"] / 1000)
        data.append(per)
    return info, data


def samples(data):
    """How many the cells have."""
    counts = [len(d[name]) for d in data for name in data[0]]
    return f"{min(counts)} to {max(counts)} samples a cell, with a sibling only those where it ran before and after"


def cells(order, data):
    return [[k, *(spread(d[k]) for d in data)] for k in order]


def above_floors(data):
    """What an operation takes beside its system calls; of a cell whose parts were not all measured, that."""
    out = []
    for op, text, sites in (("imv_set 1 site", "1", 1), ("imv_set 64 sites", "64", 64),
                            ("imv_set 4096 sites", "4096", 4096), ("batch of 100", "batch", 100)):
        row = [op]
        for d in data:
            parts = [d["floor: membarrier SYNC_CORE"], d[f"floor: mprotect pair, text of {text}"],
                     d["floor: mprotect pair, data"], d[op]]
            if all(parts):
                *floor, all_ = map(statistics.median, parts)
                row += [f"{sum(floor):,.2f}", f"{(all_ - sum(floor)) * 1000 / sites:,.0f}"]
            else:
                row += ["no samples"] * 2
        out.append(row)
    return out


def build_before(cc, root):
    """The program of `set` with the headers, the library and the tool of another checkout."""
    out = OUT / cc / "set.before"
    flags = [f.replace(str(TOP / "lib"), str(root / "lib")) for f in CFLAGS]
    sh(cc, *flags, "-DBEFORE", "-c", HERE / "set.c", "-o", f"{out}.o")
    sh(root / "build/etch", "rewrite", "--only", "imv", f"{out}.o")
    sh(cc, "-o", out, f"{out}.o", root / "build/libetch.a", "-pthread")
    sh(root / "build/etch", "rewrite", "--only", "imv", out)
    return out


def compared(now, before, rounds):
    """Sets by two libraries, run in turn: medians, and the ratio of each turn's medians."""
    sets = ("imv_set 1 site", "imv_set 1 site across a word", "imv_set 64 sites", "imv_set 4096 sites", "batch of 100")
    turns = [[measured(p, rounds)[1] for p in (now, before)] for _ in range(TURNS)]
    rows = []
    for name in sets:
        row = [name]
        for siblings in (0, 1):
            medians = [[statistics.median(d[siblings][name]) for d in turn] for turn in turns if all(d[siblings][name] for d in turn)]
            row += [spread([m[1] for m in medians]), spread([m[0] for m in medians]), spread([m[0] / m[1] for m in medians])]
        rows.append(row)
    table(["operation", "before, 0 siblings", "now", "ratio", "before, 1 running sibling", "now", "ratio"], rows)


def part_set(args):
    for cc in args.cc:
        program, rounds = build(cc, "set", [HERE / "set.c"], 2), 10 if args.quick else 60
        info, data = measured(program, rounds)
        print(f"### set, {cc}\n\nMicroseconds a call; {samples(data)}; {state(info)}.\n")
        order = sorted(data[0], key=lambda k: (not k.startswith("floor"), k.startswith("peer"),
                                               [int(x) if x.isdigit() else x for x in re.split(r"(\d+)", k)]))
        table(["operation", "0 siblings", "1 running sibling"], cells(order, data))
        print("Above one membarrier and one change of protection for text and for data:\n")
        table(["operation", "floors, us, 0 siblings", "ns a site above", "floors, us, 1 sibling", "ns a site above"],
              above_floors(data))
        if "ETCH_BEFORE" in os.environ:
            print("Medians of runs in turn, beside the earlier library:\n")
            compared(program, build_before(cc, pathlib.Path(os.environ["ETCH_BEFORE"]).resolve()), rounds)


def part_swap(args):
    for cc in args.cc[:1]:  # the readers are assembly
        info, data = measured(build(cc, "swap", [HERE / "swap.c"], 2), 20 if args.quick else 200)
        print(f"### swap, {cc}\n\nMicroseconds a call; {samples(data)}; {state(info)}.\n")
        order = sorted(data[0], key=lambda k: (not k.startswith("floor"), k))
        table(["operation", "a sleeping sibling", "a running sibling"], cells(order, data))
