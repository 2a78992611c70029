/* SPDX-License-Identifier: MIT */
/*
 * lib/interfaces: walks the same stack by each interface, ours (by its public name: preloaded or linked)
 * and the stock one (from its own library), and compares frame by frame: addresses, CFAs, callee-saved
 * registers, bounds of functions, LSDAs, names. From main, from a thread, from signal handlers on both
 * kinds of stack, from a qsort(3) callback, with signals at a function's first instruction.
 */
#define UNW_LOCAL_ONLY
#include <libunwind.h>

#include <dlfcn.h>
#include <execinfo.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <ucontext.h>
#include <unwind.h>

#define MAX 256

static unsigned long compared, failures, registers_seen, registers_unknown;

#define FAIL(...)                                     \
	do {                                              \
		printf("%s: ", where);                        \
		printf(__VA_ARGS__);                          \
		putchar('\n');                                \
		failures++;                                   \
	} while (0)

/* ---- the stock functions ---------------------------------------------------------- */

static struct {
	int (*backtrace)(void **, int);
	_Unwind_Reason_Code (*unwind)(_Unwind_Trace_Fn, void *);
	_Unwind_Ptr (*ip)(struct _Unwind_Context *);
	_Unwind_Ptr (*ip_info)(struct _Unwind_Context *, int *);
	_Unwind_Word (*cfa)(struct _Unwind_Context *);
	_Unwind_Word (*gr)(struct _Unwind_Context *, int);
	void *(*lsda)(struct _Unwind_Context *);
	_Unwind_Ptr (*start)(struct _Unwind_Context *);
	void *(*enclosing)(void *);
	int (*unw_backtrace)(void **, int);
	int (*getcontext)(unw_context_t *);
	int (*init)(unw_cursor_t *, unw_context_t *);
	int (*init2)(unw_cursor_t *, unw_context_t *, int);
	int (*step)(unw_cursor_t *);
	int (*reg)(unw_cursor_t *, int, unw_word_t *);
	int (*info)(unw_cursor_t *, unw_proc_info_t *);
	int (*name)(unw_cursor_t *, char *, size_t, unw_word_t *);
	int (*is_signal)(unw_cursor_t *);
} stock;

static void *from(const char *library, const char *name)
{
	void *handle = dlopen(library, RTLD_NOW | RTLD_LOCAL), *found = handle ? dlsym(handle, name) : NULL;

	if (!found) {
		printf("no %s in %s\n", name, library);
		exit(3);
	}
	return found;
}

static void stock_find(void)
{
	const char *gcc = "libgcc_s.so.1", *unw = "libunwind.so.8";

	*(void **)&stock.backtrace = from("libc.so.6", "backtrace");
	*(void **)&stock.unwind = from(gcc, "_Unwind_Backtrace");
	*(void **)&stock.ip = from(gcc, "_Unwind_GetIP");
	*(void **)&stock.ip_info = from(gcc, "_Unwind_GetIPInfo");
	*(void **)&stock.cfa = from(gcc, "_Unwind_GetCFA");
	*(void **)&stock.gr = from(gcc, "_Unwind_GetGR");
	*(void **)&stock.lsda = from(gcc, "_Unwind_GetLanguageSpecificData");
	*(void **)&stock.start = from(gcc, "_Unwind_GetRegionStart");
	*(void **)&stock.enclosing = from(gcc, "_Unwind_FindEnclosingFunction");
	*(void **)&stock.unw_backtrace = from(unw, "unw_backtrace");
	*(void **)&stock.getcontext = from(unw, "_Ux86_64_getcontext");
	*(void **)&stock.init = from(unw, "_ULx86_64_init_local");
	*(void **)&stock.init2 = from(unw, "_ULx86_64_init_local2");
	*(void **)&stock.step = from(unw, "_ULx86_64_step");
	*(void **)&stock.reg = from(unw, "_ULx86_64_get_reg");
	*(void **)&stock.info = from(unw, "_ULx86_64_get_proc_info");
	*(void **)&stock.name = from(unw, "_ULx86_64_get_proc_name");
	*(void **)&stock.is_signal = from(unw, "_ULx86_64_is_signal_frame");
	if ((void *)stock.backtrace == dlsym(RTLD_DEFAULT, "backtrace") ||
	    (void *)stock.unwind == dlsym(RTLD_DEFAULT, "_Unwind_Backtrace") ||
	    (void *)stock.step == dlsym(RTLD_DEFAULT, "_ULx86_64_step")) {
		printf("the public names are the stock functions\n");
		exit(3);
	}
}

