# SPDX-License-Identifier: MIT
"""`etch objtool` on objects of Linux 7.2: one section of annotations, other numbers of registers. Made by hand and read back
by scripts/parity/kernel.py; against the kernel's own objtool: that script."""

import random

import pytest

from conftest import run

from test_objtool import alternative, assemble, function, objtool, parity, rule

HINT = ".pushsection .discard.unwind_hints\n.long {at} - .\n.short {off}\n.byte {reg}, {kind}, {signal}\n.balign 4\n.popsection\n"
AX, SP, DI, R10, SP_IND, BP_IND = 1, 3, 5, 6, 9, 10
UNDEFINED, END, CALL, REGS, PARTIAL, FUNC, SAVE, RESTORE = range(8)
(NOENDBR, RETPOLINE_SAFE, INSTR_BEGIN, INSTR_END, UNRET_BEGIN, IGNORE_ALTS, INTRA_FUNCTION_CALL, REACHABLE, NOCFI) = range(1, 10)


@pytest.fixture(autouse=True)
def release(monkeypatch):
    monkeypatch.setenv("KERNELVERSION", "7.2.13")
    monkeypatch.delenv("srctree", raising=False)


def annotate(label, kind):
    return f'.pushsection .discard.annotate_insn,"M",@progbits,8\n.long {label} - ., {kind}\n.popsection\n'


def hint(label, kind, reg=SP, off=0, signal=0):
    return HINT.format(at=label, off=off, reg=reg, kind=kind, signal=signal)


def rows(path, section=".text"):
    o = parity.Object(path)
    return [(off, parity.entry_text(e, "7.2")) for off, e in o.orc().get(o.find(section)[0], [])]


def made(etch, tmp_path, text, *args, section=".text"):
    path = assemble(tmp_path, text)
    objtool(etch, path, *(args or ("--orc",)))
    return rows(path, section)


def test_registers_have_the_numbers_of_the_release(etch, tmp_path):
    body = "push %rbp\nmov %rsp, %rbp\npush %rbx\ncall other\npop %rbx\npop %rbp\njmp __x86_return_thunk\n"
    assert made(etch, tmp_path, function("f", body)) == [
        (0, "sp+8 call"), (1, "sp+16 bp=prev-16 call"), (4, "bp+16 bp=prev-16 call"), (12, "sp+8 call"), (17, "none")]


@pytest.mark.parametrize("reg,text", [(AX, "ax+16"), (2, "dx+16"), (SP, "sp+16"), (4, "bp+16"), (DI, "di+16"), (R10, "r10+16"),
                                      (7, "r13+16"), (BP_IND, "(bp)+16"), (SP_IND, "(sp)+16")])
def test_each_register_of_a_hint_is_that_of_its_row(etch, tmp_path, reg, text):
    table = made(etch, tmp_path, f"entry:\n1:\n{hint('1b', CALL, reg, 16)}nop\n2:\n{hint('2b', FUNC)}ret\n")
    assert table == [(0, text + " call"), (1, "sp+8 call"), (2, "none")]


@pytest.mark.parametrize("reg", (8, 11, 15, 255))
def test_unknown_registers_of_hints_are_refused(etch, tmp_path, reg):
    path = assemble(tmp_path, f"entry:\n1:\n{hint('1b', CALL, reg, 16)}nop\nret\n")
    was = path.read_bytes()
    error = objtool(etch, path, "--orc", ok=2).stderr
    assert "section .discard.unwind_hints, entry at 0: a hint with an unknown register" in error and path.read_bytes() == was


@pytest.mark.parametrize("annotated", [False, True])
def test_the_trap_itself_is_annotated(etch, tmp_path, annotated):
    mark = annotate("1f", REACHABLE) if annotated else ""
    body = f"sub $8, %rsp\ntest %edi, %edi\nje 2f\n{mark}1: ud2\nnop\nadd $8, %rsp\nret\n2: add $8, %rsp\nret\n"
    assert rule(made(etch, tmp_path, function("f", body)), 10) == ("sp+16 call" if annotated else "none")


