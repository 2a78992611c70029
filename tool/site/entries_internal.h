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
	uint64_t got;          /* linked files: value of _GLOBAL_OFFSET_TABLE_; 0: none */
	struct entries bases;  /* data addresses in operands of code: possible starts of jump tables */
	struct base_ref *refs; /* the operands with these addresses; sorted by base when all have been added */
	size_t ref_count, ref_capacity;
	bool *open; /* linked files: for each function, whether control may enter it in other ways than by a direct jump of
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
	bool lea; /* the instruction only loads the address (lea) */
};

/* A direct jump from one function into another, given by their numbers. */
struct jump {
	uint32_t from, to;
	uint64_t insn, target;
};

/* Appends to a list, unsorted. */
void entry_append(struct entry **list, size_t *count, size_t *capacity, const struct entry *x);
int entry_order(const void *a, const void *b);

/* Adds the target of a reference as an entry if it is inside a function; the start of a function is not an entry. */
void entry_add(struct builder *b, uint32_t section, uint64_t addr, bool by_table);

/* Functions of entry_parts.c, which finds functions that are parts of others. */
/* Marks the function that contains an address as open: control may enter it in ways that are not followed. */
void part_open(struct builder *b, uint32_t section, uint64_t addr);
/* Adds the jump `in` of function `fn` to an address of a section. */
void part_jump_add(struct builder *b, const struct func *fn, const struct insn *in, uint32_t section, uint64_t to);
/*
 * Sets by_part of the entries, and fills `returns` and `ways`. The caller calls this when everything else has been
 * added and sorted.
 */
void parts_build(struct builder *b);

/*
 * Defined in entry_pads.c: adds the landing pads and fixups, sorted. Each fixup, and each landing pad in another
 * function than the call, also becomes an entry. Returns 0, or -1 and a message.
 */
int pads_build(struct builder *b);

/*
 * pads_from() returns the index of the first call site with a landing pad, and faults_from() that of the first faulting
 * instruction, at or after `addr` in a section.
 */
size_t pads_from(const struct entries *x, uint32_t section, uint64_t addr);
size_t faults_from(const struct entries *x, uint32_t section, uint64_t addr);

#endif
