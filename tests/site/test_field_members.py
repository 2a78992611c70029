# SPDX-License-Identifier: MIT
"""Members that are easily lost: of no bytes, of no known size, unnamed, bit-fields. Whatever stands in a struct beside
the other members, those stay fields; and the places that etch names as reasons are the guilty ones."""
import json
import random

import pytest

from conftest import run

# What is between or after the other members. A list of (before req_count, after it, initializer of the end).
ODD = {
    "nothing": ("", "", ""),
    "empty_union": ("union { } __attribute__((aligned(64)));", "", ""),
    "array_of_none": ("char pad[0] __attribute__((aligned(64)));", "", ""),
    "empty_struct": ("struct { } gap;", "", ""),
    "bits": ("unsigned bf : 3, bf2 : 7;", "", ""),
    "union_": ("union { int ua; float ub; };", "", ""),
    "nested": ("struct { int sa; union { long q; char c[8]; }; };", "", ""),
    "structs_of_none": ("struct sub none[0];", "", ""),
    "no_bits": ("int : 0;", "", ""),
    "empty_unnamed": ("struct { };", "", ""),
    "aligned": ("_Alignas(64) int al;", "", ""),
    "many": ("__int128 big; long double ld; _Bool bo; enum { A, B } en; int (*fp[3])(void); char name[7];", "", ""),
    "flexible": ("", "int flex[];", ""),
    "flexible_given": ("", "int flex[];", ", .flex = { 1, 2, 3 }"),
    "flexible_in_padding": ("", "char one; char flex[];", ", .flex = \"longer than the padding\""),
    "flexible_structs": ("", "struct sub flex[];", ""),
    "last_of_none": ("", "char pad[0];", ""),
    "last_of_none_given": ("", "int pad[0];", ", .pad = { }"),
    "last_empty_union": ("", "union { } __attribute__((aligned(64)));", ""),
    "last_empty_struct": ("", "struct { } end;", ""),
    "last_bits": ("", "unsigned bf : 3, bf2 : 7, : 0;", ""),
    "last_union": ("", "union { int ua; struct { } ub; char uc[3]; };", ""),
    "two_of_none": ("struct sub none[0];", "char a[0]; struct { } b; int flex[];", ""),
}


def odd_program():
    out = ["""#include <etch/imv.h>
#include <stdlib.h>
struct sub { int x, y; };
#include <unistd.h>
"""]
    for n, (middle, end, value) in ODD.items():
        out.append(f"""struct {n} {{ int maxconn; int mode; struct sub esc; {middle} unsigned req_count; int last; {end} }};
ETCHED struct {n} o_{n} = {{ .maxconn = 10{value} }};
__attribute__((noinline)) int work_{n}(int x) {{ o_{n}.req_count++; return x < o_{n}.maxconn ? o_{n}.mode + o_{n}.last : 7; }}
""")
    out.append("int main(int c, char **v) { int r = 0;\n")
    out += [f"\to_{n}.maxconn = atoi(v[0]); r += write(-1, &o_{n}.esc.y, 1) + 1;\n" for n in ODD]
    out += [f"\tr += etch_sync(&o_{n}, sizeof o_{n});\n" for n in ODD]
    out.append("\tfor (int i = 0; i < c; i++) {\n")
    out += [f"\t\twork_{n}(i);\n" for n in ODD]
    return "".join(out) + "\t}\n\treturn r;\n}\n"


WANTED = {"maxconn": "by etch_sync", "mode": "yes", "esc.x": "yes", "esc.y": "no", "req_count": "no", "last": "yes"}


@pytest.mark.parametrize("dwarf", [4, 5])
def test_odd_members_take_no_field_away(flow, dwarf):
    o = flow.compile(flow.source(odd_program(), "odd.c"), ["-O2", "-g", f"-gdwarf-{dwarf}", "-w"])
    exe = flow.link([o], [], "odd")
    flow.rewrite(exe)
    rows = flow.inspect("fields", exe)["fields"]
    for n in ODD:
        found = {r["field"]: r["armed"] for r in rows if r["object"] == f"o_{n}"}
        assert {k: found.get(k) for k in WANTED} == WANTED, (n, found)
    run([exe])


