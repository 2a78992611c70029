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


def listing(text, head):
    """Lines of a listing from the one that is `head` on, up to an empty line; a line that is indented more than the first
    goes on with the one before it."""
    lines = text[re.search(r"^%s$" % re.escape(head), text, re.M).end() + 1:].split("\n\n")[0].split("\n```")[0].splitlines()
    number = re.compile(r"\s{0,2}\S")  # numbers are aligned to the right
    out = []
    for line in lines:
        if number.match(line):
            out.append(line.strip())
        elif out:
            out[-1] += " " + line.strip()
    assert len(out) > 1, head
    return out


def record(text, name):
    """[(offset, size, field, content)] of `struct name`."""
    rows = [re.match(r"(\d+)  +(\d+)  (\w+)(?: +(.*))?$", row).groups("") for row in listing(text, f"struct {name}")]
    return [(int(offset), int(size), field, content) for offset, size, field, content in rows]


def enum(header, name):
    body = re.search(r"enum %s \{(.*?)\};" % name, code(header), flags=re.S).group(1)
    return {n: int(v, 0) for n, v in re.findall(r"(ETCH_\w+) = (\w+)", body)}
