/* SPDX-License-Identifier: MIT */
/*
 * Names code made at run time, by the file that a JIT writes for perf. /tmp/perf-PID.map has a line for each function:
 * first address and size in hexadecimal, and name (tools/perf/Documentation/jit-interface.txt of Linux).
 */
#ifndef PROFILE_JIT_MAP_H
#define PROFILE_JIT_MAP_H

#include <stdint.h>
#include <sys/types.h>

struct jit_map;

/* Reads the map file of a process. Returns null if the process has none, or if out of memory. */
struct jit_map *jit_map_open(pid_t pid);
/* Returns the name of the function at an address of the process, or null. */
const char *jit_map_find(const struct jit_map *m, uint64_t at);
void jit_map_close(struct jit_map *m);

#endif
