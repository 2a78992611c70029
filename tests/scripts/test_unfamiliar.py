# SPDX-License-Identifier: MIT
"""scripts/unfamiliar: that it sees what goes wrong."""

import struct
import sys

import pytest

from conftest import ROOT, run

sys.path.insert(0, str(ROOT / "scripts" / "unfamiliar"))
import coverage  # noqa: E402
import toolchains  # noqa: E402
from trial import Bench, Failed, Run, Trial  # noqa: E402

ENTER = ROOT / "scripts" / "programs" / "enter.py"
MAKE = "cp /bin/echo prog"
SUM = "cksum <prog"     # of the program that runs: rewriting changes it


@pytest.fixture
def bench(build, tmp_path):
    if run([sys.executable, ENTER, "-", "true"], ok=None).returncode:
        pytest.skip("this machine allows no namespaces: nothing can be mounted over a file")
    return Bench(tmp_path / "bench", build / "etch")


def tried(bench, task="./prog done", **fields):
    return Run(bench, Trial("one", "coreutils", "coreutils", "$DIR/prog", task, make=fields.pop("make", MAKE), **fields)).done(steps=False)


def test_the_list():
    names = [t.name for t in toolchains.TRIALS]
    assert len(names) == len(set(names)) and len([t for t in toolchains.TRIALS if not t.refused]) >= 40
    assert len({t.packages for t in toolchains.TRIALS}) >= 10
    work = ROOT / "scripts" / "unfamiliar" / "work"
    text = (ROOT / "scripts" / "unfamiliar" / "toolchains.py").read_text()
    assert [f.name for f in work.iterdir() if f"$WORK/{f.name}" not in text] == []


def test_a_trial(bench):
    r = tried(bench)
    assert r.bad == [] and r.words["task"] == "same, 5 bytes" and r.words["said"] == r.words["covered"] == "100.000%"


@pytest.mark.parametrize("task, why", [
    (SUM, "the task differs"),
    (f"{SUM} >out/sum; echo done", "the task differs"),
    (f"{SUM} >&2; echo done", "the task differs"),
    ("echo done; cmp -s prog /bin/echo || kill -SEGV $$", "the task differs"),
    ("date +%N", "never gives the same twice"),
    ("./prog done; exit 3", "does not work with the file as it is"),
    ("echo done; kill -SEGV $$", "does not work with the file as it is"),
    ("true", "does not work with the file as it is"),
], ids=["output", "file", "errors", "crash", "random", "status", "crashes-anyway", "silent"])
def test_a_task_that_differs(bench, task, why):
    r = tried(bench, task)
    assert len(r.bad) == 1 and why in r.bad[0], r.bad


def test_refused(bench):
    make = f"{MAKE}\npython3 -c \"f = open('prog', 'r+b'); f.seek(40); f.write(bytes(8)); f.seek(60); f.write(bytes(4))\""
    r = tried(bench, make=make)
    assert len(r.bad) == 1 and "refused: has no section headers" in r.bad[0]
    r = tried(bench, make=make, refused="has no section headers")
    assert r.bad == [] and r.words["task"].startswith("refused: has no section headers")


def test_not_refused_as_expected(bench):
    assert "is not refused" in tried(bench, refused="has no section headers").bad[0]


def test_not_made(bench):
    with pytest.raises(Failed, match="not made: no compiler"):
        tried(bench, make="echo no compiler; exit 1")


def test_steps(bench):
    """Right rows give none wrong; a table of rows that are not the program's does."""
    bench.begin(steps=True)
    r = Run(bench, Trial("one", "coreutils", "coreutils", "$DIR/prog", "./prog done", make=MAKE, step="$DIR/prog done", steps=1000))
    r.done(steps=True)
    assert r.bad == [] and r.words["wrong"] == "0" and int(r.words["frames"].replace(",", "")) > 1000
    # Every row of what was met says that the return address is a word higher than it is.
    for file in bench.rows.glob("*.rows"):
        data = bytearray(file.read_bytes())
        for at in range(8, len(data), 24):
            struct.pack_into("<i", data, at, struct.unpack_from("<i", data, at)[0] + 8)
        file.write_bytes(data)
    r.step()
    assert r.words["wrong"] != "0" and "wrong rows" in r.bad[0]


def test_padding_is_no_code():
    assert coverage.padding(b"\xcc\xcc\x90\x0f\x1f\x40\x00") == 7
    assert coverage.padding(b"\x48\x89\xf8\xc3" + b"\x00" * 12) == 12
    assert coverage.padding(b"\x48\x90\x89") == 0
    assert list(coverage.gaps(10, 50, [(0, 12), (20, 30), (45, 60)])) == [(12, 20), (30, 45)]
    assert list(coverage.gaps(10, 50, [])) == [(10, 50)]


def test_coverage_of_a_file(build):
    """Against a count of the rows one by one."""
    import rows
    total, covered = coverage.measure(build / "etch", "/bin/ls")
    have = sum(b - a for a, b, rule, _ in rows.inspect_rows(build / "etch", "/bin/ls") if rule != rows.UNDEF)
    assert covered == have and total >= covered
