/* SPDX-License-Identifier: MIT */
/*
 * stress.c: `stress CALLS SETS THREADS PLUGIN`. Threads call through a site of every
 * form without a pause while slots are set, singly, in batches, by release and sync;
 * modules with sites and with targets come and go; children are forked that call and
 * set too; a timer and SIGUSR1 interrupt all of it, to walk the stack and to call
 * through the same sites. Ends when there were CALLS calls and SETS sets, and prints
 * how many calls ran anything but one target that their slot held.
 *
 * `stress once`: one thread, every site with every target once, for a debugger.
 */
#include <dlfcn.h>
#include <errno.h>
#include <etch/unwind.h>
#include <execinfo.h>
#include <inttypes.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#include "../check.h"
#include "pv/stress.h"

struct history history[SLOTS];
static _Atomic uint64_t calls, unsure, wrong, last_wrong, sets, set_errors, forks, loads, signals, walks, walks_whole,
	walks_wrong, nops;
static _Atomic int stop;

/* ---- walks: from inside a callee and from a handler ------------------------------------ */

#define DEPTH 64

/* libgcc's: the FDE of code; null without. struct dwarf_eh_bases is three pointers. */
const void *_Unwind_Find_FDE(void *pc, void *bases[3]);

/* glibc's list ends at code without an FDE, such as crtbeginS.o's __do_global_dtors_aux, which dlclose() runs. */
static int is_without_fde(void *pc)
{
	void *bases[3];

	return !_Unwind_Find_FDE(pc, bases);
}

/* Both lists begin at the same return address; where etch's does not end complete, it
 * must be a prefix of glibc's. */
static void walks_compare(void **etch, int n, int status, void **libc, int m)
{
	int same = 0;

	while (same < n && same < m && etch[same] == libc[same])
		same++;
	walks++;
	/* glibc's list may end with a null for the outermost frame. */
	while (m && !libc[m - 1])
		m--;
	if (same == m && m && m < n && is_without_fde(libc[m - 1]))
		return;
	if (same < n || (status == ETCH_UNWIND_END && same < m)) {
		if (!walks_wrong++) {
			fprintf(stderr, "walks differ at %d of %d and %d, status %d\n", same, n, m, status);
			for (int i = 0; i < n || i < m; i++)
				fprintf(stderr, "  %p %p\n", i < n ? etch[i] : NULL, i < m ? libc[i] : NULL);
		}
	} else if (status == ETCH_UNWIND_END) {
		walks_whole++;
	}
}

static __attribute__((noinline)) void walk_here(void)
{
	void *a[DEPTH], *b[DEPTH];
	int n = etch_backtrace(a, DEPTH), m = backtrace(b, DEPTH), k, status, found = 0;
	struct etch_cursor c;

	/* Both begin in this function, at different calls. */
	etch_cursor_init(&c, NULL);
	while ((status = etch_step(&c)) == ETCH_UNWIND_OK)
		;
	for (k = 1; k < m; k++)
		found |= n > 1 && b[k] == a[1];
	if (!found)
		walks_wrong++;
	else
		walks_compare(a + 1, n - 1, status, b + 1, m - 1);
}

/* ---- targets ------------------------------------------------------------------------- */

static __thread uint64_t turn;
static __thread unsigned counted[2];
static __thread _Atomic int reading;

/* Two that walk the stack at times. */
static SITE_ALONE uint64_t direct0(uint64_t a, uint64_t b)
{
	if (++turn % 4096 == 0)
		walk_here();
	return 3 * a + b + 1000001;
}
static SITE_ALONE uint64_t direct1(uint64_t a, uint64_t b) { return 5 * a - b + 1000003; }
static uint64_t first(uint64_t a, uint64_t b) { (void)b; return a; }
static uint64_t zero(uint64_t a, uint64_t b) { (void)a; (void)b; return 0; }
static uint64_t five(uint64_t a, uint64_t b) { (void)a; (void)b; return 5; }
uint64_t native_add(uint64_t a, uint64_t b);
uint64_t native_two(uint64_t a, uint64_t b);
PV_NATIVE(native_add, "lea (%rdi,%rsi), %rax");
PV_NATIVE(native_two, "mov %rdi, %rax; sub %rsi, %rax");
static SITE_ALONE void count0(void) { counted[0]++; }
static SITE_ALONE void count1(void)
{
	counted[1]++;
	if (counted[1] % 4096 == 0)
		walk_here();
}

