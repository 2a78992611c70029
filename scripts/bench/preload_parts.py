# SPDX-License-Identifier: MIT
"""The part of scripts/bench/run about what libetch-unwind costs a program that it is preloaded into."""
import os
import pathlib
import re
import resource
import shutil
import statistics
import subprocess
import time

from common import B, HERE, OUT, TOP, etch_needed, fail, sections, sh, table

LIBRARIES = pathlib.Path("/usr/lib/x86_64-linux-gnu")
PROGRAMS = {"true": ["/bin/true"], "python3 -c pass": ["/usr/bin/python3", "-S", "-c", "pass"],
            "clang --version": ["/usr/bin/clang", "--version"], "node -e 0": ["/usr/bin/node", "-e", "0"]}
MADE = ["libcrypto.so.3", "libstdc++.so.6", "libLLVM-14.so.1"]


def once(argv, env):
    """Wall and processor time in ms, peak memory in MB."""
    start = time.monotonic()
    pid = os.posix_spawn(argv[0], argv, env, file_actions=[(os.POSIX_SPAWN_OPEN, n, os.devnull, os.O_WRONLY, 0) for n in (1, 2)])
    _, status, usage = os.wait4(pid, 0)
    wall = time.monotonic() - start
    if status:
        fail(f"`{' '.join(argv)}` ended with status {status}")
    return wall * 1e3, (usage.ru_utime + usage.ru_stime) * 1e3, usage.ru_maxrss / 1024


def instructions(argv, *options, **env):
    r = subprocess.run(["valgrind", "--tool=callgrind", "--callgrind-out-file=/dev/null", *options, *map(str, argv)],
                       capture_output=True, text=True, env={**os.environ, **env})
    found = re.search(r"refs: +([\d,]+)", r.stderr)
    if r.returncode or not found:
        fail(f"valgrind ended with {r.returncode}:\n{r.stderr[-2000:]}")
    return int(found[1].replace(",", ""))


def needed(program):
    """The program and its libraries."""
    return [program, *re.findall(r"=> (/\S+)", sh("ldd", program))]


def part_preload(args):
    etch_needed()
    print("### preload\n")
    ours = str((B / "libetch-unwind.so.0").resolve())
    workdir = OUT / "preload"
    shutil.rmtree(workdir, ignore_errors=True)
    workdir.mkdir(parents=True)
    programs = {n: argv for n, argv in PROGRAMS.items() if pathlib.Path(argv[0]).exists()}
    files = sorted({os.path.realpath(f) for argv in programs.values() for f in needed(argv[0])} |
                   {os.path.realpath(f) for n in MADE for f in needed(LIBRARIES / n)})
    sh(B / "etch", "tables", "update", "--directory", workdir / "tables", *files)
    starts(programs, ours, workdir, args)
    if shutil.which("valgrind"):
        walks(ours, workdir)
    making(workdir, args)


def starts(programs, ours, workdir, args):
    ways = {"without": {}, "libgcc_s alone": {"LD_PRELOAD": str(LIBRARIES / "libgcc_s.so.1")}, "preloaded": {"LD_PRELOAD": ours},
            "tables=start": {"LD_PRELOAD": ours, "ETCH_UNWIND_TABLES": "start"},
            "the same, sidecars": {"LD_PRELOAD": ours, "ETCH_UNWIND_TABLES": "start", "ETCH_SIDECAR_DIR": str(workdir / "tables")}}
    rounds = 5 if args.quick else 20
    out = []
    for name, argv in programs.items():
        runs = {way: [] for way in ways}
        for _ in range(rounds):
            for way, env in ways.items():
                runs[way].append(once(argv, {**os.environ, **env}))
        cells = [[statistics.median(column) if i else min(column) for i, column in enumerate(zip(*r))] for r in runs.values()]
        # A child begins with this process's own memory, which hides a smaller peak.
        own = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
        out.append([name, *(f"{wall:.1f}, {cpu:.1f} ms" + (f"; {memory:.0f} MB" if memory > own else "") for wall, cpu, memory in cells)])
    print(f"Least wall time, median of processor time and of peak memory, of {rounds} runs in turn:\n")
    table(["program", *ways], out)
    if not shutil.which("valgrind"):
        return
    out = []
    for name, argv in programs.items():
        if "node" in name:  # valgrind and V8's compiler do not agree
            continue
        mb = sum(sections(f).get(s, 0) for f in set(map(os.path.realpath, needed(argv[0]))) for s in (".eh_frame", ".eh_frame_hdr")) / 1e6
        count = {way: instructions(argv, "--trace-children=no", **env) / 1e6 for way, env in ways.items()}
        more = {way: count[way] - count["libgcc_s alone"] for way in list(ways)[2:]}
        out.append([name, f"{mb:.2f}", *(f"{n:.2f}, {n / mb:.2f}" for n in more.values())])
    print("Million instructions (callgrind) above those with libgcc_s alone, and the same a MB of .eh_frame and .eh_frame_hdr:\n")
    table(["program", "MB", *list(ways)[2:]], out)


def walks(ours, workdir):
    program = workdir / "walks"
    sh("gcc", "-O2", "-Wall", "-Wextra", "-o", program, HERE / "preload.c")
    ways = {"glibc": {}, "preloaded": {"LD_PRELOAD": ours}, "tables=first": {"LD_PRELOAD": ours, "ETCH_UNWIND_TABLES": "first"},
            "tables=never": {"LD_PRELOAD": ours, "ETCH_UNWIND_TABLES": "never"}}
    base = {way: instructions([program, 0], **env) for way, env in ways.items()}
    out = [[f"{n:,}", *(f"{instructions([program, n], **env) - base[way]:,}" for way, env in ways.items())] for n in (1, 100, 10000)]
    print("A program that calls backtrace(3) so many times, 26 frames each: instructions (callgrind) above those of the same "
          "without a call.\n")
    table(["walks", *ways], out)


def making(workdir, args):
    program = workdir / "prepare"
    sh("gcc", "-O2", "-Wall", "-Wextra", "-DPREPARE", "-I", TOP / "lib/include", "-o", program, HERE / "preload.c", B / "libetch.a", "-pthread")

    def cost(*libraries, **env):
        """Processor time in ms and millions of instructions of etch_unwind_prepare()."""
        ms = statistics.median(float(sh(program, *libraries, env={**os.environ, **env}).split()[-1]) / 1e3
                               for _ in range(3 if args.quick else 9))
        count = instructions([program, *libraries], "--toggle-collect=etch_unwind_prepare", **env) if shutil.which("valgrind") else 0
        return ms, count / 1e6

    has = set(map(os.path.realpath, needed(program)))
    sidecars = {"ETCH_SIDECAR_DIR": str(workdir / "tables")}
    base, base_sidecars = cost(), cost(**sidecars)
    out = []
    for library in MADE:
        files = set(map(os.path.realpath, needed(LIBRARIES / library))) - has
        mb = sum(sections(f)[s] for f in files for s in (".eh_frame", ".eh_frame_hdr")) / 1e6
        made, read = cost(LIBRARIES / library), cost(LIBRARIES / library, **sidecars)
        out.append([library, f"{mb:.2f}", *(f"{(a - b) / mb:.2f}" for a, b in zip(made + read, base + base_sidecars))])
    print("Tables for a library, and for those that it needs: a MB of .eh_frame and .eh_frame_hdr.\n")
    table(["library", "MB", "made, ms", "million instructions", "from sidecars, ms", "million instructions"], out)
