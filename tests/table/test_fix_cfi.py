# SPDX-License-Identifier: MIT
"""`etch rewrite --fix-cfi` and `--eh-frame=all`: FDEs of the linker that give way to what the code proves. Judges: glibc's
backtrace, pyelftools, single steps."""
import os
import re
import shutil
from pathlib import Path

import pytest

from cfi_files import rows_for_saves
from conftest import DATA, TESTS, run
from test_eh_frame import THROW, fdes

WRONG = """
	.text
	.globl	wrong, pers, unproven, main
	.type	wrong, @function
wrong:	.cfi_startproc
	push	%rbx
	.cfi_adjust_cfa_offset 8
	.cfi_rel_offset rbx, 0
	sub	$16, %rsp			# without .cfi_adjust_cfa_offset
	mov	%rdi, %rbx
	call	*%rbx
	add	$16, %rsp
	pop	%rbx
	.cfi_adjust_cfa_offset -8
	.cfi_restore rbx
	ret
	.cfi_endproc
	.size	wrong, . - wrong
	.type	pers, @function
pers:	.cfi_startproc
	.cfi_personality 0x9b, pointer
	sub	$24, %rsp
	call	*%rdi
	add	$24, %rsp
	ret
	.cfi_endproc
	.size	pers, . - pers
	.type	unproven, @function
unproven: .cfi_startproc
	sub	$24, %rsp
	call	*%rdi
	add	$24, %rsp
	mov	%rsp, stack(%rip)
	mov	stack(%rip), %rax
	.cfi_def_cfa rax, 8			# which only .eh_frame can know
	lea	stack(%rip), %rsp
	mov	%rax, %rsp
	.cfi_def_cfa rsp, 8
	ret
	.cfi_endproc
	.size	unproven, . - unproven
personality: ret
	.data
	.balign	8
pointer: .quad	personality
stack:	.quad	stack
	.section .note.GNU-stack, "", @progbits
"""
MAIN = """
#include <execinfo.h>
#include <stdio.h>
void wrong(void (*)(void)), pers(void (*)(void));
__attribute__((noinline)) void look(void) { void *b[50]; printf("%d\\n", backtrace(b, 50)); }
int main(void) { wrong(look); pers(look); look(); return 0; }
"""


@pytest.fixture
def program(tmp_path):
    (tmp_path / "w.s").write_text(WRONG)
    (tmp_path / "m.c").write_text(MAIN)
    run(["gcc", "-O1", "-o", tmp_path / "m", tmp_path / "m.c", tmp_path / "w.s"])
    return tmp_path / "m"


def symbols(path):
    return {f[2]: int(f[0], 16) for f in map(str.split, run(["nm", path]).stdout.splitlines()) if len(f) == 3}


@pytest.mark.parametrize("option", ["--fix-cfi", "--eh-frame=all"])
def test_a_wrong_fde(option, program, etch, tmp_path):
    """A trace that broke off is whole. What has a personality, or is not proven throughout, stays, and is named."""
    new = tmp_path / "new"
    at, before = symbols(program), fdes(program)
    depth = [int(n) for n in run([program]).stdout.split()]
    said = run([etch, "rewrite", option, "-o", new, program]).stderr
    assert re.search(r"note: wrong: the FDE for \S+ to \S+ is replaced", said)
    assert all(re.search(rf"note: {name}: the FDE for \S+ to \S+ is not replaced: ", said) for name in ("pers", "unproven"))
    now = [int(n) for n in run([new]).stdout.split()]
    assert depth[0] < depth[2] < now[0] and now[1:] == depth[1:]
    after = {a: n for a, n in fdes(new).items() if n}
    assert set(before) <= set(after) and {after[at[n]] for n in ("pers", "unproven")} == {before[at[n]] for n in ("pers", "unproven")}
    run(["readelf", "--debug-dump=frames-interp", new])
    # What unwinders find is judged, not what the linker left.
    found = run([etch, "check", "--level", "error", new], ok=1).stdout
    assert "wrong+" in run([etch, "check", program], ok=1).stdout and "wrong+" not in found and "pers+" in found
    # Later runs keep it, --undo takes it back.
    whole = new.read_bytes()
    for args in ([], [option], ["--eh-frame"], ["--only", "imv"]):
        run([etch, "rewrite", *args, new])
        assert new.read_bytes() == whole, args
    assert option in run(["readelf", "-p", ".note.etch", new]).stdout
    run([etch, "rewrite", "--undo", new])
    assert new.read_bytes() == program.read_bytes()


