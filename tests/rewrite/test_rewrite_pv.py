# SPDX-License-Identifier: MIT
"""etch rewrite and calls through ops objects, from the sites to the bytes of a file: which table
goes where, what stands at each site of a linked file for which target, that both ways of a
program lead to the same, and that twice is once. What etch inspect shows of them is for
test_rewrite_pv_tables.py, whether programs go on to run right for test_pv_generated.py and
test_pv_stress.py; here they run once."""

import io
import os
import re
import shutil
import struct

import pytest
from elftools.elf.elffile import ELFFile
from elftools.elf.relocation import RelocationSection
from test_inspect_orc import rows

from conftest import Flow, call_options, run
from pv_files import PARAMS, SOURCES, STATES, TARGETS, Table, disassembly, output, place, sites
from pv_files import built  # noqa: F401 (fixtures)

SHF_LINK_ORDER, SHF_GROUP = 0x80, 0x200


# ---- objects --------------------------------------------------------------------------

@pytest.mark.parametrize("kind,cc", [p for p in PARAMS if p[0] in ("pie", "nopie", "O0", "library")])
def test_object_tables(built, kind, cc):
    """One section of code, one table: in its order and its group, two relocations an
    entry, none for the linker to leave to the dynamic one; no byte of code changed."""
    b = built(kind, cc)
    found = sites(b.flow, b.object)
    taken = [s for s in found if s["form"] != "-"]
    assert len(taken) >= 30 and len(found) - len(taken) == 2
    with open(b.object, "rb") as f, open(b.plain_object, "rb") as g:
        elf, plain = ELFFile(f), ELFFile(g)
        tables = [(i, s) for i, s in enumerate(elf.iter_sections()) if s.name == "__pv_sites"]
        about = [s["sh_link"] for _, s in tables]
        assert len(set(about)) == len(about) == len({s["function"].split("+")[0] for s in taken if "asm" in s["function"]}) + 1
        entries = 0
        for i, s in tables:
            assert s["sh_flags"] & SHF_LINK_ORDER and s["sh_addralign"] == 4 and s["sh_size"] % 12 == 0
            code = elf.get_section(s["sh_link"])
            assert code["sh_flags"] & 4
            relocs = [r for t in elf.iter_sections() if isinstance(t, RelocationSection) and t["sh_info"] == i
                      for r in t.iter_relocations()]
            assert sorted(r["r_offset"] for r in relocs) == [12 * (k // 2) + 4 * (k % 2) for k in range(s["sh_size"] // 6)]
            for r in relocs:
                assert r["r_info_type"] == 2  # R_X86_64_PC32
                to = elf.get_section_by_name(".symtab").get_symbol(r["r_info_sym"])["st_shndx"]
                if r["r_offset"] % 12 == 0:
                    assert to == s["sh_link"] and r["r_addend"] < code["sh_size"]
                else:
                    assert elf.get_section(to).name == "etched" and r["r_addend"] % 8 == 0
            entries += s["sh_size"] // 12
        assert entries == len(taken)
        for s, t in zip(plain.iter_sections(), elf.iter_sections()):
            if s["sh_flags"] & 4:
                assert s.data() == t.data(), s.name


def test_object_twice(built, cc):
    b = built("pie", cc)
    again = shutil.copy(b.object, b.flow.tmp / "again.o")
    b.flow.rewrite(again)
    assert again.read_bytes() == b.object.read_bytes()


def natives(path):
    """[(length, flags, zero)] of an object's or a program's records."""
    found = [s for s in names(path, "__pv_native")]
    return [struct.unpack("<8xBBH", s.data()[i:i + 12]) for s in found for i in range(0, s["sh_size"], 12)]


@pytest.mark.parametrize("stage", ["plain_object", "object", "unprocessed", "linked", "done", "alone"])
def test_native_flags(built, stage):
    """CHECKED (1) and ONE (2) are found by either step; what the source says is not
    believed, nor is what another tool wrote."""
    b = built("pie", "gcc")
    seen = natives(getattr(b, stage))
    one, two = (0, 0) if stage in ("plain_object", "unprocessed") else (3, 1)
    want = [(0, one, 0), (2, one, 0), (3, one, 0), (3, one, 0), (4, two, 0), (9, 0, 0)]
    assert sorted(seen) == want
    if stage in ("done", "alone"):
        return  # what is baked there would not agree with other flags
    forged = bytearray(getattr(b, stage).read_bytes())
    for s in names(getattr(b, stage), "__pv_native"):
        for i in range(0, s["sh_size"], 12):
            forged[s["sh_offset"] + i + 9] = 3
    path = b.flow.tmp / f"forged-{stage}"
    path.write_bytes(forged)
    p = b.flow.rewrite(path)
    assert p.stderr.count("ETCH-P001: native_saved: ") == 1 and "native_pair" not in p.stderr
    assert sorted(natives(path)) == [(0, 3, 0), (2, 3, 0), (3, 3, 0), (3, 3, 0), (4, 1, 0), (9, 0, 0)]


def test_native_refused(built):
    b = built("pie", "gcc")
    path = shutil.copy(b.plain_object, b.flow.tmp / "werror.o")
    p = b.flow.rewrite(path, args=["--werror"], ok=1)
    assert len(p.stderr.splitlines()) == 1 and "ETCH-P001: native_saved: " in p.stderr


# ---- linked files ---------------------------------------------------------------------

ASM_FORMS = {"rip": "rip", "base0": "base", "base8": "base", "base_rex": "base", "sib": "base", "wide": "base",
             "reg": "reg", "reg_rex": "reg", "reg_copy": "reg", "abs": "abs"}


def expected(b, site):
    """The states that are right for a site; short ones that are never more than a
    register's are left as they are."""
    function = site["function"].split("+")[0]
    want = STATES[function]
    if site["live"].startswith("no: "):
        return {"indirect"}
    if want == "direct" and site["length"] < 5:
        return {"indirect"}
    if b.library and function in ("use_open", "use_weak"):  # others may define them; with -Bsymbolic not
        return {"direct"} if b.kind == "library-symbolic" else {"indirect"}
    if function in ("use_pick", "use_length") and any(x in b.kind for x in ("nopie", "static", "lld")):
        return {"indirect", "direct"}  # by an entry of the PLT, if the linker made one
    if b.kind == "O0" and function in ("use_zero", "use_five"):
        return {"direct" if site["length"] >= 5 else "indirect"}  # they set a frame up
    return {"indirect"} if site["length"] < {"use_val": 3, "use_five": 5, "use_set": 3}.get(function, 2) else {want}


@pytest.mark.parametrize("kind,cc", PARAMS)
def test_baked(built, kind, cc):
    """Each site of a rewritten file: its state is the one its slot asks for, and its
    bytes, in a third decoder's eyes, are that."""
    b = built(kind, cc)
    found = sites(b.flow, b.done)
    before, after = disassembly(b.linked), disassembly(b.done)
    table = {e["site"]: e for e in Table(b.done).entries if e}
    objects = {o["object"]: o for o in b.flow.inspect("summary", b.done)["objects"]}
    assert objects["pv_table"]["armed"] == "yes", objects
    assert {s["function"].split("+")[0] for s in found} >= set(STATES) - {"asm_call_abs", "asm_jmp_abs"}
    assert sum(s["state"] != "indirect" for s in found) >= (13 if kind != "O0" else 4)
    for s in found:
        function, addr = s["function"].split("+")[0], int(s["address"], 16)
        (length, text), (was_length, was) = after[addr], before[addr]
        assert s["state"] in expected(b, s), s
        assert length == was_length == s["length"], s
        assert re.match(rf"(notrack )?{s['kind']}\s+\*", was), (s, was)
        if s["form"] == "-":
            assert function in ("asm_call_index", "asm_call_meets") and s["live"].startswith("no: ") and addr not in table
            continue
        entry = table.pop(addr)
        assert entry["baked"] == (s["state"] != "indirect") and not entry["got"]
        assert s["form"] == f"{entry['kind']}-{entry['mode']}" and entry["length"] == length
        short = function.split("_", 2)[-1]
        if function.startswith("asm") and short in ASM_FORMS:
            assert entry["mode"] == ASM_FORMS[short] and s["kind"] == function.split("_")[1]
            assert s["live"] in ("yes", "swap")
        target = TARGETS.get(function, "add")
        if s["target"] != "-":
            assert s["target"] == target or function in ("use_pick", "use_length"), s
        if s["state"] == "indirect":
            assert text == was, s
        elif s["state"] == "direct":
            assert re.match(rf"(addr32 |cs )*{s['kind']}\s", text), (s, text)
            assert f"<{target}>" in text or function in ("use_pick", "use_length"), (s, text)
        elif s["state"] == "nop":
            assert re.match(r"(cs |data16 )*nop|xchg\s+%ax,%ax", text), (s, text)
        elif s["state"] == "mov":
            assert re.match(r"(cs )*mov\s+%[er]di,%[er]ax$", text), (s, text)
        else:
            want = {"use_zero": r"xor\s+%eax,%eax|mov\s+\$0x0,%eax", "use_five": r"mov\s+\$0x5,%eax", "use_set": r"mov\s+%rsi,\(%rdi\)"}
            assert re.match(f"(cs )*({want[function]})", text), (s, text)
    assert not table
    # Nothing but sites has changed in the code.
    changed = {a for a in before if before[a] != after.get(a)}
    assert changed <= {int(s["address"], 16) for s in b.flow.inspect("sites", b.done)["sites"]}


@pytest.mark.parametrize("kind,cc", PARAMS)
def test_runs(built, kind, cc):
    b = built(kind, cc)
    for path in (b.unprocessed, b.linked, b.done, b.alone):
        assert b.run(path) == output(kind), path


@pytest.mark.parametrize("kind,cc", PARAMS)
def test_both_ways(built, kind, cc):
    """Objects that etch has never seen: the link step finds the same sites."""
    b = built(kind, cc)
    copy = b.flow.tmp / "both-ways"
    shutil.copy(b.unprocessed, copy)
    said = b.flow.rewrite(copy).stderr
    if "ETCH-I004" in said and "must not move" in said:
        # Code is searched for references to what would make space without the decoder
        # (architecture.md): bytes that look like one are enough, and come and go with libetch.a.
        assert {s["live"] for s in sites(b.flow, b.alone) if s["kind"] in ("call", "jmp")} > {"yes", "swap"}
        pytest.skip("no space for a program header that bytes in the code do not seem to refer to")
    assert list(map(place, sites(b.flow, b.alone))) == list(map(place, sites(b.flow, b.done)))
    assert Table(b.alone).moved and Table(b.alone).linked
    entries = [e for e in Table(b.alone).entries if e]
    assert len(entries) == sum(s["form"] != "-" for s in sites(b.flow, b.alone))
    # Before the link step there is nothing in the code, but the object step's table.
    for path, count in ((b.unprocessed, 0), (b.linked, len(entries))):
        assert len(Table(path).entries) == count
        assert {s["state"] for s in sites(b.flow, path)} == {"indirect"}


@pytest.mark.parametrize("kind,cc", PARAMS)
def test_format(built, kind, cc):
    """Sorted as docs/formats.md says; every reference inside the file; the instruction
    that the linker wrote is the one that the entry describes."""
    b = built(kind, cc)
    for path, plain in ((b.done, b.linked), (b.alone, b.unprocessed)):
        t, code = Table(path), disassembly(plain)
        assert t.linked
        entries = [e for e in t.entries if e]
        assert t.entries[:len(entries)] == entries
        keys = [(e["got"], e["slot"], e["site"]) for e in entries]
        assert keys == sorted(set(keys))
        lo, size = t.sections["etched"]
        assert all(lo <= e["slot"] < lo + size and e["slot"] % 8 == 0 for e in entries)
        for e in entries:
            length, text = code[e["site"]]
            assert length == e["length"] and text.removeprefix("notrack ").split()[0] == e["kind"]
            operand = text.split("*", 1)[1]
            if e["mode"] == "rip":
                assert int(re.search(r"# ([0-9a-f]+)", text)[1], 16) == e["slot"]
            elif e["mode"] == "abs":
                assert int(operand.split()[0], 16) == e["slot"]
            elif e["mode"] == "base":
                assert int(re.match(r"(0x[0-9a-f]+)?\(", operand)[1] or "0", 16) == e["disp"]
            else:
                assert re.match(r"%r\w+$", operand)


@pytest.mark.parametrize("kind,cc", PARAMS)
def test_twice(built, kind, cc):
    b = built(kind, cc)
    for path in (b.done, b.alone):
        again = shutil.copy(path, b.flow.tmp / "again")
        assert "(unchanged)" in b.flow.rewrite(again, args=["-v"]).stdout
        assert again.read_bytes() == path.read_bytes()
        other = b.flow.tmp / "other"
        b.flow.rewrite(b.linked if path == b.done else b.unprocessed, args=["-o", other, "-j", "3"])
        assert other.read_bytes() == path.read_bytes()


@pytest.mark.parametrize("kind,cc", [p for p in PARAMS if p[0] in ("pie", "nopie", "library")])
def test_rows_do_not_depend(built, kind, cc):
    """Rows are made from the unbaked bytes: a baked direct call to a function that does
    not return changes none of them."""
    b = built(kind, cc)
    stop = [s for s in sites(b.flow, b.done) if s["function"].startswith("use_stop+")]
    assert [s["state"] for s in stop] == ["direct"]
    plain = shutil.copy(b.linked, b.flow.tmp / "orc-only")
    b.flow.rewrite(plain, args=["--only", "orc"])
    assert {s["state"] for s in sites(b.flow, plain)} == {"indirect"}
    assert rows(b.flow.etch, plain) == rows(b.flow.etch, b.done)
    assert rows(b.flow.etch, plain, "--no-cfi") == rows(b.flow.etch, b.done, "--no-cfi")
    # ... nor does making them again touch the sites.
    again = shutil.copy(b.done, b.flow.tmp / "orc-again")
    b.flow.rewrite(again, args=["--only", "orc", "--encoding", "orc"])
    assert list(map(place, sites(b.flow, again))) == list(map(place, sites(b.flow, b.done)))


@pytest.mark.parametrize("kind", ["pie", "nopie"])
def test_only(built, kind):
    """pv and imv by themselves, in either order, come to what both at once come to."""
    b = built(kind, "gcc")
    loads = b.flow.inspect("summary", b.done)["immediates"]
    for first, second in (("pv", "imv"), ("imv", "pv")):
        for start in (b.linked, b.unprocessed):
            path = shutil.copy(start, b.flow.tmp / f"only-{first}")
            b.flow.rewrite(path, args=["--only", first])
            s = b.flow.inspect("summary", path)
            assert (s["immediates"] > 0) == (first == "imv" and loads > 0)
            assert (s["call_states"]["direct"] > 0) == (first == "pv")
            assert s["unwind"] is None
            assert b.run(path) == output(kind)
            b.flow.rewrite(path, args=["--only", second])
            assert list(map(place, sites(b.flow, path))) == list(map(place, sites(b.flow, b.done)))
            assert b.flow.inspect("summary", path)["immediates"] == loads
            assert b.run(path) == output(kind)
            before = path.read_bytes()
            for what in ("pv", "imv", "imv,pv"):
                assert "(unchanged)" in b.flow.rewrite(path, args=["-v", "--only", what]).stdout
            assert path.read_bytes() == before
    # Objects: the other table stays.
    path = shutil.copy(b.plain_object, b.flow.tmp / "only.o")
    b.flow.rewrite(path, args=["--only", "pv"])
    assert not names(path, "__imv") and names(path, "__pv_sites")
    b.flow.rewrite(path, args=["--only", "imv"])
    assert names(path, "__imv") and names(path, "__pv_sites")
    before = path.read_bytes()
    b.flow.rewrite(path, args=["--only", "imv,pv"])
    assert path.read_bytes() == before


def names(path, name):
    """Sections of that name that are not empty."""
    return [s for s in ELFFile(io.BytesIO(path.read_bytes())).iter_sections() if s.name == name and s["sh_size"]]


def test_what_is_said(built):
    """-v counts each class, and the classes add up to what inspect lists."""
    b = built("pie", "gcc")
    found = sites(b.flow, b.done)
    taken = [s for s in found if s["form"] != "-"]
    m = re.search(r"calls: (\d+) sites, (\d+) live, (\d+) by swap: (\d+) direct, (\d+) nop, (\d+) inlined, "
                  r"(\d+) indirect; (\d+) without a form", b.said.stdout)
    swap = sum(s["live"] == "swap" for s in taken)
    assert all(s["live"] in ("yes", "swap") for s in taken)
    count = {state: sum(s["state"] == state for s in taken) for state in ("direct", "nop", "mov", "body", "indirect")}
    assert list(map(int, m.groups())) == [
        len(taken), len(taken), swap, count["direct"], count["nop"], count["mov"] + count["body"],
        count["indirect"], len(found) - len(taken)]
    assert all(count.values())
    p = b.flow.rewrite(shutil.copy(b.plain_object, b.flow.tmp / "say.o"), args=["-v"])
    assert f"calls: {len(taken)} sites; 2 without a form" in p.stdout


# ---- targets ----------------------------------------------------------------------------

TARGETS_SOURCE = """
#include <etch/pv.h>
#include <stdlib.h>
struct ops { void *(*get)(size_t); void (*put)(void *); int (*here)(int); int (*odd)(int); int (*field)(int); };
#define HIDDEN __attribute__((visibility("hidden")))
static int here(int x) { return x * 5; }
extern struct ops %(name)s HIDDEN;
DEFINE_PV_OPS(struct ops, %(name)s) = { malloc, free, here, (int (*)(int))0x1234, here };
#define NOINLINE __attribute__((noinline))
NOINLINE int f(int x);
int f(int x) { return %(name)s.here(x) + 1; }
NOINLINE int g(int x);
int g(int x) { return %(name)s.odd(x) + 1; }
NOINLINE void *h(int x);
void *h(int x) { char *p = %(name)s.get(x); *p = 1; return p; }
%(more)s
int main(int argc, char **argv) { (void)argv; return argc > 7 ? g(1) : f(argc) + (h(9) == 0) - 6; }
"""


@pytest.mark.parametrize("name,more,armed", [
    ("plain", "", "yes"),
    ("stored", "void k(void); void k(void) { stored.field = 0; }", "no"),
    ("escapes", "void *k(void); void *k(void) { return &escapes; }", "no"),
    ("set", "int k(void); int k(void) { return pv_set(set.field, 0); }", "yes"),
])
@pytest.mark.parametrize("mode", ["pie", "no-pie"])
def test_targets(flow, name, more, armed, mode):
    """No code, or another module's: indirect; and so is all of an object that is not
    armed, by the same judgement as its loads."""
    obj = flow.compile(TARGETS_SOURCE % {"name": name, "more": more},
                       ["-O2", "-fPIE" if mode == "pie" else "-fno-pie", *call_options(flow.cc)])
    exe = flow.link([obj], [f"-{mode}"])
    flow.rewrite(exe)
    found = {s["function"].split("+")[0]: s for s in sites(flow, exe)}
    assert all(found[x]["live"] in ("yes", "swap") for x in "fgh")
    assert found["f"]["state"] == ("direct" if armed == "yes" else "indirect")
    assert found["g"]["state"] == "indirect" and found["g"]["target"] == "-"
    assert found["h"]["state"] == "indirect" and found["h"]["target"] == "malloc"
    assert flow.inspect("summary", exe)["objects"][0]["armed"] == armed
    run([exe])


def test_without_libetch(flow_gcc):
    """Nothing would keep the object from a stray store: the calls stay as they are."""
    obj = flow_gcc.compile(TARGETS_SOURCE % {"name": "ops", "more": ""}, ["-O2", "-fPIE", "-DETCH_NO_MODULE"])
    exe = flow_gcc.tmp / "t"
    run(["gcc", "-pie", "-o", exe, obj])
    for _ in range(2):
        flow_gcc.rewrite(exe)
        assert {s["state"] for s in sites(flow_gcc, exe)} == {"indirect"}
        run([exe])
        flow_gcc.rewrite(obj)
        run(["gcc", "-pie", "-o", exe, obj])


# ---- linkers, and what people do to files -------------------------------------------------

@pytest.mark.parametrize("ld", ["bfd", "lld"])
def test_comdat(tmp_path, build, cc, ld):
    """Templates and inline functions in two files: one copy of the code, one entry."""
    flow = Flow(tmp_path, build, cc)
    objects = [flow.compile(SOURCES / f"rewrite_cxx{i}.cc", ["-O2", "-fPIE", *call_options(cc)]) for i in (1, 2)]
    flow.rewrite(*objects)
    for o in objects:
        assert any(s["sh_flags"] & SHF_GROUP for s in names(o, "__pv_sites"))
    exe = flow.link(objects, ["-pie", f"-fuse-ld={ld}"], cxx=True)
    t = Table(exe)
    addresses = [e["site"] for e in t.entries if e]
    flow.rewrite(exe)
    found = sites(flow, exe)
    assert len({s["address"] for s in found}) == len(found) == 5  # area, drawn of two; edge
    assert {int(s["address"], 16) for s in found} == {e["site"] for e in Table(exe).entries if e} <= set(addresses)
    state = {(s["offset"], s["live"].replace("swap", "yes")): s["state"] for s in found}
    assert state.get((0, "yes"), "direct") == "direct" and state.get((16, "yes"), "nop") == "nop"
    assert state.get((8, "yes"), "mov") == "mov"
    assert run([exe]).stdout == "10 17 6 44 1\n"


@pytest.mark.parametrize("ld", ["bfd", "lld"])
@pytest.mark.parametrize("extra", [[], ["-Wl,-z,start-stop-gc"]], ids=["", "start-stop"])
def test_gc_sections(tmp_path, build, cc, ld, extra):
    flow = Flow(tmp_path, build, cc)
    obj = flow.compile(TARGETS_SOURCE % {"name": "ops", "more": "int dead(int x); int dead(int x) { return ops.here(x) + 9; }"},
                       ["-O2", "-fPIE", "-ffunction-sections", "-fdata-sections", *call_options(cc)])
    flow.rewrite(obj)
    assert any(s["function"].startswith("dead+") for s in sites(flow, obj))
    exe = flow.link([obj], ["-pie", f"-fuse-ld={ld}", "-Wl,--gc-sections", *extra])
    # Without -z start-stop-gc, GNU ld takes __start___pv_sites for a use of every table.
    kept = {"f", "g", "h"} | ({"dead"} if ld == "bfd" and not extra else set())
    assert len([e for e in Table(exe).entries if e]) == len(kept)
    flow.rewrite(exe)
    assert {s["function"].split("+")[0] for s in sites(flow, exe)} == kept
    run([exe])


@pytest.mark.parametrize("first", [True, False], ids=["rewritten", "plain"])
def test_relocatable(tmp_path, build, cc, first):
    """ld -r of rewritten objects, and the object step on what ld -r made."""
    flow = Flow(tmp_path, build, cc)
    a = flow.compile(SOURCES / "rewrite_main.c", ["-O2", "-fPIE", *call_options(cc)])
    b = flow.compile(TARGETS_SOURCE.replace("int main(", "int other(int, char **); int other(") %
                     {"name": "more", "more": ""}, ["-O2", "-fPIE", *call_options(cc)], "b.o")
    if first:
        flow.rewrite(a, b)
    both = tmp_path / "both.o"
    run(["ld", "-r", "-o", both, a, b])
    if first:
        before = sites(flow, both)
    flow.rewrite(both)
    if first:
        assert list(map(place, sites(flow, both))) == list(map(place, before))
    exe = flow.link([both], ["-pie"])
    flow.rewrite(exe)
    alone = flow.link([flow.compile(SOURCES / "rewrite_main.c", ["-O2", "-fPIE", *call_options(cc)], "c.o"),
                       flow.compile(tmp_path / "t.c", ["-O2", "-fPIE", *call_options(cc)], "d.o")], ["-pie"], "alone")
    flow.rewrite(alone)
    assert sorted(map(place, sites(flow, exe))) == sorted(map(place, sites(flow, alone)))
    assert run([exe]).stdout == output("pie")


@pytest.mark.parametrize("kind", ["pie", "nopie", "library"])
@pytest.mark.parametrize("when", ["before", "after"])
@pytest.mark.parametrize("tool", ["strip", "llvm-strip", "objcopy"])
def test_strip(built, kind, when, tool):
    b = built(kind, "gcc")
    path = shutil.copy(b.linked if when == "before" else b.done, b.flow.tmp / f"stripped-{tool}-{when}")
    run([tool, path] if tool != "objcopy" else [tool, "--strip-debug", path])
    if when == "before":
        b.flow.rewrite(path)
    else:
        again = shutil.copy(path, b.flow.tmp / "stripped-again")
        b.flow.rewrite(again)
        assert [s["state"] for s in sites(b.flow, again)] == [s["state"] for s in sites(b.flow, path)]
    states = [s["state"] for s in sites(b.flow, path)]
    assert states == [s["state"] for s in sites(b.flow, b.done)]
    assert b.run(path) == output(kind)


HOME = """
#include <etch/pv.h>
struct ops { int (*add)(int, int), (*sub)(int, int); };
static int add(int a, int b) { return a + b; }
static int sub(int a, int b) { return a - b; }
DEFINE_PV_OPS(struct ops, shared_ops) = { add, sub };
int swap(void);
int swap(void) { return pv_set(shared_ops.add, sub); }
"""
USER = """
#include <etch/pv.h>
struct ops { int (*add)(int, int), (*sub)(int, int); };
DECLARE_PV_OPS(struct ops, shared_ops);
int f(int x);
int f(int x) { return shared_ops.add(x, 10) + 1; }
int g(int x);
int g(int x) { return shared_ops.sub(x, 10) + 1; }
"""
MAIN = """
#include <stdio.h>
int f(int), g(int), swap(void);
int main(void) { return printf("%d %d ", f(1), g(1)) < 0 || swap() || printf("%d %d\\n", f(1), g(1)) < 0; }
"""


def test_other_modules_object(flow):
    """Calls through a GOT slot go through both steps, and are never baked."""
    home = flow.compile(flow.source(HOME, "home.c"), ["-O2", "-fPIC"])
    user = flow.compile(flow.source(USER, "user.c"), ["-O2", "-fPIC"])
    flow.rewrite(home, user)
    libs = [flow.tmp / "libhome.so", flow.tmp / "libuser.so"]
    run([flow.cc, "-shared", "-o", libs[0], home, f"-L{flow.build}", "-letch"])
    run([flow.cc, "-shared", "-o", libs[1], user, libs[0], f"-L{flow.build}", "-letch"])
    exe = flow.tmp / "t"
    run([flow.cc, "-o", exe, flow.source(MAIN, "main.c"), *libs[::-1], f"-Wl,-rpath,{flow.tmp}:{flow.build}",
         f"-Wl,-rpath-link,{flow.tmp}:{flow.build}"])
    before = run([exe], env=dict(os.environ, LD_LIBRARY_PATH=f"{flow.tmp}:{flow.build}")).stdout
    flow.rewrite(*libs)
    once = libs[1].read_bytes()
    flow.rewrite(*libs)
    assert libs[1].read_bytes() == once
    found = sites(flow, libs[1])
    assert [(s["object"], s["offset"], s["form"], s["state"]) for s in found] == [
        ("shared_ops", 0, "call-base", "indirect"), ("shared_ops", 8, "call-base", "indirect")]
    entries = Table(libs[1]).entries
    assert [(e["got"], e["baked"], e["disp"]) for e in entries] == [(2, 0, 0), (2, 0, 8)]
    with open(libs[1], "rb") as f:
        elf = ELFFile(f)
        slots = {r["r_offset"] for s in elf.iter_sections() if s.name == ".rela.dyn" for r in s.iter_relocations()
                 if elf.get_section(s["sh_link"]).get_symbol(r["r_info_sym"]).name == "shared_ops"}
    assert {e["slot"] for e in entries} == slots
    assert before == run([exe], env=dict(os.environ, LD_LIBRARY_PATH=f"{flow.tmp}:{flow.build}")).stdout == "12 -8 -8 -8\n"
