/* SPDX-License-Identifier: MIT */
#include "code/track.h"
#include "elf/search.h"

#include "code/vector.h"

#include <stdlib.h>
#include <string.h>

#define REGS 16

/* What one register may hold. */
struct value {
	int32_t object; /* -1: nothing of interest */
	bool exact;     /* exactly object + off, on every path; else perhaps something in object */
	bool got;
	int64_t off;
};

/* What was loaded into one register, eight bytes from an object. */
struct loaded {
	int32_t object; /* -1: nothing of interest */
	uint8_t doubt;  /* enum use_doubt */
	bool got;       /* the object's address came from a GOT slot */
	int64_t off;
};

struct state {
	struct value reg[REGS];
	struct loaded ptr[REGS];
	bool reached;
};

struct block {
	size_t first, end; /* instructions [first, end) */
	struct state in;
	bool queued;
};

struct track {
	const struct func *fn;
	const struct func_code *code;
	const struct ref *mem, *imm;
	const struct track_entries *entries;
	struct func_clobbers *clobbers;
	size_t last; /* the last instruction that is no padding */
	struct block *blocks;
	size_t block_count;
	size_t *queue;
	size_t queued;
	bool opaque;      /* code that only something indirect can reach: registers may arrive there */
	bool reporting;
	use_fn *report;
	void *arg;
	int stopped;      /* what report returned */
	struct use *met;  /* escapes where paths meet */
	size_t met_count, met_room;
};

static const struct value nothing = {-1, false, false, 0};
static const struct loaded no_pointer = {-1, DOUBT_NONE, false, 0};

static void use_report(struct track *t, size_t insn, enum use_kind kind, const struct value *v, bool in_register)
{
	struct use u = {insn, kind, v->object, v->off, v->exact, v->got, in_register, false, DOUBT_NONE};

	if (t->reporting && !t->stopped && v->object >= 0)
		t->stopped = t->report(t->arg, &u);
}

/* A call or jump by a register that may hold what was read from an object. */
static bool call_report(struct track *t, const struct state *s, size_t i)
{
	const struct insn *in = &t->code->insns[i];
	const struct loaded *p;
	struct use u = {.insn = i, .kind = USE_CALL, .in_register = true, .pointer = true};

	if ((in->flow != FLOW_CALL_IND && in->flow != FLOW_JUMP_IND) || in->mem != MEM_NONE || in->src >= REGS)
		return false;
	p = &s->ptr[in->src];
	if (p->object < 0)
		return false;
	u.object = p->object;
	u.off = p->off;
	u.off_known = p->doubt != DOUBT_PLACE && p->doubt != DOUBT_PATHS;
	u.got = p->got;
	u.doubt = p->doubt;
	if (t->reporting && !t->stopped)
		t->stopped = t->report(t->arg, &u);
	return p->doubt == DOUBT_NONE;
}

/* From here on the slots may hold something else (object -1: of any object). */
static void pointers_age(struct state *s, int32_t object)
{
	unsigned r;

	for (r = 0; r < REGS; r++)
		if ((object < 0 || s->ptr[r].object == object) && s->ptr[r].doubt == DOUBT_NONE)
			s->ptr[r].doubt = DOUBT_STALE;
}

/* What instruction i, which reads from v, leaves of loaded values in the registers. */
static void pointers_apply(struct state *s, const struct insn *in, const struct value *v, bool slot)
{
	struct loaded result = no_pointer;
	unsigned r;

	for (r = 0; r < REGS; r++)
		if ((in->reads >> r & 1) && s->ptr[r].object >= 0) {
			result = s->ptr[r];
			result.doubt = DOUBT_CHANGED;
		}
	if (in->move == MOVE_COPY) {
		result = s->ptr[in->src];
	} else if (in->move == MOVE_ADDRESS && in->base < REGS && s->ptr[in->base].object >= 0) {
		result = s->ptr[in->base];
		result.doubt = DOUBT_CHANGED;
	} else if (in->move == MOVE_LOAD) {
		result = no_pointer;
		if (v->object >= 0 && !slot && in->mem == MEM_READ && in->mem_size == 8)
			result = (struct loaded){v->object, v->exact && !in->segment ? DOUBT_NONE : DOUBT_PLACE, v->got, v->off};
	} else if (in->move == MOVE_IMM) {
		result = no_pointer;
	}
	for (r = 0; r < REGS; r++)
		if (in->writes >> r & 1)
			s->ptr[r] = r == 4 ? no_pointer : result;
	if (in->move != MOVE_NONE && in->dst < REGS)
		s->ptr[in->dst] = result;
	if (v->object >= 0 && !slot && (in->mem == MEM_WRITE || in->mem == MEM_UPDATE))
		pointers_age(s, v->object);
	if (in->barrier || in->string)
		pointers_age(s, -1);
}

