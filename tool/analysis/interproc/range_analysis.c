/* SPDX-License-Identifier: MIT */
/*
 * Analyses one code range, and repeats that until its results agree with the assumptions of the analysis: how it begins
 * (as a function or as a part of one), how many bytes were pushed before its start, whether it is code at all.
 * Interface: worker.h.
 */
#include "analysis/flow/insn_detail.h"
#include "analysis/flow/flow_internal.h"
#include "analysis/interproc/worker.h"
#include "analysis/interproc/rounds.h"
#include "analysis/lint/observe.h"
#include "analysis/unwind/disagreement.h"
#include "arch/x86/opcodes.h"
#include "support/bounds.h"
#include "support/memory.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Are all frames known in which a code range begins, because only jumps lead there? This is assumed only in files with
 * continuations, since their frames are known; in other files such code is often a handler of an interpreter. */
static bool frames_known(const struct flow_env *env, const struct range_state *s)
{
	return env->continuation_count && range_is_only_led_to(s);
}

enum flow_start range_start(const struct flow_env *env, const struct code_range *p, const struct range_state *s,
                            const struct emit *e)
{
	enum flow_start start = e->start;

	/* .eh_frame has the state of the jumps, but calls lead there too. A tail call does not count against .eh_frame and
	 * the jumps: see refuted_starts.c. */
	if (start == START_PART && s->misfit == START_CALLED)
		return START_ASSUMED;
	if (start == START_FUNCTION && s->misfit != START_FITS)
		return s->misfit == START_JUMPED ? START_PART : START_ASSUMED;
	if (start != START_ASSUMED)
		return start;
	if (range_is_continuation(s))
		return s->evidence & EVIDENCE_CONTINUED ? START_PART : START_FUNCTION;
	if (frames_known(env, s))
		return s->entered & ENTRY_TAILED ? START_ASSUMED : START_PART;
	if (p->part || range_is_framed_part(s))
		return START_PART;
	if (s->misfit != START_FITS)
		return s->misfit == START_JUMPED ? START_PART : START_ASSUMED;
	if (range_is_tried(s) || (p->fde < 0 && !p->plt && own_stack_begins(env, p->start)))
		return START_FUNCTION;
	if (p->named && !(s->kind != RANGE_FUNCTION && s->exit_sp_mismatch))
		return START_FUNCTION;
	if (s->kind != RANGE_FUNCTION)
		return START_PART;
	return s->evidence & EVIDENCE_FUNCTION ? START_FUNCTION : START_ASSUMED;
}

/*
 * Moves doubtful edges of o->in to the end, for doubts_take(), and returns the number of the others. An edge to the
 * start of a called function, in a state other than that of an entry, is doubtful: it may come from code after a call
 * that does not return, or from code whose frame is unknown, or never be taken (refuted_starts.c). If its state were
 * joined with that of the entry, all rows would be lost.
 */
static size_t doubts_last(struct worker *o, const struct code_range *p, size_t count)
{
	size_t i, n = 0;

	const struct range_state *s = &o->w->state[p - o->w->ranges.list];

	if (s->misfit < START_PRESUMED && (!p->inferred || !s->is_callee))
		return count;
	for (i = 0; i < count; i++)
		if (o->in[i].target != p->start || state_is_entry(&o->in[i].state)) {
			if (i != n) {
				struct flow_edge x = o->in[n];

				o->in[n] = o->in[i];
				o->in[i] = x;
			}
			n++;
		}
	return n;
}

/* Has an edge that brings the same state to the same address already been unpacked? Then this edge would change
 * nothing. The cache does not find all such edges. */
static bool edge_is_known(struct worker *o, const struct edge *x)
{
	const struct edge **known = &o->known[((uintptr_t)x->state / 4 ^ x->sum) % KNOWN];

	if (*known && (*known)->target == x->target && (*known)->state == x->state)
		return true;
	*known = x;
	return false;
}

/* Unpacks the edges into a code range to o->in. If s->joined, joins them with the earlier ones. There may be many: code
 * to which all functions of a kernel jump has tens of thousands of edges, in a few hundred different states. */
