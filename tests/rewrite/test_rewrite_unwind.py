# SPDX-License-Identifier: MIT
"""etch rewrite and unwind tables: what goes into which file by which options, that
programs run as before, that rewriting twice is rewriting once, and that the rows of
object files go through every linker. Whether the rows are right is for
test_unwind_static.py and test_unwind_dynamic.py."""
import io
import itertools
import json
import shutil
import struct
import subprocess

import pytest
from elftools.elf.elffile import ELFFile

from conftest import Flow, build_id, run
from every_option import every_option_tried
from test_inspect_orc import rows

SOURCE = """
#include <etch/imv.h>
#include <stdio.h>
ETCHED static struct { int width, height; } size = { 6, 7 };
int area(int n);
__attribute__((noinline)) int area(int n) { return size.width * size.height + n; }
__attribute__((noinline)) static int deep(int n) { volatile char b[300]; b[n] = (char)n; return b[n] + area(n); }
int never(int n);
int never(int n) { return printf("%d\\n", deep(n)); }
int main(void)
{
	printf("%d %d\\n", area(0), deep(1));
	return etch_set(&size.width, 7) || area(0) != 49;
}
"""
OUTPUT = "42 44\n"

CXX = """
#include <cstdio>
#include <stdexcept>
#include <string>
#include <vector>
template <class T> __attribute__((noinline)) T twice(T x) { if (x == T()) throw std::runtime_error("zero"); return x + x; }
int other();
#ifdef FIRST
int main()
{
	std::vector<std::string> v{"a", "b"};
	try {
		twice(std::string());
	} catch (const std::exception &e) {
		v.push_back(e.what());
	}
	std::printf("%s %d %d\\n", v.back().c_str(), twice(4), other());
}
#else
int other() { return twice(8) + (int)twice(std::string("x")).size(); }
#endif
"""


def sections(path):
    with open(path, "rb") as f:
        return [(s.name, s["sh_addr"], s["sh_size"], s["sh_flags"], s.data()) for s in ELFFile(f).iter_sections()
                if s["sh_type"] != "SHT_NOBITS"]


def named(path, name):
    return [s for s in sections(path) if s[0] == name]


def header(path):
    """Fields of struct etch_unwind (etch/orc.h) that matter here."""
    found = named(path, ".etch.unwind")
    if not found:
        return None
    assert len(found) == 1
    raw = found[0][4]
    magic, version, size, total, encoding, shift = struct.unpack_from("<IHHQBB", raw)
    assert (magic, version) == (0x77757465, 4 if shift else 1)
    return {"encoding": {1: "orc", 2: "block"}[encoding], "map": 1 << shift if shift else 0, "id": raw[size - 24:size - 4],
            "bytes": total}


def twice(flow, path, args=()):
    """Rewriting again changes nothing, and does not touch the file."""
    before = path.read_bytes(), path.stat().st_mtime_ns, path.stat().st_ino
    flow.rewrite(path, args=args)
    assert (path.read_bytes(), path.stat().st_mtime_ns, path.stat().st_ino) == before


# How the tables of sites lie in the file that the link step gets: in place (the object
# step made space), to be moved to the segment (it never ran).
LINKS = {
    "in place": (True, ["-fPIE"], ["-pie"]),
    "moved": (False, ["-fPIE"], ["-pie"]),
    "static": (True, ["-fno-pie"], ["-static"]),
    "nopie moved": (False, ["-fno-pie"], ["-no-pie"]),
    "static-pie moved": (False, ["-fPIE"], ["-static-pie"]),
}


@pytest.fixture(scope="module", params=LINKS)
def linked(request, tmp_path_factory, build):
    object_step, cflags, ldflags = LINKS[request.param]
    flow = Flow(tmp_path_factory.mktemp("linked"), build)
    obj = flow.compile(SOURCE, ["-O2", *cflags])
    if object_step:
        flow.rewrite(obj, args=["--only", "imv"])
    return flow, flow.link([obj], [*ldflags, "-Wl,--build-id"], "linked"), "moved" in request.param


def state(flow, path):
    """All that the tables of a file say, wherever they lie."""
    tables = flow.inspect("tables", path)
    return {
        "unwind": rows(flow.etch, path)[1] if header(path) else None,
        "sites": sorted((i["site"], i["refers"], i["form"], i["flags"]) for i in tables["imv"]),
        "objects": sorted((o["address"], o["size"], o["flags"], o["name"]) for o in tables["obj"]),
        "linked": tables["linked"],
    }


