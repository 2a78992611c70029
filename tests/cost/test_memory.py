# SPDX-License-Identifier: MIT
"""How much memory etch takes for a file: at most 64 MiB and six times the bytes that the file has on disk, whatever its
holes and its layout in memory are."""
import os
import struct

import pytest

from conftest import DATA, run

HOLE = 1 << 30
SOURCE = """
#include <execinfo.h>
#include <stdio.h>
__attribute__((noinline, section(".text.far"))) int far_function(int n)
{
	void *p[30];
	int k = backtrace(p, 30);

	backtrace_symbols_fd(p, k, 1);
	return k + n;
}
__attribute__((noinline)) int near_function(int n) { return far_function(n) + 1; }
int main(void) { return near_function(1) > 100; }
"""


@pytest.fixture(scope="module")
def peak(tmp_path_factory):
    """Runs a command on files, and checks the bound for what these have on disk."""
    program = tmp_path_factory.mktemp("peak") / "peak"
    run(["gcc", "-O2", "-o", program, DATA / "cost" / "peak.c"])

    def check(argv, *files, ok=0):
        p = run([program, *argv, *files], ok=ok)
        disk = sum(f.stat().st_blocks * 512 for f in files)
        assert int(p.stderr.split()[-1]) * 1024 <= (64 << 20) + 6 * disk, (argv, p.stderr)
        return p

    return check


def sections(data):
    """Headers as lists, and the index of each by name."""
    at, = struct.unpack_from("<Q", data, 40)
    count, names = struct.unpack_from("<HH", data, 60)
    headers = [list(struct.unpack_from("<IIQQQQIIQQ", data, at + 64 * i)) for i in range(count)]
    text = headers[names][4]
    return headers, {bytes(data[text + h[0]:data.index(0, text + h[0])]).decode(): i for i, h in enumerate(headers)}


def with_hole(data, where):
    """(contents, size, end) of a file with a hole of HOLE bytes: inside a section that is not loaded, between the last
    section and the section headers, or in front of all that is not loaded."""
    data = bytearray(data + b"\0" * (-len(data) % 4096))
    headers, names = sections(data)
    if where == "section":
        headers[names[".comment"]][4:6] = len(data), HOLE
    end = len(data) + HOLE
    struct.pack_into("<Q", data, 40, end)
    return bytes(data), b"".join(struct.pack("<IIQQQQIIQQ", *h) for h in headers), end


def write_sparse(path, data, where):
    head, tail, end = with_hole(data, where)
    with open(path, "wb") as f:
        f.write(head)
        f.seek(end)
        f.write(tail)
    path.chmod(0o755)
    assert path.stat().st_size > HOLE and path.stat().st_blocks * 512 < 1 << 20


@pytest.mark.parametrize("where", ["section", "before the section headers"])
def test_holes_of_a_sparse_file_take_no_memory(etch, tmp_path, peak, where):
    plain, sparse, out, back = (tmp_path / n for n in ("plain", "sparse", "out", "back"))
    run(["gcc", "-O2", "-g", "-o", plain, "-x", "c", "-"], input=SOURCE)
    write_sparse(sparse, plain.read_bytes(), where)
    peak([etch, "check", "-q"] if where == "section" else [etch, "check"], sparse)
    peak([etch, "inspect", "summary"], sparse)
    if where != "section":  # the hole is data that no header describes: there is no place for a table after it
        peak([etch, "rewrite", "-o", out], sparse, ok=2)
        return
    peak([etch, "rewrite", "-o", out], sparse)
    assert out.stat().st_blocks * 512 < 8 << 20  # the output is sparse, too
    run([out])
    peak([etch, "rewrite", "--undo", "-o", back], out)
    run(["cmp", sparse, back])


@pytest.mark.parametrize("gap", [0x100000, 0x10000000, 0x70000000, 0x200000000])
def test_one_function_far_from_the_rest_costs_its_own_rows_at_most(etch, build, tmp_path, peak, gap):
    """A table takes space for gaps. Far code is left out, said with its size and place, and walked by its FDE."""
    exe, out, again = (tmp_path / n for n in ("exe", "out", "again"))
    script = tmp_path / "far.ld"
    script.write_text("SECTIONS { .farcode %#x : { *(.text.far) } } INSERT AFTER .bss;" % (0x400000 + gap))
    cfi = ["-fno-asynchronous-unwind-tables"] if gap > 1 << 31 else []
    run(["gcc", "-O2", "-no-pie", "-mcmodel=large", *cfi, "-o", exe, f"-Wl,-T,{script}", "-x", "c", "-"], input=SOURCE)
    p = peak([etch, "rewrite", "-o", out], exe)
    far = gap > 8 << 20
    assert ("ETCH-T005" in p.stderr) == far, p.stderr
    assert ("far_function" in p.stderr) == far, p.stderr
    assert out.stat().st_blocks * 512 <= 4 * exe.stat().st_size  # 6.5 MB and more with rows for the gap
    peak([etch, "rewrite", "-o", again], out)
    assert again.read_bytes() == out.read_bytes()
    assert "T003" not in run([etch, "check", "--fail-on", "never", out]).stdout
    plain, etched = (run([e], env={**os.environ, "LD_PRELOAD": pre}).stdout.replace(e.name, "")
                     for e, pre in ((exe, ""), (out, str(build / "libetch-unwind.so"))))
    assert len(etched.splitlines()) >= (1 if cfi else 4)
    if not cfi:
        names = [[line.split("+")[0].split("[")[0] for line in x.splitlines()] for x in (plain, etched)]
        assert names[0] == names[1]


