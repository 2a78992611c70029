/* SPDX-License-Identifier: MIT */
/*
 * edge.c: libetch at its edges, with tables written by hand: `edge CASE` runs one
 * case and exits 0, or says what is not so. test_lib_edge.py has the list.
 */
#include <errno.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <spawn.h>
#include <stdatomic.h>
#include <stddef.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/user.h>
#include <sys/wait.h>

#include "site.h"

#ifndef PR_SET_MDWE
#define PR_SET_MDWE 65
#endif

/* ---- the objects ----------------------------------------------------------- */

/* plain: two sites, live; another that crosses an 8-byte word. */
ETCHED __attribute__((used)) int plain = 7;
OBJECT_RECORD("plain", 4, 0);
READER32(read_plain, "plain", 0)
READER32(read_plain2, "plain", 2)
READER32(read_fixed, "plain", 4)

/* wide: 64 bits, which an immediate carries in part only. */
ETCHED __attribute__((used)) long wide = 5;
OBJECT_RECORD("wide", 8, 0);
READER64(read_wide, "wide")

/* pair: two fields, and a load that takes both. */
struct two { int a, b; };
ETCHED __attribute__((used)) struct two pair = {1, 2};
OBJECT_RECORD("pair", 8, 0);
READER32(read_pair_a, "pair", 0)
READER64(read_pair, "pair")

/* stored: somebody stores to it plainly. */
ETCHED __attribute__((used)) int stored = 70;
OBJECT_RECORD("stored", 4, 0);
FACT_RECORD("stored", 2, 0);
READER32(read_stored, "stored", 0)

/* Two cells on one page: one escapes. */
ETCHED_SHARED __attribute__((used)) int cell = 11;
ETCHED_SHARED __attribute__((used)) int escaped = 12;
OBJECT_RECORD("cell", 4, 8);
OBJECT_RECORD("cell", 4, 8); /* twice is once */
OBJECT_RECORD("escaped", 4, 8);
FACT_RECORD("escaped", 3, 0);
READER32(read_cell, "cell", 0)
READER32(read_escaped, "escaped", 0)

/* Etched, but no tool wrote a record of it. */
ETCHED __attribute__((used)) int unknown = 3;
/* Not etched at all. */
static int ordinary = 1;

/* far1 and far2: sites that lie pages apart, for runs of pages. */
__asm__(".text\n\t.balign 4096\n\t.globl far1\nfar1:\n"
        "771:\tmovl plain(%rip), %eax" SITE_ENTRY("plain", 3, 0, SHAPE6, 0) "ret\n\t"
        ".balign 4096\n\t.skip 4096, 0x90\n\t.globl far2\nfar2:\n"
        "771:\tmovl plain(%rip), %eax" SITE_ENTRY("plain", 3, 0, SHAPE6, 0) "ret\n\t"
        ".balign 4096");
extern int far1(void), far2(void);
extern const volatile uint8_t far1_bytes[] __asm__("far1"), far2_bytes[] __asm__("far2");

static int sum_plain(void)
{
	int v = read_plain();

	CHECK_EQ(read_plain2(), v);
	CHECK_EQ(read_fixed(), v);
	CHECK_EQ(far1(), v);
	CHECK_EQ(far2(), v);
	CHECK_EQ(*(volatile int *)&plain, v);
	return v;
}

static void check_closed(void)
{
	CHECK_PERMS(read_plain_site, "r-xp");
	CHECK_PERMS(far1_bytes, "r-xp");
	CHECK_PERMS(far2_bytes, "r-xp");
	CHECK_PERMS(&plain, "r--p");
	CHECK_PERMS(&wide, "r--p");
	CHECK_PERMS(&pair, "r--p");
}

/* ---- helpers ------------------------------------------------------------------- */

/* A filter: `nr` fails with `error` (0: kills), if argument `arg` ANDed with mask
 * equals `value`. */
static void deny(int nr, int error, unsigned arg, uint32_t mask, uint32_t value)
{
	struct sock_filter code[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (uint32_t)nr, 0, 4),
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, (uint32_t)(offsetof(struct seccomp_data, args) + 8 * arg)),
		BPF_STMT(BPF_ALU | BPF_AND | BPF_K, mask),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, value, 0, 1),
		BPF_STMT(BPF_RET | BPF_K, error ? SECCOMP_RET_ERRNO | (uint32_t)error : SECCOMP_RET_KILL_PROCESS),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
	};
	struct sock_fprog prog = {sizeof(code) / sizeof(code[0]), code};

	CHECK(!prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0));
	CHECK(!prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &prog));
}

