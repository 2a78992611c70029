/* SPDX-License-Identifier: MIT */
/*
 * edge: sites that cross 8-byte words, cache lines and pages, set while another thread executes
 * them: whole pages of text are replaced, or nothing changes.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <sys/ptrace.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/user.h>
#include <sys/wait.h>

#include "edge.h"
#include "../threads.h"

/* The functions of this object's sites are on pages of their own, in three runs: near (4 sites: across
 * a word, a line, two pages, and one that is not), and six pages on, and six more, one each. */
ETCHED int moved = 7;
OBJECT_RECORD("moved", 4, 0);
#define MOVED(name, skip)                                      \
	".fill " #skip ", 1, 0x90\n\t.globl " name "\n" name ":\n" \
	"771:\tmovl moved(%rip), %eax" SITE_ENTRY("moved", 3, 0, SHAPE6, 0) "ret\n\t"
__asm__(
	".text\n\t.balign 4096\n\t.globl moved_page\nmoved_page:\n\t"
	".byte 0xb8\n\t.long 0xcccccccc\n\tret\n\t.balign 64\n\t" /* mov $0xcccccccc, %eax */
	".globl moved_spin\n\t.type moved_spin, @function\n"
	"moved_spin:\n\tmov $50000000, %ecx\n1:\tdec %ecx\n\tjnz 1b\n\tret\n\t.size moved_spin, . - moved_spin\n\t"
	".balign 64\n\t" MOVED("moved_word", 5) ".balign 64\n\t" MOVED("moved_line", 61) ".balign 64\n\t" MOVED(
		"moved_store", 0) ".balign 4096\n\t.skip 4093, 0x90\n\t" MOVED("moved_pages",
                                                                       0) ".balign 4096\n\t.skip 4096 * 6, "
                                                                          "0x90\n\t" MOVED("moved_far",
                                                                                           3) ".balign 4096\n\t.skip "
                                                                                              "4096 * 6, "
                                                                                              "0x90\n\t" MOVED("moved_"
                                                                                                               "farthe"
                                                                                                               "r",
                                                                                                               7) ".bal"
                                                                                                                  "ign "
                                                                                                                  "409"
                                                                                                                  "6");
extern const volatile uint8_t moved_word[], moved_line[], moved_store[], moved_pages[], moved_far[], moved_farther[];

static int read_at(const volatile uint8_t *code) { return ((int (*)(void))(uintptr_t)hide(code))(); }

int moved_sum(void)
{
	int v = read_at(moved_word);

	CHECK_EQ(read_at(moved_line), v);
	CHECK_EQ(read_at(moved_store), v);
	CHECK_EQ(read_at(moved_pages), v);
	CHECK_EQ(read_at(moved_far), v);
	CHECK_EQ(read_at(moved_farther), v);
	CHECK_EQ(*(volatile int *)&moved, v);
	CHECK_EQ(read_at(moved_page), (int)0xcccccccc);
	return v;
}

static atomic_int stop, wrong;
atomic_int moved_taken_back;

/* Reads all sites. What it sees was set, and it never goes back. */
static void *reader(void *arg)
{
	const volatile uint8_t *const at[] = {moved_word, moved_line, moved_store, moved_pages, moved_far, moved_farther};
	int seen[6] = {0};

	(void)arg;
	thread_begun();
	do
		for (unsigned i = 0; i < 6; i++) {
			int v = read_at(at[i]);

			if ((v < seen[i] && !moved_taken_back) || v > 1000000)
				wrong = 1;
			seen[i] = v;
		}
	while (!stop);
	return NULL;
}

pthread_t moved_start(void)
{
	pthread_t t;

	CHECK(!pthread_create(&t, NULL, reader, NULL));
	threads_wait(1);
	return t;
}

void moved_end(pthread_t t)
{
	stop = 1;
	CHECK(!pthread_join(t, NULL));
	CHECK(!wrong);
}

/* The line of /proc/self/maps of an address. */
static const char *map_line(const volatile void *p)
{
	static char line[4400];
	unsigned long from, to;
	FILE *f = fopen("/proc/self/maps", "r");

	CHECK(f);
	while (fgets(line, sizeof(line), f))
		if (sscanf(line, "%lx-%lx", &from, &to) == 2 && (unsigned long)p >= from && (unsigned long)p < to)
			break;
	fclose(f);
	return line;
}

