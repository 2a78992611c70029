# SPDX-License-Identifier: MIT
"""Programs that died, hung, or were refused a set: however a program is built and whatever it does, it lives, no value is stale, and
what is armed is told."""
import re

import pytest

from conftest import CCS, INCLUDE, Flow, need, run, stray

# A struct with a counter, and one whose member the C library may store to.
COUNTED = """
#include <etch/imv.h>
#include <stdio.h>
#include <stdlib.h>
struct sub { int x, y; };
struct g { int maxconn, mode; struct sub esc; unsigned req_count; };
extern struct g g;
ETCHED struct g g = { .maxconn = 10 };
__attribute__((noinline)) int work(int x) { g.req_count++; return x < g.maxconn ? g.mode : 7; }
int main(int argc, char **argv)
{
	g.maxconn = atoi(argv[1]);
	fwrite(&g.esc.y, 0, 1, stdout);
	int err = etch_sync(&g, sizeof g), sum = 0;
	for (int i = 0; i < 9; i++)
		sum += work(i);
	err |= etch_set(&g.mode, 3) | etch_set(&g.maxconn, 100);
	struct etch_state s = { .size = sizeof s };
	int last = work(argc);
	err |= etch_state(&g, sizeof g, &s);
	printf("%d %d %d %u %ld %s\\n", err, sum, last, g.req_count, etch_verify(0, 0), s.text);
	return 0;
}
"""
BUILDS = {"-g": ["-g"], "-g1": ["-g1"], "none": [], "stripped": ["-g", "-s"], "lto": ["-g", "-flto"], "split": ["-g", "-gsplit-dwarf"]}


@pytest.mark.parametrize("cc", CCS)
@pytest.mark.parametrize("build_kind", BUILDS)
def test_debug_information_decides_how_much_is_armed_and_never_whether_a_program_lives(tmp_path, build, cc, build_kind):
    exe = tmp_path / "t"
    (tmp_path / "t.c").write_text(COUNTED)
    lld = ["-fuse-ld=lld"] if cc == "clang" and build_kind == "lto" else []
    run([cc, "-O2", *BUILDS[build_kind], *lld, f"-I{INCLUDE}", "-o", exe, tmp_path / "t.c", build / "libetch.a", "-pthread"],
        cwd=tmp_path)
    run([build / "etch", "rewrite", exe])
    p = stray([exe, "5"], "warn")
    # Five of nine are below maxconn, and read a mode of 0.
    assert p.stdout.startswith("0 28 3 10 0 "), p.stdout + p.stderr
    assert not p.stderr or re.search(r"etched object (g|etched)\S*\+0x\w+,", p.stderr), p.stderr


ATFORK = """
#include <etch/imv.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>
ETCHED unsigned x = 1, y = 1;
static int before, parent, child;
static unsigned n = 1, *volatile stray = 0;
__attribute__((noinline)) unsigned sum(void) { return x + y; }
static int change(void) { return STORE ? (*stray = ++n, 0) : etch_set(&x, ++n); }
static void on_before(void) { before = change(); }
static void on_parent(void) { parent = change(); }
static void on_child(void) { child = change(); }
static void handlers(void) { pthread_atfork(on_before, on_parent, on_child); }
#if EARLY
__attribute__((section(".preinit_array"), used)) static void (*const pre)(void) = handlers;
#else
__attribute__((constructor)) static void late(void) { handlers(); }
#endif
static void *idle(void *p) { for (;;) pause(); return p; }
int main(void)
{
	pthread_t t;
	int status;
	alarm(20);
	stray = ETCH_ADDR(x);
	if (THREADS)
		pthread_create(&t, 0, idle, 0);
	for (int i = 0; i < 3; i++) {
		pid_t pid = fork();
		if (!pid)
			_exit(before || child || sum() != n + 1 || x != n);
		if (waitpid(pid, &status, 0) != pid || status || before || parent || sum() != n + 1)
			return printf("%d %d %d %#x\\n", i, before, parent, status), 1;
		etch_set(&y, 1u);
	}
	return 0;
}
"""


