/* SPDX-License-Identifier: MIT */
/* Makes the tables of an object file, and compares them with those that the file already has. */
#include "table/object_tables.h"
#include "support/memory.h"

#include <etch/pv_forms.h>
#include <stdlib.h>
#include <string.h>

static struct new_section *section_for(struct object_tables *t, const char *name, uint32_t about, uint64_t align)
{
	size_t i;

	for (i = 0; i < t->count; i++)
		if (t->sections[i].about == about && !strcmp(t->sections[i].name, name))
			return &t->sections[i];
	t->sections = mem_resize(t->sections, t->count + 1, sizeof(*t->sections));
	t->sections[t->count] = (struct new_section){.name = name, .flags = SHF_ALLOC, .align = align, .about = about};
	return &t->sections[t->count++];
}

static void append(struct new_section *s, const void *data, size_t size)
{
	s->data = mem_resize(s->data, s->size + size, 1);
	memcpy(s->data + s->size, data, size);
	s->size += size;
}

static void reloc_add(struct new_section *s, uint64_t offset, uint32_t type, enum new_reloc_to to, uint32_t index,
                      int64_t addend)
{
	s->relocs = mem_resize(s->relocs, s->reloc_count + 1, sizeof(*s->relocs));
	s->relocs[s->reloc_count++] = (struct new_reloc){offset, addend, type, index, to};
}

static void ref_add(struct new_section *t, uint64_t at, const struct table_ref *r)
{
	if (r->kind == REF_SLOT)
		reloc_add(t, at, R_X86_64_GOTPCREL, TO_SYMBOL, r->index, 0);
	else
		reloc_add(t, at, R_X86_64_PC32, r->kind == REF_SYMBOL ? TO_SYMBOL : TO_SECTION, r->index, r->off);
}

void object_tables_site(struct object_tables *t, uint32_t section, uint64_t at, const struct etch_imv *entry,
                        const struct etch_imv_more *more, const struct table_ref *object)
{
	struct new_section *sec = section_for(t, etch_form_is_pv(entry->form) ? ETCH_SEC_PV : ETCH_SEC_IMV, section, 4);
	struct etch_imv x = *entry;
	uint64_t here = sec->size;

	x.site = x.obj = 0;
	append(sec, &x, sizeof(x));
	reloc_add(sec, here + offsetof(struct etch_imv, site), R_X86_64_PC32, TO_SECTION, section, (int64_t)at);
	ref_add(sec, here + offsetof(struct etch_imv, obj), object);
	if (!etch_form_is_pv(x.form) && (x.flags & ETCH_IMV_MORE))
		append(sec, more, sizeof(*more));
}

void object_tables_fact(struct object_tables *t, uint32_t section, uint64_t at, enum etch_obj_kind kind,
                        const struct table_ref *object)
{
	struct new_section *sec = section_for(t, ETCH_SEC_OBJ, section, 4);
	struct etch_obj x = {.kind = (uint8_t)kind, .flags = object->kind == REF_SLOT ? ETCH_OBJ_GOT : 0};
	uint64_t here = sec->size;

	append(sec, &x, sizeof(x));
	ref_add(sec, here + offsetof(struct etch_obj, addr), object);
	reloc_add(sec, here + offsetof(struct etch_obj, ref), R_X86_64_PC32, TO_SECTION, section, (int64_t)at);
}

void object_tables_object(struct object_tables *t, uint32_t section, uint64_t at, const struct etch_obj *what,
                          const char *name)
{
	/* The section of names is created first, because records refer to it by its index. */
	struct new_section *names = section_for(t, ETCH_SEC_NAMES, 0, 1), *sec = section_for(t, ETCH_SEC_OBJ, section, 4);
	struct etch_obj x = *what;
	uint64_t here, name_at;

	names = section_for(t, ETCH_SEC_NAMES, 0, 1); /* section_for() may have moved the list of sections */
	here = sec->size;
	name_at = names->size;
	append(sec, &x, sizeof(x));
	reloc_add(sec, here + offsetof(struct etch_obj, addr), R_X86_64_PC32, TO_SECTION, section, (int64_t)at);
	reloc_add(sec, here + offsetof(struct etch_obj, ref), R_X86_64_PC32, TO_NEW, (uint32_t)(names - t->sections),
	          (int64_t)name_at);
	append(names, name, strlen(name) + 1);
}

void object_tables_free(struct object_tables *t)
{
	new_sections_free(t->sections, t->count);
	memset(t, 0, sizeof(*t));
}

/* ---- existing tables ----------------------------------------------------- */

/* A record whose references have been resolved. Such records can be compared even if their relocations use different
 * symbols and sections. */
struct resolved {
	uint64_t place[2][2]; /* per reference: section, or symbol | 1 << 63; and offset */
	/* The record with zeros in place of the references; then its struct etch_imv_more, if any. */
	uint8_t rest[24];
};

struct resolved_list {
	struct resolved *list;
	size_t count;
};

static int resolved_order(const void *a, const void *b) { return memcmp(a, b, sizeof(struct resolved)); }

static void place_set(const struct elf_file *f, uint64_t place[2], uint32_t symbol, uint32_t type, int64_t addend)
{
	const struct elf_symbol *y = &f->symbols[symbol];

	if (type == R_X86_64_GOTPCREL || !y->section) {
		place[0] = symbol | 1ull << 63;
		place[1] = (uint64_t)addend;
	} else {
		place[0] = y->section;
		place[1] = y->value + (uint64_t)addend;
	}
}

