/* SPDX-License-Identifier: MIT */
/* Converts unwind rows to tables and back. Formats: etch/orc.h, docs/formats.md. */
#ifndef TABLE_UNWIND_TABLES_H
#define TABLE_UNWIND_TABLES_H

#include "arch/x86/rule_text.h"
#include "analysis/unwind/rows.h"
#include "analysis/facts/space.h"
#include "support/error.h"

/*
 * Makes the rows for a block table. A gap of less than UNWIND_PADDING bytes with nothing but padding, which never runs,
 * is merged with the row before it. Adjacent rows with equal rule and source are merged. The first row begins at a
 * multiple of 256. A row of kind SIGNAL or END after a gap begins one byte early, for return addresses that no call has
 * pushed. `space` has the bytes of the code; null: no gap counts as padding.
 */
#define UNWIND_PADDING 16
void unwind_rows_canonical(const struct row_list *in, const struct code_space *space, struct row_list *out);

/*
 * Which rows a table holds where a file's code is spread over distant addresses. A table takes about a byte
 * for each 32 bytes of address range, whether code is there or not, and its offsets have 32 bits: a single function far
 * from the rest would cost megabytes, or the whole table.
 */

/* Code that gets no rows in the table. */
struct far_code {
	uint64_t bytes; /* described code that is left out; 0: none */
	uint64_t at;    /* address of its first byte */
};

/*
 * Finds the rows of the largest part of the code that a table can hold without spending more on gaps than on code.
 * *near is a view of `rows`, and ends with an UNDEF row as every list does; in almost every file it is all rows. The
 * choice depends on the rows alone, so that a file that has been rewritten gives the same.
 */
void rows_near(const struct row_list *rows, struct row_list *near, struct far_code *far);

/* What table to make. */
struct unwind_kind {
	unsigned encoding;     /* ETCH_ENCODING_*; for unwind_block_encode(): ETCH_ENCODING_REGISTERS, or any other */
	unsigned map_shift;    /* of the map of return addresses in the block table; 0: it has none */
	const uint64_t *calls; /* for the map: the sorted addresses that follow a call (arch/x86/byte_scan.h) */
	size_t call_count;
};

/*
 * Encodes rows, unchanged, as a block table: one malloc'd buffer that begins with a struct etch_unwind, whose build_id
 * is zero. Deterministic. Returns -1 if the text or the table is over 4 GiB, if rows are out of order, or if a rule is
 * invalid.
 */
int unwind_block_encode(const struct row_list *rows, const struct unwind_kind *kind, uint8_t **out, size_t *size,
                        struct error *e);
/* Encodes the sources of rows, 2 bits for each row except for the last one, for ETCH_SEC_SOURCE. */
void unwind_sources_encode(const struct row_list *rows, uint8_t **out, size_t *size);

/* Encodes a rule as a 6-byte entry. Returns false if it does not fit; *out is then UNDEFINED. */
bool unwind_orc_pack(const struct etch_rule *rule, unsigned source, struct etch_orc *out);

/* Decodes a table that etch_unwind_valid() has accepted. `sources` (ETCH_SEC_SOURCE) may be null; all rows are CODE
 * then. */
int unwind_block_decode(const uint8_t *table, size_t size, const uint8_t *sources, size_t sources_size,
                        struct row_list *out, struct error *e);

void row_list_free(struct row_list *l);

#endif
