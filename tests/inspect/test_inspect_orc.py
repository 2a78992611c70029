# SPDX-License-Identifier: MIT
"""etch inspect orc, code and the unwind part of summary: what is printed is what is in
the table, in every format, and agrees with readelf and objdump where those say it."""
import json
import re
import struct

import pytest
from elftools.elf.elffile import ELFFile

from conftest import Flow, need, run

HEADER = ["address", "size", "cfa", "bp", "ra", "kind", "source"]
REG = r"r(?:[abcd]x|[sd]i|[sb]p|[89]|1[0-5])"
CFA = re.compile(rf"^(?:{REG}[+-]\d+|\*\({REG}[+-]\d+\)[+-]\d+|undef)$")
BP = re.compile(rf"^(?:same|undef|cfa-\d+|\*\({REG}[+-]\d+\))$")
RA = re.compile(rf"^(?:cfa-8|undef|{REG}|\*\(rsp[+-]\d+\))$")

SOURCE = """
#include <etch/imv.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
DEFINE_IMV(int, level) = 3;
int work(int n);
__attribute__((noinline)) static int leaf(int n) { return n * 3 + imv_read(level); }
__attribute__((noinline)) static int array(int n) { char b[n + 1]; memset(b, n, n + 1); return b[n / 2] + leaf(n); }
__attribute__((noinline)) static int sixteen(int n)
{
	_Alignas(64) char b[64];
	memset(b, n, sizeof b);
	return b[n & 63] + array(n);
}
int work(int n)
{
	switch (n % 7) {
	case 0: return leaf(n);
	case 1: return array(n) + 1;
	case 2: return sixteen(n) * 2;
	case 3: return leaf(n) ^ array(n);
	case 4: return printf("four\\n") + leaf(n);
	default: return n;
	}
}
int main(int argc, char **argv)
{
	int n = 0;
	for (int i = 0; i < 50 + argc; i++)
		n += work(i);
	printf("%d %d\\n", n, (int)strlen(argv[0]) > 0);
	return 0;
}
"""


def rows(etch, *args):
    lines = run([etch, "inspect", "orc", "--format", "tsv", *args]).stdout.splitlines()
    head = lines[0].split("\t")
    out = []
    for line in lines[1:]:
        row = dict(zip(head, line.split("\t"), strict=True))
        row["address"], row["size"] = int(row["address"], 16), int(row["size"], 16)
        out.append(row)
    return head, out


def symbol(path, name):
    """(address, size) of a function."""
    with open(path, "rb") as f:
        for s in ELFFile(f).get_section_by_name(".symtab").iter_symbols():
            if s.name == name:
                return s["st_value"], s["st_size"]
    raise KeyError(name)


@pytest.fixture(scope="module", params=["gcc", "clang"])
def made(request, tmp_path_factory, build):
    """(flow, files by what has been done to them)"""
    flow = Flow(tmp_path_factory.mktemp("orc"), build, request.param)
    obj = flow.compile(SOURCE, ["-O2", "-fPIE", "-g"])
    files = {"plain object": flow.tmp / "plain.o", "object": obj}
    files["plain object"].write_bytes(obj.read_bytes())
    flow.rewrite(obj)
    files["plain"] = flow.link([files["plain object"]], ["-pie"], "plain")
    for name, args in (("block", []), ("orc", ["--encoding", "orc"]), ("nomap", ["--unwind-map", "none"]),
                       ("128", ["--unwind-map=128"])):
        files[name] = flow.tmp / name
        flow.rewrite(files["plain"], args=["-o", files[name], "--no-undo", *args])
    return flow, files


LINKED = ["plain", "block", "orc", "nomap", "128"]


@pytest.mark.parametrize("name", LINKED)
def test_tsv(made, name):
    flow, files = made
    head, table = rows(flow.etch, files[name])
    assert head == HEADER + ["function"]
    assert len(table) > 30
    for row, following in zip(table, table[1:]):
        assert row["size"] > 0 and row["address"] + row["size"] == following["address"]
        assert [row[k] for k in HEADER[2:]] != [following[k] for k in HEADER[2:]]
    for row in table:
        assert CFA.match(row["cfa"]) and BP.match(row["bp"]) and RA.match(row["ra"]), row
        assert row["kind"] in ("call", "signal", "end", "undef") and row["source"] in ("code", "cfi", "both", "plt")
        assert (row["kind"] == "undef") == (row["cfa"] == "undef")
    with open(files[name], "rb") as f:
        code = [s for s in ELFFile(f).iter_sections() if s["sh_flags"] & 4]
        first, last = min(s["sh_addr"] for s in code), max(s["sh_addr"] + s["sh_size"] for s in code)
    assert table[0]["address"] <= first and table[-1]["address"] + table[-1]["size"] >= last - 16
    assert {"both", "plt"} <= {r["source"] for r in table}


