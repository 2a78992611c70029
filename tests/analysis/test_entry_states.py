# SPDX-License-Identifier: MIT
"""Places that are taken for a function's entry, by a symbol or .eh_frame, but are entered in another state.

*Fragments*: code that is jumped to, or fallen into, with a frame, in each state of that frame and with .eh_frame that is
wrong, right or not there; perhaps it is called as well. *Entries*: code that is entered with words above the return
address, or that takes the address off the stack, with and without losing it.

The judge is the generator, which knows how far rsp is from the CFA at each place that it writes, since it has put the
words there. Where two states lead to a place, no row that claims a proof may be there. A row of .eh_frame alone may be
wrong where .eh_frame is, but then there is a finding."""

import itertools
import json

import pytest

from conftest import run

# ---- fragments -------------------------------------------------------------------

# How the function before has left the stack: its instructions, bytes pushed below the return address, their undoing.
STATES = {
    "entry": ([], 0, []),
    "deeper8": (["sub $8,%rsp"], 8, [(8, "add $8,%rsp")]),
    "deeper16": (["sub $16,%rsp"], 16, [(16, "add $16,%rsp")]),
    "deeper24": (["sub $24,%rsp"], 24, [(24, "add $24,%rsp")]),
    "rbp_pushed": (["push %rbp"], 8, [(8, "pop %rbp")]),
    "rbp_frame": (["push %rbp", "mov %rsp,%rbp", "sub $16,%rsp"], 24, [(24, "leave")]),
    "saved": (["push %rbx", "push %r12"], 16, [(8, "pop %r12"), (8, "pop %rbx")]),
}
REACHED = ("jmp", "jcc", "fall", "table", "two")
FDES = ("wrong", "right", "none")
SYMBOLS = ("local", "hidden", "label")
ALSO = ("", "call", "tail", "pointer", "taken")


class Source:
    """Assembly, and what is true at its places: label -> the CFA minus rsp, or None where two states lead there."""

    def __init__(self):
        self.lines, self.truth, self.data = [], {}, []

    def add(self, *lines):
        self.lines += lines

    def place(self, name, depth):
        label = f"at.{name}.{len(self.truth)}"
        self.truth[label] = depth
        self.add(f"{label}:")

    def function(self, name, kind="local", fde=None):
        """Begins one; fde: how far the CFA is from rsp by .eh_frame, or None: without."""
        if kind != "label":
            self.add(f"\t.type {name},@function")
        if kind == "hidden":
            self.add(f"\t.globl {name}", f"\t.hidden {name}")
        if kind == "global":
            self.add(f"\t.globl {name}")
        self.add(f"{name}:")
        if fde is not None:
            self.add("\t.cfi_startproc", f"\t.cfi_def_cfa rsp,{fde}")

    def end(self, name, kind="local", fde=None):
        if fde is not None:
            self.add("\t.cfi_endproc")
        if kind != "label":
            self.add(f"\t.size {name},.-{name}")

    def move(self, by, fde):
        """After an instruction that has moved rsp."""
        if fde is not None:
            self.add(f"\t.cfi_adjust_cfa_offset {by}")

    def text(self):
        return "\n".join(["\t.text", *self.lines, "\t.section .data.rel.ro,\"aw\"", *self.data,
                          '\t.section .note.GNU-stack,"",@progbits', ""])


