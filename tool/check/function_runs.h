/* SPDX-License-Identifier: MIT */
/*
 * Combines findings about many neighbouring functions with the same problem, such as stubs that a macro generates, or
 * an interpreter: more than RUN_MOST neighbours get one finding, which states their number.
 */
#ifndef CHECK_FUNCTION_RUNS_H
#define CHECK_FUNCTION_RUNS_H

#include "check/check.h"

#define RUN_MOST 16 /* up to this many neighbours get a finding each */

struct run_item {
	const struct elf_symbol *function;
	size_t place;    /* index among all functions by address: neighbours have consecutive indices */
	uint64_t number; /* argument for run_text_fn */
};

typedef void run_text_fn(const struct run_item *x, char *out, size_t size);

/* Adds a finding with the text that `text` writes for each item. A long run gets one, for its first item, with the
 * number of the others. */
void runs_report(struct subject *s, const char *id, const struct run_item *list, size_t count, run_text_fn *text);

/* True for functions of the start-up files of gcc and glibc, which have neither sizes nor .eh_frame. */
bool function_is_startup(const struct elf_symbol *y);

#endif
