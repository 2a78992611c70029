/* SPDX-License-Identifier: MIT */
/* Runs all checks on a file, one after the other. */
#include "check/check.h"
#include "site/armed_objects.h"

#include <string.h>

/* Finds etched objects and the instructions that use them, after baked sites have been restored. */
static int sites_check(struct elf_file *f, struct subject *s, struct error *e)
{
	int err;

	if (elf_is_object(f)) {
		err = scan_object_file(&s->scan, f, NULL);
	} else {
		err = check_tables_open(s, f, e);
		if (err)
			return err < 0 ? -1 : 0;
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
	struct frames_options frames = {.no_cfi = o->no_cfi, .jobs = o->jobs, .progress = o->progress, .observe = true};

	memset(s, 0, sizeof(*s));
	s->file = f;
	s->options = o;
	if (sites_check(f, s, e) || frames_find(f, &frames, &s->frames, e) ||
	    fixups_read(f, &s->frames.space, &s->fixups, e) ||
	    ex_table_check(f, &s->frames.space, &s->fixups, &s->found, e))
		return -1;
	/* These check program headers, symbols and .eh_frame. */
	if (check_hardening(s, e) || check_symbols(s, e))
		return -1;
	check_cfi(s);
	check_frame_tables(s);
	/* These check every instruction that the analysis reached. */
	check_decoders(s);
	if (check_branches(s, e))
		return -1;
	check_speculation(s);
	/* These check etch's own tables, and the objects and sites that etch rewrite would handle. */
	check_etched(s);
	check_tables(s);
	if (check_unwind(s, e))
		return -1;
	findings_take(&s->found, &s->frames.findings);
	findings_take(&s->found, &s->scan.findings);
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
