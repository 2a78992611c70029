# SPDX-License-Identifier: MIT
"""Exception tables and the tool: sorted, checked, known to the unwind generator.

The tables are read here by a reader of its own (docs/formats.md, `__ex_table`).
"""

import os
import random
import re
import struct

import pytest
from elftools.elf.elffile import ELFFile

from conftest import DATA, asan_env, run

FAULT = DATA / "faults"
EVERY = [FAULT / "tool_every.c", FAULT / "tool_template_a.cc", FAULT / "tool_template_b.cc", FAULT / "tool_shapes.S"]


class Table:
    """__ex_table of a linked file."""

    def __init__(self, path):
        self.path = path
        with open(path, "rb") as f:
            elf = ELFFile(f)
            s = elf.get_section_by_name("__ex_table")
            self.addr, self.offset, data = s["sh_addr"], s["sh_offset"], s.data()
            self.code = [(x["sh_addr"], x["sh_addr"] + x["sh_size"]) for x in elf.iter_sections() if x["sh_flags"] & 4]
        assert len(data) % 12 == 0
        self.raw = [data[i:i + 12] for i in range(0, len(data), 12)]
        self.entries = []
        for i, raw in enumerate(self.raw):
            insn, fixup, data = struct.unpack("<iiI", raw)
            self.entries.append((self.addr + 12 * i + insn, self.addr + 12 * i + 4 + fixup, data))
        self.live = [e for e, raw in zip(self.entries, self.raw) if any(raw) and self.is_code(e[0])]

    def is_code(self, addr):
        return any(a <= addr < b for a, b in self.code)

    def in_order(self):
        insns = [e[0] for e in self.entries]
        return insns == sorted(insns)

    def poke(self, i, insn=None, fixup=None, data=None):
        """Changes entry i of the file; insn and fixup are addresses."""
        at = self.addr + 12 * i
        old = self.entries[i]
        new = [v if v is not None else w for v, w in zip((insn, fixup, data), old)]
        with open(self.path, "r+b") as f:
            f.seek(self.offset + 12 * i)
            f.write(struct.pack("<iiI", new[0] - at, new[1] - at - 4, new[2]))


def findings(p):
    return re.findall(r"ETCH-\w+: .*", p.stderr)


SHAPES = {
    "pie": (["-fPIE"], ["-pie"]),
    "no-pie": (["-fno-pie"], ["-no-pie"]),
    "static": (["-fno-pie"], ["-static"]),
    "static-pie": (["-fPIE"], ["-static-pie"]),
    "gc": (["-fPIE", "-ffunction-sections"], ["-pie", "-Wl,--gc-sections"]),
    "lld": (["-fPIE"], ["-pie", "-fuse-ld=lld"]),
    "lld-gc": (["-fPIE", "-ffunction-sections"], ["-pie", "-fuse-ld=lld", "-Wl,--gc-sections"]),
    "stripped": (["-fPIE", "-fno-asynchronous-unwind-tables", "-DWITHOUT_CFI"], ["-pie", "-s"]),
}


@pytest.mark.parametrize("shape", SHAPES)
def test_every_entry_faults_before_and_after(flow, shape):
    cflags, ldflags = SHAPES[shape]
    objects = [flow.compile(s, ("-O2", *cflags)) for s in EVERY]
    before = [o.read_bytes() for o in objects]
    assert not findings(flow.rewrite(*objects, args=["--only", "ex", "--werror"]))
    assert before == [o.read_bytes() for o in objects]  # an object's table stays as it is
    exe = flow.link(objects, ldflags, cxx=True)
    plain = run([exe]).stdout
    assert "faults 0\n" in plain and "entries 16\n" in plain
    old = Table(exe)
    assert "ETCH-X" not in flow.rewrite(exe).stderr
    new = Table(exe)
    assert sorted(new.live) == sorted(old.live) and new.in_order()
    assert run([exe]).stdout == plain
    once = exe.read_bytes()
    flow.rewrite(exe)
    assert exe.read_bytes() == once


