/* SPDX-License-Identifier: MIT */
/* A file, looked at by every check, as a list of passes. */
#include "check/check.h"

#include "site/in_place.h"

#include <string.h>

/* Etched objects and the instructions that touch them, as the linker left them. */
static int sites_look(struct elf_file *f, struct subject *s, struct error *e)
{
	int err;

	if (elf_is_object(f)) {
		err = scan_object_file(&s->scan, f, NULL);
	} else {
		err = linked_tables_read(f, &s->tables, e);
		if (err)
			return err < 0 ? -1 : 0;
		if (sites_unbake(f, &s->tables, e) || in_place_unbake(f, &s->tables, e))
			return -1;
		err = scan_linked_file(&s->scan, f, &s->tables);
	}
	if (err)
		*e = s->scan.error;
	if (!err && !elf_is_object(f))
		objects_judge(&s->scan, &s->tables);
	return err;
}

int check_file(struct elf_file *f, const struct check_options *o, struct subject *s, struct error *e)
{
	struct frames_options frames = {.no_cfi = o->no_cfi, .jobs = o->jobs, .observe = true};

	memset(s, 0, sizeof(*s));
	s->file = f;
	s->options = o;
	if (sites_look(f, s, e) || frames_find(f, &frames, &s->frames, e) ||
	    fixups_read(f, &s->frames.space, &s->fixups, e) ||
	    ex_table_check(f, &s->frames.space, &s->fixups, &s->found, e))
		return -1;
	if (!findings_take(&s->found, &s->frames.findings) || !findings_take(&s->found, &s->scan.findings))
		return error_set(e, "out of memory");
	return 0;
}

void subject_free(struct subject *s)
{
	findings_free(&s->found);
	fixups_free(&s->fixups);
	frames_free(&s->frames);
	linked_tables_free(&s->tables);
	scan_free(&s->scan);
	memset(s, 0, sizeof(*s));
}
