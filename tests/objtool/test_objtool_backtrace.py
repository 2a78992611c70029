# SPDX-License-Identifier: MIT
"""`etch objtool --backtrace` and `--verbose` beside the objtool of Linux 6.1, 6.12 and 7.2: the lines after a warning that say by
which branches its place is reached. What objtool printed is in tests/data/kernel/backtrace-*.objtool (written by
`python tests/objtool/test_objtool_backtrace.py OBJTOOL OBJTOOL_6_12 OBJTOOL_7_2`), so that one half needs no objtool. The
instructions in the lines of 7.2 are compared with objdump's."""

import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from conftest import DATA, run
from test_objtool import real_objtools

KERNEL = DATA / "kernel"
RELEASES = {"6.1": [], "6.12": ["-DLINUX_6_12"], "7.2": ["-DLINUX_6_12", "-DLINUX_7_2"]}
ALL = ("--hacks=noinstr", "--hacks=jump_label", "--noinstr", "--orc", "--retpoline", "--rethunk", "--sls", "--static-call", "--uaccess",
       "--unret", "--link")
CASES = {"stack": ("stack.S", ("--stackval",)), "noinstr": ("noinstr.S", ("--noinstr", "--unret", "--link")),
         "all": ("noinstr.S", ALL), "sites": ("stack.S", ("--retpoline", "--rethunk", "--sls"))}
OF_6_1 = {"access": ("access.S", ("--orc", "--uaccess")), "frames": ("access.S", ("--stackval",))}  # its alternatives are those of 6.1
EVERY = [(r, c) for r in RELEASES for c in (*CASES, *(OF_6_1 if r == "6.1" else ()))]
# A line of a backtrace; since 7.2 it has the instruction, too, where objtool was built with libopcodes.
STEP = re.compile(r"  \S+:( \((?:alt|branch|branch-cond|call)\)| <=== \((?:sym|hint)\)|)(?= |$)")


def assembled(directory, release, case):
    source, _ = (CASES | OF_6_1)[case]
    path = Path(directory, f"{case}{release}.o")
    subprocess.run(["gcc", *RELEASES[release], "-c", str(KERNEL / source), "-o", str(path)], check=True)
    return path


def printed(tool, path, release, case, *more):
    done = subprocess.run([*map(str, tool), *(CASES | OF_6_1)[case][1], "--dry-run", *more, str(path)], capture_output=True, text=True,
                          check=False, env=dict(os.environ, KERNELVERSION=release, SRCARCH="x86"))
    return re.findall(r"(?:warning|error): objtool: (.*)", done.stderr)


def steps(lines):
    """Without the instructions, and without what the objtool that has none says of itself."""
    return [m[0] if (m := STEP.match(x)) else x for x in lines if "libopcodes" not in x]


def kept(release, case):
    return KERNEL / f"backtrace-{release}-{case}.objtool"


@pytest.mark.parametrize("release,case", EVERY)
def test_as_objtool_said(etch, tmp_path, monkeypatch, release, case):
    """The same lines in the same order."""
    monkeypatch.delenv("srctree", raising=False)
    theirs = kept(release, case).read_text().splitlines()
    assert any(STEP.match(x) for x in theirs) == (case != "sites" or release == "7.2")
    path = assembled(tmp_path, release, case)
    assert steps(printed([etch, "objtool"], path, release, case, "--backtrace")) == theirs


@pytest.mark.parametrize("release,case", [("6.1", "stack"), ("6.12", "all"), ("7.2", "all")])
def test_only_with_the_option(etch, tmp_path, monkeypatch, release, case):
    monkeypatch.delenv("srctree", raising=False)
    theirs = kept(release, case).read_text().splitlines()
    assert printed([etch, "objtool"], assembled(tmp_path, release, case), release, case) == [x for x in theirs if not STEP.match(x)]


def listing(path, section):
    """offset -> mnemonic of objdump."""
    out = run(["objdump", "-d", "-z", "-w", "--no-show-raw-insn", "-j", section, path]).stdout
    return {int(at, 16): name for at, name in re.findall(r"^ +([0-9a-f]+):\t(?:(?:cs|bnd|notrack|repz) )?(\S+)", out, re.M)}


def is_same(mine, theirs):
    """objdump leaves out the size in the name of an instruction."""
    return mine.rstrip("lq") == theirs.rstrip("lq")


