/* SPDX-License-Identifier: MIT */
/*
 * The kernel's .orc_unwind_ip and .orc_unwind, which objtool makes: rows in order of
 * address, with what each was read from.
 */
#ifndef KERNEL_ORC_H
#define KERNEL_ORC_H

#include "arch/x86/kernel_orc.h"
#include "kernel/kernel.h"

struct kernel_row {
	struct kernel_place place; /* section and addr; else it is malformed */
	uint64_t size;             /* to the next row, or the end of its section */
	struct kernel_orc orc;
	const char *problem;       /* a phrase; null: none */
};

struct kernel_rows {
	struct kernel_row *list; /* by place; those without one last */
	size_t count;            /* of the file's entries: all of them */
	size_t bad;
	bool present;            /* the file has the sections */
	bool sorted;             /* in the file */
	enum kernel_orc_layout layout;
	char layout_from[160];   /* by what it was told */
	char problem[160];       /* with the arrays as a whole; or empty */
};

/*
 * Has the file arrays of those names that are not etch's? An etched object's are
 * SHF_LINK_ORDER. After ld -r they need not be: of a file without a sign of the kernel
 * (kernel_sign()) they are taken for etch's unless an entry is none.
 */
bool kernel_orc_present(const struct elf_file *f);
int kernel_orc_read(struct kernel *k, struct kernel_rows *out, struct error *e);
/* How many entries there are and of which layout, without reading them all. */
int kernel_orc_head(struct kernel *k, struct kernel_rows *out);
void kernel_orc_free(struct kernel_rows *r);

#endif
