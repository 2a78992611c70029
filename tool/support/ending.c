/* SPDX-License-Identifier: MIT */
/* Undoes half-done work when the process ends in the middle of it (ending.h). */
#include "support/ending.h"

#include <signal.h>
#include <stdatomic.h>
#include <stddef.h>
#include <unistd.h>

static struct ending *_Atomic last;
static atomic_flag undoing = ATOMIC_FLAG_INIT;

void ending_add(struct ending *e)
{
	e->before = last;
	last = e;
}

void ending_drop(struct ending *e) { last = e->before; }

void ending_forget(void) { last = NULL; }

void ending_undo(void)
{
	struct ending *e;
	sigset_t all;

	/* A signal must not end the process while the work is half undone, and its handler may undo the same things. */
	sigfillset(&all);
	sigprocmask(SIG_BLOCK, &all, NULL);
	while (atomic_flag_test_and_set(&undoing))
		pause(); /* the other thread ends the process */
	while ((e = last)) {
		last = e->before;
		e->undo(e);
	}
}
