# SPDX-License-Identifier: MIT
"""Unwind rows as Python sees them: read from `etch inspect orc --format tsv`, or
made from .eh_frame by pyelftools, which shares no code with etch.

A rule is a tuple (cfa, bp, ra, kind) of the texts that inspect prints, a row is
(start, end, rule, source). Rows are sorted and do not overlap.
"""

import bisect
import re
import struct
import subprocess
from pathlib import Path

from elftools.dwarf.callframe import FDE
from elftools.elf.elffile import ELFFile

HEADER = ["address", "size", "cfa", "bp", "ra", "kind", "source"]

# DWARF numbers of the x86-64 psABI, figure 3.36; 16 is the return address column.
DWARF_REG = ["rax", "rdx", "rcx", "rbx", "rsi", "rdi", "rbp", "rsp",
             "r8", "r9", "r10", "r11", "r12", "r13", "r14", "r15", "rip"]
RBP, RSP, RIP = 6, 7, 16
# Numbers of instruction encodings, as in etch/orc.h.
ORC_REG = ["rax", "rcx", "rdx", "rbx", "rsp", "rbp", "rsi", "rdi",
           "r8", "r9", "r10", "r11", "r12", "r13", "r14", "r15"]

UNDEF = ("undef", "undef", "undef", "undef")
END = ("undef", "undef", "undef", "end")


class Inspect(Exception):
    """etch inspect failed: status and message."""


# ---- ours ---------------------------------------------------------------------

def parse_tsv(lines):
    """Rows of a linked file. Rejects what breaks the contract of the format."""
    rows, last = [], -1
    lines = iter(lines)
    head = next(lines, "").rstrip("\n").split("\t")
    if head not in (HEADER, [*HEADER, "function"], [*HEADER, "registers"], [*HEADER, "registers", "function"]):
        raise ValueError(f"header {head}")
    cache = {}
    for line in lines:
        cells = line.rstrip("\n").split("\t")
        if len(cells) != len(head):
            raise ValueError(f"not {len(head)} columns: {line!r}")
        start, size = int(cells[0], 16), int(cells[1], 16)
        if start < last:
            raise ValueError(f"row {start:x} is not sorted")
        last = start + size
        rule = tuple(cells[2:6])
        rows.append((start, last, cache.setdefault(rule, _plain(rule)), cells[6]))
    return rows


def _plain(rule):
    """Rules whose other columns mean nothing, brought into one form."""
    if rule[3] == "undef":
        return UNDEF
    if rule[3] == "end":
        return END
    if rule[3] == "signal":
        return (rule[0], "same", "cfa-8", "signal")
    return rule


