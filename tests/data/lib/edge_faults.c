/* SPDX-License-Identifier: MIT */
/* edge: stray stores, faults that are not libetch's, and handlers that were there before. */
#include <setjmp.h>
#include <signal.h>
#include <ucontext.h>

#include "edge.h"

ALONE void stray_store(int *p);
void stray_store(int *p) { *(volatile int *)p = 1; }

static void case_stray(void) { stray_store(hide(&plain)); }
static void case_stray_field(void) { stray_store((int *)hide(&pair) + 1); }
static void case_stray_memcpy(void)
{
	void *(*volatile copy)(void *, const void *, size_t) = memmove;
	static const char bytes[8];

	copy(hide(&wide), bytes, 8);
}
static void case_null(void) { stray_store(hide(NULL)); }
static void case_read(void)
{
	CHECK(mprotect((void *)((uintptr_t)&plain & ~4095UL), 4096, PROT_NONE) == 0);
	sum_plain();
}
static void case_raise(void) { raise(SIGSEGV); }
static void case_kill(void)
{
	kill(getpid(), SIGSEGV);
	pause();
}
static void case_ignored(void)
{
	/* Ignored before libetch came (see early): a sent one still is. */
	CHECK(!kill(getpid(), SIGSEGV));
	CHECK(!kill(getpid(), SIGSEGV));
	CHECK_EQ(etch_set(&plain, 9), 0);
}

static sigjmp_buf back;
static volatile int handled, handled_code;
static void *volatile handled_at;
static volatile uintptr_t handled_ip;

static void early_info(int sig, siginfo_t *info, void *context)
{
	(void)sig;
	handled++;
	handled_code = info->si_code;
	handled_at = info->si_addr;
	handled_ip = (uintptr_t)((ucontext_t *)context)->uc_mcontext.gregs[REG_RIP];
	siglongjmp(back, 1);
}

static void early_plain(int sig)
{
	handled += sig == SIGSEGV;
	siglongjmp(back, 1);
}

/* An earlier handler gets the faults that are not ours, each time; of a stray
 * store it gets the true address. */
static void case_handler_info(void)
{
	for (volatile int i = 0; i < 3; i++)
		if (!sigsetjmp(back, 1))
			case_null();
	CHECK_EQ(handled, 3);
	CHECK(handled_at == NULL && handled_code == SEGV_MAPERR);
	CHECK_EQ(etch_stray(ETCH_STRAY_DIE, 0) & ETCH_STRAY_DIE, 0);
	if (!sigsetjmp(back, 1))
		case_stray();
	CHECK_EQ(handled, 4);
	CHECK(handled_at == (void *)&plain && handled_code == SEGV_ACCERR);
	CHECK(handled_ip >= (uintptr_t)stray_store && handled_ip < (uintptr_t)stray_store + 16);
	CHECK_EQ(etch_set(&plain, 9), 0);
	CHECK_EQ(sum_plain(), 9);
}

static void case_handler_plain(void)
{
	for (volatile int i = 0; i < 3; i++)
		if (!sigsetjmp(back, 1))
			case_null();
	CHECK_EQ(etch_stray(ETCH_STRAY_DIE, 0) & ETCH_STRAY_DIE, 0);
	if (!sigsetjmp(back, 1))
		case_stray();
	CHECK_EQ(handled, 4);
}

/* SA_RESETHAND: once, and then the default. */
static void case_handler_once(void)
{
	struct sigaction now;

	if (!sigsetjmp(back, 1))
		case_null();
	CHECK_EQ(handled, 1);
	CHECK(!sigaction(SIGSEGV, NULL, &now) && now.sa_handler == SIG_DFL);
	case_null();
}

/* Runs before libetch meets the module: the program's earlier disposition. */
static void early(int argc, char **argv, char **envp)
{
	struct sigaction act;

	(void)envp;
	if (argc < 2)
		return;
	memset(&act, 0, sizeof(act));
	if (!strcmp(argv[1], "handler_info")) {
		act.sa_sigaction = early_info;
		act.sa_flags = SA_SIGINFO;
	} else if (!strcmp(argv[1], "handler_plain")) {
		act.sa_handler = early_plain;
		act.sa_flags = SA_NODEFER;
	} else if (!strcmp(argv[1], "handler_once")) {
		act.sa_handler = early_plain;
		act.sa_flags = (int)SA_RESETHAND;
	} else if (!strcmp(argv[1], "ignored")) {
		act.sa_handler = SIG_IGN;
	} else {
		return;
	}
	sigaction(SIGSEGV, &act, NULL);
}
__attribute__((section(".preinit_array"), used)) static void (*early_)(int, char **, char **) = early;

const struct edge_case edge_faults[] = {
	CASE(stray), CASE(stray_field), CASE(stray_memcpy), CASE(null),          CASE(read),         CASE(raise),
	CASE(kill),  CASE(ignored),     CASE(handler_info), CASE(handler_plain), CASE(handler_once), {0},
};
