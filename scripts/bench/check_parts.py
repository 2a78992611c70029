# SPDX-License-Identifier: MIT
"""The part of scripts/bench/run about etch check: beside the kernel's objtool."""
import os
import pathlib
import re
import resource
import statistics
import subprocess
import time

from common import B, OUT, etch_needed, fail, sh, spread, table

ARCHIVES = ["/usr/lib/x86_64-linux-gnu/libc.a", "/usr/lib/gcc/x86_64-linux-gnu/12/libstdc++.a",
            "/usr/lib/x86_64-linux-gnu/libz.a", "/usr/lib/x86_64-linux-gnu/libcrypto.a"]
OBJTOOL = "/usr/lib/linux-kbuild-6.1/tools/objtool/objtool"
OBJECTS = 500


def objects():
    """500 objects of the archives, each so many as its share, evenly from first to last."""
    directory = OUT / "check"
    members = {a: [m for m in sh("ar", "t", a).splitlines()] for a in ARCHIVES if os.path.exists(a)}
    everything = [(a, m) for a, names in members.items() for m in names if names.count(m) == 1]
    if len(everything) < OBJECTS:
        fail("check: not enough static archives here (libc6-dev, libstdc++-12-dev, zlib1g-dev, libssl-dev)")
    chosen = [everything[i * len(everything) // OBJECTS] for i in range(OBJECTS)]
    directory.mkdir(parents=True, exist_ok=True)
    for i, archive in enumerate(members):
        into = directory / f"{i}-{pathlib.Path(archive).stem}"
        into.mkdir(exist_ok=True)
        wanted = [m for a, m in chosen if a == archive and not (into / m).exists()]
        if wanted:
            sh("ar", "x", archive, *wanted, cwd=into)
    paths = sorted(directory.glob("*/*"))
    if len(paths) != OBJECTS:
        fail(f"check: {len(paths)} objects in {directory}: remove it")
    return paths


def measure(command, paths):
    """(user+system, wall) in milliseconds. The names go by xargs, whose own share is in both."""
    names = "\0".join(map(str, paths)).encode()
    before, start = resource.getrusage(resource.RUSAGE_CHILDREN), time.monotonic()
    subprocess.run(command, input=names, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    wall, after = time.monotonic() - start, resource.getrusage(resource.RUSAGE_CHILDREN)
    return (after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime) * 1000, wall * 1000


def said(command, paths):
    """How many objects a tool says something about, and how much it says: what it has done for its time."""
    out, about = 0, 0
    for path in paths:
        p = subprocess.run([*command, path], capture_output=True, text=True, errors="replace")
        n = len([line for line in (p.stdout + p.stderr).splitlines() if re.search(r"warning: objtool|error: objtool|\[ETCH-", line)])
        out, about = out + n, about + (n > 0)
    return about, out


def part_check(args):
    etch_needed()
    if not os.path.exists(OBJTOOL):
        print("### check\n\nNo objtool here (package linux-kbuild-6.1).\n")
        return
    paths = objects()
    etch = [B / "etch", "check", "-q", "--fail-on", "never"]
    one_by_one = lambda *c: ["xargs", "-0", "-n1", *c]
    variants = {
        "/bin/true, one by one": one_by_one("/bin/true"),
        "objtool --stackval, one by one": one_by_one(OBJTOOL, "--stackval", "--dry-run"),
        "etch check, one call": [*etch, "-0", "-"],
        "etch check -j2, one call": [*etch, "-j2", "-0", "-"],
        "etch check, one by one": one_by_one(*etch),
        "objtool --stackval --sls, one by one": one_by_one(OBJTOOL, "--stackval", "--sls", "--dry-run"),
        "etch check --sls, one call": [*etch, "--sls", "-0", "-"],
    }
    rounds = 3 if args.quick else 10
    samples = {name: [] for name in variants}
    for _ in range(rounds):
        for name, command in variants.items():
            samples[name].append(measure([str(c) for c in command], paths))
    size = sum(p.stat().st_size for p in paths)
    print(f"### check\n\n{len(paths)} objects, {size / 1e6:.1f} MB, of libc.a, libstdc++.a, libz.a and libcrypto.a; {rounds} "
          "runs of each, in turn; milliseconds for all of them. The ratio is that of medians to objtool's with the same checks.\n")
    rows = []
    for name, values in samples.items():
        base = "objtool --stackval --sls, one by one" if "--sls" in name else "objtool --stackval, one by one"
        row = [name]
        for k in range(2):
            ratio = statistics.median(v[k] for v in values) / statistics.median(v[k] for v in samples[base])
            row += [spread([v[k] for v in values], 0), f"{ratio:.2f}"]
        rows.append(row)
    table(["", "user + system", "ratio", "elapsed", "ratio"], rows)
    theirs, ours = said([OBJTOOL, "--stackval", "--dry-run"], paths), said([*map(str, etch)], paths)
    print(f"objtool warns about {theirs[0]} of the objects ({theirs[1]} lines), etch about {ours[0]} ({ours[1]} findings at error or warning).\n")
