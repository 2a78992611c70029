# SPDX-License-Identifier: MIT
"""etch/forms.h, exhaustively: every form x register x addressing x REX presence,
decoded by Zydis and by Capstone, and executed. See tests/data/forms/encoding.c."""
import shutil
import subprocess

import pytest

from conftest import DATA, INCLUDE

SEED = "20240601"


def build(out, include, compiler="gcc", source="encoding.c"):
    subprocess.run([compiler, "-std=gnu11", "-O2", "-g", "-Wall", "-Wextra", "-Werror", "-I", include,
                    DATA / "forms" / source, "-o", out, "-lZydis", "-lcapstone"], check=True)
    return out


def run(program, mode):
    return subprocess.run([program, mode, SEED], capture_output=True, text=True, timeout=300)


def counts(output):
    words = output.strip().splitlines()[-1].replace(",", "").split()
    return int(words[0]), int(words[2])


@pytest.fixture(scope="module", params=["gcc", "clang"])
def program(request, tmp_path_factory):
    return build(tmp_path_factory.mktemp("forms") / "encoding", INCLUDE, request.param)


# What there is: 58 forms with a register x 16 registers, and push with none, x (rip,
# abs, 15 bases), and each twice where the REX prefix is not needed: the 41 forms that
# are not 64 bits wide, with 8 registers, and push, x (rip, abs, 7 bases).
ENTRIES = (58 * 16 + 1) * 17 + (41 * 8 + 1) * 9


@pytest.mark.parametrize("mode", ["decode", "execute"])
def test_every_entry(program, mode):
    r = run(program, mode)
    assert r.returncode == 0, r.stdout
    entries, checks = counts(r.stdout)
    assert entries == ENTRIES
    assert checks > 20 * entries


def test_addresses_near_the_code(program):
    """mov64 of a value that no mov holds, within 2 GiB of the site: 16 registers x (abs, 15 bases)."""
    r = run(program, "near")
    assert r.returncode == 0, r.stdout
    entries, checks = counts(r.stdout)
    assert entries == 16 * 16
    assert checks > 40 * entries


def test_refuses_what_is_no_site(program):
    r = run(program, "refuse")
    assert r.returncode == 0, r.stdout
    assert counts(r.stdout)[0] > 1_000_000


# One plausible mistake each, which the driver must notice: it is the only proof
# that the checks above check something.
SABOTAGE = {
    "imul forgets REX.R": ("f.imm_ext == 8 ? 5 : 1", "f.imm_ext == 8 ? 1 : 1"),
    "high byte registers taken for spl..dil": ("(byte_reg && etch_imv_rex(e))", "byte_reg"),
    "spl..dil taken for high byte registers": ("(byte_reg && etch_imv_rex(e))", "0"),
    "zero extension signed": ("return !f.sign && f.mem < f.width ?", "return 0 ?"),
    "sign extension unsigned": ("return !f.sign && f.mem < f.width ?", "return f.mem < f.width ?"),
    "unsigned 32 bits as simm32": ("wide = 0; /* mov", "wide = 1; /* mov"),
    "alu takes unsigned 32 bits": ("if (f.imm != ETCH_IMM_MOV64)", "if (0)"),
    "lea from the start of the site": ("(value - (site + len))", "(value - site)"),
    "lea without REX.R": ("0x48 | (reg & 8) >> 1);\n\tout[n++] = 0x8d", "0x48);\n\tout[n++] = 0x8d"),
    "lea out of reach": ("!site || len < 7 || disp != (int32_t)disp", "!site || len < 7"),
    "no padding": ("while (pad--)", "while (0)"),
    "adc and sbb swapped": ("f.imm_ext = (uint8_t)(k >> 2);",
                            "f.imm_ext = (uint8_t)((k >> 2) ^ ((k >> 2) == 2 || (k >> 2) == 3));"),
    "displacement from the start": ("(obj - (from + 5))", "(obj - from)"),
    "base register without REX.B": ("if (base & 8)", "if (0)"),
    "REX bit of the entry ignored": ("if (rex && !etch_imv_rex(e))", "if (0)"),
    "rsp as base": ("if (base == 4 || ", "if ("),
    "r12 as base without a SIB byte": ("if (base == 12)", "if (0)"),
}


@pytest.mark.parametrize("name", SABOTAGE)
def test_mistakes_are_noticed(tmp_path, name):
    old, new = SABOTAGE[name]
    shutil.copytree(INCLUDE / "etch", tmp_path / "etch")
    header = tmp_path / "etch" / "forms.h"
    text = header.read_text()
    assert text.count(old) == 1, "forms.h has changed: adapt the mistake"
    header.write_text(text.replace(old, new))
    subprocess.run(["gcc", "-std=gnu11", "-O1", "-w", "-I", tmp_path, DATA / "forms" / "encoding.c",
                    "-o", tmp_path / "encoding", "-lZydis", "-lcapstone"], check=True)
    results = (run(tmp_path / "encoding", mode) for mode in ("decode", "execute", "near", "refuse"))
    assert any(r.returncode == 1 and "FAIL" in r.stdout for r in results)


# Every compare of memory with a constant: 8 forms x REX x where x constant x 6 sets of flags.
@pytest.mark.parametrize("compiler", ["gcc", "clang"])
def test_compares_with_constants(tmp_path, compiler):
    r = run(build(tmp_path / "compares", INCLUDE, compiler, "compares.c"), "all")
    assert r.returncode == 0, r.stdout
    entries, checks = counts(r.stdout)
    assert entries > 12_000 and checks > 250_000


COMPARE_SABOTAGE = {
    "below for less": ("(flags)\n\t\tk = 3;", "(flags)\n\t\tk = 2;"),
    "less for below": ("k = wide ? 6 : 2;", "k = 3;"),
    "equal for unequal": ("k = wide ? 4 : 0;", "k = wide ? 5 : 1;"),
    "unsigned order signed": ("(a < b ? ETCH_NEED_BELOW", "((int64_t)a < (int64_t)b ? ETCH_NEED_BELOW"),
    "test as compare": ("if (form >= ETCH_FORM_TESTI8) {", "if (0) {"),
    "constant behind the displacement forgotten": ("site + n + imm_len", "site + n"),
    "short constant encoded as a long one": ("imm_len == 1 ? 0x83", "0 ? 0x83"),
    "width of the value ignored": ("unsigned shift = 64 - 8 * etch_form_size(form);", "unsigned shift = 0 * form;"),
}


@pytest.mark.parametrize("name", COMPARE_SABOTAGE)
def test_mistakes_in_compares_are_noticed(tmp_path, name):
    old, new = COMPARE_SABOTAGE[name]
    shutil.copytree(INCLUDE / "etch", tmp_path / "etch")
    header = tmp_path / "etch" / "forms.h"
    text = header.read_text()
    assert text.count(old) == 1, "forms.h has changed: adapt the mistake"
    header.write_text(text.replace(old, new))
    subprocess.run(["gcc", "-std=gnu11", "-O1", "-w", "-I", tmp_path, DATA / "forms" / "compares.c",
                    "-o", tmp_path / "compares", "-lZydis", "-lcapstone"], check=True)
    r = run(tmp_path / "compares", "all")
    assert r.returncode == 1 and "FAIL" in r.stdout
