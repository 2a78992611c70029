# SPDX-License-Identifier: MIT
"""The passes of etch check that are not about flow: hardening, indirect branches, tables of
rewritten files, .eh_frame itself, symbols, the second decoder.

Truth is readelf's, pyelftools' and what each test has changed: a check must find exactly the
places that were damaged, and nothing in a file that was not."""
import json
import re
import shutil
import struct

import pytest
from elftools.elf.elffile import ELFFile
from elftools.elf.sections import SymbolTableSection

from conftest import Flow, asan_env, run


def findings(etch, path, *ids, args=(), env=None):
    """Findings with one of these IDs (all, without any), as dicts."""
    p = run([etch, "check", "--format", "json", "--fail-on", "never", *args, path], env=env)
    (file,) = json.loads(p.stdout)["files"]
    return [x for x in file["findings"] if not ids or x["id"] in ids]


def function(x):
    return x["place"].get("function")


def places(list):
    return sorted((function(x), x["place"].get("offset")) for x in list)


def assemble(tmp, text, name="t", cc="gcc"):
    source, obj = tmp / f"{name}.s", tmp / f"{name}.o"
    source.write_text(text)
    run([cc, "-c", "-o", obj, source])
    return obj


NOTE = '\t.section .note.GNU-stack,"",@progbits\n'


# ---- H001 to H003 --------------------------------------------------------------------------

FUNCTION = "\t.text\n\t.globl f\n\t.type f,@function\nf:\tret\n\t.size f,.-f\n"


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
    # ... and the linker agrees.
    exe = tmp_path / "t"
    run(["gcc", "-o", exe, obj])
    (line,) = [x for x in run(["readelf", "-lW", exe]).stdout.splitlines() if "GNU_STACK" in x]
    assert ("RWE" in line) != ok
    assert [x["id"] for x in findings(etch, exe, "ETCH-H002")] == ([] if ok else ["ETCH-H002"])


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
    assert by["cb"] == {"taken by data"} and by["late"] == {"taken here"} and by["set"] == {"exported"}


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
        assert re.search(r"[45] more of its entries", got[0]["text"]), got
        assert got[0]["facts"][0]["label"] == "the jump" and "6 entries" in got[0]["facts"][0]["text"]


def test_a_note_that_is_wrong_is_one_finding(etch, tmp_path):
    """Code that was never compiled for it, linked with -z ibt."""
    src, so = tmp_path / "t.c", tmp_path / "t.so"
    src.write_text("".join(f"int f{i}(int x) {{ return x + {i}; }}\n" for i in range(80)))
    run(["gcc", "-O1", "-fPIC", "-shared", "-fcf-protection=none", "-Wl,-z,ibt", "-o", so, src])
    (x,) = findings(etch, so, "ETCH-H004")
    assert function(x) is None and re.match(r"8\d of 8\d places", x["text"]), x["text"]
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


# ---- I005 to I007, P002 ------------------------------------------------------------------------

ETCHED = """
#include <etch/imv.h>
#include <etch/pv.h>
struct config { int n; long big; float ratio; int list[4]; int (*hook)(int); };
ETCHED struct config cfg = { .n = 1 };
ETCHED struct config other = { .n = 1 };
int reader(void);
int reader(void) { return cfg.n; }
void store(int x);
void store(int x) { other.n = x; other.list[1] = x; }
void *leak(void);
void *leak(void) { return &other.list; }
float no_form(void);
float no_form(void) { return cfg.ratio; }
int indexed(int i);
int indexed(int i) { return cfg.list[i]; }
"""


