/* SPDX-License-Identifier: MIT */
/* What differs between two files. */
#ifndef DIFF_COMPARE_H
#define DIFF_COMPARE_H

#include "diff/image.h"

enum change_kind {
	CHANGE_CHANGED,
	CHANGE_ADDED,
	CHANGE_REMOVED,
	CHANGE_RENAMED, /* the same code, another name */
};

/* A callee that one of the two has more calls of. */
struct call_change {
	char *name;
	int64_t count; /* > 0: gained */
};

/* One function of which there is something to say. */
struct change {
	enum change_kind kind;
	uint32_t old, new;   /* numbers; NO_FUNC */
	uint32_t gone, come; /* instructions that differ */
	bool code, frame, rows; /* what differs */
	struct call_change *calls; /* by name; owned */
	size_t call_count;
};

/* A site or finding of one file only; or a site of both that is not the same. */
struct site_change {
	const struct site *old, *new; /* null: there is none */
	const char *was, *is;         /* null: it can be changed live; else why not */
};

struct finding_change {
	const struct report_finding *finding;
	bool gone; /* else new */
};

#define SIZES_MOST 16

struct size_row {
	const char *name;
	uint64_t old, new;
	bool table; /* there or not there is a difference */
};

struct diff {
	struct image *old, *new;
	struct size_row sizes[SIZES_MOST]; /* bytes */
	size_t size_count;
	struct size_row counts[4];         /* functions, instructions, rows, covered bytes */
	struct change *changes;            /* changed and renamed, removed, added; each by name */
	size_t change_count, change_room;
	struct site_change *sites;
	size_t site_count, site_room;
	struct finding_change *findings;
	size_t finding_count, finding_room;
	size_t same, changed, added, removed, renamed; /* functions */
	size_t grown, shrunk;              /* stack frames of functions in both */
	uint32_t deepest;                  /* number of the change with the most growth, or NO_FUNC */
	bool notes, differs;
};

/* Both have been image_open()ed; matches and compares them. `notes`: findings that are only
 * notes too. diff_free() also after a failure. */
int diff_files(struct diff *d, struct image *old, struct image *new, bool notes, struct error *e);
void diff_free(struct diff *d);

/* For compare.c: what is no function. */
int compare_sites(struct diff *d, struct error *e);
int compare_findings(struct diff *d, struct error *e);
void compare_sizes(struct diff *d);

#endif
