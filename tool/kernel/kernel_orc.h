/* SPDX-License-Identifier: MIT */
/*
 * Reads the kernel's .orc_unwind_ip and .orc_unwind, which objtool generates, into rows sorted by address, each with
 * the entry from which it was read.
 */
#ifndef KERNEL_KERNEL_ORC_H
#define KERNEL_KERNEL_ORC_H

#include "kernel/kernel_entry.h"
#include "kernel/kernel.h"

struct kernel_row {
	struct kernel_place place; /* section and addr; with any other kind the row is malformed */
	uint64_t size;             /* number of bytes to the next row or to the end of the section */
	struct kernel_orc orc;
	const char *problem; /* a phrase that says why the row is malformed; null: it is not */
};

struct kernel_rows {
	struct kernel_row *list; /* sorted by place; rows without a place come last */
	size_t count;            /* number of entries in the file; all are in the list */
	size_t bad;
	bool present; /* the file has these sections */
	bool sorted;  /* the file's entries are sorted */
	enum kernel_orc_layout layout;
	char layout_from[160]; /* the source from which the layout was inferred */
	char problem[256];     /* a problem of the arrays as a whole; empty if there is none */
};

/*
 * True if the file has arrays with these names that are not etch's. Those of an etched object are SHF_LINK_ORDER, but
 * not always after ld -r: in a file that is not identified as a kernel file (kernel_sign()) they count as etch's
 * unless an entry is malformed.
 */
bool kernel_orc_present(const struct elf_file *f);
int kernel_orc_read(struct kernel *k, struct kernel_rows *out, struct error *e);
/* Counts the entries and determines their layout, without decoding every entry into a row. */
int kernel_orc_head(struct kernel *k, struct kernel_rows *out);
void kernel_orc_free(struct kernel_rows *r);

#endif
