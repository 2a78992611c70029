# SPDX-License-Identifier: MIT
"""What the generator takes from elsewhere than the flow of one function: forms of
instructions it has met, DWARF's word that a function does not return, the bytes of a
signal restorer that no .eh_frame describes."""
import json
import os
import sys
from pathlib import Path

import pytest

from conftest import DATA, INCLUDE, ROOT, asan_env, run
from marked_rows import LIBRARY, wrong

sys.path.insert(0, str(DATA / "unwind"))
import rows as unwind  # noqa: E402

TOOL = ROOT / "tool"
FILES = ["/lib/x86_64-linux-gnu/libc.so.6", "/lib/x86_64-linux-gnu/libcrypto.so.3"]

# die() returns as far as its code tells. After its call in f(), rsp is 16 lower than
# where the jump from below leads to the same place.
DWARF = r"""
__attribute__((noreturn, noinline)) void die(void) { __asm__ volatile("ret"); __builtin_unreachable(); }
__asm__(".text\n.globl f\n.type f,@function\nf:\n\tsub $8,%rsp\n\ttest %edi,%edi\n\tje 2f\n\tsub $16,%rsp\n\tcall die\n"
	"1:\tadd $8,%rsp\n\tret\n2:\tnop\n\tjmp 1b\n.size f,.-f\n");
"""

# After the call of abort(), which does not return, rsp is 16 lower than where the jump comes from.
DEAD = """
	.text
	.globl f
	.type f,@function
f:	sub $24,%rsp
	test %edi,%edi
	je 1f
	sub $16,%rsp
	call abort@PLT
	xor %ecx,%ecx
1:	add $24,%rsp
	ret
	.size f,.-f
"""

# From 1 + 1 on, the bytes of two instructions are a push and others, of which the last ends inside the second.
OVERLAP = """
	.text
	.globl over
	.type over,@function
over:	test %edi,%edi
	jne 1f + 1
	jmp 1f
2:	ret
	.skip 104,0x90
1:	.byte 0xb8,0x50,0x90,0x90,0x04 # mov $imm,%eax; push %rax; nop; nop; ...
	.byte 0xeb,0x90                # jmp 2b; add $0xeb,%al; nop
	nop
	add $8,%rsp
	ret
	.size over,.-over
"""

ARGUMENTS = """
extern void bad(int, ...) __attribute__((noreturn));
extern int get(void);
extern void *const next[];
int f(int *p, int n)
{
	int x = get(), i = 0;

	if (n < 0)
		bad(1, 2, 3, 4, 5, 6, 7, 8, n);
	x += get();
	if (x > 3)
		goto a;
	__asm__ volatile goto("jmp *%0" : : "r"(p[x] ? &&b : &&c) : : b, c);
	__builtin_unreachable();
a:	x += get() * 3;
	if (p[1])
		bad(1, 2, 3, 4, 5, 6, 7, x, n);
b:	i += get() + x;
	__asm__ volatile goto("jmp *%0" : : "r"(p[i] ? &&a : &&c) : : a, c);
	__builtin_unreachable();
c:	x ^= get() - i;
	return x + i;
}
"""

RESTORER = """
	.text
	.globl restorer
	.type restorer,@function
restorer:
	mov $15,%rax
	syscall
	.size restorer,.-restorer
"""


def rows(etch, path, *args):
    out = run([etch, "inspect", "orc", "--format", "tsv", *args, path]).stdout.splitlines()
    names = out[0].split("\t")
    return [dict(zip(names, line.split("\t"))) for line in out[1:]]


