/* SPDX-License-Identifier: MIT */
/*
 * Finds addresses that code takes relative to its own: call 1f; 1: pop %r; lea label - 1b(%r), %s. Assembly that fills
 * a table with the labels of an interpreter's handlers does so, including assembly written for other machines.
 */
#include "analysis/flow/flow_internal.h"
#include "arch/x86/insn.h"

static bool is_call(const struct flow *f, uint64_t off, const struct step *in)
{
	struct insn x;

	return in->op == STEP_PUSH && in->flow == FLOW_NEXT &&
	       insn_decode(f->in.range->bytes + off, in->len, f->in.range->start + off, &x) && x.flow == FLOW_CALL;
}

/* Notes the addresses that the block continuing at `off` takes, where register r holds the address `own`. */
static void block_note(struct flow *f, uint64_t off, unsigned r, uint64_t own)
{
	uint64_t size = f->in.range->end - f->in.range->start;

	while (off < size && f->at[off] && (f->seen[f->at[off] - 1] & FLOW_WALKED) && !f->leader[f->at[off] - 1]) {
		struct step in = f->steps[f->at[off] - 1]; /* the list may move */

		if (in.flow != FLOW_NEXT)
			return;
		if (in.op == STEP_ADDRESS && in.b == r)
			flow_ref_note(f, off, own + (uint64_t)(int64_t)in.disp);
		if ((in.writes >> r & 1) || (in.a == r && !step_pushes(&in) && in.op != STEP_STORE && in.op != STEP_COMPARE))
			return;
		off += in.len;
	}
}

void flow_labels_note(struct flow *f)
{
	uint64_t size = f->in.range->end - f->in.range->start, off;

	for (off = 0; off < size; off++) {
		struct step in = f->at[off] ? f->steps[f->at[off] - 1] : (struct step){0}, pop;
		uint64_t own = off + in.len;

		if (!f->at[off] || !is_call(f, off, &in) || own >= size || !f->at[own])
			continue;
		pop = f->steps[f->at[own] - 1];
		if (pop.op == STEP_POP && pop.a < 16)
			block_note(f, own + pop.len, pop.a, f->in.range->start + own);
	}
}
