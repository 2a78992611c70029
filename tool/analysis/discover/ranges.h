/* SPDX-License-Identifier: MIT */
/*
 * Code ranges: the pieces of a file's code, mostly functions, that the flow analysis analyses one by one. These sources
 * say where they are, in order of precedence: PLT entries; FDEs; function symbols, init and fini arrays, runtimes'
 * tables of functions and the entry point; the sections .init and .fini.
 */
#ifndef ANALYSIS_DISCOVER_RANGES_H
#define ANALYSIS_DISCOVER_RANGES_H

#include <stdbool.h>
#include <stdint.h>

#include "analysis/facts/cfi_file.h"
#include "analysis/facts/runtime.h"

/* A code range: that of an FDE or a symbol, a PLT entry, or code between these to which something refers. */
struct code_range {
	uint64_t start, end; /* addresses of the code space */
	const uint8_t *bytes;
	/* the calling convention of its language; null: that of C. Read it by code_convention() */
	const struct convention *convention;
	const char *function;        /* its name in the language runtime's own table; or null */
	int32_t fde;                 /* index in cfi_file.fdes, or -1 */
	uint32_t entry, entry_count; /* the addresses of the function symbols inside it, not at its start: index of the
	                                first one in code_ranges.entries, and their number */
	bool named;    /* at its start is a function symbol (not of a cold part), the file's entry point, a PLT entry, or a
	                  function that a runtime's own table lists */
	bool exported; /* at its start is a symbol visible to other files */
	bool plt;
	bool outermost;  /* its frames have no caller: the range begins at the file's entry point, or a runtime's table says
	                    so */
	bool handler;    /* it is a handler of an interpreter, and so begins in the frame that rbp points to
	                    (interproc/interpreters.c) */
	bool entry_tail; /* only the entry point jumps here, so its frames have no caller either */
	bool may_be_called; /* it is outermost or entry_tail, but the file's ELF interpreter may call the entry point, so
	                       that its frames may have a caller */
	bool inferred;      /* it has no FDE or symbol, and was only found by a reference to it */
	bool open; /* nothing says where it ends: it extends to the next range until the flow analysis shows its end */
	bool part; /* its runtime or profile says that it is no function: control enters it only where notes (facts/notes.h)
	              and edges lead */
	bool resumes; /* it ends with the end of a replacement (struct replacement): NOTE_RESUME says where control
	                 continues */
};

/* Returns the calling convention of a code range: that of its language, or that of C if its language has none. */
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

/* Fills *out, to be freed by ranges_free(). `codes` is what language runtimes say about the code; their tables of
 * functions are one of the sources. */
void ranges_build(const struct elf_file *f, const struct code_space *space, const struct cfi_file *cfi,
                  const struct runtime_codes *codes, struct code_ranges *out);
/*
 * Adds an open code range at each of the sorted addresses that lies in no code range. The new range ends at the next
 * code range, the next of the addresses, or the section's end. Returns the number of ranges added. moved[i] becomes the
 * new index of the range that had index i.
 */
size_t ranges_add(struct code_ranges *p, const struct code_space *space, const uint64_t *addrs, size_t count,
                  uint32_t *moved);
void ranges_free(struct code_ranges *p);

#endif
