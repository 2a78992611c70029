# SPDX-License-Identifier: MIT
"""etch tables: a directory with the table of every file of a system, kept from run to run (tool/tables)."""

import hashlib
import json
import os
import re
import shutil
import signal
import struct
import subprocess
import time
from pathlib import Path

import pytest

from conftest import INCLUDE, ROOT, build_id, need, run

LIBRARIES = Path("/usr/lib/x86_64-linux-gnu")


@pytest.fixture(scope="module")
def system(etch, tmp_path_factory):
    """A few files, as a system has them: programs, a library under two names, what has no table, what is no program."""
    root = tmp_path_factory.mktemp("system")
    (root / "main.c").write_text("int f(int x) { return x + 1; }\nint main(void) { return f(-1); }\n")
    for name, flags in {"one": ["-O1"], "two": ["-O2"], "lib.so": ["-shared", "-fPIC"], "no-id": ["-Wl,--build-id=none"],
                        "own": ["-O1", "-DOWN"], "object.o": ["-c"]}.items():
        run(["gcc", *flags, "-o", root / name, root / "main.c"])
    os.link(root / "lib.so", root / "lib.so.0")
    os.symlink("one", root / "link")
    shutil.copy(root / "one", root / "copy")
    run(["objcopy", "--only-keep-debug", root / "two", root / "two.debug"])
    run([etch, "rewrite", root / "own"])
    return root


def tables(directory):
    return {p.name: p.read_bytes() for p in directory.iterdir() if not p.name.startswith(".")}


def update(etch, directory, *args, **kw):
    return run([etch, "tables", "update", "--directory", directory, *args], **kw)


def test_each_file_gets_the_table_of_a_sidecar(etch, system, tmp_path):
    p = update(etch, tmp_path / "cache", system)
    size = f"{sum(map(len, tables(tmp_path / 'cache').values())) / 1e3:.1f} KB"
    assert p.stdout == f"3 tables made, 0 removed; {tmp_path}/cache has {size}\n"
    assert run([etch, "tables", "--directory", tmp_path / "cache"]).stdout.startswith(f"{tmp_path}/cache: 3 tables, {size}\n")
    assert run([etch, "tables", "--directory", tmp_path / "none"]).stdout.startswith(f"{tmp_path}/none: 0 tables, 0 B\n")
    (tmp_path / "side").mkdir()
    run([etch, "rewrite", "--only", "orc", "--sidecar", tmp_path / "side", *(system / n for n in ("one", "two", "lib.so"))])
    assert tables(tmp_path / "cache") == tables(tmp_path / "side") and len(tables(tmp_path / "side")) == 3
    assert {build_id(system / n) for n in ("one", "two", "lib.so")} == set(tables(tmp_path / "cache"))
    assert all(p.stat().st_mode & 0o777 == 0o644 for p in (tmp_path / "cache").iterdir())


def test_an_update_makes_only_what_is_new(etch, system, tmp_path):
    update(etch, tmp_path, system / "one")
    seen = {p.name: p.stat().st_ino for p in tmp_path.iterdir() if p.name[0] != "."}
    assert update(etch, tmp_path, system).stdout.startswith("2 tables made, 0 removed;")
    assert {n: (tmp_path / n).stat().st_ino for n in seen} == seen


def test_what_no_file_needs_is_removed(etch, system, tmp_path):
    update(etch, tmp_path, system)
    (tmp_path / "README").write_text("not a table")
    assert update(etch, tmp_path, "--prune", system / "one").stdout.startswith("0 tables made, 2 removed;")
    assert set(tables(tmp_path)) == {build_id(system / "one"), "README"}


def test_clear_removes_all_that_is_its_own(etch, system, tmp_path):
    update(etch, tmp_path / "cache", system)
    (tmp_path / "cache/README").write_text("not a table")
    assert run([etch, "tables", "clear", "--directory", tmp_path / "cache"]).stdout == "3 tables removed\n"
    assert [p.name for p in (tmp_path / "cache").iterdir()] == ["README"]
    (tmp_path / "cache/README").unlink()
    run([etch, "tables", "clear", "--directory", tmp_path / "cache"])
    assert not (tmp_path / "cache").exists()
    assert run([etch, "tables", "clear", "--directory", tmp_path / "cache"]).stdout == "0 tables removed\n"


