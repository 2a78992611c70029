/* SPDX-License-Identifier: MIT */
/* Prints the data that the script of the flame graph reads: weights of frames, and the time line (svg_flame.h,
 * flame.js). */
#include "profile/svg_flame.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "support/memory.h"
#include "support/sort.h"

#define SPANS_MOST 240
#define PARTS_MOST 200000u
#define ROWS_SHOWN 7

/* Prints a JSON string inside XML text. */
static void string_put(const char *text, FILE *out)
{
	putc('"', out);
	for (; *text; text++) {
		if ((unsigned char)*text < ' ' || strchr("\"\\<>&", *text))
			fprintf(out, "\\u%04x", (unsigned)*text);
		else
			putc(*text, out);
	}
	putc('"', out);
}

static void list_put(const uint64_t *list, size_t count, FILE *out)
{
	for (size_t i = 0; i < count; i++)
		fprintf(out, i ? ",%" PRIu64 : "%" PRIu64, list[i]);
}

/* Adds the own weight of each call to the frame in which it is drawn. */
static void frames_sum(const struct flame *f, const uint64_t *by_call, uint64_t *by_frame)
{
	memset(by_frame, 0, f->frames * sizeof(*by_frame));
	for (size_t i = 1; i < f->p->calls.count; i++)
		by_frame[f->frame_of[i]] += by_call[i];
}

/* ---- weights by frame and place in time --------------------------------------------------------- */

struct parts {
	struct key_set keys; /* a: span or moment, b: frame */
	uint64_t *weight;    /* one for each key, by its number */
	size_t capacity;
};

static bool part_add(struct parts *p, uint64_t place, uint32_t frame, uint64_t weight)
{
	size_t before = p->keys.count;
	uint32_t k;

	mem_reserve(&p->weight, &p->capacity, before + 1, sizeof(*p->weight));
	k = key_set_add(&p->keys, place, frame);
	if (k == KEY_NONE)
		return false;
	p->weight[k] = (k == before ? 0 : p->weight[k]) + weight;
	return true;
}

static void parts_free(struct parts *p)
{
	key_set_free(&p->keys);
	free(p->weight);
}

struct placed {
	uint64_t place;
	uint32_t key;
};

static int placed_order(const void *a, const void *b)
{
	const struct placed *x = a, *y = b;

	if (x->place != y->place)
		return x->place < y->place ? -1 : 1;
	return x->key < y->key ? -1 : x->key > y->key;
}

/* Calls `fn` for each place in order, and prints the place's frames and weights after that: "1,20,4,3". Returns false
 * if out of memory. */
static bool parts_put(const struct parts *p, size_t places, void (*fn)(void *, size_t), void *ctx, FILE *out)
{
	struct placed *list = malloc((p->keys.count + 1) * sizeof(*list));
	size_t at = 0;

	if (!list)
		return false;
	for (size_t i = 0; i < p->keys.count; i++)
		list[i] = (struct placed){p->keys.list[i].a, (uint32_t)i};
	if (p->keys.count)
		qsort(list, p->keys.count, sizeof(*list), placed_order);
	for (size_t place = 0; place < places; place++) {
		const char *sep = "";

		fn(ctx, place);
		for (; at < p->keys.count && list[at].place == place; at++, sep = ",")
			fprintf(out, "%s%" PRIu64 ",%" PRIu64, sep, p->keys.list[list[at].key].b, p->weight[list[at].key]);
		fputs("]", out);
	}
	free(list);
	return true;
}

static void part_begin(void *out, size_t place) { fputs(place ? ",[" : "[", out); }

/* ---- processor time ------------------------------------------------------------------------------- */

struct spans {
	uint64_t begin, length; /* ns */
	size_t count;
	struct parts parts;
	struct key_set threads; /* a: pid << 32 | tid */
	uint64_t *use;          /* indexed by thread and span */
	size_t capacity;
};

/* Is this the sample that stands for time in the kernel that was not sampled? */
static bool is_spread(const struct profile *p, const struct profile_sample *s)
{
	return p->kernel_seen && key_kind(&p->stacks.list[s->node]) == BINARY_KERNEL && !p->stacks.list[s->node].b;
}

