# SPDX-License-Identifier: MIT
"""scripts/survey.py: a hundred files of this machine, evenly over all, rewritten and looked
at; that each of the looks can fail; its own reader of .eh_frame beside pyelftools. All
files: make survey, docs/survey.md."""

import json
import os
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest
from elftools.elf.elffile import ELFFile

from conftest import ROOT, run

sys.path[:0] = [str(ROOT / "scripts")]
import packages  # noqa: E402
import survey  # noqa: E402
import survey_rows  # noqa: E402
from survey_rows import explained, rows  # noqa: E402

LIBDIR = Path("/usr/lib/x86_64-linux-gnu")
SMALL = 1 << 18  # the large ones are the survey's


def test_sample(etch, tmp_path):
    files = survey.spread([f for f in survey.find(survey.ROOTS) if f.is_ours and f.size <= SMALL], 100)
    assert len(files) == 100 and len({f.path for f in files}) == 100
    results = [survey.look((str(etch), f, str(tmp_path))) for f in files]
    assert not [(r["path"], b) for r in results for b in r["bad"]]
    assert not [r for r in results if r["refused"] and r["ours"]]
    # Something has been looked at: most files are Debian's, with .eh_frame for nearly all code.
    seen = [r for r in results if "rows" in r]
    assert sum(r["rows"]["covered"] for r in seen) > 1 << 20
    for r in seen:
        n = r["rows"]
        assert n["agree"] + sum(n["explained"].values()) + n["odd"] == n["covered"], r
    for f in [f for f in files if f.path in {r["path"] for r in results if r["ours"]}]:
        if not Path(str(tmp_path / "root") + f.path).exists():
            pytest.fail(f"{f.path} was not written")


def test_what_is_not_ours(etch, tmp_path):
    """32-bit code, x32 and other machines are refused in one line; that is no failure. An x86-64
    file that is refused is."""
    head = bytearray((LIBDIR / "crt1.o").read_bytes())
    for name, at, value in (("i386", 18, 3), ("arm64", 18, 183), ("ilp32", 4, 1), ("type", 16, 4)):
        path = tmp_path / name
        data = bytearray(head)
        data[at] = value
        path.write_bytes(data)
        file, = survey.find([str(path)])
        assert not file.is_ours
        r = survey.look((str(etch), file, str(tmp_path / "s")))
        assert r["refused"] and not r["bad"], r
    (tmp_path / "cut").write_bytes(head[:200])
    file, = survey.find([str(tmp_path / "cut")])
    r = survey.look((str(etch), file, str(tmp_path / "s")))
    assert file.is_ours and [b for b in r["bad"] if b.startswith("refused: ")], r


SABOTAGE = """#!{python}
import os, subprocess, sys
from pathlib import Path
how = {how!r}
new = sys.argv[sys.argv.index("-o") + 1] if "-o" in sys.argv else None
if how == "refuse" and sys.argv[1] == "rewrite":
    print(f"etch: {{sys.argv[-1]}}: a bad day", file=sys.stderr)
    sys.exit(2)
status = subprocess.run([{etch!r}, *sys.argv[1:]]).returncode
if new and not status:
    data = bytearray(Path(new).read_bytes())
    if how == "undo" and "--undo" in sys.argv:
        data[-1] ^= 1
    elif how == "twice" and Path(new).name.startswith(".twice-"):
        data[-1] ^= 1
    elif how == "original" and "--undo" not in sys.argv:
        with open(sys.argv[-1], "ab") as f:
            f.write(b"x")
    elif how == "elflint":      # its section header string table has another type
        at = int.from_bytes(data[40:48], "little") + 64 * int.from_bytes(data[62:64], "little")
        data[at + 4] = 1
    elif how == "readelf":      # the dynamic symbols' size is no multiple of one's
        at = int.from_bytes(data[40:48], "little")
        while data[at + 4] != 11:
            at += 64
        data[at + 56] = 7
    elif how == "check":        # a function pushes one register more than its rows say
        at = data.index(bytes([0x41, 0x54, 0x55]))
        data[at:at + 2] = bytes([0x50, 0x50])
    Path(new).write_bytes(data)
sys.exit(status)
"""
SEEN = {"refuse": "refused: a bad day", "undo": "undo: ", "twice": "twice: ", "original": "the original has changed",
        "elflint": "eu-elflint: ", "readelf": "readelf: ", "check": "check: "}


