# SPDX-License-Identifier: MIT
"""No conditional expression is an operand of another: an if, a switch or a function with a name says it."""
import pytest

from conditionals import nested
from conftest import ROOT


def test_none_is_nested():
    found = {p.relative_to(ROOT): nested(p.read_text()) for top in ("tool", "lib", "tests", "scripts") for p in sorted((ROOT / top).rglob("*.[ch]"))}
    places = [f"{path}:{line}" for path, lines in found.items() for line in lines]
    assert len(found) > 400 and not places, "\n".join(places)


@pytest.mark.parametrize("lines, text", [
    ([1], "x = a ? b : c ? d : e;"),
    ([1], "x = a ? b ? c : d : e;"),
    ([1], "x = (a ? b : c) ? d : e;"),
    ([1], "return a ? f(b, (c ? d : e)) : g;"),
    ([1], "x = a ?: b ?: c;"),
    ([2], "f(a,\n  b ? c :\n  d ? e : f);"),
    ([1], "x = a ? (struct s){b ? 1 : 2, 3} : d;"),
    ([1, 3], "x = a ? b : c ? d : e;\n/* a ? b : c ? d : e */ y = 1;\nz = v[a ? b : c[d ? e : f]];"),
    ([2], "#define A(x) \\\n\t((x) ? 1 : (x) + 1 ? 2 : 3)\nint y;"),
    ([1], "x = '?' ? a ? b : c : '\"';"),
    ([1], 's = a ? "?" : b ? "/*" : "*/";'),
])
def test_nested_ones_are_found(lines, text):
    assert nested(text) == lines


@pytest.mark.parametrize("text", [
    "x = a ? b : c; y = d ? e : f;",
    "f(a ? b : c, d ? e : f);",
    "x = (a ? b : c) + (d ? e : f);",
    "if (a ? b : c)\n\treturn d ? e : f;",
    "while (a ? b : c) x = d ? e : f;",
    "v[a ? b : c] = d ? e : f;",
    "x = f(a ? b : c) == 2;",
    's = a ? "b ? c : d" : "\\" ? e : f";',
    "x = a ? '?' : ':'; // ? b ? c : d",
    "x = a ? b /* ? : ? : */ : c;",
    "switch (a) { case 1: x = b ? c : d; break; default: y = e ? f : g; }",
    "int f(void) { return a ? b : c; }\nint g(void) { return d ? e : f; }",
    "struct s x[] = {{a ? b : c, d ? e : f}, {g ? h : i, 0}};",
    "#define A(x) ((x) ? 1 : 2)\n#define B(x) ((x) ? 3 : 4)\n",
    "#define A \"a ? b : c ? d : e\" /* ? ? */\nint y;",
    "unsigned a : 3, b : 4; x = c ? d : e;",
])
def test_others_are_not(text):
    assert nested(text) == []
