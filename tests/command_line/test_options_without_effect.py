# SPDX-License-Identifier: MIT
"""An option that would do nothing beside the others is refused in one line, which names it. `etch rewrite` is in
test_undo.py, test_debug_frame.py and test_rewrite_unwind.py, which try every option that --help lists."""

import re

import pytest

from conftest import run

PROGRAM = "/usr/bin/true"

REFUSED = [
    ("rewrite", ["--only", "imv", PROGRAM], {
        "--no-cfi": [], "--encoding": ["block"], "--unwind-map": ["64"], "--sframe": [], "--eh-frame": [], "--fix-cfi": [], "--registers": []},
     "cannot be combined with --only without orc"),
    ("rewrite", ["--only", "orc,ex", PROGRAM], {"--closed": [], "--init": ["main"]}, "cannot be combined with --only without imv and pv"),
    ("rewrite", ["--encoding", "orc", PROGRAM], {"--unwind-map": ["64"], "--registers": []}, "cannot be combined with --encoding orc"),
    ("check", [PROGRAM], {"--source-root": ["."], "--docs-uri": ["x"]}, "needs --format sarif"),
    ("check", ["--format", "json", PROGRAM], {"--source-root": ["."], "--docs-uri": ["x"]}, "needs --format sarif"),
    ("check", [PROGRAM], {"--null": []}, "needs --files-from, or - as FILE"),
    ("check", [PROGRAM], {"--create-baseline": []}, "needs --baseline; see etch check --help"),
    ("inspect", ["orc", "--no-cfi", PROGRAM], {"--symbols": ["map"]}, "cannot be combined with --no-cfi"),
    ("inspect", ["orc", "--json", PROGRAM], {"--demangle": []}, "needs --format text"),
    ("inspect", ["orc", "--format", "tsv", PROGRAM], {"--demangle": []}, "needs --format text"),
    ("diff", ["--show", "main", PROGRAM, PROGRAM], {"--functions": [], "--top": ["1"], "--notes": []}, "cannot be combined with --show"),
    ("diff", ["--format", "json", PROGRAM, PROGRAM], {"--show": ["main"], "--top": ["1"], "--demangle": []}, "needs --format text"),
    ("diff", ["--functions", PROGRAM, PROGRAM], {"--top": ["1"]}, "cannot be combined with --functions"),
    ("diff", ["--quiet", PROGRAM, PROGRAM], {"--format": ["json"], "--functions": [], "--top": ["1"], "--show": ["main"], "--demangle": []},
     "cannot be combined with --quiet"),
    ("stat", ["true"], {"--only": ["true"], "--files": ["100"]}, "needs --simulate"),
    ("profile", ["true"], {"--unit": ["us"]}, "needs --diff or --merge"),
    ("profile", ["--off-cpu", "true"], {"--frequency": ["100"], "--wall": []}, "cannot be combined with --off-cpu"),
    ("profile", ["--quiet", "true"], {"--rows": ["3"]}, "cannot be combined with --quiet"),
    ("heap", ["--quiet", "true"], {"--rows": ["3"]}, "cannot be combined with --quiet"),
    ("tables", ["status"], {"--jobs": ["1"], "--max-size": ["1"], "--max-time": ["1"], "--prune": [], "--quiet": [], "--verbose": []},
     "is not for tables status"),
    ("tables", ["update", PROGRAM], {"--format": ["json"]}, "is not for tables update"),
    ("tables", ["clear"], {"--jobs": ["1"], "--max-size": ["1"], "--max-time": ["1"], "--prune": [], "--format": ["json"], "--verbose": []},
     "is not for tables clear"),
]


@pytest.mark.parametrize("command,args,options,why", REFUSED, ids=lambda v: " ".join(v) if isinstance(v, list) else None)
def test_refused(etch, tmp_path, command, args, options, why):
    (tmp_path / "map").write_text("")
    at = 1 if command in ("inspect", "tables") else 0
    for option, value in options.items():
        p = run([etch, command, *args[:at], option, *value, *args[at:]], ok=2, cwd=tmp_path)
        assert (p.stdout, p.stderr) == ("", f"etch: {option} {why}\n")
    assert [f.name for f in tmp_path.iterdir()] == ["map"]


VALUES = {
    "--output": "o.svg", "--format": "json", "--frequency": "100", "--pid": "1", "--duration": "1", "--unit": "us", "--stack": "4096", "--rows": "3",
    "--jobs": "1", "--level": "note", "--fail-on": "never", "--compiler": "note", "--ignore": "ETCH-C001", "--suppressions": "s",
    "--baseline": "b", "--files-from": "f", "--source-root": ".", "--docs-uri": "x", "--explain": "ETCH-C001"}


@pytest.mark.parametrize("command,mode,operands,taken", [
    ("check", ["--list"], [], set()), ("check", ["--explain", "ETCH-C001"], [], set()),
    ("profile", ["--diff"], ["a", "b"], {"--output", "--unit", "--rows", "--quiet"}),
    ("profile", ["--merge"], ["a", "b"], {"--output", "--unit", "--rows", "--quiet"})], ids=["list", "explain", "diff", "merge"])
def test_of_every_option_of_help(etch, tmp_path, command, mode, operands, taken):
    """Whatever --help lists is taken or refused, so a new option cannot be ignored either."""
    for name in operands:
        (tmp_path / name).write_text("main;f 10\n")
    options = set(re.findall(r"^  +(?:-\w, )?(--[a-z-]+)", run([etch, command, "--help"]).stdout, re.M)) - {"--help", mode[0]}
    assert len(options) > 15
    for option in options:
        p = run([etch, command, *mode, option, *([VALUES[option]] if option in VALUES else []), *operands], ok=None, cwd=tmp_path)
        line = p.stderr.splitlines()
        if option in taken:
            assert p.returncode == 0, (option, p.stderr)
        elif option == "--format" and operands:  # taken, but not each format
            assert p.returncode == 2 and "--format" in p.stderr
        else:
            assert p.returncode == 2 and len(line) == 1, (option, p.stderr)
            assert line[0] in (f"etch: {option} cannot be combined with {mode[0]}", f"etch: {mode[0]} cannot be combined with {option}"), option


@pytest.mark.parametrize("option", [["--list"], ["--explain", "ETCH-C001"]])
def test_no_file(etch, option):
    assert run([etch, "check", *option, PROGRAM], ok=2).stderr == f"etch: {option[0]} takes no FILE\n"


def test_lists_of_names_may_end_with_zeros(etch, tmp_path):
    (tmp_path / "list").write_bytes(PROGRAM.encode() + b"\0")
    run([etch, "check", "--fail-on", "never", "--null", "--files-from", tmp_path / "list"])
    run([etch, "check", "--fail-on", "never", "--null", "-"], input=PROGRAM + "\0")