def test_a_file_without_rows_is_asked_once(etch, system, tmp_path):
    """A sidecar without a table stands for it, which readers pass over; another version of etch asks again."""
    bad = tmp_path / "bad"
    data = bytearray((system / "one").read_bytes())
    data[0x28:0x30] = (2**40).to_bytes(8, "little")    # e_shoff: section headers outside the file
    bad.write_bytes(data)
    cache = tmp_path / "cache"
    p = update(etch, cache, "-v", bad)
    assert "1 file cannot have one" in p.stdout and p.stderr.startswith(f"etch: {bad}: ")
    refusal, = tables(cache).values()
    assert set(tables(cache)) == {build_id(system / "one")} and len(refusal) == 128 and refusal[8:16] == bytes(8)
    p = update(etch, cache, "-v", bad)
    assert p.stdout.startswith("0 tables made") and not p.stderr
    state = (cache / ".state").read_text()
    os.utime(cache / build_id(system / "one"), (1, 1))
    (cache / ".state").write_text(state.replace("etch 0", "etch 9", 1))
    assert "1 file cannot have one" in update(etch, cache, bad).stdout
    (cache / ".state").write_text("garbage")
    os.utime(cache / build_id(system / "one"), (1, 1))
    assert update(etch, cache, system / "one").stdout.startswith("1 table made")


def libraries(least, most, total):
    """Libraries of so many bytes each, and in sum."""
    found = []
    for path in sorted(LIBRARIES.glob("lib*.so.*")):
        if path.is_file() and not path.is_symlink() and least <= path.stat().st_size <= most and total > 0:
            found.append(path)
            total -= path.stat().st_size
    if total > 0:
        pytest.skip("few libraries here")
    return found


def test_killed_anywhere_the_next_one_goes_on(etch, tmp_path):
    files = libraries(100_000, 1_000_000, 6_000_000)
    update(etch, tmp_path / "whole", *files)
    whole = tables(tmp_path / "whole")
    cache, kills = tmp_path / "cache", 0
    for wait in (0.02, 0.05, 0.1, 0.15):
        p = subprocess.Popen([etch, "tables", "update", "-j", "2", "--directory", cache, *files], stdout=subprocess.DEVNULL)
        time.sleep(wait)
        p.send_signal(signal.SIGKILL)
        kills += p.wait() == -signal.SIGKILL
        seen = tables(cache) if cache.exists() else {}
        assert seen.items() <= whole.items()
        time.sleep(0.1)    # for its workers, which end by themselves
    assert kills
    if cache.exists() and (cache / ".state").exists() and len(tables(cache)) < len(whole):
        assert "was ended before it was complete" in run([etch, "tables", "--directory", cache]).stdout
    update(etch, cache, *files)
    assert tables(cache) == whole


def test_no_more_than_a_size(etch, tmp_path):
    files = libraries(2_000_000, 8_000_000, 60_000_000)
    p = update(etch, tmp_path / "some", "--max-size", "1", *files)
    made = tables(tmp_path / "some")
    assert "their tables would exceed --max-size" in p.stdout
    assert 500_000 < sum(map(len, made.values())) <= 1_000_000 and len(made) < len(files)
    assert json.loads(run([etch, "tables", "--format", "json", "--directory", tmp_path / "some"]).stdout)["end"] == "size"


def test_no_longer_than_a_time(etch, system, tmp_path):
    """By a clock that runs: each look at it is a second later."""
    shim = tmp_path / "shim.so"
    (tmp_path / "shim.c").write_text("#include <time.h>\nint clock_gettime(clockid_t id, struct timespec *t)\n"
                                     "{ static long s; t->tv_sec = ++s; t->tv_nsec = 0; return 0; }\n")
    run(["gcc", "-shared", "-fPIC", "-o", shim, tmp_path / "shim.c"])
    made = {}
    for limit in range(1, 12):
        cache = tmp_path / str(limit)
        p = update(etch, cache, "--max-time", limit, system, env={**os.environ, "LD_PRELOAD": str(shim)})
        made[limit] = len(tables(cache))
        left = re.search(r"^(\d) files? (?:is|are) left: --max-time has passed; the next update continues with them$", p.stdout, re.M)
        assert made[limit] + (int(left[1]) if left else 0) == 3
        assert update(etch, cache, system).stdout.startswith(f"{3 - made[limit]} table") and len(tables(cache)) == 3
    assert made[1] == 0 and made[11] == 3 and {1, 2} & set(made.values()) and sorted(made.values()) == list(made.values())


