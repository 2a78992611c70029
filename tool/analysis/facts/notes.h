/* SPDX-License-Identifier: MIT */
/*
 * Notes: what a file says about its own code that the instructions do not show, in the terms of the analysis: where
 * control continues or does not, edges that are no jumps, frames of hand-written code. A profile says which files carry
 * such facts, and in what sections; the analysis knows only notes.
 */
#ifndef ANALYSIS_FACTS_NOTES_H
#define ANALYSIS_FACTS_NOTES_H

#include <etch/orc.h>

#include "analysis/facts/space.h"

/* The kinds of notes. Where several are at one address, they are sorted in this order. */
enum note_kind {
	NOTE_UNREACHABLE, /* control does not continue after the instruction that ends at `at` */
	NOTE_REACHABLE,   /* control continues there, although that instruction faults (ud2) */
	NOTE_BRANCH,      /* the jump or nop at `at` is patched at run time: control falls through or goes to `to` */
	NOTE_EDGE,        /* control also goes from before the instruction at `at` to `to`, where the frame is the same */
	NOTE_RESUME,      /* code that reaches `at`, the end of a replacement, continues at `to` */
	NOTE_FRAME,       /* the frame before the instruction at `at` is frames[to], whatever led there */
	NOTE_RESTORE,     /* the frame at `at` is only the one that NOTE_EDGEs bring there, whatever else leads there */
	NOTE_PUSH,        /* the call at `at` is a push of its return address, and a jump */
	NOTE_INDIRECT,    /* the jump at `at` is a jump through register `to`, by way of a thunk */
	NOTE_IGNORE,      /* no rows from `at` up to `to` */
	NOTE_ANY,         /* no note has this kind: for note_any() */
};

struct note {
	uint64_t at, to; /* addresses of the code space; NOTE_FRAME: index in notes.frames */
	uint8_t kind;    /* enum note_kind */
};

/* Frames other than those that calls make. In rows they are the rule's `kind`; they never occur in a table of
 * etch's. */
enum {
	RULE_REGS = 16,         /* all registers of the interrupted code lie at the CFA: struct pt_regs */
	RULE_REGS_PARTIAL = 17, /* only what the CPU has pushed lies there: the frame that iret pops */
	RULE_SIGNAL = 2,        /* a flag of these two: the interrupted code was at that instruction, not after a call */
};

struct note_frame {
	uint8_t kind;  /* ETCH_RULE_CALL, ETCH_RULE_END, RULE_REGS, RULE_REGS_PARTIAL, these with RULE_SIGNAL */
	uint8_t reg;   /* base of the CFA: 0 to 15; 16: the CFA is not known */
	bool deref;    /* the CFA is *reg + off if reg is rsp, else *(reg + off) */
	bool function; /* the frame is as at a function's start; the other fields are not used */
	int32_t off;
};
#define NOTE_NO_REG 16u

/* Code that may stand in another's place at run time: [from, from + size) instead of what is at `at`. */
struct replacement {
	uint64_t at, end, from, size;
	uint16_t feature; /* the feature of the processor that it is for, by the profile's numbers */
};

struct notes {
	struct note *list; /* sorted by (at, kind, to); none occurs twice */
	size_t count, capacity;
	struct note_frame *frames;
	size_t frame_count, frame_capacity;
	struct replacement *replacements; /* sorted by (at, from) */
	size_t replacement_count, replacement_capacity;
	uint64_t *bits; /* hashes of (at, kind), which answer most lookups: nothing is there */
	unsigned shift; /* a hash has this many bits fewer than 64 */
};

/* The conventions of a kind of file. */
struct profile {
	const char *name;
	bool no_red_zone;    /* memory below rsp may change at any instruction */
	bool functions_only; /* code that no function symbol covers begins only where notes and edges lead */
	bool switches_stack; /* `mov %rsp,(%reg)` writes to the top of another stack; `mov N(%reg),%rsp` loads the rsp of a
	                        thread that this very code has left in the same frame */
	bool traps_continue; /* control continues after int3 */
	/* Does a function of this name not return, in addition to those of runtimes_noreturn()? */
	bool (*noreturn)(const struct profile *p, const char *name);
	/* Reads the notes. Returns 0, or -1 and a message if they are malformed. */
	int (*read)(const struct profile *p, const struct elf_file *f, const struct code_space *space, struct notes *out,
	            struct error *e);
};

/* Adds a note. notes_sort() must be called before the list is searched. */
void notes_add(struct notes *n, enum note_kind kind, uint64_t at, uint64_t to);
void notes_sort(struct notes *n);
void notes_free(struct notes *n);

static inline uint64_t note_hash(const struct notes *n, uint64_t at, enum note_kind kind)
{
	return (16 * at + (uint64_t)kind) * 0x9e3779b97f4a7c15u >> n->shift;
}
const struct note *note_find(const struct notes *n, uint64_t at, enum note_kind kind);
/* Returns the first note of a kind at an address, or null; the others of that kind follow it. `n` may be null. */
static inline const struct note *note_at(const struct notes *n, uint64_t at, enum note_kind kind)
{
	uint64_t hash;

	if (!n || !n->bits)
		return NULL;
	hash = note_hash(n, at, kind);
	return n->bits[hash / 64] >> hash % 64 & 1 ? note_find(n, at, kind) : NULL;
}
/* May there be any note at an address? The answer is false for most addresses without one. */
static inline bool note_any(const struct notes *n, uint64_t at)
{
	uint64_t hash;

	if (!n || !n->bits)
		return false;
	hash = note_hash(n, at, NOTE_ANY);
	return n->bits[hash / 64] >> hash % 64 & 1;
}
/* Is x, which is in n's list, still a note of this kind at this address? For loops that begin with note_at(). */
static inline bool note_is(const struct notes *n, const struct note *x, uint64_t at, enum note_kind kind)
{
	return x && x < n->list + n->count && x->at == at && x->kind == kind;
}

#endif
