/* SPDX-License-Identifier: MIT */
/* Numbers of a run of etch check. */
#ifndef REPORT_TOTALS_H
#define REPORT_TOTALS_H

#include "report/report.h"

#define SEVERITIES 3

/* Numbers of files and findings. */
struct totals {
	size_t files;              /* files checked */
	size_t unusable;           /* files that could not be read */
	size_t skipped;            /* files and archive members that are not ELF files */
	size_t found[SEVERITIES];  /* findings that count, by severity */
	size_t hidden[SEVERITIES]; /* of these, not printed: below --level */
	size_t suppressed, known;  /* findings that do not count */
	size_t gone;               /* findings of the baseline that no longer occur */
	size_t unused;             /* suppressions without effect */
};

/* The finding counts: it is not suppressed, not in the baseline, and not a repetition of one in an earlier file. */
static inline bool finding_counts(const struct report_finding *f)
{
	return !f->suppressed && !f->known && !f->repeated;
}

static inline void totals_add(struct totals *n, const struct report *r, enum severity level)
{
	size_t i;

	n->files += !r->error;
	n->unusable += !!r->error;
	for (i = 0; i < r->count; i++) {
		const struct report_finding *f = &r->list[i];

		n->suppressed += !!f->suppressed;
		n->known += !f->suppressed && f->known;
		n->found[f->severity] += finding_counts(f);
		n->hidden[f->severity] += finding_counts(f) && f->entry->severity < level;
	}
}

#endif
