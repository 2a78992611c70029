# SPDX-License-Identifier: MIT
"""etch diff: what changed between two builds.

Two builds of the same sources that only lie elsewhere are the same; of two that are not,
objdump says which functions changed, gcc -fstack-usage how deep their frames are. The
sources are etch's own library and small programs made for one case each."""

import json
import os
import re
import shutil
import struct
import subprocess

import jsonschema
import pytest
from elftools.elf.elffile import ELFFile

from conftest import INCLUDE, ROOT, asan_env, run
from mutate import Mutator
from test_guides import blocks

SCHEMA = json.loads((ROOT / "docs" / "schemas" / "diff.json").read_text())
LIB = ["faults/copy.c", "unwind/recover.c", "patch/imv.c", "patch/inspect.c", "patch/module.c", "patch/patch.c", "patch/plan.c", "patch/plan_wide.c", "patch/index.c",
       "patch/pv.c", "unwind/stack_bounds.c"]
EXTRA = "int the_extra(int x) { return 77 * x + 1; }\n"


def diff(etch, *args, ok=(0, 1), **kw):
    return run([etch, "diff", *args], ok=ok, **kw)


def diff_json(etch, old, new, *args, ok=(0, 1)):
    d = json.loads(diff(etch, "--format", "json", *args, old, new, ok=ok).stdout)
    jsonschema.Draft202012Validator(SCHEMA).validate(d)
    return d


def one(etch, old, new, *args):
    """The comparison of two files."""
    d = diff_json(etch, old, new, *args)
    assert len(d["files"]) == 1
    assert d["exit"] == d["files"][0]["differs"] == (d["summary"]["differ"] == 1)
    return d["files"][0]


def listed(d, kind):
    return {(c["new"] or c["old"])["name"]: c for c in d["functions"]["list"] if c["change"] == kind}


def code_changed(d):
    return {n for n, c in listed(d, "changed").items() if "code" in c["differs"]}


def compile_c(cc, source, out, *flags):
    out.parent.mkdir(exist_ok=True, parents=True)
    run([cc, "-std=gnu11", "-D_GNU_SOURCE", "-DETCH_NO_MODULE", f"-I{ROOT / 'lib'}", f"-I{INCLUDE}", *flags, "-c", "-o",
         out, source])
    return out


@pytest.fixture
def prepared(once):
    """lib/unwind/prepare.c by gcc -O1 and -O2: (both objects); beside them what -fstack-usage says."""
    def make(directory):
        for level in ("-O1", "-O2"):
            compile_c("gcc", ROOT / "lib" / "unwind" / "prepare.c", directory / level / "prepare.o", level, "-fstack-usage")
    directory = once("diff-prepare", make)
    return [directory / level / "prepare.o" for level in ("-O1", "-O2")]


def text(tmp, name, source):
    path = tmp / name
    path.write_text(source)
    return path


# ---- the same ------------------------------------------------------------------------

def distribution_files(count):
    found, seen = [], set()
    for directory in ("/usr/bin", "/usr/lib/x86_64-linux-gnu", "/usr/sbin"):
        for path in sorted(os.scandir(directory), key=lambda x: x.name):
            if not path.is_file(follow_symlinks=False) or not 4096 < path.stat().st_size < 120_000:
                continue
            with open(path, "rb") as f:
                head = f.read(20)
            if head[:5] != b"\x7fELF\x02" or head[16:20] not in (b"\x03\0\x3e\0", b"\x02\0\x3e\0"):
                continue
            found.append(path.path)
            if len(found) - len(seen) >= count // 3:
                seen.update(found)
                break
    return found


def test_a_file_is_the_same_as_itself(etch, tmp_path):
    files = distribution_files(30)
    assert len(files) == 30
    for side in ("a", "b"):
        (tmp_path / side).mkdir()
        for i, path in enumerate(files):
            shutil.copy(path, tmp_path / side / f"{i:02}")
    p = diff(etch, files[0], files[0], ok=0)
    assert p.stdout == "" and p.stderr == ""
    p = diff(etch, tmp_path / "a", tmp_path / "b", ok=0)
    assert p.stdout == "30 files the same, 0 differ, 0 only in OLD, 0 only in NEW\n" and p.stderr == ""


# Static: at addresses that no constant of libc's code is; such a one is taken for them (docs/diff.md).
LINKS = {"pie": [], "fixed": ["-no-pie"], "static": ["-static", "-Wl,-Ttext-segment=0x15930000"], "shared": ["-shared", "-fPIC"]}

