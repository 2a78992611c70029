# SPDX-License-Identifier: MIT
"""Instructions that a program executes, counted one by one by valgrind's callgrind and
classified by objdump: NOPs, branches, calls. For the benchmarks and the demo."""
import collections
import re
import subprocess
import threading


def _run(*command):
    command = [str(c) for c in command]
    p = subprocess.run(command, text=True, capture_output=True)
    if p.returncode:
        raise RuntimeError(f"`{' '.join(command[:4])} ...` ended with {p.returncode}:\n"
                           f"{p.stdout[-1000:]}{p.stderr[-3000:]}")
    return p.stdout


# Where valgrind maps a PIE (coregrind/m_ume/elf.c): up to 3.19, and as of 3.27. No program reaches from one to the other.
PIE_BASE, LATER_PIE_BASE = 0x108000, 0x4000000
PREFIXES = {"cs", "ds", "es", "ss", "fs", "gs", "data16", "addr32", "notrack", "bnd", "lock", "rep", "repz", "repnz"}


def kind(text):
    """What an instruction of objdump's counts as: nop, call or jump (with an indirect
    form of each), ret, branch, other."""
    words = text.split("#")[0].split()
    while len(words) > 1 and (words[0] in PREFIXES or words[0].startswith("rex")):
        words.pop(0)
    name, operands = words[0], " ".join(words[1:])
    if name.startswith("nop") or (name == "xchg" and operands == "%ax,%ax"):
        return "nop"
    if name.startswith("ret"):
        return "ret"
    for what in ("call", "jmp"):
        if name.startswith(what):
            return what + (" *" if operands.startswith("*") else "")
    return "branch" if name[0] == "j" or name.startswith("loop") else "other"


class Code:
    """The instructions of the files that a profile names, disassembled once."""
    def __init__(self):
        self.files = {}
        self.lock = threading.Lock()

    def at(self, path, address):
        """The text of the instruction there and the address of the one before it."""
        if path not in self.files:
            with self.lock:
                if path not in self.files:
                    self.files[path] = self.disassembled(path)
        if address not in self.files[path]:
            raise RuntimeError(f"{path}: objdump shows no instruction at {address:#x}")
        return self.files[path][address]

    @staticmethod
    def disassembled(path):
        found, before = {}, None
        for line in _run("objdump", "-d", "-w", "--no-show-raw-insn", path).splitlines():
            m = re.match(r"\s*([0-9a-f]+):\t(.+)", line)
            if m:
                found[int(m[1], 16)] = m[2], before
                before = int(m[1], 16)
        return found


def callgrind(program, arguments, function=None):
    """Runs a program under callgrind. Returns its standard output and, by (file,
    address), the counts of each instruction executed below `function`: a list in the
    order Ir (executions), Dr, Dw (data reads and writes)."""
    # valgrind 3.19 cannot read the DWARF 5 of clang.
    stripped = program.with_name(program.name + ".stripped")
    _run("strip", "-g", "-o", stripped, program)
    out = program.with_name(program.name + ".callgrind")
    command = ["valgrind", "--tool=callgrind", "--dump-instr=yes", "--cache-sim=yes", "--compress-pos=no",
               "--compress-strings=no", f"--callgrind-out-file={out}"]
    stripped = stripped.resolve()
    if function:
        command.append(f"--toggle-collect={function}")
    text = _run(*command, stripped, *arguments)
    counts, file, called = collections.defaultdict(lambda: [0, 0, 0]), None, False
    for line in open(out):
        if line.startswith("ob="):
            file = line[3:].strip()
        elif line.startswith("calls="):
            called = True  # the next line is what the callee cost
        elif line.startswith("0x"):
            if called:
                called = False
                continue
            words = line.split()
            address = int(words[0], 16)
            # Of .plt.got valgrind does not know where it belongs, but it is the program's.
            base = PIE_BASE if address < LATER_PIE_BASE else LATER_PIE_BASE
            cell = counts[(str(stripped), address - base) if file == "???" else (file, address)]
            for i, n in enumerate(words[2:5]):
                cell[i] += int(n)
    out.unlink()
    if not counts:
        raise RuntimeError(f"callgrind counted nothing below {function} in {program.name}")
    return text, counts


def classify(counts, code, changed=None):
    """The counts of a profile by what the instructions are; `changed` gives the kinds of
    those, by (file, address), that the program replaced when it ran. A string instruction with a
    rep prefix counts once, as a processor counts it: valgrind counts each iteration.
    How often it ran is how often the instruction before it did."""
    found = collections.Counter()
    for (file, address), (executed, reads, writes) in counts.items():
        text, before = code.at(file, address)
        if re.match(r"rep\w* ", text) and not re.match(r"repz? ret", text):
            executed, reads, writes = (min(n, counts.get((file, before), (0,))[0]) for n in (executed, reads, writes))
        what = (changed or {}).get((file, address)) or kind(text)
        found["instructions"] += executed
        found[what] += executed
        found["data"] += reads + writes
    found["useful"] = found["instructions"] - found["nop"]
    found["branches"] = sum(found[k] for k in ("call", "call *", "jmp", "jmp *", "ret", "branch"))
    found["indirect"] = found["call *"] + found["jmp *"]
    return found
