# SPDX-License-Identifier: MIT
"""What is around the findings of `etch check`: formats, exit statuses and streams, processes. The files
that names mean: test_check_inputs.py; what does not count: test_check_known.py. What a check finds is said
by the tests of the checks."""

import glob
import json
import os
import re
import shutil
import signal
import subprocess
import time
import urllib.parse
from pathlib import Path

import pytest
from jsonschema import Draft202012Validator

import mutate
from check_files import archives, check, made, sarif_schema, work  # noqa: F401 (fixtures)
from check_files import CHECK_SCHEMA, TWO, ids, lines, totals, valid_json, valid_sarif
from conftest import INCLUDE, ROOT, asan_env, on_terminal, run


def test_the_schema_can_refuse(check):
    Draft202012Validator.check_schema(CHECK_SCHEMA)
    good = valid_json(check("--format", "json", "wrong.o", ok=1))
    validator = Draft202012Validator(CHECK_SCHEMA)
    for spoil in (lambda d: d.pop("summary"), lambda d: d["files"][0].update(other=1),
                  lambda d: d["files"][0]["findings"][0].update(severity="fatal"),
                  lambda d: d["files"][0]["findings"][0]["place"].update(address="0x1"),
                  lambda d: d["files"][0]["findings"][0]["place"].pop("section"),
                  lambda d: d["files"][0].update(error="x")):
        bad = json.loads(json.dumps(good))
        spoil(bad)
        assert not validator.is_valid(bad)


# ---- exit status and streams -------------------------------------------------------

STATUS = [
    ([], ["clean.o"], 0), ([], ["wrong.o"], 1), ([], ["past.o"], 1), ([], ["clean.o", "wrong.o", "past.o"], 1),
    (["--fail-on", "error"], ["past.o"], 0), (["--fail-on", "error"], ["wrong.o"], 1),
    (["--fail-on", "warning"], ["past.o"], 1), (["--fail-on", "never"], ["past.o", "wrong.o"], 0),
    (["--fail-on", "never"], ["past.o", "missing.o"], 2), ([], ["clean.o", "missing.o"], 2),
    ([], ["wrong.o", "missing.o"], 2), (["--fail-on", "warning", "--level", "error"], ["past.o"], 1),
    (["--fail-on", "error", "--level", "note"], ["past.o"], 0),
]


@pytest.mark.parametrize("form", ["text", "json", "sarif"])
@pytest.mark.parametrize("options,files,status", STATUS)
def test_status_and_streams(check, options, files, status, form):
    p = check("--format", form, *options, *files, ok=status)
    errors = p.stderr.splitlines()
    assert errors == ["etch: missing.o: No such file or directory"] * ("missing.o" in files)
    assert p.stdout
    if form == "json":
        assert valid_json(p)["exit"] == status


@pytest.mark.parametrize("args,reason", [
    ([], "missing FILE operand"), (["--format", "xml", "clean.o"], "--format must be"), (["-j", "0", "clean.o"], "-j must be"),
    (["-j", "x", "clean.o"], "-j must be"), (["--level", "all", "clean.o"], "--level must be"),
    (["--fail-on", "note", "clean.o"], "--fail-on must be"), (["--explain", "ETCH-Q001"], "unknown finding 'ETCH-Q001'"),
    (["--ignore", "ETCH-Q001", "clean.o"], "is not a finding"), (["--ignore", "ETCH-C001:a:b:c", "clean.o"], "more than"),
    (["--ignore", "ETCH-C001:", "clean.o"], "empty"), (["--suppressions", "no.supp", "clean.o"], "no.supp: No such"),
    (["--baseline", "no.json", "clean.o"], "no.json: No such"), (["--baseline", "clean.o", "clean.o"], "was not written by"),
    (["--files-from", "no.txt"], "no.txt: No such"), (["--output", "no/dir/x", "clean.o"], "no/dir/x"),
])
def test_wrong_command_lines(check, args, reason):
    p = check(*args, ok=2)
    assert p.stdout == "" and len(p.stderr.splitlines()) == 1 and reason in p.stderr
    assert p.stderr.startswith("etch: ")


def test_unknown_option(check):
    p = check("--frob", "clean.o", ok=2)
    assert p.stdout == "" and "etch check --help" in p.stderr


