/* SPDX-License-Identifier: MIT */
/* Reads and checks the tables of a linked file. Formats: docs/formats.md. */
#include "table/linked_tables.h"

#include "support/memory.h"
#include "support/sort.h"

#include <etch/pv_forms.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

/* Finds all copies of the module descriptor, and sets *first to the first one. */
static int modules_read(const struct elf_file *f, struct linked_tables *t, struct etch_module *first, struct error *e)
{
	uint32_t i = 0;
	uint64_t at;

	while ((i = elf_section_find(f, ETCH_SEC_MODULE, i + 1))) {
		const struct elf_section *s = &f->sections[i];

		if (!s->data)
			continue;
		for (at = 0; at + sizeof(struct etch_module) <= s->sh.sh_size; at += 8) {
			struct etch_module m;

			memcpy(&m, s->data + at, sizeof(m));
			if (m.magic != ETCH_MODULE_MAGIC)
				continue;
			if (!etch_module_valid(&m))
				return error_set(e,
				                 "its module descriptor is malformed or of another version (%u, "
				                 "this etch writes %u)",
				                 m.version, ETCH_MODULE_VERSION);
			if (elf_at(f, s->sh.sh_addr + at, sizeof(m)) != s->data + at)
				return error_set(e, "section %s: its file offset disagrees with its segment", s->name);
			t->modules = mem_resize(t->modules, t->module_count + 1, sizeof(*t->modules));
			if (!t->module_count) {
				*first = m;
				t->flags = m.flags;
			}
			t->modules[t->module_count++] = s->sh.sh_addr + at;
			at += sizeof(m) - 8;
		}
	}
	return 0;
}

/* Reads which parts of libetch the file contains. If the file does not say that, all parts count as contained. */
static int parts_read(const struct elf_file *f, struct linked_tables *t, struct error *e)
{
	uint32_t i = elf_section_find(f, ETCH_SEC_PART, 1), part;
	uint64_t at;

	t->parts = i ? 0 : UINT32_MAX;
	for (; i; i = elf_section_find(f, ETCH_SEC_PART, i + 1)) {
		const struct elf_section *s = &f->sections[i];

		if (!s->data || s->sh.sh_size % sizeof(part))
			return error_set(e, "section %s: not a list of 4-byte numbers", s->name);
		for (at = 0; at < s->sh.sh_size; at += sizeof(part)) {
			memcpy(&part, s->data + at, sizeof(part));
			t->parts |= part <= ETCH_PART_LAST ? 1u << part : 0;
		}
	}
	return 0;
}

/* A kind of table: its section name, and where the module descriptor has its fields. */
struct table_kind {
	const char *name;
	/* Offsets in struct etch_module of the reference to the table and of its number of entries. */
	size_t ref, count;
	/* Size of a record in bytes. */
	size_t record;
	int (*valid)(const struct etch_imv *); /* checks an entry; only for tables of sites */
};

static const struct table_kind imv_kind = {ETCH_SEC_IMV, offsetof(struct etch_module, imv),
                                           offsetof(struct etch_module, imv_count), sizeof(struct etch_imv),
                                           etch_imv_valid};
static const struct table_kind pv_kind = {ETCH_SEC_PV, offsetof(struct etch_module, pv),
                                          offsetof(struct etch_module, pv_count), sizeof(struct etch_imv),
                                          etch_pv_valid};
static const struct table_kind obj_kind = {ETCH_SEC_OBJ, offsetof(struct etch_module, obj),
                                           offsetof(struct etch_module, obj_count), sizeof(struct etch_obj), NULL};

/* Where a table is, and how many entries fit there. */
struct table_range {
	uint64_t addr, capacity; /* capacity: number of entries */
};

/* Finds a table by the reference in the descriptor or, if tables were not moved, by its section. */
static int table_locate(const struct elf_file *f, const struct linked_tables *t, const struct etch_module *m,
                        const struct table_kind *k, struct table_range *out, struct error *e)
{
	uint32_t i;

	*out = (struct table_range){0, 0};
	if (t->moved) {
		int64_t ref;

		memcpy(&ref, (const uint8_t *)m + k->ref, 8);
		memcpy(&out->capacity, (const uint8_t *)m + k->count, 8);
		out->addr = t->modules[0] + k->ref + (uint64_t)ref;
		if (out->capacity > f->size / k->record || (out->capacity && !elf_at(f, out->addr, out->capacity * k->record)))
			return error_set(e, "its module descriptor places %s outside the file", k->name);
		return 0;
	}
	i = elf_section_find(f, k->name, 1);
	if (!i || !f->sections[i].data)
		return 0;
	if (f->sections[i].sh.sh_size % k->record)
		return error_set(e, "section %s: size %" PRIu64 " is not a multiple of %zu", k->name, f->sections[i].sh.sh_size,
		                 k->record);
	out->addr = f->sections[i].sh.sh_addr;
	out->capacity = f->sections[i].sh.sh_size / k->record;
	/* An error if it shares bytes with other sections, since it will be written to. */
	return elf_section_alone(f, i, e);
}

