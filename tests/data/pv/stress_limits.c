/* SPDX-License-Identifier: MIT */
/*
 * stress_limits.c: `stress_limits CASE`: ops through the whole tool, at their edges.
 * Exits 0 and prints "done", or says what is not so; a program that no tool has seen
 * must pass as well. test_pv_stress.py has the list.
 */
#include <errno.h>
#include <etch/pv.h>
#include <fcntl.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <ucontext.h>
#include <unistd.h>

#include "../check.h"
#include "../threads.h"

#ifndef PR_SET_MDWE
#define PR_SET_MDWE 65
#endif

#define ALONE __attribute__((noinline))

typedef long fn(long, long);

struct ops {
	fn *f, *g, *null;
	void (*v)(void);
};

static ALONE long one(long a, long b) { return a + 10 * b; }
static ALONE long other(long a, long b) { return a + 100 * b; }
static long zero(long a, long b) { (void)a; (void)b; return 0; }
long native_two(long a, long b);
PV_NATIVE(native_two, "mov %rdi, %rax; sub %rsi, %rax"); /* six bytes: the length of a call *x(%rip) */
static int counter;
static ALONE void count(void) { counter++; }

static DEFINE_PV_OPS(struct ops, ops) = {.f = one, .g = pv_ident_64, .v = pv_nop};
static DEFINE_PV_OPS(struct ops, sealed) = {.f = one, .g = one};

/* A live site and one that crosses a word, of each object. */
#define SITE(name, at, slot)                                                                       \
	__asm__(".text\n\t.p2align 4\n\t.globl " #name ", " #name "_site\n\t.type " #name          \
	        ", @function\n" #name ":\n\t.cfi_startproc\n\tsubq $8, %rsp\n\t"                \
	        ".cfi_adjust_cfa_offset 8\n\t.p2align 4\n\t.fill " #at ", 1, 0x90\n" #name          \
	        "_site:\n\tcall *" slot "(%rip)\n\taddq $8, %rsp\n\t.cfi_adjust_cfa_offset -8\n\t"  \
	        "ret\n\t.cfi_endproc\n\t.size " #name ", . - " #name);                          \
	fn name;                                                                                   \
	extern volatile uint8_t name##_site[]
#if !defined(__clang__)
__asm__(".purgem call"); /* these are not to be aligned for us */
#endif
SITE(live_f, 2, "ops");
SITE(cross_f, 4, "ops");
SITE(live_sealed, 0, "sealed");
SITE(cross_sealed, 5, "sealed");
SITE(fit_sealed, 2, "sealed+8");

static int tooled; /* the tool has seen this program */

static long all_f(long a, long b)
{
	long r = live_f(a, b);

	CHECK_EQ(cross_f(a, b), r);
	CHECK_EQ(ops.f(a, b), r);
	return r;
}

static int is_call_through_memory(const volatile uint8_t *site) { return site[0] == 0xff && site[1] == 0x15; }

static void poke(const volatile void *at, const void *bytes, size_t size)
{
	int fd = open("/proc/self/mem", O_RDWR);

	CHECK(fd >= 0 && pwrite(fd, bytes, size, (off_t)(uintptr_t)at) == (ssize_t)size);
	close(fd);
}

static void deny(int nr, int error)
{
	struct sock_filter code[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (uint32_t)nr, 0, 1),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | (uint32_t)error),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
	};
	struct sock_fprog prog = {sizeof(code) / sizeof(code[0]), code};

	CHECK(!prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0));
	CHECK(!prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &prog));
}

static volatile int thread_stop;
static void *thread_run(void *arg)
{
	thread_begun();
	do {
		long r = live_f(1, 2), s = live_sealed(1, 2), c = cross_sealed(1, 2);

		if ((r != 21 && r != 201 && r != 0) || (s != 21 && s != 201 && s != 0) || (c != 21 && c != 201 && c != 0))
			return (void *)1;
	} while (!thread_stop);
	return arg;
}
static pthread_t thread_start(void)
{
	pthread_t t;

	thread_stop = 0;
	CHECK(!pthread_create(&t, NULL, thread_run, NULL));
	threads_wait(1);
	return t;
}
static void thread_end(pthread_t t)
{
	void *result = NULL;
	struct stat st;

	thread_stop = 1;
	CHECK(!pthread_join(t, &result) && !result);
	/* The kernel's own count lags behind the join. */
	do
		CHECK(!stat("/proc/self/task", &st));
	while (st.st_nlink > 3 && !usleep(1000));
}

