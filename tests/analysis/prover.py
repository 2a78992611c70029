# SPDX-License-Identifier: MIT
"""A judge for two rules that differ: follows one function of objdump's listing and
knows, at each instruction, what registers and stack slots hold in terms of the
CFA. It shares nothing with etch but the idea; slow, small, and used only where
etch and .eh_frame disagree.

A value is (base, offset) or None. Bases: "cfa"; ("in", reg), what the caller had in
a register; (address, reg), an unknown made at an instruction, as by `and $-16,%rsp`.
"""

import re

from rows import split_cfa

_SUB = {}
for _r in ("ax", "bx", "cx", "dx", "si", "di", "bp", "sp"):
    _SUB["r" + _r] = _SUB["e" + _r] = _SUB[_r] = "r" + _r
for _r in "abcd":
    _SUB[_r + "l"] = _SUB[_r + "h"] = f"r{_r}x"
for _r in ("si", "di", "bp", "sp"):
    _SUB[_r + "l"] = "r" + _r
for _n in range(8, 16):
    for _t in ("", "d", "w", "b"):
        _SUB[f"r{_n}{_t}"] = f"r{_n}"
REGS = sorted(set(_SUB.values()))
WIDE = set(REGS)

_MEM = re.compile(r"^(-?0x[0-9a-f]+|-?\d+)?\((%\w+)?(?:,(%\w+)?,?(\d)?)?\)$")
_RULE_MEM = re.compile(r"\*\((r[a-z0-9]+)([+-]\d+)\)([+-]\d+)?$")
_PREFIX = re.compile(r"^(?:(?:lock|rep|repz|repnz|notrack|bnd|data16|cs|ds|es|fs|gs|ss|addr32|rex(?:\.\w+)?|xacquire|xrelease)\s+)+")
# Functions known by name not to return, as objdump shows a call to them.
NORETURN = re.compile(r"^call.*<_*(cxa_throw|cxa_rethrow|Unwind_Resume|abort|exit|stack_chk_fail\w*|assert_fail|"
                      r"longjmp\w*|libc_start_main|ZSt\d+__throw_\w+|ZSt9terminatev|chk_fail|"
                      r"caml_ml_array_bound_error|caml_(?:re)?raise_exn|caml_raise_exception)[@>]")
_CMP = re.compile(r"cmp\s+%(r\w+),%(r\w+)$")
CLOBBERED = ("rax", "rcx", "rdx", "rsi", "rdi", "r8", "r9", "r10", "r11")
# What is written besides the last operand.
IMPLICIT = {
    "mul": ("rax", "rdx"), "div": ("rax", "rdx"), "idiv": ("rax", "rdx"), "cpuid": ("rax", "rbx", "rcx", "rdx"),
    "rdtsc": ("rax", "rdx"), "rdtscp": ("rax", "rdx", "rcx"), "xgetbv": ("rax", "rdx"), "syscall": ("rax", "rcx", "r11"),
    "cltq": ("rax",), "cqto": ("rdx",), "cltd": ("rdx",), "cwtl": ("rax",), "cbtw": ("rax",), "cwtd": ("rdx",),
    "cmpxchg": ("rax",), "lods": ("rax", "rsi"), "movs": ("rsi", "rdi", "rcx"), "stos": ("rdi", "rcx"),
    "scas": ("rdi", "rcx"), "cmps": ("rsi", "rdi", "rcx"), "loop": ("rcx",), "lahf": ("rax",), "rdpkru": ("rax", "rdx"),
}
NO_WRITE = ("cmp", "test", "bt ", "nop", "prefetch", "ucomi", "comi", "vucomi", "vcomi", "ptest", "vptest", "jmp",
            "push", "xsave", "fxsave", "stmxcsr", "fnstcw", "vtestp")


def add(v, n):
    return None if v is None else (v[0], v[1] + n)


class State:
    def __init__(self, regs, mem):
        self.regs, self.mem = regs, mem

    def copy(self):
        return State(dict(self.regs), dict(self.mem))

    def meet(self, other):
        """What holds in both; True when that is less than self."""
        changed = False
        for r in REGS:
            if self.regs.get(r) is not None and self.regs[r] != other.regs.get(r):
                self.regs[r] = None
                changed = True
        for k in [k for k, v in self.mem.items() if other.mem.get(k) != v]:
            del self.mem[k]
            changed = True
        return changed