def test_a_call_that_only_pushes(etch, tmp_path):
    body = f"{annotate('1f', INTRA_FUNCTION_CALL)}1: call 2f\nint3\n2: add $8, %rsp\nret\nint3\n"
    assert rule(made(etch, tmp_path, function("f", body)), 6) == "sp+16 call"


def test_safe_branches_are_not_warned_of(etch, tmp_path):
    text = function("f", f"{annotate('1f', RETPOLINE_SAFE)}1: jmp *%rax\nint3\n2: jmp *%rax\nint3\n")
    path = assemble(tmp_path, text)
    assert objtool(etch, path, "--retpoline").stderr.splitlines() == [
        f"{path}: warning: objtool: f+0x3: indirect jump found in MITIGATION_RETPOLINE build"]


def test_code_without_endbr_may_say_so(etch, tmp_path):
    text = function("f", f"ret\n{annotate('f', NOENDBR)}") + function("g", "ret") + ".data\n.quad f, g\n"
    path = assemble(tmp_path, text)
    assert [x.split(": ", 2)[2] for x in objtool(etch, path, "--ibt", "--link").stderr.splitlines()] == [
        "objtool: .data+0x8: data relocation to !ENDBR: g+0x0"]


def test_thunks_of_early_code(etch, tmp_path):
    path = assemble(tmp_path, function("f", "call __pi___x86_indirect_thunk_rax\njmp __pi___x86_return_thunk"))
    objtool(etch, path, "--retpoline", "--rethunk")
    o = parity.Object(path)
    assert [len(o.sites(s)) for s in parity.SITES[:3]] == [0, 1, 1]


def test_sites_in_replacements(etch, tmp_path):
    text = function("f", f"1: .nops 5\n2: ret\n{alternative('1b', '2b', '3f', '4f')}") + \
        '.section .altinstr_replacement, "ax"\n3: jmp __x86_return_thunk\n4:\n'
    path = assemble(tmp_path, text.replace(".word 1\n", ".long 1\n"))
    objtool(etch, path, "--rethunk")
    o = parity.Object(path)
    assert [x[2:] for x in o.sites(".return_sites")] == [(str(o.find(".altinstr_replacement")[0]), 0)]


# ---- what is malformed -------------------------------------------------------------------

TRAP = function("f", f"1: ud2\n{annotate('1b', REACHABLE)}ret\nint3\n2: jmp *%rax\nint3\n{annotate('2b', RETPOLINE_SAFE)}")
SECTION = ".discard.annotate_insn"
EVERYTHING = (".text\n.skip 16, 0x90\n" + function("f", f"{annotate('f', NOENDBR)}push %rbx\n1: ud2\n{annotate('1b', REACHABLE)}"
    f"2: jmp *%rax\nint3\n{annotate('2b', RETPOLINE_SAFE)}{annotate('3f', INTRA_FUNCTION_CALL)}3: call 4f\nint3\n4: add $8, %rsp\n"
    f"5: nop\n{annotate('5b', INSTR_BEGIN)}6: nop\n{annotate('6b', INSTR_END)}7: .nops 5\n8: {annotate('7b', IGNORE_ALTS)}"
    f"pop %rbx\nlea f(%rip), %rdx\ncall far\njmp __x86_return_thunk\n" +
    alternative("7b", "8b", "9f", "10f").replace(".word 1\n", ".long 1\n")) + "entry:\n" +
    f"11:\n{hint('11b', PARTIAL, SP, 8)}{annotate('11b', UNRET_BEGIN)}push %rax\n12:\n{hint('12b', CALL, AX, 16)}nop\n"
    f"13:\n{hint('13b', FUNC)}call __SCT__s\n.byte 0xd6\n{annotate('13b', NOCFI)}"
    '.section .altinstr_replacement, "ax"\n9: jmp __x86_return_thunk\n10:\n.data\n.quad f, __SCK__s\n'
    '.section __patchable_function_entries,"awo",@progbits,.text\n.quad f - 16\n')


