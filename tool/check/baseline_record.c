/* SPDX-License-Identifier: MIT */
/*
 * Writes a baseline, which is the document that --format json prints, in addition to the output of the run
 * (check_print.h).
 */
#include "check/baseline_record.h"
#include "output/outfile.h"
#include "support/bounds.h"

void record_begin(struct baseline_record *b, const char *path)
{
	b->path = path;
	b->document = (struct check_printer){.format = CHECK_JSON, .level = SEVERITY_NOTE, .quiet = true, .to_file = true};
	check_print_begin(&b->document, NULL, NULL, false, false);
}

void record_add(struct baseline_record *b, struct report *r)
{
	struct totals none = {0};
	size_t i;

	if (!b->path)
		return;
	check_print_file(&b->document, r, &none);
	for (i = 0; i < r->count; i++)
		r->list[i].known = true;
}

static int record_write(struct baseline_record *b, const struct suppressions *rules, const struct totals *n,
                        struct error *e)
{
	const struct check_printer *d = &b->document;

	if (n->unusable)
		return error_set(e, "%.300s was not written, because a file could not be used", b->path);
	check_print_end(&b->document, rules, n, 0);
	if (ferror(d->out))
		bounds_exhausted();
	return outfile_write(b->path, d->bytes, d->size, NULL, e) ? -1 : 0;
}

bool record_end(struct baseline_record *b, const struct suppressions *rules, const struct totals *n, bool quiet)
{
	struct error e;
	int err = b->path ? record_write(b, rules, n, &e) : 0;

	if (err)
		text_error(NULL, "%s", e.text);
	else if (b->path && !quiet)
		text_error(b->path, "written: from now on only findings that are not in it count");
	return !err;
}

void record_free(struct baseline_record *b)
{
	if (b->path)
		check_print_free(&b->document);
}
