# SPDX-License-Identifier: MIT
"""The parts of scripts/bench/run about copies and reads that survive faults."""
import collections
import re
import shutil
import statistics

from common import B, HERE, OUT, TOP, etch_needed, fail, parse, quartiles, sh, spread, table

CFLAGS = ["-O2", "-g", "-Wall", "-Wextra", "-I", str(TOP / "lib/include"), "-I", str(HERE)]
NAMES = {"memcpy": "memcpy", "auto": "etch_copy AUTO", "from": "etch_copy_from", "nt": "etch_copy_nt"}


def build(cc, name):
    etch_needed()
    program = OUT / cc / name
    program.parent.mkdir(parents=True, exist_ok=True)
    sh(cc, *CFLAGS, HERE / f"{name}.c", "-o", program, B / "libetch.a", "-pthread")
    return program


def checked(program):
    """The program, if all its copies give the same bytes."""
    sums = collections.defaultdict(set)
    for size, name, value in parse(sh(program, "check"))[1]:
        sums[size].add(value)
    wrong = [size for size, values in sums.items() if len(values) != 1]
    if wrong or not sums:
        fail(f"copy: the copies differ at {', '.join(wrong)} bytes")
    return program


def size_text(n):
    n = int(n)
    for unit, name in ((1 << 20, "MiB"), (1 << 10, "KiB")):
        if n >= unit and n % unit == 0:
            return f"{n // unit} {name}"
    return f"{n} B"


def ratio(a, b):
    """The median of each round's ratio."""
    return statistics.median(x / y for x, y in zip(a, b))


# ---- copy ---------------------------------------------------------------------------

def part_copy(args):
    program = checked(build(args.cc[0], "copy"))
    throughput(program, args)
    reread(program, args)


def throughput(program, args):
    rounds, largest = (6, 16 << 20) if args.quick else (41, 256 << 20)
    info, rows = parse(sh(program, "throughput", rounds, largest))
    rate = collections.defaultdict(list)
    for state, size, name, ticks, bytes_ in rows:
        rate[state, int(size), name].append(int(bytes_) / int(ticks) * info["ticks_per_ns"])
    sizes = sorted({k[1] for k in rate})
    print(f"### copy\n\nGB/s; {args.cc[0]}; auto goes around the cache from {info['threshold'] / (1 << 20):,.0f} MiB on. "
          "Hot: one source and one destination, again and again. Cold: lines flushed by clflush before; a "
          "side that is not cold has just been used. Copies below 256 KiB: 256 KiB of them, each of another place.\n")
    worst = []
    auto = collections.defaultdict(list)
    for state in dict.fromkeys(k[0] for k in rate):
        print(f"{state}:\n")
        cells = []
        for n in sizes:
            v = {c: rate[state, n, c] for c in NAMES}
            cells.append([size_text(n)] + [spread(v[c], 1) for c in NAMES] +
                         [f"{ratio(v['auto'], v['memcpy']):.2f}", f"{ratio(v['nt'], v['memcpy']):.2f}"])
            each = [a / m for a, m in zip(v["auto"], v["memcpy"])]
            worst.append((ratio(v["auto"], v["memcpy"]), state, n))
            auto[n].append(spread(each, 2))
        table(["size", *NAMES.values(), "auto/memcpy", "nt/memcpy"], cells)
    print("Auto's throughput as a part of memcpy's, of each round:\n")
    table(["size", *dict.fromkeys(k[0] for k in rate)], [[size_text(n)] + auto[n] for n in sizes])
    low = sorted(w for w in worst if w[0] < 0.95)
    print(f"Auto below 0.95 of memcpy in {len(low)} of {len(worst)} rows" +
          (": " + "; ".join(f"{size_text(n)} {state} {r:.2f}" for r, state, n in low) if low else "") + ".\n")


