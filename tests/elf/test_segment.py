# SPDX-License-Identifier: MIT
"""tool/output/segment.c: a read-only segment more in files that are linked already, of two
linkers and of the distribution, and what becomes of them in the hands of the tools that
people use."""

import os
import re
import shutil
import struct
import subprocess
from pathlib import Path

import pytest

from conftest import DATA, ROOT, build_id, run, tool_objects

HERE = DATA / "elf"
SECS = [".orc_unwind_ip:4000", ".orc_unwind:6002:2", ".etch.source:77:1:u", ".orc_lookup:1028:64"]
LINKERS = ["bfd", "lld"]
KINDS = {
    "pie": ["-fPIE", "-pie"],
    "nopie": ["-fno-pie", "-no-pie"],
    "static": ["-fno-pie", "-static"],
    "static-pie": ["-fPIE", "-static-pie"],
}
# What may get a new address: nothing but headers and DT_ entries refers to it.
MOVABLE = {".interp", ".gnu.hash", ".hash", ".dynsym"}
LIBDIR = Path("/usr/lib/x86_64-linux-gnu")


class Elf:
    """A reader of its own: what is tested is not to be its own witness."""

    def __init__(self, path):
        d = self.data = Path(path).read_bytes()
        self.phoff, self.shoff = struct.unpack_from("<QQ", d, 32)
        phnum, _, shnum, shstr = struct.unpack_from("<HHHH", d, 56)
        self.phnum = phnum
        keys = "type flags off vaddr paddr filesz memsz align".split()
        self.ph = [dict(zip(keys, struct.unpack_from("<IIQQQQQQ", d, self.phoff + 56 * i))) for i in range(phnum)]
        keys = "name type flags addr off size link info align entsize".split()
        self.sh = [dict(zip(keys, struct.unpack_from("<IIQQQQIIQQ", d, self.shoff + 64 * i))) for i in range(shnum)]
        names = self.bytes_of(self.sh[shstr])
        for s in self.sh:
            s["name"] = names[s["name"]:].split(b"\0")[0].decode()

    def bytes_of(self, s):
        return b"" if s["type"] in (0, 8) else self.data[s["off"]:s["off"] + s["size"]]

    def section(self, name):
        return next(s for s in self.sh if s["name"] == name)

    def loads(self):
        return [p for p in self.ph if p["type"] == 1]

    def first_break(self):
        """Where the kernel begins the heap of a program whose addresses are not randomized, to the byte."""
        return max(p["vaddr"] + p["memsz"] for p in self.loads())

    def ours(self):
        """The PT_LOAD that is the etch segment, or has it inside, and whether that is so."""
        at = self.section(".etch.segment")
        load = next(p for p in self.loads() if p["vaddr"] <= at["addr"] < p["vaddr"] + p["filesz"])
        assert at["off"] - load["off"] == at["addr"] - load["vaddr"]
        inside, = struct.unpack_from("<I", self.data, at["off"] + 28)
        assert at["addr"] - load["vaddr"] == (4096 if inside else 0) and bool(inside) == (load["off"] == 0)
        return load, bool(inside)

    def moved_by(self):
        """How far the old contents moved in the file."""
        return next((s["off"] for s in self.sh if s["name"] == ".etch.ehdr"), 0)


@pytest.fixture(scope="session")
def tool(tmp_path_factory, build_asan):
    """The module with a small driver, under ASan and UBSan."""
    out = tmp_path_factory.mktemp("segment") / "segment_tool"
    module = [*sorted((ROOT / "tool/output").glob("segment*.c")), "outfile.c"]
    run(["gcc", "-std=gnu11", "-D_GNU_SOURCE", "-O1", "-g", "-Wall", "-Wextra", "-Werror",
         "-fsanitize=address,undefined", "-fno-sanitize-recover=all", f"-I{ROOT}/tool",
         HERE / "segment_tool.c",
         *tool_objects(build_asan, *(f"output/{Path(m).name}" for m in module), "arch/x86/byte_scan.c",
                       *(f"support/{name}.c" for name in ("memory", "bounds", "ending", "error", "plain"))), "-o", out])
    return out


