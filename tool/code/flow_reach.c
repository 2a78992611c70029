/* SPDX-License-Identifier: MIT */
/* The first pass: what is reached, decoded, and where paths meet. */
#include "code/flow_parts.h"
#include "code/vector.h"

#include <stdlib.h>

static bool steps_grow(struct flow *f)
{
	size_t want = f->step_room ? 2 * f->step_room : 1024;
	void *a = realloc(f->steps, want * sizeof(*f->steps));
	void *b, *c, *d;

	if (a)
		f->steps = a;
	b = realloc(f->step_at, want * sizeof(*f->step_at));
	if (b)
		f->step_at = b;
	c = realloc(f->leader, want * sizeof(*f->leader));
	if (c)
		f->leader = c;
	d = realloc(f->seen, want);
	if (d)
		f->seen = d;
	if (!a || !b || !c || !d)
		return false;
	f->step_room = want;
	return true;
}

static bool states_grow(struct flow *f)
{
	size_t want = f->state_room ? 2 * f->state_room : 128;
	void *a = realloc(f->states, want * sizeof(*f->states));
	void *b, *c;

	if (a)
		f->states = a;
	b = realloc(f->state_live, want);
	if (b)
		f->state_live = b;
	c = realloc(f->state_step, want * sizeof(*f->state_step));
	if (c)
		f->state_step = c;
	if (!a || !b || !c)
		return false;
	f->state_room = want;
	return true;
}

/* The relocation at an address, or null: in order of address, mostly, so that it is near to the
 * one that was asked for last. */
static const struct flow_reloc *reloc_at(struct flow *f, uint64_t addr)
{
	const struct flow_reloc *list = f->env->relocs;
	size_t i = f->reloc_near, n = f->env->reloc_count, lo = 0, hi = n, step;

	if (i + 1 < n && list[i + 1].addr == addr)
		return &list[f->reloc_near = i + 1];
	if (i < n && list[i].addr < addr) {
		for (lo = i, step = 1; lo + step < n && list[lo + step].addr < addr; step *= 2)
			lo += step;
		hi = lo + step < n ? lo + step + 1 : n;
	} else if (i < n && list[i].addr == addr) {
		return &list[i];
	} else {
		for (hi = i < n ? i : n, step = 1; hi > step && list[hi - step].addr >= addr; step *= 2)
			hi -= step;
		lo = hi > step ? hi - step : 0;
	}
	while (lo < hi) {
		size_t mid = lo + (hi - lo) / 2;

		if (list[mid].addr < addr)
			lo = mid + 1;
		else
			hi = mid;
	}
	f->reloc_near = lo;
	return lo < n && list[lo].addr == addr ? &list[lo] : NULL;
}

/* In an object file, a direct target is what the relocation says. */
static void step_relocate(struct flow *f, struct step *s, uint64_t addr)
{
	const struct flow_reloc *r;
	uint64_t field = addr + s->len - 4u;

	if (s->flow == FLOW_JUMP || s->flow == FLOW_BRANCH || s->flow == FLOW_CALL) {
		if (s->len <= sizeof(uint32_t))
			return; /* it goes by a byte */
		r = reloc_at(f, field);
		if (r)
			s->imm = (int64_t)r->target;
	} else if ((s->flow == FLOW_JUMP_IND || s->flow == FLOW_CALL_IND) && s->deref && s->b == INSN_PC_REG) {
		r = reloc_at(f, field);
		s->imm = r && (r->target & FLOW_EXTERN) ? (int64_t)r->target : 0;
	}
}

/* What depends on where a direct call or jump leads. */
static void step_settle(struct flow *f, struct step *s, uint64_t addr)
{
	if (f->env->reloc_count)
		step_relocate(f, s, addr);
	/* Behind what the entry point calls. Where nothing says where it ends, other code may be behind that. */
	if (s->op == STEP_HALT && f->piece->outermost && f->piece->open) {
		s->flow = FLOW_STOP;
		s->stirs |= STIRS_WAY;
	}
	/* A call of what follows it is how position-independent code once asked where it is. (Or the function that
	 * it calls lies there, if nothing says that it does not.) */
	if (s->flow == FLOW_CALL && (uint64_t)s->imm == addr + s->len && addr + s->len < f->piece->end &&
	    (!f->piece->open || flow_asks_where(f, addr + s->len - f->piece->start))) {
		s->flow = FLOW_NEXT;
		s->op = STEP_PUSH;
		s->a = INSN_NO_REG;
		s->imm = 8;
		s->touches |= 1u << ETCH_REG_RSP;
		s->stirs |= STIRS_MORE;
	}
}

uint32_t flow_step_new(struct flow *f, uint64_t off)
{
	uint64_t addr = f->piece->start + off;
	size_t n = f->step_count;
	struct step *s;

	if (n == f->step_room && !steps_grow(f)) {
		f->failed = true;
		return NO_STEP;
	}
	s = &f->steps[n];
	if (!step_decode_in(f->cache, f->piece->bytes + off, f->piece->end - addr, f->readable - off, addr, s))
		return NO_STEP;
	if (s->flow != FLOW_NEXT || s->op == STEP_HALT)
		step_settle(f, s, addr);
	f->asks |= s->stirs;
	f->step_at[n] = (uint32_t)off;
	f->leader[n] = 0;
	f->seen[n] = 0;
	f->step_count = n + 1;
	f->fresh++;
	f->at[off] = (uint32_t)n + 1;
	f->starts[off / 64] |= (uint64_t)1 << off % 64;
	return (uint32_t)n;
}

/* How far back the block of an instruction is looked for. */
#define BLOCK_MOST 4096u

/* A state has gone past a place where now paths meet: the block that it came from
 * is walked again. Where that is not found, all are. */
