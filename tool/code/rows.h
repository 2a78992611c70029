/* SPDX-License-Identifier: MIT */
/*
 * Unwind rows: what the generator makes (code/frames.h), the tables encode
 * (table/unwind_tables.h) and inspect shows.
 */
#ifndef CODE_ROWS_H
#define CODE_ROWS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <etch/orc.h>

/* Valid from addr to the next row. Gaps are rows of kind UNDEF. */
struct row {
	uint64_t addr;         /* link-time address; in ET_REL see code/space.h */
	struct etch_rule rule;
	uint8_t source;        /* enum etch_row_source */
};

/* Sorted by address, no two with the same one; the last row is UNDEF, at the end
 * of the text. Neighbours differ in rule or source. */
struct row_list {
	struct row *rows;
	size_t count, room;
};

#endif
