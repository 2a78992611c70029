/* SPDX-License-Identifier: MIT */
/* After the fixpoint: passes the states of a code range to a callback, in order of address, and adds the results of
 * each instruction (exits.c). */
#include "analysis/flow/flow_internal.h"

/* Returns the first offset, from `off` on, at which an instruction has been decoded, or the code range's size if there
 * is none. */
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

/* A cursor over the states of one basic block. It only moves when a state is asked for (block_state()). */
struct block {
	const struct state *s; /* the state before the instruction at `at`: points to `own`, or to the state of the block's
	                          leader if the cursor has not moved */
	uint64_t at;
	struct compared c;
	struct state own;
};

/* Sets the cursor to the state before the instruction at `off`. */
static void block_begin(struct block *b, const struct state *s, uint64_t off)
{
	b->s = s;
	b->at = off;
	b->c = (struct compared){0};
}

/* Moves the cursor to an instruction of the block, and returns the state before it. */
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

/* A block that is cut: another block begins in the middle of one of its instructions. Its walk continues later, after
 * that instruction. */
struct cut {
	uint64_t at; /* the offset after that instruction; UINT64_MAX: no block is cut */
	struct state s;
};

/* Sets *cut to the state after the instruction that ends at `next`, because another basic block begins inside that
 * instruction. */
static void block_cut(struct block *b, const struct flow *f, uint64_t next, struct cut *cut)
{
	state_copy(&cut->s, block_state(b, f, next));
	cut->at = next;
}

/* Sets the cursor to `off`, where the block that is cut continues. If the block that was walked until now has an
 * instruction that ends at `next`, after `off`, that block is cut from now on. */
static void block_resume(struct block *b, const struct flow *f, uint64_t off, uint64_t next, struct cut *cut)
{
	struct state there;

	state_copy(&there, &cut->s);
	cut->at = UINT64_MAX;
	if (off < next)
		block_cut(b, f, next, cut);
	state_copy(&b->own, &there);
	block_begin(b, &b->own, off);
}

/*
 * Is the unwind rule after an instruction certainly the same as before it? Elsewhere than in open code ranges,
 * FLOW_MOVES of the last walk tells. In open code ranges the answer is computed again, since the set of noreturn calls,
 * and so the code that the last walk has covered, may have changed.
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
	return same && !(f->seen[number] & FLOW_MOVES); /* flow_tails_find() may have set FLOW_MOVES */
}

/* Given that an instruction does not change the unwind rule: are the values of the callee-saved registers certainly
 * where they were before it? Apart from writes to registers, all that changes these places also changes the rule. */
static inline bool step_keeps_saves(const struct flow *f, uint32_t number)
{
	return !(f->steps[number].touches & f->saves.registers) || ((f->seen[number] & FLOW_IDLE) && !f->in.range->open);
}

/* Returns true if flow_exits_note() needs no state for this instruction. */
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

/* Adds the results of one instruction: its exits and edges, with those to fixups, and the addresses of code that it
 * computes. `after` is set if only padding lies between a call and the instruction. */
static void step_note(struct flow *f, struct block *b, uint64_t off, uint32_t number, bool after)
{
	uint64_t size = flow_size(f), addr = f->in.range->start + off;
	struct step in = f->steps[number]; /* the list may move */
	bool anyhow = needs_no_state(f, &in) && !f->in.throws && off + in.len < size;
	const struct state *s = anyhow ? b->s : block_state(b, f, off);

	if (in.flow == FLOW_NEXT && space_may_hold(f->in.env->space, (uint64_t)in.imm) && flow_takes_address(f, &in))
		flow_ref_note(f, off, (uint64_t)in.imm);
	if (f->in.env->continuation_count && in.flow == FLOW_NEXT && in.imm)
		flow_continuation_note(f, off, s);
	if (f->in.fixup_count)
		flow_fault_note(f, addr, &in, s);
	if (f->in.noted)
		flow_edges_note(f, addr, s);
	if (in.flow != FLOW_NEXT || off + in.len >= size || !flow_walked(f, off + in.len))
		flow_exits_note(f, off, &in, s, after);
}

/* Can step_note() be skipped for an instruction, provided that the next one has been walked? */
static inline bool is_plain(const struct flow *f, const struct step *in)
{
	const struct flow_env *env = f->in.env;

	if (f->in.throws)
		return false;
	if (in->flow == FLOW_NEXT) /* no number in it is an address of code; with relocations, none is */
		return !in->imm || env->reloc_count ||
		       (!env->continuation_count && !space_may_hold(env->space, (uint64_t)in->imm));
	return in->flow == FLOW_BRANCH && needs_no_state(f, in);
}

/* Returns the number of steps that begin in [off, end). */
static inline __attribute__((always_inline)) unsigned starts_count(const struct flow *f, uint64_t off, uint64_t end)
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
 * Skips instructions from `off` on, which directly follow the one at `from`. They are skipped as long as they have its
 * unwind rule, end below `limit`, and neither the callback nor step_note() needs to see them, as is the case for most.
 * Returns the offset of the first instruction that is not skipped. With `saves`, f->saves is in use.
 */
