# SPDX-License-Identifier: MIT
"""An object's address in a word that is pushed only to make space, as clang 19 does by `push %rax`, and an address that a
register is only compared with: neither escapes. What may read the word is an escape."""
import pytest

from conftest import Flow

SOURCE = """
#include <etch/imv.h>
ETCHED_DENSE int a = 1;
int reads(void) { return a; }
void other(void);
__asm__(".text; .globl f; .type f, @function; f: .cfi_startproc\\n" BODY "\\n ret; .cfi_endproc; .size f, . - f");
"""
TAKEN = "lea a(%rip), %rax; push %rax;"
GONE = "; xor %eax, %eax"  # what is returned escapes
OVERWRITTEN = {
    "half of it": "mov %esi, 4(%rsp); pop %rcx",
    "the low half": "mov %esi, (%rsp); add $8, %rsp",
    "all of it": "mov %rsi, (%rsp); pop %rcx",
    "after other work": "add $3, %esi; mov other(%rip), %edx; mov %edx, 32(%rsp); lea 4(%rsp), %rdi; movl $7, 4(%rsp); pop %rcx",
    "by more than its size": "movups %xmm0, (%rsp); pop %rcx",
}
READ = {
    "an argument on the stack": "call other; pop %rcx",
    "two of its bytes stay": "mov %si, 4(%rsp); pop %rcx",
    "loaded": "mov (%rsp), %rdi; mov %esi, 4(%rsp); pop %rcx",
    "loaded in part": "mov 4(%rsp), %edi; mov %esi, 4(%rsp); pop %rcx",
    "perhaps loaded by a pointer": "mov (%rdi), %rdx; mov %esi, 4(%rsp); pop %rcx",
    "perhaps loaded by an index": "mov (%rsp,%rdi), %edx; mov %esi, 4(%rsp); pop %rcx",
    "popped": "pop %rdx; mov %rdx, (%rdi)",
    "another word is overwritten": "sub $8, %rsp; mov %rsi, (%rsp); add $16, %rsp",
    "the word below": "mov %rsi, -8(%rsp); pop %rcx",
    "on one path": "test %edi, %edi; je 1f; mov %rsi, (%rsp); 1: pop %rcx",
    "copied by a string instruction": "mov %rsp, %rsi; movsq; mov %esi, 4(%rsp); pop %rcx",
}


def escapes(tmp_path, build, body):
    flow = Flow(tmp_path, build, "gcc")
    o = flow.compile(SOURCE.replace("BODY", f'"{body}"'), ["-O2", "-w"], "a.o")
    flow.rewrite(o)
    return [r for r in flow.sites(o) if r["kind"] in ("escape", "store")]


@pytest.mark.parametrize("what", OVERWRITTEN)
def test_overwritten(tmp_path, build, what):
    assert not escapes(tmp_path, build, TAKEN + OVERWRITTEN[what] + GONE)


@pytest.mark.parametrize("what", READ)
def test_perhaps_read(tmp_path, build, what):
    assert escapes(tmp_path, build, TAKEN + READ[what] + GONE)


@pytest.mark.parametrize("compare", ["cmp $a, %rdi", "cmp $a, %edi", "cmp $a, %rax", "cmp $a, %eax", "cmpq $a, (%rdi)", "cmp $a+4, %r12"])
def test_only_compared(tmp_path, build, compare):
    """In code at fixed addresses the constant of a compare is an address, also that of the end of the object before."""
    assert not escapes(tmp_path, build, f"{compare}; sete %al")


@pytest.mark.parametrize("take", ["mov $a, %edi", "push $a; pop %rdi", "movq $a, (%rdi)", "or $a, %rdi", "sub $a, %rdi", "and $a, %edi", "test $a, %edi"])
def test_taken(tmp_path, build, take):
    assert escapes(tmp_path, build, f"{take}; mov %rdi, keep(%rip); ret; .comm keep, 8")
