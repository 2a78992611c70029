/* SPDX-License-Identifier: MIT */
/*
 * Private to the segment module: the layout of the output, and the steps that make it:
 * segment_read -> segment_slot (segment_refs), segment_front -> segment_place -> segment_headers -> segment.
 */
#ifndef OUTPUT_SEGMENT_LAYOUT_H
#define OUTPUT_SEGMENT_LAYOUT_H

#include "output/segment.h"
#include "output/segment_slot.h"

#define ADDRESS_END ((1ull << 47) - SEGMENT_PAGE) /* end of user space with 4-level page tables */

#define BAD(...) seg_fail(SEGMENT_EINPUT, e, __VA_ARGS__)

/* The layout of the output, and what is known of the input. */
struct seg_layout {
	struct seg_file f; /* the headers as read, which are changed step by step to those of the output */
	struct seg_slot slot;
	bool ours;             /* the file has an etch segment */
	bool inside;           /* the segment is, or becomes, a part of the first PT_LOAD */
	size_t load;           /* index in f.ph of the PT_LOAD that is the segment; not used if `inside` */
	size_t after;          /* index in the input of the PT_LOAD that it follows; not used if `ours` */
	size_t note_sec;       /* index of SEGMENT_SECTION */
	size_t front_sec;      /* index of SEGMENT_FRONT; 0: the ELF header stays where it is */
	size_t id_sec;         /* index of SEGMENT_BUILD_ID; 0: there is no copy of the build-id */
	size_t table_sec;      /* index of SEGMENT_TABLE; 0: there is none, or it is an earlier run's */
	struct seg_item *item; /* sections that may have a new place, by old offset */
	size_t items;
	size_t *sec_of;                   /* section index of each of the caller's sections */
	uint64_t *off_of;                 /* file offset of each of the caller's sections */
	uint64_t old_base, old_size;      /* file offset and size of the old segment, if `ours` */
	uint64_t addr, base, size, first; /* of the segment: address, file offset, size, and `first` as in segment_note */
	uint8_t *front;                   /* the bytes of the file with the new first page; null without one */
	struct seg_front front_page;      /* the layout of that page */
	uint64_t table;                   /* offset of the program header table in the segment; 0: it is not there */
	uint64_t keep;                    /* bytes of the input with which the output starts */
	char *str;                        /* .shstrtab */
	uint64_t str_size;
	uint64_t out_size;
};

/* ---- segment_read.c ---- */

extern const struct segment_note seg_note; /* the note of every segment, except for `first` */

bool seg_has_bytes(const Elf64_Shdr *s);
/* Does the section begin in the memory at [addr, addr+n)? */
bool seg_is_mapped_in(const Elf64_Shdr *s, uint64_t addr, uint64_t n);

/* Returns the index of the PT_LOAD with the lowest address. */
size_t seg_first_load(const struct seg_file *f);
/* Reads and checks all headers. The caller must free f->ph and f->sh in any case. */
int seg_read(struct seg_file *f, const uint8_t *data, size_t size, struct error *e);
const char *seg_name(const struct seg_file *f, size_t i);
/* Is this a section that an earlier run added outside the segment? */
bool seg_is_unloaded(const struct seg_file *f, size_t i);
/* The segment of an earlier run. */
struct seg_ours {
	size_t load;     /* index of the PT_LOAD that the segment is, or is a part of */
	size_t note_sec; /* index of SEGMENT_SECTION */
	bool inside;     /* it is a part of that PT_LOAD */
	uint64_t addr, offset, size, first;
};
/* Finds the segment of an earlier run. Returns 1, or 0 if there is none, or a negative result. */
int seg_ours_find(const struct seg_file *f, struct seg_ours *o, struct error *e);

/* ---- segment_place.c ---- */

int seg_check_list(const struct segment_section *secs, size_t n, struct error *e);
/* Fills l->item with the sections that an earlier run moved into the segment. */
int seg_ours_read(struct seg_layout *l, const struct seg_ours *o, struct error *e);
/* May a gap between the segments of a program be large enough for a segment of this size? */
bool seg_gap_may_hold(const struct seg_file *f, uint64_t size);
/* Returns the size of a segment of these sections if nothing else moves into it. */
uint64_t seg_contents_size(const struct segment_section *secs, size_t n);
/*
 * Sets the addresses of the segment, of the sections that move into it, and of the new sections. Returns SEG_NO_GAP
 * without a message if the file is a program at fixed addresses, whose break must stay, and no gap between its segments
 * is large enough.
 */
#define SEG_NO_GAP 1
int seg_place(struct seg_layout *l, struct segment_section *secs, size_t n, struct error *e);
/* Is this byte range of the file in the old segment? */
bool seg_in_old(const struct seg_layout *l, uint64_t off, uint64_t n);
/* Returns the file offset after everything that must keep its offset: all but the old segment, the section names and
 * the section headers. */
uint64_t seg_kept_end(const struct seg_layout *l);
/* Refuses a file with data after `end` that no header describes. */
int seg_check_tail(const struct seg_layout *l, uint64_t end, struct error *e);
/* Returns the file offset of whatever follows the old segment, up to which the segment can grow in place. */
uint64_t seg_old_space_end(const struct seg_layout *l);
/* Returns the file offset up to which a segment inside the first PT_LOAD can grow in place: that of the former start of
 * the file. */
uint64_t seg_inside_end(const struct seg_layout *l);

/* ---- segment_headers.c: in this order ---- */

/* Returns the number of program headers that sections need and the file lacks. */
unsigned seg_covers_missing(const struct seg_file *f, const struct segment_section *secs, size_t n);

/* Assigns section headers to the caller's sections; f.sh grows, and f.sections with it. */
void seg_headers_assign(struct seg_layout *l, const struct segment_section *secs, size_t n);
/* Renames each section of the input whose name a new section takes to that section's `former`. `old` is the number of
 * sections in the input. */
void seg_headers_rename(struct seg_layout *l, const struct segment_section *secs, size_t n, size_t old);
void seg_headers_fill(struct seg_layout *l, const struct segment_section *secs, size_t n);
void seg_phdrs_follow(struct seg_layout *l); /* updates program headers for sections that moved */
void seg_phdrs_insert(struct seg_layout *l, const struct segment_section *secs, size_t n);
void seg_phdrs_cover(struct seg_layout *l, const struct segment_section *secs, size_t n);
void seg_table_follow(struct seg_layout *l); /* updates e_phoff and PT_PHDR if the table is in the segment */
void seg_headers_count(struct seg_file *f);  /* sets e_shnum, or section header 0 instead */

#endif
