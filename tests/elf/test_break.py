# SPDX-License-Identifier: MIT
"""tool/output/segment_place.c: a rewritten program at fixed addresses has its heap where it had it, whatever its layout.
The kernel is the witness: it says where the heap begins, without address randomization (setarch -R)."""


import pytest

from conftest import DATA, run
from test_segment import Elf, check_loads

SOURCE = DATA / "elf" / "break_prog.c"

# Scripts with everything page after page, with data below the code, with .bss in a segment of its own, and with
# headers that are not loaded.
SCRIPTS = {
    "packed": "PHDRS { all PT_LOAD FILEHDR PHDRS FLAGS(5); rw PT_LOAD FLAGS(6); }",
    "data-first": "PHDRS { rw PT_LOAD FILEHDR PHDRS FLAGS(6); all PT_LOAD FLAGS(5); }",
    "bss-apart": "PHDRS { all PT_LOAD FILEHDR PHDRS FLAGS(5); rw PT_LOAD FLAGS(6); zero PT_LOAD FLAGS(6); }",
    "no-headers": "PHDRS { all PT_LOAD FLAGS(5); rw PT_LOAD FLAGS(6); }",
}
BODY = {
    "packed": "0x400000 + SIZEOF_HEADERS; %(text)s . = ALIGN(4096); %(data)s :rw %(bss)s :rw _end = .;",
    "data-first": "0x400000 + SIZEOF_HEADERS; %(data)s :rw %(bss)s :rw . = 0x500000; %(text)s _end = .;",
    "bss-apart": "0x400000 + SIZEOF_HEADERS; %(text)s . = ALIGN(4096); %(data)s :rw . = 0x440000; %(bss)s :zero _end = .;",
    "no-headers": "0x401000; %(text)s . = ALIGN(4096); %(data)s :rw %(bss)s :rw _end = .;",
}
PARTS = {"text": ".text : { *(.text*) *(.rodata*) *(.eh_frame*) *(.note*) } :all", "data": ".data : { *(.data*) }",
         "bss": ".bss : { *(.bss*) *(COMMON) }"}
# Without a C library: its scripts are the linker's own. The break, by brk(0), is the exit status's witness.
BARE = """
#define CALL(n, a) ({ long r; __asm__ volatile("syscall" : "=a"(r) : "0"(n), "D"(a) : "rcx", "r11", "memory"); r; })
extern char _end[];
int words[300] = {1}, zeros[3000];
int check(void)
{
	unsigned long end = ((unsigned long)_end + 4095) & -4096ul, now = CALL(12, 0), i;
	for (i = 0; i < 3000; i++)
		if (zeros[i])
			return 3;
	if (((now + 4095) & -4096ul) != end)
		return 1;
	if (CALL(12, end + 4096) != end + 4096)
		return 2;
	*(volatile char *)end = words[0];
	return 0;
}
__asm__(".globl _start\\n_start: and $-16, %rsp\\n call check\\n mov %eax, %edi\\n mov $231, %eax\\n syscall");
"""


def options():
    """Linkers, kinds and options that change the layout; what is left out does not change it for that linker."""
    for linker in ["bfd", "gold", "lld"]:
        yield linker, "-no-pie", ()
        yield linker, "-no-pie", ("-Wl,-z,max-page-size=0x200000",)
    yield "lld", "-static", ()
    yield "bfd", "-no-pie", ("-Wl,-z,noseparate-code",)
    yield "bfd", "-no-pie", ("-Wl,-z,max-page-size=0x10000", "-Wl,-z,noseparate-code", "-Wl,-z,norelro")
    yield "lld", "-no-pie", ("-Wl,--no-rosegment",)
    yield "lld", "-no-pie", ("-Wl,-z,separate-code",)
    yield "gold", "-no-pie", ("-Wl,--rosegment",)
    yield "bfd", "-no-pie", ("-Wl,-Ttext-segment=0x20000",)
    yield "bfd", "-no-pie", ("-Wl,-Ttext-segment=0x10000",)


def unrandomized(*command, ok=0):
    return run(["setarch", "-R", *command], ok=ok).stdout


@pytest.mark.parametrize("linker,kind,flags", options(), ids=lambda x: "".join(x) if isinstance(x, tuple) else x)
def test_the_heap_begins_where_it_began(etch, tmp_path, linker, kind, flags):
    before, after = tmp_path / "before", tmp_path / "after"
    run(["gcc", "-O1", "-fno-pie", kind, f"-fuse-ld={linker}", *flags, SOURCE, "-o", before])
    p = run([etch, "rewrite", "-o", after, before], ok=None)
    if flags == ("-Wl,-Ttext-segment=0x10000",):  # nothing below the lowest address that the kernel gives
        assert p.returncode == 2 and p.stderr.count("\n") == 1, p.stderr
        assert "its heap begins right after its last segment" in p.stderr and "--sidecar" in p.stderr
        assert not after.exists()
        return
    assert p.returncode == 0, p.stderr
    check_loads(Elf(before), Elf(after))
    seen = unrandomized(before)
    assert unrandomized(after) == seen
    if kind == "-no-pie":  # a static C library has used the break before main()
        assert unrandomized(before, "unexec") == unrandomized(after, "unexec") == ""
    # As often as one likes, by other tools, and back.
    again, stripped, undone = tmp_path / "again", tmp_path / "stripped", tmp_path / "undone"
    run([etch, "rewrite", "-o", again, after])
    assert again.read_bytes() == after.read_bytes()
    run(["strip", "-o", stripped, after])
    assert unrandomized(stripped) == seen
    run([etch, "rewrite", stripped])
    assert unrandomized(stripped) == seen
    assert Elf(stripped).first_break() == Elf(before).first_break()
    run([etch, "rewrite", "--undo", "-o", undone, after])
    assert undone.read_bytes() == before.read_bytes()


