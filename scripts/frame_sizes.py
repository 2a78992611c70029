#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Sizes of rows in others' formats, beside those of the tools that usually write them.

    scripts/frame_sizes.py [FILE...]      default: SQLite, libc.a's members, libc.so.6, cc1plus

`.sframe`: the GNU assembler's is made from the compiler's own CFI: each FDE of the file as .cfi directives, with .skip in
place of the code, through an assembler that knows the version (scripts/fetch.py). etch's is that of `etch rewrite
--sframe`. `.eh_frame`: gcc's is the file's own; etch's is made from a copy without it, so from the code alone. Linked
files also have rows for their PLT, which the assembler's sum has not. Beside them: stack deltas as OpenTelemetry's
profiler counts them, 8 bytes for each address where the rule changes, and etch's own block table.
"""

import subprocess
import sys
import tempfile
from pathlib import Path

from elftools.dwarf.callframe import FDE, instruction_name
from elftools.elf.elffile import ELFFile

sys.path.insert(0, str(Path(__file__).resolve().parent))
import fetch  # noqa: E402

ROOT = Path(__file__).resolve().parent.parent
ETCH = ROOT / "build" / "etch"
LIBDIR = Path("/usr/lib/x86_64-linux-gnu")


def run(argv, **kw):
    return subprocess.run([str(a) for a in argv], capture_output=True, text=True, check=True, **kw)


def size_of(path, name):
    with open(path, "rb") as f:
        return max((s["sh_size"] for s in ELFFile(f).iter_sections() if s.name == name), default=0)


def directive(name, args, cie):
    data = cie["data_alignment_factor"]
    if name.startswith("DW_CFA_advance_loc") or name == "DW_CFA_MIPS_advance_loc8":
        return f".skip {args[0] * cie['code_alignment_factor']}"
    simple = {"DW_CFA_def_cfa": ".cfi_def_cfa %d,%d", "DW_CFA_def_cfa_register": ".cfi_def_cfa_register %d",
              "DW_CFA_def_cfa_offset": ".cfi_def_cfa_offset %d", "DW_CFA_restore": ".cfi_restore %d",
              "DW_CFA_restore_extended": ".cfi_restore %d", "DW_CFA_remember_state": ".cfi_remember_state",
              "DW_CFA_restore_state": ".cfi_restore_state", "DW_CFA_undefined": ".cfi_undefined %d",
              "DW_CFA_same_value": ".cfi_same_value %d", "DW_CFA_register": ".cfi_register %d,%d"}
    if name in simple:
        return simple[name] % tuple(args)
    if name in ("DW_CFA_offset", "DW_CFA_offset_extended", "DW_CFA_offset_extended_sf"):
        return f".cfi_offset {args[0]},{args[1] * data}"
    if name in ("DW_CFA_def_cfa_expression", "DW_CFA_expression", "DW_CFA_val_expression"):
        code = {"DW_CFA_def_cfa_expression": 0x0f, "DW_CFA_expression": 0x10, "DW_CFA_val_expression": 0x16}[name]
        head, body = ([code], args[0]) if len(args) == 1 else ([code, args[0]], args[1])
        return ".cfi_escape " + ",".join(str(b) for b in [*head, len(body), *body])
    return None  # nop, and what the assembler has no directive for


def assembly(path):
    """The file's FDEs as directives, and their number."""
    out, count = [".text"], 0
    with open(path, "rb") as f:
        dwarf = ELFFile(f).get_dwarf_info()
        for fde in dwarf.EH_CFI_entries() if dwarf.has_EH_CFI() else ():
            if not isinstance(fde, FDE):
                continue
            cie, left = fde.cie, fde["address_range"]
            count += 1
            out.append(".cfi_startproc")
            if "S" in cie.augmentation_dict.get("augmentation", "") or b"S" in cie["augmentation"]:
                out.append(".cfi_signal_frame")
            for one in fde.instructions:
                text = directive(instruction_name(one.opcode), one.args, cie)
                if text and text.startswith(".skip"):
                    left -= int(text.split()[1])
                if text:
                    out.append(text)
            out += [f".skip {left}", ".cfi_endproc"]
    return "\n".join(out) + "\n", count


def gas_sframe(text, tools, temp):
    (temp / "t.s").write_text(text)
    run([tools / "as", "--gsframe", "-o", temp / "t.o", temp / "t.s"])
    return size_of(temp / "t.o", ".sframe")


def deltas(path):
    """Addresses where the rule changes, of `etch inspect orc`, by what a stack delta holds."""
    last, n = None, 0
    for line in run([ETCH, "inspect", "orc", "--format", "tsv", path]).stdout.splitlines()[1:]:
        rule = line.split("\t")[2:6]
        n += rule != last
        last = rule
    return n


def measure(paths, tools, temp):
    """Sums over the files: etch's and gas's .sframe of both versions, .eh_frame of etch and gcc; deltas; block table."""
    sums = dict.fromkeys(("sframe2", "gas2", "sframe3", "gas3", "eh_frame", "gcc", "deltas", "block", "fdes"), 0)
    for path in paths:
        text, count = assembly(path)
        if not count:
            continue
        with open(path, "rb") as f:
            linked = ELFFile(f)["e_type"] != "ET_REL"
        sums["fdes"] += count
        for version in (2, 3):
            run([ETCH, "rewrite", f"--sframe={version}", "-o", temp / "etched", path])
            sums[f"sframe{version}"] += size_of(temp / "etched", ".sframe")
            sums[f"gas{version}"] += gas_sframe(text, tools[version], temp)
        if linked:
            sums["gcc"] += size_of(path, ".eh_frame")
            run(["objcopy", "--remove-section", ".eh_frame", "--remove-section", ".eh_frame_hdr", path, temp / "bare"])
            run([ETCH, "rewrite", "--eh-frame", "-o", temp / "etched", temp / "bare"])
            sums["eh_frame"] += size_of(temp / "etched", ".eh_frame")
            sums["deltas"] += deltas(temp / "etched")
            sums["block"] += size_of(temp / "etched", ".etch.unwind")
    return sums


def groups(temp):
    sqlite = fetch.fetch("sqlite") / "sqlite3.c"
    run(["gcc", "-O2", "-c", "-o", temp / "sqlite3.o", sqlite])
    run(["gcc", "-shared", "-fPIC", "-O2", "-o", temp / "sqlite3.so", sqlite])
    yield "SQLite's object", [temp / "sqlite3.o"]
    yield "SQLite, linked", [temp / "sqlite3.so"]
    (temp / "libc").mkdir()
    run(["ar", "x", LIBDIR / "libc.a"], cwd=temp / "libc")
    yield "libc.a's objects", sorted((temp / "libc").glob("*.o"))
    yield "libc.so.6", [LIBDIR / "libc.so.6"]
    yield from (("cc1plus", [p]) for p in sorted(Path("/usr/lib/gcc/x86_64-linux-gnu").glob("*/cc1plus"))[-1:])


def main():
    tools = {2: fetch.fetch("binutils-trixie"), 3: fetch.fetch("binutils")}
    print("| code | FDEs | .sframe 2 | GNU as | share | .sframe 3 | GNU as | share | .eh_frame | gcc's | share | stack deltas | block table |")
    print("|---|" + "--:|" * 12)
    with tempfile.TemporaryDirectory() as name:
        temp = Path(name)
        for title, paths in ([(p, [Path(p)]) for p in sys.argv[1:]] or groups(temp)):
            s = measure(paths, tools, temp)

            def pair(a, b, s=s):
                return f"{s[a]:,} | {s[b]:,} | {s[a] / s[b]:.1%}" if s[b] and s[a] else "| | "
            print(f"| {title} | {s['fdes']:,} | {pair('sframe2', 'gas2')} | {pair('sframe3', 'gas3')} | {pair('eh_frame', 'gcc')} | "
                  f"{s['deltas']:,} ({8 * s['deltas']:,} bytes) | {s['block']:,} |", flush=True)


if __name__ == "__main__":
    main()