/* Adds the part [from, from + length) of a thread's time. The whole part has the weight `weight`. */
static bool span_add(struct spans *s, uint64_t from, uint64_t length, uint64_t weight, uint32_t thread, uint32_t frame,
                     bool used)
{
	uint64_t to = from + length, end = s->begin + s->length * s->count;

	if (from < s->begin)
		from = s->begin;
	else if (from >= end)
		from = end - 1;
	if (to <= from)
		to = from + 1;
	else if (to > end)
		to = end;
	length = to - from;
	while (from < to) {
		size_t place = (size_t)((from - s->begin) / s->length);
		uint64_t next = s->begin + (place + 1) * s->length, part = (next < to ? next : to) - from;
		uint64_t part_weight = (uint64_t)((double)weight * (double)part / (double)length);

		if (!part_add(&s->parts, place, frame, part_weight))
			return false;
		if (used)
			s->use[thread * s->count + place] += part_weight;
		from = next;
	}
	return true;
}

static bool sample_place(struct spans *s, const struct flame *f, const struct profile_sample *sample)
{
	const struct profile *p = f->p;
	uint32_t frame = f->frame_of[p->call_of[sample->node]], thread;
	bool lasts = p->unit == UNIT_WAIT && sample->weight != p->period, waits;
	size_t known = s->threads.count;

	thread = key_set_add(&s->threads, (uint64_t)(uint32_t)sample->pid << 32 | (uint32_t)sample->tid, 0);
	if (thread == KEY_NONE)
		return false;
	for (size_t i = 0; i < s->count; i++)
		mem_reserve(&s->use, &s->capacity, thread * s->count + i, sizeof(*s->use));
	if (thread == known)
		memset(&s->use[thread * s->count], 0, s->count * sizeof(*s->use));
	waits = p->wall && key_kind(&p->stacks.list[sample->node]) == STACK_WAIT;
	if (is_spread(p, sample))
		return span_add(s, s->begin, s->length * s->count, sample->weight, thread, frame, true);
	return span_add(s, sample->time, lasts ? sample->weight : 1, sample->weight, thread, frame, !waits);
}

static const char *thread_name(const struct profile *p, uint64_t key, char *out, size_t size)
{
	const char *name = "[unnamed]";

	for (size_t i = 0; i < p->processes.thread_count; i++)
		if (p->processes.threads[i].tid == (pid_t)(uint32_t)key && p->processes.threads[i].name[0])
			name = p->processes.threads[i].name;
	snprintf(out, size, "%.16s (%u)", name, (unsigned)(uint32_t)key);
	name_clean(out);
	return out;
}

struct thread_row {
	uint64_t weight;
	uint32_t thread;
};

static int row_order(const void *a, const void *b)
{
	const struct thread_row *x = a, *y = b;

	if (x->weight != y->weight)
		return x->weight < y->weight ? 1 : -1;
	return x->thread < y->thread ? -1 : x->thread > y->thread;
}

static void row_put(const struct spans *s, const char *name, const uint64_t *use, bool first, FILE *out)
{
	fputs(first ? "{\"name\":" : ",{\"name\":", out);
	string_put(name, out);
	fputs(",\"use\":[", out);
	for (size_t i = 0; i < s->count; i++)
		fprintf(out, i ? ",%.4g" : "%.4g", (double)use[i] / (double)s->length);
	fputs("]}", out);
}

/* Prints a row for each of the threads with the most time, and one row for all other threads together. */
static bool rows_put(const struct spans *s, const struct profile *p, FILE *out)
{
	struct thread_row *rows = calloc(s->threads.count + 1, sizeof(*rows));
	uint64_t *rest = calloc(s->count + 1, sizeof(*rest));
	char name[64];

	for (size_t i = 0; rows && i < s->threads.count; i++) {
		rows[i].thread = (uint32_t)i;
		for (size_t k = 0; k < s->count; k++)
			rows[i].weight += s->use[i * s->count + k];
	}
	if (rows)
		qsort(rows, s->threads.count, sizeof(*rows), row_order);
	for (size_t i = 0; rows && rest && i < s->threads.count; i++) {
		const uint64_t *use = &s->use[rows[i].thread * s->count];

		if (i < ROWS_SHOWN)
			row_put(s, thread_name(p, s->threads.list[rows[i].thread].a, name, sizeof(name)), use, !i, out);
		else
			for (size_t k = 0; k < s->count; k++)
				rest[k] += use[k];
	}
	if (rows && rest && s->threads.count > ROWS_SHOWN) {
		snprintf(name, sizeof(name), "%zu others", s->threads.count - ROWS_SHOWN);
		row_put(s, name, rest, false, out);
	}
	free(rows);
	free(rest);
	return rows && rest;
}

