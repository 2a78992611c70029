# SPDX-License-Identifier: MIT
"""Single steps of the analysis (tool/analysis), each on the smallest code that shows it: what a wrong one would make of a
row or a finding. The mistakes that these tests were written for are in the newest report of mutants (docs/reports)."""
import json

import pytest

from conftest import run
from marked_rows import EXIT, LIBRARY, PROGRAM, wrong


def function(body, name="f"):
    return f"\t.globl\t{name}\n\t.type\t{name}, @function\n{name}:{body}\n\t.size\t{name}, .-{name}\n"


@pytest.mark.parametrize("register,kept", [("rcx", False), ("rdx", False), ("r11", False), ("rbx", True), ("r12", True)])
def test_a_call_keeps_the_callee_saved_registers_alone(register, kept, etch, tmp_path):
    source = function(f"""	pushq	%rbx
	pushq	%r12
	row	24
	leaq	24(%rsp), %{register}
	subq	%rdi, %rsp
	row	{register}plus0
	call	g@PLT
	row	{f"{register}plus0" if kept else "undef"}
	nop
	leaq	-24(%rbx), %rsp
	popq	%r12
	popq	%rbx
	ret""")
    assert not wrong(etch, tmp_path, source, *LIBRARY)


# A landing pad, and the table of call sites that names it. Nothing else leads to the pad.
THROWS = """
	.globl	f
	.type	f, @function
f:	.cfi_startproc
	.cfi_personality 0x9b, personality
	.cfi_lsda 0x1b, lsda
	subq	$24, %rsp
	.cfi_def_cfa_offset 32
before:	call	h@PLT
behind:	call	g@PLT
end:	addq	$24, %rsp
	.cfi_def_cfa_offset 8
	ret
	.cfi_def_cfa_offset 32
pad:	movq	%rax, %rdi
	call	_Unwind_Resume@PLT
	.cfi_endproc
	.size	f, .-f
	.section .gcc_except_table,"a",@progbits
lsda:	{start}
	.byte	0xff, 0x01
	.uleb128 2f - 1f
1:	.uleb128 before - f, behind - before, 0, 0
	.uleb128 behind - f, end - behind, pad - {base}, 0
2:	.data
	.p2align 3
personality:	.quad	0
	.section .note.GNU-stack,"",@progbits
"""


@pytest.mark.parametrize("start,base", [(".byte 0xff", "f"), (".byte 0x1b\n\t.long behind - .", "behind")],
                         ids=["the function's start", "LPStart"])
def test_landing_pads(start, base, etch, tmp_path):
    """A call site with a pad leads there, one without leads nowhere; pads are relative to LPStart (LSB, "GCC exception
    tables")."""
    (tmp_path / "t.s").write_text(THROWS.format(start=start, base=base))
    run(["gcc", "-shared", "-nostdlib", "-o", tmp_path / "t.so", tmp_path / "t.s"])
    code = json.loads(run([etch, "inspect", "code", "--json", "f", tmp_path / "t.so"]).stdout)
    text = run([etch, "inspect", "orc", "--format", "tsv", "--at", "f", tmp_path / "t.so"]).stdout
    assert "not reached" not in run([etch, "inspect", "code", "f", tmp_path / "t.so"]).stdout, text
    assert code and [line.split("\t")[6] for line in text.splitlines()[1:]].count("cfi") == 0, text


def referred(body, more=""):
    """A function of which only the address is taken, by code, and which no symbol shows."""
    return function("	leaq	hidden(%rip), %rdi\n\tjmp	g@PLT") + f"\t.p2align 4, 0xcc\nhidden:{body}\n\t.p2align 4, 0xcc\n{more}"


def test_a_function_may_store_a_register_before_it_makes_its_frame(etch, tmp_path):
    """As gcc did with -maccumulate-outgoing-args. It never returns: how it begins is all that shows it."""
    source = referred("""	movq	%rbx, -8(%rsp)
	movl	%edi, %ebx
	subq	$24, %rsp
	row	32
1:	movl	%ebx, %edi
	call	*%rsi
	row	32
	jmp	1b""")
    assert not wrong(etch, tmp_path, source, *LIBRARY)


def test_code_that_begins_with_another_functions_register_is_none(etch, tmp_path):
    source = referred("""	row	undef
	movl	%ebx, %edi
	subq	$24, %rsp
1:	call	*%rsi
	jmp	1b""")
    assert not wrong(etch, tmp_path, source, *LIBRARY)