static unsigned maps_count(void)
{
	char line[4400];
	unsigned n = 0;
	FILE *f = fopen("/proc/self/maps", "r");

	CHECK(f);
	while (fgets(line, sizeof(line), f))
		n++;
	fclose(f);
	return n;
}

/* The page is still the file's, at the same offset from its start in memory, and r-x. */
static void check_mapped(const volatile uint8_t *at)
{
	unsigned long from, offset;
	char perms[8], before[4400];

	strcpy(before, map_line(moved_page));
	CHECK(sscanf(before, "%lx-%*x %7s %lx", &from, perms, &offset) == 3);
	offset += ((unsigned long)at & ~4095ul) - from;
	CHECK(sscanf(map_line(at), "%lx-%*x %7s", &from, perms) == 2);
	CHECK(!strcmp(perms, "r-xp"));
	CHECK(strstr(map_line(at), "/edge"));
	CHECK(sscanf(map_line(at), "%lx-%*x %*s %lx", &from, &offset) == 2);
	(void)before;
}

void moved_check(int v)
{
	CHECK_EQ(moved_sum(), v);
	CHECK_EQ(etch_verify(NULL, NULL), 0);
	check_mapped(moved_word);
	check_mapped(moved_pages);
	check_mapped(moved_far);
	check_mapped(moved_farther);
	CHECK_PERMS(&moved, "r--p");
}

static void refused(int error)
{
	int v = moved_sum();
	unsigned maps = maps_count();

	CHECK_EQ(etch_set(&moved, v + 1), error);
	moved_check(v);
	CHECK_EQ(maps_count(), maps);
}

static void case_swap(void)
{
	pthread_t t = moved_start();
	unsigned maps;

	CHECK_EQ(info_now().by_swap, 6);
	moved_check(7);
	CHECK_EQ(etch_set(&moved, 8), 0);
	moved_check(8);
	maps = maps_count();
	for (int v = 9; v < 1000; v++) {
		CHECK_EQ(etch_set(&moved, v), 0);
		CHECK_EQ(moved_sum(), v);
	}
	moved_check(999);
	CHECK(maps_count() <= maps);
	CHECK_EQ(etch_release(&moved, sizeof(moved)), 0);
	CHECK_EQ(moved_word[0], 0x8b);
	*(volatile int *)&moved = 2000;
	CHECK_EQ(moved_sum(), 2000);
	CHECK_EQ(etch_sync(&moved, sizeof(moved)), 0);
	moved_check(2000);
	CHECK(moved_word[0] != 0x8b && moved_pages[0] != 0x8b);
	CHECK_EQ(etch_set(&moved, 0xcccc), 0); /* an immediate that looks like breakpoints */
	CHECK_EQ(etch_set(&moved, 0xcccd), 0);
	moved_check(0xcccd);
	moved_end(t);
}

/* A breakpoint somewhere on a page that is swapped stays there; one at a site refuses sets, as long as it is there. */
static void case_swap_busy(void)
{
	pthread_t t = moved_start();
	const volatile uint8_t *const at[] = {moved_page, moved_page + 60, moved_pages, moved_farther, moved_farther + 100};
	uint8_t cc = 0xcc, old;

	CHECK_EQ(etch_set(&moved, 8), 0);
	for (unsigned i = 0; i < sizeof(at) / sizeof(at[0]); i++) {
		int v = *(volatile int *)&moved, is_site = at[i] == moved_pages || at[i] == moved_farther;

		if (is_site) {
			/* nobody may execute it */
			moved_end(t);
			stop = 0;
			t = 0;
		}
		old = *at[i];
		poke(at[i], &cc, 1);
		if (!is_site) {
			CHECK_EQ(etch_release(&moved, sizeof(moved)), 0);
			CHECK_EQ(*at[i], 0xcc);
			CHECK_EQ(etch_sync(&moved, sizeof(moved)), 0);
			CHECK(moved_word[0] != 0x8b && moved_farther[0] != 0x8b);
		}
		CHECK_EQ(etch_set(&moved, v + 1), is_site ? ETCH_EBUSY : 0);
		CHECK_EQ(*at[i], 0xcc);
		v += !is_site;
		CHECK_EQ(*(volatile int *)&moved, v);
		poke(at[i], &old, 1);
		moved_check(v);
		if (!t)
			t = moved_start();
		CHECK_EQ(etch_set(&moved, v + 1), 0);
		moved_check(v + 1);
	}
	moved_end(t);
}

