# SPDX-License-Identifier: MIT
"""What `make install` puts in place is enough to build and run a program."""

import collections
import os
import re
import shutil

import pytest

from compilers import installed as compilers_installed
from conftest import ROOT, run

PROGRAM = """
#include <etch/imv.h>
#include <stdio.h>

DEFINE_IMV(int, level) = 3;

int main(void)
{
	int before = imv_read(level), err = imv_set(level, 4);

	printf("%d %d %d %s\\n", before, err, imv_read(level), etch_strerror(err));
	return 0;
}
"""


@pytest.fixture(scope="module")
def installed(build, tmp_path_factory):
    """make install with DESTDIR, as a packager would; the prefix is the place
    where the files will be used."""
    dest = tmp_path_factory.mktemp("dest")
    prefix = tmp_path_factory.mktemp("prefix") / "usr"
    run(["make", "-s", "-C", ROOT, "-o", "all", f"B={os.path.relpath(build, ROOT)}", f"DESTDIR={dest}", f"PREFIX={prefix}", "install"])
    shutil.move(f"{dest}{prefix}", prefix)
    return prefix


def pkg_config(prefix, *args):
    env = dict(os.environ, PKG_CONFIG_PATH=str(prefix / "lib/pkgconfig"))
    return run(["pkg-config", *args, "etch"], env=env).stdout.split()


