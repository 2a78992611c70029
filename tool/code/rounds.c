/* SPDX-License-Identifier: MIT */
/*
 * Rounds over the pieces of a file: each by itself first; then again those that
 * others jump into with something new, and those that call what has turned out not
 * to return.
 */
#include "code/detail.h"
#include "code/flow_parts.h"
#include "code/observe.h"
#include "code/targets.h"
#include "code/work.h"
#include "report/progress.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Pieces a thread takes at a time: enough to be worth a lock. */
#define CHUNK 64u

/*
 * What nothing covers may be a table that looks like code: it has no say about the middle of
 * a function that .eh_frame describes.
 */
static bool is_hearsay(const struct work *w, const struct piece *from, uint64_t target)
{
	const struct piece *to = from->stray && !w->options->no_cfi ? piece_at(&w->env, target) : NULL;

	return to && to->fde >= 0 && to->start != target;
}

/* What a worker has come by lately: most targets come again soon. */
#define RECENT 4096u

struct worker {
	struct work *w;
	struct flow flow;
	struct emit emit;
	struct flow_edge *in;      /* into the piece at hand */
	size_t in_room;
	uint64_t recent[RECENT];   /* strays */
};

static bool stray_keep(struct worker *o, struct chunk *c, uint64_t target)
{
	uint64_t *seen = &o->recent[(target * 0x9e3779b97f4a7c15u) >> 52];

	if (*seen == target)
		return true;
	if (!room_make(&c->strays, &c->stray_room, c->stray_count, sizeof(*c->strays)))
		return false;
	c->strays[c->stray_count++] = *seen = target;
	return true;
}

/* It begins as code of GHC does, whoever leads there. */
static bool is_known_start(const struct flow_env *env, uint64_t target)
{
	const struct piece *to = haskell_begins(env, target) ? piece_at(env, target) : NULL;

	return to && to->start == target;
}

/* The edges out of a piece, their states in one block. */
static bool edges_keep(struct worker *o, struct chunk *c)
{
	const struct flow *f = &o->flow;
	uint8_t *states;
	size_t size = 0, i;

	for (i = 0; i < f->edge_count; i++)
		size += state_pack(&f->edges[i].state, NULL);
	if (!size)
		return true;
	states = o->w->state[f->number].says = malloc(size);
	if (!states)
		return false;
	for (i = 0; i < f->edge_count; i++) {
		const struct flow_edge *x = &f->edges[i];

		if (!piece_at(&o->w->env, x->target) && !stray_keep(o, c, x->target))
			return false;
		if (is_hearsay(o->w, f->piece, x->target) || is_known_start(f->env, x->target))
			continue;
		if (!edges_put(&c->edges, x, states))
			return false;
		states += state_pack(&x->state, states);
	}
	return true;
}

static bool chunk_keep(struct worker *o, struct chunk *c)
{
	const struct flow *f = &o->flow;
	size_t i;

	for (i = 0; i < f->exit_count; i++) {
		const struct flow_exit *x = &f->exits[i];

		if (!links_put(link_is_tail(x->kind) ? &c->tails : &c->calls, x, f->env->pieces))
			return false;
		if (!(x->target & (FLOW_EXTERN | FLOW_SLOT)) && x->to == NO_PIECE && !stray_keep(o, c, x->target))
			return false;
	}
	c->insns += f->fresh;
	return edges_keep(o, c);
}

/* How a piece begins. What .eh_frame says counts most; but most parts of
 * functions begin in the entry's state by its rows too. */
static enum flow_start piece_start(const struct flow_env *env, const struct piece *p, const struct piece_state *s,
                                   const struct emit *e)
{
	enum flow_start start = e->start;

	if (start != START_ASSUMED)
		return start;
	if (s->proven || (p->fde < 0 && !p->plt && haskell_begins(env, p->start)))
		return START_FUNCTION;
	if (p->named && !(s->fragment && s->refuted))
		return START_FUNCTION;
	return s->fragment ? START_PART : s->evident ? START_FUNCTION : START_ASSUMED;
}

/*
 * Code that leaves with rsp above what it was at the start, always by as much, was jumped to
 * with that much pushed on top of the return address, as ld.so's lazy resolvers are
 * by the PLT. To be looked at once more, with this.
 */
static bool began_pushed(struct flow *flow, const struct emit *e)
{
	if (flow->pushed || flow->lowered || flow->lifted <= 0 || e->start != START_ASSUMED)
		return false;
	flow->pushed = flow->lifted;
	return true;
}

/*
 * What begins with the frame of those that jump there, and returns with some of it left, is none of
 * theirs: a call before it that does not come back seemed to. It is a function, if it ends as one.
 * Returns whether it is to be looked at once more.
 */