def test_sorting_changes_an_order(flow_gcc):
    exe = flow_gcc.program(EVERY, stage="object")
    assert not Table(exe).in_order()  # or the test above shows nothing
    assert flow_gcc.inspect("tables", exe)["ex_state"] == "not sorted: no link step"
    flow_gcc.rewrite(exe, args=["--only", "imv,pv,orc"])
    assert not Table(exe).in_order()
    flow_gcc.rewrite(exe, args=["--only", "ex"])
    assert Table(exe).in_order() and flow_gcc.inspect("tables", exe)["ex_state"] == "sorted"


def test_shared_object(flow):
    source = """
    #include <etch/extable.h>
    __attribute__((section(".text.zz"))) long second(const long *p)
    {
        long v, err = 0;
        __asm__ __volatile__("1: mov %2, %1\\n2:\\n\\t" ETCH_EX_EFAULT("1b", "2b", "%0") : "+r"(err), "=r"(v) : "m"(*p));
        return err;
    }
    long first(const long *p)
    {
        long v = 1;
        __asm__ __volatile__("1: mov %1, %0\\n2:\\n\\t" ETCH_EX_ZERO("1b", "2b", "%0") : "+r"(v) : "m"(*p));
        return v;
    }
    """
    main = """
    #include <etch/extable.h>
    #include <stdio.h>
    long first(const long *), second(const long *);
    int main(void)
    {
        etch_fault_init();
        printf("%ld %ld\\n", first((long *)8), second((long *)16));
        return 0;
    }
    """
    lib = flow.link([flow.compile(source, ("-O2", "-fPIC"), "l.o")], ["-shared"], "l.so", shared_lib=True)
    exe = flow.link([flow.compile(main, out="m.o"), lib], [f"-Wl,-rpath,{flow.tmp}"], shared_lib=True)
    plain = run([exe]).stdout
    assert plain == "0 -14\n"
    assert not findings(flow.rewrite(lib, exe, args=["--werror"]))
    assert Table(lib).in_order() and len(Table(lib).live) == 2
    assert run([exe]).stdout == plain


def test_libetch_itself(flow_gcc, build):
    path = flow_gcc.tmp / "libetch.so"
    path.write_bytes((build / "libetch.so.0").read_bytes())
    old = Table(path)
    assert len(old.live) > 300
    assert not [x for x in findings(flow_gcc.rewrite(path)) if "ETCH-X" in x]
    new = Table(path)
    assert sorted(new.live) == sorted(old.live) and new.in_order()
    assert flow_gcc.inspect("summary", path)["exceptions"] == len(new.entries)


# ---- code that is not there -------------------------------------------------------

GONE = """
	.text
	.globl	main
	.type	main, @function
main:	xor	%eax, %eax
	ret
	.size	main, . - main
	.section .text.a, "ax"
	.type	a, @function
a:
1:	movl	(%rdi), %eax
2:	ret
	.size	a, . - a
	.section .text.b, "ax"
	.type	b, @function
b:
3:	movl	(%rdi), %eax
4:	ret
	.size	b, . - b
	.weak	gone
	.hidden	gone
	.section __ex_table, "a", @progbits
	.globl	__start___ex_table
	.macro ENTRY from, to, data=0
	.long	\\from - .
	.long	\\to - .
	.long	\\data
	.endm
	ENTRY 3b, 4b
	ENTRY gone, gone, 0x101
	ENTRY 1b, 2b, 2
	.zero 12
	ENTRY gone+4, gone
	.section .note.GNU-stack, "", @progbits
"""


@pytest.mark.parametrize("ld,pie", [("bfd", "-no-pie"), ("lld", "-no-pie"), ("lld", "-pie")])
def test_dropped_code(flow_gcc, ld, pie):
    obj = flow_gcc.compile(flow_gcc.source(GONE, "t.S"))
    exe = flow_gcc.tmp / "t"
    run(["gcc", pie, f"-fuse-ld={ld}", "-o", exe, obj])
    old = Table(exe)
    assert len(old.live) == 2 and not old.in_order() and len(old.raw) == 5
    said = flow_gcc.rewrite(exe, args=["-v", "--only", "ex"])
    assert not findings(said) and "5 entries of an exception table, 3 of them for discarded code" in said.stdout
    new = Table(exe)
    assert new.live == sorted(old.live) and new.in_order()
    empty = [i for i, raw in enumerate(new.raw) if not any(raw)]
    # Where their own address is in the order: lld puts the table before the code.
    assert empty == ([0, 1, 2] if ld == "lld" else [2, 3, 4])
    listed = flow_gcc.inspect("tables", exe)["ex"]
    assert [r["instruction"] is None for r in listed] == [i in empty for i in range(5)]
    once = exe.read_bytes()
    flow_gcc.rewrite(exe, args=["--only", "ex"])
    assert exe.read_bytes() == once
    run([exe])