static inline __attribute__((always_inline)) uint64_t plain_skip(struct flow *f, uint64_t from, uint64_t off,
                                                                 uint64_t limit, bool saves)
{
	uint64_t to = off, last = off, next;
	uint32_t i = f->at[off] - 1, after;
	unsigned n;

	for (n = 0; !f->leader[i] && (f->seen[i] & (FLOW_WALKED | FLOW_MOVES)) == FLOW_WALKED; n++) {
		const struct step *in = &f->steps[i];

		next = to + in->len;
		if (next >= limit || !is_plain(f, in) || (saves && !step_keeps_saves(f, i)) || !(after = f->at[next]) ||
		    !(f->seen[after - 1] & FLOW_WALKED))
			break;
		last = to;
		to = next;
		i = after - 1;
	}
	if (!n || starts_count(f, from, to) != n + 1) /* some instructions overlap, so nothing is skipped */
		return off;
	f->skip.last = f->in.range->start + last;
	f->skip.end = f->in.range->start + to;
	return to;
}

/* What a walk over the states is for: to add the results of the instructions, or only to report the states. */
enum purpose { NOTE /* add the results */, LOOK };

/* The position of a walk over the states of a code range, in order of address. */
struct pass {
	uint64_t next; /* offset where the last instruction ends; UINT64_MAX: there was none */
	bool same;     /* the rule is the one at the last call of the callback */
	bool kept;     /* f->saves.fn need not be called for the next instruction */
	bool after;    /* only padding lies between a call and the next instruction */
};

/* Moves to the instruction at `off`. Returns false if it has no state, or if it belongs to no block that is being
 * walked. */
static inline __attribute__((always_inline)) bool pass_enter(struct pass *p, struct block *b, struct cut *cut,
                                                             const struct flow *f, uint64_t off)
{
	uint32_t i = f->at[off] - 1, k = f->leader[i] - 1;

	if (!(f->seen[i] & FLOW_WALKED))
		return false;
	if (f->leader[i]) {
		if (!(f->state_live[k] & LIVE))
			return false;
		p->same = p->same && off == p->next && state_rules_same(b->s, &f->states[k]);
		p->kept = p->kept && off == p->next && saves_hold(b->s, &f->states[k], f->saves.registers);
		if (p->next != UINT64_MAX && off < p->next)
			block_cut(b, f, p->next, cut);
		block_begin(b, &f->states[k], off);
	} else if (off != p->next) {
		if (off != cut->at)
			return false;
		block_resume(b, f, off, p->next, cut);
		p->same = p->kept = false;
	}
	return true;
}

/* Passes the state before the instruction of `len` bytes at `off` to f->saves.fn and to fn, unless they need not see
 * it. */
static inline __attribute__((always_inline)) void pass_report(const struct pass *p, struct block *b, struct flow *f,
                                                              uint64_t off, unsigned len, flow_state_fn *fn, void *ctx)
{
	uint64_t addr = f->in.range->start + off;

	if (f->saves.fn && !p->kept) {
		f->saves.again = false;
		f->saves.fn(ctx, addr, len, block_state(b, f, off), false);
	}
	if (p->same && addr + len <= f->skip.below) {
		f->skip.last = addr;
		f->skip.end = addr + len;
	} else {
		fn(ctx, addr, len, block_state(b, f, off), p->same);
	}
}

/* Skips instructions after the one at `off` by plain_skip(), if possible. Returns the last offset that need not be
 * visited any more. */
static inline __attribute__((always_inline)) uint64_t pass_skip(struct pass *p, struct flow *f, uint64_t off)
{
	uint64_t start = f->in.range->start, size = flow_size(f), limit, to;

	if (!p->same || p->kept != !!f->saves.fn || f->in.range->open || p->next >= size || !f->at[p->next] ||
	    (p->after && f->steps[f->at[p->next] - 1].padding) || f->skip.below <= start)
		return off;
	limit = f->skip.below - start < size ? f->skip.below - start : size;
	to = p->kept ? plain_skip(f, off, p->next, limit, true) : plain_skip(f, off, p->next, limit, false);
	if (to == p->next)
		return off;
	p->after = false;
	p->next = to;
	return to - 1;
}

/*
 * Calls fn for each walked instruction in order of address, except those below flow.skip.below whose rule is the one at
 * the last call of fn. Blocks may overlap: if one begins inside an instruction of another, the other block is cut
 * there, and continues after that instruction.
 */
static void states_each(struct flow *f, flow_state_fn *fn, void *ctx, enum purpose purpose)
{
	uint64_t size = flow_size(f), off;
	struct block b;
	struct cut cut;
	struct pass p;

	p.next = cut.at = UINT64_MAX;
	p.same = p.kept = p.after = false;
	f->skip.below = f->skip.end = 0;
	for (off = step_next(f, 0, size); off < size; off = step_next(f, off + 1, size)) {
		uint32_t i = f->at[off] - 1;
		const struct step *in;

		if (!pass_enter(&p, &b, &cut, f, off))
			continue;
		p.next = off + f->steps[i].len;
		pass_report(&p, &b, f, off, f->steps[i].len, fn, ctx);
		in = &f->steps[i]; /* the callback may have decoded more instructions, and so moved the list */
		if (purpose == NOTE && (p.next >= size || !is_plain(f, in) || !flow_walked(f, p.next)))
			step_note(f, &b, off, i, p.after && !f->in.range->resumes);
		in = &f->steps[i];
		p.after = (in->flow == FLOW_CALL) | (in->flow == FLOW_CALL_IND) | (p.after & in->padding);
		p.same = block_same(&b, f, i, off);
		p.kept = p.same && f->saves.fn && !f->saves.again && step_keeps_saves(f, i);
		off = pass_skip(&p, f, off);
	}
}

void flow_states(struct flow *f, flow_state_fn *fn, void *ctx)
{
	states_each(f, fn, ctx, NOTE);
	if (f->walk.takes_own_address)
		flow_labels_note(f);
}

void flow_look(struct flow *f, flow_state_fn *fn, void *ctx) { states_each(f, fn, ctx, LOOK); }
