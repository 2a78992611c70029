/* SPDX-License-Identifier: MIT */
/* Prints the tables and the unwind rows of a kernel file, for `etch inspect`. */
#ifndef KERNEL_KERNEL_VIEWS_H
#define KERNEL_KERNEL_VIEWS_H

#include "kernel/kernel.h"
#include "report/listing.h"

/* Addresses [start, end) as etch prints them (ET_REL: offsets in `section`). */
struct kernel_range {
	uint32_t section; /* 0: any */
	uint64_t start, end;
};

/*
 * Finds the range of a symbol of the file or of the System.map of --symbols, or the single address "name+0x10". Returns
 * false if there is none.
 */
bool kernel_range_find(const struct kernel *k, const char *name, struct kernel_range *out);

/* Defined in kernel_tables_view.c: prints each table with its entries resolved. */
void kernel_tables_show(struct kernel *k, enum format format);
/*
 * Defined in kernel_rows_view.c: prints the rows that the kernel's objtool made, in the columns for the rows that etch
 * makes. If `at` is not null, prints only the rows in that range. Returns 0, or -1 and a message.
 */
int kernel_rows_show(struct kernel *k, const struct kernel_range *at, enum format format, struct error *e);

#endif
