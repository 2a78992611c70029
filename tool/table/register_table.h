/* SPDX-License-Identifier: MIT */
/* The register table (etch/orc_registers.h): where the caller's rbx and r12 to r15 are. */
#ifndef TABLE_REGISTER_TABLE_H
#define TABLE_REGISTER_TABLE_H

#include "analysis/facts/cfi_file.h"
#include "analysis/unwind/rows.h"
#include "analysis/unwind/saves.h"
#include "support/error.h"

/* The sources from which a register table is made. */
struct register_sources {
	const struct row_list *rows;   /* rows of the block table */
	const struct save_list *saves; /* what the analysis of the code has found, for all code */
	const struct cfi_file *cfi;    /* null: .eh_frame is not used */
};

/*
 * Encodes the register table for the code of the rows; it is malloc'd. A place is proven from the code; or, where the
 * code shows none, taken from .eh_frame, if the code does not contradict it; or unknown. *lost is the number of places
 * that do not fit, and are unknown. Returns -1 and a message if the table is too large.
 */
int register_table_make(const struct register_sources *in, uint8_t **out, size_t *size, size_t *lost, struct error *e);

/* The rows of a table that etch_registers_valid() has accepted; the last one is its end. */
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
