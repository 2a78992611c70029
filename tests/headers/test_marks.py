# SPDX-License-Identifier: MIT
"""Markers (etch/mark.h): called while something is attached, nops else; and `etch inspect marks`."""
import functools
import json
import re
import shutil
import struct
import subprocess

import jsonschema
import pytest
from elftools.elf.elffile import ELFFile

from conftest import DATA, ROOT, Flow, run

LIB = DATA / "lib"
MODES = {
    "gcc-O0": ("gcc", ["-O0"], [], False), "gcc-O2": ("gcc", ["-O2"], [], False), "gcc-packed": ("gcc", ["-O2", "-DETCH_BRANCH_PACKED"], [], False),
    "gcc-static": ("gcc", ["-Os"], ["-static"], False), "gcc-static-pie": ("gcc", ["-O3", "-fPIE", "-fcf-protection=full"], ["-static-pie"], False),
    "gcc-no-pie": ("gcc", ["-O2", "-fno-pie", "-DETCH_BRANCH_PACKED"], ["-no-pie"], False), "gcc-lto": ("gcc", ["-O2", "-flto"], ["-O2", "-flto"], False),
    "gcc-gc": ("gcc", ["-O2", "-ffunction-sections"], ["-Wl,--gc-sections"], False), "gcc-intel": ("gcc", ["-O2", "-masm=intel"], [], False),
    "clang-O0": ("clang", ["-O0"], [], False), "clang-packed": ("clang", ["-O2", "-DETCH_BRANCH_PACKED"], [], False),
    "clang-lld": ("clang", ["-O2", "-ffunction-sections"], ["-fuse-ld=lld", "-Wl,--gc-sections"], False),
    "g++-packed": ("gcc", ["-O2", "-DETCH_BRANCH_PACKED"], [], True), "clang++-O0": ("clang", ["-O0"], [], True),
    "clang++-packed": ("clang", ["-O2", "-DETCH_BRANCH_PACKED"], [], True),
}
WARNINGS = ["-Wall", "-Wextra", "-Werror", "-Wpedantic", "-Wshadow"]
DONE = "request_done(touch(fd), p, text, small, byte, half, 1ul << 40, p->x > 3)"


def expected(plugin, rounds):
    """By hand from the source: 29 sites in the program, 2 in the plugin."""
    out = ["off: on 0 of 29 (1), evaluated 0", "attach 1", "  A request 2 /one", "attach 29", "attach 2",
           "three: on 29 of 29 (1), evaluated 0", "  B none()", "  A request 3 /three", "  B request(fd, url) 3 '/three'",
           "  C request(fd, url) 3 '/three'", f"  B {DONE} 3 x=3 'abc' -7 200 0.5 {1 << 40} 0",
           f"  C {DONE} 3 x=3 'abc' -7 200 0.5 {1 << 40} 0", "attach 0", "detach 0", "  A request 4 /two",
           "  C request(fd, url) 4 '/two'", f"  C {DONE} 4 x=4 'abc' -7 200 0.5 {1 << 40} 1", "detach -1", "detach 0", "detach 0",
           "detach 0", "off again: on 0 of 29 (1), evaluated 2", "errors -1 -1", "once 3 inner 3"]
    if plugin:
        out += ["attach 1"]
        for i in range(3):
            out += ["their attach 2", "their detach 0", f"sum {1111 * (i + 1) + i}, theirs {110 * (i + 1)}"]
        out += ["sum 3336"]
    out += ["parent 1002, child 0"]
    if rounds:
        out += ["wrong 0, 0", "at last: on 0 of 29 (1), evaluated 2"]
    return "\n".join(out) + "\n"


@pytest.fixture(scope="module", params=MODES)
def mode(request, tmp_path_factory, build):
    cc, flags, ldflags, cxx = MODES[request.param]
    return Flow(tmp_path_factory.mktemp("marks"), build, cc), flags, ldflags, cxx


@pytest.fixture(scope="module")
def plugins(tmp_path_factory, build):
    """plugins(compiler, stage): the plugin, which is the same for all modes of a compiler."""
    @functools.cache
    def get(cc, stage):
        flow = Flow(tmp_path_factory.mktemp("plugin"), build, cc)
        out = flow.tmp / "plugin.so"
        run([cc, "-shared", "-fPIC", "-o", out, flow.compile(LIB / "marks_plugin.c", [*WARNINGS, "-O2", "-fPIC"]),
             f"-L{build}", "-letch", f"-Wl,-rpath,{build}"])
        if stage == "both":
            flow.rewrite(out)
        return out
    return get


def made(mode, plugins, stage):
    flow, flags, ldflags, cxx = mode
    if not (flow.tmp / "marks.o").exists():
        source = flow.source((LIB / "marks.c").read_text(), "marks.cc") if cxx else LIB / "marks.c"
        flow.compile(source, [*WARNINGS, *flags, *["-Wno-cast-function-type"] * cxx], "marks.o")
    obj = flow.tmp / f"{stage}.o"
    shutil.copy(flow.tmp / "marks.o", obj)
    if stage == "both":
        flow.rewrite(obj)
    shared = not any("static" in f for f in ldflags)
    out = flow.link([obj], ldflags, stage, shared_lib=shared, cxx=cxx)
    if stage == "both":
        flow.rewrite(out)
        once = out.read_bytes()
        flow.rewrite(out)
        assert out.read_bytes() == once
    return out, plugins(flow.cc, stage) if shared else None


@pytest.mark.parametrize("stage", ["plain", "both"])
def test_runs(mode, plugins, stage):
    out, plugin = made(mode, plugins, stage)
    p = run([out, plugin or "", "40"])
    assert p.stdout == expected(plugin, True)
    assert int(re.search(r"markers, (\d+) calls", p.stderr)[1]) > 0


