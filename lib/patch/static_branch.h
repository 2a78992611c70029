/* SPDX-License-Identifier: MIT */
/*
 * static_branch.h: the tables of etch/branch_format.h inside libetch. static_branch.c and marks.c use plan.c as
 * inline.c does.
 */
#ifndef ETCH_LIB_PATCH_STATIC_BRANCH_H
#define ETCH_LIB_PATCH_STATIC_BRANCH_H

#include "patch/internal.h"
#include "patch/patch.h"

/* Is __etch_branch well formed, every address in the image? */
int branches_ok(const struct module *m);
/* Is __etch_mark? */
int marks_ok(const struct module *m);
/* The linker has dropped the code of a marker. */
int mark_is_dropped(const struct module *m, const struct etch_mark_site *x);
/* Plans the static branches on variables that overlap [from, to): PLAN_SET those of armed objects. */
int txn_plan_branches(struct txn *t, const struct module *m, uint64_t from, uint64_t to, enum plan plan);
/* As etch_verify() and etch_info(), for static branches. */
long branches_verify(const struct module *m, void (*report)(void *, const void *, const void *), void *arg);
void branches_info(const struct module *m, struct etch_info *info);

/*
 * Markers. marks.c is linked in by programs that have or attach to some: without it these are functions that do
 * nothing, in static_branch.c. (Not null: gold gives a hidden weak symbol without a definition the image's base.)
 */
/* Calls what is attached already at the markers of a new module. Under the lock. */
void marks_load(struct module *m);
/* Forgets a module's markers. Under the lock. */
void marks_unload(struct module *m);
/* In the child of a fork(2): its other threads are gone. Under the lock. */
void marks_fork(void);
void marks_info(const struct module *m, struct etch_info *info);

#endif
