# SPDX-License-Identifier: MIT
"""What etch inspect shows of call sites is so; tables of call sites that are none."""

import json
import os
import re
import struct
import zlib

import pytest

from conftest import asan_env, run
from pv_files import STATES, TARGETS, Table, sites
from pv_files import built  # noqa: F401 (fixtures)


# ---- inspect ----------------------------------------------------------------------------

HEADER = ["address", "length", "kind", "object", "offset", "size", "form", "live", "state", "target", "function", "source"]


def test_inspect_sites(built):
    b = built("pie", "gcc")
    lines = run([b.flow.etch, "inspect", "sites", "--format", "tsv", b.done]).stdout.splitlines()
    assert lines[0].split("\t") == HEADER
    for line, site in zip(lines[1:], b.flow.inspect("sites", b.done)["sites"], strict=True):
        cells = dict(zip(HEADER, line.split("\t"), strict=True))
        assert cells["address"] == site["address"] and cells["kind"] == site["kind"]
        if cells["kind"] in ("call", "jmp"):
            assert cells["size"] == "8" and re.match(r"(call|jmp)-(rip|abs|base|reg)$|-$", cells["form"])
            assert cells["live"] in ("yes", "swap", "linker") or cells["live"].startswith("no: ")
    text = run([b.flow.etch, "inspect", "sites", b.done]).stdout
    assert re.search(r"call +pv_table +16 +8 +call-rip +yes +nop +etch_pv_nop_ +use_flush\+", text)


def test_inspect_object(built):
    """Slots of an object file lead where its relocations say."""
    b = built("pie", "gcc")
    for s in sites(b.flow, b.object):
        function = s["function"].split("+")[0]
        if function not in ("asm_call_index", "asm_call_meets", "use_pick"):
            assert s["target"] == TARGETS.get(function, "add"), s
        assert s["state"] == "indirect"


@pytest.mark.parametrize("stage", ["object", "linked", "done", "alone", "unprocessed"])
def test_inspect_summary(built, stage):
    b = built("pie", "gcc")
    path = getattr(b, stage)
    s, found = b.flow.inspect("summary", path), sites(b.flow, path)
    assert s["calls"] == len(found) and s["call_sites"] == sum(x["form"] != "-" for x in found)
    assert s["live_calls"] == sum(not x["live"].startswith("no: ") for x in found)
    assert s["call_states"] == {k: sum(x["state"] == k and x["form"] != "-" for x in found) for k in s["call_states"]}
    assert sum(k["count"] for k in s["stay_calls"]) == s["calls"] - s["live_calls"]
    (o,) = s["objects"]
    assert o["object"] == "pv_table" and o["calls"] == len(found) and o["live_calls"] == s["live_calls"]
    tsv = dict(line.split("\t") for line in run([b.flow.etch, "inspect", "summary", "--format", "tsv", path]).stdout.splitlines())
    assert int(tsv["calls"]) == s["calls"] and int(tsv["call_state: direct"]) == s["call_states"]["direct"]
    text = run([b.flow.etch, "inspect", path]).stdout
    assert f"{s['calls']} calls through function pointers of etched objects: {s['call_sites']} are sites" in text


@pytest.mark.parametrize("stage", ["linked", "done", "alone"])
def test_inspect_tables(built, stage):
    b = built("nopie", "gcc")
    t, path = Table(getattr(b, stage)), getattr(b, stage)
    j = b.flow.inspect("tables", path)
    assert j["pv_address"] == t.addr and j["pv_room"] == t.capacity
    assert [(int(e["site"], 16), int(e["refers"], 16), e["length"], e["form"], "baked" in (e["flags"] or "")) for e in j["pv"]] == \
        [(e["site"], e["slot"], e["length"], f"{e['kind']}-{e['mode']}", bool(e["baked"])) for e in t.entries if e]
    by = {int(e["site"], 16): e for e in j["pv"]}
    for s in sites(b.flow, path):
        if s["function"].startswith("asm_call_base_rex+"):
            e = by[int(s["address"], 16)]
            assert (e["form"], e["register"], e["offset"], e["flags"]) == ("call-base", 11, 8, None)
        if s["function"].startswith("asm_jmp_notrack+"):
            assert by[int(s["address"], 16)]["flags"] == "notrack"
    checked = "checked" if stage != "unprocessed" else "-"
    assert {n["name"]: n["flags"] or "-" for n in j["native"]} == {
        "etch_pv_nop_": f"{checked},one", "etch_pv_ident_32_": f"{checked},one", "etch_pv_ident_64_": f"{checked},one",
        "native_set": f"{checked},one", "native_pair": checked, "native_saved": "-"}
    text = run([b.flow.etch, "inspect", "tables", path]).stdout
    assert "__pv_sites: " in text and "__pv_native: 6 records" in text