MAIN = """
#include <stdio.h>
#include <etch/unwind.h>
int one(int), two(int);
static int started;
int main(int argc, char **argv)
{
	puts(argv[0]);
	return one(argc) + two(argc) + started++;
}
"""
# Two files alike except for what lies in their data: locals of one name, anonymous strings, a
# switch, a table at whose end a loop stops, a pointer that starts before its array.
TWIN = """
#include <stdio.h>
static int count;
static const int numbers[] = {NUMBERS};
static const char *const words[] = {"one" NAME, "two" NAME, "three" NAME};
__attribute__((noinline)) static void init(void) { count += numbers[count & 3]; }
__attribute__((noinline)) static int sum(void)
{
	int n = 0;
	for (const int *p = numbers; p < numbers + sizeof(numbers) / sizeof(*p); p++)
		n += *p ^ n;
	return n;
}
int FUNC(int i)
{
	init();
	puts(words[i % 3]);
	switch (i) {
	case 0: return 5;
	case 1: puts("a" NAME); return 9;
	case 2: puts("b" NAME); return 8;
	case 3: puts("c" NAME); return 1;
	case 4: puts("d" NAME); return 4;
	case 5: return sum();
	}
	return count + (int)(i * 2.5);
}
"""


@pytest.fixture(scope="module")
def built(once):
    """Objects of each compiler: (list, list with another function in front of one of them)."""
    def make(tmp, cc):
        (tmp / "twin.c").write_text(TWIN)
        (tmp / "main.c").write_text(MAIN)
        other = tmp / "elsewhere" / "deep"
        other.mkdir(parents=True)
        (other / "main.c").write_text(EXTRA + MAIN)
        for name in LIB:
            compile_c(cc, ROOT / "lib" / name, tmp / f"{os.path.basename(name)}.o", "-O2", "-fPIC", "-fno-plt")
        for func, numbers in (("one", "1, 2, 3, 5, 8"), ("two", "9, 7, 3, 1, 4, 4, 4")):
            compile_c(cc, tmp / "twin.c", tmp / f"{func}.o", "-O2", f"-DFUNC={func}", f'-DNAME="{func}"', f"-DNUMBERS={numbers}")
        compile_c(cc, tmp / "main.c", tmp / "main.o", "-O2")
        compile_c(cc, other / "main.c", tmp / "elsewhere" / "main.o", "-O2")

    found = {}
    for cc in ("gcc", "clang"):
        tmp = once(f"diff-{cc}", lambda directory: make(directory, cc))
        objects = [*(tmp / f"{os.path.basename(name)}.o" for name in LIB), tmp / "one.o", tmp / "two.o"]
        found[cc] = ([tmp / "main.o", *objects], [tmp / "elsewhere" / "main.o", *reversed(objects)])
    return found


def link(cc, objects, out, flags):
    run([cc, *flags, "-Wl,--unresolved-symbols=ignore-all", "-o", out, *objects, "-pthread", "-ldl"])
    return out


@pytest.mark.parametrize("how", sorted(LINKS))
@pytest.mark.parametrize("cc", ["gcc", "clang"])
def test_where_code_lies_is_no_difference(etch, tmp_path, built, cc, how):
    plain, moved = built[cc]
    flags = LINKS[how]
    if how == "shared":  # main and the twins are not made for it
        plain, moved = plain[1:-2], moved[3:]
    a = link(cc, plain, tmp_path / "a", flags)
    b = link(cc, moved, tmp_path / "b", flags)
    c = link(cc, [*plain[1:], plain[0]], tmp_path / "c", flags)
    d = one(etch, a, b)
    assert d["functions"]["changed"] == d["functions"]["removed"] == d["functions"]["renamed"] == 0, d["functions"]["list"]
    assert set(listed(d, "added")) == ({"the_extra"} if how != "shared" else set())
    assert d["functions"]["same"] > 60
    # The order of linking alone: sizes may differ, nothing else.
    p = diff(etch, a, c, ok=0)
    assert not p.stdout or " 0 changed, 0 added, 0 removed, 0 renamed," in p.stdout
    # And the bytes do differ, so that this says something.
    assert a.read_bytes() != c.read_bytes()


