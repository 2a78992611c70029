/* SPDX-License-Identifier: MIT */
/* Finds the differences between two files. */
#ifndef DIFF_PAIRS_H
#define DIFF_PAIRS_H

#include "diff/image.h"

enum change_kind {
	CHANGE_CHANGED,
	CHANGE_ADDED,
	CHANGE_REMOVED,
	CHANGE_RENAMED, /* equal code, but another name */
};

/* A callee that the two functions call a different number of times. */
struct call_change {
	char *name;
	int64_t count; /* the difference, > 0 if the new file has more calls */
};

/* A function that differs or that has no pair. */
struct change {
	enum change_kind kind;
	uint32_t old, new;          /* indices; NO_FUNC: not in this file */
	uint32_t removed, inserted; /* number of instructions removed and added */
	bool code, frame, rows;     /* which of them differ */
	struct call_change *calls;  /* sorted by name; owned */
	size_t call_count;
};

/* A site of only one file, or a site of both whose live state differs. */
struct site_change {
	const struct site *old, *new; /* null: not in this file */
	const char *was, *is;         /* null: live; otherwise the reason why it is not */
};

/* A finding of only one file. */
struct finding_change {
	const struct report_finding *finding;
	bool removed; /* true: only in the old file; false: only in the new file */
};

#define SIZES_MOST 16

/* A size or a count in both files. */
struct size_row {
	const char *name;
	uint64_t old, new;
	bool table; /* true: it counts as a difference if only one file has this at all */
};

/* The result of a comparison. */
struct diff {
	struct image *old, *new;
	struct size_row sizes[SIZES_MOST]; /* in bytes */
	size_t size_count;
	struct size_row counts[4]; /* functions, instructions, rows, covered bytes */
	struct change *changes;    /* first the changed and renamed, then the removed, then the added ones */
	size_t change_count, change_capacity;
	struct site_change *sites;
	size_t site_count, site_capacity;
	struct finding_change *findings;
	size_t finding_count, finding_capacity;
	size_t same, changed, added, removed, renamed; /* numbers of functions */
	size_t grown, shrunk;                          /* functions whose stack frame is larger, and smaller */
	uint32_t deepest; /* index of the change with the largest growth of the frame, or NO_FUNC */
	bool notes, differs;
};

/* Matches and compares two files after image_open(). `notes`: also compares findings of severity note. The caller
 * calls diff_free() also after a failure. Returns 0, or -1 and a message. */
int diff_files(struct diff *d, struct image *old, struct image *new, bool notes, struct error *e);
void diff_free(struct diff *d);

/* Parts of diff_files() in sites_findings_sizes.c: sites, findings and sizes. */
void compare_sites(struct diff *d);
void compare_findings(struct diff *d);
void compare_sizes(struct diff *d);

#endif
