/* SPDX-License-Identifier: MIT */
/*
 * A progress line on the terminal, for work that takes longer than two seconds. None if standard
 * error is not a terminal. One at a time.
 */
#ifndef SUPPORT_PROGRESS_H
#define SUPPORT_PROGRESS_H

#include <stddef.h>

/* Cheap enough to be called for every function of a program. */
void progress_step(const char *what, size_t done, size_t total);
/* As progress_step(), for other units than functions; updates the line at each call. */
void progress_note(const char *what, size_t done, size_t total, const char *unit);
/* Turns progress off in this process: another one shows it. */
void progress_off(void);
/* Removes the line. */
void progress_end(void);

#endif
