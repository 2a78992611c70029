# SPDX-License-Identifier: MIT
"""etch/cfi.h, tool/code/cfi_file.c, tool/code/lsda.c and lib/prepare.c: .eh_frame as
rows, beside pyelftools, which shares no code with them; hand-made entries of every
form; objects beside what they link to; mutants."""

import os
import re
import struct
import subprocess
import sys
from pathlib import Path

import pytest
from elftools.elf.elffile import ELFFile

from conftest import CXX, ROOT, run, tool_objects

HERE = Path(__file__).resolve().parent / "unwind"
sys.path.insert(0, str(HERE))
import rows  # noqa: E402

LIBDIR = Path("/usr/lib/x86_64-linux-gnu")
TOOL = ["code/cfi_file.c", "code/lsda.c", "code/space.c", "elf/file.c", "elf/bounds.c", "report/error.c", "report/plain.c"]
FLAGS = ["-std=gnu11", "-D_GNU_SOURCE", "-DETCH_NO_MODULE", "-g", "-Wall", "-Wextra", "-Werror", f"-I{ROOT / 'tool'}", f"-I{ROOT / 'lib'}",
         f"-I{ROOT / 'lib' / 'include'}"]
SANITIZE = ["-O1", "-fno-omit-frame-pointer", "-fsanitize=address,undefined", "-fno-sanitize-recover=undefined"]
SYSTEM = [LIBDIR / "libc.so.6", LIBDIR / "libstdc++.so.6", LIBDIR / "libcrypto.so.3", LIBDIR / "libgcrypt.so.20",
          Path("/lib64/ld-linux-x86-64.so.2"), Path("/usr/bin/python3.11"), Path("/usr/bin/bash"), Path("/usr/bin/openssl")]
SYSTEM = [p for p in SYSTEM if p.exists()]


def build_c(out, flags, *sources):
    run(["gcc", *FLAGS, *flags, *sources, "-lelf", "-ldl", "-o", out])
    return out


@pytest.fixture(scope="session")
def dump(tmp_path_factory, build_asan):
    """Under ASan and UBSan: a function that returns the lines of cfi_dump."""
    exe = build_c(tmp_path_factory.mktemp("cfi") / "cfi_dump", SANITIZE, HERE / "cfi_dump.c", *tool_objects(build_asan, *TOOL))

    def lines(mode, path):
        p = run([exe, mode, path])
        m = re.fullmatch(r"bad (\d+) dropped (\d+)\n", p.stderr)
        assert m, p.stderr
        lines.bad, lines.dropped = int(m.group(1)), int(m.group(2))
        return p.stdout.splitlines()

    return lines


# ---- real files -------------------------------------------------------------------

def representable(rule):
    return rows.pack_rule(rule)[14] != rows.KIND["undef"]


def check_against(truth, ours):
    c = rows.compare(truth, ours)
    for what, places in c.where.items():
        for start, end, t, o, why in places:
            if what == "undef":       # and rightly so
                assert not representable(t), (hex(start), hex(end), t, why)
            elif "behind an expression" in t[0]:  # pyelftools has no offset there
                assert what == "odd"
            else:                     # rbp in another register, or the like: only rbp is lost
                assert what in ("odd", "bp"), (what, hex(start), hex(end), t, o)
                assert (o[0], o[1], o[2]) == (t[0], "undef", t[2]) and not representable(t), (hex(start), t, o)
    assert c.covered == sum(c.bytes.values()) > 0
    assert c.bytes.get("equal", 0) >= 0.99 * c.covered
    return c


@pytest.mark.parametrize("path", SYSTEM, ids=lambda p: p.name)
def test_rows_are_those_of_pyelftools(dump, path):
    truth, fdes = rows.cfi_rows(path)
    check_against(truth, rows.parse_tsv(dump("rows", path)))
    assert dump.bad == 0 and dump.dropped == 0
    heads = [x.split("\t") for x in dump("fdes", path) if x[0] != " "]
    assert [(int(s, 16), int(e, 16)) for s, e, _ in heads] == sorted(fdes)


@pytest.fixture(scope="session")
def prepared(tmp_path_factory):
    return build_c(tmp_path_factory.mktemp("cfi") / "cfi_prepare", ["-O2"], HERE / "cfi_prepare.c",
                   ROOT / "lib" / "prepare.c")


@pytest.mark.parametrize("name", ["libc.so.6", "libstdc++.so.6", "libcrypto.so.3", "libgcrypt.so.20"])
def test_the_table_of_a_loaded_library(prepared, name):
    """Found at every address by the lookup of the block encoding."""
    path = LIBDIR / name
    if not path.exists():
        pytest.skip("not installed")
    check_against(rows.cfi_rows(path)[0], rows.parse_tsv(run([prepared, path]).stdout.splitlines()))


