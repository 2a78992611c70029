# SPDX-License-Identifier: MIT
"""The analysis over all functions ends because what it knows only grows, not after so many rounds (tool/analysis/interproc/fixpoint.c):
long chains and cycles of functions that do not return, functions that would tell each other old news for ever, and
what no two rounds agree on."""

import csv
import io
import json
import re

import pytest

from conftest import run
from marked_rows import LIBRARY, PACKED, PROGRAM, wrong

# Longer than the tests take by far: what has no end is ended.
SECONDS = 120


def function(name, body, cfi=True):
    start, end = (".cfi_startproc\n", ".cfi_endproc\n") if cfi else ("", "")
    return f"\t.type {name},@function\n{name}:\t{start}{body}{end}\t.size {name},.-{name}\n"


PUSH, POP = "push %rax\n.cfi_adjust_cfa_offset 8\n", "pop %rax\n.cfi_adjust_cfa_offset -8\n"
EXIT = "mov $60,%eax\nsyscall\nud2\n"
NOTE = '\t.section .note.GNU-stack,"",@progbits\n'


def file(first, functions):
    return "\t.text\n\t.globl top\n" + first + "".join(functions) + NOTE


def chain(n, backward=False, between="", cfi=True):
    """top calls f0, each f its next, the last one ends the program; with `backward`, a callee lies before its caller."""
    call = lambda i: PUSH + f"call f{i}\n"
    strip = (lambda s: s) if cfi else (lambda s: re.sub(r"\.cfi_adjust.*\n", "", s))
    top = function("top", strip(call(0) + "xor %eax,%eax\n"), cfi)
    links = [function(f"f{i}", strip(call(i + 1) + between + POP + "ret\n"), cfi) for i in range(n)]
    links.append(function(f"f{n}", strip(PUSH + EXIT), cfi))
    return file(top, links[::-1] if backward else links)


def assemble(tmp_path, text, name="t.o"):
    path = tmp_path / name
    run(["as", "-o", path, "-"], input=text)
    return path


def findings(etch, path):
    p = run([etch, "check", "--format", "json", "--each", "--fail-on", "never", path], timeout=SECONDS)
    return json.loads(p.stdout)["files"][0]["findings"]


def rows(etch, path):
    """[(address, size, cfa)]"""
    p = run([etch, "inspect", "orc", "--format", "tsv", path], timeout=SECONDS)
    return [(int(r["address"], 16), int(r["size"], 16), r["cfa"]) for r in csv.DictReader(io.StringIO(p.stdout), delimiter="\t")]


def by_byte(got):
    return [(a + i, cfa) for a, size, cfa in got for i in range(size)]


@pytest.mark.parametrize("cfi", [True, False], ids=["cfi", "nocfi"])
@pytest.mark.parametrize("backward", [False, True], ids=["callee-behind", "callee-before"])
@pytest.mark.parametrize("n", [10, 100, 1000, 10000])
def test_chain(etch, tmp_path, n, backward, cfi):
    path = assemble(tmp_path, chain(n, backward, cfi=cfi))
    # All that is behind the calls, and nothing else: above all not that top goes on into what is behind it.
    assert [x["id"] for x in findings(etch, path)] == ["ETCH-F002"] * (n + 1)
    # push, call, pop | ret; at last push, mov, syscall | ud2
    links = [[8] + [16] * 6 + [8]] * n + [[8] + [16] * 7 + [16 if cfi else 0] * 2]
    want = [8] + [16] * 7 + sum(links[::-1] if backward else links, [])
    got = [(at, cfa) for at, cfa in by_byte(rows(etch, path)) if cfa != "undef"]
    assert got == [(i, f"rsp+{cfa}") for i, cfa in enumerate(want) if cfa]


