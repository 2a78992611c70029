/* SPDX-License-Identifier: MIT */
/* Loads the unwind rows of a file: from its table, from .sframe or from .eh_frame, or made from its code. */
#include "inspect/inspect.h"

#include "analysis/facts/cfi_file.h"
#include "arch/x86/rule_text.h"
#include "elf/symbols.h"
#include "kernel/kernel_orc.h"
#include "table/object_sframe.h"
#include "support/progress.h"
#include "site/bake.h"
#include "table/linked_unwind.h"
#include "table/object_orc.h"
#include "support/memory.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- rows from the code, and the tables of etch and of SFrame ------------------------------- */

/* Makes rows from the code as the link step does, with all sites restored. Returns 0, or -1 and a message. */
static int rows_generate(const struct elf_file *f, bool no_cfi, struct unwind_view *out, struct error *e)
{
	const struct frames_options how = {.no_cfi = no_cfi, .jobs = 1, .progress = true};
	struct elf_file plain = {0};
	struct linked_tables tables = {0};
	struct frames frames = {0};
	uint8_t *bytes = mem_zero(f->size + 1, 1);
	int err = -1;

	big_copy(bytes, f->bytes, f->size);
	if (elf_open_bytes(&plain, f->path, bytes, f->size, e))
		goto out;
	if (!elf_is_object(f) && (linked_tables_read(&plain, &tables, e) < 0 || sites_unbake(&plain, &tables, e)))
		goto out;
	err = frames_find(&plain, &how, &frames, e);
	progress_end();
	if (err)
		goto out;
	out->rows = frames.rows;
	frames.rows = (struct row_list){0};
	out->generated = out->sources = true;
out:
	frames_free(&frames);
	linked_tables_free(&tables);
	elf_close(&plain);
	return err;
}

static uint64_t arrays_size(const struct elf_file *f)
{
	uint64_t size = 0;
	uint32_t i;

	for (i = 1; i < f->section_count; i++)
		if (!strcmp(f->sections[i].name, ETCH_SEC_ORC_IP) || !strcmp(f->sections[i].name, ETCH_SEC_ORC))
			size += f->sections[i].sh.sh_size;
	return size;
}

/* Loads the unwind table of a file. Returns 1 if it is loaded; 0 if there is none; -1 and a message after an error. */
static int table_load(const struct elf_file *f, struct unwind_view *out, struct error *e)
{
	struct linked_unwind table;
	int r;

	/* view_kernel.c prints the arrays of the kernel's objtool; they do not count as a table of etch. */
	if (kernel_orc_present(f))
		return 0;
	if (elf_is_object(f)) {
		r = object_orc_rows(f, &out->space, &out->rows, e);
		if (r > 0) {
			out->table = "orc";
			out->bytes = arrays_size(f);
			out->row_count = out->rows.count;
			out->sources = true;
		}
		return r;
	}
	r = linked_unwind_read(f, &table, e);
	if (r > 0) {
		out->table = table.header.encoding == ETCH_ENCODING_ORC ? "orc" : "block";
		out->bytes = linked_unwind_size(&table);
		out->header = table.header;
		out->row_count = table.header.rows;
		r = linked_unwind_rows(&table, &out->rows, &out->sources, e) ? -1 : 1;
	}
	linked_unwind_free(&table);
	return r;
}

/*
 * Returns the section .sframe that a program header covers or, if there is none, the first one with contents; 0 if
 * there is none of either.
 */
static uint32_t sframe_find(const struct elf_file *f)
{
	uint32_t i = 0, k, first = 0;

	while ((i = elf_section_find(f, SFRAME_SECTION, i + 1))) {
		for (k = 0; k < f->phdr_count; k++)
			if (f->phdrs[k].p_type == PT_GNU_SFRAME && f->phdrs[k].p_vaddr == f->sections[i].sh.sh_addr)
				return i;
		first = first || !f->sections[i].data ? first : i;
	}
	return first;
}

/* Loads the rows of .sframe. Returns 0, or -1 and a message. */
static int sframe_load(const struct elf_file *f, struct unwind_view *out, struct error *e)
{
	uint32_t i = sframe_find(f);
	const struct elf_section *s = i ? &f->sections[i] : NULL;
	struct sframe_header head;
	uint8_t *resolved = NULL;
	int err;

	if (!s || !s->data)
		return error_set(e, "has no " SFRAME_SECTION);
	if (elf_is_object(f)) {
		resolved = object_sframe_resolve(f, &out->space, i, e);
		if (!resolved)
			return -1;
	}
	err = sframe_decode(resolved ? resolved : s->data, s->sh.sh_size, resolved ? 0 : s->sh.sh_addr, &out->space,
	                    &out->rows, e);
	free(resolved);
	if (err)
		return -1;
	out->table = "sframe";
	out->bytes = s->sh.sh_size;
	/* the last row is not counted, since it only marks the end of the code */
	out->row_count = out->rows.count ? out->rows.count - 1 : 0;
	/* the header is read without relocations, since none applies to its counts */
	memcpy(&head, s->data, sizeof(head));
	out->fdes = head.fde_count;
	out->fres = head.fre_count;
	return 0;
}

/* ---- .eh_frame as the file has it, without an analysis of the code ------------------------- */

struct loader {
	struct unwind_view *out;
	size_t save_capacity, why_capacity;
	uint64_t end; /* end of the previous row */
};

