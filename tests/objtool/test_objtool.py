# SPDX-License-Identifier: MIT
"""`etch objtool` on small objects with the special sections of Linux, made by hand; read back by
scripts/parity/kernel.py, which knows nothing of etch's readers. Against the kernel's own objtool: that script."""

import os
import random
import re
import struct
import sys
from pathlib import Path

import pytest

from conftest import ROOT, run

sys.path.insert(0, str(ROOT / "scripts" / "parity"))
import kernel as parity  # noqa: E402

HINT = ".pushsection .discard.unwind_hints\n.long {at} - .\n.short {off}\n.byte {reg}, {kind}, {end}\n.balign 4\n.popsection\n"
SP, BP, R10 = 5, 4, 6
CALL, REGS, PARTIAL, FUNC, ENTRY, SAVE, RESTORE = range(7)


def note(section, label):
    return f".pushsection .discard.{section}\n.long {label} - .\n.popsection\n"


def hint(label, kind, reg=SP, off=0, end=0):
    return HINT.format(at=label, off=off, reg=reg, kind=kind, end=end)


def key(code, target, addend=0):
    return f".pushsection __jump_table,\"aw\"\n.balign 8\n.long {code} - ., {target} - .\n.quad key + {addend} - .\n.popsection\n"


def alternative(at, end, new, new_end):
    return (f".pushsection .altinstructions,\"a\"\n.long {at} - ., {new} - .\n.word 1\n.byte {end} - {at}, {new_end} - {new}\n"
            ".popsection\n")


def function(name, body):
    return f".globl {name}\n.type {name}, @function\n{name}:\n{body}\n.size {name}, . - {name}\n"


def assemble(tmp_path, text, name="a"):
    source, out = tmp_path / f"{name}.s", tmp_path / f"{name}.o"
    source.write_text(text)
    run(["as", "-o", out, source])
    return out


def objtool(etch, path, *args, ok=0, **more):
    return run([etch, "objtool", *args, path], ok=ok, **more)


def rows(path, section=".text"):
    """[(offset, rule)] of a section."""
    o = parity.Object(path)
    return [(off, parity.entry_text(e)) for off, e in o.orc().get(o.find(section)[0], [])]


def rule(table, at):
    return max((r for r in table if r[0] <= at), default=(0, "none"))[1]


def made(etch, tmp_path, text, *args, section=".text"):
    path = assemble(tmp_path, text)
    objtool(etch, path, *(args or ("--orc",)))
    return rows(path, section)


def test_plain_function(etch, tmp_path):
    body = "push %rbp\nmov %rsp, %rbp\npush %rbx\ncall other\npop %rbx\npop %rbp\njmp __x86_return_thunk\n"
    table = made(etch, tmp_path, function("f", body))
    assert table == [(0, "sp+8 call"), (1, "sp+16 bp=prev-16 call"), (4, "bp+16 bp=prev-16 call"), (12, "sp+8 call"),
                     (17, "none")]


@pytest.mark.parametrize("annotated", [False, True])
def test_warn_goes_on(etch, tmp_path, annotated):
    mark = note("reachable", "1f") if annotated else ""
    body = f"sub $8, %rsp\ntest %edi, %edi\nje 2f\nud2\n{mark}1: nop\nadd $8, %rsp\nret\n2: add $8, %rsp\nret\n"
    assert rule(made(etch, tmp_path, function("f", body)), 10) == ("sp+16 call" if annotated else "none")


def test_unreachable(etch, tmp_path):
    body = f"push %rbx\nud2\n{note('unreachable', '1f')}1: nop\npop %rbx\nret\n"
    assert rule(made(etch, tmp_path, function("f", body)), 3) == "none"
    body = f"push %rbx\nnop\n{note('unreachable', '1f')}1: nop\npop %rbx\nret\n"
    assert rule(made(etch, tmp_path, function("f", body), "--orc"), 2) == "none"


KEYED = function("f", f"push %rbx\n1: jmp 2f\n{key('1b', '2f', 2)}pop %rbx\nret\nint3\n2: pop %rbx\nret\nint3\n"
                      f"3: .byte 0x66, 0x90\n{key('3b', '2b')}") + ".data\nkey: .quad 0\n"


def test_static_keys_go_both_ways(etch, tmp_path):
    table = made(etch, tmp_path, KEYED)
    assert [rule(table, at) for at in (1, 3, 4, 6, 7)] == ["sp+16 call", "sp+16 call", "sp+8 call", "sp+16 call", "sp+8 call"]


def test_jump_label_hack(etch, tmp_path):
    text = function("f", f"1: .byte 0xe9\n.long far - . - 4\n{key('1b', '2f', 2)}ret\nint3\n2: ret\nint3\n") + \
        ".data\nkey: .quad 0\n"
    path = assemble(tmp_path, text)
    objtool(etch, path, "--hacks=jump_label")
    o = parity.Object(path)
    text = o.find(".text")[0]
    assert o.data(text)[:5] == bytes.fromhex("0f1f440000") and [x[1] for x in o.relocs(text)] == [0]
    path = assemble(tmp_path, KEYED)
    objtool(etch, path, "-hjump_label", "--orc")
    assert parity.Object(path).data(text)[1:3] == b"\x66\x90"
    assert rule(rows(path), 3) == "sp+16 call"


