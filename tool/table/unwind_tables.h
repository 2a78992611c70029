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

/* What table to make. */
struct unwind_kind {
	unsigned encoding;     /* ETCH_ENCODING_*; for unwind_block_encode(): ETCH_ENCODING_REGISTERS, or any other */
	unsigned map_shift;    /* of the map of return addresses in the block table; 0: it has none */
	const uint64_t *calls; /* for the map: the sorted addresses that follow a call (arch/x86/callsites.h) */
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
