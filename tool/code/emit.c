/* SPDX-License-Identifier: MIT */
#include "code/emit.h"

#include "arch/x86/rule_text.h"
#include "code/vector.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void row_push(struct emit *e, uint64_t addr, const struct etch_rule *rule, unsigned source)
{
	struct row *last = e->count ? &e->rows[e->count - 1] : NULL;

	if (last && last->source == source && !memcmp(&last->rule, rule, sizeof(*rule)))
		return;
	if (last && last->addr == addr) { /* the range before was empty */
		last->rule = *rule;
		last->source = (uint8_t)source;
		return;
	}
	if (!room_make(&e->rows, &e->room, e->count, sizeof(*e->rows))) {
		e->failed = true;
		return;
	}
	memset(&e->rows[e->count], 0, sizeof(e->rows[e->count]));
	e->rows[e->count].addr = addr;
	e->rows[e->count].rule = *rule;
	e->rows[e->count++].source = (uint8_t)source;
}

static void disagreement_push(struct emit *e, uint64_t addr, const struct etch_rule *code, const struct etch_rule *cfi)
{
	struct finding *f;
	char a[32], b[32], c[32], d[32];

	if (e->silent)
		return;
	e->silent = true;
	rule_cfa_text(code, a, sizeof(a));
	rule_bp_text(code, b, sizeof(b));
	rule_cfa_text(cfi, c, sizeof(c));
	rule_bp_text(cfi, d, sizeof(d));
	f = finding_add(&e->findings, "ETCH-C001", 0, addr, ".eh_frame says CFA %s, rbp %s; the code has CFA %s, rbp %s", c,
	                d, a, b);
	if (!finding_fact(f, ".eh_frame", "CFA %s, rbp %s", c, d) || !finding_fact(f, "the code", "CFA %s, rbp %s", a, b))
		e->failed = true;
}

/* Where no function keeps rbp, .eh_frame does not mean that this one does when it says nothing of it. */
static bool is_rbp_alone(const struct emit *e, const struct etch_rule *cfi)
{
	struct etch_rule rule = e->rule;

	rule.bp = cfi->bp;
	rule.bp_off = cfi->bp_off;
	return e->piece->ocaml && cfi->bp == ETCH_BP_SAME && !memcmp(&rule, cfi, sizeof(rule));
}

static void cfi_add(void *ctx, const struct etch_cfi_row *row)
{
	struct emit *e = ctx;
	struct etch_cfi_row r = *row;

	if (r.start < e->piece->start)
		r.start = e->piece->start;
	if (r.end > e->piece->end)
		r.end = e->piece->end;
	if (r.start >= r.end)
		return;
	if (!room_make(&e->cfi, &e->cfi_room, e->cfi_count, sizeof(*e->cfi)))
		e->failed = true;
	else
		e->cfi[e->cfi_count++] = r;
}

/*
 * Go's mcall takes the stack of the thread, from where the scheduler left it, and does not come back: what it
 * calls there is the first that this stack holds. (morestack and systemstack do so on behalf of a
 * function whose frame is on another stack, where no rule finds it.)
 */
static bool begins_stack(const struct piece *p) { return p->go && !strcmp(p->go, "runtime.mcall"); }

/*
 * The rule of a state, for the kind of piece that it is in. Where a stack begins, nobody asks for a CFA; but where
 * nothing says where that code ends, what has none may be other code behind it.
 */
static void rule_of(const struct emit *e, const struct state *s, struct etch_rule *out)
{
	const struct piece *p = e->piece;

	state_rule(s, out);
	if (out->kind == ETCH_RULE_UNDEF ? begins_stack(p) || (p->outermost && !p->open) : p->outermost || p->handed) {
		out->kind = ETCH_RULE_END;
		out->ra = 0;
	}
}

/* How many bytes can be read from an address of the piece on. */
static size_t readable(const struct emit *e, uint64_t addr) { return e->flow->readable - (addr - e->piece->start); }

/*
 * A state that is only what indirect jumps have in common says nothing against .eh_frame; but
 * where the two have agreed, it knows as well as any what the instructions from there on do,
 * as long as .eh_frame has no more to say.
 */
static bool is_anchored(const struct emit *e, uint64_t addr)
{
	const struct piece *p = e->piece;
	struct step s;

	return e->agreed && addr == e->at && e->last < addr &&
	       step_decode_in(e->flow->cache, p->bytes + (e->last - p->start), addr - e->last, readable(e, e->last), e->last, &s) &&
	       (s.flow == FLOW_NEXT || s.flow == FLOW_BRANCH);
}

/* What lies behind the jump of StgRun is where code of GHC comes back to, with rsp as it was. */
static bool is_return(const struct emit *e) { return e->flow->run.kind != ETCH_RULE_UNDEF; }

