/* SPDX-License-Identifier: MIT */
/* Computes the identity of the file to which a sidecar belongs, and makes the head of a sidecar, which contains that
 * identity (shared/sidecars.h). */
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
	/* Hash of all loaded segments; all bytes are zero if it was not asked for. */
	uint8_t contents[BLAKE2B_DIGEST];
};

#define SIDECAR_ID_MOST 32 /* size in bytes of the longest build-id that readers in a process use */
/* Size of a buffer for a build-id in hexadecimal, "-", SIDECAR_NAME_LAYOUT bytes of a layout in hexadecimal, and a null
 * byte. */
#define SIDECAR_NAME_MOST (2 * SIDECAR_ID_MOST + 1 + 2 * SIDECAR_NAME_LAYOUT + 1)

/* Computes the identity of an open file; with `contents`, including the hash of its contents. Returns false if there is
 * not enough memory for its .eh_frame_hdr. If bytes cannot be read, e.g. because the file is shorter than its headers
 * say, the file is taken to end there. */
bool sidecar_identify(int fd, const struct elf_headers *h, bool contents, struct sidecar_identity *out);
/* Computes the identity of a program or library that is in memory, including the hash of its contents. */
void sidecar_identify_bytes(const uint8_t *bytes, size_t size, struct sidecar_identity *out);

/* Writes the second name that a file's sidecar may have: BUILD-ID-LAYOUT. `id` is the build-id in hexadecimal. */
void sidecar_second_name(char out[SIDECAR_NAME_MOST], const char *id, const struct sidecar_identity *of);

/* Inserts the head of a sidecar in front of a table, in memory from malloc(), which is reallocated. */
void sidecar_wrap(uint8_t **bytes, size_t *size, const struct sidecar_identity *of);
/* Computes the hash of a whole file. It distinguishes files that are loaded alike but differ otherwise, e.g. in section
 * headers that make etch refuse one of them. Returns false if the file cannot be read. */
bool sidecar_whole(const char *path, uint8_t out[BLAKE2B_DIGEST]);
/* Makes a sidecar without a table. It says that no table can be made of the file whose hash is `whole`. If `whole` is
 * null, it says that several files have the same layout, so that none of them has a table. */
void sidecar_refusal(struct sidecar *out, const struct sidecar_identity *of, const uint8_t *whole);

/* Opens the file `name` in a directory for reading, under the conditions of readers of sidecars: it must be a regular
 * file, must not be reached by a link, and must be owned by root, by this user or by the owner of the directory.
 * Returns a number below 0 if there is no such file, or if it is untrusted because of its owner; *untrusted says
 * which. */
int sidecar_open(int directory, const char *name, uint64_t *size, bool *untrusted);

#endif
