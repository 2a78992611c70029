# SPDX-License-Identifier: MIT
"""Linked files that are made in less usual ways: rewritten they run as before, strip and
--undo included, or they are refused in one line with exit status 2 and stay as they are."""
import os
import shutil
import struct

import pytest

from conftest import DATA, INCLUDE, need, run

# A recursion, a thread-local variable, an ifunc (not with musl), a constructor, weak and versioned symbols of libc.
SOURCE = """
#include <stdio.h>
#include <stdlib.h>
static __thread int tl = 3;
static int order;
__attribute__((constructor)) static void first(void) { order = 5; }
#ifdef IFUNC
static int impl(int x) { return x + 1; }
static int (*pick(void))(int) { return impl; }
int f(int) __attribute__((ifunc("pick")));
#else
int f(int x);
__attribute__((noinline)) int f(int x) { return x + 1; }
#endif
#ifdef FAR
__attribute__((section(".far"), used)) int far = 7;
#endif
extern int absent(void) __attribute__((weak));
static int compare(const void *a, const void *b) { return *(const int *)a - *(const int *)b; }
__attribute__((noinline)) int g(int x)
{
	char b[64];
	int v[3] = { x, 2, 1 };

	qsort(v, 3, sizeof(v[0]), compare);
	snprintf(b, sizeof(b), "%d", v[2] * tl);
	return atoi(b) + (x > 3 ? g(x - 1) : 0) + (absent ? 1000 : 0);
}
int main(int c, char **v) { (void)v; printf("%d %d %d\\n", f(c), g(c + 9), order); return 0; }
"""
OUTPUT = "2 156 5\n"
IFUNC = ["-DIFUNC"]

# name: compiler and its options
LINKED = {
    "page-2M": ["gcc", *IFUNC, "-Wl,-z,max-page-size=0x200000"],
    "page-64K": ["gcc", *IFUNC, "-Wl,-z,max-page-size=0x10000"],
    "page-2M-nopie": ["gcc", *IFUNC, "-no-pie", "-Wl,-z,max-page-size=0x200000"],
    "page-2M-lld": ["clang", "-fuse-ld=lld", "-Wl,-z,max-page-size=0x200000"],
    "page-64K-gold": ["gcc", *IFUNC, "-fuse-ld=gold", "-Wl,-z,max-page-size=0x10000"],
    "static-pie": ["gcc", *IFUNC, "-static-pie"],
    "prelinked": ["gcc", *IFUNC, "-pie", "-Wl,-Ttext-segment=0x7f0000000000"],
    "based": ["gcc", *IFUNC, "-no-pie", "-Wl,-Ttext-segment=0x30000000"],
    "sysv-hash": ["gcc", *IFUNC, "-Wl,--hash-style=sysv"],
    "relr": ["gcc", *IFUNC, "-Wl,-z,pack-relative-relocs"],
    "no-relro": ["gcc", *IFUNC, "-Wl,-z,norelro"],
    "full-relro": ["gcc", *IFUNC, "-Wl,-z,now,-z,relro"],
    "no-separate-code": ["gcc", *IFUNC, "-Wl,-z,noseparate-code"],
    "no-build-id": ["gcc", *IFUNC, "-Wl,--build-id=none"],
    "emit-relocs-2M": ["gcc", *IFUNC, "-pie", "-Wl,--emit-relocs,-z,max-page-size=0x200000"],
    "static-pie-relr": ["gcc", *IFUNC, "-static-pie", "-Wl,-z,pack-relative-relocs,-z,max-page-size=0x200000"],
    "far": ["gcc", "-no-pie", "-DFAR", "-mcmodel=large", "-Wl,--section-start=.far=0x600000000"],
    "emit-relocs": ["gcc", *IFUNC, "-g", "-no-pie", "-Wl,--emit-relocs"],
    "compressed-debug": ["gcc", *IFUNC, "-g", "-gz"],
    "musl": ["musl-gcc"],
    "musl-static": ["musl-gcc", "-static"],
}
# Neither is needed for anything else here: taken where they are installed.
if os.environ.get("ETCH_TESTS") == "all" and shutil.which("llvm-bolt-16"):
    # No ifunc: of what llvm-bolt 16 makes of one in a dynamic program, not even that runs.
    LINKED["bolted"] = ["gcc", "-no-pie", "-Wl,--emit-relocs"]
    LINKED["bolted-pie"] = ["gcc", "-pie", "-Wl,--emit-relocs"]


