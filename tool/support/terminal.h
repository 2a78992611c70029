/* SPDX-License-Identifier: MIT */
/* Properties of standard output, and text that is folded to the width of the terminal. */
#ifndef SUPPORT_TERMINAL_H
#define SUPPORT_TERMINAL_H

#include <stdbool.h>

/* Is standard output a terminal that shows colours, and is NO_COLOR unset or empty (no-color.org)? */
bool terminal_has_colours(void);
/* Returns the number of columns of the terminal that standard output is, or 0 if it is no terminal or has no width. */
unsigned terminal_width(void);
/* Prints a text to standard output. Lines that are wider than the terminal are broken at spaces; their continuation
 * lines are indented four columns more than the first line. */
void terminal_fold(const char *text);

#endif
