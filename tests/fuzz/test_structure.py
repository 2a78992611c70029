# SPDX-License-Identifier: MIT
"""Headers and tables that contradict one another: what they say of a file is not believed beyond what the file
holds. Cases by hand, one for each class that the structural mutants (tests/fuzz/structure.c) have found; and some of those."""
import os
import re
import struct
import subprocess
import sys

import pytest

import seeds as seed_files
from conftest import ROOT, asan_env, run


SHT_PROGBITS, SHT_NOBITS, SHT_SYMTAB = 1, 8, 2
COMMANDS = [["check", "--fail-on", "never"], ["inspect", "sites"], ["inspect", "summary"], ["inspect", "tables"], ["inspect", "orc"],
            ["inspect", "code", "main"]]
PROGRAM = """
#include <etch/imv.h>
int puts(const char *);
DEFINE_IMV(int, v) = 3;
static int __attribute__((noinline)) g(int x) { return x * imv_read(v); }
int main(int c, char **a)
{
	switch (c) {
	case 1: puts("a"); break;
	case 2: puts("b"); break;
	case 3: puts("c"); break;
	case 4: puts("d"); break;
	}
	return g(c);
}
"""


class Headers:
    """Section headers of a file, to be changed."""

    FIELDS = {"name": (0, "I"), "type": (4, "I"), "flags": (8, "Q"), "addr": (16, "Q"), "offset": (24, "Q"), "size": (32, "Q"),
              "link": (40, "I"), "info": (44, "I")}

    def __init__(self, path):
        self.data = bytearray(path.read_bytes())
        self.table, = struct.unpack_from("<Q", self.data, 40)
        count, names = struct.unpack_from("<HH", self.data, 60)
        text = self.get(names, "offset")
        self.names = [self.data[text + self.get(i, "name"):].split(b"\0")[0].decode() for i in range(count)]

    def at(self, section, field):
        section = self.names.index(section) if isinstance(section, str) else section
        return self.table + 64 * section + self.FIELDS[field][0], "<" + self.FIELDS[field][1]

    def get(self, section, field):
        at, form = self.at(section, field)
        return struct.unpack_from(form, self.data, at)[0]

    def set(self, section, **fields):
        for field, value in fields.items():
            at, form = self.at(section, field)
            struct.pack_into(form, self.data, at, value)
        return self

    def write(self, path):
        path.write_bytes(self.data)
        path.chmod(0o755)
        return path


@pytest.fixture(scope="module")
def program(tmp_path_factory, build):
    """An etched one, whose functions are found by .eh_frame alone: there is no search table."""
    out = tmp_path_factory.mktemp("program") / "program"
    run(["gcc", "-O2", "-I", ROOT / "lib" / "include", "-Wl,--no-eh-frame-hdr", "-x", "c", "-o", out, "-", "-x", "none",
         build / "libetch.so"], input=PROGRAM)
    return out


def all_end_well(etch, files, tmp_path):
    """Every command ends with a status of its own, and without a report of the sanitizers."""
    env = dict(asan_env(), ETCH_BOUNDS="none")
    for command in COMMANDS:
        for path in files if command[0] == "inspect" else [None]:
            p = subprocess.run([etch, *command, *([path] if path else files)], capture_output=True, text=True, errors="replace", env=env)
            assert p.returncode in (0, 2) and "Sanitizer" not in p.stderr, (command, path, p.stderr[-3000:])
            assert "while processing it" not in p.stderr, (command, path, p.stderr)
    for path in files:
        for command in (["rewrite", "-o", tmp_path / "out", path], ["diff", path, files[0]], ["diff", files[0], path]):
            p = subprocess.run([etch, *command], capture_output=True, text=True, errors="replace", env=env)
            assert p.returncode in (0, 1, 2) and "Sanitizer" not in p.stderr, (command, path, p.stderr[-3000:])


@pytest.mark.parametrize("size", [1 << 47, 0x10000])
@pytest.mark.parametrize("addr", [None, 0x10])
def test_a_section_without_contents_that_covers_code_gives_no_bytes(build_asan, program, tmp_path, size, addr):
    """An FDE's start, a branch's target or a symbol lies in the first section whose header covers it. Where that is SHT_NOBITS
    it has a size, and nothing to read."""
    files = []
    for name in (".gnu.version_r", ".dynsym", ".interp"):
        h = Headers(program).set(name, type=SHT_NOBITS, size=size)
        if addr:
            h.set(name, addr=addr)
        files.append(h.write(tmp_path / f"nobits{name}"))
    # The same, but that it says it is code.
    h = Headers(program)
    files.append(h.set(".gnu.version_r", type=SHT_NOBITS, size=size, flags=h.get(".text", "flags"), addr=addr or 0x10).write(tmp_path / "code"))
    all_end_well(build_asan / "etch", files, tmp_path)


