/* SPDX-License-Identifier: MIT */
/*
 * segment_slot.h: inside of the segment module: a checked view of the headers
 * of a linked file, and the search for one more program header.
 */
#ifndef ETCH_TOOL_ELF_SEGMENT_SLOT_H
#define ETCH_TOOL_ELF_SEGMENT_SLOT_H

#include <elf.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define SEGMENT_PAGE 4096u /* x86-64 base page */
#define SLOT_ITEMS   8     /* sections behind the table that are considered for moving */

/* Headers of a file, checked: all of them lie inside it, and so do the contents
 * of every section and segment; PT_LOADs ascend and do not overlap. */
struct seg_file {
	const uint8_t *data;
	size_t size;
	Elf64_Ehdr eh;
	Elf64_Phdr *ph; /* eh.e_phnum entries, and room for one more */
	Elf64_Shdr *sh; /* sections entries */
	size_t sections, names; /* e_shnum and e_shstrndx, or what section 0 says in their place */
	size_t last_load; /* index of the PT_LOAD with the highest address */
};

/* A section of the file that has, or may have, a new place. */
struct seg_item {
	size_t sec;       /* its index */
	uint64_t off, addr, size, align;
	uint64_t new_off, new_addr;
	bool evicted;     /* to the new segment */
	bool build_id, abi_tag;
	int64_t tag;      /* DT_ entry that holds its address, 0 for none */
	int phdr;         /* the PT_NOTE or PT_INTERP that covers it, -1 for none */
	unsigned cost;    /* of evicting it */
};

struct seg_slot {
	int drop;                           /* entry of the table to give up, or -1: the table grows */
	bool table;                         /* the table itself goes to the new segment */
	struct seg_item item[SLOT_ITEMS];   /* in order of their offsets, moved or not */
	size_t items;
};

static inline uint64_t seg_align(uint64_t v, uint64_t a) { return (v + a - 1) & ~(a - 1); }

static inline uint64_t seg_max(uint64_t a, uint64_t b) { return a > b ? a : b; }

/* Do the n bytes at a and the m bytes at b have one in common? */
static inline bool seg_overlap(uint64_t a, uint64_t n, uint64_t b, uint64_t m)
{
	return n && m && a < b + m && b < a + n;
}

/* Writes the sentence and returns `result`. */
int seg_fail(int result, char *err, size_t errlen, const char *fmt, ...)
	__attribute__((format(printf, 4, 5)));

/* Finds a slot; sets new_off of items that only slide, and `evicted`. Where the
 * evicted ones go is for the caller to say. */
int seg_slot_find(const struct seg_file *f, struct seg_slot *slot, char *err, size_t errlen);

/* Bytes of a new first page (or more) that would hold the program headers, 0 if there cannot
 * be one. */
uint64_t seg_front_find(const struct seg_file *f);

/* Is all that would move something that headers describe? Who finds anything else does so by its offset in the file. */
int seg_front_check(const struct seg_file *f, char *err, size_t errlen);

/* Puts it there: all that the headers say of offsets is changed, f->data becomes *bytes (to be
 * freed), in which the old file starts at `size`. -1: out of memory. */
int seg_front_make(struct seg_file *f, uint64_t size, uint8_t **bytes);

#endif
