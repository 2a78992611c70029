# SPDX-License-Identifier: MIT
"""`etch rewrite --sframe`: what it writes is read by a reader of our own and by binutils', and says what etch's rows say."""

import random
import re
import shutil
from pathlib import Path

import pytest
from elftools.elf.elffile import ELFFile
from sframe_reader import SFrame, default_row, expressible, tsv_rows

from conftest import run

LIBDIR = Path("/usr/lib/x86_64-linux-gnu")
# By kind of what is special in them: PLT, GHC-free C; assembly with other CFAs; signal frames; large.
FILES = [LIBDIR / "libc.so.6", LIBDIR / "libcrypto.so.3", Path("/usr/bin/bash"), LIBDIR / "ld-linux-x86-64.so.2"]
LARGE = pytest.param(Path("/usr/bin/git"), marks=pytest.mark.long)


def view(build, what, path):
    return tsv_rows(run([build / "etch", "inspect", what, "--format", "tsv", path]).stdout)


@pytest.fixture(scope="module")
def made(tmp_path_factory, build):
    """made(path, version): the file rewritten."""
    top, known = tmp_path_factory.mktemp("sframe"), {}

    def get(path, version):
        if (path, version) not in known:
            out = top / f"{Path(path).name}.{version}"
            run([build / "etch", "rewrite", f"--sframe={version}", "-o", out, path])
            known[path, version] = out
        return known[path, version]
    return get


@pytest.mark.parametrize("version", [2, 3])
@pytest.mark.parametrize("path", [*FILES, LARGE], ids=lambda p: p.name)
def test_rows_are_those_of_etch(path, version, made, build):
    """Each row of the table is in .sframe, except for those that the version cannot express, and there is no other."""
    out = made(path, version)
    sframe = SFrame(out)
    want = [r for r in view(build, "orc", out) if expressible(r[2], version)]
    assert sframe.version == version and sframe.rows() == want and len(want) > 50
    assert view(build, "sframe", out) == want
    starts = [f.start for f in sframe.fdes]
    assert starts == sorted(starts) and sframe.flags == 5 and sframe.type in (0x6ffffff4, "SHT_GNU_SFRAME")
    assert sframe.phdr == [(sframe.addr, len(sframe.raw))]
    assert all(len(f.rows) <= 32 for f in sframe.fdes) and sum(len(f.rows) for f in sframe.fdes) == sframe.fres


def test_the_plt_is_a_repeated_block(made, tmp_path, build):
    source = tmp_path / "t.c"
    calls = "".join(f"int f{i}(void);" for i in range(40))
    source.write_text(calls + "int all(void) { return " + "+".join(f"f{i}()" for i in range(40)) + "; }")
    run(["gcc", "-O2", "-shared", "-fPIC", "-Wl,-z,lazy", "-o", tmp_path / "t.so", source])
    out = made(tmp_path / "t.so", 2)
    blocks = [f for f in SFrame(out).fdes if f.repeat]
    assert [(f.size, f.repeat, [o for o, _, _ in f.rows]) for f in blocks] == [(640, 16, [0, 11])]
    assert SFrame(out).rows() == view(build, "orc", out)


def readelf_rows(tool, path):
    """What binutils reads: (start, cfa, fp, ra) of every row, and the FDEs' (start, size, repeated)."""
    p = run([tool, "--sframe", path])
    assert "rror" not in p.stderr and "rror" not in p.stdout, p.stderr
    fdes, rows = [], []
    for line in p.stdout.splitlines():
        head = re.match(r"\s*func idx \[\d+\]: pc = 0x([0-9a-f]+), size = (\d+) bytes", line)
        if head:
            fdes.append((int(head.group(1), 16), int(head.group(2))))
        row = re.match(r"\s*([0-9a-f]{16})\s+(\S.*?)\s*$", line)
        if row:
            rows.append((fdes[-1][0], int(row.group(1), 16), " ".join(row.group(2).split())))
    return fdes, rows


def words(rule):
    """A default row as readelf prints it."""
    cfa, bp, _, kind = rule
    if kind == "end":
        return "RA undefined"
    return f"{'sp' if cfa[:3] == 'rsp' else 'fp'}{cfa[3:]} {'u' if bp == 'same' else 'c' + bp[3:]} f"


@pytest.mark.parametrize("version", [2, 3])
@pytest.mark.parametrize("path", [*FILES[:3], LARGE], ids=lambda p: p.name)
def test_binutils_reads_the_same(path, version, made, binutils):
    sframe = SFrame(made(path, version))
    fdes, rows = readelf_rows(binutils / "readelf", made(path, version))
    assert fdes == [(f.start, f.size) for f in sframe.fdes]
    flex = {f.start for f in sframe.fdes if f.flex}
    want = [(f.start, o + (0 if f.repeat else f.start), words(default_row(w, sp)))
            for f in sframe.fdes if not f.flex for o, w, sp in f.rows]
    assert [r for r in rows if r[0] not in flex] == want
    assert [(s, a) for s, a, _ in rows if s in flex] == [(f.start, f.start + o) for f in sframe.fdes if f.flex for o, _, _ in f.rows]


