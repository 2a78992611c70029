/* SPDX-License-Identifier: MIT */
/*
 * Checks the records of __pv_native: each sequence must be what its function does, and it must be possible to replace a
 * call by it. The object step and the link step repeat the checks and ignore the flags in the file.
 */
#ifndef SITE_NATIVE_SITES_H
#define SITE_NATIVE_SITES_H

#include "site/site.h"

/* A checked record. */
struct native {
	uint32_t section; /* section of the record, in which it has the offset `at` */
	uint64_t at;
	uint32_t code_section;
	uint64_t func, code; /* ET_REL: offsets in code_section; linked: addresses */
	uint8_t len;
	uint8_t flags; /* ETCH_NATIVE_* that this check gives */
	uint8_t was;   /* ETCH_NATIVE_* in the file */
};

struct natives {
	struct native *list; /* every record, sorted by section and offset */
	size_t count, capacity;
};

/*
 * Checks all records of an object file (whose references are relocations) or of a linked file. A record whose code is
 * not in this file gets no flag; a refused record gets finding ETCH-P001 in s, whose `file` must be set. The flags byte
 * of a record is at native.at + offsetof(struct etch_native, flags). Returns 0, or -1 and s->error for a malformed
 * section.
 */
int natives_check(const struct elf_file *f, struct natives *out, struct scan *s);
void natives_free(struct natives *n);

#endif
