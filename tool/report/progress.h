/* SPDX-License-Identifier: MIT */
/*
 * A line on the terminal while something takes longer than two seconds. Nothing
 * when standard error is no terminal. One at a time.
 */
#ifndef REPORT_PROGRESS_H
#define REPORT_PROGRESS_H

#include <stddef.h>

/* Cheap enough to call for every function of a program. */
void progress_step(const char *what, size_t done, size_t total);
/* Takes the line away again. */
void progress_end(void);

#endif
