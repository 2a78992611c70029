# SPDX-License-Identifier: MIT
"""Which files of the system the static truth is asked about, and their symbols."""

import bisect
import hashlib
import os
from pathlib import Path

from elftools.elf.elffile import ELFFile

LIBDIR = Path("/usr/lib/x86_64-linux-gnu")
BINDIR = Path("/usr/bin")

# Always: the ones the aims name.
NAMED = [LIBDIR / "libc.so.6", LIBDIR / "libstdc++.so.6", LIBDIR / "libcrypto.so.3", Path("/usr/bin/python3").resolve()]
# What every process runs, and small enough for each `make test`.
SMALL = [LIBDIR / "libc.so.6", LIBDIR / "ld-linux-x86-64.so.2", LIBDIR / "libz.so.1",
         BINDIR / "gzip", BINDIR / "sqlite3", LIBDIR / "libgcc_s.so.1"]

MIN_TEXT = 16 << 10


def text_size(path):
    """Bytes of executable sections of an x86-64 program or library that has
    .eh_frame, else 0."""
    try:
        with open(path, "rb") as f:
            if f.read(4) != b"\x7fELF":
                return 0
            f.seek(0)
            elf = ELFFile(f)
            if elf["e_machine"] != "EM_X86_64" or elf["e_type"] not in ("ET_EXEC", "ET_DYN"):
                return 0
            if elf.get_section_by_name(".eh_frame") is None:
                return 0
            return sum(s["sh_size"] for s in elf.iter_sections() if s["sh_flags"] & 4)
    except Exception:
        return 0


def picked(count=20):
    """The stated rule: the regular files of each of the two directories, without
    symbolic links, in the order of the SHA-256 of their names; the first `count`
    / 2 of each that are x86-64 ELF programs or libraries with .eh_frame and at
    least 16 KiB of code."""
    out = []
    for directory in (BINDIR, LIBDIR):
        names = [e.name for e in os.scandir(directory) if e.is_file(follow_symlinks=False)]
        names.sort(key=lambda n: hashlib.sha256(n.encode()).digest())
        found = 0
        for name in names:
            if found == count // 2:
                break
            if text_size(directory / name) >= MIN_TEXT:
                out.append(directory / name)
                found += 1
    return out


def _debug_file(elf):
    """The separate file of a stripped one's symbols, as Debian's -dbg packages have it."""
    note = elf.get_section_by_name(".note.gnu.build-id")
    if note is None:
        return None
    ident = note.data()[16:].hex()
    path = Path("/usr/lib/debug/.build-id") / ident[:2] / (ident[2:] + ".debug")
    return path if path.exists() else None


class Symbols:
    """Names of functions, for people: nothing is decided by them."""

    def __init__(self, path):
        self.list = []
        with open(path, "rb") as f:
            elf = ELFFile(f)
            self._read(elf)
            debug = _debug_file(elf)
        if debug:
            with open(debug, "rb") as f:
                self._read(ELFFile(f))
        self.list.sort()
        self.starts = [s[0] for s in self.list]

    def _read(self, elf):
        for name in (".symtab", ".dynsym"):
            section = elf.get_section_by_name(name)
            if section is None or section["sh_type"] == "SHT_NOBITS":
                continue
            for s in section.iter_symbols():
                if s["st_info"]["type"] in ("STT_FUNC", "STT_GNU_IFUNC") and s["st_shndx"] != "SHN_UNDEF":
                    self.list.append((s["st_value"], s["st_size"], s.name))

    def at(self, addr):
        i = bisect.bisect_right(self.starts, addr) - 1
        if i < 0:
            return f"{addr:#x}"
        start, size, name = self.list[i]
        return f"{name}+{addr - start:#x}" if addr < start + max(size, 1) else f"({name}+{addr - start:#x})"
