/* SPDX-License-Identifier: MIT */
/* Views of files of the Linux kernel: `etch inspect tables` and `etch inspect orc`. */
#ifndef INSPECT_KERNEL_H
#define INSPECT_KERNEL_H

#include "kernel/kernel.h"
#include "report/listing.h"

struct kernel_options {
	bool tables;         /* else the rows of .orc_unwind */
	const char *at;      /* of the rows those at a symbol or an address; null: all */
	const char *symbols; /* a System.map, or null */
	enum format format;
};

/* 1: this is no file of the kernel (or has not what is asked for), and nothing was
 * printed; 0: done; -1: an error. */
int show_kernel(const char *path, const struct kernel_options *opt, struct error *e);

int show_kernel_tables(struct kernel *k, enum format format, struct error *e);
int show_kernel_orc(struct kernel *k, const char *at, enum format format, struct error *e);

#endif
