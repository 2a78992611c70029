/* SPDX-License-Identifier: MIT */
/*
 * chain.h: a signal handler that forwards to the handler installed before it.
 *
 * libetch's handler is installed in front of the previous one, and forwards every signal that it
 * does not handle, so that the previous handler runs as if libetch were absent. chain.c says
 * what runs in signal context.
 */
#ifndef ETCH_LIB_FAULTS_CHAIN_H
#define ETCH_LIB_FAULTS_CHAIN_H

#include <signal.h>

typedef void chain_handler(int sig, siginfo_t *info, void *context);

/* One handler of one signal. Initially zeroed. */
struct chain {
	struct sigaction before;
	chain_handler *handler;
	struct chain *next; /* next in the list of all chains ever installed */
	int sig;
	int installed;
};

/* Installs the handler, with the mask and the flags of the previous one, unless it is already installed. Returns 0 or
 * a negative errno. Called under libetch's lock. */
int chain_install(struct chain *c, int sig, chain_handler *handler);
/* Restores the previous handler if `c` is the installed handler, or the one that another chain forwards to. To be
 * called at exit, and before this code is unmapped. */
void chain_remove(struct chain *c);
/* Is the action of a signal one of the handlers that chain_install() has installed? Called under libetch's lock. */
int chain_has(const struct sigaction *a, int sig);
/* In signal context: does what the previous handler or default action would do. May not return. */
void chain_forward(struct chain *c, siginfo_t *info, void *context);
/* In signal context: was the signal raised by the instruction at the context's rip (not sent)? */
int chain_is_fault(int sig, const siginfo_t *info);

#endif
