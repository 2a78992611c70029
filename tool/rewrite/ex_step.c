/* SPDX-License-Identifier: MIT */
/* Checks the exception table of a file, sorts it in a linked file, and reports findings about it. */
#include "rewrite/rewrite.h"

bool rewrite_has_ex(const struct elf_file *f) { return elf_section_find(f, ETCH_SEC_EXTABLE, 1) != 0; }

int rewrite_ex(struct elf_file *f, struct findings *findings, struct rewrite_result *out, struct error *e)
{
	struct code_space space = {0};
	struct fixups x = {0};
	int err;

	space_build(f, &space);
	err = fixups_read(f, &space, &x, e) || ex_table_check(f, &space, &x, findings, e) ||
	      (!elf_is_object(f) && ex_table_sort(f, &x, &out->ex_dropped, e));
	out->ex_entries = x.count;
	fixups_free(&x);
	space_free(&space);
	return err ? -1 : 0;
}
