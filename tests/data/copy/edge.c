/* SPDX-License-Identifier: MIT */
/*
 * Copies at their edges: edge CASE [VARIANT]. Prints "done" when all of a case held;
 * exit status 77: the processor lacks the variant.
 */
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/time.h>
#include <ucontext.h>
#include <unistd.h>

#include <etch/copy.h>
#include <etch/extable.h>

#include "../check.h"

#define PAGE ((size_t)4096)

typedef size_t copy_fn(void *, const void *, size_t);

static size_t copy_auto(void *dst, const void *src, size_t n) { return etch_copy(dst, src, n, ETCH_COPY_AUTO); }
static size_t copy_nt(void *dst, const void *src, size_t n) { return etch_copy(dst, src, n, ETCH_COPY_NT); }
static size_t copy_cached(void *dst, const void *src, size_t n) { return etch_copy(dst, src, n, ETCH_COPY_CACHED); }

static copy_fn *const calls[] = {
	etch_copy_from, etch_copy_to, etch_copy_from_zeroing, etch_copy_nt, etch_copy_from_nocache,
	etch_copy_to_nocache, etch_copy_from_zeroing_nocache, copy_auto, copy_nt, copy_cached,
};
#define CALLS (sizeof(calls) / sizeof(calls[0]))

static unsigned char pattern(size_t i) { return (unsigned char)(i * 7 + (i >> 8) * 13 + (i >> 16) * 5 + 1); }

static unsigned char *pages(size_t size)
{
	void *p = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	CHECK(p != MAP_FAILED);
	return p;
}

/* `size` bytes (whole pages) with a page without access after them: their end. */
static unsigned char *guarded(size_t size)
{
	unsigned char *p = pages(size + PAGE);

	CHECK(!mprotect(p + size, PAGE, PROT_NONE));
	return p + size;
}

/* ---- sizes and addresses ------------------------------------------------------------- */

/* Megabytes over many pages, and a fault somewhere inside. */
static void case_large(void)
{
	static const size_t size[] = {1 << 20, (2 << 20) - 1, 2 << 20, (2 << 20) + 1, (5 << 20) + 12345};
	size_t capacity = 6 << 20;
	unsigned char *src = guarded(capacity), *dst = guarded(capacity), *s, *d;

	for (size_t i = 0; i < capacity; i++)
		src[i - capacity] = pattern(i);
	for (unsigned c = 0; c < CALLS; c++)
		for (unsigned i = 0; i < sizeof(size) / sizeof(size[0]); i++) {
			size_t n = size[i], ok = n - 1 - (n >> (i + 1)) % 9973;

			s = src - capacity + 3 * i;
			d = dst - capacity + 5 * c;
			memset(dst - capacity, 0xcc, capacity);
			CHECK(calls[c](d, s, n) == 0 && !memcmp(d, s, n) && d[n] == 0xcc);
			memset(dst - capacity, 0xcc, capacity);
			CHECK(calls[c](d, src - ok, n) == n - ok && !memcmp(d, src - ok, ok));
			for (size_t k = ok; k < n; k++)
				CHECK(d[k] == (calls[c] == etch_copy_from_zeroing || calls[c] == etch_copy_from_zeroing_nocache ? 0 : 0xcc));
			memset(dst - capacity, 0xcc, capacity);
			CHECK(calls[c](dst - ok, s, n) == n - ok && !memcmp(dst - ok, s, ok) && dst[-(long)ok - 1] == 0xcc);
		}
}

