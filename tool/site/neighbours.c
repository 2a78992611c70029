/* SPDX-License-Identifier: MIT */
/*
 * Handles addresses that may mean an object next to the one that contains them. Objects are adjacent in memory.
 * Compilers fold the constant part of an index into an address (arr[i - 1], arr[c - 'a']), which may so be outside the
 * array; and the end of an array, from which a pointer may run down, is the start of the next object. A linked file
 * shows only addresses. So does an object file for its local objects, to which it refers by section and offset. A store
 * to such an address, or its escape, is therefore also counted as a fact about the neighbour.
 */
#include "dwarf/lines.h"
#include "site/linked.h"
#include "site/site.h"
#include "support/memory.h"
#include "shared/search.h"

#include <stdlib.h>

/* Least size of a variable without DWARF that may be an array. If its address is taken, it is assumed to be one. */
#define ARRAY_LEAST 9u

static const struct indexes *object_indexes(struct scan *s, struct object *o)
{
	if (!o->indexes_tried && !elf_is_object(s->file))
		indexes_find(scan_lines(s), o->addr, &o->indexes);
	o->indexes_tried = true;
	return &o->indexes;
}

/*
 * Does an array of the object begin at `off`, so that an index may be added to this address? `step` is the greatest
 * possible distance in bytes from one element to the next, or 0 if it is not known.
 */
static bool index_begins(struct scan *s, struct object *o, uint64_t off, unsigned step)
{
	const struct indexes *x = object_indexes(s, o);
	size_t i;

	if (!x->known)
		return !off && o->size > (step ? step : ARRAY_LEAST - 1);
	for (i = 0; i < x->count; i++)
		if (off >= x->list[i].from && off < x->list[i].to)
			return true;
	return false;
}

uint8_t scan_ref_beside(struct scan *s, const struct ref *r, const struct insn *in, bool immediate)
{
	bool index = !immediate && (in->index != INSN_NO_REG || in->base < INSN_PC_REG);
	struct object *o;
	unsigned step = 0;

	if (r->object < 0 || r->got || (!immediate && !index && in->mem != MEM_ADDRESS))
		return 0;
	o = &s->objects.list[r->object];
	if (!o->section || o->value || o->inferred)
		return 0;
	if (index)
		step = in->mem_size > in->scale ? in->mem_size : in->scale;
	return (r->off ? 0 : BESIDE_END) | (index_begins(s, o, (uint64_t)r->off, step) ? 0 : BESIDE_ANY);
}

/* Is an address less than a page away from the etched sections? */
static bool is_near(const struct range *etched, uint64_t at)
{
	return etched->lo < etched->hi && at + ETCH_PAGE > etched->lo && at < etched->hi + ETCH_PAGE;
}

/*
 * Returns the symbol of the writable variable that contains an address, or null. With `any`, it may also be a symbol
 * without a size or of a read-only variable.
 */
static const struct elf_symbol *variable_at(const struct elf_file *f, uint64_t at, bool any)
{
	const struct elf_symbol *list = f->symbol_count ? f->symbols : f->dynsyms;
	uint32_t n = f->symbol_count ? f->symbol_count : f->dynsym_count, i;
	bool shared;

	for (i = 1; i < n; i++) {
		const struct elf_symbol *y = &list[i];

		if (any && y->section && y->type != STT_SECTION && y->value == at)
			return y;
		if (y->type == STT_OBJECT && y->section && at >= y->value && at - y->value < y->size &&
		    (any || (f->sections[y->section].sh.sh_flags & SHF_WRITE)) &&
		    !section_is_etched(&f->sections[y->section], &shared))
			return y;
	}
	return NULL;
}

bool place_is_beside(const struct scan *s, const struct range *etched, uint64_t at)
{
	const struct elf_file *f = s->file;
	uint32_t section = elf_section_at(f, at), i;

	if (!is_near(etched, at) || (section && (!f->symbol_count || !(f->sections[section].sh.sh_flags & SHF_WRITE))))
		return false;
	for (i = 1; i < f->section_count; i++)
		if ((f->sections[i].sh.sh_flags & SHF_ALLOC) && f->sections[i].sh.sh_addr + f->sections[i].sh.sh_size == at)
			return false; /* the address is one such as __TMC_END__ */
	return !variable_at(f, at, true);
}

bool place_is_other(struct scan *s, const struct range *etched, const struct insn *in, uint64_t at)
{
	const struct elf_symbol *y = variable_at(s->file, at, false);
	struct object o = {0};

	if (!y || !is_near(etched, at))
		return y;
	o.addr = y->value;
	if (object_indexes(s, &o)->known && !index_begins(s, &o, at - o.addr, 0)) {
		mem_reserve(&s->vague, &s->vague_capacity, s->vague_count, sizeof(*s->vague));
		s->vague[s->vague_count++] = (struct vague_place){at, elf_section_at(s->file, in->addr), in->addr, in->len};
	}
	indexes_free(&o.indexes);
	return true;
}

/*
 * May an address next to the object mean this object? Only if the object can be an array, whose index was folded into
 * the address.
 */
