/* SPDX-License-Identifier: MIT */
/*
 * Names of code made at run time, from the file that a JIT writes for perf: /tmp/perf-PID.map, a line a function: first
 * address and size in hexadecimal, name (tools/perf/Documentation/jit-interface.txt of Linux).
 */
#ifndef PROFILE_JIT_MAP_H
#define PROFILE_JIT_MAP_H

#include <stdint.h>
#include <sys/types.h>

struct jit_map;

/* Null: the process has no such file, or out of memory. */
struct jit_map *jit_map_open(pid_t pid);
/* The function at an address of the process, or null. */
const char *jit_map_find(const struct jit_map *m, uint64_t at);
void jit_map_close(struct jit_map *m);

#endif
