# SPDX-License-Identifier: MIT
"""Random programs that call through etched ops objects in ways that compilers turn
into hoisted loads, conditional moves, jump tables, computed gotos, cold parts, landing
pads and tail calls, while the slots are set in between: also by the function that is
being called, and between the load of a pointer and its call. Each prints what its
calls returned; that must not depend on whether the tool has seen it.

    stress_programs.py SEED OUT.c [seal]     (OUT.cc: C++, with exceptions)
    stress_programs.py --run FIRST COUNT BUILD   all steps, random compilers and flags
"""
import random
import subprocess
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent.parent / "scripts"))
from call_options import call_options  # noqa: E402

HEAD = """\
#include <etch/pv.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <setjmp.h>
#ifdef __cplusplus
#define HIDDEN_C extern "C"
#else
#define HIDDEN_C
#endif
#define NOINLINE __attribute__((noinline, noipa_))
#ifdef __clang__
#define noipa_
#else
#define noipa_ noclone
#endif
typedef long fn(long, long);
struct big { long a[5]; };
struct ops {
	fn *f[0], *f0, *f1, *f2, *f3; /* f[]: called by number */
	void (*v)(void);
	int (*i)(int);
	double (*d)(double);
	long (*m)(long, long, long, long, long, long, long, long);
	struct big (*b)(long);
	long (*va)(long, ...);
	fn *n; /* null at times */
	long space[16];
	fn *late[2]; /* beyond one byte of displacement */
};
volatile long sink;
unsigned long hash;
static int errors, depth;
NOINLINE void note(long x) { hash = hash * 31 + (unsigned long)x; }
NOINLINE long same(long x) { return x + sink * 0; }
__attribute__((cold, noinline)) void slow(long x) { sink += x; note(x); }
static void check(int e) { if (e && !errors++) printf("error %d\\n", e); }
void flip(long x);
long again(long x, long y);
#define CALLED(k) do { note(k); } while (0)
NOINLINE long a0(long x, long y) { CALLED(100); return x + 3 * y; }
NOINLINE long a1(long x, long y) { CALLED(101); return x ^ (y + 7); }
NOINLINE long a2(long x, long y) { CALLED(102); flip(x + y); return x - y; }
NOINLINE long a3(long x, long y) { CALLED(103); return again(x, y); }
NOINLINE long a4(long x, long y) { note(y); return 5 * x; }
NOINLINE long c0(long x, long y) { (void)x; (void)y; return 0; }
NOINLINE long c5(long x, long y) { (void)x; (void)y; return 5; }
NOINLINE long first(long x, long y) { (void)y; return x; }
HIDDEN_C long native_add(long, long);
HIDDEN_C long native_second(long, long);
HIDDEN_C long native_two(long, long);
PV_NATIVE(native_add, "lea (%rdi,%rsi), %rax");
PV_NATIVE(native_second, "mov %rsi, %rax");
PV_NATIVE(native_two, "mov %rdi, %rax; sub %rsi, %rax");
NOINLINE void v0(void) { CALLED(110); }
NOINLINE void v1(void) { CALLED(111); flip(3); }
NOINLINE void v2(void) { }
NOINLINE int i0(int x) { CALLED(120); return x * 3; }
NOINLINE int i1(int x) { return x; }
NOINLINE int i2(int x) { (void)x; return -1; }
NOINLINE double d0(double x) { CALLED(130); return x / 2; }
NOINLINE double d1(double x) { return x; }
NOINLINE long m0(long a, long b, long c, long d, long e, long f, long g, long h)
{ CALLED(140); return a + 2 * b + 3 * c + 4 * d + 5 * e + 6 * f + 7 * g + 8 * h; }
NOINLINE long m1(long a, long b, long c, long d, long e, long f, long g, long h)
{ (void)a; (void)b; (void)c; (void)d; (void)e; (void)f; (void)g; return h; }
NOINLINE struct big b0(long x) { struct big r = {{ x, x + 1, x + 2, x + 3, 0 }}; CALLED(150); return r; }
NOINLINE struct big b1(long x) { struct big r = {{ 0, 0, x, 0, x }}; return r; }
NOINLINE long va0(long n, ...)
{ long s = 0; __builtin_va_list l; __builtin_va_start(l, n); while (n-- > 0) s += __builtin_va_arg(l, long); __builtin_va_end(l); return s; }
NOINLINE long va1(long n, ...) { return n; }
"""

