# SPDX-License-Identifier: MIT
"""etch/imv.h compiles everywhere it says it does, without a warning, and imv_read
costs what it says: one load, live in every place, at a median below 2 bytes."""
import random
import re
import statistics

import pytest

from conftest import INCLUDE, STAGES, run

USE = """
#include <etch/imv.h>
DEFINE_IMV(int, h_int) = -7;
EXPORT_IMV_SYMBOL(h_int);
DEFINE_IMV(char, h_char) = 'x';
DEFINE_IMV(unsigned short, h_short) = 65535;
DEFINE_IMV(long, h_long) = -1L;
static DEFINE_IMV(void *, h_pointer);
DECLARE_IMV(int, h_elsewhere);
DECLARE_IMV_LOCAL(int, h_local);
ETCHED struct h_config { int a; long b[3]; unsigned char c; } h_cfg = { 1, { 2, 3, 4 }, 5 };
ETCHED_SHARED int h_packed = 6;
static inline int h_inline(int x) { return x + imv_read(h_int); }
int h_read(int x);
int h_read(int x)
{
	if (etch_unlikely(imv_read(h_char) == 'y'))
		x++;
	return x + h_inline(x) + imv_read(h_short) + (int)imv_read(h_long) + (imv_read(h_pointer) != 0) +
	       imv_read(h_elsewhere) + imv_read(h_local) + _imv_read(h_int) + h_cfg.a + (int)h_cfg.b[1] + h_cfg.c + h_packed;
}
int h_set(int x);
int h_set(int x)
{
	long v = 3;
	struct etch_change c[] = { IMV_CHANGE(h_long, &v), ETCH_CHANGE(&h_cfg.b[0], &v) };
	return imv_set(h_int, x) | etch_set(&h_cfg.a, x) | etch_sync(&h_cfg, sizeof h_cfg) |
	       etch_release(&h_cfg, sizeof h_cfg) | etch_set_batch(c, 2) | imv_set(h_pointer, (void *)0);
}
"""
TEMPLATE = """
template <class T> T h_template(T x) { return x + imv_read(h_int); }
template int h_template<int>(int);
template long h_template<long>(long);
struct h_struct { int method() const { return imv_read(h_char); } };
int h_method(const h_struct &s);
int h_method(const h_struct &s) { return s.method(); }
"""
STANDARDS = {"c": ["c11", "c17", "gnu11", "gnu2x"], "c++": ["c++11", "c++14", "gnu++17", "c++20"]}
OPTIONS = [["-O0"], ["-O2"], ["-Os", "-fPIC", "-fvisibility=hidden"], ["-O2", "-fPIE", "-masm=intel"],
           ["-O2", "-fcf-protection=full", "-ffunction-sections"], ["-O1", "-fsanitize=address,undefined"]]


@pytest.mark.parametrize("options", OPTIONS, ids=" ".join)
@pytest.mark.parametrize("language,standard", [(l, s) for l, v in STANDARDS.items() for s in v])
def test_the_header_compiles_without_a_warning(tmp_path, cc, language, standard, options):
    source = tmp_path / "t.c"
    source.write_text(USE + (TEMPLATE if language == "c++" else ""))
    run([cc, "-x", language, f"-std={standard}", "-Wall", "-Wextra", "-pedantic", "-Werror", *options,
         f"-I{INCLUDE}", "-c", "-o", tmp_path / "t.o", source])


def reads(kind, count=300):
    """Functions that read a scalar after arithmetic of random lengths, so that the
    sites meet every offset in a word."""
    dice = random.Random(kind)
    lines = ["#include <etch/imv.h>", f"DEFINE_IMV({kind}, v) = ({kind})1;"]
    for i in range(count):
        noise = "".join(
            dice.choice([" x *= %d;", " y ^= %d;", " x += y >> %d;", " y -= x << %d;", " if (x > %d) y = -y;", " x |= y & %d;"])
            % dice.choice([1, 3, 7, 13, 31])
            for _ in range(dice.randrange(8))
        )
        lines.append(f"long f{i}(long x, long y) {{{noise} if (imv_read(v)) x += y; return x ^ y; }}")
    return "\n".join(lines) + "\n"