@pytest.mark.parametrize("threads", [0, 1])
@pytest.mark.parametrize("early", [0, 1])
@pytest.mark.parametrize("store", [0, 1])
def test_handlers_of_a_fork_may_set_and_store(tmp_path, build, early, store, threads):
    """Also those that were registered before libetch's, which run while its lock is held."""
    flow = Flow(tmp_path, build, "gcc")
    run([flow.program(ATFORK, "linked", flags=("-O2", f"-DEARLY={early}", f"-DSTORE={store}", f"-DTHREADS={threads}"))], timeout=60)


SEALED = """
#include <etch/imv.h>
#include <stdio.h>
ETCHED struct { int a, b; unsigned count; } g = { 1, 2, 0 };
__attribute__((noinline)) int work(void) { g.count++; return g.a + g.b; }
int main(int argc, char **argv)
{
	(void)argv;
	g.a = argc;
	int err = etch_seal(&g.b, sizeof g.b), sum = work();
	printf("%d %d %u\\n", err, sum, g.count);
	if (argc > 1)
		*(volatile int *)ETCH_ADDR(g.b) = 9;
	return work() == argc + (argc > 1 ? 9 : 2) ? 0 : 2;
}
"""


@pytest.mark.parametrize("cc", CCS)
@pytest.mark.parametrize("debug", ["-g", "-g0"])
def test_to_seal_a_part_seals_that_part(tmp_path, build, cc, debug):
    exe = Flow(tmp_path, build, cc).program(SEALED, "linked", flags=("-O2", debug))
    assert run([exe]).stdout == "0 3 1\n"


# A multiplication whose constant has bytes that look like breakpoints.
VALGRIND = """
#include <etch/imv.h>
#include <pthread.h>
#include <stdio.h>
ETCHED struct { int a, b, c, d; char e; } cfg = { 1, 2, 3, 4, 5 };
__attribute__((noinline)) int sum(int x) { if (cfg.a > x) x += cfg.b; if (cfg.c == x) x ^= 1; return x + cfg.d + cfg.e + cfg.a; }
__attribute__((noinline)) unsigned tenth(unsigned x) { return x * 0xcccccccdu; }
static void *reads(void *stop) { while (!*(volatile int *)stop) sum(0); return 0; }
int main(int argc, char **argv)
{
	int stop = 0, err = 0;
	pthread_t t;
	(void)argv;
	pthread_create(&t, 0, reads, &stop);
	for (int i = 0; i < 2; i++)
		err |= etch_set(&cfg.a, i + 10) | etch_set(&cfg.b, i + 20) | etch_set(&cfg.c, i + 30) | etch_set(&cfg.d, i + 40) | etch_set(&cfg.e, i + 50);
	printf("%d %d %ld %u\\n", err, sum(0), etch_verify(0, 0), tenth((unsigned)argc));
	stop = 1;
	return pthread_join(t, 0);
}
"""


@pytest.mark.parametrize("cc", CCS)
def test_sets_under_valgrind(tmp_path, build, cc):
    need("valgrind")
    exe = Flow(tmp_path, build, cc).program(VALGRIND, "linked", flags=("-O2",))
    want = f"0 {11 + 21 + 41 + 51} 0 3435973837\n"
    assert run([exe]).stdout == want
    assert run(["valgrind", "-q", "--error-exitcode=9", exe]).stdout == want