static bool is_candidate(struct scan *s, size_t object)
{
	struct object *o = &s->objects.list[object];
	const struct indexes *x;

	if (o->value || o->inferred || o->size < 2 || object_is_imv(o))
		return false;
	if (elf_is_object(s->file))
		return s->file->symbols[o->symbol].bind == STB_LOCAL;
	x = object_indexes(s, o);
	return !x->known || x->count;
}

/* Adds a copy of the fact of a use to another object. */
static void fact_copy(struct scan *s, const struct site *site, size_t object)
{
	struct site copy = *site;

	copy.object = (int32_t)object;
	copy.off = 0;
	copy.off_known = copy.indexed = copy.as_pointer = false;
	copy.beside = 0;
	scan_site_add(s, &copy);
}

/*
 * A use whose address has an index, so that it may be in any object nearby. The constant part of the address may be in
 * an object or in none.
 */
struct vague_use {
	uint32_t section; /* in an object file, the section of the object; addresses are relative to it */
	uint64_t at;
	struct site site;
};

static int use_order(const void *a, const void *b)
{
	const struct vague_use *x = a, *y = b;

	if (x->section != y->section)
		return x->section < y->section ? -1 : 1;
	if (x->at != y->at)
		return x->at < y->at ? -1 : 1;
	if (x->site.addr != y->site.addr)
		return x->site.addr < y->site.addr ? -1 : 1;
	return (x->site.object > y->site.object) - (x->site.object < y->site.object);
}

/*
 * Returns the index of the object that contains the address, or -1. In an object file only objects of the given section
 * count.
 */
static int32_t object_over(const struct scan *s, uint32_t section, uint64_t at)
{
	return elf_is_object(s->file) ? scan_object_find(s, section, at, false) : object_at(s, at, false);
}

/*
 * Some uses may mean bytes outside their own object, or the start of an object, which may stand for the end of the
 * previous one. Adds the fact of such a use to that other object.
 */
static void site_spread(struct scan *s, size_t i)
{
	const struct site site = s->sites[i]; /* a copy, since adding a site moves the list */
	const struct object *o = &s->objects.list[site.object];
	uint64_t at = o->addr + (uint64_t)site.off;
	int32_t other = -1;

	if (site.off_known && site.kind == SITE_STORE) {
		if (at - o->addr >= o->size)
			other = object_over(s, o->section, at);
	} else if ((site.beside & BESIDE_END) && o->addr) {
		other = object_over(s, o->section, o->addr - 1);
		if (other >= 0 && !is_candidate(s, (size_t)other))
			other = -1;
	}
	if (other >= 0 && other != site.object)
		fact_copy(s, &site, (size_t)other);
}

/*
 * Is the address of a use vague? A pointer that the program itself has computed is assumed to stay in its own object.
 * So is the sum of an array's start, as a constant of the instruction, and an index in a register, if the program
 * stores to the sum or passes it to a function.
 */
static bool is_vague(struct scan *s, const struct site *site)
{
	struct object *o = &s->objects.list[site->object];

	if (!(site->beside & BESIDE_ANY) || (site->off_known && (site->kind == SITE_STORE || site->as_pointer)))
		return false;
	return !site->indexed || (site->kind != SITE_STORE && !site->argument) || !object_indexes(s, o)->known ||
	       !index_begins(s, o, (uint64_t)site->off, 0);
}

/*
 * Finds the first vague use that is near an object but belongs to another one, and adds its fact: one fact is enough.
 */
static void object_spread(struct scan *s, const struct vague_use *list, size_t count, size_t object)
{
	const struct object *o = &s->objects.list[object];
	uint64_t from = o->addr > INDEX_REACH ? o->addr - INDEX_REACH : 0, to = o->addr + o->size + INDEX_REACH;
	uint32_t section = elf_is_object(s->file) ? o->section : 0;
	size_t i = SEARCH(count, k, list[k].section < section || (list[k].section == section && list[k].at < from));

	for (; i < count && list[i].section == section && list[i].at < to; i++)
		if (list[i].site.object != (int32_t)object) {
			if (is_candidate(s, object))
				fact_copy(s, &list[i].site, object);
			return;
		}
}

void scan_neighbours(struct scan *s)
{
	struct vague_use *list = NULL;
	size_t sites = s->site_count, count = 0, capacity = 0, i;

	for (i = 0; i < sites; i++) {
		const struct site *site = &s->sites[i];
		const struct object *o = &s->objects.list[site->object];

		if (site_kind_is_patched(site->kind) || !site->beside)
			continue;
		if (is_vague(s, site)) {
			mem_reserve(&list, &capacity, count, sizeof(*list));
			list[count++] =
				(struct vague_use){elf_is_object(s->file) ? o->section : 0,
			                       o->addr + (site->off_known || site->indexed ? (uint64_t)site->off : 0), *site};
		}
		site_spread(s, i);
	}
	for (i = 0; i < s->vague_count; i++) {
		const struct vague_place *p = &s->vague[i];

		mem_reserve(&list, &capacity, count, sizeof(*list));
		list[count++] = (struct vague_use){
			0, p->at, {.section = p->section, .addr = p->addr, .kind = SITE_ESCAPE, .object = -1, .len = p->len}};
	}
	if (count)
		qsort(list, count, sizeof(*list), use_order);
	for (i = 0; i < s->objects.defined && count; i++)
		object_spread(s, list, count, i);
	free(list);
}