@pytest.mark.parametrize("name", ["libc.so.6", "libstdc++.so.6"])
def test_the_map_of_a_loaded_library(prepared, name):
    """Right behind every call that objdump sees, and used for nearly all of them."""
    returns, call = [], False
    for line in run(["objdump", "-d", "--no-show-raw-insn", LIBDIR / name]).stdout.splitlines():
        m = re.match(r" +([0-9a-f]+):\t(.*)", line)
        if m:
            if call:
                returns.append(m.group(1))
            call = re.match(r"((bnd|notrack|data16|rex\.W|addr32) )*call", m.group(2))
    out = run([prepared, "-m", LIBDIR / name], input="\n".join(returns) + "\n").stdout
    m = re.fullmatch(r"asked (\d+) direct (\d+)\n", out)
    assert m, out
    assert int(m.group(1)) == len(returns) > 10000 and int(m.group(2)) > 0.85 * len(returns)


def test_return_addresses_that_no_call_pushed(prepared):
    """The first addresses of what a signal, clone or makecontext returns to."""
    path = LIBDIR / "libc.so.6"
    truth, fdes = rows.cfi_rows(path)
    ends = [r[:2] for r in truth if r[2][3] in ("end", "signal")]
    assert len(ends) >= 3
    with open(path, "rb") as f:
        text = ELFFile(f).get_section_by_name(".text")
        code, base = text.data(), text["sh_addr"]
    # __start_context, which no symbol names: mov %rbx,%rsp
    fresh = [s for s, _ in fdes if code[max(s - base, 0):s - base + 3] == b"\x48\x89\xdc"]
    ends += [(s, s) for s in fresh]
    ask = "".join(f"{at:x}\n" for start, end in ends for at in range(start, end + 1))
    assert re.fullmatch(r"asked \d\d+ direct 0\n", run([prepared, "-m", path], input=ask).stdout)
    ours = {r[0]: r for r in rows.parse_tsv(run([prepared, path]).stdout.splitlines())}
    assert fresh and all(ours[s - 1][1] == s and ours[s - 1][2] == rows.END for s in fresh)


def test_the_table_of_the_vdso(prepared):
    got = rows.parse_tsv(run([prepared, "vdso"]).stdout.splitlines())
    assert got and all(r[2][3] == "call" for r in got)


def test_callee_saved_registers(dump):
    """rbx and r12-r15 beside pyelftools, in one library."""
    path = LIBDIR / "libstdc++.so.6"
    ours = [x.split("\t") for x in dump("saves", path)]
    ours = {int(r[0], 16): r for r in ours}
    seen = 0
    for fde in rows.elf_entries(path):
        if not isinstance(fde, rows.FDE):
            continue
        for line in fde.get_decoded().table:
            r = ours.get(line["pc"])
            if r is None or line["cfa"].expr is not None:
                continue
            if any(x["pc"] == line["pc"] and x is not line for x in fde.get_decoded().table[-2:]):
                continue
            for i, reg in enumerate((3, 12, 13, 14, 15)):
                rule = line.get(reg)
                want = "same" if rule is None or rule.type == "SAME_VALUE" else f"cfa{rule.arg:+d}"
                assert r[2 + i] == want, (hex(line["pc"]), reg)
                seen += want != "same"
    assert seen > 1000


# ---- entries made by hand ------------------------------------------------------------

TEXT, TEXT_SIZE, FRAME = 0x1000, 0x2000, 0x8000


def uleb(n):
    out = b""
    while True:
        out += bytes([n & 0x7F | (0x80 if n > 0x7F else 0)])
        n >>= 7
        if not n:
            return out


def sleb(n):
    out = b""
    while True:
        b, n = n & 0x7F, n >> 7
        if (n == 0 and not b & 0x40) or (n == -1 and b & 0x40):
            return out + bytes([b])
        out += bytes([b | 0x80])


DEFAULT = bytes([0x0C, 7, 8, 0x90, 1])  # def_cfa rsp+8, rip at cfa-8


class Frame:
    """An .eh_frame at FRAME, entry by entry."""

    def __init__(self):
        self.data = b""

    @property
    def here(self):
        return FRAME + len(self.data)

    def entry(self, body, wide=False):
        if wide:
            self.data += struct.pack("<IQ", 0xFFFFFFFF, len(body)) + body
        else:
            self.data += struct.pack("<I", len(body)) + body

    def cie(self, aug=b"zR", data=b"\x1b", program=DEFAULT, version=1, code=1, align=-8, wide=False, ra=16):
        at = len(self.data)
        body = struct.pack("<IB", 0, version) + aug + b"\0"
        if aug.startswith(b"eh"):
            body += bytes(8)
        if version == 4:
            body += b"\x08\0"
        body += uleb(code) + sleb(align) + (bytes([ra]) if version == 1 else uleb(ra))
        if aug.startswith(b"z"):
            body += uleb(len(data)) + data
        self.entry(body + program, wide)
        return at

    def fde(self, cie, start, size, program=b"", enc=0x1B, data=b"", z=True, wide=False):
        field = len(self.data) + (12 if wide else 4)
        body = struct.pack("<i", field - cie)
        body += encode(start, enc, FRAME + field + 4) + encode(size, enc & 0x0F, 0)
        if z:
            body += uleb(len(data)) + data
        self.entry(body + program, wide)