TARGETS = {
    "f": "a0 a1 a2 a3 a4 c0 c5 first native_add native_second native_two pv_ident_64".split(),
    "v": "v0 v1 v2 pv_nop".split(),
    "i": "i0 i1 i2 pv_ident_32".split(),
    "d": "d0 d1".split(),
    "m": "m0 m1".split(),
    "b": "b0 b1".split(),
    "va": "va0 va1".split(),
}
FIELDS = {"f0": "f", "f1": "f", "f2": "f", "f3": "f", "v": "v", "i": "i", "d": "d", "m": "m", "b": "b", "va": "va",
          "n": "f", "late[1]": "f"}
TYPES = {"f": "fn *", "v": "void (*)(void)", "i": "int (*)(int)"}


class Writer:
    def __init__(self, seed, cxx, seal):
        self.dice = random.Random(seed)
        self.cxx, self.seal = cxx, seal
        self.objects = self.dice.randint(2, 4)
        self.labels = 0
        self.escapes = self.dice.random() < 0.15  # objects whose address is taken start unarmed

    def pick(self, *of):
        return self.dice.choice(of)

    def target(self, kind):
        t = self.dice.choice(TARGETS[kind])
        if self.cxx and t.startswith("pv_"):  # a comparison, say, needs its type
            t = {"pv_nop": "(void (*)(void))", "pv_ident_64": "(fn *)", "pv_ident_32": "(int (*)(int))"}[t] + t
        return t

    def object(self):
        return f"o{self.dice.randrange(self.objects)}"

    def slot(self):
        if self.dice.random() < 0.1:
            return f"q->f{self.dice.randrange(4)}"
        if self.dice.random() < 0.05 and self.escapes:
            return f"{self.object()}.f[{self.pick('x', 'y', 'z')} & 3]"
        return f"{self.object()}.{self.pick('f0', 'f1', 'f2', 'f3', 'f0', 'f1', 'late[1]')}"

    def var(self):
        return self.pick("x", "y", "z")

    def pointer(self):
        return self.pick("p", "r", "s")

    def value(self):
        return self.pick(self.var(), self.var(), str(self.dice.randrange(50)), f"same({self.var()})",
                         f"{self.var()} + {self.dice.randrange(9)}")

    def callee(self):
        return self.pick(self.slot(), self.slot(), self.pointer(), self.pointer(), self.pointer())

    def pointer_value(self):
        return self.pick(self.slot(), self.slot(), self.slot(), self.target("f"), self.pointer(), f"tab[{self.var()} & 3]",
                         f"{self.var()} & {self.dice.randrange(1, 8)} ? {self.slot()} : {self.slot()}",
                         f"{self.var()} & 1 ? {self.slot()} : {self.pointer()}", f"pick({self.value()})")

    def set(self):
        o, field = self.object(), self.dice.choice(list(FIELDS))
        to = "0" if field == "n" and self.dice.random() < 0.4 else self.target(FIELDS[field])
        if to == "0":
            to = "(fn *)0"
        return f"check(pv_set({o}.{field}, {to}));"

    def cond(self):
        return self.pick(f"{self.var()} & {self.dice.randrange(1, 16)}", f"{self.pointer()} == {self.target('f')}",
                         f"{self.slot()} == {self.slot()}", f"{self.pointer()} == {self.slot()}",
                         f"{self.object()}.n", f"__builtin_expect({self.var()} == {self.dice.randrange(20)}, 0)",
                         f"{self.var()} > {self.var()}")

    def block(self, depth, most=4):
        return "{ " + " ".join(self.statement(depth + 1) for _ in range(self.dice.randint(1, most))) + " }"

    def switch(self, depth):
        cases = []
        for k in range(self.dice.randint(3, 9)):
            body = " ".join(self.statement(depth + 2) for _ in range(self.dice.randint(0, 2)))
            cases.append(f"case {k}: {body} {self.pick('break;', 'break;', 'break;', '/* fall through */')}")
        if self.dice.random() < 0.5:
            cases.append(f"default: {self.statement(depth + 2)}")
        else:
            cases.append("default: break;")
        return f"switch ({self.var()} & {self.pick(7, 15)}) {{ {' '.join(cases)} }}"

    def computed(self, depth):
        n, k = self.dice.randint(2, 5), self.labels
        self.labels += 1
        names = ", ".join(f"&&l{k}_{j}" for j in range(n))
        out = f"{{ {self.pointer()} = {self.pointer_value()}; "
        if self.dice.random() < 0.5:
            out += f"static void *const to[] = {{ {names} }}; goto *to[(unsigned long){self.var()} % {n}]; "
        else:  # differences of labels need no relocation
            names = ", ".join(f"&&l{k}_{j} - &&l{k}_0" for j in range(n))
            out += f"static const int to[] = {{ {names} }}; goto *(&&l{k}_0 + to[(unsigned long){self.var()} % {n}]); "
        for j in range(n):
            out += f"l{k}_{j}: {self.simple()} "
            if self.dice.random() < 0.5:
                out += f"goto e{k}; "
        return out + f"e{k}: ; }}"

    def loop(self, depth):
        j = f"j{depth}"
        return f"for (long {j} = 0; {j} < {self.dice.randint(2, 4)}; {j}++) {self.block(depth)}"

    def longjmp(self, depth):
        p = self.pointer()
        return (f"{{ jmp_buf jb; fn *k = {self.slot()}; volatile long w = {self.value()}; if (!setjmp(jb)) {{ "
                f"{self.pick('', self.set())} w = w + {p}(w, 3); leap(jb, w); }} x += k(w, 2); }}")

    def simple(self):
        v, p = self.var(), self.pointer()
        return self.pick(
            f"{p} = {self.pointer_value()};", f"{p} = {self.pointer_value()};", f"{p} = {self.slot()};",
            f"{v} = {self.callee()}({self.value()}, {self.value()});",
            f"{v} += {self.callee()}({self.value()}, {self.value()});",
            f"{v} = {self.callee()}({self.value()}, {self.value()});",
            f"{v} ^= {self.callee()}({self.slot()}({self.value()}, {self.var()}), {self.value()});",
            f"{self.object()}.v();", f"{{ void (*w)(void) = {self.object()}.v; w(); w(); }}",
            f"{v} = {self.object()}.i((int){self.value()});", f"{v} += (long){self.object()}.d((double)(short){self.var()});",
            f"{v} += {self.object()}.m(x, y, z, {self.value()}, 5, 6, {self.value()}, 8);",
            f"{{ struct big b = {self.object()}.b({self.value()}); {v} += b.a[2] + b.a[4]; }}",
            f"{v} += {self.object()}.va(3, x, y, {self.value()});",
            f"if ({self.object()}.n) note({self.dice.randrange(99)});",
            f"if ((t = {self.object()}.n)) {v} = t({self.value()}, {self.value()});",
            self.set(), f"flip({self.value()});", f"t = {p}; {p} = r; r = t;", f"slow({v});",
            f"__asm__ volatile(\"\" : \"+r\"({p}));",
            f"__asm__ volatile(\"\" ::: \"rbx\", \"r12\", \"r13\", \"r14\", \"r15\", \"memory\");",
            f"q = {v} & 1 ? &plain : {self.pick('q', '&plain2')};",
            f"{{ struct ops c; memcpy(&c, &{self.object() if self.escapes else 'plain'}, sizeof c); {v} += c.f1({v}, 1); }}",
            f"{v} = apply({p}, {self.value()});", f"{v} = apply({self.slot()}, {self.value()});",
            f"{{ fn *a[3] = {{ {p}, {self.slot()}, {self.slot()} }}; {v} = a[(unsigned long){v} % 3](x, y); }}",
            f"{{ char b[same({self.dice.randrange(1, 200)})]; b[0] = 1; __asm__ volatile(\"\" :: \"r\"(b) : \"memory\"); {v} = {self.callee()}({v}, b[0]); }}",
            f"if ({p} == {self.slot()}) {v} = {p}({v}, 4); else {v} = {p}({v}, 5);",
        )

    def statement(self, depth):
        roll = self.dice.random()
        if depth < 3:
            if roll < 0.10:
                return f"if ({self.cond()}) {self.block(depth)}"
            if roll < 0.18:
                return f"if ({self.cond()}) {self.block(depth)} else {self.block(depth)}"
            if roll < 0.25:
                return self.switch(depth)
            if roll < 0.31:
                return self.loop(depth)
            if roll < 0.33 and not self.cxx:
                return self.computed(depth)
            if roll < 0.35 and not self.cxx:
                return self.longjmp(depth)
            if roll < 0.38:
                p = self.pointer()
                return (f"{p} = {self.slot()}; switch ({self.var()} & 7) {{ case 0: {p} = {self.slot()}; break; case 1: slow(1); break; "
                        f"case 2: {p} = {self.pointer_value()}; break; case 3: case 5: break; case 4: sink++; {p} = {self.slot()}; break; "
                        f"case 6: flip(1); break; default: {p} = {self.pointer_value()}; }} x = {p}(x, y);")
            if roll < 0.41:
                p = self.pointer()
                return (f"{p} = pick({self.var()}); switch ({self.var()} & 7) {{ case 0: {p} = {self.slot()}; break; case 1: case 4: break; "
                        f"case 2: note(2); break; case 3: x++; break; case 5: y += 3; break; case 6: z ^= 1; break; }} y = {p}(x, y);")
            if roll < 0.48 and self.cxx:
                p = self.pointer()
                if self.dice.random() < 0.5:
                    return (f"try {{ {self.pick('', 'closing d; ')}y += thrower({self.value()}); }} catch (int e) {{ "
                            f"x += q->f0(e, 1); {self.pick('', 'y ^= q->f1(x, e);')} z += {p}(z, 3); }}")
                return (f"try {{ {p} = {self.slot()}; {self.pick('', 'closing d; ')}x += thrower({self.value()}); {self.block(depth, 2)} "
                        f"{self.pick('', p + ' = ' + self.slot() + ';')} y += thrower({self.value()}); }} "
                        f"catch (int e) {{ z += e; {self.pick('', self.simple())} }} z += {p}(z, 2);")
        return self.simple()

    def function(self, k):
        d = self.dice
        body = " ".join(self.statement(0) for _ in range(d.randint(3, 9)))
        end = self.pick("return x + y + z;", f"return {self.slot()}(x, y);", f"return {self.pointer()}(z, x);",
                        f"{self.object()}.v(); return x;", "return x - z;",
                        f"if (x & 1) return {self.slot()}(y, z); return {self.slot()}(z, x);")
        return (f"NOINLINE long g{k}(long x, long y) {{ long z = x ^ y; fn *p = {self.target('f')}, *r = {self.slot().replace('q->', 'plain.')}, "
                f"*s = pick(z), *t = p; struct ops *q = &plain; (void)t; (void)q; (void)r; (void)s; {body} {end} }}")

    def tail(self, k):
        """Calls and nothing else: tail calls, and an early way out."""
        return self.pick(
            f"NOINLINE void g{k}v(void) {{ {self.object()}.v(); }}",
            f"NOINLINE void g{k}v(void) {{ if (sink & 1) return; note(4); {self.object()}.v(); }}",
            f"NOINLINE void g{k}v(void) {{ void (*w)(void) = {self.object()}.v; if (sink >= 0) w(); else {self.object()}.v(); }}",
            f"NOINLINE void g{k}v(void) {{ for (int j = 0; j < 3; j++) {self.object()}.v(); }}",
        )

    def initial(self, name, static, where):
        values = []
        for field, kind in FIELDS.items():
            value = "0" if field == "n" and self.dice.random() < 0.5 else self.target(kind)
            values.append(value)
        values.insert(-1, "{ 0 }, { 0")
        inits = ", ".join(values[:-2]) + ", " + values[-2] + ", " + values[-1] + " }"
        return f"{static}{where} struct ops {name} = {{ {{ }}, {inits} }};"

    def program(self):
        d = self.dice
        static = self.pick("static ", "")
        out = [HEAD]
        for k in range(self.objects):
            out.append(self.initial(f"o{k}", static, self.pick("ETCHED", "ETCHED", "ETCHED_SHARED")))
        out.append(self.initial("plain", "", ""))
        out.append(self.initial("plain2", "", ""))
        out.append("fn *const tab[4] = { a0, first, a1, c5 };")
        out.append("NOINLINE fn *pick(long x) { return tab[(unsigned long)x * 7 & 3]; }")
        out.append("NOINLINE long apply(fn *f, long x) { return f(x, x + 1); }")
        out.append("__attribute__((noinline, noreturn)) void leap(jmp_buf jb, long x) { sink += x & 0; longjmp(jb, 1); }")
        out.append("NOINLINE long again(long x, long y) { long v; if (depth >= 2) return x; depth++; "
                   f"v = {self.object()}.f{d.randrange(4)}(y, x); depth--; return v; }}")
        if self.cxx:
            o = self.object()
            out.append(f"struct closing {{ ~closing() {{ note({o}.f0(1, 1)); note({o}.f2(2, 2)); {self.pick('', o + '.v();')} }} }};")
            out.append("NOINLINE long thrower(long x) { if ((x & 3) == 1) throw (int)(x & 0xff); return x / 2; }")
        flips = "".join(f"case {k}: {self.set()} break; " for k in range(d.randint(6, 16)))
        batch = (f"case 16: {{ fn *u = {self.target('f')}, *w = {self.target('f')}; struct etch_change c[] = "
                 f"{{ ETCH_CHANGE(&{self.object()}.f0, &u), ETCH_CHANGE(&{self.object()}.f3, &w) }}; check(etch_set_batch(c, 2)); break; }} ")
        o = self.object()
        batch += (f"case 17: check(etch_release(&{o}, sizeof {o})); {o}.f2 = {self.target('f')}; {o}.f0 = {self.target('f')}; "
                  f"check(etch_sync(&{o}, sizeof {o})); break; ") if d.random() < 0.3 else ""
        out.append(f"NOINLINE void flip(long x) {{ switch (((unsigned long)x * 0x9e3779b97f4a7c15ul >> 40) % 20) {{ {flips}{batch}default: break; }} }}")
        functions = d.randint(3, 7)
        for k in range(functions):
            out.append(self.function(k))
            out.append(self.tail(k))
        calls = " ".join(f'depth = 0; x = g{k}(c, x & 0xff); g{k}v(); printf("%d %d %lx %lx\\n", c, {k}, (unsigned long)x, hash);'
                         for k in range(functions))
        sync = ""
        if d.random() < 0.5 or self.seal:
            verb = "etch_seal" if self.seal else "etch_sync"
            sync = " ".join(f"check({verb}(&o{k}, sizeof o{k}));" for k in range(self.objects))
        out.append(f"int main(int argc, char **argv) {{ long x = 1, rounds = argc > 1 ? atol(argv[1]) : 12; {sync} "
                   f"for (int c = 1; c <= rounds; c++) {{ {calls} flip(c); }} "
                   'printf("%ld %d\\n", etch_verify(0, 0), errors); return 0; }')
        return "\n".join(out) + "\n"


