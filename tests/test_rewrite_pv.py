# SPDX-License-Identifier: MIT
"""etch rewrite and calls through ops objects, from the sites to the bytes of a file:
which table goes where, what stands at each site of a linked file for which target,
that both ways of a program lead to the same, that twice is once, and that what etch
inspect shows is so. Whether programs go on to run right is for test_pv_generated.py
and test_pv_stress.py; here they run once."""
import io
import json
import os
import re
import shutil
import struct

import pytest
from elftools.elf.elffile import ELFFile
from elftools.elf.relocation import RelocationSection

from conftest import TESTS, Flow, asan_env, run
from test_inspect_orc import rows

SOURCES = TESTS / "pv"
SHF_LINK_ORDER, SHF_GROUP = 0x80, 0x200
# Calls and tail jumps lie inside one word: gcc's calls see to it by themselves.
ALIGN = {"gcc": [], "clang": ["-mllvm", "-x86-align-branch-boundary=8", "-mllvm", "-x86-align-branch=indirect+call"]}

# name: (compiler flags, linker flags, compilers)
KINDS = {
    "pie": (["-O2", "-fPIE"], ["-pie"], ["gcc", "clang"]),
    "nopie": (["-O2", "-fno-pie", "-DABSOLUTE"], ["-no-pie"], ["gcc", "clang"]),
    "O0": (["-O0", "-fPIE"], ["-pie"], ["gcc", "clang"]),
    "static": (["-O1", "-fno-pie"], ["-static"], ["gcc", "clang"]),
    "static-pie": (["-O2", "-fPIE"], ["-static-pie"], ["gcc"]),
    "lld": (["-O2", "-fPIE"], ["-pie", "-fuse-ld=lld"], ["gcc", "clang"]),
    "lld-nopie": (["-O2", "-fno-pie", "-DABSOLUTE"], ["-no-pie", "-fuse-ld=lld"], ["clang"]),
    "relr": (["-O2", "-fPIE"], ["-pie", "-Wl,-z,pack-relative-relocs"], ["gcc", "clang"]),
    "cet": (["-O2", "-fPIE", "-fcf-protection=full"], ["-pie"], ["gcc", "clang"]),
    "library": (["-O2", "-fPIC", "-DLIBRARY"], ["-shared"], ["gcc", "clang"]),
    "library-lld": (["-O2", "-fPIC", "-DLIBRARY"], ["-shared", "-fuse-ld=lld"], ["clang"]),
    "library-symbolic": (["-O2", "-fPIC", "-DLIBRARY"], ["-shared", "-Wl,-Bsymbolic"], ["gcc"]),
}
PARAMS = [(kind, cc) for kind, value in KINDS.items() for cc in value[2]]
LINES = ["18446744073709551611 10 2 25 34 1 6 1 5 41 3 2 9 7 -4 3 |" + " 21" * 21,
         "18446744073709551611 11 2 205 304 1 6 1 5 41 3 2 4 7 -4 3 |" + " 201" * 21]


def output(kind):
    more = [" 21" * 2, " 201" * 2] if "nopie" in kind else ["", ""]
    return "".join(a + b + "\n" for a, b in zip(LINES, more)) + "0 sets failed, 0 sites differ\n"


class Built:
    """A program or library of rewrite_main.c at three stages, in one directory."""

    def __init__(self, tmp, build, kind, cc):
        flags, ldflags, _ = KINDS[kind]
        self.kind, self.cc, self.flow = kind, cc, Flow(tmp, build, cc)
        self.library = "-shared" in ldflags
        source = SOURCES / "rewrite_main.c"
        self.object = self.flow.compile(source, [*flags, *ALIGN[cc]], "main.o")
        self.plain_object = shutil.copy(self.object, tmp / "plain.o")
        self.flow.rewrite(self.object)
        self.unprocessed = self.link(self.plain_object, "unprocessed")
        self.linked = self.link(self.object, "linked")
        self.done = shutil.copy(self.linked, tmp / "done")
        self.said = self.flow.rewrite(self.done, args=["-v"])
        self.alone = shutil.copy(self.unprocessed, tmp / "alone")  # by the link step alone
        self.flow.rewrite(self.alone)

    def link(self, obj, name):
        return self.flow.link([obj], KINDS[self.kind][1], name)

    def run(self, path):
        if self.library:
            lib = shutil.copy(path, self.flow.tmp / f"lib{path.name}.so")
            exe = self.flow.tmp / f"use-{path.name}"
            run([self.cc, "-o", exe, SOURCES / "rewrite_use.c", lib, f"-Wl,-rpath,{self.flow.tmp}"])
            path = exe
        return run([path]).stdout


@pytest.fixture(scope="module")
def built(tmp_path_factory, build):
    known = {}

    def get(kind, cc):
        if (kind, cc) not in known:
            known[kind, cc] = Built(tmp_path_factory.mktemp(f"{kind}-{cc}"), build, kind, cc)
        return known[kind, cc]
    return get


# ---- a reader of its own ------------------------------------------------------------

FORMS = {64: "call", 65: "jmp"}
MODES = ["rip", "abs", "base", "reg"]


class Table:
    """__pv_sites of a linked file as docs/formats.md describes it."""

    def __init__(self, path):
        self.data = path.read_bytes()
        with open(path, "rb") as f:
            elf = ELFFile(f)
            self.loads = [(s["p_vaddr"], s["p_offset"], s["p_filesz"]) for s in elf.iter_segments("PT_LOAD")]
            self.sections = {s.name: (s["sh_addr"], s["sh_size"]) for s in elf.iter_sections() if s["sh_addr"]}
            symtab = elf.get_section_by_name(".symtab") or elf.get_section_by_name(".dynsym")
            self.symbols = {s.name: s["st_value"] for s in symtab.iter_symbols()}
        at = self.sections["__etch_mod"][0]
        magic, _, _, flags = struct.unpack("<IHHI", self.at(at, 12))
        assert magic == 0x68637465
        self.linked, self.moved = flags & 1, flags & 2
        if self.moved:
            ref, count = struct.unpack("<qQ", self.at(at + 48, 16))
            self.addr, self.room = at + 48 + ref, count
        else:
            self.addr, size = self.sections.get("__pv_sites", (0, 0))
            assert size % 12 == 0
            self.room = size // 12
        self.entries = [self.entry(self.addr + 12 * i) for i in range(self.room)]

    def offset(self, addr):
        return next(o + addr - v for v, o, n in self.loads if v <= addr < v + n)

    def at(self, addr, size):
        return self.data[self.offset(addr):][:size]

    def entry(self, at):
        site, obj, form, regs, shape, flags = struct.unpack("<iiBBBB", self.at(at, 12))
        if not form:
            return None
        disp = struct.unpack("b", bytes([regs >> 4 | flags & 0xf0]))[0] * 8
        return {"site": at + site, "slot": at + 4 + obj, "kind": FORMS[form], "mode": MODES[shape >> 4 & 3],
                "length": shape & 15, "disp": disp, "register": regs & 15, "baked": flags & 1, "got": flags & 2}


