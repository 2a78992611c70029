/* SPDX-License-Identifier: MIT */
/* The places of callee-saved registers that the analysis has found (frames_options.saves): rows for rbx and r12 to r15,
 * in addition to the rows of analysis/unwind/rows.h. */
#ifndef ANALYSIS_UNWIND_SAVES_H
#define ANALYSIS_UNWIND_SAVES_H

#include "analysis/facts/cfi_file.h"

/* For which code the places of callee-saved registers are found. */
enum saves_of {
	SAVES_NONE,
	SAVES_MISSING, /* for code ranges of which .eh_frame does not cover all bytes */
	SAVES_WRONG,   /* for these, and for code ranges where .eh_frame contradicts the code */
	SAVES_ALL,
};

/* Where the caller's rbx and r12 to r15 are, from `addr` up to the next row. */
struct save_row {
	uint64_t addr;
	struct etch_cfi_saves saves;
	/* Offset from the CFA of a slot that holds the caller's rbp, even if the row's rule says that rbp itself still
	 * holds it; 0: there is no slot. */
	int32_t bp;
	bool begins; /* a code range begins at this row: a function, or a part of one */
	bool part;   /* together with `begins`: the code range is a part, and begins in the frame that jumps bring */
};

/* Rows sorted by address. The last row of a code range is followed by the first of the next one; between the two, the
 * last row is meaningless. */
struct save_list {
	struct save_row *rows;
	size_t count, capacity;
};

#endif
