# SPDX-License-Identifier: MIT
"""Faults: those of exception tables, and those that are somebody else's.

The latter are tried with and without etch_fault_init(), in tests/data/faults/foreign.c, in
Python with its faulthandler, in a Java VM and in a Go program: what is printed, what a
tracer and a core dump see, and how the process ends must be the same.
"""

import os
import re
import resource
import shutil
import signal
import subprocess
import sys

import pytest
from elftools.elf.elffile import ELFFile

from conftest import CXX, DATA, INCLUDE, ROOT, need, run
from test_guides import follow

FAULT = DATA / "faults"
FLAGS = ["-D_GNU_SOURCE", "-O1", "-g", "-Wall", "-Wextra", "-Werror", f"-I{INCLUDE}"]


def shared(build):
    return [f"-L{build}", "-letch", f"-Wl,-rpath,{build}"]


# ---- foreign faults ---------------------------------------------------------------

HANDLERS = "dfl ign plain info nodefer resethand mask onstack longjmp".split()
EVENTS = "load far store exec gp kernel bus overflow raise kill tgkill sigqueue pthread_kill".split()
ENDS = (0, -signal.SIGSEGV, -signal.SIGBUS)


@pytest.fixture(scope="module")
def foreign(build, tmp_path_factory):
    out = tmp_path_factory.mktemp("foreign") / "foreign"
    run(["gcc", "-std=gnu11", *FLAGS, "-fno-pie", "-no-pie", "-o", out, FAULT / "foreign.c", build / "libetch.a",
         "-pthread"])
    return out


@pytest.mark.parametrize("event", EVENTS)
def test_as_without_us(foreign, event):
    for handler in HANDLERS:
        for thread in ([], ["thread"]):
            want = run([foreign, "without", handler, event, *thread], ok=ENDS)
            if handler in ("info", "mask", "nodefer", "onstack") and event != "overflow":
                assert "end\n" in want.stdout and "handler:" in want.stdout
            if handler == "dfl":
                assert want.returncode != 0 and not want.stdout
            for mode in ("before", "after", "both"):
                p = run([foreign, mode, handler, event, *thread], ok=None)
                assert (p.returncode, p.stdout) == (want.returncode, want.stdout), (mode, handler, thread)


# What the program asks for itself, to see that copies survive.
OUR_PROBES = {"stop 11 11 code 2 errno 0 addr 0x100001000", "stop 7 7 code 2 errno 0 addr 0x100002000"}


@pytest.mark.parametrize("handler", ["dfl", "ign", "info"])
def test_as_a_tracer_sees_it(foreign, tmp_path, handler):
    trace = tmp_path / "trace"
    run(["gcc", *FLAGS, "-o", trace, FAULT / "trace.c"])

    def seen(mode, event):
        lines = run([trace, foreign, mode, handler, event]).stdout.splitlines()
        stops = [line for line in lines if line.startswith("stop") and line not in OUR_PROBES]
        # With a probe in between, the same one comes twice.
        stops = [line for i, line in enumerate(stops) if line not in stops[:i]]
        return stops + [line for line in lines if not line.startswith("stop")]

    for event in EVENTS:
        if event == "overflow":  # its address depends on the arguments
            continue
        want = seen("without", event)
        assert want[0].startswith("stop") and want[-1].startswith("ended")
        for mode in ("before", "after"):
            assert seen(mode, event) == want, (event, mode)


