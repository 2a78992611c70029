# SPDX-License-Identifier: MIT
"""The scratch root: which ELF files a program loads, and those files, rewritten."""

import os
import re
import subprocess
from pathlib import Path

HERE = Path(__file__).resolve().parent
MACHINE_X86_64 = 62

# What strace says of a program started, and of a file mapped to be executed.
EXECVE = re.compile(r'execve\("((?:[^"\\]|\\.)*)".*= 0$')
MMAP = re.compile(r"mmap\(.*PROT_EXEC.*, \d+<(/[^>]*)>")


def is_elf(path):
    """An ELF file for x86-64, program or library."""
    try:
        with open(path, "rb") as f:
            head = f.read(20)
    except OSError:
        return False
    return (head[:6] == b"\x7fELF\x02\x01" and len(head) == 20 and head[16] in (2, 3)
            and int.from_bytes(head[18:20], "little") == MACHINE_X86_64)


def interpreter(path):
    """What the kernel starts beside a program: PT_INTERP, read from the file; for a script
    the program of its first line. Or None."""
    with open(path, "rb") as f:
        head = f.read(4096)
    if head[:2] == b"#!":
        words = head.split(b"\n")[0][2:].split()
        return os.fsdecode(words[0]) if words else None
    at = int.from_bytes(head[32:40], "little")
    for n in range(int.from_bytes(head[56:58], "little")):
        entry = head[at + 56 * n:at + 56 * (n + 1)]
        if entry[:4] == b"\x03\0\0\0":
            offset, size = (int.from_bytes(entry[i:i + 8], "little") for i in (8, 32))
            with open(path, "rb") as f:
                f.seek(offset)
                return os.fsdecode(f.read(size).rstrip(b"\0"))
    return None


def _with_interpreter(path, found):
    while path and os.path.exists(path) and os.path.realpath(path) not in found:
        path = os.path.realpath(path)
        found.add(path)
        path = interpreter(path)


def traced(logs, work):
    """The files that a run under strace has executed or mapped to be executed."""
    found = set()
    for log in logs:
        for line in Path(log).read_text(errors="replace").splitlines():
            if m := EXECVE.search(line):
                path = m[1].encode().decode("unicode_escape")
                if path.startswith("/"):
                    _with_interpreter(path, found)
            elif m := MMAP.search(line):
                found.add(os.path.realpath(m[1]))
    return sorted(p for p in found if is_elf(p) and not p.startswith(f"{work}/"))


def linked(paths):
    """... those that programs and libraries name, by ldd: where strace cannot be used."""
    found = set()
    for path in paths:
        _with_interpreter(path, found)
        text = subprocess.run(["ldd", path], capture_output=True, text=True).stdout
        found.update(os.path.realpath(p) for p in re.findall(r"(?:=> |^\s+)(/\S+)", text, re.M))
    return sorted(p for p in found if is_elf(p))


class Root:
    """A directory with rewritten files under their own names. What is there and no older
    than the original and than etch is taken as it is."""

    def __init__(self, path, etch):
        self.path = Path(path).resolve()
        self.files = self.path / "files"
        self.etch = Path(etch).resolve()
        self.refused = {}       # path -> what etch said
        self.files.mkdir(parents=True, exist_ok=True)

    def _fresh(self, path, copy):
        return copy.exists() and copy.stat().st_mtime >= max(p.stat().st_mtime for p in (Path(path), self.etch))

    def add(self, paths):
        """Rewrites what is not there yet. Returns how many of these files are rewritten."""
        done = 0
        for path in map(str, paths):
            copy = self.files / path.lstrip("/")
            if path not in self.refused and not self._fresh(path, copy):
                self._rewrite(path, copy)
            done += path not in self.refused
        return done

    def _rewrite(self, path, copy):
        copy.parent.mkdir(parents=True, exist_ok=True)
        copy.unlink(missing_ok=True)
        p = subprocess.run([self.etch, "rewrite", "-o", copy, path], capture_output=True, text=True, errors="replace")
        if p.returncode:
            self.refused[path] = p.stderr.strip().splitlines()[-1] if p.stderr.strip() else f"exit {p.returncode}"
            copy.unlink(missing_ok=True)
        else:
            os.utime(copy)
