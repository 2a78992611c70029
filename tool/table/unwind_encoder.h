/* SPDX-License-Identifier: MIT */
/* Shared by the files of the block table's encoder: unwind_tables.c, unwind_numbered.c, unwind_runs.c, unwind_map.c. */
#ifndef TABLE_UNWIND_ENCODER_H
#define TABLE_UNWIND_ENCODER_H

#include "support/hash_index.h"
#include "table/unwind_tables.h"

/* ---- unwind_runs.c ---------------------------------------------------------------------------- */

/*
 * Runs: sequences of rows that occur often enough for an idx byte of their own (struct etch_run of etch/orc.h),
 * such as the pushes of prologues and the pops of epilogues.
 */

/* A run. */
struct unwind_run {
	uint8_t n;
	uint8_t off[ETCH_RUN_ROWS];   /* address of each row, relative to the first */
	uint32_t rule[ETCH_RUN_ROWS]; /* rule index of each row */
};

/* The chosen runs. */
struct unwind_runs {
	struct unwind_run *list; /* all runs together use at most 255 - count different rules */
	uint32_t count;
	uint8_t *of_row; /* per row: 1 + index of the run that starts there, or 0 */
};

/*
 * Chooses runs for `count` rows and a further row that ends them; rule[i] is the index of row i's rule, less than
 * `rules`. A run lies in one block and has only rows of at most 15 bytes, so that few return addresses are in a run:
 * lookups there are slower. Deterministic.
 */
void unwind_runs_find(const struct row *rows, size_t count, const uint32_t *rule, uint32_t rules,
                      struct unwind_runs *out);
void unwind_runs_free(struct unwind_runs *r);

/* ---- unwind_numbered.c: the rows of a block table with numbered rules ------------------------- */

/* The different rules of a table. */
struct palette {
	struct etch_rule *list;
	uint32_t *uses;
	uint32_t count, capacity;
	struct hash_index index;
};

/* Rows that start at or after `text`, without the last one, which is only the end. */
struct numbered {
	const struct row *rows;
	size_t count;
	uint32_t *rule;  /* per row: index of its rule in the palette */
	uint32_t before; /* the rule that applies before the first row, from the start of its block */
	bool lead;       /* there are bytes before the first row in its block */
	size_t first;    /* the first row in the records; the rule before it is the byte in front of them */
	uint64_t text, size;
	struct palette palette;  /* sorted: first the rules of runs, then the others, each by descending use */
	uint32_t direct;         /* rules below this index have an idx byte */
	struct unwind_runs runs; /* runs.of_row is indexed from row `first` */
};

/* Checks and numbers rows. Returns -1 if the text is over 4 GiB, if rows are out of order, or if a rule is invalid;
 * with ETCH_ENCODING_REGISTERS, whose rows have etch_saves in place of rules, if one of these is invalid. */
int numbered_make(const struct row_list *l, unsigned encoding, struct numbered *n, struct error *e);
void numbered_free(struct numbered *n);

/* Returns the number of rows that the entry at row i represents; *run is its run, or null. */
static inline size_t entry_rows(const struct numbered *n, size_t i, const struct unwind_run **run)
{
	uint8_t number = n->runs.of_row[i - n->first];

	*run = number ? &n->runs.list[number - 1] : NULL;
	return number ? (*run)->n : 1;
}

/*
 * Is code returned to without a call? The kernel pushes the address of a signal's restorer, makecontext(3) the address
 * of code that runs after the context's function. An unwinder looks such an address up by the byte before it, so the
 * row is extended by that byte if it belongs to no other code. CFI does the same: FDEs of restorers begin one byte
 * early.
 */
static inline bool is_entered_by_return(const struct row *r)
{
	return r->rule.kind == ETCH_RULE_SIGNAL || r->rule.kind == ETCH_RULE_END;
}

/* ---- unwind_map.c: the map of return addresses (etch/orc.h), a byte per granule that selects the rule ---- */

/* The arrays of the map, as in struct etch_unwind. */
struct map {
	unsigned shift;
	uint8_t *bytes;
	uint64_t granules;
	uint32_t *page;
	uint32_t pages;
	uint8_t *unit;
	uint32_t units;
	struct etch_map_rule *palette;
	uint32_t palette_count;
};

/* Makes the map; `calls` as for unwind_block_encode(). */
void map_make(const struct numbered *n, const uint64_t *calls, size_t call_count, unsigned shift, struct map *m);
void map_free(struct map *m);

#endif
