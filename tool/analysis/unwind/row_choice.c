/* SPDX-License-Identifier: MIT */
/*
 * Makes the unwind rows of one code range. Goes through the abstract states in order of address, alongside the rows of
 * .eh_frame, and decides for each address which of the two to use (row_choice.h).
 */
#include "analysis/unwind/row_choice.h"

#include "analysis/unwind/disagreement.h"
#include "arch/x86/padding.h"
#include "shared/search.h"
#include "support/bounds.h"
#include "support/memory.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Appends a row, unless it equals the last one. If the last one has the same address, replaces it. */
static void row_push(struct emit *e, uint64_t addr, const struct etch_rule *rule, unsigned source)
{
	struct row *last = e->count ? &e->rows[e->count - 1] : NULL;

	if (last && last->source == source && last->inferred == e->inferred && !memcmp(&last->rule, rule, sizeof(*rule)))
		return;
	if (last && last->addr == addr) { /* the last row covers no byte */
		last->rule = *rule;
		last->source = (uint8_t)source;
		last->inferred = e->inferred;
		return;
	}
	mem_reserve(&e->rows, &e->capacity, e->count, sizeof(*e->rows));
	memset(&e->rows[e->count], 0, sizeof(e->rows[e->count]));
	e->rows[e->count].addr = addr;
	e->rows[e->count].rule = *rule;
	e->rows[e->count].inferred = e->inferred;
	e->rows[e->count++].source = (uint8_t)source;
}

/* Is rbp the only difference between the two rules, in a language whose functions do not preserve it? In such code it
 * means nothing that .eh_frame has no rule for rbp. */
static bool is_rbp_alone(const struct emit *e, const struct etch_rule *cfi)
{
	struct etch_rule rule = e->now.rule;

	rule.bp = cfi->bp;
	rule.bp_off = cfi->bp_off;
	return !code_convention(e->range)->keeps_rbp && cfi->bp == ETCH_BP_SAME && !memcmp(&rule, cfi, sizeof(rule));
}

/* Adds a row of .eh_frame, clipped to the code range. cfi_file_rows() calls this. */
static void cfi_add(void *ctx, const struct etch_cfi_row *row)
{
	struct emit *e = ctx;
	struct etch_cfi_row r = *row;

	if (r.start < e->range->start)
		r.start = e->range->start;
	if (r.end > e->range->end)
		r.end = e->range->end;
	if (r.start >= r.end)
		return;
	mem_reserve(&e->cfi, &e->cfi_capacity, e->cfi_count, sizeof(*e->cfi));
	e->cfi[e->cfi_count++] = r;
}

/* Does the convention of the language say that code which this code range calls is the outermost frame of a stack? */
static bool begins_stack(const struct code_range *p)
{
	return p->function && code_convention(p)->begins_stack && code_convention(p)->begins_stack(p->function);
}

/*
 * Makes the rule of a state in its code range. Where a stack begins (outermost, entry_tail, begins_stack()) the rule is
 * END, even if the CFA is unknown. The exception is an unknown state in an open code range, which may belong to other
 * code after the entry point. If an entry point may also be called, only .eh_frame can tell which is the case, so the
 * rule is UNDEF.
 */
static void rule_of(const struct emit *e, const struct state *s, struct etch_rule *out)
{
	const struct code_range *p = e->range;

	state_rule(s, out);
	if (out->kind == ETCH_RULE_UNDEF ? begins_stack(p) || (p->outermost && !p->open) : p->outermost || p->entry_tail) {
		if (p->may_be_called) {
			*out = (struct etch_rule){.kind = ETCH_RULE_UNDEF};
			return;
		}
		out->kind = ETCH_RULE_END;
		if (out->ra == ETCH_RA_SLOT)
			out->cfa_add = 0;
		out->ra = 0;
	}
}

/*
 * By the rule of a state, is the return address off the stack, or is the CFA at or below rsp? Such a rule needs a proof
 * that the code range begins with the return address on top of the stack (is_entry_proved() in
 * interproc/range_analysis.c): if other words were above the address, one of those has been taken off instead.
 */
static bool lifts(const struct state *s, const struct etch_rule *rule)
{
	return rule->kind == ETCH_RULE_CALL && !s->frame &&
	       (rule->ra != ETCH_RA_CFA || (s->reg[ETCH_REG_RSP].kind == VALUE_CFA && s->reg[ETCH_REG_RSP].off >= 0));
}