static void edges_in(struct worker *o, const struct code_range *p, size_t *count)
{
	struct range_state *s = &o->w->state[p - o->w->ranges.list];
	const struct edges *l = &o->w->graph.edges;
	size_t from = edges_from(l, p->start), i, n = 0;
	bool many = from + MANY_EDGES < l->count && l->list[from + MANY_EDGES].target < p->end;

	if (many)
		memset(o->known, 0, sizeof(o->known));
	for (i = from; i < l->count && l->list[i].target < p->end; i++) {
		if (many && edge_is_known(o, &l->list[i]))
			continue;
		mem_reserve(&o->in, &o->in_capacity, n, sizeof(*o->in));
		o->in[n].target = l->list[i].target;
		o->in[n].from = l->list[i].from;
		o->in[n].at = l->list[i].at;
		o->in[n].misfit = l->list[i].misfit;
		state_unpack(l->list[i].state, &o->in[n++].state);
	}
	*count = n;
	if (s->joined)
		edges_join(p, s, &o->in, &o->in_capacity, count);
}

/*
 * If at all exits of some code rsp is higher than at its start, by the same amount, then that many bytes were pushed
 * below the return address before it was entered, as the PLT does for the lazy resolvers of ld.so. At least one exit
 * must prove that the return address is on top of the stack there, which an indirect jump alone does not. Sets
 * flow.in.pushed and returns true if the code has to be analysed again.
 */
static bool pushed_find(struct flow *flow, const struct emit *e)
{
	if (flow->in.pushed || flow->in.overdrawn || flow->found.exit_sp_varies || flow->found.exit_sp_delta <= 0 ||
	    !flow->found.exit_sp_certain || e->start != START_ASSUMED)
		return false;
	flow->in.pushed = flow->found.exit_sp_delta;
	return true;
}

/* For etch check: adds the findings about the flow of a code range that is certain to be code. */
static void range_observe(struct worker *o, uint32_t number)
{
	struct work *w = o->w;
	struct flow *f = &o->flow;
	struct findings *out = &w->state[number].rows.findings;

	reached_take(&w->out->reached, &w->out->space, f);
	if (f->in.own_stack) /* a stack other than C's has no such findings */
		return;
	observe_range(f, out);
	if (w->ibt)
		targets_observe(f, out);
}

/*
 * Is it proven that the return address is on top of the stack where a code range begins? A call of the start puts it
 * there. A return to that address proves that it was there, and so does a jump, with the address on top of the stack,
 * to code that is known to begin in this way (tail_proved). A symbol, .eh_frame, or a pointer to the start prove
 * nothing. No proof is needed where callers find their frames by rbp, or on a stack of their own, since such a frame is
 * not that of a call; nor at the start of a stack.
 */
static bool is_entry_proved(const struct range_state *s, const struct flow *f)
{
	const struct code_range *p = f->in.range;

	return s->entered & ENTRY_CALLED || s->tail_proved || f->found.returns_home || f->walk.has_helpers || f->in.noted ||
	       f->in.own_stack || (f->in.abi_flags & (ABI_FRAMES_BY_RBP | ABI_HANDLER)) || p->plt || p->outermost ||
	       p->entry_tail || p->part;
}

/* Stores in range_rare.tails the targets to which code jumps in the state of an entry, because any of them may prove
 * the entry. The next analysis will not begin in that state, and cannot find them. */
static void tails_keep(struct range_state *s, const struct flow *f)
{
	struct range_rare *rare = range_rare_make(s);
	size_t i, n = 0;
	uint64_t *tails;

	free(rare->tails);
	tails = rare->tails = mem_alloc(f->found.exit_count + f->found.edge_count + 1, sizeof(*tails));
	for (i = 0; i < f->found.exit_count; i++)
		if (f->found.exits[i].kind == EXIT_TAIL && f->found.exits[i].to != NO_RANGE)
			tails[n++] = f->found.exits[i].target;
	for (i = 0; i < f->found.edge_count; i++)
		if (state_is_entry(&f->found.edges[i].state))
			tails[n++] = f->found.edges[i].target;
	tails[n] = 0;
}

