# SPDX-License-Identifier: MIT
"""Names of C++ and Rust as people write them: in output, and where a command takes a function. Beside c++filt."""
import re
import subprocess

import pytest

from conftest import on_terminal, run

SOURCE = """
namespace ns {
struct shape {
    int area(int);
    int area(long);
    int edge();
};
__attribute__((noinline)) int shape::area(int x) { return x * 3; }
__attribute__((noinline)) int shape::area(long x) { return (int)x * 5; }
int shape::edge() { return area(2) + area(3L); }
}
int area(const char *s) { return ns::shape().edge() + *s; }
extern "C" int plain_one(void) { return area("x"); }
"""


@pytest.fixture(scope="module")
def shapes(tmp_path_factory):
    folder = tmp_path_factory.mktemp("demangle")
    (folder / "shapes.cc").write_text(SOURCE)
    subprocess.run(["g++", "-O1", "-shared", "-fPIC", "-fvisibility=hidden", "-o", folder / "shapes.so", folder / "shapes.cc"], check=True)
    return folder / "shapes.so"


def symbols(path):
    """Address of each demangled name, by nm."""
    out = subprocess.run(["nm", "-C", path], check=True, capture_output=True, text=True).stdout
    return {line.split(" ", 2)[2]: int(line.split()[0], 16) for line in out.splitlines() if line[0] != " "}


@pytest.mark.parametrize("text,name", [
    ("ns::shape::area(int)", "ns::shape::area(int)"),
    ("ns::shape::edge", "ns::shape::edge()"),
    ("edge", "ns::shape::edge()"),
    ("edge()", "ns::shape::edge()"),
    ("area(long)", "ns::shape::area(long)"),
    ("area", "area(char const*)"),          # a whole name comes before the end of one
    ("dge()", "ns::shape::edge()"),         # a part that one function alone has
    ("ain_on", "plain_one"),
    ("_ZN2ns5shape4edgeEv", "ns::shape::edge()"),
])
def test_function_by_name(etch, shapes, text, name):
    out = run([etch, "inspect", "code", "--format", "tsv", text, shapes]).stdout
    assert int(out.splitlines()[1].split("\t")[0], 16) == symbols(shapes)[name]


def test_place_by_demangled_name(etch, shapes):
    out = run([etch, "inspect", "orc", "--format", "tsv", "--at", "edge()+0x1", shapes]).stdout
    address, size = (int(x, base) for x, base in zip(out.splitlines()[1].split("\t")[:2], (16, 16)))
    assert address <= symbols(shapes)["ns::shape::edge()"] + 1 < address + size


def test_several_functions_fit(etch, shapes):
    r = run([etch, "inspect", "code", "ns::shape::area", shapes], ok=2)
    assert r.returncode == 2 and len(r.stderr.splitlines()) == 1
    assert "has 2 functions that 'ns::shape::area' may mean: ns::shape::area(int), ns::shape::area(long)" in r.stderr


def test_no_function_fits(etch, shapes):
    for text in ("nothing_like_it", "", "area(double)"):
        r = run([etch, "inspect", "code", text, shapes], ok=2)
        assert r.returncode == 2 and "has no function" in r.stderr


def test_output(etch, shapes):
    mangled, demangled = ("<_ZN2ns5shape4areaEi>", "<ns::shape::area(int)>")
    assert mangled in run([etch, "inspect", "code", "edge", shapes]).stdout  # a pipe
    assert demangled in run([etch, "inspect", "code", "-C", "edge", shapes]).stdout
    listing = run([etch, "inspect", "code", "--demangle", "--no-demangle", "edge", shapes]).stdout
    assert mangled in listing and demangled not in listing
    for form in "tsv", "json":  # for programs: as they are in the file
        assert demangled[1:-1] not in run([etch, "inspect", "code", "--format", form, "edge", shapes]).stdout
        p = run([etch, "inspect", "code", "-C", "--format", form, "edge", shapes], ok=2)
        assert p.stderr == "etch: --demangle needs --format text\n"


def test_diff(etch, shapes, tmp_path):
    source = tmp_path / "shapes.cc"
    source.write_text(SOURCE.replace("* 3", "* 3 / 7"))
    subprocess.run(["g++", "-O1", "-shared", "-fPIC", "-fvisibility=hidden", "-o", tmp_path / "shapes.so", source], check=True)
    for option, name in ("-C", "ns::shape::area(int)"), ("--no-demangle", "_ZN2ns5shape4areaEi"):
        assert name in run([etch, "diff", option, shapes, tmp_path / "shapes.so"], ok=1).stdout


