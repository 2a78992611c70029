/* SPDX-License-Identifier: MIT */
/*
 * Rounds over the pieces of a file: each by itself first; then again those that
 * others jump into with something new, and those that call what has turned out not
 * to return.
 */
#include "code/detail.h"
#include "code/observe.h"
#include "code/targets.h"
#include "code/work.h"
#include "report/progress.h"

#include <string.h>

/* Pieces a thread takes at a time: enough to be worth a lock. */
#define CHUNK 64u

static size_t edges_from(const struct work *w, uint64_t addr)
{
	size_t lo = 0, hi = w->edge_count;

	while (lo < hi) {
		size_t mid = lo + (hi - lo) / 2;

		if (w->edges[mid].target < addr)
			lo = mid + 1;
		else
			hi = mid;
	}
	return lo;
}

/*
 * What nothing covers may be a table that looks like code: it has no say about the middle of
 * a function that .eh_frame describes.
 */
static bool is_hearsay(const struct work *w, const struct piece *from, uint64_t target)
{
	const struct piece *to = from->stray && !w->options->no_cfi ? piece_at(&w->env, target) : NULL;

	return to && to->fde >= 0 && to->start != target;
}

static bool chunk_keep(struct work *w, struct chunk *c, const struct flow *f)
{
	size_t i;

	for (i = 0; i < f->edge_count; i++) {
		if (is_hearsay(w, f->piece, f->edges[i].target))
			continue;
		if (!room_make(&c->edges, &c->edge_room, c->edge_count, sizeof(*c->edges)))
			return false;
		c->edges[c->edge_count++] = f->edges[i];
	}
	for (i = 0; i < f->exit_count; i++) {
		uint64_t target = f->exits[i].target;

		if (!room_make(&c->exits, &c->exit_room, c->exit_count, sizeof(*c->exits)))
			return false;
		c->exits[c->exit_count++] = f->exits[i];
		if (target & (FLOW_EXTERN | FLOW_SLOT) || f->exits[i].to != NO_PIECE)
			continue;
		if (!room_make(&c->strays, &c->stray_room, c->stray_count, sizeof(*c->strays)))
			return false;
		c->strays[c->stray_count++] = target;
	}
	for (i = 0; i < f->edge_count; i++) {
		if (piece_at(&w->env, f->edges[i].target))
			continue;
		if (!room_make(&c->strays, &c->stray_room, c->stray_count, sizeof(*c->strays)))
			return false;
		c->strays[c->stray_count++] = f->edges[i].target;
	}
	c->insns += f->fresh;
	return true;
}

/* How a piece begins. What .eh_frame says counts most; but most parts of
 * functions begin in the entry's state by its rows too. */
static enum flow_start piece_start(const struct piece *p, const struct piece_state *s, const struct emit *e)
{
	enum flow_start start = emit_start(e);