static void walked_again(struct flow *f, uint64_t off)
{
	uint64_t from, at, least = off > BLOCK_MOST ? off - BLOCK_MOST : 0;

	for (from = off; from-- > least;) {
		uint32_t i = f->at[from] ? f->at[from] - 1 : NO_STEP;

		if (i == NO_STEP || !f->leader[i] || !(f->state_live[f->leader[i] - 1] & LIVE))
			continue;
		for (at = from; at < off && f->at[at]; at += f->steps[f->at[at] - 1].len)
			;
		if (at == off) {
			flow_queue(f, f->leader[i] - 1);
			return;
		}
	}
	f->dirty = true;
}

/* Paths meet here. Returns the number of the step, or NO_STEP. */
uint32_t flow_leader(struct flow *f, uint64_t off)
{
	uint32_t i = flow_step(f, off);

	if (i == NO_STEP || f->leader[i])
		return i;
	if (f->state_count == f->state_room && !states_grow(f)) {
		f->failed = true;
		return NO_STEP;
	}
	if (f->seen[i] & FLOW_WALKED)
		walked_again(f, off);
	f->state_live[f->state_count] = 0;
	f->state_step[f->state_count] = i;
	f->leader[i] = (uint32_t)++f->state_count;
	return i;
}

static void todo_add(struct flow *f, uint64_t off)
{
	if (!room_make(&f->todo, &f->todo_room, f->todo_count, sizeof(*f->todo)))
		f->failed = true;
	else
		f->todo[f->todo_count++] = (uint32_t)off;
}

/* Control may go to an address: paths meet there, if it is in the piece. */
static void scan_later(struct flow *f, uint64_t addr)
{
	if (!flow_inside(f, addr))
		return;
	flow_leader(f, addr - f->piece->start);
	todo_add(f, addr - f->piece->start);
}

/* An exception, or a fault, goes on elsewhere. */
static void scan_throws(struct flow *f, uint64_t addr)
{
	uint64_t pad = f->pad_count ? flow_pad_of(f, addr) : 0;
	const struct fixup *fixup = f->fixup_count ? flow_fixup_of(f, addr) : NULL;

	if (pad)
		scan_later(f, pad);
	if (fixup)
		scan_later(f, fixup->to);
}

/* Where an instruction leads that does not just go on. False: not to the next one. */
static bool scan_leaves(struct flow *f, const struct step *in, uint64_t behind)
{
	switch (in->flow) {
	case FLOW_JUMP:
	case FLOW_BRANCH:
		scan_later(f, (uint64_t)in->imm);
		if (in->flow == FLOW_BRANCH && !flow_inside(f, (uint64_t)in->imm))
			f->asks |= STIRS_ASKS; /* a part of the function may ask: see walk_outside() */
		return in->flow == FLOW_BRANCH;
	case FLOW_CALL:
		if ((uint64_t)in->imm != f->piece->start)
			scan_later(f, (uint64_t)in->imm); /* a function within */
		/* fall through */
	case FLOW_CALL_IND:
		return flow_comes_back(f, in) && !(f->piece->open && flow_is_end(f, in, behind));
	default:
		return in->flow == FLOW_NEXT;
	}
}

/*
 * Decodes from an offset on, as flow_step_new() does one instruction, to the first that does not just go on, or
 * with `one` the first: true, and where that is. False: up to what has been decoded, or cannot be, or the end.
 */
static bool run_decode(struct flow *f, uint64_t *from, uint64_t size, bool one)
{
	const uint8_t *bytes = f->piece->bytes;
	uint64_t start = f->piece->start, off = *from, *starts = f->starts;
	size_t readable = f->readable, n = f->step_count;
	uint32_t *at = f->at;
	bool on = true;

	while (off < size && !at[off]) {
		struct step *s;

		if (n == f->step_room && !steps_grow(f)) {
			f->failed = true;
			break;
		}
		s = &f->steps[n];
		if (!step_decode_in(f->cache, bytes + off, size - off, readable - off, start + off, s))
			break;
		f->step_at[n] = (uint32_t)off;
		f->leader[n] = 0;
		f->seen[n] = FLOW_SCANNED;
		at[off] = (uint32_t)++n;
		starts[off / 64] |= (uint64_t)1 << off % 64;
		if (s->flow != FLOW_NEXT || s->op == STEP_HALT)
			step_settle(f, s, start + off);
		f->asks |= s->stirs;
		on = !one && s->flow == FLOW_NEXT;
		if (!on)
			break;
		off += s->len;
	}
	f->fresh += n - f->step_count;
	f->step_count = n;
	*from = off;
	return !on;
}

/* From an offset on, to where a path ends, or falls into what another has reached. */
static void scan_from(struct flow *f, uint64_t off)
{
	bool throws = f->pad_count || f->fixup_count;
	uint64_t size = f->piece->end - f->piece->start;

	while (off < size) {
		bool fresh = !f->at[off] && run_decode(f, &off, size, throws);
		unsigned len;
		uint32_t i;

		if (off >= size || !f->at[off] || f->failed)
			return;
		i = f->at[off] - 1;
		if (!fresh && (f->seen[i] & FLOW_SCANNED)) {
			flow_leader(f, off);
			return;
		}
		f->seen[i] |= FLOW_SCANNED;
		len = f->steps[i].len;
		if (throws)
			scan_throws(f, f->piece->start + off);
		if (f->steps[i].flow != FLOW_NEXT) {
			struct step in = f->steps[i]; /* the list may move */

			if (!scan_leaves(f, &in, off + len))
				return;
		}
		off += len;
	}
}

void flow_reach(struct flow *f, uint64_t off)
{
	todo_add(f, off);
	while (f->todo_count && !f->failed)
		scan_from(f, f->todo[--f->todo_count]);
}
