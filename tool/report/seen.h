/* SPDX-License-Identifier: MIT */
/*
 * Merges equal findings about the same code in several files: an object, an archive with a member of that name, and
 * the files linked from it. Such a finding is reported once, with the list of files. Objects with different names
 * count as different code, even if their code is equal.
 */
#ifndef REPORT_SEEN_H
#define REPORT_SEEN_H

#include "report/report.h"
#include "support/hash_index.h"

/* A finding in one file. */
struct occurrence {
	const struct report *report;
	struct report_finding *finding;
};

/* Equal findings of several files. */
struct seen {
	uint64_t key;
	/* File name of the object file or archive member; null: only linked files have had it so far. */
	const char *object;
	struct seen *next;       /* another object with the same key */
	struct occurrence *list; /* in the order of the files; findings refer to this only if there are two or more */
	size_t count, capacity;
};

/* All findings, by key. */
struct seen_all {
	struct seen **list;
	size_t count, capacity;
	struct hash_index index;
};

/* Adds those findings of a report that count. The report must not move before seen_free(). */
void seen_add(struct seen_all *a, struct report *r);
/* Links equal findings after the last report has been added. If one of them is due to a compiler, all of them are. */
void seen_join(struct seen_all *a);
void seen_free(struct seen_all *a);

#endif