def refused(etch, path, args=("--orc", "--retpoline")):
    was = path.read_bytes()
    error = objtool(etch, path, *args, ok=2).stderr
    assert error.count("\n") == 1 and str(path) in error and SECTION in error
    assert path.read_bytes() == was
    return error


@pytest.mark.parametrize("kind", (0, 10, 255, 0x80000000, 0xffffffff))
def test_unknown_types_are_refused(etch, tmp_path, kind):
    path = assemble(tmp_path, TRAP + function("g", f"3: nop\nret\n{annotate('3b', kind)}"))
    assert f"entry at 0x10: unknown annotation type {kind}" in refused(etch, path)


@pytest.mark.parametrize("label", ("data", "1b + 100", "1b - 100", "elsewhere"))
@pytest.mark.parametrize("kind", (REACHABLE, RETPOLINE_SAFE))
def test_entries_that_refer_to_no_code_are_refused(etch, tmp_path, label, kind):
    path = assemble(tmp_path, f".data\ndata: .quad 0\n.text\n{TRAP}{annotate(label, kind)}")
    assert "refers to no code" in refused(etch, path)


def test_entries_without_a_relocation_and_cut_ones_are_refused(etch, tmp_path):
    more = '.section .discard.annotate_insn,"M",@progbits,8\n'
    assert "2 relocations of 3 entries" in refused(etch, assemble(tmp_path, TRAP + more + ".long 0, 8\n"))
    cut = function("f", "1: ud2\nret") + '.section .discard.annotate_insn\n.long 1b - ., 8\n.long 8\n'
    assert "is not a multiple of 8" in refused(etch, assemble(tmp_path, cut))
    error = refused(etch, assemble(tmp_path, TRAP + more + ".long 0\n.long f - .\n"))
    assert "entry at 0x10: has no relocation" in error


def test_annotations_of_another_release_are_refused(etch, tmp_path, monkeypatch):
    old = assemble(tmp_path, function("f", '1: ud2\n.pushsection .discard.reachable\n.long 1b - .\n.popsection\nret'), "old")
    assert "section .discard.reachable is not one of Linux 7.2" in objtool(etch, old, "--orc", ok=2).stderr
    new = assemble(tmp_path, TRAP, "new")
    for version in ("6.12.1", "6.1", ""):
        monkeypatch.setenv("KERNELVERSION", version)
        assert "is not one of Linux 6.1" in refused(etch, new)


ALL_PASSES = ["--orc", "--retpoline", "--rethunk", "--static-call", "--ibt", "--link", "--uaccess", "--sls", "--hacks", "--prefix=16",
              "--noabs", "--mcount"]


def test_all_nine_annotations_are_read(etch, tmp_path):
    path = assemble(tmp_path, EVERYTHING)
    o = parity.Object(path)
    assert {o.data(o.find(SECTION)[0])[at + 4] for at in range(0, 9 * 8, 8)} == set(range(1, 10))
    objtool(etch, path, *ALL_PASSES)
    o = parity.Object(path)
    assert all(o.find(s) for s in (".call_sites", ".return_sites", ".static_call_sites", ".orc_unwind"))


def test_mutants_end_in_an_error_or_a_table(etch, tmp_path):
    """Bytes of the section and of its relocations changed: no crash, and either an error in one line or a table."""
    path = assemble(tmp_path, EVERYTHING)
    o = parity.Object(path)
    whole, generator = path.read_bytes(), random.Random(72)
    place = [h for n, h in zip(o.names, o.heads) if n in (SECTION, ".rela" + SECTION)]
    assert len(place) == 2
    outcomes = set()
    for _ in range(150):
        head = generator.choice(place)
        mutant = bytearray(whole)
        at = head[4] + generator.randrange(head[5])
        mutant[at] ^= 1 << generator.randrange(8)
        path.write_bytes(mutant)
        p = objtool(etch, path, *ALL_PASSES, ok=(0, 2))
        outcomes.add(p.returncode)
        if p.returncode:
            assert p.stderr.splitlines()[-1].startswith("etch: ") and str(path) in p.stderr
            assert path.read_bytes() == bytes(mutant)
    assert outcomes == {0, 2}


