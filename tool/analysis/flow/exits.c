/* SPDX-License-Identifier: MIT */
/* The results of a code range at the fixpoint: reports its states in order of address to a callback, and collects its
 * exits, edges and properties (struct flow). */
#include "analysis/flow/flow_internal.h"
#include "support/vector.h"

#include <stdlib.h>
#include <string.h>

static inline size_t edge_hash(uint64_t target) { return (size_t)(target * 0x9e3779b97f4a7c15u >> 32); }

/* Adds an edge out of the code range; edges to one target are joined into one. */
static void edge_add(struct flow *f, uint64_t target, const struct state *s)
{
	size_t mask = f->walk.edge_hash_size - 1, h;

	if (2 * (f->found.edge_count + 1) > f->walk.edge_hash_size) {
		size_t size = f->walk.edge_hash_size ? 2 * f->walk.edge_hash_size : 256, i;
		uint32_t *hash = calloc(size, sizeof(*hash));

		if (!hash) {
			f->failed = true;
			return;
		}
		mask = size - 1;
		for (i = 0; i < f->found.edge_count; i++) {
			for (h = edge_hash(f->found.edges[i].target) & mask; hash[h]; h = (h + 1) & mask)
				;
			hash[h] = (uint32_t)i + 1;
		}
		free(f->walk.edge_hash);
		f->walk.edge_hash = hash;
		f->walk.edge_hash_size = size;
	}
	for (h = edge_hash(target) & mask; f->walk.edge_hash[h]; h = (h + 1) & mask)
		if (f->found.edges[f->walk.edge_hash[h] - 1].target == target) {
			state_join(&f->found.edges[f->walk.edge_hash[h] - 1].state, s);
			return;
		}
	f->walk.edge_hash[h] = (uint32_t)f->found.edge_count + 1;
	if (!room_make(&f->found.edges, &f->walk.edge_room, f->found.edge_count, sizeof(*f->found.edges))) {
		f->failed = true;
		return;
	}
	f->found.edges[f->found.edge_count].target = target;
	f->found.edges[f->found.edge_count].from = f->in.number;
	state_copy(&f->found.edges[f->found.edge_count].state, s);
	if (f->walk.edges_drop_constants)
		state_drop_constants(&f->found.edges[f->found.edge_count].state);
	f->found.edge_count++;
}

/* A jump out of the code range. */
static void leave(struct flow *f, uint64_t target, const struct state *s)
{
	const struct code_range *p;

	if (flow_is_tail_call(f, target, s)) {
		f->found.exits_balanced = true;
		f->found.exit_sp_unknown |= (target & (FLOW_EXTERN | FLOW_SLOT)) && !state_is_entry(s);
		flow_exit_add(f, target, EXIT_TAIL);
		return;
	}
	edge_add(f, target, s);
	/* More popped than pushed: data taken for code looks so. */
	f->found.exit_sp_mismatch |=
		f->in.range->inferred && s->reg[ETCH_REG_RSP].kind == VALUE_CFA && s->reg[ETCH_REG_RSP].off > 0;
	p = range_at(f->in.env, target);
	if (!p || p->start == target) /* without a code range there, the exit will make one */
		flow_exit_add(f, target, EXIT_PART);
	else
		f->found.may_return = true; /* into the middle of another code range, which may return */
}

/* Instructions that are examined in search of a gap. */
#define GAP_MOST 256

/*
 * In an open code range: does a jump in the state of an entry pass over unreached code? Then it is a tail call of
 * another function, which begins at the target.
 */
static bool is_tail_inside(struct flow *f, uint64_t off, uint64_t target, const struct state *s)
{
	unsigned n;

	if (!f->in.range->open || target <= off || !state_is_entry(s))
		return false;
	for (n = 0; n < GAP_MOST && off < target; n++) {
		uint32_t i = flow_step(f, off);

		if (i == NO_STEP || (!(f->seen[i] & FLOW_WALKED) && !f->steps[i].padding))
			return true;
		off += f->steps[i].len;
	}
	return false;
}

/* Compares rsp at an exit with rsp at the start, for flow.found.exit_sp_delta and flow.found.exit_sp_varies. A return
 * to the return address of the start, even from another slot, proves that the range did not begin with words pushed on
 * top of it: it has popped its arguments. `target`: register of the jump, or 16. */