@pytest.mark.parametrize("how", SEEN)
def test_each_look_can_fail(etch, tmp_path, how):
    fake = tmp_path / "etch"
    fake.write_text(SABOTAGE.format(python=sys.executable, how=how, etch=str(etch)))
    fake.chmod(0o755)
    copy = tmp_path / "true"
    copy.write_bytes(Path("/usr/bin/true").read_bytes())
    file, = survey.find([str(copy)])
    r = survey.look((str(fake), file, str(tmp_path / "s")))
    assert [b for b in r["bad"] if b.startswith(SEEN[how])], r


def test_the_same_bytes_are_looked_at_once(etch, tmp_path, monkeypatch):
    """What is known of bytes that an earlier etch wrote holds for the same ones, and for no others."""
    file, = survey.find(["/usr/bin/true"])
    seen = []
    monkeypatch.setattr(survey, "look_at_both", lambda *a: seen.append(a))
    first = dict(survey.look((str(etch), file, str(tmp_path))), stamp=survey.stamp(file.path), rows="these")
    assert not first["bad"] and len(seen) == 1
    assert survey.look((str(etch), file, str(tmp_path), first))["rows"] == "these" and len(seen) == 1
    for other in ({"kept": "0"}, {"stamp": [0, 0]}, {"bad": ["rows: no"]}, {"findings": {"ETCH-C001": 1}}):
        r = survey.look((str(etch), file, str(tmp_path), {**first, **other}))
        assert "rows" not in r and not r["bad"]
    assert len(seen) == 5


@pytest.fixture(scope="module")
def rewritten(etch, tmp_path_factory):
    out = tmp_path_factory.mktemp("survey") / "gzip"
    run([etch, "rewrite", "-o", out, "/usr/bin/gzip"])
    text, table, frame, base = survey.sections(out)
    assert text and table and frame
    return out, frame, base, text


def test_wrong_rows_are_seen(etch, rewritten, monkeypatch):
    """Rows that are wrong by 8, by a register or by where rbp is, in one function; and .eh_frame that
    is wrong itself, of which the witness says so."""
    path, frame, base, text = rewritten
    good = survey_rows.verify(etch, path, frame, base, text)
    assert not good.differ and good.agree + sum(good.explained.values()) == good.covered > 10000
    real = survey_rows.Ours.of
    for cfa, bp in (("rsp+24", "same"), ("rbp+16", "same"), ("rsp+16", "cfa-64"), ("rsp+8", "same")):
        def wrong(*args):
            ours = real(*args)
            at = next(i for i, r in enumerate(ours.rule) if r == ("rsp+16", "same", "cfa-8", "call") and i > 40)
            ours.rule[at] = (cfa, bp, "cfa-8", "call")
            return ours
        monkeypatch.setattr(survey_rows.Ours, "of", wrong)
        bad = survey_rows.verify(etch, path, frame, base, text)
        assert len(bad.differ) == 1 and bad.differ_bytes and bad.covered == good.covered, (cfa, bp)
    monkeypatch.undo()
    # DW_CFA_def_cfa_offset 16 directly after DW_CFA_advance_loc 1 or 2, as after a first push
    at = next(i for i in range(len(frame)) if frame[i:i + 3] in (b"\x41\x0e\x10", b"\x42\x0e\x10"))
    other = survey_rows.verify(etch, path, frame[:at + 2] + b"\x18" + frame[at + 3:], base, text)
    assert other.agree < good.agree and sum(other.explained.values()) > sum(good.explained.values())


