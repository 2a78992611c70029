# SPDX-License-Identifier: MIT
"""etch/forms.h, exhaustively: every form x register x addressing x REX presence,
decoded by Zydis and by Capstone, and executed. See forms/encoding.c."""
import pathlib
import shutil
import subprocess

import pytest

HERE = pathlib.Path(__file__).resolve().parent
INCLUDE = HERE.parent / "lib" / "include"
SEED = "20240601"


def build(out, include, compiler="gcc"):
    subprocess.run([compiler, "-std=gnu11", "-O2", "-g", "-Wall", "-Wextra", "-Werror", "-I", include,
                    HERE / "forms" / "encoding.c", "-o", out, "-lZydis", "-lcapstone"], check=True)
    return out


def run(program, mode):
    return subprocess.run([program, mode, SEED], capture_output=True, text=True, timeout=300)


def counts(output):
    words = output.strip().splitlines()[-1].replace(",", "").split()
    return int(words[0]), int(words[2])


@pytest.fixture(scope="module", params=["gcc", "clang"])
def program(request, tmp_path_factory):
    return build(tmp_path_factory.mktemp("forms") / "encoding", INCLUDE, request.param)


# What there is: 54 forms with a destination x 16 registers, and push with none, x (rip,
# abs, 15 bases), and each twice where the REX prefix is not needed: the 38 forms that
# are not 64 bits wide, with 8 destinations, and push, x (rip, abs, 7 bases).
ENTRIES = (54 * 16 + 1) * 17 + (38 * 8 + 1) * 9


@pytest.mark.parametrize("mode", ["decode", "execute"])
def test_every_entry(program, mode):
    r = run(program, mode)
    assert r.returncode == 0, r.stdout
    entries, checks = counts(r.stdout)
    assert entries == ENTRIES
    assert checks > 20 * entries


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
    "zero extension signed": ("if (!f.sign && f.mem < f.width)", "if (0)"),
    "sign extension unsigned": ("if (!f.sign && f.mem < f.width)", "if (f.mem < f.width)"),
    "unsigned 32 bits as simm32": ("wide = 0; /* mov", "wide = 1; /* mov"),
    "alu takes unsigned 32 bits": ("if (f.imm != ETCH_IMM_MOV64 || ", "if ("),
    "no padding": ("while (pad--)", "while (0)"),
    "adc and sbb swapped": ("f.imm_ext = (uint8_t)(k >> 2);",
                            "f.imm_ext = (uint8_t)((k >> 2) ^ ((k >> 2) == 2 || (k >> 2) == 3));"),
    "displacement from the start": ("(site + n + 4)", "(site + n)"),
    "base register without REX.B": ("if (mode == ETCH_ADDR_BASE && (base & 8))", "if (0)"),
    "REX bit of the entry ignored": ("if (rex && !etch_imv_rex(e))", "if (0)"),
    "rsp as base": ("if (mode == ETCH_ADDR_BASE && base == 4)", "if (0)"),
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
    subprocess.run(["gcc", "-std=gnu11", "-O1", "-w", "-I", tmp_path, HERE / "forms" / "encoding.c",
                    "-o", tmp_path / "encoding", "-lZydis", "-lcapstone"], check=True)
    results = (run(tmp_path / "encoding", mode) for mode in ("decode", "execute", "refuse"))
    assert any(r.returncode == 1 and "FAIL" in r.stdout for r in results)
