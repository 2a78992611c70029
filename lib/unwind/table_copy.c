/* SPDX-License-Identifier: MIT */
/*
 * table_copy.c: private copies of the tables inside modules that may be unloaded.
 *
 * A walk that a wild address has led into such a module has no frame there, so another thread may unload it between
 * two of the walk's instructions. The table is therefore copied at the first lookup, by memory_copy(), which does not
 * fault, and lookups read only the copy.
 *
 * A copy belongs to a file. A file with a build-id is identified by its headers and the build-id, which each walk
 * reads again (loaded.c). For a file without one, the table in memory is compared with the copy at each lookup.
 *
 * While the copy is made, the module may go away, and another may come and go in its place. So the table is read
 * twice, and the module's headers in between; a copy that differs is dropped.
 *
 * RULES OF THIS FILE. All of it runs in signal context, on a thread stopped anywhere: no malloc, no lock, no
 * thread-local storage, and of libc only memcpy, memset and memcmp. Do not introduce any dependency there.
 */
#include <string.h>

#include <etch/orc_registers.h>

#include "common/sys.h"
#include "unwind/table_copy.h"

#define ALIGN 64
#define CHUNK 512u

/* Stands for the table of a file that has none. */
static struct table_copy tableless;

/* Adds a part to those that are copied. Returns false if it is empty. */
static bool part_plan(struct table_copy *t, uint64_t at, uint64_t size)
{
	t->part[t->parts].at = at;
	t->part[t->parts].size = size;
	t->parts++;
	return size != 0;
}

/* Finds the parts to copy. Returns false if the module has no table in which lookups could be made. */
static bool parts_find(const struct prepare_image *im, struct table_copy *t, struct etch_unwind *u)
{
	const struct etch_unwind *table;
	struct etch_unwind registers;
	uint64_t capacity, size, behind, lookups, at;
	unsigned index;

	table = lookup_table(im, &index, &capacity);
	at = (uint64_t)(uintptr_t)table;
	if (!table || capacity < sizeof(*u) || memory_copy(u, at, sizeof(*u)) || !etch_unwind_header_valid(u, capacity))
		return false;
	size = u->bytes;
	behind = (size + 7) & ~(uint64_t)7;
	if (u->encoding == ETCH_ENCODING_BLOCK && behind <= capacity && capacity - behind >= sizeof(registers) &&
	    !memory_copy(&registers, at + behind, sizeof(registers)) &&
	    etch_registers_header_valid(u, &registers, capacity - behind))
		size = behind + registers.bytes;
	part_plan(t, at - im->bias, size);
	if (u->encoding != ETCH_ENCODING_ORC)
		return true;
	lookups = ((u->text_size + 255) >> 8) + 1;
	return part_plan(t, u->orc_ip, (uint64_t)u->rows * sizeof(int32_t)) &&
	       part_plan(t, u->orc, (uint64_t)u->rows * sizeof(struct etch_orc)) &&
	       part_plan(t, u->orc_lookup, lookups * sizeof(uint32_t)) &&
	       loaded_readable(im, im->bias + u->orc_ip, t->part[COPY_IP].size) &&
	       loaded_readable(im, im->bias + u->orc, t->part[COPY_ORC].size) &&
	       loaded_readable(im, im->bias + u->orc_lookup, t->part[COPY_LOOKUP].size);
}

static bool part_is(uint64_t at, const uint8_t *bytes, uint64_t size)
{
	uint8_t now[CHUNK];

	for (uint64_t i = 0, n; i < size; i += n) {
		n = size - i < CHUNK ? size - i : CHUNK;
		if (memory_copy(now, at + i, n) || memcmp(now, bytes + i, n) != 0)
			return false;
	}
	return true;
}

/* Does the copy equal the table of the module in memory? */
static bool copy_is(const struct prepare_image *im, const struct table_copy *t)
{
	for (unsigned i = 0; i < t->parts; i++)
		if (!part_is(im->bias + t->part[i].at, t->part[i].bytes, t->part[i].size))
			return false;
	return true;
}

/* The bytes that the copy of a part takes. */
static uint64_t part_capacity(uint64_t size) { return (size + ALIGN - 1) & ~(uint64_t)(ALIGN - 1); }

static uint64_t copy_size(const struct table_copy *t)
{
	uint64_t size = part_capacity(sizeof(*t));

	for (unsigned i = 0; i < t->parts; i++)
		size += part_capacity(t->part[i].size);
	return size;
}

static bool parts_copy(const struct prepare_image *im, struct table_copy *t)
{
	uint8_t *to = (uint8_t *)t + part_capacity(sizeof(*t));

	for (unsigned i = 0; i < t->parts; i++) {
		if (memory_copy(to, im->bias + t->part[i].at, t->part[i].size))
			return false;
		t->part[i].bytes = to;
		to += part_capacity(t->part[i].size);
	}
	return true;
}

static struct table_copy *copy_make(const struct prepare_image *im)
{
	struct table_copy plan = {.parts = 0}, *t;
	struct etch_unwind u;

	if (!parts_find(im, &plan, &u))
		return loaded_still(im) ? &tableless : NULL;
	t = sys_map(copy_size(&plan), 0);
	if (!t)
		return NULL;
	*t = plan;
	if (parts_copy(im, t) && !memcmp(t->part[COPY_TABLE].bytes, &u, sizeof(u)) && loaded_still(im) && copy_is(im, t))
		return t;
	sys_munmap(t, copy_size(&plan));
	return NULL;
}

const struct table_copy *table_copy_of(const struct prepare_image *im)
{
	struct copies *c = loaded_copies(im);
	const struct table_copy *first = __atomic_load_n(&c->table, __ATOMIC_ACQUIRE);
	bool certain = table_copy_is_certain(im);
	struct table_copy *new;

	for (const struct table_copy *t = first; t; t = t->next)
		if (certain || copy_is(im, t))
			return t;
	new = copy_make(im);
	if (!new || (!new->parts && !certain))
		return new;
	while (!certain || !first) {
		if (new->parts)
			new->next = first;
		if (__atomic_compare_exchange_n(&c->table, &first, new, 0, __ATOMIC_RELEASE, __ATOMIC_ACQUIRE))
			return new;
	}
	/* Another thread was faster. */
	if (new->parts)
		sys_munmap(new, copy_size(new));
	return first;
}
