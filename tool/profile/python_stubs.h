/* SPDX-License-Identifier: MIT */
/*
 * Steps over Python's trampolines. With PYTHONPERFSUPPORT=1, Python 3.12 and later calls each Python function through a
 * copy of a few instructions, whose address has the function's name in /tmp/perf-PID.map (Python's
 * Objects/perf_trampoline.c). The copies fill arenas of 64 KiB, each of which is made at once and never changed. They
 * have no unwind table, so their effect is read from the instructions.
 */
#ifndef PROFILE_PYTHON_STUBS_H
#define PROFILE_PYTHON_STUBS_H

#include "profile/sample_walk.h"

struct cursor;

/* Steps from a trampoline's frame to its caller's. `arena` is the start of the mapping that contains the frame's rip.
 * Returns false if it is no trampoline, or if its memory can no longer be read. */
bool python_stub_step(struct binary *code, pid_t pid, uint64_t arena, const struct sample *s, struct cursor *c);

/* Parses a name of a map that Python wrote, "py::NAME:FILE", and sets `name` to "NAME (FILE's last part)". Returns
 * false if it is any other name. */
bool python_name(const char *map_name, char *name, size_t size, const char **file);

#endif