/* A set that is refused where the tool has been, and changes nothing. */
static void check_refused(int error)
{
	long before = all_f(1, 2);

	CHECK_EQ(pv_set(ops.f, before == 21 ? other : one), tooled ? error : 0);
	if (tooled)
		CHECK_EQ(all_f(1, 2), before);
	CHECK_EQ(etch_verify(NULL, NULL), 0);
}

/* ---- cases ---------------------------------------------------------------------- */

static void case_forms(void)
{
	CHECK_EQ(all_f(1, 2), 21);
	CHECK_EQ(ops.g(7, 8), 7);
	ops.v();
	CHECK_EQ(counter, 0);
	if (tooled) {
		CHECK(!is_call_through_memory(live_f_site));
		CHECK(!is_call_through_memory(cross_f_site));
	}
	CHECK_EQ(pv_set(ops.f, other), 0);
	CHECK_EQ(all_f(1, 2), 201);
	CHECK_EQ(pv_set(ops.f, zero), 0);
	CHECK_EQ(all_f(1, 2), 0);
	CHECK_EQ(pv_set(ops.f, native_two), 0);
	CHECK_EQ(all_f(1, 2), -1);
	CHECK_EQ(pv_set(ops.v, count), 0);
	ops.v();
	CHECK_EQ(counter, 1);
}

static void case_busy(void)
{
	uint8_t byte = live_f_site[0], cc = 0xcc;

	poke(live_f_site, &cc, 1);
	CHECK_EQ(pv_set(ops.f, other), tooled ? ETCH_EBUSY : 0);
	CHECK_EQ(live_f_site[0], 0xcc);
	poke(live_f_site, &byte, 1);
	if (tooled)
		CHECK_EQ(all_f(1, 2), 21);
	CHECK_EQ(pv_set(ops.f, other), 0);
	CHECK_EQ(all_f(1, 2), 201);
}

static void case_code(void)
{
	uint8_t old[6], alien[6] = {0x0f, 0x1f, 0x80, 1, 2, 3};

	for (int i = 0; i < 6; i++)
		old[i] = live_f_site[i];
	poke(live_f_site, alien, 6);
	CHECK_EQ(pv_set(ops.f, other), tooled ? ETCH_ECODE : 0);
	CHECK_EQ(etch_verify(NULL, NULL), tooled);
	poke(live_f_site, old, 6);
	if (tooled)
		CHECK_EQ(all_f(1, 2), 21);
	CHECK_EQ(etch_verify(NULL, NULL), 0);
}

static void case_mdwe(void)
{
	if (prctl(PR_SET_MDWE, 1, 0, 0, 0)) {
		CHECK(errno == EINVAL); /* before Linux 6.3 */
		deny(SYS_mprotect, EPERM);
		if (!tooled)
			return;
	}
	check_refused(ETCH_EPERM);
	ops.v();
	CHECK_EQ(counter, 0);
}

static void case_membarrier(void)
{
	pthread_t t;

	deny(SYS_membarrier, EPERM);
	CHECK_EQ(pv_set(ops.f, other), 0); /* alone there is nobody to tell */
	CHECK_EQ(all_f(1, 2), 201);
	t = thread_start();
	check_refused(ETCH_ENOSYNC);
	thread_end(t);
}

static void case_mprotect(void)
{
	deny(SYS_mprotect, EACCES);
	check_refused(ETCH_EPERM);
}

/* A function at address `to`, if the kernel gives it. */
static fn *code_make(uintptr_t to)
{
	static const uint8_t code[] = {0x48, 0x8d, 0x04, 0x77, 0xc3}; /* lea (%rdi,%rsi,2),%rax; ret */
	void *p = mmap((void *)to, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);

	if (p == MAP_FAILED)
		return NULL;
	memcpy(p, code, sizeof(code));
	CHECK(!mprotect(p, 4096, PROT_READ | PROT_EXEC));
	return (fn *)(uintptr_t)p;
}