@pytest.mark.parametrize("cc", ["gcc", "clang"])
def test_stripped_files(etch, tmp_path, built, cc):
    plain, moved = built[cc]
    a = link(cc, plain, tmp_path / "a", [])
    b = link(cc, moved, tmp_path / "b", [])
    for path in (a, b):
        run(["strip", "-o", f"{path}.s", path])
    # A stripped copy; of an object that was never rewritten the names are in .symtab alone: the
    # sites are found, as those of parts of a section without names.
    d = one(etch, a, f"{a}.s")
    assert not d["functions"]["list"] and d["functions"]["same"] > 60 and {
        s["change"] for s in d["sites"]} <= {"lost", "gained"}
    # clang 15 and later: words[] is a table of distances to the strings, which differ where the strings are moved. Without names
    # it is the two functions that use it, of all the 84, which may count as changed (docs/limits.md).
    distances = "words.rel" in run(["nm", a]).stdout
    for old, new in ((f"{a}.s", f"{b}.s"), (a, f"{b}.s"), (f"{a}.s", b)):
        d = one(etch, old, new)
        if distances:
            assert d["functions"]["changed"] <= 2 and d["functions"]["removed"] == 0, d["functions"]["list"]
            assert all(c["differs"] == ["code"] and c["instructions_gone"] == 1 for c in d["functions"]["list"] if c["change"] == "changed")
            continue
        assert d["nameless"] == (str(old).endswith(".s") != str(new).endswith(".s"))
        assert d["functions"]["changed"] == d["functions"]["removed"] == 0, d["functions"]["list"]
        assert [c["new"]["instructions"] for c in d["functions"]["list"]] in ([2], [3])  # the_extra


def test_a_rewrite_is_no_difference(etch, flow_gcc, tmp_path):
    source = """
#include <etch/imv.h>
#include <stdio.h>
DEFINE_IMV(int, stop) = 4;
ETCHED struct { int a, b; } cfg = {1, 2};
int work(int x) { return imv_read(stop) + x + cfg.a * cfg.b; }
int main(int c, char **v) { printf("%d\\n", work(c)); (void)v; return 0; }
"""
    plain = flow_gcc.program(source, "object", out="plain")
    linked = flow_gcc.program(source, "linked", out="linked")
    assert any(s["state"] == "immediate" for s in flow_gcc.inspect("sites", linked)["sites"])
    d = one(etch, plain, linked)
    assert not d["functions"]["list"] and not d["sites"]
    unwound = tmp_path / "unwound"
    run([etch, "rewrite", "-o", unwound, "/bin/true"])
    d = one(etch, "/bin/true", unwound)
    assert not d["functions"]["list"] and d["differs"]  # a table that only one of them has
    assert {s["name"]: s["old"] for s in d["sizes"]}["unwind table"] == 0


# ---- what changed ----------------------------------------------------------------------