# ---- text ----------------------------------------------------------------------------

def test_text(check):
    p = check("wrong.o", "past.o", "clean.o", ok=1)
    text = p.stdout.splitlines()
    assert text[0] == ("wrong.o: wrong+0x1 (wrong.s:7): error: .eh_frame says CFA rsp+8, rbp same; the code has "
                       "CFA rsp+16, rbp same [ETCH-C001 cfi-contradicts-code]")
    assert text.index("past.o: past (past.c:3): warning: reads 8 bytes at offset 0 of small, of size 4 "
                      "[ETCH-I002 access-past-end]") > 1
    assert totals(p) == "1 error, 1 warning in 3 files"
    assert all(len(line) <= 100 for line in text if re.match(r"    (why|fix| )", line))
    assert check("clean.o").stdout == "no findings in 1 file\n"
    assert check("-q", "clean.o", "clean.o").stdout == ""
    assert check("-q", "wrong.o", "past.o", "clean.o", ok=1).stdout.splitlines() == text[:-1]


def test_the_guide_shows_what_is_printed(check, work):
    guide = (ROOT / "docs" / "check.md").read_text()
    shown = re.search(r"```console\n\$ etch check two.o\n(.*?)```", guide, re.S).group(1)
    (work / "two.s").write_text(TWO)
    run(["gcc", "-g", "-c", "two.s"], cwd=work)
    assert check("two.o", ok=1).stdout == shown


def test_the_remedy_is_told_once_for_each_id(check, work):
    for name in ("again.o", "more.o"):
        shutil.copy(work / "wrong.o", work / name)
    p = check("wrong.o", "again.o", "more.o", "past.o", ok=1)
    assert len(ids(p)) == 4
    assert len(lines(p, "^    why: ")) == len(lines(p, "^    fix: ")) == 2
    at = [i for i, line in enumerate(p.stdout.splitlines()) if "fix: " in line or line.startswith("again.o")]
    assert at[0] < at[1]  # after the first block


def test_equal_findings_that_are_far_apart_have_blocks_of_their_own(etch, tmp_path):
    far = ("\tpush %rbx\n\tpop %rbx" + "\n\tnop" * 100 + "\n") * 3
    (tmp_path / "t.s").write_text(".text\n\t.type g,@function\ng:\t.cfi_startproc\n" + far +
                                  "\tret\n\t.cfi_endproc\n\t.size g,.-g\n\t.section .note.GNU-stack\n")
    run(["gcc", "-c", "-o", tmp_path / "t.o", tmp_path / "t.s"])
    p = run([etch, "check", tmp_path / "t.o"], ok=1)
    assert len(ids(p)) == 3 and "places up to" not in p.stdout and "3 errors in 1 file" in p.stdout


def test_places_that_follow_each_other_are_one_block(etch, tmp_path):
    reads = "".join(f"long f{i}(void) {{ return *(volatile long *)&small; }}\n" for i in range(5))
    (tmp_path / "t.c").write_text("#include <etch/imv.h>\nETCHED int small;\n" + reads)
    run(["gcc", "-O2", f"-I{INCLUDE}", "-c", "-o", tmp_path / "t.o", tmp_path / "t.c"])
    p = run([etch, "check", tmp_path / "t.o"], ok=1)
    assert len(lines(p, "ETCH-I002")) == 1 and "(5 places up to f4" in p.stdout
    assert "5 warnings in 1 file" in p.stdout


def test_colours_on_terminals_only(etch, work, check):
    def printed(**env):
        return on_terminal([etch, "check", "wrong.o"], cwd=work, **env)[1]

    assert "\x1b[31merror" in printed()
    for other in ({"NO_COLOR": "1"}, {"TERM": "dumb"}):
        assert "\x1b" not in printed(**other)
    assert "\x1b[" in printed(NO_COLOR="")  # no-color.org: when not empty
    assert "\x1b" not in check("wrong.o", ok=1, env=os.environ | {"TERM": "xterm", "NO_COLOR": ""}).stdout


