# SPDX-License-Identifier: MIT
"""`etch objtool` beside the objtool of Linux 6.1 and 6.12 on two objects with all that a kernel says of its code: C as gcc compiles it with
the kernel's options, and entry code; and what both warn of access to user memory. What objtool made of the entry code and
warned of is in tests/data/kernel/*.objtool too (written by `python tests/objtool/test_objtool_judged.py OBJTOOL`), so that one half needs
no objtool. All objects of a kernel:
scripts/parity/kernel.py."""

import re
import sys
from pathlib import Path

import pytest

from conftest import DATA, ROOT, run

sys.path.insert(0, str(ROOT / "scripts" / "parity"))
import kernel as parity  # noqa: E402

KERNEL = DATA / "kernel"
# arch/x86/Makefile of Linux 6.1, what changes code.
FLAGS = ("-O2 -mcmodel=kernel -mno-red-zone -mno-sse -fno-pic -ffreestanding -fno-jump-tables -mindirect-branch=thunk-extern "
         "-mindirect-branch-register -mfunction-return=thunk-extern -mharden-sls=all -fno-asynchronous-unwind-tables "
         "-fcf-protection=none -fno-stack-protector").split()
OPTIONS = "--hacks=jump_label --hacks=noinstr --orc --retpoline --rethunk --sls --static-call --uaccess".split()
TABLES = ("__jump_table", ".altinstructions", ".discard.reachable", "__ex_table")
# Of a kernel of the other release.
LINUX_6_12 = ["-DLINUX_6_12"]
# What each source must bring, or nothing was compared.
BRINGS = {"annotated.c": {*TABLES, ".discard.retpoline_safe"},
          "entry.S": {".altinstructions", ".discard.unwind_hints", ".discard.intra_function_calls",
                      ".discard.func_stack_frame_non_standard", ".discard.retpoline_safe"}}
ROWS = {"annotated.c": {"sp+8 call", "bp+16 bp=prev-16 call", "none"},
        "entry.S": {"end", "sp+0 regs", "sp+8 iret", "bp+24 call", "(sp)+16 call", "sp+32 call", "none"}}


def compiled(directory, source, compiler="gcc", flags=()):
    path = directory / Path(source).with_suffix(".o").name
    run([compiler, *FLAGS, *flags, "-c", KERNEL / source, "-o", path])
    path.with_name(f"{path.name}.args").write_text(" ".join([*OPTIONS, path.name]))
    return path


def described(path, count):
    """Rows, sites and code of an object, a line each."""
    o = parity.Object(path)
    out = [f"row {o.names[section]}+{at:#x} {parity.entry_text(e)}" for section, table in sorted(o.orc().items()) for at, e in table]
    out += [f"site {s} {kind} {what}{off:+#x}" for s in parity.SITES for _, kind, what, off in o.sites(s)]
    return out + [f"code {name} {data.hex()} {len(relocs)}" for name, data, relocs in o.code(count) if name in (".text", ".noinstr.text")]


@pytest.mark.parametrize("source", ["annotated.c", "entry.S"])
def test_the_same_as_objtool(etch, objtool, tmp_path, source):
    path = compiled(tmp_path, source)
    o = parity.Object(path)
    assert BRINGS[source] <= {name for name, head in zip(o.names, o.heads) if head[5]}
    result = parity.compare(path, source, etch, objtool)
    assert not result["parts"] and not result["examples"], (result, result["objtool_errors"])
    assert set(result["bytes"]) == {"equal", "both none"} and result["bytes"]["equal"] > 250
    run([etch, "objtool", *OPTIONS, path])
    done = parity.Object(path)
    assert ROWS[source] <= {parity.entry_text(e) for table in done.orc().values() for _, e in table}
    assert all(done.sites(s) for s in parity.SITES)


SIGNALS = {"annotated.c": {"sp+8 call", "bp+16 bp=prev-16 call", "none"},
           "entry.S": {"end", "sp+0 regs signal", "sp+8 iret signal", "sp+8 iret", "bp+24 call", "(sp)+16 call", "none"}}


@pytest.mark.parametrize("source", ["annotated.c", "entry.S"])
def test_the_same_as_objtool_6_12(etch, objtool_6_12, tmp_path, monkeypatch, source):
    path = compiled(tmp_path, source, flags=LINUX_6_12)
    result = parity.compare(path, source, etch, objtool_6_12, "6.12")
    assert not result["parts"] and not result["examples"], (result, result["objtool_errors"])
    assert set(result["bytes"]) == {"equal", "both none"} and result["bytes"]["equal"] > 250
    monkeypatch.setenv("KERNELVERSION", "6.12.117")
    run([etch, "objtool", *OPTIONS, path])
    done = parity.Object(path)
    assert SIGNALS[source] <= {parity.entry_text(e, "6.12") for table in done.orc().values() for _, e in table}