def core_of(foreign, directory, mode, event):
    """(signal, code, address, rip, backtrace by gdb) of a core dump."""
    directory.mkdir()
    p = subprocess.run([foreign, mode, "dfl", event], cwd=directory, capture_output=True,
                       preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_CORE, (1 << 26, 1 << 26)))
    files = list(directory.iterdir())
    if len(files) != 1:
        pytest.skip("core dumps go elsewhere: /proc/sys/kernel/core_pattern, ulimit -Hc")
    with open(files[0], "rb") as f:
        notes = [n for s in ELFFile(f).iter_segments("PT_NOTE") for n in s.iter_notes()]

    def desc(kind, name):
        note = next(n for n in notes if n["n_type"] in (kind, name))
        return note["n_descdata"] if "n_descdata" in note else note["n_desc"].encode("latin-1")

    with open(files[0], "rb") as f:
        raw = f.read()
    info = desc(0x53494749, "NT_SIGINFO")
    code = int.from_bytes(info[8:12], "little", signed=True)
    need("gdb")
    trace = run(["gdb", "-q", "-batch", "-nx", "-ex", "bt", "-ex", "info registers rip", foreign, files[0]]).stdout
    # Of libc in between, the addresses vary.
    lines = [line.split(" (")[0] for line in trace.splitlines() if line.startswith(("#", "rip"))]
    lines = [line.split(" in ")[-1] if "#" in line else line for line in lines]
    assert raw[:4] == b"\x7fELF"
    return (-p.returncode, info[0], code, info[16:24].hex() if code > 0 else "", lines)


@pytest.mark.parametrize("event", ["load", "store", "gp", "bus", "exec", "sigqueue"])
def test_core_dump(foreign, tmp_path, event):
    if resource.getrlimit(resource.RLIMIT_CORE)[1] not in (-1,) and resource.getrlimit(resource.RLIMIT_CORE)[1] < 1 << 26:
        pytest.skip("core dumps are not allowed: ulimit -Hc")
    want = core_of(foreign, tmp_path / "without", "without", event)
    got = core_of(foreign, tmp_path / "with", "after", event)
    if event == "sigqueue":  # it was sent from inside libc, whose address varies
        want, got = want[:4] + (want[4][:-1],), got[:4] + (got[4][:-1],)
    assert got == want
    assert got[0] in (signal.SIGSEGV, signal.SIGBUS) and any("main" in line for line in got[4])


# ---- tables of modules ---------------------------------------------------------------


@pytest.fixture(scope="module")
def modules(build, tmp_path_factory):
    tmp = tmp_path_factory.mktemp("modules")
    common = ["gcc", "-std=gnu11", *FLAGS]
    run([*common, "-o", tmp / "modules", FAULT / "modules.c", *shared(build), "-pthread"])
    run([*common, "-DHOLDER", "-o", tmp / "holder", FAULT / "modules.c", "-pthread"])
    for name, flag in [("sorted", ()), ("unsorted", ("-DUNSORTED",)), *((f"damaged{n}", (f"-DDAMAGED={n}",)) for n in range(1, 9))]:
        run([*common, "-fPIC", "-shared", *flag, "-o", tmp / f"{name}.so", FAULT / "plugin.c", *shared(build)])
    return tmp


def test_several_modules(modules, tmp_path):
    paths = []
    for i in range(20):
        paths.append(tmp_path / f"p{i}.so")
        shutil.copy(modules / ("unsorted.so" if i & 1 else "sorted.so"), paths[-1])
    assert run([modules / "modules", "several", *paths]).stdout == "done\n"


@pytest.mark.parametrize("case", ["cycles", "fork"])
def test_modules_come_and_go(modules, case):
    """1,000 times while other threads fault, without a leak; and in a forked child."""
    assert run([modules / "modules", case, modules / "sorted.so", modules / "unsorted.so"]).stdout == "done\n"


def test_exit_with_threads(modules):
    """Destructors run while other threads still count on the tables."""
    for _ in range(5):
        assert run([modules / "modules", "exit", modules / "sorted.so"]).stdout == "done\n"


@pytest.mark.parametrize("n", range(1, 9))
def test_damaged_table(modules, n):
    case = "harmless" if n in (6, 7) else "damaged"
    assert run([modules / "modules", case, modules / f"damaged{n}.so"]).stdout == "done\n"


def test_wrong_arguments(modules):
    assert run([modules / "modules", "arguments", "-"]).stdout == "done\n"