/* One stretch of code with one state and one row of .eh_frame, or none. */
static void decide(struct emit *e, uint64_t addr, const struct etch_cfi_row *cfi)
{
	static const struct etch_rule undefined = {.kind = ETCH_RULE_UNDEF};
	unsigned source = e->piece->plt ? ETCH_SOURCE_PLT : ETCH_SOURCE_CODE;
	bool anchored = e->agreed && e->state->weak && cfi && cfi->start < addr && is_anchored(e, addr);
	enum witness w;

	e->agreed = false;
	if (!cfi || (cfi->rule.kind == ETCH_RULE_UNDEF && !cfi->why)) {
		row_push(e, addr, &e->rule, source);
		return;
	}
	if (cfi->rule.kind == ETCH_RULE_UNDEF) {
		if (!e->silent && !finding_add(&e->findings, "ETCH-C002", 0, addr, ".eh_frame has what no row can say: %s", cfi->why))
			e->failed = true;
		e->silent = true;
		/* What indirect jumps alone suggest is less than that. */
		row_push(e, addr, e->state && e->state->weak && !is_return(e) ? &undefined : &e->rule, source);
		return;
	}
	w = memcmp(&cfi->rule, &e->rule, sizeof(e->rule)) ? state_witness(e->state, &cfi->rule)
	                                                   : state_witness_own(e->state, &cfi->rule);
	if (w == WITNESS_DENIES && e->state->weak && !anchored)
		w = WITNESS_SILENT;
	/* A number in rbp is not the caller's: to be looked at with numbers. */
	e->asks |= w == WITNESS_SILENT && !e->state->numbers && cfi->rule.bp == ETCH_BP_SAME &&
	           e->state->reg[ETCH_REG_RBP].kind == VALUE_ANY;
	e->agreed = w != WITNESS_SILENT;
	if (w == WITNESS_DENIES) {
		if (!is_rbp_alone(e, &cfi->rule))
			disagreement_push(e, addr, &e->rule, &cfi->rule);
		row_push(e, addr, &e->rule, source);
		return;
	}
	e->silent = false;
	row_push(e, addr, &cfi->rule, w == WITNESS_CONFIRMS ? (e->piece->plt ? ETCH_SOURCE_PLT : ETCH_SOURCE_BOTH)
	                                                     : ETCH_SOURCE_CFI);
}

/* How many of the bytes from `at` on are padding. */
static uint64_t padding(const struct emit *e, uint64_t at, uint64_t to)
{
	const struct piece *p = e->piece;
	uint64_t x = at;
	struct step s;

	while (x < to && step_decode_in(e->flow->cache, p->bytes + (x - p->start), to - x, readable(e, x), x, &s) && s.padding)
		x += s.len;
	return x - at;
}

/*
 * Bytes from e->at to `to` that no flow reaches. Padding keeps the rule of the code
 * before it: it is not executed, .eh_frame has it so, and whoever asks wants one
 * row, not two.
 */
static void fill(struct emit *e, uint64_t to)
{
	static const struct etch_rule none;
	struct row *last;
	uint64_t at = e->at;

	if (e->count)
		at += padding(e, at, to);
	for (; e->cfi_at < e->cfi_count; e->cfi_at++) {
		const struct etch_cfi_row *c = &e->cfi[e->cfi_at];

		if (c->end <= e->at)
			continue;
		if (c->start >= to)
			break;
		last = e->count ? &e->rows[e->count - 1] : NULL;
		if (c->end <= at || (c->start < at && last && !memcmp(&last->rule, &c->rule, sizeof(c->rule)))) {
			if (last && memcmp(&last->rule, &c->rule, sizeof(c->rule)))
				row_push(e, c->start > e->at ? c->start : e->at, &c->rule, ETCH_SOURCE_CFI);
		} else {
			uint64_t from = c->start > e->at ? c->start : e->at;

			if (from > at)
				row_push(e, at, &none, ETCH_SOURCE_CODE);
			row_push(e, from, &c->rule, ETCH_SOURCE_CFI);
		}
		if (c->end > at)
			at = c->end < to ? c->end : to;
		if (c->end > to)
			break;
	}
	if (at < to)
		row_push(e, at, &none, ETCH_SOURCE_CODE);
	e->at = to;
}

static __attribute__((noinline)) void state_news(struct emit *e, uint64_t addr, unsigned len, const struct state *before,
                                                 bool same)
{
	uint64_t end = addr + len, at;
	bool fresh = !same || e->stale;

	if (addr < e->at) { /* an instruction inside another: the outer one has its row */
		e->stale = fresh;
		e->quiet = 0;
		return;
	}
	e->stale = false;
	if (fresh)
		rule_of(e, before, &e->rule);
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

		if (c && c->start > at) { /* before it */
			decide(e, at, NULL);
			at = c->start < end ? c->start : end;
			fresh = true;
			continue;
		}
		if (fresh || (c && c->start == at))
			decide(e, at, c);
		if (!c || c->end >= end)
			break;
		at = c->end;
		e->cfi_at++;
		fresh = true;
	}
	e->at = end;
	e->last = addr;
	e->quiet = e->cfi_at == e->cfi_count ? UINT64_MAX
	           : e->cfi[e->cfi_at].start <= end ? e->cfi[e->cfi_at].end : e->cfi[e->cfi_at].start;
}

