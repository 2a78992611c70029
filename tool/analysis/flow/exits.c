/* SPDX-License-Identifier: MIT */
/* Adds to the results of a code range (struct flow_result) those of one instruction: its exits, its edges out of the
 * range, and the flags that these decide. Uses the state before the instruction at the fixpoint. */
#include "analysis/flow/flow_internal.h"
#include "support/memory.h"

#include <stdlib.h>
#include <string.h>

struct flow_edge *flow_edge_add(struct flow *f, uint64_t target, const struct state *s)
{
	uint32_t hash = hash_word(target), i;
	struct flow_edge *x;
	size_t at;

	for (at = hash; (i = hash_index_next(&f->walk.edge_index, hash, &at)) != HASH_INDEX_NONE;) {
		x = &f->found.edges[i];
		if (x->target == target) {
			state_join(&x->state, s);
			return x;
		}
	}
	hash_index_add(&f->walk.edge_index, hash, (uint32_t)f->found.edge_count);
	mem_reserve(&f->found.edges, &f->walk.edge_capacity, f->found.edge_count, sizeof(*f->found.edges));
	x = &f->found.edges[f->found.edge_count++];
	x->target = target;
	x->from = f->in.number;
	x->at = 0;
	x->misfit = MISFIT_NONE;
	state_copy(&x->state, s);
	if (f->walk.edges_drop_constants)
		state_drop_constants(&x->state);
	return x;
}

/*
 * Is the state at an exit certain? It is not if some path to it is only inferred. Nor is any state in a code range
 * whose end only its flow shows: there the code after a noreturn call may belong to another function.
 */
static bool is_certain(const struct flow *f, const struct state *s)
{
	return !s->weak && !s->dead && !s->frame && !f->in.noted && !f->in.range->open && !f->in.range->inferred &&
	       !f->in.range->outermost;
}

/*
 * Does a state contradict the state at a function's entry? A state with the return address on top of the stack does
 * not, even if its CFA is different: code that has taken its arguments off the stack makes tail calls in such a state.
 */
static bool contradicts_entry(const struct flow *f, const struct state *s)
{
	struct etch_rule entry = {.kind = ETCH_RULE_CALL, .cfa = ETCH_REG_RSP, .cfa_off = 8};

	if (!is_certain(f, s) || f->in.abi_flags & (ABI_FRAMES_BY_RBP | ABI_HANDLER) || f->in.own_stack || state_returns(s))
		return false;
	if (s->reg[ETCH_REG_RSP].kind == VALUE_CFA && s->reg[ETCH_REG_RSP].off != -8) /* most */
		return true;
	entry.bp = code_convention(f->in.range)->keeps_rbp ? ETCH_BP_SAME : ETCH_BP_UNDEF;
	return state_witness(s, &entry) == WITNESS_DENIES;
}

/* In place of the offset of a jump, for leave(): there is none. */
#define NO_JUMP UINT64_MAX

/* Sets the misfit of an edge if state s contradicts the state at a function's entry. The instruction at an offset leads
 * along the edge in state s, by a jump or by falling through. */
static void misfit_note(const struct flow *f, struct flow_edge *x, uint64_t off, const struct state *s)
{
	unsigned misfit = x->target == f->in.range->end ? MISFIT_DOUBT : MISFIT_JUMP;

	if (x->misfit >= misfit || !contradicts_entry(f, s))
		return;
	x->misfit = (uint8_t)misfit;
	x->at = (uint32_t)off;
}

/*
 * Updates flow_result.overdrawn by an exit in state s. The exit counts if more has been taken off the stack than is
 * there at an entry, and the return address is lost: it is neither on top of the stack nor in `reg`, the register
 * through which the exit jumps (16: none). It does not count if .eh_frame has a rule there that the state confirms,
 * such as one with the return address in a register.
 */
