# SPDX-License-Identifier: MIT
"""A static program links of libetch what it uses (enum etch_part of etch/format.h), and works: the CPU reads what was set, and
not from memory. What needs a part that is missing is left a load by the tool, or refused by libetch."""
import re
import shutil

import pytest

from conftest import CCS, INCLUDE, ROOT, TESTS, run

CORE, OTHERS, OBJECTS, BRANCHES = 1, 2, 3, 4
ONLY = ["--only", "imv,pv,ex"]
ALL = {CORE, OTHERS, OBJECTS, BRANCHES}
USES = {  # what a program does: the parts that it has
    "imv": {CORE},
    "imv-elsewhere": {CORE, OTHERS},
    "branches": {CORE, BRANCHES},
    "packed": ALL,
    "objects": ALL - {BRANCHES},
    "sync": ALL - {BRANCHES},
    "pv": ALL - {BRANCHES},
    "marks": {CORE},
    "info": ALL,
    "unwinding": set(),
    "faults": ALL - {BRANCHES},  # its table of copies is an ops table
}


def parts(path):
    """By readelf."""
    if not re.search(r" __etch_part +PROGBITS ", run(["readelf", "-SW", path]).stdout):
        return set()
    dump = run(["readelf", "-x", "__etch_part", path]).stdout
    words = "".join(re.findall(r"^  0x[0-9a-f]+ ((?:[0-9a-f]{8} ?){1,4})", dump, re.M)).replace(" ", "")
    return {int.from_bytes(bytes.fromhex(words[i:i + 8]), "little") for i in range(0, len(words), 8)}


def use(name):
    return TESTS / "parts" / f"{name}.c"


# Low addresses occur among the C library's constants: the values there would not be armed.
HIGH = "-Wl,-Ttext-segment=0x5a000000"


def linkers():
    """(compiler, flags of the link)"""
    for cc in CCS:
        yield cc, ["-static", HIGH]
        yield cc, ["-static-pie", "-fPIE"]
        yield cc, []
        yield cc, ["-fuse-ld=gold"]
        yield cc, ["-static", "-flto", *([HIGH] if cc == "gcc" else [])]
    if shutil.which("musl-gcc"):
        yield "musl-gcc", ["-static", HIGH]


def make(tmp_path, build, name, cc, flags, rewrite=True, extra=()):
    out = tmp_path / "t"
    lld = ["-fuse-ld=lld"] if cc == "clang" and "-flto" in flags else []
    run([cc, "-O2", "-pthread", f"-I{INCLUDE}", f"-I{TESTS}", *flags, *lld, *extra, "-o", out, use(name), build / "libetch.a"])
    if rewrite:
        run([build / "etch", "rewrite", *ONLY, out])
    return out


@pytest.mark.parametrize("name", USES)
@pytest.mark.parametrize("cc,flags", linkers(), ids=lambda v: v if isinstance(v, str) else "".join(f for f in v if f != HIGH) or "dynamic")
def test_a_program_has_what_it_uses_and_works(tmp_path, build, name, cc, flags):
    """Each exits with 0 where the CPU reads what it has set. `immediate`: and not from memory."""
    out = make(tmp_path, build, name, cc, flags, rewrite=False)
    assert parts(out) == USES[name]
    run([out])
    run([build / "etch", "rewrite", *([] if name == "unwinding" else ONLY), out])
    run([out, "immediate"])


def test_without_the_other_parts_their_sites_are_loads(tmp_path, build):
    """A compare of an immediate value in memory: the core knows no such form. The tool says why, and the load follows."""
    out = make(tmp_path, build, "compare", "gcc", ["-static"])
    assert parts(out) == {CORE}
    sites = run([build / "etch", "inspect", "sites", "--format", "tsv", out]).stdout
    assert "what of libetch changes it is not linked" in sites
    assert re.search(r"cmpl? +\$0x7,.*v__imv", run(["objdump", "-d", "--disassemble=main", out]).stdout)
    run([out])
    out = make(tmp_path, build, "compare", "gcc", ["-static"], extra=["-Wl,-u,etch_part_objects"])
    assert parts(out) == ALL - {BRANCHES}
    assert "is not linked" not in run([build / "etch", "inspect", "sites", "--format", "tsv", out]).stdout
    assert not re.search(r"cmpl? +\$0x7,.*v__imv", run(["objdump", "-d", "--disassemble=main", out]).stdout)
    run([out])


