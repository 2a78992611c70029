/* SPDX-License-Identifier: MIT */
/*
 * Makes a separate debug file as `objcopy --only-keep-debug` does, with a single section of contents. Debuggers find it
 * by build-id (gdb, "Debugging Information in Separate Files") and place it by the headers of the loaded sections and
 * segments, which it has without their contents.
 */
#ifndef OUTPUT_DEBUG_FILE_H
#define OUTPUT_DEBUG_FILE_H

#include "elf/file.h"

/*
 * Makes the debug file of a linked file f, with a section of this name and contents. The bytes are malloc'd. Lack of
 * memory ends the process (support/memory.h).
 */
void debug_file_make(const struct elf_file *f, const char *name, const void *data, size_t size, uint8_t **out,
                     size_t *out_size);

/* Writes the path at which debuggers look for the debug file of f below `directory`: .build-id/ab/cdef.debug. Returns
 * 0, or -1 and a message if f has no build-id or the path does not fit. */
int debug_file_path(const struct elf_file *f, const char *directory, char *out, size_t size, struct error *e);

#endif
