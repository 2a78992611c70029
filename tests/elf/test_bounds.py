# SPDX-License-Identifier: MIT
"""What a file may cost (docs/security.md): small files whose headers claim the largest things, and
the bounds themselves, which end a file that is made so that something takes long.

No clock decides here: memory is what the kernel allows, time is the tool's own bound."""
import re
import os
import random
import struct
import subprocess

import pytest

import mutate
from conftest import run

SOURCE = """
__attribute__((section("etched"))) int v = 3;
extern int g(int);
int f(int x) { switch (x) { case 0: return g(1); case 1: return g(7)+v; case 2: return 5; case 3: return g(9)*3;
	case 4: return g(x)-8; case 5: return 8; } return v; }
int g(int x) { return x * v; }
void _start(void) { f(1); for (;;); }
"""
CXX = """
extern "C" void g(); extern "C" int h();
struct S { ~S(); };
extern "C" int f() { S s; try { g(); } catch (int i) { return i; } return h(); }
"""
MEMORY = 64 << 20  # of private writable memory, for files of some KB: a quarter of what they may have
SECONDS = 10       # of CPU time, the bound


@pytest.fixture(scope="module")
def small(tmp_path_factory, etch):
    """Files of 1 to 12 KB: an object, one with compressed DWARF, one with landing pads; a library, and
    one that has been rewritten."""
    tmp = tmp_path_factory.mktemp("small")
    files = {n: tmp / n for n in ("object.o", "debug.o", "throws.o", "library.so", "rewritten.so")}

    def compile(out, language, source, *flags):
        run(["gcc", "-O2", "-fcf-protection=none", "-x", language, "-o", out, *flags, "-"], input=source)

    compile(files["object.o"], "c", SOURCE, "-c")
    compile(files["debug.o"], "c", SOURCE, "-c", "-g", "-gz")
    compile(files["throws.o"], "c++", CXX, "-c")
    compile(files["library.so"], "c", SOURCE, "-shared", "-fPIC", "-nostdlib", "-Wl,-z,noseparate-code")
    run([etch, "rewrite", "-o", files["rewritten.so"], files["library.so"]])
    assert files["object.o"].stat().st_size < 2500
    return {n: p.read_bytes() for n, p in files.items()}


# A program that sets them: preexec_fn would have a copy of this process made each time.
LIMITED = ["prlimit", f"--data={MEMORY}", f"--cpu={SECONDS}", f"--fsize={MEMORY}"]


COMMANDS = [["rewrite", "-o", "OUT"], ["check"], ["inspect", "orc"], ["inspect", "sites"], ["inspect", "tables"],
            ["inspect", "summary"], ["inspect", "code", "f"], ["diff", "OLD"], ["rewrite", "--undo", "-o", "OUT"],
            ["rewrite", "--only", "orc", "--encoding", "orc", "-o", "OUT"]]


def check_cheap(etch, tmp_path, data, what, commands=COMMANDS, original=None, name="small"):
    """An answer, or one line that refuses; and it was never about memory."""
    path, out, old = tmp_path / name, tmp_path / "out", tmp_path / "old"
    path.write_bytes(data)
    old.write_bytes(original or data)
    for command in commands:
        argv = [{"OUT": str(out), "OLD": str(old)}.get(a, a) for a in command]
        p = subprocess.run([*LIMITED, etch, *argv, path], capture_output=True)
        said = p.stderr.decode(errors="replace")
        assert p.returncode in (0, 1, 2), (what, command, p.returncode, said)
        assert "memory" not in said and "too large" not in said, (what, command, said)
        assert len(p.stdout) < 1 << 20, (what, command)
        assert not out.exists() or out.stat().st_size <= 16 * len(data) + (4 << 20), (what, command)
        out.unlink(missing_ok=True)