@pytest.mark.parametrize("release, more", [("6.1", []), ("6.12", []), ("6.12", ["--mnop"])])
def test_calls_of_fentry(etch, request, tmp_path, monkeypatch, release, more):
    """__mcount_loc, and the calls themselves, which 6.1 always makes nops of; a jump to __fentry__ is warned of."""
    tool = request.getfixturevalue("objtool" if release == "6.1" else "objtool_6_12")
    path = compiled(tmp_path, "annotated.c", flags=[*(LINUX_6_12 if release == "6.12" else []), "-pg", "-mfentry"])
    tail = tmp_path / "tail.s"
    tail.write_text(".globl tail\n.type tail, @function\ntail: call __fentry__\njmp __fentry__\nint3\n.size tail, . - tail\n")
    run(["as", "-o", tmp_path / "tail.o", tail])
    monkeypatch.setenv("KERNELVERSION", release)
    for source in (path, tmp_path / "tail.o"):
        mine, theirs = tmp_path / "mine.o", tmp_path / "theirs.o"
        was = source.read_bytes()
        made = []
        for argv, out in (([etch, "objtool"], mine), ([tool], theirs)):
            out.write_bytes(was)
            said = run([*argv, *OPTIONS, "--mcount", *more, out]).stderr
            o = parity.Object(out)
            [i] = o.find("__mcount_loc")
            made.append((o.sites("__mcount_loc"), o.data(i), o.heads[i][1:3], o.heads[i][8], o.code(len(parity.Object(source).heads)),
                         "ail call to __fentry__" in said))
        assert made[0] == made[1], made
        assert len(made[0][0]) >= 2 and set(made[0][1]) == {0} and made[0][5] == (source != path)
        calls = {parity.Object(mine).data(int(what))[at] for _, _, what, at in made[0][0]}
        assert calls == ({0xe8, 0xe9} if source != path else {0xe8}) if release == "6.12" and not more else calls == {0x0f}


def test_nops_need_the_list(etch, tmp_path):
    path = compiled(tmp_path, "entry.S")
    assert "requires --mcount" in run([etch, "objtool", "--orc", "--mnop", path], ok=2).stderr


def test_lkgs_is_decoded(etch, objtool_6_12, tmp_path):
    """It is newer than the decoder; 6.12 has it among the replacements of alternatives."""
    source, path = tmp_path / "a.s", tmp_path / "a.o"
    source.write_text(".globl f\n.type f, @function\nf: push %rbx\n.byte 0xf2, 0x0f, 0x00, 0xf7\ntest %edi, %edi\npop %rbx\n"
                      "jmp __x86_return_thunk\nint3\n.size f, . - f\n")
    run(["as", "-o", path, source])
    path.with_name("a.o.args").write_text("--orc --rethunk a.o")
    result = parity.compare(path, "a.o", etch, objtool_6_12, "6.12")
    assert not result["parts"] and result["bytes"]["equal"] >= 13 and "decode" not in result["etch_errors"], result


def test_the_same_as_objtool_said(etch, tmp_path):
    path = compiled(tmp_path, "entry.S")
    count = len(parity.Object(path).heads)
    run([etch, "objtool", *OPTIONS, path])
    assert described(path, count) == (KERNEL / "entry.objtool").read_text().splitlines()


@pytest.mark.parametrize("source,was,becomes", [
    ("annotated.c", '.pushsection .discard.reachable', '.pushsection .discard.unread'), ("annotated.c", "__jump_table", "__none_table"),
    ("annotated.c", "__ex_table", "__none_table"), ("annotated.c", ".altinstructions", ".none"), ("entry.S", ".discard.unwind_hints", ".discard.none"),
    ("entry.S", ".discard.\\section", ".discard.none"), ("entry.S", ".discard.func_stack_frame_non_standard", ".discard.none")])
def test_each_note_counts(etch, tmp_path, source, was, becomes):
    """Without it etch says something else: the comparison above would see a note that nobody reads."""
    text = (KERNEL / source).read_text()
    changed = tmp_path / "changed" / source
    changed.parent.mkdir()
    changed.write_text(text.replace(was, becomes))
    seen = []
    for path in (KERNEL / source, changed):
        out = tmp_path / f"{len(seen)}.o"
        run(["gcc", *FLAGS, "-c", path, "-o", out])
        run([etch, "objtool", *OPTIONS, out])
        seen.append([x for x in described(out, len(parity.Object(out).heads)) if x.startswith("row .text")])
    assert seen[0] != seen[1]


def warnings(tool, path):
    return re.findall(r"warning: objtool: (.*)", run([*tool, "--orc", "--uaccess", path]).stderr)


def test_access_to_user_memory(etch, tmp_path):
    path = compiled(tmp_path, "access.S")
    was = (KERNEL / "access.objtool").read_text().splitlines()
    assert warnings([etch, "objtool"], path) == was and len(was) == 12
    assert not warnings([etch, "objtool", "--skip=uaccess"], compiled(tmp_path, "access.S"))