def fragment(s, state, reached, fde, symbol, also):
    """A function and its fragment. Returns whether .eh_frame is contradicted by one of those who come there."""
    name = "_".join(("f", state, reached, fde, symbol, also or "only"))
    part = f"{name}.warm"
    code, depth, undo = STATES[state]
    hot = 8 if fde != "none" else None
    s.add("\t.p2align 4")
    s.function(name, "global", hot)
    at = 8
    s.place(name, at)
    for line in code:
        s.add(f"\t{line}")
        if line == "push %rbp" and hot is not None:
            s.add("\t.cfi_offset rbp,-16")
        by = {"push": 8, "sub": int(line.split("$")[1].split(",")[0]) if "$" in line else 0}.get(line.split()[0], 0)
        if by:
            s.move(by, hot)
        at += by
        s.place(name, at)
    assert at == 8 + depth
    s.add("\ttest %esi,%esi")
    if reached == "fall":
        s.add("\tje 1f", f"\tjmp {name}.back", "1:\tnop")
    elif reached == "table":
        s.add("\tcmp $1,%edi", f"\tja {name}.back", "\tmov %edi,%edi", f"\tlea {name}.tab(%rip),%rax",
              "\tmovslq (%rax,%rdi,4),%rcx", "\tadd %rax,%rcx", "\tjmp *%rcx",
              "\t.pushsection .rodata", "\t.p2align 2", f"{name}.tab:",
              f"\t.long {part}-{name}.tab", f"\t.long {name}.back-{name}.tab", "\t.popsection")
    elif reached == "jcc":
        s.add(f"\tjne {part}")
    else:
        s.add(f"\tje {name}.back", f"\tjmp {part}")

    def back(fde):
        s.add(f"{name}.back:")
        for by, line in undo:
            s.add(f"\t{line}")
            s.move(-by, fde)
            if state.startswith("rbp") and fde is not None:
                s.add("\t.cfi_restore rbp")
        s.add("\tret")

    if reached != "fall":
        back(hot)
    s.end(name, "global", hot)
    if reached != "fall":
        s.add("\tint3", "\t.p2align 5")
    of_fde = {"wrong": 8, "right": 8 + depth, "none": None}[fde]
    s.function(part, symbol, of_fde)
    # Where .eh_frame agrees with the jumps that a part begins there, a pointer is no proof of an entry, since a jump may
    # take it; nor is a jump without a frame, which compilers leave of places that are not reached. Nor is either one
    # where the code itself takes down the frame, as it does after what falls into it here.
    entered = also == "call" or (also and fde != "right" and reached != "fall")
    both = entered and depth != 0
    depths = {8 + depth} | ({8} if entered else set()) | ({8 + depth + 40} if reached == "two" else set())
    true = depths.pop() if len(depths) == 1 else None
    if state.startswith("rbp") and of_fde == 8 + depth:
        s.add("\t.cfi_offset rbp,-16")
    s.place(part, true)
    s.add("\tpush %rbx")
    s.move(8, of_fde)
    s.place(part, true and true + 8)
    s.add("\tcall *%rdi")
    s.place(part, true and true + 8)
    s.add("\tpop %rbx")
    s.move(-8, of_fde)
    s.place(part, true)
    if reached == "fall":
        back(of_fde)
    else:
        s.add(f"\tjmp {name}.back")
    s.end(part, symbol, of_fde)
    s.add("\t.p2align 4")
    if reached == "two":                                   # another function jumps there in a third state
        s.function(f"{name}.third", "local", 8 if fde != "none" else None)
        s.add(f"\tsub ${depth + 40},%rsp")
        s.move(depth + 40, hot)
        s.add("\ttest %esi,%esi", f"\tjne {part}", f"\tadd ${depth + 40},%rsp")
        s.move(-depth - 40, hot)
        s.add("\tret")
        s.end(f"{name}.third", "local", hot)
    if also in ("call", "tail", "taken"):
        s.function(f"{name}.other", "global", hot)
        s.add({"call": f"\tcall {part}\n\tnop", "tail": f"\tjmp {part}",
               "taken": f"\tlea {part}(%rip),%rax"}[also])
        s.add(*([] if also == "tail" else ["\tret"]))
        s.end(f"{name}.other", "global", hot)
    elif also == "pointer":
        s.data.append(f"\t.quad {part}")
    # No finding is wanted for what may never be taken: control at the end of a function, entries of a table.
    jumped = reached in ("jmp", "jcc", "two") and depth != 0
    return part, (jumped and fde == "wrong" or (jumped or reached == "table" and depth) and fde == "right" and also == "call"
                  or reached == "two" and fde != "none" and state == "entry")


def fragments(symbols, reaches):
    s, contradicted = Source(), set()
    s.function("die", "global", 8)
    s.add("\tret")
    s.end("die", "global", 8)
    for case in itertools.product(STATES, reaches, FDES, symbols, ALSO):
        part, wrong = fragment(s, *case)
        if wrong:
            contradicted.add(part)
    return s, contradicted


# ---- the judge ---------------------------------------------------------------------