def test_one_update_at_a_time(etch, system, tmp_path):
    import fcntl
    update(etch, tmp_path, "-q", system / "one")
    with open(tmp_path / ".lock") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        assert update(etch, tmp_path, system).stdout == f"another etch tables update is running in {tmp_path}\n"
        p = run([etch, "tables", "clear", "--directory", tmp_path], ok=2)
        assert p.stderr == f"etch: {tmp_path}: another etch tables update is running there\n"
    assert update(etch, tmp_path, system).stdout.startswith("2 tables made")


def test_which_table_has_a_file(etch, system, tmp_path):
    update(etch, tmp_path / "a", system / "one")
    update(etch, tmp_path / "b", system / "one", system / "two")
    p = run([etch, "tables", "status", "--format", "json", "--directory", tmp_path / "b",
             *(system / n for n in ("one", "two", "lib.so", "own", "no-id", "object.o"))],
            env={**os.environ, "ETCH_SIDECAR_DIR": str(tmp_path / "a")})
    rows = {Path(r["file"]).name: (r["build_id"], r["table"]) for r in json.loads(p.stdout)}
    one, two = build_id(system / "one"), build_id(system / "two")
    none = "none: made from .eh_frame by each process that needs it"
    assert rows == {"one": (one, f"{tmp_path}/a/{one}"), "two": (two, f"{tmp_path}/b/{two}"),
                    "lib.so": (build_id(system / "lib.so"), none), "own": (build_id(system / "own"), "the file itself"),
                    "no-id": (None, none) if rows["no-id"][0] is None else ("-", none),
                    "object.o": (rows["object.o"][0], "no program or library with code")}


def test_status_counts_what_the_system_has(etch, tmp_path):
    update(etch, tmp_path, "-q", "/usr/bin/env")
    j = json.loads(run([etch, "tables", "--format", "json", "--directory", tmp_path]).stdout)
    assert j["tables"] == 1 and j["bytes"] == sum(map(len, tables(tmp_path).values())) and j["end"] == "complete"
    assert j["files"]["table"] >= 1 and j["files"]["missing"] > 10 and j["files"]["old"] == 0
    text = run([etch, "tables", "status", "--directory", tmp_path]).stdout
    assert re.search(r"^ +%d  have none yet: etch tables update$" % j["files"]["missing"], text, re.M)
    assert "no update yet" in run([etch, "tables", "--directory", tmp_path / "none"]).stdout


@pytest.mark.parametrize("argv, message", [
    (["make"], "'make' is not status, update or clear; see etch tables --help"),
    (["clear", "/bin/sh"], "tables clear takes no FILE: it removes all tables"),
    (["--format", "tsv"], "--format: tsv is for FILEs; without, it is text or json"),
    (["update", "--directory", "/dev/null/x", "/bin/sh"], "/dev/null/x: Not a directory"),
    (["update", "--directory", "/proc/none", "/bin/sh"], "/proc/none: "),
    (["update", "--directory", ".", "/nonexistent"], "/nonexistent: No such file or directory"),
])
def test_messages(etch, tmp_path, argv, message):
    p = run([etch, "tables", *argv], ok=2, cwd=tmp_path)
    assert p.stderr.startswith(f"etch: {message}") and p.stderr.count("\n") == 1


