/* SPDX-License-Identifier: MIT */
/* Between the files that look at linked files: scan_linked.c and words.c. */
#ifndef SITE_LINKED_H
#define SITE_LINKED_H

#include "site/site.h"

/* Bounds of all etched objects, for the quick answer "no"; lo >= hi: there is none. */
struct range {
	uint64_t lo, hi;
};

static inline bool in_range(const struct range *r, uint64_t addr) { return addr >= r->lo && addr <= r->hi; }

/* The address in the memory operand of an instruction; 0: none. `absolute`: of a file that
 * is loaded where it was linked, whose displacements can be addresses. */
static inline uint64_t insn_place(const struct insn *in, bool absolute)
{
	if (in->mem == MEM_NONE || in->segment)
		return 0;
	if (in->base == INSN_PC_REG)
		return in->disp_len == 4 ? in->addr + in->len + (uint64_t)in->disp : 0;
	return absolute && in->disp_len >= 4 ? (uint64_t)in->disp : 0;
}

/* The object at an address, or -1. `end_too`: also one that ends there. */
int32_t object_at(const struct scan *s, uint64_t addr, bool end_too);

/* Is this address in a GOT section? */
bool slot_is_got(const struct elf_file *f, uint64_t addr);
/* The slot at an address, or null; slots must be sorted. */
const struct slot *slot_at(const struct scan *s, uint64_t addr);
int slot_add(struct scan *s, uint64_t addr, int32_t object, int64_t off);
void slots_sort(struct scan *s);

/* Fills slots and relocated, adds the escapes through data. */
int words_take(struct scan *s, const struct range *range);

#endif