def test_a_local_helper_that_a_jump_passes_over(etch, tmp_path):
    """It changes a register for its caller, as assembly does; it is no function, and does not end the one around it."""
    source = referred("""	pushq	%rbx
	row	16
	call	1f
	row	16
	jmp	2f
1:	row	8
	xorl	%ebx, %ebx
	ret
2:	row	16
	addl	%ebx, %eax
	popq	%rbx
	row	8
	ret""")
    assert not wrong(etch, tmp_path, source, *LIBRARY)


ETCHED = """
	.section etched,"aw",@progbits
	.balign	4096
	.globl	cfg
	.type	cfg, @object
	.size	cfg, 16
cfg:	.long	1, 2, 3, 4
	.balign	4096
	.text
	.p2align 3
"""
# From a compare of an etched object to what uses its flags.
WAYS = {
    "straight on": "	nop\n	{use}\n	ret",
    "jump": "	jmp	1f\n	ret\n1:	{use}\n	ret",
    "branch": "	jrcxz	1f\n	testl	%eax, %eax\n	ret\n1:	{use}\n	ret",
    "behind a branch": "	jrcxz	1f\n	{use}\n	ret\n1:	testl	%eax, %eax\n	ret",
    "fault": "2:	movl	(%rdi), %ecx\n	testl	%eax, %eax\n	ret\n3:	{use}\n	ret\n"
	         '	.section __ex_table, "a", @progbits\n	.long	2b - ., 3b - ., 0\n	.text',
}


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("use,form", [("setp	%al", "-"), ("sete	%al", "cmpi32")], ids=["parity", "equality"])
def test_flags_are_asked_for_on_every_way(way, use, form, etch, tmp_path):
    """An immediate gives equality and order only: the compare is no site where more is asked of it."""
    (tmp_path / "t.s").write_text(ETCHED + function("	cmpl	$5, cfg(%rip)\n" + WAYS[way].format(use=use)))
    run(["gcc", "-c", "-o", tmp_path / "t.o", tmp_path / "t.s"])
    run([etch, "rewrite", tmp_path / "t.o"])
    (site,) = run([etch, "inspect", "sites", "--format", "tsv", tmp_path / "t.o"]).stdout.splitlines()[1:]
    assert site.split("\t")[6] == form, site


@pytest.mark.parametrize("way", ["call", "jmp"])
@pytest.mark.parametrize("body,escapes", [("	movq	%rdi, global(%rip)\n	ret", True), ("	xorl	%edi, %edi\n	ret", False),
                                          ("	jmp	outside@PLT", True), ("	subq	$8, %rsp\n	call	outside@PLT\n	addq	$8, %rsp\n	ret", True)],
                         ids=["stored", "unused", "jumped on", "called on"])
def test_an_address_escapes_to_a_function_that_uses_it(way, body, escapes, etch, tmp_path):
    """An argument that a function of the file does not read is no escape; what it calls or jumps to may read all."""
    text = ETCHED + "	.local	callee\n	.type	callee, @function\ncallee:" + body + "\n	.size	callee, . - callee\n"
    text += function(f"	leaq	cfg(%rip), %rdi\n	{way}	callee\n	movl	cfg(%rip), %eax\n	ret") + "	.comm	global, 8, 8\n"
    (tmp_path / "t.s").write_text(text)
    run(["gcc", "-c", "-o", tmp_path / "t.o", tmp_path / "t.s"])
    run([etch, "rewrite", tmp_path / "t.o"])
    found = json.loads(run([etch, "inspect", "sites", "--json", tmp_path / "t.o"]).stdout)["sites"]
    assert ("escape" in [x["kind"] for x in found]) == escapes, found


# A function whose cold part lies elsewhere and leads back; rbx holds an object's address on the way.
COLD = """	pushq	%rbx
	leaq	cfg(%rip), %rbx
	testl	%edi, %edi
	jne	f_cold
	{hot}
back:	{behind}
	popq	%rbx
	ret
	.section .text.unlikely,"ax",@progbits
	.type	f_cold, @function
f_cold:	{part}
	.size	f_cold, . - f_cold
	.text"""
READS = "movl	4(%rbx), %eax"