static void exit_sp_note(struct flow *f, const struct state *before, bool returns, unsigned target)
{
	struct value v = before->reg[ETCH_REG_RSP], to = before->reg[target & 15];

	if (target < 16 && to.kind == VALUE_ENTRY && to.reg == REG_RA)
		return; /* jumps to its popped return address: a return */
	if (v.kind != VALUE_CFA || v.off <= -8 || (returns && state_returns(before)) ||
	    (f->found.exit_sp_delta && f->found.exit_sp_delta != v.off + 8))
		f->found.exit_sp_varies = true;
	else
		f->found.exit_sp_delta = v.off + 8;
}

/*
 * Is an indirect jump one that no C function makes? With the return address on top, callee-saved registers are the
 * caller's again, so a tail call cannot go through memory at one of them, nor, with one of them changed, through memory
 * at any other. GHC's code returns through memory at rbp (its Sp), and what rsp points to is no return address there.
 */
static bool leaves_no_c_frame(bool own_stack, const struct code_range *p, const struct step *in, const struct state *s)
{
	return !code_convention(p)->jumps_by_any && in->deref && in->index == INSN_NO_REG && in->b < 16 &&
	       ((STEP_CALLEE_SAVED >> in->b & 1) || (own_stack && !state_is_entry(s))) &&
	       s->reg[ETCH_REG_RSP].kind == VALUE_CFA && s->reg[ETCH_REG_RSP].off == -8;
}

/* Instructions in front of a jump that are searched for an epilogue. */
#define EPILOGUE_MOST 16u

/* The walked instruction that ends at an offset, or null. */
static const struct step *step_before(const struct flow *f, uint64_t off)
{
	uint64_t back;

	for (back = 1; back <= off && back < 16; back++) {
		uint32_t i = f->at[off - back];

		if (i && f->steps[i - 1].len == back && (f->seen[i - 1] & FLOW_WALKED))
			return &f->steps[i - 1];
	}
	return NULL;
}

/*
 * Is an indirect jump a tail call: in the state of an entry, behind an epilogue that restores a callee-saved register?
 * The targets of a computed goto may be in that state, too, but restore nothing.
 */
static bool is_epilogue_jump(const struct flow *f, uint64_t off, const struct state *s)
{
	const struct step *in;
	unsigned n;

	if (!state_is_entry(s))
		return false;
	for (n = 0; n < EPILOGUE_MOST && (in = step_before(f, off)) && in->flow == FLOW_NEXT; n++, off -= in->len)
		if (in->op == STEP_LEAVE || (in->op == STEP_POP && in->a < 16 && (STEP_CALLEE_SAVED >> in->a & 1)))
			return true;
	return false;
}

/* Where a jump through a register leads, if that is known; or 0. */
static uint64_t known_target(const struct flow *f, const struct step *in, const struct state *s)
{
	const struct value *v = in->deref || in->a >= 16 ? NULL : &s->reg[in->a];
	unsigned type = f->in.env->file->eh.e_type;

	if (!v || type == ET_REL || (v->kind != VALUE_PLACE && (v->kind != VALUE_CONST || type == ET_DYN)))
		return 0;
	return space_at(f->in.env->space, (uint32_t)v->off) ? (uint32_t)v->off : 0;
}

/* Adds the exits and edges of one instruction, and what they tell of the code range. `behind`: only padding lies
 * between a call and this instruction. */
