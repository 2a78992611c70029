/* SPDX-License-Identifier: MIT */
/*
 * Lists of links (links.h). The cost of a round depends on the number of code ranges that it has analysed, not on the
 * number of all. Links refer to code ranges by identity, so that adding code ranges, which renumbers the others,
 * changes no link. A dropped link stays in its place in the list; the list is compacted when many have been dropped.
 * For what links show about a start, only counts are kept.
 */
#include "analysis/interproc/work.h"
#include "support/memory.h"

#include <string.h>

/* The links to the start of a code range are counted separately by class, since each class shows something different
 * about the start. */
enum entry_class {
	CLASS_CALL,
	CLASS_TAIL,
	CLASS_PART,
	CLASS_REF,
	CLASSES,
};

/* The counts for one start. */
struct entries {
	uint32_t count[CLASSES];
};

static const uint8_t class_of[] = {
	[EXIT_CALL] = CLASS_CALL, [EXIT_LAST] = CLASS_CALL, [EXIT_FRESH] = CLASS_CALL, [EXIT_LEFT] = CLASS_CALL,
	[EXIT_TAIL] = CLASS_TAIL, [EXIT_PART] = CLASS_PART, [EXIT_REF] = CLASS_REF,
};

static const uint8_t entry_of[] = {
	[CLASS_CALL] = ENTRY_CALLED | ENTRY_LED | ENTRY_TAKEN,
	[CLASS_TAIL] = ENTRY_LED | ENTRY_TAKEN | ENTRY_TAILED,
	[CLASS_PART] = ENTRY_LED,
	[CLASS_REF] = ENTRY_TAKEN | ENTRY_REFERRED,
};

void identities_grow(struct work *w, size_t before)
{
	struct links *each[] = {&w->graph.calls, &w->graph.tails};
	size_t n = w->ranges.count, k;

	w->graph.place = mem_resize(w->graph.place, n, sizeof(*w->graph.place));
	w->graph.entries = mem_resize(w->graph.entries, n, sizeof(*w->graph.entries));
	memset(w->graph.entries + before, 0, (n - before) * sizeof(*w->graph.entries));
	for (k = 0; k < 2; k++) {
		each[k]->of = mem_resize(each[k]->of, n, sizeof(*each[k]->of));
		each[k]->into = mem_resize(each[k]->into, n, sizeof(*each[k]->into));
		memset(each[k]->of + before, 0, (n - before) * sizeof(*each[k]->of));
		memset(each[k]->into + before, 0, (n - before) * sizeof(*each[k]->into));
	}
}

void touched_add(struct work *w, struct range_state *s)
{
	if (s->touched)
		return;
	s->touched = true;
	mem_reserve(&w->graph.touched, &w->graph.touched_capacity, w->graph.touched_count, sizeof(*w->graph.touched));
	w->graph.touched[w->graph.touched_count++] = s->id;
}

/* Counts a link, or with `drop` subtracts one that is dropped; updates range_state.entered if that changes it. */
static void entry_count(struct work *w, const struct link *x, bool drop)
{
	uint32_t *count = w->graph.entries[x->to].count, *at = &count[class_of[x->kind]];
	struct range_state *s;
	unsigned k, entered = 0;

	*at += drop ? UINT32_MAX : 1;
	if (*at != (drop ? 0 : 1))
		return;
	for (k = 0; k < CLASSES; k++)
		if (count[k])
			entered |= entry_of[k];
	s = &w->state[w->graph.place[x->to]];
	s->entered = (uint8_t)entered;
	touched_add(w, s);
}

void link_resolve(const struct work *w, struct link *x, uint32_t to)
{
	const struct code_range *p = to != NO_RANGE ? &w->ranges.list[to] : NULL;

	x->to = p ? w->state[to].id : NO_RANGE;
	x->start = p && p->start == x->target;
	x->outside = !p || p->plt;
	x->entry = x->start ? entry_of[class_of[x->kind]] : 0;
}

void links_put(const struct work *w, struct links *l, const struct flow_exit *x)
{
	struct link *out;

	mem_reserve(&l->list, &l->capacity, l->count, sizeof(*l->list));
	out = &l->list[l->count++];
	*out = (struct link){.target = x->target, .from = w->state[x->from].id, .kind = (uint8_t)x->kind, .next = x->at};
	link_resolve(w, out, x->to);
}

/* Adds link i to the list `into` of the start that it leads to. */
static void into_add(struct links *l, size_t i)
{
	struct link *x = &l->list[i];

	if (!x->start || x->kind == EXIT_REF)
		return;
	x->next = l->into[x->to];
	l->into[x->to] = (uint32_t)i + 1;
}

