/* SPDX-License-Identifier: MIT */
/* The two steps of `etch rewrite`, from bytes to bytes. */
#ifndef REWRITE_H
#define REWRITE_H

#include "site/site.h"

struct rewrite_result {
	uint8_t *bytes; /* the new file, malloc'd; null: the file is right as it is */
	size_t size;
	size_t sites;   /* loads with an immediate form */
	size_t live;    /* of those (linked), can be patched while threads run */
	size_t baked;   /* of those (linked), immediates now */
	size_t kept;    /* loads without an immediate form */
};

int rewrite_object(const struct elf_file *f, const struct name_set *others, struct scan *s,
                   struct rewrite_result *out, struct error *e);
int rewrite_linked(struct elf_file *f, struct scan *s, struct rewrite_result *out, struct error *e);

#endif
