# SPDX-License-Identifier: MIT
"""etch inspect summary and code: what they show is what objdump, readelf and pyelftools say
of the same file; the drawing is the jumps; JSON is of its schema and has what people see."""

import fcntl
import json
import os
import pty
import random
import re
import shutil
import struct
import subprocess
import termios
from bisect import bisect_right
from functools import cache
from pathlib import Path

import jsonschema
import pytest
from elftools.dwarf.callframe import FDE
from elftools.elf.elffile import ELFFile

from conftest import ROOT, TESTS, Flow, asan_env, need, run

SCHEMAS = ROOT / "docs" / "schemas"
GOLDEN = TESTS / "inspect"

SOURCE = r"""
#include <etch/imv.h>
#include <etch/pv.h>
#include <stdio.h>
#include <string.h>
DEFINE_IMV(int, level) = 3;
struct ops { int (*get)(int); };
static int plain(int n) { return n + 1; }
DEFINE_PV_OPS(struct ops, ops) = { .get = plain };
int values[16];
__attribute__((noinline)) int work(int n, char **names)
{
	char buffer[64];
	int i, sum = imv_read(level);

	for (i = 0; i < n; i++) {
		if (names[i][0] == '-' && strcmp(names[i], "--skip") == 0)
			continue;
		switch (n - i) {
		case 0: sum += values[3]; break;
		case 1: sum -= (int)strlen(names[i]); break;
		case 2: sum ^= snprintf(buffer, sizeof buffer, "%s and %d\n", names[i], sum); break;
		case 3: puts(names[i]); break;
		case 4: sum *= 3; break;
		case 5: sum += pv_call(ops, get, sum); break;
		default: values[i & 15] = sum;
		}
		if (sum > 4000)
			return i;
	}
	return sum + (buffer[0] == 'x');
}
int main(int argc, char **argv) { return work(argc, argv) == 77; }
"""


def schema(view):
    s = json.loads((SCHEMAS / f"inspect-{view}.json").read_text())
    jsonschema.Draft202012Validator.check_schema(s)
    return jsonschema.Draft202012Validator(s)


def document(etch, view, *args):
    """A document of `etch inspect VIEW --json`, of its schema."""
    doc = json.loads(run([etch, "inspect", view, "--json", *args]).stdout)
    schema(view).validate(doc)
    return doc


@pytest.fixture(scope="module", params=["gcc", "clang"])
def made(request, tmp_path_factory, build):
    """(flow, files by what has been done to them)"""
    flow = Flow(tmp_path_factory.mktemp("views"), build, request.param)
    obj = flow.compile(SOURCE, ["-O2", "-fPIE", "-g"])
    files = {"plain": flow.tmp / "plain.o", "object": obj}
    files["plain"].write_bytes(obj.read_bytes())
    flow.rewrite(obj)
    files["linked"] = flow.link([obj], ["-pie"], "linked")
    files["done"] = flow.tmp / "done"
    flow.rewrite(files["linked"], args=["-o", files["done"]])
    return flow, files


FILES = ["plain", "object", "linked", "done"]


def objdump(path, name, *args):
    """[(address, bytes, text)] of a function; relocations are left out."""
    out = []
    text = run(["objdump", "-d", "-w", f"--disassemble={name}", *args, path]).stdout
    for line in text.splitlines():
        m = re.match(r"^ *([0-9a-f]+):\t((?:[0-9a-f]{2} )+) *\t(.*)$", line)
        if m:
            out.append((int(m[1], 16), m[2].replace(" ", ""), m[3]))
    return out


BRANCH = re.compile(r"^(?:bnd |notrack )?(?:j[a-z]+|loop[a-z]*|j[er]?cxz)(?:,p[nt])? +([0-9a-f]+) <")
CALL = re.compile(r"^(?:bnd )?call +([0-9a-f]+) <([^>]+)>")


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
            assert s["live"] == (r["live"] == "yes") and (s["why"] is None) == s["live"]


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


@cache
def frames(path):
    """[(start, end, [(pc, row)])] of .eh_frame, by pyelftools."""
    with open(path, "rb") as f:
        dwarf = ELFFile(f).get_dwarf_info(relocate_dwarf_sections=False)
        out = []
        for entry in dwarf.EH_CFI_entries():
            if isinstance(entry, FDE) and entry["address_range"]:
                table = entry.get_decoded().table
                out.append((entry["initial_location"], entry["initial_location"] + entry["address_range"],
                            [(r["pc"], r) for r in table]))
    return sorted(out, key=lambda x: x[0])


