/* SPDX-License-Identifier: MIT */
/*
 * The undo record: a section `.etch.undo`, not loaded, from which the original bytes of a rewritten
 * file can be restored (docs/formats.md). It is appended to the file, and of the rest only the
 * fields of the ELF header about section headers change, so that it can be removed without a trace.
 */
#ifndef ELF_UNDO_H
#define ELF_UNDO_H

#include <stddef.h>
#include <stdint.h>

#include "support/error.h"

#define UNDO_SECTION ".etch.undo"

/* A file's bytes without its record, and the original bytes from before it was rewritten. Owned; may be null. */
struct undo {
	uint8_t *kept, *original;
	size_t kept_size, original_size;
};

/*
 * Reads a file that undo_attach() made. 1; 0: it has no record; -1 and a message: it has one, but
 * has been changed since, or out of memory. Then `original` is null, and `kept` is set if the
 * record could be removed all the same, which it cannot after strip, for example.
 */
int undo_detach(const uint8_t *file, size_t size, struct undo *out, struct error *e);
void undo_free(struct undo *u);

/*
 * Appends a record of `original` to the rewritten file *bytes, which is reallocated. 1: done; 0 and a message: the
 * file cannot have one, as it has no section headers, or data behind all that headers
 * describe; -1 and a message: out of memory.
 */
int undo_attach(uint8_t **bytes, size_t *size, const uint8_t *original, size_t original_size, struct error *e);

#endif
