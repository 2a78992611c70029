# SPDX-License-Identifier: MIT
"""Returns with a wrong stack pointer in code without .eh_frame (ETCH-S002, S007): functions with any number of missing and
extra pops; and code that returns to an address which it has put on the stack, of which nothing is said. What a caller has
in a callee-saved register, or an address on the stack, is no such address; the rest may be."""

import itertools
import json

import pytest

from conftest import run

SAVED = ("%rbx", "%rbp", "%r12", "%r13", "%r14", "%r15")
IDS = ("ETCH-S001", "ETCH-S002", "ETCH-S005", "ETCH-S007", "ETCH-F004")

# Bodies between pushes and pops: without a branch, with one, with a loop, with a call.
BODIES = {
    "straight": "\txorl\t%eax, %eax\n",
    "a branch": "\ttestl\t%edi, %edi\n\tje\t1f\n\tmovl\t$2, %eax\n1:\tincl\t%eax\n",
    "a loop": "1:\taddl\t%edi, %eax\n\tdecl\t%edi\n\tjne\t1b\n",
    "a call": "\tcall\tg\n",
}


def findings(etch, directory, functions, globl=True):
    """{name: [(ID, text)]} of functions without .eh_frame, by name: their text, in which @ is a number of each."""
    names = list(functions)
    text = "\t.text\n"
    for n, name in enumerate(names):
        text += (f"\t.p2align 4\n{f'	.globl	f{n}' if globl else ''}\n\t.type\tf{n}, @function\n"
                 f"f{n}:\n{functions[name]}\t.size\tf{n}, .-f{n}\n")
    (directory / "t.s").write_text(text + '\t.section .note.GNU-stack,"",@progbits\n')
    run(["as", "-o", "t.o", "t.s"], cwd=directory)
    p = run([etch, "check", "--each", "--format", "json", "--fail-on", "never", directory / "t.o"])
    found = {name: [] for name in names}
    for x in json.loads(p.stdout)["files"][0]["findings"]:
        if x["id"] in IDS:
            found[names[int(x["place"]["function"][1:])]].append((x["id"].removeprefix("ETCH-"), x["text"]))
    return found


def pushes(count, kind):
    if kind == "push":
        return "".join(f"\tpushq\t{r}\n" for r in SAVED[:count])
    return f"\tsubq\t${8 * count}, %rsp\n" + "".join(f"\tmovq\t{r}, {8 * n}(%rsp)\n" for n, r in enumerate(SAVED[:count]))


def pops(count, missing, kind):
    """What restores the registers but the last ones, and pops `-missing` more words."""
    if kind == "push":
        return "".join(f"\tpopq\t{r}\n" for r in reversed(SAVED[max(missing, 0):count])) + "\tpopq\t%rcx\n" * -missing
    return "".join(f"\tmovq\t{8 * n}(%rsp), {r}\n" for n, r in enumerate(SAVED[:count])) + f"\taddq\t${8 * (count - missing)}, %rsp\n"


@pytest.mark.parametrize("kind", ["push", "mov"])
def test_missing_and_extra(etch, tmp_path, kind):
    functions = {}
    for count, missing, body in itertools.product(range(5), range(-2, 4), BODIES):
        if missing <= count and (kind == "push" or count):
            functions[count, missing, body] = (pushes(count, kind) + BODIES[body] + pops(count, missing, kind)
                                               + "\tret\n")
    found = findings(etch, tmp_path, functions)
    wrong = {}
    for name, got in found.items():
        _, missing, _ = name
        want = {}
        if missing > 0:
            want = {"S002": f"returns with {8 * missing} bytes left on the stack"}
        elif missing < 0:  # every exit takes off as much
            want = {"S007": f"returns with {-8 * missing} bytes more taken off the stack than a call puts there"}
        if dict(got) != want:
            wrong[name] = got
    assert not wrong, (len(wrong), len(found), wrong)


@pytest.mark.parametrize("count", range(4))
def test_on_one_of_two_ways_out(etch, tmp_path, count):
    """The other way shows how the function is entered."""
    functions = {}
    for missing in range(-2, count + 1):
        if missing:
            functions[missing] = (pushes(count, "push") + "\ttestl\t%edi, %edi\n\tje\t1f\n" + pops(count, 0, "push") +
                                  "\tret\n1:\txorl\t%eax, %eax\n" + pops(count, missing, "push") + "\tret\n")
    wrong = {m: got for m, got in findings(etch, tmp_path, functions).items()
             if ("S002", f"returns with {8 * abs(m)} bytes {'left on' if m > 0 else 'too many popped off'} the stack") not in got}
    assert not wrong, "\n".join(map(str, wrong.items()))