static bool is_misled(const struct piece *p, struct piece_state *s, const struct flow *f)
{
	if (p->fde >= 0 || p->named || s->judged)
		return false;
	if (s->proven) {
		s->judged = true;
		s->proven = f->ends && !f->unbalanced && !f->refuted;
		return !s->proven;
	}
	s->proven = f->start == START_PART && f->refuted;
	return s->proven;
}

/* Only its address is known to be taken, which may be that of a table among the code. */
static bool is_referred(const struct piece *p, const struct piece_state *s, size_t edges)
{
	return p->stray && !s->called && !edges;
}

/*
 * Such code is a function if it ends as one on all paths and leads nowhere but to other
 * code that nothing covers, or to where functions begin. Anything else has no rows, and nothing
 * that it seems to do counts. A label of a jump table, which a word of data may be, is as one in the
 * state of its function's entry.
 */
static bool is_dubious(const struct work *w, struct flow *f)
{
	const struct piece_state *s = &w->state[f->number];
	bool ends = f->ends, word = s->word;
	size_t i;

	if (f->broken || f->odd || f->unbalanced || f->refuted)
		return true;
	if (s->extended + s->held && f->piece->end - f->piece->start == 1 && f->edge_count)
		return true; /* it was so before, and the rest of it is nobody's now */
	for (i = 0; i < f->edge_count; i++) {
		const struct piece *to = piece_at(f->env, f->edges[i].target);
		bool entry = state_is_entry(&f->edges[i].state);

		if (to && (!to->stray || (word && entry && to->start != f->edges[i].target)))
			return true;
		if (!to && word && entry && f->edges[i].target % FUNCTION_ALIGN)
			return true;
		ends |= entry && (!word || (to && w->state[to - f->env->pieces].called));
	}
	/* In calls that do not come back, or it goes round; or it is what a signal's handler returns to. */
	ends |= !word && !f->returns && !f->edge_count &&
	        (flow_begins(f) || code_is_sigreturn(f->piece->bytes, f->piece->end - f->piece->start));
	return !ends;
}

/* It leaves, or begins, as GHC's code does: no table among the code does so, whoever has taken its address. */
static bool is_haskell(const struct flow *f)
{
	return f->haskell && (f->foreign || haskell_begins(f->env, f->piece->start));
}

/* Where the flow of a piece ends, and the padding behind it; its first byte where it has none. */
static uint64_t reached_end(struct flow *f)
{
	const struct piece *p = f->piece;
	uint64_t end = p->start + (f->hull ? f->hull : 1);
	struct step s;

	while (end < p->end && step_decode(NULL, p->bytes + (end - p->start), p->end - end, end, &s) && s.padding)
		end += s.len;
	return end < p->end ? end : p->end;
}

/* What is asked to be looked at more closely lies in a few pieces. */
static bool detail_add(struct work *w, struct flow *f)
{
	bool ok;

	pthread_mutex_lock(&w->lock);
	ok = detail_take(w->options->detail, f);
	pthread_mutex_unlock(&w->lock);
	return ok;
}

/* Edges into a piece. False: out of memory. */
static bool edges_in(struct worker *o, const struct piece *p, size_t *count)
{
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
	return true;
}

#ifdef ETCH_CHECK_STEPS
static bool rows_same(const struct piece_rows *a, const struct piece_rows *b)
{
	uint32_t i;

	for (i = 0; i < a->count && i < b->count; i++)
		if (a->rows[i].addr != b->rows[i].addr || a->rows[i].source != b->rows[i].source ||
		    memcmp(&a->rows[i].rule, &b->rows[i].rule, sizeof(a->rows[i].rule)))
			return false;
	return a->count == b->count && a->findings.count == b->findings.count;
}

/* What a piece has been found to be, as one number. */
static uint64_t found(const struct flow *f)
{
	uint64_t flags = f->lowered | f->switches << 1 | f->ends << 2 | f->unbalanced << 3 | f->refuted << 4 | f->odd << 5 |
	                 f->foreign << 6 | f->returned << 7 | f->returns << 8 | f->broken << 9;

	return ((((flags * 31 + f->exit_count) * 31 + f->edge_count) * 31 + f->hull) * 31 + (uint32_t)f->lifted);
}
#endif

/* For builds that check what others take for granted (make asan): with numbers a piece is as it is without. */
static bool plain_check(struct worker *o, uint32_t number, size_t in)
{
#ifdef ETCH_CHECK_STEPS
	struct piece_rows *s = &o->w->state[number].rows, plain = *s;
	struct flow *f = &o->flow;
	uint64_t was = found(f);
	bool ok = true;

	if (!f->plain)
		return true;
	for (f->numbered = true; ok; f->numbered = false) {
		ok = emit_begin(&o->emit, &o->w->env, number, o->w->options->no_cfi) &&
		     flow_run(f, &o->w->env, number, o->in, in, f->start) && emit_rows(&o->emit, f, s);
		if (ok && (!rows_same(s, &plain) || found(f) != was)) {
			fprintf(stderr, "rounds: a piece at %#llx is another with numbers\n", (unsigned long long)f->piece->start);
			abort();
		}
		piece_rows_free(s);
		if (f->plain)
			break; /* it is as it was */
	}
	*s = plain;
	return ok;
#else
	(void)o, (void)number, (void)in;
	return true;
#endif
}

