# SPDX-License-Identifier: MIT
"""Mutants of ELF files, and a judge: used by test_bad_input.py and scripts/fuzz.py.

Half of the mutants change fields whose place and width are known (headers,
relocations, symbols, dynamic entries, etch's own tables), by values that tend to
hurt; the rest flip bytes anywhere, cut the file, or swap and clear pieces."""
import hashlib
import os
import random
import shutil
import struct
import subprocess
import tempfile
from pathlib import Path

EHDR = [(16, 2), (18, 2), (20, 4), (24, 8), (32, 8), (40, 8), (48, 4), (52, 2), (54, 2), (56, 2), (58, 2), (60, 2), (62, 2)]
SHDR = [(0, 4), (4, 4), (8, 8), (16, 8), (24, 8), (32, 8), (40, 4), (44, 4), (48, 8), (56, 8)]
PHDR = [(0, 4), (4, 4), (8, 8), (16, 8), (24, 8), (32, 8), (40, 8), (48, 8)]
SYM = [(0, 4), (4, 1), (5, 1), (6, 2), (8, 8), (16, 8)]
RELA = [(0, 8), (8, 4), (12, 4), (16, 8)]
DYN = [(0, 8), (8, 8)]
IMV = [(0, 4), (4, 4), (8, 1), (9, 1), (10, 1), (11, 1)]
OBJ = [(0, 4), (4, 4), (8, 4), (12, 1), (13, 1), (14, 2)]
NATIVE = [(0, 4), (4, 4), (8, 1), (9, 1), (10, 2)]
MOD = [(0, 4), (4, 2), (6, 2), (8, 4), (12, 4), (16, 8), (24, 8), (32, 8), (40, 8), (48, 8), (56, 8)]
WORD = [(0, 4)]

SHT_SYMTAB, SHT_RELA, SHT_DYNAMIC, SHT_DYNSYM, SHT_GROUP = 2, 4, 6, 11, 17
BY_TYPE = {SHT_SYMTAB: (SYM, 24), SHT_DYNSYM: (SYM, 24), SHT_RELA: (RELA, 24), SHT_DYNAMIC: (DYN, 16),
           SHT_GROUP: (WORD, 4)}
ORC = [(0, 2), (2, 2), (4, 2)]
EX = [(0, 4), (4, 4), (8, 1), (9, 1), (10, 2)]
BY_NAME = {b"__imv": (IMV, 12), b"__pv_sites": (IMV, 12), b"__pv_native": (NATIVE, 12), b"__ex_table": (EX, 12),
           b"__etch_obj": (OBJ, 16), b"__etch_mod": (MOD, 64), b".etch.unwind": (WORD, 4),
           b".orc_unwind_ip": (WORD, 4), b".orc_unwind": (ORC, 6), b".orc_lookup": (WORD, 4), b".eh_frame": (WORD, 4)}


def fields_find(data):
    """{group: [(offset, width)]} of every known field of a well-formed ELF64 file."""
    groups = {"ehdr": [(0, 4), (4, 1), (5, 1), (6, 1), *EHDR]}
    phoff, shoff = struct.unpack_from("<QQ", data, 32)
    phnum, shnum, shstrndx = struct.unpack_from("<H2xHH", data, 56)
    groups["phdr"] = [(phoff + 56 * i + o, w) for i in range(phnum) for o, w in PHDR]
    groups["shdr"] = [(shoff + 64 * i + o, w) for i in range(shnum) for o, w in SHDR]
    strings = struct.unpack_from("<Q", data, shoff + 64 * shstrndx + 24)[0]
    for i in range(shnum):
        name, kind = struct.unpack_from("<II", data, shoff + 64 * i)
        offset, size = struct.unpack_from("<QQ", data, shoff + 64 * i + 24)
        start = strings + name
        text = bytes(data[start:data.index(0, start)])
        layout = BY_NAME.get(text) or BY_TYPE.get(kind)
        if layout and kind != 8:
            fields, entry = layout
            group = groups.setdefault(text.decode() or str(i), [])
            group += [(offset + k + o, w) for k in range(0, size - entry + 1, entry) for o, w in fields]
    return {k: v for k, v in groups.items() if v}


