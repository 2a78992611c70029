/* SPDX-License-Identifier: MIT */
/* The state of the walk of --stackval and --noinstr, and where jumps lead in it. */
#ifndef OBJTOOL_STACK_WALK_H
#define OBJTOOL_STACK_WALK_H

#include "objtool/alternatives.h"
#include "objtool/noinstr.h"
#include "objtool/objtool.h"
#include "objtool/stack_frame.h"
#include "objtool/table_jumps.h"

/* A path that is still to be followed. */
struct stack_path {
	uint64_t at;    /* address of the code space */
	uint32_t frame; /* its number */
	bool down;      /* the direction flag is set */
	bool resumed;   /* the instruction has been entered, its own effect is still to be applied */
	bool branched;  /* no instruction in front of it leads there */
	int8_t depth;   /* of regions in which instrumentation is allowed */
};

/* The function found last, and the addresses that are no other's. */
struct near_function {
	uint64_t from, to;
	const struct elf_symbol *function;
};

struct stack_walk {
	const struct code_map *map;
	struct near_function *near;
	const struct objtool_options *options;
	struct place_names names;
	struct alternatives alternatives;
	struct table_jumps tables;
	struct stack_frames frames;
	uint32_t *at; /* per byte of the space: the number of the frame in front of the instruction + 1; 0: not visited */
	size_t warnings;
	struct stack_path *paths;
	size_t path_count, path_capacity;
	const struct elf_symbol *function; /* whose paths are being followed; null: no function's */
	size_t number;                     /* its index */
	struct noinstr *noinstr;           /* null: not asked for */
	bool uninstrumented;               /* paths began in code that must not be instrumented */
};

/* Where a direct jump leads. */
enum stack_way {
	WAY_NOWHERE,  /* to another file, from code of no function */
	WAY_RETURN,   /* to the return thunk */
	WAY_INDIRECT, /* to a retpoline */
	WAY_AWAY,     /* a tail call of a symbol */
	WAY_INSIDE,   /* to *to */
};
/* *called: the symbol of WAY_AWAY, else null or one that counts for nothing. */
enum stack_way stack_way_of(const struct stack_walk *w, const struct part *part, uint64_t at, const struct step *s,
                            uint64_t *to, const struct elf_symbol **called);

/* Is a function the one whose paths are followed, or a cold part of it? */
bool stack_is_own(const struct stack_walk *w, const struct elf_symbol *y);
/* The function of an instruction; of a replacement, that of the original. Or null. */
const struct elf_symbol *stack_function_at(const struct stack_walk *w, uint64_t at);

void stack_path_add(struct stack_walk *w, const struct stack_path *from, uint64_t to, bool branched);
/* Reverses the paths from an index on: the one added last is followed first, to its end, and the order decides which
 * warning comes first. */
void stack_paths_reverse(struct stack_walk *w, size_t first);
/* Print a warning, at an address or without a place. Return false. */
bool stack_warn(struct stack_walk *w, uint64_t at, const char *text);
bool stack_warn_plainly(struct stack_walk *w, const char *text);
/* Does a hint say the frame at an address? */
bool stack_has_hint(const struct stack_walk *w, uint64_t at);
/* Is the frame at a byte of code with alternatives the same in all of them? False: warned. */
bool stack_alternative_check(struct stack_walk *w, uint64_t at, const struct alternative_place *place, uint32_t frame,
                             bool filled);

/* Adds the paths into replacements, to the other side of a static key, to fixups; with `all` also those that
 * LINUX_IGNORE_ALTS excludes. False: the instruction itself never runs. */
bool stack_others_add(struct stack_walk *w, const struct stack_path *p, const struct step *s, bool all);

/* stack_leave.c: takes a path over one instruction, and adds the paths from there on. False: warned. */
bool stack_leave(struct stack_walk *w, const struct part *part, struct stack_path *p, const struct step *s);
/* Does control not go on after an instruction that is no jump? *called: the name that it calls, or null. */
bool stack_is_dead(const struct stack_walk *w, const struct part *part, uint64_t at, const struct step *s,
                   const char **called);
/* Does a direct call or jump lead to a retpoline, or a call that is dropped (--hacks=noinstr)? */
bool stack_is_retpoline(const struct stack_walk *w, const struct elf_symbol *y);
/* Does an instruction leave for what has been interrupted, or for another mode? */
bool stack_leaves(const uint8_t *bytes, const struct step *s);
/* Where control goes on after the instruction that ends at `behind`: the last one of a replacement leads behind the
 * original. The section's end: nowhere; null: not in a section. */
const struct part *stack_next(const struct stack_walk *w, const struct part *part, uint64_t at, uint64_t *behind);
/* unret.c: prints the warnings of --unret. 0, or -1 and a message: malformed. */
int unret_check(struct stack_walk *w, struct error *e);
/* unreached_code.c: warns of code of functions that no path has reached. */
void unreached_warn(struct stack_walk *w);

#endif
