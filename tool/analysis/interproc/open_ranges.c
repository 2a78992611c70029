/* SPDX-License-Identifier: MIT */
/*
 * Finds the ends of open code ranges, whose size no symbol or FDE gives. They are cut where their flow ends, and where
 * a function begins inside them. If no flow was found in one, it is extended again once new facts may change that.
 */
#include "analysis/interproc/work.h"
#include "analysis/interproc/range_starts.h"
#include "arch/x86/opcodes.h"
#include "arch/x86/padding.h"
#include "support/memory.h"
#include "shared/search.h"

/* Cuts code range i at `end`, and marks it with the reason `run`. was[i] is set to its end before the first cut; it is
 * 0 if the range has not been cut. */
static void range_cut(struct work *w, uint64_t *was, uint32_t i, uint64_t end, unsigned run)
{
	if (!was[i])
		was[i] = w->ranges.list[i].end;
	w->ranges.list[i].end = end;
	w->state[i].run |= (uint8_t)run;
}

#define CALL_SIZE   5u /* bytes of a direct call */
#define RETURN_SIZE 1u

/* Is there an instruction boundary at offset `off`, if the code range is decoded linearly from its start? */
static bool is_decoded_at(const struct code_range *p, uint64_t off)
{
	uint64_t at = 0;
	struct step s;

	while (at < off && step_outline(NULL, p->bytes + at, p->end - p->start - at, &s))
		at += s.len;
	return at == off;
}

/* Is there padding directly before an address and, before the padding, an instruction of `size` bytes that is a return
 * or, for FLOW_CALL, a call of code in the file? Zero bytes are also found at the end of many operands: then the bytes
 * that look like a return must be an instruction by linear decoding. */
static bool is_after(const struct work *w, const struct code_range *p, uint64_t addr, unsigned size, unsigned flow)
{
	uint64_t at = addr - p->start, from;
	struct step s;

	for (from = at - 1; from >= size && at - from < FUNCTION_ALIGN; from--)
		if (from + padding_size(NULL, p->bytes + from, at - from, p->start + from, NULL) == at &&
		    step_decode(NULL, p->bytes + from - size, size, p->start + from - size, &s) && s.flow == flow &&
		    (flow == FLOW_RETURN || space_at(&w->out->space, (uint64_t)s.imm)))
			return !padding_zeros(p->bytes + from, at - from) || is_decoded_at(p, from - size);
	return false;
}

/* Does the address that a link takes, inside code range p, look like the start of another function? It does if it is
 * aligned and follows padding after a return or a call (which is then noreturn); if the code there sets up a frame
 * pointer; or if it is the restorer, to which a signal handler returns. */
static bool is_next_function(const struct work *w, const struct code_range *p, const struct link *x)
{
	if (x->kind != EXIT_REF || x->target <= p->start || x->target >= p->end)
		return false;
	if (x->target % FUNCTION_ALIGN == 0 &&
	    (is_after(w, p, x->target, CALL_SIZE, FLOW_CALL) || is_after(w, p, x->target, RETURN_SIZE, FLOW_RETURN)))
		return true;
	return insn_is_frame_prologue(p->bytes + (x->target - p->start), p->end - x->target) ||
	       code_is_sigreturn(p->bytes + (x->target - p->start), p->end - x->target);
}

void open_cut_at(struct work *w, uint64_t *was, uint32_t i, uint64_t addr)
{
	const struct code_range *p = &w->ranges.list[i];

	if (p->open && addr > p->start && addr < p->end)
		range_cut(w, was, i, addr, RUN_NEWS | RUN_LESS);
}

/* Cuts open code ranges where a call, a tail call or a suitable reference leads to an address inside them, because a
 * function begins there. Returns whether it has cut any. */
static bool open_cut(struct work *w, uint64_t *was)
{
	const struct links *each[] = {&w->graph.calls, &w->graph.tails};
	bool some = false;
	size_t k, i;

	for (k = 0; k < 2; k++)
		for (i = 0; i < each[k]->other_count; i++) {
			const struct link *x = &each[k]->list[each[k]->others[i]];
			const struct code_range *p;
			uint32_t to;

			if (x->start || x->to == NO_RANGE || x->kind == EXIT_PART)
				continue;
			to = w->graph.place[x->to];
			p = &w->ranges.list[to];
			if (!p->open || x->target <= p->start || x->target >= p->end ||
			    (x->kind == EXIT_REF && !is_next_function(w, p, x)))
				continue;
			range_cut(w, was, to, x->target, RUN_NEWS | RUN_LESS);
			some = true;
		}
	return some;
}

void open_cuts_note(struct work *w, const uint64_t *was)
{
	struct links *each[] = {&w->graph.calls, &w->graph.tails};
	size_t k, i, n;

	for (k = 0; k < 2; k++)
		for (i = 0; i < each[k]->other_count; i++) {
			struct link *x = &each[k]->list[each[k]->others[i]];

			if (x->start || x->to == NO_RANGE || !was[w->graph.place[x->to]] ||
			    x->target < w->ranges.list[w->graph.place[x->to]].end)
				continue; /* the target is not in a part that was cut off */
			link_resolve(w, x, NO_RANGE);
			if (x->kind != EXIT_REF || number_may_begin(w, x->target))
				undiscovered_put(w, x->target);
		}
	for (i = 0; i < w->ranges.count; i++) {
		uint64_t end = w->ranges.list[i].end;

		if (!was[i])
			continue;
		for (n = edges_from(&w->graph.edges, end); n < w->graph.edges.count && w->graph.edges.list[n].target < was[i];
		     n++)
			undiscovered_put(w, w->graph.edges.list[n].target);
		for (n = SEARCH(w->starts.data_count, j, w->starts.data[j] < end);
		     n < w->starts.data_count && w->starts.data[n] < was[i]; n++)
			undiscovered_put(w, w->starts.data[n]);
	}
}

void open_trim(struct work *w)
{
	uint64_t *was = mem_zero(w->ranges.count, sizeof(*was));
	bool some = open_cut(w, was);
	size_t k;

	/* `reached` may have changed only for the code ranges of the last round. */
	for (k = 0; k < w->rounds.worklist_count; k++) {
		uint32_t i = w->rounds.worklist[k];
		const struct code_range *p = &w->ranges.list[i];

		if (p->open && w->state[i].reached > p->start && w->state[i].reached < p->end) {
			range_cut(w, was, i, w->state[i].reached, RUN_CUT);
			some = true;
		}
	}
	w->unindexed |= some;
	if (some)
		open_cuts_note(w, was);
	free(was);
}

/*
 * An open code range in which no flow was found was cut to one byte. A new fact (RUN_NEWS) may let flow enter it, so it
 * is extended again as far as it can reach. A mere cut (RUN_CUT, RUN_LESS) is no such fact.
 */
void open_extend(struct work *w)
{
	bool some = false;
	size_t k;

	for (k = 0; k < w->rounds.worklist_count; k++) {
		uint32_t i = w->rounds.worklist[k];
		struct code_range *p = &w->ranges.list[i];
		struct range_state *s = &w->state[i];
		const struct code_section *c;
		uint64_t was = p->end;

		if (!s->empty)
			continue;
		s->was_empty = true;
		c = s->run & RUN_NEWS ? space_at(&w->out->space, p->start) : NULL;
		if (!c)
			continue;
		p->end = c->addr + c->size;
		if (i + 1 < w->ranges.count && p[1].start < p->end)
			p->end = p[1].start;
		s->empty = false;
		range_index_extend(&w->env, i, was);
		some = true;
	}
	if (some)
		links_resolve(w);
}
