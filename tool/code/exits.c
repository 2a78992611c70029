/* SPDX-License-Identifier: MIT */
/* What a piece is found to be: its states in order of address, and how control
 * leaves it. */
#include "code/flow_parts.h"
#include "code/vector.h"

#include <stdlib.h>
#include <string.h>

static inline size_t edge_hash(uint64_t target) { return (size_t)(target * 0x9e3779b97f4a7c15u >> 32); }

/* Of edges to one place, one that knows what all of them know. */
static void edge_add(struct flow *f, uint64_t target, const struct state *s)
{
	size_t mask = f->edge_hash_size - 1, h;

	if (2 * (f->edge_count + 1) > f->edge_hash_size) {
		size_t size = f->edge_hash_size ? 2 * f->edge_hash_size : 256, i;
		uint32_t *hash = calloc(size, sizeof(*hash));

		if (!hash) {
			f->failed = true;
			return;
		}
		mask = size - 1;
		for (i = 0; i < f->edge_count; i++) {
			for (h = edge_hash(f->edges[i].target) & mask; hash[h]; h = (h + 1) & mask)
				;
			hash[h] = (uint32_t)i + 1;
		}
		free(f->edge_hash);
		f->edge_hash = hash;
		f->edge_hash_size = size;
	}
	for (h = edge_hash(target) & mask; f->edge_hash[h]; h = (h + 1) & mask)
		if (f->edges[f->edge_hash[h] - 1].target == target) {
			state_merge(&f->edges[f->edge_hash[h] - 1].state, s);
			return;
		}
	f->edge_hash[h] = (uint32_t)f->edge_count + 1;
	if (!room_make(&f->edges, &f->edge_room, f->edge_count, sizeof(*f->edges))) {
		f->failed = true;
		return;
	}
	f->edges[f->edge_count].target = target;
	f->edges[f->edge_count].from = f->number;
	state_copy(&f->edges[f->edge_count++].state, s);
}

/* A jump out of the piece. */
static void leave(struct flow *f, uint64_t target, const struct state *s)
{
	const struct piece *p;

	if (flow_is_tail_call(f, target, s)) {
		f->ends = true;
		f->odd |= (target & (FLOW_EXTERN | FLOW_SLOT)) && !state_is_entry(s);
		flow_exit_add(f, target, EXIT_TAIL);
		return;
	}
	edge_add(f, target, s);
	/* Numbers that look like code pop more than there is. */
	f->refuted |= f->piece->stray && s->reg[ETCH_REG_RSP].kind == VALUE_CFA && s->reg[ETCH_REG_RSP].off > 0;
	p = piece_at(f->env, target);
	if (!p || p->start == target) /* where none is, one will be */
		flow_exit_add(f, target, EXIT_PART);
	else
		f->returns = true; /* into the middle of another: as good as a return */
}

/* Instructions that are passed in search of a gap. */
#define GAP_MOST 256

/*
 * In a piece of which nothing says where it ends: does a jump in the state of a function's
 * entry lead over code that nothing has reached? Then another function begins there.
 */
static bool is_tail_inside(struct flow *f, uint64_t off, uint64_t target, const struct state *s)
{
	unsigned n;

	if (!f->piece->open || target <= off || !state_is_entry(s))
		return false;
	for (n = 0; n < GAP_MOST && off < target; n++) {
		uint32_t i = flow_step(f, off);

		if (i == NO_STEP || (!(f->seen[i] & FLOW_WALKED) && !f->steps[i].padding))
			return true;
		off += f->steps[i].len;
	}
	return false;
}

/* rsp where control leaves for good, against what it was at the start. */
static void lift_note(struct flow *f, const struct state *before, unsigned target)
{
	struct value v = before->reg[ETCH_REG_RSP], to = before->reg[target & 15];

	if (target < 16 && to.kind == VALUE_ENTRY && to.reg == REG_RA)
		return; /* it has popped its return address and goes there: a return */
	if (v.kind != VALUE_CFA || v.off <= -8 || (f->lifted && f->lifted != v.off + 8))
		f->lowered = true;
	else
		f->lifted = v.off + 8;
}

/*
 * With the return address on top, callee-saved registers are the caller's again: no C function goes
 * where memory at one of them says. GHC's code returns so, to what Sp, rbp, points to; what rsp points
 * to is no return address there.
 */
static bool is_foreign(const struct piece *p, const struct step *in, const struct state *s)
{
	return !p->go && in->deref && in->index == INSN_NO_REG && in->b < 16 && (STEP_CALLEE_SAVED >> in->b & 1) &&
	       s->reg[ETCH_REG_RSP].kind == VALUE_CFA && s->reg[ETCH_REG_RSP].off == -8;
}

