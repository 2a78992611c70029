/* SPDX-License-Identifier: MIT */
/* The interface between entries.c, entry_parts.c and entry_pads.c, which fill struct entries. */
#ifndef SITE_ENTRIES_INTERNAL_H
#define SITE_ENTRIES_INTERNAL_H

#include "site/entries.h"

/* The state while the entries of a file are collected. */
struct builder {
	struct entries *out;
	const struct elf_file *f;
	struct func_list *funcs;
	uint64_t got;          /* linked: value of _GLOBAL_OFFSET_TABLE_; 0 = none */
	struct entries bases;  /* data addresses in operands of code: possible starts of jump tables */
	struct base_ref *refs; /* these operands, sorted by base when all have been added */
	size_t ref_count, ref_capacity;
	bool *open; /* linked, for each function, whether control may enter it in other ways than by a direct jump of
	               another function */
	struct jump *jumps;
	size_t jump_count, jump_capacity;
	struct error *e;
};

/* An operand that refers to the possible start of a jump table. */
struct base_ref {
	struct entry base;
	const struct func *fn; /* the function of the instruction */
	uint64_t insn;
	bool lea; /* it only loads the address */
};

/* A direct jump from one function into another, given by their numbers. */
struct jump {
	uint32_t from, to;
	uint64_t insn, target;
};

/* Appends to a list, unsorted. */
void entry_append(struct entry **list, size_t *count, size_t *capacity, const struct entry *x);
int entry_order(const void *a, const void *b);

/* Adds the target of a reference, which is an entry only if it is inside a function, but not its start. */
void entry_add(struct builder *b, uint32_t section, uint64_t addr, bool by_table);

/* In entry_parts.c: functions that are parts of others. */
/* Notes that control may enter the function that contains an address in a way that is not followed. */
void part_open(struct builder *b, uint32_t section, uint64_t addr);
/* Adds the target of a direct jump in `fn`. */
void part_jump_add(struct builder *b, const struct func *fn, const struct insn *in, uint32_t section, uint64_t to);
/* Decides by_part of the entries, and fills `returns` and `ways`. Call this when everything else has been added and
 * sorted. */
void parts_build(struct builder *b);

/* In entry_pads.c: adds landing pads and fixups, sorted; those in another function, and all fixups, are entries too. */
int pads_build(struct builder *b);

/* Return the index of the first call site with a landing pad, or of the first faulting instruction, of a section at or
 * after `addr`. */
size_t pads_from(const struct entries *x, uint32_t section, uint64_t addr);
size_t faults_from(const struct entries *x, uint32_t section, uint64_t addr);

#endif
