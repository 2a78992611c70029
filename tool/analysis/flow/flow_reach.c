/* SPDX-License-Identifier: MIT */
/* The first pass over a code range: decodes all reachable instructions and finds the leaders of basic blocks. Also
 * contains flow_gets_out(), which needs only this pass to decide whether a range may return. */
#include "analysis/flow/flow_internal.h"
#include "shared/search.h"
#include "support/memory.h"

#include <stdlib.h>

static void steps_grow(struct flow *f)
{
	size_t want = f->walk.step_capacity ? 2 * f->walk.step_capacity : 1024;

	f->steps = mem_resize(f->steps, want, sizeof(*f->steps));
	f->step_at = mem_resize(f->step_at, want, sizeof(*f->step_at));
	f->leader = mem_resize(f->leader, want, sizeof(*f->leader));
	f->seen = mem_resize(f->seen, want, sizeof(*f->seen));
	f->walk.step_capacity = want;
}

/* Grows the arrays that have an element per basic block. */
static void states_grow(struct flow *f)
{
	size_t want = f->walk.state_capacity ? 2 * f->walk.state_capacity : 128;

	f->states = mem_resize(f->states, want, sizeof(*f->states));
	f->state_live = mem_resize(f->state_live, want, sizeof(*f->state_live));
	f->step_of_state = mem_resize(f->step_of_state, want, sizeof(*f->step_of_state));
	f->walk.state_capacity = want;
}

/* Returns the relocation at an address, or null. Lookups come mostly in order of address, so the search starts at the
 * last result and widens exponentially. */
static const struct flow_reloc *reloc_at(struct flow *f, uint64_t addr)
{
	const struct flow_reloc *list = f->in.env->relocs;
	size_t i = f->walk.reloc_near, n = f->in.env->reloc_count, lo = 0, hi = n, step;

	if (i + 1 < n && list[i + 1].addr == addr)
		return &list[f->walk.reloc_near = i + 1];
	if (i < n && list[i].addr < addr) {
		for (lo = i, step = 1; lo + step < n && list[lo + step].addr < addr; step *= 2)
			lo += step;
		hi = lo + step < n ? lo + step + 1 : n;
	} else if (i < n && list[i].addr == addr) {
		return &list[i];
	} else {
		for (hi = i < n ? i : n, step = 1; hi > step && list[hi - step].addr >= addr; step *= 2)
			hi -= step;
		lo = hi > step ? hi - step : 0;
	}
	lo = SEARCH_IN(lo, hi, k, list[k].addr < addr);
	f->walk.reloc_near = lo;
	return lo < n && list[lo].addr == addr ? &list[lo] : NULL;
}

/* ET_REL: sets the target of a direct jump or call, or the external symbol whose GOT slot an indirect one uses, from
 * the relocation of the instruction. */
static void step_relocate(struct flow *f, struct step *s, uint64_t addr)
{
	const struct flow_reloc *r;
	uint64_t field = addr + s->len - 4u;

	if (s->flow == FLOW_JUMP || s->flow == FLOW_BRANCH || s->flow == FLOW_CALL) {
		if (s->len <= sizeof(uint32_t))
			return; /* it has an 8-bit displacement, which the assembler has resolved */
		r = reloc_at(f, field);
		if (r)
			s->imm = (int64_t)r->target;
	} else if ((s->flow == FLOW_JUMP_IND || s->flow == FLOW_CALL_IND) && s->deref && s->b == INSN_PC_REG) {
		r = reloc_at(f, field);
		s->imm = r && (r->target & FLOW_EXTERN) ? (int64_t)r->target : 0;
	}
}

/* Adjusts a decoded step to its context: to relocations, notes and the calling convention; if it is the hlt after the
 * call of main in the entry point; and if it is a call of the next address. */
