/* SPDX-License-Identifier: MIT */
/*
 * index.c: builds a module from an image: finds its tables and, if the link step has not
 * sorted them, indexes the sites by object address.
 */
#include <string.h>

#include "patch/static_branch.h"
#include "patch/internal.h"
#include "common/sys.h"
#include "shared/search.h"

/* A stable sort by key: radix sort of the bytes in which keys differ. Tables are mostly in text
 * order, which equal keys keep. temp: room for n more. */
static void pairs_sort(struct pair *p, size_t n, struct pair *temp)
{
	uint64_t any = 0, first = n ? p[0].key : 0;
	struct pair *from = p, *to = temp, *swap;
	int sorted = 1, falling = 1;

	for (size_t i = 1; i < n; i++) {
		any |= p[i].key ^ first;
		sorted &= p[i - 1].key <= p[i].key;
		falling &= p[i - 1].key > p[i].key;
	}
	/* gcc emits variables last to first. */
	for (size_t i = 0; falling && i < n / 2; i++) {
		struct pair x = p[i];

		p[i] = p[n - 1 - i];
		p[n - 1 - i] = x;
	}
	sorted |= falling;
	for (unsigned shift = 0; !sorted && shift < 64; shift += 8) {
		size_t count[256] = {0}, at = 0;

		if (!(any >> shift & 0xff))
			continue;
		for (size_t i = 0; i < n; i++)
			count[from[i].key >> shift & 0xff]++;
		for (unsigned i = 0; i < 256; i++) {
			size_t c = count[i];

			count[i] = at;
			at += c;
		}
		for (size_t i = 0; i < n; i++)
			to[count[from[i].key >> shift & 0xff]++] = from[i];
		swap = from;
		from = to;
		to = swap;
	}
	if (from != p)
		memcpy(p, from, n * sizeof(*p));
}

static size_t round16(size_t n) { return (n + 15) & ~(size_t)15; }

/* Blocks of unloaded modules. Never unmapped: the fault handler may be reading one (trap.c). */
static struct module *free_blocks;

/* Returns a zeroed block: a reused one or a new mapping. */
static struct module *block_new(size_t bytes)
{
	struct module **p, *m;
	size_t capacity = PAGE_UP(bytes);

	for (p = &free_blocks; (m = *p); p = &m->next)
		if (m->capacity >= bytes && m->capacity / 4 <= capacity) {
			*p = m->next;
			capacity = m->capacity;
			memset(m, 0, bytes);
			m->capacity = capacity;
			return m;
		}
	/* Of a large mapping nearly all pages will be used; for a small one MAP_POPULATE saves
	 * nothing. */
	m = sys_map(capacity, capacity > 4 * ETCH_PAGE ? MAP_POPULATE : 0);
	if (m)
		m->capacity = capacity;
	return m;
}

void module_free(struct module *m)
{
	m->next = free_blocks;
	free_blocks = m;
}

struct counts {
	size_t own[SITES_KINDS], got, objects, facts;
	int rising, falling; /* order of the objects' addresses in the table */
};

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

/* A linked table is not scanned, so that start-up takes constant time: the boundary between direct
 * entries and those through the GOT is searched for, and the whole table is checked before its
 * first use (module_check). */
static int linked_count(const struct module *m, int kind, struct counts *c)
{
	const struct sites *s = &m->sites[kind];
	size_t k = SEARCH(s->count, i, s->entry[i].form != ETCH_FORM_NONE && !(s->entry[i].flags & ETCH_IMV_GOT));

	c->own[kind] = k;
	for (; k < s->count && s->entry[k].form != ETCH_FORM_NONE; k++, c->got++)
		if (!(s->entry[k].flags & ETCH_IMV_GOT) || !table_site_ok(m, &s->entry[k], kind == SITES_CALL))
			return 0;
	return 1;
}

static int sites_count(const struct module *m, int kind, struct counts *c)
{
	const struct sites *s = &m->sites[kind];

	for (size_t i = 0; i < s->count; i++) {
		const struct etch_imv *e = &s->entry[i];

		if (!table_site_ok(m, e, kind == SITES_CALL) || (e->flags & ETCH_IMV_BAKED))
			return 0;
		if (!entry_is_site(e))
			continue;
		if (e->flags & ETCH_IMV_GOT)
			c->got++;
		else
			c->own[kind]++;
	}
	return 1;
}

