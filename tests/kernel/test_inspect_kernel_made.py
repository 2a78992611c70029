# SPDX-License-Identifier: MIT
"""etch inspect on files as any version of the Linux kernel has them, made from assembly:
layouts, whose tables they are, what is malformed."""

import json
import os
import random
import re
import struct

import pytest
from elftools.elf.elffile import ELFFile

from conftest import DATA, Flow, asan_env, run
from kernel_views import document, orc, tables
from reader import EX_TYPES


# ---- layouts of other versions ------------------------------------------------------------------

BODY = (DATA / "kernel" / "code.s").read_text()

RELEASE = '\t.section .modinfo, "a"\n\t.asciz "vermagic=%s SMP mod_unload "\n'


def build(tmp_path, text, linked, name="k"):
    """An object of `text`; or vmlinux, with a banner instead of .modinfo."""
    if linked:
        text = re.sub(r'(?s)\t\.section \.modinfo.*?vermagic=(\S+) .*?\n',
                      r'\t.section .rodata, "a"\n\t.asciz "Linux version \1 (x@y)"\n\t.section __ksymtab, "a"\n\t.long 0\n', text)
    src = tmp_path / f"{name}.S"
    src.write_text(BODY + text)
    out = tmp_path / f"{name}.o"
    run(["gcc", "-c", "-o", out, src])
    if linked:
        exe = tmp_path / f"{name}.vmlinux"
        run(["ld", "-e", "f", "-Ttext=0xffffffff81000000", "-o", exe, out])
        return exe
    return out


def f_address(path):
    with open(path, "rb") as f:
        return ELFFile(f).get_section_by_name(".symtab").get_symbol_by_name("f")[0]["st_value"]


def at(path, offset):
    """The text of an address of .text."""
    with open(path, "rb") as f:
        if ELFFile(f)["e_type"] == "ET_REL":
            return f".text+0x{offset:x}"
    return f"{f_address(path) + offset:x}"


ALT = {
    "6.3 and later": "\t.long 3b - ., 6b - .\n\t.short 4*32+23, 2\n\t.byte 5, 4\n"
                     "\t.long 4b - ., 6b - .\n\t.short 9*32+3, 1\n\t.byte 3, 0\n",
    "5.13 to 6.2": "\t.long 3b - ., 6b - .\n\t.short 4*32+23\n\t.byte 5, 4\n"
                   "\t.long 4b - ., 6b - .\n\t.short 0x8000 + 9*32+3\n\t.byte 3, 0\n",
    "4.1 to 5.12": "\t.long 3b - ., 6b - .\n\t.short 4*32+23\n\t.byte 5, 4, 0\n"
                   "\t.long 4b - ., 6b - .\n\t.short 0x8000 + 9*32+3\n\t.byte 3, 0, 1\n",
}


@pytest.mark.parametrize("linked", [False, True])
@pytest.mark.parametrize("layout", ALT)
def test_alternatives_of_versions(etch, tmp_path, layout, linked):
    """Entries tell, whatever the release says: distributions carry changes back."""
    path = build(tmp_path, f'\t.section .altinstructions, "a"\n{ALT[layout]}{RELEASE % "5.10.0"}', linked)
    head, rows = tables(etch, path)[".altinstructions"]
    document(etch, "tables", path)
    assert f"layout of {layout} (from its entries)" in head and "2 entries" in head
    a, b = rows
    assert (a["instruction"], a["length"], a["new_length"], a["feature"], a["cpuid"]) == (
        at(path, 10), "5", "4", "4*32+23", "1:ecx bit 23")
    assert a["flags"] == ("direct-call" if layout[0] == "6" else "-")
    assert (a["name"], a["original"], a["new"]) == ("f+0xa", "callq g", "popcntl %edi, %eax")
    assert (b["feature"], b["cpuid"], b["flags"], b["new"], b["original"]) == (
        "9*32+3", "7.0:ebx bit 3", "not", "nop", "movq (%rdi), %rax")


EX = {
    "5.16 and later": "\t.long 4b - ., 5b - ., 17 | 2 << 8 | 1 << 12 | (-14 << 16)\n",
    "4.6 to 5.15": "\t.long 4b - ., 5b - ., g - .\n",
}


