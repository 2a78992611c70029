#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Writes a program of random calls through ops objects.

usage: gen_programs.py SEED SITES DIR

    gen.h       the structs of function pointers, and what they may point to
    targets.c   functions of C to be called, and targets.cc those of C++, some of which throw
    gen.c       the objects of C, their sets, and calls, with etch/pv.h
    imv.c       calls of a file that knows etch/imv.h alone
    cxx.cc      objects and calls of C++

gen_driver.c runs them, test_pv_generated.py builds them.
"""
import pathlib
import random
import sys

TYPES = ("bool schar uchar short ushort_ int uint_ long_ u64 text anyp color float double ldouble fn wide cdouble "
         "s1 s3 s8 s16 s16d s16m s16n s4f s3f s24 s42 sld spacked u8f word").split()
WORDS = {"int", "uint_", "color"}                       # pv_ident_32 returns these
LONGS = {"long_", "u64", "text", "anyp", "word", "fn"}   # pv_ident_64, these
FLOATS = {"float", "double"}                             # any function that touches neither register, these
SMALL = {"bool", "schar", "uchar", "short", "ushort_"}

# name, instructions, result, arguments. The last two are not to be inlined, only called.
NATIVES = [
    ("native_add", "lea 7(%rdi),%rax", "u64", ["u64"]),
    ("native_swap", "mov %rdi,%rax; bswap %rax", "u64", ["u64"]),
    ("native_add2", "lea (%rdi,%rsi,2),%rax", "u64", ["u64", "u64"]),
    ("native_store", "mov %rsi,(%rdi)", "void", ["word", "u64"]),
    ("native_load", "mov (%rdi),%rax", "u64", ["word"]),
    ("native_double", "addsd %xmm0,%xmm0", "double", ["double"]),
    ("native_nothing", "", "void", []),
    ("native_long", "mov %rdi,%rax; xor %rsi,%rax; imul $77,%rax,%rax; add $99,%rax; bswap %rax", "u64", ["u64", "u64"]),
    ("native_saves", "push %rbx; mov %rdi,%rbx; lea 1(%rbx),%rax; pop %rbx", "u64", ["u64"]),
]
COMMON = [(n[2], n[3]) for n in NATIVES] + [
    ("void", []), ("int", ["int"]), ("long_", ["long_", "int"]), ("text", ["text"]), ("int", []), ("u64", ["u64"]),
    ("void", ["u64"] * 8), ("u64", ["u64"] * 8), ("s24", ["s24", "int"]), ("double", ["double"] * 8)]


# Sites whose arguments can be variables: without optimisation, a pointer is read before
# its arguments are worked out, and kept over the calls of that.
BEFORE = {"plain", "guarded", "copied", "copied and kept", "branches", "pointer", "opaque pointer", "destructor"}


class Slot:
    def __init__(self, number, field, result, params, variadic=False, noreturn=False, reference=False, throws=False):
        self.number, self.field, self.result, self.params = number, field, result, params
        self.variadic, self.noreturn, self.reference, self.throws = variadic, noreturn, reference, throws
        self.targets = []  # C expressions
        self.object = None

    def param(self, t):
        return f"const {t} &" if self.reference else t

    def signature(self, name):
        params = ", ".join([self.param(t) for t in self.params] + ["..."] * self.variadic) or "void"
        return f"{self.result} {name}({params})" + " __attribute__((noreturn))" * self.noreturn

    def member(self):
        return self.signature(f"(*{self.field})")

    def access(self):
        return f"{self.object}.{self.field}"


def slots_make(rng, first, count, cxx=False):
    """Slots of one struct. The first two are alike, so that pointers can meet."""
    out = []
    for i in range(count):
        n, field = first + i, f"f{i}"
        if i < 2:
            out.append(Slot(n, field, "u64", ["u64"]))
        elif i == 2:
            out.append(Slot(n, field, rng.choice(["u64", "void", "double"]), ["int"], variadic=True))
        elif i == 3:
            out.append(Slot(n, field, "void", ["u64"], noreturn=True))
        elif cxx and i % 3 == 1:
            out.append(Slot(n, field, rng.choice(["void"] + TYPES), [rng.choice(TYPES) for _ in range(rng.randrange(1, 5))],
                            reference=True))
        elif cxx and i % 3 == 2:
            out.append(Slot(n, field, rng.choice(["void"] + TYPES), [rng.choice(TYPES) for _ in range(rng.randrange(5))],
                            throws=True))
        elif rng.random() < 0.5:
            result, params = rng.choice(COMMON)
            out.append(Slot(n, field, result, list(params)))
        else:
            out.append(Slot(n, field, rng.choice(["void"] + TYPES), [rng.choice(TYPES) for _ in range(rng.randrange(9))]))
    return out


def target_body(rng, slot, number):
    """A function's body, its parameters being p0, p1..."""
    lines = [f"u64 h = {number}u;"]
    lines += [f"h = gen_mix(h, fold_{t}(p{i}));" for i, t in enumerate(slot.params)]
    if slot.variadic:
        lines += ["va_list l; va_start(l, p0);",
                  "for (int i = 0; i < p0; i++)",
                  "\th = gen_mix(h, i & 1 ? fold_double(va_arg(l, double)) : va_arg(l, u64));",
                  "va_end(l);"]
    lines.append("gen_note(h);")
    if slot.throws and rng.random() < 0.6:
        lines.append("if (h & 1) throw gen_error{h};" if rng.random() < 0.7 else "throw gen_error{h};")
    if slot.noreturn:
        lines.append("siglongjmp(gen_escape, 1);")
    elif slot.result != "void":
        lines.append(f"return mk_{slot.result}(h);")
    return "\n".join("\t" + line for line in lines)