/* ---- arrays ------------------------------------------------------------------------ */

/* The innermost addresses are of two calls, on two lines. */
static void arrays_compare(const char *where, const char *what, void **ours, int n, void **theirs, int m)
{
	if (n != m)
		FAIL("%s: %d frames for %d", what, n, m);
	for (int i = 1; i < n && i < m; i++) {
		compared++;
		if (ours[i] != theirs[i])
			FAIL("%s: frame %d: %p for %p", what, i, ours[i], theirs[i]);
	}
	if (n && m && ((char *)ours[0] < (char *)theirs[0] - 256 || (char *)ours[0] > (char *)theirs[0] + 256))
		FAIL("%s: frame 0: %p for %p", what, ours[0], theirs[0]);
}

static __attribute__((noinline)) void arrays(const char *where)
{
	void *ours[MAX], *theirs[MAX];
	int n, m;

	n = backtrace(ours, MAX);
	m = stock.backtrace(theirs, MAX);
	arrays_compare(where, "backtrace", ours, n, theirs, m);
	n = backtrace(ours, 3);
	m = stock.backtrace(theirs, 3);
	arrays_compare(where, "backtrace of 3", ours, n, theirs, m);
	if (backtrace(ours, 0) || backtrace(ours, -1))
		FAIL("backtrace stores frames where there is no space");
	n = unw_backtrace(ours, MAX);
	m = stock.unw_backtrace(theirs, MAX);
	arrays_compare(where, "unw_backtrace", ours, n, theirs, m);
}

/* ---- contexts ---------------------------------------------------------------------- */

struct context_frame {
	uint64_t ip, cfa, start, lsda, enclosing, gr[6];
	int before;
};

static const int saved[6] = {3, 6, 12, 13, 14, 15}; /* rbx rbp r12-r15 */

struct contexts {
	struct context_frame at[MAX];
	int count, stop_at, is_stock;
	_Unwind_Reason_Code code;
};

static _Unwind_Reason_Code context_note(struct _Unwind_Context *c, void *arg)
{
	struct contexts *t = arg;
	struct context_frame *f = &t->at[t->count];

	if (t->count == t->stop_at)
		return _URC_NORMAL_STOP;
	t->count++;
	f->ip = t->is_stock ? stock.ip(c) : _Unwind_GetIP(c);
	f->cfa = t->is_stock ? stock.cfa(c) : _Unwind_GetCFA(c);
	if ((t->is_stock ? stock.ip_info(c, &f->before) : _Unwind_GetIPInfo(c, &f->before)) != f->ip)
		f->ip = 1;
	if (!f->ip) { /* beyond the outermost frame, whose CFA is undefined */
		f->cfa = 0;
		return _URC_NO_REASON;
	}
	f->start = t->is_stock ? stock.start(c) : _Unwind_GetRegionStart(c);
	f->lsda = (uint64_t)(t->is_stock ? stock.lsda(c) : _Unwind_GetLanguageSpecificData(c));
	f->enclosing = (uint64_t)(t->is_stock ? stock.enclosing((void *)(f->ip + (uint64_t)f->before)) : _Unwind_FindEnclosingFunction((void *)(f->ip + (uint64_t)f->before)));
	for (int i = 0; i < 6; i++)
		f->gr[i] = t->is_stock ? stock.gr(c, saved[i]) : _Unwind_GetGR(c, saved[i]);
	return _URC_NO_REASON;
}

