/* SPDX-License-Identifier: MIT */
/*
 * One round of the fixpoint: analyses the marked code ranges (range_state.run) by several threads, collects their
 * results, and marks the code ranges of the next round. The first round takes each code range by itself; later ones
 * those with new incoming edges, callers of functions found to be noreturn, etc. The facts and why the fixpoint is
 * reached: settle.c.
 */
#include "analysis/flow/detail.h"
#include "analysis/flow/flow_internal.h"
#include "analysis/lint/observe.h"
#include "analysis/lint/jump_targets.h"
#include "analysis/interproc/work.h"
#include "support/progress.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Code ranges that a thread takes under one lock: large enough to make contention negligible. */
#define CHUNK 64u

/*
 * Code that neither a symbol nor an FDE covers may be a table that decodes as code: its edges into the middle of a
 * function that .eh_frame describes are ignored.
 */
static bool is_hearsay(const struct work *w, const struct code_range *from, uint64_t target)
{
	const struct code_range *to = from->inferred && !w->options->no_cfi ? range_at(&w->env, target) : NULL;

	return to && to->fde >= 0 && to->start != target;
}

/* Entries of the cache of undiscovered targets that a worker has just reported: most targets recur soon. */
#define RECENT 4096u

struct worker {
	struct work *w;
	struct flow flow;
	struct emit emit;
	struct flow_edge *in; /* edges into the current code range */
	size_t in_room;
	uint64_t recent[RECENT]; /* undiscovered targets already reported, by hash */
};

/* Adds an undiscovered target to the chunk, unless the cache shows that it is there. False: out of memory. */
static bool undiscovered_keep(struct worker *o, struct chunk *c, uint64_t target)
{
	uint64_t *seen = &o->recent[(target * 0x9e3779b97f4a7c15u) >> 52];

	if (*seen == target)
		return true;
	if (!room_make(&c->undiscovered, &c->undiscovered_room, c->undiscovered_count, sizeof(*c->undiscovered)))
		return false;
	c->undiscovered[c->undiscovered_count++] = *seen = target;
	return true;
}

/* A code range begins at `target`, and as code of GHC does: its state there does not depend on the edge. */
static bool is_known_start(const struct flow_env *env, uint64_t target)
{
	const struct code_range *to = ghc_begins(env, target) ? range_at(env, target) : NULL;

	return to && to->start == target;
}

/* Keeps the edges out of a code range, their packed states in one allocation (out_new). False: out of memory. */
static bool edges_keep(struct worker *o, struct chunk *c)
{
	const struct flow *f = &o->flow;
	uint8_t *states;
	size_t size = 0, i;

	for (i = 0; i < f->found.edge_count; i++)
		size += state_pack(&f->found.edges[i].state, NULL);
	if (!size)
		return true;
	states = o->w->state[f->in.number].out_new = malloc(size);
	if (!states)
		return false;
	for (i = 0; i < f->found.edge_count; i++) {
		const struct flow_edge *x = &f->found.edges[i];

		if (!range_at(&o->w->env, x->target) && !undiscovered_keep(o, c, x->target))
			return false;
		if (is_hearsay(o->w, f->in.range, x->target) || is_known_start(f->in.env, x->target))
			continue;
		if (!edges_put(&c->edges, x, states))
			return false;
		states += state_pack(&x->state, states);
	}
	return true;
}

/* Keeps the links and edges of the code range just analysed. False: out of memory. */
static bool chunk_keep(struct worker *o, struct chunk *c)
{
	const struct flow *f = &o->flow;
	size_t i;

	for (i = 0; i < f->found.exit_count; i++) {
		const struct flow_exit *x = &f->found.exits[i];

		if (!links_put(link_is_tail(x->kind) ? &c->tails : &c->calls, x, f->in.env->ranges))
			return false;
		if (!(x->target & (FLOW_EXTERN | FLOW_SLOT)) && x->to == NO_RANGE && !undiscovered_keep(o, c, x->target))
			return false;
	}
	c->insns += f->found.insn_count;
	return edges_keep(o, c);
}

