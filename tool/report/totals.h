/* SPDX-License-Identifier: MIT */
/* What a run of etch check comes to, in numbers. */
#ifndef REPORT_TOTALS_H
#define REPORT_TOTALS_H

#include "report/report.h"

#define SEVERITIES 3

struct totals {
	size_t files;             /* looked at */
	size_t unusable;          /* could not be */
	size_t skipped;           /* found beside them, and none of ours */
	size_t found[SEVERITIES]; /* findings that count, by severity */
	size_t hidden[SEVERITIES]; /* of those, not shown: below --level */
	size_t suppressed, known; /* findings that do not count: suppressed; in the baseline */
	size_t gone;              /* in the baseline, and no more */
	size_t unused;            /* suppressions without effect */
};

/* It counts: nobody has suppressed it, and no baseline has it. */
static inline bool finding_counts(const struct report_finding *f)
{
	return !f->suppressed && !f->known;
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
		n->found[f->entry->severity] += finding_counts(f);
		n->hidden[f->entry->severity] += finding_counts(f) && f->entry->severity < level;
	}
}

#endif