@pytest.mark.parametrize("linked", [False, True])
@pytest.mark.parametrize("layout", EX)
def test_exceptions_of_versions(etch, tmp_path, layout, linked):
    path = build(tmp_path, f'\t.section __ex_table, "a"\n{EX[layout]}{RELEASE % "6.1.0"}', linked)
    head, (r,) = tables(etch, path)["__ex_table"]
    document(etch, "tables", path)
    assert f"layout of {layout} (from its entries)" in head
    assert (r["instruction"], r["fixup"], r["name"], r["to"], r["problem"]) == (
        at(path, 15), at(path, 18), "f+0xf", "f+0x12", "-")
    if layout[0] == "5":
        assert (r["type"], r["register"], r["flags"], r["immediate"]) == ("imm-reg", "2", "1", "-14")
    else:
        assert r["handler"] == "g"


def test_types_of_exceptions(etch, tmp_path):
    """Each as the kernel's header calls it, and by its number where that has none."""
    names = dict(enumerate(EX_TYPES))
    assert len(names) == 22
    path = build(tmp_path, '\t.section __ex_table, "a"\n' +
                 "".join(f"\t.long 4b - ., 5b - ., {i}\n" for i in range(24)) + RELEASE % "6.1.0", False)
    got = [r["type"] for r in tables(etch, path)["__ex_table"][1]]
    assert got == [names.get(i, str(i)) for i in range(24)]


BUG = {
    "6.19 and later": "\t.long 5b - ., 8b - ., 7b - .\n\t.short 77, 0x0911\n",
    "before 6.19": "\t.long 5b - ., 7b - .\n\t.short 77, 0x0901\n",
    "without file and line": "\t.long 5b - .\n\t.short 0x0901, 0\n",
}


@pytest.mark.parametrize("linked", [False, True])
@pytest.mark.parametrize("layout", BUG)
def test_bugs_of_versions(etch, tmp_path, layout, linked):
    path = build(tmp_path, f'\t.section __bug_table, "aw"\n{BUG[layout] * 3}{RELEASE % "6.1.0"}', linked)
    head, rows = tables(etch, path)["__bug_table"]
    document(etch, "tables", path)
    assert f"layout of {layout} (from its entries)" in head and (len(rows) == 3 or linked)
    r = rows[0]
    assert (r["instruction"], r["name"], r["taint"]) == (at(path, 18), "f+0x12", "9")
    assert r["flags"] == ("warning,format" if layout[0] == "6" else "warning")
    assert r["format"] == ("it is %d" if layout[0] == "6" else "-")
    if layout[0] != "w":
        assert (r["file"], r["line"]) == ("drivers/x.c", "77")


OTHERS = """
	.section .parainstructions, "a"
	.balign 8
	.quad 3b
	.byte 44, 5
	.balign 8
	.section __jump_table, "aw"
	.balign 8
	.long 2b - ., 4b - .
	.quad key + 1 - .
	.long 2b - ., 4b - .
	.quad key + 2 - .
	.section .static_call_sites, "aw"
	.balign 8
	.long 3b - ., key + 1 - .
	.section .smp_locks, "a"
	.long 1b - .
	.section .call_sites, "a"
	.long 3b - .
	.section .ibt_endbr_seal, "a"
	.long f - .
	.section __mcount_loc, "a"
	.quad f
"""


