# SPDX-License-Identifier: MIT
"""What the kernel may store to is never protected: a system call that finds a page read-only fails, and no handler hears
of it. Every entry of the table of such calls is tried, as a function, as syscall(2), and as the instruction."""
import re

import pytest

from conftest import ROOT, run, version

TABLE = ROOT / "tool" / "analysis" / "addresses" / "kernel_stores.c"


def rows():
    """[(name, number or -1, [argument], by addresses in memory)] of the table, but syscall(2)."""
    found = re.findall(r'\{"(\w+)", (-?\d+), ([^,]+), (\S+)\}', TABLE.read_text())
    assert len(found) > 200 and [f[0] for f in found] == sorted({f[0] for f in found})
    return [(n, int(k), [int(a) for a in re.findall(r"A\((\d)\)", args)], m != "0") for n, k, args, m in found if n != "syscall"]


# Many targets in one object: its other fields stay armed.
EACH = 16
HEAD = """#include <etch/imv.h>
#include <string.h>
struct o { long first; """ + "".join(f"long t{k}[2], g{k}; " for k in range(EACH)) + """ };
#define OBJECT(n) ETCHED struct o n = { 1, { 2 }, 3 }; __attribute__((noinline)) long read_##n(void) { return n.first + n.g0 + n.t0[1]; }
typedef void *A;
extern long numbered(long, A, A, A, A, A, A) __asm__("syscall");
"""


