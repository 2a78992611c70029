# SPDX-License-Identifier: MIT
"""Random programs that store to etched objects through pointers which are chosen,
merged, kept across calls, hidden and computed in ways that compilers turn into
conditional moves, cold parts, jump tables, loops and folded addresses. Prints the
objects before and after each store.

    stores.py SEED OUT.c
"""
import random
import sys

TYPES = ["int", "long", "short", "unsigned char", "char", "unsigned long"]

# {t} the element type, {i} the number, {n} elements, {k} an index below n, {v} a value.
BODIES = """
{t} *p = p{i}; if (__builtin_expect(c != 1, 0)) {{ slow(c); p = o{i}; }} p[{k}] = c + {v};
{t} *p = o{i}; if (__builtin_expect(c == 1, 0)) {{ slow(c); p = p{i}; }} p[{k}] = c + {v};
{t} *p = p{i}; switch (c) {{ case 1: break; case 2: slow(1); p = o{i}; break; case 3: sink++; p = o{i}; break; case 4: slow(4); /* fall through */ case 5: p = p{i}; break; case 6: p = o{i}; slow(2); break; default: slow(3); p = o{i}; }} p[{k}] += c + {v};
{t} *p = c & 1 ? p{i} : o{i}; for (int j = 0; j < {n}; j++) p[j] = j * c;
{t} *p = c & 1 ? p{i} : o{i}, *e = p + {n}; while (e != p) *--e = c;
for (int j = {n} - 1; j >= 0; j--) if (j % 3 == c % 3 || j == {k}) o{i}[j] = c;
memset(o{i} + same({k}), c, sizeof(o{i}[0]));
memcpy(o{i}, p{i}, sizeof(o{i})); o{i}[{k}] ^= c;
{t} *volatile p = o{i}; p[{k}] = c;
struct {{ {t} *p; int z; }} s = {{ o{i}, c }}; __asm__ volatile("" : "+m"(s)); s.p[{k}] = s.z;
{t} *p = o{i}; do {{ slow(c); if (c == 9) p = p{i}; p[{k}] += c; }} while (same(0));
{t} *p = c > 100 ? p{i} : (slow(1), o{i}); __asm__ volatile("" ::: "rax", "rdx", "rcx", "rsi", "rdi", "r8", "r9", "r10", "r11"); p[{k}] = c;
static {t} *const table[2] = {{ o{i}, p{i} }}; table[same(c == 1)][{k}] = c;
{t} *a = o{i}, *b = p{i}; if (c == 2) {{ {t} *x = a; a = b; b = x; slow(1); }} b[{k}] = 1; a[{k}] = c + {v};
unsigned long u = (unsigned long)o{i}; u ^= 0x55; u += sink * 0; u ^= 0x55; (({t} *)u)[{k}] = c;
{t} x = o{i}[{k}]; if (c > 1) __atomic_store_n(&o{i}[{k}], x + c, 5);
{t} *p = o{i}; if (c > 1) {{ char b[same(40)]; __asm__ volatile("" :: "r"(b) : "memory"); p[{k}] = c; b[0] = 1; sink += b[0]; }}
o{i}[same(c) - c + {k}]++;
long j = same({k}) + 97; o{i}[j - 97] = c;
""".strip().splitlines()


def program(seed, objects=12):
    dice = random.Random(seed)
    static = "static " if dice.random() < 0.5 else ""
    out = [
        "#include <etch/imv.h>", "#include <stdio.h>", "#include <string.h>", "volatile int sink;",
        "__attribute__((cold, noinline)) void slow(int x) { sink += x; }",
        "__attribute__((noinline)) int same(int x) { return x + sink * 0; }",
    ]
    for i in range(objects):
        n = dice.choice([1, 2, 5, 16, 40])
        at = {"t": dice.choice(TYPES), "i": i, "n": n, "k": dice.randrange(n), "v": dice.randrange(1, 100)}
        out.append("{s}ETCHED {t} o{i}[{n}] = {{ {i} + 1 }}; static {t} p{i}[{n}];".format(s=static, **at))
        out.append("__attribute__((noinline)) void f{i}(int c) {{ {b} }}".format(i=i, b=dice.choice(BODIES).format(**at)))
        out.append('__attribute__((noinline)) void show{i}(void) {{ printf("%ld %ld\\n", (long)o{i}[0], (long)o{i}[{k}]); }}'
                   .format(**at))
    calls = " ".join(f"show{i}(); f{i}(c); show{i}();" for i in range(objects))
    out.append(f'int main(void) {{ for (int c = 1; c < 8; c++) {{ {calls} }} printf("%ld\\n", etch_verify(0, 0)); return 0; }}')
    return "\n".join(out) + "\n"


if __name__ == "__main__":
    with open(sys.argv[2], "w") as f:
        f.write(program(int(sys.argv[1])))
