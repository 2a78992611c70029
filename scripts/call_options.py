# SPDX-License-Identifier: MIT
"""Compiler options with which calls through ops tables can be made direct, and changed while threads run (docs/paravirt.md). etch-cc
gives gcc's."""
import functools
import subprocess


@functools.cache
def call_options(cc):
    """clang is told to keep a call within one aligned word, which etch/pv.h does with gcc. gcc 15 is told not to keep a table's address
    in a register, and gcc 16 not to compare a slot with its likely function, which makes of the call one through a register: such
    calls are too short."""
    if "clang" in cc:
        return ["-mllvm", "-x86-align-branch-boundary=8", "-mllvm", "-x86-align-branch=indirect+call"]
    version = int(subprocess.run([cc, "-dumpversion"], stdout=subprocess.PIPE, text=True, check=True).stdout.split(".")[0])
    options = ["-fno-gcse", "-fno-move-loop-invariants"] if version >= 15 else []
    return options + (["-fno-speculatively-call-stored-functions"] if version >= 16 else [])