# ---- findings ------------------------------------------------------------------------

CHECKED = """
	.text
	.globl	f
	.type	f, @function
f:
1:	movl	(%rdi), %eax
2:	addl	(%rsi), %eax
3:	ret
9:	nop
	ret
	.size	f, . - f
	.globl	other
	.type	other, @function
other:
	nop
4:	nop
	ret
	.size	other, . - other
	.globl	handler
	.type	handler, @function
handler:
	mov	$-1, %eax
	ret
	.size	handler, . - handler
	.globl	main
	.type	main, @function
main:	sub	$8, %rsp
	{calls}
	xor	%eax, %eax
	add	$8, %rsp
	ret
	.size	main, . - main
	.data
data:	.long 0, 0
	.macro ENTRY from, to, data=0
	.section __ex_table, "a", @progbits
	.long	\\from - .
	.long	\\to - .
	.long	\\data
	.endm
	ENTRY 2b, 3b
	{entry}
	.section .note.GNU-stack, "", @progbits
"""

TROUBLE = {
    "type": ("ENTRY 1b, 3b, 4", "ETCH-X001: f: libetch ignores this exception table"),
    "bits": ("ENTRY 1b, 3b, 0x10001", "ETCH-X001: f: libetch ignores this exception table"),
    "plain register": ("ENTRY 1b, 3b, 0x100", "ETCH-X001: f: libetch ignores this exception table"),
    "inside": ("ENTRY 1b + 1, 3b", r"ETCH-X003: f[+]0x1: the faulting address is not an instruction: it is inside an instruction"),
    "data": ("ENTRY data, 3b", "ETCH-X003: .*: the faulting address is not an instruction: it is data"),
    "ret pops": ("ENTRY 3b, 1b", None),
    "nop": ("ENTRY 9b, 3b", "ETCH-X004: f[+]0x5: the instruction that may fault accesses no memory: nop"),
    "fixup inside": ("ENTRY 1b, 2b + 1", r"ETCH-X005: f: continues at f[+]0x3: it is inside an instruction"),
    "fixup data": ("ENTRY 1b, data", "ETCH-X005: f: continues at .*: there is no code"),
    "fixup itself": ("ENTRY 1b, 1b", "ETCH-X005: f: continues at f: that is where it faulted"),
    "fixup elsewhere": ("ENTRY 1b, 4b", r"ETCH-X005: f: continues at other[+]0x1: that is inside another function"),
    "fixup function": ("ENTRY 1b, handler", None),
    "rsp": ("ENTRY 1b, 3b, 0x402", "ETCH-X006: f: "),
    "high": ("ENTRY 1b, 3b, 0xf02", None),
    "twice": ("ENTRY 2b, 3b", r"ETCH-X007: f[+]0x2: a second entry for the same instruction, to f[+]0x4: the same"),
    "two": ("ENTRY 2b, 9b", r"ETCH-X007: f[+]0x2: a second entry for the same instruction, to f[+]0x5: the first"),
}


def checked(flow, entry, calls=""):
    return flow.compile(flow.source(CHECKED.format(entry=entry, calls=calls), "t.S"))


@pytest.mark.parametrize("name", TROUBLE)
def test_findings(flow_gcc, name):
    entry, want = TROUBLE[name]
    obj = checked(flow_gcc, entry)
    exe = flow_gcc.tmp / "t"
    run(["gcc", "-o", exe, obj])
    for path in (obj, exe):
        said = findings(flow_gcc.rewrite(path, args=["--werror"], ok=1 if want else 0))
        if want:
            assert len(said) == 1 and re.match(want.replace("f:", r"f(?: \(.*\))?:", 1), said[0]), said
        else:
            assert not said
    run([exe])
    # It went on: the rest is done.
    assert flow_gcc.inspect("summary", exe)["unwind"]["encoding"] == "block"
    assert Table(exe).in_order() == (not want or "X001" not in want)


