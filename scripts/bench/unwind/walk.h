/* SPDX-License-Identifier: MIT */
/*
 * A walker: one way to unwind, each linked into a program of its own with the
 * same tree of functions. (Two in one program would not do: libunwind defines
 * backtrace and _Unwind_Backtrace too, and the names of the others would lead there.)
 */
#ifndef WALK_H
#define WALK_H

struct step;
typedef int tree_fn(const struct step *);

/* One call of a path through the tree. fn is null at the bottom. */
struct step {
	tree_fn *fn;
	int site; /* which of the caller's two call instructions is used */
};

/* The functions, ascending by address; scripts/bench/unwind_parts.py generates them. */
extern tree_fn *const tree[];
extern const int tree_count;
/* What the last function calls. */
int bottom(void);

/* Return addresses of the caller and above, innermost first; up to two frames of
 * the walker's own may come before. How many, never more than max. */
int walk(void **ips, int max);
void walk_prepare(void);

#endif
