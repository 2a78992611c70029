# SPDX-License-Identifier: MIT
"""shared/cfi.h: .eh_frame as rows, beside pyelftools, which shares no code with it; hand-made
entries of every form."""

import struct
from pathlib import Path

import pytest

from cfi_files import LIBDIR, check_against, rows
from cfi_files import dump  # noqa: F401 (fixtures)
from conftest import run

SYSTEM = [LIBDIR / "libc.so.6", LIBDIR / "libstdc++.so.6", LIBDIR / "libcrypto.so.3", LIBDIR / "libgcrypt.so.20",
          Path("/lib64/ld-linux-x86-64.so.2"), Path("/usr/bin/python3").resolve(), Path("/usr/bin/bash"), Path("/usr/bin/openssl")]
SYSTEM = [p for p in SYSTEM if p.exists()]


# ---- real files -------------------------------------------------------------------

@pytest.mark.parametrize("path", SYSTEM, ids=lambda p: p.name)
def test_rows_are_those_of_pyelftools(dump, path):
    truth, fdes = rows.cfi_rows(path)
    check_against(truth, rows.parse_tsv(dump("rows", path)))
    assert dump.bad == 0 and dump.dropped == 0
    heads = [x.split("\t") for x in dump("fdes", path) if x[0] != " "]
    assert [(int(s, 16), int(e, 16)) for s, e, _ in heads] == sorted(fdes)


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
    "ra-elsewhere": (b"\x90\x02", "rsp+8 same cfa-16 call", ""),
    "ra-above": (b"\x11\x10" + sleb(-2), "rsp+8 same cfa+16 call", ""),
    "ra-elsewhere-expression": (b"\x0e\x20\x10\x10\x02\x77\x08", "rsp+32 same cfa-24 call", ""),
    "ra-elsewhere-deref": (b"\x0f\x03\x76\x78\x06\x90\x02", None, "a return address in an unusual place"),
    "ra-not-of-the-cfa": (b"\x10\x10\x02\x73\x00", None, "a return address in an unusual place"),
    "ra-too-far": (b"\x90" + uleb(2**29), None, "a return address in an unusual place"),
    "ra-in-no-general-register": (b"\x09\x10\x11", None, "a return address in an unusual place"),
    "ra-same": (b"\x08\x10", None, "a return address in an unusual place"),
    "rsp-saved": (b"\x87\x02", None, "an rsp that is not the CFA"),
    "rsp-in-register": (b"\x09\x07\x08", None, "an rsp that is not the CFA"),
    "cfa-in-xmm": (b"\x0d\x11", None, "a CFA not relative to a general register"),
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
    """glibc's __restore_rt; and what only looks like it. An ordinary frame is one, whatever it is marked as."""
    f = Frame()
    cie = f.cie(b"zRS", program=b"")
    f.fde(cie, TEXT + 0xF, 0xA, restorer())
    f.fde(cie, TEXT + 0x20, 0x10, restorer(ra=176))
    f.fde(cie, TEXT + 0x30, 0x10, restorer(bp=128))
    f.fde(cie, TEXT + 0x40, 0x10, DEFAULT)
    f.fde(cie, TEXT + 0x50, 0x10, b"\x90\x01" + b"\x0f\x05\x77\x08\x06\x23\x08")  # of OCaml's caml_call_gc
    f.fde(f.cie(program=b""), TEXT + 0x60, 0x10, restorer())
    undef = "undef undef undef undef"
    odd = (undef, "a signal frame of unknown form")
    assert read(f) == [(0x100F, 0x1019, "*(rsp+160)+0 same cfa-8 signal", "cfi"), (0x1020, 0x1030, *odd),
                       (0x1030, 0x1040, *odd), (0x1040, 0x1050, "rsp+8 same cfa-8 call", "cfi"),
                       (0x1050, 0x1060, "*(rsp+8)+8 same cfa-8 call", "cfi"),
                       (0x1060, 0x1070, undef, "an rsp that is not the CFA")]


def test_terminators_bad_entries_and_cies_anywhere(read, dump):
    f = Frame()
    first = f.cie()
    f.fde(first, TEXT, 0x10)
    f.data += bytes(4)                                  # as ld -r leaves one in the middle
    f.cie(version=9)
    f.cie(aug=b"zRX", data=b"\x1b\0")
    f.cie(ra=7)
    late = len(f.data) + 24                             # after its FDE
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
