/* SPDX-License-Identifier: MIT */
/*
 * Code that the entry point jumps to, and that nobody else leads to, has no caller either: the stack ends in it.
 */
#include "code/work.h"

/* May the entry point jump to a piece to begin with, and not to a function that .eh_frame or data knows? */
static bool may_be_first(const struct work *w, uint32_t i)
{
	const struct piece *p = &w->pieces.list[i];

	return p->fde < 0 && !p->outermost && !p->plt && !w->state[i].evident && !w->state[i].shared;
}

static bool is_first(const struct work *w, uint32_t entry, uint32_t from)
{
	return from == entry || (w->handed && w->pieces.list[from].handed);
}

/* The piece that begins where an edge leads, or NO_PIECE. */
static uint32_t begun_at(const struct work *w, const struct edge *x)
{
	uint32_t to = piece_number(&w->env, x->target);

	return to != NO_PIECE && w->pieces.list[to].start == x->target ? to : NO_PIECE;
}

static void shared_note(struct work *w, uint32_t to)
{
	w->state[to].shared |= w->state[to].first;
	w->state[to].first = false;
}

/* Others that lead to where the entry point jumps. */
static void shared_find(struct work *w, uint32_t entry)
{
	size_t i;

	for (i = 0; i < w->calls.count; i++)
		if (w->calls.list[i].start)
			shared_note(w, w->calls.list[i].to);
	for (i = 0; i < w->tails.count; i++)
		if (w->tails.list[i].start && !is_first(w, entry, w->tails.list[i].from))
			shared_note(w, w->tails.list[i].to);
	for (i = 0; i < w->edges.count; i++) {
		uint32_t to = is_first(w, entry, w->edges.list[i].from) ? NO_PIECE : begun_at(w, &w->edges.list[i]);

		if (to != NO_PIECE)
			shared_note(w, to);
	}
}

void handed_find(struct work *w)
{
	uint32_t entry = piece_number(&w->env, w->file->eh.e_entry), to;
	bool some = w->handed;
	size_t i;

	if (entry == NO_PIECE || !w->pieces.list[entry].outermost || w->pieces.list[entry].go)
		return;
	for (i = 0; i < w->tails.count; i++) {
		const struct link *x = &w->tails.list[i];

		if (x->start && is_first(w, entry, x->from) && may_be_first(w, x->to))
			some = w->state[x->to].first = true;
	}
	for (i = 0; i < w->edges.count; i++)
		if (is_first(w, entry, w->edges.list[i].from) && (to = begun_at(w, &w->edges.list[i])) != NO_PIECE && may_be_first(w, to))
			some = w->state[to].first = true;
	if (!some)
		return;
	shared_find(w, entry);
	for (w->handed = false, i = 0; i < w->pieces.count; i++) {
		struct piece_state *s = &w->state[i];

		if (s->first != w->pieces.list[i].handed)
			s->run |= RUN_NEWS;
		w->handed |= w->pieces.list[i].handed = s->first;
		s->first = false;
	}
}
