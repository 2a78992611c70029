/* SPDX-License-Identifier: MIT */
/*
 * Makes a pass over the states of a code range, in order of address. It finds exits with a wrong frame or a wrong
 * register (ETCH-S002, S005, F004), and places where the frame becomes unknown (S003, S004).
 *
 * There is no finding where the evidence is doubtful: in code that only indirect jumps reach (weak states); where
 * .eh_frame agrees with the code, so that the frame must be intended; and at a return to an address that was pushed for
 * it (is_jump()).
 */
#include "analysis/lint/observe_internal.h"
#include "support/memory.h"
#include "shared/search.h"

#include "arch/x86/rule_text.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#define NOWHERE UINT64_MAX
#define TRACES  64u /* number of changes of registers that are remembered, for the facts of findings */

/* Registers that are neither callee-saved nor hold arguments: rax, r10, r11 (System V psABI 3.2.3). */
#define LEFTOVERS (1u << 0 | 1u << 10 | 1u << 11)

/* A change of rsp or of a callee-saved register: the new value, and the instruction that made the change. */
struct trace {
	struct value value;
	uint64_t off;
	uint8_t reg;
	bool lowers; /* the value has decreased, as rsp does by a push */
};

/* The state of the pass. */
struct stack {
	struct observe *o;
	bool *lost; /* per state: observe_meet() has added a finding that the frame is lost there */
	/* Offsets in the code range. */
	uint64_t next;       /* offset after the last instruction */
	uint64_t last;       /* offset of the last instruction; NOWHERE: there is none */
	struct state before; /* the state before the last instruction */
	/* Offset of the instruction in this basic block that wrote the word on top of the stack; NOWHERE: none did. */
	uint64_t topped;
	struct trace trace[TRACES]; /* ring buffer of the last changes */
	/* Number of changes that were ever put into `trace`. */
	unsigned traces;
	uint16_t saved; /* mask of the callee-saved registers that the code has saved */
	/* By register: offset of the instruction that saved it first; NOWHERE: none did. */
	uint64_t save_at[16];
	uint64_t unknown;       /* offset from which on the frame is unknown; NOWHERE: it is known */
	size_t unknown_finding; /* 1 + index of the finding which says so; 0: there is none */
};

static void cfi_take(void *ctx, const struct etch_cfi_row *row)
{
	struct observe *o = ctx;

	mem_reserve(&o->cfi, &o->cfi_capacity, o->cfi_count, sizeof(*o->cfi));
	o->cfi[o->cfi_count++] = *row;
}

const struct etch_cfi_row *observe_cfi(const struct observe *o, uint64_t addr)
{
	size_t lo = SEARCH(o->cfi_count, i, o->cfi[i].end <= addr);

	return lo < o->cfi_count && o->cfi[lo].start <= addr ? &o->cfi[lo] : NULL;
}

/* Does .eh_frame have the same CFA as the code at addr, or one that cannot be compared with it? */
static bool cfi_agrees(struct stack *k, uint64_t addr, const struct state *s)
{
	const struct etch_cfi_row *row = observe_cfi(k->o, addr);

	if (!row)
		return false;
	if (row->rule.kind != ETCH_RULE_CALL)
		return true; /* an expression, or the end of the stack, was written by hand and is intended */
	if (row->rule.cfa & ETCH_CFA_DEREF)
		return true;
	return s->reg[row->rule.cfa].kind == VALUE_CFA && row->rule.cfa_off == -s->reg[row->rule.cfa].off;
}

/* ---- exits ------------------------------------------------------------------------ */

/* Is a value certainly different from the value that register r had in the caller? */
static bool is_other(struct value v, unsigned r)
{
	switch (v.kind) {
	case VALUE_ENTRY: return v.reg != r;
	case VALUE_CFA:
	case VALUE_ALIGNED:
	case VALUE_CONST:
	case VALUE_PLACE: return true;
	default: return false;
	}
}

/*
 * Returns the first callee-saved register that is not restored, or 16 if all are. In a function that other files cannot
 * see, only registers that the function saves count, since local helpers may have conventions of their own.
 */
