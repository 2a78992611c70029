# SPDX-License-Identifier: MIT
"""libetch-exceptions: programs of tests/data/exceptions with libgcc's exceptions and with ours, in each mode: the same
output. ETCH_EXCEPTIONS=check compares each record with libgcc's own walk meanwhile, and has nothing to say."""
import os
import re
import shutil
import sys

import pytest
from conftest import DATA, INCLUDE, ROOT, TESTS, need, run, version

HERE = DATA / "exceptions"
CXX = {"gcc": "g++", "clang": "clang++"}
MODES = ["1", "abi", "check"]
WRAP = ["-Wl,--eh-frame-hdr", *(f"-Wl,--wrap=_Unwind_{name}" for name in ("RaiseException", "Resume", "Resume_or_Rethrow"))]
BUILDS = {
    "O0": ["gcc", "-O0"], "O1": ["gcc", "-O1"], "O2": ["gcc", "-O2"], "Os": ["gcc", "-Os"],
    "O3-frame-pointer": ["gcc", "-O3", "-fno-omit-frame-pointer"],
    "realigned": ["gcc", "-O3", "-mavx2", "-mstackrealign"],
    "no-pie": ["gcc", "-O2", "-no-pie", "-fno-pie"],
    "cf-protection": ["gcc", "-O2", "-fcf-protection=full"],
    "clang-O0": ["clang", "-O0"], "clang-O2": ["clang", "-O2"], "clang-Os": ["clang", "-Os"],
    "static-libgcc": ["gcc", "-O2", "-static-libgcc", "-DNO_JIT"],
    "static-libstdc++": ["gcc", "-O2", "-static-libstdc++"],
    # libc cleans up after std::call_once() by libgcc_s, whose contexts the program's own libgcc aborts at while it has not
    # walked itself.
    "static-both": ["gcc", "-O2", "-static-libgcc", "-static-libstdc++", "-DNO_CALL_ONCE"],
}


@pytest.fixture(scope="session")
def library(build):
    return build / "libetch-exceptions.so.0"


def preloaded(library, mode="1", **env):
    return {**os.environ, "LD_PRELOAD": str(library), "ETCH_EXCEPTIONS": mode, **env}


@pytest.fixture(scope="session")
def regex(once):
    return once("exceptions-regex", lambda d: run(["g++", "-std=c++17", "-O2", "-fPIC", "-c", "-o", d / "regex.o", HERE / "regex.cc"])) / "regex.o"


def zoo_make(directory, regex, cc, *flags, link=()):
    own = [f for f in flags if not f.startswith("-static")]
    run([cc, *own, "-fexceptions", "-c", "-o", directory / "c.o", HERE / "c_frames.c"])
    run([CXX[cc], "-std=c++17", *(["-fnon-call-exceptions"] if cc == "gcc" else []), *flags, "-Wall", "-Wextra", "-Werror", "-Wno-unused-exception-parameter", "-Wno-unknown-warning-option",
         "-rdynamic", "-o", directory / "zoo", HERE / "zoo.cc", directory / "c.o", regex, *link, "-pthread", "-ldl"])
    p = run([directory / "zoo"], timeout=60)
    (directory / "expected").write_text(p.stdout)
    (directory / "errors").write_text(p.stderr)


@pytest.fixture(scope="session")
def zoo(once, regex):
    def get(name):
        cc, *flags = BUILDS[name]
        return once(f"exceptions-{name}", lambda d: zoo_make(d, regex, cc, *flags))
    return get


def same(directory, argv, env):
    p = run(argv, env=env)
    assert p.stdout == (directory / "expected").read_text()
    assert p.stderr == (directory / "errors").read_text()


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("name", BUILDS)
def test_the_zoo_does_what_it_does_with_libgcc(zoo, library, name, mode):
    d = zoo(name)
    assert len((d / "expected").read_text().splitlines()) > 130
    same(d, [d / "zoo"], preloaded(library, mode))