# Functions of assembly that no FDE of their own describes: two of them.
LEAVES = """
	.globl f
f:	call other
leaf:	ucomisd %xmm1, %xmm0
	jbe 1f
	{insn}
	xorl %eax, %eax
1:	ret
	movl $1, %eax
	ret
end:	ud2
other:	{other}
"""


@pytest.mark.parametrize("insn, proved", [
    ("cmp (%rdi), %rax", True), ("mov (%rdi), %rax", True), ("mov %rax, (%rdi)", False), ("push %rax", False), ("ret $8", False),
    ("jmp *%rcx", False), ("call *%rcx", False), ("lea 8(%rsp), %rax", False), ("movb $1, %bpl", False), ("jmp f", False),
])
def test_a_leaf_is_proved_by_its_returns(tmp_path, insn, proved):
    code, at = leaves(tmp_path, insn, "call leaf")
    assert explained.is_leaf(code, at["leaf"], at["end"]) == proved
    assert not explained.is_leaf(code, code.after(at["leaf"]), at["end"])   # fallen into, from what may have pushed


@pytest.mark.parametrize("other, proved", [("call leaf", True), ("jmp leaf", False), ("ret", False)])
def test_a_leaf_is_called(tmp_path, other, proved):
    """After a call that may come back it could be part of what is before it."""
    code, at = leaves(tmp_path, "nop", other)
    assert explained.is_leaf(code, at["leaf"], at["end"]) == proved


@pytest.mark.parametrize("moved, insn, register, slot", [  # whether each holds on
    ("mov 16(%rsp), %rbp", "mov (%rsp,%r12,8), %rax", True, True), ("mov 16(%rsp), %rbp", "add $24, %rsp", True, True),
    ("mov %rbp, 16(%rsp)", "lea 16(%rsp), %rdi", True, True), ("mov %rbp, 16(%rsp)", "mov %rbx, 24(%rsp)", True, True),
    ("mov %rbp, 16(%rsp)", "movaps %xmm0, 32(%rsp)", True, True), ("mov %rbp, 16(%rsp)", "cmp %rax, (%rdi)", True, True),
    ("mov 8(%rsp), %rbp", "nop", False, False), ("mov 16(%rdi), %rbp", "nop", False, False), ("mov 16(%rsp), %rbx", "nop", False, False),
    ("mov 16(%rsp), %rbp", "mov %rax, 16(%rsp)", True, False), ("mov 16(%rsp), %rbp", "xor %ebp, %ebp", False, True),
    ("mov 16(%rsp), %rbp", "movb $1, %bpl", False, True), ("mov 16(%rsp), %rbp", "call leaf", True, False),
    ("mov 16(%rsp), %rbp", "pop %rbp", False, False), ("mov %rbp, 16(%rsp)", "mov %rax, (%rdi)", True, False),
    ("mov %rbp, 16(%rsp)", "movaps %xmm0, 8(%rsp)", True, False), ("mov %rbp, 16(%rsp)", "mov %rax, 12(%rsp)", True, False),
    ("mov %rbp, 16(%rsp)", "mov %rbx, %rbp", False, True),
])
def test_what_is_in_the_register_and_in_a_slot_is_the_same(tmp_path, moved, insn, register, slot):
    """One of CFI and rows names the slot, the other the register, which has just been saved there or loaded from there."""
    code, at = leaves(tmp_path, f"{moved}\nplace: {insn}\nafter: nop", "nop")
    in_slot, same = ("rsp+32", "cfa-16", "cfa-8", "call"), ("rsp+32", "same", "cfa-8", "call")
    assert explained.is_twice(code, at["place"], at["after"], in_slot, same) == register
    assert explained.is_twice(code, at["place"], at["after"], same, in_slot) == slot
    assert not explained.is_twice(code, at["place"], at["after"], same, ("rsp+32", "undef", "cfa-8", "call"))
    assert not explained.is_twice(code, at["place"], at["after"], same, ("rsp+40", "cfa-16", "cfa-8", "call"))


