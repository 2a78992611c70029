/* SPDX-License-Identifier: MIT */
/*
 * switches.c: functions that switch stacks and keep their frame by rbp, as fibre libraries and Go's asmcgocall do, on
 * stacks in every order; a walk from the innermost one must find each caller. And frames that only look so.
 *
 * The judge is a shadow stack: each function notes the address that it returns to. With -DINTERFACES the walks are
 * those of glibc's, libgcc's and libunwind's names; else libetch's own.
 */
#include <execinfo.h>
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <ucontext.h>
#include <unistd.h>
#ifdef INTERFACES
#define UNW_LOCAL_ONLY
#include <libunwind.h>
#include <unwind.h>
#else
#include <etch/unwind.h>
#endif

#define NOINLINE __attribute__((noinline))
#define BARRIER  __asm__ __volatile__("" : : : "memory")
#define MOST     256
#define SLOTS    4

#define fail(...)                              \
	do {                                       \
		printf("%s:%d: ", __func__, __LINE__); \
		printf(__VA_ARGS__);                   \
		putchar('\n');                         \
		fflush(stdout);                        \
		_exit(1);                              \
	} while (0)

/* Calls f on the stack that ends at top. */
__asm__(".text\n"
        "\t.type\ton_stack, @function\n"
        "on_stack:\t.cfi_startproc\n\t"
        "push\t%rbp\n\t"
        ".cfi_def_cfa_offset 16\n\t"
        ".cfi_offset %rbp, -16\n\t"
        "mov\t%rsp, %rbp\n\t"
        ".cfi_def_cfa_register %rbp\n\t"
        "mov\t%rsi, %rsp\n\t"
        "call\t*%rdi\n"
        "on_stack_return:\n\t"
        "mov\t%rbp, %rsp\n\t"
        "pop\t%rbp\n\t"
        ".cfi_def_cfa %rsp, 8\n\t"
        "ret\n\t"
        ".cfi_endproc\n\t"
        ".size\ton_stack, .-on_stack\n");
extern void on_stack(void (*f)(void), void *top) __attribute__((visibility("hidden")));
extern const char on_stack_return[] __attribute__((visibility("hidden")));

static void *shadow[MOST];
static int shadows;
#define ENTER (shadow[shadows++] = __builtin_return_address(0))
#define LEAVE (shadows--)

static char *stack[SLOTS]; /* their ends */
static size_t size = 32768;
static int order[SLOTS], depth, walks, most;
static const char *what;

/* ---- walks ------------------------------------------------------------------------ */

struct trace {
	void *ips[MOST];
	int count, complete;
};

#ifdef INTERFACES
static _Unwind_Reason_Code one(struct _Unwind_Context *context, void *arg)
{
	struct trace *t = arg;

	if (t->count < MOST && _Unwind_GetIP(context))
		t->ips[t->count++] = (void *)_Unwind_GetIP(context);
	return _URC_NO_REASON;
}

static NOINLINE void walk_gcc(struct trace *t)
{
	t->complete = _Unwind_Backtrace(one, t) == _URC_END_OF_STACK;
	BARRIER;
}

static NOINLINE void walk_glibc(struct trace *t)
{
	t->count = backtrace(t->ips, MOST);
	t->complete = -1; /* not told */
}

static NOINLINE void walk_libunwind(struct trace *t)
{
	unw_context_t context;
	unw_cursor_t c;
	unw_word_t ip;
	int ret;

	unw_getcontext(&context);
	unw_init_local(&c, &context);
	do {
		unw_get_reg(&c, UNW_REG_IP, &ip);
		t->ips[t->count++] = (void *)ip;
		ret = unw_step(&c);
	} while (ret > 0 && t->count < MOST);
	t->complete = !ret;
	BARRIER;
}

static void (*const walkers[])(struct trace *) = {walk_glibc, walk_gcc, walk_libunwind};
#else
static NOINLINE void walk_all(struct trace *t)
{
	int status;

	t->count = etch_backtrace_from(NULL, t->ips, MOST, &status);
	t->complete = status == ETCH_UNWIND_END;
	BARRIER;
}

