#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Makes a random program that throws: graph.py SEED [FUNCTIONS] > graph.cc

Functions call each other, hold objects with destructors, throw, catch by type, by base class and everything, throw again
or something else, in blocks and in function-try-blocks; some destructors throw and catch inside. What a run does depends on
a seed at run time, too. Each function is written twice: with exceptions, and with return codes and explicit calls in
place of destructors. Both have to give the same sequence of events, of which a hash is kept (graph.h)."""
import random
import sys

TYPES = ["Root", "Left", "Right", "Near", "Far", "Diamond", "Alone", "int"]
BASES = {"Root": ["Root"], "Left": ["Left", "Root"], "Right": ["Right", "Root"], "Near": ["Near", "Root"], "Far": ["Far", "Root"],
         "Diamond": ["Diamond", "Near", "Far", "Root"], "Alone": ["Alone"], "int": ["int"]}


class Function:
    def __init__(self, rng, number, functions):
        self.rng, self.number, self.functions = rng, number, functions
        self.ids = self.labels = 0
        self.values = []
        self.body = self.block(3, rng.randint(2, 6))
        self.catches = self.handlers() if rng.random() < 0.2 else None  # a function-try-block

    def id(self):
        self.ids += 1
        return self.number * 1000 + self.ids

    def label(self):
        self.labels += 1
        return f"L{self.labels}"

    def handlers(self):
        all_types = self.rng.sample(TYPES, self.rng.randint(1, 3))
        # A base class before what is derived from it is a warning, and never reached.
        all_types = [t for i, t in enumerate(all_types) if not any(b in all_types[:i] for b in BASES[t])]
        if self.rng.random() < 0.3:
            all_types.append("...")
        return [(t, self.id(), self.rng.choice(["swallow", "swallow", "again", "other"]), self.rng.choice(TYPES)) for t in all_types]

    def block(self, depth, count):
        out = []
        for _ in range(count):
            kind = self.rng.choices(["mix", "local", "nested", "call", "throw", "try", "keep"], [1, 3, 0.4, 5, 1.2, 2 if depth else 0, 2])[0]
            if kind == "try":
                out.append(("try", self.block(depth - 1, self.rng.randint(1, 4)), self.handlers()))
            elif kind in ("call", "nested"):
                out.append((kind, self.id(), self.rng.randrange(self.functions), self.rng.randint(0, 6)))
            elif kind == "throw":
                out.append(("throw", self.rng.choice(TYPES), self.rng.randint(4, 14)))
            elif kind == "keep":
                self.values.append(f"v{len(self.values)}")
                out.append(("keep", self.values[-1]))
                out.append(("call", self.id(), self.rng.randrange(self.functions), self.rng.randint(0, 6)))
                out.append(("kept", self.values[-1]))
            else:
                out.append((kind, self.id()))
        return out

    # ---- with exceptions

    def thrower(self, body, indent):
        tab = "\t" * indent
        for s in body:
            if s[0] == "mix":
                yield f"{tab}s.mix({s[1]});"
            elif s[0] == "local":
                yield f"{tab}Local l{s[1]}(s, {s[1]});"
            elif s[0] == "nested":
                yield f"{tab}Nested<throw_{s[2]}> l{s[1]}(s, {s[1]}, depth);"
            elif s[0] == "call":
                yield f"{tab}if (s.may_call(depth)) s.mix(throw_{s[2]}(s, depth - 1{self.arguments(s[3])}));"
            elif s[0] == "throw":
                yield f"{tab}if (s.next() % {s[2]} == 0) {{ s.throws++; throw {s[1]}(s.next() & 0xffff); }}"
            elif s[0] == "keep":
                yield f"{tab}uint64_t {s[1]} = s.next();"
            elif s[0] == "kept":
                yield f"{tab}s.mix({s[1]});"
            else:
                yield f"{tab}try {{"
                yield from self.thrower(s[1], indent + 1)
                yield f"{tab}}}"
                yield from self.catching(s[2], indent)

    def arguments(self, count):
        return "".join(f", {i + 1}" for i in range(6)) if count else ", 0, 0, 0, 0, 0, 0"

    def catching(self, handlers, indent):
        tab = "\t" * indent
        for kind, number, action, other in handlers:
            what, value = ("...", "0") if kind == "..." else ("int x", "x") if kind == "int" else (f"{kind} &x", "x.v")
            yield f"{tab}catch ({what}) {{ s.mix({number}); s.mix({value});"
            if action == "again":
                yield f"{tab}\ts.throws++; throw;"
            elif action == "other":
                yield f"{tab}\ts.throws++; throw {other}(s.next() & 0xffff);"
            yield f"{tab}}}"

    # ---- with return codes

    def coder(self, body, outer, indent, last=None):
        """Errors go to `outer`, after the destructors of this block; the end falls through to what follows."""
        tab, to, ends = "\t" * indent, outer, []
        for s in body:
            if s[0] == "mix":
                yield f"{tab}s.mix({s[1]});"
            elif s[0] in ("local", "nested"):
                yield f"{tab}s.mix({s[1]});"
                to = self.label()
                ends.append((to, s))
            elif s[0] == "call":
                yield f"{tab}if (s.may_call(depth)) {{ r = code_{s[2]}(s, depth - 1, &e, &v{self.arguments(s[3])}); if (e) goto {to}; s.mix(r); }}"
            elif s[0] == "throw":
                yield f"{tab}if (s.next() % {s[2]} == 0) {{ e = {TYPES.index(s[1]) + 1}; v = s.next() & 0xffff; goto {to}; }}"
            elif s[0] == "keep":
                yield f"{tab}{s[1]} = s.next();"
            elif s[0] == "kept":
                yield f"{tab}s.mix({s[1]});"
            else:
                label = self.label()
                yield from self.coder(s[1], label, indent + 1)
                yield f"{tab}goto {label}; {label}:"
                yield from self.checking(s[2], to, indent)
        if last:
            yield tab + last
        for label, s in reversed(ends):
            yield f"{tab}goto {label}; {label}:"
            yield f"{tab}s.mix(~uint64_t({s[1]}));"
            if s[0] == "nested":
                yield f"{tab}code_nested(code_{s[2]}, s, depth);"
        if ends:
            yield f"{tab}if (e) goto {outer};"

    def checking(self, handlers, to, indent):
        tab = "\t" * indent
        yield f"{tab}switch (e) {{"
        seen = set()
        for kind, number, action, other in handlers:
            codes = [i + 1 for i, t in enumerate(TYPES) if (kind == "..." or kind in BASES[t]) and i + 1 not in seen]
            seen |= set(codes)
            if not codes:
                continue
            yield f"{tab}{' '.join(f'case {c}:' for c in codes)} s.mix({number}); s.mix({'0' if kind == '...' else 'v'});"
            if action == "again":
                yield f"{tab}\tgoto {to};"
            elif action == "other":
                yield f"{tab}\te = {TYPES.index(other) + 1}; v = s.next() & 0xffff; goto {to};"
            else:
                yield f"{tab}\te = 0; break;"
        yield f"{tab}case 0: break;"
        yield f"{tab}default: goto {to};"
        yield f"{tab}}}"

    def write(self):
        names = ", ".join(f"long {c}" for c in "abcdef")
        yield f"NOINLINE uint64_t throw_{self.number}(State &s, int depth, {names})"
        yield "try {" if self.catches else "{"
        yield from self.thrower(self.body, 1)
        yield "\treturn s.h ^ (a + 2 * b + 3 * c + 4 * d + 5 * e + 6 * f);"
        yield "}"
        if self.catches:
            yield from self.catching_function()
        self.labels = 0
        yield f"NOINLINE uint64_t code_{self.number}(State &s, int depth, int *error, uint64_t *value, {names.replace('long e', 'long e_')})"
        yield "{"
        yield "\tuint64_t v = 0, r = 0;"
        yield "\tint e = 0;"
        for v in self.values:
            yield f"\tuint64_t {v};"
        yield from self.coder(self.body, "Out", 1, "r = s.h ^ (a + 2 * b + 3 * c + 4 * d + 5 * e_ + 6 * f);")
        yield "\tgoto Out; Out:"
        if self.catches:
            yield from self.checking_function()
        yield "\t*error = e; *value = v;"
        yield "\treturn e ? 0 : r;"
        yield "}"

    def catching_function(self):
        for line in self.catching(self.catches, 0):
            yield line[:-1] + " return s.h; }" if line == "}" else line

    def checking_function(self):
        yield "\tif (e) {"
        for line in self.checking(self.catches, "Done", 1):
            yield line.replace("e = 0; break;", "e = 0; r = s.h; break;")
        yield "\t}"
        yield "\tgoto Done; Done:"


def main():
    rng = random.Random(int(sys.argv[1]))
    count = int(sys.argv[2]) if len(sys.argv) > 2 else 40
    functions = [Function(rng, i, count) for i in range(count)]
    print('#include "graph.h"\n')
    names = ", ".join(["long"] * 6)
    for i in range(count):
        print(f"uint64_t throw_{i}(State &s, int depth, {names});")
        print(f"uint64_t code_{i}(State &s, int depth, int *error, uint64_t *value, {names});")
    for f in functions:
        print("\n".join(f.write()))
    for kind, type_name in (("throw", "Thrower"), ("code", "Coder")):
        print(f"{type_name} *const graph_{kind}s[] = {{{', '.join(f'{kind}_{i}' for i in range(count))}}};")
    print(f"const unsigned graph_count = {count};")


if __name__ == "__main__":
    main()
