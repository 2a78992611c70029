/* SPDX-License-Identifier: MIT */
/*
 * static_branch.h: the tables of etch/branch_format.h inside libetch. static_branch.c and marks.c use plan.c as
 * inline.c does.
 */
#ifndef ETCH_LIB_PATCH_STATIC_BRANCH_H
#define ETCH_LIB_PATCH_STATIC_BRANCH_H

#include "patch/internal.h"
#include "patch/patch.h"

/* Is __etch_branch well formed, with every address in the image? */
int branches_ok(const struct module *m);
/* Is __etch_mark well formed, with every address in the image? */
int marks_ok(const struct module *m);
/* Has the linker dropped the code of a marker? */
int mark_is_dropped(const struct module *m, const struct etch_mark_site *x);
/* Plans the static branches on variables that overlap [from, to); with PLAN_SET only those of armed objects. */
int txn_plan_branches(struct txn *t, const struct module *m, uint64_t from, uint64_t to, enum plan plan);
/* branches_verify() compares, for etch_verify, and branches_info() counts, for etch_info, the static branches of a
 * module. */
long branches_verify(const struct module *m, void (*report)(void *, const void *, const void *), void *arg);
void branches_info(const struct module *m, struct etch_info *info);

/*
 * The functions that markers with attachments need. Programs that attach to markers link marks.c, which sets this
 * with the first attachment; before that it is null. Called under the lock.
 */
struct marks_calls {
	void (*load)(struct module *m);   /* calls the attached functions at the markers of a new module from now on */
	void (*unload)(struct module *m); /* forgets a module's markers */
	void (*fork)(void);               /* called in the child of a fork(2): the other threads are gone */
};
extern const struct marks_calls *marks_calls;

/* Adds the markers of a module to the counts of *info. */
void marks_info(const struct module *m, struct etch_info *info);

/* ---- the threads that are in code that a marker calls (mark_readers.c) ---------------------- */

/* Returns when every other thread has left the callbacks that it was in when this was called. Not to be called under
 * the lock. */
void readers_wait(void);
/* Is this thread in a callback? */
int readers_self(void);
/* Called in the child of a fork(2): forgets the threads that the child does not have. */
void readers_fork(void);

#endif