static void deny_all(int nr, int error) { deny(nr, error, 0, 0, 0); }

static atomic_int thread_stop, thread_wrong;

static void *thread_read(void *arg)
{
	sigset_t all;

	(void)arg;
	sigfillset(&all);
	pthread_sigmask(SIG_BLOCK, &all, NULL);
	while (!thread_stop) {
		int v = read_plain();

		if (v < 0 || v > 1000000)
			thread_wrong = 1;
	}
	return NULL;
}

static pthread_t thread_start(void)
{
	pthread_t t;

	CHECK(!pthread_create(&t, NULL, thread_read, NULL));
	return t;
}

/* pthread_join returns while the kernel still counts the thread: libetch asks the kernel. */
static void thread_end(pthread_t t)
{
	struct stat st;

	thread_stop = 1;
	CHECK(!pthread_join(t, NULL));
	CHECK(!thread_wrong);
	do
		CHECK(!stat("/proc/self/task", &st));
	while (st.st_nlink > 3 && !usleep(1000));
}

/* A set that must fail with `error`, and change nothing. */
static void check_refused(int error)
{
	int before = sum_plain();

	CHECK_EQ(etch_set(&plain, before + 1), error);
	CHECK_EQ(sum_plain(), before);
	CHECK_EQ(etch_verify(NULL, NULL), 0);
	check_closed();
}

/* ---- cases ------------------------------------------------------------------------ */

static void case_basic(void)
{
	struct etch_info i = info_now();

	CHECK_EQ(i.modules, 1);
	CHECK_EQ(i.sites, 11);
	CHECK_EQ(i.fixed, 1);
	CHECK_EQ(i.armed, 7); /* pair holds more than 32 bits */
	CHECK_EQ(i.loads, 4);
	CHECK_EQ(i.objects, 6);
	CHECK_EQ(i.armed_objects, 4);
	CHECK_EQ(i.patched_at_start, 7);
	CHECK_EQ(i.readonly_pages, 3);
	check_closed();
	CHECK_PERMS(&stored, "rw-p");
	CHECK_PERMS(&cell, "rw-p");
	CHECK_EQ(sum_plain(), 7);
	for (int v = -3; v < 100; v++) {
		CHECK_EQ(etch_set(&plain, v), 0);
		CHECK_EQ(sum_plain(), v);
	}
	check_closed();
	CHECK_EQ(etch_verify(NULL, NULL), 0);

	/* released: plain stores count; synced: sets do */
	CHECK_EQ(etch_release(&plain, sizeof(plain)), 0);
	CHECK_PERMS(&plain, "rw-p");
	*(volatile int *)&plain = 55;
	CHECK_EQ(sum_plain(), 55);
	CHECK_EQ(etch_set(&plain, 56), 0);
	CHECK_EQ(sum_plain(), 56);
	CHECK_EQ(etch_sync(&plain, sizeof(plain)), 0);
	CHECK_EQ(etch_sync(&plain, sizeof(plain)), 0);
	CHECK_EQ(etch_set(&plain, 57), 0);
	CHECK_EQ(sum_plain(), 57);
	check_closed();
	CHECK_EQ(info_now().armed, 7);
}

static void case_facts(void)
{
	CHECK_EQ(read_stored(), 70);
	*(volatile int *)&stored = 71; /* the store that the fact speaks of */
	CHECK_EQ(read_stored(), 71);
	CHECK_EQ(etch_set(&stored, 72), 0);
	CHECK_EQ(read_stored(), 72);
	CHECK(read_stored_site[0] == 0x8b);
	CHECK_EQ(etch_sync(&stored, sizeof(stored)), 0);
	CHECK(read_stored_site[0] != 0x8b);
	CHECK_PERMS(&stored, "r--p");
	CHECK_EQ(etch_set(&stored, 73), 0);
	CHECK_EQ(read_stored(), 73);

	/* A page is read-only only when all that is on it is armed. */
	CHECK(read_cell_site[0] != 0x8b);
	CHECK(read_escaped_site[0] == 0x8b);
	CHECK_EQ(etch_set(&cell, 100), 0);
	CHECK_EQ(read_cell(), 100);
	*(volatile int *)&escaped = 101;
	CHECK_EQ(read_escaped(), 101);
	CHECK_PERMS(&cell, "rw-p");
	CHECK_EQ(etch_sync(&escaped, sizeof(escaped)), 0);
	CHECK_PERMS(&cell, "r--p");
	CHECK_EQ(etch_set(&escaped, 102), 0);
	CHECK_EQ(etch_set(&cell, 103), 0);
	CHECK_EQ(read_cell() + read_escaped(), 205);
	CHECK_EQ(etch_release(&cell, sizeof(cell)), 0);
	CHECK_PERMS(&cell, "rw-p");
	CHECK_EQ(etch_verify(NULL, NULL), 0);
}

