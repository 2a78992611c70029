# SPDX-License-Identifier: MIT
"""docs/formats.md is enough to write a second reader from: format_reader.py is one, and agrees
with `etch inspect tables` and with the C headers."""

import ctypes
import itertools
import re
import shutil
import struct

import pytest
from elftools.elf.elffile import ELFFile
from test_docs import PRELUDE

from conftest import INCLUDE, ROOT, Flow, run
from documents import FORMATS, code, enum, listing, record
from format_reader import (ADDRESSING, COMPARE, FORM, IMV_FLAGS, KINDS, MODULE_FLAGS, NATIVE_FLAGS, OBJ_FLAGS, PV_ADDRESSING,
                           PV_FORMS, RECORDS, SECOND, Reader, encode_compare, encode_flags, encode_imm, encode_load, total)


# ---- formats.md: records --------------------------------------------------------

def test_records_are_the_structs(tmp_path):
    lines = ["#define ETCH_NO_MODULE", "#include <etch/format.h>", "#include <etch/branch_format.h>", "#include <etch/orc_registers.h>", "#include <etch/extable.h>",
             '#include "output/segment.h"', "#include <stdio.h>",
             "int main(void) {"]
    for name, fields in RECORDS.items():
        end = 0
        for offset, size, field in fields:
            assert offset == end, f"{name}.{field}: hole or overlap"
            end = offset + size
            lines.append(f'printf("{name} %zu %zu {field}\\n", __builtin_offsetof(struct {name}, {field}), '
                         f"sizeof(((struct {name} *)0)->{field}));")
        lines.append(f'printf("{name} %zu\\n", sizeof(struct {name}));')
    lines.append("return 0; }")
    source = tmp_path / "t.c"
    source.write_text("\n".join(lines))
    run(["gcc", "-Wall", "-Werror", f"-I{INCLUDE}", f"-I{ROOT}/tool", "-o", tmp_path / "t", source])
    want = []
    for name, fields in RECORDS.items():
        want += [f"{name} {o} {s} {f}" for o, s, f in fields] + [f"{name} {total(name)}"]
    assert run([tmp_path / "t"]).stdout.splitlines() == want


def test_flags_and_names_are_those_of_the_header():
    text = code(INCLUDE / "etch" / "format.h")

    def define(name):
        return int(re.search(r"#define %s\s+(0x[0-9a-fA-F]+|\d+)u" % name, text).group(1), 0)

    for prefix, flags in (("ETCH_IMV_", IMV_FLAGS), ("ETCH_NATIVE_", NATIVE_FLAGS), ("ETCH_MODULE_", MODULE_FLAGS), ("ETCH_OBJ_", OBJ_FLAGS)):
        assert flags
        for name, mask in flags.items():
            assert define(prefix + name) == mask, name
    assert set(OBJ_FLAGS) == {"STORED", "ESCAPED", "ARMED", "SHARED", "OPEN", "PART", "VALUE", "GOT"}
    assert define("ETCH_IMV_FLAGS") == sum(IMV_FLAGS.values())
    kinds = enum(INCLUDE / "etch" / "format.h", "etch_obj_kind")
    assert [k.removeprefix("ETCH_OBJ_").lower() for k in kinds] == KINDS and list(kinds.values()) == [0, 1, 2, 3]
    assert list(enum(INCLUDE / "etch" / "format.h", "etch_addressing").values()) == [0, 1, 2, 3] and len(ADDRESSING) == 4
    forms = enum(INCLUDE / "etch" / "pv_forms.h", "etch_pv_form")
    assert {v: k.removeprefix("ETCH_FORM_").lower() for k, v in forms.items()} == PV_FORMS and len(PV_ADDRESSING) == 4
    names = [row.split()[0] for row in listing(FORMATS, "name            flags  align  content")]
    text += code(INCLUDE / "etch" / "orc.h", INCLUDE / "etch" / "orc_registers.h", INCLUDE / "etch" / "extable.h", INCLUDE / "etch" / "branch_format.h")
    assert sorted(re.findall(r'#define ETCH_SEC_\w+\s+"([^"]+)"', text) + [".etch.segment", ".etch.undo", ".sframe", ".eh_frame", ".eh_frame_hdr"]) == sorted(names)
    magic = {field: content for _, _, field, content in record(FORMATS, "etch_module")}
    assert int(magic["magic"].split(",")[0], 16) == define("ETCH_MODULE_MAGIC")
    assert int(magic["version"]) == define("ETCH_MODULE_VERSION")


