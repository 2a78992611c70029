# SPDX-License-Identifier: MIT
"""The public headers compile without a warning with every gcc and clang that the system has, in every standard that it
knows from C11 and C++11 on. `make systems` runs this where there are others than here."""
import os
import re
import subprocess
import sys

import pytest

import test_header
import test_pv_header
from conftest import INCLUDE, ROOT

sys.path.insert(0, str(ROOT / "scripts"))
from compilers import installed  # noqa: E402

C = ["c11", "c17", "c23", "c2x"]
CXX = ["c++11", "c++14", "c++17", "c++20", "c++23", "c++26", "c++2b", "c++2c"]
WARNINGS = ["-Wall", "-Wextra", "-Wpedantic", "-Werror"]
HEADERS = sorted(p.name for p in (INCLUDE / "etch").iterdir())


def compile_errors(compiler, language, standard, text, *options):
    p = subprocess.run([compiler, "-x", language, f"-std={standard}", *WARNINGS, *(options or ["-fsyntax-only"]), f"-I{INCLUDE}", "-"],
                       input=text, capture_output=True, text=True)
    return f"{compiler} -std={standard}:\n{p.stderr[:2000]}" if p.returncode else ""


def known(compiler, language, standards):
    """A standard has one name until it is final (c2x) and another one then: the first that the compiler takes."""
    both = {"c2x": "c23", "c++2b": "c++23", "c++2c": "c++26"}
    taken = []
    for s in standards:
        if both.get(s) not in taken and not compile_errors(compiler, language, s, "int declared;\n"):
            taken.append(s)
    return taken


@pytest.mark.parametrize("compiler", [pytest.param(c, marks=[pytest.mark.long] * bool(re.search(r"\d$", c))) for c in installed()])
def test_headers_compile_without_a_warning(compiler):
    """All in one file, in every standard; each alone, in the last one; and code that uses them, in the first and the last."""
    language, standards, use = "c", C, test_header.USE
    headers = [h for h in HEADERS if h.endswith(".h")]
    if "+" in compiler:
        language, standards, use = "c++", CXX, test_header.USE + test_header.TEMPLATE
        headers = HEADERS
    taken = known(compiler, language, standards)
    assert len(taken) >= (3 if language == "c" else 4)
    wrong = []
    for standard in taken:
        # etch/imv.hpp and etch/pv.hpp ask for C++17.
        these = [h for h in headers if h.endswith(".h") or standard not in ("c++11", "c++14")]
        wrong.append(compile_errors(compiler, language, standard, "".join(f"#include <etch/{h}>\n" for h in these)))
        if standard in (taken[0], taken[-1]):
            wrong += [compile_errors(compiler, language, standard, text, "-O2", "-S", "-o", os.devnull) for text in (use, test_pv_header.USE)]
    wrong += [compile_errors(compiler, language, taken[-1], f"#include <etch/{h}>\n") for h in headers]
    assert not any(wrong), "\n".join(filter(None, wrong))
