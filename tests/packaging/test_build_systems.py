# SPDX-License-Identifier: MIT
"""Real packages, built with etch by each build system of docs/guides: their own tests pass, and what was linked is rewritten.
Small projects in tests/style/test_guides.py follow the pages."""
import os
import re
import shutil

import pytest

from conftest import fetch, run
from test_guides import bazel_home, installed  # noqa: F401 (fixture)


def rewritten(path):
    return ".etch.unwind" in run(["readelf", "-SW", path]).stdout


def need(*tools):
    missing = [tool for tool in tools if not shutil.which(tool)]
    if missing:
        pytest.skip(f"not installed, and not needed to build etch: {' '.join(missing)}")


@pytest.fixture
def tinyxml2(tmp_path):
    """A library of C++ with a program of tests, and files for CMake, Meson and make."""
    return shutil.copytree(fetch("tinyxml2"), tmp_path / "tinyxml2")


@pytest.mark.long
@pytest.mark.parametrize("generator", ["Unix Makefiles", "Ninja"])
@pytest.mark.parametrize("shared", ["ON", "OFF"])
def test_cmake(installed, tinyxml2, generator, shared):
    need("cmake", "ninja")
    with open(tinyxml2 / "CMakeLists.txt", "a") as f:
        f.write("find_package(etch REQUIRED)\netch_target(tinyxml2)\netch_target(xmltest)\n")
    out = tinyxml2 / "out"
    run(["cmake", "-B", out, "-G", generator, f"-DBUILD_SHARED_LIBS={shared}", "-DBUILD_TESTING=ON"], cwd=tinyxml2, env=installed)
    run(["cmake", "--build", out, "-j", "2"], cwd=tinyxml2, env=installed)
    assert "100% tests passed" in run(["ctest"], cwd=out, env=installed).stdout
    assert rewritten(out / "xmltest") and (shared == "OFF" or rewritten(out / "libtinyxml2.so"))
    if generator == "Ninja":
        assert "no work to do" in run(["ninja"], cwd=out, env=installed).stdout


@pytest.mark.long
def test_meson(installed, tinyxml2):
    need("meson", "ninja")
    run(["meson", "setup", "-Dtests=true", "out"], cwd=tinyxml2, env={**installed, "CXX": "etch-cc c++"})
    run(["ninja", "-C", "out"], cwd=tinyxml2, env=installed)
    assert re.search(r"Fail:\s+0", run(["meson", "test", "-C", "out"], cwd=tinyxml2, env=installed).stdout)
    assert rewritten(tinyxml2 / "out" / "libtinyxml2.so.9.0.0")


@pytest.mark.long
def test_meson_subproject(installed, tinyxml2):
    """The program of tests is another target, made by etch; it runs as a test, and is installed."""
    need("meson", "ninja", "pkg-config")
    shutil.copytree(run(["pkg-config", "--variable=mesondir", "etch"], env=installed).stdout.strip(), tinyxml2 / "subprojects" / "etch")
    with open(tinyxml2 / "meson.build", "a") as f:
        f.write("""
etch = subproject('etch')
linked = executable('linked', 'xmltest.cpp', link_with: lib_tinyxml2)
etched = custom_target('etched', input: linked, output: 'etched', kwargs: etch.get_variable('rewritten'))
test('etched', find_program('env'), args: etched, workdir: meson.current_source_dir())
""")
    run(["meson", "setup", "--prefix", tinyxml2 / "inst", "out"], cwd=tinyxml2, env=installed)
    run(["ninja", "-C", "out"], cwd=tinyxml2, env=installed)
    assert re.search(r"Fail:\s+0", run(["meson", "test", "-C", "out"], cwd=tinyxml2, env=installed).stdout)
    run(["meson", "install", "-C", "out"], cwd=tinyxml2, env=installed)
    assert rewritten(tinyxml2 / "inst" / "bin" / "etched") and not rewritten(tinyxml2 / "out" / "linked")