static inline void overdrawn_note(struct flow *f, uint64_t off, const struct state *s, unsigned reg)
{
	struct value sp = s->reg[ETCH_REG_RSP], to;
	const struct etch_cfi_row *row;

	if (__builtin_expect(sp.kind != VALUE_CFA || sp.off <= -8, 1))
		return;
	to = s->reg[reg & 15];
	if (s->weak || s->dead || s->frame || state_returns(s) || (reg < 16 && value_is_entry(to, REG_RA)) ||
	    sp.off + 8 <= f->found.overdrawn)
		return;
	row = flow_cfi_at(f, f->in.range->start + off);
	if (!row || state_witness(s, &row->rule) != WITNESS_CONFIRMS)
		f->found.overdrawn = sp.off + 8;
}

/* Adds a jump out of the code range, in state s: a tail call, or an edge to another part of the function. off is the
 * offset of the jump, or NO_JUMP. */
static void leave(struct flow *f, uint64_t off, uint64_t target, const struct state *s)
{
	const struct code_range *p;
	struct flow_edge *x = NULL;

	if (off != NO_JUMP)
		overdrawn_note(f, off, s, 16);

	if (flow_is_tail_call(f, target, s)) {
		/* Code in other files, to which the PLT leads, is called like a function. */
		if (!f->found.returns_home && !s->weak && state_returns(s)) {
			p = target & FLOW_EXTERN ? NULL : range_at(f->in.env, target);
			f->found.returns_home = target & FLOW_EXTERN || (p && p->plt);
		}
		f->found.exits_balanced = true;
		f->found.exit_sp_unknown |= (target & (FLOW_EXTERN | FLOW_SLOT)) && !state_is_entry(s);
		flow_exit_add(f, target, EXIT_TAIL);
		return;
	}
	if (!f->in.noted || !flow_note_begins(f, target)) /* such as the return thunk, to which most functions jump */
		x = flow_edge_add(f, target, s);
	/* More has been popped than pushed. This happens if data is taken for code. */
	f->found.exit_sp_mismatch |=
		f->in.range->inferred && s->reg[ETCH_REG_RSP].kind == VALUE_CFA && s->reg[ETCH_REG_RSP].off > 0;
	p = range_at(f->in.env, target);
	if (x && off != NO_JUMP && (!p || p->start == target))
		misfit_note(f, x, off, s);
	if (!p || p->start == target) /* if no code range is there, one will be made because of this exit */
		flow_exit_add(f, target, EXIT_PART);
	else
		f->found.may_return = true; /* the jump leads into the middle of another code range, which may return */
}

/* The number of instructions that is_tail_inside() examines in search of unreached code. */
#define GAP_MOST 256

/*
 * In an open code range: does a jump in the state that a function's entry has pass over unreached code? Then it is a
 * tail call of another function, which begins at the target.
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

/*
 * Is an indirect jump one that no C function makes? If the return address is on top of the stack, C has restored the
 * callee-saved registers. So a tail call of C cannot go through memory at one of these registers; and while one of them
 * is not restored, it cannot go through memory at any register. Code with a stack of its own returns so: through memory
 * at the pointer to its own stack, with rsp pointing to something else than a return address.
 */
static bool leaves_no_c_frame(bool own_stack, const struct code_range *p, const struct step *in, const struct state *s)
{
	return !code_convention(p)->jumps_by_any && in->deref && in->index == INSN_NO_REG && in->b < 16 &&
	       ((STEP_CALLEE_SAVED >> in->b & 1) || (own_stack && !state_is_entry(s))) &&
	       s->reg[ETCH_REG_RSP].kind == VALUE_CFA && s->reg[ETCH_REG_RSP].off == -8;
}

/* The number of instructions in front of a jump that are searched for an epilogue. */
#define EPILOGUE_MOST 16u

/* Has a callee-saved register been loaded with the caller's value? */
static bool has_restored(const struct state *s)
{
	unsigned mask;

	for (mask = STEP_CALLEE_SAVED; mask; mask &= mask - 1) {
		unsigned r = (unsigned)__builtin_ctz(mask);

		if (value_is_entry(s->reg[r], r) && s->reg[r].reloaded)
			return true;
	}
	return false;
}

/* Is the last change of rsp in front of a jump an addition? An addition drops words that are not needed, such as a
 * frame; a pop reads the word that it takes, which may be the return address. */
