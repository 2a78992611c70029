/* SPDX-License-Identifier: MIT */
/*
 * Signals that come while a thread stands at an instruction of an exception table, with
 * a siginfo that the process made up for itself, which Linux allows. Prints, for each code,
 * what etch_probe_read_64 and etch_copy_from returned, and how often the handler that was
 * there before was called.
 */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <ucontext.h>
#include <unistd.h>

#include <etch/copy.h>
#include <etch/extable.h>

#define TRAP_FLAG 0x100

static int forged_signal, forged_code, sent;
static volatile sig_atomic_t handed_on, code_seen;

static void before(int sig, siginfo_t *info, void *context)
{
	(void)sig, (void)context;
	handed_on++;
	code_seen = info->si_code;
}

/* At the first instruction of a table: it arrives there, when this handler has returned. */
static void on_step(int sig, siginfo_t *info, void *context)
{
	ucontext_t *u = context;
	siginfo_t made;

	(void)sig, (void)info;
	if (!etch_fault_expected((const void *)u->uc_mcontext.gregs[REG_RIP]))
		return;
	u->uc_mcontext.gregs[REG_EFL] &= ~TRAP_FLAG;
	memset(&made, 0, sizeof(made));
	made.si_signo = forged_signal;
	made.si_code = forged_code;
	made.si_addr = (void *)0x1234000;
	if (syscall(SYS_rt_tgsigqueueinfo, getpid(), (pid_t)syscall(SYS_gettid), forged_signal, &made))
		_exit(3);
	sent = 1;
}

#define STEPPED(call)                                                                                              \
	do {                                                                                                       \
		sent = handed_on = code_seen = 0;                                                                  \
		__asm__ __volatile__("sub $128, %%rsp\n\tpushfq\n\torl $0x100, (%%rsp)\n\tpopfq\n\tadd $128, %%rsp" ::: "memory", "cc"); \
		call;                                                                                              \
		if (!sent)                                                                                         \
			exit(4);                                                                                   \
		if (handed_on && code_seen != forged_code)                                                         \
			exit(5);                                                                                   \
	} while (0)

static void try(int sig, int code)
{
	static char from[1000], to[1000];
	uint64_t word = 0x1122334455667788, read = 1;
	size_t left;
	int err;

	forged_signal = sig;
	forged_code = code;
	memset(from, 7, sizeof(from));
	memset(to, 0, sizeof(to));
	STEPPED(err = etch_probe_read_64(&read, &word));
	if (read != (err ? 0 : word))
		exit(6);
	printf("%d %d: probe %d handed on %d", sig, code, err, (int)handed_on);
	STEPPED(left = etch_copy_from(to, from, sizeof(from)));
	if (memcmp(to, from, sizeof(from) - left))
		exit(7);
	printf(", copy %zu handed on %d\n", left, (int)handed_on);
}

int main(void)
{
	struct sigaction act = {.sa_sigaction = before, .sa_flags = SA_SIGINFO}, step = {.sa_sigaction = on_step, .sa_flags = SA_SIGINFO};

	sigfillset(&step.sa_mask);
	if (sigaction(SIGSEGV, &act, NULL) || sigaction(SIGBUS, &act, NULL) || sigaction(SIGTRAP, &step, NULL) || etch_fault_init())
		return 2;
	for (int code = -6; code <= 6; code++) {
		try(SIGSEGV, code);
		try(SIGBUS, code);
	}
	try(SIGSEGV, SI_KERNEL);
	return 0;
}