def test_the_first_throw_on_a_small_stack(zoo, library):
    """Of 8 KiB. The dynamic linker's lazy resolver takes a part of it that depends on the processor: not here."""
    for name in ("O0", "O2"):
        assert run([zoo(name) / "zoo", "small"], env=preloaded(library, LD_BIND_NOW="1")).stdout == "small stack: abcd7\n"


@pytest.mark.parametrize("mode", MODES)
def test_a_static_program(once, build, zoo, regex, mode):
    """Linked with the archive: calls are led to it by --wrap."""
    def make(directory):
        run(["gcc", "-O2", "-fexceptions", "-c", "-o", directory / "c.o", HERE / "c_frames.c"])
        run(["g++", "-std=c++17", "-O2", "-fnon-call-exceptions", "-static", "-o", directory / "zoo", HERE / "zoo.cc",
             directory / "c.o", regex, *WRAP, build / "libetch-exceptions.a", "-pthread"])

    d = once("exceptions-static", make)
    p = run([d / "zoo"], env={**os.environ, "ETCH_EXCEPTIONS": mode, "ETCH_UNWIND_VERBOSE": "1"})
    assert p.stdout == (zoo("O2") / "expected").read_text()
    assert p.stderr == f"libetch-exceptions: in use{', checked' if mode == 'check' else ''}\n"


@pytest.mark.parametrize("mode", MODES)
def test_linked_before_libgcc(once, build, zoo, regex, library, mode):
    d = once("exceptions-linked", lambda d: zoo_make(d, regex, "gcc", "-O2", link=(f"-L{build}", "-Wl,--no-as-needed", "-letch-exceptions",
                                                                          f"-Wl,-rpath,{build}")))
    same(zoo("O2"), [d / "zoo"], {**os.environ, "ETCH_EXCEPTIONS": mode})


@pytest.mark.parametrize("mode", MODES)
def test_beside_the_drop_in_unwinder(zoo, build, library, mode):
    d = zoo("O2")
    for both in ([library, build / "libetch-unwind.so.0"], [build / "libetch-unwind.so.0", library]):
        env = preloaded(library, mode, ETCH_UNWIND_VERBOSE="1")
        p = run([d / "zoo"], env={**env, "LD_PRELOAD": ":".join(map(str, both))})
        assert p.stdout == (d / "expected").read_text() and "libetch-exceptions: in use" in p.stderr


@pytest.mark.parametrize("mode", MODES)
def test_panics_of_rust(once, library, mode):
    need("rustc")

    def make(directory):
        run(["g++", "-O2", "-c", "-o", directory / "cxx.o", HERE / "panics.cc"])
        run(["rustc", "--edition=2021", "-O", "-C", f"link-arg={directory / 'cxx.o'}", "-C", "link-arg=-lstdc++", "-o", directory / "zoo",
             HERE / "panics.rs"])
        (directory / "expected").write_text(run([directory / "zoo"]).stdout)
        (directory / "errors").write_text("")

    d = once("exceptions-rust", make)
    assert len((d / "expected").read_text().splitlines()) == 11
    same(d, [d / "zoo"], preloaded(library, mode))


# ---- other languages -------------------------------------------------------------------------------

def of_ada(optimize, *binder):
    return [("gnatmake", "-q", optimize, "-fnon-call-exceptions", "-D", ".", HERE / "languages" / "frames.adb", "-o", "frames", "-bargs", *binder,
             "-largs", "cxx.o", "-shared-libgcc", "-lstdc++")]


def of_objective_c(compiler, *flags):
    return [(compiler, "-std=gnu11", "-O2", "-w", "-fobjc-exceptions", "-fexceptions", *flags, "-o", "frames", HERE / "languages" / "frames.m",
             "cxx.o", "-lobjc", "-lstdc++", "-pthread")]


