# SPDX-License-Identifier: MIT
"""The rows of a rewritten file beside its .eh_frame, fast enough for all files of a
distribution: some 100,000 rows a second. The reader of .eh_frame here shares no code
with etch, and test_survey.py holds it against pyelftools, which takes six times as long.
"""

import bisect
import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "tests" / "analysis"))
import explained  # noqa: E402
import objects  # noqa: E402
import prover  # noqa: E402
import rows  # noqa: E402
import systemfiles  # noqa: E402
import wide  # noqa: E402

RBP, RIP, leb = rows.RBP, rows.RIP, rows.leb
SIZES = {0: 8, 2: 2, 3: 4, 4: 8, 10: 2, 11: 4, 12: 8}  # of a DW_EH_PE_* format
# A listing of more code than this is only made of the function in question and what is around it,
# and of the next AHEAD bytes: functions come in order of address, and each objdump costs a start. Where the next function
# in question is close after a listing, that is of twice as much, up to AHEAD_MOST.
WHOLE = 8 << 20
AROUND = 4096
AHEAD = 256 << 10
AHEAD_MOST = 8 << 20


class Unreadable(Exception):
    """.eh_frame that this reader cannot read."""


# ---- .eh_frame: entries -----------------------------------------------------------

class Cie:
    """Common Information Entry (LSB 5, 10.6.1.1.1)."""

    def __init__(self, data, at, end):
        version = data[at]
        zero = data.index(0, at + 1)
        aug = bytes(data[at + 1:zero])
        at = zero + 1
        if aug.startswith(b"eh"):
            raise Unreadable("CIE of gcc 2")
        self.code, at = leb(data, at, False)
        self.data, at = leb(data, at, True)
        self.ra, at = (data[at], at + 1) if version == 1 else leb(data, at, False)
        self.encoding, self.signal, self.sized = 0, b"S" in aug, aug[:1] == b"z"
        if self.sized:
            n, at = leb(data, at, False)
            self._augment(data, at, aug)
            at += n
        self.program = bytes(data[at:end])

    def _augment(self, data, at, aug):
        for c in aug[1:].decode("latin-1"):
            if c == "R":
                self.encoding = data[at]
                return
            if c == "L":
                at += 1
            elif c == "P":
                at += 1 + SIZES[data[at] & 15]
            elif c not in "SB":
                raise Unreadable(f"augmentation {aug!r}")


def entries(data, base):
    """(start, end, CIE, program) of each FDE of a linked file's .eh_frame at `base`."""
    cies, at = {}, 0
    while at + 4 <= len(data):
        begin, n = at, int.from_bytes(data[at:at + 4], "little")
        at += 4
        if n == 0xFFFFFFFF:
            n = int.from_bytes(data[at:at + 8], "little")
            at += 8
        if not n:
            continue
        end, ident = at + n, int.from_bytes(data[at:at + 4], "little")
        if end > len(data):
            raise Unreadable(f"entry at {begin:#x} leaves the section")
        if not ident:
            cies[begin] = Cie(data, at + 4, end)
        else:
            cie = cies.get(at - ident)
            if cie is None:
                raise Unreadable(f"FDE at {begin:#x} without a CIE before it")
            yield from _fde(data, base, at + 4, end, cie)
        at = end


def _fde(data, base, at, end, cie):
    size = SIZES[cie.encoding & 15]
    start = int.from_bytes(data[at:at + size], "little", signed=bool(cie.encoding & 8))
    if cie.encoding & 0xF0 == 0x10:
        start += base + at
    elif cie.encoding & 0xF0:
        raise Unreadable(f"encoding {cie.encoding:#x}")
    start &= (1 << 64) - 1
    at += size
    length = int.from_bytes(data[at:at + size], "little")
    at += size
    if cie.sized:
        n, at = leb(data, at, False)
        at += n
    if length and start:
        yield start, start + length, cie, bytes(data[at:end])


# ---- .eh_frame: programs ------------------------------------------------------------

class State:
    """What is tracked: CFA (register and offset, or an expression), the rules of rbp and of
    the return address, each None or (kind, argument)."""
    __slots__ = ("reg", "off", "expr", "bp", "ra")

    def copy(self):
        s = State()
        s.reg, s.off, s.expr, s.bp, s.ra = self.reg, self.off, self.expr, self.bp, self.ra
        return s


_texts = {}