/* Looks at a piece, as often as what is seen says that it was taken for something else. */
static bool piece_look(struct worker *o, uint32_t number)
{
	struct work *w = o->w;
	const struct piece *p = &w->pieces.list[number];
	struct piece_state *s = &w->state[number];
	struct flow *f = &o->flow;
	bool ok = true, again, referred;
	size_t in;

	if (!edges_in(o, p, &in))
		return false;
	referred = is_referred(p, s, in);
	f->pushed = 0;
	f->lenient = s->lenient;
	f->numbered = w->options->observe || w->options->detail;
	do {
		piece_rows_free(&s->rows);
		ok = emit_begin(&o->emit, &w->env, number, w->options->no_cfi);
		f->cfi = o->emit.cfi;
		f->cfi_count = o->emit.cfi_count;
		ok = ok && flow_run(f, &w->env, number, o->in, in, piece_start(&w->env, p, s, &o->emit)) &&
		     emit_rows(&o->emit, f, &s->rows);
		if (ok && o->emit.asks && !f->numbered) {
			f->numbered = again = true;
			continue;
		}
		again = ok && began_pushed(f, &o->emit);
		if (ok && !again && referred && !s->fragment && !is_haskell(f) && is_dubious(w, f)) {
			s->fragment = s->dubious = f->lenient;
			s->lenient = f->lenient = !f->lenient;
			f->pushed = 0;
			again = true;
		}
		again |= ok && !again && is_misled(p, s, f);
	} while (again);
	ok = ok && plain_check(o, number, in);
	if (ok && w->options->observe && !referred)
		reached_take(&w->out->reached, &w->out->space, f);
	if (ok && w->options->observe && !referred && !f->haskell) { /* whose stack is not C's */
		ok = observe_piece(f, &s->rows.findings) && (!w->ibt || targets_observe(f, &s->rows.findings));
	}
	return ok && (!w->options->detail || detail_add(w, f));
}

/*
 * A piece of which nothing says where it ends is run as far as it may reach, and ends where its flow did from
 * then on. Would it be another piece, had it ended there from the start? Not if its last instruction ends it,
 * nothing in it has asked what lies behind, and nothing that it has asked of other pieces may change.
 */
static bool is_firm(const struct flow *f)
{
	uint64_t size = f->piece->end - f->piece->start;
	size_t i;

	if (!f->piece->open || !f->hull || f->broken || f->edge_count || f->fixup_count || f->lenient)
		return false;
	for (i = 0; i < f->jump_count; i++)
		if (f->jumps[i].table || !state_is_entry(&f->jumps[i].state))
			return false;
	for (i = 0; i < f->step_count; i++) {
		const struct step *in = &f->steps[i];
		uint64_t end = f->step_at[i] + in->len, to = (uint64_t)in->imm - f->piece->start;

		if ((f->seen[i] & FLOW_WALKED) && end == f->hull && in->flow != FLOW_JUMP && in->flow != FLOW_JUMP_IND &&
		    in->flow != FLOW_RETURN && in->flow != FLOW_STOP)
			return false;
		if ((in->flow == FLOW_JUMP || in->flow == FLOW_BRANCH || in->flow == FLOW_CALL) && to >= f->hull && to < size)
			return false;
	}
	return true;
}

/* Nothing is new for a piece but that it ends where its flow did. */
static bool is_settled(const struct work *w, uint32_t number)
{
	static const struct emit none;
	const struct piece *p = &w->pieces.list[number];
	const struct piece_state *s = &w->state[number];

	return s->run == RUN_CUT && s->firm && s->reached == p->end && !w->options->observe && !w->options->detail &&
	       s->began == piece_start(&w->env, p, s, &none);
}

/* Its rows, up to there. */
static void rows_cut(struct piece_rows *r, uint64_t end)
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
	haskell_take(&w->haskell, run);
	pthread_mutex_unlock(&w->lock);
}