/* `behind`: nothing but padding lies between a call and this instruction. */
static void exits_note(struct flow *f, uint64_t addr, unsigned len, const struct state *before, bool behind)
{
	uint64_t off = addr - f->piece->start, end = f->piece->end, target, pad;
	struct step in = f->steps[f->at[off] - 1];
	struct state after;

	if (before->dead)
		return;
	pad = f->pad_count && (in.flow == FLOW_CALL || in.flow == FLOW_CALL_IND) ? flow_pad_of(f, addr) : 0;
	if (pad && !flow_inside(f, pad)) {
		flow_land(f, before, &after);
		edge_add(f, pad, &after);
	}
	switch (in.flow) {
	case FLOW_RETURN:
		lift_note(f, before, 16);
		f->returns = true;
		f->odd |= before->reg[ETCH_REG_RSP].kind != VALUE_CFA;
		f->ends |= state_is_entry(before);
		f->unbalanced |= before->reg[ETCH_REG_RSP].kind == VALUE_CFA && !state_is_entry(before) &&
		                 !(f->lenient && f->helpers && before->reg[ETCH_REG_RSP].off == -8);
		f->refuted |= before->reg[ETCH_REG_RSP].kind == VALUE_CFA && before->reg[ETCH_REG_RSP].off != -8;
		return;
	case FLOW_STOP:
		return;
	case FLOW_JUMP_IND:
		/* With the return address gone, it was not one. */
		f->refuted |= before->reg[ETCH_REG_RSP].kind == VALUE_CFA && before->reg[ETCH_REG_RSP].off > 0;
		f->foreign |= is_foreign(f->piece, &in, before);
		target = flow_exit_target(&in);
		if (in.number && f->jumps[in.number - 1].entries) {
			const struct flow_jump *j = &f->jumps[in.number - 1];
			unsigned i;

			for (i = 0; i < j->entries; i++) {
				target = jump_table_target(f, &j->what, i);
				if (!flow_inside(f, target) && j->what.most)
					leave(f, target, before);
			}
			f->returns |= !j->what.most; /* not all that it can take is known */
		} else if (target && state_is_entry(before)) {
			flow_exit_add(f, target, EXIT_TAIL);
		} else {
			lift_note(f, before, in.deref ? 16 : in.b);
			f->returns = true;
		}
		return;
	case FLOW_JUMP:
	case FLOW_BRANCH:
		target = (uint64_t)in.imm;
		if (!flow_inside(f, target)) {
			state_copy(&after, before);
			if (in.flow == FLOW_BRANCH && in.writes)
				state_step(&after, &in, (uint32_t)off);
			leave(f, target, &after);
		} else if (in.flow == FLOW_JUMP && is_tail_inside(f, off + len, target - f->piece->start, before)) {
			flow_exit_add(f, target, EXIT_TAIL);
		}
		if (in.flow == FLOW_JUMP)
			return;
		break;
	case FLOW_CALL:
	case FLOW_CALL_IND:
		target = flow_exit_target(&in);
		if (target && !flow_is_helper(f, target)) {
			uint32_t i = off + len < end - f->piece->start ? f->at[off + len] : 0;
			bool last = flow_is_end(f, off + len);

			flow_exit_add(f, target, last ? EXIT_LAST : i && f->leader[i - 1] ? EXIT_CALL : EXIT_FRESH);
		}
		if (!flow_comes_back(f, &in))
			return;
		if (flow_is_end(f, off + len)) {
			/* Compilers end a function so only behind a call that does not come back. */
			if (!target)
				f->returns = true;
			return;
		}
		break;
	default:
		break;
	}
	if (flow_is_exit(&in, before))
		return;
	if (addr + len < end && !flow_walked(f, off + len))
		f->returns = f->broken = true; /* it does not decode: who knows */
	if (addr + len >= end && in.op != STEP_HALT && !(behind && in.padding)) { /* falls out */
		struct compared c = {0};

		state_copy(&after, before);
		flow_advance(&in, &after, (uint32_t)off, &c);
		f->returns = true;
		if (!flow_is_tail_call(f, end, &after))
			edge_add(f, end, &after);
	}
}

/* Can the number in an instruction be an address that it takes? What it loads from is none, and
 * where a file is not linked to its address, only what counts from rip. */
static bool takes_address(const struct flow *f, const struct step *in)
{
	if (!in->imm || f->env->reloc_count)
		return false;
	return in->b == INSN_PC_REG ? in->op == STEP_ADDRESS : f->env->file->eh.e_type != ET_DYN;
}

