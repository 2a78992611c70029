# SPDX-License-Identifier: MIT
"""The man pages render and, like --help, name every command, option and call."""

import re
import subprocess

import pytest

from conftest import INCLUDE, ROOT, run
from documents import MAN, code


def command_names():
    text = code(ROOT / "tool" / "main.c")
    return re.findall(r'\{"(\w+)", "[^"]*", cmd_\w+\}', text)


PAGES = ["etch.1", "etch-cc.1", *(f"etch-{name}.1" for name in command_names()), "libetch.3", "libetch-unwind.3", "libetch-copy.3", "etch-unwind.7", "libetch-exceptions.7"]


@pytest.mark.parametrize("page", PAGES)
def test_man_page_renders(page):
    text = (MAN / page).read_text()
    assert text.startswith('.\\" SPDX-License-Identifier: MIT\n')
    for argv in (["groff", "-man", "-Tutf8", "-ww", MAN / page], ["groff", "-t", "-man", "-Tascii", "-ww", MAN / page]):
        p = run(argv)
        assert not p.stderr and len(p.stdout) > 1500
    assert max(len(re.sub(r"\x1b\[[0-9;]*m|.\x08", "", line)) for line in p.stdout.splitlines()) <= 80
    for name in ("NAME", "SYNOPSIS", "DESCRIPTION", "SEE ALSO"):
        assert re.search(r'^\.SH "?%s"?$' % name, text, re.M), name


@pytest.mark.parametrize("page", PAGES)
def test_nothing_is_hyphenated(page):
    """A reader searches for a name, and copies it: a line ends with a hyphen only where the word has one."""
    source = re.sub(r"\\f.|\\&", "", (MAN / page).read_text()).replace("\\-", "-")
    broken = re.findall(r"(\w+)-\n *(\w+)", man_text(page))
    assert [a + b for a, b in broken if f"{a}-{b}" not in source] == []


def test_no_page_is_forgotten():
    assert sorted(p.name for p in MAN.iterdir()) == sorted(PAGES)


def options_of(command):
    """[(short or None, long)] from the command's table of options."""
    text = code(ROOT / "tool" / f"cmd_{command}.c")
    short = re.search(r'argument_option\(argc, argv, "([^"]*)"', text).group(1).replace(":", "").lstrip("+")
    longs = re.search(r"struct option longs\[\] = \{(.*?)\n\t?\};", text, re.S).group(1)
    found = [(c if c in short else None, name)
             for name, c in re.findall(r"\{\"([\w-]+)\",\s*\w+,\s*NULL,\s*'(.)'\}", longs)]
    assert len(found) == longs.count('{"') and {c for c, _ in found if c} == set(short)
    return found


def man_text(page):
    """As a reader sees it."""
    p = subprocess.run(["groff", "-man", "-Tascii", "-P-c", str(MAN / page)], capture_output=True, text=True, check=True)
    return re.sub(r".\x08", "", p.stdout)


def test_commands_are_documented(etch):
    usage = run([etch, "--help"]).stdout
    page = man_text("etch.1")
    assert {"rewrite", "check", "inspect"} <= set(command_names())
    for name in command_names():
        assert re.search(r"^  %s\b" % name, usage, re.M)
        assert f"etch-{name}(1)" in page and (MAN / f"etch-{name}.1").exists()
    for option in ("--help", "--version"):
        assert option in usage and option in page


@pytest.mark.parametrize("command", command_names())
def test_help_and_man_page_name_every_option(etch, command):
    usage = run([etch, command, "--help"]).stdout
    page = man_text(f"etch-{command}.1")
    for short, name in options_of(command):
        spelled = f"-{short}, --{name}" if short else f"--{name}"
        assert re.search(r"(^|\s)%s\b" % re.escape(spelled), usage), f"{spelled} is not in --help"
        assert re.search(r"(^|\s)%s\b" % re.escape(spelled), page), f"{spelled} is not in the man page"
    # And the reverse: no option that is not there.
    known = {n for _, n in options_of(command)}
    assert set(re.findall(r"--([a-z][a-z-]*)", usage)) <= known
    assert set(re.findall(r"(?:^|\s)--([a-z][a-z-]*)", page)) <= known


def test_libetch_3_names_every_call():
    page = man_text("libetch.3") + man_text("libetch-unwind.3") + man_text("libetch-copy.3")
    header = code(INCLUDE / "etch" / "imv.h", INCLUDE / "etch" / "branch.h", INCLUDE / "etch" / "mark.h")
    calls = " ".join(re.findall(r"global:(.*?)(?:local:|\})", code(ROOT / "lib" / "libetch.map"), re.S)).replace(";", " ").split()
    calls = [c for c in calls if not c.startswith(("etch_module_", "etch_extable_", "etch_part_")) and not c.endswith(("_", "_2"))]
    faults = code(INCLUDE / "etch" / "extable.h", INCLUDE / "etch" / "copy.h")
    macros = [m for m in re.findall(r"^\s*#define (\w+?)\(", header, re.M) if not m.endswith("_")]
    macros += ["ETCHED", "ETCHED_SHARED", *re.findall(r"^#define (ETCH_EX_[A-Z]+)\(", faults, re.M),
               *re.findall(r"^\t(ETCH_COPY_\w+),", faults, re.M)]
    unwind = code(INCLUDE / "etch" / "unwind.h")
    macros += re.findall(r"\b(ETCH_UNWIND_\w+) = ", unwind)
    # Nothing is exported without a declaration for programs, or the other way round.
    declared = set(re.findall(r"\b(etch_\w+)\(", header + unwind + faults))
    assert declared and set(calls) <= declared
    assert set(re.findall(r"^[a-z].*?\b\*?(etch_(?:fault|fixup|copy|strncpy|probe)\w*)\(", faults, re.M)) <= set(calls)
    inline = set(re.findall(r"^static inline \w+ (etch_\w+)\(", unwind, re.M))
    assert inline and set(re.findall(r"^[a-z].*?\b\*?(etch_\w+)\(", unwind, re.M)) <= set(calls) | inline
    assert len(calls) >= 7 and "imv_read" in macros and "ETCH_UNWIND_END" in macros
    for name in [*calls, *inline, *macros]:
        assert re.search(r"\b%s\b" % name, page), name
    for field in re.findall(r"\t(?:size_t|unsigned long) (\w+);", re.search(r"struct etch_info \{(.*?)\};", header, re.S).group(1)):
        assert re.search(r"\b%s\b" % field, page), field
