# SPDX-License-Identifier: MIT
"""etch inspect code: what it shows is what objdump, readelf and pyelftools say of the same
file; the drawing is the jumps."""

import json
import os
import random
import re
import struct
from bisect import bisect_right
from pathlib import Path

import pytest
from elftools.elf.elffile import ELFFile

from conftest import DATA, ROOT, need, on_terminal, run
from inspect_files import BRANCH, CALL, FILES, SCHEMAS, SOURCE, document, frames, objdump
from inspect_files import made  # noqa: F401 (fixtures)

GOLDEN = DATA / "inspect"


# ---- code: instructions, jumps, operands --------------------------------------------------

@pytest.mark.parametrize("name", FILES)
def test_instructions(made, name):
    """Boundaries, bytes and direct targets are objdump's, of the file as it is now."""
    flow, files = made
    doc = document(flow.etch, "code", "work", files[name])
    end = int(doc["end"], 16)
    want = [i for i in objdump(files[name], "work") if i[0] < end]
    assert len(want) > 40
    assert [(int(i["address"], 16), i["bytes"]) for i in doc["code"]] == [w[:2] for w in want]
    assert all(i["length"] == len(i["bytes"]) // 2 for i in doc["code"])
    assert (doc["function"], doc["section"], doc["start"]) == ("work", ".text", f"{want[0][0]:x}")
    for i, (_, _, text) in zip(doc["code"], want):
        m = BRANCH.match(text) or (CALL.match(text) if name not in ("plain", "object") else None)
        if m:
            assert int(i["target"]["address"], 16) == int(m[1], 16), (i, text)
            assert i["flow"] == ("call" if "call" in text else "jump" if text.startswith("jmp") else "branch")
        if text.startswith("ret"):
            assert i["flow"] == "return"


def operands(text):
    """What both disassemblers write the same: registers and numbers but displacements' signs."""
    text = re.sub(r"<.*|#.*", "", text)
    return sorted(re.findall(r"\b(?:r[a-z0-9]{1,3}|e[a-z]{2}|[a-d][lhx]|xmm\d+)\b", text))


@pytest.mark.parametrize("syntax", ["att", "intel"])
def test_syntax(made, syntax):
    """The text is that syntax's: the same registers, in objdump's order."""
    flow, files = made
    doc = document(flow.etch, "code", "work", files["linked"])
    want = objdump(files["linked"], "work", f"-M{syntax}")
    tsv = run([flow.etch, "inspect", "code", "--format=tsv", f"--syntax={syntax}", "work", files["linked"]]).stdout
    head, *lines = [line.split("\t") for line in tsv.splitlines()]
    assert head[:10] == ["address", "length", "changed", "cfa", "bp", "ra", "kind", "source", "instruction", "site"]
    compared = 0
    for i, (_, _, text), cells in zip(doc["code"], want, lines):
        assert dict(zip(head, cells))["instruction"] == i[syntax]
        assert "nop" in i[syntax] or ("%" in i[syntax]) == (syntax == "att" and "%" in text)
        m = re.match(r"(mov|lea|add|sub|xor|cmp|test)[a-z]* ", text)
        if m:
            assert i[syntax].startswith(m[1]) and operands(i[syntax]) == operands(text), (i[syntax], text)
            order = [re.findall(r"\b(?:r[a-z0-9]+|e[a-z]{2})\b", t.split("#")[0].split(" ", 1)[1])[:1] for t in (i[syntax], text)]
            assert order[0] == order[1], (i[syntax], text)
            compared += 1
    assert compared > 15


def edges(instructions):
    """Jumps within a function, by objdump."""
    at = {i[0] for i in instructions}
    out = set()
    for a, _, text in instructions:
        m = BRANCH.match(text)
        if m and int(m[1], 16) in at:
            out.add((a, int(m[1], 16)))
    return out


@pytest.mark.parametrize("name", FILES)
def test_arrows_in_json(made, name):
    flow, files = made
    doc = document(flow.etch, "code", "work", files[name])
    got = {(int(i["address"], 16), int(i["target"]["address"], 16)) for i in doc["code"] if i["arrow"]}
    assert got == edges([i for i in objdump(files[name], "work") if i[0] < int(doc["end"], 16)]) and len(got) > 5


@pytest.mark.parametrize("name", ["linked", "object"])
def test_operands(made, name):
    """Calls and rip-relative operands are named as objdump names them: by symbols, and in
    object files by relocations."""
    flow, files = made
    doc = document(flow.etch, "code", "work", files[name])
    by = {int(i["address"], 16): i for i in doc["code"]}
    if name == "linked":
        seen = 0
        for a, _, text in objdump(files[name], "work"):
            m = CALL.match(text) or re.search(r"# ([0-9a-f]+) <([^>]+)>", text)
            if not m or a not in by:
                continue
            ref = by[a]["target"] if "call" in text and "#" not in text else by[a]["refers"]
            assert int(ref["address"], 16) == int(m[1], 16)
            if not m[2].startswith(("_", "completed", ".")) and "+0x" not in m[2]:
                assert ref["name"] == m[2], (ref, text)
                seen += 1
        assert seen >= 4
    else:
        relocs = re.findall(r"^\s+([0-9a-f]+): R_X86_64_(\w+)\t([^\s+-]+)", run(
            ["objdump", "-dr", "--disassemble=work", files[name]]).stdout, re.M)
        names = {}
        for at, _, symbol in relocs:
            if not int(doc["start"], 16) <= int(at, 16) < int(doc["end"], 16):
                continue
            owner = max(a for a in by if a <= int(at, 16))
            names[owner] = symbol
        calls = {a: s for a, s in names.items() if by[a]["flow"] == "call"}
        assert {"strcmp", "strlen", "snprintf", "puts"} <= set(calls.values())
        for a, symbol in calls.items():
            assert by[a]["target"]["name"] == symbol and by[a]["target"]["address"] is None
        assert any((by[a]["refers"] or {}).get("name", "").startswith("values") for a, s in names.items() if s == "values")
    strings = {i["refers"]["string"] for i in doc["code"] if i["refers"]}
    assert {"--skip", "%s and %d\\n"} <= strings


def test_jump_table(made):
    """The targets of the switch are what the table in the file says."""
    flow, files = made
    doc = document(flow.etch, "code", "work", files["linked"])
    (jump,) = [i for i in doc["code"] if i["flow"] == "jump indirect" and i["table"]]
    table = jump["table"]
    with open(files["linked"], "rb") as f:
        elf = ELFFile(f)
        at = int(table["address"], 16)
        (section,) = [s for s in elf.iter_sections() if s["sh_flags"] & 2 and s["sh_addr"] <= at < s["sh_addr"] + s["sh_size"]]
        raw = section.data()[at - section["sh_addr"]:][:4 * table["entries"]]
    want = [at + x for x in struct.unpack(f"<{table['entries']}i", raw)]
    assert table["entry_bytes"] == 4 and 5 <= table["entries"] <= 7
    assert [int(t, 16) for t in table["targets"]] == want
    back = {(int(i["address"], 16), e["entry"]) for i in doc["code"] for e in i["entry_of"]}
    assert back == {(t, n) for n, t in enumerate(want)}
    assert {e["jump"] for i in doc["code"] for e in i["entry_of"]} == {jump["address"]}
    text = run([flow.etch, "inspect", "code", "work", files["linked"]]).stdout
    assert f"; jump table at {table['address']}, {table['entries']} entries" in text
    assert f"of the jump at {jump['address']}" in text


@pytest.mark.parametrize("pic", ["-fPIE", "-fno-pic"])
def test_jump_table_of_an_object(made, tmp_path, pic):
    """Its relocations lead where the linked program's table does, for distances and for
    addresses alike."""
    flow, files = made
    obj = flow.compile(SOURCE, ["-O2", pic], out=f"table{pic}.o")
    exe = flow.link([obj], ["-pie" if pic == "-fPIE" else "-no-pie"], f"table{pic}")
    tables = []
    for path in (obj, exe):
        doc = document(flow.etch, "code", "work", path)
        (jump,) = [i for i in doc["code"] if i["table"]]
        start = int(doc["start"], 16)
        assert jump["table"]["section"] == (".rodata" if path == obj else None)
        entries = {(int(i["address"], 16) - start, e["entry"]) for i in doc["code"] for e in i["entry_of"]}
        tables.append((int(jump["address"], 16) - start, jump["table"]["entry_bytes"],
                       [int(t, 16) - start for t in jump["table"]["targets"]]))
        assert entries == {(t, n) for n, t in enumerate(tables[-1][2])} and len(entries) >= 5
    assert tables[0] == tables[1]


def test_sites_have_fields(made):
    """The site object says what the row of inspect sites says."""
    flow, files = made
    for name in FILES:
        rows = {r["address"]: r for r in document(flow.etch, "sites", files[name])["sites"] if r["function"].startswith("work")}
        sites = {i["address"]: i["site"] for i in document(flow.etch, "code", "work", files[name])["code"] if i["site"]}
        assert rows.keys() == sites.keys() and {s["kind"] for s in sites.values()} == {"load", "call"}
        for a, s in sites.items():
            r = rows[a]
            assert all(s[k] == r[k] for k in ("kind", "object", "offset", "size", "form", "state", "target"))
            assert s["live"] == (not r["live"].startswith("no: ")) and (s["why"] is None) == s["live"]


def test_source_lines(made):
    flow, files = made
    doc = document(flow.etch, "code", "work", files["linked"])
    decoded = run(["objdump", "-dl", "--disassemble=work", files["linked"]]).stdout
    want, now = {}, None
    for line in decoded.splitlines():
        m = re.match(r"^(/\S+):(\d+)", line)
        now = (m[1], int(m[2])) if m else now
        m = re.match(r"^ *([0-9a-f]+):\t", line)
        if m:
            want[m[1]] = now
    same = [want[i["address"]] == (i["file"], i["line"]) for i in doc["code"] if i["address"] in want and i["line"]]
    assert len(same) > 40 and sum(same) > 0.9 * len(same)
    assert {i["file"] for i in doc["code"] if i["file"]} >= {str(flow.tmp / "t.c")}


def test_places(made):
    """A function by its name, an address in it, or as findings name places."""
    flow, files = made
    doc = document(flow.etch, "code", "work", files["linked"])
    inside = doc["code"][5]["address"]
    off = int(inside, 16) - int(doc["start"], 16)
    with open(files["linked"], "rb") as f:
        text = ELFFile(f).get_section_by_name(".text")["sh_addr"]
    for spelled in (inside, f"0x{inside}", f"work+{off:#x}", f".text+{int(inside, 16) - text:#x}"):
        other = document(flow.etch, "code", spelled, files["linked"])
        assert other["start"] == doc["start"] and other["asked"] == inside
        assert other["code"][:40] == doc["code"][:40]
    for spelled in ("work+0x", "nothing+0x3", ".bss+0x1", "work+0xfffffffffffffff"):
        p = run([flow.etch, "inspect", "code", spelled, files["linked"]], ok=2)
        assert p.stdout == "" and len(p.stderr.splitlines()) == 1


# ---- code: what the stack state says, against .eh_frame -----------------------------------

REGISTERS = {3: "rbx", 6: "rbp", 12: "r12", 13: "r13", 14: "r14", 15: "r15"}


def stored_after(stored, i, cfa):
    """{register: offset from the CFA of a slot that holds it too} after instruction i: what is stored by one mov, in one basic block,
    until the register is named or memory that may be the slot is changed."""
    if i["flow"] != "next" or cfa.reg != 7:
        return {}
    m = re.fullmatch(r"mov[bwlq] (\S+), (-?\w*)\(%rsp\)", i["att"])
    if m:
        slot = int(m[2] or "0", 0) - cfa.offset
        kept = {name: at for name, at in stored.items() if abs(at - slot) >= 8}
        return kept | {m[1][1:]: slot} if i["att"].startswith("movq %") else kept
    if i["att"].endswith(")"):
        return {}
    return {name: at for name, at in stored.items() if not re.search(rf"%[er]?{name[1:]}|%{name[1]}[lh]", i["att"])}


@pytest.mark.parametrize("path", ["/usr/bin/ls", "/lib/x86_64-linux-gnu/libz.so.1",
                                  pytest.param("/usr/bin/xz", marks=pytest.mark.long)])
def test_saved_registers(etch, path):
    """Where .eh_frame says that a register is saved, the code's state has it; it may know
    besides that it has been popped or loaded again, which .eh_frame need not say. Nor need .eh_frame say that a register is saved before
    it is changed: gcc 16 stores some one by one and says so later. Then the store is found in front, in the same basic block."""
    if not Path(path).exists():
        pytest.skip(f"no {path} here")
    rng = random.Random(path)
    some = [f for f in frames(path) if f[1] - f[0] > 100 and len(f[2]) > 6]
    exact = popped = cfas = 0
    for start, end, table in rng.sample(some, 6):
        popped_here, stored_here = set(), {}
        pcs = [pc for pc, _ in table]
        for i in document(etch, "code", f"{start:x}", path)["code"]:
            at = int(i["address"], 16)
            if not start <= at < end or not i["state"]:
                continue
            row = table[bisect_right(pcs, at) - 1][1]
            cfa = row["cfa"]
            if cfa.reg in (6, 7) and i["state"]["cfa"] != "undef":
                cfas += 1
                # From one and the same place: rbp where .eh_frame still counts from rsp, or the reverse.
                if i["state"]["cfa"].startswith("rsp") == (cfa.reg == 7):
                    assert i["state"]["cfa"] == f"{'rbp' if cfa.reg == 6 else 'rsp'}{cfa.offset:+d}", (hex(at), i)
            for number, name in REGISTERS.items():
                rule = row.get(number)
                have = i["state"]["saved"][name]
                if rule is None or rule.type in ("SAME_VALUE", "UNDEFINED"):
                    assert have == "same" or name in popped_here or name in stored_here and have == f"cfa{stored_here[name]:+d}", (hex(at), name, have)
                elif rule.type == "OFFSET" and have != "same":
                    assert have == f"cfa{rule.arg:+d}", (hex(at), name, have, rule.arg)
                    exact += 1
                elif rule.type == "OFFSET":
                    assert name in popped_here, (hex(at), name)
                    popped += 1
            stored_here = stored_after(stored_here, i, cfa)
            m = re.match(r"popq? %(\w+)|leave", i["att"])
            if m:
                popped_here.add(m[1] or "rbp")
            m = re.fullmatch(r"movq (-?\w*)\(%rsp\), %(\w+)", i["att"])
            if m and cfa.reg == 7 and i["state"]["saved"].get(m[2]) == f"cfa{int(m[1] or '0', 0) - cfa.offset:+d}":
                popped_here.add(m[2])
    assert exact > 500 and exact > 5 * popped and cfas > 300


UNWIND = r"""
extern "C" int may_throw(int), handled(int);
struct guard { ~guard(); };
extern "C" int caught(int n)
{
	guard g;
	try {
		return may_throw(n);
	} catch (int) {
		return handled(n);
	}
}
"""


@pytest.mark.parametrize("compiler", ["g++", "clang++"])
def test_landing_pads(etch, tmp_path, compiler):
    """What may_throw throws lands where __cxa_begin_catch is called from; what handled throws
    lands elsewhere, in the way out."""
    need(compiler)
    (tmp_path / "u.cc").write_text(UNWIND)
    run([compiler, "-O0", "-c", "-o", tmp_path / "u.o", tmp_path / "u.cc"])
    code = document(etch, "code", "caught", tmp_path / "u.o")["code"]
    at = {i["address"]: n for n, i in enumerate(code)}
    calls = {i["target"]["name"]: i for i in code if i["flow"] == "call"}
    pads = {name: calls[name]["landing_pad"] for name in ("may_throw", "handled")}
    assert None not in pads.values() and pads["may_throw"] != pads["handled"]
    for name, pad in pads.items():
        ranges = code[at[pad]]["landing_pad_of"]
        assert any(int(r["start"], 16) <= int(calls[name]["address"], 16) < int(r["end"], 16) for r in ranges)
    begin = at[calls["__cxa_begin_catch"]["address"]]
    assert at[pads["may_throw"]] < begin
    assert calls["_Unwind_Resume"]["comes_back"] is False and calls["may_throw"]["comes_back"] is True
    # Both pads begin in the frame of the calls that throw.
    for name, pad in pads.items():
        assert code[at[pad]]["cfa"] == calls[name]["cfa"]
    text = run([etch, "inspect", "code", "caught", tmp_path / "u.o"]).stdout
    assert f"throws to caught+0x{int(pads['may_throw'], 16) - int(code[0]['address'], 16):x}" in text
    assert "landing pad of" in text and "does not return" in text


# ---- code: the drawing --------------------------------------------------------------------

def shown(argv, **how):
    """What a command that succeeds writes to a terminal."""
    status, text = on_terminal(argv, **how)
    assert status == 0
    return text


def bundles(text):
    """The rows that each vertical line of the drawing joins, read off the picture alone:
    [(frozenset of addresses, the one with the head)]."""
    rows = []
    for line in text.splitlines():
        m = re.match(r"^ +([0-9a-f]+)  \S+ +(?:both|code|cfi|plt|-) +(.*)$", line)
        if m:
            rows.append((int(m[1], 16), line))
    begin = min(line.index(m[0]) for _, line in rows if (m := re.search(r"[╭╰├┬┴┼─]", line)))
    width = max(line.rindex("─" if "─" in line else ">") for _, line in rows if re.search(r"[─>]", line)) + 1
    found, open_ = [], {}
    for address, line in rows:
        for column in range(begin, min(width, len(line))):
            c = line[column]
            if c in "╭┬":
                assert column not in open_
                open_[column] = [address]
            elif c in "├┼":
                open_[column].append(address)
            elif c in "╰┴":
                found.append(frozenset(open_.pop(column) + [address]))
            elif c == "│":
                assert column in open_
            else:
                assert column not in open_, (hex(address), line)
    assert not open_
    return found


def check_drawing(etch, path, place, code):
    """Read back from the picture, the lines join what objdump says is joined; jumps that
    found no lane are marked. Returns how many of them there are."""
    groups = {}
    for a, b in edges(code):
        groups.setdefault(b, set()).update({a, b})
    want = {frozenset(g) for g in groups.values() if len(g) > 1}
    text = shown([etch, "inspect", "code", place, path], NO_COLOR="1")
    got = bundles(text)
    assert len(set(got)) == len(got) and set(got) <= want and len(got) > 5
    heads = {int(m[1], 16) for m in re.finditer(r"^ +([0-9a-f]+) .*?[─╰├╭┬┴┼│]> ", text, re.M)}
    lines = {line.split()[0]: line for line in text.splitlines() if line.strip()}
    for b, g in groups.items():
        if frozenset(g) in got:
            assert b in heads
        else:
            assert all(re.search(r"[v^─>] \w", lines[f"{a:x}"]) for a in g - {b})
    return len(want - set(got))


def test_drawing(made):
    flow, files = made
    assert check_drawing(flow.etch, files["linked"], "work", objdump(files["linked"], "work")) == 0


def test_drawing_of_much(etch):
    """A function with more jumps than there are lanes."""
    path = "/usr/bin/ls"
    start, end, _ = max((f for f in frames(path) if f[1] - f[0] < 9000), key=lambda f: f[1] - f[0])
    text = run(["objdump", "-dw", f"--start-address={start}", f"--stop-address={end}", path]).stdout
    code = [(int(m[1], 16), "", m[2]) for m in re.finditer(r"^ *([0-9a-f]+):\t(?:[0-9a-f]{2} )+ *\t(.*)$", text, re.M)]
    assert check_drawing(etch, path, f"{start:x}", code) > 0


def test_ascii_where_no_terminal_is(made):
    """A pipe gets the same lines in ASCII, whole and without colours."""
    flow, files = made
    piped = run([flow.etch, "inspect", "code", "work", files["linked"]], env=os.environ | {"LANG": "C.UTF-8"}).stdout
    assert piped.isascii() and "\033" not in piped
    plain = shown([flow.etch, "inspect", "code", "work", files["linked"]], NO_COLOR="1", LANG="C")
    assert plain == piped
    drawn = shown([flow.etch, "inspect", "code", "work", files["linked"]], NO_COLOR="1")
    shape = str.maketrans("│─╭╰├┬┴┼", "|-/\\++++")
    assert drawn != piped and drawn.translate(shape) == piped


def test_terminal(made):
    flow, files = made
    argv = [flow.etch, "inspect", "code", "work", files["linked"]]
    colours, plain = shown(argv), shown(argv, NO_COLOR="1")
    assert "\033[" in colours and re.sub(r"\033\[[0-9;]*m", "", colours) == plain
    assert "\033" not in shown(argv, TERM="dumb")
    narrow = shown(argv, columns=50, NO_COLOR="1").splitlines()[1:]
    assert max(len(line) for line in narrow) == 50, narrow
    assert max(len(line) for line in plain.splitlines()) > 80


@pytest.mark.parametrize("golden,args", [("view", ["code", "view"]), ("leave", ["code", "--syntax", "intel", "--bytes", "leave"]),
                                         ("summary", ["summary"])], ids=lambda x: x if isinstance(x, str) else "")
def test_golden(etch, tmp_path, golden, args):
    need("as")
    run(["as", "-o", tmp_path / "view.o", GOLDEN / "view.s"])
    assert run([etch.resolve(), "inspect", *args, "view.o"], cwd=tmp_path).stdout == (GOLDEN / f"{golden}.txt").read_text()


def test_guide():
    """The function that docs/inspect.md reads is the one above; its schemas are all that there are."""
    guide = (ROOT / "docs" / "inspect.md").read_text()
    assert (GOLDEN / "view.txt").read_text() in guide
    assert {p.name for p in SCHEMAS.glob("inspect-*.json")} == set(re.findall(r"schemas/(inspect-\w+\.json)", guide))
    code = json.loads((SCHEMAS / "inspect-code.json").read_text())["properties"]["code"]["items"]["properties"]
    for name, member in code.items():
        assert "description" in member, name
