/* SPDX-License-Identifier: MIT */
/*
 * The findings of one file in the form in which they are printed, counted and compared: each has its catalogue entry,
 * and its places are given as function + offset and source line. A report does not refer to the file, so it can be
 * kept, sent between processes (report/report_json.h) and read back from JSON.
 */
#ifndef REPORT_REPORT_H
#define REPORT_REPORT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "report/catalogue.h"
#include "support/error.h"
#include "report/finding.h"

/* A resolved place. */
struct report_place {
	char *section;   /* ".text"; null: the file as a whole */
	uint64_t addr;   /* ET_REL: offset in section; linked: virtual address */
	char *function;  /* null: the place is in no function */
	uint64_t offset; /* offset from the start of the function or, if there is none, of the section */
	char *source;    /* "dir/file.c", from DWARF; null: unknown */
	unsigned line;   /* 0: unknown */
};

struct report_fact {
	char *label, *text;
	struct report_place *place; /* null: the fact is not about an instruction */
};

/* A finding with resolved places. */
struct report_finding {
	const struct catalogue_entry *entry;
	enum severity severity; /* set by verdicts_decide() (report/verdict.h); until then that of `entry` */
	bool compiler;          /* caused by a compiler or linker: no change to the source removes it */
	struct report_place place;
	char *text;
	struct report_fact *facts;
	size_t fact_count;
	size_t places;             /* number of places that the finding represents: 1, or several in one function */
	struct report_place *also; /* the places that follow `place`, and the last one (struct finding.also) */
	size_t also_count;
	uint64_t key; /* equal in every file that contains this code (struct finding); 0: unknown */
	const struct seen
		*seen;     /* the list of files with this finding (report/across_files.h); null: only this file has it */
	bool repeated; /* `seen` is not null, and the finding has been reported for an earlier file */
	/*
	 * Identifies the finding in a baseline: a hash of its ID, function and text, without numbers, since these change
	 * with each build.
	 */
	uint64_t fingerprint;
	char *suppressed; /* the reason that the user gave for suppressing it; null: it is not suppressed */
	bool known;       /* it is in the baseline */
};

struct baseline_file;

/* The findings of one file. */
struct report {
	char *path;   /* path of the file or of the archive */
	char *member; /* name of the archive's member ("printf.o"); null: the file is not in an archive */
	char *error;  /* the reason why the file could not be read; null: it could be read */
	bool linked;  /* a program or library; false: an object file */
	struct report_finding *list;
	size_t count;
	uint64_t functions, insns; /* numbers of functions and instructions that were analysed */
	/* Number of findings, by severity, that are below severity_lowest() and thus not in the list. */
	size_t dropped[SEVERITIES];
	const struct baseline_file *old; /* the same file in the baseline; null: the baseline does not have it */
};

struct elf_file;

/* Makes a report from findings, which it sorts and then frees. */
void report_make(struct report *r, const struct elf_file *f, struct findings *from);
void report_free(struct report *r);
/* Writes a place as "printf+0x12", ".text+0x12", or "-". */
void report_place_text(const struct report_place *p, char *out, size_t size);

#endif
