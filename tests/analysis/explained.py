# SPDX-License-Identifier: MIT
"""Where .eh_frame and the code disagree and neither harms or the CFI is the one
that is wrong. Each reason is checked against the file's instructions as objdump prints
them, a third witness, so that it cannot cover for a wrong row. What no rule
here explains, and PLACES does not name, is an error.
"""

import bisect
import functools
import re
import subprocess

import prover

# (base name of the file, function) -> reason, for what only reading the code
# explains. One that no longer applies is harmless, one that is missing fails.
PLACES = {
    ("libc.so.6", "____longjmp_chk"): "CFI describes the frame that is jumped to; rsp is still this function's",
}
# The same in whatever file the function is.
FUNCTIONS = {
    # From code alone: nothing in the code says that the other side of a system call has another stack.
    "clone": "the child of clone(2) on a new stack: its CFI ends it, its code looks like the parent's",
    "clone3": "the child of clone3(2) on a new stack: its CFI ends it, its code looks like the parent's",
    "_ZN11__sanitizer14internal_cloneEPFiPvES0_iS0_PiS0_S3_":
        "the child of clone(2) on a new stack: its CFI is that of the parent",
}

_STOPS = ("jmp", "ret", "ud2", "hlt", "notrack jmp", "bnd jmp", "bnd ret", "repz ret", "(bad)")
_NOP = re.compile(r"^(data16 |cs |rex\S* )*(nop[wl]?|xchg\s+%ax,%ax|int3)\b")


class Code:
    """The instructions of a file, read once and only when something differs."""

    def __init__(self, path, *only):
        out = subprocess.run(["objdump", "-d", "-w", "--no-show-raw-insn", *only, str(path)], stdout=subprocess.PIPE,
                             text=True, errors="replace").stdout
        self.key = (str(path), only)
        self.addr, self.text = [], []
        self.jumped = set()  # targets of direct jumps and calls
        self.sources = {}    # of direct jumps: target -> addresses
        for line in out.splitlines():
            head, tab, rest = line.partition(":\t")
            if not tab:
                continue
            try:
                at = int(head, 16)
            except ValueError:
                continue
            self.addr.append(at)
            self.text.append(rest.strip())
            if rest[0] == "j" or rest.startswith(("call", "bnd j", "notrack j")):
                word = rest.split()
                for w in word[1:3]:
                    try:
                        self.jumped.add(int(w, 16))
                        if "call" not in word[:2]:
                            self.sources.setdefault(int(w, 16), []).append(at)
                        break
                    except ValueError:
                        continue

    def go_on(self, tail):
        """Has the instructions of another listing in place of its own there, which decodes them from elsewhere."""
        i, j = bisect.bisect_left(self.addr, tail.addr[0]), bisect.bisect_right(self.addr, tail.addr[-1])
        self.addr[i:j], self.text[i:j] = tail.addr, tail.text
        self.jumped |= tail.jumped
        for target, at in tail.sources.items():
            self.sources[target] = sorted({*self.sources.get(target, ()), *at})
        self.__dict__.pop("called", None)

    def between(self, start, end):
        """[(address, text)], or None when start is not a boundary."""
        i = bisect.bisect_left(self.addr, start)
        if i == len(self.addr) or self.addr[i] != start:
            return None
        j = bisect.bisect_left(self.addr, end)
        return list(zip(self.addr[i:j], self.text[i:j]))

    @functools.cached_property
    def called(self):
        """Targets of direct calls."""
        calls = (re.match(r"(?:bnd )?call +([0-9a-f]+)\b", x) for x in self.text)
        return {int(m[1], 16) for m in calls if m}

    def after(self, addr):
        """Where the next instruction is, or None."""
        i = bisect.bisect_right(self.addr, addr)
        return self.addr[i] if i < len(self.addr) else None

    def is_nop(self, addr):
        i = bisect.bisect_left(self.addr, addr)
        return i < len(self.addr) and self.addr[i] == addr and bool(_NOP.match(self.text[i]))


_code = {}


def code_of(path):
    if path not in _code:
        _code.clear()
        _code[path] = Code(path)
    return _code[path]


def never_runs(code, start, end):
    """Padding: only NOPs, after what does not go on, and no direct jump leads in."""
    insns = code.between(start, end)
    if not insns:
        return False
    if not all(_NOP.match(t) for _, t in insns):
        return False
    if any(a in code.jumped for a, _ in insns):
        return False
    # Other rows may split one run of NOPs: what is before all of it decides.
    i = bisect.bisect_left(code.addr, start) - 1
    while i >= 0 and _NOP.match(code.text[i]) and code.addr[i] not in code.jumped:
        i -= 1
    return i >= 0 and (code.text[i].startswith(_STOPS) or code.text[i].startswith(("call", "*(bad)")))


def is_dead(path, start):
    """After a call to a function that is known by name not to return."""
    code = code_of(str(path))
    i = bisect.bisect_left(code.addr, start)
    return 0 < i < len(code.addr) and code.addr[i] == start and bool(prover.NORETURN.match(code.text[i - 1]))


