/* SPDX-License-Identifier: MIT */
/* Makes the rows with the places of callee-saved registers in one code range, in addition to the unwind rows of
 * row_choice.c. */
#include "analysis/flow/state.h"
#include "analysis/unwind/disagreement.h"
#include "analysis/unwind/row_choice.h"
#include "support/memory.h"

#include <string.h>

/* Adds a row if the callee-saved registers are in other places than before. flow.saves calls this for each state. */
static void saves_add(void *ctx, uint64_t addr, unsigned len, const struct state *before, bool same)
{
	struct emit *e = ctx;
	struct save_list *l = &e->saves;
	struct flow_saves *want = &e->flow->saves;
	struct etch_cfi_saves saves;
	struct save_row *row;
	int32_t bp;

	(void)len, (void)same;
	want->again = addr < e->at || addr < e->flow->skip.end;
	if (want->again) /* this instruction lies inside another one, which determines the row */
		return;
	bp = state_saves(before, &saves, &want->registers);
	row = l->count ? &l->rows[l->count - 1] : NULL;
	if (row && row->bp == bp && !memcmp(&row->saves, &saves, sizeof(saves)))
		return;
	mem_reserve(&l->rows, &l->capacity, l->count, sizeof(*l->rows));
	row = &l->rows[l->count++];
	*row = (struct save_row){.addr = addr, .saves = saves, .bp = bp};
	if (l->count == 1) {
		row->addr = e->range->start;
		row->begins = true;
		row->part = e->flow->in.start == START_PART;
	}
}

/* Does .eh_frame have a row for every byte of the code range? Then no FDE is made for it. */
static bool is_covered(const struct emit *e)
{
	uint64_t at = e->range->start;
	size_t i;

	for (i = 0; i < e->cfi_count && e->cfi[i].start <= at; i++)
		at = e->cfi[i].end > at ? e->cfi[i].end : at;
	return at >= e->range->end;
}

/* Are the saves needed whatever the rows will be? */
static bool wants_saves(const struct emit *e)
{
	return e->saves_of == SAVES_ALL || (e->saves_of != SAVES_NONE && !is_covered(e));
}

/* Are the saves needed only because the rows contradict .eh_frame? */
static bool wants_saves_now(const struct emit *e)
{
	size_t i;

	for (i = 0; e->saves_of == SAVES_WRONG && is_covered(e) && i < e->findings.count; i++)
		if (!strcmp(e->findings.list[i].id, CONTRADICTED))
			return true;
	return false;
}

/* Callback for flow_look(), if that is called only to collect saves: skips as many states as possible. */
static void look_on(void *ctx, uint64_t addr, unsigned len, const struct state *before, bool same)
{
	struct emit *e = ctx;

	(void)before, (void)same;
	if (addr >= e->at)
		e->at = addr + len;
	e->flow->skip.below = UINT64_MAX;
}

/* Does the code save all callee-saved registers somewhere? Code that is called by C does, whatever the convention of
 * the other code is. */
static bool saves_all(const struct save_list *l)
{
	static const uint8_t all[5] = {ETCH_SAVE_CFA, ETCH_SAVE_CFA, ETCH_SAVE_CFA, ETCH_SAVE_CFA, ETCH_SAVE_CFA};
	size_t i;

	_Static_assert(sizeof(l->rows->saves.how) == sizeof(all), "one for each register");
	for (i = 0; i < l->count; i++)
		if (!memcmp(l->rows[i].saves.how, all, sizeof(all)))
			return true;
	return false;
}

/* Sets the places of all callee-saved registers to unknown, for code whose convention preserves none of them; then
 * merges rows that are equal. In such code the registers at the entry need not be those of the caller: they may have
 * been left by another function, which has tail-called this one. */
static void saves_drop(struct save_list *l)
{
	size_t i, to = 0;

	for (i = 0; i < l->count; i++) {
		struct save_row *r = &l->rows[i];

		memset(&r->saves, 0, sizeof(r->saves));
		memset(r->saves.how, ETCH_SAVE_OTHER, sizeof(r->saves.how));
		if (!to || l->rows[to - 1].bp != r->bp)
			l->rows[to++] = *r;
	}
	l->count = to;
}

void emit_saves_begin(struct emit *e, struct flow *f)
{
	e->saves.count = 0;
	f->saves = (struct flow_saves){.fn = wants_saves(e) ? saves_add : NULL};
}

void emit_saves_end(struct emit *e, struct flow *f)
{
	/* Needed for a signal restorer, or only because of the rows. */
	if (wants_saves(e) ? !e->saves.count : wants_saves_now(e)) {
		e->at = e->range->start;
		f->saves.fn = saves_add;
		flow_look(f, look_on, e);
	}
	f->saves = (struct flow_saves){0};
	if (e->saves.count && code_convention(e->range)->keeps_none && !saves_all(&e->saves))
		saves_drop(&e->saves);
}