/* Lengths that only a bug asks for, and addresses that are none. */
static void case_huge(void)
{
	static const size_t size[] = {(size_t)1 << 32, ((size_t)1 << 47) - 1, (size_t)1 << 47, SIZE_MAX / 2, SIZE_MAX - 4095, SIZE_MAX};
	static const uintptr_t bad[] = {0, 1, 4095, 0x7fffffffe000 + 4096 - 8, 0x7ffffffff000, 0x7fffffffffff, 0x800000000000,
		0x123456789abcdef0, 0x8000000000000000, 0xffff7fffffffffff, 0xffff800000000000, 0xffffffff81000000,
		0xfffffffffffff000, 0xffffffffffffffff};
	unsigned char *src = guarded(4 * PAGE), *dst = guarded(8 * PAGE);
	size_t ok = 3 * PAGE + 77;

	for (size_t i = 0; i < 4 * PAGE; i++)
		src[i - 4 * PAGE] = pattern(i);
	for (unsigned c = 0; c < CALLS; c++) {
		for (unsigned i = 0; i < sizeof(size) / sizeof(size[0]); i++) {
			memset(dst - 8 * PAGE, 0xcc, 8 * PAGE);
			CHECK(calls[c](dst - 8 * PAGE + c, src - ok, size[i]) == size[i] - ok);
			CHECK(!memcmp(dst - 8 * PAGE + c, src - ok, ok));
		}
		for (unsigned i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
			for (size_t n = 1; n < 6000; n += 1 + n / 3) {
				size_t left = calls[c](dst - 8 * PAGE, (void *)bad[i], n);

				CHECK(left == n || bad[i] == 0x7fffffffe000 + 4096 - 8); /* may be a stack's end */
				CHECK(calls[c]((void *)bad[i], src - 2 * PAGE, n) == n || bad[i] == 0x7fffffffe000 + 4096 - 8);
			}
		/* Nothing is to be copied: no access. */
		CHECK(calls[c]((void *)0x8000000000000000, NULL, 0) == 0);
	}
}

/* Both sides end. And zeroes go as far as they can be written. */
static void case_both(void)
{
	unsigned char *src = guarded(2 * PAGE), *dst = guarded(2 * PAGE);

	memset(src - 2 * PAGE, 7, 2 * PAGE);
	for (unsigned c = 0; c < CALLS; c++)
		for (size_t s = 0; s < 700; s += 13)
			for (size_t d = 0; d < 700; d += 11) {
				size_t n = 800, ok = s < d ? s : d, zeroed = ok;

				memset(dst - 1000, 0xcc, 1000);
				CHECK(calls[c](dst - d, src - s, n) == n - ok);
				if (calls[c] == etch_copy_from_zeroing || calls[c] == etch_copy_from_zeroing_nocache)
					zeroed = d;
				for (size_t i = 0; i < ok; i++)
					CHECK(dst[i - d] == 7);
				for (size_t i = ok; i < d; i++)
					CHECK(dst[i - d] == (i < zeroed ? 0 : 0xcc));
				CHECK(dst[-(long)d - 1] == 0xcc);
			}
}

/* ---- while pages go and come ------------------------------------------------------------ */

#define RACE_PAGES 8
static int race_fd, race_stop;
static unsigned char *race_at;

/* The pages of one file, by turns there and not. */
static void *race_thread(void *unused)
{
	unsigned seed = 1;

	(void)unused;
	while (!__atomic_load_n(&race_stop, __ATOMIC_RELAXED)) {
		size_t page = (seed = seed * 1103515245 + 12345) >> 16 & (RACE_PAGES - 1);

		if (seed >> 20 & 1)
			CHECK(!munmap(race_at + page * PAGE, PAGE));
		else
			CHECK(mmap(race_at + page * PAGE, PAGE, PROT_NONE, MAP_SHARED | MAP_FIXED, race_fd, (off_t)(page * PAGE)) != MAP_FAILED);
		for (volatile unsigned i = 0; i < (seed >> 8 & 4095); i++)
			;
		CHECK(mmap(race_at + page * PAGE, PAGE, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, race_fd,
		           (off_t)(page * PAGE)) != MAP_FAILED);
	}
	return NULL;
}

static void race(int source)
{
	size_t size = RACE_PAGES * PAGE, n = size - 100, whole = 0, part = 0;
	unsigned char *mine = pages(size), *seen;
	pthread_t t;

	/* Any page that another mapping of the process might take has a name first. */
	race_at = pages(size);
	race_fd = memfd_create("race", 0);
	CHECK(race_fd >= 0 && !ftruncate(race_fd, (off_t)size));
	CHECK(mmap(race_at, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, race_fd, 0) != MAP_FAILED);
	seen = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, race_fd, 0);
	CHECK(seen != MAP_FAILED);
	for (size_t i = 0; i < size; i++)
		(source ? seen : mine)[i] = pattern(i);
	race_stop = 0;
	CHECK(!pthread_create(&t, NULL, race_thread, NULL));
	for (size_t i = 0; whole < 50 || part < 50 || i < 600; i++) {
		unsigned char *dst = source ? mine : race_at, *src = source ? race_at : mine;
		copy_fn *copy = calls[i % CALLS];
		int zeroing = copy == etch_copy_from_zeroing || copy == etch_copy_from_zeroing_nocache;
		size_t a = i * 31 % 100, left, ok;

		memset(source ? mine : seen, 0xcc, size);
		left = copy(dst, src + (source ? a : 0), n);
		CHECK(left <= n);
		ok = n - left;
		for (size_t k = 0; k < ok; k++)
			if ((source ? mine : seen)[k] != pattern(k + (source ? a : 0))) {
				printf("call %zu: byte %zu of %zu\n", i % CALLS, k, ok);
				exit(1);
			}
		/* Zeroes are written into what is there of the destination by then. */
		for (size_t k = ok; k < size; k++)
			CHECK((source ? mine : seen)[k] == (zeroing && k < n && source ? 0 : 0xcc) ||
			      (zeroing && k < n && !source && !seen[k]));
		whole += !left;
		part += !!left;
		if (left && !(i & 7))
			usleep(1);
	}
	__atomic_store_n(&race_stop, 1, __ATOMIC_RELAXED);
	pthread_join(t, NULL);
}