def test_a_file_rewritten_without_a_table_gets_one(build, etch, tmp_path):
    (tmp_path / "main.c").write_text("#include <etch/imv.h>\nDEFINE_IMV(int, value) = 3;\nint main(void) { return imv_read(value); }\n")
    run(["gcc", "-O2", f"-I{INCLUDE}", "-o", tmp_path / "etched", tmp_path / "main.c", build / "libetch.a"])
    run([etch, "rewrite", "--only", "imv", tmp_path / "etched"])
    sections = run(["readelf", "-SW", tmp_path / "etched"]).stdout
    assert ".etch.segment" in sections and ".etch.unwind" not in sections
    cache = tmp_path / "cache"
    assert update(etch, cache, tmp_path / "etched").stdout.startswith("1 table made")
    p = run([etch, "tables", "status", "--directory", cache, tmp_path / "etched"])
    assert p.stdout.splitlines()[1].endswith(f" {cache}/{build_id(tmp_path / 'etched')}")


def test_what_cannot_be_read_is_said_with_the_reason(etch, tmp_path):
    (tmp_path / "empty").mkdir()
    os.symlink("gone", tmp_path / "link")
    p = run([etch, "tables", "status", "--format", "tsv", tmp_path / "link", tmp_path / "empty"], ok=2)
    assert [line.split("\t")[2] for line in p.stdout.splitlines()[1:]] == [
        "cannot be read: No such file or directory", "cannot be read: is a directory without x86-64 ELF files"]


@pytest.fixture(scope="module")
def spin(etch, tmp_path_factory):
    """A program that `etch profile` samples; the directories in which it looks for the program's table."""
    need("strace")
    if run([etch, "profile", "-q", "--", "true"], ok=(0, 2)).returncode:
        pytest.skip("no samples here")
    tmp = tmp_path_factory.mktemp("spin")
    (tmp / "spin.c").write_text("int main(void) { for (volatile unsigned i = 0; i < 200000000; i++); }\n")
    run(["gcc", "-O1", "-o", tmp / "spin", tmp / "spin.c"])

    def asked(side):
        # Its calls alone, not the command's.
        run(["strace", "-e", "trace=access,faccessat,faccessat2,openat", "-o", tmp / "log", etch, "profile", "-q", "--", tmp / "spin"],
            env={**os.environ, "ETCH_SIDECAR_DIR": str(side)})
        # Each file asks from the first directory on; a directory that is there is asked for the file's build-id.
        found = []
        for group in (tmp / "log").read_text().split(f'openat(AT_FDCWD, "{side}", O_RDONLY|O_CLOEXEC|O_PATH|O_DIRECTORY)')[1:]:
            if f'"{build_id(tmp / "spin")}' in group:
                found += [str(side), *re.findall(r'openat\(AT_FDCWD, "([^"]*)", [A-Z_|]*O_PATH\|O_DIRECTORY', group)]
        return found
    return tmp / "spin", asked


def test_readers_look_in_the_order_that_is_said(etch, spin, tmp_path):
    """etch profile, by the files that it asks for."""
    program, asked = spin
    (tmp_path / "side").mkdir()
    places = [str(tmp_path / "side"), "/usr/lib/etch/unwind", "/var/cache/etch"]
    assert asked(tmp_path / "side") == places
    update(etch, tmp_path / "side", "-q", program)
    assert asked(tmp_path / "side") == places[:1]


@pytest.mark.parametrize("what, taken", [("link", False), ("hard link", True), ("link to nothing", False), ("shorter", False),
                                         ("another file's", False), ("empty", False), ("directory", False)])
def test_status_says_what_readers_take(etch, spin, tmp_path, what, taken):
    """A reader that passes a table over goes on to the next directory."""
    program, asked = spin
    update(etch, tmp_path / "cache", "-q", program, "/usr/bin/env")
    table, side = tmp_path / "cache" / build_id(program), tmp_path / "side"
    side.mkdir()
    it = side / table.name
    if "link" in what:
        # No link is followed in a directory of tables.
        (os.link if what == "hard link" else os.symlink)(table if what != "link to nothing" else tmp_path / "none", it)
    elif what == "directory":
        it.mkdir()
    else:
        it.write_bytes({"shorter": table.read_bytes()[:-8], "empty": b"",
                        "another file's": (tmp_path / "cache" / build_id("/usr/bin/env")).read_bytes()}[what])
    p = run([etch, "tables", "status", "--directory", tmp_path / "nothing", program], env={**os.environ, "ETCH_SIDECAR_DIR": str(side)})
    said = p.stdout.splitlines()[1]
    assert said.endswith(f" {it}") if taken else " none: made from .eh_frame" in said
    assert ("/usr/lib/etch/unwind" not in asked(side)) == taken


