# SPDX-License-Identifier: MIT
"""etch check on what loaders and processors are told: writable code, stacks, text relocations,
endbr64, int3 after jumps.

Truth is readelf's, pyelftools' and what each test has changed: a check must find exactly the
places that were damaged, and nothing in a file that was not."""

import re
import shutil
import struct

import pytest
from elftools.elf.elffile import ELFFile

from check_findings import FUNCTION, NOTE, assemble, findings, function, places
from conftest import run


# ---- H001 to H003 --------------------------------------------------------------------------

@pytest.mark.parametrize("text,said", [
    ('\t.section .hot,"awx",@progbits\n\t.byte 0xc3\n', [("ETCH-H001", ".hot")]),
    ('\t.section .hot,"aw",@progbits\n\t.byte 0xc3\n\t.section .cold,"ax",@progbits\n\t.byte 0xc3\n', []),
    ('\t.section .hot,"awx",@nobits\n', []),  # nothing in it
], ids=["both", "neither", "empty"])
def test_writable_code_of_objects(etch, tmp_path, text, said):
    obj = assemble(tmp_path, FUNCTION + text + NOTE)
    assert [(x["id"], x["place"]["section"]) for x in findings(etch, obj, "ETCH-H001", "ETCH-H002", "ETCH-H003")] == said


@pytest.mark.parametrize("note,ok", [(NOTE, True), ("", False), (NOTE.replace('""', '"x"'), False)])
def test_stack_of_objects(etch, tmp_path, note, ok):
    obj = assemble(tmp_path, FUNCTION.replace("f:", "main:\nf:").replace("f\n\t.type", "f,main\n\t.type") + note)
    assert [x["id"] for x in findings(etch, obj, "ETCH-H002")] == ([] if ok else ["ETCH-H002"])
    # ... and the linker agrees; where its distribution has made it so, an object without a note asks for nothing.
    exe = tmp_path / "t"
    run(["gcc", "-o", exe, obj])
    (line,) = [x for x in run(["readelf", "-lW", exe]).stdout.splitlines() if "GNU_STACK" in x]
    executable = "RWE" in line
    assert executable != ok or not note
    assert [x["id"] for x in findings(etch, exe, "ETCH-H002")] == (["ETCH-H002"] if executable else [])


def test_no_code_needs_no_stack(etch, tmp_path):
    assert findings(etch, assemble(tmp_path, "\t.data\n\t.quad 1\n"), "ETCH-H002") == []


def patch_phdr(path, kind, change):
    """Edits the first program header of a kind: (type, flags) -> (type, flags)."""
    data = bytearray(path.read_bytes())
    off, size, count = struct.unpack_from("<Q", data, 32)[0], *struct.unpack_from("<HH", data, 54)
    for i in range(count):
        p = struct.unpack_from("<II", data, off + i * size)
        if p[0] == kind:
            struct.pack_into("<II", data, off + i * size, *change(*p))
            path.write_bytes(data)
            return
    raise AssertionError("no such program header")


PT_NULL, PT_LOAD, PT_GNU_STACK = 0, 1, 0x6474e551


def readelf_says(path):
    """The hardening findings that readelf's lines stand for."""
    segments = run(["readelf", "-lW", path]).stdout.splitlines()
    dynamic = run(["readelf", "-dW", path]).stdout
    stack = [x for x in segments if x.split()[:1] == ["GNU_STACK"]]
    said = set()
    if any(x.split()[:1] == ["LOAD"] and "RWE" in x for x in segments):
        said.add("ETCH-H001")
    if any("RWE" in x for x in stack) or (not stack and "Dynamic section" in dynamic):
        said.add("ETCH-H002")
    if re.search(r"\(TEXTREL\)|\bTEXTREL\b", dynamic):
        said.add("ETCH-H003")
    return said