def test_sections_of_the_gnu_assembler_are_read(binutils, tmp_path, build):
    """etch inspect sframe reads what others wrote: version 3, one FDE a function."""
    source = tmp_path / "t.c"
    source.write_text("int g(int); int f(int a, int b) { int x = g(a) + g(b); return x * g(x); }\n"
                      "int h(int n) { char *p = __builtin_alloca(n); g((int)(long)p); return g(p[0]); }\n"
                      "int main(int c, char **v) { return f(c, 2) + h(3); } int g(int a) { return a + 1; }\n")
    run(["gcc", "-O2", "-fno-inline", f"-B{binutils}/", "-Wa,--gsframe", "-nostartfiles", "-nostdlib", "-Wl,-e,main", "-o",
         tmp_path / "t", source])
    sframe = SFrame(tmp_path / "t")
    assert len(sframe.fdes) == 4 and view(build, "sframe", tmp_path / "t") == sframe.rows()


PROGRAM = """#include <stdio.h>
#include <stdlib.h>
static int cmp(const void *a, const void *b) { return *(const int *)a - *(const int *)b; }
int main(void) { int v[] = {3, 1, 2}; qsort(v, 3, sizeof(*v), cmp); printf("%d%d%d\\n", v[0], v[1], v[2]); return 0; }
"""
LINKS = {"pie": [], "no-pie": ["-no-pie"], "static": ["-static"], "static-pie": ["-static-pie"], "lld": ["-fuse-ld=lld"]}


@pytest.mark.parametrize("link", LINKS)
def test_a_program_with_it(link, tmp_path, build):
    """It runs; twice is once; a later run keeps it; --undo gives the original; strip and objcopy leave it whole."""
    if link == "lld" and not shutil.which("ld.lld"):
        pytest.skip("no lld")
    etch, t, was = build / "etch", tmp_path / "t", tmp_path / "was"
    (tmp_path / "t.c").write_text(PROGRAM)
    run(["gcc", "-O2", *LINKS[link], "-o", was, tmp_path / "t.c"])
    shutil.copy(was, t)
    run([etch, "rewrite", t])
    run([etch, "rewrite", "--sframe", t])      # from the file as it was, as the segment has no header for it
    fresh = tmp_path / "fresh"
    run([etch, "rewrite", "--sframe", "-o", fresh, was])
    assert t.read_bytes() == fresh.read_bytes()
    mark = t.stat().st_mtime_ns, t.stat().st_ino
    for args in ([], ["--sframe"], ["--only", "imv"]):
        run([etch, "rewrite", *args, t])
        assert (t.stat().st_mtime_ns, t.stat().st_ino) == mark and t.read_bytes() == fresh.read_bytes()
    assert run([t]).stdout == "123\n"
    rows = SFrame(t).rows()
    assert rows == view(build, "orc", t) or rows == [r for r in view(build, "orc", t) if expressible(r[2], 2)]
    run([etch, "rewrite", "--sframe=3", t])
    assert SFrame(t).version == 3
    for tool in (["strip", "-o", tmp_path / "s", t], ["objcopy", t, tmp_path / "s"], ["objcopy", "--strip-debug", t, tmp_path / "s"]):
        run(tool)
        assert run([tmp_path / "s"]).stdout == "123\n"
        assert len(SFrame(tmp_path / "s").phdr) == 1 and SFrame(tmp_path / "s").rows()[0] == SFrame(t).rows()[0]
    run([etch, "rewrite", "--undo", t])
    assert t.read_bytes() == was.read_bytes()


def test_a_rewritten_file_without_a_record(tmp_path, build):
    """There the program header cannot be had any more: an error, and the file stays."""
    shutil.copy("/usr/bin/true", tmp_path / "t")
    run([build / "etch", "rewrite", "--no-undo", tmp_path / "t"])
    was = (tmp_path / "t").read_bytes()
    p = run([build / "etch", "rewrite", "--sframe", tmp_path / "t"], ok=2)
    assert "no program header" in p.stderr and (tmp_path / "t").read_bytes() == was


@pytest.mark.parametrize("args", [["--sframe=1"], ["--sframe", "--sidecar", "d"], ["--sframe", "--only", "imv"], ["--sframe", "--undo"]])
def test_options_that_do_not_go_together(args, build):
    assert "etch: " in run([build / "etch", "rewrite", *args, "/usr/bin/true"], ok=2).stderr


def test_a_file_without_it(build):
    assert "has no .sframe" in run([build / "etch", "inspect", "sframe", "/usr/bin/true"], ok=2).stderr


def test_hostile_sections(made, tmp_path, build_asan):
    """Damaged bytes are read or refused in one line, under ASan and UBSan; never a crash, never without end."""
    rng = random.Random(7)
    for version in (2, 3):
        good = made(Path("/usr/bin/true"), version)
        with open(good, "rb") as f:
            at = next(s for s in ELFFile(f).iter_sections() if s.name == ".sframe")
            begin, size = at["sh_offset"], at["sh_size"]
        raw = good.read_bytes()
        refused = 0
        for _ in range(60):
            bad = bytearray(raw)
            for _ in range(rng.choice((1, 1, 2, 8))):
                where = begin + rng.randrange(rng.choice((28, 28 + 20, size)))
                bad[where] = rng.choice((0, 1, 0x7f, 0x80, 0xff, rng.randrange(256)))
            (tmp_path / "t").write_bytes(bad)
            p = run([build_asan / "etch", "inspect", "sframe", "--format", "tsv", tmp_path / "t"], ok=None, timeout=20)
            assert p.returncode in (0, 2) and "Sanitizer" not in p.stderr and "runtime error" not in p.stderr, p.stderr
            refused += p.returncode == 2
            assert p.returncode == 0 or re.fullmatch(r"etch: .*: \.sframe .*\n", p.stderr), p.stderr
        assert refused > 10
