/* SPDX-License-Identifier: MIT */
/*
 * The findings of one file in the form in which they are printed, counted and compared: places as function + offset
 * and source line, with their catalogue entry. A report does not refer to the file, so it can be kept, sent between
 * processes (report/exchange.h) and read back from JSON.
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
	char *function;  /* null: in no function */
	uint64_t offset; /* from the start of the function, else of the section */
	char *source;    /* "dir/file.c", from DWARF; null: unknown */
	unsigned line;   /* 0: unknown */
};

struct report_fact {
	char *label, *text;
	struct report_place *place; /* null: not about an instruction */
};

/* A finding with resolved places. */
struct report_finding {
	const struct catalogue_entry *entry;
	enum severity severity; /* severity_decide() (report/verdict.h); until then that of `entry` */
	bool compiler;          /* caused by a compiler or linker: no change to the source removes it */
	struct report_place place;
	char *text;
	struct report_fact *facts;
	size_t fact_count;
	size_t places;             /* number of places it represents: 1, or several of one function */
	struct report_place *also; /* the first further places, and the last one */
	size_t also_count;
	uint64_t key;            /* equal in every file that contains this code (struct finding); 0: unknown */
	const struct seen *seen; /* the files that have it (report/seen.h); null: only this one */
	bool repeated;           /* `seen` is set, and a file before this one has it */
	/* fingerprint for baselines: ID, function, and text without numbers that change with each build */
	uint64_t fingerprint;
	char *suppressed; /* reason of its suppression; null: not suppressed */
	bool known;       /* in the baseline */
};

struct baseline_file;

/* The findings of one file. */
struct report {
	char *path;   /* of the file or the archive */
	char *member; /* of an archive: "printf.o"; else null */
	char *error;  /* why the file could not be read; else null */
	bool linked;  /* a program or library; false: an object file */
	struct report_finding *list;
	size_t count;
	uint64_t functions, insns;       /* numbers analysed */
	size_t dropped[SEVERITIES];      /* findings below severity_lowest(), which are not in the list, by severity */
	const struct baseline_file *old; /* its file in the baseline; null: there is none */
};

struct elf_file;

/* Makes a report of findings, which it sorts and frees. */
void report_make(struct report *r, const struct elf_file *f, struct findings *from);
void report_free(struct report *r);
/* "printf+0x12", ".text+0x12", "-". */
void report_place_text(const struct report_place *p, char *out, size_t size);

#endif