# name: commands, executed in a directory with cxx.o; lines of output
LANGUAGES = {
    "ada-O0": (of_ada("-O0", "-shared"), 33),
    "ada-O2": (of_ada("-O2", "-shared"), 33),
    "ada-static": (of_ada("-O2", "-static"), 33),
    "gdc-O0": ([("gdc", "-O0", "-shared-libphobos", "-o", "frames", HERE / "languages" / "frames.d", "cxx.o", "-lstdc++")], 23),
    "gdc-O2": ([("gdc", "-O2", "-shared-libphobos", "-o", "frames", HERE / "languages" / "frames.d", "cxx.o", "-lstdc++")], 23),
    "ldc": ([("ldc2", "-O2", "-od=.", "-of=frames", HERE / "languages" / "frames.d", "cxx.o", "-L-lstdc++")], 23),
    "objective-c": (of_objective_c("gcc"), 20),
    "objective-c-clang": (of_objective_c("clang", "-fobjc-runtime=gcc"), 20),
}


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("name", LANGUAGES)
def test_other_languages(once, library, name, mode):
    """With cleanups and handlers in each frame, nested and raised again, from and to C++."""
    commands, lines = LANGUAGES[name]
    if not shutil.which(commands[0][0]):
        pytest.skip(f"no {commands[0][0]}")
    if name.startswith("objective"):
        where = run(["gcc", "-print-file-name=include/objc/objc.h"]).stdout.strip()
        # libobjc's headers may be installed without the compiler.
        compiler = run(["gcc", "-print-prog-name=cc1obj"]).stdout.strip()
        if not os.path.isabs(where) or commands[0][0] == "gcc" and not os.path.isabs(compiler):
            pytest.skip("no gobjc")
        commands = [(*c[:1], f"-I{os.path.dirname(os.path.dirname(where))}", *c[1:]) for c in commands]

    if name.startswith("ada"):  # may be of another release than g++, and libstdc++ of its own is not installed then
        library_of_cxx = run(["g++", "-print-file-name=libstdc++.so"]).stdout.strip()
        commands = [(*c, f"-L{os.path.dirname(library_of_cxx)}") for c in commands]

    def make(directory):
        run(["g++", "-O2", "-c", "-o", directory / "cxx.o", HERE / "languages" / "cxx.cc"])
        for command in commands:
            run(command, cwd=directory)
        (directory / "expected").write_text(run([directory / "frames"], timeout=60).stdout)

    d = once(f"exceptions-{name}", make)
    assert len((d / "expected").read_text().splitlines()) == lines
    p = run([d / "frames"], env=preloaded(library, mode, ETCH_UNWIND_VERBOSE="1"), timeout=60)
    assert p.stdout == (d / "expected").read_text()
    assert re.fullmatch(rf"libetch-exceptions: in use by [^\n]*{', checked' if mode == 'check' else ''}\n", p.stderr)


# ---- odd times and places ---------------------------------------------------------------------------

@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("optimize", ["-O0", "-O2"])
def test_at_odd_times_and_places(once, library, optimize, mode):
    def make(directory):
        run(["g++", "-std=c++17", optimize, "-fnon-call-exceptions", "-o", directory / "edges", HERE / "edges.cc", "-pthread", "-ldl"])
        run(["g++", "-std=c++17", optimize, "-fPIC", "-shared", "-o", directory / "library.so", HERE / "edges_library.cc"])
        p = run(deep + [directory / "edges", directory / "library.so"])
        (directory / "expected").write_text(p.stdout)
        (directory / "errors").write_text(p.stderr)

    deep = ["sh", "-c", 'ulimit -s 65536; exec "$@"', "sh"]    # 100,000 frames have 16 MB
    d = once(f"exceptions-edges{optimize}", make)
    assert (d / "expected").read_text().splitlines()[-4:] == ["destructor: bottom", "thread_local object: 8", "atexit: 6", "static object: 8"]
    same(d, [*deep, d / "edges", d / "library.so"], preloaded(library, mode))


# ---- code that comes and goes ----------------------------------------------------------------------

@pytest.fixture(scope="session")
def plugins(once):
    def make(directory):
        for variant in range(4):
            for flags in ("--build-id", "--build-id=none"):
                run(["g++", "-std=c++17", "-O2", "-fPIC", "-shared", f"-DVARIANT={variant}", f"-Wl,{flags}", "-o",
                     directory / f"{variant}{flags[10:]}.so", HERE / "plugin.cc"])
    return once("exceptions-plugins", make)