@pytest.mark.parametrize("before, insn, left", [
    ("leave", "lea -16(%r13), %rsp", True), ("mov %rbp, %rsp\npop %rbp", "nop", True), ("leave\nlea -16(%r13), %rsp\npop %r13", "nop", True),
    ("mov %rsp, %rbp\npush %r13\nsub $24, %rsp\nadd $24, %rsp\npop %r13\npop %rbp\nlea -16(%r13), %rsp", "ret", True),
    ("mov %rsp, %rbp\npush %r13\nsub $24, %rsp\nadd $16, %rsp\npop %r13\npop %rbp\nlea -16(%r13), %rsp", "ret", False),
    ("pop %rbp", "nop", False), ("mov -8(%rbp), %r10", "nop", False), ("leave", "xor %ebp, %ebp", False), ("leave", "pop %rbp", False),
    ("leave\ncall leaf", "nop", False), ("leave\njmp leaf", "nop", False), ("leave\ntarget: jne target", "nop", False),
])
def test_rbp_was_taken_back_by_leave(tmp_path, before, insn, left):
    """CFI still says that it is at *(rbp)."""
    code, at = leaves(tmp_path, f"first: {before}\nplace: {insn}\nafter: nop", "nop")
    truth, ours = ("r13+0", "*(rbp+0)", "cfa-8", "call"), ("r13+0", "same", "cfa-8", "call")
    assert explained.is_left(code, at["place"], at["after"], truth, ours, at["first"]) == left
    assert not explained.is_left(code, at["place"], at["after"], ours, truth, at["first"])


def leaves(tmp_path, insn, other):
    (tmp_path / "l.s").write_text(LEAVES.replace("{insn}", insn).replace("{other}", other))
    lib = tmp_path / "l.so"
    run(["gcc", "-shared", "-nostdlib", "-o", lib, tmp_path / "l.s"])
    at = {line.split()[2]: int(line.split()[0], 16) for line in run(["nm", lib]).stdout.splitlines()}
    return explained.Code(lib), at


# As LLVM leaves CFI where arguments are pushed after a jump: that of the `sub` comes with the first push.
# The witness does not follow the jump table, and a jump leads to where the two differ.
BEHIND = """
	.globl f
	.type f, @function
f:	.cfi_startproc
	cmp $1, %edi
	ja 9f
	mov %edi, %edi
	lea table(%rip), %rax
	movslq (%rax,%rdi,4), %rcx
	add %rax, %rcx
	jmp *%rcx
1:	sub $8, %rsp
	{adjust}
	test %esi, %esi
	jne 2f
	push %r11
	.cfi_def_cfa_offset 24
	add $16, %rsp
	.cfi_def_cfa_offset 8
	jmp 9f
	.cfi_def_cfa_offset 8
2:	{adjust}
	test %edx, %edx
	jne 3f
	nop
3:	push %r10
	.cfi_def_cfa_offset 24
	add $16, %rsp
	.cfi_def_cfa_offset 8
9:	ret
	.cfi_endproc
	.size f, .-f
	.section .rodata
table:	.long 1b-table, 9b-table
"""


def test_cfi_that_what_follows_contradicts_is_wrong(etch, tmp_path, monkeypatch):
    """Where the instructions lead from our rule, and not from .eh_frame's, to what .eh_frame says next, ours is right.
    Where .eh_frame is at one with itself, or nothing fits, it explains nothing."""
    reason, real = "proved; by its own CFI of what follows, CFI is wrong there", survey_rows.Ours.of

    def look(adjust, ours=None):
        (tmp_path / "b.s").write_text(BEHIND.format(adjust=adjust))
        lib, out = tmp_path / "b.so", tmp_path / "b"
        run(["gcc", "-shared", "-nostdlib", "-o", lib, tmp_path / "b.s"])
        run([etch, "rewrite", "-o", out, lib])

        def replaced(*args):
            rows_ = real(*args)
            rows_.rule = [(ours, *r[1:]) if ours and r[0] == "rsp+16" else r for r in rows_.rule]
            return rows_
        monkeypatch.setattr(survey_rows.Ours, "of", replaced)
        text, _, frame, base = survey.sections(out)
        v = survey_rows.verify(etch, out, frame, base, text)
        assert v.covered == v.agree + sum(v.explained.values()) + v.differ_bytes and v.covered > 40
        return v
    v = look("")
    assert v.explained[reason] and not v.differ, (v.explained, v.differ)
    assert look(".cfi_def_cfa_offset 16").agree == v.covered
    for ours in ("rsp+8", "rsp+24"):
        bad = look(".cfi_def_cfa_offset 16", ours)
        assert reason not in bad.explained and bad.differ, (bad.explained, bad.differ)
    bad = look("", "rsp+32")
    assert reason not in bad.explained and bad.differ, (bad.explained, bad.differ)