def test_etched(flow):
    obj = flow.compile(ETCHED)
    etch = flow.etch
    stores = findings(etch, obj, "ETCH-I005")
    assert {function(x) for x in stores} == {"store"}
    assert sum(1 + (int(m.group(1)) if (m := re.search(r"(\d+) more", x["text"])) else 0) for x in stores) == 2
    assert "other" in stores[0]["text"]
    assert {function(x) for x in findings(etch, obj, "ETCH-I006")} >= {"leak"}
    loads = {function(x): x["text"] for x in findings(etch, obj, "ETCH-I007")}
    assert "no_form" in loads and "reader" not in loads
    # The same reasons as etch inspect gives, for each site that is not live.
    reasons = {s["live"].removeprefix("no: ") for s in flow.sites(obj)
               if s["kind"] == "load" and s["live"] != "yes"}
    assert all(any(r in t for r in reasons) for t in loads.values())


# ---- T003 ------------------------------------------------------------------------------------

PROGRAM = """
#include <etch/imv.h>
#include <etch/pv.h>
#include <stdio.h>
struct ops { int (*f)(int); int (*g)(int); };
static int one(int x) { return x + 1 + (int)(unsigned char)"abc"[x & 1]; }
static int two(int x) { return x + 2; }
ETCHED struct { int n, m; } cfg = { 5, 6 };
ETCHED struct ops ops = { one, two };
DEFINE_IMV(int, verbose) = 3;
int take(int x);
__attribute__((noinline)) int take(int x) { volatile char b[40]; b[x & 7] = 1; return pv_call(ops, f, x) + b[0]; }
int read_n(void);
__attribute__((noinline)) int read_n(void) { return imv_read(verbose) + cfg.n; }
int main(void) { printf("%d %d\\n", take(1), read_n()); return 0; }
"""


@pytest.fixture(scope="module")
def rewritten(tmp_path_factory, build):
    """One program for each encoding of its unwind table, rewritten."""
    out = {}
    for encoding in ("block", "orc"):
        flow = Flow(tmp_path_factory.mktemp(encoding), build, "gcc")
        obj = flow.compile(PROGRAM, ("-O2", "-g"))
        flow.rewrite(obj)
        exe = flow.link([obj])
        shutil.copy(exe, flow.tmp / "linked")
        flow.rewrite(exe, args=[f"--encoding={encoding}"])
        out[encoding] = (flow, exe)
    return out


def file_offset(path, addr):
    with open(path, "rb") as f:
        (at,) = [s["p_offset"] + addr - s["p_vaddr"] for s in ELFFile(f).iter_segments()
                 if s["p_type"] == "PT_LOAD" and 0 <= addr - s["p_vaddr"] < s["p_filesz"]]
    return at


def changed(path, tmp, at, change):
    """A copy with the bytes from file offset `at` on changed by a function of bytearray."""
    data = bytearray(path.read_bytes())
    change(memoryview(data)[at:])
    out = tmp / "changed"
    out.write_bytes(data)
    return out


def flip(n):
    def change(m):
        m[n] ^= 1
    return change


TABLES = ("ETCH-T003", "ETCH-T004")


@pytest.mark.parametrize("encoding", ["block", "orc"])
def test_rewritten_is_clean(rewritten, encoding):
    flow, exe = rewritten[encoding]
    assert run([exe]).stdout
    assert findings(flow.etch, exe, *TABLES) == []


def test_rewritten_again_and_otherwise(rewritten, tmp_path):
    """No option of rewrite makes a file that is out of step."""
    flow, exe = rewritten["block"]
    for n, args in enumerate((["--only", "imv"], ["--only", "orc"], ["--no-cfi"], ["--encoding=orc", "--no-cfi"], [])):
        copy = tmp_path / f"copy{n}"
        shutil.copy(exe, copy)
        flow.rewrite(copy, args=args)
        assert findings(flow.etch, copy, *TABLES) == [], args
        assert findings(flow.etch, copy, *TABLES, args=["--no-cfi"]) == [], args


def test_stripped_is_clean(rewritten, tmp_path):
    flow, exe = rewritten["block"]
    for n, args in enumerate((["strip", "-o"], ["strip", "-g", "-o"], ["objcopy", "--only-keep-debug"])[:2]):
        out = tmp_path / f"s{n}"
        run([*args, out, exe])
        assert findings(flow.etch, out, *TABLES) == []


