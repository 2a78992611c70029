/* SPDX-License-Identifier: MIT */
/*
 * Determines to which bytes of an object each fact applies (site.h), so that single fields can be armed. A store
 * applies to the bytes that it writes. An escaping address applies to the member to which it points according to DWARF:
 * under the rules of C and C++ a pointer to a member reaches only this member. Any other fact applies to the whole
 * object.
 */
#include "dwarf/lines.h"
#include "site/start_up_code.h"
#include "support/memory.h"
#include "shared/search.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Greatest number of bytes that one store can write: the size of a vector register. */
#define STORE_MOST 64u

static bool begins_nested(const struct members *all, uint64_t at)
{
	size_t i;

	for (i = 0; i < all->nested_count && all->nested[i].from != at; i++)
		;
	return i < all->nested_count;
}

/* Finds the bytes [*from, *to) that a program may reach with a pointer to *from, which is in member `m`. */
static void pointer_reach(const struct members *all, const struct member *m, uint64_t *from, uint64_t *to)
{
	uint64_t at = *from;
	/* A pointer that runs down starts at the end of an array, so the address may be the end of the member before. */
	const struct member *before = at == m->off ? member_at(all, at - 1) : NULL;
	bool scalar = m->kind == MEMBER_SCALAR && !begins_nested(all, at);
	size_t i;

	*from = before && before->kind != MEMBER_SCALAR ? before->off : m->off;
	*to = m->off + m->size;
	/*
	 * From a struct or array in a nested struct, a program may reach the whole nested struct, as from the node of a
	 * list to the element that contains it. The address may also be the end of an array in the nested struct before it.
	 */
	for (i = 0; i < all->nested_count; i++) {
		const struct nested *x = &all->nested[i];

		if (!scalar && x->from <= at && at < x->to) {
			*from = x->from < *from ? x->from : *from;
			*to = x->to > *to ? x->to : *to;
		}
		if (x->to == at && x->from < *from)
			*from = x->from;
	}
}

enum reach site_reach(const struct object *o, const struct site *site, uint64_t *from, uint64_t *to)
{
	const struct member *m;

	*from = (uint64_t)site->off;
	if (!(site->off_known || site->indexed) || *from >= o->size || site->recorded)
		return REACH_ANY;
	m = member_at(&o->members, *from);
	/*
	 * An index runs over an array, but `off` may be in another array, if it includes a constant part of the index
	 * (arr[i - 1]).
	 */
	if (!site->off_known)
		return m && member_is_indexed(&o->members, m) && (site->as_pointer || site->kind == SITE_STORE) ? REACH_ARRAYS
		                                                                                                : REACH_ANY;
	if (site->kind == SITE_STORE) {
		*to = *from + site->size;
		return site->size && site->size <= STORE_MOST && *to <= o->size ? REACH_BYTES : REACH_ANY;
	}
	/* The address of the first member is also the address of the object. */
	if (!site->as_pointer || !*from || !m)
		return REACH_ANY;
	pointer_reach(&o->members, m, from, to);
	return REACH_BYTES;
}

const struct stored *object_stored(const struct object *o, uint64_t from, uint64_t to)
{
	size_t k = SEARCH(o->stored_count, i, o->stored[i].to <= from);

	return k < o->stored_count && o->stored[k].from < to ? &o->stored[k] : NULL;
}

bool object_armed_at(const struct object *o, uint64_t from, uint64_t to)
{
	return o->armed || (o->in_part && !o->early && !object_stored(o, from, to));
}

static void stored_add(struct object *o, size_t *capacity, uint64_t from, uint64_t to, uint8_t facts,
                       const struct site *site)
{
	mem_reserve(&o->stored, capacity, o->stored_count, sizeof(*o->stored));
	o->stored[o->stored_count++] = (struct stored){from, to, facts, site->late, site->kernel && site->late};
}

static uint8_t fact_of(const struct site *site)
{
	return site->kind == SITE_STORE ? ETCH_OBJ_STORED : ETCH_OBJ_ESCAPED;
}

/*
 * Returns the bit of `arrays_stored` which says that a fact like that of the site has already been added for all
 * arrays.
 */
static uint8_t arrays_bit(const struct site *site)
{
	unsigned bit = site->kind == SITE_STORE ? 1 : 2;

	if (site->kernel)
		return 16;
	return (uint8_t)(site->late ? bit << 2 : bit);
}

