/* SPDX-License-Identifier: MIT */
/*
 * Hashes and compares the names of symbols and sections. In a malicious string table, many names may be suffixes of one
 * long string. To limit the time, no operation reads more than NAME_SHORT bytes of a name, apart from one pass over the
 * table.
 */
#ifndef DIFF_NAMES_H
#define DIFF_NAMES_H

#include "elf/file.h"

/*
 * A length in bytes. Of longer names, the first NAME_SHORT bytes are compared and then the hashes of the rest; suffixes
 * are not searched.
 */
#define NAME_SHORT 4096u

/* The long names of one file. */
struct names {
	struct long_name *list; /* names longer than NAME_SHORT, sorted by address */
	size_t count, capacity;
};

void names_open(const struct elf_file *f, struct names *n);
void names_close(struct names *n);
/* Returns a hash of a name. Equal names have equal hashes, also in different files. */
uint64_t name_hash(const struct names *n, const char *name);
/* Returns the hash of a name without the suffixes that compilers add. */
uint64_t name_base_hash(const struct names *n, const char *name);
/*
 * Compares two names, of one file or of two, like strcmp(). Names whose first NAME_SHORT bytes are equal are ordered by
 * hash.
 */
int name_order(const struct names *m, const char *a, const struct names *n, const char *b);
bool name_is_long(const char *name);

#endif
