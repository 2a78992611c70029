/* SPDX-License-Identifier: MIT */
/* Properties of standard output (terminal.h). */
#include "support/terminal.h"
#include "support/plain.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

bool terminal_has_colours(void)
{
	const char *no = getenv("NO_COLOR"), *term = getenv("TERM");

	return isatty(STDOUT_FILENO) && !(no && *no) && !(term && !strcmp(term, "dumb"));
}

unsigned terminal_width(void)
{
	struct winsize size;

	return isatty(STDOUT_FILENO) && !ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) ? size.ws_col : 0;
}

/* Prints one line without its newline, broken to fit `width`. Spaces between words are kept, except where the line is
 * broken. */
static void line_fold(const char *line, size_t size, unsigned width)
{
	size_t indent = strspn(line, " "), at = 0, blank, word, i = 0;

	while (i < size) {
		for (blank = i; i < size && line[i] == ' '; i++)
			;
		for (word = i; i < size && line[i] != ' '; i++)
			;
		at += word - blank + utf8_columns(line + word, i - word);
		if (width && at > width && word > indent) {
			at = indent + 4 + utf8_columns(line + word, i - word);
			printf("\n%*s", (int)indent + 4, "");
			blank = word;
		}
		fwrite(line + blank, 1, i - blank, stdout);
	}
}

void terminal_fold(const char *text)
{
	unsigned width = terminal_width();

	while (*text) {
		size_t n = strcspn(text, "\n");

		line_fold(text, n, width);
		text += n;
		if (*text)
			putchar(*text++);
	}
}
