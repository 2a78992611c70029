/* SPDX-License-Identifier: MIT */
/*
 * pv_cases.c: what libetch does with call sites, case by case, on tables written by
 * hand. Linked with the step that no tool has seen: patched when the module is loaded.
 *
 *     pv_cases CASE [PLUGIN]
 */
#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <sys/prctl.h>
#include <sys/wait.h>

#include "pv_site.h"

typedef long function(long, long);

long one(long a, long b);
long two(long a, long b);
ALONE long one(long a, long b) { return a + 10 * b + (long)(uintptr_t)getenv("PV_CASES_ONE"); }
ALONE long two(long a, long b) { return a + 100 * b + (long)(uintptr_t)getenv("PV_CASES_ONE"); }
NATIVE(nothing, "", 1);
NATIVE(ident, "mov %rdi, %rax", 3);
NATIVE(sum, "lea (%rdi,%rsi), %rax", 3);
NATIVE(after, "mov %edi, %eax\n\tinc %eax", 1); /* two instructions */
NATIVE(unseen, "mov %rsi, %rax", 0);

/* Exported, so that a plugin reaches it through its GOT. */
struct ops {
	function *a, *b, *c;
	int flag;
	function *null;
};
ETCHED struct ops ops = {.a = one, .b = ident, .c = nothing, .flag = 1};
ETCHED struct ops others = {.a = two};
OBJECT_RECORD("ops", 40, 0);
OBJECT_RECORD("others", 40, 0);
FACT_RECORD("others", 2, 0); /* a plain store: starts with loads */

CALLER(call_a, "ops", 0);
CALLER(call_b, "ops+8", 2);
CALLER(call_c, "ops+16", 1);
CALLER(call_null, "ops+32", 0);
CALLER(call_a_wide, "ops", 5);
JUMPER(jump_a, "ops", 0);
JUMPER(jump_c, "ops+16", 2);
CALLER(call_others, "others", 0);
READER32(flag_wide, "ops+24", 4)
READER32(flag_live, "ops+24", 0)

static int set(function **slot, const void *to)
{
	return etch_set_bytes(slot, &to, 8);
}


#define CHECK_FORM(site, form) CHECK_EQ(call_form(site), form)

static void keep(uint8_t *to, const volatile uint8_t *site) { memcpy(to, hide(site), 8); }
static int kept(const uint8_t *was, const volatile uint8_t *site) { return !memcmp(was, hide(site), 8); }

static int faults(function *f)
{
	int status;
	pid_t pid;

	fflush(NULL);
	pid = fork();
	if (!pid) {
		signal(SIGSEGV, SIG_DFL);
		f(1, 2);
		_exit(0);
	}
	CHECK(waitpid(pid, &status, 0) == pid);
	return WIFSIGNALED(status) && WTERMSIG(status) == SIGSEGV;
}

/* ---- what a call does ------------------------------------------------------------ */