/* Records a state in which the return address has been taken off the stack and is stored nowhere else. */
static void lost_note(struct emit *e, const struct state *s)
{
	struct value sp = s->reg[ETCH_REG_RSP];

	if (sp.kind == VALUE_CFA && sp.off + 8 > e->found.lost && sp.off >= 0 && !s->weak && !s->dead && !s->frame)
		e->found.lost = sp.off + 8;
}

/* Returns the number of bytes that can be read from an address in the code range on. */
static size_t readable(const struct emit *e, uint64_t addr) { return e->flow->in.readable - (addr - e->range->start); }

/*
 * May a weak state, such as one joined over indirect jumps, contradict .eh_frame at an address? Not by itself. It may
 * if the state before the previous instruction was compared with the same row, and control falls through from that
 * instruction: the effect of one instruction is certain.
 */
static bool is_anchored(const struct emit *e, uint64_t addr)
{
	const struct code_range *p = e->range;
	struct step s;

	return e->agreed && addr == e->at && e->last < addr &&
	       step_decode_in(e->flow->cache, p->bytes + (e->last - p->start), addr - e->last, readable(e, e->last),
	                      e->last, &s) &&
	       (s.flow == FLOW_NEXT || s.flow == FLOW_BRANCH);
}

/*
 * Did an instruction replace rsp by an unknown value, within one row of .eh_frame whose CFA is relative to rsp and had
 * been confirmed until then? If a callee-saved register holds the CFA at that time, as where C is called on another
 * stack, the rule of the code is right, and this returns true. If none does, rsp may belong to another frame, which
 * .eh_frame describes.
 */
static bool is_stack_replaced(struct emit *e, uint64_t addr, const struct etch_cfi_row *cfi)
{
	unsigned sp = e->now.state->reg[ETCH_REG_RSP].kind;

	if (cfi->start == addr || cfi->rule.cfa != ETCH_REG_RSP || (sp != VALUE_ANY && sp != VALUE_ALIGNED) ||
	    e->now.state->weak || e->now.rule.kind != ETCH_RULE_CALL || e->now.rule.cfa >= 16 ||
	    !(STEP_CALLEE_SAVED >> e->now.rule.cfa & 1))
		return false;
	if (e->agreed && is_anchored(e, addr))
		e->sp_replaced = cfi->start;
	return e->sp_replaced == cfi->start;
}

/* Does the code range jump to code with a stack of its own (flow_runtime.enters)? That code returns to the address
 * after the jump with the same rsp, so a weak state there is right. */
static bool is_return(const struct emit *e) { return e->flow->found.runtime_rule.kind != ETCH_RULE_UNDEF; }

/*
 * Does an address come after an instruction in the code range that control reaches, but etch does not decode? The
 * effect of that instruction is unknown, so no row after it is proven by code, even if another path leads there: the
 * row of .eh_frame is used, or there is none.
 */
static bool is_unread(const struct emit *e, uint64_t addr)
{
	return e->flow->found.unread && addr - e->range->start >= e->flow->found.unread - 1;
}

/* Does an address follow a call in a code range whose returns show that some call has taken words off the stack? It is
 * unknown which call did, and how many words, so no row there is proven by code. */
static bool is_left_over(const struct emit *e, uint64_t addr)
{
	return e->flow->in.unproven && addr - e->range->start >= e->flow->in.unproven;
}

/* Is the rule of the current state, for which lifts() is true, without proof? An equal row of .eh_frame is a proof. */
static __attribute__((noinline)) bool is_unproven(struct emit *e, const struct etch_cfi_row *cfi)
{
	e->found.lifted = true;
	return e->flow->in.lift_unproven && !(cfi && !memcmp(&cfi->rule, &e->now.rule, sizeof(e->now.rule)));
}

/*
 * Returns what the current state says about a row of .eh_frame. A weak state contradicts it only if it is `anchored`;
 * an `unproven` rule never does. `replaced`: rsp has been replaced, so that the code's rule is right unless the state
 * confirms the row.
 */
