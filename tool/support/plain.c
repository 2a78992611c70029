/* SPDX-License-Identifier: MIT */
/* Decides which characters of foreign text are shown (plain.h). */
#include "support/plain.h"

#include <stdint.h>

/* Returns the length of the sequences that begin with a byte, or 0 if none does. */
static size_t length_announced(unsigned char first)
{
	if (first < 0x80)
		return 1;
	if (first < 0xc2 || first >= 0xf5)
		return 0;
	if (first < 0xe0)
		return 2;
	return first < 0xf0 ? 3 : 4;
}

size_t utf8_length(const unsigned char *p)
{
	size_t n = length_announced(*p), i;

	for (i = 1; i < n; i++)
		if ((p[i] & 0xc0) != 0x80)
			return 0;
	if ((*p == 0xe0 && p[1] < 0xa0) || (*p == 0xed && p[1] > 0x9f) || (*p == 0xf0 && p[1] < 0x90) ||
	    (*p == 0xf4 && p[1] > 0x8f))
		return 0;
	return n;
}

unsigned utf8_character(const unsigned char *p, size_t length)
{
	static const uint8_t first[] = {0, 0x7f, 0x1f, 0x0f, 0x07};
	unsigned c = p[0] & first[length];

	for (size_t i = 1; i < length; i++)
		c = c << 6 | (p[i] & 0x3fu);
	return c;
}

/* Returns the length of the character at p, or 1 if the byte begins none. */
static size_t step(const char *p)
{
	size_t n = utf8_length((const unsigned char *)p);

	return n ? n : 1;
}

size_t utf8_columns(const char *text, size_t size)
{
	size_t n = 0;

	for (const char *p = text; p < text + size; n++)
		p += step(p);
	return n;
}

size_t utf8_fitting(const char *text, size_t columns)
{
	const char *p = text;

	while (*p && columns--)
		p += step(p);
	return (size_t)(p - text);
}

/* Ranges in ascending order, from Unicode 15: categories Cc, Cf, Zl and Zp, the property Default_Ignorable_Code_Point,
 * and noncharacters that terminals are known to drop. */
static const struct {
	unsigned from, to;
} hidden[] = {
	{0x0, 0x1f},        {0x7f, 0x9f},       {0xad, 0xad},       {0x34f, 0x34f},     {0x600, 0x605},
	{0x61c, 0x61c},     {0x6dd, 0x6dd},     {0x70f, 0x70f},     {0x890, 0x891},     {0x8e2, 0x8e2},
	{0x115f, 0x1160},   {0x17b4, 0x17b5},   {0x180b, 0x180f},   {0x200b, 0x200f},   {0x2028, 0x202e},
	{0x2060, 0x206f},   {0x3164, 0x3164},   {0xfe00, 0xfe0f},   {0xfeff, 0xfeff},   {0xffa0, 0xffa0},
	{0xfff0, 0xfffb},   {0xfffe, 0xffff},   {0x110bd, 0x110bd}, {0x110cd, 0x110cd}, {0x13430, 0x1343f},
	{0x1bca0, 0x1bca3}, {0x1d173, 0x1d17a}, {0xe0000, 0xe0fff},
};

size_t plain_shown(const unsigned char *p)
{
	size_t n = utf8_length(p);
	unsigned c;

	if (n == 1 && *p >= 0x20 && *p != 0x7f)
		return 1; /* most characters */
	if (!n)
		return 0;
	c = utf8_character(p, n);
	for (size_t i = 0; i < sizeof(hidden) / sizeof(hidden[0]) && hidden[i].from <= c; i++)
		if (c <= hidden[i].to)
			return 0;
	return n;
}

void plain(char *text)
{
	unsigned char *p = (unsigned char *)text;

	while (*p) {
		size_t n = plain_shown(p), bytes = n ? n : utf8_length(p);

		bytes = bytes ? bytes : 1;
		for (size_t i = 0; i < bytes && !n; i++)
			p[i] = '?';
		p += bytes;
	}
}
