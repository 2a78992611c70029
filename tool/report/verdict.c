/* SPDX-License-Identifier: MIT */
/* Decides how each finding of a run counts, in a list of steps (see verdict.h). */
#include "report/verdict.h"
#include "support/memory.h"

enum severity severity_decide(const struct severity_policy *p, const struct catalogue_entry *e, bool compiler)
{
	unsigned most = p->compiler == SEVERITY_NEVER ? SEVERITY_NOTE : p->compiler;

	return compiler && e->severity > most ? (enum severity)most : e->severity;
}

enum severity severity_lowest(const struct severity_policy *p)
{
	return p->fail_on < p->level ? (enum severity)p->fail_on : p->level;
}

bool finding_counts(const struct report_finding *f) { return !f->suppressed && !f->known && !f->repeated; }

bool finding_reaches(const struct report_finding *f, enum severity level) { return f->entry->severity >= level; }

void verdicts_decide(const struct severity_policy *p, struct known *known, struct report *reports, size_t count)
{
	size_t i, k;

	/* Step 1: the findings that the user has accepted, and those in the baseline. */
	for (i = 0; i < count; i++) {
		if (!reports[i].error) {
			suppressions_apply(&known->rules, &reports[i]);
			reports[i].old = baseline_apply(&known->baseline, i, &reports[i]);
		}
		if (count > 1)
			seen_add(&known->seen, &reports[i]);
	}
	/* Step 2: the findings that several files have. This step may also decide that a finding is due to the compiler. */
	seen_join(&known->seen);
	for (i = 0; i < count; i++)
		for (k = 0; k < reports[i].count; k++) {
			struct report_finding *f = &reports[i].list[k];

			f->severity = severity_decide(p, f->entry, f->compiler);
			if (f->compiler && p->compiler == SEVERITY_NEVER && !f->suppressed)
				f->suppressed = mem_string("--compiler=ignore");
		}
}

void totals_add(struct totals *n, const struct report *r, enum severity level)
{
	size_t i;

	n->files += !r->error;
	n->unusable += !!r->error;
	for (i = 0; i < r->count; i++) {
		const struct report_finding *f = &r->list[i];

		n->suppressed += !!f->suppressed;
		n->known += !f->suppressed && f->known;
		n->found[f->severity] += finding_counts(f);
		n->hidden[f->severity] += finding_counts(f) && !finding_reaches(f, level);
	}
	for (i = 0; i < SEVERITIES; i++) {
		n->found[i] += r->dropped[i];
		n->hidden[i] += r->dropped[i];
	}
}

void known_free(struct known *known)
{
	suppressions_free(&known->rules);
	baseline_free(&known->baseline);
	seen_free(&known->seen);
}