DEFINE_PV_OPS(struct stress_ops, stress_ops) = {.asm0 = direct0, .asm1 = pv_ident_64, .c0 = direct0, .c1 = direct1, .v = pv_nop};

static two_fn *plugin_target; /* while it is loaded */

/* Any of them to a slot's pointer; the void ones are of another type. */
static void *target_function(enum slot s, enum target t)
{
	void *two[TARGETS] = {(void *)direct0, (void *)direct1, pv_ident_64, (void *)first, (void *)native_add,
	                      (void *)native_two, (void *)zero, (void *)five, (void *)plugin_target, pv_nop};

	if (s == V && t != NOP)
		return t == DIRECT0 ? (void *)count0 : (void *)count1;
	return s == V ? pv_nop : two[t];
}

/* A slot's address for etch, without letting it escape. */
static void *slot_address(enum slot s)
{
	switch (s) {
	case ASM0: return ETCH_ADDR(stress_ops.asm0);
	case ASM1: return ETCH_ADDR(stress_ops.asm1);
	case C0: return ETCH_ADDR(stress_ops.c0);
	case C1: return ETCH_ADDR(stress_ops.c1);
	default: return ETCH_ADDR(stress_ops.v);
	}
}

/* ---- sites -------------------------------------------------------------------------- */

SITE_CALL(call_rip, "", "call *stress_ops(%rip)");
SITE_CALL(call_rip_notrack, "", "notrack call *stress_ops+8(%rip)");
SITE_CALL(call_base, "leaq stress_ops(%rip), %r11", "call *8(%r11)");
SITE_CALL(call_base0, "leaq stress_ops(%rip), %r10", "call *(%r10)");
SITE_CALL(call_base32, "leaq stress_ops(%rip), %r10", ".byte 0x41, 0xff, 0x92; .long 8"); /* call *8(%r10), disp32 */
SITE_CALL(call_base_back, "leaq stress_ops+200(%rip), %rcx", "call *-200(%rcx)");
SITE_CALL(call_base_sib, "pushq %r12\n\t.cfi_adjust_cfa_offset 8\n\tpushq %r12\n\t.cfi_adjust_cfa_offset 8\n\t"
          "leaq stress_ops(%rip), %r12", "call *8(%r12)\n\tpopq %r12\n\t.cfi_adjust_cfa_offset -8\n\tpopq %r12\n\t"
          ".cfi_adjust_cfa_offset -8");
SITE_CALL(call_base_notrack, "leaq stress_ops(%rip), %r9", "notrack call *8(%r9)");
SITE_CALL(call_got, "movq stress_ops@GOTPCREL(%rip), %r8", "call *(%r8)");
SITE_CALL(call_reg, "movq stress_ops(%rip), %r11", "call *%r11");
SITE_CALL(call_reg_low, "movq stress_ops+8(%rip), %rcx\n\tmovq %rcx, %rdx", "call *%rdx");
SITE_CALL(call_reg_notrack, "movq stress_ops+8(%rip), %r10", "notrack call *%r10");
SITE_JMP(jmp_rip, "", "jmp *stress_ops(%rip)");
SITE_JMP(jmp_rip_notrack, "", "notrack jmp *stress_ops+8(%rip)");
SITE_JMP(jmp_base, "leaq stress_ops(%rip), %r11", "jmp *8(%r11)");
SITE_JMP(jmp_base32, "leaq stress_ops(%rip), %rcx", ".byte 0xff, 0xa1; .long 0"); /* jmp *(%rcx), disp32 */
SITE_JMP(jmp_base_notrack, "leaq stress_ops(%rip), %r9", ".byte 0x3e, 0x41, 0xff, 0xa1; .long 8"); /* notrack jmp *8(%r9), disp32 */
SITE_JMP(jmp_reg, "movq stress_ops(%rip), %r11", "jmp *%r11");
SITE_JMP(jmp_reg_notrack, "movq stress_ops+8(%rip), %rdx", "notrack jmp *%rdx");
#ifndef __PIC__
SITE_CALL(call_abs, "", "call *stress_ops");
SITE_CALL(call_abs_notrack, "", "notrack call *stress_ops+8");
SITE_JMP(jmp_abs, "", "jmp *stress_ops+8");
SITE_JMP(jmp_abs_notrack, "", "notrack jmp *stress_ops");
#endif