static inline enum witness witness_of(const struct emit *e, const struct etch_cfi_row *cfi, bool anchored,
                                      bool unproven, bool replaced)
{
	enum witness w = memcmp(&cfi->rule, &e->now.rule, sizeof(e->now.rule))
	                     ? state_witness(e->now.state, &cfi->rule)
	                     : state_witness_own(e->now.state, &cfi->rule);

	if (w == WITNESS_DENIES && ((e->now.state->weak && !anchored) || unproven))
		w = WITNESS_SILENT;
	return w == WITNESS_SILENT && replaced ? WITNESS_DENIES : w;
}

/* Adds the row at an address for which .eh_frame has a rule that no row can express. */
static void row_unexpressed(struct emit *e, uint64_t addr, const struct etch_cfi_row *cfi, const struct etch_rule *rule,
                            unsigned source)
{
	static const struct etch_rule undefined = {.kind = ETCH_RULE_UNDEF};

	if (!e->silent)
		finding_add(&e->findings, "ETCH-C002", 0, addr, ".eh_frame has a rule that no row can express: %s", cfi->why);
	e->silent = true;
	/* A weak state does not suffice to replace what .eh_frame expresses. */
	row_push(e, addr, e->now.state && e->now.state->weak && !is_return(e) ? &undefined : rule, source);
}

/* Adds the row of the code, where it contradicts .eh_frame. */
static void row_denied(struct emit *e, uint64_t addr, const struct etch_cfi_row *cfi, const struct etch_rule *rule,
                       unsigned source)
{
	e->found.denied |= addr != e->range->start && state_is_entry(e->now.state);
	if (!is_rbp_alone(e, &cfi->rule) && !e->silent) {
		disagreement_add(&e->findings, addr, &e->now.rule, &cfi->rule);
		e->silent = true;
	}
	row_push(e, addr, rule, source);
}

/* Adds the row of .eh_frame, which the code confirms or says nothing about. */
static inline void row_confirmed(struct emit *e, uint64_t addr, const struct etch_cfi_row *cfi, bool confirmed)
{
	unsigned source = ETCH_SOURCE_CFI;

	if (confirmed)
		source = e->range->plt ? ETCH_SOURCE_PLT : ETCH_SOURCE_BOTH;
	e->silent = false;
	e->inferred = confirmed && e->now.state->weak && e->one_rule;
	row_push(e, addr, &cfi->rule, source);
	e->inferred = false;
}

/* Adds the row at an address where the code proves nothing: the row of .eh_frame, or UNDEF. */
static inline void row_of_cfi(struct emit *e, uint64_t addr, const struct etch_cfi_row *cfi)
{
	static const struct etch_rule undefined = {.kind = ETCH_RULE_UNDEF};

	if (cfi)
		row_push(e, addr, &cfi->rule, ETCH_SOURCE_CFI);
	else
		row_push(e, addr, &undefined, ETCH_SOURCE_CODE);
}

/* Might tracking constants show that the code contradicts a row of .eh_frame? A constant in rbp would prove that rbp
 * does not hold the caller's value. */
static inline bool constants_may_deny(const struct emit *e, const struct etch_cfi_row *cfi)
{
	return !e->now.state->constants && cfi->rule.bp == ETCH_BP_SAME &&
	       e->now.state->reg[ETCH_REG_RBP].kind == VALUE_ANY;
}

/* Adds the row from `addr` on, chosen from the current state and a row of .eh_frame (null: none). An unproven rule
 * contradicts nothing. */
static inline __attribute__((always_inline)) void row_choose(struct emit *e, uint64_t addr,
                                                             const struct etch_cfi_row *cfi)
{
	static const struct etch_rule undefined = {.kind = ETCH_RULE_UNDEF};
	unsigned source = e->range->plt ? ETCH_SOURCE_PLT : ETCH_SOURCE_CODE;
	bool unproven = e->now.lifts && is_unproven(e, cfi);
	const struct etch_rule *rule = unproven ? &undefined : &e->now.rule;
	bool replaced = cfi && is_stack_replaced(e, addr, cfi);
	bool anchored = e->agreed && e->now.state->weak && cfi && cfi->start < addr && is_anchored(e, addr);
	enum witness w;

	e->agreed = false;
	if (is_unread(e, addr) || is_left_over(e, addr)) {
		row_of_cfi(e, addr, cfi);
		return;
	}
	if (!cfi || (cfi->rule.kind == ETCH_RULE_UNDEF && !cfi->why)) {
		row_push(e, addr, rule, source);
		return;
	}
	if (cfi->rule.kind == ETCH_RULE_UNDEF) {
		row_unexpressed(e, addr, cfi, rule, source);
		return;
	}
	w = witness_of(e, cfi, anchored, unproven, replaced);
	e->found.wants_constants |= w == WITNESS_SILENT && constants_may_deny(e, cfi);
	e->agreed = w != WITNESS_SILENT;
	if (w == WITNESS_DENIES)
		row_denied(e, addr, cfi, rule, source);
	else
		row_confirmed(e, addr, cfi, w == WITNESS_CONFIRMS);
}

