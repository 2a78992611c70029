#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Runs gcc 12's own tests of exceptions with libgcc's exceptions and with libetch-exceptions preloaded: g++.dg/eh,
g++.old-deja/g++.eh, and libstdc++'s 18_support and 30_threads as far as they have a throw. Their source comes from
Debian's source package (scripts/fetch.py). A test that does not build or run without the library is counted, and no more.

    scripts/gcc_tests.py [--build build] [--cc g++] [--optimize -O0,-O2] [--modes 1,check] [-j N]

Prints each difference of status or output, then a line of counts for each setting. Exit status 1: there are differences.
"""
import argparse
import concurrent.futures
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "scripts"))
import fetch  # noqa: E402


def tests(tree):
    """(file, is it one of libstdc++)"""
    for folder in ("gcc/testsuite/g++.dg/eh", "gcc/testsuite/g++.old-deja/g++.eh"):
        for path in sorted((tree / folder).rglob("*.C")):
            text = path.read_text(errors="replace")
            action = re.search(r"dg-do\s+(\w+)", text)
            if (action[1] if action else "run" if "old-deja" in folder else "compile") == "run":
                yield path, False
    for folder in ("18_support", "30_threads"):
        for path in sorted((tree / "libstdc++-v3/testsuite" / folder).rglob("*.cc")):
            text = path.read_text(errors="replace")
            action = re.search(r"dg-do\s+(\w+)", text)
            if (not action or action[1] == "run") and re.search(r"\bthrow\b|\brethrow_exception\b", text):
                yield path, True


def options(text):
    out = []
    for found in re.finditer(r'dg-(?:additional-)?options\s+"([^"]*)"([^\n]*)', text):
        if "target" not in found[2] or re.search(r"target\s+(\*-\*-\*|c\+\+|x86_64|pthread)", found[2]):
            out += found[1].split()
    return out


def outcome(program, env):
    try:
        p = subprocess.run([program], env=env, capture_output=True, timeout=120, cwd=program.parent)
    except subprocess.TimeoutExpired:
        return "timeout", b"", b""
    # Addresses are others in each run.
    return p.returncode, *(re.sub(rb"0x[0-9a-f]+", b"0x", text) for text in (p.stdout, p.stderr))


def one(path, is_library, args, optimize):
    """None if it does not build or run; else the list of modes in which it differs."""
    text = path.read_text(errors="replace")
    with tempfile.TemporaryDirectory() as directory:
        program = Path(directory) / "test"
        argv = [args.cc, optimize, *options(text), "-w", "-o", program, path, "-pthread"]
        for extra in re.findall(r'dg-additional-sources\s+"?([^"\s}]+)', text):
            argv.append(path.parent / extra)
        if is_library:
            argv += [f"-I{path.parents[len(path.relative_to(args.tree / 'libstdc++-v3/testsuite').parts) - 1] / 'util'}"]
        try:
            built = subprocess.run(argv, capture_output=True, timeout=300).returncode == 0
        except subprocess.TimeoutExpired:
            built = False
        if not built:
            return None
        plain = {k: v for k, v in os.environ.items() if not k.startswith("ETCH_")}
        expected = outcome(program, plain)
        if expected[0]:
            return None
        differ = []
        for mode in args.modes.split(","):
            got = outcome(program, {**plain, "LD_PRELOAD": str(args.library), "ETCH_EXCEPTIONS": mode})
            if got != expected:
                differ.append(f"{mode}: {got[0]} {got[2][-300:].decode(errors='replace')}")
        return differ


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", default="build")
    parser.add_argument("--cc", default="g++")
    parser.add_argument("--optimize", default="-O0,-O2")
    parser.add_argument("--modes", default="1,check")
    parser.add_argument("-j", type=int, default=2)
    args = parser.parse_args()
    args.library = (Path(args.build) / "libetch-exceptions.so.0").resolve()
    try:
        args.tree = fetch.fetch("gcc-tests")
    except fetch.Unavailable as e:
        sys.exit(f"gcc_tests: {e}")
    bad = 0
    for optimize in args.optimize.split(","):
        same = skipped = 0
        all_tests = list(tests(args.tree))
        with concurrent.futures.ThreadPoolExecutor(args.j) as pool:
            results = pool.map(lambda t: one(*t, args, optimize), all_tests)
            for (path, _), differ in zip(all_tests, results):
                if differ is None:
                    skipped += 1
                elif differ:
                    bad += 1
                    print(f"{path.relative_to(args.tree)} {optimize}: " + "; ".join(differ), flush=True)
                else:
                    same += 1
        print(f"{args.cc} {optimize}: {same} the same, {skipped} do not build or run without, {len(all_tests)} in all", flush=True)
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