@pytest.mark.parametrize("kind", ["load", "call"])
def test_changed_site(rewritten, tmp_path, kind):
    """Each byte of each baked site; the finding is there and nowhere else."""
    flow, exe = rewritten["block"]
    sites = flow.inspect("sites", exe)["sites"]
    baked = [s for s in sites if s["kind"] == kind and s.get("state") not in (None, "load", "indirect", "-")]
    assert baked
    for s in baked:
        addr = int(s["address"], 16)
        for k in (0, s["length"] - 1):
            out = changed(exe, tmp_path, file_offset(exe, addr), flip(k))
            got = findings(flow.etch, out, *TABLES)
            hit = [x for x in got if x["id"] == "ETCH-T003" and x["place"].get("address") == f"{addr:x}"]
            assert len(hit) == 1, (s, k, got)
            assert {f["label"] for f in hit[0]["facts"]} >= {"found"}
            # Bytes that are other instructions may change rows, too, but in that function alone.
            assert {function(x) for x in got} == {function(hit[0])}


def test_changed_value(rewritten, tmp_path):
    """Memory says 4, the code 3."""
    flow, exe = rewritten["block"]
    with open(exe, "rb") as f:
        (y,) = ELFFile(f).get_section_by_name(".symtab").get_symbol_by_name("verbose__imv")
        addr = y["st_value"]
    out = changed(exe, tmp_path, file_offset(exe, addr), flip(0))
    (x,) = findings(flow.etch, out, *TABLES)
    facts = {f["label"]: f["text"] for f in x["facts"]}
    assert function(x) == "read_n" and "$3" in facts["found"] and "$2" in facts["the table's, by the value in memory"]


def test_unpatched_site(rewritten, tmp_path):
    """The load is back, as the linker wrote it, by a tool that does not know the table."""
    flow, exe = rewritten["block"]
    before = flow.tmp / "linked"
    sites = [s for s in flow.inspect("sites", exe)["sites"] if s["kind"] == "load" and s["state"] == "immediate"]
    assert sites
    for s in sites:
        addr, n = int(s["address"], 16), s["length"]
        was, at = file_offset(before, addr), file_offset(exe, addr)
        load = before.read_bytes()[was:was + n]
        out = changed(exe, tmp_path, at, lambda m: m.__setitem__(slice(0, n), load))
        (x,) = findings(flow.etch, out, *TABLES)
        assert x["text"] == "the table says that this load is patched, and it is not"
        assert x["place"]["address"] == s["address"]


def test_table_out_of_order(rewritten, tmp_path):
    flow, exe = rewritten["block"]
    with open(exe, "rb") as f:
        table = ELFFile(f).get_section_by_name("__imv")
        at, n = table["sh_offset"], table["sh_size"] // 12
    data = bytearray(exe.read_bytes())
    entries = [data[at + 12 * i:at + 12 * i + 12] for i in range(n)]
    full = [i for i in range(n) if any(entries[i])]
    a, b = full[0], full[-1]
    assert a != b

    def moved(e, by):
        site, obj = struct.unpack_from("<ii", e)
        return struct.pack("<ii", site + by, obj + by) + e[8:]
    data[at + 12 * a:at + 12 * a + 12] = moved(entries[b], 12 * (b - a))
    data[at + 12 * b:at + 12 * b + 12] = moved(entries[a], 12 * (a - b))
    out = tmp_path / "changed"
    out.write_bytes(data)
    (x,) = findings(flow.etch, out, *TABLES)
    assert "out of order" in x["text"] and x["place"]["section"] == "__imv"


IN_PLACE = """
#include <etch/pv.h>
#define HIDDEN __attribute__((visibility("hidden")))
struct ops { int (*pick)(int); };
HIDDEN int first(int);
int first(int a) { return a; }
HIDDEN int other(int);
int other(int a) { return -a; }
extern HIDDEN struct ops ops;
DEFINE_PV_OPS(struct ops, ops) = { first };
struct ops elsewhere = { other };
__attribute__((noinline)) int work(int x);
__attribute__((noinline)) int work(int x) { return pv_call_inline(ops, pick, first, x + 1, x + 1) ^ 5; }
int main(int c, char **v) { (void)v; return elsewhere.pick(work(c)) == 7; }
"""


