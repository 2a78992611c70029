# SPDX-License-Identifier: MIT
"""Which calls and jumps through etched objects are found, with which form, and what
is said of those that are not taken: of hand-written shapes, in objects and in linked
files, which must agree; and of what compilers write, against the disassembly."""

import json
import re
import struct
from collections import defaultdict

import pytest
from elftools.elf.elffile import ELFFile

from conftest import CXX, DATA, INCLUDE, run, version
from pv_files import disassembly

HERE = DATA / "pv"


def wants(source):
    """{function: [form and offset, or reason]} from the comments of a fixture."""
    out, name = defaultdict(list), None
    for line in source.read_text().splitlines():
        if m := re.match(r"(?:shape (\w+)|([\w.]+):\s*$)", line):
            name = m[1] or m[2]
        if m := re.search(r"# WANT (.*?)\s*$", line):
            out[name] += m[1].split("; ")
    return dict(out)


def sites(etch, file):
    return json.loads(run([etch, "inspect", "sites", "--json", file]).stdout)["sites"]


def found(etch, file):
    """The same, as the tool says it."""
    out = defaultdict(list)
    for s in sites(etch, file):
        name = s["function"].split("+")[0]
        if s["kind"] == "escape" and not s["live"].startswith("no: a data word"):
            out[name].append("escape")
        elif s["kind"] in ("call", "jmp"):
            out[name].append(f"{s['form']} {s['offset']}" if s["form"] not in (None, "-") else s["live"])
    return dict(out)


def agree(want, got):
    assert set(got) == set(want)
    for name, expected in want.items():
        assert len(got[name]) == len(expected), (name, got[name], expected)
        for w, g in zip(sorted(expected), sorted(got[name])):
            assert g.startswith(w) if w.startswith("no:") else g == w, (name, got[name], expected)


CASES = [
    ("scan_shapes.S", ["-shared"]),
    ("scan_shapes.S", ["-pie"]),
    ("scan_shapes.S", ["-no-pie"]),
    ("scan_absolute.S", ["-no-pie"]),
    ("scan_got.S", ["-shared"]),
]


@pytest.mark.parametrize("source,flags", CASES, ids=[f"{s[5:-2]}{f[0]}" for s, f in CASES])
@pytest.mark.parametrize("linker", ["bfd", "lld"])
def test_shapes(etch, tmp_path, source, flags, linker):
    want, obj, out = wants(HERE / source), tmp_path / "t.o", tmp_path / "t"
    run(["gcc", f"-I{INCLUDE}", "-c", "-o", obj, HERE / source])
    agree(want, found(etch, obj))
    run(["gcc", f"-fuse-ld={linker}", "-nostdlib", *flags, "-Wl,-e,0", "-o", out, obj])
    agree(want, found(etch, out))


# ---- what compilers write ----------------------------------------------------------

def through(obj, symbol):
    """Addresses of the indirect calls and jumps whose own operand is relocated against
    an object, by the disassembly."""
    out, text = set(), run(["objdump", "-drw", "--no-show-raw-insn", obj]).stdout
    for line in text.splitlines():
        if m := re.match(rf"\s*([0-9a-f]+):\t(?:notrack )?(?:call|jmp)\s+\*.*R_X86_64_\w+\s+({symbol}|etched)", line):
            out.add(m[1])
    return out


FLAGS = [["-O0"], ["-O1"], ["-O2"], ["-O3"], ["-Os"], ["-O2", "-fPIC"], ["-O0", "-fPIC"], ["-O2", "-fno-pic"],
         ["-O2", "-fcf-protection=full"]]


@pytest.mark.parametrize("flags", FLAGS, ids=lambda f: "".join(f))
@pytest.mark.parametrize("cc", ["gcc", "clang"])
def test_compiled(etch, tmp_path, cc, flags):
    """Every call that the source makes is a site, whatever shape it was given, but those
    that the source itself keeps for later; in the object and in the linked file alike."""
    obj, out = tmp_path / "t.o", tmp_path / "t"
    run([cc, *flags, "-g", f"-I{INCLUDE}", "-DETCH_NO_MODULE", "-c", "-o", obj, HERE / "scan_calls.c"])
    kind = ["-shared"] if "-fPIC" in flags else ["-no-pie"] if "-fno-pic" in flags else ["-pie"]
    run([cc, *kind, "-nostdlib", "-Wl,-e,0", "-Wl,--unresolved-symbols=ignore-all", "-o", out, obj])
    in_object = [s for s in sites(etch, obj) if s["kind"] in ("call", "jmp")]
    calls = [s for s in sites(etch, out) if s["kind"] in ("call", "jmp")]
    assert through(obj, "ops") <= {s["address"] for s in in_object}

    def shape(s):
        return s["function"], s["kind"], s["offset"], s["form"]
    assert [shape(s) for s in calls] == [shape(s) for s in in_object]

    per = defaultdict(list)
    for s in calls:
        per[s["function"].split("+")[0]].append(s)
    lines = (HERE / "scan_calls.c").read_text().splitlines()
    for line in lines:
        if not (m := re.search(r"(\w+)\(.*/\* (\d+) taken(?: (or)|, (\d+)) named|(\w+)\(.*/\* (\d+) taken \*/", line)):
            continue
        name, taken, either, named = m[1] or m[5], int(m[2] or m[6]), m[3], int(m[4] or 0)
        got = [s["form"] not in (None, "-") for s in per[name]]
        if either:
            assert "-O0" in flags or len(got) == taken, (name, per[name])
            continue
        assert got.count(True) == taken, (name, per[name])
        if "-O0" not in flags:  # where a pointer is kept in memory, it is not followed
            assert got.count(False) == named, (name, per[name])


