/* SPDX-License-Identifier: MIT */
/* Divides a function into basic blocks, and implements the domain of object addresses for the dataflow solver. A last
 * pass over the blocks reports each use. */
#include "analysis/addresses/track_internal.h"

#include "shared/search.h"
#include "support/memory.h"
#include "support/sort.h"

#include <stdlib.h>
#include <string.h>

/* ---- addresses that meet only in order to be set --------------------------------- */

/*
 * If a function sets one of several objects, their addresses meet in one register. That register is then passed to the
 * lea of ETCH_ADDR, and used for nothing else.
 */

/* Limit for the number of instructions between the join and the point where the register is overwritten. */
#define ONLY_SET_REACH 32

/* Does an instruction give the register a new value that does not depend on the old one? */
static bool is_overwritten(const struct track *t, const struct insn *in, unsigned reg)
{
	const uint8_t *bytes = func_bytes_of(t->f->fn, in);

	switch (in->move) {
	case MOVE_COPY:
	case MOVE_IMM:
	case MOVE_LOAD:
	case MOVE_ADDRESS: return in->dst == reg;
	case MOVE_NONE: return (in->writes >> reg & 1) && insn_clears_register(bytes, in);
	default: return false;
	}
}

/* Does a call change the register, without getting it as an argument? */
static bool ends_with_call(const struct track *t, const struct insn *in, unsigned reg)
{
	uint16_t clobbered = insn_call_clobbers();

	if (in->callee >= 0 && t->f->clobbers) {
		if (t->f->clobbers->vague[in->callee])
			return false;
		if (func_is_start(t->f->clobbers, in->callee, in->entry))
			clobbered &= func_clobbers(t->f->clobbers, in->callee);
	}
	return (clobbered & ~track_passed(t, in, insn_call_arguments())) >> reg & 1;
}

bool track_only_set(const struct track *t, size_t insn, unsigned reg)
{
	const struct func_code *c = t->f->code;
	unsigned n;

	if (t->f->entries->fault_count)
		return false; /* a fixup would see the value of the register */
	for (n = 0; n < ONLY_SET_REACH && insn < c->count; n++, insn++) {
		const struct insn *in = &c->insns[insn];
		bool of_set = in->no_escape && in->mem == MEM_ADDRESS && in->base == reg && in->index == INSN_NO_REG;

		if (in->newer || in->string ||
		    ((insn_uses(in) >> reg & 1) && !of_set && !frame_push_is_overwritten(t->f, insn)))
			return false;
		if (is_overwritten(t, in, reg))
			return true;
		if (in->flow == FLOW_CALL)
			return ends_with_call(t, in, reg);
		if (in->flow == FLOW_JUMP && in->callee < 0) {
			insn = func_insn_at(c, in->target);
			if (insn == SIZE_MAX)
				return false;
			insn--; /* wraps for the first instruction, and is incremented again */
		} else if (in->flow != FLOW_NEXT) {
			return false;
		}
	}
	return false;
}

/* ---- joins ---------------------------------------------------------------------- */

/* Records an escape of an address that a join cannot keep, once per object. */
static void met_add(struct track *t, size_t insn, const struct addr_value *v)
{
	size_t i;

	for (i = 0; i < t->met_count; i++)
		if (t->met[i].object == v->object) {
			t->met[i].beside |= v->beside;
			return;
		}
	mem_reserve(&t->met, &t->met_capacity, t->met_count, sizeof(*t->met));
	t->met[t->met_count++] = (struct use){
		.insn = insn, .kind = USE_ESCAPE, .object = v->object, .got = v->got, .in_register = true, .beside = v->beside};
}

/* Joins a loaded pointer into *a. Returns true if *a has changed. If they are from different slots, the lower slot is
 * kept, so that the result does not depend on the order of joins. */
static bool pointer_join(struct loaded *a, const struct loaded *v)
{
	struct loaded old = *a;

	if (a->object == v->object && a->off == v->off && a->got == v->got) {
		if (v->doubt > a->doubt)
			a->doubt = v->doubt;
	} else {
		if (a->object < 0 || (v->object >= 0 && (v->object < a->object || (v->object == a->object && v->off < a->off))))
			*a = *v;
		a->got = old.got || v->got;
		a->doubt = DOUBT_PATHS;
	}
	return a->object != old.object || a->off != old.off || a->got != old.got || a->doubt != old.doubt;
}

