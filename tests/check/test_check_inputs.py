# SPDX-License-Identifier: MIT
"""The files that names on the command line of `etch check` mean: directories, archives, lists,
compilation databases."""

import json
import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from check_files import archives, check, made, sarif_schema, work  # noqa: F401 (fixtures)
from check_files import CLEAN, ar_member, ids, totals, valid_json
from conftest import asan_env, run
from test_bad_input import BAD

def paths(p):
    return [f["path"] + (f"({f['member']})" if "member" in f else "") for f in valid_json(p)["files"]]


def test_directories(check, work):
    tree = work / "tree"
    for d in ("b", "a/deep", "c.d"):
        (tree / d).mkdir(parents=True)
    for name in ("b/x.o", "a/deep/y.o", "a/Z.o", "c.d/program", "a.o"):
        shutil.copy(work / "wrong.o", tree / name)
    run(["gcc", "-m32", "-c", "-x", "c", "-o", tree / "b/thirty-two.o", "-"], input="int x;")
    (tree / "b" / "text.txt").write_text("text")
    (tree / "b" / "empty.o").write_text("")
    (tree / "loop").symlink_to(".")
    (tree / "link.o").symlink_to("a.o")
    (tree / "out").symlink_to("..")
    os.mkfifo(tree / "fifo")
    run(["ar", "rc", tree / "lib.a", work / "wrong.o"])
    # By bytes, a directory where its name stands; the links and the pipe are not looked at.
    want = ["a/Z.o", "a/deep/y.o", "a.o", "b/x.o", "c.d/program", "lib.a(wrong.o)"]
    for named, prefix in (("tree", "tree/"), ("tree/", "tree/"), (str(tree), f"{tree}/")):
        p = check("--format", "json", named, ok=1)
        assert paths(p) == [prefix + w for w in want] and valid_json(p)["summary"]["skipped"] == 3
    assert "3 other files skipped" in check("tree", ok=1).stdout
    # What has been named is looked at, link or not.
    assert paths(check("--format", "json", "tree/link.o", ok=1)) == ["tree/link.o"]
    assert check("tree/b/text.txt", ok=2).stderr == "etch: tree/b/text.txt: is not an ELF file\n"
    # Nothing in it, or nothing of ours: no clean bill for a build that went elsewhere.
    (work / "empty").mkdir()
    (work / "texts").mkdir()
    shutil.copy(tree / "b" / "text.txt", work / "texts")
    (work / "list").write_text("texts\n")
    # An archive without members is none of those: glibc's libpthread.a is one.
    run(["ar", "rc", work / "none.a"])
    assert check("none.a").stdout == "no findings in 0 files\n"
    for named, what in (("empty", "empty"), ("texts", "texts"), ("--files-from=list", "texts")):
        p = check(named, ok=2)
        assert p.stderr == f"etch: {what}: is a directory without x86-64 ELF files\n"
        assert totals(p).startswith("no findings in 0 files (") and "1 file could not be used" in totals(p)


@pytest.mark.parametrize("name", BAD)
def test_bad_files(check, work, name):
    """One that is named is an error; one that is found is, where it says that it is one of ours."""
    make, reason = BAD[name]
    (work / "d").mkdir()
    (work / "d" / "bad.o").write_bytes(make((work / "past.o").read_bytes()))
    p = check("d/bad.o", "clean.o", ok=2)
    assert re.fullmatch(f"etch: d/bad.o: .*({reason}).*\n", p.stderr, re.I)
    assert totals(p) == "no findings in 1 file (1 file could not be used)"
    head = (work / "d" / "bad.o").read_bytes()[:20]
    ours = (len(head) == 20 and head[:4] == b"\x7fELF" and head[4:6] == b"\2\1" and head[18:20] == b"\x3e\0" and
            head[16] in (1, 2, 3) and not head[17])
    shutil.copy(work / "clean.o", work / "d")
    p = check("d", ok=2 if ours else 0)
    assert totals(p) == ("no findings in 1 file (1 file could not be used)" if ours else
                         "no findings in 1 file (1 other file skipped)")
    run(["ar", "rc", "bad.a", "d/bad.o", "wrong.o"], cwd=work)
    p = check("bad.a", ok=2 if ours else 1)
    assert ids(p) == ["ETCH-C001"] and p.stderr.count("etch: bad.a(bad.o): ") == ours


def test_archives(check, work, archives):
    plain = ["wrong.o", archives, "clean.o", "wrong.o#2"]
    p = check("--format", "json", "plain.a", ok=1)
    assert paths(p) == [f"plain.a({m})" for m in plain] and valid_json(p)["summary"]["skipped"] == 1
    # The two of one name are not the same file.
    found = {f["member"]: [x["id"] for x in f["findings"] if x["severity"] != "note"] for f in valid_json(p)["files"]}
    assert found == {"wrong.o": ["ETCH-C001"], archives: ["ETCH-C001"], "clean.o": [], "wrong.o#2": ["ETCH-I002"]}
    assert "plain.a(wrong.o#2): past" in check("plain.a", ok=1).stdout
    p = check("--format", "json", "outer.a", ok=1)
    assert paths(p) == [f"outer.a(plain.a({m}))" for m in plain[:3]] + ["outer.a(plain.a(wrong.o)#2)", "outer.a(past.o)"]
    p = check("--format", "json", "bsd.a", ok=1)
    assert paths(p) == ["bsd.a(a member's name.o)"] and valid_json(p)["summary"]["found"]["errors"] == 1


