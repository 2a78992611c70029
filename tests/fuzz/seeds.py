# SPDX-License-Identifier: MIT
"""Small inputs to begin with, made by compilers from the sources below and by etch itself:
seeds.py BUILD DIR puts them into DIR/TARGET/. BUILD has an etch, in whatever flavour."""
import struct
import subprocess
import sys
from pathlib import Path

TESTS = Path(__file__).resolve().parent.parent
DATA = TESTS / "data"
INCLUDE = TESTS.parent / "lib" / "include"
sys.path.insert(0, str(TESTS))

SITES = """
#include <etch/imv.h>
#include <etch/extable.h>
ETCHED int v = 3;
struct ops { int (*go)(int); };
static int g(int x) { return x * v; }
struct ops ops ETCHED = { g };
int read_int(const int *p)
{
	int err = 0, out;
	__asm__ __volatile__("2: movl %2, %1\\n3:\\n\\t" ETCH_EX_EFAULT("2b", "3b", "%0") : "+r"(err), "=r"(out) : "m"(*p));
	return err ? err : out;
}
int f(int x)
{
	switch (x) {
	case 0: return g(1);
	case 1: return ops.go(7) + v;
	case 2: return 5;
	case 3: return g(9) * 3;
	case 4: return g(x) - 8;
	case 5: return read_int(&v);
	}
	return v;
}
void _start(void) { f(1); for (;;); }
"""
MARKS = """
#include <etch/mark.h>
DEFINE_IMV(int, v) = 3;
int f(int x, char *s) { ETCH_MARK(begun, x, s); if (imv_unlikely(v)) return 1; ETCH_MARK(ended); return x; }
int main(int c, char **a) { return f(c, *a); }
"""
PLAIN = """
extern int g(int), h(char *);
int f(int n) { char a[n]; return h(a) + g(n); }
int k(int x) { return x > 3 ? g(x) : k(x + 1) + 1; }
int g(int x) { __builtin_alloca(x); return x; }
int h(char *a) { return a[0]; }
void _start(void) { for (;;) f(2); }
"""
THROWS = """
extern "C" void g(); extern "C" int h();
struct S { ~S(); };
extern "C" int f() { S s; try { g(); } catch (int i) { return i; } return h(); }
"""

# A module of the kernel's: its tables, those of objtool's rows among them.
KERNEL = (DATA / "kernel" / "code.s").read_text() + """
	.section .modinfo, "a"
	.asciz "vermagic=6.1.0 SMP mod_unload "
	.section .altinstructions, "a"
	.long 3b - ., 6b - .
	.short 4*32+23
	.byte 5, 4
	.section __ex_table, "a"
	.long 4b - ., 5b - ., 17 | 2 << 8 | 1 << 12
	.section __jump_table, "aw"
	.long 2b - ., 4b - .
	.quad key - .
	.section .static_call_sites, "aw"
	.long 3b - ., key - .
	.section .smp_locks, "a"
	.long 1b - .
	.section .retpoline_sites, "a"
	.long 3b - .
	.section __mcount_loc, "a"
	.quad f
	.section __bug_table, "aw"
	.long 1b - ., 7b - .
	.short 12, 1
	.section .parainstructions, "a"
	.quad 3b
	.byte 7, 5, 0, 0, 0, 0, 0, 0
	.section .orc_unwind_ip, "a"
	.long f - ., 1b - ., 5b - .
	.section .orc_unwind, "a"
	.short 8, 0, 0x205, 16, -16, 0x215, 8, 0, 0x205
"""
# Texts: the first byte says which reader gets them.
TEXTS = {
    "suppressions": b"\0# all of it\nETCH-S001:lib/*:parse_*  # known\nfalls-through:*.o # why not\n",
    "database": b"\2" + b'[{"directory":"sub","file":"a.c","command":"cc -c \\"a b.c\\" -o x.o"},'
                b'{"file":"b.c","arguments":["cc","-c","b.c"]},{"file":"c.c","output":"c.json"}]',
    "counts": b"\3version: 1\npart: 2\ndesc: LL cache: 8388608 B, 64 B, 16-way associative\nevents: Ir Dr Dw I1mr D1mr D1mw\n"
              b"fn=(1) main\n1 2 3\ntotals: 100 20 3\n\0==1== For interactive control\n==1== Collected : 100 20 3\n",
}


def run(*argv, stdin=None):
    subprocess.run([str(a) for a in argv], check=True, input=stdin, text=True, stderr=subprocess.DEVNULL)


def kernel_notes():
    """An object with the special sections that `etch objtool` reads."""
    import conftest  # noqa: F401 (it makes the folders of the tests importable)
    from test_objtool import everything
    return everything()


