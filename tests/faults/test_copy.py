# SPDX-License-Identifier: MIT
"""Copies and reads that survive faults (etch/copy.h), against a byte-by-byte model.

tests/data/copy/model.c puts a fault at every byte of every size; tests/data/copy/edge.c has what
lies outside of that grid. Both run with every variant that the processor has.
"""

import os
import re
import sys
from pathlib import Path

import pytest

from conftest import DATA, INCLUDE, Flow, asan_env, run

VARIANTS = ["sse2", "sse2+erms", "avx2", "avx2+erms", "avx512", "avx512+erms"]
MODES = ["plain", "src", "dst", "bus_src", "bus_dst", "read_only"]
CASES = ["large", "huge", "both", "race_src", "race_dst", "strncpy", "probe", "auto", "use", "signals", "signals_onstack",
         "owner", "reporter", "once"]
# Those whose code differs from one variant to the next.
VARIED = ["large", "huge", "both", "race_src", "race_dst"]
KINDS = {"no-dynamic": ["-static"], "no-pie": ["-fno-pie", "-no-pie"], "static-pie": ["-fPIE", "-static-pie"],
         "lto": ["-flto"], "lld": ["-fuse-ld=lld", "-Wl,--gc-sections"]}
FLAGS = ["-std=gnu11", "-D_GNU_SOURCE", "-O2", "-g", "-Wall", "-Wextra", "-Werror", f"-I{INCLUDE}"]


@pytest.fixture(scope="module")
def program(build, tmp_path_factory):
    """A file of tests/data/copy as a program, by kind."""
    made = {}

    def make(name, kind="static"):
        if (name, kind) not in made:
            out = tmp_path_factory.mktemp("copy") / name
            lib = [f"-L{build}", "-letch", f"-Wl,-rpath,{build}"] if kind == "shared" else [build / "libetch.a"]
            cc = ["clang", "-fsanitize=address,undefined", "-fno-sanitize=pointer-overflow"] if kind == "asan" else ["gcc"]
            run([*cc, *FLAGS, *KINDS.get(kind, []), "-o", out, DATA / "copy" / f"{name}.c", *lib, "-pthread"])
            made[name, kind] = out
        return made[name, kind]

    return make


def runs(*argv, **kw):
    p = run(argv, ok=(0, 77), **kw)
    if p.returncode:
        pytest.skip(f"this processor has {p.stdout.strip()}")
    return p.stdout


# The full grid, STEP 1, is for scripts/soak.sh.
@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("variant", VARIANTS)
def test_model(program, variant, mode):
    every = os.environ.get("ETCH_TESTS") == "all"
    assert int(runs(program("model"), variant, mode, "64" if every else "128")) > (200000 if every else 100000)


def test_model_under_sanitizers(program):
    """Their own SIGSEGV handler was there first."""
    assert int(runs(program("model", "asan"), "sse2+erms", "src", "128", env=asan_env())) > 100000


@pytest.mark.parametrize("variant", VARIANTS)
def test_pages_that_go_at_any_instruction(program, variant):
    """And come back, or others go, at the fault that follows."""
    assert int(runs(program("step"), variant)) > 3000


@pytest.mark.parametrize("variant", ["sse2", "avx2", "avx512"])
def test_pages_side_by_side(program, variant):
    assert int(runs(program("pages"), variant)) > 900


@pytest.mark.parametrize("case", CASES)
def test_case(program, case):
    assert runs(program("edge"), case).endswith("done\n")


@pytest.mark.parametrize("case", VARIED)
@pytest.mark.parametrize("variant", VARIANTS)
def test_case_variant(program, variant, case):
    assert runs(program("edge"), case, variant).endswith("done\n")


# The table of libetch.so, and that of a program without a dynamic linker.
@pytest.mark.parametrize("case", ["huge", "both", "race_src", "probe", "signals"])
@pytest.mark.parametrize("kind", ["shared", "no-dynamic", "asan"])
def test_case_kinds(program, kind, case):
    # LeakSanitizer stops threads by ptrace, which the timer disturbs.
    env = dict(asan_env(), ASAN_OPTIONS="exitcode=99:detect_leaks=0")
    assert runs(program("edge", kind), case, env=env).endswith("done\n")