@pytest.fixture(scope="module")
def forms(tmp_path_factory):
    program = tmp_path_factory.mktemp("forms") / "forms"
    run(["gcc", "-O2", "-DETCH_CHECK_STEPS", "-std=gnu11", "-D_GNU_SOURCE", "-Wall", "-Wextra", "-Werror", f"-I{TOOL}", f"-I{ROOT / 'lib'}", f"-I{INCLUDE}",
         "-o", program, DATA / "unwind" / "forms.c", *(TOOL / "arch/x86" / f"{name}.c" for name in ("fast_decoder", "encoding", "form", "shape", "step_full", "raw", "zydis", "newer", "newer_vector")), TOOL / "analysis/facts/space.c",
         TOOL / "elf/file.c", TOOL / "elf/file_lookup.c", TOOL / "elf/section_at.c", TOOL / "support/bounds.c", TOOL / "support/ending.c", TOOL / "support/error.c", TOOL / "support/memory.c", TOOL / "support/plain.c", TOOL / "support/sort.c", "-lZydis", "-lelf", "-lpthread"])
    return program


def test_an_instruction_is_the_same_with_and_without_its_form(forms):
    every = os.environ.get("ETCH_TESTS") == "all"
    out = run([forms, *FILES[:None if every else 1]]).stdout
    compared, differ = (int(w) for w in out.split() if w.isdigit())
    assert compared > (1_000_000 if every else 300_000) and differ == 0, out


def test_every_encoding_is_read_as_by_zydis(forms):
    """arch/x86/raw.c, encoding.c: all prefixes and opcodes of the maps, with many REX prefixes; by default each with
    every third ModRM byte, the rest at random."""
    out = run([forms, "--all", "1" if os.environ.get("ETCH_TESTS") == "all" else "3"]).stdout
    compared, differ = (int(w) for w in out.split() if w.isdigit())
    assert compared > 1_000_000 and differ == 0, out


def test_a_call_does_not_come_back_when_dwarf_says_so(tmp_path, build):
    source = tmp_path / "d.c"
    source.write_text(DWARF)
    cfa = {}
    for g in ("-g", "-g0"):
        run(["gcc", "-O2", "-fno-asynchronous-unwind-tables", g, "-c", source, "-o", tmp_path / f"d{g}.o"])
        cfa[g] = [r["cfa"] for r in rows(build / "etch", tmp_path / f"d{g}.o", "--at", "f")]
    # The end of f: `add` with one 8 bytes on the stack, `ret` with none.
    assert "undef" not in cfa["-g"] and cfa["-g"].count("rsp+16") >= 1, cfa
    assert cfa["-g"] != cfa["-g0"], cfa


# g() calls what is judged; where that comes back, two depths meet at 1.
JUDGED = """
	.text
	.globl g
	.type g, @function
g:	test %edi, %edi
	je 2f
	sub $24, %rsp
	call CALLED
1:	lea 1(%rdi), %eax
	jmp 1b
2:	xor %edi, %edi
	jmp 1b
	.size g, . - g
"""


def comes_back(tmp_path, build, called, *functions):
    """Whether a call of it does, as g()'s rows have it."""
    source, obj = tmp_path / "j.s", tmp_path / "j.o"
    source.write_text(JUDGED.replace("CALLED", called) + "".join(
        f"\t.p2align 4\n\t.globl {n}\n\t.type {n}, @function\n{n}:\t{body}\n\t.size {n}, . - {n}\n" for n, body in functions))
    run(["gcc", "-c", source, "-o", obj])
    at = {r["cfa"] for r in rows(build / "etch", obj, "--at", "g")}
    assert at in ({"rsp+8", "rsp+32"}, {"rsp+8", "rsp+32", "undef"})
    return "undef" in at


@pytest.mark.parametrize("last,fresh,back", [(0, 3, True), (1, 3, False), (1, 4, True), (2, 6, False), (2, 7, True)])
def test_a_function_of_another_file_is_judged_by_what_lies_behind_its_calls(tmp_path, build, last, fresh, back):
    """Nothing, in `last` functions; code that nothing else leads to, in three times as many at most."""
    ends = [(f"last{i}", "sub $8, %rsp; call other") for i in range(last)]
    goes_on = [(f"fresh{i}", "sub $24, %rsp; call other; add $24, %rsp; ret") for i in range(fresh)]
    assert comes_back(tmp_path, build, "other", *ends, *goes_on) == back