def encode(v, enc, at):
    if enc & 0x7F == 0x50:
        return bytes(-at & 7) + struct.pack("<Q", v)
    if enc & 0x70 == 0x10:
        v -= at
    form = enc & 0x0F
    if form == 1:
        return uleb(v)
    if form == 9:
        return sleb(v)
    return struct.pack({0: "<q", 2: "<H", 3: "<I", 4: "<Q", 8: "<q", 10: "<h", 11: "<i", 12: "<q"}[form], v)


def write_elf(path, frame, text=bytes(TEXT_SIZE), name=".eh_frame"):
    """A shared object of .text and .eh_frame that no linker had a look at."""
    data, off = bytearray(64 + 2 * 56), {}
    for key, part in (("text", text), ("frame", frame), ("names", b"\0.text\0" + name.encode() + b"\0.shstrtab\0")):
        data += bytes(-len(data) % 4096)
        off[key] = (len(data), len(part))
        data += part
    data += bytes(-len(data) % 8)
    shoff = len(data)

    def sh(name, kind, flags, addr, where, align):
        return struct.pack("<IIQQQQIIQQ", name, kind, flags, addr, *off.get(where, (0, 0)), 0, 0, align, 0)

    data += sh(0, 0, 0, 0, "", 0) + sh(1, 1, 6, TEXT, "text", 16) + sh(7, 1, 2, FRAME, "frame", 8) + \
        sh(8 + len(name), 3, 0, 0, "names", 1)
    data[0:64] = struct.pack("<16sHHIQQQIHHHHHH", b"\x7fELF\x02\x01\x01", 3, 62, 1, 0, 64, shoff, 0, 64, 56, 2, 64, 4, 3)
    for i, (key, addr, flags) in enumerate((("text", TEXT, 5), ("frame", FRAME, 4))):
        o, n = off[key]
        data[64 + 56 * i:120 + 56 * i] = struct.pack("<IIQQQQQQ", 1, flags, o, addr, addr, n, n, 4096)
    path.write_bytes(data)
    return path


@pytest.fixture
def read(dump, tmp_path):
    """Rows of a Frame as [(start, end, 'cfa bp ra kind', why)]."""
    def get(frame):
        out = []
        for line in dump("rows", write_elf(tmp_path / "t.so", frame.data))[1:]:
            c = line.split("\t")
            start = int(c[0], 16)
            out.append((start, start + int(c[1], 16), " ".join(c[2:6]), c[6]))
        return out
    return get


PLAIN = "rsp+8 same cfa-8 call"
ENCODINGS = {"absptr": 0x00, "udata2": 0x02, "udata4": 0x03, "udata8": 0x04, "sdata2": 0x0A, "sdata4": 0x0B, "sdata8": 0x0C,
             "uleb128": 0x01, "sleb128": 0x09, "pcrel-absptr": 0x10, "pcrel-sdata2": 0x1A, "pcrel-sdata4": 0x1B,
             "pcrel-sdata8": 0x1C, "pcrel-sleb128": 0x19, "signed": 0x08, "aligned": 0x50}


@pytest.mark.parametrize("enc", ENCODINGS.values(), ids=ENCODINGS)
@pytest.mark.parametrize("wide", [False, True], ids=["32", "64"])
def test_pointer_encodings(read, enc, wide):
    f = Frame()
    cie = f.cie(data=bytes([enc]), wide=wide)
    f.fde(cie, TEXT + 0x10, 0x20, enc=enc, wide=wide)
    f.fde(cie, TEXT + 0x40, 0x10, enc=enc, wide=not wide)
    assert read(f) == [(0x1010, 0x1030, PLAIN, "cfi"), (0x1040, 0x1050, PLAIN, "cfi")]


@pytest.mark.parametrize("aug,data,enc,z", [
    (b"", b"", 0, False), (b"z", b"", 0, True), (b"zR", b"\x1b", 0x1B, True), (b"eh", b"", 0, False),
    (b"zPLR", b"\x9b" + bytes(4) + b"\x1b\x1b", 0x1B, True), (b"zRB", b"\x1b", 0x1B, True),
    (b"zLR", b"\xff\x03", 3, True), (b"zRP", b"\x1b\x00" + bytes(8), 0x1B, True),
], ids=["none", "z", "zR", "eh", "zPLR", "zRB", "zLR-omit", "zRP"])
@pytest.mark.parametrize("version", [1, 3, 4])
def test_augmentations(read, aug, data, enc, z, version):
    f = Frame()
    lsda = struct.pack("<i", 0x100) if b"L" in aug and 0xFF not in data else b""
    f.fde(f.cie(aug, data, version=version), TEXT, 0x20, enc=enc, z=z, data=lsda)
    assert read(f) == [(0x1000, 0x1020, PLAIN, "cfi")]