@pytest.mark.parametrize("first", [(), ("-DFAULT_FIRST",)], ids=["stray_first", "fault_first"])
@pytest.mark.parametrize("rewritten", [False, True])
def test_library_inside_a_module(build, etch, modules, tmp_path, first, rewritten):
    """libetch.a in an object that is unloaded: what was there before is back."""
    run(["gcc", "-std=gnu11", *FLAGS, "-fPIC", *first, "-c", "-o", tmp_path / "h.o", FAULT / "holder.c"])
    if rewritten:
        run([etch, "rewrite", tmp_path / "h.o"])
    run(["gcc", "-shared", "-o", tmp_path / "h.so", tmp_path / "h.o", build / "libetch.a", "-pthread"])
    assert run([modules / "holder", "holder", tmp_path / "h.so"]).stdout == "done\n"


# ---- the macros ------------------------------------------------------------------------

# Labels 0 and 1 are avoided: clang reads "1b" as a binary number with -masm=intel.
NAMES = "rax rcx rdx rbx rsp rbp rsi rdi r8 r9 r10 r11 r12 r13 r14 r15".split()
NAMES32 = "eax ecx edx ebx esp ebp esi edi r8d r9d r10d r11d r12d r13d r14d r15d".split()


def macro_function(name, kind, narrow, imm):
    """A C function that faults, or not, and returns the register (LEN: rcx)."""
    r = "{%%|}" + name
    operand = "{%%|}" + (NAMES32[NAMES.index(name)] if narrow else name)
    p = "rdi" if name == "rsi" else "rsi"
    out = "rcx" if kind == "LEN" else name
    result = next(n for n in ("rax", "rdx") if n not in (out, name))
    keep = next(n for n in ("r14", "r15") if n != name)

    def move(a, b):
        """From a, a register or a number, to b."""
        source = str(a) if isinstance(a, int) else a
        att = f"${a}" if isinstance(a, int) else f"%%{a}"
        return "{movq " + att + f", %%{b}|mov {b}, {source}" + "}"

    lines = []
    if name in ("rsp", "rbp"):  # not to be named as clobbered
        lines.append(move(name, keep))
    if kind == "LEN":
        lines.append(move(5, "rcx"))
    if name != "rsp":  # the handler's frame goes below it
        lines.append(move(5 if out == name and kind == "LEN" else 100, name))
    lines.append("2: {cmpb $0, (%%" + p + ")|cmp byte ptr [" + p + "], 0}")
    lines.append("3:")
    macro = {"PLAIN": 'ETCH_EX_PLAIN("2b", "3b")', "EFAULT": f'ETCH_EX_EFAULT("2b", "3b", "{operand}")',
             "ZERO": f'ETCH_EX_ZERO("2b", "3b", "{operand}")',
             "LEN": f'ETCH_EX_LEN("2b", "3b", "{operand}", "{imm}")'}[kind]
    text = "\n\t\t".join(f'"{line}\\n\\t"' for line in lines) + "\n\t\t" + macro
    after = move(out, result)
    restore = move(keep, name) if name in ("rsp", "rbp") else ""
    clobbers = {n for n in (name, keep, "rcx", p) if n not in ("rsp", "rbp", result, p)}
    ident = f"f_{kind}_{name}_{narrow}_{'m' if imm < 0 else ''}{abs(imm)}"
    body = f"""static long {ident}(const char *p)
{{
	long out;

	__asm__ __volatile__({text}
		"{after}\\n\\t{restore}"
		: "={'a' if result == 'rax' else 'd'}"(out), "+{'D' if p == 'rdi' else 'S'}"(p) : : {', '.join(f'"{c}"' for c in sorted(clobbers))}, "cc", "memory");
	return out;
}}
"""
    before = {"LEN": "5"}.get(kind, "100")
    if kind == "PLAIN":
        want = "100"
    elif kind == "EFAULT":
        want = "-14"
    elif kind == "ZERO":
        want = "0"
    elif name == "rcx":
        want = str(5 + imm * 5)
    else:
        want = str(100 + imm * 5)
    checks = ""
    if name != "rsp":
        checks = f"\tCHECK({ident}(here) == {before});\n\tCHECK({ident}(nothing) == {want});\n"
    elif kind != "LEN":
        checks = f"\tCHECK({ident}(nothing) == {want});\n" if kind != "PLAIN" else ""
    return body if checks else "", checks