def test_data_that_covers_code_is_no_code(build_asan, program, tmp_path):
    """... and where it has contents, they are not those of the address: the segment has others there."""
    h = Headers(program)
    text, end = h.get(".text", "addr"), h.get(".text", "addr") + h.get(".text", "size")
    files = [Headers(program).set(name, type=SHT_PROGBITS, addr=text, offset=h.get(name, "offset"), size=h.get(name, "size")).write(tmp_path / f"over{name}")
             for name in (".gnu.version_r", ".rodata")]
    files.append(Headers(program).set(".rodata", addr=text - 8, offset=0, size=end - text + 16).write(tmp_path / "around"))
    all_end_well(build_asan / "etch", files, tmp_path)


def test_code_at_any_address(build_asan, tmp_path):
    """Targets of jumps wrap around as addresses do, also where a header puts code in the middle of all addresses."""
    function = "push %rbp; mov %rsp,%rbp; jne .-98; pop %rbp; ret; .balign 16,0xcc\n"
    source = '.globl f\nf: call f; ret\n.section .other,"ax"\n' + 8 * function
    run(["gcc", "-shared", "-nostdlib", "-x", "assembler", "-o", tmp_path / "code.so", "-"], input=source)
    files = [Headers(tmp_path / "code.so").set(".other", addr=addr).write(tmp_path / f"{addr:x}.so")
             for addr in ((1 << 63) - 32, 1 << 63, (1 << 64) - 256)]
    all_end_well(build_asan / "etch", files, tmp_path)


def test_a_section_that_no_segment_maps_is_not_covered(etch, program, tmp_path):
    """Where a segment ends before its sections do, these have no memory; were etch's own segment put there, a second run would
    find the etched object mapped, and arm it."""
    cut = Headers(program).set(".bss", size=3 * 4096).write(tmp_path / "cut")
    p = run([etch, "rewrite", "-o", tmp_path / "out", cut], ok=2)
    assert re.search("section [0-9]+ lies above all segments", p.stderr) and not (tmp_path / "out").exists()


