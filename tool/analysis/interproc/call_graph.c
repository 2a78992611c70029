/* SPDX-License-Identifier: MIT */
/*
 * The call graph between the code ranges of a file, and the edges that carry abstract states between them. Both are
 * kept from round to round; links_replace() exchanges what the code ranges of the last round contributed.
 */
#include "support/sort.h"
#include "analysis/interproc/work.h"
#include "support/memory.h"
#include "shared/search.h"

#include <string.h>

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

/* The size of a packed state, of which the head is given. */
static size_t packed_size(const struct packed *p)
{
	return sizeof(*p) + (size_t)__builtin_popcount(p->registers) * sizeof(struct value) +
	       p->slot_count * sizeof(struct slot);
}

bool states_equal(const uint8_t *a, const uint8_t *b)
{
	struct packed p, q;

	memcpy(&p, a, sizeof(p));
	memcpy(&q, b, sizeof(q));
	return !memcmp(&p, &q, sizeof(p)) && !memcmp(a + sizeof(p), b + sizeof(q), packed_size(&p) - sizeof(p));
}

uint64_t states_hash(const uint8_t *packed, uint64_t seed)
{
	struct packed p;
	size_t size, i;
	uint32_t word;

	memcpy(&p, packed, sizeof(p));
	size = packed_size(&p);
	for (i = 0; i + sizeof(word) <= size; i += sizeof(word)) {
		memcpy(&word, packed + i, sizeof(word));
		seed = (seed ^ word) * 0x9e3779b97f4a7c15u;
		seed ^= seed >> 29;
	}
	return seed;
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

void edges_renumber(struct work *w, const uint32_t *moved)
{
	size_t i;

	for (i = 0; i < w->edges.count; i++)
		w->edges.list[i].from = moved[w->edges.list[i].from];
}

/* Makes room for the links of all chunks at once. */
static void chunks_reserve(struct work *w)
{
	size_t calls = 0, tails = 0, edges = w->edges.count, k;

	for (k = 0; k < w->chunk_count; k++) {
		calls += w->chunks[k].calls.count;
		tails += w->chunks[k].tails.count;
		edges += w->chunks[k].edges.count;
	}
	links_reserve(&w->calls, calls);
	links_reserve(&w->tails, tails);
	if (edges > w->edges.room) {
		w->edges.room = edges;
		w->edges.list = mem_resize(w->edges.list, edges, sizeof(*w->edges.list));
	}
}

/* ---- all ------------------------------------------------------------------------- */

void links_replace(struct work *w)
{
	size_t old, i, k;

	edges_drop(&w->edges, w);
	links_drop(w, &w->calls);
	links_drop(w, &w->tails);
	for (i = 0; i < w->worklist_count; i++) {
		struct range_state *s = &w->state[w->worklist[i]];

		free(s->out_old);
		s->out_old = s->out_new;
		s->out_new = NULL;
		touched_add(w, s);
	}
	chunks_reserve(w);
	old = w->edges.count;
	for (k = 0; k < w->chunk_count; k++) { /* in order of chunks: deterministic for any number of threads */
		edges_append(&w->edges, &w->chunks[k].edges);
		links_append(w, &w->calls, &w->chunks[k].calls);
		links_append(w, &w->tails, &w->chunks[k].tails);
	}
	edges_merge(&w->edges, old);
}
