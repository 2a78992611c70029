# SPDX-License-Identifier: MIT
"""What etch check says of flow and stack (groups F and S, D005, D006): of functions with one
mistake each, that it is said, and where; of sound functions, that nothing is. docs/findings.md
has one example each way for every ID, which test_docs.py runs."""

import io
import json
import re
import struct

import pytest
from elftools.elf.elffile import ELFFile

import mutants
from conftest import CCS, CXX, DATA, ROOT, run

OURS = ("ETCH-D005", "ETCH-D006", "ETCH-F", "ETCH-S")


def check(etch, *files, args=()):
    """{path: findings of ours}"""
    p = run([etch, "check", "--format", "json", "--fail-on", "never", *args, *files])
    return {f["path"]: [x for x in f["findings"] if x["id"].startswith(OURS)] for f in json.loads(p.stdout)["files"]}


def assemble(tmp_path, text, name="t"):
    source = tmp_path / f"{name}.s"
    source.write_text(text)
    out = tmp_path / f"{name}.o"
    run(["as", "-o", out, source])
    return out


# ---- mutants -----------------------------------------------------------------------


@pytest.mark.parametrize("cfi", [True, False], ids=["cfi", "nocfi"])
@pytest.mark.parametrize("flags", ["-O1", "-O2", "-Os"])
@pytest.mark.parametrize("cc", CCS)
def test_mutants(etch, tmp_path, cc, flags, cfi):
    """Each mistake is found at its instruction; what is sound beside it stays quiet."""
    seed = CCS.index(cc) * 100 + ["-O1", "-O2", "-Os"].index(flags)
    made = mutants.Mutants(mutants.compile_to_assembly(cc, mutants.source(seed, 20), [flags]), seed, cfi)
    obj = assemble(tmp_path, made.text)
    places = ELFFile(io.BytesIO(obj.read_bytes())).get_section_by_name(".expect").data()
    places = dict(zip(made.expected, struct.unpack(f"<{len(made.expected)}Q", places)))
    found = {}
    for x in check(etch, obj)[str(obj)]:
        found.setdefault(x["place"]["function"], {})[x["id"], x["place"]["offset"]] = x
    missed, kinds = [], set()
    for name, (mutation, ids) in made.expected.items():
        kinds.add(mutation)
        if not any((i, places[name]) in found.get(name, {}) for i in ids):
            missed.append((mutation, name, hex(places[name]), sorted(found.get(name, {}))))
    assert not missed
    assert len(kinds) == len(mutants.MUTATIONS) and len(made.expected) > 150
    # What nothing reaches may be so; nothing else is wrong with what the compiler made.
    noise = {n: sorted(found[n]) for n in [*made.sound, *(f"f{i}" for i in range(20))] if n in found}
    assert not {n: ids for n, ids in noise.items() if any(i != "ETCH-F002" for i, _ in ids)}


def test_mutant_on_one_path(etch, tmp_path):
    """A push on one of two paths: said where they meet, with both paths' last instructions, or
    where the frame does harm."""
    exact = other = 0
    for seed, (cc, flags) in enumerate((cc, flags) for cc in CCS for flags in ("-O1", "-Os")):
        made = mutants.OnePath(mutants.compile_to_assembly(cc, mutants.source(70 + seed, 45), [flags]), seed)
        obj = assemble(tmp_path, made.text, f"{cc}{flags}")
        places = ELFFile(io.BytesIO(obj.read_bytes())).get_section_by_name(".expect").data()
        places = dict(zip(made.names, struct.unpack(f"<{len(made.names)}Q", places)))
        found = {}
        for x in check(etch, obj)[str(obj)]:
            found.setdefault(x["place"]["function"], []).append(x)
        for name in made.names:
            ours = [x for x in found.get(name, []) if x["id"] in ("ETCH-S001", "ETCH-S002", "ETCH-F004")]
            assert ours, name
            meet = [x for x in ours if x["id"] == "ETCH-S001" and x["place"]["offset"] == places[name]]
            if not meet:
                other += 1
                continue
            exact += 1
            labels = [f["label"] for f in meet[0]["facts"]]
            assert labels == ["one path", "the other path"]
            assert all("rsp is CFA-" in f["text"] for f in meet[0]["facts"])
    assert exact >= 60 and exact > 3 * other, (exact, other)


# ---- sound code ----------------------------------------------------------------------


ZOO = [("step_zoo.c", f) for f in (["-O0"], ["-O2"], ["-O3", "-mavx2", "-mstackrealign", "-fcf-protection=full"],
                                   ["-Os", "-fstack-clash-protection", "-fno-asynchronous-unwind-tables"])]