static void case_errors(void)
{
	static const char *const said[] = {"no error", "null pointer", "no etched object", "breakpoint", "bytes",
	                                   "protection", "membarrier", "memory", "malformed"};
	int v = 1, on_stack = 0;
	int *heap = malloc(8);
	struct etch_change bad = {&plain, &v, 0};

	CHECK_EQ(etch_set_bytes(NULL, &v, 4), ETCH_EINVAL);
	CHECK_EQ(etch_set_bytes(&plain, NULL, 4), ETCH_EINVAL);
	CHECK_EQ(etch_set_bytes(&plain, &v, 0), ETCH_EINVAL);
	CHECK_EQ(etch_set_bytes(&plain, &v, 5), ETCH_EINVAL);
	CHECK_EQ(etch_set_bytes((char *)&plain + 2, &v, 4), ETCH_EINVAL);
	CHECK_EQ(etch_set_bytes((void *)-2, &v, 4), ETCH_EINVAL);
	CHECK_EQ(etch_set_bytes(&on_stack, &v, 4), ETCH_ENOTETCHED);
	CHECK_EQ(etch_set_bytes(heap, &v, 4), ETCH_ENOTETCHED);
	CHECK_EQ(etch_set_bytes(&ordinary, &v, 4), ETCH_ENOTETCHED);
	CHECK_EQ(etch_set_bytes((void *)(uintptr_t)&case_errors, &v, 4), ETCH_ENOTETCHED);
	CHECK_EQ(etch_sync_bytes(&ordinary, 4), ETCH_ENOTETCHED);
	CHECK_EQ(etch_sync_bytes(NULL, 4), ETCH_EINVAL);
	CHECK_EQ(etch_sync_bytes(&plain, 0), ETCH_EINVAL);
	CHECK_EQ(etch_sync_bytes(&plain, 8), ETCH_EINVAL);
	CHECK_EQ(etch_release_bytes(heap, 4), ETCH_ENOTETCHED);
	CHECK_EQ(etch_set_batch(NULL, 1), ETCH_EINVAL);
	CHECK_EQ(etch_set_batch(NULL, 0), 0);
	CHECK_EQ(etch_set_batch(&bad, 1), ETCH_EINVAL);
	CHECK_EQ(etch_info(NULL), ETCH_EINVAL);
	CHECK_EQ(ordinary, 1);
	CHECK_EQ(sum_plain(), 7);

	/* Etched, of a file that no tool has been through: a store. */
	CHECK_EQ(etch_set(&unknown, 4), 0);
	CHECK_EQ(unknown, 4);
	CHECK_EQ(etch_sync(&unknown, sizeof(unknown)), 0);

	for (int e = 0; e <= ETCH_EFORMAT; e++)
		CHECK(strstr(etch_strerror(e), said[e]));
	CHECK(strstr(etch_strerror(-5), "unknown"));
	free(heap);
}

static void case_wide(void)
{
	static const long values[] = {0, 1, -1, 0x7fffffff, -0x7fffffffL - 1, 0x80000000, 0xffffffff, 0x100000000,
	                              0x7fffffffffffffff, -0x7fffffffffffffff - 1, -0x80000001L, 42};

	for (unsigned i = 0; i < sizeof(values) / sizeof(values[0]); i++)
		for (unsigned j = 0; j < sizeof(values) / sizeof(values[0]); j++) {
			/* An immediate carries a sign-extended or a zero-extended word. */
			int fits = values[j] == (int)values[j] || values[j] == (long)(unsigned)values[j];

			CHECK_EQ(etch_set(&wide, values[i]), 0);
			CHECK_EQ(read_wide(), values[i]);
			CHECK_EQ(etch_set(&wide, values[j]), 0);
			CHECK_EQ(read_wide(), values[j]);
			CHECK_EQ(read_wide_site[1] == 0x8b, !fits);
			CHECK_PERMS(&wide, "r--p");
		}
	CHECK_EQ(etch_verify(NULL, NULL), 0);
}