static void step_settle(struct flow *f, struct step *s, uint64_t addr)
{
	if (f->in.env->reloc_count)
		step_relocate(f, s, addr);
	/* Control does not continue after the hlt that follows the call of main in the entry point: in an open code range,
	 * other code may come after it. */
	if (s->op == STEP_HALT && f->in.range->outermost && f->in.range->open) {
		s->flow = FLOW_STOP;
		s->effects |= EFFECT_CONTROL;
	}
	/* A call of the next instruction counts as a push: old position-independent code obtains rip this way. In an open
	 * code range, a function may begin at the next instruction; then it is a call, unless the code there uses the
	 * pushed word. */
	if (s->flow == FLOW_CALL && (uint64_t)s->imm == addr + s->len && addr + s->len < f->in.range->end &&
	    (!f->in.range->open || flow_uses_return_address(f, addr + s->len - f->in.range->start))) {
		s->flow = FLOW_NEXT;
		s->op = STEP_PUSH;
		s->a = INSN_NO_REG;
		s->imm = 8;
		s->touches |= 1u << ETCH_REG_RSP;
		s->effects |= EFFECT_OTHER;
		f->walk.takes_own_address = true;
	}
	if ((f->in.abi_flags & ABI_FRAMES_BY_RBP) && s->op == STEP_NONE && s->b == ETCH_REG_RSP &&
	    s->index != INSN_NO_REG) {
		s->op = STEP_STORE; /* perhaps it stores an unknown value: see state_stored_among() */
		s->touches |= 1u << ETCH_REG_RSP;
	}
	if (f->in.handler && s->op == STEP_LOAD && s->a == ETCH_REG_RBP) { /* see state_rbp_loaded() */
		s->touches |= 1u << ETCH_REG_RSP;
		s->effects |= EFFECT_OTHER;
	}
	if (f->in.noted)
		flow_note_step(f, s, addr);
}

/* Given a file with notes: would flow_note_step() leave a step as it is? The other parts of step_settle() do not count
 * here. */
static inline __attribute__((always_inline)) bool step_unnoted(const struct flow *f, const struct step *s,
                                                               const uint8_t *bytes, uint64_t addr)
{
	const struct notes *n = f->in.env->notes;

	if (f->in.notes < f->in.notes_end && (note_any(n, addr) || note_any(n, addr + s->len)))
		return false;
	return s->len > LEAVES_MOST || s->op != STEP_NONE || !code_leaves(bytes, s->len);
}

/* Would step_settle() leave a step as it is, so that it need not be called? This is so for most steps. */
static inline __attribute__((always_inline)) bool is_settled(const struct flow *f, const struct step *s,
                                                             const uint8_t *bytes, uint64_t addr, bool noted)
{
	/* One test covers both conditions, to make the loop of run_decode() fast. */
	_Static_assert(FLOW_NEXT == 0, "its bits are joined with those of `settles`");

	return (s->flow | (unsigned)f->in.settles) == FLOW_NEXT && s->op != STEP_HALT &&
	       (!noted || step_unnoted(f, s, bytes, addr));
}

uint32_t flow_step_new(struct flow *f, uint64_t off)
{
	const uint8_t *bytes = f->in.range->bytes + off;
	uint64_t addr = f->in.range->start + off;
	size_t n = f->step_count;
	struct step *s;

	if (n == f->walk.step_capacity)
		steps_grow(f);
	s = &f->steps[n];
	if (!step_decode_in(f->cache, bytes, f->in.range->end - addr, f->in.readable - off, addr, s))
		return NO_STEP;
	if (!is_settled(f, s, bytes, addr, f->in.noted))
		step_settle(f, s, addr);
	f->walk.effects |= s->effects;
	f->step_at[n] = (uint32_t)off;
	f->leader[n] = 0;
	f->seen[n] = 0;
	f->step_count = n + 1;
	f->found.insn_count++;
	f->at[off] = (uint32_t)n + 1;
	f->starts[off / 64] |= (uint64_t)1 << off % 64;
	return (uint32_t)n;
}

/* The number of bytes that walked_again() searches backward for the leader of an instruction's block. */
#define BLOCK_MOST 4096u

/* Called when a new leader at `off` splits a block that has been walked: queues the block that contained it. If that
 * block is not found, sets flow.walk.dirty, so that flow_walk() queues all blocks. */
static void walked_again(struct flow *f, uint64_t off)
{
	uint64_t from, at, least = off > BLOCK_MOST ? off - BLOCK_MOST : 0;

	for (from = off; from-- > least;) {
		uint32_t i = f->at[from] ? f->at[from] - 1 : NO_STEP;

		if (i == NO_STEP || !f->leader[i] || !(f->state_live[f->leader[i] - 1] & LIVE))
			continue;
		for (at = from; at < off && f->at[at]; at += f->steps[f->at[at] - 1].len)
			;
		if (at == off) {
			flow_queue(f, f->leader[i] - 1);
			return;
		}
	}
	f->walk.dirty = true;
}

uint32_t flow_leader(struct flow *f, uint64_t off)
{
	uint32_t i = flow_step(f, off);

	if (i == NO_STEP || f->leader[i])
		return i;
	if (f->state_count == f->walk.state_capacity)
		states_grow(f);
	if (f->seen[i] & FLOW_WALKED)
		walked_again(f, off);
	f->state_live[f->state_count] = 0;
	f->step_of_state[f->state_count] = i;
	f->leader[i] = (uint32_t)++f->state_count;
	return i;
}

