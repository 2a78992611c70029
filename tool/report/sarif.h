/* SPDX-License-Identifier: MIT */
/*
 * Reports as SARIF 2.1.0 (OASIS, Static Analysis Results Interchange Format), which services
 * that scan code read. The numbers in sarif.c are sections of that specification.
 */
#ifndef REPORT_SARIF_H
#define REPORT_SARIF_H

#include <json-c/json.h>

#include "report/report.h"

struct sarif {
	char *here, *root;  /* directories: where names on the command line, and sources, are relative to; owned */
	const char *docs;   /* where docs/findings.md can be read; null */
	bool baseline;      /* results are said to be new or not */
	bool suppressions;  /* results are said to be suppressed or not */
	struct json_object *artifacts, *results, *notices, *settings;
	struct json_object *index_of; /* of a file's URI in artifacts */
};

/* root: null for the working directory. False: out of memory. */
bool sarif_init(struct sarif *s, const char *root);
/* The findings from a severity on. */
void sarif_add(struct sarif *s, const struct report *r, enum severity level);
/* One of the baseline that is no more. */
void sarif_add_gone(struct sarif *s, const struct report *r, const struct report_finding *f);
/* Something about the run's settings. */
void sarif_note(struct sarif *s, const char *text);
/* The document; s is left to be freed. */
struct json_object *sarif_finish(struct sarif *s, int exit_code);
void sarif_free(struct sarif *s);

#endif
