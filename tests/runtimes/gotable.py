# SPDX-License-Identifier: MIT
"""What the Go linker says of a program's frames: .gopclntab (Go 1.18 and later), by the
format of runtime/symtab.go. For each function a table of by how much rsp is below where
it was at the entry: the CFA is rsp plus that, plus 8 for the return address.
"""

import struct
from dataclasses import dataclass

from elftools.elf.elffile import ELFFile
from rows import leb

TOP_FRAME, SP_WRITE, ASM = 1, 2, 4


@dataclass
class Function:
    start: int
    end: int
    name: str
    flag: int
    frames: list  # (start, end, bytes below the entry's rsp)


def steps(data, at, pc, end):
    """A table of pctab: pairs of differences, of the value (zigzag) and of the pc."""
    value, out = -1, []
    while pc < end:
        n, at = leb(data, at)
        if not n and out:
            break
        value += -(n + 1 >> 1) if n & 1 else n >> 1
        n, at = leb(data, at)
        out.append((pc, min(pc + n, end), value))
        pc += n
    return out


def functions(path, text=None):
    """Of a program that is not relocated, by address; text: where the code begins, where the header does not say."""
    with open(path, "rb") as f:
        elf = ELFFile(f)
        data = (elf.get_section_by_name(".gopclntab") or elf.get_section_by_name(".data.rel.ro.gopclntab")).data()
    magic, = struct.unpack_from("<I", data)
    assert magic in (0xFFFFFFF0, 0xFFFFFFF1)
    count, _, start, names, _, _, pctab, tab = struct.unpack_from("<8Q", data, 8)
    start = text or start
    out = []
    for i in range(count):
        entry, record, end = struct.unpack_from("<III", data, tab + 8 * i)
        _, name, _, _, pcsp = struct.unpack_from("<IiiII", data, tab + record)
        flag = data[tab + record + (41 if magic == 0xFFFFFFF1 else 37)]
        name = data[names + name:data.index(0, names + name)].decode(errors="replace")
        frames = steps(data, pctab + pcsp, start + entry, start + end) if pcsp else []
        out.append(Function(start + entry, start + end, name, flag, frames))
    return out