static void exits_note(struct flow *f, uint64_t addr, unsigned len, const struct state *before, bool behind)
{
	uint64_t off = addr - f->in.range->start, end = f->in.range->end, target, pad;
	struct step in = f->steps[f->at[off] - 1];
	struct etch_rule run;
	struct state after;

	if (before->dead)
		return;
	pad = f->walk.pad_count && (in.flow == FLOW_CALL || in.flow == FLOW_CALL_IND) ? flow_pad_of(f, addr) : 0;
	if (pad && !flow_inside(f, pad)) {
		flow_land(f, before, &after);
		edge_add(f, pad, &after);
	}
	switch (in.flow) {
	case FLOW_RETURN:
		f->found.return_certain |= !before->weak;
		exit_sp_note(f, before, true, 16);
		f->found.may_return = true;
		f->found.exit_sp_unknown |= before->reg[ETCH_REG_RSP].kind != VALUE_CFA;
		f->found.exits_balanced |= state_is_entry(before);
		f->found.returns_to_caller |=
			!before->weak && before->reg[ETCH_REG_RSP].kind == VALUE_CFA && before->reg[ETCH_REG_RSP].off == -8;
		f->found.returns_unbalanced |= before->reg[ETCH_REG_RSP].kind == VALUE_CFA && !state_is_entry(before) &&
		                               !(f->in.relaxed && f->walk.has_helpers && before->reg[ETCH_REG_RSP].off == -8);
		f->found.exit_sp_mismatch |= before->reg[ETCH_REG_RSP].kind == VALUE_CFA && before->reg[ETCH_REG_RSP].off != -8;
		return;
	case FLOW_STOP: return;
	case FLOW_JUMP_IND:
		/* more popped than pushed: the range did not begin with a return address */
		f->found.exit_sp_mismatch |= before->reg[ETCH_REG_RSP].kind == VALUE_CFA && before->reg[ETCH_REG_RSP].off > 0;
		f->found.non_c_frame |= leaves_no_c_frame(f->in.env->own_stack, f->in.range, &in, before);
		if (f->in.env->runtime->enters(&in, before, &run))
			f->found.runtime_rule = run;
		target = flow_exit_target(&in);
		if (in.number && f->jumps[in.number - 1].entries) {
			const struct flow_jump *j = &f->jumps[in.number - 1];
			unsigned i;

			for (i = 0; i < j->entries; i++) {
				target = jump_table_target(f, &j->what, i);
				if (!flow_inside(f, target) && j->what.most)
					leave(f, target, before);
			}
			f->found.may_return |= !j->what.most; /* not all of its targets are known */
		} else if (target && state_is_entry(before)) {
			flow_exit_add(f, target, EXIT_TAIL);
		} else if (state_is_entry(before) && (target = known_target(f, &in, before)) != 0) {
			f->found.exits_balanced = true;
			flow_exit_add(f, target, EXIT_TAIL);
		} else {
			exit_sp_note(f, before, false, in.deref ? 16 : in.a);
			if (f->in.range->inferred && is_epilogue_jump(f, off, before))
				f->found.exits_balanced = f->found.returns_to_caller = true;
			f->found.may_return = true;
		}
		return;
	case FLOW_JUMP:
	case FLOW_BRANCH:
		target = (uint64_t)in.imm;
		if (!flow_inside(f, target)) {
			state_copy(&after, before);
			if (in.flow == FLOW_BRANCH && in.writes)
				state_transfer(&after, &in, (uint32_t)off);
			leave(f, target, &after);
		} else if (in.flow == FLOW_JUMP && is_tail_inside(f, off + len, target - f->in.range->start, before)) {
			flow_exit_add(f, target, EXIT_TAIL);
		}
		if (in.flow == FLOW_JUMP)
			return;
		break;
	case FLOW_CALL:
	case FLOW_CALL_IND:
		target = flow_exit_target(&in);
		if (target && !flow_is_helper(f, target)) {
			uint32_t i = off + len < end - f->in.range->start ? f->at[off + len] : 0;
			bool last = flow_is_end(f, &in, off + len);

			flow_exit_add(f, target, last ? EXIT_LAST : i && f->leader[i - 1] ? EXIT_CALL : EXIT_FRESH);
		}
		if (!flow_comes_back(f, &in))
			return;
		if (flow_is_end(f, &in, off + len)) {
			/* Compilers end a function with a call only if it is noreturn. */
			if (!target)
				f->found.may_return = true;
			return;
		}
		break;
	default: break;
	}
	if (flow_is_exit(&in, before))
		return;
	if (addr + len < end && !flow_walked(f, off + len))
		f->found.may_return = f->found.broken = true;                         /* the next bytes do not decode */
	if (addr + len >= end && in.op != STEP_HALT && !(behind && in.padding)) { /* falls out of the range */
		struct compared c = {0};

		state_copy(&after, before);
		flow_advance(&in, &after, (uint32_t)off, &c);
		f->found.may_return = true;
		if (!flow_is_tail_call(f, end, &after))
			edge_add(f, end, &after);
	}
}

/* An address that is loaded from does not count; in a file that is not linked to a fixed address, only lea of a
 * rip-relative one does. */
bool flow_takes_address(const struct flow *f, const struct step *in)
{
	if (!in->imm || f->in.env->reloc_count)
		return false;
	return in->b == INSN_PC_REG ? in->op == STEP_ADDRESS : f->in.env->file->eh.e_type != ET_DYN;
}