@pytest.mark.parametrize("name", ["sse2", "avx2", "avx512"])
def test_ways_out_of_nt_copies_are_fenced(build, name):
    """No test can see that a store came late, so the code is looked at: after a
    non-temporal store there is no way out but past an sfence, that of a fault too."""
    text = run(["objdump", "-d", "--no-show-raw-insn", f"--disassemble=etch_copy_nt_{name}", build / "libetch.so"]).stdout
    lines = [m[1].split("#")[0].split() for m in re.finditer(r"^\s+[0-9a-f]+:\t(.*)$", text, re.M)]
    ops = [x[0] for x in lines]
    stores = [i for i, op in enumerate(ops) if "movntdq" in op]
    outs = [i for i, x in enumerate(lines) if x[0] == "ret" or (x[0].startswith("j") and x[-1] == f"<etch_copy_{name}>")]
    behind = [i for i in outs if i > stores[0]]
    assert len(stores) >= 8 and "prefetchnta" in ops and len(outs) == 3 and len(behind) == 2
    for i in behind:
        assert "sfence" in [ops[i - 1], ops[i - 2] if ops[i - 1] == "vzeroupper" else ""], lines[i - 3:i + 1]


# ---- libetch's own ops table -------------------------------------------------------------


@pytest.mark.parametrize("rewritten", [False, True])
@pytest.mark.parametrize("kind", ["static", "shared", *KINDS])
def test_calls(program, etch, tmp_path, kind, rewritten):
    """Direct from start-up on, in every kind of program, and memory where that cannot be;
    right before start-up too; and no matter of the program's."""
    calls = program("calls", kind)
    if rewritten:
        run([etch, "rewrite", "-o", tmp_path / "calls", calls])
        calls = tmp_path / "calls"
    for case in ("early", "direct", "switch", "walk"):
        if case == "walk" and kind == "no-dynamic" and not rewritten:
            continue  # no .eh_frame_hdr to be found by
        assert run([calls, case]).stdout == "done\n", case
    p = run([calls, "mdwe"], ok=(0, 77))
    assert p.stdout == ("no PR_SET_MDWE\n" if p.returncode else "done\n")


LOADED = r"""
import ctypes, sys, threading
stop = threading.Event()
threads = [threading.Thread(target=stop.wait) for _ in range(3)]
for t in threads: t.start()
lib = ctypes.CDLL(sys.argv[1])
lib.etch_copy_variant.restype = ctypes.c_char_p
lib.etch_copy_from.argtypes = [ctypes.c_char_p, ctypes.c_char_p, ctypes.c_size_t]
for variant in (lib.etch_copy_variant(), b"sse2"):
    assert lib.etch_copy_use(variant) == 0
    code = ctypes.string_at(ctypes.cast(lib.etch_copy_from, ctypes.c_void_p).value, 16)
    assert code.startswith((b"\x2e\xe9", b"\xf3\x0f\x1e\xfa\x2e\xe9")), code.hex()
    to = ctypes.create_string_buffer(1000)
    assert lib.etch_copy_from(to, b"x" * 1000, 1000) == 0 and to.raw == b"x" * 1000
stop.set()
"""


def test_calls_of_a_library_that_is_loaded_late(build):
    """Into a process with threads."""
    run([sys.executable, "-c", LOADED, build / "libetch.so"])


def test_the_build_has_rewritten_libetch(build, tmp_path):
    """Nine calls in both: none has to be found at run time."""
    for name, args in (("libetch.so", []), ("libetch.a", ["copy.o"])):
        file = build / name
        if args:
            run(["ar", "x", file, *args], cwd=tmp_path)
            file = tmp_path / args[0]
        sites = [s for s in Flow(tmp_path, build).sites(file) if s["kind"] in ("call", "jmp")]
        assert len(sites) == 9 and {s["live"] for s in sites} == {"yes"}, sites
        assert {s["object"] for s in sites} == {"etch_copy_ops"}


def threshold(program, value):
    env = dict(os.environ)
    env.pop("ETCH_COPY_THRESHOLD", None)
    if value is not None:
        env["ETCH_COPY_THRESHOLD"] = value
    return int(runs(program("edge"), "threshold", env=env).split()[0])


def test_threshold(program):
    default = threshold(program, None)
    # Three quarters of one processor's share of some cache that this machine has and maybe
    # all of another one, or of 4 MiB.
    caches = re.findall(r"CACHE_SIZE +(\d+)$", run(["getconf", "-a"]).stdout, re.M)
    # glibc tells of a virtual machine's caches what the whole processor has; the kernel, what it shares.
    caches += [int(p.read_text().strip().rstrip("K")) << 10 for p in Path("/sys/devices/system/cpu/cpu0/cache").glob("index*/size")]
    online = int(run(["getconf", "_NPROCESSORS_ONLN"]).stdout)
    shares = {int(c) // n for c in caches for n in range(1, online + 1)}
    assert default in {(s + c) // 4 * 3 for s in shares for c in [0, *map(int, caches)]} | {3 << 20}
    for text, want in {"1000000": 1000000, "0x200000": 2 << 20, "65536": 65536, "0": 0, "5": 65536,
                       "18446744073709551615": 0}.items():
        assert threshold(program, text) == want, text
    for text in ("", "a", "12k", "-1", "-0", "1 2"):
        assert threshold(program, text) == default, text