def test_in_place(flow_gcc, tmp_path):
    """The nop of a case compiled in place; damaged; and with another function in its slot."""
    obj = flow_gcc.compile(IN_PLACE, ("-O2", "-fno-pie"))
    flow_gcc.rewrite(obj)
    exe = flow_gcc.link([obj], ["-no-pie"])
    flow_gcc.rewrite(exe)
    assert findings(flow_gcc.etch, exe, *TABLES) == []
    (s,) = [s for s in flow_gcc.inspect("sites", exe)["sites"] if s["kind"] == "inline"]
    assert s["state"] == "in place"
    addr = int(s["address"], 16)
    (x,) = findings(flow_gcc.etch, changed(exe, tmp_path, file_offset(exe, addr), flip(2)), "ETCH-T003")
    assert x["place"]["address"] == s["address"] and "neither the jump" in x["text"]
    with open(exe, "rb") as f:
        tab = ELFFile(f).get_section_by_name(".symtab")
        ops, other = (tab.get_symbol_by_name(n)[0]["st_value"] for n in ("ops", "other"))
    out = changed(exe, tmp_path, file_offset(exe, ops), lambda m: struct.pack_into("<Q", m, 0, other))
    got = [x for x in findings(flow_gcc.etch, out, *TABLES) if "compiled in place" in x["text"]]
    assert [x["place"]["address"] for x in got] == [s["address"]]


def test_malformed_descriptor(rewritten, tmp_path):
    flow, exe = rewritten["block"]
    with open(exe, "rb") as f:
        at = ELFFile(f).get_section_by_name("__etch_mod")["sh_offset"]
    out = changed(exe, tmp_path, at, flip(4))  # its version
    got = findings(flow.etch, out, "ETCH-T003")
    assert len(got) == 1 and "module descriptor" in got[0]["text"]


def test_new_store_to_an_armed_object(rewritten, tmp_path):
    """A record says armed, and code that stores to it has come in: here by changing a load."""
    flow, exe = rewritten["block"]
    with open(exe, "rb") as f:
        e = ELFFile(f)
        tab = e.get_section_by_name(".symtab")
        cfg, main = tab.get_symbol_by_name("cfg")[0]["st_value"], tab.get_symbol_by_name("main")[0]["st_value"]
    store = b"\xc7\x05" + struct.pack("<i", cfg - main - 10) + struct.pack("<i", 1)  # movl $1, cfg(%rip)
    data = bytearray(exe.read_bytes())
    at = file_offset(exe, main)
    data[at:at + len(store)] = store
    out = tmp_path / "changed"
    out.write_bytes(data)
    got = [x for x in findings(flow.etch, out, "ETCH-T003") if "the record of cfg" in x["text"]]
    assert len(got) == 1 and "stores to it" in got[0]["text"]
    assert got[0]["facts"][0]["label"] == "stored to" and got[0]["facts"][0]["place"]["function"] == "main"


@pytest.mark.parametrize("encoding", ["block", "orc"])
def test_changed_text_under_the_unwind_table(rewritten, tmp_path, encoding):
    """The frame of take() has another size than when the table was made."""
    flow, exe = rewritten[encoding]
    with open(exe, "rb") as f:
        (y,) = ELFFile(f).get_section_by_name(".symtab").get_symbol_by_name("take")
    start, size = file_offset(exe, y["st_value"]), y["st_size"]
    body = exe.read_bytes()[start:start + size]
    at = body.index(b"\x48\x83\xec")  # sub $imm8, %rsp

    def grow(m):
        m[at + 3] += 16
    out = changed(exe, tmp_path, start, grow)
    got = findings(flow.etch, out, *TABLES)
    assert {x["id"] for x in got} == {"ETCH-T003"} and {function(x) for x in got} == {"take"}
    assert got[0]["facts"][0]["label"] == "the table" and got[0]["facts"][0]["text"] != got[0]["facts"][1]["text"]