static unsigned register_lost(const struct stack *k, const struct state *s)
{
	const struct code_range *p = k->o->f->in.range;
	unsigned may = p->exported ? STEP_CALLEE_SAVED : k->saved, r;

	if (code_convention(p)->keeps_none)
		return 16;
	for (r = 0; r < 16; r++)
		if ((may >> r & 1) && is_other(s->reg[r], r))
			return r;
	return 16;
}

/* Returns the last change by which register r got the value v, or null. `lowers`: only a change that decreased the
 * register counts. */
static const struct trace *trace_find(const struct stack *k, unsigned r, struct value v, bool lowers)
{
	unsigned i;

	for (i = 0; i < TRACES && i < k->traces; i++) {
		const struct trace *t = &k->trace[(k->traces - 1 - i) % TRACES];

		if (t->reg == r && t->value.kind == v.kind && t->value.off == v.off && t->value.reg == v.reg &&
		    (!lowers || t->lowers))
			return t;
	}
	return NULL;
}

/* Adds facts to a finding about rsp at an exit: the state, what was pushed last, and the last change of rsp. */
static void frame_facts(struct stack *k, struct finding *x, uint64_t off, const struct state *s)
{
	struct observe *o = k->o;
	struct value sp = s->reg[ETCH_REG_RSP];
	const struct trace *t;
	char words[DESCRIPTION_MOST];

	describe_state(s, words);
	OBSERVE_FACT_AT(o, x, off, "here", "%s", words);
	t = sp.off < -8 ? trace_find(k, ETCH_REG_RSP, sp, true) : NULL;
	if (t) {
		describe_insn(o, t->off, words);
		OBSERVE_FACT_AT(o, x, t->off, "on top of the stack", "stored there by `%s`", words);
	}
	t = trace_find(k, ETCH_REG_RSP, sp, false);
	if (t) {
		describe_insn(o, t->off, words);
		OBSERVE_FACT_AT(o, x, t->off, "last change of rsp", "%s", words);
	}
}

/* Returns the value on top of the stack, as far as it is known. */
static struct value top_of(const struct state *s)
{
	unsigned i;

	for (i = 0; i < s->slot_count; i++)
		if (!s->slot[i].aligned && s->slot[i].at == s->reg[ETCH_REG_RSP].off)
			return s->slot[i].value;
	return (struct value){0};
}

/* Does the instruction at `off` push a register that no instruction has touched since the function began, and in which
 * a caller passes nothing (rax, r10 or r11)? Returns false unless `off` is reached in a straight line from the start of
 * the function. */
static bool is_leftover_pushed(const struct stack *k, uint64_t off)
{
	const struct flow *f = k->o->f;
	const struct step *push = &f->steps[f->at[off] - 1];
	uint64_t at = 0;
	size_t i;

	if (push->op != STEP_PUSH || push->a >= 16 || !(LEFTOVERS >> push->a & 1))
		return false;
	while (at < off) {
		const struct step *s = f->at[at] ? &f->steps[f->at[at] - 1] : NULL;

		if (!s || s->flow != FLOW_NEXT || (s->touches >> push->a & 1) || (at && f->leader[f->at[at] - 1]))
			return false;
		at += s->len;
	}
	for (i = 0; i < f->step_count; i++)
		if ((f->seen[i] & FLOW_WALKED) && (f->steps[i].op == STEP_STORE || f->steps[i].op == STEP_EXCHANGE) &&
		    (f->steps[i].b == ETCH_REG_RSP || f->steps[i].b == ETCH_REG_RBP))
			return false; /* it may overwrite the pushed word */
	return at == off;
}

/*
 * Is a return in fact a jump to an address that was put on the stack for it, as in retpolines? The word on top of the
 * stack may then be any value that can be an address of code: the caller's return address, moved there, or a value of
 * which nothing is known. The value that the caller had in a callee-saved register, or an address on the stack, can be
 * no such address. The exception is a word stored directly in front of the return, and therefore meant for it: by a
 * push in a function that other files cannot see and that may have a convention of its own, or by a store over the word
 * that was on top. If there is an .eh_frame, it does not describe this frame (cfi_agrees()), and only two stores count:
 * one directly in front of the return, or an earlier one in the same basic block if rsp is above its value at the
 * entry.
 */