@pytest.mark.parametrize("kind", ["int", "char", "short", "void *"])
def test_every_imv_read_is_live_and_its_padding_is_small(flow, kind):
    source = flow.source(reads(kind))
    listing, bare, o = flow.tmp / "t.s", flow.tmp / "bare.s", flow.tmp / "t.o"
    run([*flow.driver(source), "-O2", "-fno-pie", f"-I{INCLUDE}", "-S", "-o", listing, source])
    run([flow.cc, "-c", "-o", o, listing])
    flow.rewrite(o)
    assert {s["live"] for s in flow.sites(o)} == {"yes"}
    # What the alignment costs: the same source assembled without it.
    text, removed = re.subn(r"\t\.p2align\s*3\s*,\s*(?:0x90)?\s*,\s*[56]\n", "", listing.read_text())
    assert removed >= 300
    bare.write_text(text)
    run([flow.cc, "-c", "-o", flow.tmp / "bare.o", bare])
    flow.rewrite(flow.tmp / "bare.o")
    at = [
        {f: int(off or "0", 16)
         for f, _, off in (s["function"].partition("+") for s in flow.inspect("sites", path)["sites"])}
        for path in (o, flow.tmp / "bare.o")
    ]
    costs = [at[0][f] - at[1][f] for f in at[1]]
    assert len(costs) >= 300 and min(costs) == 0 and max(costs) <= 6
    print(kind, flow.cc, "median", statistics.median(costs), "mean", statistics.mean(costs))
    # 6-byte loads have three places in eight, 7-byte ones (8-byte types) two. Evenly
    # spread, that is 1.9 and 2.6 bytes on average.
    assert statistics.mean(costs) < (2.2 if kind != "void *" else 3)


WARNINGS = ["-Wall", "-Wextra", "-Wshadow", "-Werror"]
PLAIN = """
#include <etch/imv.h>
#ifdef likely
#error "not a name of ours"
#endif
#ifdef unlikely
#error "not a name of ours"
#endif
#if defined(_FEATURES_H) || defined(_STDINT_H)
#error "a header of the C library"
#endif
#define likely(x) (x)
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <stdint.h>
#include <stddef.h>
#include <sys/mman.h>
#include <sys/uio.h>
#include <limits.h>
struct fields { volatile int v; volatile long l; const volatile unsigned char *p; struct { int a, b; } s; };
ETCHED struct fields f;
DEFINE_IMV(int, n) = IOV_MAX;
void *moved(void *p);
void *moved(void *p) { return mremap(p, 1, 1, MREMAP_MAYMOVE); }
int set(void);
int set(void)
{
	struct fields other = f;
	int x = etch_set(&f.v, 7) + etch_set(&f.l, etch_set(&f.v, 3)) + etch_set(&f.p, other.p) + etch_set(&f.s, other.s);

	return likely(x) + imv_set(n, imv_read(n) + _imv_read(n)) + etch_sync(&f, sizeof(f));
}
"""


@pytest.mark.parametrize("language,standard", [("c", "c11"), ("c", "gnu17"), ("c++", "c++11"), ("c++", "c++20")])
def test_the_header_leaves_programs_alone(tmp_path, cc, language, standard):
    """No header of the C library before the program's feature macros, none of its names, volatile fields, no casts of
    C's in C++, no shadowed names where sets nest."""
    source = tmp_path / "t.c"
    source.write_text(PLAIN.replace("struct fields other = f;", "struct fields &other = f;") if language == "c++" else PLAIN)
    extra = ["-Wold-style-cast"] if language == "c++" else ["-Wstrict-prototypes", "-Wdiscarded-qualifiers"] \
        if cc == "gcc" else []
    for level in ("-O0", "-O2"):
        run([cc, "-x", language, f"-std={standard}", *WARNINGS, *extra, level, f"-I{INCLUDE}", "-c", "-o", tmp_path / "t.o",
             source])


def test_volatile_fields_and_nested_sets_are_set(flow):
    flow.source("""
#include <etch/imv.h>
#include <stdio.h>
struct fields { volatile int v; volatile long l; };
ETCHED struct fields f = { 1, 2 };
DEFINE_IMV(unsigned char, c) = 200;
DEFINE_IMV(short, s) = -3;
static DEFINE_IMV(_Bool, b) = 1;
DEFINE_IMV(char *, p) = 0;
int main(void)
{
	int e = etch_set(&f.l, 10 + etch_set(&f.v, -5)) + imv_set(c, imv_read(c) + 55) + imv_set(s, imv_read(s) * 2);

	printf("%d %d %ld %d %d %d %d\\n", e, f.v, f.l, imv_read(c), imv_read(s), imv_read(b), imv_read(p) == NULL);
	return 0;
}
""", "t.c")
    for stage in STAGES:
        assert run([flow.program([flow.tmp / "t.c"], stage)]).stdout == "0 -5 10 255 -6 1 1\n"


