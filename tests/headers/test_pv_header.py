# SPDX-License-Identifier: MIT
"""etch/pv.h compiles everywhere it says it does, without a warning; what gcc's
assembler makes of calls and jumps; what pv_nop and its like are in C++."""
import re

import pytest

from conftest import CXX, INCLUDE, Flow, fetch, run

USE = r"""
#include <etch/pv.h>
#ifdef __cplusplus
extern "C" {
#endif
unsigned long native_tsc(void);
void native_put(unsigned long *p, unsigned long v);
#ifdef __cplusplus
}
#endif
#ifdef INTEL
PV_NATIVE(native_tsc, "rdtsc; shl rdx,32; or rax,rdx");
PV_NATIVE(native_put, "mov [rdi],rsi");
#else
PV_NATIVE(native_tsc, "rdtsc; shl $32,%rdx; or %rdx,%rax");
PV_NATIVE(native_put, "mov %rsi,(%rdi)");
#endif
#if __cplusplus >= 201703L
#define NOEXCEPT noexcept
#else
#define NOEXCEPT
#endif
struct ops {
	unsigned long (*tsc)(void);
	void (*put)(unsigned long *p, unsigned long v);
	void (*nop)(void);
	unsigned long (*same)(unsigned long);
	unsigned (*same32)(unsigned);
	int (*variadic)(const char *, ...);
	double (*floats)(double, float, long double);
	const char *(*const fixed)(const void *);
	void (*quiet)(int) NOEXCEPT;
	int (*quiet_variadic)(int, ...) NOEXCEPT;
};
#ifndef __cplusplus
__extension__
#endif
DEFINE_PV_OPS(struct ops, mmu) = { native_tsc, native_put, pv_nop, pv_ident_64, pv_ident_32, pv_nop, pv_nop,
                                   pv_ident_64, pv_nop, pv_nop };
DECLARE_PV_OPS(struct ops, elsewhere);
DECLARE_PV_OPS_LOCAL(struct ops, local);
long use(unsigned long x);
long use(unsigned long x)
{
	unsigned long y = 0;

	x += pv_call(mmu, tsc);
	pv_call(mmu, put, &y, x);
	pv_call(local, nop);
	elsewhere.nop();
	mmu.quiet(3);
	return (long)(pv_call(mmu, same, x) + mmu.same32(7)) + pv_call(mmu, quiet_variadic, 1, 2) +
	       pv_call(mmu, variadic, "", 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15) + (mmu.fixed(&y) != 0);
}
int set(void (*f)(void));
int set(void (*f)(void))
{
	return pv_set(mmu.nop, pv_nop) | pv_set(mmu.same, pv_ident_64) | pv_set(mmu.put, native_put) | pv_set(mmu.nop, f) |
	       pv_set(mmu.put, NULL) | pv_set(mmu.put, 0) | pv_set(mmu.variadic, pv_nop) | pv_set(mmu.quiet, pv_nop)
#ifdef __cplusplus
	       | pv_set(mmu.put, nullptr) | pv_set(mmu.nop, f ? f : static_cast<void (*)()>(pv_nop))
#endif
	       | etch_seal(&mmu, sizeof(mmu));
}
void tail(void);
void tail(void) { mmu.nop(); }
"""
PLUS = r"""
struct two { void (*f)(int); int (*g)(int); };
namespace n {
DEFINE_PV_OPS(two, global) = { pv_nop, pv_ident_32 };
static DEFINE_PV_OPS(two, own) = { pv_nop, pv_ident_32 };
namespace { DEFINE_PV_OPS(two, nobodys) = { pv_nop, pv_ident_32 }; }
}
struct with { static DEFINE_PV_OPS(two, member); };
DEFINE_PV_OPS(two, with::member) = { pv_nop, pv_ident_32 };
__attribute__((visibility("default"))) DEFINE_PV_OPS(two, exported) = { pv_nop, pv_ident_32 };
template <class T> T generic(T x) { n::global.f(1); return static_cast<T>(n::own.g(2) + n::nobodys.g(3)) + x; }
int plus(int x);
int plus(int x) { pv_set(with::member.g, pv_ident_32); return generic(x) + generic(short(x)) + with::member.g(x); }
"""
STANDARDS = {"c": ["c11", "c17", "gnu11", "gnu2x"], "c++": ["c++11", "c++14", "gnu++17", "c++20"]}
OPTIONS = ["-O0", "-O1", "-O2", "-O3", "-Os", "-Og", "-O2 -fPIC -fvisibility=hidden", "-O0 -fPIE -fcf-protection=full",
           "-O2 -masm=intel -DINTEL", "-O1 -fsanitize=address,undefined", "-O2 -flto",
           "-O0 -fstack-protector-all --coverage", "-O2 -pg -g", "-Os -fno-pic -mcmodel=large -ffunction-sections"]


