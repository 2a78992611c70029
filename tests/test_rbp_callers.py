# SPDX-License-Identifier: MIT
"""Code whose callers find their frames by rbp, as V8's builtins: it pushes, copies and drops as many words as a register
says. The judge is the processor: each instruction of builtins.c is run by itself, and its caller is known."""

from conftest import INCLUDE, TESTS, run

SOURCE = TESTS / "unwind" / "builtins.c"

# Where no row can say it, of so many instructions that are run; all others have the true caller.
STOPS = {"Adapts": (3342, 4620),      # the return address is copied by a loop: in one place or in another
         "Framed": (126, 1197),       # in the frame of another, which the code does not show
         "Replacement": (378, 882)}   # a return is no return: the place of the address was overwritten


def test_the_caller_is_found_at_every_instruction(tmp_path, build):
    out = tmp_path / "builtins"
    run(["gcc", "-std=gnu11", "-D_GNU_SOURCE", "-O2", "-Wall", "-Wextra", "-Werror", f"-I{INCLUDE}", "-o", out, SOURCE,
         build / "libetch.a", "-pthread"])
    run([build / "etch", "rewrite", out])
    seen = {}
    for line in run([out]).stdout.splitlines():
        name, right, stopped, wrong, *_ = line.split()
        seen[name] = int(stopped), int(right) + int(stopped)
        assert not int(wrong), line
        assert int(stopped) <= STOPS.get(name, (0, 0))[0], line
        assert int(right), line
    assert len(seen) == 13 and all(seen[name][1] == of for name, (_, of) in STOPS.items()), seen
