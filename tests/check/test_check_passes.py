# SPDX-License-Identifier: MIT
"""The passes of etch check that are not about flow, hardening (test_check_hardening.py) or the
tables of rewritten files (test_check_tables.py): etched objects, .eh_frame itself, symbols, the
second decoder.

Truth is readelf's, pyelftools' and what each test has changed: a check must find exactly the
places that were damaged, and nothing in a file that was not."""

import re

import pytest
from elftools.elf.elffile import ELFFile
from elftools.elf.sections import SymbolTableSection

from check_findings import FUNCTION, NOTE, assemble, findings, function, places
from conftest import asan_env, capstone, run


# ---- I005 to I007, P002 ------------------------------------------------------------------------

ETCHED = """
#include <etch/imv.h>
#include <etch/pv.h>
struct config { int n; long big; float ratio; int list[4]; int (*hook)(int); };
ETCHED struct config cfg = { .n = 1 };
ETCHED struct config other = { .n = 1 };
int reader(void);
int reader(void) { return cfg.n; }
void store(int x);
void store(int x) { other.n = x; other.list[1] = x; }
void *leak(void);
void *leak(void) { return &other.list; }
float no_form(void);
float no_form(void) { return cfg.ratio; }
int indexed(int i);
int indexed(int i) { return cfg.list[i]; }
"""


def test_etched(flow):
    obj = flow.compile(ETCHED)
    etch = flow.etch
    stores = findings(etch, obj, "ETCH-I005")
    assert {function(x) for x in stores} == {"store"}
    assert sum(1 + (int(m.group(1)) if (m := re.search(r"(\d+) more", x["text"])) else 0) for x in stores) == 2
    assert "other" in stores[0]["text"]
    assert {function(x) for x in findings(etch, obj, "ETCH-I006")} >= {"leak"}
    loads = {function(x): x["text"] for x in findings(etch, obj, "ETCH-I007")}
    assert "no_form" in loads and "reader" not in loads
    # The same reasons as etch inspect gives, for each site that is not live.
    reasons = {s["live"].removeprefix("no: ") for s in flow.sites(obj)
               if s["kind"] == "load" and s["live"].startswith("no: ")}
    assert all(any(r in t for r in reasons) for t in loads.values())


REFERENCES = """
	.section etched, "aw", @progbits
	.quad 0
	.globl o
	.type o, @object
	.size o, 8
o:	.quad 1
	.text
	.type narrow, @function
narrow:	movw $o, %ax		# a relocation of two bytes
	ret
	.size narrow, . - narrow
	.type before, @function
before:	movl o-8(%rip), %eax	# nothing has a name there
	ret
	.size before, . - before
	.type behind, @function
behind:	movl $1, %eax		# and on, into what the linker puts there
	.size behind, . - behind
"""


def test_references_that_are_none_of_a_load(etch, tmp_path):
    obj = assemble(tmp_path, REFERENCES.replace(".globl o\n", "") + NOTE)
    assert places(findings(etch, obj, "ETCH-I001", "ETCH-I003", "ETCH-F006")) == [("before", 0), ("behind", 0), ("narrow", 0)]
    kinds = {x["id"]: function(x) for x in findings(etch, obj)}
    assert kinds["ETCH-I001"] == "narrow" and kinds["ETCH-I003"] == "before" and kinds["ETCH-F006"] == "behind"


def test_a_table_entry_without_its_load(flow_gcc):
    """The object step has found a load, and something else has been put in its place since."""
    obj = flow_gcc.compile("#include <etch/imv.h>\nETCHED int v = 1;\nint main(void) { return v - 1; }\n", ["-O2"])
    flow_gcc.rewrite(obj)
    exe = flow_gcc.link([obj], [], "replaced")
    (site,) = flow_gcc.sites(exe)
    elf = ELFFile(exe.open("rb"))
    text = elf.get_section_by_name(".text")
    data = bytearray(exe.read_bytes())
    at = int(site["address"], 16) - text["sh_addr"] + text["sh_offset"]
    data[at:at + 6] = bytes.fromhex("660f1f440000")  # a nop
    exe.write_bytes(data)
    said = run([flow_gcc.etch, "rewrite", exe]).stderr
    assert said.count("ETCH-D003") == 1 and exe.read_bytes()[at:at + 6] == data[at:at + 6]


