/* SPDX-License-Identifier: MIT */
/*
 * The call graph between the code ranges of a file, and the edges that carry abstract states between them. Both are
 * kept from round to round; links_replace() exchanges what the code ranges of the last round contributed.
 */
#include "support/sort.h"
#include "analysis/interproc/work.h"
#include "support/memory.h"
#include "support/search.h"

#include <string.h>

/* ---- links ------------------------------------------------------------------- */

void link_resolve(struct link *x, uint32_t to, const struct code_range *ranges)
{
	static const uint8_t entry[] = {
		[EXIT_CALL] = ENTRY_CALLED | ENTRY_LED | ENTRY_TAKEN,
		[EXIT_LAST] = ENTRY_CALLED | ENTRY_LED | ENTRY_TAKEN,
		[EXIT_FRESH] = ENTRY_CALLED | ENTRY_LED | ENTRY_TAKEN,
		[EXIT_TAIL] = ENTRY_LED | ENTRY_TAKEN,
		[EXIT_PART] = ENTRY_LED,
		[EXIT_REF] = ENTRY_TAKEN,
	};

	x->to = to;
	x->start = to != NO_RANGE && ranges[to].start == x->target;
	x->outside = to == NO_RANGE || ranges[to].plt;
	x->entry = x->start ? entry[x->kind] : 0;
}

void links_put(struct links *l, const struct flow_exit *x, const struct code_range *ranges)
{
	struct link *out;

	mem_room(&l->list, &l->room, l->count, sizeof(*l->list));
	out = &l->list[l->count++];
	*out = (struct link){.target = x->target, .from = x->from, .kind = (uint8_t)x->kind};
	link_resolve(out, x->to, ranges);
	if (l->count == 1 || l->list[l->last].from != x->from)
		l->last = l->count - 1;
	l->list[l->last].group++;
}

/* Drops the links from the code ranges of this round. */
static void links_drop(struct links *l, const struct work *w)
{
	size_t i, n, kept = 0, other = 0, others_kept = 0;

	for (i = 0; i < l->count; i += n) {
		bool keep = !w->state[l->list[i].from].run;

		n = l->list[i].group;
		for (; other < l->other_count && l->others[other] < i + n; other++)
			if (keep && !link_is_direct(&l->list[l->others[other]]))
				l->others[others_kept++] = l->others[other] - (uint32_t)(i - kept);
		if (keep && kept != i)
			memmove(l->list + kept, l->list + i, n * sizeof(*l->list));
		kept += keep ? n : 0;
	}
	l->count = kept;
	l->other_count = others_kept;
}

/* Lists the links from index `from` on that are not direct. */
static void others_list(struct links *l, size_t from)
{
	size_t i;

	for (i = from; i < l->count; i++) {
		if (link_is_direct(&l->list[i]))
			continue;
		mem_room(&l->others, &l->other_room, l->other_count, sizeof(*l->others));
		l->others[l->other_count++] = (uint32_t)i;
	}
}

/* Moves all of `from` to the end of `l`; `from` is empty afterwards. */
static void links_append(struct links *l, struct links *from)
{
	size_t want = l->count + from->count, old = l->count;

	if (!l->room) {
		*l = *from;
	} else {
		if (want > l->room) {
			l->room = want > l->room + l->room / 4 ? want : l->room + l->room / 4;
			l->list = mem_resize(l->list, l->room, sizeof(*l->list));
		}
		if (from->count)
			memcpy(l->list + l->count, from->list, from->count * sizeof(*from->list));
		l->count = want;
		free(from->list);
	}
	memset(from, 0, sizeof(*from));
	others_list(l, old);
}

static void links_renumber(struct links *l, const uint32_t *moved)
{
	struct link *x, *end = l->list + l->count;

	for (x = l->list; x < end; x++) {
		x->from = moved[x->from];
		if (x->to != NO_RANGE) /* a target that was inside a code range still is */
			x->to = moved[x->to];
	}
}

void links_resolve(struct work *w, const uint32_t *moved)
{
	struct links *each[] = {&w->calls, &w->tails};
	size_t k, i;

	for (k = 0; k < 2; k++) {
		struct links *l = each[k];

		if (moved)
			links_renumber(l, moved);
		for (i = 0; i < l->other_count; i++) {
			struct link *x = &l->list[l->others[i]];

			if (x->to == NO_RANGE)
				link_resolve(x, range_number(&w->env, x->target), w->ranges.list);
		}
	}
	for (i = 0; moved && i < w->edges.count; i++)
		w->edges.list[i].from = moved[w->edges.list[i].from];
}

void entry_kinds_find(struct work *w)
{
	const struct links *each[] = {&w->calls, &w->tails};
	const struct link *x, *end;
	size_t k;

	if (w->entry_kinds)
		return;
	w->entry_kinds = mem_zero(w->ranges.count, 1);
	for (k = 0; k < 2; k++)
		for (x = each[k]->list, end = x + each[k]->count; x < end; x++)
			if (x->entry)
				w->entry_kinds[x->to] |= x->entry;
}

/* ---- states ------------------------------------------------------------------ */