CPP = """
#include <etch/imv.h>
struct empty { };
struct nothing { using t = int; static int s; };
struct base { long b; };
struct C { int f() { return 0; } };
struct a : empty { int x, y; long n; };
struct b : base { int x, y; long n; };
struct c { int x, y; [[no_unique_address]] empty e; long n; [[no_unique_address]] nothing last; };
struct d { int x, y; int C::*member; int (C::*function)(); decltype(nullptr) null; long n; };
struct e { int x, y; long n; enum class k : char { A } kind; int &r; };
static int target;
#define OBJECT(t, ...) ETCHED struct t o_##t = __VA_ARGS__; __attribute__((noinline)) long work_##t(long v) { o_##t.n = v; return o_##t.x + o_##t.y; }
OBJECT(a, { {}, 1, 2, 3 }) OBJECT(b, { {}, 1, 2, 3 }) OBJECT(c, { 1, 2, {}, 3, {} }) OBJECT(d, { 1, 2, nullptr, nullptr, nullptr, 3 }) OBJECT(e, { 1, 2, 3, e::k::A, target })
int main(int argc, char **) { return work_a(argc) + work_b(argc) + work_c(argc) + work_d(argc) + work_e(argc) != 15; }
"""


def test_odd_members_of_classes(flow):
    o = flow.compile(flow.source(CPP, "odd.cc"), ["-O2", "-g", "-w", "-std=c++20"])
    exe = flow.link([o], [], "oddpp")
    flow.rewrite(exe)
    rows = flow.inspect("fields", exe)["fields"]
    for n in "abcde":
        found = {r["field"]: r["armed"] for r in rows if r["object"] == f"o_{n}"}
        assert [found.get(k) for k in ("x", "y", "n")] == ["yes", "yes", "no"], (n, found)
    run([exe])


# ---- the places that are named --------------------------------------------------

MEMBERS = [("int", "a", ""), ("long", "b", ""), ("int", "arr", "[4]"), ("int", "c", ""), ("char", "name", "[12]"),
           ("struct sub", "s", ""), ("unsigned", "d", ""), ("short", "e", ""), ("struct sub", "t", "[2]")]

# Each uses object o in a way of its own: reads it, or stores to some bytes, arrays or any bytes, or lets an address
# of those escape.
PLACES = [
    "return {o}.a + {o}.c + {o}.d;", "return {o}.b + {o}.arr[1] + {o}.e;", "{o}.b += v;", "{o}.arr[v & 3] = v;", "{o}.arr[2] = v;",
    "use(&{o}.c);", "use({o}.name);", "use(&{o}.s.y);", "*(v & 1 ? &{o}.d : (unsigned *)&{o}.c) = v;", "{o}.e = v;", "kept = &{o}.d;",
    "{o}.name[v & 7] = v;", "{o}.s.x = v;", "{o}.t[1].x = v;", "{o}.a = v;",
    "kept = &{o};", "use(&{o});", "use(&{o}.a);",
]
WHOLE = 80  # bytes of an object
FIELDS_ONLY = 15  # the first ones are about some bytes


def places_program(variants):
    """Objects, each with the places that use it: [(name, [number of a place])]."""
    out = ["""#include <etch/imv.h>
#include <string.h>
struct sub { int x, y; };
void *kept;
__attribute__((noinline)) void use(void *p) { kept = p; }
""", "struct o { " + "".join(f"{t} {n}{a}; " for t, n, a in MEMBERS) + "int flex[]; };\n"]
    for o, places in variants:
        out.append(f"ETCHED struct o {o} = {{ 1, 2 }};\n")
        out.append(f"__attribute__((noinline)) int read_{o}(void) {{ return {o}.a + (int){o}.b + {o}.c + {o}.d + {o}.e + {o}.s.y + {o}.arr[3] + {o}.name[1]; }}\n")
        out += [f"__attribute__((noinline)) int {o}__{k}(int v) {{ {PLACES[k].format(o=o)} return 0; }}\n" for k in places]
    out.append("int main(int c, char **v) {\n\tint r = 0;\n")
    out += [f"\tr |= etch_sync(&{o}, sizeof {o});\n" for o, _ in variants]
    out += [f"\tr |= read_{o}() & 0;\n" + "".join(f"\t{o}__{k}(c);\n" for k in places) for o, places in variants]
    return "".join(out) + "\treturn r;\n}\n"