# What is pushed, whatever stands between the push and the return: is it a jump to an address?
PUSHED = {
    "a number": ("\tpushq\t$target\n", True),
    "a number by a register": ("\tmovl\t$target, %eax\n\tpushq\t%rax\n", True),
    "an address": ("\tleaq\ttarget(%rip), %rax\n\tpushq\t%rax\n", True),
    "an argument": ("\tpushq\t%rdi\n", True),
    "from memory": ("\tpushq\t16(%rdi)\n", True),
    "from a table": ("\tmovq\ttable(,%rdi,8), %rax\n\tpushq\t%rax\n", True),
    "from a table, over a saved register": ("\tmovq\ttable(,%rdi,8), %rbx\n\tpushq\t%rbx\n", True),
    "stored into the frame": ("\tsubq\t$8, %rsp\n\tmovq\t%rax, (%rsp)\n", True),
    "exchanged": ("\tpushq\t%rax\n\tmovq\t(%rdi), %rax\n\txchgq\t%rax, (%rsp)\n", True),
    "the return address": ("\tmovq\t(%rsp), %rax\n\tpushq\t%rax\n", True),
    "a saved register": ("\tpushq\t%rbx\n", False),
    "two saved registers": ("\tpushq\t%rbx\n\tpushq\t%r12\n", False),
    "rbp": ("\tpushq\t%rbp\n", False),
    "a saved register by another": ("\tmovq\t%r12, %rax\n\tpushq\t%rax\n", False),
    "a frame": ("\tpushq\t%rbp\n\tmovq\t%rsp, %rbp\n", False),
    "the stack pointer": ("\tpushq\t%rsp\n", False),
    "an address in the frame": ("\tleaq\t64(%rsp), %rax\n\tpushq\t%rax\n", False),
    "what rax happens to hold, and a call": ("\tpushq\t%rax\n\tcall\tg\n", False),
}
BETWEEN = {"nothing": "", "an instruction": "\txorl\t%ecx, %ecx\n", "three": "\txorl\t%ecx, %ecx\n\tmovl\t%ecx, %esi\n\tcld\n"}


def test_what_is_pushed(etch, tmp_path):
    functions = {(what, between): text + BETWEEN[between] + "\tret\n"
                 for (what, (text, _)), between in itertools.product(PUSHED.items(), BETWEEN)}
    found = findings(etch, tmp_path, functions)
    wrong = {}
    for (what, between), got in found.items():
        if {i for i, _ in got} != (set() if PUSHED[what][1] else {"S002"}):
            wrong[what, between] = got
    assert not wrong, "\n".join(map(str, wrong.items()))


# Sound code as libraries have it.
SOUND = {
    "a retpoline": "\tcall\t2f\n1:\tpause\n\tlfence\n\tjmp\t1b\n2:\tmovq\t%rax, (%rsp)\n\tret\n",
    "a retpoline of rbx": "\tcall\t2f\n1:\tpause\n\tlfence\n\tjmp\t1b\n2:\tmovq\t%rbx, (%rsp)\n\tret\n",
    "a retpoline that moves rsp": "\tcall\t2f\n1:\tpause\n\tlfence\n\tjmp\t1b\n2:\tleaq\t8(%rsp), %rsp\n\tret\n",
    "swapcontext": "\tmovq\t%rbx, (%rdi)\n\tmovq\t(%rsp), %rcx\n\tmovq\t%rcx, 8(%rdi)\n\tmovq\t16(%rsi), %rsp\n"
                   "\tmovq\t8(%rsi), %rcx\n\tpushq\t%rcx\n\tmovq\t(%rsi), %rbx\n\tret\n",
    "a switch of stacks": "\tpushq\t%rbp\n\tpushq\t%rbx\n\tmovq\t%rsp, (%rdi)\n\tmovq\t(%rsi), %rsp\n\tpopq\t%rbx\n\tpopq\t%rbp\n\tret\n",
    "longjmp by a return": "\tmovq\t16(%rdi), %rsp\n\tpushq\t24(%rdi)\n\tmovl\t%esi, %eax\n\tret\n",
    "the return address moved down": "\tpopq\t%rcx\n\tsubq\t$64, %rsp\n\tpushq\t%rcx\n\tret\n",
    "the return address moved up": "\tpopq\t%rcx\n\taddq\t$16, %rsp\n\tpushq\t%rcx\n\tret\n",
    "arguments taken by the callee": "\tmovq\t8(%rsp), %rax\n\tret\t$8\n",
    "a jump behind a pop": "\tpopq\t%rcx\n\tjmp\t*%rcx\n",
    "a lazy resolver": "\tpushq\t%rax\n\tmovq\t16(%rsp), %rsi\n\tmovq\t8(%rsp), %rdi\n\tcall\tg\n\tmovq\t%rax, %r11\n\tpopq\t%rax\n"
                       "\taddq\t$16, %rsp\n\tjmp\t*%r11\n",
}


def test_sound(etch, tmp_path):
    assert not {name: got for name, got in findings(etch, tmp_path, SOUND).items() if got}


def test_local_functions(etch, tmp_path):
    """They may have conventions of their own: an address in rbx, words above the return address."""
    found = findings(etch, tmp_path, {
        "a jump to rbx": "\tpushq\t%rbx\n\tret\n",
        "entered with a word": "\txorl\t%eax, %eax\n\taddq\t$8, %rsp\n\tret\n",
        "a missing pop": "\tpushq\t%rbx\n\txorl\t%eax, %eax\n\tret\n",
    }, globl=False)
    assert {n: [i for i, _ in got] for n, got in found.items()} == {
        "a jump to rbx": [], "entered with a word": [], "a missing pop": ["S002"]}
