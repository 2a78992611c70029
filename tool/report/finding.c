/* SPDX-License-Identifier: MIT */
/* Lists of findings. */
#include "report/finding.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static char *text_make(const char *format, va_list args)
{
	char *out;

	return vasprintf(&out, format, args) < 0 ? NULL : out;
}

static bool finding_room(struct findings *l, size_t more)
{
	size_t room = l->room ? (size_t)l->room * 2 : 8;
	struct finding *grown;

	if (l->count + more <= l->room)
		return true;
	if (room < l->count + more)
		room = l->count + more;
	if (room > UINT32_MAX)
		return false;
	grown = realloc(l->list, room * sizeof(*grown));
	if (!grown)
		return false;
	l->list = grown;
	l->room = (uint32_t)room;
	return true;
}

struct finding *finding_addv(struct findings *l, const char *id, uint32_t section, uint64_t addr, const char *format,
                             va_list args)
{
	char *text = text_make(format, args);
	struct finding *f;

	if (!text || !finding_room(l, 1)) {
		free(text);
		return NULL;
	}
	f = &l->list[l->count++];
	*f = (struct finding){.id = id, .section = section, .addr = addr, .text = text};
	return f;
}

struct finding *finding_add(struct findings *l, const char *id, uint32_t section, uint64_t addr, const char *format,
                            ...)
{
	struct finding *f;
	va_list args;

	va_start(args, format);
	f = finding_addv(l, id, section, addr, format, args);
	va_end(args);
	return f;
}

/* Takes ownership of `text`, also on failure. */
static bool fact_add(struct finding *f, const struct fact *where, const char *label, char *text)
{
	struct fact *grown = f && text ? realloc(f->facts, (f->fact_count + 1) * sizeof(*grown)) : NULL;
	char *name = strdup(label);

	if (grown)
		f->facts = grown;
	if (!grown || !name) {
		free(name);
		free(text);
		return false;
	}
	grown += f->fact_count++;
	*grown = *where;
	grown->label = name;
	grown->text = text;
	return true;
}

bool finding_fact(struct finding *f, const char *label, const char *format, ...)
{
	static const struct fact nowhere;
	va_list args;
	char *text;

	va_start(args, format);
	text = text_make(format, args);
	va_end(args);
	return fact_add(f, &nowhere, label, text);
}

bool finding_fact_at(struct finding *f, uint32_t section, uint64_t addr, const char *label, const char *format, ...)
{
	struct fact where = {.placed = true, .section = section, .addr = addr};
	va_list args;
	char *text;

	va_start(args, format);
	text = text_make(format, args);
	va_end(args);
	return fact_add(f, &where, label, text);
}

bool findings_take(struct findings *to, struct findings *from)
{
	if (!from->count)
		return true;
	if (!finding_room(to, from->count))
		return false;
	memcpy(to->list + to->count, from->list, from->count * sizeof(*from->list));
	to->count += from->count;
	free(from->list);
	*from = (struct findings){0};
	return true;
}

static int finding_order(const void *a, const void *b)
{
	const struct finding *x = a, *y = b;
	int by_id;

	if (x->section != y->section)
		return x->section < y->section ? -1 : 1;
	if (x->addr != y->addr)
		return x->addr < y->addr ? -1 : 1;
	by_id = strcmp(x->id, y->id);
	return by_id ? by_id : strcmp(x->text, y->text);
}

void findings_sort(struct findings *l)
{
	if (l->count)
		qsort(l->list, l->count, sizeof(*l->list), finding_order);
}

void finding_free(struct finding *f)
{
	size_t i;

	for (i = 0; i < f->fact_count; i++) {
		free(f->facts[i].label);
		free(f->facts[i].text);
	}
	free(f->facts);
	free(f->also);
	free(f->text);
}

void findings_free(struct findings *l)
{
	size_t i;

	for (i = 0; i < l->count; i++)
		finding_free(&l->list[i]);
	free(l->list);
	*l = (struct findings){0};
}
