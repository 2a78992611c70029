/* SPDX-License-Identifier: MIT */
/*
 * The calls of copies through libetch's own ops table: calls CASE. Prints "done" when all
 * of a case held.
 */
#include <dlfcn.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <etch/copy.h>
#include <etch/extable.h>
#include <etch/unwind.h>
#define ETCH_NO_MODULE /* the program has no etched object */
#include <etch/imv.h>

#include "../check.h"

#ifndef PR_SET_MDWE
#define PR_SET_MDWE 65
#endif

#define PAGE 4096

typedef size_t copy_fn(void *, const void *, size_t);

/* ---- before any constructor -------------------------------------------------- */

static char early_from[3000], early_to[5][3000];
static size_t early_left[5] = {1, 1, 1, 1, 1};

static void early(int i)
{
	for (unsigned k = 0; k < sizeof(early_from); k++)
		early_from[k] = (char)(k * 7 + 1);
	early_left[i] = etch_copy_from(early_to[i], early_from, sizeof(early_from));
}

__attribute__((constructor(101))) static void early_first(void) { early(0); }
__attribute__((constructor)) static void early_last(void) { early(1); }

static void early_preinit(void) { early(2); }
__attribute__((section(".preinit_array"), used)) static void (*const preinit)(void) = early_preinit;

#if !defined(__clang__)
static int resolved(void) { return 3; }
static int (*resolve(void))(void)
{
	/* Not by a function of libc, which may be one of these itself. */
	for (unsigned k = 0; k < sizeof(early_from); k++)
		early_from[k] = (char)(k * 7 + 1);
	early_left[3] = etch_copy_nt(early_to[3], early_from, sizeof(early_from));
	early_left[4] = etch_copy(early_to[4], early_from, sizeof(early_from), ETCH_COPY_CACHED);
	return resolved;
}
int by_ifunc(void) __attribute__((ifunc("resolve")));
#endif

static void case_early(void)
{
	int n = 3;

#if !defined(__clang__)
	CHECK(by_ifunc() == 3);
	n = 5;
#endif
	for (int i = 0; i < n; i++)
		CHECK(!early_left[i] && !memcmp(early_to[i], early_from, sizeof(early_from)));
}

/* ---- what stands there ---------------------------------------------------------- */

/* A direct jump of six bytes, 2e e9, or one through memory, ff 25, which is all of these
 * functions except for an endbr64. */
static int is_direct(copy_fn *f)
{
	const unsigned char *at = (const unsigned char *)(void *)f;

	if (at[0] == 0xf3)
		at += 4;
	if (at[0] == 0x2e && at[1] == 0xe9)
		return 1;
	CHECK(at[0] == 0xff && at[1] == 0x25);
	return 0;
}

static copy_fn *function(const char *name)
{
	copy_fn *f = (copy_fn *)dlsym(RTLD_DEFAULT, name);

	if (f)
		return f; /* not an entry of the program's PLT */
	return !strcmp(name, "etch_copy_nt") ? etch_copy_nt : etch_copy_from;
}

static void copies(const char *variant)
{
	static const char *const names[] = {"sse2", "sse2+erms", "avx2", "avx2+erms", "avx512", "avx512+erms"};
	unsigned char *end = mmap(NULL, 3 * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0), to[2 * PAGE];
	int have = 0;

	CHECK(end != MAP_FAILED && !mprotect(end + 2 * PAGE, PAGE, PROT_NONE) && !etch_fault_init());
	end += 2 * PAGE;
	for (unsigned i = 1; i <= 2 * PAGE; i++)
		end[-(int)i] = (unsigned char)(i * 3);
	for (unsigned i = 0; i < 6; i++) {
		if (etch_copy_use(names[i]))
			continue;
		have++;
		CHECK(!strcmp(etch_copy_variant(), names[i]));
		CHECK(etch_copy_from(to, end - 1000, 1500) == 500 && !memcmp(to, end - 1000, 1000));
		CHECK(etch_copy_from_zeroing_nocache(to, end - 1000, 1500) == 500 && !memcmp(to, end - 1000, 1000) && !to[1499]);
		CHECK(etch_verify(NULL, NULL) == 0);
	}
	CHECK(have && !etch_copy_use(variant));
}

static void info_is_the_programs(void)
{
	struct etch_info i = {.size = sizeof(i)};
	struct sigaction now;

	CHECK(!etch_info(&i) && !i.modules && !i.calls && !i.objects && !i.readonly_pages && !i.patched_at_start);
	CHECK(!sigaction(SIGSEGV, NULL, &now) && now.sa_handler == SIG_DFL);
}

static void case_direct(void)
{
	info_is_the_programs();
	CHECK(is_direct(function("etch_copy_from")) && is_direct(function("etch_copy_nt")));
	copies(etch_copy_variant());
	CHECK(is_direct(function("etch_copy_from")) && is_direct(function("etch_copy_nt")));
}

/* After exec, in a process that never makes text writable. */
static void case_indirect(void)
{
	CHECK(!is_direct(function("etch_copy_from")) && !is_direct(function("etch_copy_nt")));
	CHECK(getenv("VARIANT") && !strcmp(etch_copy_variant(), getenv("VARIANT")));
	copies(etch_copy_variant());
	CHECK(!is_direct(function("etch_copy_from")));
}