def link(out, linker, kind, *flags, source=HERE / "segment_prog.c"):
    how = ["-shared", "-fPIC", "-DLIBRARY"] if kind == "so" else KINDS[kind]
    run(["gcc", "-O2", "-g", f"-fuse-ld={linker}", "-Wl,--build-id", *how, source, *flags, "-o", out])
    return out


@pytest.fixture(scope="session")
def inputs(tmp_path_factory):
    """(linker, kind) -> an unprocessed file, built once."""
    made = {}

    def get(linker, kind):
        if (linker, kind) not in made:
            made[linker, kind] = link(tmp_path_factory.mktemp("in") / f"{linker}-{kind}", linker, kind)
        return made[linker, kind]
    return get


def warnings(path):
    p = run(["readelf", "-aW", path], ok=None, errors="replace")
    return [x for x in (p.stdout + p.stderr).splitlines() if re.search(r"readelf: (Warning|Error)", x)]


def lint(path):
    out = run(["eu-elflint", "--gnu-ld", path], ok=None, errors="replace").stdout
    # Sections that moved may be named by another address; indices stay.
    return sorted(re.sub(r"0x[0-9a-f]+", "N", x) for x in out.splitlines() if "No errors" not in x)


def pattern(name, size):
    """What segment_tool.c fills a section without an address with."""
    h = 5381
    for c in name.encode():
        h = h * 33 + c & 0xffffffff
    return bytes(8) + bytes((h + k * 7 + (k >> 8)) & 255 for k in range(8, size))


def check_unloaded(e, name=".etch.source", size=77):
    """After the segment, in no segment, with its contents."""
    s = e.section(name)
    assert (s["flags"], s["addr"], s["size"]) == (0, 0, size) and e.bytes_of(s) == pattern(name, size)
    assert s["off"] >= max(p["off"] + p["filesz"] for p in e.loads())


def check_loads(a, b):
    """What was loaded is where it was, in the order of addresses, and the heap of a program at fixed addresses begins
    where it began."""
    ours, inside = b.ours()
    shift, loads = b.moved_by(), b.loads()
    assert [p["vaddr"] for p in loads] == sorted(p["vaddr"] for p in loads)
    assert all(p["vaddr"] + p["memsz"] + 0xfff & -4096 <= q["vaddr"] & -4096 for p, q in zip(loads, loads[1:])
               if p is ours or q is ours)
    assert ours["flags"] & 6 == 4 and (inside or ours["flags"] == 4 and ours["filesz"] == ours["memsz"])
    assert ours["vaddr"] % 4096 == 0 and ours["off"] % 4096 == 0
    old = [p for p in loads if inside or p is not ours]
    assert len(old) == len(a.loads())
    for k, (p, q) in enumerate(zip(a.loads(), old)):
        if shift and not k:
            by = shift + p["off"]
            assert shift % p["align"] == 0 and q["off"] == 0 and b.phoff == 64
            assert q == dict(p, off=0, vaddr=p["vaddr"] - by, paddr=q["vaddr"], filesz=p["filesz"] + by,
                             memsz=p["memsz"] + by, align=max(p["align"], 4096))
        else:
            by = shift if p["off"] or p["filesz"] else 0
            assert q == dict(p, off=p["off"] + by, align=max(p["align"], 4096) if shift else p["align"])
    if struct.unpack_from("<H", a.data, 16)[0] == 2:
        assert b.first_break() == a.first_break()


