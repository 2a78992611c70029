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

	for (i = 0; part && i < w->exit_count; i++)
		if (w->exits[i].kind == EXIT_PART && w->exits[i].to != NO_PIECE)
			part[w->exits[i].to] = true;
	return part;
}

/* The place that a jump of ETCH-F004 goes to. */
static uint32_t target_of(const struct work *w, const struct finding *x)
{
	size_t i;

	for (i = 0; i < x->fact_count; i++)
		if (x->facts[i].placed && !strcmp(x->facts[i].label, "jumps to"))
			return piece_number(&w->env, x->facts[i].addr);
	return NO_PIECE;
}

static bool holds(const struct work *w, uint32_t piece, const struct finding *x, const bool *part)
{
	uint32_t to;

	if (!strcmp(x->id, "ETCH-F004")) {
		to = target_of(w, x);
		return to == NO_PIECE || !w->state[to].fragment;
	}
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