def kernel_code():
    """C and entry code with the same, of both releases, and gcc's options for them."""
    from test_objtool_judged import FLAGS, KERNEL as where, LINUX_6_12
    code = (where / "annotated.c").read_text()
    entry = (where / "entry.S").read_text()
    from test_objtool_ibt import SOURCE as ibt
    stack = (where / "stack.S").read_text()
    from test_objtool_annotations import EVERYTHING as all_annotations
    return [("annotations-7.2.o", "assembler", all_annotations, []), ("ibt.o", "assembler", ibt, []), ("stack.o", "assembler-with-cpp", stack, []), ("reached-6.12.o", "assembler-with-cpp", stack, ["-DREACHED", *LINUX_6_12]),
            ("annotated.o", "c", code, FLAGS), ("annotated-6.12.o", "c", code, FLAGS + LINUX_6_12),
            ("entry.o", "assembler-with-cpp", entry, FLAGS),
            ("entry-6.12.o", "assembler-with-cpp", entry, FLAGS + LINUX_6_12),
            ("access.o", "assembler-with-cpp", (where / "access.S").read_text(), FLAGS)]


def files_make(etch, tmp):
    """ELF files, rewritten and not."""
    made = []
    small = ["-nostdlib", "-Wl,-z,noseparate-code", "-Wl,--build-id=none"]

    def keep(name, cc, language, source, *flags):
        path = tmp / name
        run(cc, "-w", f"-I{INCLUDE}", "-x", language, "-o", path, *flags, "-", stdin=source)
        made.append(path)
        for tag, options in (("block", ["--registers"]), ("orc", ["--encoding", "orc"])):
            out = tmp / f"{name}-{tag}"
            p = subprocess.run([etch, "rewrite", *options, "-o", out, path], stderr=subprocess.PIPE, text=True)
            assert p.returncode == 0 or "kernel" in name, p.stderr
            if p.returncode == 0 and (tag == "block" or not name.endswith(".o")):
                made.append(out)

    for cc in ("gcc", "clang"):
        keep(f"{cc}-sites.o", cc, "c", SITES, "-O2", "-c")
        keep(f"{cc}-debug.o", cc, "c", PLAIN, "-O1", "-g", "-gz", "-c")
        keep(f"{cc}-throws.o", cc, "c++", THROWS, "-O2", "-c")
        keep(f"{cc}-plain.so", cc, "c", PLAIN, "-O2", "-shared", "-fPIC", *small)
        keep(f"{cc}-sites", cc, "c", SITES, "-O2", "-static-pie", "-fPIE", "-Wl,--unresolved-symbols=ignore-all", *small)
        keep(f"{cc}-plain", cc, "c", PLAIN, "-O0", "-static", "-s", *small)
    keep("notes.o", "gcc", "assembler", kernel_notes(), "-c")
    for name, language, source, flags in kernel_code():
        keep(name, "gcc", language, source, "-c", *flags)
    keep("kernel.o", "gcc", "assembler", KERNEL, "-c")
    keep("kernel", "gcc", "assembler", KERNEL.replace("vermagic=6.1.0", "Linux version 5.4.0"), *small, "-static", "-Wl,-e,f")
    return made


def structure_make(etch, tmp):
    """Those, and what the structural mutator (structure.c) begins with besides: all kinds of links, and archives.
    The library is not in them, so that they stay small; beside `etch` lies a libetch.so."""
    tmp.mkdir(parents=True, exist_ok=True)
    made = files_make(etch, tmp)
    dynamic = ["-I", INCLUDE, "-Wl,-z,noseparate-code", "-Wl,--unresolved-symbols=ignore-all"]
    main = SITES.replace("void _start(void) { f(1); for (;;); }", "int puts(const char *); int main(int c, char **v) { return puts(*v) + f(c); }")
    throws = THROWS.replace("int h();", "int h() { return 1; }") + "S::~S() { g(); }\n"

    def keep(name, cc, language, source, *flags, rewrite=True):
        run(cc, "-w", "-O2", "-x", language, *dynamic, "-o", tmp / name, "-", "-x", "none", *flags, stdin=source)
        made.append(tmp / name)
        for tag, options in (("block", []), ("orc", ["--encoding", "orc"])) if rewrite else ():
            run(etch, "rewrite", *options, "-o", tmp / f"{name}-{tag}", tmp / name)
            made.append(tmp / f"{name}-{tag}")

    armed = main.replace("read_int(&v);", "v;")  # v's address does not escape: its loads become immediates
    library = etch.parent / "libetch.so"
    keep("pie", "gcc", "c", main, library)
    keep("pie-no-hdr", "gcc", "c", armed, "-Wl,--no-eh-frame-hdr", library)
    keep("exe-lld", "gcc", "c", armed, "-no-pie", "-fuse-ld=lld", library)
    keep("debug", "clang", "c", main, "-g", library, rewrite=False)
    keep("throws.so", "g++", "c++", throws, "-shared", "-fPIC", "-nostdlib")
    # What etch makes for other tools, and static branches and markers.
    run(etch, "rewrite", "--sframe", "--fix-cfi", "-o", tmp / "pie-rows", tmp / "pie")
    run(etch, "rewrite", "--sframe=3", "--eh-frame", "-o", tmp / "plain-rows", tmp / "gcc-plain")
    made += [tmp / "pie-rows", tmp / "plain-rows"]
    for kind in ((), ("-c",)):
        run("gcc", "-w", "-O2", *dynamic, "-o", tmp / f"marks{len(kind)}", "-x", "c", *kind, "-", *([] if kind else ["-x", "none", library]), stdin=MARKS)
        run(etch, "rewrite", "-o", tmp / f"marks{len(kind)}-block", tmp / f"marks{len(kind)}")
        made += [tmp / f"marks{len(kind)}", tmp / f"marks{len(kind)}-block"]
    # Linked from a rewritten object: its tables are sections of the program.
    path = tmp / "two-steps"
    run("gcc", "-nostdlib", *dynamic, "-static-pie", "-o", path, tmp / "gcc-sites.o-block")
    run(etch, "rewrite", "-o", tmp / "two-steps-block", path)
    run(etch, "rewrite", "--no-undo", "-o", tmp / "two-steps-bare", path)
    import conftest  # noqa: F401
    from test_go import build as go_build
    go = [go_build(tmp, kind)[0] for kind in ("exe", "pie")]
    run(etch, "rewrite", "-o", tmp / "go-block", go[0])
    for kind in ("rcs", "rcsT"):
        run("ar", kind, tmp / f"lib{kind}.a", tmp / "gcc-plain", tmp / "gcc-throws.o", tmp / "clang-throws.o-block")
    return [*made, path, tmp / "two-steps-block", tmp / "two-steps-bare", *go, tmp / "go-block", tmp / "librcs.a", tmp / "librcsT.a"]


