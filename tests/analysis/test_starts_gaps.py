# SPDX-License-Identifier: MIT
"""Functions between others, in code without .eh_frame, that nothing is seen to lead to: their prologue shows them. The
source says which rows there are (tests/analysis/marked_rows.py)."""

import pytest

from conftest import run
from marked_rows import EXIT, LIBRARY, PROGRAM, wrong

ENTRY = """
	.globl	_start
_start:	nop
	call	known
	movl	$60, %eax
	xorl	%edi, %edi
	syscall
	ud2
	.globl	known
known:	row	8
	pushq	%rbx
	row	16
	movq	(%rdi), %rax
	call	*(%rax)
	popq	%rbx
	row	8
	ret
"""

# One that another of them calls, one without alignment, one with a slow path that makes a frame of its own, one that ends in a jump
# through a pointer.
FUNCTIONS = ENTRY + """
	pushq	%rbp
	row	16
	movq	%rsp, %rbp
	row	rbp16
	call	callee
	popq	%rbp
	row	8
	ret
	.p2align 4, 0xcc
callee:	row	8
	subq	$24, %rsp
	row	32
	addq	$24, %rsp
	row	8
	ret
	.byte	0x0f, 0x0b, 0x06	# data
	pushq	%rbp
	row	16
	movq	%rsp, %rbp
	row	rbp16
	testl	%edi, %edi
	je	1f
2:	movl	$1, %eax
	leave
	row	8
	ret	$16
1:	row	rbp16
	pushq	%rbp
	row	rbp16
	movq	%rsp, %rbp
	call	*%rax
	movq	%rbp, %rsp
	popq	%rbp
	row	rbp16
	jmp	2b
	.p2align 4, 0xcc
	row	undef
	xorl	%eax, %eax
	row	undef
	ret
	.p2align 4, 0xcc
	pushq	%rbp
	row	16
	movq	%rsp, %rbp
	row	rbp16
	testl	%esi, %esi
	je	3f
	popq	%rbp
	row	8
	jmp	*(%rsi)
3:	row	rbp16
	leave
	row	8
	ret
"""

# Without a frame pointer, where registers are saved or the stack is allocated.
PLAIN = ENTRY + """
	pushq	%r12
	row	16
	pushq	%rbx
	row	24
	movq	%rdi, %rbx
	call	*(%rdi)
	popq	%rbx
	row	16
	popq	%r12
	row	8
	ret
	.p2align 4, 0xcc
	subq	$40, %rsp
	row	48
	testl	%edi, %edi
	jne	1f
	addq	$40, %rsp
	row	8
	jmp	known
1:	row	48
	call	*%rsi
	addq	$40, %rsp
	row	8
	ret
	.p2align 4, 0xcc
	endbr64
	row	8
	movl	%edi, %eax
	row	8
	ret
"""

# A handler whose address is taken, and what it alone calls: one that only calls, and one that leaves with another rsp, as an unwinder does.
HANDLER = ENTRY.replace("call\tknown", "leaq\thandler(%rip), %rdi\n\tcall\tknown") + """
	.p2align 4
handler:	row	8
	pushq	%rbx
	row	16
	call	caller
	call	leaver
	movl	%eax, %ebx
	row	16
	popq	%rbx
	row	8
	ret
	.p2align 4
caller:	row	8
	subq	$8, %rsp
	row	16
	call	last
	addq	$8, %rsp
	row	8
	ret
	.p2align 4
leaver:	pushq	%rbx
	movq	%rdi, %rbx
	call	caller
	leaq	8(%rsp, %rsi), %rsp
	movq	%rbx, (%rsp)
	ret
	.p2align 4
last:	row	8
	movl	%edi, %eax
	row	8
	ret
"""

# Bytes like a prologue's in data, a frame that is not taken down, and what never returns begin no function.
NONE = ENTRY + """
	.p2align 4, 0xcc
	row	undef
	.byte	0x55, 0x48, 0x89, 0xe5, 0x06, 0x06
	row	undef
	.byte	0x55, 0x48, 0x89, 0xe5, 0xc3
	.p2align 4, 0xcc
	row	undef
	.byte	0x55, 0x48, 0x89, 0xe5
	popq	%rbp
	popq	%rbp
	row	undef
	ret
	.p2align 4, 0xcc
	row	undef
	.byte	0x55, 0x48, 0x89, 0xe5
	jmp	known
	.p2align 4, 0xcc
	row	undef
	pushq	%rbx
	movl	%edi, %ebx
	popq	%rax
	row	undef
	ret
	.p2align 4, 0xcc
	row	undef
	pushq	%rbx
	call	*%rax
	addq	$40, %rsp
	row	undef
	ret
	.p2align 4, 0xcc
	row	undef
	pushq	%rbp
	movq	%rsp, %rbp
	row	undef
1:	call	*%rax
	jmp	1b
"""


@pytest.mark.parametrize("flags", [LIBRARY, PROGRAM], ids=["library", "program"])
@pytest.mark.parametrize("source", [FUNCTIONS, PLAIN, HANDLER, NONE], ids=["functions", "plain", "handler", "none"])
def test_prologues_between_functions(etch, tmp_path, source, flags):
    assert not wrong(etch, tmp_path, source, *flags)


# A table of which nothing shows the size, and after it a word that leads into the next function. That one is not aligned, and
# lies after a return; its address is taken, and its frame pointer says that it is a function.
TAKEN = EXIT.replace("_start:", "_start:\tcall\ttakes\n") + """	.globl	takes
	.type	takes, @function
takes:	subq	$8, %rsp
	call	first
	addq	$8, %rsp
	leaq	third(%rip), %rax
	ret
	.size	takes, .-takes
	.p2align 4, 0xcc
first:	row	8
	pushq	%rbp
	row	16
	movq	%rsp, %rbp
	row	rbp16
	movl	(%rdi), %eax
	leaq	table(%rip), %rdx
	movslq	(%rdx,%rax,4), %rax
	addq	%rdx, %rax
	jmp	*%rax
1:	row	rbp16
	leaq	1(%rdi), %rax
	popq	%rbp
	row	8
	ret
second:	row	8
	pushq	%rbp
	row	16
	movq	%rsp, %rbp
	row	rbp16
body:	movq	(%rdi), %rax
	popq	%rbp
	row	8
	ret
	.p2align 4, 0xcc
	.globl	third
	.type	third, @function
third:	row	8
	leaq	second(%rip), %rax
	ret
	.size	third, .-third
	.section .rodata
	.p2align 2
table:	.long	1b-table, 1b-table, body-table
"""


@pytest.mark.parametrize("flags", [["-static-pie"], PROGRAM], ids=["pie", "program"])
def test_where_an_address_leads_to_a_frame_pointer_a_function_begins(etch, tmp_path, flags):
    assert not wrong(etch, tmp_path, TAKEN, *flags)


def test_of_an_object_symbols_say_what_is_a_function(etch, tmp_path):
    run(["gcc", "-x", "assembler", "-c", "-o", tmp_path / "a.o", "-"],
        input="f:\tret\n\tnop\n\tpush %rbp\n\tmov %rsp, %rbp\n\tpop %rbp\n\tret\n\t.type f, @function\n\t.size f, 1\n")
    assert "rbp+16" not in run([etch, "inspect", "orc", tmp_path / "a.o"]).stdout
