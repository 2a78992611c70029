# SPDX-License-Identifier: MIT
"""Shapes of files that make a careless reader slow: symbols, names, sections, tables, archives and
debug information, beside the shapes of code in shapes.py; for tests/cost/test_growth.py and
scripts/bench/run growth. Each function makes one file of `n` of what its name says."""
import os
import pathlib
import struct
import subprocess

import shapes

HEAD = ".text\n"
ETCH = pathlib.Path(__file__).parents[2] / "build" / "etch"


def assemble(source, path):
    subprocess.run(["as", "-o", path, "-"], input=source, text=True, check=True)
    return path


def link(source, path, *flags):
    """A shared library of it, as small as the linker makes one."""
    obj = pathlib.Path(f"{path}.o")
    subprocess.run(["ld", "-shared", "-z", "notext", "-z", "noseparate-code", "-Bsymbolic", *flags, "-o", path, assemble(source, obj)],
                   check=True, stderr=subprocess.DEVNULL)
    obj.unlink()
    return path


def code(shape, linked=False):
    def make(n, path):
        return (link if linked else assemble)(shape(n), path)
    return make


def etched(shape):
    """A library of an object that the object step has seen."""
    def make(n, path):
        obj = assemble(shape(n), pathlib.Path(f"{path}.o"))
        subprocess.run([ETCH, "rewrite", obj], check=True, stderr=subprocess.DEVNULL)
        subprocess.run(["ld", "-shared", "-z", "notext", "-z", "noseparate-code", "-Bsymbolic", "-o", path, obj], check=True, stderr=subprocess.DEVNULL)
        obj.unlink()
        return path
    return make


class Object:
    """An object's section headers, to be changed where they lie."""

    def __init__(self, path):
        self.path, self.data = path, bytearray(path.read_bytes())
        self.shoff, = struct.unpack_from("<Q", self.data, 40)
        self.shnum, self.names = struct.unpack_from("<HH", self.data, 60)

    def header(self, i):
        return struct.unpack_from("<IIQQQQIIQQ", self.data, self.shoff + 64 * i)

    def named(self, i):
        at = self.header(self.names)[4] + self.header(i)[0]
        return self.data[at:self.data.index(0, at)].decode()

    def find(self, type_):
        return next(i for i in range(self.shnum) if self.header(i)[1] == type_)

    def grow(self, i, more):
        """Puts `more` after the contents of section `i`, at the end of the file; returns where they begin in it."""
        offset, size = self.header(i)[4:6]
        contents = self.data[offset:offset + size] + more
        self.data += b"\0" * (-len(self.data) % 8)
        struct.pack_into("<QQ", self.data, self.shoff + 64 * i + 24, len(self.data), len(contents))
        self.data += contents
        return size

    def write(self):
        self.path.write_bytes(self.data)
        return self.path


def renamed(n, path, name_of, strings, source=shapes.functions):
    """The object of n functions of which symbol i has the name at `name_of(i)` of `strings`."""
    o = Object(assemble(source(n), path))
    symtab = o.find(2)
    base = o.grow(o.header(symtab)[6], strings)
    offset, size = o.header(symtab)[4:6]
    for k, at in enumerate(range(offset + 24, offset + size, 24)):
        if struct.unpack_from("<I", o.data, at)[0]:
            struct.pack_into("<I", o.data, at, base + name_of(k))
    return o.write()


def tails(n, path):
    """n functions with names that are the tails of one name of 64 n bytes."""
    return renamed(n, path, lambda k: 64 * k, b"x" * (64 * n + 128) + b"\0")


def one_name(n, path):
    """n functions of one name, 64 n bytes long."""
    return renamed(n, path, lambda k: 0, b"x" * (64 * n) + b"\0")


def alias_tails(n, path):
    """n symbols at one address, with names as above."""
    return renamed(n, path, lambda k: 64 * k, b"x" * (64 * n + 128) + b"\0", shapes.aliases)


def long_names(n, path):
    return renamed(n, path, lambda k: 1001 * k, b"".join(b"%01000d\0" % k for k in range(n + 1)))