/* Adds an exit for an address taken, perhaps of a function. One that the entry point takes, such as main, is called. */
static void ref_note(struct flow *f, uint64_t addr)
{
	unsigned kind = f->in.range->outermost ? EXIT_CALL : EXIT_REF;
	const struct code_space *space = f->in.env->space;
	const struct code_section *c;
	const struct code_range *p;

	if (addr < space->list[0].addr || addr >= space->list[space->count - 1].addr + space->list[space->count - 1].size)
		return;
	p = range_at(f->in.env, addr);
	if (p) {
		if (p->start == addr ? !p->named : p->open)
			flow_exit_add(f, addr, kind);
		return;
	}
	/* Outside of all code ranges: assembly without .eh_frame is called through tables of pointers that other code
	 * fills in. */
	c = space_at(space, addr);
	if (c && !elf_is_object(f->in.env->file))
		flow_exit_add(f, addr, kind);
}

/* Adds the exit of an instruction whose fixup is outside of the code range. */
static void fault_note(struct flow *f, uint64_t addr, const struct step *in, const struct state *before)
{
	const struct fixup *x = flow_fixup_of(f, addr);
	struct state fault;

	if (!x || before->dead || flow_inside(f, x->to))
		return;
	flow_fault(x, in, before, &fault);
	leave(f, x->to, &fault);
}

/* The next offset from `off` on at which an instruction has been decoded, or the code range's size. */
static inline uint64_t step_next(const struct flow *f, uint64_t off, uint64_t size)
{
	uint64_t i = off / 64, bits;

	if (off >= size)
		return size;
	bits = f->starts[i] >> off % 64;
	if (bits)
		return off + (uint64_t)__builtin_ctzll(bits);
	for (i++; i <= (size - 1) / 64; i++)
		if (f->starts[i])
			return 64 * i + (uint64_t)__builtin_ctzll(f->starts[i]);
	return size;
}

/* A cursor over the states of one basic block, advanced on demand. */
struct block {
	const struct state *s; /* before the instruction at `at`: `own`, or still that of the leader */
	uint64_t at;
	struct compared c;
	struct state own;
};

static void block_begin(struct block *b, const struct state *s, uint64_t off)
{
	b->s = s;
	b->at = off;
	b->c = (struct compared){0};
}

/* Advances to an instruction of the block and returns the state before it. */
static const struct state *block_state(struct block *b, const struct flow *f, uint64_t off)
{
	if (b->at < off && b->s != &b->own) {
		state_copy(&b->own, b->s);
		b->s = &b->own;
	}
	while (b->at < off) {
		const struct step *in = &f->steps[f->at[b->at] - 1];

		flow_advance(in, &b->own, (uint32_t)b->at, &b->c);
		b->at += in->len;
	}
	return b->s;
}

/*
 * Is the unwind rule behind an instruction certainly that before it? By FLOW_MOVES of the last walk; in open code
 * ranges recomputed, since the set of noreturn calls, and so what the last walk covered, may have changed.
 */
static bool block_same(struct block *b, const struct flow *f, uint32_t number, uint64_t off)
{
	const struct step *in = &f->steps[number];
	bool same;

	if (!f->in.range->open)
		return !(f->seen[number] & FLOW_MOVES);
	if (b->s != &b->own) {
		state_copy(&b->own, block_state(b, f, off));
		b->s = &b->own;
	}
	block_state(b, f, off);
	same = flow_advance_same(in, &b->own, (uint32_t)off, &b->c);
	b->at = off + in->len;
	return same;
}

/* Does exits_note() need no state for this instruction? */
static bool needs_no_state(const struct flow *f, const struct step *in)
{
	switch (in->flow) {
	case FLOW_JUMP:
	case FLOW_BRANCH: return !f->in.range->open && flow_inside(f, (uint64_t)in->imm);
	case FLOW_CALL:
	case FLOW_CALL_IND: return !f->walk.pad_count;
	default: return false;
	}
}

/* Collects the results of one instruction: addresses taken, fixups, exits. */
static void step_note(struct flow *f, struct block *b, uint64_t off, uint32_t number, bool behind)
{
	uint64_t size = f->in.range->end - f->in.range->start, addr = f->in.range->start + off;
	struct step in = f->steps[number]; /* the list may move */
	bool anyhow = needs_no_state(f, &in) && !f->in.fixup_count && off + in.len < size;
	const struct state *s = anyhow ? b->s : block_state(b, f, off);

	if (in.flow == FLOW_NEXT && flow_takes_address(f, &in))
		ref_note(f, (uint64_t)in.imm);
	if (f->in.fixup_count)
		fault_note(f, addr, &in, s);
	if (in.flow != FLOW_NEXT || off + in.len >= size || !flow_walked(f, off + in.len))
		exits_note(f, addr, in.len, s, behind);
}

