/* SPDX-License-Identifier: MIT */
/* Groups equal findings of several files by the key of their code. */
#include "report/across_files.h"
#include "support/memory.h"

#include <stdlib.h>
#include <string.h>

static struct seen *seen_new(uint64_t key)
{
	struct seen *s = mem_zero(1, sizeof(*s));

	s->key = key;
	return s;
}

static struct seen *seen_of(struct seen_all *a, uint64_t key)
{
	uint32_t hash = hash_word(key), i;
	size_t at;

	for (at = hash; (i = hash_index_next(&a->index, hash, &at)) != HASH_INDEX_NONE;)
		if (a->list[i]->key == key)
			return a->list[i];
	hash_index_add(&a->index, hash, (uint32_t)a->count);
	mem_reserve(&a->list, &a->capacity, a->count, sizeof(*a->list));
	a->list[a->count] = seen_new(key);
	return a->list[a->count++];
}

static const char *object_of(const struct report *r)
{
	const char *name = r->member ? r->member : r->path, *slash = strrchr(name, '/');

	if (r->linked)
		return NULL;
	return slash ? slash + 1 : name;
}

/* Number of objects per key for which findings are merged; findings of further objects are not. */
#define OBJECTS_MOST 64

/*
 * Returns the group for an object, or the first group if `object` is null (a linked file). Returns null if there are
 * already OBJECTS_MOST groups for other objects.
 */
static struct seen *seen_by(struct seen *s, const char *object)
{
	size_t n = 0;

	while (object && s->object && strcmp(s->object, object)) {
		if (++n == OBJECTS_MOST)
			return NULL;
		if (!s->next)
			s->next = seen_new(s->key);
		s = s->next;
	}
	if (object)
		s->object = object;
	return s;
}

void seen_add(struct seen_all *a, struct report *r)
{
	const char *object = object_of(r);
	struct seen *s;
	size_t i;

	for (i = 0; i < r->count; i++) {
		struct report_finding *f = &r->list[i];

		if (!f->key || f->suppressed || f->known)
			continue;
		s = seen_by(seen_of(a, f->key), object);
		/* Equal findings in one file are not merged. */
		if (!s || (s->count && s->list[s->count - 1].report == r))
			continue;
		if (s->count == s->capacity) { /* most groups have one or two elements */
			s->capacity = 2 * s->capacity + 1;
			s->list = mem_resize(s->list, s->capacity, sizeof(*s->list));
		}
		s->list[s->count++] = (struct occurrence){r, f};
	}
}

static void join(const struct seen *s)
{
	bool compiler = false;
	size_t k;

	for (k = 0; k < s->count; k++)
		compiler |= s->list[k].finding->compiler;
	for (k = 0; k < s->count; k++) {
		s->list[k].finding->seen = s->count > 1 ? s : NULL;
		s->list[k].finding->compiler = compiler;
		s->list[k].finding->repeated = k > 0;
	}
}

void seen_join(struct seen_all *a)
{
	const struct seen *s;
	size_t i;

	for (i = 0; i < a->count; i++)
		for (s = a->list[i]; s; s = s->next)
			join(s);
}

void seen_free(struct seen_all *a)
{
	struct seen *s, *next;
	size_t i;

	for (i = 0; i < a->count; i++)
		for (s = a->list[i]; s; s = next) {
			next = s->next;
			free(s->list);
			free(s);
		}
	free(a->list);
	hash_index_free(&a->index);
	*a = (struct seen_all){0};
}