@pytest.mark.parametrize("jump, late", [("nop", True), ("je 1f", False)])
def test_a_return_behind_a_frame_taken_down_is_proved(tmp_path, jump, late):
    """One rule by rbp for all of it: right up to the pop, which only shows from where rsp is known."""
    (tmp_path / "s.s").write_text(f"f: nop\n{jump}\nmovq %rbp, %rsp\npopq %rbp\n1: ret\n")
    run(["gcc", "-c", "-o", tmp_path / "s.o", tmp_path / "s.s"])
    code = explained.Code(tmp_path / "s.o")
    end, body, entry = code.addr[-1], ("rbp+16", "cfa-16", "cfa-8", "call"), ("rsp+8", "same", "cfa-8", "call")
    truth, mine = [(0, end + 1, body)], [(0, end, body), (end, end + 1, entry)]
    assert code.text[-1].startswith("ret") and survey_rows._late(code, truth, mine, end, end + 1, body, entry) is late


def test_a_listing_holds_for_the_functions_it_covers(tmp_path, monkeypatch):
    """Of a large file one listing is made for many functions in turn, and another where it ends."""
    made = []

    class Listing:
        def __init__(self, path, *only):
            made.append(only)
            self.key, self.addr = (path, only), list(range(0, 0x80000, 0x100))
    monkeypatch.setattr(explained, "Code", Listing)
    monkeypatch.setattr(explained, "_code", {})
    last = 0x10000 + survey_rows.AHEAD
    for fde in ((0x10000, 0x10100), (0x10100, 0x18000), (last, last + 0x10), (last + 0x100, last + 0x200), (0x10000, 0x10100)):
        survey_rows.list_around("file", fde)
    assert made[0] == ("--start-address=0xf000", f"--stop-address={0x10100 + survey_rows.AROUND + survey_rows.AHEAD:#x}")
    assert [int(m[0].split("=")[1], 16) for m in made] == [0xf000, last + 0x100 - survey_rows.AROUND, 0xf000]
    assert made[1][1] == f"--stop-address={last + 0x200 + survey_rows.AROUND + 2 * survey_rows.AHEAD:#x}"   # close after


def test_a_listing_begins_anew_behind_data(tmp_path, monkeypatch):
    """objdump, which begins in front of the function, decodes the data there and goes over the function's first bytes."""
    monkeypatch.setattr(explained, "_code", {})
    run(["gcc", "-shared", "-nostdlib", "-x", "assembler", "-o", tmp_path / "a.so", "-"],
        input="f:\tret\n\t.byte 0, 0, 0, 0, 0x48, 0xb8\ng:\tpush %rbp\n\tpush %r15\n\tpop %r15\n\tpop %rbp\n\tret\n")
    at = {line.split()[2]: int(line.split()[0], 16) for line in run(["nm", tmp_path / "a.so"]).stdout.splitlines()}
    run(["strip", tmp_path / "a.so"])
    fde = at["g"], at["g"] + 7
    survey_rows.list_around(tmp_path / "a.so", fde)
    code = explained.code_of(str(tmp_path / "a.so"))
    assert [t for _, t in code.between(*fde)] == ["push   %rbp", "push   %r15", "pop    %r15", "pop    %rbp", "ret"]
    assert code.addr[0] == at["f"] and code.text[0] == "ret"


