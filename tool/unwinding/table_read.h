/* SPDX-License-Identifier: MIT */
/*
 * Reads the unwind tables of files where stack walkers find them: in the file itself, or as a sidecar in a directory
 * (shared/sidecars.h). The tables are copied, so the files may change afterwards.
 */
#ifndef UNWINDING_TABLE_READ_H
#define UNWINDING_TABLE_READ_H

#include <elf.h>
#include <stdbool.h>
#include <stdint.h>

#include "unwinding/sidecar_file.h"

struct etch_unwind;

/* A copy of a table. */
struct table_copy {
	struct etch_unwind *table; /* the table, which has been validated; null: there is none */
	uint64_t size;             /* number of bytes that can be read from `table` on */
	uint64_t address;          /* link-time address of the table; 0 for a sidecar */
};

/* Reads the table in the etch segment of a file. Returns false if there is none, if it is malformed, or if there is not
 * enough memory. */
bool table_own_read(int fd, const Elf64_Phdr *phdrs, unsigned count, struct table_copy *out);

/* Identifies the file whose table is wanted. */
struct table_wanted {
	const uint8_t *build_id;
	unsigned build_id_size;
	const uint8_t *layout; /* BLAKE2B_DIGEST bytes; see struct sidecar_identity */
};

/* What a directory has as the sidecar of a file. */
enum table_sidecar {
	/* The sidecar has a table of the file. */
	SIDECAR_IS_GOOD,
	/* There is no sidecar. */
	SIDECAR_IS_NO_FILE,
	SIDECAR_IS_OLD,       /* the sidecar has an earlier format */
	SIDECAR_IS_OTHERS,    /* the sidecar belongs to another file with the same build-id */
	SIDECAR_IS_REFUSAL,   /* the sidecar says that no table can be made */
	SIDECAR_IS_DAMAGED,   /* the sidecar is damaged, or cannot be read */
	SIDECAR_IS_UNTRUSTED, /* the sidecar belongs to another user, who does not own the directory either */
};

/* Reads the sidecar DIRECTORY/BUILD-ID or, if that exists but has no table of this file, DIRECTORY/BUILD-ID-LAYOUT.
 * Sets `name` to the name of the sidecar that the result is about; it is empty if the directory cannot be opened. */
enum table_sidecar table_sidecar_read(const char *directory, const struct table_wanted *w, char name[SIDECAR_NAME_MOST],
                                      struct table_copy *out);
void table_copy_free(struct table_copy *c);

#endif
