/* SPDX-License-Identifier: MIT */
#include "code/detail.h"

#include "code/flow_parts.h"
#include "code/vector.h"

#include <stdlib.h>
#include <string.h>

/* Bytes below rsp that a signal handler leaves alone (psABI 3.2.2). */
#define RED_ZONE 128

struct taker {
	struct detail *detail;
	struct flow *flow;
	bool failed;
};

/* What an earlier run gave of [start, end). */
static void drop(struct detail *d, uint64_t start, uint64_t end)
{
	size_t i, k;

	for (i = k = 0; i < d->insn_count; i++)
		if (d->insns[i].addr < start || d->insns[i].addr >= end)
			d->insns[k++] = d->insns[i];
	d->insn_count = k;
	for (i = k = 0; i < d->jump_count; i++)
		if (d->jumps[i].addr < start || d->jumps[i].addr >= end)
			d->jumps[k++] = d->jumps[i];
	d->jump_count = k;
	for (i = k = 0; i < d->target_count; i++)
		if (d->targets[i].addr < start || d->targets[i].addr >= end)
			d->targets[k++] = d->targets[i];
	d->target_count = k;
	for (i = k = 0; i < d->pad_count; i++)
		if (d->pads[i].start < start || d->pads[i].start >= end)
			d->pads[k++] = d->pads[i];
	d->pad_count = k;
}

/* Of several slots with one value the highest: the others are copies, or of the past. */
static const struct slot *slot_of(const struct state *s, unsigned r)
{
	const struct slot *best = NULL;
	unsigned i;

	for (i = 0; i < s->slot_count; i++) {
		const struct slot *x = &s->slot[i];

		if (x->value.kind == VALUE_ENTRY && x->value.reg == r && (!best || x->at > best->at))
			best = x;
	}
	return best;
}

/* Does a slot lie where the function's own stack is now? Behind a pop it still holds the
 * value, but nobody would look there. */
static bool is_on_stack(const struct state *s, const struct slot *x, bool in_register)
{
	struct value sp = s->reg[ETCH_REG_RSP];

	if ((sp.kind == VALUE_ALIGNED) != x->aligned || (sp.kind != VALUE_CFA && sp.kind != VALUE_ALIGNED))
		return true;
	return x->at >= sp.off - (in_register ? 0 : RED_ZONE);
}

static void saved_find(const struct state *s, unsigned r, struct detail_insn *out)
{
	bool same = s->reg[r].kind == VALUE_ENTRY && s->reg[r].reg == r;
	const struct slot *x = slot_of(s, r);
	unsigned i;

	if (x && is_on_stack(s, x, same)) {
		unsigned base = s->reg[ETCH_REG_RBP].kind == VALUE_ALIGNED ? ETCH_REG_RBP : ETCH_REG_RSP;

		if (!x->aligned) {
			out->where[r] = WHERE_CFA;
			out->off[r] = x->at;
			return;
		}
		if (s->reg[base].kind == VALUE_ALIGNED) {
			out->where[r] = base == ETCH_REG_RBP ? WHERE_RBP : WHERE_RSP;
			out->off[r] = x->at - s->reg[base].off;
			return;
		}
	}
	if (same) {
		out->where[r] = WHERE_SAME;
		return;
	}
	for (i = 0; i < 16; i++)
		if (s->reg[i].kind == VALUE_ENTRY && s->reg[i].reg == r) {
			out->where[r] = WHERE_REGISTER;
			out->off[r] = (int32_t)i;
			return;
		}
}

static void insn_take(void *ctx, uint64_t addr, unsigned len, const struct state *before, bool same)
{
	struct taker *t = ctx;
	struct detail *d = t->detail;
	const struct flow *f = t->flow;
	const struct step *in = &f->steps[f->at[addr - f->piece->start] - 1];
	struct detail_insn *x;
	unsigned r;

	(void)len;
	(void)same;
	if (addr < d->from || addr >= d->to)
		return;
	if (!room_make(&d->insns, &d->insn_room, d->insn_count, sizeof(*d->insns))) {
		t->failed = true;
		return;
	}
	x = &d->insns[d->insn_count++];
	memset(x, 0, sizeof(*x));
	x->addr = addr;
	x->weak = before->weak;
	x->dead = before->dead;
	x->ends = ((in->flow == FLOW_CALL || in->flow == FLOW_CALL_IND) && !flow_comes_back(f, in)) || flow_is_exit(in, before);
	state_rule(before, &x->rule);
	for (r = 0; r < 16; r++)
		if (STEP_CALLEE_SAVED >> r & 1)
			saved_find(before, r, x);
}