/* Targets around the ends of a direct call's reach, and far beyond. */
static void case_far(void)
{
	uintptr_t here = (uintptr_t)live_f_site & ~4095ul;
	static const int64_t away[] = {0x7fff0000, 0x7ffff000, 0x80000000, 0x80001000, 0x100000000, 0x10000000000,
	                               -0x7fff0000, -0x7ffff000, -0x80000000l, -0x80001000l, -0x100000000l};
	unsigned tried = 0;

	for (unsigned i = 0; i < sizeof(away) / sizeof(away[0]); i++) {
		uintptr_t to = here + (uintptr_t)away[i];
		fn *far = to >= 0x10000 && to < 0x7fff00000000 ? code_make(to) : NULL;
		int64_t distance = (int64_t)((uintptr_t)far - ((uintptr_t)live_f_site + 6));

		if (!far)
			continue;
		tried++;
		CHECK_EQ(pv_set(ops.f, far), 0);
		if (tooled)
			CHECK_EQ(is_call_through_memory(live_f_site), distance != (int32_t)distance);
		CHECK_EQ(all_f(3, 4), 11);
		CHECK_EQ(etch_verify(NULL, NULL), 0);
		CHECK_EQ(pv_set(ops.f, one), 0);
		CHECK_EQ(all_f(3, 4), 43);
		munmap((void *)to, 4096);
		CHECK_EQ(etch_verify(NULL, NULL), 0);
	}
	CHECK(tried >= 5);
}

/* A function that nobody has told etch about: unmapped while it is set, and before. */
static void case_gone(void)
{
	fn *f = code_make(((uintptr_t)live_f_site & ~4095ul) + 0x1000000);

	CHECK(f);
	CHECK_EQ(pv_set(ops.f, f), 0);
	CHECK_EQ(all_f(3, 4), 11);
	munmap((void *)(uintptr_t)f, 4096);
	CHECK_EQ(etch_verify(NULL, NULL), 0);
	CHECK_EQ(pv_set(ops.f, other), 0);
	CHECK_EQ(all_f(1, 2), 201);
	CHECK_EQ(pv_set(ops.f, f), 0); /* not called */
	CHECK_EQ(etch_verify(NULL, NULL), 0);
	CHECK_EQ(pv_set(ops.f, one), 0);
	CHECK_EQ(all_f(1, 2), 21);
}

static sigjmp_buf back;
static volatile uintptr_t fault_ip;
static void fault(int sig, siginfo_t *info, void *context)
{
	(void)sig;
	(void)info;
	fault_ip = (uintptr_t)((ucontext_t *)context)->uc_mcontext.gregs[REG_RIP];
	siglongjmp(back, 1);
}

static ALONE long call_null(long a, long b) { return ops.null(a, b) + 1; }
static ALONE long jump_null(long a, long b) { return ops.null(a, b); }
static ALONE void call_v(void) { ops.v(); __asm__ volatile(""); }

/* A null pointer faults at 0, as it always did, at a call and at a jump. */
static void case_null(void)
{
	struct sigaction sa = {.sa_sigaction = fault, .sa_flags = SA_SIGINFO};

	sigaction(SIGSEGV, &sa, NULL);
	for (volatile int i = 0; i < 5; i++) {
		fault_ip = 1;
		if (!sigsetjmp(back, 1)) {
			switch (i) {
			case 0: call_null(1, 2); break;
			case 1: jump_null(1, 2); break;
			case 2: CHECK_EQ(pv_set(ops.f, (fn *)0), 0); live_f(1, 2); break;
			case 3: cross_f(1, 2); break;
			case 4: CHECK_EQ(pv_set(ops.v, (void (*)(void))0), 0); call_v(); break;
			}
			CHECK(0);
		}
		CHECK_EQ(fault_ip, 0);
	}
	CHECK_EQ(pv_set(ops.f, one), 0);
	CHECK_EQ(all_f(1, 2), 21);
	CHECK_EQ(pv_set(ops.null, other), 0);
	CHECK_EQ(call_null(1, 2), 202);
	CHECK_EQ(jump_null(1, 2), 201);
	CHECK_EQ(pv_set(ops.null, (fn *)0), 0);
	fault_ip = 1;
	if (!sigsetjmp(back, 1)) {
		call_null(1, 2);
		CHECK(0);
	}
	CHECK_EQ(fault_ip, 0);
	CHECK_EQ(etch_verify(NULL, NULL), 0);
}