@pytest.mark.parametrize("mode", MODES)
def test_another_library_at_the_same_address(zoo, library, plugins, mode):
    """With a build-id and without; and the same files again."""
    argv = [zoo("O2") / "zoo", *(plugins / f"{n}.so" for n in "01203112"), *(plugins / f"{n}=none.so" for n in "012031")]
    expected = run(argv).stdout
    p = run(argv, env=preloaded(library, mode))
    assert p.stdout == expected and p.stderr == "" and "returned" in expected


# ---- walks by others -------------------------------------------------------------------------------

@pytest.fixture(scope="session")
def steps(once, build):
    def get(optimize):
        return once(f"exceptions-steps{optimize}", lambda d: run(
            ["g++", "-std=c++17", optimize, f"-I{INCLUDE}", "-rdynamic", "-o", d / "steps", HERE / "steps.cc", build / "libetch.a",
             "-pthread", "-ldl"])) / "steps"
    return get


@pytest.mark.parametrize("optimize", ["-O2", "-Os"])
def test_a_walk_finds_the_stack_at_each_instruction(steps, library, optimize):
    """By libgcc's _Unwind_Backtrace() and by libetch's etch_backtrace_from()."""
    p = run([steps(optimize)], env=preloaded(library))
    found = re.search(r"libetch-exceptions\S*: (\d+) steps, (\d+) failed", p.stdout)
    assert found and int(found[1]) > 10000 and found[2] == "0", p.stdout + p.stderr


def test_libgcc_leaves_instructions_without(steps):
    """So the test above can fail; walks from there may also crash."""
    p = run([steps("-O2")], ok=None)
    found = re.search(r"(\d+) failed", p.stdout)
    assert p.returncode and (not found or int(found[1]) > 10)


def test_entries_of_a_build_with_cf_protection(tmp_path):
    """A call by a pointer may come to each of them, and the file is marked as one that a shadow stack may be used with: there
    the library stays out of the way."""
    run(["gcc", "-fcf-protection=full", "-c", "-o", tmp_path / "entry.o", ROOT / "lib" / "exceptions" / "entry_x86.S"])
    code = run(["objdump", "-d", tmp_path / "entry.o"]).stdout
    assert len(re.findall(r"<_Unwind_\w+>:\n[^\n]*\bendbr64\b", code)) == 3
    assert "x86 feature: IBT, SHSTK" in run(["readelf", "-n", tmp_path / "entry.o"]).stdout


# ---- in use or not ---------------------------------------------------------------------------------

def test_it_exports_what_it_replaces_and_no_more(library):
    names = run(["nm", "-D", "--defined-only", library]).stdout.split()[2::3]
    assert sorted(names) == ["_Unwind_RaiseException", "_Unwind_Resume", "_Unwind_Resume_or_Rethrow"]


def test_the_drop_in_unwinder_raises_nothing(build):
    names = run(["nm", "-D", "--defined-only", build / "libetch-unwind.so.0"]).stdout
    assert not re.search("Raise|Resume|ForcedUnwind", names)


@pytest.mark.parametrize("name, by", [
    ("O2", "in use by the program, libstdc++.so.6"), ("clang-O2", "in use by the program, libstdc++.so.6"),
    ("static-libgcc", "in use by libstdc++.so.6"),
    ("static-libstdc++", "in use by the program"),
    ("static-both", "not in use yet: no loaded file raises its exceptions through libgcc_s.so.1"),
])
@pytest.mark.parametrize("bind", ["", "1"])
def test_it_says_whose_exceptions_it_raises(zoo, library, name, by, bind):
    p = run([zoo(name) / "zoo", "types"], env=preloaded(library, ETCH_UNWIND_VERBOSE="1", LD_BIND_NOW=bind))
    assert p.stderr == f"libetch-exceptions: {by}\n"


def test_it_says_whether_it_is_in_use(zoo, library):
    argv, said = [zoo("O2") / "zoo", "types"], {}
    for mode in ("0", "check"):
        said[mode] = run(argv, env=preloaded(library, mode, ETCH_UNWIND_VERBOSE="1")).stderr
    assert said == {mode: f"libetch-exceptions: {words}\n" for mode, words in
                    [("0", "not in use: ETCH_EXCEPTIONS=0"), ("check", "in use by the program, libstdc++.so.6, checked")]}


