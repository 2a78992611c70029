# SPDX-License-Identifier: MIT
"""`etch check` beside the warnings of Linux 6.1's objtool on user-space objects: whatever it warns of is found, or the
table in docs/check.md says why not. The table's examples are in tests/check/objtool_warnings.py."""

import fnmatch
import json
import re
import shutil
import subprocess

import pytest

import objtool_warnings as ow
from conftest import run
from documents import DOCS

EXAMPLES = [w for w in ow.LIST if w.source]
GROUPS = tuple(f"ETCH-{g}" for g in ("D005", "D006", "F", "S", "H004", "H005", "N001"))


@pytest.fixture(scope="module")
def objects(tmp_path_factory):
    """The examples, assembled."""
    directory = tmp_path_factory.mktemp("objtool")
    for n, w in enumerate(EXAMPLES):
        (directory / f"{n}.s").write_text(ow.assembly(w))
        run(["as", "-o", f"{n}.o", f"{n}.s"], cwd=directory)
    return [directory / f"{n}.o" for n in range(len(EXAMPLES))]


def pattern(text):
    """A regular expression of a text of objtool."""
    parts = re.split(r"(%\+?[a-z]*[dsx]|\*)", text)
    return "".join(".*" if re.fullmatch(r"%\+?[a-z]*[dsx]|\*", p) else re.escape(p) for p in parts)


def test_the_table_in_the_docs():
    text = (DOCS / "check.md").read_text()
    assert [line for line in text.splitlines() if line.startswith("|`")] == ow.table()


def test_what_etch_says(etch, objects):
    found = {}
    for option in {w.check for w in EXAMPLES}:
        files = [f for f, w in zip(objects, EXAMPLES) if w.check == option]
        p = run([etch, "check", *option, "--format", "json", "--fail-on", "never", *files])
        for f in json.loads(p.stdout)["files"]:
            found[f["path"]] = {x["id"].removeprefix("ETCH-") for x in f["findings"] if x["id"].startswith(GROUPS)}
    wrong = {}
    for path, w in zip(objects, EXAMPLES):
        want, got = set(w.etch.split()), found[str(path)]
        # Where the frame is lost, that it is unknown from there on may be said beside.
        if not want <= got or (got - want) - {"S003", "S004", "F002"}:
            wrong[path.name, w.texts[0]] = w.etch, got
    assert not wrong, "\n".join(map(str, wrong.items()))


def test_what_objtool_says(objtool, objects, tmp_path):
    """Each example makes objtool warn with that text."""
    wrong = {}
    for path, w in zip(objects, EXAMPLES):
        shutil.copy(path, tmp_path / "t.o")
        p = subprocess.run([objtool, *w.options.split(), tmp_path / "t.o"], capture_output=True, text=True)
        said = re.findall(r"warning: objtool: (.*)", p.stderr)
        if not any(re.fullmatch(pattern(t), line) for t in w.texts for line in said):
            wrong[path.name, w.texts[0]] = said
    assert not wrong, "\n".join(map(str, wrong.items()))


def test_every_warning_has_a_row(objtool):
    """The texts in objtool's binary and those of the table are the same."""
    texts = {t.decode().rstrip("\n") for t in re.findall(rb"%s: warning: objtool: ([^\0]*)\0", objtool.read_bytes())}
    assert len(texts) > 100
    patterns = {t for w in ow.LIST for t in w.texts}
    # A format is matched as it stands: only `*` is a wildcard.
    found = {t: [p for p in patterns if fnmatch.fnmatchcase(t, re.sub(r"([\[?])", r"[\1]", p))] for t in texts}
    assert not [t for t in texts if not found[t]]
    assert patterns == {p for ps in found.values() for p in ps}

