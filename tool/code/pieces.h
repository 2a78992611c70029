/* SPDX-License-Identifier: MIT */
/*
 * The code of a file cut into pieces: entries of the PLT, ranges of FDEs, then
 * what function symbols, or Go's table of functions, name outside of those, then .init and .fini.
 */
#ifndef CODE_PIECES_H
#define CODE_PIECES_H

#include "code/flow.h"

struct pieces {
	struct piece *list; /* sorted by start, none overlap */
	size_t count, room;
	uint64_t *entries;  /* function symbols inside pieces, sorted */
	size_t entry_count;
};

int pieces_build(const struct elf_file *f, const struct code_space *space, const struct cfi_file *cfi,
                 struct pieces *out, struct error *e);
/*
 * Adds a piece for each of these addresses (sorted) that lies in none: to the next
 * piece, the next of them, or the section's end. Returns how many, or -1.
 */
long pieces_add(struct pieces *p, const struct code_space *space, const uint64_t *addrs, size_t count,
                struct error *e);
void pieces_free(struct pieces *p);

#endif