# A call with two words on the stack, after which other code leads with none of them; and the same where another block
# has pushed them, the frames differ the other way round, or rsp is set in between.
LEFT = ["push %rax; push %rax; call other; 1: add $8, %rsp; ret", "push %rax; push %rax; test %esi, %esi; je 2f; nop; 2: call other; 1: add $8, %rsp; ret",
        "pop %rax; call other; 1: add $8, %rsp; ret",
        "push %rax; push %rax; mov %rsp, %rcx; mov %rcx, %rsp; call other; 1: add $8, %rsp; ret"]


@pytest.mark.parametrize("left,fresh,back", [(0, 3, False), (0, 4, True), (1, 0, True), (2, 0, True), (3, 0, True)])
def test_a_call_whose_arguments_are_gone_behind_it_does_not_come_back(tmp_path, build, left, fresh, back):
    ends = [("left", "sub $8, %rsp; test %edi, %edi; jne 1f; " + LEFT[left])]
    goes_on = [(f"fresh{i}", "sub $24, %rsp; call other; add $24, %rsp; ret") for i in range(fresh)]
    assert comes_back(tmp_path, build, "other", *ends, *goes_on) == back


def test_code_behind_a_call_with_arguments_on_the_stack(tmp_path, build):
    """Code of gcc's that only jumps by registers lead to has not the frame of the call in front, as gcc's CFI says."""
    source, library = tmp_path / "l.c", tmp_path / "l.so"
    source.write_text(ARGUMENTS)
    for level in "-O0", "-O1", "-O2", "-Os":
        run(["gcc", level, "-fPIC", "-shared", "-o", library, source])
        assert "ETCH-C001" not in run([build / "etch", "check", library], ok=None).stdout, level


@pytest.mark.parametrize("to,back", [("other", True), ("abort", False), ("middle", False), ("middle2", True), ("unknown", True)])
def test_a_function_comes_back_where_what_it_jumps_to_does(tmp_path, build, to, back):
    functions = [("f", f"jmp {to}"), ("middle", "jmp abort"), ("middle2", "test %eax, %eax; je abort; jmp other"),
                 ("unknown", "test %eax, %eax; je 3f; call abort; 3: .byte 6; ret")]  # no instruction that anybody knows
    assert comes_back(tmp_path, build, "f", *functions) == back


def test_code_behind_a_call_that_does_not_come_back_says_nothing_to_what_follows(tmp_path, build):
    (tmp_path / "d.s").write_text(DEAD)
    run(["gcc", "-c", tmp_path / "d.s", "-o", tmp_path / "d.o"])
    lines = run(["objdump", "-d", "--no-show-raw-insn", tmp_path / "d.o"]).stdout
    got = {int(r["address"], 16): r["cfa"] for r in rows(build / "etch", tmp_path / "d.o", "--at", "f")}
    add, = (int(line.split(":")[0], 16) for line in lines.splitlines() if "add " in line)
    last = max(at for at in got if at <= add)
    assert got[last] == "rsp+32" and got[add + 4] == "rsp+8", (got, lines)


def test_what_changes_inside_another_instruction_is_known_behind_it(tmp_path, build):
    (tmp_path / "o.s").write_text(OVERLAP)
    run(["gcc", "-c", "-o", tmp_path / "o.o", tmp_path / "o.s"])
    size = 2 + 2 + 2 + 1 + 104 + 7 + 1 + 4 + 1
    got = {}
    for r in rows(build / "etch", tmp_path / "o.o", "--at", "over"):
        for at in range(int(r["address"], 16), int(r["address"], 16) + int(r["size"], 16)):
            got[at] = r["cfa"]
    assert [got[at] for at in (size - 13, size - 6, size - 5, size - 1)] == ["rsp+8", "rsp+16", "rsp+16", "rsp+8"]


def test_a_signal_restorer_needs_no_eh_frame(tmp_path, build):
    source = tmp_path / "r.s"
    source.write_text(RESTORER)
    run(["gcc", "-c", source, "-o", tmp_path / "r.o"])
    found = rows(build / "etch", tmp_path / "r.o")
    assert found[0]["kind"] == "signal" and found[0]["cfa"] == "*(rsp+160)+0", found
    assert found[0]["bp"] == "*(rsp+120)" and found[0]["ra"] == "*(rsp+168)", found