class Truth:
    """Functions of an object as objdump has them, less addresses."""

    def __init__(self, path):
        self.elf = ELFFile(open(path, "rb"))
        self.sections = {s.name: s for s in self.elf.iter_sections()}
        out = run(["objdump", "-dr", "--no-show-raw-insn", "-w", path]).stdout
        self.functions, self.vague, name = {}, set(), None
        self.starts = {(s["st_shndx"], s["st_value"]): s.name
                       for s in self.sections[".symtab"].iter_symbols() if s["st_info"]["type"] == "STT_FUNC"}
        for line in out.splitlines():
            m = re.match(r"[0-9a-f]+ <(.*)>:$", line)
            if m:
                name = m.group(1)
                self.functions[name] = []
            elif name and (m := re.match(r"\s*([0-9a-f]+):\t(.*)$", line)):
                self.take(name, int(m.group(1), 16), m.group(2))
        self.functions = {n: self.normal(n, lines) for n, lines in self.functions.items()}

    def take(self, name, addr, rest):
        """Of one instruction: its text, and with -w the relocations after it."""
        insn, *relocs = re.split(r"\t[0-9a-f]+: (?=R_X86)", rest)
        at = re.search(r"\s+# ([0-9a-f]+ <([^+>]*).*>)$", insn)
        insn = re.sub(r"\s+#.*$", "", insn).strip()
        if at and not relocs:  # of the same section: the assembler knew
            there = at.group(2) if at.group(2) != name else ""
            insn = re.sub(r"-?0x[0-9a-f]+\(%rip\)", there, insn) + ("" if there else " " + at.group(1))
        relocs = [self.reloc(name, *r.split("\t")) for r in relocs]
        if relocs:
            insn = re.sub(r"0x[0-9a-f]+\(%rip\)|(?<=[a-z] )[0-9a-f]+ <.*>", "SYMBOL", insn)
            insn = re.sub(r"\b[0-9a-f]+ <.*>$", "SYMBOL", insn)
            insn = re.sub(r"\$0x0\b", "SYMBOL", insn)
        elif (m := re.search(r"\b[0-9a-f]+ <([^+>]*)>$", insn)) and m.group(1) != name:
            insn, relocs = insn[:m.start()] + "SYMBOL", [m.group(1)]  # in the same section: the assembler knew
        self.functions[name].append((addr, insn, relocs))

    def reloc(self, name, kind, target):
        """Of constants what they are, as far as this can be said in a few lines."""
        m = re.match(r"(\.[\w.]+)([+-]0x[0-9a-f]+)?$", target)
        section = self.sections.get(m.group(1)) if m else None
        at = int(m.group(2) or "0", 16) + 4 if m else 0
        if section and section.name.startswith(".text"):
            return self.starts.get((self.elf.get_section_index(section.name), at), target)
        if not section or not section.name.startswith(".rodata"):
            return re.sub(r"-0x4$", "", target)
        data = section.data()
        if section["sh_flags"] & 0x20:  # SHF_STRINGS
            return data[at:data.index(b"\0", at)]
        size = section["sh_entsize"]
        if section["sh_flags"] & 0x10 and size and 0 <= at <= len(data) - size:  # SHF_MERGE
            return data[at:at + size]
        self.vague.add(name)
        return section.name

    def normal(self, name, lines):
        lines = [x for x in lines if not re.match(r"(cs |data16 |xchg +%ax,%ax|nop)", x[1])]
        number = {addr: i for i, (addr, _, _) in enumerate(lines)}

        def jump(m):
            at = int(m.group(1), 16)
            while at not in number and lines and at < lines[-1][0]:
                at += 1  # padding
            return f"#{number[at]}" if at in number else m.group(2)

        return [(insn if relocs else re.sub(r"\b([0-9a-f]+) <(.*)>$", jump, insn), relocs) for _, insn, relocs in lines]


def flags_pairs():
    return [pytest.param(name, a, b, id=f"{os.path.basename(name)}-{'-'.join(b)}") for name, a, b in (
        ("unwind/prepare.c", ["-O2"], ["-O3"]),
        ("patch/module_objects.c", ["-O2"], ["-O2", "-fno-tree-vectorize", "-fno-inline-small-functions"]),
        ("patch/marks.c", ["-O1"], ["-O1", "-fstack-protector-strong"]),
        ("unwind/cursor.c", ["-O1"], ["-O1", "-ffunction-sections", "-falign-functions=64", "-falign-loops=32"]))]


@pytest.mark.parametrize("name,a,b", flags_pairs())
def test_what_objdump_says(etch, prepared, tmp_path, name, a, b):
    old = prepared[1] if name == "unwind/prepare.c" else compile_c("gcc", ROOT / "lib" / name, tmp_path / "old.o", *a)
    new = compile_c("gcc", ROOT / "lib" / name, tmp_path / "new.o", *b)
    was, is_ = Truth(old), Truth(new)
    both = was.functions.keys() & is_.functions.keys()
    # Of a jump back out of a cold part objdump has the offset in a function that changes anyway.
    truth = {n for n in both if was.functions[n] != is_.functions[n] and ".cold" not in n}
    assert len(both) > 10
    d = one(etch, old, new)
    found = {n for n in code_changed(d) & both if ".cold" not in n}
    vague = was.vague | is_.vague  # tables in .rodata: the few lines above do not look into them
    assert truth <= found, truth - found
    assert found - truth <= vague, found - truth - vague
    if "-falign-loops=32" in b:
        assert not found
    else:
        assert truth
    for n, c in listed(d, "changed").items():
        if n in both and n == c["old"]["name"]:
            assert c["old"]["instructions"] == len(was.functions[n]), n
            assert c["new"]["instructions"] == len(is_.functions[n]), n
            assert c["new"]["instructions"] - c["old"]["instructions"] == c["instructions_new"] - c["instructions_gone"], n


