# SPDX-License-Identifier: MIT
"""Rewriting twice is rewriting once, and undo gives back what was there, of damaged files too: or they are refused
in one line and left as they are. twice.py makes the damage, and judges."""
import random
import struct

import pytest

import seeds as seed_files
import twice
from conftest import ROOT, run

CXX = r"""
#include <etch/imv.h>
#include <stdexcept>
DEFINE_IMV(int, tiny) = 5;
int count;
struct guard { ~guard(); };
extern int next(int);
int f(int x) { guard g; try { if (next(x) > imv_read(tiny)) throw std::runtime_error("a"); return next(x + 1); } catch (std::exception &) { return next(2); } }
template <class T> T twice(T x) { guard g; return x + next(2); }
int h(int x) { return twice(x) + twice((long) x); }
guard::~guard() { count++; }
int next(int x) { return x; }
int main() { return f(3) + h(1) == 0; }
"""


@pytest.fixture(scope="module")
def samples(etch, build, tmp_path_factory):
    """name -> bytes: an object and programs, as compilers make them and as etch leaves them ("done ...", "bare ..." without a record)."""
    d, made = tmp_path_factory.mktemp("twice"), {}
    (d / "a.cc").write_text(CXX)
    flags = ["-O1", "-I", ROOT / "lib/include"]
    run(["g++", *flags, "-c", "-o", d / "object", d / "a.cc"])
    run(["g++", *flags, "-o", d / "program", d / "a.cc", build / "libetch.a", "-pthread"])
    run(["gcc", "-O2", "-shared", "-fPIC", "-x", "c", "-o", d / "library", "-"], input="int f(int x) { return x + 1; }\n")
    run(["g++", *flags, "-fPIE", "-pie", "-fuse-ld=lld", "-o", d / "moved", d / "a.cc", build / "libetch.so"])  # a note has to move in it
    run(["g++", *flags, "-no-pie", "-o", d / "fixed", d / "a.cc", build / "libetch.so"])  # the tables become a part of its first segment
    run(["gcc", "-O2", "-I", ROOT / "lib/include", "-static-pie", "-fPIE", "-nostdlib", "-Wl,-z,noseparate-code,--build-id,--unresolved-symbols=ignore-all",
         "-x", "c", "-o", d / "small", "-"], input=seed_files.SITES)
    for name in ("object", "program", "library", "moved", "fixed", "small"):
        run([etch, "rewrite", "-o", d / f"done {name}", d / name])
        made[name], made["done " + name] = (d / name).read_bytes(), (d / f"done {name}").read_bytes()
    run([etch, "rewrite", "--no-undo", "-o", d / "bare", d / "library"])
    made["bare library"] = (d / "bare").read_bytes()
    return made


def section(elf, name):
    return next(i for i, n in enumerate(elf.names) if n == name and elf.get(i, "size"))


def relocated(name, k=0, offset=None, symbol=None):
    """Relocation k of a section has another offset, or another symbol."""
    def edit(elf):
        at = elf.get(section(elf, name), "offset") + 24 * k
        if offset is not None:
            elf.put(at, 8, offset)
        if symbol is not None:
            elf.put(at + 12, 4, symbol)
    return edit


def header(which, /, **fields):
    def edit(elf):
        i = section(elf, which)
        for field, value in fields.items():
            elf.put(*elf.place(i, field), value(elf, i) if callable(value) else value)
    return edit


def name_of(other):
    return lambda elf, _: elf.get(section(elf, other), "name")


def count(elf, _):
    return elf.shnum - 1


def copied(name, over):
    """The header of one section stands where another's was, too."""
    def edit(elf):
        at, to = (elf.shoff + 64 * section(elf, n) for n in (name, over))
        elf.data[to:to + 64] = elf.data[at:at + 64]
    return edit


WILD, OUTSIDE, TAKEN = "names symbol", "has offset", "but is not an etch table"
AGAIN = "the additions of an earlier etch run are damaged"
def symtab(elf, _):
    return next(i for i in range(elf.shnum) if elf.get(i, "type") == 2)


