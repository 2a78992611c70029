# SPDX-License-Identifier: MIT
"""What docs/security.md says of the library, and of files that name others: each claim by a
program of its own. tests/data/security/program.c has the cases."""
import os
import re
import shutil
import struct
import subprocess

import pytest
from elftools.elf.elffile import ELFFile

from conftest import DATA, Flow, run

CASES = DATA / "security"


@pytest.fixture(scope="session")
def programs(tmp_path_factory, build):
    """stage -> directory with program and plugin.so."""
    out = {}
    for stage in ("object", "linked"):
        flow = Flow(tmp_path_factory.mktemp(stage), build, "gcc")
        objects = [flow.compile(CASES / name, ["-O2", "-fPIC" if name == "plugin.c" else "-fPIE", "-g0"])
                   for name in ("program.c", "plugin.c")]
        flow.rewrite(*objects)
        exe = flow.link(objects[:1], ["-pie"], "program", shared_lib=True)
        lib = flow.link(objects[1:], ["-shared"], "plugin.so", shared_lib=True)
        if stage == "linked":
            flow.rewrite(exe, lib)
        out[stage] = flow.tmp
    return out


@pytest.fixture(params=["object", "linked"])
def here(request, programs):
    return programs[request.param]


@pytest.mark.parametrize("case", ["pointers", "text", "refused"])
def test_case(here, case):
    assert run([here / "program", case, here / "plugin.so"]).stdout == "done\n"


# ---- W^X -------------------------------------------------------------------------

def test_windows(here):
    """All changes of protection that libetch asks for, replayed: text is opened with X kept, and
    closed again after nothing but stores, the replacement of a read-only page of variables, and the barrier; nothing else is
    ever W and X."""
    log = here / "log"
    run(["strace", "-f", "-qq", "-o", log, here / "program", "text", here / "plugin.so"])
    open_text, windows, inside, barriers, moves = None, 0, [], 0, "never"
    for line in log.read_text().splitlines():
        call = line.split(None, 1)[1]
        change = re.match(r"(?:pkey_)?mprotect\((0x[0-9a-f]+), (\d+), (\S+?)[,)]", call)
        if re.match(r"(?:mmap|mremap|shmat)\(", call):
            assert not re.search("PROT_WRITE.*PROT_EXEC", call), call
        assert not re.match(r"(?:memfd_create|personality|modify_ldt)\(", call), call
        if change and change[3] == "PROT_READ" and not open_text: # the copy of a page of variables
            moves = rf"mremap\({change[1]}, {change[2]}, {change[2]}, MREMAP_MAYMOVE\|MREMAP_FIXED, 0x\w+\) = 0x\w+"
        if change and "PROT_EXEC" in change[3]:
            where = change[1], change[2]
            if "PROT_WRITE" in change[3]:
                assert open_text is None and change[3] == "PROT_READ|PROT_WRITE|PROT_EXEC", call
                open_text, inside = where, []
                windows += 1
            else:
                assert where == open_text and change[3] == "PROT_READ|PROT_EXEC", call
                assert [x for x in inside if not re.fullmatch(moves, x)] == ["membarrier(MEMBARRIER_CMD_PRIVATE_EXPEDITED_SYNC_CORE, 0) = 0"]
                assert len(inside) <= 2
                open_text = None
        elif open_text:
            inside.append(re.sub(" +", " ", call))
        barriers += "PRIVATE_EXPEDITED_SYNC_CORE, 0)" in call and "REGISTER" not in call
    # One page each; as many barriers as windows. The program changes text eight times or more.
    assert open_text is None and windows >= 8 and barriers == windows


def test_another_thread_sees_text_writable_in_sets_only(here):
    """A thread that tries to write to a page of text all the time: never while nothing is set,
    and sometimes while sets are (so that the test can see it)."""
    for sets in (3000, 30000, 300000):
        out = run([here / "program", "window", sets]).stdout
        idle, setting, after = ([int(n) for n in m] for m in re.findall(r": (\d+) of (\d+)", out))
        assert idle[0] == 0 and after[0] == 0 and idle[1] >= 20000 and after[1] >= 20000
        if setting[0]:
            break
    assert setting[0] < setting[1]


