# SPDX-License-Identifier: MIT
"""The sections of docs/formats.md on unwind tables are enough to write a reader from:
this one shares nothing with etch and says what `etch inspect orc` says."""
import bisect
import re
import struct

import pytest
from elftools.elf.elffile import ELFFile

from conftest import run
from documents import FORMATS
from format_reader import RECORDS, SIZES, total

LIBDIR = "/usr/lib/x86_64-linux-gnu/"
FILES = {"libc": LIBDIR + "libc.so.6", "libz": LIBDIR + "libz.so.1"}
NAMES = "rax rcx rdx rbx rsp rbp rsi rdi r8 r9 r10 r11 r12 r13 r14 r15".split()
KINDS = ["undef", "call", "signal", "end"]
SOURCES = [name for _, name in sorted(re.findall(r"(\d) `(\w+)`", re.search(r"A row's \*\*source\*\* .*?\n\n", FORMATS, re.S).group(0)))]
SIGNED = {"etch_rule": {"cfa_off", "cfa_add", "bp_off"}, "etch_orc": {"sp_offset", "bp_offset"},
          "etch_map_rule": {"cfa", "bp"}}
UNDEF = (0, 0, 0, 0, 0, 0, 0)


def unpack(name, data, at=0):
    """A record as a dict, from the table in formats.md."""
    out = {}
    for offset, size, field in RECORDS[name]:
        raw = data[at + offset:at + offset + size]
        assert len(raw) == size
        out[field] = raw
        if size in SIZES and name != "etch_run":
            out[field] = int.from_bytes(raw, "little", signed=field in SIGNED.get(name, ()))
    return out


def text_of(rule):
    """The columns of `etch inspect orc`: cfa, bp, ra, kind."""
    off, add, bp_off, cfa, bp, kind, ra = rule
    if kind == 0 or (kind == 3 and rule == (0, 0, 0, 0, 0, 3, 0)):
        return "undef", "undef", "undef", KINDS[kind]
    where = f"{'rsp+8*' if cfa & 32 else ''}{NAMES[cfa & 15]}{off:+}"
    where = f"*({where}){add:+}" if cfa & 16 else where
    if kind == 2:
        return where, f"*(rsp{off - 40:+})", f"*(rsp{off + 8:+})", KINDS[kind]
    bp = ["same", f"cfa{bp_off:+}", f"*(rbp{bp_off:+})", f"*(rsp{bp_off:+})", "undef"][bp]
    return where, bp, "undef" if kind == 3 else NAMES[ra & 15] if ra & 0x80 else f"cfa{add:+}" if ra == 0x40 else "cfa-8", KINDS[kind]


def rule_of(data, at):
    r = unpack("etch_rule", data, at)
    return tuple(r[k] for k in ("cfa_off", "cfa_add", "bp_off", "cfa", "bp", "kind", "ra"))


