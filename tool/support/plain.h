/* SPDX-License-Identifier: MIT */
/*
 * Decides how text that a file's author chose may be shown: names of symbols, sections, files and types, and strings of
 * DWARF. Such text may contain anything. Bytes that a terminal would take for a command, characters that change how
 * other text is displayed, and bytes that are not UTF-8 are never printed as they are. All of this is decided here;
 * report/text.h uses it to escape text for people, listing.h for JSON.
 */
#ifndef SUPPORT_PLAIN_H
#define SUPPORT_PLAIN_H

#include <stddef.h>

/* Returns the length of the UTF-8 sequence at p, or 0 if it is invalid. */
size_t utf8_length(const unsigned char *p);
/* Returns the character of the valid sequence at p, which has `length` bytes. */
unsigned utf8_character(const unsigned char *p, size_t length);
/* Returns the number of columns that `size` bytes of a string of UTF-8 take: one for each character. */
size_t utf8_columns(const char *text, size_t size);
/* Returns the number of bytes of those characters at the start of a text that fit into `columns` columns. */
size_t utf8_fitting(const char *text, size_t columns);
/*
 * Returns the length of the character at p if it is shown as it is. Returns 0 if the bytes are not UTF-8, if it is a
 * control character (C0, C1, DEL), or if it is invisible or changes the display of other characters: marks of
 * direction, separators of lines and paragraphs, characters without width, and tags (Unicode categories Cc, Cf, Zl, Zp,
 * and the default ignorable characters).
 */
size_t plain_shown(const unsigned char *p);

/* Replaces each byte of the characters that are not shown by '?', in place. (Text that is printed directly for people
 * is better escaped by text_clean().) */
void plain(char *text);

#endif