static bool use_put(const struct flame *f)
{
	const struct profile *p = f->p;
	uint64_t duration = p->duration ? p->duration : 1;
	struct spans s = {.begin = p->begun, .count = SPANS_MOST};
	bool good = true;

	if (p->sample_count > PARTS_MOST)
		s.count = SPANS_MOST / 4;
	if (duration / s.count < p->period)
		s.count = duration > p->period ? (size_t)(duration / p->period) : 1;
	s.length = duration / s.count + 1;
	for (size_t i = 0; good && i < p->sample_count; i++)
		good = sample_place(&s, f, &p->samples[i]);
	fprintf(f->out, "{\"what\":\"%s\",\"step\":%.6f,\"count\":%zu,\"rows\":[",
	        p->unit == UNIT_WAIT && !p->wall ? "threads waiting" : "processors", (double)s.length / 1e6, s.count);
	good = good && rows_put(&s, p, f->out);
	fputs("],\"parts\":[", f->out);
	good = good && parts_put(&s.parts, s.count, part_begin, f->out, f->out);
	fputs("]}", f->out);
	parts_free(&s.parts);
	key_set_free(&s.threads);
	free(s.use);
	return good;
}

/* ---- memory ---------------------------------------------------------------------------------------- */

struct moments {
	const struct profile_heap *heap;
	FILE *out;
};

static void moment_begin(void *context, size_t i)
{
	struct moments *m = context;

	fprintf(m->out, "%s{\"at\":%.3f,\"parts\":[", i ? "}," : "", (double)m->heap->moments[i].time / 1e6);
}

static bool size_put(const struct flame *f)
{
	const struct profile *p = f->p;
	const struct profile_heap *h = p->heap;
	struct moments m = {h, f->out};
	struct parts parts = {.weight = NULL};
	bool good = true;

	for (size_t i = 0; good && i < h->live_count; i++)
		good = part_add(&parts, h->live[i].moment, f->frame_of[p->call_of[h->live[i].node]], h->live[i].bytes);
	fputs("{\"at\":[", f->out);
	for (size_t i = 0; i < h->size_count; i++)
		fprintf(f->out, i ? ",%.3f" : "%.3f", (double)h->sizes[i].time / 1e6);
	fputs("],\"size\":[", f->out);
	for (size_t i = 0; i < h->size_count; i++)
		fprintf(f->out, i ? ",%" PRIu64 : "%" PRIu64, h->sizes[i].bytes);
	fprintf(f->out, "],\"peak\":%.3f,\"peakSize\":%" PRIu64 ",\"moments\":[", (double)h->peak_time / 1e6,
	        h->peak_bytes);
	good = good && parts_put(&parts, h->moment_count, moment_begin, &m, f->out);
	fputs(h->moment_count ? "}]}" : "]}", f->out);
	parts_free(&parts);
	return good;
}

/* ---- all of it ----------------------------------------------------------------------------------------- */

bool profile_has_time(const struct profile *p)
{
	return p->unit == UNIT_BYTES ? p->heap && p->heap->size_count > 1
	                             : !p->diff && p->begun && p->sample_count && p->duration;
}

static void parents_put(const struct flame *f)
{
	fputs("0", f->out);
	for (size_t i = 0; i < f->count; i++)
		if (f->boxes[i].number)
			fprintf(f->out, ",%u", f->frame_of[f->boxes[i].caller]);
}

bool svg_data_put(const struct flame *f)
{
	static const char *const units[] = {[UNIT_TIME] = "samples", [UNIT_WAIT] = "ms", [UNIT_BYTES] = "bytes"};
	const struct profile *p = f->p;
	uint64_t *by_frame = malloc((f->frames + 1) * sizeof(*by_frame));
	bool good = by_frame;

	if (!good)
		return false;
	fprintf(f->out, "<script id=\"data\" type=\"application/json\">{\"unit\":\"%s\",\"each\":%" PRIu64 ",\"parent\":[",
	        units[p->unit], weight_unit(p));
	parents_put(f);
	fputs("],\"self\":[", f->out);
	frames_sum(f, f->self, by_frame);
	list_put(by_frame, f->frames, f->out);
	fputs("]", f->out);
	if (p->diff) {
		frames_sum(f, p->diff->old_self, by_frame);
		fputs(",\"was\":[", f->out);
		list_put(by_frame, f->frames, f->out);
		fputs("]", f->out);
	}
	fputs(",\"time\":", f->out);
	if (!f->time)
		fputs("null", f->out);
	else
		good = p->unit == UNIT_BYTES ? size_put(f) : use_put(f);
	fputs("}</script>\n", f->out);
	free(by_frame);
	return good;
}