/* What has been seen of a piece. */
static void piece_note(struct worker *o, uint32_t number)
{
	const struct piece *p = &o->w->pieces.list[number];
	struct piece_state *s = &o->w->state[number];
	struct flow *f = &o->flow;

	if (p->open)
		s->reached = reached_end(f);
	s->empty = p->open && !f->hull;
	s->to_end = p->start + f->hull >= p->end;
	s->returns = f->returns;
	s->foreign = (f->foreign || (f->haskell && haskell_begins(f->env, p->start))) && p->fde < 0 && !p->plt;
	s->returned = f->returned;
	if (f->run.kind != ETCH_RULE_UNDEF)
		run_take(o->w, &f->run);
	s->switches = f->switches;
	s->firm = is_firm(f);
	s->began = f->start;
	if (piece_start(f->env, p, s, &o->emit) != START_PART) {
		s->sound = f->ends && !f->unbalanced && !f->refuted;
		s->refuted = !f->ends && f->refuted;
	}
}

/* The next chunk, or one that is not there. */
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
		memset(o->recent, 0xff, sizeof(o->recent)); /* no address */
	}
	while (ok && (n = chunk_begin(w)) < w->chunk_count)
		for (i = n * CHUNK; ok && i < w->list_count && i < (n + 1) * CHUNK; i++) {
			ok = piece_look(o, w->list[i]) && chunk_keep(o, &w->chunks[n]);
			piece_note(o, w->list[i]);
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

static bool strays_take(struct work *w, const struct chunk *c)
{
	size_t i;

	for (i = 0; i < c->stray_count; i++) {
		if (!room_make(&w->strays, &w->stray_room, w->stray_count, sizeof(*w->strays)))
			return false;
		w->strays[w->stray_count++] = c->strays[i];
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
		free(w->chunks[k].strays);
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
	w->list = calloc(w->pieces.count + 1, sizeof(*w->list));
	w->list_count = 0;
	for (k = 0; w->list && k < w->pieces.count; k++)
		if (is_settled(w, (uint32_t)k)) {
			rows_cut(&w->state[k].rows, w->pieces.list[k].end);
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
			ok = strays_take(w, &w->chunks[k]);
		ok = ok && links_renew(w);
	}
	chunks_free(w);
	free(threads);
	return ok ? 0 : error_set(e, "out of memory");
}

/* The row that a piece has for an address. */
static const struct row *row_of(const struct piece_rows *r, uint64_t addr)
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

/* Do the rows of a piece know what the edges into it bring? */
static bool edges_known(const struct piece_state *s, const struct edge *x, const struct edge *end)
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

/* Pieces that are jumped into with something that their rows do not know. */
static void edges_apply(struct work *w)
{
	const struct edge *list = w->edges.list;
	size_t i, k = 0, n = w->edges.count;

	for (i = 0; i < w->pieces.count; i++) {
		const struct piece *p = &w->pieces.list[i];
		struct piece_state *s = &w->state[i];
		uint64_t sum = 0;
		size_t from;

		while (k < n && list[k].target < p->start)
			k++;
		for (from = k; k < n && list[k].target < p->end; k++)
			sum = (sum ^ list[k].sum) * 0x100000001b3u;
		if (sum == s->edges_seen && !s->run)
			continue;
		/* What it is run with is a state, of which the rule is a part only. */
		if ((s->run && k > from) || (sum != s->edges_seen && (s->fragment || s->run || !edges_known(s, list + from, list + k))))
			s->run |= RUN_NEWS;
		if (s->run)
			s->edges_seen = sum;
	}
}

/* What was judged too early is judged again. */
static void doubts_drop(struct work *w)
{
	size_t i;

	for (i = 0; i < w->pieces.count; i++)
		if (w->state[i].dubious) {
			w->state[i].fragment = w->state[i].dubious = false;
			w->state[i].run |= RUN_NEWS;
		}
}

/* Is there anything for another round to do? -1: out of memory. */
static int any_run(struct work *w, struct error *e)
{
	size_t i;

	for (i = 0; i < w->pieces.count; i++)
		if (w->state[i].run)
			return open_extend(w, e) ? -1 : 1;
	return 0;
}

int round_prepare(struct work *w, struct error *e)
{
	size_t i;
	int more;

	for (i = 0; i < w->pieces.count; i++)
		w->state[i].run = 0;
	haskell_decide(w);
	if (open_trim(w, e) || haskell_starts(w, e) || strays_add(w, e))
		return -1;
	if (!ways_find(w))
		return error_set(e, "out of memory");
	called_find(w);
	handed_find(w);
	fragments_find(w);
	if (noreturn_find(w, e))
		return -1;
	edges_apply(w);
	more = any_run(w, e);
	if (!more && !w->worded) {
		w->worded = true;
		if (strays_words(w, e))
			return -1;
		doubts_drop(w);
		more = any_run(w, e);
	}
	if (!more && w->options->no_cfi && !w->judged) { /* all is known that can be: what is still without a sign */
		w->judged = true;
		if (!ways_find(w))
			return error_set(e, "out of memory");
		evidence_judge(w);
		more = any_run(w, e);
	}
	return more;
}
