/* SPDX-License-Identifier: MIT */
/*
 * Unwind rows: produced by the generator (analysis/interproc/frames.h), encoded in the tables (table/unwind_tables.h),
 * and shown by inspect.
 */
#ifndef ANALYSIS_UNWIND_ROWS_H
#define ANALYSIS_UNWIND_ROWS_H

#include "analysis/facts/cfi_file.h"

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

/* ---- where callee-saved registers are, as the analysis has found out (frames_options.saves) ---- */

/* For which code the places of callee-saved registers are to be found. */
enum saves_of {
	SAVES_NONE,
	SAVES_MISSING, /* code ranges where .eh_frame has no rows */
	SAVES_WRONG,   /* these, and code ranges where .eh_frame contradicts the code */
	SAVES_ALL,
};

/* Where the caller's rbx and r12 to r15 are, from addr up to the next row. */
struct save_row {
	uint64_t addr;
	struct etch_cfi_saves saves;
	int32_t bp; /* offset from the CFA of a slot that has the caller's rbp, even where the rule says that rbp itself has
	             * it; 0: there is none */
	bool begins; /* a code range begins here: a function, or a part of one */
	bool part;   /* and it is a part, which has the frame that jumps bring */
};

/* Sorted by address; between code ranges the last row extends, without a meaning. */
struct save_list {
	struct save_row *rows;
	size_t count, capacity;
};

#endif
