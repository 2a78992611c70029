/* SPDX-License-Identifier: MIT */
/*
 * libetch's unwinder against glibc's backtrace(3), which interprets .eh_frame, from all
 * kinds of places. One case a process:
 *
 *     walks CASE [ARGUMENT...]
 *
 * Prints "done" when all was well; the first thing that is not ends it.
 */
#include <execinfo.h>
#include <pthread.h>
#include <setjmp.h>
#include <sys/time.h>
#include <sys/wait.h>

#include "walks.h"

char **arguments;

static uint64_t seed = 88172645463325252u;

uint64_t rnd(void)
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

void same(const char *what, void **a, int n, void **b, int m)
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

int cursor_rest(struct etch_cursor *c, void **ips, int *n)
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

__thread struct etch_walk previous;
int want = ETCH_UNWIND_END;
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

__thread const char *name;
void (*bottom)(void);

NOINLINE void with_check(void) { check_here(name); }

NOINLINE int frames(int n)
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

NOINLINE int frames_vla(int n)
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

NOINLINE void places(void)
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

int handled;

void on_signal(int sig, siginfo_t *info, void *context)
{
	(void)info;
	check_here("handler");
	check_context("context", context);
	handled++;
	if (sig == SIGUSR1 && handled % 2)
		raise(SIGUSR2);
}

void handle(int sig, void (*f)(int, siginfo_t *, void *), int flags)
{
	struct sigaction a;

	memset(&a, 0, sizeof(a));
	a.sa_sigaction = f;
	a.sa_flags = SA_SIGINFO | flags;
	must(!sigaction(sig, &a, NULL));
}

NOINLINE void raise_it(void)
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

void nothing(void) { BARRIER; }

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

uint64_t code_address(void)
{
	static void *const some[] = { (void *)printf, (void *)qsort, (void *)frames, (void *)frames_vla, (void *)work,
	                              (void *)snprintf, (void *)malloc, (void *)strtod, (void *)raise };

	return (uint64_t)some[rnd() % (sizeof(some) / sizeof(*some))] + rnd() % 600;
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