def test_called_function_is_no_fixup(flow_gcc):
    obj = checked(flow_gcc, "ENTRY 1b, handler", "call handler")
    exe = flow_gcc.tmp / "t"
    run(["gcc", "-o", exe, obj])
    said = findings(flow_gcc.rewrite(exe))
    assert len(said) == 1 and "continues at handler: that is inside another function" in said[0]


def test_source_line(flow_gcc):
    source = """#include <etch/extable.h>
    int f(const int *p)
    {
        long v;
        __asm__("1: lea %1, %0\\n2:\\n\\t" ETCH_EX_PLAIN("1b", "2b") : "=r"(v) : "m"(*p));
        return (int)v;
    }
    """
    obj = flow_gcc.compile(source, ("-O2", "-g"), "t.o")
    said = findings(flow_gcc.rewrite(obj))
    assert len(said) == 1 and re.match(r"ETCH-X004: f.* \(.*t\.c:5\): .* accesses no memory: leaq", said[0]), said


ACCESS = {
    "movl (%rdi), %eax": True, "movl %eax, (%rdi)": True, "addl $1, (%rdi)": True, "lodsb": True, "rep stosq": True,
    "rep movsb": True, "cmpxchg16b (%rdi)": True, "movdqu (%rdi), %xmm0": True, "vmovdqu %ymm0, (%rdi)": True,
    "vmovdqu64 (%rdi), %zmm1": True, "movntdq %xmm0, (%rdi)": True, "clflush (%rdi)": True, "xlat": True, "fldl (%rdi)": True,
    "vpgatherdd %xmm2, (%rdi,%xmm1), %xmm0": True, "vmaskmovps (%rdi), %xmm1, %xmm0": True, "pop %rax": True, "call *(%rdi)": True,
    "jmp *(%rdi)": True, "lea (%rdi), %rax": False, "nopl (%rdi)": False, "prefetcht0 (%rdi)": False, "prefetchw (%rdi)": False,
    "prefetchnta (%rdi)": False, "mov %rax, %rbx": False, "rdtsc": False, "cpuid": False, "endbr64": False, "sfence": False,
}


def test_what_accesses_memory(flow_gcc):
    text = "\t.text\n\t.type f, @function\nf:\n"
    names = list(ACCESS)
    for i, insn in enumerate(names):
        text += f"l{i}:\t{insn}\n"
    text += 'e:\tret\n\t.size f, . - f\n\t.section __ex_table, "a", @progbits\n'
    text += "".join(f"\t.long l{i} - .\n\t.long e - .\n\t.long 0\n" for i in range(len(names)))
    obj = flow_gcc.compile(flow_gcc.source(text, "t.s"))
    said = "\n".join(findings(flow_gcc.rewrite(obj)))
    assert len(re.findall("ETCH-X004", said)) == sum(not v for v in ACCESS.values()) and "ETCH-X003" not in said, said


# ---- tables that are not etch's -----------------------------------------------------------

FOREIGN = {
    "kernel": ("", ".section .modinfo, \"a\"\n.asciz \"license=GPL\"", "it belongs to the Linux kernel"),
    "writable": ('"a"', '"aw"', "unexpected section flags"),
    "none of etch's": ("\\data", "\\data + 0x1000", "none of its entries is in etch's format"),
}


@pytest.mark.parametrize("name", FOREIGN)
def test_foreign(flow_gcc, name):
    old, new, why = FOREIGN[name]
    text = CHECKED.format(entry="ENTRY 1b, 3b", calls="")
    text = text.replace(old, new) if old else text + "\t" + new + "\n"
    obj = flow_gcc.compile(flow_gcc.source(text, "t.S"))
    exe = flow_gcc.tmp / "t"
    run(["gcc", "-o", exe, obj])
    before = Table(exe).raw
    for path in (obj, exe):
        said = findings(flow_gcc.rewrite(path))
        assert len(said) == 1 and "ETCH-X002" in said[0] and why in said[0], said
    assert Table(exe).raw == before and not Table(exe).in_order()
    shown = flow_gcc.inspect("tables", exe)
    if name == "kernel": # then the table is shown as the kernel's
        assert [t["section"] for t in shown["tables"]] == ["__ex_table"], shown
    else:
        assert shown["ex_state"] == why
    run([exe])


