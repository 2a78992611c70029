/* SPDX-License-Identifier: MIT */
/*
 * Findings about functions of which whole rows say the same: stubs that a macro has made, the
 * code of an interpreter. Many neighbours get one finding, with their number.
 */
#ifndef CHECK_RUNS_H
#define CHECK_RUNS_H

#include "check/check.h"

#define RUN_MOST 16 /* neighbours that get a finding each */

struct run_item {
	const struct elf_symbol *function;
	size_t place;    /* among all functions, in order of address: neighbours follow each other */
	uint64_t number; /* for `text` */
};

typedef void run_text_fn(const struct run_item *x, char *out, size_t size);

/* What `text` says of each, or of the first with the number of those behind it. */
int runs_tell(struct subject *s, const char *id, const struct run_item *list, size_t count, run_text_fn *text,
              struct error *e);

/* Is it of the start-up files of gcc and glibc, which have neither sizes nor .eh_frame? */
bool function_is_startup(const struct elf_symbol *y);

#endif