# ---- formats.md: the instruction forms --------------------------------------------

@pytest.fixture(scope="module")
def forms_h(tmp_path_factory):
    """etch/forms.h as functions: load(entry, site, obj) and imm(entry, data)."""
    tmp = tmp_path_factory.mktemp("forms")
    (tmp / "t.c").write_text(
        "#include <etch/forms.h>\n"
        "unsigned load(const struct etch_imv *e, uint64_t s, uint64_t o, uint8_t *b) { return etch_form_load(e, s, o, b); }\n"
        "unsigned imm(const struct etch_imv *e, const uint8_t *v, uint8_t *b) { return etch_form_imm(e, 0, v, b); }\n"
        "unsigned size(unsigned f) { return etch_form_size(f); }\n")
    run(["gcc", "-O1", "-shared", "-fPIC", f"-I{INCLUDE}", "-o", tmp / "t.so", tmp / "t.c"])
    lib = ctypes.CDLL(str(tmp / "t.so"))
    out = ctypes.create_string_buffer(16)

    def load(entry, site, obj):
        n = lib.load(entry, ctypes.c_uint64(site), ctypes.c_uint64(obj), out)
        return out.raw[:n] or None

    def imm(entry, data):
        n = lib.imm(entry, data, out)
        return out.raw[:n] or None

    return load, imm, lib.size


VALUES = [0, 1, 0x7F, 0x80, 0xFFFF8000, 0x7FFFFFFF, 0x80000000, 0xFFFFFFFF, 2**32, 2**63, 2**64 - 1, 2**64 - 2**31,
          0x0123456789ABCDEF]


def test_the_table_of_forms_is_forms_h(forms_h):
    load, imm, size = forms_h
    assert {n for n in range(256) if size(n)} == set(FORM) | set(COMPARE)
    compared = 0
    for number, f in FORM.items():
        assert size(number) == f.reads
        regs = range(16) if f.name != "push64" else [0]
        where = [(0, 0), (1, 0)] + [(2, b) for b in range(16) if b != 4]
        for reg, (addressing, base), rex in itertools.product(regs, where, (0, 1)):
            mine = encode_load(number, reg, base, addressing, rex, 0x1000, 0x4000)
            length = len(mine) if mine else 7
            entry = struct.pack("<iiBBBB", 0, 0, number, reg | base << 4, length | addressing << 4 | rex << 6, 0)
            assert load(entry, 0x1000, 0x4000) == mine, (f.name, reg, addressing, base, rex)
            if mine is None or addressing == 2 and base % 5:
                continue
            for v in VALUES:
                data = v.to_bytes(8, "little")
                assert imm(entry, data) == encode_imm(number, reg, length, rex, data), (f.name, reg, rex, hex(v))
                compared += 1
    assert compared > 50000


def test_compares_with_a_constant_are_forms_h(forms_h):
    load, imm, size = forms_h
    compared = 0
    where = [(0, 0, 0, 0), (1, 0, 0, 0)] + [(3, b, n, d) for b in (0, 5, 12, 13) for n, d in ((1, 8), (4, 0x1234), (0, 0))
                                            if n or b % 8 != 5]
    for form, (name, reads, _, constants) in COMPARE.items():
        assert size(form) == reads
        for (addressing, base, n, disp), rex, k, constant in itertools.product(where, (0, 1), constants, (0, 1, -1, 100)):
            mine = encode_compare(form, base, addressing, 0, rex, 0x1000, 0x4000, disp, constant, (k, n))
            length = len(mine) if mine else 7
            for need in (1, 3, 5):
                entry = struct.pack("<iiBBBBiiBBBB", 0, 0, form, base << 4, length | addressing << 4 | rex << 6, IMV_FLAGS["MORE"],
                                    disp, constant, SECOND, need, k | n << 4, 0)
                assert load(entry, 0x1000, 0x4000) == mine, (name, addressing, base, rex)
                for v in VALUES if mine and (length > 3 or need == 1) else []:
                    data = v.to_bytes(8, "little")
                    assert imm(entry, data) == encode_flags(form, length, need, constant, data), (name, need, constant, hex(v))
                    compared += 1
    assert compared > 20000