static __attribute__((noinline)) void contexts(const char *where)
{
	static __thread struct contexts ours, theirs;

	for (int stop = MAX; stop; stop = stop == MAX ? 4 : 0) {
		memset(&ours, 0, sizeof(ours));
		memset(&theirs, 0, sizeof(theirs));
		ours.stop_at = theirs.stop_at = stop;
		theirs.is_stock = 1;
		ours.code = _Unwind_Backtrace(context_note, &ours);
		theirs.code = stock.unwind(context_note, &theirs);
		if (ours.count != theirs.count || ours.code != theirs.code)
			FAIL("_Unwind_Backtrace: %d frames and code %d for %d and %d", ours.count, ours.code, theirs.count, theirs.code);
		for (int i = 0; i < ours.count && i < theirs.count; i++) {
			struct context_frame *a = &ours.at[i], *b = &theirs.at[i];

			compared++;
			if ((i && a->ip != b->ip) || a->cfa != b->cfa || a->start != b->start || a->lsda != b->lsda ||
			    a->enclosing != b->enclosing || a->before != b->before)
				FAIL("context %d: ip %lx/%lx cfa %lx/%lx start %lx/%lx lsda %lx/%lx enclosing %lx/%lx before %d/%d", i,
				     a->ip, b->ip, a->cfa, b->cfa, a->start, b->start, a->lsda, b->lsda, a->enclosing, b->enclosing,
				     a->before, b->before);
			for (int k = 0; k < 6; k++) {
				if (i && a->gr[k] != b->gr[k])
					FAIL("context %d: register %d is %lx for %lx", i, saved[k], a->gr[k], b->gr[k]);
				registers_seen++;
			}
		}
	}
}

/* ---- cursors ----------------------------------------------------------------------- */

/* Steps both to the end; they begin at the same frame, except for the address in it if `same_ip` is 0. */
static void cursors_compare(const char *where, unw_cursor_t *ours, unw_cursor_t *theirs, int same_ip)
{
	char a_name[128], b_name[128];
	unw_word_t a, b, a_off, b_off;
	unw_proc_info_t a_info, b_info;
	int n, m, frame = 0;

	do {
		compared++;
		if (unw_get_reg(ours, UNW_REG_IP, &a) || stock.reg(theirs, UNW_REG_IP, &b))
			FAIL("cursor, frame %d: no ip", frame);
		else if ((frame || same_ip) && a != b)
			FAIL("cursor, frame %d: ip %lx for %lx", frame, a, b);
		if (unw_get_reg(ours, UNW_REG_SP, &a) || stock.reg(theirs, UNW_REG_SP, &b) || a != b)
			FAIL("cursor, frame %d: rsp %lx for %lx", frame, a, b);
		for (int i = 0; i < 6; i++) {
			n = unw_get_reg(ours, saved[i], &a);
			m = stock.reg(theirs, saved[i], &b);
			if (!n && !m && a != b)
				FAIL("cursor, frame %d: register %d is %lx for %lx", frame, saved[i], a, b);
			if (n && !m)
				registers_unknown++;
			registers_seen++;
		}
		n = unw_get_proc_info(ours, &a_info);
		m = stock.info(theirs, &b_info);
		if ((!n) != (!m) || (!n && (a_info.start_ip != b_info.start_ip || a_info.end_ip != b_info.end_ip ||
		                            a_info.lsda != b_info.lsda || a_info.handler != b_info.handler)))
			FAIL("cursor, frame %d: info %d/%d %lx-%lx/%lx-%lx lsda %lx/%lx handler %lx/%lx", frame, n, m, a_info.start_ip,
			     a_info.end_ip, b_info.start_ip, b_info.end_ip, a_info.lsda, b_info.lsda, a_info.handler, b_info.handler);
		n = unw_get_proc_name(ours, a_name, sizeof(a_name), &a_off);
		m = stock.name(theirs, b_name, sizeof(b_name), &b_off);
		/* libunwind also takes the nearest symbol before an address that none contains. */
		if (!n && !m && (frame || same_ip) && a_off != b_off)
			FAIL("cursor, frame %d: %s+%lx for %s+%lx", frame, a_name, a_off, b_name, b_off);
		if (!n && frame && unw_get_proc_name(ours, a_name, 3, NULL) != -UNW_ENOMEM)
			FAIL("cursor, frame %d: a name in 3 bytes", frame);
		if ((unw_is_signal_frame(ours) > 0) != (stock.is_signal(theirs) > 0))
			FAIL("cursor, frame %d: signal frame %d for %d", frame, unw_is_signal_frame(ours), stock.is_signal(theirs));
		n = unw_step(ours);
		m = stock.step(theirs);
		if (n != m)
			FAIL("cursor, frame %d: step returns %d for %d", frame, n, m);
		frame++;
	} while (n > 0 && m > 0 && frame < MAX);
	if (unw_step(ours) != n)
		FAIL("cursor: another step at the end returns something else");
}

