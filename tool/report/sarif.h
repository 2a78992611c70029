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
	/* Directories, owned: the one that names on the command line are relative to, and the one for names of sources. */
	char *here, *root;
	const char *docs;  /* URL of docs/findings.md; null: results have no links to it */
	bool baseline;     /* results have a baselineState */
	bool suppressions; /* results have suppressions */
	struct json_object *artifacts, *results, *notices, *settings;
	struct json_object *index_of; /* maps a URI to its index in `artifacts` */
};

/* If `root` is null, the working directory is used. */
void sarif_init(struct sarif *s, const char *root);
/* Adds those findings of a report that have at least the given severity. */
void sarif_add(struct sarif *s, const struct report *r, enum severity level);
/* Adds a finding of the baseline that no longer occurs. */
void sarif_add_gone(struct sarif *s, const struct report *r, const struct report_finding *f);
/* Adds a notification about the configuration of the run. */
void sarif_note(struct sarif *s, const char *text);
/* Makes the document. The caller must still free s. */
struct json_object *sarif_finish(struct sarif *s, int exit_code);
void sarif_free(struct sarif *s);

#endif
