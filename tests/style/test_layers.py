# SPDX-License-Identifier: MIT
"""The folders of the code and which of them may include which: a file includes what its folder may, and nothing else."""
import re
from pathlib import Path

import pytest

from conftest import ROOT

X86, ELF, DWARF, INPUT, OUTPUT = "arch/x86", "elf", "dwarf", "input", "output"
REPORT, SUPPORT = "report", "support"
FACTS, DISCOVER, FLOW, RUNTIMES = (f"analysis/{folder}" for folder in ("facts", "discover", "flow", "runtimes"))
UNWIND, LINT, INTERPROC, ADDRESSES = (f"analysis/{folder}" for folder in ("unwind", "lint", "interproc", "addresses"))
DATAFLOW = "analysis/dataflow"

# Folder of tool/: those whose headers it may include, beside its own, support and libetch's public ones.
TOOL = {
    SUPPORT: set(),
    X86: set(),
    ELF: set(),
    DWARF: {ELF},
    INPUT: {ELF},
    OUTPUT: {ELF, X86},
    REPORT: {DWARF, INPUT, ELF},
    FACTS: {OUTPUT, ELF, "lib/shared"},  # what an earlier run has added to a file
    DATAFLOW: set(),
    ADDRESSES: {DATAFLOW, FACTS, DWARF, ELF, X86},
    DISCOVER: {FACTS, ELF, X86},
    FLOW: {DATAFLOW, DISCOVER, FACTS, ELF, X86},
    RUNTIMES: {FLOW, DISCOVER, FACTS, ELF, X86},
    UNWIND: {FLOW, DISCOVER, FACTS, ELF, X86, REPORT},
    LINT: {DATAFLOW, RUNTIMES, FLOW, DISCOVER, FACTS, ELF, X86, REPORT},
    INTERPROC: {DATAFLOW, LINT, UNWIND, RUNTIMES, FLOW, DISCOVER, FACTS, OUTPUT, DWARF, ELF, X86, REPORT},
    "kernel": {FACTS, ELF, X86, REPORT},
    "stat": {REPORT, OUTPUT},
}
ANALYSIS = {FACTS, DATAFLOW, ADDRESSES, DISCOVER, FLOW, RUNTIMES, UNWIND, LINT, INTERPROC}
TOOL["table"] = {OUTPUT, ELF, X86, REPORT} | ANALYSIS
TOOL["site"] = (TOOL["table"] - {OUTPUT}) | {"table", DWARF}
TOOL["check"] = TOOL["site"] | {"site", INPUT, OUTPUT}
TOOL["inspect"] = (TOOL["check"] - {OUTPUT}) | {"check", "kernel"}
TOOL["diff"] = (TOOL["check"] - {INPUT, OUTPUT, DWARF}) | {"check"}
TOOL["unwinding"] = TOOL["site"] | {"site", OUTPUT, "lib/shared"}
TOOL["rewrite"] = TOOL["unwinding"] | {"unwinding", "kernel", INPUT}
TOOL["objtool"] = TOOL["table"] | {"kernel"}
# Walks stacks by libetch's own code, and makes tables as `etch rewrite` does.
TOOL["profile"] = {OUTPUT, DWARF, ELF, X86, REPORT, "stat", "unwinding", "lib/unwind", "lib/shared"}
# Reads what the recorder of lib/heap has shared, and shows it as a profile.
TOOL["heap"] = {"profile", REPORT, "stat", "lib/shared", "lib/unwind"}
# Makes tables as `etch rewrite --sidecar` does, for a whole system.
TOOL["tables"] = {"unwinding", INPUT, OUTPUT, ELF, REPORT, "lib/shared"}
TOOL["commands"] = set(TOOL)  # tool/*.c: one command a file

ANYWHERE = ROOT / "lib" / "shared" / "search.h"  # the one binary search

# libetch: folders of lib/. Its public headers, lib/include/etch, include nothing but one another.
LIB = {
    "lib/common": set(),
    "lib/shared": set(),
    "lib/faults": {"lib/common", "lib/patch"},
    "lib/patch": {"lib/common", "lib/faults"},
    "lib/unwind": {"lib/common", "lib/shared"},
    "lib/interfaces": {"lib/unwind", "lib/common", "lib/shared"},
    "lib/exceptions": {"lib/unwind", "lib/common", "lib/shared"},
    "lib/heap": {"lib/interfaces", "lib/unwind", "lib/common", "lib/shared"},
}


def folder(path):
    """The folder of a file, as the tables name it."""
    folder = path.relative_to(ROOT).parent
    if folder.parts[0] == "lib":
        return "/".join(folder.parts[:2])
    return "/".join(folder.parts[1:]) or "commands"


def sources():
    return sorted(p for top in ("tool", "lib") for p in (ROOT / top).rglob("*.[chS]"))


def included(path):
    """Files of the tree that a file includes."""
    for form, name in re.findall(r'^\s*#\s*include ([<"])([^>"]+)[>"]', path.read_text(), re.M):
        folders = [path.parent] * (form == '"') + [ROOT / "tool", ROOT / "lib", ROOT / "lib" / "include"]
        found = next((f / name for f in folders if (f / name).is_file()), None)
        if found:
            yield found.resolve()