ZOO += [("step_throw.cc", ["-O2"])]


def test_zoo_is_sound(etch, tmp_path):
    """Frames of every kind that compilers make, as objects and programs, stripped and not."""
    files = []
    for cc in CCS:
        for n, (source, flags) in enumerate(ZOO):
            driver = CXX[cc] if source.endswith(".cc") else cc
            out = tmp_path / f"{cc}-{n}"
            run([driver, "-g0", "-w", *flags, "-c", "-o", f"{out}.o", DATA / "unwind" / source])
            run([driver, "-o", out, f"{out}.o"])
            run(["strip", "-o", f"{out}.stripped", out])
            files += [f"{out}.o", str(out), f"{out}.stripped"]
    found = check(etch, *files)
    assert len(found) == len(files)
    said = [(f, x["id"], x["place"].get("function"), x["text"]) for f, xs in found.items() for x in xs if x["severity"] != "note"]
    assert not said


# Hand-written code as libraries have it: exactly these findings, or none.
HAND = {
    "retpoline": ("", """
	call	2f
1:	pause
	lfence
	jmp	1b
2:	movq	%rax, (%rsp)
	ret"""),
    "an address pushed to go to": ("", "\tpushq\t%rax\n\tret"),
    "an address pushed before": ("", "\tpushq\t8(%rdi)\n\tpushq\t%rbx\n\tcall\tg\n\tpopq\t%rbx\n\tret"),
    "the return address moved down": ("", "\tpopq\t%rcx\n\tsubq\t%rax, %rsp\n\tsubq\t$64, %rsp\n\tpushq\t%rcx\n\tret"),
    "a frame left": ("S002", "\tsubq\t$24, %rsp\n\tcall\tg\n\taddq\t$16, %rsp\n\tret"),
    "the program counter": ("", "\tcall\t1f\n1:\tpopq\t%rax\n\tret"),
    "registers of a local helper": ("", "\tmovq\t%rdi, %rbx\n\tmovl\t$5, %ebp\n\tret"),
    "registers of a hidden one": ("", "\t.hidden\tf\n\tmovq\t%rdi, %rbx\n\tret"),
    "registers of a function for all": ("S005", "\tmovq\t%rdi, %rbx\n\txorl\t%eax, %eax\n\tret"),
    "setjmp": ("", "\tmovq\t%rbx, (%rdi)\n\tmovq\t%r12, 8(%rdi)\n\tleaq\t8(%rsp), %rdx\n\tmovq\t%rdx, 16(%rdi)\n\txorl\t%eax, %eax\n\tret"),
    "longjmp": ("", """
	movq	(%rdi), %rbx
	movq	8(%rdi), %r12
	movl	%esi, %eax
	movq	16(%rdi), %rsp
	jmp	*24(%rdi)"""),
    "realigned, and back by r10": ("", """
	leaq	8(%rsp), %r10
	andq	$-32, %rsp
	pushq	-8(%r10)
	pushq	%rbp
	movq	%rsp, %rbp
	pushq	%r10
	subq	$40, %rsp
	call	g
	addq	$40, %rsp
	popq	%r10
	popq	%rbp
	leaq	-8(%r10), %rsp
	ret"""),
    "arguments pushed for a call that does not return": ("", """
	subq	$8, %rsp
	testl	%edi, %edi
	jne	1f
	pushq	$1
	pushq	$2
	call	fails
1:	addq	$8, %rsp
	ret"""),
    "two sizes of alloca": ("", """
	pushq	%rbp
	movq	%rsp, %rbp
	testl	%edi, %edi
	je	1f
	subq	$64, %rsp
	jmp	2f
1:	subq	$32, %rsp
2:	call	g
	leave
	ret"""),
    "stack arguments taken by the callee": ("", "\tmovq\t8(%rsp), %rax\n\tret\t$8"),
    "a jump to its own part": ("", """
	pushq	%rbx
	testl	%edi, %edi
	js	part
	popq	%rbx
	ret
	.size	f, . - f
part:	call	g
	popq	%rbx
	ret"""),
    "std and cld, both ways": ("", """
	cmpq	%rsi, %rdi
	jb	1f
	std
	rep movsb
	cld
	jmp	2f
1:	rep movsb
2:	movq	%rdi, %rax
	ret"""),
    "flags saved around std": ("", "\tpushfq\n\tstd\n\trep movsb\n\tpopfq\n\tret"),
    "a jump table in the way": ("", """
	cmpl	$3, %edi
	ja	1f
	jmp	*table(,%rdi,8)
	.balign	8
table:	.quad	1f, 2f, 1f, 2f
1:	xorl	%eax, %eax
	ret
2:	movl	$1, %eax
	ret"""),
    "exit": ("", "\tmovl\t$231, %eax\n\tsyscall"),
    "padding behind the last call": ("", "\tsubq\t$8, %rsp\n\tcall\tfails\n\t.p2align 4\n\t.type\tnext, @function\nnext:\tret"),
    "falls through nops": ("F001", "\tmovl\t%edi, %eax\n\t.size\tf, . - f\n\t.p2align 4\n\t.type\tnext, @function\nnext:\tret"),
    "falls to a label only": ("", "\tmovl\t%edi, %eax\n\t.size\tf, . - f\nnext:\tret"),
    "returns twice, once wrongly": ("S002", """
	pushq	%rbx
	testl	%edi, %edi
	je	1f
	popq	%rbx
	ret
1:	call	g
	ret"""),
    "too much popped, as .eh_frame shows": ("S002", """
	.cfi_startproc
	call	g
	popq	%rcx
	ret
	.cfi_endproc"""),
    "left on the stack, as .eh_frame says": ("", """
	.cfi_startproc
	pushq	%rdi
	.cfi_adjust_cfa_offset 8
	call	g
	ret
	.cfi_endproc"""),
    "a loop that pushes": ("S001", "\tmovl\t%edi, %eax\n1:\tpushq\t%rax\n\tdecl\t%eax\n\tjne\t1b\n\tcall\tg\n\tud2"),
    "std on one path to a tail call": ("S006", "\ttestl\t%edi, %edi\n\tje\t1f\n\tstd\n1:\tjmp\tg"),
    "std before a call": ("S006", "\tsubq\t$8, %rsp\n\tstd\n\tcall\tg\n\tcld\n\taddq\t$8, %rsp\n\tret"),
    "a saved register with an address": ("S005", "\tpushq\t%rbx\n\tmovq\t%rsp, %rbx\n\tcall\tg\n\taddq\t$8, %rsp\n\tret"),
    "a saved register that is unknown": ("", "\tpushq\t%rbx\n\tmovq\t(%rdi), %rbx\n\tcall\tg\n\taddq\t$8, %rsp\n\tret"),
    "a tail call with a register lost": ("F004", "\tpushq\t%rbx\n\tmovl\t$1, %ebx\n\tcall\tg\n\taddq\t$8, %rsp\n\tjmp\tg"),
}


