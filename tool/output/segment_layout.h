/* SPDX-License-Identifier: MIT */
/*
 * Private to the segment module: the layout of the output, and the steps that make it:
 * segment_read -> segment_slot (segment_refs), segment_front -> segment_place -> segment_headers -> segment.
 */
#ifndef OUTPUT_SEGMENT_LAYOUT_H
#define OUTPUT_SEGMENT_LAYOUT_H

#include "output/segment.h"
#include "output/segment_slot.h"

#define ADDRESS_END ((1ull << 47) - SEGMENT_PAGE) /* of user space, with 4-level page tables */

#define BAD(...) seg_fail(SEGMENT_EINPUT, e, __VA_ARGS__)

struct seg_layout {
	struct seg_file f; /* headers: as read, then changed step by step to those of the output */
	struct seg_slot slot;
	bool ours;             /* the file has an etch segment */
	bool inside;           /* it is, or becomes, a part of the first PT_LOAD */
	size_t load;           /* index in f.ph of the PT_LOAD that is the segment; not used if `inside` */
	size_t after;          /* index of the PT_LOAD that it follows, of the input; not used if `ours` */
	size_t note_sec;       /* index of SEGMENT_SECTION */
	size_t front_sec;      /* index of SEGMENT_FRONT; 0: the ELF header stays where it is */
	size_t id_sec;         /* index of SEGMENT_BUILD_ID; 0: there is no copy of the build-id */
	size_t table_sec;      /* index of SEGMENT_TABLE; 0: none, or an earlier run's */
	struct seg_item *item; /* sections that may have a new place, by old offset */
	size_t items;
	size_t *sec_of;                   /* section index of each of the caller's sections */
	uint64_t *off_of;                 /* file offset of each of the caller's sections */
	uint64_t old_base, old_size;      /* file offset and size of the old segment, if `ours` */
	uint64_t addr, base, size, first; /* the segment: address, file offset, size; `first` as in segment_note */
	uint8_t *front;                   /* the file with a new first page of this size; null without one */
	struct seg_front front_page;      /* where things are in it, and whether the old ELF header is mapped */
	uint64_t table;                   /* offset of the program header table in the segment; 0: not in it */
	uint64_t keep;                    /* bytes of the input that the output starts with */
	char *str;                        /* .shstrtab */
	uint64_t str_size;
	uint64_t out_size;
};

/* ---- segment_read.c ---- */

extern const struct segment_note seg_note; /* the note of every segment, except for `first` */

bool seg_has_bytes(const Elf64_Shdr *s);
/* True if the section occupies memory at [addr, addr+n). */
bool seg_is_mapped_in(const Elf64_Shdr *s, uint64_t addr, uint64_t n);

/* Index of the PT_LOAD with the lowest address. */
size_t seg_first_load(const struct seg_file *f);
/* Reads and checks all headers. f->ph and f->sh are to be freed in any case. */
int seg_read(struct seg_file *f, const uint8_t *data, size_t size, struct error *e);
const char *seg_name(const struct seg_file *f, size_t i);
/* True for a section that an earlier run added outside of the segment. */
bool seg_is_unloaded(const struct seg_file *f, size_t i);
/* The segment of an earlier run. */
struct seg_ours {
	size_t load;     /* index of the PT_LOAD that it is, or is a part of */
	size_t note_sec; /* index of SEGMENT_SECTION */
	bool inside;     /* it is a part */
	uint64_t addr, offset, size, first;
};
/* Finds it: 1; 0: none; or a negative result. */
int seg_ours_find(const struct seg_file *f, struct seg_ours *o, struct error *e);

/* ---- segment_place.c ---- */

int seg_check_list(const struct segment_section *secs, size_t n, struct error *e);
/* Fills l->item with the sections that an earlier run moved into the segment. */
int seg_ours_read(struct seg_layout *l, const struct seg_ours *o, struct error *e);
/* True if a gap between the segments of a program may be large enough for a segment of this size. */
bool seg_gap_may_hold(const struct seg_file *f, uint64_t size);
/* Bytes of a segment of these sections, if nothing else moves into it. */
uint64_t seg_contents_size(const struct segment_section *secs, size_t n);
/*
 * Sets addresses of the segment, of what moves into it, and of the new sections. SEG_NO_GAP, and no message: the file
 * is a program at fixed addresses, whose break must stay, and no gap between its segments is large enough.
 */
#define SEG_NO_GAP 1
int seg_place(struct seg_layout *l, struct segment_section *secs, size_t n, struct error *e);
/* True if this byte range of the file is in the old segment. */
bool seg_in_old(const struct seg_layout *l, uint64_t off, uint64_t n);
/* File offset after everything that has to keep its offset. */
uint64_t seg_kept_end(const struct seg_layout *l);
/* Refuses a file with data after `end` that no header describes. */
int seg_check_tail(const struct seg_layout *l, uint64_t end, struct error *e);
/* File offset of whatever follows the old segment: how far the segment can grow in place. */
uint64_t seg_old_room_end(const struct seg_layout *l);
/* The same for a segment inside the first PT_LOAD: up to the former start of the file. */
uint64_t seg_inside_end(const struct seg_layout *l);

/* ---- segment_headers.c: in this order ---- */

/* Number of program headers that sections need and the file lacks. */
unsigned seg_covers_missing(const struct seg_file *f, const struct segment_section *secs, size_t n);

/* Assigns section headers to the caller's sections; f.sh grows, and f.sections with it. */
void seg_headers_assign(struct seg_layout *l, const struct segment_section *secs, size_t n);
/* Renames sections of the input whose name a new section takes, to that section's `former`. `old`: the number of
 * sections in the input. */
void seg_headers_rename(struct seg_layout *l, const struct segment_section *secs, size_t n, size_t old);
void seg_headers_fill(struct seg_layout *l, const struct segment_section *secs, size_t n);
void seg_phdrs_follow(struct seg_layout *l); /* for sections that moved */
void seg_phdrs_insert(struct seg_layout *l, const struct segment_section *secs, size_t n);
void seg_phdrs_cover(struct seg_layout *l, const struct segment_section *secs, size_t n);
void seg_table_follow(struct seg_layout *l); /* for the table itself, if it is in the segment */
void seg_headers_count(struct seg_file *f);  /* sets e_shnum, or section header 0 in its place */

#endif
