# SPDX-License-Identifier: MIT
"""The public headers by one compiler, in every standard that it knows: what it warns of. For tests/headers/test_header_compilers.py and
scripts/compilers.py."""
import subprocess
from pathlib import Path

INCLUDE = Path(__file__).resolve().parent.parent / "lib" / "include"
C = ["c11", "c17", "c23", "c2x"]
CXX = ["c++11", "c++14", "c++17", "c++20", "c++23", "c++26", "c++2b", "c++2c"]
WARNINGS = ["-Wall", "-Wextra", "-Wpedantic", "-Werror"]
HEADERS = sorted(p.name for p in (INCLUDE / "etch").iterdir())


def compile_errors(compiler, language, standard, text, *options):
    p = subprocess.run([compiler, "-x", language, f"-std={standard}", *WARNINGS, *(options or ["-fsyntax-only"]), f"-I{INCLUDE}", "-"],
                       input=text, capture_output=True, text=True)
    return f"{compiler} -std={standard}:\n{p.stderr[:2000]}" if p.returncode else ""


def known(compiler, language):
    """A standard has one name until it is final (c2x) and another one then: the first that the compiler takes."""
    both = {"c2x": "c23", "c++2b": "c++23", "c++2c": "c++26"}
    taken = []
    for s in C if language == "c" else CXX:
        if both.get(s) not in taken and not compile_errors(compiler, language, s, "int declared;\n"):
            taken.append(s)
    return taken


def wrong(compiler, language):
    """The standards that the compiler knows, and what it says of the headers: all in one file, in every standard; each alone, in
    the last one."""
    headers = [h for h in HEADERS if h.endswith(".h") or language == "c++"]
    taken = known(compiler, language)
    errors = []
    for standard in taken:
        # etch/imv.hpp and etch/pv.hpp ask for C++17.
        these = [h for h in headers if h.endswith(".h") or standard not in ("c++11", "c++14")]
        errors.append(compile_errors(compiler, language, standard, "".join(f"#include <etch/{h}>\n" for h in these)))
    errors += [compile_errors(compiler, language, taken[-1], f"#include <etch/{h}>\n") for h in headers if taken]
    return taken, [e for e in errors if e]
