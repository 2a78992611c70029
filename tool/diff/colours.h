/* SPDX-License-Identifier: MIT */
/* Colours the output of `etch diff` by the marks at which its lines begin. */
#ifndef DIFF_COLOURS_H
#define DIFF_COLOURS_H

/*
 * Where terminal_has_colours(), the output to stdout between the two calls is held back, and colours_end() prints it
 * in colours. Elsewhere the two do nothing.
 */
void colours_begin(void);
void colours_end(void);

#endif
