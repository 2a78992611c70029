# SPDX-License-Identifier: MIT
"""Damaged ELF files, and what must hold of each: etch refuses it in one line and leaves it alone, or accepts it,
and then rewriting twice equals once and undo gives back what was there. Used by test_twice.py and runnable:

    twice.py ETCH COUNT [SEED] FILE...

The damage is to structure: section headers, symbols, relocations of .eh_frame and the LSDAs, program headers, what an
earlier run of etch left. scripts/fuzz.py and mutate.py change bytes and judge crashes."""
import random
import shutil
import struct
import subprocess
import sys

from mutate import keep, work_directory

SHT = [0, 1, 2, 3, 4, 6, 7, 8, 9, 11, 14, 17, 18, 0x6fff4c03, 0x70000001]
SHDR = {"name": (0, 4), "type": (4, 4), "flags": (8, 8), "addr": (16, 8), "offset": (24, 8), "size": (32, 8), "link": (40, 4),
        "info": (44, 4), "align": (48, 8), "entsize": (56, 8)}
PHDR = {"type": (0, 4), "flags": (4, 4), "offset": (8, 8), "vaddr": (16, 8), "paddr": (24, 8), "filesz": (32, 8), "memsz": (40, 8), "align": (48, 8)}
UNWIND = (".eh_frame", ".gcc_except_table", ".debug_frame")
OURS = (".etch", ".note.etch", ".orc_", ".rodata.etch", "__imv", "__pv_", "__etch", ".rela.orc", ".rela__", ".rela.etch")


class Elf:
    """The headers of a well-formed file, to be damaged in place in `data`."""

    def __init__(self, data):
        self.data = bytearray(data)
        self.phoff, self.shoff = struct.unpack_from("<QQ", data, 32)
        self.phnum, self.shnum, shstr = struct.unpack_from("<H2xHH", data, 56)
        names = self.get(shstr, "offset")
        self.names = []
        for i in range(self.shnum):
            at = names + self.get(i, "name")
            self.names.append(bytes(data[at:data.index(0, at)]).decode())

    def place(self, i, field):
        at, width = SHDR[field]
        return self.shoff + 64 * i + at, width

    def get(self, i, field):
        at, width = self.place(i, field)
        return int.from_bytes(self.data[at:at + width], "little")

    def put(self, at, width, value):
        if at + width <= len(self.data):
            self.data[at:at + width] = (value % (1 << 8 * width)).to_bytes(width, "little")

    def bytes_at(self, i):
        """Where the contents of section i are in the file; empty where they are not in it."""
        start, size = self.get(i, "offset"), self.get(i, "size")
        return range(start, start + (size if self.get(i, "type") not in (0, 8) and start + size <= len(self.data) else 0))


def wild(rng, old, elf):
    """Values that lie: at the ends of ranges, at the start of another section, a little off."""
    other = rng.randrange(elf.shnum)
    return rng.choice([0, 1, old + 1, old - 1, old + 8, old - 8, old * 2, 2**31 - 1, 2**31, 2**32 - 1, 2**47, 2**63, 2**64 - 1, 2**64 - 8,
                       len(elf.data), len(elf.data) - 8, elf.shoff, elf.phoff, 64, elf.get(other, "offset"), elf.get(other, "addr"),
                       elf.get(other, "size"), rng.randrange(1 << 12)])


