#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Damaged input for etch, in five ways, until the time is up.

usage: fuzz.py files|structure|targets|unwind|checks [options] ...

    files      mutants of ELF files, and the sanitized tool on each; damaged tables in running programs
    structure  ELF files and archives whose headers contradict one another, and every command on each
    targets    libFuzzer's targets (tests/fuzz), one after the other
    unwind     damaged unwind tables and damaged .eh_frame
    checks     takes checks out of the code, one by one: does a fuzz target notice?

`fuzz.py WHAT --help` says more. `make fuzz` runs the first four. Exit 1 if anything was found.
"""
import argparse
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))
from fuzzing import checks, files, structure, targets, unwind  # noqa: E402


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    kinds = parser.add_subparsers(required=True, metavar="WHAT")
    for name, module in (("files", files), ("structure", structure), ("targets", targets), ("unwind", unwind), ("checks", checks)):
        head, _, text = module.__doc__.partition("\n")
        kind = kinds.add_parser(name, help=head, description=head, epilog=text, formatter_class=argparse.RawDescriptionHelpFormatter)
        module.arguments(kind)
        kind.set_defaults(run=module.run)
    options = parser.parse_args()
    return options.run(options)


if __name__ == "__main__":
    sys.exit(main())
