# SPDX-License-Identifier: MIT
"""Object files: members of archives, their CFI, and objtool's ORC of them."""

import os
import struct
import subprocess
import tempfile

from elftools.dwarf.callframe import FDE
from elftools.elf.elffile import ELFFile

import rows

# By the environment where it is elsewhere: processes that compare are not forked with Python 3.14.
OBJTOOL = os.environ.get("OBJTOOL_6_1", "/usr/lib/linux-kbuild-6.1/tools/objtool/objtool")


def members(path):
    """(name, bytes) of an ar archive, GNU flavour."""
    with open(path, "rb") as f:
        if f.read(8) != b"!<arch>\n":
            raise ValueError(f"{path}: not an archive")
        names = b""
        while head := f.read(60):
            size = int(head[48:58])
            data = f.read(size)
            f.read(size & 1)
            name = head[:16].rstrip()
            if name == b"//":
                names = data
            elif name in (b"/", b"/SYM64/"):
                continue
            else:
                if name[:1] == b"/":
                    at = int(name[1:])
                    name = names[at:names.index(b"\n", at)]
                yield name.rstrip(b"/").decode(), data


def text_sections(elf):
    """{section index: size} of what can run."""
    return {i: s["sh_size"] for i, s in enumerate(elf.iter_sections())
            if s["sh_flags"] & 4 and s["sh_type"] == "SHT_PROGBITS" and s["sh_size"]}


def function_ranges(elf):
    """{section index: [(start, end)]} of sized function symbols, merged."""
    out = {}
    table = elf.get_section_by_name(".symtab")
    for s in table.iter_symbols() if table else ():
        if s["st_info"]["type"] in ("STT_FUNC", "STT_GNU_IFUNC") and s["st_size"] and isinstance(s["st_shndx"], int):
            out.setdefault(s["st_shndx"], []).append((s["st_value"], s["st_value"] + s["st_size"]))
    return {k: merged(v) for k, v in out.items()}


def merged(ranges):
    out = []
    for start, end in sorted(ranges):
        if out and start <= out[-1][1]:
            out[-1] = (out[-1][0], max(end, out[-1][1]))
        else:
            out.append((start, end))
    return out


def _relocations(elf, section):
    """{offset: (section index of the symbol, value + addend)}"""
    out = {}
    index = next(i for i, s in enumerate(elf.iter_sections()) if s.name == section.name and
                 s["sh_offset"] == section["sh_offset"])
    for r in elf.iter_sections():
        if r["sh_type"] != "SHT_RELA" or r["sh_info"] != index:
            continue
        symbols = elf.get_section(r["sh_link"])
        for x in r.iter_relocations():
            s = symbols.get_symbol(x["r_info_sym"])
            if isinstance(s["st_shndx"], int):
                out[x["r_offset"]] = (s["st_shndx"], s["st_value"] + x["r_addend"])
    return out


def cfi_rows(elf):
    """({section index: rows}, {section index: [(start, end) of FDEs]}) of an object's
    .eh_frame. The FDE's initial location is a relocated field 8 bytes into it."""
    section = elf.get_section_by_name(".eh_frame")
    if section is None:
        return {}, {}
    where = _relocations(elf, section)
    dwarf = elf.get_dwarf_info(relocate_dwarf_sections=False)
    out, fdes, taken = {}, {}, set()
    for fde in dwarf.EH_CFI_entries():
        if not isinstance(fde, FDE) or not fde["address_range"]:
            continue
        place = where.get(fde.offset + 8)
        if place is None or place in taken:
            continue
        taken.add(place)
        index, start = place
        base = fde["initial_location"]
        size = fde["address_range"]
        fdes.setdefault(index, []).append((start, start + size))
        signal = b"S" in fde.cie.header.get("augmentation", b"")
        lines = {line["pc"] - base: line for line in fde.get_decoded().table}
        pcs = sorted(p for p in lines if p < size)
        for i, pc in enumerate(pcs):
            stop = pcs[i + 1] if i + 1 < len(pcs) else size
            rule = rows._rule(lines[pc], 0, signal)
            rows._append(out.setdefault(index, []), start + pc, start + stop, rule, start)
    for r in (*out.values(), *fdes.values()):
        r.sort()
    return out, fdes


