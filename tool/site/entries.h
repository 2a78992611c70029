/* SPDX-License-Identifier: MIT */
/*
 * Places inside of functions that control may come to by another way than the
 * function's own direct jumps: from a cold part or another function, through a jump
 * table, to a label whose address is taken. There, nothing is known of the registers.
 * And landing pads, which calls come to that throw, and fixups of faults.
 *
 * Found is what leads there, never too little of it as compilers write it: a number
 * that only looks like an entry of a jump table costs a site, no more.
 */
#ifndef SITE_ENTRIES_H
#define SITE_ENTRIES_H

#include "code/track.h"
#include "elf/file.h"

struct entries {
	struct entry {
		uint32_t section;
		uint64_t addr; /* ET_REL: offset in section */
	} *list; /* sorted once built */
	uint64_t *addrs; /* their addresses alone */
	size_t count, room;
	struct entry *loose; /* starts of functions with a label whose address is computed with, sorted */
	size_t loose_count, loose_room;
	struct track_pad *pads; /* calls that throw: sorted by section and start */
	size_t pad_count, pad_room;
	struct track_fault *faults; /* of __ex_table: sorted by section and instruction */
	size_t fault_count;
	bool built;
};

/* `words`: linked, values of data words that the dynamic linker relocates, or that
 * could be addresses. -1: out of memory, or a malformed relocation section. */
int entries_build(struct entries *x, const struct elf_file *f, const struct func_list *funcs, const uint64_t *words,
                  size_t word_count, struct error *e);
/* Those of one function; `code` as decoded. */
struct track_entries entries_of(const struct entries *x, const struct func *fn, const struct func_code *code);
void entries_free(struct entries *x);

#endif