def sites_with_cold_part(etch, tmp_path, part, behind=READS, hot="nop"):
    (tmp_path / "t.s").write_text(ETCHED + function(COLD.format(part=part, behind=behind, hot=hot)) + "	.comm	global, 8, 8\n")
    run(["gcc", "-shared", "-Wl,-Bsymbolic,-z,noexecstack", "-o", tmp_path / "t.so", tmp_path / "t.s"])
    return json.loads(run([etch, "inspect", "sites", "--json", tmp_path / "t.so"]).stdout)["sites"]


@pytest.mark.parametrize("part,escapes", [
    ("xorl	%edx, %edx\n	jmp	back", False), ("testl	%edx, %edx\n	je	back\n	movl	%edx, global(%rip)\n	jmp	back", False), ("ud2", False),
    ("movq	%rbx, global(%rip)\n	jmp	back", True), ("movl	$1, 8(%rbx)\n	jmp	back", True), ("leaq	4(,%rbx,2), %rdx\n	jmp	back", True),
    ("xorb	$4, %bl\n	jmp	back", True), ("movl	(%rsi), %edx\n	jmp	back", True), ("pushq	%rdx\n	jmp	back", True),
    ("call	outside@PLT\n	jmp	back", True), ("jmp	outside@PLT", True), ("jmp	*%rdx", True), ("ret", True), ("nop\n" * 70 + "jmp	back", True)],
    ids=["a register", "two ways", "ends", "stored", "store", "address", "low byte", "may fault", "push", "call", "tail call", "jump", "return", "long"])
def test_an_address_goes_through_a_part_that_does_not_touch_it(part, escapes, etch, tmp_path):
    assert ("escape" in [x["kind"] for x in sites_with_cold_part(etch, tmp_path, part)]) == escapes


def test_behind_a_part_an_address_is_what_it_was(etch, tmp_path):
    """Where nothing but the part leads, the address is known to be used there."""
    found = sites_with_cold_part(etch, tmp_path, "xorl	%edx, %edx\n	jmp	back", "movl	$9, 4(%rbx)", "popq	%rbx\n	ret")
    assert [x["kind"] for x in found] == ["store"], found


# A switch in a loop: rbx holds an object's address, rbp that of the table, also where the cold part leads back to.
SWITCH = """	pushq	%rbx
	pushq	%rbp
	{early}
	leaq	cfg(%rip), %rbx
	leaq	table(%rip), %rbp
again:	cmpl	$1, %edi
	ja	f_cold
	{hot}
	movslq	(%rbp,%rdi,4), %rax
	addq	%rbp, %rax
	jmp	*%rax
one:	movl	4(%rbx), %edi
	jmp	back
two:	movl	8(%rbx), %edi
back:	decl	%esi
	jne	again
	popq	%rbp
	popq	%rbx
	ret
	.section .rodata
	.p2align 2
table:	.long	one - table, two - table
	.section .text.unlikely,"ax",@progbits
	nop
	ret
	.type	f_cold, @function
f_cold:	{part}
	.size	f_cold, . - f_cold
	.text"""
# What is done to it: the part, more code of the function, other code; and whether the part is followed.
PARTS = {
    "leads back": ("xorl	%edi, %edi\n	jmp	back", "nop", "", True),
    "entered twice": ("xorl	%edi, %edi\n1:	jmp	back\ninside:	movl	$1, %edi\n	jmp	1b", "js	inside", "", True),
    "changes the table's register": ("xorl	%ebp, %ebp\n	jmp	back", "nop", "", False),
    "moves another address there": ("leaq	other(%rip), %rbp\n	jmp	back", "nop", "	.data\nother:	.quad	0\n	.text\n", False),
    "stores through the object's register": ("movl	$9, 4(%rbx)\n	jmp	back", "nop", "", False),
    "calls": ("call	outside@PLT\n	jmp	back", "nop", "", False),
    "a second way calls": ("xorl	%edi, %edi\n1:	jmp	back\ninside:	call	outside@PLT\n	jmp	1b", "js	inside", "", False),
    "a second way, without the address, calls": ("xorl	%edi, %edi\n1:	jmp	back\ninside:	call	outside@PLT\n	jmp	1b", "nop", "", False),
    "leads back behind an end": ("ud2\n	jmp	back", "nop", "", False),
    "jumped to by another function": ("xorl	%edi, %edi\n	jmp	back", "nop", function("	nop\n	jmp	f_cold", "g"), False),
    "jumped into by another function": ("xorl	%edi, %edi\ninside:	jmp	back", "nop", function("	nop\n	je	inside\n	ret", "g"), False),
    "called": ("xorl	%edi, %edi\n	jmp	back", "nop", function("	call	f_cold\n	ret", "g"), False),
    "address taken": ("xorl	%edi, %edi\n	jmp	back", "nop", function("	leaq	f_cold(%rip), %rax\n	ret", "g"), False),
    "address in data": ("xorl	%edi, %edi\n	jmp	back", "nop", "	.data\n	.quad	f_cold\n	.text\n", False),
    "in another function's table": ("xorl	%edi, %edi\n	jmp	back", "nop", function("	leaq	1f(%rip), %rdx\n	movslq	(%rdx,%rdi,4), %rax\n	addq	%rdx, %rax\n"
                                    "	jmp	*%rax\n	.section .rodata\n	.p2align 2\n1:	.long	f_cold - 1b\n	.text", "g"), False),
    "exported": ("xorl	%edi, %edi\n	jmp	back", "nop", "	.globl	f_cold\n", False),
    "a label inside that is exported": ("xorl	%edi, %edi\ninside:	jmp	back", "nop", "	.globl	inside\n", False),
    "another function falls into it": ("xorl	%edi, %edi\n	jmp	back", "nop", "", False),
    "another function leads back to the same place": ("xorl	%edi, %edi\n	jmp	back", "nop", function("	nop\n	jmp	back", "g"), False),
    "undecodable behind": ("xorl	%edi, %edi\n	jmp	back\n	.byte	6", "nop", "", False),
}


