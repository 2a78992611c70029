/* SPDX-License-Identifier: MIT */
/*
 * Finds noreturn functions by reachability alone (flow_gets_out()), which needs no states.
 *
 * After a round, follows chains of calls. Once a function is known not to return, its callers may have lost their only
 * way to return, and then their callers, and so on. A worklist follows these chains from callee to caller without
 * waiting for the next round. It ends because a function that is noreturn stays noreturn. The smallest code range in
 * the worklist is always next, so that a large code range is examined again only after the smaller ones are done.
 *
 * Before the first round, examines the code ranges that probably do not return.
 */
#include "analysis/interproc/noreturn.h"
#include "arch/x86/byte_scan.h"
#include "support/memory.h"

#define CLASSES 33u /* number of classes of sizes: a class holds the sizes with the same highest bit */

struct chain {
	struct work *w;
	struct flow flow;
	/* By number of a code range: 1 + number of the next one on the same stack; 0: none. */
	uint32_t *next;
	/* The worklist: for each class of sizes, 1 + number of the top code range; 0: the stack is empty. */
	uint32_t stacks[CLASSES];
	/* By number of a code range: is it on a stack; has it been found here to be noreturn. */
	bool *waits, *stops;
	uint64_t *in; /* targets of the edges into the current code range */
	size_t in_capacity;
};

static void chain_open(struct chain *c, struct work *w)
{
	size_t n = w->ranges.count;

	c->w = w;
	c->next = mem_zero(n + 1, sizeof(*c->next));
	c->waits = mem_zero(n + 1, sizeof(*c->waits));
	c->stops = mem_zero(n + 1, sizeof(*c->stops));
}

static void chain_close(struct chain *c)
{
	flow_free(&c->flow);
	free(c->next);
	free(c->waits);
	free(c->stops);
	free(c->in);
}

/* Returns the stack for code ranges of a size. */
static uint32_t *stack_of(struct chain *c, uint64_t size)
{
	if (size > UINT32_MAX)
		return &c->stacks[CLASSES - 1];
	return &c->stacks[size ? 31 - (unsigned)__builtin_clz((uint32_t)size) : 0];
}

/* Puts code range i on the worklist, unless it is already known to be noreturn, or cannot become so. */
static void chain_add(struct chain *c, uint32_t i)
{
	const struct code_range *p = &c->w->ranges.list[i];
	const struct range_state *s = &c->w->state[i];
	uint32_t *stack = stack_of(c, p->end - p->start);

	if (c->waits[i] || c->stops[i] || s->noreturn || s->run || s->settling != SETTLING || p->plt || p->outermost ||
	    call_resumes(p))
		return;
	c->waits[i] = true;
	c->next[i] = *stack;
	*stack = i + 1;
}

/* Collects in c->in the targets of the edges into code range i. Returns false if these edges have changed since its
 * last analysis; in that case the next round has to judge it. */
static bool chain_edges(struct chain *c, uint32_t i, size_t *count)
{
	const struct edges *l = &c->w->graph.edges;
	const struct code_range *p = &c->w->ranges.list[i];
	uint64_t sum = 0;
	size_t k;

	*count = 0;
	for (k = edges_from(l, p->start); k < l->count && l->list[k].target < p->end; k++) {
		mem_reserve(&c->in, &c->in_capacity, *count, sizeof(*c->in));
		c->in[(*count)++] = l->list[k].target;
		sum = edges_sum(sum, &l->list[k]);
	}
	return sum == c->w->state[i].edges_seen && !c->w->state[i].joined;
}

/* Takes the next code range from the worklist, and returns its number; NO_RANGE if the worklist is empty. */
static uint32_t chain_next(struct chain *c)
{
	unsigned k = 0;
	uint32_t i;

	while (k < CLASSES && !c->stacks[k])
		k++;
	if (k == CLASSES)
		return NO_RANGE;
	i = c->stacks[k] - 1;
	c->stacks[k] = c->next[i];
	c->waits[i] = false;
	return i;
}