def _slot(rule, rip):
    if rule is None or rule[0] == "same":
        return "same"
    kind, arg = rule
    if kind == "offset":
        return f"cfa{arg:+d}"
    if kind == "undef":
        return "undef"
    if kind == "register":
        return rows.DWARF_REG[arg]
    if kind == "expr":
        v = rows.evaluate(arg, rip)
        if v[0] != "reg":
            raise rows.Odd("slot expression")
        return f"*({rows.DWARF_REG[v[1]]}{v[2]:+d})"
    raise rows.Odd(kind)


def _text(s, rip, signal):
    """The state as a rule of tests/analysis/rows.py."""
    key = (s.reg, s.off, s.expr, s.bp, s.ra, signal) if not _reads_rip(s) else None
    if key in _texts:
        return _texts[key]
    try:
        if s.expr is not None:
            cfa = rows._value_text(rows.evaluate(s.expr, rip))
        elif s.off is None:  # as pyelftools has it, see rows.py
            raise rows.Odd("def_cfa_register after an expression")
        else:
            cfa = f"{rows.DWARF_REG[s.reg]}{s.off:+d}"
        ra = _slot(s.ra, rip)
        if signal and ra != "cfa-8":  # else it was called: OCaml marks frames of stacks that are not in order
            rule = (cfa, "same", "cfa-8", "signal")
        elif ra == "undef":
            rule = rows.END
        else:
            rule = (cfa, _slot(s.bp, rip), ra, "call")
    except rows.Odd as why:
        rule = (f"odd:{why}", "?", "?", "call")
    if key is not None:
        _texts[key] = rule
    return rule


def _reads_rip(s):
    return s.expr is not None and 0x80 in s.expr


def execute(program, cie, state, first, emit):
    """Runs CFA instructions from `state` (of the CIE: `first`), and calls emit(distance) before
    each that advances the location."""
    at, end, stack = 0, len(program), []

    def put(reg, rule):
        if reg == RBP:
            state.bp = rule
        elif reg == cie.ra:
            state.ra = rule

    def restore(reg):
        if reg == RBP:
            state.bp = first.bp
        elif reg == cie.ra:
            state.ra = first.ra

    while at < end:
        op = program[at]
        at += 1
        high, low = op & 0xC0, op & 0x3F
        if high == 0x40:                                # advance_loc
            emit(low * cie.code)
        elif high == 0x80:                              # offset
            n, at = leb(program, at, False)
            put(low, ("offset", n * cie.data))
        elif high:                                      # restore
            restore(low)
        elif op == 0x0E:                                # def_cfa_offset
            state.off, at = leb(program, at, False)
        elif op == 0:
            pass
        elif op in (2, 3, 4):                           # advance_loc1, 2, 4
            n = 1 << (op - 2)
            emit(int.from_bytes(program[at:at + n], "little") * cie.code)
            at += n
        elif op == 0x0A:                                # remember_state
            stack.append(state.copy())
        elif op == 0x0B:                                # restore_state
            if not stack:
                raise Unreadable("restore_state without remember_state")
            was = stack.pop()
            state.reg, state.off, state.expr, state.bp, state.ra = was.reg, was.off, was.expr, was.bp, was.ra
        elif op in (0x0C, 0x12):                        # def_cfa, def_cfa_sf
            state.reg, at = leb(program, at, False)
            state.off, at = leb(program, at, op == 0x12)
            state.off *= cie.data if op == 0x12 else 1
            state.expr = None
        elif op == 0x0D:                                # def_cfa_register
            state.reg, at = leb(program, at, False)
            if state.expr is not None:
                state.expr, state.off = None, None
        elif op == 0x13:                                # def_cfa_offset_sf
            n, at = leb(program, at, True)
            state.off = n * cie.data
        elif op == 0x0F:                                # def_cfa_expression
            n, at = leb(program, at, False)
            state.expr = program[at:at + n]
            at += n
        elif op in (0x10, 0x16):                        # expression, val_expression
            reg, at = leb(program, at, False)
            n, at = leb(program, at, False)
            put(reg, ("expr" if op == 0x10 else "val_expression", program[at:at + n]))
            at += n
        elif op in (0x05, 0x11, 0x14, 0x15, 0x2F):      # offset_extended(_sf), val_offset(_sf), GNU_negative_...
            reg, at = leb(program, at, False)
            n, at = leb(program, at, op in (0x11, 0x15))
            n *= -cie.data if op == 0x2F else cie.data
            put(reg, ("val_offset" if op in (0x14, 0x15) else "offset", n))
        elif op == 0x06:                                # restore_extended
            reg, at = leb(program, at, False)
            restore(reg)
        elif op in (0x07, 0x08):                        # undefined, same_value
            reg, at = leb(program, at, False)
            put(reg, ("undef" if op == 7 else "same", None))
        elif op == 0x09:                                # register
            reg, at = leb(program, at, False)
            other, at = leb(program, at, False)
            put(reg, ("register", other))
        elif op == 0x2E:                                # GNU_args_size
            _, at = leb(program, at, False)
        else:
            raise Unreadable(f"CFA instruction {op:#x}")


