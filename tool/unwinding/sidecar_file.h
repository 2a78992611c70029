/* SPDX-License-Identifier: MIT */
/* Identifies the file that a sidecar belongs to, and makes the head of a sidecar with that identity
 * (shared/sidecars.h). */
#ifndef UNWINDING_SIDECAR_FILE_H
#define UNWINDING_SIDECAR_FILE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "elf/headers.h"
#include "shared/sidecars.h"
#include "support/error.h"

/* The identity of a file, as its sidecar states it. */
struct sidecar_identity {
	uint8_t layout[BLAKE2B_DIGEST];
	uint8_t contents[BLAKE2B_DIGEST]; /* hash of all loaded segments; zero where it was not asked for */
};

#define SIDECAR_ID_MOST 32 /* bytes of a build-id, as readers in a process take it */
/* Space for a build-id, "-", SIDECAR_NAME_LAYOUT bytes of a layout, and the null. */
#define SIDECAR_NAME_MOST (2 * SIDECAR_ID_MOST + 1 + 2 * SIDECAR_NAME_LAYOUT + 1)

/* Computes the identity of an open file. Returns false if there is no memory for its .eh_frame_hdr. Where bytes cannot
 * be read, as in a file that is shorter than its headers say, the file counts as ending there. */
bool sidecar_identify(int fd, const struct elf_headers *h, bool contents, struct sidecar_identity *out);
/* Computes the identity of a program or library in memory. */
void sidecar_identify_bytes(const uint8_t *bytes, size_t size, struct sidecar_identity *out);

/* Writes the second name of a file's sidecar: BUILD-ID-LAYOUT. `id` is the build-id in hexadecimal. */
void sidecar_second_name(char out[SIDECAR_NAME_MOST], const char *id, const struct sidecar_identity *of);

/* Puts the head of a sidecar before a table, in malloc'd memory that is reallocated. */
void sidecar_wrap(uint8_t **bytes, size_t *size, const struct sidecar_identity *of);
/* Makes the hash of a whole file. It tells apart files that load the same but differ, e.g. in section headers that etch
 * refuses. Returns false if the file cannot be read. */
bool sidecar_whole(const char *path, uint8_t out[BLAKE2B_DIGEST]);
/* Makes a sidecar without a table, which says that none can be made of the file whose hash is `whole`. If `whole` is
 * null, it says that of several files that the layout cannot tell apart, none has a table. */
void sidecar_refusal(struct sidecar *out, const struct sidecar_identity *of, const uint8_t *whole);

/* Opens the file `name` of a directory for reading, as readers of sidecars do: it must be a regular file, not reached
 * by a link, and owned by root, by this user or by the directory's owner. Returns a number below 0 if there is none, or
 * if it is *untrusted. */
int sidecar_open(int directory, const char *name, uint64_t *size, bool *untrusted);

#endif
