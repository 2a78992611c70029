/* SPDX-License-Identifier: MIT */
/*
 * Code ranges: the flow analysis analyses one of them at once. They are cut from the code of a file by these sources,
 * in order of precedence: PLT entries; FDEs; function symbols, init and fini arrays, runtimes' tables of functions and
 * the entry point; the sections .init and .fini.
 */
#ifndef ANALYSIS_DISCOVER_RANGES_H
#define ANALYSIS_DISCOVER_RANGES_H

#include <stdbool.h>
#include <stdint.h>

#include "analysis/facts/cfi_file.h"
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

/* The code ranges of a file. */
struct code_ranges {
	struct code_range *list; /* sorted by start, none overlap */
	size_t count, capacity;
	uint64_t *entries; /* addresses of function symbols inside code ranges, sorted */
	size_t entry_count;
};

/* Fills *out, to be freed by ranges_free(). codes: what language runtimes say of the code; their tables of functions
 * are a source. */
void ranges_build(const struct elf_file *f, const struct code_space *space, const struct cfi_file *cfi,
                  const struct runtime_codes *codes, struct code_ranges *out);
/*
 * Adds an open code range at each of the sorted addresses that lies in none. It ends at the next code range, the next
 * address, or the section's end. Returns the number of ranges added. moved[i] becomes the new index of range i.
 */
size_t ranges_add(struct code_ranges *p, const struct code_space *space, const uint64_t *addrs, size_t count,
                  uint32_t *moved);
void ranges_free(struct code_ranges *p);

#endif
