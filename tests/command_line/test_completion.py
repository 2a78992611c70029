# SPDX-License-Identifier: MIT
"""The completions of bash, zsh and fish offer what --help names, as those shells see it."""

import re
import shutil
import subprocess

import pytest

from conftest import ROOT, run

COMPLETION = ROOT / "tool" / "completion"


def bash(build, words):
    script = f"""PATH={build}:$PATH
. {COMPLETION}/etch.bash
compopt() {{ :; }}
COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); _etch
printf '%s\\n' "${{COMPREPLY[@]}}"
"""
    return run(["bash", "-c", script, "bash", *words]).stdout.split("\n")


def zsh(build, words):
    """With the functions of zsh's completion system that the script calls replaced by ones that print."""
    script = f"""path=({build} $path)
_describe() {{ local line; for line in ${{(P)2}}; do print -r -- ${{line%%:*}}; done }}
compadd() {{ print -rl -- ${{@:#--}} }}
_files() {{ }}
words=("$@"); CURRENT=$#; PREFIX=$words[-1]
set --
. {COMPLETION}/_etch
"""
    return [w for w in run(["zsh", "-fc", script, "zsh", *words]).stdout.split("\n") if w.startswith(words[-1])]


def fish(build, words):
    script = f"set -x PATH {build} $PATH\nsource {COMPLETION}/etch.fish\ncomplete -C '{' '.join(words)}'\n"
    return [line.split("\t")[0] for line in run(["fish", "--no-config", "-c", script]).stdout.split("\n")]


SHELLS = {"bash": bash, "zsh": zsh, "fish": fish}


def commands(build):
    text = run([build / "etch", "--help"]).stdout
    return set(re.findall(r"^  ([a-z]+)  +", text[text.index("Commands:"):text.index("\n\n  etch COMMAND")], re.M))


@pytest.fixture(params=SHELLS)
def complete(request, build):
    if not shutil.which(request.param):
        pytest.skip(f"{request.param} is not installed")
    return lambda *words: {w for w in SHELLS[request.param](build, words) if w}


def test_commands(complete, build):
    offered = complete("etch", "")
    assert commands(build) and commands(build) <= offered


def test_options(complete, build):
    for command in commands(build):
        # The options of each command, as getopt itself knows them: an unknown one is refused.
        text = run([build / "etch", command, "--help"]).stdout
        named = set(re.findall(r"^ +(?:-\w, )?(--[a-z][a-z0-9-]+)", text, re.M))
        assert "--help" in named
        assert complete("etch", command, "--") == named, command


def test_each_option_named_in_help_is_one(build):
    for command in commands(build):
        text = run([build / "etch", command, "--help"]).stdout
        for option in re.findall(r"^ +(?:-\w, )?(--[a-z][a-z0-9-]+)", text, re.M):
            out = subprocess.run([build / "etch", command, option], capture_output=True, text=True, stdin=subprocess.DEVNULL)
            assert "unrecognized option" not in out.stderr, (command, option)


def test_values(complete):
    assert complete("etch", "rewrite", "--encoding", "") == {"block", "orc"}
    assert complete("etch", "rewrite", "--unwind-map", "n") == {"none"}


def test_views(complete):
    assert {"summary", "sites", "orc", "tables"} <= complete("etch", "inspect", "")


@pytest.mark.parametrize("option", ["--explain", "--ignore"])
def test_findings(complete, build, option):
    ids = set(re.findall(r"^ETCH-[A-Z]\d+", run([build / "etch", "check", "--list"]).stdout, re.M))
    assert len(ids) > 20 and complete("etch", "check", option, "ETCH-") == ids
