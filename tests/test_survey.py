# SPDX-License-Identifier: MIT
"""scripts/survey.py: a hundred files of this machine, evenly over all, rewritten and looked
at; that each of the looks can fail; its own reader of .eh_frame beside pyelftools. All
files: make survey, docs/survey.md."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from elftools.elf.elffile import ELFFile

from conftest import ROOT, run

sys.path[:0] = [str(ROOT / "scripts")]
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
    elif how == "check":        # a function pushes one register less than its rows say
        at = data.index(bytes([0x41, 0x54, 0x55]))
        data[at:at + 2] = bytes([0x66, 0x90])
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
    # DW_CFA_def_cfa_offset 16 directly behind DW_CFA_advance_loc 1 or 2, as after a first push
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
    """Behind a call that may come back it could be part of what is before it."""
    code, at = leaves(tmp_path, "nop", other)
    assert explained.is_leaf(code, at["leaf"], at["end"]) == proved


def leaves(tmp_path, insn, other):
    (tmp_path / "l.s").write_text(LEAVES.replace("{insn}", insn).replace("{other}", other))
    lib = tmp_path / "l.so"
    run(["gcc", "-shared", "-nostdlib", "-o", lib, tmp_path / "l.s"])
    at = {line.split()[2]: int(line.split()[0], 16) for line in run(["nm", lib]).stdout.splitlines()}
    return explained.Code(lib), at


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
        ["odd:rule VAL_OFFSET", "odd:def_cfa_register behind an expression", "odd:rule VAL_EXPRESSION"]
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