/*
 * Checks the assumption that a code range begins with a function's entry. If it takes more bytes off the stack than an
 * entry has there, and by that loses the return address at its exits (or anywhere, if it never returns), the assumption
 * is refuted unless there is a proof of an entry. Its frame is then unknown. If it does not lose the return address,
 * only the rows after the address is off the stack need a proof. Returns true if the code has to be analysed again.
 */
static bool entry_refuted(struct worker *o, uint32_t number, bool referred)
{
	struct range_state *s = &o->w->state[number];
	struct emit *e = &o->emit;
	struct flow *f = &o->flow;

	if ((f->in.start != START_FUNCTION && f->in.start != START_ASSUMED) || is_entry_proved(s, f))
		return false;
	if (f->found.may_return) /* the path that loses it may be that of a thread with a stack of its own, as in clone() */
		e->found.lost = 0;
	if ((f->found.overdrawn || e->found.lost) && !f->in.overdrawn) {
		/* If the assumption is right after all, the code pops too much, which etch check should report. */
		findings_free(&s->rows.findings);
		if (o->w->options->observe && !referred) {
			range_observe(o, number);
			findings_take(&o->observed, &s->rows.findings);
		}
		tails_keep(s, f);
		f->in.overdrawn = e->found.lost > f->found.overdrawn ? e->found.lost : f->found.overdrawn;
		f->in.pushed = 0;
		return true;
	}
	if (!e->found.lifted || f->in.lift_unproven)
		return false;
	f->in.lift_unproven = true;
	return true;
}

/*
 * Handles the trial of a code range that was taken for a part of a function and begins with the frame of the edges into
 * it. If it returns before all of that frame is removed, it is no such part: the edge came from code after a noreturn
 * call that was believed to return. It is tried as a function, and is one if it ends as one. Returns true if it has to
 * be analysed again.
 */
static bool trial_advance(const struct code_range *p, struct range_state *s, const struct flow *f)
{
	if (p->fde >= 0 || p->named)
		return false;
	if (s->trial == TRIAL_RUNNING) {
		s->trial = f->found.exits_balanced && !f->found.returns_unbalanced && !f->found.exit_sp_mismatch ? TRIAL_PASSED
		                                                                                                 : TRIAL_FAILED;
		return s->trial == TRIAL_FAILED;
	}
	if (s->trial != TRIAL_NONE || f->in.start != START_PART || !f->found.exit_sp_mismatch)
		return false;
	s->trial = TRIAL_RUNNING;
	return true;
}

/* Is a reference to its address the only evidence that this is code? The address of a table in the code section is
 * taken, too. */
static bool is_only_referred(const struct code_range *p, const struct range_state *s, size_t edges)
{
	return p->inferred && !(s->evidence & (EVIDENCE_LED | EVIDENCE_PLACED)) && !edges;
}

/* Does the code begin or leave as code with a stack of its own does? Then it is not data, however its address was
 * found. */
static bool has_own_stack(const struct flow *f)
{
	return f->in.own_stack && (f->found.non_c_frame || own_stack_begins(f->in.env, f->in.range->start));
}

/* Does a function seem to begin at an address in a code range? It does if the address is aligned, and the code there
 * sets up a frame pointer. */
static bool is_prologue_at(const struct code_range *p, uint64_t addr)
{
	return addr % FUNCTION_ALIGN == 0 && insn_is_frame_prologue(p->bytes + (addr - p->start), p->end - addr);
}

/* If the code from which an edge comes were a function, would the edge be impossible? `to` is the code range of the
 * target, or null. `entry`: the edge brings the state of an entry. `word`: the address of the code is only known from a
 * word of data. */
static bool edge_is_wrong(const struct flow_edge *x, const struct code_range *to, bool entry, bool word)
{
	if (!to)
		return word && entry && x->target % FUNCTION_ALIGN;
	return !to->inferred || (word && entry && to->start != x->target && !is_prologue_at(to, x->target));
}