def test_missing_rows_are_seen(etch, rewritten):
    """.eh_frame that covers what we have no row for: no code is there at all."""
    path, frame, base, text = rewritten
    start, end, _, _ = min(survey_rows.entries(frame, base), key=lambda f: f[0])
    moved = survey_rows.verify(etch, path, frame, base + (1 << 24), text)
    assert moved.undefined == moved.covered > 10000 and moved.differ and end > start


@pytest.mark.parametrize("name", ["/usr/bin/gzip", LIBDIR / "libgcc_s.so.1", LIBDIR / "ld-linux-x86-64.so.2"], ids=os.path.basename)
def test_reader_is_pyelftools(name):
    with open(name, "rb") as f:
        section = ELFFile(f).get_section_by_name(".eh_frame")
        frame, base = section.data(), section["sh_addr"]
    compare_readers(name, frame, base)


def compare_readers(path, frame, base):
    truth, fdes = rows.cfi_rows(path)
    ours, done = [], 0
    found = sorted(survey_rows.entries(frame, base), key=lambda f: f[:2])
    assert [f[:2] for f in found] == fdes
    for f in found:
        ours += [(max(s, done), e, r) for s, e, r in survey_rows.fde_rows(*f) if e > done]
        done = max(done, f[1])
    assert ours == [r[:3] for r in truth] and ours


# Every CFA instruction that a compiler or a person writes.
ODD = """
	.globl f
f:	.cfi_startproc
	nop
	.cfi_def_cfa %rbp, 32
	.cfi_offset %rbp, -24
	.cfi_remember_state
	nop
	.cfi_register %rbp, %r12
	nop
	.cfi_restore_state
	nop
	.cfi_restore %rbp
	.skip 300
	.cfi_val_offset %rbp, 8
	.skip 70000
	.cfi_same_value %rbp
	.cfi_escape 0x0f,0x03,0x77,0x08,0x06
	nop
	.cfi_def_cfa_register %rsp
	nop
	.cfi_escape 0x12,0x07,0x7c
	nop
	.cfi_escape 0x13,0x7b
	nop
	.cfi_escape 0x10,0x06,0x02,0x76,0x70
	nop
	.cfi_escape 0x16,0x06,0x02,0x76,0x70
	nop
	.cfi_escape 0x2e,0x10
	.cfi_escape 0x05,0x06,0x03
	nop
	.cfi_escape 0x11,0x06,0x7d
	nop
	.cfi_escape 0x06,0x06
	nop
	.cfi_undefined %rip
	nop
	.cfi_endproc
	.globl g
g:	.cfi_startproc
	.cfi_signal_frame
	.cfi_personality 0x9b, p
	.cfi_lsda 0x1b, p
	nop
	.cfi_adjust_cfa_offset 128
	nop
	.cfi_endproc
	.data
	.hidden p
p:	.quad 0
"""


def test_reader_of_odd_entries(tmp_path):
    (tmp_path / "odd.s").write_text(ODD)
    lib = tmp_path / "odd.so"
    run(["gcc", "-shared", "-nostdlib", "-o", lib, tmp_path / "odd.s"])
    frame, base = survey.sections(lib)[2:]
    table = [r for f in survey_rows.entries(frame, base) for r in survey_rows.fde_rows(*f)]
    assert len({r[2] for r in table}) > 10
    # Offsets with a sign are multiplied by the wrong factor in pyelftools 0.32 (def_cfa_sf): as readelf has it
    want = [r[:3] for r in rows.cfi_rows(lib)[0]]
    assert len(table) == len(want)
    assert [r[2][0] for r in want if r[2][0][:3] == "odd"] == \
        ["odd:rule VAL_OFFSET", "odd:def_cfa_register after an expression", "odd:rule VAL_EXPRESSION"]
    differ = [(a, b) for a, b in zip(table, want) if a != b and not a[2][0][:3] == b[2][0][:3] == "odd"]
    assert [(a[2][0], b[2][0]) for a, b in differ if a[2][0] != b[2][0]] == [("rsp+32", "rsp-4")], differ
    assert all(a[:2] == b[:2] and a[2][1:] == b[2][1:] for a, b in differ)


