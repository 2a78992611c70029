/* SPDX-License-Identifier: MIT */
/*
 * Chooses a dictionary of runs by a greedy search. Rows of few bytes form sequences, and a gram is a subsequence of
 * one. The gram that saves most bytes becomes a run, all sequences are cut where it occurs, and the search is repeated.
 * Equal sequences are stored once with their number of occurrences, since only few of them are different.
 */
#include "table/unwind_encoder.h"
#include "support/hash_index.h"
#include "support/memory.h"

#include <stdlib.h>
#include <string.h>

#define MAX_ROW  15u /* most bytes of a row in a run */
#define MAX_RUNS 200u
#define COST     ((uint32_t)sizeof(struct etch_run))

/* A row in a sequence. */
struct token {
	uint32_t rule;
	/* 0: in no run; INSIDE: in a run, but not first; otherwise 1 + index of the run that begins here. */
	uint16_t owner;
	uint8_t gap; /* number of bytes since the previous token of its sequence */
};

#define INSIDE 0xffffu

/* Consecutive rows of few bytes in one block. */
struct sequence {
	uint32_t at, n, weight; /* index of the first token; number of tokens; number of occurrences */
	uint64_t rules;         /* set of its rules modulo 64, as bits, by which most grams are rejected early */
};

/* An occurrence of a sequence, given by its first row. */
struct instance {
	uint32_t row, sequence;
};

/* A gram: a subsequence of 2 to ETCH_RUN_ROWS tokens. */
struct gram {
	uint32_t at, n;
	uint32_t count; /* number of occurrences in tokens that are in no run, including overlapping ones */
};

/* The state of the search. */
struct finder {
	struct token *tokens;
	size_t token_count;
	struct sequence *sequences;
	size_t sequence_count;
	struct instance *instances;
	size_t instance_count;
	struct gram *grams;
	size_t gram_count, gram_capacity;
	struct hash_index gram_index;
	/* Max-heap of (bytes saved << 32 | ~index), so that of equal savings the lower index comes first. */
	uint64_t *heap;
	size_t heap_count;
};

/* ---- sequences ------------------------------------------------------------------- */

static uint32_t mix(uint32_t h, uint32_t v)
{
	uint64_t x = (h ^ v) * 0x9e3779b97f4a7c15ull;

	return (uint32_t)(x >> 32) ^ (uint32_t)x;
}

static bool tokens_equal(const struct finder *f, uint32_t a, uint32_t b, uint32_t n)
{
	uint32_t i;

	for (i = 0; i < n; i++)
		if (f->tokens[a + i].rule != f->tokens[b + i].rule || (i && f->tokens[a + i].gap != f->tokens[b + i].gap))
			return false;
	return true;
}

static uint64_t rules_in(const struct finder *f, uint32_t at, uint32_t n)
{
	uint64_t rules = 0;

	while (n--)
		rules |= 1ull << (f->tokens[at++].rule & 63);
	return rules;
}

static uint32_t sequence_hash(const struct finder *f, uint32_t at, uint32_t n)
{
	uint32_t h = 0, i;

	for (i = 0; i < n; i++)
		h = mix(h, f->tokens[at + i].rule << 8 ^ f->tokens[at + i].gap);
	return h;
}

/* Returns the index of the sequence that the last n tokens form. If the same sequence exists already, removes the
 * tokens and counts an occurrence. */
static uint32_t sequence_add(struct finder *f, struct hash_index *x, uint32_t n)
{
	uint32_t at = (uint32_t)f->token_count - n, hash = sequence_hash(f, at, n), i;
	size_t s;

	for (s = hash; (i = hash_index_next(x, hash, &s)) != HASH_INDEX_NONE;) {
		struct sequence *q = &f->sequences[i];

		if (q->n == n && tokens_equal(f, q->at, at, n)) {
			f->token_count -= n;
			q->weight++;
			return i;
		}
	}
	hash_index_add(x, hash, (uint32_t)f->sequence_count);
	f->sequences[f->sequence_count] = (struct sequence){at, n, 1, rules_in(f, at, n)};
	return (uint32_t)f->sequence_count++;
}

