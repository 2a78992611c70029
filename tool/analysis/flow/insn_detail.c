/* SPDX-License-Identifier: MIT */
/* Implements insn_detail.h. Each code range has one struct detail_part, which is replaced each time that the range is
 * analysed. At the end, all parts are merged into one sorted struct detail. */
#include "analysis/flow/insn_detail.h"

#include "analysis/flow/flow_internal.h"
#include "shared/search.h"
#include "support/memory.h"

#include <stdlib.h>
#include <string.h>

/* The results of one analysis of a code range. */
struct detail_part {
	struct detail_insn *insns;
	size_t insn_count, insn_capacity;
	struct detail_jump *jumps;
	size_t jump_count, jump_capacity;
	struct detail_pad *pads;
	size_t pad_count, pad_capacity;
};

/* Data for insn_take(), which detail_take() calls by way of flow_look(). */
struct collector {
	const struct detail *detail;
	struct detail_part *part;
	struct flow *flow;
};

/* Returns the slot that holds the value which register r had at the function's entry, or null. If there are several,
 * returns the one at the highest address, since the others are copies or no longer valid. */
static const struct slot *slot_of(const struct state *s, unsigned r)
{
	const struct slot *best = NULL;
	unsigned i;

	for (i = 0; i < s->slot_count; i++) {
		const struct slot *x = &s->slot[i];

		if (value_is_entry(x->value, r) && (!best || x->at > best->at))
			best = x;
	}
	return best;
}

/* Does a slot lie in the live part of the stack? After a pop, the memory still holds the value until a signal handler
 * overwrites it. The red zone, which signal handlers do not overwrite, counts only if no register holds the value. */
static bool is_on_stack(const struct state *s, const struct slot *x, bool in_register)
{
	struct value sp = s->reg[ETCH_REG_RSP];

	if ((sp.kind == VALUE_ALIGNED) != x->aligned || (sp.kind != VALUE_CFA && sp.kind != VALUE_ALIGNED))
		return true;
	return x->at >= sp.off - (in_register ? 0 : RED_ZONE);
}

/* Finds where the value is that register r held at the function's entry, and sets out->where[r] and out->off[r]. A slot
 * in the live part of the stack is preferred; without one, register r itself, then any other register. */
static void saved_find(const struct state *s, unsigned r, struct detail_insn *out)
{
	bool same = value_is_entry(s->reg[r], r);
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
		if (value_is_entry(s->reg[i], r)) {
			out->where[r] = WHERE_REGISTER;
			out->off[r] = (int32_t)i;
			return;
		}
}

/* Appends the result for one instruction. A flow_state_fn for flow_look(). */
static void insn_take(void *ctx, uint64_t addr, unsigned len, const struct state *before, bool same)
{
	struct collector *t = ctx;
	struct detail_part *d = t->part;
	const struct flow *f = t->flow;
	const struct step *in = &f->steps[f->at[addr - f->in.range->start] - 1];
	struct detail_insn *x;
	unsigned r;

	(void)len;
	(void)same;
	if (addr < t->detail->from || addr >= t->detail->to)
		return;
	mem_reserve(&d->insns, &d->insn_capacity, d->insn_count, sizeof(*d->insns));
	x = &d->insns[d->insn_count++];
	memset(x, 0, sizeof(*x));
	x->addr = addr;
	x->weak = before->weak;
	x->dead = before->dead;
	x->ends = (flow_is_call(in->flow) && !flow_comes_back(f, in)) || flow_is_exit(in, before);
	state_rule(before, &x->rule);
	for (r = 0; r < 16; r++)
		if (STEP_CALLEE_SAVED >> r & 1)
			saved_find(before, r, x);
}

/* Appends a jump through a table. */
static void jump_take(struct detail_part *d, const struct flow *f, uint64_t addr, const struct flow_jump *j)
{
	if (!j->table)
		return;
	mem_reserve(&d->jumps, &d->jump_capacity, d->jump_count, sizeof(*d->jumps));
	d->jumps[d->jump_count++] = (struct detail_jump){.addr = addr,
	                                                 .table = (uint64_t)(uint32_t)j->what.off,
	                                                 .bytes = j->what.reg,
	                                                 .most = j->what.most,
	                                                 .followed = j->entries != 0,
	                                                 .listed = true,
	                                                 .entries = j->entries,
	                                                 .start = f->in.range->start,
	                                                 .end = f->in.range->end,
	                                                 .code = f->in.range->bytes};
}