@pytest.mark.parametrize("linked", [False, True])
def test_tables_of_one_layout(etch, tmp_path, linked):
    path = build(tmp_path, OTHERS + RELEASE % "6.1.0", linked)
    document(etch, "tables", path)
    got = {n: [{k: v for k, v in r.items() if k not in ("instruction", "target", "key")} for r in rows]
           for n, (_, rows) in tables(etch, path).items() if rows}
    assert got == {
        ".parainstructions": [{"length": "5", "slot": "44", "name": "f+0xa", "original": "callq g", "problem": "-"}],
        "__jump_table": [{"flags": flags, "name": "f+0x5", "to": "f+0xf", "key_name": "key",
                          "now": "nopl (%rax, %rax)", "problem": "-"} for flags in ("branch", "objtool")],
        ".static_call_sites": [{"flags": "tail", "name": "f+0xa", "key_name": "key", "now": "callq g", "problem": "-"}],
        ".smp_locks": [{"name": "f+0x2", "now": "lock incl (%rdi)", "problem": "-"}],
        ".call_sites": [{"name": "f+0xa", "now": "callq g", "problem": "-"}],
        ".ibt_endbr_seal": [{"name": "f", "now": "nop", "problem": "-"}],
        "__mcount_loc": [{"name": "f", "now": "nop", "problem": "-"}],
    }


SP, BP, PREV, BP_IND, SP_IND, AX, R10 = 5, 4, 1, 8, 9, 10, 6


def orc_text(entries):
    ip = "".join(f"\t.long f + {i} - .\n" for i in range(len(entries)))
    return ('\t.section .orc_unwind_ip, "a"\n' + ip + '\t.section .orc_unwind, "a"\n' +
            "".join(f"\t.short {sp}, {bp}, {spr | bpr << 4 | bits << 8}\n" for sp, bp, spr, bpr, bits in entries))


HASH = {
    "6.3": "db84aed4103b31dd51e017f8f79783ca985c2c51",
    "6.4 and later": "fe5d32bf581bd63b2ca9a5c65ba5a625eab3fe24",
    "7.2 and later": "137c36ad7627c4dd55932176bb0ecdbd5041fc82",
    "new": "00112233445566778899aabbccddeeff00112233",
}


def orc_header(which):
    return '\t.section .orc_header, "a"\n\t.byte ' + ", ".join(f"0x{b:02x}" for b in bytes.fromhex(HASH[which])) + "\n"


# (sp_offset, bp_offset, sp_reg, bp_reg, bits from 8 on) and the row it is.
ROWS = {
    "6.2 and before": [
        ((8, 0, SP, 0, 0), "rsp+8 same cfa-8 call"), ((16, -16, BP, PREV, 0), "rbp+16 cfa-16 cfa-8 call"),
        ((0, 0, SP, 0, 1), "*(rsp+152)+0 *(rsp+32) *(rsp+128) regs"), ((8, 0, SP, 0, 2), "*(rsp+32)+0 same *(rsp+8) partial"),
        ((0, 0, 0, 0, 4), "undef undef undef end"), ((0, 0, 0, 0, 0), "undef undef undef undef"),
        ((-8, 0, BP_IND, BP, 0), "*(rbp-8)+0 *(rbp+0) cfa-8 call"), ((8, 0, SP_IND, 0, 0), "*(rsp+0)+8 same cfa-8 call"),
        ((8, 0, SP, 0, 8), "undef undef undef bad"), ((8, 0, PREV, 0, 0), "undef undef undef bad"),
        ((8, 0, SP, 7, 0), "undef undef undef bad"), ((8, 0, SP, 0, 3), "undef undef undef bad"),
    ],
    "6.3": [
        ((8, 0, SP, 0, 0), "rsp+8 same cfa-8 call"), ((0, 0, SP, 0, 1 | 4), "*(rsp+152)+0 *(rsp+32) *(rsp+128) regs,signal"),
        ((0, 0, 0, 0, 8), "undef undef undef end"), ((8, 0, SP, 0, 16), "undef undef undef bad"),
    ],
    "6.4 and later": [
        ((8, 0, SP, 0, 2), "rsp+8 same cfa-8 call"), ((0, -16, R10, BP, 2), "r10+0 *(rbp-16) cfa-8 call"),
        ((0, 0, AX, 0, 2), "rax+0 same cfa-8 call"), ((0, 0, SP, 0, 3 | 8), "*(rsp+152)+0 *(rsp+32) *(rsp+128) regs,signal"),
        ((0, 0, SP, 0, 4), "*(rsp+24)+0 same *(rsp+0) partial"), ((0, 0, 0, 0, 1), "undef undef undef end"),
        ((0, 0, 0, 0, 0), "undef undef undef undef"), ((8, 0, SP, 0, 7), "undef undef undef bad"),
        ((8, 0, 0, 0, 2), "undef undef undef bad"),
    ],
    "7.2 and later": [
        ((8, 0, 3, 0, 2), "rsp+8 same cfa-8 call"), ((16, -16, 4, 8, 2), "rbp+16 cfa-16 cfa-8 call"),
        ((0, -16, 6, 4, 2), "r10+0 *(rbp-16) cfa-8 call"), ((0, 0, 1, 0, 2), "rax+0 same cfa-8 call"),
        ((0, 0, 5, 0, 2), "rdi+0 same cfa-8 call"), ((-8, 0, 10, 4, 2), "*(rbp-8)+0 *(rbp+0) cfa-8 call"),
        ((8, 0, 9, 0, 2), "*(rsp+0)+8 same cfa-8 call"), ((0, 0, 3, 0, 3 | 8), "*(rsp+152)+0 *(rsp+32) *(rsp+128) regs,signal"),
        ((0, 0, 0, 0, 1), "undef undef undef end"), ((0, 0, 0, 0, 0), "undef undef undef undef"),
        ((8, 0, 8, 0, 2), "undef undef undef bad"), ((8, 0, 11, 0, 2), "undef undef undef bad"),
        ((8, 0, 3, 1, 2), "undef undef undef bad"), ((8, 0, 3, 0, 2), "rsp+8 same cfa-8 call"),
    ],
}
UNTOLD = '\t.section __ksymtab, "a"\n\t.long 0\n'


