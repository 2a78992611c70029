# SPDX-License-Identifier: MIT
"""A judge for rows under an FDE that spans many functions: it cannot be the FDE itself, for rows that
are the FDE's agree with it. Found by the file alone (symbols, direct calls, prologues as objdump prints them);
each function is followed by the prover from a function's entry state, and a row that is refuted
is wrong, whatever .eh_frame says."""

import bisect
import re
import struct
from collections import namedtuple

import prover
import rows
from explained import _NOP, _STOPS
from rows import split_cfa

ENTRY = ("rsp+8", "same", "cfa-8", "call")
PROLOGUE = b"\x55\x48\x89\xe5"                   # push %rbp; mov %rsp, %rbp
EPILOGUE = re.compile(rb"[\x5d\xc9]\xc3")        # pop %rbp or leave; ret
LARGE = 8 << 10                                  # of an FDE with one row

# Of Dart (runtime/vm/compiler/stub_code_compiler.cc, _x64.cc): frames return to the first two where their code is no longer
# valid, and the runtime jumps to the next five with rsp and rbp of the frame that it goes on in. To the others functions that
# suspend jump in their own frame, which the stub takes down (LeaveDartFrame). No return address is pushed.
ENTERED_OTHERWISE = {"stub DeoptimizeLazyFromReturn", "stub DeoptimizeLazyFromThrow", "stub DeoptForRewind",
                     "stub RunExceptionHandler", "stub RunExceptionHandlerUnbox", "stub AsyncExceptionHandler",
                     "stub ResumeInterpreter", "stub ReturnAsync", "stub ReturnAsyncNotFuture", "stub ReturnAsyncStar"}

Wrong = namedtuple("Wrong", "start end rule why")


def _is_entered_otherwise(names, at):
    return names.startswith(b"stub ", at) and names[at:names.index(b"\0", at)].decode("latin-1") in ENTERED_OTHERWISE


class File:
    """Code and the starts of functions by symbols, read without a listing."""

    def __init__(self, path):
        self.symbols, self.code = set(), []
        with open(path, "rb") as f:
            elf = rows.ELFFile(f)
            for s in elf.iter_sections():
                if s["sh_type"] in ("SHT_SYMTAB", "SHT_DYNSYM"):
                    names = elf.get_section(s["sh_link"]).data()
                    self.symbols |= {value for name, info, _, index, value, _ in struct.iter_unpack("<IBBHQQ", s.data())
                                     if info & 15 in (2, 10) and index and not _is_entered_otherwise(names, name)}
                elif s["sh_flags"] & 4 and s["sh_type"] != "SHT_NOBITS":
                    self.code.append((s["sh_addr"], s.data()))
        self.code.sort()
        self.starts = sorted(self.symbols)

    def bytes(self, start, end):
        for addr, data in self.code:
            if addr <= start < addr + len(data):
                return data[start - addr:end - addr]
        return b""

    def is_suspect(self, start, end, truth):
        """Whether an FDE may be of several functions: by what is quick to see."""
        i = bisect.bisect_right(self.starts, start)
        if i < len(self.starts) and self.starts[i] < end:
            return True
        code = self.bytes(start, end)
        if code.count(PROLOGUE) > 1:
            return True
        return len(truth) == 1 and truth[0][2] != ENTRY and (end - start >= LARGE or bool(EPILOGUE.search(code)))


def _stops(code, i):
    """Nothing goes on from what is before instruction i, except for padding."""
    while i > 0 and _NOP.match(code.text[i - 1]):
        i -= 1
    return i == 0 or code.text[i - 1].startswith(_STOPS)