# ---- releases ----------------------------------------------------------------------------

def test_a_newer_release_is_taken_for_the_newest(etch, tmp_path, monkeypatch):
    path = assemble(tmp_path, TRAP)
    objtool(etch, path, "--orc")
    want = rows(path)
    for version in ("7.3.0-rc7", "8.0", "7.10.2"):
        monkeypatch.setenv("KERNELVERSION", version)
        path = assemble(tmp_path, TRAP)
        assert objtool(etch, path, "--orc").stderr.splitlines()[0] == \
            f"etch: warning: objtool: KERNELVERSION is {version}, newer than all known releases: taken for 7.2"
        assert rows(path) == want


def test_noreturn_functions_are_those_of_the_kernels_source(etch, tmp_path, monkeypatch):
    """The build says where its source is; what that lists counts, and not what etch knows of the release."""
    text = function("f", "push %rbx\ncall vpanic\nnop\npop %rbx\nret") + function("g", "push %rbx\ncall news\nnop\npop %rbx\nret")
    at = {"vpanic": 6, "news": 15}
    assert [rule(made(etch, tmp_path, text), x) for x in at.values()] == ["none", "sp+16 call"]
    header = tmp_path / "tree/tools/objtool/noreturns.h"
    header.parent.mkdir(parents=True)
    header.write_text("/* SPDX */\n\n/*\n * NORETURN(vpanic)\n */\nNORETURN(abort)\nNORETURN(news)\n")
    monkeypatch.setenv("srctree", str(tmp_path / "tree"))
    assert [rule(made(etch, tmp_path, text), x) for x in at.values()] == ["sp+16 call", "none"]
    header.write_text("".join(f"NORETURN({name})\n" for name in [*map("n{}".format, range(600)), "news"]))
    assert [rule(made(etch, tmp_path, text), x) for x in at.values()] == ["sp+16 call", "none"]


# ---- options -----------------------------------------------------------------------------

PADDED = (".text\nbefore: nop\n.skip 15, 0x90\n" + function("f", "push %rbx\ncall g\npop %rbx\nret\nint3") + ".skip 16, 0x90\n" +
          "g:\n.type g, @function\nint3\nret\nint3\n.size g, . - g\n" + ".skip 16, 0x90\n" + function("h", "ret\nint3") +
          '.section __patchable_function_entries,"awo",@progbits,.text\n.quad f - 16, g - 16\n')


def test_prefix_names_what_the_compiler_says(etch, tmp_path):
    path = assemble(tmp_path, PADDED)
    was = parity.Object(path)
    objtool(etch, path, "--orc", "--prefix=16")
    o = parity.Object(path)
    assert [(s[0], s[1], s[3], s[4]) for s in sorted(o.symbols) if s[0].startswith("__pfx_")] == [
        ("__pfx_f", 0x12, 0, 16), ("__pfx_g", 0x02, 25, 16)]
    assert [s for s in o.named() if not s[0].startswith("__pfx_")] == was.named()
    assert rows(path)[:2] == [(0, "sp+8 call"), (17, "sp+16 call")]
    assert rule(rows(path), 25) == "sp+8 call" and rule(rows(path), 48) == "none"  # h has none


def test_prefix_names_nops_before_7_2(etch, tmp_path, monkeypatch):
    monkeypatch.setenv("KERNELVERSION", "6.12.1")
    path = assemble(tmp_path, PADDED)
    objtool(etch, path, "--orc", "--prefix=16")
    assert [(s[0], s[3]) for s in sorted(parity.Object(path).symbols) if s[0].startswith("__pfx_")] == [
        ("__pfx_f", 0), ("__pfx_g", 25), ("__pfx_h", 44)]


@pytest.mark.parametrize("number", ("-1", "4097", "x", ""))
def test_prefix_is_a_number(etch, tmp_path, number):
    path = assemble(tmp_path, PADDED)
    assert "--prefix must be a number from 0 to 4096" in objtool(etch, path, "--orc", f"--prefix={number}", ok=2).stderr


