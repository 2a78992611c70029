# SPDX-License-Identifier: MIT
"""`etch rewrite --sframe` of objects: an old compiler and assembler build SFrame programs with a linker that knows it. What
the linker made of it is held against what the new assembler wrote for the same source."""

import json
import random
import shutil

import pytest
from elftools.elf.elffile import ELFFile
from sframe_reader import SFrame, tsv_rows

from conftest import run

# Templates in both (COMDAT), functions that nothing calls (--gc-sections), cold parts, alloca (CFA by rbp), exceptions.
ONE = """extern "C" int printf(const char *, ...);
template <class T> __attribute__((noinline)) T twice(T x) { if (x > 100) throw 5; return x * 2; }
int other(int), stacked(int);
int main(int c, char **)
{
	printf("%d %d %d\\n", twice(c), other(c), stacked(c));
	try { twice(c + 200); } catch (int e) { printf("%d\\n", e); }
}
"""
TWO = """template <class T> __attribute__((noinline)) T twice(T x) { if (x > 100) throw 5; return x * 2; }
int unused(int x) { return twice(x) + 2; }
int other(int x) { return twice(x) + 1; }
int stacked(int n) { char *p = (char *)__builtin_alloca(n + 1); p[n] = n; __asm__("" : : "r"(p) : "memory"); return p[n]; }
"""


def compile_both(top, *flags):
    """Objects of the two sources."""
    out = []
    for name, text in (("one", ONE), ("two", TWO)):
        (top / f"{name}.cc").write_text(text)
        out.append(top / f"{name}.o")
        run(["g++", "-O2", "-ffunction-sections", *flags, "-c", "-o", out[-1], top / f"{name}.cc"])
    return out


def by_function(path, rows):
    """{function: its rows by offset}: addresses of two links differ."""
    with open(path, "rb") as f:
        symbols = [(s["st_value"], s["st_size"], s.name) for s in ELFFile(f).get_section_by_name(".symtab").iter_symbols()
                   if s["st_info"]["type"] == "STT_FUNC" and s["st_size"]]
    return {name: [(max(a, at) - at, min(b, at + size) - at, rule) for a, b, rule in rows if a < at + size and b > at]
            for at, size, name in symbols if any(k in name for k in ("main", "twice", "other", "stacked", "unused"))}


@pytest.fixture(scope="module")
def linkers(binutils, binutils_trixie):
    return {2: binutils_trixie, 3: binutils}


@pytest.fixture(scope="module", params=[2, 3])
def objects(request, tmp_path_factory, linkers, build):
    """(version, tools, objects with .sframe by etch, the same by the new assembler)"""
    top, tools = tmp_path_factory.mktemp("objects"), linkers[request.param]
    (top / "gas").mkdir()
    theirs = compile_both(top / "gas", f"-B{tools}/", "-Wa,--gsframe")
    ours = compile_both(top)
    run([build / "etch", "rewrite", f"--sframe={request.param}", *ours])
    return request.param, tools, ours, theirs


def test_linked_it_is_what_the_assembler_s_links_to(objects, tmp_path, build):
    version, tools, ours, theirs = objects
    for name, o in (("ours", ours), ("theirs", theirs)):
        p = run(["g++", f"-B{tools}/", "-o", tmp_path / name, *o])
        assert not p.stderr
        assert run([tmp_path / name]).stdout == "2 3 1\n5\n"
    one, two = SFrame(tmp_path / "ours"), SFrame(tmp_path / "theirs")
    assert one.version == two.version == version
    mine, want = (by_function(tmp_path / n, s.rows()) for n, s in (("ours", one), ("theirs", two)))
    assert mine == want and len(want) == 6 and all(want.values())
    assert tsv_rows(run([build / "etch", "inspect", "sframe", "--format", "tsv", tmp_path / "ours"]).stdout) == one.rows()
    found = json.loads(run([build / "etch", "check", "--format", "json", "--fail-on", "never", tmp_path / "ours"]).stdout)
    for x in found["files"][0]["findings"]:  # GNU ld writes rsp+16 for .plt.got, whose entries push nothing
        assert x["id"] == "ETCH-C007" and x["place"]["section"] == ".plt.got", x


def test_rows_of_the_objects(objects, build):
    """Those of both are read, and are equal."""
    read = [[run([build / "etch", "inspect", "sframe", "--format", "tsv", o]).stdout for o in group] for group in objects[2:]]
    assert all(len(t.splitlines()) > 8 for t in read[0])
    for mine, want in zip(*read, strict=True):
        assert sorted(tuple(line.split("\t")[1:6]) for line in mine.splitlines()) == \
            sorted(tuple(line.split("\t")[1:6]) for line in want.splitlines())


