# SPDX-License-Identifier: MIT
"""`etch inspect cfi`: the rows of .eh_frame as a file has them, beside pyelftools."""

import json
import shutil
from bisect import bisect_right
from pathlib import Path

import pytest
from elftools.elf.elffile import ELFFile

import rows
from cfi_files import check_against
from conftest import run
from inspect_files import schema

LIBDIR = Path("/usr/lib/x86_64-linux-gnu")
FILES = [LIBDIR / "libc.so.6", LIBDIR / "libstdc++.so.6", Path("/usr/bin/bash"),
         *(pytest.param(path, marks=pytest.mark.long) for path in (LIBDIR / "libcrypto.so.3", Path("/usr/bin/git")))]


def cfi(build, path):
    """start -> the columns after the source, and the lines as those of a file without that column."""
    lines = run([build / "etch", "inspect", "cfi", "--format", "tsv", path]).stdout.splitlines()
    assert lines[0].split("\t") == [*rows.HEADER, "registers", "function"]
    cells = [line.split("\t") for line in lines[1:]]
    return {int(c[0], 16): c[7] for c in cells if c[5] != "undef"}, ["\t".join(line.split("\t")[:7]) for line in lines]


def registers(path):
    """The same by pyelftools, where the CFA is no expression: start -> {register: offset from the CFA}."""
    out = {}
    for fde in rows.elf_entries(path):
        if not isinstance(fde, rows.FDE):
            continue
        for line in fde.get_decoded().table:
            if line["cfa"].expr is None:
                out[line["pc"]] = {rows.DWARF_REG[r]: line[r].arg for r in (3, 12, 13, 14, 15)
                                   if r in line and line[r].type == "OFFSET"}
    return out


def saved(text):
    return dict((r, int(at[3:])) for r, at in (x.split("@") for x in text.split(" "))) if text != "-" else {}


@pytest.mark.parametrize("path", FILES, ids=lambda p: p.name)
def test_rows_and_registers(path, build):
    """Row by row those of pyelftools; rbx and r12 to r15 where a row begins."""
    ours, lines = cfi(build, path)
    check_against(rows.cfi_rows(path)[0], rows.parse_tsv(lines))
    seen = 0
    for start, want in registers(path).items():
        if start in ours and "lost" not in ours[start] and "@r" not in ours[start]:
            assert saved(ours[start]) == want, hex(start)
            seen += bool(want)
    assert seen > 1000


def test_what_etch_has_written(build, tmp_path):
    """Of a file with etch's .eh_frame it shows that one; --sframe and --eh-frame can be held beside each other."""
    t = tmp_path / "t"
    run(["objcopy", "--remove-section", ".eh_frame", "--remove-section", ".eh_frame_hdr", "/usr/bin/bash", t])
    assert "has no .eh_frame" in run([build / "etch", "inspect", "cfi", t], ok=2).stderr
    run([build / "etch", "rewrite", "--eh-frame", "--sframe", t])
    ours, lines = cfi(build, t)
    check_against(rows.cfi_rows(t)[0], rows.parse_tsv(lines))
    with open(t, "rb") as f:
        code = [(s["sh_addr"], s["sh_addr"] + s["sh_size"]) for s in ELFFile(f).iter_sections() if s["sh_flags"] & 4]
    assert all(any(lo <= start and end <= hi for lo, hi in code) for start, end in rows.cfi_rows(t)[1])
    assert sum(x != "-" for x in ours.values()) > 1000
    sframe = run([build / "etch", "inspect", "sframe", "--format", "tsv", t]).stdout.splitlines()
    # Both say the same of where a row of .sframe begins, except for rbp that has been popped: its slot still holds it, too. Rows of
    # .eh_frame also begin where another register is stored.
    starts = [(int(x.split("\t")[0], 16), x.split("\t")[2:6]) for x in lines[1:]]
    seen = 0
    for line in sframe[1:]:
        start, _, *cells = line.split("\t")[:6]
        row = starts[bisect_right(starts, int(start, 16), key=lambda r: r[0]) - 1][1]
        if "call" == cells[3] == row[3]:
            assert row[::2] == cells[::2] and cells[1] in ("same", row[1]), (line, row)
            seen += 1
    assert seen > len(sframe) * 0.95