def test_lists_of_tables(linked, tmp_path):
    """Each run makes what its list names and keeps the rest; the order does not matter."""
    flow, plain, moved = linked
    both, imv, orc = (tmp_path / n for n in ("both", "imv", "orc"))
    flow.rewrite(plain, args=["-o", both])
    flow.rewrite(plain, args=["-o", imv, "--only", "imv"])
    flow.rewrite(plain, args=["-o", orc, "--only=orc"])
    want = state(flow, both)
    assert want["unwind"] and want["linked"] and any(s[3].startswith("baked") for s in want["sites"])
    assert header(imv) is None and state(flow, imv) == {**want, "unwind": None}
    assert state(flow, orc) == {**state(flow, plain), "unwind": want["unwind"]} and not state(flow, orc)["linked"]
    assert flow.inspect("tables", imv)["moved"] == flow.inspect("tables", both)["moved"] == moved
    for first, second in itertools.permutations(["imv", "orc"]):
        path = tmp_path / f"{first}-{second}"
        flow.rewrite(plain, args=["-o", path, "--only", first])
        flow.rewrite(path, args=["--only", second])
        assert state(flow, path) == want
        twice(flow, path, ["--only", second])
        twice(flow, path, ["--only", first])
        twice(flow, path, ["--only", "orc,imv"])
        assert run([path]).stdout == OUTPUT
    for path in (both, imv, orc):
        assert run([path]).stdout == OUTPUT
    twice(flow, both)
    twice(flow, imv, ["--only=imv"])
    twice(flow, orc, ["--only=orc"])


@pytest.mark.parametrize("args", [[], ["--encoding", "orc"], ["--unwind-map", "none"], ["--unwind-map", "128"], ["--no-cfi"]],
                         ids=" ".join)
def test_options(linked, tmp_path, args):
    flow, plain, _ = linked
    out = tmp_path / "out"
    flow.rewrite(plain, args=["-o", out, *args])
    h = header(out)
    assert h["encoding"] == ("orc" if "orc" in args else "block")
    assert h["map"] == (0 if {"orc", "none"} & set(args) else 128 if "128" in args else 64)
    assert h["id"].hex() == build_id(plain)
    assert run([out]).stdout == OUTPUT
    twice(flow, out, args)
    p = run(["eu-elflint", "--gnu-ld", out], ok=None)
    was = run(["eu-elflint", "--gnu-ld", plain], ok=None)
    assert len((p.stdout + p.stderr).splitlines()) <= len((was.stdout + was.stderr).splitlines())
    # From any of them the way back to the default is one run.
    flow.rewrite(out)
    again = tmp_path / "again"
    flow.rewrite(plain, args=["-o", again])
    assert state(flow, out) == state(flow, again)
    names = [n for n, *_ in sections(out)]
    assert ".orc_lookup" not in names and names.count(".etch.unwind") == names.count(".etch.source") == 1


def test_the_first_section_is_the_table(linked, tmp_path):
    """What libetch relies on: the note says where, 8-byte aligned; the rest after it."""
    flow, plain, _ = linked
    out = tmp_path / "out"
    for args in ([], ["--encoding=orc"]):
        flow.rewrite(plain, args=["-o", out, *args])
        note, table = named(out, ".etch.segment")[0], named(out, ".etch.unwind")[0]
        first, = struct.unpack_from("<I", note[4], 24)
        assert note[1] + first == table[1] and table[1] % 8 == 0 and table[3] == 2
        assert all(s[1] > table[1] for s in sections(out) if s[0].startswith(".orc_"))
        if not args:
            source = named(out, ".etch.source")[0]
            assert source[1] == 0 == source[3] and len(source[4]) == (struct.unpack_from("<I", table[4], 20)[0] + 3) // 4


@pytest.mark.parametrize("option", ["--strip-all", "--strip-debug", "--strip-unneeded"])
def test_strip_after(linked, tmp_path, option):
    flow, plain, _ = linked
    out = tmp_path / "out"
    flow.rewrite(plain, args=["-o", out])
    want = state(flow, out)
    run(["strip", option, out])
    assert run([out]).stdout == OUTPUT
    without_names = [[{k: v for k, v in row.items() if k != "function"} for row in table] for table in (rows(flow.etch, out)[1], want["unwind"])]
    assert without_names[0] == without_names[1]
    flow.rewrite(out)
    assert run([out]).stdout == OUTPUT and header(out)["encoding"] == "block"
    twice(flow, out)


def test_a_distribution_file(tmp_path, etch):
    """A program and a library that never saw etch, or an object step."""
    for source in ("/bin/ls", "/lib/x86_64-linux-gnu/libc.so.6"):
        out, again = tmp_path / "out", tmp_path / "again"
        p = run([etch, "rewrite", "-v", "-o", out, source])
        assert "unwind rows" in p.stdout and "(unchanged)" not in p.stdout
        run([etch, "rewrite", "-j", "4", "-o", again, source])
        assert again.read_bytes() == out.read_bytes()
        p = run([etch, "rewrite", "-v", out])
        assert "(unchanged)" in p.stdout and again.read_bytes() == out.read_bytes()
        assert header(out)["id"].hex() == build_id(source)
    run([etch, "rewrite", "-o", tmp_path / "libc.so.6", "/lib/x86_64-linux-gnu/libc.so.6"])
    run([etch, "rewrite", "-o", tmp_path / "ls", "/bin/ls"])
    assert run([tmp_path / "ls", "/"], env={"LD_LIBRARY_PATH": str(tmp_path)}).stdout == run(["/bin/ls", "/"], env={}).stdout