@pytest.mark.parametrize("linked", [False, True])
@pytest.mark.parametrize("layout,told,by", [
    ("6.2 and before", RELEASE % "6.1.0-13-amd64", "release 6.1.0-13-amd64"),
    ("6.3", RELEASE % "6.3.2", "release 6.3.2"),
    ("6.3", RELEASE % "6.1.0" + orc_header("6.3"), ".orc_header"),
    ("6.4 and later", RELEASE % "6.12.1", "release 6.12.1"),
    ("6.4 and later", RELEASE % "5.14.0-500.el9" + orc_header("6.4 and later"), ".orc_header"),
    ("6.4 and later", RELEASE % "6.1.0" + orc_header("new"), "assumed from its entries: unknown hash in .orc_header"),
    ("6.4 and later", RELEASE % "6.18.3", "assumed from its entries: no .orc_header, and the release does not tell"),
    ("6.4 and later", UNTOLD, "assumed from its entries: no .orc_header, no release"),
    ("6.2 and before", UNTOLD, "assumed from its entries: no .orc_header, no release"),
    ("7.2 and later", RELEASE % "7.2.13+deb14-amd64", "release 7.2.13+deb14-amd64"),
    ("7.2 and later", RELEASE % "6.1.0" + orc_header("7.2 and later"), ".orc_header"),
    ("7.2 and later", RELEASE % "7.3.0" + orc_header("new"), "assumed from its entries: unknown hash in .orc_header"),
    ("7.2 and later", RELEASE % "7.0.1", "assumed from its entries: no .orc_header, and the release does not tell"),
    ("7.2 and later", UNTOLD, "assumed from its entries: no .orc_header, no release"),
])
def test_orc_of_versions(etch, tmp_path, layout, told, by, linked):
    entries = ROWS[layout]
    path = build(tmp_path, orc_text([e for e, _ in entries]) + told, linked)
    out = run([etch, "inspect", "orc", path]).stdout.splitlines()
    assert f"layout of {layout} ({by}" in out[0]
    assert [" ".join(line.split("\t")[2:6]) for line in orc(etch, path)] == [r for _, r in entries]
    bad = sum(r.endswith("bad") for _, r in entries)
    assert f", {bad} malformed" in out[0] and sum(bool(re.search("unknown|unused|for the CFA", x)) for x in out[2:]) == bad