def section_tails(n, path):
    """n sections of code with names that are the tails of one."""
    o = Object(assemble(shapes.sections(n), path))
    base = o.grow(o.names, b".text." + b"x" * (64 * n + 128) + b"\0")
    for i in range(1, o.shnum):
        if o.header(i)[1] == 1 and o.header(i)[2] & 4:
            struct.pack_into("<I", o.data, o.shoff + 64 * i, base + 64 * (i % n))
    return o.write()


def etched_objects(n):
    """n etched objects, each read once."""
    lines = [HEAD]
    for i in range(n):
        lines.append(f".globl f{i}\n.type f{i},@function\nf{i}: .cfi_startproc\nmovl o{i}(%rip),%eax\nret\n.cfi_endproc\n.size f{i},.-f{i}")
    lines += ['.section etched_imv,"aw",@progbits', ".balign 8"]
    lines += [f".globl o{i}\n.type o{i},@object\n.size o{i},8\no{i}: .quad {i}" for i in range(n)]
    return "\n".join([*lines, ""])


def etched_sites(n):
    """One etched object, read n times in one function."""
    return "\n".join([HEAD, ".globl f\n.type f,@function\nf: .cfi_startproc", f".rept {n}\nmovl o(%rip),%eax\n.endr", "ret\n.cfi_endproc\n.size f,.-f",
                      '.section etched_imv,"aw",@progbits\n.balign 8\n.globl o\n.type o,@object\n.size o,8\no: .quad 5', ""])


def etched_fields(n):
    """One etched object of n fields, each read once and stored to once."""
    body = [f"movl o+{8 * i}(%rip),%eax\nmovl %eax,o+{8 * i}(%rip)" for i in range(n)]
    return "\n".join([HEAD, ".globl f\n.type f,@function\nf: .cfi_startproc", *body, "ret\n.cfi_endproc\n.size f,.-f",
                      f'.section etched,"aw",@progbits\n.balign 4096\n.type o,@object\n.size o,{8 * n}\no: .fill {n},8,5\n.balign 4096', ""])


def etched_constructors(n):
    """One etched object beside n functions, each in a table of constructors and in one of other pointers."""
    lines = [HEAD, "\n".join(f".type c{i},@function\nc{i}: .cfi_startproc\nret\n.cfi_endproc\n.size c{i},.-c{i}" for i in range(n)),
             ".globl f\n.type f,@function\nf: .cfi_startproc\nmovl o(%rip),%eax\nmovl %eax,o(%rip)\nret\n.cfi_endproc\n.size f,.-f",
             '.section etched,"aw",@progbits\n.balign 4096\n.type o,@object\n.size o,8\no: .quad 5\n.balign 4096']
    for table in ('.section .init_array,"aw",@init_array', ".data"):
        lines += [f"{table}\n.balign 8", *(f".quad c{i}" for i in range(n))]
    return "\n".join([*lines, ""])


def etched_aliases(n):
    """n names for one etched object, which as many functions read."""
    lines = [HEAD]
    lines += [f".globl f{i}\n.type f{i},@function\nf{i}: movl o{i}(%rip),%eax\nret\n.size f{i},.-f{i}" for i in range(n)]
    lines += ['.section etched_imv,"aw",@progbits', ".balign 8"]
    lines += [f".globl o{i}\n.type o{i},@object\n.size o{i},8\no{i}:" for i in range(n)]
    return "\n".join([*lines, ".quad 5", ""])


def cies(n):
    """n FDEs, each with a CIE of its own."""
    lines = [HEAD]
    for i in range(n):
        lines.append(f".globl f{i}\n.type f{i},@function\nf{i}: .cfi_startproc\n.cfi_signal_frame\n.cfi_return_column 16\n"
                     f".cfi_personality 0x1b,p{i}\nnop\nret\n.cfi_endproc\n.size f{i},.-f{i}")
    return "\n".join([*lines, ""])


def nested_fdes(n):
    """n FDEs that begin one byte after another and all end at one place."""
    lines = [HEAD, ".globl f", ".type f,@function", "f:", *(f".L{i}: nop" for i in range(n)), "ret", ".Lend:", ".size f,.-f",
             '.section .eh_frame,"a",@progbits', ".Lc: .long .Ld-.Lc-4, 0", ".byte 1", '.asciz "zR"',
             ".byte 1, 0x78, 0x10, 1, 0x1b, 0x0c, 7, 8, 0x90, 1, 0, 0", ".Ld:"]
    lines += [f".long 16\n.La{i}: .long .La{i}-.Lc, .L{i}-., .Lend-.L{i}\n.byte 0, 0, 0, 0" for i in range(n)]
    return "\n".join([*lines, ".long 0", ""])


