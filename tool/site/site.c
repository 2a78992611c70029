/* SPDX-License-Identifier: MIT */
/* Keeps the lists of objects and sites for both scanners, and makes sites of the uses that the tracker reports. */
#include "analysis/addresses/flags.h"
#include "site/linked.h"
#include "site/site.h"
#include "shared/search.h"
#include "site/classify.h"
#include "support/memory.h"

#include <etch/pv_forms.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- lists --------------------------------------------------------------- */

/*
 * Is this a section of dense objects? If a linker script has placed it on pages of its own, it is treated like other
 * etched sections.
 */
static bool section_is_dense(const struct elf_file *f, const struct elf_section *x)
{
	return elf_name_is(x->name, ETCH_SEC_DENSE) &&
	       (elf_is_object(f) || ((x->sh.sh_addr | x->sh.sh_size) & (ETCH_PAGE - 1)));
}

void scan_object_add(struct scan *s, const struct object *o)
{
	struct object_list *l = &s->objects;

	mem_reserve(&l->list, &l->capacity, l->count, sizeof(*l->list));
	l->list[l->count] = *o;
	l->list[l->count++].dense = o->section && !o->value && section_is_dense(s->file, &s->file->sections[o->section]);
}

static int object_order(const void *a, const void *b)
{
	const struct object *x = a, *y = b;

	if (!x->section != !y->section)
		return x->section ? -1 : 1;
	if (x->section != y->section)
		return x->section < y->section ? -1 : 1;
	if (x->addr != y->addr)
		return x->addr < y->addr ? -1 : 1;
	if (x->size != y->size)
		return x->size > y->size ? -1 : 1;
	return strcmp(x->name, y->name);
}

void scan_objects_sort(struct scan *s)
{
	struct object_list *l = &s->objects;
	size_t i, n = 0;

	if (l->count)
		qsort(l->list, l->count, sizeof(*l->list), object_order);
	/*
	 * Merges aliases, which get the name of the first one, and objects that have both a record of the object step and a
	 * symbol.
	 */
	for (i = 0; i < l->count; i++) {
		if (n && l->list[i].section && l->list[i].section == l->list[n - 1].section &&
		    l->list[i].addr < l->list[n - 1].addr + l->list[n - 1].size) {
			l->list[n - 1].facts |= l->list[i].facts;
			l->list[n - 1].vague |= l->list[i].vague;
			free(l->list[i].name);
			continue;
		}
		l->list[n++] = l->list[i];
	}
	l->count = n;
	for (l->defined = 0; l->defined < n && l->list[l->defined].section; l->defined++)
		;
}

int32_t scan_object_find(const struct scan *s, uint32_t section, uint64_t at, bool end_too)
{
	const struct object_list *l = &s->objects;
	size_t lo =
		SEARCH(l->defined, i, l->list[i].section < section || (l->list[i].section == section && l->list[i].addr <= at));
	const struct object *o;

	if (!lo)
		return -1;
	o = &l->list[lo - 1];
	if (o->section != section || at - o->addr > o->size || (at - o->addr == o->size && !end_too))
		return -1;
	return (int32_t)(lo - 1);
}

void scan_site_add(struct scan *s, const struct site *site)
{
	mem_reserve(&s->sites, &s->site_capacity, s->site_count, sizeof(*s->sites));
	s->sites[s->site_count++] = *site;
}

void scan_suspect_all(struct scan *s, uint32_t section, uint32_t code, uint64_t addr, uint8_t len)
{
	size_t k;

	for (k = 0; k < s->objects.defined; k++) {
		struct site site = {.section = code, .addr = addr, .kind = SITE_ESCAPE, .object = (int32_t)k, .len = len};

		if (s->objects.list[k].section == section)
			scan_site_add(s, &site);
	}
}

void scan_finding_add(struct scan *s, const char *id, uint32_t section, uint64_t addr, const char *format, ...)
{
	va_list ap;

	va_start(ap, format);
	finding_addv(&s->findings, id, section, addr, format, ap);
	va_end(ap);
}

static int site_order(const void *a, const void *b)
{
	const struct site *x = a, *y = b;

	if (x->section != y->section)
		return x->section < y->section ? -1 : 1;
	if (x->addr != y->addr)
		return x->addr < y->addr ? -1 : 1;
	if (x->kind != y->kind)
		return x->kind < y->kind ? -1 : 1;
	if (x->object != y->object)
		return x->object < y->object ? -1 : 1;
	return (x->off > y->off) - (x->off < y->off);
}

