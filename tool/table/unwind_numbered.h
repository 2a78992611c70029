/* SPDX-License-Identifier: MIT */
/*
 * The rows of a block table with the numbers of their rules; what its encoder works on.
 */
#ifndef TABLE_UNWIND_NUMBERED_H
#define TABLE_UNWIND_NUMBERED_H

#include "table/unwind_runs.h"
#include "table/unwind_tables.h"

struct palette {
	struct etch_rule *list;
	uint32_t *uses;
	uint32_t count, room;
	uint32_t *slots; /* open addressing; 0 empty, else index + 1 */
	uint32_t mask;
};

/* Rows from `text` on, without the last one. */
struct numbered {
	const struct row *rows;
	size_t count;
	uint32_t *rule;    /* of each row, in the palette */
	uint32_t before;   /* rule of what lies before the first row, in its block */
	bool lead;         /* there is something before it */
	size_t first;      /* row that the records begin with: what is before it is the byte before them */
	uint64_t text, size;
	struct palette palette; /* the most frequent rule first, but all of runs before those */
	uint32_t direct;        /* rules below have an idx byte */
	struct unwind_runs runs; /* of_row counts from `first` */
};

/* -1: out of memory, text over 4 GiB, rows out of order, a rule that is none. */
int numbered_make(const struct row_list *l, struct numbered *n, struct error *e);
void numbered_free(struct numbered *n);

/* Rows that the entry at row i stands for; *run is its run, or null. */
static inline size_t entry_rows(const struct numbered *n, size_t i, const struct unwind_run **run)
{
	uint8_t number = n->runs.of_row[i - n->first];

	*run = number ? &n->runs.list[number - 1] : NULL;
	return number ? (*run)->n : 1;
}

/*
 * Code that is returned to without having called: the kernel pushes the address of a
 * signal's restorer, makecontext(3) that of the code behind the context's function. A
 * walk looks such an address up by the byte before it, which therefore gets the row too,
 * where it is nobody's. CFI does the same for restorers: their FDEs begin a byte early.
 */
static inline bool is_entered_by_return(const struct row *r)
{
	return r->rule.kind == ETCH_RULE_SIGNAL || r->rule.kind == ETCH_RULE_END;
}

#endif