def hurt(rng, old, width, size):
    """A value for a field of `width` bytes that holds `old`."""
    top = 1 << (8 * width)
    return rng.choice([
        0, 1, top - 1, top // 2, top // 2 - 1, old + 1, old - 1, old + 8, old ^ 1 << rng.randrange(8 * width),
        size, size - 1, size + 1, old * 2, old + 0x1000, top - size, rng.randrange(top), rng.randrange(256), 0xffffff00,
    ]) % top


class Mutator:
    """only: names of groups; then nothing but their fields is changed."""

    def __init__(self, data, seed, only=None):
        self.data, self.rng, self.only = bytes(data), random.Random(seed), only
        self.groups = fields_find(data)
        if only:
            self.groups = {k: v for k, v in self.groups.items() if k in only}
        self.names = sorted(self.groups)

    def make(self):
        """(what was done, bytes)"""
        rng, data = self.rng, bytearray(self.data)
        kind = 0 if self.only else rng.random()
        if kind < 0.5:
            done = []
            for _ in range(rng.choice([1, 1, 1, 2, 3])):
                group = rng.choice(self.names)
                offset, width = rng.choice(self.groups[group])
                old = int.from_bytes(data[offset:offset + width], "little")
                new = hurt(rng, old, width, len(data))
                data[offset:offset + width] = new.to_bytes(width, "little")
                done.append(f"{group} field at {offset:#x}: {old:#x} -> {new:#x}")
            return "; ".join(done), bytes(data)
        if kind < 0.8:
            done = []
            for _ in range(rng.choice([1, 1, 2, 4, 16])):
                offset = rng.randrange(len(data))
                data[offset] ^= 1 << rng.randrange(8) if rng.random() < 0.5 else rng.randrange(1, 256)
                done.append(f"{offset:#x}")
            return "flip at " + " ".join(done), bytes(data)
        if kind < 0.92:
            n = rng.choice([rng.randrange(len(data)), rng.randrange(128), len(data) - 1 - rng.randrange(64)])
            return f"cut to {n}", bytes(data[:n])
        a, b, n = rng.randrange(len(data)), rng.randrange(len(data)), rng.randrange(1, 64)
        if rng.random() < 0.5:
            piece = bytes(data[a:a + n])
            data[b:b + len(piece)] = piece
            return f"{n} bytes at {a:#x} copied to {b:#x}", bytes(data[:len(self.data)])
        data[a:a + n] = bytes(len(data[a:a + n]))
        return f"{n} bytes at {a:#x} cleared", bytes(data)


def work_directory():
    """In memory where there is such a place: the tool syncs each file it writes."""
    base = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None
    return Path(tempfile.mkdtemp(prefix="etch-mutants-", dir=base))


def keep(data):
    """The path of a mutant that is kept, where that is wanted: in directory ETCH_FUZZ_KEEP."""
    if not os.environ.get("ETCH_FUZZ_KEEP"):
        return ""
    path = Path(os.environ["ETCH_FUZZ_KEEP"]) / f"mutant-{hashlib.sha256(data).hexdigest()[:12]}"
    path.write_bytes(data)
    path.chmod(0o755)
    return path


