# SPDX-License-Identifier: MIT
"""Instructions that are newer than the decoders of Debian 12 (tool/arch/x86/newer.c): Intel's APX, AVX10.2, AMX and
others. What they are is told by encodings that LLVM made (newer/encodings.tsv, scripts/newer_encodings.py). No machine
of this project executes APX, so nothing here is stepped."""

import json
import random
import re
import shutil

import pytest

from conftest import DATA, INCLUDE, MEMORY, ROOT, capstone, run

TOOL = ROOT / "tool"
HERE = DATA / "newer"
ARCH = ("capstone", "confirm", "decode", "encoding", "effects", "form", "idioms", "newer", "newer_text", "newer_vector", "raw", "shape", "fast_decoder",
        "step_full", "zydis")
RSP = 4
NAMES = {}
for _n, _names in enumerate("al ax eax rax,cl cx ecx rcx,dl dx edx rdx,bl bx ebx rbx,spl sp esp rsp,bpl bp ebp rbp,"
                            "sil si esi rsi,dil di edi rdi".split(",")):
    NAMES.update(dict.fromkeys(_names.split(), _n))
NAMES.update({f"r{n}{size}": n for n in range(8, 32) for size in ("", "b", "w", "d")})


@pytest.fixture(scope="module")
def decoder(tmp_path_factory):
    program = tmp_path_factory.mktemp("newer") / "decode"
    run(["gcc", "-O0", "-fsanitize=address,undefined", "-fno-sanitize-recover=all", "-std=gnu11", "-D_GNU_SOURCE",
         "-Wall", "-Wextra", "-Werror", f"-I{TOOL}", f"-I{ROOT / 'lib'}", f"-I{INCLUDE}", "-o", program, HERE / "decode.c",
         *(TOOL / "arch/x86" / f"{name}.c" for name in ARCH), *(TOOL / name for name in MEMORY), "-lZydis", "-lpthread", "-ldl"])

    def decode(codes):
        out = run([program], input="".join(c + "\n" for c in codes)).stdout.splitlines()
        assert len(out) == len(codes)
        return [line.split("\t") for line in out]

    return decode


def encodings():
    rows = [line.split("\t") for line in (HERE / "encodings.tsv").read_text().splitlines() if line[0] != "#"]
    assert len(rows) > 4000
    return rows


# ---- text of LLVM, and of etch, in one form -------------------------------------------------

CONDITIONS = {"nz": "ne", "z": "e", "nb": "ae", "nbe": "a", "nl": "ge", "nle": "g"}
# Their text is their name: not all of their operands are as those of the instruction that stands in for them.
UNLIKE = re.compile(r"vcvtbias|vcvtph2[bh]f8|vminmax(ph|bf16)|tcvtrow|tilemovrow|vcmpbf16|vfpclassbf16|vmov[dw] %xmm\d+, %xmm")


def operands(text):
    """The operands, with numbers in decimal, without what is no difference."""
    out, depth, one = [], 0, ""
    for c in text + ",":
        depth += (c == "(") - (c == ")")
        if c == "," and not depth:
            out.append(one)
            one = ""
        else:
            one += c
    out = [re.sub(r"(?<![%\w])(0x[0-9a-f]+|\d+)", lambda m: str(int(m[1], 0)), o.replace(" ", "")) for o in out]
    return [re.sub(r"^0(?=\()|,1(?=\))|\{1to\d+\}", "", o) for o in out if o]


def parts(text):
    """(name, no flags?, default flags, operands)"""
    nf = "{nf}" in text
    dfv = re.search(r"\{dfv=([a-z,]*)\}", text)
    text = re.sub(r"\{(evex|vex|nf|zu)\} |\{dfv=[a-z,]*\}", "", text)
    text = re.sub(r"^lock ", "", text)
    name, _, rest = text.partition(" ")
    m = re.match(r"(cmov|set)(zu)?(\w+)$", name)
    if m:
        name = m[1] + CONDITIONS.get(m[3], m[3])
    return re.sub(r"^imulzu", "imul", name), nf, dfv and dfv[1], operands(rest)


