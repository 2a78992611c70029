/* SPDX-License-Identifier: MIT */
/*
 * edge: page swaps beside what only a privileged process of a suitable kernel can have: uprobes, a kernel whose
 * allocations fail (CONFIG_FAULT_INJECTION, CONFIG_FAILSLAB, CONFIG_FAIL_PAGE_ALLOC), a memory cgroup that is full, strict
 * overcommit. Where the system has it not, a case says so and ends with status 77. scripts/vm has machines that have.
 */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdarg.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include "edge.h"

#define TRACING "/sys/kernel/tracing/"
#define DEBUG "/sys/kernel/debug/"
#define CGROUP "/sys/fs/cgroup/etch"

static void skip(const char *what)
{
	printf("no %s here\n", what);
	exit(77);
}

/* 0 if all could be written. */
__attribute__((format(printf, 3, 4))) static int put(const char *path, int flags, const char *format, ...)
{
	char text[4400];
	va_list args;
	int n, fd = open(path, O_WRONLY | O_CLOEXEC | flags);
	ssize_t done;

	if (fd < 0)
		return -1;
	va_start(args, format);
	n = vsnprintf(text, sizeof(text), format, args);
	va_end(args);
	done = write(fd, text, (size_t)n);
	close(fd);
	return done == n ? 0 : -1;
}

/* ---- uprobes ------------------------------------------------------------------------- */

/* The offset in the file of an address of this program. */
static unsigned long file_offset(const volatile void *p)
{
	char line[4400];
	unsigned long from, to, offset, found = 0;
	FILE *f = fopen("/proc/self/maps", "r");

	CHECK(f);
	while (fgets(line, sizeof(line), f))
		if (sscanf(line, "%lx-%lx %*s %lx", &from, &to, &offset) == 3 && (unsigned long)p >= from && (unsigned long)p < to)
			found = offset + ((unsigned long)p - from);
	fclose(f);
	return found;
}

static unsigned long probe_hits(void)
{
	char line[4400];
	unsigned long hits = 0;
	FILE *f = fopen(TRACING "uprobe_profile", "r");

	CHECK(f);
	while (fgets(line, sizeof(line), f))
		if (strstr(line, " etch_edge "))
			CHECK(sscanf(strstr(line, " etch_edge "), " etch_edge %lu", &hits) == 1);
	fclose(f);
	return hits;
}

static void probe(int on)
{
	CHECK(!put(TRACING "events/uprobes/etch_edge/enable", 0, "%d", on));
}

/* A probe on a page that is swapped stays there, and is hit; once it has gone, the page is as before. */
static void case_uprobe(void)
{
	pthread_t t = moved_start();
	char path[4096];
	ssize_t n = readlink("/proc/self/exe", path, sizeof(path) - 1);
	int v = 7;

	CHECK(n > 0);
	path[n] = 0;
	if (put(TRACING "uprobe_events", O_APPEND, "p:etch_edge %s:0x%lx\n", path,
	        file_offset((const volatile void *)(uintptr_t)moved_spin)))
		skip("uprobe");
	for (unsigned long round = 1; round <= 3; round++) {
		probe(1);
		CHECK_EQ(etch_set(&moved, ++v), 0);
		moved_check(v);
		moved_spin();
		CHECK_EQ(probe_hits(), round);
		probe(0);
		moved_check(v);
		for (int i = 0; i < 5; i++)
			CHECK_EQ(etch_set(&moved, ++v), 0);
		moved_check(v);
		moved_spin();
		CHECK_EQ(probe_hits(), round);
	}
	moved_end(t);
	CHECK(!put(TRACING "uprobe_events", O_APPEND, "-:etch_edge\n"));
}

/* ---- allocations of the kernel that fail ------------------------------------------------- */

static int nth = -1; /* this thread's fail-nth: opening it allocates */

/* The n-th allocation of this thread fails. 0: that is to be had. */
static int fail_nth(unsigned n)
{
	char text[16];
	int len = snprintf(text, sizeof(text), "%u", n);

	if (nth < 0)
		nth = open("/proc/thread-self/fail-nth", O_RDWR | O_CLOEXEC);
	return pwrite(nth, text, (size_t)len, 0) == len ? 0 : -1;
}

/* Has it failed? Ends the injection. */
static int failed(void)
{
	char text[32] = "";

	CHECK(pread(nth, text, sizeof(text) - 1, 0) > 0);
	CHECK(!fail_nth(0));
	return atoi(text) == 0;
}