def third(code, fde, first, start, end, truth, ours):
    """What the code alone says of two rules that differ: "padding", or a verdict of
    prover.judge()."""
    if never_runs(code, start, end):
        return "padding"
    if ours[3] != "call" or truth[3] != "call":
        return None
    return prover.judge(proof(code, fde, first), code, start, end, truth, ours)


_proofs = {}


def proof(code, fde, rule):
    key = (code.key, fde)
    if key not in _proofs:
        if len(_proofs) > 64:
            _proofs.clear()
        _proofs[key] = prover.Function(code, *fde, rule)
    return _proofs[key]


def _is_ibt_plt(code, i, start, end):
    """After the push of a PLT entry that begins with endbr64."""
    return end - start <= 2 and 1 < i < len(code.addr) and code.addr[i] == start and start & 15 == 9 and \
        code.text[i - 2].startswith("endbr64") and re.match(r"push +\$0x[0-9a-f]+$", code.text[i - 1])


def is_leaf(code, start, end):
    """Functions without a frame: called, or after what does not go on, and by themselves to their returns."""
    if start in code.called:
        return prover.returns_by_itself(code, start, end)
    i = bisect.bisect_left(code.addr, start)
    while i > 0 and _NOP.match(code.text[i - 1]) and code.addr[i - 1] not in code.jumped:
        i -= 1
    return i > 0 and code.text[i - 1].startswith(_STOPS) and prover.returns_by_itself(code, start, end)


def is_child(code, start):
    """The child's side of clone(2): between a system call that is one and where the parent goes on.
    The stack is another there, and .eh_frame mostly that of the parent."""
    i = bisect.bisect_left(code.addr, start)
    if i == len(code.addr) or code.addr[i] != start:
        return False
    for k in range(i - 1, max(i - 16, 2), -1):
        parent = re.match(r"jn[ez] +([0-9a-f]+)", code.text[k])
        if not parent or not code.text[k - 1].startswith("test ") or code.text[k - 2] != "syscall":
            continue
        number = re.compile(r"mov +\$0x(38|1b3),%[er]ax$")
        return int(parent[1], 16) > start and any(number.match(t) for t in code.text[max(k - 16, 0):k - 2])
    return False


def is_jumped_to(code, start, truth, ours):
    """longjmp: CFI in the middle of it is that of the frame it goes to, whose return address and
    stack pointer are in registers; rsp is still this function's."""
    if truth[2] not in prover.WIDE or not re.match(r"r(?![sb]p)", truth[0]) or ours[0] != "rsp+8":
        return False
    i = bisect.bisect_left(code.addr, start)
    return any(re.match(rf"jmp +\*%{truth[2]}$", t) for t in code.text[i:i + 12])


def is_twice(code, start, end, truth, ours):
    """The caller's rbp is in the register and in a slot: the instruction in front has loaded or saved it there, and nothing since
    then writes to the one that our rule names. (gcc 15 and later say in CFI only later, or never, what a part that is
    shrink-wrapped by itself has saved and restored, often where the witness does not come to: after a jump table.)"""
    cfa, slot = re.match(r"rsp([+-]\d+)$", truth[0]), re.match(r"cfa-(\d+)$", ours[1] if truth[1] == "same" else truth[1])
    i = bisect.bisect_left(code.addr, start)
    if not cfa or not slot or {"same", f"cfa-{slot[1]}"} != {truth[1], ours[1]} or truth[::2] != ours[::2] or \
            not 0 < i < len(code.addr) or code.addr[i] != start:
        return False
    place = int(cfa[1]) - int(slot[1])
    slot_text = rf"{'-' if place < 0 else ''}{hex(abs(place)) if place else ''}\(%rsp\)"
    if not re.match(rf"mov +({slot_text},%rbp|%rbp,{slot_text})$", code.text[i - 1]):
        return False
    while i < len(code.addr) and code.addr[i] < end:
        text = code.text[i]
        # What an instruction writes is its last operand. A callee gives rbp back, and may write to what it was given a pointer to.
        if ours[1] == "same":
            if re.search(r"[, ](%[er]?bp|%bpl)$", text) or re.match(r"pop|leave|xchg", text):
                return False
        elif re.match(r"call|push|pop|leave|xchg", text) or _may_store(text, place):
            return False
        i += 1
    return True


