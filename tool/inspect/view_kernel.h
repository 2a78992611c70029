/* SPDX-License-Identifier: MIT */
/* `etch inspect tables` and `etch inspect orc` for files of the Linux kernel. */
#ifndef INSPECT_VIEW_KERNEL_H
#define INSPECT_VIEW_KERNEL_H

#include "kernel/kernel.h"
#include "report/listing.h"

struct kernel_options {
	bool tables;         /* true: the tables; false: the rows of .orc_unwind */
	const char *at;      /* only rows at this symbol or address; null: all */
	const char *symbols; /* a System.map, or null */
	enum format format;
};

/* 0: printed; 1: nothing to print, since it is no kernel file or lacks the tables asked for; -1: an error. */
int show_kernel(const char *path, const struct kernel_options *opt, struct error *e);

void show_kernel_tables(struct kernel *k, enum format format);
int show_kernel_orc(struct kernel *k, const char *at, enum format format, struct error *e);

#endif