def test_size_is_at_most_that_of_the_assembler(objects):
    def size(path):
        with open(path, "rb") as f:
            return next(s["sh_size"] for s in ELFFile(f).iter_sections() if s.name == ".sframe" and s["sh_size"])
    assert all(size(a) <= size(b) for a, b in zip(objects[2], objects[3], strict=True))


def test_twice_kept_undone_stripped(objects, tmp_path, build):
    version, _, ours, _ = objects
    etch, t = build / "etch", tmp_path / "one.o"
    shutil.copy(ours[0], t)
    was = t.read_bytes()
    for args in ([f"--sframe={version}"], []):
        run([etch, "rewrite", *args, t])
        assert t.read_bytes() == was
    def rows(path):
        """All columns except for the function's name, which strip removes."""
        return [line.rpartition("\t")[0] for line in run([etch, "inspect", "sframe", "--format", "tsv", path]).stdout.splitlines()]

    view = rows(t)
    for tool in (["strip", "-g", "-o", tmp_path / "s.o", t], ["objcopy", "--strip-unneeded", t, tmp_path / "s.o"], ["objcopy", t, tmp_path / "s.o"]):
        run(tool)
        assert rows(tmp_path / "s.o") == view
    run(["objcopy", "--remove-section", ".sframe", t, tmp_path / "s.o"])
    assert "has no .sframe" in run([etch, "inspect", "sframe", tmp_path / "s.o"], ok=2).stderr
    run([etch, "rewrite", f"--sframe={5 - version}", t])
    assert rows(t) == view
    run([etch, "rewrite", "--undo", t])
    plain = compile_both(tmp_path)[0]
    assert t.read_bytes() == plain.read_bytes()


def test_relocatable_link(linkers, tmp_path, build):
    """ld -r joins them, and what is linked from that is the same. Binutils 2.44 cannot read what its own ld -r makes."""
    ours = compile_both(tmp_path)
    run([build / "etch", "rewrite", "--sframe=3", *ours])
    run([linkers[3] / "ld", "-r", "-o", tmp_path / "r.o", *ours])
    run(["g++", f"-B{linkers[3]}/", "-o", tmp_path / "a", *ours])
    run(["g++", f"-B{linkers[3]}/", "-o", tmp_path / "b", tmp_path / "r.o"])
    a, b = (by_function(tmp_path / n, SFrame(tmp_path / n).rows()) for n in "ab")
    assert a == b and a["main"]


def test_discarded_sections_leave_no_rows(linkers, tmp_path, build):
    ours = compile_both(tmp_path)
    run([build / "etch", "rewrite", "--sframe=3", *ours])
    run(["g++", f"-B{linkers[3]}/", "-Wl,--gc-sections", "-o", tmp_path / "p", *ours])
    found = by_function(tmp_path / "p", SFrame(tmp_path / "p").rows())
    assert "_Z6unusedi" not in found and len(found) == 5 and all(found.values())


def test_a_wrong_row_is_found(tmp_path, build):
    """ETCH-C007 of an object, by the offset of its section."""
    obj = compile_both(tmp_path)[1]
    run([build / "etch", "rewrite", "--sframe", obj])
    with open(obj, "rb") as f:
        s = next(s for s in ELFFile(f).iter_sections() if s.name == ".sframe" and s["sh_size"])
        at, data = s["sh_offset"], s.data()
    fres = data.rindex(bytes([0, 0b11, 8])) + 2       # the last function's first row, CFA rsp+8
    raw = bytearray(obj.read_bytes())
    raw[at + fres] = 24
    obj.write_bytes(raw)
    assert "ETCH-C007" in run([build / "etch", "check", obj], ok=1).stdout


def test_hostile_objects(tmp_path, build_asan):
    """Damaged contents and relocations are read or refused in one line, and rewritten, under ASan and UBSan."""
    rng, obj = random.Random(9), compile_both(tmp_path)[0]
    for version in (2, 3):
        run([build_asan / "etch", "rewrite", f"--sframe={version}", obj])
        with open(obj, "rb") as f:
            places = [(s["sh_offset"], s["sh_size"]) for s in ELFFile(f).iter_sections() if s.name in (".sframe", ".rela.sframe") and s["sh_size"]]
        raw = obj.read_bytes()
        for _ in range(8):
            bad = bytearray(raw)
            for _ in range(rng.choice((1, 2, 8))):
                at, size = rng.choice(places)
                bad[at + rng.randrange(rng.choice((28, size)))] = rng.choice((0, 1, 0x7f, 0x80, 0xff, rng.randrange(256)))
            (tmp_path / "t.o").write_bytes(bad)
            for args in (["inspect", "sframe"], ["check", "--fail-on", "never"], ["rewrite", "--sframe"]):
                p = run([build_asan / "etch", *args, tmp_path / "t.o"], ok=None, timeout=20)
                assert p.returncode in (0, 2) and "Sanitizer" not in p.stderr and "runtime error" not in p.stderr, p.stderr