def start_state(rule):
    """The state that a rule of the form reg+N with rbp `same` or a slot says."""
    regs = {r: ("in", r) for r in REGS}
    regs = {r: (v, 0) for r, v in regs.items()}
    mem = {}
    reg, off = split_cfa(rule[0])
    if reg is None or rule[2] != "cfa-8":
        return None
    regs[reg] = ("cfa", -off)
    if rule[1].startswith("cfa"):
        if reg != "rbp":
            regs["rbp"] = None
        mem[("cfa", int(rule[1][3:]))] = (("in", "rbp"), 0)
    elif rule[1] != "same":
        return None
    if reg != "rsp":
        regs["rsp"] = None
    return State(regs, mem)


def _operands(text):
    out, depth, last = [], 0, 0
    for i, c in enumerate(text):
        depth += (c == "(") - (c == ")")
        if c == "," and not depth:
            out.append(text[last:i])
            last = i + 1
    out.append(text[last:])
    return [o.strip() for o in out if o.strip()]


def _imm(text):
    n = int(text[1:], 16) if text.startswith(("$0x", "$-0x")) else int(text[1:])
    return n - (1 << 64) if n >= 1 << 63 else n


def place(op, s):
    """Where a memory operand is: (base, offset), or None."""
    m = _MEM.match(op)
    if not m or m.group(3) or not m.group(2) or m.group(2) == "%rip":
        return None
    return add(s.regs.get(m.group(2)[1:]), int(m.group(1), 16) if m.group(1) and "x" in m.group(1) else int(m.group(1) or 0))


def reg64(op):
    return op[1:] if op.startswith("%") and op[1:] in WIDE else None


def wipe(s, at, size=8):
    for k in [k for k in s.mem if k[0] == at[0] and at[1] - 8 < k[1] < at[1] + size]:
        del s.mem[k]


def width(op, src):
    """Bytes that an instruction stores, from its source or suffix."""
    if src.startswith("%"):
        name = src[1:]
        for prefix, n in (("xmm", 16), ("ymm", 32), ("zmm", 64)):
            if name.startswith(prefix):
                return n
        if name in WIDE:
            return 8
        if name in _SUB:
            return 4 if name.startswith("e") or name.endswith("d") and name[1].isdigit() else 2
        return 8
    return {"l": 4, "w": 2, "b": 1}.get(op[-1], 8)