def test_hand_written(etch, tmp_path):
    files = {}
    for n, (name, (_, text)) in enumerate(HAND.items()):
        head = "\t.text\n\t.type\tf, @function\nf:\n" if "local" in name else \
            "\t.text\n\t.globl\tf\n\t.type\tf, @function\nf:\n"
        files[name] = str(assemble(tmp_path, f"{head}{text}\n", f"t{n}"))
    found = check(etch, *files.values())
    wrong = {}
    for name, (want, _) in HAND.items():
        got = sorted({x["id"].removeprefix("ETCH-") for x in found[files[name]]} - {"F002", "F005", "S003", "S004"})
        if got != want.split():
            wrong[name] = (want.split(), [(x["id"], x["place"], x["text"]) for x in found[files[name]]])
    assert not wrong


def test_functions_of_libraries_that_do_not_return(etch, tmp_path):
    """After their call comes code that only a jump leads to, with another frame: that of an assertion in a function of glibc
    2.41, which a jump table in a loop leads to, so that the walk meets the code after the call first. A function that nobody knows
    is taken to return."""
    listed = re.search(r"noreturn_c\[\] = \{(.*?)NULL", (ROOT / "tool/analysis/runtimes/noreturn_names.c").read_text(), re.S)[1]
    names = [*re.findall(r'"(\w+)"', listed), "nobody_knows_it"]
    assert len(names) > 80 and "__libc_assert_fail" in names
    text = "\t.text\n"
    for n, name in enumerate(names):
        text += f"""
	.globl	f{n}
	.type	f{n}, @function
f{n}:	.cfi_startproc
	testl	%esi, %esi
	je	2f
5:	cmpl	$1, %edi
	ja	3f
	jmp	*table{n}(,%rdi,8)
4:	testl	%edx, %edx
	jne	1f
3:	decl	%edi
	jne	5b
	ret
2:	pushq	%rax
	.cfi_def_cfa_offset 16
	call	{name}
1:	.cfi_def_cfa_offset 8
	movl	$1, %eax
	jmp	3b
	.cfi_endproc
	.size	f{n}, . - f{n}
	.section .rodata
	.balign	8
table{n}: .quad	4b, 3b
	.text
"""
    obj = assemble(tmp_path, text)
    p = run([etch, "check", "--format", "json", "--fail-on", "never", obj])
    wrong = {x["place"]["function"]: x["id"] for x in json.loads(p.stdout)["files"][0]["findings"] if x["id"] in ("ETCH-C001", "ETCH-S001")}
    assert set(wrong) == {f"f{len(names) - 1}"}, wrong


