/* SPDX-License-Identifier: MIT */
/* Colours of what `etch diff` prints, by the marks at which its lines begin. */
#ifndef DIFF_COLOURS_H
#define DIFF_COLOURS_H

/*
 * Between the two, what is printed to stdout waits. Then it comes out, in colours where terminal_has_colours(). Nothing
 * is waited for otherwise.
 */
void colours_begin(void);
void colours_end(void);

#endif