def fde_rows(start, end, cie, program):
    """[(start, end, rule)] of one FDE, neighbours that say the same as one."""
    first = State()
    first.reg = first.off = first.expr = first.bp = first.ra = None
    execute(cie.program, cie, first, first, lambda n: None)
    state, out, at = first.copy(), [], [start]

    def line(begin, stop):
        if begin >= stop:
            return
        rule = _text(state, begin, cie.signal)
        if out and out[-1][2] == rule and out[-1][1] == begin:
            out[-1] = (out[-1][0], stop, rule)
        else:
            out.append((begin, stop, rule))

    def emit(n):
        stop = min(at[0] + n, end)
        if _reads_rip(state):  # a PLT's: it says something else at each address
            for byte in range(at[0], stop):
                line(byte, byte + 1)
        else:
            line(at[0], stop)
        at[0] += n

    execute(program, cie, state, first, emit)
    emit(max(end - at[0], 0))
    return out


# ---- comparing ----------------------------------------------------------------------

class Ours:
    """The rows of a file's table: starts, ends, rules, and bytes of text by source."""

    def __init__(self, lines):
        if [*rows.HEADER, "function"] != next(lines, b"").decode().rstrip("\n").split("\t"):
            raise Unreadable("etch inspect: header")
        self.start, self.end, self.rule, self.bytes = [], [], [], {}
        seen, last = {}, 0
        for line in lines:
            a, n, rest = line.rpartition(b"\t")[0].split(b"\t", 2)
            a, n = int(a, 16), int(n, 16)
            if a < last or not n:
                raise Unreadable(f"etch inspect: row {a:x} is not sorted")
            last = a + n
            if rest not in seen:
                cells = rest.decode().split("\t")
                seen[rest] = rows._plain(tuple(cells[:4])), cells[4]
            rule, source = seen[rest]
            self.start.append(a)
            self.end.append(last)
            self.rule.append(rule)
            source = "undefined" if rule is rows.UNDEF else source
            self.bytes[source] = self.bytes.get(source, 0) + n

    @classmethod
    def of(cls, etch, path):
        with subprocess.Popen([str(etch), "inspect", "-j1", "orc", "--format", "tsv", str(path)],
                              stdout=subprocess.PIPE, stderr=subprocess.PIPE) as p:
            out = cls(iter(p.stdout))
            why = p.stderr.read()
        if p.returncode:
            raise Unreadable(f"etch inspect: exit {p.returncode}: {why.decode(errors='replace').strip()[:300]}")
        return out

    def between(self, start, end):
        """As rows.compare wants them."""
        i = max(bisect.bisect_right(self.start, start) - 1, 0)
        j = bisect.bisect_left(self.start, end)
        return [(self.start[k], self.end[k], self.rule[k], "-") for k in range(i, j)]


def is_same(truth, ours, i):
    """Whether ours, from row i on, says in other pieces what truth does."""
    at = truth[0][0]
    for start, end, rule in truth:
        while at < end:
            if i >= len(ours.start) or not ours.start[i] <= at < ours.end[i] or ours.rule[i] != rule:
                return False
            at = min(end, ours.end[i])
            if at == ours.end[i]:
                i += 1
    return True


class Verdict:
    """One file's rows beside its .eh_frame, in bytes of what FDEs cover."""

    def __init__(self):
        self.covered = self.agree = self.undefined = self.odd = 0
        self.explained = {}  # reason -> bytes
        self.differ = []     # sentences
        self.differ_bytes = 0
        self.judged = 0      # under FDEs of many functions, by wide.py
        self.fdes = 0
        self.sources = {}