/* Adds to `stored` the bytes to which the fact of a site applies. Returns false if they are not known. */
static bool fact_add(struct object *o, size_t *capacity, const struct site *site)
{
	uint8_t fact = fact_of(site), bit = arrays_bit(site);
	uint64_t from, to;
	size_t i;

	switch (site_reach(o, site, &from, &to)) {
	case REACH_BYTES: stored_add(o, capacity, from, to, fact, site); return true;
	case REACH_ARRAYS:
		for (i = 0; i < o->members.nested_count && !(o->arrays_stored & bit); i++)
			if (o->members.nested[i].indexed)
				stored_add(o, capacity, o->members.nested[i].from, o->members.nested[i].to, fact, site);
		for (i = 0; i < o->members.count && !(o->arrays_stored & bit); i++)
			if (o->members.list[i].indexed)
				stored_add(o, capacity, o->members.list[i].off, o->members.list[i].off + o->members.list[i].size, fact,
				           site);
		o->arrays_stored |= bit;
		return true;
	default: return false;
	}
}

static int stored_order(const void *a, const void *b)
{
	const struct stored *x = a, *y = b;

	if (x->from != y->from)
		return x->from < y->from ? -1 : 1;
	return x->to < y->to ? -1 : x->to > y->to;
}

/* Merges overlapping elements of `stored`. Adjacent ones stay separate, each with its facts. */
static void stored_merge(struct object *o)
{
	size_t i, n = 0;

	if (o->stored_count)
		qsort(o->stored, o->stored_count, sizeof(*o->stored), stored_order);
	for (i = 0; i < o->stored_count; i++) {
		struct stored *last = n ? &o->stored[n - 1] : NULL;

		if (!last || o->stored[i].from >= last->to) {
			o->stored[n++] = o->stored[i];
			continue;
		}
		last->to = o->stored[i].to > last->to ? o->stored[i].to : last->to;
		last->facts |= o->stored[i].facts;
		last->kept |= o->stored[i].kept;
		last->kernel |= o->stored[i].kernel;
	}
	o->stored_count = n;
}

bool scan_is_explained(const struct scan *s, size_t i)
{
	const struct site *x = &s->sites[i];
	size_t k;

	for (k = i; k && s->sites[k - 1].section == x->section && s->sites[k - 1].addr == x->addr; k--)
		;
	for (; k < s->site_count && s->sites[k].section == x->section && s->sites[k].addr == x->addr; k++)
		if (!s->sites[k].recorded && s->sites[k].kind == x->kind && s->sites[k].object == x->object)
			return true;
	return false;
}

static char *range_name(const struct object *o, uint64_t from)
{
	const struct member *m = member_at(&o->members, from);
	size_t size = strlen(o->name) + (m ? strlen(m->name) : 0) + 48;
	char *name = mem_alloc(size, 1);

	if (!from)
		snprintf(name, size, "%s", o->name);
	else if (m && m->off == from)
		snprintf(name, size, "%s.%s", o->name, m->name);
	else if (m)
		snprintf(name, size, "%s.%s+0x%" PRIx64, o->name, m->name, from - m->off);
	else
		snprintf(name, size, "%s+0x%" PRIx64, o->name, from);
	return name;
}

/* Adds a range from the end of the last one to `to`. */
static void range_add(struct object *o, size_t *capacity, uint64_t to)
{
	uint64_t from = o->range_count ? o->ranges[o->range_count - 1].to : 0;
	const struct stored *what = from < to ? object_stored(o, from, to) : NULL;

	if (from >= to)
		return;
	mem_reserve(&o->ranges, capacity, o->range_count, sizeof(*o->ranges));
	o->ranges[o->range_count++] = (struct object_range){.from = from,
	                                                    .to = to,
	                                                    .facts = (what ? what->facts : 0) | o->early,
	                                                    .kept = what && what->kept,
	                                                    .kernel = what && what->kernel,
	                                                    .name = range_name(o, from)};
}

/* Do all bytes of an object have the same facts? */
static bool is_uniform(const struct object *o)
{
	uint64_t at = 0;
	size_t i;

	for (i = 0; i < o->stored_count && o->stored[i].from == at && o->stored[i].kept == o->stored[0].kept &&
	            o->stored[i].kernel == o->stored[0].kernel;
	     i++)
		at = o->stored[i].to;
	return !o->stored_count || (i == o->stored_count && at == o->size);
}

