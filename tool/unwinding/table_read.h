/* SPDX-License-Identifier: MIT */
/*
 * Reads the unwind tables of files as stack walkers find them: in the file itself, or as a sidecar in a directory
 * (shared/sidecars.h). The tables are copies: the files may change afterwards.
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
	uint64_t size;             /* bytes that can be read from there on */
	uint64_t address;          /* link-time address; 0 for a sidecar */
};

/* Reads the table in the file's etch segment. Returns false if it has none or a malformed one, or if there is no
 * memory. */
bool table_own_read(int fd, const Elf64_Phdr *phdrs, unsigned count, struct table_copy *out);

/* The file whose table is wanted. */
struct table_wanted {
	const uint8_t *build_id;
	unsigned build_id_size;
	const uint8_t *layout; /* BLAKE2B_DIGEST bytes; see struct sidecar_identity */
};

/* The state of a directory's sidecar for a file. */
enum table_sidecar {
	SIDECAR_IS_GOOD,
	SIDECAR_IS_NO_FILE,
	SIDECAR_IS_OLD,       /* it has an earlier format */
	SIDECAR_IS_OTHERS,    /* it belongs to another file with this build-id */
	SIDECAR_IS_REFUSAL,   /* it says that no table can be made */
	SIDECAR_IS_DAMAGED,   /* it is damaged, or cannot be read */
	SIDECAR_IS_UNTRUSTED, /* it belongs to another user, who does not own the directory either */
};

/* Reads the sidecar DIRECTORY/BUILD-ID, or DIRECTORY/BUILD-ID-LAYOUT if the first is no table of this file. `name` is
 * set to the one that the answer is about; it is empty if there is none. */
enum table_sidecar table_sidecar_read(const char *directory, const struct table_wanted *w, char name[SIDECAR_NAME_MOST],
                                      struct table_copy *out);
void table_copy_free(struct table_copy *c);

#endif
