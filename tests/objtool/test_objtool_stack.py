# SPDX-License-Identifier: MIT
"""`etch objtool --stackval` beside the objtool of Linux 6.1, 6.12 and 7.2: frames that are built and left wrongly, in each way that
objtool knows, and mutants of them. What objtool warned of is in tests/data/kernel/stack*.objtool too (written by
`python tests/objtool/test_objtool_stack.py OBJTOOL OBJTOOL_6_12 OBJTOOL_7_2`), so that one half needs no objtool."""

import itertools
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
# With --orc the stack is followed, too, but calls need no frame pointer.
PASSES = ("--stackval", "--orc")
OF_POINTERS = ("call without frame pointer", "BP used as a scratch register")
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


def warned(tool, path, release, *options, action="--stackval"):
    """The warnings of a copy, which --orc would change."""
    copy = path.with_name(f"copy-{path.name}")
    copy.write_bytes(path.read_bytes())
    done = subprocess.run([*map(str, tool), action, *options, str(copy)], capture_output=True, text=True, check=False,
                          env=dict(os.environ, KERNELVERSION=release, SRCARCH="x86"))
    return sorted(re.findall(r"warning: objtool: (.*)", done.stderr))


def kept(release, reached, action="--stackval"):
    return KERNEL / f"stack{'_reached' if reached else ''}-{release}{'-orc' if action == '--orc' else ''}.objtool"


@pytest.mark.parametrize("release", RELEASES)
@pytest.mark.parametrize("reached", [False, True])
@pytest.mark.parametrize("action", PASSES)
def test_as_objtool_said(etch, tmp_path, monkeypatch, release, reached, action):
    monkeypatch.delenv("srctree", raising=False)
    flags = ["-DREACHED"] if reached else []
    path = assembled(tmp_path, release, *flags)
    mine = warned([etch, "objtool"], path, release, action=action)
    assert mine == kept(release, reached, action).read_text().splitlines()
    if not reached:
        wanted = [k for k in KINDS if action == "--stackval" or k not in OF_POINTERS]
        assert all(any(k in x for x in mine) for k in wanted), [k for k in wanted if not any(k in x for x in mine)]
    else:
        assert mine and not warned([etch, "objtool"], path, release, "--no-unreachable", action=action)
    assert not warned([etch, "objtool"], path, release, "--skip=stackval", action="--orc")


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


# One path leaves the function without a return, another one returns with a frame.
LEAVES = """
	.globl leaves
	.type leaves, @function
leaves:
	push %rbx
	test %edi, %edi
	je 1f
	pop %rbx
	ret
	int3
1:	test %esi, %esi
	je other+1
	ret
	int3
	.size leaves, . - leaves
	.globl other
	.type other, @function
other:
	nop
	nop
	ret
	int3
	.size other, . - other
"""


@pytest.mark.parametrize("release", RELEASES)
def test_a_path_that_leaves_the_function_ends_alone(etch, tmp_path, monkeypatch, release):
    """With --no-unreachable nothing is said of it, and the other paths are followed."""
    monkeypatch.delenv("srctree", raising=False)
    (tmp_path / "t.s").write_text(LEAVES)
    run(["as", "-o", tmp_path / "t.o", tmp_path / "t.s"])
    tools = [[etch, "objtool"], *([path] for found, path in real_objtools() if found == release)]
    for tool in tools:
        assert warned(tool, tmp_path / "t.o", release, "--no-unreachable") == ["leaves+0xc: return with modified stack frame"], tool
        assert warned(tool, tmp_path / "t.o", release) == ["leaves() falls through to next function other()"], tool


# As the kernel's return thunks are: a label in the immediate of a function that never returns is itself code that does.
EMBEDDED = """
	.type untrains, @function
untrains:
	.byte 0x48, 0xb8
	.globl srso_safe_ret
srso_safe_ret:
	lea 8(%rsp), %rsp
	ret
	int3
	int3
	lfence
	call srso_safe_ret
	ud2
	.size srso_safe_ret, . - srso_safe_ret
	.size untrains, . - untrains
	.globl thunk
	.type thunk, @function
thunk:
	call srso_safe_ret
	nop
	ret
	int3
	.size thunk, . - thunk
"""


@pytest.mark.parametrize("release", RELEASES)
def test_a_label_in_a_function_that_does_not_return(etch, tmp_path, monkeypatch, release):
    """No warning that the code after a call of the label is unreachable; the objtools of all three releases have none."""
    monkeypatch.delenv("srctree", raising=False)
    (tmp_path / "t.s").write_text(EMBEDDED)
    run(["as", "-o", tmp_path / "t.o", tmp_path / "t.s"])
    tools = [[etch, "objtool"], *([path] for found, path in real_objtools() if found == release)]
    for tool in tools:
        assert not [x for x in warned(tool, tmp_path / "t.o", release, action="--orc") if "thunk" in x or "safe" in x], tool


@pytest.mark.parametrize("release", [pytest.param("6.1", marks=pytest.mark.long), "6.12"])
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
            for reached, action in itertools.product((False, True), PASSES):
                path = assembled(d, release, *(["-DREACHED"] if reached else []))
                kept(release, reached, action).write_text("\n".join(warned([tool], path, release, action=action)) + "\n")


if __name__ == "__main__":
    main(sys.argv[1:])