def test_keys_in_data_are_refused(etch, tmp_path):
    path = assemble(tmp_path, function("f", "ret") + ".data\nkey: .quad 0\n" + key("key", "key", 2))
    was = path.read_bytes()
    for args in (["--orc"], ["--hacks=jump_label"]):
        error = objtool(etch, path, *args, ok=2).stderr
        assert error.count("\n") == 1 and str(path) in error and "__jump_table" in error
    assert path.read_bytes() == was


def test_hints(etch, tmp_path):
    body = (f"1:\n{hint('1b', ENTRY, 0, 0, 1)}swapgs\nmov %rsp, %rdi\n2:\n{hint('2b', PARTIAL, SP, 8)}push %rax\n"
            f"push %rbx\n3:\n{hint('3b', REGS)}push %rdi\n4:\n{hint('4b', CALL, R10, 16)}nop\n5:\n{hint('5b', FUNC)}ret\n")
    table = made(etch, tmp_path, "entry:\n" + body)
    assert table == [(0, "end"), (6, "sp+8 iret"), (7, "sp+16 iret"), (8, "sp+0 regs"), (9, "r10+16 call"), (10, "sp+8 call"),
                     (11, "none")]


def test_hints_of_6_12(etch, tmp_path, monkeypatch):
    """Numbers of their own, rows with types, and a flag: the interrupted code was not after a call."""
    monkeypatch.setenv("KERNELVERSION", "6.12.117")
    undefined, end, call, regs, partial, func = range(6)
    body = (f"1:\n{hint('1b', end)}swapgs\nmov %rsp, %rdi\n2:\n{hint('2b', partial, SP, 8, 1)}push %rax\n"
            f"push %rbx\n3:\n{hint('3b', regs)}push %rdi\n4:\n{hint('4b', call, R10, 16)}nop\n5:\n{hint('5b', func)}nop\n"
            f"6:\n{hint('6b', undefined, 0)}ret\n")
    path = assemble(tmp_path, "entry:\n" + body)
    objtool(etch, path, "--orc")
    o = parity.Object(path)
    assert [(at, parity.entry_text(e, "6.12")) for at, e in o.orc()[o.find(".text")[0]]] == [
        (0, "end"), (6, "sp+8 iret signal"), (7, "sp+16 iret signal"), (8, "sp+0 regs"), (9, "r10+16 call"), (10, "sp+8 call"),
        (11, "none"), (12, "none")]


def test_saved_frame_is_restored(etch, tmp_path):
    body = f"push %rbx\n1:\n{hint('1b', SAVE)}push %rax\npush %rcx\niretq\n2:\n{hint('2b', RESTORE)}pop %rbx\nret\n"
    table = made(etch, tmp_path, function("f", body))
    assert [rule(table, at) for at in (1, 2, 3, 5, 6)] == ["sp+16 call", "sp+24 call", "sp+32 call", "sp+16 call", "sp+8 call"]


def test_call_that_only_pushes(etch, tmp_path):
    """A retpoline: what it calls is itself, and returns elsewhere. Labels of no size are no functions."""
    body = (f"1:\n{hint('1b', FUNC)}call 3f\n{note('intra_function_calls', '1b')}2:\n{hint('2b', ENTRY, 0, 0, 1)}pause\njmp 2b\n"
            f"3: mov %rcx, (%rsp)\n4:\n{hint('4b', FUNC)}jmp __x86_return_thunk\nint3\n")
    table = made(etch, tmp_path, ".globl a, b\na:\n" + body + "b:\n" + body)
    size = 19
    assert [(at - size * k, r) for k in (0, 1) for at, r in table if size * k <= at < size * k + size] == 2 * [
        (0, "sp+8 call"), (5, "end"), (9, "sp+16 call"), (13, "sp+8 call"), (18, "none")]


def test_iret_to_itself(etch, tmp_path):
    body = "mov %ss, %eax\npush %rax\npush %rsp\naddq $8, (%rsp)\npushfq\nmov %cs, %eax\npush %rax\npush $1f\niretq\n1: ret\n"
    assert made(etch, tmp_path, function("f", body))[-2:] == [(20, "sp+8 call"), (21, "none")]


def test_alternatives_have_the_rows_of_each_byte(etch, tmp_path):
    body = "1: call other\n2: ret\nint3\n" + alternative("1b", "2b", "3f", "4f")
    new = ".section .altinstr_replacement,\"ax\"\n3: push %rbx\npushfq\npop %rax\npop %rbx\n4:\n"
    table = made(etch, tmp_path, function("f", body) + new)
    assert [rule(table, at) for at in range(6)] == ["sp+8 call", "sp+16 call", "sp+24 call", "sp+16 call", "sp+8 call", "sp+8 call"]


