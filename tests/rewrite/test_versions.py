# SPDX-License-Identifier: MIT
"""Files of other versions of etch: what an earlier commit has compiled, rewritten and written is used, or refused with one
line, and never makes a program do something else (docs/formats.md, "Versions").

tests/data/versions has the files, and says what they are; scripts/make_version_fixtures.py makes them, of any commit. The
program there checks itself: "done", or "refused: REASON" where the library says that it does not know the file's tables."""

import json
import lzma
import os
import re
import shutil
import struct
import subprocess
from hashlib import sha256
from pathlib import Path

import pytest

from conftest import DATA, ROOT, asan_env, build_id, run

HERE = DATA / "versions"
VERSIONS = {p.parent: json.loads(p.read_text()) for p in sorted(HERE.glob("*/files.json"))}
FILES = [(d, name) for d, v in VERSIONS.items() for name in v["files"]]
PROGRAMS = [(d, name) for d, name in FILES if not name.endswith(".o")]
UNDONE = [(d, name) for d, name in FILES if VERSIONS[d]["files"][name].get("undo", True)]
LINKED = ["program", "settings"]


def parameters(files):
    return pytest.mark.parametrize("where", files, ids=[f"{d.name}-{name}" for d, name in files])


versions = pytest.mark.parametrize("directory", VERSIONS, ids=lambda d: d.name)


def entry(where):
    return VERSIONS[where[0]]["files"][where[1]]


def digest(path):
    return sha256(path.read_bytes()).hexdigest()


def outcome(exe, library, *words, **variables):
    """What the program says with this directory's libetch.so.0: "done" or "refused: REASON"."""
    p = run([exe, *words], ok=None, env={**os.environ, "LD_LIBRARY_PATH": str(library), **{k: str(v) for k, v in variables.items()}})
    said = p.stdout.strip()
    assert not p.stderr and (p.returncode, said[:9]) in ((0, "done"), (3, "refused: ")), (p.returncode, p.stdout, p.stderr)
    return said


def works(exe, library, words):
    assert [outcome(exe, library), outcome(exe, library, *words), outcome(exe, library, *words, "prepare")] == ["done"] * 3


def one_line(p, name, reason):
    """An error of the tool: exit status 2, one line with the file's name and the reason."""
    assert p.returncode == 2 and re.fullmatch(rf"etch: [^\n]*{re.escape(name)}: [^\n]*{reason}[^\n]*\n", p.stderr), (p.returncode, p.stderr)


def compiled(tmp_path, name, etch, options=("-fPIE",)):
    """One of the program's objects, of this tree's headers and tool."""
    out = tmp_path / f"{name}-new.o"
    run(["gcc", "-std=gnu11", "-D_GNU_SOURCE", "-Os", *options, f"-I{ROOT}/lib/include", "-c", "-o", out, HERE / f"{name}.c"])
    run([etch, "rewrite", out])
    return out


# ---- earlier files, this build ------------------------------------------------------


def test_there_are_fixtures():
    assert "d688e76d" in {d.name for d in VERSIONS} and len(PROGRAMS) >= 6 and len(UNDONE) >= 7


@parameters(PROGRAMS)
def test_a_program_runs_with_this_library(build, where):
    """Values, calls, branches, markers, faults and walks, as the earlier tool has left them."""
    works(where[0] / where[1], build, entry(where)["words"])


@versions
def test_a_status_is_one_that_the_program_knows(build, directory):
    """What an earlier program may use as an index, or in a switch, is in its headers' enum, whatever the library has learned
    to tell since: here, of a call through a null pointer."""
    assert outcome(directory / "program", build, "wild") == outcome(directory / "program", build, "wild", "prepare", "table") == "done"


@parameters(UNDONE)
def test_this_tool_restores_the_original(etch, tmp_path, where):
    out = tmp_path / "file"
    run([etch, "rewrite", "--undo", "-o", out, where[0] / where[1]])
    assert digest(out) == entry(where)["original"]


@parameters(PROGRAMS)
def test_a_program_is_rewritten_again(build, etch, tmp_path, where):
    """... into what its original is rewritten to, with the same options, and into nothing else by one more run."""
    file, options = where[0] / where[1], entry(where)["options"]
    again, original, twice = tmp_path / "again", tmp_path / "original", tmp_path / "twice"
    run([etch, "rewrite", *options, "-o", again, file])
    works(again, build, entry(where)["words"])
    run([etch, "rewrite", *options, "-o", twice, again])
    assert twice.read_bytes() == again.read_bytes()
    if entry(where)["undo"]:
        run([etch, "rewrite", "--undo", "-o", original, again])
        assert digest(original) == entry(where)["original"]
        run([etch, "rewrite", *options, original])
        assert again.read_bytes() == original.read_bytes()


VIEWS = ["summary", "sites", "orc", "cfi", "tables", "marks", "fields"]


