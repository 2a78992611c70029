# SPDX-License-Identifier: MIT
"""Jump tables of 8-byte addresses in files that are loaded anywhere. A linker may leave 0 in such a table: then only the
relocation, as pyelftools reads it, says where an entry leads."""
import bisect

import pytest
from elftools.elf.elffile import ELFFile

from conftest import run

# Two tables, jumped through with rsp in two places: what is not known to be a target has no row.
SOURCE = """
	.globl	picks
	.type	picks, @function
picks:	pushq	%rbx
	movl	%edi, %eax
	cmpl	$3, %eax
	ja	9f
	testl	%esi, %esi
	jne	5f
	leaq	shallow(%rip), %rcx
	jmp	*(%rcx,%rax,8)
1:	incl	%eax
	jmp	9f
2:	addl	$2, %eax
	jmp	9f
3:	addl	$3, %eax
	jmp	9f
5:	subq	$32, %rsp
	leaq	deep(%rip), %rcx
	jmp	*(%rcx,%rax,8)
6:	addl	$6, %eax
	jmp	8f
7:	addl	$7, %eax
8:	addq	$32, %rsp
9:	popq	%rbx
	ret
	.size	picks, .-picks
	.section .data.rel.ro, "aw"
	.p2align 3
	.hidden	shallow, deep
	.globl	shallow, deep
shallow: .quad	1b, 2b, 3b, 1b
deep:	.quad	6b, 7b, 7b, 8b
	.section .note.GNU-stack,"",@progbits
"""


def built(tmp_path, kind):
    """(path, targets by table): contents as the linker has them, or 0, or packed relocations."""
    source, path = tmp_path / "s.s", tmp_path / "s.so"
    source.write_text(SOURCE)
    run(["gcc", "-nostdlib", "-shared", *(["-Wl,-z,pack-relative-relocs"] if kind == "packed" else []), "-o",
         path, source])
    with open(path, "rb") as f:
        elf = ELFFile(f)
        data = elf.get_section_by_name(".data.rel.ro")
        start, offset, words = data["sh_addr"], data["sh_offset"], data.data()
        rela = elf.get_section_by_name(".rela.dyn")
        filled = {r["r_offset"]: r["r_addend"] for r in rela.iter_relocations()} if rela else {}
        tables = {n: elf.get_section_by_name(".symtab").get_symbol_by_name(n)[0]["st_value"] for n in ("shallow", "deep")}
    assert bool(filled) != (kind == "packed")
    if kind == "zero":
        with open(path, "r+b") as f:
            f.seek(offset)
            f.write(bytes(len(words)))
    at = {start + i: int.from_bytes(words[i:i + 8], "little") for i in range(0, len(words), 8)}
    return path, {n: [filled.get(a + 8 * i, at[a + 8 * i]) for i in range(4)] for n, a in tables.items()}


@pytest.mark.parametrize("kind", ["filled", "zero", "packed"])
def test_where_a_table_leads_the_frame_is_known(etch, tmp_path, kind):
    path, targets = built(tmp_path, kind)
    rows = [line.split("\t") for line in
            run([etch, "inspect", "orc", "--no-cfi", "--format", "tsv", path]).stdout.splitlines()[1:]]
    starts = [int(r[0], 16) for r in rows]

    def cfa(address):
        return rows[bisect.bisect_right(starts, address) - 1][2]

    assert len(set(targets["shallow"] + targets["deep"])) == 6
    assert {cfa(a) for a in targets["shallow"]} == {"rsp+16"} and {cfa(a) for a in targets["deep"]} == {"rsp+48"}
    code = run([etch, "inspect", "code", "--no-cfi", "picks", path]).stdout
    assert code.count(", 4 entries") == 2 and "invalid" not in code
