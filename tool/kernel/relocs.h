/* SPDX-License-Identifier: MIT */
/* Relocations of a section, kept once they have been read. */
#ifndef KERNEL_RELOCS_H
#define KERNEL_RELOCS_H

#include "kernel/kernel.h"

struct kernel_relocs {
	uint32_t first, next;   /* of this section the first to relocate it; the next one of its target */
	bool read;
	struct elf_reloc *list; /* by offset */
	size_t count;
	struct error *broken;   /* why they cannot be read; null: they can */
};

int kernel_relocs_open(struct kernel *k);
void kernel_relocs_free(struct kernel *k);

#endif
