#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""`etch objtool` beside the kernel's objtool, on objects as they are before either (scripts/kernel_objects.py).

    [ETCH_KERNEL_RELEASE=6.12|7.2] scripts/parity/kernel.py [--etch build/etch] [--limit N] [--only TEXT] [--examples N] [--markdown]

Both tools run with the options of the kernel's build, each on a copy.
The unwind tables are compared byte by byte of text, the lists of sites, the code and its relocations as a whole.
With --linked one object is compared: vmlinux.o, which `ld -r` makes of those that are no part of a module.
Exit status 1 where anything differs.
"""

import argparse
import atexit
import collections
import functools
import os
import shutil
import statistics
import struct
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent
sys.path.insert(0, str(ROOT / "scripts"))
import kernel_objects  # noqa: E402

CLASSES = ("equal", "both none", "etch none", "objtool none", "differ")
OWN_WARNING = "do not fit an ORC entry"  # of etch alone
SITES = (".static_call_sites", ".retpoline_sites", ".return_sites")
ALL_SITES = (*SITES, ".call_sites", ".ibt_endbr_seal", "__mcount_loc")
OLD_REGISTERS = ["none", "prev", "dx", "di", "bp", "sp", "r10", "r13", "(bp)", "(sp)"]
REGISTERS = {"6.1": OLD_REGISTERS, "6.12": OLD_REGISTERS,
             "7.2": ["none", "ax", "dx", "sp", "bp", "di", "r10", "r13", "prev", "(sp)", "(bp)"]}
NONE = b"\0" * 6
# Types of rows from bit 8 on, and the flag behind them.
KINDS = {"6.1": (["call", "regs", "iret", "?"], " end"),
         "6.12": (["none", "end", "call", "regs", "iret", "?", "?", "?"], " signal")}
KINDS["7.2"] = KINDS["6.12"]
# Of a run: CPU time in microseconds, KiB of memory at its most, and of this what no file's pages are.
Used = collections.namedtuple("Used", "cpu memory own")


class Object:
    """Sections, symbols and relocations of an ELF64 object; by the ELF specification, not by etch's reader."""

    def __init__(self, path):
        self.bytes = b = Path(path).read_bytes()
        shoff, = struct.unpack_from("<Q", b, 40)
        size, count, names = struct.unpack_from("<HHH", b, 58)
        self.heads = [struct.unpack_from("<IIQQQQIIQQ", b, shoff + i * size) for i in range(count)]
        strings = self.data(names)
        self.names = [self.string(strings, h[0]) for h in self.heads]
        self.symbols = []
        for i, h in enumerate(self.heads):
            if h[1] == 2:
                texts = self.data(h[6])
                for name, info, _, section, value, length in struct.iter_unpack("<IBBHQQ", self.data(i)):
                    self.symbols.append((self.string(texts, name), info, section, value, length))

    @staticmethod
    def string(table, at):
        return table[at:table.index(b"\0", at)].decode()

    def data(self, i):
        h = self.heads[i]
        return b"" if h[1] == 8 else self.bytes[h[4]:h[4] + h[5]]

    def relocs(self, i):
        """(offset, type, what, offset there) of section i: what is a section's number or a symbol's name."""
        out = []
        for k, h in enumerate(self.heads):
            if h[1] == 4 and h[7] == i:
                for at, info, addend in struct.iter_unpack("<QQq", self.data(k)):
                    name, kind, section, value, _ = self.symbols[info >> 32]
                    local = section and section < 0xff00 and kind >> 4 == 0
                    out.append((at, info & 0xffffffff, section if local else name, addend + (value if local else 0)))
        return out

    def find(self, name):
        return [i for i, n in enumerate(self.names) if n == name]

    def named(self):
        """All symbols that have a name."""
        return sorted(s for s in self.symbols if s[0])

    def text(self):
        """Numbers of the sections with rows."""
        return [i for i, h in enumerate(self.heads) if h[2] & 4 and h[1] == 1 and h[5] and
                self.names[i] not in (".altinstr_replacement", ".altinstr_aux") and not self.names[i].startswith(".discard.")]

    def orc(self):
        """section -> sorted [(offset, entry)]."""
        rows = collections.defaultdict(list)
        for ip, orc in zip(self.find(".orc_unwind_ip"), self.find(".orc_unwind")):
            entries = self.data(orc)
            for at, _, section, off in self.relocs(ip):
                rows[section].append((off, entries[at // 4 * 6:at // 4 * 6 + 6]))
        return {section: sorted(r, key=lambda x: x[0]) for section, r in rows.items()}

    def sites(self, name):
        return sorted((at % 8 if name == ".static_call_sites" else 0, kind, str(what), off) for i in self.find(name)
                      for at, kind, what, off in self.relocs(i))

    def code(self, count):
        """Bytes and relocations of all of the first `count` sections that are loaded and not written at run time."""
        return [(self.names[i], self.data(i), sorted(x for x in self.relocs(i) if x[1])) for i in range(count)
                if self.heads[i][2] & 4]

    def where(self, section, off):
        held = [(s[3], s[0]) for s in self.symbols if s[2] == section and s[1] & 15 == 2 and s[3] <= off < s[3] + s[4]]
        start, name = max(held, default=(0, self.names[section]))
        return f"{name}+{off - start:#x}"


def entry_text(entry, release="6.1"):
    """struct orc_entry. Since 6.4 each row has a type."""
    sp, bp, bits = struct.unpack("<hhH", entry)
    kinds, flag = KINDS[release]
    registers = REGISTERS[release]
    kind, flagged = kinds[bits >> 8 & len(kinds) - 1], bits >> 8 & len(kinds)
    if not bits & 15:
        return kind if release != "6.1" else "end" if flagged else "none"
    kind += flag if flagged else ""
    rest = "" if not bits >> 4 & 15 else f" bp={registers[bits >> 4 & 15]}{bp:+d}"
    return f"{registers[bits & 15]}{sp:+d}{rest} {kind}"


def pieces(a, b, size):
    """(start, end, row of a, row of b) over [0, size)."""
    points = sorted({0, size, *(x[0] for x in a if x[0] < size), *(x[0] for x in b if x[0] < size)})
    i = k = 0
    mine = theirs = NONE
    for start, end in zip(points, points[1:]):
        while i < len(a) and a[i][0] <= start:
            mine, i = a[i][1], i + 1
        while k < len(b) and b[k][0] <= start:
            theirs, k = b[k][1], k + 1
        yield start, end, mine, theirs


def judge(mine, theirs):
    if mine == theirs:
        return "both none" if mine == NONE else "equal"
    return "etch none" if mine == NONE else "objtool none" if theirs == NONE else "differ"


@functools.lru_cache(None)
def usage():
    """The program that measures others, compiled."""
    directory = tempfile.TemporaryDirectory()
    atexit.register(directory.cleanup)
    out = Path(directory.name, "usage")
    subprocess.run(["cc", "-O2", "-o", out, ROOT / "scripts" / "parity" / "usage.c"], check=True)
    return out


def run(argv, release=""):
    """(exit status, standard error, Used)."""
    with tempfile.NamedTemporaryFile("r") as used:
        p = subprocess.run([str(a) for a in (usage(), used.name, *argv)], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE,
                           text=True, errors="replace", check=False, env=dict(os.environ, KERNELVERSION=release))
        return p.returncode, p.stderr, Used(*map(int, used.read().split()))


def warned(errors, release):
    """The warnings, without the file's name; the order is each one's own. Later objtools warn once of a function: of these their
    names."""
    found = [x.split("objtool: ", 1)[1] for x in errors.splitlines() if "objtool: " in x and OWN_WARNING not in x]
    return sorted(found) if release == "6.1" else sorted({x.split("+")[0] for x in found})


def compare(path, name, etch, objtool, release="6.1"):
    """What one object adds to the report."""
    args = Path(f"{path}.args").read_text().split()[:-1]
    out = {"name": name, "bytes": collections.Counter(), "examples": [], "parts": []}
    with tempfile.TemporaryDirectory() as d:
        a, b = Path(d, "etch.o"), Path(d, "objtool.o")
        shutil.copy(path, a)
        shutil.copy(path, b)
        status, errors, out["etch_used"] = run([etch, "objtool", *args, a], release)
        _, out["objtool_errors"], out["objtool_used"] = run([objtool, *args, b])
        if status:
            out["parts"].append(f"refused: {errors.strip()}")
            return out
        out["etch_errors"] = errors
        was, mine, theirs = Object(path), Object(a), Object(b)
    count, rows, other = len(was.heads), mine.orc(), theirs.orc()
    out["table"] = bool(other)
    for section in was.text():
        for start, end, x, y in pieces(rows.get(section, []), other.get(section, []), was.heads[section][5]):
            kind = judge(x, y)
            out["bytes"][kind] += end - start
            if kind not in CLASSES[:2]:
                out["examples"].append((kind, end - start, was.where(section, start), entry_text(x, release), entry_text(y, release)))
    if rows != other:
        out["parts"].append("orc")
    out["parts"] += [s for s in ALL_SITES if mine.sites(s) != theirs.sites(s)]
    out["parts"] += ["symbols"] if mine.named() != theirs.named() else []
    out["parts"] += ["warnings"] if warned(errors, release) != warned(out["objtool_errors"], release) else []
    out["parts"] += ["code"] if mine.code(count) != theirs.code(count) else []
    return out


def costs(results):
    """Lines about time and memory: medians over the objects, each with its ratio, and sums."""
    for key, what, unit, by in (("cpu", "CPU time", "ms", 1000), ("memory", "memory with files' pages", "MB", 1024),
                                ("own", "memory of its own", "MB", 1024)):
        mine, theirs = ([getattr(r[who], key) for r in results] for who in ("etch_used", "objtool_used"))
        ratio = statistics.median(a / max(b, 1) for a, b in zip(mine, theirs))
        yield f"{what}, median: etch, objtool, ratio", \
            f"{statistics.median(mine) / by:.2f} {unit}, {statistics.median(theirs) / by:.2f} {unit}, {ratio:.2f}"
        if key == "cpu":
            yield f"{what}, sum: etch, objtool, ratio", \
                f"{sum(mine) / 1e6:.1f} s, {sum(theirs) / 1e6:.1f} s, {sum(mine) / max(sum(theirs), 1):.2f}"


def linked(kept, paths, directory):
    """vmlinux.o of the objects: the build's own, where objtool is run on that."""
    if (kept / "vmlinux.o").exists():
        return kept / "vmlinux.o"
    out = Path(directory, "vmlinux.o")
    options = {p: Path(f"{p}.args").read_text().split()[:-1] for p in paths}
    whole = [p for p in paths if "--module" not in options[p]]
    subprocess.run(["ld", "-r", "-z", "noexecstack", "-o", out, *whole], check=True)
    Path(f"{out}.args").write_text(" ".join([*options[whole[0]], out.name]))
    return out


def report(results, opt):
    bytes_, parts, first = collections.Counter(), collections.Counter(), {}
    for r in results:
        bytes_.update(r["bytes"])
        parts.update(p.split(":")[0] for p in r["parts"])
        for x in r["examples"]:
            first.setdefault(x[0], (r["name"], x))
    tables = [r for r in results if r.get("table")]
    same = [r for r in results if not r["parts"]]
    total = sum(bytes_.values()) or 1
    lines = [("objects", len(results)), ("with an ORC table of objtool's", len(tables)),
             ("refused by etch", parts["refused"]),
             ("ORC the same", sum("orc" not in r["parts"] and not any(p.startswith("refused") for p in r["parts"]) for r in tables)),
             ("all the same: ORC, sites, code, warnings", len(same)),
             *((f"{s} differs", parts[s]) for s in (*ALL_SITES, "code", "symbols", "warnings")),
             *((c, f"{bytes_[c]:,} bytes ({100 * bytes_[c] / total:.4f}%)") for c in CLASSES),
             *costs(results)]
    for key, value in lines:
        print(f"| {key} | {value} |" if opt.markdown else f"{key:40} {value}")
    for kind, (name, x) in first.items():
        print(f"first of '{kind}': {name}: {x[2]} ({x[1]} bytes): etch {x[3]}, objtool {x[4]}")
    where = collections.Counter()
    for r in results:
        for x in r["examples"]:
            where[x[0], r["name"], x[2].split("+")[0], x[2], x[3], x[4]] += x[1]
    for (kind, name, _, at, mine, theirs), n in sorted(where.items(), key=lambda i: -i[1])[:opt.examples]:
        print(f"{n:7} {kind:12} {name} {at}: etch {mine}; objtool {theirs}")
    for r in results:
        for p in r["parts"]:
            if p != "orc" and opt.examples:
                print(f"{r['name']}: {p}")
    return 0 if len(same) == len(results) else 1


def main():
    p = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    p.add_argument("--etch", default=ROOT / "build" / "etch")
    p.add_argument("--limit", type=int)
    p.add_argument("--only", default="")
    p.add_argument("--linked", action="store_true")
    p.add_argument("--examples", type=int, default=0, help="show the N largest differences")
    p.add_argument("--markdown", action="store_true")
    p.add_argument("-j", "--jobs", type=int, default=1)
    opt = p.parse_args()
    kept, objtool = kernel_objects.objects()
    paths = sorted(x for x in kept.rglob("*.o") if opt.only in str(x) and x.name != "vmlinux.o")[:opt.limit]
    if opt.linked:
        with tempfile.TemporaryDirectory() as d:
            return report([compare(linked(kept, paths, d), "vmlinux.o", opt.etch, objtool, kernel_objects.RELEASE)], opt)
    with ThreadPoolExecutor(opt.jobs) as pool:
        results = list(pool.map(lambda x: compare(x, str(x.relative_to(kept)), opt.etch, objtool, kernel_objects.RELEASE),
                                paths))
    return report(results, opt)


if __name__ == "__main__":
    sys.exit(main())
