# SPDX-License-Identifier: MIT
"""What `etch profile` and `etch heap` read is made by the programs that they look at: stacks, map files and recordings that mean
harm, read by the build with ASan and UBSan."""

import json
import os
import re
import shutil
import sys
import xml.etree.ElementTree as ET

import pytest

from conftest import DATA, asan_env, run
from test_profile import sampled, stacks  # noqa: F401

NOT_TEXT = re.compile(r"[\x00-\x08\x0b-\x1f\x7f]")


@pytest.fixture(scope="module")
def hostile(tmp_path_factory):
    out = tmp_path_factory.mktemp("hostile") / "hostile"
    run(["gcc", "-O1", DATA / "profile" / "hostile.c", "-o", out])
    return out


@pytest.mark.parametrize("name", ["a.svg", "a.json", "a.folded"])
def test_hostile_stacks(etch_asan, hostile, tmp_path, sampled, name):  # noqa: F811
    out = tmp_path / name
    options = [] if name == "a.json" else ["--frame-pointers"]
    p = run([etch_asan, "profile", "-F", 8000, "-o", out, *options, "--", hostile, 0.3, len(name)], env=asan_env())
    os.unlink(p.stdout.strip())
    assert not NOT_TEXT.search(p.stderr) and "pick  hostile" in p.stderr
    text = out.read_bytes()
    if name == "a.svg":
        ET.fromstring(text)
    elif name == "a.json":
        json.loads(text)
    else:
        found = stacks(text.decode())
        assert sum(n for _, n in found) > 20 and max(len(f) for f, _ in found) > 4
        assert not NOT_TEXT.search(text.decode())


@pytest.mark.parametrize("name", ["a.svg", "a.json", "a.folded"])
def test_names_that_threads_give_themselves(etch_asan, tmp_path, sampled, name):  # noqa: F811
    """Any bytes: prctl(2), PR_SET_NAME."""
    code = r"""import ctypes, time
ctypes.CDLL(None).prctl(15, b"\xff\xc3<\x1b]0;a\x07")
while time.process_time() < 0.2: pass"""
    out = tmp_path / name
    run([etch_asan, "profile", "-q", "-o", out, "--", sys.executable, "-c", code], env=asan_env())
    text = out.read_bytes().decode()
    assert not NOT_TEXT.search(text) and "?" in text
    if name == "a.json":
        assert "??<?]0;a?" in {t["name"] for t in json.loads(text)["threads"]}
    elif name == "a.svg":
        ET.fromstring(text)


@pytest.mark.parametrize("name", ["a.svg", "a.json", "a.pb.gz"])
def test_damaged_recordings(etch_asan, build, tmp_path, name):
    """A damaged one is left out with a word, or counted: what is whole in it cannot be told from what is not."""
    shutil.copy(etch_asan, tmp_path / "etch")
    shutil.copy(build / "libetch-heap.so", tmp_path / "libetch-heap.so")  # not the one with ASan, which python3 is not made for
    run(["gcc", "-O1", "-pthread", DATA / "heap" / "work.c", "-o", tmp_path / "work"])
    p = run([tmp_path / "etch", "heap", "-o", tmp_path / name, "--", "/usr/bin/python3", DATA / "heap" / "damage.py", 150, len(name),
             tmp_path / "work"], env=asan_env())
    assert not NOT_TEXT.search(p.stderr)
    refused = int(re.search(r"(\d+) processes are not counted: ", p.stderr).group(1))
    taken = int(re.search(r"(\d+) processes, whose peaks are added up", p.stderr).group(1))
    assert refused + taken == 152 and refused >= 20 and taken >= 20, p.stderr  # Python, the command, and the mutants
    if name == "a.svg":
        ET.parse(tmp_path / name)
    elif name == "a.json":
        json.load(open(tmp_path / name))


SPINS = r"""
__attribute__((noinline)) unsigned NAME(unsigned n) { volatile unsigned x = n; while (n--) x = x * 5 + 1; return x; }
void spin(void) { for (int i = 0; i < 400; i++) NAME(1000000); }
"""


def spinning(tmp_path, name):
    """A program that spends its time in a library's function of this name."""
    (tmp_path / "spins.c").write_text(SPINS.replace("NAME", name))
    (tmp_path / "main.c").write_text("void spin(void); int main(void) { spin(); }")
    run(["gcc", "-O1", "-g3", "-shared", "-fPIC", "-Wl,--build-id=none", "-include", "stdlib.h", "-o", tmp_path / "libspins.so", tmp_path / "spins.c"])
    run(["gcc", "-o", tmp_path / "main", tmp_path / "main.c", tmp_path / "libspins.so", f"-Wl,-rpath,{tmp_path}"])
    return tmp_path / "libspins.so", tmp_path / "main"


