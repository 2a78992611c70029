# SPDX-License-Identifier: MIT
"""Objects beside what they link to, landing pads beside pyelftools, mutants of both:
tool/analysis/facts/cfi_file.c."""

import os
import re
import struct
from pathlib import Path

import pytest
from elftools.elf.elffile import ELFFile

from cfi_files import HERE, LIBDIR, SANITIZE, TOOL, build_c, rows, unwinder
from cfi_files import dump  # noqa: F401 (fixtures)
from conftest import CXX, run, tool_objects


# ---- objects, and landing pads -----------------------------------------------------------

KINDS = {"plain": [], "O0": ["-O0"], "sections": ["-ffunction-sections", "-O2"], "large": ["-mcmodel=large", "-O2"],
         "fp": ["-O2", "-fno-omit-frame-pointer"]}


def functions(dump, path):
    """{symbol: (size, rows, call sites)}; pads as symbol+offset."""
    with open(path, "rb") as f:
        elf = ELFFile(f)
        where = {}
        rel = elf["e_type"] == "ET_REL"
        for s in elf.get_section_by_name(".symtab").iter_symbols():
            if s["st_info"]["type"] == "STT_FUNC" and isinstance(s["st_shndx"], int):
                base = 0 if rel else elf.get_section(s["st_shndx"])["sh_addr"]
                where.setdefault(s["st_shndx"], []).append((s.name, s["st_value"] - base, s["st_size"]))

    def name(section, offset):
        if section == "-":
            assert offset == 0
            return "-"
        for symbol, start, size in sorted(where.get(int(section), [])):  # of aliases, the same one
            if start <= offset < start + size:
                return f"{symbol}+{offset - start:x}"
        return "?"

    out = {}
    for line in dump("functions", path):
        c = line.split("\t")
        if c[0] == "F":
            current = out.setdefault(name(c[1], int(c[2], 16)), (c[3], [], []))
        elif c[0] == "C":
            current[2].append((c[1], c[2], name(c[3], int(c[4], 16))))
        else:
            current[1].append(line)
    return out


@pytest.mark.parametrize("kind", KINDS)
def test_an_object_is_as_what_it_links_to(dump, tmp_path, cc, kind):
    obj, lib = tmp_path / "t.o", tmp_path / "t.so"
    pic = [] if kind == "large" and cc == "gcc" else ["-fPIC"]
    run([CXX[cc], "-O1", *pic, *KINDS[kind], "-c", HERE / "cfi_objects.cc", "-o", obj])
    a = functions(dump, obj)
    assert dump.bad == 0 and dump.dropped == 0
    if kind == "large":  # absolute addresses: no shared object
        run([CXX[cc], "-shared", "-Wl,-z,notext", obj, "-o", lib], ok=(0, 1))
    else:
        run([CXX[cc], "-shared", obj, "-o", lib])
    names = {n.split("+")[0] for n in a}
    assert {"_Z7catchesi", "_Z5growsi", "_Z7alignedi", "_Z7pair_ofIiET_S0_", "_Z5failsi"} <= names
    assert any(p != "-" for p in (s[2] for s in a["_Z7catchesi+0"][2]))
    assert all(s[2] != "?" for f in a.values() for s in f[2])
    if lib.exists():
        b = functions(dump, lib)
        assert {n: b.get(n) for n in a} == a
        assert rows.compare(rows.cfi_rows(lib)[0], rows.parse_tsv(dump("rows", lib))).agree > 0


def test_relocations_that_do_not_fit_or_name_nothing(dump, tmp_path):
    """Such an FDE is left out; cut off to 32 bits it would be about other code."""
    obj = tmp_path / "t.o"
    run(["gcc", "-O1", "-ffunction-sections", "-c", "-x", "c", "-", "-o", obj],
        input="int a(int x){return x;} int b(int x){return x+1;} int c(int x){return x+2;}\n")
    data = bytearray(obj.read_bytes())
    with open(obj, "rb") as f:
        at = ELFFile(f).get_section_by_name(".rela.eh_frame")["sh_offset"]
    whole = functions(dump, obj)
    assert set(whole) == {"a+0", "b+0", "c+0"}
    struct.pack_into("<q", data, at + 16, 1 << 40)   # a: an addend of 41 bits
    struct.pack_into("<I", data, at + 24 + 12, 0)    # b: symbol 0
    obj.write_bytes(data)
    assert functions(dump, obj) == {"c+0": whole["c+0"]}
    assert (dump.bad, dump.dropped) == (0, 2)


