# SPDX-License-Identifier: MIT
"""What etch says of code that has neither symbols nor .eh_frame: how much of it has rows, and which function is around an
address."""

import json
import re

import pytest

from conftest import run
from marked_rows import MACROS, PROGRAM
from test_starts_padding import FILL, FUNCTIONS, image


def summary(etch, path):
    return json.loads(run([etch, "inspect", "summary", "--format", "json", path]).stdout)["code"]


def build(tmp_path, source, *flags):
    path = tmp_path / "s"
    run(["gcc", "-nostdlib", *flags, "-x", "assembler", "-o", path, "-"],
        input=MACROS + source + '\n\t.section .note.GNU-stack,"",@progbits\n')
    run(["strip", path])
    return path


UNKNOWN = """
	.p2align 4, 0xcc
	movl	%edi, %eax
	pushq	%rax
	.rept	100
	addl	%eax, %eax
	.endr
	ret
"""


@pytest.mark.parametrize("name", ["functions", "image", "with code that is not understood"])
def test_coverage_is_of_all_code_but_padding(etch, tmp_path, name):
    source = {"functions": FUNCTIONS.replace("fill", FILL["zeros"].replace("ALIGN", "4")), "image": image("0xcc")}
    path = build(tmp_path, source.get(name, FUNCTIONS.replace("fill", FILL["int3"].replace("ALIGN", "4")) + UNKNOWN), *PROGRAM)
    c = summary(etch, path)
    rows = c["coverage"]
    assert sum(rows.values()) + c["padding"] == c["bytes"]
    assert rows["undefined"] == c["undefined_in_functions"] + c["undefined_elsewhere"]
    assert c["padding"] > 0
    said = run([etch, "rewrite", "-v", "-o", tmp_path / "out", path]).stdout
    share = float(re.search(r"([\d.]+)% of the code covered", said)[1])
    assert abs(share - 100 * (1 - rows["undefined"] / (c["bytes"] - c["padding"]))) < 0.001
    if name.startswith("with"):
        assert c["undefined_elsewhere"] >= 200 and share < 50
        assert f"{c['undefined_elsewhere']} where no function was found" in said
    text = run([etch, "inspect", "summary", path]).stdout
    assert f"{c['padding']} are padding between functions" in text
    assert ("where no function was found" in text) == bool(c["undefined_elsewhere"])
    table = json.loads(run([etch, "inspect", "summary", "--format", "json", tmp_path / "out"]).stdout)["unwind"]
    assert table["padding"] == c["padding"] and table["covered"] == c["bytes"] - c["padding"] - rows["undefined"]


# An FDE for the first function only, as where a C library is linked statically with code of another compiler.
MIXED = image("0xcc").replace("_start:\t", "_start:\t.cfi_startproc\n\t").replace("\tud2\n", "\tud2\n\t.cfi_endproc\n", 1)


@pytest.mark.parametrize("source", [MIXED, image("0xcc"), image("0")], ids=["one FDE", "int3", "zeros"])
def test_an_address_shows_its_function_alone(etch, tmp_path, source):
    run(["gcc", "-nostdlib", *PROGRAM, "-x", "assembler", "-o", tmp_path / "named", "-"], input=MACROS + source)
    at = {line.split()[2]: int(line.split()[0], 16) for line in run(["nm", tmp_path / "named"]).stdout.splitlines()}
    path = build(tmp_path, source, *PROGRAM)
    for name, inside, behind in (("method9", 40, "thrower9"), ("thrower9", 5, "leaf9"), ("leaf9", 0, "method10")):
        shown = json.loads(run([etch, "inspect", "code", "--json", hex(at[name] + inside), path]).stdout)
        lines = [int(x["address"], 16) for x in shown["code"]]
        assert lines[0] == at[name] and lines[-1] < at[behind], (name, hex(lines[0]), hex(lines[-1]))