def test_inspect_code(built):
    b = built("pie", "gcc")
    text = run([b.flow.etch, "inspect", "code", "use_flush", b.done]).stdout
    assert re.search(r"nopw .*nop call by pv_table\+16 to etch_pv_nop_: call-rip, live", text), text
    text = run([b.flow.etch, "inspect", "code", "use_add", b.done]).stdout
    assert re.search(r"call.* direct call by pv_table\+24 to add: call-rip, live", text), text
    text = run([b.flow.etch, "inspect", "code", "asm_call_index", b.done]).stdout
    assert "indirect call by pv_table: no form, not live: indexed" in text, text
    for function in STATES:
        if "abs" not in function:
            json.loads(run([b.flow.etch, "inspect", "code", "--json", function, b.done]).stdout)
            run([b.flow.etch, "inspect", "code", function, b.object])


# ---- tables that are none -----------------------------------------------------------------

COMMANDS = [["rewrite", "-v"], ["rewrite", "--only", "orc"], ["rewrite", "--only", "pv"], ["inspect", "sites"],
            ["inspect", "tables"], ["inspect", "summary"], ["inspect", "code", "use_add"]]
SITE, OBJ, FORM, REGS, SHAPE, FLAGS = 0, 4, 8, 9, 10, 11


def field(e, at, fmt, value):
    e = bytearray(e)
    struct.pack_into(fmt, e, at, value)
    return bytes(e)


def first(t, wanted):
    """Number of the first entry that is like this."""
    return next(i for i, e in enumerate(t.entries) if all(e[k] == v for k, v in wanted.items()))


BAKED, PLAIN = {"baked": 1, "mode": "rip"}, {"baked": 0, "mode": "base"}
# name: (which entry, how it is changed, what the refusal says; None: it may be ignored)
HOSTILE = {
    "load-form": (BAKED, lambda e: field(e, FORM, "B", 3), "__pv_sites entry . is malformed"),
    "no-form": (BAKED, lambda e: field(e, FORM, "B", 0), "malformed"),
    "unknown-form": (PLAIN, lambda e: field(e, FORM, "B", 66), "malformed"),
    "length-0": (PLAIN, lambda e: field(e, SHAPE, "B", e[SHAPE] & 0xf0), "malformed"),
    "length-15": (PLAIN, lambda e: field(e, SHAPE, "B", e[SHAPE] | 15), "malformed"),
    "flag": (PLAIN, lambda e: field(e, FLAGS, "B", e[FLAGS] | 4), "malformed"),
    "got-and-baked": (BAKED, lambda e: field(e, FLAGS, "B", 3), "malformed"),
    "displacement-of-rip": (BAKED, lambda e: field(e, REGS, "B", 0x30), "malformed"),
    "register-of-rip": (BAKED, lambda e: field(e, REGS, "B", 3), "malformed"),
    "site-next-byte": (BAKED, lambda e: field(e, SITE, "<i", struct.unpack_from("<i", e)[0] + 1), "code and tables disagree"),
    "site-wild": (BAKED, lambda e: field(e, SITE, "<i", 0x7fffffff), "code and tables disagree"),
    "site-in-data": (BAKED, lambda e: field(e, SITE, "<i", 0), "code and tables disagree"),
    "slot-next": (BAKED, lambda e: field(e, OBJ, "<i", struct.unpack_from("<i", e, 4)[0] + 8), "code and tables disagree"),
    "slot-wild": (BAKED, lambda e: field(e, OBJ, "<i", -0x80000000), "code and tables disagree"),
    "slot-odd": (BAKED, lambda e: field(e, OBJ, "<i", struct.unpack_from("<i", e, 4)[0] + 1), "code and tables disagree"),
    "shorter": (BAKED, lambda e: field(e, SHAPE, "B", e[SHAPE] - 1), "code and tables disagree"),
    "jump": (BAKED, lambda e: field(e, FORM, "B", e[FORM] ^ 1), "code and tables disagree"),
    "other-mode": (BAKED, lambda e: field(e, SHAPE, "B", e[SHAPE] ^ 0x10), "code and tables disagree"),
    "baked-lie": (PLAIN, lambda e: field(e, FLAGS, "B", e[FLAGS] | 1), "code and tables disagree"),
    "unbaked-lie": (BAKED, lambda e: field(e, FLAGS, "B", 0), None),
    "plain-site-wild": (PLAIN, lambda e: field(e, SITE, "<i", 0x7fffffff), None),
    "plain-site-next-byte": (PLAIN, lambda e: field(e, SITE, "<i", struct.unpack_from("<i", e)[0] + 1), None),
    "plain-site-in-data": (PLAIN, lambda e: field(e, SITE, "<i", 0), None),
    "plain-slot-wild": (PLAIN, lambda e: field(e, OBJ, "<i", 0x7fffffff), None),
    "plain-register": (PLAIN, lambda e: field(e, REGS, "B", e[REGS] ^ 15), None),
    "plain-stack-pointer": (PLAIN, lambda e: field(e, REGS, "B", e[REGS] & 0xf0 | 4), None),
    "plain-length": (PLAIN, lambda e: field(e, SHAPE, "B", e[SHAPE] & 0xf0 | 9), None),
    "plain-got": (PLAIN, lambda e: field(e, FLAGS, "B", e[FLAGS] | 2), None),
    "empty-amid": (PLAIN, lambda e: bytes(12), None),
}


