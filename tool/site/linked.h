/* SPDX-License-Identifier: MIT */
/* The interface between the files that scan a linked file: scan_linked.c, scan_tables.c, data_pointers.c,
 * inferred_objects.c, kernel_data.c and neighbours.c. */
#ifndef SITE_LINKED_H
#define SITE_LINKED_H

#include "site/site.h"

/* The address bounds of all etched sections, for a quick rejection; lo >= hi: there are none. */
struct range {
	uint64_t lo, hi;
};

static inline bool in_range(const struct range *r, uint64_t addr) { return addr >= r->lo && addr <= r->hi; }

/* Returns the address of the memory operand of an instruction, or 0 if there is none or it is not constant. With
 * `absolute` the file is loaded at its link address, so displacements can be addresses. */
static inline uint64_t insn_place(const struct insn *in, bool absolute)
{
	if (in->mem == MEM_NONE || in->segment)
		return 0;
	if (in->base == INSN_PC_REG)
		return in->disp_len == 4 ? in->addr + in->len + (uint64_t)in->disp : 0;
	return absolute && in->disp_len >= 4 ? (uint64_t)in->disp : 0;
}

/*
 * Compilers fold the constant part of an index into the address, as in arr[c - 'a'] and arr[i + 600]. An indexed
 * address up to this distance in bytes is taken for such a reference.
 */
#define INDEX_REACH 0x100000u

/* Returns the index of the object at an address, or -1. With `end_too` an object that ends there matches too. */
int32_t object_at(const struct scan *s, uint64_t addr, bool end_too);

/*
 * True for an address that is near the etched sections and in no variable: an index that is added to it may lead into
 * these sections (neighbours.c).
 */
bool place_is_beside(const struct scan *s, const struct range *etched, uint64_t at);
/*
 * True if the address of an operand with an index is in a writable variable that is not etched. If no array of that
 * variable begins at the address, the operand is also recorded for scan_neighbours().
 */
bool place_is_other(struct scan *s, const struct range *etched, const struct insn *in, uint64_t at);

/* Is the address in a GOT section? */
bool slot_is_got(const struct elf_file *f, uint64_t addr);
/* Returns the slot at an address, or null. slots_sort() must have been called. */
const struct slot *slot_at(const struct scan *s, uint64_t addr);
void slot_add(struct scan *s, uint64_t addr, int32_t object, int64_t off);
void slots_sort(struct scan *s);

/*
 * Fills s->slots and s->relocated, and adds the escapes through data words: those whose values are in `range`. Returns
 * 0, or -1 and s->error.
 */
int words_take(struct scan *s, const struct range *range);

/* Marks the escapes of addresses that the kernel may get from variables of the program (kernel_data.c). All sites of
 * the code must have been found. */
void kernel_data_find(struct scan *s);

/*
 * Adds the sites and facts that the tables of the file record to those that were found in the code, and sorts the
 * latter by address.
 */
void tables_take(struct scan *s, const struct linked_tables *now);

#endif