/* Collects the sequences of rows with at most MAX_ROW bytes. */
static void sequences_find(struct finder *f, const struct row *rows, size_t count, const uint32_t *rule)
{
	struct hash_index index = {0};
	uint32_t sequence;
	size_t i, end, k;

	f->tokens = mem_alloc(count, sizeof(*f->tokens));
	f->sequences = mem_alloc(count / 2, sizeof(*f->sequences));
	f->instances = mem_alloc(count / 2, sizeof(*f->instances));
	for (i = 0; i<count; i = end> i ? end : i + 1) {
		uint64_t block = rows[i].addr >> ETCH_BLOCK_SHIFT;

		for (end = i; end < count && rows[end + 1].addr - rows[end].addr <= MAX_ROW &&
		              rows[end].addr >> ETCH_BLOCK_SHIFT == block;
		     end++)
			;
		if (end < i + 2)
			continue;
		for (k = i; k < end; k++)
			f->tokens[f->token_count++] =
				(struct token){rule[k], 0, (uint8_t)(k > i ? rows[k].addr - rows[k - 1].addr : 0)};
		sequence = sequence_add(f, &index, (uint32_t)(end - i));
		f->instances[f->instance_count++] = (struct instance){(uint32_t)i, sequence};
	}
	hash_index_free(&index);
}

/* ---- grams -------------------------------------------------------------------------- */

/* Adds `weight` to the count of every gram in the tokens [from, to), which are in no run. */
static void grams_count(struct finder *f, uint32_t from, uint32_t to, uint32_t weight)
{
	uint32_t at, n;

	for (at = from; at < to; at++) {
		uint32_t h = mix(0, f->tokens[at].rule);

		for (n = 2; n <= ETCH_RUN_ROWS && at + n <= to; n++) {
			const struct token *t = &f->tokens[at + n - 1];
			uint32_t i;
			size_t s;

			h = mix(mix(h, t->rule), t->gap);
			for (s = h; (i = hash_index_next(&f->gram_index, h, &s)) != HASH_INDEX_NONE;)
				if (f->grams[i].n == n && tokens_equal(f, f->grams[i].at, at, n))
					break;
			if (i == HASH_INDEX_NONE) {
				i = (uint32_t)f->gram_count;
				hash_index_add(&f->gram_index, h, i);
				mem_reserve(&f->grams, &f->gram_capacity, f->gram_count, sizeof(*f->grams));
				f->grams[f->gram_count++] = (struct gram){at, n, 0};
			}
			f->grams[i].count += weight;
		}
	}
}

/* ---- the gram that saves most bytes ---------------------------------------------------- */

static uint32_t saving(const struct gram *g)
{
	uint64_t bytes = (uint64_t)g->count * 2 * (g->n - 1);

	return bytes > UINT32_MAX ? UINT32_MAX : (uint32_t)bytes;
}

static void heap_sink(struct finder *f, size_t i)
{
	uint64_t v = f->heap[i];
	size_t child;

	for (; (child = 2 * i + 1) < f->heap_count; i = child) {
		if (child + 1 < f->heap_count && f->heap[child] < f->heap[child + 1])
			child++;
		if (v >= f->heap[child])
			break;
		f->heap[i] = f->heap[child];
	}
	f->heap[i] = v;
}

static void heap_make(struct finder *f)
{
	size_t i;

	f->heap = mem_alloc(f->gram_count, sizeof(*f->heap));
	for (i = 0; i < f->gram_count; i++)
		if (saving(&f->grams[i]) > COST)
			f->heap[f->heap_count++] = (uint64_t)saving(&f->grams[i]) << 32 | (uint32_t)~i;
	for (i = f->heap_count / 2; i-- > 0;)
		heap_sink(f, i);
}

/* Removes the gram that saves most bytes from the heap and returns it; null if there is none. Savings only decrease, so
 * an outdated element of the heap is inserted again with its present saving. */
static struct gram *heap_pop(struct finder *f)
{
	while (f->heap_count) {
		struct gram *g = &f->grams[(uint32_t)~f->heap[0]];
		uint32_t now = saving(g);
		bool best = now == f->heap[0] >> 32;

		if (!best && now > COST)
			f->heap[0] = (uint64_t)now << 32 | (uint32_t)f->heap[0];
		else
			f->heap[0] = f->heap[--f->heap_count];
		heap_sink(f, 0);
		if (best)
			return g;
	}
	return NULL;
}

