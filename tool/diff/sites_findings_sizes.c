/* SPDX-License-Identifier: MIT */
/* Compares sites, findings and sizes of two files. */
#include "diff/pairs.h"
#include "support/memory.h"

#include <stdlib.h>
#include <string.h>

/* An element of a list of one file, with a key. The corresponding element of the other file has the same key. */
struct item {
	uint64_t key;
	size_t number; /* index of the element in its list */
};

static int item_order(const void *a, const void *b)
{
	const struct item *x = a, *y = b;

	if (x->key != y->key)
		return x->key < y->key ? -1 : 1;
	return x->number < y->number ? -1 : x->number > y->number;
}

/* Called for each item: with both items if their keys are equal, otherwise with null in place of the missing one. */
typedef void item_fn(void *ctx, const struct item *old, const struct item *new);

static void items_join(struct item *a, size_t na, struct item *b, size_t nb, item_fn *fn, void *ctx)
{
	size_t i = 0, k = 0;

	qsort(a, na, sizeof(*a), item_order);
	qsort(b, nb, sizeof(*b), item_order);
	while (i < na || k < nb) {
		if (k == nb || (i < na && a[i].key < b[k].key))
			fn(ctx, &a[i++], NULL);
		else if (i == na || b[k].key < a[i].key)
			fn(ctx, NULL, &b[k++]);
		else
			fn(ctx, &a[i++], &b[k++]);
	}
}

/*
 * Returns the canonical number of the function that contains a place or, outside of functions, a hash of the section's
 * name.
 */
static uint64_t place_canon(const struct image *im, uint32_t section, uint64_t addr)
{
	uint32_t fn = image_function(im, section, addr);

	return fn != NO_FUNC ? im->funcs[fn].canon : name_hash(&im->names, im->file.sections[section].name);
}

/* ---- sites ------------------------------------------------------------------------------ */

/* Returns the reason why a site is not live. Returns null if it is live, or of a kind that is never patched. */
static const char *site_why_not(const struct image *im, const struct site *s)
{
	const char *why = NULL;

	if (!site_kind_is_patched(s->kind))
		return NULL;
	if (s->reason)
		return s->reason;
	if (site_is_live(&im->subject.scan, s, &why))
		return NULL;
	return why ? why : "not live";
}

static void site_change_add(void *ctx, const struct item *old, const struct item *new)
{
	struct diff *d = ctx;
	struct site_change x = {old ? &d->old->subject.scan.sites[old->number] : NULL,
	                        new ? &d->new->subject.scan.sites[new->number] : NULL, NULL, NULL};

	if (old)
		x.was = site_why_not(d->old, x.old);
	if (new)
		x.is = site_why_not(d->new, x.new);
	if (old && new && (x.was == x.is || (x.was && x.is && !strcmp(x.was, x.is))))
		return;
	mem_reserve(&d->sites, &d->site_capacity, d->site_count, sizeof(*d->sites));
	d->sites[d->site_count++] = x;
}

static struct item *sites_list(const struct image *im)
{
	const struct scan *s = &im->subject.scan;
	struct item *out = mem_alloc(s->site_count + 1, sizeof(*out));
	size_t i;

	for (i = 0; i < s->site_count; i++) {
		const struct site *x = &s->sites[i];
		uint64_t key = mix(name_hash(&im->names, s->objects.list[x->object].name), (uint64_t)x->kind);

		key = mix(key, x->off_known ? (uint64_t)x->off : UINT64_MAX);
		out[i] = (struct item){mix(key, place_canon(im, x->section, x->addr)), i};
	}
	return out;
}

void compare_sites(struct diff *d)
{
	struct item *a = sites_list(d->old), *b = sites_list(d->new);

	items_join(a, d->old->subject.scan.site_count, b, d->new->subject.scan.site_count, site_change_add, d);
	free(a);
	free(b);
}

/* ---- findings ----------------------------------------------------------------------------- */

/* Context for comparing findings. */
struct finding_context {
	struct diff *d;
	struct item *rest[2]; /* for each file, the findings whose fingerprint the other file does not have */
	size_t rest_count[2];
};

static void finding_rest(void *ctx, const struct item *old, const struct item *new)
{
	struct finding_context *c = ctx;

	if (!old || !new)
		c->rest[!old][c->rest_count[!old]++] = old ? *old : *new;
}

static void finding_change_add(void *ctx, const struct item *old, const struct item *new)
{
	struct finding_context *c = ctx;
	struct diff *d = c->d;

	if (old && new)
		return;
	mem_reserve(&d->findings, &d->finding_capacity, d->finding_count, sizeof(*d->findings));
	d->findings[d->finding_count++] = old ? (struct finding_change){&d->old->report.list[old->number], true}
	                                      : (struct finding_change){&d->new->report.list[new->number], false};
}

static struct item *findings_list(const struct image *im, bool notes, size_t *count)
{
	struct item *out = mem_alloc(im->report.count + 1, sizeof(*out));
	size_t i;

	*count = 0;
	for (i = 0; i < im->report.count; i++)
		if (notes || im->report.list[i].entry->severity != SEVERITY_NOTE)
			out[(*count)++] = (struct item){im->report.list[i].fingerprint, i};
	return out;
}

/* Returns the index of the section of a place in a report, or 0. */
static uint32_t section_of(const struct image *im, const struct report_place *p)
{
	if (!p->section)
		return 0;
	return elf_is_object(&im->file) ? elf_section_find(&im->file, p->section, 1) : place_section(im, p->addr);
}

/*
 * If the function of a finding has another name or none in the other file, changes the finding's key to one of its ID
 * and function.
 */
