# SPDX-License-Identifier: MIT
"""tool/output/segment*.c: each check of a file's headers, by a small file that it alone refuses, and by one
next to it that it does not."""
import struct

import pytest

from conftest import DATA, run
from test_segment import Elf, tool  # noqa: F401

NAMES = b"\0" + b"\0".join([b".note.x", b".text", b".symtab", b".rela.dyn", b".data", b".shstrtab", b".etch.segment"]) + b"\0"
SHDR = ["name", "type", "flags", "addr", "off", "size", "link", "info", "align", "entsize"]
PHDR = ["type", "flags", "off", "vaddr", "paddr", "filesz", "memsz", "align"]
EHDR = {"magic": ("4s", 0), "class": ("B", 4), "data": ("B", 5), "type": ("H", 16), "machine": ("H", 18), "entry": ("Q", 24),
        "phoff": ("Q", 32), "shoff": ("Q", 40), "ehsize": ("H", 52), "phentsize": ("H", 54), "phnum": ("H", 56),
        "shentsize": ("H", 58), "shnum": ("H", 60), "names": ("H", 62)}
NOTE, TEXT, SYMTAB, RELA, DATA, STRTAB = range(1, 7)
FAR = 1 << 40


def name(text):
    return NAMES.index(b"\0" + text + b"\0") + 1


class Small:
    """A library of 800 bytes: a note that may move, code, symbols, relocations, data; and what is changed about it."""

    def __init__(self):
        contents = [struct.pack("<III4sI", 4, 4, 9, b"abc\0", 7), b"\x90" * 15 + b"\xc3", bytes(24) + struct.pack("<IBBHQQ", 0, 0x12, 0, TEXT, 0, 0),
                    struct.pack("<QQq", 0x1000, 1 << 32 | 6, 0), b"\1" * 16, NAMES]
        kinds = [(b".note.x", 7, 2, 0), (b".text", 1, 6, 0), (b".symtab", 2, 0, STRTAB), (b".rela.dyn", 4, 2, SYMTAB), (b".data", 1, 3, 0),
                 (b".shstrtab", 3, 0, 0)]
        self.data, self.sh = bytearray(64 + 2 * 56), [dict.fromkeys(SHDR, 0)]
        for (text, kind, flags, link), bytes_ in zip(kinds, contents):
            self.data += bytes(-len(self.data) % 8)
            at = len(self.data)
            self.sh.append({"name": name(text), "type": kind, "flags": flags, "addr": at if flags else 0, "off": at, "size": len(bytes_),
                            "link": link, "info": 0, "align": 8 if flags else 1, "entsize": 24 if kind in (2, 4) else 0})
            self.data += bytes_
        self.data += bytes(-len(self.data) % 8)
        self.shoff = len(self.data)
        self.end = self.sh[STRTAB]["off"]
        note = self.sh[NOTE]
        self.ph = [dict(zip(PHDR, (1, 5, 0, 0, 0, self.end, self.end, 4096))),
                   dict(zip(PHDR, (4, 4, note["off"], note["addr"], note["addr"], note["size"], note["size"], 4)))]
        self.eh = {"magic": b"\x7fELF", "class": 2, "data": 1, "type": 3, "machine": 62, "entry": 0, "phoff": 64, "shoff": self.shoff,
                   "ehsize": 64, "phentsize": 56, "phnum": 2, "shentsize": 64, "shnum": 7, "names": STRTAB}

    def bytes(self):
        data = bytearray(self.data)
        for field, (fmt, at) in EHDR.items():
            struct.pack_into("<" + fmt, data, at, self.eh[field])
        for i, p in enumerate(self.ph):
            struct.pack_into("<IIQQQQQQ", data, 64 + 56 * i, *p.values())
        return bytes(data) + b"".join(struct.pack("<IIQQQQIIQQ", *s.values()) for s in self.sh)


def eh(**k):
    return lambda f: f.eh.update(k)


def ph(i, **k):
    return lambda f: f.ph[i].update(k)


def sh(i, **k):
    return lambda f: f.sh[i].update(k)


def both(*edits):
    return lambda f: [e(f) for e in edits]


def contents(at, new):
    return lambda f: f.data.__setitem__(slice(at, at + len(new)), new)


