/* SPDX-License-Identifier: MIT */
/*
 * The functions that an address of a linked file belongs to, inlined ones first, with source lines: from its symbol
 * tables and its DWARF, through libdw, also from its debug file (debug_copy.h) and from .gnu_debugdata. Nothing is
 * fetched from a server.
 */
#ifndef DWARF_SOURCE_FRAMES_H
#define DWARF_SOURCE_FRAMES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct source_frames;

struct source_frame {
	const char *name; /* as in the symbol table, else in DWARF; never null */
	const char *file; /* null: not known */
	unsigned line;    /* 0: not known */
	bool inlined;     /* into the next frame */
};
#define SOURCE_FRAMES_MOST 64

/*
 * Opens the ELF file behind a descriptor, which stays the caller's. `path`: its name, where a debug file is looked for;
 * `addresses`: those that will be looked up, sorted; `lines`: with source files and lines, which take longer to read.
 * Null: it cannot be read.
 */
struct source_frames *source_frames_open(const char *path, int fd, const uint64_t *addresses, size_t count, bool lines);
/* The frames of one of the addresses, link-time ones, the innermost first; 0: no symbol and no DWARF names it. Strings
 * are valid until source_frames_close(). */
size_t source_frames_find(struct source_frames *s, uint64_t address, struct source_frame out[SOURCE_FRAMES_MOST]);
void source_frames_close(struct source_frames *s);

#endif
