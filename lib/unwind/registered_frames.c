/* SPDX-License-Identifier: MIT */
/*
 * registered_frames.c: FDEs that a JIT has registered, in a list that readers search without a lock.
 *
 * An entry is changed under a mutex, between two increments of its sequence number: a reader that sees an odd number,
 * or another one afterwards, skips to the next entry. It then reads the FDE's bytes only if the address lies in the
 * FDE's code; a thread is inside that code, so the code and its .eh_frame stay. Entries are reused and never freed.
 *
 * RULES OF THIS FILE. registered_fde() runs in signal context: no malloc, no lock, no thread-local storage, no libc.
 * Do not introduce any dependency there.
 */
#include <pthread.h>

#include "common/cancel.h"
#include "common/sys.h"
#include "unwind/eh_frame.h"
#include "unwind/registered_frames.h"

/* More than the size of any section: the size is unknown, and only a terminator marks the end. */
#define SECTION_MAX ((uint64_t)1 << 32)

struct entry {
	uint64_t sequence;
	uint64_t start, end; /* end 0: free */
	const uint8_t *section;
	uint64_t offset;
};

#define CHUNK_ENTRIES 1638 /* 64 KiB */
struct chunk {
	struct chunk *next;
	struct entry entry[CHUNK_ENTRIES];
};

static struct chunk *chunks; /* the newest first */
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;

static void section_open(struct etch_cfi *cfi, const uint8_t *section)
{
	etch_cfi_open(cfi, section, SECTION_MAX, (uint64_t)(uintptr_t)section);
	cfi->stop = true;
}

static void entry_set(struct entry *e, uint64_t start, uint64_t end, const uint8_t *section, uint64_t offset)
{
	__atomic_store_n(&e->sequence, e->sequence + 1, __ATOMIC_RELAXED);
	__atomic_thread_fence(__ATOMIC_RELEASE);
	__atomic_store_n(&e->start, start, __ATOMIC_RELAXED);
	__atomic_store_n(&e->end, end, __ATOMIC_RELAXED);
	__atomic_store_n(&e->section, section, __ATOMIC_RELAXED);
	__atomic_store_n(&e->offset, offset, __ATOMIC_RELAXED);
	__atomic_store_n(&e->sequence, e->sequence + 1, __ATOMIC_RELEASE);
}

/* The next free entry from *c, *i on; null without memory. */
static struct entry *entry_free(struct chunk **c, unsigned *i)
{
	struct chunk *new;

	for (; *c; *c = (*c)->next, *i = 0)
		for (; *i < CHUNK_ENTRIES; ++*i)
			if (!(*c)->entry[*i].end)
				return &(*c)->entry[*i];
	new = sys_map(sizeof(*new), 0);
	if (!new)
		return NULL;
	new->next = chunks;
	__atomic_store_n(&chunks, new, __ATOMIC_RELEASE);
	*c = new;
	*i = 0;
	return &new->entry[0];
}

void registered_add(const void *section)
{
	struct cancel was = cancel_off();
	struct chunk *c = NULL;
	struct etch_cfi cfi;
	struct etch_fde fde;
	struct entry *e;
	unsigned i = 0;

	section_open(&cfi, section);
	pthread_mutex_lock(&mutex);
	c = chunks;
	while (etch_cfi_next(&cfi, &fde)) {
		if (fde.start >= fde.end)
			continue;
		e = entry_free(&c, &i);
		if (!e)
			break;
		entry_set(e, fde.start, fde.end, section, fde.at);
	}
	pthread_mutex_unlock(&mutex);
	cancel_restore(was);
}

void registered_remove(const void *section)
{
	struct cancel was = cancel_off();

	pthread_mutex_lock(&mutex);
	for (struct chunk *c = chunks; c; c = c->next)
		for (unsigned i = 0; i < CHUNK_ENTRIES; i++)
			if (c->entry[i].end && c->entry[i].section == section)
				entry_set(&c->entry[i], 0, 0, NULL, 0);
	pthread_mutex_unlock(&mutex);
	cancel_restore(was);
}

/* Copies an entry that covers the address; false if it does not, or is being changed. */
static bool entry_read(const struct entry *e, uint64_t at, struct entry *out)
{
	out->sequence = __atomic_load_n(&e->sequence, __ATOMIC_ACQUIRE);
	out->start = __atomic_load_n(&e->start, __ATOMIC_RELAXED);
	out->end = __atomic_load_n(&e->end, __ATOMIC_RELAXED);
	if (at < out->start || at >= out->end)
		return false;
	out->section = __atomic_load_n(&e->section, __ATOMIC_RELAXED);
	out->offset = __atomic_load_n(&e->offset, __ATOMIC_RELAXED);
	__atomic_thread_fence(__ATOMIC_ACQUIRE);
	return !(out->sequence & 1) && __atomic_load_n(&e->sequence, __ATOMIC_RELAXED) == out->sequence;
}

bool registered_fde(uint64_t at, struct etch_cfi *cfi, struct etch_fde *fde)
{
	struct entry found;

	for (const struct chunk *c = __atomic_load_n(&chunks, __ATOMIC_ACQUIRE); c; c = c->next)
		for (unsigned i = 0; i < CHUNK_ENTRIES; i++)
			if (entry_read(&c->entry[i], at, &found)) {
				section_open(cfi, found.section);
				return etch_cfi_at(cfi, found.offset, fde) && at >= fde->start && at < fde->end;
			}
	return false;
}

/* Runs in the child of a fork(2): another thread of the parent may have held the mutex, with an entry half changed;
 * that entry stays unused. */
static void fork_child(void)
{
	static const pthread_mutex_t fresh = PTHREAD_MUTEX_INITIALIZER;

	memcpy(&mutex, &fresh, sizeof(mutex));
}

__attribute__((constructor(101))) static void registered_start(void) { pthread_atfork(NULL, NULL, fork_child); }