static bool drops_words(const struct flow *f, uint64_t off)
{
	const struct step *in;
	unsigned n;

	for (n = 0; n < EPILOGUE_MOST && (in = flow_step_before(f, off)); n++, off -= in->len)
		if (flow_pushed(in) || in->flow != FLOW_NEXT)
			return in->op == STEP_ADD || in->op == STEP_ADDRESS;
	return false;
}

/* Compares rsp at an exit with rsp at the start, for flow.found.exit_sp_delta and flow.found.exit_sp_varies. If control
 * goes to the return address of the start, even if this comes from another slot, the range did not begin with words
 * pushed on top of that address: rsp differs since the code has popped its arguments. `target` is the register through
 * which the exit jumps, or 16. */
static void exit_sp_note(struct flow *f, uint64_t off, const struct state *before, bool returns, unsigned target)
{
	struct value v = before->reg[ETCH_REG_RSP], to = before->reg[target & 15];

	if (target < 16 && value_is_entry(to, REG_RA))
		return; /* a return: it jumps to the return address, which it has popped */
	if (v.kind != VALUE_CFA || v.off <= -8 || (returns && state_returns(before)) ||
	    (f->found.exit_sp_delta && f->found.exit_sp_delta != v.off + 8))
		f->found.exit_sp_varies = true;
	else
		f->found.exit_sp_delta = v.off + 8;
	f->found.exit_sp_certain |= returns || has_restored(before) || (v.off > -8 && drops_words(f, off));
}

/*
 * Is a jump a tail call, since its state is that of a function's entry, and an epilogue in front of it restores a
 * callee-saved register? The jumps of a computed goto may be in that state, too, but restore nothing.
 */
static bool is_epilogue_jump(const struct flow *f, uint64_t off, const struct state *s)
{
	const struct step *in;
	unsigned n;

	if (!state_is_entry(s))
		return false;
	for (n = 0;
	     n < EPILOGUE_MOST && (in = flow_step_before(f, off)) && (in->flow == FLOW_NEXT || in->flow == FLOW_BRANCH);
	     n++, off -= in->len)
		if (in->op == STEP_LEAVE || (step_popped(in) & STEP_CALLEE_SAVED))
			return true;
	return false;
}

/* The registers of arguments: rdi, rsi, rdx, rcx, r8, r9 (psABI 3.2.3). */
#define ARGUMENTS (1u << 7 | 1u << 6 | 1u << 2 | 1u << 1 | 1u << 8 | 1u << 9)

/* Is the jump all code of a function that calls one of its arguments, as musl's comparison for qsort() does? The code
 * at a label of a computed goto would do something before the jump. */
static bool is_argument_jump(const struct flow *f, uint64_t off, const struct step *in)
{
	return !off && !in->deref && in->a < 16 && (ARGUMENTS >> in->a & 1) && !(f->in.range->start & 15);
}

/* Returns the target of a jump through a register, or 0 if it is not known. */
static uint64_t known_target(const struct flow *f, const struct step *in, const struct state *s)
{
	const struct value *v = in->deref || in->a >= 16 ? NULL : &s->reg[in->a];
	unsigned type = f->in.env->file->eh.e_type;

	if (!v || type == ET_REL || (v->kind != VALUE_PLACE && (v->kind != VALUE_CONST || type == ET_DYN)))
		return 0;
	return space_at(f->in.env->space, (uint32_t)v->off) ? (uint32_t)v->off : 0;
}

/* Adds the edge of a call to its landing pad, if that is outside of the code range. */
static void pad_note(struct flow *f, uint64_t addr, const struct state *before)
{
	uint64_t pad = f->walk.pad_count ? flow_pad_of(f, addr) : 0;
	struct state after;

	if (!pad || flow_inside(f, pad))
		return;
	flow_land(f, before, &after);
	flow_edge_add(f, pad, &after);
}

/*
 * Is part of the frame still on the stack at a return, by its state, although the code has just taken the frame down?
 * The code's own changes of rsp are certain, so one of its calls must have taken words off the stack that the code has
 * pushed, as callees of compiled Lisp do. Where .eh_frame has a row, this is not concluded: the return is then wrong,
 * or is no return.
 */
