# SPDX-License-Identifier: MIT
"""Call sites in linked files by docs/formats.md alone: order, both forms of each entry to
the byte, which are baked and with what. Written from the document, not from the headers."""
import struct

import pytest
from elftools.elf.elffile import ELFFile
from elftools.elf.relocation import RelrRelocationSection

from conftest import call_options, run
from format_reader import IMV_FLAGS, NATIVE_FLAGS, OBJ_FLAGS, Reader

CALL, JMP = 64, 65
NOPS = {2: "66 90", 3: "0f 1f 00", 4: "0f 1f 40 00", 5: "0f 1f 44 00 00", 6: "66 0f 1f 44 00 00",
        7: "0f 1f 80 00 00 00 00", 8: "0f 1f 84 00 00 00 00 00", 9: "66 0f 1f 84 00 00 00 00 00"}
ENDBR = bytes.fromhex("f30f1efa")


def indirect(e, slot):
    """The bytes that the compiler wrote."""
    reg, field = e["register"], 2 if e["form"] == CALL else 4
    out = (b"\x3e" if e["notrack"] else b"") + (bytes([0x41 if reg >= 8 else 0x40]) if e["rex"] else b"") + b"\xff"
    low = reg & 7
    if e["addressing"] == 3:
        return out + bytes([0xc0 | field << 3 | low])
    if e["addressing"] == 0:
        return out + bytes([field << 3 | 5]) + struct.pack("<i", slot - (e["site"] + len(out) + 5))
    if e["addressing"] == 1:
        return out + bytes([field << 3 | 4, 0x25]) + struct.pack("<i", slot)
    sib = b"\x24" if low == 4 else b""
    width = e["length"] - len(out) - 1 - len(sib)
    mod = {0: 0, 1: 1, 4: 2}[width]
    return out + bytes([mod << 6 | field << 3 | low]) + sib + e["disp"].to_bytes(width, "little", signed=True)


def body_of(r, target):
    """(bytes, one instruction) or None."""
    for n in r.native:
        if n["func"] == target and n["flags"] & NATIVE_FLAGS["CHECKED"]:
            return r.bytes(n["code"], n["len"]), bool(n["flags"] & NATIVE_FLAGS["ONE"]) or n["len"] == 0
    code = r.bytes(target, 16)
    code = code[4:] if code.startswith(ENDBR) else code
    for known in (b"", b"\x31\xc0", b"\x89\xf8", b"\x48\x89\xf8"):
        if code.startswith(known) and code[len(known):].startswith((b"\xc3", b"\xf3\xc3")):
            return known, True
    if code[0] == 0xb8 and code[5] == 0xc3:
        return code[:5], True
    return None


def stands(e, target, body):
    """What stands at a site that is not sealed."""
    n = e["length"]
    if target == 0:
        return None
    if body and body[1] and not body[0]:
        return bytes.fromhex(NOPS[n]) if e["form"] == CALL else b"\x2e" * (n - 1) + b"\xc3"
    if body and body[1] and e["form"] == CALL and len(body[0]) <= n:
        return b"\x2e" * (n - len(body[0])) + body[0]
    rel = target - (e["site"] + n)
    if n >= 5 and -2**31 <= rel < 2**31:
        pad, opcode = (b"\x67", b"\xe8") if e["form"] == CALL else (b"\x2e", b"\xe9")
        return pad * (n - 5) + opcode + struct.pack("<i", rel)
    return None


SOURCE = """
#include <etch/pv.h>
struct ops {
	long (*ident)(long); unsigned (*ident32)(unsigned); void (*nop)(void); long (*real)(long, long);
	int (*zero)(void); int (*five)(int); void (*native)(long *, long); long (*two)(long); int (*null)(int);
	long (*library)(long); void (*quiet)(int);
};
long labs(long);
static long real(long a, long b) { __asm__ volatile(""); return a * 3 + b; }
static int zero(void) { return 0; }
static int five(int x) { (void)x; return 5; }
static void quiet(int x) { (void)x; }
void native(long *, long);
PV_NATIVE(native, "mov %rsi,(%rdi)");
long two(long);
PV_NATIVE(two, "mov %rdi,%rax; inc %eax");
__attribute__((visibility("hidden"))) DEFINE_PV_OPS(struct ops, ops) = {
	.ident = pv_ident_64, .ident32 = pv_ident_32, .nop = pv_nop, .real = real, .zero = zero, .five = five,
	.native = native, .two = two, .library = labs, .quiet = quiet };
#define API __attribute__((visibility("default"), noinline))
API long f(long x)
{
	long s = ops.ident(x);

	ops.nop();
	s += ops.ident32((unsigned)x) + ops.real(x, s) + ops.zero() + ops.five(3);
	ops.native(&s, s + 1);
	return s + ops.two(x) + ops.library(-x) + (x == 12345 ? ops.null(1) : 0);
}
API long in_place(long x) { return pv_call_inline(ops, ident, pv_ident_64, x, x) + pv_call_inline(ops, five, five, 5, 3); }
API long tail(long x) { return ops.real(x, 5); }
API void tail_nop(void) { ops.nop(); }
API void tail_quiet(int x) { ops.quiet(x); }
API long tail_ident(long x) { return ops.ident(x); }
API long again(long *p, long n)
{
	long s = 0;

	for (long i = 0; i < n; i++)
		s += ops.ident(p[i]), ops.nop(), s += ops.zero() + ops.five(1) + ops.ident(s) + ops.ident(i);
	return s;
}
"""
MAIN = """
#include <stdio.h>
int main(void)
{
	long p[3] = {1, 2, 3};

	tail_nop();
	tail_quiet(1);
	printf("%ld %ld %ld %ld\\n", f(4), tail(5), tail_ident(6), again(p, 3));
	return (int)etch_verify(0, 0);
}
"""
SHAPES = {
    "pie": (["-fPIE"], ["-pie"], MAIN, True),
    "no-pie": (["-fno-pie"], ["-no-pie"], MAIN, True),
    "no-pie-O0": (["-fno-pie", "-O0"], ["-no-pie"], MAIN, True),
    "cet": (["-fPIE", "-fcf-protection=full"], ["-pie"], MAIN, True),
    "shared": (["-fPIC"], ["-shared"], "", True),
    "static-pie": (["-fPIE"], ["-static-pie"], MAIN, True),
    "moved": (["-fPIE"], ["-pie"], MAIN, False),
}


