/* SPDX-License-Identifier: MIT */
/*
 * Finds from which functions paths of --uaccess can lead to which others, and which of them have to be followed
 * (access_reach.h). In case of doubt, one function is assumed to lead to the other, and code is assumed to matter.
 */
#include "objtool/access_reach.h"
#include "arch/x86/opcodes.h"
#include "shared/search.h"
#include "support/memory.h"

#include <stdlib.h>
#include <string.h>

/* A unit while it is read: [at, end) of a part. */
struct unit {
	uint32_t number;
	const struct part *part;
	uint64_t at, end;
	uint64_t after;    /* end of its last instruction that is in map.stops, apart from int3 */
	uint64_t furthest; /* the highest target of its own jumps */
	bool falls;        /* control may continue after that instruction */
};

static uint32_t unit_at(const struct access_reach *r, uint64_t at)
{
	size_t k = SEARCH(r->count, i, r->starts[i] <= at);

	return (uint32_t)(k ? k - 1 : 0);
}

static void units_make(struct access_reach *r)
{
	const struct code_map *m = r->map;
	size_t i, k = 0;

	r->starts = mem_alloc(m->space.count + m->functions.count + 1, sizeof(*r->starts));
	for (i = 0; i < m->space.count; i++) {
		const struct code_section *c = &m->space.list[i];

		r->starts[r->count++] = c->addr;
		for (; k < m->functions.count && m->functions.list[k]->section <= c->section; k++) {
			const struct elf_symbol *y = m->functions.list[k];

			if (y->section == c->section && y->value < c->size && c->addr + y->value > r->starts[r->count - 1])
				r->starts[r->count++] = c->addr + y->value;
		}
	}
	r->tails = mem_zero(r->count + 1, sizeof(*r->tails));
	r->matters = mem_zero(r->count + 1, sizeof(*r->matters));
	r->safe = mem_zero(r->count + 1, sizeof(*r->safe));
}

static bool is_inside(const struct code_map *m, uint64_t at)
{
	return at >= m->space.first && at - m->space.first < m->space.span;
}

/* Records that a unit leads to an address. */
static void edge_add(struct access_reach *r, uint32_t from, uint64_t to)
{
	if (!is_inside(r->map, to))
		return;
	/*
	 * A target inside an instruction means that control runs through other instructions than those that have been read.
	 */
	if (!bit_has(r->map->begins, to - r->map->space.first))
		r->matters[from] = true;
	mem_reserve(&r->edges, &r->edge_capacity, r->edge_count, sizeof(*r->edges));
	r->edges[r->edge_count++] = (struct reach_edge){from, to};
}

/* True if paths follow the jump to its target. They do not if the jump counts as a return or as a tail call. */
static bool is_followed(const struct access_reach *r, uint64_t at, const struct step *s, const struct target *t)
{
	size_t k;

	if (t->name)
		return strstr(t->name, ".cold"); /* the target may be a part of the function whose paths are followed */
	return !t->label ||
	       !((s->flow == FLOW_JUMP && !strcmp(linux_thunk_name(r->map->release, t->label), RETURN_THUNK)) ||
	         function_at(r->map, at, &k));
}

static void jump_read(struct access_reach *r, struct unit *u, uint64_t at, const struct step *s)
{
	uint64_t to = (uint64_t)s->imm;

	if (s->len > sizeof(uint32_t)) { /* a shorter instruction has an 8-bit displacement, which has no relocation */
		struct target t = target_of(r->map, u->part, at, s);

		to = is_followed(r, at, s, &t) ? t.at : 0;
	}
	if (to < u->at || to >= u->end) {
		edge_add(r, u->number, to);
		return;
	}
	u->furthest = to > u->furthest ? to : u->furthest;
	if (!bit_has(r->map->begins, to - r->map->space.first))
		r->matters[u->number] = true;
}

static void stop_read(struct access_reach *r, struct unit *u, uint64_t at)
{
	const struct code_section *c = u->part->code;
	const uint8_t *bytes = c->bytes + (at - c->addr);
	struct step s;

	if (!step_decode(r->map->cache, bytes, c->addr + c->size - at, at, &s)) {
		r->matters[u->number] = true;
		return;
	}
	if (code_access_effect(bytes, s.len))
		r->matters[u->number] = true;
	if (s.flow == FLOW_JUMP || s.flow == FLOW_BRANCH)
		jump_read(r, u, at, &s);
	if (insn_is_int3(bytes, s.len))
		return;
	u->after = at + s.len;
	u->falls = s.flow != FLOW_JUMP && s.flow != FLOW_JUMP_IND && s.flow != FLOW_RETURN;
}