def test_access_to_user_memory_as_objtool(etch, objtool, tmp_path):
    """Each stac and clac in turn is a nop, or the other of the two."""
    data = compiled(tmp_path, "access.S").read_bytes()
    found = [m.start() for m in re.finditer(b"\x0f\x01[\xca\xcb]", data)]
    seen = set()
    assert len(found) > 20
    for at in found:
        for new in (b"\x0f\x1f\x00", b"\x0f\x01" + bytes([data[at + 2] ^ 1])):
            both = []
            for tool in ([etch, "objtool"], [objtool]):
                path = tmp_path / "changed.o"
                path.write_bytes(data[:at] + new + data[at + 3:])
                both.append(warnings(tool, path))
            assert both[0] == both[1], (hex(at), new)
            seen.add(tuple(both[0]))
    assert len(seen) > 20


# The thunks are code of the same file, as in vmlinux.o, under symbols that are no functions'.
BODIES = {"returns": "stac\njmp __x86_return_thunk", "jumps_by_a_thunk": "stac\njmp __x86_indirect_thunk_rax",
          "memset_orig": "mov %rdi, %rax\njmp __x86_return_thunk", "helper": "xor %eax, %eax\njmp __x86_return_thunk",
          "calls_a_local_function": "call helper\nstac\ncall other\nclac\njmp __x86_return_thunk", "jumps_to_a_symbol": "stac\njmp assembly"}
THUNKS = "".join(f"{'' if name == 'helper' else f'.globl {name}'}\n.type {name}, @function\n{name}: {body}\nint3\n.size {name}, . - {name}\n"
                 for name, body in BODIES.items()) + """
.section .text.assembly, "ax"
.globl assembly
assembly: clac
	ret
	int3
.section .text.thunk, "ax"
.globl __x86_return_thunk, __x86_indirect_thunk_rax
__x86_return_thunk:
661:	ret
	.rept 4
	int3
	.endr
662:
__x86_indirect_thunk_rax:
	jmp *%rax
	int3
.section .altinstr_replacement, "ax"
663:	jmp warn_thunk_thunk
664:
.section .altinstructions, "a"
	.long 661b - ., 663b - .
	.word 0x75 FLAGS
	.byte 662b - 661b, 664b - 663b
"""
SAID = ["returns+0x3: return with UACCESS enabled", "jumps_by_a_thunk+0x3: call to {dynamic}() with UACCESS enabled",
        "calls_a_local_function+0x8: call to other() with UACCESS enabled", "jumps_to_a_symbol+0x3: call to assembly() with UACCESS enabled"]


@pytest.mark.parametrize("release", ["6.1", "6.12"])
def test_thunks_of_the_file(etch, request, tmp_path, monkeypatch, release):
    path = tmp_path / "thunks.o"
    monkeypatch.setenv("KERNELVERSION", release)
    text = THUNKS.replace("FLAGS", "" if release == "6.1" else ", 0")

    def said(*tool):
        run(["as", "-o", path, "-"], input=text)
        return sorted(x for x in warnings(tool, path) if "UACCESS" in x)

    assert said(etch, "objtool") == sorted(SAID)
    assert said(request.getfixturevalue("objtool" if release == "6.1" else "objtool_6_12")) == sorted(SAID)


# Access is enabled only in code that other code leads to: a cold part, and code under no function's symbol.
WAYS = """
.globl begins, cold
.type begins, @function
begins: test %edi, %edi
	je in_first
	ret
	int3
.size begins, . - begins
.type cold, @function
cold: test %edi, %edi
	jne cold.cold
	ret
	int3
.size cold, . - cold
.section .text.unlikely, "ax"
.type cold.cold, @function
cold.cold: stac
	call other
	clac
	ret
	int3
.size cold.cold, . - cold.cold
.section .text.first, "ax"
	ret
	int3
in_first: jmp in_second
.section .text.second, "ax"
	ret
	int3
in_second: stac
	call other
	clac
	ret
	int3
"""
LED = [".text.second+0x5: call to other() with UACCESS enabled", "cold.cold+0x3: call to other() with UACCESS enabled"]


@pytest.mark.parametrize("release", ["6.1", "6.12"])
def test_access_in_code_that_others_lead_to(etch, request, tmp_path, monkeypatch, release):
    path = tmp_path / "ways.o"
    monkeypatch.setenv("KERNELVERSION", release)

    def said(text, *tool):
        run(["as", "-o", path, "-"], input=text)
        return sorted(x for x in warnings(tool, path) if "UACCESS" in x)

    objtool = request.getfixturevalue("objtool" if release == "6.1" else "objtool_6_12")
    assert said(WAYS, etch, "objtool") == said(WAYS, objtool) == LED
    for way in ("je in_first", "jmp in_second", "jne cold.cold"):
        without = WAYS.replace(way, "nop")
        assert len(said(without, etch, "objtool")) == 1
        assert said(without, etch, "objtool") == said(without, objtool)


def main(objtool):
    (KERNEL / "access.objtool").write_text("\n".join(warnings([objtool], compiled(Path("/tmp"), "access.S"))) + "\n")
    path = compiled(Path("/tmp"), "entry.S")
    count = len(parity.Object(path).heads)
    run([objtool, *OPTIONS, path])
    (KERNEL / "entry.objtool").write_text("\n".join(described(path, count)) + "\n")


if __name__ == "__main__":
    main(sys.argv[1])