static void case_overlap(void)
{
	int one = 10, two = 20;
	long both = 0x6600000055;
	struct etch_change c[] = {ETCH_CHANGE(&pair.a, &one), ETCH_CHANGE(&pair, &both), ETCH_CHANGE(&pair.b, &two)};

	c[1].size = 8;
	CHECK_EQ(read_pair(), 2L << 32 | 1);
	CHECK_EQ(etch_set(&pair.b, 3), 0); /* reaches the load that takes both fields */
	CHECK_EQ(read_pair(), 3L << 32 | 1);
	CHECK_EQ(etch_set_batch(c, 3), 0); /* the later one wins */
	CHECK_EQ(read_pair(), 20L << 32 | 0x55);
	CHECK_EQ(read_pair_a(), 0x55);
	CHECK_EQ(etch_set(&pair.b, 0), 0);
	CHECK_EQ(read_pair(), 0x55);
	CHECK(read_pair_site[1] != 0x8b);
	CHECK_EQ(etch_verify(NULL, NULL), 0);
}

static void case_busy(void)
{
	uint8_t byte = far2_bytes[0], cc = 0xcc;
	int v = 9;
	long w = 6;
	struct etch_change c[] = {ETCH_CHANGE(&wide, &w), ETCH_CHANGE(&plain, &v)};

	poke(far2_bytes, &cc, 1);
	CHECK_EQ(etch_set(&plain, 8), ETCH_EBUSY);
	CHECK_EQ(etch_set_batch(c, 2), ETCH_EBUSY);
	CHECK_EQ(etch_release(&plain, sizeof(plain)), ETCH_EBUSY);
	CHECK_EQ(etch_sync(&plain, sizeof(plain)), ETCH_EBUSY);
	CHECK_EQ(etch_verify(NULL, NULL), 0);
	CHECK_EQ(far2_bytes[0], 0xcc);
	poke(far2_bytes, &byte, 1);
	CHECK_EQ(sum_plain(), 7);
	CHECK_EQ(read_wide(), 5);
	check_closed();
	CHECK_EQ(etch_set_batch(c, 2), 0);
	CHECK_EQ(sum_plain(), 9);
	CHECK_EQ(read_wide(), 6);
}

/* Under gdb, which has a breakpoint on far2 by then, and none the second time. */
ALONE void gdb_here(void);
void gdb_here(void) { __asm__ __volatile__(""); }

static void case_gdb(void)
{
	gdb_here();
	printf("set %d\n", etch_set(&plain, 8));
	printf("memory %d site %d verify %ld\n", *(volatile int *)&plain, read_plain(), etch_verify(NULL, NULL));
	fflush(stdout);
	gdb_here();
	printf("set %d\n", etch_set(&plain, 8));
	CHECK_EQ(sum_plain(), 8);
}

static const void *reported_site, *reported_object;

static void report(void *arg, const void *site, const void *object)
{
	++*(int *)arg;
	reported_site = site;
	reported_object = object;
}

static void case_code(void)
{
	uint8_t old[6], other[6] = {0x0f, 0x1f, 0x80, 1, 2, 3};
	int count = 0, v = 9;
	long w = 6;
	struct etch_change c[] = {ETCH_CHANGE(&wide, &w), ETCH_CHANGE(&plain, &v)};

	memcpy(old, hide(far1_bytes), 6);
	poke(far1_bytes, other, 6);
	CHECK_EQ(etch_set(&plain, 8), ETCH_ECODE);
	CHECK_EQ(etch_set_batch(c, 2), ETCH_ECODE);
	CHECK_EQ(etch_sync(&plain, sizeof(plain)), ETCH_ECODE);
	CHECK_EQ(etch_release(&plain, sizeof(plain)), ETCH_ECODE);
	CHECK(!memcmp(hide(far1_bytes), other, 6));
	CHECK_EQ(etch_verify(report, &count), 1);
	CHECK_EQ(count, 1);
	CHECK(reported_site == (const void *)(uintptr_t)far1_bytes && reported_object == (void *)&plain);
	poke(far1_bytes, old, 6);
	CHECK_EQ(etch_verify(report, &count), 0);
	CHECK_EQ(count, 1);
	CHECK_EQ(sum_plain(), 7);
	CHECK_EQ(read_wide(), 5);
	CHECK_EQ(etch_set_batch(c, 2), 0);
	CHECK_EQ(sum_plain() + read_wide(), 15);
}

/* Memory changed behind etch's back: verify finds all four sites, a set refuses,
 * a sync makes them agree. */