@pytest.fixture
def source(tmp_path):
    path = tmp_path / "odd.c"
    path.write_text(SOURCE)
    return path


def linked(tmp_path, source, kind):
    out = tmp_path / "odd"
    need(LINKED[kind][0])
    run([*LINKED[kind], "-O2", "-o", out, source])
    if kind.startswith("bolted"):
        run(["llvm-bolt-16", out, "-o", tmp_path / "b", "-reorder-blocks=ext-tsp"])
        (tmp_path / "b").replace(out)
    return out


def words(path):
    """What eu-elflint says, without the places."""
    text = run(["eu-elflint", "--gnu-ld", path], ok=None).stdout
    return sorted(line.split("]", 1)[-1].strip().split(":")[-1] for line in text.splitlines())


@pytest.mark.parametrize("kind", LINKED)
def test_linked(etch, tmp_path, source, kind):
    exe = linked(tmp_path, source, kind)
    before = exe.read_bytes()
    assert run([exe]).stdout == OUTPUT
    lint = words(exe)
    run([etch, "rewrite", exe])
    assert exe.read_bytes() != before
    assert run([exe]).stdout == OUTPUT
    assert set(words(exe)) <= set(lint)
    assert not run(["readelf", "-aW", exe]).stderr
    rows = run([etch, "inspect", "orc", "--format", "tsv", exe]).stdout.splitlines()
    assert len(rows) > 30 and {r.split("\t")[5] for r in rows[1:]} >= {"call"}
    strips = not kind.startswith("bolted")  # llvm-bolt's program headers are in no section: strip moves what is behind
    bare = shutil.copy(exe, tmp_path / "bare")
    if strips:
        run(["strip", bare])
        assert run([bare]).stdout == OUTPUT
    if kind == "musl-static":  # no .eh_frame: without names less is known than when the table was made
        assert "ETCH-T003" not in run([etch, "check", bare], ok=None).stdout
    run([etch, "rewrite", "--undo", exe])
    assert exe.read_bytes() == before
    if not strips:
        return
    # Stripped first: the code has the same rows.
    run(["strip", exe])
    run([etch, "rewrite", exe])
    assert run([exe]).stdout == OUTPUT


def refused(etch, path, why):
    before = path.read_bytes()
    p = run([etch, "rewrite", path], ok=2)
    assert p.stderr == f"etch: {path}: {why}\n" and not p.stdout
    assert path.read_bytes() == before
    return p


@pytest.mark.parametrize("tool", ["objcopy", "eu-strip"])
def test_debug_files(etch, tmp_path, source, tool):
    """The debug file is refused, whatever made it; the program finds it as before, rewritten
    before or after the two were parted."""
    exe = tmp_path / "odd"
    run(["gcc", "-O2", "-g", *IFUNC, "-o", exe, source])
    first = shutil.copy(exe, tmp_path / "first")
    run([etch, "rewrite", first])
    for path in (exe, first):
        debug = path.with_suffix(".debug")
        if tool == "objcopy":
            run(["objcopy", "--only-keep-debug", path, debug])
            run(["strip", path])
            run(["objcopy", f"--add-gnu-debuglink={debug}", path])
        else:
            run(["eu-strip", "-f", debug, path])
        refused(etch, debug, "is a debug file: the code is in the file that it describes")
    run([etch, "rewrite", exe])
    for path in (exe, first):
        assert run([path]).stdout == OUTPUT
        text = run(["gdb", "-nx", "-batch", "-ex", "break g if x == 5", "-ex", "run", "-ex", "backtrace", path]).stdout
        assert text.count(" g (x=") + text.count(", g (x=") >= 6 and "in main (" in text and "odd.c:" in text


