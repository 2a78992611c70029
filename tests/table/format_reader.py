# SPDX-License-Identifier: MIT
"""docs/formats.md is enough to write a second reader of tables from: this is one."""

import re
import struct

from elftools.elf.elffile import ELFFile

from documents import FORMATS, listing, record


# ---- formats.md: records --------------------------------------------------------

SIZES = {1: "B", 2: "H", 4: "I", 8: "Q"}


def declared():
    """The fields of struct etch_unwind, whose layout the page has as declarations of C, an offset before each line."""
    out, at = [], 0
    for row in listing(FORMATS, "struct etch_unwind"):
        offset, line = row.split(None, 1)
        assert int(offset) == at
        for declaration in line.split(";"):
            kind, names = declaration.split(None, 1)
            for name, many in re.findall(r"(\w+)(?:\[(\d+)\])?", names):
                out.append((at, int(kind[1:]) // 8 * int(many or 1), name))
                at += out[-1][1]
    return out


RECORDS = {n: [r[:3] for r in record(FORMATS, n)] for n in (
    "etch_imv", "etch_imv_more", "etch_native", "etch_inline", "etch_branch", "etch_mark", "etch_ex", "etch_obj", "etch_module",
    "segment_note", "etch_rule", "etch_orc", "etch_escape", "etch_run", "etch_map_rule", "etch_saves")} | {"etch_unwind": declared()}


def total(name):
    offset, size, _ = RECORDS[name][-1]
    return offset + size


def flags_of(name, field):
    """{name: mask} from "bit N NAME" of a record's field."""
    content = next(r[3] for r in record(FORMATS, name) if r[2] == field)
    return {n: 1 << int(b) for b, n in re.findall(r"bit (\d+) (\w+)", content)}


def numbered(head):
    """Names of a listing, by their numbers."""
    rows = [row.split(None, 2)[:2] for row in listing(FORMATS, head)]
    assert [int(n) for n, _ in rows] == list(range(len(rows)))
    return [name for _, name in rows]


IMV_FLAGS = flags_of("etch_imv", "flags")
NATIVE_FLAGS = flags_of("etch_native", "flags")
EX_TYPES = numbered("type: what libetch does to the registers before execution continues at the fixup")
MODULE_FLAGS = flags_of("etch_module", "flags")
OBJ_FLAGS = flags_of("etch_obj", "flags")
OBJ_MORE = flags_of("etch_obj", "more")
KINDS = re.findall(r"\d (\w+)", re.sub(r"\([^)]*\)", "", next(r[3] for r in record(FORMATS, "etch_obj") if r[2] == "kind")))
ADDRESSING = numbered("addressing: the memory operand of the load")
PV_FORMS = {int(n): name for n, name in re.findall(r"(\d+) (call|jmp) \(ff", FORMATS)}
PV_ADDRESSING = numbered("addressing: the operand of the call or jump")


# ---- formats.md: the instruction forms --------------------------------------------

def family(row):
    """(number, name, bits read, bits of the operand, the other columns) of each form in a row of the table."""
    numbers, names, *columns = re.split(r"  +", row)
    first, _, last = numbers.partition("-")
    head, *more = names.split(", ")[0].split()
    stem = re.match("[a-zA-Z]+", head).group(0)
    sizes = [s.split("_") for s in [head[len(stem):], *more]]
    operations = [(0, stem)]
    if stem == "OP":
        operations = [(int(n), name) for n, name in re.findall(r"(\d) (\w+)", re.search(r"^OP: n = (.*)$", FORMATS, re.M).group(1))]
        assert [n for n, _ in operations] == list(range(8))
    number = int(first)
    for n, name in operations:
        for size in sizes:
            width = int(size[-1])
            w = width > 8
            cells = [re.sub(r"\b([0-9a-f]{2})((?:\+8n|\+w)+)", lambda m: "%02x" % (int(m[1], 16) + 8 * n * ("8n" in m[2]) + w * ("w" in m[2])),
                            c).replace("/n", f"/{n}") for c in columns]
            yield number, name + "_".join(size), int(size[0]), width, cells
            number += 1
    assert number - 1 == int(last or first)


class Form:
    """One form of the table."""

    def __init__(self, number, name, read, width, cells):
        self.number, self.name, self.reads, self.width = number, name, read // 8, width
        before = ["66"] if width == 16 else ["REX.W"] if width == 64 and name != "push64" else []
        size = {8: "ib", 16: "iw"}.get(width, "id")
        self.load, self.imms = before + cells[0].split(), [before + cells[1].split() + [size]]
        self.fits = cells[2].split(" or ") if len(cells) > 2 and width == 64 else ["all"]
        if "u32" in self.fits:
            self.imms.append([w for w in self.imms[0] if w != "REX.W"])
        self.byte = width == 8


FORM = {f[0]: Form(*f) for row in listing(FORMATS, "form   name                       load         immediate  fits")
        for f in family(row)}


# {number: (name, bytes read, encodings, bytes of the constant in each)}
COMPARE = {}
for _row in listing(FORMATS, "form   name             load      constant"):
    for _number, _name, _read, _width, (_load, _constant) in family(_row):
        _before = ["66"] if _width == 16 else ["REX.W"] if _width == 64 else []
        _sizes = [int(n) for n in re.match(r"(\d), (\d), (\d), (\d) bytes", _constant).groups()]
        COMPARE[_number] = (_name, _read // 8, [_before + _load.split()], [_sizes[[8, 16, 32, 64].index(_width)]])
        _short = re.search("or ([0-9a-f]{2}) (/.) with (.), except for (.*)$", _constant)
        if _short and _name != _short[4]:
            COMPARE[_number][2].append([*_before, _short[1], _short[2]])
            COMPARE[_number][3].append(int(_short[3]))
NAMES = {n: f.name for n, f in FORM.items()} | {n: c[0] for n, c in COMPARE.items()}
NEED = flags_of("etch_imv_more", "need")
SECOND = next(int(r[3]) for r in record(FORMATS, "etch_imv_more") if r[2] == "form")
# [(in a site of 7 bytes and more, in a shorter one)]
GIVES = [[bytes.fromhex(w) for w in re.findall(r"(?<=  )(?:[0-9a-f]{2}(?: |$))+", row)]
         for row in listing(FORMATS, "first that is true  in a site of 7 bytes and more           in a shorter one")]
GIVES = [g if len(g) == 2 else [g[0], g[0]] for g in GIVES]


def encode_compare(form, base, addressing, length, rex, site, obj, disp, imm, sizes):
    """Steps 1 to 6 of "The load" for a compare with a constant; sizes: bytes of the constant and the displacement."""
    _, _, encodings, constants = COMPARE[form]
    words = encodings[constants.index(sizes[0])]
    bits = 8 * ("REX.W" in words) + (base >= 8)
    if bits and not rex:
        return None
    out = (b"\x66" if "66" in words else b"") + (bytes([0x40 + bits]) if rex else b"") + opcode(words)
    field = next(int(w[1]) for w in words if w[0] == "/") << 3
    if addressing < 2:
        out += bytes([field | 5] if addressing == 0 else [field | 4, 0x25])
        disp, size = (obj - (site + len(out) + 4 + sizes[0]) if addressing == 0 else obj), 4
    else:
        size = sizes[1]
        out += bytes([{0: 0, 1: 0x40, 4: 0x80}[size] | field | base & 7]) + (b"\x24" if base == 12 else b"")
    return out + (disp % 2**32).to_bytes(4, "little")[:size] + (imm % 2**32).to_bytes(4, "little")[:sizes[0]]


def encode_flags(form, length, need, imm, data):
    """What stands at the site of a compare with a constant."""
    name, reads = COMPARE[form][:2]
    bits = 8 * reads
    a, b = int.from_bytes(data[:reads], "little"), imm % 2**bits
    if name.startswith("test"):
        a, b = a & b, 0
    signed = [v - 2**bits if v >> (bits - 1) else v for v in (a, b)]
    true = [a == b and need & NEED["EQUAL"], a < b and need & NEED["BELOW"], signed[0] < signed[1] and need & NEED["LESS"], True]
    body = next(g for g, t in zip(GIVES, true) if t)[length < 7]
    return b"\x2e" * (length - len(body)) + body


def opcode(words):
    return bytes(int(w, 16) for w in words if re.fullmatch("[0-9a-f]{2}", w) and w != "66")


def encode_load(form, reg, base, addressing, rex, site, obj):
    """Steps 1 to 5 of "The load"; None where an entry cannot say so."""
    f = FORM[form]
    out = b"\x66" if "66" in f.load else b""
    bits = 8 * ("REX.W" in f.load) + 4 * (reg >= 8) + (addressing == 2 and base >= 8)
    if bits and not rex:
        return None
    if rex:
        out += bytes([0x40 + bits])
    out += opcode(f.load)
    field = 6 if "/6" in f.load else reg & 7
    if addressing == 0:
        out += bytes([field << 3 | 5])
        disp = obj - (site + len(out) + 4)
    elif addressing == 1:
        out += bytes([field << 3 | 4, 0x25])
        disp = obj
    else:
        out += bytes([0x80 | field << 3 | base & 7]) + (b"\x24" if base == 12 else b"")
        disp = 0
    return out + struct.pack("<i", disp) if -2**31 <= disp < 2**31 else None


def encode_imm(form, reg, length, rex, data):
    """The steps of "The immediate"; None where the value does not fit."""
    f = FORM[form]
    v = int.from_bytes(data[:f.reads], "little", signed=f.name.startswith("movsx")) % 2**f.width
    words = None
    if "all" in f.fits or v < 2**31 or v >= 2**64 - 2**31:
        words = f.imms[0]
    elif "u32" in f.fits and v < 2**32:
        words = f.imms[1]
    if words is None:
        return None
    bits = 8 * ("REX.W" in words) + (1 | 4 * ("/r" in words)) * (reg >= 8)
    prefix = bytes([0x40 + bits]) if bits or (f.byte and rex) else b""
    size = {"ib": 1, "iw": 2, "id": 4}[words[-1]]
    modrm = b""
    for w in words:
        if w == "/r":
            modrm = bytes([0xC0 | (reg & 7) << 3 | reg & 7])
        elif w[0] == "/":
            modrm = bytes([0xC0 | int(w[1]) << 3 | reg & 7])
    body = opcode(words) + modrm + (v % 2**(8 * size)).to_bytes(size, "little")
    osize = b"\x66" if "66" in words else b""
    missing = length - len(osize + prefix + body)
    if missing and not prefix and not f.byte:
        prefix, missing = b"\x40", missing - 1
    assert missing >= 0
    return b"\x2e" * missing + osize + prefix + body


# ---- formats.md: a second reader ---------------------------------------------------

class Reader:
    """Tables of a linked file, by formats.md alone."""

    def __init__(self, path):
        self.data = bytearray(path.read_bytes())
        with open(path, "rb") as f:
            elf = ELFFile(f)
            self.sections = [(s.name, s["sh_addr"], s["sh_offset"], s["sh_size"], s["sh_type"], s["sh_flags"])
                             for s in elf.iter_sections()]
            self.loads = [dict(s.header) for s in elf.iter_segments() if s["p_type"] == "PT_LOAD"]
        self.modules = [a for n, addr, off, size, *_ in self.sections if n == "__etch_mod"
                        for a in range(addr, addr + size - 63, 8) if self.u32(a) == 0x68637465]
        self.flags, self.imv_at, self.obj_at = 0, (0, 0), (0, 0)
        if self.modules:
            m = self.unpack("etch_module", self.modules[0])
            assert m["version"] == 1 and m["size"] == 64
            self.flags = m["flags"]
        if self.flags & MODULE_FLAGS["MOVED"]:
            at = self.modules[0]
            self.imv_at = at + 16 + self.signed(m["imv"], 64), m["imv_count"]
            self.obj_at = at + 32 + self.signed(m["obj"], 64), m["obj_count"]
            self.pv_at = at + 48 + self.signed(m["pv"], 64), m["pv_count"]
        else:
            self.imv_at = self.first_section("__imv", 12)
            self.pv_at = self.first_section("__pv_sites", 12)
            self.obj_at = self.first_section("__etch_obj", 16)
        self.imv = []
        for i in range(self.imv_at[1]):
            e = self.imv_entry(self.imv_at[0] + 12 * i)
            if e["form"] == SECOND:
                assert self.imv[-1]["more"] is None and self.imv[-1]["flags"] & IMV_FLAGS["MORE"]
                more = self.unpack("etch_imv_more", e["at"])
                self.imv[-1]["more"] = dict(more, disp=self.signed(more["disp"], 32), imm=self.signed(more["imm"], 32))
            else:
                assert not self.imv or (self.imv[-1]["more"] is None) == (not self.imv[-1]["flags"] & IMV_FLAGS["MORE"])
                self.imv.append(dict(e, more=None))
        self.obj = [self.obj_record(self.obj_at[0] + 16 * i) for i in range(self.obj_at[1])]
        self.pv = [self.pv_entry(self.pv_at[0] + 12 * i) for i in range(self.pv_at[1])]
        at, n = self.first_section("__pv_native", 12)
        at, n2 = self.first_section("__pv_inline", 12)
        self.inline = [self.inline_record(at + 12 * i) for i in range(n2)]
        at, n = self.first_section("__pv_native", 12)
        self.native = [self.native_record(at + 12 * i) for i in range(n)]
        at, n = self.first_section("__ex_table", 12)
        self.ex = [self.ex_entry(at + 12 * i) for i in range(n)] if n else None

    @staticmethod
    def signed(v, bits):
        return v - 2**bits if v >> (bits - 1) else v

    def first_section(self, name, size):
        for n, addr, _, length, *_ in self.sections:
            if n == name:
                assert length % size == 0
                return addr, length // size
        return 0, 0

    def offset(self, addr):
        for p in self.loads:
            if p["p_vaddr"] <= addr < p["p_vaddr"] + p["p_filesz"]:
                return p["p_offset"] + addr - p["p_vaddr"]
        raise AssertionError(hex(addr))

    def bytes(self, addr, n):
        o = self.offset(addr)
        return bytes(self.data[o:o + n])

    def initial(self, addr, n):
        """As in memory before the first instruction: zeros after the file's bytes."""
        for p in self.loads:
            if p["p_vaddr"] <= addr < p["p_vaddr"] + p["p_memsz"]:
                o, have = p["p_offset"] + addr - p["p_vaddr"], p["p_vaddr"] + p["p_filesz"] - addr
                return bytes(self.data[o:o + max(0, min(n, have))]).ljust(n, b"\0")
        raise AssertionError(hex(addr))

    def u32(self, addr):
        return struct.unpack("<I", self.bytes(addr, 4))[0]

    def string(self, addr):
        o = self.offset(addr)
        return self.data[o:self.data.index(0, o)].decode()

    def unpack(self, name, addr):
        raw = self.bytes(addr, total(name))
        return {f: int.from_bytes(raw[o:o + s], "little") for o, s, f in RECORDS[name]}

    def imv_entry(self, at):
        e = self.unpack("etch_imv", at)
        e["at"] = at
        e["site"] = at + self.signed(e["site"], 32)
        e["obj"] = at + 4 + self.signed(e["obj"], 32)
        e["register"], e["base"] = e["regs"] & 15, e["regs"] >> 4
        e["length"], e["addressing"], e["rex"] = e["shape"] & 15, e["shape"] >> 4 & 3, e["shape"] >> 6 & 1
        e["empty"] = self.bytes(at, 12) == bytes(12)
        return e

    def pv_entry(self, at):
        e = self.imv_entry(at)
        e["register"] = e["regs"] & 15
        e["disp"] = 8 * self.signed(e["regs"] >> 4 | e["flags"] & 0xf0, 8)
        e["notrack"] = e["shape"] >> 7
        return e

    def inline_record(self, at):
        r = self.unpack("etch_inline", at)
        return {f: at + 4 * i + self.signed(r[f], 32) for i, f in enumerate(("site", "slot", "func"))}

    def native_record(self, at):
        r = self.unpack("etch_native", at)
        assert r["zero"] == 0
        r["func"] = at + self.signed(r["func"], 32)
        r["code"] = at + 4 + self.signed(r["code"], 32)
        return r

    def ex_entry(self, at):
        r = self.unpack("etch_ex", at)
        assert r["data"] >> 12 & 15 == 0
        return {"empty": self.bytes(at, 12) == bytes(12), "insn": at + self.signed(r["insn"], 32),
                "fixup": at + 4 + self.signed(r["fixup"], 32), "type": EX_TYPES[r["data"] & 255],
                "register": r["data"] >> 8 & 15, "immediate": self.signed(r["data"] >> 16, 16)}

    def obj_record(self, at):
        r = self.unpack("etch_obj", at)
        r["at"] = at
        r["addr"] = at + self.signed(r["addr"], 32)
        r["ref"] = at + 8 + self.signed(r["ref"], 32)
        r["empty"] = self.bytes(at, 16) == bytes(16)
        return r

    def as_inspect(self):
        """What `etch inspect tables --json` prints."""
        imv = [{
            "site": f"{e['site']:x}", "refers": f"{e['obj']:x}", "form": NAMES[e["form"]],
            "register": e["register"], "base": e["base"] if e["addressing"] >= 2 else None, "length": e["length"],
            "offset": e["more"]["disp"] if e["addressing"] == 3 else None,
            "constant": e["more"]["imm"] if e["form"] in COMPARE else None,
            "asked": (",".join(n.lower() for n, m in NEED.items() if e["more"]["need"] & m) or None) if e["form"] in COMPARE else None,
            "address": ADDRESSING[e["addressing"]],
            "flags": ",".join(n.lower() for n, m in IMV_FLAGS.items() if e["flags"] & m) or None,
        } for e in self.imv if e["form"]]
        obj = [{
            "kind": KINDS[r["kind"]], "address": f"{r['addr']:x}", "size": r["size"], "ref": f"{r['ref']:x}",
            "flags": ",".join([n.lower() for n, m in OBJ_FLAGS.items() if r["flags"] & m] +
                              [n.lower() for n, m in OBJ_MORE.items() if r["more"] & m]) or None,
            "name": self.string(r["ref"]) if r["kind"] == 1 else None,
        } for r in self.obj if r["kind"]]
        pv = [{
            "site": f"{e['site']:x}", "refers": f"{e['obj']:x}",
            "form": f"{PV_FORMS[e['form']]}-{PV_ADDRESSING[e['addressing']]}",
            "register": e["register"] if e["addressing"] >= 2 else None,
            "offset": e["disp"] if e["addressing"] == 2 else None, "length": e["length"],
            "flags": ",".join([n.lower() for n, m in IMV_FLAGS.items() if e["flags"] & m] +
                              ["notrack"] * e["notrack"]) or None,
        } for e in self.pv if e["form"]]
        native = [{
            "function": f"{r['func']:x}", "code": f"{r['code']:x}", "length": r["len"],
            "flags": ",".join(n.lower() for n, m in NATIVE_FLAGS.items() if r["flags"] & m) or None,
        } for r in self.native]
        ex = [{
            "instruction": f"{r['insn']:x}", "fixup": f"{r['fixup']:x}", "type": r["type"],
            "register": r["register"] if r["type"] != "plain" else None,
            "immediate": r["immediate"] if r["type"] == "len" else None,
        } for r in self.ex or []]
        insns = [r["insn"] for r in self.ex or []]
        state = "sorted" if insns == sorted(insns) else "not sorted: no link step"
        return {
            "ex": ex, "ex_state": state if self.ex else None,
            "linked": bool(self.flags & MODULE_FLAGS["LINKED"]), "moved": bool(self.flags & MODULE_FLAGS["MOVED"]),
            "imv_address": self.imv_at[0], "imv_room": self.imv_at[1],
            "obj_address": self.obj_at[0], "obj_room": self.obj_at[1], "imv": imv, "obj": obj,
            "pv_address": self.pv_at[0], "pv_room": self.pv_at[1], "pv": pv, "native": native,
            "inline": [{"site": f"{r['site']:x}", "slot": f"{r['slot']:x}", "function": f"{r['func']:x}",
                        "state": {"3e2ee9": "call", "0f1f80": "in place"}[self.bytes(r["site"], 3).hex()]}
                       for r in self.inline],
        }
