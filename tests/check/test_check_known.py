# SPDX-License-Identifier: MIT
"""Findings of `etch check` that do not count: suppressions and baselines."""

import json
import re
import shutil
import subprocess

import pytest

from check_files import archives, check, made, sarif_schema, work  # noqa: F401 (fixtures)
from check_files import WRONG, ids, totals, valid_json, valid_sarif
from conftest import asan_env, run

# ---- suppressions ------------------------------------------------------------------------------

def test_suppressions(check, work):
    (work / "etch.supp").write_text("# what we know of\n\n"
                                    "ETCH-C001:wrong.o:wr*  # the assembler's fault\r\n"
                                    "\taccess-past-end # by name\n"
                                    "ETCH-S*:*/gone.o   # no more\n")
    p = check("wrong.o", "past.o")
    assert p.stdout.splitlines()[:-1] == ["etch.supp:5: suppresses nothing: ETCH-S*:*/gone.o"]
    assert totals(p) == "no findings in 2 files (2 suppressed)"
    assert p.stderr == ""
    d = valid_json(check("--format", "json", "wrong.o", "past.o"))
    assert [x["suppressed"] for f in d["files"] for x in f["findings"] if "suppressed" in x] == ["the assembler's fault", "by name"]
    assert d["unused_suppressions"] == [{"rule": "ETCH-S*:*/gone.o", "origin": "etch.supp:5", "reason": "no more"}]
    assert d["summary"]["suppressed"] == 2 and d["summary"]["unused_suppressions"] == 1
    check("--fail-on-unused", "wrong.o", ok=1)
    check("-q", "--fail-on-unused", "--suppressions", "/dev/null", "clean.o")
    assert len(ids(check("--suppressions", "/dev/null", "wrong.o", "past.o", ok=1))) == 2
    # Only where the tool is called is a file of that name read.
    (work / "elsewhere").mkdir()
    check("../wrong.o", cwd=work / "elsewhere", ok=1)


def test_suppressions_in_sarif(check, work, sarif_schema):
    r = valid_sarif(check("--format", "sarif", "--ignore", "ETCH-C001", "--ignore", "ETCH-S001", "wrong.o", "past.o", ok=1), sarif_schema)
    by = {x["ruleId"]: x["suppressions"] for x in r["results"]}
    assert by == {"ETCH-C001": [{"kind": "external", "justification": "--ignore"}], "ETCH-I002": []}
    note, = r["invocations"][0]["toolConfigurationNotifications"]
    assert note["level"] == "note" and "ETCH-S001" in note["message"]["text"]


@pytest.mark.parametrize("rule,hits", [
    ("ETCH-C001", True), ("cfi-contradicts-code", True), ("ETCH-C*", True), ("*", True), ("ETCH-C002", False), ("etch-c001", None),
    ("ETCH-C001:wrong.o", True), ("ETCH-C001:d/wrong.o", True), ("ETCH-C001:*/wrong.o", True), ("ETCH-C001:w*", True),
    ("ETCH-C001:rong.o", False), ("ETCH-C001:d", False), ("ETCH-C001:d/*", True), ("ETCH-C001:wrong.s", True),
    ("ETCH-C001:*:wrong", True), ("ETCH-C001:*:right", False), ("ETCH-C001:*:w?ong", True),
    ("ETCH-C001:wrong.o:*", True), ("ETCH-C001:wrong.a(*)", False)])
def test_rules(check, work, rule, hits):
    (work / "d").mkdir()
    (work / "wrong.o").rename(work / "d" / "wrong.o")
    p = check("--ignore", rule, "d/wrong.o", ok=2 if hits is None else 0 if hits else 1)
    if hits is not None:
        assert ("1 suppressed" in p.stdout) == hits


@pytest.mark.parametrize("rule,left", [("*:plain.a", 0), ("*:plain.a(wrong.o)", 2), ("*:wrong.o", 2), ("*:plain.a(*#2)", 2), ("*:*.o", 1), ("*:*.o*", 0)])
def test_rules_for_archives(check, archives, rule, left):
    p = check("--fail-on", "never", "--ignore", rule, "plain.a")
    assert len(ids(p)) == left


def test_a_colon_in_a_name(check, work):
    shutil.copy(work / "wrong.o", work / "a:b #.o")
    assert "1 suppressed" in check("--ignore", r"ETCH-C001:a\:b #.o:wrong", "a:b #.o").stdout
    # In a file a # after a space begins the reason: a ? stands for the space.
    (work / "s").write_text(r"ETCH-C001:a\:b?#.o # ok" + "\n")
    assert "1 suppressed" in check("--suppressions", "s", "a:b #.o").stdout


