# SPDX-License-Identifier: MIT
"""etch profile --diff and --merge: files of folded stacks, whose shares are known."""

import gzip
import re
import xml.etree.ElementTree as ET

import pytest

from conftest import run
from pprof_reader import read_pprof

SVG = "{http://www.w3.org/2000/svg}"


def write(path, **counts):
    path.write_text("".join(f"app;main;{name} {n}\n" for name, n in counts.items()))
    return path


def titles(path):
    """{name: lines of its title} and {name: its colour}."""
    groups = list(ET.parse(path).iter(SVG + "g"))
    lines = {g.find(SVG + "title").text.split("\n")[0]: g.find(SVG + "title").text.split("\n")[1:] for g in groups}
    return lines, {g.find(SVG + "title").text.split("\n")[0]: g.find(SVG + "rect").get("fill") for g in groups}


def test_shares_are_compared(etch, tmp_path):
    """Twice as many samples are no change; what has grown is red, what has shrunk blue, the rest grey."""
    old = write(tmp_path / "old", same=5000, less=3000, gone=1000, almost=1000)
    new = write(tmp_path / "new", same=10000, less=2000, more=6000, almost=2001)
    text = run([etch, "profile", "--diff", "-o", tmp_path / "d.svg", old, new]).stderr
    rows = {name: (float(a), float(b), float(c)) for a, b, c, name in re.findall(r"^ *([\d.]+)% +([\d.]+)% +([-+][\d.]+)  (.*)$", text, re.M)}
    assert set(rows) == {"less", "gone", "more"}
    assert rows["more"] == (0, 30.0, 30.0) and rows["less"] == (30.0, 10.0, -20.0) and rows["gone"] == (10.0, 0, -10.0), rows
    assert "old: 1 run, 10000 samples; new: 1 run, 20001 samples (+100.0%)" in text and "within the noise" in text
    lines, colours = titles(tmp_path / "d.svg")
    assert lines["more"] == ["old 0.00%, new 30.00%", "change +30.00%"] and lines["all"][0] == "old 100.00%, new 100.00%"
    red, green, blue = map(int, re.fullmatch(r"rgb\((\d+),(\d+),(\d+)\)", colours["more"]).groups())
    assert red == 255 and green == blue < 120
    red, green, blue = map(int, re.fullmatch(r"rgb\((\d+),(\d+),(\d+)\)", colours["less"]).groups())
    assert blue == 255 and red == green < 200
    assert colours["same"] == colours["almost"] == colours["main"] == "#e4e4e0"


def test_noise(etch, tmp_path):
    """A difference that chance explains is no change: 51 and 60 of 100 samples; 5100 and 6000 of 10,000 is one. Five runs of each
    are judged by their ranks, whatever the numbers are."""
    for n, changed in ((1, False), (100, True)):
        old, new = write(tmp_path / "old", a=51 * n, b=49 * n), write(tmp_path / "new", a=60 * n, b=40 * n)
        assert ("no function has changed" not in run([etch, "profile", "--diff", old, new]).stderr) == changed
    olds = [write(tmp_path / f"old{i}", a=5000 + d, b=5000 - d) for i, d in enumerate((0, 300, -200, 100, -400))]
    for shift, changed in ((250, False), (900, True)):
        news = [write(tmp_path / f"new{i}", a=5000 + shift + d, b=5000 - shift - d) for i, d in enumerate((50, -300, 200, -100, 400))]
        text = run([etch, "profile", "--diff", *olds, "--", *news]).stderr
        assert ("no function has changed" not in text) == changed, text
        assert "old: 5 runs, 10000 samples; new: 5 runs, 10000 samples" in text


def test_a_program_under_two_names(etch, tmp_path):
    """./old and ./new are one program, if each file has one that the other has not."""
    (tmp_path / "a").write_text("old;main;f 500\nold;main;g 500\n")
    (tmp_path / "b").write_text("new;main;f 5000\nnew;main;g 5000\n")
    run([etch, "profile", "-q", "--diff", "-o", tmp_path / "d.svg", tmp_path / "a", tmp_path / "b"])
    lines, _ = titles(tmp_path / "d.svg")
    assert set(lines) == {"all", "old -> new", "main", "f", "g"} and lines["f"][0] == "old 50.00%, new 50.00%"