HANDLERS = """
#include <signal.h>
#include <etch/imv.h>
#include <setjmp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
ETCHED struct { int a, b; } cfg = { 1, 2 };
__attribute__((noinline)) int sum(void) { return cfg.a * 10 + cfg.b; }
static sigjmp_buf back;
static volatile int came;
static void on_fault(int sig, siginfo_t *info, void *context)
{
	(void)sig;
	came++;
	if (!etch_stray_store(info, context))
		siglongjmp(back, 1);
}
int main(void)
{
	struct sigaction act = { .sa_sigaction = on_fault, .sa_flags = SA_SIGINFO | SA_NODEFER };
	volatile int *volatile stray = ETCH_ADDR(cfg.b); /* gcc 16 would store after it has read `came` */
	int err = etch_sync(&cfg, sizeof cfg);
	sigaction(SIGSEGV, &act, 0);
	if (etch_stray(ETCH_STRAY_CHAINED, 0) != 0)
		return 1;
	*stray = 3;
	if (came != 1 || sum() != 13)
		return 2;
	if (!sigsetjmp(back, 1)) {
		volatile int *volatile null = 0;
		*null = 1;
		return 3;
	}
	struct etch_state s = { .size = sizeof s };
	struct etch_info info = { .size = sizeof info };
	unsigned long at_start;
	err |= etch_info(&info);
	at_start = info.patched_at_start;
	*stray = 4;
	err |= etch_sync(&cfg, sizeof cfg) | etch_state(&cfg, sizeof cfg, &s);
	if (s.armed || sum() != 14)
		return 4; /* held back */
	usleep(200000);
	err |= etch_sync(&cfg, sizeof cfg) | etch_state(&cfg, sizeof cfg, &s) | etch_info(&info);
	if (s.armed != s.sites || !s.sites || s.held_back || info.patched_at_start != at_start)
		return 5;
	*stray = 3;
	err |= etch_state(&cfg, sizeof cfg, &s);
	return err || came != 3 || s.given_up != 2 || s.given_up_at != ETCH_ADDR(cfg.b) || !s.given_up_by || !s.held_back || s.held_back > 200;
}
"""


@pytest.mark.parametrize("cc", CCS)
def test_a_handler_of_the_program_asks_libetch(tmp_path, build, cc):
    stray([Flow(tmp_path, build, cc).program(HANDLERS, "linked", flags=("-O2",))], "")


OPS = """
#include <etch/pv.h>
#include <stdio.h>
static void one(void) { puts("one"); }
static void two(void) { puts("two"); }
struct ops { void (*run)(void); int other; };
ETCHED struct ops ops = { one, 7 };
__attribute__((noinline)) void go(void) { pv_call(ops, run); }
__attribute__((noinline)) int other(void) { return ops.other; }
int main(int argc, char **argv)
{
	struct ops *volatile p = (struct ops *)ETCH_ADDR(ops);
	(void)argv;
	go();
	if (argc == 2)
		p->run = two;
	else
		p->other = 8;
	go();
	return other() == 8 ? 0 : 1;
}
"""


@pytest.mark.parametrize("args", [[], ["x"]])
def test_a_store_to_an_ops_table_ends_the_program(tmp_path, build, args):
    """Also one to a value beside the pointers; ETCH_STRAY=calls gives up both."""
    exe = Flow(tmp_path, build, "gcc").program(OPS, "linked", flags=("-O2",))
    p = run([exe, *args], ok=None)
    assert p.returncode == -11 and "ETCH-I101" in p.stderr and "two" not in p.stdout, p
    p = stray([exe, *args], "calls", ok=None)
    assert p.stdout == ("one\ntwo\n" if args else "one\none\n") and p.returncode == (1 if args else 0), p


