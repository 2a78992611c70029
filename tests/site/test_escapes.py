# SPDX-License-Identifier: MIT
"""Ways for a store to reach an etched object that are easily overlooked. Each
program is lawful C (or assembly), promises nothing by etch_sync, and must do the
same with and without the tool: an object wrongly believed untouched would be
armed, and its store would end the program."""

import pytest

from conftest import run
from stores import program

HEAD = "#include <etch/imv.h>\n#include <stdio.h>\n#include <string.h>\n#include <unistd.h>\n#include <sys/syscall.h>\n"

PROGRAMS = {
    # gcc: the cold part puts the address into %rax and jumps back into the middle
    "cold part": """
ETCHED int a[4] = { 1 }; int b[4]; volatile int sink;
__attribute__((noinline, cold)) int slow(void) { return ++sink; }
__attribute__((noinline)) int f(int c)
{ int *p = b; if (__builtin_expect(c == 1, 0)) { slow(); p = a; } p[1] = c + 40; return c; }
int main(int c, char **v) { (void)v; printf("%d %d\\n", a[0], a[1]); f(c); printf("%d %d\\n", a[1], b[1]); return 0; }
""",
    "conditional move": """
ETCHED int o[4] = { 1 }; ETCHED int p[4] = { 2 }; int q[4];
__attribute__((noinline)) void pick(int c, int v) { int *t = c > 3 ? o : c > 2 ? q : p; t[1] = v; }
__attribute__((noinline)) void two(int c, int v) { int *t = o; if (c & 1) t = q; t[2] = v; }
int main(int c, char **v) { (void)v; pick(c, 5); pick(c + 3, 6); two(c, 7); two(c + 1, 8);
  printf("%d %d %d %d %d\\n", o[1], p[1], q[1], o[2], q[2]); return 0; }
""",
    # gcc's -fipa-ra: the address stays in a call-clobbered register across a call
    "register across a call": """
ETCHED int tab[16]; ETCHED int x;
__attribute__((noinline)) void poke(int *p) { *p = 9; }
int main(int c, char **v) { (void)v; poke(&x); tab[c] = 7; printf("%d %d\\n", tab[1], x); return 0; }
""",
    "system call": """
ETCHED int a[4] = { 1 };
static long sys_read(int fd, void *p, long n)
{ long r; __asm__ volatile("syscall" : "=a"(r) : "0"(SYS_read), "D"(fd), "S"(p), "d"(n) : "rcx", "r11", "memory"); return r; }
int main(void)
{ int f[2], w[4] = { 7, 8, 9, 10 }; if (pipe(f) || write(f[1], w, 16) != 16) return 1;
  printf("%d\\n", a[1]); printf("%ld", sys_read(f[0], a, 16)); printf(" %d\\n", a[1]); return 0; }
""",
    "assembly with two entries": """
ETCHED int a[4] = { 1 };
__asm__(".text\\n.globl outer\\n.type outer,@function\\nouter: lea a(%rip),%rax\\n.size outer,.-outer\\n"
        ".globl inner\\n.type inner,@function\\ninner: movl %edi,4(%rax)\\n ret\\n.size inner,.-inner");
void outer(int);
int main(void) { printf("%d\\n", a[1]); outer(5); printf("%d\\n", a[1]); return 0; }
""",
    "call with its own convention": """
ETCHED int a[4] = { 1 };
__asm__(".text\\n.globl put_user\\n.type put_user,@function\\nput_user: movl %edi,4(%rax)\\n ret\\n.size put_user,.-put_user");
int main(void)
{ printf("%d\\n", a[1]); int *p = a;
  __asm__ volatile("lea -128(%%rsp),%%rsp\\n call put_user\\n lea 128(%%rsp),%%rsp" : : "D"(5), "a"(p) : "memory");
  printf("%d\\n", a[1]); return 0; }
""",
    "pointer in a packed structure": """
ETCHED int a[4] = { 1 }; ETCHED int b[4] = { 1 };
struct __attribute__((packed)) { char c; int *p; } s = { 1, a };
static struct { long k; int *p; } t[2] = { { 0, &b[4] } };
int main(int c, char **v) { (void)v; printf("%d %d\\n", a[1], b[1]); s.p[1] = c + 5; t[0].p[-3] = c + 6; printf("%d %d\\n", a[1], b[1]); return 0; }
""",
    "behind bytes that do not decode": """
ETCHED int a = 1;
int main(int c, char **v)
{ (void)v; printf("%d\\n", a); __asm__ volatile("jmp 1f\\n.byte 0x06,0x06,0x06\\n1:"); a += c; printf("%d\\n", a); return 0; }
""",
    "static scalars without symbols": """
DEFINE_IMV(int, a) = 1; static DEFINE_IMV(int, b) = 1; DEFINE_IMV(int, c) = 1; static DEFINE_IMV(int, d) = 1;
__attribute__((noinline)) void st(int v) { b__imv = v; d__imv = v; }
int main(int k, char **v)
{ (void)v; printf("%d %d %d %d\\n", imv_read(a), imv_read(b), imv_read(c), imv_read(d)); st(k + 5);
  printf("%d %d %d %d\\n", imv_read(a), imv_read(b), imv_read(c), imv_read(d)); return 0; }
""",
    "folded index": """
ETCHED int count[26] = { 1 }; static ETCHED int own[26] = { 1 }; ETCHED int fine = 3;
__attribute__((noinline)) void note(const char *s) { for (; *s; s++) { count[*s - 'a']++; own[*s - 'a']--; } }
int main(void) { note("hello"); printf("%d %d %d\\n", count[7], own[11], fine); return 0; }
""",
    "library functions and loops": """
ETCHED struct { int a; long b; char s[20]; } c1 = { 1, 2, "x" }, c2 = { 3, 4, "y" }, c3 = { 5, 6, "z" };
ETCHED int arr[100]; ETCHED double d = 1.5; ETCHED char buf[300];
__attribute__((noinline)) void cb(void (*f)(void *), void *p) { f(p); }
static void setter(void *p) { *(int *)p = 42; }
int main(int argc, char **v)
{ int s = 0; (void)v; cb(setter, &c1); memset(&c2, 0, sizeof c2); c3.s[argc] = 'q'; d *= 2; strcpy(buf, "hello");
  for (int i = 0; i < 100; i++) arr[i] = i * argc;
  for (int i = 0; i < 100; i++) s += arr[i];
  printf("%d %ld %s %d %g %s %ld\\n", c1.a + c2.a, c2.b, c3.s, s, d, buf, etch_verify(0, 0)); return 0; }
""",
}
FLAGS = {
    "O0": (["-O0"], []), "O2": (["-O2"], []), "O3-pic": (["-O3", "-fPIC"], []),
    "no-pie": (["-O2", "-fno-pie"], ["-no-pie"]), "Os-no-pie": (["-Os", "-fno-pie"], ["-no-pie"]),
    "no-locals": (["-O2"], ["-Wl,-x"]), "large": (["-O2", "-mcmodel=large"], []),
}