# (form, regs, shape, load, value, immediate), with a load at 0x1000 that reads from 0x4000
ENCODINGS = [
    (3, 0x00, 0x06, "8b 05 fa 2f 00 00", 1, "c7 c0 01 00 00 00"),
    (6, 0x01, 0x07, "0f b6 0d f9 2f 00 00", 255, "40 c7 c1 ff 00 00 00"),
    (1, 0x04, 0x06, "8a 25 fa 2f 00 00", 7, "2e 2e 2e c6 c4 07"),
    (4, 0x00, 0x47, "48 8b 05 f9 2f 00 00", 2**64 - 1, "48 c7 c0 ff ff ff ff"),
    (4, 0x00, 0x47, "48 8b 05 f9 2f 00 00", 2**32 - 1, "40 c7 c0 ff ff ff ff"),
    (4, 0x00, 0x47, "48 8b 05 f9 2f 00 00", 2**32, None),
    (46, 0x07, 0x06, "3b 3d fa 2f 00 00", 64, "81 ff 40 00 00 00"),
    (3, 0x02, 0x17, "8b 14 25 00 40 00 00", 2, "40 c7 c2 02 00 00 00"),
    (3, 0xc0, 0x68, "41 8b 84 24 00 00 00 00", 2, "2e 40 c7 c0 02 00 00 00"),
    (54, 0x0b, 0x48, "44 0f af 1d f8 2f 00 00", 3, "2e 45 69 db 03 00 00 00"),
    (56, 0x00, 0x06, "ff 35 fa 2f 00 00", 5, "40 68 05 00 00 00"),
]


def test_examples_of_encodings():
    """Those above, and those of the page."""
    rows = [re.split("  +", row) for row in listing(FORMATS, "form  regs  shape  load                     value  immediate")]
    pages = [(int(f), int(regs, 16), int(shape, 16), load, int(value), immediate) for f, regs, shape, load, value, immediate in rows]
    assert len(pages) == 2
    for form, regs, shape, load, value, immediate in ENCODINGS + pages:
        got = encode_load(form, regs & 15, regs >> 4, shape >> 4 & 3, shape >> 6 & 1, 0x1000, 0x4000)
        assert got == bytes.fromhex(load) and len(got) == shape & 15
        got = encode_imm(form, regs & 15, shape & 15, shape >> 6 & 1, value.to_bytes(8, "little"))
        assert got == (immediate and bytes.fromhex(immediate))


# ---- formats.md: a second reader ---------------------------------------------------