static bool is_jump(const struct stack *k, uint64_t off, const struct state *s)
{
	const struct flow *f = k->o->f;
	struct value sp = s->reg[ETCH_REG_RSP], top = top_of(s);
	bool adjacent = k->topped != NOWHERE && k->topped == k->last && k->next == off;
	const struct trace *t;

	if (top.kind == VALUE_ENTRY && top.reg == REG_RA)
		return true;
	if (top.kind == VALUE_ENTRY || top.kind == VALUE_CFA || top.kind == VALUE_ALIGNED)
		return adjacent && (!f->in.range->exported || !step_pushes(&f->steps[f->at[k->topped] - 1]));
	if (adjacent)
		return true;
	if (k->o->cfi_count)
		return k->topped != NOWHERE && sp.off > -8;
	t = trace_find(k, ETCH_REG_RSP, sp, true);
	if (t && (k->topped == NOWHERE || k->topped == t->off) && is_leftover_pushed(k, t->off))
		return false;
	return k->topped != NOWHERE || (t && step_pushes(&f->steps[f->at[t->off] - 1]));
}

/* Adds ETCH-S002 if rsp is wrong at a return, or S005 if a callee-saved register is not restored. */
static void return_look(struct stack *k, uint64_t off, const struct state *s)
{
	struct observe *o = k->o;
	uint64_t addr = o->f->in.range->start + off;
	struct value sp = s->reg[ETCH_REG_RSP];
	char words[DESCRIPTION_MOST];
	const struct trace *t;
	struct finding *x;
	unsigned r;

	if (!o->certain || s->weak || sp.kind != VALUE_CFA)
		return;
	if (sp.off != -8) {
		/* Code that other files cannot see may be entered with words on top of the return address. */
		if (cfi_agrees(k, addr, s) || is_jump(k, off, s) || (!o->cfi_count && sp.off > -8 && !o->f->in.range->exported))
			return;
		x = OBSERVE(o, "ETCH-S002", 0, addr,
		            sp.off < -8 ? "returns with %" PRId64 " bytes left on the stack"
		                        : "returns with %" PRId64 " bytes too many popped off the stack",
		            sp.off < -8 ? -8 - (int64_t)sp.off : (int64_t)sp.off + 8);
		frame_facts(k, x, off, s);
		return;
	}
	r = register_lost(k, s);
	if (r == 16)
		return;
	describe_value(s->reg[r], words);
	x = OBSERVE(o, "ETCH-S005", 0, addr, "returns with %s in %s", words, reg_text(r));
	if (k->save_at[r] != NOWHERE) {
		describe_insn(o, k->save_at[r], words);
		OBSERVE_FACT_AT(o, x, k->save_at[r], "saved by", "%s", words);
	}
	t = trace_find(k, r, s->reg[r], false);
	if (t) {
		describe_insn(o, t->off, words);
		OBSERVE_FACT_AT(o, x, t->off, "written by", "%s", words);
	}
}

/* Adds ETCH-F004 if, at a jump or branch to another function, rsp is wrong or a callee-saved register is not
 * restored. */
static void tail_look(struct stack *k, uint64_t off, const struct step *in, const struct state *s)
{
	struct observe *o = k->o;
	uint64_t target = flow_exit_target(in);
	char words[DESCRIPTION_MOST];
	struct value sp = s->reg[ETCH_REG_RSP];
	struct finding *x;
	unsigned r;

	if (in->flow == FLOW_BRANCH)
		target = (uint64_t)in->imm;
	if (!o->certain || s->weak || !target || flow_inside(o->f, target) || sp.kind != VALUE_CFA)
		return;
	r = register_lost(k, s);
	if ((sp.off == -8 && r == 16) || cfi_agrees(k, o->f->in.range->start + off, s) != (sp.off == -8 && o->cfi_count))
		return;
	if (!(target & (FLOW_EXTERN | FLOW_SLOT)) && !observe_is_function(o->f->in.env, target))
		return;
	describe_target(o, target, words);
	if (sp.off != -8) {
		x = OBSERVE(o, "ETCH-F004", 0, o->f->in.range->start + off, "jumps to %s with %" PRId64 " bytes %s the stack",
		            words, sp.off < -8 ? -8 - (int64_t)sp.off : (int64_t)sp.off + 8,
		            sp.off < -8 ? "left on" : "too many popped off");
		frame_facts(k, x, off, s);
	} else {
		char value[DESCRIPTION_MOST];

		describe_value(s->reg[r], value);
		x = OBSERVE(o, "ETCH-F004", 0, o->f->in.range->start + off, "jumps to %s with %s in %s", words, value,
		            reg_text(r));
		describe_state(s, value);
		OBSERVE_FACT_AT(o, x, off, "here", "%s", value);
	}
	if (target & (FLOW_EXTERN | FLOW_SLOT))
		finding_fact(x, "jumps to", "%s", words);
	else
		finding_fact_at(x, 0, target, "jumps to", "%s", words);
}

