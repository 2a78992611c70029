# SPDX-License-Identifier: MIT
"""A second reader of the kernel's tables, from docs/formats.md and the kernel's headers
alone: bytes by struct, relocations as they are in the file. It shares nothing with etch."""

import bisect
import re
import struct

from elftools.elf.elffile import ELFFile

SHF_ALLOC, SHF_EXECINSTR = 2, 4
PC32, PLT32, ABS64, PC64 = 2, 4, 1, 24


class Kernel:
    def __init__(self, path):
        with open(path, "rb") as f:
            elf = ELFFile(f)
            self.object = elf["e_type"] == "ET_REL"
            self.sections = []
            self.names = []
            for s in elf.iter_sections():
                self.names.append(s.name)
                data = b"" if s["sh_type"] == "SHT_NOBITS" else s.data()
                self.sections.append((s.name, s["sh_addr"], s["sh_size"], s["sh_flags"], data))
            self.relocs = {}
            self.symbols = []
            symtab = elf.get_section_by_name(".symtab")
            if symtab:
                strings = elf.get_section(symtab["sh_link"]).data()
                for name, info, _, shndx, value, size in struct.iter_unpack("<IBBHQQ", symtab.data()):
                    text = strings[name:strings.index(b"\0", name)].decode()
                    self.symbols.append((text, info & 15, shndx, value, size))
            for s in elf.iter_sections():
                if s["sh_type"] == "SHT_RELA":
                    self.relocs[s["sh_info"]] = {
                        off: (info & 0xffffffff, info >> 32, add)
                        for off, info, add in struct.iter_unpack("<QQq", s.data())}
        alloc = sorted((a, a + n, i) for i, (_, a, n, flags, _) in enumerate(self.sections) if flags & SHF_ALLOC and n)
        self.alloc = alloc
        self.starts = [a for a, _, _ in alloc]
        funcs = sorted((shndx, value, value + size, name) for name, kind, shndx, value, size in self.symbols
                       if kind in (1, 2) and size and 0 < shndx < 0xff00)
        self.funcs = funcs
        blob = b"".join(d for n, _, _, fl, d in self.sections if not fl & SHF_EXECINSTR and (n == ".modinfo" or not self.object))
        found = re.search(rb"vermagic=(\d+)\.(\d+)|Linux version (\d+)\.(\d+)", blob)
        self.version = tuple(int(x) for x in found.groups() if x is not None)

    def index(self, name):
        return self.names.index(name) if name in self.names else None

    def section_at(self, addr):
        i = bisect.bisect_right(self.starts, addr) - 1
        return self.alloc[i][2] if i >= 0 and addr < self.alloc[i][1] else None

    # A place: (section, offset) or (name of a symbol elsewhere, addend).

    def ref(self, section, at, form):
        """form: i self-relative 32, q self-relative 64, Q absolute."""
        if self.object:
            kind, sym, add = self.relocs[section][at]
            assert kind in {"i": (PC32, PLT32), "q": (PC64,), "Q": (ABS64,)}[form]
            name, _, shndx, value, _ = self.symbols[sym]
            return (shndx, value + add) if shndx else (name, add)
        _, addr, _, _, data = self.sections[section]
        value, = struct.unpack_from("<" + form, data, at)
        value = (value + (addr + at if form in "iq" else 0)) & (1 << 64) - 1
        s = self.section_at(value)
        return (s, value - self.sections[s][1])

    def text(self, place):
        """As etch shows it."""
        where, off = place
        if isinstance(where, str):
            return where + (f"+0x{off:x}" if off > 0 else f"-0x{-off:x}" if off < 0 else "")
        if self.object:
            return f"{self.sections[where][0]}+0x{off:x}"
        return f"{self.sections[where][1] + off:x}"

    def functions(self, place):
        """All names that a sized symbol around a place gives it."""
        where, off = place
        i = bisect.bisect_right(self.funcs, (where, off, 1 << 64, ""))
        out = set()
        while i and self.funcs[i - 1][0] == where and len(out) < 8:
            i -= 1
            _, start, end, name = self.funcs[i]
            if start <= off < end:
                out.add(name + (f"+0x{off - start:x}" if off > start else ""))
            if off - start > 1 << 17:
                break
        return out

    def string(self, place):
        data = self.sections[place[0]][4]
        return data[place[1]:data.index(b"\0", place[1])].decode()

    # ---- tables: rows as dicts of what etch shows, with the place of the instruction

    def table(self, name, start=None, end=None, section=None):
        s = self.index(name) if section is None else section
        data = self.sections[s][4]
        start, end = start or 0, end if end is not None else len(data)
        return READERS[name](self, s, data, start, end)


def entry(k, s, at, **fields):
    place = k.ref(s, at, fields.pop("form", "i"))
    return place, {"instruction": k.text(place), **{n: str(v) for n, v in fields.items()}}


# Of asm/extable_fixup_types.h, without EX_TYPE_.
EX_TYPES = ("none default fault uaccess copy clear-fs fpu-restore bpf wrmsr rdmsr wrmsr-safe rdmsr-safe wrmsr-in-mce "
            "rdmsr-in-mce default-mce-safe fault-mce-safe pop-reg imm-reg fault-sgx ucopy-len zeropad eretu").split()


def ex_table(k, s, data, start, end):
    for at in range(start, end, 12):
        d, = struct.unpack_from("<I", data, at + 8)
        imm, = struct.unpack_from("<h", data, at + 10)
        yield entry(k, s, at, fixup=k.text(k.ref(s, at + 4, "i")), type=EX_TYPES[d & 255], register=d >> 8 & 15,
                    flags=d >> 12 & 15, immediate=imm)


