# SPDX-License-Identifier: MIT
"""Functions that a compiler made, each with one mistake put in at assembly level, and what
must be said of it and where. Many functions go into one file, so that thousands of mutants
cost one run of the assembler and one of etch.

The place where the finding must be is marked with a label, and the assembler writes its
distance from the function's start into section .expect: nothing here decodes an instruction."""

import random
import re
import subprocess

CALLEE_SAVED = ("%rbx", "%rbp", "%r12", "%r13", "%r14", "%r15")


def source(seed, count):
    """C functions with values that live over calls, branches, loops and tail calls."""
    rng = random.Random(seed)
    out = ["long g(long); long h(long, long); extern long data[];"]
    for n in range(count):
        live = rng.randrange(1, 6)
        body = [f"long x{i} = {rng.choice(['g(a)', 'g(b)', 'h(a, b)', 'data[a & 7]', 'a * 7 + b'])};" for i in range(live)]
        for _ in range(rng.randrange(1, 5)):
            i, k = rng.randrange(live), rng.randrange(live)
            body.append(rng.choice([
                f"if (x{i} > {rng.randrange(99)}) x{k} += h(x{i}, c); else x{k} -= g(c);",
                f"for (long i = 0; i < x{i}; i++) x{k} ^= g(i);",
                f"if (!x{i}) return x{k};",
                f"x{k} += g(x{i});",
                f"{{ long v[{rng.randrange(2, 40)}]; v[0] = x{i}; v[1] = c; x{k} += g((long)v); }}",
            ]))
        body.append(rng.choice(["return h({0}, {1});", "return {0} + {1};", "g({1}); return {0};"])
                    .format(*(f"x{rng.randrange(live)}" for _ in range(2))))
        out.append(f"long f{n}(long a, long b, long c) {{ {' '.join(body)} }}")
    return "\n".join(out)


def compile_to_assembly(cc, text, flags):
    p = subprocess.run([cc, "-S", "-x", "c", "-o", "-", "-w", "-fno-jump-tables", "-fno-stack-protector", *flags, "-"],
                       input=text, capture_output=True, text=True, check=True)
    return p.stdout


class Function:
    """The lines of one function, from its label to its .size."""

    def __init__(self, name, lines):
        self.name, self.lines = name, lines

    def copy(self, name, lines, cfi):
        """Assembly of `lines` as a function of its own."""
        text = "\n".join(lines)
        for label in sorted(set(re.findall(r"^(\.L\w+):", text, re.M)), key=len, reverse=True):
            text = re.sub(re.escape(label) + r"\b", f"{label}_{name}", text)
        if not cfi:
            text = re.sub(r"^\t\.cfi_.*\n?", "", text, flags=re.M)
        return f"\t.globl\t{name}\n\t.p2align 4\n\t.type\t{name}, @function\n{name}:\n{text}\n\t.size\t{name}, .-{name}\n"


def functions(assembly):
    found = []
    for m in re.finditer(r"^(\w+):[^\n]*\n(.*?)^\t\.size\t\1, ", assembly, re.M | re.S):
        lines = [line.split("#")[0].rstrip() for line in m.group(2).splitlines()]
        lines = [line for line in lines if line and not line.startswith(".Lfunc_end") and not line.startswith("\t.p2align")]
        if "\t.cfi_startproc" in lines and "\t.cfi_endproc" not in lines:
            lines.append("\t.cfi_endproc")  # clang writes it after the size
        if not any(line.startswith(("\t.section", "\t.text")) for line in lines):  # no cold part elsewhere
            found.append(Function(m.group(1), lines))
    return found


def word(line):
    return line.split()[0] if line.startswith("\t") and not line.startswith("\t.") else ""


def is_label(line):
    return bool(line) and not line.startswith("\t")


def is_end(line):
    w = word(line)
    return w in ("ret", "retq") or (w == "jmp" and not line.split()[1].startswith((".L", "*")))


def straight_end(lines, i):
    """The return or tail call that straight-line code from line i on comes to, or None."""
    for k in range(i, len(lines)):
        if is_end(lines[k]):
            return k
        if is_label(lines[k]) or word(lines[k]).startswith(("j", "call")):
            return None
    return None


def uses_frame_pointer(lines):
    return any(re.search(r"\bleave|movq?\t%rsp, %rbp|\(%rbp\), %rsp", line) for line in lines)


# Each mutation yields (lines, line of the expected finding, IDs allowed there).


def left_or_jump(line):
    return {"ETCH-S002"} if word(line).startswith("ret") else {"ETCH-F004"}


def pop_removed(lines):
    for i, line in enumerate(lines):
        end = straight_end(lines, i + 1)
        if word(line) in ("popq", "pop") and end is not None:
            yield lines[:i] + lines[i + 1:], end - 1, left_or_jump(lines[end])


def add_removed(lines):
    for i, line in enumerate(lines):
        end = straight_end(lines, i + 1)
        if re.match(r"\taddq\t\$\d+, %rsp$", line) and end is not None:
            yield lines[:i] + lines[i + 1:], end - 1, left_or_jump(lines[end])


def add_shortened(lines):
    for i, line in enumerate(lines):
        end = straight_end(lines, i + 1)
        m = re.match(r"\taddq\t\$(\d+), %rsp$", line)
        if m and end is not None and int(m.group(1)) > 8:
            changed = f"\taddq\t${int(m.group(1)) - 8}, %rsp"
            yield lines[:i] + [changed] + lines[i + 1:], end, left_or_jump(lines[end])


def push_added(lines):
    """Before the restores of an epilogue."""
    for i, line in enumerate(lines):
        end = straight_end(lines, i)
        if end is not None and (word(line).startswith("pop") or re.match(r"\taddq\t\$\d+, %rsp$", line)):
            if not i or not (word(lines[i - 1]).startswith("pop") or "%rsp" in lines[i - 1]):
                yield lines[:i] + ["\tpushq\t%rax"] + lines[i:], end + 1, left_or_jump(lines[end])


