/* SPDX-License-Identifier: MIT */
/* Prints the lines that say how many stacks are incomplete, why, and what helps. */
#ifndef PROFILE_STOP_LINES_H
#define PROFILE_STOP_LINES_H

#include <stdio.h>

#include "profile/profile.h"

/* With in_process the process itself walked the stacks (`etch heap`), and it analyses no file. */
void stop_lines_put(const struct profile *p, bool in_process, FILE *out);

#endif