def test_a_directory_of_links_is_counted_and_cleared(etch, system, tmp_path):
    update(etch, tmp_path / "tables", "-q", system)
    (tmp_path / "cache").mkdir()
    for name in tables(tmp_path / "tables"):
        os.symlink(tmp_path / "tables" / name, tmp_path / "cache" / name)
    assert json.loads(run([etch, "tables", "--format", "json", "--directory", tmp_path / "cache"]).stdout)["tables"] == 0
    assert run([etch, "tables", "clear", "--directory", tmp_path / "cache"]).stdout == "3 tables removed\n"
    assert not (tmp_path / "cache").exists() and len(tables(tmp_path / "tables")) == 3


# ---- whose table it is -------------------------------------------------------------------

FIXTURE = ROOT / "tests/data/sidecars"


def identity(path):
    """A second reader of the two hashes, from docs/formats.md."""
    data = bytearray(Path(path).read_bytes())
    data[0x28:0x30], data[0x3a:0x40] = bytes(8), bytes(6)
    phoff, phnum = struct.unpack_from("<Q", data, 0x20)[0], struct.unpack_from("<H", data, 0x38)[0]
    segments = [struct.unpack_from("<IIQQQQQQ", data, phoff + 56 * i) for i in range(phnum)]
    loaded = [(s[2], s[3], s[5]) for s in segments if s[0] == 1]
    layout = data[:64] + data[phoff:phoff + 56 * phnum]
    for kind, _, _, at, _, size, _, _ in segments:
        if kind == 0x6474e550:
            offset, start, _ = next(p for p in loaded if p[1] <= at and at + size <= p[1] + p[2])
            layout += data[offset + at - start:][:size]
    contents = b"".join(bytes(data[offset:offset + size]) for offset, _, size in loaded)
    return tuple(hashlib.blake2b(bytes(x), digest_size=32).digest() for x in (layout, contents))


@pytest.mark.parametrize("strip", [[], ["strip"], ["strip", "-g"], ["objcopy", "--remove-section=.comment"], ["a program of the system"]])
def test_a_sidecar_names_what_it_was_made_of(etch, system, tmp_path, strip):
    program = shutil.copy(system / "one", tmp_path / "one")
    if strip == ["a program of the system"]:
        program = shutil.copy("/bin/true", tmp_path / "one")
    elif strip:
        run([*strip, program])
    (tmp_path / "side").mkdir()
    run([etch, "rewrite", "--only", "orc", "--sidecar", tmp_path / "side", program])
    made, = (tmp_path / "side").iterdir()
    head = struct.unpack_from("<4sHHQ32s32s48x", made.read_bytes())
    assert head == (b"etsc", 1, 128, made.stat().st_size - 128, *identity(program)) and not any(made.read_bytes()[80:128])
    # The first update of a directory makes again what is older than itself, by its seconds; it is the same then.
    before = made.read_bytes()
    update(etch, tmp_path / "side", program)
    assert update(etch, tmp_path / "side", program).stdout.startswith("0 tables made") and made.read_bytes() == before
    assert strip or identity(program) == identity(system / "one")


