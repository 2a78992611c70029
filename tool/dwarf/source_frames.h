/* SPDX-License-Identifier: MIT */
/*
 * Finds the functions that an address of a linked file belongs to, inlined functions first, with source lines. They
 * come, through libdw, from the file's symbol tables and DWARF, and from those of its debug file (debug_copy.h) and of
 * .gnu_debugdata. Nothing is fetched from a server.
 */
#ifndef DWARF_SOURCE_FRAMES_H
#define DWARF_SOURCE_FRAMES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct source_frames;

struct source_frame {
	const char *name; /* its name in the symbol table, or else in DWARF; never null */
	const char *file; /* null: not known */
	unsigned line;    /* 0: not known */
	bool inlined;     /* it is inlined into the next frame */
};
#define SOURCE_FRAMES_MOST 64

/*
 * Opens the ELF file of a descriptor, which the caller keeps. `path` is its name, near which a debug file is looked
 * for; `addresses` are the addresses that will be looked up, sorted; `lines` asks for source files and lines, which
 * take longer to read. Returns null if the file cannot be read.
 */
struct source_frames *source_frames_open(const char *path, int fd, const uint64_t *addresses, size_t count, bool lines);
/* Returns the number of frames of one of the addresses, which are link-time addresses, and writes the frames, the
 * innermost first. Returns 0 if neither a symbol nor DWARF names the address. Strings are valid until
 * source_frames_close(). */
size_t source_frames_find(struct source_frames *s, uint64_t address, struct source_frame out[SOURCE_FRAMES_MOST]);
void source_frames_close(struct source_frames *s);

#endif
