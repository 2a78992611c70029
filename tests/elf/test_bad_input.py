# SPDX-License-Identifier: MIT
"""Input that is no input: exit 2, one line that names the file and the reason, the
file untouched. And 1,200 mutants of good files under ASan and UBSan; ETCH_MUTANTS=2000 (make
test-all) makes them 24,000, and `make fuzz` as many as there is time for."""
import os
import re
import shutil
import struct
import subprocess

import pytest

import mutate
from conftest import DATA, ROOT, Flow, asan_env, run

SOURCES = DATA / "acceptance"
COMMANDS = [["rewrite"], ["inspect", "summary"], ["inspect", "sites"], ["inspect", "sites", "--format", "tsv"],
            ["inspect", "tables", "--json"], ["inspect", "orc"], ["inspect", "code", "main"],
            ["rewrite", "--only", "orc", "--encoding", "orc"]]


@pytest.fixture(scope="session")
def good(tmp_path_factory, build):
    """name: path of good files, rewritten and not."""
    tmp = tmp_path_factory.mktemp("good")
    flow = Flow(tmp, build, "gcc")
    files = {}
    flags = ["-O2", "-fPIE", "-g0"]
    objects = [flow.compile(SOURCES / s, flags) for s in ("app.c", "other.c")]
    plain = shutil.copy(objects[0], tmp / "plain.o")
    flow.rewrite(*objects)
    files["plain.o"], files["object.o"] = plain, objects[0]
    cxx = flow.compile(SOURCES / "cxx1.cc", ["-O1", "-fPIC", "-g0"])
    flow.rewrite(cxx)
    files["comdat.o"] = cxx
    debug = flow.compile(SOURCES / "other.c", ["-O2", "-g", "-fPIC"], "debug.o")
    flow.rewrite(debug)
    files["debug.o"] = debug
    # With the shared libetch: small files, and mutants of libc are no use.
    files["object-program"] = flow.link(objects, ["-pie", "-s"], "object-program", shared_lib=True)
    files["program"] = shutil.copy(files["object-program"], tmp / "program")
    files["orc-program"] = shutil.copy(files["object-program"], tmp / "orc-program")
    flow.rewrite(files["orc-program"], args=["--encoding", "orc"])
    flow.rewrite(files["program"])
    files["nopie"] = flow.link(objects, ["-no-pie"], "nopie", shared_lib=True)
    flow.rewrite(files["nopie"])
    lib = flow.compile(SOURCES / "lib.c", ["-O2", "-fPIC", "-g0"])
    flow.rewrite(lib)
    # Calls through ops objects: a table of the object step, one in the etch segment.
    files["pv-object.o"] = flow.compile(DATA / "pv" / "rewrite_main.c", ["-O2", "-fPIE", "-g0"], "pv-object.o")
    plain_pv = flow.link([files["pv-object.o"]], ["-pie"], "pv-moved", shared_lib=True)
    flow.rewrite(files["pv-object.o"])
    files["pv-program"] = flow.link([files["pv-object.o"]], ["-pie"], "pv-program", shared_lib=True)
    files["pv-moved"] = plain_pv
    flow.rewrite(files["pv-program"], files["pv-moved"])
    files["libuse.so"] = tmp / "libuse.so"
    run(["gcc", "-shared", "-o", files["libuse.so"], lib, f"-L{build}", "-letch"])
    flow.rewrite(files["libuse.so"])
    return files


def snapshot(path):
    if not path.is_file():
        return None
    s = path.stat()
    return path.read_bytes(), s.st_mode, s.st_ino, s.st_mtime_ns


def check_refused(etch, command, path, reason, prefix=()):
    """The one line, the exit status, and that nothing was touched or left."""
    before, around = snapshot(path), sorted(os.listdir(path.parent))
    p = subprocess.run([*prefix, etch, *command, path], capture_output=True, timeout=60, text=True)
    lines = p.stderr.splitlines()
    assert p.returncode == 2, (p.returncode, p.stderr)
    assert p.stdout == ""
    assert len(lines) == 1, lines
    assert path.name in lines[0]
    assert re.search(reason, lines[0], re.I), lines[0]
    assert snapshot(path) == before
    assert sorted(os.listdir(path.parent)) == around


def patched(data, offset, code, *values):
    data = bytearray(data)
    struct.pack_into(code, data, offset, *values)
    return bytes(data)