@pytest.mark.long
def test_long(mode, plugins):
    out, plugin = made(mode, plugins, "plain")
    assert run([out, plugin or "", "20000"], timeout=3000).stdout == expected(plugin, True)


def records(path):
    """The sites of __etch_mark in a linked file, as docs/formats.md has them."""
    with open(path, "rb") as f:
        elf = ELFFile(f)
        s = elf.get_section_by_name("__etch_mark")
        data, addr = s.data(), s["sh_addr"]

        def string(at):
            p = next(p for p in elf.iter_segments() if p["p_type"] == "PT_LOAD" and p["p_vaddr"] <= at < p["p_vaddr"] + p["p_filesz"])
            f.seek(p["p_offset"] + at - p["p_vaddr"])
            return f.read(4096).split(b"\0")[0].decode()
        for at in range(0, len(data), 44):
            fields = struct.unpack_from("<6iIB8s7s", data, at)
            ref = [addr + at + 4 * i + fields[i] for i in range(6)]
            yield {"site": ref[0], "name": string(ref[3]), "args": string(ref[4]), "file": string(ref[5]), "line": fields[6],
                   "types": fields[8][:fields[7]]}


TYPES = ["", "int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64", "bool", "double", "long double", "string",
         "pointer", "struct"]


@pytest.mark.parametrize("suffix", [".c", ".cc"])
def test_inspect(flow, suffix):
    """All views say the same, of the object too; names, types and places are those of the source and of the section."""
    source = flow.source((LIB / "marks.c").read_text(), "marks" + suffix)
    obj = flow.compile(source, ["-O2"])
    out = flow.link([obj], cxx=suffix == ".cc", shared_lib=True)
    doc = flow.inspect("marks", out)
    jsonschema.validate(doc, json.loads((ROOT / "docs" / "schemas" / "inspect-marks.json").read_text()))
    marks, own = doc["marks"], list(records(out))
    assert len(marks) == len(own) == 29
    lines = source.read_text().splitlines()
    for m, r in zip(marks, own):
        assert (int(m["address"], 16), m["name"], m["file"], m["line"]) == (r["site"], r["name"], r["file"], r["line"])
        assert m["types"] == (",".join(TYPES[t] for t in r["types"]) or None)
        assert [m["name"], *([m["arguments"]] if m["arguments"] else [])] == r["args"].split(", ", 1)
        line = lines[m["line"] - 1]
        assert f"ETCH_MARK({m['name']}" in line or line.startswith("SITE(")
    done = next(m for m in marks if m["name"] == "request_done")
    promoted = "int32" if suffix == ".c" else "bool"  # of p->x > 3
    assert done["types"] == f"int32,pointer,string,int16,uint8,double,uint64,{promoted}" and done["function"].startswith(("work", "_ZL4work"))
    tsv = run([flow.etch, "inspect", "marks", "--format", "tsv", out]).stdout.splitlines()
    assert tsv[0].split("\t") == list(done) and [t.split("\t") for t in tsv[1:]] == [[str(v or "-") for v in m.values()] for m in marks]
    key = ("name", "types", "arguments", "line")
    assert sorted([str(m[k]) for k in key] for m in flow.inspect("marks", obj)["marks"]) == sorted([str(m[k]) for k in key] for m in marks)
    assert run([flow.etch, "inspect", "marks", "/bin/true"]).stdout == "/bin/true: no marker\n"


@pytest.mark.parametrize("harm", ["site", "head", "count", "type", "code", "size"])
def test_damaged(flow_gcc, harm):
    """libetch ignores a malformed table; of other bytes at a site attach says so, and changes nothing."""
    out = flow_gcc.link([flow_gcc.compile(LIB / "marks.c", ["-O2"])], shared_lib=True)
    with open(out, "rb") as f:
        elf = ELFFile(f)
        i, s = next((i, s) for i, s in enumerate(elf.iter_sections()) if s.name == "__etch_mark")
        off, addr, size, sh = s["sh_offset"], s["sh_addr"], s["sh_size"], elf["e_shoff"] + i * elf["e_shentsize"] + 32
        text = next(p for p in elf.iter_segments() if p["p_type"] == "PT_LOAD" and p["p_flags"] & 1)
    data = bytearray(out.read_bytes())
    if harm in ("site", "head"):
        at = off + (8 if harm == "head" else 0)
        data[at:at + 4] = struct.pack("<i", 0x7f000000)
    elif harm == "count":
        data[off + 12 + 16] = 9
    elif harm == "type":
        data[off + 12 + 17] = 99
    elif harm == "size":
        data[sh:sh + 8] = struct.pack("<Q", size - 4)
    else:
        for at in range(off, off + size, 44):
            site = addr + at - off + struct.unpack_from("<i", data, at)[0]
            data[text["p_offset"] + site - text["p_vaddr"] + 4] ^= 1
    out.write_bytes(data)
    p = subprocess.run([flow_gcc.etch, "inspect", "marks", out], capture_output=True, text=True)
    assert p.returncode == (2 if harm == "size" else 0) and p.stderr.count("\n") == (harm == "size")
    p = subprocess.run([out], capture_output=True, text=True)
    if harm == "site":  # the first record is empty
        assert p.stdout.startswith("off: on 0 of 28 (1)")
    elif harm == "code":
        assert "attach -4" in p.stdout and "  A " not in p.stdout and "on 0 of 29" in p.stdout
    elif harm != "size":
        assert p.stdout.startswith("off: on 0 of 0 (1)") and "  A " not in p.stdout