HOME = """
#include <etch/imv.h>
#include <etch/extable.h>
struct config { int n; long big; short s; unsigned char flag; unsigned list[4]; };
ETCHED struct config cfg = { 1, 1l << 40, -3, 200, { 1, 2, 3, 4 } };
DEFINE_IMV(int, verbose) = 3;
DEFINE_IMV(unsigned char, tiny) = 0xfe;
EXPORT_IMV_SYMBOL(verbose);
ETCHED_SHARED long shared = -5;
static ETCHED int stored;
ETCHED const char *pointer = "x";
extern struct config theirs;
ETCH_DECLARE(theirs);
DECLARE_IMV(int, foreign);
#define API __attribute__((visibility("default")))
API long f(int x)
{
	unsigned long sum = cfg.n + cfg.big + cfg.s + cfg.flag + cfg.list[3];

	sum += x < cfg.n; sum -= cfg.list[0]; sum ^= cfg.big; sum *= (unsigned)cfg.list[1];
	return sum + shared + imv_read(verbose) + imv_read(tiny) + (pointer ? *pointer : 0);
}
API int *escape(int x) { stored = x; return &stored; }
/* Behind what comes after it in the source, in a section of its own. */
__attribute__((section(".text.zz"))) API long ends(const long *p)
{
	long v, err = 0;

	__asm__ __volatile__("1: mov %2, %1\\n2:\\n\\t" ETCH_EX_EFAULT("1b", "2b", "%0") : "+r"(err), "=r"(v) : "m"(*p));
	__asm__ __volatile__("1: mov %1, %0\\n2:\\n\\t" ETCH_EX_ZERO("1b", "2b", "%0") : "=r"(v) : "m"(*p));
	return v + err;
}
API long starts(char *to, const char *from, unsigned long n)
{
	unsigned long words = n / 8, rest = n % 8;

	__asm__ __volatile__("1: rep movsq\\n\\tmov %3, %%rcx\\n2: rep movsb\\n3:\\n\\t"
	                     ETCH_EX_LEN("1b", "3b", "%3", "8") ETCH_EX_PLAIN("2b", "3b")
	                     : "+D"(to), "+S"(from), "+c"(words) : "r"(rest) : "memory");
	return (long)words;
}
"""
FAR = """
API long g(void) { return imv_read(foreign) + imv_read(verbose); }
API void h(int x) { theirs.n = x; }
"""
MAIN = """
#include <stdio.h>
int main(int argc, char **argv) { (void)argv; printf("%ld %d\\n", f(argc), *escape(argc)); return etch_set(&cfg.n, 9); }
"""
SHAPES = {
    "pie": (["-fPIE"], ["-pie"], HOME + MAIN, True),
    "no-pie": (["-fno-pie"], ["-no-pie"], HOME + MAIN, True),
    "shared": (["-fPIC", "-fvisibility=hidden"], ["-shared"], HOME + FAR, True),
    "static-pie": (["-fPIE"], ["-static-pie"], HOME + MAIN, True),
    "moved": (["-fPIE"], ["-pie"], HOME + MAIN, False),
    "moved-shared": (["-fPIC", "-fvisibility=hidden", "-flto"], ["-shared", "-flto"], HOME + FAR, False),
}


def shaped(flow, shape, steps=2):
    flags, ldflags, source, object_step = SHAPES[shape]
    if flow.cc == "clang" and "-flto" in ldflags:
        ldflags = [*ldflags, "-fuse-ld=lld"]
    obj = flow.compile(source, ("-O2", *flags))
    if object_step:
        flow.rewrite(obj)
    out = flow.link([obj], ldflags, shared_lib="-shared" in ldflags)
    if steps == 2:
        flow.rewrite(out)
    return out


@pytest.mark.parametrize("steps", [1, 2])
@pytest.mark.parametrize("shape", SHAPES)
def test_second_reader_agrees(flow, shape, steps):
    path = shaped(flow, shape, steps)
    mine, tool = Reader(path).as_inspect(), flow.inspect("tables", path)
    for name in ("file", "format", "version"):
        del tool[name]
    assert set(tool.pop("entry_bytes").values()) == {12, 16}
    for r in tool["native"]:
        del r["name"]
    for r in tool["ex"]:
        del r["name"], r["to"]
    assert mine == tool
    assert {"plain", "efault", "zero", "len"} == {r["type"] for r in mine["ex"]}
    if steps == 2:
        assert mine["ex_state"] == "sorted"
        assert mine["linked"] and mine["moved"] == shape.startswith("moved")
        assert len(mine["imv"]) >= 10 or "shared" in shape


