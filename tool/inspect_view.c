/* SPDX-License-Identifier: MIT */
/* A file as a developer wants to see it: opened, its tables read, its sites found. */
#include "inspect.h"
#include "site/bake.h"

#include <stdlib.h>
#include <string.h>

static int word_order(const void *a, const void *b)
{
	const uint64_t *x = a, *y = b;

	return *x < *y ? -1 : *x > *y;
}

static int view_load_linked(struct view *v, struct error *e)
{
	size_t i;

	if (linked_tables_read(&v->file, &v->tables, e) < 0)
		return -1;
	v->baked = calloc(v->tables.imv_count + 1, sizeof(*v->baked));
	if (!v->baked)
		return error_set(e, "out of memory");
	for (i = 0; i < v->tables.imv_count; i++)
		if (v->tables.imv[i].entry.flags & ETCH_IMV_BAKED)
			v->baked[v->baked_count++] = v->tables.imv[i].site;
	if (v->baked_count)
		qsort(v->baked, v->baked_count, sizeof(*v->baked), word_order);
	/* Looked at as the linker wrote it, like the link step does. */
	if (sites_unbake(&v->file, &v->tables, e))
		return -1;
	if (scan_linked_file(&v->scan, &v->file, &v->tables)) {
		*e = v->scan.error;
		return -1;
	}
	if (v->tables.flags & ETCH_MODULE_LINKED)
		sites_unlisted(&v->scan, &v->tables);
	objects_judge(&v->scan, &v->tables);
	return 0;
}

int view_load(struct view *v, const char *path, struct error *e)
{
	memset(v, 0, sizeof(*v));
	v->path = path;
	if (elf_open(&v->file, path, e))
		return -1;
	if (!elf_is_object(&v->file))
		return view_load_linked(v, e);
	if (scan_object_file(&v->scan, &v->file, NULL)) {
		*e = v->scan.error;
		return -1;
	}
	return 0;
}

void view_free(struct view *v)
{
	linked_tables_free(&v->tables);
	scan_free(&v->scan);
	elf_close(&v->file);
	free(v->baked);
}

bool view_is_baked(const struct view *v, const struct site *s)
{
	return s->kind == SITE_LOAD && v->baked_count &&
	       bsearch(&s->addr, v->baked, v->baked_count, sizeof(*v->baked), word_order);
}

const char *file_kind(const struct elf_file *f)
{
	return elf_is_object(f) ? "object" : f->eh.e_type == ET_EXEC ? "program"
	       : elf_is_pie(f) ? "program (PIE)" : "shared object";
}