class Table:
    """Of a linked file: `header`, and `rows`, a list of (address, rule, source)."""

    def __init__(self, path):
        self.seen = set()
        with open(path, "rb") as f:
            elf = ELFFile(f)
            self.sections = {s.name: (s["sh_addr"], s.data() if s["sh_type"] != "SHT_NOBITS" else b"")
                             for s in elf.iter_sections()}
            self.code = [(s["sh_addr"], s.data()) for s in elf.iter_sections()
                         if s["sh_flags"] & 4 and s["sh_type"] != "SHT_NOBITS"]
        self.data = self.sections[".etch.unwind"][1]
        self.header = h = unpack("etch_unwind", self.data)
        assert h["magic"].to_bytes(4, "little") == b"etuw" and h["version"] in (1, 2, 3, 4)
        assert h["size"] == total("etch_unwind") and h["text"] % 256 == 0
        self.blocks = (h["text_size"] + 255) // 256
        self.rows = self.block() if h["encoding"] == 2 else self.orc()
        self.at = [r[0] for r in self.rows]

    def find(self, address):
        i = bisect.bisect_right(self.at, address) - 1
        return self.rows[i][1] if i >= 0 else UNDEF

    def record(self, b):
        h = self.header
        base, = struct.unpack_from("<I", self.data, h["base"] + 4 * (b // 64))
        hd, = struct.unpack_from("<H", self.data, h["hd"] + 2 * b)
        return base + hd

    def rule(self, at):
        """Of the idx byte at this offset of the pool."""
        h = self.header
        idx = self.data[h["pool"] + at]
        if idx == 255:
            idx = self.escapes[at]
            self.seen.add("escape")
        else:
            assert idx < 255 - h["run_count"]
        assert idx < h["palette_count"]
        return rule_of(self.data, h["palette"] + 16 * idx)

    def block(self):
        h, runs, rows = self.header, [], []
        escapes = [unpack("etch_escape", self.data, h["escape"] + 8 * i) for i in range(h["escape_count"])]
        self.escapes = {e["at"]: e["rule"] for e in escapes}
        for i in range(h["run_count"]):
            r = unpack("etch_run", self.data, h["run"] + 16 * i)
            runs.append([(o, k) for o, k in zip(r["off"], r["idx"]) if o != 255])
            assert len(runs[-1]) >= 2 and runs[-1][0][0] == 0
        rows.append((h["text"], self.rule(0)))
        assert self.record(0) == 1 and self.record(self.blocks) == h["pool_size"] - 32
        for b in range(self.blocks):
            s, e = self.record(b), self.record(b + 1)
            c = (e - s) // 2
            for i in range(c):
                off, idx = self.data[h["pool"] + s + i], self.data[h["pool"] + s + c + i]
                address = h["text"] + 256 * b + off
                if 255 - h["run_count"] <= idx < 255:
                    self.seen.add("run")
                    for more, k in runs[idx - (255 - h["run_count"])]:
                        assert off + more < 256
                        rows.append((address + more, rule_of(self.data, h["palette"] + 16 * k)))
                else:
                    rows.append((address, self.rule(s + c + i)))
        assert len(rows) == h["rows"] and rows == sorted(rows, key=lambda r: r[0])
        bits = self.sections[".etch.source"][1]
        rows = [(a, r, bits[i // 4] >> 2 * (i % 4) & 3) for i, (a, r) in enumerate(rows)]
        return rows + [(h["text"] + h["text_size"], UNDEF, 0)]

    def orc(self):
        h, rows = self.header, []
        (ip_at, ip), (_, orc), (_, lookup) = (self.sections[n] for n in (".orc_unwind_ip", ".orc_unwind", ".orc_lookup"))
        assert (h["orc_ip"], len(ip), len(orc)) == (ip_at, 4 * h["rows"], 6 * h["rows"])
        of_cfa, of_rbp = (re.findall(r"(\d+) ([^,;\n]+)", re.search(rf"^{name} register: (.*?)^\w", FORMATS, re.M | re.S).group(1))
                          for name in ("CFA", "rbp"))
        sp = {int(number): register.split() for number, register in of_cfa}
        bp = {int(number): int(rule[3]) for number, rule in of_rbp}
        for i in range(h["rows"]):
            e = unpack("etch_orc", orc, 6 * i)
            address = ip_at + 4 * i + struct.unpack_from("<i", ip, 4 * i)[0]
            kind = [0, 3, 1, 2][e["bits"] >> 8 & 7]
            assert e["bits"] >> 14 == 0 and (e["bits"] >> 11 & 1) == (kind == 2)
            rule = UNDEF
            if kind:
                reg = sp[e["bits"] & 15]
                off, add, cfa = e["sp_offset"], 0, NAMES.index(reg[0]) if reg[0] in NAMES else 0
                if "DEREF" in reg:
                    off, add, cfa = (off >> 6) * 8, (off & 63) * 8, cfa | 16
                    self.seen.add("deref")
                rule = (off, add, e["bp_offset"], cfa, bp[e["bits"] >> 4 & 15], kind, 0)
            rows.append((address, rule, e["bits"] >> 12 & 3))
        addresses = [r[0] for r in rows]
        assert addresses == sorted(addresses)
        want = [max(0, bisect.bisect_right(addresses, h["text"] + 256 * b) - 1) for b in range(self.blocks + 1)]
        assert list(struct.unpack(f"<{len(lookup) // 4}I", lookup)) == want
        return rows

    # ---- the map

    def calls(self):
        """Addresses after what can be a call."""
        lo = min(a for a, _ in self.code)
        hi = max(a + len(d) for a, d in self.code)
        for start, d in self.code:
            for i, byte in enumerate(d):
                if byte == 0xe8 and i + 5 <= len(d):
                    if lo <= start + i + 5 + int.from_bytes(d[i + 1:i + 5], "little", signed=True) < hi:
                        yield start + i + 5
                elif byte == 0xff and i + 1 < len(d) and d[i + 1] >> 3 & 7 == 2:
                    mod, rm, n = d[i + 1] >> 6, d[i + 1] & 7, 2
                    if mod != 3 and rm == 4:
                        n += 1 + (4 if mod == 0 and d[i + 2:i + 3] and d[i + 2] & 7 == 5 else 0)
                    elif mod == 0 and rm == 5:
                        n += 4
                    n += [0, 1, 4, 0][mod]
                    if i + n <= len(d):
                        yield start + i + n

    def mapped(self, address):
        """The rule, or None: look at the records."""
        h, d = self.header, self.data
        offset = address - h["text"]
        granule = offset >> h["map_shift"]
        code = d[h["map"] + granule]
        if 224 <= code < 255:
            self.seen.add("exception")
            page = granule >> (6 if h["map_shift"] == 6 else 4)
            unit = struct.unpack_from("<I", d, h["map_page"] + 4 * page)[0] + 254 - code
            for k in range(8):
                assert unit < h["map_unit_count"]
                split, below, above = d[h["map_unit"] + 3 * unit:][:3]
                code, unit = below if offset % (1 << h["map_shift"]) < split else above, unit + 1
                if code != 254:
                    break
                self.seen.add("chain")
        if code == 255:
            return None
        if code == 159:
            self.seen.add("rbp")
            return 16, 0, -16, 5, 1, 1, 0
        if code < 192:
            self.seen.add("step")
            saved = code < 160
            return 16 + 16 * (code & 31), 0, -48 + 8 * (code >> 5) if saved else 0, 4, saved, 1, 0
        self.seen.add("palette")
        assert code - 192 < h["map_palette_count"]
        r = unpack("etch_map_rule", d, h["map_palette"] + 8 * (code - 192))
        assert r["flags"] in (0, 1) and r["zero"] == 0
        return r["cfa"], 0, r["bp"], 5 if r["flags"] else 4, 1 if r["bp"] else 0, 1, 0


@pytest.fixture(scope="module", params=FILES)
def made(request, tmp_path_factory, etch):
    directory = tmp_path_factory.mktemp("formats")
    out = {}
    for name, args in {"64": ["--unwind-map=64"], "128": ["--unwind-map=128"], "none": ["--unwind-map=none"],
                       "orc": ["--encoding", "orc"]}.items():
        out[name] = directory / name
        run([etch, "rewrite", "--only", "orc", *args, "-o", out[name], FILES[request.param]])
    return request.param, out


@pytest.mark.parametrize("kind", ["64", "none", "orc"])
def test_rows(etch, made, kind):
    name, files = made
    t = Table(files[kind])
    lines = [line.split("\t") for line in
             run([etch, "inspect", "orc", "--format", "tsv", files[kind]]).stdout.splitlines()[1:]]
    want = {int(line[0], 16): tuple(line[2:7]) for line in lines}
    have = {a: text_of(rule) + (SOURCES[source],) for a, rule, source in t.rows}
    # What is said of a gap is no matter of the table, nor is the row after the end.
    known = {a: v for a, v in have.items() if v[3] != "undef"}
    assert known == {a: v for a, v in want.items() if v[3] != "undef"}
    assert len(known) > 500
    assert kind == "orc" or "run" in t.seen
    if name == "libc":
        assert ("deref" if kind == "orc" else "escape") in t.seen
        assert {"call", "signal", "end"} == {v[3] for v in known.values()}


@pytest.mark.parametrize("kind", ["64", "128"])
def test_map(made, kind):
    name, files = made
    t = Table(files[kind])
    answered = covered = 0
    for address in t.calls():
        rule = t.find(address - 1)
        got = t.mapped(address)
        covered += rule[5] == 1
        if got is not None:
            assert got == rule, hex(address)
            answered += 1
    assert answered > 0.96 * covered > 300
    assert t.header["version"] == 4 and t.header["map_first"] == 192
    granules = t.data[t.header["map"]:][:(t.header["text_size"] >> t.header["map_shift"]) + 1]
    assert t.header["map_rbp"] == (32 * granules.count(159) > sum(g < 192 for g in granules))
    assert name != "libc" or t.header["map_rbp"]
    assert {"exception", "step"} <= t.seen
    assert name != "libc" or {"chain", "palette", "rbp"} <= t.seen


def test_the_lookup_by_hand_is_what_its_bytes_say():
    """By the reader above, from the bytes on the page, and step by step the numbers that it names."""
    page = FORMATS[FORMATS.index("## A lookup by hand"):FORMATS.index("## The return-address map")]
    data = b"".join(bytes.fromhex(line) for line in re.findall(r"^[0-9a-f]{4}  ((?:[0-9a-f]{8} ?){4})$", page, re.M))
    t = Table.__new__(Table)
    t.seen, t.data, t.header, t.escapes = set(), data, unpack("etch_unwind", data), {}
    h = t.header
    assert h["bytes"] == len(data) and h["magic"].to_bytes(4, "little") == b"etuw"
    t.blocks = (h["text_size"] + 255) // 256
    address, = (int(a, 16) for a in re.findall(r"whose return address is 0x([0-9a-f]+)", page))
    assert t.blocks == 1 and data[h["map"] + (address - h["text"] >> h["map_shift"])] == 255
    start, end = t.record(0), t.record(1)
    c, inside = (end - start) // 2, address - 1 - h["text"]
    record = data[h["pool"] + start:h["pool"] + end]
    assert (start, end, c) == (1, 11, 5) and f"{record[:c].hex(' ')}, are" in page and f"{record[c:].hex(' ')}." in page
    entry = max(i for i in range(c) if record[i] <= inside)
    assert f"0x{record[entry]:x}, the third" in page and entry == 2
    assert "  ".join(text_of(t.rule(start + c + entry))) == re.search(r"says the same: `([^`]+)`", page).group(1)
