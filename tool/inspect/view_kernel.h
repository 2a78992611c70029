/* SPDX-License-Identifier: MIT */
/* Implements `etch inspect tables` and `etch inspect orc` for files of the Linux kernel. */
#ifndef INSPECT_VIEW_KERNEL_H
#define INSPECT_VIEW_KERNEL_H

#include "kernel/kernel.h"
#include "report/listing.h"

struct kernel_options {
	bool tables;         /* true: shows the tables; false: shows the rows of .orc_unwind */
	const char *at;      /* shows only the rows at this symbol or address; null: all rows */
	const char *symbols; /* a System.map, or null */
	enum format format;
};

/* Returns 0 if something was printed; 1 if there is nothing to print, since the file is not a kernel file or lacks
 * the tables asked for; -1 after an error. */
int show_kernel(const char *path, const struct kernel_options *opt, struct error *e);

void show_kernel_tables(struct kernel *k, enum format format);
int show_kernel_orc(struct kernel *k, const char *at, enum format format, struct error *e);

#endif
