/* SPDX-License-Identifier: MIT */
/*
 * Finds starts of code with a stack of its own. Such code refers to further such code in chains of hundreds of
 * references, of which each round of the fixpoint would find only one. So a worklist of addresses follows jumps and
 * address references here, without abstract states.
 */
#include "analysis/interproc/own_stack_ranges.h"
#include "analysis/interproc/range_starts.h"

#include "analysis/flow/flow_internal.h"
#include "analysis/interproc/work.h"
#include "support/memory.h"

#include <stdlib.h>
#include <string.h>

/* The worklist. */
struct reach {
	struct work *w;
	struct step_cache *cache;
	uint64_t *todo; /* addresses from which code is still to be followed */
	size_t count, capacity;
};

/* Records that the instruction at an address of section c is being followed. Returns false if it was followed
 * before. */
static bool seen_set(struct reach *r, const struct code_section *c, uint64_t addr)
{
	uint8_t *at = &r->w->frames.own_stack.seen[c - r->w->out->space.list][(addr - c->addr) / 8],
			bit = (uint8_t)(1u << (addr - c->addr) % 8);

	if (*at & bit)
		return false;
	*at |= bit;
	return true;
}

/* Puts an address on the worklist, unless it lies in a code range that cannot be such code. */
static void later(struct reach *r, uint64_t addr)
{
	const struct code_range *p = range_at(&r->w->env, addr);

	if (p && !r->w->env.runtime->may_be(p))
		return;
	mem_reserve(&r->todo, &r->capacity, r->count, sizeof(*r->todo));
	r->todo[r->count++] = addr;
}

/* If code with a stack of its own may begin at `addr`, to which something refers, puts the address on the worklist. If
 * it lies in no code range, it becomes an undiscovered target. */
static void entry_note(struct reach *r, uint64_t addr)
{
	if (!own_stack_begins(&r->w->env, addr))
		return;
	if (!range_at(&r->w->env, addr))
		undiscovered_put(r->w, addr);
	later(r, addr);
}

/* Follows the instructions from an address on, until one does not fall through or was followed before. */
static void path_follow(struct reach *r, uint64_t addr)
{
	const struct code_section *c = space_at(&r->w->out->space, addr);
	const struct flow f = {.in.env = &r->w->env};
	uint64_t end = c ? c->addr + c->size : 0;
	struct step in;

	while (addr < end && seen_set(r, c, addr) &&
	       step_decode(r->cache, c->bytes + (addr - c->addr), end - addr, addr, &in)) {
		if (in.flow == FLOW_NEXT && flow_takes_address(&f, &in))
			entry_note(r, (uint64_t)in.imm);
		if ((in.flow == FLOW_JUMP || in.flow == FLOW_BRANCH) && space_at(&r->w->out->space, (uint64_t)in.imm))
			later(r, (uint64_t)in.imm);
		if (in.flow != FLOW_NEXT && in.flow != FLOW_BRANCH && in.flow != FLOW_CALL && in.flow != FLOW_CALL_IND)
			return;
		addr += in.len;
	}
}

/* Puts the roots on the worklist: starts of code ranges, and addresses of code in data, such as the first word of a
 * closure. */
static void roots_note(struct reach *r)
{
	const struct elf_file *f = r->w->file;
	uint64_t at, word;
	uint32_t i;
	size_t k;

	for (k = 0; k < r->w->ranges.count; k++)
		if (r->w->env.runtime->may_be(&r->w->ranges.list[k]))
			entry_note(r, r->w->ranges.list[k].start);
	for (k = 0; k < r->w->starts.data_count; k++)
		entry_note(r, r->w->starts.data[k]);
	for (i = 1; i < f->section_count && f->eh.e_type == ET_EXEC; i++) {
		const struct elf_section *s = &f->sections[i];

		if (!s->data || s->sh.sh_type != SHT_PROGBITS ||
		    (s->sh.sh_flags & (SHF_ALLOC | SHF_WRITE)) != (SHF_ALLOC | SHF_WRITE))
			continue;
		for (at = (8 - s->sh.sh_addr % 8) % 8; at + 8 <= s->sh.sh_size; at += 8) {
			memcpy(&word, s->data + at, 8);
			if (space_at(&r->w->out->space, word))
				entry_note(r, word);
		}
	}
}

/* Allocates own_stack.seen. */
static void seen_make(struct work *w)
{
	const struct code_space *space = &w->out->space;
	size_t i;

	w->frames.own_stack.seen = mem_zero(space->count, sizeof(*w->frames.own_stack.seen));
	for (i = 0; i < space->count; i++)
		w->frames.own_stack.seen[i] = mem_zero(space->list[i].size / 8 + 1, 1);
}

void own_stack_free(struct work *w)
{
	size_t i;

	for (i = 0; w->frames.own_stack.seen && i < w->out->space.count; i++)
		free(w->frames.own_stack.seen[i]);
	free(w->frames.own_stack.seen);
}

void own_stack_starts(struct work *w)
{
	struct reach r = {.w = w};
	bool first = !w->frames.own_stack.seen;
	size_t i, n = w->starts.undiscovered_count;

	if (!w->env.own_stack || (!first && !n))
		return;
	if (w->unindexed)
		ranges_index(&w->env);
	w->unindexed = false;
	r.cache = step_cache_new();
	if (first) {
		seen_make(w);
		roots_note(&r);
	}
	for (i = 0; i < n; i++)
		if (own_stack_begins(&w->env, w->starts.undiscovered[i]))
			later(&r, w->starts.undiscovered[i]);
	while (r.count)
		path_follow(&r, r.todo[--r.count]);
	free(r.todo);
	step_cache_free(r.cache);
}