# The compiler knows more of an index than the comparison in front of the first table: after that
# table, or once its last value has been dealt with. What lies after the entries of the second
# table is a third one's, and leads into the middle of the push.
NARROWED = """
	.globl	f
	.type	f,@function
f:	.cfi_startproc
	movl	%edi, %edi
	cmpl	$3, %edi
	ja	9f
	{first}
2:	leaq	.Lsecond(%rip), %rax
	movslq	(%rax,%rdi,4), %rcx
	addq	%rax, %rcx
	jmp	*%rcx
3:	xorl	%eax, %eax
9:	ret
4:	movl	$0x5b5b5b5b, %eax
5:	ret
	.cfi_endproc
	.size	f, .-f
	.section .rodata
	.p2align 2
.Lfirst: .long 2b-.Lfirst, 2b-.Lfirst, 3b-.Lfirst, 4b-.Lfirst
	.fill	16
.Lsecond: .long 3b-.Lsecond, 4b-.Lsecond, 5b-.Lsecond
	.long	4b+1-.Lsecond
	.text
	.globl	main
main:	xorl	%eax, %eax
	ret
	.section .note.GNU-stack,"",@progbits
"""


@pytest.mark.parametrize("first", [
    "leaq .Lfirst(%rip), %rax; movslq (%rax,%rdi,4), %rcx; addq %rax, %rcx; jmp *%rcx",
    "cmpl $3, %edi; je 4f",
], ids=["behind a table", "without its last value"])
def test_a_bound_that_the_compiler_knew_better(first, tmp_path, build):
    """0x5b is pop %rbx: whoever followed the fourth entry has rows of a function that pops."""
    source, program = tmp_path / "t.s", tmp_path / "t"
    source.write_text(NARROWED.replace("{first}", first))
    run(["gcc", "-o", program, source])
    out = json.loads(run([build / "etch", "inspect", "code", "f", "--no-cfi", "--json", program]).stdout)
    code = (out[0] if isinstance(out, list) else out)["code"]
    assert {i["cfa"] for i in code} == {"rsp+8"}
    found = run([build / "etch", "check", "--no-cfi", "--level", "note", program], ok=(0, 1)).stdout
    assert "ETCH-D006" not in found and "ETCH-S00" not in found


# One table right after the other. With the frames of two jumps of which one may lead anywhere, only a table says which frame
# its targets have.
ADJACENT = """
	.globl	f
	.type	f, @function
f:	row	8
	testl	%edx, %edx
	jne	1f
	cmpl	$1, %edi
	ja	3f
	movl	%edi, %edi
	leaq	one(%rip), %rdx
	movslq	(%rdx,%rdi,4), %rax
	addq	%rdx, %rax
	jmp	*%rax
1:	pushq	%rbx
	row	16
	cmpl	$1, %esi
	ja	4f
	movl	%esi, %esi
	leaq	two(%rip), %rdx
	movslq	(%rdx,%rsi,4), %rax
	addq	%rdx, %rax
	jmp	*%rax
2:	row	8
	incl	%eax
3:	ret
4:	row	16
	jmp	*%r8
5:	row	16
	popq	%rbx
	row	8
	ret
	.size	f, .-f
	.section .rodata
	.p2align 2
one:	.long	2b - one, 3b - one
two:	.long	5b - two, 4b - two
"""


def test_a_table_ends_where_the_next_begins(tmp_path, etch):
    assert not wrong(etch, tmp_path, ADJACENT, *LIBRARY)


