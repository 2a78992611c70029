#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Runs test suites of others that throw, with libgcc's exceptions and with libetch-exceptions preloaded, and compares results and
processor time. Their source comes from Debian's source packages (scripts/fetch.py) and is built in build/exceptions-suites.

    scripts/exceptions_suites.py [--build build] [--suites json,pybind11,boost,rust] [--rounds 5] [--optimize -O1]

json      nlohmann-json: the units of its tests that throw most and need no other data
pybind11  its tests of exceptions and of wrong arguments, with this Python and its pytest
boost     the tests of Boost.Exception and Boost.ThrowException
rust      rustc's tests of panics, unwinding and drops (src/test/ui) that are single files, with the rustc that is installed

Each program runs without the library, with it, and with ETCH_EXCEPTIONS=check: status and output have to be the same, and
with `check` the library has nothing to say. Then it runs in turn without and with the library, --rounds times. The time is the
processor time of the whole process. A program counts as thrown what it raises or raises again, by a library that counts.

Prints one table. Programs with at least 1,000 throws have a row of their own. Exit status 1: there are differences.
"""
import argparse
import os
import re
import resource
import shutil
import statistics
import subprocess
import sys
import sysconfig
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "scripts"))
import fetch  # noqa: E402

PLAIN = {k: v for k, v in os.environ.items() if not k.startswith("ETCH_")}

COUNTER = r"""
#include <dlfcn.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/mman.h>
/* Counts exceptions in the file THROWS_FILE, of 8 bytes. */
static unsigned long none, *count = &none;
static int (*raise_next)(void *), (*rethrow_next)(void *);
__attribute__((constructor)) static void start(void)
{
	const char *name = getenv("THROWS_FILE");
	int fd = name ? open(name, O_RDWR) : -1;
	void *at = fd < 0 ? MAP_FAILED : mmap(0, 8, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (at != MAP_FAILED)
		count = at;
	*(void **)&raise_next = dlsym(RTLD_NEXT, "_Unwind_RaiseException");
	*(void **)&rethrow_next = dlsym(RTLD_NEXT, "_Unwind_Resume_or_Rethrow");
}
int _Unwind_RaiseException(void *e)
{
	__atomic_add_fetch(count, 1, __ATOMIC_RELAXED);
	return raise_next(e);
}
int _Unwind_Resume_or_Rethrow(void *e)
{
	__atomic_add_fetch(count, 1, __ATOMIC_RELAXED);
	return rethrow_next(e);
}
"""


class Program:
    """A test that is built: how it is run, and the status that it has to end with; None: any."""

    def __init__(self, name, argv, cwd, status=0, env=()):
        self.name, self.argv, self.cwd, self.status, self.env = name, [str(a) for a in argv], cwd, status, dict(env)

    def run(self, **env):
        """Status, output without what differs in each run, and processor time in seconds."""
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        try:
            p = subprocess.run(self.argv, env={**PLAIN, **self.env, **env}, cwd=self.cwd, capture_output=True, timeout=900)
            result = p.returncode, *(mask(text.decode(errors="replace")) for text in (p.stdout, p.stderr))
        except subprocess.TimeoutExpired:
            result = "timeout", "", ""
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        return result, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def mask(text):
    """Output without addresses, times and the numbers of threads and processes."""
    text = re.sub(r"0x[0-9a-f]+", "0x", text)
    text = re.sub(r"(thread '[^']*') \(\d+\)", r"\1", text)
    return re.sub(r"\b\d+(\.\d+)?( ?m?s\b| seconds)", "TIME", text)


def built(argv, timeout=1800):
    try:
        p = subprocess.run([str(a) for a in argv], capture_output=True, text=True, timeout=timeout, env={**PLAIN, "RUSTC_BOOTSTRAP": "1"})
    except subprocess.TimeoutExpired:
        return False
    if p.returncode and os.environ.get("VERBOSE"):
        print(p.stderr[-2000:], file=sys.stderr)
    return p.returncode == 0


# ---- the suites: each gives its programs, or None for a test that does not build -------------------------

def json(args, tree, work):
    flags = ["g++", "-std=c++17", args.optimize, "-w", f"-I{tree / 'single_include'}", f"-I{tree / 'tests/thirdparty/doctest'}",
             f"-I{tree / 'tests/thirdparty/fifo_map'}"]
    (work / "test_data.hpp").write_text('#define TEST_DATA_DIRECTORY "none"\n')
    flags.append(f"-I{work}")
    if not (work / "main.o").exists() and not built([*flags, "-c", "-o", work / "main.o", tree / "tests/src/unit.cpp"]):
        sys.exit("exceptions_suites: nlohmann-json's main program does not build")
    for unit in ("class_parser", "conversions", "deserialization", "unicode2", "element_access2", "json_pointer", "iterators2", "element_access1",
                 "reference_access", "modifiers"):
        program = work / unit
        if program.exists() or built([*flags, "-o", program, tree / f"tests/src/unit-{unit}.cpp", work / "main.o"]):
            yield Program(unit, [program, "--no-skip", "--test-case-exclude=check test suite is downloaded"], work)
        else:
            yield None


def pybind11(args, tree, work):
    tests = ("exceptions", "methods_and_attributes", "stl", "kwargs_and_defaults", "enum", "sequences_and_iterators", "callbacks")
    flags = ["g++", "-std=c++17", args.optimize, "-w", "-fPIC", "-fvisibility=hidden", f"-I{tree / 'include'}", f"-I{sysconfig.get_paths()['include']}"]
    objects = []
    for name in ("pybind11_tests", *(f"test_{t}" for t in tests)):
        objects.append(work / f"{name}.o")
        if not objects[-1].exists() and not built([*flags, "-DPYBIND11_TEST_EIGEN=0", "-c", "-o", objects[-1], tree / f"tests/{name}.cpp"]):
            yield None
            return
    suffix = sysconfig.get_config_var("EXT_SUFFIX")
    for name, parts in (("pybind11_tests", objects), ("pybind11_cross_module_tests", [tree / "tests/pybind11_cross_module_tests.cpp"]),
                        ("cross_module_gil_utils", [tree / "tests/cross_module_gil_utils.cpp"]),
                        ("cross_module_interleaved_error_already_set", [tree / "tests/cross_module_interleaved_error_already_set.cpp"])):
        if not (work / f"{name}{suffix}").exists() and not built([*flags, "-shared", "-o", work / f"{name}{suffix}", *parts]):
            yield None
            return
    for name in ("conftest.py", "env.py", "pytest.ini", *(f"test_{t}.py" for t in tests)):
        shutil.copy(tree / "tests" / name, work / name)
    for test in tests:
        yield Program(test, [sys.executable, "-m", "pytest", "-v", "-p", "no:cacheprovider", "-p", "no:xdist", "-p", "no:randomly", f"test_{test}.py"], work,
                      env={"PYTHONPATH": str(work), "PYTHONDONTWRITEBYTECODE": "1", "PYTHONHASHSEED": "0"})


def boost(args, tree, work):
    flags = ["g++", "-std=c++14", args.optimize, "-w", *(f"-I{d}" for d in sorted(tree.glob("libs/**/include")) if (d / "boost").is_dir())]
    threads = [tree / "libs/thread/src" / name for name in ("pthread/thread.cpp", "pthread/once.cpp", "future.cpp")]
    for library in ("exception", "throw_exception"):
        folder = tree / "libs" / library / "test"
        helpers = [*sorted(folder.glob("helper*.cpp")), *sorted(folder.glob("lib*_throw.cpp"))]
        for path in sorted(folder.glob("*_test*.cpp")):
            if not re.search(r"\bmain\s*\(", path.read_text(errors="replace")):
                continue    # a test of what compiles
            program = work / f"{library}-{path.stem}"
            for more in ([], [f"-I{folder}", *helpers], ["-DBOOST_THREAD_BUILD_LIB", *threads]):
                if program.exists() or built([*flags, "-o", program, path, *more, "-pthread"]):
                    yield Program(program.name, [program], work)
                    break
            else:
                yield None


def rust(args, tree, work):
    if not shutil.which("rustc"):
        sys.exit("exceptions_suites: there is no rustc")
    for path in sorted((tree / "src/test/ui").rglob("*.rs")):
        text = path.read_text(errors="replace")
        kind = re.search(r"^// *run-(pass|fail)", text, re.M)
        if not kind or "auxiliary" in path.parts or re.search(r"^// *(aux-build|ignore-test|ignore-linux|only-)|panic=abort|--target", text, re.M):
            continue
        edition = re.search(r"^// *edition: *(\d+)", text, re.M)
        flags = [f for found in re.findall(r"^// *compile-flags: *(.*)$", text, re.M) for f in found.split()]
        env = dict(e.strip().split("=", 1) for e in re.findall(r"^// *exec-env: *(\S+=.*)$", text, re.M))
        program = work / "-".join(path.relative_to(tree / "src/test/ui").with_suffix("").parts)
        if program.exists() or built(["rustc", "-A", "warnings", f"-Copt-level={args.optimize[-1]}", f"--edition={edition[1] if edition else 2015}", *flags, "-o",
                                      program, path], 300):
            yield Program(program.name, [program], work, 0 if kind[1] == "pass" else 101, env)
        else:
            yield None


SUITES = {"json": (json, "nlohmann-json"), "pybind11": (pybind11, "pybind11"), "boost": (boost, "boost-exception"), "rust": (rust, "rust-panics")}


# ---- running -------------------------------------------------------------------------------------

class Row:
    def __init__(self, name):
        self.name, self.same, self.skipped, self.differ, self.throws, self.seconds, self.etch = name, 0, 0, 0, 0, 0.0, 0.0

    def add(self, other):
        for field in ("same", "skipped", "differ", "throws", "seconds", "etch"):
            setattr(self, field, getattr(self, field) + getattr(other, field))

    def cells(self):
        return [self.name, f"{self.same:,}", f"{self.differ:,}", f"{self.skipped:,}", f"{self.throws:,}", f"{self.seconds:.2f}",
                f"{self.etch / self.seconds:.2f}" if self.seconds >= 0.1 else "too short"]


def counter_make(work):
    (work / "counter.c").write_text(COUNTER)
    subprocess.run(["gcc", "-D_GNU_SOURCE", "-O2", "-shared", "-fPIC", "-o", work / "counter.so", work / "counter.c", "-ldl", "-Wl,--no-as-needed",
                    "-l:libgcc_s.so.1"], check=True)
    return work / "counter.so"


def measure(program, args, counter):
    """The row of a program."""
    row, throws = Row(program.name), counter.with_name(f"throws-{os.getpid()}")
    expected, _ = program.run()
    if expected[0] == "timeout" or program.status not in (None, expected[0]):
        row.skipped = 1
        return row
    again, _ = program.run()
    if again != expected:
        print(f"{program.name}: other output in each run, and so only its status is compared", file=sys.stderr)
    for mode in ("1", "check"):
        got, _ = program.run(LD_PRELOAD=str(args.library), ETCH_EXCEPTIONS=mode)
        if got != expected and (again == expected or got[0] != expected[0] or "libetch" in got[2]):
            row.differ = 1
            print(f"{program.name}, ETCH_EXCEPTIONS={mode}: {expected[0]} without, {got[0]} with it\n{got[1][-500:]}\n{got[2][-500:]}", file=sys.stderr)
    row.same = 1 - row.differ
    throws.write_bytes(bytes(8))
    program.run(LD_PRELOAD=str(counter), THROWS_FILE=str(throws))
    row.throws = int.from_bytes(throws.read_bytes(), "little")
    throws.unlink()
    times = [(program.run()[1], program.run(LD_PRELOAD=str(args.library))[1]) for _ in range(args.rounds)]
    row.seconds, row.etch = (statistics.median(t) for t in zip(*times))
    return row


def suite_run(name, args, counter):
    programs, source = SUITES[name]
    try:
        tree = fetch.fetch(source)
    except fetch.Unavailable as e:
        sys.exit(f"exceptions_suites: {e}")
    work = ROOT / "build" / "exceptions-suites" / (name + args.optimize)
    work.mkdir(parents=True, exist_ok=True)
    total, rows = Row(f"**{name}**"), []
    for program in programs(args, tree, work):
        if not program:
            total.skipped += 1
            continue
        row = measure(program, args, counter)
        total.add(row)
        if row.throws >= 1000:
            rows.append(row)
    return [total, *rows]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", default=ROOT / "build")
    parser.add_argument("--suites", default=",".join(SUITES))
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--optimize", default="-O1")
    args = parser.parse_args()
    args.library = (Path(args.build) / "libetch-exceptions.so.0").resolve()
    names = args.suites.split(",")
    if not args.library.exists():
        sys.exit(f"exceptions_suites: {args.library}: there is no such file; `make` builds it")
    if wrong := set(names) - set(SUITES):
        sys.exit(f"exceptions_suites: there is no suite {', '.join(sorted(wrong))}")
    work = ROOT / "build" / "exceptions-suites"
    work.mkdir(parents=True, exist_ok=True)
    counter = counter_make(work)
    head = ["", "the same", "differ", "do not build or run without", "throws", "libgcc, s", "etch, of it"]
    print("| " + " | ".join(head) + " |\n|---|" + "---:|" * (len(head) - 1), flush=True)
    bad = 0
    for name in names:
        for row in suite_run(name, args, counter):
            bad += row.differ
            print("| " + " | ".join(row.cells()) + " |", flush=True)
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