def step(s, addr, text):
    """Executes one instruction. Returns (targets, goes on)."""
    text = text.split("#")[0].strip()
    text = _PREFIX.sub("", text)
    op, _, rest = text.partition(" ")
    rest = rest.split("<")[0].strip()
    ops = _operands(rest)
    r = s.regs
    if op.startswith("j"):
        goes = op != "jmp"
        if ops and ops[0].startswith("*"):
            return [], False
        return ([int(ops[0], 16)] if ops else []), goes
    if op in ("ret", "retq", "ud2", "hlt", "int3", "(bad)"):
        return [], False
    if op.startswith("call"):
        if NORETURN.match(text):
            return [], False
        for x in CLOBBERED:
            r[x] = None
        return [], True
    if op in ("push2", "push2p"):   # of APX: as two pushes, of the last operand first
        for x in reversed(ops):
            step(s, addr, f"push {x}")
        return [], True
    if op in ("pop2", "pop2p"):     # as two pops, into the last operand first
        for x in reversed(ops):
            step(s, addr, f"pop {x}")
        return [], True
    if op in ("push", "pushp"):
        v = r.get(reg64(ops[0])) if reg64(ops[0]) else None
        r["rsp"] = add(r["rsp"], -8)
        if r["rsp"] is not None:
            wipe(s, r["rsp"])
            if v is not None:
                s.mem[r["rsp"]] = v
        return [], True
    if op in ("pop", "popp"):
        v = s.mem.get(r["rsp"])
        r["rsp"] = add(r["rsp"], 8)
        if reg64(ops[0]):
            r[reg64(ops[0])] = v
        return [], True
    if op in ("leave", "leaveq"):
        r["rsp"] = r["rbp"]
        r["rbp"] = s.mem.get(r["rsp"])
        r["rsp"] = add(r["rsp"], 8)
        return [], True
    if op in ("pushf", "pushfq"):
        r["rsp"] = add(r["rsp"], -8)
        if r["rsp"] is not None:
            wipe(s, r["rsp"])
        return [], True
    if op in ("popf", "popfq"):
        r["rsp"] = add(r["rsp"], 8)
        return [], True
    for name, regs in IMPLICIT.items():
        if op.startswith(name) and not (name in ("movs", "mul", "div", "cmps") and
                                        (op.startswith(("movsb", "movss", "movsl", "movsw", "mulx", "muls", "mulp", "divs",
                                                        "divp", "cmpss", "cmpps", "cmpsd")) and "%" in rest and
                                         "(%rdi)" not in rest)):
            for x in regs:
                r[x] = None
    if op == "imul" and len(ops) == 1:
        r["rax"] = r["rdx"] = None
    if not ops or op.startswith(NO_WRITE):
        return [], True
    dst = ops[-1]
    src = ops[0]
    d = reg64(dst)
    if op in ("mov", "movq") and len(ops) == 2:
        if d:
            if reg64(src):
                r[d] = r[reg64(src)]
            elif place(src, s) is not None:
                r[d] = s.mem.get(place(src, s))
            else:
                r[d] = None
            return [], True
        p = place(dst, s)
        if p is not None:
            wipe(s, p, width(op, src))
            if reg64(src) and r.get(reg64(src)) is not None:
                s.mem[p] = r[reg64(src)]
            return [], True
    if op == "lea" and d:
        p = place(src, s)
        r[d] = p
        return [], True
    if op in ("add", "sub", "addq", "subq") and d and src.startswith("$"):
        r[d] = add(r[d], _imm(src) if op.startswith("add") else -_imm(src))
        return [], True
    if op in ("inc", "dec") and d:
        r[d] = add(r[d], 1 if op == "inc" else -1)
        return [], True
    if op == "and" and d and src.startswith("$"):
        r[d] = ((addr, d), 0)
        return [], True
    if op == "xchg" and d and reg64(src):
        r[d], r[reg64(src)] = r[reg64(src)], r[d]
        return [], True
    if op in ("xchg", "xadd"):
        for o in ops:
            if o[1:] in _SUB:
                r[_SUB[o[1:]]] = None
    if op == "mulx" and len(ops) == 3 and ops[1][1:] in _SUB:
        r[_SUB[ops[1][1:]]] = None
    if dst.startswith("%") and dst[1:] in _SUB:
        # A stack pointer less an unknown size is an unknown of its own.
        r[_SUB[dst[1:]]] = ((addr, d), 0) if d == "rsp" else None
    else:
        p = place(dst, s)
        if p is not None:
            wipe(s, p, width(op, src))
    return [], True


def handler(insns, i, s):
    """(address, state) of the handler that OCaml's code pushes as a trap frame, with the head of its list, or None:
    `lea handler(%rip),%r; push %r; push HEAD; mov %rsp,HEAD`. Who raises takes both words off, and keeps no register."""
    texts = [re.sub(r"\s+", " ", t) for _, t in insns[max(i - 3, 0):i + 1]]
    if len(texts) < 4 or not texts[3].startswith("mov %rsp,") or s.regs["rsp"] is None:
        return None
    head, lea = texts[3][len("mov %rsp,"):], re.match(r"lea -?0x[0-9a-f]+\(%rip\),(%\w+) *# ([0-9a-f]+)", texts[0])
    if not lea or texts[1] != f"push {lea[1]}" or texts[2] != f"push {head}":
        return None
    return int(lea[2], 16), State(dict.fromkeys(REGS) | {"rsp": add(s.regs["rsp"], 16)}, {})


class Function:
    """The states of one FDE, from its first row on."""

    def __init__(self, code, start, end, rule):
        self.states = {}
        insns = code.between(start, end) or []
        index = {a: i for i, (a, _) in enumerate(insns)}
        first = start_state(rule)
        if first is None or not insns:
            return
        work = [(start, first)]
        while work:
            addr, s = work.pop()
            i = index.get(addr)
            if i is None:
                continue
            while i < len(insns):
                addr, text = insns[i]
                old = self.states.get(addr)
                if old is None:
                    self.states[addr] = s.copy()
                elif not old.meet(s):
                    break
                s = self.states[addr].copy()
                trap = handler(insns, i, s) if text.startswith("mov ") and "%rsp," in text else None
                if trap:
                    work.append(trap)
                targets, goes = step(s, addr, text)
                for t in targets:
                    work.append((t, s.copy()))
                if not goes:
                    break
                equal = _CMP.match(insns[i - 1][1].strip()) if i and text.startswith("jne ") else None
                if equal:  # not taken: the end of a stack probe's loop
                    a, b = equal.groups()
                    known = s.regs.get(a) if (s.regs.get(a) or ("",))[0] == "cfa" else s.regs.get(b)
                    s.regs[a] = s.regs[b] = known
                i += 1