def test_list_and_explain(check):
    listed = check("--list").stdout.splitlines()
    found = [re.match(r"(ETCH-[A-Z]\d{3}) +(error|warning|note) +([a-z0-9-]+) +\S", line) for line in listed]
    assert all(found) and len(listed) > 30
    assert len({m[1] for m in found}) == len({m[3] for m in found}) == len(listed)
    for m in found:
        text = check("--explain", m[1]).stdout
        assert text.startswith(f"{m[1]} {m[3]} ({m[2]}, ") and "\nWhy: " in text and "\nFix: " in text
        assert check("--explain", m[3]).stdout == text


@pytest.mark.parametrize("id_, words", [("ETCH-I101", ["ETCH_STRAY=die", "etch_release"]), ("ETCH-I102", ["ETCH_STRAY=warn", "etch_sync"])])
def test_what_the_library_says_is_explained(check, id_, words):
    """At run time; it is no finding, and so not in the list, and nothing to suppress."""
    text = check("--explain", id_).stdout
    assert re.match(rf"{id_} [a-z-]+ \(reported by libetch at run time, imv\)\n", text)
    assert "\nWhy: " in text and "\nFix: " in text and f"section {id_}\n" in text and all(w in text for w in words)
    assert id_ not in check("--list").stdout
    assert "is not a finding" in check("--ignore", id_, "clean.o", ok=2).stderr


# ---- json and sarif ---------------------------------------------------------------------

def test_json(check, work):
    d = valid_json(check("--format", "json", "wrong.o", "past.o", "clean.o", "missing.o", ok=2))
    wrong, past, clean, missing = d["files"]
    f = next(x for x in wrong["findings"] if x["id"] == "ETCH-C001")
    # What stands there, by the symbol table and the line table.
    assert f["place"] | {"source": ""} == {"section": ".text", "address": "1", "function": "wrong", "offset": 1,
                                           "source": "", "line": 7}
    assert Path(f["place"]["source"]).name == "wrong.s" and f["severity"] == "error"
    assert {x["label"] for x in f["facts"]} >= {"the code", ".eh_frame"}
    assert wrong["functions"] == 1 and wrong["instructions"] == 3
    assert [x["id"] for x in past["findings"] if x["severity"] != "note"] == ["ETCH-I002"]
    assert missing == {"path": "missing.o", "error": "No such file or directory", "functions": 0, "instructions": 0,
                       "findings": []}
    s = d["summary"]
    assert (s["files"], s["unusable"], s["found"]["errors"], s["found"]["warnings"]) == (3, 1, 1, 1)


def test_json_has_notes_and_level_takes_them_away(etch, tmp_path):
    # rsp from memory that a register points to, as setcontext() has it: no row can say that.
    (tmp_path / "t.s").write_text("\t.text\n\t.type f,@function\nf:\t.cfi_startproc\n\t.cfi_def_cfa rdi,0\n"
                                  "\t.cfi_offset rsp,160\n\t.cfi_offset rip,168\n\tmov 160(%rdi),%rsp\n"
                                  "\tjmp *168(%rdi)\n\t.cfi_endproc\n\t.size f,.-f\n\t.section .note.GNU-stack\n")
    run(["gcc", "-c", "-o", tmp_path / "t.o", tmp_path / "t.s"])
    d = valid_json(run([etch, "check", "--format", "json", tmp_path / "t.o"]))
    assert d["level"] == "note" and "ETCH-C002" in [f["id"] for f in d["files"][0]["findings"]]
    notes = d["summary"]["found"]["notes"]
    assert notes >= 1 and d["summary"]["not_shown"]["notes"] == 0
    d = valid_json(run([etch, "check", "--format", "json", "--level", "warning", tmp_path / "t.o"]))
    assert d["files"][0]["findings"] == [] and d["summary"]["found"]["notes"] == d["summary"]["not_shown"]["notes"] == notes
    p = run([etch, "check", tmp_path / "t.o"])
    assert p.stdout == f"no findings in 1 file ({notes} note{'s' * (notes > 1)} not shown)\n"
    assert "ETCH-C002" in ids(run([etch, "check", "--level", "note", tmp_path / "t.o"]))


def artifact_path(location, run_):
    """The file that an artifactLocation means, as bytes."""
    base = run_["originalUriBaseIds"][location["uriBaseId"]]["uri"] if "uriBaseId" in location else ""
    assert not base or base.endswith("/")
    uri = urllib.parse.urljoin(base, location["uri"])
    assert uri.startswith("file:///")
    return urllib.parse.unquote_to_bytes(uri[7:])


