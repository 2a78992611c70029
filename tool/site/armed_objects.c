/* SPDX-License-Identifier: MIT */
/* Decides which etched objects of a linked file are armed from the start (armed_objects.h). */
#include "site/armed_objects.h"

#include "shared/search.h"
#include "support/memory.h"
#include "support/sort.h"

#include <stdlib.h>
#include <string.h>

static bool has_libetch(const struct elf_file *f)
{
	const struct elf_symbol *lists[2] = {f->symbols, f->dynsyms};
	uint32_t counts[2] = {f->symbol_count, f->dynsym_count}, i;
	int k;

	for (k = 0; k < 2; k++)
		for (i = 1; i < counts[k]; i++)
			if (!strncmp(lists[k][i].name, "etch_module_load_v", 18))
				return true;
	/* Without symbols it is not known whether a static file contains libetch, so it is assumed to. */
	return !f->symbol_count;
}

/* Addresses of data that another module can refer to by name, sorted. */
struct exports {
	uint64_t *list;
	size_t count;
};

static struct exports exports_find(const struct elf_file *f)
{
	struct exports x = {mem_alloc(f->dynsym_count, sizeof(*x.list)), 0};
	uint32_t i;

	for (i = 1; i < f->dynsym_count; i++) {
		const struct elf_symbol *y = &f->dynsyms[i];

		if (y->section && y->type == STT_OBJECT && y->bind != STB_LOCAL)
			x.list[x.count++] = y->value;
	}
	sort_words(x.list, x.count);
	return x;
}

static bool is_exported(const struct exports *x, const struct object *o)
{
	size_t k = SEARCH(x->count, i, x->list[i] < o->addr);

	return k < x->count && x->list[k] - o->addr < o->size;
}

/*
 * Does the file keep the relocations of its code, as with --emit-relocs? BOLT uses them to move code. It would then
 * write an object's address into the immediate of a baked site, and a later etch_set() would not find the immediate at
 * its new place.
 */
static bool code_has_relocs(const struct elf_file *f)
{
	uint32_t i;

	for (i = 1; i < f->section_count; i++) {
		const Elf64_Shdr *sh = &f->sections[i].sh;

		if (sh->sh_type == SHT_RELA && !(sh->sh_flags & SHF_ALLOC) && sh->sh_size && sh->sh_info < f->section_count &&
		    (f->sections[sh->sh_info].sh.sh_flags & SHF_EXECINSTR))
			return true;
	}
	return false;
}

/* Returns the start of the page that contains an address. */
static uint64_t object_page(uint64_t addr) { return addr & ~(uint64_t)(ETCH_PAGE - 1); }

/*
 * Is any byte of [from, to) of object k on a page with a byte of another object, or with a byte that stays a load? Such
 * a page stays writable, or may.
 */
static bool range_is_exposed(const struct scan *s, size_t k, uint64_t from, uint64_t to)
{
	const struct object *o = &s->objects.list[k], *next;
	uint64_t first = object_page(o->addr + from), end = object_page(o->addr + to + ETCH_PAGE - 1);
	size_t i;

	if (k && s->objects.list[k - 1].addr < first + ETCH_PAGE &&
	    s->objects.list[k - 1].addr + s->objects.list[k - 1].size > first)
		return true;
	next = k + 1 < s->objects.defined ? o + 1 : NULL;
	if (next && next->addr < end && next->addr >= o->addr)
		return true;
	for (i = 0; i < o->range_count; i++)
		if (o->ranges[i].kept && o->addr + o->ranges[i].from < end && o->addr + o->ranges[i].to > first)
			return true;
	return false;
}

/*
 * For an exported object: keeps as loads those of its bytes that are on a page that stays writable. A module that the
 * tool has not seen may store to any of its bytes, so only a read-only page guards them.
 */
static void exported_keep(struct scan *s, size_t k)
{
	struct object *o = &s->objects.list[k];
	bool more = true;
	size_t i;

	o->kept = true;
	while (more) { /* a range may extend into the next page */
		more = false;
		for (i = 0; i < o->range_count; i++) {
			struct object_range *p = &o->ranges[i];

			if (p->kept || !range_is_exposed(s, k, p->from, p->to))
				continue;
			p->kept = p->open = more = true;
		}
	}
}

/* Facts about the file as a whole that decide about its objects. */
struct judged_file {
	const struct elf_file *file;
	struct exports exports;
	bool has_libetch, has_module, code_has_relocs;
};

/*
 * Returns the reason why an object cannot be armed, if its place or the file is that reason (and not its uses);
 * otherwise null.
 */
static const char *place_reason(const struct judged_file *j, const struct object *o)
{
	const Elf64_Shdr *sh = &j->file->sections[o->section].sh;

	if (o->exported)
		return OBJECT_EXPORTED;
	if (!o->value && !o->dense &&
	    (object_page(o->addr) < sh->sh_addr ||
	     object_page(o->addr + o->size + ETCH_PAGE - 1) > sh->sh_addr + sh->sh_size))
		return "its section shares a page with other data (<etch/imv.h> would pad it)";
	if (!(sh->sh_flags & SHF_WRITE))
		return "its section is read-only";
	if (o->unrecorded)
		return "no space left in the tables of this file";
	if (!j->has_module)
		return "no module descriptor: no file that includes <etch/imv.h> was linked";
	if (j->code_has_relocs)
		return "the file keeps the relocations of its code (--emit-relocs)";
	return j->has_libetch ? NULL : "libetch, which would protect it, is not linked";
}

/* Returns the reason why an object cannot be armed, if its uses are that reason; otherwise null. */
static const char *use_reason(const struct object *o)
{
	bool escapes = o->facts & ETCH_OBJ_ESCAPED;

	if (o->facts & ETCH_OBJ_STORED)
		return escapes ? "stored to directly, and its address escapes" : "stored to directly";
	if (!escapes)
		return NULL;
	return o->suspect ? "an address in its section escapes, of an unknown object (stripped symbols)"
	                  : "its address escapes";
}

void objects_judge(struct scan *s, const struct linked_tables *now)
{
	struct judged_file j = {.file = s->file,
	                        .exports = exports_find(s->file),
	                        .has_libetch = has_libetch(s->file),
	                        .has_module = now->module_count,
	                        .code_has_relocs = code_has_relocs(s->file)};
	const char *use;
	size_t i;

	for (i = 0; i < s->objects.defined; i++) {
		struct object *o = &s->objects.list[i];

		o->exported = !object_is_imv(o) && !s->closed && is_exported(&j.exports, o);
		if (o->exported)
			exported_keep(s, i);
		o->unarmed_why = place_reason(&j, o);
		o->in_part = !o->unarmed_why && o->facts && o->bounded;
		use = use_reason(o);
		if (use)
			o->unarmed_why = use;
		o->armed = !o->unarmed_why;
	}
	for (; i < s->objects.count; i++)
		s->objects.list[i].unarmed_why = "defined in another module: decided at load time";
	free(j.exports.list);
}