def test_thin_archives(check, work, archives, etch):
    for cwd, name in ((work, "sub/thin.a"), (work / "sub", "thin.a"), (Path("/"), str(work / "sub/thin.a"))):
        p = check("--format", "json", name, ok=1, cwd=cwd)
        assert paths(p) == [f"{name}(../wrong.o)", f"{name}(wrong.o)", f"{name}(../clean.o)"]
        assert [len([x for x in f["findings"] if x["severity"] != "note"]) for f in valid_json(p)["files"]] == [1, 1, 0]
    # ar takes the members of an archive that it is given for a thin one.
    d = valid_json(check("--format", "json", "flat.a", ok=1))
    assert [sorted(x["id"] for x in f["findings"] if x["severity"] != "note") for f in d["files"]] == [
        ["ETCH-C001"], ["ETCH-C001"], [], ["ETCH-I002"], ["ETCH-I002"]]
    (work / "wrong.o").unlink()
    p = check("sub/thin.a", ok=2)
    assert re.fullmatch(r"etch: sub/thin.a\(../wrong.o\): its file sub/../wrong.o cannot be read: No such file.*\n", p.stderr)
    assert "ETCH-I002" in p.stdout  # the others have been looked at


BROKEN = {
    "header cut": lambda a: a + b"x" * 30,
    "member cut": lambda a: a[:-100],
    "no magic": lambda a: a + b"x" * 60,
    "size is no number": lambda a: a + ar_member(b"x.o/", b"").replace(b"644     0 ", b"644     z "),
    "size past the end": lambda a: a + ar_member(b"x.o/", b"").replace(b"644     0         ", b"644     9999999999"),
    "long name outside": lambda a: a + ar_member(b"/99999", b"x"),
    "BSD name past the member": lambda a: a + ar_member(b"#1/200", b"x"),
}


@pytest.mark.parametrize("name", BROKEN)
def test_broken_archives(check, work, archives, name, etch_asan):
    whole = (work / "plain.a").read_bytes()
    (work / "broken.a").write_bytes(BROKEN[name](whole))
    p = check("broken.a", ok=2)
    assert re.fullmatch(r"etch: broken.a: is a (malformed|truncated) archive.*\n", p.stderr)
    assert len(ids(p)) >= 2  # what stands before has been looked at
    q = run([etch_asan, "check", "broken.a"], ok=2, cwd=work, env=asan_env())
    assert (q.stdout, q.stderr) == (p.stdout, p.stderr)


def test_archives_in_archives_have_an_end(check, work):
    inner = (work / "wrong.o").read_bytes()
    for _ in range(12):
        inner = b"!<arch>\n" + ar_member(b"x.a/", inner)
    (work / "deep.a").write_bytes(inner)
    p = check("deep.a", ok=2)
    assert "8 deep" in p.stderr
    # A thin archive whose member is itself.
    (work / "self.a").write_bytes(b"!<thin>\n" + ar_member(b"//", b"self.a/\n") + b"/0".ljust(16) +
                                  b"0           0     0     644     100       `\n")
    assert check("self.a").stdout == "no findings in 0 files (1 other file skipped)\n"


def test_mutants_of_archives(etch_asan, work, archives):
    """Whatever an archive says, nobody crashes: a worker that does is an error of its own."""
    bad = []
    for source in ("plain.a", "sub/thin.a", "outer.a", "bsd.a"):
        data = (work / source).read_bytes()
        heads = [m.start() for m in re.finditer(rb"(?s)[^\n]{58}`\n", data)] + [0]
        for i in range(25):
            mutant = bytearray(data)
            at = heads[i % len(heads)] + (i * 7) % 60
            for k in range(1 + i % 3):
                if at + k < len(mutant):
                    mutant[at + k] = b"/0#9z \xff:\0"[(i + k) % 9]
            path = (work / source).parent / f"mutant-{i}-{Path(source).name}"
            path.write_bytes(mutant)
            bad.append(path)
    p = subprocess.run([etch_asan, "check", "-j2", "--format", "json", *bad], capture_output=True, text=True, cwd=work,
                       env=asan_env(), timeout=300)
    assert p.returncode in (1, 2), p.stderr
    assert "Sanitizer" not in p.stderr and "etch exited" not in p.stderr and "was killed" not in p.stderr, p.stderr
    assert valid_json(p)["summary"]["unusable"] > 5