def test_stopped_and_started_again(etch, tmp_path):
    files = survey.find(["/usr/bin/true", "/usr/bin/false", str(LIBDIR / "crt1.o")])
    first, _ = survey.survey(files, str(etch), str(tmp_path), 1)
    journal = tmp_path / "results.jsonl"
    lines = journal.read_text().splitlines()
    assert len(lines) == 3 and [r["path"] for r in first] == [f.path for f in files]
    # Stopped while it wrote its last line: that file is looked at again, no other.
    journal.write_text("\n".join(lines[:2]) + "\n" + lines[2][:40])
    second, _ = survey.survey(files, str(etch), str(tmp_path), 1)
    assert [r["path"] for r in second] == [r["path"] for r in first] and not [r for r in second if r["bad"]]
    after = journal.read_text().splitlines()
    assert len(after) == 4 and json.loads(after[3])["path"] == json.loads(lines[2])["path"]


def test_ldd(etch, tmp_path):
    """Under the overlay, a library that asks for another one than before is seen."""
    files = survey.find(["/usr/bin/gzip", "/usr/bin/openssl"])
    results, ldd = survey.survey(files, str(etch), str(tmp_path), 1)
    if ldd is None:
        pytest.skip("may not mount an overlay here, not in a namespace of its own either")
    assert ldd == {} and not [r for r in results if r["bad"]]
    new = tmp_path / "root/usr/bin/openssl"
    data = new.read_bytes()
    assert data.count(b"\0libssl.so.3\0") == 1
    new.write_bytes(data.replace(b"\0libssl.so.3\0", b"\0libsst.so.3\0"))
    bad = survey.ldd_all([f.path for f in files], str(tmp_path), "another etch", survey.Progress())
    assert list(bad) == ["/usr/bin/openssl"] and "libsst.so.3" in bad["/usr/bin/openssl"][0]
    assert Path("/usr/bin/openssl").read_bytes() != new.read_bytes()


def test_command(etch, tmp_path):
    """The report, and the exit status."""
    p = subprocess.run([sys.executable, ROOT / "scripts/survey.py", "--etch", etch, "--scratch", tmp_path / "s", "-j1",
                        "--json", tmp_path / "j", "/usr/bin/true", LIBDIR / "crt1.o"], text=True, capture_output=True)
    assert p.returncode == 0 and not p.stderr, p
    assert "| for x86-64 | 2 |" in p.stdout and "| rewritten | 2 |" in p.stdout
    assert {r["path"] for r in json.loads((tmp_path / "j").read_text())} == {"/usr/bin/true", str(LIBDIR / "crt1.o")}
    (tmp_path / "cut").write_bytes((LIBDIR / "crt1.o").read_bytes()[:200])
    p = subprocess.run([sys.executable, ROOT / "scripts/survey.py", "--etch", etch, "--scratch", tmp_path / "s", "-j1",
                        tmp_path / "cut"], text=True, capture_output=True)
    assert p.returncode == 1 and f"{tmp_path}/cut: refused: " in p.stdout, p


# ---- what --install fetches ----------------------------------------------------------

def archived(how):
    """What a client would do: put one archive there, or fail."""
    def download(client, package, where):
        if how == "fails":
            raise subprocess.CalledProcessError(1, client, stderr=b"a warning\nno such package\n")
        if how == "hangs":
            raise subprocess.TimeoutExpired(client, packages.LIMIT)
        if how == "nothing":
            return
        source = where / "bin"
        source.write_bytes(Path("/usr/bin/true").read_bytes())
        source.chmod(0o755)
        if client == "npm":
            with tarfile.open(where / "p-1.2.tgz", "w:gz") as f:
                f.add(source, "package/bin")
        else:
            with zipfile.ZipFile(where / "p-1.2-py3-none-any.whl", "w") as f:
                f.write(source, "p/bin")
        if how == "broken":
            for archive in [*where.glob("p-*")]:
                archive.write_bytes(archive.read_bytes()[:1000])
        source.unlink()
    return download