def test_replacement_that_jumps_to_its_end(etch, tmp_path):
    body = "push %rbx\n1: .nops 8\n2: pop %rbx\nret\nint3\n" + alternative("1b", "2b", "3f", "4f")
    new = ".section .altinstr_replacement,\"ax\"\n3: push %rcx\ntest %eax, %eax\npop %rcx\nje 4f\nnop\n4:\n"
    table = made(etch, tmp_path, function("f", body) + new)
    assert [rule(table, at) for at in (1, 2, 4, 5, 9, 10)] == ["sp+16 call", "sp+24 call", "sp+24 call", "sp+16 call", "sp+16 call", "sp+8 call"]


def test_fixups_are_reached(etch, tmp_path):
    body = "push %rbx\n1: mov (%rdi), %rax\npop %rbx\nret\nint3\n2: xor %eax, %eax\npop %rbx\nret\nint3\n"
    table = made(etch, tmp_path, function("f", body) + ".section __ex_table,\"a\"\n.balign 4\n.long 1b - ., 2b - ., 3\n")
    assert [rule(table, at) for at in (6, 7, 10)] == ["none", "sp+16 call", "sp+8 call"]


def test_calls_that_do_not_return(etch, tmp_path):
    table = made(etch, tmp_path, function("f", "push %rbx\ncall panic\nnop\nnop\ncall other\npop %rbx\nret\n"))
    assert rule(table, 2) == "sp+16 call" and rule(table, 6) == "none"


def test_a_label_inside_of_a_function_is_called(etch, tmp_path):
    """As __put_user_nocheck_4 of a kernel linked into one object: that it returns is known only after some rounds."""
    f = function("f", "cmp %rbx, %rcx\njae 9f\n.globl label\nlabel: mov %eax, (%rcx)\nxor %ecx, %ecx\njmp __x86_return_thunk") + \
        ".balign 16\n9: mov $-14, %ecx\njmp __x86_return_thunk\n"
    g = function("g", "push %rbx\ncall label\nmov %ecx, %edx\ncall label\nor %ecx, %edx\npop %rbx\njmp __x86_return_thunk")
    table = [(at - 26, r) for at, r in made(etch, tmp_path, f + g) if at > 26]
    assert table == [(1, "sp+16 call"), (16, "sp+8 call"), (21, "none")]


def test_code_without_a_function_symbol_has_no_rows(etch, tmp_path):
    assert made(etch, tmp_path, "f: push %rbx\npop %rbx\nret\n") == []


def test_function_with_a_frame_of_its_own(etch, tmp_path):
    text = function("f", "push %rbx\npop %rbx\nret") + function("g", "ret") + \
        ".section .discard.func_stack_frame_non_standard,\"aw\"\n.quad f\n"
    assert made(etch, tmp_path, text) == [(3, "sp+8 call"), (4, "none")]


def test_nothing_below_rsp(etch, tmp_path):
    """What is popped is gone: an interrupt writes there."""
    body = "lea 8(%rsp), %r10\nand $-32, %rsp\npush -8(%r10)\npush %rbp\nmov %rsp, %rbp\npush %r10\ncall other\n" \
           "pop %r10\npop %rbp\nlea -8(%r10), %rsp\nret\n"
    table = made(etch, tmp_path, function("f", body))
    assert [r for _, r in table] == ["sp+8 call", "r10+0 call", "r10+0 bp=bp+0 call", "(bp)-8 bp=bp+0 call", "r10+0 bp=bp+0 call",
                                     "r10+0 call", "sp+8 call", "none"]


def test_switch_of_stacks(etch, tmp_path):
    """The top of the other stack holds rsp."""
    table = made(etch, tmp_path, function("f", "mov %rsp, (%r11)\nmov %r11, %rsp\ncall other\npop %rsp\nret\n"))
    assert table == [(0, "sp+8 call"), (6, "(sp)+8 call"), (12, "sp+8 call"), (13, "none")]


def test_sites(etch, tmp_path):
    body = "call __SCT__one\ncall __x86_indirect_thunk_rax\njmp __SCT__one\nint3\njmp __x86_return_thunk\nje __x86_indirect_thunk_rcx\n"
    path = assemble(tmp_path, function("f", body) + ".data\n.quad __SCK__one\n")
    objtool(etch, path, "--retpoline", "--rethunk", "--static-call", "--sls", "--orc")
    o = parity.Object(path)
    text = str(o.find(".text")[0])
    assert [x[2:] for x in o.sites(".retpoline_sites")] == [(text, 5), (text, 21)]
    assert [x[2:] for x in o.sites(".return_sites")] == [(text, 16)]
    calls = o.sites(".static_call_sites")
    assert [x[2:] for x in calls if x[0] == 0] == [(text, 0), (text, 10)]
    assert sorted(x[2:] for x in calls if x[0] == 4) == [("__SCK__one", 0), ("__SCK__one", 1)]
    path = assemble(tmp_path, function("f", "call __SCT__one\nret"))
    assert "__SCK__one" in objtool(etch, path, "--static-call", ok=2).stderr
    objtool(etch, path, "--static-call", "--module")
    assert [x[2:] for x in parity.Object(path).sites(".static_call_sites") if x[0] == 4] == [("__SCT__one", 0)]


