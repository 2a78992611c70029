# SPDX-License-Identifier: MIT
"""Padding between functions, in code without .eh_frame: whatever the bytes are, they are no code and hide no function, and
what lies after int3 or zero bytes begins one where the whole file shows that. The source says which rows there are
(tests/analysis/marked_rows.py)."""

import json

import pytest

from conftest import run
from marked_rows import LIBRARY, PROGRAM, wrong

# What stands between two functions. ALIGN is replaced by the alignment of the function after.
FILL = {
    "zeros": "\t.p2align ALIGN, 0",
    "one zero": "\t.byte 0",
    "two zeros": "\t.byte 0, 0",
    "seven zeros": "\t.zero 7",
    "int3": "\t.p2align ALIGN, 0xcc",
    "int3 without alignment": "\t.byte 0xcc, 0xcc, 0xcc",
    "short nops": "\t.p2align ALIGN, 0x90",
    "long nops": "\t.p2align ALIGN",
    "nop of six bytes": "\t.byte 0x66, 0x0f, 0x1f, 0x44, 0, 0",
    "nop of eleven bytes": "\t.byte 0x66, 0x66, 0x2e, 0x0f, 0x1f, 0x84, 0, 0, 0, 0, 0",
    "hlt": "\t.p2align ALIGN, 0xf4",
    "ud2": "\tud2\n\tud2\n\tud2",
    "int3, then zeros": "\tint3\n\t.p2align ALIGN, 0",
    "zeros, then nops": "\t.byte 0, 0, 0\n\t.p2align ALIGN, 0x90",
    "nops, then zeros": "\tnopl 0(%rax)\n\t.zero 3\n\t.p2align ALIGN, 0",
    "ud2, then zeros": "\tud2\n\t.p2align ALIGN, 0",
}

# One that is called, two that are not; the second makes space by lea, as Free Pascal does, the third ends in a call that does
# not return, and the fourth lies after that.
FUNCTIONS = """
	.globl	_start
_start:	call	known
	movl	$60, %eax
	xorl	%edi, %edi
	syscall
fill
known:	row	8
	pushq	%rbx
	row	16
	movq	%rdi, %rbx
	popq	%rbx
	row	8
	ret
fill
	row	8
	pushq	%rbx
	row	16
	pushq	%r12
	row	24
	leaq	-0x98(%rsp), %rsp
	row	176
	movq	%rdi, %rbx
	call	known
	leaq	0x98(%rsp), %rsp
	row	24
	popq	%r12
	row	16
	popq	%rbx
	row	8
	ret
fill
	row	8
	pushq	%rbx
	row	16
	testl	%edi, %edi
	je	1f
	popq	%rbx
	row	8
	ret
1:	row	16
	call	*%rsi
	ud2
fill
	row	8
	subq	$24, %rsp
	row	32
	call	known
	addq	$24, %rsp
	row	8
	ret
"""


@pytest.mark.parametrize("fill", FILL)
def test_padding_hides_no_function(etch, tmp_path, fill):
    source = FUNCTIONS.replace("fill", FILL[fill])
    more = source[source.index("known:"):].replace("known", "other")    # by another alignment
    assert not wrong(etch, tmp_path, source.replace("ALIGN", "4") + FILL[fill].replace("ALIGN", "6") + "\n" +
                     more.replace("ALIGN", "6"), *(PROGRAM if "nop" in fill else LIBRARY))


# The instruction that two zero bytes are, where control arrives: after a call, at a jump's target, and as the last one in front of
# an aligned address.
REAL = """
	.globl	_start
_start:	call	known
	call	second
	movl	$60, %eax
	xorl	%edi, %edi
	syscall
	ud2
	.p2align 4, 0
known:	row	8
	pushq	%rbx
	row	16
	call	*%rdi
	addb	%al, (%rax)
	row	16
	movq	%rax, %rbx
	testl	%eax, %eax
	jne	1f
	popq	%rbx
	row	8
	ret
1:	row	16
	addb	%al, (%rax)
	movl	$0, %eax
	row	16
	popq	%rbx
	row	8
	ret
	.p2align 4, 0
second:	row	8
	subq	$24, %rsp
	row	32
	jmp	2f
1:	row	32
	addb	%al, (%rax)
	addb	%al, (%rax)
	addq	$24, %rsp
	row	8
	ret
2:	row	32
	.nops	10
	addb	%al, (%rax)
	row	32
	testl	%eax, %eax
	jne	1b
	addq	$24, %rsp
	row	8
	ret
"""


