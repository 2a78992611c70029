# SPDX-License-Identifier: MIT
"""Where FDEs of `etch rewrite --eh-frame` say that a callee-saved register is, by pyelftools; and what it costs to find that."""
import re
from pathlib import Path

import pytest
from elftools.dwarf.callframe import FDE
from elftools.elf.elffile import ELFFile

from conftest import run

LIBDIR = Path("/usr/lib/x86_64-linux-gnu")
RBX = 3
# Marks of code, and where the caller's rbx is there: at an offset from the CFA, in rbx itself ("same"), or at an expression.
PLACES = {"pushed": -16, "changed": -16, "popped": -16, "above": -0x208, "below": "same", "first": -16, "second": -32,
          "lost": "undef", "by_rbp": bytes([0x76, 0x70]), "by_rsp": bytes([0x77, 0x00]), "by_rsp_lower": bytes([0x77, 0x20])}
SOURCE = """
	.text
	.globl	_start
	.type	_start, @function
_start:	call	red
	call	deep
	call	copies
	call	base
	call	top
	mov	$60, %eax
	xor	%edi, %edi
	syscall
	.size	_start, . - _start
	.type	none, @function
none:	ret
	.size	none, . - none
	.type	red, @function
red:	push	%rbx
pushed:	xor	%ebx, %ebx
changed: call	none
	pop	%rbx
popped:	ret				# the slot is in the red zone
	.size	red, . - red
	.type	deep, @function
deep:	sub	$0x200, %rsp
	mov	%rbx, (%rsp)
	xor	%ebx, %ebx
above:	call	none
	mov	(%rsp), %rbx
	add	$0x200, %rsp
below:	nop				# a signal handler may write to the slot now
	ret
	.size	deep, . - deep
	.type	copies, @function
copies:	push	%rbx
	sub	$16, %rsp
	mov	%rbx, (%rsp)
	xor	%ebx, %ebx
first:	call	none
	movq	$0, 16(%rsp)
second:	call	none
	mov	(%rsp), %rax
	movq	$0, (%rsp)
lost:	call	none
	mov	%rax, %rbx
	add	$24, %rsp
	ret
	.size	copies, . - copies
	.type	base, @function
base:	lea	8(%rsp), %r10		# as compilers realign
	and	$-32, %rsp
	push	-8(%r10)
	push	%rbp
	mov	%rsp, %rbp
	push	%r10
	push	%rbx
	sub	$16, %rsp
	xor	%ebx, %ebx
by_rbp:	call	none
	mov	-16(%rbp), %rbx
	mov	-8(%rbp), %r10
	leave
	lea	-8(%r10), %rsp
	ret
	.size	base, . - base
	.type	top, @function
top:	push	%rbp
	mov	%rsp, %rbp
	and	$-32, %rsp
	push	%rbx
	xor	%ebx, %ebx
by_rsp:	sub	$32, %rsp
by_rsp_lower: call none
	mov	32(%rsp), %rbx
	leave
	ret
	.size	top, . - top
	.section .note.GNU-stack, "", @progbits
"""


def place_at(path, register, addr):
    """A register's rule at an address: of OFFSET the offset, of an expression its bytes, else "same" or "undef"."""
    with open(path, "rb") as f:
        for fde in ELFFile(f).get_dwarf_info().EH_CFI_entries():
            if not isinstance(fde, FDE) or not 0 <= addr - fde["initial_location"] < fde["address_range"]:
                continue
            rule = [line for line in fde.get_decoded().table if line["pc"] <= addr][-1].get(register)
            if rule is None or rule.type == "SAME_VALUE":
                return "same"
            return {"OFFSET": rule.arg, "UNDEFINED": "undef", "EXPRESSION": rule.arg if rule.type != "EXPRESSION" else bytes(rule.arg)}[rule.type]
    return None


def test_places(etch, tmp_path):
    (tmp_path / "t.s").write_text(SOURCE)
    run(["gcc", "-nostdlib", "-static", "-o", tmp_path / "t", tmp_path / "t.s"])
    at = {f[2]: int(f[0], 16) for f in map(str.split, run(["nm", tmp_path / "t"]).stdout.splitlines()) if len(f) == 3}
    run([etch, "rewrite", "--eh-frame", tmp_path / "t"])
    run([tmp_path / "t"])
    assert {name: place_at(tmp_path / "t", RBX, at[name]) for name in PLACES} == PLACES


def counted(tmp_path, *command):
    """Instructions of a command, by cachegrind."""
    p = run(["valgrind", "--tool=cachegrind", "--cache-sim=no", f"--cachegrind-out-file={tmp_path / 'counts'}", *command], timeout=600)
    return int(re.search(r"I +refs: +([\d,]+)", p.stderr)[1].replace(",", ""))


@pytest.mark.parametrize("option, most", [("--eh-frame=all", 1.15), ("--sframe", 1.09)])
@pytest.mark.parametrize("name", ["libcrypto.so.3", pytest.param("libsqlite3.so.0", marks=pytest.mark.long)])
def test_cost(name, option, most, build, tmp_path):
    """Instructions of a rewrite that writes rows for other tools, beside those of one that does not: 15% more are the aim."""
    if not (LIBDIR / name).exists():
        pytest.skip(f"no {name}")
    command = [build / "etch", "rewrite", "-j1", "-o", tmp_path / "out", LIBDIR / name]
    plain = counted(tmp_path, *command)
    assert counted(tmp_path, *command, option) < most * plain
