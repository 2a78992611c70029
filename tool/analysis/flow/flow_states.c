/* SPDX-License-Identifier: MIT */
/* Passes the states of a code range at the fixpoint to a callback, in order of address, and collects the results of its
 * instructions (exits.c). */
#include "analysis/flow/flow_internal.h"

/* Returns the next offset, from `off` on, at which an instruction has been decoded, or the code range's size. */
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

/* A cursor over the states of one basic block. It moves only when somebody asks for a state. */
struct block {
	const struct state *s; /* the state before the instruction at `at`: `own`, or still that of the leader */
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

/* The state of a block that another one cut in the middle of an instruction, after that instruction. */
struct cut {
	uint64_t at; /* UINT64_MAX: none */
	struct state s;
};

/* Keeps the state after the instruction that ends at `next`, because another basic block begins inside of it. */
static void block_cut(struct block *b, const struct flow *f, uint64_t next, struct cut *cut)
{
	state_copy(&cut->s, block_state(b, f, next));
	cut->at = next;
}

/* Continues, at `off`, the block that was cut. If the block before it continues at `next`, that block is cut
 * instead. */
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
 * Is the unwind rule after an instruction certainly the one before it? FLOW_MOVES of the last walk tells. In open code
 * ranges the answer is recomputed, since the set of noreturn calls, and so the code that the last walk covered, may
 * have changed.
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
	return same && !(f->seen[number] & FLOW_MOVES); /* flow_tails_find() may have set it */
}

/* After an instruction that leaves the rule as it is: are the callee-saved registers certainly where they were?
 * Anything that moves them, other than a write to one of them, changes the rule, too. */
static inline bool step_keeps_saves(const struct flow *f, uint32_t number)
{
	return !(f->steps[number].touches & f->saves.registers) || ((f->seen[number] & FLOW_IDLE) && !f->in.range->open);
}

/* Does flow_exits_note() need no state for this instruction? */
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
	if (f->in.throws)
		return false;
	if (in->flow == FLOW_NEXT)
		return !in->imm | (f->in.env->reloc_count != 0);
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
 * Skips instructions from `off` on, which follow the one at `from` and have the same rule, that neither the callback
 * nor step_note() needs to see: these are most. Returns the offset of the first instruction that is not skipped.
 * `saves`: f->saves is in use.
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
	if (!n || starts_count(f, from, to) != n + 1) /* some instructions overlap */
		return off;
	f->skip.last = f->in.range->start + last;
	f->skip.end = f->in.range->start + to;
	return to;
}

/* The purposes of a walk over the states. */
enum purpose { NOTE /* collect the results */, LOOK };

/* The position of a walk over the states of a code range, in order of address. */
struct pass {
	uint64_t next; /* where the last instruction ends; UINT64_MAX: there was none */
	bool same;     /* the rule is that of the last call */
	bool kept;     /* f->saves.fn need not be called */
	bool after;    /* only padding lies between a call and this instruction */
};

/* Moves to the instruction at `off`. Returns false if no state has reached it on this walk's blocks. */
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

/* Passes the state before the instruction of `len` bytes at `off` to the callbacks that need it. */
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

/* Skips what plain_skip() can skip of the instructions after the one at `off`. Returns the last offset that needs no
 * more visit. */
static inline __attribute__((always_inline)) uint64_t pass_skip(struct pass *p, struct flow *f, uint64_t off)
{
	uint64_t start = f->in.range->start, size = flow_size(f), limit, to;

	if (!p->same || p->kept != !!f->saves.fn || p->after || f->in.range->open || p->next >= size || !f->at[p->next] ||
	    f->skip.below <= start)
		return off;
	limit = f->skip.below - start < size ? f->skip.below - start : size;
	to = p->kept ? plain_skip(f, off, p->next, limit, true) : plain_skip(f, off, p->next, limit, false);
	if (to == p->next)
		return off;
	p->next = to;
	return to - 1;
}

/*
 * Calls fn for each walked instruction in order of address, except those below flow.skip.below whose rule is that of
 * the last call. Blocks may overlap, where one begins inside an instruction of another: then the block that is cut
 * continues afterwards.
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
		in = &f->steps[i]; /* the callback may decode more and move the list */
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