@pytest.mark.parametrize("extra", [None, "-fno-omit-frame-pointer"])
def test_frames_are_those_of_stack_usage(etch, prepared, tmp_path, extra):
    """gcc's own word on the depth of every frame."""
    paths = prepared
    if extra:
        paths = [compile_c("gcc", ROOT / "lib" / "patch" / "marks.c", tmp_path / level / "marks.o", level, "-fstack-usage", extra)
                 for level in ("-O1", "-O2")]
    usage = [{m[0]: int(m[1]) for m in re.findall(r":(\w[\w.]*)\t(\d+)\tstatic$", path.with_suffix(".su").read_text(), re.M)}
             for path in paths]
    d = one(etch, *paths)
    checked = 0
    for c in d["functions"]["list"]:
        for side, su in zip(("old", "new"), usage):
            if c[side] and c[side]["name"] in su and not c[side]["frame_realigned"]:
                assert c[side]["frame"] == su[c[side]["name"]], c
                checked += 1
    assert checked > 20


ONE = """
#include <string.h>
int other(int);
__attribute__((noinline)) static int twice(int x) { return 2 * x + other(x); }
int copy(const char *s) { char b[SIZE]; strcpy(b, s); return b[0] + twice(b[1]); }
int same(int x) { return twice(x) + 3; }
int gone(int x) { return x ^ 5; }
"""


def test_one_change(etch, tmp_path, cc):
    a = compile_c(cc, text(tmp_path, "a.c", ONE), tmp_path / "a.o", "-O2", "-DSIZE=64")
    b = compile_c(cc, text(tmp_path, "b.c", EXTRA + ONE.replace("twice(x) + 3", "twice(x) + other(4)").replace(
        "int gone", "int come")), tmp_path / "b.o", "-O2", "-DSIZE=256")
    d = one(etch, a, b)
    assert set(listed(d, "changed")) == {"copy", "same"}
    # One immediate twice, in `sub` and `add` of rsp: nothing else is new.
    copy = listed(d, "changed")["copy"]
    assert copy["new"]["frame"] - copy["old"]["frame"] == 192 and copy["instructions_gone"] == copy["instructions_new"] == 2
    assert listed(d, "changed")["same"]["calls"] == [{"name": "other", "count": 1}]
    # Too small to be told by its code: not renamed.
    assert set(listed(d, "added")) == {"come", "the_extra"} and set(listed(d, "removed")) == {"gone"}
    assert d["functions"]["same"] == 1 and d["functions"]["frames_deeper"] in (1, 2)
    # The other way round it is the mirror image.
    m = one(etch, b, a)
    turn = {"added": "removed", "removed": "added", "changed": "changed"}
    assert {(turn[c["change"]], (c["new"] or c["old"])["name"]): (c["instructions_gone"], c["instructions_new"])
            for c in m["functions"]["list"]} == {
        (c["change"], (c["new"] or c["old"])["name"]): (c["instructions_new"], c["instructions_gone"])
        for c in d["functions"]["list"]}
    assert m["functions"]["frames_less_deep"] == d["functions"]["frames_deeper"]


def test_gcc_against_clang(etch, built):
    """Every function of one name is compared, and what is in one only is inlined in the other."""
    for a, b in zip(built["gcc"][0][1:9], built["clang"][0][1:9]):
        d = one(etch, a, b)
        names = [{s.name for s in ELFFile(open(p, "rb")).get_section_by_name(".symtab").iter_symbols()
                  if s["st_info"]["type"] == "STT_FUNC"} for p in (a, b)]
        assert not set(listed(d, "added")) & names[0] and not set(listed(d, "removed")) & names[1]
        f = d["functions"]
        assert f["same"] + f["changed"] >= len(names[0] & names[1])
        mirror = one(etch, b, a)["functions"]
        assert (mirror["same"], mirror["changed"], mirror["added"], mirror["removed"]) == (
            f["same"], f["changed"], f["removed"], f["added"])


def test_renamed_and_suffixes(etch, tmp_path):
    body = "(const char *s, int *n) { while (*s) { if (*s++ == ':') ++*n; else *n += s[-1] * 3; } return *n * 7; }\n"
    a = compile_c("gcc", text(tmp_path, "a.c", f"int parse{body}"), tmp_path / "a.o", "-O2")
    b = compile_c("gcc", text(tmp_path, "b.c", f"int scan{body}"), tmp_path / "b.o", "-O2")
    c = tmp_path / "c.o"
    run(["objcopy", "--redefine-sym", "parse=parse.constprop.0", a, c])
    d = one(etch, a, b)
    assert d["functions"]["renamed"] == 1 and d["differs"] and listed(d, "renamed")["scan"]["old"]["name"] == "parse"
    assert diff(etch, a, c, ok=0).stdout == ""


