# SPDX-License-Identifier: MIT
"""etch inspect summary, and what all views have in common: what they show is what readelf and
pyelftools say of the same file; JSON is of its schema and has what people see."""

import json
import os
import random
import re
import shutil

import jsonschema
import pytest
from elftools.elf.elffile import ELFFile

from conftest import ROOT, asan_env, run
from inspect_files import FILES, document, frames, schema
from inspect_files import made  # noqa: F401 (fixtures)


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
    """The bytes by source are those of the rows that inspect orc makes, except for padding, and with it all of the text."""
    doc = document(etch, "summary", path)
    cover = doc["code"]["coverage"]
    assert sum(cover.values()) + doc["code"]["padding"] == doc["code"]["bytes"]
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
        assert all(cover[k] <= want[k] for k in want)
        assert sum(want[k] - cover[k] for k in want) == doc["code"]["padding"]
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
    assert doc["objects"][0]["live"] == doc["live"] == sum(s["live"] in ("yes", "swap", "linker") for s in sites)


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


@pytest.mark.parametrize("view", ["summary", "sites", "orc", "tables"])
@pytest.mark.parametrize("kind", ["text", "tsv", "json"])
def test_a_file_that_ends_the_process_costs_no_other_one(made, tmp_path, view, kind):
    """Memory for it there is none: the rest is what it is without that file, and JSON is whole."""
    flow, files = made
    big = tmp_path / "big"
    shutil.copy(files["linked"], big)
    os.truncate(big, 1 << 30)
    some = [files["linked"], files["done"]]
    want = run([flow.etch, "inspect", view, "--format", kind, *some]).stdout
    for paths in ([some[0], big, some[1]], [big, *some], [*some, big]):
        p = run(["prlimit", f"--data={256 << 20}", flow.etch, "inspect", view, "--format", kind, *paths], ok=2)
        assert p.stdout == want and p.stderr == f"etch: {big}: out of memory\n"


@pytest.mark.parametrize("thin", [False, True])
def test_members_of_archives(made, tmp_path, thin):
    """libx.a(plain.o) is what plain.o is, except for its name."""
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
    for n in range(14 if os.environ.get("ETCH_TESTS") == "all" else 8):
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
