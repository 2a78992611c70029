/* SPDX-License-Identifier: MIT */
/*
 * chain.h: a signal handler that is not alone.
 *
 * Ours is installed in front of what was there, and hands on what is not ours, as if
 * it had never been there. See chain.c for what runs in signal context.
 */
#ifndef ETCH_CHAIN_H
#define ETCH_CHAIN_H

#include <signal.h>

typedef void chain_handler(int sig, siginfo_t *info, void *context);

/* One handler of one signal. Zeroed at first. */
struct chain {
	struct sigaction before;
	chain_handler *handler;
	struct chain *next; /* of all that were ever installed */
	int sig;
	int installed;
};

/* Installs, with the mask and the flags of the handler before, unless it is installed.
 * 0 or a negative errno. Under the lock. */
int chain_install(struct chain *c, int sig, chain_handler *handler);
/* Puts back what was there, if ours is the one installed now, or the one that another
 * chain hands on to. At exit, or before this code is unmapped. */
void chain_remove(struct chain *c);
/* In signal context: what the handler before does with it. May not return. */
void chain_hand_on(struct chain *c, siginfo_t *info, void *context);
/* In signal context: did the instruction at the context's rip raise it, just now? */
int chain_is_fault(int sig, const siginfo_t *info);

#endif