def test_sarif(check, work, sarif_schema):
    p = check("--format", "sarif", "--docs-uri", "https://example.org/docs/findings.md", "--level", "note",
              "wrong.o", "past.o", "clean.o", "missing.o", ok=2)
    r = valid_sarif(p, sarif_schema)
    rules = r["tool"]["driver"]["rules"]
    assert {x["id"] for x in rules} == set(re.findall(r"ETCH-[A-Z]\d{3}", check("--list").stdout))
    for rule in rules:
        assert rule["help"]["markdown"] and rule["shortDescription"]["text"] and rule["properties"]["tags"]
        assert rule["helpUri"] == f"https://example.org/docs/findings.md#{rule['id'].lower()}"
        assert rule["defaultConfiguration"]["level"] in ("error", "warning", "note")
    for result in r["results"]:
        assert rules[result["ruleIndex"]]["id"] == result["ruleId"]
        assert rules[result["ruleIndex"]]["defaultConfiguration"]["level"] == result["level"]
    result = next(x for x in r["results"] if x["ruleId"] == "ETCH-C001")
    place = result["locations"][0]["physicalLocation"]
    assert artifact_path(place["artifactLocation"], r).endswith(b"/wrong.s") and place["region"]["startLine"] == 7
    assert place["address"]["absoluteAddress"] == 1 and place["address"]["fullyQualifiedName"] == "wrong+0x1"
    assert result["locations"][0]["logicalLocations"] == [
        {"name": "wrong", "fullyQualifiedName": "wrong", "kind": "function"}]
    assert artifact_path(result["analysisTarget"], r) == os.fsencode(work / "wrong.o")
    assert artifact_path(r["artifacts"][result["analysisTarget"]["index"]]["location"], r) == os.fsencode(work / "wrong.o")
    invocation = r["invocations"][0]
    assert invocation["executionSuccessful"] is False and invocation["exitCode"] == 2
    notice, = invocation["toolExecutionNotifications"]
    assert notice["level"] == "error" and notice["message"]["text"] == "No such file or directory"
    assert artifact_path(notice["locations"][0]["physicalLocation"]["artifactLocation"], r) == os.fsencode(work / "missing.o")
    assert "suppressions" not in result and "baselineState" not in result


def test_sarif_shows_both_paths(check, work, sarif_schema):
    (work / "two.s").write_text(TWO)
    run(["gcc", "-g", "-c", "two.s"], cwd=work)
    r = valid_sarif(check("--format", "sarif", "two.o", ok=1), sarif_schema)
    result, = [x for x in r["results"] if x["ruleId"] == "ETCH-S001"]
    line = lambda location: location["physicalLocation"]["region"]["startLine"]  # noqa: E731
    assert line(result["locations"][0]) == 8
    related = {x["id"]: (line(x), x["message"]["text"].split(":")[0]) for x in result["relatedLocations"]}
    assert related == {1: (6, "one path"), 2: (7, "the other path")}
    for number, (_, label) in related.items():
        assert f"[{label}]({number}) at two+" in result["message"]["text"]
    flows = [[line(step["location"]) for step in flow["threadFlows"][0]["locations"]] for flow in result["codeFlows"]]
    assert flows == [[6, 8], [7, 8]]


def test_sarif_without_lines_names_the_binary(check, work, sarif_schema):
    run(["strip", "-g", work / "wrong.o"])
    r = valid_sarif(check("--format", "sarif", "wrong.o", ok=1), sarif_schema)
    place = r["results"][0]["locations"][0]["physicalLocation"]
    assert artifact_path(place["artifactLocation"], r) == os.fsencode(work / "wrong.o") and "region" not in place
    assert r["invocations"][0]["executionSuccessful"] is True
    assert not any("helpUri" in rule for rule in r["tool"]["driver"]["rules"])


def test_sarif_source_root(check, work, sarif_schema):
    inner = work / "inner"
    inner.mkdir()
    r = valid_sarif(check("--format", "sarif", "../wrong.o", ok=1, cwd=inner), sarif_schema)
    assert r["results"][0]["analysisTarget"]["uri"].startswith("file:///")  # above the root
    r = valid_sarif(check("--format", "sarif", "--source-root", "..", "../wrong.o", ok=1, cwd=inner), sarif_schema)
    assert r["results"][0]["analysisTarget"] == {"uri": "wrong.o", "uriBaseId": "%SRCROOT%", "index": 0}
    assert urllib.parse.unquote(r["originalUriBaseIds"]["%SRCROOT%"]["uri"]) == f"file://{work}/"


