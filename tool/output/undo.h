/* SPDX-License-Identifier: MIT */
/*
 * The undo record is a section `.etch.undo`, which is not loaded and from which the original bytes of a rewritten file
 * can be restored (docs/formats.md). It is appended to the file. In the rest only the fields of the ELF header about
 * section headers change, so that the record can be removed without a trace.
 */
#ifndef OUTPUT_UNDO_H
#define OUTPUT_UNDO_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "output/outfile.h"
#include "support/error.h"

#define UNDO_SECTION ".etch.undo"

/* A file's bytes without its record, and the original bytes from before it was rewritten. The structure owns both;
 * either may be null. */
struct undo {
	uint8_t *kept, *original;
	size_t kept_size, original_size;
	bool unknown; /* its record is of a version that this etch does not know, so only another etch can restore the
	                 original */
};

/*
 * Reads a file that undo_attach() made. Returns 1, or 0 if the file has no record, or -1 and a message if it has one
 * but has been changed since. In the last case `original` is null, and `kept` is set if the record could be removed
 * nevertheless, which it cannot after strip, for example.
 */
int undo_detach(const uint8_t *file, size_t size, struct undo *out, struct error *e);
void undo_free(struct undo *u);

/* Reads the original of a rewritten file while it is written out: neither file is read into memory as a whole. */
struct undo_reader;

/*
 * Reads and checks the record of a file that file_open_marked() opened; both arguments must live as long as *out.
 * Returns 1, or 0 if the file has no record, or -1 and a message if it has one but has been changed since, or cannot be
 * read. Call undo_close() after each of these.
 */
int undo_open(int fd, const struct file_mark *mark, struct undo_reader **out, struct error *e);
/* Returns the original's contents, for outfile_replace_from(), and sets their size. They end with an error unless they
 * are those that undo_attach() was given. */
const struct outfile_source *undo_source(const struct undo_reader *u, uint64_t *size);
void undo_close(struct undo_reader *u);

/*
 * Appends a record of `original` to the rewritten file *bytes, which is reallocated. Returns false and a message if the
 * file cannot have one because it has no section headers, or has data after everything that headers describe.
 */
bool undo_attach(uint8_t **bytes, size_t *size, const uint8_t *original, size_t original_size, struct error *e);

#endif