# Small functions of which three in four have no symbol, so that they are found by their calls. Each call leads to the
# next group.
SMALL_FUNCTIONS = """
	.altmacro
	.macro small to
	push %%rbx
	.fill 12, 7, 0xbe8948 # mov %%rdi, (%%rsi)
	call \\to
	pop %%rbx
	ret
	.endm
	.macro group i, next
	.globl f\\i
	.type f\\i, @function
f\\i:	small .Lp\\next
	.size f\\i, . - f\\i
.Lp\\i:	small .Lq\\next
.Lq\\i:	small .Lr\\next
.Lr\\i:	small f\\next
	.endm
	.globl _start
_start:	call f0
	ud2
	.set i, 0
	.rept %d
	group %%i, %%i+1
	.set i, i + 1
	.endr
	group %%i, 0
"""


def test_each_further_byte_of_many_small_functions_takes_six_at_most(etch, tmp_path, peak):
    """What is kept of each function is what counts in a large file, where the 64 MiB are little: two files, one of which
    has the functions twice."""
    one, two = (tmp_path / n for n in ("one.o", "two.o"))
    run(["gcc", "-c", "-o", one, "-x", "assembler", "-"], input=SMALL_FUNCTIONS % 9999)
    run(["objcopy", "--prefix-symbols=again_", one, two])
    taken, disk = [], []
    for objects in ([one], [one, two]):
        exe = tmp_path / "exe"
        run(["ld", "-o", exe, *objects])
        p = peak([etch, "rewrite", "-o", tmp_path / "out"], exe)
        taken.append(int(p.stderr.split()[-1]) * 1024)
        disk.append(exe.stat().st_blocks * 512)
    functions = run([etch, "inspect", "summary", exe]).stdout
    assert "80002 functions" in functions, functions
    assert taken[1] - taken[0] <= 6 * (disk[1] - disk[0]), (taken, disk)


def test_undo_streams(etch, tmp_path, peak):
    """Neither the rewritten file nor its original is read into memory: 16 MiB are enough for 120 MB."""
    obj, exe, out, back = (tmp_path / n for n in ("a.o", "exe", "out", "back"))
    source = "\t.globl main\nmain:\txor %eax, %eax\n\tret\n\t.section .rodata\n\t.incbin \"noise\"\n"
    (tmp_path / "noise").write_bytes(os.urandom(1 << 20) * 120)
    run(["gcc", "-c", "-o", obj, "-x", "assembler", "-"], input=source, cwd=tmp_path)
    run(["gcc", "-o", exe, obj])
    run([etch, "rewrite", "-o", out, exe])
    p = peak([etch, "rewrite", "--undo", "-o", back], out)
    assert int(p.stderr.split()[-1]) < 16 << 10, p.stderr
    run(["cmp", exe, back])
    peak([etch, "rewrite", "--undo"], out)
    run(["cmp", exe, out])


@pytest.mark.parametrize("what", ["the original's hash", "the kept file", "the delta", "a section header"])
def test_undo_of_a_changed_file_writes_nothing(etch, tmp_path, what):
    """What is found only while the original is being made leaves the file as it is, and no other one after."""
    exe = tmp_path / "exe"
    run(["gcc", "-O2", "-o", exe, "-x", "c", "-"], input="int main(void) { return 0; }")
    run([etch, "rewrite", exe])
    data = bytearray(exe.read_bytes())
    record = data.rindex(b"etchundo")
    at = {"the original's hash": record + 32, "the kept file": 0x1000, "the delta": len(data) - 1,
          "a section header": struct.unpack_from("<Q", data, 40)[0] + 64}[what]
    data[at] ^= 1
    exe.write_bytes(data)
    p = run([etch, "rewrite", "--undo", exe], ok=2)
    assert len(p.stderr.splitlines()) == 1 and "was changed after etch rewrote it" in p.stderr
    assert exe.read_bytes() == data and [f.name for f in tmp_path.iterdir()] == ["exe"]