# The comparison says eight, the table has two; what lies after it are entries of g()'s own.
BEYOND = """
	.macro	SWITCH most, otherwise, table
	cmpl	$\\most, %edi
	ja	\\otherwise
	leaq	\\table(%rip), %rax
	movl	%edi, %edi
	movslq	(%rax,%rdi,4), %rcx
	addq	%rax, %rcx
	jmp	*%rcx
	.endm
	.globl	f
	.type	f,@function
f:	.cfi_startproc
	SWITCH	7, 9f, .Lf
3:	xorl	%eax, %eax
9:	ret
	.cfi_endproc
	.size	f, .-f
	.globl	g
	.type	g,@function
g:	.cfi_startproc
	pushq	%rbx
	.cfi_def_cfa_offset 16
	.cfi_offset 3, -16
	subq	$32, %rsp
	.cfi_def_cfa_offset 48
	SWITCH	5, 7f, .Lg
6:	movl	$1, %ebx
7:	movl	%ebx, %eax
	addq	$32, %rsp
	.cfi_def_cfa_offset 16
	popq	%rbx
	.cfi_def_cfa_offset 8
	ret
	.cfi_endproc
	.size	g, .-g
	.section .rodata
	.p2align 2
.Lf:	.long	3b-.Lf, 9b-.Lf
.Lg:	.long	6b-.Lf, 7b-.Lf, 6b-.Lf, 7b-.Lf, 6b-.Lf, 7b-.Lf
	.text
	.globl main
main:	xorl	%eax, %eax
	ret
	.section .note.GNU-stack,"",@progbits
"""


def test_a_table_does_not_reach_into_another_frame(tmp_path, build):
    """Whoever followed all eight entries has f()'s frame in the middle of g()."""
    source, program = tmp_path / "t.s", tmp_path / "t"
    source.write_text(BEYOND)
    run(["gcc", "-o", program, source])
    found = rows(build / "etch", program, "--at", "g")
    assert [r["cfa"] for r in found if r["kind"] == "call"][:5] == ["rsp+8", "rsp+16", "rsp+48", "rsp+16", "rsp+8"], found
    said = run([build / "etch", "rewrite", "-v", "-o", tmp_path / "out", program]).stderr
    assert "ETCH-C001" not in said and "in f" not in said, said


# Tables among the code, without a bound: as libffi has them. 0x5e, in the first, is pop %rsi. The
# second is jumped through with another frame, so that nothing is what all jumps have in common.
INNER = """
	.macro	SWITCH table
	leaq	\\table(%rip), %rdx
	movslq	(%rdx,%rdi,4), %rax
	addq	%rdx, %rax
	jmp	*%rax
	.endm
	.globl	f
	.type	f,@function
f:	.cfi_startproc
	SWITCH	1f
1:	.long	2f-1b, 3f-1b, 0x5e, 2f-1b
2:	xorl	%eax, %eax
	ret
3:	pushq	%rbx
	.cfi_def_cfa_offset 16
	.cfi_offset 3, -16
	subq	$16, %rsp
	.cfi_def_cfa_offset 32
	SWITCH	4f
4:	.long	5f-4b, 6f-4b, 6f-4b, 5f-4b, 5f-4b
5:	incl	%esi
6:	movl	%esi, %eax
	addq	$16, %rsp
	.cfi_def_cfa_offset 16
	popq	%rbx
	.cfi_restore 3
	.cfi_def_cfa_offset 8
	ret
	.org	1b+0x5e, 0x90
	movl	$7, %eax
	ret
	.cfi_endproc
	.size	f, .-f
	.section .note.GNU-stack,"",@progbits
"""


@pytest.mark.parametrize("how", [[], ["--no-cfi"]], ids=["cfi", "code alone"])
def test_a_table_among_the_code_is_no_code(how, tmp_path, build):
    source, library = tmp_path / "t.s", tmp_path / "t.so"
    source.write_text(INNER)
    run(["gcc", "-shared", "-nostdlib", "-o", library, source])
    if not how:
        assert "ETCH-C001" not in run([build / "etch", "check", library], ok=(0, 1)).stdout
    truth, _ = unwind.cfi_rows(library)
    found = unwind.compare(truth, unwind.inspect_rows(build / "etch", library, *how))
    tables = 4 * (4 + 5) if how else 0
    assert found.covered - found.agree == tables and set(found.where) <= {"undef", *unwind.AGREE}, found.where