/*
 * Merges a second use of the same instruction, offset and kind into the first, and keeps what is known of both. If one
 * of them is known only from a table, that one is dropped.
 */
static void site_merge(struct site *a, const struct site *b)
{
	if (b->recorded)
		return;
	if (a->recorded) {
		*a = *b;
		return;
	}
	a->indexed = (a->off_known || a->indexed) && (b->off_known || b->indexed) && !(a->off_known && b->off_known);
	a->off_known = a->off_known && b->off_known;
	a->as_pointer = a->as_pointer && b->as_pointer;
	a->argument = a->argument && b->argument;
	a->kernel = a->kernel || b->kernel;
	a->beside |= b->beside;
	a->size = a->size > b->size ? a->size : b->size;
}

void scan_sites_sort(struct scan *s)
{
	size_t i, n = 0;

	if (s->site_count)
		qsort(s->sites, s->site_count, sizeof(*s->sites), site_order);
	for (i = 0; i < s->site_count; i++) {
		if (!site_kind_is_patched(s->sites[i].kind) && s->objects.list[s->sites[i].object].value)
			continue;
		if (n && !site_order(&s->sites[n - 1], &s->sites[i]))
			site_merge(&s->sites[n - 1], &s->sites[i]);
		else
			s->sites[n++] = s->sites[i];
	}
	s->site_count = n;
	for (i = 0; i < n; i++) {
		const struct site *t = &s->sites[i];

		if (t->kind == SITE_STORE)
			s->objects.list[t->object].facts |= ETCH_OBJ_STORED;
		else if (t->kind == SITE_ESCAPE)
			s->objects.list[t->object].facts |= ETCH_OBJ_ESCAPED;
	}
}

bool scan_is_relocated(const struct scan *s, uint64_t addr, uint64_t size)
{
	size_t lo = SEARCH(s->relocated_count, i, s->relocated[i] + 8 <= addr);

	return lo < s->relocated_count && s->relocated[lo] < addr + size;
}

void scan_free(struct scan *s)
{
	size_t i, k;

	for (i = 0; i < s->objects.count; i++) {
		free(s->objects.list[i].name);
		for (k = 0; k < s->objects.list[i].range_count; k++)
			free(s->objects.list[i].ranges[k].name);
		free(s->objects.list[i].ranges);
		free(s->objects.list[i].stored);
		members_free(&s->objects.list[i].members);
		indexes_free(&s->objects.list[i].indexes);
	}
	free(s->objects.list);
	free(s->sites);
	findings_free(&s->findings);
	free(s->commuted);
	free(s->vague);
	free(s->slots);
	free(s->relocated);
	free(s->code_words);
	free(s->init_words);
	entries_free(&s->entries);
	func_clobbers_free(&s->clobbers);
	func_list_free(&s->funcs);
	kernel_reach_free(&s->kernel);
	imports_free(&s->imports);
	function_types_free(s->types);
	lines_close(s->lines);
	memset(s, 0, sizeof(*s));
}

bool section_is_settings(const struct elf_section *s)
{
	return !strncmp(s->name, ETCH_SEC_TABLE, strlen(ETCH_SEC_TABLE));
}

bool section_is_etched(const struct elf_section *s, bool *shared)
{
	*shared = elf_name_is(s->name, ETCH_SEC_SCALAR);
	return (*shared || elf_name_is(s->name, ETCH_SEC_OBJECT) || elf_name_is(s->name, ETCH_SEC_DENSE)) &&
	       (s->sh.sh_flags & SHF_ALLOC);
}

/* ---- names --------------------------------------------------------------- */

static int name_order(const void *a, const void *b) { return strcmp(*(char *const *)a, *(char *const *)b); }

bool name_set_has(const struct name_set *s, const char *name)
{
	return s && s->count && bsearch(&name, s->names, s->count, sizeof(*s->names), name_order);
}

void name_set_add(struct name_set *s, const char *name)
{
	mem_reserve(&s->names, &s->capacity, s->count, sizeof(*s->names));
	s->names[s->count++] = mem_string(name);
}

void name_set_sort(struct name_set *s)
{
	if (s->count)
		qsort(s->names, s->count, sizeof(*s->names), name_order);
}

void name_set_free(struct name_set *s)
{
	size_t i;

	for (i = 0; i < s->count; i++)
		free(s->names[i]);
	free(s->names);
	memset(s, 0, sizeof(*s));
}

void scan_defined_names(const struct elf_file *f, struct name_set *out)
{
	uint32_t i;
	bool shared;

	for (i = 1; i < f->symbol_count; i++) {
		const struct elf_symbol *y = &f->symbols[i];

		if (y->section && y->bind != STB_LOCAL && y->name[0] && section_is_etched(&f->sections[y->section], &shared))
			name_set_add(out, y->name);
	}
}

