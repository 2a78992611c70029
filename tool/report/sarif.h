/* SPDX-License-Identifier: MIT */
/*
 * Reports as SARIF 2.1.0 (OASIS, Static Analysis Results Interchange Format), the input of code scanning services.
 * Numbers in the comments of sarif.c are sections of that specification.
 */
#ifndef REPORT_SARIF_H
#define REPORT_SARIF_H

#include <json-c/json.h>

#include "report/report.h"

/* A SARIF run while it is built; owns its JSON values. */
struct sarif {
	char *here, *root; /* directories, owned: base of names on the command line; base of source names */
	const char *docs;  /* URL of docs/findings.md; null: none */
	bool baseline;     /* results have a baselineState */
	bool suppressions; /* results have suppressions */
	struct json_object *artifacts, *results, *notices, *settings;
	struct json_object *index_of; /* index in `artifacts`, by URI */
};

/* root: null for the working directory. */
void sarif_init(struct sarif *s, const char *root);
/* Adds the findings of at least a severity. */
void sarif_add(struct sarif *s, const struct report *r, enum severity level);
/* Adds a finding of the baseline that is gone. */
void sarif_add_gone(struct sarif *s, const struct report *r, const struct report_finding *f);
/* Adds a notification about the configuration of the run. */
void sarif_note(struct sarif *s, const char *text);
/* Makes the document; s must still be freed. */
struct json_object *sarif_finish(struct sarif *s, int exit_code);
void sarif_free(struct sarif *s);

#endif
