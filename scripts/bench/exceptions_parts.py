# SPDX-License-Identifier: MIT
"""The part of scripts/bench/run about throws: libgcc, libetch-exceptions and other unwinders, in one loop of processes.

LIBGCC=DIR and LIBUNWIND=FILE of the environment name another libgcc_s.so.1's directory and LLVM's libunwind.so.1, such as
packages of another release have them unpacked.
"""
import os
import pathlib
import re
import shutil
import statistics
import subprocess

from common import B, HERE, OUT, etch_needed, fail, sh, table

SOURCE = HERE / "exceptions"
DEEP = [(case, depth) for case in ("plain", "destructors") for depth in (5, 20, 100)] + [("catches", 20), ("mixed", 20)]
SHALLOW = ["at", "map", "stoi", "filesystem", "regex"]
LLVM = ["/usr/lib/x86_64-linux-gnu/libunwind.so.1", "/usr/lib/llvm-14/lib/libunwind.so.1"]


def ways():
    ours = str((B / "libetch-exceptions.so.0").resolve())
    out = {"libgcc": {}, "etch": {"LD_PRELOAD": ours}, "etch, abi": {"LD_PRELOAD": ours, "ETCH_EXCEPTIONS": "abi"}}
    if os.environ.get("LIBGCC"):
        out["newer libgcc"] = {"LD_LIBRARY_PATH": os.environ["LIBGCC"]}
    llvm = next((f for f in [os.environ.get("LIBUNWIND", ""), *LLVM] if pathlib.Path(f).is_file()), None)
    if llvm:
        out["LLVM"] = {"LD_PRELOAD": llvm}
    return out


def ask(argv, env):
    """The fastest batch of a process, in ns a throw."""
    r = subprocess.run([str(a) for a in argv], env={**os.environ, **env}, capture_output=True, text=True)
    if r.returncode:
        fail(f"`{' '.join(map(str, argv))}` with {env} ended with {r.returncode}: {r.stderr[-500:]}")
    return min(float(line) for line in r.stdout.split())


def rounds(argv, how, count):
    """For each way its times, in turn, round after round."""
    times = {way: [] for way in how}
    for _ in range(count):
        for way, env in how.items():
            times[way].append(ask(argv, env))
    return times


def ratios(times):
    """Of each way but the first: the median of its time by the first's of the same round, with the quartiles."""
    first, *others = times
    out = []
    for way in others:
        q = statistics.quantiles([a / b for a, b in zip(times[way], times[first])], n=4)
        out.append(f"{q[1]:.3f} ({q[0]:.3f} to {q[2]:.3f})")
    return [f"{statistics.median(times[first]):,.0f}", *out]


def instructions(argv, few, many, env):
    """Of a throw: the difference of two runs."""
    counts = []
    for n in (few, many):
        r = subprocess.run(["valgrind", "--tool=cachegrind", "--cache-sim=no", "--cachegrind-out-file=/dev/null", *map(str, argv), "1", str(n)],
                           env={**os.environ, **env}, capture_output=True, text=True)
        found = re.search(r"I +refs: +([\d,]+)", r.stderr)
        if r.returncode or not found:
            fail(f"valgrind: {r.stderr[-1000:]}")
        counts.append(int(found[1].replace(",", "")))
    return (counts[1] - counts[0]) / (many - few)


def memory(program, env):
    """Anonymous memory that the throws of all sites have added, in KB."""
    return int(sh(program, env={**os.environ, **env}))


