# SPDX-License-Identifier: MIT
"""scripts/fuzz.py: each of its ways says what it does; what they find is in tests/fuzz."""
import subprocess
import sys

import pytest

from conftest import ROOT
from fuzzing import checks


@pytest.mark.parametrize("what", ["files", "structure", "targets", "unwind", "checks"])
def test_each_way_has_help(what):
    help_of = [subprocess.run([sys.executable, ROOT / "scripts" / "fuzz.py", *argv, "--help"], capture_output=True, text=True, check=True).stdout
               for argv in ([], [what])]
    assert what in help_of[0] and f"usage: fuzz.py {what} " in help_of[1]


def test_a_way_is_needed():
    p = subprocess.run([sys.executable, ROOT / "scripts" / "fuzz.py", "build"], capture_output=True, text=True)
    assert p.returncode == 2 and "invalid choice" in p.stderr


def test_parts_of_conditions():
    """What `checks` takes out: each operand, and those in parentheses."""
    text = "int f(int a)\n{\n\tif (a > 1 && (a < 9 || !b))\n\t\treturn 0;\n\treturn a || c(a, 2);\n}\n"
    assert [(text[a:b], new) for a, b, new in checks.conditions(text)] == [
        ("a > 1", "1"), ("(a < 9 || !b)", "1"), ("a < 9", "0"), ("!b", "0"), ("a", "0"), ("c(a, 2)", "0")]
    assert checks.function_at(text, text.index("return a")) == "f"
