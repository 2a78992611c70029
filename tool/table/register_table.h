/* SPDX-License-Identifier: MIT */
/* The register table (etch/orc_registers.h): where the caller's rbx and r12 to r15 are saved. */
#ifndef TABLE_REGISTER_TABLE_H
#define TABLE_REGISTER_TABLE_H

#include "analysis/facts/cfi_file.h"
#include "analysis/unwind/rows.h"
#include "analysis/unwind/saves.h"
#include "support/error.h"

/* The sources from which a register table is made. */
struct register_sources {
	const struct row_list *rows;   /* the rows of the block table that it accompanies */
	const struct save_list *saves; /* the places that the analysis of the code has found, for all code */
	const struct cfi_file *cfi;    /* .eh_frame; null: it is not used */
};

/*
 * Encodes a register table for the code that has these rows, in memory from malloc(). A place is proven from the code.
 * If the code shows none and does not contradict .eh_frame, it is taken from .eh_frame; otherwise it is unknown. Sets
 * *lost to the number of places that cannot be encoded, and are unknown in the table. Returns -1 with a message in *e
 * if the table is too large.
 */
int register_table_make(const struct register_sources *in, uint8_t **out, size_t *size, size_t *lost, struct error *e);

/* The rows of a table that etch_registers_valid() has accepted. The last row is the end of the text. */
struct register_list {
	struct register_row {
		uint64_t addr;
		struct etch_cfi_saves saves;
	} * rows;
	size_t count;
};
int register_table_decode(const uint8_t *table, size_t size, struct register_list *out, struct error *e);
void register_list_free(struct register_list *l);

#endif
