# SPDX-License-Identifier: MIT
"""What etch replaces, clears or drops in a file it finds by a section's name. A name is no proof: sections of each kind
bear each of these names, in objects and in linked files. etch leaves them as they are, or refuses the file."""

import shutil
import struct
import subprocess

import pytest
from elftools.elf.elffile import ELFFile

from conftest import run

NAMES = ["__imv", "__pv_sites", "__etch_obj", ".orc_unwind_ip", ".orc_unwind", ".orc_lookup", ".sframe", ".etch.undo", ".etch.segment",
         ".etch.unwind", ".etch.source", ".etch.registers", ".etch.replaced", ".rodata.etch", ".eh_frame", ".eh_frame_hdr",
         ".eh_frame.linked", ".sframe.linked", "__ex_table", "__etch_mod", "__etch_part", "__pv_native", "__pv_inline", ".etch.declare"]

SOURCE = r'''
__attribute__((section("user_data"))) int numbers[16] = {1, 2, 3};
__attribute__((section("user_rodata"))) const int constants[16] = {4, 5, 6};
__attribute__((section(".note.user"), used)) static const int note[] = {4, 4, 1, 0x41414141, 7};
inline __attribute__((noinline, used)) int comdat(int x) { return x + numbers[x] + constants[x]; }
int (*volatile pointer)(int) = comdat;
extern "C" int start(void) { return pointer(1); }
asm(".globl _start\n_start: call start\nmov %eax, %edi\nmov $60, %eax\nsyscall");
'''


def sections(data):
    shoff, = struct.unpack_from("<Q", data, 0x28)
    shnum, shstrndx = struct.unpack_from("<HH", data, 0x3c)
    return shoff, shnum, shstrndx


def renamed(path, out, old, name):
    """A copy in which section `old` is called `name`."""
    data = bytearray(path.read_bytes())
    shoff, shnum, names = sections(data)
    at, size = struct.unpack_from("<QQ", data, shoff + 64 * names + 24)
    table = bytes(data[at:at + size]) + name.encode() + b"\0"
    found = [i for i in range(shnum) if table[struct.unpack_from("<I", data, shoff + 64 * i)[0]:].split(b"\0", 1)[0] == old.encode()]
    struct.pack_into("<I", data, shoff + 64 * found[0], size)
    # The names are moved after the other sections, and the headers after them, as the files end.
    struct.pack_into("<QQ", data, shoff + 64 * names + 24, len(data), len(table))
    headers = bytes(data[shoff:shoff + 64 * shnum])
    data += table
    data += bytes(-len(data) % 8)
    struct.pack_into("<Q", data, 0x28, len(data))
    out.write_bytes(data + headers)
    out.chmod(0o755)
    return out


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    tmp = tmp_path_factory.mktemp("names")
    (tmp / "main.cc").write_text(SOURCE)
    flags = ["g++", "-O1", "-g0", "-fno-stack-protector"]
    run([*flags, "-ffunction-sections", "-fPIE", "-c", "-o", tmp / "object", tmp / "main.cc"])
    run([*flags, "-nostdlib", "-pie", "-Wl,--emit-relocs,--build-id", "-o", tmp / "program", tmp / "main.cc"])
    assert subprocess.run([tmp / "program"]).returncode == 8    # 1 + 2 + 5
    return tmp


def seen(path, tmp):
    """What must stay: the symbols, and what the program does. Objects are linked first."""
    with open(path, "rb") as f:
        elf = ELFFile(f)
        linked = elf["e_type"] != "ET_REL"
        table = next((s for s in elf.iter_sections() if s["sh_type"] == "SHT_SYMTAB"), None)
        symbols = sorted(s.name for s in table.iter_symbols() if s["st_info"]["type"] != "STT_SECTION" and "etch" not in s.name)
    program = path
    if not linked:
        program = tmp / "linked"
        program.unlink(missing_ok=True)
        subprocess.run(["ld", "-pie", "--no-dynamic-linker", "-o", program, path], capture_output=True)
        if not program.exists():
            return symbols, "does not link"
    return symbols, subprocess.run([program], capture_output=True).returncode


def contents(path):
    """Index -> type, flags and bytes of the sections that a rewrite has no reason to touch."""
    out = {}
    with open(path, "rb") as f:
        elf = ELFFile(f)
        for i, s in enumerate(elf.iter_sections()):
            if s["sh_type"] in ("SHT_PROGBITS", "SHT_NOTE", "SHT_STRTAB", "SHT_RELA", "SHT_SYMTAB") and i != elf["e_shstrndx"]:
                out[i] = s["sh_type"], s["sh_flags"], s.data()
    return out


KINDS = {"object": [".strtab", ".symtab", ".shstrtab", ".group", ".rela.text.start", "user_data", "user_rodata", ".note.user", ".comment", ".text.start"],
         "program": [".strtab", ".symtab", ".shstrtab", ".dynstr", ".dynamic", ".rela.dyn", "user_data", "user_rodata", ".note.user", ".comment"]}
WAYS = {"object": ["--sframe"], "program": ["--sframe", "--eh-frame=all", "--registers"]}


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("kind", KINDS)
def test_a_name_is_no_proof(etch, files, tmp_path, kind, name):
    for old in KINDS[kind]:
        try:
            file = renamed(files / kind, tmp_path / "file", old, name)
        except IndexError:
            continue
        it = shutil.copy(file, tmp_path / "it")
        p = run([etch, "rewrite", *WAYS[kind], it], ok=(0, 2))
        what = f"{old} as {name}"
        if p.returncode:
            assert it.read_bytes() == file.read_bytes() and p.stderr.startswith(f"etch: {it}: "), what
            continue
        assert seen(it, tmp_path) == seen(file, tmp_path), what
        now = contents(it)
        lost = [i for i, (form, flags, data) in contents(file).items()
                if i not in now or form in ("SHT_STRTAB", "SHT_NOTE") and not now[i][2].startswith(data) or
                form == "SHT_PROGBITS" and now[i] != (form, flags, data)]
        assert not lost, (what, lost)


def test_what_etch_made_is_replaced(etch, files, tmp_path):
    """Twice, with other options: what is refused above is not refused where it is a table."""
    for kind in KINDS:
        for ways in ([[], ["--no-cfi"], []], [["--sframe"], ["--sframe", "--no-cfi"], ["--sframe"]]):
            it = shutil.copy(files / kind, tmp_path / "it")
            made = []
            for way in ways:
                run([etch, "rewrite", *way, it])
                made.append(it.read_bytes())
            assert made[0] == made[2] or kind == "object"
            assert seen(it, tmp_path) == seen(files / kind, tmp_path)
