# SPDX-License-Identifier: MIT
"""Fixtures that every test shares: where the build is, which compilers there
are, and the way of a program through etch.

`make test` builds first; a bare `pytest` builds here, once, however many xdist
workers there are. Two variables of the environment say otherwise:

    ETCH_BUILD=DIR       take this build as it is, never run make
    ETCH_BUILD_ASAN=DIR  the same for the build with ASan and UBSan
"""

import ctypes
import ctypes.util
import fcntl
import functools
import gc
import json
import os
import pty
import re
import shutil
import signal
import struct
import subprocess
import sys
import termios
import threading
import zlib
from collections import Counter
from pathlib import Path

import pytest

# Whoever starts the tests in the background of a script passes on that these signals are
# ignored; programs under test are to begin as from a terminal.
for _signal in (signal.SIGINT, signal.SIGQUIT, signal.SIGTERM):
    if signal.getsignal(_signal) == signal.SIG_IGN:
        signal.signal(_signal, signal.default_int_handler if _signal == signal.SIGINT else signal.SIG_DFL)

# What sets without a pause does so to change code each time; tests of what is held back say so (stray()).
os.environ["ETCH_STRAY"] = "eager"

# Of what tests allocate next to nothing is a cycle: looking for those took a fifth of collecting tests, and of what
# pyelftools does.
gc.set_threshold(100_000, 50, 100)

ROOT = Path(__file__).resolve().parent.parent
INCLUDE = ROOT / "lib" / "include"
TESTS = ROOT / "tests"
DATA = TESTS / "data"  # programs that tests build, and files that they read
collect_ignore = ["data"]

# A test may import what stands in any folder: no two files of Python have one name.
sys.path[:0] = [*sorted(str(p) for p in TESTS.iterdir() if p.is_dir() and p != DATA), str(ROOT / "scripts"), str(ROOT / "scripts" / "judges")]
from call_options import call_options  # noqa: E402, F401 (for tests)

CCS = ["gcc", "clang"]
CXX = {"gcc": "g++", "clang": "clang++"}

# How far a program has gone through etch. All three must behave alike.
STAGES = ["plain", "object", "linked"]

# A hung program fails its test; it is never a measure of speed.
TIMEOUT = 300


def run(argv, *, ok=0, timeout=TIMEOUT, **kw):
    """Runs argv and returns the CompletedProcess (text, output captured).
    `ok` is the expected exit status, a tuple of them, or None for any; a failure
    shows the command and all it printed."""
    kw.setdefault("text", True)
    if not {"stdout", "stderr", "capture_output"} & kw.keys():
        kw["capture_output"] = True
    argv = [str(a) for a in argv]
    p = subprocess.run(argv, timeout=timeout, **kw)
    want = (ok,) if isinstance(ok, int) else ok
    if want is not None and p.returncode not in want:
        pytest.fail(
            f"exit {p.returncode}, expected {ok}: {' '.join(argv)}\n"
            f"--- stdout\n{p.stdout}\n--- stderr\n{p.stderr}",
            pytrace=True,
        )
    return p


def stray(argv, mode="die", **kw):
    """Runs argv with this ETCH_STRAY: by default a store to an armed page ends the program."""
    return run(argv, env={**os.environ, "ETCH_STRAY": mode}, **kw)


def on_terminal(argv, columns=200, cwd=None, **env):
    """The exit status of argv and what it writes to a terminal of that width that knows colours."""
    main, side = pty.openpty()
    fcntl.ioctl(side, termios.TIOCSWINSZ, struct.pack("HHHH", 50, columns, 0, 0))
    environment = {k: v for k, v in os.environ.items() if k not in ("NO_COLOR", "LC_ALL", "LC_CTYPE")}
    p = subprocess.Popen([str(a) for a in argv], stdout=side, stdin=subprocess.DEVNULL, cwd=cwd,
                         env=environment | {"TERM": "xterm", "LANG": "C.UTF-8"} | env)
    # A terminal with no writer left may end before all that was written is read: the end is a mark of our own.
    end = b"\0end of output\0"
    threading.Thread(target=lambda: (p.wait(), os.write(side, end))).start()
    out = b""
    while not out.endswith(end):
        out += os.read(main, 65536)
    os.close(main)
    os.close(side)
    return p.returncode, out.removesuffix(end).decode().replace("\r\n", "\n")