def program(seed, cxx=False, seal=False):
    return Writer(seed, cxx, seal).program()


def needed_flags(text, cc):
    """gcc would subtract labels that it has put into different sections."""
    return ["-fno-reorder-blocks-and-partition"] if " - &&l" in text and cc == "gcc" else []


def build_flags(seed):
    """(compiler, its flags, link flags, C++?, seal?) of a seed."""
    dice = random.Random(f"flags {seed}")
    cc = dice.choice(["gcc", "gcc", "clang"])
    pic, link = dice.choice([(["-fPIE"], ["-pie"]), (["-fno-pie"], ["-no-pie"]), (["-fPIC"], ["-pie"]),
                             (["-fPIE"], ["-static-pie"]), (["-fno-pie"], ["-static"])])
    flags = [dice.choice(["-O0", "-O1", "-O2", "-O2", "-O3", "-Os"]), *pic]
    for extra in (["-fcf-protection=full"], ["-fno-omit-frame-pointer"], ["-g"], ["-march=haswell"], ["-fno-plt"],
                  ["-ffunction-sections"], ["-fno-jump-tables"], ["-fno-asynchronous-unwind-tables"]):
        if dice.random() < 0.15:
            flags += extra
    if cc == "gcc" and dice.random() < 0.3:
        flags += dice.choice([["-fno-reorder-blocks-and-partition"], ["-fno-ipa-ra"], ["-ftracer"], ["-funroll-loops"],
                              ["-fno-gcse"], ["-flive-range-shrinkage"], ["-mno-red-zone"], ["-freorder-blocks-algorithm=simple"]])
    if cc == "clang" and dice.random() < 0.7:
        flags += call_options(cc)
    return cc, flags, link, dice.random() < 0.3, dice.random() < 0.25