def test_what_is_writable_in_libetch(build):
    """Its tables and its GOT are not: they lie in read-only segments, or are so after start-up
    (RELRO with everything bound). Its stack is not executable, and no segment W and X."""
    with open(build / "libetch.so.0", "rb") as f:
        elf = ELFFile(f)
        loads = [s for s in elf.iter_segments() if s["p_type"] == "PT_LOAD"]
        relro = [s for s in elf.iter_segments() if s["p_type"] == "PT_GNU_RELRO"]
        stack = [s for s in elf.iter_segments() if s["p_type"] == "PT_GNU_STACK"]
        assert len(relro) == 1 and len(stack) == 1 and stack[0]["p_flags"] == 6
        assert all(s["p_flags"] & 3 != 3 for s in loads) # 1: X, 2: W
        dynamic = elf.get_section_by_name(".dynamic")
        assert any(t.entry.d_tag == "DT_FLAGS" and t.entry.d_val & 8 for t in dynamic.iter_tags()) # BIND_NOW
        assert not any(t.entry.d_tag == "DT_TEXTREL" for t in dynamic.iter_tags())
        low, high = relro[0]["p_vaddr"], relro[0]["p_vaddr"] + relro[0]["p_memsz"]
        for name in (".got", ".data.rel.ro", ".init_array", ".fini_array", ".dynamic"):
            section = elf.get_section_by_name(name)
            assert section is None or low <= section["sh_addr"] and section["sh_addr"] + section["sh_size"] <= high, name
        tables = [s for s in elf.iter_sections() if s.name in ("__ex_table", "__pv_sites", "__etch_obj", ".etch.unwind", ".etch")]
        assert tables and not any(s["sh_flags"] & 1 for s in tables)


@pytest.mark.parametrize("name", ["program", "plugin.so"])
def test_tables_are_read_only(programs, name):
    with open(programs["linked"] / name, "rb") as f:
        elf = ELFFile(f)
        tables = {s.name: s["sh_addr"] for s in elf.iter_sections()
                  if s.name in ("__imv", "__pv_sites", "__etch_obj", ".etch.unwind")}
        assert {"__imv", "__etch_obj", ".etch.unwind"} <= set(tables)
        for address in tables.values():
            flags = [s["p_flags"] for s in elf.iter_segments() if s["p_type"] == "PT_LOAD" and
                     s["p_vaddr"] <= address < s["p_vaddr"] + s["p_memsz"]]
            assert flags and not flags[0] & 2


# ---- tables that lie ---------------------------------------------------------------

def entry(path, section):
    with open(path, "rb") as f:
        s = ELFFile(f).get_section_by_name(section)
        return s["sh_offset"], s["sh_addr"]


def address(path, section):
    return entry(path, section)[1]


def forge(path, section, field, code, change):
    """Changes a field of the first entry of a table."""
    data = bytearray(path.read_bytes())
    at = entry(path, section)[0] + field
    value, = struct.unpack_from(code, data, at)
    struct.pack_into(code, data, at, change(value))
    path.write_bytes(data)


# What lies, and whether the module is refused as a whole (etch_info says ETCH_EFORMAT, 4).
LIES = {
    "site-beyond": ("__imv", 0, "<i", lambda v: v + 0x1000000, True),
    "site-before": ("__imv", 0, "<i", lambda v: v - 0x1000000, True),
    "site-of-no-code": ("__imv", 0, "<i", lambda v: 0, True), # the table itself
    "object-beyond": ("__imv", 4, "<i", lambda v: v + 0x1000000, True),
    "form": ("__imv", 8, "<B", lambda v: 0xee, True),
    "length": ("__imv", 10, "<B", lambda v: v | 15, False), # in no one word: never patched
    "got": ("__imv", 11, "<B", lambda v: v | 1, None),
    "site-between": ("__imv", 0, "<i", lambda v: v + 1, False), # inside its text, and other bytes
    "record-beyond": ("__etch_obj", 0, "<i", lambda v: v + 0x1000000, True),
    "record-size": ("__etch_obj", 4, "<I", lambda v: 0x7fffffff, True),
    "record-of-text": ("__etch_obj", 0, "<i", lambda v: -0x1000, True), # a page of .text before the table
}


@pytest.mark.parametrize("stage", ["object", "linked"])
@pytest.mark.parametrize("lie", LIES)
def test_tables_that_lie(programs, tmp_path, stage, lie):
    """A library with a forged table changes nothing but, at most, itself: not the program's text,
    its values, its protection. It goes on as a library without tables, where its code is loads."""
    section, field, code, change, refused = LIES[lie]
    plugin = shutil.copy(programs[stage] / "plugin.so", tmp_path / "plugin.so")
    forge(plugin, section, field, code, change)
    out = run([programs[stage] / "program", "forged", plugin]).stdout
    assert out.endswith("ops 14\ndone\n") # EFAULT: read-only still
    assert "plugin 11\n" in out and re.search(r"^set 0$", out, re.M)
    info = int(re.search(r"info (-?\d+)", out)[1])
    # A linked table is looked at before its first use only, which may not come.
    if refused is not None and stage == "object":
        assert (info != 0) == refused, out


