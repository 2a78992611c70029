/* SPDX-License-Identifier: MIT */
/*
 * libetch's unwinder against glibc's backtrace(3), which interprets .eh_frame, from all
 * kinds of places. One case a process:
 *
 *     walks CASE [ARGUMENT...]
 *
 * Prints "done" when all was well; the first thing that is not ends it.
 */
#include <dlfcn.h>
#include <errno.h>
#include <execinfo.h>
#include <fcntl.h>
#include <link.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/ptrace.h>
#include <sys/time.h>
#include <sys/user.h>
#include <sys/wait.h>
#include <ucontext.h>
#include <unistd.h>

#include <etch/orc_lookup.h>
#include <etch/unwind.h>

#define MOST     400
#define NOINLINE __attribute__((noinline))
#define BARRIER  __asm__ __volatile__("" : : : "memory")

static char **arguments;

#define fail(...) \
	do { \
		printf("%s:%d: ", __func__, __LINE__); \
		printf(__VA_ARGS__); \
		putchar('\n'); \
		fflush(stdout); \
		_exit(1); \
	} while (0)

#define must(x) \
	do { \
		if (!(x)) \
			fail("%s", #x); \
	} while (0)

static uint64_t seed = 88172645463325252u;

static uint64_t rnd(void)
{
	seed ^= seed << 13;
	seed ^= seed >> 7;
	return seed ^= seed << 17;
}

/* ---- comparing ------------------------------------------------------------------ */

static void show(const char *who, void **ips, int n)
{
	printf("%s:\n", who);
	fflush(stdout);
	backtrace_symbols_fd(ips, n, 1);
}

static void same(const char *what, void **a, int n, void **b, int m)
{
	int i = 0;

	while (i < n && i < m && a[i] == b[i])
		i++;
	if (n == m && i == n)
		return;
	show("etch", a, n);
	show("expected", b, m);
	fail("%s: %d and %d frames, different at %d", what, n, m, i);
}

/* The rest of the trace that a cursor walks; its status. */
static int cursor_rest(struct etch_cursor *c, void **ips, int *n)
{
	uint64_t ip, sp;
	int ret;

	for (*n = 0;;) {
		must(*n < MOST && !etch_get_reg(c, ETCH_RIP, &ip) && !etch_get_reg(c, ETCH_RSP, &sp));
		ips[(*n)++] = (void *)ip;
		ret = etch_step(c);
		if (ret) {
			must(etch_step(c) == ret);
			return ret;
		}
	}
}

static __thread struct etch_walk previous;
static int want = ETCH_UNWIND_END;
static long contexts, blind;
static int orc; /* frames of more than 32 KiB have no rule */

/* All ways to walk from here agree, and with glibc. */
static NOINLINE void check_here(const char *what)
{
	void *a[MOST], *b[MOST], *g[MOST];
	struct etch_cursor c, copy;
	int n, m, k, status = 99, reg;
	uint64_t v;

	k = backtrace(g, MOST);
	n = etch_backtrace(a, MOST);
	must(n > 1);
	same(what, a + 1, n - 1, g + 1, k - 1);
	m = etch_backtrace_from(NULL, b, MOST, &status);
	same("from", b + 1, m - 1, a + 1, n - 1);
	if (status != want)
		fail("%s: %s", what, etch_unwind_strerror(status));
	for (int i = 0; i < 3; i++) {
		status = 99;
		m = etch_backtrace_reuse(&previous, NULL, b, MOST, &status);
		same("reuse", b + 1, m - 1, a + 1, n - 1);
		must(status == want && !previous.busy);
	}
	must(!etch_cursor_init(&c, NULL) && !etch_interrupted(&c));
	for (reg = ETCH_RAX; reg <= ETCH_RIP; reg++)
		must(etch_get_reg(&c, reg, &v) ==
		     (reg == ETCH_RSP || reg == ETCH_RBP || reg == ETCH_RIP ? 0 : ETCH_UNWIND_REGISTER));
	must(etch_get_reg(&c, -1, &v) == ETCH_UNWIND_EINVAL && etch_get_reg(&c, 17, &v) == ETCH_UNWIND_EINVAL);
	copy = c;
	must(cursor_rest(&c, b, &m) == want);
	same("cursor", b + 1, m - 1, a + 1, n - 1);
	memset(&c, 0x55, sizeof(c));
	must(cursor_rest(&copy, b, &m) == want);
	same("copied cursor", b + 1, m - 1, a + 1, n - 1);
}

/* From a signal handler: of the interrupted frames. */
static NOINLINE void check_context(const char *what, const ucontext_t *u)
{
	void *a[MOST], *b[MOST], *g[MOST], *rip = (void *)u->uc_mcontext.gregs[REG_RIP];
	struct etch_cursor c;
	int n, m, k, at, status = 99;
	uint64_t v;

	k = backtrace(g, MOST);
	for (at = 0; at < k && g[at] != rip;)
		at++;
	if (at == k) {
		show("glibc", g, k);
		fail("%s: glibc does not find the interrupted frame", what);
	}
	n = etch_backtrace_from(u, a, MOST, &status);
	contexts++;
	if (at == k - 1 && n > 1 && status == want) {
		/* .eh_frame says nothing about the PLT of lld, nor of static programs. */
		blind++;
		return;
	}
	same(what, a, n, g + at, k - at);
	if (status != want)
		fail("%s: %s", what, etch_unwind_strerror(status));
	/* The handler's frames are in front of these. */
	m = etch_backtrace_from(NULL, b, MOST, &status);
	same("through the signal frame", b + 1, m - 1, g + 1, k - 1);
	m = etch_backtrace_reuse(&previous, u, b, MOST, &status);
	same("reuse", b, m, a, n);
	m = etch_backtrace_reuse(&previous, NULL, b, MOST, &status);
	same("reuse through the signal frame", b + 1, m - 1, g + 1, k - 1);
	must(status == want);
	must(!etch_cursor_init(&c, u) && etch_interrupted(&c));
	must(!etch_get_reg(&c, ETCH_R12, &v) && v == (uint64_t)u->uc_mcontext.gregs[REG_R12]);
	must(!etch_get_reg(&c, ETCH_RAX, &v) && v == (uint64_t)u->uc_mcontext.gregs[REG_RAX]);
	must(cursor_rest(&c, b, &m) == want);
	same("cursor", b, m, a, n);
}

/* ---- functions of all kinds ---------------------------------------------------------- */

static __thread const char *name;
static void (*bottom)(void);

static NOINLINE void with_check(void) { check_here(name); }

static NOINLINE int frames(int n)
{
	char local[24];
	int r;

	__asm__ __volatile__("" : : "r"(local) : "memory");
	if (!n) {
		bottom();
		return 0;
	}
	r = frames(n - 1);
	BARRIER;
	return r + 1;
}

static NOINLINE int frames_vla(int n)
{
	char local[n * 40 + 8];
	int r = 0;

	__asm__ __volatile__("" : : "r"(local) : "memory");
	if (n)
		r = n % 3 ? frames_vla(n - 1) : frames(3);
	else
		bottom();
	BARRIER;
	return r + 1;
}

/* More than a page, which is probed for; and more than are looked for nearby. */
static NOINLINE int frames_big(int n)
{
	char local[300000];
	int r = 0;

	__asm__ __volatile__("" : : "r"(local) : "memory");
	if (n)
		r = frames_big(n - 1);
	else
		bottom();
	BARRIER;
	return r + 1;
}

static NOINLINE int frames_aligned(int n)
{
	char local[64] __attribute__((aligned(64)));
	int r = 0;

	__asm__ __volatile__("" : : "r"(local) : "memory");
	if (n)
		r = frames_aligned(n - 1);
	else
		bottom();
	BARRIER;
	return r + 1;
}

static int in_qsort(const void *a, const void *b)
{
	static int once;

	if (!once++)
		bottom();
	return *(const int *)a - *(const int *)b;
}

static NOINLINE void places(void)
{
	int v[] = { 3, 1, 2, 5, 4 };

	name = "frames";
	for (int i = 0; i < 30; i++)
		frames(i);
	name = "vla";
	frames_vla(20);
	name = "aligned";
	frames_aligned(5);
	name = "big";
	if (!orc)
		frames_big(4);
	name = "qsort";
	qsort(v, 5, sizeof(*v), in_qsort);
	BARRIER;
}

static void *in_thread(void *arg)
{
	places();
	return arg;
}

static void case_plain(void)
{
	pthread_t t;

	bottom = with_check;
	places();
	must(!pthread_create(&t, NULL, in_thread, NULL) && !pthread_join(t, NULL));
}

/* ---- signals ---------------------------------------------------------------------------- */

static int handled;

static void on_signal(int sig, siginfo_t *info, void *context)
{
	(void)info;
	check_here("handler");
	check_context("context", context);
	handled++;
	if (sig == SIGUSR1 && handled % 2)
		raise(SIGUSR2);
}

static void handle(int sig, void (*f)(int, siginfo_t *, void *), int flags)
{
	struct sigaction a;

	memset(&a, 0, sizeof(a));
	a.sa_sigaction = f;
	a.sa_flags = SA_SIGINFO | flags;
	must(!sigaction(sig, &a, NULL));
}

static NOINLINE void raise_it(void)
{
	raise(SIGUSR1);
	BARRIER;
}

static void case_signal(void)
{
	bottom = raise_it;
	handle(SIGUSR1, on_signal, SA_NODEFER);
	handle(SIGUSR2, on_signal, SA_NODEFER);
	places();
	must(handled > 30);
}

static void case_altstack(void)
{
	stack_t s = { .ss_sp = malloc(1 << 17), .ss_size = 1 << 17 };

	must(s.ss_sp && !sigaltstack(&s, NULL));
	bottom = raise_it;
	handle(SIGUSR1, on_signal, SA_ONSTACK);
	handle(SIGUSR2, on_signal, SA_ONSTACK | SA_NODEFER);
	places();
	must(handled > 30);
}

/* ud2 is the first instruction of this function. */
void trap_first(void);
__asm__(".text\n\t.type trap_first, @function\ntrap_first:\n\t.cfi_startproc\n\tud2\n\tret\n\t.cfi_endproc\n\t"
        ".size trap_first, . - trap_first");

static void on_trap(int sig, siginfo_t *info, void *context)
{
	ucontext_t *u = context;

	(void)sig, (void)info;
	check_here("handler");
	check_context("first instruction", u);
	u->uc_mcontext.gregs[REG_RIP] += 2;
	handled++;
}

static void case_first(void)
{
	handle(SIGILL, on_trap, 0);
	bottom = trap_first;
	places();
	must(handled > 30);
}

/* ---- every instruction ------------------------------------------------------------------- */

static unsigned long stepped, most_steps;

static void on_step(int sig, siginfo_t *info, void *context)
{
	ucontext_t *u = context;

	(void)sig, (void)info;
	if (++stepped > most_steps) {
		u->uc_mcontext.gregs[REG_EFL] &= ~0x100L;
		return;
	}
	check_context("step", u);
}

/* The trap flag of rflags. */
void step_on(void);
void step_off(void);
#define STEP(name, what) \
	__asm__(".text\n\t.type " #name ", @function\n" #name ":\n\t.cfi_startproc\n\tpushfq\n\t" \
	        ".cfi_adjust_cfa_offset 8\n\t" what ", (%rsp)\n\tpopfq\n\t.cfi_adjust_cfa_offset -8\n\tret\n\t" \
	        ".cfi_endproc\n\t.size " #name ", . - " #name)
STEP(step_on, "orq $0x100");
STEP(step_off, "andq $~0x100");

static void nothing(void) { BARRIER; }

/* Lazy binding, string functions, formatted output, malloc, qsort. */
static NOINLINE void work(void)
{
	char text[200];
	int v[] = { 9, 3, 7, 1, 8, 2 };
	void *p;

	bottom = nothing;
	step_on();
	frames(4);
	frames_vla(3);
	frames_aligned(2);
	qsort(v, 6, sizeof(*v), in_qsort);
	p = malloc(1000);
	snprintf(text, sizeof(text), "%d %s %.3f %p", v[0], "text", 1.0 / v[1], p);
	p = realloc(p, 100000);
	free(p);
	strtod("3.25e10", NULL);
	getenv("HOME");
	step_off();
	must(strlen(text) > 10);
}

static void case_step(void)
{
	most_steps = strtoul(arguments[0], NULL, 10);
	handle(SIGTRAP, on_step, 0);
	work();
	printf("%lu steps, %ld blind\n", stepped, blind);
	must(stepped > 2000 && blind < contexts / 20);
}

/* ---- a profiler ------------------------------------------------------------------------------ */

static volatile int samples;

static void on_prof(int sig, siginfo_t *info, void *context)
{
	(void)sig, (void)info;
	check_context("sample", context);
	samples++;
}

static NOINLINE double busy(int n)
{
	char text[400];
	double sum = 0;

	for (int i = 0; i < n; i++) {
		snprintf(text, sizeof(text), "%d %f %s", i, i * 0.5, "some text");
		sum += strtod(text, NULL) + frames((int)(rnd() % 20)) + frames_vla((int)(rnd() % 10));
		free(malloc(rnd() % 100000));
	}
	return sum;
}

static void case_prof(void)
{
	struct itimerval t = { { 0, 1000 }, { 0, 1000 } };
	int most = atoi(arguments[0]);

	bottom = nothing;
	handle(SIGPROF, on_prof, SA_RESTART);
	must(!setitimer(ITIMER_PROF, &t, NULL));
	while (samples < most)
		busy(100);
	memset(&t, 0, sizeof(t));
	setitimer(ITIMER_PROF, &t, NULL);
	printf("%d samples, %ld blind\n", samples, blind);
	must(blind < contexts / 5);
}

/* ---- limits, and statuses ---------------------------------------------------------------------- */

static NOINLINE void check_limits(void)
{
	void *all[MOST], *ips[MOST];
	int n = etch_backtrace(all, MOST), status, m;

	for (int max = -1; max <= n + 1; max++) {
		struct etch_walk *w = calloc(1, sizeof(*w));

		memset(ips, 0, sizeof(ips));
		m = etch_backtrace(ips, max);
		must(m == (max < 0 ? 0 : max < n ? max : n));
		must(m < 2 || !memcmp(ips + 1, all + 1, (size_t)(m - 1) * sizeof(*ips)));
		must(!ips[m]);
		must(etch_backtrace_from(NULL, ips, max, NULL) == m);
		must(etch_backtrace_from(NULL, ips, max, &status) == m && status == (max < n ? ETCH_UNWIND_LIMIT : want));
		for (int i = 0; i < 3; i++) {
			must(etch_backtrace_reuse(w, NULL, ips, max, &status) == m);
			must(status == (max < n ? ETCH_UNWIND_LIMIT : want));
			must(!ips[m] && (m < 2 || !memcmp(ips + 1, all + 1, (size_t)(m - 1) * sizeof(*ips))));
			must(etch_backtrace_reuse(w, NULL, ips, max, NULL) == m);
			must(etch_backtrace_reuse(w, NULL, ips, MOST - 1, &status) == n && status == want);
			memset(ips, 0, sizeof(ips));
		}
		free(w);
	}
}

static void case_limits(void)
{
	bottom = check_limits;
	frames(30);
	for (int i = -10; i < 5; i++)
		must(strlen(etch_unwind_strerror(i)) > 5);
}

/* Without prepare: what the program's own table covers, and no more. */
static NOINLINE void check_notable(void)
{
	void *ips[MOST];
	int status, n = etch_backtrace_from(NULL, ips, MOST, &status);

	if (status != ETCH_UNWIND_NOTABLE || n != atoi(arguments[0]))
		fail("%d frames: %s", n, etch_unwind_strerror(status));
}

static void case_notable(void)
{
	bottom = check_notable;
	frames(10);
}

/* ---- reuse ---------------------------------------------------------------------------------------- */

static volatile long budget; /* walks still to be made */

static NOINLINE int wander(int depth, int left)
{
	char local[rnd() % 5 ? 16 : 16 + rnd() % 200];
	void *a[MOST], *b[MOST];
	static struct etch_walk w;
	int n, m, sa, sb, r = 0;

	__asm__ __volatile__("" : : "r"(local) : "memory");
	while (left-- > 0 && budget > 0 && rnd() % 8) {
		if (depth < 150 && rnd() % 8) {
			r += rnd() % 4 ? wander(depth + 1, left) : frames((int)(rnd() % 8));
			BARRIER;
			continue;
		}
		m = rnd() % 8 ? MOST : (int)(rnd() % 100);
		n = etch_backtrace_from(NULL, a, m, &sa);
		m = etch_backtrace_reuse(&w, NULL, b, m, rnd() % 4 ? &sb : NULL);
		must(n == m);
		if (n)
			same("reuse", b + 1, m - 1, a + 1, n - 1);
		if (rnd() % 64 == 0)
			etch_walk_reset(&w);
		budget--;
		r++;
	}
	return r;
}

static void wander_bottom(void) { wander(100, 3); }

static void on_wander(int sig, siginfo_t *info, void *context)
{
	(void)sig, (void)info, (void)context;
	wander(140, 10);
}

static void case_reuse(void)
{
	struct itimerval t = { { 0, 2000 }, { 0, 2000 } };

	bottom = wander_bottom;
	for (budget = 100000; budget > 0;)
		wander(0, 200);
	handle(SIGPROF, on_wander, SA_RESTART);
	must(!setitimer(ITIMER_PROF, &t, NULL));
	for (budget = 200000; budget > 0;)
		wander(0, 200);
	memset(&t, 0, sizeof(t));
	setitimer(ITIMER_PROF, &t, NULL);
}

/* Deeper than a state can keep. */
static NOINLINE int deep(int n)
{
	static void *a[3000], *b[3000];
	static struct etch_walk w;
	int r = 0, s;

	if (n)
		r = deep(n - 1);
	else
		for (int i = 0; i < 5; i++)
			for (int max = 3000; max > 10; max -= 171) {
				int k = etch_backtrace(a, max), m = etch_backtrace_reuse(&w, NULL, b, max, &s);

				same("deep", b + 1, m - 1, a + 1, k - 1);
			}
	BARRIER;
	return r + 1;
}

static void case_deep(void)
{
	for (int n = 100; n < 2500; n += 53)
		deep(n);
}

/* ---- other stacks ------------------------------------------------------------------------------------ */

static ucontext_t home, other;

static void coroutine(void)
{
	want = ETCH_UNWIND_END;
	frames(10);
	frames_vla(5);
}

static void on_stack(char *stack, size_t size)
{
	must(!getcontext(&other));
	other.uc_stack.ss_sp = stack;
	other.uc_stack.ss_size = size;
	other.uc_link = &home;
	makecontext(&other, coroutine, 0);
	must(!swapcontext(&home, &other));
}

static void case_coroutine(void)
{
	size_t size = 1 << 17;

	bottom = with_check;
	name = "coroutine";
	for (int i = 0; i < 20; i++) {
		char *p = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

		must(p != MAP_FAILED);
		on_stack(p, size);
		munmap(p, size);
	}
	must(etch_unwind_strict(1) == 0);
	places();
	/* A smaller one in the place of a larger, twice over. */
	for (int i = 0; i < 20; i++) {
		char *p = mmap(NULL, 2 * size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

		must(p != MAP_FAILED);
		on_stack(p, 2 * size);
		munmap(p + size, size);
		on_stack(p, size);
		munmap(p, size);
	}
	must(etch_unwind_strict(0) == 1);
}

/* ---- corrupt stacks --------------------------------------------------------------------------------------- */

static int statuses[16];

static void try_context(const ucontext_t *u, struct etch_walk *w)
{
	void *ips[MOST];
	int n, status = 99;

	n = etch_backtrace_from(u, ips, MOST, &status);
	must(n >= 1 && n <= MOST && status != ETCH_UNWIND_OK && status <= 1 && status >= ETCH_UNWIND_LIMIT);
	statuses[8 + status]++;
	n = etch_backtrace_reuse(w, u, ips, MOST, &status);
	must(n >= 1 && status != 99);
}

static uint64_t code_address(void)
{
	static void *const some[] = { (void *)printf, (void *)qsort, (void *)frames, (void *)frames_vla, (void *)work,
	                              (void *)snprintf, (void *)malloc, (void *)strtod, (void *)raise };

	return (uint64_t)some[rnd() % (sizeof(some) / sizeof(*some))] + rnd() % 600;
}

static void case_corrupt(void)
{
	long page = 4096, rounds = atol(arguments[0]);
	/* Two pages to read, between two that are not. */
	char *p = mmap(NULL, 4 * (size_t)page, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	uint64_t *words = (uint64_t *)(void *)(p + page), here = (uint64_t)words;
	static struct etch_walk w;
	ucontext_t u;

	must(p != MAP_FAILED && !mprotect(p + page, 2 * (size_t)page, PROT_READ | PROT_WRITE));
	must(!getcontext(&u));
	for (long i = 0; i < rounds; i++) {
		if (i % 64 == 0)
			for (int k = 0; k < 1024; k++)
				switch (rnd() % 8) {
				case 0: words[k] = rnd(); break;
				case 1: words[k] = rnd() % 64; break;
				case 2:
				case 3: words[k] = here + rnd() % (2 * (uint64_t)page + 64) - 32; break;
				case 4: words[k] = (here + rnd() % (2 * (uint64_t)page)) & ~7ul; break;
				default: words[k] = code_address();
				}
		for (int r = 0; r < 17; r++)
			switch (rnd() % 6) {
			case 0: u.uc_mcontext.gregs[r] = (greg_t)rnd(); break;
			case 1: u.uc_mcontext.gregs[r] = (greg_t)(rnd() % 5000 - 100); break;
			default: u.uc_mcontext.gregs[r] = (greg_t)(here + rnd() % (2 * (uint64_t)page + 64) - 32);
			}
		if (rnd() % 8)
			u.uc_mcontext.gregs[REG_RSP] = (greg_t)((here + rnd() % (2 * (uint64_t)page)) & (rnd() % 4 ? ~7ul : ~0ul));
		if (rnd() % 16)
			u.uc_mcontext.gregs[REG_RIP] = (greg_t)code_address();
		try_context(&u, &w);
	}
	/* Registers at the edges of what an address can be. */
	for (int i = 0; i < 200; i++) {
		static const uint64_t edges[] = { 0, 1, 7, 8, 4095, 4096, 1ul << 47, (1ul << 47) - 8, (1ul << 56) - 8, 1ul << 56,
		                                  1ul << 63, (1ul << 63) - 1, ~0ul, ~0ul - 7, ~0ul - 4095, ~0ul << 47 };

		for (int r = 0; r < 16; r++)
			u.uc_mcontext.gregs[r] = (greg_t)edges[rnd() % 16];
		u.uc_mcontext.gregs[REG_RIP] = (greg_t)(i % 2 ? code_address() : edges[rnd() % 16]);
		try_context(&u, &w);
	}
	for (int i = 2; i <= 9; i++)
		printf("%d: %d\n", i - 8, statuses[i]);
}

/* Frames that overwrite their own stack: the walk ends, and the program goes on. */
static NOINLINE int smash(int n)
{
	uint64_t local[8], kept[64];
	void *ips[MOST];
	int r = 0, status;

	__asm__ __volatile__("" : : "r"(local) : "memory");
	if (n)
		return smash(n - 1) + 1;
	for (int i = 0; i < 2000; i++) {
		uint64_t *at = (uint64_t *)__builtin_frame_address(0) + 1;

		for (int k = 0; k < 64; k++)
			kept[k] = at[k];
		for (int k = 0; k < 64; k++)
			if (rnd() % 4 == 0)
				at[k] = rnd() % 2 ? rnd() : (uint64_t)&local + rnd() % 4096;
		r += etch_backtrace_from(NULL, ips, MOST, &status);
		r += etch_backtrace_reuse(&previous, NULL, ips, MOST, &status);
		for (int k = 0; k < 64; k++)
			at[k] = kept[k];
	}
	BARRIER;
	return r;
}

static void case_smash(void) { must(smash(20)); }

/* ---- modules that come and go --------------------------------------------------------------------------------- */

typedef int call_fn(int depth, void (*f)(void));

static call_fn *plugin_call(void *h)
{
	call_fn *f = (call_fn *)dlsym(h, "plugin_call");

	must(f);
	return f;
}

/*
 * walks modules HOW A.so B.so: two files of the same layout, whose functions have
 * frames of different sizes. HOW: tables are their own (own) or made (made).
 */
static void case_modules(void)
{
	int made = !strcmp(arguments[0], "made"), again = 0;
	void *last = NULL;

	bottom = with_check;
	name = "plugin";
	for (int i = 0; i < 20; i++) {
		void *h = dlopen(arguments[1 + i % 2], RTLD_NOW);
		call_fn *f;

		if (!h)
			fail("%s", dlerror());
		f = plugin_call(h);
		if (made && i < 3)
			must(etch_unwind_prepare() == 0);
		again += (void *)f == last;
		last = (void *)f;
		/* Known since an earlier round, or found again. */
		if (made && i >= 3) {
			void *ips[MOST];

			must(etch_unwind_prepare() == 0);
			must(etch_backtrace(ips, MOST) > 0);
		}
		f(12, with_check);
		etch_walk_reset(&previous);
		must(!dlclose(h));
	}
	/* Otherwise this has shown nothing. */
	if (again < 10)
		fail("only %d times at the same address", again);
}

/* A walk, and a signal's, out of the dynamic linker's lazy resolver. */
static void case_lazy(void)
{
	handle(SIGUSR1, on_signal, SA_NODEFER);
	handle(SIGUSR2, on_signal, SA_NODEFER);
	for (int i = 0; i < 4; i++) {
		void *h = dlopen(arguments[0], RTLD_LAZY);
		int (*call)(void);
		void (**hook)(void);

		if (!h)
			fail("%s", dlerror());
		must(etch_unwind_prepare() == 0);
		call = (int (*)(void))dlsym(h, "lazy_call");
		hook = dlsym(h, "hook");
		must(call && hook);
		name = "lazy";
		*hook = i % 2 ? raise_it : with_check;
		handled = 0;
		must(call() == 7);
		must(i % 2 == 0 || handled == 2);
		must(!dlclose(h));
	}
}

static volatile int stop;
static const char *plugins[2];

static void *loader(void *arg)
{
	for (int i = 0; i < 200; i++) {
		void *h = dlopen(plugins[i % 2], RTLD_NOW);

		if (!h)
			fail("%s", dlerror());
		must(etch_unwind_prepare() == 0);
		plugin_call(h)(5, with_check);
		etch_walk_reset(&previous);
		must(!dlclose(h));
	}
	stop = 1;
	return arg;
}

static void *walker(void *arg)
{
	void *ips[MOST];

	while (!stop) {
		places();
		must(etch_backtrace(ips, MOST) > 1);
	}
	return arg;
}

/* Threads that walk while another one loads and unloads. */
static void case_threads(void)
{
	pthread_t t[4];

	bottom = with_check;
	plugins[0] = arguments[0];
	plugins[1] = arguments[1];
	for (int i = 0; i < 4; i++)
		must(!pthread_create(&t[i], NULL, i ? walker : loader, NULL));
	for (int i = 0; i < 4; i++)
		pthread_join(t[i], NULL);
}

/* A child of fork prepares, too. */
static void case_fork(void)
{
	int status;
	pid_t pid;

	bottom = with_check;
	for (int i = 0; i < 20; i++) {
		fflush(stdout);
		pid = fork();
		if (!pid) {
			must(etch_unwind_prepare() == 0);
			places();
			_exit(0);
		}
		must(waitpid(pid, &status, 0) == pid && status == 0);
	}
}

/* ---- another process -------------------------------------------------------------------------------------------- */

static struct etch_target_module targets[64];
static size_t target_count;

/* The tables of loaded modules, from their files or from sidecars in a directory. */
static int target_add(struct dl_phdr_info *info, size_t size, void *arg)
{
	struct etch_target_module *t = &targets[target_count];
	const char *path = info->dlpi_name && *info->dlpi_name ? info->dlpi_name : "/proc/self/exe";
	uint64_t address = 0, bytes = 0;
	off_t length;
	void *file;
	int fd;

	(void)size;
	t->bias = info->dlpi_addr;
	t->start = UINT64_MAX;
	t->end = 0;
	for (int i = 0; i < info->dlpi_phnum; i++) {
		const ElfW(Phdr) *p = &info->dlpi_phdr[i];

		if (p->p_type != PT_LOAD)
			continue;
		if (t->bias + p->p_vaddr < t->start)
			t->start = t->bias + p->p_vaddr;
		if (t->bias + p->p_vaddr + p->p_memsz > t->end)
			t->end = t->bias + p->p_vaddr + p->p_memsz;
	}
	fd = open(path, O_RDONLY);
	if (fd < 0)
		return 0;
	length = lseek(fd, 0, SEEK_END);
	file = mmap(NULL, (size_t)length, PROT_READ, MAP_PRIVATE, fd, 0);
	close(fd);
	must(file != MAP_FAILED);
	t->table = etch_table_in_file(file, (size_t)length, &bytes, &address);
	if (!t->table && *(const char *)arg) {
		char side[4096];

		/* One sidecar a file, named by the test. */
		snprintf(side, sizeof(side), "%s/%s", (const char *)arg, strrchr(path, '/') + 1);
		fd = open(side, O_RDONLY);
		if (fd >= 0) {
			length = lseek(fd, 0, SEEK_END);
			file = mmap(NULL, (size_t)length, PROT_READ, MAP_PRIVATE, fd, 0);
			close(fd);
			must(file != MAP_FAILED);
			t->table = etch_table_in_file(file, (size_t)length, &bytes, &address);
			must(t->table && !address);
		}
	}
	t->size = bytes;
	t->address = address;
	target_count += t->table != NULL;
	return 0;
}

static int by_start(const void *a, const void *b)
{
	const struct etch_target_module *x = a, *y = b;

	return x->start < y->start ? -1 : x->start > y->start;
}

static int read_peek(void *arg, uint64_t at, uint64_t *word)
{
	errno = 0;
	*word = (uint64_t)ptrace(PTRACE_PEEKDATA, *(pid_t *)arg, (void *)at, NULL);
	return errno;
}

static struct shared {
	int n;
	void *ips[MOST];
} *shared;

static NOINLINE void stop_here(void)
{
	shared->n = etch_backtrace(shared->ips, MOST);
	__asm__ __volatile__("int3");
	BARRIER;
}

static void case_remote(void)
{
	const char *side = arguments[0] ? arguments[0] : "";
	struct etch_target target = { .read = read_peek, .modules = targets };
	struct user_regs_struct r;
	struct etch_cursor c;
	void *ips[MOST];
	int status, n;
	pid_t pid;

	dl_iterate_phdr(target_add, (void *)side);
	qsort(targets, target_count, sizeof(*targets), by_start);
	must(target_count >= 1);
	target.module_count = target_count;
	shared = mmap(NULL, sizeof(*shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	must(shared != MAP_FAILED);
	bottom = stop_here;
	pid = fork();
	if (!pid) {
		must(!ptrace(PTRACE_TRACEME, 0, NULL, NULL));
		places();
		_exit(0);
	}
	target.arg = &pid;
	for (n = 0; waitpid(pid, &status, 0) == pid && WIFSTOPPED(status); n++) {
		uint64_t regs[17];
		int m, end;

		must(WSTOPSIG(status) == SIGTRAP && !ptrace(PTRACE_GETREGS, pid, NULL, &r));
		regs[ETCH_RAX] = r.rax, regs[ETCH_RCX] = r.rcx, regs[ETCH_RDX] = r.rdx, regs[ETCH_RBX] = r.rbx;
		regs[ETCH_RSP] = r.rsp, regs[ETCH_RBP] = r.rbp, regs[ETCH_RSI] = r.rsi, regs[ETCH_RDI] = r.rdi;
		regs[ETCH_R8] = r.r8, regs[ETCH_R9] = r.r9, regs[ETCH_R10] = r.r10, regs[ETCH_R11] = r.r11;
		regs[ETCH_R12] = r.r12, regs[ETCH_R13] = r.r13, regs[ETCH_R14] = r.r14, regs[ETCH_R15] = r.r15;
		regs[ETCH_RIP] = r.rip;
		must(!etch_cursor_init_target(&c, &target, regs));
		end = cursor_rest(&c, ips, &m);
		same("remote", ips + 1, m - 1, shared->ips + 1, shared->n - 1);
		if (end != ETCH_UNWIND_END)
			fail("%s", etch_unwind_strerror(end));
		must(!ptrace(PTRACE_CONT, pid, NULL, NULL));
	}
	must(WIFEXITED(status) && WEXITSTATUS(status) == 0 && n > 30);
	must(etch_cursor_init_target(&c, NULL, NULL) == ETCH_UNWIND_EINVAL);
}

/* Mutants of a file with a table: found or refused, and if found, safe to look up. */
static int read_none(void *arg, uint64_t at, uint64_t *word)
{
	*word = code_address();
	return arg != NULL || at % 64 == 0;
}

static void case_file(void)
{
	int fd = open(arguments[0], O_RDONLY);
	size_t length = (size_t)lseek(fd, 0, SEEK_END), kept = 0;
	uint8_t *file = malloc(length), *copy;
	const Elf64_Ehdr *h = (const void *)file;
	const struct etch_unwind *u;
	uint64_t size, address, table;

	must(fd >= 0 && file && pread(fd, file, length, 0) == (ssize_t)length);
	u = etch_table_in_file(file, length, &size, &address);
	must(u && address && (uint64_t)((const uint8_t *)u - file) + size <= length);
	table = (uint64_t)((const uint8_t *)u - file);
	for (int i = 0; i < atoi(arguments[1]); i++) {
		size_t cut = rnd() % 8 ? length : rnd() % length;
		struct etch_target_module m = { 0 };
		struct etch_target t = { .read = read_none, .modules = &m, .module_count = 1 };
		uint64_t regs[17];

		copy = malloc(cut ? cut : 1);
		must(copy);
		memcpy(copy, file, cut);
		for (int n = (int)(rnd() % 4) + 1; n--;) {
			uint64_t at = rnd() % 4 == 0 ? rnd() % sizeof(*h)
			              : rnd() % 3 == 0 ? h->e_phoff + rnd() % (h->e_phnum * sizeof(Elf64_Phdr))
			              : rnd() % 2 ? table - 48 + rnd() % (48 + sizeof(*u))
			                          : table + rnd() % size;

			if (at < cut)
				copy[at] = rnd() % 2 ? (uint8_t)rnd() : copy[at] ^ (uint8_t)(1u << rnd() % 8);
		}
		m.table = etch_table_in_file(copy, cut, &m.size, &m.address);
		if (m.table) {
			struct etch_cursor c;

			kept++;
			m.end = UINT64_MAX;
			must((const uint8_t *)m.table >= copy && (const uint8_t *)m.table + m.size <= copy + cut);
			for (int k = 0; k < 50; k++) {
				for (int r = 0; r < 17; r++)
					regs[r] = rnd();
				regs[ETCH_RIP] = m.table->text + (m.table->text_size ? rnd() % m.table->text_size : 0);
				must(!etch_cursor_init_target(&c, &t, regs));
				for (int n = 0; n < 20 && !etch_step(&c);)
					n++;
			}
		}
		free(copy);
	}
	printf("%zu kept\n", kept);
	must(kept > 0);
	free(file);
}

/* ---- which tables ---------------------------------------------------------------------------------------------------- */

/* walks prepare N: that many modules have no table afterwards. */
static void case_prepare(void)
{
	int n = etch_unwind_prepare();

	if (n != atoi(arguments[0]))
		fail("%d modules without a table", n);
	bottom = with_check;
	places();
}

int main(int argc, char **argv)
{
	static const struct {
		const char *name;
		void (*run)(void);
		int prepare;
	} cases[] = {
		{ "plain", case_plain, 1 }, { "signal", case_signal, 1 }, { "altstack", case_altstack, 1 },
		{ "first", case_first, 1 }, { "step", case_step, 1 }, { "prof", case_prof, 1 },
		{ "limits", case_limits, 1 }, { "notable", case_notable, 0 }, { "reuse", case_reuse, 1 },
		{ "deep", case_deep, 1 }, { "coroutine", case_coroutine, 1 }, { "corrupt", case_corrupt, 1 },
		{ "smash", case_smash, 1 }, { "modules", case_modules, 1 }, { "threads", case_threads, 1 },
		{ "lazy", case_lazy, 1 }, { "fork", case_fork, 1 }, { "remote", case_remote, 1 }, { "prepare", case_prepare, 0 },
		{ "file", case_file, 0 },
	};

	orc = getenv("WALKS_ORC") != NULL;
	setvbuf(stdout, NULL, _IOLBF, 0);
	arguments = argv + 2;
	for (size_t i = 0; argc > 1 && i < sizeof(cases) / sizeof(*cases); i++)
		if (!strcmp(argv[1], cases[i].name)) {
			if (cases[i].prepare)
				must(etch_unwind_prepare() == 0);
			cases[i].run();
			puts("done");
			return 0;
		}
	return 2;
}