# ---- odd names ------------------------------------------------------------------------------

ODD = [b"a b.o", b"it's.o", b'q"q.o', b"new\nline.o", b"tab\t.o", b"-dash.o", b"esc\x1b[31m.o", b"b\xffad.o", "ü%41#?.o".encode(),
       "rtl\u202eo.txt".encode(), b"back\\slash.o", b"colon:.o"]


@pytest.mark.parametrize("jobs", [1, 3])
def test_odd_file_names(check, work, sarif_schema, jobs):
    odd = work / "odd"
    odd.mkdir()
    for name in ODD:
        shutil.copy(work / "wrong.o", os.fsencode(odd) + b"/" + name)
    names = [b"odd/" + n for n in sorted(ODD)]
    p = check("-j", jobs, "odd", ok=1)
    assert len(ids(p)) == len(ODD) and not re.search(r"[^\n -~\u00a0-\uffff]|\u202e", p.stdout)
    assert "odd/new\\x0aline.o: wrong+0x1" in p.stdout and "odd/esc\\x1b[31m.o: " in p.stdout and "odd/b\\xffad.o: " in p.stdout
    d = valid_json(check("-j", jobs, "--format", "json", "odd", ok=1))
    assert [f["path"] for f in d["files"]] == [n.decode("utf-8", "replace") for n in names]
    r = valid_sarif(check("-j", jobs, "--format", "sarif", "odd", ok=1), sarif_schema)
    assert [artifact_path(x["analysisTarget"], r) for x in r["results"]] == [os.fsencode(work) + b"/" + n for n in names]
    p = check("-j", jobs, "-", ok=1, input="\n".join(os.fsdecode(n) for n in names if b"\n" not in n), errors="surrogateescape")
    assert len(ids(p)) == len(ODD) - 1
    p = check("-j", jobs, "-0", "-", ok=1, input="\0".join(os.fsdecode(n) for n in names), errors="surrogateescape")
    assert len(ids(p)) == len(ODD)
    # And where they cannot be used.
    for name in names:
        Path(os.fsdecode(work / os.fsdecode(name))).write_bytes(b"no")
    p = check("-j", jobs, "--", *[os.fsdecode(n) for n in names], ok=2, errors="surrogateescape")
    assert len(p.stderr.splitlines()) == len(ODD) and not re.search(r"[\x00-\x09\x0b-\x1f\x7f\u202e]", p.stderr)


def test_hostile_symbol_and_section_names(check, work, sarif_schema):
    evil = "\x1b]0;owned\x07\n\rwrong [x](http://evil) {0}\u202e"
    names = work / "names"
    run(["objcopy", "--redefine-sym", f"wrong={evil}", "--rename-section", f".text={evil}", "wrong.o", "evil.o"], cwd=work)
    for files in (["evil.o"], ["evil.o", "clean.o"]):
        p = check(*files, ok=1)
        assert not re.search(r"[\x00-\x09\x0b-\x1f\x7f\u202e]", p.stdout)
        assert "\\x1b]0;owned\\x07\\x0a\\x0dwrong" in p.stdout
        d = valid_json(check("--format", "json", *files, ok=1))
        assert d["files"][0]["findings"][0]["place"]["function"] == evil
        r = valid_sarif(check("--format", "sarif", *files, ok=1), sarif_schema)
        assert r["results"][0]["locations"][0]["logicalLocations"][0]["name"] == evil
    assert not names.exists()


def test_names_that_are_not_utf8_are_the_same_from_a_worker(check, work):
    run(["objcopy", "--redefine-sym", os.fsdecode(b"wrong=w\xffrong"), "wrong.o", "evil.o"], cwd=work)
    alone = check("evil.o", ok=1).stdout.splitlines()
    assert "w\\xffrong+0x1" in alone[0]
    assert check("evil.o", "clean.o", ok=1).stdout.splitlines()[:-1] == alone[:-1]
    for files in (["evil.o"], ["evil.o", "clean.o"]):
        d = valid_json(check("--format", "json", *files, ok=1))
        assert d["files"][0]["findings"][0]["place"]["function"] == "w\ufffdrong"
    (work / "old.json").write_text(check("--format", "json", "evil.o", ok=1).stdout)
    assert "1 in the baseline" in check("--baseline", "old.json", "evil.o", "clean.o").stdout