def test_a_definition_that_comes_first_is_noticed(once, zoo, regex, library):
    """The program's own: no call reaches the library, whatever the files import."""
    def make(directory):
        (directory / "own.c").write_text(STAND_IN % ("RaiseException", "RaiseException"))
        run(["gcc", "-D_GNU_SOURCE", "-O2", "-c", "-o", directory / "own.o", directory / "own.c"])
        run(["gcc", "-O2", "-fexceptions", "-c", "-o", directory / "c.o", HERE / "c_frames.c"])
        run(["g++", "-std=c++17", "-O2", "-fnon-call-exceptions", "-rdynamic", "-o", directory / "zoo", HERE / "zoo.cc", directory / "c.o",
             regex, directory / "own.o", "-pthread", "-ldl"])

    d = once("exceptions-own", make)
    p = run([d / "zoo", "types"], env=preloaded(library, ETCH_UNWIND_VERBOSE="1"))
    assert p.stderr == "libetch-exceptions: not in use yet: no loaded file raises its exceptions through libgcc_s.so.1\n"
    assert p.stdout == run([zoo("O2") / "zoo", "types"]).stdout


STAND_IN = r"""
#include <dlfcn.h>
#include <stdlib.h>
/* Another unwinder, whose contexts libgcc's functions know nothing of. */
int _Unwind_%s(void *e)
{
	int (*next)(void *) = (int (*)(void *))dlsym(RTLD_NEXT, "_Unwind_%s");
	return next(e);
}
"""


@pytest.mark.parametrize("name, why", [
    ("RaiseException", "exceptions are raised by another library than libgcc_s.so.1"),
    ("GetIP", "another library than libgcc_s.so.1 reads the contexts of exceptions"),
])
def test_beside_another_unwinder_it_stays_out_of_the_way(zoo, library, tmp_path, name, why):
    (tmp_path / "other.c").write_text(STAND_IN % (name, name))
    run(["gcc", "-D_GNU_SOURCE", "-O2", "-shared", "-fPIC", "-o", tmp_path / "other.so", tmp_path / "other.c", "-ldl"])
    d = zoo("O2")
    env = preloaded(library, ETCH_UNWIND_VERBOSE="1")
    p = run([d / "zoo"], env={**env, "LD_PRELOAD": f"{library}:{tmp_path / 'other.so'}"})
    assert p.stdout == (d / "expected").read_text()
    assert p.stderr == f"libetch-exceptions: not in use: {why}\n"


def test_with_musl_it_stays_out_of_the_way(library, tmp_path):
    """A program of musl starts with the library preloaded. libgcc_s.so.1 of such a system is played by one without contents."""
    need("musl-gcc")
    names = [n.split("@")[0] for n in run(["nm", "-D", "--undefined-only", library]).stdout.split() if n.startswith("_Unwind_")]
    names += ["_Unwind_RaiseException", "_Unwind_Resume", "_Unwind_Resume_or_Rethrow"]
    (tmp_path / "gcc.c").write_text("".join(f"void {n}(void) {{}}\n" for n in names))
    run(["musl-gcc", "-shared", "-fPIC", "-o", tmp_path / "libgcc_s.so.1", tmp_path / "gcc.c"])
    (tmp_path / "t.c").write_text("#include <stdio.h>\nint main(void)\n{\n\treturn puts(\"runs\") < 0;\n}\n")
    run(["musl-gcc", "-o", tmp_path / "t", tmp_path / "t.c"])
    p = run([tmp_path / "t"], env=preloaded(library, LD_LIBRARY_PATH=str(tmp_path), ETCH_UNWIND_VERBOSE="1"))
    assert p.stdout == "runs\n"
    assert p.stderr == "libetch-exceptions: not in use: this libc has no _dl_find_object()\n"