static void case_mdwe(void)
{
	setenv("VARIANT", etch_copy_variant(), 1);
	if (prctl(PR_SET_MDWE, 1, 0, 0, 0)) {
		printf("no PR_SET_MDWE\n");
		exit(77);
	}
	execl("/proc/self/exe", "calls", "indirect", (char *)NULL);
	CHECK(!"exec");
}

/* ---- while threads copy ------------------------------------------------------------- */

static int stop;
static unsigned char *thread_end;

static void *thread(void *copied)
{
	unsigned char to[2 * PAGE];
	unsigned long n = 0;

	while (!__atomic_load_n(&stop, __ATOMIC_RELAXED)) {
		size_t ok = 1 + n * 37 % 3000;

		CHECK(etch_copy_from(to, thread_end - ok, ok + 100) == 100 && !memcmp(to, thread_end - ok, ok));
		CHECK(etch_copy_nt(to, thread_end - ok, ok) == 0 && !memcmp(to, thread_end - ok, ok));
		__atomic_store_n((unsigned long *)copied, ++n, __ATOMIC_RELAXED);
	}
	return NULL;
}

static void case_switch(void)
{
	static const char *const names[] = {"sse2", "avx2", "sse2+erms", "avx512+erms"};
	static unsigned long copied[2];
	pthread_t t[2];

	thread_end = mmap(NULL, 3 * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	CHECK(thread_end != MAP_FAILED && !mprotect(thread_end + 2 * PAGE, PAGE, PROT_NONE) && !etch_fault_init());
	thread_end += 2 * PAGE;
	for (unsigned i = 1; i <= 2 * PAGE; i++)
		thread_end[-(int)i] = (unsigned char)(i * 5 + (i >> 8));
	for (unsigned i = 0; i < 2; i++)
		CHECK(!pthread_create(&t[i], NULL, thread, &copied[i]));
	/* Both copy meanwhile, however late they begin. */
	for (unsigned i = 0; i < 3000 || __atomic_load_n(&copied[0], __ATOMIC_RELAXED) < 100 ||
	                     __atomic_load_n(&copied[1], __ATOMIC_RELAXED) < 100; i++)
		etch_copy_use(names[i % 4]);
	__atomic_store_n(&stop, 1, __ATOMIC_RELAXED);
	for (unsigned i = 0; i < 2; i++)
		CHECK(!pthread_join(t[i], NULL));
}

/* ---- walks through it ------------------------------------------------------------------ */

static void *trace[16];
static int traced;

static void on_fault(int sig, siginfo_t *info, void *context)
{
	(void)sig;
	if (!traced)
		traced = etch_backtrace_from(context, trace, 16, NULL);
	CHECK(info->si_code > 0 && etch_fixup_exception(context));
}

__attribute__((noinline)) static size_t caller(copy_fn *copy, void *to, const void *from, size_t n)
{
	size_t left;

	traced = 0;
	left = copy(to, from, n);
	__asm__ __volatile__("" ::: "memory");
	return left;
}

/* Is an address of this function among those of the trace, near its beginning? */
static int walked_through(void *function, int most)
{
	for (int i = 1; i < traced && i <= most; i++)
		if ((char *)trace[i] > (char *)function && (char *)trace[i] < (char *)function + 200)
			return 1;
	return 0;
}

static void case_walk(void)
{
	unsigned char *page = mmap(NULL, 2 * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0), to[PAGE];
	struct sigaction act = {.sa_sigaction = on_fault, .sa_flags = SA_SIGINFO};

	etch_unwind_prepare(); /* where no tool has been */
	sigfillset(&act.sa_mask);
	CHECK(page != MAP_FAILED && !munmap(page + PAGE, PAGE) && !sigaction(SIGSEGV, &act, NULL));
	for (size_t n = 1; n <= 4000; n += 1 + n / 2) {
		/* Jumped to: the variant stands below its caller. Called: one more frame. */
		CHECK(caller(etch_copy_from, to, page + PAGE - n / 2, n) == n - n / 2 && walked_through((void *)caller, 1));
		CHECK(caller(etch_copy_from_zeroing_nocache, to, page + PAGE - n / 2, n) == n - n / 2);
		CHECK(walked_through((void *)caller, 2) && !walked_through((void *)caller, 1));
	}
}

/* ---- main -------------------------------------------------------------------------------- */

static const struct {
	const char *name;
	void (*run)(void);
} cases[] = {{"early", case_early}, {"direct", case_direct}, {"indirect", case_indirect}, {"mdwe", case_mdwe},
	{"switch", case_switch}, {"walk", case_walk}};

int main(int argc, char **argv)
{
	for (unsigned i = 0; argc > 1 && i < sizeof(cases) / sizeof(cases[0]); i++)
		if (!strcmp(argv[1], cases[i].name)) {
			cases[i].run();
			puts("done");
			return 0;
		}
	fprintf(stderr, "usage: calls CASE\n");
	return 2;
}
