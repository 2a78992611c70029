# SPDX-License-Identifier: MIT
"""Assembly that says itself where a row begins and which: `row N` is a place with the CFA at rsp+N, `row undef` one
without a rule, `row rbp16` one with the CFA at rbp+16, `row r13plus8` one with the CFA at r13+8, `row restorer` what a
signal's handler returns to."""

import bisect

from conftest import run

MACROS = """
	.macro	row cfa
at.\\@.\\cfa:
	.endm
	.text
"""


def wrong(etch, tmp_path, source, *flags, args=(), strip=True):
    """Where rows are others than the source says: (symbol, CFA)."""
    file, path = tmp_path / "s.s", tmp_path / "s"
    file.write_text(MACROS + source + '\n\t.section .note.GNU-stack,"",@progbits\n')
    run(["gcc", "-nostdlib", *flags, "-o", path, file])
    places = [line.split() for line in run(["nm", path]).stdout.splitlines() if " at." in line]
    if strip:
        run(["strip", path])
    table = [line.split("\t") for line in run([etch, "inspect", "orc", "--format", "tsv", *args, path]).stdout.splitlines()[1:]]
    starts = [int(r[0], 16) for r in table]
    assert places
    out = []
    for at, _, name in places:
        k = bisect.bisect_right(starts, int(at, 16)) - 1
        cfa = table[k][2] if k >= 0 and int(at, 16) < starts[k] + int(table[k][1], 16) else "undef"
        expected = name.split(".")[2]
        if expected == "restorer":
            cfa = "restorer" if table[k][5] == "signal" else cfa
        if cfa != (f"rsp+{expected}" if expected.isdigit() else expected.replace("rbp", "rbp+").replace("plus", "+")):
            out.append((name, cfa))
    return out


# A program that ends at once.
EXIT = """
	.globl	_start
	.type	_start, @function
_start:	xorl	%edi, %edi
	movl	$60, %eax
	syscall
	.size	_start, .-_start
"""

LIBRARY = ["-shared"]
PROGRAM = ["-static", "-no-pie"]                           # linked to its address: words of data are all there is
PACKED = ["-shared", "-Wl,-z,pack-relative-relocs"]        # so are they here