def inspect_rows(etch, path, *args):
    p = subprocess.run([str(etch), "inspect", "orc", "--format", "tsv", *args, str(path)],
                       stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    if p.returncode:
        raise Inspect(f"exit {p.returncode}: {p.stderr.strip()[:300]}")
    return parse_tsv(p.stdout.splitlines())


# ---- DWARF expressions ----------------------------------------------------------

def leb(data, at, signed=False):
    """The LEB128 number at a place, and where it ends."""
    value = shift = 0
    while True:
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        shift += 7
        if not byte & 0x80:
            break
    if signed and byte & 0x40:
        value -= 1 << shift
    return value, at


class Odd(Exception):
    """An expression that no rule can say."""


def evaluate(expr, rip):
    """An expression of DWARF 5, 2.5 as ('const', n), ('reg', r, n) = r + n, ('times', r, m, n)
    = m * r + n, ('sum', q, r, m, n) = q + m * r + n, ('mem', r, n, k) = *(r + n) + k, or
    ('array', q, r, m, n, k) = *(q + m * r + n) + k."""
    data, at, stack = bytes(expr), 0, []

    def add(a, n):
        return (*a[:-1], a[-1] + n)

    while at < len(data):
        op = data[at]
        at += 1
        if 0x70 <= op <= 0x8F or op == 0x92:          # breg, bregx
            if op == 0x92:
                reg, at = leb(data, at)
            else:
                reg = op - 0x70
            off, at = leb(data, at, True)
            stack.append(("const", rip + off) if reg == RIP else ("reg", reg, off))
        elif op == 0x06:                               # deref
            a = stack.pop()
            if a[0] not in ("reg", "sum"):
                raise Odd("deref of no register")
            stack.append(("mem" if a[0] == "reg" else "array", *a[1:], 0))
        elif 0x30 <= op <= 0x4F:                       # lit
            stack.append(("const", op - 0x30))
        elif op in (0x08, 0x0A, 0x0C, 0x0E, 0x09, 0x0B, 0x0D, 0x0F):  # const1u ... const8s
            size = 1 << ((op - 8) >> 1)
            stack.append(("const", int.from_bytes(data[at:at + size], "little", signed=bool(op & 1))))
            at += size
        elif op in (0x10, 0x11):                       # constu, consts
            value, at = leb(data, at, op == 0x11)
            stack.append(("const", value))
        elif op == 0x23:                               # plus_uconst
            value, at = leb(data, at)
            stack.append(add(stack.pop(), value))
        elif op in (0x22, 0x1C):                       # plus, minus
            b, a = stack.pop(), stack.pop()
            if b[0] != "const" and a[0] == "const" and op == 0x22:
                a, b = b, a
            if (a[0], b[0], op) == ("times", "reg", 0x22):
                a, b = b, a
            if (a[0], b[0], op) == ("reg", "times", 0x22):
                stack.append(("sum", a[1], b[1], b[2], a[2] + b[3]))
                continue
            if b[0] != "const":
                raise Odd("sum of two registers")
            stack.append(add(a, b[1] if op == 0x22 else -b[1]))
        elif op == 0x1E:                               # mul
            b, a = stack.pop(), stack.pop()
            if a[0] == "const":
                a, b = b, a
            if (a[0], b[0]) != ("reg", "const"):
                raise Odd("product")
            stack.append(("times", a[1], b[1], a[2] * b[1]))
        elif op in (0x1A, 0x24, 0x25, 0x2A):           # and, shl, shr, ge
            b, a = stack.pop(), stack.pop()
            if a[0] != "const" or b[0] != "const":
                raise Odd("arithmetic of a register")
            a, b = a[1], b[1]
            stack.append(("const", {0x1A: a & b, 0x24: a << b, 0x25: a >> b, 0x2A: int(a >= b)}[op]))
        else:
            raise Odd(f"operation {op:#x}")
    if len(stack) != 1:
        raise Odd("stack depth")
    return stack[0]


def _reads_rip(expr):
    """Whether an expression depends on the address: a PLT's."""
    return any(b == 0x80 for b in bytes(expr))


# ---- .eh_frame --------------------------------------------------------------------

def _value_text(v):
    if v[0] == "reg":
        return f"{DWARF_REG[v[1]]}{v[2]:+d}"
    if v[0] == "mem":
        return f"*({DWARF_REG[v[1]]}{v[2]:+d}){v[3]:+d}"
    if v[0] == "array" and v[1] == RSP and v[2] != RSP and v[3] == 8:
        return f"*(rsp+8*{DWARF_REG[v[2]]}{v[4]:+d}){v[5]:+d}"
    raise Odd("constant CFA")


def _cfa_text(cfa, rip):
    if cfa.expr is not None:
        return _value_text(evaluate(cfa.expr, rip))
    if cfa.offset is None:  # pyelftools forgets it over an expression, libgcc does not (libgcrypt)
        raise Odd("def_cfa_register after an expression")
    return f"{DWARF_REG[cfa.reg]}{cfa.offset:+d}"


def _slot_text(rule, rip):
    """The place of a saved register; None: as it is."""
    if rule is None or rule.type == "SAME_VALUE":
        return "same"
    if rule.type == "UNDEFINED":
        return "undef"
    if rule.type == "OFFSET":
        return f"cfa{rule.arg:+d}"
    if rule.type == "REGISTER":
        return DWARF_REG[rule.arg]
    if rule.type == "EXPRESSION":
        v = evaluate(rule.arg, rip)
        if v[0] != "reg":
            raise Odd("slot expression")
        return f"*({DWARF_REG[v[1]]}{v[2]:+d})"
    raise Odd(f"rule {rule.type}")


def _rule(line, rip, signal):
    try:
        cfa = _cfa_text(line["cfa"], rip)
        ra = _slot_text(line.get(RIP), rip)
        if signal and ra != "cfa-8":  # else it was called: OCaml marks frames of stacks that are not in order
            return (cfa, "same", "cfa-8", "signal")
        if ra == "undef":
            return END
        return (cfa, _slot_text(line.get(RBP), rip), ra, "call")
    except Odd as why:
        return (f"odd:{why}", "?", "?", "call")


def elf_entries(path):
    with open(path, "rb") as f:
        elf = ELFFile(f)
        if not elf.has_dwarf_info(strict=False) and elf.get_section_by_name(".eh_frame") is None:
            return []
        dwarf = elf.get_dwarf_info(relocate_dwarf_sections=False)
        if not dwarf.has_EH_CFI():
            return []
        return list(dwarf.EH_CFI_entries())


def cfi_rows(path):
    """(rows, FDEs) of the .eh_frame of a linked file. Rows carry the source
    "cfi"; neighbours of one FDE that say the same are one row. FDEs are (start,
    end). Where FDEs overlap, the first in address order wins."""
    rows, fdes = [], []
    for fde in elf_entries(path):
        if isinstance(fde, FDE) and fde["address_range"] and fde["initial_location"]:
            fdes.append((fde["initial_location"], fde["initial_location"] + fde["address_range"], fde))
    fdes.sort(key=lambda x: (x[0], x[1]))
    cache, at = {}, 0
    for start, end, fde in fdes:
        signal = "S" in str(fde.cie.augmentation_dict.get("augmentation", b"")) or \
            b"S" in fde.cie.header.get("augmentation", b"")
        table = fde.get_decoded().table
        # Several lines of one address: the last one holds.
        lines = {line["pc"]: line for line in table}
        pcs = sorted(pc for pc in lines if pc < end)
        for i, pc in enumerate(pcs):
            stop = pcs[i + 1] if i + 1 < len(pcs) else end
            begin = max(pc, at)
            if begin >= stop:
                continue
            line = lines[pc]
            cfa = line["cfa"]
            if cfa.expr is not None and _reads_rip(cfa.expr):
                for byte in range(begin, stop):
                    _append(rows, byte, byte + 1, _rule(line, byte, signal), start)
                continue
            rule = _rule(line, begin, signal)
            _append(rows, begin, stop, cache.setdefault(rule, rule), start)
        at = max(at, end)
    return rows, [(s, e) for s, e, _ in fdes]


def _append(rows, start, end, rule, floor):
    if rows and rows[-1][1] == start and rows[-1][2] == rule and rows[-1][0] >= floor:
        rows[-1] = (rows[-1][0], end, rule, "cfi")
    else:
        rows.append((start, end, rule, "cfi"))


# ---- comparing ----------------------------------------------------------------------

_CFA = re.compile(r"(r[a-z0-9]+)([+-]\d+)$")
_SLOT = re.compile(r"cfa(-\d+)$")


def split_cfa(text):
    m = _CFA.match(text)
    return (m.group(1), int(m.group(2))) if m else (None, 0)


def is_odd(truth):
    """Whether .eh_frame says what no rule of etch/orc.h can: an expression beyond
    *(reg + n) + k, rbp in another register, a return address elsewhere than CFA - 8."""
    if truth[3] != "call":
        return False
    if truth not in _odd:
        _odd[truth] = pack_rule(truth)[-2] == KIND["undef"]
    return _odd[truth]


_odd = {}


def classify(truth, ours):
    """One word for how two rules relate. `equal` is textual equality of all four
    parts. The other classes that count as agreement are these, each exact:

    bp-popped   CFI keeps naming a slot that is below rsp: the register was
                popped, the slot is dead. Ours: same.
    undef       we have no row
    """
    if truth == ours:
        return "equal"
    if ours[3] == "undef":
        return "undef"
    if is_odd(truth):
        return "odd"
    if truth[3] != ours[3]:
        return "kind"
    if truth[3] == "signal":
        return "signal"
    if truth[2] != ours[2]:
        return "ra"
    if truth[0] != ours[0]:
        a, b = split_cfa(truth[0]), split_cfa(ours[0])
        return "cfa-other-register" if a[0] != b[0] else "cfa"
    slot, (reg, off) = _SLOT.match(truth[1]), split_cfa(truth[0])
    if slot and ours[1] == "same":
        if reg == "rsp" and off + int(slot.group(1)) < 0:
            return "bp-popped"
        return "bp-slot/same"
    if truth[1] == "same":
        return "bp-same/slot"
    return "bp"


AGREE = ("equal", "bp-popped")


class Compared:
    def __init__(self):
        self.bytes = {}     # class -> bytes
        self.rows = {}      # class -> segments
        self.sources = {}   # source of ours -> bytes, over what CFI covers
        self.where = {}     # class -> [(start, end, truth, ours, source)]
        self.covered = 0

    def add(self, start, end, truth, ours, source):
        what = classify(truth, ours)
        n = end - start
        self.covered += n
        self.bytes[what] = self.bytes.get(what, 0) + n
        self.rows[what] = self.rows.get(what, 0) + 1
        self.sources[source] = self.sources.get(source, 0) + n
        if what != "equal":
            self.where.setdefault(what, []).append((start, end, truth, ours, source))

    @property
    def agree(self):
        return sum(self.bytes.get(c, 0) for c in AGREE)

    @property
    def undefined(self):
        return self.bytes.get("undef", 0)

    @property
    def differ(self):
        return self.covered - self.agree - self.undefined


def compare(truth, ours):
    """Interval sweep: every address that a truth row covers."""
    out = Compared()
    starts = [r[0] for r in ours]
    for start, end, rule, _ in truth:
        i = bisect.bisect_right(starts, start) - 1
        at = start
        while at < end:
            if i >= 0 and ours[i][0] <= at < ours[i][1]:
                stop = min(end, ours[i][1])
                out.add(at, stop, rule, ours[i][2], ours[i][3])
                at = stop
            else:
                nxt = ours[i + 1][0] if i + 1 < len(ours) else end
                stop = min(end, nxt)
                if stop > at:
                    out.add(at, stop, rule, UNDEF, "-")
                at = stop
            while i + 1 < len(ours) and ours[i + 1][0] <= at:
                i += 1
    return out


# ---- for C: tests/data/unwind/step.c ------------------------------------------------------

KIND = {"undef": 0, "call": 1, "signal": 2, "end": 3}
_MEM = re.compile(r"\*\((r[a-z0-9]+)([+-]\d+)\)([+-]\d+)?$")
_ARRAY = re.compile(r"\*\(rsp\+8\*(r[a-z0-9]+)([+-]\d+)\)([+-]\d+)$")


def pack_rule(rule):
    """A rule as struct etch_rule; what cannot be said is UNDEF."""
    cfa, bp, ra, kind = rule
    if kind in ("undef", "end"):
        return struct.pack("<iiiBBBB", 0, 0, 0, 0, 0, KIND[kind], 0)
    m, array = _MEM.match(cfa), _ARRAY.match(cfa)
    if array:
        reg, off, add = ORC_REG.index(array.group(1)) | 0x30, int(array.group(2)), int(array.group(3))
    elif m:
        reg, off, add = ORC_REG.index(m.group(1)) | 0x10, int(m.group(2)), int(m.group(3))
    else:
        name, off = split_cfa(cfa)
        if name is None:
            return struct.pack("<iiiBBBB", 0, 0, 0, 0, 0, 0, 0)
        reg, add = ORC_REG.index(name), 0
    if kind == "signal":
        return struct.pack("<iiiBBBB", off, 0, 0, reg, 0, 2, 0)
    bp_off = 0
    if bp == "same":
        how = 0
    elif bp == "undef":
        how = 4
    elif bp.startswith("cfa"):
        how, bp_off = 1, int(bp[3:])
    else:
        m = _MEM.match(bp)
        if not m or m.group(1) not in ("rbp", "rsp"):
            return struct.pack("<iiiBBBB", 0, 0, 0, 0, 0, 0, 0)
        how, bp_off = (2 if m.group(1) == "rbp" else 3), int(m.group(2))
    how_ra = 0 if ra == "cfa-8" else 0x80 | ORC_REG.index(ra) if ra in ORC_REG else None
    if how_ra is None:
        return struct.pack("<iiiBBBB", 0, 0, 0, 0, 0, 0, 0)
    return struct.pack("<iiiBBBB", off, add, bp_off, reg, how, 1, how_ra)


def write_binary(rows, path):
    """n rows of {u64 address, struct etch_rule}, gaps as UNDEF rows, closed by one."""
    out, at = bytearray(), None
    undef = pack_rule(UNDEF)
    cache = {}
    for start, end, rule, _ in rows:
        if at is not None and at < start:
            out += struct.pack("<Q", at) + undef
        if rule not in cache:
            cache[rule] = pack_rule(rule)
        out += struct.pack("<Q", start) + cache[rule]
        at = end
    if at is not None:
        out += struct.pack("<Q", at) + undef
    Path(path).write_bytes(out)
