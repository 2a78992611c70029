/* SPDX-License-Identifier: MIT */
#include "stat/words.h"

#include <stdbool.h>
#include <string.h>

#include "report/listing.h"

/* Length of a character that can be shown as it is, 0 if it is none. */
static size_t shown_length(const unsigned char *p)
{
	size_t n = utf8_length(p);

	if (*p < 0x20 || *p == 0x7f)
		return 0;
	/* U+0080 to U+009F are control characters, too. */
	return n == 2 && p[0] == 0xc2 && p[1] < 0xa0 ? 0 : n;
}

static bool is_plain(const char *word)
{
	return *word && strspn(word, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_@%+=:,./-") == strlen(word);
}

static bool is_shown(const char *word)
{
	const unsigned char *p = (const unsigned char *)word;
	size_t n;

	for (; *p; p += n) {
		n = shown_length(p);
		if (!n)
			return false;
	}
	return true;
}

static void print_quoted(FILE *out, const char *word)
{
	putc('\'', out);
	for (; *word; word++)
		if (*word == '\'')
			fputs("'\\''", out);
		else
			putc(*word, out);
	putc('\'', out);
}

/* $'...' of bash, zsh, ksh and POSIX 2024. Octal: it ends after three digits. */
static void print_escaped(FILE *out, const char *word)
{
	const unsigned char *p = (const unsigned char *)word;
	size_t n;

	fputs("$'", out);
	while (*p) {
		n = shown_length(p);
		if (!n)
			fprintf(out, *p == '\n' ? "\\n" : "\\%03o", *p);
		else if (*p == '\'' || *p == '\\')
			fprintf(out, "\\%c", *p);
		else
			fwrite(p, 1, n, out);
		p += n ? n : 1;
	}
	putc('\'', out);
}

void words_print(FILE *out, char *const *argv)
{
	size_t i;

	for (i = 0; argv[i]; i++) {
		if (i)
			putc(' ', out);
		if (is_plain(argv[i]))
			fputs(argv[i], out);
		else if (is_shown(argv[i]))
			print_quoted(out, argv[i]);
		else
			print_escaped(out, argv[i]);
	}
}