def test_bytes_have_no_chance(etch, tmp_path):
    old, new = write(tmp_path / "old", a=51, b=49), write(tmp_path / "new", a=60, b=40)
    text = run([etch, "profile", "--diff", "--unit", "bytes", old, new]).stderr
    assert "+9.00  a" in text and "old: 1 run, 100 bytes" in text


def test_merge(etch, tmp_path):
    """Several runs added up, in each format."""
    files = [write(tmp_path / "1", f=10, g=5), write(tmp_path / "2", f=20, h=7)]
    run([etch, "profile", "-q", "--merge", "-o", tmp_path / "all.folded", *files])
    assert sorted((tmp_path / "all.folded").read_text().splitlines()) == ["app;main;f 30", "app;main;g 5", "app;main;h 7"]
    text = run([etch, "profile", "--merge", "-o", tmp_path / "all.svg", *files]).stderr
    assert re.search(r"^ 71.43%  71.43%  f$", text, re.M) and text.endswith("42 samples in all\n")
    assert titles(tmp_path / "all.svg")[0]["f"] == ["30 samples, 71.43%"]
    run([etch, "profile", "-q", "--merge", "-o", tmp_path / "all.pb.gz", *files])
    profile = read_pprof(gzip.decompress((tmp_path / "all.pb.gz").read_bytes()))
    assert profile.types == [("samples", "count")] and {s.names[0]: s.values[0] for s in profile.samples} == {"f": 30, "g": 5, "h": 7}


def test_what_etch_has_written(etch, tmp_path):
    """The kernel's functions, and waits, come back as they were."""
    text = "app;main;read;do_syscall_64_[k];vfs_read_[k] 5\napp;main;poll;[waiting] 7\napp;main;[kernel] 3\n"
    (tmp_path / "a").write_text(text)
    run([etch, "profile", "-q", "--merge", "-o", tmp_path / "b", tmp_path / "a"])
    assert sorted((tmp_path / "b").read_text().splitlines()) == sorted(text.splitlines())


@pytest.mark.parametrize("args,message", [
    (["--diff", "a"], "--diff needs two files of folded stacks, OLD NEW, or several of each: OLD... -- NEW..."),
    (["--merge"], "--merge needs files of folded stacks"),
    (["--diff", "a", "missing"], "missing: No such file or directory"),
    (["--diff", "a", "."], ".: Is a directory"),
    (["--diff", "a", "empty"], "empty: it has no stacks"),
    (["--diff", "a", "words"], "words: line 2 is not stacks and a number: it has no number (see --format folded)"),
    (["--diff", "a", "minus"], "minus: line 1 is not stacks and a number: it has no number (see --format folded)"),
    (["--diff", "a", "large"], "large: line 1 is not stacks and a number: its number is not one of 0 to 2^50 (see --format folded)"),
    (["--diff", "a", "binary"], "binary: line 1 is not text: not a file of folded stacks"),
    (["--diff", "-o", "d.json", "a", "a"], "--diff draws a picture: name a file that ends in .svg, or use --format svg"),
    (["--merge", "--unit", "hours", "a"], "--unit must be samples, us or bytes, not 'hours'"),
])
def test_wrong(etch, tmp_path, args, message):
    for name, text in {"a": "x;y 1\n", "empty": "", "words": "x;y 1\nhello\n", "minus": "a -5\n", "large": "a 99999999999999999999\n",
                       "binary": "a\0b 1\n"}.items():
        (tmp_path / name).write_text(text)
    assert run([etch, "profile", *args], ok=2, cwd=tmp_path).stderr == f"etch: {message}\n"
    assert not (tmp_path / "d.json").exists()


def test_a_long_name_is_cut_between_characters(etch, tmp_path):
    for name, shown in (("ü" * 78, "ü" * 78), ("ü" * 79, "ü" * 75 + "..."), ("xü" + "é" * 100, "xü" + "é" * 73 + "...")):
        (tmp_path / "a").write_text(f"main;{name} 10\n")
        assert f"%  {shown}\n" in run([etch, "profile", "--merge", tmp_path / "a"]).stderr
