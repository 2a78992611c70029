/* SPDX-License-Identifier: MIT */
/*
 * What another thread may do while a copy runs, at each instruction of the copy: the copy
 * is run in single steps up to there, then pages are taken away, and at the first fault
 * that follows others may come back or go.
 *
 *     step VARIANT [all]
 *
 * Whatever happens, the bytes that are counted as copied are there, and none after them
 * has changed. A third of the cases, or all. Prints the number of copies. Exit status 77: the processor lacks VARIANT.
 */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <ucontext.h>
#include <unistd.h>

#include <etch/copy.h>
#include <etch/extable.h>

#define PAGE ((size_t)4096)
#define BIG ((size_t)8 << 20)
#define TRAP_FLAG 0x100

typedef size_t copy_fn(void *, const void *, size_t);

enum { SRC, DST, SIDES };
/* Both sides are seen twice: where the copy is made, and where nothing is ever taken away. */
static struct side {
	unsigned char *at, *seen;
	size_t gone_from, gone_to;
} side[SIDES];

/* What happens: pages of a side go at an instruction, those of a side at the first fault. */
static const struct what {
	const char *name;
	int at_step, at_fault; /* a side, or -1 */
	int back;              /* at the fault what went at the step is there again */
} whats[] = {
	{"src", SRC, -1, 0},  {"dst", DST, -1, 0},  {"src-back", SRC, -1, 1},
	{"dst-back", DST, -1, 1}, {"dst-src", DST, SRC, 0}, {"dst-swap", DST, SRC, 1}, {"src-swap", SRC, DST, 1},
};
#define WHATS (sizeof(whats) / sizeof(whats[0]))

static const struct what *what;
static long steps, step_at;
static int faults, all;
static unsigned long copies;

static void protect(const struct side *s, int prot)
{
	if (s->gone_to > s->gone_from && mprotect(s->at + s->gone_from, s->gone_to - s->gone_from, prot))
		_exit(3);
}

static void on_step(int sig, siginfo_t *info, void *context)
{
	(void)sig, (void)info;
	if (steps++ < step_at)
		return;
	((ucontext_t *)context)->uc_mcontext.gregs[REG_EFL] &= ~TRAP_FLAG;
	protect(&side[what->at_step], PROT_NONE);
}

static void on_fault(int sig, siginfo_t *info, void *context)
{
	(void)sig;
	if (info->si_code <= 0 || !etch_fixup_exception(context))
		_exit(4);
	if (faults++)
		return;
	if (what->back)
		protect(&side[what->at_step], PROT_READ | PROT_WRITE);
	if (what->at_fault >= 0)
		protect(&side[what->at_fault], PROT_NONE);
}

static size_t stepped(copy_fn *copy, unsigned char *dst, const unsigned char *src, size_t n)
{
	size_t left;

	__asm__ __volatile__("sub $128, %%rsp\n\tpushfq\n\torl $0x100, (%%rsp)\n\tpopfq\n\tadd $128, %%rsp" ::: "memory", "cc");
	left = copy(dst, src, n);
	__asm__ __volatile__("sub $128, %%rsp\n\tpushfq\n\tandl $~0x100, (%%rsp)\n\tpopfq\n\tadd $128, %%rsp" ::: "memory", "cc");
	return left;
}

/* One copy. Returns 0 when it was over before the step was reached. */
static int one(const char *call, copy_fn *copy, size_t d, size_t s, size_t n, long step)
{
	unsigned char *dst = side[DST].seen + d;
	const unsigned char *src = side[SRC].seen + s;
	size_t look = n + 300 < BIG / 2 ? n + 300 : (size_t)1 << 17, left, ok, k;

	memset(dst, 0xcc, look);
	steps = faults = 0;
	step_at = step;
	left = stepped(copy, side[DST].at + d, side[SRC].at + s, n);
	protect(&side[SRC], PROT_READ | PROT_WRITE);
	protect(&side[DST], PROT_READ | PROT_WRITE);
	copies++;
	ok = left <= n ? n - left : SIZE_MAX;
	/* dst-swap: what is counted is there, and a source that was gone is not asked again. */
	if (left > n || memcmp(dst, src, ok) || (left && !faults) || (what->back && what->at_fault < 0 && left)) {
		printf("%s %s n %zu src %zu dst %zu step %ld: left %zu\n", what->name, call, n, s, d, step, left);
		exit(1);
	}
	for (k = ok; k < look; k++)
		if (dst[k] != 0xcc) {
			printf("%s %s n %zu src %zu dst %zu step %ld: left %zu, byte %zu was written\n", what->name, call, n, s, d,
			       step, left, k);
			exit(1);
		}
	return steps > step_at;
}