OFTEN = """
#include <etch/imv.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>
ETCHED struct { int often, seldom; unsigned count; } cfg = { 1, 2, 0 }; /* `count` makes fields of it */
__attribute__((noinline)) int often(void) { return cfg.often; }
__attribute__((noinline)) int seldom(void) { cfg.count++; return cfg.seldom; }
static void *idle(void *p) { for (;;) pause(); return p; }
int main(void)
{
	struct etch_state s = { .size = sizeof s };
	int err = etch_sync(&cfg, sizeof cfg), i;
	pthread_t t;
	if (THREADS)
		pthread_create(&t, 0, idle, 0);
	for (i = 10; i < 1000 && !err; i++) {
		err = etch_set(&cfg.often, i);
		if (often() != i || seldom() != 2)
			return 1;
	}
	err |= etch_state(&cfg, sizeof cfg, &s);
	printf("%d %lu %lu %lu;", err, s.armed, s.unarmed, s.set_often);
	err = etch_sync(&cfg, sizeof cfg) | etch_state(&cfg, sizeof cfg, &s);
	printf(" %d %lu;", err, s.armed);
	usleep(250000);
	err = etch_sync(&cfg, sizeof cfg) | etch_state(&cfg, sizeof cfg, &s);
	printf(" %d %lu %lu\\n", err, s.armed, s.set_often);
	err = etch_set(&cfg.seldom, 7);
	return err || often() != 999 || seldom() != 7 || etch_verify(0, 0);
}
"""


@pytest.mark.parametrize("threads", [0, 1])
@pytest.mark.parametrize("cc", CCS)
def test_what_is_set_often_is_read_from_memory_for_a_while(tmp_path, build, cc, threads):
    exe = Flow(tmp_path, build, cc).program(OFTEN, "linked", flags=("-O2", "-g", f"-DTHREADS={threads}"))
    said = stray([exe], "").stdout
    # On a machine that stops the program for long between two calls, the first etch_sync may come late enough.
    assert said in ("0 1 1 1; 0 1; 0 2 0\n", "0 1 1 1; 0 2; 0 2 0\n"), said


TICK = """
#include <etch/imv.h>
#include <stdio.h>
#include <unistd.h>
ETCHED int given_up = 3, often = 4, released = 5, early = 6, late = 7;
__attribute__((noinline)) int sum(void) { return given_up + often + released; }
__attribute__((noinline)) int others(void) { return early + late; }
static int armed(const int *p)
{
	struct etch_state s = { .size = sizeof s };
	return etch_state(p, sizeof *p, &s) ? -1 : (int)s.armed;
}
static void show(void) { printf("%d%d%d ", armed(&given_up), armed(&often), armed(&released)); }
int main(void)
{
	int *volatile stray = ETCH_ADDR(given_up);
	int err = etch_sync_all(), i;
	show();
	*stray = 10;
	for (i = 0; i < 40; i++)
		err |= etch_set(&often, i);
	err |= etch_release(&released, sizeof released) | etch_tick();
	show();
	usleep(250000);
	show();
	err |= etch_tick();
	show();
	*stray = 11; /* held back for 200 ms now */
	usleep(120000);
	err |= etch_tick();
	show();
	usleep(120000);
	err |= etch_tick();
	show();
	*(int *volatile)ETCH_ADDR(early) = 8; /* a tick while something else is held back for longer */
	usleep(60000);
	for (i = 0; i < 40; i++)
		err |= etch_set(&late, i);
	usleep(60000);
	err |= etch_tick();
	printf("%d%d ", armed(&early), armed(&late));
	usleep(200000);
	err |= etch_tick();
	printf("%d%d ", armed(&early), armed(&late));
	printf("%d %d %d\\n", err, sum(), others());
	return 0;
}
"""


@pytest.mark.parametrize("cc", CCS)
def test_a_tick_arms_again_what_is_quiet(tmp_path, build, cc):
    """What was given up and what was set often, not what the program has released, nor what was never armed."""
    said = stray([Flow(tmp_path, build, cc).program(TICK, "linked", flags=("-O2",))], "").stdout
    assert re.fullmatch("111 000 000 110 [01]10 110 1[01] 11 0 55 47\n", said), said