# What the file is made of a good object, and what the line must speak of.
BAD = {
    "empty": (lambda o: b"", "empty|not an ELF|too short|truncated"),
    "one-byte": (lambda o: o[:1], "ELF|too short|truncated"),
    "magic-only": (lambda o: o[:4], "ELF|too short|truncated"),
    "ident-only": (lambda o: o[:16], "header|too short|truncated"),
    "half-header": (lambda o: o[:40], "header|too short|truncated"),
    "header-only": (lambda o: o[:64], "truncated|beyond|outside|section|past"),
    "half": (lambda o: o[:len(o) // 2], "truncated|beyond|outside|past"),
    "last-byte-missing": (lambda o: o[:-1], "truncated|beyond|outside|past"),
    "text": (lambda o: b"int main(void) { return 0; }\n", "not an ELF"),
    "script": (lambda o: b"#!/bin/sh\nexit 0\n", "not an ELF"),
    "zeros": (lambda o: bytes(4096), "not an ELF"),
    "32-bit": (lambda o: patched(o, 4, "<B", 1), "32-bit|ELFCLASS32|class|64-bit"),
    "bad-class": (lambda o: patched(o, 4, "<B", 7), "class|64-bit"),
    "big-endian": (lambda o: patched(o, 5, "<B", 2), "endian"),
    "bad-version": (lambda o: patched(o, 6, "<B", 9), "version"),
    "aarch64": (lambda o: patched(o, 18, "<H", 183), "machine|x86-64"),
    "i386-machine": (lambda o: patched(o, 18, "<H", 3), "machine|x86-64"),
    "core": (lambda o: patched(o, 16, "<H", 4), "core|type|kind"),
    "no-type": (lambda o: patched(o, 16, "<H", 0), "type|kind"),
    "section-size": (lambda o: patched(o, 58, "<H", 40), "section header|e_shentsize|size"),
    "sections-far": (lambda o: patched(o, 40, "<Q", 1 << 60), "section header|beyond|outside|truncated|past"),
    "sections-wrap": (lambda o: patched(o, 40, "<Q", (1 << 64) - 64), "section header|beyond|outside|truncated|past"),
    "names-index": (lambda o: patched(o, 62, "<H", 0xfe00), "section|name|string|e_shstrndx"),
}


@pytest.mark.parametrize("command", COMMANDS, ids="-".join)
@pytest.mark.parametrize("name", BAD)
def test_bad_files(tmp_path, etch, good, name, command):
    make, reason = BAD[name]
    path = tmp_path / f"bad-{name}.o"
    path.write_bytes(make(good["plain.o"].read_bytes()))
    check_refused(etch, command, path, reason)


@pytest.mark.parametrize("command", COMMANDS, ids="-".join)
@pytest.mark.parametrize("name", ["half", "32-bit", "big-endian", "aarch64", "sections-far"])
def test_bad_programs(tmp_path, etch, good, name, command):
    make, reason = BAD[name]
    path = tmp_path / f"bad-{name}"
    path.write_bytes(make(good["program"].read_bytes()))
    path.chmod(0o755)
    check_refused(etch, command, path, reason)


@pytest.mark.parametrize("command", COMMANDS, ids="-".join)
class TestNoFiles:
    def test_missing(self, tmp_path, etch, command):
        check_refused(etch, command, tmp_path / "missing.o", "no such file")

    def test_directory(self, tmp_path, etch, command):
        (tmp_path / "dir.o").mkdir()
        check_refused(etch, command, tmp_path / "dir.o", "directory|regular")

    def test_fifo(self, tmp_path, etch, command):
        os.mkfifo(tmp_path / "fifo.o")
        check_refused(etch, command, tmp_path / "fifo.o", "regular|fifo|pipe")

    def test_dangling_link(self, tmp_path, etch, command):
        (tmp_path / "link.o").symlink_to("nowhere.o")
        check_refused(etch, command, tmp_path / "link.o", "no such file")

    def test_archive(self, tmp_path, etch, command, good):
        run(["ar", "rcs", tmp_path / "lib.a", good["plain.o"]])
        check_refused(etch, command, tmp_path / "lib.a", "archive")

    def test_thin_archive(self, tmp_path, etch, command, good):
        run(["ar", "rcsT", tmp_path / "lib.a", good["plain.o"]])
        check_refused(etch, command, tmp_path / "lib.a", "archive")

    def test_real_32_bit_object(self, tmp_path, etch, command):
        (tmp_path / "t.c").write_text("int x; int f(void) { return x; }\n")
        run(["gcc", "-m32", "-c", "-o", tmp_path / "t32.o", tmp_path / "t.c"])
        check_refused(etch, command, tmp_path / "t32.o", "32-bit|ELFCLASS32|class|64-bit|x86-64")


def unprivileged():
    """A command prefix that gives root's rights up; empty where there are none."""
    if os.geteuid() != 0:
        return []
    prefix = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"]
    p = subprocess.run([*prefix, "id", "-u"], capture_output=True, text=True)
    if p.stdout.strip() != "65534":
        pytest.skip("cannot give up root here: " + p.stderr.strip())
    return prefix


@pytest.fixture
def public(tmp_path_factory, etch):
    """A directory that others can enter, with a copy of the tool."""
    import tempfile
    directory = tempfile.mkdtemp(prefix="etch-test-")
    os.chmod(directory, 0o755)
    path = type(etch)(directory)
    (path / "bin").mkdir()
    shutil.copy(etch, path / "bin" / "etch")
    (path / "bin").chmod(0o755)
    (path / "bin" / "etch").chmod(0o755)
    yield path
    shutil.rmtree(directory)


@pytest.mark.parametrize("command", COMMANDS, ids="-".join)
def test_unreadable(public, good, command):
    prefix = unprivileged()
    path = public / "secret.o"
    shutil.copy(good["plain.o"], path)
    path.chmod(0)
    check_refused(public / "bin" / "etch", command, path, "permission", prefix)


def test_directory_not_writable(public, good):
    prefix = unprivileged()
    path = public / "readable.o"
    shutil.copy(good["plain.o"], path)
    path.chmod(0o644)
    public.chmod(0o555)
    check_refused(public / "bin" / "etch", ["rewrite"], path, "permission", prefix)


def test_output_directory_missing(tmp_path, etch, good):
    path = shutil.copy(good["plain.o"], tmp_path / "t.o")
    p = run([etch, "rewrite", "-o", tmp_path / "no" / "such" / "out.o", path], ok=2)
    assert len(p.stderr.splitlines()) == 1 and "out.o" in p.stderr
    assert path.read_bytes() == good["plain.o"].read_bytes()


def test_full_disk(tmp_path, etch, good):
    """A file system with no space for a second copy of the file."""
    data = good["program"].read_bytes()
    size = (len(data) // 4096 + 4) * 4096
    source = shutil.copy(good["object-program"], tmp_path / "source")
    disk = tmp_path / "disk"
    disk.mkdir()
    # In a mount namespace of its own: nothing is left behind, whatever happens.
    script = (f"mount -t tmpfs -o size={size} tmpfs {disk} || exit 77; cp {source} {disk}/program || exit 78; "
              f"{etch} rewrite {disk}/program; echo status $?; cmp {source} {disk}/program && echo same; ls -A {disk}")
    p = run(["unshare", "-m", "sh", "-c", script], ok=None)
    if p.returncode == 77 or "unshare" in p.stderr:
        pytest.skip("no right to mount a file system: " + p.stderr.strip())
    assert p.stdout.splitlines() == ["status 2", "same", "program"], p.stdout + p.stderr
    lines = p.stderr.splitlines()
    assert len(lines) == 1 and "program" in lines[0] and "space" in lines[0].lower()


@pytest.mark.parametrize("command", [c for c in COMMANDS if c[0] == "inspect"], ids="-".join)
def test_full_output(etch, good, command):
    """A listing that could not be written is not a success."""
    with open("/dev/full", "w") as full:
        name = "plain.o" if "code" in command else "program"  # which has no symbols
        p = subprocess.run([etch, *command, good[name]], stdout=full, stderr=subprocess.PIPE, text=True)
    assert p.returncode == 2
    assert len(p.stderr.splitlines()) == 1 and "space" in p.stderr.lower()


@pytest.mark.parametrize("flags", [["clang", "-flto"], ["clang", "-flto=thin"], ["gcc", "-flto"]], ids="".join)
def test_bitcode(tmp_path, etch, flags):
    """What the linker will compile is passed over with a note: the second step
    finds its sites."""
    path = tmp_path / "app.o"
    run([*flags, "-O2", f"-I{ROOT}/lib/include", "-c", "-o", path, SOURCES / "app.c"])
    before = snapshot(path)
    p = run([etch, "rewrite", path])
    assert len(p.stderr.splitlines() + p.stdout.splitlines()) >= 1
    assert "app.o" in p.stderr + p.stdout
    assert re.search("lto|bitcode|link", p.stderr + p.stdout, re.I)
    if flags[0] == "clang":
        assert snapshot(path) == before


def test_goes_on_after_a_bad_one(tmp_path, etch, good):
    paths = [shutil.copy(good["plain.o"], tmp_path / f"good{i}.o") for i in range(3)]
    bad = tmp_path / "bad.o"
    bad.write_bytes(b"nothing")
    p = run([etch, "rewrite", paths[0], bad, paths[1], tmp_path / "none.o", paths[2]], ok=2)
    assert sum("bad.o" in line for line in p.stderr.splitlines()) == 1
    assert sum("none.o" in line for line in p.stderr.splitlines()) == 1
    want = paths[0].read_bytes()
    assert want != good["plain.o"].read_bytes()
    assert [q.read_bytes() == want for q in paths] == [True] * 3
    assert bad.read_bytes() == b"nothing"


@pytest.mark.parametrize("args", [[], ["nonsense"], ["rewrite"], ["rewrite", "--nonsense", "x.o"], ["inspect"],
                                  ["inspect", "sites"], ["inspect", "nonsense", "x.o"], ["rewrite", "-o"],
                                  ["inspect", "sites", "--format", "nonsense", "x.o"], ["rewrite", "-j", "x", "x.o"],
                                  ["rewrite", "-o", "y.o", "x1.o", "x2.o"], ["inspect", "code", "main"],
                                  ["inspect", "sites", "--at", "main", "x.o"]], ids=" ".join)
def test_usage(tmp_path, etch, args):
    p = run([etch, *args], ok=2, cwd=tmp_path)
    assert p.stdout == "" and p.stderr
    assert not list(tmp_path.iterdir())


# ---- mutants ---------------------------------------------------------------

FILES = ["plain.o", "object.o", "comdat.o", "debug.o", "object-program", "program", "orc-program", "nopie", "libuse.so",
         "pv-object.o", "pv-program", "pv-moved"]
BATCH = 50
A_FILE = int(os.environ.get("ETCH_MUTANTS", 100)) // BATCH * BATCH  # mutants of each
assert A_FILE * len(FILES) >= 1200


@pytest.mark.parametrize("name", FILES)
def test_mutants(etch_asan, good, name):
    judge = mutate.Judge(etch_asan, asan_env())
    mutator = mutate.Mutator(good[name].read_bytes(), name)
    rounds = A_FILE // BATCH
    for i in range(rounds):
        # Every mutant is rewritten; what comes out, rewritten or not, is looked at too.
        looks = mutate.Judge.COMMANDS[1 + i % (len(mutate.Judge.COMMANDS) - 1)]
        judge.batch(mutator, BATCH, name, [mutate.Judge.COMMANDS[0], looks])
        if judge.problems:
            break
    assert not judge.problems, "\n".join(judge.problems)
    assert judge.refused + judge.accepted == A_FILE
    # Mutants that are all refused, or none of them, would test little.
    assert judge.refused > A_FILE // 20 and judge.accepted > A_FILE // 20


def test_judge_notices(tmp_path, good):
    """The judge itself: a tool that crashes, hangs, reports, or spoils a file that
    it refuses."""
    faults = {
        "kill -SEGV $$": -11,
        "exit 99": 99,
        "sleep 1000": "hang",
        'for f; do :; done; echo "etch: $f: no" >&2; echo x >> "$f"; exit 2': "refused, but changed",
        'for f; do :; done; echo "$f: 1 sites"; touch "$f.tmp"; exit 0': "left behind",
        'for f; do :; done; echo "$f: 1 sites"; exit 2': "exit 2, but 0 files",
        "exit 2": "in one line",
    }
    for i, (script, expected) in enumerate(faults.items()):
        tool = tmp_path / f"tool{i}"
        tool.write_text(f"#!/bin/sh\n{script}\n")
        tool.chmod(0o755)
        judge = mutate.Judge(tool, dict(os.environ), timeout=0.5 if expected == "hang" else 120)
        judge.batch(mutate.Mutator(good["plain.o"].read_bytes(), 1), 1, "x.o", [["rewrite", "-v"]])
        assert judge.problems and str(expected) in judge.problems[0], script