def test_compile_commands(check, work):
    (work / "build").mkdir()
    (work / "with space").mkdir()
    for name in ("build/one.o", "build/two.o", "build/three.o", "with space/four.o", "five.o"):
        shutil.copy(work / "wrong.o", work / name)
    entries = [
        {"directory": str(work / "build"), "file": "../one.c", "output": "one.o", "command": "cc -o wrong.o -c ../one.c"},
        {"directory": str(work / "build"), "file": "two.c", "arguments": ["cc", "-o", "first.o", "-c", "two.c", "-otwo.o"]},
        {"directory": str(work / "build"), "file": "../src/three.cpp", "command": "c++ -O2 -c ../src/three.cpp"},
        {"directory": str(work), "file": "4.c", "command": "cc -c 4.c -DX=\"a\\\"b\" -o 'with space/four.o'"},
        {"directory": "/nowhere", "file": "5.c", "command": f"cc -c 5.c -o {work}/fi\\ve.o"},
        {"directory": str(work / "build"), "file": "../one.c", "output": "one.o"},
        {"directory": str(work / "build"), "file": "6.c", "command": "cc -c 6.c -o six.o"},
        {"directory": str(work / "build"), "file": "7.c", "command": "cc 7.c"},
    ]
    (work / "compile_commands.json").write_text(json.dumps(entries))
    p = check("--format", "json", "compile_commands.json", ok=2)
    d = valid_json(p)
    assert [os.path.relpath(f["path"], work) for f in d["files"] if "error" not in f] == [
        "build/one.o", "build/two.o", "build/three.o", "with space/four.o", "five.o"]
    assert p.stderr.splitlines() == [f"etch: {work}/build/six.o: No such file or directory",
                                     "etch: compile_commands.json: entry 7: its command names no output (-o)"]
    for text in ("", "{}", "[", "7", '[{"output": 3}]'):
        (work / "bad.json").write_text(text)
        p = check("bad.json", ok=2)
        assert re.fullmatch(r"etch: bad.json: (is not a compilation database|entry 0: ).*\n", p.stderr), text
    (work / "none.json").write_text("[]")
    assert check("none.json").stdout == "no findings in 0 files\n"


def test_a_real_compile_commands(check, work):
    (work / "CMakeLists.txt").write_text("cmake_minimum_required(VERSION 3.16)\nproject(p C)\nadd_library(p STATIC a.c b.c)\n")
    for name in ("a", "b"):
        (work / f"{name}.c").write_text(CLEAN.replace("clean", name))
    run(["cmake", "-B", "out dir", "-DCMAKE_EXPORT_COMPILE_COMMANDS=ON", "-G", "Ninja"], cwd=work)
    run(["ninja", "-C", "out dir"], cwd=work)
    assert sorted(Path(x).name for x in paths(check("--format", "json", "out dir/compile_commands.json"))) == ["a.c.o", "b.c.o"]


def test_lists(check, work):
    (work / "d").mkdir()
    shutil.copy(work / "wrong.o", work / "d" / "x.o")
    text = "past.o\n\nd\nclean.o"  # an empty line; a directory; no newline at the end
    want = ["past.o", "d/x.o", "clean.o"]
    assert paths(check("--format", "json", "-", ok=1, input=text)) == want
    (work / "list").write_text(text)
    assert paths(check("--format", "json", "--files-from", "list", ok=1)) == want
    assert paths(check("--format", "json", "wrong.o", "--files-from", "list", ok=1)) == ["wrong.o", *want]
    assert paths(check("--format", "json", "-0", "--files-from=-", ok=1, input=text.replace("\n\n", "\n").replace("\n", "\0"))) == want
    assert check("-", input="").stdout == "no findings in 0 files\n"
    assert "(-0: " in check("-", input="a\0b\n", ok=2).stderr


@pytest.mark.parametrize("command", [["check"], ["inspect", "summary"]])
def test_a_member_that_is_no_regular_file_says_so(etch, work, command):
    """The class: a reason is that of what failed, and not of a call before. A device, a pipe and a directory can be
    opened, so that there is no error number to be told."""
    os.mkfifo(work / "pipe")
    (work / "folder").mkdir()
    names = ["/dev/null", "pipe", "folder"]
    table = "".join(f"{n}/\n" for n in names).encode()
    thin = b"!<thin>\n" + b"//".ljust(48) + str(len(table)).encode().ljust(10) + b"`\n" + table + b"\n" * (len(table) & 1)
    for n in names:
        thin += (b"/%d" % table.index(n.encode())).ljust(16) + b"0".ljust(12) + b"0".ljust(6) * 2 + b"644".ljust(8) + b"64".ljust(10) + b"`\n"
    (work / "thin.a").write_bytes(thin)
    if command == ["check"]:
        p = run([etch, *command, "thin.a"], ok=2, cwd=work)
        said = p.stderr.splitlines()
    else:
        said = [run([etch, *command, f"thin.a({n})"], ok=2, cwd=work).stderr.strip() for n in names]
    assert len(said) == 3 and all("Success" not in x and "No such" not in x for x in said), said
    assert [x.endswith("is a directory" if "folder" in x else "is not a regular file") for x in said] == [True] * 3, said
