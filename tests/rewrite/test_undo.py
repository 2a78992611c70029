# SPDX-License-Identifier: MIT
"""etch rewrite --undo gives back the bytes from before, or says why it cannot.

docs/formats.md describes the record; read_record() below is a second reader made from it."""

import os
import random
import shutil
import struct
from pathlib import Path

import pytest
from elftools.elf.elffile import ELFFile

from conftest import DATA, Flow, asan_env, run
from every_option import every_option_tried
from rows import leb

SYSTEM = [p for p in ("/usr/bin/perl", "/bin/ls", "/usr/lib/x86_64-linux-gnu/libc.so.6", "/usr/bin/gdb",
                      "/usr/lib/x86_64-linux-gnu/libelf.so.1", "/sbin/ldconfig", "/usr/bin/make") if Path(p).exists()]


def read_record(data):
    """(the file without its record, the original) as the second reader has them."""
    shoff, = struct.unpack_from("<Q", data, 40)
    count, = struct.unpack_from("<H", data, 60)
    offset, size = struct.unpack_from("<QQ", data, shoff + 64 * (count - 1) + 24)
    assert offset + size == len(data)
    magic, version, delta_size, original_size, kept_size = struct.unpack_from("<8sIIQQ", data, offset)
    assert magic == b"etchundo" and version == 1
    kept = data[offset + 64:offset + 128] + data[64:kept_size]
    at, end, out, source = offset + 128, offset + 128 + delta_size, b"", 0
    while len(out) < original_size:
        n, at = leb(data, at)
        out += data[at:at + n]
        at += n
        n, at = leb(data, at)
        if n:
            move, at = leb(data, at, True)
            source += move
            out += kept[source:source + n]
            source += n
    assert at == end
    return kept, out


@pytest.fixture(scope="module")
def files(tmp_path_factory, build):
    """name: (path as it was, the same file rewritten)."""
    tmp = tmp_path_factory.mktemp("undo")
    flow = Flow(tmp, build, "gcc")
    sources = [DATA / "acceptance" / s for s in ("app.c", "other.c")]
    objects = [flow.compile(s, ["-O2", "-fPIE", "-g"]) for s in sources]
    all = {"object.o": objects[0], "program": flow.link(objects, ["-pie"], "program"),
           "static": flow.link(objects, ["-static"], "static"), "comdat.o":
           flow.compile(DATA / "acceptance" / "cxx1.cc", ["-O1", "-fPIC", "-g"]),
           **{Path(p).name: p for p in SYSTEM}}

    class Files(dict):
        """Rewritten when a test asks for it."""

        def __missing__(self, name):
            before, after = tmp / f"{name}.before", tmp / f"{name}.after"
            shutil.copy(all[name], before)
            shutil.copy(all[name], after)
            flow.rewrite(after)
            assert after.read_bytes() != before.read_bytes()
            self[name] = before, after
            return self[name]
    return Files()


NAMES = ["object.o", "program", "static", "comdat.o",
         *[pytest.param(Path(p).name, marks=[pytest.mark.long] if p.endswith("gdb") else []) for p in SYSTEM]]


@pytest.mark.parametrize("name", NAMES)
def test_there_and_back(files, etch, name, tmp_path):
    before, after = files[name]
    path = tmp_path / "file"
    shutil.copy(after, path)
    run([etch, "rewrite", "--undo", path])
    assert path.read_bytes() == before.read_bytes()
    assert os.stat(path).st_mode == os.stat(after).st_mode
    p = run([etch, "rewrite", "--undo", path], ok=2)
    assert p.stderr.startswith(f"etch: {path}: has no undo record") and len(p.stderr.splitlines()) == 1
    run([etch, "rewrite", path])
    assert path.read_bytes() == after.read_bytes()


@pytest.mark.parametrize("name", NAMES)
def test_the_second_reader_agrees(files, name):
    before, after = files[name]
    assert read_record(after.read_bytes())[1] == before.read_bytes()


@pytest.mark.parametrize("name", NAMES)
def test_no_undo_is_the_same_without_the_record(files, etch, name, tmp_path):
    before, after = files[name]
    plain = tmp_path / "plain"
    run([etch, "rewrite", "--no-undo", "-o", plain, before])
    assert plain.read_bytes() == read_record(after.read_bytes())[0]
    # Taken off, and put on again: what it was is not known any more, except for the file as it is.
    path = tmp_path / "file"
    shutil.copy(after, path)
    run([etch, "rewrite", "--no-undo", path])
    assert path.read_bytes() == plain.read_bytes()
    run([etch, "rewrite", path])
    assert path.read_bytes() == plain.read_bytes()


@pytest.mark.parametrize("name", ["program", "object.o", "perl"])
def test_each_kind_of_run_goes_back_to_the_first(files, etch, name, tmp_path):
    """Tables added one run after the other, another encoding: the original stays the original."""
    before, _ = files[name]
    path = tmp_path / "file"
    shutil.copy(before, path)
    for args in (["--only", "orc"], ["--only", "imv"], ["--only", "pv,ex"], ["--encoding", "orc"], ["--unwind-map", "none"]):
        run([etch, "rewrite", *args, path])
        assert read_record(path.read_bytes())[1] == before.read_bytes()
    run([etch, "rewrite", "--undo", path])
    assert path.read_bytes() == before.read_bytes()