def test_views(build, tmp_path):
    """Text, one function, JSON, an object file, and a rule that no row can hold."""
    etch = build / "etch"
    (tmp_path / "t.s").write_text("""
.text
.globl f
.type f,@function
.size f,g-f
f:  .cfi_startproc
    push %rbx
    .cfi_def_cfa_offset 16
    .cfi_offset rbx, -16
    .cfi_escape 0x10, 0xc, 2, 0x73, 0
    call g
    pop %rbx
    .cfi_def_cfa_offset 8
    .cfi_restore rbx
    ret
    .cfi_endproc
.globl g
.type g,@function
.size g,5
g:  .cfi_startproc
    nop
    .cfi_escape 0x0f, 4, 0x70, 0, 0x38, 0x1e
    ret
    .cfi_endproc
""")
    run(["gcc", "-c", "-o", tmp_path / "t.o", tmp_path / "t.s"])
    run(["gcc", "-shared", "-nostdlib", "-o", tmp_path / "t.so", tmp_path / "t.o"])
    out = run([etch, "inspect", "cfi", "--at", "f", tmp_path / "t.so"]).stdout
    assert "cfi table" in out and "rbx@cfa-16 r12 lost" in out and "(" not in out.split("\n", 1)[1]
    out = run([etch, "inspect", "cfi", "--at", "g", tmp_path / "t.so"]).stdout
    assert "undef" in out and "(a CFA" in out
    for path in (tmp_path / "t.so", tmp_path / "t.o"):
        doc = json.loads(run([etch, "inspect", "cfi", "--json", path]).stdout)
        schema("cfi").validate(doc)
        assert {r["registers"] for r in doc["rows"]} == {"-", "rbx@cfa-16 r12 lost", "r12 lost"}, path
    head = run([etch, "inspect", "cfi", "--format", "tsv", tmp_path / "t.o"]).stdout.splitlines()
    assert head[0].split("\t")[-3:] == ["registers", "section", "function"] and head[1].split("\t")[-2] == ".text"
    shutil.copy(tmp_path / "t.so", tmp_path / "s.so")
    run(["strip", "-R", ".eh_frame", tmp_path / "s.so"])
    assert run([etch, "inspect", "cfi", tmp_path / "s.so"], ok=2).stderr.startswith("etch: ")


LONG_CIE = """
.Lf: ret
.Lend:
    .section .eh_frame,"a",@unwind
0:  .long 1f-.-4
    .long 0
    .byte 1
    .asciz "zR"
    .uleb128 1
    .sleb128 -8
    .byte 16
    .uleb128 1
    .byte 0x1b
    .fill {size}, 1, 0
    .byte 12, 7, 8, 0x90, 1
    .balign 8
1:  .long 2f-.-4
    .long .-0b
    .long .Lf-.
    .long .Lend-.Lf
    .byte 0
    .balign 8
2:  .long 0
"""


@pytest.mark.parametrize("size, read", [(4000, True), (5000, False)])
@pytest.mark.parametrize("form", ["text", "tsv", "json"])
def test_entries_that_are_not_read(build, tmp_path, size, read, form):
    """Rows that are missing here, though the file has them, are said to be."""
    (tmp_path / "t.s").write_text(LONG_CIE.format(size=size))
    run(["gcc", "-shared", "-nostdlib", "-o", tmp_path / "t.so", tmp_path / "t.s"])
    p = run([build / "etch", "inspect", "cfi", "--format", form, tmp_path / "t.so"])
    said = f"etch: {tmp_path}/t.so: 2 entries of .eh_frame are not shown: etch cannot read them, or the CIE\n"
    assert p.stderr == ("" if read else said)
    assert ("rsp+8" in p.stdout) == read
    found = json.loads(run([build / "etch", "check", "--format", "json", tmp_path / "t.so"], ok=None).stdout)["files"][0]["findings"]
    assert [x["text"] for x in found if x["id"] == "ETCH-C008"] == \
        ([] if read else ["the CIE at offset 0 of .eh_frame: it has more than 4,096 bytes"])