@pytest.mark.parametrize("told,entries,why", [
    (RELEASE % "6.12.1", "7.2 and later", "its entries contradict release 6.12.1"),
    (RELEASE % "7.2.1", "6.4 and later", "its entries contradict release 7.2.1"),
    (orc_header("7.2 and later"), "6.4 and later", "its entries contradict .orc_header"),
    (orc_header("6.4 and later"), "7.2 and later", "its entries contradict .orc_header"),
])
def test_registers_of_another_layout_are_not_shown(etch, tmp_path, told, entries, why):
    path = build(tmp_path, orc_text([e for e, _ in ROWS[entries] for _ in range(3)]) + told, False)
    p = run([etch, "inspect", "orc", path], ok=2)
    assert not p.stdout and f"section .orc_unwind: its layout is not known: {why}" in p.stderr and p.stderr.count("\n") == 1
    assert "layout of unknown" in run([etch, "inspect", "tables", path]).stdout


def test_registers_that_nothing_tells_are_not_shown(etch, tmp_path):
    path = build(tmp_path, orc_text([(16, 0, 4, 0, 2)]) + UNTOLD, False)
    assert "neither a hash, a release nor its entries tell" in run([etch, "inspect", "orc", path], ok=2).stderr


def test_indirect_rows_before_5_13(etch, tmp_path):
    path = build(tmp_path, orc_text([(8, 0, SP_IND, 0, 0)]) + RELEASE % "5.10.0", False)
    assert orc(etch, path)[0].split("\t")[2] == "*(rsp+8)+0"


def test_one_address_twice(etch, tmp_path):
    """The end of one section may be the start of the next: its own row counts, not the
    one that ends the other; unsorted rows of a module are put in order."""
    text = ('\t.section .orc_unwind_ip, "a"\n\t.long f + 3 - ., f - ., f - ., f + 7 - .\n'
            '\t.section .orc_unwind, "a"\n\t.short 24, 0, 5, 8, 0, 5, 0, 0, 0, 0, 0, 0\n')
    rows = orc(etch, build(tmp_path, text + RELEASE % "6.1.0", False))
    assert [r.split("\t")[:3] for r in rows] == [["0", "3", "rsp+8"], ["3", "4", "rsp+24"], ["7", "e", "undef"]]


@pytest.mark.parametrize("linked", [False, True])
def test_functions_of_rows(etch, tmp_path, linked):
    path = build(tmp_path, orc_text([e for e, _ in ROWS["6.2 and before"]]) + RELEASE % "6.1.0", linked)
    head, *lines = run([etch, "inspect", "orc", "--format", "tsv", path]).stdout.splitlines()
    names = [line.split("\t")[-1] for line in lines]
    assert head.split("\t")[-1] == "function" and names[0] == "f" and set(names[1:]) > {"f+0x2"}
    assert names == [r["function"] or "-" for r in document(etch, "orc", path)["rows"]]


# ---- whose tables they are --------------------------------------------------------------------------

def test_etchs_own_are_etchs(etch, build, tmp_path):
    """Arrays of the same name in etch's objects and __ex_table in its programs."""
    flow = Flow(tmp_path, build)
    obj = flow.compile("int g(int); int f(int x) { return g(x) + 1; }\n")
    run([etch, "rewrite", "--only", "orc", obj])
    out = orc(etch, obj)
    assert out and all("\tobjtool" not in r for r in out)
    run(["ld", "-r", "-o", tmp_path / "r.o", obj])
    assert orc(etch, tmp_path / "r.o") == out
    p = run([etch, "inspect", "tables", obj], ok=2)
    assert "object file" in p.stderr
    p = run([etch, "inspect", "orc", "--symbols", "/dev/null", obj], ok=2)
    assert "is not a kernel file" in p.stderr and not p.stdout
    p = run([etch, "inspect", "code", "--symbols", "/dev/null", "f", obj], ok=2)
    assert "--symbols is for" in p.stderr


def test_a_sign_of_the_kernel_and_etchs_sections(etch, tmp_path):
    """A program of etch's that has a section of such a name stays etch's."""
    obj = build(tmp_path, '\t.section __jump_table, "aw"\n\t.quad 0\n\t.section __etch_mod, "aw"\n\t.quad 0\n', False)
    assert "is an object file" in run([etch, "inspect", "tables", obj], ok=2).stderr
    obj = build(tmp_path, '\t.section __jump_table, "aw"\n\t.quad 0, 0\n', False, "k2")
    assert "kernel object" in run([etch, "inspect", "tables", obj]).stdout


