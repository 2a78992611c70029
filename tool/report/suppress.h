/* SPDX-License-Identifier: MIT */
/*
 * Suppressions: rules from etch.supp and --ignore that match findings which the user has examined and accepted. Each
 * rule has a reason. docs/check.md describes the format.
 */
#ifndef REPORT_SUPPRESS_H
#define REPORT_SUPPRESS_H

#include "report/report.h"

/* A rule. */
struct suppression {
	char *rule;     /* as written by the user */
	char *id;       /* glob for IDs or names */
	char *path;     /* glob; null: all paths */
	char *function; /* glob; null: all functions */
	char *reason;
	char *origin; /* where the rule comes from: "etch.supp:3", "--ignore" */
	bool used;
};

struct suppressions {
	struct suppression *list;
	size_t count;
};

/* Adds a rule, ID[:PATH[:FUNCTION]]. Returns 0, or -1 and a message. */
int suppressions_add(struct suppressions *s, const char *rule, const char *reason, const char *origin, struct error *e);
/* Reads a file of rules. Returns 0, or -1 and a message. */
int suppressions_read(struct suppressions *s, const char *path, struct error *e);
/* Sets `suppressed` in the findings of a report. */
void suppressions_apply(struct suppressions *s, struct report *r);
/* True if the rule has suppressed nothing, although findings that it could match have at least this severity. */
bool suppression_unused(const struct suppression *s, enum severity level);
void suppressions_free(struct suppressions *s);

#endif
