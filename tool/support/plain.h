/* SPDX-License-Identifier: MIT */
/*
 * Text that a file's author chose, as it may be shown: names of symbols, sections, files and types, strings of DWARF.
 * It may contain anything. What a terminal would take for a command, what changes how other text is displayed, and what
 * is not UTF-8 is never printed as it is. All that is decided here; report/text.h escapes by it for people, listing.h
 * for JSON.
 */
#ifndef SUPPORT_PLAIN_H
#define SUPPORT_PLAIN_H

#include <stddef.h>

/* Length of the UTF-8 sequence at p; 0: invalid. */
size_t utf8_length(const unsigned char *p);
/* The character of the valid sequence at p, of `length` bytes. */
unsigned utf8_character(const unsigned char *p, size_t length);
/*
 * Length of the character at p if it is shown as it is; 0: it is not UTF-8, a control character (C0, C1, DEL), or
 * changes the display of others or of nothing at all: marks of direction, separators of lines and paragraphs,
 * characters without width, tags (Unicode categories Cc, Cf, Zl, Zp, and the default ignorable ones).
 */
size_t plain_shown(const unsigned char *p);

/* Replaces each byte of what is not shown by '?', in place. (Text printed directly for people is better escaped:
 * text_clean().) */
void plain(char *text);

#endif
