# SPDX-License-Identifier: MIT
"""etch/pv_forms.h, exhaustively: every indirect form of a call site, and every image
that may stand in its place, decoded by Zydis and by Capstone, by objdump, and
executed. See pv/encoding.c."""
import os
import re
import shutil

import pytest

from conftest import CCS, DATA, INCLUDE, run

SOURCE = DATA / "pv" / "encoding.c"


def build(out, include=INCLUDE, compiler="gcc", flags=("-O2", "-Wall", "-Wextra", "-Werror")):
    run([compiler, "-std=gnu11", *flags, "-I", include, SOURCE, "-o", out, "-lZydis", "-lcapstone"])
    return out


@pytest.fixture(scope="module", params=CCS)
def compiler(request):
    return request.param


@pytest.fixture(scope="module")
def program(compiler, tmp_path_factory):
    return build(tmp_path_factory.mktemp("pv") / "encoding", compiler=compiler)


def counts(output):
    words = output.strip().splitlines()[-1].replace(",", "").split()
    return int(words[0]), int(words[2])


# What there is, with at most nine bytes. Call or jmp, times:
#   rip and abs         2 ways x REX x notrack
#   a register          8 with or without REX, 8 with, x notrack
#   a base, by lengths  no displacement: 7 bases of the low eight x 4, 7 of the high x 2
#                       of one byte (5 of the 9 tried): 8 x 4, 8 x 2
#                       of four (all 9): the same, less rsp and r12 with both prefixes,
#                       which take ten bytes
ENTRIES = 2 * (2 * 4 + (8 * 4 + 8 * 2) + (7 * 4 + 7 * 2) + 5 * (8 * 4 + 8 * 2) + 9 * (8 * 4 + 8 * 2))


@pytest.mark.parametrize("mode", ["decode", "execute"])
def test_every_entry(program, mode):
    r = run([program, mode], ok=None)
    assert r.returncode == 0, r.stdout
    entries, checks = counts(r.stdout)
    assert entries == ENTRIES
    assert checks > 15 * entries


def test_functions_are_recognized_by_their_code(tmp_path, program, compiler):
    r = run([program, "tiny"], ok=None)
    assert r.returncode == 0, r.stdout
    assert counts(r.stdout)[1] > 100
    kinds = [["-Os", "-fcf-protection=full"], ["-O2", "-march=x86-64-v3", "-fsanitize=address,undefined"]]
    if os.environ.get("ETCH_TESTS") != "all":
        kinds = kinds[CCS.index(compiler)::2]  # by each compiler one
    else:
        kinds += [["-O2", "-march=x86-64-v3"], ["-O3", "-fno-pie", "-no-pie"], ["-O2", "-fsanitize=address,undefined"]]
    for flags in kinds:
        r = run([build(tmp_path / "tiny", compiler=compiler, flags=flags), "tiny"], ok=None)
        assert r.returncode == 0, (flags, r.stdout, r.stderr)


REGISTERS = "rax rcx rdx rbx rsp rbp rsi rdi r8 r9 r10 r11 r12 r13 r14 r15".split()


def load_text(form, displacement, register, address):
    """The indirect form as objdump writes it."""
    call, mode, prefixes = form & 0xff, form >> 8 & 3, form >> 8 & 0xc0
    name = "call" if call == 64 else "jmp"
    high = REGISTERS.index(register) >= 8
    words = (["notrack"] if prefixes & 0x80 else []) + (["rex"] if prefixes & 0x40 and not (high and mode >= 2) else [])
    if mode == 3:
        operand = f"*%{register}"
    elif mode == 2:
        sign = "-" if displacement < 0 else ""
        operand = f"*{sign}{abs(displacement):#x}(%{register})"
    else:
        operand = None  # depends on where it is: below
    return words + [name], operand


