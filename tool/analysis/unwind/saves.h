/* SPDX-License-Identifier: MIT */
/* Where callee-saved registers are, as the analysis has found out (frames_options.saves): the rows of rbx and r12 to
 * r15, which accompany those of analysis/unwind/rows.h. */
#ifndef ANALYSIS_UNWIND_SAVES_H
#define ANALYSIS_UNWIND_SAVES_H

#include "analysis/facts/cfi_file.h"

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
