/* SPDX-License-Identifier: MIT */
/*
 * A backward dataflow analysis: how far above rsp the return address lies before each instruction, by the tail calls
 * that follow. At a tail call it is on top of the stack, for the callee; each instruction before it changes that
 * distance by what it moves rsp. Where paths disagree, or one ends in anything else, the distance is unknown.
 *
 * This serves code whose callers find their frames by rbp (convention.frames_by_rbp, and handlers of an interpreter):
 * there the place of the return address is all that a rule needs, even where no path shows how far rsp is from that at
 * the entry.
 *
 * The distance is also unknown before an instruction that may write to that place; before a call that returns, since
 * its callee may take arguments off the stack; before a return, since the address may be one that code has put there.
 */
#include "analysis/flow/flow_internal.h"
#include "arch/x86/insn.h"
#include "support/vector.h"

#define TAIL_ANY  (-2) /* top of the lattice: no path from there is known to end */
#define TAIL_NONE (-1) /* bottom: unknown */
#define WORD      8

/* The largest distance, in bytes; a larger one is unknown. */
#define TAIL_MOST (1 << 20)

/* The meet: the distance where two paths lead on from. */
static int32_t meet(int32_t a, int32_t b) { return a == TAIL_ANY ? b : b == TAIL_ANY || a == b ? a : TAIL_NONE; }

static const uint8_t *bytes_at(const struct flow *f, uint64_t off) { return f->in.range->bytes + off; }

/* May an instruction whose effect on memory is not in its step write there? */
static bool may_write(const struct flow *f, const struct step *in, uint64_t off)
{
	struct insn x;

	return !insn_decode(bytes_at(f, off), in->len, f->in.range->start + off, &x) || x.mem == MEM_WRITE ||
	       x.mem == MEM_UPDATE || x.string;
}

static bool overlaps(const struct step *in, int32_t k) { return in->disp < k + WORD && k < in->disp + in->size; }

/* Does it push a word of the stack? The address is that of rsp before the push (SDM 2, PUSH). */
static bool copies_top(const struct step *in)
{
	return in->a == INSN_NO_REG && in->b == ETCH_REG_RSP && in->index == INSN_NO_REG && in->imm == WORD;
}

static bool changes_rbp(const struct step *in)
{
	return in->a == ETCH_REG_RBP && in->op != STEP_PUSH && in->op != STEP_STORE && in->op != STEP_COMPARE &&
	       in->op != STEP_LIMIT;
}

/* The transfer function: the distance before an instruction without control flow, from that behind it, k >= 0. */
static int32_t before(const struct flow *f, const struct step *in, uint64_t off, int32_t k)
{
	int64_t to = k;
	bool moves = in->a == ETCH_REG_RSP;

	/* rbp has to be the caller's at the tail call, too */
	if ((in->writes & (1u << ETCH_REG_RSP | 1u << ETCH_REG_RBP)) || changes_rbp(in))
		return TAIL_NONE;
	switch (in->op) {
	case STEP_PUSH: to = !k && copies_top(in) ? in->disp : k - in->imm; break;
	case STEP_POP: to = moves || in->size ? TAIL_NONE : k + in->imm; break;
	case STEP_ADD: to = moves ? k + in->imm : k; break;
	case STEP_ADDRESS: to = !moves ? k : in->b == ETCH_REG_RSP ? (int64_t)k + in->disp : TAIL_NONE; break;
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

static bool is_callers_rbp(const struct state *s)
{
	return s->reg[ETCH_REG_RBP].kind == VALUE_ENTRY && s->reg[ETCH_REG_RBP].reg == ETCH_REG_RBP;
}

/* Instructions that are searched backward for the load of a register. */
#define LOAD_MOST 16u

bool flow_loaded(const struct flow *f, uint64_t off, unsigned reg, struct insn *out)
{
	unsigned n;

	for (n = 0; reg < 16 && n < LOAD_MOST && off && !f->leader[f->at[off] - 1]; n++) {
		uint64_t back = 1;

		while (back <= off && back < STEP_LEN_MOST && !f->at[off - back])
			back++;
		if (back > off || !f->at[off - back] || f->steps[f->at[off - back] - 1].len != back)
			return false;
		off -= back;
		if (!insn_decode(bytes_at(f, off), back, f->in.range->start + off, out) || out->flow != FLOW_NEXT)
			return false;
		if (out->writes >> reg & 1)
			return out->move == MOVE_LOAD && out->dst == reg;
	}
	return false;
}

/*
 * Is an indirect jump a tail call? One through a table in the file is not: its targets are in the code range. In the
 * handler of an interpreter it is one if rbp is the caller's.
 */
bool flow_jump_is_tail(const struct flow *f, const struct flow_jump *j)
{
	const struct step *in = &f->steps[j->step];
	struct insn load;

	if (!j->has_state)
		return false;
	if (f->in.handler)
		return is_callers_rbp(&j->state);
	if (in->deref || in->a >= 16)
		return false;
	return j->table ? !j->what.off && j->what.reg == sizeof(uint64_t)
	                : flow_loaded(f, f->step_at[j->step], in->a, &load);
}

/* The distance at the target of a direct jump. */
static int32_t at_target(const struct flow *f, uint64_t to)
{
	const struct code_range *p;

	if (flow_inside(f, to)) {
		uint32_t i = f->at[to - f->in.range->start];

		return i && (f->seen[i - 1] & FLOW_WALKED) ? f->tails[i - 1] : TAIL_NONE;
	}
	p = f->in.handler ? NULL : range_at(f->in.env, to);
	return p && p->start == to && !p->part ? 0 : TAIL_NONE;
}

/* The distance at an offset that control falls through to. */
static int32_t at_next(const struct flow *f, uint64_t off)
{
	uint64_t size = f->in.range->end - f->in.range->start;

	return off < size && f->at[off] && (f->seen[f->at[off] - 1] & FLOW_WALKED) ? f->tails[f->at[off] - 1] : TAIL_NONE;
}

/* The distance before an instruction, from those at its successors. */
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

bool flow_tails_find(struct flow *f)
{
	uint64_t size = f->in.range->end - f->in.range->start, off;
	bool some = true;
	size_t i;

	while (f->tail_room < f->step_count)
		if (!room_make(&f->tails, &f->tail_room, f->tail_room, sizeof(*f->tails)))
			return false;
	for (i = 0; i < f->step_count; i++)
		f->tails[i] = TAIL_ANY;
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
	return true;
}

bool flow_tail_rule(const struct flow *f, uint64_t addr, const struct state *s, struct etch_rule *out)
{
	uint32_t i = f->at[addr - f->in.range->start];

	if (!i || f->tails[i - 1] < 0 || !is_callers_rbp(s))
		return false;
	*out = (struct etch_rule){.kind = ETCH_RULE_CALL, .cfa = ETCH_REG_RSP, .cfa_off = f->tails[i - 1] + WORD};
	return true;
}
