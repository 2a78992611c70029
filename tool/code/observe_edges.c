/* SPDX-License-Identifier: MIT */
/*
 * Findings about one piece, judged again once it is known of all of them whether they are
 * functions, or parts of functions that others jump to in the middle of their work.
 */
#include "code/work.h"

#include <string.h>

/* The pieces whose start others jump to with a frame. */
static bool *parts_find(const struct work *w)
{
	bool *part = calloc(w->pieces.count + 1, sizeof(*part));
	size_t i;

	for (i = 0; part && i < w->tails.count; i++)
		if (w->tails.list[i].kind == EXIT_PART && w->tails.list[i].to != NO_PIECE)
			part[w->tails.list[i].to] = true;
	return part;
}

/* The place that a fact is about, or `none`. */
static uint64_t place_of(const struct finding *x, const char *label, uint64_t none)
{
	size_t i;

	for (i = 0; i < x->fact_count; i++)
		if (x->facts[i].placed && !strcmp(x->facts[i].label, label))
			return x->facts[i].addr;
	return none;
}

/* Does another piece lead to one of these addresses? A piece is not run again for that where
 * its rows know the frame already. */
static bool is_led_to(const struct work *w, uint64_t first, uint64_t last)
{
	size_t at = edges_from(&w->edges, first);

	return at < w->edges.count && w->edges.list[at].target <= last;
}

static bool holds(const struct work *w, uint32_t piece, const struct finding *x, const bool *part)
{
	uint32_t to;

	if (!strcmp(x->id, "ETCH-F004")) {
		to = piece_number(&w->env, place_of(x, "jumps to", FLOW_EXTERN));
		return to == NO_PIECE || !w->state[to].fragment;
	}
	if (!strcmp(x->id, "ETCH-F002"))
		return !is_led_to(w, x->addr, place_of(x, "the last", x->addr));
	/* Others come with a frame to where this was taken to begin with none. */
	if (!strcmp(x->id, "ETCH-S002") || !strcmp(x->id, "ETCH-S005"))
		return w->pieces.list[piece].fde >= 0 || (!part[piece] && !w->state[piece].fragment);
	return true;
}

int observe_edges(struct work *w, struct error *e)
{
	bool *part = parts_find(w);
	uint32_t i;
	size_t k;

	if (!part)
		return error_set(e, "out of memory");
	for (i = 0; i < w->pieces.count; i++) {
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
	return 0;
}
