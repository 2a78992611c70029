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

struct chain {
	struct sigaction before;
	int installed;
};

typedef void chain_handler(int sig, siginfo_t *info, void *context);

/* Installs, with the mask and the flags of the handler before. 0 or a negative errno. */
int chain_install(struct chain *c, int sig, chain_handler *handler);
/* Puts back what was there, if ours is the one installed now. */
void chain_remove(struct chain *c, int sig, chain_handler *handler);
/* In signal context: what the handler before does with it. May not return. */
void chain_hand_on(struct chain *c, int sig, siginfo_t *info, void *context);

#endif