# ---- C003, C004, N001 ----------------------------------------------------------------------------

MIXED = """
	.text
	.globl with, without, leaf, unsized, untyped
	.type with,@function
with:	.cfi_startproc
	sub $8, %rsp
	.cfi_adjust_cfa_offset 8
	call untyped
	add $8, %rsp
	.cfi_adjust_cfa_offset -8
	ret
	.cfi_endproc
	.size with,.-with
	.type without,@function
without: sub $8, %rsp
	call with
	add $8, %rsp
	ret
	.size without,.-without
	.type leaf,@function
leaf:	ret
	.size leaf,.-leaf
	.type unsized,@function
unsized: ret
	.type inside,@function
	.size outer,8
	.type outer,@function
outer:	nop
inside:	nop
	.zero 6, 0x90
untyped: ret
""" + NOTE


def uncovered(path):
    """Function symbols with a size that no FDE covers, by pyelftools."""
    with open(path, "rb") as f:
        e = ELFFile(f)
        ranges = [(x["initial_location"], x["initial_location"] + x["address_range"])
                  for x in e.get_dwarf_info().EH_CFI_entries() if hasattr(x, "cie") and type(x).__name__ == "FDE"]
        return {s.name for t in e.iter_sections() if isinstance(t, SymbolTableSection) for s in t.iter_symbols()
                if s["st_info"]["type"] == "STT_FUNC" and s["st_size"] and s["st_shndx"] != "SHN_UNDEF" and
                not any(a <= s["st_value"] < b for a, b in ranges)}


def test_missing_cfi_and_sizes(etch, tmp_path):
    obj = assemble(tmp_path, MIXED)
    so = tmp_path / "t.so"
    run(["gcc", "-shared", "-nostdlib", "-o", so, obj])
    for path in (obj, so):
        got = {function(x): x["text"] for x in findings(etch, path, "ETCH-C003")}
        assert set(got) == {"without", "leaf", "outer"} == uncovered(so), path
        assert "makes calls" in got["without"] and "makes no calls" in got["leaf"]
    sizes = {x["text"].split()[0] for x in findings(etch, obj, "ETCH-N001")}
    assert sizes == {"unsized", "untyped"}
    # What is built without .eh_frame at all is built so on purpose.
    assert findings(etch, assemble(tmp_path, re.sub(r"\t\.cfi_.*\n", "", MIXED), "u"), "ETCH-C003") == []


def test_rows_of_stubs_are_one_finding(etch, tmp_path):
    text = "\t.text\n" + "".join(f"\t.globl s{i}\n\t.type s{i},@function\ns{i}:\tjmp *s{i}_slot(%rip)\n" for i in range(40))
    (x,) = findings(etch, assemble(tmp_path, text + NOTE), "ETCH-N001")
    assert "likewise the next 39 functions" in x["text"] and "s39" in x["text"]


CFI = """
	.text
	.type f,@function
f:	ret
	.size f,.-f
	.section .eh_frame,"a",@progbits
cie:	.long 2f - 1f
1:	.long 0
	.byte 1
	.string "%(augmentation)s"
	.byte 1, 0x78, 16
	%(data)s
	.byte 0x0c, 7, 8, 0x90, 1
	.balign 4
2:
fde:	.long 4f - 3f
3:	.long %(pointer)s
	.long f - .
	.long %(size)s
	.byte %(more)s
	.byte %(program)s
	.balign 4
4:
""" + NOTE
GOOD = {"augmentation": "zR", "data": ".byte 1, 0x1b", "pointer": "3b - cie", "size": "1", "more": "0", "program": "0"}