/* Checks the tables and counts their entries. */
static int tables_count(struct module *m, struct counts *c)
{
	*c = (struct counts){.rising = 1, .falling = 1};
	if (!objects_count(m, c))
		return 0;
	if (m->linked)
		return linked_count(m, SITES_LOAD, c) && linked_count(m, SITES_CALL, c);
	m->checked = 1;
	return sites_count(m, SITES_LOAD, c) && sites_count(m, SITES_CALL, c) && table_natives_ok(m) && inlines_ok(m) &&
	       branches_ok(m) && marks_ok(m);
}

/* Adds an object. Objects arrive in ascending order; several records of one object (from several
 * files) are merged. */
static void object_add(struct module *m, const struct etch_obj *r)
{
	struct object *last = m->object_count ? &m->object[m->object_count - 1] : NULL;
	uint64_t at = record_object(r), end = at + r->size;
	uint32_t flags = 0;

	if (!r->size)
		return;
	if (r->flags & ETCH_OBJ_ARMED)
		flags |= OBJECT_ARMED;
	if ((r->flags & ETCH_OBJ_VALUE) || ((r->more & ETCH_OBJ_DENSE) && m->etched[2].start == m->etched[2].stop))
		flags |= OBJECT_WRITABLE;
	/* Without the link step the other files that could store to an open object are unknown. */
	if ((r->flags & (ETCH_OBJ_STORED | ETCH_OBJ_ESCAPED)) || (!m->linked && (r->flags & ETCH_OBJ_OPEN)))
		flags |= OBJECT_FACT;
	if (r->more & ETCH_OBJ_FIELD)
		flags |= OBJECT_FIELD;
	if (r->more & ETCH_OBJ_KEPT)
		flags |= OBJECT_KEPT;
	if (last && at < last->addr + last->size) {
		if (end > last->addr + last->size)
			last->size = (uint32_t)(end - last->addr);
		last->flags |= flags;
		return;
	}
	m->object[m->object_count++] =
		(struct object){.addr = at, .size = r->size, .flags = flags, .record = (uint32_t)(r - m->obj)};
}

static int is_object(const struct etch_obj *r) { return r->kind == ETCH_OBJ_OBJECT; }

/* Fills in the objects. The link step leaves their records sorted, gcc emits those of one file
 * last to first; otherwise they are sorted in pair. */
static void objects_fill(struct module *m, const struct counts *c, struct pair *pair)
{
	size_t n = 0, i;

	if (c->rising) {
		for (i = 0; i < m->obj_count; i++)
			if (is_object(&m->obj[i]))
				object_add(m, &m->obj[i]);
	} else if (c->falling) {
		for (i = m->obj_count; i--;)
			if (is_object(&m->obj[i]))
				object_add(m, &m->obj[i]);
	} else {
		for (i = 0; i < m->obj_count; i++)
			if (is_object(&m->obj[i]))
				pair[n++] = (struct pair){record_object(&m->obj[i]), i};
		pairs_sort(pair, n, pair + n);
		for (i = 0; i < n; i++)
			object_add(m, &m->obj[pair[i].value]);
	}
	if (m->object_count) {
		const struct object *last = &m->object[m->object_count - 1];

		m->page = PAGE_OF(m->object[0].addr);
		m->pages = (PAGE_UP(last->addr + last->size) - m->page) / ETCH_PAGE;
	}
}

/* Code stores to these objects, or may. Fields and dense objects share pages with others: their page stays writable, so
 * that they stay unarmed even after etch_sync; as do those of ETCHED_SHARED while it is. */
void objects_fact(struct module *m, size_t first, size_t end)
{
	for (; first < end; first++) {
		struct object *o = &m->object[first];

		o->flags |= OBJECT_FACT;
		if (module_has_fields(m, o) || module_is_dense(m, o) || (m->obj[o->record].flags & ETCH_OBJ_SHARED))
			o->flags |= OBJECT_KEPT;
	}
}