def test_a_process_without_the_variable(zoo, library):
    """A set-user-ID program would ignore it; the library needs none."""
    d = zoo("O2")
    env = {k: v for k, v in os.environ.items() if not k.startswith("ETCH_")}
    same(d, [d / "zoo"], {**env, "LD_PRELOAD": str(library)})


# ---- random programs ------------------------------------------------------------------------------

GRAPHS = {"gcc-O0": 1, "gcc-O1": 2, "gcc-O2": 3, "gcc-O3": 4, "gcc-Os": 5, "clang-O0": 6, "clang-O1": 7, "clang-O2": 8, "clang-O3": 9,
          "clang-Os": 10}
THROWS = 1_000_000 if os.environ.get("ETCH_TESTS") == "all" else 100_000


@pytest.fixture(scope="session")
def graphs(once):
    def make(directory, cc, optimize, seed):
        flags = [CXX[cc], "-std=c++17", optimize, "-w", f"-I{HERE}"]
        # gcc 16.2 removes stores that a handler reads: some runs of such a program are wrong with libgcc alone, and none without this pass.
        if cc == "gcc" and version("gcc") >= 16:
            flags.append("-fno-tree-dse")
        for i in range(4):
            source = directory / f"graph{i}.cc"
            source.write_text(run([sys.executable, TESTS / "exceptions" / "graph.py", 10 * seed + i, 14 if i else 24]).stdout)
            if i:
                run([*flags, "-fPIC", "-shared", "-Wl,--build-id", "-o", directory / f"{i}.so", source])
        run([*flags, "-fnon-call-exceptions" if cc == "gcc" else "-fasynchronous-unwind-tables", "-o", directory / "graph",
             directory / "graph0.cc", HERE / "graph_main.cc", "-pthread", "-ldl"])

    def get(name):
        cc, optimize = name.split("-")
        return once(f"exceptions-graph-{name}", lambda d: make(d, cc, "-" + optimize, GRAPHS[name]))
    return get


@pytest.mark.parametrize("mode", ["1", "check"])
@pytest.mark.parametrize("name", GRAPHS)
def test_random_programs(graphs, library, name, mode):
    """Four threads, beside dlopen and dlclose, fork and a signal a millisecond; each run is judged by the same program with
    return codes, and by its callee-saved registers."""
    d = graphs(name)
    count = THROWS if mode == "1" else THROWS // 5
    p = run([d / "graph", count, *(d / f"{i}.so" for i in (1, 2, 3))], env=preloaded(library, mode), timeout=1200)
    found = re.match(r"(\d+) throws, 0 wrong, (\d+) loads, (\d+) children, (\d+) signals", p.stdout)
    assert found and p.stderr == "" and int(found[1]) >= count and all(int(n) for n in found.groups()), p.stdout + p.stderr


# ---- a wrong record --------------------------------------------------------------------------------

def test_a_damaged_record_is_noticed(zoo, library, build, tmp_path):
    """The library with one saved register of each record moved: check says so, and the exception is libgcc's; without
    it the program goes wrong."""
    source = (ROOT / "lib" / "exceptions" / "records.c").read_text()
    mark = "\tr.module = (uint16_t)module;\n"
    assert source.count(mark) == 1
    damage = "\tif (r.saved & 1 << FRAME_RBX)\n\t\tr.slot[FRAME_RBX]--;\n"
    (tmp_path / "records.c").write_text(source.replace(mark, mark + damage))
    sources = [p for folder in ("unwind", "exceptions") for p in (ROOT / "lib" / folder).glob("*.[cS]") if p.stem != "records"]
    objects = [build / "o" / p.relative_to(ROOT).with_suffix(".o") for p in sources]
    run(["gcc", "-std=gnu11", "-D_GNU_SOURCE", "-DETCH_NO_MODULE", "-O2", "-fPIC", "-fvisibility=hidden", f"-I{ROOT / 'lib'}", f"-I{INCLUDE}",
         "-shared", "-o", tmp_path / "damaged.so", tmp_path / "records.c", *objects, "-pthread", "-Wl,--no-as-needed",
         "-l:libgcc_s.so.1"])
    d = zoo("O2")
    p = run([d / "zoo", "registers"], env=preloaded(tmp_path / "damaged.so", "check"))
    good = run([d / "zoo", "registers"]).stdout
    assert p.stdout == good
    assert re.search(r"^libetch-exceptions: check: caller's rbx at 0x[0-9a-f]+: 0x[0-9a-f]+, libgcc: 0x[0-9a-f]+$", p.stderr, re.M)
    p = run([d / "zoo", "registers"], env=preloaded(tmp_path / "damaged.so"), ok=None)
    assert p.returncode or p.stdout != good