/*
 * Head of a packed state. The registers that are not all zero follow (bit r of `registers`: register r), then
 * `slot_count` stack slots.
 */
struct packed {
	uint32_t align;
	uint16_t known, registers;
	uint8_t weak, dead, slot_count, frame;
};

size_t state_pack(const struct state *s, uint8_t *out)
{
	static const struct value none;
	struct packed p = {s->align, s->known, 0, s->weak, s->dead, s->slot_count, s->frame};
	size_t at = sizeof(p);
	unsigned r;

	for (r = 0; r < 16; r++)
		if (memcmp(&s->reg[r], &none, sizeof(none))) {
			p.registers |= (uint16_t)(1u << r);
			if (out)
				memcpy(out + at, &s->reg[r], sizeof(none));
			at += sizeof(none);
		}
	if (out) {
		memcpy(out + at, s->slot, s->slot_count * sizeof(s->slot[0]));
		memcpy(out, &p, sizeof(p));
	}
	return at + s->slot_count * sizeof(s->slot[0]);
}

void state_unpack(const uint8_t *packed, struct state *out)
{
	const uint8_t *at = packed + sizeof(struct packed);
	struct packed p;
	unsigned r;

	memcpy(&p, packed, sizeof(p));
	memset(out, 0, offsetof(struct state, slot));
	out->align = p.align;
	out->known = p.known;
	out->weak = p.weak;
	out->dead = p.dead;
	out->slot_count = p.slot_count;
	out->frame = p.frame;
	out->constants = EFFECT_CONSTANT;
	out->lowest = INT32_MIN; /* not part of a packed state */
	for (r = 0; r < 16; r++)
		if (p.registers >> r & 1) {
			memcpy(&out->reg[r], at, sizeof(out->reg[r]));
			at += sizeof(out->reg[r]);
		}
	memcpy(out->slot, at, p.slot_count * sizeof(out->slot[0]));
}

/* ---- edges ------------------------------------------------------------------- */

static uint64_t checksum(uint64_t sum, const void *bytes, size_t size)
{
	const uint8_t *p = bytes;

	while (size--)
		sum = (sum ^ *p++) * 0x100000001b3u; /* FNV-1a */
	return sum;
}

void edges_put(struct edges *l, const struct flow_edge *x, const uint8_t *state)
{
	struct etch_rule rule;

	mem_room(&l->list, &l->room, l->count, sizeof(*l->list));
	state_rule(&x->state, &rule);
	l->list[l->count++] =
		(struct edge){x->target, checksum(checksum(0, &x->target, sizeof(x->target)), &rule, sizeof(rule)), state,
	                  x->from, state_is_entry(&x->state)};
}

size_t edges_from(const struct edges *l, uint64_t addr) { return SEARCH(l->count, i, l->list[i].target < addr); }

static int edge_order(const void *a, const void *b)
{
	const struct edge *x = a, *y = b;

	if (x->target != y->target)
		return x->target < y->target ? -1 : 1;
	return x->from < y->from ? -1 : x->from > y->from;
}

static void edges_drop(struct edges *l, const struct work *w)
{
	size_t i, k;

	for (i = k = 0; i < l->count; i++)
		if (!w->state[l->list[i].from].run)
			l->list[k++] = l->list[i];
	l->count = k;
}

/* Merges the unsorted edges from index `old` on into the sorted ones before it. */
static void edges_merge(struct edges *l, size_t old)
{
	size_t n = l->count - old, at = l->count;
	struct edge *fresh;

	if (!n)
		return;
	fresh = mem_copy(l->list + old, n * sizeof(*fresh));
	sort_by_address(fresh, n, sizeof(*fresh), edge_order);
	while (n) /* from the back: in place */
		if (old && edge_order(&l->list[old - 1], &fresh[n - 1]) > 0)
			l->list[--at] = l->list[--old];
		else
			l->list[--at] = fresh[--n];
	free(fresh);
}

static void edges_append(struct edges *l, struct edges *from)
{
	size_t i;

	for (i = 0; i < from->count; i++) {
		mem_room(&l->list, &l->room, l->count, sizeof(*l->list));
		l->list[l->count++] = from->list[i];
	}
	free(from->list);
	memset(from, 0, sizeof(*from));
}

/* ---- all ------------------------------------------------------------------------- */

void links_replace(struct work *w)
{
	size_t old, i, k;

	free(w->entry_kinds);
	w->entry_kinds = NULL;
	edges_drop(&w->edges, w);
	links_drop(&w->calls, w);
	links_drop(&w->tails, w);
	for (i = 0; i < w->worklist_count; i++) {
		struct range_state *s = &w->state[w->worklist[i]];

		free(s->out_old);
		s->out_old = s->out_new;
		s->out_new = NULL;
	}
	old = w->edges.count;
	for (k = 0; k < w->chunk_count; k++) { /* in order of chunks: deterministic for any number of threads */
		edges_append(&w->edges, &w->chunks[k].edges);
		links_append(&w->calls, &w->chunks[k].calls);
		links_append(&w->tails, &w->chunks[k].tails);
	}
	edges_merge(&w->edges, old);
}
