/* SPDX-License-Identifier: MIT */
/*
 * Checks the records of __pv_native. Each record says that a function does no more than a short sequence of
 * instructions, which may replace a call of the function. Both must be true. The object step and the link step repeat
 * the checks and ignore the flags in the file.
 */
#ifndef SITE_NATIVE_SITES_H
#define SITE_NATIVE_SITES_H

#include "site/site.h"

/* A checked record. */
struct native {
	uint32_t section; /* section of the record; `at` is the offset of the record in it */
	uint64_t at;
	uint32_t code_section;
	uint64_t func, code; /* ET_REL: offsets in code_section; linked: addresses */
	uint8_t len;
	uint8_t flags; /* ETCH_NATIVE_* according to this check */
	uint8_t was;   /* ETCH_NATIVE_* in the file */
};

struct natives {
	struct native *list; /* every record, sorted by section and offset */
	size_t count, capacity;
};

/*
 * Checks all records of an object file (whose references are relocations) or of a linked file. A record whose code is
 * in another file gets no flags; for a record that is refused, finding ETCH-P001 is added to s, whose `file` must be
 * set. The flags byte of a record is at native.at + offsetof(struct etch_native, flags). Returns 0, or -1 and s->error
 * for a malformed section.
 */
int natives_check(const struct elf_file *f, struct natives *out, struct scan *s);
void natives_free(struct natives *n);

#endif