def test_places_inside_functions_have_names(tmp_path, etch):
    """Of all symbols only those that hold a place are looked at: the one that begins before it, and is long enough."""
    function = ".type {0},@function\n{0}:\t.cfi_startproc\n{1}\tret\n\t.cfi_endproc\n\t.size {0},.-{0}\n"
    right, wrong = "\tnop\n", "\tnop\n\tpush %rbx\n\tnop\n\tpop %rbx\n"
    (tmp_path / "t.s").write_text("".join(function.format(*x) for x in (("a", right), ("b", wrong), ("c", right), ("d", wrong))))
    run(["gcc", "-c", "-o", tmp_path / "t.o", tmp_path / "t.s"])
    said = run([etch, "rewrite", "-v", tmp_path / "t.o"]).stderr
    assert "C001: b+0x2: " in said and "(2 places up to d+0x2)" in said, said


def test_only_imv_leaves_others_alone(tmp_path, etch):
    out = tmp_path / "ls"
    shutil.copy("/bin/ls", out)
    before = out.stat().st_ino
    run([etch, "rewrite", "--only", "imv", out])
    assert out.stat().st_ino == before


# ---- sidecars ----------------------------------------------------------------


def test_sidecar(linked, tmp_path):
    flow, plain, _ = linked
    path, inside = shutil.copy(plain, tmp_path / "file"), tmp_path / "inside"
    before = path.read_bytes(), path.stat().st_mtime_ns, path.stat().st_ino
    side = tmp_path / "side"
    side.mkdir()
    p = flow.rewrite(path, args=["-v", "--sidecar", side])
    assert (path.read_bytes(), path.stat().st_mtime_ns, path.stat().st_ino) == before
    assert [f.name for f in side.iterdir()] == [build_id(plain)]
    # Byte for byte what would be in the file.
    flow.rewrite(plain, args=["-o", inside])
    table = named(inside, ".etch.unwind")[0][4]
    assert (side / build_id(plain)).read_bytes()[128:] == table
    assert "unwind rows" in p.stdout and "(unchanged)" not in p.stdout and "note: " not in p.stderr
    # ... and the same of a file whose sites are immediates already.
    other = tmp_path / "other"
    other.mkdir()
    flow.rewrite(inside, args=["--sidecar", other])
    assert (other / build_id(plain)).read_bytes()[128:] == table


def test_sidecar_refusals(tmp_path, build):
    flow = Flow(tmp_path, build)
    obj = flow.compile("int main(void) { return 0; }\n")
    exe = tmp_path / "exe"
    run(["gcc", "-Wl,--build-id=none", "-o", exe, obj])
    side = tmp_path / "side"
    side.mkdir()
    for args, file, said in ((["--sidecar", side], exe, "build-id"), (["--sidecar", side], obj, "object file"),
                             (["--sidecar", side, "-o", tmp_path / "x"], exe, "-o"),
                             (["--sidecar", side, "--only", "imv"], exe, "--only"),
                             (["--sidecar", side, "--encoding", "orc"], exe, "--encoding"),
                             (["--sidecar", tmp_path / "none"], "/bin/ls", "No such file")):
        before = file.read_bytes() if file != "/bin/ls" else None
        p = flow.rewrite(file, args=args, ok=2)
        assert p.stdout == "" and len(p.stderr.splitlines()) == 1 and said in p.stderr, p.stderr
        assert before is None or file.read_bytes() == before
        assert not list(side.iterdir()) and not (tmp_path / "none").exists()


def test_what_a_sidecar_has_not_is_refused(etch, tmp_path):
    """Of all options that --help lists: each is refused in one line that names it, because it would do nothing, or taken."""
    (tmp_path / "side").mkdir()
    taken = every_option_tried(etch, ["--sidecar", tmp_path / "side"], "/usr/bin/true", tmp_path, "--sidecar", refused_so={
        "--undo": "etch: --sidecar cannot be combined with --undo\n", "--only": "etch: --sidecar makes only unwind rows: --only can be only orc\n"})
    assert taken == {"--sidecar", "--no-cfi", "--encoding", "--unwind-map", "--registers", "--jobs", "--werror", "--quiet", "--verbose", "--yes",
                     "--help"}
    p = run([etch, "rewrite", "--sidecar", tmp_path / "side", "--only", "orc,ex", "/usr/bin/true"], ok=2)
    assert p.stderr == "etch: --sidecar makes only unwind rows: --only can be only orc\n"