@pytest.mark.parametrize("rewritten", [False, True], ids=["as-linked", "rewritten"])
def test_file_that_becomes_shorter(etch, tmp_path, sampled, rewritten):  # noqa: F811
    """Nothing that etch reads of a program's file is a mapping, in which it would meet SIGBUS."""
    library, program = spinning(tmp_path, "walks")
    if rewritten:
        run([etch, "rewrite", library])
    assert library.stat().st_size > 40000
    run(["gcc", "-O1", "-shared", "-fPIC", DATA / "profile" / "truncates.c", "-o", tmp_path / "truncates.so"])
    # The program itself is one more that loads the library: only etch is to have the preloaded one.
    p = run([etch, "profile", "-o", tmp_path / "folded", "--", "env", "-u", "LD_PRELOAD", program],
            env={**os.environ, "LD_PRELOAD": str(tmp_path / "truncates.so"), "TRUNCATES": str(library)})
    assert "walks" in p.stderr
    assert any(frames[-1] == "walks" for frames, _ in stacks((tmp_path / "folded").read_text()))


INNER = """
struct big { int a, b, c, d, e, f; long g, h, i, j; struct big *next; char name[40]; };
static inline __attribute__((always_inline)) unsigned inner(struct big *b, unsigned n)
{ volatile unsigned x = b->a; while (n--) x = x * 5 + b->b; return x; }
__attribute__((noinline)) unsigned NAME(struct big *b, unsigned n) { return inner(b, n); }
void spin(void) { struct big b = {1}; for (int i = 0; i < 400; i++) NAME(&b, 1000000); }
"""


@pytest.fixture(scope="module")
def split(tmp_path_factory):
    """A program, and a library whose debug file leaves what another has, too, to a supplementary file (dwz)."""
    d = tmp_path_factory.mktemp("split")
    (d / "inner.c").write_text(INNER)
    (d / "main.c").write_text("void spin(void); int main(void) { spin(); }")
    (d / ".debug").mkdir()
    for name in ("walks", "other"):
        run(["gcc", "-O1", "-g3", "-include", "stdlib.h", "-shared", "-fPIC", "-Wl,--build-id", f"-DNAME={name}", "-o", d / f"lib{name}.so", d / "inner.c"])
    run(["objcopy", "--only-keep-debug", d / "libwalks.so", d / ".debug" / "libwalks.debug"])
    run(["dwz", "-m", d / ".debug" / "common", "-M", "common", d / ".debug" / "libwalks.debug", d / "libother.so"])
    run(["objcopy", "--strip-all", f"--add-gnu-debuglink={d}/.debug/libwalks.debug", d / "libwalks.so"])
    run(["gcc", "-o", d / "main", d / "main.c", "-L", d, "-lwalks"])
    run(["gcc", "-O1", "-shared", "-fPIC", DATA / "profile" / "truncates.c", "-o", d / "truncates.so"])
    return d


@pytest.mark.skipif(not shutil.which("dwz"), reason="dwz is not installed")
@pytest.mark.parametrize("what", ["libwalks.debug", "common", "pipe", "missing"])
def test_debug_files_that_become_shorter(etch, split, tmp_path, sampled, what):  # noqa: F811
    """Nor are debug files, which libdwfl finds, nor the supplementary ones that these name; a pipe in their place stops nothing."""
    files, library = tmp_path / ".debug", tmp_path / "libwalks.so"
    shutil.copytree(split / ".debug", files)
    shutil.copy(split / "libwalks.so", library)
    with open(files / "libwalks.debug", "ab") as f:
        f.write(bytes(20000))
    if what in ("pipe", "missing"):
        (files / "common").unlink()
    if what == "pipe":
        os.mkfifo(files / "common")
    size = 0 if what in ("pipe", "missing") else (files / what).stat().st_size
    p = run([etch, "profile", "-o", tmp_path / "folded", "--", "env", "-u", "LD_PRELOAD", f"LD_LIBRARY_PATH={tmp_path}", split / "main"],
            env={**os.environ, "LD_PRELOAD": str(split / "truncates.so"), "TRUNCATES": str(files / what)}, timeout=60)
    assert "walks" in p.stderr and (not size or 16384 < size == (files / what).stat().st_size)
    found = {tuple(frames[-2:]) for frames, _ in stacks((tmp_path / "folded").read_text())}
    assert (("walks", "inner") in found) == (what in ("libwalks.debug", "common")) and any("walks" in f for f in found)


def test_names_without_end(etch, tmp_path, sampled):  # noqa: F811
    """A name may have as many bytes as its file: what is kept and written of it has 4,096."""
    _, program = spinning(tmp_path, "n" * 300000)
    run([etch, "profile", "-o", tmp_path / "folded", "--", program])
    found = {frames[-1] for frames, _ in stacks((tmp_path / "folded").read_text())}
    assert "n" * 4096 in found and max(map(len, found)) == 4096