/* An address in a register: of a function, perhaps. What the entry point hands on is called. */
static void ref_note(struct flow *f, uint64_t addr)
{
	unsigned kind = f->piece->outermost ? EXIT_CALL : EXIT_REF;
	const struct code_space *space = f->env->space;
	const struct code_section *c;
	const struct piece *p;

	if (addr < space->list[0].addr ||
	    addr >= space->list[space->count - 1].addr + space->list[space->count - 1].size)
		return;
	p = piece_at(f->env, addr);
	if (p) {
		if (p->start == addr ? !p->named : p->open)
			flow_exit_add(f, addr, kind);
		return;
	}
	/* In code that nothing covers: assembly without .eh_frame is called through tables
	 * of pointers, which other code fills in. */
	c = space_at(space, addr);
	if (c && !elf_is_object(f->env->file))
		flow_exit_add(f, addr, kind);
}

/* It may fault, and go on outside of the piece. */
static void fault_note(struct flow *f, uint64_t addr, const struct step *in, const struct state *before)
{
	const struct fixup *x = flow_fixup_of(f, addr);
	struct state fault;

	if (!x || before->dead || flow_inside(f, x->to))
		return;
	flow_fault(x, in, before, &fault);
	leave(f, x->to, &fault);
}

/* Registers that an instruction changes, and nothing else; rsp where it changes more. */
static unsigned changed_registers(const struct step *in)
{
	switch (in->op) {
	case STEP_NONE:
	case STEP_COMPARE:
	case STEP_LIMIT:
		return in->writes;
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
	case STEP_EXTEND:
		return in->writes | 1u << in->a;
	default:
		return 1u << ETCH_REG_RSP;
	}
}

static bool any_rules(const struct state *s, unsigned mask)
{
	for (; mask; mask &= mask - 1)
		if (state_rules(s, (unsigned)__builtin_ctz(mask)))
			return true;
	return false;
}

/* flow_advance(); returns whether all that rules are made of has stayed as it is, which is so behind
 * most instructions. */
static bool advance(const struct step *in, struct state *s, uint32_t off, struct compared *c)
{
	const unsigned frame = 1u << ETCH_REG_RSP | 1u << ETCH_REG_RBP;
	unsigned slots = s->slot_count, changed;
	bool same;

	if (in->flow == FLOW_BRANCH)
		same = c->op != STEP_COMPARE && !in->writes;
	else if (in->flow == FLOW_CALL || in->flow == FLOW_CALL_IND)
		same = !s->weak && !any_rules(s, s->known & ~(frame | STEP_CALLEE_SAVED)); /* weak: see is_anchored() of emit.c */
	else if (in->flow != FLOW_NEXT)
		same = false;
	else if (state_leaves(s, in))
		same = true;
	else if (in->op == STEP_STORE && !in->writes)
		same = in->a >= 16 || (s->reg[in->a].kind != VALUE_ENTRY && s->reg[in->a].kind != VALUE_CFA);
	else {
		changed = changed_registers(in);
		same = !(changed & frame) && !any_rules(s, changed);
		flow_advance(in, s, off, c);
		return same && !any_rules(s, changed) && s->slot_count == slots;
	}
	flow_advance(in, s, off, c);
	return same && s->slot_count == slots;
}

static void states_each(struct flow *f, flow_state_fn *fn, void *ctx, bool note)
{
	uint64_t size = f->piece->end - f->piece->start, off, next = UINT64_MAX;
	struct compared c = {0};
	struct state s;
	bool same = false, behind = false;

	for (off = 0; off < size; off++) {
		const struct step *in;
		uint32_t i;

		while (off < size && !f->at[off])
			off++;
		if (off == size)
			break;
		i = f->at[off] - 1;
		if (!(f->seen[i] & FLOW_WALKED))
			continue;
		in = &f->steps[i];
		if (f->leader[i]) {
			if (!(f->state_live[f->leader[i] - 1] & LIVE))
				continue;
			state_copy(&s, &f->states[f->leader[i] - 1]);
			same = false;
			c = (struct compared){0};
		} else if (off != next) {
			continue; /* its predecessor overlaps another: scan() made it a leader */
		}
		fn(ctx, f->piece->start + off, in->len, &s, same);
		in = &f->steps[i]; /* who looks may decode more */
		if (note && in->flow == FLOW_NEXT && takes_address(f, in))
			ref_note(f, (uint64_t)in->imm);
		if (note && f->fixup_count)
			fault_note(f, f->piece->start + off, in, &s);
		if (note && (in->flow != FLOW_NEXT || off + in->len >= size || !flow_walked(f, off + in->len)))
			exits_note(f, f->piece->start + off, in->len, &s, behind);
		in = &f->steps[i];
		behind = in->flow == FLOW_CALL || in->flow == FLOW_CALL_IND || (behind && in->padding);
		next = off + in->len;
		same = advance(in, &s, (uint32_t)off, &c);
	}
}

void flow_states(struct flow *f, flow_state_fn *fn, void *ctx) { states_each(f, fn, ctx, true); }

void flow_look(struct flow *f, flow_state_fn *fn, void *ctx) { states_each(f, fn, ctx, false); }