/* All kinds of allocation may fail, not only those that the kernel need not wait for. */
static void injection_open(void)
{
	if (put(DEBUG "failslab/ignore-gfp-wait", 0, "N") || put(DEBUG "fail_page_alloc/ignore-gfp-wait", 0, "N") ||
	    put(DEBUG "fail_page_alloc/ignore-gfp-highmem", 0, "N") || put(DEBUG "fail_page_alloc/min-order", 0, "0") ||
	    fail_nth(0))
		skip("fault injection");
	put(DEBUG "failslab/verbose", 0, "0");
	put(DEBUG "fail_page_alloc/verbose", 0, "0");
}

static int is_mapped(void *p) { return !msync(p, 4096, MS_ASYNC); }

/* What mremap(2) itself leaves when its n-th allocation fails: a page of text moved over another, in a mapping of many
 * pages whose page tables are there, and in a neighbourhood that has none. Prints a line for each n. */
static void case_mremap_failnth(void)
{
	unsigned holes = 0, n;
	int fd = open("/proc/self/exe", O_RDONLY | O_CLOEXEC);
	size_t big = 16ul << 20;

	injection_open();
	for (int fresh = 0; fresh < 2; fresh++)
		for (n = 1;; n++) {
			char *base = mmap(NULL, big, PROT_READ | PROT_EXEC, MAP_PRIVATE, fd, 0), *to = base + (fresh ? big / 2 : 4096);
			char *copy = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_POPULATE, fd, 4096), *got;
			int hit, error;

			CHECK(base != MAP_FAILED && copy != MAP_FAILED && !mprotect(copy, 4096, PROT_READ | PROT_EXEC));
			if (!fresh)
				(void)*(volatile char *)base;
			CHECK(!fail_nth(n));
			got = mremap(copy, 4096, 4096, MREMAP_MAYMOVE | MREMAP_FIXED, to);
			error = errno;
			hit = failed();
			if (hit && got == MAP_FAILED) {
				int hole = !is_mapped(to);

				printf("mremap, allocation %u fails%s: %s, %s\n", n, fresh ? " (no page tables)" : "", strerror(error),
				       hole ? "target unmapped" : "nothing changed");
				CHECK(error == ENOMEM && is_mapped(copy));
				holes += (unsigned)hole;
				CHECK(mremap(copy, 4096, 4096, MREMAP_MAYMOVE | MREMAP_FIXED, to) == to);
			} else {
				CHECK(got == to);
			}
			CHECK(!munmap(base, big));
			if (!hit)
				break;
		}
	CHECK(n > 1);
	printf("holes %u\n", holes);
}

/* The n-th allocation of a set fails, for every n, while a thread executes the sites: it is done or refused, whole. */
static void case_swap_failnth(void)
{
	pthread_t t = moved_start();
	unsigned n, hits = 0, refused = 0;

	injection_open();
	moved_taken_back = 1; /* the second or third run may fail */
	for (n = 1;; n++) {
		int v = *(volatile int *)&moved, err, hit;

		CHECK(!fail_nth(n));
		err = etch_set(&moved, v + 1);
		hit = failed();
		if (err)
			printf("a set, allocation %u fails: %s\n", n, etch_strerror(err));
		CHECK(!err || (hit && (err == ETCH_ENOMEM || err == ETCH_EPERM)));
		hits += (unsigned)hit;
		refused += err != 0;
		moved_check(v + !err);
		if (!hit)
			break;
	}
	CHECK(hits > 10);
	printf("allocations %u refused %u\n", hits, refused);
	moved_end(t);
}