def reread(program, args):
    rounds, largest = (5, 16 << 20) if args.quick else (21, 64 << 20)
    info, rows = parse(sh(program, "reread", rounds, largest))
    us = collections.defaultdict(list)
    for set_, order, name, size, ticks in rows:
        us[int(set_), order, int(size), name].append(int(ticks) / info["ticks_per_ns"] / 1000)
    print("Time to read a hot set again after a copy, us; a load a line:\n")
    cells = []
    for set_, order, size in sorted({k[:3] for k in us}):
        v = [us[set_, order, size, c] for c in ("none", "memcpy", "auto", "nt")]
        cells.append([size_text(set_), order, size_text(size)] + [spread(x, 1) for x in v] + [f"{ratio(v[3], v[1]):.2f}"])
    table(["hot set", "read", "copied", "no copy", "after memcpy", "after auto", "after nt", "nt/memcpy"], cells)
    if not shutil.which("valgrind"):
        print("The simulated cache is left out: it needs valgrind.\n")
        return
    print(f"Misses of the last level at that reading, simulated: cachegrind, {SIMULATED}. It takes a non-temporal store "
          "for a store and knows no prefetchnta, so it can show what memcpy does, and cannot show what nt "
          "does: `nt` is a check of that. `model` reads the source and writes one page over and over, which is what an nt "
          "copy would be with stores that leave the cache alone and reads that do not.\n")
    cells = []
    for set_ in (512 << 10, 1 << 20):
        for size in ((1 << 20,) if args.quick else (1 << 20, 16 << 20)):
            missed = []
            for name in ("none", "memcpy", "nt", "model"):
                counts = cachegrind(program, "reread-once", set_, size, name)
                missed.append(misses(counts["walk_after"]))
            cells.append([size_text(set_), size_text(size), f"{set_ // 64:,}"] + [f"{m:,}" for m in missed])
    table(["hot set", "copied", "lines of the set", "no copy", "memcpy", "nt, as stores", "model"], cells)


# ---- a simulated cache ------------------------------------------------------------------

# The last level of 2005: a Xeon MP of 2.2 GHz had 2 MiB.
LEVELS = ["--I1=32768,8,64", "--D1=32768,8,64", "--LL=2097152,16,64"]
SIMULATED = "D1 32 KiB, last level 2 MiB"


def cachegrind(program, *args):
    """Counts by function: {event: number}."""
    out = OUT / "cachegrind.out"
    sh("valgrind", "-q", "--tool=cachegrind", "--cache-sim=yes", *LEVELS, f"--cachegrind-out-file={out}", program, *args)
    counts, events, name = collections.defaultdict(collections.Counter), [], None
    for line in out.read_text().splitlines():
        if line.startswith("events:"):
            events = line.split()[1:]
        elif line.startswith("fn="):
            name = line[3:]
        elif name and line[:1].isdigit():
            counts[name].update(dict(zip(events, map(int, line.split()[1:]))))
    if not counts:
        fail("cachegrind said nothing")
    return counts


def misses(c):
    return c["DLmr"] + c["DLmw"]


# ---- iozone -------------------------------------------------------------------------------

COPYING = re.compile(r"(__)?mem(cpy|move)|etch_copy|copy_(memcpy|auto|model)")
BOOKKEEPING = re.compile(r"allocate|find_buffer|journal_|writer|write_file|bucket|lock$|unlock$")


