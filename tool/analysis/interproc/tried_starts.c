/* SPDX-License-Identifier: MIT */
/* Is the code at an address a function, though nothing is known to lead there (tried_starts.h)? */
#include "analysis/interproc/tried_starts.h"

#include "arch/x86/opcodes.h"
#include "support/bounds.h"
#include "support/memory.h"

#include <stdlib.h>
#include <string.h>

void start_put(struct starts *s, uint64_t addr)
{
	mem_room(&s->list, &s->room, s->count, sizeof(*s->list));
	s->list[s->count++] = addr;
}

void starts_free(struct starts *s)
{
	free(s->list);
	flow_free(&s->flow);
}

/*
 * Candidate starts that one function may span. Mostly a function ends where the next candidate begins; one that spans
 * several has prologue-like code inside, behind jumps, as where a runtime's code calls C.
 */
#define RUNS_MOST 4u
/* Bytes that are tried as one function, at most; bounds the memory of the analysis, which is per byte. */
#define TRIED_MOST (1u << 20)

/* The exits of a tried function: some are seen; some are not those of a function. */
struct ending {
	const struct flow *flow;
	bool framed; /* it begins with a frame pointer */
	bool some, wrong;
};

/* Are rsp and rbp those of the caller, and without a frame pointer all callee-saved registers? Compilers with
 * conventions of their own preserve no other register. */
static bool is_balanced(const struct ending *x, const struct state *s)
{
	const struct value *sp = &s->reg[ETCH_REG_RSP], *bp = &s->reg[ETCH_REG_RBP];

	if (!x->framed)
		return state_is_entry(s);
	return sp->kind == VALUE_CFA && sp->off == -8 && bp->kind == VALUE_ENTRY && bp->reg == ETCH_REG_RBP;
}

static void ending_note(void *ctx, uint64_t addr, unsigned len, const struct state *before, bool same)
{
	struct ending *x = ctx;
	uint32_t i = x->flow->at[addr - x->flow->in.range->start];

	(void)len, (void)same;
	if (!i || x->flow->steps[i - 1].flow != FLOW_RETURN)
		return;
	x->some = true;
	x->wrong |= !is_balanced(x, before);
}

/* [start, end) of a code range as one of its own. */
static struct code_range part_of(const struct code_range *in, uint64_t start, uint64_t end)
{
	return (struct code_range){.start = start,
	                           .end = end,
	                           .bytes = in->bytes + (start - in->start),
	                           .fde = -1,
	                           .inferred = true,
	                           .open = true};
}

/* Analyses a code range on its own, as a function; calls note for its states. */
static void try_alone(const struct work *w, struct flow *f, const struct code_range *p, flow_state_fn *note, void *ctx)
{
	struct flow_env env = w->env;

	env.ranges = p;
	env.range_count = 1;
	env.index = NULL;
	env.spans = NULL;
	env.cfi = NULL;
	env.own_stack = false;
	f->in.cfi_count = 0;
	f->in.pushed = 0;
	f->in.framed = f->in.handler = f->in.relaxed = f->in.force_constants = false;
	if (!flow_run(f, &env, 0, NULL, 0, START_FUNCTION))
		bounds_exhausted();
	f->skip.below = 0;
	flow_states(f, note, ctx);
}

/*
 * Is [start, end) a function? Analysed on its own, all its returns and all jumps out of it have to be balanced, and it
 * has to return. A candidate inside another function pops that function's frame too, which is not balanced.
 */
static bool is_function(const struct work *w, struct flow *f, const struct code_range *in, uint64_t start, uint64_t end)
{
	const struct code_range p = part_of(in, start, end);
	struct ending x = {.flow = f, .framed = insn_is_frame_prologue(p.bytes, end - start)};
	size_t i;

	try_alone(w, f, &p, ending_note, &x);
	for (i = 0; i < f->found.edge_count; i++)
		x.wrong |= !is_balanced(&x, &f->found.edges[i].state);
	return x.some && !x.wrong && !f->found.broken;
}

/* Does an instruction make the rbp of the start rsp? */
struct frame_leaving {
	const struct flow *flow;
	bool found;
};

static void leaving_note(void *ctx, uint64_t addr, unsigned len, const struct state *before, bool same)
{
	struct frame_leaving *x = ctx;
	const struct value *bp = &before->reg[ETCH_REG_RBP];
	uint32_t i = x->flow->at[addr - x->flow->in.range->start];
	const struct step *in;

	(void)len, (void)same;
	if (!i || bp->kind != VALUE_ENTRY || bp->reg != ETCH_REG_RBP)
		return;
	in = &x->flow->steps[i - 1];
	x->found |= in->op == STEP_LEAVE || (in->op == STEP_MOVE && in->a == ETCH_REG_RSP && in->b == ETCH_REG_RBP);
}

bool start_leaves_frame(const struct work *w, struct flow *f, const struct code_range *in, uint64_t start, uint64_t end)
{
	const struct code_range p = part_of(in, start, end);
	struct frame_leaving x = {.flow = f};

	try_alone(w, f, &p, leaving_note, &x);
	return x.found;
}

void prologues_find(struct starts *s, const struct code_range *p, uint64_t start, uint64_t end, bool framed)
{
	uint64_t at = start;
	bool behind = true;
	struct step in;

	if (!s->flow.cache)
		s->flow.cache = step_cache_new(); /* null: decoding is slower */
	while (at < end) {
		const uint8_t *bytes = p->bytes + (at - p->start);

		if (!step_decode(s->flow.cache, bytes, end - at, at, &in)) {
			at++;
			behind = true;
			continue;
		}
		if (behind &&
		    (insn_is_frame_prologue(bytes, end - at) || (!framed && step_begins_function(&in, bytes, end - at))))
			start_put(s, at);
		behind = in.padding || in.flow == FLOW_JUMP || in.flow == FLOW_JUMP_IND || in.flow == FLOW_RETURN ||
		         in.flow == FLOW_STOP;
		at += in.len;
	}
}

void starts_try(const struct work *w, struct starts *s, const struct code_range *p, size_t from, uint64_t end)
{
	size_t i, k, n;
	uint64_t done = 0;

	n = from + words_unique(s->list + from, s->count - from);
	for (i = k = from; i < n; i++) {
		bool is = false;
		size_t runs;

		for (runs = 1; !is && s->list[i] >= done && runs <= RUNS_MOST && i + runs <= n; runs++) {
			uint64_t stop = i + runs < n ? s->list[i + runs] : end;

			if (stop - s->list[i] > TRIED_MOST)
				break;
			is = is_function(w, &s->flow, p, s->list[i], stop);
		}
		if (!is)
			continue;
		done = s->list[i] + s->flow.found.extent;
		s->list[k++] = s->list[i];
	}
	s->count = k;
}
