/* SPDX-License-Identifier: MIT */
/*
 * A finding as a value: made where the facts are known, in any layer, like struct error.
 * What is the same for all findings of an ID (severity, title, remedy) is in
 * report/catalogue.h; where in the source it is, report/report.h finds out.
 */
#ifndef REPORT_FINDING_H
#define REPORT_FINDING_H

#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* One thing that was found: "one path", "the other path", "the code", ".eh_frame"... */
struct fact {
	char *label;      /* a few words, lower case; owned */
	char *text;       /* one line; owned */
	bool placed;      /* it is about an instruction: */
	uint32_t section; /* ... there, as in struct finding */
	uint64_t addr;
};

struct finding {
	const char *id;   /* "ETCH-S001", of the catalogue; static */
	uint32_t section; /* 0: the file as a whole */
	uint64_t addr;    /* ET_REL: offset in section; linked: virtual address */
	char *text;       /* what is so here: one line, starts small, no period; owned */
	struct fact *facts; /* in the order in which a person wants them; owned */
	size_t fact_count;
};

struct findings {
	struct finding *list;
	size_t count, room;
};

/* Adds one; null when out of memory. The pointer is good until the next is added. */
struct finding *finding_add(struct findings *l, const char *id, uint32_t section, uint64_t addr, const char *format,
                            ...) __attribute__((format(printf, 5, 6)));
struct finding *finding_addv(struct findings *l, const char *id, uint32_t section, uint64_t addr, const char *format,
                             va_list args) __attribute__((format(printf, 5, 0)));
/* Adds a fact to one. False: out of memory. f may be null, which is out of memory too. */
bool finding_fact(struct finding *f, const char *label, const char *format, ...) __attribute__((format(printf, 3, 4)));
/* ... about the instruction at a place. */
bool finding_fact_at(struct finding *f, uint32_t section, uint64_t addr, const char *label, const char *format, ...)
	__attribute__((format(printf, 5, 6)));
/* Moves all of `from` behind those of `to`. False: out of memory, and `from` is as it was. */
bool findings_take(struct findings *to, struct findings *from);
/* By section, address, ID, text: the order in which they are told. */
void findings_sort(struct findings *l);
void findings_free(struct findings *l);
/* What one of them owns. */
void finding_free(struct finding *f);

#endif