/* Returns the number of bytes of padding in [at, to), counted from `at`. */
static uint64_t padding(const struct emit *e, uint64_t at, uint64_t to)
{
	const struct code_range *p = e->range;
	uint64_t x = at;
	struct step s;

	while (x < to && step_decode_in(e->flow->cache, p->bytes + (x - p->start), to - x, readable(e, x), x, &s) &&
	       s.padding)
		x += s.len;
	/* Zero bytes up to the end of the code range are in front of the next function. Other zero bytes may be data, or
	 * read by a runtime. */
	if (x < to && to == p->end && !e->flow->in.own_stack && padding_zeros(p->bytes + (x - p->start), to - x) == to - x)
		x = to;
	return x - at;
}

/* Adds a row of .eh_frame for bytes that no flow reaches. Bytes below `at` are padding. With `unread`, that padding
 * does not get the rule of the code before it. */
static void fill_row(struct emit *e, const struct etch_cfi_row *c, uint64_t at, bool unread)
{
	static const struct etch_rule none;
	const struct row *last = e->count ? &e->rows[e->count - 1] : NULL;
	bool same = last && !memcmp(&last->rule, &c->rule, sizeof(c->rule));
	/* The row only covers padding, or differs from it in nothing. */
	bool padded = c->end <= at || (c->start < at && same);
	uint64_t from = c->start > e->at ? c->start : e->at;

	if (unread || !padded) {
		if (from > at)
			row_push(e, at, &none, ETCH_SOURCE_CODE);
		row_push(e, from, &c->rule, ETCH_SOURCE_CFI);
	} else if (last && !same) {
		row_push(e, from, &c->rule, ETCH_SOURCE_CFI);
	}
}

/*
 * Adds the rows for the bytes from e->at to `to`, which no flow reaches: those of .eh_frame, or UNDEF. Padding gets the
 * rule of the code before it: it is not executed, .eh_frame does the same, and one row is smaller than two.
 */
static void fill(struct emit *e, uint64_t to)
{
	static const struct etch_rule none;
	bool unread = is_unread(e, e->at) || is_left_over(e, e->at);
	uint64_t at = e->at;

	if (e->count && !e->flow->in.env->notes) /* the tables of files with notes do not cover padding */
		at += padding(e, at, to);
	for (; e->cfi_at < e->cfi_count; e->cfi_at++) {
		const struct etch_cfi_row *c = &e->cfi[e->cfi_at];

		if (c->end <= e->at)
			continue;
		if (c->start >= to)
			break;
		fill_row(e, c, at, unread);
		if (c->end > at)
			at = c->end < to ? c->end : to;
		if (c->end > to)
			break;
	}
	if (at < to)
		row_push(e, at, &none, ETCH_SOURCE_CODE);
	e->at = to;
}

/* Makes the rule of a new state before the instruction at `addr`. */
static inline void rule_renew(struct emit *e, uint64_t addr, const struct state *before)
{
	rule_of(e, before, &e->now.rule);
	e->now.lifts = lifts(before, &e->now.rule);
	if (e->now.rule.kind == ETCH_RULE_UNDEF)
		lost_note(e, before);
	if (e->tails)
		flow_tail_rule(e->flow, addr, before, &e->now.rule);
}

/* Can a change of another register than rsp and rbp, which need not change the rule of a state, decide whether the
 * state confirms a row of .eh_frame? */