/* Divides an object whose facts apply to known bytes into ranges, at the bounds of its members and of those bytes. */
static void ranges_make(struct object *o)
{
	size_t capacity = 0, i = 0, k = 0;

	if (!o->bounded || is_uniform(o))
		return;
	while (i < o->stored_count || k < o->members.count) {
		const struct stored *x = i < o->stored_count ? &o->stored[i] : NULL;
		const struct member *m = k < o->members.count ? &o->members.list[k] : NULL;
		uint64_t at = o->range_count ? o->ranges[o->range_count - 1].to : 0;
		uint64_t next = o->size;

		if (x)
			next = x->from > at ? x->from : x->to;
		if (m && m->off <= at) {
			k++;
			continue;
		}
		if (m && m->off < next)
			next = m->off;
		range_add(o, &capacity, next);
		if (x && next == x->to)
			i++;
	}
	range_add(o, &capacity, o->size);
}

/*
 * Is an object armed by field? Objects that fit into a register, and tables through which the program only calls, are
 * not: they are armed as a whole, on pages of their own.
 */
static bool has_fields(const struct scan *s, int32_t object)
{
	size_t i;

	if (s->objects.list[object].size <= 8)
		return false;
	for (i = 0; i < s->site_count; i++)
		if (s->sites[i].kind == SITE_LOAD && s->sites[i].object == object)
			return true;
	return false;
}

/* The state while the bytes of all facts are determined. */
struct field_scan {
	struct scan *s;
	struct setup setup;
	bool setup_tried;
	uint8_t *seen;    /* for each object, the facts that its sites show */
	size_t *capacity; /* for each object, the capacity of its `stored` */
};

/* Decides which objects are armed by field, and reads their members from DWARF. */
static void members_read(struct scan *s)
{
	struct lines *lines = NULL;
	size_t i;

	for (i = 0; i < s->objects.defined; i++) {
		struct object *o = &s->objects.list[i];

		o->memberless = o->facts && !o->value && has_fields(s, (int32_t)i);
		o->bounded = o->memberless && !o->inferred && !o->vague;
		if (!o->bounded)
			continue;
		if (!lines)
			lines = scan_lines(s);
		members_find(lines, o->addr, o->size, &o->members);
	}
}

/*
 * May the store run after etch_sync, or an escaping address be used after it? `alone`: the use is known only from a
 * table.
 */
static bool is_late(const struct field_scan *c, const struct site *site, bool alone)
{
	const struct elf_section *x = &c->s->file->sections[site->section];

	if (section_is_settings(x))
		return false;
	if (alone ? elf_name_is(x->name, ETCH_SEC_INIT) : setup_is_init(&c->setup, site->section, site->addr))
		return false;
	/* An address may be saved and written through later, unless the program says that this does not happen. */
	return site->kind != SITE_STORE || alone || setup_runs_after(&c->setup, site->section, site->addr);
}

/* Sets `late` of site number i, and adds the bytes to which its fact applies to the object's `stored`. */
static void site_take(struct field_scan *c, size_t i)
{
	struct site *site = &c->s->sites[i];
	struct object *o = &c->s->objects.list[site->object];
	bool alone;

	if (site_kind_is_patched(site->kind) || !o->section || o->value)
		return;
	c->seen[site->object] |= fact_of(site);
	if (!c->setup_tried)
		setup_find(&c->setup, c->s);
	c->setup_tried = true;
	/* A fact that is known only from a table also stands for other places in the same section of its object file. */
	alone = site->recorded && !scan_is_explained(c->s, i);
	site->late = is_late(c, site, alone);
	o->kept |= site->late;
	o->kernel |= site->kernel && site->late;
	if (!o->bounded || (site->recorded && !alone) || (!alone && fact_add(o, &c->capacity[site->object], site)))
		return;
	/* The use may change any byte before etch_sync, but none after it. */
	if (!site->late)
		o->early |= fact_of(site);
	o->bounded &= !site->late;
	o->vague |= alone && site->late;
}

void scan_fields_find(struct scan *s)
{
	struct field_scan c = {.s = s,
	                       .seen = mem_zero(s->objects.count + 1, 1),
	                       .capacity = mem_zero(s->objects.count + 1, sizeof(*c.capacity))};
	size_t i;

	members_read(s);
	for (i = 0; i < s->site_count; i++)
		site_take(&c, i);
	for (i = 0; i < s->objects.defined; i++) {
		struct object *o = &s->objects.list[i];

		o->bounded &= o->facts == c.seen[i];
		o->kept |= o->facts & ~c.seen[i];
		o->memberless &= !o->bounded && !o->members.known && !o->vague;
		stored_merge(o);
		ranges_make(o);
	}
	setup_free(&c.setup);
	free(c.seen);
	free(c.capacity);
}