def test_warnings_have_the_form_of_objtools(etch, tmp_path):
    safe = ".pushsection .discard.retpoline_safe\n.quad 1f\n.popsection\n"
    path = assemble(tmp_path, function("f", f"call *%rax\njmp *%rax\nint3\n{safe}1: jmp *%rax\nret\n"))
    said = objtool(etch, path, "--retpoline", "--rethunk", "--sls").stderr.splitlines()
    assert said == [f"{path}: warning: objtool: f+{at}: {text}" for at, text in (
        ("0x0", "indirect call found in RETPOLINE build"), ("0x2", "indirect jump found in RETPOLINE build"),
        ("0x7", "'naked' return found in RETHUNK build"), ("0x7", "missing int3 after ret"))]


def test_noinstr_hack(etch, tmp_path):
    text = ".section .noinstr.text,\"ax\"\n" + function("f", "call __sanitizer_cov_trace_pc\njmp __sanitizer_cov_trace_pc\n")
    path = assemble(tmp_path, text)
    objtool(etch, path, "--hacks=noinstr")
    o = parity.Object(path)
    section = o.find(".noinstr.text")[0]
    assert o.data(section) == bytes.fromhex("0f1f440000c3cc0f1f00") and {x[1] for x in o.relocs(section)} == {0}


LACKING = {"disas=f": "disas is not implemented: etch inspect code prints the code of a function",
           "trace=f": "trace is not implemented: etch inspect code prints the CFA at each instruction of a function",
           "klp-symids": "klp-symids is not implemented"}


@pytest.mark.parametrize("option", LACKING)
def test_what_is_not_implemented_is_named(etch, tmp_path, monkeypatch, option):
    monkeypatch.setenv("KERNELVERSION", "7.2")
    path = assemble(tmp_path, KEYED)
    was = path.read_bytes()
    error = objtool(etch, path, "--orc", f"--{option}", ok=2).stderr
    name = option.partition("=")[0]
    assert error == f"etch: objtool: --{LACKING[option]}; see --fallback and --skip\n" and path.read_bytes() == was
    objtool(etch, path, "--orc", f"--{option}", f"--skip={name}")
    assert parity.Object(path).orc()


def test_words_of_skip(etch, tmp_path):
    """A wrong one is an error beside a right one, too."""
    path = assemble(tmp_path, KEYED)
    for words in ("typo", "uaccess,typo", "typo,uaccess", "uaccess,", ""):
        wrong = next(w for w in words.split(",") if w != "uaccess")
        error = objtool(etch, path, "--orc", f"--skip={words}", ok=2).stderr
        assert error.endswith(f"or passes that etch objtool lacks, not '{wrong}'\n") and error.count("\n") == 1


@pytest.mark.parametrize("release,options", [("6.1", ["prefix=16", "verbose", "noabs", "werror", "output=x", "wide", "cfi"]),
                                             ("6.12", ["noabs", "werror", "output=x", "wide", "disas", "fineibt"])])
def test_a_release_has_the_options_of_its_objtool(etch, tmp_path, monkeypatch, release, options):
    monkeypatch.setenv("KERNELVERSION", release)
    path = assemble(tmp_path, KEYED)
    was = path.read_bytes()
    for option in options:
        assert objtool(etch, path, "--orc", f"--{option}", ok=2).stderr == f"etch: objtool: Linux {release} has no --{option.partition('=')[0]}\n"
    if release == "6.1":
        assert "skylake" in objtool(etch, path, "--hacks=jump_label,skylake", "--orc", ok=2).stderr
    assert path.read_bytes() == was


@pytest.mark.parametrize("release,long,short", [("6.1", ["verbose", "trace", "disas"], "vd"), ("6.12", ["trace", "disas"], "d")])
def test_a_missing_option_is_named_in_each_form(etch, tmp_path, monkeypatch, release, long, short):
    monkeypatch.setenv("KERNELVERSION", release)
    path = assemble(tmp_path, KEYED)
    for words, name in [*(([f"--{x}"] + ["f"] * (x == "trace"), x) for x in long),
                        *(([f"-{x}"], {"v": "verbose", "d": "disas"}[x]) for x in short)]:
        assert objtool(etch, path, "--orc", *words, ok=2).stderr == f"etch: objtool: Linux {release} has no --{name}\n"


def of_file(name):
    return function(name, "ret") + f".file \"{name}.c\"\n"