def targets_make(rng, slot, declare, define):
    """The functions of a slot: three of its own, and what its type allows."""
    names = ", ".join([f"{slot.param(t)} p{i}" for i, t in enumerate(slot.params)] + ["..."] * slot.variadic) or "void"

    def function(name, body):
        declare.append(slot.signature(name) + ";")
        define.append(f"NOINLINE {slot.result} {name}({names})\n{{\n{body}\n}}")
        slot.targets.append(name)

    for k in range(3):
        function(f"t{slot.number}_{k}", target_body(rng, slot, 3 * slot.number + k))
    unused = "".join(f"\t(void)p{i};\n" for i in range(len(slot.params)))
    same = slot.params[:1] == [slot.result] and not slot.reference
    if slot.noreturn:
        return
    if slot.result == "void":
        function(f"t{slot.number}_none", unused)
        slot.targets.append("pv_nop")
    elif slot.result in WORDS | LONGS | SMALL:
        constant = {"fn": None, "text": None, "word": None}.get(slot.result, f"({slot.result})0")
        if constant:
            function(f"t{slot.number}_zero", unused + f"\treturn {constant};")
            function(f"t{slot.number}_one", unused + f"\treturn ({slot.result})1;")
    if same and slot.result in WORDS | LONGS | SMALL | FLOATS:
        function(f"t{slot.number}_same", unused + "\treturn p0;")
    if same and slot.result in WORDS:
        slot.targets.append("pv_ident_32")
    if same and slot.result in LONGS | FLOATS:
        slot.targets.append("pv_ident_64")
    if same and slot.result in FLOATS:
        slot.targets.append("pv_nop")
    if not slot.variadic and not slot.reference:
        slot.targets += [n[0] for n in NATIVES if (n[2], n[3]) == (slot.result, slot.params)]


