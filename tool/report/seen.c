/* SPDX-License-Identifier: MIT */
/* A hash table of findings by the key of their code. */
#include "report/seen.h"

#include <stdlib.h>
#include <string.h>

static bool grow(struct seen_all *a)
{
	size_t room = a->room ? 2 * a->room : 256, i, k;
	struct seen **table = calloc(room, sizeof(*table));

	if (!table)
		return false;
	for (i = 0; i < a->room; i++) {
		if (!a->table[i])
			continue;
		for (k = a->table[i]->key & (room - 1); table[k]; k = (k + 1) & (room - 1))
			;
		table[k] = a->table[i];
	}
	free(a->table);
	a->table = table;
	a->room = room;
	return true;
}

static struct seen *seen_of(struct seen_all *a, uint64_t key)
{
	size_t i;

	if (2 * a->count >= a->room && !grow(a))
		return NULL;
	for (i = key & (a->room - 1); a->table[i]; i = (i + 1) & (a->room - 1))
		if (a->table[i]->key == key)
			return a->table[i];
	a->table[i] = calloc(1, sizeof(*a->table[i]));
	if (a->table[i]) {
		a->table[i]->key = key;
		a->count++;
	}
	return a->table[i];
}

static const char *object_of(const struct report *r)
{
	const char *name = r->member ? r->member : r->path, *slash = strrchr(name, '/');

	if (r->linked)
		return NULL;
	return slash ? slash + 1 : name;
}

#define OBJECTS_MOST 64 /* objects per key that are told apart; findings of further ones are not merged */

/* The entry for an object, or the first one for a linked file. Null: out of memory, or *full: OBJECTS_MOST
 * reached. */
static struct seen *seen_by(struct seen *s, const char *object, bool *full)
{
	size_t n = 0;

	while (s && object && s->object && strcmp(s->object, object)) {
		*full = ++n == OBJECTS_MOST;
		if (*full)
			return NULL;
		if (!s->next) {
			s->next = calloc(1, sizeof(*s->next));
			if (s->next)
				s->next->key = s->key;
		}
		s = s->next;
	}
	if (s && object)
		s->object = object;
	return s;
}

bool seen_add(struct seen_all *a, struct report *r)
{
	const char *object = object_of(r);
	struct occurrence *grown;
	struct seen *s;
	bool full;
	size_t i;

	for (i = 0; i < r->count; i++) {
		struct report_finding *f = &r->list[i];

		if (!f->key || f->suppressed || f->known)
			continue;
		s = seen_of(a, f->key);
		full = false;
		s = s ? seen_by(s, object, &full) : NULL;
		if (full)
			continue;
		if (!s)
			return false;
		/* Equal findings in one file are not merged. */
		if (s->count && s->list[s->count - 1].report == r)
			continue;
		if (s->count == s->room) {
			grown = realloc(s->list, (2 * s->room + 1) * sizeof(*grown));
			if (!grown)
				return false;
			s->list = grown;
			s->room = 2 * s->room + 1;
		}
		s->list[s->count++] = (struct occurrence){r, f};
	}
	return true;
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

	for (i = 0; i < a->room; i++)
		for (s = a->table[i]; s; s = s->next)
			join(s);
}

void seen_free(struct seen_all *a)
{
	struct seen *s, *next;
	size_t i;

	for (i = 0; i < a->room; i++)
		for (s = a->table[i]; s; s = next) {
			next = s->next;
			free(s->list);
			free(s);
		}
	free(a->table);
	*a = (struct seen_all){0};
}
