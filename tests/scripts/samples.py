# SPDX-License-Identifier: MIT
"""Builds the sampler (sampler.c), and reads the files that it leaves behind."""
import collections
import os
import struct
import subprocess
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PROGRAMS = ROOT / "tests" / "data" / "sampler"

END, NO_RULE, LIMIT = 1, -2, -6
STATUS = {1: "end", -1: "no table", -2: "no rule", -3: "register", -4: "memory", -5: "no progress", -6: "limit", -7: "argument"}
DIFFER = {101: "libunwind short", 102: "libunwind goes on", 103: "libunwind past the end", 104: "callers differ"}
IN = ["module", "jit", "file", "nothing"]
JIT = ("jit", "file")   # file: V8 maps its interpreter, a part of node, a second time beside its code

# struct report and what is in it.
_MODULES, _PLACES, _SHOWN = 512, 1024, 40
_HEAD = struct.Struct("<11Q248s2Q")
_MODULE = struct.Struct("<3Q2I232s")
_PLACE = struct.Struct(f"<QiIQ4IiI2Q{_SHOWN}Q{_SHOWN}Q")
_MAGIC = 0x31656c706d617365

Place = collections.namedtuple("Place", "kind where module offset count frames at first their_frames their_status on to_end ours theirs")


def compile_to(build, path):
    """sampler.so for libetch of this build directory; returns its path."""
    subprocess.run(["gcc", "-O2", "-g", "-std=gnu11", "-D_GNU_SOURCE", "-Wall", "-Wextra", "-Werror", "-shared", "-fPIC",
                    "-I", str(ROOT / "lib" / "include"), "-o", str(path), *map(str, sorted(PROGRAMS.glob("sampler*.c"))),
                    "-Wl,--exclude-libs,ALL", str(Path(build) / "libetch.a"), "-pthread"], check=True)
    return Path(path)


def environment(directory, library, *, compare=16, prepare=True, only=None):
    """What a program's environment needs to be sampled into `directory`, which any user
    may write to. prepare: modules without a table get one from .eh_frame at start (the
    vdso always needs it). only: "signals" without walks, or "nothing" but the library."""
    os.makedirs(directory, exist_ok=True)
    os.chmod(directory, 0o1777)
    env = {"LD_PRELOAD": str(library), "SAMPLER_DIR": str(directory), "SAMPLER_COMPARE": str(compare)}
    if prepare:
        env["SAMPLER_PREPARE"] = "1"
    if only:
        env["SAMPLER_ONLY"] = only
    return env


class Report:
    """One process."""

    def __init__(self, data):
        (magic, self.pid, size, self.finished, self.samples, self.idle, self.lost, self.frames, self.compared,
         self.full, self.deepest, program, modules, _) = _HEAD.unpack_from(data)
        if magic != _MAGIC or size != len(data) or size != _HEAD.size + _MODULES * _MODULE.size + _PLACES * _PLACE.size:
            raise ValueError("not a report of this sampler")
        self.program = _text(program)
        self.modules = []   # (name, has a table of its own)
        for i in range(min(modules, _MODULES)):
            _, _, _, own, _, name = _MODULE.unpack_from(data, _HEAD.size + i * _MODULE.size)
            self.modules.append((_text(name), bool(own)))
        self.places = []
        at = _HEAD.size + _MODULES * _MODULE.size
        for i in range(_PLACES):
            p = _PLACE.unpack_from(data, at + i * _PLACE.size)
            if p[3]:
                self.places.append(self._place(p))

    def _place(self, p):
        address, kind, where, count, frames, about, first, their_frames, their_status, _, on, to_end = p[:12]
        ours = [self._frame(f) for f in p[12:12 + min(_SHOWN, max(frames - first, 0))]]
        theirs = [self._frame(f) for f in p[12 + _SHOWN:12 + _SHOWN + min(_SHOWN, max(their_frames - first, 0))]]
        module, offset = ours[about - first] if about - first < len(ours) else (None, address)
        return Place(kind, IN[where], module, offset, count, frames, about, first, their_frames, their_status, on, to_end, ours, theirs)

    def _frame(self, f):
        """(name of the module or None, offset or address)"""
        n = f >> 48
        return (self.modules[n - 1][0] if n and n <= len(self.modules) else None, f & (1 << 48) - 1)


def _text(b):
    return b.split(b"\0")[0].decode(errors="replace")