def packed(elf):
    """The build-id is packed relocations, of a table that a rewrite changes."""
    note = section(elf, ".note.gnu.build-id")
    elf.put(*elf.place(note, "type"), 19)
    at, size = elf.get(note, "offset"), elf.get(note, "size") // 8 * 8
    elf.data[at:at + size] = struct.pack("<QQ", elf.get(section(elf, "__etch_mod"), "addr") + 16, 2**64 - 1) + struct.pack("<Q", 1) * (size // 8 - 2)


OVER, ODD = "overlapping sections", "a section has the name of an etch table, but is not one"
EITHER = "accepted or refused: it depends on what the bytes are as code, or as a descriptor"
CASES = {  # class: (the file, the damage, what is said, or None where it is accepted)
    "a symbol that is none, where numbers of symbols change": ("object", relocated(".rela.eh_frame", 1, symbol=2**32 - 1), WILD),
    "one more than the last": ("object", relocated(".rela.eh_frame", 1, symbol=10**4), WILD),
    "in the exception tables": ("object", relocated(".rela.gcc_except_table", symbol=2**32 - 2), WILD),
    "in debug information or data alike": ("object", relocated(".rela.init_array.00101", symbol=2**32 - 1), WILD),
    "a relocation outside of what it changes": ("object", relocated(".rela.eh_frame", 1, offset=2**63), OUTSIDE),
    "behind it, by one": ("object", relocated(".rela.gcc_except_table", offset=1 << 20), OUTSIDE),
    "code under the name of a table of rows": ("done object", header(".text", name=name_of(".orc_unwind_ip")), TAKEN),
    "code under the name of a table of sites": ("done object", header(".text", name=name_of("__imv")), TAKEN),
    "data under such a name": ("done object", header(".bss", name=name_of("__etch_obj"), type=1, size=0), None),
    "a table of rows that seems to name an etched object": ("done object", "row", None),
    "a section header of a number that goes": ("done library", header(".rela.dyn", info=count), AGAIN),
    "a symbol in a section that is none": ("object", header("etched_imv", type=0), None),
    "a module's descriptor that says it is code": ("done program", header("__etch_mod", flags=6), EITHER),
    "a table that says it is code": ("done program", header(".etch.unwind", flags=6), EITHER),
    "a segment under another name, and no record": ("bare library", header(".etch.segment", name=name_of(".note.etch")), None),
    "two sections of etched objects at one place": ("program", copied("etched_imv", ".dynamic"), OVER),
    "names of sections that are a module's descriptor": ("program", header(".shstrtab", name=name_of("__etch_mod")), EITHER),
    "a note under the name of etched objects": ("moved", header(".note.ABI-tag", name=name_of("etched_imv")), ODD),
    "code as the numbers of symbols' sections": ("object", header(".text", type=18, link=symtab), "is not the table of section numbers of"),
    "packed relocations of a table": ("small", packed, "packed relocations lead to read-only data"),
    "no section that is code": ("library", "no code", None),
    "a record that is stale": ("done object", header(".comment", align=2), None),
    "the same in a program": ("done program", header(".comment", align=2), None),
}


def row_names_object(elf):
    """The first row's place is relative to an etched object."""
    tiny = section(elf, "etched_imv")
    symtab = next(i for i in range(elf.shnum) if elf.get(i, "type") == 2)
    start = elf.get(symtab, "offset")
    number = next(k for k in range(elf.get(symtab, "size") // 24) if struct.unpack_from("<H", elf.data, start + 24 * k + 6)[0] == tiny)
    relocated(".rela.orc_unwind_ip", 0, symbol=number)(elf)


def no_code(elf):
    for i in range(elf.shnum):
        elf.put(*elf.place(i, "flags"), elf.get(i, "flags") & ~4)


@pytest.mark.parametrize("case", CASES)
def test_a_class_of_damage(etch, samples, tmp_path, case):
    name, edit, says = CASES[case]
    elf = twice.Elf(samples[name])
    {"row": row_names_object, "no code": no_code}.get(edit, edit)(elf)
    assert bytes(elf.data) != samples[name] or says is None
    problems, accepted = twice.judge(etch, [("file", case, bytes(elf.data))])
    assert not problems and (says == EITHER or accepted == (says is None)), (problems, accepted)
    if says and says != EITHER:
        path = tmp_path / "file"
        path.write_bytes(elf.data)
        assert says in run([etch, "rewrite", path], ok=2).stderr


NAMES = [".eh_frame", ".eh_frame_hdr", ".eh_frame.linked", ".sframe", ".debug_frame", ".etch.segment", ".etch.unwind", ".etch.source", ".etch.undo",
         ".note.etch", ".orc_unwind_ip", ".orc_unwind", ".orc_lookup", "__imv", "__etch_obj", "__etch_mod", "__ex_table", "etched_imv", ".rodata.etch"]


def renamed(data, old, new):
    """A section has another name, in a longer table of names at the end of the file."""
    elf = twice.Elf(data)
    i, table = section(elf, old), section(elf, ".shstrtab")
    names = bytes(elf.data[elf.get(table, "offset"):][:elf.get(table, "size")])
    elf.put(*elf.place(i, "name"), len(names))
    elf.put(*elf.place(table, "offset"), len(elf.data))
    elf.put(*elf.place(table, "size"), len(names) + len(new) + 1)
    return bytes(elf.data) + names + new.encode() + b"\0"


@pytest.mark.parametrize("name,old", [("library", ".gnu.hash"), ("library", ".dynsym"), ("moved", ".note.ABI-tag"), ("moved", ".interp"),
                                      ("done library", ".gnu.hash"), ("done moved", ".interp")])
def test_a_section_that_moves_under_a_name_of_ours(etch, samples, name, old):
    """What had to move for a program header is in etch's segment, and none of its sections."""
    problems, _ = twice.judge(etch, [("file", f"{old} is {new}", renamed(samples[name], old, new)) for new in NAMES])
    assert not problems, [p[:2] for p in problems]


def test_relocations_of_compressed_sections(etch, tmp_path):
    """They count in what is not in the file: no damage."""
    path = tmp_path / "z.o"
    run(["gcc", "-g3", "-gz", "-O2", "-c", "-x", "c", "-o", path, "-"], input="#include <stdlib.h>\nint f(int x) { return abs(x); }\n")
    assert " C " in run(["readelf", "-SW", path]).stdout
    assert twice.judge(etch, [("z.o", "none", path.read_bytes())]) == ([], 1)


def test_a_mutant_is_the_same_each_time(samples):
    """What fails can be looked at again by its number."""
    for name, data in samples.items():
        assert twice.damage(data, 7) == twice.damage(data, 7) and twice.Elf(data).names[0] == "", name
    assert len({twice.damage(samples["object"], s) for s in range(50)}) > 40


@pytest.mark.parametrize("name", ["object", "program", "library"])
def test_damaged_files(etch, samples, name):
    """As they come; scripts/fuzz.py goes on with this for as long as it is told."""
    for which in (name, "done " + name):
        seeds = random.Random(which).sample(range(1 << 30), 15 if name == "program" else 60)
        mutants = [(name, *twice.damage(samples[which], s)) for s in seeds]
        problems, accepted = twice.judge(etch, mutants)
        assert not problems, [p[:2] for p in problems]
        assert 0 < accepted < len(mutants)


# ---- what etch makes for other tools ----------------------------------------------------------

ROWS = ["--eh-frame", "--eh-frame=all", "--fix-cfi", "--sframe --eh-frame", "--eh-frame --no-cfi", "--sframe"]


def twice_is_once(etch, files, options):
    """Rewrites files[0] to files[1] and that to files[2]; False where the first is refused, in one line."""
    p = run([etch, "rewrite", *options.split(), "-o", files[1], files[0]], ok=None)
    if p.returncode:
        assert p.returncode == 2 and len(p.stderr.splitlines()) == 1, p.stderr
        return False
    run([etch, "rewrite", *options.split(), "-o", files[2], files[1]])
    assert files[2].read_bytes() == files[1].read_bytes(), (files[0].name, options)
    return True


@pytest.mark.parametrize("options", ["--sframe", "--sframe=3", "--sframe --no-cfi", "--encoding orc --sframe", "--only orc", "--only imv"])
def test_code_that_is_an_etched_object(etch, samples, tmp_path, options):
    """A table that says where code is names what a symbol calls an etched object: that is no use of it, in no table that a run
    adds."""
    elf = twice.Elf(samples["object"])
    elf.put(*elf.place(section(elf, ".text"), "name"), elf.get(section(elf, "etched_imv"), "name"))
    files = [tmp_path / f"{k}.o" for k in range(3)]
    files[0].write_bytes(elf.data)
    assert twice_is_once(etch, files, options)


@pytest.mark.parametrize("hidden", [(".eh_frame",), (".eh_frame_hdr",), (".eh_frame", ".eh_frame_hdr")], ids="+".join)
@pytest.mark.parametrize("how", ["type", "name"])
def test_frames_that_section_headers_do_not_name(etch, samples, tmp_path, hidden, how):
    """FDEs are known by PT_GNU_EH_FRAME then, which leads to etch's own table once there is one."""
    same = 0
    for sample in ("program", "library", "moved", "fixed"):
        elf = twice.Elf(samples[sample])
        for name in hidden:
            at, width = elf.place(section(elf, name), how)
            elf.put(at, width, 5 if how == "type" else elf.get(section(elf, name), how) + 1)  # SHT_HASH; "eh_frame"
        files = [tmp_path / f"{sample}{k}" for k in range(3)]
        files[0].write_bytes(elf.data)
        for options in ROWS:
            if not twice_is_once(etch, files, options):
                continue
            run([etch, "rewrite", "--undo", files[2]])
            assert files[2].read_bytes() == bytes(elf.data)
            same += 1
    assert same >= 3


@pytest.mark.parametrize("hidden", [(), (".eh_frame",), (".eh_frame_hdr",)], ids="+".join)
def test_frames_that_no_program_header_names(etch, samples, tmp_path, hidden):
    """... and those by section headers alone; or by nothing."""
    same = 0
    for sample in ("program", "library", "moved"):
        elf = twice.Elf(samples[sample])
        for i in range(elf.phnum):
            at = elf.phoff + 56 * i
            if struct.unpack_from("<I", elf.data, at)[0] == 0x6474e550:
                struct.pack_into("<I", elf.data, at, 0)  # PT_NULL
        for name in hidden:
            at, width = elf.place(section(elf, name), "type")
            elf.put(at, width, 5)
        files = [tmp_path / f"{sample}{k}" for k in range(3)]
        files[0].write_bytes(elf.data)
        for options in ROWS:
            same += twice_is_once(etch, files, options)
    assert same >= 3


def test_frames_of_which_a_program_header_names_a_part(etch, samples, tmp_path):
    """.eh_frame_hdr cannot be read by PT_GNU_EH_FRAME; by section headers it can, once they alone lead there."""
    same = 0
    for sample in ("program", "library", "moved"):
        elf = twice.Elf(samples[sample])
        elf.put(*elf.place(section(elf, ".eh_frame"), "type"), 5)
        at = next(at for at in range(elf.phoff, elf.phoff + 56 * elf.phnum, 56) if struct.unpack_from("<I", elf.data, at)[0] == 0x6474e550)
        struct.pack_into("<QQ", elf.data, at + 32, 7, 7)  # p_filesz, p_memsz
        files = [tmp_path / f"{sample}{k}" for k in range(3)]
        files[0].write_bytes(elf.data)
        for options in ROWS:
            same += twice_is_once(etch, files, options)
    assert same >= 3


@pytest.mark.parametrize("sample", ["done object", "done program", "done library", "done moved", "done fixed"])
@pytest.mark.parametrize("where", [".comment", ".symtab", ".etch.undo"])
def test_rows_for_other_tools_where_a_record_is_stale(etch, samples, tmp_path, sample, where):
    """The file as it was found is what undo gives back, record and all: but no run begins from that record."""
    elf = twice.Elf(samples[sample])
    elf.data[elf.get(section(elf, where), "offset") + elf.get(section(elf, where), "size") - 8] ^= 1
    files = [tmp_path / f"{k}" for k in range(3)]
    files[0].write_bytes(elf.data)
    assert "cannot undo" in run([etch, "rewrite", "--undo", "-o", tmp_path / "x", files[0]], ok=2).stderr
    for options in ["--sframe", "--sframe=3", *(ROWS if "object" not in sample else [])]:
        p = run([etch, "rewrite", *options.split(), "-o", files[1], files[0]], ok=None)
        if p.returncode and "object" not in sample:
            assert p.returncode == 2 and "left no program header for what is new" in p.stderr and len(p.stderr.splitlines()) == 1
            continue
        run([etch, "rewrite", *options.split(), "-o", files[2], files[1]])
        assert files[2].read_bytes() == files[1].read_bytes(), options
        run([etch, "rewrite", "--undo", files[2]])
        assert files[2].read_bytes() == bytes(elf.data), options


@pytest.mark.parametrize("kind", ["exe", "pie"])
def test_a_build_id_that_no_section_names(etch, tmp_path, kind):
    """Program headers name it, and the note that a run adds in a new first page does; both runs put the same into the table."""
    from test_go import build as go_build

    elf = twice.Elf(bytearray(go_build(tmp_path, kind)[0].read_bytes()))
    elf.put(*elf.place(section(elf, ".note.gnu.build-id"), "type"), 8)  # SHT_NOBITS
    files = [tmp_path / f"{k}" for k in range(3)]
    files[0].write_bytes(elf.data)
    assert twice_is_once(etch, files, "")


def contents_of_headers(data):
    """What PT_INTERP and PT_NOTE headers lead to."""
    elf = twice.Elf(bytearray(data))
    headers = [struct.unpack_from("<IIQQQQ", elf.data, at) for at in range(elf.phoff, elf.phoff + 56 * elf.phnum, 56)]
    return {(kind, bytes(elf.data[offset:offset + size])) for kind, _, offset, _, _, size in headers if kind in (3, 4)}


@pytest.mark.parametrize("hidden", [".note.gnu.build-id", ".note.gnu.property", ".note.ABI-tag", ".interp"])
def test_what_only_a_program_header_names_stays(etch, samples, tmp_path, hidden):
    """More program headers get their place in the first page between sections, and not over what a program header has."""
    done = 0
    for sample in ("program", "library"):
        elf = twice.Elf(bytearray(samples[sample]))
        if not any(n == hidden for n in elf.names):
            continue
        elf.put(*elf.place(section(elf, hidden), "type"), 8)  # SHT_NOBITS
        files = [tmp_path / f"{sample}{k}" for k in range(3)]
        files[0].write_bytes(elf.data)
        for options in ROWS:
            if twice_is_once(etch, files, options):
                done += 1
                assert contents_of_headers(elf.data) <= contents_of_headers(files[1].read_bytes()), (sample, options)
    assert done


def test_a_header_of_frames_that_leads_among_section_headers(etch, samples, tmp_path):
    """What it leads to is kept for no other reason, and is not described any more once the header leads elsewhere."""
    same = 0
    for sample in ("program", "library", "moved", "fixed"):
        if sample not in samples:
            continue
        elf = twice.Elf(samples[sample])
        at = next(at for at in range(elf.phoff, elf.phoff + 56 * elf.phnum, 56) if struct.unpack_from("<I", elf.data, at)[0] == 0x6474e550)
        struct.pack_into("<Q", elf.data, at + 8, elf.shoff + 150)
        files = [tmp_path / f"{sample}{k}" for k in range(3)]
        files[0].write_bytes(elf.data)
        for options in ["", *ROWS]:
            same += twice_is_once(etch, files, options)
    assert same >= 3