def verify_object(etch, path):
    """The same for an object file, whose addresses are relocations: by pyelftools alone."""
    v = Verdict()
    with open(path, "rb") as f:
        elf = rows.ELFFile(f)
        sizes, names = objects.text_sections(elf), [s.name for s in elf.iter_sections()]
        truth, fdes = objects.cfi_rows(elf)
        symbols = elf.get_section_by_name(".symtab")
        starts = {s["st_value"] for s in symbols.iter_symbols() if s["st_info"]["type"] == "STT_FUNC"} if symbols else set()
    ours = objects.etch_rows(etch, path)
    for index in sizes:
        mine = ours.get(str(index)) or (ours.get(names[index]) if names.count(names[index]) == 1 else None) or []
        for start, end, rule, source in mine:
            source = "undefined" if rule is rows.UNDEF else source
            v.sources[source] = v.sources.get(source, 0) + end - start
        cfi = truth.get(index, [])
        v.fdes += len(fdes.get(index, []))
        c = rows.compare(cfi, mine)
        v.covered += c.covered
        v.agree += c.agree
        for what, places in c.where.items():
            if what in rows.AGREE:
                continue
            code = explained.Code(path, "-j", names[index])
            for start, end, t, o, _ in places:
                if what == "undef" and rows.is_odd(t):
                    v.odd += end - start
                    continue
                v.undefined += end - start if what == "undef" else 0
                fde = fdes[index][bisect.bisect_right(fdes[index], (start, 1 << 62)) - 1]
                first = cfi[bisect.bisect_right([r[0] for r in cfi], fde[0]) - 1][2]
                if what != "undef" and (explained.third(code, fde, first, start, end, t, o) in ("padding", "both", "ours") or
                                        _called(code, starts, start, end, t, o)):
                    v.explained["in an object file"] = v.explained.get("in an object file", 0) + end - start
                    continue
                v.differ_bytes += 0 if what == "undef" else end - start
                v.differ.append(f"{what} {names[index]}+{start:x}-{end:x}: CFI {' '.join(t)} | ours {' '.join(o)}")
    return sum(sizes.values()), v


def plainly(rule):
    """A rule whose CFA is not where the return address ends, put so that it is: the same slots."""
    reg, off = rows.split_cfa(rule[0])
    ra = re.fullmatch(r"cfa([+-]\d+)", rule[2])
    if rule[3] != "call" or not reg or not ra:
        return rule
    up = int(ra[1]) + 8
    bp = re.fullmatch(r"cfa([+-]\d+)", rule[1])
    return (f"{reg}{off + up:+d}", f"cfa{int(bp[1]) - up:+d}" if bp else rule[1], "cfa-8", "call")


def _late(code, truth, mine, start, end, t, o):
    """Whether .eh_frame is behind the code by some instructions: from a place where both rules are the same on, objdump's
    instructions, which no jump enters, make ours of it. (Not always from the last: a rule by rbp does not say where rsp is.)"""
    i = bisect.bisect_left(code.addr, start)
    for k in range(i - 1, max(i - 16, -1), -1):
        at = code.addr[k]
        there, ours = rule_at(truth, at), rule_at(mine, at)
        if there is None or any(a in code.jumped for a in code.addr[k + 1:i + 1]):
            return False
        if plainly(there) == ours and \
                prover.judge(prover.Function(code, at, end, ours), code, start, end, plainly(t), o) in ("ours", "both"):
            return True
    return False


def _called(code, symbols, start, end, t, o):
    """Whether a function begins close before, in the middle of what .eh_frame has as one, by a
    call or by a symbol, and its instructions, which no jump enters, make our rule."""
    i = bisect.bisect_left(code.addr, start)
    for k in range(i, max(i - 16, -1), -1):
        at = code.addr[k]
        if at in code.called or at in symbols:
            entry = prover.Function(code, at, end, ("rsp+8", "same", "cfa-8", "call"))
            return prover.judge(entry, code, start, end, t, o) in ("ours", "both")
        if at in code.jumped:
            return False
    return False


LEADS_MOST = 400  # instructions