# ---- what is malformed --------------------------------------------------------------------------------

def all_tables(alt="5.13 to 6.2"):
    return (OTHERS + f'\t.section .altinstructions, "a"\n{ALT[alt]}\t.section __ex_table, "a"\n{EX["5.16 and later"] * 2}'
            f'\t.section __bug_table, "aw"\n{BUG["before 6.19"] * 2}' + orc_text([e for e, _ in ROWS["6.2 and before"]]) +
            RELEASE % "6.1.0")


def section_header(path, name):
    """(offset of the section's header, offset of its contents, size)."""
    with open(path, "rb") as f:
        elf = ELFFile(f)
        i = next(i for i, s in enumerate(elf.iter_sections()) if s.name == name)
        s = elf.get_section(i)
        return elf["e_shoff"] + i * elf["e_shentsize"], s["sh_offset"], s["sh_size"]


def test_bad_entries_are_shown(etch, tmp_path):
    """Each as what it is, and the others beside it."""
    path = build(tmp_path, all_tables(), True)
    data = bytearray(path.read_bytes())

    def put(name, at_, form, value):
        _, start, _ = section_header(path, name)
        struct.pack_into(form, data, start + at_, value)

    put("__ex_table", 12, "<i", 0x7000000)           # an instruction nowhere
    put("__ex_table", 8, "<I", 200)                  # a type that no kernel has
    put(".altinstructions", 10, "<B", 200)           # more than the section has
    put("__jump_table", 8, "<q", 0x70000000)         # a key nowhere
    put(".smp_locks", 0, "<i", 0x100000)
    put("__bug_table", 16, "<i", 0x7000000)
    header, _, size = section_header(path, "__mcount_loc")
    struct.pack_into("<Q", data, header + 32, size - 3)
    path.write_bytes(data)
    got = tables(etch, path)
    assert [r["problem"] for r in got["__ex_table"][1]] == ["unknown type",
                                                           "its instruction is not in code"]
    assert got[".altinstructions"][1][0]["problem"] == "its instructions reach past the end of their section"
    assert got[".altinstructions"][1][1]["problem"] == "-"
    assert [r["problem"] for r in got["__jump_table"][1]] == ["its key is in no section", "-"]
    assert got[".smp_locks"][1][0]["problem"] == "its instruction is not in code"
    assert [r["problem"] for r in got["__bug_table"][1]] == ["-", "its file name is not a string"]
    assert "5 bytes are left over" in got["__mcount_loc"][0]
    assert got[".static_call_sites"][1][0]["problem"] == "-"
    j = document(etch, "tables", path)
    assert [(t["name"], t["malformed"], t["left_over"]) for t in j["tables"] if t["malformed"] or t["left_over"]] == [
        ("__ex_table", 2, 0), (".altinstructions", 1, 0), ("__jump_table", 1, 0), (".smp_locks", 1, 0),
        ("__mcount_loc", 0, 5), ("__bug_table", 1, 0)]
    assert "2 malformed" in got["__ex_table"][0] and "problem" in run([etch, "inspect", "tables", path]).stdout


def test_arrays_of_different_length(etch, tmp_path):
    path = build(tmp_path, all_tables(), False)
    data = bytearray(path.read_bytes())
    header, _, size = section_header(path, ".orc_unwind")
    struct.pack_into("<Q", data, header + 32, size - 7)
    path.write_bytes(data)
    p = run([etch, "inspect", "orc", "--format", "tsv", path], ok=2)
    assert len(p.stderr.splitlines()) == 1 and "not the same number" in p.stderr
    assert len(p.stdout.splitlines()) == len(ROWS["6.2 and before"]) - 2 + 1


