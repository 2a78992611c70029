/* SPDX-License-Identifier: MIT */
/* Makes the unwind rows of a file and, from these, the sections of an object file or a linked file, a sidecar, or a
 * debug file. */
#include "unwinding/unwind_make.h"

#include "arch/x86/byte_scan.h"
#include "output/debug_file.h"
#include "site/bake.h"
#include "site/in_place.h"
#include "support/memory.h"
#include "table/linked_tables.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

void unwind_made_free(struct unwind_made *m)
{
	free(m->bytes);
	eh_replaced_free(&m->eh.replaced);
	frames_free(&m->frames);
	memset(m, 0, sizeof(*m));
}

/* Analyses a file, and makes the canonical form of its rows, which has as few rows as possible. */
static int rows_find(const struct elf_file *f, const struct unwind_options *o, enum saves_of saves,
                     struct unwind_made *out, struct row_list *rows, struct error *e)
{
	const struct frames_options how = {.no_cfi = o->no_cfi, .jobs = o->jobs, .saves = saves};
	size_t i;

	memset(rows, 0, sizeof(*rows));
	if (frames_find(f, &how, &out->frames, e))
		return -1;
	big_trim(f->size);
	for (i = 0; i < out->frames.space.count; i++)
		out->text += out->frames.space.list[i].size;
	unwind_rows_canonical(&out->frames.rows, &out->frames.space, rows);
	row_list_free(&out->frames.rows); /* these rows take much memory, and are no longer needed */
	big_trim(f->size);
	return 0;
}

/* Collects the addresses after all possible calls in the code that gets rows. These are all possible return addresses
 * there, and the return-address map is exact for them. */
static void calls_find(const struct code_space *space, const struct row_list *near, uint64_t **calls, size_t *count)
{
	struct call_code code = {.lo = space->list[0].addr, .hi = space->list[0].addr};
	uint64_t from = near->rows[0].addr, end = near->rows[near->count - 1].addr;
	size_t i, n;

	*calls = NULL;
	*count = 0;
	for (i = 0; i < space->count; i++)
		if (space->list[i].addr + space->list[i].size > code.hi)
			code.hi = space->list[i].addr + space->list[i].size;
	for (i = 0; i < space->count; i++) {
		const struct code_section *c = &space->list[i];

		code.bytes = c->bytes;
		code.size = c->size;
		code.addr = c->addr;
		callsites_find(&code, calls, count);
	}
	for (i = n = 0; i < *count; i++)
		if ((*calls)[i] > from && (*calls)[i] <= end)
			(*calls)[n++] = (*calls)[i];
	*count = n;
}

int unwind_object(const struct elf_file *f, const struct unwind_options *o, struct unwind_made *out,
                  struct object_unwind *to, struct error *e)
{
	struct object_orc *orc = &to->orc;
	struct row_list rows;
	size_t i;
	int err;

	memset(to, 0, sizeof(*to));
	err = rows_find(f, o, SAVES_NONE, out, &rows, e);
	if (!err)
		object_orc_build(&out->frames.space, &rows, orc);
	if (!err && o->sframe)
		err = object_sframe_build(&out->frames.space, &rows, o->sframe, &to->sframe, e);
	row_list_free(&rows);
	if (err)
		return -1;
	out->rows = orc->rows;
	for (i = 0; i < orc->count; i++)
		out->unwind_bytes += orc->sections[i].size;
	out->lost = orc->lost;
	out->sframe = to->sframe.counts;
	out->sframe.starts = NULL;
	return 0;
}

/* Does the code span more than the 32-bit offsets of .sframe and .eh_frame_hdr can express? */
static bool is_too_far(const struct code_space *s)
{
	uint64_t lo = s->count ? s->list[0].addr & ~255ull : 0, hi = lo;
	size_t i;

	for (i = 0; i < s->count; i++)
		if (s->list[i].addr + s->list[i].size > hi)
			hi = s->list[i].addr + s->list[i].size;
	return hi - lo > UINT32_MAX;
}