static void case_calls(void)
{
	struct etch_info i = info_now();

	CHECK_EQ(i.calls, 8);
	CHECK_EQ(i.calls_fixed, 0);
	CHECK_EQ(i.calls_by_swap, 1);
	CHECK_EQ(i.calls_direct, 3);
	CHECK_EQ(i.calls_inline, 3);
	CHECK_EQ(i.calls_indirect, 2);
	CHECK_EQ(i.patched_at_start, 8); /* with both of flag */
	CHECK_EQ(i.sealed_objects, 0);
	CHECK_PERMS(&ops, "r--p");
	CHECK_FORM(call_a_site, DIRECT);
	CHECK_FORM(jump_a_site, DIRECT);
	CHECK_FORM(call_b_site, INLINE);
	CHECK_FORM(call_c_site, INLINE);
	CHECK_FORM(jump_c_site, INLINE);
	CHECK_FORM(call_a_wide_site, DIRECT);
	CHECK_FORM(call_null_site, INDIRECT);
	CHECK_FORM(call_others_site, INDIRECT);
	CHECK_EQ(call_a(1, 2), 21);
	CHECK_EQ(jump_a(1, 2), 21);
	CHECK_EQ(call_a_wide(1, 2), 21);
	CHECK_EQ(call_b(7, 2), 7);
	CHECK_EQ(call_others(1, 2), 201);
	call_c(1, 2);
	jump_c(1, 2);
	CHECK(faults(call_null));

	CHECK_EQ(set(&ops.a, sum), 0);
	CHECK_FORM(call_a_site, INLINE);
	CHECK_FORM(jump_a_site, DIRECT); /* a body does not return */
	CHECK_EQ(call_a(1, 2), 3);
	CHECK_EQ(jump_a(1, 2), 3);
	CHECK_EQ(call_a_wide(1, 2), 3);
	CHECK_EQ(set(&ops.a, after), 0);
	CHECK_FORM(call_a_site, DIRECT); /* two instructions */
	CHECK_EQ(call_a(1, 2), 2);
	CHECK_EQ(set(&ops.a, unseen), 0);
	CHECK_FORM(call_a_site, DIRECT);
	CHECK_EQ(call_a(1, 2), 2);
	CHECK_EQ(set(&ops.a, NULL), 0);
	CHECK_FORM(call_a_site, INDIRECT);
	CHECK(faults(call_a) && faults(jump_a) && faults(call_a_wide));
	CHECK_EQ(set(&ops.null, two), 0);
	CHECK_EQ(call_null(1, 2), 201);
	CHECK_EQ(set(&ops.a, one), 0);

	CHECK_EQ(etch_release(&ops, sizeof(ops)), 0);
	CHECK_EQ(info_now().calls_indirect, 8);
	*(function *volatile *)&ops.a = two;
	CHECK_EQ(call_a(1, 2) + jump_a(1, 2), 402);
	CHECK_EQ(etch_sync(&ops, sizeof(ops)), 0);
	CHECK_FORM(call_a_site, DIRECT);
	CHECK_EQ(call_a(1, 2) + jump_a(1, 2), 402);
	CHECK_EQ(etch_sync(&others, sizeof(others)), 0);
	CHECK_FORM(call_others_site, DIRECT);
	CHECK_EQ(call_others(1, 2), 201);
	CHECK_EQ(etch_verify(NULL, NULL), 0);
}

/* A pointer and what goes with it, as one batch; a stub by its code alone. */
ALONE static long stub_zero(long a, long b) { (void)a; (void)b; return 0; }
ALONE static long stub_first(long a, long b) { (void)b; return a; }

static void case_batch(void)
{
	const void *to[2] = {stub_zero, stub_first};
	int flag = 77;
	struct etch_change c[] = {{&ops.a, &to[0], 8}, {&ops.flag, &flag, 4}, {&ops.b, &to[1], 8}};

	CHECK_EQ(etch_set_batch(c, 3), 0);
	CHECK_FORM(call_a_site, INLINE);
	CHECK_FORM(call_b_site, INLINE);
	CHECK_EQ(call_a(5, 6), 0);
	CHECK_EQ(call_b(5, 6), 5);
	CHECK_EQ(flag_live() + flag_wide(), 154);
	CHECK_EQ(etch_verify(NULL, NULL), 0);
	/* One of them cannot be: none is changed. */
	to[0] = two;
	flag = 78;
	poke(call_b_site, "\xcc", 1);
	CHECK_EQ(etch_set_batch(c, 2), 0);
	to[1] = one;
	CHECK_EQ(etch_set_batch(c, 3), ETCH_EBUSY);
	CHECK_EQ(call_a(1, 2), 201);
	CHECK(ops.b == stub_first);
}

/* ---- bytes that are not expected ------------------------------------------------------ */

static long reported;

static void report(void *arg, const void *site, const void *object)
{
	const void **want = arg;

	CHECK(site == want[0] && object == want[1]);
	reported++;
}