def same_text(theirs, ours):
    """Has the disassembly the same name, except for a suffix of size, and the same operands?"""
    if UNLIKE.search(theirs + " "):
        return theirs.replace("{evex} ", "").split()[0] == ours
    a, b = parts(theirs), parts(ours)
    if re.match(r"xchg|wrmsrns|uwrmsr", a[0]):  # in another order
        a, b = (*a[:3], sorted(a[3])), (*b[:3], sorted(b[3]))
    if a[0].startswith("vsha512"):  # the source is shorter than the destination
        a, b = ((*x[:3], [re.sub("xmm|ymm", "v", o) for o in x[3]]) for x in (a, b))
    if a[0] == "lea":  # a segment has no effect
        a = (*a[:3], [o.replace("%fs:", "") for o in a[3]])
    if a[0][:4] in ("movs", "movz") and a[0][:4] == b[0][:4]:  # movslq is movsxd
        return a[1:] == b[1:]
    sizes = ("", *"bwlqdxyz")
    return a[1:] == b[1:] and any(a[0] + x == b[0] + y for x in sizes for y in sizes)


def test_every_encoding_has_the_length_and_text_of_llvm(decoder):
    rows = encodings()
    got = decoder([code + "90" * (15 - len(code) // 2) for code, _ in rows])
    wrong = []
    newer = 0
    for (code, text), out in zip(rows, got):
        if text in ("push2 %rsp, %rax", "pop2 %rax, %rax"):  # assembled, and invalid (APX 4.3)
            assert out[0] == "0"
            continue
        if int(out[0]) != len(code) // 2 or out[10] != out[0]:
            wrong.append((code, text, "length", out))
        elif out[9] == "1":
            newer += 1
            if not same_text(text, out[1]):
                wrong.append((code, text, "text", out[1]))
    assert not wrong, (len(wrong), wrong[:10])
    assert newer > 3500


def test_no_encoding_is_read_past_its_end(decoder):
    """Each one cut short by a byte is none."""
    rows = encodings()
    got = decoder([code[:-2] for code, text in rows if not text.startswith("rep")])
    assert [row for row, out in zip(rows, got) if out[0] != "0"] == []


# ---- effects ----------------------------------------------------------------------------

# AT&T's last operand of these is no register that is written.
READ_ONLY = re.compile(r"c?(cmp|test)(?!\w*xadd)|push|call|jmp|nop|prefetch|mul[bwlq]? |div|bt[lqw]? |kmov|uwrmsr|wr|inv|"
                       r"enqcmd|movdir64b|lkgs|v(u)?com|set|pop2|xchg|xadd")


def written(text):
    """The general register that the last operand names and that is written; None: it is no such register."""
    name = re.sub(r"\{(evex|vex|nf|zu)\} |\{dfv=[a-z,]*\}", "", text)
    last = operands(name.partition(" ")[2])[-1:]
    if not last or last[0][0] != "%" or READ_ONLY.match(name) or (name.startswith(("mul", "imul", "div", "idiv")) and
                                                                  "," not in name):
        return None
    return NAMES.get(last[0].lstrip("%"))


def test_what_is_written(decoder):
    """The destination is in the masks of both records, where it is one of the sixteen registers that these know; and
    r16 to r31 are not taken for others."""
    rows = [(code, text) for code, text in encodings() if written(text) is not None]
    checked = 0
    for (code, text), out in zip(rows, decoder([code for code, _ in rows])):
        r = written(text)
        own, writes, reads = int(out[6], 16), int(out[8], 16), int(out[7], 16)
        if out[2] != "0" and int(out[3]) < 16:
            own |= 1 << int(out[3])  # what step.op describes
        expected = 1 << r if r < 16 else 0
        implicit = re.match(r"(\{\w+\} )?(mulx|cmpxchg|pop)", text)
        assert writes & expected == expected and own & expected == expected, (code, text, out)
        if not implicit:
            assert writes == expected, (code, text, out)
            assert own == expected, (code, text, out)
        assert not reads & 1 << RSP or "sp" in text or "pop" in text or "push" in text, (code, text, out)
        checked += 1
    assert checked > 1200


def ops_of(path):
    names = re.search(r"enum step_op \{(.*?)\n\};", path.read_text(), re.S)[1]
    return re.findall(r"^\s*(STEP_\w+)", names, re.M)


def test_pushes_and_pops(decoder):
    """pushp, popp, push2 and pop2: the distance and the registers, in their order (APX 4.3: the register of vvvv, which
    AT&T syntax has last, comes first); 255: r16 to r31, which are followed nowhere."""
    op = ops_of(TOOL / "arch/x86/fast_decoder.h")
    rows = [(code, text) for code, text in encodings() if re.match(r"(push|pop)(p|2|2p)? %(?!fs)", text)]
    seen = set()
    for (code, text), out in zip(rows, decoder([code for code, _ in rows])):
        name, _, rest = text.partition(" ")
        regs = [NAMES[r.lstrip("%")] for r in operands(rest)]
        if out[0] == "0":
            assert regs in ([RSP, 0], [0, 0])
            continue
        a, b = ([n if n < 16 else 255 for n in regs] + [255])[:2]
        pair = "2" in name
        want = "STEP_" + ("PUSH" if name.startswith("push") else "POP") + ("2" if pair else "")
        assert op[int(out[2])] == want and int(out[5]) == (16 if pair else 8), (code, text, out)
        assert [int(out[3]), int(out[4])] == ([b, a] if pair else [a, 255]), (code, text, out)
        assert int(out[6], 16) == 0, (code, text, out)
        seen.add(name)
    assert seen == {"push", "pop", "pushp", "popp", "push2", "pop2", "push2p", "pop2p"}


def test_conditional_and_flagless_forms_are_not_taken_for_others(decoder):
    """Third operands, ccmp, cfcmov and their like do not have the effect of the instruction with the same opcode."""
    op = ops_of(TOOL / "arch/x86/fast_decoder.h")
    plain = ("STEP_NONE", "STEP_STORE")
    codes = {
        "62f4bc1883ec08": plain,      # sub $8, %rsp, %r8
        "62f4841439c3": None,         # no instruction: ccmp with ND
        "62f4840439c3": plain,        # ccmpe %rax, %rbx
        "62f4fc0c83c408": ("STEP_ADD",),  # {nf} add $8, %rsp
        "62f4fc0c83ec08": ("STEP_ADD",),  # {nf} sub $8, %rsp
        "d5088bec": ("STEP_MOVE",),   # mov %rsp, %rbp
        "d5188bec": None,
    }
    for code, out in zip(codes, decoder(list(codes))):
        if codes[code] and out[0] != "0":
            assert op[int(out[2])] in codes[code], (code, out)
    assert decoder(["62f4841439c3"])[0] == ["0", "1"]


# ---- extensions: which are known ----------------------------------------------------------

# An instruction of each extension, as bytes, and what says so: z: Zydis 4.0 does; n: newer.c does; -: nothing does, and
# it is one that processors may have; !: it is invalid on all of them.
EXTENSIONS = {
    "APX": [("d50855", "n"), ("62f46c18fff1", "n"), ("d500a18877665544332211", "n")],
    "AVX512-FP16": [("62f57c4858c1", "z"), ("62f67d4898c1", "z")],
    "AVX10.2": [("62f54d4058d9", "n"), ("62f17e082ec1", "n"), ("62f57e086dc9", "n")],
    "AVX-VNNI-INT8": [("c4e27350c2", "n")], "AVX-VNNI-INT16": [("c4e272d2c2", "n")],
    "AVX-IFMA": [("c4e2f1b4c2", "n")], "AVX-NE-CONVERT": [("c4e27ab000", "n")], "AVX-VNNI": [("c4e27150c2", "z")],
    "SHA512": [("c4e26fcbc1", "n")], "SM3": [("c4e270dac2", "n")], "SM4": [("c4e272dac2", "n")],
    "AMX-INT8": [("c4e26b5ec1", "z")], "AMX-FP16": [("c4e26b5cc1", "n")], "AMX-COMPLEX": [("c4e2696cc1", "n")],
    "AMX-TF32": [("c4e26948c1", "n")], "AMX-FP8": [("c4e568fdc1", "n")], "AMX-MOVRS": [("c4e27b4a0418", "n")],
    "AMX-AVX512": [("62f276484ad1", "n")],
    "AMX-TRANSPOSE": [("c4e27a5fc1", "-"), ("c4e2786e0418", "-")],  # withdrawn by Intel
    "CMPCCXADD": [("c4e269e200", "n")], "RAO-INT": [("0f38fc08", "n"), ("f2480f38fc08", "n")],
    "USER_MSR": [("f20f38f8c1", "n"), ("c4e77bf8c110000000", "n")], "MSR_IMM": [("c4e77bf6c110000000", "n")],
    "MSRLIST": [("f20f01c6", "n")], "WRMSRNS": [("0f01c6", "n")], "PBNDKB": [("0f01c7", "n")],
    "FRED": [("f20f01ca", "n"), ("f30f01ca", "n"), ("f20f00f0", "n")],
    "MOVRS": [("480f388a18", "n"), ("0f388b18", "n")], "PREFETCHRST2": [("0f1820", "z")], "PREFETCHI": [("0f183d00000000", "z")],
    "ENQCMD": [("f20f38f800", "z")], "UINTR": [("f30f01ec", "z")], "KEYLOCKER": [("f30f38dc00", "z")],
    "HRESET": [("f30f3af0c000", "z")], "SERIALIZE": [("0f01e8", "z")], "TDX": [("660f01cc", "z")],
    "XOP": [("8fe978e1c1", "z")], "FMA4": [("c4e3f95cc110", "z")], "TBM": [("8fe97801c9", "z")], "3DNow!": [("0f0fc19e", "z")],
    "LWP": [("8fe97812c1", "z")], "PadLock": [("f30fa7c8", "z")], "RDPRU": [("0f01fd", "z")], "CLZERO": [("0f01fc", "z")],
    "INVLPGB": [("0f01fe", "z")], "SNP": [("f30f01fe", "z")], "MCOMMIT": [("f30f01fa", "z")],
    "unknown": [("c4e27b0fc1", "-"), ("62f57c48ffc1", "-"), ("0f3a00c000", "-"), ("d58030", "-"), ("0f38ffc0", "-"),
                ("8fe97800c1", "-")],
    "UDB": [("d6", "n")],
    "invalid": [("06", "!"), ("82c000", "!"), ("ea00000000", "!"), ("0f04", "!"), ("ffff", "!"), ("fe38", "!")],
}


def test_extensions(decoder):
    kinds = {("0", "0"): "!", ("0", "1"): "-"}
    flat = [(name, code, says) for name, rows in EXTENSIONS.items() for code, says in rows]
    got = {}
    for (name, code, says), out in zip(flat, decoder([c + "00" * (15 - len(c) // 2) for _, c, _ in flat])):
        kind = kinds.get(tuple(out[:2])) or ("n" if out[9] == "1" else "z")
        got[name, code] = kind + ("" if kind in "-!" or int(out[0]) == len(code) // 2 else out[0])
    # A later Zydis (4.1) knows some of these itself.
    want = {(name, code): says for name, code, says in flat}
    assert {key: want[key] if want[key] == "n" and kind == "z" else kind for key, kind in got.items()} == want


# ---- rows ---------------------------------------------------------------------------------

def made(tmp_path, name):
    obj = tmp_path / f"{name}.o"
    run(["gcc", "-c", "-o", obj, HERE / f"{name}.S"])
    return obj


def rows_of(etch, path, *args):
    """{address: (cfa, bp, source)} of every row."""
    out = run([etch, "inspect", "orc", "--format", "tsv", *args, path]).stdout.splitlines()
    rows = [dict(zip(out[0].split("\t"), line.split("\t"))) for line in out[1:]]
    return {int(r["address"], 16): (r["cfa"], r["bp"], r["source"]) for r in rows}


def checked(etch, path, *args):
    p = run([etch, "check", "--format", "json", *args, path], ok=(0, 1))
    return [x for f in json.loads(p.stdout)["files"] for x in f["findings"]]


def test_pushp_and_popp(etch, tmp_path):
    obj = made(tmp_path, "pushp")
    both = {0: ("rsp+8", "same"), 7: ("rsp+16", "same"), 0xf: ("rsp+8", "same")}
    assert rows_of(etch, obj) == {a: (*r, "both") for a, r in both.items()}
    # code alone knows where rbp is before .cfi_offset would say so
    assert {a: r[0] for a, r in rows_of(etch, obj, "--no-cfi").items()} == {a: r[0] for a, r in both.items()}
    assert [x["id"] for x in checked(etch, obj)] == ["ETCH-D008"]


def test_amx_in_a_function_without_cfi(etch, tmp_path):
    rows = rows_of(etch, made(tmp_path, "amx-fp16"))
    assert rows == {0: ("rsp+8", "same", "code"), 4: ("rsp+32", "same", "code"), 0x12: ("rsp+8", "same", "code")}


def test_code_compiled_for_apx(etch, tmp_path):
    """Every row of LLVM's .eh_frame is confirmed, and found without it; registers are where it says."""
    obj = made(tmp_path, "compiled")
    rows, alone = rows_of(etch, obj), rows_of(etch, obj, "--no-cfi")
    assert {r[2] for r in rows.values() if r[0] != "undef"} == {"both"}
    assert {a: r[0] for a, r in rows.items()} == {a: alone[a][0] for a in rows}
    code = run([etch, "inspect", "code", "saves", obj]).stdout
    assert "pop2p" in code
    (line,) = [x for x in code.splitlines() if "subq" in x]
    for reg, at in (("rbx", 64), ("rbp", 24), ("r12", 56), ("r13", 48), ("r14", 40), ("r15", 32)):  # its .cfi_offset
        assert f"{reg}@cfa-{at}" in line, line
    assert {x["id"] for x in checked(etch, obj)} == {"ETCH-D008"}


def test_diff_reads_them(etch, tmp_path):
    obj = made(tmp_path, "compiled")
    assert "identical" in run([etch, "diff", obj, obj]).stdout or run([etch, "diff", obj, obj]).returncode == 0


# ---- what is not decoded ----------------------------------------------------------------------

def test_nothing_after_what_is_not_decoded_is_proven(etch, tmp_path):
    """Rule 15: with .eh_frame the rows from there on are its own, `cfi`; without, there is none; and the function may
    return, so its callers keep their rows."""
    obj = made(tmp_path, "unknown")
    found = checked(etch, obj)
    assert [(x["id"], x["severity"]) for x in found] == [("ETCH-D007", "note")] * 3
    assert all("does not decode: c4 e2 7b 0f" in x["text"] for x in found)
    assert "a jump leads to" in found[2]["text"]
    starts = {}
    for line in run(["nm", obj]).stdout.splitlines():
        if " T " in line:
            starts[line.split()[2]] = int(line.split()[0], 16)
    for args in ((), ("--no-cfi",)):
        rows = rows_of(etch, obj, *args)
        order = sorted(rows)

        def row(addr):
            return rows[max(a for a in order if a <= addr)]

        proven = "code" if args else "both"
        for name, certain, size in (("straight", 1, 13), ("joined", 8, 23), ("jumped", 5, 11), ("plain", 8, 8)):
            for off in range(size):
                cfa, _, source = row(starts[name] + off)
                if off < certain:
                    assert (source, cfa != "undef") == (proven, True), (args, name, off)
                else:
                    assert source == ("code" if args else "cfi") and (cfa == "undef") == bool(args), (args, name, off)


def test_a_function_that_does_not_decode_is_said_to_be_none_rather_than_wrong(etch, tmp_path):
    """Bytes that are invalid on all processors stay ETCH-D005."""
    src = tmp_path / "t.S"
    for code, expected in (("0x06", "ETCH-D005"), ("0x62,0xf5,0x7c,0x48,0xff,0xc1", "ETCH-D007"),
                           ("0xd5,0x80,0x30", "ETCH-D007"), ("0x0f,0x3a,0x00,0xc0,0x00", "ETCH-D007"),
                           ("0x8f,0xe9,0x78,0x00,0xc1", "ETCH-D007")):
        src.write_text(f"\t.globl f\n\t.type f,@function\nf:\tnop\n\txor %eax,%eax\n\t.byte {code}\n\tret\n\t.size f,.-f\n"
                       '\t.section .note.GNU-stack,"",@progbits\n')
        run(["gcc", "-c", "-o", tmp_path / "t.o", src])
        assert [x["id"] for x in checked(etch, tmp_path / "t.o") if x["id"] != "ETCH-C003"] == [expected], code
        src.write_text(f'\t.globl f\n\t.type f,@function\nf:\t.byte {code}\n\tret\n\t.size f,.-f\n'
                       '\t.section .note.GNU-stack,"",@progbits\n')
        run(["gcc", "-c", "-o", tmp_path / "t.o", src])
        (x,) = checked(etch, tmp_path / "t.o")
        assert x["id"] == expected and x["text"].startswith("the function begins with"), (code, x)


# ---- etched objects ---------------------------------------------------------------------------

# A use of v as legacy code has it, and the same through r16 or r17 (APX): (assembly, the bytes before rip's
# displacement, or all bytes).
USES = {
    "address to a register": ("lea v(%rip), %rcx\n\tmov %rcx, (%rdi)", ".byte 0xd5,0x48,0x8d,0x05\n\t.long v-.-4", "escape"),
    "address of the GOT": ("mov v@GOTPCREL(%rip), %rcx\n\tmov %rcx, (%rdi)",
                           ".byte 0xd5,0x48,0x8b,0x05\n\t.long v@GOTPCREL-4", "escape"),
    "copy of an address": ("lea v(%rip), %rcx\n\tmov %rcx, (%rdi)", "lea v(%rip), %rcx\n\t.byte 0xd5,0x18,0x89,0xc8", "escape"),
    "a pair of pushes": ("lea v(%rip), %rcx\n\tpush %rcx\n\tpop %rax",
                         "lea v(%rip), %rcx\n\t.byte 0x62,0xf4,0x6c,0x18,0xff,0xf1\n\tadd $16, %rsp", "escape"),
    "third operand": ("lea v(%rip), %rcx\n\tadd %rdx, %rcx\n\tmov %rcx, (%rdi)",
                      "lea v(%rip), %rcx\n\t.byte 0x62,0xf4,0xe4,0x18,0x01,0xca", "escape"),
    "store": ("mov %ecx, v(%rip)", ".byte 0xd5,0x40,0x89,0x0d\n\t.long v-.-4", "store"),
    "add without flags": ("add %ecx, v(%rip)", ".byte 0x62,0xf4,0x7c,0x0c,0x01,0x0d\n\t.long v-.-4", "store"),
    "setcc": ("sete v(%rip)", ".byte 0x62,0xf4,0x7f,0x08,0x44,0x05\n\t.long v-.-4", "store"),
    "aadd": ("add %ecx, v(%rip)", ".byte 0x0f,0x38,0xfc,0x0d\n\t.long v-.-4", "store"),
    "load": ("mov v(%rip), %ecx", ".byte 0xd5,0x40,0x8b,0x05\n\t.long v-.-4", "load"),
    "third operand of a load": ("add v(%rip), %ecx", ".byte 0x62,0xf4,0x74,0x18,0x03,0x0d\n\t.long v-.-4", "load"),
}


@pytest.mark.parametrize("name", USES)
def test_uses_of_etched_objects(etch, tmp_path, name):
    """What APX code does to an object is seen as where older code does it; but a load stays one, since one decoder
    alone knows it. Objects that it has nothing to do with are armed as before."""
    legacy, apx, kind = USES[name]
    kinds, armed = [], []
    for code in (legacy, apx):
        src, out = tmp_path / "t.S", tmp_path / "t.so"
        src.write_text(f"""
	.section etched_imv,"aw",@progbits
	.globl v, w
	.hidden v, w
	.type v,@object
	.type w,@object
	.size v,8
	.size w,8
	.p2align 3
v:	.quad 1
w:	.quad 2
	.text
	.globl f
	.type f,@function
f:	{code}
	mov w(%rip), %eax
	ret
	.size f,.-f
	.section .note.GNU-stack,"",@progbits
""")
        run(["gcc", "-shared", "-nostdlib", "-o", out, src])
        sites = [x.split("\t") for x in run([etch, "inspect", "sites", "--format", "tsv", out]).stdout.splitlines()[1:]]
        kinds.append(sorted({x[2] for x in sites if x[3] == "v"}))
        armed.append([x for x in sites if x[3] == "w"])
    assert kinds[0] == kinds[1] == [kind]
    assert [x[2] for x in armed[0]] == [x[2] for x in armed[1]]
    assert armed[0][-1][6] == armed[1][-1][6] == "mov32"
    if kind == "load":
        (load,) = [x for x in sites if x[3] == "v"]
        assert "newer than the second decoder" in load[7], load


# ---- the second opinion -----------------------------------------------------------------------

def test_what_capstone_does_not_know_is_not_called_a_disagreement(etch, tmp_path):
    src = tmp_path / "t.S"
    src.write_text("\t.globl f\n\t.type f,@function\nf:\tkmovd %eax, %k1\n\tkmovd %eax, %k2\n\t.byte 0xd5,0x18,0x89,0xc8\n\tret\n"
                   '\t.size f,.-f\n\t.section .note.GNU-stack,"",@progbits\n')
    run(["gcc", "-c", "-o", tmp_path / "t.o", src])
    for args in ((), ("--both-decoders",)):
        if capstone() > 4:  # it knows kmovd; whether it knows REX2, too, depends
            said = [x for x in checked(etch, tmp_path / "t.o", *args) if x["id"].startswith("ETCH-D")]
            assert {x["id"] for x in said} <= {"ETCH-D008"} and all(x["facts"][0]["text"] == "mov" for x in said)
            continue
        (x,) = [x for x in checked(etch, tmp_path / "t.o", *args) if x["id"].startswith("ETCH-D")]
        assert x["id"] == "ETCH-D008" and x["text"].startswith("3 instructions, ") and "not judged" in x["text"]
        assert x["facts"][0]["text"] == "kmovd, mov"


# ---- hostile bytes ----------------------------------------------------------------------------

def test_bytes_at_random(decoder):
    """Prefixes upon prefixes, and random bytes after each prefix that newer.c reads: no access out of bounds (the
    program has ASan and UBSan), no instruction of more than 15 bytes, and what follows one does not matter."""
    rng = random.Random(319433)
    some = [code for code, _ in rng.sample(encodings(), 400)]
    codes = [rng.choice(("2e", "65", "67", "66", "f2", "f3", "f0")) * n + code for code in some for n in (1, 2, 7, 13)]
    heads = ("d5", "62", "c4", "c5", "0f01", "0f38", "66d5", "67d5", "2e62", "4ad5", "f20f38", "6667c4")
    codes += [head + rng.randbytes(14).hex() for head in heads for _ in range(1500)]
    got = decoder(codes)
    known = [(c, out) for c, out in zip(codes, got) if out[0] != "0"]
    assert len(known) > 2000 and all(int(out[0]) <= 15 for _, out in known)
    again = decoder([c[:2 * int(out[0])] for c, out in known])
    assert [(c, a, b) for (c, a), b in zip(known, again) if a != b] == []