ADVANCE = bytes([0x41])
RBP, RSP = 6, 7
ROWS = {
    # program, then what holds from TEXT + 1 on
    "def_cfa": (b"\x0c\x06\x10", "rbp+16 same cfa-8 call", ""),
    "def_cfa_sf": (b"\x12\x06" + sleb(-4), "rbp+32 same cfa-8 call", ""),
    "def_cfa_register": (b"\x0d\x00", "rax+8 same cfa-8 call", ""),
    "def_cfa_register-r15": (b"\x0d\x0f", "r15+8 same cfa-8 call", ""),
    "def_cfa_offset": (b"\x0e\x90\x01", "rsp+144 same cfa-8 call", ""),
    "def_cfa_offset_sf": (b"\x13" + sleb(-3), "rsp+24 same cfa-8 call", ""),
    "dwarf-numbers": (b"\x0c\x01\x00", "rdx+0 same cfa-8 call", ""),
    "dwarf-numbers-2": (b"\x0c\x02\x00", "rcx+0 same cfa-8 call", ""),
    "dwarf-numbers-4": (b"\x0c\x04\x00", "rsi+0 same cfa-8 call", ""),
    "dwarf-numbers-5": (b"\x0c\x05\x00", "rdi+0 same cfa-8 call", ""),
    "offset": (b"\x86\x02", "rsp+8 cfa-16 cfa-8 call", ""),
    "offset_extended": (b"\x05\x06\x03", "rsp+8 cfa-24 cfa-8 call", ""),
    "offset_extended_sf": (b"\x11\x06" + sleb(-1), "rsp+8 cfa+8 cfa-8 call", ""),
    "GNU_negative_offset_extended": (b"\x2f\x06\x03", "rsp+8 cfa+24 cfa-8 call", ""),
    "restore": (b"\x86\x02\xc6", PLAIN, ""),
    "restore_extended": (b"\x86\x02\x06\x06", PLAIN, ""),
    "same_value": (b"\x86\x02\x08\x06", PLAIN, ""),
    "undefined": (b"\x07\x06", "rsp+8 undef cfa-8 call", ""),
    "GNU_args_size": (b"\x2e\x20\x0e\x10", "rsp+16 same cfa-8 call", ""),
    "GNU_window_save": (b"\x2d\x0e\x10", "rsp+16 same cfa-8 call", ""),
    "remember": (b"\x0a\x0e\x10\x86\x02\x0b", PLAIN, ""),
    "remember-keeps-cfa": (b"\x0e\x10\x0a\x0d\x06\x0b", "rsp+16 same cfa-8 call", ""),
    "remember-deep": (b"\x0a" * 64 + b"\x0e\x20" + b"\x0b" * 64, PLAIN, ""),
    "other-registers": (b"\x83\x02\x8c\x03\x05\x11\x04", PLAIN, ""),
    "ra-undefined": (b"\x07\x10", "rsp+8 same cfa-8 end", ""),
    "ra-in-register": (b"\x0c\x07\x00\x09\x10\x05", "rsp+0 same rdi call", ""),
    "drap": (b"\x0f\x03\x76\x78\x06\x10\x06\x02\x76\x00", "*(rbp-8)+0 *(rbp+0) cfa-8 call", ""),
    "deref-plus": (b"\x0f\x06\x77\xf0\x00\x06\x23\x08", "*(rsp+112)+8 same cfa-8 call", ""),
    "deref-lit-plus": (b"\x0f\x05\x77\x10\x06\x38\x22", "*(rsp+16)+8 same cfa-8 call", ""),
    "deref-const-minus": (b"\x0f\x06\x77\x10\x06\x08\x08\x1c", "*(rsp+16)-8 same cfa-8 call", ""),
    "const-first": (b"\x0f\x06\x08\x20\x77\x08\x22\x96", "rsp+40 same cfa-8 call", ""),
    "bregx": (b"\x0f\x03\x92\x0b\x10", "r11+16 same cfa-8 call", ""),
    "bp-expression-rsp": (b"\x0c\x0a\x00\x10\x06\x02\x77\x18", "r10+0 *(rsp+24) cfa-8 call", ""),
    "bp-expression-of-cfa-register": (b"\x0c\x06\x10\x10\x06\x02\x76\x00", "rbp+16 cfa-16 cfa-8 call", ""),
    "bp-expression-of-cfa": (b"\x10\x06\x02\x23\x08", "rsp+8 cfa+8 cfa-8 call", ""),
    "ra-expression": (b"\x0e\x20\x10\x10\x02\x77\x18", "rsp+32 same cfa-8 call", ""),
    "register-behind-expression": (b"\x0e\x38\x0f\x03\x77\x00\x06\x0d\x07", "rsp+56 same cfa-8 call", ""),
    "val_offset-of-rsp": (b"\x14\x07\x00", PLAIN, ""),
    "largest": (b"\x0e" + uleb(2**31 - 1), "rsp+2147483647 same cfa-8 call", ""),
    "smallest": (b"\x13" + sleb(2**28), "rsp-2147483648 same cfa-8 call", ""),
    # what no rule can say
    "too-large": (b"\x0e" + uleb(2**31), None, "a CFA offset beyond 32 bits"),
    "way-too-large": (b"\x13" + sleb(2**62), None, "a CFA offset beyond 32 bits"),
    "deref-too-large": (b"\x0f\x08\x77" + sleb(2**40) + b"\x06", None, "a CFA offset beyond 32 bits"),
    "bp-too-large": (b"\x86" + uleb(2**29), "rsp+8 undef cfa-8 call", "an rbp in an unusual place"),
    "bp-in-register": (b"\x09\x06\x0b", "rsp+8 undef cfa-8 call", "an rbp in an unusual place"),
    "bp-val_offset": (b"\x14\x06\x02", "rsp+8 undef cfa-8 call", "an rbp in an unusual place"),
    "bp-val_offset_sf": (b"\x15\x06\x7e", "rsp+8 undef cfa-8 call", "an rbp in an unusual place"),
    "bp-val_expression": (b"\x16\x06\x02\x77\x00", "rsp+8 undef cfa-8 call", "an rbp in an unusual place"),
    "bp-expression-rax": (b"\x10\x06\x02\x70\x00", "rsp+8 undef cfa-8 call", "an rbp in an unusual place"),
    "ra-elsewhere": (b"\x90\x02", None, "a return address in an unusual place"),
    "ra-same": (b"\x08\x10", None, "a return address in an unusual place"),
    "rsp-saved": (b"\x87\x02", None, "an rsp that is not the CFA"),
    "rsp-in-register": (b"\x09\x07\x08", None, "an rsp that is not the CFA"),
    "cfa-in-xmm": (b"\x0d\x11", None, "a CFA relative to no general register"),
    "expression-empty": (b"\x0f\x00", None, "a CFA expression of unknown form"),
    "expression-two-registers": (b"\x0f\x05\x77\x00\x76\x00\x22", None, "a CFA expression of unknown form"),
    "expression-mul": (b"\x0f\x07\x77\x08\x79\x00\x38\x1e\x22", None, "a CFA expression of unknown form"),
    "expression-deref-twice": (b"\x0f\x04\x77\x00\x06\x06", None, "a CFA expression of unknown form"),
    "expression-underflow": (b"\x0f\x01\x22", None, "a CFA expression of unknown form"),
    "expression-cut": (b"\x0f\x02\x77\x80", None, "a CFA expression of unknown form"),
    "expression-constant": (b"\x0f\x01\x30", None, "a CFA expression of unknown form"),
    # malformed
    "unknown-opcode": (b"\x3f", None, "malformed call frame instructions"),
    "restore_state-first": (b"\x0b", None, "malformed call frame instructions"),
    "remember-too-deep": (b"\x0a" * 100, None, "malformed call frame instructions"),
    "block-past-the-end": (b"\x0f\x7f\x77\x00", None, "malformed call frame instructions"),
    "leb-past-the-end": (b"\x0e\x80\x80", None, "malformed call frame instructions"),
    "leb-of-71-bits": (b"\x0e" + b"\xff" * 10 + b"\x01", None, "malformed call frame instructions"),
    "advance-past-the-end": (b"\x04\x01", None, "malformed call frame instructions"),
}