/* off + by, without overflow: offsets of a hostile file may be anything. */
static int64_t moved(int64_t off, int64_t by) { return (int64_t)((uint64_t)off + (uint64_t)by); }

/* ---- one instruction ----------------------------------------------------- */

/* What the memory operand refers to; object -1 if nothing etched. */
static struct value operand(const struct track *t, const struct state *s, size_t i, bool *in_register)
{
	const struct insn *in = &t->code->insns[i];
	const struct ref *m = &t->mem[i];
	struct value v = nothing;

	*in_register = false;
	if (in->mem == MEM_NONE)
		return v;
	if (m->object >= 0) {
		v.object = m->object;
		v.off = m->off;
		v.exact = in->index == INSN_NO_REG && (in->base == INSN_PC_REG || in->base == INSN_NO_REG);
		return v;
	}
	if (in->base < REGS && s->reg[in->base].object >= 0) {
		v = s->reg[in->base];
		v.off = moved(v.off, in->disp);
		v.exact = v.exact && in->index == INSN_NO_REG;
		*in_register = true;
	} else if (in->index < REGS && s->reg[in->index].object >= 0) {
		v = s->reg[in->index];
		v.exact = false;
		*in_register = true;
	}
	return v;
}

static void leave(struct track *t, struct state *s, size_t i, uint16_t regs)
{
	unsigned r;

	for (r = 0; r < REGS; r++)
		if ((regs >> r & 1) && s->reg[r].object >= 0)
			use_report(t, i, USE_ESCAPE, &s->reg[r], true);
}

/* What a jump out of the function, or a call, may take along: what is live where
 * it arrives, if that is in the file; else what the ABI lets it take. */
static void leave_to(struct track *t, struct state *s, size_t i, uint16_t abi)
{
	const struct insn *in = &t->code->insns[i];
	struct error e = {""};
	uint16_t mask = abi;
	unsigned r;

	for (r = 0; r < REGS && s->reg[r].object < 0; r++)
		;
	if (r == REGS)
		return; /* mostly */
	if (in->callee >= 0 && t->clobbers)
		mask = func_live(t->clobbers, in->callee, in->entry, &e);
	/* A callee saves what it must hand back: alive in it, and no argument. */
	if (in->flow == FLOW_CALL)
		mask &= insn_call_clobbers();
	leave(t, s, i, mask);
}

/* Where a call at `addr` lands when it throws, or 0. */
static uint64_t pad_of(const struct track *t, uint64_t addr)
{
	size_t lo = SEARCH(t->entries->pad_count, i, t->entries->pads[i].end <= addr);

	return lo < t->entries->pad_count && t->entries->pads[lo].start <= addr ? t->entries->pads[lo].pad : 0;
}

/* The first fault of this function at or behind addr. */
static size_t fault_from(const struct track_entries *x, uint64_t addr)
{
	return SEARCH(x->fault_count, i, x->faults[i].insn < addr);
}

/* An instruction that faults may go on in another function, with all registers. */
static void faults_leave(struct track *t, struct state *s, size_t i)
{
	const struct track_entries *x = t->entries;
	uint64_t addr = t->code->insns[i].addr;
	size_t k;

	for (k = fault_from(x, addr); k < x->fault_count && x->faults[k].insn == addr; k++)
		if (x->faults[k].to < t->fn->start || x->faults[k].to >= t->fn->end)
			leave(t, s, i, 0xffff);
}

/* Control may have come here from elsewhere: what is in a register is no longer known
 * for sure. */
static void state_doubt(struct state *s)
{
	unsigned r;

	for (r = 0; r < REGS; r++) {
		s->reg[r].exact = false;
		if (s->ptr[r].object >= 0)
			s->ptr[r].doubt = DOUBT_PATHS;
	}
}

/* What a call changes. A compiler that sees the callee uses what that one leaves alone
 * (gcc's -fipa-ra), whatever the ABI says. */
static void call_clobber(struct track *t, struct state *s, const struct insn *in)
{
	bool known = in->callee >= 0 && t->clobbers, vague = false;
	uint16_t clobbered = insn_call_clobbers();
	struct error err = {""};
	unsigned r;

	if (known) {
		uint16_t mask = func_clobbers(t->clobbers, in->callee, &err);

		vague = t->clobbers->vague[in->callee];
		if (func_is_start(t->clobbers, in->callee, in->entry))
			clobbered &= mask;
	}
	for (r = 0; r < REGS; r++) {
		if (!(clobbered >> r & 1))
			continue;
		if (!vague) {
			s->reg[r] = nothing;
			s->ptr[r] = no_pointer;
			continue;
		}
		s->reg[r].exact = false;
		if (s->ptr[r].object >= 0)
			s->ptr[r].doubt = DOUBT_PATHS;
	}
	if (err.text[0])
		t->stopped = -1;
}