/* Sealed: bodies of two instructions take part, and are changed only while there is one thread. */
static void case_seal(void)
{
	pthread_t t;

	CHECK_EQ(etch_seal(&sealed, sizeof(sealed)), 0);
	CHECK_EQ(live_sealed(1, 2), 21);
	CHECK_EQ(cross_sealed(1, 2), 21);
	CHECK_EQ(pv_set(sealed.f, other), 0);
	CHECK_EQ(live_sealed(1, 2), 201);
	CHECK_EQ(cross_sealed(1, 2), 201);
	CHECK_EQ(pv_set(sealed.g, native_two), 0);
	CHECK_EQ(fit_sealed(9, 2), 7);
	if (tooled) {
		CHECK(!is_call_through_memory(live_sealed_site));
		CHECK(!is_call_through_memory(cross_sealed_site));
		CHECK_EQ(fit_sealed_site[0], 0x48);
	}
	CHECK_EQ(etch_verify(NULL, NULL), 0);
	t = thread_start();
	CHECK_EQ(pv_set(sealed.f, one), 0);
	CHECK_EQ(cross_sealed(1, 2), 21);
	CHECK_EQ(pv_set(sealed.f, other), 0);
	CHECK_EQ(pv_set(sealed.g, one), tooled ? ETCH_ETHREADS : 0);
	CHECK_EQ(etch_release(&sealed, sizeof(sealed)), tooled ? ETCH_ETHREADS : 0);
	if (tooled) {
		CHECK_EQ(live_sealed(1, 2), 201);
		CHECK_EQ(cross_sealed(1, 2), 201);
		CHECK_EQ(fit_sealed(9, 2), 7);
	}
	CHECK_EQ(pv_set(ops.f, other), 0); /* the other object is as live as ever */
	CHECK_EQ(all_f(1, 2), 201);
	CHECK_EQ(etch_seal(&ops, sizeof(ops)), ETCH_ETHREADS);
	CHECK_EQ(all_f(1, 2), 201);
	CHECK_EQ(etch_verify(NULL, NULL), 0);
	thread_end(t);
	CHECK_EQ(pv_set(sealed.f, one), 0);
	CHECK_EQ(pv_set(sealed.g, one), 0);
	CHECK_EQ(cross_sealed(1, 2), 21);
	CHECK_EQ(fit_sealed(1, 2), 21);
	CHECK_EQ(etch_release(&sealed, sizeof(sealed)), 0);
	if (tooled)
		CHECK(is_call_through_memory(cross_sealed_site));
	CHECK_EQ(etch_seal(&ops, sizeof(ops)), 0);
	CHECK_EQ(all_f(1, 2), 201);
	CHECK_EQ(etch_verify(NULL, NULL), 0);
}

/* In a fork child of a threaded process there is one thread. */
static void case_fork(void)
{
	int status;
	pthread_t t;
	pid_t pid;

	CHECK_EQ(etch_seal(&sealed, sizeof(sealed)), 0);
	t = thread_start();
	pid = fork();
	if (!pid) {
		CHECK_EQ(all_f(1, 2), 21);
		CHECK_EQ(pv_set(ops.f, other), 0);
		CHECK_EQ(all_f(1, 2), 201);
		CHECK_EQ(pv_set(sealed.f, other), 0);
		CHECK_EQ(cross_sealed(1, 2), 201);
		CHECK_EQ(etch_verify(NULL, NULL), 0);
		_exit(0);
	}
	CHECK(waitpid(pid, &status, 0) == pid && !status);
	thread_end(t);
	CHECK_EQ(all_f(1, 2), 21);
	CHECK_EQ(cross_sealed(1, 2), 21);
	CHECK_EQ(etch_verify(NULL, NULL), 0);
}