/* Adds the records of one table to a list. places[2 * i] and places[2 * i + 1] are the references of record i. */
static void records_resolve(struct resolved_list *l, const uint8_t *data, uint64_t size, size_t record,
                            uint64_t (*places)[2])
{
	uint64_t n = size / record, i;
	size_t second = record == sizeof(struct etch_imv) ? offsetof(struct etch_imv, obj) : offsetof(struct etch_obj, ref);

	l->list = mem_resize(l->list, l->count + n, sizeof(*l->list));
	for (i = 0; i < n; i++) {
		struct resolved *x = &l->list[l->count];
		bool more =
			record == sizeof(struct etch_imv) && data[i * record + offsetof(struct etch_imv, form)] == ETCH_FORM_MORE;

		if (more && i) {
			memcpy(x[-1].rest + record, data + i * record, record);
			continue;
		}
		l->count++;
		memset(x, 0, sizeof(*x));
		memcpy(x->rest, data + i * record, record);
		memset(x->rest, 0, 4);
		memset(x->rest + second, 0, 4);
		memcpy(x->place[0], places[2 * i], 16);
		memcpy(x->place[1], places[2 * i + 1], 16);
		if (record == sizeof(struct etch_obj) && x->rest[offsetof(struct etch_obj, kind)] == ETCH_OBJ_OBJECT)
			memset(x->place[1], 0, 16); /* the address of the object's name does not matter */
	}
}

/* Returns the size of a record in a section with this name, if it is one of the tables that are made; otherwise 0. */
static size_t record_size(const struct object_tables *t, const char *name)
{
	if ((t->imv && elf_name_is(name, ETCH_SEC_IMV)) || (t->pv && elf_name_is(name, ETCH_SEC_PV)))
		return sizeof(struct etch_imv);
	return elf_name_is(name, ETCH_SEC_OBJ) ? sizeof(struct etch_obj) : 0;
}

/* Adds the records of a table that the file has to a list. */
static int present_resolve(const struct elf_file *f, uint32_t index, size_t record, struct resolved_list *l,
                           struct error *e)
{
	const struct elf_section *s = &f->sections[index];
	uint64_t n = s->sh.sh_size / record, (*places)[2];
	size_t second = record == sizeof(struct etch_imv) ? offsetof(struct etch_imv, obj) : offsetof(struct etch_obj, ref);
	uint32_t rel = 0;

	if (s->sh.sh_size % record)
		return error_set(e, "section %s: size %llu is not a multiple of %zu", s->name,
		                 (unsigned long long)s->sh.sh_size, record);
	places = mem_zero(2 * n + 1, sizeof(*places));
	while ((rel = elf_section_rela(f, index, rel + 1))) {
		struct elf_reloc *r;
		long count = elf_relocs(f, rel, &r, e), i;

		if (count < 0) {
			free(places);
			return -1;
		}
		for (i = 0; i < count; i++) {
			uint64_t k = r[i].offset / record, at = r[i].offset % record;

			if (k < n && (at == 0 || at == second))
				place_set(f, places[2 * k + (at == second)], r[i].symbol, r[i].type, r[i].addend);
		}
		free(r);
	}
	records_resolve(l, s->data, s->sh.sh_size, record, places);
	free(places);
	return 0;
}

static void wanted_resolve(const struct elf_file *f, const struct new_section *s, size_t record,
                           struct resolved_list *l)
{
	uint64_t n = s->size / record, (*places)[2] = mem_zero(2 * n, sizeof(*places));
	size_t i;

	for (i = 0; i < s->reloc_count; i++) {
		const struct new_reloc *r = &s->relocs[i];
		uint64_t *place = places[2 * (r->offset / record) + (r->offset % record != 0)];

		if (r->to == TO_SYMBOL)
			place_set(f, place, r->index, r->type, r->addend);
		else if (r->to == TO_SECTION) {
			place[0] = r->index;
			place[1] = (uint64_t)r->addend;
		}
	}
	records_resolve(l, s->data, s->size, record, places);
	free(places);
}

int object_tables_present(const struct elf_file *f, const struct object_tables *wanted, bool *emptied, struct error *e)
{
	struct resolved_list have = {0}, want = {0};
	int same = -1;
	uint32_t i;
	size_t k;

	for (i = 1; i < f->section_count; i++) {
		size_t record = record_size(wanted, f->sections[i].name);
		uint32_t rel = 0;

		if (!record || !f->sections[i].data || f->sections[i].sh.sh_type != SHT_PROGBITS)
			continue;
		emptied[i] = true;
		while ((rel = elf_section_rela(f, i, rel + 1)))
			emptied[rel] = true;
		if (present_resolve(f, i, record, &have, e))
			goto out;
	}
	for (k = 0; k < wanted->count; k++) {
		size_t record = record_size(wanted, wanted->sections[k].name);

		if (record)
			wanted_resolve(f, &wanted->sections[k], record, &want);
	}
	same = have.count == want.count;
	if (same && have.count) {
		qsort(have.list, have.count, sizeof(*have.list), resolved_order);
		qsort(want.list, want.count, sizeof(*want.list), resolved_order);
		same = !memcmp(have.list, want.list, have.count * sizeof(*have.list));
	}
out:
	free(have.list);
	free(want.list);
	return same;
}
