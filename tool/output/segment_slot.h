/* SPDX-License-Identifier: MIT */
/* Private to the segment module: a checked view of the headers of a linked file, and space for more program headers. */
#ifndef OUTPUT_SEGMENT_SLOT_H
#define OUTPUT_SEGMENT_SLOT_H

#include <elf.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "support/error.h"

#define SEGMENT_PAGE 4096u /* x86-64 base page */
#define SLOT_ITEMS   8     /* sections after the table that are considered for moving */
#define SLOT_MOST    4u    /* program headers that can be added at once */

/* The checked headers of a file: all of them are inside the file, and so are the contents of every section and segment;
 * PT_LOADs ascend and do not overlap. */
struct seg_file {
	const uint8_t *data;
	size_t size;
	Elf64_Ehdr eh;
	Elf64_Phdr *ph;         /* eh.e_phnum entries, and space for SLOT_MOST more */
	Elf64_Shdr *sh;         /* `sections` entries */
	size_t sections, names; /* from e_shnum and e_shstrndx, or from section header 0 */
	size_t last_load;       /* index of the PT_LOAD with the highest address */
};

/* A section of the file that has, or may have, a new place. */
struct seg_item {
	size_t sec; /* its index */
	uint64_t off, addr, size, align;
	uint64_t new_off, new_addr;
	bool evicted; /* moves to the new segment */
	bool build_id, abi_tag;
	int64_t tag;   /* DT_ entry that holds its address, 0 for none */
	int phdr;      /* the PT_NOTE, PT_GNU_PROPERTY or PT_INTERP that covers it, -1 for none */
	unsigned cost; /* the cost of eviction; the cheapest layout is chosen */
};

/* The way in which the file gets more program headers. */
struct seg_slot {
	unsigned want;                    /* program headers to add */
	size_t drop[SLOT_MOST];           /* indices of the program headers that the new ones replace, ascending */
	size_t drops;                     /* number of indices in `drop`; if it is less than `want`, the table grows */
	bool table;                       /* the table moves to the new segment */
	struct seg_item item[SLOT_ITEMS]; /* in the order of their offsets, whether they move or not */
	size_t items;
};

static inline uint64_t seg_align(uint64_t v, uint64_t a) { return (v + a - 1) & ~(a - 1); }

static inline uint64_t seg_max(uint64_t a, uint64_t b) { return a > b ? a : b; }

/* Do the n bytes at a and the m bytes at b overlap? */
static inline bool seg_overlap(uint64_t a, uint64_t n, uint64_t b, uint64_t m)
{
	return n && m && a < b + m && b < a + n;
}

/* Writes the message and returns `result`. */
int seg_fail(int result, struct error *e, const char *fmt, ...) __attribute__((format(printf, 3, 4)));

/* segment_slot.c: finds space for `want` program headers, at most SLOT_MOST; sets `evicted`, and new_off of items that
 * move within the first page. The caller places the evicted ones. */
int seg_slot_find(const struct seg_file *f, unsigned want, struct seg_slot *slot, struct error *e);

/* Bytes that are put in front of a file, and in front of its first PT_LOAD in memory. */
struct seg_front {
	uint64_t at;      /* offset in the old file at which bytes are inserted: 0, or the end of an earlier run's */
	uint64_t size;    /* bytes that the file grows by there */
	uint64_t by;      /* bytes that the first PT_LOAD grows by: more than `size` if it did not begin with the file */
	uint64_t header;  /* address of the old ELF header */
	uint64_t id_from; /* offset of the build-id note in the old file */
	uint64_t id_off, id_size; /* the copy of the note in the new first page; id_size 0: there is no copy */
};

/*
 * segment_front.c: plans a new first page for the program headers and `want` more, and `capacity` bytes after it (0: as
 * many pages as the headers need, and nothing else). Returns false if the file cannot have them.
 */
bool seg_front_find(const struct seg_file *f, unsigned want, uint64_t capacity, struct seg_front *front);

/* Plans more bytes for a file that already has such a first page from an earlier run: `capacity` bytes are needed from
 * offset `from` on, and the former start of the file is at offset `at`. Returns false if the file cannot have them. */
bool seg_front_grow(const struct seg_file *f, uint64_t from, uint64_t at, uint64_t capacity, struct seg_front *front);

/* Refuses a file with data that no header describes: a program that reads such data would use its file offset, which
 * changes.
 */
int seg_front_check(const struct seg_file *f, struct error *e);

/* Inserts these bytes: adds front->size to the offsets in the headers from front->at on, and sets f->data to the new
 * bytes, which it returns and the caller frees. */
uint8_t *seg_front_make(struct seg_file *f, const struct seg_front *front);

/* The addresses lo, lo + 4, ... below hi that a reference may name: each word of a note, but only the start of any
 * other section. */
struct ref_range {
	uint64_t lo, hi;
	bool hit;
};

/* segment_refs.c: sets `hit` for those of the n sections to which a relocation, symbol, instruction or word refers. */
void seg_refs_find(const struct seg_file *f, struct ref_range *r, size_t n);

#endif