class Sites:
    """The sites of one file."""

    def __init__(self, rng, suffix, cxx=False, pv=True):
        self.rng, self.suffix, self.cxx, self.pv = rng, suffix, cxx, pv
        self.text, self.rows = [], []
        self.before = None  # where arguments go that are worked out before the pointer is read

    def arguments(self, slot):
        out = [f"mk_{t}({self.rng.choice(['a', 'b', '(a ^ b)'])} + {self.rng.randrange(999)})" for t in slot.params]
        if slot.variadic:
            n = self.rng.randrange(9)
            out = [str(n)] + [f"mk_double(b + {i})" if i & 1 else f"a + {i}" for i in range(n)]
        elif self.before is not None:
            for i, t in enumerate(slot.params):
                name = f"p{len(self.before)}"
                self.before.append(f"\t{t} {name} = {out[i]};\n")
                out[i] = name
        return out

    def call(self, slot, args=None, through=None):
        args = ", ".join(self.arguments(slot) if args is None else args)
        if through:
            return f"{through}({args})"
        if self.pv and self.rng.random() < 0.3:
            return f"pv_call({slot.object}, {slot.field}{', ' if args else ''}{args})"
        return f"{slot.access()}({args})"

    def folded(self, slot, **kw):
        """The call as an expression of u64."""
        if slot.result == "void":
            return f"({self.call(slot, **kw)}, (u64)3)"
        return f"fold_{slot.result}({self.call(slot, **kw)})"

    def function(self, name, params, body):
        self.text.append(f"static NOINLINE {name}({params})\n{{\n{body}\n}}")

    def add(self, slot, other, synced):
        n = f"{self.suffix}{len(self.rows)}"
        rng = self.rng
        kinds = ["plain", "plain", "tail", "tail", "tail with work", "tail of two", "loop", "guarded", "copied",
                 "copied and kept", "live", "branches", "nested"]
        if synced:
            kinds += ["pointer", "opaque pointer", "callback", "index", "several"]
        if self.cxx:
            kinds += ["template", "destructor", "lambda"]
        kind = rng.choice(kinds)
        if slot.noreturn:
            kind = "noreturn"
        elif slot.variadic and kind.startswith("tail"):
            kind = "plain"
        self.before = [] if kind in BEFORE and rng.random() < 0.7 else None
        second, f = slot, self.folded
        params = ", ".join(f"{slot.param(t)} p{i}" for i, t in enumerate(slot.params)) or "void"
        forward = [f"p{i}" for i in range(len(slot.params))]
        give = "return " if slot.result != "void" else ""
        if kind == "noreturn":
            body = ("\tif (!sigsetjmp(gen_escape, 0))\n"
                    f"\t\t{self.call(slot)};\n\treturn gen_trace;")
        elif kind.startswith("tail"):
            inner = self.call(slot, forward)
            if kind == "tail with work":
                work = f"gen_note({self.rng.randrange(99)});\n\t"
            elif kind == "tail of two":
                work = (f"if (gen_trace & 1)\n\t\t{give}{self.call(slot, forward)};\n"
                        + ("\telse\n\t\t" if not give else "\tgen_note(1);\n\t"))
            else:
                work = ""
            self.function(f"{slot.result} tail{n}", params, f"\t{work}{give}{inner};")
            arguments = ", ".join(self.arguments(slot))
            call = f"tail{n}({arguments})"
            body = f"\treturn {f'fold_{slot.result}({call})' if give else f'({call}, (u64)4)'};"
        elif kind == "loop":
            body = f"\tu64 h = b;\n\tfor (u64 i = 0; i < 3; i++, a++)\n\t\th = gen_mix(h, {f(slot)});\n\treturn h;"
        elif kind == "guarded":
            body = f"\tif ({slot.access()})\n\t\treturn {f(slot)};\n\treturn a;"
        elif kind == "copied":
            body = f"\t__typeof__({slot.access()}) p = {slot.access()};\n\treturn {f(slot, through='p')};"
        elif kind == "copied and kept":
            body = (f"\t__typeof__({slot.access()}) p = {slot.access()};\n\tu64 h = {f(slot, through='p')};\n"
                    f"\treturn gen_mix(h, {f(slot, through='p')});")
        elif kind == "live":
            body = ("".join(f"\tu64 v{i} = gen_square(a + {i}) ^ b;\n" for i in range(7)) + f"\tu64 h = {f(slot)};\n"
                    "\treturn gen_mix(gen_mix(gen_mix(h, v0 ^ v1), gen_mix(v2, v3)), gen_mix(v4, v5 + v6));")
        elif kind == "branches":
            body = f"\tif (a & 1)\n\t\treturn {f(slot)};\n\treturn {f(slot)} ^ 9;"
        elif kind == "nested":
            second = other
            body = f"\ta = {f(other)};\n\treturn gen_mix({f(slot)}, b);"
        elif kind == "pointer":
            body = (f"\t__typeof__({slot.object}) *p = &{slot.object};\n"
                    f"\treturn {f(slot, through=f'p->{slot.field}')} + {f(slot, through=f'p->{slot.field}')};")
        elif kind == "opaque pointer":
            body = (f"\t__typeof__({slot.object}) *p = &{slot.object};\n\t__asm__(\"\" : \"+r\"(p));\n"
                    f"\treturn {f(slot, through=f'p->{slot.field}')};")
        elif kind == "callback":
            slot = second = synced[0]
            body = f"\treturn gen_apply({slot.access()}, a);"
        elif kind == "index":
            slot, second = synced[0], synced[1]
            body = f"\tu64 (*const *f)(u64) = &{slot.access()};\n\treturn f[a & 1](b);"
        elif kind == "several":
            slot, second = synced[0], synced[1]
            body = f"\tu64 (*f)(u64) = a & 1 ? {slot.access()} : {second.access()};\n\treturn f(b);"
        elif kind == "template":
            args = ", ".join(self.arguments(slot))
            self.text.append(f"template <class T> NOINLINE u64 template{n}(T a, T b)\n{{\n\t(void)a, (void)b;\n"
                             f"\treturn {self.folded(slot, args=[args] if args else [])};\n}}")
            body = f"\treturn template{n}<u64>(a, b) + template{n}<int64_t>((int64_t)b, (int64_t)a);"
        elif kind == "destructor":
            body = f"\tgen_guard g(a), k(b);\n\treturn {f(slot)};"
        elif kind == "lambda":
            body = f"\tauto run = [&](u64 b) {{ (void)b; return {f(slot)}; }};\n\treturn run(a) ^ run(b);"
        else:
            body = f"\treturn {f(slot)};"
        if self.before:
            body = "".join(self.before) + body
        self.before = None
        name = f"call{n}"
        if slot.throws:  # through a frame of any of these kinds
            self.function(f"u64 inner{n}", "u64 a, u64 b", "\t(void)a, (void)b;\n" + body)
            body = (f"\tgen_guard g(a);\n\ttry {{\n\t\treturn inner{n}(a, b);\n\t}} catch (const gen_error &e) {{\n"
                    "\t\treturn e.h ^ b;\n\t}")
        self.function(f"u64 {name}", "u64 a, u64 b", "\t(void)a, (void)b;\n" + body)
        self.rows.append(f"\t{{{name}, {{{slot.number}, {second.number}}}, \"{slot.access()}: {kind}\"}},")

    def table(self, name):
        return [f"extern const struct gen_site {name}[];", f"extern const unsigned {name}_count;",
                f"const struct gen_site {name}[] = {{", *self.rows, "};", f"const unsigned {name}_count = {len(self.rows)};"]