def unread_cies(n):
    """n CIEs that etch does not read, and n FDEs of the first."""
    lines = [HEAD, "f: ret", '.section .eh_frame,"a",@progbits', ".Lc:"]
    lines += [".long 16, 0\n.byte 1, 'z', 'X', 0, 1, 0x78, 16, 0, 0, 0, 0, 0" for _ in range(n)]
    lines += [f".long 16\n.La{i}: .long .La{i}-.Lc, f-., 1\n.byte 0, 0, 0, 0" for i in range(n)]
    return "\n".join([*lines, ".long 0", ""])


def long_cie(n):
    """n FDEs of one CIE with a program of n instructions."""
    lines = [HEAD, *(f".type f{i},@function\nf{i}: nop\nret\n.size f{i},.-f{i}" for i in range(n)),
             '.section .eh_frame,"a",@progbits', ".Lc: .long .Ld-.Lc-4, 0", ".byte 1", '.asciz "zR"',
             ".byte 1, 0x78, 0x10, 1, 0x1b, 0x0c, 7, 8, 0x90, 1", f".fill {n * 8},1,0", ".balign 4", ".Ld:"]
    lines += [f".long 16\n.La{i}: .long .La{i}-.Lc, f{i}-., 2\n.byte 0, 0, 0, 0" for i in range(n)]
    return "\n".join([*lines, ".long 0", ""])


def calls(n):
    """A chain of n calls, each with a frame."""
    lines = [HEAD]
    lines += [f".globl f{i}\n.type f{i},@function\nf{i}: .cfi_startproc\npush %rax\n.cfi_adjust_cfa_offset 8\ncall f{i + 1}\npop %rax\n"
              f".cfi_adjust_cfa_offset -8\nret\n.cfi_endproc\n.size f{i},.-f{i}" for i in range(n)]
    return "\n".join([*lines, f".globl f{n}\n.type f{n},@function\nf{n}: ret\n.size f{n},.-f{n}", ""])


def callers(n):
    """n functions that call one, which comes last."""
    lines = [HEAD, *(f".type f{i},@function\nf{i}: push %rax\ncall last\npop %rax\nret\n.size f{i},.-f{i}" for i in range(n))]
    return "\n".join([*lines, ".type last,@function\nlast: ret\n.size last,.-last", ""])


def shared_table(n):
    """n functions, each with a jump through one table of n entries."""
    lines = [HEAD]
    lines += [f".type f{i},@function\nf{i}: .cfi_startproc\ncmpl $7,%edi\nja .L{i}\nmovl %edi,%eax\njmp *.Ltable(,%rax,8)\n.L{i}: ret\n.cfi_endproc\n"
              f".size f{i},.-f{i}" for i in range(n)]
    return "\n".join(lines + ['.section .rodata,"a",@progbits', ".balign 8", ".Ltable:"] + [f".quad .L{i * 7 % n}" for i in range(n)] + [""])


def wide_table(n):
    """As above, and each jump takes all of the table."""
    return shared_table(n).replace("cmpl $7,", f"cmpl ${n - 1},")


def one_switch(n):
    """n jumps of one function through one table of n entries."""
    lines = [HEAD, ".globl f", ".type f,@function", "f:", ".cfi_startproc"]
    lines += [f".L{i}: cmpl ${n - 1}, %edi\nja .Ldone\nmovl %edi, %eax\njmp *.Ltable(,%rax,8)" for i in range(n)]
    lines += [".Ldone: ret", ".cfi_endproc", ".size f,.-f", '.section .rodata,"a",@progbits', ".balign 8", ".Ltable:"]
    return "\n".join(lines + [f".quad .L{i}" for i in range(n)] + [""])


def debug_lines(n):
    """n lines of one unit."""
    lines = ['.file 1 "a.c"', HEAD, '.section etched_imv,"aw",@progbits\n.globl o\n.type o,@object\n.size o,8\no: .quad 5', HEAD,
             ".globl f\n.type f,@function\nf: .cfi_startproc"]
    lines += [f".loc 1 {i + 1}\nmovl o(%rip),%eax\njmp *%rax" if i % 64 == 0 else f".loc 1 {i + 1}\nnop" for i in range(n)]
    return "\n".join([*lines, "ret\n.cfi_endproc\n.size f,.-f", *unit(0, ".text"), ABBREV])


