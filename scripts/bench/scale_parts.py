# SPDX-License-Identifier: MIT
"""The parts of scripts/bench/run about scale: beside the kernel's objtool, and against the size of the input."""
import math
import os
import pathlib
import random
import re
import shutil
import statistics
import subprocess
import sys

from common import B, HERE, OUT, TOP, etch_needed, fail, sh, spread, table

sys.path[:0] = [str(TOP / "tests" / "analysis"), str(TOP / "tests" / "cost")]
import objects as peers  # noqa: E402  (members of archives, objtool's path)
import files  # noqa: E402
import growth as counts  # noqa: E402
import shapes  # noqa: E402

DIR = OUT / "scale"
SCRATCH = pathlib.Path("/dev/shm") if os.path.isdir("/dev/shm") else DIR
LIBS = pathlib.Path("/usr/lib/x86_64-linux-gnu")
# Archives in the order in which they are asked for objects: those of make deps first.
ARCHIVES = ["libc.a", "libcrypto.a", "libstdc++.a", "libm-2.36.a", "libssl.a", "libz.a", "libcapstone.a", "libdw.a", "libmvec.a",
            "libicui18n.a", "libicuuc.a", "libpython3.11.a", "libgnutls.a", "libtcl8.6.a", "libX11.a", "libsqlite3.a",
            "libtk8.6.a", "libgcrypt.a", "libxml2.a"]
OBJECTS = 1000
LINKED = 32 << 20  # of (b): bytes
OBJTOOL = [peers.OBJTOOL, "--orc", "--no-unreachable"]


# ---- objects that objtool makes a table of ------------------------------------------

def archive(name):
    gcc = pathlib.Path(sh("gcc", f"-print-file-name={name}").strip())
    return gcc if gcc.is_absolute() else LIBS / name


