/* SPDX-License-Identifier: MIT */
/* Names the functions of a Go program without symbols, by the table that its runtime uses (elf/pclntab.h). */
#ifndef PROFILE_GO_NAMES_H
#define PROFILE_GO_NAMES_H

#include "profile/binary_files.h"

struct go_names;

/* Returns null if it is no such program, or if out of memory. */
struct go_names *go_names_open(const struct binary *b);
/* Returns the name of the function at a link-time address, or null. */
const char *go_names_find(const struct go_names *g, uint64_t at);
void go_names_close(struct go_names *g);

#endif