ONE_BY_ONE = """
#include <etch/imv.h>
#include <stdio.h>
ETCHED_SHARED int a = 1, b = 2, c = 3;
__attribute__((noinline)) int read_a(void) { return a; }
__attribute__((noinline)) int read_b(void) { return b; }
__attribute__((noinline)) int read_c(void) { return c; }
static int sum(void) { return read_a() + 10 * read_b() + 100 * read_c(); }
static int armed(const int *p)
{
	struct etch_state s = { .size = sizeof s };
	return etch_state(p, sizeof *p, &s) ? 9 : (int)s.armed;
}
static void show(void) { printf("%d%d%d=%d ", armed(ETCH_ADDR(a)), armed(ETCH_ADDR(b)), armed(ETCH_ADDR(c)), sum()); }
__attribute__((noinline)) void store(int *p, int v) { *p = v; }
int main(int argc, char **argv)
{
	int *volatile escaped[] = { &a, &b, &c }; /* so that nothing is armed by proof */
	int err = 0;
	show();
	store(escaped[0], 4);
	err |= etch_sync(&a, sizeof a);
	show();
	store(escaped[0], 5);
	err |= etch_sync(&b, sizeof b);
	show();
	if (argc > 1)
		err |= etch_release(&a, sizeof a);
	err |= etch_sync(&c, sizeof c);
	show();
	store(escaped[1], 6);
	show();
	printf("%d\\n", err);
	return !argv[0];
}
"""


@pytest.mark.parametrize("cc", CCS)
def test_variables_of_a_page_are_armed_when_the_last_is_synced(tmp_path, build, cc):
    """Those of ETCHED_SHARED guard each other: none can be armed before all are; unless the program has released one."""
    exe = Flow(tmp_path, build, cc).program(ONE_BY_ONE, "linked", flags=("-O2",))
    assert stray([exe], "").stdout == "000=321 000=324 000=325 111=325 000=365 0\n"
    assert stray([exe, "x"], "").stdout == "000=321 000=324 000=325 000=325 000=365 0\n"
    fields = {r["object"]: r["armed"] for r in Flow(tmp_path, build, cc).inspect("fields", exe)["fields"]}
    assert fields == dict.fromkeys("abc", "guarded"), fields


DUMP = """
#include <etch/imv.h>
#include <stdio.h>
#include <stdlib.h>
ETCHED struct settings { int a, b; } settings = { 1, 2 };
ETCHED_DENSE int quiet = 3;
__attribute__((noinline)) int sum(void) { return settings.a + settings.b + quiet; }
__attribute__((noinline)) void stray_store(int *p) { *p = 4; }
int main(int argc, char **argv)
{
	int err = etch_sync_all();
	(void)argc;
	stray_store(ETCH_ADDR(settings.b));
	return err | etch_dump(atoi(argv[1]));
}
"""


@pytest.mark.parametrize("cc", CCS)
def test_a_dump_says_who_stored(tmp_path, build, cc):
    exe = Flow(tmp_path, build, cc).program(DUMP, "linked", flags=("-O2", "-g"))
    lines = sorted(stray([exe, "1"], "").stdout.splitlines())
    assert lines[0] == "quiet: 1 sites: 1 are immediates", lines
    text = r"settings: 2 sites: 2 read what is not armed; 1 plain store gave them up; " \
           r"held back for (\d+) ms; the last one by (0x[0-9a-f]+) of the program to settings\+4"
    held, at = re.fullmatch(text, lines[1]).groups()
    assert len(lines) == 2 and 0 < int(held) <= 110
    assert "stray_store" in run(["addr2line", "-f", "-e", exe, at]).stdout
    assert stray([exe, "99"], "", ok=None).returncode == 1


