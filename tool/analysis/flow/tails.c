/* SPDX-License-Identifier: MIT */
/*
 * A backward dataflow analysis. It finds how far above rsp the return address lies before each instruction, from the
 * tail calls that follow the instruction. At a tail call the return address is on top of the stack, for the callee;
 * each instruction before the call changes the distance by as much as it moves rsp. If two paths disagree, or if one
 * ends in anything but a tail call, the distance is unknown.
 *
 * This is for code whose callers find their frames by rbp (convention.frames_by_rbp, and handlers of an interpreter).
 * There an unwind rule needs only the place of the return address, even where no path shows how far rsp is from its
 * value at the entry.
 *
 * A handler of an interpreter (code_range.handler) begins in the frame that rbp points to. So the code that leads to it
 * is in that frame, too, from the last instruction on that may have changed rbp or the frame. If the words of the frame
 * have been moved, no state shows this.
 *
 * The distance is also unknown before an instruction that may write to the place of the return address; before a call
 * that returns, since its callee may take arguments off the stack; and before a return, since code may itself have put
 * the address there to which it returns.
 *
 * It does not use dataflow/solver.h. A state is one number, and nearly all code falls through, so two or three sweeps
 * over the instructions, from the last to the first, reach the fixpoint, and no list of predecessors is needed.
 */
#include "analysis/flow/flow_internal.h"
#include "arch/x86/insn.h"
#include "support/memory.h"

#define TAIL_ANY  (-2) /* top of the lattice: no path from the instruction on is known to end */
#define TAIL_NONE (-1) /* bottom of the lattice: the distance is unknown */
#define WORD      8

/* The largest distance that is followed, in bytes; larger ones count as unknown. */
#define TAIL_MOST (1 << 20)

/* A value in place of a distance: the frame is the one that rbp points to. */
#define TAIL_FRAME  (TAIL_MOST + 1)
#define FRAME_WORDS 16 /* number of bytes of the frame at rbp: the caller's rbp and the return address */

/* Returns the distance after an instruction from which two paths lead on, with the distances a and b: the meet of the
 * lattice. */
static int32_t meet(int32_t a, int32_t b)
{
	if (a == TAIL_ANY)
		return b;
	return b == TAIL_ANY || a == b ? a : TAIL_NONE;
}

static const uint8_t *bytes_at(const struct flow *f, uint64_t off) { return f->in.range->bytes + off; }

/* May an instruction write to memory? For instructions whose struct step does not tell. */
static bool may_write(const struct flow *f, const struct step *in, uint64_t off)
{
	struct insn x;

	return !insn_decode(bytes_at(f, off), in->len, f->in.range->start + off, &x) || x.mem == MEM_WRITE ||
	       x.mem == MEM_UPDATE || x.string;
}

/* Does a store relative to rsp write to the word that is k bytes above rsp? */
static bool overlaps(const struct step *in, int32_t k) { return in->disp < k + WORD && k < in->disp + in->size; }

/* Does a push copy a word at rsp + disp? Its address is computed with the rsp from before the push (SDM 2, PUSH). */
static bool copies_top(const struct step *in)
{
	return in->a == INSN_NO_REG && in->b == ETCH_REG_RSP && in->index == INSN_NO_REG && in->imm == WORD;
}

/* Does the op of an instruction change rbp? */
static bool changes_rbp(const struct step *in)
{
	if (in->op == STEP_POP2 && in->b == ETCH_REG_RBP)
		return true;
	return in->a == ETCH_REG_RBP && in->op != STEP_PUSH && in->op != STEP_PUSH2 && in->op != STEP_STORE &&
	       in->op != STEP_COMPARE && in->op != STEP_LIMIT;
}

/*
 * Given that code after an instruction runs in the frame that rbp points to: does the instruction leave rbp and that
 * frame unchanged? The instruction is none of control flow. A store of a number that is no address of code
 * (FLOW_NUMBER) does: it cannot overwrite a return address that is used afterwards.
 */