def _leads(code, truth, mine, start, end, rule):
    """Follows objdump's instructions from `start`, where `rule` holds, to where .eh_frame and our rows are the
    same again, on all paths. Whether what they say there holds: True, False, or None where that is not known or an
    instruction of [start, end) is on no path."""
    first = prover.start_state(rule)
    if first is None:
        return None
    seen, work, met = {}, [(start, first)], False
    while work:
        addr, s = work.pop()
        insn = code.between(addr, addr + 1)
        there, ours = rule_at(truth, addr), rule_at(mine, addr)
        if not insn or there is None or ours is None:
            return None
        if plainly(there) == ours:
            held = prover.holds(ours, s)
            if not (held[0] and held[1]):
                return False if held[0] is False else None
            met = True
            continue
        if addr in seen:
            if any(s.regs.get(r) != seen[addr].regs.get(r) for r in ("rsp", "rbp")):
                return None
            continue
        if len(seen) > LEADS_MOST:
            return None
        seen[addr] = s.copy()
        if insn[0][1].startswith(("ret", "bnd ret", "repz ret")):
            if s.regs["rsp"] is None or s.regs["rsp"][0] != "cfa":
                return None
            if s.regs["rsp"][1] != -8:
                return False
            met = True
            continue
        targets, goes = prover.step(s, addr, insn[0][1])
        if not targets and not goes and not insn[0][1].startswith(("ud2", "hlt", "int3")):
            return None
        work += [(t, s.copy()) for t in targets]
        if goes and code.after(addr) is not None:
            work.append((code.after(addr), s))
    return True if met and all(a in seen or code.is_nop(a) for a, _ in code.between(start, end)) else None


def _contradicted(code, truth, mine, start, end, t, o):
    """Whether .eh_frame contradicts itself: the instructions lead from our rule to what it says of what follows, and
    from its own rule to something else. LLVM has it so where arguments are pushed after a jump."""
    return _leads(code, truth, mine, start, end, o) is True and _leads(code, truth, mine, start, end, plainly(t)) is False


def _blocks(code, start, end):
    """The straight lines of code that [start, end) is made of: (head, from, to). They end where code does not go on, and the
    first one's head may lie before."""
    i = j = bisect.bisect_left(code.addr, start)
    while i > 0 and not code.text[i - 1].startswith(explained._STOPS) and code.addr[i - 1] >= start - 64:
        i -= 1
    out, head, first = [], i, start
    for k in range(j, bisect.bisect_left(code.addr, end)):
        if code.text[k].startswith(explained._STOPS) or k + 1 == len(code.addr) or code.addr[k + 1] >= end:
            stop = code.addr[k + 1] if k + 1 < len(code.addr) else end
            out.append((head, first, stop))
            head, first = k + 1, stop
    return out


def _entered(code, truth, mine, start, end, t, o):
    """Whether .eh_frame contradicts itself: in code after what does not go on, to which only direct jumps lead, and at each
    of these our rule and .eh_frame's have the same CFA and return address, which the instructions from there on make ours.
    OCaml has it so where a slow path inside a trap frame is put after the function's last return."""
    blocks = _blocks(code, start, end)
    for i, first, stop in blocks:
        head, sources = code.addr[i], code.sources.get(code.addr[i])
        if not sources or any(a in code.jumped for a in code.addr[i + 1:bisect.bisect_left(code.addr, stop)]):
            return False
        for at in sources:
            there, ours = rule_at(truth, at), rule_at(mine, at)
            if there is None or ours is None or (plainly(there)[0], plainly(there)[2:]) != (ours[0], ours[2:]):
                return False
            known = ours if ours[1] != "undef" else plainly(there)
            if prover.judge(prover.Function(code, head, stop, known), code, first, stop, plainly(t), o) not in ("ours", "both"):
                return False
    return bool(blocks)


def rule_at(list_, addr):
    i = bisect.bisect_right(list_, addr, key=lambda r: r[0]) - 1
    return list_[i][2] if i >= 0 and addr < list_[i][1] else None


def list_around(path, fde):
    """Has explained.code_of() list the function and what is around it, unless it does already. Where objdump has run over
    data in front of it, the listing begins anew with the function."""
    first, last = max(fde[0] - AROUND, 0), fde[1] + AROUND
    listed = explained._code.get(str(path))
    if listed is None or not listed.addr or not getattr(listed, "first", 1 << 64) <= first or listed.last < last:
        explained._code.clear()
        ahead = AHEAD
        if listed is not None and listed.first < first < listed.last + listed.ahead:
            ahead = min(2 * listed.ahead, AHEAD_MOST)
        last += ahead
        listed = explained.Code(path, f"--start-address={first:#x}", f"--stop-address={last:#x}")
        listed.first, listed.last, listed.ahead = first, last, ahead
        explained._code[str(path)] = listed
    i = bisect.bisect_left(listed.addr, fde[0])
    if i == len(listed.addr) or listed.addr[i] != fde[0]:
        tail = explained.Code(path, f"--start-address={fde[0]:#x}", f"--stop-address={fde[1] + AROUND:#x}")
        if tail.addr:
            listed.go_on(tail)