def accepted(data, at):
    """objtool 6.1 gives a whole object no table when it does not understand one jump: those would cost it less."""
    at.write_bytes(data)
    subprocess.run([*OBJTOOL, at], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    done = at.read_bytes()
    at.unlink()
    return b".orc_unwind" in done and b".orc_unwind" not in data


def objects_of(path):
    """Those of one archive, as files; unpacked once."""
    into = DIR / "objects" / path.stem
    if not (into / "done").exists():
        shutil.rmtree(into, ignore_errors=True)
        into.mkdir(parents=True)
        seen, n = set(), 0
        for name, data in peers.members(path):
            if data[:4] == b"\x7fELF" and data not in seen:
                n += 1
                if accepted(data, SCRATCH / "etch-scale-probe.o"):
                    (into / f"{len(seen):05}-{os.path.basename(name)}").write_bytes(data)
                seen.add(data)
        (into / "done").write_text(f"{n}\n")
    return sorted(into.glob("[0-9]*-*")), int((into / "done").read_text())


def choose():
    """(objects of (a), the object of (b), what they are of)."""
    everything, size, told = [], 0, []
    for name in ARCHIVES:
        path = archive(name)
        if not path.exists():
            continue
        took, of = objects_of(path)
        everything.append(took)
        told.append(f"{len(took)} of the {of} of {name}")
        size += sum(p.stat().st_size for p in took)
        if size > LINKED * 1.4:
            break
    several = sorted(p for took in everything[:5] for p in took)
    if len(several) < OBJECTS or size < LINKED:
        fail("scale: not enough static archives here (libc6-dev, libssl-dev, libstdc++-12-dev, libcapstone-dev, libicu-dev ...)")
    one = DIR / "linked.o"
    if not one.exists():
        rest = [p for took in everything for p in took]
        (DIR / "list").write_text("".join(f"{p}\n" for p in rest))
        sh("ld", "-r", "-z", "muldefs", "-o", f"{one}.new", f"@{DIR / 'list'}")
        if not accepted(pathlib.Path(f"{one}.new").read_bytes(), SCRATCH / "etch-scale-probe.o"):
            fail("scale: objtool makes no table of the ld -r object")
        os.replace(f"{one}.new", one)
    return [several[i * len(several) // OBJECTS] for i in range(OBJECTS)], one, told


# ---- runs ---------------------------------------------------------------------------

def tools():
    each, decode = DIR / "each", DIR / "decode"
    DIR.mkdir(parents=True, exist_ok=True)
    sh("gcc", "-O2", "-Wall", "-Wextra", HERE / "scale" / "each.c", "-o", each)
    sh("gcc", "-O2", "-Wall", "-Wextra", HERE / "unwind" / "decode.c", "-o", decode, "-lZydis", "-lelf")
    return each, decode


def run(each, command, paths, status=(0,)):
    """Of one process a path: (CPU s, elapsed s, greatest peak MiB) in all, and each line."""
    names = "".join(f"{p}\0" for p in paths)
    out = sh(each, SCRATCH / "etch-scale.o", *command, input=names)
    lines = [tuple(map(int, line.split())) for line in out.splitlines()]
    if len(lines) != len(paths) or any(x[3] not in status for x in lines):
        fail(f"scale: {command[0]} did not do {sum(x[3] not in status for x in lines)} of {len(paths)}")
    return sum(x[0] for x in lines) / 1e6, sum(x[1] for x in lines) / 1e6, max(x[2] for x in lines) / 1024


def compare(each, decode, paths, rounds):
    """Rows of the table: variants in turn, so that what else the machine does is in all of them; each round in an order of
    its own, since what runs after a process that gave back 700 MB pays for fresh pages."""
    insns = sum(int(sh(decode, p).split()[0]) for p in paths[:1]) if len(paths) == 1 else sum(
        int(line.split()[0]) for line in sh("xargs", "-0", "-n1", decode, input="\0".join(map(str, paths))).splitlines())
    variants = {
        "a bare Zydis pass": [decode],
        "objtool --orc": OBJTOOL,
        "etch rewrite": [B / "etch", "rewrite"],
        "etch rewrite --only orc": [B / "etch", "rewrite", "--only", "orc"],
        "etch rewrite --only orc --no-cfi": [B / "etch", "rewrite", "--only", "orc", "--no-cfi"],
    }
    if len(paths) > 1:
        variants = {"/bin/true": ["/bin/true"], **variants}
    samples = {name: [] for name in variants}
    shuffled = random.Random(1)
    for _ in range(rounds):
        for name, command in shuffled.sample(list(variants.items()), len(variants)):
            samples[name].append(run(each, command, paths, (0, 1) if command is OBJTOOL or command[0] == decode else (0,)))
    middle = lambda name, k: statistics.median(x[k] for x in samples[name])
    out = []
    for name, v in samples.items():
        ratio = lambda k: f"{middle(name, k) / middle('objtool --orc', k):.2f}"
        out.append([name, spread([x[0] for x in v], 3), ratio(0), spread([x[1] for x in v], 3),
                    f"{middle(name, 0) * 1e9 / insns:,.0f}", f"{middle(name, 2):,.1f}", ratio(2)])
    table(["", "user + system, s", "ratio", "elapsed, s", "CPU ns an instruction", "peak MiB", "ratio"], out)
    return insns


def part_scale(args):
    etch_needed()
    if not os.path.exists(peers.OBJTOOL):
        print("### scale\n\nNo objtool here (package linux-kbuild-6.1).\n")
        return
    each, decode = tools()
    several, one, told = choose()
    print(f"### scale\n\nObjects that objtool makes a table of: {', '.join(told)}. Copies in {SCRATCH}, which are not counted. "
          "The ratios are those of medians to objtool's.\n")
    size = sum(p.stat().st_size for p in several)
    print(f"(a) {len(several)} objects of {size / 1e6:.1f} MB in all, one process each:\n")
    insns = compare(each, decode, several, 2 if args.quick else 5)
    print(f"({insns:,} instructions)\n\n(b) one object of {one.stat().st_size / 1e6:.1f} MB (ld -r of all of them):\n")
    insns = compare(each, decode, [one], 2 if args.quick else 15)
    print(f"({insns:,} instructions)\n")


# ---- growth -------------------------------------------------------------------------

# Text from 10 KB to 240 MB, where installed.
GROWTH = ["/usr/bin/true", "/bin/ls", "/bin/bash", "/usr/bin/perl", str(LIBS / "libc.so.6"), "/usr/bin/git", str(LIBS / "libcrypto.so.3"),
          "/usr/bin/python3.11", "/usr/lib/gcc/x86_64-linux-gnu/12/cc1", "/usr/lib/gcc/x86_64-linux-gnu/12/cc1plus",
          "/usr/lib/jvm/java-17-openjdk-amd64/lib/server/libjvm.so", str(LIBS / "libLLVM-15.so.1"),
          str(LIBS / "libnode.so.108"), "/usr/bin/node", "/usr/lib/firefox-esr/libxul.so"]
# Of these a copy is made that has neither .eh_frame nor symbols; chromium has them hardly.
BARE = ["/bin/ls", "/bin/bash", "/usr/bin/perl", "/usr/bin/git", "/usr/bin/python3.11", "/usr/lib/gcc/x86_64-linux-gnu/12/cc1",
        str(LIBS / "libLLVM-15.so.1")]
BARE_ALREADY = ["/usr/lib/chromium/chromium"]


def text_of(path):
    """Bytes of its sections of code (readelf's flags: X)."""
    size = 0
    for line in sh("readelf", "-SW", path).splitlines():
        m = re.match(r"\s*\[ *\d+\] \S+ +PROGBITS +[0-9a-f]+ [0-9a-f]+ ([0-9a-f]+) [0-9a-f]+ +([A-Za-z]*)", line)
        if m and "A" in m[2] and "X" in m[2]:
            size += int(m[1], 16)
    return size


def bare(path):
    """A copy that says nothing of where its functions are."""
    out = DIR / f"{os.path.basename(path)}.bare"
    if not out.exists():
        sh("objcopy", "--strip-all", "-R", ".eh_frame", "-R", ".eh_frame_hdr", path, out)
    return str(out)


def fit(x, y):
    """Least squares of log y over log x: the exponent, two standard errors of it, and how far one lies from the line at most."""
    x, y = [math.log(v) for v in x], [math.log(v) for v in y]
    mx, my = statistics.mean(x), statistics.mean(y)
    sxx = sum((a - mx) ** 2 for a in x)
    slope = sum((a - mx) * (b - my) for a, b in zip(x, y)) / sxx
    off = [b - my - slope * (a - mx) for a, b in zip(x, y)]
    error = math.sqrt(sum(d * d for d in off) / max(1, len(x) - 2) / sxx)
    return slope, 2 * error, math.exp(max(map(abs, off)))


def growth_of(each, path, floor, quick):
    """One line: (text, CPU s, peak MiB), the last two without what any process takes."""
    text = text_of(path)
    times = 1 if quick or text > 2e7 else 3 if text > 2e6 else 15
    runs = [run(each, [B / "etch", "rewrite"], [path]) for _ in range(times)]
    used, most = min(r[0] for r in runs), max(r[2] for r in runs)
    size = os.stat(path).st_size
    row = [os.path.basename(path), f"{text / 1e6:,.3f}", f"{size / 1e6:,.1f}", f"{used:,.3f}", f"{used * 1e9 / text:,.0f}", f"{most:,.0f}",
           f"{most * 2 ** 20 / size:,.1f}"]
    return row, (text, max(used - floor[0], 1e-5), max(most - floor[1], 0.01))


def growth_fit(what, points):
    if len(points) < 4:
        return
    text, cpu, peak = zip(*points)
    print(f"{what}: {len(points)} files, text from {min(text) / 1e3:,.0f} KB to {max(text) / 1e6:,.0f} MB. CPU time grows as text to the power "
          "of {:.2f} +- {:.2f} (furthest from that: a factor of {:.2f}), ".format(*fit(text, cpu)) +
          "peak memory of {:.2f} +- {:.2f} ({:.2f}).\n".format(*fit(text, peak)), flush=True)


def part_growth(args):
    etch_needed()
    each, _ = tools()
    nothing = DIR / "nothing.o"
    subprocess.run(["as", "-o", nothing, "-"], input=shapes.functions(1), text=True, check=True)
    runs = [run(each, [B / "etch", "rewrite"], [nothing]) for _ in range(15)]
    floor = min(r[0] for r in runs), min(r[2] for r in runs)
    print("### growth\n\n`etch rewrite` of linked files, one process and one thread each. The fits are of what is more than an object of "
          f"one function takes ({floor[0] * 1000:.1f} ms, {floor[1]:.1f} MiB); +-: two standard errors.\n")
    known = sorted((p for p in GROWTH if os.path.exists(p)), key=text_of)
    unknown = sorted([bare(p) for p in BARE if os.path.exists(p)] + [p for p in BARE_ALREADY if os.path.exists(p)], key=text_of)
    fits = []
    for what, paths in (("With .eh_frame", known), ("Without .eh_frame and symbols", unknown)):
        lines = [growth_of(each, p, floor, args.quick) for p in paths]
        print(f"{what}:\n")
        table(["", "text, MB", "file, MB", "user + system, s", "ns a byte of text", "peak MiB", "times the file"], [r for r, _ in lines])
        fits.append((what, [p for _, p in lines]))
    for what, points in fits:
        growth_fit(what, points)
        growth_fit(f"{what}, from 1 MB of text on", [p for p in points if p[0] > 1e6])
    growth_fit("All", [p for _, points in fits for p in points])


def part_shapes(args):
    etch_needed()
    each, _ = tools()
    print("### shapes\n\nSeconds of CPU time; of a quarter of it first (tests/cost/shapes.py).\n")
    out = []
    for name, (source, n) in shapes.SHAPES.items():
        row = [name]
        for command in ([B / "etch", "rewrite"], [B / "etch", "check", "-q", "--fail-on", "never"]):
            times = []
            for k in (n // 4, n):
                o = DIR / f"{source.__name__}.{k}.o"
                if not o.exists():
                    subprocess.run(["as", "-o", o, "-"], input=source(k), text=True, check=True)
                r = [run(each, command, [o]) for _ in range(3)]
                times.append(min(x[0] for x in r))
            row += [f"{times[0]:.3f}", f"{times[1]:.3f}", f"{times[1] / times[0]:.1f}"]
        out.append([*row, f"{max(x[2] for x in r):,.0f}"])
    table(["", "rewrite, a quarter", "all", "times", "check, a quarter", "all", "times", "peak MiB"], out)


# ---- instructions of every command --------------------------------------------------

QUICK = ["functions", "findings", "etched_objects.etched.so"]


def part_commands(args):
    """The exponent of each command's growth, for each shape of file: instructions for n and 4 n, with --quick of three shapes."""
    etch_needed()
    shutil.rmtree(DIR / "commands", ignore_errors=True)
    floor, out, makers = counts.start(DIR / "commands"), [], files.OBJECTS | files.LINKED
    n = 250 if args.quick else 1000
    for name in QUICK if args.quick else makers:
        few, many = (counts.Made(makers[name], k, DIR / "commands", name) for k in (n, 4 * n))
        row = [name, f"{few.file.stat().st_size:,}"]
        for command in counts.COMMANDS:
            (a, status, _), (b, status_b, _) = few.counted(command), many.counted(command)
            row.append("-" if 2 in (status, status_b) else f"{counts.exponent(a, b, 4, floor[command]):.2f}")
        out.append(row)
        print(f"commands: {name}", file=sys.stderr, flush=True)
    print(f"### commands\n\nInstructions (cachegrind), one thread: the power of n that they grow with from {n:,} to {4 * n:,} of what is named; what "
          "any process takes is left out, and the first million. -: refused, or nothing to show.\n")
    table(["", "bytes", *counts.COMMANDS], out)