COMMON = """
#define _GNU_SOURCE
#include <etch/imv.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>
ETCHED_SHARED unsigned x = 1, y = 2;
__attribute__((noinline)) unsigned read_x(void) { return x; }
__attribute__((noinline)) unsigned read_y(void) { return y; }
static void store(unsigned *p, unsigned v) { __asm__ __volatile__("movl %1, (%0)" : : "r"(p), "r"(v) : "memory"); }
static void *idle(void *p) { for (;;) pause(); return p; }
static void second_thread(void) { pthread_t t; if (pthread_create(&t, 0, idle, 0)) abort(); }
static int is(int ok, int line) { if (!ok) printf("line %d: %u %u\\\\n", line, read_x(), read_y()); return !ok; }
#define IS(...) do { if (is(!!(__VA_ARGS__), __LINE__)) return 1; } while (0)
"""
CASES = {
    "what the program has released stays released when its page is armed again": """
	int zero = open("/dev/zero", O_RDONLY);
	second_thread();
	IS(!etch_sync_all());
	store(ETCH_ADDR(x), 5);
	IS(read_x() == 5 && !etch_release(&y, sizeof y) && !etch_sync(&x, sizeof x));
	IS(read(zero, ETCH_ADDR(y), 4) == 4 && read_y() == 0); /* on a read-only page EFAULT */
""",
    "a page given up without memory is not armed without a guard": """
	struct rlimit none = { 0, 0 }, before;
	second_thread();
	IS(!etch_sync_all() && !getrlimit(RLIMIT_AS, &before));
	none.rlim_max = before.rlim_max;
	IS(!setrlimit(RLIMIT_AS, &none));
	store(ETCH_ADDR(x), 5);
	IS(!setrlimit(RLIMIT_AS, &before) && read_x() == 5 && !etch_sync(&x, sizeof x));
	store(ETCH_ADDR(x), 6);
	IS(read_x() == 6 && !etch_verify(0, 0));
""",
    "a filter without mremap": """
	struct sock_filter f[] = { BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_mremap, 0, 1), BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW) };
	struct sock_fprog p = { sizeof f / sizeof *f, f };
	struct etch_state s = { .size = sizeof s };
	second_thread();
	IS(!etch_sync_all() && !prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) && !prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &p));
	for (unsigned i = 10; i < 20; i++)
		IS(!etch_set(&x, i) && read_x() == i && read_y() == 2);
	IS(!etch_state(&x, sizeof x, &s) && s.armed == s.sites && s.sites);
	store(ETCH_ADDR(y), 7);
	IS(read_y() == 7 && read_x() == 19 && !etch_verify(0, 0));
""",
    "the child of _Fork has threads": """
	pid_t pid = _Fork();
	if (!pid) {
		pthread_t t[2];
		for (int i = 0; i < 2; i++)
			pthread_create(&t[i], 0, setter, i ? ETCH_ADDR(x) : ETCH_ADDR(y));
		for (int i = 0; i < 2; i++)
			pthread_join(t[i], 0);
		_exit(failed || read_x() != 4999 || read_y() != 4999);
	}
	int status;
	IS(waitpid(pid, &status, 0) == pid && !status);
""",
}
SETTER = """
static volatile int failed;
static void *setter(void *p)
{
	for (unsigned v = 0; v < 5000; v++)
		failed |= etch_set_bytes(p, &v, sizeof v);
	return 0;
}
"""


@pytest.mark.parametrize("stage", ["object", "linked"])
@pytest.mark.parametrize("case", CASES)
def test_case(tmp_path, build, case, stage):
    text = COMMON + SETTER + "int main(void)\n{\n\talarm(60);\n" + CASES[case] + "\t(void)setter;\n\treturn 0;\n}\n"
    run([Flow(tmp_path, build, "gcc").program(text.replace("\\\\n", "\\n"), stage, flags=("-O2", "-g", "-Wno-unused-function"))])


