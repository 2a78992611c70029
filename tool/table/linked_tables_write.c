/* SPDX-License-Identifier: MIT */
/* Encodes the tables of a linked file and writes them, in place or to the etch segment. Formats: docs/formats.md. */
#include "table/linked_tables.h"

#include "output/segment.h"
#include "support/memory.h"

#include <stdlib.h>
#include <string.h>

static uint8_t *mutable_at(const struct elf_file *f, uint64_t addr, uint64_t size)
{
	return (uint8_t *)elf_at(f, addr, size);
}

/* The order of docs/formats.md, in which libetch searches the table. */
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

/* Are the names of all objects in the file already? */
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
	return !now->moved && imv_records(r->imv, r->imv_count) <= now->imv_capacity && r->pv_count <= now->pv_capacity &&
	       r->obj_count <= now->obj_capacity && rows_named(r);
}

int linked_tables_capacity(const struct elf_file *f, const struct linked_tables *now, const struct linked_rows *rows,
                           struct error *e)
{
	struct segment_section probe = {
		.name = ETCH_SEC_IMV,
		.type = SHT_PROGBITS,
		.align = 4,
		.size =
			(imv_records(rows->imv, rows->imv_count) + rows->pv_count + rows->obj_count + 1) * sizeof(struct etch_obj)};
	int r;

	if (fits_in_place(now, rows))
		return 1;
	if (!now->module_count) {
		error_set(e, "no module descriptor: include <etch/imv.h> in a file that marks an object");
		return 0;
	}
	r = segment_plan(f->bytes, f->size, &probe, 1, e);
	if (r == SEGMENT_OK)
		return 1;
	return r == SEGMENT_ENOSLOT ? 0 : -1;
}

/* Where the tables are to be written, and their contents. */
struct table_places {
	uint64_t imv, pv, obj; /* addresses of the tables */
	uint8_t *imv_out, *pv_out, *obj_out;
};

static void places_alloc(struct table_places *p, uint64_t imv, uint64_t pv, uint64_t obj)
{
	p->imv_out = mem_zero(imv + 1, sizeof(struct etch_imv));
	p->pv_out = mem_zero(pv + 1, sizeof(struct etch_imv));
	p->obj_out = mem_zero(obj + 1, sizeof(struct etch_obj));
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
	size_t i, n = 0;

	for (i = 0; i < count; i++) {
		uint64_t at = addr + n * sizeof(struct etch_imv);
		struct etch_imv x = rows[i].entry;

		near &= ref_set(&x.site, at, rows[i].site);
		near &= ref_set(&x.obj, at + offsetof(struct etch_imv, obj), rows[i].obj);
		memcpy(out + n++ * sizeof(x), &x, sizeof(x));
		if (x.flags & ETCH_IMV_MORE)
			memcpy(out + n++ * sizeof(x), &rows[i].more, sizeof(rows[i].more));
	}
	return near;
}

/* Encodes the tables for the addresses in `to`, and stores their contents there. */
static int encode(const struct linked_rows *r, const struct table_places *to, struct error *e)
{
	bool near = sites_encode(r->imv, r->imv_count, to->imv, to->imv_out) &&
	            sites_encode(r->pv, r->pv_count, to->pv, to->pv_out);
	size_t i;

	for (i = 0; i < r->obj_count; i++) {
		uint64_t at = to->obj + i * sizeof(struct etch_obj);
		const struct obj_row *o = &r->obj[i];
		struct etch_obj x = {.kind = o->kind, .flags = o->flags, .more = o->more, .size = (uint32_t)o->size};

		near &= ref_set(&x.addr, at, o->addr);
		near &= ref_set(&x.ref, at + offsetof(struct etch_obj, ref), o->ref);
		memcpy(to->obj_out + i * sizeof(x), &x, sizeof(x));
	}
	return near ? 0 : error_set(e, "its tables are more than 2 GiB away from what they describe");
}

/* Does the code of any baked site cross the border of an aligned 8-byte word? */
static bool rows_cross(const struct imv_row *rows, size_t count)
{
	size_t i;

	for (i = 0; i < count; i++)
		if ((rows[i].entry.flags & ETCH_IMV_BAKED) && !etch_site_is_live(rows[i].site, etch_imv_len(&rows[i].entry)))
			return true;
	return false;
}

/* Updates all copies of the module descriptor. `to`: addresses of moved tables; null: libetch finds the tables by their
 * sections. */