@pytest.mark.parametrize("path", ["/usr/bin/ls", "/lib/x86_64-linux-gnu/libz.so.1", "/usr/bin/xz"])
def test_saved_registers(etch, path):
    """Where .eh_frame says that a register is saved, the code's state has it; it may know
    besides that it has been popped again, which .eh_frame need not say."""
    if not Path(path).exists():
        pytest.skip(f"no {path} here")
    rng = random.Random(path)
    some = [f for f in frames(path) if f[1] - f[0] > 100 and len(f[2]) > 6]
    exact = popped = cfas = 0
    for start, end, table in rng.sample(some, 6):
        popped_here = set()
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
                    assert have == "same" or name in popped_here, (hex(at), name, have)
                elif rule.type == "OFFSET" and have != "same":
                    assert have == f"cfa{rule.arg:+d}", (hex(at), name, have, rule.arg)
                    exact += 1
                elif rule.type == "OFFSET":
                    assert name in popped_here, (hex(at), name)
                    popped += 1
            m = re.match(r"popq? %(\w+)|leave", i["att"])
            if m:
                popped_here.add(m[1] or "rbp")
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
    assert "landing pad of" in text and "does not come back" in text


# ---- code: the drawing --------------------------------------------------------------------


def on_terminal(argv, columns=200, **env):
    """What argv writes to a terminal of that width."""
    main, side = pty.openpty()
    fcntl.ioctl(side, termios.TIOCSWINSZ, struct.pack("HHHH", 50, columns, 0, 0))
    environment = {k: v for k, v in os.environ.items() if k not in ("NO_COLOR", "LC_ALL", "LC_CTYPE")}
    p = subprocess.Popen([str(a) for a in argv], stdout=side, stdin=subprocess.DEVNULL,
                         env=environment | {"TERM": "xterm", "LANG": "C.UTF-8"} | env)
    os.close(side)
    out = b""
    while True:
        try:
            got = os.read(main, 65536)
        except OSError:
            break
        if not got:
            break
        out += got
    os.close(main)
    assert p.wait(60) == 0
    return out.decode().replace("\r\n", "\n")


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
    text = on_terminal([etch, "inspect", "code", place, path], NO_COLOR="1")
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
    plain = on_terminal([flow.etch, "inspect", "code", "work", files["linked"]], NO_COLOR="1", LANG="C")
    assert plain == piped
    drawn = on_terminal([flow.etch, "inspect", "code", "work", files["linked"]], NO_COLOR="1")
    shape = str.maketrans("│─╭╰├┬┴┼", "|-/\\++++")
    assert drawn != piped and drawn.translate(shape) == piped


def test_terminal(made):
    flow, files = made
    argv = [flow.etch, "inspect", "code", "work", files["linked"]]
    colours, plain = on_terminal(argv), on_terminal(argv, NO_COLOR="1")
    assert "\033[" in colours and re.sub(r"\033\[[0-9;]*m", "", colours) == plain
    assert "\033" not in on_terminal(argv, TERM="dumb")
    narrow = on_terminal(argv, columns=50, NO_COLOR="1").splitlines()[1:]
    assert max(len(line) for line in narrow) == 50
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
    for member in code:
        assert f"`{member}`" in guide, member


# ---- summary --------------------------------------------------------------------------------


def check_summary_facts(etch, path):
    """Build-id, hardening and sizes are readelf's."""
    doc = document(etch, "summary", path)
    notes = run(["readelf", "-nW", path]).stdout
    m = re.search(r"Build ID: ([0-9a-f]+)", notes)
    assert doc["build_id"] == (m[1] if m else None)
    assert doc["hardening"]["ibt"] == bool(re.search(r"x86 feature: .*IBT", notes))
    assert doc["hardening"]["shstk"] == bool(re.search(r"x86 feature: .*SHSTK", notes))
    with open(path, "rb") as f:
        elf = ELFFile(f)
        sections = {}
        for s in elf.iter_sections():
            sections[s.name] = sections.get(s.name, 0) + s["sh_size"]
        code = [s for s in elf.iter_sections() if s["sh_flags"] & 4 and s["sh_size"]]
        assert doc["code"]["bytes"] == sum(s["sh_size"] for s in code) and doc["code"]["sections"] == len(code)
        assert doc["symbols"] == (".symtab" in sections) and doc["dwarf"] == (".debug_info" in sections)
        for name, size in doc["sizes"].items():
            assert size == sections[name] > 0
        assert {n for n in (".eh_frame", ".eh_frame_hdr", ".gcc_except_table") if sections.get(n)} <= doc["sizes"].keys()
        if elf.num_segments():
            headers = run(["readelf", "-lW", path]).stdout
            dynamic = run(["readelf", "-dW", path]).stdout
            relro = "GNU_RELRO" in headers
            now = re.search(r"BIND_NOW|Flags:.* NOW", dynamic)
            assert doc["hardening"]["relro"] == ("none" if not relro else "full" if now else "partial")
            assert doc["hardening"]["pie"] == bool(re.search(r"Flags:.*\bPIE\b", dynamic))
            m = re.search(r"GNU_STACK +(?:0x[0-9a-f]+ +){5}(\S+)", headers)
            assert doc["hardening"]["stack"] == ("executable" if "E" in m[1] else "not executable")
            assert doc["static"] is False