def macro_program(registers):
    functions, checks = [], []
    for name in registers:
        for kind, imm in (("PLAIN", 0), ("EFAULT", 0), ("ZERO", 0), ("LEN", 8), ("LEN", -2), ("LEN", 32767), ("LEN", -32768)):
            for narrow in (0, 1) if kind != "PLAIN" else (0,):
                f, c = macro_function(name, kind, narrow, imm)
                functions.append(f)
                checks.append(c)
    return """#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <etch/extable.h>
#define CHECK(x) do { if (!(x)) { printf("%d: %s\\n", __LINE__, #x); return 1; } } while (0)
#ifdef __cplusplus
extern "C" {
#endif
long asm_plain(const char *), asm_efault(const char *), asm_zero(const long *);
size_t asm_len(void *, const void *, size_t);
#ifdef __cplusplus
}
#endif
""" + "".join(functions) + """
static inline __attribute__((always_inline)) int get(const int *p, int *out)
{
	int err = 0, v;

	__asm__ __volatile__("2: {movl %2, %1|mov %1, %2}\\n3:\\n\\t" ETCH_EX_EFAULT("2b", "3b", "%0")
	                     : "+r"(err), "=r"(v) : "m"(*p));
	*out = v;
	return err;
}

/* Out of line, where nothing is to be done. */
static int jumps(const int *p)
{
	__asm__ goto("2: {testl %%eax, %0|test %0, eax}\\n\\t" ETCH_EX_PLAIN("2b", "%l[bad]") : : "m"(*p) : "cc" : bad);
	return 0;
bad:
	return 1;
}

int main(void)
{
	char here[64] = {1}, *nothing = (char *)mmap(NULL, 8192, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0) + 4096;
	char to[64];
	long word = 11;
	int v = 0;

	mprotect(nothing, 4096, PROT_NONE);
	CHECK(!etch_fault_init());
	CHECK(asm_plain(here) == 1 && asm_plain(nothing) == 2 && asm_efault(here) == 0 && asm_efault(nothing) == -14);
	CHECK(asm_zero(&word) == 11 && asm_zero((long *)nothing) == 0);
	memset(nothing - 64, 7, 64);
	for (size_t n = 0; n <= 60; n++)
		for (size_t ok = 0; ok <= 60; ok++) /* whole words, and the rest where those came through */
			CHECK(asm_len(to, nothing - ok, n) == (ok >= n ? 0 : ok >= (n & ~7ul) ? n - ok : n - (ok & ~7ul)));
	for (int i = 0; i < 3; i++)
		CHECK(get((int *)here, &v) == 0 && v == 1 && get((int *)nothing, &v) == -14 && get((int *)nothing - 1, &v) == 0);
	CHECK(!jumps((int *)here) && jumps((int *)nothing));
""" + "".join(checks) + """	puts("done");
	return 0;
}
"""


BUILDS = {
    "O0": ["-O0"],
    "O1-pic": ["-O1", "-fPIC"],
    "O2": ["-O2", "-fno-pie"],
    "O3-pie": ["-O3", "-fPIE"],
    "Os": ["-Os"],
    "intel": ["-O2", "-masm=intel"],
    "cxx": ["-O2", "-x", "c++"],
    "cxx-intel": ["-O1", "-x", "c++", "-masm=intel"],
    "lto": ["-O2", "-flto"],
    "nop-lld": ["-O2", "-ffunction-sections"],
}


