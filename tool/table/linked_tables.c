/* SPDX-License-Identifier: MIT */
#include "table/linked_tables.h"

#include "elf/segment.h"

#include <etch/pv_forms.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

static uint8_t *mutable_at(const struct elf_file *f, uint64_t addr, uint64_t size)
{
	return (uint8_t *)elf_at(f, addr, size);
}

/* ---- reading ------------------------------------------------------------- */

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
			uint64_t *p;

			memcpy(&m, s->data + at, sizeof(m));
			if (m.magic != ETCH_MODULE_MAGIC)
				continue;
			if (!etch_module_valid(&m))
				return error_set(e, "its module descriptor is malformed or of another version (%u, "
				                 "this etch writes %u)", m.version, ETCH_MODULE_VERSION);
			if (elf_at(f, s->sh.sh_addr + at, sizeof(m)) != s->data + at)
				return error_set(e, "section %s: not where its segment has it", s->name);
			p = realloc(t->modules, (t->module_count + 1) * sizeof(*p));
			if (!p)
				return error_set(e, "out of memory");
			t->modules = p;
			if (!t->module_count) {
				*first = m;
				t->flags = m.flags;
			}
			p[t->module_count++] = s->sh.sh_addr + at;
			at += sizeof(m) - 8;
		}
	}
	return 0;
}

/* Where a table is described in the descriptor, and what it is called. */
struct table_kind {
	const char *name;
	size_t ref, count; /* fields of struct etch_module */
	size_t record;
};

static const struct table_kind imv_kind = {ETCH_SEC_IMV, offsetof(struct etch_module, imv),
                                           offsetof(struct etch_module, imv_count), sizeof(struct etch_imv)};
static const struct table_kind pv_kind = {ETCH_SEC_PV, offsetof(struct etch_module, pv),
                                          offsetof(struct etch_module, pv_count), sizeof(struct etch_imv)};
static const struct table_kind obj_kind = {ETCH_SEC_OBJ, offsetof(struct etch_module, obj),
                                           offsetof(struct etch_module, obj_count), sizeof(struct etch_obj)};

/* A table by its descriptor reference or its section; count in entries. */
static int table_locate(const struct elf_file *f, const struct linked_tables *t, const struct etch_module *m,
                        const struct table_kind *k, uint64_t *addr, uint64_t *room, struct error *e)
{
	uint32_t i;

	*addr = *room = 0;
	if (t->moved) {
		int64_t ref;

		memcpy(&ref, (const uint8_t *)m + k->ref, 8);
		memcpy(room, (const uint8_t *)m + k->count, 8);
		*addr = t->modules[0] + k->ref + (uint64_t)ref;
		if (*room > f->size / k->record || (*room && !elf_at(f, *addr, *room * k->record)))
			return error_set(e, "its module descriptor places %s outside the file", k->name);
		return 0;
	}
	i = elf_section_find(f, k->name, 1);
	if (!i || !f->sections[i].data)
		return 0;
	if (f->sections[i].sh.sh_size % k->record)
		return error_set(e, "section %s: size %" PRIu64 " is not a multiple of %zu", k->name,
		                 f->sections[i].sh.sh_size, k->record);
	*addr = f->sections[i].sh.sh_addr;
	*room = f->sections[i].sh.sh_size / k->record;
	if (elf_at(f, *addr, *room * k->record) != f->sections[i].data)
		return error_set(e, "section %s: not where its segment has it", k->name);
	return 0;
}

static int sites_read(const struct elf_file *f, const char *name, uint64_t addr, uint64_t room,
                      int (*valid)(const struct etch_imv *), struct imv_row **rows, size_t *count, struct error *e)
{
	const uint8_t *p = room ? elf_at(f, addr, room * sizeof(struct etch_imv)) : NULL;
	uint64_t i;

	*rows = calloc(room + 1, sizeof(**rows));
	if (!*rows)
		return error_set(e, "out of memory");
	for (i = 0; i < room; i++) {
		uint64_t at = addr + i * sizeof(struct etch_imv);
		struct imv_row *row = &(*rows)[*count];
		struct etch_imv *x = &row->entry;

		memcpy(x, p + i * sizeof(*x), sizeof(*x));
		if (!valid(x))
			return error_set(e, "%s entry %" PRIu64 " is malformed", name, i);
		if (x->form == ETCH_FORM_NONE)
			continue;
		row->site = etch_ref(at, x->site);
		row->obj = etch_ref(at + offsetof(struct etch_imv, obj), x->obj);
		(*count)++;
	}
	return 0;
}

