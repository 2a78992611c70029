/* SPDX-License-Identifier: MIT */
/* Reads recordings while they grow (heap_time.h). */
#include "heap/heap_time.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "support/memory.h"
#include "support/sort.h"
#include "support/clock.h"

#define SIZE_EVERY   10000000u /* ns at first; doubled whenever there are more than SIZES_MOST sizes */
#define SIZES_MOST   1000u
#define VIEW_EVERY   20000000u
#define VIEWS_MOST   80u
#define VIEW_SHARE   50u /* reading what is live takes at most 1/50 of etch's time */
#define LEAVES_BLOCK 1024u
#define VIEWS_KEPT   ((size_t)1 << 20) /* 16 MB */

uint64_t heap_time_now(const struct heap_time *t) { return clock_ns(CLOCK_MONOTONIC) - t->begun; }

bool heap_time_begin(struct heap_time *t)
{
	*t = (struct heap_time){
		.begun = clock_ns(CLOCK_MONOTONIC), .size_every = SIZE_EVERY, .view_every = VIEW_EVERY, .every = 1};
	t->out = calloc(1, sizeof(*t->out));
	return t->out;
}

static int recording_open(int directory, const char *name)
{
	int fd = openat(directory, name, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
	struct stat st;

	if (fd >= 0 && (fstat(fd, &st) || !S_ISREG(st.st_mode))) {
		close(fd);
		fd = -1;
	}
	return fd;
}

static bool head_read(int fd, struct heap_head *h)
{
	return pread(fd, h, sizeof(*h), 0) == sizeof(*h) && h->magic == HEAP_MAGIC && h->version == HEAP_VERSION;
}

void heap_track_read(struct heap_track *k, int directory, const char *name, uint64_t now)
{
	int fd = recording_open(directory, name);
	struct heap_head h;

	if (fd < 0)
		return;
	if (head_read(fd, &h)) {
		k->live = h.live.bytes;
		if (h.peak.bytes > k->peak) {
			k->peak = h.peak.bytes;
			k->peak_time = now;
		}
	}
	close(fd);
}

uint32_t heap_time_moment(struct heap_time *t, uint64_t now)
{
	struct profile_heap *h = t->out;

	if (now < t->view_at)
		return UINT32_MAX;
	mem_reserve(&h->moments, &h->moment_capacity, h->moment_count, sizeof(*h->moments));
	t->view_begun = clock_ns(CLOCK_THREAD_CPUTIME_ID);
	h->moments[h->moment_count] = (struct heap_moment){.time = now};
	return (uint32_t)h->moment_count++;
}

static void view_add(struct heap_track *k, uint32_t moment, uint64_t leaf, uint64_t bytes)
{
	mem_reserve(&k->views, &k->capacity, k->count, sizeof(*k->views));
	k->views[k->count++] = (struct heap_view){moment, (uint32_t)leaf, bytes};
}

void heap_track_view(struct heap_time *t, struct heap_track *k, int directory, const char *name, uint32_t moment)
{
	struct heap_leaf *block = malloc(LEAVES_BLOCK * sizeof(*block));
	int fd = recording_open(directory, name);
	size_t before = k->count;
	bool good = block && fd >= 0;
	struct heap_head h;

	good = good && head_read(fd, &h) && h.leaf_count <= UINT32_MAX;
	for (uint64_t i = 0; good && i < h.leaf_count; i += LEAVES_BLOCK) {
		size_t n = h.leaf_count - i < LEAVES_BLOCK ? (size_t)(h.leaf_count - i) : LEAVES_BLOCK;

		good = pread(fd, block, n * sizeof(*block), (off_t)(h.leaf_at + i * sizeof(*block))) ==
		       (ssize_t)(n * sizeof(*block));
		for (size_t j = 0; good && j < n; j++)
			if (block[j].live.bytes)
				view_add(k, moment, i + j, block[j].live.bytes);
	}
	if (fd >= 0)
		close(fd);
	free(block);
	t->views += k->count - before;
}

bool heap_time_thin(struct heap_time *t)
{
	struct profile_heap *h = t->out;
	size_t kept = 0;

	if (t->views <= VIEWS_KEPT)
		return false;
	t->every *= 2;
	t->view_every *= 2;
	for (size_t i = 0; i < h->live_count; i++)
		if (h->live[i].moment % t->every == 0)
			h->live[kept++] = h->live[i];
	h->live_count = t->views = kept;
	return true;
}

void heap_track_thin(struct heap_time *t, struct heap_track *k)
{
	size_t kept = 0;

	for (size_t i = 0; i < k->count; i++)
		if (k->views[i].moment % t->every == 0)
			k->views[kept++] = k->views[i];
	k->count = kept;
	t->views += kept;
}

void heap_time_add(struct heap_time *t, uint64_t now, uint64_t bytes)
{
	struct profile_heap *h = t->out;
	size_t k = 0;

	if (now < t->size_at)
		return;
	mem_reserve(&h->sizes, &h->size_capacity, h->size_count, sizeof(*h->sizes));
	h->sizes[h->size_count++] = (struct heap_size){now, bytes};
	if (h->size_count > SIZES_MOST) {
		/* The larger one of two neighbours stays, so that no peak is lost. */
		for (size_t i = 0; i + 1 < h->size_count; i += 2)
			h->sizes[k++] = h->sizes[i + (h->sizes[i + 1].bytes > h->sizes[i].bytes)];
		h->size_count = k;
		t->size_every *= 2;
	}
	t->size_at = now + t->size_every;
}

void heap_moment_end(struct heap_time *t, uint32_t moment, uint64_t now, uint64_t bytes)
{
	uint64_t took = clock_ns(CLOCK_THREAD_CPUTIME_ID) - t->view_begun;

	t->out->moments[moment].bytes = bytes;
	if (moment % (VIEWS_MOST / 2) == VIEWS_MOST / 2 - 1)
		t->view_every *= 2; /* later moments are rarer, and those in excess are dropped at the end */
	t->view_at = now + (took * VIEW_SHARE > t->view_every ? took * VIEW_SHARE : t->view_every);
}

void heap_track_take(struct heap_time *t, struct heap_track *k, const uint32_t *node, size_t leaves)
{
	struct profile_heap *h = t->out;

	for (size_t i = 0; i < k->count; i++) {
		const struct heap_view *v = &k->views[i];

		if (v->leaf >= leaves)
			continue;
		mem_reserve(&h->live, &h->live_capacity, h->live_count, sizeof(*h->live));
		h->live[h->live_count++] = (struct heap_live){v->moment, node[v->leaf], v->bytes};
	}
	heap_track_free(k);
}

/* Adds what was live at the peak of the single process, which its recording has exactly. */
static void peak_add(struct heap_time *t, const struct heap_profile *h, const struct heap_track *only)
{
	struct profile_heap *out = t->out;
	const struct profile *p = h->profile;
	struct heap_size at = {only->peak_time, h->sum[MEASURE_PEAK].bytes};
	size_t i;

	mem_reserve(&out->sizes, &out->size_capacity, out->size_count, sizeof(*out->sizes));
	mem_reserve(&out->moments, &out->moment_capacity, out->moment_count, sizeof(*out->moments));
	for (i = out->size_count++; i && out->sizes[i - 1].time >= at.time; i--)
		out->sizes[i] = out->sizes[i - 1];
	out->sizes[i] = at;
	for (i = 0; i < p->sample_count; i++) {
		uint64_t bytes = heap_values(h, i)[MEASURE_PEAK].bytes;

		if (!bytes)
			continue;
		mem_reserve(&out->live, &out->live_capacity, out->live_count, sizeof(*out->live));
		out->live[out->live_count++] = (struct heap_live){(uint32_t)out->moment_count, p->samples[i].node, bytes};
	}
	out->moments[out->moment_count++] = (struct heap_moment){.time = at.time, .bytes = at.bytes};
	out->peak_time = at.time;
	out->peak_bytes = at.bytes;
}

struct numbered_moment {
	struct heap_moment moment;
	uint32_t number;
};

static int moment_order(const void *a, const void *b)
{
	const struct numbered_moment *x = a, *y = b;

	if (x->moment.time != y->moment.time)
		return x->moment.time < y->moment.time ? -1 : 1;
	return x->number < y->number ? -1 : 1;
}

/* Renumbers the moments of the elements of `live`, and sorts the elements by the new numbers. Elements whose moment has
 * the new number UINT32_MAX are dropped. */
static bool live_sort(struct profile_heap *h, const uint32_t *renumbered)
{
	size_t *next = calloc(h->moment_count + 2, sizeof(*next)), kept = 0;
	struct heap_live *sorted = malloc((h->live_count + 1) * sizeof(*sorted));
	bool good = next && sorted;

	for (size_t i = 0; good && i < h->live_count; i++)
		if (renumbered[h->live[i].moment] != UINT32_MAX) {
			next[renumbered[h->live[i].moment] + 1]++;
			kept++;
		}
	for (size_t m = 0; good && m < h->moment_count; m++) {
		next[m + 1] += next[m];
		h->moments[m].first = next[m];
	}
	for (size_t i = 0; good && i < h->live_count; i++) {
		uint32_t moment = renumbered[h->live[i].moment];

		if (moment != UINT32_MAX)
			sorted[next[moment]++] = (struct heap_live){moment, h->live[i].node, h->live[i].bytes};
	}
	free(next);
	if (!good) {
		free(sorted);
		return false;
	}
	free(h->live);
	h->live = sorted;
	h->live_count = h->live_capacity = kept;
	return true;
}

/* Sorts the moments, and keeps every n-th one and, with has_peak, the one that was added last, which is the peak. */
static bool moments_thin(struct profile_heap *h, uint32_t multiple, bool has_peak)
{
	struct numbered_moment *list = malloc((h->moment_count + 1) * sizeof(*list));
	uint32_t *renumbered = malloc((h->moment_count + 1) * sizeof(*renumbered));
	size_t every = h->moment_count / multiple / VIEWS_MOST + 1, count = 0, seen = 0;
	bool good = list && renumbered;

	for (size_t i = 0; good && i < h->moment_count; i++)
		list[i] = (struct numbered_moment){h->moments[i], (uint32_t)i};
	if (good && h->moment_count)
		qsort(list, h->moment_count, sizeof(*list), moment_order);
	for (size_t i = 0; good && i < h->moment_count; i++) {
		bool peak = has_peak && list[i].number == h->moment_count - 1;
		bool whole = list[i].number % multiple == 0;
		bool kept = peak || (whole && seen++ % every == 0);

		renumbered[list[i].number] = kept ? (uint32_t)count : UINT32_MAX;
		if (kept)
			h->moments[count++] = list[i].moment;
	}
	if (good) {
		h->moment_count = count;
		good = live_sort(h, renumbered);
	}
	free(list);
	free(renumbered);
	return good;
}

bool heap_time_end(struct heap_time *t, const struct heap_profile *h, const struct heap_track *only)
{
	struct profile_heap *out = t->out;
	uint64_t now = heap_time_now(t);

	t->size_at = 0;
	heap_time_add(t, now, h->sum[MEASURE_LEAKED].bytes);
	if (only)
		peak_add(t, h, only);
	for (size_t i = 0; !only && i < out->size_count; i++)
		if (out->sizes[i].bytes > out->peak_bytes) {
			out->peak_bytes = out->sizes[i].bytes;
			out->peak_time = out->sizes[i].time;
		}
	return moments_thin(out, t->every, only);
}

void heap_track_free(struct heap_track *k)
{
	free(k->views);
	k->views = NULL;
	k->count = k->capacity = 0;
}