def places_rows(flow, variants, name):
    """{object: {offset of a field: (armed, bytes, numbers of the places that are named)}}, of the fields that are read."""
    o = flow.compile(flow.source(places_program(variants), f"{name}.c"), ["-O2", "-g", "-w"])
    exe = flow.link([o], [], name)
    flow.rewrite(exe)
    out = {}
    for r in json.loads(run([flow.etch, "inspect", "fields", "--all", "--json", exe]).stdout)["fields"]:
        named = {int(w.split("+")[0].split("__")[1]) for w in (r["because"] or "").replace(";", " ").split() if w.startswith(r["object"] + "__")}
        out.setdefault(r["object"], []).append((r["offset"], r["size"], r["armed"], named))
    return out


@pytest.mark.parametrize("seed", [1, 2])
def test_the_places_that_are_named_are_the_guilty_ones(flow, seed):
    rng = random.Random(f"{flow.cc}{seed}")
    full = [(f"f{k}", sorted(rng.sample(range(FIELDS_ONLY if k < 10 else len(PLACES)), rng.randint(2, 5)))) for k in range(12)]
    rows = places_rows(flow, full, "full")
    again, asked = [], {}
    for o, places in full:
        for at, size, armed, named in rows[o]:
            if armed == "yes":
                assert not named, (o, rows[o])
                continue
            assert named and named <= set(places), (o, rows[o])
            for p in [None, *named]:
                name = f"{o}_{at}" + (f"_{p}" if p is not None else "")
                asked[name] = (at, at + size, p, places)
                again.append((name, [q for q in places if q not in named or q == p]))
    assert len(again) > 30
    for o, r in places_rows(flow, again, "again").items():
        start, end, p, places = asked[o]
        there = [x for x in r if x[0] < end and x[0] + x[1] > start]
        guilty = set().union(*(named for _, _, armed, named in there if armed != "yes"))
        if p is not None:
            assert guilty == {p}, (o, places, r)
        elif end - start < WHOLE:
            assert not guilty, (o, places, r)
        else:  # any byte: the others are armed by field again
            assert len(r) > 1 or not guilty, (o, places, r)


LISTS = """
#include <etch/imv.h>
#include <stddef.h>
#include <stdio.h>
struct list { struct list *next, *prev; };
struct tree { union { struct tree *left; long tag; }; struct tree *right; };
struct entry { int before; TYPE node; int after; int plain; };
ETCHED struct { unsigned counter; int level; struct { int outer; struct entry in; } s; int last; } cfg = { .level = 1, .s = { 2, { .before = 3, .after = 4, .plain = 5 } }, .last = 6 };
static TYPE *head;
static int *number;
__attribute__((noinline)) int sum(void) { cfg.counter++; return cfg.level + cfg.s.in.before + cfg.s.in.after + cfg.s.in.plain + cfg.s.outer + cfg.last; }
__attribute__((noinline)) void keep(TYPE *n, int *p) { head = n; number = p; __asm__ volatile("" : : : "memory"); }
__attribute__((noinline)) void later(int v)
{
	struct entry *x = (struct entry *)((char *)head - offsetof(struct entry, node));
	x->before = x->after = v;
	*number = v;
}
int main(void)
{
	keep(&cfg.s.in.node, &cfg.s.in.plain);
	int err = etch_sync_all(), was = sum();
	later(100);
	printf("%d %d %d %ld\\n", err, was, sum(), etch_verify(0, 0));
}
"""


@pytest.mark.parametrize("node", ["struct list", "struct tree", "int"])
def test_from_the_node_of_a_list_to_what_is_in_the_list(flow, node):
    """A pointer to a struct in a struct inside reaches all of the outermost one; a pointer to a scalar in it reaches that."""
    text = LISTS
    if node == "int":  # an array of them
        text = text.replace("TYPE node", "int node[2]").replace("TYPE *head", "int (*head)[2]").replace("TYPE *n", "int (*n)[2]")
    text = text.replace("TYPE", node)
    exe = flow.program(text, "plain", ["-O2", "-g", "-w"])
    flow.rewrite(exe)
    assert run([exe]).stdout == "0 21 309 0\n"
    armed = {r["field"]: r["armed"] for r in flow.inspect("fields", exe)["fields"]}
    assert {armed[f"s.in.{n}"] for n in ("before", "after", "plain")} == {armed["s.outer"]} == {"no"}, armed
    assert armed["level"] == armed["last"] == "yes", armed
