/* SPDX-License-Identifier: MIT */
/* Finds out whether the code at an address is a function, although no known code or data refers to it
 * (tried_starts.h). */
#include "analysis/interproc/tried_starts.h"

#include "arch/x86/opcodes.h"
#include "arch/x86/padding.h"
#include "support/bounds.h"
#include "support/memory.h"

#include <stdlib.h>
#include <string.h>

static void list_put(struct start_list *l, uint64_t addr)
{
	mem_reserve(&l->list, &l->capacity, l->count, sizeof(*l->list));
	l->list[l->count++] = addr;
}

void start_put(struct starts *s, uint64_t addr)
{
	mem_reserve(&s->list, &s->capacity, s->count, sizeof(*s->list));
	s->list[s->count++] = addr;
}

void start_padded_put(struct starts *s, uint64_t addr)
{
	start_put(s, addr);
	list_put(&s->padded, addr);
}

void starts_free(struct starts *s)
{
	free(s->list);
	free(s->padded.list);
	free(s->silent.list);
	free(s->foreign.list);
	free(s->placed.list);
	flow_free(&s->flow);
}

/*
 * Over how many candidates one function may extend. Usually a function ends where the next candidate begins. If it
 * extends over several, the code after some of its jumps looks like a prologue, as where code of a runtime calls C.
 */
#define RUNS_MOST 4u
/* Limit for the number of bytes that are tried as one function: the analysis needs memory for each byte. */
#define TRIED_MOST (1u << 20)

/* What the exits of a tried function have shown so far. */
struct ending {
	const struct flow *flow;
	bool framed;  /* it begins with a frame pointer */
	bool some;    /* it returns */
	bool wrong;   /* rsp at some exit is not that of a function */
	bool foreign; /* rsp at some exit is right, but a register that C functions preserve is not restored */
};

/*
 * Judges an exit: do rsp and the callee-saved registers have the values of the caller? If the function sets up a frame
 * pointer, only rbp is checked besides rsp, since compilers with conventions of their own preserve no other
 * register.
 */
static void ending_judge(struct ending *x, const struct state *s)
{
	const struct value *sp = &s->reg[ETCH_REG_RSP], *bp = &s->reg[ETCH_REG_RBP];

	if (sp->kind != VALUE_CFA || sp->off != -8)
		x->wrong = true;
	else if (x->framed ? bp->kind != VALUE_ENTRY || bp->reg != ETCH_REG_RBP : !state_is_entry(s))
		x->foreign = true;
}

/* Is called for each state of the tried function: judges the state before each return. */
static void ending_note(void *ctx, uint64_t addr, unsigned len, const struct state *before, bool same)
{
	struct ending *x = ctx;
	uint32_t i = x->flow->at[addr - x->flow->in.range->start];

	(void)len, (void)same;
	if (!i || x->flow->steps[i - 1].flow != FLOW_RETURN)
		return;
	x->some = true;
	ending_judge(x, before);
}

/* Returns [start, end) of a code range as a code range of its own, whose end is open. */
static struct code_range part_of(const struct code_range *in, uint64_t start, uint64_t end)
{
	return (struct code_range){.start = start,
	                           .end = end,
	                           .bytes = in->bytes + (start - in->start),
	                           .fde = -1,
	                           .inferred = true,
	                           .open = true};
}

/* Analyses a code range by itself, as a function. Calls `note` for each of its states. */
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
	flow_run(f, &env, 0, NULL, 0, START_FUNCTION);
	f->skip.below = 0;
	flow_states(f, note, ctx);
}

/* What trying a start has shown. */
enum verdict {
	START_REFUTED, /* it leaves with a frame that is not its own, so it is no function */
	START_SILENT,  /* it does not leave: all paths end in calls, traps or loops */
	/* It returns with the right rsp, but does not preserve all registers that C functions preserve. */
	START_FOREIGN,
	/* It returns as a C function does. */
	START_PROVEN,
};

/*
 * Is [start, end) a function? To be one, it must return when it is analysed by itself, and rsp must be balanced at all
 * its returns and all jumps out of it. A candidate inside another function also pops the frame of that function, and so
 * is not balanced.
 */
static enum verdict start_try(const struct work *w, struct flow *f, const struct code_range *in, uint64_t start,
                              uint64_t end)
{
	const struct code_range p = part_of(in, start, end);
	struct ending x = {.flow = f, .framed = insn_is_frame_prologue(p.bytes, end - start)};
	size_t i;

	try_alone(w, f, &p, ending_note, &x);
	for (i = 0; i < f->found.edge_count; i++)
		ending_judge(&x, &f->found.edges[i].state);
	if (x.wrong || f->found.broken || (f->found.edge_count && !x.some))
		return START_REFUTED;
	if (!x.some)
		return START_SILENT;
	return x.foreign ? START_FOREIGN : START_PROVEN;
}

/* Has an instruction been found that copies the value that rbp had at the start to rsp? */
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

/* Does a prologue begin at an address, with or without a frame pointer? */
static bool begins_function(struct starts *s, const uint8_t *bytes, size_t avail, uint64_t addr)
{
	struct step in;

	return insn_is_frame_prologue(bytes, avail) ||
	       (step_decode(s->flow.cache, bytes, avail, addr, &in) && step_begins_function(&in, bytes, avail));
}