/* What the compiler makes of C. */
static SITE_ALONE uint64_t c_tail(uint64_t a, uint64_t b) { return stress_ops.c0(a, b); }
static SITE_ALONE uint64_t c_call(uint64_t a, uint64_t b)
{
	uint64_t r = stress_ops.c1(a, b);

	__asm__ volatile("" : "+r"(r));
	return r;
}
static SITE_ALONE uint64_t c_if(uint64_t a, uint64_t b)
{
	two_fn *f = stress_ops.c0;

	return f ? f(a, b) : 1;
}
static SITE_ALONE uint64_t c_swapped(uint64_t b, uint64_t a) { return stress_ops.c1(a, b); }
static SITE_ALONE uint64_t c_swap(uint64_t a, uint64_t b) { return c_swapped(b, a); }
static SITE_ALONE uint64_t c_pick(uint64_t a, uint64_t b)
{
	const struct stress_ops *o = &stress_ops;

	__asm__("" : "+r"(o)); /* no site, and right all the same */
	return o->c1(a, b);
}
static SITE_ALONE void c_void(void) { stress_ops.v(); }
static SITE_ALONE void c_void_call(void)
{
	stress_ops.v();
	__asm__ volatile("");
}

static const struct { enum slot slot; two_fn *call; const char *name; } sites[] = {
#define S(slot, name) {slot, name, #name}
	S(ASM0, call_rip), S(ASM1, call_rip_notrack), S(ASM1, call_base), S(ASM0, call_base0), S(ASM1, call_base32),
	S(ASM0, call_base_back), S(ASM1, call_base_sib), S(ASM1, call_base_notrack), S(ASM0, call_got), S(ASM0, call_reg),
	S(ASM1, call_reg_low), S(ASM1, call_reg_notrack), S(ASM0, jmp_rip), S(ASM1, jmp_rip_notrack), S(ASM1, jmp_base),
	S(ASM0, jmp_base32), S(ASM1, jmp_base_notrack), S(ASM0, jmp_reg), S(ASM1, jmp_reg_notrack),
#ifndef __PIC__
	S(ASM0, call_abs), S(ASM1, call_abs_notrack), S(ASM1, jmp_abs), S(ASM0, jmp_abs_notrack),
#endif
	S(C0, c_tail), S(C1, c_call), S(C0, c_if), S(C1, c_swap), S(C1, c_pick),
};
#define SITES (sizeof(sites) / sizeof(sites[0]))

/* One call of the void slot: at most one count, of a target that the slot held. */
static int void_ok(void_fn *site)
{
	struct history *h = &history[V];
	unsigned before[2] = {counted[0], counted[1]}, d0, d1;
	uint64_t done = atomic_load(&h->done), begun, n;
	enum target ran;

	site();
	begun = atomic_load(&h->begun);
	d0 = counted[0] - before[0];
	d1 = counted[1] - before[1];
	if (d0 + d1 > 1)
		return 0;
	ran = d1 ? DIRECT1 : NOP;
	if (d0)
		ran = DIRECT0;
	if (begun - done > RING / 2)
		return -1;
	for (n = done; n <= begun; n++)
		if (h->ring[n % RING] == ran)
			return 1;
	return 0;
}