SWITCH = """
	.text
	.globl f
	.type f, @function
f:	lea table(%rip), %rdx
	movslq (%rdx,%rdi,4), %rax
	add %rdx, %rax
	jmp *%rax
1:	mov $1, %eax
	ret
2:	mov $2, %eax
	ret
	.size f, . - f
	.section .rodata
	.balign 4
table:	.long FIRST - table, SECOND - table
"""


def test_the_entries_of_a_jump_table(etch, tmp_path):
    paths = []
    for name, first, second in (("a", "1b", "2b"), ("b", "2b", "1b"), ("c", "1b", "2b")):
        path = text(tmp_path, f"{name}.s", SWITCH.replace("FIRST", first).replace("SECOND", second))
        paths.append(tmp_path / f"{name}.o")
        run(["as", "-o", paths[-1], path])
        run(["gcc", "-shared", "-o", tmp_path / name, paths[-1]])
    for a, b, c in (paths, [tmp_path / n for n in "abc"]):
        d = one(etch, a, b)
        assert code_changed(d) == {"f"} and "jump-table" in diff(etch, "-U", "f", a, b, ok=1).stdout
        assert not code_changed(one(etch, a, c))


GLOBALS = """
static int a = 1, b = 2;
__attribute__((noinline, used)) static int get_a(int x) { return a + x * 3; }
__attribute__((noinline, used)) static int set_a(int x) { return a = x * 5; }
__attribute__((noinline, used)) static int get_b(int x) { return b + x * 7; }
__attribute__((noinline, used)) static int set_b(int x) { return b = x * 9; }
__attribute__((noinline, used)) static int odd(int x) { return WHICH + x * 11; }
int main(int c, char **v) { (void)v; return get_a(c) + set_a(c) + get_b(c) + set_b(c) + odd(c); }
"""


@pytest.mark.parametrize("strip", [False, True])
def test_another_variable(etch, tmp_path, strip):
    source = text(tmp_path, "g.c", GLOBALS)
    paths = []
    for which in "ab":
        paths.append(tmp_path / which)
        run(["gcc", "-O1", f"-DWHICH={which}", "-o", paths[-1], source, *(["-s"] if strip else [])])
    d = one(etch, *paths)
    assert d["functions"]["changed"] == 1
    changed, = d["functions"]["list"]
    assert changed["new"]["name"] == (None if strip else "odd") and changed["instructions_new"] == 1


# ---- sites and findings --------------------------------------------------------------------

SITES = """
#include <etch/imv.h>
ETCHED struct { int a, b; long c; } cfg;
int first(void) { return cfg.a; }
int second(int x) { SECOND }
"""


def test_sites_gained_and_lost(etch, tmp_path):
    a = compile_c("gcc", text(tmp_path, "a.c", SITES.replace("SECOND", "return cfg.b + x;")), tmp_path / "a.o", "-O2")
    b = compile_c("gcc", text(tmp_path, "b.c", SITES.replace("SECOND", "return (int)(cfg.b * 1.5) + (cfg.c ? x : 1);")),
                  tmp_path / "b.o", "-O2")
    d = one(etch, a, b)
    found = {(s["change"], s["kind"], s["object"], s["offset"]) for s in d["sites"]}
    assert found == {("changed", "load", "cfg", 4), ("gained", "load", "cfg", 8)}
    lost, = [s for s in d["sites"] if s["change"] == "changed"]
    assert lost["old"]["live"] and not lost["new"]["live"] and lost["new"]["why_not"].startswith("conversion")
    said = diff(etch, a, b, ok=1).stdout
    assert "sites: 1 gained, 0 lost, 1 changed\n" in said and ": was live, is conversion" in said
    assert {s["change"] for s in one(etch, b, a)["sites"]} == {"changed", "lost"}


MEET = """
	.text
	.globl two
	.type two, @function
two:	.cfi_startproc
	test %edi, %edi
	je 1f
	push %rbx
1:	ret
	.cfi_endproc
	.size two, . - two
"""


