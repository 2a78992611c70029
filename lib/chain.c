/* SPDX-License-Identifier: MIT */
/*
 * chain.c: in front of another signal handler.
 *
 * RULES OF THIS FILE. chain_hand_on() and chain_is_fault() run in signal context: no
 * call but to sigaction(2), bound when chain_install() called it, sys.h, and the handler
 * before.
 */
#include <errno.h>
#include <string.h>
#include <ucontext.h>
#include <unistd.h>

#include "chain.h"
#include "sys.h"

static struct chain *chains;

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
	/* No handler of another signal runs while ours does, in which its signal is blocked:
	 * it might itself read what cannot be read. */
	sigfillset(&act.sa_mask);
	/* With no handler before, a thread that is out of stack dies with what the kernel
	 * had to say of it, and an ignored signal interrupts as little as can be. */
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

int chain_is_fault(int sig, const siginfo_t *info)
{
	/* BUS_MCEERR_AO: a page that the kernel found damaged, whoever uses it. */
	return info->si_code > 0 && !(sig == SIGBUS && info->si_code == BUS_MCEERR_AO);
}

/* Does the instruction do it again when the handler has returned? SI_KERNEL may be a
 * general protection fault, but also a signal frame that could not be written. */
static int happens_again(int sig, const siginfo_t *info)
{
	return chain_is_fault(sig, info) && info->si_code <= (sig == SIGBUS ? BUS_MCEERR_AR : SEGV_PKUERR);
}

/* What the kernel does with it. */
static void hand_to_kernel(struct chain *c, siginfo_t *info, ucontext_t *u)
{
	struct sigaction act = c->before;
	uint64_t one = (uint64_t)1 << (c->sig - 1);

	/*
	 * Blocked, once we have returned. A fault at an instruction that blocks its signal
	 * ends the process: the address, the code and the registers of the core dump are the
	 * kernel's own. No other thread ever finds the signal without a handler, so that
	 * one whose faults are expected cannot be taken for the culprit.
	 */
	if (happens_again(c->sig, info)) {
		*(uint64_t *)(void *)&u->uc_sigmask |= one;
		return;
	}
	/* Sent by somebody, and ignored: so be it. */
	if (act.sa_handler == SIG_IGN && !chain_is_fault(c->sig, info))
		return;
	/* Anything else is sent again, as it was, to this thread, where it is blocked now
	 * and arrives on return. */
	act.sa_handler = SIG_DFL;
	sigaction(c->sig, &act, NULL);
	c->installed = 0;
	sys_call6(SYS_rt_tgsigqueueinfo, sys_call3(SYS_getpid, 0, 0, 0), sys_call3(SYS_gettid, 0, 0, 0), c->sig,
	          (long)info, 0, 0);
}

/* The kernel's sigset_t. */
static uint64_t mask_of(const sigset_t *set) { return *(const uint64_t *)(const void *)set; }

/* The mask that the kernel would have called the handler before with. */
static void mask_for(const struct chain *c, const ucontext_t *u)
{
	/* Two cannot be blocked, and two are the C library's own. */
	uint64_t never = (uint64_t)1 << (SIGKILL - 1) | (uint64_t)1 << (SIGSTOP - 1) | (uint64_t)3 << (32 - 1), now = 0;
	uint64_t mask = mask_of(&u->uc_sigmask) | mask_of(&c->before.sa_mask);

	if (!(c->before.sa_flags & SA_NODEFER))
		mask |= (uint64_t)1 << (c->sig - 1);
	/* Not ours: a handler of the program that hands on to us. */
	sys_call6(SYS_rt_sigprocmask, SIG_BLOCK, 0, (long)&now, sizeof(now), 0, 0);
	if ((now | never) == UINT64_MAX)
		sys_call6(SYS_rt_sigprocmask, SIG_SETMASK, (long)&mask, 0, sizeof(mask), 0, 0);
}

void chain_hand_on(struct chain *c, siginfo_t *info, void *context)
{
	struct sigaction act = c->before;

	if (!is_program(&act)) {
		hand_to_kernel(c, info, context);
		return;
	}
	/* Once, and then the default, for ours too: so the program asked, and so it would
	 * find it. */
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
