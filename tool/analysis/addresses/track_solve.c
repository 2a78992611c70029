/* SPDX-License-Identifier: MIT */
/* Basic blocks of one function, solved by a worklist to the fixpoint; a last pass over the blocks reports each use. */
#include "analysis/addresses/track_internal.h"

#include "support/search.h"
#include "support/vector.h"

#include <stdlib.h>

/* Adds an escape for an address that a join cannot keep, once per object. */
static void met_add(struct track *t, size_t insn, const struct addr_value *v)
{
	size_t i;

	for (i = 0; i < t->met_count; i++)
		if (t->met[i].object == v->object)
			return;
	if (t->met_count == t->met_room) {
		size_t room = t->met_room ? 2 * t->met_room : 16;
		struct use *p = realloc(t->met, room * sizeof(*p));

		if (!p) {
			t->stopped = -1;
			return;
		}
		t->met = p;
		t->met_room = room;
	}
	t->met[t->met_count++] =
		(struct use){.insn = insn, .kind = USE_ESCAPE, .object = v->object, .got = v->got, .in_register = true};
}

/* Joins a loaded pointer into *a; true: *a changed. Of two slots the lower one is kept, so that the result does not
 * depend on the order of joins. */
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

/* Joins `from` into the state before block b; queues it when that changed. */
static void block_join(struct track *t, size_t b, const struct addr_state *from)
{
	struct addr_block *k = &t->blocks[b];
	bool changed = !k->in.reached;
	unsigned r;

	if (!k->in.reached) {
		k->in = *from;
		k->in.reached = true;
	} else {
		for (r = 0; r < REGS; r++)
			changed |= pointer_join(&k->in.ptr[r], &from->ptr[r]);
		for (r = 0; r < REGS; r++) {
			struct addr_value *a = &k->in.reg[r];
			const struct addr_value *v = &from->reg[r];
			struct addr_value old = *a;

			if (a->object == v->object && a->exact == v->exact && a->off == v->off && a->got == v->got)
				continue;
			if (a->object >= 0 && v->object >= 0 && a->object != v->object) {
				met_add(t, k->first, a);
				met_add(t, k->first, v);
				*a = nothing;
			} else if (a->object >= 0 || v->object >= 0) {
				if (a->object < 0)
					*a = *v;
				a->exact = false;
				a->got = a->got || v->got;
				a->off = 0;
			}
			if (a->object != old.object || a->exact != old.exact || a->got != old.got || a->off != old.off)
				changed = true;
		}
	}
	if (changed && !k->queued) {
		k->queued = true;
		t->queue[t->queued++] = b;
	}
}

/* Index of the block that holds an instruction. */
static size_t block_at(const struct track *t, size_t insn)
{
	return SEARCH(t->block_count, i, t->blocks[i].end <= insn);
}

/* May control enter the function at this address from elsewhere? */
static bool is_entry(const struct track_entries *x, uint64_t addr) { return word_has(x->list, x->count, addr); }

/* Cuts the function into blocks: at jump targets, behind jumps, at entries, landing pads and fixups. */
static int blocks_build(struct track *t, struct error *e)
{
	const struct func_code *c = t->code;
	uint8_t *leader = calloc(c->count + 1, 1);
	size_t i, n = 0, b = 0;

	if (!leader)
		return error_set(e, "out of memory");
	leader[0] = 1;
	for (i = 0; i < c->count; i++) {
		const struct insn *in = &c->insns[i];

		if (in->flow == FLOW_JUMP || in->flow == FLOW_BRANCH) {
			size_t k = func_insn_at(c, in->target);

			if (k != SIZE_MAX)
				leader[k] = 1;
		}
		if (in->flow != FLOW_NEXT && in->flow != FLOW_CALL && in->flow != FLOW_CALL_IND)
			leader[i + 1] = 1;
		if (is_entry(t->entries, in->addr))
			leader[i] = 1;
	}
	for (i = 0; i < t->entries->pad_count; i++) {
		size_t k = func_insn_at(c, t->entries->pads[i].pad);

		if (k != SIZE_MAX)
			leader[k] = 1;
	}
	for (i = 0; i < t->entries->fault_count; i++) {
		size_t k = func_insn_at(c, t->entries->faults[i].to);

		if (k != SIZE_MAX)
			leader[k] = 1;
	}
	for (i = 0; i < c->count; i++)
		n += leader[i];
	t->blocks = calloc(n + 1, sizeof(*t->blocks));
	t->queue = calloc(n + 1, sizeof(*t->queue));
	if (!t->blocks || !t->queue) {
		free(leader);
		return error_set(e, "out of memory");
	}
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
	return 0;
}