@parameters(FILES)
def test_its_tables_are_read(etch, etch_asan, tmp_path, where):
    """inspect and check read the tables of the file itself; under ASan, too."""
    file = where[0] / where[1]
    for tool in (etch, etch_asan):
        for view in VIEWS if tool == etch_asan and not where[1].endswith(".o") else ["summary", "orc"]:
            assert run([tool, "inspect", view, file], env=asan_env()).stdout
        findings = json.loads(run([tool, "check", "--format", "json", "--fail-on", "never", file], env=asan_env()).stdout)
        assert not [f for f in findings["files"][0]["findings"] if f["id"].startswith("ETCH-T")]
    if where[1].endswith(".o"):
        return
    # The rows of a function that has no FDE are those of its four instructions that move rsp.
    rows = {int(r[0], 16): r[2] for r in (line.split("\t") for line in run([etch, "inspect", "orc", "--format", "tsv", file]).stdout.splitlines()[1:])}
    through = next((int(line.split()[0], 16) for line in run(["nm", file], ok=None).stdout.splitlines() if line.endswith(" T through")), None)
    assert (through is None) == (where[1] == "stripped")
    if through:
        before = max(a for a in rows if a <= through)
        assert [rows[before], *(rows[through + i] for i in (1, 3, 7))] == ["rsp+8", "rsp+16", "rsp+24", "rsp+48"]


# ---- earlier objects, this link step ---------------------------------------------------

MIXTURES = {"old": ("old", "old"), "old-new": ("old", "new"), "new-old": ("new", "old"), "undone": ("undone", "undone")}


@pytest.mark.parametrize("static", [False, True], ids=["shared", "static"])
@pytest.mark.parametrize("mixture", MIXTURES)
@versions
def test_earlier_objects_are_linked(build, etch, tmp_path, directory, mixture, static):
    """Objects compiled with earlier headers, and rewritten by the earlier object step (or taken back to what the compiler
    wrote, and rewritten by this one), beside objects of today."""
    objects = []
    for name, age in zip(LINKED, MIXTURES[mixture]):
        if age == "new":
            objects.append(compiled(tmp_path, name, etch))
            continue
        objects.append(tmp_path / f"{name}.o")
        shutil.copy(directory / f"{name}.o", objects[-1])
        if age == "undone":
            run([etch, "rewrite", "--undo", objects[-1]])
            run([etch, "rewrite", objects[-1]])
    exe = tmp_path / "exe"
    library = [build / "libetch.a"] if static else [f"-L{build}", "-letch"]
    run(["gcc", "-pie", "-o", exe, *objects, *library, "-pthread"])
    assert outcome(exe, build) == "done"
    run([etch, "rewrite", exe])
    works(exe, build, ["immediate", "table"])


# ---- earlier tables and recordings --------------------------------------------------------


@versions
def test_a_directory_of_tables(build, etch, tmp_path, directory):
    """An earlier table is read, or passed over, and `tables status` says which and why; an update makes it usable."""
    exe, cache = tmp_path / "exe", tmp_path / "tables"
    run([etch, "rewrite", "--undo", "-o", exe, directory / "program"])
    shutil.copytree(directory / "tables", cache)
    table = cache / build_id(exe)
    assert table.exists()

    def status():
        return json.loads(run([etch, "tables", "status", "--format", "json", "--directory", cache, exe]).stdout)[0]["table"]

    assert outcome(exe, build, "table", "prepare").startswith("refused: ")  # by .eh_frame alone
    said, says = outcome(exe, build, "table", "prepare", ETCH_SIDECAR_DIR=cache), status()
    if said == "done":
        assert says == str(table)
    else:
        assert re.search(rf"{re.escape(str(table))} is of (an earlier|another) \w+", says), says
    assert not run([etch, "tables", "update", "--directory", cache, exe]).stderr
    assert outcome(exe, build, "table", "prepare", ETCH_SIDECAR_DIR=cache) == "done" and status() == str(table)


@versions
def test_a_baseline(etch, directory):
    """Findings that an earlier `etch check` has recorded are known to this one."""
    check = [etch, "check", "--fail-on", "warning", "program"]
    recorded = json.loads((directory / "baseline.json").read_text())["files"][0]["findings"]
    assert "ETCH-I005" in [f["id"] for f in recorded]
    run(check, ok=1, cwd=directory)
    run([*check, "--baseline", "baseline.json"], cwd=directory)


@versions
def test_a_recording_of_an_earlier_recorder(etch, tmp_path, directory):
    """One that an earlier libetch-heap.so has made, as where etch alone was replaced."""
    run(["tar", "-C", tmp_path, "-xJf", directory / "recording.tar.xz"])
    recording = tmp_path / "recording"
    head = recording.open("rb").read(16)
    assert head[:8] == b"etchheap"
    shutil.copy(etch, tmp_path / "etch")
    run(["gcc", "-shared", "-fPIC", f'-DRECORDING="{recording}"', "-o", tmp_path / "libetch-heap.so", HERE / "recorder.c"])
    p = run([tmp_path / "etch", "heap", "--", "true"], ok=2)
    assert not p.stdout and re.fullmatch(r"etch: true: [^\n]*its recorder is of another version of etch\n", p.stderr), p.stderr


