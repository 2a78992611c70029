/* SPDX-License-Identifier: MIT */
#include "table/linked_tables.h"

#include "elf/segment.h"

#include <etch/forms.h>
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

/* A table by its descriptor reference or its section; count in entries. */
static int table_locate(const struct elf_file *f, const struct linked_tables *t, const struct etch_module *m,
                        const char *name, size_t record, uint64_t *addr, uint64_t *room, struct error *e)
{
	bool imv = record == sizeof(struct etch_imv);
	uint32_t i;

	*addr = *room = 0;
	if (t->moved) {
		uint64_t at = t->modules[0] + (imv ? offsetof(struct etch_module, imv) : offsetof(struct etch_module, obj));

		*addr = at + (uint64_t)(imv ? m->imv : m->obj);
		*room = imv ? m->imv_count : m->obj_count;
		if (*room > f->size / record || (*room && !elf_at(f, *addr, *room * record)))
			return error_set(e, "its module descriptor places %s outside the file", name);
		return 0;
	}
	i = elf_section_find(f, name, 1);
	if (!i || !f->sections[i].data)
		return 0;
	if (f->sections[i].sh.sh_size % record)
		return error_set(e, "section %s: size %" PRIu64 " is not a multiple of %zu", name,
		                 f->sections[i].sh.sh_size, record);
	*addr = f->sections[i].sh.sh_addr;
	*room = f->sections[i].sh.sh_size / record;
	if (elf_at(f, *addr, *room * record) != f->sections[i].data)
		return error_set(e, "section %s: not where its segment has it", name);
	return 0;
}