def header(path, out, **fields):
    """A copy with other fields in its ELF header."""
    at = {"osabi": (7, "B"), "e_type": (16, "H"), "e_entry": (24, "Q"), "e_phentsize": (54, "H"), "e_phnum": (56, "H"), "e_shoff": (40, "Q"), "e_shnum": (60, "H"), "e_shstrndx": (62, "H"), "e_machine": (18, "H")}
    data = bytearray(path.read_bytes())
    for name, value in fields.items():
        struct.pack_into("<" + at[name][1], data, at[name][0], value)
    out.write_bytes(data)
    out.chmod(0o755)
    return out


def test_refused(etch, tmp_path, source):
    exe = tmp_path / "odd"
    run(["gcc", "-O2", *IFUNC, "-o", exe, source])
    # As packers leave it (UPX 4.2.3 does): it runs, but nothing says what is where.
    packed = header(exe, tmp_path / "packed", e_shoff=0, e_shnum=0, e_shstrndx=0)
    assert run([packed]).stdout == OUTPUT
    refused(etch, packed, "has no section headers: etch needs them to find its tables")
    refused(etch, header(exe, tmp_path / "core", e_type=4), "is not an object, program or library (e_type 4)")
    refused(etch, header(exe, tmp_path / "arm", e_machine=183), "is for another machine (e_machine 183): etch supports only x86-64")
    refused(etch, header(exe, tmp_path / "odd-entries", e_phentsize=64), "has program headers of 64 bytes, not 56")


def test_private_formats(etch, tmp_path, source):
    """Wasmtime's compiled modules are objects of OS/ABI 200, and Wasmtime loads none with a section that it does not know."""
    o = tmp_path / "o.o"
    run(["gcc", "-O2", *IFUNC, "-c", "-o", o, source])
    for osabi in (64, 97, 200, 254):
        refused(etch, header(o, tmp_path / "module", osabi=osabi), f"is in the private format of another program (OS/ABI {osabi})")
    for osabi in (0, 3, 9, 255):  # System V, GNU, FreeBSD, standalone
        run([etch, "rewrite", header(o, tmp_path / "branded", osabi=osabi)])


def test_private_formats_in_a_directory(etch, tmp_path, source):
    """They are passed over, as other files that are not for etch are; the rest of the directory is rewritten."""
    o, files = tmp_path / "o.o", tmp_path / "files"
    run(["gcc", "-O2", *IFUNC, "-c", "-o", o, source])
    files.mkdir()
    module = header(o, files / "module", osabi=200)
    before = module.read_bytes()
    shutil.copy(o, files / "object")
    run([etch, "rewrite", files])
    assert module.read_bytes() == before and (files / "object").read_bytes() != o.read_bytes()


def test_headers_that_are_something_else_too(etch, tmp_path, source):
    """They are written anew, and what else is there would be lost."""
    exe = tmp_path / "odd"
    run(["gcc", "-O2", *IFUNC, "-o", exe, source])
    refused(etch, header(exe, tmp_path / "begins", e_entry=64), "the entry point is inside the headers")
    # One header too many: it is code, and looks like one that nobody uses.
    longer = shutil.copy(DATA / "fuzz" / "rewrite" / "found-code-in-headers", tmp_path / "longer")
    refused(etch, longer, "section 1 overlaps the program headers")


def test_numbers_that_look_like_addresses(etch, tmp_path):
    """At addresses as low as these, distances in etch's own tables do. Rewritten twice, and it is the same."""
    (tmp_path / "low.c").write_text("#include <etch/imv.h>\nETCHED struct { int v; char space[1 << 17]; } s = { 3 };\n"
                                    "char behind[1 << 16];\nint main(void) { return s.v - 3; }\n")
    exe = tmp_path / "low"
    run(["gcc", "-O2", "-no-pie", f"-I{INCLUDE}", "-Wl,-Ttext-segment=0x10000,--unresolved-symbols=ignore-all", "-o", exe,
         tmp_path / "low.c"])
    run([etch, "rewrite", exe])
    once = exe.read_bytes()
    run([etch, "rewrite", exe])
    assert exe.read_bytes() == once


