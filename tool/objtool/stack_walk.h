/* SPDX-License-Identifier: MIT */
/*
 * The walk along all paths of a function for --stackval and --noinstr: its state, and how it finds the targets of
 * jumps.
 */
#ifndef OBJTOOL_STACK_WALK_H
#define OBJTOOL_STACK_WALK_H

#include "objtool/alternatives.h"
#include "objtool/warning_backtrace.h"
#include "objtool/noinstr.h"
#include "objtool/objtool.h"
#include "objtool/stack_frame.h"
#include "objtool/table_jumps.h"

/* A path that is still to be followed. */
struct stack_path {
	uint64_t at;    /* address in the code space */
	uint32_t frame; /* number of the frame */
	uint32_t last;  /* number of the last step in `backtrace` */
	bool down;      /* the direction flag is set */
	bool resumed;   /* the instruction at `at` has been checked and recorded, but its effect is still to be applied */
	bool branched;  /* a branch leads to `at`, rather than the previous instruction */
	int8_t depth;   /* depth of the regions in which instrumentation is allowed */
};

/* A cache of the last search for a function: the addresses from `from` up to `to` belong to this function only. */
struct near_function {
	uint64_t from, to;
	const struct elf_symbol *function;
};

struct stack_walk {
	const struct code_map *map;
	struct near_function *near;
	const struct part *part; /* the part of the last instruction that was visited, or null */
	const struct objtool_options *options;
	struct place_names names;
	struct symbol_index unsized; /* functions without a size */
	struct backtrace backtrace;
	struct alternatives alternatives;
	struct table_jumps tables;
	struct stack_frames frames;
	uint32_t *at; /* for each byte of the space: the number of the frame before the instruction + 1; 0: not visited */
	size_t warnings;
	bool silent; /* the last warning was not printed, since its function has had one */
	struct stack_path *paths;
	size_t path_count, path_capacity;
	const struct elf_symbol *function; /* the function whose paths are followed; null: code outside of functions */
	size_t number;                     /* index of that function */
	struct noinstr *noinstr;           /* null: --noinstr was not given */
	bool uninstrumented;               /* the walk began in code that must not be instrumented */
};

/* The kind of target of a direct jump. */
enum stack_way {
	WAY_NOWHERE,  /* a symbol of another file; the jump is outside of functions */
	WAY_RETURN,   /* the return thunk */
	WAY_INDIRECT, /* a retpoline */
	WAY_AWAY,     /* the start of another function, or a symbol of another file: a tail call */
	WAY_INSIDE,   /* an address of this code, which *to receives */
};
/*
 * Returns the kind of target of a direct jump or call `s` at address `at`. For WAY_AWAY, sets *called to the symbol;
 * for other results *called is not to be used.
 */
enum stack_way stack_way_of(const struct stack_walk *w, const struct part *part, uint64_t at, const struct step *s,
                            uint64_t *to, const struct elf_symbol **called);

/* True if the function y is the one whose paths are followed, or a cold part of it. */
bool stack_is_own(const struct stack_walk *w, const struct elf_symbol *y);
/*
 * Returns the function that contains an instruction, or null. If the instruction is in a replacement, returns the
 * function that contains the original.
 */
const struct elf_symbol *stack_function_at(const struct stack_walk *w, uint64_t at);

/* Adds a path that leaves the instruction at from->at for `to`. */
void stack_path_add(struct stack_walk *w, const struct stack_path *from, uint64_t to, enum turn turn);
/* Reverses the paths from an index on. The path added last is followed first, to its end, and the order decides which
 * warning comes first. */
void stack_paths_reverse(struct stack_walk *w, size_t first);
/*
 * stack_warn() prints a warning about an address; stack_warn_plainly() prints one without a place. Both return false.
 */
bool stack_warn(struct stack_walk *w, uint64_t at, const char *text);
bool stack_warn_plainly(struct stack_walk *w, const char *text);
/* True if a hint gives the frame at an address. */
bool stack_has_hint(const struct stack_walk *w, uint64_t at);
/* Checks that the frame at a byte of code with alternatives is the same in all of them. Returns false after a
 * warning. */
bool stack_alternative_check(struct stack_walk *w, uint64_t at, const struct alternative_place *place, uint32_t frame,
                             bool filled);

/*
 * Adds the paths that the kernel can create at the instruction `s` by patching or on a fault: into its replacements, to
 * the target of a static key's jump, and to its fixup. With `all`, also adds those that LINUX_IGNORE_ALTS excludes.
 * Returns false if the original instruction itself never runs.
 */
bool stack_others_add(struct stack_walk *w, const struct stack_path *p, const struct step *s, bool all);

/*
 * Defined in stack_leave.c: applies the effect of one instruction to a path, and adds the paths that continue after it.
 * Returns false after a warning.
 */
bool stack_leave(struct stack_walk *w, const struct part *part, struct stack_path *p, const struct step *s);
/*
 * True if control does not continue after the instruction `s`, which is not a jump. Sets *called to the name of the
 * function that it calls, or to null.
 */
bool stack_is_dead(const struct stack_walk *w, const struct part *part, uint64_t at, const struct step *s,
                   const char **called);
/* True if the symbol y, the target of a direct call or jump, is a retpoline. */
bool stack_is_retpoline(const struct stack_walk *w, const struct elf_symbol *y);
/* True if an instruction returns to interrupted code or changes to another mode. */
bool stack_leaves(const uint8_t *bytes, const struct step *s);
/*
 * Determines where control continues after the instruction `s` that ends at *after. After the last instruction of a
 * replacement that is the end of the original; then *after is changed to it. Returns the part that contains the new
 * *after, or null if no section does; *after may also be the end of a section.
 */
const struct part *stack_next(const struct stack_walk *w, const struct part *part, uint64_t at, uint64_t *after);
/* Defined in unret.c: prints the warnings of --unret. Returns 0, or -1 and a message. */
int unret_check(struct stack_walk *w, struct error *e);
/* Defined in unreached_code.c: prints a warning about each function with code that no path has reached. */
void unreached_warn(struct stack_walk *w);

#endif
