# SPDX-License-Identifier: MIT
"""Small inputs to begin with, made by compilers from the sources below and by etch itself:
seeds.py BUILD DIR puts them into DIR/TARGET/. BUILD has an etch, in whatever flavour."""
import struct
import subprocess
import sys
from pathlib import Path

TESTS = Path(__file__).resolve().parent.parent
INCLUDE = TESTS.parent / "lib" / "include"

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


def run(*argv, stdin=None):
    subprocess.run([str(a) for a in argv], check=True, input=stdin, text=True, stderr=subprocess.DEVNULL)


def files_make(etch, tmp):
    """ELF files, rewritten and not."""
    made = []
    small = ["-nostdlib", "-Wl,-z,noseparate-code", "-Wl,--build-id=none"]

    def keep(name, cc, language, source, *flags):
        path = tmp / name
        run(cc, "-w", f"-I{INCLUDE}", "-x", language, "-o", path, *flags, "-", stdin=source)
        made.append(path)
        for tag, options in (("block", []), ("orc", ["--encoding", "orc"])):
            out = tmp / f"{name}-{tag}"
            p = subprocess.run([etch, "rewrite", *options, "-o", out, path], stderr=subprocess.DEVNULL)
            if p.returncode == 0 and (tag == "block" or not name.endswith(".o")):
                made.append(out)

    for cc in ("gcc", "clang"):
        keep(f"{cc}-sites.o", cc, "c", SITES, "-O2", "-c")
        keep(f"{cc}-debug.o", cc, "c", PLAIN, "-O1", "-g", "-gz", "-c")
        keep(f"{cc}-throws.o", cc, "c++", THROWS, "-O2", "-c")
        keep(f"{cc}-plain.so", cc, "c", PLAIN, "-O2", "-shared", "-fPIC", *small)
        keep(f"{cc}-sites", cc, "c", SITES, "-O2", "-static-pie", "-fPIE", "-Wl,--unresolved-symbols=ignore-all", *small)
        keep(f"{cc}-plain", cc, "c", PLAIN, "-O0", "-static", "-s", *small)
    return made


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
            yield target, found[section]
    if found.get(".text"):
        for options in (b"\1", b"\7"):
            yield "code", options + found[".text"]
    if found.get(".orc_lookup"):
        lookup, rows = found[".orc_lookup"], found[".orc_unwind"]
        blocks = len(lookup) // 4 - 1
        yield "orc", bytes([blocks, 0, 0, len(rows) // 6]) + lookup + found[".orc_unwind_ip"] + rows
    # The descriptor of a module, no tables but __imv behind it.
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
    for kind in ("rcs", "rcsT"):
        run("ar", kind, directory / "archive" / f"lib{kind}.a", files[1], files[0])


if __name__ == "__main__":
    main()
