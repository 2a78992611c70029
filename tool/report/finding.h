/* SPDX-License-Identifier: MIT */
/*
 * A finding. Like struct error, any layer can create one. report/catalogue.h states what all findings of an ID have in
 * common (severity, title, remedy); report/report.h adds the location in the source.
 */
#ifndef REPORT_FINDING_H
#define REPORT_FINDING_H

#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* A detail of a finding, with a label such as "one path", "the other path", "the code" or ".eh_frame". */
struct fact {
	char *label;      /* a few words, lower case; owned */
	char *text;       /* one line; owned */
	bool placed;      /* the fact is about the instruction at `section` and `addr` */
	uint32_t section; /* as in struct finding */
	uint64_t addr;
};

/* A finding at one place, or at several places of one function. */
struct finding {
	const char *id;     /* static, from the catalogue: "ETCH-S001" */
	uint32_t section;   /* 0: the file as a whole */
	uint64_t addr;      /* ET_REL: offset in section; linked: virtual address */
	char *text;         /* the finding in one line, without a capital and without a period; owned */
	struct fact *facts; /* in the order of output; owned */
	size_t fact_count;
	/* check_origin() and check_fold() (check/check.h) set the members below. */
	bool compiler; /* caused by a compiler or linker: no change to the source removes it */
	/* for ETCH-C001: how .eh_frame lags behind the code in many functions of the file; otherwise 0 */
	uint8_t slip;
	size_t places;  /* number of places that the finding represents; 0 means 1 */
	uint64_t *also; /* the addresses that follow `addr`: at most ALSO_MOST of them, and the last one; owned */
	size_t also_count;
	uint64_t key; /* a hash of the code, equal in every file that contains this code; 0: unknown */
};
#define ALSO_MOST 8

/* A list of findings. Each code range of a file has one, and most stay empty, so the counts are small. */
struct findings {
	struct finding *list;
	uint32_t count, capacity;
};

/* Adds a finding. The pointer is valid until the next finding is added. */
struct finding *finding_add(struct findings *l, const char *id, uint32_t section, uint64_t addr, const char *format,
                            ...) __attribute__((format(printf, 5, 6)));
struct finding *finding_addv(struct findings *l, const char *id, uint32_t section, uint64_t addr, const char *format,
                             va_list args) __attribute__((format(printf, 5, 0)));
/* Adds a fact to a finding. */
void finding_fact(struct finding *f, const char *label, const char *format, ...) __attribute__((format(printf, 3, 4)));
/* Adds a fact about the instruction at an address to a finding. */
void finding_fact_at(struct finding *f, uint32_t section, uint64_t addr, const char *label, const char *format, ...)
	__attribute__((format(printf, 5, 6)));
/* Moves all findings of `from` to the end of `to`. */
void findings_take(struct findings *to, struct findings *from);
/* Sorts a list by section, address, ID and text, which is the order of output. */
void findings_sort(struct findings *l);
void findings_free(struct findings *l);
/* Frees what a finding owns, not the finding itself. */
void finding_free(struct finding *f);

#endif
