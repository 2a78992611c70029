/* SPDX-License-Identifier: MIT */
/*
 * Notes: facts about a file's code that its instructions do not show, but its sections do: where control continues or
 * does not continue, edges without a jump, frames of hand-written code. Each kind of file, such as the Linux kernel,
 * has its own sections for this. A profile (struct profile) translates them to notes, which are all that the analysis
 * knows.
 */
#ifndef ANALYSIS_FACTS_NOTES_H
#define ANALYSIS_FACTS_NOTES_H

#include <etch/orc.h>

#include "analysis/facts/space.h"

/* The kinds of notes. Where several are at one address, they are sorted in this order. */
enum note_kind {
	NOTE_UNREACHABLE, /* control does not continue after the instruction that ends at `at` */
	NOTE_REACHABLE,   /* control continues after the instruction that ends at `at`, although it faults (ud2) */
	NOTE_BRANCH,      /* the jump or nop at `at` is patched at run time: control falls through or goes to `to` */
	NOTE_EDGE,   /* control also goes to `to` in place of executing the instruction at `at`, with the frame unchanged */
	NOTE_RESUME, /* code that reaches `at`, the end of a replacement, continues at `to` */
	NOTE_FRAME,  /* the frame before the instruction at `at` is frames[to], whatever led there */
	NOTE_RESTORE,  /* the frame at `at` is the one that NOTE_EDGEs bring there; other ways to `at` do not count */
	NOTE_PUSH,     /* the call at `at` only pushes its return address and jumps */
	NOTE_INDIRECT, /* the jump at `at` is a jump through register `to`, by way of a thunk */
	NOTE_IGNORE,   /* no unwind rows are made for [at, to) */
	NOTE_ANY,      /* no note has this kind; note_any() hashes it */
};

struct note {
	uint64_t at, to; /* addresses of the code space; NOTE_FRAME: index in notes.frames */
	uint8_t kind;    /* enum note_kind */
};

/* Kinds of frames that are not made by calls. In rows they are the rule's `kind`; the tables that etch writes never
 * contain them. */
enum {
	RULE_REGS = 16,         /* all registers of the interrupted code lie at the CFA: struct pt_regs */
	RULE_REGS_PARTIAL = 17, /* only the words that the CPU pushes at an interrupt, and iret pops, lie at the CFA */
	RULE_SIGNAL = 2, /* a flag, added to one of these two: the code was interrupted at its instruction pointer, which is
	                    not a return address */
};

struct note_frame {
	uint8_t kind;  /* ETCH_RULE_CALL, ETCH_RULE_END, RULE_REGS, RULE_REGS_PARTIAL, these with RULE_SIGNAL */
	uint8_t reg;   /* the register that is the base of the CFA; NOTE_NO_REG: the CFA is not known */
	bool deref;    /* the CFA is *reg + off if reg is rsp, else *(reg + off) */
	bool function; /* the frame is as at a function's start; the other fields are not used */
	int32_t off;
};
#define NOTE_NO_REG 16u

/* A replacement: code at [from, from + size), with which the code at [at, end) may be overwritten at run time. */
struct replacement {
	uint64_t at, end, from, size;
	uint16_t feature; /* the feature that a processor must have for the replacement to be used, as the profile numbers
	                     features */
};

struct notes {
	struct note *list; /* sorted by (at, kind, to); none occurs twice */
	size_t count, capacity;
	struct note_frame *frames;
	size_t frame_count, frame_capacity;
	struct replacement *replacements; /* sorted by (at, from) */
	size_t replacement_count, replacement_capacity;
	uint64_t *bits; /* bitmap of the hashes of (at, kind) of all notes: for most lookups it already shows that there is
	                   no note */
	unsigned shift; /* 64 minus the number of bits of a hash */
};

/* A profile: what is particular to a kind of file. */
struct profile {
	const char *name;
	bool no_red_zone;    /* memory below rsp may change at any instruction */
	bool functions_only; /* code that no function symbol covers is no function: control enters it only where notes and
	                        edges lead */
	bool switches_stack; /* `mov %rsp,(%reg)` writes to the top of another stack; `mov N(%reg),%rsp` loads the rsp of a
	                        thread that this very code has left in the same frame */
	bool traps_continue; /* control continues after int3 */
	/* Is a function of this name noreturn? Called in addition to runtimes_noreturn(). */
	bool (*noreturn)(const struct profile *p, const char *name);
	/* Reads the notes. Returns 0, or -1 and a message if they are malformed. */
	int (*read)(const struct profile *p, const struct elf_file *f, const struct code_space *space, struct notes *out,
	            struct error *e);
};

/* Adds a note. notes_sort() must be called before the list is searched. */
void notes_add(struct notes *n, enum note_kind kind, uint64_t at, uint64_t to);
/* Sorts and deduplicates the list, and prepares it for searches. */
void notes_sort(struct notes *n);
void notes_free(struct notes *n);

static inline uint64_t note_hash(const struct notes *n, uint64_t at, enum note_kind kind)
{
	return (16 * at + (uint64_t)kind) * 0x9e3779b97f4a7c15u >> n->shift;
}
/* Searches the list: returns the first note of a kind at an address, or null. note_at() is faster. */
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
/* May there be a note of any kind at an address? Returns false for most addresses without a note. */
static inline bool note_any(const struct notes *n, uint64_t at)
{
	uint64_t hash;

	if (!n || !n->bits)
		return false;
	hash = note_hash(n, at, NOTE_ANY);
	return n->bits[hash / 64] >> hash % 64 & 1;
}
/* Is x, an element of n's list or its end, a note of this kind at this address? For loops that begin with note_at() and
 * go on to the next element. */
static inline bool note_is(const struct notes *n, const struct note *x, uint64_t at, enum note_kind kind)
{
	return x && x < n->list + n->count && x->at == at && x->kind == kind;
}

#endif
