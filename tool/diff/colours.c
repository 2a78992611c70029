/* SPDX-License-Identifier: MIT */
/* Colours each line of the output by the mark at its start (diff_print.h). */
#include "diff/diff_print.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "support/memory.h"
#include "support/terminal.h"
#include "support/strings.h"

static FILE *terminal; /* the real stdout while a stream into `text` takes its place; null: stdout is the real one */
static char *text;
static size_t size;

/*
 * Returns the SGR code (ECMA-48, 8.3.117) for a line, or null for no colour. Added lines are green, removed ones red,
 * changed ones yellow, and headings bold.
 */
static const char *code_of(const char *line)
{
	const char *mark = begins_with(line, "  ") ? line + 2 : line; /* lines about sites and findings are indented */

	if (begins_with(line, "--- ") || begins_with(line, "+++ "))
		return "1";
	if (begins_with(line, "@@ "))
		return "36";
	if (begins_with(line, "# "))
		return "2";
	if (mark != line && (!*mark || mark[1] != ' '))
		return NULL;
	switch (*mark) {
	case '+': return "32";
	case '-': return "31";
	case '~': return "33";
	default: return NULL;
	}
}

void colours_begin(void)
{
	if (!terminal_has_colours())
		return;
	terminal = stdout;
	stdout = mem_stream(&text, &size);
}

void colours_end(void)
{
	char *line, *end;

	if (!terminal)
		return;
	mem_stream_close(stdout, &text);
	stdout = terminal;
	terminal = NULL;
	for (line = text; *line; line = end) {
		const char *code = code_of(line);
		size_t length = strcspn(line, "\n");

		end = line + length + (line[length] == '\n');
		if (code)
			printf("\033[%sm%.*s\033[m\n", code, (int)length, line);
		else
			fwrite(line, 1, (size_t)(end - line), stdout);
	}
	free(text);
	text = NULL;
}