@pytest.mark.parametrize("path", ["/usr/bin/ls", "/lib/x86_64-linux-gnu/libc.so.6"])
def test_summary_facts(etch, path):
    check_summary_facts(etch, path)


@pytest.mark.parametrize("name", ["linked", "done", "object"])
def test_summary_facts_of_made(made, name):
    flow, files = made
    check_summary_facts(flow.etch, files[name])


def check_summary_coverage(etch, path):
    """The bytes by source are those of the rows that inspect orc makes, and all of the text."""
    doc = document(etch, "summary", path)
    cover = doc["code"]["coverage"]
    assert sum(cover.values()) == doc["code"]["bytes"]
    if doc["unwind"] is None:
        with open(path, "rb") as f:
            elf = ELFFile(f)
            # Rows of a linked file go on between sections, where there is no code.
            code = [(s["sh_addr"], s["sh_addr"] + s["sh_size"], s.name) for s in elf.iter_sections() if s["sh_flags"] & 4]
            linked = elf["e_type"] != "ET_REL"
        want = dict.fromkeys(cover, 0)
        lines = run([etch, "inspect", "orc", "--format", "tsv", path]).stdout.splitlines()
        head = lines[0].split("\t")
        for line in lines[1:]:
            r = dict(zip(head, line.split("\t")))
            a, n = int(r["address"], 16), int(r["size"], 16)
            if linked:
                n = sum(max(0, min(a + n, hi) - max(a, lo)) for lo, hi, _ in code)
            if r["kind"] != "undef":
                want[r["source"]] += n
        want["undefined"] = doc["code"]["bytes"] - sum(want.values())
        assert cover == want
    tsv = dict(line.split("\t") for line in run([etch, "inspect", "--format", "tsv", path]).stdout.splitlines())
    assert {k: int(tsv[f"coverage: {k}"]) for k in cover} == cover
    assert int(tsv["functions"]) == doc["code"]["functions"] and tsv["build_id"] == (doc["build_id"] or "-")


@pytest.mark.parametrize("path", ["/usr/bin/ls"])
def test_summary_coverage(etch, path):
    check_summary_coverage(etch, path)


@pytest.mark.parametrize("name", ["plain", "linked", "done"])
def test_summary_coverage_of_made(made, name):
    flow, files = made
    check_summary_coverage(flow.etch, files[name])


def check_summary_findings(etch, path):
    """The count is what etch check tells, note for note."""
    found = document(etch, "summary", path)["findings"]
    check = json.loads(run([etch, "check", "--format", "json", "--fail-on", "never", path]).stdout)
    told = [f for file in check["files"] for f in file["findings"]]
    ids = {}
    for f in told:
        ids[f["id"]] = ids.get(f["id"], 0) + 1
    assert {i["id"]: i["count"] for i in found["ids"]} == ids
    for severity in ("note", "warning", "error"):
        assert found[severity] == sum(i["count"] for i in found["ids"] if i["severity"] == severity)
    text = run([etch, "inspect", path]).stdout
    assert re.search(rf"findings: {found['error']} errors?, {found['warning']} warnings?, {found['note']} notes?", text)
    for i in found["ids"]:
        assert re.search(rf"^ +{i['count']}  {i['severity']} +{i['id']}  {re.escape(i['title'])}$", text, re.M)


@pytest.mark.parametrize("path", ["/lib/x86_64-linux-gnu/libc.so.6"])
def test_summary_findings(etch, path):
    check_summary_findings(etch, path)


@pytest.mark.parametrize("name", ["done"])
def test_summary_findings_of_made(made, name):
    flow, files = made
    check_summary_findings(flow.etch, files[name])


