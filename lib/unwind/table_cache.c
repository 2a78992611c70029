/* SPDX-License-Identifier: MIT */
/*
 * table_cache.c: the tables made for modules that have none of their own, from .eh_frame or from sidecar files.
 *
 * RULES OF THIS FILE. cache_find() runs in signal context: no malloc, no lock, no thread-local storage, no libc. Do
 * not introduce any dependency there.
 *
 * Entries are kept forever, found by the module's address, and valid only if the module mapped there now is the one
 * that the table was made for: it has the same ELF header (which includes the file's section header offset) and the
 * same build-id, or without a build-id the same .eh_frame. They are published with release stores and never changed
 * or freed, so readers need no lock. The same file loaded at another address shares the table.
 */
#include <string.h>

#include "unwind/eh_view.h"
#include "unwind/table_cache.h"
#include "common/sys.h"

#define CACHE_BUCKETS 64
static struct cached_table *cache[CACHE_BUCKETS];

static struct cached_table **cache_bucket(uint64_t start) { return &cache[(start >> 12) * 0x9e3779b97f4a7c15u >> 58]; }

/*
 * A checksum of program headers, .eh_frame_hdr and .eh_frame, from which a table is made. It is computed at each
 * lookup, because a file without a build-id may have been replaced by one with the same layout. A module with more
 * than SUM_MAX bytes gets no table, unless it is the program, which is never unloaded.
 */
#define SUM_MAX (1u << 20)

static int image_sum(const struct prepare_image *im, uint64_t *out)
{
	*out = 0;
	for (unsigned i = 0; i < im->phnum; i++)
		*out = eh_sum_add(*out, &im->phdr[i], sizeof(im->phdr[i]));
	return loaded_is_program(im) || eh_view_sum(im, SUM_MAX, *out, out);
}

static int image_is(const struct prepare_image *im, const struct identity *id)
{
	const struct identity *kept = loaded_identity(im);
	uint64_t at, sum;

	/* The memory of a module that may be unloaded during the call is not read: its headers and build-id, which
	 * loaded_identity() has, suffice. */
	if (kept && id->id_size)
		return same_words(kept, id, sizeof(*id) / 8);
	if (kept)
		return !kept->id_size && same_words(&kept->header, &id->header, sizeof(id->header) / 8) &&
		       image_sum(im, &sum) && sum == id->sum;
	if (!same_words((const void *)(uintptr_t)im->start, &id->header, sizeof(id->header) / 8))
		return 0;
	if (!id->id_size)
		return image_sum(im, &sum) && sum == id->sum;
	/* The ELF headers are equal, so the number of program headers is the same. */
	if (!same_words(&im->phdr[id->note_index], &id->note, sizeof(id->note) / 8))
		return 0;
	at = im->bias + id->note.p_vaddr;
	if (!loaded_inside(im, at, id->note.p_memsz))
		return 0;
	for (uint32_t i = 0; i < id->id_size; i++)
		if (((const uint8_t *)(uintptr_t)(at + id->id_offset))[i] != id->id[i])
			return 0;
	return 1;
}

const struct cached_table *cache_find(const struct prepare_image *im)
{
	const struct cached_table *e = __atomic_load_n(cache_bucket(im->start), __ATOMIC_ACQUIRE);

	for (; e; e = e->next)
		if (e->start == im->start && e->end == im->end && image_is(im, &e->identity))
			return e;
	return NULL;
}

/* ---- making ---------------------------------------------------------------------- */

/* Allocates small blocks that are never freed. Not thread-safe. */
static void *permanent_alloc(uint64_t size)
{
	static uint8_t *capacity;
	static uint64_t left;
	void *p;

	size = (size + MODULE_LINE - 1) & ~(uint64_t)(MODULE_LINE - 1);
	if (size > left) {
		left = size < 65536 ? 65536 : size;
		capacity = sys_map(left, 0);
		if (!capacity) {
			left = 0;
			return NULL;
		}
	}
	p = capacity;
	capacity += size;
	left -= size;
	return p;
}

int cache_identity(const struct prepare_image *im, struct identity *id)
{
	if (!loaded_inside(im, im->start, sizeof(id->header)))
		return 0;
	memset(id, 0, sizeof(*id));
	memcpy(&id->header, (const void *)(uintptr_t)im->start, sizeof(id->header));
	/* image_is() relies on equal ELF headers having the same number of program headers. */
	if (im->phnum != id->header.e_phnum)
		return 0;
	image_build_id(im, id);
	return id->id_size || image_sum(im, &id->sum);
}

const struct cached_table *cache_find_file(const struct identity *id)
{
	for (unsigned i = 0; i < CACHE_BUCKETS; i++)
		for (const struct cached_table *e = cache[i]; e; e = e->next)
			if (!memcmp(&e->identity, id, sizeof(*id)))
				return e;
	return NULL;
}

struct cached_table *cache_new(const struct prepare_image *im, const struct identity *id)
{
	struct cached_table *e = permanent_alloc(sizeof(*e));

	if (!e)
		return NULL;
	e->start = im->start;
	e->end = im->end;
	e->identity = *id;
	return e;
}

void cache_publish(struct cached_table *e)
{
	struct cached_table **bucket = cache_bucket(e->start);
	struct permanent *p = permanent_at(e->start);

	e->next = *bucket;
	__atomic_store_n(bucket, e, __ATOMIC_RELEASE);
	if (p)
		__atomic_store_n(&p->module, &e->module, __ATOMIC_RELEASE);
}

int cache_add(const struct prepare_image *im, const struct identity *id, const struct etch_unwind *u, uint64_t size)
{
	struct cached_table *e = cache_new(im, id);

	if (!e)
		return 0;
	e->table = u;
	e->size = size;
	module_open(&e->module, u, im->bias);
	cache_publish(e);
	return 1;
}