static void case_foreign(void)
{
	static const uint8_t foreign[6] = {0xe9, 1, 0, 0, 0, 0x90}, nop[6] = {0x66, 0x0f, 0x1f, 0x44, 0, 0};
	const void *want[2] = {(const void *)(uintptr_t)call_a_site, &ops.a};
	uint8_t was[8], call[6];
	int32_t to_two = (int32_t)((intptr_t)two - ((intptr_t)call_a_site + 6));

	/* A debugger's breakpoint. */
	keep(was, call_a_site);
	poke(call_a_site, "\xcc", 1);
	CHECK_EQ(set(&ops.a, two), ETCH_EBUSY);
	CHECK_EQ(etch_sync(&ops, sizeof(ops)), ETCH_EBUSY);
	CHECK_EQ(etch_release(&ops, sizeof(ops)), ETCH_EBUSY);
	CHECK_EQ(etch_seal(&ops, sizeof(ops)), ETCH_EBUSY);
	CHECK_EQ(info_now().sealed_objects, 0);
	CHECK_EQ(etch_verify(NULL, NULL), 0);
	CHECK(ops.a == one);
	CHECK_EQ(jump_a(1, 2), 21);
	poke(call_a_site, was, 1);

	/* Somebody's own patch. */
	poke(call_a_site, foreign, 6);
	keep(was, call_a_site);
	CHECK_EQ(set(&ops.a, two), ETCH_ECODE);
	CHECK_EQ(etch_sync(&ops, sizeof(ops)), ETCH_ECODE);
	CHECK_EQ(etch_release(&ops, sizeof(ops)), ETCH_ECODE);
	CHECK(kept(was, call_a_site) && ops.a == one);
	CHECK_EQ(etch_verify(report, want), 1);
	CHECK_EQ(reported, 1);

	/* A call of something else: only a sync makes it right. */
	memcpy(call, "\x67\xe8", 2);
	memcpy(call + 2, &to_two, 4);
	poke(call_a_site, call, 6);
	CHECK_EQ(call_a(1, 2), 201);
	CHECK_EQ(set(&ops.a, ident), ETCH_ECODE);
	CHECK_EQ(etch_verify(report, want), 1);
	CHECK_EQ(etch_sync(&ops, sizeof(ops)), 0);
	CHECK_EQ(call_a(1, 2), 21);
	CHECK_EQ(etch_verify(NULL, NULL), 0);

	/* What etch itself might have written for a function that is gone: seen, but no
	 * reason to refuse a set. */
	poke(call_a_site, nop, 6);
	CHECK_EQ(etch_verify(report, want), 1);
	CHECK_EQ(set(&ops.a, ident), 0);
	CHECK_EQ(call_a(4, 2), 4);
	CHECK_EQ(etch_verify(NULL, NULL), 0);
}

/* A breakpoint in a function: it is called, not inlined, and no set is refused. */
static void case_breakpoint(void)
{
	uint8_t first = *(uint8_t *)hide((const volatile void *)ident), zero[1];

	CHECK_FORM(call_b_site, INLINE);
	poke((const void *)ident, "\xcc", 1);
	CHECK_EQ(etch_verify(NULL, NULL), 0);
	CHECK_EQ(set(&ops.a, ident), 0);
	CHECK_FORM(call_a_site, DIRECT);
	CHECK_EQ(set(&ops.b, one), 0);
	CHECK_EQ(call_b(1, 2), 21);
	CHECK_EQ(etch_verify(NULL, NULL), 0);
	poke((const void *)ident, &first, 1);
	CHECK_EQ(etch_verify(NULL, NULL), 0);
	CHECK_EQ(set(&ops.b, ident), 0);
	CHECK_FORM(call_b_site, INLINE);
	CHECK_EQ(set(&ops.a, two), 0);
	CHECK_EQ(call_a(1, 2), 201);

	CHECK_EQ(set(&ops.a, stub_zero), 0);
	CHECK_FORM(call_a_site, INLINE);
	memcpy(zero, hide((const volatile void *)stub_zero), 1);
	poke(hide((const volatile void *)stub_zero), "\xcc", 1);
	CHECK_EQ(etch_verify(NULL, NULL), 0);
	CHECK_EQ(set(&ops.a, two), 0);
	CHECK_EQ(set(&ops.a, stub_zero), 0);
	CHECK_FORM(call_a_site, DIRECT);
	poke(hide((const volatile void *)stub_zero), zero, 1);
	CHECK_EQ(etch_verify(NULL, NULL), 0);
	CHECK_EQ(etch_sync(&ops, sizeof(ops)), 0);
	CHECK_FORM(call_a_site, INLINE);
	CHECK_EQ(call_a(1, 2), 0);
}

