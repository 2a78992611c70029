/* SPDX-License-Identifier: MIT */
/*
 * file_places.c: a list of modules that may be unloaded, with their places in memory and build-ids. Entries are only
 * added to it.
 *
 * RULES OF THIS FILE. Async-signal-safe: no malloc, no lock; of libc only memcpy, memcmp and _dl_find_object.
 */
#include <dlfcn.h>
#include <string.h>

#include "exceptions/file_places.h"

/* A file at a place. Its build-id lies in its first page, which every file that is mapped there has. */
struct place {
	uint64_t start, end, id_at;
	uint32_t id_size, ready;
	uint8_t id[32];
};

#define PLACES 4096u
static struct place places[PLACES];
static uint32_t places_count = 1; /* 0 stands for modules that are never unloaded */

#ifdef DLFO_STRUCT_HAS_EH_DBASE
extern int _dl_find_object(void *, struct dl_find_object *) __attribute__((weak));

bool place_is(uint32_t number, uint64_t at)
{
	const struct place *p = &places[number];
	struct dl_find_object o;

	return !_dl_find_object((void *)(uintptr_t)at, &o) && (uint64_t)(uintptr_t)o.dlfo_map_start == p->start &&
	       (uint64_t)(uintptr_t)o.dlfo_map_end == p->end &&
	       !memcmp((const void *)(uintptr_t)p->id_at, p->id, p->id_size);
}
#else
bool place_is(uint32_t number, uint64_t at)
{
	(void)number;
	(void)at;
	return false;
}
#endif

uint32_t place_number(const struct prepare_image *im)
{
	struct place new = {.start = im->start, .end = im->end};
	struct identity id;
	uint32_t n = __atomic_load_n(&places_count, __ATOMIC_ACQUIRE);

	memset(&id, 0, sizeof(id));
	image_build_id(im, &id);
	new.id_size = id.id_size;
	new.id_at = im->bias + id.note.p_vaddr + id.id_offset;
	if (!id.id_size || new.id_at < im->start || new.id_at + new.id_size > im->start + 4096)
		return 0;
	memcpy(new.id, id.id, sizeof(new.id));
	for (uint32_t i = 1; i < n && i < PLACES; i++) {
		const struct place *p = &places[i];

		if (__atomic_load_n(&p->ready, __ATOMIC_ACQUIRE) && p->start == new.start && p->end == new.end &&
		    p->id_at == new.id_at && p->id_size == new.id_size && !memcmp(p->id, new.id, sizeof(new.id)))
			return i;
	}
	if (n >= PLACES || (n = __atomic_fetch_add(&places_count, 1, __ATOMIC_RELAXED)) >= PLACES)
		return 0;
	places[n] = new;
	__atomic_store_n(&places[n].ready, 1, __ATOMIC_RELEASE);
	return n;
}