@pytest.mark.parametrize("shape", SHAPES)
def test_what_formats_md_promises_of_linked_files(flow_gcc, shape):
    path = shaped(flow_gcc, shape)
    r = Reader(path)
    entries = [e for e in r.imv if e["form"]]
    armed = [o for o in r.obj if o["kind"] == 1 and o["flags"] & OBJ_FLAGS["ARMED"]]
    seen = set()

    # Order; empty ones last.
    key = [(e["flags"] & IMV_FLAGS["GOT"], e["obj"], e["site"]) for e in entries]
    assert entries and key == sorted(key)
    assert all(e["empty"] for e in r.imv[len(entries):])
    records = [o for o in r.obj if o["kind"]]
    key = [(o["kind"], o["addr"], o["ref"]) for o in records]
    assert key == sorted(key) and all(o["empty"] for o in r.obj[len(records):])

    # The bytes in the file are what flag BAKED says, and so is the flag.
    relocated = set()
    with open(path, "rb") as f:
        for s in ELFFile(f).iter_sections():
            if s["sh_type"] == "SHT_RELA" and s["sh_flags"] & 2:
                relocated |= {b for x in s.iter_relocations() for b in range(x["r_offset"], x["r_offset"] + 8)}
    for e in entries:
        f, length, got = FORM[e["form"]], e["length"], e["flags"] & IMV_FLAGS["GOT"]
        load = encode_load(e["form"], e["register"], e["base"], e["addressing"], e["rex"], e["site"], e["obj"])
        assert len(load) == length
        now = r.bytes(e["site"], length)
        imm = None
        if not got:
            imm = encode_imm(e["form"], e["register"], length, e["rex"], r.initial(e["obj"], f.reads))
        bake = (not got and imm is not None
                and any(o["addr"] <= e["obj"] < o["addr"] + o["size"] for o in armed)
                and not relocated & set(range(e["obj"], e["obj"] + f.reads)))
        assert bool(e["flags"] & IMV_FLAGS["BAKED"]) == bool(bake)
        assert now == (imm if bake else load)
        seen.add("baked" if bake else "got" if got else "load")
        if got:
            assert e["addressing"] == 2 and e["obj"] % 8 == 0
    assert {"load", "baked"} <= seen
    if shape == "shared":
        assert "got" in seen

    # Facts that are left are about other modules; objects know of their own.
    objects = {r.string(o["ref"]): o for o in records if o["kind"] == 1}
    assert objects["stored"]["flags"] & 7 == OBJ_FLAGS["STORED"] | OBJ_FLAGS["ESCAPED"]
    assert objects["shared"]["flags"] & OBJ_FLAGS["SHARED"] and not objects["cfg"]["flags"] & OBJ_FLAGS["SHARED"]
    assert all(o["flags"] == OBJ_FLAGS["GOT"] and (o["size"] == 0 or o["more"]) for o in records if o["kind"] > 1)
    if shape == "shared":
        assert [o["kind"] for o in records if o["kind"] > 1].count(2) == 1
    else:
        assert objects["cfg"]["flags"] & OBJ_FLAGS["ARMED"]

    # The segment.
    note = [s for s in r.sections if s[0] == ".etch.segment"]
    assert note and bool(r.flags & MODULE_FLAGS["MOVED"]) == shape.startswith("moved")
    for _, addr, off, size, kind, flags in note:
        n = r.unpack("segment_note", addr)
        p = next(p for p in r.loads if p["p_vaddr"] <= addr < p["p_vaddr"] + p["p_filesz"])
        assert (size, kind, flags) == (32, "SHT_PROGBITS", 2)
        assert (n["namesz"], n["descsz"], n["version"]) == (5, 12, 1)
        assert n["type"].to_bytes(4, "little") == b"eseg" and n["name"] == int.from_bytes(b"etch", "little")
        # The unwind table, the note, then the tables of sites where they did not fit in place.
        unwind = next(s for s in r.sections if s[0] == ".etch.unwind")
        assert addr + n["first"] == unwind[1] and r.bytes(unwind[1], 4) == b"etuw"
        if shape.startswith("moved"):
            change = next(s for s in r.sections if s[0] == ".note.etch")
            assert change[1] == (unwind[1] + unwind[3] + 3) & ~3 and change[4] == "SHT_NOTE"
            assert r.imv_at[0] == change[1] + change[3]
        assert addr % 4096 == 0 == off % 4096 and off - p["p_offset"] == addr - p["p_vaddr"]
        if n["inside"]:  # of the first PT_LOAD, after the program headers
            assert p is r.loads[0] and p["p_offset"] == 0 and addr == p["p_vaddr"] + 4096 and p["p_flags"] & 6 == 4
            assert unwind[1] + unwind[3] <= addr + n["inside"] <= p["p_vaddr"] + p["p_filesz"]
        else:
            assert p["p_flags"] == 4 and p["p_align"] == 4096 and p["p_filesz"] == p["p_memsz"] and p["p_vaddr"] == addr
        names = [s for s in r.sections if s[0] == ".rodata.etch"]
        assert bool(names) == shape.startswith("moved")
        assert not names or r.bytes(names[0][1], names[0][3]).split(b"\0") == \
            [r.string(o["ref"]).encode() for o in records if o["kind"] == 1] + [b"", b""]