def read(directory):
    """The reports of all processes."""
    out = []
    for path in sorted(Path(directory).iterdir()):
        data = path.read_bytes()
        if data[:8] != bytes(8):   # a process that was killed while it began
            out.append(Report(data))
    return out


class Sum:
    """Of many reports: what the table shows."""

    def __init__(self, reports):
        self.processes = len(reports)
        self.samples = sum(r.samples for r in reports)
        self.idle = sum(r.idle for r in reports)
        self.lost = sum(r.lost for r in reports)
        self.frames = sum(r.frames for r in reports)
        self.compared = sum(r.compared for r in reports)
        self.full = sum(r.full for r in reports)
        self.deepest = max((r.deepest for r in reports), default=0)
        self.unfinished = [r for r in reports if not r.finished]
        self.without_table = sorted({n for r in reports for n, own in r.modules if not own})
        self.places = {}       # (kind, where, module, offset) -> [count, an example]
        self.theirs = {}       # of walks that stop there: [libunwind went on, to an end]
        for r in reports:
            for p in r.places:
                where = (p.kind, p.where, p.module, p.offset if p.where not in JIT else 0)
                self.places.setdefault(where, [0, p])[0] += p.count
                _add(self.theirs, where, (p.on, p.to_end))

    def count(self, test):
        return sum(n for where, (n, _) in self.places.items() if test(*where))

    @property
    def complete(self):
        return self.count(lambda kind, *_: kind == END)

    @property
    def jit(self):
        """Walks that ended at a frame of code that the dynamic linker did not load."""
        return self.count(lambda kind, where, *_: kind < 0 and where in JIT)

    @property
    def incomplete(self):
        return self.count(lambda kind, where, *_: kind < 0 and where not in JIT)

    @property
    def deeper(self):
        """... among them, of stacks with more frames than the sampler has space for."""
        return self.count(lambda kind, *_: kind == LIMIT)

    @property
    def different(self):
        """Of those compared: libunwind says something else, not only less."""
        return self.count(lambda kind, *_: kind in (102, 103, 104))

    @property
    def share(self):
        """Complete ones of those that meet no JIT code where they end."""
        n = self.complete + self.incomplete
        return self.complete / n if n else 1.0

    def listed(self, test):
        """Places, the most frequent first: (count, example)"""
        return sorted((v for where, v in self.places.items() if test(*where)), key=lambda v: -v[0])


def _add(to, key, numbers):
    to[key] = [a + b for a, b in zip(to.get(key, (0, 0)), numbers)]


def total(sums):
    """The sum of sums, without its examples."""
    out = Sum([])
    for s in sums:
        for field in ("processes", "samples", "idle", "lost", "frames", "compared", "full"):
            setattr(out, field, getattr(out, field) + getattr(s, field))
        out.deepest = max(out.deepest, s.deepest)
        for where, (n, example) in s.places.items():
            out.places.setdefault(where, [0, example])[0] += n
            _add(out.theirs, where, s.theirs[where])
    return out


class Names:
    """Functions by module and offset, for people."""

    def __init__(self, root="/"):
        import sys
        sys.path.insert(0, str(ROOT / "tests" / "analysis"))
        import systemfiles
        self.symbols, self.root, self.known = systemfiles.Symbols, Path(root), {}

    def at(self, module, offset, call=False):
        if module is None:
            return f"{offset:#x}"
        name = module.rsplit("/", 1)[-1]
        if module not in self.known:
            try:
                self.known[module] = self.symbols(self.root / module.lstrip("/"))
            except Exception:   # the vdso, a file that is gone
                self.known[module] = None
        s = self.known[module]
        if s is None or not s.list:
            return f"{name}+{offset:#x}"
        return f"{name}:{s.at(offset - call)} ({offset:#x})"

    def lines(self, place):
        """An example, as lines: the frame that it is about has an arrow."""
        out = []
        for i in range(max(len(place.ours), len(place.theirs))):
            k = place.first + i
            a = self.at(*place.ours[i], call=k > 0) if i < len(place.ours) else "-"
            b = self.at(*place.theirs[i], call=k > 0) if i < len(place.theirs) else "-"
            same = i < len(place.ours) and i < len(place.theirs) and place.ours[i] == place.theirs[i]
            out.append(f"{'=>' if k == place.at else '  '} #{k:<3} {a}" + ("" if same or not place.theirs else f"   libunwind: {b}"))
        return out