CALLS = function("f", "call far\ncall near\ncall __x86_indirect_thunk_rax\ncall __SCT__s\ncall srso_safe_ret\ncall *%rax\nret\nint3\n"
                      f"{annotate('1f', INTRA_FUNCTION_CALL)}1: call 2f\nint3\n2: ret\nint3") + "near: ret\nint3\n" + \
    '.section .init.text,"ax"\n' + function("i", "call far\nret\nint3") + ".data\n.quad __SCK__s\n"


def test_calls_whose_depth_is_counted(etch, tmp_path, monkeypatch):
    """Direct calls, of what is no thunk, in code that stays."""
    for release, args, want in (("7.2", [], [0, 5]), ("7.2", ["--module"], [0, 0, 5]), ("6.12", [], [0, 5, 20])):
        monkeypatch.setenv("KERNELVERSION", release)
        text = CALLS if release == "7.2" else CALLS.replace(annotate("1f", INTRA_FUNCTION_CALL),
            ".pushsection .discard.intra_function_calls\n.long 1f - .\n.popsection\n")
        path = assemble(tmp_path, text)
        objtool(etch, path, "--hacks", "--rethunk", *args)
        assert sorted(x[3] for x in parity.Object(path).sites(".call_sites")) == want
    path = assemble(tmp_path, CALLS.replace(annotate("1f", INTRA_FUNCTION_CALL), ""))
    objtool(etch, path, "--hacks=skylake", "--orc")
    assert not parity.Object(path).find(".call_sites")


WARNED = function("f", "ret")


def test_werror(etch, tmp_path):
    """As an error of the build: nothing is written, exit status 1."""
    path = assemble(tmp_path, WARNED)
    was = path.read_bytes()
    assert objtool(etch, path, "--orc", "--sls", "--werror", ok=1).stderr == f"{path}: error: objtool: f+0x0: missing int3 after ret\n"
    assert path.read_bytes() == was
    objtool(etch, path, "--orc", "--werror")
    assert rows(path)


def test_output(etch, tmp_path):
    path, out = assemble(tmp_path, WARNED), tmp_path / "out.o"
    was = path.read_bytes()
    for args in (["-o", out], [f"--output={out}"]):
        objtool(etch, path, "--orc", *args)
        assert path.read_bytes() == was and rows(out)
        out.unlink()
    objtool(etch, path, "--sls", "-o", out)  # nothing to add
    assert parity.Object(out).named() == parity.Object(path).named()
    out.unlink()
    for args in (["--dry-run"], ["--werror", "--sls"]):
        objtool(etch, path, "--orc", "-o", out, *args, ok=(0, 1))
        assert not out.exists()
    assert "/nonexistent/out.o" in objtool(etch, path, "--orc", "-o", "/nonexistent/out.o", ok=2).stderr


def test_backup_of_what_fails(etch, tmp_path):
    path = assemble(tmp_path, WARNED)
    was, kept = path.read_bytes(), path.with_name("a.o.orig")
    objtool(etch, path, "--orc", "--backup")
    assert not kept.exists()
    path.write_bytes(was)
    objtool(etch, path, "--orc", "--sls", "--backup")
    assert kept.read_bytes() == was and path.read_bytes() != was
    kept.unlink()
    bad = assemble(tmp_path, TRAP + function("g", f"3: nop\nret\n{annotate('3b', 77)}"))
    was = bad.read_bytes()
    objtool(etch, bad, "--orc", "--backup", ok=2)
    assert kept.read_bytes() == was == bad.read_bytes()


def test_noabs(etch, tmp_path):
    path = assemble(tmp_path, function("f", "mov $f, %rax\nlea f(%rip), %rax\nmovabs $f, %rcx\nret") +
                    ".data\n.long f - .\n.quad f\n.section .notloaded\n.quad f\n"
                    '.section __patchable_function_entries,"aw"\n.quad f\n')
    assert objtool(etch, path, "--noabs").stderr.splitlines() == [
        f"{path}: warning: objtool: section {name} has absolute relocation at offset {at:#x}" for name, at in
        ((".text", 3), (".text", 16), (".data", 4))]


