# SPDX-License-Identifier: MIT
"""Programs with a payload of their own: archives that unpack themselves, scripts compiled into their interpreter.
Data that no header describes is found in ways that a rewritten file cannot all keep (the distance from the end, the
end of the headers, a number), so such a file is refused. What a section or a segment describes is kept, and undone."""
import struct
import zipfile

import pytest

from conftest import ROOT, run
from test_segment import Elf

PAYLOAD = b"MAGIC!\0" + b"the payload" + bytes(5) + b"."

# Each finds the payload in its own file, as do, in order: PyInstaller's bootloader (a magic number, looked for from
# the end backwards), old deno and bun (the last bytes of the file), AppImage's runtime (the end of the section headers
# or of the last section, whichever is later), its shell scripts (the end of the section headers), a number put into it.
READER = r"""
#include <elf.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#define SIZE %d
static volatile unsigned long where = 0x1122334455667788;
static unsigned char *self;
static size_t size;
static size_t headers(void) { Elf64_Ehdr *e = (void *)self; return e->e_shoff + (size_t)e->e_shnum * e->e_shentsize; }
static size_t find(const char *how)
{
	Elf64_Ehdr *e = (void *)self;
	Elf64_Shdr *last = (void *)(self + headers() - sizeof *last);
	size_t at = size;

	if (!strcmp(how, "number")) return where;
	if (!strcmp(how, "end")) return size - SIZE;
	if (!strcmp(how, "headers")) return headers();
	if (!strcmp(how, "extent"))
		return last->sh_type != SHT_NOBITS && last->sh_offset + last->sh_size > headers() ? last->sh_offset + last->sh_size : headers();
	while (at-- > e->e_ehsize)
		if (!memcmp(self + at, "MAGIC" "!", 7) && self[at + 8] == 'h')
			return at;
	return 0;
}
int main(int argc, char **argv)
{
	FILE *f = fopen("/proc/self/exe", "rb");

	self = malloc(1 << 24);
	size = f ? fread(self, 1, 1 << 24, f) : 0;
	for (int i = 1; i < argc; i++) {
		size_t at = find(argv[i]);
		printf("%%s=%%s\n", argv[i], at + 18 <= size && !memcmp(self + at + 7, "the payload", 11) ? "found" : "lost");
	}
	return 0;
}
""" % len(PAYLOAD)
WAYS = ["search", "end", "extent", "headers", "number"]


def found(path, ways):
    return run([path, *ways]).stdout == "".join(f"{w}=found\n" for w in ways)


@pytest.fixture(scope="module")
def reader(tmp_path_factory):
    out = tmp_path_factory.mktemp("payload") / "reader"
    run(["gcc", "-O1", "-g0", "-x", "c", "-o", out, "-"], input=READER)
    return out


def appended(path, to):
    """The payload after it, and its number in it."""
    data = path.read_bytes()
    to.write_bytes(data.replace(struct.pack("<Q", 0x1122334455667788), struct.pack("<Q", len(data))) + PAYLOAD)
    to.chmod(0o755)
    return to


def test_what_no_header_describes_is_refused(etch, reader, tmp_path):
    path = appended(reader, tmp_path / "sfx")
    data, end = path.read_bytes(), len(reader.read_bytes())
    assert found(path, WAYS)
    for options in ([], ["--no-undo"], ["--only", "orc"]):
        p = run([etch, "rewrite", *options, path], ok=2)
        assert p.stderr.startswith(f"etch: {path}: data after the last section (at offset {end:#x}) that no header describes")
        assert p.stderr.count("\n") == 1 and path.read_bytes() == data
    side = tmp_path / "side"
    side.mkdir()
    run([etch, "rewrite", "--sidecar", side, path])
    assert path.read_bytes() == data and len(list(side.iterdir())) == 1


def test_a_zip_file_is_refused(etch, reader, tmp_path):
    path = tmp_path / "zip"
    path.write_bytes(reader.read_bytes())
    with zipfile.ZipFile(path, "a") as z:
        z.writestr("a", "hello")
    data = path.read_bytes()
    assert "no header describes" in run([etch, "rewrite", path], ok=2).stderr and path.read_bytes() == data


def test_a_payload_may_come_after_etch(etch, reader, tmp_path):
    """Then it lies where it would have lain, but that the record for --undo is behind the section headers, where who
    takes those for the file's end begins to read. And rewriting again is refused, in whatever state the file is."""
    for options, ways in ([], ["search", "end", "extent", "number"]), (["--no-undo"], WAYS):
        plain = tmp_path / "plain"
        plain.write_bytes(reader.read_bytes())
        run([etch, "rewrite", *options, plain])
        path = appended(plain, tmp_path / "sfx")
        data = path.read_bytes()
        assert found(path, ways)
        for args in ([], ["--undo"], ["--no-undo"]):
            assert run([etch, "rewrite", *args, path], ok=2).stderr.count("\n") == 1 and path.read_bytes() == data