# Other handlers of the fork take long, as fork(2) of a large process does: they run while libetch's lock is held.
SLOW_FORKS = """
#include <etch/imv.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>
ETCHED unsigned x = 1, y = 1;
__attribute__((noinline)) unsigned read_x(void) { return x; }
__attribute__((noinline)) unsigned read_y(void) { return y; }
static void slow(void) { usleep(60000); }
static void in_child(void) { if (etch_set(&y, 7u)) _exit(3); }
static void handlers(void) { pthread_atfork(slow, slow, in_child); }
__attribute__((section(".preinit_array"), used)) static void (*const pre)(void) = handlers;
static volatile int stop;
static void *forks(void *p)
{
	for (int i = 0; i < 6; i++) {
		int status;
		pid_t pid = fork();
		if (!pid) {
			unsigned memory = *(volatile unsigned *)ETCH_ADDR(x);
			alarm(20);
			_exit(read_x() != memory || read_y() != 7 || etch_verify(0, 0) || etch_set(&x, 9u) || read_x() != 9);
		}
		if (waitpid(pid, &status, 0) != pid || status) {
			printf("child %#x\\n", status);
			exit(1);
		}
	}
	return p;
}
static void *sets(void *p)
{
	for (unsigned v = 10; !stop; v++)
		if (etch_set(&x, v))
			exit(2);
	return p;
}
int main(void)
{
	pthread_t t[3], s;
	alarm(40);
	pthread_create(&s, 0, sets, 0);
	for (int i = 0; i < 3; i++)
		pthread_create(&t[i], 0, forks, 0);
	for (int i = 0; i < 3; i++)
		pthread_join(t[i], 0);
	stop = 1;
	pthread_join(s, 0);
	return read_x() != *(volatile unsigned *)ETCH_ADDR(x) || etch_verify(0, 0);
}
"""


def test_slow_forks_of_several_threads(tmp_path, build):
    """While one takes long others wait for it, and sets go on; a child finds no set half done."""
    run([Flow(tmp_path, build, "gcc").program(SLOW_FORKS, "linked", flags=("-O2",))], timeout=90)


def test_a_word_of_etch_stray_that_is_none_is_told(tmp_path, build):
    """A check in a user's CI that is switched on by a misspelt word would check nothing."""
    exe = Flow(tmp_path, build, "gcc").program(SEALED, "linked", flags=("-O2",))
    assert stray([exe], "warn,dye").stderr == 'etch: ETCH_STRAY: "dye" is not one of die, warn, calls, eager\n'
    assert stray([exe], "warn,eager").stderr == "" and stray([exe], "").stderr == ""


# sgdt stores ten bytes. Where the processor does not allow it to programs (UMIP), the kernel executes it, and reports a page that
# it may not store to as one that is not there.
EXECUTED_BY_THE_KERNEL = """
#include <etch/imv.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>
ETCHED_SHARED struct { int first; char table[10]; int last; } g = { 1, "", 2 };
static const char constant[16] = "a";
__attribute__((noinline)) int get(void) { return g.first + g.last + g.table[9]; }
int main(void)
{
	int err = etch_sync(&g, sizeof g), before = get(), status = 0;
	struct etch_state s = { .size = sizeof s };
	char *volatile at = g.table;
	alarm(20);
	__asm__ volatile("sgdt (%0)" : : "r"(at) : "memory");
	g.first = 10;
	int there = memcmp(g.table, (char[10]){ 0 }, 10) != 0, after = get() - g.table[9];
	if (!fork()) {
		at = (char *)constant;
		__asm__ volatile("sgdt (%0)" : : "r"(at) : "memory");
		_exit(0);
	}
	wait(&status);
	err |= etch_state(&g, sizeof g, &s);
	printf("%d %d %d %d %d %d %ld\\n", err, before, there, after, s.given_up > 0, WTERMSIG(status), etch_verify(0, 0));
	return 0;
}
"""


@pytest.mark.parametrize("cc", CCS)
def test_a_store_that_the_kernel_executes(tmp_path, build, cc):
    exe = Flow(tmp_path, build, cc).program(EXECUTED_BY_THE_KERNEL, "linked", flags=("-O2",))
    assert run([exe]).stdout == "0 3 1 12 1 11 0\n"