@pytest.mark.parametrize("release", ["6.1", "6.12", "7.2"])
def test_a_linked_object_without_link(etch, tmp_path, monkeypatch, release):
    """Before 7.2, objtool says that it acts as with --link; since 7.2 that is an error."""
    monkeypatch.setenv("KERNELVERSION", release)
    parts = [assemble(tmp_path, of_file(name), name) for name in ("a", "b")]
    linked = tmp_path / "ab.o"
    for option, status in (("--orc", "a linked object requires --link"), ("--ibt", "--ibt requires --link"),
                           ("--noinstr", "--noinstr requires --link")):
        run(["ld", "-r", "-o", linked, *parts])
        was = linked.read_bytes()
        if release == "7.2":
            assert objtool(etch, linked, option, ok=2).stderr == f"etch: {linked}: {status}\n" and linked.read_bytes() == was
        else:
            assert objtool(etch, linked, option).stderr == f"{linked}: error: objtool: Linked object detected, forcing --link\n"
        run(["ld", "-r", "-o", linked, *parts])
        assert not objtool(etch, linked, option, "--link").stderr
    one = assemble(tmp_path, of_file("f"))
    assert not objtool(etch, one, "--orc").stderr
    for option in ("--ibt", "--noinstr"):
        assert objtool(etch, one, option, ok=2).stderr == f"etch: {one}: {option} requires --link\n"
    assert objtool(etch, one, "--orc", "--unret", "--dry-run", ok=2).stderr == f"etch: {one}: --unret requires --link\n"


@pytest.mark.parametrize("release,options,error", [
    ("6.1", ["--unret"], "--unret requires --rethunk"), ("6.12", ["--unret"], "--unret requires --rethunk"),
    ("7.2", ["--unret"], "--unret requires an action"), ("6.12", ["--mnop", "--orc"], "--mnop requires --mcount"),
    ("7.2", ["--cfi", "--orc"], "--cfi requires --prefix"), ("7.2", ["--fineibt", "--orc"], "--fineibt requires --cfi"),
    ("6.1", ["--dump", "--orc"], "--dump can't be combined with other actions"),
    ("7.2", ["--dump=orc", "--sls"], "--dump can't be combined with other actions"), ("7.2", ["--dump=rows"], "--dump takes orc, not 'rows'")])
def test_combinations_that_objtool_refuses(etch, tmp_path, monkeypatch, release, options, error):
    monkeypatch.setenv("KERNELVERSION", release)
    path = assemble(tmp_path, KEYED)
    was = path.read_bytes()
    assert objtool(etch, path, *options, ok=2).stderr == f"etch: objtool: {error}\n" and path.read_bytes() == was


DUMPED = {  # as objtool prints them: the text, and the registers sp, bp, dx, rbp's slot by the numbers of the release
    "6.1": ("{at}: sp:{sp} bp:{bp} type:{kind} end:{flag}", {"call": 0, "regs": 1, "regs (partial)": 2}),
    "6.12": ("{at}:type:{kind} sp:{sp} bp:{bp} signal:{flag}", {"(und)": 0, "end": 1, "call": 2, "regs": 3, "regs (partial)": 4}),
    "7.2": ("{at}:type:{kind} sp:{sp} bp:{bp} signal:{flag}", {"(und)": 0, "end": 1, "call": 2, "regs": 3, "regs (partial)": 4})}
NAMES = {"none": "(und)", "ax": "ax", "dx": "dx", "sp": "sp", "bp": "bp", "di": "di", "r10": "r10", "r13": "r13", "prev": "prevsp"}


@pytest.mark.parametrize("release", DUMPED)
def test_dump(etch, tmp_path, monkeypatch, release):
    """All registers, types and flags, in the format of the release's objtool."""
    monkeypatch.setenv("KERNELVERSION", release)
    form, kinds = DUMPED[release]
    rows, expected = [], []
    names = parity.REGISTERS[release]
    for number in range(12):
        for kind, code in kinds.items():
            flag, other = number & 1, (number * 5 + 2) % 12
            rows.append(f".short {8 * number - 16}, {-8 * number}, {number | other << 4 | code << 8 | flag << (10 if release == '6.1' else 11)}")

            def text(i, off):
                name = names[i] if i < len(names) else "?"
                if name in ("(sp)", "(bp)"):
                    return f"(sp){off:+d}" if name == "(sp)" else f"(bp{off:+d})"
                return "(und)" if name == "none" else f"{NAMES.get(name, name)}{off:+d}"
            expected.append(form.format(at=f".text+{len(rows) - 1:x}", sp=text(number, 8 * number - 16), bp=text(other, -8 * number),
                                        kind=kind, flag=flag))
    ips = "".join(f".long .text + {i} - .\n" for i in range(len(rows)))
    path = assemble(tmp_path, ".text\n.nops 80\n.section .orc_unwind,\"a\"\n" + "\n".join(rows) + '\n.section .orc_unwind_ip,"a"\n' + ips)
    was = path.read_bytes()
    assert objtool(etch, path, "--dump").stdout.splitlines() == expected
    for found, program in real_objtools():
        if found == release and run([program, "--help"], ok=None, env=dict(os.environ, SRCARCH="x86")).stderr.strip().lower().startswith("usage"):
            assert run([program, "--dump", path], env=dict(os.environ, SRCARCH="x86")).stdout.splitlines() == expected
    assert not objtool(etch, assemble(tmp_path, KEYED, "without"), "--dump").stdout
    mutant, section = tmp_path / "m.o", parity.Object(path).find(".orc_unwind")[0]
    for size in (len(rows) * 6 - 1, 1 << 60):
        data = bytearray(was)
        struct.pack_into("<Q", data, struct.unpack_from("<Q", data, 40)[0] + 64 * section + 32, size)
        mutant.write_bytes(data)
        assert objtool(etch, mutant, "--dump", ok=2).stderr.count("\n") == 1


