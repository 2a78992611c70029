/* SPDX-License-Identifier: MIT */
/*
 * index.c: builds a module from an image: finds its tables, and with other_modules.c builds the indexes that they
 * need.
 */
#include <string.h>

#include "patch/give_up.h"
#include "patch/parts.h"
#include "common/sys.h"
#include "shared/search.h"

/* Blocks of unloaded modules. They are never unmapped, because the fault handler may be reading one (trap.c). */
static struct module *free_blocks;

/* Returns a zeroed block: a reused one or a new mapping. */
static struct module *block_new(size_t bytes)
{
	struct module **p, *m;
	size_t capacity = PAGE_UP(bytes);

	for (p = &free_blocks; (m = *p); p = &m->free_next)
		if (m->capacity >= bytes && m->capacity / 4 <= capacity) {
			*p = m->free_next;
			capacity = m->capacity;
			__atomic_add_fetch(&module_changes, 1, __ATOMIC_SEQ_CST);
			memset(m, 0, bytes);
			__atomic_add_fetch(&module_changes, 1, __ATOMIC_SEQ_CST);
			m->capacity = capacity;
			return m;
		}
	/* Nearly all pages of a large mapping will be used; for a small one MAP_POPULATE saves nothing. */
	m = sys_map(capacity, capacity > 4 * ETCH_PAGE ? MAP_POPULATE : 0);
	if (m)
		m->capacity = capacity;
	return m;
}

void module_free(struct module *m)
{
	if (m->given_up)
		sys_munmap(m->given_up, m->pages * sizeof(*m->given_up));
	m->given_up = NULL;
	m->free_next = free_blocks; /* `next` stays, because somebody may be walking over the block (trap.c) */
	free_blocks = m;
}

static int objects_count(const struct module *m, struct counts *c)
{
	uint64_t before = 0, end = 0, at;

	for (size_t i = 0; i < m->obj_count; i++) {
		const struct etch_obj *r = &m->obj[i];

		if (!table_object_ok(m, r))
			return 0;
		if (r->kind == ETCH_OBJ_OBJECT) {
			at = record_object(r);
			if ((r->more & ETCH_OBJ_FIELD) && (!c->objects || at != end || !r->size))
				return 0;
			end = at + r->size;
			if (c->objects++) {
				c->rising &= before <= at;
				c->falling &= before >= at;
			}
			before = at;
		} else if (r->kind != ETCH_OBJ_NONE) {
			c->facts++;
		}
	}
	return 1;
}

/* Counts the direct entries of a linked table. The table is not scanned, so that start-up takes constant time: the
 * boundary between direct entries and those through the GOT is searched for, and the whole table is checked before
 * its first use (module_check). Returns whether there are entries through the GOT. */
static int linked_count(const struct sites *s, size_t *own)
{
	*own = SEARCH(s->count, i, s->entry[i].form != ETCH_FORM_NONE && !(s->entry[i].flags & ETCH_IMV_GOT));
	return *own < s->count && s->entry[*own].form != ETCH_FORM_NONE;
}

/* Does a module need the part of libetch for other modules (struct part_others)? */
static int needs_others(const struct module *m, const struct counts *c)
{
	return c->got || c->facts || !c->rising ||
	       (!m->linked && (m->obj_count || m->sites[SITES_LOAD].count || m->sites[SITES_CALL].count));
}

static int needs_objects(const struct module *m)
{
	return m->sites[SITES_CALL].count || m->inline_count || (m->desc->flags & ETCH_MODULE_SWAP);
}

/* Checks the tables and counts their entries. Returns 0 if they are malformed, or need a part of libetch that is not
 * linked. */
static int tables_count(struct module *m, struct counts *c)
{
	*c = (struct counts){.rising = 1, .falling = 1};
	if (!objects_count(m, c))
		return 0;
	for (int kind = 0; m->linked && kind < SITES_KINDS; kind++)
		c->got += (size_t)linked_count(&m->sites[kind], &c->own[kind]);
	if ((!&part_others && needs_others(m, c)) || (!&part_objects && needs_objects(m)) ||
	    (!&part_branches && m->branch_count))
		return 0;
	m->checked = !m->linked;
	return (!&part_others || part_others.count(m, c)) && (m->linked || module_rest_ok(m));
}

void object_add(struct module *m, const struct etch_obj *r)
{
	struct object *last = m->object_count ? &m->object[m->object_count - 1] : NULL;
	uint64_t at = record_object(r), end = at + r->size;
	uint32_t flags = (r->flags & (OBJECT_ARMED | OBJECT_WRITABLE)) | (r->more & (OBJECT_FIELD | OBJECT_KEPT));

	if (r->kind != ETCH_OBJ_OBJECT || !r->size)
		return;
	if ((r->more & ETCH_OBJ_DENSE) && m->etched[2].start == m->etched[2].stop)
		flags |= OBJECT_WRITABLE;
	/* Without the link step, the other files that could store to an open object are unknown. */
	if ((r->flags & (ETCH_OBJ_STORED | ETCH_OBJ_ESCAPED)) || (!m->linked && (r->flags & ETCH_OBJ_OPEN)))
		flags |= OBJECT_FACT;
	if (last && at < last->addr + last->size) {
		if (end > last->addr + last->size)
			last->size = (uint32_t)(end - last->addr);
		last->flags |= flags;
		return;
	}
	m->object[m->object_count++] =
		(struct object){.addr = at, .size = r->size, .flags = flags, .record = (uint32_t)(r - m->obj)};
}

struct module *module_new(const struct image *im, const struct module_arguments *args, const char *path)
{
	struct module look = {.image = *im, .desc = args->desc}, *m;
	struct counts c = {0};
	size_t path_size = strlen(path) + 1, pages;
	const struct object *last;
	uint8_t *at;

	look.bad = im->too_many_segments || !table_locate(&look, args) || !tables_count(&look, &c);
	if (look.bad)
		memset(&c, 0, sizeof(c));
	/* Objects lie inside the image, so their pages are at most its pages. */
	pages = c.objects ? (PAGE_UP(im->end) - PAGE_OF(im->start)) / ETCH_PAGE : 0;
	m = block_new(sizeof(*m) + c.objects * sizeof(struct object) + c.pairs * sizeof(struct pair) + pages / 8 + 1 +
	              path_size);
	if (!m)
		return NULL;
	look.capacity = m->capacity;
	*m = look;
	at = (uint8_t *)(m + 1);
	m->object = (struct object *)(void *)at;
	at += c.objects * sizeof(struct object);
	m->far = (struct pair *)(void *)at;
	at += c.pairs * sizeof(struct pair);
	m->readonly = at;
	m->path = memcpy(at + pages / 8 + 1, path, path_size);
	m->etched[0] = args->etched;
	m->etched[1] = args->scalar;
	m->etched[2] = args->dense;
	for (int kind = 0; kind < SITES_KINDS; kind++)
		m->sites[kind].own_count = c.own[kind];
	if (m->bad)
		return m;

	if (!&part_others) {
		for (size_t i = 0; i < m->obj_count; i++)
			object_add(m, &m->obj[i]);
	} else if (!part_others.fill(m, &c)) {
		module_free(m);
		return NULL;
	}
	if (m->object_count) {
		last = &m->object[m->object_count - 1];
		m->page = PAGE_OF(m->object[0].addr);
		m->pages = (PAGE_UP(last->addr + last->size) - m->page) / ETCH_PAGE;
	}
	return m;
}
