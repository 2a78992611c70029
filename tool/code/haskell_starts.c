/* SPDX-License-Identifier: MIT */
/*
 * Where code of GHC begins: thunks refer to others in a chain that has hundreds of links, of which a round of the
 * analysis finds one. Here no states are followed, only what leads or refers to what.
 */
#include "code/haskell.h"

#include "code/flow_parts.h"
#include "code/work.h"

#include <stdlib.h>
#include <string.h>

struct reach {
	struct work *w;
	struct step_cache *cache;
	uint64_t *todo;     /* addresses */
	size_t count, room;
	bool failed;
};

static bool seen_set(struct reach *r, const struct code_section *c, uint64_t addr)
{
	uint8_t *at = &r->w->haskell.seen[c - r->w->out->space.list][(addr - c->addr) / 8], bit = (uint8_t)(1u << (addr - c->addr) % 8);

	if (*at & bit)
		return false;
	*at |= bit;
	return true;
}

static void later(struct reach *r, uint64_t addr)
{
	const struct piece *p = piece_at(&r->w->env, addr);

	if (p && !haskell_may_be(p))
		return;
	if (room_make(&r->todo, &r->room, r->count, sizeof(*r->todo)))
		r->todo[r->count++] = addr;
	else
		r->failed = true;
}

/* Where such code begins, as what refers to it says. */
static void entry_note(struct reach *r, uint64_t addr)
{
	if (!haskell_begins(&r->w->env, addr))
		return;
	if (!piece_at(&r->w->env, addr) && !stray_put(r->w, addr))
		r->failed = true;
	later(r, addr);
}

/* From an address on, to where it does not go on. */
static void path_follow(struct reach *r, uint64_t addr)
{
	const struct code_section *c = space_at(&r->w->out->space, addr);
	const struct flow f = {.env = &r->w->env};
	uint64_t end = c ? c->addr + c->size : 0;
	struct step in;

	while (addr < end && seen_set(r, c, addr) && step_decode(r->cache, c->bytes + (addr - c->addr), end - addr, addr, &in)) {
		if (in.flow == FLOW_NEXT && flow_takes_address(&f, &in))
			entry_note(r, (uint64_t)in.imm);
		if ((in.flow == FLOW_JUMP || in.flow == FLOW_BRANCH) && space_at(&r->w->out->space, (uint64_t)in.imm))
			later(r, (uint64_t)in.imm);
		if (in.flow != FLOW_NEXT && in.flow != FLOW_BRANCH && in.flow != FLOW_CALL && in.flow != FLOW_CALL_IND)
			return;
		addr += in.len;
	}
}

/* What is known before: symbols, and what data refers to: the word that a closure begins with. */
static void roots_note(struct reach *r)
{
	const struct elf_file *f = r->w->file;
	uint64_t at, word;
	uint32_t i;
	size_t k;

	for (k = 0; k < r->w->pieces.count; k++)
		if (haskell_may_be(&r->w->pieces.list[k]))
			entry_note(r, r->w->pieces.list[k].start);
	for (k = 0; k < r->w->data_count; k++)
		entry_note(r, r->w->data[k]);
	for (i = 1; i < f->section_count && f->eh.e_type == ET_EXEC; i++) {
		const struct elf_section *s = &f->sections[i];

		if (!s->data || s->sh.sh_type != SHT_PROGBITS || (s->sh.sh_flags & (SHF_ALLOC | SHF_WRITE)) != (SHF_ALLOC | SHF_WRITE))
			continue;
		for (at = (8 - s->sh.sh_addr % 8) % 8; at + 8 <= s->sh.sh_size; at += 8) {
			memcpy(&word, s->data + at, 8);
			if (space_at(&r->w->out->space, word))
				entry_note(r, word);
		}
	}
}

/* A bit for each byte of the code. */
static bool seen_make(struct work *w)
{
	const struct code_space *space = &w->out->space;
	size_t i;

	w->haskell.seen = calloc(space->count + 1, sizeof(*w->haskell.seen));
	for (i = 0; w->haskell.seen && i < space->count; i++) {
		w->haskell.seen[i] = calloc(space->list[i].size / 8 + 1, 1);
		if (!w->haskell.seen[i])
			return false;
	}
	return w->haskell.seen != NULL;
}

void haskell_free(struct work *w)
{
	size_t i;

	for (i = 0; w->haskell.seen && i < w->out->space.count; i++)
		free(w->haskell.seen[i]);
	free(w->haskell.seen);
}

int haskell_starts(struct work *w, struct error *e)
{
	struct reach r = {.w = w};
	bool first = !w->haskell.seen;
	size_t i, n = w->stray_count;

	if (!w->env.haskell || (!first && !n))
		return 0;
	if (w->unindexed && !pieces_index(&w->env))
		return error_set(e, "out of memory");
	w->unindexed = false;
	r.cache = step_cache_new();
	r.failed = first && !seen_make(w);
	if (first && !r.failed)
		roots_note(&r);
	for (i = 0; i < n && !r.failed; i++)
		if (haskell_begins(&w->env, w->strays[i]))
			later(&r, w->strays[i]);
	while (r.count && !r.failed)
		path_follow(&r, r.todo[--r.count]);
	free(r.todo);
	step_cache_free(r.cache);
	return r.failed ? error_set(e, "out of memory") : 0;
}
