# SPDX-License-Identifier: MIT
"""ETCH-C005 to C007: .eh_frame_hdr and .sframe of real files, right and damaged."""

import json
import random
import struct
from pathlib import Path

import pytest
from elftools.elf.elffile import ELFFile

from conftest import run

LIBDIR = Path("/usr/lib/x86_64-linux-gnu")
IDS = ("ETCH-C005", "ETCH-C006", "ETCH-C007")


def found(etch, path, **how):
    p = run([etch, "check", "--format", "json", "--fail-on", "never", path], **how)
    return [x for f in json.loads(p.stdout)["files"] for x in f["findings"] if x["id"] in IDS]


def place(path, name):
    with open(path, "rb") as f:
        s = ELFFile(f).get_section_by_name(name)
        return s["sh_offset"], s["sh_size"], s["sh_addr"]


@pytest.fixture(scope="module")
def file(build, tmp_path_factory):
    """A library with both tables, by etch."""
    out = tmp_path_factory.mktemp("tables") / "t.so"
    run([build / "etch", "rewrite", "--no-undo", "--eh-frame", "--sframe", "-o", out, LIBDIR / "libz.so.1"])
    return out


@pytest.mark.parametrize("path", [LIBDIR / "libc.so.6", LIBDIR / "libstdc++.so.6", Path("/usr/bin/bash"),
                                  pytest.param(Path("/usr/bin/git"), marks=pytest.mark.long)], ids=lambda p: p.name)
def test_files_of_the_system(path, build):
    assert found(build / "etch", path) == []


@pytest.mark.parametrize("tool", [["objcopy", "--only-keep-debug"], ["eu-strip", "-f"]], ids=lambda t: t[0])
def test_debug_file_has_no_tables(build, tmp_path, tool):
    """Its program headers name places in the other file; here something else is there, or nothing."""
    debug = tmp_path / "c.debug"
    (tmp_path / "t.c").write_text("#include <stdlib.h>\nint main(int argc, char **argv) { return argc + !argv; }")
    run(["gcc", "-g3", "-O2", "-o", tmp_path / "t", tmp_path / "t.c"])
    run([*tool, *([tmp_path / "t", debug] if tool[0] == "objcopy" else [debug, tmp_path / "t"])])
    with open(debug, "rb") as f:
        assert any(s["p_type"] == "PT_GNU_EH_FRAME" for s in ELFFile(f).iter_segments())
    assert run([build / "etch", "check", "--level", "note", debug]).stdout == "no findings in 1 file\n"


def test_what_etch_writes(file, build, tmp_path):
    assert found(build / "etch", file) == []
    run([build / "etch", "rewrite", "--sframe=3", "-o", tmp_path / "t", LIBDIR / "libz.so.1"])
    assert found(build / "etch", tmp_path / "t") == []


def change_order(raw, at):
    raw[at + 12 + 8 * 20:at + 12 + 8 * 22] = raw[at + 12 + 8 * 21:at + 12 + 8 * 22] + raw[at + 12 + 8 * 20:at + 12 + 8 * 21]


def change_target(raw, at):
    raw[at + 16 + 8 * 20:at + 20 + 8 * 20] = raw[at + 16 + 8 * 30:at + 20 + 8 * 30]


def change_count(raw, at):
    struct.pack_into("<I", raw, at + 8, struct.unpack_from("<I", raw, at + 8)[0] - 3)


def change_version(raw, at):
    raw[at] = 9


@pytest.mark.parametrize("change,said", [(change_order, "out of order"), (change_target, "leads to no FDE"),
                                         (change_count, "3 FDEs are not in the table"), (change_version, "malformed")],
                         ids=lambda x: getattr(x, "__name__", None))
def test_index(change, said, file, build, tmp_path):
    raw = bytearray(file.read_bytes())
    change(raw, place(file, ".eh_frame_hdr")[0])
    (tmp_path / "t").write_bytes(raw)
    (x,) = found(build / "etch", tmp_path / "t")
    assert x["id"] == "ETCH-C005" and x["severity"] == "error" and said in x["text"]


def test_sframe_rows(file, build, tmp_path):
    """One offset of one row changed, at ten places: found where the row is."""
    rows = [line.split("\t") for line in
            run([build / "etch", "inspect", "sframe", "--format", "tsv", file]).stdout.splitlines()[1:]]
    at, size, _ = place(file, ".sframe")
    raw = file.read_bytes()
    header, fres = 28, struct.unpack_from("<I", raw, at + 24)[0] + 28
    assert len(rows) > 100 and header < fres < size
    rng, hits = random.Random(7), 0
    for _ in range(40):
        # the info byte of a row: base rsp, one word of one byte, which is the CFA's offset
        i = rng.randrange(fres, size - 3)
        if raw[at + i] != 3 or not 8 <= raw[at + i + 1] <= 120 or raw[at + i + 1] % 8:
            continue
        new = bytearray(raw)
        new[at + i + 1] += 8
        (tmp_path / "t").write_bytes(new)
        hits += {x["id"] for x in found(build / "etch", tmp_path / "t")} <= {"ETCH-C006", "ETCH-C007"} and \
            bool(found(build / "etch", tmp_path / "t"))
    assert hits >= 3


def test_damaged(file, build_asan, tmp_path):
    """Random bytes of both sections: findings or none, and no report."""
    raw, rng = file.read_bytes(), random.Random(11)
    for _ in range(12):
        new = bytearray(raw)
        for name in (".eh_frame_hdr", ".sframe"):
            at, size, _ = place(file, name)
            for _ in range(rng.randrange(1, 6)):
                new[at + rng.randrange(min(size, 64 if rng.random() < 0.5 else size))] = rng.randrange(256)
        (tmp_path / "t").write_bytes(new)
        p = run([build_asan / "etch", "check", "--fail-on", "never", tmp_path / "t"], ok=None)
        assert p.returncode in (0, 2) and "Sanitizer" not in p.stderr and "runtime error" not in p.stderr, p.stderr


def test_other_versions(build, file, tmp_path):
    """GNU binutils 2.40 writes version 1, which is no damage."""
    raw = bytearray(file.read_bytes())
    raw[place(file, ".sframe")[0] + 2] = 1
    (tmp_path / "t").write_bytes(raw)
    assert found(build / "etch", tmp_path / "t") == []
