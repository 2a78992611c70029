# SPDX-License-Identifier: MIT
"""What etch costs beside the link that it follows: part `link` of scripts/bench/run."""
import os
import pathlib
import re
import shutil
import statistics

from common import B, HERE, OUT, etch_needed, sh, spread, table

LIBS = pathlib.Path("/usr/lib/x86_64-linux-gnu")
LLVM = pathlib.Path("/usr/lib/llvm-14/lib")
# Linked programs of a distribution, of which there are no objects: etch alone.
LINKED = ["/usr/bin/git", "/usr/lib/gcc/x86_64-linux-gnu/12/cc1plus"]
# A linker reads what it is given once, and its symbols need not be defined: nothing is run.
LINK = ["-pie", "-Wl,--unresolved-symbols=ignore-all", "-Wl,-z,lazy"]


def compiled(text, name):
    """A small object file."""
    source = OUT / "link" / f"{name}.c"
    source.write_text(text)
    o = source.with_suffix(".o")
    sh("cc", "-O2", "-fPIE", "-c", source, "-o", o)
    return o


def whole(*archives):
    return ["-Wl,--whole-archive", *archives, "-Wl,--no-whole-archive", "-lstdc++"]


def inputs(quick):
    """By the name of a program: what is linked; null where its packages are not installed."""
    main = compiled("int main(void) { return 0; }\n", "main")
    sqlite, llvm = LIBS / "libsqlite3.a", sorted(LLVM.glob("libLLVM*.a"))
    small = {"small": [main], "SQLite": [main, *whole(sqlite)] if sqlite.exists() else None}
    return small if quick else small | {"LLVM 14, whole": [main, *whole(*llvm)] if llvm else None}


def linkers(threads):
    """By name: the options of a linker with so many threads. mold does its work in a child otherwise, of which nothing is
    counted."""
    known = {"mold": ["-fuse-ld=mold", "-Wl,--no-fork", f"-Wl,--thread-count={threads}"],
             "lld": ["-fuse-ld=lld", f"-Wl,--threads={threads}"]}
    return {name: options for name, options in known.items() if shutil.which({"lld": "ld.lld"}.get(name, name))}


def tools():
    (OUT / "link").mkdir(parents=True, exist_ok=True)
    each = OUT / "link" / "each"
    sh("gcc", "-O2", "-Wall", "-Wextra", HERE / "scale" / "each.c", "-o", each)
    return each


def once(each, command, path):
    """Of one process on a copy of a file: CPU s, elapsed s, peak MiB."""
    out = sh(each, OUT / "link" / "copy", *command, input=f"{path}\0").split()
    if out[3] != "0":
        raise SystemExit(f"bench: link: `{' '.join(map(str, command))}` ended with {out[3]} for {path}")
    return int(out[0]) / 1e6, int(out[1]) / 1e6, int(out[2]) / 1024


def steps(objects, threads):
    """By name: the command, and whether it begins with the objects (it is a link) or with the linked program."""
    found = {}
    if objects:
        for name, options in linkers(threads).items():
            found[f"{name}, {threads} thread{'s' * (threads > 1)}"] = ([shutil.which("cc"), *LINK, *options, *objects, "-o"], True)
    for words in (["rewrite"], ["check", "-q", "--fail-on", "never"]):
        found[f"etch {words[0]} -j{threads}"] = ([B / "etch", *words, f"-j{threads}"], False)
    return found


def program_made(name, objects):
    """The program that etch is given: mold's, or that of the first linker that is installed."""
    path = OUT / "link" / re.sub(r"\W+", "-", name)
    options = next(iter(linkers(2).values()), [])
    sh("cc", *LINK, *options, *objects, "-o", path)
    return path


def text_of(path):
    return sum(int(line.split()[1], 16) for line in
               re.findall(r"^ *\d+ (\S+ +[0-9a-f]+) .*\n.*CODE", sh("objdump", "-h", path), re.M))


def compare(each, name, path, objects, rounds):
    """The table of one program. All steps run in turn, so that what else the machine does is in all of them."""
    commands = steps(objects, 1) | steps(objects, 2)
    samples = {step: [] for step in commands}
    start = compiled("", "nothing")
    for _ in range(rounds):
        for step, (command, links) in commands.items():
            samples[step].append(once(each, command, start if links else path))
    size = os.stat(path).st_size
    middle = lambda step, k: statistics.median(x[k] for x in samples[step])
    rows = []
    for step, v in samples.items():
        beside = [s for s in samples if s.startswith("mold")][:1]
        ratio = f"{middle(step, 0) / middle(beside[0], 0):.2f}" if beside else "-"
        rows.append([step, spread([x[0] for x in v], 3), ratio, spread([x[1] for x in v], 3), f"{middle(step, 2):,.0f}",
                     f"{middle(step, 2) * 2 ** 20 / size:.1f}"])
    print(f"{name}: {size:,} bytes, {text_of(path):,} of them code.\n")
    table(["", "user + system, s", "beside mold, 1 thread", "elapsed, s", "peak MiB", "times the file"], rows)


def part_link(args):
    etch_needed()
    each = tools()
    print("### link\n\nA program is linked, rewritten and checked, in turn; medians. The linkers: " +
          ("; ".join(sh({"lld": "ld.lld"}.get(x, x), "--version").splitlines()[0] for x in linkers(1)) or "none is installed") + ".\n")
    rounds = 1 if args.quick else 7
    for name, objects in inputs(args.quick).items():
        if objects:
            compare(each, name, program_made(name, objects), objects, rounds)
        else:
            print(f"{name}: its archives are not installed.\n")
    for path in [] if args.quick else LINKED:
        if os.path.exists(path):
            compare(each, path, path, None, rounds)