/* A function that sets the slot it was called by, from a call and from a jump, and one
 * that jumps out of itself. */
static ALONE long sets_itself(long a, long b)
{
	CHECK_EQ(pv_set(ops.g, other), 0);
	return a - b;
}
static ALONE long leaps(long a, long b)
{
	(void)a;
	(void)b;
	CHECK_EQ(pv_set(ops.g, zero), 0);
	siglongjmp(back, 1);
}
static ALONE long call_g(long a, long b) { return ops.g(a, b) + 1; }
static ALONE long jump_g(long a, long b) { return ops.g(a, b); }
static void case_itself(void)
{
	for (volatile int i = 0; i < 3; i++) {
		CHECK_EQ(pv_set(ops.g, sets_itself), 0);
		CHECK_EQ(call_g(9, 1), 9);
		CHECK_EQ(call_g(9, 1), 110);
		CHECK_EQ(pv_set(ops.g, sets_itself), 0);
		CHECK_EQ(jump_g(9, 1), 8);
		CHECK_EQ(jump_g(9, 1), 109);
		CHECK_EQ(pv_set(ops.g, leaps), 0);
		if (!sigsetjmp(back, 0)) {
			if (i & 1)
				jump_g(1, 2);
			else
				call_g(1, 2);
			CHECK(0);
		}
		CHECK_EQ(call_g(9, 1), 1);
		CHECK_EQ(jump_g(9, 1), 0);
	}
}

/* The old function, which a local still holds: hooks are chained this way. */
static ALONE long chained(long a, long b)
{
	fn *old = ops.f;

	CHECK_EQ(pv_set(ops.f, other), 0);
	return old(a, b);
}
static ALONE long chained_loop(long a, long b)
{
	fn *f = ops.g;
	long r = 0;

	for (int i = 0; i < 3; i++)
		r += f(a, b);
	return r;
}
static void case_chained(void)
{
	CHECK_EQ(chained(1, 2), 21);
	CHECK_EQ(all_f(1, 2), 201);
	CHECK_EQ(pv_set(ops.g, sets_itself), 0);
	CHECK_EQ(chained_loop(9, 1), 24);
	CHECK_EQ(call_g(9, 1), 110);
}

/* Before libetch's constructor: early_ran is what these saw. */
static long early_ran[2];
static void early(void) { early_ran[0] = ops.f(1, 2) + ops.g(5, 6); ops.v(); }
__attribute__((section(".preinit_array"), used)) static void (*const early_pointer)(void) = early;
__attribute__((constructor(101))) static void constructed(void) { early_ran[1] = jump_g(5, 6) + ops.f(1, 2); }
static void case_early(void)
{
#ifndef NO_PREINIT
	CHECK_EQ(early_ran[0], 26);
#endif
	CHECK_EQ(early_ran[1], 26);
}

/* A plain store to a slot must not leave a site after. */
static void case_stray(void)
{
	fn *volatile *slot;

	if (!tooled) /* nothing protects it there */
		raise(SIGSEGV);
	slot = ETCH_ADDR(ops.f);
	*slot = other;
}

int main(int argc, char **argv)
{
	static const struct { const char *name; void (*run)(void); } cases[] = {
#define C(name) {#name, case_##name}
		C(forms), C(busy), C(code), C(mdwe), C(membarrier), C(mprotect), C(far), C(gone), C(null), C(seal), C(fork),
		C(itself), C(chained), C(early), C(stray),
	};
	struct etch_info info = {.size = sizeof(info)};

	CHECK_EQ(etch_info(&info), 0);
	tooled = info.calls > 0;
	for (unsigned i = 0; argc == 2 && i < sizeof(cases) / sizeof(cases[0]); i++)
		if (!strcmp(cases[i].name, argv[1])) {
			cases[i].run();
			puts("done");
			return 0;
		}
	return 2;
}