@pytest.mark.parametrize("between", ["call f0\n", "call g\n", "test %edi,%edi\nje 1f\ncall f0\n1:\n"], ids=["back", "other", "branch"])
def test_chain_with_more_behind(etch, tmp_path, between):
    """What is after the calls says something to others as long as it seems to be reached."""
    text = chain(300, between=between).replace(NOTE, function("g", "ret\n") + NOTE)
    assert {x["id"] for x in findings(etch, assemble(tmp_path, text))} == {"ETCH-F002"}


@pytest.mark.parametrize("n", [2, 10, 300])
@pytest.mark.parametrize("returns", [False, True], ids=["none", "one"])
def test_cycle(etch, tmp_path, n, returns):
    """Each calls the next and the last the first, for ever; or one of them may return, and so all may."""
    body = lambda i: f"{PUSH}1:\tcall f{(i + 1) % n}\njmp 1b\n"
    way = f"{PUSH}1:\ttest %edi,%edi\nje 2f\ncall f0\njmp 1b\n2:\t{POP}ret\n"
    back = lambda i: f"{PUSH}call f{i + 1}\n{POP}ret\n"
    if returns:
        links = [function(f"f{i}", back(i)) for i in range(n - 1)] + [function(f"f{n - 1}", way)]
    else:
        links = [function(f"f{i}", body(i)) for i in range(n)]
    path = assemble(tmp_path, file(function("top", PUSH + "call f0\nxor %eax,%eax\n"), links))
    ids = sorted(x["id"] for x in findings(etch, path))
    # top goes on into f0 if f0 comes back; else what is after the calls is not reached.
    assert ids == (["ETCH-F001"] if returns else ["ETCH-F002"] * (n + 1))
    assert {r[2] for r in rows(etch, path)} == {"rsp+8", "rsp+16"}


RING = """
	.text
	.type	stop, @function
stop:	ud2
	.size	stop, .-stop
	.type	f, @function
f:	push	%rbx
	call	stop
	jmp	b
	.size	f, .-f
	.type	b.cold, @function
b.cold:
b:	sub	$16, %rsp
	jmp	c
	.size	b.cold, .-b.cold
	.type	c.cold, @function
c.cold:
c:	push	%rax
	jmp	b
	.size	c.cold, .-c.cold
"""


def test_ring(etch, tmp_path):
    """f does not get to b, as is known a round too late: b and c hand on its frame to each other, larger each time. Nothing
    else leads there, so that there are no rows; after so many rounds there was one of whatever it was then."""
    got = by_byte(rows(etch, assemble(tmp_path, RING + NOTE)))
    assert {cfa for at, cfa in got if at < 10} == {"rsp+8", "rsp+16"}
    assert {cfa for at, cfa in got if at >= 10} <= {"undef"}


CIRCLE = """
	.text
	.type	f, @function
f:	push	%rbx
	.cfi_startproc
self:	jmp	*(%rbp)
	call	self
	.cfi_endproc
	.p2align 4
	.globl	g
	.type	g, @function
g:	push	%rbx
	pop	%rbx
	ret
	.size	g, .-g
"""


def test_no_two_rounds_agree(etch, tmp_path):
    """What is called begins as functions do, and ends with the jump; what is not begins in a frame of rbp's, and then the
    jump may lead to the call. It has no rows, which is said; others have theirs. f has no size: where its end
    is known, that it falls into this place with a frame settles what begins there."""
    path, out = tmp_path / "t.so", tmp_path / "out.so"
    run(["ld", "-shared", "-o", path, assemble(tmp_path, CIRCLE + NOTE)])
    p = run([etch, "rewrite", "--no-cfi", "-o", out, path], timeout=SECONDS)
    said = [line for line in p.stderr.splitlines() if "do not settle" in line]
    assert len(said) == 1 and "+0x1: the frame is not known here: these 8 bytes" in said[0], p.stderr
    g = int(re.search(r"(\w+) T g", run(["nm", path]).stdout)[1], 16)
    got = {at - g: cfa for at, cfa in by_byte(rows(etch, out))}
    assert [got.get(i) for i in range(3)] == ["rsp+8", "rsp+16", "rsp+8"]
    assert {got.get(i, "undef") for i in range(-15, -7)} == {"undef"}