def _taken(code, i, first):
    """Does the instruction at i take rbp from where rbp points: by leave, by pop after mov %rbp,%rsp or lea -N(%rbp),%rsp and N bytes
    of other pops, or by pop where the words that were taken off the stack before are as many as those that the prologue, from
    `first` on, put there after mov %rsp,%rbp?"""
    if code.text[i] == "leave":
        return True
    if not re.match(r"popp? +%rbp$", code.text[i]):
        return False
    if re.match(r"mov +%rbp,%rsp$", code.text[i - 1]):
        return True
    off, put = 0, None
    while i := i - 1:
        if m := re.match(r"add +\$(0x[0-9a-f]+),%rsp$", code.text[i]):
            off += int(m[1], 16)
        elif re.match(r"popp? +%r(?!bp)\w+$", code.text[i]):     # popp: of APX
            off += 8
        elif not re.match(r"mov +\$0x[0-9a-f]+,%e?[a-d]x$", code.text[i]):     # a value to return
            break
    if off and re.match(rf"lea +-{off:#x}\(%rbp\),%rsp$", code.text[i]):
        return True
    k = bisect.bisect_left(code.addr, first)
    while k <= i:
        m = re.match(r"sub +\$(0x[0-9a-f]+),%rsp$", code.text[k])
        if re.match(r"mov +%rsp,%rbp$", code.text[k]):
            put = 0
        elif put is not None and re.match(r"pushp? +%r\w+$", code.text[k]):
            put += 8
        elif put is not None and m:
            put += int(m[1], 16)
        elif re.match(r"call|j|ret|leave|pop", code.text[k]) or re.search(r"[, ]%rsp$", code.text[k]) and put is not None:
            break
        k += 1
    return put == off


def is_left(code, start, end, truth, ours, first):
    """After the leave (or pop) that has taken rbp back from where CFI, right until then, says that it is: *(rbp+0). gcc leaves
    that rule in force, which now reads the caller's frame."""
    i = bisect.bisect_left(code.addr, start)
    if truth[1] != "*(rbp+0)" or ours != (truth[0], "same", *truth[2:]) or i == len(code.addr) or code.addr[i] != start:
        return False
    writes = re.compile(r"[, ](%[er]?bp|%bpl)$|pop|leave|xchg|call")
    while i < len(code.addr) and code.addr[i] < end:
        if re.search(writes, re.sub(r"popp? +%r(?!bp)\w+$", "", code.text[i])):
            return False
        i += 1
    i = bisect.bisect_left(code.addr, start)
    while i and code.addr[i] not in code.jumped:
        i -= 1
        if _taken(code, i, first):
            return True
        if re.search(writes, re.sub(r"popp? +%r(?!bp)\w+$", "", code.text[i])) or code.text[i].startswith(("ret", "jmp", "ud2", "hlt")):
            return False
    return False


def _may_store(text, place):
    """May an instruction write to the 8 bytes at place(%rsp)? Where it stores by another register, it may be to them; by rsp, where
    the two overlap."""
    stored = re.search(r"[ ,](-?0x[0-9a-f]+)?\(([^)]*)\)$", text)
    if not stored or re.match(r"cmp|test|jmp|nop", text):
        return False
    apart = int(stored[1] or "0", 16) - place
    size = 8 if re.match(r"mov[lqwb]? ", text) else 16 if "%xmm" in text else 64    # 64: of the widest vector
    return stored[2] != "%rsp" or -size < apart < 8


def explain(path, where, start, end, truth, ours, what, fde, first):
    """The reason why a difference is no error, or None. fde: (start, end); first: the rule
    of .eh_frame at its start."""
    name = str(path).rsplit("/", 1)[-1]
    code = code_of(str(path))
    verdict = third(code, fde, first, start, end, truth, ours)
    if verdict == "padding":
        return "padding: NOPs that nothing reaches"
    if verdict == "both":
        return "equivalent: both are proved"
    if verdict == "ours":
        return "proved; CFI is wrong there or names what is not tracked"
    if verdict == "cfi":
        return None
    if ours == ("rsp+8", "same", "cfa-8", "call") and is_leaf(code, start, end):
        return "proved by how it returns; CFI has the frame of the code around it"
    i = bisect.bisect_left(code.addr, start)
    if what == "cfa" and end - start == 1 and 0 < i < len(code.addr) and code.addr[i] == start and \
            re.match(r"push +0x[0-9a-f]+\(%rip\)", code.text[i - 1]):
        return "the PLT's entry for TLS descriptors pushes a byte earlier than the CFI's formula has it"
    if what == "cfa" and end - start == 1 and 1 < i < len(code.addr) and code.addr[i] == end and \
            code.text[i - 2].startswith("endbr64") and re.match(r"push +0x[0-9a-f]+\(%rip\)", code.text[i - 1]):
        return "the PLT's entry for TLS descriptors, with endbr64, pushes a byte later than the CFI's formula has it"
    if what == "cfa" and _is_ibt_plt(code, i, start, end) and ours[0] == f"rsp+{int(truth[0][4:]) + 8}":
        return "PLT with endbr64: the push ends earlier than the CFI's formula, made for one without, has it"
    if is_twice(code, start, end, truth, ours):
        return "equivalent: rbp has just been saved to the slot, or loaded from it"
    if is_left(code, start, end, truth, ours, fde[0]):
        return "proved; CFI still has rbp where leave has taken it from"
    if is_jumped_to(code, start, truth, ours):
        return "longjmp: CFI describes the frame that is jumped to; rsp is still this function's"
    if is_child(code, start):
        return "the child's side of clone(2): its CFI is that of the parent"
    function = where.split("+")[0].strip("(")
    return PLACES.get((name, function)) or FUNCTIONS.get(function)