/* Does an edge that brings the state of an entry lead to known code, or to a function with a frame pointer? */
static bool leads_to_code(const struct work *w, const struct flow_edge *x, const struct code_range *to)
{
	return is_prologue_at(to, x->target) || w->state[to - w->env.ranges].evidence & EVIDENCE_LED;
}

/*
 * Judges code of which only an address reference is known (is_only_referred()). Returns false if it is a function. To
 * be one, it must end as a function on all paths, and its edges may lead only to other inferred code or to starts of
 * functions. Otherwise it may be data; then it gets no rows, and its results are ignored. If the address is only known
 * from a word of data, the word may be an entry of a jump table, and the code at a label can look like a function in
 * the state of an entry. So an edge in that state must then lead to a start and, unless the code itself sets up a frame
 * pointer, to known code or to a function with a frame pointer.
 */
static bool may_be_data(const struct work *w, struct flow *f)
{
	const struct range_state *s = &w->state[f->in.number];
	bool ends = f->found.exits_balanced, word = s->evidence & EVIDENCE_WORD;
	uint64_t size = f->in.range->end - f->in.range->start;
	bool framed = insn_is_frame_prologue(f->in.range->bytes, size);
	size_t i;

	if (f->found.broken || f->found.exit_sp_unknown || f->found.returns_unbalanced || f->found.exit_sp_mismatch)
		return true;
	if (s->was_empty && size == 1 && f->found.edge_count)
		return true; /* it was taken for data before, and cut to one byte */
	for (i = 0; i < f->found.edge_count; i++) {
		const struct flow_edge *x = &f->found.edges[i];
		const struct code_range *to = range_at(f->in.env, x->target);
		bool entry = state_is_entry(&x->state);

		if (edge_is_wrong(x, to, entry, word))
			return true;
		ends |= entry && (!word || (to ? leads_to_code(w, x, to) : framed));
	}
	/* It ends in noreturn calls, or loops for ever, or is the restorer to which a signal handler returns. */
	ends |= !word && !f->found.may_return && !f->found.edge_count &&
	        (flow_begins(f) || code_is_sigreturn(f->in.range->bytes, size));
	return !ends;
}

/*
 * Does the code range jump, in the state of a function's entry, to a part of a function (range_state.framed_part)? Then
 * it began with the frame of that function, too.
 */
static bool jumps_to_part(const struct work *w, const struct flow *f)
{
	size_t i;

	for (i = 0; i < f->found.exit_count; i++)
		if (f->found.exits[i].kind == EXIT_TAIL && f->found.exits[i].to != NO_RANGE &&
		    w->state[f->found.exits[i].to].framed_part && !frames_known(&w->env, &w->state[f->found.exits[i].to]))
			return true;
	return false;
}

/* Does a code range begin in the frame of other code? */
static bool is_framed(const struct range_state *s)
{
	return (s->frame == FRAME_OTHER || s->frame == FRAME_HANDLER || s->frame == FRAME_NO_HANDLER) && !s->is_callee;
}

/* For a code range with FRAME_OTHER: do the edges to its start say whose frame is there? Only if nothing but jumps
 * leads there, neither an address in code nor a word of data. */
static bool is_known_part(const struct worker *o, const struct code_range *p, const struct range_state *s, size_t in)
{
	size_t i;

	if (s->frame != FRAME_OTHER || s->entered & ENTRY_TAKEN || s->evidence & (EVIDENCE_WORD | EVIDENCE_FUNCTION))
		return false;
	for (i = 0; i < in; i++)
		if (o->in[i].target == p->start && !o->in[i].state.weak)
			return true;
	return false;
}

/* Does a jump lead to the start of a code range in a known state? */
static bool is_reached(const struct worker *o, const struct code_range *p, const struct range_state *s, size_t edges)
{
	size_t i;

	for (i = 0; i < edges && o->in[i].target != p->start; i++)
		;
	return i < edges || s->entered & ENTRY_TAILED;
}

/* Does a presumed handler of an interpreter leave in a frame other than that of a handler? Then makes it
 * FRAME_NO_HANDLER, and returns true. */