static int natives_read(const struct elf_file *f, struct linked_tables *t, struct error *e)
{
	uint32_t s = 0;
	uint64_t i;

	while ((s = elf_section_find(f, ETCH_SEC_NATIVE, s + 1))) {
		const struct elf_section *sec = &f->sections[s];
		uint64_t n = sec->sh.sh_size / sizeof(struct etch_native);
		struct native_row *p;

		if (!sec->data)
			continue;
		if (sec->sh.sh_size % sizeof(struct etch_native))
			return error_set(e, "section " ETCH_SEC_NATIVE ": size %" PRIu64 " is not a multiple of %zu",
			                 sec->sh.sh_size, sizeof(struct etch_native));
		if (elf_at(f, sec->sh.sh_addr, sec->sh.sh_size) != sec->data)
			return error_set(e, "section " ETCH_SEC_NATIVE ": not where its segment has it");
		p = realloc(t->natives, (t->native_count + n + 1) * sizeof(*p));
		if (!p)
			return error_set(e, "out of memory");
		t->natives = p;
		for (i = 0; i < n; i++) {
			uint64_t at = sec->sh.sh_addr + i * sizeof(struct etch_native);
			struct etch_native x;

			memcpy(&x, sec->data + i * sizeof(x), sizeof(x));
			if (!etch_native_valid(&x))
				return error_set(e, ETCH_SEC_NATIVE " record %" PRIu64 " is malformed", i);
			t->natives[t->native_count++] = (struct native_row){
				at, etch_ref(at, x.func), etch_ref(at + offsetof(struct etch_native, code), x.code),
				x.len, x.flags};
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
		struct inline_row *p;

		if (!sec->data)
			continue;
		if (sec->sh.sh_size % sizeof(struct etch_inline))
			return error_set(e, "section " ETCH_SEC_INLINE ": size %" PRIu64 " is not a multiple of %zu",
			                 sec->sh.sh_size, sizeof(struct etch_inline));
		p = realloc(t->inlines, (t->inline_count + n + 1) * sizeof(*p));
		if (!p)
			return error_set(e, "out of memory");
		t->inlines = p;
		for (i = 0; i < n; i++) {
			uint64_t at = sec->sh.sh_addr + i * sizeof(struct etch_inline);
			struct etch_inline x;

			memcpy(&x, sec->data + i * sizeof(x), sizeof(x));
			t->inlines[t->inline_count++] = (struct inline_row){
				etch_ref(at, x.site), etch_ref(at + offsetof(struct etch_inline, slot), x.slot),
				etch_ref(at + offsetof(struct etch_inline, func), x.func)};
		}
	}
	return 0;
}

static int obj_read(const struct elf_file *f, struct linked_tables *t, struct error *e)
{
	const uint8_t *p = t->obj_room ? elf_at(f, t->obj_addr, t->obj_room * sizeof(struct etch_obj)) : NULL;
	uint64_t i;

	t->obj = calloc(t->obj_room + 1, sizeof(*t->obj));
	if (!t->obj)
		return error_set(e, "out of memory");
	for (i = 0; i < t->obj_room; i++) {
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

int linked_tables_read(const struct elf_file *f, struct linked_tables *t, struct error *e)
{
	struct etch_module m;

	memset(t, 0, sizeof(*t));
	memset(&m, 0, sizeof(m));
	if (modules_read(f, t, &m, e))
		return -1;
	t->moved = t->flags & ETCH_MODULE_MOVED;
	if (table_locate(f, t, &m, &imv_kind, &t->imv_addr, &t->imv_room, e) ||
	    table_locate(f, t, &m, &pv_kind, &t->pv_addr, &t->pv_room, e) ||
	    table_locate(f, t, &m, &obj_kind, &t->obj_addr, &t->obj_room, e))
		return -1;
	if (sites_read(f, ETCH_SEC_IMV, t->imv_addr, t->imv_room, etch_imv_valid, &t->imv, &t->imv_count, e) ||
	    sites_read(f, ETCH_SEC_PV, t->pv_addr, t->pv_room, etch_pv_valid, &t->pv, &t->pv_count, e) ||
	    obj_read(f, t, e) || natives_read(f, t, e) ||
	    inlines_read(f, t, e))
		return -1;
	return !t->module_count && !t->imv_room && !t->pv_room && !t->obj_room;
}

void linked_tables_free(struct linked_tables *t)
{
	free(t->modules);
	free(t->imv);
	free(t->pv);
	free(t->obj);
	free(t->natives);
	free(t->inlines);
	memset(t, 0, sizeof(*t));
}

void linked_rows_free(struct linked_rows *r)
{
	free(r->imv);
	free(r->pv);
	free(r->obj);
	memset(r, 0, sizeof(*r));
}

/* ---- writing ------------------------------------------------------------- */

/* The order of docs/formats.md: what libetch searches by address first. */
static int imv_order(const void *a, const void *b)
{
	const struct imv_row *x = a, *y = b;
	unsigned g = x->entry.flags & ETCH_IMV_GOT, h = y->entry.flags & ETCH_IMV_GOT;

	if (g != h)
		return g < h ? -1 : 1;
	if (x->obj != y->obj)
		return x->obj < y->obj ? -1 : 1;
	return x->site < y->site ? -1 : x->site > y->site;
}

static int obj_order(const void *a, const void *b)
{
	const struct obj_row *x = a, *y = b;

	if (x->kind != y->kind)
		return x->kind < y->kind ? -1 : 1;
	if (x->addr != y->addr)
		return x->addr < y->addr ? -1 : 1;
	return x->ref < y->ref ? -1 : x->ref > y->ref;
}

static bool ref_set(int32_t *field, uint64_t at, uint64_t to)
{
	int64_t d = (int64_t)(to - at);

	*field = (int32_t)d;
	return d == *field;
}

/* Every object's name is in the file already. */
static bool rows_named(const struct linked_rows *r)
{
	size_t i;

	for (i = 0; i < r->obj_count; i++)
		if (r->obj[i].kind == ETCH_OBJ_OBJECT && !r->obj[i].ref)
			return false;
	return true;
}

static bool fits_in_place(const struct linked_tables *now, const struct linked_rows *r)
{
	return !now->moved && r->imv_count <= now->imv_room && r->pv_count <= now->pv_room &&
	       r->obj_count <= now->obj_room && rows_named(r);
}

int linked_tables_room(const struct elf_file *f, const struct linked_tables *now, const struct linked_rows *rows,
                       struct error *e)
{
	struct segment_section probe = {.name = ETCH_SEC_IMV, .type = SHT_PROGBITS, .align = 4,
	                                .size = (rows->imv_count + rows->pv_count + rows->obj_count + 1) *
	                                        sizeof(struct etch_obj)};
	int r;

	if (fits_in_place(now, rows))
		return 1;
	if (!now->module_count) {
		error_set(e, "no module descriptor says where: include <etch/imv.h> in a file that marks an object");
		return 0;
	}
	r = segment_plan(f->bytes, f->size, &probe, 1, e->text, sizeof(e->text));
	return r == SEGMENT_OK ? 1 : r == SEGMENT_ENOSLOT ? 0 : -1;
}

/* Where the tables are to lie, and their bytes. */
struct table_places {
	uint64_t imv, pv, obj; /* addresses */
	uint8_t *imv_out, *pv_out, *obj_out;
};

static bool places_alloc(struct table_places *p, uint64_t imv, uint64_t pv, uint64_t obj)
{
	p->imv_out = calloc(imv + 1, sizeof(struct etch_imv));
	p->pv_out = calloc(pv + 1, sizeof(struct etch_imv));
	p->obj_out = calloc(obj + 1, sizeof(struct etch_obj));
	return p->imv_out && p->pv_out && p->obj_out;
}

static void places_free(struct table_places *p)
{
	free(p->imv_out);
	free(p->pv_out);
	free(p->obj_out);
}

static bool sites_encode(const struct imv_row *rows, size_t count, uint64_t addr, uint8_t *out)
{
	bool near = true;
	size_t i;

	for (i = 0; i < count; i++) {
		uint64_t at = addr + i * sizeof(struct etch_imv);
		struct etch_imv x = rows[i].entry;

		near &= ref_set(&x.site, at, rows[i].site);
		near &= ref_set(&x.obj, at + offsetof(struct etch_imv, obj), rows[i].obj);
		memcpy(out + i * sizeof(x), &x, sizeof(x));
	}
	return near;
}

/* Encodes the tables for the addresses they will have. */
static int encode(const struct linked_rows *r, const struct table_places *to, struct error *e)
{
	bool near = sites_encode(r->imv, r->imv_count, to->imv, to->imv_out) &&
	            sites_encode(r->pv, r->pv_count, to->pv, to->pv_out);
	size_t i;

	for (i = 0; i < r->obj_count; i++) {
		uint64_t at = to->obj + i * sizeof(struct etch_obj);
		const struct obj_row *o = &r->obj[i];
		struct etch_obj x = {.kind = o->kind, .flags = o->flags, .size = (uint32_t)o->size};

		near &= ref_set(&x.addr, at, o->addr);
		near &= ref_set(&x.ref, at + offsetof(struct etch_obj, ref), o->ref);
		memcpy(to->obj_out + i * sizeof(x), &x, sizeof(x));
	}
	return near ? 0 : error_set(e, "its tables are more than 2 GiB away from what they describe");
}

/* `to`: null when the tables stay where the section names have them. */
static void modules_write(struct elf_file *f, const struct linked_tables *now, const struct linked_rows *r,
                          const struct table_places *to)
{
	size_t i;

	for (i = 0; i < now->module_count; i++) {
		uint64_t at = now->modules[i];
		uint8_t *p = mutable_at(f, at, sizeof(struct etch_module));
		struct etch_module m;

		memcpy(&m, p, sizeof(m));
		m.flags = ETCH_MODULE_LINKED;
		m.imv = m.obj = m.pv = 0;
		m.imv_count = m.obj_count = m.pv_count = 0;
		if (to) {
			m.flags |= ETCH_MODULE_MOVED;
			m.imv = (int64_t)(to->imv - (at + offsetof(struct etch_module, imv)));
			m.obj = (int64_t)(to->obj - (at + offsetof(struct etch_module, obj)));
			m.imv_count = r->imv_count;
			m.obj_count = r->obj_count;
			if (r->pv_count)
				m.pv = (int64_t)(to->pv - (at + offsetof(struct etch_module, pv)));
			m.pv_count = r->pv_count;
		}
		memcpy(p, &m, sizeof(m));
	}
}

static void clear(struct elf_file *f, const char *name)
{
	uint32_t i = 0;

	while ((i = elf_section_find(f, name, i + 1)))
		if (f->sections[i].data)
			memset((uint8_t *)f->sections[i].data, 0, f->sections[i].sh.sh_size);
}

/* What goes to the etch segment, and what its addresses decide: the sections of
 * `unwind`, then __imv, __etch_obj, the names, and __pv_sites where there are any. */
struct segment_job {
	struct elf_file *f;
	const struct linked_tables *now;
	struct linked_rows *rows;
	struct linked_unwind *unwind;
	struct segment_section secs[LINKED_UNWIND_SECTIONS + 4];
	struct table_places to;
	char *names;
	struct error *e;
};

static int segment_fill(void *context)
{
	struct segment_job *j = context;
	const struct segment_section *own = &j->secs[j->unwind->count];
	struct linked_rows *r = j->rows;
	size_t i, n = 0;

	for (i = 0; i < j->unwind->count; i++)
		j->unwind->sections[i].addr = j->secs[i].addr;
	if (linked_unwind_fill(j->unwind, j->e))
		return -1;
	for (i = 0; i < r->obj_count; i++) {
		if (r->obj[i].kind != ETCH_OBJ_OBJECT)
			continue;
		strcpy(j->names + n, r->obj[i].name);
		r->obj[i].ref = own[2].addr + n;
		n += strlen(r->obj[i].name) + 1;
	}
	j->to.imv = own[0].addr;
	j->to.obj = own[1].addr;
	j->to.pv = r->pv_count ? own[3].addr : 0;
	if (encode(r, &j->to, j->e))
		return -1;
	if (!j->now->moved) { /* the old tables are out of use */
		clear(j->f, ETCH_SEC_IMV);
		clear(j->f, ETCH_SEC_PV);
		clear(j->f, ETCH_SEC_OBJ);
	}
	modules_write(j->f, j->now, r, &j->to);
	return 0;
}

static int write_segment(struct segment_job *j, uint8_t **out, size_t *out_size)
{
	struct segment_section *own = &j->secs[j->unwind->count];
	const struct linked_rows *r = j->rows;
	size_t names_size = 1, i;
	int err = -1;

	/* All names move along: one rule for all objects, whoever named them. */
	for (i = 0; i < r->obj_count; i++)
		if (r->obj[i].kind == ETCH_OBJ_OBJECT)
			names_size += strlen(r->obj[i].name) + 1;
	j->names = calloc(1, names_size);
	if (!places_alloc(&j->to, r->imv_count, r->pv_count, r->obj_count) || !j->names) {
		error_set(j->e, "out of memory");
		goto out;
	}
	memcpy(j->secs, j->unwind->sections, j->unwind->count * sizeof(*j->secs));
	own[0] = (struct segment_section){.name = ETCH_SEC_IMV, .type = SHT_PROGBITS, .align = 4, .data = j->to.imv_out,
	                                  .size = (r->imv_count + !r->imv_count) * sizeof(struct etch_imv)};
	own[1] = (struct segment_section){.name = ETCH_SEC_OBJ, .type = SHT_PROGBITS, .align = 4, .data = j->to.obj_out,
	                                  .size = (r->obj_count + !r->obj_count) * sizeof(struct etch_obj)};
	own[2] = (struct segment_section){.name = ETCH_SEC_NAMES, .type = SHT_PROGBITS, .align = 1, .data = j->names,
	                                  .size = names_size};
	own[3] = (struct segment_section){.name = ETCH_SEC_PV, .type = SHT_PROGBITS, .align = 4, .data = j->to.pv_out,
	                                  .size = r->pv_count * sizeof(struct etch_imv)};
	err = segment_build(j->f->bytes, j->f->size, j->secs, j->unwind->count + 3 + (r->pv_count != 0), segment_fill, j,
	                    out, out_size, j->e->text, sizeof(j->e->text)) ? -1 : 0;
out:
	places_free(&j->to);
	free(j->names);
	return err;
}

static void put(struct elf_file *f, uint64_t addr, const uint8_t *from, uint64_t size)
{
	if (size)
		memcpy(mutable_at(f, addr, size), from, size);
}

int linked_tables_write(struct elf_file *f, const struct linked_tables *now, struct linked_rows *rows,
                        struct linked_unwind *unwind, uint8_t **out, size_t *out_size, struct error *e)
{
	struct segment_job job = {.f = f, .now = now, .rows = rows, .unwind = unwind, .e = e};
	struct table_places to = {.imv = now->imv_addr, .pv = now->pv_addr, .obj = now->obj_addr};
	int err;

	*out = NULL;
	if (rows->imv_count)
		qsort(rows->imv, rows->imv_count, sizeof(*rows->imv), imv_order);
	if (rows->pv_count)
		qsort(rows->pv, rows->pv_count, sizeof(*rows->pv), imv_order);
	if (rows->obj_count)
		qsort(rows->obj, rows->obj_count, sizeof(*rows->obj), obj_order);
	if (!fits_in_place(now, rows))
		return write_segment(&job, out, out_size);
	err = places_alloc(&to, now->imv_room, now->pv_room, now->obj_room) ? encode(rows, &to, e)
	                                                                     : error_set(e, "out of memory");
	if (!err) {
		put(f, now->imv_addr, to.imv_out, now->imv_room * sizeof(struct etch_imv));
		put(f, now->pv_addr, to.pv_out, now->pv_room * sizeof(struct etch_imv));
		put(f, now->obj_addr, to.obj_out, now->obj_room * sizeof(struct etch_obj));
		modules_write(f, now, rows, NULL);
	}
	places_free(&to);
	return err;
}

void linked_native_flag(struct elf_file *f, struct linked_tables *now, size_t i, uint8_t flags)
{
	uint8_t *p = mutable_at(f, now->natives[i].at, sizeof(struct etch_native));

	now->natives[i].flags = flags;
	p[offsetof(struct etch_native, flags)] = flags;
}