static bool same_places(const struct addr_value *a, const struct addr_value *v)
{
	unsigned k;

	for (k = 0; k < a->more_count && a->more[k] == v->more[k]; k++)
		;
	return a->placed == v->placed && a->more_count == v->more_count && k == a->more_count;
}

static bool same_address(const struct addr_value *a, const struct addr_value *v)
{
	return a->object == v->object && a->exact == v->exact && a->off == v->off && a->got == v->got &&
	       a->beside == v->beside && same_places(a, v) && a->rooted == v->rooted && a->root == v->root &&
	       a->choice == v->choice;
}

static void places_take(struct addr_value *a, const struct addr_value *from)
{
	a->off = from->off;
	a->placed = true;
	a->more_count = from->more_count;
	memcpy(a->more, from->more, sizeof(a->more));
}

/* Do two values, at least one of which is an address, have the same root? A constant has none, and does not count. */
static bool same_root(const struct addr_value *a, const struct addr_value *v)
{
	if (a->object < 0 || v->object < 0)
		return a->object < 0 ? v->rooted : a->rooted;
	return a->rooted && v->rooted && v->root == a->root;
}

/* Joins two addresses of one object, or an address and a constant, into *a. `places`: the places of both; null: not
 * known. */
static void address_join(struct addr_value *a, const struct addr_value *v, const struct addr_value *places)
{
	const struct addr_value old = *a;
	const bool rooted = same_root(a, v);

	if (a->object < 0)
		*a = *v;
	a->exact = old.exact && v->exact && old.object == v->object && old.off == v->off && old.got == v->got;
	a->got = a->got || v->got;
	a->beside = old.beside | v->beside;
	a->rooted = a->exact || rooted;
	/* If a loop advances the address, it is unknown what the loop adds to the root. */
	if (!a->exact && old.object == v->object && a->rooted && v->off != a->off)
		a->off = a->root;
	if (a->exact)
		a->root = a->off;
	if (!a->rooted)
		a->root = a->off = 0;
	track_places_drop(a);
	/* For a loop that begins at one place, that place says more than the list of places does. */
	if (places && !a->exact && (!a->rooted || !places->more_count))
		places_take(a, places);
}

/* Joins two constants into *a. `places`: the values of both; null: not known. */
static void constant_join(struct addr_value *a, const struct addr_value *v, const struct addr_value *places)
{
	a->exact = a->exact && v->exact && a->off == v->off;
	a->off = a->off == v->off ? a->off : 0;
	track_places_drop(a);
	if (places && !a->exact)
		places_take(a, places);
	a->choice |= v->choice;
}

bool track_join(struct track *t, size_t insn, unsigned reg, struct addr_value *a, const struct addr_value *v)
{
	struct addr_value old = *a, places;
	const struct addr_value *joined;

	if (same_address(a, v))
		return false;
	joined = track_places_join(a, v, &places) ? &places : NULL;
	if (a->object >= 0 && v->object >= 0 && a->object != v->object) {
		if (!track_only_set(t, insn, reg)) {
			met_add(t, insn, a);
			met_add(t, insn, v);
		}
		*a = nothing;
	} else if (a->object >= 0 || v->object >= 0) {
		address_join(a, v, joined);
	} else {
		constant_join(a, v, joined);
	}
	return !same_address(a, &old);
}

/* Joins a state into the state before block b. Returns whether that has changed. */
static bool block_join(void *ctx, uint32_t b, const void *state)
{
	struct track *t = ctx;
	struct addr_block *k = &t->blocks[b];
	const struct addr_state *from = state;
	bool changed = !k->in.reached;
	unsigned r;

	if (!k->in.reached) {
		k->in = *from;
		k->in.reached = true;
		return true;
	}
	for (r = 0; r < REGS; r++) {
		changed |= pointer_join(&k->in.ptr[r], &from->ptr[r]);
		if (k->in.table[r] != TABLE_NONE && k->in.table[r] != from->table[r]) {
			k->in.table[r] = TABLE_NONE;
			changed = true;
		}
	}
	for (r = 0; r < REGS; r++)
		changed |= track_join(t, k->first, r, &k->in.reg[r], &from->reg[r]);
	return changed;
}

static void block_transfer(void *ctx, uint32_t b);

static const struct dataflow_domain addresses = {.join = block_join, .transfer = block_transfer};

/* Passes a state to block b. */
static void block_pass(struct track *t, size_t b, const struct addr_state *s)
{
	dataflow_pass(&addresses, &t->list, t, (uint32_t)b, s);
}

/* Returns the index of the block that holds an instruction. */
static size_t block_at(const struct track *t, size_t insn)
{
	return SEARCH(t->block_count, i, t->blocks[i].end <= insn);
}

