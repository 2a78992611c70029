/* SPDX-License-Identifier: MIT */
/* The lines that say how many stacks are incomplete, why, and what helps. */
#ifndef PROFILE_STOP_LINES_H
#define PROFILE_STOP_LINES_H

#include <stdio.h>

#include "profile/profile.h"

/* in_process: the stacks were walked by the process itself (`etch heap`), which analyses no file. */
void stop_lines_put(const struct profile *p, bool in_process, FILE *out);

#endif