def test_findings_new_and_gone(etch, tmp_path):
    a, b = tmp_path / "a.o", tmp_path / "b.o"
    run(["as", "-o", a, text(tmp_path, "a.s", MEET.replace("push %rbx", "nop"))])
    run(["as", "-o", b, text(tmp_path, "b.s", MEET)])
    d = one(etch, a, b)
    told = [json.loads(run([etch, "check", "--format", "json", "--level", "warning", p], ok=(0, 1)).stdout) for p in (a, b)]
    told = [{f["id"] for f in t["files"][0]["findings"]} for t in told]
    assert {f["id"] for f in d["findings"]} == told[1] - told[0] and not told[0] - told[1]
    assert "ETCH-S001" in {f["id"] for f in d["findings"]} and {f["change"] for f in d["findings"]} == {"new"}
    assert {f["change"] for f in one(etch, b, a)["findings"]} == {"gone"}
    assert "findings: 0 new, " in diff(etch, b, a, ok=1).stdout


# ---- formats, command line -----------------------------------------------------------------

def test_show_is_the_script_that_is_counted(etch, prepared):
    old, new = prepared
    changed = listed(one(etch, old, new), "changed")
    assert len(changed) > 5
    for name, c in list(changed.items())[:6]:
        out = diff(etch, "--show", name, old, new, ok=1).stdout.splitlines()
        assert out[0] == f"--- {old}\t{c['old']['name']}" and out[1] == f"+++ {new}\t{name}"
        body = [x for x in out[2:] if not x.startswith("#")]
        assert sum(x[0] == "-" for x in body) == c["instructions_gone"]
        assert sum(x[0] == "+" for x in body) == c["instructions_new"]
        # Each hunk has the lines that its head says.
        for m in re.finditer(r"@@ -\d+,(\d+) \+\d+,(\d+) @@\n((?:[ +-].*\n)*)", "\n".join(body) + "\n"):
            lines = m.group(3).splitlines()
            assert sum(x[0] != "+" for x in lines) == int(m.group(1))
            assert sum(x[0] != "-" for x in lines) == int(m.group(2))
    assert "no function 'nobody'" in diff(etch, "--show", "nobody", old, new, ok=2).stderr


def test_archives_and_directories(etch, tmp_path):
    objects = {n: compile_c("gcc", text(tmp_path, f"{n}.c", f"int {n}(int x) {{ return x * {i} + 1; }}\n"),
                            tmp_path / f"{n}.o", "-O2") for i, n in enumerate(("a", "b", "c"), 3)}
    new = tmp_path / "new"
    new.mkdir()
    for n, i in (("a", 3), ("b", 99), ("d", 1)):
        compile_c("gcc", text(tmp_path, "x.c", f"int {n}(int x) {{ return x * {i} + 1; }}\n"), new / f"{n}.o", "-O2")
    old = tmp_path / "old dir"
    old.mkdir()
    for path in objects.values():
        shutil.copy(path, old)
    run(["ar", "rc", tmp_path / "old.a", *objects.values()])
    run(["ar", "rc", tmp_path / "new.a", *(new / f"{n}.o" for n in "dba")])
    for x, y in ((tmp_path / "old.a", tmp_path / "new.a"), (old, new)):
        d = diff_json(etch, x, y, ok=1)
        assert d["summary"] == {"same": 1, "differ": 1, "only_in_old": 1, "only_in_new": 1, "unusable": 0}
        assert [(f["name"], f["differs"], f.get("only_in")) for f in d["files"]] == [
            ("a.o", False, None), ("b.o", True, None), ("c.o", True, "old"), ("d.o", True, "new")]
        out = diff(etch, x, y, ok=1).stdout
        assert out.endswith("1 file the same, 1 differ, 1 only in OLD, 1 only in NEW\n") and "b.o" in out


def test_exit_status_and_streams(etch, tmp_path):
    a = compile_c("gcc", text(tmp_path, "a.c", EXTRA), tmp_path / "a.o")
    archive = tmp_path / "a.a"
    run(["ar", "rc", archive, a])
    empty = tmp_path / "empty"
    empty.write_bytes(b"")
    for args, said in (([a, tmp_path / "none"], "none: No such file"), ([empty, a], "empty: is empty"),
                       ([a, "/bin/true"], "/bin/true: is linked, but "), (["/bin/true", a], "a.o: is an object file, but "),
                       ([a, archive], "a.a: is an archive or directory, but "), ([a], "diff needs OLD and NEW"),
                       (["--format", "xml", a, a], "--format must be text or json"), (["--top", "x", a, a], "--top must be a number"),
                       (["--bogus", a, a], "see etch diff --help")):
        p = diff(etch, *args, ok=2)
        assert said in p.stderr and p.stdout == "", args
    assert len(diff(etch, a, tmp_path / "none", ok=2).stderr.splitlines()) == 1
    d = json.loads(diff(etch, "--format", "json", empty, a, ok=2).stdout)
    jsonschema.Draft202012Validator(SCHEMA).validate(d)
    assert d["exit"] == 2 and d["summary"]["unusable"] == 1 and not d["files"]