/* How a code range is assumed to begin. .eh_frame takes precedence (most parts of functions begin in the entry's state
 * by its rows too, and count as functions); where it says nothing, the evidence decides. */
static enum flow_start range_start(const struct flow_env *env, const struct code_range *p, const struct range_state *s,
                                   const struct emit *e)
{
	enum flow_start start = e->start;

	if (start != START_ASSUMED)
		return start;
	if (s->framed && !s->direct)
		return START_PART;
	if (s->proven || (p->fde < 0 && !p->plt && ghc_begins(env, p->start)))
		return START_FUNCTION;
	if (p->named && !(s->fragment && s->exit_sp_mismatch))
		return START_FUNCTION;
	return s->fragment ? START_PART : s->has_evidence ? START_FUNCTION : START_ASSUMED;
}

/*
 * Code whose exits all have rsp above its value at the start by the same amount was entered with that many bytes pushed
 * below the return address, as ld.so's lazy resolvers are by the PLT. Sets flow.in.pushed; true: analyse it again.
 */
static bool began_pushed(struct flow *flow, const struct emit *e)
{
	if (flow->in.pushed || flow->found.exit_sp_varies || flow->found.exit_sp_delta <= 0 || e->start != START_ASSUMED)
		return false;
	flow->in.pushed = flow->found.exit_sp_delta;
	return true;
}

/*
 * A code range taken for a part of a function (it starts with the frame of the edges into it) that returns with part of
 * that frame left is no such part: the edge came from behind a noreturn call that was believed to return. It is a
 * function, if it ends as one. True: analyse it again.
 */
static bool is_misled(const struct code_range *p, struct range_state *s, const struct flow *f)
{
	if (p->fde >= 0 || p->named || s->classified)
		return false;
	if (s->proven) {
		s->classified = true;
		s->proven = f->found.exits_balanced && !f->found.returns_unbalanced && !f->found.exit_sp_mismatch;
		return !s->proven;
	}
	s->proven = f->in.start == START_PART && f->found.exit_sp_mismatch;
	return s->proven;
}

/* The only evidence for code here is that its address is taken; a table among the code has that too. */
static bool is_referred(const struct code_range *p, const struct range_state *s, size_t edges)
{
	return p->inferred && !s->called && !edges;
}

/*
 * False: code of which only the address is taken (is_referred()) is a function. It has to end as one on all paths, and
 * its edges may lead only to other inferred code or to starts of functions. Otherwise it may be data: it gets no rows
 * and its results are ignored. Where the address is a mere word of data, it may be the label of a jump table, whose
 * code can look like a function in the entry state; an edge in that state has to lead to a start.
 */
static bool is_maybe_data(const struct work *w, struct flow *f)
{
	const struct range_state *s = &w->state[f->in.number];
	bool ends = f->found.exits_balanced, word = s->word;
	size_t i;

	if (f->found.broken || f->found.exit_sp_unknown || f->found.returns_unbalanced || f->found.exit_sp_mismatch)
		return true;
	if (s->emptied && f->in.range->end - f->in.range->start == 1 && f->found.edge_count)
		return true; /* it was judged so before, and has been cut to one byte since */
	for (i = 0; i < f->found.edge_count; i++) {
		const struct code_range *to = range_at(f->in.env, f->found.edges[i].target);
		bool entry = state_is_entry(&f->found.edges[i].state);

		if (to && (!to->inferred || (word && entry && to->start != f->found.edges[i].target)))
			return true;
		if (!to && word && entry && f->found.edges[i].target % FUNCTION_ALIGN)
			return true;
		ends |= entry && (!word || (to && w->state[to - f->in.env->ranges].called));
	}
	/* It ends in noreturn calls or loops for ever; or it is the restorer that a signal handler returns to. */
	ends |= !word && !f->found.may_return && !f->found.edge_count &&
	        (flow_begins(f) || code_is_sigreturn(f->in.range->bytes, f->in.range->end - f->in.range->start));
	return !ends;
}

