/* SPDX-License-Identifier: MIT */
/*
 * The findings of one file in the form in which they are printed, counted and compared: with their catalogue entry,
 * and with places as function + offset and source line. A report does not refer to the file, so it can be kept, sent
 * between processes (report/exchange.h) and read back from JSON.
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
	uint64_t offset; /* from the start of the function or, without one, of the section */
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
	size_t places;             /* number of places that it represents: 1, or several of one function */
	struct report_place *also; /* the next places, and the last one */
	size_t also_count;
	uint64_t key;            /* equal in every file that contains this code (struct finding); 0: unknown */
	const struct seen *seen; /* the files that have the finding (report/seen.h); null: only this one has it */
	bool repeated;           /* `seen` is set, and an earlier file has the finding */
	/* Fingerprint for baselines: a hash of ID, function, and the text without numbers, which change with each build. */
	uint64_t fingerprint;
	char *suppressed; /* the reason of its suppression; null: it is not suppressed */
	bool known;       /* it is in the baseline */
};

struct baseline_file;

/* The findings of one file. */
struct report {
	char *path;   /* path of the file or of the archive */
	char *member; /* name of the archive's member ("printf.o"); null: the file is not in an archive */
	char *error;  /* why the file could not be read; null: it could */
	bool linked;  /* a program or library; false: an object file */
	struct report_finding *list;
	size_t count;
	uint64_t functions, insns; /* numbers of functions and instructions that were analysed */
	/* Number of findings, by severity, that are below severity_lowest() and thus not in the list. */
	size_t dropped[SEVERITIES];
	const struct baseline_file *old; /* its file in the baseline; null: it has none */
};

struct elf_file;

/* Makes a report from findings, which it sorts and then frees. */
void report_make(struct report *r, const struct elf_file *f, struct findings *from);
void report_free(struct report *r);
/* Writes a place as "printf+0x12", ".text+0x12", or "-". */
void report_place_text(const struct report_place *p, char *out, size_t size);

#endif
