/* SPDX-License-Identifier: MIT */
/* The rows of a block table with numbered rules: the input of the encoder. */
#ifndef TABLE_UNWIND_NUMBERED_H
#define TABLE_UNWIND_NUMBERED_H

#include "support/hash_index.h"
#include "table/unwind_runs.h"
#include "table/unwind_tables.h"

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

#endif
