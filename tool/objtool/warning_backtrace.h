/* SPDX-License-Identifier: MIT */
/*
 * For --backtrace: records by which branches each path of a walk has come to its place. The walks follow many paths
 * in turns, so the steps of all paths are one list, in which each step leads back to the one before it.
 */
#ifndef OBJTOOL_WARNING_BACKTRACE_H
#define OBJTOOL_WARNING_BACKTRACE_H

#include "objtool/code_map.h"
#include "objtool/warnings.h"

/* How a path leaves an instruction, if not for the next one. */
enum turn {
	TURN_NONE,        /* it continues with the next instruction, which is no step */
	TURN_ALTERNATIVE, /* by what the kernel may do in its place: a replacement, a static key, a fixup, a jump table */
	TURN_BRANCH,
	TURN_CONDITION, /* by a conditional branch, where --unret tells it from others */
	TURN_CALL,
};

struct backtrace {
	bool on; /* false: nothing is recorded */
	struct backtrace_step {
		uint64_t at;   /* address of the instruction in the code space */
		uint32_t from; /* number of the step before it; 0: none */
		uint8_t turn;  /* enum turn */
	} * list;          /* step N is list[N - 1] */
	size_t count, capacity;
};

/* Adds a step to the list. Returns its number. */
uint32_t backtrace_step_add(struct backtrace *b, uint32_t from, uint64_t at, enum turn turn);
/* Records that the path with the last step `from` goes on from the instruction at `at`. Returns its new last step. */
static inline uint32_t backtrace_add(struct backtrace *b, uint32_t from, uint64_t at, enum turn turn)
{
	return b->on && turn != TURN_NONE ? backtrace_step_add(b, from, at, turn) : from;
}
/* Prints the steps of a path, the last one first. */
void backtrace_print(const struct backtrace *b, const struct code_map *map, struct place_names *names, uint32_t last);
/* Prints the line for the place at which a path began; `mark` is "<=== (sym)" or "<=== (hint)". */
void backtrace_begin_print(const struct backtrace *b, const struct code_map *map, struct place_names *names,
                           uint64_t at, const char *mark);
/* Forgets all steps. */
void backtrace_clear(struct backtrace *b);
void backtrace_free(struct backtrace *b);

#endif