static void insn_apply(struct track *t, struct state *s, size_t i)
{
	const struct insn *in = &t->code->insns[i];
	bool via, slot = t->mem[i].object >= 0 && t->mem[i].got;
	struct value v, result = nothing, imm = nothing;
	uint16_t data = in->reads;
	bool through;
	uint64_t pad;
	unsigned r;

	if (t->entries->anywhere)
		state_doubt(s);
	v = operand(t, s, i, &via);
	through = call_report(t, s, i);
	faults_leave(t, s, i);
	if (t->imm[i].object >= 0)
		imm = (struct value){t->imm[i].object, true, false, t->imm[i].off};
	if (slot) {
		v.exact = !v.off; /* by a second name, inside the object: another slot */
		v.off = 0;
		v.got = true;
		if (in->lawful)
			;
		else if (in->move == MOVE_LOAD)
			result = v;
		else if (in->mem != MEM_ADDRESS || in->move == MOVE_ADDRESS)
			use_report(t, i, USE_ESCAPE, &v, false);
	} else if (v.object >= 0) {
		if (in->flow == FLOW_CALL_IND || in->flow == FLOW_JUMP_IND)
			use_report(t, i, USE_CALL, &v, via);
		else if (in->mem == MEM_READ)
			use_report(t, i, USE_READ, &v, via);
		else if (in->mem == MEM_WRITE || in->mem == MEM_UPDATE)
			use_report(t, i, USE_STORE, &v, via);
		else if (in->move == MOVE_ADDRESS && !in->lawful)
			result = v;
		else if (!in->padding && !in->lawful && in->writes)
			use_report(t, i, USE_ESCAPE, &v, via); /* a lea of fewer than 64 bits */
	}
	switch (in->move) {
	case MOVE_COPY:
		result = s->reg[in->src];
		data &= (uint16_t)~(1u << in->src);
		break;
	case MOVE_ADD:
		if (imm.object >= 0) {
			result = imm; /* base of an array plus an index */
			result.exact = false;
		} else {
			result = s->reg[in->dst];
			result.off = moved(result.off, in->imm);
			data &= (uint16_t)~(1u << in->dst);
		}
		break;
	case MOVE_IMM:
		if (!in->lawful)
			result = imm;
		break;
	default:
		use_report(t, i, USE_ESCAPE, &imm, false);
	}
	leave(t, s, i, data);
	pointers_apply(s, in, &v, slot);
	for (r = 0; r < REGS; r++)
		if (in->writes >> r & 1)
			s->reg[r] = nothing;
	if (in->move != MOVE_NONE && in->dst < REGS)
		s->reg[in->dst] = result;

	switch (in->flow) {
	case FLOW_CALL:
	case FLOW_CALL_IND:
		leave_to(t, s, i, in->flow == FLOW_CALL_IND ? insn_pointer_arguments() : insn_call_arguments());
		/* A landing pad may find it in a register that calls keep. */
		pad = pad_of(t, in->addr);
		if (t->opaque || (pad && (pad < t->fn->start || pad >= t->fn->end)))
			leave(t, s, i, (uint16_t)~insn_call_clobbers());
		call_clobber(t, s, in);
		pointers_age(s, -1);
		break;
	case FLOW_RETURN:
		leave(t, s, i, insn_return_values());
		break;
	case FLOW_JUMP_IND:
		/* Through an ops object a tail call; else perhaps to somewhere in here. */
		leave(t, s, i, through || (v.object >= 0 && !slot && in->index == INSN_NO_REG)
		               ? insn_pointer_arguments() | (uint16_t)~insn_call_clobbers() : 0xffff);
		break;
	case FLOW_JUMP:
		/* Out of the function, a tail call: its arguments, and what a caller
		 * finds unchanged. */
		if (in->target < t->fn->start || in->target >= t->fn->end)
			leave_to(t, s, i, insn_call_arguments() | (uint16_t)~insn_call_clobbers());
		break;
	case FLOW_BRANCH:
		/* To its cold part, mostly, where any register may be used. */
		if (in->target < t->fn->start || in->target >= t->fn->end)
			leave_to(t, s, i, 0xffff);
		break;
	default:
		break;
	}
	/* Into the next function: assembly with two entries. */
	if (i == t->last && (in->flow == FLOW_NEXT || in->flow == FLOW_BRANCH))
		leave(t, s, i, 0xffff);
}