@pytest.mark.parametrize("program,want,why", ROWS.values(), ids=ROWS)
def test_instructions(read, program, want, why):
    f = Frame()
    cie = f.cie()
    f.fde(cie, TEXT, 0x10, ADVANCE + program)
    f.fde(cie, TEXT + 0x20, 0x10)  # one bad program costs itself only
    want = (want or "undef undef undef undef", why or "cfi")
    got = read(f)
    assert got[-1] == (0x1020, 0x1030, PLAIN, "cfi")
    if want == (PLAIN, "cfi"):
        assert got[:-1] == [(0x1000, 0x1010, PLAIN, "cfi")]
    else:
        assert got[:-1] == [(0x1000, 0x1001, PLAIN, "cfi"), (0x1001, 0x1010, *want)]


def test_advances(read):
    f = Frame()
    cie = f.cie(code=2)
    here = f.here + 17
    program = b"\x42\x0e\x10" b"\x02\x03\x0e\x18" b"\x03\x04\x00\x0e\x20" b"\x04\x05\0\0\0\x0e\x28" + \
        b"\x1d" + struct.pack("<Q", 6) + b"\x0e\x30"
    program += b"\x01" + struct.pack("<i", TEXT + 0x40 - (here + len(program) + 1)) + b"\x0e\x38"
    f.fde(cie, TEXT, 0x60, program + b"\x04\xff\xff\xff\xff\x0e\x08")
    ends = [0x1004, 0x100A, 0x1012, 0x101C, 0x1028, 0x1040, 0x1060]
    starts = [0x1000, *ends[:-1]]
    assert read(f) == [(s, e, f"rsp+{8 + 8 * i} same cfa-8 call", "cfi") for i, (s, e) in enumerate(zip(starts, ends))]


def test_set_loc_backwards(read):
    f = Frame()
    cie = f.cie()
    here = f.here + 17
    program = b"\x48\x0e\x10\x01"
    f.fde(cie, TEXT, 0x60, program + struct.pack("<i", TEXT + 4 - (here + len(program))) + b"\x0e\x38")
    assert read(f) == [(0x1000, 0x1008, PLAIN, "cfi"),
                       (0x1008, 0x1060, "undef undef undef undef", "malformed call frame instructions")]


