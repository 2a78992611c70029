/* SPDX-License-Identifier: MIT */
/* A code range, the unit of the flow analysis. ranges.c cuts a file's code into them. */
#ifndef ANALYSIS_DISCOVER_CODE_RANGE_H
#define ANALYSIS_DISCOVER_CODE_RANGE_H

#include <stdbool.h>
#include <stdint.h>

#include "analysis/facts/runtime.h"

/* Code that is analysed as a unit: the range of an FDE or symbol, a PLT entry, or code between those that is referred
 * to. */
struct code_range {
	uint64_t start, end; /* addresses of the code space */
	const uint8_t *bytes;
	long fde;                    /* index in cfi_file.fdes, or -1 */
	uint32_t entry, entry_count; /* function symbols inside, not at its start: slice of code_ranges.entries */
	bool named;    /* at its start is a function symbol (not of a cold part), the file's entry point, a PLT entry,
	                * or a function of a runtime's own table */
	bool exported; /* at its start is a symbol visible to other files */
	bool plt;
	bool outermost;                      /* begins with the file's entry point, or is another outermost frame */
	const struct convention *convention; /* of its language; null: C. See code_convention() */
	const char *function;                /* its name in the runtime's own table; or null */
	bool entry_tail;                     /* reached only by a jump of the entry point: an outermost frame, too */
	bool inferred;                       /* found by a reference to it, in code without FDE or symbol */
	bool open;    /* its end is not given: it extends to the next range until its flow shows the end */
	bool part;    /* not a function by the file's conventions: begins only where notes and edges lead (facts/notes.h) */
	bool resumes; /* it ends a replacement: NOTE_RESUME says where control continues */
};

static inline const struct convention *code_convention(const struct code_range *p)
{
	static const struct convention c = {.keeps_rbp = true};

	return p->convention ? p->convention : &c;
}

#endif
