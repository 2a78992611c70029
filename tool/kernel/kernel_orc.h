/* SPDX-License-Identifier: MIT */
/*
 * Reads .orc_unwind_ip and .orc_unwind, which the kernel's objtool generates, into rows sorted by address. Each row
 * keeps the decoded entry.
 */
#ifndef KERNEL_KERNEL_ORC_H
#define KERNEL_KERNEL_ORC_H

#include "kernel/kernel_entry.h"
#include "kernel/kernel.h"

struct kernel_row {
	/* The code to which the row applies: KPLACE_SECTION; with any other kind the row is malformed. */
	struct kernel_place place;
	uint64_t size; /* number of bytes to the next row or to the end of the section */
	struct kernel_orc orc;
	const char *problem; /* a phrase that says why the row is malformed; null: it is well formed */
};

struct kernel_rows {
	struct kernel_row *list; /* sorted by place; rows without a place come last */
	size_t count;            /* number of entries in the file; each has a row in `list` */
	size_t bad;
	bool present; /* the file has these sections */
	bool sorted;  /* the file's entries are sorted */
	enum kernel_orc_layout layout;
	char layout_from[160]; /* how the layout was found: ".orc_header", a release, or an assumption */
	char problem[256];     /* a problem of the arrays as a whole; empty if there is none */
};

/*
 * True if the file has arrays with these section names that etch did not write. In an object that etch wrote, the
 * arrays are SHF_LINK_ORDER, but ld -r may drop that flag. Therefore arrays in a file that is not identified as a
 * kernel file (kernel_sign()) are taken for etch's unless an entry is malformed.
 */
bool kernel_orc_present(const struct elf_file *f);
int kernel_orc_read(struct kernel *k, struct kernel_rows *out, struct error *e);
/* Counts the entries and determines their layout, without making rows. */
int kernel_orc_head(struct kernel *k, struct kernel_rows *out);
void kernel_orc_free(struct kernel_rows *r);

#endif
