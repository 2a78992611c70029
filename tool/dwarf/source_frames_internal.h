/* SPDX-License-Identifier: MIT */
/* Inlined functions of an address (inlined_frames.c), for source_frames.c and lines.c. */
#ifndef DWARF_SOURCE_FRAMES_INTERNAL_H
#define DWARF_SOURCE_FRAMES_INTERNAL_H

#include <elfutils/libdwfl.h>

#include "dwarf/source_frames.h"

struct inlined_frames;

/* A module's DWARF; null: it has none, or out of memory. `lines`: with source files and lines. */
struct inlined_frames *inlined_frames_open(Dwfl_Module *m, bool lines);
/*
 * The functions of an address (libdwfl's) by DWARF, the innermost first: out[n - 1] is the function itself, by its
 * DWARF name, the others are inlined. 0: no unit has it.
 */
size_t inlined_frames_find(struct inlined_frames *f, Dwarf_Addr at, struct source_frame out[SOURCE_FRAMES_MOST]);
void inlined_frames_close(struct inlined_frames *f);

#endif
