/* SPDX-License-Identifier: MIT */
/*
 * Unwind rows. The generator makes them (analysis/interproc/frames.h), tables encode them (table/unwind_tables.h), and
 * etch inspect shows them.
 */
#ifndef ANALYSIS_UNWIND_ROWS_H
#define ANALYSIS_UNWIND_ROWS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <etch/orc.h>

/* A row is valid from `addr` up to the next row. Gaps between code ranges have rows of kind UNDEF. */
struct row {
	uint64_t addr; /* link-time address; for an object file, an address as in analysis/facts/space.h */
	struct etch_rule rule;
	uint8_t source; /* enum etch_row_source */
	/* Only in the rows of one code range: the code confirms .eh_frame's only row, but merely by an inferred state
	 * (state.weak). */
	bool inferred;
};

/* Rows sorted by address, each with a different address. The last row is UNDEF, at the end of the text. Adjacent rows
 * differ in rule or source. */
struct row_list {
	struct row *rows;
	size_t count, capacity;
};

#endif