static void row_add(struct loader *l, uint64_t addr, const struct etch_cfi_row *row)
{
	struct unwind_view *u = l->out;
	size_t n = u->rows.count;

	mem_reserve(&u->rows.rows, &u->rows.capacity, n, sizeof(*u->rows.rows));
	mem_reserve(&u->saves, &l->save_capacity, n, sizeof(*u->saves));
	mem_reserve(&u->why, &l->why_capacity, n, sizeof(*u->why));
	memset(&u->rows.rows[n], 0, sizeof(u->rows.rows[n]));
	memset(&u->saves[n], 0, sizeof(u->saves[n]));
	u->rows.rows[n].addr = addr;
	u->why[n] = NULL;
	if (row) {
		u->rows.rows[n].rule = row->rule;
		u->rows.rows[n].source = ETCH_SOURCE_CFI;
		u->saves[n] = row->saves;
		u->why[n] = row->why;
	}
	u->rows.count++;
}

static void cfi_row(void *ctx, const struct etch_cfi_row *row)
{
	struct loader *l = ctx;

	if (l->out->rows.count && l->end != row->start) /* no FDE describes the code between the two rows */
		row_add(l, l->end, NULL);
	row_add(l, row->start, row);
	l->out->row_count++;
	l->end = row->end;
}

static int cfi_load(const struct elf_file *f, struct unwind_view *out, struct error *e)
{
	struct loader l = {.out = out};
	struct cfi_file cfi;
	size_t i;
	int err;

	cfi_file_open_current(f, &out->space, &cfi);
	err = cfi.part_count ? 0 : error_set(e, "has no .eh_frame");
	for (i = 0; i < cfi.count; i++)
		cfi_file_rows(&cfi, i, ETCH_CFI_SAVES, cfi_row, &l);
	if (out->rows.count)
		row_add(&l, l.end, NULL);
	for (i = 0; i < cfi.part_count; i++)
		out->bytes += cfi.parts[i].size;
	out->table = "cfi";
	out->unread = cfi.unread;
	cfi_file_close(&cfi);
	return err;
}

void saves_text(const struct etch_cfi_saves *s, char *out, size_t size)
{
	static const char *const base[] = {"", "cfa", "rbp", "rsp"};
	size_t at = 0;
	unsigned i;

	for (i = 0; i < 5 && at < size; i++) {
		const char *space = at ? " " : "";

		if (s->how[i] == ETCH_SAVE_SAME)
			continue;
		if (s->how[i] < ETCH_SAVE_OTHER)
			at += (size_t)snprintf(out + at, size - at, "%s%s@%s%+d", space, saved_reg_text(i), base[s->how[i]],
			                       s->off[i]);
		else
			at += (size_t)snprintf(out + at, size - at, "%s%s lost", space, saved_reg_text(i));
	}
	if (!at)
		snprintf(out, size, "-");
}

/* ---- all of them ------------------------------------------------------------------------- */

int unwind_view_load(const struct elf_file *f, enum unwind_from from, struct unwind_view *out, struct error *e)
{
	int r;

	memset(out, 0, sizeof(*out));
	space_build(f, &out->space);
	if (from == UNWIND_SFRAME)
		return sframe_load(f, out, e);
	if (from == UNWIND_CFI)
		return cfi_load(f, out, e);
	r = from == UNWIND_CODE_ONLY ? 0 : table_load(f, out, e);
	if (!r && from != UNWIND_TABLE)
		r = rows_generate(f, from == UNWIND_CODE_ONLY, out, e);
	return r < 0 ? -1 : 0;
}

void unwind_view_free(struct unwind_view *u)
{
	row_list_free(&u->rows);
	free(u->saves);
	free(u->why);
	space_free(&u->space);
	memset(u, 0, sizeof(*u));
}

/* ---- the places of callee-saved registers, from a register table --------------------------- */

/*
 * Splits rows where the places of registers change, and lists these places for each part. Where the rule is not that of
 * an ordinary frame, the register table has no meaning.
 */
static void rows_split(struct unwind_view *u, const struct register_list *l)
{
	const struct row_list rows = u->rows;
	size_t capacity = 0, save_capacity = 0, n = 0, i, k = 0;

	u->rows = (struct row_list){0};
	for (i = 0; i < rows.count; i++) {
		uint64_t addr = rows.rows[i].addr, end = i + 1 < rows.count ? rows.rows[i + 1].addr : addr + 1;

		while (addr < end) {
			uint64_t next = end;

			while (k + 1 < l->count && l->rows[k + 1].addr <= addr)
				k++;
			if (rows.rows[i].rule.kind == ETCH_RULE_CALL && k + 1 < l->count && l->rows[k + 1].addr < end)
				next = l->rows[k + 1].addr;
			mem_reserve(&u->rows.rows, &capacity, n, sizeof(*u->rows.rows));
			mem_reserve(&u->saves, &save_capacity, n, sizeof(*u->saves));
			u->rows.rows[n] = rows.rows[i];
			u->rows.rows[n].addr = addr;
			memset(&u->saves[n], 0, sizeof(u->saves[n]));
			if (rows.rows[i].rule.kind == ETCH_RULE_CALL)
				u->saves[n] = l->rows[k].saves;
			n++;
			addr = next;
		}
	}
	u->rows.count = n;
	u->rows.capacity = capacity;
	free(rows.rows);
}

int unwind_view_registers(const struct elf_file *f, struct unwind_view *u, struct error *e)
{
	const struct segment_section *s;
	struct linked_unwind table;
	struct register_list list;
	int r;

	if (!u->table || strcmp(u->table, "block"))
		return 0;
	r = linked_unwind_read(f, &table, e);
	s = r > 0 ? linked_unwind_registers_section(&table) : NULL;
	if (s)
		r = register_table_decode(s->data, s->size, &list, e);
	if (s && !r && list.count && u->rows.count)
		rows_split(u, &list);
	if (s && !r)
		register_list_free(&list);
	linked_unwind_free(&table);
	return r < 0 ? -1 : 0;
}