def test_summary_without_tables(made):
    """A program that has etched objects but was linked without libetch: what inspect sites lists."""
    flow, _ = made
    (flow.tmp / "bare.c").write_text(
        '__attribute__((section("etched"), used, aligned(4096))) volatile int flag = 3;\nint main(void) { return flag; }\n')
    run([flow.cc, "-O2", "-o", flow.tmp / "bare", flow.tmp / "bare.c"])
    doc = document(flow.etch, "summary", flow.tmp / "bare")
    sites = document(flow.etch, "sites", flow.tmp / "bare")["sites"]
    assert doc["loads"] == len(sites) == 1 and [o["object"] for o in doc["objects"]] == ["flag"]
    assert doc["objects"][0]["live"] == doc["live"] == sum(s["live"] == "yes" for s in sites)


def test_summary_for_people_is_in_json(made):
    """Every number of the text is one of the document's, or a share of two of them."""
    flow, files = made
    doc = document(flow.etch, "summary", files["done"])
    numbers = set()

    def collect(x):
        if isinstance(x, dict):
            for v in x.values():
                collect(v)
        elif isinstance(x, list):
            for v in x:
                collect(v)
        elif isinstance(x, int) and not isinstance(x, bool):
            numbers.add(x)
    collect(doc)
    text = run([flow.etch, "inspect", files["done"]]).stdout
    text = text.replace(doc["build_id"], "").split("\n", 1)[1]
    shown = re.sub(r"[\d.]+%|\d+\.\d+ a row|ETCH-\w+", "", text)
    for n in re.findall(r"(?<![\w.])\d+(?![\w.])", shown):
        assert int(n) in numbers, (n, shown)


# ---- documents ------------------------------------------------------------------------------


@pytest.mark.parametrize("name", FILES)
def test_schemas(made, name):
    flow, files = made
    for view in ("summary", "sites", "orc"):
        doc = document(flow.etch, view, files[name])
        assert (doc["format"], doc["version"], doc["file"]) == (f"etch-inspect-{view}", 1, str(files[name]))
    if name in ("linked", "done"):
        document(flow.etch, "tables", files[name])


def test_schema_can_fail(made):
    """The schemas are closed: a member that they do not name is no member."""
    flow, files = made
    for view, args in (("summary", []), ("sites", []), ("tables", []), ("code", ["work"])):
        doc = document(flow.etch, view, *args, files["done"])
        with pytest.raises(jsonschema.ValidationError):
            schema(view).validate(doc | {"more": 1})
        doc.pop("file")
        with pytest.raises(jsonschema.ValidationError):
            schema(view).validate(doc)


@pytest.mark.parametrize("view", ["summary", "sites", "orc", "tables"])
def test_several_files(made, tmp_path, view):
    """One document a command: an array; what could not be used is not in it."""
    flow, files = made
    odd = tmp_path / "a \"name\"\nof two lines"
    shutil.copy(files["done"], odd)
    p = run([flow.etch, "inspect", view, "--json", files["linked"], tmp_path / "none", odd], ok=2)
    docs = json.loads(p.stdout)
    assert [d["file"] for d in docs] == [str(files["linked"]), str(odd)]
    for d in docs:
        schema(view).validate(d)
    assert len(p.stderr.splitlines()) == 1 and "none" in p.stderr
    p = run([flow.etch, "inspect", view, "--json", tmp_path / "none", tmp_path / "neither"], ok=2)
    assert json.loads(p.stdout) == [] and len(p.stderr.splitlines()) == 2
    text = run([flow.etch, "inspect", view, odd]).stdout
    assert "\nof two lines" not in text


@pytest.mark.parametrize("thin", [False, True])
def test_members_of_archives(made, tmp_path, thin):
    """libx.a(plain.o) is what plain.o is, but for its name."""
    flow, files = made
    run(["ar", "rcsT" if thin else "rcs", tmp_path / "libx.a", files["object"], files["plain"]])
    named = f"{tmp_path}/libx.a({run(['ar', 't', tmp_path / 'libx.a']).stdout.splitlines()[1]})"
    for args in (["summary"], ["sites"], ["orc"], ["code", "work"]):
        doc = document(flow.etch, args[0], *args[1:], named)
        assert doc.pop("file") == named
        other = document(flow.etch, args[0], *args[1:], files["plain"])
        other.pop("file")
        assert doc == other
    for bad in ("libx.a(none.o)", "none.a(plain.o)", "libx.a()", "libx.a(plain.o", "(plain.o)"):
        p = run([flow.etch, "inspect", tmp_path / bad], ok=2)
        assert p.stdout == "" and len(p.stderr.splitlines()) == 1 and bad in p.stderr
    odd = tmp_path / "not(an.archive)"
    shutil.copy(files["plain"], odd)
    assert document(flow.etch, "summary", odd)["file"] == str(odd)