/* ---- blocks -------------------------------------------------------------- */

static void met_add(struct track *t, size_t insn, const struct value *v)
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
	t->met[t->met_count++] = (struct use){.insn = insn, .kind = USE_ESCAPE, .object = v->object, .got = v->got,
	                                      .in_register = true};
}

/* Where two paths meet; true when *a changed. Of two slots the lower one is named. */
static bool pointer_join(struct loaded *a, const struct loaded *v)
{
	struct loaded old = *a;

	if (a->object == v->object && a->off == v->off && a->got == v->got) {
		if (v->doubt > a->doubt)
			a->doubt = v->doubt;
	} else {
		if (a->object < 0 || (v->object >= 0 && (v->object < a->object ||
		                                         (v->object == a->object && v->off < a->off))))
			*a = *v;
		a->got = old.got || v->got;
		a->doubt = DOUBT_PATHS;
	}
	return a->object != old.object || a->off != old.off || a->got != old.got || a->doubt != old.doubt;
}

/* Joins `from` into the state before block b; queues it when that changed. */
static void block_join(struct track *t, size_t b, const struct state *from)
{
	struct block *k = &t->blocks[b];
	bool changed = !k->in.reached;
	unsigned r;

	if (!k->in.reached) {
		k->in = *from;
		k->in.reached = true;
	} else {
		for (r = 0; r < REGS; r++)
			changed |= pointer_join(&k->in.ptr[r], &from->ptr[r]);
		for (r = 0; r < REGS; r++) {
			struct value *a = &k->in.reg[r];
			const struct value *v = &from->reg[r];
			struct value old = *a;

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

static size_t block_at(const struct track *t, size_t insn)
{
	return SEARCH(t->block_count, i, t->blocks[i].end <= insn);
}

/* May control arrive at this instruction from elsewhere? */
static bool is_entry(const struct track_entries *x, uint64_t addr)
{
	return word_has(x->list, x->count, addr);
}

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

/* A call that throws comes to its landing pad with what calls keep. */
static void pad_join(struct track *t, const struct insn *in, const struct state *after)
{
	uint64_t pad = pad_of(t, in->addr);
	size_t k = pad ? func_insn_at(t->code, pad) : SIZE_MAX;
	struct state s = *after;
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

/* One that faults goes on at its fixup with what was there before it. */
static void faults_join(struct track *t, const struct insn *in, const struct state *before)
{
	const struct track_entries *x = t->entries;
	size_t i, k;

	for (i = fault_from(x, in->addr); i < x->fault_count && x->faults[i].insn == in->addr; i++) {
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
		struct state s = t->blocks[b].in;
		const struct insn *last;

		t->blocks[b].queued = false;
		for (i = t->blocks[b].first; i < t->blocks[b].end; i++) {
			faults_join(t, &c->insns[i], &s);
			insn_apply(t, &s, i);
			if (t->entries->pad_count && (c->insns[i].flow == FLOW_CALL || c->insns[i].flow == FLOW_CALL_IND))
				pad_join(t, &c->insns[i], &s);
		}
		last = &c->insns[t->blocks[b].end - 1];
		if (last->flow == FLOW_JUMP || last->flow == FLOW_BRANCH) {
			size_t k = func_insn_at(c, last->target);

			if (k != SIZE_MAX) {
				struct state taken = s;

				/* A loop may wait for another thread, which sets the slot. */
				if (last->target <= last->addr)
					pointers_age(&taken, -1);
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
	struct track t = {.fn = fn, .code = code, .mem = mem, .imm = imm, .entries = entries, .clobbers = clobbers,
	                  .report = report, .arg = arg};
	struct state entry = {.reached = true};
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
	/* Who jumps to an entry has reported what his registers take along. */
	for (b = 0; b < t.block_count; b++)
		if (is_entry(entries, code->insns[t.blocks[b].first].addr))
			block_join(&t, b, &entry);
	blocks_solve(&t);
	/* What is left is entered in a way that was not found: by the unwinder, perhaps. */
	for (b = 0; b < t.block_count; b++) {
		if (t.blocks[b].in.reached || block_is_padding(&t, b))
			continue;
		t.opaque = true;
		block_join(&t, b, &entry);
		blocks_solve(&t);
	}
	t.reporting = true;
	for (b = 0; b < t.block_count && !t.stopped; b++) {
		struct state s = t.blocks[b].in;

		if (!s.reached)
			continue;
		for (i = t.blocks[b].first; i < t.blocks[b].end; i++)
			insn_apply(&t, &s, i);
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