@pytest.mark.parametrize("linked", [False, True])
def test_a_row_of_no_code(etch, tmp_path, linked):
    path = build(tmp_path, all_tables(), linked)
    data = bytearray(path.read_bytes())
    if linked:
        _, start, _ = section_header(path, ".orc_unwind_ip")
        struct.pack_into("<i", data, start + 4, 0x7000000)
    else:
        _, start, _ = section_header(path, ".rela.orc_unwind_ip")
        struct.pack_into("<q", data, start + 24 + 16, 0x7000000)
    path.write_bytes(data)
    rows = [r.split("\t") for r in orc(etch, path)]
    want = [r.split(" ") for _, r in ROWS["6.2 and before"]]
    # The one before it goes on; the others are what they were.
    assert sum("problem" in r for r in document(etch, "orc", path)["rows"]) == 1 + sum(w[3] == "bad" for w in want)
    assert [r[2:6] for r in rows] == want[:1] + want[2:] + [["undef", "undef", "undef", "bad"]]
    assert (rows[0][1], rows[-1][1]) == ("2", "0")
    assert int(rows[-1][0], 16) >= f_address(path) + 0x7000000 if linked else rows[-1][0] == "7000000"


def test_a_relocation_that_is_missing(etch, tmp_path):
    path = build(tmp_path, all_tables(), False)
    data = bytearray(path.read_bytes())
    _, start, _ = section_header(path, ".rela.smp_locks")
    struct.pack_into("<Q", data, start, 0x100)
    _, start, _ = section_header(path, ".rela__jump_table")
    struct.pack_into("<I", data, start + 8, 1)  # R_X86_64_64
    path.write_bytes(data)
    got = tables(etch, path)
    assert got[".smp_locks"][1][0]["problem"] == "a reference without a relocation"
    assert got["__jump_table"][1][0]["problem"] == "the relocation type does not fit its field"
    assert got["__jump_table"][1][1]["problem"] == "-"


@pytest.mark.parametrize("linked", [False, True])
def test_mutants(etch_asan, tmp_path, linked):
    """Bytes of tables, relocations, symbols and section headers changed at random: rows,
    or one line, and never a crash."""
    path = build(tmp_path, all_tables(), linked)
    whole = path.read_bytes()
    with open(path, "rb") as f:
        elf = ELFFile(f)
        parts = [(s["sh_offset"], s["sh_size"]) for s in elf.iter_sections()
                 if s["sh_size"] and s["sh_type"] != "SHT_NOBITS" and s.name not in (".shstrtab", ".note.gnu.property")]
        headers = elf["e_shoff"], elf["e_shnum"] * elf["e_shentsize"]
    rng = random.Random(7)
    shown = 0
    count = 60 if os.environ.get("ETCH_TESTS") == "all" else 30
    for n in range(count):
        data = bytearray(whole)
        for _ in range(rng.randint(1, 8)):
            start, size = headers if n % 4 == 0 else rng.choice(parts)
            data[start + rng.randrange(size)] = rng.choice([0, 1, 0x7f, 0x80, 0xff, rng.randrange(256)])
        if n % 10 == 9:
            del data[rng.randrange(64, len(data)):]
        mutant = tmp_path / "mutant"
        mutant.write_bytes(data)
        what = ["tables", "orc"][n % 2]
        p = run([etch_asan, "inspect", what, "--format", ["text", "tsv", "json"][n % 3], mutant], ok=None,
                env=asan_env(), errors="replace")
        assert p.returncode in (0, 2), (n, p.stderr[-3000:])
        assert len(p.stderr.splitlines()) == (p.returncode == 2), (n, p.stderr)
        shown += p.returncode == 0
    assert shown > count // 4


def test_a_name_with_anything_in_it(etch, tmp_path):
    path = tmp_path / 'k "\n\t\x1b.o'
    path.write_bytes(build(tmp_path, all_tables(), False).read_bytes())
    for what in ("tables", "orc"):
        assert run([etch, "inspect", what, path]).stdout.splitlines()[0].startswith(f'{tmp_path}/k "\\x0a\\x09\\x1b.o: ')
        assert json.loads(run([etch, "inspect", what, "--json", path]).stdout)["file"] == str(path)
        assert run([etch, "inspect", what, "--format", "tsv", path]).stdout.count("\x1b") == 0