/* ---- etch_seal --------------------------------------------------------------------------- */

static pthread_barrier_t barrier;

static void *other_thread(void *arg)
{
	(void)arg;
	pthread_barrier_wait(&barrier);
	return NULL;
}

/* The kernel forgets a joined thread a little later. */
static void seal_when_alone(void)
{
	int err;

	while ((err = etch_seal(&ops, sizeof(ops))) == ETCH_ETHREADS)
		usleep(1000);
	CHECK_EQ(err, 0);
}

static void case_seal(void)
{
	pthread_t thread;
	uint8_t wide[8], a[8];

	CHECK_FORM(call_a_wide_site, DIRECT);
	CHECK_EQ(etch_seal(&ops.a, 8), 0);
	CHECK_EQ(info_now().sealed_objects, 1);
	CHECK_FORM(call_a_wide_site, DIRECT);
	CHECK_EQ(info_now().loads, 0);
	CHECK_EQ(call_a_wide(1, 2), 21);
	CHECK_EQ(flag_wide(), 1);
	CHECK_EQ(etch_verify(NULL, NULL), 0);

	/* Alone, all can be set. */
	CHECK_EQ(set(&ops.a, after), 0);
	CHECK_FORM(call_a_site, INLINE);
	CHECK_FORM(call_a_wide_site, INLINE);
	CHECK_EQ(call_a(1, 2) + call_a_wide(1, 2), 4);
	CHECK_EQ(etch_set(&ops.flag, 5), 0);
	CHECK_EQ(flag_wide() + flag_live(), 10);
	CHECK_EQ(etch_verify(NULL, NULL), 0);

	pthread_barrier_init(&barrier, NULL, 2);
	CHECK(!pthread_create(&thread, NULL, other_thread, NULL));
	keep(wide, call_a_wide_site);
	keep(a, call_a_site);
	/* What needs one thread is refused, and nothing changed. */
	CHECK_EQ(etch_seal(&ops, sizeof(ops)), ETCH_ETHREADS);
	CHECK_EQ(etch_seal(&others, sizeof(others)), ETCH_ETHREADS);
	CHECK_EQ(set(&ops.a, one), ETCH_ETHREADS);
	CHECK_EQ(etch_release(&ops, sizeof(ops)), ETCH_ETHREADS);
	CHECK(kept(wide, call_a_wide_site) && kept(a, call_a_site));
	CHECK(ops.a == after && ops.flag == 5);
	CHECK_EQ(flag_wide() + flag_live(), 10);
	CHECK_PERMS(&ops, "r--p");
	CHECK_EQ(info_now().sealed_objects, 1);
	/* What does not, works. */
	CHECK_EQ(etch_set(&ops.flag, 7), 0);
	CHECK_EQ(flag_wide() + flag_live(), 14);
	CHECK_EQ(set(&ops.a, after), 0);
	CHECK_EQ(etch_sync(&ops, sizeof(ops)), 0);
	CHECK_EQ(set(&ops.b, one), 0);
	CHECK_EQ(call_b(1, 2), 21);
	CHECK_EQ(set(&ops.b, after), 0); /* two instructions: called */
	CHECK_FORM(call_b_site, DIRECT);
	CHECK_EQ(call_b(1, 2), 2);
	CHECK_EQ(etch_verify(NULL, NULL), 0);
	pthread_barrier_wait(&barrier);
	CHECK(!pthread_join(thread, NULL));

	seal_when_alone(); /* now they can be inlined */
	CHECK_FORM(call_b_site, INLINE);
	CHECK_EQ(set(&ops.a, one), 0);
	CHECK_EQ(etch_set(&ops.flag, 6), 0);
	CHECK_EQ(call_a(1, 2) + call_a_wide(1, 2), 42);
	CHECK_EQ(flag_wide() + flag_live(), 12);
	CHECK_EQ(etch_release(&ops, sizeof(ops)), 0);
	CHECK_EQ(info_now().sealed_objects, 0);
	CHECK_EQ(info_now().calls_indirect, 8);
	CHECK_EQ(etch_sync(&ops, sizeof(ops)), 0);
	CHECK_FORM(call_a_wide_site, DIRECT);
	CHECK_FORM(call_b_site, DIRECT);
	CHECK_EQ(etch_verify(NULL, NULL), 0);
	CHECK_EQ(etch_seal((char *)NULL, 1), ETCH_EINVAL);
	CHECK_EQ(etch_seal_bytes(&barrier, 1), ETCH_ENOTETCHED);
	CHECK(strlen(etch_strerror(ETCH_ETHREADS)) > 20 && strcmp(etch_strerror(9), etch_strerror(10)));
}

