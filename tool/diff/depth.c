/* SPDX-License-Identifier: MIT */
/*
 * Tracks rsp in a linear pass over a function. Where an unwind row gives the distance from the CFA, it comes from the
 * row, elsewhere from the instructions.
 */
#include "diff/depth.h"
#include "shared/search.h"

#include "arch/x86/rule_text.h"
#include "arch/x86/fast_decoder.h"
#include "support/memory.h"

#include <stdlib.h>
#include <string.h>

#define DEPTH_MOST (1u << 30) /* in bytes; a larger distance cannot be that of a frame */

/* The state of the pass. `depth` is valid if `known`, and `frame` if `framed`. */
struct at {
	int64_t depth, frame; /* distance from the CFA to rsp, and to rbp */
	bool known, framed;
	int64_t most, body; /* most: greatest value of depth so far; body: its value after the prologue */
	bool settled;       /* the prologue has ended */
	uint8_t flags;
};

void depth_open(struct depth_finder *d, const struct image *im)
{
	const struct code_space *space = &im->subject.frames.space;
	size_t i;

	*d = (struct depth_finder){.cache = step_cache_new(),
	                           .base = mem_zero((size_t)im->file.section_count + 1, sizeof(*d->base))};
	for (i = 0; i < space->count && elf_is_object(&im->file); i++)
		d->base[space->list[i].section] = space->list[i].addr;
}

void depth_close(struct depth_finder *d)
{
	step_cache_free(d->cache);
	free(d->base);
}

static void rsp_moves(struct at *a, int64_t by)
{
	a->depth += by;
	if (a->depth < 0 || a->depth > DEPTH_MOST)
		a->known = false;
	if (a->known && a->depth > a->most)
		a->most = a->depth;
}

/* Applies rsp = from + disp. */
static void rsp_set(struct at *a, unsigned from, int64_t disp)
{
	if (insn_is_stack_register(from)) {
		rsp_moves(a, -disp);
	} else if (from == ETCH_REG_RBP && a->framed) {
		a->depth = a->frame - disp;
		a->known = true;
		rsp_moves(a, 0);
	} else {
		a->known = false;
	}
}

/* Takes over the distances that a row gives. If the CFA of the row is relative to rbp, it gives none for rsp. */
static void row_take(struct at *a, const struct etch_rule *r)
{
	if (r->kind != ETCH_RULE_CALL)
		return;
	if (r->cfa == ETCH_REG_RSP) {
		a->depth = r->cfa_off;
		a->known = true;
		rsp_moves(a, 0);
	} else if (r->cfa == ETCH_REG_RBP) {
		a->frame = r->cfa_off;
		a->framed = true;
	}
}

/* Applies the effect of an instruction on rsp. */
static void step_take(struct at *a, const struct step *s)
{
	bool sp = insn_is_stack_register(s->a);

	switch (s->op) {
	case STEP_PUSH2:
	case STEP_PUSH: rsp_moves(a, s->imm); break;
	case STEP_POP:
		rsp_moves(a, -s->imm);
		if (sp)
			a->known = false;
		break;
	case STEP_POP2: rsp_moves(a, -s->imm); break;
	case STEP_MOVE:
	case STEP_ADDRESS:
		if (sp)
			rsp_set(a, s->b, s->op == STEP_MOVE ? 0 : s->disp);
		break;
	case STEP_ADD:
		if (sp)
			rsp_moves(a, -s->imm);
		break;
	case STEP_ALIGN:
		if (sp)
			a->flags |= FRAME_REALIGNED;
		break;
	case STEP_SUBREG:
		if (sp)
			a->flags |= FRAME_DYNAMIC;
		break;
	case STEP_ENTER: rsp_moves(a, 8 + s->imm); break;
	case STEP_LEAVE:
		a->depth = a->frame - 8;
		a->known = a->framed;
		break;
	default:
		if (sp || (s->writes & 1u << ETCH_REG_RSP))
			a->known = false;
	}
}

/*
 * Code after a jump or return is reached from elsewhere. Its depth is assumed to be the depth after the prologue,
 * unless a row gives it.
 */
static void flow_take(struct at *a, const struct step *s)
{
	if (s->flow != FLOW_NEXT && !a->settled) {
		a->settled = true;
		a->body = a->depth;
	}
	if (s->flow == FLOW_JUMP || s->flow == FLOW_JUMP_IND || s->flow == FLOW_RETURN || s->flow == FLOW_STOP)
		a->depth = a->body;
}

static uint64_t rule_code(uint64_t h, const struct etch_rule *r)
{
	uint64_t v[2];

	_Static_assert(sizeof(*r) == sizeof(v), "a rule is 16 bytes");
	memcpy(v, r, sizeof(v));
	return mix(mix(h, v[0]), v[1]);
}

/* Returns the index of the first row at or after an address. */
static size_t row_find(const struct row_list *l, uint64_t addr) { return SEARCH(l->count, i, l->rows[i].addr < addr); }

/*
 * Counts and hashes the rows of a function. In the hash, each row has the index of its instruction instead of its
 * address. Adjacent rows that differ only in their source count as one.
 */
static void rows_take(struct function *fn, const struct row_list *l, const struct body *b, uint64_t base)
{
	static const struct etch_rule none;
	size_t i = row_find(l, base + fn->start);
	const struct etch_rule *before = i ? &l->rows[i - 1].rule : &none;
	uint64_t h = 0;

	if (i == l->count || l->rows[i].addr != base + fn->start) {
		h = rule_code(h, before);
		fn->rows = before->kind != ETCH_RULE_UNDEF;
	}
	for (; i < l->count && l->rows[i].addr < base + fn->end; i++) {
		size_t token = body_token(b, l->rows[i].addr - base);

		if (token >= b->count || (token && !memcmp(&l->rows[i].rule, before, sizeof(*before))))
			continue;
		before = &l->rows[i].rule;
		h = rule_code(mix(h, token), before);
		fn->rows++;
	}
	fn->row_code = h;
}

void depth_find(struct depth_finder *d, struct image *im, uint32_t func, const struct body *b)
{
	struct function *fn = &im->funcs[func];
	const struct row_list *l = &im->subject.frames.rows;
	uint64_t base = d->base[fn->section];
	struct at a = {.depth = 8, .known = true, .most = 8};
	size_t row = row_find(l, base + fn->start), i;
	struct step s;

	rows_take(fn, l, b, base);
	if (row < l->count && l->rows[row].addr == base + fn->start)
		row++;
	if (row && l->rows[row - 1].rule.cfa != ETCH_REG_RSP)
		/* the function begins in the frame of another function, for example because it is a cold part */
		a.known = false;
	if (row)
		row_take(&a, &l->rows[row - 1].rule);
	for (i = 0; i < b->insn_count; i++) {
		const struct normal *n = &b->insns[i];

		for (; row < l->count && l->rows[row].addr <= base + n->addr; row++)
			row_take(&a, &l->rows[row].rule);
		if (!step_decode(d->cache, fn->bytes + (n->addr - fn->start), n->len, n->addr, &s))
			continue;
		step_take(&a, &s);
		flow_take(&a, &s);
	}
	fn->depth = a.known || a.most > 8 ? (uint32_t)a.most : 0;
	fn->flags = a.flags;
}