static NOINLINE void walk_reuse(struct trace *t)
{
	static struct etch_walk walk;
	int status;

	for (int i = 0; i < 3; i++)
		t->count = etch_backtrace_reuse(&walk, NULL, t->ips, MOST, &status);
	t->complete = status == ETCH_UNWIND_END;
	BARRIER;
}

static NOINLINE void walk_steps(struct trace *t)
{
	struct etch_cursor c;
	uint64_t ip, rbx;
	int ret;

	etch_cursor_init(&c, NULL);
	do {
		etch_get_reg(&c, ETCH_RIP, &ip);
		etch_find_reg(&c, ETCH_RBX, &rbx);
		t->ips[t->count++] = (void *)ip;
		ret = etch_step(&c);
	} while (!ret && t->count < MOST);
	t->complete = ret == ETCH_UNWIND_END;
	BARRIER;
}

static void (*const walkers[])(struct trace *) = {walk_all, walk_reuse, walk_steps};
#endif

/* `extra` frames are in no C function of this file: those of on_stack(), and a signal's. */
static void judge(const struct trace *t, int extra)
{
	int at = 0, found = 0, last = 0;

	for (int i = shadows; i--; found++) {
		while (at < t->count && t->ips[at] != shadow[i])
			at++;
		if (at == t->count)
			break;
		last = ++at;
	}
	/* Beyond the first function's caller are libc's start functions. */
	if (found != shadows || last - found > extra + 2 || !t->complete) {
		for (int i = 0; i < t->count; i++)
			printf("\t%p\n", t->ips[i]);
		fail("%s: %d of %d frames, in %d, complete %d", what, found, shadows, last, t->complete);
	}
	walks++;
	most = found > most ? found : most;
}

static NOINLINE void check(int extra)
{
	ENTER;
	for (unsigned i = 0; i < sizeof(walkers) / sizeof(*walkers); i++) {
		struct trace t = {.count = 0};

		walkers[i](&t);
		judge(&t, extra);
	}
	LEAVE;
}

static void on_signal(int sig, siginfo_t *info, void *context)
{
	(void)sig, (void)info, (void)context;
#ifndef INTERFACES
	struct trace t = {.count = 0};
	int status;

	t.count = etch_backtrace_from(context, t.ips, MOST, &status);
	t.complete = status == ETCH_UNWIND_END;
	judge(&t, depth + 2);
#endif
	check(depth + 4);
}

/* ---- stacks ----------------------------------------------------------------------- */

static int level;

static NOINLINE void job(void)
{
	volatile char capacity[64] = {0};

	ENTER;
	if (level == depth) {
		check(depth);
		raise(SIGUSR1);
	} else {
		char *top = stack[order[level++]];

		on_stack(job, top - 64 * level);
		level--;
	}
	capacity[1] = capacity[0];
	LEAVE;
}

/* Stacks of each order of up to three. */
static NOINLINE void orders(void)
{
	ENTER;
	for (int k = 0; k < SLOTS * SLOTS * SLOTS; k++) {
		int a = k % SLOTS, b = k / SLOTS % SLOTS, c = k / SLOTS / SLOTS;

		if (a == b || b == c || a == c)
			continue;
		order[0] = a, order[1] = b, order[2] = c;
		for (depth = 1; depth <= 3; depth++) {
			level = 0;
			job();
		}
	}
	BARRIER;
	LEAVE;
}

static ucontext_t home, fibre;

static void context(void)
{
	shadows = 0;
	orders();
}