# `late` is all that calls `f`, and is found rounds after it: its address is taken by what data refers to over several steps.
# Until then `f` may be data, since it jumps into a named function, and nothing of it is analysed.
LATE = """
	.macro	takes name, next
	.p2align 4
\\name:	pushq	%rbx
	row	16
	leaq	\\next(%rip), %rax
	call	*%rax
	popq	%rbx
	row	8
	ret
	.endm
	.globl	named
	.type	named, @function
named:	row	8
	testl	%edi, %edi
	je	inside
	movl	$1, %eax
inside:	testl	%edi, %edi
	ret
	.size	named, . - named
	.p2align 4
f:	pushq	%rbx
	row	16
	movq	%rdi, %rbx
	popq	%rbx
	row	8
	jmp	inside
	.p2align 4
late:	pushq	%rbx
	row	16
	call	f
	row	16
	movq	%rbx, %rax
	pushq	%rcx
	row	24
	popq	%rcx
	popq	%rbx
	row	8
	ret
	takes	first, second
	takes	second, third
	takes	third, fourth
	takes	fourth, late
	.data
	.p2align 3
	.quad	f, first
"""


@pytest.mark.parametrize("flags", [LIBRARY, PACKED], ids=["relocations", "packed"])
def test_nothing_is_known_of_the_end_of_what_has_not_been_analysed(etch, tmp_path, flags):
    """It is not noreturn, which would never be withdrawn: code after calls of it has rows."""
    assert not wrong(etch, tmp_path, LATE, *flags)


# `part` is jumped to within a frame, until it is known that `dies` does not return; only then the words of data are looked at, which
# lead to the function that ends in a jump there.
VOID = """
	.globl	_start
_start:	xorl	%ebp, %ebp
	call	early
	ud2
	.p2align 4
early:	pushq	%rbx
	row	16
	call	dies
	jmp	part
	.p2align 4
dies:	subq	$8, %rsp
	row	16
	movl	$60, %eax
	syscall
	ud2
	.p2align 4
part:	row	8
	pushq	%rbp
	row	16
	movq	%rsp, %rbp
	row	rbp16
	movl	$1, %edi
	call	dies
	.p2align 4
late:	row	8
	pushq	%rbx
	row	16
	movq	%rdi, %rbx
	popq	%rbx
	row	8
	jmp	part
	.data
	.p2align 3
	.quad	late
"""


def test_what_was_a_part_of_code_that_is_not_reached_is_a_function(etch, tmp_path):
    assert not wrong(etch, tmp_path, VOID, *PROGRAM)


# A global label in a function cuts it, as those of the kernel's assembly do. What lies after the jump begins with a load from the
# frame, so it is no function; the branch says whose frame that is.
CUT = """
	.globl	cut, label, after
	.type	cut, @function
cut:	row	8
	subq	$24, %rsp
	row	32
	movq	%rdi, 8(%rsp)
	testl	%esi, %esi
label:	row	32
	jne	1f
	addq	$24, %rsp
after:	jmp	outside
1:	row	32
	movq	8(%rsp), %rax
	addq	$24, %rsp
	row	8
	jmp	outside
	.size	cut, . - cut
"""


def test_a_part_that_only_a_branch_leads_to_has_its_frame(etch, tmp_path):
    assert not wrong(etch, tmp_path, CUT, *LIBRARY, strip=False)


def test_where_an_address_leads_to_a_part_too_its_frame_is_unknown(etch, tmp_path):
    """The address is found last: in a function that only a word of data leads to."""
    source = CUT.replace("1:	row	32", "1:	row	undef").replace("addq	$24, %rsp\n	row	8\n	jmp	outside\n	.size", "ud2\n	.size")
    assert not wrong(etch, tmp_path, source + """
	.globl	_start
_start:	call	cut
	ud2
outside: ret
	.p2align 4
late:	pushq	%rbx
	leaq	1b(%rip), %rbx
	call	*%rbx
	popq	%rbx
	ret
	.data
	.p2align 3
	.quad	late
""", *PROGRAM, strip=False)


