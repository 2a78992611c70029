/* SPDX-License-Identifier: MIT */
/*
 * Makes the unwind rows of one code range from two sources: the abstract states of the flow analysis, and .eh_frame. If
 * both agree, or if the state proves nothing, the row of .eh_frame is used. If the state contradicts .eh_frame, the row
 * is made from the code, and a finding is added.
 */
#ifndef ANALYSIS_UNWIND_ROW_CHOICE_H
#define ANALYSIS_UNWIND_ROW_CHOICE_H

#include "analysis/flow/flow.h"
#include "analysis/unwind/rows.h"
#include "analysis/unwind/saves.h"
#include "report/finding.h"

/* The rows and findings of one code range, which this struct owns. */
struct range_rows {
	/* These cover the code range, and adjacent rows differ. Not allocated by malloc(): see range_saves() */
	struct row *rows;
	struct findings findings; /* with addresses of the code space, and section 0 */
	uint32_t count;
	uint32_t save_count : 31; /* number of elements of range_saves() */
	/* Some rows come from .eh_frame alone, or are confirmed only by an inferred state. */
	uint32_t unproven : 1;
};

/* Returns the rows with the places of callee-saved registers, if emit.saves_of asks for them; the first begins at the
 * start of the code range. They lie directly in front of `rows`, in the same block of memory, so that no pointer to
 * them is needed. */
static inline struct save_row *range_saves(const struct range_rows *r)
{
	return r->rows ? (struct save_row *)(void *)r->rows - r->save_count : NULL;
}

/* Working memory for making the rows of one code range at a time. Each worker thread has its own, which is zeroed at
 * first. */
struct emit {
	struct row *rows;
	size_t count, capacity;
	struct findings findings;
	struct save_list saves;
	const struct code_range *range;
	struct flow *flow;
	enum saves_of saves_of; /* for which code range_rows.saves is made; the caller sets it before emit_begin() */
	bool no_cfi;
	/* What begins at the start of the code range according to .eh_frame; START_ASSUMED if that has no row there. */
	enum flow_start start;

	/* Rows of the code range's FDE, clipped to the code range; cfi_at: index of the current one. */
	struct etch_cfi_row *cfi;
	size_t cfi_count, cfi_capacity, cfi_at;
	uint64_t cfi_same_below; /* .eh_frame has the same row from `at` up to this address */
	/* .eh_frame has only one row for the code range, which is not that of a function's entry: the FDE may cover many
	 * functions. */
	bool one_rule;
	/* The rows of the FDE of the PLT. Many code ranges share it. */
	struct {
		struct etch_cfi_row *rows;
		size_t count, capacity;
		long fde;
	} plt;

	/* The state before the current instruction. */
	struct {
		const struct state *state; /* borrowed from the flow analysis */
		struct etch_rule rule;
		bool lifts; /* lifts() is true for `state` and `rule` */
		bool stale; /* `rule` is out of date: the state changed at an instruction inside another one */
	} now;
	uint64_t last; /* address of the last instruction for which a row was chosen */
	uint64_t at;   /* the rows are complete below this address */
	bool inferred; /* value of row.inferred for the row that is being added */
	bool silent;   /* there already is a finding for the current disagreement */
	bool agreed;   /* the last state confirmed or contradicted the row of .eh_frame */
	/* Start of the last row of .eh_frame in which rsp was replaced; UINT64_MAX: there is none. */
	uint64_t sp_replaced;
	bool tails; /* flow_tail_rule() may give a rule at points where the state has none */

	/* What the states of the code range have shown so far. */
	struct {
		/* .eh_frame contradicts the state of a function's entry somewhere inside the code range. */
		bool denied;
		bool lifted;          /* some row is made from a state for which lifts() is true */
		bool wants_constants; /* tracking constants (flow.in.force_constants) may prove more */
		/* If the return address is lost: how many bytes are off the stack beyond those that an entry has there; 0:
		 * it is not lost. */
		int32_t lost;
	} found;
};

/* Begins a code range: reads the rows that .eh_frame has for it, unless no_cfi is set. */
void emit_begin(struct emit *e, const struct flow_env *env, uint32_t range, bool no_cfi);
/* Stores in *out the rows of the code range that was given to emit_begin() and that flow_run() has analysed. Completes
 * the results of f, as flow_states() does. */
void emit_rows(struct emit *e, struct flow *f, struct range_rows *out);
void emit_free(struct emit *e);
/* Returns the row that covers an address, or null if the address is below the first row. */
const struct row *range_row_at(const struct range_rows *r, uint64_t addr);
void range_rows_free(struct range_rows *p);

/* emit_saves.c: prepares finding where callee-saved registers are. It is called before flow_states(), which then
 * collects the places, if emit.saves_of asks for them whatever the rows will be. */
void emit_saves_begin(struct emit *e, struct flow *f);
/* Called after flow_states(). Completes emit.saves. If they turn out to be needed only because of the rows, collects
 * them now. */
void emit_saves_end(struct emit *e, struct flow *f);

#endif
