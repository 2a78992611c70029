/* SPDX-License-Identifier: MIT */
/* Finds the inlined functions of an address (inlined_frames.c), for source_frames.c and lines.c. */
#ifndef DWARF_INLINED_FRAMES_H
#define DWARF_INLINED_FRAMES_H

#include <elfutils/libdwfl.h>

#include "dwarf/source_frames.h"

struct inlined_frames;

/* Opens a module's DWARF; `lines` asks for source files and lines. Returns null if it has none, or if memory is
 * short. */
struct inlined_frames *inlined_frames_open(Dwfl_Module *m, bool lines);
/*
 * Finds the functions of an address (libdwfl's) in DWARF, the innermost first, and returns their number n: out[n - 1]
 * is the function itself, with its DWARF name, and the others are inlined. Returns 0 if no unit has the address.
 */
size_t inlined_frames_find(struct inlined_frames *f, Dwarf_Addr at, struct source_frame out[SOURCE_FRAMES_MOST]);
void inlined_frames_close(struct inlined_frames *f);

#endif
