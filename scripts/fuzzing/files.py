# SPDX-License-Identifier: MIT
"""Mutates ELF files and runs the sanitized tool on them.

As one job in ten: programs with the sanitized library in them, whose tables alone are damaged. FILEs are
good ones to start from: by default what it makes of tests/data/acceptance, in that time too. Prints
each problem once, with the file in DIR that shows it again. Exit 1 if there was any.
"""
import os
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from progress import Progress

from .common import DATA, ROOT, arguments as common_arguments, environment, keep_make, minutes_left, results
import mutate
import twice

BATCH = 20  # mutants that are looked at before the clock is


def samples_make(build, directory):
    """Objects and linked files, before and after each step."""
    etch, sources, files = build / "etch", DATA / "acceptance", []

    def call(*argv):  # what etch has to say of them is not asked for
        p = subprocess.run([str(a) for a in argv], env=environment(), stderr=subprocess.PIPE, text=True)
        if p.returncode:
            sys.exit(f"{' '.join(str(a) for a in argv)}: exit status {p.returncode}\n{p.stderr}")

    for cc, cxx, tag in (("gcc", "g++", "g"), ("clang", "clang++", "c")):
        compile_flags = ["-O2", "-fPIC", "-I", ROOT / "lib" / "include", "-c", "-o"]
        objects = [directory / f"{tag}-{name}.o" for name in ("app", "other")]
        for o in objects:
            call(cc, *compile_flags, o, sources / (o.stem[2:] + ".c"))
        call(cxx, "-std=gnu++17", "-g", *compile_flags, directory / f"{tag}-cxx1.o", sources / "cxx1.cc")
        call(cc, *compile_flags, directory / f"{tag}-lib.o", sources / "lib.c")
        made = [*objects, directory / f"{tag}-cxx1.o", directory / f"{tag}-lib.o"]
        for o in made:
            files += [shutil.copy(o, directory / f"plain-{o.name}"), o]
            call(etch, "rewrite", o)
        program, library = directory / f"{tag}-program", directory / f"{tag}-lib.so"
        # The library is built with sanitizers, so these programs cannot run, nor need to.
        call(cc, "-Wl,--unresolved-symbols=ignore-all", "-o", program, *objects)
        call(cc, "-shared", "-o", library, directory / f"{tag}-lib.o")
        # Call sites, and sequences for their place.
        pv = DATA / "pv"
        for name, flags in (("tables", []), ("shared_home", ["-fPIC"])):
            o = directory / f"{tag}-{name}.o"
            call(cc, "-O2", *flags, "-w", "-D_GNU_SOURCE", "-I", ROOT / "lib" / "include", "-I", DATA, "-c", "-o", o,
                 pv / f"stress_{name}.c")
            files += [shutil.copy(o, directory / f"plain-{o.name}"), o]
            call(etch, "rewrite", o)
        calls = directory / f"{tag}-calls.so"
        call(cc, "-shared", "-o", calls, directory / f"{tag}-shared_home.o")
        # Exception tables.
        faults = directory / f"{tag}-faults.so"
        o = [directory / f"{tag}-{name}.o" for name in ("tool_template_a", "tool_shapes")]
        call(cxx, *compile_flags, o[0], DATA / "faults" / "tool_template_a.cc")
        call(cc, *compile_flags, o[1], DATA / "faults" / "tool_shapes.S")
        files += o
        call(cc, "-shared", "-o", faults, *o)
        for linked in (program, library, calls, faults):
            arrays = shutil.copy(linked, directory / f"orc-{linked.name}")
            files += [shutil.copy(linked, directory / f"object-{linked.name}"), arrays, linked]
            call(etch, "rewrite", "--encoding", "orc", arrays)
            call(etch, "rewrite", linked)
    # The kernel's tables, where a test has fetched some (scripts/fetch.py).
    files += [ROOT / "build" / "fetch" / "linux" / name for name in ("loop.ko", "raid6_pq.ko")]
    return [str(f) for f in files if os.path.exists(f)]


def programs_make(build, directory):
    """Programs that run, with the sanitized library: (path) of each step and compiler."""
    made = []
    for cc in ("gcc", "clang"):
        for step in ("object", "linked"):
            o, exe = directory / f"{cc}-{step}.o", directory / f"run-{cc}-{step}"
            argv = [cc, "-O2", "-w", "-D_GNU_SOURCE", "-I", ROOT / "lib" / "include", "-c", "-o", o,
                    DATA / "pv" / "stress_tables.c"]
            subprocess.run([str(a) for a in argv], check=True)
            subprocess.run([build / "etch", "rewrite", o], check=True, env=environment())
            # The library's objects are gcc's, and so are their sanitizers.
            subprocess.run(["gcc", "-fsanitize=address,undefined", "-o", exe, o, build / "libetch.a", "-pthread"], check=True)
            if step == "linked":
                subprocess.run([build / "etch", "rewrite", "--only", "imv,pv", exe], check=True, env=environment())
            made.append(str(exe))
    return made


def work(job):
    etch, path, seed, end = job
    if time.monotonic() > end:
        return path, seed, 0, 0, []
    if not etch:
        refused, problems = mutate.library_problems(path, seed, BATCH, environment())
        return path, seed, refused, BATCH - refused, problems
    judge, data, name = mutate.Judge(etch, environment()), Path(path).read_bytes(), Path(path).name
    judge.batch(mutate.Mutator(data, seed), BATCH, name)
    # Of damage to structure: twice is once, and undone.
    damaged = [(name, *twice.damage(data, seed * BATCH + k)) for k in range(BATCH // 4)]
    problems, accepted = twice.judge(etch, damaged, env=environment())
    said = [f"{how}: {what} {mutate.keep(mutant)}" for what, how, mutant in problems]
    return path, seed, judge.refused + len(damaged) - accepted, judge.accepted + accepted, judge.problems + said


def jobs_make(options):
    number, end = options.seed * 1_000_000, float("inf")  # one at least
    while True:
        for etch, path in [*((None, p) for p in options.programs), *((options.etch, p) for p in options.files)]:
            number += 1
            yield etch, path, number, end
            end = options.end
        if time.monotonic() > end:
            return


def arguments(parser):
    common_arguments(parser, "fuzz")


def run(options):
    keep_make(options)
    os.environ["ETCH_FUZZ_KEEP"] = str(options.keep)
    options.etch = str((options.build / "etch").resolve())
    with tempfile.TemporaryDirectory(prefix="etch-fuzz-") as directory:
        options.programs = [] if options.files else programs_make(options.build.resolve(), Path(directory))
        options.files = options.files or samples_make(options.build.resolve(), Path(directory))
        options.end = time.monotonic() + 60 * options.minutes
        return fuzz(options)


def fuzz(options):
    total = refused = 0
    seen, progress = set(), Progress()
    print(f"seed {options.seed}, {len(options.files)} files, {options.jobs} jobs", flush=True)
    for path, seed, no, yes, problems in results(work, jobs_make(options), options.jobs):
        total += no + yes
        refused += no
        for problem in problems:
            # One report for each place: the frames without their addresses.
            key = "".join(line for line in problem.splitlines() if " in " in line or "runtime error" in line)
            if key not in seen or not key:
                seen.add(key)
                progress.end()
                print(f"{path}, seed {seed}:\n{problem}", flush=True)
        progress(f"{total} mutants, {refused} refused, {len(seen)} problems, {minutes_left(options)}", path)
    progress.end()
    print(f"{total} mutants, {refused} refused, {len(seen)} problems")
    return 1 if seen or not total else 0
