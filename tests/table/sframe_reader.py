# SPDX-License-Identifier: MIT
"""A reader of SFrame, versions 2 and 3, for amd64, written from its specification ("The SFrame Format", binutils), and
what etch's rows look like in it."""

import struct
from dataclasses import dataclass

from elftools.elf.elffile import ELFFile

REGISTERS = ["rax", "rdx", "rcx", "rbx", "rsi", "rdi", "rbp", "rsp", *(f"r{n}" for n in range(8, 16))]
UNDEF = ("undef", "undef", "undef", "undef")
END = ("undef", "undef", "undef", "end")


@dataclass
class Fde:
    start: int
    size: int
    repeat: int       # bytes of a repeated block; 0: none
    flex: bool
    signal: bool
    rows: list        # (offset, words, base is rsp)


def off(n):
    return f"{n:+d}"


def default_row(words, sp):
    if not words:
        return END
    assert len(words) <= 2
    return ("rsp" if sp else "rbp") + off(words[0]), f"cfa{off(words[1])}" if len(words) == 2 else "same", "cfa-8", "call"


def pairs(words):
    """The rules of a flexible row: (register or None, dereferenced, offset), or None for the padding word 0."""
    i = 0
    while i < len(words):
        if not words[i]:
            yield None
            i += 1
            continue
        yield REGISTERS[words[i] >> 3] if words[i] & 1 else None, bool(words[i] & 2), words[i + 1]
        i += 2


def flex_row(words, signal):
    if not words:
        return END
    cfa, ra, bp, *rest = [*pairs(words), None, None]
    assert not any(rest)

    def memory(rule):
        if rule[0]:
            return f"*({rule[0]}{off(rule[2])})" if rule[1] else rule[0] + (off(rule[2]) if rule[2] else "")
        assert rule[1]
        return f"cfa{off(rule[2])}"

    where = f"*({cfa[0]}{off(cfa[2])})+0" if cfa[1] else f"{cfa[0]}{off(cfa[2])}"
    return where, memory(bp) if bp else "same", memory(ra) if ra else "cfa-8", "signal" if signal else "call"


class SFrame:
    def __init__(self, path):
        with open(path, "rb") as f:
            elf = ELFFile(f)
            self.phdr = [(s["p_vaddr"], s["p_filesz"]) for s in elf.iter_segments()
                         if s["p_type"] in ("PT_GNU_SFRAME", 0x6474e554)]
            found = [s for s in elf.iter_sections() if s.name == ".sframe"]
            at = [s for s in found if (s["sh_addr"], s["sh_size"]) in self.phdr] or found
            self.addr, self.raw, self.type = at[0]["sh_addr"], at[0].data(), at[0]["sh_type"]
        raw = self.raw
        magic, self.version, self.flags, abi, fp, ra, aux, fdes, self.fres, fre_len, fde_off, fre_off = struct.unpack_from("<HBBBbbBIIIII", raw)
        assert (magic, abi, fp, ra, aux) == (0xdee2, 3, 0, -8, 0) and self.version in (2, 3)
        self.fdes = []
        base = 28 + fre_off
        for i in range(fdes):
            if self.version == 2:
                where = 28 + fde_off + 20 * i
                start, size, first, count, info, repeat, zero = struct.unpack_from("<iIIIBBH", raw, where)
                info2, at = 0, base + first
                assert not zero
            else:
                where = 28 + fde_off + 16 * i
                start, size, first = struct.unpack_from("<qII", raw, where)
                count, info, info2, repeat = struct.unpack_from("<HBBB", raw, base + first)
                at = base + first + 5
            start += self.addr + (where if self.flags & 4 else 0)
            rows, width = [], 1 << (info & 15)
            for _ in range(count):
                word = raw[at + width]
                n, each = word >> 1 & 15, 1 << (word >> 5 & 3)
                offset = int.from_bytes(raw[at:at + width], "little")
                at += width + 1
                values = [int.from_bytes(raw[at + k * each:at + (k + 1) * each], "little", signed=True) for k in range(n)]
                at += n * each
                assert at <= base + fre_len
                rows.append((offset, values, bool(word & 1)))
            self.fdes.append(Fde(start, size, repeat if info & 16 else 0, bool(info2 & 1), bool(info & 128), rows))

    def rows(self):
        """[start, end, (cfa, rbp, return address, kind)], neighbours different, gaps left out."""
        out = []
        for f in self.fdes:
            each = [(o, flex_row(w, f.signal) if f.flex else default_row(w, sp)) for o, w, sp in f.rows]
            step = f.repeat or f.size
            for block in range(f.start, f.start + f.size, step):
                for i, (o, rule) in enumerate(each):
                    end = block + each[i + 1][0] if i + 1 < len(each) else block + step
                    if out and out[-1][1] == block + o and out[-1][2] == rule:
                        out[-1][1] = end
                    else:
                        out.append([block + o, end, rule])
        return out


def tsv_rows(text):
    """The rows of `etch inspect orc|sframe --format tsv` in the same form; UNDEF left out."""
    out = []
    for line in text.splitlines()[1:]:
        addr, size, *rule = line.split("\t")[:6]
        start, end, rule = int(addr, 16), int(addr, 16) + int(size, 16), tuple(rule)
        if rule[3] == "end":
            rule = END
        if rule == UNDEF:
            continue
        if out and out[-1][1] == start and out[-1][2] == rule:
            out[-1][1] = end
        else:
            out.append([start, end, rule])
    return out


def expressible(rule, version):
    """Can SFrame say this?"""
    cfa, bp, ra, kind = rule
    if kind == "end":
        return version >= 3
    if "undef" in (cfa, bp, ra):
        return False
    plain = kind == "call" and cfa[:4] in ("rsp+", "rsp-", "rbp+", "rbp-") and ra == "cfa-8" and (bp == "same" or bp.startswith("cfa"))
    if version == 2 or plain:
        return plain
    return "8*" not in cfa and (not cfa.startswith("*") or cfa.endswith(")+0"))
