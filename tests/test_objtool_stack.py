# SPDX-License-Identifier: MIT
"""`etch objtool --stackval` beside the objtool of Linux 6.1 and 6.12: frames that are built and left wrongly, in each way that
objtool knows, and mutants of them. What objtool warned of is in tests/kernel/stack*.objtool too (written by
`python tests/test_objtool_stack.py OBJTOOL OBJTOOL_6_12`), so that one half needs no objtool."""

import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from conftest import ROOT, run

KERNEL = ROOT / "tests" / "kernel"
RELEASES = {"6.1": [], "6.12": ["-DLINUX_6_12"]}
# Each is asked for by some function of the source.
KINDS = ("call without frame pointer", "return with modified stack frame", "sibling call from callable instruction",
         "unsupported stack pointer realignment", "BP used as a scratch register", "unsupported stack register modification",
         "undefined stack state", "stack state mismatch: cfa1", "stack state mismatch: reg1", "return with DF set",
         "recursive STD", "redundant CLD", "with DF set", "unsupported instruction in callable function",
         "stack layout conflict in alternatives", "missing an ELF size annotation", "falls through to next function",
         "unexpected end of section")


def assembled(directory, release, *flags, source="stack.S"):
    path = Path(directory, f"stack{release}{len(flags)}.o")
    subprocess.run(["gcc", *RELEASES[release], *flags, "-c", str(KERNEL / source), "-o", str(path)], check=True)
    return path


def warned(tool, path, release, *options):
    """The warnings, without the file's name; sorted: the order of sections' functions is each one's own."""
    done = subprocess.run([*map(str, tool), "--stackval", *options, str(path)], capture_output=True, text=True, check=True,
                          env=dict(os.environ, KERNELVERSION=release))
    return sorted(re.findall(r"warning: objtool: (.*)", done.stderr))


def kept(release, reached):
    return KERNEL / f"stack{'_reached' if reached else ''}-{release}.objtool"


@pytest.mark.parametrize("release", RELEASES)
@pytest.mark.parametrize("reached", [False, True])
def test_as_objtool_said(etch, tmp_path, release, reached):
    flags = ["-DREACHED"] if reached else []
    path = assembled(tmp_path, release, *flags)
    was = path.read_bytes()
    mine = warned([etch, "objtool"], path, release)
    assert mine == kept(release, reached).read_text().splitlines()
    assert path.read_bytes() == was
    if not reached:
        assert all(any(k in x for x in mine) for k in KINDS), [k for k in KINDS if not any(k in x for x in mine)]
    else:
        assert mine and not warned([etch, "objtool"], path, release, "--no-unreachable")


def changes(path):
    """Copies of an object's bytes, each with one change of an instruction that concerns the stack."""
    data = path.read_bytes()
    sections = run(["readelf", "-SW", path]).stdout
    [text] = re.findall(r"\] \.text +PROGBITS +\S+ (\S+)", sections)
    listing = run(["objdump", "-d", "-j", ".text", path]).stdout
    for at, code, what in re.findall(r"^ +([0-9a-f]+):\t((?:[0-9a-f]{2} )+) *\t?(.*)$", listing, re.M):
        at, code = int(text, 16) + int(at, 16), bytes.fromhex(code)
        made = []
        if what.startswith(("push ", "pop ")) and len(code) == 1:
            made = [b"\x90", bytes([code[0] ^ 6]), bytes([code[0] ^ 8]), b"\xfd"]
        elif what.startswith("and "):
            made = [code[:-1] + b"\x80", b"\x90" * len(code)]
        elif re.match(r"(add|sub|lea|mov) .*%r[sb]p", what) and len(code) > 2:
            made = [code[:-1] + bytes([code[-1] ^ 8]), code[:-1] + bytes([code[-1] ^ 16]), b"\x90" * len(code)]
        elif what.startswith(("ret", "leave", "cld", "std")):
            made = [b"\x90" * len(code)]
        for new in made:
            yield at, data[:at] + new + data[at + len(code):]


@pytest.mark.parametrize("release", RELEASES)
def test_mutants_as_objtool(etch, request, tmp_path, release):
    tool = request.getfixturevalue("objtool" if release == "6.1" else "objtool_6_12")
    seen, count = set(), 0
    for flags in ([], ["-DREACHED"]):
        path = assembled(tmp_path, release, *flags)
        for at, data in changes(path):
            both = []
            for argv in ([etch, "objtool"], [tool]):
                changed = tmp_path / "changed.o"
                changed.write_bytes(data)
                both.append(warned(argv, changed, release))
            assert both[0] == both[1], (flags, hex(at))
            seen.add(tuple(both[0]))
            count += 1
    assert count > 250 and len(seen) > 120, (count, len(seen))


def main(objtools):
    with tempfile.TemporaryDirectory() as d:
        for (release, _), tool in zip(RELEASES.items(), objtools):
            for reached in (False, True):
                path = assembled(d, release, *(["-DREACHED"] if reached else []))
                kept(release, reached).write_text("\n".join(warned([tool], path, release)) + "\n")


if __name__ == "__main__":
    main(sys.argv[1:])