@pytest.mark.parametrize("step", [0, 5, 10, 11, 15])
def test_plt(read, step):
    """The expression with which a linker describes its PLT, from an odd address on."""
    program = b"\x0f\x0b\x77\x08\x80\x00\x3f\x1a" + bytes([0x30 + step]) + b"\x2a\x33\x24\x22"
    f = Frame()
    f.fde(f.cie(), TEXT + 3, 0x30, program)
    got = read(f)
    assert got[0][0] == 0x1003 and got[-1][1] == 0x1033
    for start, end, rule, why in got:
        for at in range(start, end):
            assert rule == f"rsp+{8 + 8 * (at % 16 >= step)} same cfa-8 call" and why == "cfi"
    assert [r[0] for r in got[1:]] == [r[1] for r in got[:-1]]


def restorer(sp=160, ra=168, bp=120):
    reg = bytes([0x10, 16, 3, 0x77]) + sleb(ra)
    reg += bytes([0x10, 6, 3, 0x77]) + sleb(bp) + bytes([0x10, 7, 3, 0x77]) + sleb(160)
    return b"\x0f\x04\x77" + sleb(sp) + b"\x06" + reg


def test_signal_frames(read):
    """glibc's __restore_rt; and what only looks like it."""
    f = Frame()
    cie = f.cie(b"zRS", program=b"")
    f.fde(cie, TEXT + 0xF, 0xA, restorer())
    f.fde(cie, TEXT + 0x20, 0x10, restorer(ra=176))
    f.fde(cie, TEXT + 0x30, 0x10, restorer(bp=128))
    f.fde(cie, TEXT + 0x40, 0x10, DEFAULT)
    f.fde(f.cie(program=b""), TEXT + 0x50, 0x10, restorer())
    undef = "undef undef undef undef"
    odd = (undef, "a signal frame of unknown form")
    assert read(f) == [(0x100F, 0x1019, "*(rsp+160)+0 same cfa-8 signal", "cfi"), (0x1020, 0x1030, *odd),
                       (0x1030, 0x1040, *odd), (0x1040, 0x1050, *odd),
                       (0x1050, 0x1060, undef, "an rsp that is not the CFA")]


def test_terminators_bad_entries_and_cies_anywhere(read, dump):
    f = Frame()
    first = f.cie()
    f.fde(first, TEXT, 0x10)
    f.data += bytes(4)                                  # as ld -r leaves one in the middle
    f.cie(version=9)
    f.cie(aug=b"zRX", data=b"\x1b\0")
    f.cie(ra=7)
    late = len(f.data) + 24                             # behind its FDE
    f.fde(late, TEXT + 0x10, 0x10, bytes(7))
    assert f.cie(program=b"\x0c\x07\x10\x90\x01") == late
    f.fde(0x7000, TEXT + 0x20, 0x10)                    # no CIE there
    f.fde(first, TEXT + 0x30, 0x10, b"\x41\x0e\x10")
    f.fde(first, 0x9999, 0x10)                          # no code there
    f.data += struct.pack("<I", 0x1000) + b"cut"
    assert read(f) == [(0x1000, 0x1010, PLAIN, "cfi"), (0x1010, 0x1020, "rsp+16 same cfa-8 call", "cfi"),
                       (0x1030, 0x1031, PLAIN, "cfi"), (0x1031, 0x1040, "rsp+16 same cfa-8 call", "cfi")]
    assert (dump.bad, dump.dropped) == (5, 1)


def test_fdes_that_overlap(read):
    f = Frame()
    cie = f.cie()
    f.fde(cie, TEXT + 0x100, 0x80, b"\x0e\x10")
    f.fde(cie, TEXT, 0x7FFFFFF, b"\x0e\x18")
    f.fde(cie, TEXT + 0x100, 0x10, b"\x0e\x20")  # the first one counts
    f.fde(cie, TEXT + 0x140, 0x7FFFFFF, b"\x0e\x28")
    f.fde(cie, TEXT + 0x150, 0, b"\x0e\x30")
    assert read(f) == [(0x1000, 0x1100, "rsp+24 same cfa-8 call", "cfi"), (0x1100, 0x1140, "rsp+16 same cfa-8 call", "cfi"),
                       (0x1140, 0x3000, "rsp+40 same cfa-8 call", "cfi")]


def test_without_its_section_name(dump, tmp_path):
    """The program header leads to it."""
    out = tmp_path / "renamed.so"
    run(["objcopy", "--rename-section", ".eh_frame=.other", LIBDIR / "libstdc++.so.6", out])
    assert dump("rows", out) == dump("rows", LIBDIR / "libstdc++.so.6")
    assert dump.bad == 0


# ---- objects, and landing pads -----------------------------------------------------------

KINDS = {"plain": [], "O0": ["-O0"], "sections": ["-ffunction-sections", "-O2"], "large": ["-mcmodel=large", "-O2"],
         "fp": ["-O2", "-fno-omit-frame-pointer"]}