def initial_targets(path, r):
    """address of a slot -> its value before main, where the file alone says it; None: the
    dynamic linker decides."""
    out = {}
    with open(path, "rb") as f:
        elf = ELFFile(f)
        dynsym = elf.get_section_by_name(".dynsym")
        for s in elf.iter_sections():
            if isinstance(s, RelrRelocationSection):
                for x in s.iter_relocations():
                    out[x["r_offset"]] = int.from_bytes(r.bytes(x["r_offset"], 8), "little")
            elif s["sh_type"] == "SHT_RELA" and s["sh_flags"] & 2:
                for x in s.iter_relocations():
                    value = None
                    if x["r_info_type"] == 8:
                        value = x["r_addend"]
                    elif x["r_info_type"] == 1 and dynsym:
                        y = dynsym.get_symbol(x["r_info_sym"])
                        if y["st_shndx"] != "SHN_UNDEF" and y["st_other"]["visibility"] != "STV_DEFAULT":
                            value = y["st_value"] + x["r_addend"]
                    out[x["r_offset"]] = value
    return out


@pytest.mark.parametrize("shape", SHAPES)
def test_linked(flow, shape):
    flags, ldflags, main, object_step = SHAPES[shape]
    obj = flow.compile(SOURCE + main, ("-O2", *flags, *call_options(flow.cc)))
    if object_step:
        flow.rewrite(obj)
    path = flow.link([obj], ldflags, shared_lib="-shared" in ldflags)
    flow.rewrite(path)
    r = Reader(path)
    relocated = initial_targets(path, r)
    entries = [e for e in r.pv if e["form"]]
    key = [(e["flags"] & IMV_FLAGS["GOT"], e["obj"], e["site"]) for e in entries]
    assert len(entries) >= 12 and key == sorted(key) and all(e["empty"] for e in r.pv[len(entries):])
    armed = [o for o in r.obj if o["kind"] == 1 and o["flags"] & OBJ_FLAGS["ARMED"]]
    assert armed
    forms = set()
    for e in entries:
        now = r.bytes(e["site"], e["length"])
        was = indirect(e, e["obj"])
        assert len(was) == e["length"]
        baked, want = bool(e["flags"] & IMV_FLAGS["BAKED"]), None
        target = relocated.get(e["obj"], int.from_bytes(r.initial(e["obj"], 8), "little"))
        if target is not None and not e["flags"] & IMV_FLAGS["GOT"]:
            want = stands(e, target, body_of(r, target) if target else None)
        assert baked == (want is not None), (e, target)
        assert now == (want if baked else was)
        forms.add(now[:2].hex() if baked else "indirect")
    if "-O0" not in flags:
        assert {"67e8", "indirect"} <= forms, forms
        assert {"2ee9", "2e2e"} & forms, forms
    if main:
        run([path])


def test_second_reader_agrees(flow):
    obj = flow.compile(SOURCE + MAIN, ("-O2", "-fPIE"))
    flow.rewrite(obj)
    path = flow.link([obj], ["-pie"])
    flow.rewrite(path)
    tool = flow.inspect("tables", path)
    for row in tool["native"]:
        del row["name"]
    mine = Reader(path).as_inspect()
    for name in ("pv", "native", "inline", "pv_address", "pv_room"):
        assert mine[name] == tool[name], name
    assert [r["state"] for r in mine["inline"]] == 2 * ["in place"]
    assert len(mine["pv"]) >= 18 and {n["flags"] for n in mine["native"]} == {"checked", "checked,one"}


def test_a_pointer_in_a_register_that_came_through_the_got(flow_gcc):
    """Addressing 3 with GOT: the displacement is that of the slot from the object's address."""
    obj = flow_gcc.compile("#include <etch/pv.h>\nstruct config { long n, m; int (*hook)(void); };\n"
                           "extern struct config theirs;\nETCH_DECLARE(theirs);\n"
                           "int f(void);\nint f(void) { int (*h)(void) = theirs.hook; return h ? h() + 1 : 0; }\n", ("-O2", "-fPIC"))
    flow_gcc.rewrite(obj)
    path = flow_gcc.link([obj], ["-shared"], shared_lib=True)
    flow_gcc.rewrite(path)
    r = Reader(path)
    entry, = [e for e in r.pv if e["form"]]
    assert (entry["form"], entry["addressing"], entry["disp"]) == (CALL, 3, 16) and entry["flags"] & 15 == IMV_FLAGS["GOT"]
    assert r.bytes(entry["site"], entry["length"]) == indirect(entry, None)
    with open(path, "rb") as f:
        elf = ELFFile(f)
        names = {x["r_offset"]: elf.get_section_by_name(".dynsym").get_symbol(x["r_info_sym"]).name
                 for x in elf.get_section_by_name(".rela.dyn").iter_relocations() if x["r_info_type"] == 6}
    assert names[entry["obj"]] == "theirs"