static __attribute__((noinline)) void cursors(const char *where, const void *ucontext)
{
	unw_context_t a, b;
	unw_cursor_t ours, theirs, copy;

	unw_getcontext(&a);
	stock.getcontext(&b);
	if (unw_init_local(&ours, &a) || stock.init(&theirs, &b))
		FAIL("init");
	memcpy(&copy, &ours, sizeof(copy)); /* "safe to make (shallow) copies" */
	memset(&ours, 0x55, sizeof(ours));
	cursors_compare(where, &copy, &theirs, 0);
	if (!ucontext)
		return;
	memcpy(&a, ucontext, sizeof(a));
	memcpy(&b, ucontext, sizeof(b));
	if (unw_init_local2(&ours, &a, UNW_INIT_SIGNAL_FRAME) || stock.init2(&theirs, &b, UNW_INIT_SIGNAL_FRAME))
		FAIL("init2");
	cursors_compare(where, &ours, &theirs, 1);
}

/* ---- where from ---------------------------------------------------------------------- */

static __attribute__((noinline)) void everything(const char *where, const void *ucontext)
{
	arrays(where);
	contexts(where);
	cursors(where, ucontext);
	__asm__ volatile("" ::: "memory");
}

static void handler(int sig, siginfo_t *info, void *ucontext)
{
	(void)info;
	everything(sig == SIGUSR1 ? "a handler" : "a handler on its own stack", ucontext);
}

/* ud2 in the first instruction; the handler skips it. */
void first_instruction(void);
__asm__(".pushsection .text\n.globl first_instruction\n.type first_instruction, @function\nfirst_instruction:\n"
        ".cfi_startproc\nud2\nret\n.cfi_endproc\n.size first_instruction, .-first_instruction\n.popsection");

static void skip(int sig, siginfo_t *info, void *context)
{
	ucontext_t *u = context;

	(void)sig, (void)info;
	everything("a function's first instruction", context);
	u->uc_mcontext.gregs[REG_RIP] += 2;
}

static int compare(const void *a, const void *b)
{
	static int once;

	if (!once++)
		everything("qsort's callback", NULL);
	return *(const int *)a - *(const int *)b;
}

/* Frames of all kinds: rbp-based, variable, realigned, all callee-saved registers in use. */
static __attribute__((noinline)) long deep(int n, long a, long b, long c)
{
	volatile char capacity[n * 16 + 16];
	long d = a * 3 + b, e = b * 5 + c, f = c * 7 + a;

	capacity[0] = (char)n;
	if (n)
		d += deep(n - 1, d, e, f);
	else
		everything("depth", NULL);
	return d + e + f + capacity[0] + a + b + c;
}

static void *thread(void *arg)
{
	char *stack = malloc(1 << 16);
	stack_t alt = {.ss_sp = stack, .ss_size = 1 << 16};

	(void)arg;
	everything("a thread", NULL);
	deep(20, 1, 2, 3);
	sigaltstack(&alt, NULL);
	pthread_kill(pthread_self(), SIGUSR2);
	alt.ss_flags = SS_DISABLE;
	sigaltstack(&alt, NULL);
	free(stack);
	return NULL;
}

int main(void)
{
	struct sigaction sa = {.sa_sigaction = handler, .sa_flags = SA_SIGINFO};
	int numbers[4] = {4, 2, 3, 1};
	pthread_t t;

	stock_find();
	sigaction(SIGUSR1, &sa, NULL);
	raise(SIGUSR1);
	everything("main", NULL);
	deep(40, 1, 2, 3);
	qsort(numbers, 4, sizeof(int), compare);
	raise(SIGUSR1);
	sa.sa_flags |= SA_ONSTACK;
	sigaction(SIGUSR2, &sa, NULL);
	sa.sa_sigaction = skip;
	sigaction(SIGILL, &sa, NULL);
	first_instruction();
	pthread_create(&t, NULL, thread, NULL);
	pthread_join(t, NULL);
	printf("%lu frames compared, %lu registers, %lu unknown, %lu failures\n", compared, registers_seen, registers_unknown,
	       failures);
	return failures ? 1 : 0;
}
