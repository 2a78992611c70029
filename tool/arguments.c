/* SPDX-License-Identifier: MIT */
/* Parses the arguments of options that several commands share (arguments.h). */
#include "arguments.h"

#include "report/text.h"

#include <errno.h>
#include <getopt.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int argument_option(int argc, char **argv, const char *shorts, const struct option *longs)
{
	FILE *terminal = stderr;
	char *text = NULL;
	size_t size = 0;
	int c;

	/* The message quotes the argument as it is. glibc writes it to whatever `stderr` is. */
	stderr = open_memstream(&text, &size);
	if (!stderr)
		stderr = terminal;
	c = getopt_long(argc, argv, shorts, longs, NULL);
	if (stderr == terminal)
		return c;
	fclose(stderr);
	stderr = terminal;
	if (text && size) {
		text[size - 1] = 0; /* the newline */
		text_line(stderr, text);
	}
	free(text);
	return c;
}

bool argument_number(const char *option, const char *text, long least, long most, long *out)
{
	char *end;

	errno = 0;
	*out = strtol(text, &end, 10);
	if (*text && !*end && !errno && *out >= least && *out <= most)
		return true;
	text_error(NULL, "%s must be a number from %ld to %ld, not '%s'", option, least, most, text);
	return false;
}

bool argument_jobs(const char *text, int *out)
{
	long n;
	bool good = argument_number("-j", text, 1, JOBS_MOST, &n);

	*out = (int)n;
	return good;
}

int argument_word(const char *option, const char *const *words, const char *text)
{
	char list[256] = "";
	size_t n = 0;
	int i;

	for (i = 0; words[i]; i++) {
		if (!strcmp(words[i], text))
			return i;
		n += (size_t)snprintf(list + n, sizeof(list) - n, "%s%s", !i ? "" : words[i + 1] ? ", " : " or ", words[i]);
	}
	text_error(NULL, "%s must be %s, not '%s'", option, list, text);
	return -1;
}

bool argument_format(const char *text, enum format *out)
{
	static const char *const words[] = {[FORMAT_TEXT] = "text", [FORMAT_TSV] = "tsv", [FORMAT_JSON] = "json", NULL};
	int i = argument_word("--format", words, text);

	*out = i < 0 ? FORMAT_TEXT : (enum format)i;
	return i >= 0;
}

bool arguments_none(const char *command, int argc, char **argv)
{
	if (optind < argc)
		text_error(NULL, "unexpected argument '%s'; a command follows --: etch %s -- COMMAND", argv[optind], command);
	return optind >= argc;
}

int processors(void)
{
	cpu_set_t set;

	return sched_getaffinity(0, sizeof(set), &set) ? 1 : CPU_COUNT(&set);
}
