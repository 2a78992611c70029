/* SPDX-License-Identifier: MIT */
/* Maintains lists of findings. */
#include "report/finding.h"
#include "support/bounds.h"
#include "support/memory.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void findings_grow(struct findings *l, size_t more)
{
	size_t capacity = l->capacity ? (size_t)l->capacity * 2 : 8;

	if (l->count + more <= l->capacity)
		return;
	if (capacity < l->count + more)
		capacity = l->count + more;
	if (capacity > UINT32_MAX)
		bounds_exhausted();
	l->list = mem_resize(l->list, capacity, sizeof(*l->list));
	l->capacity = (uint32_t)capacity;
}

struct finding *finding_addv(struct findings *l, const char *id, uint32_t section, uint64_t addr, const char *format,
                             va_list args)
{
	struct finding *f;

	findings_grow(l, 1);
	f = &l->list[l->count++];
	*f = (struct finding){.id = id, .section = section, .addr = addr, .text = mem_formatv(format, args)};
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

static void fact_add(struct finding *f, struct fact fact, const char *label, const char *format, va_list args)
{
	fact.label = mem_string(label);
	fact.text = mem_formatv(format, args);
	f->facts = mem_resize(f->facts, f->fact_count + 1, sizeof(*f->facts));
	f->facts[f->fact_count++] = fact;
}

void finding_fact(struct finding *f, const char *label, const char *format, ...)
{
	va_list args;

	va_start(args, format);
	fact_add(f, (struct fact){.placed = false}, label, format, args);
	va_end(args);
}

void finding_fact_at(struct finding *f, uint32_t section, uint64_t addr, const char *label, const char *format, ...)
{
	va_list args;

	va_start(args, format);
	fact_add(f, (struct fact){.placed = true, .section = section, .addr = addr}, label, format, args);
	va_end(args);
}

void findings_take(struct findings *to, struct findings *from)
{
	if (!from->count)
		return;
	findings_grow(to, from->count);
	memcpy(to->list + to->count, from->list, from->count * sizeof(*from->list));
	to->count += from->count;
	free(from->list);
	*from = (struct findings){0};
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
