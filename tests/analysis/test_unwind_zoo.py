# SPDX-License-Identifier: MIT
"""Frames of every kind that gcc and clang make, under many flags: the rows against
.eh_frame with and without it, of the program and of its object, and against execution."""

import io
import re

import pytest
from elftools.elf.elffile import ELFFile

import dynamic
import dynamic_truth
import objects
import rows
import static_truth
from conftest import CXX, DATA, run, version

FLAGS = [
    ["-O0"], ["-O1"], ["-O2"], ["-O3"], ["-Os"], ["-O2", "-fomit-frame-pointer", "-fno-pie", "-no-pie"],
    ["-O2", "-fno-omit-frame-pointer"], ["-O3", "-mavx2", "-mstackrealign"], ["-O2", "-fstack-clash-protection"],
    ["-O2", "-fcf-protection=full"], ["-O2", "-fstack-protector-all"], ["-O2", "-flto"], ["-O2", "-fno-plt", "-fPIC"],
    ["-Os", "-ffunction-sections", "-Wl,--gc-sections"], ["-O2", "-fno-jump-tables"], ["-O2", "-Wl,--emit-relocs"],
]


def name(flags):
    return "".join(f.lstrip("-") if i == 0 else f for i, f in enumerate(flags))


def build(cc, source, flags, tmp_path):
    out = tmp_path / "program"
    cxx = source.suffix == ".cc"
    run([CXX[cc] if cxx else cc, "-g0", *flags, "-w", "-o", out, source])
    return out


def static(etch, program):
    for mode in static_truth.MODES:
        r = static_truth.look((etch, program, mode))
        assert not r.error, r.error
        shown = [f"{d[5]} {d[0]:x}-{d[1]:x} {d[6]}: CFI {d[2]} | ours {d[3]} ({d[4]})" for d in r.differ[:20]]
        assert not r.differ, f"{mode}\n" + "\n".join(shown)
        # After the call in _start comes a hlt that nothing reaches; before a landing pad that begins a cold part gcc 14 and later have
        # a nop, since an offset of 0 means none.
        left = [u for u in r.undefined if u[0] > 1 or mode == "cfi" or not (
            u[1] == "_start" or version("gcc") > 12 and u[1].endswith(".cold"))]
        assert not left, (mode, left)


@pytest.mark.parametrize("flags", FLAGS, ids=name)
def test_c(etch, cc, flags, tmp_path):
    static(etch, build(cc, DATA / "unwind" / "step_zoo.c", flags, tmp_path))


@pytest.mark.parametrize("flags", FLAGS[:6], ids=name)
def test_cxx(etch, cc, flags, tmp_path):
    static(etch, build(cc, DATA / "unwind" / "step_throw.cc", flags, tmp_path))


def has_both(obj, section, place):
    """Is rbp both in its register and in its slot all over the place, so that the two answers are right? gcc 16 describes a slot
    in .eh_frame some instructions after the store to it, and a register after the load from its slot. The instruction in front of
    the place is that store or load, and none at the place changes rbp or the slot."""
    start, end, theirs, ours, _ = place
    slots = {rule[1] for rule in (theirs, ours)} - {"same"}
    if len(slots) != 1 or theirs[0] != ours[0] or not theirs[0].startswith("rsp") or not min(slots).startswith("cfa-"):
        return False
    lines = re.findall(r"^ *([0-9a-f]+):\t(.*?)(?: +[#<].*)?$",
                       run(["objdump", "-d", "--no-show-raw-insn", "-j", section, obj]).stdout, re.M)
    lines = [(int(at, 16), text.strip()) for at, text in lines]
    offset = int(theirs[0][3:] or 0) - int(min(slots)[4:])
    slot = rf"{offset:#x}\(%rsp\)"
    move = rf"mov +%rbp,{slot}" if theirs[1] == "same" else rf"mov +{slot},%rbp"
    return bool(re.fullmatch(move, max((at, text) for at, text in lines if at < start)[1])) and not any(
        re.search(rf"(,%[er]?bpl?$|^pop +%rbp|^leave|,{slot}$)", text) for at, text in lines if start <= at < end)


@pytest.mark.parametrize("flags", [["-O0"], ["-O2"], ["-O2", "-ffunction-sections"], ["-Os", "-fPIC"]], ids=name)
@pytest.mark.parametrize("source", ["step_zoo.c", "step_throw.cc"])
def test_object(etch, cc, source, flags, tmp_path):
    """Before the link everything is relocations."""
    source = DATA / "unwind" / source
    obj = tmp_path / "t.o"
    run([CXX[cc] if source.suffix == ".cc" else cc, "-g0", "-w", *flags, "-c", "-o", obj, source])
    elf = ELFFile(io.BytesIO(obj.read_bytes()))
    truth, _ = objects.cfi_rows(elf)
    names = {i: s.name for i, s in enumerate(elf.iter_sections())}
    ours = objects.etch_rows(etch, obj, "--no-cfi")
    covered = agree = 0
    for index, t in truth.items():
        mine = ours.get(str(index)) or ours.get(names[index]) or []
        c = rows.compare(t, mine)
        covered += c.covered
        agree += c.agree
        for what, places in c.where.items():
            if what in rows.AGREE:
                continue
            # Padding after what does not go on may carry the state before or after.
            # So may a jump after a call that does not return be left without a row.
            both = [p for p in places if has_both(obj, names[index], p)]
            agree += sum(end - start for start, end, *_ in both)
            bad = [p for p in places if p[1] - p[0] >= 16 and p not in both]
            assert not bad, (names[index], what, bad[:5])
    assert covered and agree >= 0.98 * covered


@pytest.mark.parametrize("flags", [["-O0"], ["-O2"], ["-O3", "-mavx2", "-mstackrealign"],
                                   ["-O2", "-fstack-clash-protection"]], ids=name)
def test_steps(etch, stepper, cc, flags, tmp_path):
    """From every instruction of the program, --no-cfi rows for its own code."""
    table = dynamic.Rows(tmp_path / "rows", etch, ["--no-cfi"])
    program = build(cc, DATA / "unwind" / "step_zoo.c", flags, tmp_path)
    r = dynamic.in_process(stepper(), table, [program], steps=60_000)
    mine = [t for t in dynamic_truth.unexplained([r]) if t.file == str(program)]
    assert not mine, "\n".join(map(str, mine[:10]))
    assert r.checked > 20_000


def test_steps_throw(etch, stepper, cc, tmp_path):
    table = dynamic.Rows(tmp_path / "rows", etch, [])
    program = build(cc, DATA / "unwind" / "step_throw.cc", ["-O2"], tmp_path)
    r = dynamic.in_process(stepper(), table, [program], steps=150_000)
    wrong = dynamic_truth.unexplained([r])
    assert not wrong, "\n".join(map(str, wrong[:10]))
    assert r.eh_returns >= 8