def section_header(rng, elf):
    i = rng.randrange(elf.shnum)
    named = [k for k in range(elf.shnum) if elf.names[k].startswith(OURS + UNWIND) or elf.names[k].endswith(UNWIND)]
    if named and rng.random() < 0.4:
        i = rng.choice(named)
    field = rng.choice([*SHDR, "type", "size", "offset", "link", "info"])
    value = {"type": lambda: rng.choice(SHT), "link": lambda: rng.choice([0, i, rng.randrange(elf.shnum), elf.shnum, 2**32 - 1]),
             "info": lambda: rng.choice([0, i, rng.randrange(elf.shnum), elf.shnum, 2**32 - 1, rng.randrange(64)]),
             "name": lambda: elf.get(rng.randrange(elf.shnum), "name"), "align": lambda: rng.choice([0, 1, 2, 3, 16, 64, 4096, 1 << 20, 1 << 62]),
             "flags": lambda: elf.get(i, "flags") ^ rng.choice([1, 2, 4, 0x10, 0x20, 0x40, 0x80, 0x200, 0x400, 0x800, 1 << 31]),
             "entsize": lambda: rng.choice([0, 1, 8, 16, 24, 2**64 - 1])}.get(field, lambda: wild(rng, elf.get(i, field), elf))()
    elf.put(*elf.place(i, field), value)
    return f"section {i} ({elf.names[i]}): {field} = {value:#x}"


def section_copied(rng, elf):
    a, b = rng.randrange(elf.shnum), rng.randrange(elf.shnum)
    at, to = elf.shoff + 64 * a, elf.shoff + 64 * b
    old = bytes(elf.data[to:to + 64])
    elf.data[to:to + 64] = elf.data[at:at + 64]
    if rng.random() < 0.5:
        elf.data[at:at + 64] = old
    return f"header of section {a} ({elf.names[a]}) over that of {b} ({elf.names[b]})"


def relocations(rng, elf):
    tables = [i for i in range(elf.shnum) if elf.get(i, "type") == 4 and len(elf.bytes_at(i)) >= 24]
    mine = [i for i in tables if elf.names[i].endswith(UNWIND) or elf.names[i].startswith(OURS)]
    if not tables:
        return section_header(rng, elf)
    i = rng.choice(mine if mine and rng.random() < 0.8 else tables)
    n, start = elf.get(i, "size") // 24, elf.get(i, "offset")
    target = elf.get(i, "info")
    size = elf.get(target, "size") if target < elf.shnum else 0
    done = []
    for _ in range(rng.choice([1, 1, 2, 5])):
        k, m = rng.randrange(n), rng.randrange(n)
        at, to = start + 24 * k, start + 24 * m
        offset, info, addend = struct.unpack_from("<QQq", elf.data, at)
        what = rng.choice(["offset", "offset", "symbol", "symbol", "type", "addend", "copy", "swap", "shuffle", "none"])
        if what == "offset":
            offset = rng.choice([size, size - 1, size - 3, size + 8, 2**63, 2**64 - 4, 0, offset + 1, offset + 4, struct.unpack_from("<Q", elf.data, to)[0]])
        elif what == "symbol":
            symbol = rng.choice([0, 1, 2**31, 2**32 - 1, info >> 32 ^ 1, struct.unpack_from("<I", elf.data, to + 12)[0], rng.randrange(64)])
            info = info & 0xffffffff | symbol << 32
        elif what == "type":
            info = info & ~0xffffffff | rng.choice([0, 1, 2, 4, 9, 10, 11, 24, 41, 42, 255, 2**32 - 1])
        elif what == "addend":
            addend = rng.choice([0, -1, 1, addend + 1, addend - 4, 2**31, -2**31, 2**63 - 1, -2**63, rng.randrange(1 << 12)])
        elif what == "copy":
            elf.data[to:to + 24] = elf.data[at:at + 24]
        elif what == "swap":
            elf.data[to:to + 24], elf.data[at:at + 24] = bytes(elf.data[at:at + 24]), bytes(elf.data[to:to + 24])
        elif what == "shuffle":
            order = rng.sample(range(n), n)
            elf.data[start:start + 24 * n] = b"".join(bytes(elf.data[start + 24 * k:start + 24 * k + 24]) for k in order)
        if what in ("offset", "symbol", "type", "addend"):
            struct.pack_into("<QQq", elf.data, at, offset % 2**64, info % 2**64, addend)
        done.append(f"{what} {k}")
    return f"relocations {elf.names[i]}: " + ", ".join(done)