def test_table_of_another_build(rewritten, tmp_path):
    flow, exe = rewritten["block"]
    with open(exe, "rb") as f:
        at = ELFFile(f).get_section_by_name(".note.gnu.build-id")["sh_offset"] + 16
    (x,) = findings(flow.etch, changed(exe, tmp_path, at, flip(0)), *TABLES)
    assert "build-id" in x["text"]


# ---- T004 ------------------------------------------------------------------------------------

def orc_section(exe, name):
    with open(exe, "rb") as f:
        s = [s for s in ELFFile(f).iter_sections() if s.name == name][-1]
        return s["sh_offset"], s["sh_size"]


@pytest.mark.parametrize("name,change,said", [
    (".orc_unwind_ip", lambda m: swap(m, 40, 4), "not sorted"),
    (".orc_lookup", lambda m: flip(8)(m), "entry 2 of .orc_lookup"),
    (".orc_unwind", lambda m: m.__setitem__(slice(6 * 5 + 4, 6 * 5 + 6), b"\xff\xff"), "the rule of row 5"),
    (".etch.unwind", lambda m: flip(16)(m), "malformed"),
])
def test_malformed_orc(rewritten, tmp_path, name, change, said):
    flow, exe = rewritten["orc"]
    at, _ = orc_section(exe, name)
    got = findings(flow.etch, changed(exe, tmp_path, at, change), *TABLES)
    assert [x["id"] for x in got] == ["ETCH-T004"] and said in got[0]["text"], got


def swap(m, at, n):
    """Exchanges what two self-relative fields refer to."""
    a, b = struct.unpack_from("<ii", m, at)
    struct.pack_into("<ii", m, at, b + n, a - n)


def test_malformed_block_table(rewritten, tmp_path):
    flow, exe = rewritten["block"]
    at, size = orc_section(exe, ".etch.unwind")
    out = changed(exe, tmp_path, at, lambda m: struct.pack_into("<I", m, 20, 7))
    assert [x["id"] for x in findings(flow.etch, out, *TABLES)] == ["ETCH-T004"]


def test_classic_arrays(etch, tmp_path):
    def arrays(ip, orc):
        return FUNCTION + f'\t.section .orc_unwind_ip,"a"\n{ip}\t.section .orc_unwind,"a"\n{orc}' + NOTE
    row = "\t.value 8, 0, 0x205\n"
    ip = "\t.long f - .\n"
    for name, text, n in (("good", arrays(ip * 2, row * 2), 0), ("odd", arrays(ip + "\t.byte 1\n", row), 1),
                          ("fewer", arrays(ip * 2, row), 1), ("alone", arrays(ip, "").split("\t.section .orc_unwind,")[0] + NOTE, 1)):
        obj = assemble(tmp_path, text, name)
        assert len(findings(etch, obj, "ETCH-T004")) == n, name
    obj = assemble(tmp_path, arrays("\t.long f + 1 - .\n" + ip, row * 2), "order")
    so = tmp_path / "order"
    main = assemble(tmp_path, "\t.text\n\t.globl main\nmain:\tret\n" + NOTE, "main")
    run(["gcc", "-no-pie", "-o", so, obj, main])
    (x,) = findings(etch, so, "ETCH-T004")
    assert "not sorted" in x["text"]
    run([etch, "rewrite", so])
    assert findings(etch, so, *TABLES) == []


# ---- C003, C004, N001 ----------------------------------------------------------------------------

MIXED = """
	.text
	.globl with, without, leaf, unsized, untyped
	.type with,@function
with:	.cfi_startproc
	sub $8, %rsp
	.cfi_adjust_cfa_offset 8
	call untyped
	add $8, %rsp
	.cfi_adjust_cfa_offset -8
	ret
	.cfi_endproc
	.size with,.-with
	.type without,@function
without: sub $8, %rsp
	call with
	add $8, %rsp
	ret
	.size without,.-without
	.type leaf,@function
leaf:	ret
	.size leaf,.-leaf
	.type unsized,@function
unsized: ret
	.type inside,@function
	.size outer,8
	.type outer,@function
outer:	nop
inside:	nop
	.zero 6, 0x90
untyped: ret
""" + NOTE