def scaled(etch, path, tmp_path):
    p = run(["valgrind", "--tool=cachegrind", "--cache-sim=no", f"--cachegrind-out-file={tmp_path / 'counts'}",
             etch, "rewrite", "-o", tmp_path / "out.o", path], timeout=600)
    return int(re.search(r"I +refs: +([\d,]+)", p.stderr)[1].replace(",", ""))


@pytest.mark.parametrize("backward", [False, True], ids=["callee-behind", "callee-before"])
@pytest.mark.parametrize("between", [pytest.param("", marks=pytest.mark.long), "call g\n"], ids=["plain", "calls"])
def test_instructions_of_a_chain(etch, tmp_path, backward, between):
    """Ten times as many functions take ten times the instructions, and what sorting adds: n log n would be 13.3."""
    def count(n):
        text = chain(n, backward, between).replace(NOTE, function("g", "ret\n") + NOTE)
        return scaled(etch, assemble(tmp_path, text), tmp_path)

    start, few, many = count(2), count(1000), count(10000)
    assert 8 < (many - start) / (few - start) < 13.3, (start, few, many)


def test_instructions_of_a_function_that_calls_all_of_a_chain(etch, tmp_path):
    """It is looked at once the chain is known, not after each of its functions: that would be 100 times the instructions."""
    def count(n):
        calls = "".join(f"test %edi,%edi\nje 1f\ncall f{i}\n1:\n" for i in range(n))
        text = chain(n).replace(NOTE, function("all", PUSH + calls + POP + "ret\n") + NOTE)
        return scaled(etch, assemble(tmp_path, text), tmp_path)

    start, few, many = count(2), count(400), count(4000)
    assert 8 < (many - start) / (few - start) < 14, (start, few, many)


SPREAD = """
f:	.cfi_startproc
	test %rsi,%rsi
	je 1f
	cmpb $0,(%rsi)
	je 3f
	jmp 4f
1:	sub $8,%rsp
	.cfi_adjust_cfa_offset 8
	call stop
	.cfi_adjust_cfa_offset -8
2:	mov (%rdi),%rax
	test $7,%al
	jne 5f
3:	mov (%rsi),%rdx
	jmp g
4:	cmp $3,%rdx
	ja 5f
	lea table(%rip),%r9
	movslq (%r9,%rdx,4),%rax
	add %r9,%rax
	jmp *%rax
5:	mov %rsi,%rdx
	jmp g
	.cfi_endproc
	.size f,.-f
g:	.cfi_startproc
	ret
	.cfi_endproc
	.size g,.-g
stop:	.cfi_startproc
	sub $8,%rsp
	.cfi_adjust_cfa_offset 8
6:	call g
	jmp 6b
	.cfi_endproc
	.size stop,.-stop
	.section .rodata
	.balign 4
table:	.long 2b-table,5b-table,2b-table,3b-table
"""


def test_code_after_a_call_whose_stack_words_are_gone(etch, tmp_path):
    """A jump table leads to the code after a call that does not return, and there rsp is another than the call would leave. Once
    that is known of the call, all rows of the function follow from its code."""
    path = tmp_path / "t.so"
    source = "\t.text\n\t.globl f\n\t.type f,@function\n\t.type g,@function\n\t.type stop,@function\n" + SPREAD + NOTE
    run(["gcc", "-shared", "-nostdlib", "-o", path, "-x", "assembler", "-"], input=source)
    p = run([etch, "inspect", "orc", "--format", "tsv", path])
    found = list(csv.DictReader(io.StringIO(p.stdout), delimiter="\t"))
    assert found and {r["source"] for r in found} == {"both"}, p.stdout