@pytest.mark.parametrize("change,said", [
    ({}, None),
    ({"program": "0x3f"}, "call frame instructions"),          # no such one
    ({"program": "0x0b"}, "call frame instructions"),          # restores what was not remembered
    ({"pointer": "3b - cie + 4"}, "its CIE pointer does not lead to a CIE"),
    ({"pointer": "0x7fffffff"}, "its CIE pointer does not lead to a CIE"),
    ({"data": ".byte 90, 0x1b"}, "augmentation data extends past its end"),
    ({"data": ".byte 1, 0x0d"}, "truncated or has an unknown encoding"),
    ({"more": "200"}, "augmentation data extends past its end"),
    ({"augmentation": "Q", "data": ""}, None),                  # unusual: who knows what it means
], ids=str)
def test_malformed_cfi(etch, etch_asan, tmp_path, change, said):
    obj = assemble(tmp_path, CFI % {**GOOD, **change})
    got = findings(etch, obj, "ETCH-C004")
    assert len(got) == (said is not None) and all(said in x["text"] for x in got), got
    assert all(x["place"]["section"] == ".eh_frame" for x in got)
    assert findings(etch_asan, obj, "ETCH-C004", env=asan_env()) == got


def test_cut_cfi(etch, tmp_path):
    obj = assemble(tmp_path, FUNCTION + '\t.section .eh_frame,"a",@progbits\n\t.long 100\n\t.long 0\n' + NOTE)
    (x,) = findings(etch, obj, "ETCH-C004")
    assert "past the end of the section" in x["text"]


# ---- D004 ------------------------------------------------------------------------------------------

def test_decoders(etch, tmp_path):
    """Capstone 4 takes comiss to read 16 bytes; it knows no mask registers, which is no disagreement. Later ones are right."""
    body = "".join("\tkmovd %eax, %k1\n\tcomiss x(%rip), %xmm1\n\tadd %eax, %ebx\n" for _ in range(3))
    obj = assemble(tmp_path, "\t.text\n\t.type f,@function\nf:\n" + body + "\tret\n\t.size f,.-f\n" + NOTE)
    if capstone() > 4:
        assert not findings(etch, obj, "ETCH-D004") and not findings(etch, obj, "ETCH-D008")
        return
    for args in ([], ["--both-decoders"]):
        (x,) = findings(etch, obj, "ETCH-D004", args=args)
        assert places([x]) == [("f", 4)] and "at 2 more " in x["text"]
        assert [f["label"] for f in x["facts"]] == ["Zydis", "Capstone", "bytes"]
        assert x["facts"][2]["text"].startswith("0f 2f 0d")
        (x,) = findings(etch, obj, "ETCH-D008", args=args)
        assert places([x]) == [("f", 0)] and x["text"].startswith("3 instructions")


def test_decoders_agree_on_what_objdump_shows(etch, tmp_path):
    """No disagreement where both are right: a few thousand instructions of a compiler."""
    src, obj = tmp_path / "t.c", tmp_path / "t.o"
    src.write_text("#include <string.h>\n#include <stdlib.h>\n" + "".join(
        f"int f{i}(int *a, long n, const char *s) {{ long t = {i}; for (long k = 0; k < n; k++) {{ t += a[k] * {i + 3}; "
        f"if (a[k] % {i + 2} == 1) t ^= (long)strlen(s) << {i % 31}; switch (a[k]) {{ case 1: t++; break; case 2: t /= 3; break; "
        f"case 3: t -= atoi(s); break; case 5: return {i}; }} }} return (int)t; }}\n" for i in range(8)))
    for flags in (["-O2"], ["-O3", "-mavx2"]):
        run(["gcc", *flags, "-c", "-o", obj, src])
        assert findings(etch, obj, "ETCH-D004", args=["--both-decoders"]) == []