def test_objdump_agrees(tmp_path, program):
    """A third opinion, of a linear disassembly: it sees each image begin where the one
    before it ends, and reads what the list says."""
    listing = run([program, "list", tmp_path / "bytes"]).stdout.splitlines()[:-1]
    dump = run(["objdump", "-D", "-b", "binary", "-mi386:x86-64", "-w", tmp_path / "bytes"]).stdout
    lines = {}
    for line in dump.splitlines():
        m = re.match(r"\s*([0-9a-f]+):\t([0-9a-f ]+)\t(.*)", line)
        if m:
            lines[int(m[1], 16)] = (len(m[2].split()), m[3].split("#")[0].strip())
    alone = {}  # a body by itself: the same instruction, without padding
    kinds = {}
    for line in listing:
        at, length, kind, *rest = line.split()
        at, length = int(at, 16), int(length)
        size, text = lines[at]
        words = text.split()
        kinds[kind] = kinds.get(kind, 0) + 1
        if kind == "many":
            end = at
            while end < at + length:
                size, text = lines[end]
                end += size
            assert end == at + length, line
            continue
        assert size == length, (line, text)
        if kind == "load":
            names, operand = load_text(int(rest[0], 16), int(rest[1]), rest[2], at)
            mode = int(rest[0], 16) >> 8 & 3
            seen = [re.sub(r"^rex\.?\w*", "rex", w) for w in words if w not in ("rex.B",)]
            assert [w for w in seen[:-1] if w != "ds"] == names, (line, text)
            if mode >= 2:
                where = re.sub(r"\*\(", "*0x0(", seen[-1])
                assert where == operand, (line, text)
            elif mode == 1:
                assert re.fullmatch(r"\*(ds:)?0x10010800", seen[-1]), (line, text)
            else:
                # rip-relative, encoded for a site at 0x10000400
                m = re.fullmatch(r"\*(0x[0-9a-f]+)\(%rip\)", seen[-1])
                assert m and int(m[1], 16) + 0x10000400 + length == 0x10010800, (line, text)
        elif kind in ("call", "jmp"):
            distance = int(rest[0], 16)
            distance -= 1 << 64 if distance >> 63 else 0
            assert words[-2] == kind and set(words[:-2]) <= {"addr32", "cs"}, (line, text)
            assert int(words[-1], 16) % (1 << 64) == (at + distance) % (1 << 64), (line, text)
        elif kind == "nop":
            assert re.match(r"(data16 |cs )*(nop[wl]? |xchg +%ax,%ax)", text + " "), (line, text)
        elif kind == "ret":
            assert words[-1] == "ret" and set(words[:-1]) <= {"cs"}, (line, text)
        else:
            assert kind == "one"
            text = " ".join(w for w in text.replace("%cs:", "").split() if w != "cs")
            assert alone.setdefault(rest[1], text) == text, (line, text)
    assert set(kinds) == {"load", "call", "jmp", "nop", "ret", "one", "many"} and min(kinds.values()) > 500, kinds
    assert alone["3"].split() == ["mov", "%rdi,%rax"] and alone["2"].split() == ["mov", "%edi,%eax"]


# One plausible mistake each, which the checks must notice: the only proof that they
# check something.
SABOTAGE = {
    "call and jmp swapped": ("? 2u : 4u", "? 4u : 2u"),
    "displacement from the start": ("slot - (site + n + 4)", "slot - (site + n)"),
    "rsp and r12 without a SIB byte": ("sib = (reg & 7) == 4", "sib = reg == 4"),
    "rbp and r13 without a displacement": ("(!left && (disp || (reg & 7) == 5))", "(!left && disp)"),
    "REX.B forgotten": ("(reg & 8 ? 1 : 0)", "0"),
    "one byte of displacement for all": ("disp != (int8_t)disp", "0"),
    "high displacements lost": ("((unsigned)(disp / 8) & 0xf0u)", "0"),
    "direct call padded behind": ("target - (site + len)", "target - (site + 5)"),
    "reach of 4 GiB": ("if (rel != (int32_t)rel)\n\t\treturn 0;\n\t/* The prefixes keep", "if (rel != (int64_t)rel)\n\t\treturn 0;\n\t/* The prefixes keep"),
    "null is a target": ("if (!target || len < 2", "if (len < 2"),
    "nop in place of a return": ("out[n++] = 0xc3;", "out[n++] = 0x90;"),
    "inlined at a tail call": ("if (body && !jump && body->len <= len", "if (body && body->len <= len"),
    "inlined where it does not fit": ("!jump && body->len <= len &&", "!jump && body->len <= 9 &&"),
    "many counted as one": ("\treturn 2;\n", "\treturn 1;\n"),
    "nop of six bytes": ("{0x66, 0x0f, 0x1f, 0x44}", "{0x0f, 0x1f, 0x44}"),
    "nop of seven bytes": ("{0x0f, 0x1f, 0x80}", "{0x0f, 0x1f, 0x84}"),
    "no padding of one instruction": ("while (n < pad)", "while (n < 0)"),
    "a jump that calls": ("jump ? 0xe9 : 0xe8", "0xe8"),
    "mov of another register recognized": ("{3, {0x48, 0x89, 0xf8}}", "{3, {0x48, 0x89, 0xf0}}"),
    "read behind the end": ("return n && b[0] == 0xc3", "return b[0] == 0xc3"),
    "endbr32 taken for endbr64": ("b[3] == 0xfa", "b[3] >= 0xfa"),
}


@pytest.mark.parametrize("name", SABOTAGE)
def test_mistakes_are_noticed(tmp_path, name):
    old, new = SABOTAGE[name]
    shutil.copytree(INCLUDE / "etch", tmp_path / "etch")
    header = tmp_path / "etch" / "pv_forms.h"
    text = header.read_text()
    assert text.count(old) == 1, "pv_forms.h has changed: adapt the mistake"
    header.write_text(text.replace(old, new))
    program = build(tmp_path / "encoding", tmp_path, flags=["-O1", "-w"])
    results = (run([program, mode], ok=None) for mode in ("decode", "tiny"))
    assert any(r.returncode == 1 and "FAIL" in r.stdout for r in results)