def check_same_rules(generated, table):
    """At every byte that the generated rows know: only padding may differ, and a row of
    a table that was put together from several has the weakest of their sources."""
    def spread(rows_):
        return {(r.get("section"), a): (tuple(r[k] for k in HEADER[2:6]), r["source"]) for r in rows_
                for a in range(r["address"], r["address"] + r["size"])}

    want, have = spread(generated), spread(table)
    known = {a: r for a, r in want.items() if r[0][3] != "undef"}
    assert len(known) > 300 and known.keys() <= have.keys()
    strength = {"cfi": 0, "code": 1, "both": 2, "plt": 3}
    for a, (rule, source) in known.items():
        assert have[a][0] == rule, (a, rule, have[a])
        assert strength[have[a][1]] <= strength[source], (a, source, have[a])


@pytest.mark.parametrize("name", ["block", "orc", "nomap", "128"])
def test_the_table_says_what_the_generator_says(made, name):
    flow, files = made
    check_same_rules(rows(flow.etch, files["plain"])[1], rows(flow.etch, files[name])[1])


@pytest.mark.parametrize("name", LINKED + ["object", "plain object"])
def test_json_is_the_same(made, name):
    flow, files = made
    head, table = rows(flow.etch, files[name])
    doc = json.loads(run([flow.etch, "inspect", "orc", "--json", files[name]]).stdout)
    for row in doc["rows"]:
        row["address"] = int(row["address"], 16)
        row["function"] = row["function"] or "-"
    assert [{k: r[k] for k in head} for r in doc["rows"]] == [{k: r[k] for k in head} for r in table]
    for r in doc["rows"]:
        assert r.keys() == {*head, "function"} and (r["function"] is None or re.match(r"\S+$", r["function"]))
    assert {"main", "work"} <= {r["function"] for r in doc["rows"]} | {r["function"].split("+")[0] for r in doc["rows"] if r["function"]}
    assert doc["sources"] is True
    assert doc["generated"] == name.startswith("plain")
    assert doc["table"] == {"orc": "orc", "object": "orc"}.get(name, None if name.startswith("plain") else "block")
    assert doc["file"] == str(files[name])


def test_text(made):
    flow, files = made
    text = run([flow.etch, "inspect", "orc", files["plain"]]).stdout.splitlines()
    assert text[0].endswith(": no table in the file; generated")
    assert text[1].split() == HEADER + ["function"]
    assert any(line.split()[-1] == "work" for line in text[2:])
    text = run([flow.etch, "inspect", "orc", files["block"]]).stdout.splitlines()
    assert re.search(r": block table, \d+ rows$", text[0])
    assert len(text) == 2 + len(rows(flow.etch, files["block"])[1])


@pytest.mark.parametrize("name", ["plain", "block", "object"])
def test_functions_are_the_last_column(made, name):
    """Of every row: the function that begins there, or that it is in."""
    flow, files = made
    head, table = rows(flow.etch, files[name])
    seen = [r["function"] for r in table]
    assert head[-1] == "function" and any(re.fullmatch(r"work(\+0x[0-9a-f]+)?", f) for f in seen)
    assert all(re.fullmatch(r"-|\S+?(\+0x[0-9a-f]+)?", f) for f in seen)
    assert name == "object" or "-" in seen  # the PLT


def test_at(made):
    flow, files = made
    for name in ("plain", "block", "orc"):
        addr, size = symbol(files[name], "work")
        _, table = rows(flow.etch, files[name])
        want = [r for r in table if r["address"] < addr + size and r["address"] + r["size"] > addr]
        assert rows(flow.etch, "--at", "work", files[name])[1] == want and len(want) >= 1
        for spelled in (f"{addr + 1:x}", hex(addr + 1)):
            got = rows(flow.etch, "--at", spelled, files[name])[1]
            assert len(got) == 1 and got[0]["address"] <= addr + 1 < got[0]["address"] + got[0]["size"]
    for what in ("orc", "code"):
        p = run([flow.etch, "inspect", what, "--at", "no_such_function", files["block"]], ok=2)
        assert p.stdout == "" and len(p.stderr.splitlines()) == 1 and "no_such_function" in p.stderr
    assert run([flow.etch, "inspect", "sites", "--at", "main", files["block"]], ok=2).stdout == ""


