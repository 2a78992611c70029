/* SPDX-License-Identifier: MIT */
/* The transfer function of one instruction. It applies state_transfer(), remembers the last compare, refines the state
 * by what a branch after that compare proves about the compared values, and tells whether the unwind rule may have
 * changed. */
#include "analysis/flow/flow_internal.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* May the instruction change register r? */
static bool changes(const struct step *in, unsigned r)
{
	switch (in->op) {
	case STEP_PUSH:
	case STEP_PUSH2: return r == ETCH_REG_RSP || (in->writes >> r & 1);
	case STEP_LEAVE:
	case STEP_ENTER: return true;
	case STEP_NONE:
	case STEP_STORE:
	case STEP_COMPARE:
	case STEP_LIMIT: return in->writes >> r & 1;
	case STEP_ENTRY:
	case STEP_FETCH:
	case STEP_LOAD:
	case STEP_MOVE:
	case STEP_EXTEND:
	case STEP_ADDRESS: return in->a == r || (in->writes >> r & 1);
	case STEP_POP2: return r == ETCH_REG_RSP || in->a == r || in->b == r;
	default: return in->a == r || in->b == r || (in->writes >> r & 1);
	}
}

/* May the instruction overwrite memory near the address in register `base`? A store relative to rsp is assumed to be a
 * spill, which cannot overwrite memory that code addresses by registers other than rsp and rbp. */
static bool stores_at(const struct step *in, unsigned base)
{
	return (in->op == STEP_STORE || in->op == STEP_EXCHANGE) &&
	       (in->b != ETCH_REG_RSP || base == ETCH_REG_RSP || base == ETCH_REG_RBP);
}

/* Refines the state on one side of a branch by what the branch's outcome says about the operands of the last
 * compare. */
static void learn(const struct compared *c, unsigned cond, bool taken, struct state *s)
{
	static const uint8_t opposite[] = {
		[COND_OTHER] = COND_OTHER,       [COND_EQUAL] = COND_NOT_EQUAL,   [COND_NOT_EQUAL] = COND_EQUAL,
		[COND_ABOVE] = COND_BELOW_EQUAL, [COND_ABOVE_EQUAL] = COND_BELOW, [COND_BELOW] = COND_ABOVE_EQUAL,
		[COND_BELOW_EQUAL] = COND_ABOVE,
	};

	if (!taken)
		cond = opposite[cond];
	if (c->op == STEP_COMPARE && cond == COND_EQUAL)
		state_equal(s, c->a, c->b);
	else if (c->op == STEP_LIMIT && c->a != INSN_NO_REG && (cond == COND_BELOW_EQUAL || cond == COND_BELOW))
		state_limit(s, c->a, cond == COND_BELOW ? c->imm - 1 : c->imm);
	else if (c->op == STEP_LIMIT && c->a != INSN_NO_REG && cond == COND_NOT_EQUAL && c->size >= 4)
		state_not(s, c->a, c->imm);
}

bool flow_may_learn(const struct compared *c, unsigned cond, const struct state *s)
{
	if (c->op == STEP_COMPARE)
		return (cond == COND_EQUAL || cond == COND_NOT_EQUAL) &&
		       (s->reg[c->a].kind == VALUE_CFA) != (s->reg[c->b].kind == VALUE_CFA);
	if (c->op != STEP_LIMIT || c->a == INSN_NO_REG || cond == COND_OTHER)
		return false;
	return (cond != COND_EQUAL && cond != COND_NOT_EQUAL) || s->reg[c->a].kind == VALUE_BELOW;
}

/* Recomputes c->killed_by and c->watch, which flow_idle() uses. Called after each change of c->op or c->bound. */
static void compared_watch(struct compared *c)
{
	c->killed_by = c->bound.size || (c->op == STEP_LIMIT && c->a == INSN_NO_REG) ? EFFECT_ALL : 0;
	c->killed_by |= c->op != STEP_NONE ? EFFECT_FLAGS : 0;
	c->watch = 0;
	if (c->op != STEP_NONE)
		c->watch = (uint16_t)((c->a < 16 ? 1u << c->a : 0) | (c->b < 16 ? 1u << c->b : 0));
}

/* Records an instruction that writes flags as the last compare, if a branch after it can refine a state; otherwise
 * there is no last compare. */