/* ---- the frame becomes unknown --------------------------------------------------------------- */

/* Is the frame known from the state or from .eh_frame, even if no row can express it? */
static bool is_known(struct stack *k, uint64_t addr, const struct state *s)
{
	const struct etch_cfi_row *row;
	struct etch_rule rule;

	if (s->reg[ETCH_REG_RSP].kind == VALUE_CFA)
		return true;
	state_rule(s, &rule);
	if (rule.kind != ETCH_RULE_UNDEF)
		return true;
	row = observe_cfi(k->o, addr);
	return row && (row->rule.kind != ETCH_RULE_UNDEF || row->why);
}

/* Does the instruction set rsp, other than by a push, or by a pop of another register? */
static bool sets_stack(const struct step *in)
{
	return (in->writes >> ETCH_REG_RSP & 1) || in->op == STEP_LEAVE ||
	       (in->op != STEP_NONE && !step_pushes(in) && in->op != STEP_POP && in->op != STEP_POP2 &&
	        in->op != STEP_STORE && in->op != STEP_COMPARE && in->op != STEP_LIMIT &&
	        (in->a == ETCH_REG_RSP || (in->op == STEP_SWAP && in->b == ETCH_REG_RSP))) ||
	       (in->op == STEP_POP && in->a == ETCH_REG_RSP);
}

/* Returns why the frame is unknown at an instruction that control does not reach from the one in front of it. */
static const char *unknown_why(const struct flow *f, const struct state *s)
{
	if (s->weak)
		return "indirect jumps with different frames may lead here";
	return f->in.start == START_PART ? "others jump here with unknown or differing frames"
	                                 : "the paths that lead here disagree";
}

/* Adds ETCH-S003 or S004, because the frame becomes unknown at `off`, unless ETCH-S001 already says so. */
static void unknown_begin(struct stack *k, uint64_t off, const struct state *s)
{
	struct observe *o = k->o;
	const struct flow *f = o->f;
	uint32_t leader = f->leader[f->at[off] - 1];
	char insn[DESCRIPTION_MOST], words[DESCRIPTION_MOST];
	struct finding *x;

	k->unknown = off;
	k->unknown_finding = 0;
	if (leader && k->lost[leader - 1])
		return;
	if (k->next == off && k->last != NOWHERE && !(leader && s->weak)) {
		const struct step *in = &f->steps[f->at[k->last] - 1];

		describe_insn(o, k->last, insn);
		describe_state(&k->before, words);
		if (sets_stack(in))
			x = OBSERVE(o, "ETCH-S004", 0, f->in.range->start + k->last,
			            "`%s` sets rsp to a value that cannot be tracked", insn);
		else
			x = OBSERVE(o, "ETCH-S003", 0, f->in.range->start + off, "after `%s` the frame is not known", insn);
		OBSERVE_FACT_AT(o, x, k->last, "before it", "%s", words);
	} else {
		describe_insn(o, off, insn);
		x = OBSERVE(o, "ETCH-S003", 0, f->in.range->start + off, "the frame is not known here: %s", unknown_why(f, s));
		OBSERVE_FACT_AT(o, x, off, "the first instruction", "%s", insn);
	}
	k->unknown_finding = o->out->count;
}

/* Records that the frame is known again at `off`: adds a fact to the finding which says for how many bytes it was
 * unknown. */
static void unknown_end(struct stack *k, uint64_t off)
{
	struct observe *o = k->o;

	if (k->unknown != NOWHERE && k->unknown_finding && k->unknown_finding <= o->out->count)
		OBSERVE_FACT_AT(o, &o->out->list[k->unknown_finding - 1], k->unknown, "not known from here",
		                "for %" PRIu64 " bytes", off - k->unknown);
	k->unknown = NOWHERE;
}