static inline bool cfi_is_elsewhere(const struct etch_cfi_row *c)
{
	return (c->rule.cfa & 15u) - ETCH_REG_RSP > ETCH_REG_RBP - ETCH_REG_RSP || (c->rule.ra & ETCH_RA_REG);
}

/* Returns the address up to which .eh_frame has the same row as at `end`, and rows are the same as long as the rules of
 * the states are. */
static inline uint64_t cfi_same_until(const struct emit *e, uint64_t end)
{
	const struct etch_cfi_row *c;

	if (e->flow->in.unproven)
		return 0;
	if (e->cfi_at == e->cfi_count)
		return UINT64_MAX;
	c = &e->cfi[e->cfi_at];
	if (c->start > end)
		return c->start;
	return cfi_is_elsewhere(c) ? 0 : c->end;
}

/* The slow path of state_add(), for an instruction at which the state or the row of .eh_frame may change. */
static __attribute__((noinline)) void state_changed(struct emit *e, uint64_t addr, unsigned len,
                                                    const struct state *before, bool same)
{
	uint64_t end = addr + len, at;
	bool fresh = !same || e->now.stale || is_left_over(e, addr);

	if (addr < e->at) { /* this instruction lies inside another one, which determines the row */
		e->now.stale = fresh;
		e->cfi_same_below = 0;
		return;
	}
	e->now.stale = false;
	if (fresh)
		rule_renew(e, addr, before);
	if (addr > e->at) {
		fill(e, addr);
		fresh = true;
	}
	while (e->cfi_at < e->cfi_count && e->cfi[e->cfi_at].end <= addr) {
		e->cfi_at++;
		fresh = true;
	}
	for (at = addr; at < end;) {
		const struct etch_cfi_row *c = e->cfi_at < e->cfi_count ? &e->cfi[e->cfi_at] : NULL;

		if (c && c->start > at) { /* .eh_frame has a gap before c */
			row_choose(e, at, NULL);
			at = c->start < end ? c->start : end;
			fresh = true;
			continue;
		}
		if (fresh || (c && (c->start == at || cfi_is_elsewhere(c))))
			row_choose(e, at, c);
		if (!c || c->end >= end)
			break;
		at = c->end;
		e->cfi_at++;
		fresh = true;
	}
	e->at = end;
	e->last = addr;
	e->cfi_same_below = cfi_same_until(e, end);
}

/* Takes account of instructions that flow_states() has skipped (flow.skip): they have the row of the instruction before
 * them. */
static inline void quiet_take(struct emit *e, const struct flow *f)
{
	if (f->skip.below && f->skip.end > e->at) {
		e->at = f->skip.end;
		e->last = f->skip.last;
	}
}

/* Adds the rows of one instruction, unless neither the rule nor the row of .eh_frame changes. flow_states() calls
 * this. */
static void state_add(void *ctx, uint64_t addr, unsigned len, const struct state *before, bool same)
{
	struct emit *e = ctx;

	quiet_take(e, e->flow);
	e->now.state = before;
	if (!same || addr != e->at || addr + len > e->cfi_same_below) {
		state_changed(e, addr, len, before, same);
	} else {
		e->at = addr + len;
		e->last = addr;
	}
	e->flow->skip.below = addr + len == e->at ? e->cfi_same_below : 0;
}

/* Adds the row of a signal restorer: the kernel has saved the registers, in a place that no code shows. */
static void sigreturn_push(struct emit *e)
{
	struct etch_rule rule = {.cfa_off = SIGRETURN_RSP, .cfa = ETCH_REG_RSP | ETCH_CFA_DEREF, .kind = ETCH_RULE_SIGNAL};

	row_push(e, e->range->start, &rule, ETCH_SOURCE_CODE);
	e->at = e->range->end;
}

static void shared_add(void *ctx, const struct etch_cfi_row *row)
{
	struct emit *e = ctx;

	mem_reserve(&e->plt.rows, &e->plt.capacity, e->plt.count, sizeof(*e->plt.rows));
	e->plt.rows[e->plt.count++] = *row;
}

