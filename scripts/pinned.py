# SPDX-License-Identifier: MIT
"""Imported first by scripts that need a package of requirements.txt: one that was started by a
Python without them goes on with the one in .venv, which `make deps` makes."""
import importlib.util
import os
import sys
from pathlib import Path

_PYTHON = Path(__file__).resolve().parents[1] / ".venv" / "bin" / "python"

if not importlib.util.find_spec("elftools"):
    if Path(sys.executable) == _PYTHON or not _PYTHON.exists():
        sys.exit(f"{sys.argv[0]}: needs pyelftools (make deps)")
    os.execv(_PYTHON, [_PYTHON, *sys.argv])