enum eh_replace unwind_replaces(const struct elf_file *f, const struct unwind_options *o)
{
	if (o->replace || !linked_unwind_has_eh_frame(f))
		return o->replace;
	return rewrite_note_replaces(f);
}

static int registers_make(const struct unwind_options *o, const struct row_list *rows, struct unwind_made *out,
                          struct linked_unwind *unwind, struct error *e)
{
	const struct register_sources in = {rows, &out->frames.saves, o->no_cfi ? NULL : &out->frames.cfi};

	if (linked_unwind_registers(unwind, &in, &out->register_lost, e))
		return -1;
	out->register_bytes = linked_unwind_registers_section(unwind)->size;
	return 0;
}

/* Which sections a linked file gets in addition to the table itself: those that are asked for, and those that it has
 * from an earlier run. */
struct linked_extras {
	bool map; /* the return-address map, which is part of the table */
	bool registers, eh_frame;
	enum eh_replace replace;
	unsigned sframe; /* version of the .sframe section; 0: none */
};

static struct linked_extras extras_of(const struct elf_file *f, const struct unwind_options *o)
{
	const bool block = o->encoding == ETCH_ENCODING_BLOCK;

	return (struct linked_extras){
		.map = block && o->map_shift,
		.registers = block && (o->registers || linked_unwind_has_registers(f)),
		.eh_frame = o->eh_frame || linked_unwind_has_eh_frame(f),
		.replace = unwind_replaces(f, o),
		.sframe = o->sframe ? o->sframe : linked_unwind_sframe_version(f),
	};
}

/* Returns for which code the additional sections need the places of callee-saved registers. */
static enum saves_of saves_for(const struct linked_extras *x)
{
	static const enum saves_of eh_frame[] = {
		[EH_REPLACE_NONE] = SAVES_MISSING, [EH_REPLACE_WRONG] = SAVES_WRONG, [EH_REPLACE_ALL] = SAVES_ALL};

	if (x->registers)
		return SAVES_ALL;
	return x->eh_frame ? eh_frame[x->replace] : SAVES_NONE;
}

/* Makes the table from `near`, the rows of code that is not too far apart. */
static int near_make(const struct elf_file *f, const struct unwind_options *o, bool map, const struct row_list *near,
                     struct unwind_made *out, struct linked_unwind *unwind, struct error *e)
{
	struct unwind_kind kind = {.encoding = o->encoding, .map_shift = o->map_shift};
	uint64_t *calls = NULL;
	int err;

	if (map)
		calls_find(&out->frames.space, near, &calls, &kind.call_count);
	kind.calls = calls;
	err = linked_unwind_make(f, near, &kind, unwind, &out->lost, e);
	free(calls);
	return err;
}

/* Makes the table and the additional sections. .sframe and .eh_frame are made from all rows, since they do not grow
 * with the gaps between distant code. */
static int linked_make(const struct elf_file *f, const struct unwind_options *o, const struct linked_extras *x,
                       const struct row_list *rows, struct unwind_made *out, struct linked_unwind *unwind,
                       struct error *e)
{
	const struct eh_rows eh = {rows, &out->frames.saves, &out->frames.findings, x->replace};
	struct row_list near;

	rows_near(rows, &near, &out->far);
	if (!near.count)
		return 0;
	if (near_make(f, o, x->map, &near, out, unwind, e))
		return -1;
	if (!unwind->count)
		return 0;
	if (x->registers && registers_make(o, &near, out, unwind, e))
		return -1;
	if (x->sframe && linked_unwind_sframe(unwind, rows, x->sframe, e))
		return -1;
	if (x->eh_frame && linked_unwind_eh_frame(&out->frames.cfi, &out->frames.space, &eh, unwind, e))
		return -1;
	return 0;
}

int unwind_linked(const struct elf_file *f, const struct unwind_options *o, struct unwind_made *out,
                  struct linked_unwind *unwind, struct error *e)
{
	const struct linked_extras extras = extras_of(f, o);
	struct row_list rows;
	int err;

