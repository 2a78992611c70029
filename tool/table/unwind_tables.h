/* SPDX-License-Identifier: MIT */
/*
 * Unwind rows as tables and back. Formats: etch/orc.h, docs/formats.md.
 */
#ifndef TABLE_UNWIND_TABLES_H
#define TABLE_UNWIND_TABLES_H

#include "arch/x86/rule_text.h"
#include "code/rows.h"
#include "code/space.h"
#include "report/error.h"

/*
 * The rows that a block table is to have: gaps that hold nothing but padding, which
 * never runs, go to the row before, as far as they are shorter than
 * UNWIND_PADDING bytes; neighbours with the same rule and source become one row; the first
 * row begins at a multiple of 256; rows of kind SIGNAL and END behind a gap begin one byte
 * early, for return addresses that no call pushed. `space` has the bytes; null: no gap is padding.
 */
#define UNWIND_PADDING 16
int unwind_rows_canonical(const struct row_list *in, const struct code_space *space, struct row_list *out,
                          struct error *e);

/*
 * The block encoding of rows, each as it is: a struct etch_unwind and all behind it in
 * one malloc'd buffer; build_id is left 0. `calls`: the sorted addresses that follow a
 * call (arch/x86/callsites.h), for the map; not used with map_shift 0. Deterministic.
 * -1: out of memory, text or table over 4 GiB, rows out of order, a rule that is none.
 */
int unwind_block_encode(const struct row_list *rows, const uint64_t *calls, size_t call_count, unsigned map_shift,
                        uint8_t **out, size_t *size, struct error *e);
/* 2 bits a row of the same list, but the last one, for ETCH_SEC_SOURCE. */
int unwind_sources_encode(const struct row_list *rows, uint8_t **out, size_t *size, struct error *e);

/* A rule as a 6-byte entry; false when it does not fit: *out is then UNDEFINED. */
bool unwind_orc_pack(const struct etch_rule *rule, unsigned source, struct etch_orc *out);

/* Back to rows from a table that etch_unwind_valid() has accepted. `sources`
 * (ETCH_SEC_SOURCE) may be null: all rows then say CODE. */
int unwind_block_decode(const uint8_t *table, size_t size, const uint8_t *sources, size_t sources_size,
                        struct row_list *out, struct error *e);

void row_list_free(struct row_list *l);

#endif
