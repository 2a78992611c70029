#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Asks LLVM's checker of CFI (llvm-mc --validate-cfi, LLVM 21 and later) about the FDE of an address.

    llvm_frames.py FILE ADDRESS            ADDRESS: as objdump prints it, after the instruction in question

The checker reads assembly: the FDE's code by llvm-objdump, with the FDE's instructions as directives at their addresses.
Prints what it says of the instruction that ends at ADDRESS, and how much of the rest; not what it says of registers that
a function may change. Exit status: 0 it sees no error there; 1 it does; 2 it cannot be asked. LLVM_MC names the program,
else the newest there is."""

import argparse
import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
import pinned  # noqa: E402, F401  (before other packages: it may start another Python)
from elftools.dwarf.callframe import FDE, instruction_name  # noqa: E402
from elftools.elf.elffile import ELFFile  # noqa: E402


def tools():
    """(llvm-mc, llvm-objdump) of the newest version that has the checker, or None."""
    names = [os.environ["LLVM_MC"]] if "LLVM_MC" in os.environ else ["llvm-mc", *(f"llvm-mc-{n}" for n in range(40, 20, -1))]
    for mc in names:
        objdump = mc.replace("llvm-mc", "llvm-objdump")
        if shutil.which(mc) and shutil.which(objdump) and "--validate-cfi" in subprocess.run([mc, "--help-hidden"], capture_output=True, text=True).stdout:
            return mc, objdump
    return None


# Of registers that a function may change.
IDLE = re.compile(r"register (RFLAGS|R[ACD]X|R[SD]I|R(8|9|10|11)|[XYZ]?MM\d+)\b")


def fde_of(path, address):
    with open(path, "rb") as f:
        for entry in ELFFile(f).get_dwarf_info().EH_CFI_entries():
            if isinstance(entry, FDE) and 0 <= address - entry.header["initial_location"] < entry.header["address_range"]:
                return entry
    return None


def uleb(n):
    out = []
    while True:
        out.append(n & 127 | (128 if n > 127 else 0))
        n >>= 7
        if not n:
            return out


def directives(fde):
    """{address: [directive]}; those of the CIE are what .cfi_startproc says."""
    at, daf, out = fde.header["initial_location"], fde.cie.header["data_alignment_factor"], {}
    for i in fde.instructions:
        name, args = instruction_name(i.opcode), i.args
        if name.startswith("DW_CFA_advance_loc"):
            at += args[0] * fde.cie.header["code_alignment_factor"]
        elif name == "DW_CFA_set_loc":
            at = args[0]
        elif name in ("DW_CFA_nop", "DW_CFA_GNU_args_size"):
            continue
        else:
            kind = name.removeprefix("DW_CFA_").removesuffix("_extended").removesuffix("_extended_sf")
            if kind.endswith("expression"):
                reg, expr = ([], args[0]) if kind == "def_cfa_expression" else (uleb(args[0]), args[1])
                text = ".cfi_escape " + ", ".join(map(str, [i.opcode, *reg, *uleb(len(expr)), *expr]))
            elif kind == "offset":
                text = f".cfi_offset {args[0]}, {args[1] * daf}"
            else:
                text = f".cfi_{kind} " + ", ".join(map(str, args))
            out.setdefault(at, []).append(text)
    return out


def instructions(objdump, path, start, size):
    """(address, text) of each, as LLVM's assembler takes it. By an object of these bytes: a stripped file has no symbol to begin at."""
    with open(path, "rb") as f, tempfile.TemporaryDirectory() as tmp:
        elf = ELFFile(f)
        p = next(p for p in elf.iter_segments() if p["p_type"] == "PT_LOAD" and 0 <= start - p["p_vaddr"] < p["p_filesz"])
        f.seek(p["p_offset"] + start - p["p_vaddr"])
        raw, made = os.path.join(tmp, "code"), os.path.join(tmp, "code.o")
        with open(raw, "wb") as out:
            out.write(f.read(size))
        subprocess.run(["as", "-o", made], input=f'.text\n.type f, @function\nf: .incbin "{raw}"\n', text=True, check=True)
        p = subprocess.run([objdump, "-d", "--no-show-raw-insn", "--print-imm-hex", f"--adjust-vma={start}", made], capture_output=True, text=True, check=True)
    # Short jumps take labels alone; where they lead does not matter to the checker.
    plain = [(int(a, 16), re.sub(r"\s*(<[^>]*>|#.*)", "", t).strip()) for a, t in re.findall(r"^ *([0-9a-f]+):[ \t]+(.*)$", p.stdout, re.M)]
    return [(a, re.sub(r"^(j[er]?cxz|loop\w*)\s.*", r"\1 f", t)) for a, t in plain]


def main(path, address):
    address, have = int(address, 16), tools()
    if not have:
        print("no llvm-mc with --validate-cfi: llvm 21 or later")
        return 2
    fde = fde_of(path, address)
    if not fde:
        print(f"{path}: no FDE for {address:x}")
        return 2
    start = fde.header["initial_location"]
    insns = instructions(have[1], path, start, fde.header["address_range"])
    said = directives(fde)
    lines, where = [".text", "f:", ".cfi_startproc"], {}
    for i, (at, text) in enumerate(insns):
        lines += said.get(at, [])
        lines.append(text)
        where[len(lines)] = insns[i + 1][0] if i + 1 < len(insns) else None, text
    lines.append(".cfi_endproc")
    p = subprocess.run([have[0], "-triple=x86_64-linux-gnu", "--validate-cfi", "-filetype=null"], input="\n".join(lines) + "\n", capture_output=True, text=True)
    reports = re.findall(r"^<stdin>:(\d+):\d+: (error|warning): (.*)$", p.stderr, re.M)
    asm = [r for r in reports if r[1] == "error" and not re.search(r"CFA|CFI|unwind", r[2])]
    if asm:
        print(f"{path}: not assembled: {asm[0]} {lines[int(asm[0][0]) - 1]}")
        return 2
    kept = [(int(line), kind, text) for line, kind, text in reports if not IDLE.search(text)]
    here = [(kind, text) for line, kind, text in kept if where.get(line, (None,))[0] == address]
    version = re.search(r"LLVM version (\S+)", subprocess.run([have[0], "--version"], capture_output=True, text=True).stdout)[1]
    print(f"{path}: FDE {start:x}..{start + fde.header['address_range']:x}: LLVM {version} says {len(kept)} things of {len(insns)} instructions, "
          f"and {len(reports) - len(kept)} of registers that a function may change")
    before = next((text for end, text in where.values() if end == address), "?")
    print(f"  before {address:x}: {before}: " + ("; ".join(map(": ".join, here)) if here else "nothing"))
    return int(any(kind == "error" for kind, _ in here))


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("file")
    parser.add_argument("address")
    a = parser.parse_args()
    sys.exit(main(a.file, a.address))