# Nothing leads to the last lines of f(), and they alone refer to `hidden`, which no FDE, no symbol
# and no call shows to be code.
UNREACHED = """
	.globl	f
	.type	f,@function
f:	.cfi_startproc
	xorl	%eax, %eax
	ret
	leaq	hidden(%rip), %rax
	movq	%rax, (%rdi)
	ret
	.cfi_endproc
	.size	f, .-f
	.p2align 4
hidden:	pushq	%rbx
	popq	%rbx
	ret
	.section .note.GNU-stack,"",@progbits
"""


def test_what_looks_at_code_does_not_change_its_rows(tmp_path, build):
    """etch check and etch inspect code decode more than the flow reaches: rows are the same."""
    source, library = tmp_path / "t.s", tmp_path / "t.so"
    source.write_text(UNREACHED)
    run(["gcc", "-shared", "-nostdlib", "-s", "-o", library, source])
    run([build / "etch", "rewrite", library])
    assert "ETCH-F002" in run([build / "etch", "check", "--level", "note", library], ok=(0, 1)).stdout
    for path in (library, "/usr/bin/gzip", "/lib/x86_64-linux-gnu/libz.so.1", "/lib/x86_64-linux-gnu/libgmp.so.10",
                 "/lib/x86_64-linux-gnu/libdav1d.so.6"):
        if Path(path).exists():
            run([build / "etch", "rewrite", "-o", tmp_path / "out", path])
            assert "ETCH-T0" not in run([build / "etch", "check", tmp_path / "out"], ok=(0, 1)).stdout, path


# The second entry of the table leads after the push of the first, which a branch leads to as well: that
# it is a place where paths meet is known only once the path through it has been walked.
BETWEEN = """
	.globl	f
	.type	f,@function
f:	testl	%esi, %esi
	je	1f
	cmpl	$1, %edi
	ja	9f
	leaq	.Ltable(%rip), %rax
	movslq	(%rax,%rdi,4), %rcx
	addq	%rax, %rcx
	jmp	*%rcx
1:	pushq	%rbx
	.fill	{far}, 1, 0xf8
2:	cmc
	popq	%rbx
9:	ret
	.size	f, .-f
	.section .rodata
	.p2align 2
.Ltable: .long	9b-.Ltable, 2b-.Ltable
	.text
	.globl main
main:	xorl	%eax, %eax
	ret
	.section .note.GNU-stack,"",@progbits
"""


@pytest.mark.parametrize("far", [3, 5000])
def test_paths_that_meet_where_one_has_been(far, tmp_path, build):
    source, program = tmp_path / "t.s", tmp_path / "t"
    source.write_text(BETWEEN.replace("{far}", str(far)))
    run(["gcc", "-o", program, source])
    shown = json.loads(run([build / "etch", "inspect", "code", "f", "--no-cfi", "--json", program]).stdout)
    code = {i["att"].split()[0]: i["cfa"] for i in (shown[0] if isinstance(shown, list) else shown)["code"]}
    assert (code["pushq"], code["clc"], code["cmc"]) == ("rsp+8", "rsp+16", "undef")


# What real code does seldom: a register that was compared with rsp changes before the branch; a bound of
# memory outlives the flags, and the load that it is for goes to a register of which nothing is known; slots
# are written over, or left behind above rsp, at the very end of what is looked at.
PASSED_OVER = """
	.macro	FUNCTION name
	.globl	\\name
	.type	\\name,@function
\\name:
	.endm
	.macro	WATCH name, first, second, between="movzbl 1(%rdi), %ecx"
	FUNCTION \\name
	movzbl	(%rdi), %ecx
	cmpq	\\first, \\second
	\\between
	je	1f
	ret
1:	movq	%rcx, %rsp
	ret
	.endm
	WATCH	watch_first, %rsp, %rcx
	WATCH	watch_second, %rcx, %rsp
	WATCH	watch_store, %rsp, %rcx, "movq %rdx, 8(%rdi)"
	WATCH	watch_entry, %rsp, %rcx, "movslq (%rsp,%rdx,4), %rax"
	FUNCTION bound
	movzbl	(%rsi), %eax
	cmpl	$3, 8(%rdi)
	ja	9f
	subq	$8, %rsp
	movl	8(%rdi), %eax
	jmp	*table(,%rax,8)
1:	addq	$8, %rsp
9:	ret
	FUNCTION over
	pushq	%rbx
	movq	$0, (%rsp)
	popq	%rbx
	ret
	FUNCTION behind
	pushq	%rbx
	popq	%rbx
	call	over
	ret
	.section .rodata
table:	.quad 1b, 1b, 9b, 9b
	.section .note.GNU-stack,"",@progbits
"""