def check_output(before, after, first_page=True):
    """The promises of segment.h that can be read from two files."""
    a, b = Elf(before), Elf(after)
    check_unloaded(b)
    new, shift = [s["name"] for s in b.sh[len(a.sh):]], b.moved_by()
    front = [".etch.ehdr", ".etch.build-id"] if shift else []
    assert new == [".etch.segment"] + front + [s.split(":")[0] for s in SECS]
    check_loads(a, b)
    assert b.phoff == a.phoff
    for s, t in zip(a.sh, b.sh):
        assert s["name"] == t["name"]
        x, y = a.bytes_of(s), b.bytes_of(t)
        if s["name"] == ".shstrtab":
            assert y.startswith(x)
            continue
        moved = s["addr"] != t["addr"]
        if moved:
            assert s["name"] in MOVABLE or s["type"] == 7, s["name"]
        else:
            assert s["off"] + shift == t["off"] or s["type"] == 0
        assert {**s, "addr": 0, "off": 0} == {**t, "addr": 0, "off": 0}
        if s["type"] == 6:  # .dynamic: values of moved tables only
            x, y = (list(struct.iter_unpack("<qQ", v)) for v in (x, y))
            assert all(p == q or p[0] == q[0] and p[0] in (4, 5, 6, 0x6ffffef5) for p, q in zip(x, y))
        elif s["name"] != ".symtab":
            assert x == y, s["name"]
    for s in b.sh:
        if s["name"] == (".etch.build-id" if shift else ".note.gnu.build-id"):
            assert b.bytes_of(s) == a.bytes_of(a.section(".note.gnu.build-id"))
            # The kernel (before 6.12) and core dumps know the first page only.
            assert s["off"] + s["size"] <= 4096 or not first_page
            assert any(p["type"] == 4 and p["off"] <= s["off"] and
                       s["off"] + s["size"] <= p["off"] + p["filesz"] and
                       p["vaddr"] - p["off"] == s["addr"] - s["off"] for p in b.ph)


def add(tool, src, dst, *secs):
    run([tool, "add", src, dst, *(secs or SECS)])
    return dst


# ---- our own programs --------------------------------------------------------

@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("linker", LINKERS)
def test_program_survives(tool, inputs, tmp_path, linker, kind):
    src = inputs(linker, kind)
    assert run([src]).stdout == "ok 0 0\n"
    out = add(tool, src, tmp_path / "out")
    check_output(src, out)
    assert warnings(out) == warnings(src)
    assert lint(out) == lint(src)
    assert run([out]).stdout == "ok 1 0\n"
    assert build_id(out) == build_id(src)

    for name, *cmd in [("stripped", "objcopy", "--strip-all"), ("copied", "objcopy"),
                       ("debugless", "objcopy", "--strip-debug"), ("by-strip", "strip", "-o")]:
        copy = tmp_path / name
        run([*cmd, *([copy, out] if cmd[0] == "strip" else [out, copy])])
        assert run([copy]).stdout == "ok 1 0\n", name
        assert build_id(copy) == build_id(src)
        assert [s["name"] for s in Elf(copy).sh].count(".orc_unwind_ip") == 1
        # Contents of the same size: nothing else in the file changes.
        again = add(tool, copy, tmp_path / "again")
        assert again.read_bytes() == copy.read_bytes(), name
        # Others: those of the old list are gone, and it still runs.
        other = add(tool, copy, tmp_path / "other", ".orc_unwind:9000", "__imv:120")
        assert run([other]).stdout == "ok 1 0\n", name
        assert ".orc_lookup" not in [s["name"] for s in Elf(other).sh]
        assert run([tool, "find", other]).stdout.startswith("offset")
    plain = tmp_path / "plain"
    run(["strip", "-o", plain, src])
    stripped = add(tool, plain, tmp_path / "stripped-first")
    check_output(plain, stripped)
    assert run([stripped]).stdout == "ok 1 0\n"


@pytest.mark.parametrize("linker", LINKERS)
def test_library_survives(tool, inputs, tmp_path, linker):
    lib, prog = tmp_path / "libsegment.so", inputs(linker, "pie")
    src = link(tmp_path / "in.so", linker, "so")
    needs = tmp_path / "needs"
    shutil.copy(src, lib)
    run(["gcc", "-O2", "-DLINKED", HERE / "segment_prog.c", f"-L{tmp_path}", "-lsegment",
         f"-Wl,-rpath,{tmp_path}", "-o", needs])
    assert run([needs]).stdout == "ok 0 0\n"
    add(tool, src, lib)
    check_output(src, lib)
    assert warnings(lib) == warnings(src)
    assert lint(lib) == lint(src)
    for _ in range(2):
        assert run([needs]).stdout == "ok 0 1\n"
        assert run([prog, lib]).stdout == "ok 0 1\n"
        run(["strip", lib])
    assert build_id(lib) == build_id(src)


