# SPDX-License-Identifier: MIT
"""`etch objtool --noinstr --unret` beside the objtool of Linux 6.1, 6.12 and 7.2: code that must not be instrumented and entry code, with
each warning of the two options, what looks alike and is right, and mutants. What objtool warned of is in tests/data/kernel/noinstr-*.objtool
too (written by `python tests/objtool/test_objtool_noinstr.py OBJTOOL OBJTOOL_6_12 OBJTOOL_7_2`), so that one half needs no objtool."""

import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from conftest import ROOT, run
from test_objtool import real_objtools

KERNEL = ROOT / "tests" / "data" / "kernel"
RELEASES = {"6.1": [], "6.12": ["-DLINUX_6_12"], "7.2": ["-DLINUX_6_12", "-DLINUX_7_2"]}
# What vmlinux.o is given where objtool has been run on its parts, and where it has not.
ALONE = ("--noinstr", "--unret", "--link")
ALL = ("--hacks=noinstr", "--hacks=jump_label", "--noinstr", "--orc", "--retpoline", "--rethunk", "--sls", "--static-call", "--uaccess",
       "--unret", "--link")
CASES = {"": (ALONE, []), "-all": (ALL, []), "-unresolved": (ALONE, ["-DUNRESOLVED"]), "-end": (ALONE, ["-DTO_THE_END"])}
KINDS = {"": ("leaves .noinstr.text section", "return with instrumentation enabled", "call to {dynamic}()", "pv_ops[2]: calls_elsewhere",
              "RET before UNTRAIN", "early indirect call"),
         "-all": ("leaves .noinstr.text section", "RET before UNTRAIN", "naked"),
         "-unresolved": ("Unresolved function after linking!?: other",), "-end": ("teh end!",)}


def assembled(directory, release, *flags):
    path = Path(directory, f"noinstr{release}{''.join(flags)}.o")
    subprocess.run(["gcc", *RELEASES[release], *flags, "-c", str(KERNEL / "noinstr.S"), "-o", str(path)], check=True)
    return path


def warned(tool, path, release, *options):
    """The warnings of a copy, in their order, which is part of the comparison."""
    copy = path.with_name(f"copy-{path.name}")
    copy.write_bytes(path.read_bytes())
    done = subprocess.run([*map(str, tool), *options, str(copy)], capture_output=True, text=True, check=False,
                          env=dict(os.environ, KERNELVERSION=release, SRCARCH="x86"))
    return re.findall(r"(?:warning|error): objtool: (.*)", done.stderr)


def kept(release, case):
    return KERNEL / f"noinstr-{release}{case}.objtool"


def judge(request, release):
    """Its objtool; skipped where there is none that runs here."""
    for found, path in real_objtools():
        if found == release and "usage" in run([path, "--help"], ok=None, env=dict(os.environ, SRCARCH="x86")).stderr.lower():
            return path  # that of 7.2 needs a newer libc than some have
    if release == "7.2":
        pytest.skip("no objtool of Linux 7.2")
    return request.getfixturevalue("objtool" if release == "6.1" else "objtool_6_12")


@pytest.mark.parametrize("release", RELEASES)
@pytest.mark.parametrize("case", CASES)
def test_as_objtool_said(etch, tmp_path, monkeypatch, release, case):
    monkeypatch.delenv("srctree", raising=False)
    options, flags = CASES[case]
    mine = warned([etch, "objtool"], assembled(tmp_path, release, *flags), release, *options)
    assert mine == kept(release, case).read_text().splitlines()
    assert all(any(k in x for x in mine) for k in KINDS[case]), [k for k in KINDS[case] if not any(k in x for x in mine)]


def test_each_option_alone_and_skipped(etch, tmp_path, monkeypatch):
    monkeypatch.delenv("srctree", raising=False)
    path = assembled(tmp_path, "7.2")
    both = kept("7.2", "").read_text().splitlines()
    of_unret = [x for x in both if "UNTRAIN" in x or "early indirect" in x]
    assert warned([etch, "objtool"], path, "7.2", *ALONE, "--skip=unret") == [x for x in both if x not in of_unret]
    assert set(of_unret) <= set(warned([etch, "objtool"], path, "7.2", *ALONE, "--skip=noinstr"))
    assert not warned([etch, "objtool"], path, "7.2", *ALONE, "--skip=noinstr,unret")
    # Other warnings of stacks are left out; these are not.
    assert warned([etch, "objtool"], path, "7.2", *ALONE, "--orc", "--skip=stackval") == both


