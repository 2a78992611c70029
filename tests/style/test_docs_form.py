# SPDX-License-Identifier: MIT
"""The kinds of docs keep their form: tutorials (docs/tutorials), guides (docs/guides) and reference (docs/*.md) have no
dates and no history; reports (docs/reports) say when they were measured, of what and how; every page can be found, and
every link and path leads somewhere."""

import re
import subprocess

import pytest

from conftest import ROOT
from documents import DOCS

INDEX = DOCS / "reports" / "README.md"
REPORTS = sorted(p for p in (DOCS / "reports").glob("*.md") if p != INDEX)
TUTORIALS = sorted((DOCS / "tutorials").glob("*.md"))
GUIDES = sorted((DOCS / "guides").glob("*.md"))
REFERENCE = sorted(DOCS.glob("*.md"))
TOP = [ROOT / name for name in ("README.md", "INSTALL.md", "CONTRIBUTING.md", "CHANGELOG.md")]
PAGES = [*TOP, *REFERENCE, *TUTORIALS, *GUIDES, INDEX, *REPORTS]
LASTING = [p for p in PAGES if p.name != "CHANGELOG.md" and p not in [INDEX, *REPORTS]]


def prose(page):
    """A page without code and comments."""
    return re.sub(r"(?ms)^```.*?^```$|<!--.*?-->", "", page.read_text())


def links(page):
    return re.findall(r"\]\(([^)\s]+)\)", prose(page))


def anchors(page):
    titles = re.findall(r"^#+ (.*)$", page.read_text(), re.M)
    return {re.sub(r"[^\w\- ]", "", t.lower()).replace(" ", "-") for t in titles}


def ids(pages):
    return [str(p.relative_to(ROOT)) for p in pages]


def test_every_page_is_linked_from_the_readme_or_the_index():
    """Reports are in an index of their own."""
    linked = {(p.parent / t.partition("#")[0]).resolve() for p in (ROOT / "README.md", DOCS / "README.md", INDEX) for t in links(p)}
    assert [p for p in PAGES if p.resolve() not in linked and p != ROOT / "README.md"] == []


@pytest.mark.parametrize("page", PAGES, ids=ids(PAGES))
def test_links(page):
    """Each leads to a file or a heading that there is."""
    for target in links(page):
        if re.match(r"https?:", target):
            continue
        file, _, heading = target.partition("#")
        path = (page.parent / file).resolve() if file else page
        assert path.exists(), target
        assert not heading or heading in anchors(path), target


@pytest.mark.parametrize("page", LASTING, ids=ids(LASTING))
def test_no_date_and_no_history(page):
    """What is always true has no date; a report's file name in a link has one."""
    text = re.sub(r"\]\([^)]*\)", "]()", prose(page))
    months = "January|February|March|April|June|July|August|September|October|November|December"
    assert not re.findall(r"20\d\d-\d\d(?:-\d\d)?|(?:%s) 20\d\d" % months, text)
    assert not re.findall(r"(?i)\bas of [0-9a-f]{7}\b|\bcommit [0-9a-f]{7}\b|\bin an earlier run\b", text)


@pytest.mark.parametrize("page", [*REFERENCE, *TUTORIALS, *GUIDES], ids=ids([*REFERENCE, *TUTORIALS, *GUIDES]))
def test_a_page_says_what_it_is_for_and_shows_it_within_a_screen(page):
    lines = page.read_text().splitlines()
    assert lines[0] == "<!-- SPDX-License-Identifier: MIT -->" and lines[1].startswith("# ")
    assert lines[3][0].isalnum() or lines[3][0] in "`*", lines[3]  # a sentence
    assert any(re.match(r"```|    \S|\||For instance", line) for line in lines[3:46])