def pops_swapped(lines):
    for i in range(len(lines) - 1):
        pair = [k for k in range(i, min(i + 3, len(lines))) if word(lines[k]).startswith("pop")]
        if len(pair) < 2 or pair[0] != i:
            continue
        a, b = pair[:2]
        end = straight_end(lines, a)
        regs = {lines[k].split()[1] for k in (a, b)}
        if end is not None and len(regs & set(CALLEE_SAVED)) == 2:
            changed = list(lines)
            changed[a], changed[b] = lines[b], lines[a]
            yield changed, end, {"ETCH-S005"} if word(lines[end]).startswith("ret") else {"ETCH-F004"}


def std_added(lines):
    """Said of whatever leaves the function first."""
    for i, line in enumerate(lines):
        if word(line) and not word(line).startswith(("j", "ret", "call")):
            for k in range(i, len(lines)):
                if is_end(lines[k]) or word(lines[k]).startswith("call"):
                    yield lines[:i] + ["\tstd"] + lines[i:], k + 1, {"ETCH-S006"}
                    break
                if is_label(lines[k]) or word(lines[k]).startswith("j"):
                    break


def return_removed(lines):
    last = max((i for i, line in enumerate(lines) if word(line)), default=None)
    if last is None or not word(lines[last]).startswith("ret"):
        return
    before = last - 1
    while before >= 0 and lines[before].startswith("\t."):
        before -= 1
    if before >= 0 and word(lines[before]) and not word(lines[before]).startswith(("call", "j", "ud2")):
        yield lines[:last] + lines[last + 1:], before, {"ETCH-F001"}


def call_of_data(lines):
    for i, line in enumerate(lines):
        m = re.match(r"\tcallq?\t(\w+)", line)
        if m:
            yield lines[:i] + ["\tcall\tno_code"] + lines[i + 1:], i, {"ETCH-F003"}


MUTATIONS = [pop_removed, add_removed, add_shortened, push_added, pops_swapped, std_added, return_removed, call_of_data]


class Mutants:
    """A file of mutants: .text, the assembly, and .expected, {function: (mutation, IDs)}."""

    def __init__(self, assembly, seed, cfi, each=2):
        rng = random.Random(seed)
        self.expected, parts, table = {}, [], []
        whole = functions(assembly)
        for f in whole:
            for mutation in MUTATIONS:
                if uses_frame_pointer(f.lines) and mutation in (add_removed, add_shortened, push_added):
                    continue
                made = list(mutation(f.lines))
                for lines, at, ids in rng.sample(made, min(each, len(made))):
                    name = f"m{len(self.expected)}_{f.name}"
                    lines = lines[:at] + [f".Lexpect_{name}:"] + lines[at:]
                    copied = f.copy(name, lines, cfi).replace(f".Lexpect_{name}_{name}", f".Lexpect_{name}")
                    parts.append(copied)
                    table.append(f"\t.quad\t.Lexpect_{name} - {name}")
                    self.expected[name] = (mutation.__name__, ids)
            parts.append(f.copy(f"sound_{f.name}", f.lines, cfi))
        self.sound = [f"sound_{f.name}" for f in whole]
        # What is behind the last mutant is a function too.
        rest = re.sub(r"^\t\.(file|ident|addrsig\w*)\b.*\n", "", assembly, flags=re.M)
        self.text = (rest + "\n\t.text\n" + "".join(parts) + "\t.data\nno_code:\t.quad\t0\n"
                     + '\t.section\t.expect,"",@progbits\n' + "\n".join(table) + "\n")


class OnePath:
    """Functions with a push on one of the paths that lead to a place: before a jump there, or
    before its label where branches above lead there too."""

    def __init__(self, assembly, seed):
        rng = random.Random(seed)
        self.names, parts, table = [], [], []
        for f in functions(assembly):
            if uses_frame_pointer(f.lines):
                continue
            made = []
            for i, line in enumerate(f.lines):
                m = re.match(r"\tjmp\t(\.L\w+)$", line)
                if not m or f"{m.group(1)}:" not in f.lines:
                    continue
                others = [k for k, x in enumerate(f.lines) if k != i and re.match(rf"\tj\w+\t{re.escape(m.group(1))}$", x)]
                if others:
                    made.append((i, f.lines.index(f"{m.group(1)}:")))
            for k, line in enumerate(f.lines):
                label = re.match(r"(\.L\w+):", line)
                refs = [i for i, x in enumerate(f.lines) if label and re.match(rf"\tj\w+\t{re.escape(label.group(1))}$", x)]
                if refs and max(refs) < k and word(f.lines[k - 1]) and not is_end(f.lines[k - 1]) and \
                        not word(f.lines[k - 1]).startswith(("j", "call")):
                    made.append((k, k))
            for i, label in rng.sample(made, min(3, len(made))):
                name = f"m{len(self.names)}_{f.name}"
                lines = list(f.lines)
                lines[label] += f"\n.Lexpect_{name}:"
                lines[i] = f"\tpushq\t%rax\n{lines[i]}"
                parts.append(f.copy(name, lines, False).replace(f".Lexpect_{name}_{name}", f".Lexpect_{name}"))
                table.append(f"\t.quad\t.Lexpect_{name} - {name}")
                self.names.append(name)
        rest = re.sub(r"^\t\.(file|ident|addrsig\w*)\b.*\n", "", assembly, flags=re.M)
        self.text = rest + "\n\t.text\n" + "".join(parts) + '\t.section\t.expect,"",@progbits\n' + "\n".join(table) + "\n"
