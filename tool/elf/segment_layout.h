/* SPDX-License-Identifier: MIT */
/*
 * segment_layout.h: inside of the segment module: what is decided about a file, step by step:
 * segment_read -> segment_slot, segment_front -> segment_place -> segment_headers -> segment.
 */
#ifndef ETCH_TOOL_ELF_SEGMENT_LAYOUT_H
#define ETCH_TOOL_ELF_SEGMENT_LAYOUT_H

#include "segment.h"
#include "segment_slot.h"

#define ADDRESS_END ((1ull << 47) - SEGMENT_PAGE) /* of user space with 4-level page tables */

#define BAD(...) seg_fail(SEGMENT_EINPUT, err, errlen, __VA_ARGS__)

struct seg_layout {
	struct seg_file f;   /* headers: first as found, then as they will be */
	struct seg_slot slot;
	bool ours;           /* the file has an etch segment */
	size_t load;         /* its index in f.ph */
	size_t note_sec;     /* its first section */
	size_t front_sec;    /* the section over the old ELF header, 0: it is no other than it was */
	size_t table_sec;    /* the section over the program headers in it, 0: none, or an earlier run's */
	struct seg_item *item; /* sections with a new place, in order of old offsets */
	size_t items;
	size_t *sec_of;      /* section index of each of the caller's sections */
	uint64_t *off_of;    /* where each of them lies in the file */
	uint64_t old_base, old_size; /* where an old segment lies in the file */
	uint64_t addr, base, size, first; /* the segment: address, offset, bytes */
	uint8_t *front;      /* the file with a new first page of this size; null without one */
	uint64_t front_size, front_addr; /* ... and where the old ELF header is in memory */
	uint64_t table;      /* the program header table in it, from its start; 0: it is elsewhere */
	uint64_t keep;       /* bytes of the input that the output starts with */
	char *str;           /* .shstrtab */
	uint64_t str_size;
	uint64_t out_size;
};

/* ---- segment_read.c ---- */

extern const struct segment_note seg_note; /* as it starts a segment, but for `first` */

bool seg_has_bytes(const Elf64_Shdr *s);
/* In memory at [addr, addr+n)? */
bool seg_is_mapped_in(const Elf64_Shdr *s, uint64_t addr, uint64_t n);

/* All headers, checked. f->ph and f->sh are to be freed in any case. */
int seg_read(struct seg_file *f, const uint8_t *data, size_t size, char *err, size_t errlen);
const char *seg_name(const struct seg_file *f, size_t i);
/* A section of an earlier run that is not in memory. */
bool seg_is_unloaded(const struct seg_file *f, size_t i);
/* The segment of an earlier run: 1, 0 or a negative result. */
int seg_ours_find(const struct seg_file *f, size_t *load, size_t *note_sec, uint64_t *first, char *err, size_t errlen);

/* ---- segment_place.c ---- */

int seg_check_list(const struct segment_section *secs, size_t n, char *err, size_t errlen);
/* What an earlier run moved into the segment. */
int seg_ours_read(struct seg_layout *l, uint64_t first, char *err, size_t errlen);
/* Sets addresses of the segment, of what moves into it, and of the new sections. */
int seg_place(struct seg_layout *l, struct segment_section *secs, size_t n, char *err, size_t errlen);
/* Is this byte range of the file part of the old segment? */
bool seg_in_old(const struct seg_layout *l, uint64_t off, uint64_t n);
/* End of all that has to stay where it is in the file. */
uint64_t seg_kept_end(const struct seg_layout *l);
/* Refuses data behind `end` that no header describes. */
int seg_check_tail(const struct seg_layout *l, uint64_t end, char *err, size_t errlen);
/* Offset of the first thing behind the old segment. */
uint64_t seg_old_room_end(const struct seg_layout *l);

/* ---- segment_headers.c: in this order ---- */

/* Which section header is whose; f.sh grows, f.sections is the new number. */
int seg_headers_assign(struct seg_layout *l, const struct segment_section *secs, size_t n, char *err, size_t errlen);
void seg_headers_fill(struct seg_layout *l, const struct segment_section *secs, size_t n);
void seg_phdrs_follow(struct seg_layout *l); /* the sections that moved */
void seg_phdr_insert(struct seg_layout *l);
void seg_table_follow(struct seg_layout *l); /* the table itself, where it is in the segment */
void seg_headers_count(struct seg_file *f);  /* e_shnum, or what stands for it */

#endif
