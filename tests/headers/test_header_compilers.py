# SPDX-License-Identifier: MIT
"""The public headers compile without a warning with every gcc and clang that the system has, in every standard that it
knows from C11 and C++11 on. `make systems` runs this where there are others than here."""
import os
import re

import pytest

import test_header
import test_pv_header
from compilers import installed
from header_standards import compile_errors, wrong


@pytest.mark.parametrize("compiler", [pytest.param(c, marks=[pytest.mark.long] * bool(re.search(r"\d$", c))) for c in installed()])
def test_headers_compile_without_a_warning(compiler):
    """All in one file, in every standard; each alone, in the last one; and code that uses them, in the first and the last."""
    language, use = ("c++", test_header.USE + test_header.TEMPLATE) if "+" in compiler else ("c", test_header.USE)
    taken, errors = wrong(compiler, language)
    assert len(taken) >= (3 if language == "c" else 4)
    for standard in (taken[0], taken[-1]):
        errors += [compile_errors(compiler, language, standard, text, "-O2", "-S", "-o", os.devnull) for text in (use, test_pv_header.USE)]
    assert not any(errors), "\n".join(filter(None, errors))
