# SPDX-License-Identifier: MIT
"""Programs of the distribution, rewritten with all that they load, put out what they do
unrewritten: some of the short ones of scripts/programs/list.py; `make test-all` runs all of those, `make programs` all. Each is started
under its own name, with the rewritten files mounted over the system's in a namespace of
its own (scripts/programs/enter.py)."""

import sys
from pathlib import Path

import pytest

from conftest import ROOT, run

sys.path.insert(0, str(ROOT / "scripts" / "programs"))
import list as table  # noqa: E402
import root as roots  # noqa: E402
from program import Output, Program  # noqa: E402

ENTER = ROOT / "scripts" / "programs" / "enter.py"


@pytest.fixture(scope="module")
def scratch(build, tmp_path_factory):
    """A root that the programs share: a file is rewritten once."""
    if run([sys.executable, ENTER, "-", "true"], ok=None).returncode:
        pytest.skip("this machine allows no namespaces: nothing can be mounted over a file")
    return roots.Root(tmp_path_factory.mktemp("programs"), build / "etch")


# One interpreter, a shell, what reads much; the other short ones take longer.
QUICK = {"python3", "bash", "make", "grep", "tar-gzip"}
SHORT = [pytest.param(p, marks=[] if p.name in QUICK else [pytest.mark.long], id=p.name) for p in table.programs() if p.short]


@pytest.mark.parametrize("program", SHORT)
def test_same_output(program, scratch, monkeypatch, tmp_path):
    if missing := program.missing():
        pytest.skip(f"{missing} is not installed")
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    before = program.run()
    assert before.status == program.ok, before.text.decode(errors="replace")
    loaded, rewritten = program.prepare(scratch)
    assert loaded >= 3      # the program, the C library, the dynamic linker
    assert rewritten == loaded, scratch.refused
    assert program.run(scratch).text == before.text


def test_rewritten_files_are_those_that_run(scratch, tmp_path, monkeypatch):
    """Not the system's by mistake: what is mapped has a table of ours, and under the usual name."""
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    p = Program("self", "", 'readelf -SW $(readlink -f /proc/self/exe) | grep -c etch.unwind; '
                            'for f in $(sed -n "s/.*r-xp.* \\//\\//p" /proc/self/maps); do readelf -SW $f | grep etch.unwind; done; echo end',
                needs="readelf grep sed")
    loaded, rewritten = p.prepare(scratch)
    assert loaded == rewritten
    plain, changed = p.run().text.decode(), p.run(scratch).text.decode()
    assert plain.count(".etch.unwind") == 0 and changed.count(".etch.unwind") >= 3, (plain, changed)


def test_another_output_is_seen(scratch, tmp_path, monkeypatch):
    """A difference in what is printed, in the exit status or in a file is a difference."""
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    for script in ('echo "$SEEN"', 'exit "$SEEN"', 'echo "$SEEN" >out/f', 'echo "$SEEN" >&2'):
        p = Program("seen", "", script)
        assert p.run(None, {"SEEN": "1"}).text == p.run(None, {"SEEN": "1"}).text
        assert p.run(None, {"SEEN": "1"}).text != p.run(None, {"SEEN": "2"}).text


def test_known_lines_and_no_others():
    """What a rewritten run may have more: whole lines of the pattern, in that run alone."""
    def same(before, after):
        return Program("known", "", "", known=r"^warning: .*\n").same(Output(before, 0), Output(after, 0))

    assert same(b"a\nb\n", b"a\nb\n") == "same"
    assert same(b"a\nb\n", b"a\nwarning: x\nb\n") == "known"
    assert same(b"a\nb\n", b"a\nwarning: x\nc\n") is None
    assert same(b"a\nwarning: x\nb\n", b"a\nb\n") is None
    assert Program("none", "", "").same(Output(b"a\n", 0), Output(b"warning: x\na\n", 0)) is None


def test_refused_file_is_told(build, tmp_path):
    """What etch refuses is not in the root, and its reason is kept."""
    bad = tmp_path / "bad"
    bad.write_bytes(Path("/bin/true").read_bytes()[:300])
    root = roots.Root(tmp_path / "root", build / "etch")
    assert root.add([bad]) == 0
    assert str(bad) in root.refused[str(bad)]
    assert not any(p.is_file() for p in root.files.rglob("*"))


def test_command_line(build, tmp_path):
    """run.py: the table, what is not installed, a name that is not in the list."""
    script = [sys.executable, ROOT / "scripts" / "programs" / "run.py"]
    p = run([*script, "--list"])
    assert len(p.stdout.splitlines()) >= 40
    p = run([*script, "nosuch"], ok=1)
    assert "nosuch" in p.stderr and not p.stdout