bool track_is_leader(const struct track *t, size_t i)
{
	size_t b = block_at(t, i);

	return b < t->block_count && t->blocks[b].first == i;
}

/* Is an address in the list of entries, where control may enter from elsewhere or through a jump table? */
static bool is_entry(const struct track_entries *x, uint64_t addr) { return word_has(x->list, x->count, addr); }

static void leader_mark(const struct func_code *c, uint8_t *leader, uint64_t addr)
{
	size_t k = func_insn_at(c, addr);

	if (k != SIZE_MAX)
		leader[k] = 1;
}

/* Marks the instructions that begin a block: targets of jumps, instructions after a jump, entries, landing pads and
 * fixups. */
static void leaders_find(const struct track_func *f, uint8_t *leader)
{
	const struct func_code *c = f->code;
	size_t i;

	leader[0] = 1;
	for (i = 0; i < c->count; i++) {
		const struct insn *in = &c->insns[i];

		if (func_is_jump(in))
			leader_mark(c, leader, in->target);
		if (in->flow != FLOW_NEXT && in->flow != FLOW_CALL && in->flow != FLOW_CALL_IND)
			leader[i + 1] = 1;
		if (is_entry(f->entries, in->addr))
			leader[i] = 1;
	}
	for (i = 0; i < f->entries->pad_count; i++)
		leader_mark(c, leader, f->entries->pads[i].pad);
	for (i = 0; i < f->entries->fault_count; i++)
		leader_mark(c, leader, f->entries->faults[i].to);
}

/* Divides the function into blocks. */
static void blocks_build(struct track *t)
{
	const struct func_code *c = t->f->code;
	uint8_t *leader = mem_zero(c->count + 1, 1);
	size_t i, n = 0, b = 0;

	leaders_find(t->f, leader);
	for (i = 0; i < c->count; i++)
		n += leader[i];
	t->blocks = mem_zero(n + 1, sizeof(*t->blocks));
	for (i = 0; i < c->count; i++) {
		if (leader[i]) {
			if (b)
				t->blocks[b - 1].end = i;
			t->blocks[b++].first = i;
		}
	}
	if (b)
		t->blocks[b - 1].end = c->count;
	t->block_count = b;
	free(leader);
}

/* Follows the edge from a call to its landing pad. Only callee-saved registers keep their values on it. */
static void pad_pass(struct track *t, const struct insn *in, const struct addr_state *after)
{
	uint64_t pad = track_pad_of(t, in->addr);
	size_t k = pad ? func_insn_at(t->f->code, pad) : SIZE_MAX;
	struct addr_state s = *after;
	unsigned r;

	if (k == SIZE_MAX)
		return;
	for (r = 0; r < REGS; r++)
		if (insn_call_clobbers() >> r & 1) {
			s.reg[r] = nothing;
			s.ptr[r] = no_pointer;
		}
	block_pass(t, block_at(t, k), &s);
}

/* Follows the edges from an instruction that may fault to its fixups, with the state before the instruction. */
static void faults_pass(struct track *t, const struct insn *in, const struct addr_state *before)
{
	const struct track_entries *x = t->f->entries;
	size_t i, k;

	for (i = track_fault_from(x, in->addr); i < x->fault_count && x->faults[i].insn == in->addr; i++) {
		k = func_insn_at(t->f->code, x->faults[i].to);
		if (k != SIZE_MAX)
			block_pass(t, block_at(t, k), before);
	}
}

/*
 * Follows the edges from an indirect jump to the targets of the function's jump tables. If the jump goes through such a
 * table, they carry the state before the jump, otherwise nothing is known. Except for pointers that the function may
 * have put on its stack, no pointer to these targets is in memory.
 */
static void switch_pass(struct track *t, const struct insn *in, const struct addr_state *before)
{
	const struct track_entries *x = t->f->entries;
	struct addr_state s = track_is_switch(before, in) ? *before : t->unknown;
	size_t i, k;

	if (in->mem != MEM_NONE && in->base != 4 && in->base != 5)
		return;
	track_pointers_age(&s, -1); /* the edge may lead back to the start of a loop */
	for (i = 0; i < x->count; i++) {
		k = x->by_table[i] ? func_insn_at(t->f->code, x->list[i]) : SIZE_MAX;
		if (k != SIZE_MAX)
			block_pass(t, block_at(t, k), &s);
	}
}