@pytest.mark.parametrize("line,reason", [
    ("ETCH-C001", "line 2: no reason given"), ("ETCH-C001 #  ", "line 2: no reason given"),
    ("ETCH-Q999 # x", "line 2: 'ETCH-Q999' is not a finding"), ("ETCH-C001:a:b:c # x", "line 2: .*more than"),
    ("ETCH-C001::f # x", "line 2: .*empty")])
def test_wrong_suppressions(check, work, line, reason):
    (work / "etch.supp").write_text(f"# first\n{line}\n")
    p = check("clean.o", ok=2)
    assert p.stdout == "" and re.fullmatch(f"etch: etch.supp: {reason}.*\n", p.stderr)


# ---- baselines -------------------------------------------------------------------------------------

def baseline(check, work, *files, cwd=None, name="old.json"):
    (work / name).write_text(check("--format", "json", "--fail-on", "never", *files, cwd=cwd or work).stdout)


def test_baseline(check, work):
    baseline(check, work, "wrong.o", "clean.o")
    assert totals(check("--baseline", "old.json", "wrong.o", "clean.o")) == "no findings in 2 files (1 in the baseline)"
    p = check("--baseline", "old.json", "wrong.o", "clean.o", "past.o", ok=1)
    assert ids(p) == ["ETCH-I002"] and totals(p) == "1 warning in 3 files (1 in the baseline)"
    d = valid_json(check("--baseline", "old.json", "--format", "json", "wrong.o"))
    assert [x.get("baseline") for x in d["files"][0]["findings"] if x["id"] == "ETCH-C001"] == [True]
    # A file that is not looked at this time is not a finding gone.
    assert totals(check("--baseline", "old.json", "clean.o")) == "no findings in 1 file"
    shutil.copy(work / "clean.o", work / "wrong.o")
    assert totals(check("--baseline", "old.json", "wrong.o")) == "no findings in 1 file (1 gone since the baseline)"
    d = valid_json(check("--baseline", "old.json", "--format", "json", "wrong.o"))
    assert [(g["path"], [x["id"] for x in g["findings"]]) for g in d["gone"]] == [("wrong.o", ["ETCH-C001"])]
    assert d["summary"]["gone"] == 1


def test_baseline_in_sarif(check, work, sarif_schema):
    shutil.copy(work / "past.o", work / "other.o")
    baseline(check, work, "wrong.o", "other.o")
    shutil.copy(work / "clean.o", work / "other.o")
    r = valid_sarif(check("--baseline", "old.json", "--format", "sarif", "wrong.o", "past.o", "other.o", ok=1), sarif_schema)
    assert [(x["ruleId"], x["baselineState"]) for x in r["results"]] == [
        ("ETCH-C001", "unchanged"), ("ETCH-I002", "new"), ("ETCH-I002", "absent")]
    prints = [x["partialFingerprints"]["etchFinding/v1"] for x in r["results"]]
    assert prints[0] != prints[1] == prints[2]


def test_the_first_run_makes_the_baseline(check, work, sarif_schema):
    """Green on the first day, red on what is new; the file is what --format json writes."""
    create = ["--baseline", "new.json", "--create-baseline"]
    p = check(*create, "wrong.o", "clean.o")
    assert totals(p) == "no findings in 2 files (1 in the baseline)" and p.stderr.startswith("etch: new.json: written")
    made, old = valid_json(subprocess.CompletedProcess([], 0, (work / "new.json").read_text())), \
        valid_json(check("--format", "json", "--fail-on", "never", "wrong.o", "clean.o"))
    assert made["files"] == old["files"] and made["level"] == "note"
    before = (work / "new.json").read_bytes()
    p = check(*create, "wrong.o", "clean.o", "past.o", ok=1)
    assert ids(p) == ["ETCH-I002"] and p.stderr == "" and (work / "new.json").read_bytes() == before
    (work / "new.json").unlink()
    r = valid_sarif(check(*create, "-q", "--format", "sarif", "wrong.o"), sarif_schema)
    assert [x["baselineState"] for x in r["results"]] == ["unchanged"]


def test_no_baseline_is_made_of_what_could_not_be_read(check, work):
    (work / "junk.o").write_bytes(b"\x7fELF")
    p = check("--baseline", "new.json", "--create-baseline", "wrong.o", "junk.o", ok=2)
    assert "new.json was not written" in p.stderr and not (work / "new.json").exists()
    p = check("--baseline", "no/such/new.json", "--create-baseline", "wrong.o", ok=2)
    assert "no/such/new.json: " in p.stderr
    assert "needs --baseline" in check("--create-baseline", "wrong.o", ok=2).stderr
    (work / "new.json").write_text("{}")
    check("--baseline", "new.json", "--create-baseline", "wrong.o", ok=2)
    assert (work / "new.json").read_text() == "{}"