static bool leaves_frame(const struct flow *f, uint64_t off, const struct state *s)
{
	struct value sp = s->reg[ETCH_REG_RSP];
	const struct step *in = flow_step_before(f, off);

	return sp.kind == VALUE_CFA && sp.off < -8 && !s->weak && !s->dead && !s->frame && !state_returns(s) && in &&
	       (in->op == STEP_LEAVE || step_popped(in) || drops_words(f, off)) &&
	       !flow_cfi_at(f, f->in.range->start + off);
}

/* Sets the results that a return of the code range decides. */
static void return_note(struct flow *f, uint64_t off, const struct state *before)
{
	struct value sp = before->reg[ETCH_REG_RSP];
	bool known = sp.kind == VALUE_CFA, at_entry = known && sp.off == -8, balanced = state_is_entry(before);

	exit_sp_note(f, off, before, true, 16);
	overdrawn_note(f, off, before, 16);
	if (f->found.called && leaves_frame(f, off, before))
		f->found.left_over = true;
	f->found.may_return = true;
	f->found.return_certain |= !before->weak;
	f->found.returns_home = f->found.returns_home || (!before->weak && state_returns(before));
	f->found.returns_to_caller |= !before->weak && at_entry;
	f->found.inner_returns |= before->weak && balanced;
	f->found.exits_balanced |= balanced;
	f->found.returns_unbalanced |= known && !balanced && !(f->in.relaxed && f->walk.has_helpers && at_entry);
	f->found.exit_sp_mismatch |= known && !at_entry && !state_returns(before);
	f->found.exit_sp_unknown |= !known;
}

/* Adds the exits of a jump through a table that is followed: one for each entry that leads out of the code range. */
static void table_note(struct flow *f, uint64_t off, const struct flow_jump *j, const struct state *before)
{
	unsigned i;

	for (i = 0; i < j->entries; i++) {
		uint64_t target = jump_table_target(f, &j->what, i);

		if (!flow_inside(f, target) && j->what.most)
			leave(f, off, target, before);
	}
	f->found.may_return |= !j->what.most; /* not all of its targets are known */
}

/*
 * Adds edges of a jump whose table is not followed because .eh_frame contradicts the jump's state at the target of an
 * entry, where another code range begins. Either that entry lies beyond the end of the table, or .eh_frame is wrong at
 * the target. So these edges are misfits of kind MISFIT_DOUBT.
 */
static void doubtful_note(struct flow *f, uint64_t off, const struct flow_jump *j, const struct state *before)
{
	unsigned i;

	for (i = 0; j->table && j->what.off && i < j->what.most && !elf_is_object(f->in.env->file); i++) {
		uint64_t target = jump_table_target(f, &j->what, i);
		const struct code_range *p = flow_inside(f, target) ? NULL : range_at(f->in.env, target);
		struct flow_edge *x;

		if (!p || p->start != target || !flow_lands_wrong(f, j, target) || !contradicts_entry(f, before) ||
		    !(x = flow_edge_add(f, target, before)) || x->misfit)
			continue;
		x->misfit = MISFIT_DOUBT;
		x->at = (uint32_t)off;
	}
}

/* Adds the results of an indirect jump that has no table, or one that is not followed: it is a tail call, or may lead
 * anywhere. */
static void indirect_note(struct flow *f, uint64_t off, const struct step *in, const struct state *before)
{
	bool balanced = state_is_entry(before);
	uint64_t target = flow_exit_target(in);
	struct value to = before->reg[in->deref ? ETCH_REG_RSP : in->a & 15];

	overdrawn_note(f, off, before, in->deref ? 16 : in->a);
	f->found.returns_home |= !before->weak && value_is_entry(to, REG_RA);
	if (target && balanced) {
		flow_exit_add(f, target, EXIT_TAIL);
	} else if (balanced && (target = known_target(f, in, before)) != 0) {
		f->found.exits_balanced = true;
		flow_exit_add(f, target, EXIT_TAIL);
	} else {
		exit_sp_note(f, off, before, false, in->deref ? 16 : in->a);
		if (f->in.range->inferred && is_epilogue_jump(f, off, before))
			f->found.exits_balanced = f->found.returns_to_caller = true;
		f->found.exits_balanced |= f->in.range->inferred && balanced && is_argument_jump(f, off, in);
		f->found.jumps_by |= !in->deref && in->a < 16 ? (uint16_t)(1u << in->a) : 0;
		f->found.may_return = true;
	}
}