@pytest.mark.parametrize("flags", FLAGS)
@pytest.mark.parametrize("what", PROGRAMS)
def test_a_program_that_stores_in_odd_ways_goes_on(flow, what, flags):
    """With the link step alone, and with both."""
    cflags, ldflags = FLAGS[flags]
    if flags == "large" and "assembly" in what:
        pytest.skip("its lea reaches 2 GiB only")
    o = flow.compile(HEAD + PROGRAMS[what], [*cflags, "-w"])
    exe = flow.link([o], ldflags, "plain")
    want = run([exe]).stdout
    flow.rewrite(exe)
    assert run([exe]).stdout == want
    flow.rewrite(o)
    exe = flow.link([o], ldflags, "both")
    flow.rewrite(exe)
    assert run([exe]).stdout == want


def test_code_goes_on_behind_the_end_of_a_transaction(flow_gcc, etch):
    """xend and xabort: Zydis calls them branches, and they lead nowhere else."""
    body = "".join(f'void {name}(void) {{ __asm__ volatile("lea %0, %%rdi\\n\\t{insn}\\n\\tmovl $7, (%%rdi)" : : "m"(o.{name}) : "rdi"); }}\n'
                   for name, insn in (("a", "xend"), ("b", "xabort $1")))
    o = flow_gcc.compile("#include <etch/imv.h>\nETCHED struct { int a, b; } o;\n" + body + "int main(void) { return 0; }\n", ["-O2"])
    exe = flow_gcc.link([o], ["-Wl,--export-dynamic"], "transactions")
    flow_gcc.rewrite(exe)
    rows = [line.split("\t") for line in run([etch, "inspect", "sites", "--format", "tsv", exe]).stdout.splitlines()[1:]]
    assert [(r[2], r[4]) for r in rows] == [("store", "0"), ("store", "4")], rows


RANDOM_FLAGS = [(["-O2"], []), (["-O3", "-fno-pie"], ["-no-pie"]), (["-O1", "-fPIC"], []), (["-Os"], [])]


@pytest.mark.parametrize("seed", range(12))
def test_random_stores_go_on(flow, seed):
    """Longer: for s in $(seq 500) ... tests/site/stores.py $s t.c"""
    cflags, ldflags = RANDOM_FLAGS[seed % 4]
    o = flow.compile(program(seed), [*cflags, "-w"])
    linked_alone = flow.link([o], ldflags, "link")
    want = run([linked_alone]).stdout
    assert want.endswith("\n0\n")
    flow.rewrite(linked_alone)
    assert run([linked_alone]).stdout == want
    flow.rewrite(o)
    both = flow.link([o], ldflags, "both")
    assert run([both]).stdout == want
    flow.rewrite(both)
    assert run([both]).stdout == want
