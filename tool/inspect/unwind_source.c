/* SPDX-License-Identifier: MIT */
/* Loads the unwind rows of a file. */
#include "inspect/inspect.h"

#include "elf/symbols.h"
#include "kernel/kernel_orc.h"
#include "table/object_sframe.h"
#include "support/progress.h"
#include "site/bake.h"
#include "table/object_orc.h"
#include "support/memory.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Makes rows from the code with all sites restored, as the link step does. */
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

	/* view_kernel.c shows the arrays of objtool; here they do not count as a table. */
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

/* Returns the section .sframe that a program header covers or, without one, the first with contents; 0 if there is
 * none. */
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

/* Loads the rows of .sframe. */
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
	out->row_count = out->rows.count ? out->rows.count - 1 : 0; /* the last row only marks the end of the code */
	memcpy(&head, s->data, sizeof(head));                       /* the counts in the header have no relocations */
	out->fdes = head.fde_count;
	out->fres = head.fre_count;
	return 0;
}

int unwind_view_load(const struct elf_file *f, enum unwind_from from, struct unwind_view *out, struct error *e)
{
	int r;

	memset(out, 0, sizeof(*out));
	space_build(f, &out->space);
	if (from == UNWIND_SFRAME)
		return sframe_load(f, out, e);
	if (from == UNWIND_CFI)
		return unwind_view_cfi(f, out, e);
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