def debug_files(n):
    """Each line in a file of its own."""
    lines = [HEAD, ".globl f\n.type f,@function\nf: .cfi_startproc"]
    lines += [f'.file {i + 1} "d{i}/a{i}.c"\n.loc {i + 1} 1\nnop' for i in range(n)]
    return "\n".join([*lines, "jmp *%rax\n.cfi_endproc\n.size f,.-f", *unit(0, ".text"), ABBREV])


ABBREV = '.section .debug_abbrev,"",@progbits\n.uleb128 1, 0x11\n.byte 0\n.uleb128 0x10, 0x17, 0x11, 0x01, 0x12, 0x07, 0x03, 0x08, 0, 0, 0\n'


def unit(i, begin, size=0x100000):
    return ['.section .debug_info,"",@progbits', f".long .Liend{i}-.Lib{i}", f".Lib{i}: .value 4", ".long .debug_abbrev", ".byte 8", ".uleb128 1",
            ".long .debug_line", f".quad {begin}", f".quad {size:#x}", f'.asciz "u{i}.c"', f".Liend{i}:"]


def debug_units(n):
    """n units that share one program of lines, with sites to look up."""
    lines = ['.file 1 "a.c"', '.section etched_imv,"aw",@progbits\n.globl o\n.type o,@object\n.size o,8\no: .quad 5', HEAD]
    lines += [f".globl f{i}\n.type f{i},@function\nf{i}: .loc 1 {i + 1}\nmovl o(%rip),%eax\njmp *%rax\n.size f{i},.-f{i}" for i in range(n)]
    for i in range(n):
        lines += unit(i, f"f{i}", 8)
    return "\n".join([*lines, ABBREV])


def findings(n):
    """n functions with an indirect jump and without rows: findings in each."""
    lines = [HEAD]
    lines += [f".globl f{i}\n.type f{i},@function\nf{i}: .cfi_startproc\n.cfi_adjust_cfa_offset 8\npush %rbp\njmp *%rax\n.cfi_endproc\n.size f{i},.-f{i}"
              for i in range(n)]
    return "\n".join([*lines, ""])


def overlapping(n):
    """n functions that begin one byte after another and all end at one place."""
    lines = [HEAD, *(f".globl f{i}\n.type f{i},@function\nf{i}: nop" for i in range(n)), "ret", ".Lend:"]
    return "\n".join([*lines, *(f".size f{i},.Lend-f{i}" for i in range(n)), ""])


def same_bodies(n):
    """n functions of the same code, of which half are not named."""
    lines = [HEAD]
    lines += [f"{'.globl' if i % 2 else '.local'} f{i}\n.type f{i},@function\nf{i}: .cfi_startproc\nmovl $1,%eax\naddl %edi,%eax\nret\n.cfi_endproc\n"
              f".size f{i},.-f{i}" for i in range(n)]
    return "\n".join([*lines, ""])


def groups(n):
    return "\n".join(f'.section .text.f{i},"axG",@progbits,g{i},comdat\n.weak f{i}\n.type f{i},@function\nf{i}: .cfi_startproc\nret\n.cfi_endproc\n'
                     f".size f{i},.-f{i}" for i in range(n)) + "\n"


def fixups(n):
    """n entries of an exception table."""
    lines = [HEAD, ".globl f\n.type f,@function\nf: .cfi_startproc", *(f".L{i}: movl (%rdi),%eax\n.M{i}: nop" for i in range(n)),
             "ret\n.cfi_endproc\n.size f,.-f", '.section __ex_table,"a",@progbits', ".balign 4"]
    return "\n".join([*lines, *(f".long .L{i * 7919 % n}-., .M{i}-., 0" for i in range(n)), ""])


def imports(n):
    """n functions of others, through as many entries of the PLT."""
    lines = [HEAD, ".globl f\n.type f,@function\nf: .cfi_startproc", *(f"call g{i}@PLT" for i in range(n)), "ret\n.cfi_endproc\n.size f,.-f"]
    return "\n".join([*lines, ""])