# ---- where there is no place ---------------------------------------------------


def test_no_place(linked, tmp_path):
    """Data after the last section: no segment can be added, nor the record for --undo. That is an error that
    names the way out; with sites and --no-undo they are done, and it is a finding."""
    flow, plain, moved = linked
    ls = tmp_path / "ls"
    ls.write_bytes(open("/bin/ls", "rb").read() + b"appended")
    before = ls.read_bytes()
    p = flow.rewrite(ls, ok=2)
    assert len(p.stderr.splitlines()) == 1 and "--sidecar" in p.stderr and ls.read_bytes() == before
    flow.rewrite(ls, args=["--only", "imv"])
    side = tmp_path / "side"
    side.mkdir()
    flow.rewrite(ls, args=["--sidecar", side])
    assert [f.name for f in side.iterdir()] == [build_id("/bin/ls")]
    path = tmp_path / "file"
    path.write_bytes(plain.read_bytes() + b"appended")
    path.chmod(0o755)
    before = path.read_bytes()
    p = flow.rewrite(path, ok=2)
    assert len(p.stderr.splitlines()) == 1 and "--no-undo" in p.stderr and path.read_bytes() == before
    p = flow.rewrite(path, args=["--werror", "--no-undo"], ok=1)
    assert "ETCH-T001: the file: no unwind table" in p.stderr and ("ETCH-I004" in p.stderr) == moved
    assert header(path) is None and path.read_bytes().endswith(b"appended")
    assert run([path]).stdout == OUTPUT
    assert flow.inspect("tables", path)["linked"]
    p = flow.rewrite(path, args=["--only", "orc"], ok=2)
    assert "--sidecar" in p.stderr


def test_code_far_apart(tmp_path, build):
    """Offsets in a table have 32 bits: the code that is far from the rest has no rows, with a finding that says so."""
    flow = Flow(tmp_path, build)
    far = ('__attribute__((section(".far"))) int far(int n);\n__attribute__((section(".far"))) int far(int n) '
           '{ return n + 1; }\nint (*volatile there)(int) = far;\n')
    ldflags = ["-no-pie", "-Wl,--section-start=.far=0x700000000", "-Wl,--build-id"]
    cflags = ["-O2", "-fno-pie", "-fno-asynchronous-unwind-tables"]  # .eh_frame would not reach
    obj = flow.compile(SOURCE + far, cflags)
    flow.rewrite(obj, args=["--only=imv"])
    exe = flow.link([obj], ldflags, "exe")
    flow.rewrite(exe, args=["--werror"], ok=1)
    assert "ETCH-T005: far: " in flow.rewrite(exe).stderr and header(exe) is not None
    assert flow.inspect("tables", exe)["linked"] and run([exe]).stdout == OUTPUT
    plain = tmp_path / "plain"
    run(["gcc", *ldflags, *cflags, "-o", plain, flow.source(far + "int main(void) { return there(1) != 2; }\n", "p.c")])
    before = plain.read_bytes()
    for args in (["--sframe"], ["--eh-frame"]):  # these cannot leave the far code out
        p = flow.rewrite(plain, args=args, ok=2)
        assert "4 GiB" in p.stderr and len(p.stderr.splitlines()) == 1 and plain.read_bytes() == before
    for args in (["--sidecar", tmp_path], []):
        p = flow.rewrite(plain, args=args)
        assert "ETCH-T005" in p.stderr and len(p.stderr.splitlines()) == 1
        run([plain])


def test_no_code(tmp_path, build):
    flow = Flow(tmp_path, build)
    data = flow.compile("int data[4] = { 1 };\n", out="data.o")
    before = data.read_bytes()
    p = flow.rewrite(data, args=["-v"])
    assert p.stderr == "" and "(unchanged)" in p.stdout and data.read_bytes() == before
    lib = tmp_path / "libdata.so"
    run(["gcc", "-nostdlib", "-shared", "-o", lib, data])
    before = lib.read_bytes()
    p = flow.rewrite(lib)
    assert "note: no code" in p.stderr and lib.read_bytes() == before


# ---- object files ------------------------------------------------------------------


