# SPDX-License-Identifier: MIT
"""Shapes of code that make a careless tool slow: assembler sources of any size, for
tests/cost/test_scale.py and scripts/bench/run shapes. Each returns the text of one object; `n` is
what there is many of."""


LSDA = [".cfi_personality 0x9b,DW.ref.__gxx_personality_v0", ".cfi_lsda 0x1b,.Llsda"]
PERSONALITY = [".hidden DW.ref.__gxx_personality_v0", ".weak DW.ref.__gxx_personality_v0",
               '.section .data.rel.local.DW.ref.__gxx_personality_v0,"awG",@progbits,DW.ref.__gxx_personality_v0,comdat', ".balign 8",
               "DW.ref.__gxx_personality_v0: .quad __gxx_personality_v0", ""]


def blocks(n):
    """One function of n blocks, each jumping over the next."""
    lines = [".text", ".globl f", ".type f,@function", "f:", ".cfi_startproc"]
    for i in range(n):
        lines.append(f"cmpl ${i & 127}, %edi\nje .L{(i * 7919 + 13) % n}\n.L{i}: addl $1, %eax")
    return "\n".join([*lines, "ret", ".cfi_endproc", ".size f,.-f", ""])


def long_function(n):
    """One function of n times 50 bytes without a jump; pushes and pops in it."""
    lines = [".text", ".globl f", ".type f,@function", "f:", ".cfi_startproc", f".rept {n}",
             "push %rbx", ".cfi_adjust_cfa_offset 8", "movq 8(%rsp), %rax", "movabsq $0x1122334455667788, %rcx",
             "addq %rcx, %rax", "imull $12345, %eax, %edx", "leaq 256(%rax,%rdx,4), %rsi", "movl $1234567, 64(%rdi)", "pop %rbx",
             ".cfi_adjust_cfa_offset -8", ".endr", "ret", ".cfi_endproc", ".size f,.-f"]
    return "\n".join([*lines, ""])


def switch(n):
    """A jump table of n entries, each its own case."""
    lines = [".text", ".globl f", ".type f,@function", "f:", ".cfi_startproc", f"cmpl ${n - 1}, %edi", "ja .Ldone", "movl %edi, %edi",
             "leaq .Ltable(%rip), %rdx", "movslq (%rdx,%rdi,4), %rax", "addq %rdx, %rax", "jmp *%rax"]
    lines += [f".L{i}: movl ${i}, %eax\njmp .Ldone" for i in range(n)]
    lines += [".Ldone: ret", ".cfi_endproc", ".size f,.-f", ".section .rodata", ".balign 4", ".Ltable:"]
    return "\n".join(lines + [f".long .L{i}-.Ltable" for i in range(n)] + [""])


def switches(n):
    """n jumps in one function, each through a table that begins within the others'."""
    lines = [".text", ".globl f", ".type f,@function", "f:", ".cfi_startproc"]
    lines += [f".L{i}: cmpl ${n - i - 1}, %edi\nja .Ldone\nmovl %edi, %eax\njmp *.Ltable+{8 * i}(,%rax,8)" for i in range(n)]
    lines += [".Ldone: ret", ".cfi_endproc", ".size f,.-f", ".section .rodata", ".balign 8", ".Ltable:"]
    return "\n".join(lines + [f".quad .L{i * 7 % n}" for i in range(n)] + [""])


def functions(n):
    lines = [".text"]
    for i in range(n):
        lines.append(f".globl f{i}\n.type f{i},@function\nf{i}: .cfi_startproc\npush %rbx\n.cfi_adjust_cfa_offset 8\ncall f{(i * 31 + 7) % n}\n"
                     f"pop %rbx\n.cfi_adjust_cfa_offset -8\nret\n.cfi_endproc\n.size f{i},.-f{i}")
    return "\n".join([*lines, ""])


def sections(n):
    """As -ffunction-sections writes them."""
    return "\n".join(f".section .text.f{i},\"ax\",@progbits\n.globl f{i}\n.type f{i},@function\nf{i}: .cfi_startproc\n"
                     f"jmp f{(i + 1) % n}\n.cfi_endproc\n.size f{i},.-f{i}" for i in range(n)) + "\n"


