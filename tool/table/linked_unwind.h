/* SPDX-License-Identifier: MIT */
/*
 * The unwind table of a linked file, as sections of the etch segment
 * (elf/segment.h); and the classic arrays that the object step left, sorted.
 * Formats: etch/orc.h, docs/formats.md.
 */
#ifndef TABLE_LINKED_UNWIND_H
#define TABLE_LINKED_UNWIND_H

#include "elf/file.h"
#include "elf/segment.h"
#include "table/unwind_tables.h"

#define LINKED_UNWIND_SECTIONS 5

struct linked_unwind {
	/* For the etch segment, in this order, before all others. `data` is owned. */
	struct segment_section sections[LINKED_UNWIND_SECTIONS];
	size_t count;       /* 0: no table */
	struct etch_unwind header;
	uint64_t *targets;  /* orc: address of each row, until linked_unwind_fill() */
	uint64_t kept_at[LINKED_UNWIND_SECTIONS]; /* of an earlier run: where they lie; 0: not loaded, or new */
	bool kept;
};

/*
 * A table of rows, with the addresses behind calls for the map (unwind_block_encode).
 * Rules that do not fit the orc encoding become UNDEFINED; *lost says how many.
 */
int linked_unwind_make(const struct elf_file *f, const struct row_list *rows, const uint64_t *calls,
                       size_t call_count, unsigned encoding, unsigned map_shift, struct linked_unwind *out,
                       size_t *lost, struct error *e);

/* The table that an earlier run left: 1, 0 when there is none, -1 and a message
 * when it is malformed. */
int linked_unwind_read(const struct elf_file *f, struct linked_unwind *out, struct error *e);

/* Its rows. Sources that were stripped read as CODE, and *sources is false. */
int linked_unwind_rows(const struct linked_unwind *u, struct row_list *out, bool *sources, struct error *e);

/* Once segment_plan has set the addresses: writes what depends on them. */
int linked_unwind_fill(struct linked_unwind *u, struct error *e);

/* Bytes that are loaded. */
uint64_t linked_unwind_size(const struct linked_unwind *u);

void linked_unwind_free(struct linked_unwind *u);

/*
 * Sorts every .orc_unwind_ip and .orc_unwind that the linker put together from
 * those of object files, in f's own bytes. Entries of code that the linker
 * dropped go to the end as UNDEFINED. *rows is how many there are.
 */
int linked_orc_sort(struct elf_file *f, size_t *rows, struct error *e);

#endif