@pytest.mark.long
def test_bazel(installed, tinyxml2, tmp_path):
    """In two sandboxes of two places the same bytes; what one has cached is taken in the other."""
    need("bazel", "pkg-config")
    shutil.copytree(run(["pkg-config", "--variable=bazeldir", "etch"], env=installed).stdout.strip(), tinyxml2 / "rules_etch")
    for path in tinyxml2.rglob("BUILD*"):
        path.unlink()
    (tinyxml2 / "WORKSPACE").write_text("""
local_repository(name = "rules_etch", path = "rules_etch")
load("@rules_etch//:defs.bzl", "etch_repository")
etch_repository(name = "etch")
""")
    (tinyxml2 / "rules_etch" / "BUILD.bazel").write_text("")
    (tinyxml2 / "BUILD.bazel").write_text("""
load("@rules_etch//:defs.bzl", "etch_binary")
cc_library(name = "tinyxml2", srcs = ["tinyxml2.cpp"], hdrs = ["tinyxml2.h"], linkstatic = True)
cc_binary(name = "linked", srcs = ["xmltest.cpp"], deps = [":tinyxml2", "@etch//:libetch"])
etch_binary(name = "etched", binary = ":linked", options = ["--no-undo"])
""")
    made = []
    for place, cache in ("a", "1"), ("b", "2"), ("c/d", "1"):
        tree = shutil.copytree(tinyxml2, tmp_path / place / "tree", symlinks=True)
        env = dict(installed, HOME=str(bazel_home(tmp_path / place / "home")))
        p = run(["bazel", "build", f"--disk_cache={tmp_path}/cache{cache}", "//:etched"], cwd=tree, env=env, timeout=900)
        done = p.stderr.split("INFO: Elapsed")[1]
        made.append((tree / "bazel-bin" / "etched").read_bytes())
        if place == "c/d":
            assert re.search(r"\b4 (disk|remote) cache hit\b", done), done  # so Bazel 4 calls the directory, too
        else:
            assert "4 linux-sandbox" in done, done  # two compilers, the linker, etch
            assert ", Fail 0" in run([tree / "bazel-bin" / "etched"], cwd=tree).stdout and rewritten(tree / "bazel-bin" / "etched")
    assert made[0] == made[1] == made[2]


@pytest.mark.long
def test_make(installed, tinyxml2):
    run(["make", "CXX=etch-cc c++", "xmltest"], cwd=tinyxml2, env=installed)
    assert ", Fail 0" in run(["./xmltest"], cwd=tinyxml2, env=installed).stdout and rewritten(tinyxml2 / "xmltest")


@pytest.mark.long
def test_autotools(installed, tmp_path):
    source = shutil.copytree(fetch("hello"), tmp_path / "hello")
    for path in source.rglob("*"):  # what the package has generated is not older than its sources
        os.utime(path, (1e9, 1e9))
    run(["./configure", "CC=etch-cc cc", "--disable-nls"], cwd=source, env=installed, timeout=900)
    run(["make", "-j2", "MAKEINFO=true"], cwd=source, env=installed)
    assert rewritten(source / "hello") and run(["./hello"], cwd=source).stdout == "Hello, world!\n"
    assert re.search(r"# FAIL: +0", run(["make", "check", "MAKEINFO=true"], cwd=source, env=installed).stdout)


def test_cmake_warns_of_what_nothing_rewrites(installed, tmp_path):
    need("cmake")
    (tmp_path / "sub").mkdir()
    (tmp_path / "main.c").write_text("int main(void) { return 0; }\n")
    (tmp_path / "sub" / "CMakeLists.txt").write_text("add_executable(below ../main.c)\ntarget_link_libraries(below PRIVATE etch::static)\n")
    (tmp_path / "CMakeLists.txt").write_text("""cmake_minimum_required(VERSION 3.16)
project(app C)
find_package(etch REQUIRED)
find_package(etch REQUIRED)
add_subdirectory(sub)
foreach(name forgotten etched without)
  add_executable(${name} main.c)
endforeach()
etch_target(etched)
target_link_libraries(forgotten PRIVATE m etch::etch)
""")

    def warned(*options):
        p = run(["cmake", "-B", tmp_path / "out", *options], cwd=tmp_path, env=installed)
        return re.findall(r"(\w+) is linked\s+with\s+libetch", p.stderr)
    assert warned() == ["forgotten", "below"]
    assert warned("-DETCH_NO_WARNING=ON") == []
