#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Damaged unwind tables and damaged .eh_frame under sanitizers until the time is up.

usage: fuzz_unwind.py [--minutes N] [--jobs N] [--seed N] [--keep DIR] [FILE...]

Builds tests/unwind/tables.c and cfi_fuzz.c with ASan and UBSan and runs them with one
seed after the other: random rows through both encodings, mutants of the tables,
random bytes for the list of return addresses, mutants of the .eh_frame of FILEs (by
default small ones). A seed that fails is printed with what was
said, and kept in DIR; the same command with that seed shows it again. Exit 1 if there
was any. `make fuzz` calls it.
"""
import argparse
import multiprocessing
import os
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
TESTS = ROOT / "tests" / "unwind"
FLAGS = ["-std=gnu11", "-D_GNU_SOURCE", "-g", "-O1", "-fno-omit-frame-pointer", "-fsanitize=address,undefined",
         "-fno-sanitize-recover=undefined", f"-I{ROOT / 'tool'}", f"-I{ROOT / 'lib'}", f"-I{ROOT / 'lib' / 'include'}"]
COMMON = ["tool/code/space.c", "tool/elf/file.c", "tool/elf/bounds.c", "tool/report/error.c", "tool/report/plain.c"]
DRIVERS = {
    "tables": ["tests/unwind/tables.c", "tests/unwind/tables_calls.c", "tests/unwind/tables_lookup.c",
               "tests/unwind/tables_mutate.c", "tests/unwind/tables_sample.c", "tool/table/unwind_canonical.c",
               "tool/table/unwind_map.c", "tool/table/unwind_numbered.c", "tool/table/unwind_tables.c",
               "tool/table/unwind_runs.c", "tool/arch/x86/callsites.c", "tool/arch/x86/rule_text.c", "tool/arch/x86/decode.c", *COMMON],
    "cfi_fuzz": ["tests/unwind/cfi_fuzz.c", "lib/prepare.c", "tool/code/cfi_file.c", "tool/code/lsda.c", *COMMON],
}
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
    argv, env = job
    try:
        p = subprocess.run(argv, env=env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=LIMIT)
        return argv, p.returncode, p.stdout.decode("utf-8", "replace")
    except subprocess.TimeoutExpired:
        return argv, "hang", ""


def jobs_make(options, directory, end, slots):
    env = dict(os.environ, ASAN_OPTIONS="exitcode=99:detect_leaks=1:allocator_may_return_null=1",
               UBSAN_OPTIONS="halt_on_error=1:exitcode=99:print_stacktrace=1", LSAN_OPTIONS="exitcode=99")
    number = options.seed
    while time.monotonic() < end:
        for driver, *args in ROUNDS:
            slots.acquire()  # imap would take the whole endless list at once
            filled = [options.files if a == "FILES" else [str(number) if a == "SEED" else a] for a in args]
            yield [str(directory / driver), *sum(filled, [])], env
        number += 1


def fuzz(options, directory):
    end, said = time.monotonic() + 60 * options.minutes, time.monotonic()
    slots = threading.Semaphore(2 * options.jobs)
    rounds, seen = 0, set()
    print(f"seed {options.seed}, {len(options.files)} files, {options.jobs} jobs", flush=True)
    with multiprocessing.Pool(options.jobs) as pool:
        for argv, status, text in pool.imap_unordered(work, jobs_make(options, directory, end, slots)):
            slots.release()
            rounds += 1
            if status != 0:
                where = [line for line in text.splitlines() if " in " in line or "runtime error" in line]
                key = "".join(where[:3]) or text.strip()
                if key not in seen:
                    seen.add(key)
                    name = f"{Path(argv[0]).name}-{'-'.join(a for a in argv[1:4] if '/' not in a)}.txt"
                    (options.keep / name).write_text(" ".join(argv) + "\n" + text)
                    print(f"{' '.join(argv)}: {status}\n{text}", flush=True)
            if time.monotonic() - said > 60:
                said = time.monotonic()
                print(f"{rounds} rounds, {len(seen)} problems", flush=True)
    print(f"{rounds} rounds, {len(seen)} problems")
    return 1 if seen else 0


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--minutes", type=float, default=60)
    parser.add_argument("--jobs", type=int, default=os.cpu_count())
    parser.add_argument("--seed", type=int, default=int(time.time()))
    parser.add_argument("--keep", type=Path, default=ROOT / "build-asan" / "fuzz")
    parser.add_argument("files", nargs="*")
    options = parser.parse_args()
    options.keep.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="etch-fuzz-") as name:
        directory = Path(name)
        for driver, sources in DRIVERS.items():
            subprocess.run(["gcc", *FLAGS, "-o", directory / driver, *(ROOT / s for s in sources),
                            "-lZydis", "-lelf", "-ldw", "-ldl"], check=True)
        if not options.files:
            for cxx in ("g++", "clang++"):
                obj, lib = directory / f"{cxx}.o", directory / f"{cxx}.so"
                subprocess.run([cxx, "-O2", "-fPIC", "-c", TESTS / "cfi_objects.cc", "-o", obj], check=True)
                subprocess.run([cxx, "-shared", obj, "-o", lib], check=True)
                options.files += [str(obj), str(lib)]
            options.files.append("/bin/true")
        return fuzz(options, directory)


if __name__ == "__main__":
    sys.exit(main())