def test_object_files(flow_gcc):
    """Sections, flags and relocations of the object step."""
    source = flow_gcc.source(
        "#include <etch/imv.h>\n" + "ETCHED int here = 1;\nETCHED int weak __attribute__((weak));\n"
        "DECLARE_IMV(int, far);\nint *word = &here;\n"
        "inline __attribute__((noinline)) int in_comdat() { return imv_read(far); }\n"
        "int f() { return here + weak + in_comdat(); }\nvoid g(int x) { here = x; far__imv = x; }\n", "t.cc")
    obj = flow_gcc.compile(source, ("-O2", "-fPIC", "-fvisibility=hidden"))
    before = obj.read_bytes()
    flow_gcc.rewrite(obj)
    with open(obj, "rb") as f, open(flow_gcc.source("", "before"), "wb+") as old:
        old.write(before)
        elf, was = ELFFile(f), ELFFile(old)
        sections = list(elf.iter_sections())
        # Sections that were there keep their numbers and, except for symbols, bytes.
        for i, s in enumerate(was.iter_sections()):
            assert sections[i].name == s.name
            if s["sh_flags"] & 2:
                assert sections[i].data() == s.data()
        symbols = elf.get_section_by_name(".symtab")
        groups = {m for s in sections if s["sh_type"] == "SHT_GROUP"
                  for m in struct.unpack(f"<{s['sh_size'] // 4}I", s.data())[1:]}
        seen, abouts = set(), set()
        for i, s in enumerate(sections):
            if s.name not in ("__imv", "__etch_obj"):
                continue
            rela, about = sections[i + 1], s["sh_link"]
            assert (s["sh_type"], s["sh_addralign"], s["sh_flags"] & 0x82) == ("SHT_PROGBITS", 4, 0x82)
            assert rela.name == ".rela" + s.name and rela["sh_info"] == i
            assert (s.name, about) not in abouts
            abouts.add((s.name, about))
            assert (about in groups) == (i in groups) == (i + 1 in groups) == bool(s["sh_flags"] & 0x200)
            size = 12 if s.name == "__imv" else 16
            relocs = {r["r_offset"]: r for r in rela.iter_relocations()}
            assert len(relocs) == 2 * s["sh_size"] // size
            for at in range(0, s["sh_size"], size):
                raw = s.data()[at:at + size]
                first, second = relocs[at], relocs[at + (4 if size == 12 else 8)]
                own, other = (first, second) if size == 12 else (second, first)
                symbol = symbols.get_symbol(other["r_info_sym"])
                assert raw[:4] == bytes(4) and own["r_info_type"] == 2
                kind = "site" if size == 12 else KINDS[raw[12]]
                got = raw[11] & IMV_FLAGS["GOT"] if size == 12 else raw[13] & OBJ_FLAGS["GOT"]
                assert other["r_info_type"] == (9 if got else 2)
                if got:
                    assert other["r_addend"] == 0 and symbol.name == "far__imv"
                home = symbols.get_symbol(own["r_info_sym"])
                assert home["st_info"]["type"] == "STT_SECTION"
                if kind == "object":
                    assert sections[home["st_shndx"]].name == ".rodata.etch"
                else:
                    assert home["st_shndx"] == about
                seen.add((kind, "got" if got else symbol["st_info"]["type"]))
        assert groups and seen >= {("site", "got"), ("site", "STT_SECTION"), ("site", "STT_OBJECT"),
                                   ("object", "STT_SECTION"), ("store", "STT_SECTION"), ("store", "got"),
                                   ("escape", "STT_SECTION")}, seen
        assert elf.get_section_by_name(".etch.declare")["sh_flags"] == 0x80000000
        assert b"far__imv\0" in elf.get_section_by_name(".etch.declare").data()