# ---- objtool ----------------------------------------------------------------------

# Linux 6.1, arch/x86/include/asm/orc_types.h
ORC_CFA = {2: "rdx", 3: "rdi", 4: "rbp", 5: "rsp", 6: "r10", 7: "r13"}


def orc_rule(entry):
    """A 6-byte entry of Linux 6.1 (type: 2 bits, end: 1) as one of our rules."""
    sp_off, bp_off, bits = struct.unpack("<hhH", entry)
    sp, bp, kind, end = bits & 15, bits >> 4 & 15, bits >> 8 & 3, bits >> 10 & 1
    if end:
        return rows.END
    if sp == 0:
        return rows.UNDEF
    if sp == 8:
        cfa = f"*(rbp{sp_off:+d})+0"
    elif sp == 9:
        cfa = f"*(rsp+0){sp_off:+d}"
    else:
        cfa = f"{ORC_CFA.get(sp, '?')}{sp_off:+d}"
    slot = {0: "same", 1: f"cfa{bp_off:+d}", 4: f"*(rbp{bp_off:+d})"}.get(bp, "?")
    return (cfa, slot, "cfa-8", "call" if kind == 0 else f"regs{kind}")


def objtool(data):
    """(status text, {section index: rows} or None when it made no table)."""
    with tempfile.NamedTemporaryFile(suffix=".o") as f:
        f.write(data)
        f.flush()
        # Without --no-unreachable it gives up more functions: its best counts.
        p = subprocess.run([OBJTOOL, "--orc", "--no-unreachable", f.name], stdout=subprocess.DEVNULL,
                           stderr=subprocess.PIPE, text=True, errors="replace", timeout=120)
        said = p.stderr.replace(f.name, "")
        with open(f.name, "rb") as g:
            return said, orc_tables(ELFFile(g))


def orc_tables(elf):
    entries = elf.get_section_by_name(".orc_unwind")
    ips = elf.get_section_by_name(".orc_unwind_ip")
    if entries is None or ips is None:
        return None
    data = entries.data()
    where = _relocations(elf, ips)
    by = {}
    for at, (index, addr) in where.items():
        # Linux 6.1 relocates with R_X86_64_PC32 to section + offset.
        by.setdefault(index, []).append((addr, at // 4))
    sizes = text_sections(elf)
    out = {}
    for index, list_ in by.items():
        list_.sort()
        r = []
        for i, (addr, n) in enumerate(list_):
            end = list_[i + 1][0] if i + 1 < len(list_) else sizes.get(index, addr)
            if end > addr:
                rows._append(r, addr, end, orc_rule(data[6 * n:6 * n + 6]), 0)
        out[index] = r
    return out


# ---- ours --------------------------------------------------------------------------

def etch_rows(etch, path, *args):
    """{section index: rows} of `etch inspect orc` of an object: an eighth column
    has the section's index, or its name where that is unambiguous."""
    p = subprocess.run([str(etch), "inspect", "orc", "--format", "tsv", *args, str(path)],
                       stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    if p.returncode:
        raise rows.Inspect(f"exit {p.returncode}: {p.stderr.strip()[:300]}")
    lines = p.stdout.splitlines()
    if not lines or lines[0].split("\t") != [*rows.HEADER, "section", "function"]:
        raise rows.Inspect(f"header {lines[:1]}")
    out = {}
    for line in lines[1:]:
        c = line.split("\t")
        start = int(c[0], 16)
        out.setdefault(c[7], []).append((start, start + int(c[1], 16), rows._plain(tuple(c[2:6])), c[6]))
    return out
