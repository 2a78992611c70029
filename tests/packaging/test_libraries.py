# SPDX-License-Identifier: MIT
"""tool/libs.sh, which finds out what the tool links with, on systems whose archives lack something; and the package names of
scripts/deps.sh, which must hold in more than one release."""
import os
import re
import subprocess

import pytest

from conftest import ROOT, TESTS, run

LIBRARIES = ["dw", "elf", "json-c", "xxhash", "protobuf-c", "z", "iberty", "Zydis", "capstone"]
PKG_CONFIG = """#!/bin/sh
for package; do
	case $package in
	--*) ;;
	zlib) echo -lz ;;
	libelf) echo "-lelf $CLOSURE" ;;
	*) echo "-l${package#lib}" ;;
	esac
done
"""


FUNCTIONS = {name: "f_" + re.sub(r"\W", "_", name) for name in ["extra", *LIBRARIES]}


@pytest.fixture(scope="module")
def objects(tmp_path_factory):
    """An object with a function of each library: libdw calls libelf's, that calls one of libextra. And the tool, which calls
    one of each library."""
    folder = tmp_path_factory.mktemp("objects")
    needs = {"dw": "f_elf", "elf": "f_extra"}
    for name, f in FUNCTIONS.items():
        inner = f"{needs[name]}()" if name in needs else "0"
        (folder / f"{name}.c").write_text((f"int {needs[name]}(void);\n" if name in needs else "") + f"int {f}(void) {{ return {inner}; }}\n")
    used = [f for name, f in FUNCTIONS.items() if name not in ("extra", "capstone", "Zydis")]
    (folder / "tool.c").write_text("".join(f"int {f}(void);\n" for f in used) + f"int main(void) {{ return {'() + '.join(used)}(); }}\n")
    run(["gcc", "-c", "-fPIC", *sorted(folder.glob("*.c"))], cwd=folder)
    return folder


@pytest.fixture
def system(objects, tmp_path):
    """Makes a system with these archives, and returns what the script says there."""
    def make(archives, closure="", mode=()):
        for name in archives:
            run(["ar", "rcs", tmp_path / f"lib{name}.a", objects / f"{name}.o"])
        # A shared library has all that it needs.
        run(["gcc", "-shared", "-o", tmp_path / "libelf.so", objects / "elf.o", objects / "extra.o"])
        for name in LIBRARIES:
            if name not in ("iberty", "elf"):
                run(["gcc", "-shared", "-nostdlib", "-o", tmp_path / f"lib{name}.so", objects / f"{name}.o"])
        (tmp_path / "pkg-config").write_text(PKG_CONFIG)
        (tmp_path / "pkg-config").chmod(0o755)
        return subprocess.run(
            [ROOT / "tool" / "libs.sh", *mode, f"gcc -B{tmp_path}/ -L{tmp_path} -Wl,-rpath-link={tmp_path}", objects / "tool.o"],
            text=True, capture_output=True, env={**os.environ, "CLOSURE": closure, "PATH": f"{tmp_path}:{os.environ['PATH']}"})
    return make


def static(p):
    assert p.returncode == 0, p.stderr
    return {name for name in [*LIBRARIES, "extra"] if f"-l:lib{name}.a" in p.stdout.split()}


ALL = {*LIBRARIES, "extra"} - {"Zydis", "capstone"}


def test_what_archives_need_in_turn_is_linked(system):
    assert static(system(ALL, closure="-lextra")) == ALL


@pytest.mark.parametrize("archives,closure", [(ALL, ""), (ALL - {"extra"}, "-lextra"), (ALL - {"elf"}, "-lextra"), (ALL - {"dw"}, "")],
                         ids=["not named", "not there", "no libelf.a", "no libdw.a"])
def test_archives_that_lack_something_are_not_linked(system, archives, closure):
    """libdw and libelf are of one kind, and the other libraries remain archives."""
    p = system(archives, closure)
    assert static(p) >= ALL - {"dw", "elf", "extra"}
    assert not static(p) >= {"dw", "elf"} and "-ldw" in p.stdout.split() and "-lelf" in p.stdout.split()


@pytest.mark.parametrize("gone", ["json-c", "xxhash", "protobuf-c", "z"])
def test_a_missing_archive_costs_one_library(system, gone):
    p = system(ALL - {gone}, closure="-lextra")
    assert static(p) == ALL - {gone} and f"-l{gone}" in p.stdout.split()


def test_one_static_file_is_refused_where_an_archive_lacks_something(system):
    p = system(ALL | {"capstone"}, mode=["--static"])
    assert p.returncode == 1 and "does not link with the archives of this system" in p.stderr and "f_extra" in p.stderr


def test_an_error_of_the_tool_is_shown(system):
    """What links with no libraries at all is no matter of archives."""
    p = system(ALL - {"iberty"}, closure="-lextra")
    assert p.returncode == 1 and "f_iberty" in p.stderr


@pytest.mark.parametrize("system_name", ["debian", "ubuntu", "fedora", "arch"])
def test_no_package_has_the_number_of_a_release(system_name):
    """clang-14 is in no release but Debian 12; a library's or a format's own number (libc6, python3, bzip2) is another thing."""
    whole, build = (run([ROOT / "scripts" / "deps.sh", "--print", system_name, *what]).stdout.split() for what in ([], ["build"]))
    assert set(build) < set(whole) and {"make", "gcc", "capstone" if system_name == "arch" else "binutils"} <= set(build)
    assert [p for p in whole if re.search(r"-\d+(\.\d+)?(-dev)?$", p)] == []


def test_an_unknown_system_is_an_error():
    p = run([ROOT / "scripts" / "deps.sh", "--print", "plan9"], ok=2)
    assert "plan9" in p.stderr and "fedora" in p.stderr


def test_no_test_runs_a_command_by_the_number_of_a_release():
    """llvm-readelf-14 is in Debian 12 alone, llvm-readelf in each. What is used only where it is installed may have one, and
    names of compilers that a test is about."""
    named = r"\"((?:clang(?:\+\+)?|gcc|g\+\+|lld|ld\.lld|llvm-(?!bolt-16\")[a-z]+)-\d+)\""
    found = {(f.name, name) for f in TESTS.rglob("*.py") if f.name not in ("test_compilers.py", "test_install.py") for name in re.findall(named, f.read_text())}
    assert not found