# ---- files of this build, the earlier library ------------------------------------------------


@pytest.fixture(scope="module")
def earlier_library(tmp_path_factory):
    def get(directory):
        out = tmp_path_factory.mktemp("library")
        (out / "libetch.so.0").write_bytes(lzma.decompress((directory / "libetch.so.0.xz").read_bytes()))
        return out
    return get


OPTIONS = {"plain": [], "registers": ["--registers", "--eh-frame=all"], "orc": ["--encoding", "orc"], "sframe": ["--sframe"]}
LINKS = {"pie": (["-fPIE"], ["-pie"]), "packed": (["-fPIE"], ["-pie", "-Wl,-z,noseparate-code"]), "fixed": (["-fno-pie"], ["-no-pie"])}


@pytest.mark.parametrize("link, option", [("pie", o) for o in OPTIONS] + [("packed", "plain"), ("fixed", "plain")])
@versions
def test_a_program_of_today_runs_with_an_earlier_library(build, etch, tmp_path, earlier_library, directory, link, option):
    """It works; or the library finds no tables, and says so; or the dynamic linker names what is missing."""
    library, exe = earlier_library(directory), tmp_path / "exe"
    run(["gcc", *LINKS[link][1], "-o", exe, *(compiled(tmp_path, n, etch, LINKS[link][0]) for n in LINKED), f"-L{build}", "-letch", "-pthread"])
    run([etch, "rewrite", *OPTIONS[option], exe])
    works(exe, build, ["immediate", "table"])
    if "version `ETCH_" in run([exe], ok=None, env={**os.environ, "LD_LIBRARY_PATH": str(library)}).stderr:
        return
    assert outcome(exe, library) == "done" and outcome(exe, library, "immediate") == "done"
    for words in (["table"], ["table", "prepare"]):
        assert outcome(exe, library, *words) in ("done", "refused: no unwind table for this address",
                                                 "refused: the unwind table has no rule for this address")


# ---- files of versions that are not known ------------------------------------------------------


def section(data, name):
    """Offset and size of a section in the file."""
    shoff, = struct.unpack_from("<Q", data, 40)
    count, strings = struct.unpack_from("<HH", data, 60)
    headers = [struct.unpack_from("<IIQQQQ", data, shoff + 64 * i) for i in range(count)]
    names = data[headers[strings][4]:]
    return next((h[4], h[5]) for h in headers if names[h[0]:].split(b"\0")[0].decode() == name)


# Where a version is: section, offset and format of the number. All are of linked files; a record is of an object, too.
NUMBERS = {"segment": (".etch.segment", 20, "<I"), "module": ("__etch_mod", 4, "<H"), "table": (".etch.unwind", 4, "<H"),
           "undo": (".etch.undo", 8, "<I")}


def of_version(source, out, what, number):
    name, at, form = NUMBERS[what]
    data = bytearray(source.read_bytes())
    offset, size = section(data, name)
    # Each object that includes the header has a descriptor, of which the linker keeps all.
    for place in range(offset, offset + size if what == "module" else offset + 1, 64):
        struct.pack_into(form, data, place + at, number)
    out.write_bytes(data)
    out.chmod(0o755)
    return out


@pytest.mark.parametrize("number", [0, 9, 0xffff])
@pytest.mark.parametrize("what", NUMBERS)
def test_a_number_that_is_not_known(build, etch, tmp_path, what, number):
    """Of each number that says what follows: the tool refuses the file in one line that names it, the library does not use
    the table; memory, code and walks stay right."""
    exe = of_version(HERE / "d688e76d" / "program", tmp_path / "exe", what, number)
    p = run([etch, "rewrite", "-o", tmp_path / "out", exe], ok=None)
    if what in ("segment", "module"):
        one_line(p, "exe", "version")
        assert not (tmp_path / "out").exists()
    if what == "undo":
        # Another etch can still tell the original, so that this one must not put its own record there.
        one_line(p, "exe", f"undo record of version {number},")
        one_line(run([etch, "rewrite", "--undo", "-o", tmp_path / "out", exe], ok=None), "exe", f"undo record of version {number},")
        assert not (tmp_path / "out").exists()
        works(exe, build, ["immediate", "table"])
    if what == "table":
        one_line(run([etch, "inspect", "orc", exe], ok=None), "exe", "version")
    if what in ("segment", "table"):
        assert outcome(exe, build, "immediate") == "done"
        assert outcome(exe, build, "table") == "refused: no unwind table for this address"
    if what == "module":
        assert outcome(exe, build, "immediate", "table").startswith("refused: ")


@pytest.mark.parametrize("number", [0, 9, 0xffff])
def test_an_object_with_an_undo_record_that_is_not_known(etch, tmp_path, number):
    file = of_version(HERE / "d688e76d" / "settings.o", tmp_path / "settings.o", "undo", number)
    before = digest(file)
    for args in ([], ["--undo"]):
        one_line(run([etch, "rewrite", *args, file], ok=None), "settings.o", f"undo record of version {number},")
        assert digest(file) == before