def test_a_word_before_a_large_symbol(tool, tmp_path):
    """eu-elflint takes the size of what a relocation names for that of the word which it changes, and would find our
    segment relocated."""
    src = link(tmp_path / "in.so", "bfd", "so", "-DLARGE=0x40000")
    out = add(tool, src, tmp_path / "out.so")
    check_output(src, out)
    assert lint(out) == lint(src)
    large, word = (int(re.search(rf"(\w+) \w {n}\n", run(["nm", src]).stdout)[1], 16) for n in ("large", "large_pointer"))
    assert large < word and Elf(out).ours()[0]["vaddr"] > word + 0x40000


@pytest.mark.parametrize("linker", LINKERS)
def test_no_notes(tool, tmp_path, linker):
    """A library without notes has to give up another section's place."""
    lib = link(tmp_path / "lib.so", linker, "so", "-Wl,--build-id=none", "-Wl,--hash-style=both")
    out = add(tool, lib, tmp_path / "out.so")
    check_output(lib, out)
    assert run(["python3", "-c", f"import ctypes; ctypes.CDLL('{out}').library_check"])


@pytest.mark.parametrize("kind", ["pie", "static"])
@pytest.mark.parametrize("linker", LINKERS)
def test_large_bss(tool, tmp_path, linker, kind):
    """The segment lies above a gigabyte of .bss; the loaders map what is between."""
    src = link(tmp_path / "in", linker, kind, f"-DBIG_BSS={1 << 30}ul")
    out = add(tool, src, tmp_path / "out")
    check_output(src, out)
    for _ in range(8):  # address space layout is random
        assert run([out]).stdout == "ok 1 0\n"
    run(["strip", out])
    assert run([out]).stdout == "ok 1 0\n"


@pytest.mark.parametrize("kind", ["pie", "static"])
@pytest.mark.parametrize("linker", LINKERS)
def test_debugger_and_valgrind(tool, inputs, tmp_path, linker, kind):
    src = inputs(linker, kind)
    out = add(tool, src, tmp_path / "out")
    p = run(["gdb", "-nx", "-batch", "-ex", "info files", "-ex", "break check", "-ex", "run", "-ex", "backtrace",
             "-ex", "continue", out], stderr=subprocess.STDOUT, stdout=subprocess.PIPE)
    assert re.search(r"is \.orc_unwind_ip", p.stdout)
    assert re.search(r"#1 .* main \(.*segment_prog\.c", p.stdout), p.stdout
    assert "ok 1 0" in p.stdout and "exited normally" in p.stdout
    assert not re.search("warning|not in executable format", p.stdout), p.stdout
    found = [len(re.findall(r"== at |==    at ", run(["valgrind", "-q", f], ok=None).stderr)) for f in (src, out)]
    assert found[0] == found[1]
    assert "ok 1 0" in run(["valgrind", "-q", out]).stdout


def test_null_entry_is_taken(tool, inputs, tmp_path):
    src = tmp_path / "in"
    data = bytearray(inputs("bfd", "pie").read_bytes())
    elf = Elf(inputs("bfd", "pie"))
    at = next(i for i, p in enumerate(elf.ph) if p["type"] == 0x6474e550)
    data[elf.phoff + 56 * at:elf.phoff + 56 * (at + 1)] = bytes(56)
    src.write_bytes(data)
    src.chmod(0o755)
    out = add(tool, src, tmp_path / "out")
    assert Elf(out).phnum == elf.phnum
    assert 0x6474e553 in [p["type"] for p in Elf(out).ph]  # PT_GNU_PROPERTY stays
    assert run([out]).stdout == "ok 1 0\n"