def sparse(path, out, size):
    """A copy with a section more, of so many bytes that nobody has written, in front of its section
    headers."""
    data = bytearray(path.read_bytes())
    shoff, = struct.unpack_from("<Q", data, 40)
    shnum, strndx = struct.unpack_from("<HH", data, 60)
    headers, at = bytes(data[shoff:shoff + 64 * shnum]), (shoff + 4095) & ~4095
    end = (at + size + 4095) & ~4095
    name, = struct.unpack_from("<I", headers, 64 * strndx)
    struct.pack_into("<Q", data, 40, end)
    struct.pack_into("<H", data, 60, shnum + 1)
    with open(out, "wb") as f:
        f.write(data[:shoff])
        f.seek(end)
        f.write(headers + struct.pack("<IIQQQQIIQQ", name, 1, 0, 0, at, size, 0, 0, 4096, 0))
    out.chmod(0o755)
    return out


def test_a_file_with_holes(etch, tmp_path, source):
    """What nobody has written takes no space afterwards either; offsets have more than 32 bits."""
    exe = tmp_path / "odd"
    run(["gcc", "-O2", *IFUNC, "-o", exe, source])
    size = 4400 << 20 if os.environ.get("ETCH_TESTS") == "all" else 24 << 20
    big, new = sparse(exe, tmp_path / "big", size), tmp_path / "new"
    if big.stat().st_blocks * 512 > 1 << 20:
        pytest.skip("no holes on this file system")
    run([etch, "rewrite", "-o", new, big])
    assert run([new]).stdout == OUTPUT and size < new.stat().st_size < size + (1 << 20)
    assert new.stat().st_blocks * 512 < 4 << 20
    assert not run(["readelf", "-aW", new]).stderr
    run([etch, "rewrite", "--undo", new])
    run(["cmp", new, big])
    assert new.stat().st_blocks * 512 < 4 << 20


def test_a_core_file(etch, tmp_path):
    """A real one, of gdb's."""
    core = tmp_path / "core"
    run(["gdb", "-nx", "-batch", "-ex", "set startup-with-shell off", "-ex", "starti", "-ex", f"generate-core-file {core}", "/bin/true"])
    refused(etch, core, "is not an object, program or library (e_type 4)")


# Its rows: objtool's, by the numbers of Linux before 6.4 and from then on, which are etch's own too; none.
@pytest.mark.parametrize("row,why", [
    ("8, 0, 0x185", "has .orc_unwind entries that are not etch's: --only imv leaves them alone"),
    ("8, 0, 0x205", "has .orc_unwind entries that are not etch's: --only imv leaves them alone"),
    (None, "is a kernel module, and the kernel would take .orc_unwind for its own: --only imv adds none")])
def test_kernel_module(etch, tmp_path, row, why):
    """The kernel reads the rows: they are left alone."""
    arrays = f'.section .orc_unwind,"a"\n.short {row}\n.section .orc_unwind_ip,"a"\n.long init_module - .\n' if row else ""
    (tmp_path / "k.s").write_text('.globl init_module\n.type init_module,@function\ninit_module: xor %eax,%eax\nret\n'
                                  '.section .modinfo,"a"\n.string "license=GPL"\n'
                                  '.section .gnu.linkonce.this_module,"aw"\n.zero 64\n' + arrays)
    run(["as", "-o", tmp_path / "k.ko", tmp_path / "k.s"])
    refused(etch, tmp_path / "k.ko", why)
    before = (tmp_path / "k.ko").read_bytes()
    run([etch, "rewrite", "--only", "imv", tmp_path / "k.ko"])
    assert (tmp_path / "k.ko").read_bytes() == before


