# SPDX-License-Identifier: MIT
"""What the commands have in common: options that are wrong, and output that cannot be written."""

import pytest

from conftest import run

COMMANDS = ["rewrite", "check", "inspect", "diff", "stat", "objtool", "profile", "heap"]


@pytest.mark.parametrize("command", COMMANDS)
@pytest.mark.parametrize("args", [["--bogus"], ["-?"], ["--format"]])
def test_wrong_option(etch, command, args):
    """Every line begins with the program's name, and says which command has the help."""
    lines = run([etch, command, *args], ok=2).stderr.splitlines()
    assert lines[0].startswith(f"etch {command}: ") and args[0].lstrip("-") in lines[0]
    assert lines[1:] == [f"etch: see etch {command} --help"]


@pytest.mark.parametrize("command", ["rewrite", "check", "inspect", "diff"])
@pytest.mark.parametrize("number", ["0", "-1", "1025", "", "2x", "4294967297", "99999999999999999999"])
def test_jobs(etch, command, number):
    error = run([etch, command, "-j", number, "/nonexistent", "/nonexistent"], ok=2).stderr
    assert error == f"etch: -j must be a number from 1 to 1024, not '{number}'\n"


@pytest.mark.parametrize("args,words", [
    (["rewrite", "--encoding"], "block or orc"), (["rewrite", "--unwind-map"], "none, 64 or 128"),
    (["check", "--format"], "text, json or sarif"), (["check", "--level"], "error, warning or note"),
    (["check", "--fail-on"], "error, warning or never"), (["inspect", "--format"], "text, tsv or json"),
    (["inspect", "--syntax"], "att or intel"), (["diff", "--format"], "text or json"), (["stat", "--format"], "text, tsv or json"),
])
def test_words(etch, args, words):
    """What an option may be is said, and what it was is shown without what a terminal would act on."""
    error = run([etch, *args, "\x1b[31mred"], ok=2).stderr
    assert error == f"etch: {args[1]} must be {words}, not '\\x1b[31mred'\n"


@pytest.mark.parametrize("command", COMMANDS)
def test_help(etch, command):
    text = run([etch, command, "--help"]).stdout
    assert text.startswith(f"Usage: etch {command} ") and text == run([etch, "help", command]).stdout


@pytest.mark.parametrize("args", [["--help"], ["--version"], ["help", "check"], ["check", "--list"], ["inspect", "/bin/true"]])
def test_full_disk(etch, args):
    with open("/dev/full", "w") as full:
        error = run([etch, *args], ok=2, stdout=full, stderr=-1).stderr
    assert error == "etch: standard output: cannot write: No space left on device\n"


def test_closed_streams(etch, tmp_path):
    """Of three closed descriptors none becomes a file's that a message would go into."""
    run([etch, "rewrite", "-o", tmp_path / "a", "/bin/true"])
    run(["sh", "-c", 'exec "$@" <&- >&- 2>&-', "sh", etch, "rewrite", "-v", "-o", tmp_path / "b", "/bin/true"], ok=2)
    assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes()
    trace = tmp_path / "trace"
    run(["strace", "-o", trace, "-e", "trace=openat", "sh", "-c", 'exec "$@" <&- >&- 2>&-', "sh", etch, "check", "/bin/true"], ok=2)
    of_tool = trace.read_text().split('"/bin/true"')
    assert len(of_tool) > 1 and not any(line.endswith((" = 0", " = 1", " = 2")) for line in of_tool[-1].splitlines()[1:])
    assert not of_tool[-1].splitlines()[0].endswith((" = 0", " = 1", " = 2"))