@pytest.mark.parametrize("how", BUILDS)
def test_macros(build, tmp_path, cc, how):
    source = tmp_path / "t.c"
    source.write_text(macro_program(NAMES))
    flags = BUILDS[how]
    cxx = "c++" in flags
    lld = ["-fuse-ld=lld", "-Wl,--gc-sections"] if how == "nop-lld" or (how == "lto" and cc == "clang") else []
    driver = [CXX[cc]] if cxx else [cc, "-std=gnu11"]
    run([*driver, "-D_GNU_SOURCE", "-Wall", "-Wextra", f"-I{INCLUDE}", *flags, "-c", "-o", tmp_path / "t.o", source])
    run([cc, f"-I{INCLUDE}", "-c", "-o", tmp_path / "a.o", FAULT / "asm.S"])
    run([driver[0], *(["-no-pie"] if "-fno-pie" in flags else []), *(["-flto"] if how == "lto" else []), *lld,
         "-o", tmp_path / "t", tmp_path / "t.o", tmp_path / "a.o", build / "libetch.a", "-pthread"])
    assert run([tmp_path / "t"]).stdout == "done\n"


@pytest.mark.parametrize("operand", ["%b0", "%w0", "%h0", "$1", "xmm0"])
def test_operand_that_is_no_register(tmp_path, cc, operand):
    source = tmp_path / "t.c"
    source.write_text(f"""#include <etch/extable.h>
int f(const char *p);
int f(const char *p)
{{
	int v = 0;

	__asm__("1: cmpb $0, %1\\n2:\\n\\t" ETCH_EX_EFAULT("1b", "2b", "{operand}") : "+Q"(v) : "m"(*p));
	return v;
}}
""")
    p = run([cc, f"-I{INCLUDE}", "-c", "-o", tmp_path / "t.o", source], ok=None)
    assert p.returncode and "not a general register" in p.stderr


# ---- signals that are none of the kernel's -------------------------------------------------


def test_signal_at_an_instruction_of_a_table(build, tmp_path):
    """By its code alone it is told whether the instruction faulted."""
    out = tmp_path / "forged"
    run(["gcc", "-std=gnu11", *FLAGS, "-o", out, FAULT / "forged.c", build / "libetch.a", "-pthread"])
    lines = run([out]).stdout.splitlines()
    want = []
    for sig, code in [(s, c) for c in range(-6, 7) for s in (signal.SIGSEGV, signal.SIGBUS)] + [(signal.SIGSEGV, 128)]:
        # 5: BUS_MCEERR_AO
        fault = code > 0 and (sig, code) != (signal.SIGBUS, 5)
        probe, handed = (-14, 0) if fault else (0, 1)
        # What a copy has not done then it does byte by byte.
        want.append(f"{int(sig)} {code}: probe {probe} handed on {handed}, copy 0 handed on {handed}")
    assert lines == want


# ---- the unwinder's own reads ---------------------------------------------------------------


@pytest.mark.parametrize("how", ["walk", "reuse", "step"])
@pytest.mark.parametrize("rewritten", [False, True])
def test_stack_that_is_gone(build, etch, tmp_path, how, rewritten):
    """What the unwinder was told of a stack is no longer true."""
    out = tmp_path / "unwind"
    run(["gcc", "-std=gnu11", *FLAGS, "-fno-pie", "-no-pie", "-o", out, FAULT / "unwind.c", build / "libetch.a", "-pthread"])
    if rewritten:
        run([etch, "rewrite", out])
    assert run([out, "fault", how]).stdout == "done\n"
    assert run([out, "strict", how]).stdout == "done\n"
    run([out, "plain", how], ok=-signal.SIGSEGV)  # the test tests something


# ---- docs/faults.md ---------------------------------------------------------------------------


