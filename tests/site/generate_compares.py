# SPDX-License-Identifier: MIT
"""Writes C functions that compare fields of an etched object with constants and arguments, and use the outcome in
every way that compilers make conditions of. usage: generate_compares.py SEED FUNCTIONS"""
import random
import sys

TYPES = [(f"{'u' if u else ''}int{n}_t", n, u) for n in (8, 16, 32, 64) for u in (0, 1)]
COMPARES = ["==", "!=", "<", "<=", ">", ">="]


def constant(rng, bits, unsigned):
    low, high = (0, 2**bits - 1) if unsigned else (-2**(bits - 1), 2**(bits - 1) - 1)
    c = rng.choice([0, 0, 1, 1, 2, 3, 7, 42, -1, -5, 100, 127, 128, -128, 255, 1000, 32767, 40000, 2**31 - 1,
                    low, high, high - 1, rng.randint(low, high)])
    c = min(max(c, low), high)
    return f"({c - 1 if c == -2**63 else c}{'u' if unsigned else ''}ll)" if c != -2**63 else "INT64_MIN"


def condition(rng):
    t, bits, unsigned = rng.choice(TYPES)
    field = f"cfg.{t}"
    kind = rng.randrange(10)
    if kind < 5:
        return f"{field} {rng.choice(COMPARES)} ({t}){constant(rng, bits, unsigned)}"
    if kind < 7:
        mask = rng.choice([1, 2, 4, 0x80, 0x40, 0x7f, 2**(bits - 1), 2**(bits - 1) - 1, 0x101, 0x8000])
        return f"({field} & ({t}){mask & (2**bits - 1)}ull) {rng.choice(['', '!= 0', '== 0', '> 0', '< 0', '<= 0'])}"
    if kind < 9:
        return f"{field} {rng.choice(COMPARES)} ({t})x"
    return rng.choice([f"!{field}", f"{field}", f"({field} & ({t})x)"])


def body(rng, n):
    a, b = condition(rng), condition(rng)
    k = rng.randrange(1, 100)
    return rng.choice([
        f"if ({a}) return out(x, {k}); return x + 1;",
        f"return {a} ? x : y;",
        f"return {a};",
        f"return x + ({a});",
        f"return y - ({a}) - x;",
        f"if ({a} && {b}) {{ out(y, {k}); }} return x;",
        f"if ({a} || {b}) return y; out(x, {k}); return 7;",
        f"while ({a}) {{ if (!y--) break; x += {k}; if (y < 0 || y > 9) return out(x, y); }} return x;",
        f"x = {a} ? x * {k} : y; if ({b}) x ^= y; return x;",
        f"switch (cfg.{rng.choice(TYPES)[0]}) {{ case 0: return {k}; case 1: return out(y, 1); case 5: return x; case 7: "
        f"case 9: return y; case 100: return out(x, 3); default: return -1; }}",
        f"unsigned long s = (unsigned long)x; s += s < (unsigned long)y; s += {a}; return (long)s;",
        f"int r = {a} ? 1 : {b} ? 2 : 3; return out(r, x);",
        f"if ({a}) y++; if ({a}) x--; return x * y;",
    ])


def main():
    rng = random.Random(int(sys.argv[1]))
    n = int(sys.argv[2])
    print('#include "compares.h"\nETCHED struct all cfg;\n')
    for i in range(n):
        print(f"static __attribute__((noinline)) long f{i}(long x, long y) {{ {body(rng, i)} }}")
    print("long (*const funcs[])(long, long) = {" + ", ".join(f"f{i}" for i in range(n)) + "};")
    print(f"const unsigned func_count = {n};")


main()