def test_what_is_fetched_is_looked_at(etch, tmp_path, monkeypatch):
    """Once; by name alone, and with the modes that its files have."""
    assert {c for c, _ in packages.PACKAGES.values()} == {"npm", "pip"} and \
        not [p for _, p in packages.PACKAGES.values() if "://" in p or "." in p or p.startswith("-")]
    monkeypatch.setattr(packages, "download", archived("well"))
    monkeypatch.setattr(packages.shutil, "which", lambda name: f"/usr/bin/{name}")
    assert packages.fetch(directory=tmp_path) == {}
    assert {p.name for p in tmp_path.iterdir()} == set(packages.PACKAGES)
    assert (tmp_path / "bun/PACKAGE").read_text() == "p-1.2.tgz\n" and os.access(tmp_path / "mkl/p/bin", os.X_OK)
    assert {f.path for f in survey.find([str(tmp_path)])} == \
        {f"{tmp_path}/{name}/{'package' if c == 'npm' else 'p'}/bin" for name, (c, _) in packages.PACKAGES.items()}
    monkeypatch.setattr(packages, "download", archived("fails"))
    assert packages.fetch(directory=tmp_path) == {}


@pytest.mark.parametrize("how, why", [("fails", "no such package"), ("hangs", "timed out"), ("nothing", "has brought 0 files"),
                                      ("broken", "")])
def test_what_cannot_be_fetched_is_left_out_with_a_word(tmp_path, monkeypatch, capsys, how, why):
    monkeypatch.setattr(packages, "download", archived(how))
    monkeypatch.setattr(packages.shutil, "which", lambda name: None)
    failed = packages.fetch(["bun", "zig", "mkl"], tmp_path)
    assert set(failed) == {"bun", "zig", "mkl"} and failed["bun"] == "no npm" and why in failed["mkl"]
    assert not list(tmp_path.iterdir())
    monkeypatch.setattr(packages, "fetch", lambda: failed)
    survey.install_foreign()
    assert "survey: not fetched: ziglang (pip): " in capsys.readouterr().out


# ---- what it has found --------------------------------------------------------------

# As GHC leaves C for its own code and comes back: .eh_frame keeps the return address where no
# row can, and a jump from what looks like a function leads there.
AWAY = """
	.text
	.globl enter, back, other
	.type enter, @function
enter:	.cfi_startproc
	sub $0x30, %rsp
	mov %rsp, %rax
	sub $0x100, %rsp
	mov %rbp, 8(%rax)
	.cfi_def_cfa %rsp, 0
	.cfi_escape 0x11, 0x10, 0x5a	# the return address at CFA + 304
	.cfi_escape 0x16, 0x07, 0x03, 0x77, 0xb8, 0x02	# the caller's rsp is rsp + 312
	jmp *%rdi
back:	mov %rbx, %rax
	add $0x100, %rsp
	mov 8(%rsp), %rbp
	add $0x30, %rsp
	ret
	.cfi_endproc
	.size enter, .-enter
	.type other, @function
other:	mov %rdi, %rbx
	jmp back
	.size other, .-other
"""


def test_no_function_begins_there(etch, tmp_path):
    (tmp_path / "away.s").write_text(AWAY)
    lib = tmp_path / "away.so"
    run(["gcc", "-shared", "-nostdlib", "-Wl,-Bsymbolic", "-o", lib, tmp_path / "away.s"])
    with open(lib, "rb") as f:
        at = {s.name: s["st_value"] for s in ELFFile(f).get_section_by_name(".symtab").iter_symbols()}
    found = {k: [r[2] for r in rows.inspect_rows(etch, lib) if r[0] <= at[k] < r[1]] for k in ("enter", "back", "other")}
    assert found["enter"] == [("rsp+8", "same", "cfa-8", "call")] == found["other"]
    assert found["back"] == [rows.UNDEF], found