LPSTART = """
	.text
	.globl pads
	.type pads, @function
pads:	.cfi_startproc
	.skip 32, 0x90
	ret
	.cfi_endproc
	.size pads, .-pads
	.globl throws
	.type throws, @function
throws:	.cfi_startproc
	.cfi_lsda 0x1b, table
	call throws
1:	call throws
2:	ret
	.cfi_endproc
	.size throws, .-throws
	.section .gcc_except_table,"a",@progbits
table:	.byte 0x1b
	.long pads-.
	.byte 0xff, {encoding}, 4f-3f
3:	{field} 0, 1b-throws, {pad}
	.byte 0
	{field} 1b-throws, 2b-1b, 0
	.byte 0
4:
"""


@pytest.mark.parametrize("encoding,field", [(1, ".uleb128"), (3, ".long"), (0x0B, ".long")], ids=["uleb", "udata4", "sdata4"])
def test_landing_pads_in_another_part(dump, tmp_path, encoding, field):
    """LPStart: gcc has it where a function's pads are apart from it."""
    source, obj, lib = tmp_path / "t.s", tmp_path / "t.o", tmp_path / "t.so"
    source.write_text(LPSTART.format(encoding=encoding, field=field, pad=0x12))
    run(["gcc", "-c", source, "-o", obj])
    run(["gcc", "-shared", "-nostdlib", "-Wl,-Bsymbolic", obj, "-o", lib])
    want = [("0", "5", "pads+12"), ("5", "a", "-")]
    assert functions(dump, obj)["throws+0"][2] == want
    assert functions(dump, lib)["throws+0"][2] == want


class Lsda:
    """A call-site table, read once more."""

    def __init__(self, data, addr):
        self.data, self.base = data, addr

    def uleb(self, at):
        return rows.leb(self.data, at)

    def sites(self, addr, func):
        at = addr - self.base
        pads = func
        if self.data[at] != 0xFF:
            assert self.data[at] == 0x1B
            pads = addr + 1 + struct.unpack_from("<i", self.data, at + 1)[0]
            at += 4
        at += 1
        if self.data[at] != 0xFF:
            _, at = self.uleb(at + 1)
        else:
            at += 1
        enc = self.data[at]
        size, at = self.uleb(at + 1)
        end, out = at + size, []
        while at < end:
            v = []
            for _ in range(3):
                if enc == 1:
                    n, at = self.uleb(at)
                else:
                    assert enc == 3
                    n, at = struct.unpack_from("<I", self.data, at)[0], at + 4
                v.append(n)
            _, at = self.uleb(at)
            out.append((func + v[0], func + v[0] + v[1], pads + v[2] if v[2] else 0))
        return out


@pytest.mark.parametrize("path", [LIBDIR / "libstdc++.so.6", Path("/usr/bin/gdb"), Path("/usr/bin/apt-get"),
                                  LIBDIR / "libapt-pkg.so.6.0"], ids=lambda p: p.name)
def test_call_sites(dump, path):
    if not path.exists():
        pytest.skip("not installed")
    with open(path, "rb") as f:
        table = ELFFile(f).get_section_by_name(".gcc_except_table")
        if table is None:
            pytest.skip("no .gcc_except_table")
        lsda = Lsda(table.data(), table["sh_addr"])
    want = {}
    for fde in rows.elf_entries(path):
        if isinstance(fde, rows.FDE) and fde.lsda_pointer:
            start = fde["initial_location"]
            want[start] = lsda.sites(fde.lsda_pointer, start)
    got, current = {}, None
    for line in dump("fdes", path):
        if line[0] == " ":
            got.setdefault(current, []).append(tuple(int(x, 16) for x in line[1:].split("\t")))
        else:
            current = int(line.split("\t")[0], 16)
    assert got == {k: v for k, v in want.items() if v}
    assert sum(len(v) for v in got.values()) > 50


# ---- mutants --------------------------------------------------------------------------------

def test_mutants(tmp_path, build_asan):
    fuzz = build_c(tmp_path / "cfi_fuzz", SANITIZE, HERE / "cfi_fuzz.c", *unwinder(build_asan),
                   *tool_objects(build_asan, *TOOL))
    files = []
    for cc in ("gcc", "clang"):
        obj, lib = tmp_path / f"{cc}.o", tmp_path / f"{cc}.so"
        run([CXX[cc], "-O2", "-fPIC", "-c", HERE / "cfi_objects.cc", "-o", obj])
        run([CXX[cc], "-shared", obj, "-o", lib])
        files += [obj, lib]
    seed = os.environ.get("ETCH_SEED", "1")
    out = run([fuzz, seed, os.environ.get("ETCH_CFI_ROUNDS", "500" if os.environ.get("ETCH_TESTS") == "all" else "120"), *files, "/bin/true"]).stdout
    counts = dict(re.findall(r"(\w+) (\d+)", out))
    assert int(counts["FDEs"]) > 1000 and int(counts["tables"]) > 250