@pytest.mark.parametrize("options", OPTIONS)
def test_the_header_compiles_without_a_warning(tmp_path, cc, options):
    for language, standards in STANDARDS.items():
        source = tmp_path / "t.c"
        source.write_text(USE + (PLUS if language == "c++" else ""))
        options = options.split() if isinstance(options, str) else options
        if cc == "clang":  # assembly at file scope is AT&T's there
            options = [o for o in options if o != "-DINTEL"]
        for standard in standards if "-O2" in options else standards[:1]:
            run([cc, "-x", language, f"-std={standard}", "-Wall", "-Wextra", "-pedantic", "-Werror", *options,
                 f"-I{INCLUDE}", "-c", "-o", tmp_path / "t.o", source])


@pytest.mark.parametrize("level", ["-O0", "-O2"])
@pytest.mark.parametrize("standard", STANDARDS["c++"])
def test_objects_of_cxx_are_initialized_statically(tmp_path, cc, standard, level):
    source = tmp_path / "t.cc"
    source.write_text(USE + PLUS)
    run([CXX[cc], f"-std={standard}", level, f"-I{INCLUDE}", "-c", "-o", tmp_path / "t.o", source])
    relocs = run(["readelf", "-rW", tmp_path / "t.o"]).stdout
    counts, name = {}, ""
    for line in relocs.splitlines():
        m = re.match(r"Relocation section '\.rela([^']*)'", line)
        if m:
            name = m[1]
        counts[name] = counts.get(name, 0) + 1 if " R_X86_64_64 " in line else counts.get(name, 0)
    # One function is called at the start: etch's own.
    assert sum(v for k, v in counts.items() if "init_array" in k) == 1, counts
    # clang takes static objects that nobody sets for constants.
    assert counts["etched"] == 10 + 5 * 2 - (2 * 2 if (cc, level) == ("clang", "-O2") else 0)


# Whatever gcc is told to add to functions, to a naked one it must add nothing, least of
# all to a variadic one, whose registers it would save on a stack frame that is not there.
ADDED = ["-O0", "-O2", "-O0 -fstack-protector-all -fstack-clash-protection", "-O2 -pg", "-O2 -pg -mfentry",
         "-O1 -finstrument-functions", "-O0 --coverage", "-O2 -fprofile-generate", "-O0 -fpatchable-function-entry=2",
         "-O2 -fsanitize-coverage=trace-pc", "-O0 -fsanitize=address,undefined", "-O1 -fsanitize=thread",
         "-O0 -fcf-protection=full", "-O2 -fzero-call-used-regs=all", "-O2 -mfunction-return=thunk", "-O0 -g3 -fPIC"]


@pytest.mark.parametrize("options", ADDED)
def test_pv_nop_of_cxx_is_one_instruction(tmp_path, options):
    source = tmp_path / "t.cc"
    source.write_text("""
#include <etch/pv.h>
struct big { long a[5]; }; struct mixed { double a; long b; };
struct first { void (*a)(int, ...); big (*b)(int, mixed, ...); double (*c)(big, mixed, long, char, float, long double, big);
               mixed (*d)(int, mixed); void (*e)(big &, mixed &&); };
struct second { unsigned (*a)(unsigned, ...); long (*b)(long, mixed); };
ETCHED first o = { pv_nop, pv_nop, pv_nop, pv_nop, pv_nop };
ETCHED second p = { pv_ident_32, pv_ident_64 };
""")
    run(["g++", *options.split(), f"-I{INCLUDE}", "-c", "-o", tmp_path / "t.o", source])
    text = run(["objdump", "-dC", "--no-show-raw-insn", tmp_path / "t.o"]).stdout
    seen = []
    for name, body in re.findall(r"^[0-9a-f]+ <(etch_pv_\w+?)_::.*call.*>:\n((?:.+\n)+)", text, re.M):
        code = [" ".join(line.split(":", 1)[1].split()) for line in body.splitlines()]
        code = code[1:] if code[0] == "endbr64" else code
        seen.append((name, code[:code.index("ret") + 1]))
    assert sorted(seen) == [("etch_pv_ident_32", ["mov %edi,%eax", "ret"]), ("etch_pv_ident_64", ["mov %rdi,%rax", "ret"]),
                            *[("etch_pv_nop", ["ret"])] * 5]


# ---- calls and jumps of gcc, aligned by its assembler ---------------------------------