def uncovered(path):
    """Function symbols with a size that no FDE covers, by pyelftools."""
    with open(path, "rb") as f:
        e = ELFFile(f)
        ranges = [(x["initial_location"], x["initial_location"] + x["address_range"])
                  for x in e.get_dwarf_info().EH_CFI_entries() if hasattr(x, "cie") and type(x).__name__ == "FDE"]
        return {s.name for t in e.iter_sections() if isinstance(t, SymbolTableSection) for s in t.iter_symbols()
                if s["st_info"]["type"] == "STT_FUNC" and s["st_size"] and s["st_shndx"] != "SHN_UNDEF" and
                not any(a <= s["st_value"] < b for a, b in ranges)}


def test_missing_cfi_and_sizes(etch, tmp_path):
    obj = assemble(tmp_path, MIXED)
    so = tmp_path / "t.so"
    run(["gcc", "-shared", "-nostdlib", "-o", so, obj])
    for path in (obj, so):
        got = {function(x): x["text"] for x in findings(etch, path, "ETCH-C003")}
        assert set(got) == {"without", "leaf", "outer"} == uncovered(so), path
        assert "makes calls" in got["without"] and "makes no calls" in got["leaf"]
    sizes = {x["text"].split()[0] for x in findings(etch, obj, "ETCH-N001")}
    assert sizes == {"unsized", "untyped"}
    # What is built without .eh_frame at all is built so on purpose.
    assert findings(etch, assemble(tmp_path, re.sub(r"\t\.cfi_.*\n", "", MIXED), "u"), "ETCH-C003") == []


def test_rows_of_stubs_are_one_finding(etch, tmp_path):
    text = "\t.text\n" + "".join(f"\t.globl s{i}\n\t.type s{i},@function\ns{i}:\tjmp *s{i}_slot(%rip)\n" for i in range(40))
    (x,) = findings(etch, assemble(tmp_path, text + NOTE), "ETCH-N001")
    assert "likewise 39 functions" in x["text"] and "s39" in x["text"]


CFI = """
	.text
	.type f,@function
f:	ret
	.size f,.-f
	.section .eh_frame,"a",@progbits
cie:	.long 2f - 1f
1:	.long 0
	.byte 1
	.string "%(augmentation)s"
	.byte 1, 0x78, 16
	%(data)s
	.byte 0x0c, 7, 8, 0x90, 1
	.balign 4
2:
fde:	.long 4f - 3f
3:	.long %(pointer)s
	.long f - .
	.long %(size)s
	.byte %(more)s
	.byte %(program)s
	.balign 4
4:
""" + NOTE
GOOD = {"augmentation": "zR", "data": ".byte 1, 0x1b", "pointer": "3b - cie", "size": "1", "more": "0", "program": "0"}


@pytest.mark.parametrize("change,said", [
    ({}, None),
    ({"program": "0x3f"}, "call frame instructions"),          # no such one
    ({"program": "0x0b"}, "call frame instructions"),          # restores what was not remembered
    ({"pointer": "3b - cie + 4"}, "names a CIE where there is none"),
    ({"pointer": "0x7fffffff"}, "names a CIE where there is none"),
    ({"data": ".byte 90, 0x1b"}, "augmentation data does not end"),
    ({"data": ".byte 1, 0x0d"}, "encoding that there is not"),
    ({"more": "200"}, "augmentation data does not end"),
    ({"augmentation": "Q", "data": ""}, None),                  # unusual: who knows what it means
], ids=str)
def test_malformed_cfi(etch, etch_asan, tmp_path, change, said):
    obj = assemble(tmp_path, CFI % {**GOOD, **change})
    got = findings(etch, obj, "ETCH-C004")
    assert len(got) == (said is not None) and all(said in x["text"] for x in got), got
    assert all(x["place"]["section"] == ".eh_frame" for x in got)
    assert findings(etch_asan, obj, "ETCH-C004", env=asan_env()) == got


