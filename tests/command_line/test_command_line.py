# SPDX-License-Identifier: MIT
"""What the commands have in common: options that are wrong, and output that cannot be written."""

import fcntl
import os
import pty
import shutil
import struct
import subprocess
import termios

import pytest

from conftest import INCLUDE, run

COMMANDS = ["rewrite", "check", "inspect", "diff", "stat", "objtool", "profile", "heap"]


@pytest.mark.parametrize("command", COMMANDS)
@pytest.mark.parametrize("args", [["--bogus"], ["-?"], ["--format"]])
def test_wrong_option(etch, command, args):
    """One line, which begins as all errors do, and says which command has the help."""
    line, = run([etch, command, *args], ok=2).stderr.splitlines()
    assert line.startswith("etch: ") and args[0].lstrip("-") in line and line.endswith(f"; see etch {command} --help")


@pytest.mark.parametrize("args,meant", [
    (["profle", "x"], "profile"), (["inspct", "x"], "inspect"), (["chekc", "x"], "check"),
    (["check", "--fromat", "json", "x"], "--format"), (["rewrite", "--eh-fram=x", "--sfarme", "x"], "--sframe"), (["stat", "--warm-up", "1"], "--warmup"),
    (["inspect", "sumary", "/bin/true"], "summary"), (["inspect", "sumary"], "summary"), (["tables", "statsu"], "status"),
])
def test_what_was_meant_is_named(etch, args, meant):
    line, = run([etch, *args], ok=2).stderr.splitlines()
    assert line.startswith("etch: ") and f"(did you mean {meant}?)" in line


@pytest.mark.parametrize("args", [["qqqqqq"], ["check", "--qqqqqq"], ["inspect", "qqqqqq", "/bin/true"], ["tables", "qqqqqq"]])
def test_nothing_is_meant_by_what_is_like_nothing(etch, args):
    line, = run([etch, *args], ok=2).stderr.splitlines()
    assert "qqqqqq" in line and "did you mean" not in line


@pytest.mark.parametrize("operands,command", [
    (["orc", "main", "FILE"], "orc --at main FILE"), (["cfi", "FILE", "main"], "cfi --at main FILE"),
    (["code", "FILE", "main"], "code main FILE")])
def test_a_function_in_the_place_of_a_file(etch, tmp_path, operands, command):
    operands = [str(etch) if o == "FILE" else o for o in operands]
    p = run([etch, "inspect", *operands], ok=2, cwd=tmp_path)
    assert p.stdout == ""
    assert p.stderr == f"etch: main: no such file; for the function of that name: etch inspect {command.replace('FILE', str(etch))}\n"


def test_a_file_comes_before_a_view_that_it_is_like(etch, tmp_path):
    """A name of a file that is there is a file; what has a path or an ending is meant to be one."""
    shutil.copy("/bin/true", tmp_path / "sumary")
    assert run([etch, "inspect", "sumary"], cwd=tmp_path).stdout.startswith("sumary: ")
    for name in ("./tabels", "tabels.o", "libc"):
        assert run([etch, "inspect", name], cwd=tmp_path, ok=2).stderr == f"etch: {name}: No such file or directory\n"


def test_version(etch):
    assert run([etch, "version"]).stdout == run([etch, "--version"]).stdout


@pytest.mark.parametrize("command", ["rewrite", "check", "inspect", "diff", "stat", "objtool", "profile", "heap", "tables"])
def test_every_command_can_be_quiet(etch, command):
    assert "-q, --quiet" in run([etch, command, "--help"]).stdout


def test_quiet(etch, tmp_path):
    """Nothing is printed, and the exit status is the same."""
    (tmp_path / "a.s").write_text(".globl f\n.type f,@function\nf: push %rbx\n ret\n.size f,.-f\n")
    (tmp_path / "b.c").write_text("#include <etch/imv.h>\nETCHED char small; long f(void) { return *(volatile long *)&small; }\n")
    run(["gcc", "-c", "a.s"], cwd=tmp_path)
    run(["gcc", "-O2", f"-I{INCLUDE}", "-c", "b.c"], cwd=tmp_path)
    for args, status in ((["diff", "-q", "a.o", "b.o"], 1), (["diff", "-q", "a.o", "a.o"], 0), (["rewrite", "-q", "--werror", "-o", "c.o", "b.o"], 1)):
        p = run([etch, *args], ok=status, cwd=tmp_path)
        assert (p.stdout, p.stderr) == ("", "")
    assert "ETCH-" in run([etch, "rewrite", "--werror", "-o", "c.o", "b.o"], ok=1, cwd=tmp_path).stderr


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


def on_a_terminal(argv, columns):
    """What a command prints on a terminal of so many columns."""
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
    p = subprocess.Popen([str(a) for a in argv], stdout=theirs, stderr=subprocess.DEVNULL, env=dict(os.environ, NO_COLOR="1"))
    os.close(theirs)
    out = b""
    while True:
        try:
            some = os.read(ours, 65536)
        except OSError:  # EIO: the other side is closed
            some = b""
        if not some:
            break
        out += some
    os.close(ours)
    assert p.wait() == 0
    return out.decode().replace("\r\n", "\n")


@pytest.mark.parametrize("columns", [60, 80, 120])
def test_no_line_is_wider_than_the_terminal(etch, build, columns):
    library = build / "libetch.so.0"
    for view in ("summary", "sites", "tables"):
        narrow, wide = on_a_terminal([etch, "inspect", view, library], columns), run([etch, "inspect", view, library]).stdout
        assert max(map(len, narrow.splitlines())) <= columns, narrow
        assert max(map(len, wide.splitlines())) > columns or view == "tables" or columns == 120
    # The summary has all its words; only where its lines end differs.
    assert on_a_terminal([etch, "inspect", library], columns).split()[:60] == run([etch, "inspect", library]).stdout.split()[:60]


def test_columns_are_counted_in_characters(etch, tmp_path):
    """Names of UTF-8: a column is as wide as its longest name has characters, and a terminal that is too narrow cuts no character."""
    names = ["größe" * k for k in (1, 4, 9)]
    (tmp_path / "a.c").write_text("#include <etch/imv.h>\n" + "".join(
        f"ETCHED_SHARED int {n};\nint lies_{n}(void) {{ return *(volatile int *)&{n}; }}\n" for n in names))
    run(["gcc", "-O2", f"-I{INCLUDE}", "-c", "a.c"], cwd=tmp_path)
    rows = run([etch, "inspect", "sites", "a.o"], cwd=tmp_path).stdout.splitlines()
    at = rows[0].index("offset")
    assert len(rows) == 4 and sorted(r.split()[3] for r in rows[1:]) == sorted(names)
    assert {len(r[:at].rstrip()) < at and r[at:at + 6].strip() for r in rows[1:]} == {"0"}, rows
    for columns in range(60, 100):
        for line in on_a_terminal([etch, "inspect", "sites", tmp_path / "a.o"], columns).splitlines():  # it is strict UTF-8
            assert len(line) <= columns
