/* SPDX-License-Identifier: MIT */
#include "table/object_tables.h"

#include <stdlib.h>
#include <string.h>

static struct new_section *section_for(struct object_tables *t, const char *name, uint32_t about, uint64_t align)
{
	size_t i;
	struct new_section *p;

	for (i = 0; i < t->count; i++)
		if (t->sections[i].about == about && !strcmp(t->sections[i].name, name))
			return &t->sections[i];
	p = realloc(t->sections, (t->count + 1) * sizeof(*p));
	if (!p)
		return NULL;
	t->sections = p;
	p[t->count] = (struct new_section){.name = name, .flags = SHF_ALLOC, .align = align, .about = about};
	return &p[t->count++];
}

static bool append(struct new_section *s, const void *data, size_t size)
{
	uint8_t *p = realloc(s->data, s->size + size);

	if (!p)
		return false;
	memcpy(p + s->size, data, size);
	s->data = p;
	s->size += size;
	return true;
}

static bool reloc_add(struct new_section *s, uint64_t offset, uint32_t type, enum new_reloc_to to, uint32_t index,
                      int64_t addend)
{
	struct new_reloc *p = realloc(s->relocs, (s->reloc_count + 1) * sizeof(*p));

	if (!p)
		return false;
	s->relocs = p;
	p[s->reloc_count++] = (struct new_reloc){offset, addend, type, index, to};
	return true;
}

/*
 * The reference to object + off from a table field. By section where the
 * definition here is the one that counts; by symbol where another may win
 * (weak, unique) or defines it (undefined here). `got`: the slot instead.
 */
static bool object_reloc(const struct scan *s, struct new_section *t, uint64_t at, const struct object *o, int64_t off,
                         bool got)
{
	const struct elf_symbol *y = &s->file->symbols[o->symbol];
	bool by_symbol = !o->section || y->bind == STB_WEAK || y->bind == STB_GNU_UNIQUE;

	if (got)
		return reloc_add(t, at, R_X86_64_GOTPCREL, TO_SYMBOL, o->symbol, 0);
	if (by_symbol)
		return reloc_add(t, at, R_X86_64_PC32, TO_SYMBOL, o->symbol, off);
	return reloc_add(t, at, R_X86_64_PC32, TO_SECTION, o->section, (int64_t)o->addr + off);
}

static bool imv_add(const struct scan *s, struct object_tables *t, const struct site *site)
{
	struct new_section *sec = section_for(t, ETCH_SEC_IMV, site->section, 4);
	const struct object *o = &s->objects.list[site->object];
	struct etch_imv entry = site->entry;
	uint64_t at;

	if (!sec)
		return false;
	at = sec->size;
	entry.site = entry.obj = 0;
	return append(sec, &entry, sizeof(entry)) &&
	       reloc_add(sec, at + offsetof(struct etch_imv, site), R_X86_64_PC32, TO_SECTION, site->section,
	                 (int64_t)site->addr) &&
	       object_reloc(s, sec, at + offsetof(struct etch_imv, obj), o, site->off, entry.flags & ETCH_IMV_GOT);
}

/* One fact per object, kind and section is enough. */
static bool fact_known(const struct scan *s, size_t i)
{
	const struct site *x = &s->sites[i];
	size_t k = i;

	while (k-- && s->sites[k].section == x->section)
		if (s->sites[k].kind == x->kind && s->sites[k].object == x->object)
			return true;
	return false;
}

static bool fact_add(const struct scan *s, struct object_tables *t, const struct site *site)
{
	struct new_section *sec = section_for(t, ETCH_SEC_OBJ, site->section, 4);
	const struct object *o = &s->objects.list[site->object];
	struct etch_obj entry = {.kind = site->kind == SITE_STORE ? ETCH_OBJ_STORE : ETCH_OBJ_ESCAPE};
	/* Another module's object is only to be found through its GOT slot. */
	bool got = !o->section && (site->entry.flags & ETCH_IMV_GOT);
	uint64_t at;

	if (!sec)
		return false;
	at = sec->size;
	if (got)
		entry.flags = ETCH_OBJ_GOT;
	return append(sec, &entry, sizeof(entry)) &&
	       object_reloc(s, sec, at + offsetof(struct etch_obj, addr), o, 0, got) &&
	       reloc_add(sec, at + offsetof(struct etch_obj, ref), R_X86_64_PC32, TO_SECTION, site->section,
	                 (int64_t)site->addr);
}

static bool object_add(struct object_tables *t, const struct object *o, uint32_t names)
{
	struct new_section *sec = section_for(t, ETCH_SEC_OBJ, o->section, 4);
	struct etch_obj entry = {.kind = ETCH_OBJ_OBJECT, .flags = o->shared ? ETCH_OBJ_SHARED : 0,
	                         .size = o->size > UINT32_MAX ? UINT32_MAX : (uint32_t)o->size};
	uint64_t at, name_at = t->sections[names].size;

	if (!sec)
		return false;
	at = sec->size;
	return append(sec, &entry, sizeof(entry)) &&
	       reloc_add(sec, at + offsetof(struct etch_obj, addr), R_X86_64_PC32, TO_SECTION, o->section,
	                 (int64_t)o->addr) &&
	       reloc_add(sec, at + offsetof(struct etch_obj, ref), R_X86_64_PC32, TO_NEW, names, (int64_t)name_at) &&
	       append(&t->sections[names], o->name, strlen(o->name) + 1);
}

