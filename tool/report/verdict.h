/* SPDX-License-Identifier: MIT */
/*
 * Decides how each finding counts in a run of `etch check`: whether the user has accepted it, whether the baseline or
 * an earlier file has it, **its severity**, and whether it is shown. All of this is decided here, after the last input
 * has been checked.
 */
#ifndef REPORT_VERDICT_H
#define REPORT_VERDICT_H

#include "report/baseline.h"
#include "report/report.h"
#include "report/across_files.h"
#include "report/suppress.h"

#define SEVERITY_NEVER SEVERITIES /* a value in place of a severity, for --fail-on never and --compiler ignore */

/* The severities that the user has chosen. */
struct severity_policy {
	enum severity level; /* lowest severity that is shown */
	unsigned fail_on;    /* lowest severity that causes exit status 1, or SEVERITY_NEVER */
	/*
	 * The severity of findings that are due to the compiler is lowered to this one; SEVERITY_NEVER: such findings are
	 * suppressed.
	 */
	unsigned compiler;
};

/* Where findings may be known from: suppressions, the baseline, and earlier files. */
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
	size_t hidden[SEVERITIES]; /* number of findings in `found` that are not printed, since their severity is below
	                              --level */
	size_t suppressed, known;  /* findings that do not count */
	size_t gone;               /* findings of the baseline that no longer occur */
	size_t unused;             /* suppressions without effect */
};

/*
 * Returns the severity of a finding with catalogue entry `e`: that of the entry, or a lower one if the finding is due
 * to the compiler.
 */
enum severity severity_decide(const struct severity_policy *p, const struct catalogue_entry *e, bool compiler);
/*
 * Returns the severity below which findings are neither shown nor change the exit status. No names and source lines are
 * looked up for them.
 */
enum severity severity_lowest(const struct severity_policy *p);

/* Decides about the findings of all reports. The reports must not move before known_free(). */
void verdicts_decide(const struct severity_policy *p, struct known *known, struct report *reports, size_t count);

/*
 * True if the finding counts: it is not suppressed, is not in the baseline, and has not been reported for an earlier
 * file.
 */
bool finding_counts(const struct report_finding *f);
/*
 * True if the findings of a level include this one. The severity of the catalogue entry decides, so that findings that
 * --compiler has lowered are shown too.
 */
bool finding_reaches(const struct report_finding *f, enum severity level);
void totals_add(struct totals *n, const struct report *r, enum severity level);
void known_free(struct known *known);

#endif