def test_documented_example(build, tmp_path):
    (tmp_path / "build").symlink_to(build)
    (tmp_path / "lib").symlink_to(ROOT / "lib")
    page = ROOT / "docs" / "faults.md"
    assert follow(page, tmp_path, dict(os.environ)) == 1
    for target in re.findall(r"\]\(([^)\s]+)\)", page.read_text()):
        assert (page.parent / target.split("#")[0]).exists(), target


# ---- other runtimes in the process -------------------------------------------------------

PYTHON = r"""
import ctypes, faulthandler, mmap, os, signal, sys
when, event = sys.argv[2:4]
lib = ctypes.CDLL(sys.argv[1])
lib.etch_probe_read_64.argtypes = [ctypes.c_void_p, ctypes.c_void_p]
def init():
    assert lib.etch_fault_init() == 0
if when == "before": init()
faulthandler.enable()
if when == "after": init()
if when == "after":
    v = ctypes.c_uint64(1)
    for i in range(100):
        assert lib.etch_probe_read_64(ctypes.byref(v), 8 * i) == -14 and v.value == 0
def crash():
    if event == "null": ctypes.string_at(0)
    if event == "kill": os.kill(os.getpid(), signal.SIGSEGV)
    if event == "thread":
        import threading
        go, never = threading.Lock(), threading.Lock()
        go.acquire(); never.acquire()
        threading.Thread(target=lambda: go.acquire() and ctypes.string_at(16)).start()
        go.release(); never.acquire()  # one line, that the report names wherever in it this thread is
crash()
"""


@pytest.mark.parametrize("event", ["null", "kill", "thread"])
def test_python_faulthandler(build, tmp_path, event):
    script = tmp_path / "t.py"
    script.write_text(PYTHON)

    def crash(when):
        p = run([sys.executable, script, build / "libetch.so", when, event], ok=-signal.SIGSEGV)
        # Addresses differ. Python 3.14 also shows the C stack, where the handler is called by libetch's.
        return [re.split(r" \[?0x", line)[0] for line in p.stderr.splitlines() if "/libetch.so" not in line]

    want = crash("never")
    assert want[0] == "Fatal Python error: Segmentation fault" and len(want) > 3
    assert crash("before") == want and crash("after") == want


JAVA = r"""
public class T {
    static native int init();
    static native int probe(long at);
    int field;
    static int deep(int n) { return n == 0 ? 0 : 1 + deep(n - 1) + 0; }
    static int forever(int n) { return forever(n + 1) + 1; }
    static int read(T t) { return t.field; }
    public static void main(String[] args) throws Exception {
        boolean with = !args[1].equals("without");
        System.load(args[0]);
        if (with && init() != 0) throw new Error("init");
        long sum = 0; int nulls = 0, overflows = 0, probes = 0;
        T t = new T(); t.field = 3;
        for (int i = 0; i < 200000; i++) sum += read(t);  // compiled: its null check is a fault
        for (int i = 0; i < 20000; i++) {
            try { sum += read(i % 2 == 0 ? null : t); } catch (NullPointerException e) { nulls++; }
            if (with && i % 100 == 0 && probe(8 * i) == -14) probes++;
        }
        for (int i = 0; i < 5; i++)
            try { forever(0); } catch (StackOverflowError e) { overflows++; }
        Thread[] threads = new Thread[3];
        int[] found = new int[3];
        for (int k = 0; k < 3; k++) {
            int me = k;
            threads[k] = new Thread(() -> {
                for (int i = 0; i < 3000; i++) {
                    try { read(null); } catch (NullPointerException e) { found[me]++; }
                    if (with && probe(16) != -14) throw new Error("probe");
                    if (i % 1000 == 0) System.gc();  // safepoints
                }
            });
            threads[k].start();
        }
        for (Thread x : threads) x.join();
        if (with && probes != 200) throw new Error("probes " + probes);
        System.out.println(sum + " " + nulls + " " + overflows + " " + found[0] + found[1] + found[2]);
    }
}
"""
JNI = r"""
#include <jni.h>
#include <etch/copy.h>
#include <etch/extable.h>
JNIEXPORT jint JNICALL Java_T_init(JNIEnv *e, jclass c) { (void)e, (void)c; return etch_fault_init(); }
JNIEXPORT jint JNICALL Java_T_probe(JNIEnv *e, jclass c, jlong at)
{
	uint64_t v;

	(void)e, (void)c;
	return etch_probe_read_64(&v, (const void *)at);
}
"""


