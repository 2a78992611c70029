/* SPDX-License-Identifier: MIT */
/*
 * Many neighbouring functions often have the same problem, such as the stubs that a macro generates, or the parts of an
 * interpreter. The functions here combine such findings: a run of more than RUN_MOST neighbours gets one finding, which
 * states their number.
 */
#ifndef CHECK_FUNCTION_RUNS_H
#define CHECK_FUNCTION_RUNS_H

#include "check/check.h"

#define RUN_MOST 16 /* a run of at most this many neighbours gets one finding for each */

struct run_item {
	const struct elf_symbol *function;
	size_t place;    /* index of the function among all functions, by address; neighbours have consecutive indices */
	uint64_t number; /* argument for run_text_fn */
};

typedef void run_text_fn(const struct run_item *x, char *out, size_t size);

/*
 * Adds a finding with ID `id` for each item; `text` writes its text. A long run gets only one finding, at its first
 * item, which also states the number of the others.
 */
void runs_report(struct subject *s, const char *id, const struct run_item *list, size_t count, run_text_fn *text);

/* True for a function of the start-up files of gcc and glibc, whose functions have neither sizes nor .eh_frame. */
bool function_is_startup(const struct elf_symbol *y);

#endif
