# SPDX-License-Identifier: MIT
"""The bounds on what is read of DWARF: nothing after a bound is read, even if a search looks at its counter again. What is read before
the bound shows that the same file without so many DIEs or ranges would be understood."""

import pytest

from conftest import INCLUDE, run

DIES_MOST = 1 << 24

PROGRAM = """
#include <etch/imv.h>
ETCHED_SHARED struct conf { int first, second, third, fourth; } conf = {1, 2};
int reads(void) { return conf.first + conf.second; }
void set(void) { conf.second = 4; }
int main(void) { return reads() - 3; }
__asm__(".globl leaves; .type leaves, @function; leaves: lea conf(%rip), %rax; ret; .size leaves, . - leaves");
"""

# A unit with `fill` DIEs that say nothing, a namespace with one, the variable, and a function that returns nothing.
MANY_DIES = """
	.section .note.GNU-stack,"",@progbits
	.section .debug_abbrev,"",@progbits
	.byte 1, 0x11, 1, 0x13, 0x0b, 0, 0
	.byte 2, 0x24, 0, 0, 0
	.byte 3, 0x39, 1, 0, 0
	.byte 4, 0x24, 0, 0x0b, 0x0b, 0x3e, 0x0b, 0x03, 0x08, 0, 0
	.byte 5, 0x13, 1, 0x03, 0x08, 0x0b, 0x0b, 0, 0
	.byte 6, 0x0d, 0, 0x03, 0x08, 0x49, 0x13, 0x38, 0x0b, 0, 0
	.byte 7, 0x34, 0, 0x03, 0x08, 0x49, 0x13, 0x02, 0x18, 0, 0
	.byte 8, 0x2e, 0, 0x03, 0x08, 0x3f, 0x19, 0x27, 0x19, 0x11, 0x01, 0x12, 0x07, 0, 0
	.byte 0
	.section .debug_info,"",@progbits
unit:	.long end - begin
begin:	.value 5
	.byte 1, 8
	.long .debug_abbrev
	.byte 1, 12
number:	.byte 4, 4, 5
	.string "int"
type:	.byte 5
	.string "conf"
	.byte 16
	.macro member name, at
	.byte 6
	.string "\\name"
	.long number - unit
	.byte \\at
	.endm
	member first, 0
	member second, 4
	member third, 8
	member fourth, 12
	.byte 0
	.fill {fill}, 1, 2
	.byte 3, 2, 0
	.byte 7
	.string "conf"
	.long type - unit
	.byte 9, 3
	.quad conf
	.byte 8
	.string "leaves"
	.quad leaves
	.quad 8
	.byte 0
end:
"""


@pytest.mark.parametrize("before", [6, 1], ids=["before the bound", "after it"])
def test_dies(etch, build, tmp_path, before):
    """`before`: the number of the namespace's DIE, counted back from the bound. The number and the structure are two DIEs."""
    (tmp_path / "a.c").write_text(PROGRAM)
    (tmp_path / "dies.s").write_text(MANY_DIES.format(fill=DIES_MOST - before - 2))
    run(["gcc", "-O1", "-g0", f"-I{INCLUDE}", "-o", "a", "a.c", "dies.s", build / "libetch.a", "-pthread", "-ldl"], cwd=tmp_path)
    fields = [line.split("\t") for line in run([etch, "inspect", "fields", "--format", "tsv", tmp_path / "a"]).stdout.splitlines()[1:]]
    said = run([etch, "rewrite", "-o", tmp_path / "b", tmp_path / "a"]).stderr
    if before > 1:
        assert [f[1] for f in fields] == ["first", "second", "third", "fourth"] and "no member information" not in said
        assert not any("leaves" in f[7] for f in fields)
    else:
        assert [f[1] for f in fields] == ["-"] and "note: conf: no member information" in said
        assert "address: leaves" in fields[0][7]  # a function that may return something


# A unit with `functions` functions that share a list of `ranges` ranges, and code whose .eh_frame is late in each function.
MANY_RANGES = """
	.section .note.GNU-stack,"",@progbits
	.file 1 "source.c"
	.text
low:
	.macro late
f\\@:	.cfi_startproc
	.loc 1 7
	push %rbx
	nop
	.cfi_def_cfa_offset 16
	pop %rbx
	.cfi_def_cfa_offset 8
	ret
	.cfi_endproc
	.type f\\@, @function
	.size f\\@, . - f\\@
	.endm
	.rept 64
	late
	.endr
high:	nop
	.section .debug_abbrev,"",@progbits
	.byte 1, 0x11, 1, 0x13, 0x0b, 0x10, 0x17, 0x03, 0x08, 0x11, 0x01, 0x12, 0x07, 0, 0
	.byte 2, 0x2e, 0, 0x55, 0x17, 0, 0
	.byte 3, 0x11, 0, 0x13, 0x0b, 0x11, 0x01, 0x12, 0x07, 0, 0
	.byte 0
	.section .debug_info,"",@progbits
	.long end - begin
begin:	.value 4
	.long .debug_abbrev
	.byte 8
	.byte 1, 12
	.long .debug_line
	.string "source.c"
	.quad low
	.quad high - low
	.rept {functions}
	.byte 2
	.long list
	.endr
	.byte 0
end:	.long last - other
other:	.value 4
	.long .debug_abbrev
	.byte 8
	.byte 3, 12
	.quad high
	.quad 1
last:
	.section .debug_ranges,"",@progbits
list:
	.rept {ranges}
	.quad 0, 1
	.endr
	.quad 0, 0
	.section .debug_line,"",@progbits
"""


@pytest.mark.parametrize("functions,ranges", [(1, 10), (80, 1000)])
def test_ranges(etch, tmp_path, functions, ranges):
    """Where there are more ranges than bytes / 8, no source is found, as without DWARF: 64 functions whose .eh_frame is late are then
    a compiler's. With a source that no compiled function covers, they are assembly."""
    (tmp_path / "a.s").write_text(MANY_RANGES.format(functions=functions, ranges=ranges))
    run(["gcc", "-shared", "-nostdlib", "-o", "a", "a.s"], cwd=tmp_path)
    bounded = functions * ranges > (tmp_path / "a").stat().st_size / 8
    said = run([etch, "check", "--level", "note", "a"], ok=None, cwd=tmp_path).stdout
    assert ("ETCH-N003" in said, "ETCH-C001" in said) == (bounded, not bounded), said
    assert bounded == (functions > 1)