def test_other_entry_size(flow_gcc):
    exe = flow_gcc.tmp / "t"
    run(["gcc", "-o", exe, checked(flow_gcc, "ENTRY 1b, 3b")])
    with open(exe, "r+b") as f:
        elf = ELFFile(f)
        at = elf["e_shoff"] + 64 * elf.get_section_index("__ex_table") + 56  # sh_entsize
        f.seek(at)
        f.write(struct.pack("<Q", 8))
    before = Table(exe).raw
    said = findings(flow_gcc.rewrite(exe))
    assert len(said) == 1 and "unexpected entry size" in said[0] and Table(exe).raw == before


def test_kernel_table_of_another_size(flow_gcc):
    """Old kernels have entries of 16 bytes."""
    text = CHECKED.format(entry=".long 0", calls="") + '\t.section __ksymtab, "a"\n\t.long 1\n'
    obj = flow_gcc.compile(flow_gcc.source(text, "t.S"))
    assert "ETCH-X002" in flow_gcc.rewrite(obj).stderr


def test_emitted_relocations(flow_gcc):
    exe = flow_gcc.tmp / "t"
    run(["gcc", "-Wl,--emit-relocs", "-o", exe, checked(flow_gcc, "ENTRY 1b, 3b")])
    before = Table(exe).raw
    said = findings(flow_gcc.rewrite(exe, args=["--only", "ex"]))
    assert len(said) == 1 and "ETCH-X002" in said[0] and "--emit-relocs" in said[0]
    assert Table(exe).raw == before


def test_odd_size_is_unusable(flow_gcc):
    obj = checked(flow_gcc, ".long 0")
    exe = flow_gcc.tmp / "t"
    run(["gcc", "-o", exe, obj])
    for path in (obj, exe):
        before = path.read_bytes()
        said = flow_gcc.rewrite(path, ok=2).stderr
        assert "section __ex_table: size 16 is not a multiple of 12" in said
        assert path.read_bytes() == before
        for what in ("summary", "tables", "orc"):
            run([flow_gcc.etch, "inspect", what, path], ok=2)


# ---- the unwind generator -------------------------------------------------------------------


def rows(flow, path, name, args=()):
    """Unwind rows of a function: {offset: (cfa, bp)} of its instructions."""
    out = run([flow.etch, "inspect", "code", "--format", "tsv", *args, name, path]).stdout.splitlines()
    head = out[0].split("\t")
    lines = [dict(zip(head, line.split("\t"))) for line in out[1:]]
    start = int(lines[0]["address"], 16)
    return {int(r["address"], 16) - start: r for r in lines}


@pytest.mark.parametrize("cfi", ["cfi", "none"])
@pytest.mark.parametrize("kind", ["object", "linked"])
def test_fixups_are_entries(flow_gcc, cfi, kind):
    flags = ("-O2", *(["-fno-asynchronous-unwind-tables", "-DWITHOUT_CFI"] if cfi == "none" else []))
    objects = [flow_gcc.compile(s, flags) for s in EVERY]
    path = objects[3] if kind == "object" else flow_gcc.link(objects, cxx=True)
    for args in ((), ("--no-cfi",)):
        r = rows(flow_gcc, path, "shape_frame", args)
        fixup = [x for x in r.values() if x["instruction"].startswith("leaq -0x6b(%rbx)")][0]
        insn = [x for x in r.values() if x["instruction"].startswith("movzbl (%rsi)")][0]
        assert (fixup["cfa"], fixup["bp"]) == (insn["cfa"], insn["bp"]) == ("rsp+48", "same")
        assert insn["site"].startswith("may fault: continues at shape_frame") and fixup["site"] == "fixup"
        # ... and what follows the fixup.
        assert [x["cfa"] for x in r.values()][-3:] == ["rsp+48", "rsp+16", "rsp+8"]
    # In a section of its own, without a name of a function and without .eh_frame.
    out = run([flow_gcc.etch, "inspect", "orc", "--format", "tsv", path]).stdout
    p = run([flow_gcc.etch, "inspect", "orc", "--json", path]).stdout
    assert out and p
    if kind == "linked":
        at = int(run(["sh", "-c", f"nm {path} | grep shape_section_fixup"]).stdout.split()[0], 16)
        got = run([flow_gcc.etch, "inspect", "orc", "--at", f"{at:x}", path]).stdout
        assert "rsp+16" in got and "cfa-16" in got, got


