# SPDX-License-Identifier: MIT
"""What run.py and sample.py have in common on their command lines: the root, and programs by name."""

import argparse
import sys
from pathlib import Path

import list as table

BUILD = Path(__file__).resolve().parent.parent.parent / "build"


def parser(description):
    out = argparse.ArgumentParser(formatter_class=argparse.RawDescriptionHelpFormatter, description=description)
    out.add_argument("--root", default=BUILD / "programs", metavar="DIR", type=Path)
    out.add_argument("names", nargs="*", metavar="NAME")
    return out


def programs(names):
    """Those named, or all; ends with a word where there is no such program."""
    try:
        return table.programs(names)
    except KeyError as why:
        sys.exit(f"{Path(sys.argv[0]).name}: {why.args[0]}")