@pytest.mark.parametrize("name,symbol", [("imv", "etch_part_objects"), ("branches", "etch_part_branches")])
def test_a_missing_part_is_an_error(tmp_path, build, name, symbol):
    """ETCH_EFORMAT, where the symbol that asks for the part has been taken out of the object: nothing changes."""
    obj, out = tmp_path / "t.o", tmp_path / "t"
    run(["gcc", "-O2", "-pthread", f"-I{INCLUDE}", f"-I{TESTS}", "-c", "-o", obj, use(name)])
    if name == "imv":
        run([build / "etch", "rewrite", *ONLY, obj])
    assert f" U {symbol}\n" in run(["nm", obj]).stdout
    run(["gcc", "-static", "-o", out, obj, build / "libetch.a", "-pthread"])
    run([out])
    run(["objcopy", f"--strip-symbol={symbol}", obj])
    run(["gcc", "-static", "-o", out, obj, build / "libetch.a", "-pthread"])
    run([out, "refused"])
    if name == "branches":
        run([build / "etch", "rewrite", *ONLY, out])
        run([out, "refused"])


def test_headers_without_parts_link_all(tmp_path, build):
    """Those before, and Rust's module, call etch_module_load_v2 or v1, and name no part."""
    (tmp_path / "old.c").write_text('#define etch_module_load_v3 etch_module_load_v2\n#include "parts/imv.c"\n')
    run(["gcc", "-O2", "-static", "-pthread", f"-I{INCLUDE}", f"-I{TESTS}", "-o", tmp_path / "t", tmp_path / "old.c", build / "libetch.a"])
    assert parts(tmp_path / "t") == ALL
    run([build / "etch", "rewrite", *ONLY, tmp_path / "t"])
    run([tmp_path / "t", "immediate"])


# ---- bytes ---------------------------------------------------------------------------------

MAN = (ROOT / "docs" / "man" / "libetch.3").read_text().replace("\\fB", "").replace("\\fP", "")
TABLE = re.findall(r"^(\S.*?)  +([\d,]+)$", MAN.split(".SH STATIC PROGRAMS")[1].split(".SH")[0], re.M)
ROWS = {"imv_read, imv_set": "imv", "DECLARE_IMV too": "imv-elsewhere", "static branches too": "branches", "etch_set, calls": "objects",
        "etch_sync, etch_release too": "sync", "etch_mark_attach": "marks", "etch_backtrace": "unwinding", "etch_copy_from": "faults"}


def test_the_table_has_each_use():
    assert {row for row, _ in TABLE} == set(ROWS)


@pytest.mark.parametrize("row,said", TABLE, ids=[ROWS.get(r, r) for r, _ in TABLE])
def test_bytes_by_use(tmp_path, build, row, said):
    """Of libetch.a, by the linker's map: text, constants and unwind tables, not more than libetch(3) says, nor much less."""
    run(["gcc", "-O2", "-static", "-pthread", f"-I{INCLUDE}", f"-I{TESTS}", "-o", tmp_path / "t", use(ROWS[row]),
         build / "libetch.a", f"-Wl,-Map={tmp_path / 'map'}"])
    sizes = {}
    for section, size, member in re.findall(r"^ (\S+)\s+0x[0-9a-f]+\s+0x([0-9a-f]+) \S*libetch\.a\((\S+)\.o\)",
                                            (tmp_path / "map").read_text(), re.M):
        if section.startswith((".text", ".rodata", ".eh_frame", ".data.rel.ro", "__etch_part")):
            sizes[member] = sizes.get(member, 0) + int(size, 16)
    print(row, sum(sizes.values()), sizes)
    most = int(said.replace(",", ""))
    assert 0.95 * most < sum(sizes.values()) <= most, sizes
