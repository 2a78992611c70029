# SPDX-License-Identifier: MIT
"""Code whose callers find their frames by rbp, as V8's builtins: it pushes, copies and drops as many words as a register
says. The judge is the processor: each instruction of builtins.c is run by itself, and its caller is known."""

from elftools.elf.elffile import ELFFile

from cfi_files import rows_for_saves
from conftest import DATA, INCLUDE, run

SOURCE = DATA / "unwind" / "builtins.c"

# Where no row can say it, of so many instructions that are run; all others have the true caller.
STOPS = {"Adapts": (3342, 4620),      # the return address is copied by a loop: in one place or in another
         "Framed": (126, 1197),       # in the frame of another, which the code does not show
         "Replacement": (378, 882)}   # a return is no return: the place of the address was overwritten


GCC = ["gcc", "-std=gnu11", "-D_GNU_SOURCE", "-O2", "-Wall", "-Wextra", "-Werror", f"-I{INCLUDE}"]


def test_the_caller_is_found_at_every_instruction(tmp_path, build):
    out = tmp_path / "builtins"
    run([*GCC, "-o", out, SOURCE, build / "libetch.a", "-pthread"])
    run([build / "etch", "rewrite", out])
    seen = {}
    for line in run([out]).stdout.splitlines():
        name, right, stopped, wrong, *_ = line.split()
        seen[name] = int(stopped), int(right) + int(stopped)
        assert not int(wrong), line
        assert int(stopped) <= STOPS.get(name, (0, 0))[0], line
        assert int(right), line
    assert len(seen) == 15 and all(seen[name][1] == of for name, (_, of) in STOPS.items()), seen


def test_no_register_is_the_callers_but_where_c_calls(tmp_path, build):
    """A register at the entry may be of the code that has called this in its own place. Judged by single steps: what
    .eh_frame says of rbx and r12 to r15 is what the caller had at its call."""
    out = tmp_path / "builtins"
    run([*GCC, "-no-pie", "-o", out, SOURCE, build / "libetch.a", "-pthread"])
    run([build / "etch", "rewrite", "--eh-frame", out])
    rows_for_saves(out, tmp_path / "rows")
    with open(out, "rb") as f:
        at = {s.name: s["st_value"] for s in ELFFile(f).get_section_by_name(".symtab").iter_symbols()}
    run([*GCC, "-o", tmp_path / "saves", DATA / "unwind" / "saves.c"])
    done = run([tmp_path / "saves", "-e", f"{at['main']:x}", "-m", f"{at['blob_begin']:x}-{at['blob_end']:x}", tmp_path / "rows", "100000", out])
    last = done.stdout.splitlines()[-1]
    count = dict(zip(last.split()[::2], map(int, last.split()[1::2])))
    assert count["wrong-frame"] == count["wrong-value"] == 0, done.stdout
    assert count["frames"] > 50000 and count["values"] > 100000 and count["unknown"] > 10000, done.stdout