@pytest.mark.parametrize("locale", ["C", "C.UTF-8", "tr_TR.UTF-8", "de_DE.UTF-8"])
def test_locale(check, etch, locale):
    want = check("wrong.o", "past.o", "--ignore", "etch-i*:x", ok=2)
    env = dict(os.environ, LC_ALL=locale, LANG=locale, LANGUAGE=locale[:2])
    assert check("wrong.o", "past.o", "--ignore", "etch-i*:x", ok=2, env=env).stderr == want.stderr
    assert check("wrong.o", "past.o", ok=1, env=env).stdout == check("wrong.o", "past.o", ok=1).stdout


def test_nothing_asks_for_the_locale(etch):
    """Where a locale is not installed the test above says nothing; this one does."""
    undefined = run(["nm", "-D", "--undefined-only", etch]).stdout
    assert "printf" in undefined and not re.search(r"\bsetlocale\b", undefined)


# ---- processes and output ------------------------------------------------------------------------------

def test_any_number_of_processes_says_the_same(check, work, archives):
    (work / "many").mkdir()
    for i in range(40):
        shutil.copy(work / ["wrong.o", "past.o", "clean.o"][i % 3], work / "many" / f"{i:02}.o")
    (work / "many" / "20.o").write_bytes((work / "many" / "20.o").read_bytes()[:700])
    args = ["many", "plain.a", "outer.a", "missing", "--level", "note"]
    for form in ("text", "json", "sarif"):
        want = check("--format", form, *args, ok=2)
        assert len(want.stderr.splitlines()) == 2
        for jobs in (2, 3, 64):
            got = check("--format", form, "-j", jobs, *args, ok=2)
            assert (got.stdout, got.stderr) == (want.stdout, want.stderr)


# libLLVM, which clang is linked with: libLLVM-14.so.1, libLLVM.so.19.1.
BIG = max(glob.glob("/usr/lib/x86_64-linux-gnu/libLLVM*.so*"), key=os.path.getsize, default="")