static bool handler_fails(struct range_state *s, struct flow *f)
{
	if (!f->in.handler || !f->found.breaks_frame)
		return false;
	s->frame = FRAME_NO_HANDLER;
	f->in.handler = false;
	return true;
}

#ifdef ETCH_CHECK_STEPS
static bool rows_same(const struct range_rows *a, const struct range_rows *b)
{
	uint32_t i;

	for (i = 0; i < a->count && i < b->count; i++)
		if (a->rows[i].addr != b->rows[i].addr || a->rows[i].source != b->rows[i].source ||
		    memcmp(&a->rows[i].rule, &b->rows[i].rule, sizeof(a->rows[i].rule)))
			return false;
	return a->count == b->count && a->findings.count == b->findings.count;
}

/* Returns a checksum of the results of analysing a code range. */
static uint64_t found_sum(const struct flow *f)
{
	uint64_t flags = f->found.exit_sp_varies | f->found.replaces_sp << 1 | f->found.exits_balanced << 2 |
	                 f->found.returns_unbalanced << 3 | f->found.exit_sp_mismatch << 4 | f->found.exit_sp_unknown << 5 |
	                 f->found.non_c_frame << 6 | f->found.return_certain << 7 | f->found.may_return << 8 |
	                 f->found.broken << 9 | f->found.returns_to_caller << 10 | f->found.returns_home << 11 |
	                 (uint64_t)f->found.overdrawn << 12;

	return ((((flags * 31 + f->found.exit_count) * 31 + f->found.edge_count) * 31 + f->found.extent) * 31 +
	        (uint32_t)f->found.exit_sp_delta);
}
#endif

/*
 * With ETCH_CHECK_STEPS (make asan): if the analysis did not track constants (flow.found.no_constants), checks that
 * tracking them would change neither rows nor results.
 */
static void plain_check(struct worker *o, uint32_t number, size_t in)
{
#ifdef ETCH_CHECK_STEPS
	struct range_rows *s = &o->w->state[number].rows, plain = *s;
	struct flow *f = &o->flow;
	uint64_t was = found_sum(f);

	if (!f->found.no_constants)
		return;
	for (f->in.force_constants = true;; f->in.force_constants = false) {
		emit_begin(&o->emit, &o->w->env, number, o->w->options->no_cfi);
		flow_run(f, &o->w->env, number, o->in, in, f->in.start);
		emit_rows(&o->emit, f, s);
		if (!rows_same(s, &plain) || found_sum(f) != was) {
			fprintf(stderr, "etch: internal error: code range %#llx differs when constants are tracked\n",
			        (unsigned long long)f->in.range->start);
			abort();
		}
		range_rows_free(s);
		if (f->found.no_constants)
			break; /* the second run is without constants again, and restores the results */
	}
	*s = plain;
#else
	(void)o, (void)number, (void)in;
#endif
}

/* Analyses a code range whose results do not settle as if no path led into it, and adds the finding ETCH-S003. */
static void range_abandon(struct worker *o, uint32_t number)
{
	struct work *w = o->w;
	const struct code_range *p = &w->ranges.list[number];
	struct range_state *s = &w->state[number];
	struct flow *f = &o->flow;

	range_rows_free(&s->rows);
	f->in.pushed = f->in.overdrawn = 0;
	f->in.unproven = 0;
	f->in.framed = f->in.handler = f->in.relaxed = f->in.force_constants = f->in.lift_unproven = false;
	f->in.cfi_count = 0;
	emit_begin(&o->emit, &w->env, number, w->options->no_cfi);
	flow_run(f, &w->env, number, NULL, 0, START_NOWHERE);
	emit_rows(&o->emit, f, &s->rows);
	finding_add(
		&s->rows.findings, "ETCH-S003", 0, p->start,
		"the frame is not known here: these %llu bytes of code and others lead to each other in states that do not "
		"settle",
		(unsigned long long)(p->end - p->start));
	s->settling = ABANDONED;
	if (w->options->detail)
		detail_take(w->options->detail, &range_rare_make(s)->detail, f);
}