def test_nothing_wrong_nothing_replaced(etch, tmp_path):
    """Beside --eh-frame, --fix-cfi changes nothing but the note in a file whose FDEs are right."""
    for option in ("--eh-frame", "--fix-cfi"):
        run([etch, "rewrite", option, "-o", tmp_path / option[2:], "/usr/bin/make"])
    assert fdes(tmp_path / "eh-frame") == fdes(tmp_path / "fix-cfi") and 0 not in fdes(tmp_path / "fix-cfi").values()


def test_all_step_by_step(build, tmp_path):
    """Of a static program, glibc's assembly included: what the new FDEs say of the registers is what callers had."""
    (tmp_path / "t.c").write_text((TESTS / "table" / "test_eh_frame.py").read_text().split('PROGRAM = """')[1].split('"""')[0].replace("\\\\", "\\"))
    run(["gcc", "-O2", "-static", "-o", tmp_path / "t", tmp_path / "t.c"])
    out = run([build / "etch", "rewrite", "-v", "--eh-frame=all", tmp_path / "t"]).stdout
    assert int(re.search(r"(\d+) FDEs of the linker replaced", out)[1]) > 1000
    rows_for_saves(tmp_path / "t", tmp_path / "rows")
    run(["gcc", "-std=gnu11", "-D_GNU_SOURCE", "-O2", "-Wall", "-Wextra", "-Werror", "-o", tmp_path / "saves", DATA / "unwind" / "saves.c"])
    last = run([tmp_path / "saves", tmp_path / "rows", os.environ.get("ETCH_STEPS", "30000"), tmp_path / "t"]).stdout.splitlines()[-1]
    count = dict(zip(last.split()[::2], map(int, last.split()[1::2])))
    assert count["wrong-frame"] == count["wrong-value"] == 0 and count["values"] > 10 * count["steps"] > 100000, last


@pytest.mark.parametrize("link", [[], ["-static"]], ids=["shared", "static"])
def test_exceptions(link, build, tmp_path):
    """FDEs with an LSDA are the linker's still, and exceptions run through both kinds."""
    (tmp_path / "t.cc").write_text(THROW)
    run(["g++", "-O2", "-pthread", *link, "-o", tmp_path / "was", tmp_path / "t.cc"])
    run([build / "etch", "rewrite", "--eh-frame=all", "-o", tmp_path / "t", tmp_path / "was"])
    assert run([tmp_path / "t"]).stdout == run([tmp_path / "was"]).stdout == "5106\n"


def test_a_compiler_s_mistake(etch, tmp_path):
    """clang 14 in the distribution's own programs: an epilogue with the CFA of the prologue."""
    path = Path(shutil.which("FileCheck-14") or "/none")
    if not path.exists() or "C001" not in run([etch, "check", "--level", "note", path], ok=None).stdout:
        pytest.skip("no such program")
    said = run([etch, "rewrite", "--fix-cfi", "-o", tmp_path / "new", path]).stderr
    assert "is replaced" in said and "is not replaced" not in said
    assert "C001" not in run([etch, "check", "--level", "note", tmp_path / "new"], ok=None).stdout
    assert run([tmp_path / "new", "--version"]).stdout == run([path, "--version"]).stdout


def test_options(etch):
    for args in (["--fix-cfi", "--no-cfi"], ["--eh-frame=all", "--no-cfi"], ["--fix-cfi", "--sidecar", "d"], ["--fix-cfi", "--only", "imv"],
                 ["--fix-cfi", "--undo"]):
        assert run([etch, "rewrite", *args, "/usr/bin/true"], ok=2).stderr.count("\n") == 1
