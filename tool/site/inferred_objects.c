/* SPDX-License-Identifier: MIT */
/* Infers the parts of objects without symbols from the operands of code and from GOT slots. */
#include "site/inferred_objects.h"
#include "shared/search.h"

#include "elf/dynamic.h"
#include "support/memory.h"
#include "support/progress.h"
#include "support/sort.h"
#include "site/linked.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The referenced addresses in etched sections, rounded down to the alignment of objects. */
struct places {
	struct scan *s;
	struct range range;
	uint64_t *list;
	size_t count, capacity;
};

/* Is this a writable etched section with contents in the file? The bounds of NOBITS sections are not reliable. */
static bool has_parts(const struct elf_section *x, bool *shared)
{
	return section_is_etched(x, shared) && x->data && (x->sh.sh_flags & SHF_WRITE) && !(x->sh.sh_addr & 7);
}

/* Returns the alignment that objects have in a section (docs/formats.md). */
static uint64_t granule(const struct elf_section *x, bool shared)
{
	return elf_name_is(x->name, ETCH_SEC_OBJECT) && !shared && !(x->sh.sh_addr % ETCH_PAGE) ? ETCH_PAGE : 8;
}

static void place_add(struct places *p, uint64_t at)
{
	const struct elf_section *x;
	uint32_t section;
	bool shared;

	if (at < p->range.lo || at >= p->range.hi)
		return;
	section = elf_section_at(p->s->file, at);
	x = &p->s->file->sections[section];
	if (!section || !has_parts(x, &shared))
		return;
	mem_reserve(&p->list, &p->capacity, p->count, sizeof(*p->list));
	p->list[p->count++] = at & ~(granule(x, shared) - 1);
}

static void insn_places(struct places *p, const struct insn *in, bool absolute)
{
	uint64_t at = insn_place(in, absolute);

	if (at)
		place_add(p, at);
	if (absolute && in->imm_len >= 4 && in->flow == FLOW_NEXT)
		place_add(p, (uint64_t)in->imm);
}

static void code_places(struct places *p)
{
	struct scan *s = p->s;
	bool absolute = s->file->eh.e_type == ET_EXEC;
	const struct func_code *code;
	struct func_code spare = {0};
	size_t k, i;

	for (k = 0; k < s->funcs.count; k++) {
		progress_step(s->file->path, k, s->funcs.count);
		code = func_code_of(&s->funcs, k, &spare);
		for (i = 0; i < code->count; i++)
			insn_places(p, &code->insns[i], absolute);
	}
	progress_end();
	func_code_free(&spare);
}

/* Adds the addresses in GOT slots, which are starts of objects. Returns 0, or -1 and a message. */
static int word_places(struct places *p)
{
	const struct elf_file *f = p->s->file;
	struct dynamic_reloc *r;
	uint64_t at, value;
	size_t n, k;
	uint32_t i;
	int err = dynamic_relocs_read(f, 0, UINT64_MAX, &r, &n, &p->s->error);

	for (k = 0; k < n && !err; k++)
		if (r[k].type == R_X86_64_RELATIVE)
			place_add(p, r[k].addend);
	free(r);
	for (i = 1; i < f->section_count && !err && f->eh.e_type == ET_EXEC; i++) {
		const struct elf_section *x = &f->sections[i];

		for (at = 0; x->data && slot_is_got(f, x->sh.sh_addr) && at + 8 <= x->sh.sh_size; at += 8) {
			memcpy(&value, x->data + at, 8);
			place_add(p, value);
		}
	}
	return err;
}

static void part_add(struct scan *s, uint32_t section, bool shared, uint64_t from, uint64_t to)
{
	struct object o = {.section = section, .addr = from, .size = to - from, .shared = shared, .inferred = true};
	char name[64];

	snprintf(name, sizeof(name), "%s+%#" PRIx64, s->file->sections[section].name,
	         from - s->file->sections[section].sh.sh_addr);
	o.name = mem_string(name);
	scan_object_add(s, &o);
}

/* Divides [from, to), where no object is known, into parts that begin at the referenced addresses. */
static void gap_take(struct places *p, uint32_t section, bool shared, uint64_t from, uint64_t to)
{
	size_t lo = SEARCH(p->count, i, p->list[i] < from);

	for (; lo < p->count && p->list[lo] < to; lo++) {
		uint64_t next = lo + 1 < p->count && p->list[lo + 1] < to ? p->list[lo + 1] : to;

		if (next > p->list[lo])
			part_add(p->s, section, shared, p->list[lo], next);
	}
}

static void section_take(struct places *p, uint32_t section, size_t known)
{
	const struct elf_section *x = &p->s->file->sections[section];
	uint64_t at = x->sh.sh_addr, end = at + x->sh.sh_size;
	bool shared;
	size_t k;

	if (!has_parts(x, &shared))
		return;
	for (k = 0; k < known; k++) {
		/* A copy, since adding an object may move the list. */
		struct object o = p->s->objects.list[k];

		if (o.section != section)
			continue;
		if (o.addr > at)
			gap_take(p, section, shared, at, o.addr);
		at = (o.addr + o.size + 7) & ~7ull;
	}
	if (at < end)
		gap_take(p, section, shared, at, end);
}

int inferred_objects_add(struct scan *s)
{
	const struct elf_file *f = s->file;
	struct places p = {.s = s, .range = {UINT64_MAX, 0}};
	size_t known = s->objects.count;
	uint32_t i;
	int err = 0;
	bool shared;

	if (!func_symbols_lost(f))
		return 0;
	for (i = 1; i < f->section_count; i++) {
		const Elf64_Shdr *sh = &f->sections[i].sh;

		if (!has_parts(&f->sections[i], &shared))
			continue;
		p.range.lo = sh->sh_addr < p.range.lo ? sh->sh_addr : p.range.lo;
		p.range.hi = sh->sh_addr + sh->sh_size > p.range.hi ? sh->sh_addr + sh->sh_size : p.range.hi;
	}
	if (p.range.lo >= p.range.hi)
		return 0;
	s->stripped = true;
	func_list_build(f, &s->funcs);
	code_places(&p);
	err = word_places(&p);
	if (!err && p.count) {
		qsort(p.list, p.count, sizeof(*p.list), word_order);
		for (i = 1; i < f->section_count; i++)
			section_take(&p, i, known);
		scan_objects_sort(s);
	}
	free(p.list);
	return err;
}

/* May the site reach bytes in other parts than its own? */
static bool reaches_on(const struct scan *s, const struct site *site)
{
	const struct object *o = &s->objects.list[site->object];

	return o->inferred && (site->kind == SITE_ESCAPE ||
	                       (site->kind == SITE_STORE && (!site->off_known || !site->size || site->off < 0 ||
	                                                     (uint64_t)site->off + site->size > o->size)));
}

void inferred_objects_suspect(struct scan *s)
{
	uint32_t last = 0;
	size_t i, k;

	for (i = 0; s->stripped && i < s->site_count; i++) {
		uint32_t section = s->objects.list[s->sites[i].object].section;

		if (section == last || !reaches_on(s, &s->sites[i]))
			continue;
		last = section;
		for (k = 0; k < s->objects.defined; k++)
			if (s->objects.list[k].section == section) {
				s->objects.list[k].suspect = true;
				s->objects.list[k].facts |= ETCH_OBJ_ESCAPED;
			}
	}
	for (i = 0; i < s->site_count; i++)
		if (s->sites[i].kind == SITE_ESCAPE)
			s->objects.list[s->sites[i].object].suspect = false;
}
