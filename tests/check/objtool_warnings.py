# SPDX-License-Identifier: MIT
"""The warnings of Linux 6.1's objtool, each beside what `etch check` says of the same user-space object: the table in
docs/check.md, which `python tests/check/objtool_warnings.py` prints."""

from typing import NamedTuple

FUNCTION = "\t.text\n\t.globl\tf\n\t.type\tf, @function\nf:\n"
SIZE = "\t.size\tf, .-f\n"
NEXT = "\t.globl\tg\n\t.type\tg, @function\ng:\tret\n\t.size\tg, .-g\n"
IBT = '\t.section .note.gnu.property,"a",@note\n\t.balign 8\n\t.long 4,16,5\n\t.asciz "GNU"\n\t.long 0xc0000002,4,1,0\n'
FRAME, LEAVE = "\tpushq\t%rbp\n\tmovq\t%rsp, %rbp\n", "\tpopq\t%rbp\n\tret\n"


class Warning(NamedTuple):
    """texts: of objtool, with its formats; a `*` stands for anything. etch: IDs of `etch check`, or nothing. remark: what
    the user of the table has to know. options: of objtool, with which it warns of the source; source: the text of f."""
    texts: tuple
    etch: str = ""
    remark: str = ""
    options: str = "--stackval"
    source: str = ""
    whole: bool = False  # source is all of the file, not what stands between f and its size
    check: tuple = ()    # options of etch check