def test_verbosity_by_the_environment(etch, tmp_path, monkeypatch):
    """Since 6.12."""
    path = assemble(tmp_path, ".globl f\n.type f, @function\nf: push %rbx\nret\n.size f, . - f\n")
    for release, value, lines in (("7.2", "1", 3), ("7.2", "0", 1), ("6.12", "1", 6), ("6.1", "1", 1)):
        monkeypatch.setenv("KERNELVERSION", release)
        monkeypatch.setenv("OBJTOOL_VERBOSE", value)
        assert objtool(etch, path, "--orc", "--dry-run").stderr.count("\n") == lines, release


def standing_in(tmp_path, log):
    """A program in objtool's place, which writes its words to a file."""
    other = tmp_path / "objtool"
    other.write_text(f"#!/bin/sh\necho \"${{OBJTOOL_ARGS-none}}\" \"$@\" >{log}\nexit 3\n")
    other.chmod(0o755)
    return other


@pytest.mark.parametrize("release,args", [
    ("7.2", ["--orc", "--disas", "--module"]), ("6.1", ["--orc", "--no-such-option"]), ("6.1", ["--orc", "--prefix=16"]),
    ("6.1", ["--orc", "--hacks=skylake"]), ("6.18.2", ["--orc"]), ("9.1", ["--orc"]), ("7.2", ["-ox.o", "--orc", "-d"]), ("6.1", ["--orc", "-v"]),
    ("7.2", ["klp", "diff", "x.o"]), ("7.2", ["--klp-symids", "--link"]), ("7.2", ["--orc", "--trace", "f*"])])
def test_fallback_gets_the_whole_command_line(etch, tmp_path, monkeypatch, release, args):
    """Where any part of it, or the release, is unknown."""
    path, log = assemble(tmp_path, KEYED), tmp_path / "log"
    was = path.read_bytes()
    other = standing_in(tmp_path, log)
    monkeypatch.setenv("KERNELVERSION", release)
    for own in ([f"--fallback={other}"], ["--fallback", other, "--skip=uaccess", "--skip", "stackval"]):
        p = objtool(etch, path, *args[:1], *own, *args[1:], ok=3)
        assert log.read_text().split() == ["none", *args, str(path)] and path.read_bytes() == was and not p.stderr
    monkeypatch.setenv("OBJTOOL_ARGS", f"--backup --fallback={other}")
    objtool(etch, path, *args, ok=3)
    assert log.read_text().split() == ["none", "--backup", *args, str(path)]


def test_fallback_is_not_run_where_nothing_is_unknown(etch, tmp_path):
    path, log = assemble(tmp_path, KEYED), tmp_path / "log"
    other = standing_in(tmp_path, log)
    objtool(etch, path, "--orc", f"--fallback={other}")
    assert rows(path) and not log.exists()
    path = assemble(tmp_path, KEYED)
    objtool(etch, path, "--orc", "--unret", "--skip=unret", f"--fallback={other}")
    assert rows(path) and not log.exists()
    assert "cannot be run" in objtool(etch, path, "--nothing", "--fallback=/nonexistent", ok=2).stderr


def real_objtools():
    """(release, path) of the objtools of Debian's packages linux-kbuild-*, installed or unpacked below $ETCH_OBJTOOLS."""
    roots = [Path("/usr/lib"), *map(Path, filter(None, os.environ.get("ETCH_OBJTOOLS", "").split(":")))]
    found = {(re.match(r"linux-kbuild-(\d+\.\d+)", p.parts[-4])[1], p)
             for r in roots for p in r.glob("**/linux-kbuild-*/tools/objtool/objtool") if p.is_file()}
    return sorted(found)