def build(tmp_path, s, name="s"):
    source, path = tmp_path / f"{name}.s", tmp_path / f"{name}.so"
    source.write_text(s.text())
    run(["gcc", "-shared", "-nostdlib", "-o", path, source])
    return path


def rows(etch, path, *args):
    """The row at each place: label -> (CFA, source)."""
    places = sorted((int(x.split()[0], 16), x.split()[2]) for x in run(["nm", path]).stdout.splitlines() if " at." in x)
    table = [x.split("\t") for x in run([etch, "inspect", "orc", "--format", "tsv", *args, path]).stdout.splitlines()[1:]]
    out, k = {}, 0
    for at, label in places:
        while k < len(table) and int(table[k][0], 16) + int(table[k][1], 16) <= at:
            k += 1
        inside = k < len(table) and int(table[k][0], 16) <= at
        out[label] = (table[k][2], table[k][6]) if inside else ("undef", "code")
    return out


def cfa(depth):
    return "undef" if depth is None else f"rsp{depth:+d}"


def false_claims(s, got):
    """Places where a row claims a proof of what is not true."""
    assert set(got) == set(s.truth)
    return {label: (row, s.truth[label]) for label, row in got.items()
            if row[1] in ("both", "code") and row[0] != "undef" and row[0] not in (cfa(s.truth[label]), "rbp+16")}


def contradictions(etch, path):
    """The places with ETCH-C001, by their symbols."""
    names = {int(x.split()[0], 16): x.split()[2] for x in run(["nm", path]).stdout.splitlines()
             if len(x.split()) == 3 and " at." not in x}
    out = json.loads(run([etch, "check", "--format", "json", path], ok=(0, 1)).stdout)
    at = (int(x["place"]["address"], 16) for x in out["files"][0]["findings"] if x["id"] == "ETCH-C001")
    return {names.get(x, f"{x:x}") for x in at}


@pytest.mark.parametrize("reach", REACHED)
@pytest.mark.parametrize("args", [(), ("--no-cfi",)], ids=["", "no-cfi"])
def test_fragments(etch, tmp_path, reach, args):
    s, contradicted = fragments(SYMBOLS, [reach])
    path = build(tmp_path, s)
    got = rows(etch, path, *args)
    assert false_claims(s, got) == {}
    if not args:
        assert contradictions(etch, path) == contradicted


# ---- entries with words above the return address --------------------------------------

EXTRA = (0, 1, 2)
CFI = ("wrong", "right", "none")
ENTRY_ALSO = ("", "call", "pointer")


def pops(k):
    return [(8, f"pop {('%rax', '%rcx', '%r8')[i]}") for i in range(k)]



# What the code does with the stack, with so many words to take off: (bytes taken off, instruction); and with how many
# words above the return address that makes sense.
BODIES = {
    "pop_jmp": ((0, 1, 2), lambda k: [*pops(k), (0, "jmp *%rdx")]),
    "pop_ret": ((0, 1, 2), lambda k: [*pops(k), (0, "ret")]),
    "add_ret": ((1, 2), lambda k: [(8 * k, f"add ${8 * k},%rsp"), (0, "ret")]),
    "pop_worker": ((2,), lambda k: [*pops(k), (-8, "push %r10"), (0, "jmp worker")]),
    "pop_function": ((0, 1, 2), lambda k: [*pops(k), (0, "jmp plain")]),
    "pop_push": ((1, 2), lambda k: [(8, "pop %rax"), (0, "mov (%rdx),%rdx"), (-8, "push %rax"), *pops(k), (0, "jmp *%rdx")]),
    "pop_loop": ((1, 2), lambda k: [*pops(k), (0, "xor %eax,%eax"), (0, "9: call *%rdx"), (0, "jmp 9b")]),
    "pop_past": ((1, 2), lambda k: [*pops(k), (8, "pop %r9"), (0, "mov 24(%rax),%rax"), (0, "jmp *%rax")]),
    "branch": ((1, 2), lambda k: [*pops(k), (0, "test %edi,%edi"), (0, "je plain"), (0, "jmp *%rdx")]),
    "ret_n": ((0,), lambda k: [(0, "mov %rdi,%rax"), (0, "ret $16")]),
    "ra_jmp": ((0,), lambda k: [(8, "pop %rdi"), (0, "syscall"), (0, "jmp *%rdi")]),
    "ra_ret": ((0,), lambda k: [(8, "pop %rdi"), (0, "syscall"), (-8, "push %rdi"), (0, "ret")]),
    "ra_function": ((0,), lambda k: [(8, "pop %rdi"), (0, "syscall"), (-8, "push %rdi"), (0, "jmp plain")]),
    "ra_args": ((0,), lambda k: [(8, "pop %rdi"), (16, "add $16,%rsp"), (-8, "push %rdi"), (0, "ret")]),
    "below": ((0,), lambda k: [(8, "add $8,%rsp"), (0, "mov %edi,%eax"), (-8, "sub $8,%rsp"), (0, "ret")]),
    "two_ways": ((0,), lambda k: [(0, "test %edi,%edi"), (0, "jne 9f"), (0, "ret"), (0, "9: mov $1,%eax"),
                                  (8, "add $8,%rsp"), (0, "ret")]),
}