def extremes(width, size):
    top = 1 << 8 * width
    some = [0, 1, 0xff, size, top - 1, top // 2, top // 2 - 1, top - 8, top - 4096, top - size]
    some += [1 << 20, 1 << 30, 0x7ffffff0] if width >= 4 else [0xff00, 0xfff0]
    some += [1 << 32, 1 << 36, 1 << 40, 1 << 47, 1 << 62] if width == 8 else []
    return [v for v in some if 0 <= v < top]


@pytest.mark.parametrize("name", ["object.o", "debug.o", "throws.o", "library.so", "rewritten.so"])
def test_field_at_extremes(etch, tmp_path, small, name):
    """Single fields of all headers and tables; two of the commands each, in turn."""
    data, rng = small[name], random.Random(name)
    fields = [(o, w) for g in mutate.fields_find(data).values() for o, w in g]
    count = int(os.environ.get("ETCH_MUTANTS", 600)) // 6
    for i in range(count):
        offset, width = rng.choice(fields)
        value = rng.choice(extremes(width, len(data)))
        mutant = data[:offset] + value.to_bytes(width, "little") + data[offset + width:]
        commands = [COMMANDS[i % len(COMMANDS)], COMMANDS[(i // 3) % 3]]
        check_cheap(etch, tmp_path, mutant, f"{name} {offset:#x}: {value:#x}", commands, data)


def patched(data, *changes):
    data = bytearray(data)
    for offset, code, value in changes:
        struct.pack_into(code, data, offset, value)
    return bytes(data)


def header_of(data, wanted):
    """Offset of a section's header, and of its contents."""
    shoff, = struct.unpack_from("<Q", data, 40)
    shnum, strndx = struct.unpack_from("<HH", data, 60)
    names, = struct.unpack_from("<Q", data, shoff + 64 * strndx + 24)
    for i in range(1, shnum):
        at = names + struct.unpack_from("<I", data, shoff + 64 * i)[0]
        if data[at:data.index(0, at)].decode() == wanted:
            return shoff + 64 * i, struct.unpack_from("<Q", data, shoff + 64 * i + 24)[0]
    raise KeyError(wanted)


BIG = [1 << 31, (1 << 32) - 1, 1 << 40, 1 << 62, (1 << 64) - 1]


@pytest.mark.parametrize("big", BIG, ids=hex)
def test_claims(etch, tmp_path, small, big):
    """Several fields that go together."""
    o, so = small["object.o"], small["library.so"]
    shoff, = struct.unpack_from("<Q", o, 40)
    text, _ = header_of(o, ".text")
    cases = {
        "extended number of sections": patched(o, (60, "<H", 0), (shoff + 32, "<Q", big)),
        "extended index of names": patched(o, (62, "<H", 0xffff), (shoff + 40, "<I", big & 0xffffffff)),
        "code without contents": patched(o, (text + 4, "<I", 8), (text + 32, "<Q", big)),
        "segments with much memory": patched(so, *((64 + 56 * i + 40, "<Q", big) for i in range(3))),
        "segments far away": patched(so, *((64 + 56 * i + 16, "<Q", big & ~0xfff) for i in range(3))),
        "code far away": patched(so, (header_of(so, ".text")[0] + 16, "<Q", big)),
        "functions without end": patched(o, *((header_of(o, ".symtab")[1] + 24 * i + 16, "<Q", big) for i in range(1, 7))),
    }
    debug, chdr = small["debug.o"], header_of(small["debug.o"], ".debug_line")[1]
    cases["compressed section"] = patched(debug, (chdr + 8, "<Q", big), (chdr + 16, "<Q", 1))
    undo = header_of(small["rewritten.so"], ".etch.undo")[1]
    for field in (8, 16, 24):
        cases[f"undo record {field}"] = patched(small["rewritten.so"], (undo + field, "<Q", big))
    throws, lsda = small["throws.o"], header_of(small["throws.o"], ".gcc_except_table")[1]
    for at in range(2, 6):
        leb = b"\xff" * 9 + b"\x7f"
        cases[f"LEB128 {at}"] = throws[:lsda + at] + leb + throws[lsda + at + len(leb):]
    for what, data in cases.items():
        check_cheap(etch, tmp_path, data, what)


@pytest.mark.parametrize("size", [b"9999999999", b"4294967296", b"0         ", b"-1        ", b"1e9       "])
def test_archive_claims(etch, tmp_path, small, size):
    """Of a member, and of a table of names."""
    for name in (b"a.o/", b"//", b"/SYM64/", b"#1/99999", b"/9999999"):
        header = name.ljust(16) + b"0".ljust(12) + b"0".ljust(6) + b"0".ljust(6) + b"644".ljust(8) + size + b"`\n"
        for magic in (b"!<arch>\n", b"!<thin>\n"):
            check_cheap(etch, tmp_path, magic + header + small["object.o"], f"{magic} {name} {size}",
                        [["check"], ["diff", "OLD"], ["rewrite"]], name="small.a")


def test_code_far_apart(etch, tmp_path, small):
    """An unwind table has some bytes for each 256 from the first code to the last: not for gaps of gigabytes."""
    path = tmp_path / "apart.so"
    so = small["library.so"]
    path.write_bytes(patched(so, (header_of(so, ".plt")[0] + 16, "<Q", 0xffffff00)))
    p = run([etch, "rewrite", path])
    assert "ETCH-T005: .plt+0x0: 48 bytes of code" in p.stderr and len(p.stderr.splitlines()) == 1
    assert path.stat().st_size < 4 * len(so)


def section_headers(data, count, offset, size, align=1):
    """The object with `count` sections more, all with the same contents."""
    shoff, = struct.unpack_from("<Q", data, 40)
    shnum, = struct.unpack_from("<H", data, 60)
    one = struct.pack("<IIQQQQIIQQ", 0, 1, 6, 0, offset, size, 0, 0, align, 0)
    headers = data[shoff:shoff + 64 * shnum] + one * count
    data += b"\0" * (-len(data) % 8)
    return patched(data + headers, (40, "<Q", len(data)), (60, "<H", shnum + count))


def test_sections_that_overlap(etch, tmp_path, small):
    data = section_headers(small["object.o"], 1000, 64, 60000)
    path = tmp_path / "overlap.o"
    path.write_bytes(data)
    p = run([etch, "rewrite", path], ok=2)
    assert "malformed section headers: they describe" in p.stderr and len(p.stderr.splitlines()) == 1
    # A few that do are nobody's business.
    path.write_bytes(section_headers(small["object.o"], 4, 64, 16))
    run([etch, "rewrite", path])


def test_alignments(etch, tmp_path, small):
    """Alignments are kept, and do not blow the file up: assemblers up to binutils 2.43 align file offsets to them, later ones
    do not."""
    path = tmp_path / "aligned.o"
    for count, align in ((200, 1 << 20), (1, 1 << 40), (3, 1 << 63)):
        path.write_bytes(section_headers(small["object.o"], count, 64, 1, align))
        run([etch, "rewrite", path])
        assert path.stat().st_size < 2 * len(small["object.o"]) + (count + 2) * (4096 + 256)
        headers = run(["readelf", "-SW", path]).stdout
        assert len(re.findall(rf" {align}$", headers, re.M)) == count, headers
    run(["gcc", "-x", "c", "-c", "-o", path, "-"], input='__asm__(".p2align 21\\n nop\\n.data\\n.p2align 21\\n.long 1\\n"); ' + SOURCE)
    size = path.stat().st_size
    run([etch, "rewrite", path])
    assert path.stat().st_size < size + 100_000
    run(["ld", "-r", "-o", tmp_path / "again.o", path])
    # As later assemblers write it: at no multiple of its alignment.
    data = section_headers(small["object.o"], 1, 64, 1, 1 << 21)
    path.write_bytes(data)
    run([etch, "rewrite", path])
    assert path.stat().st_size < len(data) + 100_000


PLT_FDES = """
	.text
	.globl _start
_start:	nop
	nop
	ret
	.section .eh_frame,"a",@progbits
c:	.long d-c-4, 0
	.byte 1
	.asciz "zR"
	.byte 1, 0x78, 0x10, 1, 0x1b, 0x0c, 7, 8, 0x90, 1, 0, 0
d:
	.rept 400
1:	.long 3f-2f
2:	.long 2b-c, _start-., 0x0fffffff
	.byte 0, 0x0f, 11, 0x77, 8, 0x80, 0, 0x3f, 0x1a, 0x3b, 0x2a, 0x33, 0x24, 0x22, 0, 0
3:
	.endr
	.long 0
"""


def test_plt_without_end(etch, tmp_path):
    """A PLT's rule has two rows for each 16 bytes, here of 256 MB that are not there: etch check once
    made them all, FDE after FDE."""
    path = tmp_path / "plt"
    run(["gcc", "-nostdlib", "-static", "-s", "-Wl,--build-id=none,-z,noseparate-code", "-x", "assembler", "-o", path, "-"],
        input=PLT_FDES)
    check_cheap(etch, tmp_path, path.read_bytes(), "plt")


# ---- the bounds themselves ---------------------------------------------------------------

LIBC = "/lib/x86_64-linux-gnu/libc.so.6"


def bounded(etch, factors, *argv, ok=0):
    return run([etch, *argv], env=dict(os.environ, ETCH_BOUNDS=factors), ok=ok)


@pytest.mark.parametrize("command", [["check"], ["inspect", "orc"], ["rewrite", "-o", "OUT"], ["diff", LIBC]], ids=" ".join)
def test_time(etch, tmp_path, command):
    """0.00005 of a minute and a half, which no command needs less than on libc."""
    out = tmp_path / "out"
    p = bounded(etch, "0.00005,1", *[str(out) if a == "OUT" else a for a in command], LIBC, ok=2)
    assert "exceeds the CPU time limit of" in p.stderr and len(p.stderr.splitlines()) == 1, p.stderr
    assert LIBC in p.stderr and not list(tmp_path.iterdir())


def test_time_of_one_among_many(etch, tmp_path, small):
    """The worker ends, not the command."""
    path = tmp_path / "object.o"
    path.write_bytes(small["object.o"])
    # On a busy machine a small file takes longer, too: then the next limit is between the two.
    for limit in ("0.00005,1", "0.0002,1", "0.0008,1"):
        p = bounded(etch, limit, "check", "--format", "json", path, LIBC, path, ok=None)
        if p.stdout.count("exceeds the CPU time limit for its size") == 1:
            break
    assert p.returncode == 2 and p.stdout.count("exceeds the CPU time limit for its size") == 1
    assert p.stdout.count(str(path)) >= 2


@pytest.mark.parametrize("command", [["check"], ["inspect", "orc"], ["rewrite", "-o", "OUT"]], ids=" ".join)
def test_memory(etch, tmp_path, command):
    out = tmp_path / "out"
    command = [str(out) if a == "OUT" else a for a in command]
    p = bounded(etch, "1,0.01", *command, LIBC, ok=2)
    assert "out of memory" in p.stderr and len(p.stderr.splitlines()) == 1 and not list(tmp_path.iterdir())
    # With any amount there is an answer or the line.
    for factor in (0.005, 0.012, 0.02, 0.03, 0.04, 0.05):
        p = bounded(etch, f"1,{factor}", *command, LIBC, ok=None)
        assert p.returncode in (0, 1) or (p.returncode == 2 and "memory" in p.stderr), (factor, p.returncode, p.stderr)


def test_real_files_are_far_inside(etch, tmp_path):
    """A twentieth of the time would do, and a fifth of the memory."""
    for command in (["check"], ["rewrite", "-o", tmp_path / "out"]):
        p = bounded(etch, "0.1,0.2", *command, LIBC, ok=None)
        assert p.returncode in (0, 1), p.stderr
    bounded(etch, "none", "inspect", "summary", LIBC)