@pytest.mark.parametrize("page", REPORTS, ids=ids(REPORTS))
def test_a_report_says_when_of_what_and_how(page):
    date, name = page.name[:10], page.name[11:]
    rows = dict(re.findall(r"^\| (\w+) \| (.+) \|$", page.read_text().split("\n## ")[0], re.M))
    assert rows["date"].startswith(date) and {"commit", "machine", "command"} <= set(rows)
    assert "`" in rows["command"]
    assert [p.name for p in REPORTS if p.name[11:] == name] == [page.name]  # the newest replaces the older


@pytest.mark.parametrize("page", REPORTS, ids=ids(REPORTS))
def test_a_report_says_its_result_in_its_first_sentence(page):
    """And the index has that sentence."""
    first = " ".join(page.read_text().split("\n\n")[1].split()) if page.read_text().count("\n\n") else ""
    assert re.match(r"[A-Z0-9`].*\.$", first), first
    assert f"]({page.name}). {first}" in " ".join(INDEX.read_text().split())


@pytest.mark.parametrize("page", LASTING, ids=ids(LASTING))
def test_files_that_are_named_exist(page):
    """`tool/...`, `lib/...` and the like, between backticks."""
    named = re.findall(r"`((?:tool|lib|tests|scripts)/[\w./-]+)`", prose(page))
    missing = [n for n in named if not (ROOT / n).exists() and not re.search(r"NAME|tool/cmd_$", n)]
    assert not missing


def test_the_picture_is_that_of_the_newest_report(tmp_path):
    subprocess.run([ROOT / "scripts" / "picture.py", REPORTS[[p.name[11:] for p in REPORTS].index("walks.md")], tmp_path / "walk.svg"],
                   check=True)
    assert (tmp_path / "walk.svg").read_text() == (DOCS / "walk.svg").read_text()


NUMBER = r"\b\d[\d,]*\.?\d*\b"


def test_numbers_of_the_benchmarks_are_those_of_its_reports():
    """A row that names a report has no number that the report has not."""
    rows = re.findall(r"^\| (.*) \| \[report\]\((reports/[^)]+)\) \|$", (DOCS / "benchmarks.md").read_text(), re.M)
    assert len(rows) > 10
    for text, report in rows:
        found = re.findall(NUMBER, re.sub(r"x86-64|python3|libsqlite3|cc1plus|Debian 12|gcc 12|1 kHz|32 KB", "", text))
        assert found
        for number in found:
            assert re.search(r"(?<![\d.,])%s" % re.escape(number), (DOCS / report).read_text()), (number, report)


def test_numbers_of_the_readme_are_those_of_the_benchmarks():
    text = re.search(r"^## In numbers\n(.*?)^## ", (ROOT / "README.md").read_text(), re.M | re.S).group(1)
    known = (DOCS / "benchmarks.md").read_text()
    for number in re.findall(NUMBER, re.sub(r"x86-64|python3|Debian 12|1000 samples a second", "", text)):
        number = "15.0" if number == "1.5" else number  # 15.0 us, a thousand times a second
        assert re.search(r"(?<![\d.,])%s" % re.escape(number), known), number


def test_the_tree_obeys_editorconfig():
    """Sources end in a newline, and their lines do not end in blanks. (Python's may: in what a command prints.)"""
    names = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=True).stdout.splitlines()
    wrong = []
    for name in names:
        path = ROOT / name
        if path.suffix not in (".c", ".h", ".S", ".cc", ".sh") or path.is_symlink() or not path.exists():
            continue
        text = path.read_text()
        if not text.endswith("\n") or "\r" in text or re.search(r"[ \t]$", text, re.M):
            wrong.append(name)
    assert not wrong


def test_functions_that_are_named_exist():
    code = "\n".join(p.read_text(errors="replace") for top in ("tool", "lib") for p in (ROOT / top).rglob("*.[ch]"))
    for page in (ROOT / "CONTRIBUTING.md", DOCS / "architecture.md", DOCS / "unwinding.md"):
        for name in re.findall(r"`(\w+)\(\)`", prose(page)):
            assert "NAME" in name or re.search(r"\b%s\(" % name, code), (name, page.name)
