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
	uint64_t got;          /* linked: value of _GLOBAL_OFFSET_TABLE_; 0 = none */
	struct entries bases;  /* data addresses in operands of code: possible starts of jump tables */
	struct base_ref *refs; /* the operands, sorted by base once all are there */
	size_t ref_count, ref_capacity;
	bool *open; /* linked, per function: control may enter it in other ways than by a direct jump of another one */
	struct jump *jumps;
	size_t jump_count, jump_capacity;
	struct error *e;
};

/* An operand that refers to a possible start of a jump table. */
struct base_ref {
	struct entry base;
	const struct func *fn; /* the function of the instruction */
	uint64_t insn;
	bool lea; /* it loads the address, and nothing else */
};

/* A direct jump from a function into another one; both by number. */
struct jump {
	uint32_t from, to;
	uint64_t insn, target;
};

/* Appends to a list, unsorted. */
void entry_append(struct entry **list, size_t *count, size_t *capacity, const struct entry *x);
int entry_order(const void *a, const void *b);

/* In entry_tables.c: */
void base_ref_add(struct builder *b, const struct func *fn, const struct insn *in, uint32_t section, uint64_t addr);
void base_refs_sort(struct builder *b);
/* The only function that refers to a base, and it only loads its address; else null. */
const struct func *base_owner(const struct builder *b, const struct entry *base);
/* Is the target inside of the function, not its start? */
bool target_is_inside(const struct func *fn, uint32_t section, uint64_t to);
/* All entries of the table at a base are in its owner: notes the instructions that load its address. */
void base_leas_add(struct builder *b, const struct entry *base);

/* Adds a target of a reference; it is an entry only if it is inside of a function, not its start. */
void entry_add(struct builder *b, uint32_t section, uint64_t addr, bool by_table);

/* In entry_parts.c: functions that are parts of others. */
/* Control may enter the function that holds an address, at its start or after, in a way that is not followed. */
void part_open(struct builder *b, uint32_t section, uint64_t addr);
/* Adds the target of a direct jump in `fn`. */
void part_jump_add(struct builder *b, const struct func *fn, const struct insn *in, uint32_t section, uint64_t to);
/* Once all else is there, sorted: decides by_part of entries, and fills `returns` and `ways`. */
void parts_build(struct builder *b);

/* In entry_pads.c: adds landing pads and fixups, sorted; those in another function are entries too. */
int pads_build(struct builder *b);

/* Index of the first landing pad, or faulting instruction, of a section at or after `addr`. */
size_t pads_from(const struct entries *x, uint32_t section, uint64_t addr);
size_t faults_from(const struct entries *x, uint32_t section, uint64_t addr);

#endif
