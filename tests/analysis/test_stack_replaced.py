# SPDX-License-Identifier: MIT
"""Code that goes on on another stack while .eh_frame says that the CFA is where rsp was: the frame is still that of the
register that holds it, over calls a callee-saved one."""

import pytest

from conftest import run
from marked_rows import LIBRARY, wrong

BEGIN = """
	.type	f, @function
	.globl	f
f:	.cfi_startproc
	row	8
	testl	$1, %edi
	jne	1f
	ret
"""

# OCaml 5 calls C so where it raises. After it rsp is the handler's, of which .eh_frame knows.
OCAML = BEGIN + """
1:	movq	%rsp, %r13
	movq	%rax, %r12
	movq	0x40(%r14), %rsp
	row	r13plus8
	leaq	8(%r13), %rdx
	row	r13plus8
	call	*%rax
	row	r13plus8
	movq	%r12, %rax
	movq	0x30(%r14), %rsp
	.cfi_def_cfa_offset 16
	row	16
	popq	0x30(%r14)
	.cfi_def_cfa_offset 8
	row	8
	ret
	.cfi_endproc
"""

# OpenSSL's bsaes_xts_encrypt: space on the stack by a register.
BY_REGISTER = BEGIN + """
1:	pushq	%rbp
	.cfi_def_cfa_offset 16
	.cfi_offset %rbp, -16
	row	16
	movq	%rsp, %rbp
	subq	%rsi, %rsp
	row	rbp16
	call	*%rax
	row	rbp16
	leave
	.cfi_def_cfa_offset 8
	.cfi_restore %rbp
	row	8
	ret
	.cfi_endproc
"""

# What holds the old frame is lost by the call, or nothing holds it: .eh_frame may mean the new one.
OTHERS = BEGIN + """
1:	movq	%rsp, %r11
	movq	0x40(%r14), %rsp
	row	8
	call	*%rax
	row	8
	ret
	.cfi_endproc
	.type	g, @function
	.globl	g
g:	.cfi_startproc
	row	8
	movq	%rsp, (%rdi)
	movq	(%rsi), %rsp
	row	8
	ret
	.cfi_endproc
"""


@pytest.mark.parametrize("source", [OCAML, BY_REGISTER, OTHERS], ids=["ocaml", "frame", "others"])
def test_a_register_that_still_holds_the_frame_is_believed(etch, tmp_path, source):
    assert not wrong(etch, tmp_path, source, *LIBRARY)


def test_a_callee_saved_register_is_preferred(etch, tmp_path):
    """Without .eh_frame: after the call rdx is anything."""
    source = "\t.globl f\n\t.type f, @function\nf:\tmovq %rsp, %r13\n\tleaq 8(%rsp), %rdx\n\tmovq 64(%r14), %rsp\n\trow r13plus8\n\tcall *%rax\n" \
             "\trow r13plus8\n\tmovq %r13, %rsp\n\trow 8\n\tret\n"
    assert not wrong(etch, tmp_path, source, *LIBRARY, strip=False)


def test_it_is_a_finding(etch, tmp_path):
    (tmp_path / "a.s").write_text("\t.macro row a\n\t.endm\n\t.text\n" + OCAML)
    run(["gcc", "-c", "-o", tmp_path / "a.o", tmp_path / "a.s"])
    said = run([etch, "check", "--fail-on", "never", tmp_path / "a.o"]).stdout
    assert "ETCH-C001" in said and "r13+8" in said and "rsp+8" in said


# A helper inside of a function, which changes rsp by other means than a push before it pops a word.
HELPER = """
	.globl	f
	.type	f, @function
f:	row	8
	pushq	%rbx
	row	16
	call	1f
	row	16
	popq	%rbx
	row	8
	ret
1:	row	8
	{change}
	popq	%rcx
	jmp	*%rdx
	.size	f, .-f
"""


@pytest.mark.parametrize("change", ["leave", "enter $16, $0", "xchgq %rsp, %rdi", "xchgq %rdi, %rsp", "xchgq %rsp, %rax", ".byte 0x48, 0x87, 0xfc",
                                    ".byte 0x48, 0x87, 0xe7", "movq %rdi, %rsp"])
def test_a_word_of_another_stack_is_no_return_address(etch, tmp_path, change):
    """What is popped is not what the call has pushed, so the call is one that returns."""
    assert not wrong(etch, tmp_path, HELPER.format(change=change), *LIBRARY, strip=False)


def test_a_return_address_that_is_popped(etch, tmp_path):
    """Without a change of rsp between them, the call only pushes a word."""
    source = HELPER.format(change="nop").replace("1:\trow\t8", "1:\trow\t24").replace("call\t1f\n\trow\t16", "call\t1f")
    assert not wrong(etch, tmp_path, source, *LIBRARY, strip=False)