static void case_race_src(void) { race(1); }

static void case_race_dst(void) { race(0); }

/* ---- strings and values --------------------------------------------------------------------- */

/* etch_strncpy_from as its header says it. s, d: bytes that can be read and written. */
static long strncpy_model(unsigned char *dst, size_t d, const unsigned char *src, size_t s, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		if (i >= s || i >= d)
			return -EFAULT;
		dst[i] = src[i];
		if (!src[i])
			return (long)i;
	}
	return (long)n;
}

static void case_strncpy(void)
{
	unsigned char *src = guarded(PAGE), *dst = guarded(PAGE), want[PAGE];

	for (size_t s = 0; s <= 45; s++)                        /* bytes up to the end of src */
		for (size_t length = 0; length <= 47; length += length > 10 ? 3 : 1) /* NUL there, or after */
			for (size_t d = 0; d <= 50; d += d > 20 ? 5 : 1)
				for (size_t n = 0; n <= 52; n += n > 17 ? 5 : 1) {
					size_t look = d < n ? d : n;
					long got, model;

					for (size_t i = 0; i < s; i++)
						src[i - s] = i == length ? 0 : (unsigned char)(i * 37 | 0x81);
					memset(dst - 64, 0xcc, 64);
					memset(want, 0xcc, sizeof(want));
					got = etch_strncpy_from((char *)dst - d, (const char *)src - s, n);
					model = strncpy_model(want, d, src - s, s, n);
					if (got != model || (model >= 0 && memcmp(dst - d, want, look)) ||
					    dst[-(long)d - 1] != 0xcc) {
						printf("s %zu length %zu d %zu n %zu: %ld, not %ld\n", s, length, d, n, got, model);
						exit(1);
					}
					/* On a fault, a part of the string and nothing else. */
					for (size_t i = 0; model < 0 && i < d; i++)
						CHECK(dst[i - d] == 0xcc || dst[i - d] == src[i - s]);
				}
	CHECK(etch_strncpy_from((char *)dst - 8, NULL, 0) == 0);
	CHECK(etch_strncpy_from((char *)dst - 8, (const char *)0x8000000000000000, 8) == -EFAULT);
	CHECK(etch_strncpy_from((char *)dst - 8, (const char *)dst - 1, SIZE_MAX) == -EFAULT);
}