@pytest.mark.parametrize("release,program", real_objtools() or [pytest.param("", "", marks=pytest.mark.skip("no linux-kbuild"))])
def test_the_real_objtools_take_what_falls_back(etch, tmp_path, monkeypatch, release, program):
    """The same bytes and exit status as by the program itself."""
    monkeypatch.setenv("SRCARCH", "x86")
    monkeypatch.setenv("KERNELVERSION", release)
    text = KEYED.replace(".data\n", ".section .noinstr.text,\"ax\"\n" + function("n", "call other\nret") + ".data\n")
    for args in (["--orc", "--noinstr", "--disas", "--link"], ["--orc", "--trace=f"], ["--orc", "--no-such-option"], ["--disas"]):
        mine, theirs = assemble(tmp_path, text, "mine"), assemble(tmp_path, text, "theirs")
        p = objtool(etch, mine, *args, f"--fallback={program}", ok=None)
        q = run([program, *args, theirs], ok=None)
        assert p.returncode == q.returncode and mine.read_bytes() == theirs.read_bytes(), args
        assert p.stderr.replace("mine", "theirs") == q.stderr and p.stdout == q.stdout


def test_environment_dry_run_backup_twice(etch, tmp_path, monkeypatch):
    path = assemble(tmp_path, KEYED)
    was = path.read_bytes()
    assert "nr_insns: " in objtool(etch, path, "--orc", "--dry-run", "--stats").stdout and path.read_bytes() == was
    monkeypatch.setenv("OBJTOOL_ARGS", "--backup --hacks=jump_label")
    objtool(etch, path, "--orc")
    assert path.with_name("a.o.orig").read_bytes() == was and rows(path)
    once = path.read_bytes()
    assert "already has" in objtool(etch, path, "--orc", ok=2).stderr and path.read_bytes() == once


def test_wrong_word_of_the_environment(etch, tmp_path, monkeypatch):
    monkeypatch.setenv("OBJTOOL_ARGS", "--backup --orcc")
    error = objtool(etch, assemble(tmp_path, KEYED), "--orc", ok=2).stderr
    assert error == "etch: OBJTOOL_ARGS: unrecognized option '--orcc' (did you mean --orc?); see etch objtool --help\n"


@pytest.mark.parametrize("words,error", [
    ("--backup a.o", "etch: OBJTOOL_ARGS: 'a.o' is no option"), ("--backup \"--stats\"", "etch: OBJTOOL_ARGS: '\"--stats\"' is no option"),
    ("--hacks='jump_label'", "etch: --hacks takes jump_label, noinstr and, since Linux 6.12, skylake, not ''jump_label''"),
    ("--output", "etch: OBJTOOL_ARGS: option '--output' requires an argument; see etch objtool --help"),
    ("--trace", "etch: OBJTOOL_ARGS: option '--trace' requires an argument; see etch objtool --help"),
    ("--prefix=", "etch: --prefix must be a number from 0 to 4096, not ''"),
    ("--stats " * 10000 + "--nothing", "etch: OBJTOOL_ARGS: unrecognized option '--nothing'; see etch objtool --help"),
    ("x" * 100000, f"etch: OBJTOOL_ARGS: '{'x' * 60}' is no option")])
def test_hostile_words_of_the_environment(etch, tmp_path, monkeypatch, words, error):
    monkeypatch.setenv("KERNELVERSION", "7.2")
    monkeypatch.setenv("OBJTOOL_ARGS", words)
    path = assemble(tmp_path, KEYED)
    was = path.read_bytes()
    assert objtool(etch, path, "--orc", ok=2).stderr == error + "\n" and path.read_bytes() == was


def test_many_words_of_the_environment(etch, tmp_path, monkeypatch):
    """objtool has 15 at most, and drops the rest."""
    path = assemble(tmp_path, KEYED)
    for count in (14, 15, 16, 10000):
        monkeypatch.setenv("OBJTOOL_ARGS", "  ".join(["--link"] * count) + "   --stats")
        assert "nr_insns: " in objtool(etch, path, "--orc", "--dry-run").stdout


def test_another_release_is_refused(etch, tmp_path, monkeypatch):
    """Nothing in an object says which release's numbers its hints have; the kernel's build does."""
    path = assemble(tmp_path, KEYED)
    was = path.read_bytes()
    for version in ("6.13.1", "5.10", "6", "6.10-rc1", "7.1.3", "x7.2", "7.2000"):
        monkeypatch.setenv("KERNELVERSION", version)
        error = objtool(etch, path, "--orc", ok=2).stderr
        assert error == f"etch: objtool reads objects of Linux 6.1, 6.12 and 7.2, and KERNELVERSION is {version}\n"
        assert path.read_bytes() == was
    for version in ("6.1", "6.1.192", "6.1-rc3", ""):
        monkeypatch.setenv("KERNELVERSION", version)
        objtool(etch, path, "--orc", "--dry-run")


@pytest.mark.parametrize("section,size", [("__jump_table", 16), ("__ex_table", 12), (".altinstructions", 12),
                                          (".discard.unwind_hints", 12), (".discard.reachable", 4)])
