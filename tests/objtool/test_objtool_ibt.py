# SPDX-License-Identifier: MIT
"""`etch objtool --ibt`: which endbr nothing needs, and addresses taken of code without one; beside the objtool of Linux 6.1 and
6.12, and by what the source says."""

import re
import sys
from pathlib import Path

import pytest

from conftest import ROOT, run

sys.path.insert(0, str(ROOT / "scripts" / "parity"))
import kernel as parity  # noqa: E402
import passes  # noqa: E402

# Functions with endbr64, then those without.
SOURCE = """
.macro function name first=endbr64
	.globl \\name
	.type \\name, @function
\\name:	\\first
	mov %rax, %rbx
	ret
	int3
	.size \\name, . - \\name
.endm
.text
function unused
function called
function jumped_to
function taken_by_code
function taken_relative
function taken_by_data
function taken_by_a_list
function not_by_names
function not_by_debug
function init_module
function by_none nop
function by_code nop
function by_data nop
function by_annotated nop
function __SCT__tramp nop
function local_target
	.type inside, @function
inside:	endbr64
	nop
1:	endbr64
	mov $1b, %rax
	mov $2f, %rax
2:	ret
	int3
	.size inside, . - inside
	.globl user
	.type user, @function
user:	call called
	jmp jumped_to
	mov $taken_by_code, %rdi
	lea taken_relative(%rip), %rdi
	mov $by_code, %rdi
	mov $by_annotated, %rdi
	mov $__SCT__tramp, %rdi
	mov $by_code + 2, %rdi
	movq $by_code, taken_by_data(%rip)
	lea 3f(%rip), %rax
3:	nop
	nopl by_none(%rip)
	ret
	int3
	.size user, . - user
	.section .data
	.quad taken_by_data, by_data, by_annotated, by_data + 2, local_target + 4
	.section .init_calls, "a"
	.long taken_by_a_list - .
	.section _kprobe_blacklist, "aw"
	.quad not_by_names
	.section .debug_info, ""
	.quad not_by_debug
	.section .discard.noendbr
	.quad by_annotated
	.section .discard.ibt_endbr_noseal
	.quad local_target
"""
SEALED = {"unused", "called", "jumped_to", "not_by_names", "not_by_debug", "init_module", "inside"}


def assembled(directory, source=SOURCE):
    path = Path(directory, "a.o")
    run(["as", "-o", path, "-"], input=source)
    return path


def test_what_is_sealed(etch, tmp_path):
    path = assembled(tmp_path)
    said = run([etch, "objtool", "--ibt", "--link", path]).stderr
    o = parity.Object(path)
    text = o.find(".text")[0]
    names = {(str(s[2]), s[3]): s[0] for s in o.symbols if s[2] == text and s[1] & 15 == 2}
    assert {names[what, off] for _, _, what, off in o.sites(".ibt_endbr_seal")} == SEALED
    assert len(re.findall("^.*: relocation to !ENDBR: by_code", said, re.M)) >= 2 and "data relocation to !ENDBR: by_data+0x0" in said
    assert "by_annotated" not in said and "__SCT__" not in said and "by_none" not in said


def test_it_needs_a_linked_object(etch, tmp_path):
    path = assembled(tmp_path)
    was = path.read_bytes()
    assert "requires --link" in run([etch, "objtool", "--ibt", path], ok=2).stderr and path.read_bytes() == was
    two = [tmp_path / "1.o", tmp_path / "2.o"]
    for i, x in enumerate(two):
        run(["as", "-o", x, "-"], input=f'.file "{i}.c"\n.globl f{i}\n.type f{i}, @function\nf{i}: endbr64\nret\n.size f{i}, . - f{i}\n')
    run(["ld", "-r", "-o", path, *two])
    run([etch, "objtool", "--ibt", path])
    assert len(parity.Object(path).sites(".ibt_endbr_seal")) == 2
    assert "already has" in run([etch, "objtool", "--ibt", path]).stderr


@pytest.mark.parametrize("release", ["6.1", "6.12"])
@pytest.mark.parametrize("option", ["", "--module", "--stackval"])
def test_as_objtool(etch, request, tmp_path, release, option):
    """With each line of the source that takes an address left out in turn."""
    tool = request.getfixturevalue("objtool" if release == "6.1" else "objtool_6_12")
    lines = SOURCE.splitlines()
    first = lines.index("	.globl user")
    seen = set()
    for k in [None, *[i for i in range(first, len(lines)) if lines[i].startswith(("	mov", "	lea", "	.quad"))]]:
        path = assembled(tmp_path, "\n".join(x for i, x in enumerate(lines) if i != k) + "\n")
        options = ["--ibt", "--link", *option.split()]
        mine, theirs = (passes.run([*argv, *options], path, release) for argv in ([etch, "objtool"], [tool]))
        assert sorted(mine[0]) == sorted(theirs[0]) and mine[1] == theirs[1], (k and lines[k], mine, theirs)
        seen.add((*sorted(mine[0]), *mine[1][".ibt_endbr_seal"]))
    assert len(seen) >= 5



def test_an_instruction_that_does_not_decode(etch, tmp_path):
    """Anywhere: what its function holds after it is warned of, and counts as using what it refers to; all other functions are
    looked at as before. 0x06 is no instruction in 64-bit code."""
    lines = SOURCE.splitlines()
    begin, end = lines.index("	.globl user"), lines.index("	.section .data")
    mnemonics = ("	call", "	jmp", "	mov", "	lea", "	nop", "	ret", "user:", "3:")
    places = [i for i in range(begin, end) if lines[i].startswith(mnemonics)]
    assert len(places) > 10
    for k in [None, *places]:
        more = [] if k is None else ["	.byte 0x06"]
        text = "\n".join([*lines[:k], *more, *lines[k:]] if more else lines) + "\n"
        if k is not None and lines[k].startswith(("user:", "3:")):
            text = "\n".join([*lines[:k], lines[k].replace(":	", ":	.byte 0x06\n	"), *lines[k + 1:]]) + "\n"
        text += "	.text\n	.globl last\n	.type last, @function\nlast:	mov $not_by_names, %rax\n	jmp __x86_indirect_thunk_rax\n" \
                "	.size last, . - last\n"
        path = assembled(tmp_path, text)
        p = run([etch, "objtool", "--ibt", "--retpoline", "--link", path])
        assert ("can't decode instruction" in p.stderr) == (k is not None)
        o = parity.Object(path)
        code = o.find(".text")[0]
        names = {(str(s[2]), s[3]): s[0] for s in o.symbols if s[2] == code and s[1] & 15 == 2}
        sealed = {names[what, off] for _, _, what, off in o.sites(".ibt_endbr_seal")}
        assert SEALED - {"not_by_names", "called", "jumped_to"} <= sealed <= SEALED - {"not_by_names"}, (k and lines[k], sealed)
        assert len(o.sites(".retpoline_sites")) == 1, k
