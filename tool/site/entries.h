/* SPDX-License-Identifier: MIT */
/*
 * Addresses inside functions that control may reach other than by the function's own direct jumps: from a cold part
 * or another function, through a jump table, or by the address of a label. The state of registers is unknown there.
 * Also landing pads of calls that throw, and fixups of faulting instructions.
 *
 * The set is conservative for code that compilers write: a number that only looks like a jump table entry costs a
 * site, but no entry is missed.
 */
#ifndef SITE_ENTRIES_H
#define SITE_ENTRIES_H

#include "analysis/addresses/track.h"
#include "elf/file.h"

/* All entries of a file. */
struct entries {
	struct entry {
		uint32_t section;
		uint64_t addr; /* ET_REL: offset in section */
		bool by_table; /* only jumps through jump tables that are its own function's lead there */
		bool by_jump;  /* only direct jumps of other functions lead there */
	} * list;          /* sorted once built */
	uint64_t *addrs;   /* the addresses of `list` */
	bool *by_table;    /* the same of `list` */
	bool *by_part;     /* of `list`: only jumps in `returns` lead there */
	uint64_t *leas;    /* instructions that load the address of such a table, sorted by section and address */
	struct entry *lea_list;
	size_t lea_count, lea_capacity;
	size_t count, capacity;
	struct entry *label_funcs; /* functions with a label whose address may be used in arithmetic, sorted by start */
	size_t label_func_count, label_func_capacity;
	struct track_pad *pads; /* call sites with a landing pad, sorted by section and start */
	size_t pad_count, pad_capacity;
	struct track_fault *faults; /* from __ex_table, sorted by section and instruction */
	size_t fault_count;
	struct track_return *returns; /* sorted by target; linked files only */
	size_t return_count;
	uint32_t *ways; /* per function: direct jumps of the one function that leads there, or 0; null: not known */
	bool built;
};

/* `words`: values of data words of a linked file that are relocated or may be addresses of code. -1: out of
 * memory, or a malformed relocation section. */
int entries_build(struct entries *x, const struct elf_file *f, struct func_list *funcs, const uint64_t *words,
                  size_t word_count, struct error *e);
/* The entries inside one function; `code` is its decoded code. */
struct track_entries entries_of(const struct entries *x, const struct func *fn, const struct func_code *code);
void entries_free(struct entries *x);

#endif