def children(pid):
    try:
        return [int(c) for c in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
    except FileNotFoundError:
        return []


def at_work(pid):
    """The worker that has the large file: one that has computed for 30 ms. One that is ended before
    it takes a file costs none."""
    end = time.monotonic() + 60
    while time.monotonic() < end:
        for child in children(pid):
            try:
                fields = Path(f"/proc/{child}/stat").read_text().rsplit(") ", 1)[1].split()
            except (FileNotFoundError, ProcessLookupError):
                continue
            if int(fields[11]) * 1000 >= 30 * os.sysconf("SC_CLK_TCK"):
                return child
        time.sleep(0.005)
    raise AssertionError("no worker computes")


@pytest.mark.parametrize("jobs", [1, 2])
def test_a_worker_that_is_killed_costs_one_file(etch, work, jobs):
    assert os.path.exists(BIG)  # which takes long enough to be caught at
    p = subprocess.Popen([etch, "check", "-j", str(jobs), BIG, "wrong.o", "past.o"], cwd=work, text=True,
                         stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    os.kill(at_work(p.pid), signal.SIGSEGV)
    out, err = p.communicate(timeout=120)
    assert p.returncode == 2
    assert err == f"etch: {BIG}: etch was killed by signal 11 (SIGSEGV) while processing it\n"
    assert re.findall(r"\[(ETCH-\w+) ", out) == ["ETCH-C001", "ETCH-I002"]
    assert re.search(r"^1 error, 1 warning in 2 files \(.*1 file could not be used\)$", out, re.M)


def test_after_a_worker_that_was_killed_another_goes_on(etch, work):
    """The next file gets a new one."""
    p = subprocess.Popen([etch, "check", "-j1", BIG, "wrong.o"], cwd=work, text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    os.kill(at_work(p.pid), signal.SIGKILL)
    out, err = p.communicate(timeout=120)
    assert "signal 9 (SIGKILL)" in err and "wrong.o: wrong+0x1" in out and p.returncode == 2


def test_under_make(etch, work):
    """A recipe of make -j: the jobs are make's, and what is printed is the same."""
    (work / "many").mkdir()
    for i in range(12):
        shutil.copy(work / ["wrong.o", "clean.o"][i % 2], work / "many" / f"{i:02}.o")
    (work / "Makefile").write_text(f"check:\n\t+@{etch} check --fail-on never many\n")
    env = {k: v for k, v in os.environ.items() if k not in ("MAKEFLAGS", "MFLAGS", "MAKELEVEL")}
    want = run([etch, "check", "--fail-on", "never", "many"], cwd=work).stdout
    assert run(["make", "-s", "-j3", "check"], cwd=work, env=env).stdout == want
    assert run(["make", "-s", "check"], cwd=work, env=env).stdout == want


def test_workers_go_with_their_parent(etch, work):
    """Two files for two workers: one file under two names is looked at once."""
    shutil.copy(BIG, work / "second.so")
    p = subprocess.Popen([etch, "check", "-j2", BIG, "second.so"], cwd=work, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    end = time.monotonic() + 60
    while len(found := children(p.pid)) < 2 and time.monotonic() < end:
        time.sleep(0.005)
    assert len(found) == 2
    p.kill()
    p.communicate(timeout=60)
    while any(os.path.exists(f"/proc/{c}/exe") and os.path.realpath(f"/proc/{c}/exe") == str(etch.resolve()) for c in found):
        assert time.monotonic() < end + 30
        time.sleep(0.01)


@pytest.mark.parametrize("ignored", [False, True])
def test_a_reader_that_goes_away(etch, work, ignored):
    files = [work / "wrong.o"] * 2000
    p = subprocess.Popen([etch, "check", "--format", "json", *files], stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                         restore_signals=not ignored)
    p.stdout.read(1)
    p.stdout.close()
    err = p.stderr.read()
    p.stderr.close()
    assert p.wait(60) == (2 if ignored else -signal.SIGPIPE)
    assert (b"cannot write: Broken pipe" in err) == ignored


def test_a_full_disk(etch, work):
    for form in ("text", "json", "sarif"):
        with open("/dev/full", "w") as full:
            p = run([etch, "check", "--format", form, "wrong.o"], ok=2, cwd=work, stdout=full, stderr=subprocess.PIPE)
        assert p.stderr == "etch: standard output: cannot write: No space left on device\n"


def test_output_goes_to_a_file_as_a_whole(check, work, sarif_schema):
    for form in ("text", "json", "sarif"):
        want = check("--format", form, "wrong.o", "past.o", ok=1).stdout
        (work / "out").write_text("before")
        (work / "out").chmod(0o640)
        p = check("--format", form, "-o", "out", "wrong.o", "past.o", ok=1)
        assert p.stdout == p.stderr == "" and (work / "out").read_text() == want
        assert (work / "out").stat().st_mode & 0o777 == 0o640
    assert sorted(x.name for x in work.iterdir()) == ["clean.o", "out", "past.o", "wrong.o"]


def test_input_is_left_alone(check, work):
    before = {p: (p.read_bytes(), p.stat().st_mtime_ns) for p in work.iterdir()}
    check("-j2", ".", ok=1)
    assert {p: (p.read_bytes(), p.stat().st_mtime_ns) for p in work.iterdir()} == before


# ---- other files under the sanitizers ----------------------------------------------------------------------

def test_mutants_of_objects(etch_asan, work):
    """Findings of damaged files, in every format: no report of the sanitizers, no lost worker."""
    mutants, files = mutate.Mutator((work / "past.o").read_bytes(), 6), []
    for i in range(60):
        files.append(work / f"m{i}.o")
        files[-1].write_bytes(mutants.make()[1])
    for form in ("text", "json", "sarif"):
        p = subprocess.run([etch_asan, "check", "-j2", "--level", "note", "--format", form, "--ignore", "ETCH-I*:m1*", *files],
                           capture_output=True, text=True, cwd=work, env=asan_env(), timeout=300)
        assert p.returncode in (1, 2), p.stderr
        assert "Sanitizer" not in p.stderr and "etch exited" not in p.stderr and "was killed" not in p.stderr, p.stderr
        if form == "json":
            valid_json(p)