static int imv_read(const struct elf_file *f, struct linked_tables *t, struct error *e)
{
	const uint8_t *p = t->imv_room ? elf_at(f, t->imv_addr, t->imv_room * sizeof(struct etch_imv)) : NULL;
	uint64_t i;

	t->imv = calloc(t->imv_room + 1, sizeof(*t->imv));
	if (!t->imv)
		return error_set(e, "out of memory");
	for (i = 0; i < t->imv_room; i++) {
		uint64_t at = t->imv_addr + i * sizeof(struct etch_imv);
		struct imv_row *row = &t->imv[t->imv_count];
		struct etch_imv *x = &row->entry;

		memcpy(x, p + i * sizeof(*x), sizeof(*x));
		if (!etch_imv_valid(x))
			return error_set(e, ETCH_SEC_IMV " entry %" PRIu64 " is malformed", i);
		if (x->form == ETCH_FORM_NONE)
			continue;
		row->site = etch_ref(at, x->site);
		row->obj = etch_ref(at + offsetof(struct etch_imv, obj), x->obj);
		t->imv_count++;
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
	if (table_locate(f, t, &m, ETCH_SEC_IMV, sizeof(struct etch_imv), &t->imv_addr, &t->imv_room, e) ||
	    table_locate(f, t, &m, ETCH_SEC_OBJ, sizeof(struct etch_obj), &t->obj_addr, &t->obj_room, e))
		return -1;
	if (imv_read(f, t, e) || obj_read(f, t, e))
		return -1;
	return !t->module_count && !t->imv_room && !t->obj_room;
}

void linked_tables_free(struct linked_tables *t)
{
	free(t->modules);
	free(t->imv);
	free(t->obj);
	memset(t, 0, sizeof(*t));
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

static bool fits_in_place(const struct linked_tables *now, size_t imv_count, size_t obj_count, bool named)
{
	return !now->moved && named && imv_count <= now->imv_room && obj_count <= now->obj_room;
}

int linked_tables_room(const struct elf_file *f, const struct linked_tables *now, size_t imv_count, size_t obj_count,
                       bool named, struct error *e)
{
	struct segment_section probe = {.name = ETCH_SEC_IMV, .type = SHT_PROGBITS, .align = 4,
	                                .size = (imv_count + obj_count + 1) * sizeof(struct etch_obj)};
	int r;

	if (fits_in_place(now, imv_count, obj_count, named))
		return 1;
	if (!now->module_count) {
		error_set(e, "no module descriptor says where: include <etch/imv.h> in a file that marks an object");
		return 0;
	}
	r = segment_plan(f->bytes, f->size, &probe, 1, e->text, sizeof(e->text));
	return r == SEGMENT_OK ? 1 : r == SEGMENT_ENOSLOT ? 0 : -1;
}

/* Encodes both tables for the addresses they will have. */
static int encode(const struct imv_row *imv, size_t imv_count, uint64_t imv_addr, uint8_t *imv_out,
                  const struct obj_row *obj, size_t obj_count, uint64_t obj_addr, uint8_t *obj_out, struct error *e)
{
	bool near = true;
	size_t i;

	for (i = 0; i < imv_count; i++) {
		uint64_t at = imv_addr + i * sizeof(struct etch_imv);
		struct etch_imv x = imv[i].entry;

		near &= ref_set(&x.site, at, imv[i].site);
		near &= ref_set(&x.obj, at + offsetof(struct etch_imv, obj), imv[i].obj);
		memcpy(imv_out + i * sizeof(x), &x, sizeof(x));
	}
	for (i = 0; i < obj_count; i++) {
		uint64_t at = obj_addr + i * sizeof(struct etch_obj);
		struct etch_obj x = {.kind = obj[i].kind, .flags = obj[i].flags, .size = (uint32_t)obj[i].size};

		near &= ref_set(&x.addr, at, obj[i].addr);
		near &= ref_set(&x.ref, at + offsetof(struct etch_obj, ref), obj[i].ref);
		memcpy(obj_out + i * sizeof(x), &x, sizeof(x));
	}
	return near ? 0 : error_set(e, "its tables are more than 2 GiB away from what they describe");
}

static int modules_write(struct elf_file *f, const struct linked_tables *now, bool moved, uint64_t imv_addr,
                         uint64_t imv_count, uint64_t obj_addr, uint64_t obj_count)
{
	size_t i;

	for (i = 0; i < now->module_count; i++) {
		uint64_t at = now->modules[i];
		uint8_t *p = mutable_at(f, at, sizeof(struct etch_module));
		struct etch_module m;

		memcpy(&m, p, sizeof(m));
		m.flags = ETCH_MODULE_LINKED;
		m.imv = m.obj = 0;
		m.imv_count = m.obj_count = 0;
		if (moved) {
			m.flags |= ETCH_MODULE_MOVED;
			m.imv = (int64_t)(imv_addr - (at + offsetof(struct etch_module, imv)));
			m.obj = (int64_t)(obj_addr - (at + offsetof(struct etch_module, obj)));
			m.imv_count = imv_count;
			m.obj_count = obj_count;
		}
		memcpy(p, &m, sizeof(m));
	}
	return 0;
}

static void clear(struct elf_file *f, const char *name)
{
	uint32_t i = 0;

	while ((i = elf_section_find(f, name, i + 1)))
		if (f->sections[i].data)
			memset((uint8_t *)f->sections[i].data, 0, f->sections[i].sh.sh_size);
}

/* What goes to the etch segment, and what its addresses decide. */
struct segment_job {
	struct elf_file *f;
	const struct linked_tables *now;
	struct imv_row *imv;
	size_t imv_count;
	struct obj_row *obj;
	size_t obj_count;
	struct linked_unwind *unwind;
	struct segment_section secs[LINKED_UNWIND_SECTIONS + 3]; /* of unwind, then __imv, __etch_obj, names */
	uint8_t *imv_out, *obj_out;
	char *names;
	struct error *e;
};

static int segment_fill(void *context)
{
	struct segment_job *j = context;
	const struct segment_section *own = &j->secs[j->unwind->count];
	size_t i, n = 0;

	for (i = 0; i < j->unwind->count; i++)
		j->unwind->sections[i].addr = j->secs[i].addr;
	if (linked_unwind_fill(j->unwind, j->e))
		return -1;
	for (i = 0; i < j->obj_count; i++) {
		if (j->obj[i].kind != ETCH_OBJ_OBJECT)
			continue;
		strcpy(j->names + n, j->obj[i].name);
		j->obj[i].ref = own[2].addr + n;
		n += strlen(j->obj[i].name) + 1;
	}
	if (encode(j->imv, j->imv_count, own[0].addr, j->imv_out, j->obj, j->obj_count, own[1].addr, j->obj_out, j->e))
		return -1;
	if (!j->now->moved) { /* the old tables are out of use */
		clear(j->f, ETCH_SEC_IMV);
		clear(j->f, ETCH_SEC_OBJ);
	}
	return modules_write(j->f, j->now, true, own[0].addr, j->imv_count, own[1].addr, j->obj_count);
}

static int write_segment(struct segment_job *j, uint8_t **out, size_t *out_size)
{
	struct segment_section *own = &j->secs[j->unwind->count];
	size_t names_size = 1, i;
	int err = -1;

	/* All names move along: one rule for all objects, whoever named them. */
	for (i = 0; i < j->obj_count; i++)
		if (j->obj[i].kind == ETCH_OBJ_OBJECT)
			names_size += strlen(j->obj[i].name) + 1;
	j->imv_out = calloc(j->imv_count + 1, sizeof(struct etch_imv));
	j->obj_out = calloc(j->obj_count + 1, sizeof(struct etch_obj));
	j->names = calloc(1, names_size);
	if (!j->imv_out || !j->obj_out || !j->names) {
		error_set(j->e, "out of memory");
		goto out;
	}
	memcpy(j->secs, j->unwind->sections, j->unwind->count * sizeof(*j->secs));
	own[0] = (struct segment_section){.name = ETCH_SEC_IMV, .type = SHT_PROGBITS, .align = 4, .data = j->imv_out,
	                                  .size = (j->imv_count + !j->imv_count) * sizeof(struct etch_imv)};
	own[1] = (struct segment_section){.name = ETCH_SEC_OBJ, .type = SHT_PROGBITS, .align = 4, .data = j->obj_out,
	                                  .size = (j->obj_count + !j->obj_count) * sizeof(struct etch_obj)};
	own[2] = (struct segment_section){.name = ETCH_SEC_NAMES, .type = SHT_PROGBITS, .align = 1, .data = j->names,
	                                  .size = names_size};
	err = segment_build(j->f->bytes, j->f->size, j->secs, j->unwind->count + 3, segment_fill, j, out, out_size,
	                    j->e->text, sizeof(j->e->text)) ? -1 : 0;
out:
	free(j->imv_out);
	free(j->obj_out);
	free(j->names);
	return err;
}

int linked_tables_write(struct elf_file *f, const struct linked_tables *now, struct imv_row *imv, size_t imv_count,
                        struct obj_row *obj, size_t obj_count, struct linked_unwind *unwind,
                        uint8_t **out, size_t *out_size, struct error *e)
{
	struct segment_job job = {.f = f, .now = now, .imv = imv, .imv_count = imv_count, .obj = obj,
	                          .obj_count = obj_count, .unwind = unwind, .e = e};
	bool named = true;
	size_t i;
	uint8_t *p, *q;

	*out = NULL;
	if (imv_count)
		qsort(imv, imv_count, sizeof(*imv), imv_order);
	if (obj_count)
		qsort(obj, obj_count, sizeof(*obj), obj_order);
	for (i = 0; i < obj_count; i++)
		if (obj[i].kind == ETCH_OBJ_OBJECT && !obj[i].ref)
			named = false;
	if (!fits_in_place(now, imv_count, obj_count, named))
		return write_segment(&job, out, out_size);
	p = calloc(now->imv_room + 1, sizeof(struct etch_imv));
	q = calloc(now->obj_room + 1, sizeof(struct etch_obj));
	if (!p || !q) {
		free(p);
		free(q);
		return error_set(e, "out of memory");
	}
	if (encode(imv, imv_count, now->imv_addr, p, obj, obj_count, now->obj_addr, q, e)) {
		free(p);
		free(q);
		return -1;
	}
	if (now->imv_room)
		memcpy(mutable_at(f, now->imv_addr, now->imv_room * sizeof(struct etch_imv)), p,
		       now->imv_room * sizeof(struct etch_imv));
	if (now->obj_room)
		memcpy(mutable_at(f, now->obj_addr, now->obj_room * sizeof(struct etch_obj)), q,
		       now->obj_room * sizeof(struct etch_obj));
	free(p);
	free(q);
	return modules_write(f, now, false, 0, 0, 0, 0);
}
