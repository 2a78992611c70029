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
/* The same of other things than functions, looked at at each call. */
void progress_note(const char *what, size_t done, size_t total, const char *unit);
/* None in this process from now on: another one tells. */
void progress_off(void);
/* Takes the line away again. */
void progress_end(void);

#endif
