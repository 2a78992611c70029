/* SPDX-License-Identifier: MIT */
/*
 * Unwind tables of files, as those who walk stacks find them: in the file itself, or as a sidecar in a directory
 * (shared/sidecars.h). Copies: the files may change afterwards.
 */
#ifndef UNWINDING_TABLE_READ_H
#define UNWINDING_TABLE_READ_H

#include <elf.h>
#include <stdbool.h>
#include <stdint.h>

#include "unwinding/sidecar_file.h"

struct etch_unwind;

struct table_copy {
	struct etch_unwind *table; /* validated; null: none */
	uint64_t size;             /* bytes readable from it on */
	uint64_t address;          /* link-time; 0 of a sidecar */
};

/* The table in the file's etch segment. False: it has none, a malformed one, or there is no memory. */
bool table_own_read(int fd, const Elf64_Phdr *phdrs, unsigned count, struct table_copy *out);

/* The file whose table is wanted. */
struct table_wanted {
	const uint8_t *build_id;
	unsigned build_id_size;
	const uint8_t *layout; /* BLAKE2B_DIGEST bytes; struct sidecar_identity */
};

/* What is known of a directory's sidecar for a file. */
enum table_sidecar {
	SIDECAR_IS_GOOD,
	SIDECAR_IS_NO_FILE,
	SIDECAR_IS_OLD,       /* of an earlier format */
	SIDECAR_IS_OTHERS,    /* of another file with this build-id */
	SIDECAR_IS_REFUSAL,   /* it says that no table can be made */
	SIDECAR_IS_DAMAGED,   /* or cannot be read */
	SIDECAR_IS_UNTRUSTED, /* another user's, who does not own the directory either */
};

/* Reads the sidecar DIRECTORY/BUILD-ID, or DIRECTORY/BUILD-ID-LAYOUT where the first is no table of this file. `name`:
 * which of them the answer is about; empty: there is none. */
enum table_sidecar table_sidecar_read(const char *directory, const struct table_wanted *w, char name[SIDECAR_NAME_MOST],
                                      struct table_copy *out);
void table_copy_free(struct table_copy *c);

#endif