void prologues_find(struct starts *s, const struct code_range *p, uint64_t start, uint64_t end, bool framed)
{
	uint64_t at = start;
	bool after = true, called = false, filler;
	struct step in;

	if (!s->flow.cache)
		s->flow.cache = step_cache_new();
	while (at < end) {
		const uint8_t *bytes = p->bytes + (at - p->start);
		size_t padded = 0;

		filler = called;
		if (after)
			padded = padding_size(s->flow.cache, bytes, end - at, at, &filler);
		else if (called)
			padded = padding_after_call(bytes, end - at, at, FUNCTION_ALIGN);
		if (padded) {
			at += padded;
			if (!framed && at < end && filler && at % FUNCTION_ALIGN == 0)
				start_padded_put(s, at);
			after = true;
			continue;
		}
		if (!step_decode(s->flow.cache, bytes, end - at, at, &in)) {
			at++;
			after = true;
			continue;
		}
		if (after && (framed ? insn_is_frame_prologue(bytes, end - at) : begins_function(s, bytes, end - at, at)))
			start_put(s, at);
		after = in.padding || in.flow == FLOW_JUMP || in.flow == FLOW_JUMP_IND || in.flow == FLOW_RETURN ||
		        in.flow == FLOW_STOP || in.op == STEP_HALT;
		called = in.flow == FLOW_CALL || in.flow == FLOW_CALL_IND;
		at += in.len;
	}
}

/* ---- what the padding in front says ----------------------------------------------------------- */

#define SHOWN_LEAST 32u /* functions that are enough to show a regularity */
/* At most one in this many starts may be refuted. Some must be allowed, since there is data among the code, and code
 * that the analysis does not follow. */
#define REFUTED_SHARE 10u
/* At least one in this many functions has to change registers that C functions preserve. In a file compiled from C,
 * none does. */
#define FOREIGN_SHARE 4u

/* Accepts all starts of a list because of their place. */
static void placed_put(struct starts *s, const struct start_list *from)
{
	size_t i;

	for (i = 0; i < from->count; i++) {
		start_put(s, from->list[i]);
		list_put(&s->placed, from->list[i]);
	}
}

void starts_learn(struct starts *s)
{
	struct padding_shown *x = &s->shown;

	x->regular = x->proven >= SHOWN_LEAST && x->refuted <= x->proven / REFUTED_SHARE;
	x->own_rules = x->regular && x->foreign >= SHOWN_LEAST && x->foreign >= x->proven / FOREIGN_SHARE;
	if (x->regular)
		placed_put(s, &s->silent);
	if (x->own_rules)
		placed_put(s, &s->foreign);
}

/* Counts what trying a padded start has shown. If that alone does not prove the start, adds it to a list for
 * starts_learn(). `prologue`: the code begins with a prologue. */
static void padded_note(struct starts *s, uint64_t start, enum verdict v, bool prologue)
{
	if (prologue) {
		s->shown.proven += v == START_PROVEN || v == START_FOREIGN;
		s->shown.foreign += v == START_FOREIGN;
	}
	s->shown.refuted += v == START_REFUTED;
	if (v == START_FOREIGN)
		list_put(&s->foreign, start);
	else if (v == START_SILENT || (v == START_PROVEN && !prologue))
		list_put(&s->silent, start);
}

/* ---- trying them ------------------------------------------------------------------------------ */

static bool is_padded(const struct starts *s, uint64_t addr) { return word_has(s->padded.list, s->padded.count, addr); }

/*
 * Tries candidate i of the n candidates in s->list: does it end as a function does, where one of the next RUNS_MOST
 * candidates begins? A padded candidate ends before the next padded one.
 */
static enum verdict candidate_try(const struct work *w, struct starts *s, const struct code_range *p, size_t i,
                                  size_t n, uint64_t end)
{
	bool padded = is_padded(s, s->list[i]);
	enum verdict v = START_REFUTED;
	size_t runs;

	for (runs = 1; v < START_FOREIGN && runs <= RUNS_MOST && i + runs <= n; runs++) {
		uint64_t stop = i + runs < n ? s->list[i + runs] : end;

		if (stop - s->list[i] > TRIED_MOST)
			break;
		v = start_try(w, &s->flow, p, s->list[i], stop);
		if (padded && is_padded(s, stop))
			break;
	}
	return v;
}

/* Should a candidate be accepted, after trying it has given `v`? */
static bool candidate_judge(struct starts *s, const struct code_range *p, uint64_t start, enum verdict v)
{
	const uint8_t *bytes = p->bytes + (start - p->start);
	bool prologue = begins_function(s, bytes, p->end - start, start), padded = is_padded(s, start);
	bool keeps = v == START_PROVEN && (padded ? prologue : !s->padded_only);

	if (padded)
		padded_note(s, start, v, prologue);
	else if (v == START_FOREIGN && s->shown.own_rules && !s->padded_only && start % FUNCTION_ALIGN == 0)
		keeps = true;
	if (keeps && (padded || v == START_FOREIGN))
		list_put(&s->placed, start);
	return keeps;
}

void starts_try(const struct work *w, struct starts *s, const struct code_range *p, size_t from, uint64_t end)
{
	size_t i, k, n;
	uint64_t done = 0;

	n = from + words_unique(s->list + from, s->count - from);
	for (i = k = from; i < n; i++) {
		uint64_t start = s->list[i];

		if (start < done || !candidate_judge(s, p, start, candidate_try(w, s, p, i, n, end)))
			continue;
		done = start + s->flow.found.extent;
		s->list[k++] = start;
	}
	s->count = k;
}