/* Assigns the tokens of every occurrence of *g to run number `run`. */
static void sequences_cut(struct finder *f, const struct gram *g, uint32_t run)
{
	/* Copied, since grams_count() may move *g. */
	const uint32_t first = f->tokens[g->at].rule, n = g->n, pattern = g->at;
	const uint64_t rules = rules_in(f, g->at, g->n);
	size_t i;

	for (i = 0; i < f->sequence_count; i++) {
		const struct sequence *q = &f->sequences[i];
		uint32_t at = q->at, end = q->at + q->n, stop, free_at, k;

		if (rules & ~q->rules)
			continue;
		for (; at < end; at = stop) {
			bool cut = false;

			for (stop = at; stop < end && !f->tokens[stop].owner; stop++)
				;
			for (k = free_at = at; k + n <= stop; k++) {
				if (f->tokens[k].rule != first || !tokens_equal(f, pattern, k, n))
					continue;
				if (!cut)
					grams_count(f, at, stop, 0u - q->weight);
				cut = true;
				grams_count(f, free_at, k, q->weight);
				f->tokens[k].owner = (uint16_t)(run + 1);
				for (uint32_t j = 1; j < n; j++)
					f->tokens[k + j].owner = INSIDE;
				free_at = k + n;
				k = free_at - 1;
			}
			if (cut)
				grams_count(f, free_at, stop, q->weight);
			if (stop == at)
				stop++;
		}
	}
}

static int descending(const void *a, const void *b)
{
	uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;

	return (x < y) - (x > y);
}

/* Chooses runs until no gram saves enough bytes, or the idx bytes are used up. */
static void runs_choose(struct finder *f, const uint32_t *rule, size_t count, uint32_t rules, struct unwind_runs *out)
{
	uint32_t *uses = mem_zero(rules + 256, sizeof(*uses)), different = 0, k, added;
	bool *in_run = mem_zero(rules, sizeof(*in_run));
	struct gram *g;
	size_t i;

	out->list = mem_zero(MAX_RUNS, sizeof(*out->list));
	heap_make(f);
	for (i = 0; i < count; i++)
		uses[rule[i]]++;
	qsort(uses, rules, sizeof(*uses), descending);

	while (out->count < MAX_RUNS && (g = heap_pop(f))) {
		struct unwind_run *r = &out->list[out->count];

		/* A run takes the idx byte of the least used rule that has one. That rule then needs an escape for each use. */
		if (saving(g) <= COST + (uint64_t)uses[ETCH_IDX_ESCAPE - 1 - out->count] * sizeof(struct etch_escape))
			break;
		for (k = added = 0; k < g->n; k++) {
			r->rule[k] = f->tokens[g->at + k].rule;
			r->off[k] = (uint8_t)(k ? r->off[k - 1] + f->tokens[g->at + k].gap : 0);
			/* An upper bound: a rule that occurs twice in the run is counted twice. */
			added += !in_run[r->rule[k]];
		}
		if (different + added + out->count + 1 > ETCH_IDX_ESCAPE)
			continue;
		for (k = 0; k < g->n; k++) {
			different += !in_run[r->rule[k]];
			in_run[r->rule[k]] = true;
		}
		r->n = (uint8_t)g->n;
		sequences_cut(f, g, out->count);
		out->count++;
	}
	free(uses);
	free(in_run);
}

void unwind_runs_free(struct unwind_runs *r)
{
	free(r->list);
	free(r->of_row);
	memset(r, 0, sizeof(*r));
}

void unwind_runs_find(const struct row *rows, size_t count, const uint32_t *rule, uint32_t rules,
                      struct unwind_runs *out)
{
	struct finder f = {0};
	size_t i;

	memset(out, 0, sizeof(*out));
	out->of_row = mem_zero(count, 1);
	sequences_find(&f, rows, count, rule);
	for (i = 0; i < f.sequence_count; i++)
		grams_count(&f, f.sequences[i].at, f.sequences[i].at + f.sequences[i].n, f.sequences[i].weight);
	runs_choose(&f, rule, count, rules, out);
	for (i = 0; i < f.instance_count; i++) {
		const struct sequence *q = &f.sequences[f.instances[i].sequence];

		for (uint32_t k = 0; k < q->n; k++)
			if (f.tokens[q->at + k].owner && f.tokens[q->at + k].owner != INSIDE)
				out->of_row[f.instances[i].row + k] = (uint8_t)f.tokens[q->at + k].owner;
	}
	free(f.tokens);
	free(f.sequences);
	free(f.instances);
	free(f.grams);
	hash_index_free(&f.gram_index);
	free(f.heap);
}