/* Analyses a code range under the present assumptions: first its paths, then its rows. */
static void range_run(struct worker *o, uint32_t number, size_t in)
{
	struct work *w = o->w;
	struct range_state *s = &w->state[number];
	struct flow *f = &o->flow;

	range_rows_free(&s->rows);
	o->emit.saves_of = w->options->saves;
	emit_begin(&o->emit, &w->env, number, w->options->no_cfi);
	f->in.cfi = o->emit.cfi;
	f->in.cfi_count = o->emit.cfi_count;
	flow_run(f, &w->env, number, o->in, in,
	         f->in.overdrawn ? START_PART : range_start(&w->env, &w->ranges.list[number], s, &o->emit));
	emit_rows(&o->emit, f, &s->rows);
}

/* Does a code range that is taken for a function turn out to use a frame that it did not set up? This is only asked
 * where nothing but address references and jumps show that there is code. */
static bool is_framed_after_all(const struct work *w, uint32_t number, struct flow *f)
{
	const struct range_state *s = &w->state[number];

	if (!w->ranges.list[number].inferred || s->frame >= FRAME_HANDLER || s->is_callee ||
	    s->evidence & EVIDENCE_PLACED || range_is_tried(s) || f->in.start == START_PART)
		return false;
	if (range_is_continuation(s) || frames_known(&w->env, s) || has_own_stack(f))
		return false;
	return flow_begins_framed(f) || jumps_to_part(w, f);
}

/* Changes one assumption that the results contradict. Returns false if the results contradict none. */
static bool assumptions_revise(struct worker *o, uint32_t number, bool referred)
{
	struct work *w = o->w;
	struct range_state *s = &w->state[number];
	struct flow *f = &o->flow;

	if (o->emit.found.wants_constants && !f->in.force_constants) {
		f->in.force_constants = true;
		return true;
	}
	if ((!(s->entered & ENTRY_CALLED) && pushed_find(f, &o->emit)) || handler_fails(s, f) ||
	    entry_refuted(o, number, referred))
		return true;
	if (is_framed_after_all(w, number, f)) {
		s->kind = RANGE_PART;
		s->relaxed_rules = f->in.relaxed = false;
		s->frame = f->found.broken || (s->evidence & EVIDENCE_WORD) ? FRAME_TABLE : FRAME_OTHER;
		f->in.framed = is_framed(s);
		f->in.pushed = 0;
		return true;
	}
	if (referred && s->kind == RANGE_FUNCTION && !has_own_stack(f) && may_be_data(w, f)) {
		s->kind = f->in.relaxed ? RANGE_DATA : RANGE_FUNCTION;
		s->relaxed_rules = f->in.relaxed = !f->in.relaxed;
		f->in.pushed = 0;
		return true;
	}
	if (trial_advance(&w->ranges.list[number], s, f))
		return true;
	/* This is tried last, because it depends on states that the other assumptions change. */
	if (f->found.left_over && !f->in.unproven) {
		f->in.unproven = f->found.called;
		return true;
	}
	return false;
}

/*
 * Is the target of a call certainly a function, whatever else leads there? It is if it returns, and always to the
 * address on top of the stack at its start, or if it sets up a frame pointer.
 */
static bool is_proved(const struct flow *f)
{
	const struct code_range *p = f->in.range;

	return (f->found.returns_to_caller && !f->found.returns_unbalanced && !f->found.exit_sp_mismatch) ||
	       insn_is_frame_prologue(p->bytes, p->end - p->start);
}

/* Decides whether the doubtful edges (doubts_last()) count after all; if so, sets *in to `all`. Returns true if the
 * code has to be analysed again. */
static bool doubts_take(const struct emit *e, struct range_state *s, const struct flow *f, size_t *in, size_t all)
{
	if (*in == all)
		return false;
	if (e->start != START_PART && s->misfit != START_FITS && f->found.returns_home && !f->in.pushed)
		s->returns_home = true;
	if (s->misfit != START_FITS ? s->returns_home : is_proved(f))
		return false;
	*in = all;
	return true;
}

