/* SPDX-License-Identifier: MIT */
/*
 * lookup.c: finds the unwind table of the module that an address is in.
 *
 * RULES OF THIS FILE. lookup_module() runs in signal context: no malloc, no lock, no thread-local storage, no libc.
 * Do not introduce any dependency there.
 *
 * For a module that is never unloaded (loaded.h), the result is kept once it is known. For any other module, a lookup
 * asks the dynamic linker which module is mapped there now, and uses the kept result if it belongs to that file at
 * that place: a dlclose(3) followed by a dlopen(3) at the same place cannot make it wrong. Nor can a dlclose(3) that
 * runs beside the walk: a table inside such a module is copied, and only the copy is read (table_copy.h). If libc
 * lacks _dl_find_object, the table is used in place, and only the pointers to its arrays are kept; the program header
 * of the table's segment and the table's header identify them.
 */
#include "unwind/table_cache.h"
#include "unwind/table_copy.h"
#include "common/segment_note.h"

/* Reads the note of a segment that etch has added. Returns 1, or 0 if the segment has none. */
static int note_read(const struct prepare_image *im, uint64_t at, struct segment_note *n)
{
	struct segment_note copy;

	if (!im->kept)
		return segment_note_read((const void *)(uintptr_t)at, n);
	return !memory_copy(&copy, at, sizeof(copy)) && segment_note_read(&copy, n);
}

const struct etch_unwind *lookup_table(const struct prepare_image *im, unsigned *index, uint64_t *size)
{
	/* Backwards, because in most modules the segment is the last one. */
	for (unsigned i = im->phnum; i--;) {
		const Elf64_Phdr *p = &im->phdr[i];
		uint64_t in, capacity = segment_note_may(p, &in), at = im->bias + p->p_vaddr + in;
		struct segment_note n;

		if (!capacity || !loaded_inside(im, at, capacity) || !note_read(im, at, &n))
			continue;
		capacity = segment_note_size(&n, in, capacity);
		if (n.first > capacity || ((at + n.first) & 7))
			return NULL;
		*index = i;
		*size = capacity - n.first;
		return (const struct etch_unwind *)(uintptr_t)(at + n.first);
	}
	return NULL;
}

/* Opens the arrays of an orc table. Returns 1, or 0 if they are not in readable segments. */
static int orc_open(const struct prepare_image *im, const struct etch_unwind *u, struct etch_orc_table *t)
{
	uint64_t lookups = ((u->text_size + 255) >> 8) + 1;

	if (!u->rows || !loaded_readable(im, im->bias + u->orc_ip, (uint64_t)u->rows * 4) ||
	    !loaded_readable(im, im->bias + u->orc, (uint64_t)u->rows * sizeof(struct etch_orc)) ||
	    !loaded_readable(im, im->bias + u->orc_lookup, lookups * 4))
		return 0;
	t->ip = (const int32_t *)(uintptr_t)(im->bias + u->orc_ip);
	t->orc = (const struct etch_orc *)(uintptr_t)(im->bias + u->orc);
	t->lookup = (const uint32_t *)(uintptr_t)(im->bias + u->orc_lookup);
	t->rows = u->rows;
	t->ip_addr = u->orc_ip;
	t->text = u->text;
	t->text_size = u->text_size;
	return 1;
}

/* ---- tables in modules --------------------------------------------------------- */

#define HEADER_WORDS (sizeof(struct etch_unwind) / 8)
_Static_assert(sizeof(struct etch_unwind) % 8 == 0, "headers are compared by words");

/* An opened table, with what identifies it. Written once. */
struct opened {
	_Alignas(MODULE_LINE) struct unwind_module module;
	uint64_t start, end;
	const Elf64_Phdr *file; /* for a copied table: the file, identified by its headers and build-id; null: the
	                         * following members identify it */
	uint64_t index;         /* index of the program header of the table's segment */
	Elf64_Phdr phdr;
	const struct etch_unwind *table;
	struct etch_unwind header;
};

/* Slots are filled in signal context too and never freed. Further modules, and those whose slot is taken, are opened
 * at each lookup. */
#define OPENED_PLACES 64
#define OPENED_SLOTS  128
static struct opened opened_place[OPENED_PLACES];
static unsigned opened_count;
static struct opened *opened[OPENED_SLOTS];

/* The slot for a module that starts at this address. */
static struct opened **opened_slot(uint64_t start) { return &opened[(start >> 12) * 0x9e3779b97f4a7c15u >> 57]; }