@pytest.fixture(scope="module")
def namesakes(tmp_path_factory):
    """Files with the build-id of another: `victim` is the right one."""
    tmp = tmp_path_factory.mktemp("namesakes")
    (tmp / "main.c").write_text("int f(int x) { return x + 1; }\n#ifdef MORE\nint g(int x) { return f(x) + f(2 * x); }\n#endif\n"
                                "int main(void) { return f(-1); }\n")
    for name, flags in {"victim": ["-O1"], "other": ["-O0", "-DMORE"], "third": ["-O2", "-DMORE"]}.items():
        run(["gcc", *flags, "-Wl,--build-id=0x1234567890", "-o", tmp / name, tmp / "main.c"])
    data = bytearray((tmp / "other").read_bytes())
    data[0x28:0x30] = (2**40).to_bytes(8, "little")    # section headers outside the file: it is refused
    (tmp / "refused").write_bytes(data)
    data = bytearray((tmp / "victim").read_bytes())
    at = data.index(bytes.fromhex("8d4701c3"))    # f: lea 1(%rdi),%eax; ret
    data[at + 2] = 9
    (tmp / "twin").write_bytes(data)    # the same headers and .eh_frame_hdr
    data[0x28:0x30] = (2**40).to_bytes(8, "little")
    (tmp / "refused twin").write_bytes(data)
    return tmp


def taken(etch, directory, program):
    """The sidecar that a reader takes for a file, and the file that it says it is of; None: none."""
    row, = json.loads(run([etch, "tables", "status", "--format", "json", "--directory", directory, program]).stdout)
    if not row["table"].startswith(f"{directory}/"):
        assert row["table"].startswith("none: made from .eh_frame")
        return None
    data = Path(row["table"]).read_bytes()
    assert data[16:48] == identity(program)[0]
    return data[48:80]


ORDERS = [[["victim"]], [["other"], ["victim"]], [["victim"], ["other"]], [["other", "victim"]], [["victim", "other"]],
          [["refused"], ["victim"]], [["refused", "victim"]], [["victim"], ["refused"]],
          [["other"], ["third"], ["victim"]], [["third", "other", "victim"]], [["refused"], ["other"], ["victim", "third"]]]


@pytest.mark.parametrize("prune", [[], ["--prune"]])
@pytest.mark.parametrize("order", ORDERS, ids=lambda o: ", ".join("+".join(x) for x in o))
def test_namesakes_have_tables_of_their_own(etch, namesakes, tmp_path, order, prune):
    """Whatever other file has its build-id, and when it came: each file that can have a table has its own."""
    for names in order:
        update(etch, tmp_path, *prune, *(namesakes / n for n in names))
    last = {n for names in (order[-1:] if prune else order) for n in names}
    # `refused` loads the same as `other`: their sidecar is one.
    count = len({"other" if n == "refused" else n for n in last})
    for name in ("victim", "other", "third"):
        assert taken(etch, tmp_path, namesakes / name) == (identity(namesakes / name)[1] if name in last else None)
    before = tables(tmp_path)
    assert len(before) == count
    assert update(etch, tmp_path, *prune, *(namesakes / n for n in order[-1])).stdout.startswith("0 tables made, 0 removed")
    assert tables(tmp_path) == before


@pytest.mark.parametrize("order, prune, table", [
    ([["victim", "twin"]], False, None), ([["twin"], ["victim"]], False, None), ([["victim"], ["twin"]], False, None),
    ([["victim"], ["twin"], ["twin"]], False, None), ([["victim", "twin"]], True, None), ([["victim", "refused twin"]], True, None),
    ([["victim", "twin"], ["victim"]], False, None),
    # Who names all the files there are decides between them.
    ([["twin"], ["victim"]], True, "victim"), ([["victim", "twin"], ["victim"]], True, "victim"), ([["victim"], ["twin"]], True, "twin")])
def test_files_that_readers_cannot_tell_apart_have_none(etch, namesakes, tmp_path, order, prune, table):
    """A file with another's build-id, headers and .eh_frame_hdr, but other code."""
    said = ""
    for names in order:
        said = update(etch, tmp_path, *["--prune"] * prune, *(namesakes / n for n in names), ok=(0, 2)).stderr
    assert taken(etch, tmp_path, namesakes / "victim") == (identity(namesakes / table)[1] if table else None)
    p = update(etch, tmp_path, *["--prune"] * prune, *(namesakes / n for n in order[-1]))
    assert p.stdout.startswith("0 tables made, 0 removed") and not p.stderr    # and no other answer the second time
    assert bool(table) != ("readers could not tell" in said or len(order) > 2 or not prune and order[-1] == ["victim"])