static int sites_read(const struct elf_file *f, const struct table_kind *kind, const struct table_range *at,
                      struct imv_row **rows, size_t *count, struct error *e)
{
	const uint8_t *p = at->capacity ? elf_at(f, at->addr, at->capacity * sizeof(struct etch_imv)) : NULL;
	uint64_t i;

	*rows = mem_zero(at->capacity, sizeof(**rows));
	for (i = 0; i < at->capacity; i++) {
		uint64_t ref = at->addr + i * sizeof(struct etch_imv);
		struct imv_row *row = &(*rows)[*count];
		struct etch_imv *x = &row->entry;

		memcpy(x, p + i * sizeof(*x), sizeof(*x));
		if (!kind->valid(x))
			return error_set(e, "%s entry %" PRIu64 " is malformed", kind->name, i);
		if (x->form == ETCH_FORM_NONE)
			continue;
		row->site = etch_ref(ref, x->site);
		row->obj = etch_ref(ref + offsetof(struct etch_imv, obj), x->obj);
		(*count)++;
		if (kind != &imv_kind || !(x->flags & ETCH_IMV_MORE))
			continue;
		if (++i == at->capacity)
			return error_set(e, "%s entry %" PRIu64 " has no second record", kind->name, i - 1);
		memcpy(&row->more, p + i * sizeof(*x), sizeof(row->more));
		if (!etch_more_valid(x, &row->more))
			return error_set(e, "%s entry %" PRIu64 " is malformed", kind->name, i);
	}
	return 0;
}

size_t imv_records(const struct imv_row *rows, size_t count)
{
	size_t i, n = count;

	for (i = 0; i < count; i++)
		n += rows[i].entry.flags & ETCH_IMV_MORE ? 1 : 0;
	return n;
}

static int natives_read(const struct elf_file *f, struct linked_tables *t, struct error *e)
{
	uint32_t s = 0;
	uint64_t i;

	while ((s = elf_section_find(f, ETCH_SEC_NATIVE, s + 1))) {
		const struct elf_section *sec = &f->sections[s];
		uint64_t n = sec->sh.sh_size / sizeof(struct etch_native);

		if (!sec->data)
			continue;
		if (sec->sh.sh_size % sizeof(struct etch_native))
			return error_set(e, "section " ETCH_SEC_NATIVE ": size %" PRIu64 " is not a multiple of %zu",
			                 sec->sh.sh_size, sizeof(struct etch_native));
		if (elf_at(f, sec->sh.sh_addr, sec->sh.sh_size) != sec->data)
			return error_set(e, "section " ETCH_SEC_NATIVE ": its file offset disagrees with its segment");
		t->natives = mem_resize(t->natives, t->native_count + n, sizeof(*t->natives));
		for (i = 0; i < n; i++) {
			uint64_t at = sec->sh.sh_addr + i * sizeof(struct etch_native);
			struct etch_native x;

			memcpy(&x, sec->data + i * sizeof(x), sizeof(x));
			if (!etch_native_valid(&x))
				return error_set(e, ETCH_SEC_NATIVE " record %" PRIu64 " is malformed", i);
			t->natives[t->native_count++] = (struct native_row){
				at, etch_ref(at, x.func), etch_ref(at + offsetof(struct etch_native, code), x.code), x.len, x.flags};
		}
	}
	return 0;
}

static int inlines_read(const struct elf_file *f, struct linked_tables *t, struct error *e)
{
	uint32_t s = 0;
	uint64_t i;

	while ((s = elf_section_find(f, ETCH_SEC_INLINE, s + 1))) {
		const struct elf_section *sec = &f->sections[s];
		uint64_t n = sec->sh.sh_size / sizeof(struct etch_inline);

		if (!sec->data)
			continue;
		if (sec->sh.sh_size % sizeof(struct etch_inline))
			return error_set(e, "section " ETCH_SEC_INLINE ": size %" PRIu64 " is not a multiple of %zu",
			                 sec->sh.sh_size, sizeof(struct etch_inline));
		t->inlines = mem_resize(t->inlines, t->inline_count + n, sizeof(*t->inlines));
		for (i = 0; i < n; i++) {
			uint64_t at = sec->sh.sh_addr + i * sizeof(struct etch_inline);
			struct etch_inline x;

			memcpy(&x, sec->data + i * sizeof(x), sizeof(x));
			t->inlines[t->inline_count++] =
				(struct inline_row){etch_ref(at, x.site), etch_ref(at + offsetof(struct etch_inline, slot), x.slot),
			                        etch_ref(at + offsetof(struct etch_inline, func), x.func)};
		}
	}
	return 0;
}