def chain(n):
    """Functions that jump each into the middle of the next with a frame."""
    lines = [".text"]
    for i in range(n):
        lines.append(f".type c{i},@function\nc{i}: push %rbx\nsubq $16, %rsp\njmp m{(i + 1) % n}\nm{i}: addq $16, %rsp\npop %rbx\nret\n.size c{i},.-c{i}")
    return "\n".join([*lines, ""])


def back_jumps(n):
    """A chain of jumps that is walked from the end of the function to its beginning."""
    lines = [".text", ".globl f", ".type f,@function", "f:", ".cfi_startproc", f"jmp .L{n - 1}", ".L0: ret"]
    lines += [f".L{i}: jmp .L{i - 1}" for i in range(1, n)]
    return "\n".join([*lines, ".cfi_endproc", ".size f,.-f", ""])


def noreturn_calls(n):
    """n functions that end with a call of one that does not return."""
    lines = [".text", ".type stop,@function", "stop: ud2", ".size stop,.-stop"]
    lines += [f".type f{i},@function\nf{i}: .cfi_startproc\ntestl %edi, %edi\nje 1f\nret\n1: push %rax\n.cfi_adjust_cfa_offset 8\ncall stop\n"
              f".cfi_endproc\n.size f{i},.-f{i}" for i in range(n)]
    return "\n".join([*lines, ""])


def noreturn_links(n):
    """Each function calls the next and does not return because that one does not: known one by one."""
    lines = [".text"]
    lines += [f".type f{i},@function\nf{i}: .cfi_startproc\npush %rax\n.cfi_adjust_cfa_offset 8\ncall f{i + 1}\n.cfi_endproc\n.size f{i},.-f{i}"
              for i in range(n)]
    return "\n".join([*lines, f".type f{n},@function", f"f{n}: ud2", f".size f{n},.-f{n}", ""])


def fdes(n):
    """n FDEs that begin at one address, and none beside."""
    return ".text\n.globl f\n.type f,@function\nf:\n" + "".join(".cfi_startproc\nnop\n.cfi_endproc\n" for _ in range(n)) + "ret\n.size f,.-f\n"


def aliases(n):
    """n symbols at one address."""
    return ".text\n" + "".join(f".globl a{i}\n.type a{i},@function\na{i}:\n" for i in range(n)) + "ret\n" + "".join(
        f".size a{i},1\n" for i in range(n))


def relocations(n):
    """n references to one symbol."""
    return ".text\n.globl f\n.type f,@function\nf: .cfi_startproc\n" + f".rept {n}\nmovl other(%rip), %eax\n.endr\n" + "ret\n.cfi_endproc\n.size f,.-f\n"


def landing_pads(n):
    """One function of n calls, each with a landing pad of its own."""
    lines = [".text", ".globl f", ".type f,@function", "f:", ".cfi_startproc", *LSDA, "push %rbx", ".cfi_adjust_cfa_offset 8"]
    lines += [f".Lb{i}: call g\n.Le{i}:" for i in range(n)]
    lines += ["pop %rbx", ".cfi_adjust_cfa_offset -8", "ret", ".cfi_adjust_cfa_offset 8"]
    lines += [f".Lp{i}: movq %rax, %rdi\ncall _Unwind_Resume" for i in range(n)]
    lines += [".cfi_endproc", ".size f,.-f", '.section .gcc_except_table,"a",@progbits', ".Llsda: .byte 0xff, 0xff, 0x01",
              ".uleb128 .Lend-.Lbegin", ".Lbegin:"]
    lines += [f".uleb128 .Lb{i}-f\n.uleb128 .Le{i}-.Lb{i}\n.uleb128 .Lp{i}-f\n.uleb128 0" for i in range(n)]
    return "\n".join(lines + [".Lend:"] + PERSONALITY)


def frames(n):
    """Nested frames: n pushes, then as many pops."""
    return (".text\n.globl f\n.type f,@function\nf: .cfi_startproc\n" + f".rept {n}\npush %rbx\n.cfi_adjust_cfa_offset 8\n.endr\n"
            f".rept {n}\npop %rbx\n.cfi_adjust_cfa_offset -8\n.endr\nret\n.cfi_endproc\n.size f,.-f\n")


