/* SPDX-License-Identifier: MIT */
/* Loads the rows of .eh_frame as the file has them, without an analysis of the code. */
#include "inspect/inspect.h"

#include "analysis/facts/cfi_file.h"
#include "arch/x86/rule_text.h"
#include "support/memory.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

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

	if (l->out->rows.count && l->end != row->start) /* no FDE covers the code in between */
		row_add(l, l->end, NULL);
	row_add(l, row->start, row);
	l->out->row_count++;
	l->end = row->end;
}

int unwind_view_cfi(const struct elf_file *f, struct unwind_view *out, struct error *e)
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
