#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Judges a finding of etch check (ETCH-C001) by gdb: does .eh_frame find the caller at an address?

    gdb_frames.py FILE ADDRESS [ENTRY]     ADDRESS, ENTRY: as objdump prints them

The code is copied into a process and stepped from ENTRY (default: where the FDE begins), which a `call` has just
reached, to ADDRESS, by the shortest way over its branches. Calls are stepped over, and so is what faults, as no data is
there. At each step gdb, which reads .eh_frame and knows nothing of etch, says where the frame is and what the caller's
rbp was: neither can change before the return. Exit status: 0 gdb is right at ADDRESS; 1 it is not; 2 no way to it."""

import argparse
import json
import os
import re
import subprocess
import sys
import tempfile
from collections import deque
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
import pinned  # noqa: E402, F401  (before other packages: it may start another Python)
from elftools.dwarf.callframe import FDE  # noqa: E402
from elftools.elf.elffile import ELFFile  # noqa: E402

LOADER = r"""
#include <elf.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/mman.h>
#include <unistd.h>
#define MOST 64
volatile unsigned long base;
char scratch[1 << 20];
int main(int argc, char **argv)
{
	int fd = open(argv[1], O_RDONLY), i;
	unsigned long low = -1ul, high = 0;
	Elf64_Ehdr h;
	Elf64_Phdr p[MOST];
	char *at;

	pread(fd, &h, sizeof h, 0);
	pread(fd, p, h.e_phnum * sizeof *p, (long)h.e_phoff);
	for (i = 0; i < h.e_phnum && i < MOST; i++)
		if (p[i].p_type == PT_LOAD) {
			low = p[i].p_vaddr < low ? p[i].p_vaddr & -4096ul : low;
			high = p[i].p_vaddr + p[i].p_memsz > high ? p[i].p_vaddr + p[i].p_memsz : high;
		}
	at = mmap((void *)(h.e_type == ET_EXEC ? low : 0x200000000), high - low, PROT_READ | PROT_WRITE | PROT_EXEC,
	          MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);
	base = (unsigned long)at - low;
	for (i = 0; i < h.e_phnum && i < MOST; i++)
		if (p[i].p_type == PT_LOAD)
			pread(fd, (void *)(base + p[i].p_vaddr), p[i].p_filesz, (long)p[i].p_offset);
	raise(SIGTRAP);
	return 0;
}
"""

# Run by gdb's Python.
STEPPER = r"""
import gdb, json, re
job = json.load(open(JOB))
run = lambda text: gdb.execute(text, to_string=True)
value = lambda text: int(gdb.parse_and_eval(text)) & (1 << 64) - 1
for line in ("set confirm off", "set pagination off", "set disable-randomization on", "handle all stop print nopass", "run"):
    run(line)
while run("info symbol $pc").split()[0] != "main":
    run("finish")
base = value("base")
run(f"add-symbol-file {job['file']} -o {base}")
start = value("$rsp") - 65536 & ~15
for name in "rax rdi rsi rdx rcx r8 r9 r10 r11".split():
    run(f"set ${name} = (long)&scratch + {1 << 19}")
kept = {name: value("(long)&scratch") + 65536 * (i + 1) for i, name in enumerate(("rbx", "rbp", "r12", "r13", "r14", "r15"))}
for name, v in kept.items():
    run(f"set ${name} = {v}")
back = value("$pc")
run(f"set $rsp = {start - 8}")
run(f"set *(long *)$rsp = {back}")
run(f"set $pc = {base + job['path'][0]}")
for i, at in enumerate(job["path"]):
    gdb.newest_frame().select()
    rsp = value("$rsp")
    found = re.search(r"frame at (0x[0-9a-f]+)", run("info frame"))
    older, lost = gdb.newest_frame().older(), []
    for name, v in kept.items() if older else ():
        try:
            now = int(older.read_register(name)) & (1 << 64) - 1
        except gdb.error:
            now = None
        if now != v:
            lost.append(name)
    print("STEP", json.dumps([at, start - rsp, int(found.group(1), 16) - start if found else None, lost, older is not None and older.pc() == back]))
    if i + 1 == len(job["path"]):
        break
    after = base + job["path"][i + 1]
    if job["insns"][str(at)].split()[0] not in ("call", "syscall", "data16"):
        run("stepi")
    if value("$pc") != after:
        run(f"set $pc = {after}")
