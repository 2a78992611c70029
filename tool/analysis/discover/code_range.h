/* SPDX-License-Identifier: MIT */
/* A code range: the unit that the flow analysis analyses at once. ranges.c cuts a file's code into code ranges. */
#ifndef ANALYSIS_DISCOVER_CODE_RANGE_H
#define ANALYSIS_DISCOVER_CODE_RANGE_H

#include <stdbool.h>
#include <stdint.h>

#include "analysis/facts/runtime.h"

/* The range of an FDE or a symbol, a PLT entry, or code between those to which something refers. */
struct code_range {
	uint64_t start, end; /* addresses of the code space */
	const uint8_t *bytes;
	const struct convention *convention; /* that of its language; null: C. Use code_convention() */
	const char *function;                /* its name in the runtime's own table; or null */
	int32_t fde;                         /* index in cfi_file.fdes, or -1 */
	uint32_t entry, entry_count;         /* function symbols after its start: a slice of code_ranges.entries */
	bool named;    /* at its start is a function symbol (not of a cold part), the file's entry point, a PLT entry, or a
	                  function that a runtime's own table lists */
	bool exported; /* at its start is a symbol visible to other files */
	bool plt;
	bool outermost;     /* its frames have no caller: it is the file's entry point, or a runtime's table says so */
	bool handler;       /* it begins in the frame that rbp points to, by interproc/interpreters.c */
	bool entry_tail;    /* only the entry point jumps here, so its frames have no caller either */
	bool may_be_called; /* it is outermost or entry_tail, but the file's interpreter may call the entry point */
	bool inferred;      /* it was found by a reference to it, in code without FDE or symbol */
	bool open;          /* its end is not given: it extends to the next range until its flow shows the end */
	bool part;    /* it is no function, by its runtime: flow begins only where notes (facts/notes.h) and edges lead */
	bool resumes; /* its end is the end of a replacement: NOTE_RESUME says where control continues */
};

/* Returns the calling convention of a code range, which is that of C where its language has none of its own. */
static inline const struct convention *code_convention(const struct code_range *p)
{
	static const struct convention c = {.keeps_rbp = true};

	return p->convention ? p->convention : &c;
}

#endif