def symbols(rng, elf):
    tables = [i for i in range(elf.shnum) if elf.get(i, "type") in (2, 11) and len(elf.bytes_at(i)) >= 48]
    if not tables:
        return section_header(rng, elf)
    i = rng.choice(tables)
    k = rng.randrange(elf.get(i, "size") // 24)
    at = elf.get(i, "offset") + 24 * k
    field, where, width = rng.choice([("name", 0, 4), ("info", 4, 1), ("other", 5, 1), ("section", 6, 2), ("value", 8, 8), ("size", 16, 8)])
    old = int.from_bytes(elf.data[at + where:at + where + width], "little")
    value = {"section": lambda: rng.choice([0, rng.randrange(elf.shnum), elf.shnum, 0xfff1, 0xfff2, 0xffff]),
             "info": lambda: rng.choice([0, 1, 2, 3, 4, 6, 0x10, 0x12, 0x20, 0x22, 0xa2])}.get(field, lambda: wild(rng, old, elf))()
    elf.put(at + where, width, value)
    return f"symbol {k} of {elf.names[i]}: {field} = {value:#x}"


def program_header(rng, elf):
    if not elf.phnum:
        return section_header(rng, elf)
    i = rng.randrange(elf.phnum)
    field = rng.choice(list(PHDR))
    at, width = PHDR[field]
    at += elf.phoff + 56 * i
    old = int.from_bytes(elf.data[at:at + width], "little")
    value = {"type": lambda: rng.choice([0, 1, 2, 3, 4, 6, 7, 0x6474e550, 0x6474e551, 0x6474e552, 0x6474e553]),
             "flags": lambda: old ^ rng.choice([1, 2, 4])}.get(field, lambda: wild(rng, old, elf))()
    elf.put(at, width, value)
    return f"program header {i}: {field} = {value:#x}"


def elf_header(rng, elf):
    field, at, width = rng.choice([("entry", 24, 8), ("phoff", 32, 8), ("shoff", 40, 8), ("flags", 48, 4), ("phnum", 56, 2), ("shnum", 60, 2), ("shstrndx", 62, 2)])
    old = int.from_bytes(elf.data[at:at + width], "little")
    value = rng.choice([old + 1, old - 1, 0, wild(rng, old, elf)])
    elf.put(at, width, value)
    return f"ELF header: {field} = {value:#x}"


def contents(rng, elf):
    """Bytes of what etch wrote, of the frame tables and of the LSDAs."""
    mine = [i for i in range(elf.shnum) if elf.names[i].startswith(OURS + UNWIND) and len(elf.bytes_at(i))]
    if not mine:
        return section_header(rng, elf)
    i = rng.choice(mine)
    where = elf.bytes_at(i)
    done = []
    for _ in range(rng.choice([1, 1, 2, 4])):
        at = where.start + rng.choice([rng.randrange(min(len(where), 128)), rng.randrange(len(where))])
        width = rng.choice([1, 1, 2, 4, 8])
        elf.put(at, width, rng.choice([0, 2**64 - 1, rng.randrange(256), elf.data[min(at, len(elf.data) - 1)] ^ 1 << rng.randrange(8), 2**31]))
        done.append(f"{at - where.start:#x}")
    return f"bytes of {elf.names[i]} at " + " ".join(done)


def tail(rng, elf):
    what = rng.choice(["cut", "zeros", "data", "record twice"])
    if what == "cut":
        del elf.data[-rng.choice([1, 8, 64, 128, 1000]):]
    elif what == "zeros":
        elf.data += bytes(rng.choice([1, 8, 4096]))
    elif what == "data":
        elf.data += rng.choice([b"x", bytes(8) + b"payload", b"\x7fELF" + bytes(64)])
    else:
        elf.data += elf.data[-rng.choice([64, 128, 512]):]
    return f"tail: {what}"


KINDS = [section_header] * 4 + [section_copied] + [relocations] * 4 + [symbols] * 2 + [program_header, elf_header, contents, contents, contents, tail]


def damage(data, seed):
    """(what was done, the damaged file)"""
    rng, elf = random.Random(seed), Elf(data)
    done = [rng.choice(KINDS)(rng, elf) for _ in range(rng.choice([1, 1, 1, 2, 3]))]
    return "; ".join(done), bytes(elf.data)


def call(etch, args, paths, env, timeout):
    """(exit status or "hang", {path: its lines of standard error})"""
    lines = {p: [] for p in paths}
    try:
        p = subprocess.run([etch, *args, *paths], stdin=subprocess.DEVNULL, capture_output=True, env=env, timeout=timeout)
    except subprocess.TimeoutExpired:
        return "hang", lines
    for line in p.stderr.decode(errors="replace").splitlines():
        name = line.removeprefix("etch: ").partition(": ")[0]
        if name in lines and not line.startswith((f"etch: {name}: note: ", f"etch: {name}: ETCH-")) and not line.startswith(f"{name}: "):
            lines[name].append(line)
    return p.returncode, lines


def judge(etch, mutants, options=(), env=None, timeout=300):
    """What does not hold of (name, what, data): [(what, how, data)], and how many were accepted."""
    directory, problems, accepted = work_directory(), [], 0
    try:
        paths, was = [], {}
        for i, (name, what, data) in enumerate(mutants):
            path = str(directory / f"{i:05}-{name}")
            with open(path, "wb") as f:
                f.write(data)
            paths.append(path)
            was[path] = what, data

        def read(path):
            with open(path, "rb") as f:
                return f.read()

        def bad(path, how):
            problems.append((*was[path][:1], how, was[path][1]))

        # What undo has to give back is what it gives back now, where the record survived the damage.
        call(etch, ["rewrite", "--undo"], paths, env, timeout)
        older = {p: read(p) for p in paths}
        for p in paths:
            with open(p, "wb") as f:
                f.write(was[p][1])
        status, said = call(etch, ["rewrite", *options], paths, env, timeout)
        if status not in (0, 1, 2):
            return [("batch", f"exit {status}", b"")], 0
        once, good = {}, []
        for p in paths:
            once[p] = read(p)
            if said[p]:
                if len(said[p]) != 1:
                    bad(p, f"not one line: {said[p][:3]}")
                if once[p] != was[p][1]:
                    bad(p, f"refused, but changed: {said[p][0]}")
            else:
                good.append(p)
        accepted = len(good)
        if good:
            _, said = call(etch, ["rewrite", *options], good, env, timeout)
        for p in good:
            if said[p]:
                bad(p, f"accepted once, refused then: {said[p][0].partition(': ')[2].partition(': ')[2]}")
            elif read(p) != once[p]:
                bad(p, f"twice is not once: {len(was[p][1])}, {len(once[p])}, {len(read(p))} bytes")
        back = [p for p in good if once[p] != was[p][1]]
        for p in back:
            with open(p, "wb") as f:
                f.write(once[p])
        if back and "--no-undo" not in options:
            _, said = call(etch, ["rewrite", "--undo"], back, env, timeout)
            for p in back:
                if said[p]:
                    bad(p, f"cannot be undone: {said[p][0].partition(': ')[2].partition(': ')[2]}")
                elif read(p) not in (was[p][1], older[p]):
                    bad(p, "undone to something else")
        left = {f.name for f in directory.iterdir()} - {p.rpartition("/")[2] for p in paths}
        if left:
            problems.append(("batch", f"files left behind: {sorted(left)[:3]}", b""))
    finally:
        shutil.rmtree(directory)
    return problems, accepted


def main(etch, count, seed, *files):
    count, seed, total = int(count), int(seed), 0
    for path in files:
        with open(path, "rb") as f:
            data = f.read()
        for start in range(seed, seed + count, 100):
            batch = [(path.rpartition("/")[2], *damage(data, s)) for s in range(start, min(start + 100, seed + count))]
            problems, accepted = judge(etch, batch)
            total += len(problems)
            for what, how, mutant in problems:
                print(f"{path}: {how}\n    {what} {keep(mutant)}", flush=True)
    print(f"{len(files) * count} damaged files, {total} problems")
    return 1 if total else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