def functions(dump, path):
    """{symbol: (size, rows, call sites)}; pads as symbol+offset."""
    with open(path, "rb") as f:
        elf = ELFFile(f)
        where = {}
        rel = elf["e_type"] == "ET_REL"
        for s in elf.get_section_by_name(".symtab").iter_symbols():
            if s["st_info"]["type"] == "STT_FUNC" and isinstance(s["st_shndx"], int):
                base = 0 if rel else elf.get_section(s["st_shndx"])["sh_addr"]
                where.setdefault(s["st_shndx"], []).append((s.name, s["st_value"] - base, s["st_size"]))

    def name(section, offset):
        if section == "-":
            assert offset == 0
            return "-"
        for symbol, start, size in sorted(where.get(int(section), [])):  # of aliases, the same one
            if start <= offset < start + size:
                return f"{symbol}+{offset - start:x}"
        return "?"

    out = {}
    for line in dump("functions", path):
        c = line.split("\t")
        if c[0] == "F":
            current = out.setdefault(name(c[1], int(c[2], 16)), (c[3], [], []))
        elif c[0] == "C":
            current[2].append((c[1], c[2], name(c[3], int(c[4], 16))))
        else:
            current[1].append(line)
    return out


@pytest.mark.parametrize("kind", KINDS)
def test_an_object_is_as_what_it_links_to(dump, tmp_path, cc, kind):
    obj, lib = tmp_path / "t.o", tmp_path / "t.so"
    pic = [] if kind == "large" and cc == "gcc" else ["-fPIC"]
    run([CXX[cc], "-O1", *pic, *KINDS[kind], "-c", HERE / "cfi_objects.cc", "-o", obj])
    a = functions(dump, obj)
    assert dump.bad == 0 and dump.dropped == 0
    if kind == "large":  # absolute addresses: no shared object
        run([CXX[cc], "-shared", "-Wl,-z,notext", obj, "-o", lib], ok=(0, 1))
    else:
        run([CXX[cc], "-shared", obj, "-o", lib])
    names = {n.split("+")[0] for n in a}
    assert {"_Z7catchesi", "_Z5growsi", "_Z7alignedi", "_Z7pair_ofIiET_S0_", "_Z5failsi"} <= names
    assert any(p != "-" for p in (s[2] for s in a["_Z7catchesi+0"][2]))
    assert all(s[2] != "?" for f in a.values() for s in f[2])
    if lib.exists():
        b = functions(dump, lib)
        assert {n: b.get(n) for n in a} == a
        assert rows.compare(rows.cfi_rows(lib)[0], rows.parse_tsv(dump("rows", lib))).agree > 0


def test_relocations_that_do_not_fit_or_name_nothing(dump, tmp_path):
    """Such an FDE is left out; cut off to 32 bits it would be about other code."""
    obj = tmp_path / "t.o"
    run(["gcc", "-O1", "-ffunction-sections", "-c", "-x", "c", "-", "-o", obj],
        input="int a(int x){return x;} int b(int x){return x+1;} int c(int x){return x+2;}\n")
    data = bytearray(obj.read_bytes())
    with open(obj, "rb") as f:
        at = ELFFile(f).get_section_by_name(".rela.eh_frame")["sh_offset"]
    whole = functions(dump, obj)
    assert set(whole) == {"a+0", "b+0", "c+0"}
    struct.pack_into("<q", data, at + 16, 1 << 40)   # a: an addend of 41 bits
    struct.pack_into("<I", data, at + 24 + 12, 0)    # b: symbol 0
    obj.write_bytes(data)
    assert functions(dump, obj) == {"c+0": whole["c+0"]}
    assert (dump.bad, dump.dropped) == (0, 2)


LPSTART = """
	.text
	.globl pads
	.type pads, @function
pads:	.cfi_startproc
	.skip 32, 0x90
	ret
	.cfi_endproc
	.size pads, .-pads
	.globl throws
	.type throws, @function
throws:	.cfi_startproc
	.cfi_lsda 0x1b, table
	call throws
1:	call throws
2:	ret
	.cfi_endproc
	.size throws, .-throws
	.section .gcc_except_table,"a",@progbits
table:	.byte 0x1b
	.long pads-.
	.byte 0xff, {encoding}, 4f-3f
3:	{field} 0, 1b-throws, {pad}
	.byte 0
	{field} 1b-throws, 2b-1b, 0
	.byte 0
4:
"""


@pytest.mark.parametrize("encoding,field", [(1, ".uleb128"), (3, ".long"), (0x0B, ".long")], ids=["uleb", "udata4", "sdata4"])
def test_landing_pads_in_another_part(dump, tmp_path, encoding, field):
    """LPStart: gcc has it where a function's pads are apart from it."""
    source, obj, lib = tmp_path / "t.s", tmp_path / "t.o", tmp_path / "t.so"
    source.write_text(LPSTART.format(encoding=encoding, field=field, pad=0x12))
    run(["gcc", "-c", source, "-o", obj])
    run(["gcc", "-shared", "-nostdlib", "-Wl,-Bsymbolic", obj, "-o", lib])
    want = [("0", "5", "pads+12"), ("5", "a", "-")]
    assert functions(dump, obj)["throws+0"][2] == want
    assert functions(dump, lib)["throws+0"][2] == want