@pytest.mark.parametrize("packager", ["deb", "rpm"])
def test_packages_have_all_that_is_installed(build, tmp_path, packager):
    """The files that a package is made from, which are not the whole tree, are enough for make install."""
    (files,) = re.findall(r"^git ls-files -z (.*?) \|", (ROOT / "scripts" / f"{packager}.sh").read_text(), re.M)
    for name in run(["git", "-C", ROOT, "ls-files", "-z", *files.split()]).stdout.split("\0"):
        if (ROOT / name).is_file():
            (tmp_path / "tree" / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(ROOT / name, tmp_path / "tree" / name)
    run(["make", "-s", "-C", tmp_path / "tree", "-o", "all", f"B={build}", f"DESTDIR={tmp_path / 'to'}", "PREFIX=/usr", "install"])
    assert (tmp_path / "to/usr/share/doc/etch/README.md").stat().st_size > 1000


def test_nothing_is_installed_outside_the_prefix(build, tmp_path):
    run(["make", "-s", "-C", ROOT, "-o", "all", f"B={os.path.relpath(build, ROOT)}", f"DESTDIR={tmp_path}", "PREFIX=/opt/e", "install"])
    files = {str(p.relative_to(tmp_path)) for p in tmp_path.rglob("*") if not p.is_dir()}
    assert all(f.startswith("opt/e/") for f in files)
    headers = {f"opt/e/include/etch/{h.name}" for h in (ROOT / "lib/include/etch").glob("*.h*")}
    pages = {f"opt/e/share/man/man{p.suffix[1:]}/{p.name}" for p in (ROOT / "docs/man").glob("*.[1-8]")}
    crate = {f"opt/e/share/etch/rust/{p.relative_to(ROOT / 'lib/rust')}"
             for p in [*(ROOT / "lib/rust").glob("src/*.rs"), ROOT / "lib/rust/Cargo.toml", ROOT / "lib/rust/build.rs"]}
    docs = {f"opt/e/share/doc/etch/{p.relative_to(ROOT / 'docs')}" for pattern in ("*.md", "*.svg", "guides/*", "tutorials/*", "schemas/*")
            for p in (ROOT / "docs").glob(pattern)}
    assert headers and pages and len(crate) > 5 and len(docs) > 50
    assert files == headers | pages | crate | docs | {
        *(f"opt/e/share/etch/{name}" for name in ("meson/meson.build", "bazel/WORKSPACE", "bazel/BUILD.bazel", "bazel/defs.bzl")),
        "opt/e/bin/etch", "opt/e/lib/libetch.a", "opt/e/lib/libetch.so", "opt/e/lib/libetch.so.0",
        "opt/e/lib/libetch-unwind.a", "opt/e/lib/libetch-unwind.so", "opt/e/lib/libetch-unwind.so.0", "opt/e/lib/pkgconfig/etch-unwind.pc",
        "opt/e/lib/libetch-exceptions.a", "opt/e/lib/libetch-exceptions.so", "opt/e/lib/libetch-exceptions.so.0",
        "opt/e/lib/pkgconfig/etch-exceptions.pc",
        "opt/e/lib/etch/libetch-heap.so",
        "opt/e/lib/pkgconfig/etch.pc", "opt/e/bin/etch-cc", "opt/e/lib/cmake/etch/etch-config.cmake",
        "opt/e/lib/cmake/etch/etch-config-version.cmake", "opt/e/share/bash-completion/completions/etch",
        "opt/e/share/zsh/site-functions/_etch", "opt/e/share/fish/vendor_completions.d/etch.fish"}
    assert str(tmp_path) not in (tmp_path / "opt/e/lib/pkgconfig/etch.pc").read_text()


def test_links_of_the_installed_pages(installed):
    """Each leads to an installed page or heading, and nothing but links has changed."""
    docs = installed / "share/doc/etch"
    pages = sorted(docs.rglob("*.md"))
    link = re.compile(r"\[([^\]]*)\]\(([^)\s]+)\)")
    kept = 0
    for page in pages:
        text = page.read_text()
        for _, target in link.findall(re.sub(r"(?ms)^```.*?^```$", "", text)):
            if re.match(r"https?:", target):
                continue
            file, _, heading = target.partition("#")
            path = (page.parent / file).resolve() if file else page
            assert path.exists() and path.is_relative_to(docs.resolve()), (page.name, target)
            titles = [] if path.is_dir() else re.findall(r"^#+ (.*)$", path.read_text(errors="replace"), re.M)
            assert not heading or heading in {re.sub(r"[^\w\- ]", "", t.lower()).replace(" ", "-") for t in titles}, (page.name, target)
            kept += 1
        source = (ROOT / "docs" / page.relative_to(docs)).read_text()
        assert link.sub(r"\1", text) == link.sub(r"\1", source), page.name
    assert len(pages) > 40 and kept > 100


@pytest.mark.parametrize("static", [False, True], ids=["shared", "static"])
def test_a_program_builds_from_pkg_config_alone(installed, cc, static, tmp_path):
    source, obj, exe = tmp_path / "t.c", tmp_path / "t.o", tmp_path / "t"
    source.write_text(PROGRAM)
    run([cc, "-O2", *pkg_config(installed, "--cflags"), "-c", "-o", obj, source])
    run([installed / "bin/etch", "rewrite", obj])
    libs = pkg_config(installed, "--libs", *(["--static"] if static else []))
    run([cc, *(["-static"] if static else []), "-o", exe, obj, *libs])
    run([installed / "bin/etch", "rewrite", exe])
    env = dict(os.environ, LD_LIBRARY_PATH=str(installed / "lib"))
    assert run([exe], env=env).stdout.startswith("3 0 4 ")


def test_the_shared_library_has_its_soname(installed):
    out = run(["readelf", "-dW", installed / "lib/libetch.so"]).stdout
    assert "Library soname: [libetch.so.0]" in out


def test_the_version_is_the_same_everywhere(installed):
    version = pkg_config(installed, "--modversion")
    assert run([installed / "bin/etch", "--version"]).stdout.split()[-1:] == version


@pytest.mark.parametrize("command,objects", [
    (["-c", "-o", "y z.o", "yuv.c"], ["y z.o"]),
    (["-o", "a.o", "-c", "yuv.c"], ["a.o"]),
    (["-oa'\".o", "-c", "yuv.c"], ["a'\".o"]),
    (["--output=a.o", "-c", "yuv.c"], ["a.o"]),
    (["-pipe", "-MD", "-c", "yuv.c", "two words.c"], ["yuv.o", "two words.o"]),
    (["@args"], ["of args.o"]),
])
def test_etch_cc_finds_what_was_written(installed, cc, command, objects, tmp_path):
    (tmp_path / "yuv.c").write_text(PROGRAM)
    (tmp_path / "two words.c").write_text(PROGRAM.replace("main", "other"))
    (tmp_path / "args").write_text("-c 'yuv.c'\n-o \"of args.o\"\n")
    flags = ["-O2", *pkg_config(installed, "--cflags")]
    env = dict(os.environ, ETCH=str(installed / "bin/etch"))
    run([installed / "bin/etch-cc", cc, *flags, *command], cwd=tmp_path, env=env)
    for name in objects:
        assert ".etch.undo" in run(["readelf", "-SW", f"./{name}"], cwd=tmp_path).stdout, name


def test_etch_cc_without_a_compiler_is_cc(installed, tmp_path):
    """As build systems call a linker for which they take one word."""
    (tmp_path / "t.c").write_text(PROGRAM)
    env = dict(os.environ, ETCH=str(installed / "bin/etch"))
    run([installed / "bin/etch-cc", "-O2", *pkg_config(installed, "--cflags"), "-c", "t.c"], cwd=tmp_path, env=env)
    assert ".etch.undo" in run(["readelf", "-SW", "t.o"], cwd=tmp_path).stdout


def test_etch_cc_leaves_no_output_when_it_fails(installed, cc, tmp_path):
    """As compilers do: make would take the object for done the next time."""
    (tmp_path / "t.c").write_text(PROGRAM)
    env = dict(os.environ, ETCH=str(installed / "bin/etch"), ETCH_OPTIONS="--no-such-option")
    p = run([installed / "bin/etch-cc", cc, *pkg_config(installed, "--cflags"), "-c", "t.c"], cwd=tmp_path, env=env, ok=2)
    assert p.stderr and not (tmp_path / "t.o").exists()


def test_etch_cc_makes_space_for_constants(flow, tmp_path):
    """Of fields that another file defines, read one by one; not where the user says so, nor in code for a shared library."""
    fields = "".join(f"short s{k}; long l{k}; int a{k}, b{k};" for k in range(4))
    (tmp_path / "read.c").write_text(f"struct o {{ {fields} }}; extern struct o o; struct {{ int a, b, c, d; }} out;\n"
                                     "int sum(int k); int sum(int k) { out.a = o.a0; out.b = o.b0; out.c = o.a0; out.d = o.b0;\n"
                                     "return k ? o.s1 + o.s2 : o.a1 + o.a2 + o.b3 + (int)o.l0; }\n")
    (tmp_path / "main.c").write_text("#include <etch/imv.h>\n" f"struct o {{ {fields} }}; int sum(int); ETCHED struct o o;\n"
                                     "int main(int c, char **v) { (void)v; return sum(c); }\n")

    def loads(compile_flags, **more):
        for name in ("read", "main"):
            run([ROOT / "tool/etch-cc", flow.cc, "-O2", *compile_flags, f"-I{ROOT}/lib/include", "-c", "-o", f"{name}.o", f"{name}.c"], cwd=tmp_path,
                env=dict(os.environ, ETCH=str(flow.etch), **more))
        exe = flow.link([tmp_path / "read.o", tmp_path / "main.o"], [], "t")
        flow.rewrite(exe)
        return collections.Counter(s["live"] in ("yes", "swap") for s in flow.sites(exe) if s["kind"] == "load")
    assert not loads([])[False]
    assert not loads(["-fPIE"])[False]
    assert loads(["-fPIC"])[False]
    assert loads([], ETCH_READS="no")[False] or flow.cc == "gcc"


@pytest.mark.parametrize("name, version, expected", [
    ("gcc-12", "12", "-fno-tree-slp-vectorize"),
    ("gcc-14", "14.2.0", "-fno-tree-slp-vectorize"),
    ("gcc-15", "15", "-fno-tree-slp-vectorize -fno-gcse -fno-move-loop-invariants"),
    ("x86_64-linux-gnu-g++", "16.2.0", "-fno-tree-slp-vectorize -fno-gcse -fno-move-loop-invariants -fno-speculatively-call-stored-functions"),
    ("cc", "17.0.1", "-fno-tree-slp-vectorize -fno-gcse -fno-move-loop-invariants -fno-speculatively-call-stored-functions"),
    ("clang-22", "22.1.8", "-fno-slp-vectorize -fdirect-access-external-data"),
    ("gcc-odd", "unknown", "-fno-tree-slp-vectorize"),
])
def test_etch_cc_gives_each_compiler_its_options(tmp_path, name, version, expected):
    """By family and version, after the user's; nothing where it does not compile, and nothing with ETCH_READS=no."""
    compiler = tmp_path / name
    compiler.write_text(f"#!/bin/sh\ncase $* in -dumpversion) echo {version} ;; --version) echo a compiler ;; *-E*) ;; *) echo \"$@\" ;; esac\n")
    compiler.chmod(0o755)

    def given(*words, **more):
        return run([ROOT / "tool/etch-cc", *words], cwd=tmp_path, env=dict(os.environ, **more)).stdout.strip()
    command = ["-O2", "-c", "t.c"]
    assert given(compiler, *command) == f"{' '.join(command)} {expected}"
    assert given(compiler, *command, ETCH_READS="no") == " ".join(command)
    assert given(compiler, "-o", "t", "t.o") == "-o t t.o"
    launcher = tmp_path / "launcher"
    launcher.write_text('#!/bin/sh\nexec "$@"\n')
    launcher.chmod(0o755)
    assert given(launcher, compiler, *command) == f"{' '.join(command)} {expected}"


# gcc 15 and later keep the address of an object in a register around a loop, and where reads are on several paths.
ADDRESS_KEPT = """struct o { char pad[92]; int a, b, c, d; }; extern struct o o; void f(int), g(int); int k(int);
void loop(void); void loop(void) { for (int i = 0; i < o.a; i++) f(i); }
struct s { struct s *next; int v; };
void chain(struct s *s);
void chain(struct s *s) { for (; s; s = s->next) { if (k(s->v) == 1) { g(o.b); continue; } if (o.c == 1) f(1); if (k(3)) f(o.d); } }
"""


@pytest.mark.parametrize("compiler", compilers_installed(r"(gcc|clang)(-\d+)?"))
def test_etch_cc_keeps_addresses_out_of_registers(etch, build, tmp_path, compiler):
    """By every compiler that is installed: all reads of an object of another file are long enough."""
    (tmp_path / "read.c").write_text(ADDRESS_KEPT)
    (tmp_path / "main.c").write_text("#include <etch/imv.h>\nstruct o { char pad[92]; int a, b, c, d; }; struct s; void loop(void), chain(struct s *);\n"
                                     "ETCHED struct o o; void f(int n) { (void)n; } void g(int n) { (void)n; } int k(int n) { return n; }\n"
                                     "int main(void) { loop(); chain(0); return etch_sync(&o, 1); }\n")
    exe = tmp_path / "t"
    run([ROOT / "tool/etch-cc", compiler, "-O2", f"-I{ROOT}/lib/include", "-o", exe, "read.c", "main.c", build / "libetch.a", "-pthread"], cwd=tmp_path,
        env=dict(os.environ, ETCH=str(etch)))
    lines = run([etch, "inspect", "sites", "--format", "tsv", exe]).stdout.splitlines()
    sites = [dict(zip(lines[0].split("\t"), line.split("\t"))) for line in lines[1:]]
    live = [s["live"] for s in sites if s["kind"] == "load"]
    assert len(live) >= 4 and set(live) <= {"yes", "swap"}, live


# gcc 16 compares ops.one with the one function that it has seen in that field, and calls any other through a register.
ONE_FUNCTION = """#include <etch/pv.h>
struct ops { long (*one)(long), (*tail)(long); };
static long plus(long x) { return x + 1; }
__attribute__((noinline)) long minus(long x) { __asm__ volatile(""); return x - 1; }
DEFINE_PV_OPS(struct ops, ops) = { plus, minus };
__attribute__((noinline)) long calls(long x) { return ops.one(x) * 3; }
__attribute__((noinline)) long tails(long x) { return ops.tail(x); }
int main(int argc, char **argv) { (void)argv; return argc > 1 ? pv_set(ops.one, minus) : (int)(calls(1) - 6 + tails(1)); }
"""


@pytest.mark.parametrize("compiler", compilers_installed(r"(gcc|clang)(-\d+)?"))
def test_etch_cc_keeps_calls_as_they_are_written(etch, build, tmp_path, compiler):
    """By every compiler that is installed: a call of the only function that is ever stored is one through its slot, and direct."""
    (tmp_path / "t.c").write_text(ONE_FUNCTION)
    run([ROOT / "tool/etch-cc", compiler, "-O2", f"-I{ROOT}/lib/include", "-o", "t", "t.c", build / "libetch.a", "-pthread"], cwd=tmp_path,
        env=dict(os.environ, ETCH=str(etch)))
    lines = run([etch, "inspect", "sites", "--format", "tsv", tmp_path / "t"]).stdout.splitlines()
    sites = [dict(zip(lines[0].split("\t"), line.split("\t"))) for line in lines[1:]]
    assert sorted(s["kind"] for s in sites) == ["call", "jmp"] and {s["live"] for s in sites} <= {"yes", "swap"}, sites
    run([tmp_path / "t"])


@pytest.mark.skipif(not shutil.which("cmake"), reason="no cmake")
def test_cmake_package_of_a_distribution_moved(build, tmp_path):
    """Libraries in lib/TRIPLET, and the whole not where it was installed for."""
    run(["make", "-s", "-C", ROOT, "-o", "all", f"B={os.path.relpath(build, ROOT)}", f"DESTDIR={tmp_path}", "PREFIX=/opt/none",
         "LIBDIR=/opt/none/lib/x86_64-linux-gnu", "install"])
    prefix = (tmp_path / "opt/none").rename(tmp_path / "moved")
    (tmp_path / "CMakeLists.txt").write_text(
        "cmake_minimum_required(VERSION 3.16)\nproject(p CXX)\nfind_package(etch REQUIRED)\n"
        "add_executable(p t.cc)\netch_target(p)\netch_target(p)\nif(AGAIN)\n  etch_target(p ${AGAIN})\nendif()\n")
    (tmp_path / "t.cc").write_text(PROGRAM)
    configure = ["cmake", "-S", tmp_path, "-B", tmp_path / "b", f"-Detch_DIR={prefix}/lib/x86_64-linux-gnu/cmake/etch"]
    run(configure)
    log = run(["cmake", "--build", tmp_path / "b", "--verbose"]).stdout
    assert run([tmp_path / "b/p"]).stdout.startswith("3 0 4 ")
    # etch_target() twice is once: one launcher, one step after the link.
    assert [line.count("/etch-cc ") for line in log.splitlines() if " -c " in line] == [1]
    assert log.count("/etch rewrite ") == 1
    assert "has been given to it before" in run([*configure, "-DAGAIN=STATIC"], ok=1).stderr