def crowd(path, start):
    """Takes all space after the program headers: nothing may move, and no byte is unused."""
    data, elf = bytearray(path.read_bytes()), Elf(path)
    for i, s in enumerate(elf.sh):
        if s["flags"] == 2 and s["addr"] < start + 4096:
            struct.pack_into("<Q", data, elf.shoff + 64 * i + 8, 2 | 0x100000)  # of the processor: who knows
    end = elf.phoff + 56 * elf.phnum
    first = min(s["off"] for s in elf.sh if s["type"] not in (0, 8) and s["off"] >= end)
    data[end:first] = b"\xaa" * (first - end)
    for i, p in enumerate(elf.ph):
        if p["type"] == 0x6474e553:
            struct.pack_into("<I", data, elf.phoff + 56 * i, 0x6ffffff1)
    path.write_bytes(data)
    return path


def check_table(before, after):
    """The program headers have a new place, and all agree where."""
    a, b = Elf(before), Elf(after)
    check_loads(a, b)
    ours, inside = b.ours()
    copies = sum(s["name"] == ".etch.build-id" for s in b.sh)
    assert b.phnum == a.phnum + (not inside) + copies
    holders = [p for p in b.loads() if p["off"] <= b.phoff and b.phoff + 56 * b.phnum <= p["off"] + p["filesz"]]
    assert holders == ([b.loads()[0]] if b.moved_by() else [ours])
    addr = holders[0]["vaddr"] + b.phoff - holders[0]["off"]
    for p in b.ph:
        if p["type"] == 6:
            assert (p["off"], p["vaddr"], p["filesz"]) == (b.phoff, addr, 56 * b.phnum)
    # Linux before 5.18, and who reads memory from the ELF header on.
    assert addr == b.phoff + b.loads()[0]["vaddr"] - b.loads()[0]["off"]
    for s, t in zip(a.sh, b.sh):
        if s["name"] != ".shstrtab":
            assert s["addr"] == t["addr"] and a.bytes_of(s) == b.bytes_of(t), s["name"]


@pytest.mark.parametrize("linker", LINKERS)
@pytest.mark.parametrize("kind", ["pie", "nopie"])
@pytest.mark.parametrize("page", [0x1000, 0x200000])
@pytest.mark.parametrize("bss", [4096, 9 << 20])
def test_table_finds_a_place(tool, tmp_path, linker, kind, page, bss):
    src = link(tmp_path / "in", linker, kind, f"-Wl,-z,max-page-size={page}", f"-DBIG_BSS={bss}")
    src = crowd(src, 0 if kind == "pie" else min(p["vaddr"] for p in Elf(src).loads()))
    out = add(tool, src, tmp_path / "out")
    check_table(src, out)
    # lld starts programs with pages of 2 MiB at 2 MiB: there is nothing below.
    front = kind == "nopie" and (linker, page) != ("lld", 0x200000)
    assert bool(Elf(out).moved_by()) == front
    assert run([src]).stdout == "ok 0 0\n"
    want = "ok 1 0\n"
    assert run([out]).stdout == want
    assert run(["/lib64/ld-linux-x86-64.so.2", out], ok=None).stdout == run(
        ["/lib64/ld-linux-x86-64.so.2", src], ok=None).stdout.replace("ok 0", "ok 1")
    assert add(tool, out, tmp_path / "again").read_bytes() == out.read_bytes()
    stripped = tmp_path / "stripped"
    for strip in ["eu-strip", "strip", "llvm-strip"]:
        if shutil.which(strip) and (front or strip == "eu-strip"):
            run([strip, "-o", stripped, out])
            assert run([stripped]).stdout == want, strip
    assert set(x for x in warnings(out)) == set(warnings(src))


def test_a_table_at_the_end_is_told(etch, tmp_path):
    """... with the name as it may be shown, once, and only where it is so."""
    plain = link(tmp_path / "plain", "bfd", "pie")
    name = crowd(link(tmp_path / "a\x1bb", "bfd", "pie"), 0)
    assert run([etch, "rewrite", plain]).stderr == ""
    said = run([etch, "rewrite", name]).stderr
    assert said.startswith(f"etch: {tmp_path}/a\\x1bb: note: ") and said.count("\n") == 1 and "eu-strip" in said
    assert Elf(name).phoff > 64 == Elf(plain).phoff


