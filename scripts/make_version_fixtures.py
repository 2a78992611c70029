#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Files as one commit of etch makes them, for tests/rewrite/test_versions.py: tests/data/versions/COMMIT.

    scripts/make_version_fixtures.py COMMIT              # builds the commit in a temporary directory
    scripts/make_version_fixtures.py --tree DIR COMMIT   # DIR: that commit, with its build in DIR/build
    scripts/make_version_fixtures.py --run COMMIT        # writes no fixtures: runs the programs of this build with the
                                                         # libraries of that commit, and says what does not work

The program is tests/data/versions/*.c of this tree, compiled with that commit's headers; tests/data/versions/README.md says
what each file is for.
"""

import argparse
import hashlib
import json
import lzma
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
SOURCES = ROOT / "tests" / "data" / "versions"
NAMES = ["program", "settings"]

# Each rewritten program: how it is compiled and linked, whether it is stripped before, the options of etch rewrite, and
# the words that it is run with (program.c).
BOTH = ["immediate", "table"]
PROGRAMS = {
    "program": (["-fPIE"], ["-pie"], False, [], BOTH),
    "stripped": (["-fPIE"], ["-pie", "-Wl,-z,noseparate-code"], True, ["--sframe"], BOTH),
    "registers": (["-fPIE"], ["-pie", "-Wl,-z,noseparate-code"], False, ["--registers", "--eh-frame=all"], [*BOTH, "registers"]),
    "orc": (["-fPIE"], ["-pie", "-Wl,-z,noseparate-code"], False, ["--encoding", "orc"], BOTH),
    "noundo": (["-fPIE"], ["-pie", "-Wl,-z,noseparate-code"], False, ["--no-undo"], BOTH),
    "fixed": (["-fno-pie"], ["-no-pie"], False, [], BOTH),
}


def run(*argv, **kw):
    return subprocess.run([str(a) for a in argv], check=True, **kw)


def digest(path):
    return hashlib.sha256(Path(path).read_bytes()).hexdigest()


def tree_of(commit, directory):
    """The commit's source, built."""
    archive = directory / "tree.tar"
    run("git", "-C", ROOT, "archive", "-o", archive, commit)
    (directory / "tree").mkdir()
    run("tar", "-xf", archive, "-C", directory / "tree")
    run("make", "-s", "-j2", "-C", directory / "tree", "all")
    return directory / "tree"


def compiled(include, out, flags):
    """The objects of the program. Paths are relative, so that none is in the files."""
    for name in NAMES:
        run("gcc", "-std=gnu11", "-D_GNU_SOURCE", "-Os", *flags, f"-I{include}", "-c", "-o", out / f"{name}.o", f"{name}.c", cwd=SOURCES)
    return [out / f"{name}.o" for name in NAMES]


def linked(objects, library, out, flags):
    run("gcc", *flags, "-o", out, *objects, f"-L{library}", "-letch", "-pthread")


def make(tree, commit, out):
    with tempfile.TemporaryDirectory(dir="/tmp", prefix="etch-versions-") as scratch:
        scratch = Path(scratch)
        etch, build, files = tree / "build" / "etch", tree / "build", {}
        shutil.rmtree(out, ignore_errors=True)
        out.mkdir(parents=True)
        for name, (cflags, ldflags, stripped, options, words) in PROGRAMS.items():
            objects = compiled(tree / "lib" / "include", scratch, cflags)
            plain = {o.name: digest(o) for o in objects}
            run(etch, "rewrite", *objects)
            if name == "program":
                for o in objects:
                    shutil.copy(o, out)
                    files[o.name] = {"original": plain[o.name], "options": []}
            exe = scratch / name
            linked(objects, build, exe, ldflags)
            if stripped:
                run("strip", exe)
            files[name] = {"original": digest(exe), "options": options, "words": words, "undo": "--no-undo" not in options}
            if name == "program":
                tables(etch, exe, out / "tables")
            run(etch, "rewrite", *options, "-o", out / name, exe)
        # The path in it is the file's name alone.
        findings = run(etch, "check", "--format", "json", "--fail-on", "never", "program", cwd=out, capture_output=True).stdout
        (out / "baseline.json").write_bytes(findings)
        recording(build, out / "program", scratch, out / "recording.tar.xz")
        library = scratch / "libetch.so.0"
        run("strip", "-o", library, build / "libetch.so.0")
        (out / "libetch.so.0.xz").write_bytes(lzma.compress(library.read_bytes(), preset=9 | lzma.PRESET_EXTREME))
        compiler = run("gcc", "--version", capture_output=True, text=True).stdout.splitlines()[0]
        (out / "files.json").write_text(json.dumps({"commit": commit, "compiler": compiler, "files": files}, indent=1) + "\n")


def tables(etch, exe, directory):
    """A directory of tables, with the table of a program that has none itself. The name of the program's copy there is
    written nowhere."""
    directory.mkdir()
    run(etch, "tables", "update", "--directory", directory, exe, stdout=subprocess.DEVNULL)


def recording(build, program, scratch, out):
    """What the recorder of etch heap leaves behind of a run of the program."""
    (scratch / "heap").mkdir()
    for name in ("libetch-heap.so", "libetch.so.0"):
        shutil.copy(build / name, scratch)
    shutil.copy(program, scratch / "recorded")
    environment = {"PATH": os.environ["PATH"], "LD_LIBRARY_PATH": str(scratch), "LD_PRELOAD": str(scratch / "libetch-heap.so"),
                   "ETCH_HEAP": f"1:0:{scratch}/heap"}
    run(scratch / "recorded", env=environment, stdout=subprocess.DEVNULL, cwd=scratch)
    left = list((scratch / "heap").iterdir())
    if len(left) != 1 or left[0].open("rb").read(8) != b"etchheap":
        sys.exit("the recorder has left no recording")
    left[0].rename(scratch / "recording")  # sparse: gigabytes, of which tar keeps what was written
    run("tar", "-C", scratch, "-cSJf", out, "--owner=0", "--group=0", "recording")


def run_with(tree):
    """Programs of this tree with the other's libraries: each works, or says in one line why not. Returns the number of
    those that do neither."""
    bad = 0
    etch = Path(os.environ.get("ETCH_BUILD", ROOT / "build")) / "etch"
    with tempfile.TemporaryDirectory() as scratch:
        scratch = Path(scratch)
        for name, (cflags, ldflags, stripped, options, words) in PROGRAMS.items():
            for headers in (ROOT, tree):
                objects = compiled(headers / "lib" / "include", scratch, cflags)
                run(etch, "rewrite", *objects)
                exe = scratch / name
                p = subprocess.run(["gcc", *ldflags, "-o", exe, *objects, tree / "build" / "libetch.so.0", "-pthread"],
                                   capture_output=True, text=True)
                if not p.returncode:
                    if stripped:
                        run("strip", exe)
                    run(etch, "rewrite", *options, exe)
                    p = subprocess.run([exe, *words], capture_output=True, text=True,
                                       env={**os.environ, "LD_LIBRARY_PATH": str(tree / "build")})
                works = not p.returncode and p.stdout == "done\n"
                said = p.stdout.startswith("refused: ") or "undefined symbol" in p.stderr or "undefined reference" in p.stderr
                refused = p.returncode and said
                bad += not (works or refused)
                whose = "its own headers" if headers == tree else "these headers"
                print(f"{name}, {whose}: {'works' if works else f'exit status {p.returncode}: {p.stdout}{p.stderr}'.strip()}")
    return bad


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("commit")
    parser.add_argument("--tree", type=Path, help="that commit's source with its build, instead of building it")
    parser.add_argument("--run", action="store_true", help="run this tree's programs with that commit's libraries")
    options = parser.parse_args()
    commit = run("git", "-C", ROOT, "rev-parse", options.commit, capture_output=True, text=True).stdout.strip()
    with tempfile.TemporaryDirectory() as scratch:
        tree = options.tree.resolve() if options.tree else tree_of(commit, Path(scratch))
        if options.run:
            sys.exit(1 if run_with(tree) else 0)
        make(tree, commit, SOURCES / commit[:8])


if __name__ == "__main__":
    main()
