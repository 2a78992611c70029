/* SPDX-License-Identifier: MIT */
/*
 * Unwind tables of files, as those who walk stacks find them: in the file itself, or as a sidecar in a directory
 * (shared/sidecars.h). Copies: the files may change afterwards.
 */
#ifndef REWRITE_TABLE_READ_H
#define REWRITE_TABLE_READ_H

#include <elf.h>
#include <stdbool.h>
#include <stdint.h>

struct etch_unwind;

struct table_copy {
	struct etch_unwind *table; /* validated; null: none */
	uint64_t size;             /* bytes readable from it on */
	uint64_t address;          /* link-time; 0 of a sidecar */
};

/* The table in the file's etch segment. False: it has none, a malformed one, or there is no memory. */
bool table_own_read(int fd, const Elf64_Phdr *phdrs, unsigned count, struct table_copy *out);
/* The sidecar DIRECTORY/BUILD-ID. False: there is none, or it is malformed or of another build-id. */
bool table_sidecar_read(const char *directory, const uint8_t *build_id, unsigned build_id_size, struct table_copy *out);
void table_copy_free(struct table_copy *c);

#endif