static void judge(int ok, uint64_t which)
{
	if (ok > 0)
		return;
	if (ok < 0) {
		unsure++;
		return;
	}
	if (!wrong++)
		fprintf(stderr, "wrong: site %" PRIu64 " %s\n", which, which < SITES ? sites[which].name : "void");
	last_wrong = which;
}

/* Every site once. */
static void sites_call(uint64_t salt)
{
	for (unsigned i = 0; i < SITES; i++) {
		uint64_t a = salt << 24 | i << 8 | 3, b = salt ^ 0x123456789abc;

		judge(call_ok(sites[i].slot, sites[i].call, a, b), i);
	}
	judge(void_ok(c_void), SITES);
	judge(void_ok(c_void_call), SITES + 1);
	calls += SITES + 2;
}

/* ---- signals ----------------------------------------------------------------------- */

static void handler(int sig, siginfo_t *info, void *context)
{
	void *a[DEPTH], *b[DEPTH];
	int n, m, i, status, error = errno;
	unsigned saved[2] = {counted[0], counted[1]};

	(void)info;
	signals++;
	n = etch_backtrace_from(context, a, DEPTH, &status);
	m = backtrace(b, DEPTH);
	/* b[0] is this call of backtrace(). A nested signal may have interrupted its return, at the same address. */
	for (i = 1; i < m && b[i] != a[0]; i++)
		;
	if (i < m)
		walks_compare(a, n, status, b + i, m - i);
	if (sig == SIGUSR1 && atomic_load(&reading))
		sites_call(signals);
	counted[0] = saved[0];
	counted[1] = saved[1];
	errno = error;
}

/* ---- threads ---------------------------------------------------------------------- */

static pthread_t readers[32];
static _Atomic uint64_t epoch[32];
static unsigned threads;

static void *reader_thread(void *arg)
{
	unsigned me = (unsigned)(uintptr_t)arg;

	atomic_store(&reading, 1);
	for (uint64_t i = me; !stop; i += 32) {
		sites_call(i);
		atomic_fetch_add(&epoch[me], 1);
	}
	atomic_store(&reading, 0);
	return NULL;
}

static uint64_t rnd(uint64_t *x)
{
	*x ^= *x << 13;
	*x ^= *x >> 7;
	*x ^= *x << 17;
	return *x;
}

static pthread_mutex_t slot_lock[SLOTS] = {PTHREAD_MUTEX_INITIALIZER, PTHREAD_MUTEX_INITIALIZER, PTHREAD_MUTEX_INITIALIZER,
                                           PTHREAD_MUTEX_INITIALIZER, PTHREAD_MUTEX_INITIALIZER};

static enum target target_pick(enum slot s, uint64_t r)
{
	static const enum target of_void[] = {NOP, DIRECT0, DIRECT1};

	if (s == V)
		return of_void[r % 3];
	if ((s == ASM0 || s == ASM1) && r % 4 == 0)
		return NOP;
	return (enum target)((r >> 8) % PLUGIN);
}

static void set_begin(enum slot s, enum target t)
{
	struct history *h = &history[s];

	h->ring[(h->begun + 1) % RING] = (uint8_t)t;
	atomic_fetch_add(&h->begun, 1);
	if (t == NOP)
		nops++;
}
static void set_end(enum slot s, int error)
{
	if (error && !set_errors++)
		fprintf(stderr, "set: %s\n", etch_strerror(error));
	atomic_store(&history[s].done, atomic_load(&history[s].begun));
	sets++;
}

/* With its lock held. */
static void set_one(enum slot s, enum target t)
{
	void *to = target_function(s, t);

	set_begin(s, t);
	set_end(s, etch_set_bytes(slot_address(s), &to, sizeof(to)));
}

