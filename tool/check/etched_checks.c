/* SPDX-License-Identifier: MIT */
/*
 * Implements ETCH-I005 to ETCH-I007 and ETCH-P002: objects that cannot be armed, and sites that cannot be patched live,
 * with the reasons. There is one finding per function, object and reason; for stores, also per field.
 */
#include "arch/x86/insn.h"
#include "check/check.h"
#include "elf/symbols.h"
#include "support/memory.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#define PLACES_SHOWN 4 /* number of places that a finding lists in addition to its own */

/* A site that gets a finding. */
struct judgement {
	const struct site *site;
	const struct elf_symbol *function; /* null: the function is not known */
	const char *id;
	const char *why;            /* the reason why the site is not patched live; null for stores and escapes */
	const struct member *field; /* the field to which the instruction stores; null: it is not known */
};

/* Returns true if the site gets a finding, and describes it in *out. */
static bool judge(const struct scan *s, const struct site *site, struct judgement *out)
{
	const struct object *o = &s->objects.list[site->object];

	out->why = NULL;
	out->field = site->kind == SITE_STORE && site->off_known ? member_at(&o->members, (uint64_t)site->off) : NULL;
	if (!site_kind_is_patched(site->kind)) {
		out->id = site->kind == SITE_STORE ? "ETCH-I005" : "ETCH-I006";
		return true;
	}
	out->id = site->kind == SITE_LOAD ? "ETCH-I007" : "ETCH-P002";
	return !site_is_live(s, site, &out->why);
}

static int judgement_order(const void *a, const void *b)
{
	const struct judgement *x = a, *y = b;
	int r;

	if (x->site->section != y->site->section)
		return x->site->section < y->site->section ? -1 : 1;
	if (x->function != y->function)
		return !x->function || (y->function && x->function->value < y->function->value) ? -1 : 1;
	r = strcmp(x->id, y->id);
	if (r)
		return r;
	if (x->site->object != y->site->object)
		return x->site->object < y->site->object ? -1 : 1;
	if (x->field != y->field)
		return !x->field || (y->field && x->field->off < y->field->off) ? -1 : 1;
	r = x->why && y->why ? strcmp(x->why, y->why) : 0;
	if (r)
		return r;
	if (x->site->in_data != y->site->in_data)
		return x->site->in_data < y->site->in_data ? -1 : 1;
	return x->site->addr < y->site->addr ? -1 : x->site->addr > y->site->addr;
}

static bool is_same(const struct judgement *x, const struct judgement *y)
{
	return x->site->section == y->site->section && x->function == y->function && !strcmp(x->id, y->id) &&
	       x->site->object == y->site->object && x->field == y->field && (!x->why || !strcmp(x->why, y->why)) &&
	       x->site->in_data == y->site->in_data;
}

static struct finding *judgement_add(struct subject *s, const struct judgement *x, size_t more)
{
	const struct object *o = &s->scan.objects.list[x->site->object];
	const struct site *site = x->site;

	switch (site->kind) {
	case SITE_STORE:
		return finding_add(&s->found, x->id, site->section, site->addr,
		                   more ? "stores to %s%s%s without etch_set, here and at %zu more places"
		                        : "stores to %s%s%s without etch_set",
		                   o->name, x->field ? "." : "", x->field ? x->field->name : "", more);
	case SITE_ESCAPE:
		if (site->in_data)
			return finding_add(&s->found, x->id, site->section, site->addr, "a data word holds the address of %s",
			                   o->name);
		return finding_add(&s->found, x->id, site->section, site->addr,
		                   more ? "the address of %s escapes, here and at %zu more places"
		                        : "the address of %s escapes",
		                   o->name, more);
	default:
		return finding_add(&s->found, x->id, site->section, site->addr,
		                   more ? "a %s %s cannot be patched live: %s (and at %zu more places)"
		                        : "a %s %s cannot be patched live: %s",
		                   site->kind == SITE_LOAD ? "load of" : "call through", o->name, x->why, more);
	}
}

/* Adds the instruction at a site, as text, to a finding. */
static void site_fact(struct finding *f, const struct subject *s, const char *label, const struct site *site)
{
	struct elf_held held = elf_held(s->file, site->section, site->addr);
	char text[160];

	if (site->in_data || !site->len || !held.size)
		return;
	insn_text(held.bytes, held.size, site->addr, text, sizeof(text));
	finding_fact_at(f, site->section, site->addr, label, "%s", text);
}

static void group_report(struct subject *s, const struct judgement *group, size_t count)
{
	struct finding *f = judgement_add(s, group, count - 1);
	size_t i;

	site_fact(f, s, "instruction", group[0].site);
	for (i = 1; i < count && i <= PLACES_SHOWN; i++)
		site_fact(f, s, "also", group[i].site);
}

void check_etched(struct subject *s)
{
	struct judgement *list = mem_zero(s->scan.site_count + 1, sizeof(*list));
	struct symbol_index symbols = {0};
	size_t n = 0, i, k;

	if (s->scan.site_count)
		symbol_index_build(s->file, symbol_is_function, &symbols);
	for (i = 0; i < s->scan.site_count; i++) {
		const struct site *site = &s->scan.sites[i];

		list[n].site = site;
		if (!judge(&s->scan, site, &list[n]))
			continue;
		list[n].function = symbol_index_find(&symbols, site->section, site->addr);
		n++;
	}
	if (n)
		qsort(list, n, sizeof(*list), judgement_order);
	for (i = 0; i < n; i = k) {
		for (k = i + 1; k < n && is_same(&list[i], &list[k]); k++)
			;
		group_report(s, &list[i], k - i);
	}
	symbol_index_free(&symbols);
	free(list);
}