static bool jump_take(struct detail *d, const struct flow *f, uint64_t addr, const struct flow_jump *j)
{
	unsigned i;

	if (addr < d->from || addr >= d->to || !j->table)
		return true;
	if (!room_make(&d->jumps, &d->jump_room, d->jump_count, sizeof(*d->jumps)))
		return false;
	d->jumps[d->jump_count++] = (struct detail_jump){
		.addr = addr, .table = (uint64_t)(uint32_t)j->what.off, .bytes = j->what.reg, .most = j->what.most,
		.followed = j->entries != 0};
	for (i = 0; i < j->entries; i++) {
		if (!room_make(&d->targets, &d->target_room, d->target_count, sizeof(*d->targets)))
			return false;
		d->targets[d->target_count++] = (struct detail_target){addr, jump_table_target(f, &j->what, i), i};
	}
	return true;
}

bool detail_take(struct detail *d, struct flow *f)
{
	const struct piece *p = f->piece;
	struct taker t = {d, f, false};
	size_t i;

	if (p->start >= d->to || p->end <= d->from)
		return true;
	drop(d, p->start, p->end);
	flow_look(f, insn_take, &t);
	for (i = 0; i < f->step_count && !t.failed; i++)
		if (f->steps[i].flow == FLOW_JUMP_IND && f->steps[i].number)
			t.failed = !jump_take(d, f, p->start + f->step_at[i], &f->jumps[f->steps[i].number - 1]);
	for (i = 0; i < f->pad_count && !t.failed; i++) {
		if (f->pads[i].start >= d->to || f->pads[i].end <= d->from)
			continue;
		t.failed = !room_make(&d->pads, &d->pad_room, d->pad_count, sizeof(*d->pads));
		if (!t.failed)
			d->pads[d->pad_count++] = (struct detail_pad){f->pads[i].start, f->pads[i].end, f->pads[i].pad};
	}
	return !t.failed;
}

static int insn_order(const void *a, const void *b)
{
	const struct detail_insn *x = a, *y = b;

	return x->addr < y->addr ? -1 : x->addr > y->addr;
}

static int jump_order(const void *a, const void *b)
{
	const struct detail_jump *x = a, *y = b;

	return x->addr < y->addr ? -1 : x->addr > y->addr;
}

static int target_order(const void *a, const void *b)
{
	const struct detail_target *x = a, *y = b;

	if (x->addr != y->addr)
		return x->addr < y->addr ? -1 : 1;
	return x->index < y->index ? -1 : x->index > y->index;
}

static int pad_order(const void *a, const void *b)
{
	const struct detail_pad *x = a, *y = b;

	return x->start < y->start ? -1 : x->start > y->start;
}

void detail_sort(struct detail *d)
{
	if (d->insn_count)
		qsort(d->insns, d->insn_count, sizeof(*d->insns), insn_order);
	if (d->jump_count)
		qsort(d->jumps, d->jump_count, sizeof(*d->jumps), jump_order);
	if (d->target_count)
		qsort(d->targets, d->target_count, sizeof(*d->targets), target_order);
	if (d->pad_count)
		qsort(d->pads, d->pad_count, sizeof(*d->pads), pad_order);
}

const struct detail_insn *detail_at(const struct detail *d, uint64_t addr)
{
	const struct detail_insn key = {.addr = addr};

	return d->insn_count ? bsearch(&key, d->insns, d->insn_count, sizeof(key), insn_order) : NULL;
}

const struct detail_jump *detail_jump_at(const struct detail *d, uint64_t addr)
{
	const struct detail_jump key = {.addr = addr};

	return d->jump_count ? bsearch(&key, d->jumps, d->jump_count, sizeof(key), jump_order) : NULL;
}

const struct detail_target *detail_targets_of(const struct detail *d, uint64_t addr)
{
	const struct detail_target key = {.addr = addr};

	return d->target_count ? bsearch(&key, d->targets, d->target_count, sizeof(key), target_order) : NULL;
}

/* Ranges of one table do not overlap. */
const struct detail_pad *detail_pad_of(const struct detail *d, uint64_t addr)
{
	size_t lo = 0, hi = d->pad_count;

	while (lo < hi) {
		size_t mid = lo + (hi - lo) / 2;

		if (d->pads[mid].start <= addr)
			lo = mid + 1;
		else
			hi = mid;
	}
	return lo && addr < d->pads[lo - 1].end ? &d->pads[lo - 1] : NULL;
}

void detail_free(struct detail *d)
{
	free(d->insns);
	free(d->jumps);
	free(d->targets);
	free(d->pads);
	*d = (struct detail){0};
}