def holds(rule, s):
    """(CFA, rbp): True when proved, False when refuted, None when neither."""
    cfa, bp = rule[0], rule[1]
    m = _RULE_MEM.match(cfa)
    if m:
        p = add(s.regs.get(m.group(1)), int(m.group(2)))
        v = add(s.mem.get(p), int(m.group(3) or 0)) if p is not None else None
    else:
        reg, off = split_cfa(cfa)
        v = add(s.regs.get(reg), off) if reg else None
    cfa_ok = None if v is None or v[0] != "cfa" else v[1] == 0
    entry = (("in", "rbp"), 0)
    if bp == "same":
        v = s.regs.get("rbp")
        bp_ok = True if v == entry else None if v is None else False
    elif bp.startswith("cfa"):
        v = s.mem.get(("cfa", int(bp[3:])))
        bp_ok = True if v == entry else None if v is None else False
    elif bp == "undef":
        bp_ok = None
    else:
        m = _RULE_MEM.match(bp)
        p = add(s.regs.get(m.group(1)), int(m.group(2))) if m else None
        bp_ok = True if p is not None and s.mem.get(p) == entry else None
    return cfa_ok, bp_ok


# What has to do with the stack, or goes where that is not to be seen.
_STACK = re.compile(r"%[re]?[sb]p\b|%[sb]pl\b|\b(push|pop|call|leave|enter|syscall|int|iret|sysret|loop|xbegin)|\*|\(bad\)")
LEAF_MOST = 200


def returns_by_itself(code, start, end):
    """Whether all instructions of [start, end) lead to a `ret`, on all paths, without one among them
    that names rsp or rbp or stores to memory. The return address is then where rsp points to at
    each of them, for `ret` takes it from there, and rbp is what it will be in the caller."""
    work, seen = [a for a, _ in code.between(start, end) or []], set()
    ends = False
    if not work:
        return False
    while work:
        addr = work.pop()
        if addr in seen:
            continue
        seen.add(addr)
        insn = code.between(addr, addr + 1)
        if not insn or len(seen) > LEAF_MOST + end - start:
            return False
        text = insn[0][1].split("#")[0].split("<")[0].strip()
        if text.startswith(("ret", "repz ret", "bnd ret")):
            ends |= "$" not in text
            if "$" in text:
                return False
            continue
        ops = _operands(text.partition(" ")[2])
        if _STACK.search(text) or (ops and "(" in ops[-1] and not text.startswith(("cmp", "test", "lea", "nop", "prefetch"))):
            return False
        jump = re.match(r"j\w+\s+([0-9a-f]+)$", text)
        if text.startswith("j") and not jump:
            return False
        if jump:
            work.append(int(jump[1], 16))
        if not text.startswith("jmp"):
            follow = code.after(addr)
            if follow is None:
                return False
            work.append(follow)
    return ends


def judge(function, code, start, end, truth, ours):
    """What is proved of [start, end): "both", "ours", "cfi" or None."""
    seen = both = mine = theirs = 0
    # The interval may begin inside an instruction only if that is wrong.
    insns = code.between(start, end)
    if not insns or ours[3] != "call":
        return None
    for addr, _ in insns:
        s = function.states.get(addr)
        if s is None:
            if code.is_nop(addr):
                continue
            return None
        seen += 1
        o, t = holds(ours, s), holds(truth, s)
        ok_ours = o[0] and ours[2] == "cfa-8" and (o[1] or (ours[1] == "undef" and not t[1]))
        ok_truth = t[0] and t[1] and truth[2] == "cfa-8"
        both += bool(ok_ours and ok_truth)
        mine += bool(ok_ours)
        theirs += bool(ok_truth)
    if not seen:
        return None
    if both == seen:
        return "both"
    if mine == seen:
        return "ours"
    return "cfi" if theirs == seen else None