/* Which of the two pages that a side lies on: the first, the second, both. */
static void gone(struct side *s, unsigned which, size_t n)
{
	s->gone_from = which == 1 ? PAGE : 0;
	s->gone_to = which == 0 ? PAGE : (2 * PAGE + n) & ~(PAGE - 1);
}

static const struct {
	const char *name;
	copy_fn *copy;
} calls[] = {{"from", etch_copy_from}, {"nt", etch_copy_nt}};

static void small(void)
{
	static const size_t size[] = {1, 2, 3, 5, 8, 11, 16, 21, 32, 33, 48, 63, 64, 77, 100, 128, 129, 190, 256, 300, 511, 530, 777, 1100};

	for (unsigned c = 0; c < 2; c++)
		for (unsigned i = 0; i < sizeof(size) / sizeof(size[0]); i++)
			for (unsigned which = 0; which < 3; which++) {
				size_t n = size[i], d = PAGE - n * (1 + i % 3) / 4 - 1, s = PAGE - n * (1 + i % 4) / 5;

				if ((c && n < 512) || (!all && (i + which + (unsigned)(what - whats)) % 3))
					continue;
				gone(&side[SRC], which, n);
				gone(&side[DST], which, n);
				for (long k = 0; one(calls[c].name, calls[c].copy, d, s, n, k); k += all ? 1 : 1 + n / 100)
					;
			}
}

/* rep movsb from 2 or 4 or 8 KiB on, each byte a step. Where it faults the copy ends. */
static void rep(void)
{
	for (size_t n = 2100; n < 10000 && !(what->back && what->at_fault < 0); n *= 2)
		for (unsigned which = all ? 0 : 2; which < 3; which++) {
			gone(&side[SRC], which, n);
			gone(&side[DST], which, n);
			for (long k = 0; one("from", etch_copy_from, 100, 33, n, k); k += 1 + k / 2)
				;
		}
}

/* Large non-temporal copies fetch four pages ahead. */
static void large(void)
{
	for (unsigned which = all ? 0 : 3; which < 4 && (what->at_fault >= 0 || !what->back); which++)
		for (long k = 20 + which; k < 1000; k += 1 + k / (all ? 5 : 2)) {
			side[SRC].gone_from = side[DST].gone_from = which * PAGE;
			side[SRC].gone_to = side[DST].gone_to = BIG;
			one("nt", etch_copy_nt, 77, 33, BIG + 100, k);
		}
}

static void map(struct side *s)
{
	int fd = memfd_create("side", 0);

	if (fd < 0 || ftruncate(fd, (off_t)(BIG + PAGE)))
		exit(2);
	s->at = mmap(NULL, BIG + PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	s->seen = mmap(NULL, BIG + PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (s->at == MAP_FAILED || s->seen == MAP_FAILED)
		exit(2);
}

int main(int argc, char **argv)
{
	struct sigaction trap = {.sa_sigaction = on_step, .sa_flags = SA_SIGINFO};
	struct sigaction fault = {.sa_sigaction = on_fault, .sa_flags = SA_SIGINFO};

	sigfillset(&fault.sa_mask);
	if (argc < 2 || sigaction(SIGTRAP, &trap, NULL) || sigaction(SIGSEGV, &fault, NULL))
		return 2;
	if (etch_copy_use(argv[1])) {
		printf("no %s\n", argv[1]);
		return 77;
	}
	all = argc > 2;
	map(&side[SRC]);
	map(&side[DST]);
	for (size_t i = 0; i < BIG + PAGE; i++) /* no byte as in dst before */
		side[SRC].seen[i] = (unsigned char)((i * 7 + (i >> 8) * 13) % 200);
	for (unsigned w = 0; w < WHATS; w++) {
		what = &whats[w];
		small();
		rep();
		large();
	}
	printf("%lu\n", copies);
	return 0;
}