/* Is there a finding that the code contradicts .eh_frame at an address? */
static bool is_contradicted(const struct findings *l, uint64_t addr)
{
	size_t i;

	for (i = 0; i < l->count; i++)
		if (l->list[i].addr == addr && !strcmp(l->list[i].id, CONTRADICTED))
			return true;
	return false;
}

/* Does the code range jump into the middle of another one, as a cold part does? */
static bool goes_back(const struct flow *f)
{
	size_t i;

	for (i = 0; i < f->found.edge_count; i++) {
		const struct code_range *to = range_at(f->in.env, f->found.edges[i].target);

		if (to && to->start != f->found.edges[i].target && f->found.edges[i].target != f->in.range->end)
			return true;
	}
	return false;
}

/*
 * Adds the finding that the code contradicts .eh_frame at the start of a code range, in cases where no single state
 * shows it: the code is entered in several states, or not in that of an entry (entry_refuted()). There is no such
 * finding if the code may be nothing but a function, such as one that never returns: the jump there may be what a
 * compiler has left at an unreachable place.
 */
static __attribute__((noinline)) void start_judge(struct worker *o, uint32_t number, size_t in)
{
	struct work *w = o->w;
	const struct code_range *p = &w->ranges.list[number];
	struct range_state *s = &w->state[number];
	const struct etch_cfi_row *cfi = o->emit.cfi_count && o->emit.cfi[0].start == p->start ? o->emit.cfi : NULL;
	struct findings *out = &s->rows.findings;
	const struct flow_edge *x;
	struct etch_rule code;
	bool called;

	if (!cfi || is_contradicted(out, p->start))
		return;
	if (o->flow.in.overdrawn && o->emit.start == START_FUNCTION) {
		disagreement_overdrawn(out, p->start, o->flow.in.overdrawn, &cfi->rule);
		return;
	}
	if (!goes_back(&o->flow))
		return;
	for (x = o->in; x < o->in + in; x++) {
		uint64_t jump = w->ranges.list[x->from].start + x->at;

		if (x->target != p->start || x->misfit != MISFIT_JUMP)
			continue;
		called = o->emit.start == START_PART;
		if (called && s->misfit != START_CALLED)
			continue;
		state_rule(called ? &state_at_entry : &x->state, &code);
		disagreement_jump(out, p->start, jump, &code, called, &cfi->rule);
		return;
	}
}

void range_analyze(struct worker *o, uint32_t number)
{
	struct work *w = o->w;
	const struct code_range *p = &w->ranges.list[number];
	struct range_state *s = &w->state[number];
	struct flow *f = &o->flow;
	bool referred;
	size_t in, all;

	s->last_round = w->rounds.number;
	if (s->settling != SETTLING) {
		range_abandon(o, number);
		return;
	}
	edges_in(o, p, &all);
	in = doubts_last(o, p, all);
	referred = is_only_referred(p, s, all);
	if (o->observed.count)
		findings_free(&o->observed);
	f->in.pushed = f->in.overdrawn = 0;
	f->in.unproven = 0;
	f->in.lift_unproven = false;
	f->in.relaxed = s->relaxed_rules;
	s->known_part = is_known_part(o, p, s, all);
	f->in.framed = is_framed(s) && !s->known_part && !(frames_known(&w->env, s) && is_reached(o, p, s, in));
	f->in.handler = f->in.framed && s->frame == FRAME_HANDLER;
	f->in.force_constants = w->options->observe || w->options->detail;
	do
		range_run(o, number, in);
	while (assumptions_revise(o, number, referred) || doubts_take(&o->emit, s, f, &in, all));
	plain_check(o, number, in);
	if (f->in.overdrawn || s->misfit)
		start_judge(o, number, in);
	if (w->options->observe && !referred) {
		if (f->in.overdrawn)
			findings_take(&s->rows.findings, &o->observed);
		else
			range_observe(o, number);
	}
	if (w->options->detail)
		detail_take(w->options->detail, &range_rare_make(s)->detail, f);
}
