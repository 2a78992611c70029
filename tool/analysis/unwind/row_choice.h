/* SPDX-License-Identifier: MIT */
/*
 * Makes the unwind rows of one code range from two sources: the abstract states of the flow analysis, and .eh_frame. If
 * both agree, or the state proves nothing, the row is .eh_frame's; if the state contradicts .eh_frame, the row is that
 * of the code, and there is a finding.
 */
#ifndef ANALYSIS_UNWIND_ROW_CHOICE_H
#define ANALYSIS_UNWIND_ROW_CHOICE_H

#include "analysis/flow/flow.h"
#include "analysis/unwind/rows.h"
#include "analysis/unwind/saves.h"
#include "report/finding.h"

/* The rows and findings of one code range; owned. */
struct range_rows {
	struct row *rows;         /* they cover the code range; neighbours differ. Not malloc'd: see range_saves() */
	struct findings findings; /* with addresses of the code space, and section 0 */
	uint32_t count;
	uint32_t save_count : 31; /* number of elements of range_saves() */
	uint32_t unproven : 1;    /* some rows are .eh_frame's alone, or confirmed only by an inferred state */
};

/* Returns where callee-saved registers are, if emit.saves_of asks for that; the first row begins at the code range's
 * start. They lie directly in front of the rows, in the same block of memory, so that no pointer to them is needed. */
static inline struct save_row *range_saves(const struct range_rows *r)
{
	return r->rows ? (struct save_row *)(void *)r->rows - r->save_count : NULL;
}

/* Working memory for one code range at a time; each worker thread has its own. It is zeroed at first. */
struct emit {
	struct row *rows;
	size_t count, capacity;
	struct findings findings;
	struct save_list saves;
	const struct code_range *range;
	struct flow *flow;
	enum saves_of saves_of; /* set by the caller before emit_begin(): when to collect range_rows.saves */
	bool no_cfi;
	enum flow_start start; /* what begins at the code range's start by .eh_frame; START_ASSUMED where that has no row */

	struct etch_cfi_row *cfi; /* rows of the code range's FDE, clipped to it; cfi_at: the current one */
	size_t cfi_count, cfi_capacity, cfi_at;
	uint64_t cfi_same_below; /* .eh_frame has the same row from `at` up to here */
	bool one_rule; /* .eh_frame has one row for the code range, other than an entry's: perhaps for many functions */
	/* The rows of the FDE of the PLT, which many code ranges share. */
	struct {
		struct etch_cfi_row *rows;
		size_t count, capacity;
		long fde;
	} plt;

	/* The state before the current instruction. */
	struct {
		const struct state *state; /* borrowed from the flow analysis */
		struct etch_rule rule;
		bool lifts; /* lifts() is true for the state of `rule` */
		bool stale; /* `rule` is out of date: it changed in an instruction inside another one */
	} now;
	uint64_t last;        /* address of the last instruction */
	uint64_t at;          /* rows are complete below this address */
	bool inferred;        /* row.inferred of the row being added */
	bool silent;          /* the current disagreement has a finding */
	bool agreed;          /* the last state confirmed or contradicted .eh_frame's row */
	uint64_t sp_replaced; /* start of the last row of .eh_frame in which rsp was replaced; UINT64_MAX: none */
	bool tails;           /* flow_tail_rule() may have a rule where the state has none */

	/* What the states of the code range have shown. */
	struct {
		bool denied;          /* .eh_frame contradicts the state of a function's entry inside the code range */
		bool lifted;          /* some row is made from a state for which lifts() is true */
		bool wants_constants; /* an analysis with constants (flow.in.force_constants) may prove more */
		int32_t lost; /* where the return address is lost: bytes off the stack beyond those of an entry; 0: nowhere */
	} found;
};

/* Begins a code range: reads its rows of .eh_frame, unless no_cfi. */
void emit_begin(struct emit *e, const struct flow_env *env, uint32_t range, bool no_cfi);
/* Writes the rows of the code range given to emit_begin(), after flow_run() on it, to *out; completes the results of f
 * (those of flow_states()). */
void emit_rows(struct emit *e, struct flow *f, struct range_rows *out);
void emit_free(struct emit *e);
/* Returns the row that covers an address, or null if the address is below the first row. */
const struct row *range_row_at(const struct range_rows *r, uint64_t addr);
void range_rows_free(struct range_rows *p);

/* emit_saves.c: finds where callee-saved registers are. Called before flow_states(), which then collects the saves, if
 * emit.saves_of asks for them whatever the rows will be. */
void emit_saves_begin(struct emit *e, struct flow *f);
/* Called after flow_states(): completes emit.saves, and collects them now if only the rows have shown that they are
 * needed. */
void emit_saves_end(struct emit *e, struct flow *f);

#endif
