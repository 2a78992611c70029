# SPDX-License-Identifier: MIT
"""How much of a file's code has a row, counted apart from etch's own percentage.

Code is the contents of executable sections (of executable segments, where a file has no sections). Padding is left out:
runs of nops, int3 or zero bytes without a row, at an end of such a gap or of more than three bytes.
"""

import re
import subprocess

from elftools.elf.elffile import ELFFile

SHF_EXECINSTR, PF_X = 4, 1

# The nops that assemblers and linkers fill with (GNU as, LLVM, gold), int3 and zeros.
PADDING = re.compile(rb"(?:\xcc|\x00|\x66*\x90|\x66*\x0f\x1f(?:\x00|\x40.|\x44..|\x80....|\x84.....)|\x66*\x2e\x0f\x1f\x84....."
                     rb"|\x8d\x76.|\x8d\xb6....|\x8d\xb4\x26....|\x48\x8d\x76\x00)+", re.S)


def code(path):
    """[(address, bytes)] of what is executable."""
    with open(path, "rb") as f:
        elf = ELFFile(f)
        found = [(s["sh_addr"], s.data()) for s in elf.iter_sections()
                 if s["sh_flags"] & SHF_EXECINSTR and s["sh_type"] != "SHT_NOBITS"]
        if not found:
            found = [(s["p_vaddr"], s.data()) for s in elf.iter_segments() if s["p_type"] == "PT_LOAD" and s["p_flags"] & PF_X]
    return sorted(found)


def spans(etch, path):
    """[(start, end)] of the addresses that have a row, neighbours joined. Empty for a file that etch refuses."""
    found = []
    with subprocess.Popen([etch, "inspect", "orc", "--format", "tsv", path], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
                          text=True) as p:
        next(p.stdout, None)
        for line in p.stdout:
            cells = line.split("\t", 6)
            if cells[5] == "undef":
                continue
            start = int(cells[0], 16)
            end = start + int(cells[1], 16)
            if found and found[-1][1] == start:
                found[-1] = (found[-1][0], end)
            else:
                found.append((start, end))
    return found if p.returncode == 0 else []


def gaps(start, end, rows):
    """The parts of [start, end) that are in no span of `rows`."""
    for a, b in rows:
        if b <= start:
            continue
        if a >= end:
            break
        if a > start:
            yield start, a
        start = b
    if start < end:
        yield start, end


def padding(piece):
    """How many bytes of a gap are padding."""
    return sum(len(m[0]) for m in PADDING.finditer(piece) if len(m[0]) > 3 or m.start() == 0 or m.end() == len(piece))


def measure(etch, path):
    """(bytes of code without padding, how many of them have a row)"""
    rows, total, missing = spans(etch, path), 0, 0
    for start, data in code(path):
        end = start + len(data)
        total += len(data)
        for a, b in gaps(start, end, rows):
            piece = data[a - start:b - start]
            empty = padding(piece)
            total -= empty
            missing += len(piece) - empty
    return total, total - missing