KERNEL = "about sections that only the kernel has; `etch objtool` reads them"
LIST = [
    # ---- flow ----
    Warning(("%s() falls through to next function %s()",), "F001", "", source=f"\tmovl\t%edi, %eax\n{SIZE}{NEXT}"),
    Warning(("%s() falls through to next function %s()",), "F001", "a jump past the end",
            source=f"\tje\t1f\n\tret\n1:\n{SIZE}\t.p2align 4\n{NEXT}"),
    Warning(("%s() falls through to next function %s()",), "F007", "a jump into the middle of another function",
            source=f"\tjmp\tg+2\n{SIZE}\t.p2align 4\n\t.globl\tg\n\t.type\tg, @function\n"
                   "g:\tnop\n\tnop\n\tnop\n\tret\n\t.size\tg, .-g\n"),
    Warning(("%s: unexpected end of section",), "F006", "", source="\tmovl\t%esi, %eax\n"),
    Warning(("%s: can't find jump dest instruction at %s+0x%lx",), "F006", "the section's end",
            source="\tje\t1f\n\tret\n1:\n"),
    Warning(("%s: can't find jump dest instruction at %s+0x%lx",), "F003", "outside of the section", source="\tjmp\t.+0x40\n"),
    Warning(("%s: can't find jump dest instruction at %s+0x%lx",), "D006", "the middle of an instruction",
            source="\tje\t1f+1\n1:\tmovl\t$0x90909090, %eax\n\tret\n"),
    Warning(("%s: unreachable instruction",), "F002", "", source="\tret\n\tmovl\t$1, %eax\n\tret\n"),
    Warning(("%s: unreachable instruction",), "", "etch treats bytes that cannot be decoded as data", source="\tret\n\t.byte\t0x06\n"),
    Warning(("%s: unannotated intra-function call",), "F005", "", source="\tcall\t1f\n\tret\n1:\tmovl\t$1, %eax\n\tret\n"),
    Warning(("%s: unannotated intra-function call",), "", "a call to a place outside of all symbols shows that a function begins there",
            source=f"\tcall\t1f\n\tret\n{SIZE}\t.nops\t3\n1:\tret\n"),
    Warning(("%s: can't find call dest symbol at %s+0x%lx",), "", "the same, in another section",
            source=f'\tcall\tother\n\tret\n{SIZE}\t.section .text.o,"ax"\n\tret\nother:\tret\n'),
    Warning(("%s: unsupported call to non-function",), "",
            "if code calls a place, etch treats this place as a function; if its name is global, N001 is reported",
            source=f"{FRAME}\tcall\th\n{LEAVE}{SIZE}h:\tret\n\t.size\th, .-h\n"),
    Warning(("%s: can't find switch jump table",), "", "etch follows this jump table, whose entries are distances from its start",
            source="\tcmpl\t$1, %edi\n\tja\t1f\n\tleaq\tt(%rip), %rax\n\tmovslq\t(%rax,%rdi,4), %rcx\n\taddq\t%rax, %rcx\n"
                   f"\tjmp\t*%rcx\n1:\tret\n2:\tmovl\t$1, %eax\n\tret\n{SIZE}\t.section .rodata\nt:\t.long 1b-t,2b-t\n"),
    Warning(("%s(): can't find starting instruction",), "",
            "objtool decodes a section from its beginning; etch decodes each function from the beginning of the function",
            source="\t.text\n\t.byte\t0xb8\n\t.globl\tf\n\t.type\tf, @function\nf:\t.byte\t1, 0xc0, 0, 0\n\tret\n" + SIZE,
            whole=True),
    Warning(("%s(): can't find starting instruction",), "D006", "inside another function's instruction",
            source="\t.text\n\t.globl\tg\n\t.type\tg, @function\n\t.globl\tf\n\t.type\tf, @function\ng:\t.byte\t0xb8\n"
                   f"f:\t.byte\t1, 0xc0, 0x90, 0x90\n\tret\n{SIZE}\t.size\tg, .-g\n", whole=True),
    Warning(("%s() is missing an ELF size annotation",), "N001", "",
            source="\t.text\n\t.globl\tf\n\t.type\tf, @function\nf:\tret\n", whole=True),
    Warning(("%s(): can't find parent function", "%s(): parent function name exceeds maximum length of %d characters"), "",
            "etch pairs a function with its cold part by the jumps between them", options="--orc",
            source="\t.text\n\t.type\tf.cold, @function\nf.cold:\tret\n\t.size\tf.cold, .-f.cold\n", whole=True),
    # ---- decoding ----
    Warning(("can't decode instruction at %s:0x%lx",), "D005", "",
            options="--orc", source="\tmovl\t$1, %eax\n\t.byte\t0xe8, 0\n"),
    Warning(("invalid LEA encoding at %s:0x%lx",), "D005", "", options="--orc", source="\t.byte\t0x8d, 0xc0\n\tret\n"),
    Warning(("notrack prefix found at %s:0x%lx",), "", "compilers write this prefix at the jumps of a `switch`", options="--ibt --link",
            source="\tnotrack jmp\t*%rdi\n"),
    Warning(("ENQCMD instruction at %s:%lx",), "", "such code is right in user space", options="--orc",
            source="\tenqcmd\t(%rdi), %rax\n\tret\n"),
    # ---- stack ----
    Warning(("%s: return with modified stack frame",), "S002", "a missing pop", source="\tpushq\t%rbx\n\txorl\t%eax, %eax\n\tret\n"),
    Warning(("%s: return with modified stack frame",), "S007", "one pop too many", source="\taddq\t$8, %rsp\n\tret\n"),
    Warning(("%s: return with modified stack frame",), "", "a retpoline: the code has itself pushed the address to which it returns",
            source="\tpushq\t%rdi\n\tret\n"),
    Warning(("%s: undefined stack state",), "", "objtool does not know `enter`",
            source="\tenter\t$8, $0\n\tleave\n\tret\n"),
    Warning(("%s: sibling call from callable instruction with modified stack frame",), "F004", "",
            source="\tpushq\t%rbx\n\tjmp\tg\n"),
    Warning(("%s: sibling call from callable instruction with modified stack frame",), "",
            "a computed goto is no tail call", source="\tpushq\t%rbx\n\tjmp\t*t(,%rdi,8)\n1:\tpopq\t%rbx\n\tret\n"
            f"{SIZE}\t.data\n\t.type\tt, @object\nt:\t.quad\t1b\n\t.size\tt, 8\n"),
    Warning(("%s: stack state mismatch: cfa1=%d%+d cfa2=%d%+d",), "S001", "",
            source="\ttestl\t%edi, %edi\n\tje\t1f\n\tpushq\t%rax\n1:\tud2\n"),
    Warning(("%s: stack state mismatch: cfa1=%d%+d cfa2=%d%+d",), "", "a loop of `-fstack-clash-protection`, in which the CFA is relative to r11",
            source="\tleaq\t-8192(%rsp), %r11\n1:\tsubq\t$4096, %rsp\n\torq\t$0, (%rsp)\n\tcmpq\t%r11, %rsp\n\tjne\t1b\n"
                   "\taddq\t$8192, %rsp\n\tret\n"),
    Warning(("%s: stack state mismatch: reg1[%d]=%d%+d reg2[%d]=%d%+d",), "",
            "with shrink-wrapping a compiler saves a register on one path only; etch checks its value at the return (S005)",
            source="\tpushq\t%rax\n\ttestl\t%edi, %edi\n\tje\t1f\n\tpopq\t%rax\n\tpushq\t%rbx\n1:\tpopq\t%rcx\n\tret\n"),
    Warning(("%s: stack state mismatch: drap1=%d(%d,%d) drap2=%d(%d,%d)",), "S003",
            "the frame is realigned, and each path keeps the old stack pointer in another register",
            source="\ttestl\t%edi, %edi\n\tje\t1f\n\tleaq\t8(%rsp), %r10\n\tandq\t$-32, %rsp\n\tpushq\t-8(%r10)\n\tpushq\t%rbp\n"
                   "\tmovq\t%rsp, %rbp\n\tpushq\t%r10\n\tjmp\t2f\n1:\tleaq\t8(%rsp), %r13\n\tandq\t$-32, %rsp\n\tpushq\t-8(%r13)\n"
                   "\tpushq\t%rbp\n\tmovq\t%rsp, %rbp\n\tpushq\t%r13\n2:\tud2\n"),
    Warning(("%s: undefined stack state",), "S004", "", source="\tmovq\t%rdi, %rsp\n\tpopq\t%rbx\n\tjmp\t*%rsi\n"),
    Warning(("%s: unsupported stack register modification",), "S004", "", source="\taddq\t%rdi, %rsp\n\tsubq\t%rdi, %rsp\n\tret\n"),
    Warning(("%s: unsupported stack pointer realignment",), "S004", "", source="\tandq\t$-32, %rsp\n\tcall\tg\n\tud2\n"),
    Warning(("%s: unknown CFA base reg %d", "%s: unknown BP base reg %d"), "",
            "in etch's rows the CFA can be relative to any register", options="--orc",
            source="\tleaq\t8(%rsp), %rcx\n\tandq\t$-32, %rsp\n\tpushq\t-8(%rcx)\n\tpushq\t%rbp\n\tmovq\t%rsp, %rbp\n\tpushq\t%rcx\n"
                   "\tcall\tg\n\tpopq\t%rcx\n\tpopq\t%rbp\n\tleaq\t-8(%rcx), %rsp\n\tret\n"),
    Warning(("%s: call without frame pointer save/setup",), "", "user space unwinds without frame pointers",
            source="\tsubq\t$8, %rsp\n\tcall\tg\n\taddq\t$8, %rsp\n\tret\n"),
    Warning(("%s: BP used as a scratch register",), "", "the same; if the function does not restore rbp, S005 is reported",
            source="\tpushq\t%rbp\n\tmovq\t%rdi, %rbp\n\tpopq\t%rbp\n\tret\n"),
    Warning(("%s: unsupported instruction in callable function",), "", "`syscall` is right in user space", source="\tsyscall\n\tret\n"),
    Warning(("%s: unknown stack-related instruction", "%s: unknown stack-related memory operation"), "",
            "no instruction of x86-64 leads to this warning"),
    # ---- direction flag ----
    Warning(("%s: return with DF set",), "S006", "", source="\tstd\n\tret\n"),
    Warning(("%s: call to %s() with DF set",), "S006", "", source=f"{FRAME}\tstd\n\tcall\tg\n\tcld\n{LEAVE}"),
    Warning(("%s: recursive STD",), "", "such code does no harm", source="\tstd\n\tstd\n\tcld\n\tret\n"),
    Warning(("%s: redundant CLD",), "", "such code does no harm", source="\tcld\n\tret\n"),
    # ---- hardening ----
    Warning(("%s: data relocation to !ENDBR: %s", "%s: relocation to !ENDBR: %s"), "H004", "", options="--ibt --link --orc",
            source=f"\tendbr64\n\tret\n{SIZE}\t.type\tg, @function\ng:\tret\n\t.size\tg, .-g\n\t.data\n\t.globl\tp\np:\t.quad\tg\n{IBT}"),
    Warning(("%s: missing int3 after ret",), "H005", "", options="--sls", source="\tret\n", check=("--sls",)),
    Warning(("%s: missing int3 after indirect jump",), "H005", "", options="--sls", source="\tjmp\t*%rdi\n", check=("--sls",)),
    Warning(("%s: indirect %s found in RETPOLINE build",), "", "only for kernels that are built in this way; `etch objtool --retpoline`",
            options="--retpoline", source="\tjmp\t*%rdi\n"),
    Warning(("%s: 'naked' return found in RETHUNK build",), "", "the same; `etch objtool --rethunk`", options="--rethunk"),
    # ---- only in kernels ----
    Warning(("*UACCESS*", "%s: PUSHF stack exhausted"), "", "only in kernels do accesses to user memory need STAC and CLAC; `etch objtool --uaccess`"),
    Warning(("%s: call to %s() leaves .noinstr.text section", "%s: return with instrumentation enabled", "no func for pv_ops[]",
             "pv_ops[%d]: %s", "paravirt confusion"), "", "about code of kernels that must not be instrumented"),
    Warning(("%s: early indirect call", "%s: unresolved jump target after linking?!?", "Unresolved function after linking!?: %s",
             "%s: RET before UNTRAIN", "%s: teh end!", "%s: Failed UNRET validation"), "", "about entry code of kernels; `etch objtool --unret`"),
    Warning(("%s: stack layout conflict in alternatives", "%s: empty alternative entry",
             "%s: unsupported relocation in alternatives section", "%s: can't find alternative jump destination",
             "%s: can't find last new alternative instruction", "%s: special: can't find orig instruction",
             "%s: special: can't find new instruction", "%s: unsupported instruction at jump label", "%s size not a multiple of %d",
             "%s: can't find orig reloc", "%s: can't find new reloc", "%s: can't find key reloc",
             "bad .discard.*", "unexpected relocation symbol type in %s*", "can't find unreachable insn at %s+0x%lx",
             "can't find reachable insn at %s+0x%lx", "*retpoline_safe*", "%s: intra_function_call not a direct call",
             "%s: can't find call dest at %s+0x%lx", "static_call: *", "*unwind_hint*", "%s: UNWIND_HINT_IRET_REGS without ENDBR",
             "%s: stack state mismatch: type1=%d type2=%d", "%s: no corresponding CFI save for CFI restore",
             "%s: objtool isn't smart enough to handle this CFI save/restore combo", "%s: Tail call to __fentry__ !?!?"), "", KERNEL),
    # ---- not about the code ----
    Warning(("  %s: (alt)", "  %s: (branch)", "  %s: (branch%s)", "  %s: (call)", "  %s: <=== (sym)", "  %s: <=== (hint)"), "",
            "lines that objtool prints with `--backtrace`; a finding of etch shows both paths"),
    Warning(("file already has *", "bad .orc_unwind section size"), "T004",
            "T004 reports a malformed table; that a table already exists is no mistake, because `etch rewrite` replaces a table that it wrote",
            options=""),
    Warning(("elf_*", "gelf_*", "malloc*", "calloc*", "mmap fail*", "index out of range", "zero size data", "negative index",
             "no .symtab*", "can't find .shstrtab or .strtab section", "write to unexpected data for section: %s",
             "unexpected data attributes for %s", "section entry mismatch", "couldn't find section for symbol %s",
             "can't find base section for reloc section %s", "can't find reloc entry symbol %d for %s",
             "unexpected ELF machine type %d", "won't handle more than one file at a time", "can't create backup file",
             "%s: BUG: why am I validating an ignored function?", "CFI missing", "invalid NOP size: %d",
             "invalid RET size: %d"), "", "failures of objtool itself; in such a case `etch check` reports an error, and the exit status is 2"),
]


def assembly(w):
    text = w.source if w.whole else FUNCTION + w.source + ("" if SIZE in w.source else SIZE)
    return text + '\t.section .note.GNU-stack,"",@progbits\n'


def escaped(text):
    return f"`{text.replace('|', chr(92) + '|')}`"


def table():
    """The rows of the table in docs/check.md."""
    rows = []
    for w in LIST:
        ids = ", ".join(f"[{i}](findings.md#etch-{i.lower()})" for i in w.etch.split()) or "-"
        rows.append(f"|{'<br>'.join(escaped(t.strip()) for t in w.texts)} |{ids} |{w.remark} |")
    return rows


if __name__ == "__main__":
    print("\n".join(table()))
