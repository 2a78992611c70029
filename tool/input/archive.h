/* SPDX-License-Identifier: MIT */
/* Reads the members of an archive as ar(1) writes it: in the System V and GNU formats, thin, and with BSD's long
 * names. */
#ifndef INPUT_ARCHIVE_H
#define INPUT_ARCHIVE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "support/error.h"

struct archive_member {
	const char *name; /* without ar's slash; in a thin archive it is a path relative to the archive's directory */
	uint64_t offset;  /* offset of its bytes in the archive file; 0 in a thin archive */
	uint64_t size;
	bool thin;       /* the bytes are in the file `name` */
	uint64_t origin; /* thin only: if it is not 0, the file `name` is an archive that has the member's header at this
	                    offset */
};

bool archive_is(const uint8_t *bytes, size_t size);

/*
 * Calls `each` for every member of the archive at [start, end) of an open file, but not for ar's own tables. Returns 0,
 * or -1 and a message if the rest of the archive is malformed.
 */
int archive_each(int fd, uint64_t start, uint64_t end, void (*each)(void *ctx, const struct archive_member *m),
                 void *ctx, struct error *e);
/* Finds the offset and size of the contents of the member whose header is at `header`. Returns 0, or -1 and a
 * message. */
int archive_member_at(int fd, uint64_t header, uint64_t end, uint64_t *offset, uint64_t *size, struct error *e);

#endif
