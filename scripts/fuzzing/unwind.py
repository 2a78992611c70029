# SPDX-License-Identifier: MIT
"""Damaged unwind tables and damaged .eh_frame under sanitizers.

Builds tests/data/unwind/tables.c and
cfi_fuzz.c with its objects, in DIR (BUILD/fuzz) and in that time too, and runs them with one seed
after the other: random rows through both encodings, mutants of the tables,
random bytes for the list of return addresses, mutants of the .eh_frame of FILEs (by default small
ones, made in DIR). What fails is printed once, as the command that shows it again, and what it said
is kept in DIR. Exit 1 if there was any.
"""
import subprocess
import time
from pathlib import Path

from progress import Progress

from .common import DATA, ROOT, arguments as common_arguments, environment, keep_make, minutes_left, results

PROGRAMS = DATA / "unwind"
FLAGS = ["-std=gnu11", "-D_GNU_SOURCE", "-DETCH_NO_MODULE", "-g", "-O1", "-fno-omit-frame-pointer", "-fsanitize=address,undefined",
         "-fno-sanitize-recover=undefined", f"-I{ROOT / 'tool'}", f"-I{ROOT / 'lib'}", f"-I{ROOT / 'lib' / 'include'}"]
LIBRARIES = ["-lZydis", "-ldw", "-lelf", "-ljson-c", "-lxxhash", "-lm", "-ldl"]
DRIVERS = {"tables": [], "cfi_fuzz": ["unwind/prepare", "unwind/prepare_map"]}  # and the libetch objects they need
# Driver and arguments, SEED standing for the number; a second or a few each.
ROUNDS = [
    ["tables", "mutate", "SEED", "40", "400"],
    ["tables", "lookup", "SEED", "60"],
    ["tables", "mutate", "SEED", "200", "60"],
    ["tables", "canonical", "SEED", "100"],
    ["tables", "calls", "SEED", "40000"],
    ["cfi_fuzz", "SEED", "1500", "FILES"],
]
LIMIT = 600  # a round that takes longer hangs


def work(job):
    argv, env, end = job
    if time.monotonic() > end:
        return argv, None, ""
    try:
        p = subprocess.run(argv, env=env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=LIMIT)
        return argv, p.returncode, p.stdout.decode("utf-8", "replace")
    except subprocess.TimeoutExpired:
        return argv, "hang", ""


def jobs_make(options):
    env, number = environment(), options.seed
    while time.monotonic() < options.end:
        for driver, *args in ROUNDS:
            filled = [options.files if a == "FILES" else [str(number) if a == "SEED" else a] for a in args]
            yield [str(options.keep / driver), *sum(filled, [])], env, options.end
        number += 1


def fuzz(options):
    rounds, seen, progress = 0, set(), Progress()
    print(f"seed {options.seed}, {len(options.files)} files, {options.jobs} jobs", flush=True)
    for argv, status, text in results(work, jobs_make(options), options.jobs):
        rounds += status is not None
        if status not in (0, None):
            where = [line for line in text.splitlines() if " in " in line or "runtime error" in line]
            key = "".join(where[:3]) or text.strip()
            if key not in seen:
                seen.add(key)
                name = f"{Path(argv[0]).name}-{'-'.join(a for a in argv[1:4] if '/' not in a)}.txt"
                (options.keep / name).write_text(" ".join(argv) + "\n" + text)
                progress.end()
                print(f"{' '.join(argv)}: {status}\n{text}", flush=True)
        progress(f"{rounds} rounds, {len(seen)} problems, {minutes_left(options)}", " ".join(argv[:4]))
    progress.end()
    print(f"{rounds} rounds, {len(seen)} problems")
    return 1 if seen or not rounds else 0


def build(options):
    archive = options.keep / "tool.a"  # of which the linker takes what is needed
    archive.unlink(missing_ok=True)
    subprocess.run(["ar", "rcs", archive, *(o for o in (options.build / "o" / "tool").rglob("*.o") if o.name != "main.o")], check=True)
    for driver, parts in DRIVERS.items():
        objects = [options.build / "o" / "lib" / f"{p}.o" for p in parts]
        subprocess.run(["gcc", *FLAGS, "-o", options.keep / driver, *PROGRAMS.glob(f"{driver}*.c"), *objects, archive, *LIBRARIES], check=True)
    if options.files:
        return
    for cxx in ("g++", "clang++"):
        obj, lib = options.keep / f"{cxx}.o", options.keep / f"{cxx}.so"
        subprocess.run([cxx, "-O2", "-fPIC", "-c", PROGRAMS / "cfi_objects.cc", "-o", obj], check=True)
        subprocess.run([cxx, "-shared", obj, "-o", lib], check=True)
        options.files += [str(obj), str(lib)]
    options.files.append("/bin/true")


def arguments(parser):
    common_arguments(parser, "fuzz")


def run(options):
    keep_make(options)
    build(options)
    options.end = time.monotonic() + 60 * options.minutes
    return fuzz(options)