# ---- tools -----------------------------------------------------------------------------------------

@pytest.mark.parametrize("sanitizer", ["address", "thread"])
@pytest.mark.parametrize("mode", ["1", "check"])
def test_under_a_sanitizer(once, library, regex, sanitizer, mode):
    def make(directory):
        run(["gcc", "-O1", "-fexceptions", "-c", "-o", directory / "c.o", HERE / "c_frames.c"])
        run(["g++", "-std=c++17", "-O1", f"-fsanitize={sanitizer}", "-o", directory / "zoo", HERE / "zoo.cc", directory / "c.o",
             regex, "-pthread", "-ldl"])

    d = once(f"exceptions-{sanitizer}", make)
    runtime = run(["gcc", f"-print-file-name=lib{'asan' if sanitizer == 'address' else 'tsan'}.so"]).stdout.strip()
    # std::call_once() of a function that throws waits forever under TSan, with libgcc too.
    library_cases = ["library"] if sanitizer == "address" else []
    for name in ("depths", "types", *library_cases, "order", "registers", "foreign", "threads"):
        env = preloaded(library, mode, ETCH_UNWIND_VERBOSE="1")
        p = run([d / "zoo", name], env={**env, "LD_PRELOAD": f"{runtime}:{library}"}, ok=None, timeout=60)
        expected = run([d / "zoo", name], ok=None, timeout=60)
        assert (p.stdout, p.returncode) == (expected.stdout, expected.returncode), p.stderr[-4000:]
        assert p.stderr.startswith("libetch-exceptions: in use by the program, libstdc++.so.6")


def test_valgrind_has_nothing_to_report(zoo, library):
    need("valgrind")
    d = zoo("O2")
    for name in ("depths", "types", "frames", "order", "registers"):
        run(["valgrind", "-q", "--error-exitcode=99", d / "zoo", name], env=preloaded(library))


def test_gdb_stops_where_an_exception_is_caught(zoo, library, tmp_path):
    """`next` over a throw, by libgcc's probe, and `catch throw`."""
    need("gdb")
    source = tmp_path / "t.cc"
    source.write_text("#include <cstdio>\n"
                      "__attribute__((noinline)) void f(int n) { if (n) f(n - 1); else throw n; puts(\"\"); }\n"
                      "int main()\n{\n\ttry {\n\t\tf(4);\n\t} catch (int n) {\n\t\tputs(\"caught\");\n\t}\n}\n")
    run(["g++", "-O0", "-g", "-o", tmp_path / "t", source])
    p = run(["gdb", "-batch", "-nx", "-ex", f"set environment LD_PRELOAD {library}", "-ex", "break 6", "-ex", "catch throw", "-ex", "run", "-ex",
             "continue", "-ex", "backtrace", "-ex", "delete", "-ex", "break f", "-ex", "delete", "-ex", "finish", "-ex", "next", "-ex", "info line", tmp_path / "t"],
            env={**os.environ, "LANG": "C"}, ok=None)
    assert re.search(r"Catchpoint 2 \(exception thrown\)", p.stdout), p.stdout + p.stderr
    assert len(re.findall(r"^#\d+ .* f \(n=", p.stdout, re.M)) == 5
    p = run(["gdb", "-batch", "-nx", "-ex", f"set environment LD_PRELOAD {library}", "-ex", "break 6", "-ex", "run", "-ex", "next",
             "-ex", "next", tmp_path / "t"], env={**os.environ, "LANG": "C"}, ok=None)
    assert re.search(r"^[78]\t", p.stdout, re.M), p.stdout + p.stderr