def object_rows(path):
    """[(section, offset, 6 bytes)] of an object's arrays, by pyelftools."""
    out = []
    with open(path, "rb") as f:
        elf = ELFFile(f)
        all_ = list(elf.iter_sections())
        symbols = elf.get_section_by_name(".symtab")
        ips = [i for i, s in enumerate(all_) if s.name == ".orc_unwind_ip" and s["sh_size"]]
        orcs = [i for i, s in enumerate(all_) if s.name == ".orc_unwind" and s["sh_size"]]
        assert len(ips) == len(orcs)
        for i, k in zip(ips, orcs):
            ip, orc = all_[i], all_[k]
            rela = next(s for s in all_ if s["sh_type"] == "SHT_RELA" and s["sh_info"] == i)
            assert ip["sh_size"] // 4 == orc["sh_size"] // 6 == rela.num_relocations() and not any(ip.data())
            for n, r in enumerate(rela.iter_relocations()):
                s = symbols.get_symbol(r["r_info_sym"])
                assert r["r_offset"] == 4 * n and r["r_info_type"] == 2 and s["st_info"]["type"] == "STT_SECTION"
                out.append((s["st_shndx"], s["st_value"] + r["r_addend"], orc.data()[6 * n:6 * n + 6]))
    return out


def test_object_sections(tmp_path, build, cc):
    """One pair per section of code, linked to it and in its group, an UNDEFINED row at
    its end; nothing else in the file changes."""
    flow = Flow(tmp_path, build, cc)
    source = flow.source("#define FIRST\n" + CXX, "t.cc")
    obj = flow.compile(source, ["-O2", "-ffunction-sections"])
    was = sections(obj)
    flow.rewrite(obj)
    all_ = list(ELFFile(io.BytesIO(obj.read_bytes())).iter_sections())
    assert [s[0] for s in sections(obj)][:len(was)] == [s[0] for s in was]
    assert all(a[4] == b[4] for a, b in zip(was, sections(obj)) if b[3] & 2)
    groups = {}
    for i, s in enumerate(all_):
        if s["sh_type"] == "SHT_GROUP":
            for m in struct.unpack(f"<{s['sh_size'] // 4}I", s.data())[1:]:
                groups[m] = i
    code = {i for i, s in enumerate(all_) if s["sh_flags"] & 4 and s["sh_size"]}
    for name, align in ((".orc_unwind_ip", 4), (".orc_unwind", 2)):
        mine = {s["sh_link"]: i for i, s in enumerate(all_) if s.name == name}
        assert set(mine) == code
        for about, i in mine.items():
            s = all_[i]
            assert (s["sh_type"], s["sh_addralign"], s["sh_flags"] & 0x82) == ("SHT_PROGBITS", align, 0x82)
            assert groups.get(about) == groups.get(i) and bool(s["sh_flags"] & 0x200) == (about in groups)
            if name == ".orc_unwind_ip":
                assert groups.get(i + 1) == groups.get(about) and all_[i + 1].name == ".rela.orc_unwind_ip"
    assert any(c in groups for c in code)
    table = object_rows(obj)
    for c in code:
        own = [r for r in table if r[0] == c]
        assert own[0][1] == 0 and own[-1][1:] == (all_[c]["sh_size"], bytes(6))
        assert [r[1] for r in own] == sorted({r[1] for r in own})
    twice(flow, obj)
    twice(flow, obj, ["--only", "orc"])
    twice(flow, obj, ["--only", "imv"])


def test_object_tables_are_replaced(tmp_path, build):
    """Other rows take the place of those that are there; tables that did not change stay."""
    flow = Flow(tmp_path, build)
    obj = flow.compile(SOURCE, ["-O2", "-fPIE", "-ffunction-sections"])
    fresh = tmp_path / "fresh.o"
    flow.rewrite(obj, args=["-o", fresh])
    flow.rewrite(obj, args=["--no-cfi"])
    without = object_rows(obj)
    flow.rewrite(obj)
    assert object_rows(obj) == object_rows(fresh)
    assert {r[2][1] >> 4 & 3 for r in map(lambda r: (0, 0, r[2][4:]), without)} <= {0, 3}
    assert flow.sites(obj) == flow.sites(fresh)
    assert sum(s[0] == "__imv" for s in sections(obj)) == sum(s[0] == "__imv" for s in sections(fresh))
    twice(flow, obj)
    exe = flow.link([obj], ["-pie"], "exe")
    flow.rewrite(exe)
    assert run([exe]).stdout == OUTPUT


def arrays(path):
    """[(address, 6 bytes)] of a linked file's classic arrays, in their order."""
    ip, orc = named(path, ".orc_unwind_ip"), named(path, ".orc_unwind")
    assert len(ip) == len(orc) == 1
    (_, base, size, _, raw), (_, _, _, _, entries) = ip[0], orc[0]
    assert size // 4 == len(entries) // 6
    return [((base + 4 * i + v) % 2**64, entries[6 * i:6 * i + 6])
            for i, v in enumerate(struct.unpack(f"<{size // 4}i", raw))]


def orc_type(entry):
    return struct.unpack("<H", entry[4:])[0] >> 8 & 7