def test_object(made):
    """Offsets in sections, which a column names; the same rows before and after."""
    flow, files = made
    (head, table), (head2, generated) = rows(flow.etch, files["object"]), rows(flow.etch, files["plain object"])
    assert head == head2 == HEADER + ["section", "function"]
    check_same_rules(generated, table)
    _, size = symbol(files["object"], "work")
    assert sum(r["size"] for r in rows(flow.etch, "--at", "work", files["object"])[1]) >= size


def cfi(path):
    """(start, end, cfa, bp) from readelf, which knows nothing of us."""
    out, columns, end = [], None, 0
    for line in run(["readelf", "--debug-dump=frames-interp", path]).stdout.splitlines():
        m = re.search(r"FDE .*pc=([0-9a-f]+)\.\.([0-9a-f]+)", line)
        if m:
            end, columns = int(m[2], 16), None
        elif "CIE" in line or not line.strip():
            end = 0
        elif end and line.strip().startswith("LOC"):
            columns = line.split()
        elif end and columns:
            cells = dict(zip(columns, line.split()))
            at = int(cells["LOC"], 16)
            if out and out[-1][1] > at:
                out[-1] = (out[-1][0], at, *out[-1][2:])
            bp = cells.get("rbp", "u")
            out.append((at, end, cells["CFA"], "same" if bp in ("u", "s") else "cfa" + bp[1:] if bp[0] == "c" else bp))
    return out


@pytest.mark.parametrize("name", ["block", "orc"])
def test_against_readelf(made, name):
    """Every row of the program's own .eh_frame that names rsp or rbp."""
    flow, files = made
    _, table = rows(flow.etch, files[name])
    compared = 0
    for start, end, cfa, bp in cfi(files[name]):
        if not re.match(r"rs?[bp]p?\+\d+$", cfa) or end <= start:
            continue
        for row in table:
            if row["address"] < end and row["address"] + row["size"] > start and row["kind"] == "call":
                assert row["cfa"] == cfa, (hex(start), cfa, row)
                assert row["bp"] in (bp, "same"), (hex(start), bp, row)
                compared += 1
    assert compared > 30


@pytest.mark.parametrize("name", LINKED)
def test_code(made, name):
    """The same instructions as objdump's, each with the row that inspect orc has there."""
    flow, files = made
    doc = json.loads(run([flow.etch, "inspect", "code", "--json", "work", files[name]]).stdout)
    _, table = rows(flow.etch, files[name])
    text = run(["objdump", "-d", "--disassemble=work", files[name]]).stdout
    want = [int(m, 16) for m in re.findall(r"^ +([0-9a-f]+):\t(?:[0-9a-f]{2} )+ *\t", text, re.M)]
    addr, size = symbol(files[name], "work")
    assert [int(i["address"], 16) for i in doc["code"]] == [a for a in want if addr <= a < addr + size]
    before = None
    for i in doc["code"]:
        at = int(i["address"], 16)
        row = next(r for r in table if r["address"] <= at < r["address"] + r["size"])
        assert [i[k] for k in HEADER[2:]] == [row[k] for k in HEADER[2:]]
        assert i["changed"] is (row is not before)
        before = row
    assert doc["generated"] == (name == "plain")


def test_code_shows_sites(made):
    flow, files = made
    tsv = run([flow.etch, "inspect", "code", "--format=tsv", "--at", "leaf", files["block"]]).stdout.splitlines()
    head = tsv[0].split("\t")
    cells = [dict(zip(head, line.split("\t"))) for line in tsv[1:]]
    sites = [c for c in cells if c["site"] != "-"]
    assert len(sites) == 1 and re.match(r"(load|immediate) of level__imv: \w+, live$", sites[0]["site"])
    assert ("$3" in sites[0]["instruction"]) == sites[0]["site"].startswith("immediate")
    text = run([flow.etch, "inspect", "code", "leaf", files["block"]]).stdout
    assert "leaf" in text.splitlines()[0] and "t.c:" in text


def test_code_of_an_object(made):
    flow, files = made
    text = run([flow.etch, "inspect", "code", "work", files["object"]]).stdout
    assert "rows from its table" in text.splitlines()[0] and "ret" in text