def test_segments_of_programs(etch, tmp_path):
    src = tmp_path / "t.c"
    src.write_text("int x = 1; int main(void) { return x; }\n")
    variants = {"plain": [], "omagic": ["-static", "-nostdlib", "-Wl,-N,-emain"], "exec": ["-Wl,-z,execstack"], "static": ["-static"]}
    expect = {"plain": set(), "omagic": {"ETCH-H001"}, "exec": {"ETCH-H002"}, "static": set()}
    for name, flags in variants.items():
        run(["gcc", "-o", tmp_path / name, src, *flags])
    shutil.copy(tmp_path / "plain", tmp_path / "nostack")
    patch_phdr(tmp_path / "nostack", PT_GNU_STACK, lambda t, f: (PT_NULL, f))
    shutil.copy(tmp_path / "plain", tmp_path / "rwx")
    patch_phdr(tmp_path / "rwx", PT_LOAD, lambda t, f: (t, 7))
    for name, want in {**expect, "nostack": {"ETCH-H002"}, "rwx": {"ETCH-H001"}}.items():
        got = {x["id"] for x in findings(etch, tmp_path / name, "ETCH-H001", "ETCH-H002", "ETCH-H003")}
        assert got == want == readelf_says(tmp_path / name), name


def test_text_relocations(etch, tmp_path):
    """The places are those of the relocations that readelf shows in read-only segments."""
    obj = assemble(tmp_path, """
	.text
	.globl here, twice
	.type here,@function
here:	movabsq $outside, %rax
	ret
	.size here,.-here
	.type twice,@function
twice:	movabsq $local, %rax
	movabsq $outside, %rax
	ret
	.size twice,.-twice
	.data
local:	.quad outside
""" + NOTE)
    said = findings(etch, obj, "ETCH-H003")
    assert places(said) == [("here", 2), ("twice", 2)]
    assert "R_X86_64_64 of outside" in said[0]["text"] and "1 more place" in said[1]["text"]
    so = tmp_path / "t.so"
    run(["gcc", "-shared", "-Wl,-z,notext", "-o", so, obj])
    said = findings(etch, so, "ETCH-H003")
    assert places(said) == [("here", 2), ("twice", 2)] and readelf_says(so) == {"ETCH-H003"}
    # Code that cannot be position-independent says nothing about PIEs.
    fixed = assemble(tmp_path, FUNCTION.replace("ret", "mov $outside, %eax\n\tmovabsq $outside, %rax\n\tret") + NOTE, "u")
    assert findings(etch, fixed, "ETCH-H003") == []


def test_textrel_without_a_relocation(etch, tmp_path):
    """DT_FLAGS alone."""
    obj = assemble(tmp_path, FUNCTION + "\t.data\n\t.globl d\nd:\t.quad f\n" + NOTE)
    so = tmp_path / "t.so"
    run(["gcc", "-shared", "-Wl,-z,now", "-o", so, obj])
    assert findings(etch, so, "ETCH-H003") == []
    data = bytearray(so.read_bytes())
    with open(so, "rb") as f:
        dyn = ELFFile(f).get_section_by_name(".dynamic")
        at, n = dyn["sh_offset"], dyn["sh_size"] // 16
    for i in range(n):
        tag, value = struct.unpack_from("<QQ", data, at + 16 * i)
        if tag == 30:  # DT_FLAGS
            struct.pack_into("<Q", data, at + 16 * i + 8, value | 4)
    so.write_bytes(data)
    (x,) = findings(etch, so, "ETCH-H003")
    assert "no relocation needs it" in x["text"]


SAMPLE = ["/usr/bin/env", "/usr/bin/find", "/usr/bin/ld",
          "/lib/x86_64-linux-gnu/libc.so.6", "/lib/x86_64-linux-gnu/libm.so.6", "/lib64/ld-linux-x86-64.so.2",
          "/usr/lib/x86_64-linux-gnu/libelf.so.1", "/usr/lib/x86_64-linux-gnu/libdw.so.1"]


@pytest.mark.parametrize("path", SAMPLE)
def test_distribution_hardening_is_readelfs(etch, path):
    got = {x["id"] for x in findings(etch, path, "ETCH-H001", "ETCH-H002", "ETCH-H003")}
    assert got == readelf_says(path)


# ---- H004 ------------------------------------------------------------------------------------