static bool keeps_frame(const struct flow *f, const struct step *in, uint64_t off)
{
	if ((in->writes >> ETCH_REG_RBP & 1) || changes_rbp(in))
		return false;
	if (f->seen[f->at[off] - 1] & FLOW_NUMBER)
		return true;
	switch (in->op) {
	case STEP_STORE:
		return in->b == ETCH_REG_RBP && in->index == INSN_NO_REG &&
		       (in->disp >= FRAME_WORDS || in->disp + in->size <= 0);
	case STEP_MOVE:
	case STEP_LOAD:
	case STEP_FETCH:
	case STEP_ENTRY:
	case STEP_SUM:
	case STEP_CONST:
	case STEP_EXTEND:
	case STEP_ADD:
	case STEP_ADDRESS:
	case STEP_ADDREG:
	case STEP_SUBREG:
	case STEP_COMPARE:
	case STEP_LIMIT: return true;
	case STEP_POP: return !in->size;
	case STEP_POP2: return true;
	case STEP_NONE: return !may_write(f, in, off);
	default: return false;
	}
}

/* The transfer function: returns the distance before an instruction without control flow, from the distance k >= 0
 * after it. */
static int32_t before(const struct flow *f, const struct step *in, uint64_t off, int32_t k)
{
	int64_t to = k;
	bool moves = in->a == ETCH_REG_RSP;

	if (k == TAIL_FRAME)
		return keeps_frame(f, in, off) ? k : TAIL_NONE;
	/* at the tail call, rbp has to be the caller's as well */
	if ((in->writes & (1u << ETCH_REG_RSP | 1u << ETCH_REG_RBP)) || changes_rbp(in))
		return TAIL_NONE;
	switch (in->op) {
	case STEP_PUSH: to = !k && copies_top(in) ? in->disp : k - in->imm; break;
	case STEP_POP: to = moves || in->size ? TAIL_NONE : k + in->imm; break;
	case STEP_PUSH2: to = k - in->imm; break;
	case STEP_POP2: to = k + in->imm; break;
	case STEP_ADD: to = moves ? k + in->imm : k; break;
	case STEP_ADDRESS:
		if (moves)
			to = in->b == ETCH_REG_RSP ? (int64_t)k + in->disp : TAIL_NONE;
		break;
	case STEP_STORE: to = in->b == ETCH_REG_RSP && in->index == INSN_NO_REG && !overlaps(in, k) ? k : TAIL_NONE; break;
	case STEP_MOVE:
	case STEP_LOAD:
	case STEP_FETCH:
	case STEP_ENTRY:
	case STEP_SUM:
	case STEP_CONST:
	case STEP_EXTEND:
	case STEP_ADDREG:
	case STEP_SUBREG: to = moves ? TAIL_NONE : k; break;
	case STEP_COMPARE:
	case STEP_LIMIT: break;
	case STEP_NONE: to = may_write(f, in, off) ? TAIL_NONE : k; break;
	default: to = TAIL_NONE;
	}
	return to < 0 || to > TAIL_MOST ? TAIL_NONE : (int32_t)to;
}

/* The number of instructions that flow_loaded() searches backward. */
#define LOAD_MOST 16u

bool flow_loaded(const struct flow *f, uint64_t off, unsigned reg, struct insn *out)
{
	unsigned n;

	for (n = 0; reg < 16 && n < LOAD_MOST && off && !f->leader[f->at[off] - 1]; n++) {
		uint64_t after = off;

		off = flow_previous(f, after);
		if (off == after)
			return false;
		if (!insn_decode(bytes_at(f, off), after - off, f->in.range->start + off, out) || out->flow != FLOW_NEXT)
			return false;
		if (out->writes >> reg & 1)
			return out->move == MOVE_LOAD && out->dst == reg;
	}
	return false;
}

