/* SPDX-License-Identifier: MIT */
/*
 * chain.c: in front of another signal handler.
 *
 * chain_hand_on() runs in signal context: no call but to sigaction(2), bound when
 * chain_install() called it, sys.h, and the handler before.
 */
#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "chain.h"
#include "sys.h"

static int is_program(const struct sigaction *a)
{
	return (a->sa_flags & SA_SIGINFO) || (a->sa_handler != SIG_DFL && a->sa_handler != SIG_IGN);
}

int chain_install(struct chain *c, int sig, chain_handler *handler)
{
	struct sigaction act;

	if (c->installed)
		return 0;
	if (sigaction(sig, NULL, &c->before))
		return -errno;
	memset(&act, 0, sizeof(act));
	act.sa_sigaction = handler;
	act.sa_mask = c->before.sa_mask;
	act.sa_flags = SA_SIGINFO | (c->before.sa_flags & (SA_ONSTACK | SA_NODEFER | SA_RESTART));
	if (!is_program(&c->before))
		act.sa_flags |= SA_ONSTACK;
	if (sigaction(sig, &act, NULL))
		return -errno;
	c->installed = 1;
	return 0;
}

void chain_remove(struct chain *c, int sig, chain_handler *handler)
{
	struct sigaction now;

	if (c->installed && !sigaction(sig, NULL, &now) && (now.sa_flags & SA_SIGINFO) && now.sa_sigaction == handler)
		sigaction(sig, &c->before, NULL);
	c->installed = 0;
}

void chain_hand_on(struct chain *c, int sig, siginfo_t *info, void *context)
{
	struct sigaction act = c->before;

	if (is_program(&act)) {
		if (act.sa_flags & SA_RESETHAND) {
			act.sa_handler = SIG_DFL;
			act.sa_flags &= ~SA_SIGINFO;
			sigaction(sig, &act, NULL);
		}
		if (c->before.sa_flags & SA_SIGINFO)
			c->before.sa_sigaction(sig, info, context);
		else
			c->before.sa_handler(sig);
		return;
	}
	/* Sent by somebody (si_code <= 0) and ignored: so be it. */
	if (act.sa_handler == SIG_IGN && info->si_code <= 0)
		return;
	/* A fault happens again on return, and the kernel deals with it: its address and
	 * code are in the core dump. A signal that was sent is sent again, as it was, to
	 * this thread, where it is now blocked: it arrives on return. */
	sigaction(sig, &c->before, NULL);
	if (info->si_code <= 0)
		sys_call6(SYS_rt_tgsigqueueinfo, sys_call3(SYS_getpid, 0, 0, 0), sys_call3(SYS_gettid, 0, 0, 0), sig,
		          (long)info, 0, 0);
}