/* Reads the records of __etch_obj, and the names of objects. */
static int obj_read(const struct elf_file *f, struct linked_tables *t, struct error *e)
{
	const uint8_t *p = t->obj_capacity ? elf_at(f, t->obj_addr, t->obj_capacity * sizeof(struct etch_obj)) : NULL;
	uint64_t i;

	t->obj = mem_zero(t->obj_capacity, sizeof(*t->obj));
	for (i = 0; i < t->obj_capacity; i++) {
		uint64_t at = t->obj_addr + i * sizeof(struct etch_obj);
		struct obj_row *row = &t->obj[t->obj_count];
		struct etch_obj x;

		memcpy(&x, p + i * sizeof(x), sizeof(x));
		if (!etch_obj_valid(&x, t->flags & ETCH_MODULE_LINKED))
			return error_set(e, ETCH_SEC_OBJ " record %" PRIu64 " is malformed", i);
		if (x.kind == ETCH_OBJ_NONE)
			continue;
		row->addr = etch_ref(at, x.addr);
		row->ref = etch_ref(at + offsetof(struct etch_obj, ref), x.ref);
		row->size = x.size;
		row->kind = x.kind;
		row->flags = x.flags;
		row->more = x.more;
		if ((x.more & ETCH_OBJ_FIELD) && x.kind == ETCH_OBJ_OBJECT &&
		    (!t->obj_count || row[-1].kind != ETCH_OBJ_OBJECT || row[-1].addr + row[-1].size != row->addr))
			return error_set(e, ETCH_SEC_OBJ " record %" PRIu64 " goes on from none", i);
		if (x.kind == ETCH_OBJ_OBJECT) {
			uint32_t n;

			for (n = 0; n < 4096; n++) {
				const uint8_t *c = elf_at(f, row->ref + n, 1);

				if (!c || !*c)
					break;
			}
			if (n == 4096 || !elf_at(f, row->ref, n + 1))
				return error_set(e, ETCH_SEC_OBJ " record %" PRIu64 " has no name", i);
			row->name = (const char *)elf_at(f, row->ref, n + 1);
		}
		t->obj_count++;
	}
	return 0;
}

/* ---- functions named with --init -------------------------------------------------- */

static void init_sort(struct linked_tables *t)
{
	size_t i, n = 0;

	sort_words(t->init, t->init_count);
	for (i = 0; i < t->init_count; i++)
		if (!n || t->init[n - 1] != t->init[i])
			t->init[n++] = t->init[i];
	t->init_count = n;
}

static void init_read(const struct elf_file *f, struct linked_tables *t)
{
	uint32_t i = elf_section_find(f, ETCH_SEC_INIT_LIST, 1);
	const struct elf_section *s = &f->sections[i];

	if (!i || !s->data || s->sh.sh_type != SHT_PROGBITS || (s->sh.sh_flags & SHF_ALLOC))
		return;
	t->init_count = s->sh.sh_size / 8;
	t->init = mem_alloc(t->init_count, 8);
	memcpy(t->init, s->data, t->init_count * 8);
	init_sort(t);
}

int linked_init_add(const struct elf_file *f, struct linked_tables *t, const char *name, struct error *e)
{
	size_t capacity = t->init_count, had = t->init_count, length = strlen(name);
	uint32_t i;

	for (i = 1; i < f->symbol_count; i++) {
		const struct elf_symbol *y = &f->symbols[i];

		if (!y->section || y->type != STT_FUNC || strncmp(y->name, name, length) != 0 ||
		    (y->name[length] && y->name[length] != '.'))
			continue;
		mem_reserve(&t->init, &capacity, t->init_count, sizeof(*t->init));
		t->init[t->init_count++] = y->value;
	}
	if (t->init_count == had)
		return error_set(e, "--init %.100s: it has no function of this name%s", name,
		                 f->symbol_count ? " (has the compiler inlined it?)" : ", since it has no symbol table");
	init_sort(t);
	return 0;
}

int linked_tables_read(const struct elf_file *f, struct linked_tables *t, struct error *e)
{
	struct table_range imv, pv, obj;
	struct etch_module m;

	memset(t, 0, sizeof(*t));
	memset(&m, 0, sizeof(m));
	if (modules_read(f, t, &m, e) || parts_read(f, t, e))
		return -1;
	t->moved = t->flags & ETCH_MODULE_MOVED;
	init_read(f, t);
	if (table_locate(f, t, &m, &imv_kind, &imv, e) || table_locate(f, t, &m, &pv_kind, &pv, e) ||
	    table_locate(f, t, &m, &obj_kind, &obj, e))
		return -1;
	t->imv_addr = imv.addr;
	t->imv_capacity = imv.capacity;
	t->pv_addr = pv.addr;
	t->pv_capacity = pv.capacity;
	t->obj_addr = obj.addr;
	t->obj_capacity = obj.capacity;
	if (sites_read(f, &imv_kind, &imv, &t->imv, &t->imv_count, e) ||
	    sites_read(f, &pv_kind, &pv, &t->pv, &t->pv_count, e) || obj_read(f, t, e) || natives_read(f, t, e) ||
	    inlines_read(f, t, e))
		return -1;
	return !t->module_count && !t->imv_capacity && !t->pv_capacity && !t->obj_capacity;
}

void linked_tables_free(struct linked_tables *t)
{
	free(t->modules);
	free(t->imv);
	free(t->pv);
	free(t->obj);
	free(t->natives);
	free(t->inlines);
	free(t->init);
	memset(t, 0, sizeof(*t));
}

void linked_rows_free(struct linked_rows *r)
{
	free(r->imv);
	free(r->pv);
	free(r->obj);
	memset(r, 0, sizeof(*r));
}