@pytest.mark.parametrize("flags", [LIBRARY, PROGRAM], ids=["library", "program"])
def test_an_instruction_of_zero_bytes_cuts_nothing(etch, tmp_path, flags):
    assert not wrong(etch, tmp_path, REAL.replace("_start:", "_start:\n\t.globl known, second\n"), *flags)


# ---- files whose padding shows the functions ---------------------------------------------------------

COUNT = 40


def image(fill, numbers="", count=COUNT):
    """A program as GraalVM makes them: methods that nothing is seen to lead to preserve no register, and hold the heap's
    address in r14 and the thread in r15. Some only throw, some are leaves; `numbers` are words of data and code."""
    out = ["\t.globl _start", "_start:\tmovl $60, %eax", "\txorl %edi, %edi", "\tsyscall", "\tud2"]
    for i in range(count):
        out.append(f"""\t.p2align 4, {fill}
	.byte {fill}, {fill}
	.p2align 4, {fill}
method{i}:	row	8
	subq	$40, %rsp
	row	48
	cmpq	8(%r15), %rsp
	jbe	3f
	movq	%rdi, 16(%rsp)
	movabsq	$body{i}, %rbx
	leaq	(%r14,%rbx), %rbp
	jmp	2f
	.p2align 4
loop{i}:	row	48
	movq	$0, (%rbx,%rcx)
inner{i}:	leaq	8(%rcx), %rcx
2:	row	48
	cmpq	%rcx, %r8
	ja	loop{i}
	call	*%rbp
	nop
	testq	%rax, %rax
	je	3f
	.p2align 4
body{i}:	row	48
	addq	$40, %rsp
	row	8
	ret
3:	row	48
	call	throw
	nop
	.p2align 4, {fill}
	.byte {fill}, {fill}
	.p2align 4, {fill}
thrower{i}:	row	8
	subq	$24, %rsp
	row	32
	movq	16(%r14,%rdi), %rdi
	call	throw
	nop
	.p2align 4, {fill}
	.byte {fill}, {fill}
	.p2align 4, {fill}
leaf{i}:	row	8
	movq	8(%r14,%rdi), %rax
	row	8
	ret""")
    out.append(f"""	.p2align 4, {fill}
throw:	row	8
	subq	$8, %rsp
	row	16
	movq	%rsp, 40(%r15)
1:	call	*32(%r15)
	jmp	1b
	.data
	.p2align 3
""" + numbers)
    return "\n".join(out) + "\n"


def each(*lines):
    return "".join(line.replace("@", str(i)) + "\n" for i in range(COUNT) for line in lines)


NUMBERS = {
    "none": "\t.quad 0\n",
    "a lone word amid an instruction": "\t.quad loop7 + 3\n",
    "a lone word at an instruction": "\t.quad inner7\n",
    "aligned, behind nops": each("\t.quad loop@, 0"),
    "aligned, at the target of a jump": each("\t.quad body@", "\t.quad 0"),
    "among other numbers": each("\t.quad 1, loop@, 2, body@ + 1, 3, inner@"),
    "a table": each("\t.quad method@"),
    "a table with numbers": each("\t.quad leaf@, loop@, 0, body@, 0"),
}


@pytest.mark.parametrize("fill, numbers", [("0xcc", x) for x in NUMBERS] + [("0", "all")])
def test_numbers_that_equal_addresses_begin_no_function(etch, tmp_path, numbers, fill):
    assert not wrong(etch, tmp_path, image(fill, NUMBERS.get(numbers) or "".join(NUMBERS.values())), *PROGRAM)
    found = json.loads(run([etch, "check", "--format", "json", tmp_path / "s"], ok=None).stdout)["files"][0]["findings"]
    assert not [x for x in found if x["severity"] == "error"], found


def test_few_functions_show_nothing(etch, tmp_path):
    """Three methods make no regularity: what preserves no register, or does not return, keeps no row."""
    rows = dict(wrong(etch, tmp_path, image("0xcc", count=3), *PROGRAM))
    assert rows and set(rows.values()) == {"undef"}