/* A breakpoint at a site that is a load: that stays one, and all others follow. */
static void case_swap_busy_load(void)
{
	pthread_t t;
	const volatile uint8_t *const at[] = {moved_word, moved_store, moved_pages};
	uint8_t cc = 0xcc, old;

	CHECK_EQ(etch_release(&moved, sizeof(moved)), 0);
	for (unsigned i = 0; i < sizeof(at) / sizeof(at[0]); i++) {
		int v = *(volatile int *)&moved;

		old = *at[i];
		CHECK_EQ(old, 0x8b);
		poke(at[i], &cc, 1);
		CHECK_EQ(etch_sync(&moved, sizeof(moved)), 0);
		CHECK_EQ(etch_set(&moved, v + 1), 0);
		CHECK_EQ(read_at(moved_line), v + 1);
		CHECK(moved_line[0] != 0x8b && moved_far[0] != 0x8b);
		CHECK_EQ(*at[i], 0xcc);
		CHECK_EQ(etch_verify(NULL, NULL), 0);
		poke(at[i], &old, 1); /* the debugger goes */
		t = moved_start();
		stop = 0;
		moved_check(v + 1);
		CHECK_EQ(etch_set(&moved, v + 2), 0);
		CHECK(*at[i] != 0x8b);
		moved_check(v + 2);
		moved_end(t);
		stop = 0;
		CHECK_EQ(etch_release(&moved, sizeof(moved)), 0);
	}
}

/* Under gdb, which has a breakpoint on moved_page, and takes it away between the last comparison and the swap. */
static void case_swap_gdb(void)
{
	pthread_t t = moved_start();

	CHECK_EQ(etch_set(&moved, 8), 0);
	moved_check(8);
	moved_end(t);
}

static void refuse(int nr, int error, unsigned arg, uint32_t mask, uint32_t value, int want)
{
	pthread_t t = moved_start();
	int i;

	moved_taken_back = 1; /* a page that was moved before another was refused may have been read */
	CHECK_EQ(etch_set(&moved, 8), 0);
	moved_check(8);
	deny(nr, error, arg, mask, value);
	for (i = 0; i < 3; i++)
		refused(want);
	CHECK_EQ(etch_release(&moved, sizeof(moved)), want);
	moved_check(8);
	moved_end(t);
}

static void case_swap_mremap(void) { refuse(SYS_mremap, EPERM, 0, 0, 0, ETCH_EPERM); }
static void case_swap_enomem(void) { refuse(SYS_mremap, ENOMEM, 0, 0, 0, ETCH_ENOMEM); }
static void case_swap_mmap(void) { refuse(SYS_mmap, ENOMEM, 3, MAP_POPULATE, MAP_POPULATE, ETCH_ENOMEM); }
static void case_swap_mprotect(void) { refuse(SYS_mprotect, EACCES, 2, PROT_EXEC, PROT_EXEC, ETCH_EPERM); }

/* The barrier fails after the swap: other threads may have seen the value that was taken back. */
static void case_swap_membarrier(void) { refuse(SYS_membarrier, EPERM, 0, 1 << 5, 1 << 5, ETCH_ENOSYNC); }

/* The second and third run cannot be moved: the first is put back. */
static void case_swap_second(void)
{
	refuse(SYS_mremap, EPERM, 4, 0xffffffff, (uint32_t)(uintptr_t)moved_far & ~4095u, ETCH_EPERM);
}

static void case_swap_third(void)
{
	refuse(SYS_mremap, ENOMEM, 4, 0xffffffff, (uint32_t)(uintptr_t)moved_farther & ~4095u, ETCH_ENOMEM);
}

/* What was a load may stay one: the object is armed where it can be. */
static void case_swap_partly(void)
{
	pthread_t t = moved_start();

	CHECK_EQ(etch_release(&moved, sizeof(moved)), 0);
	deny(SYS_mremap, EPERM, 0, 0, 0);
	CHECK_EQ(etch_sync(&moved, sizeof(moved)), 0);
	moved_check(7);
	CHECK_EQ(moved_word[0], 0x8b);
	CHECK(moved_store[0] != 0x8b);
	/* The page of its memory cannot be replaced: it becomes loads for a moment. */
	for (int v = 8; v < 20; v++) {
		CHECK_EQ(etch_set(&moved, v), 0);
		moved_check(v);
		CHECK(moved_store[0] != 0x8b);
	}
	CHECK_EQ(moved_pages[0], 0x8b);
	moved_end(t);
}