OK = None
CASES = [
    (OK, eh()), ("its heap begins right after its last segment, and there are no 132 bytes of free addresses between its segments or below them",
                 eh(type=2)),
    ("not an ELF file", eh(magic=b"\x7fELG")),
    ("not a 64-bit x86 ELF file", eh(**{"class": 1})), ("not a 64-bit x86 ELF file", eh(data=2)), ("not a 64-bit x86 ELF file", eh(machine=3)),
    ("not a linked program or shared object (e_type 1)", eh(type=1)), ("not a linked program or shared object (e_type 4)", eh(type=4)),
    ("ELF header with unknown entry sizes", eh(ehsize=56)), ("ELF header with unknown entry sizes", eh(phentsize=64)),
    ("no program headers", eh(phnum=0)), ("too many program headers", eh(phnum=0xffff)),
    ("program headers outside the file", eh(phoff=FAR)), ("program headers outside the file", eh(phoff=2**64 - 8)),
    ("program headers outside the file", eh(phoff=56)),
    ("no section headers", eh(shoff=0)), ("section headers of unknown size", eh(shentsize=40)),
    ("section headers outside the file", eh(shoff=56)), ("section headers outside the file", eh(shoff=FAR)),
    ("section headers outside the file", eh(shnum=8)), ("section headers outside the file", eh(shnum=0)),
    ("section headers outside the file", both(eh(shnum=0), sh(0, size=8))), (OK, both(eh(shnum=0), sh(0, size=7))),
    ("no section name table", eh(names=0)), ("no section name table", eh(names=7)),
    ("no section name table", both(eh(names=0xffff), sh(0, link=7))), (OK, both(eh(names=0xffff), sh(0, link=STRTAB))),
    # ---- program headers
    ("program header 1: contents outside the file", ph(1, type=6, filesz=FAR)),
    ("program header 1: contents outside the file", ph(1, type=6, off=FAR)), (OK, ph(1, type=6, off=FAR, filesz=0)), (OK, ph(1, type=0, off=FAR)),
    ("program header 0: impossible size", ph(0, memsz=8)),
    ("program header 0: its address is outside user space", ph(0, vaddr=1 << 60)),
    ("program header 0: its address is outside user space", ph(0, memsz=2**64 - 1)),
    ("program header 0: offset and address are not congruent modulo the page size", ph(0, vaddr=8)),
    ("program header 1: overlaps the previous one or is out of order", ph(1, type=1, off=0, vaddr=0, filesz=64, memsz=64)),
    (OK, ph(1, type=1, off=0, vaddr=0x1000, filesz=64, memsz=64)),
    ("no PT_LOAD program header", ph(0, type=4)),
    # ---- section headers
    ("section 2: contents outside the file", sh(TEXT, size=FAR)), ("section 3: contents outside the file", sh(SYMTAB, off=FAR)),
    ("section 4: contents outside the file", sh(RELA, off=2**64 - 8)), ("section 0: contents outside the file", sh(0, type=2, off=FAR, size=24)),
    (OK, sh(DATA, size=0, off=FAR)), (OK, sh(DATA, type=8, off=FAR)), (OK, sh(DATA, type=0, off=FAR)),
    ("section 5: impossible size or address", sh(DATA, addr=2**64 - 8)),
    ("section names are not a string table", sh(STRTAB, type=1)), ("section names are not a string table", sh(STRTAB, size=0)),
    ("section names are not a string table", sh(STRTAB, flags=2)), ("section names are not a string table", sh(STRTAB, size=len(NAMES) - 1)),
    ("section 2: name outside the string table", sh(TEXT, name=len(NAMES))), (OK, sh(TEXT, name=len(NAMES) - 1)),
    # ---- what is written anew is nothing else
    ("section 2 overlaps the program headers", sh(TEXT, off=64, addr=64, size=112)),
    ("section 5 overlaps the program headers", sh(DATA, off=64, addr=64, size=111)),
    ("section 5 overlaps the program headers", sh(DATA, off=65, addr=65, size=120)), (OK, sh(DATA, off=64, addr=64, size=112)),
    ("section 5 overlaps the section headers", lambda f: sh(DATA, off=f.shoff, addr=f.shoff, size=8)(f)),
    (OK, lambda f: sh(DATA, off=f.shoff, flags=0, addr=0, size=8)(f)),
    ("section 2: its code overlaps the ELF header", sh(TEXT, off=56, addr=56, size=8)),
    (OK, sh(DATA, off=0, addr=0, size=16)), (OK, sh(DATA, type=8, off=70)),
    ("the entry point is inside the headers", eh(entry=63)), ("the entry point is inside the headers", eh(entry=175)),
    (OK, eh(entry=176)), (OK, eh(entry=0x9000)), (OK, both(eh(entry=0x3001), ph(1, type=6, off=0, vaddr=0x3000))),
    (OK, both(eh(entry=0x1046), ph(1, type=1, off=0, vaddr=0x1000, filesz=64, memsz=64))),
    # ---- and what is behind all that
    (OK, lambda f: f.sh.append(dict.fromkeys(SHDR, 0)) or f.eh.update(shnum=8)),
    ("section 5 lies above all segments", sh(DATA, type=8, addr=0x1040)), (OK, sh(DATA, type=8, addr=0x1040, flags=0x403)),
    (OK, sh(DATA, type=8, addr=0x1040, size=0)), (OK, sh(DATA, type=8, addr=0x1040, flags=1)),  # .tbss, nothing, not in memory
    ("no addresses left above the last segment", ph(0, vaddr=0x7fffffffe000, memsz=0x1000)),
]