/* Follows the edges from a jump out of the function that begins a detour. */
static void detour_pass(struct track *t, const struct insn *in, const struct addr_state *before)
{
	struct addr_state s = *before;
	struct detour detour;
	size_t i;
	unsigned r;

	if ((!holds_address(&s) && !t->by_detour) || !track_detour(t, in, &detour))
		return;
	for (r = 0; r < REGS; r++)
		if (detour.touched >> r & 1) {
			s.reg[r] = nothing;
			s.ptr[r] = no_pointer;
			s.table[r] = TABLE_NONE;
		}
	track_pointers_age(&s, -1);
	for (i = 0; i < detour.count; i++)
		block_pass(t, block_at(t, detour.back[i]), &s);
}

static void block_transfer(void *ctx, uint32_t b)
{
	struct track *t = ctx;
	const struct func_code *c = t->f->code;
	const struct addr_block *k = &t->blocks[b];
	const struct insn *last = &c->insns[k->end - 1];
	struct addr_state s = k->in;
	size_t i;

	for (i = k->first; i < k->end; i++) {
		faults_pass(t, &c->insns[i], &s);
		if (c->insns[i].flow == FLOW_JUMP_IND)
			switch_pass(t, &c->insns[i], &s);
		track_insn(t, &s, i);
		if (t->f->entries->pad_count && (c->insns[i].flow == FLOW_CALL || c->insns[i].flow == FLOW_CALL_IND))
			pad_pass(t, &c->insns[i], &s);
	}
	if (func_is_jump(last)) {
		size_t to = func_insn_at(c, last->target);

		if (to != SIZE_MAX) {
			struct addr_state taken = s;

			/* This edge leads back to the start of a loop, which may wait for another thread to set the slot. */
			if (last->target <= last->addr)
				track_pointers_age(&taken, -1);
			block_pass(t, block_at(t, to), &taken);
		} else if (track_is_outside(t, last->target)) {
			detour_pass(t, last, &s);
		}
	}
	if (func_falls_through(last) && b + 1 < t->block_count)
		block_pass(t, b + 1, &s);
}

static bool block_is_padding(const struct track *t, size_t b)
{
	size_t i;

	for (i = t->blocks[b].first; i < t->blocks[b].end; i++)
		if (!t->f->code->insns[i].padding)
			return false;
	return true;
}

/* Analyses blocks that no path has reached: control gets there in an unknown way, perhaps from the unwinder. */
static void unreached_solve(struct track *t)
{
	size_t b;

	for (b = 0; b < t->block_count; b++) {
		if (t->blocks[b].in.reached || block_is_padding(t, b))
			continue;
		t->opaque = true;
		block_pass(t, b, &t->unknown);
		dataflow_solve(&addresses, &t->list, t);
	}
}

/* Reports all uses, once the fixpoint is reached. */
static void uses_report(struct track *t)
{
	size_t b, i;

	t->reporting = true;
	for (b = 0; b < t->block_count; b++) {
		struct addr_state s = t->blocks[b].in;

		if (!s.reached)
			continue;
		for (i = t->blocks[b].first; i < t->blocks[b].end; i++)
			track_insn(t, &s, i);
	}
	for (i = 0; i < t->met_count; i++)
		t->report(t->arg, &t->met[i]);
}

void track_uses(const struct track_func *f, use_fn *report, void *arg)
{
	struct track t = {.f = f, .report = report, .arg = arg};
	const struct func_code *code = f->code;
	unsigned r;
	size_t b, i;

	if (!code->count)
		return;
	for (r = 0; r < REGS; r++) {
		t.unknown.reg[r] = nothing;
		t.unknown.ptr[r] = no_pointer;
	}
	t.unknown.reached = true;
	for (t.last = code->count - 1; t.last && code->insns[t.last].padding; t.last--)
		;
	blocks_build(&t);
	track_detours_back(&t);
	block_pass(&t, 0, &t.unknown);
	/* At an entry nothing is known: if a register holds an address, that was reported as an escape where control left
	 * for the entry. */
	for (i = 0; i < f->entries->count; i++) {
		b = f->entries->by_table[i] || (t.by_detour && t.by_detour[i]) ? SIZE_MAX
		                                                               : func_insn_at(code, f->entries->list[i]);
		if (b != SIZE_MAX)
			block_pass(&t, block_at(&t, b), &t.unknown);
	}
	dataflow_solve(&addresses, &t.list, &t);
	unreached_solve(&t);
	uses_report(&t);
	free(t.blocks);
	free(t.by_detour);
	worklist_free(&t.list);
	free(t.met);
}
