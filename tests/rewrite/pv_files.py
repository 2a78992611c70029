# SPDX-License-Identifier: MIT
"""Programs and libraries with ops objects at three stages, what their calls are in the end, and a
reader of __pv_sites."""

import re
import shutil
import struct

import pytest
from elftools.elf.elffile import ELFFile

from conftest import DATA, Flow, call_options, run

SOURCES = DATA / "pv"

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
        self.object = self.flow.compile(source, [*flags, *call_options(cc)], "main.o")
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


KNOWN = {}


@pytest.fixture(scope="module")
def built(tmp_path_factory, build):
    def get(kind, cc):
        if (kind, cc) not in KNOWN:
            KNOWN[kind, cc] = Built(tmp_path_factory.mktemp(f"{kind}-{cc}"), build, kind, cc)
        return KNOWN[kind, cc]
    return get


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
            self.addr, self.capacity = at + 48 + ref, count
        else:
            self.addr, size = self.sections.get("__pv_sites", (0, 0))
            assert size % 12 == 0
            self.capacity = size // 12
        self.entries = [self.entry(self.addr + 12 * i) for i in range(self.capacity)]

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
TARGETS = {
    "use_val": "etch_pv_ident_64_", "use_val32": "etch_pv_ident_32_", "use_flush": "etch_pv_nop_", "use_zero": "zero",
    "use_five": "five", "use_none": "null", "use_set": "native_set", "use_pair": "native_pair",
    "use_saved": "native_saved", "use_open": "open_to_all", "use_weak": "weakly", "use_stop": "stop",
    "use_length": "strlen",
}