def shared_call_sites(n):
    """n functions that all lead to one table of n call sites."""
    lines = [".text"]
    for i in range(n):
        lines += [f".type f{i},@function", f"f{i}: .cfi_startproc", *LSDA, "push %rbx", ".cfi_adjust_cfa_offset 8", "call g", "pop %rbx",
                  ".cfi_adjust_cfa_offset -8", "ret", ".cfi_endproc", f".size f{i},.-f{i}"]
    lines += ['.section .gcc_except_table,"a",@progbits', ".Llsda: .byte 0xff, 0xff, 0x01", ".uleb128 .Lend-.Lbegin", ".Lbegin:",
              f".rept {n}", ".byte 1, 5, 6, 0", ".endr", ".Lend:"]
    return "\n".join(lines + PERSONALITY)


def entries(n):
    """A function of n rows with n more symbols in it."""
    lines = [".text", ".globl f", ".type f,@function", "f:", ".cfi_startproc"]
    lines += [f"push %rbx\n.cfi_adjust_cfa_offset 8\n.globl e{i}\n.type e{i},@function\ne{i}: pop %rbx\n.cfi_adjust_cfa_offset -8" for i in range(n)]
    return "\n".join([*lines, "ret", ".cfi_endproc", ".size f,.-f", ""])


def crossed(n):
    """n functions that each jump with a frame of their own into the middle of eight others."""
    lines = [".text"]
    for i in range(n):
        frame = 16 + 16 * (i % 7)
        lines.append(f".type c{i},@function\nc{i}: push %rbx\nsubq ${frame},%rsp")
        lines += [f"testl %edi,%edi\nje m{(i * (k + 3) + k * k) % n}" for k in range(8)]
        lines.append(f"addq ${frame},%rsp\nm{i}: addl $1,%eax\npop %rbx\nret\n.size c{i},.-c{i}")
    return "\n".join([*lines, ""])


def tail_calls(n):
    """A chain of n tail calls to one that does not return."""
    lines = [".text"]
    lines += [f".type f{i},@function\nf{i}: .cfi_startproc\njmp f{i + 1}\n.cfi_endproc\n.size f{i},.-f{i}" for i in range(n)]
    return "\n".join([*lines, f".type f{n},@function\nf{n}: ud2\n.size f{n},.-f{n}", ""])


def handed_on(n):
    """The address of an etched object is handed n times to a function of n jumps back: is it used there?"""
    etched = ['.section etched_imv,"aw",@progbits', ".balign 8", ".globl o", ".type o,@object", ".size o,8", "o: .quad 5", ""]
    return "\n".join([".text", ".globl f", ".type f,@function", "f: .cfi_startproc", f".rept {n}", "leaq o(%rip),%rdi\ncall g", ".endr", "ret",
                      ".cfi_endproc", ".size f,.-f", ".type g,@function", "g: .cfi_startproc", f"jmp .L{n - 1}", ".L0: movl %edi,%eax\nret",
                      *[f".L{i}: jmp .L{i - 1}" for i in range(1, n)], ".cfi_endproc", ".size g,.-g", *etched])


# name: (source, how many in full)
SHAPES = {
    "one function of 5 MB": (long_function, 104858),
    "100,000 blocks": (blocks, 100000),
    "switch of 50,000 entries": (switch, 50000),
    "15,000 switches of overlapping tables": (switches, 15000),
    "100,000 functions": (functions, 100000),
    "10,000 sections of code": (sections, 10000),
    "100,000 jumps into the next function": (chain, 100000),
    "a chain of 100,000 jumps back": (back_jumps, 100000),
    "100,000 calls of one noreturn function": (noreturn_calls, 100000),
    "20,000 functions, noreturn one by one": (noreturn_links, 20000),
    "100,000 FDEs in one function": (fdes, 100000),
    "100,000 symbols at one address": (aliases, 100000),
    "100,000 relocations against one symbol": (relocations, 100000),
    "20,000 landing pads": (landing_pads, 20000),
    "100,000 pushes": (frames, 100000),
    "20,000 functions of one table of call sites": (shared_call_sites, 20000),
    "50,000 symbols and rows in one function": (entries, 50000),
    "160,000 jumps into others' middles": (crossed, 20000),
    "a chain of 100,000 tail calls": (tail_calls, 100000),
    "20,000 times an address handed on": (handed_on, 20000),
}
