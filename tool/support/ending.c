/* SPDX-License-Identifier: MIT */
/* What is undone where the process ends in the middle of its work (ending.h). */
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

	/* A signal that ends the process must not do so halfway, and its handler may undo the same. */
	sigfillset(&all);
	sigprocmask(SIG_BLOCK, &all, NULL);
	while (atomic_flag_test_and_set(&undoing))
		pause(); /* the other thread ends the process */
	while ((e = last)) {
		last = e->before;
		e->undo(e);
	}
}