/*
 * A jump through a table in the file is no tail call, since its targets are in the code range. In the handler of an
 * interpreter, a jump is a tail call if rbp is the caller's.
 */
bool flow_jump_is_tail(const struct flow *f, const struct flow_jump *j)
{
	const struct step *in = &f->steps[j->step];
	struct insn load;

	if (!j->has_state)
		return false;
	if (f->in.handler)
		return state_has_callers_rbp(&j->state);
	if (in->deref || in->a >= 16)
		return false;
	return j->table ? !j->what.off && j->what.reg == sizeof(uint64_t)
	                : flow_loaded(f, f->step_at[j->step], in->a, &load);
}

/* Does a code range that is known to be a handler of an interpreter begin at an address? */
static bool is_handler(const struct flow *f, uint64_t addr)
{
	const struct code_range *p = f->in.env->handlers ? range_at(f->in.env, addr) : NULL;

	return p && p->start == addr && p->handler;
}

/* Returns the distance at an address inside of the code range. */
static int32_t at_inner(const struct flow *f, uint64_t addr)
{
	uint32_t i = f->at[addr - f->in.range->start];

	return i && (f->seen[i - 1] & FLOW_WALKED) ? f->tails[i - 1] : TAIL_NONE;
}

/* Returns the distance at the target of a direct jump. */
static int32_t at_target(const struct flow *f, uint64_t to)
{
	const struct code_range *p;

	if (flow_inside(f, to))
		return at_inner(f, to);
	if (is_handler(f, to))
		return TAIL_FRAME;
	p = f->in.abi_flags & ABI_FRAMES_BY_RBP ? range_at(f->in.env, to) : NULL;
	return p && p->start == to && !p->part ? 0 : TAIL_NONE;
}

/* Returns the distance at an offset to which control falls through. */
static int32_t at_next(const struct flow *f, uint64_t off)
{
	uint64_t addr = f->in.range->start + off;

	if (flow_inside(f, addr))
		return at_inner(f, addr);
	return is_handler(f, addr) ? TAIL_FRAME : TAIL_NONE;
}

/* Returns the distance before an instruction, computed from the distances at its successors. */
static int32_t distance(const struct flow *f, const struct step *in, uint64_t off)
{
	int32_t k = TAIL_NONE;

	switch (in->flow) {
	case FLOW_NEXT: k = at_next(f, off + in->len); return k < 0 ? k : before(f, in, off, k);
	case FLOW_BRANCH: return meet(at_next(f, off + in->len), at_target(f, (uint64_t)in->imm));
	case FLOW_JUMP: return at_target(f, (uint64_t)in->imm);
	case FLOW_JUMP_IND: return in->number && flow_jump_is_tail(f, &f->jumps[in->number - 1]) ? 0 : TAIL_NONE;
	case FLOW_CALL:
	case FLOW_CALL_IND: return flow_comes_back(f, in) ? TAIL_NONE : TAIL_ANY;
	case FLOW_STOP: return TAIL_ANY;
	default: return TAIL_NONE;
	}
}

/* Does the last instruction of the code range fall through to a handler, or does any jump lead to one? */
static bool leads_to_handler(const struct flow *f)
{
	size_t i;

	if (!f->in.env->handlers)
		return false;
	for (i = 0; i < f->step_count; i++) {
		const struct step *in = &f->steps[i];

		if (!(f->seen[i] & FLOW_WALKED))
			continue;
		if ((in->flow == FLOW_JUMP || in->flow == FLOW_BRANCH) && !flow_inside(f, (uint64_t)in->imm) &&
		    is_handler(f, (uint64_t)in->imm))
			return true;
	}
	return is_handler(f, f->in.range->end);
}

bool flow_has_tails(const struct flow *f)
{
	return ((f->in.abi_flags & ABI_FRAMES_BY_RBP) && !f->in.range->open) || (f->in.abi_flags & ABI_HANDLER) ||
	       leads_to_handler(f);
}