def test_malformed_sections(etch, tmp_path, section, size):
    """Sizes that are no multiple of an entry; entries without relocations: refused by name, the file stays."""
    for fill in (size - 1, size):
        path = assemble(tmp_path, function("f", "ret") + f".section {section},\"a\"\n.fill {fill}, 1, 3\n")
        was = path.read_bytes()
        error = objtool(etch, path, "--orc", ok=2).stderr
        assert error.count("\n") == 1 and section in error and path.read_bytes() == was


def test_a_table_without_contents(etch, tmp_path):
    """SHT_NOBITS, of a size that no loop comes to the end of: it has no keys."""
    path = assemble(tmp_path, KEYED)
    data = bytearray(path.read_bytes())
    header = struct.unpack_from("<Q", data, 40)[0] + 64 * parity.Object(path).find("__jump_table")[0]
    struct.pack_into("<I", data, header + 4, 8)
    struct.pack_into("<Q", data, header + 32, 1 << 62)
    path.write_bytes(data)
    for args in (["--hacks=jump_label"], ["--hacks=jump_label", "--orc"]):
        assert run([etch, "objtool", *args, path], ok=None, timeout=60).returncode in (0, 2)


def everything():
    """One object with all special sections, hints out of order, alternatives that overlap."""
    hints = "".join(hint(x, k, r, o, e) for x, k, r, o, e in [("4b", REGS, SP, 8, 0), ("1b", CALL, BP, 16, 0), ("1b", REGS, 9, -8, 0),
                                                              ("4b", CALL, 8, 32000, 1)])
    body = (f"push %rbx\n1: jmp 3f\n{key('1b', '3f', 2)}2: call other\n.nops 8\n3: ud2\n{note('reachable', '4f')}4: mov (%rdi), %rax\n"
            f"{hints}pop %rbx\njmp __x86_return_thunk\n")
    alts = "".join(alternative(*x) for x in [("1b", "3b", "5b", "6b"), ("2b", "3b", "5b", "6b"), ("2b", "4b", "5b", "5b"),
                                             ("1b", "4b", "6b", "6b")])
    return (function("f", body) + ".section .altinstr_replacement,\"ax\"\n5: push %rcx\njmp 6f\npop %rcx\n6: nop\n.text\n" + alts +
            ".section __ex_table,\"a\"\n.long 4b - ., 3b - ., 1\n.long 4b - ., 1b - ., 2\n.data\nkey: .quad 0\n")


def test_contradicting_notes_are_no_crash(etch, tmp_path):
    path = assemble(tmp_path, everything())
    objtool(etch, path, "--hacks", "--orc", "--retpoline", "--rethunk", "--sls")
    assert rows(path)


def test_hostile_notes(etch, tmp_path):
    """Bytes of the special sections and their relocations at random: done or refused, never another end."""
    whole = assemble(tmp_path, everything()).read_bytes()
    o = parity.Object(tmp_path / "a.o")
    spans = []
    for i, name in enumerate(o.names):
        if any(s in name for s in ("altinstr", ".discard", "__ex_table", "__jump_table", ".symtab")) and o.heads[i][5]:
            spans.append((o.heads[i][4], o.heads[i][5]))
    random.seed(6)
    path, seen = tmp_path / "b.o", set()
    for _ in range(150):
        mutant = bytearray(whole)
        for _ in range(random.choice([1, 1, 2, 4])):
            start, size = random.choice(spans)
            at = start + random.randrange(size)
            if random.random() < 0.5:
                mutant[at] = random.randrange(256)
            else:
                struct.pack_into("<q", mutant, min(at & ~7, len(mutant) - 8), random.choice([-1, 0, 1, 8, 1 << 31, -(1 << 63), 1 << 62]))
        path.write_bytes(mutant)
        p = run([etch, "objtool", "--hacks", "--orc", "--retpoline", "--rethunk", "--static-call", path], ok=None)
        assert p.returncode in (0, 2), p
        seen.add(p.returncode)
    assert seen == {0, 2}


def test_an_object_whose_section_names_lie_in_section_0_is_refused(etch, tmp_path):
    """e_shstrndx says that sh_link of section 0 has the index, and that is 0: the new section 0 would have no names."""
    path = tmp_path / "t.o"
    (tmp_path / "t.c").write_text("int f(int x) { return x + 1; }\n")
    run(["gcc", "-O2", "-c", "-o", path, tmp_path / "t.c"])
    data = bytearray(path.read_bytes())
    headers, index = int.from_bytes(data[40:48], "little"), int.from_bytes(data[62:64], "little")
    data[headers:headers + 64] = data[headers + 64 * index:headers + 64 * (index + 1)]
    data[headers + 40:headers + 44] = bytes(4)
    data[62:64] = b"\xff\xff"
    path.write_bytes(data)
    p = run([etch, "objtool", "--orc", path], ok=2, env={**os.environ, "KERNELVERSION": "6.1.0"})
    assert p.stderr == f"etch: {path}: has the names of its sections in section 0\n" and path.read_bytes() == data
