/* SPDX-License-Identifier: MIT */
/*
 * Calls that do not return, by the code after them: where another path reaches that code with another rsp, one of the
 * two would be incorrect, and it is the call that does not return.
 *
 * Which of the two is walked first must not matter. Where the call is, its state has gone on by the time that the other
 * path shows it: the range is then walked again, with the call taken for one that does not return (`early`). At the
 * fixpoint each such call is looked at once more. If no path is left that shows it, as where only the call led to the
 * other path, or where paths disagree by themselves, its state is passed on after all.
 */
#include "analysis/flow/flow_internal.h"
#include "shared/search.h"
#include "support/memory.h"

#include <string.h>

/*
 * Does a state that reaches a block on another path contradict that after the call? A weaker state shows nothing: it
 * may be that of other code. Nor does another rsp where rbp points to the same place in the frame: a function with a
 * frame pointer may have allocated memory on one of the paths.
 */
static bool contradicts(const struct state *other, const struct state *call)
{
	struct value mine = call->reg[ETCH_REG_RSP], its = other->reg[ETCH_REG_RSP];

	if (other->dead || other->weak > call->weak || mine.kind != VALUE_CFA || its.kind != VALUE_CFA ||
	    mine.off == its.off)
		return false;
	mine = call->reg[ETCH_REG_RBP];
	its = other->reg[ETCH_REG_RBP];
	return mine.kind != VALUE_CFA || its.kind != VALUE_CFA || mine.off != its.off;
}

/* Index of the first clash whose code lies at an offset or after it. */
static size_t clash_at(const struct flow *f, uint32_t off)
{
	return SEARCH(f->walk.clash_count, i, f->walk.clashes[i].off < off);
}

static bool is_clash(const struct flow *f, size_t i, uint32_t off)
{
	return i < f->walk.clash_count && f->walk.clashes[i].off == off;
}

/* The clash of the call in front of an offset; a new one if there is none. */
static struct flow_clash *clash_make(struct flow *f, uint32_t off)
{
	size_t i = clash_at(f, off);

	if (is_clash(f, i, off))
		return &f->walk.clashes[i];
	mem_reserve(&f->walk.clashes, &f->walk.clash_capacity, f->walk.clash_count, sizeof(*f->walk.clashes));
	memmove(f->walk.clashes + i + 1, f->walk.clashes + i, (f->walk.clash_count++ - i) * sizeof(*f->walk.clashes));
	f->walk.clashes[i] = (struct flow_clash){.off = off};
	return &f->walk.clashes[i];
}

/* Is the state after the call in front of an offset not to be passed on, whichever path comes first? */
static bool is_early(const struct flow *f, uint32_t off)
{
	size_t i = clash_at(f, off);

	return is_clash(f, i, off) && f->walk.clashes[i].early;
}

/* A clash of which the call's state has been passed on already. */
static void found_late(struct flow *f, struct flow_clash *c)
{
	f->walk.clashes_late |= !c->early;
	c->early = true;
}

bool flow_clash(struct flow *f, uint32_t k, const struct state *s, uint32_t from)
{
	uint32_t off = f->step_at[f->step_of_state[k]];
	struct flow_clash *c;

	if (!((f->state_live[k] & LIVE) && contradicts(&f->states[k], s)) && !(f->walk.clash_count && is_early(f, off)))
		return false;
	c = clash_make(f, off);
	if (c->returns)
		return false;
	if (f->state_live[k] & PASSED)
		found_late(f, c);
	c->denied = true;
	c->from = from;
	state_copy(&c->state, s);
	return true;
}

void flow_clash_late(struct flow *f, uint32_t k, const struct state *s)
{
	struct flow_clash *c;

	if (!contradicts(s, &f->states[k]))
		return;
	c = clash_make(f, f->step_at[f->step_of_state[k]]);
	if (!c->returns)
		found_late(f, c);
}

bool flow_clashes_settle(struct flow *f)
{
	bool any = false;
	size_t i;

	for (i = 0; i < f->walk.clash_count; i++) {
		struct flow_clash *c = &f->walk.clashes[i];
		uint32_t k = f->leader[f->at[c->off] - 1] - 1;

		if (!c->denied || ((f->state_live[k] & LIVE) && contradicts(&f->states[k], &c->state)))
			continue;
		c->denied = false;
		c->returns = any = true;
		flow_queue(f, c->from);
	}
	if (any)
		flow_walk(f);
	return any;
}

void flow_clashes_begin(struct flow *f)
{
	size_t i;

	for (i = 0; i < f->walk.clash_count; i++) {
		struct flow_clash *c = &f->walk.clashes[i];

		c->denied = c->returns = false;
		if (c->early) /* a block begins there before the call is walked, whatever leads there later */
			flow_leader(f, c->off);
	}
}
