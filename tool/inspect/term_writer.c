/* SPDX-License-Identifier: MIT */
/* Writes terminal output with styles and a limited width. */
#include "inspect/term_writer.h"
#include "support/demangle.h"
#include "support/plain.h"
#include "support/terminal.h"

#include <langinfo.h>
#include <locale.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/*
 * True if the user's locale uses UTF-8. It is opened only for this question, since the locale of the process stays "C".
 */
static bool locale_is_utf8(void)
{
	locale_t l = newlocale(LC_CTYPE_MASK, "", (locale_t)0);
	bool utf8 = l && !strcmp(nl_langinfo_l(CODESET, l), "UTF-8");

	if (l)
		freelocale(l);
	return utf8;
}

void writer_init(struct writer *p)
{
	*p = (struct writer){0};
	if (!isatty(STDOUT_FILENO))
		return;
	p->colour = terminal_has_colours();
	p->unicode = locale_is_utf8();
	p->width = terminal_width();
}

void writer_put(struct writer *p, enum style style, const char *format, ...)
{
	/* SGR codes (ECMA-48, 8.3.117), indexed by enum style. */
	static const char *const codes[] = {"", "2", "1", "36", "33", "35"};
	char buffer[2048], *demangled, *text;
	va_list ap;
	unsigned n;
	int len;

	va_start(ap, format);
	vsnprintf(buffer, sizeof(buffer), format, ap);
	va_end(ap);
	demangled = demangled_text(buffer);
	text = demangled ? demangled : buffer;
	plain(text);
	len = (int)strlen(text);
	n = (unsigned)utf8_columns(text, (size_t)len);
	if (p->width && p->at + n > p->width)
		len = (int)utf8_fitting(text, p->at < p->width ? p->width - p->at : 0);
	p->at += n;
	if (len && p->colour && codes[style][0])
		printf("\033[%sm%.*s\033[m", codes[style], len, text);
	else
		printf("%.*s", len, text);
	free(demangled);
}

void writer_column(struct writer *p, unsigned column)
{
	if (p->at < column)
		writer_put(p, STYLE_PLAIN, "%*s", (int)(column - p->at), "");
}

void writer_newline(struct writer *p)
{
	putchar('\n');
	p->at = 0;
}
