/* SPDX-License-Identifier: MIT */
/*
 * A progress line on the terminal, for work that takes longer than two seconds. There is none if standard error is not
 * a terminal, and only one at a time.
 */
#ifndef SUPPORT_PROGRESS_H
#define SUPPORT_PROGRESS_H

#include <stddef.h>

/* Updates the line. It is cheap enough to be called for every function of a program. */
void progress_step(const char *what, size_t done, size_t total);
/* Updates the line as progress_step() does, for units other than functions. It looks at the clock at each call, and so
 * is for calls that are rarer. */
void progress_note(const char *what, size_t done, size_t total, const char *unit);
/* Turns the line off in this process, because another process shows it. */
void progress_off(void);
/* Removes the line. */
void progress_end(void);

#endif