/* ---- in order of address ----------------------------------------------------------------- */

/* Records a change of register r, if its value has changed. */
static void trace_keep(struct stack *k, unsigned r, struct value was, struct value is)
{
	if (was.kind == is.kind && was.off == is.off && was.reg == is.reg)
		return;
	k->trace[k->traces++ % TRACES] = (struct trace){is, k->last, (uint8_t)r, is.off < was.off};
}

/* Records what the last instruction has done to rsp, to the word on top of the stack and to callee-saved registers,
 * given the state after it. Records nothing at the start of a basic block or after a gap, since control may get there
 * from elsewhere. */
static void last_learn(struct stack *k, uint64_t off, const struct state *s, bool leader)
{
	const struct step *in = &k->o->f->steps[k->o->f->at[k->last] - 1];
	struct value was = k->before.reg[ETCH_REG_RSP], is = s->reg[ETCH_REG_RSP];
	unsigned r;

	if (leader)
		k->topped = NOWHERE;
	if (k->next != off || leader)
		return;
	if (step_pushes(in) || ((in->op == STEP_STORE || in->op == STEP_EXCHANGE) && in->b == ETCH_REG_RSP && !in->disp))
		k->topped = k->last;
	else if (was.kind != is.kind || was.off != is.off || in->flow != FLOW_NEXT)
		k->topped = NOWHERE;
	if (was.kind == VALUE_CFA && is.kind == VALUE_CFA)
		trace_keep(k, ETCH_REG_RSP, was, is);
	for (r = 0; r < 16; r++)
		if ((STEP_CALLEE_SAVED >> r & 1) && is_other(s->reg[r], r))
			trace_keep(k, r, k->before.reg[r], s->reg[r]);
}

/* Records which callee-saved registers the code saves, and where it first does so. */
static void step_learn(struct stack *k, uint64_t off, const struct step *in, const struct state *s)
{
	unsigned left = step_pushed(in) | (in->op == STEP_STORE && in->a < 16 ? 1u << in->a : 0);

	for (left &= STEP_CALLEE_SAVED & ~k->saved; left; left &= left - 1) {
		unsigned r = (unsigned)__builtin_ctz(left);
		struct value v = s->reg[r];

		if (v.kind == VALUE_ENTRY && v.reg == r) {
			k->saved |= (uint16_t)(1u << r);
			k->save_at[r] = off;
		}
	}
}

/* Visits the instruction at `addr`; flow_look() calls this. s is the state before it. */
static void state_look(void *ctx, uint64_t addr, unsigned len, const struct state *s, bool same)
{
	struct stack *k = ctx;
	struct flow *f = k->o->f;
	uint64_t off = addr - f->in.range->start;
	const struct step *in = &f->steps[f->at[off] - 1];
	bool leader = f->leader[f->at[off] - 1];

	(void)same;
	if (s->dead || off < k->next)
		return;
	if (k->last != NOWHERE)
		last_learn(k, off, s, leader);
	if (is_known(k, addr, s))
		unknown_end(k, off);
	else if (k->unknown == NOWHERE)
		unknown_begin(k, off, s);
	if (in->flow == FLOW_RETURN)
		return_look(k, off, s);
	else if (in->flow == FLOW_JUMP || in->flow == FLOW_BRANCH || (in->flow == FLOW_JUMP_IND && !f->in.range->plt))
		tail_look(k, off, in, s);
	step_learn(k, off, in, s);
	k->last = off;
	k->next = off + len;
	state_copy(&k->before, s);
}

void observe_stack(struct observe *o)
{
	struct stack k = {.o = o, .last = NOWHERE, .topped = NOWHERE, .unknown = NOWHERE};
	unsigned r;

	if (o->f->in.range->outermost)
		return; /* it has no caller */
	for (r = 0; r < 16; r++)
		k.save_at[r] = NOWHERE;
	k.lost = mem_zero(o->f->state_count, sizeof(*k.lost));
	if (o->f->in.range->fde >= 0)
		cfi_file_rows(o->f->in.env->cfi, (size_t)o->f->in.range->fde, 0, cfi_take, o);
	observe_meet(o, k.lost);
	flow_look(o->f, state_look, &k);
	unknown_end(&k, k.next);
	free(k.lost);
	free(o->cfi);
}
