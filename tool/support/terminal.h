/* SPDX-License-Identifier: MIT */
/* What standard output is. */
#ifndef SUPPORT_TERMINAL_H
#define SUPPORT_TERMINAL_H

#include <stdbool.h>

/* Is standard output a terminal that shows colours, and is NO_COLOR unset or empty (no-color.org)? */
bool terminal_has_colours(void);
/* The number of columns of the terminal that standard output is; 0: it is none, or has no width. */
unsigned terminal_width(void);
/* Prints a text to standard output. Lines that are wider than the terminal go on in further lines, which are broken at
 * spaces and indented four columns more than the first. */
void terminal_fold(const char *text);

#endif
