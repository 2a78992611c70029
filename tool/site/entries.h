/* SPDX-License-Identifier: MIT */
/*
 * Entries are addresses inside functions that control may reach by other ways than the function's own direct jumps:
 * from a cold part or another function, through a jump table, or by the address of a label. The state of registers is
 * unknown at an entry. The landing pads of calls that throw, and the fixups of faulting instructions, are collected
 * too.
 *
 * The set is complete for code that compilers write. It may contain addresses that are no entries, because a number
 * merely looks like an entry of a jump table: that costs a site, but is safe.
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
		bool by_table; /* only jumps through jump tables of its own function lead there */
		bool by_jump;  /* only direct jumps of other functions lead there */
	} * list;          /* sorted after entries_build() */
	uint64_t *addrs;   /* the addresses of `list` */
	bool *by_table;    /* by_table of each element of `list` */
	bool *by_part; /* for each element of `list`, whether only jumps in `returns` lead there (struct entries.returns) */
	uint64_t *leas; /* addresses of the instructions that load the start of a jump table with by_table, sorted by
	                   section and address */
	struct entry *lea_list;
	size_t lea_count, lea_capacity;
	size_t count, capacity;
	/* functions in which the address of a label may be used in arithmetic, sorted by start */
	struct entry *label_funcs;
	size_t label_func_count, label_func_capacity;
	struct track_pad *pads; /* call sites (ranges of code) with a landing pad, sorted by section and start */
	size_t pad_count, pad_capacity;
	struct track_fault *faults; /* instructions in __ex_table, each with its fixup, sorted by section and instruction */
	size_t fault_count;
	struct track_return *returns; /* jumps from a part of a function (a cold part) back into that function, sorted by
	                                 target; linked files only */
	size_t return_count;
	uint32_t *ways; /* for each function: if direct jumps of only one other function lead into it, the number of these
	                   jumps; otherwise 0; null: not known */
	bool built;
};

/*
 * Collects the entries of a file. `words` are the values of those data words of a linked file that are relocated or may
 * be addresses of code. Returns 0, or -1 and a message if a relocation section is malformed.
 */
int entries_build(struct entries *x, const struct elf_file *f, struct func_list *funcs, const uint64_t *words,
                  size_t word_count, struct error *e);
/* Returns the entries inside one function; `code` is its decoded code. */
struct track_entries entries_of(const struct entries *x, const struct func *fn, const struct func_code *code);
void entries_free(struct entries *x);

#endif
