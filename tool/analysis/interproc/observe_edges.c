/* SPDX-License-Identifier: MIT */
/*
 * After the fixpoint: drops findings about a code range (analysis/lint) that are refuted now that it is known for all
 * code ranges whether they are functions or parts of functions.
 */
#include "analysis/interproc/work.h"
#include "analysis/interproc/other_frames.h"
#include "support/memory.h"

#include <string.h>

/* Returns, for each code range, whether other code ranges jump to it with a frame (EXIT_PART). The caller frees the
 * array. */
static bool *parts_of(const struct work *w)
{
	bool *part = mem_zero(w->ranges.count, sizeof(*part));
	size_t i;

	for (i = 0; i < w->graph.tails.count; i++)
		if (w->graph.tails.list[i].kind == EXIT_PART && w->graph.tails.list[i].to != NO_RANGE)
			part[w->graph.place[w->graph.tails.list[i].to]] = true;
	return part;
}

/* Returns the address of the fact of a finding that has a label, or `none` if there is no such fact. */
static uint64_t place_of(const struct finding *x, const char *label, uint64_t none)
{
	size_t i;

	for (i = 0; i < x->fact_count; i++)
		if (x->facts[i].placed && !strcmp(x->facts[i].label, label))
			return x->facts[i].addr;
	return none;
}

/* Does an edge lead to an address in [first, last]? The finding may be older than the edge: a code range is not
 * analysed again if its rows confirm the state of a new edge. */
static bool is_led_to(const struct work *w, uint64_t first, uint64_t last)
{
	size_t at = edges_from(&w->graph.edges, first);

	return at < w->graph.edges.count && w->graph.edges.list[at].target <= last;
}

/* Does a finding about a code range still hold? */
static bool holds(const struct work *w, uint32_t range, const struct finding *x, const bool *part)
{
	uint32_t to;

	if (!strcmp(x->id, "ETCH-F004")) {
		to = range_number(&w->env, place_of(x, "jumps to", FLOW_EXTERN));
		return to == NO_RANGE || w->state[to].kind == RANGE_FUNCTION;
	}
	if (!strcmp(x->id, "ETCH-F002"))
		return !is_led_to(w, x->addr, place_of(x, "the last", x->addr));
	/* These findings assumed that the code range begins without a frame, but other code ranges jump there with one. */
	if (!strcmp(x->id, "ETCH-S002") || !strcmp(x->id, "ETCH-S005") || !strcmp(x->id, "ETCH-S007"))
		return w->ranges.list[range].fde >= 0 || (!part[range] && w->state[range].kind == RANGE_FUNCTION);
	return true;
}

void observe_edges(struct work *w)
{
	bool *part = parts_of(w);
	uint32_t i;
	size_t k;

	for (i = 0; i < w->ranges.count; i++) {
		struct findings *l = &w->state[i].rows.findings;
		size_t kept = 0;

		for (k = 0; k < l->count; k++)
			if (holds(w, i, &l->list[k], part))
				l->list[kept++] = l->list[k];
			else
				finding_free(&l->list[k]);
		l->count = kept;
	}
	free(part);
}