class Judge:
    """Runs the tool on batches of mutants. What must hold of each of them: exit 0
    or 2 (1 for findings), no signal, no sanitizer report, no hang; a file that is
    refused is named in one line and left as it was."""

    COMMANDS = (["rewrite", "-v"], ["inspect", "sites", "--format", "tsv"], ["inspect", "tables"], ["inspect", "summary"],
                ["inspect", "orc", "--format", "tsv"], ["inspect", "code", "main"],
                ["check", "--format", "json"])

    def __init__(self, etch, env, timeout=120):
        self.etch, self.env, self.timeout = etch, env, timeout
        self.refused = self.accepted = 0
        self.problems = []

    def run(self, command, files):
        """(exit status or a word, standard error, standard output)"""
        try:
            p = subprocess.run([self.etch, *command, *files], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                               stderr=subprocess.PIPE, env=self.env, timeout=self.timeout)
        except subprocess.TimeoutExpired:
            return "hang", "", ""
        return p.returncode, p.stderr.decode(errors="replace"), p.stdout.decode(errors="replace")

    def batch(self, mutator, count, name, commands=COMMANDS):
        """Makes count mutants of a file called name and judges them."""
        directory = work_directory()
        try:
            mutants = []
            for i in range(count):
                what, data = mutator.make()
                path = directory / f"{i:05}-{name}"
                path.write_bytes(data)
                path.chmod(0o755)
                mutants.append((path, what, data))
            for command in commands:
                self.command(command, mutants)
        finally:
            shutil.rmtree(directory)

    def command(self, command, mutants):
        status, errors, output = self.run(command, [path for path, _, _ in mutants])
        # Of several files each is for a process of its own, whose end is an error of the file.
        if status not in (0, 1, 2) or "while processing it" in errors:
            self.single_out(command, mutants, status, errors)
            return
        if command[0] != "rewrite":
            return
        refused = 0
        for path, what, data in mutants:
            # -v says a line of each file that was done; each other one has its error.
            done = [line for line in output.splitlines() if line.startswith(f"{path}: ")]
            lines = [line for line in errors.splitlines() if line.startswith(f"etch: {path}: ")]
            if done:
                self.accepted += 1
                continue
            refused += 1
            if len(lines) != 1:
                self.problem(command, what, "neither done nor refused in one line", lines[:9], data)
            if path.read_bytes() != data:
                self.problem(command, what, "refused, but changed", lines[:9], data)
        self.refused += refused
        if (status == 2) != (refused > 0):
            self.problem(command, "batch", f"exit {status}, but {refused} files refused", [], *(data for _, _, data in mutants))
        left = {p.name for p in mutants[0][0].parent.iterdir()} - {path.name for path, _, _ in mutants}
        if left:
            self.problem(command, "batch", f"files left behind: {sorted(left)[:3]}", [], *(data for _, _, data in mutants))

    def single_out(self, command, mutants, status, errors):
        """A batch went wrong: which of its files is it?"""
        before = len(self.problems)
        for path, what, data in mutants:
            path.write_bytes(data)
            one, text, _ = self.run(command, [path])
            if one not in (0, 1, 2):
                self.problem(command, what, one, text.splitlines()[:12], data)
                if len(self.problems) - before >= 3:
                    return
        if len(self.problems) == before:
            self.problem(command, "only as a batch", status, errors.splitlines()[-30:], *(data for _, _, data in mutants))

    def problem(self, command, what, how, lines, *mutants):
        kept = " ".join(str(keep(data)) for data in mutants)
        self.problems.append(f"etch {' '.join(command)}: {how}: {what} {kept}\n" + "\n".join(f"    {x}" for x in lines))


TABLES = ("__imv", "__pv_sites", "__pv_native", "__etch_obj", "__etch_mod")


def library_problems(program, seed, count, env):
    """What goes wrong when `count` mutants of a program (tests/data/pv/stress_tables.c), with
    damage to its tables alone, run: anything but an exit status of 0 or 1."""
    mutator = Mutator(Path(program).read_bytes(), seed, TABLES)
    directory, problems, refused = work_directory(), [], 0
    try:
        path = directory / "mutant"
        for _ in range(count):
            what, data = mutator.make()
            path.unlink(missing_ok=True)
            path.write_bytes(data)
            path.chmod(0o755)
            try:
                p = subprocess.run([path], stdin=subprocess.DEVNULL, capture_output=True, env=env, timeout=60)
                status, said = p.returncode, (p.stdout + p.stderr).decode(errors="replace")
            except subprocess.TimeoutExpired:
                status, said = "hang", ""
            refused += status == 1
            if status not in (0, 1):
                problems.append(f"{program}: {what}: exit {status} {keep(data)}\n{said[-3000:]}")
    finally:
        shutil.rmtree(directory)
    return refused, problems
