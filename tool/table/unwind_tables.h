/* SPDX-License-Identifier: MIT */
/* Converts unwind rows to tables and back. Formats: etch/orc.h, docs/formats.md. */
#ifndef TABLE_UNWIND_TABLES_H
#define TABLE_UNWIND_TABLES_H

#include "arch/x86/rule_text.h"
#include "analysis/unwind/rows.h"
#include "analysis/facts/space.h"
#include "support/error.h"

/*
 * Makes the rows for a block table, as few as possible. A gap of less than UNWIND_PADDING bytes that contains only
 * padding, which never runs, is merged with the row in front of it. Adjacent rows with equal rule and source are
 * merged. The first row begins at a multiple of 256. If a row of kind SIGNAL or END follows a gap, it begins one byte
 * early, because its start may be a return address that no call has pushed. `space` has the bytes of the code; if it is
 * null, no gap counts as padding.
 */
#define UNWIND_PADDING 16
void unwind_rows_canonical(const struct row_list *in, const struct code_space *space, struct row_list *out);

/*
 * If the code of a file is spread over distant addresses, a table holds only some of its rows. It takes about one byte
 * for each 32 bytes of address range, whether there is code or not, and its offsets have 32 bits. So a single function
 * far away from the rest would cost megabytes, or make the whole table impossible.
 */

/* The code that gets no rows in a table. */
struct far_code {
	uint64_t bytes; /* number of bytes that have a rule, but are left out; 0: none */
	uint64_t at;    /* address of the first of these bytes */
};

/*
 * Finds the largest part of the code that a table can hold without spending more bytes on gaps than on code, and sets
 * *near to its rows. *near shares memory with `rows`, and ends with an UNDEF row as every list does. In almost every
 * file it has all rows. The choice depends only on the rows, so that a file that has been rewritten gives the same
 * result.
 */
void rows_near(const struct row_list *rows, struct row_list *near, struct far_code *far);

/* The kind of table to make. */
struct unwind_kind {
	/* ETCH_ENCODING_*; unwind_block_encode() only distinguishes ETCH_ENCODING_REGISTERS from the others. */
	unsigned encoding;
	/* log2 of the granule size of the return-address map in a block table; 0: the table has no map. */
	unsigned map_shift;
	const uint64_t *calls; /* for the map: sorted addresses after calls (arch/x86/byte_scan.h) */
	size_t call_count;
};

/*
 * Encodes rows as they are in a block table: a buffer from malloc(), which begins with a struct etch_unwind whose
 * build_id is zero. Deterministic. Returns -1 with a message in *e if the text or the table is larger than 4 GiB, if
 * rows are out of order, or if a rule is invalid.
 */
int unwind_block_encode(const struct row_list *rows, const struct unwind_kind *kind, uint8_t **out, size_t *size,
                        struct error *e);
/* Encodes the sources of rows for ETCH_SEC_SOURCE, with 2 bits for each row except the last. */
void unwind_sources_encode(const struct row_list *rows, uint8_t **out, size_t *size);

/* Encodes a rule as a 6-byte entry. If it does not fit, sets *out to UNDEFINED and returns false. */
bool unwind_orc_pack(const struct etch_rule *rule, unsigned source, struct etch_orc *out);

/* Decodes a table that etch_unwind_valid() has accepted. `sources` is the contents of ETCH_SEC_SOURCE; if it is null,
 * all rows are CODE. Returns 0, or -1 with a message in *e. */
int unwind_block_decode(const uint8_t *table, size_t size, const uint8_t *sources, size_t sources_size,
                        struct row_list *out, struct error *e);

void row_list_free(struct row_list *l);

#endif