static void finding_rekey(const struct image *im, const struct image *other, struct item *x)
{
	const struct report_finding *f = &im->report.list[x->number];
	const struct report_place *p = &f->place;
	uint32_t section = section_of(im, p);
	uint32_t fn = section ? image_function(im, section, p->addr) : NO_FUNC, pair;

	pair = fn == NO_FUNC ? NO_FUNC : im->funcs[fn].pair;
	if (pair == NO_FUNC || (!im->nameless && im->funcs[fn].name && other->funcs[pair].name &&
	                        !name_order(&im->names, im->funcs[fn].name, &other->names, other->funcs[pair].name)))
		return;
	x->key = mix(hash_text(f->entry->id), im->funcs[fn].canon);
}

void compare_findings(struct diff *d)
{
	size_t na, nb, i;
	struct item *a = findings_list(d->old, d->notes, &na), *b = findings_list(d->new, d->notes, &nb);
	struct finding_context c = {.d = d};

	c.rest[0] = mem_alloc(na + 1, sizeof(*a));
	c.rest[1] = mem_alloc(nb + 1, sizeof(*b));
	items_join(a, na, b, nb, finding_rest, &c);
	for (i = 0; i < c.rest_count[0]; i++)
		finding_rekey(d->old, d->new, &c.rest[0][i]);
	for (i = 0; i < c.rest_count[1]; i++)
		finding_rekey(d->new, d->old, &c.rest[1][i]);
	items_join(c.rest[0], c.rest_count[0], c.rest[1], c.rest_count[1], finding_change_add, &c);
	free(a);
	free(b);
	free(c.rest[0]);
	free(c.rest[1]);
}

/* ---- sizes ---------------------------------------------------------------------------------- */

/* Sections with a row of sizes of their own; other sections are counted by type. Several sections may share a row. */
static const struct {
	const char *section, *row;
	bool table;
} named[] = {
	{".eh_frame", ".eh_frame", true},
	{".eh_frame_hdr", ".eh_frame_hdr", false},
	{".gcc_except_table", ".gcc_except_table", false},
	{ETCH_SEC_UNWIND, "unwind table", true},
	{ETCH_SEC_ORC_IP, "unwind table", true},
	{ETCH_SEC_ORC, "unwind table", true},
	{ETCH_SEC_ORC_LOOKUP, "unwind table", true},
	{ETCH_SEC_IMV, ETCH_SEC_IMV, true},
	{ETCH_SEC_PV, ETCH_SEC_PV, true},
	{ETCH_SEC_OBJ, ETCH_SEC_OBJ, true},
	{ETCH_SEC_EXTABLE, ETCH_SEC_EXTABLE, true},
};

/* Returns the name of the row that counts the size of a section, or null. Sets *table if it is that of a table. */
static const char *section_row(const struct elf_section *s, bool *table)
{
	size_t i;

	*table = false;
	for (i = 0; i < sizeof(named) / sizeof(named[0]); i++) {
		/* With -ffunction-sections, the name of the section may be longer, as in ".gcc_except_table.name". */
		size_t n = strlen(named[i].section);

		if (strncmp(s->name, named[i].section, n) || (s->name[n] && s->name[n] != '.'))
			continue;
		*table = named[i].table;
		return named[i].row;
	}
	if (!(s->sh.sh_flags & SHF_ALLOC))
		return NULL;
	if (s->sh.sh_flags & SHF_EXECINSTR)
		return "text";
	if (s->sh.sh_type == SHT_NOBITS)
		return "zeroed data";
	if (s->sh.sh_flags & SHF_WRITE)
		return "data";
	return s->sh.sh_type == SHT_PROGBITS ? "read-only data" : NULL;
}

static void size_add(struct diff *d, const char *row, bool table, bool old, uint64_t size)
{
	size_t i;

	for (i = 0; i < d->size_count && strcmp(d->sizes[i].name, row); i++)
		;
	if (i == SIZES_MOST)
		return;
	if (i == d->size_count)
		d->sizes[d->size_count++] = (struct size_row){.name = row, .table = table};
	*(old ? &d->sizes[i].old : &d->sizes[i].new) += size;
}

static void sizes_of(struct diff *d, const struct image *im, bool old)
{
	const struct elf_file *f = &im->file;
	uint32_t i;

	for (i = 1; i < f->section_count; i++) {
		bool table;
		const char *row = f->sections[i].sh.sh_size ? section_row(&f->sections[i], &table) : NULL;

		if (row)
			size_add(d, row, table, old, f->sections[i].sh.sh_size);
	}
}

static uint64_t insns_of(const struct image *im)
{
	uint64_t n = 0;
	uint32_t i;

	for (i = 0; i < im->func_count; i++)
		n += im->funcs[i].insns;
	return n;
}

void compare_sizes(struct diff *d)
{
	static const char *const order[] = {"text", "read-only data", "data", "zeroed data"};
	size_t i;

	for (i = 0; i < sizeof(order) / sizeof(order[0]); i++)
		size_add(d, order[i], false, true, 0);
	sizes_of(d, d->old, true);
	sizes_of(d, d->new, false);
	d->counts[0] = (struct size_row){"functions", d->old->func_count, d->new->func_count, false};
	d->counts[1] = (struct size_row){"instructions", insns_of(d->old), insns_of(d->new), false};
	d->counts[2] =
		(struct size_row){"unwind rows", d->old->subject.frames.rows.count, d->new->subject.frames.rows.count, false};
	d->counts[3] =
		(struct size_row){"bytes with a row", d->old->subject.frames.covered, d->new->subject.frames.covered, false};
}