def functions(code, symbols, start, end, truth):
    """{start: whether it is certain} of the functions in [start, end). What has a symbol and is jumped to may have the frame
    of who jumps there (Dart's stubs that return from a function on its behalf)."""
    out = {}
    i, j = bisect.bisect_left(code.addr, start), bisect.bisect_left(code.addr, end)
    for k in range(i, j):
        at = code.addr[k]
        if at in symbols and (at != start or truth[0][2] == ENTRY):
            out[at] = at in code.called or at not in code.jumped
        elif at in code.called and not _is_pushed(code, truth, at):
            out[at] = True
        elif code.text[k].strip() == "push   %rbp" and k + 1 < j and code.text[k + 1].strip() == "mov    %rsp,%rbp" and _stops(code, k):
            out[at] = False
    return out


def _rule_at(truth, addr):
    i = bisect.bisect_right(truth, addr, key=lambda r: r[0]) - 1
    return truth[i][2] if i >= 0 and addr < truth[i][1] else None


def _is_pushed(code, truth, target):
    """A call for the word that it pushes: .eh_frame has the frame of the call at its target, a word further (OCaml's handlers)."""
    there = _rule_at(truth, target)
    reg, off = split_cfa(there[0]) if there else (None, None)
    if reg != "rsp" or off == 8:
        return False
    calls = re.compile(rf"(?:bnd )?call +{target:x}\b")
    for at, text in zip(code.addr, code.text):
        if truth[0][0] <= at < truth[-1][1] and calls.match(text):
            here = _rule_at(truth, at)
            if here and here[0] == f"rsp+{off - 8}":
                return True
    return False


def _returns(states, insns):
    """Whether all that is followed returns, somewhere, with stack and rbp as at the entry."""
    ends = [states[a] for a, text in insns if a in states and text.startswith(("ret", "repz ret", "bnd ret"))]
    return bool(ends) and all(s.regs["rsp"] == ("cfa", -8) and s.regs["rbp"] == (("in", "rbp"), 0) for s in ends)


def refuted(rule, s):
    """Why a rule is wrong in a state, or None."""
    if rule[3] != "call" or rule[2] != "cfa-8" or s.regs.get("rsp") is None or s.regs["rsp"][0] != "cfa":
        return None
    reg, off = split_cfa(rule[0])
    if reg and off > 0 and s.regs.get(reg) == (("in", reg), 0) and reg in ("rbx", "rbp", "r12", "r13", "r14", "r15"):
        return f"{reg} is the caller's there"
    cfa, bp = prover.holds(rule, s)
    if cfa is False:
        return "CFA"
    return "rbp" if bp is False and cfa else None


def judge(code, symbols, start, end, truth, mine):
    """(bytes judged, [Wrong], places whose row is proved) of an FDE; mine: (start, end, rule, ...) of our rows there."""
    judged, wrong, proved = 0, [], set()
    found = functions(code, symbols, start, end, truth)
    if not [a for a in found if a != start or truth[0][2] != ENTRY]:
        return 0, [], proved
    certain = sorted(a for a in found if found[a]) + [end]
    begins = [r[0] for r in mine]
    for a in sorted(found):
        # A prologue may as well be of a frame within a function's: that goes on after it.
        b = certain[bisect.bisect_right(certain, a)]
        insns = code.between(a, b) or []
        states = prover.Function(code, a, b, ENTRY).states
        if not found[a] and not _returns(states, insns):
            continue
        for n, (at, _) in enumerate(insns):
            if at not in states:
                continue
            stop = insns[n + 1][0] if n + 1 < len(insns) else b
            i = bisect.bisect_right(begins, at) - 1
            if i < 0 or at >= mine[i][1]:
                continue
            judged += stop - at
            why = refuted(mine[i][2], states[at])
            if why:
                wrong.append(Wrong(at, stop, mine[i][2], why))
            elif mine[i][2][2:] == ENTRY[2:] and all(prover.holds(mine[i][2], states[at])):
                proved.add(at)
    return judged, wrong, proved


def is_proved(code, proved, start, end):
    """Whether the row is proved at all instructions of [start, end) but padding, whose row is that of the code before it."""
    insns = code.between(start, end)
    return bool(insns) and any(a in proved for a, _ in insns) and all(a in proved or code.is_nop(a) for a, _ in insns)
