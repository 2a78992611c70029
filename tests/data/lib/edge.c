/* SPDX-License-Identifier: MIT */
/*
 * edge.c: libetch at its edges, with tables written by hand: `edge CASE` runs one
 * case and exits 0, or says what is not so. test_lib_edge.py has the list. Here: the
 * objects, and what becomes of sets where nothing is in the way but the bytes.
 */
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/user.h>
#include <sys/wait.h>

#include "edge.h"

/* ---- the objects ----------------------------------------------------------- */

/* plain: two sites, live by a store; another that crosses an 8-byte word. */
ETCHED __attribute__((used)) int plain = 7;
OBJECT_RECORD("plain", 4, 0);
READER32(read_plain, "plain", 0)
READER32(read_plain2, "plain", 2)
READER32(read_across, "plain", 4)

/* wide: 64 bits, which an immediate carries in part only. */
ETCHED __attribute__((used)) long wide = 5;
OBJECT_RECORD("wide", 8, 0);
READER64(read_wide, "wide")

/* pair: two fields, and a load that takes both. */
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
        "771:\tmovl plain(%rip), %eax" SITE_ENTRY("plain", 3, 0, SHAPE6,
                                                  0) "ret\n\t"
                                                     ".balign 4096\n\t.skip 66 * 4096, 0x90\n\t.globl far2\nfar2:\n"
                                                     "771:\tmovl plain(%rip), %eax" SITE_ENTRY("plain", 3, 0, SHAPE6,
                                                                                               0) "ret\n\t"
                                                                                                  ".balign 4096");
extern int far1(void), far2(void);

int plain_read(void) { return read_plain(); }
int stored_read(void) { return read_stored(); }

int sum_plain(void)
{
	int v = read_plain();

	CHECK_EQ(read_plain2(), v);
	CHECK_EQ(read_across(), v);
	CHECK_EQ(far1(), v);
	CHECK_EQ(far2(), v);
	CHECK_EQ(*(volatile int *)&plain, v);
	return v;
}

void check_closed(void)
{
	CHECK_PERMS(read_plain_site, "r-xp");
	CHECK_PERMS(far1_bytes, "r-xp");
	CHECK_PERMS(far2_bytes, "r-xp");
	CHECK_PERMS(&plain, "r--p");
	CHECK_PERMS(&wide, "r--p");
	CHECK_PERMS(&pair, "r--p");
}

static void case_basic(void)
{
	struct etch_info i = info_now();

	CHECK_EQ(i.modules, 1);
	CHECK_EQ(i.sites, 17);
	CHECK_EQ(i.fixed, 0);
	CHECK_EQ(i.by_swap, 6);
	CHECK_EQ(i.armed, 14); /* pair holds more than 32 bits */
	CHECK_EQ(i.loads, 3);
	CHECK_EQ(i.objects, 7);
	CHECK_EQ(i.armed_objects, 5);
	CHECK_EQ(i.patched_at_start, 14);
	CHECK_EQ(i.readonly_pages, 4);
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
	CHECK_EQ(info_now().armed, 14);
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
	static const char *const said[] = {"no error",   "null pointer", "no etched object", "breakpoint", "bytes",
	                                   "protection", "membarrier",   "memory",           "malformed"};
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
	static const long values[] = {0,
	                              1,
	                              -1,
	                              0x7fffffff,
	                              -0x7fffffffL - 1,
	                              0x80000000,
	                              0xffffffff,
	                              0x100000000,
	                              0x7fffffffffffffff,
	                              -0x7fffffffffffffff - 1,
	                              -0x80000001L,
	                              42};

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

/* Memory changed after etch's back: verify finds all five sites, a set refuses,
 * a sync makes them agree. */
static void case_stale(void)
{
	int v = 99, count = 0;

	poke(&plain, &v, 4);
	CHECK_EQ(read_plain(), 7);
	CHECK_EQ(etch_verify(report, &count), 5);
	CHECK_EQ(count, 5);
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
	/* One question and one barrier. Runs of pages: the data of plain and wide (adjacent), text of the readers with far1,
	 * which is not far away, and far2, which is more than 32 pages away from far1. */
	CHECK_EQ(count[SYS_membarrier], 2);
	printf("mprotect %d\n", count[SYS_mprotect]);
	CHECK_EQ(count[SYS_mprotect], 6);
	/* One site crosses a word, and pages of data are read-only: the process is asked whether it has one thread. */
	CHECK_EQ(count[SYS_stat], 2);
	CHECK_EQ(count[SYS_getpid], 2);
	/* The lock, and the signals that are blocked while it is held. */
	CHECK_EQ(count[SYS_gettid], 1);
	CHECK_EQ(count[SYS_rt_sigprocmask], 2);
	count[SYS_membarrier] = count[SYS_mprotect] = count[SYS_stat] = count[SYS_rt_sigprocmask] = 0;
	count[SYS_gettid] = count[SYS_getpid] = 0;
	for (int i = 0; i < 512; i++)
		CHECK_EQ(count[i], 0);
}

static const struct edge_case basic[] = {
	CASE(basic), CASE(facts), CASE(errors), CASE(wide), CASE(overlap), CASE(busy),
	CASE(gdb),   CASE(code),  CASE(stale),  CASE(huge), CASE(cost),    {0},
};

int main(int argc, char **argv)
{
	static const struct edge_case *const lists[] = {basic,       edge_limits, edge_threads,
	                                                edge_faults, edge_swap,   edge_system};

	for (unsigned i = 0; argc == 2 && i < sizeof(lists) / sizeof(lists[0]); i++)
		for (const struct edge_case *c = lists[i]; c->name; c++)
			if (!strcmp(argv[1], c->name)) {
				c->run();
				puts("done");
				return 0;
			}
	fprintf(stderr, "usage: edge CASE\n");
	return 2;
}