def check_sorted(flow, path, code_only=True):
    """The arrays ascend; each row that is not UNDEFINED is what the block table, made
    from the linked code, has there. Returns the addresses of such rows."""
    table = arrays(path)
    assert [a for a, _ in table] == sorted(a for a, _ in table)
    for (a, e), (b, f) in zip(table, table[1:]):
        assert a != b or not orc_type(e) or e == f, "an UNDEFINED row hides another at one address"
    _, block = rows(flow.etch, path)
    with open(path, "rb") as f:
        code = [(s["sh_addr"], s["sh_addr"] + s["sh_size"]) for s in ELFFile(f).iter_sections() if s["sh_flags"] & 4]
    found, k, cfa_regs = set(), 0, {5: "rsp", 4: "rbp"}
    for addr, entry in table:
        assert any(lo <= addr <= hi for lo, hi in code)
        if not orc_type(entry):
            continue
        while block[k]["address"] + block[k]["size"] <= addr:
            k += 1
        offset, bits = struct.unpack("<h2xH", entry)
        if bits & 15 in cfa_regs:
            assert block[k]["cfa"] == f"{cfa_regs[bits & 15]}+{offset}", (hex(addr), block[k])
        found.add(addr)
    return found


HOWS = {
    "gnu": ([], []),
    "sections": (["-ffunction-sections"], []),
    "gc": (["-ffunction-sections"], ["-Wl,--gc-sections,-z,start-stop-gc"]),
    "lld": ([], ["-fuse-ld=lld"]),
    "lld gc": (["-ffunction-sections"], ["-fuse-ld=lld", "-Wl,--gc-sections"]),
    "static": (["-fno-pie"], ["-static", "-no-pie"]),
    "static gc": (["-fno-pie", "-ffunction-sections"], ["-static", "-no-pie", "-Wl,--gc-sections,-z,start-stop-gc"]),
    "nopie": (["-fno-pie"], ["-no-pie"]),
    "unoptimized": (["-O0"], []),
}


@pytest.mark.parametrize("how", HOWS)
def test_objects_through_the_linker(tmp_path, build, cc, how):
    cflags, ldflags = HOWS[how]
    flow = Flow(tmp_path, build, cc)
    obj = flow.compile(SOURCE, ["-O2", "-fPIE", *cflags])
    flow.rewrite(obj)
    exe = flow.link([obj], ldflags if "-no-pie" in ldflags else ["-pie", *ldflags], "exe")
    assert run([exe]).stdout == OUTPUT
    flow.rewrite(exe)
    found = check_sorted(flow, exe)
    with open(exe, "rb") as f:
        where = {s.name: s["st_value"] for s in ELFFile(f).get_section_by_name(".symtab").iter_symbols()
                 if s["st_info"]["type"] == "STT_FUNC"}
    assert found and ("never" in where) == ("gc" not in how)
    table = arrays(exe)
    for name in {"main", "area", "never"} & set(where):
        assert orc_type(max(r for r in table if r[0] <= where[name])[1]), name
    assert run([exe]).stdout == OUTPUT and header(exe)["encoding"] == "block"
    twice(flow, exe)
    # The other encoding has arrays of the same names in the segment.
    flow.rewrite(exe, args=["--encoding", "orc"])
    assert len(named(exe, ".orc_unwind_ip")) == 2 and run([exe]).stdout == OUTPUT
    twice(flow, exe, ["--encoding", "orc"])


@pytest.mark.parametrize("linker", ["bfd", "lld"])
def test_comdat(tmp_path, build, cc, linker):
    """Rows of an inline function go with the copy that the linker keeps."""
    flow = Flow(tmp_path, build, cc)
    objects = []
    for n, first in enumerate(("#define FIRST\n", "")):
        objects.append(flow.compile(flow.source(first + CXX, f"c{n}.cc"), ["-O2", "-fPIE"]))
    flow.rewrite(*objects)
    exe = flow.link(objects, ["-pie", f"-fuse-ld={linker}"], "exe", cxx=True)
    want = "zero 8 18\n"
    assert run([exe]).stdout == want
    flow.rewrite(exe)
    assert check_sorted(flow, exe) and run([exe]).stdout == want
    table = [a for a, e in arrays(exe) if orc_type(e)]
    assert len(table) == len(set(table))


@pytest.mark.parametrize("linker", ["ld", "ld.lld"])
def test_relocatable_link(tmp_path, build, cc, linker):
    """ld -r of rewritten objects, then the rest; and a rewrite between the two."""
    flow = Flow(tmp_path, build, cc)
    objects = []
    for n, first in enumerate(("#define FIRST\n", "")):
        objects.append(flow.compile(flow.source(first + CXX, f"c{n}.cc"), ["-O2", "-fPIE", "-ffunction-sections"]))
    flow.rewrite(*objects)
    want = "zero 8 18\n"
    for again in (False, True):
        whole = tmp_path / "whole.o"
        run([linker, "-r", "-o", whole, *objects])
        if again:
            flow.rewrite(whole)
            twice(flow, whole)
        exe = flow.link([whole], ["-pie"], "exe", cxx=True)
        assert run([exe]).stdout == want
        flow.rewrite(exe)
        assert check_sorted(flow, exe) and run([exe]).stdout == want
        twice(flow, exe)