IBT = """
#include <setjmp.h>
extern int theirs(int);
static int cb(int x) { return x + 1; }
static int late(int x) { return x - 1; }
__attribute__((noinline)) static int direct(int x) { return theirs(x) * 3; }
int exported(int x) { return direct(x) + 1; }
int (*volatile table[])(int) = {cb, exported};
int (*volatile p)(int);
jmp_buf jb;
void set(void) { p = late; }
int goer(int x)
{
	static void *const t[] = {&&a, &&b, &&c};
	goto *t[x];
a:	x += p(x);
b:	x *= theirs(3);
c:	return x;
}
int sw(int x)
{
	switch (x) {
	case 0: return theirs(7);
	case 1: return theirs(8) * 3;
	case 2: return p(1) - 4;
	case 3: return p(9) + p(2);
	case 4: return 77;
	case 5: return p(4);
	default: return 0;
	}
}
int jumper(void) { return setjmp(jb); }
"""
CATCH = """
extern int theirs(int);
int f(int x) { try { return theirs(x); } catch (int &e) { return e; } }
"""
STARTUP = {"_init", "_start", "_fini"}  # glibc's, which ask for no tracking: only -z ibt makes the program say so


def ibt_build(tmp, cc, flags, strip=None, suffix="c", text=IBT):
    """Compiles by way of assembly, of which `strip` takes endbr64 away; object and library."""
    src, asm, obj, so = (tmp / f"t.{x}" for x in (suffix, "s", "o", "so"))
    driver = {"gcc": "g++", "clang": "clang++"}[cc] if suffix == "cc" else cc
    src.write_text(text)
    run([driver, "-O1", "-fPIC", "-fcf-protection=branch", *flags, "-S", "-o", asm, src])
    if strip:
        asm.write_text(strip(asm.read_text()))
    run([driver, "-c", "-o", obj, asm])
    run([driver, "-shared", "-Wl,-z,ibt", "-o", so, obj])
    return obj, so


@pytest.mark.parametrize("cc", ["gcc", "clang"])
@pytest.mark.parametrize("suffix,text", [("c", IBT), ("cc", CATCH)], ids=["c", "exceptions"])
def test_compilers_leave_none_out(etch, tmp_path, cc, suffix, text):
    obj, so = ibt_build(tmp_path, cc, [], suffix=suffix, text=text)
    assert findings(etch, obj, "ETCH-H004") == []
    assert {function(x) for x in findings(etch, so, "ETCH-H004")} <= STARTUP


def without_endbr(*functions):
    """Takes the endbr64 from the start of these."""
    def strip(text):
        for name in functions:
            text, n = re.subn(r"(?m)^(%s:[^\n]*\n(?:(?!\tendbr64)[^\n]*\n)*?)\tendbr64\n" % name, r"\1", text, count=1)
            assert n == 1, name
        return text
    return strip


@pytest.mark.parametrize("cc", ["gcc", "clang"])
def test_missing_endbr_is_found(etch, tmp_path, cc):
    """Those whose address is taken in the object; in the library the exported ones, too."""
    obj, so = ibt_build(tmp_path, cc, [], without_endbr("cb", "late", "exported", "set"))
    assert places(findings(etch, obj, "ETCH-H004")) == [("cb", 0), ("exported", 0), ("late", 0)]
    got = [x for x in findings(etch, so, "ETCH-H004") if function(x) not in STARTUP]
    assert places(got) == [("cb", 0), ("exported", 0), ("late", 0), ("set", 0)]
    by = {function(x): {f["label"] for f in x["facts"]} for x in got}
    assert by["cb"] == {"address in data"} and by["late"] == {"address taken here"} and by["set"] == {"exported"}


@pytest.mark.parametrize("cc", ["gcc", "clang"])
def test_every_endbr_is_needed_but_direct_ones(etch, tmp_path, cc):
    """Without any endbr64: all functions but the one that is only called directly, the labels
    of the computed goto, and where setjmp returns."""
    wanted = []

    def strip(text):
        wanted.append(text.count("\tendbr64"))
        return text.replace("\tendbr64\n", "")

    obj, so = ibt_build(tmp_path, cc, ["-fno-jump-tables"], strip)
    names = {"cb", "exported", "late", "set", "goer", "sw", "jumper"}
    got = [x for x in findings(etch, so, "ETCH-H004") if function(x) not in STARTUP]
    assert {function(x) for x in got} == names
    assert len(got) == wanted[0]
    assert sorted(function(x) for x in got if x["place"]["offset"]) == ["goer"] * 3 + ["jumper"]