static void compared_set(struct compared *c, const struct step *in, const struct state *s)
{
	c->op = STEP_NONE;
	if (in->op == STEP_COMPARE && (s->reg[in->a].kind == VALUE_CFA) == (s->reg[in->b].kind == VALUE_CFA))
		return; /* learn() needs exactly one CFA-relative operand */
	if (in->op != STEP_COMPARE && (in->op != STEP_LIMIT || !s->constants))
		return;
	c->op = in->op;
	c->a = in->a;
	c->b = in->b;
	c->size = in->size;
	c->disp = in->disp;
	c->imm = in->imm;
}

/* Transforms the state before a branch into the state on its fall-through edge. */
static void advance_branch(const struct step *in, struct state *s, uint32_t off, struct compared *c)
{
	if (c->op != STEP_NONE)
		learn(c, in->cond, false, s);
	if (c->op == STEP_LIMIT && c->a == INSN_NO_REG && (in->cond == COND_ABOVE || in->cond == COND_ABOVE_EQUAL)) {
		c->bound.base = c->b;
		c->bound.size = c->size;
		c->bound.disp = c->disp;
		c->bound.most = in->cond == COND_ABOVE ? c->imm : c->imm - 1;
		c->killed_by |= EFFECT_ALL;
	}
	if (in->writes) /* LOOP counts in rcx */
		state_transfer(s, in, off);
}

/* Forgets the last compare, or the bound of a value in memory, if the instruction may change what it depends on. If the
 * instruction writes flags, it may become the last compare. */
static void compared_advance(const struct step *in, const struct state *s, struct compared *c)
{
	if (c->bound.size && (changes(in, c->bound.base) || stores_at(in, c->bound.base)))
		c->bound.size = 0;
	if (in->cond)
		compared_set(c, in, s);
	else if (c->op != STEP_NONE && ((c->a < 16 && changes(in, c->a)) || (c->b < 16 && changes(in, c->b)) ||
	                                (c->a == INSN_NO_REG && stores_at(in, c->b))))
		c->op = STEP_NONE;
	compared_watch(c);
}

static void advance_call(struct state *s, struct compared *c)
{
	state_call(s);
	c->op = STEP_NONE;
	c->bound.size = 0;
	compared_watch(c);
}

/* The transfer function of an instruction with FLOW_NEXT. `leaves` is the result of state_leaves(). */
static inline void advance_next(const struct step *in, struct state *s, uint32_t off, struct compared *c, bool leaves)
{
	bool bounded;

	if (in->op == STEP_NONE && !in->writes) { /* mostly vector instructions */
		if (in->cond)
			c->op = STEP_NONE;
		compared_watch(c);
		return;
	}
	bounded = c->bound.size && (in->op == STEP_FETCH || in->op == STEP_LOAD) && in->b == c->bound.base &&
	          in->disp == c->bound.disp && (in->op == STEP_LOAD ? 8 : in->size) == c->bound.size;
	if (!leaves)
		state_transfer(s, in, off);
	if (bounded)
		state_limit(s, in->a, c->bound.most);
	if (in->cond | c->op | c->bound.size)
		compared_advance(in, s, c);
}

void flow_advance_slowly(const struct step *in, struct state *s, uint32_t off, struct compared *c)
{
	if (in->flow == FLOW_NEXT)
		advance_next(in, s, off, c, state_leaves(s, in));
	else if (in->flow == FLOW_BRANCH)
		advance_branch(in, s, off, c);
	else if (flow_is_call(in->flow))
		advance_call(s, c);
}

/* Do x and y describe the same compare and the same bound of a value in memory? */
static bool compared_same(const struct compared *x, const struct compared *y)
{
	return x->op == y->op && x->bound.size == y->bound.size &&
	       (x->op == STEP_NONE ||
	        (x->a == y->a && x->b == y->b && x->size == y->size && x->disp == y->disp && x->imm == y->imm)) &&
	       (!x->bound.size ||
	        (x->bound.base == y->bound.base && x->bound.disp == y->bound.disp && x->bound.most == y->bound.most));
}

