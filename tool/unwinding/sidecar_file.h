/* SPDX-License-Identifier: MIT */
/* What names the file that a sidecar is of, and the head of a sidecar with it (shared/sidecars.h). */
#ifndef UNWINDING_SIDECAR_FILE_H
#define UNWINDING_SIDECAR_FILE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "elf/headers.h"
#include "shared/sidecars.h"
#include "support/error.h"

/* A file as its sidecar names it. */
struct sidecar_identity {
	uint8_t layout[BLAKE2B_DIGEST];
	uint8_t contents[BLAKE2B_DIGEST]; /* of all loaded segments; zero where it was not asked for */
};

#define SIDECAR_ID_MOST 32 /* bytes of a build-id; as readers in a process take it */
/* A build-id, "-", SIDECAR_NAME_LAYOUT bytes of a layout, and the null. */
#define SIDECAR_NAME_MOST (2 * SIDECAR_ID_MOST + 1 + 2 * SIDECAR_NAME_LAYOUT + 1)

/* Computes the identity of an open file. False: no memory for its .eh_frame_hdr. What cannot be read, as of a file that
 * is shorter than its headers say, is as if the file ended there. */
bool sidecar_identify(int fd, const struct elf_headers *h, bool contents, struct sidecar_identity *out);
/* The same of a program or library in memory. */
void sidecar_identify_bytes(const uint8_t *bytes, size_t size, struct sidecar_identity *out);

/* The second name of a file's sidecar: BUILD-ID-LAYOUT. `id` is the build-id in hexadecimal. */
void sidecar_second_name(char out[SIDECAR_NAME_MOST], const char *id, const struct sidecar_identity *of);

/* Puts the head of a sidecar before a table, in malloc'd memory that changes its place. */
void sidecar_wrap(uint8_t **bytes, size_t *size, const struct sidecar_identity *of);
/* The hash of a whole file. It tells files apart that load the same, of which one has section headers that etch
 * refuses. False: it cannot be read. */
bool sidecar_whole(const char *path, uint8_t out[BLAKE2B_DIGEST]);
/* A sidecar without a table: none can be made of the file `whole` is the hash of. Null: of several files that the
 * layout cannot tell apart, none has one. */
void sidecar_refusal(struct sidecar *out, const struct sidecar_identity *of, const uint8_t *whole);

/* Opens the file `name` of a directory for reading, as readers of sidecars do: a regular file, not by a link, of root,
 * of this user or of the directory's owner. Below 0: there is none, or *untrusted. */
int sidecar_open(int directory, const char *name, uint64_t *size, bool *untrusted);

#endif