# What makes a table malformed: name -> (what to change, whether the tool looks
# for it too). `e` is an entry of __imv without GOT, `o` an object's record, `m`
# the descriptor; each: offset in the record, and the new bytes.
MALFORMED = {
    "magic": ("m", 0, b"x", True),  # no descriptor then, and objects that are armed without one
    "version": ("m", 4, b"\2", True),
    "size": ("m", 6, b"\x38", True),
    "unknown descriptor flag": ("m", 8, b"\x13", True),
    "form that is none": ("e", 8, b"\x34", True),
    "branch form": ("e", 8, b"\x80", True),
    "empty with other bytes": ("e", 8, b"\0", True),
    "unknown flag": ("e", 11, b"\x04", True),
    "shape bit 7": ("e", 10, b"\x86", True),
    "length 0": ("e", 10, b"\x00", True),
    "length 5": ("e", 10, b"\x05", True),
    "addressing 3": ("e", 10, b"\x36", True),
    "base without need": ("e", 9, b"\x10", True),
    "site outside": ("e", 0, b"\0\0\0\x7f", False),
    "bytes read outside": ("e", 4, b"\0\0\0\x7f", False),
    "GOT with pc addressing": ("e", 11, b"\x02", True),
    "kind 4": ("o", 12, b"\4", True),
    "empty record with other bytes": ("o", 12, b"\0", True),
    "unknown object flag": ("o", 13, b"\x80", True),
    "a field of no object": ("o", 14, b"\1", True),
    "unknown bit of more": ("o", 14, b"\x20", True),
    "object outside": ("o", 0, b"\0\0\0\x7f", False),
    "name outside": ("o", 8, b"\0\0\0\x7f", True),
}


@pytest.fixture(scope="module")
def to_be_damaged(tmp_path_factory, build):
    flow = Flow(tmp_path_factory.mktemp("damaged"), build)
    source = HOME + "int main(void) { return etch_set(&cfg.n, 9); }\n"
    return flow, flow.program(source, "linked", ("-O2", "-fPIE"), ("-pie",))


@pytest.mark.parametrize("name", MALFORMED)
def test_malformed(to_be_damaged, tmp_path, name):
    flow, path = to_be_damaged
    assert run([path], ok=0)
    which, offset, change, tool = MALFORMED[name]
    r = Reader(path)
    # The tool looks for the bytes of a baked entry.
    entry = next(e["at"] for e in r.imv if (e["form"] == 3 and e["flags"] == IMV_FLAGS["BAKED"] if tool else e["form"] and not e["flags"]))
    at = {"m": r.modules[0], "o": r.obj[0]["at"], "e": entry}[which] + offset
    data = bytearray(path.read_bytes())
    o = r.offset(at)
    assert data[o:o + len(change)] != change
    data[o:o + len(change)] = change
    bad = tmp_path / "bad"
    bad.write_bytes(data)
    shutil.copymode(path, bad)
    assert run([bad], ok=None).returncode == 8  # ETCH_EFORMAT
    status = flow.rewrite(bad, ok=None).returncode
    assert status == (2 if tool else 0)
    if status:
        assert bad.read_bytes() == data


# ---- the lawful lea --------------------------------------------------------------

def test_lawful_lea(flow_gcc):
    head = FORMATS[FORMATS.index("## How the macros take an address"):]
    first, rex, op = re.search(r"^    ([0-9a-f]{2})  REX\.W \((\w+) to \w+\)  ([0-9a-f]{2})  ModRM", head, re.M).groups()
    pre = PRELUDE["asm"]
    for n, (prefix, escapes) in enumerate([(f"0x{first}, 0x{rex}, 0x{op}", False), (f"0x{rex}, 0x{op}", True),
                                           (f"0x2e, 0x{rex}, 0x{op}", True), (f"0x{first}, 0x4c, 0x{op}", False)]):
        source = flow_gcc.source(f"{pre}\t.byte {prefix}, 0x05\n\t.long cfg - . - 4\n"
                                 "\tmov %rax, %rdi\n\tmov %r8, %rsi\n\tcall g\n\tret\n", f"t{n}.s")
        obj = flow_gcc.tmp / f"t{n}.o"
        run(["gcc", "-c", "-o", obj, source])
        kinds = {s["kind"] for s in flow_gcc.inspect("sites", obj)["sites"]}
        assert kinds == ({"escape"} if escapes else set()), prefix