	memset(unwind, 0, sizeof(*unwind));
	err = rows_find(f, o, saves_for(&extras), out, &rows, e);
	if (!err && (extras.sframe || extras.eh_frame) && is_too_far(&out->frames.space)) {
		error_set(e, "its code spans more than 4 GiB: too far for .sframe and .eh_frame");
		err = 1;
	}
	if (!err)
		err = linked_make(f, o, &extras, &rows, out, unwind, e);
	cfi_file_close(&out->frames.cfi);
	row_list_free(&rows);
	if (err)
		return err;
	out->eh = unwind->eh;
	unwind->eh.replaced = (struct eh_replaced){0};
	out->eh.pointers = NULL;
	out->eh.entries = NULL;
	out->sframe = unwind->sframe;
	out->sframe.bytes = NULL;
	out->sframe.starts = NULL;
	if (!unwind->count)
		return 0;
	out->rows = unwind->header.rows;
	out->unwind_bytes = linked_unwind_size(unwind);
	return 0;
}

struct fill_job {
	struct linked_unwind *unwind;
	struct error *e;
};

static int fill(void *context)
{
	struct fill_job *j = context;

	return linked_unwind_fill(j->unwind, j->e);
}

int unwind_segment(const struct elf_file *f, struct linked_unwind *unwind, uint8_t **out, size_t *size, struct error *e)
{
	struct fill_job job = {unwind, e};
	const struct segment_request q = {.file = f->bytes,
	                                  .size = f->size,
	                                  .sections = unwind->sections,
	                                  .count = unwind->count,
	                                  .fill = fill,
	                                  .context = &job};

	return segment_build(&q, out, size, e);
}

/* Restores all sites, so that the rows do not depend on which of them are baked. */
static int sites_restore(struct elf_file *f, struct error *e)
{
	struct linked_tables now;
	int err = linked_tables_read(f, &now, e);

	if (!err)
		elf_bytes_own(f); /* the bytes will be changed in place */
	if (err >= 0)
		err = sites_unbake(f, &now, e) || in_place_unbake(f, &now, e);
	linked_tables_free(&now);
	return err ? -1 : 0;
}

/* Makes the bytes of a sidecar: the table, which is the first section and contains no addresses, followed by the
 * register table. */
static void sidecar_bytes(struct linked_unwind *unwind, struct unwind_made *out)
{
	const struct segment_section *registers = linked_unwind_registers_section(unwind);

	out->bytes = (uint8_t *)unwind->sections[0].data;
	out->size = unwind->sections[0].size;
	unwind->sections[0].data = NULL;
	if (registers) {
		out->bytes = mem_resize(out->bytes, out->size + registers->size, 1);
		memcpy(out->bytes + out->size, registers->data, registers->size);
		out->size += registers->size;
	}
}

int unwind_sidecar(struct elf_file *f, const struct unwind_options *o, struct unwind_made *out, struct error *e)
{
	struct linked_unwind unwind = {0};
	int err;

	memset(out, 0, sizeof(*out));
	if (sites_restore(f, e))
		return -1;
	err = unwind_linked(f, o, out, &unwind, e);
	if (!err && unwind.count)
		sidecar_bytes(&unwind, out);
	linked_unwind_free(&unwind);
	return err;
}

int unwind_debug(struct elf_file *f, const struct unwind_options *o, struct unwind_made *out, struct error *e)
{
	struct row_list rows = {0};
	const struct eh_rows eh = {.rows = &rows, .saves = &out->frames.saves};
	int err;

	memset(out, 0, sizeof(*out));
	err = sites_restore(f, e) || rows_find(f, o, SAVES_MISSING, out, &rows, e);
	if (!err)
		debug_frame_encode(&out->frames.cfi, &out->frames.space, &eh, &out->eh);
	if (!err && out->eh.count)
		debug_file_make(f, DEBUG_FRAME, out->eh.frame, out->eh.frame_size, &out->bytes, &out->size);
	out->rows = rows.count;
	free(out->eh.frame);
	free(out->eh.entries);
	out->eh.frame = NULL;
	out->eh.entries = NULL;
	row_list_free(&rows);
	return err ? -1 : 0;
}