/* Each allocation of this thread may fail. */
static void case_swap_failing(void)
{
	static const char *const attributes[][2] = {
		{DEBUG "failslab/task-filter", "Y"},    {DEBUG "failslab/times", "-1"},    {DEBUG "failslab/probability", "1"},
		{DEBUG "fail_page_alloc/task-filter", "Y"}, {DEBUG "fail_page_alloc/times", "-1"},
		{DEBUG "fail_page_alloc/probability", "1"},
	};
	pthread_t t = moved_start();
	unsigned refused = 0, sets = 0;

	injection_open();
	moved_taken_back = 1;
	for (unsigned i = 0; i < sizeof(attributes) / sizeof(attributes[0]); i++)
		CHECK(!put(attributes[i][0], 0, "%s", attributes[i][1]));
	CHECK(!put("/proc/thread-self/make-it-fail", 0, "1"));
	while (sets < 100) {
		int v = *(volatile int *)&moved, err = etch_set(&moved, v + 1);

		CHECK(!err || err == ETCH_ENOMEM || err == ETCH_EPERM);
		refused += err != 0;
		sets += !err;
		CHECK_EQ(moved_sum(), v + !err);
	}
	put("/proc/thread-self/make-it-fail", 0, "0");
	moved_check(*(volatile int *)&moved);
	printf("sets %u refused %u\n", sets, refused);
	CHECK(refused > 10);
	moved_end(t);
}

/* ---- memory that is accounted ------------------------------------------------------------- */

/* In a child: sets until memory is used up to the last page, and on. */
static void cgroup_child(void)
{
	pthread_t t = moved_start();
	size_t size = 64ul << 20;
	char *p = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	CHECK(p != MAP_FAILED);
	for (size_t at = 0; at < size; at += 4096) {
		int v = *(volatile int *)&moved, err;

		p[at] = 1;
		if (at % (at < (2ul << 20) ? 65536 : 16384))
			continue;
		err = etch_set(&moved, v + 1);
		CHECK(!err || err == ETCH_ENOMEM || err == ETCH_EPERM);
		CHECK_EQ(moved_sum(), v + !err);
	}
	moved_end(t);
}

/* A group that is full: the kernel ends a process of the group; none is left that runs into a hole. */
static void case_swap_memcg(void)
{
	int status;
	pid_t pid;

	if (put("/sys/fs/cgroup/cgroup.subtree_control", 0, "+memory") || (mkdir(CGROUP, 0755) && errno != EEXIST) ||
	    put(CGROUP "/memory.max", 0, "%u", 4u << 20))
		skip("memory cgroup");
	pid = fork();
	if (!pid) {
		CHECK(!put(CGROUP "/cgroup.procs", 0, "%d", getpid()));
		cgroup_child();
		exit(0);
	}
	CHECK(pid > 0 && waitpid(pid, &status, 0) == pid);
	printf("in a group that is full: %s %d\n", WIFSIGNALED(status) ? "ended by signal" : "ended with", WIFSIGNALED(status) ?
	       WTERMSIG(status) : WEXITSTATUS(status));
	CHECK(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
	moved_check(7);
}

/* Strict overcommit, and all that may be committed is, but a few pages: mremap(2) charges what it moves a second time. */
static void case_swap_overcommit(void)
{
	pthread_t t = moved_start();
	unsigned refused = 0, sets = 0;
	size_t size = 8ul << 20, step = 32 * 4096; /* the kernel's count is exact to some 100 KiB */
	char *few = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (put("/proc/sys/vm/overcommit_memory", 0, "2"))
		skip("overcommit");
	put("/proc/sys/vm/admin_reserve_kbytes", 0, "0"), put("/proc/sys/vm/user_reserve_kbytes", 0, "0");
	for (size_t take = 1ul << 40; take >= 4096; take /= 2)
		while (mmap(NULL, take, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0) != MAP_FAILED)
			;
	for (size_t at = 0; at < size; at += step) {
		int v = *(volatile int *)&moved, err = etch_set(&moved, v + 1);

		CHECK(!err || err == ETCH_ENOMEM);
		refused += err != 0;
		sets += !err;
		CHECK_EQ(moved_sum(), v + !err);
		CHECK(!munmap(few + at, step));
	}
	put("/proc/sys/vm/overcommit_memory", 0, "0");
	CHECK_EQ(etch_set(&moved, *(volatile int *)&moved + 1), 0);
	moved_check(*(volatile int *)&moved);
	printf("sets %u refused %u\n", sets, refused);
	CHECK(refused > 0 && sets > 0);
	moved_end(t);
}

static void case_swap_spin(void)
{
	for (int v = 8; v < 20; v++)
		CHECK_EQ(etch_set(&moved, v), 0);
	for (int i = 0; i < 10; i++)
		moved_spin();
	moved_check(19);
}

const struct edge_case edge_system[] = {
	CASE(uprobe), CASE(mremap_failnth), CASE(swap_failnth), CASE(swap_failing), CASE(swap_memcg), CASE(swap_overcommit),
	CASE(swap_spin), {0},
};
