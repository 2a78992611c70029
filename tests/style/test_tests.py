# SPDX-License-Identifier: MIT
"""The tests themselves: the names of their files, and what the repository says of them."""
import re
from collections import Counter

from conftest import DATA, ROOT, TESTS


def test_no_two_files_have_one_name():
    """conftest.py makes all folders importable, so a second file of a name would hide the first."""
    names = Counter(p.name for folder in (TESTS, *TESTS.iterdir()) if folder != DATA for p in folder.glob("*.py"))
    assert [name for name, n in names.items() if n > 1] == []


def test_files_that_are_named_exist():
    """Wherever sources, scripts and documents speak of a file of the tests."""
    files = [ROOT / "Makefile", *ROOT.glob("*.md"), *(p for top in ("tool", "lib", "scripts", "docs", "tests") for p in (ROOT / top).rglob("*")
                                                      if p.is_file() and "__pycache__" not in p.parts and DATA / "fuzz" not in p.parents)]
    tests = {p.name for p in TESTS.glob("*/test_*.py")}
    named, missing = 0, []
    for path in files:
        text = path.read_text(errors="ignore") if path.name != "CHANGELOG.md" else ""
        paths = re.findall(r"(?<![\w./-])tests/[\w/-]+\.(?:py|c|cc|h|hpp|S|s|tsv|txt)\b", text)
        names = re.findall(r"(?<![\w/])test_\w+\.py\b", text)
        named += len(paths) + len(names)
        missing += [f"{path.relative_to(ROOT)}: {of}" for of in [*(p for p in paths if not (ROOT / p).exists()), *(n for n in names if n not in tests)]]
    assert named > 300 and missing == []