/* Does an instruction overwrite a word of memory with a register's value that is known to be a number, and no address
 * of code? */
static bool stores_number(const struct flow *f, const struct insn *x, const struct state *before)
{
	const struct value *v;

	if (x->mem != MEM_WRITE || x->mem_size != WORD || x->string || !x->reads || x->reads & (x->reads - 1))
		return false;
	v = &before->reg[__builtin_ctz(x->reads)];
	return v->kind == VALUE_CONST && !space_at(f->in.env->space, (uint32_t)v->off);
}

/* Sets FLOW_NUMBER for an instruction that stores a number, and clears it for others. A flow_state_fn. */
static void number_note(void *ctx, uint64_t addr, unsigned len, const struct state *before, bool same)
{
	struct flow *f = ctx;
	uint64_t off = addr - f->in.range->start;
	uint8_t *seen = &f->seen[f->at[off] - 1];
	unsigned op = f->steps[f->at[off] - 1].op;
	struct insn x;

	(void)same;
	*seen &= (uint8_t)~FLOW_NUMBER;
	if ((op == STEP_STORE || op == STEP_NONE) && insn_decode(bytes_at(f, off), len, addr, &x) &&
	    stores_number(f, &x, before))
		*seen |= FLOW_NUMBER;
}

/* Sets FLOW_NUMBER for all instructions of the code range. */
static void numbers_find(struct flow *f)
{
	struct flow_saves saves = f->saves;

	f->saves.fn = NULL;
	flow_look(f, number_note, f);
	f->saves = saves;
}

void flow_tails_find(struct flow *f)
{
	uint64_t size = flow_size(f), off;
	bool some = true;
	size_t i;

	while (f->tail_capacity < f->step_count)
		mem_double(&f->tails, &f->tail_capacity, sizeof(*f->tails));
	for (i = 0; i < f->step_count; i++)
		f->tails[i] = TAIL_ANY;
	if (f->in.env->handlers)
		numbers_find(f);
	while (some)
		for (some = false, off = size; off--;) {
			uint32_t k = f->at[off];
			int32_t was, now;

			if (!k || !(f->seen[k - 1] & FLOW_WALKED) || (was = f->tails[k - 1]) == TAIL_NONE)
				continue;
			now = meet(was, distance(f, &f->steps[k - 1], off));
			some |= now != was;
			f->tails[k - 1] = now;
			f->seen[k - 1] |= FLOW_MOVES; /* the rule may change without a change of the state */
		}
}

/*
 * May a rule made from a tail call replace `rule`, which the state proves? It may if the CFA of `rule` is relative to
 * rsp, with the return address where the call has put it: a callee may have taken its arguments off the stack, so rsp
 * after a call may differ from rsp before it.
 */
static bool is_doubtful(const struct etch_rule *rule)
{
	return rule->kind == ETCH_RULE_CALL && rule->cfa == ETCH_REG_RSP && rule->ra == ETCH_RA_CFA;
}

bool flow_tail_rule(const struct flow *f, uint64_t addr, const struct state *s, struct etch_rule *out)
{
	uint32_t i = f->at[addr - f->in.range->start];
	bool none = out->kind == ETCH_RULE_UNDEF;

	if (i && f->tails[i - 1] == TAIL_FRAME && none) {
		*out = (struct etch_rule){.kind = ETCH_RULE_CALL, .cfa = ETCH_REG_RBP, .cfa_off = FRAME_WORDS};
		out->bp = ETCH_BP_CFA;
		out->bp_off = -FRAME_WORDS;
		return true;
	}
	if (!i || f->tails[i - 1] < 0 || f->tails[i - 1] > TAIL_MOST || !state_has_callers_rbp(s) ||
	    !(none || is_doubtful(out)))
		return false;
	*out = (struct etch_rule){.kind = ETCH_RULE_CALL, .cfa = ETCH_REG_RSP, .cfa_off = f->tails[i - 1] + WORD};
	return true;
}
