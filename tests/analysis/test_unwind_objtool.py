# SPDX-License-Identifier: MIT
"""etch beside the kernel's objtool, which reads code and no CFI: nowhere may it have
a right row that etch has not. All archives: scripts/parity/objtool.py."""

import sys

import pytest

from conftest import ROOT, run

sys.path.insert(0, str(ROOT / "scripts" / "parity"))
import objects  # noqa: E402
import objtool  # noqa: E402
import rows  # noqa: E402


@pytest.fixture(autouse=True)
def the_kernels(request, monkeypatch):
    """Linux 6.1's program, wherever it is; `objtool` here is what compares with it."""
    path = str(request.getfixturevalue("objtool"))
    monkeypatch.setattr(objects, "OBJTOOL", path)
    monkeypatch.setenv("OBJTOOL_6_1", path)


LIBZ = "/usr/lib/x86_64-linux-gnu/libz.a"
LIBC = "/usr/lib/x86_64-linux-gnu/libc.a"


@pytest.mark.parametrize("archive,limit", [(LIBZ, 0), (LIBC, 150)], ids=["libz", "libc"])
def test_archive(etch, archive, limit):
    total = dict.fromkeys(objtool.KEYS, 0)
    covered = undef = 0
    for r in objtool.run(etch, [archive], limit):
        assert r["refused"] is None
        for what in objtool.WORSE:
            assert not r["places"].get(what), objtool.place_text(r, what, r["places"][what][0])
        for k in objtool.KEYS:
            total[k] += r["rows"][k]
        covered += r["covered"]
        undef += r["undef"]
    assert total["equal"] > 500
    assert undef <= 0.005 * covered
    # objtool stops at what it does not know: were this 0, the comparison would be broken.
    assert total["better: objtool has no row"] > 0


def test_the_judge():
    a, b, c = [(f"rsp+{n}", "same", "cfa-8", "call") for n in (8, 16, 24)]
    assert objtool.judge(a, a, b, True) == "equal"
    assert objtool.judge(a, b, a, True) == "better: CFI agrees with etch"
    assert objtool.judge(b, a, a, True) == "worse: CFI agrees with objtool"
    assert objtool.judge(rows.UNDEF, a, a, True) == "worse: etch has no row"
    assert objtool.judge(rows.UNDEF, a, None, True) == "worse: etch has no row"
    assert objtool.judge(a, rows.UNDEF, a, True) == "better: objtool has no row"
    assert objtool.judge(a, b, c, True) == "differ, CFI says a third"
    assert objtool.judge(a, b, None, True) == "differ, no CFI to judge"


def test_decoder_is_objtools(tmp_path):
    """Our reading of the 6-byte entries is what `objtool --dump=orc` prints."""
    src = tmp_path / "t.c"
    src.write_text("extern int g(int *);\n"
                   "int f(int n) { int a[n]; a[0] = n; return g(a) + n; }\n"
                   "int h(int n) { int a[99]; a[0] = n; return n ? g(a) + f(n) : 3; }\n")
    obj = tmp_path / "t.o"
    run(["gcc", "-O2", "-fcf-protection=none", "-c", "-o", obj, src])
    _, tables = objects.objtool(obj.read_bytes())
    run([objects.OBJTOOL, "--orc", obj])
    dump = run([objects.OBJTOOL, "--dump=orc", obj]).stdout
    mine = [r for rows_ in tables.values() for r in rows_]
    seen = 0
    for line in dump.splitlines():
        where, sp, bp = line.split()[:3]
        rule = objtool.at(mine, int(where.split("+")[1].rstrip(":"), 16))
        if sp == "sp:(und)":
            assert rule in (None, rows.UNDEF)
        elif sp.startswith(("sp:sp+", "sp:bp+")):
            assert rule[0] == "r" + sp[3:]
            assert rule[1] == ("same" if bp == "bp:(und)" else "cfa" + bp[len("bp:prevsp"):])
            seen += 1
    assert seen >= 6
