/* SPDX-License-Identifier: MIT */
/*
 * Records of __pv_native: is each sequence what its function does, and may it
 * stand in a call's place? Asked anew by each step, whatever flags are there.
 */
#ifndef SITE_NATIVE_H
#define SITE_NATIVE_H

#include "site/site.h"

struct native {
	uint32_t section; /* of the record, and its offset there */
	uint64_t at;
	uint32_t code_section;
	uint64_t func, code; /* ET_REL: offsets in code_section; linked: addresses */
	uint8_t len;
	uint8_t flags;       /* ETCH_NATIVE_* as found to be right */
	uint8_t was;         /* ... and as the file has them */
};

struct natives {
	struct native *list; /* by section and place: every record */
	size_t count;
};

/*
 * Judges all records of an object file (their references are relocations) or of a
 * linked file. A record whose code is not in this file gets no flag; one that is
 * refused gets a finding ETCH-P001 in s, whose file must be set. The flags byte of a
 * record is at native.at + offsetof(struct etch_native, flags). -1 and s->error: out
 * of memory, or a section that is no table.
 */
int natives_check(const struct elf_file *f, struct natives *out, struct scan *s);
void natives_free(struct natives *n);

#endif
