# SPDX-License-Identifier: MIT
"""What the tests of .eh_frame's readers share: how their programs are built, and cfi_dump."""

import re
from pathlib import Path

import pytest

import rows
from conftest import DATA, ROOT, run, tool_objects

HERE = DATA / "unwind"
LIBDIR = Path("/usr/lib/x86_64-linux-gnu")
TOOL = ["analysis/facts/cfi_file.c", "support/sort.c", "analysis/facts/space.c", "elf/file.c", "output/segment_read.c", "elf/file_lookup.c", "elf/section_at.c", "support/bounds.c", "support/ending.c", "support/error.c", "support/memory.c", "support/plain.c"]
FLAGS = ["-std=gnu11", "-D_GNU_SOURCE", "-DETCH_NO_MODULE", "-g", "-Wall", "-Wextra", "-Werror", f"-I{ROOT / 'tool'}", f"-I{ROOT / 'lib'}",
         f"-I{ROOT / 'lib' / 'include'}"]
SANITIZE = ["-O1", "-fno-omit-frame-pointer", "-fsanitize=address,undefined", "-fno-sanitize-recover=undefined"]


def build_c(out, flags, *sources):
    run(["gcc", *FLAGS, *flags, *sources, "-lelf", "-ldl", "-o", out])
    return out


def unwinder(build):
    """The objects of libetch's unwinder."""
    return [build / "o/lib/unwind" / f"{c.stem}.o" for c in sorted((ROOT / "lib/unwind").glob("*.c"))]


@pytest.fixture(scope="session")
def dump(once, build_asan):
    """Under ASan and UBSan: a function that returns the lines of cfi_dump."""
    def make(directory):
        build_c(directory / "cfi_dump", SANITIZE, HERE / "cfi_dump.c", *tool_objects(build_asan, *TOOL))
    exe = once("cfi-dump", make) / "cfi_dump"

    def lines(mode, path):
        p = run([exe, mode, path])
        m = re.fullmatch(r"bad (\d+) dropped (\d+)\n", p.stderr)
        assert m, p.stderr
        lines.bad, lines.dropped = int(m.group(1)), int(m.group(2))
        return p.stdout.splitlines()

    return lines


def representable(rule):
    return rows.pack_rule(rule)[14] != rows.KIND["undef"]


def check_against(truth, ours):
    c = rows.compare(truth, ours)
    for what, places in c.where.items():
        for start, end, t, o, why in places:
            if what == "undef":       # and rightly so
                assert not representable(t), (hex(start), hex(end), t, why)
            elif "after an expression" in t[0]:  # pyelftools has no offset there
                assert what == "odd"
            else:                     # rbp in another register, or the like: only rbp is lost
                assert what in ("odd", "bp"), (what, hex(start), hex(end), t, o)
                assert (o[0], o[1], o[2]) == (t[0], "undef", t[2]) and not representable(t), (hex(start), t, o)
    assert c.covered == sum(c.bytes.values()) > 0
    assert c.bytes.get("equal", 0) >= 0.99 * c.covered
    return c


KEPT = {3: 0, 6: 1, 12: 2, 13: 3, 14: 4, 15: 5}  # DWARF numbers, and the places in saves.c


def rows_for_saves(path, out):
    """The rows of .eh_frame, computed by pyelftools, for saves.c."""
    found = []
    for fde in rows.elf_entries(path):
        if not isinstance(fde, rows.FDE) or not fde["address_range"]:
            continue
        end = fde["initial_location"] + fde["address_range"]
        lines = sorted({line["pc"]: line for line in fde.get_decoded().table}.items())
        for i, (pc, line) in enumerate(lines):
            cfa = line["cfa"]
            ra = line.get(16)
            reg = {7: 4, 6: 5}.get(cfa.reg, -1) if cfa.expr is None and ra and ra.type == "OFFSET" and ra.arg == -8 else -1
            kept = [(0, 0)] * 6
            for dwarf, place in KEPT.items():
                rule = line.get(dwarf)
                if rule is not None:
                    kept[place] = {"OFFSET": (1, rule.arg), "SAME_VALUE": (0, 0)}.get(rule.type, (2, 0))
            found.append((pc, lines[i + 1][0] if i + 1 < len(lines) else end, reg, cfa.offset if reg > 0 else 0, kept))
    out.write_text("".join(f"{a:x} {b:x} {reg} {off} " + " ".join(f"{h} {o}" for h, o in kept) + "\n"
                           for a, b, reg, off, kept in sorted(found) if a < b))