def test_a_table_that_does_not_lie(programs):
    """The test above can see it."""
    for where in programs.values():
        out = run([where / "program", "forged", where / "plugin.so"]).stdout
        assert "info 0\n" in out and "armed 1 pages 1\n" in out


# ---- a hostile file names others --------------------------------------------------------

def test_no_file_is_opened_because_another_names_it(tmp_path, etch):
    """.gnu_debugaltlink with the path of a pipe: opening that waits for ever. The DWARF says of
    names that they are there."""
    source, plain, bad, pipe = (tmp_path / n for n in ("a.c", "plain", "bad", "pipe"))
    source.write_text("int f(int *p) { return *p; }\nint main(int c, char **v) { return f(&c) + !v; }\n")
    run(["gcc", "-g", "-gdwarf-5", "-O1", "-o", plain, source])
    os.mkfifo(pipe)
    (tmp_path / "link").write_bytes(os.fsencode(pipe) + b"\0" + bytes(range(20)))
    run(["objcopy", "--add-section", f".gnu_debugaltlink={tmp_path}/link", "--add-section", f".gnu_debuglink={tmp_path}/link",
         plain, bad])
    with open(bad, "rb") as f:
        s = ELFFile(f).get_section_by_name(".debug_abbrev")
        at, size = s["sh_offset"], s["sh_size"]
    data = bytearray(bad.read_bytes())
    for i in range(at, at + size - 1):
        if data[i:i + 2] == b"\x03\x0e": # DW_AT_name, DW_FORM_strp: DW_FORM_strp_sup
            data[i + 1] = 0x1d
    bad.write_bytes(data)
    for args in (["check"], ["inspect", "code", "main"], ["inspect", "summary"], ["rewrite", "-o", "/dev/null"], ["diff", plain]):
        log = tmp_path / "log"
        p = subprocess.run(["strace", "-f", "-o", log, "-e", "trace=open,openat,connect", etch, *args, bad], timeout=60,
                           capture_output=True)
        assert p.returncode in (0, 1), p.stderr
        opened = re.findall(r'open(?:at)?\((?:AT_FDCWD, )?"([^"]*)"', log.read_text())
        assert str(bad) in opened and str(pipe) not in opened
        assert not [o for o in opened if "debug" in o], opened


# ---- directories that others can write to -----------------------------------------------

OUTPUTS = {
    "rewrite": ["rewrite", "-o", "{out}", "{program}"], "undo": ["rewrite", "--undo", "-o", "{out}", "{rewritten}"],
    "debug": ["rewrite", "--eh-frame={out}", "{program}"], "check": ["check", "-o", "{out}", "{program}"],
    "stat": ["stat", "-r", "2", "-o", "{out}", "--", "true"], "heap": ["heap", "-o", "{out}", "--", "{program}"],
    "profile": ["profile", "-o", "{out}", "--", "{program}"],
}


@pytest.mark.skipif(os.getuid() != 0, reason="makes files of other users")
@pytest.mark.parametrize("command", OUTPUTS)
def test_no_command_writes_through_another_users_link(etch, tmp_path, command):
    """The kernel's fs.protected_symlinks, whatever it is set to here."""
    source, victim, sticky = tmp_path / "main.c", tmp_path / "victim", tmp_path / "sticky"
    source.write_text("#include <stdlib.h>\nint main(void) { free(malloc(1)); for (volatile int i = 0; i < 10000000; i++); }\n")
    names = {"program": tmp_path / "program", "rewritten": tmp_path / "rewritten", "out": sticky / "out"}
    run(["gcc", "-O1", "-fno-asynchronous-unwind-tables", "-o", names["program"], source])
    run([etch, "rewrite", "-o", names["rewritten"], names["program"]])
    victim.write_text("not this")
    victim.chmod(0o666)
    sticky.mkdir()
    sticky.chmod(0o1777)
    argv = [etch, *(a.format(**names) for a in OUTPUTS[command])]
    for target in (victim, tmp_path / "new"):
        victim.write_text("not this")
        names["out"].symlink_to(target)
        os.lchown(names["out"], 1234, 1234)
        p = run(argv, ok=2)
        if "perf_event" not in p.stderr and "samples" not in p.stderr:
            assert f"etch: {names['out']}: is another user's symbolic link" in p.stderr, p.stderr
        assert victim.read_text() == "not this" and not (tmp_path / "new").exists() and os.listdir(sticky) == ["out"]
        os.lchown(names["out"], 0, 0)
        p = run(argv, ok=None)
        assert p.returncode == 0 or command == "profile", p.stderr
        assert p.returncode or target.read_bytes() != b"not this"
        names["out"].unlink()