run("kill")
"""


def instructions(path, start, end):
    """(address, text) of each, by objdump."""
    p = subprocess.run(["objdump", "-dw", "--no-show-raw-insn", f"--start-address={start}", f"--stop-address={end}", path],
                       capture_output=True, text=True, check=True, env={**os.environ, "LC_ALL": "C"})
    return [(int(a, 16), t) for a, t in re.findall(r"^ *([0-9a-f]+):\t(.*?)\s*$", p.stdout, re.M)]


def way(insns, entry, address):
    """The shortest, as a list of addresses. None: there is none."""
    at = dict(insns)
    after = {a: b for (a, _), (b, _) in zip(insns, insns[1:])}
    came, todo = {entry: None}, deque([entry])
    while todo and address not in came:
        a = todo.popleft()
        word = at[a].split()[0] if at.get(a) else "(bad)"
        target = re.match(r"(?:bnd |notrack )?(j\w+|loop\w*) +([0-9a-f]+)\b", at.get(a, ""))
        ends = word in ("ret", "repz", "hlt", "ud2", "(bad)") or re.match(r"(bnd |notrack )?jmp", at[a])
        for b in ([] if ends else [after.get(a)]) + ([int(target.group(2), 16)] if target else []):
            if b in at and b not in came:
                came[b] = a
                todo.append(b)
    path = [address] if address in came else []
    while path and came[path[-1]] is not None:
        path.append(came[path[-1]])
    return path[::-1] or None


def fde_of(path, address):
    with open(path, "rb") as f:
        for entry in ELFFile(f).get_dwarf_info().EH_CFI_entries():
            if isinstance(entry, FDE) and 0 <= address - entry.header["initial_location"] < entry.header["address_range"]:
                return entry.header["initial_location"], entry.header["initial_location"] + entry.header["address_range"]
    return None


def main(path, address, entry=None):
    address = int(address, 16)
    extent = fde_of(path, address)
    if not extent:
        print(f"{path}: no FDE for {address:x}")
        return 2
    entry = int(entry, 16) if entry else extent[0]
    insns = instructions(path, min(entry, extent[0]), extent[1])
    steps = way(insns, entry, address)
    if not steps:
        print(f"{path}: no way from {entry:x} to {address:x} in {extent[0]:x}..{extent[1]:x}")
        return 2
    with tempfile.TemporaryDirectory() as tmp:
        top = Path(tmp)
        (top / "loader.c").write_text(LOADER)
        subprocess.run(["cc", "-w", "-g", "-O0", "-o", top / "loader", top / "loader.c"], check=True)
        (top / "job").write_text(json.dumps({"file": os.path.abspath(path), "path": steps, "insns": dict(insns)}))
        (top / "step.py").write_text(f"JOB = {str(top / 'job')!r}\n" + STEPPER)
        p = subprocess.run(["gdb", "-nx", "-batch", "-x", top / "step.py", "--args", top / "loader", path], capture_output=True, text=True,
                           env={**os.environ, "DEBUGINFOD_URLS": ""}, timeout=600)
    rows = [json.loads(line[5:]) for line in p.stdout.splitlines() if line.startswith("STEP ")]
    if len(rows) != len(steps):
        print(p.stdout[-1000:], p.stderr[-1000:])
        return 2
    text = dict(insns)
    print(f"{path}: FDE {extent[0]:x}..{extent[1]:x}, entered at {entry:x}, {len(steps)} steps")
    print("  address  rsp is       gdb: frame at  caller     instruction")
    bad = False
    for at, depth, cfa, lost, back in rows[:1] * (len(rows) > 7) + rows[-7:]:
        bad = cfa != 0 or bool(lost) or not back
        print(f"  {at:7x}  CFA-{depth:<8} CFA{cfa:+d}{'' if cfa == 0 else ' WRONG':9}  {'lost ' + ','.join(lost) if lost else 'found' if back else 'NOT FOUND':10} {text[at]}")
    print("gdb is wrong here" if bad else "gdb is right here")
    return bad


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("file")
    parser.add_argument("address")
    parser.add_argument("entry", nargs="?")
    a = parser.parse_args()
    sys.exit(main(a.file, a.address, a.entry))