/* Adds the results of an indirect jump, with the exits by its table. */
static void jump_ind_note(struct flow *f, uint64_t off, const struct step *in, const struct state *before)
{
	struct value sp = before->reg[ETCH_REG_RSP];
	struct etch_rule run;

	/* More is popped than pushed: the range did not begin with a return address. */
	f->found.exit_sp_mismatch |= sp.kind == VALUE_CFA && sp.off > 0;
	f->found.non_c_frame |= leaves_no_c_frame(f->in.env->own_stack, f->in.range, in, before);
	if (f->in.env->runtime->enters(in, before, &run))
		f->found.runtime_rule = run;
	if (in->number && f->jumps[in->number - 1].entries) {
		table_note(f, off, &f->jumps[in->number - 1], before);
		return;
	}
	if (in->number)
		doubtful_note(f, off, &f->jumps[in->number - 1], before);
	indirect_note(f, off, in, before);
}

/* Adds the exit or edge of a direct jump or branch. */
static void jump_note(struct flow *f, uint64_t off, const struct step *in, const struct state *before)
{
	uint64_t target = (uint64_t)in->imm;
	struct state after;

	if (!flow_inside(f, target)) {
		state_copy(&after, before);
		if (in->flow == FLOW_BRANCH && in->writes)
			state_transfer(&after, in, (uint32_t)off);
		if (f->in.range->inferred && is_epilogue_jump(f, off, before))
			f->found.returns_to_caller = true;
		leave(f, off, target, &after);
	} else if (in->flow == FLOW_JUMP && is_tail_inside(f, off + in->len, target - f->in.range->start, before)) {
		flow_exit_add(f, target, EXIT_TAIL);
	}
}

/*
 * Does the code after a call go on as if the words were gone that straight-line code has pushed for that call? A call
 * that returns leaves these words on the stack, so such a call is perhaps noreturn, and only other code leads to the
 * code after it. Only words pushed directly in front of the call count: if rsp is wrong on one path because of an
 * earlier such call, the states also differ after calls that return.
 */
static bool leaves_arguments(const struct flow *f, uint64_t off, const struct state *before, uint32_t after)
{
	struct value mine = before->reg[ETCH_REG_RSP], its = f->states[f->leader[after] - 1].reg[ETCH_REG_RSP];
	int64_t left = its.off - mine.off;

	if (mine.kind != VALUE_CFA || its.kind != VALUE_CFA)
		return false;
	while (left > 0 && !f->leader[f->at[off] - 1]) {
		uint64_t previous = flow_previous(f, off);
		const struct step *s = &f->steps[f->at[previous] - 1];
		int64_t pushed = flow_pushed(s);

		if (previous == off || (s->flow != FLOW_NEXT && !flow_is_call(s->flow)) || pushed == FLOW_NOT_PUSHED)
			return false;
		left -= pushed;
		off = previous;
		if (!left)
			return true;
	}
	return false;
}

/* Returns the kind of a call's exit, given that more than padding follows the call. */
static unsigned call_kind(const struct flow *f, uint64_t off, const struct step *in, const struct state *before)
{
	uint64_t after = off + in->len;
	uint32_t i = after < flow_size(f) ? f->at[after] : 0;

	if (!i-- || !f->leader[i])
		return EXIT_FRESH;
	return leaves_arguments(f, off, before, i) ? EXIT_LEFT : EXIT_CALL;
}

/* Adds the exit of a call. Returns true if control goes on after it. */
static bool call_note(struct flow *f, uint64_t off, const struct step *in, const struct state *before)
{
	uint64_t after = off + in->len;
	uint64_t target = flow_exit_target(in);
	bool noted = target && !flow_is_helper(f, target), last = noted && flow_is_end(f, in, after);

	if (noted)
		flow_exit_add(f, target, last ? EXIT_LAST : call_kind(f, off, in, before));
	if (!flow_comes_back(f, in))
		return false;
	if (!(noted ? last : flow_is_end(f, in, after)))
		return true;
	/* The call of a handler returns to a label that is a code range of its own, because its address is also in a
	 * table. */
	if (f->in.handler && !target && f->in.range->start + after == f->in.range->end)
		return true;
	/* Compilers end a function with a call only if the call is noreturn. */
	if (!target)
		f->found.may_return = true;
	return false;
}