ASSEMBLY = r"""
#include <etch/pv.h>
extern void foo(void);
void g(long x);
void g(long x)
{
	__asm__ volatile("call 1f\n1: pop %%rax" ::: "rax", "memory");
	__asm__ volatile("jmp 1f; nop; 1: nop" ::: "memory");
	__asm__ volatile("jmp 1f\n\t.skip 300\n1: nop" ::: "memory");
	__asm__ volatile("jmp .+2");
	__asm__ volatile("call *%0 # a comment, with \"quotes\"" :: "r"(x) : "memory");
	__asm__ volatile("call *(%0) /* c */" :: "r"(x) : "memory");
	__asm__ volatile("call *%%gs:(,%0,8)" :: "r"(x) : "memory");
	__asm__ volatile("call *%P0(%%rip)" :: "i"(foo) : "memory");
	__asm__ volatile("call %P0@PLT; jmp 2f ; call foo+4; 2:" :: "i"(foo) : "memory");
	__asm__ volatile("CALL foo\n\tJmp *%%rax\n\tcallq *8(%%r12)\n\tjmp *foo(,%%rax,8)\n\tnotrack jmp *%%rax" ::: "memory");
	__asm__ volatile("call \"foo\"\n\tjmp \"foo\"\n\tljmp *(%%rax)\n\tlcall *(%%rax)\n\tjmpw *(%%rax)\n\trex64 call foo\n\t"
	                 "%{disp32%} jmp 3f\n3:\tbnd jmp 3b" ::: "memory");
	__asm__ volatile(".rept 2\n\tcall foo\n\tjmp 4f\n\t.endr\n4:\t.macro mm a:vararg\n\tcall \\a\n\t.endm\n\t"
	                 "mm *foo(,%%rax,8)\n\tmm foo\n\t.intel_syntax noprefix\n\tcall foo\n\tcall [rax]\n\t"
	                 "call qword ptr [rax+8]\n\tcall rax\n\tjmp 4b\n\t.att_syntax prefix" ::: "memory");
}
"""


def instructions(path):
    """(address, length, text) of each instruction; text without addresses of this file."""
    out = []
    for line in run(["objdump", "-dw", path]).stdout.splitlines():
        at, *rest = line.split("\t")
        if len(rest) == 2:
            text = re.sub(r"[0-9a-f]+ <.*", "", rest[1]) if "<" in rest[1] else rest[1]
            out.append((int(at[:-1], 16), len(rest[0].split()), text.strip()))
    return out


def is_indirect(text):
    return re.match(r"(call|jmp)\s+\*", text)


def is_nop(text):
    return re.match(r"(data16 |cs )*(nop|xchg\s+%ax,%ax)", text)


def test_inline_assembly_is_assembled_as_it_was(tmp_path):
    source, lists = tmp_path / "t.c", []
    # As of binutils 2.44 a pseudo-prefix does not keep the mnemonic after it from being a macro (etch/pv.h says so), and bnd is
    # no prefix unless MPX is asked for.
    later = tuple(map(int, re.search(r"(\d+)\.(\d+)", run(["as", "--version"]).stdout.splitlines()[0]).groups())) >= (2, 44)
    source.write_text(ASSEMBLY.replace("%{disp32%} ", "").replace("bnd ", "") if later else ASSEMBLY)
    for name, flags in (("with", []), ("without", ["-DETCH_PV_NO_ALIGN"])):
        run(["gcc", "-O2", "-fno-pie", *flags, f"-I{INCLUDE}", "-c", "-o", tmp_path / f"{name}.o", source])
        lists.append([(n, t) for _, n, t in instructions(tmp_path / f"{name}.o") if not is_nop(t)])
    assert lists[0] == lists[1]
    assert len(lists[0]) > 40


@pytest.mark.parametrize("options,until,least", [
    pytest.param("-O1 -fPIC", None, 250, marks=pytest.mark.long),
    ("-O0 -masm=intel", "/************** Begin file vdbe.c", 180),  # two thirds of the calls in one third of it
], ids=["O1", "O0-intel"])
def test_every_indirect_call_of_a_real_program_is_live(tmp_path, options, until, least):
    """SQLite's: none crosses a word, nothing else has changed, and it costs little."""
    text = (fetch("sqlite") / "sqlite3.c").read_text()
    source, lists = tmp_path / "t.c", []
    source.write_text("#define _GNU_SOURCE\n#include <etch/pv.h>\n" + text[:text.index(until) if until else None])
    run(["gcc", "-w", *options.split(), f"-I{INCLUDE}", "-S", "-o", tmp_path / "with.s", source])
    text, removed = re.subn(r"\t\.ifndef \.Letch_aligned\n(?s:.*?)\n\s*etch_define_jmp_\n\s*\.endif\n", "",
                            (tmp_path / "with.s").read_text())
    assert removed == 1
    (tmp_path / "without.s").write_text(text)
    for name in ("with", "without"):
        run(["as", "-o", tmp_path / f"{name}.o", tmp_path / f"{name}.s"])
        lists.append(instructions(tmp_path / f"{name}.o"))
    calls = [[(a, n, t) for a, n, t in some if is_indirect(t)] for some in lists]
    crossing = [[(a, n, t) for a, n, t in some if a % 8 + n > 8] for some in calls]
    assert len(calls[0]) == len(calls[1]) > least and len(crossing[1]) > 20
    if "intel" in options:  # except for calls through a register
        crossing[0] = [c for c in crossing[0] if not re.search(r"\*%\w+$", c[2])]
    assert not crossing[0]
    # The same instructions, except for nops and the reach of jumps over those.
    plain = [[t.split()[0] for _, _, t in some if not is_nop(t)] for some in lists]
    assert plain[0] == plain[1]
    sizes = [sum(n for _, n, _ in some) for some in lists]
    print(options, len(calls[0]), "calls", sizes)
    assert sizes[1] <= sizes[0] < sizes[1] * 1.003