static void case_stale(void)
{
	int v = 99, count = 0;

	poke(&plain, &v, 4);
	CHECK_EQ(read_plain(), 7);
	CHECK_EQ(etch_verify(report, &count), 4);
	CHECK_EQ(count, 4);
	CHECK_EQ(etch_set(&plain, 5), ETCH_ECODE);
	CHECK_EQ(plain, 99);
	CHECK_EQ(etch_sync(&plain, sizeof(plain)), 0);
	CHECK_EQ(sum_plain(), 99);
	CHECK_EQ(etch_verify(NULL, NULL), 0);
	v = 98;
	poke(&plain, &v, 4);
	CHECK_EQ(etch_release(&plain, sizeof(plain)), 0);
	CHECK_EQ(sum_plain(), 98);
}

static void case_mdwe(void)
{
	CHECK(!prctl(PR_SET_MDWE, 1, 0, 0, 0));
	check_refused(ETCH_EPERM);
	CHECK_EQ(etch_release(&plain, sizeof(plain)), ETCH_EPERM);
	CHECK_EQ(etch_sync(&stored, sizeof(stored)), ETCH_EPERM);
	CHECK_PERMS(&stored, "rw-p");
	check_refused(ETCH_EPERM);
	CHECK_EQ(etch_set(&stored, 5), 0);
	CHECK_EQ(read_stored(), 5);
}

/* The rest of a case that goes on in a fresh image under a limit: nothing could be
 * armed, so sets are stores. */
static void case_unarmed(void)
{
	CHECK_EQ(info_now().armed, 0);
	CHECK_EQ(info_now().readonly_pages, 0);
	CHECK_PERMS(read_plain_site, "r-xp");
	for (int v = 0; v < 10; v++) {
		CHECK_EQ(etch_set(&plain, v), 0);
		CHECK_EQ(sum_plain(), v);
	}
	CHECK_EQ(etch_verify(NULL, NULL), 0);
}

static void start_again(void)
{
	execl("/proc/self/exe", "edge", "unarmed", (char *)NULL);
	CHECK(!"exec");
}

static void case_mdwe_start(void)
{
	CHECK(!prctl(PR_SET_MDWE, 1, 0, 0, 0)); /* kept by exec */
	start_again();
}

static void case_membarrier_start(void)
{
	deny_all(SYS_membarrier, ENOSYS);
	start_again();
}

static void case_mprotect_start(void)
{
	/* PROT_EXEC alone: ld.so must work. */
	deny(SYS_mprotect, EPERM, 2, PROT_EXEC, PROT_EXEC);
	start_again();
}

/* Single-threaded, no barrier is needed; with a thread it is. */
static void case_membarrier(void)
{
	pthread_t t;

	deny_all(SYS_membarrier, EPERM);
	CHECK_EQ(etch_set(&plain, 8), 0);
	CHECK_EQ(sum_plain(), 8);
	t = thread_start();
	check_refused(ETCH_ENOSYNC);
	CHECK_EQ(etch_release(&plain, sizeof(plain)), ETCH_ENOSYNC);
	CHECK_EQ(etch_sync(&stored, sizeof(stored)), ETCH_ENOSYNC);
	CHECK_PERMS(&stored, "rw-p");
	CHECK_EQ(read_stored_site[0], 0x8b);
	check_closed();
	thread_end(t);
	CHECK_EQ(etch_set(&plain, 9), 0);
	CHECK_EQ(sum_plain(), 9);
}

/* The kernel says it can, and then fails: the change is taken back. */
static void case_membarrier_late(void)
{
	pthread_t t = thread_start();

	deny(SYS_membarrier, EPERM, 0, 1 << 5, 1 << 5);
	check_refused(ETCH_ENOSYNC);
	CHECK_EQ(etch_sync(&stored, sizeof(stored)), ETCH_ENOSYNC);
	CHECK_EQ(read_stored_site[0], 0x8b);
	CHECK_PERMS(&stored, "rw-p");
	thread_end(t);
}

static void refuse_mprotect(int error, int want)
{
	deny_all(SYS_mprotect, error);
	check_refused(want);
	CHECK_EQ(etch_release(&plain, sizeof(plain)), want);
	CHECK_EQ(etch_sync(&stored, sizeof(stored)), want);
	CHECK_PERMS(&stored, "rw-p");
	check_refused(want);
}

static void case_mprotect_eperm(void) { refuse_mprotect(EPERM, ETCH_EPERM); }
static void case_mprotect_eacces(void) { refuse_mprotect(EACCES, ETCH_EPERM); }
/* What hugetlbfs text answers: a part of a huge page cannot be protected. */
static void case_mprotect_einval(void) { refuse_mprotect(EINVAL, ETCH_EPERM); }
/* Out of mappings. */
static void case_mprotect_enomem(void) { refuse_mprotect(ENOMEM, ETCH_ENOMEM); }

