# SPDX-License-Identifier: MIT
"""`etch objtool --cfi` and `--fineibt` beside the objtool of Linux 6.12 and 7.2: what clang puts in front of functions and indirect
calls, and what is not so. What objtool made and warned of is in tests/data/kernel/cfi-*.objtool (written by `python
tests/objtool/test_objtool_cfi.py OBJTOOL_6_12 OBJTOOL_7_2`); objects that clang compiles are compared where both are there."""

import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from compilers import installed
from conftest import ROOT, run
from test_objtool import real_objtools

sys.path.insert(0, str(ROOT / "scripts" / "parity"))
import kernel as parity  # noqa: E402

KERNEL = ROOT / "tests" / "data" / "kernel"
RELEASES = {"6.12": [], "7.2": ["-DLINUX_7_2"]}
LISTED = ("--orc", "--cfi", "--prefix=11", "--retpoline", "--rethunk", "--sls")
CASES = {("6.12", ""): LISTED, ("7.2", ""): LISTED, ("7.2", "-fineibt"): (*LISTED, "--fineibt"),
         ("7.2", "-alone"): ("--retpoline", "--cfi", "--prefix=11"), ("6.12", "-16"): ("--orc", "--cfi", "--prefix=16")}


def done(tool, path, release, options):
    """Exit status, warnings, and what the tool made of a copy, a line each."""
    copy = path.with_name(f"copy-{path.name}")
    copy.write_bytes(path.read_bytes())
    p = subprocess.run([*map(str, tool), *options, str(copy)], capture_output=True, text=True, check=False,
                       env=dict(os.environ, KERNELVERSION=release, SRCARCH="x86"))
    o = parity.Object(copy)
    out = [f"status {p.returncode}", *re.findall(r"(?:warning|error): objtool: (.*)", p.stderr)]
    out += [f"symbol {name} {value:#x} {size}" for name, _, _, value, size in o.named() if name.startswith("__")]
    out += [f"site {s} {off:#x}" for s in (*parity.SITES, ".cfi_sites") for i in o.find(s) for _, _, _, off in o.relocs(i)]
    return out + [f"row {o.names[s]}+{at:#x} {parity.entry_text(e, release)}" for s, rows in sorted(o.orc().items()) for at, e in rows]


def assembled(directory, release):
    path = Path(directory, f"cfi{release}.o")
    subprocess.run(["gcc", *RELEASES[release], "-c", str(KERNEL / "cfi.S"), "-o", str(path)], check=True)
    return path


def kept(release, case):
    return KERNEL / f"cfi-{release}{case}.objtool"


@pytest.mark.parametrize("release,case", CASES)
def test_as_objtool_did(etch, tmp_path, monkeypatch, release, case):
    monkeypatch.delenv("srctree", raising=False)
    mine = done([etch, "objtool"], assembled(tmp_path, release), release, CASES[release, case])
    assert mine == kept(release, case).read_text().splitlines()
    assert (release == "7.2") == any("no-cfi indirect call!" in x for x in mine)
    assert ("symbol __cfi_tail 0x50 16" in mine) == (release == "7.2")  # up to the function
    assert any(".cfi_sites" in x for x in mine) == (release == "6.12" or case == "-fineibt")


def test_what_needs_what(etch, tmp_path, monkeypatch):
    path = assembled(tmp_path, "7.2")
    was = path.read_bytes()
    for release, options, said in (("7.2", ["--orc", "--cfi"], "--cfi requires --prefix"), ("7.2", ["--orc", "--fineibt"], "--fineibt requires --cfi"),
                                   ("6.12", ["--cfi"], "needs an action"), ("6.12", ["--orc", "--fineibt"], "has no --fineibt"),
                                   ("6.1", ["--orc", "--cfi"], "has no --cfi")):
        monkeypatch.setenv("KERNELVERSION", release)
        assert said in run([etch, "objtool", *options, path], ok=2).stderr
    monkeypatch.setenv("KERNELVERSION", "7.2")
    assert path.read_bytes() == was
    run([etch, "objtool", *LISTED, "--fineibt", "--dry-run", path])
    assert path.read_bytes() == was
    run([etch, "objtool", *LISTED, "--fineibt", "--skip=cfi,fineibt", path])
    o = parity.Object(path)
    assert not o.find(".cfi_sites") and all(s[4] in (4, 5, 6) for s in o.named() if s[0].startswith("__cfi_"))
    path = assembled(tmp_path, "7.2")
    for time in (1, 2):
        p = run([etch, "objtool", *LISTED[1:], "--fineibt", path])
    assert "already has .cfi_sites" in p.stderr
    # A symbol that has grown to the function does not grow again.
    assert {s[4] for s in parity.Object(path).named() if s[0].startswith("__cfi_")} <= {4, 5, 6, 16}


SOURCE = """
int f0(int x) { return x + 1; }
__attribute__((noinline)) int f1(int (*f)(int), int x) { return f(x) + 1; }
int f2(int (*f)(int), int x) { return f(x); }
static int f3(int x) { return x * 3; }
int (*table[])(int) = {f0, f3};
int f4(int x) { return f1(table[x & 1], x) + table[1](x); }
__attribute__((nocf_check)) void f5(void (*f)(void)) { f(); f(); }
"""
FLAGS = ("-O2 -mcmodel=kernel -mno-red-zone -mno-sse -fno-pic -ffreestanding -fno-jump-tables -mretpoline-external-thunk -mharden-sls=all "
         "-mfunction-return=thunk-extern -fsanitize=kcfi -fpatchable-function-entry=11,11 -falign-functions=16 -fcf-protection=branch "
         "-fno-asynchronous-unwind-tables").split()


@pytest.mark.parametrize("release", RELEASES)
def test_objects_of_clang(etch, request, tmp_path, release):
    clang = max(installed(r"clang(-\d+)?"), key=lambda name: int(run([name, "-dumpversion"]).stdout.split(".")[0]), default=None)
    path, source = tmp_path / "a.o", tmp_path / "a.c"
    source.write_text(SOURCE)
    if not clang or subprocess.run([clang, *FLAGS, "-c", source, "-o", path], capture_output=True, check=False).returncode:
        pytest.skip("no clang with -fsanitize=kcfi")
    tools = [p for r, p in real_objtools() if r == release]
    if not tools:
        tools = [request.getfixturevalue("objtool_6_12")] if release == "6.12" else pytest.skip("no objtool of Linux 7.2")
    for options in (LISTED, (*LISTED, "--ibt", "--link"), *([(*LISTED, "--fineibt")] if release == "7.2" else [])):
        mine, theirs = done([etch, "objtool"], path, release, options), done(tools[:1], path, release, options)
        assert mine == theirs
    assert any("__cfi_f3" in x for x in mine)


def main(objtools):
    with tempfile.TemporaryDirectory() as d:
        for (release, case), options in CASES.items():
            path = assembled(d, release)
            kept(release, case).write_text("\n".join(done([objtools[release]], path, release, options)) + "\n")


if __name__ == "__main__":
    main(dict(zip(RELEASES, sys.argv[1:])))
