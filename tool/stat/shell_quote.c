/* SPDX-License-Identifier: MIT */
/* Quotes words for a shell (shell_quote.h). */
#include "stat/shell_quote.h"

#include <stdbool.h>
#include <string.h>

#include "report/text.h"
#include "support/plain.h"

static bool is_plain(const char *word)
{
	return *word &&
	       strspn(word, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_@%+=:,./-") == strlen(word);
}

static bool is_shown(const char *word)
{
	const unsigned char *p = (const unsigned char *)word;
	size_t n;

	for (; *p; p += n) {
		n = plain_shown(p);
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

/* Prints a word in the $'...' form of bash, zsh, ksh and POSIX 2024. Octal escapes are used, since they end after three
 * digits. */
static void print_escaped(FILE *out, const char *word)
{
	const unsigned char *p = (const unsigned char *)word;
	size_t n;

	fputs("$'", out);
	while (*p) {
		n = plain_shown(p);
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