static void indexes_fill(struct module *m, const struct counts *c, struct pair *temp)
{
	size_t far = 0, n, i;

	for (int kind = 0; kind < SITES_KINDS; kind++) {
		struct sites *s = &m->sites[kind];
		uint64_t which = kind == SITES_CALL ? PAIR_CALL : 0;

		for (i = n = 0; !m->linked && i < s->count; i++)
			if (entry_is_site(&s->entry[i]) && !(s->entry[i].flags & ETCH_IMV_GOT))
				s->own[n++] = (struct pair){site_object(&s->entry[i]), i | which};
		pairs_sort(s->own, n, temp);
		/* Of a linked table only the entries that linked_count() has checked. */
		for (i = m->linked ? s->own_count : 0;
		     c->got && i < s->count && !(m->linked && s->entry[i].form == ETCH_FORM_NONE); i++)
			if (entry_is_site(&s->entry[i]) && (s->entry[i].flags & ETCH_IMV_GOT))
				m->far[far++] = (struct pair){site_object(&s->entry[i]), i | which};
	}
	for (i = 0; c->facts && i < m->obj_count; i++) {
		const struct etch_obj *r = &m->obj[i];
		size_t first, end;
		uint64_t at;

		if (r->kind != ETCH_OBJ_STORE && r->kind != ETCH_OBJ_ESCAPE)
			continue;
		at = record_object(r);
		module_fact_objects(m, r, at, &first, &end);
		if (first < end)
			objects_fact(m, first, end);
		else
			m->far[far++] = (struct pair){at, i | PAIR_FACT};
	}
	m->far_count = far;
	pairs_sort(m->far, far, temp);
}

struct module *module_new(const struct image *im, const struct module_arguments *args, const char *path)
{
	struct module look = {.image = *im, .desc = args->desc}, *m;
	struct counts c = {0};
	size_t path_size = strlen(path) + 1, own, far, pages, size, temp_count;
	struct pair *temp = NULL;
	uint8_t *at;

	look.bad = im->too_many_segments || !table_locate(&look, args) || !tables_count(&look, &c);
	if (look.bad)
		memset(&c, 0, sizeof(c));
	own = look.linked ? 0 : c.own[SITES_LOAD] + c.own[SITES_CALL];
	far = c.got + c.facts;
	/* Objects lie inside the image, so their pages are at most its pages. */
	pages = c.objects ? (PAGE_UP(im->end) - PAGE_OF(im->start)) / ETCH_PAGE : 0;
	size = round16(sizeof(*m)) + round16(c.objects * sizeof(struct object)) + (own + far) * sizeof(struct pair) +
	       round16(pages / 8 + 1) + round16(path_size);
	m = block_new(size);
	if (!m)
		return NULL;
	look.capacity = m->capacity;
	*m = look;
	at = (uint8_t *)m + round16(sizeof(*m));
	m->object = (struct object *)at;
	at += round16(c.objects * sizeof(struct object));
	for (int kind = 0; kind < SITES_KINDS; kind++) {
		m->sites[kind].own_count = c.own[kind];
		m->sites[kind].own = look.linked ? NULL : (struct pair *)at;
		at += look.linked ? 0 : c.own[kind] * sizeof(struct pair);
	}
	m->far = (struct pair *)at;
	at += far * sizeof(struct pair);
	m->readonly = at;
	at += round16(pages / 8 + 1);
	memcpy(at, path, path_size);
	m->path = (const char *)at;
	m->etched[0] = args->etched;
	m->etched[1] = args->scalar;
	m->etched[2] = args->dense;
	if (m->bad || (!c.objects && !own && !far))
		return m;

	temp_count = c.rising || c.falling ? 0 : 2 * c.objects;
	if (temp_count < own)
		temp_count = own;
	if (temp_count < far)
		temp_count = far;
	temp = temp_count ? sys_map(temp_count * sizeof(*temp), 0) : NULL;
	if (temp_count && !temp) {
		module_free(m);
		return NULL;
	}
	objects_fill(m, &c, temp);
	indexes_fill(m, &c, temp);
	if (temp)
		sys_munmap(temp, temp_count * sizeof(*temp));
	return m;
}