def pointers(n):
    """n functions that only dynamic relocations know."""
    lines = [HEAD, *(f".type f{i},@function\nf{i}: .cfi_startproc\nret\n.cfi_endproc\n.size f{i},.-f{i}" for i in range(n)), ".data"]
    return "\n".join([*lines, *(f".quad f{i * 7919 % n}" for i in range(n)), ""])


def member(name, size):
    return f"{name:<16}{0:<12}{0:<6}{0:<6}{'644':<8}{size:<10}`\n".encode()


def archive(n, path):
    """n members with an object each."""
    one = assemble(shapes.functions(1), pathlib.Path(f"{path}.o")).read_bytes()
    os.unlink(f"{path}.o")
    one += b"\0" * (len(one) & 1)
    path.write_bytes(b"!<arch>\n" + b"".join(member(f"m{i}.o/", len(one)) + one for i in range(n)))
    return path


def thin_archive(n, path):
    """n members that name one file of n functions."""
    one = assemble(shapes.functions(n), path.parent / "thin.o")
    path.write_bytes(b"!<thin>\n" + b"".join(member("thin.o/", one.stat().st_size) for i in range(n)))
    return path


MARK = """.pushsection __etch_mark,"a",@progbits
.balign 4
.long f + {site} - ., f + {site} - ., 0, name - ., text - ., file - ., {line}
.quad 0, 0
.popsection
"""


def marks(n):
    """n markers of one function."""
    lines = [HEAD, ".globl f\n.type f,@function\nf:", *n * [".byte 0x0f,0x1f,0x44,0,0"], "ret\n.size f,.-f"]
    lines += [MARK.format(site=5 * i, line=i) for i in range(n)]
    return "\n".join([*lines, ".section .rodata,\"a\"", 'name: .asciz "a"', 'text: .asciz "a, b"', 'file: .asciz "c.c"', ""])


def mark_texts(n):
    """... with one text of 64 n bytes."""
    return marks(n).replace('"a, b"', '"a, ' + 64 * n * "b" + '"')


KERNEL_NOTE = ".pushsection {section}\n.long {label} - .\n.popsection\n"


def kernel_keys(n):
    """n static keys in one function, each a jump with a relocation."""
    lines = [HEAD, ".globl f\n.type f,@function\nf:"]
    for i in range(n):
        lines.append(f"1: .byte 0xe9\n.long far - . - 4\n.pushsection __jump_table,\"aw\"\n.balign 8\n.long 1b - ., 2f - .\n.quad key + 2 - .\n"
                     ".popsection\n2: nop")
    return "\n".join([*lines, "ret\nint3\n.size f,.-f\n.data\nkey: .quad 0", ""])


def kernel_calls(n):
    """n static calls of as many trampolines, half of them tail calls; n hints that restore what one saves."""
    lines = [HEAD]
    for i in range(n):
        lines.append(f".globl f{i}\n.type f{i},@function\nf{i}: {'call' if i % 2 else 'jmp'} __SCT__t{i}\n1: int3\n.size f{i},.-f{i}\n"
                     f".globl __SCK__t{i}\n.set __SCK__t{i},key")
    lines.append(".globl g\n.type g,@function\ng: nop\n1:" + KERNEL_HINT.format(kind=5))
    lines += n * ["nop\n1:" + KERNEL_HINT.format(kind=6)]
    return "\n".join([*lines, "ret\nint3\n.size g,.-g\n.data\nkey: .quad 0", ""])


KERNEL_HINT = ".pushsection .discard.unwind_hints\n.long 1b - .\n.short 0\n.byte 0, {kind}, 0\n.balign 4\n.popsection\n"


def kernel_sections(n):
    """n sections with an indirect jump each, all of them called safe."""
    return "".join(f'.section .text.{i},"ax"\n.globl f{i}\n.type f{i},@function\nf{i}:\n1: jmp *%rax\nint3\n.size f{i},.-f{i}\n'
                   + KERNEL_NOTE.format(section=".discard.retpoline_safe", label="1b")
                   + KERNEL_NOTE.format(section=".discard.func_stack_frame_non_standard", label=f"f{i}").replace(".long", ".quad")
                   for i in range(n))