def test_cut_cfi(etch, tmp_path):
    obj = assemble(tmp_path, FUNCTION + '\t.section .eh_frame,"a",@progbits\n\t.long 100\n\t.long 0\n' + NOTE)
    (x,) = findings(etch, obj, "ETCH-C004")
    assert "past the end of the section" in x["text"]


# ---- D004 ------------------------------------------------------------------------------------------

def test_decoders(etch, tmp_path):
    """Capstone 4 knows no mask registers, and takes comiss to read 16 bytes."""
    body = "".join("\tkmovd %eax, %k1\n\tcomiss x(%rip), %xmm1\n\tadd %eax, %ebx\n" for _ in range(3))
    obj = assemble(tmp_path, "\t.text\n\t.type f,@function\nf:\n" + body + "\tret\n\t.size f,.-f\n" + NOTE)
    version = run(["python3", "-c", "import ctypes.util; print(ctypes.util.find_library('capstone'))"]).stdout
    if "so.4" not in version:
        pytest.skip("another Capstone")
    for args in ([], ["--both-decoders"]):
        got = findings(etch, obj, "ETCH-D004", args=args)
        assert places(got) == [("f", 0), ("f", 4)], got
        assert all("2 more places" in x["text"] for x in got)
        assert {f["label"] for f in got[0]["facts"]} == {"Zydis", "Capstone", "bytes"}
        assert got[0]["facts"][2]["text"] == "c5 fb 92 c8"


def test_decoders_agree_on_what_objdump_shows(etch, tmp_path):
    """No disagreement where both are right: a few thousand instructions of a compiler."""
    src, obj = tmp_path / "t.c", tmp_path / "t.o"
    src.write_text("#include <string.h>\n#include <stdlib.h>\n" + "".join(
        f"int f{i}(int *a, long n, const char *s) {{ long t = {i}; for (long k = 0; k < n; k++) {{ t += a[k] * {i + 3}; "
        f"if (a[k] % {i + 2} == 1) t ^= (long)strlen(s) << {i % 31}; switch (a[k]) {{ case 1: t++; break; case 2: t /= 3; break; "
        f"case 3: t -= atoi(s); break; case 5: return {i}; }} }} return (int)t; }}\n" for i in range(8)))
    for flags in (["-O2"], ["-O3", "-mavx2"]):
        run(["gcc", *flags, "-c", "-o", obj, src])
        assert findings(etch, obj, "ETCH-D004", args=["--both-decoders"]) == []


# ---- hostile input -----------------------------------------------------------------------------------

def test_damaged_files_are_said_so_or_refused(etch_asan, rewritten, tmp_path):
    """Bytes of tables and notes changed one by one: never more than findings or one line."""
    flow, exe = rewritten["orc"]
    with open(exe, "rb") as f:
        spans = [(s["sh_offset"], s["sh_size"]) for s in ELFFile(f).iter_sections()
                 if s.name in ("__imv", "__pv_sites", "__etch_obj", "__etch_mod", ".eh_frame", ".orc_lookup", ".dynamic",
                               ".etch.unwind", ".rela.dyn")]
    data = exe.read_bytes()
    out = tmp_path / "damaged"
    for n, (at, size) in enumerate(spans):
        for k in (n % 3,):
            copy = bytearray(data)
            for j in range(at + k * 7 + n, at + size, 97 + 31 * k):
                copy[j] ^= 0x80 >> (k + n) % 8
            out.write_bytes(copy)
            p = run([etch_asan, "check", "--format", "json", "--fail-on", "never", out], ok=(0, 2), env=asan_env())
            assert p.returncode == 0 or re.fullmatch(r"etch: [^\n]*\n", p.stderr), p.stderr