BARE = """
__asm__(".globl _start\\n_start: mov $231, %eax\\n mov n(%rip), %edi\\n syscall");
int n = 7;
"""


def test_a_new_first_page_is_told(etch, tmp_path):
    """What a program finds in its own file by offset is elsewhere then."""
    (tmp_path / "bare.c").write_text(BARE)
    exe = tmp_path / "bare"
    run(["gcc", "-O2", "-static", "-nostdlib", "-o", exe, tmp_path / "bare.c"])
    said = run([etch, "rewrite", exe]).stderr
    assert said.count("\n") == 1 and " moved by 8192 bytes in the file" in said
    assert run([etch, "rewrite", exe]).stderr == ""  # nothing more
    run([exe], ok=7)
    run(["strip", exe])
    run([exe], ok=7)


def test_what_no_header_describes_is_not_moved(etch, tmp_path):
    """A program finds it by its offset."""
    (tmp_path / "bare.c").write_text(BARE)
    exe = tmp_path / "bare"
    run(["gcc", "-O2", "-static", "-nostdlib", "-o", exe, tmp_path / "bare.c"])
    data = bytearray(exe.read_bytes())
    text = Elf(exe).section(".text")
    gap = (text["off"] + text["size"] + 7) & ~7
    assert not any(data[gap:gap + 64])
    data[gap:gap + 8] = b"payload!"
    exe.write_bytes(data)
    said = run([etch, "rewrite", exe], ok=2).stderr
    assert said.startswith(f"etch: {exe}: data between sections (at offset {gap:#x}) that no header describes; another")
    assert exe.read_bytes() == data


def test_no_space_at_the_top(etch, tmp_path):
    """The last page that a program may have is the one before the last of 2^47 bytes. One at fixed addresses does not
    need what is above it."""
    (tmp_path / "bare.c").write_text(BARE)
    for kind in ("-static", "-shared"):
        exe = tmp_path / "bare"
        start = 0x7ffffff00000
        for last, status in ((None, 0), (0x7fffffffd000, 0), (0x7fffffffe000, 0 if kind == "-static" else 2)):
            start += last - top if last else 0
            run(["gcc", "-O2", "-fPIC", kind, "-nostdlib", "-fvisibility=hidden", f"-Wl,-Ttext-segment={start:#x}", "-o", exe,
                 tmp_path / "bare.c"])
            top = (Elf(exe).first_break() - 1) & ~0xfff
            p = run([etch, "rewrite", exe], ok=status)
            assert not status or "no addresses left above the last segment" in p.stderr
            assert kind == "-shared" or run([exe], ok=7)


def property_closed(path):
    """The note of PT_GNU_PROPERTY is not found by its PT_NOTE now: that way out is closed."""
    data, elf = bytearray(path.read_bytes()), Elf(path)
    for i, p in enumerate(elf.ph):
        if p["type"] == 4 and p["align"] == 8:
            struct.pack_into("<Q", data, elf.phoff + 56 * i + 48, 4)
    path.write_bytes(data)
    return path


@pytest.mark.parametrize("kind", ["so", "static", "static-pie"])
@pytest.mark.parametrize("referred", [0, 1])
@pytest.mark.parametrize("stripped", [False, True])
def test_note_that_code_reads_stays(tool, inputs, tmp_path, kind, referred, stripped):
    """Nothing but the code says that the note must not move; then the table does."""
    note_stays_or_moves(tool, inputs, tmp_path, kind, referred, stripped)


def test_note_that_a_packed_relocation_leads_to_stays(tool, inputs, tmp_path):
    """... and nothing but the last of 45 pointers, of which RELR has an address and then bits."""
    note_stays_or_moves(tool, inputs, tmp_path, "so", 2, True, "-Wl,-z,pack-relative-relocs")
    assert Elf(tmp_path / "in").section(".relr.dyn")["size"] < 45 * 8