def struct_text(name, slots, rng):
    lines = []
    for s in slots:
        if s.field != "f1" and rng.random() < 0.2: # the first two make an array
            lines.append(f"\tint gap{s.number};")
        lines.append(f"\t{s.member()};")
    return f"struct {name} {{\n" + "\n".join(lines) + "\n};"


def generate(seed, count):
    rng = random.Random(seed)
    objects = {}
    first = 0
    for name in ("os", "oh", "og", "oy"):
        objects[name] = slots_make(rng, first, 9)
        first += 9
    cxx = {}
    for name in ("gen::on", "oc"):
        cxx[name] = slots_make(rng, first, 12, cxx=True)
        first += 12
    head = ["#ifndef GEN_H\n#define GEN_H", "/* Generated by tests/patch/gen_programs.py: do not edit. */",
            '#include "gen_types.h"', "#ifdef __cplusplus\nextern \"C\" {\n#endif",
            "u64 gen_apply(u64 (*f)(u64), u64 x);"]
    tail = ["#ifdef __cplusplus", "struct gen_error { u64 h; };",
            "struct gen_guard { u64 h; explicit gen_guard(u64 x) : h(x) {} ~gen_guard() { gen_note(h); } };"]
    targets = ['#include "gen.h"', "u64 gen_apply(u64 (*f)(u64), u64 x) { return f(x) + 1; }"]
    targets_cxx = ['#include "gen.h"']
    for name, instructions, result, params in NATIVES:
        head.append(f"{result} {name}({', '.join(params) or 'void'});")
    for name, slots in {**objects, **cxx}.items():
        for s in slots:
            s.object = name
            if name in objects:
                targets_make(rng, s, head, targets)
            else:
                targets_make(rng, s, tail, targets_cxx)
    for name, slots in objects.items():
        head.append(struct_text(f"ops_{name}", slots, rng))
    head.append("#ifdef __cplusplus\n}\n#endif")
    for name, slots in cxx.items():
        tail.append(struct_text(f"ops_{name.replace('::', '_')}", slots, rng))
    tail.append("#endif\n#endif")

    out = ["#include <etch/pv.h>", '#include "gen.h"',
           "DECLARE_PV_OPS_LOCAL(struct ops_oh, oh);"]
    out += [f'PV_NATIVE({name}, "{instructions}");' for name, instructions, _, _ in NATIVES]
    for name, slots in objects.items():
        storage = "static " if name == "os" else ""
        define = f"ETCHED struct ops_{name} {name}" if name == "oy" else f"DEFINE_PV_OPS(struct ops_{name}, {name})"
        values = ", ".join(f".{s.field} = {rng.choice(s.targets)}" for s in slots)
        out.append(f"{storage}{define} = {{{values}}};")
    imv = ["#include <etch/imv.h>", '#include "gen.h"',
           'extern struct ops_oh oh __attribute__((visibility("hidden")));', "extern struct ops_og og;",
           "extern struct ops_oy oy;"]
    plus = ["#include <etch/pv.h>", '#include "gen.h"', 'extern "C" { DECLARE_PV_OPS_LOCAL(struct ops_oh, oh); '
            "DECLARE_PV_OPS(struct ops_og, og); }"]
    for name, slots in cxx.items():
        space, _, own = name.rpartition("::")
        # .f = is C++20: values in the order of the fields, gaps zero.
        fields = {s.field: rng.choice(s.targets) for s in slots}
        struct = f"ops_{name.replace('::', '_')}"
        order = []
        for line in next(t for t in tail if t.startswith(f"struct {struct} ")).splitlines()[1:-1]:
            order.append("0" if "gap" in line else fields[line.split("(*")[1].split(")")[0]])
        text = f"{'static ' if space else ''}DEFINE_PV_OPS({struct}, {own}) = {{{', '.join(order)}}};"
        plus.append(f"namespace {space} {{ {text} }}" if space else text)

    sites = {"": Sites(rng, ""), "_imv": Sites(rng, "i", pv=False), "_cxx": Sites(rng, "x", cxx=True)}
    of = {"": ["os", "oh", "og", "oy"], "_imv": ["oh", "og", "oy"], "_cxx": ["gen::on", "oc", "oh", "og"]}
    share = {"": 0.5, "_imv": 0.2, "_cxx": 0.3}
    everything = {**objects, **cxx}
    for suffix, s in sites.items():
        for _ in range(int(count * share[suffix])):
            slots = everything[rng.choice(of[suffix])]
            slot = rng.choice(slots)
            other = rng.choice([x for x in slots if not x.noreturn and not x.variadic and not x.throws])
            s.add(slot, other, slots[:2] if slot.object == "oy" else None)
    numbers = []

    def sets(lines, slots):
        for s in slots:
            cases = "".join(f"\tcase {i}: return pv_set({s.access()}, {t});\n" for i, t in enumerate(s.targets))
            null = len(s.targets)
            lines.append(f"int gen_set{s.number}(unsigned target);\nint gen_set{s.number}(unsigned target)\n{{\n"
                         f"\tswitch (target) {{\n{cases}\t}}\n\treturn pv_set({s.access()}, {rng.choice(['NULL', '0'])});\n}}")
            numbers.append(f"\t{{gen_set{s.number}, {null + 1}, {null}, \"{s.access()}\"}},")

    for name in objects:
        sets(out, objects[name])
    plus.append('extern "C" {')
    for name in cxx:
        sets(plus, cxx[name])
    plus.append("}")
    out += [f"int gen_set{s.number}(unsigned target);" for slots in cxx.values() for s in slots]
    out += ["const struct gen_slot gen_slots[] = {", *numbers, "};", f"const unsigned gen_slots_count = {len(numbers)};"]
    out += ["int gen_sync(void) { return etch_sync(&oy, sizeof(oy)); }",
            "int gen_release(void) { return etch_release(&oy, sizeof(oy)); }"]
    out += sites[""].text + sites[""].table("gen_sites")
    imv += sites["_imv"].text + sites["_imv"].table("gen_sites_imv")
    plus += sites["_cxx"].text + ['extern "C" {'] + sites["_cxx"].table("gen_sites_cxx") + ["}"]
    return {"gen.h": head + tail, "targets.c": targets, "targets.cc": targets_cxx, "gen.c": out, "imv.c": imv, "cxx.cc": plus}


def main():
    seed, count, directory = int(sys.argv[1]), int(sys.argv[2]), pathlib.Path(sys.argv[3])
    for name, lines in generate(seed, count).items():
        (directory / name).write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