def test_terminal(etch, shapes):
    status, out = on_terminal([etch, "inspect", "code", "edge", shapes], NO_COLOR="1")
    assert status == 0 and "<ns::shape::area(int)>" in out and "_ZN2ns" not in out and "\x1b" not in out
    status, coloured = on_terminal([etch, "inspect", "code", "edge", shapes])
    assert status == 0 and re.sub(r"\x1b\[\d*m", "", coloured) == out and "\x1b[2m" in coloured


def test_diff_on_a_terminal(etch, shapes, tmp_path):
    """The text is that of a pipe with --demangle; its marks have colours, unless they are not wanted."""
    source = tmp_path / "shapes.cc"
    source.write_text(SOURCE.replace("* 3", "* 3 / 7"))
    subprocess.run(["g++", "-O1", "-shared", "-fPIC", "-fvisibility=hidden", "-o", tmp_path / "shapes.so", source], check=True)
    for option in [], ["--show", "area(int)"]:
        argv = [etch, "diff", *option, shapes, tmp_path / "shapes.so"]
        plain = run([*argv, "--demangle"], ok=1).stdout
        assert on_terminal(argv, NO_COLOR="1") == on_terminal(argv, TERM="dumb") == (1, plain)
        status, out = on_terminal(argv)
        assert status == 1 and re.sub(r"\x1b\[\d*m", "", out) == plain
        colours = {line.lstrip("\x1b[0123456789m")[:2].strip() or " ": re.match(r"\x1b\[(\d+)m|", line).group(1) for line in out.splitlines()}
        assert colours["--"] == colours["++"] == "1" and colours[" "] is None
        if option:
            assert (colours["-"], colours["+"], colours["@@"]) == ("31", "32", "36")
        else:
            assert colours["~"] == "33"


def test_show_finds_what_people_mean(etch, shapes, tmp_path):
    source = tmp_path / "shapes.cc"
    source.write_text(SOURCE.replace("* 3", "* 3 / 7"))
    subprocess.run(["g++", "-O1", "-shared", "-fPIC", "-fvisibility=hidden", "-o", tmp_path / "shapes.so", source], check=True)
    files = [shapes, tmp_path / "shapes.so"]
    want = run([etch, "diff", "--show", "_ZN2ns5shape4areaEi", *files], ok=1).stdout
    for name in "ns::shape::area(int)", "shape::area(int)", "area(int)", "area(in":
        assert run([etch, "diff", "--show", name, *files], ok=1).stdout == want, name
    p = run([etch, "diff", "--show", "ns::shape::area", *files], ok=2)
    assert "there are several functions that 'ns::shape::area' may mean: " in p.stderr and p.stderr.count("ns::shape::area(int)") == 1
    for name in "ns::shape::volume", "":
        assert f"no function '{name}' in either file" in run([etch, "diff", "--show", name, *files], ok=2).stderr


# As c++filt: C++ with clones, both forms of Rust; not what only looks mangled.
NAMES = ["_ZN2ns5shape4areaEi.cold", "_ZSt4cout", "_ZTV3Foo", "_RNvC6_123foo3bar", "_RNvNtCs1234_7mycrate3foo3bar",
         "_ZN4core3fmt9Formatter9write_str17h0123456789abcdefE", "_Zoo", "_R", "_Zx_x"]


@pytest.mark.parametrize("name", NAMES)
def test_beside_cxxfilt(etch, tmp_path, name):
    source = tmp_path / "f.s"
    source.write_text(f'.globl "{name}"\n.type "{name}",@function\n"{name}": ret\n.size "{name}",.-"{name}"\n')
    subprocess.run(["cc", "-c", "-o", tmp_path / "f.o", source], check=True)
    shown = subprocess.run(["c++filt", name], check=True, capture_output=True, text=True).stdout.strip()
    shown = re.sub(r"\[[0-9a-f]+\]|::h[0-9a-f]{16}$", "", shown)  # hashes of crates
    assert f": {shown}, " in run([etch, "inspect", "code", "-C", name, tmp_path / "f.o"]).stdout


def test_name_that_grows_without_end(etch, tmp_path):
    """Each template argument doubles the one before it: 2^40 characters from 400."""
    name = "_Z1fI" + "1aIiiE" + "".join(f"1aIS{s}_S{s}_E" for s in [""] + [chr(c) for c in b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ"]) + "EvT_"
    source = tmp_path / "f.s"
    source.write_text(f".globl {name}\n.type {name},@function\n{name}: ret\n.size {name},.-{name}\n")
    subprocess.run(["cc", "-c", "-o", tmp_path / "f.o", source], check=True)
    r = run([etch, "inspect", "code", "-C", "--bytes", "0", tmp_path / "f.o"], timeout=20)
    assert "c3" in r.stdout