def note_stays_or_moves(tool, inputs, tmp_path, kind, referred, stripped, *flags):
    src = link(tmp_path / "in", "bfd", kind, f"-DOWN_NOTE={referred}", *flags)
    if stripped:
        run(["strip", src])
    property_closed(src)
    out = tmp_path / "out"
    add(tool, src, out)
    if referred:
        check_table(src, out)
        a, b = (Elf(f).section(".note.own")["addr"] for f in (src, out))
        assert a == b
        got = run([inputs("bfd", "pie"), out] if kind == "so" else [out]).stdout
        assert got == ("ok 0 1\n" if kind == "so" else "ok 1 0\n")
        return
    # Static ones have nothing else to move: the last resort.
    check_output(src, out, first_page=kind != "static")
    assert build_id(out) == build_id(src)
    a, b = (Elf(f).section(".note.own")["addr"] for f in (src, out))
    assert (a == b) == (kind == "static")  # the new first page has space for all headers
    if not stripped: # local symbols go along
        assert int(re.search(r"(\w+) \w own_note_value", run(["nm", out]).stdout)[1], 16) == b + 16
    got = run([inputs("bfd", "pie"), out] if kind == "so" else [out]).stdout
    assert got == ("ok 0 1\n" if kind == "so" else "ok 1 0\n")


# ---- input that is not wanted -------------------------------------------------

def patched(src, dst, *edits):
    d = bytearray(src.read_bytes())
    for fmt, off, value in edits:
        struct.pack_into(fmt, d, off, value)
    dst.write_bytes(d)
    return dst


@pytest.mark.parametrize("what,edit", {
    "32-bit": ("B", 4, 1), "big-endian": ("B", 5, 2), "machine": ("<H", 18, 183), "object": ("<H", 16, 1),
    "core": ("<H", 16, 4), "phnum 0": ("<H", 56, 0), "PN_XNUM": ("<H", 56, 0xffff), "phnum": ("<H", 56, 0xfffe),
    "shnum 0": ("<H", 60, 0), "shnum": ("<H", 60, 0xfeff), "phoff": ("<Q", 32, 1 << 63),
    "phoff end": ("<Q", 32, (1 << 64) - 8), "shoff": ("<Q", 40, 1 << 62), "shoff end": ("<Q", 40, (1 << 64) - 64),
    "shstrndx": ("<H", 62, 0xffff), "phentsize": ("<H", 54, 32), "shentsize": ("<H", 58, 40),
}.items())
def test_bad_header(tool, inputs, tmp_path, what, edit):
    bad = patched(inputs("bfd", "pie"), tmp_path / "bad", edit)
    p = run([tool, "add", bad, tmp_path / "out", *SECS], ok=1)
    assert p.stderr.count("\n") == 1 and p.stderr.startswith(f"{bad}: ")
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("sections,said", [
    *[([f"{name}:16"], f"section 0 ({name}) cannot be in a read-only segment") for name in (".etch.segment", ".etch.phdrs", ".etch.ehdr", ".etch.build-id")],
    ([".a:16", ".etch.build-id:16:1:u"], "section 1 (.etch.build-id) cannot be in a read-only segment"),
    ([".a:16", ".a:16"], "section .a given twice"), ([".a:0"], "section 0 (.a) cannot be in a read-only segment"),
    ([".etch.x:16:1:u"], "no section to add")])
def test_names_that_etch_uses_itself(tool, inputs, tmp_path, sections, said):
    file = inputs("bfd", "pie")
    p = run([tool, "add", file, tmp_path / "out", *sections], ok=1)
    assert p.stderr == f"{file}: {said}\n" and not (tmp_path / "out").exists()


def test_appended_data_is_not_lost(tool, inputs, tmp_path):
    """A self-extracting archive finds its payload from the end of the file."""
    bad = tmp_path / "sfx"
    bad.write_bytes(inputs("bfd", "pie").read_bytes() + b"PAYLOAD")
    p = run([tool, "add", bad, tmp_path / "out", *SECS], ok=1)
    assert "no header describes" in p.stderr