/* Adds the edges that notes give to an instruction: to code that may stand in its place at run time, or that runs when
 * it faults. */
void flow_edges_note(struct flow *f, uint64_t addr, const struct state *before)
{
	const struct notes *n = f->in.env->notes;
	const struct note *x;

	for (x = note_at(n, addr, NOTE_EDGE); note_is(n, x, addr, NOTE_EDGE); x++) {
		const struct code_range *p = range_at(f->in.env, x->to);

		if (before->dead || flow_inside(f, x->to))
			continue;
		flow_edge_add(f, x->to, before);
		if (p && p->start == x->to)
			flow_exit_add(f, x->to, EXIT_PART);
		else
			f->found.may_return = true;
	}
}

/* Adds the edges from the end of a replacement to the code that follows the code which it replaces. */
static void resume_note(struct flow *f, const struct state *after)
{
	uint64_t end = f->in.range->end;
	const struct notes *n = f->in.env->notes;
	const struct note *x;

	for (x = note_at(n, end, NOTE_RESUME); note_is(n, x, end, NOTE_RESUME); x++)
		flow_edge_add(f, x->to, after);
}

/* Adds the results of control that goes on after an instruction: nothing if the next instruction is walked code of the
 * range; otherwise the range falls through its end, or into bytes that do not decode. */
static void next_note(struct flow *f, uint64_t off, const struct step *in, const struct state *before, bool padding)
{
	uint64_t size = flow_size(f), next = off + in->len;
	struct compared c = {0};
	struct flow_edge *x;
	struct state after;

	if (next < size) {
		if (!flow_walked(f, next)) /* the next instruction does not decode */
			flow_breaks(f, next, before);
		return;
	}
	if (in->op == STEP_HALT || padding)
		return;
	state_copy(&after, before);
	flow_advance(in, &after, (uint32_t)off, &c);
	if (f->in.range->resumes) {
		resume_note(f, &after);
		return;
	}
	f->found.may_return = true;
	overdrawn_note(f, off, &after, 16);
	if (!flow_is_tail_call(f, f->in.range->end, &after) && (x = flow_edge_add(f, f->in.range->end, &after)))
		misfit_note(f, x, off, &after);
}

void flow_exits_note(struct flow *f, uint64_t off, const struct step *in, const struct state *before, bool after)
{
	bool continues = true;

	if (before->dead)
		return;
	if (in->flow == FLOW_JUMP_IND || f->in.handler)
		flow_handler_note(f, off, in, before);
	switch (in->flow) {
	case FLOW_RETURN: return_note(f, off, before); return;
	case FLOW_STOP: return;
	case FLOW_JUMP_IND: jump_ind_note(f, off, in, before); return;
	case FLOW_JUMP: jump_note(f, off, in, before); return;
	case FLOW_BRANCH: jump_note(f, off, in, before); break;
	case FLOW_CALL:
	case FLOW_CALL_IND:
		if (f->walk.pad_count)
			pad_note(f, f->in.range->start + off, before);
		continues = call_note(f, off, in, before);
		if (continues && (!f->found.called || off + in->len < f->found.called))
			f->found.called = (uint32_t)(off + in->len);
		break;
	default: break;
	}
	if (continues && !flow_is_exit(in, before))
		next_note(f, off, in, before, after && in->padding);
}

void flow_fault_note(struct flow *f, uint64_t addr, const struct step *in, const struct state *before)
{
	const struct fixup *x = flow_fixup_of(f, addr);
	struct state fault;

	for (; x && !before->dead; x = flow_fixup_next(f, x)) {
		if (flow_inside(f, x->to))
			continue;
		flow_fault(x, in, before, &fault);
		leave(f, NO_JUMP, x->to, &fault);
	}
}