PUSHED = """
	.text
	.globl	f
	.type	f, @function
f:	{cfi_start}
1:	movl	(%rdi), %eax
	push	%rbx
	{cfi_push}
2:	movl	(%rsi), %ebx
	pop	%rbx
	{cfi_pop}
	ret
3:	mov	$-1, %eax
	ret
	{cfi_end}
	.size	f, . - f
	.section __ex_table, "a", @progbits
	.long	1b - .
	.long	3b - .
	.long	0
	.long	2b - .
	.long	3b - .
	.long	0
"""


@pytest.mark.parametrize("cfi", [True, False])
def test_frames_that_differ(flow_gcc, cfi):
    words = dict(cfi_start=".cfi_startproc", cfi_push=".cfi_adjust_cfa_offset 8", cfi_pop=".cfi_adjust_cfa_offset -8",
                 cfi_end=".cfi_endproc") if cfi else dict.fromkeys(("cfi_start", "cfi_push", "cfi_pop", "cfi_end"), "")
    obj = flow_gcc.compile(flow_gcc.source(PUSHED.format(**words), "t.s"))
    said = findings(flow_gcc.rewrite(obj))
    assert len(said) == 1 and re.match(
        r"ETCH-X008: f[+]0x7: where f.* goes on when it faults, its frame has CFA rsp[+]\d+; here it is rsp[+]\d+", said[0]), said
    fixup = rows(flow_gcc, obj, "f")[7]
    assert fixup["cfa"] == ("rsp+8" if cfi else "undef")  # .eh_frame's word, or nobody's


# ---- hostile tables ---------------------------------------------------------------------------


def test_hostile(flow_gcc, etch_asan):
    """Any bytes in the table: no crash, and a file that is left whole."""
    objects = [flow_gcc.compile(s, ("-O1",)) for s in EVERY]
    exe = flow_gcc.link(objects, out="good", cxx=True)
    data = exe.read_bytes()
    table = Table(exe)
    size, rng = 12 * len(table.raw), random.Random(5)
    path = flow_gcc.tmp / "bad"
    seen = set()
    for n in range(48 if os.environ.get("ETCH_TESTS") == "all" else 24):
        mutant = bytearray(data)
        for _ in range(rng.choice([1, 1, 3, 20])):
            at = table.offset + rng.randrange(size // 4) * 4
            old = struct.unpack_from("<i", mutant, at)[0]
            new = rng.choice([old + rng.randrange(-40, 40), 0, rng.randrange(-2**31, 2**31), old ^ 1 << rng.randrange(31), -2**31])
            struct.pack_into("<i", mutant, at, (new + 2**31) % 2**32 - 2**31)
        path.write_bytes(mutant)
        p = run([etch_asan, "rewrite", path], ok=(0, 2), env=asan_env())
        seen.update(re.findall(r"ETCH-X\d+", p.stderr))
        run([etch_asan, "inspect", "tables", path], ok=(0, 2), env=asan_env())
        if p.returncode:
            assert path.read_bytes() == mutant
            continue
        once = path.read_bytes()
        flow_gcc.rewrite(path)
        assert path.read_bytes() == once, n
        if "ETCH-X001" not in p.stderr and "ETCH-X002" not in p.stderr:
            assert Table(path).in_order()
    assert len(seen) >= 4, seen


@pytest.mark.parametrize("no_cfi", [False, True])
@pytest.mark.parametrize("encoding", ["block", "orc"])
def test_backtraces_from_fixups(flow, no_cfi, encoding):
    exe = flow.program([FAULT / "tool_walk.c", FAULT / "tool_walk_asm.S"], stage="plain")
    said = flow.rewrite(exe, args=["--encoding", encoding, *["--no-cfi"] * no_cfi])
    assert "ETCH-X" not in said.stderr
    out = run([exe]).stdout
    assert len(re.findall("at its fixup: .*, main", out)) == 3 and len(re.findall("at the fault: .*, main", out)) == 4, out