def sites_build(workdir, count):
    source = workdir / "sites.cc"
    source.write_text("#include <cstdio>\n#include <cstring>\nstatic long anonymous()\n{\n\tFILE *f = fopen(\"/proc/self/status\", \"r\");\n"
                      "\tchar line[256];\n\tlong kb = 0;\n\twhile (fgets(line, sizeof(line), f))\n\t\tsscanf(line, \"RssAnon: %ld\", &kb);\n"
                      "\tfclose(f);\n\treturn kb;\n}\n" +
                      "".join(f"__attribute__((noinline)) static void f{i}(int n) {{ if (n >= 0) throw n; }}\n" for i in range(count)) +
                      "static void (*const all[])(int) = {" + ", ".join(f"f{i}" for i in range(count)) + "};\nint main()\n{\n\tlong before = anonymous(), sum = 0;\n"
                      "\tfor (auto *f : all)\n\t\ttry {\n\t\t\tf(1);\n\t\t} catch (int n) {\n\t\t\tsum += n;\n\t\t}\n"
                      f"\tif (sum != {count})\n\t\treturn 1;\n\tprintf(\"%ld\\n\", anonymous() - before);\n}}\n")
    sh("g++", "-O1", "-o", workdir / "sites", source)
    return workdir / "sites"


def part_exceptions(args):
    etch_needed()
    workdir = OUT / "exceptions"
    shutil.rmtree(workdir, ignore_errors=True)
    workdir.mkdir(parents=True)
    throws = workdir / "throws"
    sh("g++", "-std=c++17", "-O2", "-ftemplate-depth=300", "-o", throws, SOURCE / "throws.cc", "-pthread")
    how, count = ways(), 5 if args.quick else 21
    head = ["", "libgcc, ns", *(f"{way}, of it" for way in list(how)[1:])]

    print("### exceptions: a throw through frames\n")
    table(head, [[f"{case}, {depth}", *ratios(rounds([throws, case, depth, 5, 20000 // (depth * 4 + 20)], how, count))]
                       for case, depth in DEEP])
    print("### exceptions: the standard library's throws\n")
    table(head, [[case, *ratios(rounds([throws, case, 1, 5, 300], how, count))] for case in SHALLOW])
    print("### exceptions: the first throw of a process\n")
    table(head, [[f"{case}, {depth}", *ratios(rounds([throws, case, depth, 1, 1], how, 4 * count))]
                       for case, depth in (("plain", 5), ("plain", 20), ("destructors", 20), ("at", 1))])
    print("### exceptions: two threads, of one\n")
    rows = []
    for way, env in how.items():
        pairs = [(ask([throws, "mixed", 20, 5, 3000, n], env) for n in (2, 1)) for _ in range(count)]
        q = statistics.quantiles([a / b for a, b in pairs], n=4)
        rows.append([way, f"{q[1]:.2f} ({q[0]:.2f} to {q[2]:.2f})"])
    table(["", "processor time of a throw"], rows)
    print("### exceptions: a chain of return codes\n")
    rows = []
    for case in ("plain", "destructors"):
        codes = [ask([throws, "codes" if case == "plain" else "codes-destructors", 20, 5, 2000], {}) for _ in range(count)]
        etch = [ask([throws, case, 20, 5, 300], how["etch"]) for _ in range(count)]
        rows.append([f"{case}, 20", f"{statistics.median(codes):,.0f}", f"{statistics.median(a / b for a, b in zip(etch, codes)):.0f}"])
    table(["", "codes, ns", "etch, times as long"], rows)
    if shutil.which("rustc"):
        sh("rustc", "-O", "-o", workdir / "panics", SOURCE / "panics.rs")
        print("### exceptions: a Rust panic through 20 frames\n")
        table(head, [["drop in each", *ratios(rounds([workdir / "panics", 5, 300], how, count))]])
    print("### exceptions: memory of 10,000 throws in different places\n")
    sites = sites_build(workdir, 10000)
    table(["", "KB"], [[way, f"{memory(sites, env):,}"] for way, env in how.items() if way in ("libgcc", "etch")])
    if shutil.which("valgrind"):
        print("### exceptions: instructions a throw\n")
        rows = []
        for case, depth in [*DEEP, *((c, 1) for c in SHALLOW)]:
            n = {way: instructions([throws, case, depth], 20, 220, env) for way, env in how.items() if way != "LLVM"}
            rows.append([f"{case}, {depth}", f"{n['libgcc']:,.0f}", *(f"{n[way]:,.0f} ({n[way] / n['libgcc']:.3f})" for way in list(n)[1:])])
        table(["", "libgcc", *list(n)[1:]], rows)