@pytest.mark.parametrize("path", ["made", "/lib64/ld-linux-x86-64.so.2", "/bin/bash"])
def test_what_is_passed_over_has_nothing_to_do(path, tmp_path, build_asan):
    """Instructions and slots that the flow analysis does not look at, for they change nothing: this build does all
    the same, and ends where something changes."""
    if path == "made":
        path = tmp_path / "made.o"
        (tmp_path / "made.s").write_text(PASSED_OVER)
        run(["gcc", "-c", tmp_path / "made.s", "-o", path])
    run([build_asan / "etch", "inspect", "orc", "--no-cfi", path], env=asan_env())


@pytest.mark.parametrize("args", [[], ["--no-cfi"]], ids=["cfi", "nocfi"])
def test_what_is_behind_a_probe_of_the_stack_is_not_told_of_its_first_round(args, tmp_path, build):
    """As -fstack-clash-protection makes it: the loop ends where rsp is what %r11 is. After the first call another loop begins."""
    source, library = tmp_path / "t.s", tmp_path / "t.so"
    source.write_text("""
	.globl f
	.type f,@function
f:	.cfi_startproc
	pushq	%rbx
	.cfi_adjust_cfa_offset 8
	leaq	-0x7000(%rsp), %r11
	.cfi_def_cfa 11, 28688
1:	subq	$0x1000, %rsp
	orb	$0, (%rsp)
	cmpq	%r11, %rsp
	jne	1b
	.cfi_def_cfa 7, 28688
	subq	$0x18, %rsp
	.cfi_adjust_cfa_offset 24
	call	g@PLT
2:	decl	%ebx
	jne	2b
	addq	$0x7018, %rsp
	.cfi_def_cfa_offset 16
	popq	%rbx
	.cfi_def_cfa_offset 8
	ret
	.cfi_endproc
	.size f, .-f
	.section .note.GNU-stack,"",@progbits
""")
    run(["gcc", "-shared", "-nostdlib", "-o", library, source])
    out = tmp_path / "out.so"
    assert not run([build / "etch", "rewrite", *args, "-o", out, library]).stderr
    found = [r["cfa"] for r in rows(build / "etch", out) if r["source"] != "plt"]
    assert found == ["rsp+8", "rsp+16", "r11+28688", "rsp+28688", "rsp+28712", "rsp+16", "rsp+8"]


@pytest.mark.parametrize("put", ["movq %rdi, %rbp", "movl $5, %eax\n\tmovq %rax, %rbp", "movq 8(%rdi), %rbp"],
                         ids=["an argument", "a constant", "from memory"])
def test_what_is_in_rbp_is_known_to_be_not_the_callers(put, tmp_path, build):
    """.eh_frame is wrong: as that of libgcrypt's assembly. Nothing else in f() asks what registers hold. What
    comes from memory may be the caller's rbp, for all that the code shows."""
    source, library = tmp_path / "t.s", tmp_path / "t.so"
    source.write_text(f"""
	.globl f
	.type f,@function
f:	.cfi_startproc
	movq	%rbp, %xmm0
	{put}
	movl	(%rbp), %eax
	movq	%xmm0, %rbp
	ret
	.cfi_endproc
	.size f, .-f
	.section .note.GNU-stack,"",@progbits
""")
    run(["gcc", "-shared", "-nostdlib", "-o", library, source])
    found = [(r["bp"], r["source"]) for r in rows(build / "etch", library, "--at", "f") if r["kind"] == "call"]
    said = "ETCH-C001" in run([build / "etch", "rewrite", "-o", tmp_path / "out", library]).stderr
    if "8(" in put:
        assert found[1:] == [("same", "cfi")] and not said, found
    else:
        assert found[1][0] == "undef" and found[1][1] == "code" and said, found


