# SPDX-License-Identifier: MIT
"""glibc's own reader of .sframe: backtrace() of a glibc configured with --enable-sframe, which no package is built with.
ETCH_SFRAME_GLIBC=DIR names its libraries (scripts/judges/sframe_backtrace.py)."""

import os

import pytest


import sframe_backtrace as glibc

GLIBC = os.environ.get("ETCH_SFRAME_GLIBC")
pytestmark = pytest.mark.skipif(not GLIBC, reason="ETCH_SFRAME_GLIBC names no glibc configured with --enable-sframe")


def test_backtrace_gives_the_frames_of_the_compilers_table(tmp_path, build):
    """Under qsort, in signal handlers, with alloca, in a thread: all frames by address; without rows, hardly one."""
    got = glibc.frames_of_program(glibc.Place(GLIBC, tmp_path))
    assert len(got["judge"]) > 2000 and max(map(len, got["judge"])) > 20
    assert glibc.differences(got["judge"], got["seen"]) == []
    assert sum(map(len, got["bare"])) * 3 < sum(map(len, got["judge"]))
