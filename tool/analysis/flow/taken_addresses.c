/* SPDX-License-Identifier: MIT */
/*
 * Addresses of code that code computes (takes): adds exits for those that may be functions, also if they are computed
 * relative to another address of code, and adds edges to continuations.
 */
#include "analysis/flow/flow_internal.h"
#include "arch/x86/insn.h"
#include "shared/search.h"

/* The address is in in->imm. An address from which the instruction loads does not count. In a file that is not linked
 * to a fixed address, only a rip-relative lea computes an address. */
bool flow_takes_address(const struct flow *f, const struct step *in)
{
	if (!in->imm || f->in.env->reloc_count)
		return false;
	return in->b == INSN_PC_REG ? in->op == STEP_ADDRESS : f->in.env->file->eh.e_type != ET_DYN;
}

/* Adds an exit of a kind for address `addr`, which the instruction at an offset computes. */
static void ref_add(struct flow *f, uint64_t off, uint64_t addr, unsigned kind)
{
	flow_exit_add(f, addr, kind);
	f->found.exits[f->found.exit_count - 1].at = (uint32_t)off;
}

/* A function whose address the file's entry point computes, such as main, counts as called. */
void flow_ref_note(struct flow *f, uint64_t off, uint64_t addr)
{
	unsigned kind = f->in.range->outermost ? EXIT_CALL : EXIT_REF;
	const struct code_section *c;
	const struct code_range *p = range_at(f->in.env, addr);

	if (p) {
		if (p->start == addr ? !p->named : p->open)
			ref_add(f, off, addr, kind);
		return;
	}
	/* The address is outside of all code ranges. It may belong to assembly without .eh_frame, which is called through
	 * tables of pointers that other code fills in. */
	c = space_at(f->in.env->space, addr);
	if (c && !elf_is_object(f->in.env->file))
		ref_add(f, off, addr, kind);
}

/* ---- labels --------------------------------------------------------------------------------- */

/*
 * Finds addresses that code computes from one of its own addresses: call 1f; 1: pop %r; lea label - 1b(%r), %s.
 * Assembly does this to fill a table with the labels of an interpreter's handlers.
 */

static bool is_call(const struct flow *f, uint64_t off, const struct step *in)
{
	struct insn x;

	return in->op == STEP_PUSH && in->flow == FLOW_NEXT &&
	       insn_decode(f->in.range->bytes + off, in->len, f->in.range->start + off, &x) && x.flow == FLOW_CALL;
}

/* Adds exits for the addresses that the rest of a block, from `off` on, computes from register r, which holds the
 * address `own`. */
static void block_note(struct flow *f, uint64_t off, unsigned r, uint64_t own)
{
	uint64_t size = flow_size(f);

	while (off < size && f->at[off] && (f->seen[f->at[off] - 1] & FLOW_WALKED) && !f->leader[f->at[off] - 1]) {
		struct step in = f->steps[f->at[off] - 1]; /* the list may move */

		if (in.flow != FLOW_NEXT)
			return;
		if (in.op == STEP_ADDRESS && in.b == r)
			flow_ref_note(f, off, own + (uint64_t)(int64_t)in.disp);
		if ((in.writes >> r & 1) || (in.a == r && !step_pushes(&in) && in.op != STEP_STORE && in.op != STEP_COMPARE))
			return;
		off += in.len;
	}
}

void flow_labels_note(struct flow *f)
{
	uint64_t size = flow_size(f), off;

	for (off = 0; off < size; off++) {
		struct step in = f->at[off] ? f->steps[f->at[off] - 1] : (struct step){0}, pop;
		uint64_t own = off + in.len;

		if (!f->at[off] || !is_call(f, off, &in) || own >= size || !f->at[own])
			continue;
		pop = f->steps[f->at[own] - 1];
		if (pop.op == STEP_POP && pop.a < 16)
			block_note(f, own + pop.len, pop.a, f->in.range->start + own);
	}
}

/* ---- continuations -------------------------------------------------------------------------- */

/* Adds edges to continuations (struct flow_continuation) from the instructions that pass on their addresses in a
 * register. The state of an edge is made from the state at that instruction, and from what is known about the later
 * jump to the continuation (interproc/continuations.c). */

/* Adds an edge to a continuation, in state s. If a code range begins there, or none is there, also adds an exit. */
static void continuation_enter(struct flow *f, uint64_t label, const struct state *s)
{
	const struct code_range *p = range_at(f->in.env, label);

	flow_edge_add(f, label, s);
	if (!p || p->start == label)
		flow_exit_add(f, label, EXIT_PART);
	else
		f->found.may_return = true;
}

/* Turns *s into the state at a continuation. *s is the state at the instruction that passes on its address, or at the
 * entry of the called function; until the jump to the continuation, rsp moves by `moved`, and the registers in `writes`
 * change. Values that code has stored are unknown, except the saved registers of the caller. A caller's register whose
 * slot is no longer on the stack, and which is in `writes`, has been restored. */
static void continuation_state(struct state *s, int32_t moved, unsigned writes)
{
	struct value *sp = &s->reg[ETCH_REG_RSP];
	unsigned i, n, r;

	state_call(s);
	for (r = 0; r < 16; r++)
		if (writes >> r & 1)
			s->reg[r] = (struct value){0};
	if (sp->kind != VALUE_ANY)
		sp->off += moved;
	for (i = n = 0; i < s->slot_count; i++) {
		struct slot x = s->slot[i];
		bool below = sp->kind == (x.aligned ? VALUE_ALIGNED : VALUE_CFA) && x.at < sp->off;

		if (x.value.kind != VALUE_ENTRY || (x.aligned && sp->kind == VALUE_CFA))
			continue;
		if (!below) {
			s->slot[n++] = x;
		} else if (writes & STEP_CALLEE_SAVED & 1u << x.value.reg) {
			s->reg[x.value.reg] = (struct value){.kind = VALUE_ENTRY, .reg = x.value.reg};
			s->known |= (uint16_t)(1u << x.value.reg);
		}
	}
	s->slot_count = (uint8_t)n;
}

void flow_continuation_note(struct flow *f, uint64_t off, const struct state *before)
{
	const struct flow_env *env = f->in.env;
	uint64_t addr = f->in.range->start + off;
	size_t i = SEARCH(env->continuation_count, k, env->continuations[k].at < addr);
	const struct flow_continuation *c = &env->continuations[i];
	struct state s;

	if (i == env->continuation_count || c->at != addr || before->dead)
		return;
	if (c->unknown) {
		flow_unknown_state(&s);
		continuation_enter(f, c->label, &s);
	}
	if (c->jumped) {
		state_copy(&s, before);
		continuation_state(&s, c->jump_moved, c->writes);
		continuation_enter(f, c->label, &s);
	}
	if (c->called) {
		state_entry(&s);
		s.abi_flags = before->abi_flags;
		s.weak = before->weak;
		continuation_state(&s, c->call_moved, c->writes);
		continuation_enter(f, c->label, &s);
	}
}
