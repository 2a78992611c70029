/* SPDX-License-Identifier: MIT */
/* Interface between entries.c and entry_pads.c, which fill struct entries. */
#ifndef SITE_ENTRIES_INTERNAL_H
#define SITE_ENTRIES_INTERNAL_H

#include "site/entries.h"

/* Context while the entries of a file are collected. */
struct builder {
	struct entries *out;
	const struct elf_file *f;
	struct func_list *funcs;
	uint64_t got;         /* linked: value of _GLOBAL_OFFSET_TABLE_; 0 = none */
	struct entries bases; /* data addresses in operands of code: possible starts of jump tables */
	struct error *e;
};

/* Adds a target of a reference; it is an entry only if it is inside of a function, not its start. */
int entry_add(struct builder *b, uint32_t section, uint64_t addr);

/* In entry_pads.c: adds landing pads and fixups, sorted; those in another function are entries too. */
int pads_build(struct builder *b);

/* Index of the first landing pad, or faulting instruction, of a section at or after `addr`. */
size_t pads_from(const struct entries *x, uint32_t section, uint64_t addr);
size_t faults_from(const struct entries *x, uint32_t section, uint64_t addr);

#endif