def test_data_behind_an_object(etch, tmp_path):
    """The kernel finds a module's signature at the end of the file: it would be neither there nor valid."""
    (tmp_path / "k.c").write_text("__attribute__((section(\"etched\"))) int v = 5;\nint f(void) { return v; }\n")
    module = tmp_path / "k.ko"
    run(["gcc", "-O2", "-c", "-o", module, tmp_path / "k.c"])
    plain = module.read_bytes()
    module.write_bytes(plain + b"signature~Module signature appended~\n")
    refused(etch, module, f"data after the last section (at offset {len(plain):#x}) that no header describes: "
                          "rewrite before signing")
    module.write_bytes(plain + bytes(3))  # padding
    run([etch, "rewrite", module])
    run([etch, "rewrite", "--undo", module])
    assert module.read_bytes() == plain + bytes(3)


def many_sections(tmp_path, count):
    text = "".join(f'.section .text.f{i},"ax",@progbits\n.globl f{i}\n.type f{i},@function\nf{i}: lea {i}(%rdi),%eax\nret\n'
                   f".size f{i},.-f{i}\n" for i in range(count))
    (tmp_path / "many.s").write_text(text)
    run(["as", "-o", tmp_path / "many.o", tmp_path / "many.s"])
    return tmp_path / "many.o"


def test_more_sections_than_16_bits_count(etch, tmp_path):
    """An object, and a program whose linker keeps all of them."""
    count = 66000
    obj = many_sections(tmp_path, count)
    (tmp_path / "main.c").write_text("#include <stdio.h>\nint f3(int), f65999(int);\n"
                                     'int main(void) { printf("%d %d\\n", f3(1), f65999(1)); return 0; }\n')
    (tmp_path / "keep.ld").write_text("SECTIONS {\n" + "".join(f".text.f{i} : {{ *(.text.f{i}) }}\n" for i in range(count))
                                      + "} INSERT AFTER .text;\n")
    plain = tmp_path / "plain"
    if os.environ.get("ETCH_TESTS") == "all":  # the linker's time, a minute
        run(["gcc", "-O2", "-no-pie", "-o", plain, tmp_path / "main.c", obj, f"-Wl,-T,{tmp_path / 'keep.ld'}"], timeout=900)
        run([etch, "rewrite", plain])
        assert run([plain]).stdout == "4 66000\n"
    run([etch, "rewrite", "--only", "imv,pv", obj])
    run(["gcc", "-O2", "-o", plain, tmp_path / "main.c", obj])
    run([etch, "rewrite", plain])
    assert run([plain]).stdout == "4 66000\n"


def test_an_object_has_space_for_the_table_that_it_has(etch, tmp_path):
    """Each section of code has three sections of the table. If they were counted again there would be
    no space for them, and the table would go."""
    obj = many_sections(tmp_path, 8200)
    run([etch, "rewrite", "--only", "orc", obj])
    once = obj.read_bytes()
    assert run(["readelf", "-SW", obj]).stdout.count(" .orc_unwind ") == 8200
    done = run([etch, "rewrite", "--only", "orc", obj])
    assert not done.stderr and obj.read_bytes() == once


def test_a_symbol_table_of_many(etch, tmp_path):
    count = 1000000 if os.environ.get("ETCH_TESTS") == "all" else 100000
    (tmp_path / "syms.s").write_text(".data\n" + "".join(f"symbol_{i}: .byte 1\n" for i in range(count)))
    run(["as", "-o", tmp_path / "syms.o", tmp_path / "syms.s"])
    (tmp_path / "main.c").write_text('#include <stdio.h>\nint main(void) { puts("many"); return 0; }\n')
    exe = tmp_path / "exe"
    run(["gcc", "-O2", "-o", exe, tmp_path / "main.c", tmp_path / "syms.o"])
    symbols = run(["readelf", "-sW", exe]).stdout
    run([etch, "rewrite", exe])
    assert run([exe]).stdout == "many\n" and run(["readelf", "-sW", exe]).stdout == symbols