def sframe_blocks(n, path):
    """A library of which .sframe says that each byte is a block, with the same n rows; and n FDEs that share n rows."""
    rows = b"".join(struct.pack("<IBb", i, 2 | 1, 8) for i in range(n))
    fdes = struct.pack("<iIIIBBH", 0, 0, 0, n, 2 | 16, 1, 0)
    fdes += b"".join(struct.pack("<iIIIBBH", 8 * n + i, 1, 0, n, 2, 0, 0) for i in range(n))
    head = struct.pack("<HBBBbbBIIIII", 0xdee2, 2, 1, 3, 0, -8, 0, n + 1, n, len(rows), 0, len(fdes))
    # Under another name while it is linked: ld of binutils 2.47 writes a .sframe of its own.
    source = (f".text\nf: .rept {16 * n}\nnop\n.endr\n.section .sfraem,\"a\"\n.byte " + ",".join(map(str, head + fdes + rows)) + "\n")
    link(source, path)
    path.write_bytes(path.read_bytes().replace(b"\0.sfraem\0", b"\0.sframe\0"))
    o = Object(path)
    text, sframe = (next(i for i in range(o.shnum) if o.named(i) == name) for name in (".text", ".sframe"))
    addr, at = o.header(text)[3], o.header(sframe)[4] + 28
    for i in range(n + 1):
        start = struct.unpack_from("<i", o.data, at + 20 * i)[0] + addr - o.header(sframe)[3]
        struct.pack_into("<iI", o.data, at + 20 * i, start, 1 if i else 8 * n)
    return o.write()


def own_tables(n, path):
    """A stripped interpreter of 32 handlers, and n labels that each dispatch through a table of their own; words that are no code after each."""
    labels = [(f".Lh{i}", "mov -40(%rbp),%rdx\nadd $1,%rdi\nmovzbl (%rdi),%eax\nmov table(%rip),%rsi") for i in range(32)]
    labels += [(f".Lp{i}", f"movzbl 1(%rdi),%eax\nmov wide+{8 * i}(%rip),%rsi") for i in range(n)]
    lines = [".text", ".globl run", ".type run,@function", "run: push %rbp\nmov %rsp,%rbp\npush %r13\nsub $40,%rsp\nmovzbl (%rdi),%eax",
             "mov table(%rip),%rsi\njmp *(%rsi,%rax,8)", ".size run,.-run", ".long 0x4ca"]
    lines += [f"{name}: {body}\njmp *(%rsi,%rax,8)\n.long 0x4ca" for name, body in labels]
    lines += [".globl f", ".type f,@function", "f: push %rbp\nmov %rsp,%rbp"]
    lines += [f"lea {name}(%rip),%r8\nmov %r8,(%rdi)\nadd $8,%rdi" for name, _ in labels]
    return link("\n".join(lines + ["pop %rbp\nret", ".size f,.-f", f".local table\n.comm table,8\n.local wide\n.comm wide,{8 * n}", ""]), path, "-s")


OBJECTS = {f.__name__: code(f) for f in (
    shapes.functions, shapes.long_function, shapes.aliases, shapes.sections, shapes.switches, shapes.relocations, shapes.fdes,
    shapes.landing_pads, shapes.entries, shapes.tail_calls, shapes.chain, etched_objects, etched_sites, etched_aliases, cies, nested_fdes,
    unread_cies, long_cie, calls, callers, shared_table, wide_table, one_switch, debug_lines, debug_files, debug_units, findings, overlapping,
    same_bodies, groups, fixups, marks, mark_texts, kernel_keys, kernel_calls, kernel_sections)}
OBJECTS |= {f.__name__: f for f in (tails, one_name, alias_tails, long_names, section_tails)}
LINKED = {f"{f.__name__}.so": code(f, True) for f in (
    shapes.functions, shapes.aliases, shapes.sections, shapes.chain, etched_objects, etched_sites, debug_lines, fixups, imports, pointers,
    shapes.landing_pads, calls)}
LINKED |= {f"{f.__name__}.etched.so": etched(f) for f in (etched_objects, etched_sites, etched_fields, etched_aliases, etched_constructors)}
LINKED |= {"sframe_blocks.so": sframe_blocks, "own_tables.so": own_tables}
ARCHIVES = {"archive.a": archive, "thin.a": thin_archive}
