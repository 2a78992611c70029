/* SPDX-License-Identifier: MIT */
/* Interface between the files that scan a linked file: scan_linked.c, scan_tables.c, data_pointers.c and
 * inferred_objects.c. */
#ifndef SITE_LINKED_H
#define SITE_LINKED_H

#include "site/site.h"

/* Address bounds of all etched sections, for a quick rejection; lo >= hi: none. */
struct range {
	uint64_t lo, hi;
};

static inline bool in_range(const struct range *r, uint64_t addr) { return addr >= r->lo && addr <= r->hi; }

/* Address of the memory operand of an instruction; 0: none, or not constant. `absolute`: the file is loaded at
 * its link address, so displacements can be addresses. */
static inline uint64_t insn_place(const struct insn *in, bool absolute)
{
	if (in->mem == MEM_NONE || in->segment)
		return 0;
	if (in->base == INSN_PC_REG)
		return in->disp_len == 4 ? in->addr + in->len + (uint64_t)in->disp : 0;
	return absolute && in->disp_len >= 4 ? (uint64_t)in->disp : 0;
}

/*
 * Compilers fold the constant part of an index into the address: arr[c - 'a'], arr[i + 600]. Up to this distance in
 * bytes an indexed address is taken for such a reference.
 */
#define INDEX_REACH 0x100000u

/* Index of the object at an address, or -1. `end_too`: also matches an object that ends there. */
int32_t object_at(const struct scan *s, uint64_t addr, bool end_too);

/* An address near the etched sections is in no variable: an index added to it may lead into them (neighbours.c). */
bool place_is_beside(const struct scan *s, const struct range *etched, uint64_t at);
/* The address of an operand with an index is in another writable variable. Where no array of it begins there, it is
 * noted for scan_neighbours(). */
bool place_is_other(struct scan *s, const struct range *etched, const struct insn *in, uint64_t at);

/* The address is in a GOT section. */
bool slot_is_got(const struct elf_file *f, uint64_t addr);
/* The slot at an address, or null. slots_sort() must have been called. */
const struct slot *slot_at(const struct scan *s, uint64_t addr);
void slot_add(struct scan *s, uint64_t addr, int32_t object, int64_t off);
void slots_sort(struct scan *s);

/* Fills s->slots and s->relocated, and adds the escapes through data words. */
int words_take(struct scan *s, const struct range *range);

/* Adds the sites and facts of the tables, after those found in the code; sorts s->sites by address. */
void tables_take(struct scan *s, const struct linked_tables *now);

#endif
