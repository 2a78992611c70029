/* SPDX-License-Identifier: MIT */
/*
 * Unwind rows: produced by the generator (analysis/interproc/frames.h), encoded in the tables (table/unwind_tables.h),
 * and shown by inspect.
 */
#ifndef ANALYSIS_UNWIND_ROWS_H
#define ANALYSIS_UNWIND_ROWS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <etch/orc.h>

/* A row is valid from addr up to the next row. Gaps between code ranges are rows of kind UNDEF. */
struct row {
	uint64_t addr; /* link-time address; for an object file see analysis/facts/space.h */
	struct etch_rule rule;
	uint8_t source; /* enum etch_row_source */
	bool inferred;  /* in the rows of one code range: the code confirms .eh_frame's only row by an inferred state
	                 * (state.weak) */
};

/* Sorted by address, no two with the same address; the last row is UNDEF, at the end of the text. Neighbours differ in
 * rule or source. */
struct row_list {
	struct row *rows;
	size_t count, capacity;
};

#endif