def test_narrow_reads_in_a_loop_cost_no_merging(tmp_path, cc):
    """A read of 1 or 2 bytes takes its value from the load's register: no shift, no mask of eight bytes."""
    (tmp_path / "t.c").write_text("#include <etch/imv.h>\nDEFINE_IMV(unsigned char, c) = 0;\nDEFINE_IMV(short, s) = 0;\n"
                                  "long f(long n, long k) { long t = 0; for (long i = 0; i < n; i++)\n"
                                  "if (imv_read(c) == 1 && imv_read(s) > 3) t += k; return t; }\n")
    run([cc, "-O2", f"-I{INCLUDE}", "-c", "-o", tmp_path / "t.o", tmp_path / "t.c"])
    text = run(["objdump", "-d", "--no-show-raw-insn", tmp_path / "t.o"]).stdout
    assert not re.search(r"\t(movabs|and|or|shl|shr)\b", text), text


def test_an_inline_variable_leaves_the_others_armed(flow_gcc):
    """clang++ puts it into a section group of its own, of the same name and without padding."""
    flow = flow_gcc
    flow.cc = "clang++"
    source = flow.source("#include <etch/imv.h>\ninline ETCHED_SHARED int packed = 4;\nDEFINE_IMV(int, v) = 0;\n"
                         "int main() { return imv_set(v, 1) || imv_read(v) != 1 || packed != 4; }\n", "t.cc")
    run(["clang++", "-std=c++17", f"-I{INCLUDE}", "-o", flow.tmp / "t", source, flow.build / "libetch.a", "-pthread"])
    flow.rewrite(flow.tmp / "t")
    armed = {o["object"]: o["armed"] for o in flow.inspect("summary", flow.tmp / "t")["objects"]}
    assert armed["v__imv"] == "yes"
    run([flow.tmp / "t"])


@pytest.mark.parametrize("language", STANDARDS)
@pytest.mark.parametrize("call", ["etch_set(h_cfg.a, 1)", "etch_set(h_cfg.c, x)", "etch_set(h_real, 1.5)", "etch_sync(h_packed, 4)",
                                  "etch_release(h_cfg.a, 4)", "etch_seal(h_cfg.b[0], 8)"])
def test_a_value_in_the_place_of_its_address_is_one_error(tmp_path, cc, language, call):
    """And it says what to write instead."""
    source = tmp_path / "t.c"
    source.write_text(USE + f"ETCHED double h_real;\nint h_wrong(int x);\nint h_wrong(int x) {{ return {call} + x; }}\n")
    compiler = {"c": cc, "c++": {"gcc": "g++", "clang": "clang++"}.get(cc, cc)}[language]
    text = run([compiler, "-x", language, f"-I{INCLUDE}", "-c", "-o", tmp_path / "t.o", source], ok=1).stderr
    name = call.partition("(")[0]
    errors = [line for line in text.splitlines() if re.search(r"\berror:", line)]
    assert f"{name} takes an address: write {name}(&variable, ...), not {name}(variable, ...)" in errors[0], text
    assert len(errors) == 1 or "double" in text


@pytest.mark.parametrize("optimize", ["-O0", "-O2"])
@pytest.mark.parametrize("language", STANDARDS)
def test_the_argument_of_a_set_is_evaluated_once(build, tmp_path, cc, language, optimize):
    source = tmp_path / "t.c"
    source.write_text("#include <etch/imv.h>\nETCHED int a[4];\nint main(void) { int i = 0; int e = etch_set(&a[i++], 7);\n"
                      "e |= etch_sync(&a[i++], 4); e |= etch_set(a, 8); e |= etch_release(&a[i++], 4); e |= etch_seal(&a[i], 4);\n"
                      "return e || i != 3 || a[0] != 8; }\n")
    run([cc, "-x", language, optimize, f"-I{INCLUDE}", "-o", tmp_path / "t", source, "-x", "none", build / "libetch.a", "-pthread"])
    run([tmp_path / "t"])