def test_a_changed_file_gets_its_table_again(etch, namesakes, tmp_path):
    """In place, with the same headers: the updater sees it by the hash of the contents."""
    program = shutil.copy(namesakes / "victim", tmp_path / "program")
    cache = tmp_path / "cache"
    update(etch, cache, "--prune", program)
    program.write_bytes((namesakes / "twin").read_bytes())
    assert update(etch, cache, "--prune", program).stdout.startswith("1 table made, 0 removed")
    assert taken(etch, cache, program) == identity(namesakes / "twin")[1]


def test_tables_of_an_earlier_format_are_made_again(etch, tmp_path):
    """tests/data/sidecars/old is the table of tests/data/sidecars/file as etch made it before there was a head: the name is
    the same, and what it was made of unknown."""
    program, cache = FIXTURE / "file", tmp_path / "cache"
    cache.mkdir()
    old = (FIXTURE / "old").read_bytes()
    assert old[:4] == b"etuw" and bytes.fromhex(build_id(program)) in old
    shutil.copy(FIXTURE / "old", cache / build_id(program))
    (cache / ".state").write_text((FIXTURE / "old.state").read_text())
    p = run([etch, "tables", "status", "--directory", cache, program])
    assert f"none: made from .eh_frame by each process that needs it ({cache}/{build_id(program)} is of an earlier format)\n" in p.stdout
    assert json.loads(run([etch, "tables", "--format", "json", "--directory", cache]).stdout)["tables"] == 0
    assert update(etch, cache, program).stdout.startswith("1 table made, 0 removed")
    new = (cache / build_id(program)).read_bytes()
    assert new[:4] == b"etsc" and new[128:] == old    # which an earlier libetch passes over: it wants "etuw" there
    assert taken(etch, cache, program) == identity(program)[1]
    shutil.copy(FIXTURE / "old", cache / build_id(program))
    assert update(etch, cache, "--prune", "/bin/true").stdout.startswith("1 table made, 1 removed")


@pytest.mark.parametrize("what", ["link to a file", "link to nothing", "pipe", "file of another user"])
def test_nothing_is_written_through_a_directory_of_tables(etch, system, tmp_path, what):
    """What stands there in a table's place, of the lock or of the state, is replaced, and never followed."""
    cache, victim = tmp_path / "cache", tmp_path / "victim"
    cache.mkdir()
    victim.write_text("not this")
    for name in (build_id(system / "one"), ".state"):    # the state's pipe is not waited for
        if what == "pipe":
            os.mkfifo(cache / name)
        elif what == "file of another user":
            (cache / name).write_text("theirs")
            if os.getuid() == 0:
                os.chown(cache / name, 1234, 1234)
        else:
            (cache / name).symlink_to(victim if what == "link to a file" else tmp_path / "new")
    update(etch, cache, system / "one")
    assert victim.read_text() == "not this" and sorted(os.listdir(tmp_path)) == ["cache", "victim"]
    for path in cache.iterdir():
        assert path.is_file() and not path.is_symlink() and path.stat().st_uid == os.getuid()
    assert taken(etch, cache, system / "one")
    # ... nor by `etch rewrite --sidecar`; and a lock that is a link is refused.
    table = cache / build_id(system / "one")
    table.unlink()
    table.symlink_to(victim)
    run([etch, "rewrite", "--only", "orc", "--sidecar", cache, system / "one"])
    assert victim.read_text() == "not this" and not table.is_symlink()
    (cache / ".lock").unlink()
    (cache / ".lock").symlink_to(victim)
    assert "Too many levels" in update(etch, cache, system / "one", ok=2).stderr and victim.read_text() == "not this"


def test_a_directory_that_everyone_can_write_to_is_warned_of(etch, system, tmp_path):
    cache = tmp_path / "cache"
    cache.mkdir()
    said = f"etch: {cache}: warning: everyone can write to this directory"
    for mode, warned in ((0o755, False), (0o1777, True), (0o777, True)):
        cache.chmod(mode)
        assert update(etch, cache, system / "one").stderr.startswith(said) == warned
        assert run([etch, "tables", "--directory", cache]).stderr.startswith(said) == warned