class Targets:
    """Gives out fields of objects."""

    def __init__(self):
        self.names, self.single = [], []

    def new(self, what):
        self.names.append(what)
        k = len(self.names) - 1
        return f"o{k // EACH}.t{k % EACH}"

    def fields(self):
        return {f"o{k // EACH}.t{k % EACH}": what for k, what in enumerate(self.names)}

    def alone(self, what):
        """One in an object of its own, which may be reached as a whole."""
        self.single.append(what)
        return f"s{len(self.single) - 1}.t1"

    def objects(self):
        return "".join(f"OBJECT(o{k}) " for k in range(-(-len(self.names) // EACH))) + "".join(f"OBJECT(s{k}) " for k in range(len(self.single)))


def calls(targets):
    """Functions that make each call, with each of the arguments."""
    for n, number, args, memory in rows():
        yield f'extern long f_{n}(A, A, A, A, A, A) __asm__("{n}");'
        for k in [*args, *(["m"] if memory else [])]:
            for how in ["f", *(["n"] if number >= 0 and k != 5 else [])]:
                t = (targets.alone if k == "m" else targets.new)(f"{how} {n} {k}")
                passed = ", ".join("v" if k == "m" and i in (1, 2, 3) else t if i == k else "0" for i in range(6))
                call = f"f_{n}({passed})" if how == "f" else f"numbered({number}, {passed})"
                vector = f"A v[4]; v[0] = {t}; v[1] = (A)(long)size; v[2] = v[3] = 0; " if k == "m" else ""
                yield f"long call_{how}_{n}_{k}({'long size' if vector else 'void'}) {{ {vector}return {call} + 1; }}"
            if number >= 0 and k != "m":
                t = targets.new(f"i {n} {k}")
                yield f"""long call_i_{n}_{k}(void) {{ register A r __asm__("{REGISTERS[k]}") = {t}; long e = {number};
	__asm__ volatile("syscall" : "+a"(e) : "r"(r) : "rcx", "r11", "memory"); return e; }}"""


REGISTERS = ["rdi", "rsi", "rdx", "r10", "r8", "r9"]


# Functions that pass an argument on, in the ways of compilers; and what is none of the kernel's.
OTHERS = """
extern long read(int, A, long) __asm__("read"), getrlimit(int, A), write(int, A, long), strtol(A, A, int), consume(A);
#define NOINLINE __attribute__((noinline))
NOINLINE long plain(A p) {{ return read(0, p, 8) + 1; }} long call_w_plain(void) {{ return plain({w_plain}); }}
NOINLINE long tail(A p) {{ return read(0, p, 8); }} long call_w_tail(void) {{ return tail({w_tail}); }}
NOINLINE long offset(long *p, int n) {{ for (int i = 0; i < n; i++) if (read(0, p + i, 8) < 0) return 1; return 0; }}
long call_w_offset(void) {{ return offset({w_offset}, 1); }}
NOINLINE long two(int a, A p, int b) {{ strtol(0, 0, a); return plain(b ? p : 0) + 1; }} long call_w_two(void) {{ return two(1, {w_two}, 3); }}
__attribute__((optimize("O0"), noinline)) long slow(int fd, A p) {{ A q = p; return getrlimit(fd, q); }}
long call_w_slow(void) {{ return slow(1, {w_slow}); }}
NOINLINE long any(long n, A a, A b) {{ return numbered(n, a, b, 0, 0, 0, 0) + 1; }} long call_w_number(void) {{ return any(0, 0, {w_number}); }}
/* The address of read() in a register, as compilers load it once for all turns of a loop. */
__asm__(".type by_register, @function\\nby_register: push %rbx\\n\\tmov read@GOTPCREL(%rip), %rbx\\n\\tmov %rdi, %rsi\\n\\tcall *%rbx\\n"
        "\\tpop %rbx\\n\\tret\\n.size by_register, .-by_register");
extern long by_register(A); long call_w_register(void) {{ return by_register({w_register}) + 1; }}
long call_w_loaded(void) {{ register A p __asm__("rsi") = {w_loaded}; long e;
	__asm__ volatile("mov read@GOTPCREL(%%rip), %%rbx\\n\\tcall *%%rbx" : "=a"(e) : "r"(p) : "rbx", "rcx", "memory"); return e; }}
#ifdef __clang__
#define TAIL
#else
#define TAIL __attribute__((optimize("optimize-sibling-calls")))
#endif
TAIL long call_w_out(void) {{ return read(0, {w_out}, 8); }} /* by -fno-plt through the slot of its address */
TAIL long call_u_out(void) {{ return write(0, {u_out}, 8); }}
long call_u_write(void) {{ return write(1, {u_write}, 8); }}
long call_u_numbered(void) {{ return numbered(1, (A)1, {u_numbered}, (A)8, 0, 0, 0); }}
long call_u_other(void) {{ return strtol("1", {u_other}, 0); }}
long call_u_consume(void) {{ return consume({u_consume}); }}
NOINLINE long own(A p, A q) {{ long v; read(0, &v, 8); *(volatile A *)q = p; return v; }} long call_u_own(void) {{ long s; return own({u_own}, &s); }}
static A kept; long call_u_kept(void) {{ kept = {u_kept}; return (long)&kept; }}
long second(A p, int n);
NOINLINE long first(A p, int n) {{ long r = n ? second(p, n - 1) : 0; return r + read(0, p, 8); }}
NOINLINE long second(A p, int n) {{ return first(p, n / 2) + 2; }}
long call_w_first(void) {{ return first({w_first}, 3); }} long call_w_second(void) {{ return second({w_second}, 3); }}
NOINLINE long rotates(A p, long n)
{{ A a = p, b = 0, c = 0, d = 0, e = 0, f = 0, g = 0, h = 0, i = 0, j = 0, k = 0, l = 0; long r = 0;
	while (n--) {{ r += read(0, l, 8); l = k; k = j; j = i; i = h; h = g; g = f; f = e; e = d; d = c; c = b; b = a; }} return r; }}
long call_w_rotates(void) {{ return rotates({w_rotates}, 20); }}
NOINLINE long large(A p) {{ __asm__ volatile(".rept 4100; nop; .endr"); return read(0, p, 8); }}
long call_w_large(void) {{ return large({w_large}); }}
""" + "NOINLINE long deep_0(A p) {{ return read(0, p, 8) + 1; }}\n" + "".join(
    f"NOINLINE long deep_{n}(A p) {{{{ return deep_{n - 1}(p) + 1; }}}}\n" for n in range(1, 30)) + """
long call_w_deep(void) {{ return deep_29({w_deep}); }}
"""


@pytest.mark.parametrize("how", ["plt", "got"])
def test_every_entry(flow, how):
    flags = {"plt": ["-O2", "-g", "-fno-pie", "-no-pie"] if flow.cc == "gcc" else ["-O2", "-g"], "got": ["-O1", "-g", "-fno-plt"]}[how]
    names = [r[0] for r in rows()] + ["syscall", "consume"]
    (flow.tmp / "stub.s").write_text("".join(f".globl {n}\n.type {n}, @function\n{n}: ret\n" for n in names))
    run([flow.cc, "-shared", "-nostdlib", "-o", flow.tmp / "libstub.so", flow.tmp / "stub.s"])
    targets = Targets()
    text = "\n".join(calls(targets))
    others = sorted(set(re.findall(r"\{([wu]_\w+)\}", OTHERS)))
    # clang 19 adds to the pointer in a loop, to where is not known, which is the whole object; clang 14 adds an index to it.
    walked = {"w_offset"} if flow.cc == "clang" and version("clang") > 14 else set()
    text += OTHERS.format(**{n: (targets.alone if n in walked else targets.new)(n) for n in others})
    o = flow.compile(flow.source(HEAD + targets.objects() + text + "int main(void) { return 0; }\n", "calls.c"), [*flags, "-w", "-fno-builtin"])
    exe = flow.link([o, flow.tmp / "libstub.so"], flags, "calls")
    flow.rewrite(exe)
    found = {}
    for x in flow.inspect("tables", exe)["obj"]:
        if x["kind"] == "object":
            found[x["name"]] = set((x["flags"] or "").split(",")) & {"armed", "kept", "kernel"}
    for k, what in enumerate(targets.single):
        assert {"kept", "kernel"} <= found.get(f"s{k}.t1", found[f"s{k}"]), (what, found)
    fields = targets.fields()
    assert len(fields) > 500
    for t, what in fields.items():
        assert found[t] == ({"kept"} if what.startswith("u_") else {"kept", "kernel"}), (t, what, found[t])
        assert found[t.replace(".t", ".g")] == {"armed"}, (t, what)


WHOLE = """
#include <etch/imv.h>
#include <errno.h>
#include <stdio.h>
#include <sys/resource.h>
#include <unistd.h>
/* The address of the first member is that of the object: it is armed as a whole, or not. */
ETCHED struct { struct rlimit limit; int level, mode; } cfg = { .level = 3 };
ETCHED long word = 1;
__attribute__((noinline)) long level(void) { return cfg.level + (long)cfg.limit.rlim_cur; }
__attribute__((noinline)) long get(void) { return word; }
int main(void)
{
	int pair[2], err = etch_sync(&cfg, sizeof cfg) | etch_sync(&word, sizeof word);
	long value = 42;

	cfg.level = 4;
	errno = 0;
	if (getrlimit(RLIMIT_CORE, &cfg.limit) || pipe(pair) || write(pair[1], &value, 8) != 8 || read(pair[0], &word, 8) != 8)
		perror("failed");
	printf("%d %ld %d %d\\n", err, get(), level() == 4 + (long)*(volatile rlim_t *)&cfg.limit.rlim_cur, errno);
	return 0;
}
"""


def test_system_calls_do_not_fail(flow):
    exe = flow.program(WHOLE, "linked", ["-O2", "-g"])
    assert {r["armed"] for r in flow.inspect("fields", exe)["fields"]} == {"no"}
    p = run([exe])
    assert (p.stdout, p.stderr) == ("0 42 1 0\n", "")


# Addresses that the kernel gets from iovecs: constants from which the compiler fills one on the stack (clang, and gcc -Os), static ones, and
# static ones that another function fills in.
VECTORS = """
#define _GNU_SOURCE
#include <etch/imv.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>
struct o { long first; int filled, guarded; };
#define ALONE __attribute__((noinline))
#define OBJECT(n) ETCHED struct o n = { 1, 2, 3 }; ALONE int read_##n(void) { return n.filled + n.guarded; }
OBJECT(local) OBJECT(fixed) OBJECT(later) OBJECT(message) OBJECT(passed) OBJECT(named)
static struct iovec fixed_iov[2] = { { 0, 0 }, { &fixed.filled, 4 } }, later_iov[1], message_iov[1] = { { &message.filled, 4 } };
static const struct { const char *name; int *variable; } names[] = { { "named", &named.filled } };
static struct msghdr header = { .msg_iovlen = 1 };
static struct { int count; struct iovec vector; } passed_iov = { 1, { &passed.filled, 4 } };
static int sockets[2];
ALONE void said(const char *what, long n, int value)
{
	if (n != 4)
		printf("%s: %ld %s\\n", what, n, strerror(errno));
	if (value != 11)
		printf("%s: %d\\n", what, value);
}
ALONE void sent(void) { int v = 8; if (write(sockets[0], &v, 4) != 4) perror("write"); }
ALONE long vector_read(int fd, const struct iovec *v, int n) { return readv(fd, v, n) + !names[n - 1].name; }
#ifdef LOCAL
ALONE void by_local(void) { struct iovec v[2] = { { &local.filled, 4 }, { 0, 0 } }; sent(); long n = readv(sockets[1], v, 2); said("local", n, read_local()); }
#endif
ALONE void by_fixed(void) { sent(); long n = readv(sockets[1], fixed_iov, 2); said("fixed", n, read_fixed()); }
ALONE void fill(void) { later_iov->iov_base = &later.filled; later_iov->iov_len = 4; }
ALONE void by_later(void) { sent(); long n = preadv2(sockets[1], later_iov, 1, -1, 0); said("later", n, read_later()); }
ALONE void by_message(void) { sent(); header.msg_iov = message_iov; long n = recvmsg(sockets[1], &header, 0); said("message", n, read_message()); }
ALONE void by_passed(void) { sent(); long n = vector_read(sockets[1], &passed_iov.vector, 1); said("passed", n, read_passed()); }
int main(int argc, char **argv)
{
	(void)argv;
	int err = socketpair(AF_UNIX, SOCK_DGRAM, 0, sockets) | etch_sync_all();
	fill();
#ifdef LOCAL /* one such field on a page is enough for the page to stay writable */
	by_local();
#endif
	by_fixed(), by_later(), by_message(), by_passed();
	if (argc > 1)
		*names[argc - 2].variable = 8; /* a store of the program, not of the kernel */
	printf("%d %d %d %ld\\n", err, read_named(), read_message(), etch_verify(0, 0));
	return 0;
}
"""


@pytest.mark.parametrize("mark", ["ETCHED", "ETCHED_SHARED"])
@pytest.mark.parametrize("flags", ["-O0", "-O2", "-Os", "-O2 -g", "-O2 -fno-pie -no-pie", "-O2 -static", "-O2 -s"])
def test_addresses_in_vectors(flow, flags, mark):
    linking = [f for f in flags.split() if f in ("-no-pie", "-static", "-s")]
    exe = flow.program(VECTORS.replace("ETCHED ", mark + " "), "linked", [*flags.split(), "-w", "-DLOCAL" if mark == "ETCHED" else "-g0"], linking)
    p = run([exe, "x"])
    assert (p.stdout, p.stderr) == ("0 11 11 0\n", "")
    armed = {r["object"]: r["armed"] for r in flow.inspect("fields", exe)["fields"] if r["field"] in ("guarded", "-") and r["reads"]}
    if "-g" in flags and mark == "ETCHED":  # the kernel's field alone is left, and a table of names is no vector
        assert set(armed.values()) <= {"yes", "by etch_sync"}, armed