@pytest.mark.parametrize("cc", ["gcc", "clang"])
def test_landing_pads(etch, tmp_path, cc):
    pads = []

    def strip(text):
        head, tail = text.split("endbr64\n", 1)  # the function's own stays
        pads.append(tail.count("endbr64"))
        return head + "endbr64\n" + tail.replace("\tendbr64\n", "")

    obj, so = ibt_build(tmp_path, cc, [], strip, "cc", CATCH)
    for path in (obj, so):
        got = [x for x in findings(etch, path, "ETCH-H004") if function(x) not in STARTUP]
        assert len(got) == pads[0] >= 1
        assert {f["label"] for x in got for f in x["facts"]} == {"exceptions land here from"}


@pytest.mark.parametrize("prefix,n", [("notrack ", 0), ("", 1)])
def test_jump_tables(etch, tmp_path, prefix, n):
    """Tables are for jumps with notrack; a tracked one needs an endbr64 at each target."""
    def strip(text):
        text, k = re.subn(r"notrack\s+jmp", f"{prefix}jmp", text)
        assert k == 1
        return text

    obj, so = ibt_build(tmp_path, "gcc", ["-O2"], strip)
    got = [x for x in findings(etch, so, "ETCH-H004") if function(x) not in STARTUP]
    assert len(got) == n and all(function(x).startswith("sw") for x in got)
    if n:
        assert re.search(r"nor have [45] more", got[0]["text"]), got
        assert got[0]["facts"][0]["label"] == "the jump" and "6 entries" in got[0]["facts"][0]["text"]


def test_a_note_that_is_wrong_is_one_finding(etch, tmp_path):
    """Code that was never compiled for it, linked with -z ibt."""
    src, so = tmp_path / "t.c", tmp_path / "t.so"
    src.write_text("".join(f"int f{i}(int x) {{ return x + {i}; }}\n" for i in range(80)))
    run(["gcc", "-O1", "-fPIC", "-shared", "-fcf-protection=none", "-Wl,-z,ibt", "-o", so, src])
    (x,) = findings(etch, so, "ETCH-H004")
    assert function(x) is None and re.match(r"8\d of 8\d indirect branch targets", x["text"]), x["text"]
    assert len(x["facts"]) == 8


def test_no_claim_no_finding(etch, tmp_path):
    src = tmp_path / "t.c"
    src.write_text(IBT)
    run(["gcc", "-O1", "-fcf-protection=none", "-c", "-o", tmp_path / "t.o", src])
    assert findings(etch, tmp_path / "t.o", "ETCH-H004") == []


# ---- H005 ------------------------------------------------------------------------------------

def many(n, tail):
    return "".join(f"\t.globl f{i}\n\t.type f{i},@function\nf{i}:\tmov %edi, %eax\n{tail(i)}\t.size f{i},.-f{i}\n"
                   for i in range(n))


@pytest.mark.parametrize("n,bare,args,want", [
    (12, {3}, [], ["f3"]),                # built with it, as the others show
    (12, set(range(0, 12, 2)), [], []),   # half of them: no
    (4, {3}, [], []),                     # too few to tell
    (4, {3}, ["--sls"], ["f3"]),
    (12, set(), ["--sls"], []),
])
def test_speculation(etch, tmp_path, n, bare, args, want):
    obj = assemble(tmp_path, "\t.text\n" + many(n, lambda i: "\tret\n" + ("" if i in bare else "\tint3\n")) + NOTE)
    assert [function(x) for x in findings(etch, obj, "ETCH-H005", args=args)] == want


def test_speculation_of_a_compiler(etch, tmp_path):
    src, obj = tmp_path / "t.c", tmp_path / "t.o"
    src.write_text("int g(int);\n" + "".join(f"int f{i}(int x) {{ return g(x) + {i + 1}; }}\n" for i in range(10)) +
                   "int j(int (*f)(int)) { return f(1); }\n")
    run(["gcc", "-O2", "-mharden-sls=all", "-c", "-o", obj, src])
    assert findings(etch, obj, "ETCH-H005", args=["--sls"]) == []
    run(["gcc", "-O2", "-c", "-o", obj, src])
    assert findings(etch, obj, "ETCH-H005") == []
    assert {function(x) for x in findings(etch, obj, "ETCH-H005", args=["--sls"])} == {f"f{i}" for i in range(10)} | {"j"}