/* Puts the code ranges that call, or jump to, the start of code range i on the worklist. */
static void predecessors_add(struct chain *c, uint32_t i)
{
	const struct links *each[] = {&c->w->graph.calls, &c->w->graph.tails};
	const struct link *x;
	unsigned k;
	uint32_t n;

	for (k = 0; k < 2; k++)
		for (n = each[k]->into[c->w->state[i].id]; n; n = x->next) {
			x = &each[k]->list[n - 1];
			if (x->kind != EXIT_LAST && x->kind != LINK_DROPPED)
				chain_add(c, c->w->graph.place[x->from]);
		}
}

static void chain_follow(struct chain *c)
{
	struct work *w = c->w;
	size_t count;
	uint32_t i;

	w->env.stops = c->stops;
	while ((i = chain_next(c)) != NO_RANGE) {
		if (!chain_edges(c, i, &count) || flow_gets_out(&c->flow, &w->env, i, c->in, count))
			continue;
		c->stops[i] = true;
		predecessors_add(c, i);
	}
	w->env.stops = NULL;
}

/* Adds the code ranges that have been found to be noreturn to the list of noreturn functions. */
static void stops_take(struct chain *c)
{
	struct work *w = c->w;
	size_t i;

	for (i = 0; i < w->ranges.count; i++)
		if (c->stops[i]) {
			w->state[i].noreturn = true;
			noreturn_add(w, w->ranges.list[i].start);
		}
	noreturn_sort(w);
}

static void chain_begin(void *ctx, const struct link *x)
{
	struct chain *c = ctx;

	if (x->kind != EXIT_LAST && x->kind != EXIT_REF)
		chain_add(c, c->w->graph.place[x->from]);
}

void chains_follow(struct work *w, const uint64_t *fresh, size_t count)
{
	struct chain c = {0};

	chain_open(&c, w);
	links_to(w, &w->graph.calls, fresh, count, chain_begin, &c);
	links_to(w, &w->graph.tails, fresh, count, chain_begin, &c);
	chain_follow(&c);
	stops_take(&c);
	chain_close(&c);
}

/* ---- before the first round ----------------------------------------------------------------- */

/*
 * Adds the code ranges that probably do not return to the worklist: those that are called by the last instruction of
 * another code range, since compilers end code with a call only if the callee does not return; and those that end with
 * such a call themselves and seem to contain no return, such as cold parts.
 */
static void likely_add(struct chain *c)
{
	const struct code_ranges *l = &c->w->ranges;
	size_t i;

	for (i = 0; i < l->count; i++) {
		const struct code_range *p = &l->list[i];
		uint64_t size = p->end - p->start, target = code_last_call(p->bytes, size, p->start);
		uint32_t to = target ? range_number(&c->w->env, target) : NO_RANGE;

		if (target && !code_may_return(p->bytes, size))
			chain_add(c, (uint32_t)i);
		if (to != NO_RANGE && l->list[to].start == target)
			chain_add(c, to);
	}
}

/* Each pass finds the functions that lead to nothing but those found by earlier passes. */
#define PASSES 4u

/*
 * Without this, the first round would take all calls of the file's own noreturn functions for calls that return, and
 * the second would analyse their callers again. The functions that are left out here are found after the first round.
 * In object files the last bytes do not say what is called.
 */
void noreturn_ahead(struct work *w)
{
	bool some = !elf_is_object(w->file);
	struct chain c = {0};
	unsigned pass;
	uint32_t i;

	chain_open(&c, w);
	w->env.stops = c.stops;
	for (pass = 0; some && pass < PASSES; pass++) {
		some = false;
		likely_add(&c);
		while ((i = chain_next(&c)) != NO_RANGE)
			if (!flow_gets_out(&c.flow, &w->env, i, NULL, 0))
				some = c.stops[i] = true;
	}
	w->env.stops = NULL;
	stops_take(&c);
	chain_close(&c);
}