def test_what_makes_something_does_not_go_with_it(etch, files, tmp_path):
    """Of all options that --help lists: each is refused in one line that names it, or taken."""
    taken = every_option_tried(etch, ["--undo"], files["program"][1], tmp_path, "--undo")
    assert taken == {"--output", "--jobs", "--quiet", "--verbose", "--yes", "--undo", "--help"}


def test_a_file_changed_since_is_not_undone(files, etch, tmp_path):
    _, after = files["perl"]
    path = tmp_path / "perl"
    data = bytearray(after.read_bytes())
    data[len(data) // 3] ^= 1
    path.write_bytes(data)
    p = run([etch, "rewrite", "--undo", path], ok=2)
    assert "was changed after etch rewrote it" in p.stderr and path.read_bytes() == data
    # What etch has added counts as well, of which nothing is in the original.
    data = bytearray(after.read_bytes())
    with open(after, "rb") as f:
        data[ELFFile(f).get_section_by_name(".etch.unwind")["sh_offset"] + 100] ^= 1
    path.write_bytes(data)
    p = run([etch, "rewrite", "--undo", path], ok=2)
    assert "was changed after etch rewrote it" in p.stderr and path.read_bytes() == data
    shutil.copy(after, path)
    run(["strip", path])
    stripped = path.read_bytes()
    p = run([etch, "rewrite", "--undo", path], ok=2)
    assert "was changed after etch rewrote it" in p.stderr and path.read_bytes() == stripped
    # It begins anew with what it is.
    run([etch, "rewrite", path])
    run([etch, "rewrite", "--undo", path])
    assert path.read_bytes() == stripped


@pytest.mark.parametrize("name", ["program", "object.o"])
@pytest.mark.parametrize("place", ["ELF header", "section header"])
def test_a_file_whose_headers_were_edited_is_rewritten_again(files, etch, place, name, tmp_path):
    """As elfedit does (byte 7 is EI_OSABI), and patchelf, which leaves what etch has put to the file's end where it
    is. What was edited stays so."""
    path = tmp_path / name
    data = bytearray(files[name][1].read_bytes())
    at, new = 7, 9
    if place == "section header":  # sh_addralign of the first one of strings (.comment, .debug_str)
        shoff, = struct.unpack_from("<Q", data, 40)
        at = next(i for i in range(shoff, len(data), 64) if struct.unpack_from("<Q", data, i + 8) == (0x30,)) + 48
        new = 2
    data[at] = new
    path.write_bytes(data)
    p = run([etch, "rewrite", "--undo", path], ok=2)
    assert "was changed after etch rewrote it" in p.stderr and path.read_bytes() == data
    run([etch, "rewrite", path])
    once = path.read_bytes()
    run([etch, "rewrite", path])
    assert path.read_bytes() == once
    assert not run(["readelf", "-aW", path]).stderr
    # Where there was nothing to do the old record is still there, and says so.
    p = run([etch, "rewrite", "--undo", path], ok=2 if once == data else 0)
    assert path.read_bytes() == data and ("was changed after" in p.stderr) == (once == data)


@pytest.mark.parametrize("name", ["program", "object.o"])
def test_where_the_record_has_gone(files, etch, name, tmp_path):
    """As llvm-strip and eu-strip leave a file: nobody says that it was --no-undo."""
    path = tmp_path / name
    run(["objcopy", "-R", ".etch.undo", files[name][1], path])
    data = path.read_bytes()
    p = run([etch, "rewrite", "--undo", path], ok=2)
    assert p.stderr.endswith("rewritten with --no-undo, or stripped since\n") and path.read_bytes() == data


def test_linkers_drop_the_record(files, etch, tmp_path):
    _, after = files["comdat.o"]
    assert b".etch.undo" in after.read_bytes()
    for linker in ("bfd", "lld"):
        run(["gcc", f"-fuse-ld={linker}", "-shared", "-Wl,--unresolved-symbols=ignore-all", "-o", tmp_path / "out.so", after])
        assert ".etch.undo" not in run(["readelf", "-SW", tmp_path / "out.so"]).stdout


@pytest.mark.parametrize("name", NAMES)
def test_rewritten_programs_are_sound(files, name):
    after = files[name][1]
    lint = run(["eu-elflint", "--gnu-ld", after], ok=None).stdout
    assert not [line for line in lint.splitlines() if "etch.undo" in line], lint
    run(["readelf", "-aW", after])


def test_damaged_records(files, etch_asan, tmp_path):
    """Whatever stands in the record: the original, or an error and the file as it was."""
    before, after = (p.read_bytes() for p in files["program"])
    at = after.rindex(b"etchundo")
    r = random.Random(5)
    path = tmp_path / "file"
    for i in range(48 if os.environ.get("ETCH_TESTS") == "all" else 32):
        data = bytearray(after)
        if i < 20: # header fields at their extremes
            struct.pack_into("<Q", data, at + 8 + i % 7 * 4, r.choice([0, 1, 2**31, 2**32 - 1, 2**63, 2**64 - 1, len(data)]))
        else:
            for _ in range(r.randrange(1, 5)):
                data[r.randrange(at, len(data))] = r.randrange(256)
        path.write_bytes(data)
        p = run([etch_asan, "rewrite", "--undo", path], ok=(0, 2), env=asan_env())
        if p.returncode:
            assert len(p.stderr.splitlines()) == 1 and path.read_bytes() == data
        else:
            assert path.read_bytes() == before
        path.write_bytes(data)
        run([etch_asan, "rewrite", path], ok=(0, 2), env=asan_env())