int object_tables_build(const struct scan *s, struct object_tables *out, struct error *e)
{
	size_t i;
	bool ok = true;

	memset(out, 0, sizeof(*out));
	if (s->objects.defined) /* the names go first: records refer to them by number */
		ok = section_for(out, ETCH_SEC_NAMES, 0, 1) != NULL;
	for (i = 0; i < s->objects.defined && ok; i++) {
		if (s->objects.list[i].size > UINT32_MAX)
			return error_set(e, "etched object %s is larger than 4 GiB", s->objects.list[i].name);
		ok = object_add(out, &s->objects.list[i], 0);
	}
	for (i = 0; i < s->site_count && ok; i++) {
		const struct site *site = &s->sites[i];

		if (site->kind == SITE_LOAD && !site->reason)
			ok = imv_add(s, out, site);
		else if (site->kind != SITE_LOAD && !fact_known(s, i))
			ok = fact_add(s, out, site);
	}
	return ok ? 0 : error_set(e, "out of memory");
}

void object_tables_free(struct object_tables *t)
{
	size_t i;

	for (i = 0; i < t->count; i++) {
		free(t->sections[i].data);
		free(t->sections[i].relocs);
	}
	free(t->sections);
	memset(t, 0, sizeof(*t));
}

/* ---- what is there already ----------------------------------------------- */

/* One record with its references resolved, so that two tables can be compared
 * whatever symbols and sections they are made of. */
struct flat {
	uint64_t place[2][2]; /* per reference: section (or symbol | 1 << 63), offset */
	uint8_t rest[16];     /* the record's bytes, references zeroed */
};

struct flat_list {
	struct flat *list;
	size_t count;
};

static int flat_order(const void *a, const void *b) { return memcmp(a, b, sizeof(struct flat)); }

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

/* Adds the records of one table section; relocs sorted by offset. */
static bool flatten(struct flat_list *l, const uint8_t *data, uint64_t size, size_t record, uint64_t (*places)[2])
{
	uint64_t n = size / record, i;
	struct flat *p = realloc(l->list, (l->count + n + 1) * sizeof(*p));
	size_t second = record == sizeof(struct etch_imv) ? offsetof(struct etch_imv, obj) : offsetof(struct etch_obj, ref);

	if (!p)
		return false;
	l->list = p;
	for (i = 0; i < n; i++) {
		struct flat *x = &p[l->count++];

		memset(x, 0, sizeof(*x));
		memcpy(x->rest, data + i * record, record);
		memset(x->rest, 0, 4);
		memset(x->rest + second, 0, 4);
		memcpy(x->place[0], places[2 * i], 16);
		memcpy(x->place[1], places[2 * i + 1], 16);
		if (record == sizeof(struct etch_obj) && x->rest[offsetof(struct etch_obj, kind)] == ETCH_OBJ_OBJECT)
			memset(x->place[1], 0, 16); /* where its name lies does not matter */
	}
	return true;
}

static size_t record_size(const char *name)
{
	return !strcmp(name, ETCH_SEC_IMV) ? sizeof(struct etch_imv) : !strcmp(name, ETCH_SEC_OBJ) ? sizeof(struct etch_obj) : 0;
}

static int flatten_present(const struct elf_file *f, uint32_t index, size_t record, struct flat_list *l, struct error *e)
{
	const struct elf_section *s = &f->sections[index];
	uint64_t n = s->sh.sh_size / record, (*places)[2];
	size_t second = record == sizeof(struct etch_imv) ? offsetof(struct etch_imv, obj) : offsetof(struct etch_obj, ref);
	uint32_t rel = 0;
	bool ok;

	if (s->sh.sh_size % record)
		return error_set(e, "section %s: size %llu is not a multiple of %zu", s->name,
		                 (unsigned long long)s->sh.sh_size, record);
	places = calloc(2 * n + 1, sizeof(*places));
	if (!places)
		return error_set(e, "out of memory");
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
	ok = flatten(l, s->data, s->sh.sh_size, record, places);
	free(places);
	return ok ? 0 : error_set(e, "out of memory");
}

static int flatten_wanted(const struct elf_file *f, const struct new_section *s, size_t record, struct flat_list *l,
                          struct error *e)
{
	uint64_t n = s->size / record, (*places)[2] = calloc(2 * n + 1, sizeof(*places));
	size_t i;
	bool ok;

	if (!places)
		return error_set(e, "out of memory");
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
	ok = flatten(l, s->data, s->size, record, places);
	free(places);
	return ok ? 0 : error_set(e, "out of memory");
}

int object_tables_present(const struct elf_file *f, const struct object_tables *wanted, bool *emptied, struct error *e)
{
	struct flat_list have = {0}, want = {0};
	int same = -1;
	uint32_t i;
	size_t k;

	for (i = 1; i < f->section_count; i++) {
		size_t record = record_size(f->sections[i].name);
		uint32_t rel = 0;

		if (!record || !f->sections[i].data || f->sections[i].sh.sh_type != SHT_PROGBITS)
			continue;
		emptied[i] = true;
		while ((rel = elf_section_rela(f, i, rel + 1)))
			emptied[rel] = true;
		if (flatten_present(f, i, record, &have, e))
			goto out;
	}
	for (k = 0; k < wanted->count; k++) {
		size_t record = record_size(wanted->sections[k].name);

		if (record && flatten_wanted(f, &wanted->sections[k], record, &want, e))
			goto out;
	}
	same = have.count == want.count;
	if (same && have.count) {
		qsort(have.list, have.count, sizeof(*have.list), flat_order);
		qsort(want.list, want.count, sizeof(*want.list), flat_order);
		same = !memcmp(have.list, want.list, have.count * sizeof(*have.list));
	}
out:
	free(have.list);
	free(want.list);
	return same;
}
