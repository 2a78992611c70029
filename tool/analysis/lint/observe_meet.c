/* SPDX-License-Identifier: MIT */
/*
 * Adds ETCH-S001 where paths join with different frames. The states of the flow analysis cannot show this, since they
 * are the results of the joins. So the basic blocks are solved once more, in a domain whose join keeps the state that
 * arrives first. If a later one arrives with another rsp, that is the finding.
 */
#include "analysis/dataflow/solver.h"
#include "analysis/lint/observe_internal.h"
#include "support/memory.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

/* An arrival by falling through a call. It is postponed until all other states have arrived: if it differs from them,
 * the call probably does not return, and there is no finding. */
struct late {
	struct state state;
	uint32_t from; /* offset of the last instruction of the path */
	uint32_t to;   /* offset of the basic block where the path arrives */
};

#define MEETINGS_MOST 16u /* limit for the findings per code range: one mismatch often causes others after it */

/* The first arrival at a basic block. */
struct arrival {
	struct state state;
	uint32_t from; /* offset of the instruction from which it came; NO_STEP: control enters here */
	bool here;     /* a state has arrived */
	bool reported; /* a finding names this arrival and a later one */
};

/* The domain. Its nodes are the states (basic blocks) of the flow analysis, by index. */
struct meet {
	struct observe *o;
	struct arrival *first; /* per node */
	struct worklist list;
	struct late *late;
	size_t late_count, late_capacity;
	/* Number of nodes with a finding, including findings beyond MEETINGS_MOST, which are not added. */
	unsigned reported;
	bool *lost; /* result, per node: the join of paths here loses the frame */
};

/* Adds ETCH-S001 at node k: its first arrival differs from state *s, which comes from offset `from`. */
static void meeting_report(struct meet *m, uint32_t k, const struct state *s, uint32_t from)
{
	struct observe *o = m->o;
	const struct arrival *a = &m->first[k];
	uint64_t off = o->f->step_at[o->f->step_of_state[k]];
	char words[DESCRIPTION_MOST], insn[DESCRIPTION_MOST];
	const struct state *state[] = {&a->state, s};
	uint32_t at[] = {a->from, from};
	struct finding *x;
	unsigned i;

	x = OBSERVE(o, "ETCH-S001", 0, o->f->in.range->start + off, "paths meet here with rsp at CFA%+d and at CFA%+d",
	            a->state.reg[ETCH_REG_RSP].off, s->reg[ETCH_REG_RSP].off);
	for (i = 0; i < 2; i++) {
		const char *label = i ? "the other path" : "one path";

		describe_state(state[i], words);
		if (at[i] == NO_STEP) {
			finding_fact(x, label, "from the start: %s", words);
		} else {
			describe_insn(o, at[i], insn);
			OBSERVE_FACT_AT(o, x, at[i], label, "%s: %s", insn, words);
		}
	}
}

/* Does an offset lie inside another instruction that flow has reached? Then one of the two instructions never runs. */
static bool is_inside(const struct meet *m, uint32_t off)
{
	const struct flow *f = m->o->f;
	uint32_t k;

	for (k = 1; off != NO_STEP && k < INSN_LONGEST && k <= off; k++)
		if (flow_walked(f, off - k) && f->steps[f->at[off - k] - 1].len > k)
			return true;
	return false;
}

/* Does a difference in rsp lose the frame? Not if both states have the frame in rbp, and rsp is known again at all
 * exits. */
static bool matters(const struct meet *m, const struct state *s, const struct state *other)
{
	struct value a = s->reg[ETCH_REG_RBP], b = other->reg[ETCH_REG_RBP];

	return m->o->f->found.exit_sp_unknown || a.kind != VALUE_CFA || b.kind != VALUE_CFA || a.off != b.off;
}

/* A state that is passed to a basic block. */
struct incoming_state {
	const struct state *state;
	uint32_t from; /* offset of the instruction from which it comes; NO_STEP: control enters here */
	bool late;     /* it comes from falling through a call, so that a difference is no finding */
};

/* Keeps the first state that arrives. Reports a later one with another rsp, unless one of the two paths is doubtful. */
static bool meet_join(void *ctx, uint32_t k, const void *state)
{
	struct meet *m = ctx;
	const struct incoming_state *c = state;
	const struct state *s = c->state;
	struct arrival *a = &m->first[k];
	struct value mine = s->reg[ETCH_REG_RSP], its = a->state.reg[ETCH_REG_RSP];

	if (!a->here) {
		state_copy(&a->state, s);
		a->from = c->from;
		return a->here = true;
	}
	if (a->reported || c->late || !m->o->certain || m->o->f->states[k].dead || s->dead)
		return false;
	if (mine.kind != VALUE_CFA || its.kind != VALUE_CFA || mine.off == its.off)
		return false;
	if (s->weak || a->state.weak || !matters(m, s, &a->state) || is_inside(m, c->from) || is_inside(m, a->from))
		return false;
	a->reported = true;
	m->lost[k] = true;
	if (m->reported++ < MEETINGS_MOST)
		meeting_report(m, k, s, c->from);
	return false;
}