@pytest.mark.parametrize("how", PARTS)
def test_only_a_functions_own_part_leads_back_with_what_it_held(how, etch, tmp_path):
    """Where the part may be entered in another way, or may change the table's address, the switch may go anywhere."""
    part, hot, more, followed = PARTS[how]
    body = SWITCH.format(part=part, hot=hot, early="js	inside" if "without the address" in how else "nop")
    if how == "another function falls into it":
        body = body.replace("	nop\n	ret\n	.type	f_cold", "	incl	%edx\n	.type	f_cold")
    (tmp_path / "t.s").write_text(ETCHED + function(body) + more)
    run(["gcc", "-shared", "-Wl,-Bsymbolic,-z,noexecstack", "-o", tmp_path / "t.so", tmp_path / "t.s"])
    found = json.loads(run([etch, "inspect", "sites", "--json", tmp_path / "t.so"]).stdout)["sites"]
    assert ("escape" in [x["kind"] for x in found]) != followed, found


def test_a_cfa_in_a_slot_is_found_from_where_rbp_points(etch, tmp_path):
    """main() as gcc realigns it: r10, the CFA, is kept at rbp-8."""
    source = function("""	leaq	8(%rsp), %r10
	row	8
	andq	$-32, %rsp
	pushq	-8(%r10)
	pushq	%rbp
	movq	%rsp, %rbp
	pushq	%r10
	subq	$40, %rsp
	call	g@PLT
	row	*(rbp-8)
	nop
	addq	$40, %rsp
	popq	%r10
	popq	%rbp
	leaq	-8(%r10), %rsp
	row	8
	ret""")
    (tmp_path / "t.s").write_text(source.replace("\trow\t8\n", "").replace("	row	*(rbp-8)\n", "at:\n"))
    run(["gcc", "-shared", "-nostdlib", "-o", tmp_path / "t.so", tmp_path / "t.s"])
    rows = [line.split("\t") for line in run([etch, "inspect", "orc", "--format", "tsv", "--at", "f", tmp_path / "t.so"]
                                             ).stdout.splitlines()[1:]]
    assert "*(rbp-8)+0" in [r[2] for r in rows], rows


@pytest.mark.parametrize("below", [False, True], ids=["kept", "lost to callees"])
def test_the_return_address_is_read_where_no_callee_writes(below, etch, tmp_path):
    """It is taken off the stack and kept in rbx; its old slot lies below rsp."""
    source = function(f"""	pushq	%rbx
	movq	8(%rsp), %rbx
	addq	$16, %rsp
at:	{"nop" if not below else "call	g@PLT"}
behind:	nop
	jmp	*%rbx""")
    (tmp_path / "t.s").write_text(source)
    run(["gcc", "-shared", "-nostdlib", "-o", tmp_path / "t.so", tmp_path / "t.s"])
    rows = [line.split("\t") for line in run([etch, "inspect", "orc", "--format", "tsv", "--at", "f", tmp_path / "t.so"]
                                             ).stdout.splitlines()[1:]]
    assert [r[4] for r in rows][-1] == "rbx", rows