def test_addresses_of_sections_in_warnings(etch, tmp_path):
    path = assemble(tmp_path, ".text\n.nops 4\n" + function("f", "nop\nret"))
    assert objtool(etch, path, "--sls", "--sec-address").stderr == \
        f"{path}: warning: objtool: f+0x1 (.text+0x5): missing int3 after ret\n"


# ---- code --------------------------------------------------------------------------------

def test_udb_is_a_trap(etch, tmp_path):
    """One byte; what follows is not reached, unless the trap is annotated."""
    for mark, want in (("", "none"), (annotate("1f", REACHABLE), "sp+16 call")):
        body = f"push %rbx\ntest %edi, %edi\nje 2f\n{mark}1: .byte 0xd6\nnop\npop %rbx\nret\n2: pop %rbx\nret\n"
        assert rule(made(etch, tmp_path, function("f", body)), 6) == want
    path = assemble(tmp_path, function("f", ".byte 0xd6"))
    assert "\tudb\t" in run([etch, "inspect", "code", "--format=tsv", "f", path]).stdout


def test_what_does_not_decode_is_an_error(etch, tmp_path, monkeypatch):
    """objtool 7.2 ends with one; older ones warn, and leave the object without rows."""
    text = function("g", "push %rbx\npop %rbx\nret") + function("f", "nop\n.byte 0x06\nret")
    path = assemble(tmp_path, text)
    was = path.read_bytes()
    assert objtool(etch, path, "--orc", ok=2).stderr == f"etch: {path}: f+0x1: can't decode instruction\n"
    assert path.read_bytes() == was
    monkeypatch.setenv("KERNELVERSION", "6.12.1")
    assert objtool(etch, path, "--orc").stderr == f"{path}: warning: objtool: f+0x1: can't decode instruction\n"
    assert parity.Object(path).orc()


def test_an_address_without_a_relocation_is_a_use(etch, tmp_path, monkeypatch):
    """lea of code in the same section, which the assembler resolves."""
    text = ".text\nlocal: endbr64\nret\nnop\nplain: ret\n.type local, @function\n.size local, 5\n.type plain, @function\n.size plain, 1\n" + \
        function("f", "lea local(%rip), %rax\nlea plain(%rip), %r9\nret")
    path = assemble(tmp_path, text)
    assert objtool(etch, path, "--ibt", "--link").stderr == f"{path}: warning: objtool: f+0x7: relocation to !ENDBR: plain+0x0\n"
    assert not parity.Object(path).sites(".ibt_endbr_seal")
    monkeypatch.setenv("KERNELVERSION", "6.12.1")
    path = assemble(tmp_path, text)
    assert not objtool(etch, path, "--ibt", "--link").stderr
    assert [x[3] for x in parity.Object(path).sites(".ibt_endbr_seal")] == [0]
    monkeypatch.setenv("KERNELVERSION", "7.2")
    path = assemble(tmp_path, function("f", "lea g+1(%rip), %rax\nret\ng: mov $1, %eax\nret"))
    assert objtool(etch, path, "--ibt", "--link").stderr == f"{path}: warning: objtool: f+0x0: corrupt function pointer reference\n"


def test_deprecated_names_of_modules(etch, tmp_path):
    path = assemble(tmp_path, function("init_module", "endbr64\nret"))
    assert "Magic init_module() function name is deprecated" in objtool(etch, path, "--ibt", "--link", "--module", ok=2).stderr


def test_a_function_that_ends_in_an_indirect_jump_returns(etch, tmp_path):
    """objtool knows no jump tables yet when it asks; one that ends in itself does not return."""
    for body, said in (("jmp *%rax", []), ("1: jmp 1b", ["f+0x5: g() missing __noreturn in .c/.h or NORETURN() in noreturns.h"])):
        path = assemble(tmp_path, f"g: {body}\nint3\n.type g, @function\n.size g, . - g\n" + function("f", "call g\nret\nint3"))
        assert [x.split("objtool: ")[1] for x in objtool(etch, path, "--orc").stderr.splitlines()] == said