static void *setter_thread(void *arg)
{
	uint64_t x = 88172645463325252ul + (uintptr_t)arg;

	while (!stop) {
		uint64_t r = rnd(&x);

		if (r % 16 == 0) {
			void *to[SLOTS];
			struct etch_change c[SLOTS];
			int error;

			for (int s = 0; s < SLOTS; s++) {
				enum target t = target_pick((enum slot)s, rnd(&x));

				pthread_mutex_lock(&slot_lock[s]);
				to[s] = target_function((enum slot)s, t);
				c[s] = (struct etch_change){slot_address((enum slot)s), &to[s], sizeof(to[s])};
				set_begin((enum slot)s, t);
			}
			error = etch_set_batch(c, SLOTS);
			for (int s = 0; s < SLOTS; s++) {
				set_end((enum slot)s, error);
				pthread_mutex_unlock(&slot_lock[s]);
			}
		} else if (r % 256 == 1) {
			/* A phase of plain stores. */
			void *volatile *at = slot_address(C0);
			enum target t = target_pick(C0, rnd(&x));

			for (int s = 0; s < SLOTS; s++)
				pthread_mutex_lock(&slot_lock[s]);
			if (etch_release_bytes((void *)at, 8))
				set_errors++;
			set_begin(C0, t);
			*at = target_function(C0, t);
			set_end(C0, etch_sync_bytes((void *)at, 8));
			for (int s = 0; s < SLOTS; s++)
				pthread_mutex_unlock(&slot_lock[s]);
		} else {
			enum slot s = (enum slot)((r >> 16) % SLOTS);

			pthread_mutex_lock(&slot_lock[s]);
			set_one(s, target_pick(s, r >> 20));
			pthread_mutex_unlock(&slot_lock[s]);
		}
	}
	return NULL;
}

/* Until no reader is inside a call that began before. */
static void readers_wait(void)
{
	for (unsigned i = 0; i < threads; i++) {
		uint64_t was = atomic_load(&epoch[i]);

		while (!stop && atomic_load(&epoch[i]) < was + 2)
			usleep(100);
	}
}

static void *load_thread(void *path)
{
	while (!stop) {
		void *h = dlopen(path, RTLD_NOW | RTLD_LOCAL);
		int (*check)(unsigned);
		enum slot s = (enum slot)(loads % V);
		int bad;

		if (!h) {
			fprintf(stderr, "%s\n", dlerror());
			exit(1);
		}
		*(void **)&check = dlsym(h, "plugin_check");
		pthread_mutex_lock(&slot_lock[s]);
		*(void **)&plugin_target = dlsym(h, "plugin_target");
		set_one(s, PLUGIN);
		bad = check(300);
		calls += 1200;
		if (bad) {
			fprintf(stderr, "plugin: %d wrong\n", bad);
			wrong += (uint64_t)bad;
		}
		set_one(s, DIRECT1);
		plugin_target = NULL;
		pthread_mutex_unlock(&slot_lock[s]);
		readers_wait();
		if (stop)
			break; /* readers may still be in there */
		dlclose(h);
		loads++;
	}
	return NULL;
}

/* In a child: no set is half done, every call gives what the slot holds, and they go
 * on from there without the parent. */
static int child(void)
{
	uint64_t before = wrong;

	for (int s = 0; s < SLOTS; s++) /* another thread may have been between the two */
		atomic_store(&history[s].done, atomic_load(&history[s].begun) ? atomic_load(&history[s].begun) - 1 : 0);
	sites_call(77);
	if (etch_verify(NULL, NULL))
		return 1;
	for (enum target t = DIRECT0; t < PLUGIN; t++) {
		for (int s = 0; s < SLOTS; s++)
			set_one((enum slot)s, target_pick((enum slot)s, (uint64_t)t << 8 | (uint64_t)t));
		sites_call(t);
	}
	return wrong != before || set_errors || etch_verify(NULL, NULL) ? 1 : 0;
}

/* With the parent's memory: calls only. Not inlined: it must not change the caller's frame. */
static __attribute__((noinline)) int vfork_calls(void)
{
	sites_call(99);
	return 0;
}

static void *fork_thread(void *arg)
{
	(void)arg;
	while (!stop) {
		pid_t pid;
		int status;

		if (forks % 4 == 3) {
			pid = vfork();
			if (pid == 0)
				_exit(vfork_calls());
		} else {
			pid = fork();
			if (pid == 0)
				_exit(child());
		}
		CHECK(pid > 0 && waitpid(pid, &status, 0) == pid);
		if (status) {
			fprintf(stderr, "child: status %d\n", status);
			wrong++;
			last_wrong = 2000;
		}
		forks++;
		usleep(3000);
	}
	return NULL;
}