@pytest.mark.parametrize("number", range(len(CASES)))
def test_a_file(tool, tmp_path, number):  # noqa: F811
    want, edit = CASES[number]
    small, path = Small(), tmp_path / "small"
    edit(small)
    path.write_bytes(small.bytes())
    p = run([tool, "add", path, tmp_path / "out", ".etch.a:100"], ok=1 if want else 0)
    assert p.stderr == (f"{path}: {want}\n" if want else "")
    assert (tmp_path / "out").exists() == (not want)


def test_data_behind(tool, tmp_path):  # noqa: F811
    path, data = tmp_path / "small", Small().bytes()
    path.write_bytes(data + bytes(5))
    run([tool, "add", path, tmp_path / "out", ".etch.a:100"])
    path.write_bytes(data + bytes(5) + b"x")
    p = run([tool, "add", path, tmp_path / "out", ".etch.a:100"], ok=1)
    assert p.stderr == f"{path}: data after the last section (at offset {len(data) + 5:#x}) that no header describes\n"


NOT_OURS = "section .etch.segment is not the start of a segment of its own"
OURS = [ # of the section's header, of the program header, of the note: field, how much more
    (OK, []), (NOT_OURS, [("sh", "addr", 4096)]), (NOT_OURS, [("sh", "off", -8)]), (NOT_OURS, [("sh", "size", -4)]),
    (NOT_OURS, [("ph", "flags", 1)]), (NOT_OURS, [("ph", "memsz", 8)]), (NOT_OURS, [("ph", "type", 5)]),
    (NOT_OURS, [("note", 24, -190)]), (NOT_OURS, [("note", 24, 1 << 20)]),
    ("the etch segment is damaged or from another version of etch", [("note", 20, 1)]),
    ("the etch segment is damaged or from another version of etch", [("note", 0, 1)]),
    (OK, [("sh", "type", 6)]),  # then it is none of ours, but in the way of nothing
]


@pytest.mark.parametrize("number", range(len(OURS)))
def test_a_segment_of_an_earlier_run(tool, tmp_path, number):  # noqa: F811
    want, edits = OURS[number]
    path, out = tmp_path / "small", tmp_path / "out"
    path.write_bytes(Small().bytes())
    run([tool, "add", path, out, ".etch.a:100"])
    data, elf = out.read_bytes(), Elf(out)
    s = elf.section(".etch.segment")
    i, k = elf.sh.index(s), next(i for i, p in enumerate(elf.ph) if p["type"] == 1 and p["vaddr"] == s["addr"])
    new = bytearray(data)
    for what, field, more in edits:
        fmt, at = {"sh": lambda: ("<Q" if field not in ("name", "type", "link", "info") else "<I",
                                  elf.shoff + 64 * i + (0, 4, 8, 16, 24, 32, 40, 44, 48, 56)[SHDR.index(field)]),
                   "ph": lambda: ("<I" if field in ("type", "flags") else "<Q", elf.phoff + 56 * k + (0, 4, 8, 16, 24, 32, 40, 48)[PHDR.index(field)]),
                   "note": lambda: ("<I", s["off"] + field)}[what]()
        old, = struct.unpack_from(fmt, new, at)
        struct.pack_into(fmt, new, at, (old + more) % (1 << 8 * struct.calcsize(fmt)))
    path.write_bytes(new)
    p = run([tool, "find", path], ok=1 if want else 0)
    assert p.stderr == (f"{path}: {want}\n" if want else "")
    assert not edits or want or p.stdout == "none\n"