def main():
    if sys.argv[1] == "--run":
        return soak(int(sys.argv[2]), int(sys.argv[3]), Path(sys.argv[4]))
    out = Path(sys.argv[2])
    out.write_text(program(int(sys.argv[1]), out.suffix != ".c", "seal" in sys.argv[3:]))
    return 0


def call(argv, ok=True):
    p = subprocess.run([str(a) for a in argv], capture_output=True, text=True, timeout=120)
    if ok and p.returncode:
        raise RuntimeError(f"exit {p.returncode}: {' '.join(str(a) for a in argv)}\n{p.stderr}")
    return p


def steps(seed, build, tmp, include, compiler=None):
    """Builds the program of a seed and runs it as it is, after the object step, after
    both, and after the link step alone. What differs, as text, or None; and the counts of taken sites."""
    cc, flags, link, cxx, seal = compiler or build_flags(seed)
    driver = [{"gcc": "g++", "clang": "clang++"}[cc], "-std=gnu++17"] if cxx else [cc, "-std=gnu11"]
    source, obj = tmp / ("t.cc" if cxx else "t.c"), tmp / "t.o"
    text = program(seed, cxx, seal)
    source.write_text(text)
    flags = [*flags, *needed_flags(text, cc)]
    call([*driver, "-D_GNU_SOURCE", "-w", f"-I{include}", *flags, "-c", "-o", obj, source])

    def linked(name, rewrite):
        exe = tmp / name
        call([driver[0], *link, "-o", exe, obj, build / "libetch.a", "-pthread"])
        if rewrite:
            call([build / "etch", "rewrite", exe])
        return exe

    def ran(exe):
        p = call([exe], ok=False)
        return p.stdout + (f"exit {p.returncode}\n{p.stderr}" if p.returncode else "")

    want = ran(linked("plain", False))
    say = f"seed {seed}: {cc} {' '.join(flags)} {' '.join(link)}{' C++' if cxx else ''}{' seal' if seal else ''}"
    if not want.endswith("\n0 0\n"):
        return f"{say}: unprocessed: {want[-300:]}"
    progs = [("link", linked("link", True))]
    call([build / "etch", "rewrite", obj])
    progs += [("object", linked("object", False)), ("both", linked("both", True))]
    for name, exe in progs:
        got = ran(exe)
        if got != want:
            a, b = want.splitlines(), got.splitlines()
            at = next((k for k, (u, v) in enumerate(zip(a, b)) if u != v), min(len(a), len(b)))
            return f"{say}: {name}: line {at + 1}: {a[at:at + 1]} became {b[at:at + 1]} ({len(a)} and {len(b)} lines)"
    return None


def soak(first, count, build):
    bad = 0
    include = Path(__file__).resolve().parent.parent.parent / "lib" / "include"
    for seed in range(first, first + count):
        with tempfile.TemporaryDirectory(prefix="etch-pv-") as tmp:
            try:
                said = steps(seed, build, Path(tmp), include)
            except (RuntimeError, subprocess.TimeoutExpired) as e:
                said = f"seed {seed}: {e}"
        if said:
            bad += 1
            print(said, flush=True)
    print(f"{count} programs, {bad} went wrong", flush=True)
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