static void meet_transfer(void *ctx, uint32_t k);

static const struct dataflow_domain meetings = {.join = meet_join, .transfer = meet_transfer};

/* Passes a state to the basic block at an offset, if one begins there. */
static void arrive(struct meet *m, uint64_t off, const struct incoming_state *c)
{
	const struct flow *f = m->o->f;

	if (off < m->o->size && f->at[off] && f->leader[f->at[off] - 1])
		dataflow_pass(&meetings, &m->list, m, f->leader[f->at[off] - 1] - 1, c);
}

/* Postpones an arrival at an offset by falling through a call. */
static void wait(struct meet *m, uint64_t off, const struct state *s, uint32_t from)
{
	struct late *l;

	mem_reserve(&m->late, &m->late_capacity, m->late_count, sizeof(*m->late));
	l = &m->late[m->late_count++];
	state_copy(&l->state, s);
	l->from = from;
	l->to = (uint32_t)off;
}

/* Walks through basic block k from its first state, and passes the resulting states to the blocks to which it leads.
 * Padding after a call counts as part of the call. */
static void meet_transfer(void *ctx, uint32_t k)
{
	struct meet *m = ctx;
	struct flow *f = m->o->f;
	uint64_t start = f->step_at[f->step_of_state[k]], off = start;
	struct compared c = {0};
	struct state s;
	uint32_t from = NO_STEP;
	bool called = false;

	state_copy(&s, &m->first[k].state);
	while (off < m->o->size && flow_walked(f, off)) {
		uint32_t i = f->at[off] - 1;
		const struct step *in = &f->steps[i];

		if (f->leader[i] && off != start) {
			if (called)
				wait(m, off, &s, from);
			else
				arrive(m, off, &(struct incoming_state){&s, from, false});
			return;
		}
		if (in->flow == FLOW_JUMP || in->flow == FLOW_BRANCH)
			arrive(m, (uint64_t)in->imm - f->in.range->start, &(struct incoming_state){&s, (uint32_t)off, false});
		if (!observe_goes_on(m->o, in) || flow_is_exit(in, &s))
			return;
		if (!called || !in->padding)
			from = (uint32_t)off;
		called = in->flow == FLOW_CALL || in->flow == FLOW_CALL_IND || (called && in->padding);
		flow_advance(in, &s, (uint32_t)off, &c);
		off += in->len;
	}
}

/* Does .eh_frame contradict a state at an offset? */
static bool cfi_denies(const struct meet *m, uint64_t off, const struct state *s)
{
	const struct etch_cfi_row *row = observe_cfi(m->o, m->o->f->in.range->start + off);

	return row && state_witness(s, &row->rule) == WITNESS_DENIES;
}

/* Does .eh_frame agree with the code at the call, but contradict it after the call? Then whoever wrote .eh_frame knew
 * that the call does not return. */
static bool is_end(const struct meet *m, const struct late *l)
{
	return cfi_denies(m, l->to, &l->state) && !cfi_denies(m, l->from, &l->state);
}

/* Solves, then passes on the postponed arrivals one by one, since each may lead to further ones. */
static void meet_solve(struct meet *m)
{
	dataflow_solve(&meetings, &m->list, m);
	while (m->late_count) {
		struct late l = m->late[--m->late_count];

		if (!is_end(m, &l))
			arrive(m, l.to, &(struct incoming_state){&l.state, l.from, true});
		dataflow_solve(&meetings, &m->list, m);
	}
}

/* Solves from all roots, in order of address: from the start, then from each live basic block that no path has reached
 * yet (entries inside the code range, landing pads, targets of jump tables). */
static void meet_all(struct meet *m)
{
	struct flow *f = m->o->f;
	uint64_t off;

	for (off = 0; off < m->o->size; off++) {
		uint32_t k;

		if (!flow_walked(f, off) || !(k = f->leader[f->at[off] - 1]))
			continue;
		k--;
		if (m->first[k].here || !(f->state_live[k] & LIVE) || f->states[k].dead)
			continue;
		if (off == 0 && f->in.start != START_PART) {
			state_entry(&m->first[k].state);
			m->first[k].state.reg[ETCH_REG_RSP].off -= f->in.pushed;
			/* A landing pad cannot be at offset 0 of its range, so clang puts a nop there that is never executed. */
			m->first[k].state.weak = f->steps[f->step_of_state[k]].padding && !f->in.range->named;
		} else {
			state_copy(&m->first[k].state, &f->states[k]);
		}
		m->first[k].from = NO_STEP;
		m->first[k].here = true;
		dataflow_visit(&meetings, &m->list, m, k);
		meet_solve(m);
	}
}

void observe_meet(struct observe *o, bool *lost)
{
	struct meet m = {.o = o, .first = mem_zero(o->f->state_count + 1, sizeof(*m.first)), .lost = lost};

	meet_all(&m);
	free(m.first);
	worklist_free(&m.list);
	free(m.late);
}
