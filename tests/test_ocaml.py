# SPDX-License-Identifier: MIT
"""Code as OCaml's compiler makes it, by hand: a trap frame is two words, and who raises takes them off."""

import pytest

from conftest import run

# A handler lies behind a call that raises; it begins with the trap frame gone, as its CFI says.
HANDLER = """
	.text
	.globl	camlM__f
	.type	camlM__f, @function
camlM__f:
	.cfi_startproc
	subq	$24, %rsp
	.cfi_adjust_cfa_offset 24
	leaq	handler(%rip), %r11
	pushq	%r11
	.cfi_adjust_cfa_offset 8
	pushq	16(%r14)
	.cfi_adjust_cfa_offset 8
	movq	%rsp, 16(%r14)
inside:	call	{raises}@PLT
	.cfi_adjust_cfa_offset -16
handler:
	addq	$24, %rsp
	.cfi_adjust_cfa_offset -24
	ret
	.cfi_endproc
	.size	camlM__f, . - camlM__f
"""


def assemble(tmp_path, text, *args):
    (tmp_path / "t.s").write_text(text + '\t.section .note.GNU-stack, "", @progbits\n')
    run(["gcc", "-nostdlib", *args, "-o", tmp_path / "t", tmp_path / "t.s"])
    return tmp_path / "t"


@pytest.mark.parametrize("raises", ["caml_raise_exn", "caml_raise_exception", "caml_reraise_exn", "caml_ml_array_bound_error"])
@pytest.mark.parametrize("args", [["-c"], ["-shared"]], ids=["object", "library"])
def test_handler(etch, tmp_path, raises, args):
    path = assemble(tmp_path, HANDLER.format(raises=raises), *args)
    at = {line.split()[2]: int(line.split()[0], 16) for line in run(["nm", path]).stdout.splitlines() if " t " in line}
    table = [line.split("\t") for line in run([etch, "inspect", "orc", "--format", "tsv", path]).stdout.splitlines()[1:]]
    rows = {name: [r[2] for r in table if int(r[0], 16) <= at[name]][-1] for name in at}
    assert rows["inside"] == "rsp+48" and rows["handler"] == "rsp+32"
    assert "C001" not in run([etch, "check", path], ok=None).stdout