/* What it was not called for has the row of what is before it. */
static inline void quiet_take(struct emit *e, const struct flow *f)
{
	if (f->quiet && f->quiet_end > e->at) {
		e->at = f->quiet_end;
		e->last = f->quiet_last;
	}
}

static void state_add(void *ctx, uint64_t addr, unsigned len, const struct state *before, bool same)
{
	struct emit *e = ctx;

	quiet_take(e, e->flow);
	e->state = before;
	if (!same || addr != e->at || addr + len > e->quiet) {
		state_news(e, addr, len, before, same);
	} else {
		e->at = addr + len;
		e->last = addr;
	}
	e->flow->quiet = addr + len == e->at ? e->quiet : 0;
}

/* A signal's return: the registers are the kernel's, no code says where. */
static void sigreturn_push(struct emit *e)
{
	struct etch_rule rule = {.cfa_off = SIGRETURN_RSP, .cfa = ETCH_REG_RSP | ETCH_CFA_DEREF, .kind = ETCH_RULE_SIGNAL};

	row_push(e, e->piece->start, &rule, ETCH_SOURCE_CODE);
	e->at = e->piece->end;
}

static void shared_add(void *ctx, const struct etch_cfi_row *row)
{
	struct emit *e = ctx;

	if (!room_make(&e->shared, &e->shared_room, e->shared_count, sizeof(*e->shared)))
		e->failed = true;
	else
		e->shared[e->shared_count++] = *row;
}

/* All entries of a PLT have one FDE: its program is run once. */
static void plt_rows(struct emit *e, const struct flow_env *env)
{
	size_t lo = 0, hi;

	if (!e->shared_count || e->shared_fde != e->piece->fde) {
		e->shared_count = 0;
		e->shared_fde = e->piece->fde;
		cfi_file_rows(env->cfi, (size_t)e->piece->fde, 0, shared_add, e);
	}
	hi = e->shared_count;
	while (lo < hi) {
		size_t mid = lo + (hi - lo) / 2;

		if (e->shared[mid].end <= e->piece->start)
			lo = mid + 1;
		else
			hi = mid;
	}
	for (; lo < e->shared_count && e->shared[lo].start < e->piece->end; lo++)
		cfi_add(e, &e->shared[lo]);
}

/* What .eh_frame says of the piece's start. */
static enum flow_start start_of(const struct emit *e)
{
	if (!e->cfi_count || e->cfi[0].start > e->piece->start || e->cfi[0].rule.kind != ETCH_RULE_CALL)
		return START_ASSUMED;
	return state_witness(&state_at_entry, &e->cfi[0].rule) == WITNESS_CONFIRMS ? START_FUNCTION : START_PART;
}

bool emit_begin(struct emit *e, const struct flow_env *env, uint32_t piece, bool no_cfi)
{
	e->piece = &env->pieces[piece];
	findings_free(&e->findings);
	e->count = e->cfi_count = e->cfi_at = 0;
	e->failed = e->silent = e->agreed = e->stale = e->asks = false;
	e->last = e->piece->start;
	e->no_cfi = no_cfi;
	e->at = e->piece->start;
	e->quiet = 0;
	if (e->piece->fde >= 0 && !no_cfi && e->piece->plt)
		plt_rows(e, env);
	else if (e->piece->fde >= 0 && !no_cfi)
		cfi_file_rows(env->cfi, (size_t)e->piece->fde, 0, cfi_add, e);
	e->start = start_of(e);
	return !e->failed;
}

bool emit_rows(struct emit *e, struct flow *f, struct piece_rows *out)
{
	const struct piece *p = e->piece;
	size_t i;

	memset(out, 0, sizeof(*out));
	e->flow = f;
	if ((e->no_cfi || p->fde < 0) && code_is_sigreturn(p->bytes, p->end - p->start))
		sigreturn_push(e); /* state_add() then finds all done */
	flow_states(f, state_add, e);
	quiet_take(e, f);
	fill(e, p->end);
	if (e->failed)
		return false;
	out->rows = malloc((e->count + 1) * sizeof(*out->rows));
	if (!out->rows || !findings_take(&out->findings, &e->findings)) {
		piece_rows_free(out);
		return false;
	}
	if (e->count)
		memcpy(out->rows, e->rows, e->count * sizeof(*out->rows));
	out->count = (uint32_t)e->count;
	for (i = 0; i < e->count; i++)
		if (e->rows[i].rule.kind == ETCH_RULE_UNDEF)
			out->undefined += (i + 1 < e->count ? e->rows[i + 1].addr : p->end) - e->rows[i].addr;
	return true;
}

void emit_free(struct emit *e)
{
	free(e->rows);
	findings_free(&e->findings);
	free(e->cfi);
	free(e->shared);
	memset(e, 0, sizeof(*e));
}

void piece_rows_free(struct piece_rows *p)
{
	free(p->rows);
	findings_free(&p->findings);
	memset(p, 0, sizeof(*p));
}