/* A site of a sealed object that still is a load is no obstacle. */
static void case_seal_late(const char *plugin)
{
	pthread_t thread;
	void *handle;

	CHECK_EQ(etch_seal(&ops, sizeof(ops)), 0);
	pthread_barrier_init(&barrier, NULL, 2);
	CHECK(!pthread_create(&thread, NULL, other_thread, NULL));
	handle = dlopen(plugin, RTLD_NOW);
	CHECK(handle);
	CHECK_EQ(((function *)dlsym(handle, "plugin_b_wide"))(7, 8), 7);
	CHECK_EQ(set(&ops.b, sum), 0);
	CHECK_EQ(((function *)dlsym(handle, "plugin_b_wide"))(7, 8), 15);
	CHECK_EQ(((function *)dlsym(handle, "plugin_b"))(7, 8), 15);
	CHECK_EQ(etch_verify(NULL, NULL), 0);
	pthread_barrier_wait(&barrier);
	CHECK(!pthread_join(thread, NULL));
}

/* ---- modules that come and go -------------------------------------------------------------- */

static void case_plugin(const char *plugin)
{
	unsigned long calls = info_now().calls;

	for (int round = 0; round < 50; round++) {
		void *handle = dlopen(plugin, RTLD_NOW);
		function *b, *plain, *native;

		CHECK(handle);
		b = (function *)dlsym(handle, "plugin_b");
		plain = (function *)dlsym(handle, "plugin_plain");
		native = (function *)dlsym(handle, "plugin_native");
		CHECK(b && plain && native);
		CHECK_EQ(info_now().calls, calls + 2);
		/* Its calls of our functions, through its GOT: too short for a direct call. */
		CHECK_EQ(set(&ops.b, ident), 0);
		CHECK_FORM((const uint8_t *)dlsym(handle, "plugin_b_site"), INLINE);
		CHECK_EQ(b(7, 8), 7);
		CHECK_EQ(set(&ops.b, one), 0);
		CHECK_FORM((const uint8_t *)dlsym(handle, "plugin_b_site"), INDIRECT);
		CHECK_EQ(b(7, 8), 87);
		/* Our calls of its functions: mostly out of reach of this program, which is no PIE. */
		CHECK_EQ(set(&ops.a, plain), 0);
		CHECK(call_form(call_a_site) != INLINE);
		CHECK_EQ(call_a(7, 8), 7008);
		CHECK_EQ(set(&ops.a, native), 0);
		CHECK_FORM(call_a_site, INLINE);
		CHECK_EQ(call_a(7, 8), 20);
		CHECK_EQ(set(&ops.b, stub_first), 0);
		CHECK_EQ(set(&ops.c, dlsym(handle, round & 1 ? "plugin_zero" : "plugin_native")), 0);
		CHECK_EQ(call_c(7, 8), round & 1 ? 0 : 20);
		CHECK_EQ(etch_verify(NULL, NULL), 0);
		CHECK(!dlclose(handle));
		/* Slots now hold addresses of nothing. */
		CHECK(!dlopen(plugin, RTLD_NOW | RTLD_NOLOAD));
		CHECK_EQ(etch_verify(NULL, NULL), 0);
		CHECK_EQ(info_now().calls, calls);
		CHECK_EQ(etch_set(&ops.flag, round), 0);
		if (round % 3 == 0) {
			CHECK_EQ(etch_release(&ops, sizeof(ops)), 0);
			CHECK_EQ(etch_sync(&ops, sizeof(ops)), 0);
			CHECK(call_form(call_a_site) != INLINE);
		}
		CHECK_EQ(set(&ops.a, one), 0);
		CHECK_EQ(set(&ops.c, nothing), 0);
		CHECK_EQ(call_a(1, 2), 21);
		CHECK_EQ(etch_verify(NULL, NULL), 0);
	}
}

