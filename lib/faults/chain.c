/* SPDX-License-Identifier: MIT */
/*
 * chain.c: forwards signals to the handler that was installed before (chain.h).
 *
 * RULES OF THIS FILE. chain_forward() and chain_is_fault() run in signal context: they call only sigaction(2)
 * (already bound, because chain_install() has called it), sys.h, and the previous handler.
 */
#include <errno.h>
#include <string.h>
#include <ucontext.h>
#include <unistd.h>

#include "faults/chain.h"
#include "common/sys.h"

static struct chain *chains;

/* Is this action a handler, rather than the default action or ignoring the signal? */
static int is_program(const struct sigaction *a)
{
	return (a->sa_flags & SA_SIGINFO) || (a->sa_handler != SIG_DFL && a->sa_handler != SIG_IGN);
}

static int is_handler(const struct sigaction *a, const struct chain *c)
{
	return (a->sa_flags & SA_SIGINFO) && a->sa_sigaction == c->handler;
}

int chain_install(struct chain *c, int sig, chain_handler *handler)
{
	struct sigaction act;
	struct chain *x;

	if (c->installed)
		return 0;
	if (sigaction(sig, NULL, &c->before))
		return -errno;
	c->handler = handler;
	c->sig = sig;
	memset(&act, 0, sizeof(act));
	act.sa_sigaction = handler;
	/* While this handler runs, its signal is blocked, and a fault would end the process. So no other handler may run
	 * then, because it might access memory that faults. */
	sigfillset(&act.sa_mask);
	/* Without a previous handler, SA_ONSTACK lets a stack overflow still die with the kernel's own siginfo, and
	 * SA_RESTART makes an ignored signal interrupt as little as possible. */
	if (is_program(&c->before))
		act.sa_flags = SA_SIGINFO | (c->before.sa_flags & (SA_ONSTACK | SA_RESTART));
	else
		act.sa_flags = SA_SIGINFO | SA_ONSTACK | SA_RESTART;
	if (sigaction(sig, &act, NULL))
		return -errno;
	c->installed = 1;
	for (x = chains; x && x != c; x = x->next)
		;
	if (!x) {
		c->next = chains;
		chains = c;
	}
	return 0;
}

void chain_remove(struct chain *c)
{
	struct sigaction now;

	if (!c->installed)
		return;
	c->installed = 0;
	if (!sigaction(c->sig, NULL, &now) && is_handler(&now, c)) {
		sigaction(c->sig, &c->before, NULL);
		return;
	}
	for (struct chain *x = chains; x; x = x->next)
		if (x->installed && x->sig == c->sig && is_handler(&x->before, c))
			x->before = c->before;
}

int chain_has(const struct sigaction *a, int sig)
{
	for (const struct chain *x = chains; x; x = x->next)
		if (x->installed && x->sig == sig && is_handler(a, x))
			return 1;
	return 0;
}

int chain_is_fault(int sig, const siginfo_t *info)
{
	/* BUS_MCEERR_AO reports a damaged page that the kernel has found, not a fault of this instruction. */
	return info->si_code > 0 && !(sig == SIGBUS && info->si_code == BUS_MCEERR_AO);
}

/* Will the instruction fault again when the handler returns? That is unknown for SI_KERNEL: the signal may be a
 * general protection fault, or a signal frame that could not be written. */
static int faults_again(int sig, const siginfo_t *info)
{
	return chain_is_fault(sig, info) && info->si_code <= (sig == SIGBUS ? BUS_MCEERR_AR : SEGV_PKUERR);
}

/* Lets the kernel take the default action (or ignore the signal), as it did before this handler was installed. */
static void forward_to_kernel(struct chain *c, siginfo_t *info, ucontext_t *u)
{
	struct sigaction act = c->before;
	uint64_t one = (uint64_t)1 << (c->sig - 1);

	/*
	 * Blocks the signal on return. A fault at an instruction whose signal is blocked ends the process, so the core
	 * dump has the kernel's own address, code and registers. The handler stays installed for other threads: without
	 * it, their expected faults would kill the process.
	 */
	if (faults_again(c->sig, info)) {
		*(uint64_t *)(void *)&u->uc_sigmask |= one;
		return;
	}
	/* The signal was sent, not raised by a fault, and is ignored. */
	if (act.sa_handler == SIG_IGN && !chain_is_fault(c->sig, info))
		return;
	/* Any other signal is sent again, with the same siginfo, to this thread, where it is blocked now and arrives on
	 * return. */
	act.sa_handler = SIG_DFL;
	sigaction(c->sig, &act, NULL);
	c->installed = 0;
	sys_call6(SYS_rt_tgsigqueueinfo, sys_call3(SYS_getpid, 0, 0, 0), sys_call3(SYS_gettid, 0, 0, 0), c->sig, (long)info,
	          0, 0);
}

/* The kernel's sigset_t is 64 bits. */
static uint64_t mask_of(const sigset_t *set) { return *(const uint64_t *)(const void *)set; }

/* Sets the signal mask that the kernel would have set for the previous handler. */
static void mask_for(const struct chain *c, const ucontext_t *u)
{
	/* SIGKILL and SIGSTOP cannot be blocked; 32 and 33 are reserved by the C library. */
	uint64_t never = (uint64_t)1 << (SIGKILL - 1) | (uint64_t)1 << (SIGSTOP - 1) | (uint64_t)3 << (32 - 1), now = 0;
	uint64_t mask = mask_of(&u->uc_sigmask) | mask_of(&c->before.sa_mask);

	if (!(c->before.sa_flags & SA_NODEFER))
		mask |= (uint64_t)1 << (c->sig - 1);
	/* This handler is installed with all signals in its mask. If a signal is not blocked, it was not the kernel that
	 * called it, but a handler of the program that forwards to it; then the mask is left alone. */
	sys_call6(SYS_rt_sigprocmask, SIG_BLOCK, 0, (long)&now, sizeof(now), 0, 0);
	if ((now | never) == UINT64_MAX)
		sys_call6(SYS_rt_sigprocmask, SIG_SETMASK, (long)&mask, 0, sizeof(mask), 0, 0);
}

void chain_forward(struct chain *c, siginfo_t *info, void *context)
{
	struct sigaction act = c->before;

	if (!is_program(&act)) {
		forward_to_kernel(c, info, context);
		return;
	}
	/* With SA_RESETHAND, the previous handler runs once, then the default action applies. That uninstalls this
	 * handler too, as the program would expect. */
	if (act.sa_flags & SA_RESETHAND) {
		act.sa_handler = SIG_DFL;
		act.sa_flags &= ~SA_SIGINFO;
		sigaction(c->sig, &act, NULL);
		c->installed = 0;
	}
	mask_for(c, context);
	if (c->before.sa_flags & SA_SIGINFO)
		c->before.sa_sigaction(c->sig, info, context);
	else
		c->before.sa_handler(c->sig);
}