@pytest.mark.parametrize("name", LINKED + ["object"])
def test_summary(made, name):
    flow, files = made
    unwind = json.loads(run([flow.etch, "inspect", "summary", "--json", files[name]]).stdout)["unwind"]
    tsv = dict(line.split("\t") for line in
               run([flow.etch, "inspect", "summary", "--format", "tsv", files[name]]).stdout.splitlines())
    text = run([flow.etch, "inspect", files[name]]).stdout
    if name == "plain":
        assert unwind is None and tsv["unwind_encoding"] == "none" and "no unwind table" in text
        return
    _, table = rows(flow.etch, files[name])
    known = [r for r in table if r["kind"] != "undef"]
    assert unwind["encoding"] == tsv["unwind_encoding"] == ("orc" if name in ("orc", "object") else "block")
    assert unwind["map"] == {"block": 64, "128": 128}.get(name, 0)
    assert sum(unwind["sources"].values()) == len(known)
    for source, count in unwind["sources"].items():
        assert count == sum(r["source"] == source for r in known) == int(tsv[f"unwind_source: {source}"])
    assert 0 < unwind["covered"] <= unwind["text"]
    with open(files[name], "rb") as f:
        elf = ELFFile(f)
        assert unwind["text"] == sum(s["sh_size"] for s in elf.iter_sections() if s["sh_flags"] & 4)
        sizes = {}
        for s in elf.iter_sections():
            sizes[s.name] = sizes.get(s.name, 0) + s["sh_size"]
    loaded = sizes.get(".etch.unwind", 0) + sum(sizes.get(f".orc_{n}", 0) for n in ("unwind_ip", "unwind", "lookup"))
    assert unwind["bytes"] == loaded == int(tsv["unwind_bytes"])
    if name == "object":
        assert unwind["rows"] == sizes[".orc_unwind_ip"] / 4 == sizes[".orc_unwind"] / 6
    assert f"{unwind['rows']} rows in {unwind['bytes']} bytes" in text


def test_sources_stripped(made):
    """.etch.source is for inspect alone: a table without it is a table."""
    need("objcopy")
    flow, files = made
    bare = flow.tmp / "bare"
    run(["objcopy", "-R", ".etch.source", files["block"], bare])
    _, table = rows(flow.etch, bare)
    want = []
    for r in rows(flow.etch, files["block"])[1]:  # neighbours that differed by their source alone are one row
        r["source"] = "code"
        if want and all(want[-1][k] == r[k] for k in HEADER[2:]):
            want[-1]["size"] += r["size"]
        else:
            want.append(r)
    merged = []
    for r in table:
        if merged and all(merged[-1][k] == r[k] for k in HEADER[2:]):
            merged[-1]["size"] += r["size"]
        else:
            merged.append(r)
    assert merged == want
    text = run([flow.etch, "inspect", "orc", bare]).stdout
    assert ".etch.source was stripped" in text.splitlines()[0]
    assert run([bare]).stdout == run([files["plain"]]).stdout.replace("plain", "bare")


def test_no_cfi(made):
    """From the code alone, whether or not there is a table: no row comes from .eh_frame."""
    flow, files = made
    both = rows(flow.etch, "--no-cfi", files["plain"])[1], rows(flow.etch, "--no-cfi", files["block"])[1]
    assert both[0] == both[1]
    assert {r["source"] for r in both[0]} <= {"code", "plt"}
    assert "generated" in run([flow.etch, "inspect", "orc", "--no-cfi", files["block"]]).stdout.splitlines()[0]


# Fields of the header: of all tables, and of the block encoding.
DAMAGE = [(0, b"x"), (4, b"\7"), (8, b"\xff" * 8), (16, b"\3"), (17, b"\5"), (20, b"\xff" * 4)]
BLOCK_DAMAGE = [(40, b"\xff" * 4), (48, b"\xff" * 4), (56, b"\xff" * 4)]


@pytest.mark.parametrize("encoding,what", [("block", w) for w in DAMAGE + BLOCK_DAMAGE] + [("orc", w) for w in DAMAGE],
                         ids=lambda w: w if isinstance(w, str) else f"at{w[0]}")
def test_malformed_table(made, tmp_path, encoding, what):
    """One line and exit 2 from whoever has to read it, and a new table from rewrite."""
    flow, files = made
    data = bytearray(files[encoding].read_bytes())
    with open(files[encoding], "rb") as f:
        at = ELFFile(f).get_section_by_name(".etch.unwind")["sh_offset"] + what[0]
    assert data[at:at + len(what[1])] != what[1]
    data[at:at + len(what[1])] = what[1]
    bad = tmp_path / "bad"
    bad.write_bytes(data)
    bad.chmod(0o755)
    for command in (["inspect", "orc"], ["inspect", "code", "main"], ["inspect", "summary"], ["rewrite", "--only", "imv"]):
        p = run([flow.etch, *command, bad], ok=2)
        assert p.stdout == "" and len(p.stderr.splitlines()) == 1 and "bad" in p.stderr, command
        assert bad.read_bytes() == data
    flow.rewrite(bad, args=["--no-undo", "--encoding", encoding])
    assert bad.read_bytes() == files[encoding].read_bytes()
