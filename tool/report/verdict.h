/* SPDX-License-Identifier: MIT */
/*
 * Decides how each finding counts in a run of `etch check`: whether the user has accepted it, whether it is known or
 * repeats another one, **its severity**, and whether it is shown. All of this is decided here, after the last input
 * is known.
 */
#ifndef REPORT_VERDICT_H
#define REPORT_VERDICT_H

#include "report/baseline.h"
#include "report/report.h"
#include "report/seen.h"
#include "report/suppress.h"

#define SEVERITY_NEVER SEVERITIES /* stands in place of a severity: --fail-on never, --compiler ignore */

/* The severities that the user has chosen. */
struct severity_policy {
	enum severity level; /* lowest severity that is shown */
	unsigned fail_on;    /* lowest severity that gives exit status 1, or SEVERITY_NEVER */
	/* Highest severity of a finding that is due to the compiler; SEVERITY_NEVER: such findings are suppressed. */
	unsigned compiler;
};

/* What is known about findings before this run. */
struct known {
	struct suppressions rules;
	struct baseline baseline;
	struct seen_all seen;
};

/* Numbers of files and findings. */
struct totals {
	size_t files;              /* files checked */
	size_t unusable;           /* files that could not be read */
	size_t skipped;            /* files and archive members that are not ELF files */
	size_t found[SEVERITIES];  /* findings that count, by severity */
	size_t hidden[SEVERITIES]; /* number of these that are not printed, since they are below --level */
	size_t suppressed, known;  /* findings that do not count */
	size_t gone;               /* findings of the baseline that no longer occur */
	size_t unused;             /* suppressions without effect */
};

/* Returns the severity of a finding: that of its catalogue entry, or a lower one if it is due to the compiler. */
enum severity severity_decide(const struct severity_policy *p, const struct catalogue_entry *e, bool compiler);
/* Returns the severity below which findings are neither shown nor change the exit status, so that they need no names
 * and source lines. */
enum severity severity_lowest(const struct severity_policy *p);

/* Decides about the findings of all reports, which must not move before known_free(). */
void verdicts_decide(const struct severity_policy *p, struct known *known, struct report *reports, size_t count);

/* True if the finding counts: it is not suppressed, not in the baseline, and does not repeat one in an earlier file. */
bool finding_counts(const struct report_finding *f);
/* True if a level shows the finding, by the severity of its catalogue entry: findings that --compiler lowers are
 * shown all the same. */
bool finding_reaches(const struct report_finding *f, enum severity level);
void totals_add(struct totals *n, const struct report *r, enum severity level);
void known_free(struct known *known);

#endif