/* The edge from a call to its landing pad: only callee-saved registers keep their values. */
static void pad_join(struct track *t, const struct insn *in, const struct addr_state *after)
{
	uint64_t pad = track_pad_of(t, in->addr);
	size_t k = pad ? func_insn_at(t->code, pad) : SIZE_MAX;
	struct addr_state s = *after;
	unsigned r;

	if (k == SIZE_MAX)
		return;
	for (r = 0; r < REGS; r++)
		if (insn_call_clobbers() >> r & 1) {
			s.reg[r] = nothing;
			s.ptr[r] = no_pointer;
		}
	block_join(t, block_at(t, k), &s);
}

/* The edges from a faulting instruction to its fixups, with the state before it. */
static void faults_join(struct track *t, const struct insn *in, const struct addr_state *before)
{
	const struct track_entries *x = t->entries;
	size_t i, k;

	for (i = track_fault_from(x, in->addr); i < x->fault_count && x->faults[i].insn == in->addr; i++) {
		k = func_insn_at(t->code, x->faults[i].to);
		if (k != SIZE_MAX)
			block_join(t, block_at(t, k), before);
	}
}

static void blocks_solve(struct track *t)
{
	const struct func_code *c = t->code;

	while (t->queued && !t->stopped) {
		size_t b = t->queue[--t->queued], i;
		struct addr_state s = t->blocks[b].in;
		const struct insn *last;

		t->blocks[b].queued = false;
		for (i = t->blocks[b].first; i < t->blocks[b].end; i++) {
			faults_join(t, &c->insns[i], &s);
			track_insn(t, &s, i);
			if (t->entries->pad_count && (c->insns[i].flow == FLOW_CALL || c->insns[i].flow == FLOW_CALL_IND))
				pad_join(t, &c->insns[i], &s);
		}
		last = &c->insns[t->blocks[b].end - 1];
		if (last->flow == FLOW_JUMP || last->flow == FLOW_BRANCH) {
			size_t k = func_insn_at(c, last->target);

			if (k != SIZE_MAX) {
				struct addr_state taken = s;

				/* on a back edge: the loop may wait for another thread to set the slot */
				if (last->target <= last->addr)
					track_pointers_age(&taken, -1);
				block_join(t, block_at(t, k), &taken);
			}
		}
		if (last->flow != FLOW_JUMP && last->flow != FLOW_JUMP_IND && last->flow != FLOW_RETURN &&
		    last->flow != FLOW_STOP && b + 1 < t->block_count)
			block_join(t, b + 1, &s);
	}
}

static bool block_is_padding(const struct track *t, size_t b)
{
	size_t i;

	for (i = t->blocks[b].first; i < t->blocks[b].end; i++)
		if (!t->code->insns[i].padding)
			return false;
	return true;
}

int track_uses(const struct func *fn, const struct func_code *code, const struct ref *mem, const struct ref *imm,
               const struct track_entries *entries, struct func_clobbers *clobbers, use_fn *report, void *arg,
               struct error *e)
{
	struct track t = {.fn = fn,
	                  .code = code,
	                  .mem = mem,
	                  .imm = imm,
	                  .entries = entries,
	                  .clobbers = clobbers,
	                  .report = report,
	                  .arg = arg};
	struct addr_state entry = {.reached = true};
	size_t b, i;
	unsigned r;
	int err = -1;

	if (!code->count)
		return 0;
	for (r = 0; r < REGS; r++) {
		entry.reg[r] = nothing;
		entry.ptr[r] = no_pointer;
	}
	for (t.last = code->count - 1; t.last && code->insns[t.last].padding; t.last--)
		;
	if (blocks_build(&t, e))
		goto out;
	block_join(&t, 0, &entry);
	/* At an entry nothing is known: an address in a register was reported as an escape where control left for it. */
	for (b = 0; b < t.block_count; b++)
		if (is_entry(entries, code->insns[t.blocks[b].first].addr))
			block_join(&t, b, &entry);
	blocks_solve(&t);
	/* Blocks still unreached are entered in unknown ways, perhaps by the unwinder. */
	for (b = 0; b < t.block_count; b++) {
		if (t.blocks[b].in.reached || block_is_padding(&t, b))
			continue;
		t.opaque = true;
		block_join(&t, b, &entry);
		blocks_solve(&t);
	}
	t.reporting = true;
	for (b = 0; b < t.block_count && !t.stopped; b++) {
		struct addr_state s = t.blocks[b].in;

		if (!s.reached)
			continue;
		for (i = t.blocks[b].first; i < t.blocks[b].end; i++)
			track_insn(&t, &s, i);
	}
	for (i = 0; i < t.met_count && !t.stopped; i++)
		t.stopped = report(arg, &t.met[i]);
	err = t.stopped;
out:
	free(t.blocks);
	free(t.queue);
	free(t.met);
	return err;
}