/* The last of several runs of pages fails: the earlier ones are closed again. */
static void case_mprotect_second(void)
{
	uint32_t page = (uint32_t)(uintptr_t)far2_bytes;

	deny(SYS_mprotect, EACCES, 0, 0xffffffff, page);
	check_refused(ETCH_EPERM);
	CHECK_EQ(etch_set(&wide, 6), 0);
}

/* Data opens, text does not. */
static void case_mprotect_text(void)
{
	deny(SYS_mprotect, EACCES, 2, PROT_EXEC | PROT_WRITE, PROT_EXEC | PROT_WRITE);
	check_refused(ETCH_EPERM);
}

/* A set that changes nothing asks the system for nothing. */
static void case_same(void)
{
	int v = 7;
	struct etch_change c[] = {ETCH_CHANGE(&plain, &v), ETCH_CHANGE(&plain, &v)};

	deny_all(SYS_mprotect, 0);
	deny_all(SYS_membarrier, 0);
	CHECK_EQ(etch_set(&plain, 7), 0);
	CHECK_EQ(etch_set_batch(c, 2), 0);
	CHECK_EQ(etch_sync(&plain, sizeof(plain)), 0);
	CHECK_EQ(etch_release(&stored, sizeof(stored)), 0);
	CHECK_EQ(etch_set(&stored, 5), 0);
	CHECK_EQ(read_stored(), 5);
}

/* Readers with every signal blocked see every value. */
static void case_blocked(void)
{
	pthread_t t = thread_start();

	for (int v = 0; v < 2000; v++) {
		CHECK_EQ(etch_set(&plain, v), 0);
		CHECK_EQ(sum_plain(), v);
	}
	thread_end(t);
	check_closed();
}

static void wait_ok(pid_t pid)
{
	int status;

	CHECK(pid > 0);
	CHECK(waitpid(pid, &status, 0) == pid);
	CHECK_EQ(status, 0);
}

static void case_fork(void)
{
	int to_child[2], from_child[2];
	char byte = 0;
	pid_t pid;

	CHECK(!pipe(to_child) && !pipe(from_child));
	CHECK_EQ(etch_set(&plain, 20), 0);
	pid = fork();
	if (!pid) {
		CHECK_EQ(sum_plain(), 20);
		CHECK_EQ(etch_set(&plain, 30), 0);
		CHECK(write(from_child[1], &byte, 1) == 1 && read(to_child[0], &byte, 1) == 1);
		CHECK_EQ(sum_plain(), 30); /* the parent has set 40 */
		CHECK_EQ(etch_verify(NULL, NULL), 0);
		check_closed();
		_exit(0);
	}
	CHECK(read(from_child[0], &byte, 1) == 1);
	CHECK_EQ(sum_plain(), 20); /* the child has set 30 */
	CHECK_EQ(etch_set(&plain, 40), 0);
	CHECK(write(to_child[1], &byte, 1) == 1);
	wait_ok(pid);
	CHECK_EQ(sum_plain(), 40);
	CHECK_EQ(etch_verify(NULL, NULL), 0);
}

static void *thread_set(void *arg)
{
	(void)arg;
	for (int v = 0; !thread_stop; v = (v + 1) % 1000)
		if (etch_set(&plain, v) || read_plain() != v)
			thread_wrong = 1;
	return NULL;
}

/* A fork in the middle of another thread's sets: the child has a whole state and
 * a free lock. vfork and posix_spawn: the child is another program, untouched. */
static void case_fork_set(void)
{
	static char *const args[] = {(char *)"edge", (char *)"basic", NULL};
	extern char **environ;
	pthread_t t;
	pid_t pid;

	CHECK(!pthread_create(&t, NULL, thread_set, NULL));
	for (int i = 0; i < 200; i++) {
		pid = fork();
		if (!pid) {
			int v = read_plain();

			CHECK_EQ(sum_plain(), v);
			CHECK_EQ(etch_verify(NULL, NULL), 0);
			CHECK_EQ(etch_set(&plain, v + 1), 0);
			CHECK_EQ(sum_plain(), v + 1);
			_exit(0);
		}
		wait_ok(pid);
		if (i % 20 == 0) {
			pid = vfork();
			if (!pid) {
				execve("/proc/self/exe", args, environ);
				_exit(1);
			}
			wait_ok(pid);
			CHECK(!posix_spawn(&pid, "/proc/self/exe", NULL, NULL, args, environ));
			wait_ok(pid);
		}
	}
	thread_end(t);
	CHECK_EQ(etch_verify(NULL, NULL), 0);
}