@pytest.mark.parametrize("linker", ["bfd", "lld"])
@pytest.mark.parametrize("layout", SCRIPTS)
def test_layouts_of_scripts(etch, tmp_path, layout, linker):
    before, after, script = tmp_path / "before", tmp_path / "after", tmp_path / "script"
    (tmp_path / "bare.c").write_text(BARE)
    script.write_text(f"ENTRY(_start)\n{SCRIPTS[layout]}\nSECTIONS {{ . = {BODY[layout] % PARTS} }}\n")
    run(["gcc", "-O1", "-fno-pie", "-static", "-nostdlib", f"-fuse-ld={linker}", "-Wl,--build-id=none",
         "-Wl,-z,max-page-size=4096", f"-Wl,-T,{script}", tmp_path / "bare.c", "-o", before])
    unrandomized(before)
    p = run([etch, "rewrite", "-o", after, before], ok=None)
    assert p.returncode == 0, p.stderr
    check_loads(Elf(before), Elf(after))
    unrandomized(after)
    run([after], ok=None)  # with randomization it may be refused its page, but starts
    run([etch, "rewrite", "--undo", after])
    assert after.read_bytes() == before.read_bytes()


@pytest.mark.parametrize("kind", ["-no-pie", "-static"])
def test_tables_that_grow(etch, tmp_path, kind):
    """Other tables are asked for, larger and smaller: there is space for them further down."""
    before, after, again = tmp_path / "before", tmp_path / "after", tmp_path / "again"
    run(["gcc", "-O1", "-fno-pie", kind, SOURCE, "-o", before])
    seen, starts = unrandomized(before), []
    after.write_bytes(before.read_bytes())
    after.chmod(0o755)
    for options in ([], ["--sframe"], ["--sframe=3"], ["--encoding", "orc"], []):
        run([etch, "rewrite", *options, after])
        check_loads(Elf(before), Elf(after))
        starts.append(Elf(after).loads()[0]["vaddr"])
        assert unrandomized(after) == seen
        run([etch, "rewrite", *options, "-o", again, after])
        assert again.read_bytes() == after.read_bytes()
    assert starts == sorted(starts, reverse=True) and (kind == "-no-pie" or starts[0] > starts[3])
    run(["strip", "-o", again, after])
    assert unrandomized(again) == seen
    run([etch, "rewrite", "--undo", after])
    assert after.read_bytes() == before.read_bytes()


PLAIN = """
#include <stdio.h>
#include <unistd.h>
int main(void) { return sbrk(0) == (void *)-1; }
"""


@pytest.mark.parametrize("linker", ["bfd", "gold", "lld"])
@pytest.mark.parametrize("source,flags,told", [
    ("unexec", (), True), ("unexec", ("-Wl,-z,pack-relative-relocs", "-Wl,--no-relax"), True),
    ("unexec", ("-Wl,-z,max-page-size=0x200000",), False), ("plain", (), False),
])
def test_what_a_position_independent_program_is_told(etch, tmp_path, linker, source, flags, told):
    """Its addresses are the kernel's choice. Where a gap between its segments takes the tables, its heap stays, too; else
    one that uses brk and _end is told, and no other."""
    if linker != "bfd" and flags and "relocs" in flags[0]:
        pytest.skip("an option of GNU ld")
    before, after = tmp_path / "before", tmp_path / "after"
    (tmp_path / "plain.c").write_text(PLAIN)
    run(["gcc", "-O1", "-fPIE", "-pie", f"-fuse-ld={linker}", *flags, SOURCE if source == "unexec" else tmp_path / "plain.c",
         "-o", before])
    for _ in range(2):
        said = run([etch, "rewrite", "-o", after, before]).stderr
        check_loads(Elf(before), Elf(after))
        if told:
            grown = Elf(after).first_break() - Elf(before).first_break()
            assert f"note: it uses brk and _end; its heap begins {grown} bytes further up" in said
        else:
            assert "brk" not in said
        if "page-size" in "".join(flags):
            assert Elf(after).first_break() == Elf(before).first_break()
            assert unrandomized(before) == unrandomized(after)
        run(["strip", before])


@pytest.mark.parametrize("where,value,good", [
    ("inside", lambda n: n, True), ("inside", lambda n: 0, False), ("inside", lambda n: 31, False),
    ("inside", lambda n: 1 << 31, False), ("first", lambda n: 1 << 20, False), ("first", lambda n: 31, False),
    ("flags", lambda n: n | 2, False), ("flags", lambda n: n & ~4, False), ("flags", lambda n: n | 1, True),
])
def test_a_damaged_segment_is_no_segment(etch, tmp_path, where, value, good):
    """No other part of the first PT_LOAD is taken for tables."""
    made, cut = tmp_path / "made", tmp_path / "cut"
    run(["gcc", "-O1", "-fno-pie", "-no-pie", SOURCE, "-o", tmp_path / "in"])
    run([etch, "rewrite", "--no-undo", "-o", made, tmp_path / "in"])
    e, data = Elf(made), bytearray(made.read_bytes())
    ours, inside = e.ours()
    note = e.section(".etch.segment")["off"]
    assert inside
    at = {"first": note + 24, "inside": note + 28, "flags": e.phoff + 56 * e.ph.index(ours) + 4}[where]
    data[at:at + 4] = value(int.from_bytes(data[at:at + 4], "little")).to_bytes(4, "little")
    cut.write_bytes(data)
    p = run([etch, "rewrite", cut], ok=0 if good else 2)
    assert good or "section .etch.segment is not the start of a segment" in p.stderr, p.stderr