static void modules_write(struct elf_file *f, const struct linked_tables *now, const struct linked_rows *r,
                          const struct table_places *to)
{
	bool cross = rows_cross(r->imv, r->imv_count) || rows_cross(r->pv, r->pv_count);
	size_t i;

	for (i = 0; i < now->module_count; i++) {
		uint64_t at = now->modules[i];
		uint8_t *p = mutable_at(f, at, sizeof(struct etch_module));
		struct etch_module m;

		memcpy(&m, p, sizeof(m));
		m.flags = ETCH_MODULE_LINKED | (cross ? ETCH_MODULE_SWAP : 0) | (now->flags & ETCH_MODULE_CLOSED);
		m.imv = m.obj = m.pv = 0;
		m.imv_count = m.obj_count = m.pv_count = 0;
		if (to) {
			m.flags |= ETCH_MODULE_MOVED;
			m.imv = (int64_t)(to->imv - (at + offsetof(struct etch_module, imv)));
			m.obj = (int64_t)(to->obj - (at + offsetof(struct etch_module, obj)));
			m.imv_count = imv_records(r->imv, r->imv_count);
			m.obj_count = r->obj_count;
			if (r->pv_count)
				m.pv = (int64_t)(to->pv - (at + offsetof(struct etch_module, pv)));
			m.pv_count = r->pv_count;
		}
		memcpy(p, &m, sizeof(m));
	}
}

static int clear(struct elf_file *f, const char *name, struct error *e)
{
	uint32_t i = 0;

	while ((i = elf_section_find(f, name, i + 1))) {
		if (elf_section_alone(f, i, e))
			return -1;
		if (f->sections[i].data)
			memset((uint8_t *)f->sections[i].data, 0, f->sections[i].sh.sh_size);
	}
	return 0;
}

/* All that is needed to build the etch segment. The segment has the sections of `unwind`, then __imv, __etch_obj, the
 * names and, if it has entries, __pv_sites. */
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

/* segment_build() calls this when the addresses are known: encodes all contents for them. */
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
	/* The tables in their original sections are no longer used, and are cleared. */
	if (!j->now->moved &&
	    (clear(j->f, ETCH_SEC_IMV, j->e) || clear(j->f, ETCH_SEC_PV, j->e) || clear(j->f, ETCH_SEC_OBJ, j->e)))
		return -1;
	modules_write(j->f, j->now, r, &j->to);
	return 0;
}

/* Makes a new file that has the tables in the etch segment. */
static int write_segment(struct segment_job *j, uint8_t **out, size_t *out_size)
{
	struct segment_section *own = &j->secs[j->unwind->count];
	const struct linked_rows *r = j->rows;
	size_t names_size = 1, imv_count = imv_records(r->imv, r->imv_count), i;
	struct segment_request request;
	int err;

	/* All names are copied, even those that are already in the file, so that there is one rule for all objects. */
	for (i = 0; i < r->obj_count; i++)
		if (r->obj[i].kind == ETCH_OBJ_OBJECT)
			names_size += strlen(r->obj[i].name) + 1;
	j->names = mem_zero(1, names_size);
	places_alloc(&j->to, imv_count, r->pv_count, r->obj_count);
	memcpy(j->secs, j->unwind->sections, j->unwind->count * sizeof(*j->secs));
	own[0] = (struct segment_section){.name = ETCH_SEC_IMV,
	                                  .type = SHT_PROGBITS,
	                                  .align = 4,
	                                  .data = j->to.imv_out,
	                                  .size = (imv_count + !imv_count) * sizeof(struct etch_imv)};
	own[1] = (struct segment_section){.name = ETCH_SEC_OBJ,
	                                  .type = SHT_PROGBITS,
	                                  .align = 4,
	                                  .data = j->to.obj_out,
	                                  .size = (r->obj_count + !r->obj_count) * sizeof(struct etch_obj)};
	own[2] = (struct segment_section){
		.name = ETCH_SEC_NAMES, .type = SHT_PROGBITS, .align = 1, .data = j->names, .size = names_size};
	own[3] = (struct segment_section){.name = ETCH_SEC_PV,
	                                  .type = SHT_PROGBITS,
	                                  .align = 4,
	                                  .data = j->to.pv_out,
	                                  .size = r->pv_count * sizeof(struct etch_imv)};
	request = (struct segment_request){.file = j->f->bytes,
	                                   .size = j->f->size,
	                                   .sections = j->secs,
	                                   .count = j->unwind->count + 3 + (r->pv_count != 0),
	                                   .fill = segment_fill,
	                                   .context = j};
	err = segment_build(&request, out, out_size, j->e) ? -1 : 0;
	places_free(&j->to);
	free(j->names);
	return err;
}

static void put(struct elf_file *f, uint64_t addr, const uint8_t *from, uint64_t size)
{
	if (size)
		memcpy(mutable_at(f, addr, size), from, size);
}

int linked_tables_write(struct elf_file *f, const struct linked_tables *now, const struct linked_contents *contents,
                        uint8_t **out, size_t *out_size, struct error *e)
{
	struct linked_rows *rows = contents->rows;
	struct segment_job job = {.f = f, .now = now, .rows = rows, .unwind = contents->unwind, .e = e};
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
	places_alloc(&to, now->imv_capacity, now->pv_capacity, now->obj_capacity);
	err = encode(rows, &to, e);
	if (!err) {
		put(f, now->imv_addr, to.imv_out, now->imv_capacity * sizeof(struct etch_imv));
		put(f, now->pv_addr, to.pv_out, now->pv_capacity * sizeof(struct etch_imv));
		put(f, now->obj_addr, to.obj_out, now->obj_capacity * sizeof(struct etch_obj));
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
