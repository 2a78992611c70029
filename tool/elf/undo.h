/* SPDX-License-Identifier: MIT */
/*
 * What a rewritten file was before: a section `.etch.undo`, not loaded, that gives the original
 * bytes back (docs/formats.md). It is put behind everything else, and nothing but the
 * ELF header's word on where the section headers are changes for it, so that it can be taken
 * off again exactly.
 */
#ifndef ELF_UNDO_H
#define ELF_UNDO_H

#include <stddef.h>
#include <stdint.h>

#include "report/error.h"

#define UNDO_SECTION ".etch.undo"

/* The bytes of a file without its record, and those that it had before. Owned; may be null. */
struct undo {
	uint8_t *kept, *original;
	size_t kept_size, original_size;
};

/*
 * `file` as undo_attach() made it. 1; 0: it has no record; -1 and a message: it has one, but
 * has been changed since, or out of memory. `original` is null then; `kept` is there where the
 * record could be taken off, which is not so when strip, say, has written the file anew.
 */
int undo_detach(const uint8_t *file, size_t size, struct undo *out, struct error *e);
void undo_free(struct undo *u);

/*
 * Puts a record of `original` behind the rewritten bytes: malloc'd in *out. 1: done; 0: not a
 * file that can hold one: without section headers, or with data behind all that headers
 * describe; -1 and a message: out of memory.
 */
int undo_attach(uint8_t **bytes, size_t *size, const uint8_t *original, size_t original_size, struct error *e);

#endif