@pytest.mark.parametrize("leaves", ["je f.cold\n\tjmp 9f", "jne 9f\n\tjmp f.cold"], ids=["jcc", "jmp"])
def test_a_part_jumps_by_what_the_function_has_compared(leaves, tmp_path, build):
    """The bound and the table are in f(), which has no indirect jump; that is in the part."""
    source, library = tmp_path / "t.s", tmp_path / "t.so"
    source.write_text(f"""
	.section .text.part,"ax",@progbits
	.type f.cold,@function
f.cold: jmp	*%rax
	ud2
	.size f.cold, .-f.cold
	.text
	.globl f
	.type f,@function
f:	pushq	%rbx
	subq	$16, %rsp
	cmpq	$1, %rdi
	ja	8f
	leaq	1f(%rip), %rdx
	movslq	(%rdx,%rdi,4), %rax
	addq	%rdx, %rax
	testl	%esi, %esi
	{leaves}
2:	incl	%esi
	jmp	9f
3:	decl	%esi
9:	movl	%esi, %eax
8:	addq	$16, %rsp
	popq	%rbx
	ret
	.size f, .-f
	.section .rodata
	.p2align 2
1:	.long	2b-1b, 3b-1b
	.section .note.GNU-stack,"",@progbits
""")
    run(["gcc", "-shared", "-nostdlib", "-o", library, source])
    found = [(r["cfa"], r["kind"]) for r in rows(build / "etch", library, "--at", "f")]
    assert ("undef", "undef") not in found and ("rsp+32", "call") in found, found


@pytest.mark.parametrize("args", [[], ["--no-cfi"]], ids=["cfi", "code"])
@pytest.mark.parametrize("back", ["leave", "movq %rbp, %rsp\n\tpopq %rbp"], ids=["leave", "pop"])
@pytest.mark.parametrize("holds", ["r10", "r13"])
def test_a_realigned_frame_is_left(holds, back, args, tmp_path, build):
    """gcc's .eh_frame still has the caller's rbp at *(rbp) where rbp has been taken back from there. The CFA is in a register,
    and no slot below rsp is needed for it."""
    source, library = tmp_path / "t.s", tmp_path / "t.so"
    source.write_text(f"""
	.globl f
	.type f,@function
f:	.cfi_startproc
	leaq	8(%rsp), %{holds}
	.cfi_def_cfa {holds}, 0
	andq	$-64, %rsp
	pushq	-8(%{holds})
	pushq	%rbp
	movq	%rsp, %rbp
	.cfi_escape 0x10,6,2,0x76,0          # rbp at *(rbp+0)
	pushq	%{holds}
	.cfi_escape 0x0f,3,0x76,0x78,6       # CFA *(rbp-8)
	subq	$136, %rsp
	call	g@PLT
	movq	-8(%rbp), %{holds}
	.cfi_def_cfa {holds}, 0
	{back}
	leaq	-8(%{holds}), %rsp
	.cfi_def_cfa rsp, 8
	ret
	.cfi_endproc
	.size f, .-f
	.section .note.GNU-stack,"",@progbits
""")
    run(["gcc", "-shared", "-nostdlib", "-o", library, source])
    left = [(r["cfa"], r["bp"]) for r in rows(build / "etch", library, "--at", "f", *args)][-2:]
    assert left == [(f"{holds}+0", "same"), ("rsp+8", "same")]
    said = run([build / "etch", "check", library], ok=None).stdout
    assert "ETCH-C001" in said and "rbp same" in said
