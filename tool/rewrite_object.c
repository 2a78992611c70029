/* SPDX-License-Identifier: MIT */
/* The object step: what an object file says about etched objects becomes tables
 * that the linker carries along. Code bytes stay as they are. */
#include "rewrite.h"
#include "table/object_tables.h"

#include <stdlib.h>
#include <string.h>

int rewrite_object(const struct elf_file *f, const struct name_set *others, struct scan *s,
                   struct rewrite_result *out, struct error *e)
{
	struct object_tables tables = {0};
	bool *emptied = calloc(f->section_count, sizeof(*emptied));
	int err = -1, same;
	size_t i;

	memset(out, 0, sizeof(*out));
	if (!emptied)
		return error_set(e, "out of memory");
	/* Find the objects and every instruction that touches one. */
	if (scan_object_file(s, f, others)) {
		*e = s->error;
		goto out;
	}
	for (i = 0; i < s->site_count; i++) {
		if (s->sites[i].kind != SITE_LOAD)
			continue;
		out->sites += !s->sites[i].reason;
		out->kept += s->sites[i].reason != NULL;
	}
	/* Make the tables, and stop here if an earlier run left the same ones:
	 * rewriting twice is rewriting once. */
	if (object_tables_build(s, &tables, e))
		goto out;
	same = object_tables_present(f, &tables, emptied, e);
	if (same < 0)
		goto out;
	err = same ? 0 : object_write(f, tables.sections, tables.count, emptied, &out->bytes, &out->size, e);
out:
	object_tables_free(&tables);
	free(emptied);
	return err;
}
