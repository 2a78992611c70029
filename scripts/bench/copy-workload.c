/* SPDX-License-Identifier: MIT */
/*
 * A write workload as iozone makes it on a journalling file system, in one process:
 *
 *     copy-workload ROUNDS RECORD KIB COPY...
 *
 * Four threads write a file each, of KIB KiB, in records of RECORD bytes (a multiple of
 * 4,096, or it is rounded up). A record is a buffer of the thread, used again for each.
 * Its copy into the cache of pages (memory of the file, mapped before) is the copy that
 * is measured. Around it is the bookkeeping that took the other places in the profile of
 * 2005: for each page a lookup in a hash of buffers, a spinlock, a journal head taken and
 * put on the running transaction; every 256 pages a commit that walks them all. The
 * bookkeeping's memory (1 MiB) is what the copy drives out of the cache, or does not.
 *
 * A line a run: copy, ns of the whole, ns of processor time in copies (all threads),
 * checksum.
 */
#define _GNU_SOURCE
#include <pthread.h>
#include <stdatomic.h>
#include <string.h>

#include <etch/copy.h>

#include "bench.h"

#define THREADS 4
#define PAGE 4096
#define BUFFERS 4096 /* buffer heads of all threads: 64 bytes each, 256 KiB */
#define COMMIT 256

typedef size_t copy_fn(void *, const void *, size_t);

static void *(*volatile libc_memcpy)(void *, const void *, size_t) = memcpy;
static size_t copy_memcpy(void *dst, const void *src, size_t n)
{
	libc_memcpy(dst, src, n);
	return 0;
}
static size_t copy_auto(void *dst, const void *src, size_t n) { return etch_copy(dst, src, n, ETCH_COPY_AUTO); }

/* For a simulator that knows no non-temporal store: copy.c says what it is. */
static __thread char model_page[PAGE] __attribute__((aligned(PAGE)));
static size_t copy_model(void *dst, const void *src, size_t n)
{
	(void)dst;
	for (size_t i = 0; i < n; i += PAGE)
		libc_memcpy(model_page, (const char *)src + i, PAGE);
	return 0;
}

static const struct {
	const char *name;
	copy_fn *fn;
} copies[] = {{"memcpy", copy_memcpy}, {"auto", copy_auto}, {"nt", etch_copy_nt}, {"from", etch_copy_from},
	      {"model", copy_model}};

/* ---- the journal ------------------------------------------------------------------- */

struct journal_head {
	struct journal_head *next;
	struct buffer *buffer;
	uint64_t transaction, modified;
};

struct buffer {
	struct buffer *next; /* in its bucket */
	uint64_t file, page, state, count;
	struct journal_head *journal;
	uint64_t pad[2];
};

static struct {
	atomic_flag lock;
	uint64_t transaction, commits, sum;
	unsigned waiting, put;
	struct journal_head *running, *idle;
} journal;
static struct buffer *buckets[BUFFERS], *buffers;
static struct journal_head *heads;
static uint64_t *bitmap; /* block map, 512 KiB: a few words for each page written */
#define BITMAP (((size_t)512 << 10) / 8)

static unsigned bucket(uint64_t file, uint64_t page)
{
	return (unsigned)((page * THREADS + file) * 0x9e3779b97f4a7c15u >> 52);
}

static void lock(void)
{
	while (atomic_flag_test_and_set_explicit(&journal.lock, memory_order_acquire))
		sched_yield();
}
static void unlock(void) { atomic_flag_clear_explicit(&journal.lock, memory_order_release); }

__attribute__((noinline)) static struct buffer *find_buffer(uint64_t file, uint64_t page)
{
	struct buffer *b;

	for (b = buckets[bucket(file, page)]; b; b = b->next)
		if (b->file == file && b->page == page)
			return b;
	abort();
}

__attribute__((noinline)) static void journal_commit(void)
{
	while (journal.running) {
		struct journal_head *h = journal.running;

		journal.running = h->next;
		h->buffer->journal = NULL;
		h->buffer->state &= ~1ull;
		journal.sum += h->modified * (h->buffer->page + 1);
		h->next = journal.idle;
		journal.idle = h;
	}
	journal.waiting = 0;
	journal.transaction++;
	journal.commits++;
}

__attribute__((noinline)) static void journal_add(struct buffer *b)
{
	struct journal_head *h;

	lock();
	h = b->journal;
	if (!h) {
		h = journal.idle;
		journal.idle = h->next;
		h->buffer = b;
		h->modified = 0;
		h->transaction = journal.transaction;
		h->next = journal.running;
		journal.running = h;
		b->journal = h;
		journal.waiting++;
	}
	h->modified++;
	b->state |= 1;
	b->count++;
	if (journal.waiting == COMMIT)
		journal_commit();
	unlock();
}

/* Where the page goes on the disk: a walk over the block map. */
__attribute__((noinline)) static uint64_t allocate(uint64_t file, uint64_t page)
{
	uint64_t at = (page * THREADS + file) * 0x9e3779b97f4a7c15u, sum = 0;

	for (int i = 0; i < 16; i++) {
		at = at * 6364136223846793005u + 1442695040888963407u;
		sum += __atomic_fetch_add(&bitmap[(at >> 33) % BITMAP], 1, __ATOMIC_RELAXED) & 0;
	}
	return sum;
}

/* ---- the writers ---------------------------------------------------------------------- */

