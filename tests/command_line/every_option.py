# SPDX-License-Identifier: MIT
"""Tries every option of `etch rewrite` beside others, so that a new option cannot be ignored silently."""
import re
import shutil

from conftest import run

VALUES = {"--output": "written", "--jobs": "2", "--only": "imv", "--encoding": "block", "--unwind-map": "64", "--init": "main",
          "--sidecar": "."}


def every_option_tried(etch, first, file, folder, mode, refused_so={}):
    """The options that are taken together with `first`, among those that --help lists. Each other one is refused in one line,
    which names it and `mode`, or with the line of `refused_so`."""
    options = set(re.findall(r"^  +(?:-\w, )?(--[a-z-]+)", run([etch, "rewrite", "--help"]).stdout, re.M))
    assert len(options) > 15 and set(VALUES) < options
    taken = set()
    for option in options:
        copy = folder / "tried"
        shutil.copy(file, copy)
        before = copy.read_bytes()
        p = run([etch, "rewrite", *first, option, *([VALUES[option]] if option in VALUES else []), copy], ok=None, cwd=folder)
        if p.returncode == 2:
            said = refused_so.get(option, f"etch: {option} cannot be combined with {mode}\n")
            assert p.stderr == said and copy.read_bytes() == before, p.stderr
        else:
            assert p.returncode == 0, (option, p.stderr)
            taken.add(option)
    return taken