	if (start != START_ASSUMED)
		return start;
	if (s->proven)
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
	if (flow->pushed || flow->lowered || flow->lifted <= 0 || emit_start(e) != START_ASSUMED)
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
static bool is_dubious(const struct work *w, const struct flow *f)
{
	bool ends = f->ends, word = w->state[f->number].word;
	size_t i;

	if (f->broken || f->odd || f->unbalanced || f->refuted)
		return true;
	for (i = 0; i < f->edge_count; i++) {
		const struct piece *to = piece_at(f->env, f->edges[i].target);
		bool entry = state_is_entry(&f->edges[i].state);

		if (to && (!to->stray || (word && entry && to->start != f->edges[i].target)))
			return true;
		if (!to && word && entry && f->edges[i].target % FUNCTION_ALIGN)
			return true;
		ends |= entry && (!word || (to && w->state[to - f->env->pieces].called));
	}
	return !ends;
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

static void *worker(void *arg)
{
	struct work *w = arg;
	struct flow flow = {0};
	struct emit emit = {0};
	bool ok = true;

	while (ok) {
		size_t n, i;

		pthread_mutex_lock(&w->lock);
		n = w->chunk_next++;
		ok = !w->failed;
		if (w->options->progress)
			progress_note(w->file->path, n * CHUNK < w->list_count ? n * CHUNK : w->list_count, w->list_count, "functions");
		pthread_mutex_unlock(&w->lock);
		if (n >= w->chunk_count)
			break;
		for (i = n * CHUNK; ok && i < w->list_count && i < (n + 1) * CHUNK; i++) {
			uint32_t number = w->list[i];
			const struct piece *p = &w->pieces.list[number];
			struct piece_state *s = &w->state[number];
			size_t from = edges_from(w, p->start), to = from;
			bool again, referred;

			while (to < w->edge_count && w->edges[to].target < p->end)
				to++;
			referred = is_referred(p, s, to - from);
			flow.pushed = 0;
			do {
				piece_rows_free(&s->rows);
				ok = emit_begin(&emit, &w->env, number, w->options->no_cfi);
				flow.cfi = emit.cfi;
				flow.cfi_count = emit.cfi_count;
				ok = ok && flow_run(&flow, &w->env, number, w->edges + from, to - from, piece_start(p, s, &emit)) &&
				     emit_rows(&emit, &flow, &s->rows);
				again = ok && began_pushed(&flow, &emit);
				if (ok && !again && referred && !s->fragment && is_dubious(w, &flow)) {
					s->fragment = s->dubious = again = true;
					flow.pushed = 0;
				}
				again |= ok && !again && is_misled(p, s, &flow);
			} while (again);
			if (ok && w->options->observe && !referred) {
				reached_take(&w->out->reached, &w->out->space, &flow);
				ok = observe_piece(&flow, &s->rows.findings) &&
				     (!w->ibt || targets_observe(&flow, &s->rows.findings));
			}
			ok = ok && (!w->options->detail || detail_add(w, &flow));
			ok = ok && chunk_keep(w, &w->chunks[n], &flow);
			if (p->open)
				s->reached = reached_end(&flow);
			s->empty = p->open && !flow.hull;
			s->returns = flow.returns;
			s->foreign = flow.foreign && p->fde < 0 && !p->plt;
			s->switches = flow.switches;
			if (piece_start(p, s, &emit) != START_PART) {
				s->sound = flow.ends && !flow.unbalanced && !flow.refuted;
				s->refuted = !flow.ends && flow.refuted;
			}
		}
	}
	if (!ok) {
		pthread_mutex_lock(&w->lock);
		w->failed = true;
		pthread_mutex_unlock(&w->lock);
	}
	flow_free(&flow);
	emit_free(&emit);
	return NULL;
}

static int edge_order(const void *a, const void *b)
{
	const struct flow_edge *x = a, *y = b;

	if (x->target != y->target)
		return x->target < y->target ? -1 : 1;
	return x->from < y->from ? -1 : x->from > y->from;
}

/* What the pieces of this round said before no longer counts. */
static void results_drop(struct work *w)
{
	size_t i, k;

	for (i = k = 0; i < w->edge_count; i++)
		if (!w->state[w->edges[i].from].run)
			w->edges[k++] = w->edges[i];
	w->edge_count = k;
	for (i = k = 0; i < w->exit_count; i++)
		if (!w->state[w->exits[i].from].run)
			w->exits[k++] = w->exits[i];
	w->exit_count = k;
}

static bool results_take(struct work *w, const struct chunk *c)
{
	size_t i;

	for (i = 0; i < c->edge_count; i++) {
		if (!room_make(&w->edges, &w->edge_room, w->edge_count, sizeof(*w->edges)))
			return false;
		w->edges[w->edge_count++] = c->edges[i];
	}
	for (i = 0; i < c->exit_count; i++) {
		if (!room_make(&w->exits, &w->exit_room, w->exit_count, sizeof(*w->exits)))
			return false;
		w->exits[w->exit_count++] = c->exits[i];
	}
	for (i = 0; i < c->stray_count; i++) {
		if (!room_make(&w->strays, &w->stray_room, w->stray_count, sizeof(*w->strays)))
			return false;
		w->strays[w->stray_count++] = c->strays[i];
	}
	w->out->insns += c->insns;
	return true;
}

int round_run(struct work *w, struct error *e)
{
	int jobs = w->options->jobs > 1 ? w->options->jobs : 1, started = 0, i;
	pthread_t *threads = calloc((size_t)jobs, sizeof(*threads));
	bool ok;
	size_t k;

	w->list = calloc(w->pieces.count + 1, sizeof(*w->list));
	w->list_count = 0;
	for (k = 0; w->list && k < w->pieces.count; k++)
		if (w->state[k].run)
			w->list[w->list_count++] = (uint32_t)k;
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
		results_drop(w);
		for (k = 0; k < w->chunk_count && ok; k++) /* in order: the same for any number of threads */
			ok = results_take(w, &w->chunks[k]);
		if (w->edge_count)
			qsort(w->edges, w->edge_count, sizeof(*w->edges), edge_order);
	}
	for (k = 0; w->chunks && k < w->chunk_count; k++) {
		free(w->chunks[k].edges);
		free(w->chunks[k].exits);
		free(w->chunks[k].strays);
	}
	free(w->chunks);
	free(w->list);
	free(threads);
	w->chunks = NULL;
	w->list = NULL;
	return ok ? 0 : error_set(e, "out of memory");
}

static uint64_t checksum(uint64_t sum, const void *bytes, size_t size)
{
	const uint8_t *p = bytes;

	while (size--)
		sum = (sum ^ *p++) * 0x100000001b3u; /* FNV-1a */
	return sum;
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

/* Pieces that are jumped into with something that their rows do not know. */
static void edges_apply(struct work *w)
{
	size_t i, k = 0;

	for (i = 0; i < w->pieces.count; i++) {
		const struct piece *p = &w->pieces.list[i];
		struct piece_state *s = &w->state[i];
		uint64_t sum = 0;
		bool known = true;

		while (k < w->edge_count && w->edges[k].target < p->start)
			k++;
		for (; k < w->edge_count && w->edges[k].target < p->end; k++) {
			const struct flow_edge *x = &w->edges[k];
			const struct row *row = row_of(&s->rows, x->target);
			struct etch_rule rule;

			state_rule(&x->state, &rule);
			sum = checksum(checksum(sum, &x->target, sizeof(x->target)), &rule, sizeof(rule));
			known &= row && row->source != ETCH_SOURCE_CFI &&
			         state_witness(&x->state, &row->rule) == WITNESS_CONFIRMS;
		}
		if (sum != s->edges_seen && (!known || s->fragment || s->run))
			s->run = true;
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
			w->state[i].run = true;
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
		w->state[i].run = false;
	if (open_trim(w, e) || strays_add(w, e))
		return -1;
	called_find(w);
	if (fragments_find(w, e) || noreturn_find(w, e))
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
		evidence_judge(w);
		more = any_run(w, e);
	}
	return more;
}