/* ---- the environment ------------------------------------------------------------------------- */

static void case_mdwe(const char *unused)
{
	uint8_t was[8];

	(void)unused;
	if (prctl(65 /* PR_SET_MDWE */, 1, 0, 0, 0)) {
		CHECK(errno == EINVAL);
		printf("this kernel has no PR_SET_MDWE\n");
		return;
	}
	keep(was, call_a_site);
	CHECK_EQ(set(&ops.a, two), ETCH_EPERM);
	CHECK_EQ(etch_release(&ops, sizeof(ops)), ETCH_EPERM);
	CHECK(kept(was, call_a_site) && ops.a == one);
	CHECK_PERMS(call_a, "r-xp");
	CHECK_EQ(info_now().sealed_objects, 0);
	CHECK_EQ(set(&others.a, one), 0); /* not armed: a store */
	CHECK_EQ(call_others(1, 2) + call_a(1, 2), 42);
}

static void case_fork(void)
{
	int status;
	pid_t pid = fork();

	if (!pid) {
		CHECK_EQ(set(&ops.a, two), 0);
		CHECK_EQ(call_a(1, 2) + jump_a(1, 2), 402);
		CHECK_EQ(etch_verify(NULL, NULL), 0);
		exit(0);
	}
	CHECK(waitpid(pid, &status, 0) == pid && !status);
	CHECK_EQ(call_a(1, 2), 21);
	CHECK_EQ(set(&ops.a, ident), 0);
	CHECK_EQ(call_a(1, 2), 1);
}

/* Addresses that are no function of ours: nothing of them is read. */
static void case_wild(void)
{
	static uint8_t zero_in_data[16] = {0x31, 0xc0, 0xc3};
	const uint8_t *page = mmap(NULL, 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_32BIT, -1, 0);
	const void *wild[] = {(void *)1, (void *)-1, (void *)0x7fffffffffff, (void *)0x8000000000000000,
	                      page, page + 4095, zero_in_data, &ops, (void *)((uintptr_t)call_a_site + 6),
	                      (void *)((uintptr_t)call_a_site + 1)};

	for (size_t i = 0; i < sizeof(wild) / sizeof(wild[0]); i++) {
		CHECK_EQ(set(&ops.a, wild[i]), 0);
		CHECK(call_form(call_a_site) != INLINE);
		CHECK_EQ(etch_verify(NULL, NULL), 0);
		info_now();
	}
	CHECK_EQ(set(&ops.a, one), 0);
	CHECK_EQ(call_a(1, 2), 21);
}

/* ---- the list ------------------------------------------------------------------------- */

int main(int argc, char **argv)
{
	static const struct { const char *name; void (*run)(void); } cases[] = {
		{"calls", case_calls}, {"batch", case_batch}, {"foreign", case_foreign}, {"breakpoint", case_breakpoint},
		{"seal", case_seal}, {"fork", case_fork}, {"wild", case_wild}};
	static const struct { const char *name; void (*run)(const char *); } with[] = {
		{"seal_late", case_seal_late}, {"plugin", case_plugin}, {"mdwe", case_mdwe}};

	CHECK(argc > 1);
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
		if (!strcmp(argv[1], cases[i].name)) {
			cases[i].run();
			return 0;
		}
	for (size_t i = 0; i < sizeof(with) / sizeof(with[0]); i++)
		if (!strcmp(argv[1], with[i].name)) {
			CHECK(argc > 2);
			with[i].run(argv[2]);
			return 0;
		}
	return 2;
}