def sections(data):
    """{name: bytes}"""
    shoff, = struct.unpack_from("<Q", data, 40)
    shnum, strndx = struct.unpack_from("<HH", data, 60)
    names, = struct.unpack_from("<Q", data, shoff + 64 * strndx + 24)
    out = {}
    for i in range(1, shnum):
        name, kind = struct.unpack_from("<II", data, shoff + 64 * i)
        offset, size = struct.unpack_from("<QQ", data, shoff + 64 * i + 24)
        text = data[names + name:data.index(0, names + name)].decode()
        out[text] = data[offset:offset + size] if kind != 8 else b""
    return out


def parts(name, data):
    """(target, bytes) of what the targets take that do not take files."""
    found = sections(data)
    for section, target in ((".eh_frame", "cfi"), (".eh_frame_hdr", "cfi"), (".gcc_except_table", "lsda"),
                            (".etch.unwind", "block")):
        if found.get(section):
            yield target, found[section] + (found.get(".etch.registers", b"") if target == "block" else b"")
    if found.get(".text"):
        for options in (b"\1", b"\7"):
            yield "code", options + found[".text"]
    if found.get(".orc_lookup"):
        lookup, rows = found[".orc_lookup"], found[".orc_unwind"]
        blocks = len(lookup) // 4 - 1
        yield "orc", bytes([blocks, 0, 0, len(rows) // 6]) + lookup + found[".orc_unwind_ip"] + rows
    if found.get("__ex_table"):
        # Two pieces of code, entries in order or not, registered twice.
        yield "faults", struct.pack("<4BHHBHHB", 2, 64, 3, 0, 4096, 4096, 5, 12288, 8192, 4) + found["__ex_table"]
        yield "faults", struct.pack("<4BHHB", 1, 0, 1, 0, 1024, 16000, 5) + bytes(
            b for i in range(40) for b in struct.pack("<III", 0x2000 - 8 * i, 0x800 + i, 0x200 * (i % 2) + i % 2))
    # The descriptor of a module, no tables but __imv after it.
    yield "sites", struct.pack("<10H", 64, 12, 64, 0, 64, 0, 64, 0, 64, 0) + struct.pack(
        "<IHHIIqQqQqQ", 0x68637465, 1, 64, 0, 0, 0, 0, 0, 0, 0, 0) + found.get("__imv", b"").ljust(12, b"\0")[:12]


def main():
    etch, directory = Path(sys.argv[1]) / "etch", Path(sys.argv[2])
    tmp = directory / "files"
    tmp.mkdir(parents=True, exist_ok=True)
    files = files_make(etch, tmp)
    listing = [l.split("\"")[1] for l in (TESTS / "fuzz" / "targets.c").read_text().splitlines() if l.startswith("\t{\"")]
    whole = [l.split("\"")[1] for l in (TESTS / "fuzz" / "targets.c").read_text().splitlines() if l.endswith("true},")]
    for target in listing:
        (directory / target).mkdir(exist_ok=True)
    for path in files:
        data = path.read_bytes()
        for target in whole:
            (directory / target / path.name).write_bytes(data)
        for i, (target, piece) in enumerate(parts(path.name, data)):
            (directory / target / f"{path.name}-{i}").write_bytes(piece)
    for name, text in TEXTS.items():
        (directory / "texts" / name).write_bytes(text)
    report = subprocess.run([etch, "check", "--format", "json", "--level", "note", tmp / "gcc-plain"], stdout=subprocess.PIPE).stdout
    (directory / "texts" / "baseline").write_bytes(b"\1" + report)
    for kind in ("rcs", "rcsT"):
        run("ar", kind, directory / "archive" / f"lib{kind}.a", files[1], files[0])


if __name__ == "__main__":
    main()