def test_arrows():
    wrong, seen = [], set()
    for path in sources():
        here = folder(path)
        seen.add(here)
        allowed = {here, "lib/include", "support"} | TOOL[here] if here in TOOL else {here, "lib/include"} | LIB.get(here, set())
        wrong += [f"{path.relative_to(ROOT)} includes {other.relative_to(ROOT)}" for other in included(path)
                  if folder(other) not in allowed and other != ANYWHERE]
    assert not wrong
    assert seen - {"lib/include"} == set(TOOL) | set(LIB)  # a folder that nobody has named


def test_headers_are_reached_by_their_folder():
    """Not by a path relative to the file: an include names the folder that it goes to."""
    for path in sources():
        for name in re.findall(r'^\s*#\s*include "([^"]+)"', path.read_text(), re.M):
            assert "/" in name or path.parent in (ROOT / "tool", ROOT / "lib"), f"{path}: {name}"


@pytest.mark.parametrize("folder", ["tool/analysis", "lib/shared", "tool"])
def test_no_circle_of_files(folder):
    """No header includes itself by way of others; in the analysis no file does, where NAME.c and NAME.h are one."""
    whole = folder == "tool/analysis"
    graph = {}

    def node(path):
        return str(path.relative_to(ROOT).with_suffix(""))

    for path in sources():
        if path.is_relative_to(ROOT / folder) and (whole or path.suffix == ".h"):
            graph.setdefault(node(path), set()).update(node(p) for p in included(path) if node(p) != node(path))
    done = set()

    def visit(name, way):
        assert name not in way, " -> ".join([*way, name])
        if name not in done:
            for other in sorted(graph.get(name, ())):
                visit(other, [*way, name])
            done.add(name)

    assert graph
    for name in sorted(graph):
        visit(name, [])


def test_no_name_twice():
    names = {}
    for path in sources():
        if path.suffix != ".S":
            names.setdefault(path.name, []).append(str(path.relative_to(ROOT)))
    assert not [where for where in names.values() if len(where) > 1]


def test_only_runtimes_knows_a_language():
    """Language runtimes are rows of one table, analysis/runtimes/runtimes.c; no other folder of the analysis names one."""
    names = r"(?i:ocaml|caml_|ghc|haskell|golang|go_|pclntab|stgrun)|\b(?:Go|Dart|Mono|V8)\b"
    found = [f"{p.relative_to(ROOT)}:{n}" for p in sorted((ROOT / "tool/analysis").rglob("*.[chS]")) if p.parent.name != "runtimes"
             for n, line in enumerate(p.read_text().splitlines(), 1) if re.search(names, line)]
    assert not found
    rows = re.findall(r'\{\.name = "(\w+)"', (ROOT / "tool/analysis/runtimes/runtimes.c").read_text())
    assert set(rows) >= {"C", "OCaml", "Go", "GHC", "Mono"}


def code_of(path):
    """A file without its comments."""
    return re.sub(r"(?s)/\*.*?\*/", lambda m: "\n" * m[0].count("\n"), path.read_text())


# Bytes that are no opcodes where they stand.
NO_OPCODE = {
    "tool/support/plain.c": "UTF-8", "tool/report/listing.c": "UTF-8", "tool/diff/refs.c": "UTF-8",
    "tool/table/eh_frame_program.c": "DWARF's instructions", "tool/kernel/kernel_entry.c": "SHA-1 sums",
}
OPCODES = r"\b0x(?:55|5d|90|c2|c3|c9|cc|e8|e9|eb|f4|0f, 0x(?:1f|05|0b)|48, 0x8[9b]|f3, 0x0f|66, 0x90)\b"
REGISTERS = r"(?i)\b(?:r?[abcd]x|r[sd]i|r(?:8|9|1[0-5]))\b|REG_R(?:AX|BX|CX|DX|SI|DI|8|9|1[0-5])\b"
NAMES_REGISTERS = {"tool/cmd_inspect.c": "an example in --help", "tool/kernel/kernel_entry.c": "those of the kernel's own rows",
                   "tool/objtool/orc_dump.c": "the same, as objtool prints them"}


def test_only_arch_names_opcodes_and_registers():
    """Outside of arch/x86 no file of the tool knows an opcode, a decoder, or a register other than the two that rows are
    made of, rsp and rbp (etch/orc.h)."""
    found = {"decoder": [], "opcode": [], "register": []}
    for path in sorted((ROOT / "tool").rglob("*.[ch]")):
        name = str(path.relative_to(ROOT))
        if "/arch/" in name:
            continue
        for n, line in enumerate(code_of(path).splitlines(), 1):
            where = f"{name}:{n}"
            if re.search(r"Zydis\w|ZYDIS|\bcs_\w+\(|X86_(?:INS|REG)_", line):
                found["decoder"].append(where)
            if name not in NO_OPCODE and re.search(OPCODES, line):
                found["opcode"].append(where)
            if name not in NAMES_REGISTERS and re.search(REGISTERS, line):
                found["register"].append(where)
    assert not any(found.values()), found