def test_instructions_of_7_2(etch, tmp_path, monkeypatch):
    monkeypatch.delenv("srctree", raising=False)
    path = assembled(tmp_path, "7.2", "stack")
    lines = [x for x in printed([etch, "objtool"], path, "7.2", "stack", "--backtrace", "--sec-address") if x.startswith("  ")]
    texts, seen = {s: listing(path, s) for s in (".text", ".text.unlikely", ".altinstr_replacement")}, 0
    for x in lines:
        found = re.match(r"  (?:\S+ \()?(\.[a-z._]+)\+0x([0-9a-f]+)\)?:(?: \(.*?\)| <=== \(.*?\))? +(\S+)", x)
        assert found, x
        if found[1] in texts:
            assert is_same(found[3], texts[found[1]][int(found[2], 16)]), x
            seen += 1
    assert seen > 60
    assert any(re.search(r"without_pointer\+0x1 .*: +callq? +0x\w+ <other>$", x) for x in lines), lines[:4]


@pytest.mark.parametrize("release", ["6.12", "7.2"])
def test_verbose_prints_the_functions_with_a_warning(etch, tmp_path, monkeypatch, release):
    """All instructions of each function, as objdump has them; --verbose has the lines of --backtrace as well."""
    monkeypatch.delenv("srctree", raising=False)
    monkeypatch.setenv("KERNELVERSION", release)
    path = assembled(tmp_path, release, "stack")
    done = run([etch, "objtool", "--stackval", "--dry-run", "--verbose", path])
    theirs = kept(release, "stack").read_text().splitlines()
    assert steps(re.findall(r"warning: objtool: (.*)", done.stderr)) == theirs
    code = done.stdout if release == "7.2" else done.stderr
    functions = re.findall(r"^(\S+):\n((?: +[0-9a-f]+:  .*\n)+)\n", code, re.M)
    warned = {m[1] for x in theirs if (m := re.match(r"([\w.]+)\+0x", x)) and not m[1].startswith(".")}
    assert warned - {"entry_code", "right"} <= {name for name, _ in functions} and len(functions) > 25
    texts = {s: listing(path, s) for s in (".text", ".text.unlikely", ".text.end")}
    for name, lines in functions:
        rows = re.findall(r"^ +([0-9a-f]+):  (\S+)\+0x([0-9a-f]+) +(\S+)", lines, re.M)
        assert len(rows) == lines.count("\n") and {x[1] for x in rows} == {name}
        starts = [int(x[0], 16) for x in rows]
        assert any(all(at in t and is_same(x[3], t[at]) for at, x in zip(starts, rows)) and
                   starts == [at for at in sorted(t) if starts[0] <= at <= starts[-1]] for t in texts.values()), (name, lines)
    monkeypatch.setenv("OBJTOOL_VERBOSE", "1")
    again = run([etch, "objtool", "--stackval", "--dry-run", path])
    assert (again.stdout, again.stderr) == (done.stdout, done.stderr)
    quiet = run([etch, "objtool", "--stackval", "--dry-run", "--quiet", path])
    assert not quiet.stdout and not quiet.stderr


def test_verbose_counts_what_became_errors(etch, tmp_path, monkeypatch):
    monkeypatch.setenv("KERNELVERSION", "7.2")
    path = assembled(tmp_path, "7.2", "stack")
    was = path.read_bytes()
    done = run([etch, "objtool", "--stackval", "--werror", "--verbose", path], ok=1)
    of = [x for x in done.stderr.splitlines() if "error: objtool:   " not in x]
    assert of[-1].endswith(f": error: objtool: {len(of) - 1} warning(s) upgraded to errors") and path.read_bytes() == was


@pytest.mark.parametrize("release,program", real_objtools() or [pytest.param("", "", marks=pytest.mark.skip("no linux-kbuild"))])
def test_the_real_one_says_so_today(tmp_path, release, program):
    if not run([program, "--help"], ok=None, env=dict(os.environ, SRCARCH="x86")).stderr.strip().lower().startswith("usage"):
        pytest.skip("it does not run here")
    for case in (c for r, c in EVERY if r == release):
        path = assembled(tmp_path, release, case)
        assert steps(printed([program], path, release, case, "--backtrace")) == kept(release, case).read_text().splitlines()


def main(objtools):
    with tempfile.TemporaryDirectory() as d:
        for release, tool in zip(RELEASES, objtools):
            for case in (c for r, c in EVERY if r == release):
                lines = steps(printed([tool], assembled(d, release, case), release, case, "--backtrace"))
                kept(release, case).write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    main(sys.argv[1:])
