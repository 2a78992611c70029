# SPDX-License-Identifier: MIT
"""What the tests of docs/ read: the pages, and the source that they speak of."""

import re

from conftest import ROOT

DOCS = ROOT / "docs"
MAN = DOCS / "man"
FINDINGS = (DOCS / "findings.md").read_text()
FORMATS = (DOCS / "formats.md").read_text()


def code(*paths):
    """Source text without comments."""
    return "\n".join(re.sub(r"/\*.*?\*/", "", p.read_text(), flags=re.S) for p in paths)


def literals(text):
    """C string literals, neighbours joined."""
    joined = re.sub(r'"\s*\n\s*"', "", text)
    return [bytes(s, "utf-8").decode("unicode_escape") for s in re.findall(r'"((?:[^"\\]|\\.)*)"', joined)]


def function(text, name):
    """The body of a C function that ends with a brace in the first column."""
    m = re.search(r"^[^\n;]*\b%s\([^;{]*\)\n\{\n.*?^\}" % name, text, flags=re.S | re.M)
    assert m, f"no function {name}"
    return m.group(0)


def table(text, after):
    """Rows of the markdown table that follows `after`, cells stripped."""
    rows = []
    for line in text[text.index(after) + len(after):].lstrip("\n").splitlines():
        if not line.startswith("|"):
            if rows:
                break
            continue
        rows.append([c.strip() for c in line.strip("|").split("|")])
    assert len(rows) > 2, after
    return rows[2:]  # without the header and its rule


def enum(header, name):
    body = re.search(r"enum %s \{(.*?)\};" % name, code(header), flags=re.S).group(1)
    return {n: int(v, 0) for n, v in re.findall(r"(ETCH_\w+) = (\w+)", body)}