static void todo_add(struct flow *f, uint64_t off)
{
	mem_reserve(&f->walk.todo, &f->walk.todo_capacity, f->walk.todo_count, sizeof(*f->walk.todo));
	f->walk.todo[f->walk.todo_count++] = (uint32_t)off;
}

/* If a target is in the code range, makes it the leader of a block, and adds it to flow.walk.todo for decoding. */
static void scan_later(struct flow *f, uint64_t addr)
{
	uint64_t off = addr - f->in.range->start;
	uint32_t i = flow_inside(f, addr) ? f->at[off] : 0;

	if (!flow_inside(f, addr) || (i && f->leader[i - 1] && (f->seen[i - 1] & FLOW_SCANNED)))
		return;
	flow_leader(f, off);
	todo_add(f, off);
}

/* Adds the landing pad, the fixups and the targets of NOTE_EDGE of the instruction at an address to the offsets to
 * decode from. */
static void scan_throws(struct flow *f, uint64_t addr)
{
	uint64_t pad = f->walk.pad_count ? flow_pad_of(f, addr) : 0;
	const struct fixup *fixup = f->in.fixup_count ? flow_fixup_of(f, addr) : NULL;
	const struct note *note;

	if (pad)
		scan_later(f, pad);
	for (; fixup; fixup = flow_fixup_next(f, fixup))
		scan_later(f, fixup->to);
	for (note = note_at(f->in.env->notes, addr, NOTE_EDGE); note_is(f->in.env->notes, note, addr, NOTE_EDGE); note++)
		scan_later(f, note->to);
}

/* Adds the targets of a control-flow instruction to the offsets to decode from. Returns true if control may also reach
 * the next instruction, at offset `after`. */
static bool scan_leaves(struct flow *f, const struct step *in, uint64_t after)
{
	switch (in->flow) {
	case FLOW_JUMP:
	case FLOW_BRANCH:
		scan_later(f, (uint64_t)in->imm);
		/* The code at the target may need constants. walk_outside() would set this, too, but later. */
		if (!flow_inside(f, (uint64_t)in->imm) &&
		    (in->flow == FLOW_BRANCH || !flow_may_tail_call(f, (uint64_t)in->imm)))
			f->walk.effects |= EFFECT_NEEDS_CONSTANT;
		return in->flow == FLOW_BRANCH;
	case FLOW_CALL:
		if (flow_calls_inside(f, in))
			scan_later(f, (uint64_t)in->imm); /* a local helper */
											  /* fall through */
	case FLOW_CALL_IND: return flow_comes_back(f, in) && !(f->in.range->open && flow_is_end(f, in, after));
	default: return in->flow == FLOW_NEXT;
	}
}

/*
 * Decodes straight-line code from *from on, as flow_step_new() does for one instruction. Stops after a control-flow
 * instruction, or with `one` after the first instruction: then returns true, and *from is the offset of that
 * instruction. Returns false if it has stopped because the bytes at the new *from are decoded already, do not decode,
 * or are at the end of the range. `noted` is flow_input.noted.
 */
static inline __attribute__((always_inline)) bool run_decode(struct flow *f, uint64_t *from, uint64_t size, bool one,
                                                             bool noted)
{
	const uint8_t *bytes = f->in.range->bytes;
	uint64_t start = f->in.range->start, off = *from, *starts = f->starts;
	size_t readable = f->in.readable, n = f->step_count;
	uint32_t *at = f->at;
	bool on = true;

	while (off < size && !at[off]) {
		struct step *s;

		if (n == f->walk.step_capacity)
			steps_grow(f);
		s = &f->steps[n];
		if (!step_decode_in(f->cache, bytes + off, size - off, readable - off, start + off, s))
			break;
		f->step_at[n] = (uint32_t)off;
		f->leader[n] = 0;
		f->seen[n] = FLOW_SCANNED;
		at[off] = (uint32_t)++n;
		starts[off / 64] |= (uint64_t)1 << off % 64;
		if (!is_settled(f, s, bytes + off, start + off, noted))
			step_settle(f, s, start + off);
		f->walk.effects |= s->effects;
		on = !one && s->flow == FLOW_NEXT;
		if (!on)
			break;
		off += s->len;
	}
	f->found.insn_count += n - f->step_count;
	f->step_count = n;
	*from = off;
	return !on;
}