def test_odd_names(etch, tmp_path):
    """A symbol with a terminal's escape and a newline, bytes that are no UTF-8; a path with both."""
    a = compile_c("gcc", text(tmp_path, "a.c", EXTRA.replace("the_extra", "abcdefghijk")), tmp_path / "a.o", "-O2")
    b = tmp_path / "b\x1b[31m\n'.o"
    b.write_bytes(a.read_bytes().replace(b"abcdefghijk", b"x\x1b[2J\n\xff\xfe\"'y"))
    p = subprocess.run([etch, "diff", a, b], capture_output=True, timeout=60)
    assert p.returncode == 1 and b"\x1b" not in p.stdout + p.stderr and b"1 added" in p.stdout
    p = subprocess.run([etch, "diff", "--format", "json", a, b], capture_output=True, timeout=60)
    d = json.loads(p.stdout.decode())
    jsonschema.Draft202012Validator(SCHEMA).validate(d)
    assert [c["new"]["name"] for c in d["files"][0]["functions"]["list"] if c["new"]] == ["x\x1b[2J\n��\"'y"]


def test_the_guide(etch):
    """What docs/diff.md tells a reader to type."""
    commands = [t for info, t in blocks(ROOT / "docs" / "diff.md") if info == "run"]
    assert len(commands) == 1
    out = run(["sh", "-e"], input=commands[0].replace("$ETCH/build/etch", str(etch)), cwd=ROOT).stdout
    assert re.search(r"^~ .* \d+ -> \d+ .* copy$", out, re.M) and "exit status 1" in out and out.endswith("\nthe same\n")
    assert re.search(r"^-\S* +subq? .*rsp$", out, re.M) or re.search(r"^- +subq \$", out, re.M)


def test_schema(etch, tmp_path):
    jsonschema.Draft202012Validator.check_schema(SCHEMA)
    a = compile_c("gcc", text(tmp_path, "a.c", ONE), tmp_path / "a.o", "-DSIZE=64")
    b = compile_c("gcc", tmp_path / "a.c", tmp_path / "b.o", "-DSIZE=99", "-O2")
    d = diff_json(etch, a, b)
    for spoil in (lambda d: d.pop("summary"), lambda d: d.update(version=2), lambda d: d["files"][0].pop("sites"),
                  lambda d: d["files"][0]["functions"]["list"][0].update(old=None),
                  lambda d: d["files"][0]["functions"]["list"][0].update(surprise=1),
                  lambda d: d["files"][0]["sizes"][0].update(old=-1)):
        other = json.loads(json.dumps(d))
        spoil(other)
        with pytest.raises(jsonschema.ValidationError):
            jsonschema.Draft202012Validator(SCHEMA).validate(other)


@pytest.mark.parametrize("how", ["object", "linked", "stripped"])
def test_hostile_files(etch_asan, tmp_path, how):
    source = text(tmp_path, "g.c", GLOBALS.replace("WHICH", "a"))
    path = tmp_path / "file"
    run(["gcc", "-O1", "-g", *(["-c"] if how == "object" else ["-s"] if how == "stripped" else []), "-o", path, source])
    data = path.read_bytes()
    mutator = Mutator(data, 20 + len(how))
    for side in ("a", "b"):
        (tmp_path / side).mkdir()
    for i in range(25):
        (tmp_path / "a" / f"{i:02}").write_bytes(mutator.make()[1])
        (tmp_path / "b" / f"{i:02}").write_bytes(data)
    for old, new in (("a", "b"), ("b", "a")):
        p = run([etch_asan, "diff", tmp_path / old, tmp_path / new], ok=(0, 1, 2), env=asan_env(), errors="replace")
        last = p.stdout.splitlines()[-1]
        assert re.match(r"\d+ files the same, \d+ differ,", last)
        assert ("others could not be used" in last) == (p.returncode == 2) == bool(p.stderr)