def test_shared_library(tmp_path, build, cc):
    flow = Flow(tmp_path, build, cc)
    obj = flow.compile("int f(int x);\n__attribute__((noinline)) static int g(int x) { return x * 3; }\n"
                       "int f(int x) { int a[20]; a[x] = g(x); return a[x] + g(x + 1); }\n", ["-O2", "-fPIC"])
    flow.rewrite(obj)
    lib = tmp_path / "libf.so"
    run([cc, "-shared", "-o", lib, obj])
    flow.rewrite(lib)
    assert check_sorted(flow, lib) and header(lib)
    exe = tmp_path / "exe"
    main = flow.source("int f(int); int main(void) { return f(3) != 21; }\n", "main.c")
    run([cc, "-o", exe, main, lib, f"-Wl,-rpath,{tmp_path}"])
    run([exe])
    twice(flow, lib)


def test_dropped_code(tmp_path, build):
    """Rows of code that is not there any more: at the end, UNDEFINED. Made by hand: the
    linkers drop such rows with the code."""
    flow = Flow(tmp_path, build)
    obj = flow.compile(SOURCE, ["-O2", "-fPIE"])
    flow.rewrite(obj)
    exe = flow.link([obj], ["-pie"], "exe")
    with open(exe, "rb") as f:
        s = ELFFile(f).get_section_by_name(".orc_unwind_ip")
        at, addr, size = s["sh_offset"], s["sh_addr"], s["sh_size"]
    data = bytearray(exe.read_bytes())
    before = arrays(exe)
    gone = [0, 3]
    for n in gone:  # as a linker that resolves what it dropped to address 0
        struct.pack_into("<i", data, at + 4 * n, -(addr + 4 * n))
    exe.write_bytes(data)
    flow.rewrite(exe)
    after = arrays(exe)
    assert len(after) == size // 4 == len(before)
    assert [r for r in after if orc_type(r[1])] == sorted(r for n, r in enumerate(before) if n not in gone and orc_type(r[1]))
    assert check_sorted(flow, exe) and run([exe]).stdout == OUTPUT
    twice(flow, exe)


def test_arrays_that_do_not_match(tmp_path, build):
    flow = Flow(tmp_path, build)
    obj = flow.compile(SOURCE + '__asm__(".section .orc_unwind_ip,\\"a\\"; .zero 8; .section .orc_unwind,\\"a\\"; .zero 6");\n',
                       ["-O2", "-fPIE"])
    exe = flow.link([obj], ["-pie"], "exe")
    before = exe.read_bytes()
    p = flow.rewrite(exe, ok=2)
    assert len(p.stderr.splitlines()) == 1 and ".orc_unwind_ip" in p.stderr and exe.read_bytes() == before


def test_arrays_of_another_tool(tmp_path, build):
    """objtool's entries have the same names and size, and other numbers."""
    flow = Flow(tmp_path, build)
    obj = flow.compile(SOURCE, ["-O2", "-fPIE"])
    flow.rewrite(obj)
    data = bytearray(obj.read_bytes())
    with open(obj, "rb") as f:
        at = ELFFile(f).get_section_by_name(".orc_unwind")["sh_offset"]
    data[at + 5] &= ~7  # type 0: CALL in Linux 6.1
    obj.write_bytes(data)
    for args in ([], ["--only", "orc"]):
        p = flow.rewrite(obj, args=args, ok=2)
        assert "--only imv" in p.stderr and len(p.stderr.splitlines()) == 1 and obj.read_bytes() == data
    flow.rewrite(obj, args=["--only", "imv"])


def test_frames_beyond_the_entry(tmp_path, build):
    """A CFA that 16 bits do not hold is UNDEFINED in the arrays, and a finding; whole in
    the block table."""
    flow = Flow(tmp_path, build)
    obj = flow.compile("int g(char *);\nint f(void) { char b[200000]; return g(b) + 1; }\n"
                       "int g(char *b) { return b[3]; }\nint main(void) { return f() == 7777; }\n", ["-O2", "-fno-inline"])
    p = flow.rewrite(obj, args=["--werror"], ok=1)
    assert "ETCH-T002" in p.stderr and "ETCH-C" not in p.stderr
    at = rows(flow.etch, "--at", "f", obj)[1]
    assert "undef" in {r["kind"] for r in at}
    exe = tmp_path / "exe"
    run(["gcc", "-o", exe, obj])
    flow.rewrite(exe, args=["--werror"])
    assert any(r["cfa"].startswith("rsp+2000") for r in rows(flow.etch, "--at", "f", exe)[1])
    assert "ETCH-T002" in flow.rewrite(exe, args=["--encoding", "orc", "--werror"], ok=1).stderr
    # ... and where there are sites to be looked at too.
    both = flow.program(SOURCE + "int g(char *b); int g(char *b) { return b[3]; }\nint (*volatile way)(char *) = g;\n"
                        "int f(void); int f(void) { char b[200000]; return way(b) + 1; }\n", "plain")
    flow.rewrite(both, args=["--werror"])
    assert "ETCH-T002" in flow.rewrite(both, args=["--encoding", "orc", "--werror"], ok=1).stderr


