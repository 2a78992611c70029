/* SPDX-License-Identifier: MIT */
/*
 * Findings that somebody has looked at and does not want to hear of again, and why:
 * etch.supp and --ignore. docs/check.md has the format.
 */
#ifndef REPORT_SUPPRESS_H
#define REPORT_SUPPRESS_H

#include "report/report.h"

struct suppression {
	char *rule;   /* as it was written */
	char *id;     /* glob of IDs or names */
	char *path;   /* glob; null: everywhere */
	char *function; /* glob; null: all */
	char *reason;
	char *origin; /* "etch.supp:3", "--ignore" */
	bool used;
};

struct suppressions {
	struct suppression *list;
	size_t count;
};

/* ID[:PATH[:FUNCTION]]. 0, or -1 and a message. */
int suppressions_add(struct suppressions *s, const char *rule, const char *reason, const char *origin, struct error *e);
/* A file of them. 0, or -1 and a message. */
int suppressions_read(struct suppressions *s, const char *path, struct error *e);
/* Marks the findings of a report. False: out of memory. */
bool suppressions_apply(struct suppressions *s, struct report *r);
/* It has had no effect, and is about findings of such a severity. */
bool suppression_unused(const struct suppression *s, enum severity level);
void suppressions_free(struct suppressions *s);

#endif
