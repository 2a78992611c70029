# SPDX-License-Identifier: MIT
"""Files, functions and lists of parameters of tool/ and lib/ stay as short as CONTRIBUTING.md asks."""
import re

from conftest import ROOT

LINES, FUNCTION, PARAMETERS = 500, 60, 6
# Functions whose parameters others have chosen.
GIVEN = {
    "sys_call6": "the kernel's system calls have six arguments and a number",
    "find_nothing": "a callback of libdwfl",
    "debug_copy_find": "likewise",
    "etch_module_load_v1": "called by programs that were compiled with an earlier header",
}


def sources():
    return sorted(p for top in ("tool", "lib") for p in (ROOT / top).rglob("*.[ch]"))


def functions(text):
    """(name, lines, parameters) of each function, from the first line of its head to its closing brace."""
    lines = text.split("\n")
    for at, line in enumerate(lines):
        if line != "{":
            continue
        first = at - 1
        while lines[first].startswith((" ", "\t")):
            first -= 1
        head = re.sub(r"__attribute__\(\(.*?\)\)\)?", "", " ".join(lines[first:at]))
        m = re.match(r"[\w\s*]*?\b(\w+)\((.*)\)[^()]*$", head)
        if m:
            depth, count = 0, m[2].strip() not in ("", "void")
            for c in m[2]:
                depth += (c == "(") - (c == ")")
                count += c == "," and not depth
            yield m[1], lines.index("}", at) - first + 1, count


def test_files_are_short():
    """Or say on their first lines why not."""
    texts = {p: p.read_text() for p in sources()}
    assert len(texts) > 500
    assert not [f"{p.relative_to(ROOT)}: {n} lines" for p, t in texts.items()
                if (n := t.count("\n")) > LINES and "One file, since" not in "\n".join(t.split("\n")[:12])]


def test_functions_are_short():
    found = [(p.relative_to(ROOT), *f) for p in sources() for f in functions(p.read_text())]
    assert len(found) > 3500  # it finds them
    assert not [f"{p}: {name}() has {n} lines" for p, name, n, _ in found if n > FUNCTION]
    many = {name: f"{p}: {name}() has {n} parameters" for p, name, _, n in found if n > PARAMETERS}
    assert set(many) <= set(GIVEN), [text for name, text in many.items() if name not in GIVEN]
    assert set(GIVEN) <= set(many)


def test_one_text_for_lack_of_memory():
    """It stands in support/error.h, once."""
    found = [str(p.relative_to(ROOT)) for p in sorted((ROOT / "tool").rglob("*.[ch]"))
             for _ in re.findall(r'"[^"\n]*out of memory[^"\n]*"', re.sub(r"(?s)/\*.*?\*/", "", p.read_text()))]
    assert found == ["tool/support/error.h"]


def test_one_binary_search():
    """SEARCH of shared/search.h; bsearch(3) where an element is known by its key. stat/samples.c bisects values, not a list;
    the two public headers stand alone, for programs that read tables by themselves."""
    found = {str(p.relative_to(ROOT)) for room in ("tool", "lib") for p in (ROOT / room).rglob("*.[ch]")
             if re.search(r"\+ \(\w+ - \w+(?: \+ 1)?\) / 2;", p.read_text())}
    assert found == {"lib/shared/search.h", "tool/stat/samples.c", "lib/include/etch/orc_arrays.h", "lib/include/etch/orc_block.h"}