@pytest.mark.parametrize("n", [0, 1, 63, 64, 65, 500])
def test_truncated(tool, inputs, tmp_path, n):
    bad = tmp_path / "bad"
    bad.write_bytes(inputs("bfd", "pie").read_bytes()[:n])
    assert run([tool, "add", bad, tmp_path / "out", *SECS], ok=1).stderr.count("\n") == 1


@pytest.mark.parametrize("linker,kind", [("bfd", "pie"), ("lld", "pie"), ("lld", "nopie"), ("bfd", "nopie")])
def test_mutants(tool, inputs, linker, kind):
    """Sanitizers watch; what is accepted must keep the promises of segment.h."""
    src = inputs(linker, kind)
    p = run([tool, "fuzz", src, 4000, 1])
    done = int(p.stdout.split()[2])
    assert 400 < done < 3600, p.stdout


def test_mutants_library(tool, tmp_path):
    for linker in LINKERS:
        run([tool, "fuzz", link(tmp_path / "lib.so", linker, "so"), 4000, 2])


# ---- files that nobody here made -------------------------------------------------

def is_elf(path):
    with open(path, "rb") as f:
        return f.read(20)[:20].startswith(b"\x7fELF")


def distribution_programs():
    """Programs that know --version, of many projects; those that are installed."""
    names = ["ls", "sort", "cp", "date", "factor", "gzip", "tar", "grep", "sed", "find", "bash", "dpkg", "gdb",
             "python3", "perl", "openssl", "make", "git", "objdump", "readelf", "as", "gcc", "ld.lld", "valgrind"]
    paths = []
    for name in names:
        found = shutil.which(name)
        if found and is_elf(os.path.realpath(found)):
            paths.append(Path(os.path.realpath(found)))
    return paths


@pytest.mark.parametrize("path", distribution_programs(), ids=lambda p: p.name)
def test_distribution_program(tool, tmp_path, path):
    out = add(tool, path, tmp_path / path.name)
    check_output(path, out)
    assert warnings(out) == warnings(path)
    assert lint(out) == lint(path)
    arg = "version" if path.name == "openssl" else "--version"
    # Many say argv[0]; gcc finds its parts by its own place.
    want = run([path, arg], ok=None)
    for _ in range(2):
        got = run([path, arg], ok=None, executable=str(out),
                  env={**os.environ, "GCC_EXEC_PREFIX": "/usr/lib/gcc/"})
        assert (got.returncode, got.stdout) == (want.returncode, want.stdout)
        run(["strip", out])


def test_distribution_libraries(tool, tmp_path):
    """Every library of a Python with ssl, sqlite and ctypes, libc included."""
    modules = "import ssl, sqlite3, ctypes, zlib, bz2, lzma, hashlib, curses, decimal"
    code = (modules + "; print([x.split()[-1] for x in open('/proc/self/maps') if '.so' in x and ' r-xp ' in x])"
            "; print(sqlite3.connect(':memory:').execute('select 6*7').fetchone(),"
            " hashlib.sha256(zlib.compress(b'x' * 9999)).hexdigest())")
    run_code = ["/usr/bin/python3", "-c", code]
    want = run(run_code).stdout.splitlines()
    paths = [Path(p) for p in eval(want[0]) if "/ld-linux" not in p and Path(p).parent == LIBDIR.resolve()]
    assert len(paths) >= 5
    for path in paths:
        soname = re.search(r"SONAME.*\[(.*)\]", run(["readelf", "-dW", path]).stdout).group(1)
        out = add(tool, path, tmp_path / soname)
        check_output(path, out)
        assert warnings(out) == warnings(path)
        assert lint(out) == lint(path)
    for _ in range(2):
        got = run(run_code, env={**os.environ, "LD_LIBRARY_PATH": str(tmp_path)}).stdout.splitlines()
        assert got[1] == want[1]
        ours = [p for p in eval(got[0]) if p.startswith(str(tmp_path))]
        assert len(ours) == len(paths)
        for out in tmp_path.iterdir():
            run(["strip", out])