/* Text on huge pages, as programs that remap themselves have it: mprotect splits
 * them, or refuses. The 2 MiB that hold the sites are copied to such a page. */
static void case_huge(void)
{
	const size_t huge = 2 << 20;
	uintptr_t start = (uintptr_t)far1_bytes & ~(uintptr_t)4095;
	size_t length = ((uintptr_t)far2_bytes & ~(uintptr_t)4095) + 4096 - start;
	char *area = mmap(NULL, 2 * huge, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	char *copy = (char *)(((uintptr_t)area + huge - 1) & ~(huge - 1));
	int err;

	CHECK(area != MAP_FAILED);
	CHECK(!madvise(copy, huge, MADV_HUGEPAGE));
	memset(copy, 0x90, huge);
	memcpy(copy, (void *)start, length);
	CHECK(!mprotect(copy, huge, PROT_READ | PROT_EXEC));
	/* The head of a huge page moves over the file's pages. */
	CHECK(mremap(copy, length, length, MREMAP_MAYMOVE | MREMAP_FIXED, (void *)start) == (void *)start);
	CHECK_PERMS(far1_bytes, "r-xp");
	err = etch_set(&plain, 77);
	CHECK_EQ(err, 0);
	CHECK_EQ(sum_plain(), 77);
	check_closed();
}

/* ---- faults ------------------------------------------------------------------- */

ALONE void stray_store(int *p);
void stray_store(int *p) { *(volatile int *)p = 1; }

static void case_stray(void) { stray_store(hide(&plain)); }
static void case_stray_field(void) { stray_store((int *)hide(&pair) + 1); }
static void case_stray_memcpy(void)
{
	void *(*volatile copy)(void *, const void *, size_t) = memmove;
	static const char bytes[8];

	copy(hide(&wide), bytes, 8);
}
static void case_null(void) { stray_store(hide(NULL)); }
static void case_read(void) { CHECK(mprotect((void *)((uintptr_t)&plain & ~4095UL), 4096, PROT_NONE) == 0); sum_plain(); }
static void case_raise(void) { raise(SIGSEGV); }
static void case_kill(void)
{
	kill(getpid(), SIGSEGV);
	pause();
}
static void case_ignored(void)
{
	/* Ignored before libetch came (see early): a sent one still is. */
	CHECK(!kill(getpid(), SIGSEGV));
	CHECK(!kill(getpid(), SIGSEGV));
	CHECK_EQ(etch_set(&plain, 9), 0);
}

static sigjmp_buf back;
static volatile int handled, handled_code;
static void *volatile handled_at;
static volatile uintptr_t handled_ip;

static void early_info(int sig, siginfo_t *info, void *context)
{
	(void)sig;
	handled++;
	handled_code = info->si_code;
	handled_at = info->si_addr;
	handled_ip = (uintptr_t)((ucontext_t *)context)->uc_mcontext.gregs[REG_RIP];
	siglongjmp(back, 1);
}

static void early_plain(int sig)
{
	handled += sig == SIGSEGV;
	siglongjmp(back, 1);
}

/* An earlier handler gets the faults that are not ours, each time; of a stray
 * store it gets the true address. */
static void case_handler_info(void)
{
	for (volatile int i = 0; i < 3; i++)
		if (!sigsetjmp(back, 1))
			case_null();
	CHECK_EQ(handled, 3);
	CHECK(handled_at == NULL && handled_code == SEGV_MAPERR);
	if (!sigsetjmp(back, 1))
		case_stray();
	CHECK_EQ(handled, 4);
	CHECK(handled_at == (void *)&plain && handled_code == SEGV_ACCERR);
	CHECK(handled_ip >= (uintptr_t)stray_store && handled_ip < (uintptr_t)stray_store + 16);
	CHECK_EQ(etch_set(&plain, 9), 0);
	CHECK_EQ(sum_plain(), 9);
}

static void case_handler_plain(void)
{
	for (volatile int i = 0; i < 3; i++)
		if (!sigsetjmp(back, 1))
			case_null();
	if (!sigsetjmp(back, 1))
		case_stray();
	CHECK_EQ(handled, 4);
}

/* SA_RESETHAND: once, and then the default. */
static void case_handler_once(void)
{
	struct sigaction now;

	if (!sigsetjmp(back, 1))
		case_null();
	CHECK_EQ(handled, 1);
	CHECK(!sigaction(SIGSEGV, NULL, &now) && now.sa_handler == SIG_DFL);
	case_null();
}

/* Runs before libetch meets the module: the program's earlier disposition. */
static void early(int argc, char **argv, char **envp)
{
	struct sigaction act;

	(void)envp;
	if (argc < 2)
		return;
	memset(&act, 0, sizeof(act));
	if (!strcmp(argv[1], "handler_info")) {
		act.sa_sigaction = early_info;
		act.sa_flags = SA_SIGINFO;
	} else if (!strcmp(argv[1], "handler_plain")) {
		act.sa_handler = early_plain;
		act.sa_flags = SA_NODEFER;
	} else if (!strcmp(argv[1], "handler_once")) {
		act.sa_handler = early_plain;
		act.sa_flags = (int)SA_RESETHAND;
	} else if (!strcmp(argv[1], "ignored")) {
		act.sa_handler = SIG_IGN;
	} else {
		return;
	}
	sigaction(SIGSEGV, &act, NULL);
}
__attribute__((section(".preinit_array"), used)) static void (*early_)(int, char **, char **) = early;

/* ---- what a batch costs in system calls ------------------------------------------ */

static void case_cost(void)
{
	struct user_regs_struct r;
	int status, count[512] = {0}, counting = 0, entry = 0;
	pid_t pid = fork();

	if (!pid) {
		int v = 8;
		long w = 6;
		struct etch_change c[] = {ETCH_CHANGE(&plain, &v), ETCH_CHANGE(&wide, &w)};

		CHECK(!ptrace(PTRACE_TRACEME, 0, 0, 0));
		raise(SIGSTOP);
		syscall(SYS_getppid);
		CHECK_EQ(etch_set_batch(c, 2), 0);
		syscall(SYS_getppid);
		_exit(0);
	}
	CHECK(waitpid(pid, &status, 0) == pid && WIFSTOPPED(status));
	CHECK(!ptrace(PTRACE_SETOPTIONS, pid, 0, PTRACE_O_TRACESYSGOOD));
	for (;;) {
		CHECK(!ptrace(PTRACE_SYSCALL, pid, 0, 0));
		CHECK(waitpid(pid, &status, 0) == pid);
		if (!WIFSTOPPED(status))
			break;
		entry = !entry;
		CHECK(!ptrace(PTRACE_GETREGS, pid, 0, &r));
		if (!entry || r.orig_rax >= 512)
			continue;
		if (r.orig_rax == SYS_getppid)
			counting++;
		else if (counting == 1)
			count[r.orig_rax]++;
	}
	CHECK_EQ(status, 0);
	/* One question and one barrier. Runs of pages: the data of plain and wide
	 * (adjacent), text of the readers (one page or two adjacent ones, with far1
	 * adjacent or not) and far2, which is a page away from far1. */
	CHECK_EQ(count[SYS_membarrier], 2);
	printf("mprotect %d\n", count[SYS_mprotect]);
	CHECK(count[SYS_mprotect] == 6 || count[SYS_mprotect] == 8);
	count[SYS_membarrier] = count[SYS_mprotect] = 0;
	for (int i = 0; i < 512; i++)
		CHECK_EQ(count[i], 0);
}

#define CASE(name) {#name, case_##name}
static const struct { const char *name; void (*run)(void); } cases[] = {
	CASE(basic), CASE(facts), CASE(errors), CASE(wide), CASE(overlap), CASE(busy), CASE(code), CASE(stale),
	CASE(mdwe), CASE(mdwe_start), CASE(membarrier), CASE(membarrier_late), CASE(membarrier_start),
	CASE(mprotect_eperm), CASE(mprotect_eacces), CASE(mprotect_einval), CASE(mprotect_enomem),
	CASE(mprotect_second), CASE(mprotect_text), CASE(mprotect_start), CASE(same), CASE(blocked), CASE(fork),
	CASE(fork_set), CASE(huge), CASE(gdb), CASE(unarmed), CASE(cost),
	CASE(stray), CASE(stray_field), CASE(stray_memcpy), CASE(null), CASE(read), CASE(raise), CASE(kill),
	CASE(ignored), CASE(handler_info), CASE(handler_plain), CASE(handler_once),
};

int main(int argc, char **argv)
{
	for (unsigned i = 0; argc == 2 && i < sizeof(cases) / sizeof(cases[0]); i++)
		if (!strcmp(argv[1], cases[i].name)) {
			cases[i].run();
			puts("done");
			return 0;
		}
	fprintf(stderr, "usage: edge CASE\n");
	return 2;
}