def _listing(path, fde, text):
    """objdump's, of the file or of what is around an FDE."""
    if text > WHOLE:
        list_around(path, fde)
    return explained.code_of(str(path))


def _reason(path, fde, truth, mine, symbols, place, text):
    """Why a difference is none of etch's errors, or None."""
    what, start, end, t, o = place
    code = _listing(path, fde, text)
    if what == "undef":
        return "the child's side of clone(2): no row" if explained.is_child(code, start) else None
    reason = explained.explain(path, symbols.at(start), start, end, t, o, what, fde, truth[0][2])
    if not reason and plainly(t) == o:
        reason = "the same in other words"
    if not reason and _late(code, truth, mine, start, end, t, o):
        reason = "proved; CFI follows the code some instructions late"
    if not reason and _contradicted(code, truth, mine, start, end, t, o):
        reason = "proved; by its own CFI of what follows, CFI is wrong there"
    if not reason and _entered(code, truth, mine, start, end, t, o):
        reason = "proved; by its own CFI of what jumps there, CFI is wrong"
    if not reason and _called(code, symbols.starts, start, end, t, o):
        reason = "proved; a function that is called, in the middle of an FDE"
    return reason


def _unusual(v, path, fde, truth, ours, text, symbols, proved=()):
    """An FDE whose rows are not the same: what of it counts as what."""
    mine = ours.between(truth[0][0], truth[-1][1])
    c = rows.compare([(s, e, r, "cfi") for s, e, r in truth], mine)
    v.agree += c.agree
    for what, places in c.where.items():
        if what in rows.AGREE:
            continue
        for start, end, t, o, _ in places:
            if what == "undef" and rows.is_odd(t):
                v.odd += end - start
                continue
            if not symbols:
                symbols.append(systemfiles.Symbols(path))
            if proved and what != "undef" and wide.is_proved(_listing(path, fde, text), proved, start, end):
                reason = "proved; one FDE spans several functions"
            else:
                reason = _reason(path, fde, truth, mine, symbols[0], (what, start, end, t, o), text)
            if reason:
                v.explained[reason] = v.explained.get(reason, 0) + end - start
                continue
            if what == "undef":
                v.undefined += end - start
            else:
                v.differ_bytes += end - start
            v.differ.append(f"{what} {start:x}-{end:x} {symbols[0].at(start)}: CFI {' '.join(t)} | ours {' '.join(o)}")


def apart(frame, base):
    """(start, end, rows) of each FDE, in order of address; of overlapping ones the first holds."""
    done = 0
    for start, end, cie, program in sorted(entries(frame, base), key=lambda f: f[:2]):
        own = fde_rows(start, end, cie, program)
        yield start, end, own if start >= done else [(max(s, done), e, r) for s, e, r in own if e > done]
        done = max(done, end)


def _judge_wide(v, path, file, fde, truth, ours, text):
    """Rows under an FDE of several functions: agreement with it says nothing there. Where ours are proved."""
    start, end = truth[0][0], truth[-1][1]
    if not file.is_suspect(start, end, truth):
        return set()
    code = _listing(path, fde, text)
    judged, wrong, proved = wide.judge(code, file.symbols, start, end, truth, ours.between(start, end))
    v.judged += judged
    for w in wrong:
        v.differ_bytes += w.end - w.start
        v.differ.append(f"refuted {w.start:x}-{w.end:x}: ours {' '.join(w.rule)}: {w.why}, by the function's own instructions")
    return proved


def verify(etch, path, frame, base, text):
    """The table of the rewritten file `path` against its .eh_frame (bytes, and their address), and where that
    has one FDE for several functions against their instructions; text: bytes of code."""
    v, ours, symbols, file = Verdict(), Ours.of(etch, path), [], wide.File(path)
    v.sources = ours.bytes
    for start, end, truth in apart(frame, base):
        v.fdes += 1
        if not truth:
            continue
        n = truth[-1][1] - truth[0][0]
        v.covered += n
        proved = _judge_wide(v, path, file, (start, end), truth, ours, text)
        i = bisect.bisect_right(ours.start, truth[0][0]) - 1
        if i >= 0 and is_same(truth, ours, i):
            v.agree += n
        else:
            _unusual(v, path, (start, end), truth, ours, text, symbols, proved)
    return v
