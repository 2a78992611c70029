/* SPDX-License-Identifier: MIT */
/*
 * Writes reports as SARIF 2.1.0 (OASIS, Static Analysis Results Interchange Format), the input of code scanning
 * services. Numbers in the comments of sarif.c are sections of that specification.
 */
#ifndef REPORT_SARIF_H
#define REPORT_SARIF_H

#include <json-c/json.h>

#include "report/report.h"

/* A SARIF run while it is built. It owns its JSON values. */
struct sarif {
	/*
	 * here: the directory to which the names on the command line are relative; root: the directory to which the names
	 * of source files are made relative; both owned.
	 */
	char *here, *root;
	const char *docs;  /* URL of docs/findings.md; null: results have no links to it */
	bool baseline;     /* each result states whether the baseline has it (baselineState) */
	bool suppressions; /* results list their suppressions */
	struct json_object *artifacts, *results, *notices, *settings;
	struct json_object *index_of; /* maps a URI to its index in `artifacts` */
};

/* Begins a run. `root` is the directory to which source files are made relative; null: the working directory. */
void sarif_init(struct sarif *s, const char *root);
/* Adds those findings of a report that have at least the given severity. */
void sarif_add(struct sarif *s, const struct report *r, enum severity level);
/* Adds a finding of the baseline that no longer occurs. */
void sarif_add_gone(struct sarif *s, const struct report *r, const struct report_finding *f);
/* Adds a notification about the configuration of the run. */
void sarif_note(struct sarif *s, const char *text);
/* Makes the document from all that has been added. The caller must still call sarif_free(). */
struct json_object *sarif_finish(struct sarif *s, int exit_code);
void sarif_free(struct sarif *s);

#endif