/* Adds the links from index `from` on to `of`, `into` and `others`. */
static void links_list(struct links *l, size_t from)
{
	size_t i;

	for (i = from; i < l->count; i++) {
		const struct link *x = &l->list[i];

		if (!i || x[-1].from != x->from)
			l->of[x->from] = (uint32_t)i + 1;
		into_add(l, i);
		if (link_is_direct(x))
			continue;
		mem_reserve(&l->others, &l->other_capacity, l->other_count, sizeof(*l->others));
		l->others[l->other_count++] = (uint32_t)i;
	}
}

/* Removes the dropped links from the list, and rebuilds `of`, `into` and `others`. */
static void links_compact(const struct work *w, struct links *l)
{
	size_t i, k;

	for (i = k = 0; i < l->count; i++)
		if (l->list[i].kind != LINK_DROPPED)
			l->list[k++] = l->list[i];
	l->count = k;
	l->dropped = l->other_count = 0;
	memset(l->of, 0, w->ranges.count * sizeof(*l->of));
	memset(l->into, 0, w->ranges.count * sizeof(*l->into));
	links_list(l, 0);
}

void links_drop(struct work *w, struct links *l)
{
	size_t i, k, end;

	for (i = 0; i < w->rounds.worklist_count; i++) {
		uint32_t id = w->state[w->rounds.worklist[i]].id;

		for (k = links_of(l, id, &end); k < end; k++) {
			struct link *x = &l->list[k];

			if (x->entry)
				entry_count(w, x, true);
			*x = (struct link){.target = FLOW_EXTERN | FLOW_SLOT,
			                   .from = NO_RANGE,
			                   .to = NO_RANGE,
			                   .next = x->next,
			                   .kind = LINK_DROPPED};
			l->dropped++;
		}
		l->of[id] = 0;
	}
	if (l->dropped > l->count / 8)
		links_compact(w, l);
}

void links_reserve(struct links *l, size_t more)
{
	size_t want = l->count + more;

	if (want <= l->capacity)
		return;
	l->capacity = want > l->capacity + l->capacity / 4 ? want : l->capacity + l->capacity / 4;
	l->list = mem_resize(l->list, l->capacity, sizeof(*l->list));
}

void links_trim(struct links *l)
{
	if (!l->count)
		return;
	l->capacity = l->count;
	l->list = mem_resize(l->list, l->capacity, sizeof(*l->list));
}

void links_append(struct work *w, struct links *l, struct links *from)
{
	size_t want = l->count + from->count, old = l->count, i;

	links_reserve(l, from->count);
	if (from->count)
		memcpy(l->list + l->count, from->list, from->count * sizeof(*from->list));
	l->count = want;
	for (i = old; i < want; i++)
		if (l->list[i].entry)
			entry_count(w, &l->list[i], false);
	links_list(l, old);
	free(from->list);
	memset(from, 0, sizeof(*from));
}

void links_resolve(struct work *w)
{
	struct links *each[] = {&w->graph.calls, &w->graph.tails};
	size_t k, i;

	for (k = 0; k < 2; k++)
		for (i = 0; i < each[k]->other_count; i++) {
			struct link *x = &each[k]->list[each[k]->others[i]];

			if (x->to != NO_RANGE || x->kind == LINK_DROPPED)
				continue;
			link_resolve(w, x, range_number(&w->env, x->target));
			into_add(each[k], each[k]->others[i]);
			if (x->entry)
				entry_count(w, x, false);
		}
}

void links_free(struct links *l)
{
	free(l->list);
	free(l->of);
	free(l->into);
	free(l->others);
	memset(l, 0, sizeof(*l));
}

void links_to(const struct work *w, const struct links *l, const uint64_t *targets, size_t count,
              void (*take)(void *ctx, const struct link *x), void *ctx)
{
	bool elsewhere = false; /* some target is not the start of a code range */
	size_t i;
	uint32_t k;

	for (i = 0; i < count; i++) {
		uint32_t to = range_number(&w->env, targets[i]);

		if (to == NO_RANGE || w->ranges.list[to].start != targets[i]) {
			elsewhere = true;
			continue;
		}
		for (k = l->into[w->state[to].id]; k; k = l->list[k - 1].next)
			if (l->list[k - 1].kind != LINK_DROPPED)
				take(ctx, &l->list[k - 1]);
	}
	for (i = 0; i < l->other_count && elsewhere; i++) {
		const struct link *x = &l->list[l->others[i]];

		if (!x->start && x->kind != LINK_DROPPED && noreturn_may_hold(&w->env, x->target) &&
		    word_has(targets, count, x->target))
			take(ctx, x);
	}
}