class Lsda:
    """A call-site table, read once more."""

    def __init__(self, data, addr):
        self.data, self.base = data, addr

    def uleb(self, at):
        return rows.leb(self.data, at)

    def sites(self, addr, func):
        at = addr - self.base
        pads = func
        if self.data[at] != 0xFF:
            assert self.data[at] == 0x1B
            pads = addr + 1 + struct.unpack_from("<i", self.data, at + 1)[0]
            at += 4
        at += 1
        if self.data[at] != 0xFF:
            _, at = self.uleb(at + 1)
        else:
            at += 1
        enc = self.data[at]
        size, at = self.uleb(at + 1)
        end, out = at + size, []
        while at < end:
            v = []
            for _ in range(3):
                if enc == 1:
                    n, at = self.uleb(at)
                else:
                    assert enc == 3
                    n, at = struct.unpack_from("<I", self.data, at)[0], at + 4
                v.append(n)
            _, at = self.uleb(at)
            out.append((func + v[0], func + v[0] + v[1], pads + v[2] if v[2] else 0))
        return out


@pytest.mark.parametrize("path", [LIBDIR / "libstdc++.so.6", Path("/usr/bin/gdb"), Path("/usr/bin/apt-get"),
                                  LIBDIR / "libapt-pkg.so.6.0"], ids=lambda p: p.name)
def test_call_sites(dump, path):
    if not path.exists():
        pytest.skip("not installed")
    with open(path, "rb") as f:
        table = ELFFile(f).get_section_by_name(".gcc_except_table")
        if table is None:
            pytest.skip("no .gcc_except_table")
        lsda = Lsda(table.data(), table["sh_addr"])
    want = {}
    for fde in rows.elf_entries(path):
        if isinstance(fde, rows.FDE) and fde.lsda_pointer:
            start = fde["initial_location"]
            want[start] = lsda.sites(fde.lsda_pointer, start)
    got, current = {}, None
    for line in dump("fdes", path):
        if line[0] == " ":
            got.setdefault(current, []).append(tuple(int(x, 16) for x in line[1:].split("\t")))
        else:
            current = int(line.split("\t")[0], 16)
    assert got == {k: v for k, v in want.items() if v}
    assert sum(len(v) for v in got.values()) > 50


# ---- registers of outer frames ------------------------------------------------------------------

@pytest.mark.parametrize("libetch", ["libetch.a", "libetch.so"])
def test_walks_out_of_the_lazy_resolver(build, tmp_path, libetch):
    """Its CFA is in rbx, which no table follows: lib/recover.c finds it."""
    exe = build_c(tmp_path / "recover", ["-O1"], HERE / "cfi_recover.c", "-Wl,-z,lazy", build / libetch, "-lm",
                  f"-Wl,-rpath,{build}")
    out = run([exe]).stdout
    m = re.match(r"steps (\d+) whole (\d+) deepest (\d+) first 0\n", out)
    assert m, out
    assert int(m.group(1)) == int(m.group(2)) > 5000 and int(m.group(3)) >= 8
    assert "status 3" not in out


def test_walks_out_of_an_array(build, tmp_path):
    """OpenSSL's CFA with an index: read from .eh_frame at run time, and as a row of the tool's."""
    exe = build_c(tmp_path / "index", ["-O1"], HERE / "cfi_index.c", build / "libetch.a")
    said = run([build / "etch", "rewrite", "-v", "-o", tmp_path / "etched", exe]).stderr
    assert "mulmont" not in said, said
    orc = run([build / "etch", "inspect", "orc", "--at", "mulmont", "--format", "tsv", tmp_path / "etched"]).stdout
    assert "\t*(rsp+8*r9+8)+8\tcfa-24\tcfa-8\tcall\tcfi\n" in orc, orc
    for argv in ([exe], [tmp_path / "etched"]):
        m = re.match(r"steps (\d+) whole (\d+) sum (\d+)\n", run(argv).stdout)
        assert m and int(m[1]) == int(m[2]) > 400, (argv, m)
        assert int(m[3]) == sum(n * n for n in range(1, 40, 9))


# ---- mutants --------------------------------------------------------------------------------

def test_mutants(tmp_path, build_asan):
    fuzz = build_c(tmp_path / "cfi_fuzz", SANITIZE, HERE / "cfi_fuzz.c", build_asan / "o/lib/prepare.o",
                   *tool_objects(build_asan, *TOOL))
    files = []
    for cc in ("gcc", "clang"):
        obj, lib = tmp_path / f"{cc}.o", tmp_path / f"{cc}.so"
        run([CXX[cc], "-O2", "-fPIC", "-c", HERE / "cfi_objects.cc", "-o", obj])
        run([CXX[cc], "-shared", obj, "-o", lib])
        files += [obj, lib]
    seed = os.environ.get("ETCH_SEED", "1")
    out = run([fuzz, seed, os.environ.get("ETCH_CFI_ROUNDS", "500" if os.environ.get("ETCH_TESTS") == "all" else "200"), *files, "/bin/true"]).stdout
    counts = dict(re.findall(r"(\w+) (\d+)", out))
    assert int(counts["FDEs"]) > 1000 and int(counts["tables"]) > 500