def _built(name, env, *args):
    if os.environ.get(env):
        path = Path(os.environ[env])
        return path if path.is_absolute() else ROOT / path
    path = ROOT / name
    path.mkdir(exist_ok=True)
    with open(path / ".lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # xdist workers: the first one builds
        p = subprocess.run(
            ["make", "-s", "-C", str(ROOT), f"B={name}", *args],
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
        )
    if p.returncode:
        pytest.exit(f"make B={name} failed:\n{p.stdout}", returncode=3)
    return path


@pytest.fixture(scope="session")
def build():
    """The build directory: etch, libetch.a, libetch.so, etch.pc."""
    return _built("build", "ETCH_BUILD", "-j2", "all")


@pytest.fixture(scope="session")
def build_asan():
    """The same, built with ASan and UBSan; any report of theirs ends the process
    with a status that no etch command uses (see asan_env)."""
    return _built("build-asan", "ETCH_BUILD_ASAN", "asan")


@pytest.fixture(scope="session")
def etch(build):
    """The tool."""
    return build / "etch"


@pytest.fixture(scope="session")
def etch_asan(build_asan):
    """The tool under ASan and UBSan. Run it with env=asan_env()."""
    return build_asan / "etch"


def build_id(path):
    """In hexadecimal, as readelf has it."""
    return re.search(r"Build ID: ([0-9a-f]+)", run(["readelf", "-nW", path]).stdout)[1]


# What support/memory.h needs.
MEMORY = ["support/memory.c", "support/bounds.c", "support/ending.c", "support/error.c", "support/plain.c"]


def tool_objects(build, *names):
    """Objects of files of tool/ as the build has them, for a driver of a few of those."""
    return [build / "o" / "tool" / Path(n).with_suffix(".o") for n in names]


def asan_env():
    """An environment in which a sanitizer's report is exit status 99."""
    env = dict(os.environ)
    env["ASAN_OPTIONS"] = "exitcode=99:abort_on_error=0:detect_leaks=1:allocator_may_return_null=1"
    env["UBSAN_OPTIONS"] = "halt_on_error=1:exitcode=99:print_stacktrace=1"
    env["LSAN_OPTIONS"] = "exitcode=99"
    return env


@pytest.fixture(params=CCS)
def cc(request):
    """Each compiler in turn."""
    return request.param


@pytest.fixture(params=STAGES)
def stage(request):
    """Each stage of a program in turn."""
    return request.param


class Flow:
    """The way of a program through etch, in one directory:

    cc -c  ->  etch rewrite x.o  ->  cc x.o -letch  ->  etch rewrite program
    """

    def __init__(self, tmp, build, cc="gcc"):
        self.tmp = Path(tmp)
        self.build = build
        self.etch = build / "etch"
        self.cc = cc

    def driver(self, source):
        cxx = Path(source).suffix in (".cc", ".cpp", ".cxx")
        return [CXX[self.cc], "-std=gnu++17"] if cxx else [self.cc, "-std=gnu11"]

    def source(self, text, name="t.c"):
        """Writes text to a file; an existing path is passed through."""
        if isinstance(text, Path):
            return text
        path = self.tmp / name
        path.write_text(text)
        return path

    def compile(self, source, flags=("-O2",), out=None):
        """source: a Path, or the text of a C file. Returns the object's path."""
        path = self.source(source)
        out = self.tmp / (out or path.stem + ".o")
        run([*self.driver(path), "-D_GNU_SOURCE", f"-I{INCLUDE}", f"-I{DATA}", *flags, "-c", "-o", out, path])
        return out

    def rewrite(self, *files, args=(), ok=0):
        return run([self.etch, "rewrite", *args, *files], ok=ok)

    def link(self, objects, flags=(), out="t", shared_lib=False, cxx=False):
        """Links with libetch.a, or with libetch.so where shared_lib."""
        out = self.tmp / out
        lib = (
            [f"-L{self.build}", "-letch", f"-Wl,-rpath,{self.build}"]
            if shared_lib else [self.build / "libetch.a"]
        )
        run([CXX[self.cc] if cxx else self.cc, *flags, "-o", out, *objects, *lib, "-pthread", "-ldl"])
        return out

    def program(self, sources, stage="linked", flags=("-O2",), ldflags=(), out=None, shared_lib=False):
        """Sources (one, or a list) to a program that has gone as far as `stage`:
        plain (no tool), object (first step), linked (both steps)."""
        assert stage in STAGES
        sources = [sources] if isinstance(sources, (str, Path)) else list(sources)
        out = out or f"t-{self.cc}-{stage}"
        paths = [self.source(s, f"{out}-{i}.c") for i, s in enumerate(sources)]
        objects = [self.compile(p, flags, f"{out}-{i}.o") for i, p in enumerate(paths)]
        cxx = any(p.suffix != ".c" for p in paths)
        if stage != "plain":
            self.rewrite(*objects)
        exe = self.link(objects, ldflags, out, shared_lib, cxx)
        if stage == "linked":
            self.rewrite(exe)
        return exe

    def inspect(self, what, path):
        """`etch inspect WHAT --json PATH`, decoded."""
        return json.loads(run([self.etch, "inspect", what, "--json", path]).stdout)

    def sites(self, path):
        """`etch inspect sites` as a list of dicts, from its TSV form."""
        lines = run([self.etch, "inspect", "sites", "--format", "tsv", path]).stdout.splitlines()
        head = lines[0].split("\t")
        return [dict(zip(head, line.split("\t"))) for line in lines[1:]]


@pytest.fixture
def flow(tmp_path, build, cc):
    """A Flow for each compiler in turn."""
    return Flow(tmp_path, build, cc)


@pytest.fixture
def flow_gcc(tmp_path, build):
    """A Flow with gcc alone, for tests that compile nothing of interest."""
    return Flow(tmp_path, build, "gcc")


def fetch(name):
    """The directory of a real program's source, fetched from a package registry
    on first use (scripts/fetch.py has the list of names)."""
    return Path(run([sys.executable, ROOT / "scripts" / "fetch.py", name], timeout=900).stdout.strip())


@pytest.fixture(scope="session")
def once(tmp_path_factory):
    """once(name, make): the directory in which make(directory) has made something, for all
    xdist workers: the first one makes it."""
    top = tmp_path_factory.getbasetemp()
    top = top.parent if os.environ.get("PYTEST_XDIST_WORKER") else top

    def get(name, make):
        directory, made = top / f"once-{name}", top / f"once-{name}.made"
        with open(top / f"once-{name}.lock", "w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            if not made.exists():
                shutil.rmtree(directory, ignore_errors=True)
                directory.mkdir()
                make(directory)
                made.touch()
        return directory
    return get


@pytest.fixture(scope="session")
def go(once):
    """go(*arguments, cwd, **environment): runs Go, one at a time with the user's cache: its standard library and pprof, of
    which it has the source only, are compiled once for all tests, which takes it half a minute."""
    path = shutil.which("go") or shutil.which("/usr/local/go/bin/go")
    if not path:
        pytest.skip("no Go here, and etch does not need it")
    directory = once("go", lambda out: None)

    def get(*arguments, cwd=None, **environment):
        with open(directory / "lock", "w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            return run([path, *arguments], cwd=cwd, env={**os.environ, **environment}, timeout=3 * TIMEOUT)
    return get


@pytest.fixture(scope="session")
def stepper(build, once):
    """stepper(library): the directory of the stepper and of the shadow stack (tests/analysis/dynamic.py); `library`: with
    libetch, which they then compare beside."""
    def get(library=False):
        import dynamic
        return once("stepper-etch" if library else "stepper", lambda out: dynamic.build(out, build if library else None))
    return get


# No red zones around globals: a damaged table may lie about its place inside the module's segments,
# which are all that libetch can hold it to. So libetch, which has them, is linked as another module: build-asan's
# libetch.so.
SANITIZED = ["-O1", "-fsanitize=address,undefined", "-fno-sanitize-recover=undefined", "--param", "asan-globals=0"]


# The C library's version: (2, 36) on Debian 12.
GLIBC = tuple(map(int, os.confstr("CS_GNU_LIBC_VERSION").split()[1].split(".")))


@functools.cache
def version(cc):
    """The major version of a compiler: what Debian 12's make is held to the strictest value."""
    return int(subprocess.run([cc, "-dumpversion"], stdout=subprocess.PIPE, text=True, check=True).stdout.split(".")[0])


def capstone():
    """The major version of the Capstone that the tool loads: it knows more instructions from 5 on."""
    return ctypes.CDLL(ctypes.util.find_library("capstone")).cs_version(None, None) >> 8


def need(*tools):
    """Fails, rather than skips, where make deps has not been run: a test that
    silently did not run is a check that cannot fail."""
    missing = [t for t in tools if not shutil.which(t)]
    if missing:
        pytest.fail(f"not installed: {' '.join(missing)}; run `make deps`")


# Grids of compilers, options and shapes: by default a part of their cases, always the same, so that
# `make test` ends in time. ETCH_TESTS=all runs all of them (make test-all), and what is marked as long. A file, or a function of
# one: of about how many cases one is run. Where a case has several parameters, each value of each of
# them is in some case that is; but a seed is no such value, one is as good as another.
GRIDS = {"test_acceptance.py": 6, "test_acceptance.py::test_readers": 14, "test_acceptance.py::test_valgrind": 12,
         "test_acceptance.py::test_gdb": 12, "test_exceptions.py::test_the_zoo_does_what_it_does_with_libgcc": 14,
         "test_exceptions.py::test_random_programs": 8, "test_escapes.py": 3, "test_escapes.py::test_a_program_that_stores_in_odd_ways_goes_on": 6, "test_cfi.py": 4, "test_cfi_objects.py": 4, "test_cfi_loaded.py": 4, "test_copy.py": 6, "test_lib_edge.py": 4,
         "test_lib_modules.py": 4, "test_lib_unwind.py": 6, "test_header.py": 4, "test_rewrite_pv.py": 6, "test_rewrite_pv_tables.py": 6,
         "test_rewrite_unwind.py": 6, "test_pv_stress.py": 6, "test_pv_header.py": 4, "test_pv_inline.py": 4,
         "test_pv_generated.py": 8, "test_forms_generated.py": 8, "test_stale_values.py": 4, "test_values.py": 3, "test_segment.py": 4,
         "test_unwind_zoo.py": 4, "test_unwind_static.py": 4, "test_unwind_dynamic.py::test_signals": 3, "test_fault_handling.py": 4, "test_fault_handling.py::test_macros": 8, "test_format_readers.py::test_second_reader_agrees": 2, "test_extable_tool.py": 3,
         "test_unwind_tables.py::test_mistakes_are_noticed": 9, "test_forms_encoding.py::test_mistakes_are_noticed": 5, "test_forms_encoding.py": 2,
         "test_pv_encoding.py::test_mistakes_are_noticed": 3, "test_diff.py::test_where_code_lies_is_no_difference": 3,
         "test_stat_noise.py::test_equal_commands_are_seldom_called_different": 3, "test_lib_forms.py": 3, "test_lib_pv.py": 3,
         "test_marks.py::test_runs": 2}


def grid_part(cases, one_of):
    """Those cases of a function that are run by default: first such that bring many values."""
    # By a file's name alone, so that the same cases are taken wherever it stands.
    cases = sorted(cases, key=lambda i: zlib.crc32(f"tests/{i.path.name}::{i.nodeid.partition('::')[2]}".encode()))
    values = {i: {(k, repr(v)) for k, v in i.callspec.params.items() if k != "seed" and " at 0x" not in repr(v)} for i in cases}
    names = Counter(name for name, _ in set().union(*values.values()))
    # What names a case, and is in no other, is no parameter of a grid.
    missing = {v for v in set().union(*values.values()) if 2 * names[v[0]] <= len(cases)}
    part = []
    while missing:
        part.append(max((i for i in cases if i not in part), key=lambda i: len(values[i] & missing)))
        missing -= values[part[-1]]
    rest = [i for i in cases if i not in part]
    return set(part + rest[:max(0, -(-len(cases) // one_of) - len(part))])


def pytest_collection_modifyitems(config, items):
    subset = config.option.keyword or len({i.path for i in items}) < 30  # that was asked for: it is whole
    if os.environ.get("ETCH_TESTS") == "all" or subset:
        return
    left, grids = {i for i in items if i.get_closest_marker("long")}, {}
    for item in items:
        if item in left:
            continue
        function = f"{item.path.name}::{item.originalname}"
        one_of = GRIDS.get(function) or GRIDS.get(item.path.name)
        if one_of and hasattr(item, "callspec"):
            grids.setdefault((item.parent.nodeid, function, one_of), []).append(item)
    for (_, _, one_of), cases in grids.items():
        left |= set(cases) - grid_part(cases, one_of)
    config.hook.pytest_deselected(items=[i for i in items if i in left])
    items[:] = [i for i in items if i not in left]


def fetched_or_skipped(name, what):
    p = subprocess.run([sys.executable, ROOT / "scripts" / "fetch.py", name], capture_output=True, text=True, check=False)
    if p.returncode:
        pytest.skip(f"no {what}: {p.stderr.strip().splitlines()[-1]}")
    return Path(p.stdout.strip())


@pytest.fixture(scope="session")
def objtool():
    """The path of Linux 6.1's objtool."""
    installed = Path("/usr/lib/linux-kbuild-6.1/tools/objtool/objtool")
    return installed if installed.exists() else fetched_or_skipped("objtool", "objtool of Linux 6.1") / "objtool"


@pytest.fixture(scope="session")
def objtool_6_12():
    """The path of Linux 6.12's objtool."""
    return fetched_or_skipped("objtool-6.12", "objtool of Linux 6.12") / "objtool.real-x86"


@pytest.fixture(scope="session")
def binutils():
    """The directory of an assembler, a linker and a readelf that know SFrame 3, of Debian testing."""
    return fetched_or_skipped("binutils", "binutils that reads SFrame 3")


@pytest.fixture(scope="session")
def binutils_trixie():
    """Those of Debian 13, which know SFrame 2."""
    return fetched_or_skipped("binutils-trixie", "binutils that reads SFrame 2")


def last_line(text):
    """The last line of a table, before the one that says where the picture is."""
    return [line for line in text.splitlines() if not line.startswith("etch: ")][-1]