/* Reads the rows of a PLT entry. All entries share one FDE, so its rows are computed once. */
static void plt_rows(struct emit *e, const struct flow_env *env)
{
	size_t i;

	if (!e->plt.count || e->plt.fde != e->range->fde) {
		e->plt.count = 0;
		e->plt.fde = e->range->fde;
		cfi_file_rows(env->cfi, (size_t)e->range->fde, 0, shared_add, e);
	}
	i = SEARCH(e->plt.count, k, e->plt.rows[k].end <= e->range->start);
	for (; i < e->plt.count && e->plt.rows[i].start < e->range->end; i++)
		cfi_add(e, &e->plt.rows[i]);
}

/* Returns what begins at the start of the code range according to the row of .eh_frame there. */
static enum flow_start start_of(const struct emit *e)
{
	if (!e->cfi_count || e->cfi[0].start > e->range->start || e->cfi[0].rule.kind != ETCH_RULE_CALL)
		return START_ASSUMED;
	return state_witness(&state_at_entry, &e->cfi[0].rule) == WITNESS_CONFIRMS ? START_FUNCTION : START_PART;
}

void emit_begin(struct emit *e, const struct flow_env *env, uint32_t range, bool no_cfi)
{
	e->range = &env->ranges[range];
	findings_free(&e->findings);
	e->count = e->cfi_count = e->cfi_at = 0;
	e->silent = e->agreed = e->now.stale = false;
	memset(&e->found, 0, sizeof(e->found));
	e->last = e->range->start;
	e->sp_replaced = UINT64_MAX;
	e->no_cfi = no_cfi;
	e->at = e->range->start;
	e->cfi_same_below = 0;
	if (e->range->fde >= 0 && !no_cfi && e->range->plt)
		plt_rows(e, env);
	else if (e->range->fde >= 0 && !no_cfi)
		cfi_file_rows(env->cfi, (size_t)e->range->fde, 0, cfi_add, e);
	e->start = start_of(e);
	e->one_rule = e->start == START_PART && e->cfi_count == 1;
}

/* Moves the findings, and copies the rows and saves, into *out. */
static void results_take(struct emit *e, struct range_rows *out)
{
	struct save_row *saves = mem_alloc(e->saves.count * sizeof(*saves) + e->count * sizeof(*out->rows), 1);
	size_t i;

	if (e->saves.count > INT32_MAX)
		bounds_exhausted();
	out->save_count = (uint32_t)e->saves.count & INT32_MAX; /* save_count has 31 bits */
	out->rows = (struct row *)(void *)(saves + out->save_count);
	findings_take(&out->findings, &e->findings);
	if (e->count)
		memcpy(out->rows, e->rows, e->count * sizeof(*out->rows));
	out->count = (uint32_t)e->count;
	if (e->saves.count)
		memcpy(saves, e->saves.rows, e->saves.count * sizeof(*saves));
	for (i = 0; i < e->count; i++)
		out->unproven |= e->rows[i].source == ETCH_SOURCE_CFI || e->rows[i].inferred;
}

void emit_rows(struct emit *e, struct flow *f, struct range_rows *out)
{
	const struct code_range *p = e->range;

	memset(out, 0, sizeof(*out));
	e->flow = f;
	if ((e->no_cfi || p->fde < 0) && code_is_sigreturn(p->bytes, p->end - p->start))
		sigreturn_push(e); /* e->at is now at the end, so the states add nothing */
	emit_saves_begin(e, f);
	e->tails = flow_has_tails(f);
	e->found.wants_constants |= e->tails && f->in.env->handlers;
	if (e->tails)
		flow_tails_find(f);
	flow_states(f, state_add, e);
	f->saves.fn = NULL;
	quiet_take(e, f);
	fill(e, p->end);
	disagreements_sum(&e->findings, f, &(struct row_list){e->rows, e->count, e->capacity}, e->cfi, e->cfi_count);
	emit_saves_end(e, f);
	results_take(e, out);
}

void emit_free(struct emit *e)
{
	free(e->rows);
	findings_free(&e->findings);
	free(e->cfi);
	free(e->plt.rows);
	free(e->saves.rows);
	memset(e, 0, sizeof(*e));
}

const struct row *range_row_at(const struct range_rows *r, uint64_t addr)
{
	size_t n = SEARCH(r->count, i, r->rows[i].addr <= addr);

	return n ? &r->rows[n - 1] : NULL;
}

void range_rows_free(struct range_rows *p)
{
	free(range_saves(p));
	findings_free(&p->findings);
	memset(p, 0, sizeof(*p));
}