def test_a_string_table_of_another_type_is_refused(etch, tmp_path):
    """Names of symbols are in SHT_STRTAB. A table of etch's own that a symbol table takes for its names would be
    written anew, and the file that etch rewrite made was one that etch refused."""
    o, bad, out = tmp_path / "a.o", tmp_path / "bad.o", tmp_path / "out.o"
    run(["gcc", "-O2", "-x", "c", "-c", "-o", o, "-"], input="int f(int x) { return x + 1; }")
    run([etch, "rewrite", o])
    h = Headers(o)
    # Its first and last byte are zero, and no name is asked for but the empty one.
    strings = h.names.index(".orc_unwind")
    at, size = h.get(strings, "offset"), h.get(strings, "size")
    symbols = h.get(".symtab", "offset")
    for i in range(h.get(".symtab", "size") // 24):
        struct.pack_into("<I", h.data, symbols + 24 * i, size - 1)
    h.data[at + size - 1] = 0
    h.set(".symtab", link=strings).write(bad)
    for command in (["rewrite", "-o", out], ["check"], ["inspect", "summary"]):
        p = run([etch, *command, bad], ok=2)
        assert p.stderr + p.stdout == f"etch: {bad}: section .symtab: its string table .orc_unwind is not one (not SHT_STRTAB)\n" or (
            command == ["check"] and "its string table .orc_unwind is not one (not SHT_STRTAB)" in p.stderr + p.stdout)
    assert not out.exists()


@pytest.mark.parametrize("what", ["another kind of table", "no symbol table", "no such section"])
def test_relocations_of_an_object_name_symbols_of_its_symbol_table(build, build_asan, tmp_path, what):
    """And of no other: their numbers mean nothing there."""
    o = tmp_path / "a.o"
    run(["gcc", "-O2", "-g", "-I", ROOT / "lib" / "include", "-x", "c", "-c", "-o", o, "-"], input=PROGRAM)
    run([build / "etch", "rewrite", o])
    h = Headers(o)
    if what == "another kind of table":
        h.set(".symtab", type=11)  # SHT_DYNSYM
    elif what == "no symbol table":
        h.set(".symtab", type=SHT_PROGBITS)
    else:
        for i in range(len(h.names)):
            if h.get(i, "type") == 4:  # SHT_RELA
                h.set(i, link=0)
    all_end_well(build_asan / "etch", [h.write(tmp_path / "bad.o")], tmp_path)
    p = run([build / "etch", "rewrite", "-o", tmp_path / "out", tmp_path / "bad.o"], ok=2)
    assert re.search(r"section \.rela\S*: relocation \d+ names symbol \d+ of 0\n", p.stderr), p.stderr


def test_what_is_sorted_in_place_is_nothing_elses(etch, tmp_path):
    """The classic arrays and exception tables of a program are sorted where they are. Where the headers say that
    another section is there as well, the file is refused: what is sorted would be that."""
    o, program, bad, out = tmp_path / "a.o", tmp_path / "a", tmp_path / "bad", tmp_path / "out"
    run(["gcc", "-O2", "-I", ROOT / "lib" / "include", "-x", "c", "-c", "-o", o, "-"],
        input=seed_files.SITES.replace("void _start", "void __attribute__((used)) _start"))
    run([etch, "rewrite", o])
    run(["gcc", "-nostdlib", "-static", "-Wl,--unresolved-symbols=ignore-all", "-Wl,-z,noseparate-code", "-o", program, o])
    run([etch, "rewrite", "-o", out, program])
    h = Headers(program)
    for table in (".orc_unwind_ip", ".orc_unwind", "__ex_table", "__imv", "__etch_obj"):
        out.unlink(missing_ok=True)
        # (What is there then is no exception table of etch's, which stays as it is.)
        for offset in (h.get(".symtab", "offset") + 12, h.get(".text", "offset"), h.table + 64, 0) if table != "__ex_table" else ():
            Headers(program).set(table, offset=offset).write(bad)
            p = run([etch, "rewrite", "-o", out, bad], ok=2)
            assert f"section {table}: its file offset disagrees with its segment" in p.stderr or " overlaps the " in p.stderr, (table, offset, p.stderr)
        Headers(program).set(".comment", offset=h.get(table, "offset"), size=4).write(bad)
        p = run([etch, "rewrite", "-o", out, bad], ok=2)
        assert p.stderr == f"etch: {bad}: section {table}: its contents overlap section .comment\n"
        assert not out.exists()


def test_code_that_is_something_else_too_is_not_rewritten(etch, program, tmp_path):
    """An immediate is written to where the segment has the site: where the section's contents are elsewhere nobody has looked
    at what is there, and where another section has the same bytes they would change with it."""
    bad, out = tmp_path / "bad", tmp_path / "out"
    h = Headers(program)
    text, size = h.get(".text", "offset"), h.get(".text", "size")
    run([etch, "rewrite", "-o", out, program])
    assert bytes(h.data[text:text + size]) not in out.read_bytes() and out.unlink() is None
    Headers(program).set(".comment", offset=text, size=size).write(bad)
    p = run([etch, "rewrite", "-o", out, bad], ok=2)
    assert p.stderr.endswith(f"etch: {bad}: section .text: its contents overlap section .comment\n") and not out.exists()
    # The same code a second time, after everything, and the header leads there.
    h = Headers(program)
    h.set(".text", offset=len(h.data))
    h.data += h.data[text:text + size]
    h.write(bad)
    p = run([etch, "rewrite", "-o", out, bad], ok=2)
    assert p.stderr.endswith(f"etch: {bad}: section .text: its file offset disagrees with its segment\n") and not out.exists()


def test_of_two_relocations_of_a_field_one_is_believed(build_asan, tmp_path):
    """Whichever way they are looked up: the checked build looks at code twice, and ends where that differs."""
    text = "\t.text\n"
    for i, (first, second) in enumerate([("outer", "inner"), ("inner", "outer"), ("inner", "inner + 3")] * 3):
        text += f"\t.type f{i}, @function\nf{i}:\t.cfi_startproc\n\tlea x(%rip), %rdi\n1:\t.byte 0xe9\n\t.zero 4\n"
        text += f"\t.reloc 1b + 1, R_X86_64_PLT32, {first} - 4\n\t.reloc 1b + 1, R_X86_64_PC32, {second} - 4\n"
        text += f"\t.cfi_endproc\n\t.size f{i}, .-f{i}\n"
    text += "\t.section .text.b, \"ax\"\n\t.zero 16, 0x90\ninner:\tpush %rbx\n\tpop %rbx\n\tret\n"
    run(["gcc", "-x", "assembler", "-c", "-o", tmp_path / "a.o", "-"], input=text)
    assert run(["readelf", "-rW", tmp_path / "a.o"]).stdout.count(" R_X86_64_PLT32 ") == 9
    all_end_well(build_asan / "etch", [tmp_path / "a.o"], tmp_path)


def test_no_control_character_is_in_json(etch, tmp_path):
    """JSON escapes those below a space, and not DEL: a terminal gets to see the output all the same."""
    files = []
    for k in (1, 2):
        files.append(tmp_path / f"{k}.o")
        run(["gcc", "-x", "assembler", "-c", "-o", files[-1], "-"],
            input=f'\t.text\n\t.globl "a\x7fb"\n\t.type "a\x7fb", @function\n"a\x7fb":\n\tmov ${k}, %eax\n\tpush %rbx\n\tret\n\t.size "a\x7fb", .-"a\x7fb"\n')
    commands = [["diff", "--format", "json", *files], ["check", "--format", "json", "--level", "note", "--fail-on", "never", files[0]],
                ["check", "--format", "sarif", "--level", "note", "--fail-on", "never", files[0]],
                ["inspect", "code", "--format", "json", "0", files[0]], ["inspect", "orc", "--format", "json", files[0]]]
    for command in commands:
        out = subprocess.run([etch, *command], capture_output=True).stdout
        assert out and not set(out) & {*range(9), *range(11, 32), 127}, command
    assert b"a\x7fb" in files[0].read_bytes() and "a\ufffdb" in run([etch, *commands[0]], ok=1).stdout


# ---- mutants --------------------------------------------------------------------------------

@pytest.fixture(scope="module")
def seeds(build, tmp_path_factory):
    return sorted(seed_files.structure_make(build / "etch", tmp_path_factory.mktemp("seeds")))


@pytest.mark.parametrize("options", [[], ["--eh-frame"], ["--eh-frame=all"], ["--encoding", "orc"]])
def test_what_etch_added_is_no_evidence_of_functions(etch, seeds, tmp_path, options):
    """Where code has low addresses, any small number is one: those in tables that an earlier run has made or changed, too."""
    some = 0
    for path in [p for p in seeds if p.name.startswith("exe")]:
        h, first, second = Headers(path), tmp_path / "first", tmp_path / "second"
        if ".text" not in h.names:
            continue
        h.set(".text", addr=0).write(tmp_path / "low")
        if run([etch, "rewrite", *options, "-o", first, tmp_path / "low"], ok=None).returncode:
            continue
        run([etch, "rewrite", *options, "-o", second, first])
        assert first.read_bytes() == second.read_bytes(), path
        some += 1
    assert some > 2


def test_structural_mutants_end_well(build_asan, seeds, tmp_path):
    """Those of one seed; make fuzz has more, of another seed each time."""
    count = 20000 if os.environ.get("ETCH_TESTS") == "all" else 300
    (tmp_path / "mutants").symlink_to(build_asan / "mutants")
    p = subprocess.run([sys.executable, ROOT / "scripts" / "fuzz.py", "structure", "--mutants", str(count), "--jobs", "1", "--seed", "5",
                        tmp_path, *seeds], capture_output=True, text=True, errors="replace")
    assert p.stdout.splitlines()[-1].startswith(f"{count} mutants, 0 failed, "), p.stdout + p.stderr


def test_a_mutant_is_known_by_its_number(build_asan, seeds, tmp_path):
    kinds = run([build_asan / "mutants", "kinds"]).stdout.split()
    assert len(kinds) >= 19 and len(set(kinds)) == len(kinds)
    made = []
    for out in (tmp_path / "a", tmp_path / "b"):
        said = run([build_asan / "mutants", "5", "4711", "0", out, *seeds]).stdout.splitlines()
        assert said[1] in kinds and said[2]
        made.append((said, out.read_bytes()))
    assert made[0] == made[1] and made[0][1] not in [p.read_bytes() for p in seeds]


def test_a_mutant_that_ends_the_program_is_kept(tmp_path):
    """With its number, and what it is; and the run goes on with the next."""
    tool, keep, good = tmp_path / "mutants", tmp_path / "keep", tmp_path / "good"
    good.write_bytes(b"good")
    tool.write_text("""#!/bin/sh
seed=$1 first=$2 count=$3 out=$4 last=$(($2 + $3))
if [ $count = 0 ]; then echo bad $first >$out; echo good; echo a-kind; echo changed; exit; fi
while [ $first -lt $last ]; do
	echo $first check >$out
	if [ $first = 7 ]; then echo 'violated: seven' >&2; kill -ABRT $$; fi
	if [ $first = 9 ]; then echo "again 9 other bytes"; fi
	first=$((first + 1))
done
echo "done $count opened $count again 0"
""")
    tool.chmod(0o755)
    p = run([sys.executable, ROOT / "scripts" / "fuzz.py", "structure", "--mutants", "20", "--jobs", "1", "--seed", "3", "--keep", keep, tmp_path, good], ok=1)
    assert p.stdout.splitlines()[-1] == "20 mutants, 1 failed, 1 not the same when rewritten again"
    assert (keep / "count").read_text() == "20 mutants of seed 3 from 0 on, 1 failed, 1 not the same when rewritten again\n"
    assert {x.name for x in keep.iterdir()} == {"count", "mutant-3-7", "mutant-3-7.txt", "mutant-3-9", "mutant-3-9.txt"}
    assert (keep / "mutant-3-7").read_text() == "bad 7\n"
    assert re.search(r"a-kind\nchanged\nin check, exit status -6\nviolated: seven", (keep / "mutant-3-7.txt").read_text())
