/* SPDX-License-Identifier: MIT */
/*
 * One round of the fixpoint: the marked code ranges (range_state.run) are divided into chunks, which several threads
 * analyse (range_analysis.c). Their results are joined in the order of the chunks.
 */
#include "analysis/interproc/worker.h"
#include "analysis/interproc/range_starts.h"
#include "analysis/interproc/rounds.h"
#include "support/bounds.h"
#include "support/memory.h"
#include "support/progress.h"

#include <stdlib.h>
#include <string.h>

/* Number of code ranges that a thread takes at a time: enough to make contention for the lock negligible. */
#define CHUNK 64u
/* After a round of at least this many chunks, the memory that it frees (megabytes) is worth returning to the system. */
#define TRIM_CHUNKS 1024u

/* Was a code range marked only because it was cut at the end of its flow, which does not change its results? This is
 * only assumed if a function certainly begins there, since new facts may change any other assumption about its
 * start. */
static bool is_unchanged(const struct work *w, uint32_t number)
{
	const struct code_range *p = &w->ranges.list[number];
	const struct range_state *s = &w->state[number];

	return s->run == RUN_CUT && s->cut_is_neutral && s->reached == p->end && !w->options->observe &&
	       !w->options->detail && s->last_start == START_FUNCTION;
}

/* Drops the rows whose addresses are `end` or higher. */
static void rows_cut(struct range_rows *r, uint64_t end)
{
	while (r->count && r->rows[r->count - 1].addr >= end)
		r->count--;
}

bool worklist_collect(struct work *w)
{
	bool some = false;
	size_t i;

	if (w->rounds.worklist_capacity < w->ranges.count) {
		free(w->rounds.worklist);
		w->rounds.worklist_capacity = w->ranges.count + w->ranges.count / 8;
		w->rounds.worklist = mem_alloc(w->rounds.worklist_capacity, sizeof(*w->rounds.worklist));
	}
	w->rounds.worklist_count = 0;
	for (i = 0; i < w->ranges.count; i++)
		if (w->state[i].run) {
			w->rounds.worklist[w->rounds.worklist_count++] = (uint32_t)i;
			some |= w->state[i].settling != ABANDONED;
		}
	return some;
}

/* Removes the code ranges that need not be analysed from the worklist, and unmarks them. */
static void worklist_sift(struct work *w)
{
	size_t i, n = w->rounds.worklist_count;

	w->rounds.worklist_count = 0;
	for (i = 0; i < n; i++) {
		uint32_t k = w->rounds.worklist[i];

		if (w->state[k].settling == ABANDONED) {
			w->state[k].run = 0;
		} else if (is_unchanged(w, k)) {
			rows_cut(&w->state[k].rows, w->ranges.list[k].end);
			w->state[k].run = 0;
		} else {
			w->rounds.worklist[w->rounds.worklist_count++] = k;
		}
	}
}

/* Takes the next chunk, and returns its number; a number >= chunk_count means that none is left. */
static size_t chunk_begin(struct work *w)
{
	size_t n;

	pthread_mutex_lock(&w->rounds.lock);
	n = w->rounds.chunk_next++;
	if (w->options->progress)
		progress_note(w->file->path, n * CHUNK < w->rounds.worklist_count ? n * CHUNK : w->rounds.worklist_count,
		              w->rounds.worklist_count, "functions");
	pthread_mutex_unlock(&w->rounds.lock);
	return n;
}

/* The main function of a worker thread: analyses chunks until none is left. */
static void *worker(void *arg)
{
	struct work *w = arg;
	struct worker *o = mem_zero(1, sizeof(*o));
	size_t n, i;

	o->w = w;
	memset(o->recent, 0xff, sizeof(o->recent)); /* a value that is no address */
	while ((n = chunk_begin(w)) < w->rounds.chunk_count) {
		for (i = n * CHUNK; i < w->rounds.worklist_count && i < (n + 1) * CHUNK; i++) {
			range_analyze(o, w->rounds.worklist[i]);
			exits_keep(o, &w->rounds.chunks[n]);
			range_keep(o, w->rounds.worklist[i]);
		}
		links_trim(&w->rounds.chunks[n].calls);
		links_trim(&w->rounds.chunks[n].tails);
	}
	flow_free(&o->flow);
	emit_free(&o->emit);
	findings_free(&o->observed);
	free(o->in);
	free(o);
	return NULL;
}

static void undiscovered_take(struct work *w, const struct chunk *c)
{
	size_t i;

	for (i = 0; i < c->undiscovered_count; i++)
		undiscovered_put(w, c->undiscovered[i]);
	w->out->insns += c->insns;
}

static void chunks_free(struct work *w)
{
	size_t k;

	for (k = 0; k < w->rounds.chunk_count; k++) {
		free(w->rounds.chunks[k].edges.list);
		free(w->rounds.chunks[k].calls.list);
		free(w->rounds.chunks[k].tails.list);
		free(w->rounds.chunks[k].undiscovered);
	}
	free(w->rounds.chunks);
	w->rounds.chunks = NULL;
}

void round_run(struct work *w)
{
	int jobs = w->options->jobs > 1 ? w->options->jobs : 1, started = 0, i;
	pthread_t *threads = mem_zero((size_t)jobs, sizeof(*threads));
	size_t k;

	worklist_sift(w);
	w->rounds.chunk_count = (w->rounds.worklist_count + CHUNK - 1) / CHUNK;
	w->rounds.chunk_next = 0;
	w->rounds.chunks = mem_zero(w->rounds.chunk_count, sizeof(*w->rounds.chunks));
	for (i = 1; i < jobs && (size_t)i < w->rounds.chunk_count; i++)
		if (!pthread_create(&threads[started], NULL, worker, w))
			started++;
	worker(w);
	while (started)
		pthread_join(threads[--started], NULL);
	for (k = 0; k < w->rounds.chunk_count; k++)
		undiscovered_take(w, &w->rounds.chunks[k]);
	links_replace(w);
	chunks_free(w);
	/* The lists of the chunks were allocated at the same time as the rows, and lie between them in memory: freeing the
	 * lists leaves many small gaps. */
	if (w->rounds.chunk_count >= TRIM_CHUNKS)
		big_trim(w->file->size);
	free(threads);
}