def test_names_that_are_no_names(etch, tmp_path):
    """Escapes and line ends in names of functions, objects and sections stay out of the output."""
    (tmp_path / "t.c").write_text("#include <etch/imv.h>\nETCHED int level;\nint work(int n) { return n + level; }\n")
    run(["gcc", "-O2", "-g", f"-I{ROOT / 'lib/include'}", "-c", "-o", tmp_path / "t.o", tmp_path / "t.c"])
    bad = "\x1b[31m\t\n"
    run(["objcopy", f"--redefine-sym=level=l{bad}", f"--redefine-sym=work=w{bad}", f"--rename-section=.text=.t{bad}",
         tmp_path / "t.o", tmp_path / "bad.o"])
    for args in (["summary"], ["sites"], ["orc"], ["code", "0"], ["tables"]):
        for how in ("text", "tsv", "json"):
            if args == ["tables"] or (args, how) == (["summary"], "tsv"):
                continue
            good, odd = (run([etch, "inspect", args[0], "--format", how, *args[1:], tmp_path / name], text=False).stdout
                         for name in ("t.o", "bad.o"))
            assert b"\x1b" not in odd and odd.count(b"\n") == good.count(b"\n") and odd.count(b"\t") == good.count(b"\t"), (args, how)


def test_several_of_a_name(etch, tmp_path):
    """Of functions that share a name one is shown, and where the others are is said."""
    for name in "ab":
        (tmp_path / f"{name}.c").write_text(
            f"static __attribute__((noinline)) int same(int n) {{ return n * {ord(name)}; }}\n"
            f"int {name}(int n) {{ return same(n) + same(n + 1); }}\n" + ("int main(int c, char **v) { (void)v; return c; }\n" if name == "a" else ""))
    run(["gcc", "-O1", "-o", tmp_path / "t", tmp_path / "a.c", tmp_path / "b.c"])
    places = {int(line.split()[0], 16) for line in run(["nm", tmp_path / "t"]).stdout.splitlines() if line.endswith(" same")}
    assert len(places) == 2
    head = run([etch, "inspect", "code", "same", tmp_path / "t"]).stdout.splitlines()[0]
    shown, others = re.search(r"; ([0-9a-f]+)\.\..*; others of this name: ([0-9a-f]+)$", head).groups()
    assert {int(shown, 16), int(others, 16)} == places
    assert "others" not in run([etch, "inspect", "code", "main", tmp_path / "t"]).stdout.splitlines()[0]
    run([etch, "inspect", "code", others, tmp_path / "t"])
    assert "no function" in run([etch, "inspect", "code", "f" * 20, tmp_path / "t"], ok=2).stderr


@pytest.mark.parametrize("args", [["summary", "--bytes"], ["sites", "--syntax", "att"], ["code", "--syntax", "masm", "work"],
                                  ["orc", "-j", "0"], ["orc", "-j", "1x"]], ids=" ".join)
def test_options(made, args):
    flow, files = made
    p = run([flow.etch, "inspect", *args, files["done"]], ok=2)
    assert p.stdout == "" and len(p.stderr.splitlines()) == 1


def test_threads(etch):
    """The same for any number of threads."""
    path = "/usr/bin/ls"
    start = frames(path)[100][0]
    for args in (["summary", "--json"], ["code", "--json", f"{start:x}"], ["orc", "--format", "tsv"]):
        assert len({run([etch, "inspect", *args, "-j", n, path]).stdout for n in "13"}) == 1


def test_mutants(made, etch_asan, tmp_path):
    """What is malformed is refused or shown, never trusted."""
    flow, files = made
    rng = random.Random(6)
    for n in range(14):
        data = bytearray(files["object" if n % 2 else "done"].read_bytes())
        with open(files["object" if n % 2 else "done"], "rb") as f:
            elf = ELFFile(f)
            spots = [s for s in elf.iter_sections() if s["sh_type"] not in ("SHT_NOBITS", "SHT_NULL") and s["sh_size"] and
                     not s.name.startswith(".debug")]
            for _ in range(rng.choice([1, 4, 30])):
                s = rng.choice(spots)
                data[s["sh_offset"] + rng.randrange(s["sh_size"])] = rng.randrange(256)
        bad = tmp_path / f"bad{n}"
        bad.write_bytes(data)
        for args in (["code", "--json", "work"], ["summary", "--json"]):
            p = run([etch_asan, "inspect", *args, bad], ok=(0, 2), env=asan_env())
            if p.returncode == 0:
                schema(args[0]).validate(json.loads(p.stdout))
            else:
                assert p.stdout == "" and len(p.stderr.splitlines()) == 1