/* Decodes from an offset on until control does not go on, or reaches an instruction that is already FLOW_SCANNED. */
static void scan_from(struct flow *f, uint64_t off)
{
	bool throws = f->walk.pad_count || f->in.throws;
	uint64_t size = flow_size(f);

	while (off < size) {
		bool fresh = !f->at[off] &&
		             (f->in.noted ? run_decode(f, &off, size, throws, true) : run_decode(f, &off, size, throws, false));
		unsigned len;
		uint32_t i;

		if (off >= size || !f->at[off])
			return;
		i = f->at[off] - 1;
		if (!fresh && (f->seen[i] & FLOW_SCANNED)) {
			if (!f->leader[i])
				flow_leader(f, off);
			return;
		}
		f->seen[i] |= FLOW_SCANNED;
		len = f->steps[i].len;
		if (throws)
			scan_throws(f, f->in.range->start + off);
		if (f->steps[i].flow != FLOW_NEXT) {
			struct step in = f->steps[i]; /* the list may move */

			if (!scan_leaves(f, &in, off + len))
				return;
		}
		off += len;
	}
}

void flow_reach(struct flow *f, uint64_t off)
{
	todo_add(f, off);
	while (f->walk.todo_count)
		scan_from(f, f->walk.todo[--f->walk.todo_count]);
}

/* ---- is there a way out? ----------------------------------------------------------------- */

/* May this instruction, by itself, lead back to the caller? Returns true also if its target is unknown. */
static bool leads_out(const struct flow *f, const struct step *in)
{
	struct step to = *in;

	switch (in->flow) {
	case FLOW_RETURN:
	case FLOW_JUMP_IND: return true;
	case FLOW_JUMP:
	case FLOW_BRANCH: to.flow = FLOW_JUMP; return !flow_inside(f, (uint64_t)in->imm) && !flow_is_noreturn(f, &to);
	default: /* code may jump to an address in the range that the range itself computes */
		return in->op == STEP_ADDRESS && in->b == INSN_PC_REG && flow_inside(f, (uint64_t)in->imm);
	}
}

/* Is step i a call that is not known to be noreturn, and that ends its function (flow_is_end())? */
static bool ends_in(struct flow *f, uint32_t i)
{
	struct step in = f->steps[i]; /* the list may move */

	return flow_is_call(in.flow) && flow_comes_back(f, &in) && flow_is_end(f, &in, f->step_at[i] + in.len);
}

/* Does control continue after step i? `padding` is the offset after a call that only padding follows: from there on, it
 * does not continue after padding. */
static bool continues(struct flow *f, uint32_t i, uint64_t padding)
{
	uint64_t size = flow_size(f), off = f->step_at[i];
	const struct step *in = &f->steps[i];

	if (in->flow == FLOW_JUMP || in->flow == FLOW_STOP || (in->padding && off >= padding) ||
	    (in->op == STEP_HALT && off + in->len >= size))
		return false;
	return !flow_is_call(in->flow) || (flow_comes_back(f, in) && !ends_in(f, i));
}

/*
 * Does control leave the code range at its end, or reach bytes that do not decode? Called after all reachable code is
 * decoded. As in flow_exits_note(), a call of a known target with only padding after it counts as noreturn.
 */
static bool falls_out(struct flow *f)
{
	uint64_t size = flow_size(f), padding = size; /* the lowest offset after a call with only padding after it */
	uint32_t i, n = (uint32_t)f->step_count;

	for (i = 0; i < n; i++) {
		uint64_t next = f->step_at[i] + f->steps[i].len;

		if (!(f->seen[i] & FLOW_SCANNED) || !ends_in(f, i))
			continue;
		if (!flow_exit_target(&f->steps[i]))
			return true;
		if (!f->in.range->open && next < padding)
			padding = next;
	}
	for (i = 0; i < n; i++) {
		uint64_t next = f->step_at[i] + f->steps[i].len;

		if ((f->seen[i] & FLOW_SCANNED) && continues(f, i, padding) && (next >= size || !f->at[next]))
			return true;
	}
	return false;
}

bool flow_gets_out(struct flow *f, const struct flow_env *env, uint32_t range, const uint64_t *in, size_t in_count)
{
	const struct code_range *p = &env->ranges[range];
	size_t i, seen = 0;

	if (p->plt || p->outermost || env->notes || !flow_prepare(f, env, range) || f->in.own_stack || f->in.fixup_count)
		return true;
	f->in.relaxed = false;
	for (i = 0; i < in_count; i++)
		scan_later(f, in[i]);
	for (i = 0; i < p->entry_count; i++)
		scan_later(f, env->entries[p->entry + i]);
	scan_later(f, p->start);
	while (f->walk.todo_count) {
		scan_from(f, f->walk.todo[--f->walk.todo_count]);
		for (; seen < f->step_count; seen++) /* some of these steps were only decoded by looking ahead */
			if (leads_out(f, &f->steps[seen]))
				return true;
	}
	return falls_out(f);
}