/* Adjacent or with pages between them that cannot be read; signals on a stack of their own or not. */
static void places(int apart, int alternate)
{
	size_t each = size + (apart ? 65536 : 0);
	char *slab = mmap(NULL, (SLOTS + 1) * each, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	stack_t signals = {.ss_size = size, .ss_flags = alternate ? 0 : SS_DISABLE}, off = {.ss_flags = SS_DISABLE};
	struct sigaction sa = {.sa_sigaction = on_signal, .sa_flags = SA_SIGINFO | SA_ONSTACK};

	if (slab == MAP_FAILED)
		fail("mmap");
	for (int i = 0; i <= SLOTS; i++)
		mprotect(slab + (size_t)i * each + (each - size), size, PROT_READ | PROT_WRITE);
	/* The signals' is the lowest or the highest one. */
	for (int i = 0; i < SLOTS; i++)
		stack[i] = slab + (size_t)(i + (alternate == 1) + 1) * each;
	signals.ss_sp = slab + (alternate == 1 ? 0 : SLOTS) * each + (each - size);
	sigaction(SIGUSR1, &sa, NULL);
	sigaltstack(&signals, NULL);
	shadows = 0;
	orders();
	sigaltstack(&off, NULL);
	munmap(slab, (SLOTS + 1) * each);
}

static void *places_on_thread(void *arg)
{
	places(1, 1);
	places(0, 2);
	return arg;
}

#ifndef INTERFACES
/* ---- frames that are not what they seem ---------------------------------------------- */

static uint64_t random_state = 88172645463325252u;

static uint64_t rnd(void)
{
	random_state ^= random_state << 13;
	random_state ^= random_state >> 7;
	random_state ^= random_state << 17;
	return random_state;
}

static int trap;

/* Walks from on_stack() as if interrupted there, with these registers. */
static int from(uint64_t rsp, uint64_t rbp, int *status)
{
	static struct etch_walk walk;
	static ucontext_t u;
	struct etch_cursor c;
	void *ips[8192], *again[8192];
	int n, m, steps = 1, ret, other;

	u.uc_mcontext.gregs[REG_RIP] = (greg_t)on_stack_return;
	u.uc_mcontext.gregs[REG_RSP] = (greg_t)rsp;
	u.uc_mcontext.gregs[REG_RBP] = (greg_t)rbp;
	u.uc_mcontext.gregs[REG_TRAPNO] = trap;
	n = etch_backtrace_from(&u, ips, 8192, status);
	for (int i = 0; i < 3; i++) {
		m = etch_backtrace_reuse(&walk, &u, again, 8192, &other);
		if (m != n || other != *status || memcmp(ips, again, (size_t)n * sizeof(*ips)))
			fail("another walk with reuse: %d and %d frames, status %d and %d", n, m, *status, other);
	}
	etch_cursor_init(&c, &u);
	while (!(ret = etch_step(&c)))
		steps++;
	if (n < 8192 && (steps != n || ret != *status || etch_step(&c) != ret))
		fail("another walk by steps: %d and %d frames, status %d and %d", n, steps, *status, ret);
	return n;
}

/* A frame of on_stack() at p, whose rbp is `next`. */
static void frame_at(uint64_t *p, uint64_t next)
{
	p[0] = next;
	p[1] = (uint64_t)on_stack_return;
}

static void illusions(void)
{
	size_t half = 65536;
	char *p = mmap(NULL, 4 * half, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	uint64_t *low = (uint64_t *)(void *)(p + half), *high = (uint64_t *)(void *)(p + 3 * half), kept;
	int n, status, longest = 0;

	munmap(p + 2 * half - 4096, 4096);
	/* To and fro between two stacks: 1 to 5 frames on each. */
	for (int round = 1; round <= 5; round++)
		for (int enter = 0; enter < 20; enter++) {
			int at = 0;

			for (int i = 0; i < enter; i++, at += 2)
				frame_at(&high[at], (uint64_t)(i + 1 < enter ? &high[at + 2] : &low[0]));
			for (int i = 0; i < round; i++)
				frame_at(&low[2 * i], (uint64_t)(i + 1 < round ? &low[2 * i + 2] : &high[at]));
			for (int i = 0; i < round; i++, at += 2)
				frame_at(&high[at], (uint64_t)(i + 1 < round ? &high[at + 2] : &low[0]));
			n = from((uint64_t)&high[-4], (uint64_t)&high[0], &status);
			if (status != ETCH_UNWIND_NOPROGRESS || n > enter + 8 * round + 4)
				fail("to and fro: %d frames, status %d", n, status);
		}
	/* rbp of a frame that points to itself, or a little lower. */
	for (int i = -8; i <= 0; i++) {
		frame_at(&low[64], (uint64_t)&low[64 + i]);
		if (i < -1)
			frame_at(&low[64 + i], (uint64_t)&low[64]);
		n = from((uint64_t)&low[60], (uint64_t)&low[64], &status);
		if (n > 8 || (status != ETCH_UNWIND_NOPROGRESS && status != ETCH_UNWIND_NOTABLE))
			fail("itself, %d: %d frames, status %d", i, n, status);
		memset(&low[48], 0, 512);
	}
	/* A lower frame whose return address is behind no call, or in no code, or misaligned. */
	for (int i = 0; i < 4; i++) {
		frame_at(&high[0], (uint64_t)&low[0] + (i == 3));
		frame_at((uint64_t *)(void *)((char *)low + (i == 3)), (uint64_t)&high[64]);
		((uint64_t *)(void *)low)[1] += (uint64_t[]){0, 1, (uint64_t)-1, 0}[i];
		n = from((uint64_t)&high[-4], (uint64_t)&high[0], &status);
		if (i && (n != 2 || status != ETCH_UNWIND_NOPROGRESS))
			fail("no return, %d: %d frames, status %d", i, n, status);
	}
	/* Chains at random, many of them circles. */
	for (int i = 0; i < 1000; i++) {
		int count = 1 + (int)(rnd() % 64);

		for (int k = 0; k < count; k++) {
			uint64_t to = rnd() % 16 ? rnd() % (uint64_t)count * 16 : rnd() % 2000;

			frame_at((rnd() % 2 ? low : high) + 2 * k, (uint64_t)(rnd() % 2 ? low : high) + to);
		}
		n = from((uint64_t)(rnd() % 2 ? low : high) - 32,
		         (uint64_t)(rnd() % 2 ? low : high) + rnd() % (uint64_t)count * 16, &status);
		if (status == ETCH_UNWIND_OK || n > 64 * 130)
			fail("at random: %d frames, status %d", n, status);
		longest = n > longest ? n : longest;
	}
	/* A stack that has been walked and is gone. */
	frame_at(&high[0], (uint64_t)&low[0]);
	frame_at(&low[0], 0);
	if (from((uint64_t)&high[-4], (uint64_t)&high[0], &status) != 3)
		fail("status %d", status);
	munmap(p, 2 * half - 4096);
	n = from((uint64_t)&high[-4], (uint64_t)&high[0], &status);
	if (n != 2 || status != ETCH_UNWIND_MEMORY)
		fail("gone: %d frames, status %d", n, status);
	kept = (uint64_t)high;
	munmap(p + 2 * half, 2 * half);
	/* The stack that faulted is itself gone. */
	trap = 14;
	n = from(kept - 32, kept, &status);
	if (n != 1 || status != ETCH_UNWIND_MEMORY)
		fail("gone, too: %d frames, status %d", n, status);
	printf("%d frames at most\n", longest);
}
#else
static void illusions(void) {}
#endif

int main(void)
{
	pthread_t t;

#ifndef INTERFACES
	etch_unwind_prepare();
#endif
	for (int apart = 0; apart < 2; apart++)
		for (int alternate = 0; alternate < 3; alternate++) {
			what = "places";
			places(apart, alternate);
		}
	what = "a thread";
	pthread_create(&t, NULL, places_on_thread, NULL);
	pthread_join(t, NULL);
	what = "a context";
	getcontext(&fibre);
	fibre.uc_stack.ss_size = 65536;
	fibre.uc_stack.ss_sp = malloc(fibre.uc_stack.ss_size);
	fibre.uc_link = &home;
	makecontext(&fibre, context, 0);
	for (int i = 0; i < SLOTS; i++)
		stack[i] = (char *)malloc(size) + size;
	swapcontext(&home, &fibre);
	illusions();
	printf("%d walks, %d frames\ndone\n", walks, most);
	return 0;
}