static copy_fn *current;
static size_t record, file_size;
static pthread_barrier_t start, stop;
static struct writer {
	pthread_t thread;
	unsigned id;
	char *file, *from;
	int64_t in_copy;  /* ns of the thread's own time ... */
	size_t timed;     /* ... in copies of so many bytes */
} writers[THREADS];

/* Processor time of this thread: there are more threads than processors. It takes a
 * system call, so of small records only each 16th is timed. */
#define SPARSE (64 << 10)
#define EACH 16

static int64_t clock_cost;

static int64_t cpu_time(void)
{
	struct timespec t;

	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
	return t.tv_sec * 1000000000 + t.tv_nsec;
}

static void write_file(struct writer *w)
{
	w->in_copy = 0;
	w->timed = 0;
	for (size_t at = 0; at < file_size; at += record) {
		size_t n = file_size - at < record ? file_size - at : record;
		int timed = record >= SPARSE || at / record % EACH == 0;
		int64_t t = 0;

		/* What the program does to its record before it writes it. */
		memcpy(w->from, &at, sizeof(at));
		for (size_t p = at; p < at + n; p += PAGE) {
			struct buffer *b = find_buffer(w->id, p / PAGE % (BUFFERS / THREADS));

			allocate(w->id, p / PAGE);
			journal_add(b);
		}
		if (timed)
			t = cpu_time();
		if (current(w->file + at, w->from, n))
			abort();
		if (timed) {
			w->in_copy += cpu_time() - t - clock_cost;
			w->timed += n;
		}
	}
}

static int ended;

static void *writer(void *arg)
{
	struct writer *w = arg;

	for (;;) {
		pthread_barrier_wait(&start);
		if (ended)
			return NULL;
		write_file(w);
		pthread_barrier_wait(&stop);
	}
}

static uint64_t checksum(void)
{
	uint64_t sum = journal.sum;

	for (unsigned i = 0; i < THREADS; i++)
		for (size_t k = 0; k < file_size; k += 264)
			sum = (sum ^ *(uint64_t *)(writers[i].file + k)) * 1099511628211u;
	return sum;
}

int main(int argc, char **argv)
{
	unsigned rounds = argc > 4 ? (unsigned)atoi(argv[1]) : 0;

	if (!rounds) {
		fprintf(stderr, "copy-workload ROUNDS RECORD KIB COPY...\n");
		return 2;
	}
	record = (strtoull(argv[2], NULL, 0) + PAGE - 1) / PAGE * PAGE;
	file_size = strtoull(argv[3], NULL, 0) << 10;
	buffers = bench_memory(BUFFERS * sizeof(*buffers));
	heads = bench_memory(BUFFERS * sizeof(*heads));
	bitmap = bench_memory(BITMAP * 8);
	for (unsigned i = 0; i < BUFFERS; i++) {
		struct buffer *b = &buffers[i];
		unsigned k;

		b->file = i % THREADS;
		b->page = i / THREADS;
		k = bucket(b->file, b->page);
		b->next = buckets[k];
		buckets[k] = b;
		heads[i].next = journal.idle;
		journal.idle = &heads[i];
	}
	pthread_barrier_init(&start, NULL, THREADS + 1);
	pthread_barrier_init(&stop, NULL, THREADS + 1);
	for (unsigned i = 0; i < THREADS; i++) {
		struct writer *w = &writers[i];

		w->id = i;
		w->file = bench_memory(file_size + PAGE);
		w->from = bench_memory(record);
		memset(w->from, 'a' + (int)i, record);
		pthread_create(&w->thread, NULL, writer, w);
	}
	clock_cost = INT64_MAX;
	for (int i = 0; i < 1000; i++) {
		int64_t t = cpu_time();

		t = cpu_time() - t;
		clock_cost = t < clock_cost ? t : clock_cost;
	}
	printf("# clock_cost\t%lld\n", (long long)clock_cost);
	for (unsigned r = 0; r < rounds; r++)
		for (int c = 0; c < argc - 4; c++) {
			/* Every second round backwards: none always follows the same. */
			int turn = (c + (int)r) % (argc - 4);
			const char *name = argv[r & 1 ? argc - 1 - turn : 4 + turn];
			double t, copy = 0;
			size_t k = 0;

			while (k < sizeof(copies) / sizeof(copies[0]) && strcmp(copies[k].name, name))
				k++;
			if (k == sizeof(copies) / sizeof(copies[0]))
				abort();
			current = copies[k].fn;
			lock();
			journal_commit(); /* each run begins with an empty transaction */
			journal.sum = 0;
			unlock();
			t = bench_seconds();
			pthread_barrier_wait(&start);
			pthread_barrier_wait(&stop);
			t = bench_seconds() - t;
			lock();
			journal_commit();
			unlock();
			for (unsigned i = 0; i < THREADS; i++)
				copy += (double)writers[i].in_copy / (double)writers[i].timed * (double)file_size;
			printf("%s\t%.0f\t%.0f\t%016llx\n", name, t * 1e9, copy,
			       (unsigned long long)(k == 4 ? 0 : checksum()));
			if (k != 4)
				for (unsigned i = 0; i < THREADS; i++)
					memset(writers[i].file, 0, file_size);
		}
	ended = 1;
	pthread_barrier_wait(&start);
	for (unsigned i = 0; i < THREADS; i++)
		pthread_join(writers[i].thread, NULL);
	return 0;
}