# ---- sequences ---------------------------------------------------------------------

def records(file):
    """[(flags, length)] of __pv_native, in order."""
    with open(file, "rb") as f:
        data = ELFFile(f).get_section_by_name("__pv_native").data()
    return [struct.unpack_from("<xxxxxxxxBB", data, i) for i in range(0, len(data), 12)]


@pytest.mark.parametrize("flags", [[], ["-fcf-protection=full"], ["-fPIC"]], ids=["", "cet", "pic"])
@pytest.mark.parametrize("cc", ["gcc", "clang"])
def test_native(etch, build, tmp_path, cc, flags):
    """Each sequence is judged as its comment says, by the object step and by the link step."""
    source, obj, out = HERE / "scan_native.c", tmp_path / "t.o", tmp_path / "t"
    run([cc, *flags, "-O2", f"-I{INCLUDE}", "-c", "-o", obj, source])
    plain = tmp_path / "plain"
    run([cc, "-o", plain, obj, build / "libetch.a", "-pthread", "-ldl"])
    want = re.findall(r"PV_NATIVE\((\w+),.*/\* WANT (.*?) \*/", source.read_text())
    flag = {"one": 3, "many": 1}

    def judged(file):
        said = run([etch, "rewrite", file], ok=None).stderr
        got = records(file)[-len(want):]
        for (name, w), (_, is_flags) in zip(want, got):
            finding = re.search(rf"{name}\b.*ETCH-P001.*|.*ETCH-P001.*\b{name}\b.*", said)
            assert is_flags == flag.get(w, 0), (name, w, is_flags)
            assert bool(finding) == (w not in flag), (name, said)
            if finding:
                assert w in finding[0]
    assert all(not f for _, f in records(obj))
    judged(obj)
    run([cc, "-o", out, obj, build / "libetch.a", "-pthread", "-ldl"])
    judged(out)
    judged(plain)  # which the object step never saw


# ---- exceptions --------------------------------------------------------------------

@pytest.mark.parametrize("flags", [["-O2"], ["-O2", "-fPIC"], ["-O1", "-fPIC"]], ids=lambda f: "".join(f))
@pytest.mark.parametrize("cc", ["gcc", "clang"])
def test_exceptions(etch, tmp_path, cc, flags):
    """An address that only landing pads find in a register has not escaped; what they do
    with it are sites as any other. (Of gcc without cold parts, which are functions of
    their own.)"""
    obj, out = tmp_path / "t.o", tmp_path / "t.so"
    whole = ["-fno-reorder-blocks-and-partition"] if cc == "gcc" else []
    run([CXX[cc], *flags, *whole, f"-I{INCLUDE}", "-DETCH_NO_MODULE", "-c", "-o", obj, HERE / "scan_throw.cc"])
    got = sites(etch, obj)
    # gcc 16 at -O1 has the address in rdx or rcx at some calls by it. These two registers are arguments, too: an escape.
    code, passed = disassembly(obj), [s for s in got if s["kind"] == "escape"]
    assert not passed or version(cc) >= 16 and cc == "gcc" and flags[0] == "-O1" and len(passed) <= 4
    assert all(re.fullmatch(r"call +\*(0x8)?\(%r[cd]x\)", code[int(s["address"], 16)][1]) for s in passed)
    calls = [s for s in got if s["kind"] in ("call", "jmp")]
    assert len(calls) >= 15 and all(s["form"] not in (None, "-") for s in calls)
    if "-fPIC" in flags:
        run([CXX[cc], "-shared", "-nostdlib", "-Wl,--unresolved-symbols=ignore-all", "-o", out, obj])
        linked = [s for s in sites(etch, out) if s["kind"] in ("call", "jmp", "escape")]
        assert sorted((s["kind"], s["form"], s["offset"]) for s in linked) == \
            sorted((s["kind"], s["form"], s["offset"]) for s in calls + passed)