def judge(etch, path, data, reason, plain=None):
    """Refused in one line and left as it was; or done, in peace. `plain`: the tool for all commands but two, which
    change from file to file."""
    two = zlib.crc32(path.name.encode()) % len(COMMANDS)
    for i, command in enumerate(COMMANDS):
        tool = plain if plain and (i - two) % len(COMMANDS) > 1 else etch
        path.write_bytes(data)
        path.chmod(0o755)
        p = run([tool, *command, path], ok=(0, 2), env=asan_env())
        lines = p.stderr.splitlines()
        if reason and command == ["inspect", "summary"] and p.returncode == 0:
            # A summary says what there is, and what is wrong with it.
            assert not lines and "ETCH-T003" in p.stdout, (p.stdout, p.stderr)
        elif reason or p.returncode == 2:
            assert p.returncode == 2 and p.stdout == "", (command, p.stdout, p.stderr)
            assert len(lines) == 1 and lines[0].startswith(f"etch: {path}: ") and re.search(reason or ".", lines[0]), lines
            assert path.read_bytes() == data
        else:
            assert all(re.match(rf"etch: {re.escape(str(path))}: ETCH-[A-Z]\d{{3}}: ", line) for line in lines), lines


@pytest.mark.parametrize("name", HOSTILE)
@pytest.mark.parametrize("stage", ["done", "alone"])
def test_hostile_entries(built, etch, etch_asan, name, stage):
    b = built("pie", "gcc")
    t = Table(getattr(b, stage))
    wanted, change, reason = HOSTILE[name]
    at = t.offset(t.addr + 12 * first(t, wanted))
    data = bytearray(t.data)
    data[at:at + 12] = change(bytes(data[at:at + 12]))
    assert data != t.data
    judge(etch_asan, b.flow.tmp / f"hostile-{name}", bytes(data), reason,
          etch if os.environ.get("ETCH_TESTS") != "all" else None)


def test_hostile_order(built, etch_asan):
    """Entries in another order are sorted again; one that is there twice, or overlaps
    another, does not agree with the code that the other was for."""
    b = built("pie", "gcc")
    t = Table(b.done)
    at, n = t.offset(t.addr), t.capacity
    entries = [t.data[at + 12 * i:at + 12 * i + 12] for i in range(n)]

    def moved(order):
        out = bytearray(t.data)
        for to, i in enumerate(order):
            e = bytearray(entries[i])
            for f in (SITE, OBJ):
                struct.pack_into("<i", e, f, struct.unpack_from("<i", e, f)[0] + 12 * (i - to))
            out[at + 12 * to:at + 12 * to + 12] = e
        return bytes(out)

    path = b.flow.tmp / "order"
    path.write_bytes(moved(reversed(range(n))))
    assert path.read_bytes() != t.data
    b.flow.rewrite(path, args=["--no-undo"])  # what it was is another file
    b.done.with_suffix(".plain").write_bytes(t.data)
    b.flow.rewrite(b.done.with_suffix(".plain"), args=["--no-undo"])
    assert path.read_bytes() == b.done.with_suffix(".plain").read_bytes()
    k = first(t, BAKED)
    judge(etch_asan, path, moved([k if i == k + 1 else i for i in range(n)]), "code and tables disagree")
    judge(etch_asan, path, moved([k if i in range(n) else i for i in range(n)]), "code and tables disagree")