@pytest.mark.parametrize("n", [1000, pytest.param(4000, marks=pytest.mark.long)])
def test_many_sections(tmp_path, build, n):
    """Thousands of sections of code: in time, and each with its rows."""
    flow = Flow(tmp_path, build)
    source = "\n".join(f"int f{i}(int x) {{ volatile int a[{i % 9 + 1}]; a[0] = x; return a[0]; }}" for i in range(n))
    obj = flow.compile(source + "\nint main(void) { return f1(0); }\n", ["-O1", "-ffunction-sections"])
    flow.rewrite(obj)
    assert len({r[0] for r in object_rows(obj)}) == n + 1
    twice(flow, obj)
    exe = tmp_path / "exe"
    run(["gcc", "-o", exe, obj])
    flow.rewrite(exe)
    assert len(check_sorted(flow, exe)) >= n
    run([exe])


# ---- the command line ---------------------------------------------------------------


@pytest.mark.parametrize("args", [["--only", ""], ["--only", "imv,"], ["--only", "orcs"], ["--only", "orc;imv"],
                                  ["--encoding", "sframe"], ["--encoding="], ["--unwind-map", "32"], ["--unwind-map="],
                                  ["--sidecar"]], ids=" ".join)
def test_wrong_options(tmp_path, etch, args):
    shutil.copy("/bin/ls", tmp_path / "ls")
    p = run([etch, "rewrite", *args, *([] if args == ["--sidecar"] else [tmp_path / "ls"])], ok=2)
    assert p.stdout == "" and len(p.stderr.splitlines()) <= 2 and p.stderr
    assert (tmp_path / "ls").read_bytes() == open("/bin/ls", "rb").read()


def test_findings_are_cut_off(tmp_path, build):
    """Ten lines a file without -v, and how many more there are; all of them with -v."""
    flow = Flow(tmp_path, build)
    wrong = "".join(f"\t.globl f{i}\n\t.type f{i},@function\nf{i}:\t.cfi_startproc\n\tpush %rbx\n\tcall g{i}\n\tpop %rbx\n"
                    f"\tret\n\t.cfi_endproc\n\t.size f{i},.-f{i}\ng{i}:\tret\n\t.p2align 7\n" for i in range(15))
    source = flow.source(wrong, "t.s")
    obj = tmp_path / "t.o"
    run(["gcc", "-c", "-o", obj, source])
    p = flow.rewrite(obj, args=["-o", tmp_path / "o.o"])
    lines = p.stderr.splitlines()
    assert len(lines) == 11 and all("ETCH-C001" in x for x in lines[:10])
    assert lines[10].endswith("note: 5 more findings about unwind rows; -v shows them")
    assert len(flow.rewrite(obj, args=["-v", "-o", tmp_path / "o.o"]).stderr.splitlines()) == 15
    flow.rewrite(obj, args=["--werror", "-o", tmp_path / "o.o"], ok=1)
    assert flow.rewrite(obj, args=["--no-cfi", "--werror", "-o", tmp_path / "o.o"]).stderr == ""


def test_verbose_and_jobs(tmp_path, build):
    flow = Flow(tmp_path, build)
    obj = flow.compile(SOURCE, ["-O2", "-fPIE"])
    copies = [shutil.copy(obj, tmp_path / f"copy{i}.o") for i in range(5)]
    p = flow.rewrite(*copies, args=["-v", "-j", "3"])
    assert len(p.stdout.splitlines()) == 5 and all("sites" in x and "unwind rows" in x for x in p.stdout.splitlines())
    flow.rewrite(obj)
    assert {c.read_bytes() for c in copies} == {obj.read_bytes()}
    only = flow.rewrite(obj, args=["-v", "--only", "orc", "-o", tmp_path / "x.o"]).stdout
    assert "sites" not in only and "unwind rows" in only
    assert "unwind rows" not in flow.rewrite(obj, args=["-v", "--only=imv"]).stdout


def test_json_of_everything(linked):
    """No object of JSON is broken by the new parts."""
    flow, plain, _ = linked
    for what in ("summary", "orc", "sites", "tables"):
        json.loads(subprocess.run([flow.etch, "inspect", what, "--json", plain], capture_output=True, check=True).stdout)