static SITE_ALONE int every_once(void)
{
	CHECK(etch_sync(&stress_ops, sizeof(stress_ops)) == 0);
	for (enum target t = DIRECT0; t < TARGETS; t++) {
		for (int s = 0; s < SLOTS; s++) {
			if (t != PLUGIN && (t != NOP || s == ASM0 || s == ASM1 || s == V))
				set_one((enum slot)s, s == V ? target_pick(V, t) : t);
		}
		sites_call(t);
	}
	printf("wrong %" PRIu64 " errors %" PRIu64 " sets %" PRIu64 " calls %" PRIu64 "\n", wrong, set_errors, sets, calls);
	return wrong || set_errors;
}

int main(int argc, char **argv)
{
	struct sigaction sa = {.sa_sigaction = handler, .sa_flags = SA_SIGINFO | SA_RESTART};
	struct itimerval timer = {{0, 2000}, {0, 2000}};
	struct etch_info info = {.size = sizeof(info)};
	pthread_t t[4];
	uint64_t want_calls, want_sets;
	void *warm[4];

	if (argc == 2 && !strcmp(argv[1], "once"))
		return every_once();
	if (argc != 5)
		return 2;
	want_calls = strtoull(argv[1], NULL, 0);
	want_sets = strtoull(argv[2], NULL, 0);
	threads = (unsigned)atoi(argv[3]);
	CHECK(threads >= 1 && threads <= 32);
	backtrace(warm, 4); /* loads libgcc_s, which a handler could not */
	etch_unwind_prepare();
	/* Other modules could name it: it starts unarmed. */
	CHECK(etch_sync(&stress_ops, sizeof(stress_ops)) == 0);
	history[ASM0].ring[0] = history[C0].ring[0] = DIRECT0;
	history[ASM1].ring[0] = IDENT;
	history[C1].ring[0] = DIRECT1;
	history[V].ring[0] = NOP;
	CHECK(etch_info(&info) == 0);
	sigaction(SIGALRM, &sa, NULL);
	sigaction(SIGUSR1, &sa, NULL);
	setitimer(ITIMER_REAL, &timer, NULL);
	for (unsigned i = 0; i < threads; i++)
		CHECK(!pthread_create(&readers[i], NULL, reader_thread, (void *)(uintptr_t)i));
	for (uintptr_t i = 0; i < 2; i++)
		CHECK(!pthread_create(&t[i], NULL, setter_thread, (void *)i));
	CHECK(!pthread_create(&t[2], NULL, load_thread, argv[4]));
	CHECK(!pthread_create(&t[3], NULL, fork_thread, NULL));
	for (unsigned i = 0; calls < want_calls || sets < want_sets || forks < 10 || loads < 10; i++) {
		usleep(1000);
		pthread_kill(readers[i % threads], SIGUSR1);
	}
	stop = 1;
	for (unsigned i = 0; i < threads; i++)
		CHECK(!pthread_join(readers[i], NULL));
	for (unsigned i = 0; i < 4; i++)
		CHECK(!pthread_join(t[i], NULL));
	memset(&timer, 0, sizeof(timer));
	setitimer(ITIMER_REAL, &timer, NULL);
	printf("calls %" PRIu64 " unsure %" PRIu64 " sets %" PRIu64 " nops %" PRIu64 " errors %" PRIu64 " loads %" PRIu64 " forks %" PRIu64
	       " signals %" PRIu64 " walks %" PRIu64 " whole %" PRIu64 " walkswrong %" PRIu64 " verify %ld wrong %" PRIu64 "\n",
	       calls, unsure, sets, nops, set_errors, loads, forks, signals, walks, walks_whole, walks_wrong,
	       etch_verify(NULL, NULL), wrong);
	return wrong || set_errors || walks_wrong || etch_verify(NULL, NULL);
}