# Without wrong .eh_frame, all of their rows are there: something proves the entry, and they lose nothing.
PROVED = ("ret_n", "ra_jmp", "ra_ret", "ra_function", "ra_args", "below", "two_ways")


def entry(s, body, extra, cfi, symbol, also):
    """Returns its name."""
    name = "_".join(("e", body, str(extra), cfi, symbol, also or "only"))
    at = 8 + 8 * extra
    fde = {"wrong": 8, "right": at, "none": None}[cfi]
    s.add("\t.p2align 4")
    s.function(name, symbol, fde)
    for by, line in [(0, "mov $1,%r11d"), *BODIES[body][1](extra)]:
        s.place(name, at)
        s.add(f"\t{line}")
        at -= by
        if by and cfi == "right":
            s.move(-by, fde)
            if line == "pop %rdi":
                s.add("\t.cfi_register rip,rdi")
            elif line == "push %rdi":
                s.add(f"\t.cfi_offset rip,{-at}")
    s.end(name, symbol, fde)
    s.add("\tint3")
    if also == "call":
        s.function(f"{name}.caller", "global", 8)
        s.add(f"\tcall {name}", "\tret")
        s.end(f"{name}.caller", "global", 8)
    elif also == "pointer":
        s.data.append(f"\t.quad {name}")
    return name


def entries():
    s, contradicted, proved = Source(), set(), set()
    s.function("plain", "local", 8)
    s.add("\tmov %edi,%eax", "\tret", "\tint3")
    s.end("plain", "local", 8)
    s.function("worker", "local", 16)                       # entered with a word above the return address, and right
    for by, line in [(-8, "push %rbx"), (0, "call *%rdi"), (8, "pop %rbx"), (8, "add $8,%rsp"), (0, "jmp *%rax")]:
        depth = {"push %rbx": 16, "call *%rdi": 24, "pop %rbx": 24, "add $8,%rsp": 16, "jmp *%rax": 8}[line]
        s.place("worker", depth)
        s.add(f"\t{line}")
        s.move(-by, 16)
    s.end("worker", "local", 16)
    for body, cfi, symbol, also in itertools.product(BODIES, CFI, ("local", "global"), ("", "call", "pointer")):
        for extra in BODIES[body][0]:
            if also == "call" and extra:                    # a call puts none there
                continue
            name = entry(s, body, extra, cfi, symbol, also)
            if cfi == "wrong" and extra:
                contradicted.add(name)
            if body in PROVED and cfi != "wrong":
                proved.add(name)
    return s, contradicted, proved


@pytest.mark.parametrize("args", [(), ("--no-cfi",)], ids=["", "no-cfi"])
def test_entries(etch, tmp_path, args):
    s, contradicted, proved = entries()
    path = build(tmp_path, s)
    got = rows(etch, path, *args)
    assert false_claims(s, got) == {}
    lost = {label: row for label, row in got.items() if label.split(".")[1] in proved and row[0] != cfa(s.truth[label])}
    assert lost == {}
    if not args:
        found = contradictions(etch, path)
        assert contradicted <= found
        assert not {x for x in found if "_right_" in x or x == "worker"}
