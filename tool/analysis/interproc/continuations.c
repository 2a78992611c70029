/* SPDX-License-Identifier: MIT */
/*
 * Continuations: assembly may put an address of its own code into a register, and then jump or call; the code that runs
 * next ends with a jump through that register. Nothing else says where this jump leads. Its target is no function: it
 * runs in the frame of the code that jumps there. The code that passes the address on determines that frame, if all
 * code that it jumps to or calls has rsp at the same place when it jumps through the register (continuation_walk.c).
 * This pass runs between rounds, as a stage of the file.
 *
 * A code range is a continuation if only code takes its address, and each time passes it on in this way.
 */
#include "analysis/interproc/continuation_walk.h"
#include "analysis/interproc/other_frames.h"
#include "analysis/interproc/rounds.h"
#include "support/memory.h"
#include "shared/search.h"

#include <stdlib.h>

#define ALL_REGISTERS 0xffffu

/* What is known so far about whether a code range is a continuation. */
enum { NOT_ONE, PERHAPS, IS_ONE };

struct continuations {
	struct flow_continuation *list;
	size_t count, capacity;
	uint8_t *is; /* by number of a code range: NOT_ONE, PERHAPS or IS_ONE */
};

/* Returns the registers through which code without an FDE jumps to unknown targets. */
static uint16_t jumped_through(const struct work *w)
{
	uint16_t by = 0;
	size_t i;

	for (i = 0; i < w->ranges.count; i++)
		if (w->ranges.list[i].fde < 0 && !w->ranges.list[i].plt)
			by |= w->state[i].jumps_by;
	return by;
}

/* Is the code range known only by references, neither by a symbol nor by an FDE or the PLT? */
static bool is_inferred(const struct code_range *p) { return p->inferred && p->fde < 0 && !p->plt; }

/* Do the references to a code range allow it to be a continuation? */
static bool may_be_one(const struct work *w, size_t i)
{
	const struct code_range *p = &w->ranges.list[i];
	const struct range_state *s = &w->state[i];

	return is_inferred(p) && !p->named && !p->outermost && !(s->evidence & EVIDENCE_FUNCTION) &&
	       !(s->entered & ENTRY_CALLED) && s->settling == SETTLING;
}

/* Returns the register into which the instruction at `addr` puts the address `label`, and sets *end to the end of the
 * instruction. Returns INSN_NO_REG if it does no such thing. */
static unsigned taken_into(const struct work *w, uint64_t addr, uint64_t label, uint64_t *end)
{
	const struct code_section *s = space_at(&w->out->space, addr);
	struct step in;

	if (!s || !step_decode(NULL, s->bytes + (addr - s->addr), s->size - (addr - s->addr), addr, &in))
		return INSN_NO_REG;
	*end = addr + in.len;
	return (in.op == STEP_ADDRESS || in.op == STEP_CONST) && in.a < 16 && (uint64_t)in.imm == label ? in.a
	                                                                                                : INSN_NO_REG;
}

/* Follows the address that a link takes, and adds the result to `all`. Returns false if nothing shows that the address
 * is passed on to a jump. */
static bool link_follow(const struct work *w, struct continuation_walk *c, struct continuations *all, uint16_t by,
                        const struct link *x)
{
	uint64_t at = w->ranges.list[w->graph.place[x->from]].start + x->next, end;
	unsigned r = taken_into(w, at, x->target, &end);
	struct passed found;

	if (r >= 16 || !(by >> r & 1))
		return false;
	continuation_follow(c, end, r, &found);
	if (!((found.by[BY_JUMP] | found.by[BY_CALL]) >> r & 1) && found.waits >> r & 1) {
		continuation_follow_waiting(c, w->ranges.list[w->graph.place[x->from]].start, at, &found);
		found.by[BY_CALL] = 0;
		found.by[BY_JUMP] = found.jumps[BY_JUMP] ? ALL_REGISTERS : 0;
	}
	if ((found.unsure && !found.differ) || !((found.by[BY_JUMP] | found.by[BY_CALL]) >> r & 1))
		return false;
	if (found.unsure && continuation_returns(c, x->target))
		found = (struct passed){.by[BY_CALL] = (uint16_t)(1u << r)};
	mem_reserve(&all->list, &all->capacity, all->count, sizeof(*all->list));
	all->list[all->count++] = (struct flow_continuation){
		.at = at,
		.label = x->target,
		.jumped = !found.unsure && found.by[BY_JUMP] >> r & 1,
		.called = !found.unsure && found.by[BY_CALL] >> r & 1,
		.unknown = found.unsure,
		.jump_moved = found.moved[BY_JUMP],
		.call_moved = found.moved[BY_CALL],
		.writes = found.writes,
	};
	return true;
}

/* Adds a doubt: the address of a continuation of an earlier run is also taken without being passed on to a jump, so no
 * frame is certain there. */
static void link_doubt(const struct work *w, struct continuations *all, const struct link *x)
{
	mem_reserve(&all->list, &all->capacity, all->count, sizeof(*all->list));
	all->list[all->count++] = (struct flow_continuation){
		.at = w->ranges.list[w->graph.place[x->from]].start + x->next, .label = x->target, .unknown = true};
}