@pytest.mark.long
def test_java(build, tmp_path):
    """Null checks, safepoints and stack overflows of a Java VM are faults too."""
    if not shutil.which("javac") or not shutil.which("java"):
        pytest.skip("no Java here, and etch does not need it")
    home = os.path.dirname(os.path.dirname(os.path.realpath(shutil.which("javac"))))
    (tmp_path / "T.java").write_text(JAVA)
    (tmp_path / "t.c").write_text(JNI)
    run(["javac", "T.java"], cwd=tmp_path)
    run(["gcc", *FLAGS, f"-I{home}/include", f"-I{home}/include/linux", "-fPIC", "-shared", "-o", tmp_path / "t.so",
         tmp_path / "t.c", *shared(build)])
    java = ["java", "-Xss512k", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=4", "T", tmp_path / "t.so"]
    want = run([*java, "without"], cwd=tmp_path).stdout
    assert want.split()[1:] == ["10000", "5", "300030003000"]
    assert run([*java, "with"], cwd=tmp_path).stdout == want


GO = r"""
package main

/*
#cgo CFLAGS: -IINCLUDE
#cgo LDFLAGS: -LBUILD -letch -Wl,-rpath,BUILD
#include <stdlib.h>
#include <etch/copy.h>
#include <etch/extable.h>
static int probe(unsigned long at) { uint64_t v; return etch_probe_read_64(&v, (const void *)at); }
EARLY
*/
import "C"
import ("fmt"; "os"; "runtime"; "sync")

type T struct { a [64]int; field int }

func read(t *T) (got string) {
	defer func() { if e := recover(); e != nil { got = fmt.Sprint(e) } }()
	return fmt.Sprint(t.field)
}

func main() {
	with := os.Args[1] != "without"
	if with && C.etch_fault_init() != 0 { panic("init") }
	var wg sync.WaitGroup
	for g := 0; g < 4; g++ {
		wg.Add(1)
		go func() {
			defer wg.Done()
			for i := 0; i < 300; i++ {
				if read(nil) != "runtime error: invalid memory address or nil pointer dereference" { panic("nil") }
				if with && C.probe(C.ulong(8*i)) != -14 { panic("probe") }
				if i % 100 == 0 { runtime.GC() }
			}
		}()
	}
	wg.Wait()
	fmt.Println(read(&T{field: 7}))
	var t *T
	if len(os.Args) > 2 { fmt.Println(t.field) }
}
"""


@pytest.mark.parametrize("early", [False, True])
def test_go(build, go, tmp_path, early):
    """Go's handler is in front or after; a nil dereference is a panic, at the end too."""
    text = GO.replace("INCLUDE", str(INCLUDE)).replace("BUILD", str(build))
    text = text.replace("EARLY", "static __attribute__((constructor)) void early(void) { etch_fault_init(); }" if early else "")
    (tmp_path / "main.go").write_text(text)
    go("build", "-p", "1", "-o", "t", "main.go", cwd=tmp_path,
       GOPROXY="off", GOTOOLCHAIN="local", CGO_ENABLED="1", GO111MODULE="off", GOFLAGS="")
    for mode in ("without", "with"):
        assert run([tmp_path / "t", mode]).stdout == "7\n"
        p = run([tmp_path / "t", mode, "crash"], ok=2)
        assert p.stdout == "7\n" and "panic: runtime error: invalid memory address" in p.stderr
        assert re.search("signal SIGSEGV: segmentation violation code=0x1 addr=0x(0|200) ", p.stderr)  # Go before 1.20 says 0