/* The kept table of this module; null if there is none, or it is that of another file at the same place. */
static const struct unwind_module *opened_find(const struct prepare_image *im)
{
	const struct opened *o = __atomic_load_n(opened_slot(im->start), __ATOMIC_ACQUIRE);

	if (!o || o->start != im->start || o->end != im->end || !o->file != !im->kept)
		return NULL;
	if (o->file)
		return o->file == im->phdr ? &o->module : NULL;
	if (o->index < im->phnum && same_words(&o->phdr, &im->phdr[o->index], sizeof(o->phdr) / 8) &&
	    same_words(&o->header, o->table, HEADER_WORDS))
		return &o->module;
	return NULL;
}

/* Keeps the opened table *m, in the module's slot unless the module is permanent. Returns the copy that is kept, or m
 * if there is no space or the slot is taken. index: index of the program header of the table's segment, if the table is
 * used in place. */
static const struct unwind_module *opened_add(const struct prepare_image *im, const struct etch_unwind *u,
                                              unsigned index, const struct unwind_module *m)
{
	struct opened **slot = opened_slot(im->start), *o, *none = NULL;
	unsigned n = __atomic_load_n(&opened_count, __ATOMIC_RELAXED);
	bool permanent = loaded_is_permanent(im);

	if (n >= OPENED_PLACES || (!permanent && __atomic_load_n(slot, __ATOMIC_RELAXED)))
		return m;
	n = __atomic_fetch_add(&opened_count, 1, __ATOMIC_RELAXED);
	if (n >= OPENED_PLACES) {
		__atomic_store_n(&opened_count, OPENED_PLACES, __ATOMIC_RELAXED);
		return m;
	}
	o = &opened_place[n];
	o->start = im->start;
	o->end = im->end;
	o->file = im->kept ? im->phdr : NULL;
	o->index = index;
	o->phdr = im->phdr[index];
	o->table = u;
	o->header = *u;
	o->module = *m;
	if (!permanent)
		__atomic_compare_exchange_n(slot, &none, o, 0, __ATOMIC_RELEASE, __ATOMIC_RELAXED);
	return &o->module;
}

/* ---- lookups ------------------------------------------------------------------------- */

/* Stands for a permanent module without a table. */
static const struct unwind_module no_table;

/* Opens the table inside a module that may be unloaded. */
static const struct unwind_module *copy_open(const struct prepare_image *im, struct unwind_module *capacity)
{
	const struct table_copy *t = table_copy_of(im);
	const struct etch_unwind *u = t ? table_copy_table(t) : NULL;

	if (!u)
		return &no_table;
	if (u->encoding == ETCH_ENCODING_ORC)
		capacity->orc = (struct etch_orc_table){.ip = (const int32_t *)(const void *)t->part[COPY_IP].bytes,
		                                        .orc = (const struct etch_orc *)(const void *)t->part[COPY_ORC].bytes,
		                                        .lookup = (const uint32_t *)(const void *)t->part[COPY_LOOKUP].bytes,
		                                        .rows = u->rows,
		                                        .ip_addr = u->orc_ip,
		                                        .text = u->text,
		                                        .text_size = u->text_size};
	module_open(capacity, u, im->bias);
	return u->encoding == ETCH_ENCODING_BLOCK && table_copy_is_certain(im) ? opened_add(im, u, 0, capacity) : capacity;
}

static const struct unwind_module *image_open(const struct prepare_image *im, struct unwind_module *capacity)
{
	const struct unwind_module *m = opened_find(im);
	const struct etch_unwind *u;
	const struct cached_table *e;
	unsigned index;
	uint64_t size;

	if (m)
		return m;
	/* Looks in the cache first: it has tables only for modules without a table of their own. */
	e = cache_find(im);
	if (e)
		return &e->module;
	if (im->kept)
		return copy_open(im, capacity);
	u = lookup_table(im, &index, &size);
	if (!u)
		return &no_table;
	if (!etch_unwind_header_valid(u, size) || (u->encoding == ETCH_ENCODING_ORC && !orc_open(im, u, &capacity->orc)))
		return &no_table;
	module_open(capacity, u, im->bias);
	return u->encoding == ETCH_ENCODING_BLOCK ? opened_add(im, u, index, capacity) : capacity;
}

const struct unwind_module *lookup_open(struct permanent *p, uint64_t at, struct unwind_module *capacity)
{
	const struct unwind_module *m, *none = NULL;
	struct prepare_image im;

	if (!loaded_image(at, &im))
		return &no_table;
	m = image_open(&im, capacity);
	/* A table that another thread has made since then stays. */
	if (p && m != capacity)
		__atomic_compare_exchange_n(&p->module, &none, m, 0, __ATOMIC_RELEASE, __ATOMIC_RELAXED);
	return m;
}
