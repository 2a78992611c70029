/* SPDX-License-Identifier: MIT */
/* The relocations of each section of a kernel file, read on first use and cached. */
#ifndef KERNEL_RELOCS_H
#define KERNEL_RELOCS_H

#include "kernel/kernel.h"

struct kernel_relocs {
	/* Index of the first section that relocates this one; index of the next section that relocates the same one. */
	uint32_t first, next;
	bool read;
	struct elf_reloc *list; /* sorted by offset */
	size_t count;
	struct error *broken; /* the reason why they cannot be read; null: they can be read */
};

void kernel_relocs_open(struct kernel *k);
void kernel_relocs_free(struct kernel *k);

#endif