/* Follows the addresses that code takes. A continuation in the middle of a code range has other predecessors as well,
 * and is no code range of its own. */
static void links_follow(const struct work *w, struct continuations *all, uint16_t by)
{
	struct continuation_walk *c = w->frames.walk;
	size_t i;

	for (i = 0; i < w->graph.calls.count; i++) {
		const struct link *x = &w->graph.calls.list[i]; /* link.to may date from before a cut at the target */
		uint32_t to = x->kind == EXIT_REF ? range_number(&w->env, x->target) : NO_RANGE;
		bool start = to != NO_RANGE && w->ranges.list[to].start == x->target;

		if (to == NO_RANGE || !is_inferred(&w->ranges.list[to]) || (start && all->is[to] == NOT_ONE))
			continue;
		if (link_follow(w, c, all, by, x)) {
			if (start)
				all->is[to] = IS_ONE;
		} else if (start && w->state[to].evidence & (EVIDENCE_CONTINUED | EVIDENCE_RETURNED)) {
			link_doubt(w, all, x);
		} else if (start) {
			all->is[to] = NOT_ONE;
		}
	}
	continuation_walk_rest(c);
}

static int continuation_order(const void *a, const void *b)
{
	const struct flow_continuation *x = a, *y = b;

	return x->at < y->at ? -1 : x->at > y->at;
}

/* Did an earlier run find the same continuation, with the same frame? */
static bool is_old(const struct work *w, const struct flow_continuation *x)
{
	size_t n = w->env.continuation_count, i = SEARCH(n, k, w->frames.continuations[k].at < x->at);

	const struct flow_continuation *y = &w->frames.continuations[i];

	return i < n && y->at == x->at && y->unknown == x->unknown && y->jumped == x->jumped && y->called == x->called &&
	       y->jump_moved == x->jump_moved && y->call_moved == x->call_moved && y->writes == x->writes;
}

/* Makes code range number `to` a continuation. */
static void range_take(struct work *w, uint32_t to, const struct flow_continuation *x)
{
	struct range_state *s = &w->state[to];
	bool returned = x->called && !x->jumped && !x->call_moved;

	s->evidence |= returned ? EVIDENCE_RETURNED : EVIDENCE_CONTINUED;
	s->frame = FRAME_OWN;
	touched_add(w, s);
}

/* Makes code ranges continuations, and marks these and the code ranges that pass their addresses on. Returns whether
 * any continuation is new. */
static bool continuations_take(struct work *w, struct continuations *all)
{
	size_t i, k, fresh = 0;

	for (i = k = 0; i < all->count; i++) {
		const struct flow_continuation *x = &all->list[i];
		uint32_t to = range_number(&w->env, x->label), from = range_number(&w->env, x->at);
		bool start = w->ranges.list[to].start == x->label;

		if (start && all->is[to] != IS_ONE)
			continue;
		if (!is_old(w, x) || (start && !(w->state[to].evidence & (EVIDENCE_CONTINUED | EVIDENCE_RETURNED)))) {
			if (start)
				range_take(w, to, x);
			w->state[to].run |= RUN_NEWS;
			w->state[from].run |= RUN_NEWS;
			fresh++;
		}
		all->list[k++] = *x;
	}
	if (k)
		qsort(all->list, k, sizeof(*all->list), continuation_order);
	free(w->frames.continuations);
	w->env.continuations = w->frames.continuations = all->list;
	w->env.continuation_count = k;
	return fresh != 0;
}

/*
 * Forgets the states that edges have brought so far, since they may come from continuations whose frames were unknown
 * then. Marks the code ranges that have edges.
 */
static void edges_forget(struct work *w)
{
	size_t i, k;

	for (i = 0; i < w->ranges.count; i++) {
		struct range_state *s = &w->state[i];

		if (w->ranges.list[i].fde >= 0 || !(s->edges_seen || range_rare(s)->joins || range_is_only_led_to(s)))
			continue;
		if (s->edges_seen) { /* it is code, which no edge will show in the next round */
			s->evidence |= EVIDENCE_LED;
			touched_add(w, s);
		}
		s->joined = false;
		joins_clear(s);
		s->edge_runs = 0;
		s->edges_seen = 0;
		s->run |= RUN_NEWS;
	}
	for (i = k = 0; i < w->graph.edges.count; i++)
		if (!w->state[w->graph.edges.list[i].from].run)
			w->graph.edges.list[k++] = w->graph.edges.list[i];
	w->graph.edges.count = k;
}

bool continuations_find(struct work *w)
{
	struct continuations all = {0};
	uint16_t by = elf_is_object(w->file) || w->env.own_stack ? 0 : jumped_through(w);
	bool fresh;
	size_t i;

	w->frames.continuation_runs++;
	if (!by)
		return false;
	if (!w->frames.walk)
		w->frames.walk = continuation_walk_new(w);
	all.is = mem_zero(w->ranges.count, sizeof(*all.is));
	for (i = 0; i < w->ranges.count; i++)
		all.is[i] = may_be_one(w, i) ? PERHAPS : NOT_ONE;
	links_follow(w, &all, by);
	fresh = continuations_take(w, &all);
	if (fresh)
		edges_forget(w);
	free(all.is);
	return fresh;
}
