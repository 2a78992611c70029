/* SPDX-License-Identifier: MIT */
/*
 * Python's trampolines: with PYTHONPERFSUPPORT=1, Python 3.12 and later calls each Python function through a copy of a
 * few instructions, whose address has the function's name in /tmp/perf-PID.map (Python's Objects/perf_trampoline.c).
 * The copies fill arenas of 64 KiB, which are made at once and never changed. They have no unwind table; what they do
 * is read from the instructions.
 */
#ifndef PROFILE_PYTHON_STUBS_H
#define PROFILE_PYTHON_STUBS_H

#include "profile/sample_walk.h"

struct cursor;

/* Steps from a trampoline's frame to its caller's. `arena`: where a mapping begins that the frame's rip is in. False:
 * it is none, or its memory cannot be read any more. */
bool python_stub_step(struct binary *code, pid_t pid, uint64_t arena, const struct sample *s, struct cursor *c);

/* A name of a map of Python's: "py::NAME:FILE". False: it is another one. `name` is "NAME (FILE's last part)". */
bool python_name(const char *map_name, char *name, size_t size, const char **file);

#endif