/* True if there is only padding from an address of a unit to the unit's end. */
static bool is_padding(const struct access_reach *r, const struct unit *u, uint64_t at)
{
	const uint8_t *bytes = u->part->code->bytes + (at - u->part->code->addr);
	struct step s;

	for (; at < u->end; at += s.len, bytes += s.len)
		if (!step_decode(r->map->cache, bytes, u->end - at, at, &s) || !s.padding)
			return false;
	return true;
}

/* Reads those instructions of a unit that do more than continue with the next one. */
static void unit_read(struct access_reach *r, struct unit *u)
{
	const struct code_map *m = r->map;
	uint64_t at = u->at - m->space.first, end = u->end - m->space.first, i;

	u->after = u->at;
	u->falls = true;
	u->furthest = 0;
	for (i = at / 64; i <= (end - 1) / 64; i++) {
		uint64_t bits = m->stops[i];

		for (bits = i == at / 64 ? bits >> at % 64 << at % 64 : bits; bits; bits &= bits - 1) {
			uint64_t off = 64 * i + (uint64_t)__builtin_ctzll(bits);

			if (off < end)
				stop_read(r, u, m->space.first + off);
		}
	}
	r->tails[u->number] = u->after;
	if (u->falls || u->furthest >= u->after || !is_padding(r, u, u->after))
		edge_add(r, u->number, u->end);
}

static void units_read(struct access_reach *r)
{
	uint32_t i;

	for (i = 0; i < r->count; i++) {
		const struct part *p = part_at(r->map, r->starts[i]);
		uint64_t end = p->code->addr + p->code->size;
		struct unit u = {.number = i, .part = p, .at = r->starts[i], .end = end};

		if (i + 1 < r->count && r->starts[i + 1] < end)
			u.end = r->starts[i + 1];
		unit_read(r, &u);
	}
}

static void notes_read(struct access_reach *r)
{
	const struct notes *n = &r->map->notes;
	size_t i;

	for (i = 0; i < n->count; i++) {
		const struct note *x = &n->list[i];
		uint32_t here = unit_at(r, x->at);

		if (x->kind == NOTE_BRANCH || x->kind == NOTE_EDGE || x->kind == NOTE_RESUME)
			edge_add(r, here, x->to);
		if (x->kind == NOTE_RESUME) /* the code before the place leads there, too */
			edge_add(r, unit_at(r, x->at - 1), x->to);
		if (x->kind == NOTE_PUSH)
			r->matters[here] = true;
	}
	for (i = 0; i < n->replacement_count; i++)
		edge_add(r, unit_at(r, n->replacements[i].at), n->replacements[i].from);
}

/*
 * Marks every unit to which a marked unit leads, directly or through others; if `backward`, every unit that leads to a
 * marked one.
 */
static void marks_spread(const struct access_reach *r, bool *marks, bool backward)
{
	bool more = true;
	size_t i;

	while (more) {
		more = false;
		for (i = 0; i < r->edge_count; i++) {
			const struct reach_edge *x = &r->edges[backward ? r->edge_count - 1 - i : i];
			uint32_t from = backward ? (uint32_t)x->to : x->from, to = backward ? x->from : (uint32_t)x->to;

			more |= marks[from] && !marks[to];
			marks[to] |= marks[from];
		}
	}
}

void access_reach_make(const struct code_map *map, struct access_reach *out)
{
	size_t i, count;

	memset(out, 0, sizeof(*out));
	out->map = map;
	units_make(out);
	units_read(out);
	notes_read(out);
	for (i = 0, count = out->edge_count; i < count; i++) {
		struct reach_edge *x = &out->edges[i];
		uint64_t at = x->to;
		uint32_t to = unit_at(out, at);

		x->to = to;
		if (at >= out->tails[to] && to + 1 < out->count)
			edge_add(out, to, out->starts[to + 1]);
	}
	for (; i < out->edge_count; i++)
		out->edges[i].to = unit_at(out, out->edges[i].to);
	for (i = 0; i < map->functions.count; i++) {
		const struct elf_symbol *y = map->functions.list[i];
		const struct code_section *c = space_of(&map->space, y->section);

		if (c && linux_access_safe(map->release, y->name))
			out->safe[unit_at(out, c->addr + y->value)] = true;
	}
	marks_spread(out, out->safe, false);
	for (i = 0; i < out->count; i++)
		out->matters[i] |= out->safe[i];
	marks_spread(out, out->matters, true);
}

void access_reach_free(struct access_reach *r)
{
	free(r->starts);
	free(r->tails);
	free(r->matters);
	free(r->safe);
	free(r->edges);
	memset(r, 0, sizeof(*r));
}

bool access_matters(const struct access_reach *r, uint64_t at) { return r->matters[unit_at(r, at)]; }