@pytest.mark.parametrize("how", ["section", "segment"])
def test_what_a_header_describes_is_kept(etch, reader, tmp_path, how):
    """PyInstaller adds a section that is not loaded; bun grows the last segment and moves what was after it."""
    path = tmp_path / "app"
    if how == "section":
        (tmp_path / "p").write_bytes(PAYLOAD)
        run(["objcopy", "--add-section", f"pydata={tmp_path / 'p'}", reader, path])
    else:
        elf = Elf(reader)
        data, k = bytearray(reader.read_bytes()), max(i for i, p in enumerate(elf.ph) if p["type"] == 1)
        load = elf.ph[k]
        old, new = load["off"] + load["filesz"], load["off"] + ((load["memsz"] + 4095) & ~4095)
        grown = new + 4096 - load["off"]
        moved = new + 4096 - old
        data[old:old] = bytes(new - old) + PAYLOAD + bytes(4096 - len(PAYLOAD))
        struct.pack_into("<QQ", data, elf.phoff + 56 * k + 32, grown, grown)
        struct.pack_into("<Q", data, 40, elf.shoff + moved)
        for i, s in enumerate(elf.sh):
            if s["type"] and s["type"] != 8 and s["off"] >= old:
                struct.pack_into("<Q", data, elf.shoff + moved + 64 * i + 24, s["off"] + moved)
        path.write_bytes(data)
        path.chmod(0o755)
    data = path.read_bytes()
    assert found(path, ["search"])
    run([etch, "rewrite", path])
    once = path.read_bytes()
    assert once != data and found(path, ["search"])
    run([etch, "rewrite", path])
    assert path.read_bytes() == once
    run([etch, "rewrite", "--undo", path])
    assert path.read_bytes() == data


@pytest.fixture(scope="module")
def sites(etch, build, tmp_path_factory):
    """A program and an object in which there is something to do in place."""
    d = tmp_path_factory.mktemp("sites")
    text = ("#include <etch/imv.h>\n#include <stdio.h>\nDEFINE_IMV(int, v) = 5;\n"
            "int main(void) { printf(\"%d\\n\", imv_read(v)); return 0; }\n")
    run(["gcc", "-O2", "-I", ROOT / "lib/include", "-c", "-x", "c", "-o", d / "v.o", "-"], input=text)
    run([etch, "rewrite", d / "v.o"])
    run(["gcc", "-o", d / "v", d / "v.o", build / "libetch.a", "-pthread"])
    run([etch, "rewrite", "-o", d / "done", d / "v"])
    assert (d / "done").read_bytes() != (d / "v").read_bytes()
    return d


def test_nothing_is_changed_in_place_that_cannot_be_put_back(etch, sites, tmp_path):
    """The record is the last thing in a file. Where it cannot be, bytes change only for who goes without it: all that
    is behind the sections is then where it was, at either distance."""
    path = tmp_path / "v"
    data = (sites / "v").read_bytes()
    path.write_bytes(data + PAYLOAD)
    path.chmod(0o755)
    p = run([etch, "rewrite", path], ok=2)
    assert p.stderr == (f"etch: {path}: data after the last section (at offset {len(data):#x}) that no header describes: "
                        "an undo record would have to follow it (use --no-undo)\n")
    assert path.read_bytes() == data + PAYLOAD
    run([etch, "rewrite", "--no-undo", path])
    once = path.read_bytes()
    assert once != data + PAYLOAD and len(once) == len(data + PAYLOAD) and once.endswith(PAYLOAD)
    assert run([path]).stdout == "5\n"
    run([etch, "rewrite", "--no-undo", path])
    assert path.read_bytes() == once
    # Zeros are padding, and a record may follow them.
    for only in ([], ["--only", "imv,pv"]):
        path.write_bytes(data + bytes(5))
        run([etch, "rewrite", *only, path])
        assert path.read_bytes() != data + bytes(5)
        run([etch, "rewrite", "--undo", path])
        assert path.read_bytes() == data + bytes(5)


def test_more_zeros_than_can_be_put_back(etch, sites, tmp_path):
    path = tmp_path / "v"
    data = (sites / "v").read_bytes() + bytes(8 << 20)
    path.write_bytes(data)
    p = run([etch, "rewrite", path], ok=2)
    assert "the undo record would be too large" in p.stderr and path.read_bytes() == data
