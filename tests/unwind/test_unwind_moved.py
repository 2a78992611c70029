# SPDX-License-Identifier: MIT
"""Return addresses that do not stay where the call has put them. The return address is a value: a row says where
a copy of it is now, at CFA - 8, in another slot or in a register, or says nothing; never where it was."""
import re

import pytest

from conftest import DATA, INCLUDE, run
from test_unwind_formats import Table, text_of

SOURCE = DATA / "unwind" / "moved.c"

# Functions of moved.c in which no copy is to be found at some instructions, at most so many of their walks.
STOPS = {"in_rax": 10,    # before the call nothing shows that the popped word is an address; after it, calls may change it
         "apart": 12,     # in one place or another, and where it returns to another than the CFA says
         "thunk": 6, "thunk_rbx": 6, "hidden": 8,  # overwritten
         "aligned": 20,   # in a slot that is no fixed distance from the CFA
         "takes": 6}      # rsp is above the CFA


@pytest.fixture(scope="module")
def moved(tmp_path_factory, build):
    out = tmp_path_factory.mktemp("moved") / "moved"
    run(["gcc", "-std=gnu11", "-D_GNU_SOURCE", "-O2", "-Wall", "-Wextra", "-Werror", f"-I{INCLUDE}", "-o", out, SOURCE,
         build / "libetch.a", "-pthread"])
    run([build / "etch", "rewrite", out])
    return out


def columns(etch, path, function, *args):
    """cfa and ra of each byte of a function, by offset."""
    start, size = next((int(f[0], 16), int(f[1], 10)) for f in
                       ([w[1], w[2]] for w in (line.split() for line in run(["readelf", "-sW", path]).stdout.splitlines())
                        if len(w) == 8 and w[7] == function))
    rows = [line.split("\t") for line in run([etch, "inspect", "orc", "--format", "tsv", *args, path]).stdout.splitlines()[1:]]
    return {a - start: (r[2], r[4]) for r in rows for a in range(int(r[0], 16), int(r[0], 16) + int(r[1], 16))
            if start <= a < start + size}


def test_the_return_address_is_where_the_row_says_at_every_instruction(moved):
    seen = {}
    for line in run([moved]).stdout.splitlines():
        name, right, stopped, wrong, *where = line.split()
        seen[name] = int(right), int(stopped)
        assert not int(wrong), line
        assert int(stopped) <= STOPS.get(name, 0), line
        assert int(right), line
    assert len(seen) == 24 and set(STOPS) < set(seen)


def test_a_popped_return_address_is_followed_to_the_slot_it_is_pushed_to(moved, etch):
    rows = columns(etch, moved, "again")
    assert rows[1] == ("rsp+0", "rax")           # push %rbx
    assert rows[3] == ("rsp+16", "rax")          # push %rax
    assert rows[4] == ("rsp+24", "cfa-24")
    assert all(ra == "cfa-24" for at, (_, ra) in rows.items() if at >= 4), rows  # over the call, and after `leave`


def test_a_table_with_a_moved_return_address_says_so_by_its_version(moved, build, etch, tmp_path):
    """A reader that does not know such rules refuses the table; one that does reads what inspect says."""
    t = Table(moved)
    assert t.header["version"] == 4  # the map has a version above that of the rules
    bare = tmp_path / "bare"
    run([etch, "rewrite", "--unwind-map", "none", "-o", bare, moved])
    assert Table(bare).header["version"] == 3
    rows = {a: text_of(r)[2] for a, r, *_ in t.rows}
    tsv = [line.split("\t") for line in run([etch, "inspect", "orc", "--format", "tsv", moved]).stdout.splitlines()[1:]]
    said = {int(r[0], 16): r[4] for r in tsv if r[4] == "cfa-24"}
    assert said and said == {a: ra for a, ra in rows.items() if ra == "cfa-24"}
    plain = tmp_path / "plain"
    (tmp_path / "plain.c").write_text("int main(void) { return 0; }\n")
    run(["gcc", "-O2", "-o", plain, tmp_path / "plain.c"])
    run([etch, "rewrite", "--unwind-map", "none", plain])
    assert Table(plain).header["version"] == 1


def test_arrays_have_no_row_where_the_return_address_has_moved(tmp_path, etch, build):
    """Six bytes have no space for where it is."""
    out = tmp_path / "moved"
    run(["gcc", "-std=gnu11", "-D_GNU_SOURCE", "-O2", f"-I{INCLUDE}", "-o", out, SOURCE, build / "libetch.a", "-pthread"])
    run([etch, "rewrite", "--encoding", "orc", out])
    rows = columns(etch, out, "again")
    assert rows[0] == ("rsp+8", "cfa-8") and set(ra for at, (_, ra) in rows.items() if at) == {"undef"}
    lines = [line.split() for line in run([out]).stdout.splitlines()]
    assert not any(int(w[3]) for w in lines)


# .eh_frame that says where it is; that has not been told; and that says of the wrong slot.
CFI = """
	.text
	.globl f
	.type f,@function
f:	.cfi_startproc
	pop %rax
	.cfi_def_cfa_offset 0
	{0}
	push %rsi
	.cfi_def_cfa_offset 8
	push %rax
	.cfi_def_cfa_offset 16
	{1}
	xor %eax,%eax
	call *%rdx
	pop %rcx
	.cfi_def_cfa_offset 8
	{2}
	add $8,%rsp
	.cfi_def_cfa_offset 0
	jmp *%rcx
	.cfi_endproc
	.size f,.-f
"""


@pytest.mark.parametrize("said,finds", [
    ((".cfi_register %rip,%rax", ".cfi_offset %rip,-16", ".cfi_register %rip,%rcx"), False),
    (("", "", ""), True),
    ((".cfi_register %rip,%rax", ".cfi_offset %rip,-24", ".cfi_register %rip,%rcx"), True),
    ((".cfi_register %rip,%rax", "", ".cfi_register %rip,%rcx"), True),
], ids=["said", "not said", "another slot", "still in the register"])
def test_eh_frame_is_asked_where_the_return_address_is(said, finds, tmp_path, etch):
    (tmp_path / "f.s").write_text(CFI.format(*said))
    out = tmp_path / "f.so"
    run(["gcc", "-shared", "-nostdlib", "-o", out, tmp_path / "f.s"])
    rows = columns(etch, out, "f")
    # rax is 0 after the xor, and the first slot has another register in it.
    assert rows[5][1] == rows[6][1] == "cfa-16", rows
    found = run([etch, "check", out], ok=None).stdout
    assert ("ETCH-C001" in found) == finds
    if finds:
        sides = re.search(r"says .*return address (\S+); the code has .*return address (\S+) ", found)
        assert sides and sides[1] != sides[2], found
