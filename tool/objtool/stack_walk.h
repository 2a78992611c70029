/* SPDX-License-Identifier: MIT */
/* The state of the walk for --stackval and --noinstr, and the targets of jumps in it. */
#ifndef OBJTOOL_STACK_WALK_H
#define OBJTOOL_STACK_WALK_H

#include "objtool/alternatives.h"
#include "objtool/noinstr.h"
#include "objtool/objtool.h"
#include "objtool/stack_frame.h"
#include "objtool/table_jumps.h"

/* A path that is still to be followed. */
struct stack_path {
	uint64_t at;    /* address in the code space */
	uint32_t frame; /* number of the frame */
	bool down;      /* the direction flag is set */
	bool resumed;   /* the instruction has been entered, but its own effect is still to be applied */
	bool branched;  /* the previous instruction does not lead there */
	int8_t depth;   /* depth of regions in which instrumentation is allowed */
};

/* The function that was found last, and the addresses that belong only to it. */
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
	uint32_t *at; /* for each byte of the space: the number of the frame before the instruction + 1; 0: not visited */
	size_t warnings;
	struct stack_path *paths;
	size_t path_count, path_capacity;
	const struct elf_symbol *function; /* the function whose paths are followed; null: the code is in no function */
	size_t number;                     /* index of that function */
	struct noinstr *noinstr;           /* null: --noinstr was not given */
	bool uninstrumented;               /* paths began in code that must not be instrumented */
};

/* The target of a direct jump. */
enum stack_way {
	WAY_NOWHERE,  /* in another file, from code outside of functions */
	WAY_RETURN,   /* the return thunk */
	WAY_INDIRECT, /* a retpoline */
	WAY_AWAY,     /* a symbol that is called by a tail call */
	WAY_INSIDE,   /* the address *to */
};
/* *called is set to the symbol for WAY_AWAY; otherwise it is null or must be ignored. */
enum stack_way stack_way_of(const struct stack_walk *w, const struct part *part, uint64_t at, const struct step *s,
                            uint64_t *to, const struct elf_symbol **called);

/* True if a function is the one whose paths are followed, or a cold part of it. */
bool stack_is_own(const struct stack_walk *w, const struct elf_symbol *y);
/* Returns the function of an instruction, or null. For a replacement, it is the function of the original. */
const struct elf_symbol *stack_function_at(const struct stack_walk *w, uint64_t at);

void stack_path_add(struct stack_walk *w, const struct stack_path *from, uint64_t to, bool branched);
/* Reverses the paths from an index on. The path added last is followed first, to its end, and the order decides which
 * warning comes first. */
void stack_paths_reverse(struct stack_walk *w, size_t first);
/* Both print a warning, at an address or without a place. They return false. */
bool stack_warn(struct stack_walk *w, uint64_t at, const char *text);
bool stack_warn_plainly(struct stack_walk *w, const char *text);
/* True if a hint gives the frame at an address. */
bool stack_has_hint(const struct stack_walk *w, uint64_t at);
/* Checks that the frame at a byte of code with alternatives is the same in all of them. Returns false after a
 * warning. */
bool stack_alternative_check(struct stack_walk *w, uint64_t at, const struct alternative_place *place, uint32_t frame,
                             bool filled);

/* Adds the paths into replacements, to the other side of a static key, and to fixups; with `all` also those that
 * LINUX_IGNORE_ALTS excludes. False if the instruction itself never runs. */
bool stack_others_add(struct stack_walk *w, const struct stack_path *p, const struct step *s, bool all);

/* Defined in stack_leave.c: takes a path over one instruction, and adds the paths that continue from there. Returns
 * false after a warning. */
bool stack_leave(struct stack_walk *w, const struct part *part, struct stack_path *p, const struct step *s);
/* True if control does not continue after an instruction that is not a jump. *called is set to the name that it
 * calls, or null. */
bool stack_is_dead(const struct stack_walk *w, const struct part *part, uint64_t at, const struct step *s,
                   const char **called);
/* True if a direct call or jump leads to a retpoline. */
bool stack_is_retpoline(const struct stack_walk *w, const struct elf_symbol *y);
/* True if an instruction returns to interrupted code or changes to another mode. */
bool stack_leaves(const uint8_t *bytes, const struct step *s);
/* Determines where control continues after the instruction that ends at *after: the last instruction of a
 * replacement leads to the end of the original, which *after is set to. Returns the part of that place, or null if
 * it is in no section; the place may be the end of a section. */
const struct part *stack_next(const struct stack_walk *w, const struct part *part, uint64_t at, uint64_t *after);
/* Defined in unret.c: prints the warnings of --unret. Returns 0, or -1 and a message. */
int unret_check(struct stack_walk *w, struct error *e);
/* Defined in unreached_code.c: warns of code of functions that no path has reached. */
void unreached_warn(struct stack_walk *w);

#endif
