/* SPDX-License-Identifier: MIT */
/* The members of an archive as ar(1) writes it: System V and GNU, thin, and BSD's long names. */
#ifndef ELF_ARCHIVE_H
#define ELF_ARCHIVE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "report/error.h"

struct archive_member {
	const char *name; /* without ar's slash; in a thin archive a path, from the archive's directory on */
	uint64_t offset;  /* of its bytes; in a thin archive 0 */
	uint64_t size;
	bool thin;        /* its bytes are in the file of that name */
	uint64_t origin;  /* thin: not 0: ... which is an archive, with the member's header there */
};

bool archive_is(const uint8_t *bytes, size_t size);

/*
 * Calls `each` for every member between two offsets of an open file, tables of ar's own left
 * out; stops where it returns false. 0; or -1 and a message: malformed, from there on.
 */
int archive_each(int fd, uint64_t start, uint64_t end, bool (*each)(void *ctx, const struct archive_member *m),
                 void *ctx, struct error *e);
/* Where the bytes are of the member whose header is at an offset. 0, or -1 and a message. */
int archive_member_at(int fd, uint64_t header, uint64_t end, uint64_t *offset, uint64_t *size, struct error *e);

#endif
