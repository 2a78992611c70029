#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""
Writes tests/data/newer/encodings.tsv: instructions of APX and of other extensions that Debian 12's decoders do not know, as
bytes and as text. The truth is an assembler: LLVM 20 or newer, any clang, or PyPI's package ziglang:

    scripts/newer_encodings.py clang > tests/data/newer/encodings.tsv
    scripts/newer_encodings.py python3 -m ziglang cc -target x86_64-linux-gnu > tests/data/newer/encodings.tsv

What the assembler refuses is no instruction (as push2 of rsp) and is left out, with its number on standard error.
"""

import itertools
import pathlib
import re
import subprocess
import sys
import tempfile

SIZES = "bwlq"
NUMBERED = {"b": "b", "w": "w", "l": "d", "q": ""}
NAMED = {
    "b": "al cl dl bl spl bpl sil dil".split(), "w": "ax cx dx bx sp bp si di".split(),
    "l": "eax ecx edx ebx esp ebp esi edi".split(), "q": "rax rcx rdx rbx rsp rbp rsi rdi".split()}


def reg(n, size="q"):
    return "%" + (NAMED[size][n] if n < 8 else f"r{n}{NUMBERED[size]}")


# Numbers that reach each bit of the encoding, and those with a meaning of their own in ModRM and SIB.
FEW = (1, 9, 16, 20, 31)
MEMORY = ["(%r16)", "8(%r31)", "0x12345(%r20)", "(%rax,%r20,4)", "-8(%r21,%r28,8)", "(%r13,%r16)", "0x100(,%r17,2)",
          "(%r12,%r31)", "%fs:8(%r24)"]
OLD_MEMORY = ["(%rcx)", "8(%rsp)", "0x12345(%rip)", "-8(%r13,%r12,8)"]


def rex2():
    for size in SIZES:
        for op in ("add", "or", "adc", "sbb", "and", "sub", "xor", "cmp", "mov", "test", "xchg"):
            for a, b in ((16, 1), (1, 16), (31, 24), (20, 9)):
                yield f"{op}{size} {reg(a, size)}, {reg(b, size)}"
            for m in MEMORY[:5]:
                yield f"{op}{size} {reg(2, size)}, {m}"
                if op != "test":
                    yield f"{op}{size} {m}, {reg(17, size)}"
            if op != "xchg":
                yield f"{op}{size} $0x11, {reg(18, size)}"
                yield f"{op}{size} $0x11, {MEMORY[4]}"
        for op in ("not", "neg", "inc", "dec", "mul", "imul", "div", "idiv"):
            yield f"{op}{size} {reg(22, size)}"
            yield f"{op}{size} {MEMORY[1]}"
        for op in ("shl", "sar", "ror"):
            yield f"{op}{size} $3, {reg(23, size)}"
            yield f"{op}{size} %cl, {MEMORY[2]}"
    for r in range(16, 32):
        yield f"push {reg(r)}"
        yield f"pop {reg(r)}"
        yield f"mov {reg(r)}, %rax"
        yield f"mov $0x1122334455667788, {reg(r)}"
        yield f"xchg {reg(r)}, %rax"
        yield f"bswap {reg(r)}"
        yield f"call *{reg(r)}"
        yield f"jmp *8({reg(r)})"
        yield f"lea 8({reg(r)}), %rsp"
        yield f"mov %rsp, {reg(r)}"
        yield f"lea 0x40(%rip), {reg(r)}"
    for r in (0, 4, 5, 12, 15, 16, 31):
        yield f"pushp {reg(r)}"
        yield f"popp {reg(r)}"
    for m in MEMORY:
        yield f"push {m}"
        yield f"pop {m}"
        yield f"lea {m}, %rbx"
        yield f"movaps {m}, %xmm3"
        yield f"movsd %xmm9, {m}"
        yield f"cmovne {m}, %rbx"
        yield f"setg {m}"
        yield f"nopl {m}"
        yield f"prefetcht0 {m}"
        yield f"lock xadd %rbx, {m}"
        yield f"cmpxchg16b {m}"
        yield f"call *{m}"
        yield f"imul $0x1000, {m}, %rbx"
        yield f"rep; movsb"
    for op in ("movzbl", "movsbl"):
        yield f"{op} %r16b, %ecx"
        yield f"{op} (%r16), %r17d"
    for text in ("movslq %r16d, %r17", "movslq (%r16,%rax,4), %r18", "movzwl %r31w, %eax", "movswq (%r16), %rax",
                 "cvtsi2sd %r16, %xmm0", "cvttsd2si %xmm15, %r31", "movd %r16d, %xmm1", "movq %xmm1, %r24",
                 "pextrw $1, %xmm1, %r16d", "bt %r16, %r17", "bts $5, %r16", "shld $3, %r16, %r17", "cpuid",
                 "rdfsbase %r16", "jmpabs $0x1122334455667788", "xorl %r16d, %r16d", "xorl %r16d, %r17d",
                 "subq $8, %r16", "enter $8, $0", "fldt 8(%r16)", "fxsave (%r16)", "clflush (%r17)"):
        yield text


def three(op, size, with_memory=True):
    """Third operand, both ways, of registers and memory."""
    for a, b, c in itertools.product((1, 31), (9, 16), (4, 20)):
        yield f"{op}{size} {reg(a, size)}, {reg(b, size)}, {reg(c, size)}"
    for m in MEMORY[:3] + OLD_MEMORY[1:3] if with_memory else ():
        yield f"{op}{size} {reg(17, size)}, {m}, {reg(3, size)}"
        yield f"{op}{size} {m}, {reg(18, size)}, {reg(31, size)}"


def promoted():
    for size in SIZES:
        for op in ("add", "or", "and", "sub", "xor", "adc", "sbb"):
            yield from three(op, size)
            yield f"{op}{size} $0x11, {reg(16, size)}, {reg(2, size)}"
            yield f"{op}{size} $0x11, {MEMORY[0]}, {reg(30, size)}"
            if size != "b":
                yield f"{op}{size} $0x1111, {reg(16, size)}, {reg(2, size)}"
            yield f"{{evex}} {op}{size} {reg(16, size)}, {reg(2, size)}"
            yield f"{{evex}} {op}{size} $0x11, {reg(2, size)}"
            if op in ("adc", "sbb"):
                continue
            yield f"{{nf}} {op}{size} {reg(16, size)}, {reg(4, size)}"
            yield f"{{nf}} {op}{size} $0x11, {OLD_MEMORY[1]}"
            yield from ("{nf} " + x for x in itertools.islice(three(op, size), 4, 10))
        for op in ("not", "neg", "inc", "dec"):
            yield f"{op}{size} {reg(16, size)}, {reg(3, size)}"
            yield f"{op}{size} {MEMORY[2]}, {reg(31, size)}"
            if op != "not":
                yield f"{{nf}} {op}{size} {reg(8, size)}"
                yield f"{{nf}} {op}{size} {reg(8, size)}, {reg(16, size)}"
        for op in ("mul", "imul", "div", "idiv"):
            yield f"{{nf}} {op}{size} {reg(17, size)}"
            yield f"{{nf}} {op}{size} {MEMORY[3]}"
        for op in ("rol", "ror", "shl", "shr", "sar", "rcl", "rcr"):
            for count in ("$1, ", "$7, ", "%cl, "):
                yield f"{op}{size} {count}{reg(16, size)}, {reg(3, size)}"
                yield f"{op}{size} {count}{MEMORY[1]}, {reg(31, size)}"
                if op not in ("rcl", "rcr"):
                    yield f"{{nf}} {op}{size} {count}{reg(5, size)}, {reg(20, size)}"
                    yield f"{{nf}} {op}{size} {count}{OLD_MEMORY[1]}"
        for n, cc in enumerate("o no b ae e ne be a s ns t f l ge le g".split()):
            dfv = ",".join(f for k, f in enumerate(("of", "sf", "zf", "cf")) if n >> k & 1)
            yield f"ccmp{cc}{size} {{dfv={dfv}}} {reg(16, size)}, {reg(1, size)}"
            yield f"ccmp{cc}{size} {{dfv={dfv}}} {MEMORY[n % 9]}, {reg(1, size)}"
            yield f"ccmp{cc}{size} {{dfv={dfv}}} $0x11, {reg(4, size)}"
            yield f"ctest{cc}{size} {{dfv={dfv}}} {reg(31, size)}, {MEMORY[(n + 4) % 9]}"
            yield f"ctest{cc}{size} {{dfv={dfv}}} $0x11, {reg(4, size)}"
    conditions = "o no b ae e ne be a s ns p np l ge le g".split()
    for n, cc in enumerate(conditions):
        for size in "wlq":
            yield f"cmov{cc}{size} {reg(16, size)}, {reg(3, size)}, {reg(12, size)}"
            yield f"cmov{cc}{size} {MEMORY[n % 9]}, {reg(3, size)}, {reg(17, size)}"
            yield f"cfcmov{cc}{size} {reg(16, size)}, {reg(3, size)}"
            yield f"cfcmov{cc}{size} {MEMORY[n % 9]}, {reg(3, size)}"
            yield f"cfcmov{cc}{size} {reg(5, size)}, {OLD_MEMORY[n % 4]}"
            yield f"cfcmov{cc}{size} {reg(5, size)}, {reg(6, size)}, {reg(31, size)}"
            yield f"cfcmov{cc}{size} {MEMORY[n % 9]}, {reg(6, size)}, {reg(31, size)}"
        yield f"setzu{cc} {reg(n, 'b')}"
        yield f"setzu{cc} {reg(n + 16, 'b')}"
        yield f"{{evex}} set{cc} {reg(n, 'b')}"
        yield f"{{evex}} set{cc} {MEMORY[n % 9]}"
        yield f"cmp{cc}xadd %ecx, %r16d, {MEMORY[n % 9]}"
        yield f"cmp{cc}xadd %rcx, %rdx, {OLD_MEMORY[n % 4]}"
        yield f"cmp{cc}xadd %r31, %r15, (%rdi)"
    for size in "wlq":
        for op in ("imul",):
            yield from three(op, size, False)
            yield f"{{nf}} {op}{size} {reg(16, size)}, {reg(3, size)}"
            yield f"{{nf}} {op}{size} {MEMORY[2]}, {reg(3, size)}"
            yield f"{op}{size} {MEMORY[2]}, {reg(3, size)}, {reg(4, size)}"
            for imm in ("$0x11", "$0x1111"):
                yield f"imulzu{size} {imm}, {reg(16, size)}, {reg(3, size)}"
                yield f"{{nf}} imul{size} {imm}, {MEMORY[4]}, {reg(3, size)}"
        for op in ("shld", "shrd"):
            for count in ("$3", "%cl"):
                yield f"{op}{size} {count}, {reg(16, size)}, {reg(1, size)}, {reg(24, size)}"
                yield f"{op}{size} {count}, {reg(16, size)}, {MEMORY[1]}, {reg(24, size)}"
                yield f"{{nf}} {op}{size} {count}, {reg(16, size)}, {reg(1, size)}"
        for op in ("popcnt", "lzcnt", "tzcnt"):
            yield f"{{nf}} {op}{size} {reg(16, size)}, {reg(3, size)}"
            yield f"{{nf}} {op}{size} {MEMORY[1]}, {reg(31, size)}"
            yield f"{{evex}} {op}{size} {reg(1, size)}, {reg(3, size)}"
        yield f"movbe{size} {reg(16, size)}, {reg(3, size)}"
        yield f"movbe{size} {MEMORY[3]}, {reg(3, size)}"
        yield f"movbe{size} {reg(16, size)}, {OLD_MEMORY[1]}"
    for a, b in itertools.product((0, 3, 5, 12, 15, 16, 20, 31), (1, 6, 13, 17, 30)):
        yield f"push2 {reg(a)}, {reg(b)}"
        yield f"pop2 {reg(a)}, {reg(b)}"
        yield f"push2p {reg(b)}, {reg(a)}"
        yield f"pop2p {reg(b)}, {reg(a)}"
    for text in ("push2 %rsp, %rax", "pop2 %rax, %rax", "crc32b %r16b, %ecx", "crc32w (%r16), %r17d",
                 "crc32l %ecx, %r17d", "crc32q (%r16,%r17), %rax", "adcxl %r16d, %ecx", "adoxq (%r16), %rcx",
                 "adcxq %rax, %r17, %r18", "adoxl (%r16), %ecx, %r18d", "movdir64b (%r16), %r17", "movdiri %r16, (%rax)",
                 "movdiri %ecx, (%r17)", "enqcmd (%r16), %rcx", "enqcmds 8(%rax), %r16", "wrssq %r16, (%rcx)",
                 "wrssd %ecx, (%r16)", "wrussq %rcx, (%r16)", "invept (%r16), %rcx", "invpcid (%rax), %r16",
                 "invvpid (%r16), %r17", "aadd %r16, (%rcx)", "aand %ecx, (%r16)", "aor %rcx, 8(%r16)",
                 "axor %r16d, (%rax)"):
        yield text


def vectors():
    """r16 to r31 in instructions of VEX and EVEX."""
    for m in MEMORY[:8]:
        yield f"vmovups {m}, %zmm1"
        yield f"vmovups %ymm17, {m}"
        yield f"vaddps {m}, %zmm2, %zmm31"
        yield f"vaddpd {m}{{1to8}}, %zmm2, %zmm31 {{%k1}}"
        yield f"vpgatherdd {m.replace('%r20,4', '%xmm20,4')}, %xmm1 {{%k1}}" if "%r20,4" in m else "nop"
        yield f"vpinsrq $1, {m}, %xmm2, %xmm3"
        yield f"kmovq {m}, %k1"
        yield f"ldtilecfg {m}"
        yield f"vfmadd231ss {m}, %xmm1, %xmm2"
        yield f"vpermi2w {m}, %zmm1, %zmm2"
        yield f"vmulph {m}, %zmm1, %zmm22"
        yield f"vpternlogd $3, {m}, %zmm1, %zmm2"
    for text in ("vmovd %r16d, %xmm1", "vmovq %xmm31, %r31", "vcvttsd2si %xmm1, %r16", "vcvttsd2si (%r17), %r24",
                 "vcvtsi2sd %r20, %xmm1, %xmm2", "vpbroadcastd %r16d, %zmm1", "vpextrd $1, %xmm1, %r17d",
                 "kmovq %r16, %k3", "kmovd %k3, %r17d", "tileloadd (%r16,%r17), %tmm1", "tilestored %tmm1, (%r16,%rax)",
                 "sttilecfg (%r16)", "vgatherdps (%r16,%zmm1,4), %zmm2 {%k1}",
                 "vscatterdps %zmm1, 8(%r17,%zmm31,4) {%k1}"):
        yield text
    for size, a, b, c in (("l", "%r16d", "%ecx", "%r31d"), ("q", "%rax", "%r20", "%rbx")):
        for op in ("andn", "bextr", "bzhi", "pdep", "pext", "mulx", "sarx", "shlx", "shrx"):
            yield f"{op}{size} {a}, {b}, {c}"
            if op in ("andn", "bextr", "bzhi"):
                yield f"{{nf}} {op}{size} {a}, {b}, {c}"
        for op in ("blsi", "blsr", "blsmsk"):
            yield f"{op}{size} {a}, {b}"
            yield f"{{nf}} {op}{size} (%r17), {b}"
        yield f"rorx{size} $3, {a}, {c}"
        yield f"andn{size} (%r16), {b}, {c}"
        yield f"bextr{size} {a}, (%rax,%r19), {c}"


def others():
    """Other extensions than APX."""
    for l in ("xmm", "ymm"):
        for op in ("vpdpbssd", "vpdpbssds", "vpdpbsud", "vpdpbsuds", "vpdpbuud", "vpdpbuuds", "vpdpwusd", "vpdpwusds",
                   "vpdpwsud", "vpdpwsuds", "vpdpwuud", "vpdpwuuds", "vpmadd52luq", "vpmadd52huq", "vsm4key4",
                   "vsm4rnds4"):
            yield f"{{vex}} {op} %{l}1, %{l}12, %{l}3"
            yield f"{{vex}} {op} 8(%r12), %{l}2, %{l}13"
        for op in ("vcvtneoph2ps", "vcvtneeph2ps", "vcvtneebf162ps", "vcvtneobf162ps", "vbcstnesh2ps",
                   "vbcstnebf162ps"):
            yield f"{op} 8(%r12,%rax,2), %{l}13"
    for text in ("{vex} vcvtneps2bf16 %xmm1, %xmm12", "{vex} vcvtneps2bf16x (%r9), %xmm2", "vsm3msg1 %xmm1, %xmm2, %xmm3",
                 "vsm3msg2 (%rax), %xmm2, %xmm13", "vsm3rnds2 $5, 8(%rip), %xmm2, %xmm13",
                 "vsha512rnds2 %xmm1, %ymm2, %ymm13", "vsha512msg1 %xmm1, %ymm2", "vsha512msg2 %ymm1, %ymm2"):
        yield text
    for op in ("tdpfp16ps", "tcmmimfp16ps", "tcmmrlfp16ps", "tmmultf32ps", "tdpbf8ps", "tdpbhf8ps", "tdphbf8ps",
               "tdphf8ps"):
        yield f"{op} %tmm2, %tmm1, %tmm0"
        yield f"{op} %tmm7, %tmm5, %tmm6"
    yield "tileloaddrs 8(%rax,%r9,2), %tmm3"
    yield "tileloaddrst1 (%rax,%rbx), %tmm7"
    for size in "lq":
        for op in ("aadd", "aand", "aor", "axor"):
            yield f"{op}{size} {reg(9, size)}, 8(%r12)"
            yield f"{op}{size} {reg(1, size)}, (%rax,%rcx,8)"
    for size in SIZES:
        yield f"movrs{size} 8(%r12), {reg(9, size)}"
        yield f"movrs{size} (%rax,%rcx,8), {reg(1, size)}"
    for text in ("rdmsr $0x1234, %rcx", "wrmsrns %r9, $0x1234", "urdmsr $0x1234, %r9", "uwrmsr %rcx, $0x1234",
                 "rdmsr $0x1234, %r17", "urdmsr $0x1234, %r31", "uwrmsr %r16, $0x1234",
                 "lkgs %cx", "lkgs %r9w", "lkgs 8(%rax)", "erets", "eretu", "wrmsrns", "rdmsrlist", "wrmsrlist",
                 "pbndkb"):
        yield text


def vectors10():
    """AVX10.2, AMX-AVX512 and MOVRS with vector registers."""
    lengths = ("xmm", "ymm", "zmm")
    three = """vaddbf16 vsubbf16 vmulbf16 vdivbf16 vmaxbf16 vminbf16 vscalefbf16 vdpphps vpdpbssd vpdpbssds vpdpbsud
        vpdpbsuds vpdpbuud vpdpbuuds vpdpwusd vpdpwusds vpdpwsud vpdpwsuds vpdpwuud vpdpwuuds vcvt2ps2phx vcvt2ph2bf8
        vcvt2ph2bf8s vcvt2ph2hf8 vcvt2ph2hf8s vsm4key4 vsm4rnds4""".split()
    three += [f"v{a}{n}bf16" for a in ("fmadd", "fmsub", "fnmadd", "fnmsub") for n in (132, 213, 231)]
    for op, l in itertools.product(three, lengths):
        yield f"{{evex}} {op} %{l}1, %{l}22, %{l}3"
        yield f"{{evex}} {op} 64(%r12), %{l}2, %{l}13"
    for op in ("vcvtbiasph2bf8", "vcvtbiasph2bf8s", "vcvtbiasph2hf8", "vcvtbiasph2hf8s"):
        yield f"{op} %zmm1, %zmm22, %ymm3"
        yield f"{op} 64(%r31), %zmm22, %ymm3"
    two = """vsqrtbf16 vrsqrtbf16 vrcpbf16 vgetexpbf16 vcvtph2ibs vcvtph2iubs vcvttph2ibs vcvttph2iubs vcvtps2ibs
        vcvtps2iubs vcvttps2ibs vcvttps2iubs vcvtbf162ibs vcvtbf162iubs vcvttbf162ibs vcvttbf162iubs vcvttps2dqs
        vcvttps2udqs vcvttpd2qqs vcvttpd2uqqs""".split()
    for op, l in itertools.product(two, lengths):
        yield f"{op} %{l}1, %{l}22"
        yield f"{op} 64(%r12), %{l}2 {{%k1}}{{z}}"
    for op, l in itertools.product(("vmovrsb", "vmovrsw", "vmovrsd", "vmovrsq"), lengths):
        yield f"{op} 64(%r12), %{l}2 {{%k1}}{{z}}"
        yield f"{op} (%r16), %{l}2"
    for op in ("vcvtph2bf8", "vcvtph2bf8s", "vcvtph2hf8", "vcvtph2hf8s", "vcvttpd2dqs", "vcvttpd2udqs"):
        yield f"{op} %zmm1, %ymm22"
    for op in ("vcvthf82ph", "vcvttps2qqs", "vcvttps2uqqs"):
        yield f"{op} %ymm1, %zmm22"
        yield f"{op} 64(%r12), %zmm2"
    for op in ("vgetmantbf16", "vreducebf16", "vrndscalebf16"):
        yield f"{op} $3, %zmm1, %zmm22"
        yield f"{op} $3, 64(%r12), %zmm2"
    for op in ("vminmaxps", "vminmaxpd", "vminmaxph", "vminmaxbf16", "{evex} vmpsadbw"):
        yield f"{op} $3, %zmm1, %zmm22, %zmm3"
        yield f"{op} $3, 64(%r12), %zmm2, %zmm3"
    for op in ("vminmaxss", "vminmaxsd", "vminmaxsh"):
        yield f"{op} $3, %xmm1, %xmm22, %xmm3"
        yield f"{op} $3, 8(%r12), %xmm2, %xmm3"
    for op in ("vcomxss", "vcomxsd", "vcomxsh", "vucomxss", "vucomxsd", "vucomxsh", "vcomisbf16"):
        yield f"{op} %xmm1, %xmm22"
        yield f"{op} 8(%r16), %xmm2"
    for op, r in itertools.product(("vcvttss2sis", "vcvttss2usis", "vcvttsd2sis", "vcvttsd2usis"),
                                   ("%ecx", "%r9", "%r31d", "%r16")):
        yield f"{op} %xmm1, {r}"
        yield f"{op} 8(%r12), {r}"
    for op in ("tcvtrowd2ps", "tcvtrowps2bf16h", "tcvtrowps2bf16l", "tcvtrowps2phh", "tcvtrowps2phl", "tilemovrow"):
        yield f"{op} %ecx, %tmm1, %zmm2"
        yield f"{op} $3, %tmm1, %zmm2"
    for text in ("vcmpbf16 $3, %zmm1, %zmm2, %k3", "vcmpbf16 $3, 64(%r12), %zmm2, %k3", "vfpclassbf16 $3, %zmm1, %k3",
                 "vmovd %xmm1, %xmm22", "vmovd %xmm22, %xmm1", "vmovw %xmm1, %xmm22", "vmovw %xmm22, %xmm1",
                 "vmovw 8(%r12), %xmm22", "vmovw %xmm22, (%r16)"):
        yield text


def all_texts():
    return list(dict.fromkeys(t for make in (rex2, promoted, vectors, vectors10, others) for t in make() if t != "nop"))


def assembled(command, texts, tmp):
    """The texts that the assembler takes, with the bytes of each."""
    source, obj = tmp / "a.s", tmp / "a.o"
    left = list(texts)
    while True:
        source.write_text("".join(f"i{n}: {t}\n" for n, t in enumerate(left)) + f"i{len(left)}:\n")
        p = subprocess.run([*command, "-c", source, "-o", obj], capture_output=True, text=True)
        if not p.returncode:
            break
        bad = {int(n) - 1 for n in re.findall(r"a\.s:(\d+):\d+: error", p.stderr)}
        if not bad:
            sys.exit(p.stderr)
        print(*(f"refused: {left[n]}" for n in sorted(bad)), sep="\n", file=sys.stderr)
        left = [t for n, t in enumerate(left) if n not in bad]
    from elftools.elf.elffile import ELFFile

    with obj.open("rb") as f:
        elf = ELFFile(f)
        code = elf.get_section_by_name(".text").data()
        at = {s.name: s["st_value"] for s in elf.get_section_by_name(".symtab").iter_symbols() if re.match(r"i\d+$", s.name)}
    return [(t, code[at[f"i{n}"]:at[f"i{n + 1}"]]) for n, t in enumerate(left)]


def main():
    if len(sys.argv) < 2:
        sys.exit(__doc__.strip())
    with tempfile.TemporaryDirectory() as tmp:
        found = assembled(sys.argv[1:], all_texts(), pathlib.Path(tmp))
    version = subprocess.run([*sys.argv[1:], "--version"], capture_output=True, text=True).stdout.splitlines()[0]
    print(f"# bytes, text: made by scripts/newer_encodings.py with {version}")
    for text, code in found:
        print(code.hex(), text, sep="\t")


if __name__ == "__main__":
    main()
