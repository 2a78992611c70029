#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Writes a C program of random reads of etched objects.

usage: generate_reads.py SEED READS DIR    writes gen.h, gen.c, gen2.c and shadow.c to DIR

Each read is a small function, once on an etched object and once on its shadow (a
plain variable of another file, which no compiler can see the value of). gen.c
defines the etched objects; gen2.c reads those of them that are not static. See
driver.c for what runs them, and test_forms_generated.py for the builds.
"""
import pathlib
import random
import sys

INTEGERS = {
    "u8": "uint8_t", "s8": "int8_t", "u16": "uint16_t", "s16": "int16_t", "u32": "uint32_t",
    "s32": "int32_t", "u64": "uint64_t", "s64": "int64_t",
}

# Contexts of one read X of type T. `u` marks those for unsigned long operands.
CONTEXTS = {
    "return": "return (uint64_t)X;",
    "add": "return a + (uint64_t)X;",
    "sub": "return a - (uint64_t)X;",
    "reverse sub": "return (uint64_t)X - a;",
    "and": "return a & (uint64_t)X;",
    "or": "return a | (uint64_t)X;",
    "xor": "return a ^ (uint64_t)X;",
    "narrow add": "T n = (T)a; n = (T)(n + X); return (uint64_t)n;",
    "narrow and": "T n = (T)a; n = (T)(n & X); return (uint64_t)n;",
    "narrow or": "T n = (T)a; n = (T)(n | X); return (uint64_t)n;",
    "narrow xor": "T n = (T)a; n = (T)(n ^ X); return (uint64_t)n;",
    "narrow sub": "T n = (T)a; n = (T)(n - X); return (uint64_t)n;",
    "narrow multiply": "T n = (T)a; n = (T)(n * (uint64_t)X); return (uint64_t)n;",
    "int add": "return (uint32_t)a + (uint32_t)X;",
    "carry": "unsigned __int128 w = (unsigned __int128)b << 64 | a; "
             "w += (unsigned __int128)(uint64_t)X << 64 | b; return (uint64_t)(w >> 64) ^ (uint64_t)w;",
    "borrow": "unsigned __int128 w = (unsigned __int128)b << 64 | a; "
              "w -= (unsigned __int128)(uint64_t)X << 64 | b; return (uint64_t)(w >> 64) ^ (uint64_t)w;",
    "carry in": "unsigned long long r, q; unsigned char c = _addcarry_u64(0, a, b, &r); "
                "_addcarry_u64(c, b, (uint64_t)X, &q); return r ^ q;",
    "borrow in": "unsigned long long r, q; unsigned char c = _subborrow_u64(0, a, b, &r); "
                 "_subborrow_u64(c, b, (uint64_t)X, &q); return r ^ q;",
    "carry of a compare": "return b + (uint64_t)X + (a < b);",
    "int borrow of a compare": "return (uint32_t)b - (uint32_t)X - (uint32_t)(a < b);",
    "negate": "return (uint64_t)-(int64_t)X;",
    "complement": "return ~(uint64_t)X;",
    "equal": "return (T)a == X;",
    "less": "return (T)a < X;",
    "greater": "return X < (T)b ? a : b;",
    "equal to a constant": "if (X == 3) return a; return b;",
    "branch": "if (X) return gen_mix2(a, 1); return b;",
    "branch on a bit": "if ((uint64_t)X & 4) return a; return b * 3;",
    "test": "if ((uint64_t)X & a) return 1; return b;",
    "narrow test": "if ((T)(X & (T)a)) return 7; return b;",
    "switch": "switch ((unsigned)((uint64_t)X & 7)) { case 0: return a; case 1: return b; case 2: return a + b; "
              "case 3: return a ^ b; case 5: return 12; case 6: return gen_mix2(a, b); default: return a * b; }",
    "call argument": "return gen_mix2((uint64_t)X, a);",
    "two call arguments": "return gen_mix2(b, (uint64_t)X) + gen_mix2((uint64_t)X, 1);",
    "stacked call arguments": "return gen_mix8(a, b, 1, 2, 3, 4, (uint64_t)X, b);",
    "stacked call argument": "return gen_mix8(a, b, 1, 2, 3, 4, b, (uint64_t)X) + 1;",
    "tail call": "return gen_mix2(a, (uint64_t)X);",
    "loop bound": "uint64_t s = a; for (unsigned i = 0; i < (unsigned)((uint64_t)X & 31); i++) s = s * 31 + i; return s;",
    "read in a loop": "uint64_t s = a; for (unsigned i = 0; i < 3; i++) s = gen_mix2(s, (uint64_t)X); return s;",
    "summed in a loop": "uint64_t s = 0; for (uint64_t i = 0; i < (b & 63); i++) s += (uint64_t)X ^ i; return s;",
    "index": "return gen_table[(uint64_t)X & 15] + a;",
    "shift": "return a << ((uint64_t)X & 63);",
    "shift right": "return (uint64_t)((int64_t)a >> ((uint64_t)X & 31));",
    "shifted": "return (uint64_t)X >> (a & 7);",
    "multiply": "return a * (uint64_t)X;",
    "int multiply": "return (uint32_t)a * (uint32_t)X;",
    "divide": "return a / ((uint64_t)X | 1);",
    "modulo": "return (uint64_t)X % (a | 1);",
    "conditional": "return X ? a : b;",
    "conditional value": "return a & 1 ? (uint64_t)X : b;",
    "maximum": "return (T)a > X ? (uint64_t)(T)a : (uint64_t)X;",
    "store": "volatile T n; n = X; return (uint64_t)n + a;",
    "store wide": "volatile uint64_t n[2]; n[a & 1] = (uint64_t)X; return n[a & 1];",
    "truncated": "return (uint8_t)X + (uint64_t)(uint16_t)X;",
    "signed wide": "return (uint64_t)(int64_t)(int32_t)X;",
    "to double": "return (uint64_t)(int64_t)((double)(int16_t)X * 2.0);",
    "twice": "uint64_t x = (uint64_t)X; return gen_mix2(x, a) + (uint64_t)X;",
    "live over a call": "uint64_t x = gen_mix2(a, b); return x + (uint64_t)X * 3 + gen_mix2(x, (uint64_t)X);",
    "many registers": "uint64_t r[8]; for (unsigned i = 0; i < 8; i++) r[i] = gen_table[(a >> i) & 15]; "
                      "uint64_t x = (uint64_t)X; uint64_t s = 0; for (unsigned i = 0; i < 8; i++) s = gen_mix2(s + x, r[i]); "
                      "return s;",
    "inline function": None,
    "set between reads": None,
}
POINTER_CONTEXTS = {
    "distance": "return (uint64_t)(X - gen_table) + a;",
    "target": "return *X + b;",
    "indexed target": "return X[-(X - gen_table)] ^ X[0];",
    "null": "if (!X) return a; return b;",
}
FLOAT_CONTEXTS = {
    "float add": "double d = (double)(int32_t)a + (double)X; return (uint64_t)(int64_t)(d / 4);",
    "float compare": "return X < 3 ? a : b;",
    "float return": "union { double d; uint64_t u; } w; w.d = (double)X; return w.u;",
}
FUNCTION_CONTEXTS = {"function pointer": "return X(a, b) + 1;"}


class Field:
    """One member of an object, or the whole of a scalar object."""

    def __init__(self, kind, ctype, decl, access, set_access=None, convert="(T)v"):
        self.kind, self.ctype, self.decl, self.access = kind, ctype, decl, access
        self.set_access = access if set_access is None else set_access
        self.convert = convert.replace("T", ctype)

    def contexts(self):
        return {"pointer": POINTER_CONTEXTS, "float": FLOAT_CONTEXTS, "function": FUNCTION_CONTEXTS}.get(
            self.kind, CONTEXTS)


def struct_fields(rng):
    """The members of a struct in random order, with gaps: reads at many offsets."""
    fields = []
    for name, ctype in INTEGERS.items():
        fields.append([Field("int", ctype, f"{ctype} {name};", f".{name}")])
        n = rng.choice([3, 5, 8])
        fields.append([Field("int", ctype, f"{ctype} a_{name}[{n}];" if i == 0 else "", f".a_{name}[{i}]")
                       for i in range(n)])
    fields += [
        [Field("bool", "_Bool", "_Bool flag;", ".flag", convert="(v & 1)")],
        [Field("int", "enum gen_color", "enum gen_color color;", ".color", convert="(enum gen_color)(v & 3)")],
        [Field("pointer", "const uint64_t *", "const uint64_t *ptr;", ".ptr", convert="&gen_table[v & 15]")],
        [Field("int", "uintptr_t", "void *raw;", ".raw", convert="(void *)v")],
        [Field("float", "float", "float f;", ".f", convert="(float)(int32_t)v")],
        [Field("float", "double", "double d;", ".d", convert="(double)(int32_t)v")],
        [Field("function", "", "uint64_t (*call)(uint64_t, uint64_t);", ".call",
               convert="(v & 1 ? gen_mix2 : gen_add2)")],
        [Field("bits", t, "union { uint32_t word; struct { uint32_t b3 : 3, b1 : 1; int32_t s9 : 9; uint32_t b8 : 8, b11 : 11; } b; } bits;"
               if i == 0 else "", f".bits.b.{n}", ".bits.word", "(uint32_t)v")
         for i, (n, t) in enumerate([("b3", "uint32_t"), ("b1", "uint32_t"), ("s9", "int32_t"), ("b8", "uint32_t"), ("b11", "uint32_t")])],
        [Field("int", "uint32_t", "struct { uint32_t x, y; } pair;" if n == "x" else "", f".pair.{n}") for n in "xy"],
        [Field("int", "uint16_t", "struct { uint16_t x, y, z, w; } quad;" if n == "x" else "", f".quad.{n}") for n in "xyzw"],
        [Field("int", "uint8_t", "struct { uint8_t x, y; int16_t z; } __attribute__((packed)) odd;" if n == "x" else "",
               f".odd.{n}") for n in "xy"],
    ]
    rng.shuffle(fields)
    out = []
    for i, group in enumerate(fields):
        if rng.random() < 0.4:
            out.append(Field("pad", "", f"char pad{i}[{rng.choice([1, 2, 3, 7, 12, 40, 200])}];", ""))
        out += group
    return out


# Reads of more than one field, or of the object as a whole: struct objects only.
# O is the object.
WHOLE = {
    "adjacent 32": "return (uint64_t)O.pair.x | (uint64_t)O.pair.y << 32;",
    "adjacent 16": "return (uint32_t)O.quad.x | (uint32_t)O.quad.y << 16;",
    "adjacent 8": "return (uint16_t)(O.odd.x | O.odd.y << 8);",
    "adjacent 4x16": "return (uint64_t)O.quad.x | (uint64_t)O.quad.y << 16 | (uint64_t)O.quad.z << 32 | (uint64_t)O.quad.w << 48;",
    "adjacent compared": "return O.pair.x == (uint32_t)a && O.pair.y == (uint32_t)b;",
    "adjacent bits": "return O.bits.b.b3 == 3 && O.bits.b.b1 ? a : b + O.bits.b.b8;",
    "array of bytes": "return (uint64_t)O.a_u8[0] | (uint64_t)O.a_u8[1] << 8 | (uint64_t)O.a_u8[2] << 16;",
    "array sum": "uint64_t s = 0; for (unsigned i = 0; i < 3; i++) s += O.a_u32[i]; return s;",
    "array minimum": "uint64_t s = a; for (unsigned i = 0; i < 3; i++) if (O.a_u64[i] < s) s = O.a_u64[i]; return s;",
    "struct copy": "__typeof__(O.pair) p = O.pair; return gen_mix2(p.x, p.y);",
    "struct of four": "__typeof__(O.quad) p = O.quad; return p.x + p.y * 3ull + p.z * 5ull + p.w * 7ull;",
    "memcpy of a field": "uint64_t w = 0; memcpy(&w, &O.quad, sizeof(O.quad)); return w + a;",
}
# These take the address (at -O0 in a call): for objects that are synced.
ESCAPES = {
    "memcpy of the struct": "__typeof__(O) copy; memcpy(&copy, &O, sizeof(copy)); "
                            "return gen_mix2(copy.u64 ^ copy.u8, copy.pair.x + copy.s16);",
    "assignment of the struct": "__typeof__(O) copy = O; return gen_mix2((uint64_t)copy.s64, copy.pair.y);",
    "variable index": "return (uint64_t)O.a_u16[a % 3] + b;",
    "memcmp": "uint32_t p[2] = {(uint32_t)a, (uint32_t)b}; return memcmp(&O.pair, p, sizeof(p)) == 0;",
    "through a pointer": "__typeof__(O) *p = &O; return p->u32 + (uint64_t)p->s8;",
}


class Object:
    def __init__(self, name, declaration, fields, struct, synced=False, imv=False):
        self.name, self.declaration, self.fields = name, declaration, fields
        self.struct, self.synced, self.imv = struct, synced, imv
        self.static = "static " in declaration

    def declare(self):
        """For gen2.c."""
        if self.imv:
            return f"DECLARE_IMV({self.fields[0].ctype}, {self.name});"
        hidden = " __attribute__((visibility(\"hidden\")))" if "hidden" in self.declaration else ""
        return f"extern {self.struct or self.fields[0].ctype} {self.name}{hidden};"

    def set(self, field, value, etched):
        if not etched:
            return f"shadow_{self.name}{field.set_access} = {value}"
        if self.imv:
            return f"imv_set({self.name}, {value})"
        return f"etch_set(&{self.name}{field.set_access}, {value})"

    def read(self, field, etched):
        if self.imv:
            return f"imv_read({self.name})" if etched else f"shadow_{self.name}"
        base = self.name if etched else f"shadow_{self.name}"
        return f"{base}{field.access}"


def objects_make(rng):
    objects, types = [], []
    for i, (name, decl, synced) in enumerate([
            ("os", "ETCHED static TYPE os;", False),
            ("oh", "extern TYPE oh __attribute__((visibility(\"hidden\"))); ETCHED TYPE oh;", False),
            ("og", "ETCHED TYPE og;", False),
            ("oy", "ETCHED static TYPE oy;", True)]):
        fields = struct_fields(rng)
        types.append(f"struct gen{i} {{\n" + "".join(f"\t{f.decl}\n" for f in fields if f.decl) + "};")
        objects.append(Object(name, decl.replace("TYPE", f"struct gen{i}"),
                              [f for f in fields if f.kind != "pad"], f"struct gen{i}", synced))
    for kind, ctype in list(INTEGERS.items()) + [("b", "_Bool"), ("d", "double")]:
        convert = "(v & 1)" if kind == "b" else "(double)(int32_t)v" if kind == "d" else "(T)v"
        field = Field("float" if kind == "d" else "int", ctype, "", "", convert=convert)
        storage = rng.choice(["static ", ""])
        objects.append(Object(f"sc_{kind}", f"ETCHED_SHARED {storage}{ctype} sc_{kind};", [field], None))
        if kind != "d": # imv_read is for what fits a register
            objects.append(Object(f"im_{kind}", f"DEFINE_IMV({ctype}, im_{kind}) = 1;" if kind != "b" else
                                  f"{storage}DEFINE_IMV({ctype}, im_{kind}) = 1;", [field], None, imv=True))
    return objects, types


def generate(seed, count):
    rng = random.Random(seed)
    objects, types = objects_make(rng)
    head = ["/* Generated by tests/site/generate_reads.py: do not edit. */", '#include "driver.h"',
            "#include <immintrin.h>", "#include <stdbool.h>", "#include <string.h>", "enum gen_color { RED, GREEN, BLUE, BLACK = 3 };",
            *types]
    out = ['#include "gen.h"', "#include <etch/imv.h>",
           "static uint64_t gen_add2(uint64_t a, uint64_t b) { return a + b; }"]
    out2 = ['#include "gen.h"', "#include <etch/imv.h>"]
    shadow = ['#include "gen.h"']
    for o in objects:
        out.append(o.declaration)
        if not o.static:
            out2.append(o.declare())
        ctype = o.struct or o.fields[0].ctype
        initial = " = 1" if o.imv else ""
        shadow.append(f"{ctype} shadow_{o.name}{initial};")
        head.append(f"extern {ctype} shadow_{o.name};")

    reads = []
    structs = [o for o in objects if o.struct]
    scalars = [o for o in objects if not o.struct]
    # Function pointers are null at first; every other field may be zero.
    for n in range(count):
        o = rng.choice(structs) if rng.random() < 0.6 else rng.choice(scalars)
        kinds = ("etched", "shadow")
        file = out2 if not o.static and rng.random() < 0.4 else out
        if o.struct and rng.random() < 0.2:
            pool = {**WHOLE, **ESCAPES} if o.synced else WHOLE
            context = rng.choice(list(pool))
            bodies = [pool[context].replace("O.", f"{x}.").replace("(O)", f"({x})").replace("= O;", f"= {x};")
                      .replace("&O,", f"&{x},").replace("&O;", f"&{x};")
                      for x in (o.name, f"shadow_{o.name}")]
            what = f"{o.name}: {context}"
        else:
            f = rng.choice(o.fields)
            pool = f.contexts()
            context = rng.choice(list(pool))
            what = f"{o.name}{f.access} ({f.ctype}): {context}"
            bodies = []
            for k in range(2):
                x = o.read(f, k == 0)
                if f.access == ".raw":
                    x = f"(uintptr_t){x}"
                if f.kind == "pointer":
                    guard = f"if (!{x}) return 5; " # null until the first set
                    body = guard + pool[context]
                elif f.kind == "function":
                    body = f"if (!{x}) return 6; " + pool[context]
                elif context == "inline function":
                    file.append(f"static inline {f.ctype} get{n}_{kinds[k]}(void) {{ return {x}; }}")
                    x = f"get{n}_{kinds[k]}()"
                    body = "return (uint64_t)X + gen_mix2((uint64_t)X, a);"
                elif context == "set between reads":
                    if f.kind == "bits" or f.access == ".raw":
                        body = "return (uint64_t)X;"
                    else: # and back: the driver's next read must see what it set
                        new, old = (f.convert.replace("v", v) for v in ("a", "x"))
                        body = (f"uint64_t x = (uint64_t)X; {o.set(f, new, k == 0)}; uint64_t y = (uint64_t)X; "
                                f"{o.set(f, old, k == 0)}; return gen_mix2(y, (uint64_t)X);")
                else:
                    body = pool[context]
                body = "".join(body.replace("(T)", f"({f.ctype})").replace("T n", f"{f.ctype} n"))
                # X as a word of its own only: gen_mix2 and friends hold no capital X.
                bodies.append(body.replace("X", f"({x})"))
        for k in range(2):
            signature = f"uint64_t r{n}_{kinds[k]}(uint64_t a, uint64_t b)"
            static = "static " if file is out else ""
            if file is out2:
                head.append(signature + ";")
            file.append(f"{static}__attribute__((noinline)) {signature}\n"
                        f"{{\n\t(void)a, (void)b;\n\t{bodies[k]}\n}}")
        reads.append(f"\t{{r{n}_etched, r{n}_shadow, \"{what}\"}},")
    out += ["const struct gen_read gen_reads[] = {", *reads, "};",
            f"const unsigned gen_reads_count = {len(reads)};"]

    sets, stores = [], []
    for o in objects:
        seen = set()
        for f in o.fields:
            if f.set_access in seen:
                continue
            seen.add(f.set_access)
            n = len(sets)
            shadow_target = f"shadow_{o.name}{f.set_access}"
            out.append(f"static int set{n}(uint64_t v) {{ {shadow_target} = {f.convert}; "
                       f"return {o.set(f, f.convert, True)}; }}")
            sets.append(f"\t{{set{n}, \"{o.name}{f.set_access}\"}},")
            if o.synced and rng.random() < 0.7:
                stores.append(f"\t{o.name}{f.set_access} = {f.convert}; {shadow_target} = {f.convert}; v = v * 5 + 1;")
    out += ["const struct gen_set gen_sets[] = {", *sets, "};", f"const unsigned gen_sets_count = {len(sets)};"]
    synced = [o.name for o in objects if o.synced]
    out += ["void gen_stores(uint64_t v)\n{", *stores, "}"]
    out += ["int gen_sync(void)\n{\n\tint e = 0;"] + [f"\tif (!e) e = etch_sync(&{s}, sizeof({s}));" for s in synced] + ["\treturn e;\n}"]
    out += ["int gen_release(void)\n{\n\tint e = 0;"] + [f"\tif (!e) e = etch_release(&{s}, sizeof({s}));" for s in synced] + ["\treturn e;\n}"]
    return {name: "\n".join(lines) + "\n" for name, lines in
            (("gen.h", head), ("gen.c", out), ("gen2.c", out2), ("shadow.c", shadow))}


def main():
    seed, count, directory = int(sys.argv[1]), int(sys.argv[2]), pathlib.Path(sys.argv[3])
    for name, text in generate(seed, count).items():
        (directory / name).write_text(text)


if __name__ == "__main__":
    main()