/* All mappings but `n` are taken. Returns when the limit is near: adjacent pages of different
 * protection are mappings of their own. */
static void mappings_take(unsigned leave)
{
	FILE *f = fopen("/proc/sys/vm/max_map_count", "r");
	unsigned most = 0, have = maps_count(), n;
	char *p;

	CHECK(f && fscanf(f, "%u", &most) == 1 && most < 1000000);
	fclose(f);
	n = most - have - leave;
	p = mmap(NULL, (size_t)n * 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	CHECK(p != MAP_FAILED);
	for (unsigned i = 0; i + 1 < n; i += 2)
		if (mprotect(p + (size_t)i * 4096, 4096, PROT_READ))
			break;
}

/* With any number of mappings left, a set is done or refused, whole. */
static void case_swap_limit(void)
{
	pthread_t t = moved_start();
	unsigned refusals = 0, sets = 0;

	mappings_take(0);
	for (int i = 0; i < 40; i++) {
		int v = *(volatile int *)&moved, err = etch_set(&moved, v + 1);

		CHECK(!err || err == ETCH_ENOMEM);
		refusals += err != 0;
		sets += err == 0;
		CHECK_EQ(moved_sum(), v + !err);
		/* Frees one mapping, or two. */
		CHECK(!munmap(mmap(NULL, 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0), 4096) || err);
	}
	CHECK(refusals > 0 || sets > 0);
	CHECK_EQ(etch_verify(NULL, NULL), 0);
	moved_end(t);
}

/* The locked memory of the process, in KiB. */
static unsigned long locked(void)
{
	char line[256];
	unsigned long n = 0;
	FILE *f = fopen("/proc/self/status", "r");

	CHECK(f);
	while (fgets(line, sizeof(line), f))
		sscanf(line, "VmLck: %lu", &n);
	fclose(f);
	return n;
}

static void case_swap_mlock(void)
{
	pthread_t t = moved_start();
	void *page = (void *)((uintptr_t)moved_word & ~(uintptr_t)4095);

	CHECK_EQ(etch_set(&moved, 8), 0);
	CHECK_EQ(locked(), 0);
	CHECK(!mlock(page, 4096));
	CHECK_EQ(locked(), 4);
	for (int v = 9; v < 20; v++)
		CHECK_EQ(etch_set(&moved, v), 0);
	moved_check(19);
	CHECK(locked() >= 4); /* the run, of which a part was locked */
	CHECK_EQ(munlock(page, 4096 * 3), 0);
	moved_end(t);
}

/* ---- a failure after the unmapping, made by a tracer --------------------------------- */

/* In the tracer: every fourth mremap of the child becomes a munmap of its target and fails. */
static void hole_trace(pid_t pid)
{
	struct user_regs_struct r, was = {0};
	pid_t who, spoiled = 0;
	int status, calls = 0, entry[2] = {0};
	unsigned holes = 0;

	CHECK(waitpid(pid, &status, 0) == pid && WIFSTOPPED(status));
	CHECK(!ptrace(PTRACE_SETOPTIONS, pid, 0, PTRACE_O_TRACESYSGOOD));
	CHECK(!ptrace(PTRACE_SYSCALL, pid, 0, 0));
	while ((who = waitpid(pid, &status, __WALL)) > 0) {
		int sig = 0;

		if (WIFEXITED(status) || WIFSIGNALED(status))
			break;
		if (WSTOPSIG(status) == (SIGTRAP | 0x80)) {
			CHECK(!ptrace(PTRACE_GETREGS, who, 0, &r));
			entry[0] = !entry[0];
			if (entry[0] && r.orig_rax == SYS_mremap && ++calls % 4 == 1) {
				was = r;
				r.orig_rax = SYS_munmap;
				r.rdi = was.r8;
				CHECK(!ptrace(PTRACE_SETREGS, who, 0, &r));
				spoiled = who;
			} else if (!entry[0] && spoiled == who) {
				CHECK_EQ(r.rax, 0);
				r = was;
				r.rax = (unsigned long)-ENOMEM;
				CHECK(!ptrace(PTRACE_SETREGS, who, 0, &r));
				spoiled = 0;
				holes++;
				usleep(2000); /* the readers run into it */
			}
		} else {
			sig = WSTOPSIG(status);
		}
		CHECK(!ptrace(PTRACE_SYSCALL, who, 0, (void *)(uintptr_t)sig));
	}
	CHECK(WIFEXITED(status));
	CHECK_EQ(WEXITSTATUS(status), 0);
	CHECK(holes > 20);
}

static void case_swap_hole(void)
{
	pid_t pid = fork();

	if (!pid) {
		pthread_t t = moved_start();

		CHECK(!ptrace(PTRACE_TRACEME, 0, 0, 0));
		raise(SIGSTOP);
		for (int v = 8; v < 100; v++) {
			CHECK_EQ(etch_set(&moved, v), 0);
			CHECK_EQ(moved_sum(), v);
		}
		moved_check(99);
		moved_end(t);
		exit(0);
	}
	hole_trace(pid);
}

/* ---- fork ---------------------------------------------------------------------------- */

static void *setter(void *arg)
{
	int v = 8;

	(void)arg;
	thread_begun();
	do
		if (etch_set(&moved, v) || read_at(moved_pages) != v)
			wrong = 1;
	while (v++, !stop);
	return NULL;
}

static void case_swap_fork(void)
{
	pthread_t t, s;
	int status;

	t = moved_start();
	CHECK(!pthread_create(&s, NULL, setter, NULL));
	threads_wait(1);
	for (int i = 0; i < 200; i++) {
		pid_t pid = fork();

		if (!pid) {
			int v = moved_sum();

			CHECK_EQ(etch_verify(NULL, NULL), 0);
			CHECK_EQ(etch_set(&moved, v + 1), 0);
			moved_check(v + 1);
			_exit(0);
		}
		CHECK(pid > 0 && waitpid(pid, &status, 0) == pid);
		CHECK_EQ(status, 0);
	}
	moved_end(t);
	CHECK(!pthread_join(s, NULL));
	CHECK_EQ(etch_verify(NULL, NULL), 0);
}

/* Its other threads have ended: where a swap is refused, stores do. */
static void case_swap_ended(void)
{
	uint8_t cc = 0xcc, old = moved_page[60];

	moved_end(moved_start());
	CHECK_EQ(etch_set(&moved, 8), 0);
	moved_check(8);
	poke(moved_page + 60, &cc, 1);
	CHECK_EQ(etch_set(&moved, 9), 0);
	CHECK_EQ(moved_page[60], 0xcc);
	poke(moved_page + 60, &old, 1);
	moved_check(9);
	deny(SYS_mremap, EPERM, 0, 0, 0);
	CHECK_EQ(etch_set(&moved, 10), 0);
	moved_check(10);
}

/* The file is gone from its place, then another is there, then a FIFO: /proc/self/exe still is the file. */
static void case_swap_deleted(void)
{
	pthread_t t = moved_start();
	char path[4096];
	ssize_t n = readlink("/proc/self/exe", path, sizeof(path) - 1);

	CHECK(n > 0);
	path[n] = 0;
	CHECK(!unlink(path));
	for (int v = 8; v < 50; v++) {
		CHECK_EQ(etch_set(&moved, v), 0);
		if (v == 30)
			CHECK(!symlink("/bin/true", path));
		if (v == 40)
			CHECK(!unlink(path) && !mkfifo(path, 0600));
	}
	moved_check(49);
	CHECK(!unlink(path));
	moved_end(t);
}

const struct edge_case edge_swap[] = {
	CASE(swap),
	CASE(swap_busy),
	CASE(swap_busy_load),
	CASE(swap_gdb),
	CASE(swap_mremap),
	CASE(swap_enomem),
	CASE(swap_mmap),
	CASE(swap_mprotect),
	CASE(swap_membarrier),
	CASE(swap_second),
	CASE(swap_third),
	CASE(swap_partly),
	CASE(swap_limit),
	CASE(swap_mlock),
	CASE(swap_hole),
	CASE(swap_fork),
	CASE(swap_ended),
	CASE(swap_deleted),
	{0},
};