/* Are details of the code range [start, end) requested? */
static bool is_asked(const struct detail *d, uint64_t start, uint64_t end)
{
	return d->vague ? d->at >= start && d->at < end : start < d->to && end > d->from;
}

void detail_take(const struct detail *d, struct detail_part **part, struct flow *f)
{
	const struct code_range *p = f->in.range;
	struct collector t = {.detail = d, .flow = f};
	size_t i;

	detail_part_free(part);
	if (!is_asked(d, p->start, p->end))
		return;
	t.part = *part = mem_zero(1, sizeof(*t.part));
	flow_look(f, insn_take, &t);
	for (i = 0; i < f->step_count; i++) {
		uint64_t addr = p->start + f->step_at[i];

		if (f->steps[i].flow == FLOW_JUMP_IND && f->steps[i].number && addr >= d->from && addr < d->to)
			jump_take(t.part, f, addr, &f->jumps[f->steps[i].number - 1]);
	}
	for (i = 0; i < f->walk.pad_count; i++) {
		if (f->walk.pads[i].start >= d->to || f->walk.pads[i].end <= d->from)
			continue;
		mem_reserve(&t.part->pads, &t.part->pad_capacity, t.part->pad_count, sizeof(*t.part->pads));
		t.part->pads[t.part->pad_count++] =
			(struct detail_pad){f->walk.pads[i].start, f->walk.pads[i].end, f->walk.pads[i].pad};
	}
}

void detail_part_free(struct detail_part **part)
{
	if (*part) {
		free((*part)->insns);
		free((*part)->jumps);
		free((*part)->pads);
	}
	free(*part);
	*part = NULL;
}

/* Appends `count` elements of `size` bytes to an array. */
static void append(void *array, size_t *capacity, size_t *have, const void *more, size_t count, size_t size)
{
	void **p = array;

	while (*have + count > *capacity)
		mem_double(array, capacity, size);
	if (count)
		memcpy((char *)*p + *have * size, more, count * size);
	*have += count;
}

void detail_add(struct detail *d, const struct detail_part *part)
{
	if (!part)
		return;
	append(&d->insns, &d->insn_capacity, &d->insn_count, part->insns, part->insn_count, sizeof(*d->insns));
	append(&d->jumps, &d->jump_capacity, &d->jump_count, part->jumps, part->jump_count, sizeof(*d->jumps));
	append(&d->pads, &d->pad_capacity, &d->pad_count, part->pads, part->pad_count, sizeof(*d->pads));
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

/* Lists the targets of all jump tables. Tables may be shared or overlap, so detail_targets_most() bounds the total in
 * proportion to the code. */
static void targets_find(struct detail *d, const struct flow_env *env)
{
	uint64_t most = detail_targets_most(d), i;
	size_t k;

	for (k = 0; k < d->jump_count; k++) {
		struct detail_jump *j = &d->jumps[k];
		const struct code_range range = {.start = j->start, .end = j->end, .bytes = j->code};
		const struct value what = {.reg = (uint8_t)j->bytes, .off = (int32_t)j->table};

		j->listed = j->entries <= most;
		most -= j->listed ? j->entries : 0;
		for (i = 0; i < j->entries && j->listed; i++) {
			mem_reserve(&d->targets, &d->target_capacity, d->target_count, sizeof(*d->targets));
			d->targets[d->target_count++] =
				(struct detail_target){j->addr, jump_table_entry(env, &range, &what, (unsigned)i), (unsigned)i};
		}
	}
}

void detail_sort(struct detail *d, const struct flow_env *env)
{
	if (d->insn_count)
		qsort(d->insns, d->insn_count, sizeof(*d->insns), insn_order);
	if (d->jump_count)
		qsort(d->jumps, d->jump_count, sizeof(*d->jumps), jump_order);
	if (d->pad_count)
		qsort(d->pads, d->pad_count, sizeof(*d->pads), pad_order);
	targets_find(d, env);
}

void detail_targets_sort(struct detail *d)
{
	if (d->target_count)
		qsort(d->targets, d->target_count, sizeof(*d->targets), target_order);
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

const struct detail_pad *detail_pad_of(const struct detail *d, uint64_t addr)
{
	size_t lo = SEARCH(d->pad_count, i, d->pads[i].start <= addr);

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
