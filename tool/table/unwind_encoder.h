/* SPDX-License-Identifier: MIT */
/* Shared by the files of the block table's encoder: unwind_tables.c, unwind_numbered.c, unwind_runs.c, unwind_map.c. */
#ifndef TABLE_UNWIND_ENCODER_H
#define TABLE_UNWIND_ENCODER_H

#include "support/hash_index.h"
#include "table/unwind_tables.h"

/* ---- unwind_runs.c ---------------------------------------------------------------------------- */

/*
 * A run is a sequence of rows that occurs so often that it gets an idx byte of its own (struct etch_run of etch/orc.h),
 * e.g. the pushes of a prologue or the pops of an epilogue.
 */

/* A run. */
struct unwind_run {
	/* Number of rows. */
	uint8_t n;
	uint8_t off[ETCH_RUN_ROWS];   /* address of each row, relative to the first */
	uint32_t rule[ETCH_RUN_ROWS]; /* rule index of each row */
};

/* The runs that have been chosen. */
struct unwind_runs {
	struct unwind_run *list; /* all runs together use at most 255 - `count` different rules */
	uint32_t count;
	uint8_t *of_row; /* per row: 1 + index of the run that begins there; 0: none */
};

/*
 * Chooses runs for `count` rows, after which a further row ends them. rule[i] is the index of row i's rule, and less
 * than `rules`. The rows of a run lie in one block and have at most 15 bytes each. This keeps most return addresses out
 * of runs, in which lookups are slower. Deterministic.
 */
void unwind_runs_find(const struct row *rows, size_t count, const uint32_t *rule, uint32_t rules,
                      struct unwind_runs *out);
void unwind_runs_free(struct unwind_runs *r);

/* ---- unwind_numbered.c: the rows of a block table with numbered rules ------------------------- */

/* The different rules of a table, and how often each is used. */
struct palette {
	struct etch_rule *list;
	uint32_t *uses;
	uint32_t count, capacity;
	struct hash_index index;
};

/* The rows of a table that begin at or after `text`, without the last one, which is only the end; with their rules
 * numbered. */
struct numbered {
	const struct row *rows;
	size_t count;
	uint32_t *rule; /* per row: index of its rule in the palette */
	/* Index of the rule that applies from the start of the first block up to the first row in the records. */
	uint32_t before;
	bool lead; /* the first row does not begin at the start of its block */
	/* Index of the first row in the records; the rule before it is the byte in front of the records. */
	size_t first;
	uint64_t text, size;
	/* Sorted: first the rules of runs, then the others; within each group by descending use. */
	struct palette palette;
	uint32_t direct;         /* rules with a lower index have an idx byte */
	struct unwind_runs runs; /* runs.of_row is indexed relative to row `first` */
};

/* Checks the rows, and numbers their rules. Returns -1 with a message in *e if the text is larger than 4 GiB, if rows
 * are out of order, or if a rule is invalid. With ETCH_ENCODING_REGISTERS, rows have etch_saves instead of rules, and
 * these are checked. */
int numbered_make(const struct row_list *l, unsigned encoding, struct numbered *n, struct error *e);
void numbered_free(struct numbered *n);

/* Returns the number of rows for which the entry at row i stands, and sets *run to its run, or to null if it is a
 * single row. */
static inline size_t entry_rows(const struct numbered *n, size_t i, const struct unwind_run **run)
{
	uint8_t number = n->runs.of_row[i - n->first];

	*run = number ? &n->runs.list[number - 1] : NULL;
	return number ? (*run)->n : 1;
}

/*
 * Is the code of a row entered by a return without having made a call? The kernel pushes the address of a signal's
 * restorer, and makecontext(3) pushes the address of code that runs after the context's function. An unwinder looks
 * such an address up by the byte before it, so the row is extended by that byte, unless the byte belongs to other code.
 * CFI does the same: the FDEs of restorers begin one byte early.
 */
static inline bool is_entered_by_return(const struct row *r)
{
	return r->rule.kind == ETCH_RULE_SIGNAL || r->rule.kind == ETCH_RULE_END;
}

/* ---- unwind_map.c: the map of return addresses (etch/orc.h), in which one byte per granule selects the rule ---- */

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

/* Makes the map. `calls` is as in struct unwind_kind. */
void map_make(const struct numbered *n, const uint64_t *calls, size_t call_count, unsigned shift, struct map *m);
void map_free(struct map *m);

#endif