void scan_callee(const struct scan *s, const struct func *own, uint32_t section, struct insn *in)
{
	const struct func *fn;

	if (in->flow != FLOW_CALL && in->flow != FLOW_JUMP && in->flow != FLOW_BRANCH)
		return;
	if (!strncmp(s->file->sections[section].name, ".plt", 4))
		return; /* it calls another module, which follows the ABI */
	fn = func_find(&s->funcs, section, in->target);
	if (!fn || (fn == own && in->flow != FLOW_CALL))
		return;
	in->callee = (int32_t)(fn - s->funcs.funcs);
	in->entry = in->target;
}

/* ---- uses -> sites ------------------------------------------------------- */

/*
 * The address of a use was derived from one part of an object, but may be in another part. Returns the use with that
 * other part as its object.
 */
static struct use use_in_part(const struct scan *s, const struct use *u)
{
	const struct object *o = &s->objects.list[u->object];
	struct use out = *u;
	uint64_t at = o->addr + (uint64_t)u->off;
	int32_t k;

	if (!o->inferred || !u->off_known || u->got || at - o->addr < o->size)
		return out;
	k = scan_object_find(s, o->section, at, false);
	if (k >= 0) {
		out.object = k;
		out.off = (int64_t)(at - s->objects.list[k].addr);
	}
	return out;
}

/* May the kernel store to an address that a function stores in memory, such as the address in an iovec for readv? */
static bool escapes_to_kernel(struct function_scan *c, const struct use *u)
{
	if (u->kind != USE_ESCAPE || u->argument)
		return false;
	if (c->in_memory < 0)
		c->in_memory = kernel_reach_in_memory(c->func->kernel, c->func->fn, c->func->code);
	return c->in_memory;
}

/* Makes a site of a use that the tracker has found, and adds it. */
static void use_take(void *arg, const struct use *use)
{
	static const enum site_kind kinds[] = {SITE_LOAD, SITE_STORE, SITE_ESCAPE, SITE_CALL};
	struct function_scan *c = arg;
	const struct use in_part = use_in_part(c->scan, use), *u = &in_part;
	const struct insn *in = &c->func->code->insns[u->insn];
	struct site site = {
		.section = c->func->fn->section,
		.addr = in->addr,
		.kind = kinds[u->kind],
		.object = u->object,
		.off = u->off,
		.off_known = u->off_known,
		.len = in->len,
		.size = u->kind == USE_CALL ? 8 : in->mem_size,
		.indexed = u->indexed,
		.as_pointer = u->as_pointer,
		.argument = u->argument,
		.kernel = u->kernel || escapes_to_kernel(c, u),
		.stored_at = u->kind == USE_ESCAPE && !u->argument && !elf_is_object(c->scan->file) && in->mem == MEM_WRITE
	                     ? insn_place(in, c->scan->file->eh.e_type == ET_EXEC)
	                     : 0,
		.beside = u->got ? 0 : u->beside,
	};

	if (site.kind == SITE_LOAD)
		site_load_classify(c, u, &site);
	else if (site.kind == SITE_CALL)
		site_call_classify(c, u, &site);
	else
		site.entry.flags = u->got ? ETCH_IMV_GOT : 0;
	scan_site_add(c->scan, &site);
}

struct lines *scan_lines(struct scan *s)
{
	if (!s->lines_tried) {
		s->lines = lines_open(s->file);
		s->types = function_types_read(s->lines, s->file);
		imports_read(&s->imports, s->file, s->types);
		if (!elf_is_object(s->file))
			kernel_reach_init(&s->kernel, &s->imports, &s->funcs);
	}
	s->lines_tried = true;
	return s->lines;
}

int scan_function(struct scan *s, const struct func *fn, const struct func_code *code, const struct ref *mem,
                  const struct ref *imm)
{
	struct track_entries x;
	struct track_func f = {fn,   code,        mem,       imm, &x, s->clobbers.known ? &s->clobbers : NULL,
	                       NULL, &s->imports, &s->kernel};
	struct function_scan c = {s, &f, NULL, -1, -1};

	if (!s->entries.built &&
	    entries_build(&s->entries, s->file, &s->funcs, s->code_words, s->code_word_count, &s->error))
		return -1;
	x = entries_of(&s->entries, fn, code);
	scan_lines(s);
	f.types = s->types;
	track_uses(&f, use_take, &c);
	free(c.live_flags);
	return 0;
}