#define PROBES(bits)                                                                          \
	static void probe_##bits(unsigned char *end)                                          \
	{                                                                                     \
		uint##bits##_t v, want;                                                       \
                                                                                              \
		for (long back = 0; back < 24; back++) {                                      \
			v = 0x55;                                                             \
			if (back >= bits / 8) {                                               \
				memcpy(&want, end - back, sizeof(want));                      \
				CHECK(etch_probe_read_##bits(&v, end - back) == 0 && v == want); \
			} else {                                                              \
				CHECK(etch_probe_read_##bits(&v, end - back) == -EFAULT && v == 0); \
			}                                                                     \
		}                                                                             \
		for (uintptr_t at = 0; at < 64; at += 63) {                                   \
			v = 0x55;                                                             \
			CHECK(etch_probe_read_##bits(&v, (void *)(0x7fffffffffffffff + at)) == -EFAULT && v == 0); \
			v = 0x55;                                                             \
			CHECK(etch_probe_read_##bits(&v, (void *)at) == -EFAULT && v == 0);   \
		}                                                                             \
	}
PROBES(8)
PROBES(16)
PROBES(32)
PROBES(64)

static void case_probe(void)
{
	unsigned char *end = guarded(PAGE);

	for (size_t i = 1; i <= PAGE; i++)
		end[-(long)i] = (unsigned char)(0x80 + i);
	probe_8(end);
	probe_16(end);
	probe_32(end);
	probe_64(end);
}

/* ---- which way ---------------------------------------------------------------------------------- */

static volatile sig_atomic_t owned, last_opcode;

/* A program that has SIGSEGV to itself. Notes whether the store was non-temporal:
 * movntdq is 66 0F E7, or with VEX or EVEX prefixes map 0F, pp 66, E7. */
/* The opcode after the prefixes. */
static unsigned char opcode_of(const unsigned char *rip)
{
	switch (rip[0]) {
	case 0x66: return rip[rip[1] == 0x0f ? 2 : 3];
	case 0x62: return rip[4];
	case 0xc5: return rip[2];
	case 0xc4: return rip[3];
	default: return rip[0];
	}
}

static void own(int sig, siginfo_t *info, void *context)
{
	const unsigned char *rip = (const unsigned char *)((ucontext_t *)context)->uc_mcontext.gregs[REG_RIP];

	(void)sig;
	if (info->si_code <= 0 || !etch_fault_expected(rip))
		_exit(3);
	last_opcode = opcode_of(rip);
	if (!owned)
		owned = last_opcode;
	if (!etch_fixup_exception(context))
		_exit(4);
}

static int goes_around(void *dst, const void *src, size_t n, enum etch_copy_how how, size_t ok)
{
	owned = 0;
	CHECK(etch_copy(dst, src, n, how) == n - ok && owned);
	return owned == 0xe7;
}

static void case_auto(void)
{
	size_t capacity = 1 << 20, ok = 128 << 10, before;
	unsigned char *dst = guarded(ok), *src = pages(capacity);
	struct sigaction act = {.sa_sigaction = own, .sa_flags = SA_SIGINFO};

	CHECK(!sigaction(SIGSEGV, &act, NULL));
	before = etch_copy_threshold();
	CHECK(before == 0 || before >= 65536);
	CHECK(etch_copy_set_threshold(256 << 10) == before && etch_copy_threshold() == 256 << 10);
	CHECK(!goes_around(dst - ok, src, (256 << 10) - 1, ETCH_COPY_AUTO, ok));
	CHECK(goes_around(dst - ok, src, 256 << 10, ETCH_COPY_AUTO, ok));
	CHECK(goes_around(dst - ok, src, capacity, ETCH_COPY_AUTO, ok));
	CHECK(!goes_around(dst - ok, src, capacity, ETCH_COPY_CACHED, ok));
	CHECK(goes_around(dst - ok, src, ok + 4096, ETCH_COPY_NT, ok));
	CHECK(!goes_around(dst - 100, src, 511, ETCH_COPY_NT, 100));
	CHECK(etch_copy_set_threshold(0) == 256 << 10 && etch_copy_threshold() == 0);
	CHECK(!goes_around(dst - ok, src, capacity, ETCH_COPY_AUTO, ok));
	CHECK(etch_copy_set_threshold(1) == 0 && etch_copy_threshold() == 65536);
	CHECK(!goes_around(dst - 4096, src, 65535, ETCH_COPY_AUTO, 4096));
	CHECK(goes_around(dst - 4096, src, 65536, ETCH_COPY_AUTO, 4096));
}

static void case_threshold(void)
{
	printf("%zu\n", etch_copy_threshold());
}

static void case_use(void)
{
	static const char *const names[] = {"sse2", "sse2+erms", "avx2", "avx2+erms", "avx512", "avx512+erms"};
	const char *best = etch_copy_variant();
	char a[1000], b[1000];
	int have = 0, met = 0;

	for (unsigned i = 0; i < 6; i++) {
		met |= !strcmp(best, names[i]);
		if (etch_copy_use(names[i]))
			continue;
		have++;
		CHECK(!strcmp(etch_copy_variant(), names[i]));
		memset(a, (int)i + 1, sizeof(a));
		CHECK(!etch_copy_from(b, a, sizeof(a)) && !memcmp(a, b, sizeof(a)));
	}
	CHECK(met && have && !etch_copy_use("sse2") && !etch_copy_use(best));
	CHECK(etch_copy_use("") == -1 && etch_copy_use("avx") == -1 && etch_copy_use("avx2 ") == -1);
	CHECK(!strcmp(etch_copy_variant(), best));
}

/* ---- signals --------------------------------------------------------------------------------------- */

static unsigned char *sig_end, *sig_file_end;
static volatile sig_atomic_t ticks;

static void copies(unsigned char *buffer, unsigned seed)
{
	for (unsigned i = 0; i < 8; i++) {
		size_t n = 600 + (seed + i * 97) % 3000, ok = (seed * 7 + i * 131) % n;
		unsigned char *end = i & 1 ? sig_end : sig_file_end;
		uint64_t v = 1;

		CHECK(calls[(seed + i) % CALLS](buffer, end - ok, n) == n - ok && !memcmp(buffer, end - ok, ok));
		CHECK(etch_probe_read_64(&v, end - (i & 7)) == -EFAULT && !v);
	}
}

static void tick(int sig)
{
	unsigned char buffer[4096];
	int before = errno;

	(void)sig;
	copies(buffer, (unsigned)ticks * 31);
	CHECK(errno == before);
	ticks++;
}

static void *copier(void *ticked)
{
	static __thread unsigned char buffer[4096];
	sigset_t set, before;
	stack_t ss = {.ss_sp = pages(16 * PAGE), .ss_size = 16 * PAGE}, now;

	CHECK(!sigaltstack(&ss, NULL));
	pthread_sigmask(SIG_SETMASK, NULL, &before);
	for (unsigned i = 0; i < 3000 || (ticked && ticks < 200); i++) {
		errno = 4711;
		copies(buffer, i);
		CHECK(errno == 4711);
	}
	/* A fault leaves the thread as it was. */
	pthread_sigmask(SIG_SETMASK, NULL, &set);
	CHECK(!memcmp(&set, &before, 8));
	CHECK(!sigaltstack(NULL, &now) && !(now.ss_flags & SS_ONSTACK) && now.ss_sp == ss.ss_sp);
	ss.ss_flags = SS_DISABLE;
	CHECK(!sigaltstack(&ss, NULL));
	return NULL;
}

/* Copies with faults in a handler that interrupts copies with faults, on its own stack
 * or not; threads that were not there at etch_fault_init(). */
static void signals(int flags)
{
	struct sigaction act = {.sa_handler = tick, .sa_flags = flags | SA_RESTART};
	struct itimerval every = {{0, 500}, {0, 500}};
	pthread_t t[3];
	int fd = memfd_create("signals", 0);

	sig_end = guarded(2 * PAGE);
	CHECK(fd >= 0 && !ftruncate(fd, (off_t)(3 * PAGE)));
	sig_file_end = mmap(NULL, 3 * PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	CHECK(sig_file_end != MAP_FAILED && !ftruncate(fd, (off_t)(2 * PAGE)));
	sig_file_end += 2 * PAGE;
	for (size_t i = 1; i <= 2 * PAGE; i++)
		sig_file_end[-(long)i] = sig_end[-(long)i] = pattern(i);
	CHECK(!sigaction(SIGALRM, &act, NULL) && !setitimer(ITIMER_REAL, &every, NULL));
	for (unsigned i = 0; i < 3; i++)
		CHECK(!pthread_create(&t[i], NULL, copier, NULL));
	copier(&t);
	for (unsigned i = 0; i < 3; i++)
		pthread_join(t[i], NULL);
	CHECK(ticks >= 200);
	memset(&every, 0, sizeof(every));
	setitimer(ITIMER_REAL, &every, NULL);
}

static void case_signals(void) { signals(0); }

static void case_signals_onstack(void) { signals(SA_ONSTACK); }

/* A program's own handler, with and without libetch's: `owner` fixes up by itself. */
static void owner(int sig, siginfo_t *info, void *context)
{
	if (info->si_code <= 0 || !etch_fixup_exception(context))
		_exit(sig == SIGSEGV ? 5 : 6);
}

static void case_owner(void)
{
	struct sigaction act = {.sa_sigaction = owner, .sa_flags = SA_SIGINFO | SA_ONSTACK};

	sigfillset(&act.sa_mask);
	CHECK(!sigaction(SIGSEGV, &act, NULL) && !sigaction(SIGBUS, &act, NULL));
	signals(0);
}

static volatile sig_atomic_t reads;

/* A crash reporter: reads around the fault, and goes on after the instruction. */
static void reporter(int sig, siginfo_t *info, void *context)
{
	greg_t *g = ((ucontext_t *)context)->uc_mcontext.gregs;
	unsigned char buffer[4096];
	uint64_t v;

	(void)sig;
	CHECK(info->si_code > 0);
	CHECK(etch_probe_read_64(&v, info->si_addr) == -EFAULT && v == 0);
	CHECK(etch_probe_read_64(&v, (void *)g[REG_RSP]) == 0);
	copies(buffer, (unsigned)reads);
	reads++;
	g[REG_RIP] += 2; /* movb (%rax), %al */
}

static void load(void *at) { __asm__ __volatile__("movb (%%rax), %%al" : "+a"(at) : : "memory"); }

static void case_reporter(void)
{
	struct sigaction act = {.sa_sigaction = reporter, .sa_flags = SA_SIGINFO | SA_NODEFER};
	unsigned char buffer[4096];

	CHECK(!sigaction(SIGSEGV, &act, NULL));
	CHECK(!etch_fault_init());
	sig_file_end = sig_end = guarded(2 * PAGE);
	for (int i = 0; i < 100; i++) {
		load(NULL);
		CHECK(reads == i + 1);
		copies(buffer, (unsigned)i);
	}
}

static void skip(int sig, siginfo_t *info, void *context)
{
	(void)sig, (void)info;
	reads++;
	((ucontext_t *)context)->uc_mcontext.gregs[REG_RIP] += 2;
}

/* One that is there once takes ours away with it; etch_fault_init() brings ours back. */
static void case_once(void)
{
	struct sigaction act = {.sa_sigaction = skip, .sa_flags = SA_SIGINFO | (int)SA_RESETHAND}, now;
	unsigned char buffer[4096];

	sig_file_end = sig_end = guarded(2 * PAGE);
	CHECK(!sigaction(SIGSEGV, &act, NULL) && !etch_fault_init());
	copies(buffer, 1);
	load(NULL);
	CHECK(reads == 1 && !sigaction(SIGSEGV, NULL, &now) && now.sa_handler == SIG_DFL);
	CHECK(!etch_fault_init());
	copies(buffer, 2);
	CHECK(reads == 1 && !sigaction(SIGSEGV, NULL, &now) && now.sa_handler != SIG_DFL);
}

/* ---- main -------------------------------------------------------------------------------------------- */

static const struct {
	const char *name;
	void (*run)(void);
	int owns; /* SIGSEGV is its own */
} cases[] = {
	{"large", case_large, 0}, {"huge", case_huge, 0}, {"both", case_both, 0}, {"race_src", case_race_src, 0},
	{"race_dst", case_race_dst, 0}, {"strncpy", case_strncpy, 0}, {"probe", case_probe, 0}, {"auto", case_auto, 1},
	{"threshold", case_threshold, 1}, {"use", case_use, 1}, {"signals", case_signals, 0},
	{"signals_onstack", case_signals_onstack, 0}, {"owner", case_owner, 1}, {"reporter", case_reporter, 1},
	{"once", case_once, 1},
};

int main(int argc, char **argv)
{
	for (unsigned i = 0; argc > 1 && i < sizeof(cases) / sizeof(cases[0]); i++) {
		if (strcmp(argv[1], cases[i].name))
			continue;
		if (argc > 2 && etch_copy_use(argv[2])) {
			printf("no %s\n", argv[2]);
			return 77;
		}
		if (!cases[i].owns)
			CHECK(!etch_fault_init() && !etch_fault_init());
		cases[i].run();
		puts("done");
		return 0;
	}
	fprintf(stderr, "usage: edge CASE [VARIANT]\n");
	return 2;
}
