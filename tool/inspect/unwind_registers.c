/* SPDX-License-Identifier: MIT */
/* Adds the places of callee-saved registers, from the file's register table, to the rows of its unwind table. */
#include "inspect/inspect.h"

#include "support/memory.h"
#include "table/linked_unwind.h"

#include <stdlib.h>
#include <string.h>

/* Splits the rows where the places change, and lists the places for each part. The register table means nothing where
 * the rule is not that of an ordinary frame. */
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