void flow_idle_check(const struct step *in, const struct state *s, const struct compared *c)
{
	struct compared then = *c;
	struct state done;

	state_copy(&done, s);
	flow_advance_slowly(in, &done, 0, &then);
	if (in->flow == FLOW_NEXT && !flow_is_exit(in, s) && state_same(&done, s) && compared_same(&then, c))
		return;
	fprintf(stderr, "flow: an instruction of kind %u was to be passed over\n", in->op);
	abort();
}

/* Returns the mask of the registers that an instruction changes, if it changes nothing else in the state. Otherwise
 * returns the mask of rsp, so that the caller assumes a change of the unwind rule. */
static inline __attribute__((always_inline)) unsigned changed_registers(const struct step *in)
{
	switch (in->op) {
	case STEP_NONE:
	case STEP_COMPARE:
	case STEP_LIMIT: return in->writes;
	case STEP_MOVE:
	case STEP_ADDRESS:
	case STEP_ADD:
	case STEP_LOAD:
	case STEP_SUM:
	case STEP_ADDREG:
	case STEP_SUBREG:
	case STEP_CONST:
	case STEP_FETCH:
	case STEP_ENTRY:
	case STEP_EXTEND: return in->writes | 1u << in->a;
	default: return 1u << ETCH_REG_RSP;
	}
}

/* Can an unwind rule be made from the value of any register in the mask? */
static inline bool any_rules(const struct state *s, unsigned mask)
{
	for (; mask; mask &= mask - 1)
		if (state_rules(s, (unsigned)__builtin_ctz(mask)))
			return true;
	return false;
}

/* Does the unwind rule of a state not depend on the values of the registers in the mask, which has neither rsp nor rbp?
 */
static inline bool is_rule_kept(const struct state *s, unsigned mask)
{
	return !any_rules(s, mask) || state_rule_by_frame(s);
}

/* Implements flow_advance_same() for branches, calls and instructions that end a path. */
static __attribute__((noinline)) bool advance_way_same(const struct step *in, struct state *s, uint32_t off,
                                                       struct compared *c)
{
	const unsigned frame = 1u << ETCH_REG_RSP | 1u << ETCH_REG_RBP;
	unsigned slots = s->slot_count;
	bool same;

	if (in->flow == FLOW_BRANCH)
		same = c->op != STEP_COMPARE && !in->writes;
	else /* weak states: is_anchored() of unwind/row_choice.c treats rows after calls differently */
		same = flow_is_call(in->flow) && !s->weak && is_rule_kept(s, s->known & ~(frame | STEP_CALLEE_SAVED));
	flow_advance_slowly(in, s, off, c);
	return same && s->slot_count == slots;
}

static inline bool advance_same(const struct step *in, struct state *s, uint32_t off, struct compared *c)
{
	const unsigned frame = 1u << ETCH_REG_RSP | 1u << ETCH_REG_RBP;
	unsigned slots = s->slot_count, changed = 0;
	bool same, leaves;

	if (in->flow != FLOW_NEXT)
		return advance_way_same(in, s, off, c);
	leaves = state_leaves(s, in);
	if (leaves) {
		same = true;
	} else if (in->op == STEP_STORE && !in->writes) {
		same = in->a >= 16 || (s->reg[in->a].kind != VALUE_ENTRY && s->reg[in->a].kind != VALUE_CFA);
	} else {
		changed = changed_registers(in);
		same = !(changed & frame) && is_rule_kept(s, changed);
	}
	advance_next(in, s, off, c, leaves); /* not flow_advance(): the walk has already tested flow_idle() */
	return same && s->slot_count == slots && is_rule_kept(s, changed);
}

bool flow_advance_same(const struct step *in, struct state *s, uint32_t off, struct compared *c)
{
#ifdef ETCH_CHECK_STEPS
	struct etch_rule before, after;
	bool same;

	state_rule(s, &before);
	same = advance_same(in, s, off, c);
	state_rule(s, &after);
	if (!same || !memcmp(&before, &after, sizeof(before)))
		return same;
	fprintf(stderr, "flow: an instruction of kind %u changes a rule that is said to stay\n", in->op);
	abort();
#else
	return advance_same(in, s, off, c);
#endif
}

void flow_branch_taken(const struct step *in, struct state *s, uint32_t off, const struct compared *c)
{
	if (c->op != STEP_NONE)
		learn(c, in->cond, true, s);
	if (in->writes)
		state_transfer(s, in, off);
}
