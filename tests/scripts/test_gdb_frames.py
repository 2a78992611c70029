# SPDX-License-Identifier: MIT
"""scripts/judges/gdb_frames.py, the judge of docs/reports/*-found-bugs.md, and scripts/judges/llvm_frames.py, who was asked beside it: what they
say of rows that are wrong, and that are right."""
import json
import re
import subprocess

import pytest

from conftest import ROOT, run

# What clang -O2 makes of `if (look(a, b)) yes(a, b); else no(a, b);`; in `right` the directive is where it belongs.
CHOOSE = """
	.globl NAME
	.type NAME, @function
NAME:
	.cfi_startproc
	push %rbx
	.cfi_def_cfa_offset 16
	.cfi_offset %rbx, -16
	sub $16, %rsp
	.cfi_def_cfa_offset 32
	call look
	mov (%rax), %rbx
	add $16, %rsp
	RIGHT
NAME_test:
	test %eax, %eax
	je 1f
	.cfi_def_cfa_offset 16
	pop %rbx
	.cfi_def_cfa_offset 8
	jmp look
1:	.cfi_def_cfa_offset 16
	pop %rbx
	.cfi_def_cfa_offset 8
NAME_end:
	ret
	.cfi_endproc
	.size NAME, . - NAME
"""
KEPT = """
	.globl kept
	.type kept, @function
kept:
	.cfi_startproc
	lea look(%rip), %rbp
kept_lost:
	ret
	.cfi_endproc
"""


@pytest.fixture
def library(tmp_path):
    """Its file, and the addresses of its labels."""
    source = tmp_path / "choose.s"
    source.write_text("\t.text\nlook:\tret\n" + CHOOSE.replace("NAME", "wrong").replace("RIGHT", "") +
                      CHOOSE.replace("NAME", "right").replace("RIGHT", ".cfi_def_cfa_offset 16") + KEPT)
    library = tmp_path / "choose.so"
    run(["cc", "-shared", "-nostdlib", "-o", library, source])
    return library, {name: int(a, 16) for a, name in re.findall(r"^(\w+) \w (\w+)$", run(["nm", library]).stdout, re.M)}


def test_it_agrees_with_what_is_known(etch, library):
    library, at = library

    def judge(address):
        return subprocess.run([ROOT / "scripts" / "judges" / "gdb_frames.py", library, f"{address:x}"], capture_output=True, text=True)
    report = json.loads(run([etch, "check", "--format", "json", "--fail-on", "never", library]).stdout)
    found = {int(x["place"]["address"], 16) for x in report["files"][0]["findings"] if x["id"] == "ETCH-C001"}
    assert found == {at["wrong_test"], at["kept_lost"]}
    for name, status, said in (("wrong_test", 1, "CFA+16 WRONG"), ("wrong_end", 0, "gdb is right here"), ("right_test", 0, "gdb is right here"),
                               ("kept_lost", 1, "lost rbp"), ("kept", 0, "gdb is right here")):
        p = judge(at[name])
        assert (p.returncode, said in p.stdout) == (status, True), p.stdout + p.stderr
    assert judge(0).returncode == 2 and "no FDE" in judge(0).stdout


def test_what_llvm_says(library):
    library, at = library
    for name, status, said in (("wrong_test", 1, "modified CFA register RSP but not changed CFA rule"), ("kept_lost", 1, "changed register RBP"),
                               ("right_test", 0, "CFA offset is changed from 32 to 16"), ("wrong_end", 0, "CFA offset is changed from 16 to 8")):
        p = subprocess.run([ROOT / "scripts" / "judges" / "llvm_frames.py", library, f"{at[name]:x}"], capture_output=True, text=True)
        if "no llvm-mc with" in p.stdout:
            pytest.skip(p.stdout.strip())
        assert (p.returncode, said in p.stdout) == (status, True), p.stdout + p.stderr