def disassembly(path):
    """{address: (length, text)}"""
    out, found = run(["objdump", "-d", "-w", path]).stdout, {}
    for line in out.splitlines():
        m = re.match(r"\s*([0-9a-f]+):\t([0-9a-f ]+?)\s*\t(.*)", line)
        if m:
            found[int(m[1], 16)] = (len(m[2].split()), m[3].strip())
    return found


def sites(flow, path, only=("call", "jmp")):
    """Of etch inspect --json: also the columns that TSV does not have."""
    return [{k: "-" if v is None else v for k, v in s.items()}
            for s in flow.inspect("sites", path)["sites"] if s["kind"] in only]


def place(site):
    """function, kind, offset, form, live, state: what does not depend on the layout"""
    return site["function"], site["kind"], site["offset"], site["form"], site["live"], site["state"], site["target"]


# ---- objects --------------------------------------------------------------------------

@pytest.mark.parametrize("kind,cc", [p for p in PARAMS if p[0] in ("pie", "nopie", "O0", "library")])
def test_object_tables(built, kind, cc):
    """One section of code, one table: in its order and its group, two relocations an
    entry, none for the linker to leave to the dynamic one; no byte of code changed."""
    b = built(kind, cc)
    found = sites(b.flow, b.object)
    taken = [s for s in found if s["form"] != "-"]
    assert len(taken) >= 30 and len(found) - len(taken) == 2
    with open(b.object, "rb") as f, open(b.plain_object, "rb") as g:
        elf, plain = ELFFile(f), ELFFile(g)
        tables = [(i, s) for i, s in enumerate(elf.iter_sections()) if s.name == "__pv_sites"]
        about = [s["sh_link"] for _, s in tables]
        assert len(set(about)) == len(about) == len({s["function"].split("+")[0] for s in taken if "asm" in s["function"]}) + 1
        entries = 0
        for i, s in tables:
            assert s["sh_flags"] & SHF_LINK_ORDER and s["sh_addralign"] == 4 and s["sh_size"] % 12 == 0
            code = elf.get_section(s["sh_link"])
            assert code["sh_flags"] & 4
            relocs = [r for t in elf.iter_sections() if isinstance(t, RelocationSection) and t["sh_info"] == i
                      for r in t.iter_relocations()]
            assert sorted(r["r_offset"] for r in relocs) == [12 * (k // 2) + 4 * (k % 2) for k in range(s["sh_size"] // 6)]
            for r in relocs:
                assert r["r_info_type"] == 2  # R_X86_64_PC32
                to = elf.get_section_by_name(".symtab").get_symbol(r["r_info_sym"])["st_shndx"]
                if r["r_offset"] % 12 == 0:
                    assert to == s["sh_link"] and r["r_addend"] < code["sh_size"]
                else:
                    assert elf.get_section(to).name == "etched" and r["r_addend"] % 8 == 0
            entries += s["sh_size"] // 12
        assert entries == len(taken)
        for s, t in zip(plain.iter_sections(), elf.iter_sections()):
            if s["sh_flags"] & 4:
                assert s.data() == t.data(), s.name


def test_object_twice(built, cc):
    b = built("pie", cc)
    again = shutil.copy(b.object, b.flow.tmp / "again.o")
    b.flow.rewrite(again)
    assert again.read_bytes() == b.object.read_bytes()


def natives(path):
    """[(length, flags, zero)] of an object's or a program's records."""
    found = [s for s in names(path, "__pv_native")]
    return [struct.unpack("<8xBBH", s.data()[i:i + 12]) for s in found for i in range(0, s["sh_size"], 12)]


@pytest.mark.parametrize("stage", ["plain_object", "object", "unprocessed", "linked", "done", "alone"])
def test_native_flags(built, stage):
    """CHECKED (1) and ONE (2) are found by either step; what the source says is not
    believed, nor is what another tool wrote."""
    b = built("pie", "gcc")
    seen = natives(getattr(b, stage))
    one, two = (0, 0) if stage in ("plain_object", "unprocessed") else (3, 1)
    want = [(0, one, 0), (2, one, 0), (3, one, 0), (3, one, 0), (4, two, 0), (9, 0, 0)]
    assert sorted(seen) == want
    if stage in ("done", "alone"):
        return  # what is baked there would not agree with other flags
    forged = bytearray(getattr(b, stage).read_bytes())
    for s in names(getattr(b, stage), "__pv_native"):
        for i in range(0, s["sh_size"], 12):
            forged[s["sh_offset"] + i + 9] = 3
    path = b.flow.tmp / f"forged-{stage}"
    path.write_bytes(forged)
    p = b.flow.rewrite(path)
    assert p.stderr.count("ETCH-P001: native_saved: ") == 1 and "native_pair" not in p.stderr
    assert sorted(natives(path)) == [(0, 3, 0), (2, 3, 0), (3, 3, 0), (3, 3, 0), (4, 1, 0), (9, 0, 0)]


def test_native_refused(built):
    b = built("pie", "gcc")
    path = shutil.copy(b.plain_object, b.flow.tmp / "werror.o")
    p = b.flow.rewrite(path, args=["--werror"], ok=1)
    assert len(p.stderr.splitlines()) == 1 and "ETCH-P001: native_saved: " in p.stderr


# ---- linked files ---------------------------------------------------------------------

# function: state of its call while its slot holds what it holds at first
STATES = {
    "use_val": "mov", "use_val32": "mov", "use_flush": "nop", "use_add": "direct", "use_tail": "direct",
    "use_zero": "body", "use_five": "body", "use_none": "indirect", "use_set": "body", "use_pair": "direct",
    "use_saved": "direct", "use_open": "direct", "use_weak": "direct", "use_stop": "direct",
    "use_length": "indirect", "use_pick": "indirect", "asm_call_rip": "direct", "asm_jmp_rip": "direct",
    "asm_call_sib": "direct", "asm_call_wide": "direct", "asm_call_notrack": "direct", "asm_crossing": "direct",
    "asm_call_abs": "direct", "asm_jmp_abs": "direct",
    # too short for a direct call
    "asm_call_base0": "indirect", "asm_jmp_base0": "indirect", "asm_call_base8": "indirect",
    "asm_jmp_base8": "indirect", "asm_call_base_rex": "indirect", "asm_jmp_base_rex": "indirect",
    "asm_call_reg": "indirect", "asm_jmp_reg": "indirect", "asm_call_reg_rex": "indirect",
    "asm_jmp_reg_rex": "indirect", "asm_call_reg_copy": "indirect", "asm_jmp_reg_copy": "indirect",
    "asm_jmp_notrack": "indirect", "asm_call_index": "indirect", "asm_call_meets": "indirect",
}
ASM_FORMS = {"rip": "rip", "base0": "base", "base8": "base", "base_rex": "base", "sib": "base", "wide": "base",
             "reg": "reg", "reg_rex": "reg", "reg_copy": "reg", "abs": "abs"}
TARGETS = {
    "use_val": "etch_pv_ident_64_", "use_val32": "etch_pv_ident_32_", "use_flush": "etch_pv_nop_", "use_zero": "zero",
    "use_five": "five", "use_none": "null", "use_set": "native_set", "use_pair": "native_pair",
    "use_saved": "native_saved", "use_open": "open_to_all", "use_weak": "weakly", "use_stop": "stop",
    "use_length": "strlen",
}


def expected(b, site):
    """The states that are right for a site; short ones that are never more than a
    register's are left as they are."""
    function = site["function"].split("+")[0]
    want = STATES[function]
    if site["live"] != "yes":
        return {"indirect"}
    if want == "direct" and site["length"] < 5:
        return {"indirect"}
    if b.library and function in ("use_open", "use_weak"):  # others may define them; with -Bsymbolic not
        return {"direct"} if b.kind == "library-symbolic" else {"indirect"}
    if function in ("use_pick", "use_length") and any(x in b.kind for x in ("nopie", "static", "lld")):
        return {"indirect", "direct"}  # by an entry of the PLT, if the linker made one
    if b.kind == "O0" and function in ("use_zero", "use_five"):
        return {"direct" if site["length"] >= 5 else "indirect"}  # they set a frame up
    return {"indirect"} if site["length"] < {"use_val": 3, "use_five": 5, "use_set": 3}.get(function, 2) else {want}


@pytest.mark.parametrize("kind,cc", PARAMS)
def test_baked(built, kind, cc):
    """Each site of a rewritten file: its state is the one its slot asks for, and its
    bytes, in a third decoder's eyes, are that."""
    b = built(kind, cc)
    found = sites(b.flow, b.done)
    before, after = disassembly(b.linked), disassembly(b.done)
    table = {e["site"]: e for e in Table(b.done).entries if e}
    objects = {o["object"]: o for o in b.flow.inspect("summary", b.done)["objects"]}
    assert objects["pv_table"]["armed"] == "yes", objects
    assert {s["function"].split("+")[0] for s in found} >= set(STATES) - {"asm_call_abs", "asm_jmp_abs"}
    assert sum(s["state"] != "indirect" for s in found) >= (13 if kind != "O0" else 4)
    for s in found:
        function, addr = s["function"].split("+")[0], int(s["address"], 16)
        (length, text), (was_length, was) = after[addr], before[addr]
        assert s["state"] in expected(b, s), s
        assert length == was_length == s["length"], s
        assert re.match(rf"(notrack )?{s['kind']}\s+\*", was), (s, was)
        if s["form"] == "-":
            assert function in ("asm_call_index", "asm_call_meets") and s["live"].startswith("no: ") and addr not in table
            continue
        entry = table.pop(addr)
        assert entry["baked"] == (s["state"] != "indirect") and not entry["got"]
        assert s["form"] == f"{entry['kind']}-{entry['mode']}" and entry["length"] == length
        short = function.split("_", 2)[-1]
        if function.startswith("asm") and short in ASM_FORMS:
            assert entry["mode"] == ASM_FORMS[short] and s["kind"] == function.split("_")[1]
            assert s["live"] == "yes"
        target = TARGETS.get(function, "add")
        if s["target"] != "-":
            assert s["target"] == target or function in ("use_pick", "use_length"), s
        if s["state"] == "indirect":
            assert text == was, s
        elif s["state"] == "direct":
            assert re.match(rf"(addr32 |cs )*{s['kind']}\s", text), (s, text)
            assert f"<{target}>" in text or function in ("use_pick", "use_length"), (s, text)
        elif s["state"] == "nop":
            assert re.match(r"(cs |data16 )*nop|xchg\s+%ax,%ax", text), (s, text)
        elif s["state"] == "mov":
            assert re.match(r"(cs )*mov\s+%[er]di,%[er]ax$", text), (s, text)
        else:
            want = {"use_zero": r"xor\s+%eax,%eax|mov\s+\$0x0,%eax", "use_five": r"mov\s+\$0x5,%eax", "use_set": r"mov\s+%rsi,\(%rdi\)"}
            assert re.match(f"(cs )*({want[function]})", text), (s, text)
    assert not table
    # Nothing but sites has changed in the code.
    changed = {a for a in before if before[a] != after.get(a)}
    assert changed <= {int(s["address"], 16) for s in b.flow.inspect("sites", b.done)["sites"]}


@pytest.mark.parametrize("kind,cc", PARAMS)
def test_runs(built, kind, cc):
    b = built(kind, cc)
    for path in (b.unprocessed, b.linked, b.done, b.alone):
        assert b.run(path) == output(kind), path


@pytest.mark.parametrize("kind,cc", PARAMS)
def test_both_ways(built, kind, cc):
    """Objects that etch has never seen: the link step finds the same sites."""
    b = built(kind, cc)
    copy = b.flow.tmp / "both-ways"
    shutil.copy(b.unprocessed, copy)
    said = b.flow.rewrite(copy).stderr
    if "ETCH-I004" in said and "must not move" in said:
        # Code is searched for references to what would make room without the decoder
        # (architecture.md): bytes that look like one are enough, and come and go with libetch.a.
        assert {s["live"] for s in sites(b.flow, b.alone) if s["kind"] in ("call", "jmp")} != {"yes"}
        pytest.skip("no room for a program header that bytes in the code do not seem to refer to")
    assert list(map(place, sites(b.flow, b.alone))) == list(map(place, sites(b.flow, b.done)))
    assert Table(b.alone).moved and Table(b.alone).linked
    entries = [e for e in Table(b.alone).entries if e]
    assert len(entries) == sum(s["form"] != "-" for s in sites(b.flow, b.alone))
    # Before the link step there is nothing in the code, but the object step's table.
    for path, count in ((b.unprocessed, 0), (b.linked, len(entries))):
        assert len(Table(path).entries) == count
        assert {s["state"] for s in sites(b.flow, path)} == {"indirect"}


@pytest.mark.parametrize("kind,cc", PARAMS)
def test_format(built, kind, cc):
    """Sorted as docs/formats.md says; every reference inside the file; the instruction
    that the linker wrote is the one that the entry describes."""
    b = built(kind, cc)
    for path, plain in ((b.done, b.linked), (b.alone, b.unprocessed)):
        t, code = Table(path), disassembly(plain)
        assert t.linked
        entries = [e for e in t.entries if e]
        assert t.entries[:len(entries)] == entries
        keys = [(e["got"], e["slot"], e["site"]) for e in entries]
        assert keys == sorted(set(keys))
        lo, size = t.sections["etched"]
        assert all(lo <= e["slot"] < lo + size and e["slot"] % 8 == 0 for e in entries)
        for e in entries:
            length, text = code[e["site"]]
            assert length == e["length"] and text.removeprefix("notrack ").split()[0] == e["kind"]
            operand = text.split("*", 1)[1]
            if e["mode"] == "rip":
                assert int(re.search(r"# ([0-9a-f]+)", text)[1], 16) == e["slot"]
            elif e["mode"] == "abs":
                assert int(operand.split()[0], 16) == e["slot"]
            elif e["mode"] == "base":
                assert int(re.match(r"(0x[0-9a-f]+)?\(", operand)[1] or "0", 16) == e["disp"]
            else:
                assert re.match(r"%r\w+$", operand)


@pytest.mark.parametrize("kind,cc", PARAMS)
def test_twice(built, kind, cc):
    b = built(kind, cc)
    for path in (b.done, b.alone):
        again = shutil.copy(path, b.flow.tmp / "again")
        assert "(unchanged)" in b.flow.rewrite(again, args=["-v"]).stdout
        assert again.read_bytes() == path.read_bytes()
        other = b.flow.tmp / "other"
        b.flow.rewrite(b.linked if path == b.done else b.unprocessed, args=["-o", other, "-j", "3"])
        assert other.read_bytes() == path.read_bytes()


@pytest.mark.parametrize("kind,cc", [p for p in PARAMS if p[0] in ("pie", "nopie", "library")])
def test_rows_do_not_depend(built, kind, cc):
    """Rows are made from the unbaked bytes: a baked direct call to a function that does
    not return changes none of them."""
    b = built(kind, cc)
    stop = [s for s in sites(b.flow, b.done) if s["function"].startswith("use_stop+")]
    assert [s["state"] for s in stop] == ["direct"]
    plain = shutil.copy(b.linked, b.flow.tmp / "orc-only")
    b.flow.rewrite(plain, args=["--only", "orc"])
    assert {s["state"] for s in sites(b.flow, plain)} == {"indirect"}
    assert rows(b.flow.etch, plain) == rows(b.flow.etch, b.done)
    assert rows(b.flow.etch, plain, "--no-cfi") == rows(b.flow.etch, b.done, "--no-cfi")
    # ... nor does making them again touch the sites.
    again = shutil.copy(b.done, b.flow.tmp / "orc-again")
    b.flow.rewrite(again, args=["--only", "orc", "--encoding", "orc"])
    assert list(map(place, sites(b.flow, again))) == list(map(place, sites(b.flow, b.done)))


@pytest.mark.parametrize("kind", ["pie", "nopie"])
def test_only(built, kind):
    """pv and imv by themselves, in either order, come to what both at once come to."""
    b = built(kind, "gcc")
    loads = b.flow.inspect("summary", b.done)["immediates"]
    for first, second in (("pv", "imv"), ("imv", "pv")):
        for start in (b.linked, b.unprocessed):
            path = shutil.copy(start, b.flow.tmp / f"only-{first}")
            b.flow.rewrite(path, args=["--only", first])
            s = b.flow.inspect("summary", path)
            assert (s["immediates"] > 0) == (first == "imv" and loads > 0)
            assert (s["call_states"]["direct"] > 0) == (first == "pv")
            assert s["unwind"] is None
            assert b.run(path) == output(kind)
            b.flow.rewrite(path, args=["--only", second])
            assert list(map(place, sites(b.flow, path))) == list(map(place, sites(b.flow, b.done)))
            assert b.flow.inspect("summary", path)["immediates"] == loads
            assert b.run(path) == output(kind)
            before = path.read_bytes()
            for what in ("pv", "imv", "imv,pv"):
                assert "(unchanged)" in b.flow.rewrite(path, args=["-v", "--only", what]).stdout
            assert path.read_bytes() == before
    # Objects: the other table stays.
    path = shutil.copy(b.plain_object, b.flow.tmp / "only.o")
    b.flow.rewrite(path, args=["--only", "pv"])
    assert not names(path, "__imv") and names(path, "__pv_sites")
    b.flow.rewrite(path, args=["--only", "imv"])
    assert names(path, "__imv") and names(path, "__pv_sites")
    before = path.read_bytes()
    b.flow.rewrite(path, args=["--only", "imv,pv"])
    assert path.read_bytes() == before


def names(path, name):
    """Sections of that name that are not empty."""
    return [s for s in ELFFile(io.BytesIO(path.read_bytes())).iter_sections() if s.name == name and s["sh_size"]]


def test_what_is_said(built):
    """-v counts each class, and the classes add up to what inspect lists."""
    b = built("pie", "gcc")
    found = sites(b.flow, b.done)
    taken = [s for s in found if s["form"] != "-"]
    m = re.search(r"calls: (\d+) sites, (\d+) live, (\d+) across a word: (\d+) direct, (\d+) nop, (\d+) inlined, "
                  r"(\d+) indirect; (\d+) without a form", b.said.stdout)
    live = sum(s["live"] == "yes" for s in taken)
    count = {state: sum(s["state"] == state for s in taken) for state in ("direct", "nop", "mov", "body", "indirect")}
    assert list(map(int, m.groups())) == [
        len(taken), live, len(taken) - live, count["direct"], count["nop"], count["mov"] + count["body"],
        count["indirect"], len(found) - len(taken)]
    assert all(count.values())
    p = b.flow.rewrite(shutil.copy(b.plain_object, b.flow.tmp / "say.o"), args=["-v"])
    assert f"calls: {len(taken)} sites; 2 without a form" in p.stdout


# ---- targets ----------------------------------------------------------------------------

TARGETS_SOURCE = """
#include <etch/pv.h>
#include <stdlib.h>
struct ops { void *(*get)(size_t); void (*put)(void *); int (*here)(int); int (*odd)(int); int (*field)(int); };
#define HIDDEN __attribute__((visibility("hidden")))
static int here(int x) { return x * 5; }
extern struct ops %(name)s HIDDEN;
DEFINE_PV_OPS(struct ops, %(name)s) = { malloc, free, here, (int (*)(int))0x1234, here };
#define NOINLINE __attribute__((noinline))
NOINLINE int f(int x);
int f(int x) { return %(name)s.here(x) + 1; }
NOINLINE int g(int x);
int g(int x) { return %(name)s.odd(x) + 1; }
NOINLINE void *h(int x);
void *h(int x) { char *p = %(name)s.get(x); *p = 1; return p; }
%(more)s
int main(int argc, char **argv) { (void)argv; return argc > 7 ? g(1) : f(argc) + (h(9) == 0) - 6; }
"""


@pytest.mark.parametrize("name,more,armed", [
    ("plain", "", "yes"),
    ("stored", "void k(void); void k(void) { stored.field = 0; }", "no"),
    ("escapes", "void *k(void); void *k(void) { return &escapes; }", "no"),
    ("set", "int k(void); int k(void) { return pv_set(set.field, 0); }", "yes"),
])
@pytest.mark.parametrize("mode", ["pie", "no-pie"])
def test_targets(flow, name, more, armed, mode):
    """No code, or another module's: indirect; and so is all of an object that is not
    armed, by the same judgement as its loads."""
    obj = flow.compile(TARGETS_SOURCE % {"name": name, "more": more},
                       ["-O2", "-fPIE" if mode == "pie" else "-fno-pie", *ALIGN[flow.cc]])
    exe = flow.link([obj], [f"-{mode}"])
    flow.rewrite(exe)
    found = {s["function"].split("+")[0]: s for s in sites(flow, exe)}
    assert all(found[x]["live"] == "yes" for x in "fgh")
    assert found["f"]["state"] == ("direct" if armed == "yes" else "indirect")
    assert found["g"]["state"] == "indirect" and found["g"]["target"] == "-"
    assert found["h"]["state"] == "indirect" and found["h"]["target"] == "malloc"
    assert flow.inspect("summary", exe)["objects"][0]["armed"] == armed
    run([exe])


def test_without_libetch(flow_gcc):
    """Nothing would keep the object from a stray store: the calls stay as they are."""
    obj = flow_gcc.compile(TARGETS_SOURCE % {"name": "ops", "more": ""}, ["-O2", "-fPIE", "-DETCH_NO_MODULE"])
    exe = flow_gcc.tmp / "t"
    run(["gcc", "-pie", "-o", exe, obj])
    for _ in range(2):
        flow_gcc.rewrite(exe)
        assert {s["state"] for s in sites(flow_gcc, exe)} == {"indirect"}
        run([exe])
        flow_gcc.rewrite(obj)
        run(["gcc", "-pie", "-o", exe, obj])


# ---- linkers, and what people do to files -------------------------------------------------

@pytest.mark.parametrize("ld", ["bfd", "lld"])
def test_comdat(tmp_path, build, cc, ld):
    """Templates and inline functions in two files: one copy of the code, one entry."""
    flow = Flow(tmp_path, build, cc)
    objects = [flow.compile(SOURCES / f"rewrite_cxx{i}.cc", ["-O2", "-fPIE", *ALIGN[cc]]) for i in (1, 2)]
    flow.rewrite(*objects)
    for o in objects:
        assert any(s["sh_flags"] & SHF_GROUP for s in names(o, "__pv_sites"))
    exe = flow.link(objects, ["-pie", f"-fuse-ld={ld}"], cxx=True)
    t = Table(exe)
    addresses = [e["site"] for e in t.entries if e]
    flow.rewrite(exe)
    found = sites(flow, exe)
    assert len({s["address"] for s in found}) == len(found) == 5  # area, drawn of two; edge
    assert {int(s["address"], 16) for s in found} == {e["site"] for e in Table(exe).entries if e} <= set(addresses)
    state = {(s["offset"], s["live"]): s["state"] for s in found}
    assert state.get((0, "yes"), "direct") == "direct" and state.get((16, "yes"), "nop") == "nop"
    assert state.get((8, "yes"), "mov") == "mov"
    assert run([exe]).stdout == "10 17 6 44 1\n"


@pytest.mark.parametrize("ld", ["bfd", "lld"])
@pytest.mark.parametrize("extra", [[], ["-Wl,-z,start-stop-gc"]], ids=["", "start-stop"])
def test_gc_sections(tmp_path, build, cc, ld, extra):
    flow = Flow(tmp_path, build, cc)
    obj = flow.compile(TARGETS_SOURCE % {"name": "ops", "more": "int dead(int x); int dead(int x) { return ops.here(x) + 9; }"},
                       ["-O2", "-fPIE", "-ffunction-sections", "-fdata-sections", *ALIGN[cc]])
    flow.rewrite(obj)
    assert any(s["function"].startswith("dead+") for s in sites(flow, obj))
    exe = flow.link([obj], ["-pie", f"-fuse-ld={ld}", "-Wl,--gc-sections", *extra])
    # Without -z start-stop-gc, GNU ld takes __start___pv_sites for a use of every table.
    kept = {"f", "g", "h"} | ({"dead"} if ld == "bfd" and not extra else set())
    assert len([e for e in Table(exe).entries if e]) == len(kept)
    flow.rewrite(exe)
    assert {s["function"].split("+")[0] for s in sites(flow, exe)} == kept
    run([exe])


@pytest.mark.parametrize("first", [True, False], ids=["rewritten", "plain"])
def test_relocatable(tmp_path, build, cc, first):
    """ld -r of rewritten objects, and the object step on what ld -r made."""
    flow = Flow(tmp_path, build, cc)
    a = flow.compile(SOURCES / "rewrite_main.c", ["-O2", "-fPIE", *ALIGN[cc]])
    b = flow.compile(TARGETS_SOURCE.replace("int main(", "int other(int, char **); int other(") %
                     {"name": "more", "more": ""}, ["-O2", "-fPIE", *ALIGN[cc]], "b.o")
    if first:
        flow.rewrite(a, b)
    both = tmp_path / "both.o"
    run(["ld", "-r", "-o", both, a, b])
    if first:
        before = sites(flow, both)
    flow.rewrite(both)
    if first:
        assert list(map(place, sites(flow, both))) == list(map(place, before))
    exe = flow.link([both], ["-pie"])
    flow.rewrite(exe)
    alone = flow.link([flow.compile(SOURCES / "rewrite_main.c", ["-O2", "-fPIE", *ALIGN[cc]], "c.o"),
                       flow.compile(tmp_path / "t.c", ["-O2", "-fPIE", *ALIGN[cc]], "d.o")], ["-pie"], "alone")
    flow.rewrite(alone)
    assert sorted(map(place, sites(flow, exe))) == sorted(map(place, sites(flow, alone)))
    assert run([exe]).stdout == output("pie")


@pytest.mark.parametrize("kind", ["pie", "nopie", "library"])
@pytest.mark.parametrize("when", ["before", "after"])
@pytest.mark.parametrize("tool", ["strip", "llvm-strip-14", "objcopy"])
def test_strip(built, kind, when, tool):
    b = built(kind, "gcc")
    path = shutil.copy(b.linked if when == "before" else b.done, b.flow.tmp / f"stripped-{tool}-{when}")
    run([tool, path] if tool != "objcopy" else [tool, "--strip-debug", path])
    if when == "before":
        b.flow.rewrite(path)
    else:
        again = shutil.copy(path, b.flow.tmp / "stripped-again")
        b.flow.rewrite(again)
        assert [s["state"] for s in sites(b.flow, again)] == [s["state"] for s in sites(b.flow, path)]
    states = [s["state"] for s in sites(b.flow, path)]
    assert states == [s["state"] for s in sites(b.flow, b.done)]
    assert b.run(path) == output(kind)


HOME = """
#include <etch/pv.h>
struct ops { int (*add)(int, int), (*sub)(int, int); };
static int add(int a, int b) { return a + b; }
static int sub(int a, int b) { return a - b; }
DEFINE_PV_OPS(struct ops, shared_ops) = { add, sub };
int swap(void);
int swap(void) { return pv_set(shared_ops.add, sub); }
"""
USER = """
#include <etch/pv.h>
struct ops { int (*add)(int, int), (*sub)(int, int); };
DECLARE_PV_OPS(struct ops, shared_ops);
int f(int x);
int f(int x) { return shared_ops.add(x, 10) + 1; }
int g(int x);
int g(int x) { return shared_ops.sub(x, 10) + 1; }
"""
MAIN = """
#include <stdio.h>
int f(int), g(int), swap(void);
int main(void) { return printf("%d %d ", f(1), g(1)) < 0 || swap() || printf("%d %d\\n", f(1), g(1)) < 0; }
"""


def test_other_modules_object(flow):
    """Calls through a GOT slot go through both steps, and are never baked."""
    home = flow.compile(flow.source(HOME, "home.c"), ["-O2", "-fPIC"])
    user = flow.compile(flow.source(USER, "user.c"), ["-O2", "-fPIC"])
    flow.rewrite(home, user)
    libs = [flow.tmp / "libhome.so", flow.tmp / "libuser.so"]
    run([flow.cc, "-shared", "-o", libs[0], home, f"-L{flow.build}", "-letch"])
    run([flow.cc, "-shared", "-o", libs[1], user, libs[0], f"-L{flow.build}", "-letch"])
    exe = flow.tmp / "t"
    run([flow.cc, "-o", exe, flow.source(MAIN, "main.c"), *libs[::-1], f"-Wl,-rpath,{flow.tmp}:{flow.build}",
         f"-Wl,-rpath-link,{flow.tmp}:{flow.build}"])
    before = run([exe], env=dict(os.environ, LD_LIBRARY_PATH=f"{flow.tmp}:{flow.build}")).stdout
    flow.rewrite(*libs)
    once = libs[1].read_bytes()
    flow.rewrite(*libs)
    assert libs[1].read_bytes() == once
    found = sites(flow, libs[1])
    assert [(s["object"], s["offset"], s["form"], s["state"]) for s in found] == [
        ("shared_ops", 0, "call-base", "indirect"), ("shared_ops", 8, "call-base", "indirect")]
    entries = Table(libs[1]).entries
    assert [(e["got"], e["baked"], e["disp"]) for e in entries] == [(2, 0, 0), (2, 0, 8)]
    with open(libs[1], "rb") as f:
        elf = ELFFile(f)
        slots = {r["r_offset"] for s in elf.iter_sections() if s.name == ".rela.dyn" for r in s.iter_relocations()
                 if elf.get_section(s["sh_link"]).get_symbol(r["r_info_sym"]).name == "shared_ops"}
    assert {e["slot"] for e in entries} == slots
    assert before == run([exe], env=dict(os.environ, LD_LIBRARY_PATH=f"{flow.tmp}:{flow.build}")).stdout == "12 -8 -8 -8\n"


# ---- inspect ----------------------------------------------------------------------------

HEADER = ["address", "length", "kind", "object", "offset", "size", "form", "live"]


def test_inspect_sites(built):
    b = built("pie", "gcc")
    lines = run([b.flow.etch, "inspect", "sites", "--format", "tsv", b.done]).stdout.splitlines()
    assert lines[0].split("\t") == HEADER
    for line, site in zip(lines[1:], b.flow.inspect("sites", b.done)["sites"], strict=True):
        cells = dict(zip(HEADER, line.split("\t"), strict=True))
        assert cells["address"] == site["address"] and cells["kind"] == site["kind"]
        if cells["kind"] in ("call", "jmp"):
            assert cells["size"] == "8" and re.match(r"(call|jmp)-(rip|abs|base|reg)$|-$", cells["form"])
            assert cells["live"] == "yes" or cells["live"].startswith("no: ")
    text = run([b.flow.etch, "inspect", "sites", b.done]).stdout
    assert re.search(r"call +pv_table +16 +8 +call-rip +yes +nop +etch_pv_nop_ +use_flush\+", text)


def test_inspect_object(built):
    """Slots of an object file lead where its relocations say."""
    b = built("pie", "gcc")
    for s in sites(b.flow, b.object):
        function = s["function"].split("+")[0]
        if function not in ("asm_call_index", "asm_call_meets", "use_pick"):
            assert s["target"] == TARGETS.get(function, "add"), s
        assert s["state"] == "indirect"


@pytest.mark.parametrize("stage", ["object", "linked", "done", "alone", "unprocessed"])
def test_inspect_summary(built, stage):
    b = built("pie", "gcc")
    path = getattr(b, stage)
    s, found = b.flow.inspect("summary", path), sites(b.flow, path)
    assert s["calls"] == len(found) and s["call_sites"] == sum(x["form"] != "-" for x in found)
    assert s["live_calls"] == sum(x["live"] == "yes" for x in found)
    assert s["call_states"] == {k: sum(x["state"] == k and x["form"] != "-" for x in found) for k in s["call_states"]}
    assert sum(k["count"] for k in s["stay_calls"]) == s["calls"] - s["live_calls"]
    (o,) = s["objects"]
    assert o["object"] == "pv_table" and o["calls"] == len(found) and o["live_calls"] == s["live_calls"]
    tsv = dict(line.split("\t") for line in run([b.flow.etch, "inspect", "summary", "--format", "tsv", path]).stdout.splitlines())
    assert int(tsv["calls"]) == s["calls"] and int(tsv["call_state: direct"]) == s["call_states"]["direct"]
    text = run([b.flow.etch, "inspect", path]).stdout
    assert f"{s['calls']} calls through function pointers of etched objects: {s['call_sites']} are sites" in text


@pytest.mark.parametrize("stage", ["linked", "done", "alone"])
def test_inspect_tables(built, stage):
    b = built("nopie", "gcc")
    t, path = Table(getattr(b, stage)), getattr(b, stage)
    j = b.flow.inspect("tables", path)
    assert j["pv_address"] == t.addr and j["pv_room"] == t.room
    assert [(int(e["site"], 16), int(e["refers"], 16), e["length"], e["form"], "baked" in (e["flags"] or "")) for e in j["pv"]] == \
        [(e["site"], e["slot"], e["length"], f"{e['kind']}-{e['mode']}", bool(e["baked"])) for e in t.entries if e]
    by = {int(e["site"], 16): e for e in j["pv"]}
    for s in sites(b.flow, path):
        if s["function"].startswith("asm_call_base_rex+"):
            e = by[int(s["address"], 16)]
            assert (e["form"], e["register"], e["offset"], e["flags"]) == ("call-base", 11, 8, None)
        if s["function"].startswith("asm_jmp_notrack+"):
            assert by[int(s["address"], 16)]["flags"] == "notrack"
    checked = "checked" if stage != "unprocessed" else "-"
    assert {n["name"]: n["flags"] or "-" for n in j["native"]} == {
        "etch_pv_nop_": f"{checked},one", "etch_pv_ident_32_": f"{checked},one", "etch_pv_ident_64_": f"{checked},one",
        "native_set": f"{checked},one", "native_pair": checked, "native_saved": "-"}
    text = run([b.flow.etch, "inspect", "tables", path]).stdout
    assert "__pv_sites: " in text and "__pv_native: 6 records" in text


def test_inspect_code(built):
    b = built("pie", "gcc")
    text = run([b.flow.etch, "inspect", "code", "use_flush", b.done]).stdout
    assert re.search(r"nopw .*nop call by pv_table\+16 to etch_pv_nop_: call-rip, live", text), text
    text = run([b.flow.etch, "inspect", "code", "use_add", b.done]).stdout
    assert re.search(r"call.* direct call by pv_table\+24 to add: call-rip, live", text), text
    text = run([b.flow.etch, "inspect", "code", "asm_call_index", b.done]).stdout
    assert "indirect call by pv_table: no form, not live: indexed" in text, text
    for function in STATES:
        if "abs" not in function:
            json.loads(run([b.flow.etch, "inspect", "code", "--json", function, b.done]).stdout)
            run([b.flow.etch, "inspect", "code", function, b.object])


# ---- tables that are none -----------------------------------------------------------------

COMMANDS = [["rewrite", "-v"], ["rewrite", "--only", "orc"], ["rewrite", "--only", "pv"], ["inspect", "sites"],
            ["inspect", "tables"], ["inspect", "summary"], ["inspect", "code", "use_add"]]
SITE, OBJ, FORM, REGS, SHAPE, FLAGS = 0, 4, 8, 9, 10, 11


def field(e, at, fmt, value):
    e = bytearray(e)
    struct.pack_into(fmt, e, at, value)
    return bytes(e)


def first(t, wanted):
    """Number of the first entry that is like this."""
    return next(i for i, e in enumerate(t.entries) if all(e[k] == v for k, v in wanted.items()))


BAKED, PLAIN = {"baked": 1, "mode": "rip"}, {"baked": 0, "mode": "base"}
# name: (which entry, how it is changed, what the refusal says; None: it may be ignored)
HOSTILE = {
    "load-form": (BAKED, lambda e: field(e, FORM, "B", 3), "__pv_sites entry . is malformed"),
    "no-form": (BAKED, lambda e: field(e, FORM, "B", 0), "malformed"),
    "unknown-form": (PLAIN, lambda e: field(e, FORM, "B", 66), "malformed"),
    "length-0": (PLAIN, lambda e: field(e, SHAPE, "B", e[SHAPE] & 0xf0), "malformed"),
    "length-15": (PLAIN, lambda e: field(e, SHAPE, "B", e[SHAPE] | 15), "malformed"),
    "flag": (PLAIN, lambda e: field(e, FLAGS, "B", e[FLAGS] | 4), "malformed"),
    "got-and-baked": (BAKED, lambda e: field(e, FLAGS, "B", 3), "malformed"),
    "displacement-of-rip": (BAKED, lambda e: field(e, REGS, "B", 0x30), "malformed"),
    "register-of-rip": (BAKED, lambda e: field(e, REGS, "B", 3), "malformed"),
    "site-next-byte": (BAKED, lambda e: field(e, SITE, "<i", struct.unpack_from("<i", e)[0] + 1), "out of step"),
    "site-wild": (BAKED, lambda e: field(e, SITE, "<i", 0x7fffffff), "out of step"),
    "site-in-data": (BAKED, lambda e: field(e, SITE, "<i", 0), "out of step"),
    "slot-next": (BAKED, lambda e: field(e, OBJ, "<i", struct.unpack_from("<i", e, 4)[0] + 8), "out of step"),
    "slot-wild": (BAKED, lambda e: field(e, OBJ, "<i", -0x80000000), "out of step"),
    "slot-odd": (BAKED, lambda e: field(e, OBJ, "<i", struct.unpack_from("<i", e, 4)[0] + 1), "out of step"),
    "shorter": (BAKED, lambda e: field(e, SHAPE, "B", e[SHAPE] - 1), "out of step"),
    "jump": (BAKED, lambda e: field(e, FORM, "B", e[FORM] ^ 1), "out of step"),
    "other-mode": (BAKED, lambda e: field(e, SHAPE, "B", e[SHAPE] ^ 0x10), "out of step"),
    "baked-lie": (PLAIN, lambda e: field(e, FLAGS, "B", e[FLAGS] | 1), "out of step"),
    "unbaked-lie": (BAKED, lambda e: field(e, FLAGS, "B", 0), None),
    "plain-site-wild": (PLAIN, lambda e: field(e, SITE, "<i", 0x7fffffff), None),
    "plain-site-next-byte": (PLAIN, lambda e: field(e, SITE, "<i", struct.unpack_from("<i", e)[0] + 1), None),
    "plain-site-in-data": (PLAIN, lambda e: field(e, SITE, "<i", 0), None),
    "plain-slot-wild": (PLAIN, lambda e: field(e, OBJ, "<i", 0x7fffffff), None),
    "plain-register": (PLAIN, lambda e: field(e, REGS, "B", e[REGS] ^ 15), None),
    "plain-stack-pointer": (PLAIN, lambda e: field(e, REGS, "B", e[REGS] & 0xf0 | 4), None),
    "plain-length": (PLAIN, lambda e: field(e, SHAPE, "B", e[SHAPE] & 0xf0 | 9), None),
    "plain-got": (PLAIN, lambda e: field(e, FLAGS, "B", e[FLAGS] | 2), None),
    "empty-amid": (PLAIN, lambda e: bytes(12), None),
}


def judge(etch, path, data, reason):
    """Refused in one line and left as it was; or done, in peace."""
    for command in COMMANDS:
        path.write_bytes(data)
        path.chmod(0o755)
        p = run([etch, *command, path], ok=(0, 2), env=asan_env())
        lines = p.stderr.splitlines()
        if reason and command == ["inspect", "summary"] and p.returncode == 0:
            # A summary says what there is, and what is wrong with it.
            assert not lines and "ETCH-T003" in p.stdout, (p.stdout, p.stderr)
        elif reason or p.returncode == 2:
            assert p.returncode == 2 and p.stdout == "", (command, p.stdout, p.stderr)
            assert len(lines) == 1 and lines[0].startswith(f"etch: {path}: ") and re.search(reason or ".", lines[0]), lines
            assert path.read_bytes() == data
        else:
            assert all(re.match(rf"etch: {re.escape(str(path))}: ETCH-[A-Z]\d{{3}}: ", line) for line in lines), lines


@pytest.mark.parametrize("name", HOSTILE)
@pytest.mark.parametrize("stage", ["done", "alone"])
def test_hostile_entries(built, etch_asan, name, stage):
    b = built("pie", "gcc")
    t = Table(getattr(b, stage))
    wanted, change, reason = HOSTILE[name]
    at = t.offset(t.addr + 12 * first(t, wanted))
    data = bytearray(t.data)
    data[at:at + 12] = change(bytes(data[at:at + 12]))
    assert data != t.data
    judge(etch_asan, b.flow.tmp / f"hostile-{name}", bytes(data), reason)


def test_hostile_order(built, etch_asan):
    """Entries in another order are sorted again; one that is there twice, or overlaps
    another, does not agree with the code that the other was for."""
    b = built("pie", "gcc")
    t = Table(b.done)
    at, n = t.offset(t.addr), t.room
    entries = [t.data[at + 12 * i:at + 12 * i + 12] for i in range(n)]

    def moved(order):
        out = bytearray(t.data)
        for to, i in enumerate(order):
            e = bytearray(entries[i])
            for f in (SITE, OBJ):
                struct.pack_into("<i", e, f, struct.unpack_from("<i", e, f)[0] + 12 * (i - to))
            out[at + 12 * to:at + 12 * to + 12] = e
        return bytes(out)

    path = b.flow.tmp / "order"
    path.write_bytes(moved(reversed(range(n))))
    assert path.read_bytes() != t.data
    b.flow.rewrite(path, args=["--no-undo"])  # what it was is another file
    b.done.with_suffix(".plain").write_bytes(t.data)
    b.flow.rewrite(b.done.with_suffix(".plain"), args=["--no-undo"])
    assert path.read_bytes() == b.done.with_suffix(".plain").read_bytes()
    k = first(t, BAKED)
    judge(etch_asan, path, moved([k if i == k + 1 else i for i in range(n)]), "out of step")
    judge(etch_asan, path, moved([k if i in range(n) else i for i in range(n)]), "out of step")


@pytest.mark.parametrize("name,where,fmt,value,reason", [
    ("far", 48, "<q", 1 << 40, "places __pv_sites outside the file"),
    ("wraps", 48, "<q", -(1 << 63), "places __pv_sites outside the file"),
    ("many", 56, "<Q", 1 << 60, "places __pv_sites outside the file"),
    ("some", 56, "<Q", 1 << 20, "places __pv_sites outside the file|malformed"),
    ("none", 56, "<Q", 0, None),
    ("shifted", 48, "<q", None, "malformed|out of step|outside the file"),
    ("not-moved", 8, "<I", 1, None),
])
def test_hostile_descriptor(built, etch_asan, name, where, fmt, value, reason):
    b = built("pie", "gcc")
    t = Table(b.alone)
    at = t.offset(t.sections["__etch_mod"][0]) + where
    if value is None:
        value = struct.unpack_from(fmt, t.data, at)[0] + 4
    data = bytearray(t.data)
    struct.pack_into(fmt, data, at, value)
    judge(etch_asan, b.flow.tmp / f"descriptor-{name}", bytes(data), reason)


def section_header(data, name):
    """Offset of a section's header."""
    shoff, = struct.unpack_from("<Q", data, 40)
    shnum, shstr = struct.unpack_from("<HH", data, 60)
    strings, = struct.unpack_from("<Q", data, shoff + 64 * shstr + 24)
    for i in range(shnum):
        at = shoff + 64 * i
        start = strings + struct.unpack_from("<I", data, at)[0]
        if data[start:data.index(0, start)] == name.encode():
            return at
    raise KeyError(name)


@pytest.mark.parametrize("name", ["__pv_sites", "__pv_native"])
@pytest.mark.parametrize("stage", ["object", "linked", "done"])
@pytest.mark.parametrize("cut", [1, 4, 11])
def test_hostile_size(built, etch_asan, name, stage, cut):
    b = built("pie", "gcc")
    data = bytearray(getattr(b, stage).read_bytes())
    at = section_header(data, name)
    size, = struct.unpack_from("<Q", data, at + 32)
    struct.pack_into("<Q", data, at + 32, size - cut)
    path = b.flow.tmp / f"size-{stage}"
    for command in COMMANDS:
        path.write_bytes(data)
        p = run([etch_asan, *command, path], ok=(0, 2), env=asan_env())
        if stage != "object":
            assert p.returncode == 2 and len(p.stderr.splitlines()) == 1
            assert f"section {name}: size {size - cut} is not a multiple of 12" in p.stderr
        elif command[0] == "rewrite" and "orc" not in command:
            assert p.returncode == 2 and len(p.stderr.splitlines()) == 1, p.stderr
        if p.returncode == 2:
            assert path.read_bytes() == data


@pytest.mark.parametrize("change,reason", [
    (lambda e: field(e, 8, "B", 16), "__pv_native record 1 is malformed"),
    (lambda e: field(e, 9, "B", 4), "malformed"),
    (lambda e: field(e, 10, "<H", 1), "malformed"),
    (lambda e: field(e, 0, "<i", 0x7fffffff), None),
    (lambda e: field(e, 4, "<i", 0x7fffffff), "out of step"),
    (lambda e: field(e, 4, "<i", 0), "out of step"),
    (lambda e: field(e, 8, "B", 15), "out of step"),
    (lambda e: field(e, 9, "B", 0), None),
], ids=["length", "flags", "zero", "function-wild", "code-wild", "code-in-data", "longer", "unchecked"])
def test_hostile_natives(built, etch_asan, change, reason):
    """The record of pv_ident_32, which is tiny besides: known by its code too."""
    b = built("pie", "gcc")
    t = Table(b.done)
    at = t.offset(t.sections["__pv_native"][0] + 12)
    data = bytearray(t.data)
    data[at:at + 12] = change(bytes(data[at:at + 12]))
    judge(etch_asan, b.flow.tmp / "native", bytes(data), reason)


def test_judge_notices(built):
    """The judge itself."""
    b = built("pie", "gcc")
    tool = b.flow.tmp / "tool"
    tool.write_text("#!/bin/sh\nexit 99\n")
    tool.chmod(0o755)
    with pytest.raises(pytest.fail.Exception):
        judge(tool, b.flow.tmp / "x", b.done.read_bytes(), None)
    tool.write_text("#!/bin/sh\nexit 0\n")
    with pytest.raises(AssertionError):
        judge(tool, b.flow.tmp / "x", b.done.read_bytes(), "malformed")