@pytest.mark.parametrize("name,where,fmt,value,reason", [
    ("far", 48, "<q", 1 << 40, "places __pv_sites outside the file"),
    ("wraps", 48, "<q", -(1 << 63), "places __pv_sites outside the file"),
    ("many", 56, "<Q", 1 << 60, "places __pv_sites outside the file"),
    ("some", 56, "<Q", 1 << 20, "places __pv_sites outside the file|malformed"),
    ("none", 56, "<Q", 0, None),
    ("shifted", 48, "<q", None, "malformed|code and tables disagree|outside the file"),
    ("not-moved", 8, "<I", 1, None),
])
def test_hostile_descriptor(built, etch_asan, name, where, fmt, value, reason):
    b = built("pie", "gcc")
    t = Table(b.alone)
    at = t.offset(t.sections["__etch_mod"][0]) + where
    if value is None:
        value = struct.unpack_from(fmt, t.data, at)[0] + 4
    data = bytearray(t.data)
    struct.pack_into(fmt, data, at, value)
    judge(etch_asan, b.flow.tmp / f"descriptor-{name}", bytes(data), reason)


def section_header(data, name):
    """Offset of a section's header."""
    shoff, = struct.unpack_from("<Q", data, 40)
    shnum, shstr = struct.unpack_from("<HH", data, 60)
    strings, = struct.unpack_from("<Q", data, shoff + 64 * shstr + 24)
    for i in range(shnum):
        at = shoff + 64 * i
        start = strings + struct.unpack_from("<I", data, at)[0]
        if data[start:data.index(0, start)] == name.encode():
            return at
    raise KeyError(name)


@pytest.mark.parametrize("name", ["__pv_sites", "__pv_native"])
@pytest.mark.parametrize("stage", ["object", "linked", "done"])
@pytest.mark.parametrize("cut", [1, 4, 11])
def test_hostile_size(built, etch_asan, name, stage, cut):
    b = built("pie", "gcc")
    data = bytearray(getattr(b, stage).read_bytes())
    at = section_header(data, name)
    size, = struct.unpack_from("<Q", data, at + 32)
    struct.pack_into("<Q", data, at + 32, size - cut)
    path = b.flow.tmp / f"size-{stage}"
    for command in COMMANDS:
        path.write_bytes(data)
        p = run([etch_asan, *command, path], ok=(0, 2), env=asan_env())
        if stage != "object":
            assert p.returncode == 2 and len(p.stderr.splitlines()) == 1
            assert f"section {name}: size {size - cut} is not a multiple of 12" in p.stderr
        elif command[0] == "rewrite" and "orc" not in command:
            assert p.returncode == 2 and len(p.stderr.splitlines()) == 1, p.stderr
        if p.returncode == 2:
            assert path.read_bytes() == data


@pytest.mark.parametrize("change,reason", [
    (lambda e: field(e, 8, "B", 16), "__pv_native record 1 is malformed"),
    (lambda e: field(e, 9, "B", 4), "malformed"),
    (lambda e: field(e, 10, "<H", 1), "malformed"),
    (lambda e: field(e, 0, "<i", 0x7fffffff), None),
    (lambda e: field(e, 4, "<i", 0x7fffffff), "code and tables disagree"),
    (lambda e: field(e, 4, "<i", 0), "code and tables disagree"),
    (lambda e: field(e, 8, "B", 15), "code and tables disagree"),
    (lambda e: field(e, 9, "B", 0), None),
], ids=["length", "flags", "zero", "function-wild", "code-wild", "code-in-data", "longer", "unchecked"])
def test_hostile_natives(built, etch_asan, change, reason):
    """The record of pv_ident_32, which is tiny besides: known by its code too."""
    b = built("pie", "gcc")
    t = Table(b.done)
    at = t.offset(t.sections["__pv_native"][0] + 12)
    data = bytearray(t.data)
    data[at:at + 12] = change(bytes(data[at:at + 12]))
    judge(etch_asan, b.flow.tmp / "native", bytes(data), reason)


def test_judge_notices(built):
    """The judge itself."""
    b = built("pie", "gcc")
    tool = b.flow.tmp / "tool"
    tool.write_text("#!/bin/sh\nexit 99\n")
    tool.chmod(0o755)
    with pytest.raises(pytest.fail.Exception):
        judge(tool, b.flow.tmp / "x", b.done.read_bytes(), None)
    tool.write_text("#!/bin/sh\nexit 0\n")
    with pytest.raises(AssertionError):
        judge(tool, b.flow.tmp / "x", b.done.read_bytes(), "malformed")