def test_baseline_counts_how_often(etch, tmp_path):
    def make(n):
        reads = "".join("\tmovq small(%rip), %rax\n" for _ in range(n))
        (tmp_path / "t.s").write_text('\t.section etched,"aw"\n\t.balign 4096\n\t.type small,@object\n\t.size small,4\n'
                                      "small:\t.long 1\n\t.balign 4096\n\t.text\n\t.type f,@function\nf:" + reads +
                                      "\tret\n\t.size f,.-f\n\t.section .note.GNU-stack\n")
        run(["gcc", "-c", "-o", tmp_path / "t.o", tmp_path / "t.s"])
    make(2)
    (tmp_path / "old.json").write_text(run([etch, "check", "--format", "json", "--fail-on", "never", tmp_path / "t.o"]).stdout)
    make(3)
    p = run([etch, "check", "--baseline", tmp_path / "old.json", tmp_path / "t.o"], ok=1)
    assert len(ids(p)) == 1 and totals(p) == "1 warning in 1 file (2 in the baseline)"
    make(1)
    p = run([etch, "check", "--baseline", tmp_path / "old.json", tmp_path / "t.o"])
    assert "1 in the baseline, 1 gone since the baseline" in p.stdout


def test_baseline_of_a_build_directory_that_has_moved(check, work):
    trees = [work / "old" / "build", work / "new" / "place" / "out"]
    for tree in trees:
        (tree / "a").mkdir(parents=True)
        shutil.copy(work / "wrong.o", tree / "a" / "main.o")
        shutil.copy(work / "past.o", tree / "main.o")
    baseline(check, work, trees[0])
    assert "2 in the baseline" in check("--baseline", "old.json", trees[1]).stdout
    assert "2 in the baseline" in check("--baseline", work / "old.json", "main.o", "a/main.o", cwd=trees[1]).stdout
    # The two main.o are not taken for each other.
    shutil.copy(work / "past.o", trees[1] / "a" / "main.o")
    p = check("--baseline", "old.json", trees[1], ok=1)
    assert len(ids(p)) == 1 and "a/main.o: past" in p.stdout and "1 in the baseline, 1 gone since the baseline" in p.stdout


def test_baseline_across_builds(check, etch, work):
    """Code that has moved, and other numbers in it, are no news."""
    baseline(check, work, "wrong.o")
    (work / "more.s").write_text(WRONG.replace("wrong:", "\tnop\n\t.p2align 6\nwrong:").replace("\tpop", "\tnop\n\tpop"))
    run(["gcc", "-c", "-o", "wrong.o", "more.s"], cwd=work)
    assert "1 in the baseline" in check("--baseline", "old.json", "wrong.o").stdout


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"format": "etch-check", "version": 2, "files": []}',
                                  '{"format": "etch-check", "version": 1, "files": [{}]}',
                                  '{"format": "etch-check", "version": 1, "files": [{"path": 1, "findings": []}]}',
                                  '{"format": "etch-check", "version": 1, "files": [{"path": "a", "findings": [{"id": "ETCH-C001"}]}]}',
                                  '{"format": "etch-check", "version": 1, "files": [{"path": "a", "findings": [{"id": "ETCH-C001", '
                                  '"text": "x", "place": {}, "facts": [], "print": "xyz"}]}]}', "[" * 5000])
def test_wrong_baselines(check, work, text, etch_asan):
    (work / "old.json").write_text(text)
    p = check("--baseline", "old.json", "clean.o", ok=2)
    assert p.stdout == "" and re.fullmatch("etch: old.json: .*\n", p.stderr)
    run([etch_asan, "check", "--baseline", "old.json", "clean.o"], ok=2, cwd=work, env=asan_env())


def test_a_baseline_of_a_later_etch(check, work):
    """Findings of IDs that this one does not know are left out, and not an error."""
    baseline(check, work, "wrong.o")
    d = json.loads((work / "old.json").read_text())
    d["files"][0]["findings"].insert(0, d["files"][0]["findings"][0] | {"id": "ETCH-Z999"})
    (work / "old.json").write_text(json.dumps(d))
    assert totals(check("--baseline", "old.json", "wrong.o")) == "no findings in 1 file (1 in the baseline)"
