/* SPDX-License-Identifier: MIT */
/* Shows the tables and the rows of a kernel file, for `etch inspect`. */
#ifndef KERNEL_KERNEL_VIEWS_H
#define KERNEL_KERNEL_VIEWS_H

#include "kernel/kernel.h"
#include "report/listing.h"

/* Addresses [start, end) as etch prints them (ET_REL: offsets in `section`). */
struct kernel_range {
	uint32_t section; /* 0: any */
	uint64_t start, end;
};

/* Finds the range of a symbol of the file or of --symbols, or the single address "name+0x10". False if there is none.
 */
bool kernel_range_find(const struct kernel *k, const char *name, struct kernel_range *out);

/* kernel_tables_view.c: prints each table with its entries resolved. */
void kernel_tables_show(struct kernel *k, enum format format);
/* kernel_rows_view.c: prints objtool's rows in the columns of etch's own; only those in `at`, unless it is null.
 * Returns 0, or -1 and a message. */
int kernel_rows_show(struct kernel *k, const struct kernel_range *at, enum format format, struct error *e);

#endif