def altinstructions(k, s, data, start, end):
    new = k.version >= (6, 3)
    for at in range(start, end, 14 if new else 12):
        feature, flags, n, m = struct.unpack_from("<HHBB" if new else "<HxxBB", data, at + 8) if new else (
            lambda f, n, m: (f & 0x7fff, f >> 15, n, m))(*struct.unpack_from("<HBB", data, at + 8))
        yield entry(k, s, at, length=n, replacement=k.text(k.ref(s, at + 4, "i")), new_length=m,
                    feature=f"{feature // 32}*32+{feature % 32}",
                    flags=",".join(n for i, n in enumerate(["not", "direct-call"]) if flags >> i & 1) or "-")


def parainstructions(k, s, data, start, end):
    for at in range(start, end, 16):
        yield entry(k, s, at, form="Q", slot=data[at + 8], length=data[at + 9])


def jump_table(k, s, data, start, end):
    for at in range(start, end, 16):
        where, off = k.ref(s, at + 8, "q")
        bits, off = off & 3, off & ~3
        yield entry(k, s, at, target=k.text(k.ref(s, at + 4, "i")), key=k.text((where, off)),
                    flags=["-", "branch", "objtool", "branch,objtool"][bits])


def static_call_sites(k, s, data, start, end):
    for at in range(start, end, 8):
        where, off = k.ref(s, at + 4, "i")
        bits, off = off & 3, off & ~3
        yield entry(k, s, at, key=k.text((where, off)), flags=["-", "tail", "init", "tail,init"][bits])


def sites(k, s, data, start, end):
    for at in range(start, end, 4):
        if k.object or data[at:at + 4] != bytes(4):
            yield entry(k, s, at)


def mcount_loc(k, s, data, start, end):
    for at in range(start, end, 8):
        yield entry(k, s, at, form="Q")


def bug_table(k, s, data, start, end):
    assert k.version < (6, 19)
    for at in range(start, end, 12):
        line, flags = struct.unpack_from("<HH", data, at + 8)
        names = ["warning", "once", "done", "no-cut-here"]
        yield entry(k, s, at, file=k.string(k.ref(s, at + 4, "i")), line=line, taint=flags >> 8,
                    flags=",".join(n for i, n in enumerate(names) if flags >> i & 1) or "-")


READERS = {
    "__ex_table": ex_table, ".altinstructions": altinstructions, ".parainstructions": parainstructions,
    "__jump_table": jump_table, ".static_call_sites": static_call_sites, ".smp_locks": sites,
    ".retpoline_sites": sites, ".return_sites": sites, ".call_sites": sites, ".ibt_endbr_seal": sites,
    "__mcount_loc": mcount_loc, "__bug_table": bug_table,
}


# ---- ORC ---------------------------------------------------------------------------------

REGS = {2: "rdx", 3: "rdi", 4: "rbp", 5: "rsp", 6: "r10", 7: "r13", 10: "rax"}


def orc_rule(raw, version):
    """(cfa, bp, ra, kind) of an entry, as docs/formats.md says."""
    sp, bp, bits = struct.unpack("<hhH", raw)
    spr, bpr = bits & 15, bits >> 4 & 15
    if version >= (6, 4):
        kind = ["undef", "end", "call", "regs", "partial"][bits >> 8 & 7]
        signal = bits >> 11 & 1
    else:
        end, signal = (bits >> 11 & 1, bits >> 10 & 1) if version >= (6, 3) else (bits >> 10 & 1, 0)
        kind = "end" if end else "undef" if not spr else ["call", "regs", "partial"][bits >> 8 & 3]
    name = kind + (",signal" if signal else "")
    if kind in ("end", "undef"):
        return "undef", "undef", "undef", name

    def base(more):
        if spr == 8:
            return f"*(rbp{sp:+d}){more:+d}"
        if spr == 9:
            return f"*(rsp+0){sp + more:+d}"
        return f"{REGS[spr]}{sp + more:+d}"

    if kind == "call":
        return base(0), {0: "same", 1: f"cfa{bp:+d}", 4: f"*(rbp{bp:+d})"}[bpr], "cfa-8", name
    old = {1: f"*({base(bp)})", 4: f"*(rbp{bp:+d})"}
    if kind == "regs":  # struct pt_regs: bp, ip and sp
        return f"*({base(152)})+0", old.get(bpr, f"*({base(32)})"), f"*({base(128)})", name
    return f"*({base(24)})+0", old.get(bpr, "same"), f"*({base(0)})", name


def orc_rows(k):
    """(section, offset, size, rule) of every row that is in force somewhere, in order."""
    ip, orc = k.index(".orc_unwind_ip"), k.index(".orc_unwind")
    raw = k.sections[orc][4]
    places = []
    for i in range(len(k.sections[ip][4]) // 4):
        if k.object:
            p = k.ref(ip, 4 * i, "i")
        else:
            _, addr, _, _, data = k.sections[ip]
            value = addr + 4 * i + struct.unpack_from("<i", data, 4 * i)[0]
            s = k.section_at(value)
            if s is None or not k.sections[s][3] & SHF_EXECINSTR:
                s = k.section_at(value - 1)
            p = s, value - k.sections[s][1]
        rule = orc_rule(raw[6 * i:6 * i + 6], k.version)
        places.append((*p, rule[3] != "undef", i, rule))
    places.sort(key=lambda p: p[:4])
    out = []
    for n, (s, off, _, _, rule) in enumerate(places):
        end = k.sections[s][2]
        if n + 1 < len(places) and places[n + 1][0] == s:
            end = min(end, places[n + 1][1])
        if end > off:
            out.append((s, off, end - off, rule))
    return out