def part_iozone(args):
    program = build(args.cc[0], "copy-workload")
    kib = 16 << 10 if args.quick else 64 << 10
    rounds = 3 if args.quick else 15
    names = ["memcpy", "auto", "nt"]
    print(f"### iozone\n\n4 threads write {kib >> 10} MiB each in records; medians of {rounds} runs of each copy, in turn. "
          f"Misses are simulated (cachegrind, {SIMULATED}; `model` stands for nt, see `copy`), of 8 MiB a thread, "
          "set-up left out. Time in copies: processor time of all threads.\n")
    cells = []
    for record in ((4096, 65536) if args.quick else (4096, 16384, 65536, 1 << 20)):
        rows = parse(sh(program, rounds, record, kib, *names))[1]
        if len({r[3] for r in rows}) != 1:
            fail("iozone: the runs do not agree on what was written")
        elapsed, copying = collections.defaultdict(list), collections.defaultdict(list)
        for name, whole, copies, _ in rows:
            elapsed[name].append(int(whole) / 1e6)
            copying[name].append(int(copies) / 1e6)
        simulated = simulate(program, record) if shutil.which("valgrind") else {}
        for name in names:
            in_copy, other = simulated.get({"nt": "model"}.get(name, name), (0, 0))
            cells.append([f"{size_text(record)}, {name}", f"{100 * in_copy / (in_copy + other):.2f}%" if in_copy else "-",
                          f"{in_copy:,}" if simulated else "-", f"{other:,}" if simulated else "-",
                          spread(copying[name], 1), f"{100 * ratio(copying[name], copying['memcpy']):.1f}%",
                          spread(elapsed[name], 1), f"{100 * (ratio(elapsed['memcpy'], elapsed[name]) - 1):+.2f}%"])
    cells.append(["2005: before", "63.46%", "37,017 samples", "", "281,538 samples", "100%", "229.76 s", ""])
    cells.append(["2005: nt", "0.57%", "89 samples", "", "120,717 samples", "42.9%", "222.94 s", "+3.06%"])
    table(["record, copy", "misses in the copy, of all", "number", "elsewhere", "time in copies, ms", "of memcpy's",
           "elapsed, ms", "faster"], cells)


def simulate(program, record):
    found = {}
    for name in ("memcpy", "auto", "model"):
        counts = cachegrind(program, 1, record, 8 << 10, name)
        total = {COPYING: 0, BOOKKEEPING: 0}
        for function, c in counts.items():
            for kind in total:
                if kind.match(function.split(":")[-1]):
                    total[kind] += misses(c)
                    break
        if not total[BOOKKEEPING]:
            fail(f"iozone: no bookkeeping among {sorted(counts)}")
        found[name] = total[COPYING], total[BOOKKEEPING]
    return found


# ---- safety -------------------------------------------------------------------------------

def part_safety(args):
    program = checked(build(args.cc[0], "copy"))
    info, rows = parse(sh(program, "safety", 10 if args.quick else 101))
    ns = collections.defaultdict(list)
    for size, place, name, ticks, calls in rows:
        ns[int(size), place, name].append(int(ticks) / info["ticks_per_ns"] / int(calls))
    print(f"### safety\n\nns a copy, source and destination in the first cache where they fit; {args.cc[0]}. Unaligned: "
          "source at 5 and destination at 17 bytes behind a line's start.\n")
    cells = []
    for size, place in sorted({k[:2] for k in ns}):
        a, b, again = (ns[size, place, c] for c in ("memcpy", "from", "memcpy, again"))
        more = statistics.median(y - x for x, y in zip(a, b))
        cells.append([f"{size_text(size)}, {place}", spread(a), spread(b), f"{more:+.2f}", f"{ratio(b, a):.2f}",
                      f"{statistics.median(y - x for x, y in zip(a, again)):+.2f}"])
    table(["size", "memcpy", "etch_copy_from", "more, ns", "ratio", "memcpy again, more"], cells)

    info, rows = parse(sh(program, "probe", 21 if args.quick else 201))
    ns = collections.defaultdict(list)
    for case, way, ticks, calls in rows:
        ns[case, way].append(int(ticks) / info["ticks_per_ns"] / int(calls))
    print("One value of 8 bytes read so that a fault does no harm, ns: where it can be read, and where nothing is mapped. "
          "sigsetjmp: the handler jumps.\n")
    base = {case: ns[case, "etch_probe_read_64"] for case in ("read", "fault")}
    cells = []
    for way in [w for c, w in sorted(ns, key=lambda k: statistics.median(ns[k])) if c == "read"]:
        row = [way]
        for case in ("read", "fault"):
            v = ns.get((case, way))
            row += [spread(v), f"{ratio(v, base[case]):.2f}"] if v else ["-", "-"]
        cells.append(row)
    table(["way", "read, ns", "of etch_probe_read_64", "fault, ns", "of etch_probe_read_64"], cells)
