/* SPDX-License-Identifier: MIT */
/*
 * The findings of one file, as all that show, count or compare them want them: places are
 * function+offset and source line, the entry of the catalogue is at hand. Nothing here
 * refers to the file any more, so that a report can be kept, passed on between processes
 * (report/exchange.h) and read back from JSON.
 */
#ifndef REPORT_REPORT_H
#define REPORT_REPORT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "report/catalogue.h"
#include "report/error.h"
#include "report/finding.h"

struct report_place {
	char *section;   /* ".text"; null: the file as a whole */
	uint64_t addr;   /* ET_REL: offset in section; linked: virtual address */
	char *function;  /* null: in none */
	uint64_t offset; /* from the function's start, else the section's */
	char *source;    /* "dir/file.c", from DWARF; null */
	unsigned line;   /* 0: not known */
};

struct report_fact {
	char *label, *text;
	struct report_place *place; /* null: about no instruction */
};

struct report_finding {
	const struct catalogue_entry *entry;
	struct report_place place;
	char *text;
	struct report_fact *facts;
	size_t fact_count;
	uint64_t print;         /* of ID, function and text without numbers that move with each build: baselines */
	char *suppressed;       /* reason; null: it counts */
	bool known;             /* in the baseline */
};

struct report {
	char *path;   /* of the file, or of the archive */
	char *member; /* in an archive: "printf.o"; else null */
	char *error;  /* it could not be used, and why; else null */
	struct report_finding *list;
	size_t count;
	uint64_t functions, insns; /* looked at */
};

struct elf_file;

/* Takes the findings over, sorted. 0, or -1 and a message. */
int report_make(struct report *r, const struct elf_file *f, struct findings *from, struct error *e);
void report_free(struct report *r);
/* "printf+0x12", ".text+0x12", "-". */
void report_place_text(const struct report_place *p, char *out, size_t size);

#endif