/* It leaves or begins as code of GHC does, which excludes data, however its address was found. */
static bool is_ghc(const struct flow *f)
{
	return f->in.own_stack && (f->found.non_c_frame || ghc_begins(f->in.env, f->in.range->start));
}

/* End of the code that flow reaches in a code range, with the padding behind it; start + 1 where there is no flow. */
static uint64_t reached_end(struct flow *f)
{
	const struct code_range *p = f->in.range;
	uint64_t end = p->start + (f->found.extent ? f->found.extent : 1);
	struct step s;

	while (end < p->end && step_decode(NULL, p->bytes + (end - p->start), p->end - end, end, &s) && s.padding)
		end += s.len;
	return end < p->end ? end : p->end;
}

/* Unpacks the edges into a code range to o->in; joined with earlier ones where s->joined. False: out of memory. */
static bool edges_in(struct worker *o, const struct code_range *p, size_t *count)
{
	struct range_state *s = &o->w->state[p - o->w->ranges.list];
	const struct edges *l = &o->w->edges;
	size_t from = edges_from(l, p->start), i;

	for (i = from; i < l->count && l->list[i].target < p->end; i++) {
		if (!room_make(&o->in, &o->in_room, i - from, sizeof(*o->in)))
			return false;
		o->in[i - from].target = l->list[i].target;
		o->in[i - from].from = l->list[i].from;
		state_unpack(l->list[i].state, &o->in[i - from].state);
	}
	*count = i - from;
	return !s->joined || edges_join(p, s, &o->in, &o->in_room, count);
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

/* A checksum of the results of the analysis of a code range. */
static uint64_t found(const struct flow *f)
{
	uint64_t flags = f->found.exit_sp_varies | f->found.replaces_sp << 1 | f->found.exits_balanced << 2 |
	                 f->found.returns_unbalanced << 3 | f->found.exit_sp_mismatch << 4 | f->found.exit_sp_unknown << 5 |
	                 f->found.non_c_frame << 6 | f->found.return_certain << 7 | f->found.may_return << 8 |
	                 f->found.broken << 9 | f->found.returns_to_caller << 10;

	return ((((flags * 31 + f->found.exit_count) * 31 + f->found.edge_count) * 31 + f->found.extent) * 31 +
	        (uint32_t)f->found.exit_sp_delta);
}
#endif

/*
 * With ETCH_CHECK_STEPS (make asan): checks the assumption that tracking of constants changes neither rows nor results
 * where the analysis has skipped it (flow.found.no_constants). False: out of memory.
 */
static bool plain_check(struct worker *o, uint32_t number, size_t in)
{
#ifdef ETCH_CHECK_STEPS
	struct range_rows *s = &o->w->state[number].rows, plain = *s;
	struct flow *f = &o->flow;
	uint64_t was = found(f);
	bool ok = true;

	if (!f->found.no_constants)
		return true;
	for (f->in.force_constants = true; ok; f->in.force_constants = false) {
		ok = emit_begin(&o->emit, &o->w->env, number, o->w->options->no_cfi) &&
		     flow_run(f, &o->w->env, number, o->in, in, f->in.start) && emit_rows(&o->emit, f, s);
		if (ok && (!rows_same(s, &plain) || found(f) != was)) {
			fprintf(stderr, "rounds: a code range at %#llx is another with constants\n",
			        (unsigned long long)f->in.range->start);
			abort();
		}
		range_rows_free(s);
		if (f->found.no_constants)
			break; /* the second run without constants: as before */
	}
	*s = plain;
	return ok;
#else
	(void)o, (void)number, (void)in;
	return true;
#endif
}

/*
 * Does the code range jump, in the state of a function's entry, to a part of a function (range_state.part)? Then it was
 * entered with that function's frame too.
 */
static bool jumps_to_part(const struct work *w, const struct flow *f)
{
	size_t i;

	for (i = 0; i < f->found.exit_count; i++)
		if (f->found.exits[i].kind == EXIT_TAIL && f->found.exits[i].to != NO_RANGE &&
		    w->state[f->found.exits[i].to].part)
			return true;
	return false;
}

static bool is_framed(const struct range_state *s) { return s->framed && !s->direct && !s->table; }

/* A code range that cannot be settled: analysed as if no path led into it, with finding ETCH-S003. */
static bool range_leave(struct worker *o, uint32_t number)
{
	struct work *w = o->w;
	const struct code_range *p = &w->ranges.list[number];
	struct range_state *s = &w->state[number];
	struct flow *f = &o->flow;

	range_rows_free(&s->rows);
	f->in.pushed = 0;
	f->in.framed = f->in.relaxed = f->in.force_constants = false;
	f->in.cfi_count = 0;
	if (!emit_begin(&o->emit, &w->env, number, w->options->no_cfi) ||
	    !flow_run(f, &w->env, number, NULL, 0, START_NOWHERE) || !emit_rows(&o->emit, f, &s->rows))
		return false;
	if (!finding_add(&s->rows.findings, "ETCH-S003", 0, p->start,
	                 "the frame is not known here: these %llu bytes of code and others lead to each other in states "
	                 "that do not settle",
	                 (unsigned long long)(p->end - p->start)))
		return false;
	s->left = true;
	return !w->options->detail || detail_take(w->options->detail, &s->detail, f);
}

/*
 * Analyses a code range; again as long as the results contradict the assumption that it was analysed with (function or
 * part, bytes pushed before the start, code or data). False: out of memory.
 */
static bool range_look(struct worker *o, uint32_t number)
{
	struct work *w = o->w;
	const struct code_range *p = &w->ranges.list[number];
	struct range_state *s = &w->state[number];
	struct flow *f = &o->flow;
	bool ok = true, again, referred;
	size_t in;

	s->ran = w->round;
	if (s->unsettled)
		return range_leave(o, number);
	if (!edges_in(o, p, &in))
		return false;
	referred = is_referred(p, s, in);
	f->in.pushed = 0;
	f->in.relaxed = s->relaxed;
	f->in.framed = is_framed(s);
	f->in.force_constants = w->options->observe || w->options->detail;
	do {
		range_rows_free(&s->rows);
		ok = emit_begin(&o->emit, &w->env, number, w->options->no_cfi);
		f->in.cfi = o->emit.cfi;
		f->in.cfi_count = o->emit.cfi_count;
		ok = ok && flow_run(f, &w->env, number, o->in, in, range_start(&w->env, p, s, &o->emit)) &&
		     emit_rows(&o->emit, f, &s->rows);
		if (ok && o->emit.wants_constants && !f->in.force_constants) {
			f->in.force_constants = again = true;
			continue;
		}
		again = ok && began_pushed(f, &o->emit);
		if (ok && !again && p->inferred && !s->direct && !s->proven && f->in.start != START_PART && !is_ghc(f) &&
		    (flow_begins_framed(f) || jumps_to_part(w, f))) {
			s->fragment = s->framed = again = true;
			s->maybe_data = s->relaxed = f->in.relaxed = false;
			s->table = f->found.broken || s->word;
			f->in.framed = is_framed(s);
			f->in.pushed = 0;
			continue;
		}
		if (ok && !again && referred && !s->fragment && !is_ghc(f) && is_maybe_data(w, f)) {
			s->fragment = s->maybe_data = f->in.relaxed;
			s->relaxed = f->in.relaxed = !f->in.relaxed;
			f->in.pushed = 0;
			again = true;
		}
		again |= ok && !again && is_misled(p, s, f);
	} while (again);
	ok = ok && plain_check(o, number, in);
	if (ok && w->options->observe && !referred)
		reached_take(&w->out->reached, &w->out->space, f);
	if (ok && w->options->observe && !referred && !f->in.own_stack) { /* a stack that is not C's has no such findings */
		ok = observe_range(f, &s->rows.findings) && (!w->ibt || targets_observe(f, &s->rows.findings));
	}
	return ok && (!w->options->detail || detail_take(w->options->detail, &s->detail, f));
}

/*
 * An open code range (its end is unknown) is analysed up to the next code range, then cut where its flow ended. True:
 * analysing it again after the cut would yield the same results: its last instruction does not fall through, nothing in
 * it refers to bytes behind the cut, and it depends on no fact of another code range that may change.
 */
static bool is_firm(const struct flow *f)
{
	uint64_t size = f->in.range->end - f->in.range->start;
	size_t i;

	if (!f->in.range->open || !f->found.extent || f->found.broken || f->found.edge_count || f->in.fixup_count ||
	    f->in.relaxed)
		return false;
	for (i = 0; i < f->jump_count; i++)
		if (f->jumps[i].table || !state_is_entry(&f->jumps[i].state))
			return false;
	for (i = 0; i < f->step_count; i++) {
		const struct step *in = &f->steps[i];
		uint64_t end = f->step_at[i] + in->len, to = (uint64_t)in->imm - f->in.range->start;

		if ((f->seen[i] & FLOW_WALKED) && end == f->found.extent && in->flow != FLOW_JUMP &&
		    in->flow != FLOW_JUMP_IND && in->flow != FLOW_RETURN && in->flow != FLOW_STOP)
			return false;
		if ((in->flow == FLOW_JUMP || in->flow == FLOW_BRANCH || in->flow == FLOW_CALL) && to >= f->found.extent &&
		    to < size)
			return false;
	}
	return true;
}

/* Being cut where its flow ended is the only news for the code range, and does not change its results. */
static bool is_settled(const struct work *w, uint32_t number)
{
	static const struct emit none;
	const struct code_range *p = &w->ranges.list[number];
	const struct range_state *s = &w->state[number];

	return s->run == RUN_CUT && s->end_confirmed && s->reached == p->end && !w->options->observe &&
	       !w->options->detail && s->began == range_start(&w->env, p, s, &none);
}

/* Drops the rows from `end` on. */
static void rows_cut(struct range_rows *r, uint64_t end)
{
	uint32_t i;

	while (r->count && r->rows[r->count - 1].addr >= end)
		r->count--;
	for (r->undefined = 0, i = 0; i < r->count; i++)
		if (r->rows[i].rule.kind == ETCH_RULE_UNDEF)
			r->undefined += (i + 1 < r->count ? r->rows[i + 1].addr : end) - r->rows[i].addr;
}

static void run_take(struct work *w, const struct etch_rule *run)
{
	pthread_mutex_lock(&w->lock);
	ghc_take(&w->ghc, run);
	pthread_mutex_unlock(&w->lock);
}

/* Stores the results of the code range just analysed in its range_state. */
static void range_note(struct worker *o, uint32_t number)
{
	const struct code_range *p = &o->w->ranges.list[number];
	struct range_state *s = &o->w->state[number];
	struct flow *f = &o->flow;

	if (o->w->round >= WATCHED_FROM)
		s->result_sum = range_sum(f, &s->rows);
	if (p->open && !s->unsettled)
		s->reached = reached_end(f);
	s->empty = p->open && !f->found.extent && !s->unsettled;
	s->to_end = p->start + f->found.extent >= p->end;
	s->returns = f->found.may_return || s->unsettled;
	s->non_c_frame =
		(f->found.non_c_frame || (f->in.own_stack && ghc_begins(f->in.env, p->start))) && p->fde < 0 && !p->plt;
	s->returned = f->found.return_certain;
	if (f->found.runtime_rule.kind != ETCH_RULE_UNDEF)
		run_take(o->w, &f->found.runtime_rule);
	s->switches = f->found.replaces_sp;
	s->end_confirmed = is_firm(f);
	s->began = f->in.start;
	s->one_row = o->emit.cfi_count == 1;
	s->denied = o->emit.denied;
	if (range_start(f->in.env, p, s, &o->emit) != START_PART) {
		s->returns_balanced = f->found.exits_balanced && !f->found.returns_unbalanced && !f->found.exit_sp_mismatch;
		s->exit_sp_mismatch = !f->found.exits_balanced && f->found.exit_sp_mismatch;
	}
}

/* The number of the next chunk; >= chunk_count: none is left, or a worker has failed. */
static size_t chunk_begin(struct work *w)
{
	size_t n;

	pthread_mutex_lock(&w->lock);
	n = w->failed ? w->chunk_count : w->chunk_next++;
	if (w->options->progress)
		progress_note(w->file->path, n * CHUNK < w->list_count ? n * CHUNK : w->list_count, w->list_count, "functions");
	pthread_mutex_unlock(&w->lock);
	return n;
}

static void *worker(void *arg)
{
	struct work *w = arg;
	struct worker *o = calloc(1, sizeof(*o));
	bool ok = o != NULL;
	size_t n, i;

	if (ok) {
		o->w = w;
		memset(o->recent, 0xff, sizeof(o->recent)); /* not an address */
	}
	while (ok && (n = chunk_begin(w)) < w->chunk_count)
		for (i = n * CHUNK; ok && i < w->list_count && i < (n + 1) * CHUNK; i++) {
			ok = range_look(o, w->list[i]) && chunk_keep(o, &w->chunks[n]);
			range_note(o, w->list[i]);
		}
	if (!ok) {
		pthread_mutex_lock(&w->lock);
		w->failed = true;
		pthread_mutex_unlock(&w->lock);
	}
	if (o) {
		flow_free(&o->flow);
		emit_free(&o->emit);
		free(o->in);
	}
	free(o);
	return NULL;
}

static bool undiscovered_take(struct work *w, const struct chunk *c)
{
	size_t i;

	for (i = 0; i < c->undiscovered_count; i++) {
		if (!room_make(&w->undiscovered, &w->undiscovered_room, w->undiscovered_count, sizeof(*w->undiscovered)))
			return false;
		w->undiscovered[w->undiscovered_count++] = c->undiscovered[i];
	}
	w->out->insns += c->insns;
	return true;
}

static void chunks_free(struct work *w)
{
	size_t k;

	for (k = 0; w->chunks && k < w->chunk_count; k++) {
		free(w->chunks[k].edges.list);
		free(w->chunks[k].calls.list);
		free(w->chunks[k].tails.list);
		free(w->chunks[k].undiscovered);
	}
	free(w->chunks);
	w->chunks = NULL;
}

int round_run(struct work *w, struct error *e)
{
	int jobs = w->options->jobs > 1 ? w->options->jobs : 1, started = 0, i;
	pthread_t *threads = calloc((size_t)jobs, sizeof(*threads));
	bool ok;
	size_t k;

	free(w->list);
	w->list = calloc(w->ranges.count + 1, sizeof(*w->list));
	w->list_count = 0;
	for (k = 0; w->list && k < w->ranges.count; k++)
		if (w->state[k].left) {
			w->state[k].run = 0;
		} else if (is_settled(w, (uint32_t)k)) {
			rows_cut(&w->state[k].rows, w->ranges.list[k].end);
			w->state[k].run = 0;
		} else if (w->state[k].run) {
			w->list[w->list_count++] = (uint32_t)k;
		}
	w->chunk_count = (w->list_count + CHUNK - 1) / CHUNK;
	w->chunk_next = 0;
	w->chunks = calloc(w->chunk_count + 1, sizeof(*w->chunks));
	ok = threads && w->list && w->chunks;
	if (ok) {
		for (i = 1; i < jobs && (size_t)i < w->chunk_count; i++)
			if (!pthread_create(&threads[started], NULL, worker, w))
				started++;
		worker(w);
		while (started)
			pthread_join(threads[--started], NULL);
		ok = !w->failed;
		for (k = 0; k < w->chunk_count && ok; k++)
			ok = undiscovered_take(w, &w->chunks[k]);
		ok = ok && links_replace(w);
	}
	chunks_free(w);
	free(threads);
	return ok ? 0 : error_set(e, "out of memory");
}

/* The row that covers an address, or null. */
static const struct row *row_of(const struct range_rows *r, uint64_t addr)
{
	size_t lo = 0, hi = r->count;

	while (lo < hi) {
		size_t mid = lo + (hi - lo) / 2;

		if (r->rows[mid].addr <= addr)
			lo = mid + 1;
		else
			hi = mid;
	}
	return lo ? &r->rows[lo - 1] : NULL;
}

/* Are the states of the edges [x, end) confirmed by the rows of the code range that they lead into? */
static bool edges_known(const struct range_state *s, const struct edge *x, const struct edge *end)
{
	struct state state;

	for (; x < end; x++) {
		const struct row *row = row_of(&s->rows, x->target);

		if (!row || row->source == ETCH_SOURCE_CFI)
			return false;
		state_unpack(x->state, &state);
		if (state_witness(&state, &row->rule) != WITNESS_CONFIRMS)
			return false;
	}
	return true;
}

/* Marks code ranges whose incoming edges have changed, unless their rows confirm the new states. */
static void edges_apply(struct work *w)
{
	const struct edge *list = w->edges.list;
	size_t i, k = 0, n = w->edges.count;
	bool join = false;

	for (i = 0; i < w->ranges.count; i++) {
		const struct code_range *p = &w->ranges.list[i];
		struct range_state *s = &w->state[i];
		uint64_t sum = 0;
		size_t from;

		while (k < n && list[k].target < p->start)
			k++;
		for (from = k; k < n && list[k].target < p->end; k++)
			sum = edges_sum(sum, &list[k]);
		if (sum == s->edges_seen && !s->run)
			continue;
		/* A fragment starts from the states of its edges, of which the rules compared here are only a part. */
		if (sum != s->edges_seen && (s->fragment || s->run || !edges_known(s, list + from, list + k)))
			s->run |= RUN_NEWS;
		else if (s->run && k > from)
			s->run |= RUN_EDGES;
		if (s->run && (k > from || sum != s->edges_seen)) {
			s->edges_seen = sum;
			s->edge_runs += s->edge_runs < JOINED_FROM;
			join |= s->edge_runs == JOINED_FROM && !s->joined;
		}
	}
	if (join)
		edges_restart(w);
}

/* Code ranges taken for data are judged again, now that the words of data have been scanned. */
static void doubts_drop(struct work *w)
{
	size_t i;

	for (i = 0; i < w->ranges.count; i++)
		if (w->state[i].maybe_data) {
			w->state[i].fragment = w->state[i].maybe_data = false;
			w->state[i].run |= RUN_NEWS;
		}
}

/* Is there anything for another round to do? -1: out of memory. */
static int any_run(struct work *w, struct error *e)
{
	size_t i;

	for (i = 0; i < w->ranges.count; i++)
		if (w->state[i].run && !w->state[i].left)
			return open_extend(w, e) ? -1 : 1;
	return 0;
}

int round_prepare(struct work *w, struct error *e)
{
	size_t i;
	int more;

	for (i = 0; i < w->ranges.count; i++)
		w->state[i].run = 0;
	ghc_decide(w);
	if (open_trim(w, e) || ghc_starts(w, e) || undiscovered_add(w, e))
		return -1;
	if (!entry_kinds_find(w))
		return error_set(e, "out of memory");
	called_find(w);
	entry_tail_find(w);
	fragments_find(w);
	if (wide_called(w, e))
		return -1;
	if (noreturn_find(w, e))
		return -1;
	edges_apply(w);
	more = any_run(w, e);
	if (!more && !w->words_scanned) {
		w->words_scanned = true;
		if (undiscovered_in_words(w, e))
			return -1;
		doubts_drop(w);
		more = any_run(w, e);
	}
	if (!more && !w->wide_swept) {
		w->wide_swept = true;
		if (wide_sweep(w, e))
			return -1;
		more = any_run(w, e);
	}
	if (!more && !w->gaps_swept) {
		w->gaps_swept = true;
		if (gaps_sweep(w, e))
			return -1;
		more = any_run(w, e);
	}
	if (!more && w->options->no_cfi && !w->classified) { /* no more evidence will come: judge the rest */
		w->classified = true;
		if (!entry_kinds_find(w))
			return error_set(e, "out of memory");
		starts_classify(w);
		more = any_run(w, e);
	}
	return more;
}