MAIN = r"""
#include <stdio.h>
#include <etch/imv.h>
#include <etch/pv.h>
#include "ops.h"
unsigned long native(unsigned long);
PV_NATIVE(native, "lea 3(%rdi),%rax");
DEFINE_PV_OPS(struct ops, ops) = { pv_nop, native, pv_ident_32 };
static void say(int x) { printf("%d ", x); }
int main(void)
{
	for (int i = 0; i < 2; i++) {
		ops.f(1);
		unsigned long b = second(7);
		unsigned c = third(9);
		printf("%lu %u\n", b, c);
		if (pv_set(ops.f, say) || pv_set(ops.g, pv_ident_64))
			return 1;
	}
	struct etch_info info = {.size = sizeof(info)};
	etch_info(&info);
	return !info.calls || info.calls_fixed;
}
"""
OPS = """
struct ops { void (*f)(int); unsigned long (*g)(unsigned long); unsigned (*h)(unsigned); };
unsigned long second(unsigned long x);
unsigned third(unsigned x);
DECLARE_PV_OPS_LOCAL(struct ops, ops);
"""
SECOND = '#include <etch/pv.h>\n#include "ops.h"\nunsigned long second(unsigned long x) { ops.f(2); return ops.g(x) + 1; }\n'
THIRD = '#include <etch/imv.h>\n#include <etch/pv.h>\n#include "ops.h"\nunsigned third(unsigned x) { ops.f(3); return ops.h(x) + 1; }\n'


@pytest.mark.parametrize("way", ["archive", "gc", "assembler", "temps", "lto"])
def test_ways_to_build(tmp_path, build, way):
    """Several files, of an archive, with what nobody uses thrown away, assembled by
    themselves, or as one by link-time optimisation."""
    flow = Flow(tmp_path, build, "gcc")
    (tmp_path / "ops.h").write_text(OPS)
    flags = {"gc": ["-ffunction-sections", "-fdata-sections"], "temps": ["-save-temps=obj"],
             "lto": ["-flto"]}.get(way, ["-pipe", "-g"])
    objects = []
    for name, text in (("main", MAIN), ("second", SECOND), ("third", THIRD)):
        source = flow.source(text, f"{name}.c")
        if way == "assembler":
            run(["gcc", "-O2", f"-I{INCLUDE}", "-S", "-o", tmp_path / f"{name}.s", source])
            run(["as", "-o", tmp_path / f"{name}.o", tmp_path / f"{name}.s"])
            objects.append(tmp_path / f"{name}.o")
        else:
            objects.append(flow.compile(source, ["-O2", *flags, f"-I{tmp_path}"]))
    if way != "lto":
        flow.rewrite(*objects)
    if way == "archive":
        run(["ar", "rc", tmp_path / "libthem.a", *objects[1:]])
        objects = [objects[0], tmp_path / "libthem.a"]
    exe = flow.link(objects, {"gc": ["-Wl,--gc-sections"], "lto": ["-flto", "-O2", "-flto-partition=one"]}.get(way, []))
    flow.rewrite(exe)
    assert run([exe]).stdout == "11 10\n1 2 3 8 10\n"
    if way != "lto":
        calls = [s for s in flow.sites(exe) if s["kind"] in ("call", "jmp")]
        assert len(calls) >= 5 and {s["live"] for s in calls} == {"yes"}
    # One pv_nop a program, however many files brought it.
    symbols = run(["nm", exe]).stdout
    assert len(re.findall(r"\betch_pv_nop_\n", symbols)) == 1
    records = [line.split()[-1] for line in run([build / "etch", "inspect", "tables", exe]).stdout.splitlines()
               if " checked" in line]
    assert sorted(records) == ["etch_pv_ident_32_", "etch_pv_ident_64_", "etch_pv_nop_", "native"]