def test_weak_function_that_nobody_defines(etch, tmp_path):
    """Linked statically its call goes to the address 0, after a test."""
    source = tmp_path / "t.c"
    source.write_text("__attribute__((weak)) void maybe(void);\nint main(void) { if (maybe) maybe(); return 0; }\n")
    out = tmp_path / "t"
    run(["gcc", "-O0", "-static", "-fno-pie", "-no-pie", "-o", out, source])
    assert not [x for x in check(etch, out)[str(out)] if x["severity"] == "error"]


MONO = """
	.text
	.globl	f
	.type	f, @function
f:	subq	$8, %rsp
	testl	%edi, %edi
	je	1f
	addq	$8, %rsp
	ret
1:	call	{name}
	.byte	0x00, 0xe0, 0x3f, 0xf0, 0x3f, 0x00, 0xff, 0xff
	.size	f, . - f
	.type	{name}, @function
{name}:	jmp	*got(%rip)
	.size	{name}, . - {name}
	.data
got:	.quad	0
"""


@pytest.mark.parametrize("name, raises", [
    *((f"plt__jit_icall_mono_arch_{n}", True) for n in (
        "throw_exception", "throw_corlib_exception", "rethrow_exception", "rethrow_preserve_exception")),
    ("plt__jit_icall_mono_arch_set_exception", False)])
def test_what_mono_raises_by(etch, tmp_path, name, raises):
    """Its AOT compiler puts constants after calls of them."""
    obj = assemble(tmp_path, MONO.format(name=name))
    found = {x["id"] for x in check(etch, obj)[str(obj)]}
    assert ("ETCH-D005" not in found) == raises


def test_facts_name_the_instructions(etch, tmp_path):
    obj = assemble(tmp_path, "\t.text\n\t.globl\tf\n\t.type\tf, @function\nf:\tpushq\t%rbx\n\tsubq\t$16, %rsp\n\tcall\tg\n"
                   "\taddq\t$16, %rsp\n\tret\n")
    (x,) = check(etch, obj)[str(obj)]
    assert x["id"] == "ETCH-S002" and x["text"] == "returns with 8 bytes left on the stack"
    facts = {f["label"]: (f["place"]["offset"], f["text"]) for f in x["facts"]}
    assert facts["here"] == (14, "rsp is CFA-16 (8 bytes pushed); rbx saved at CFA-16")
    assert facts["on top of the stack"] == (0, "stored there by `pushq %rbx`")
    assert facts["last change of rsp"] == (10, "addq $0x10, %rsp")


def test_threads_say_the_same(etch, tmp_path):
    """Findings do not depend on the number of threads, nor on their order."""
    made = mutants.Mutants(mutants.compile_to_assembly("gcc", mutants.source(5, 30), ["-O2"]), 5, True)
    obj = assemble(tmp_path, made.text)
    one, two = (run([etch, "check", "--level", "note", "-j", n, obj], ok=1).stdout for n in (1, 2))
    assert one == two and one.count("[ETCH-S002") > 50


def test_hostile_code(etch_asan, tmp_path):
    """Code that overlaps itself everywhere, and random bytes: bounded, and no report of a sanitizer."""
    import random
    from conftest import asan_env

    rng = random.Random(6)
    parts = ["\t.text\n"]
    for n in range(60):
        parts.append(f"\t.globl\tr{n}\n\t.type\tr{n}, @function\nr{n}:\n")
        kind = n % 3
        if kind == 0:
            data = bytes(rng.randrange(256) for _ in range(400))
        elif kind == 1:  # branches into each other
            data = b"".join(bytes([rng.choice([0x74, 0xeb, 0x75, 0xfd, 0x50, 0x58, 0xc3]), rng.randrange(256)]) for _ in range(200))
        else:
            data = b"\xeb\xff" * 200
        parts.append("\t.byte\t" + ",".join(map(str, data)) + f"\n\t.size\tr{n}, . - r{n}\n")
    obj = assemble(tmp_path, "".join(parts))
    p = run([etch_asan, "check", "--format", "json", "--fail-on", "never", obj], env=asan_env())
    assert len(json.loads(p.stdout)["files"][0]["findings"]) > 10