/* Can step_note() be skipped for an instruction, provided that the next one has been walked? */
static inline bool is_plain(const struct flow *f, const struct step *in)
{
	if (f->in.fixup_count)
		return false;
	if (in->flow == FLOW_NEXT)
		return !in->imm | (f->in.env->reloc_count != 0);
	return in->flow == FLOW_BRANCH && needs_no_state(f, in);
}

/* Number of steps that begin in [off, end). */
static unsigned starts_count(const struct flow *f, uint64_t off, uint64_t end)
{
	unsigned n = 0;

	for (; off < end; off = (off / 64 + 1) * 64) {
		uint64_t bits = f->starts[off / 64] >> off % 64;

		if (end < (off / 64 + 1) * 64)
			bits &= ((uint64_t)1 << (end - off)) - 1;
		for (; bits; bits &= bits - 1) /* few */
			n++;
	}
	return n;
}

/*
 * Skips instructions from `off` on, the next after `from` and with the same rule, that neither the callback nor
 * step_note() needs to see: most. Returns the offset of the first that is not skipped.
 */
static uint64_t pass(struct flow *f, uint64_t from, uint64_t off, uint64_t limit)
{
	uint64_t to = off, last = off, next;
	uint32_t i = f->at[off] - 1, behind;
	unsigned n;

	for (n = 0; !f->leader[i] && (f->seen[i] & (FLOW_WALKED | FLOW_MOVES)) == FLOW_WALKED; n++) {
		const struct step *in = &f->steps[i];

		next = to + in->len;
		if (next >= limit || !is_plain(f, in) || !(behind = f->at[next]) || !(f->seen[behind - 1] & FLOW_WALKED))
			break;
		last = to;
		to = next;
		i = behind - 1;
	}
	if (!n || starts_count(f, from, to) != n + 1) /* some instructions overlap */
		return off;
	f->skip.last = f->in.range->start + last;
	f->skip.end = f->in.range->start + to;
	return to;
}

/* Calls fn for each walked instruction in order of address; with `note` also collects the results. */
static void states_each(struct flow *f, flow_state_fn *fn, void *ctx, bool note)
{
	uint64_t start = f->in.range->start, size = f->in.range->end - start, off, next = UINT64_MAX;
	bool same = false, behind = false;
	struct block b;

	f->skip.below = f->skip.end = 0;
	for (off = step_next(f, 0, size); off < size; off = step_next(f, off + 1, size)) {
		const struct step *in;
		uint32_t i = f->at[off] - 1;

		if (!(f->seen[i] & FLOW_WALKED))
			continue;
		if (f->leader[i]) {
			if (!(f->state_live[f->leader[i] - 1] & LIVE))
				continue;
			same = same && off == next && state_rules_same(b.s, &f->states[f->leader[i] - 1]);
			block_begin(&b, &f->states[f->leader[i] - 1], off);
		} else if (off != next) {
			continue; /* its predecessor overlaps another: scan() made it a leader */
		}
		in = &f->steps[i];
		next = off + in->len;
		if (same && start + next <= f->skip.below) {
			f->skip.last = start + off;
			f->skip.end = start + next;
		} else {
			fn(ctx, start + off, in->len, block_state(&b, f, off), same);
			in = &f->steps[i]; /* the callback may decode more and move the list */
		}
		if (note && (next >= size || !is_plain(f, in) || !flow_walked(f, next)))
			step_note(f, &b, off, i, behind);
		in = &f->steps[i];
		behind = (in->flow == FLOW_CALL) | (in->flow == FLOW_CALL_IND) | (behind & in->padding);
		same = block_same(&b, f, i, off);
		if (same && !behind && !f->in.range->open && next < size && f->at[next] && f->skip.below > start) {
			uint64_t to = pass(f, off, next, f->skip.below - start < size ? f->skip.below - start : size);

			if (to != next)
				off = (next = to) - 1;
		}
	}
}

void flow_states(struct flow *f, flow_state_fn *fn, void *ctx) { states_each(f, fn, ctx, true); }

void flow_look(struct flow *f, flow_state_fn *fn, void *ctx) { states_each(f, fn, ctx, false); }