@pytest.mark.parametrize("release", RELEASES)
def test_writes_nothing_and_needs_link(etch, tmp_path, monkeypatch, release):
    monkeypatch.setenv("KERNELVERSION", release)
    path = assembled(tmp_path, release)
    was = path.read_bytes()
    run([etch, "objtool", *ALONE, path])
    assert path.read_bytes() == was
    for option in ("--noinstr", "--unret"):
        assert f"{option} requires --link" in run([etch, "objtool", "--rethunk", option, path], ok=2).stderr
    wrong = "requires an action" if release == "7.2" else "--unret requires --rethunk"
    assert wrong in run([etch, "objtool", "--unret", "--link", path], ok=2).stderr
    assert path.read_bytes() == was
    unresolved = assembled(tmp_path, release, "-DUNRESOLVED")
    was = unresolved.read_bytes()
    run([etch, "objtool", *ALONE, "--static-call", unresolved], ok=2 if release == "6.1" else 0)
    assert release != "6.1" or unresolved.read_bytes() == was
    if release == "7.2":
        assert "error: objtool: calls+0x0: call to elsewhere() leaves" in run([etch, "objtool", *ALONE, "--werror", path], ok=1).stderr


def changes(path):
    """Copies of an object's bytes, each with one instruction of the two sections replaced by nops, or one annotation dropped."""
    data = path.read_bytes()
    sections = run(["readelf", "-SW", path]).stdout
    for name in (".noinstr.text", ".entry.text"):
        [text] = re.findall(rf"\] {re.escape(name)} +PROGBITS +\S+ (\S+)", sections)
        listing = run(["objdump", "-dz", "-w", "-j", name, path]).stdout
        for at, code in re.findall(r"^ +([0-9a-f]+):\t((?:[0-9a-f]{2} )+)", listing, re.M):
            where, size = int(text, 16) + int(at, 16), len(bytes.fromhex(code))
            for new in (b"\x90" * size, b"\xc3" + b"\x90" * (size - 1)):
                yield where, data[:where] + new + data[where + size:]
    for name in re.findall(r"\] \.rela(\.discard\.(?:instr_begin|instr_end|retpoline_safe|validate_unret|annotate_insn)) ", sections):
        at, size = re.search(rf"\] \.rela{re.escape(name)} +RELA +\S+ (\S+) (\S+)", sections).groups()
        entries = range(int(at, 16), int(at, 16) + int(size, 16), 24)
        for k, where in enumerate(entries):  # the same as the one in front
            if k:
                yield where, data[:where + 16] + data[where - 8:where] + data[where + 24:]


REFUSED = ("unsupported instruction at jump label", "can't find", "bad .discard", "hint not an indirect")  # the whole object, by objtool


@pytest.mark.parametrize("release", RELEASES)
def test_mutants_as_objtool(etch, request, tmp_path, release):
    tool = judge(request, release)
    seen, count, refused = set(), 0, 0
    path = assembled(tmp_path, release)
    for at, data in list(changes(path))[::5]:
        changed = tmp_path / "changed.o"
        changed.write_bytes(data)
        mine, theirs = (sorted(warned(argv, changed, release, *ALONE)) for argv in ([etch, "objtool"], [tool]))
        if mine != theirs:
            refused += 1
            assert len(theirs) == 1 and any(x in theirs[0] for x in REFUSED), hex(at)
        seen.add(tuple(mine))
        count += 1
    assert count > 100 and len(seen) > 30 and refused < 6, (count, len(seen), refused)


def main(objtools):
    with tempfile.TemporaryDirectory() as d:
        for (release, _), tool in zip(RELEASES.items(), objtools):
            for case, (options, flags) in CASES.items():
                path = assembled(d, release, *flags)
                kept(release, case).write_text("\n".join(warned([tool], path, release, *options)) + "\n")


if __name__ == "__main__":
    main(sys.argv[1:])
