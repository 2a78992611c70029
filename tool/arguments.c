/* SPDX-License-Identifier: MIT */
/* Parses the arguments of options that several commands share (arguments.h). */
#include "arguments.h"

#include "report/text.h"
#include "support/memory.h"
#include "support/typed_name.h"

#include <errno.h>
#include <getopt.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/*
 * Prints the message of getopt_long() in the form of etch's own messages: without the name of the command in front, and
 * with the option that the user probably meant.
 */
static void option_error(const char *command, char *text, const struct option *longs)
{
	size_t n = strlen(command);
	const char *unknown, *meant = NULL;
	char name[64];
	bool is_command;

	if (!strncmp(text, command, n) && !strncmp(text + n, ": ", 2))
		text += n + 2;
	unknown = strstr(text, "unrecognized option '--");
	if (unknown && sscanf(unknown, "unrecognized option '--%63[^'=]", name) == 1)
		meant = nearest_word(name, longs, sizeof(*longs));
	/* If the options come from the variable OBJTOOL_ARGS, `command` is not the name of a command. */
	is_command = !strncmp(command, "etch ", 5);
	text_error(is_command ? NULL : command, "%s%s%s%s; see %s --help", text, meant ? " (did you mean --" : "",
	           meant ? meant : "", meant ? "?)" : "", is_command ? command : "etch objtool");
}

int argument_option(int argc, char **argv, const char *shorts, const struct option *longs)
{
	static FILE *messages; /* kept for the next call, since making a stream takes longer than reading an option */
	static char *text;
	static size_t size;
	FILE *terminal = stderr;
	int c;

	if (!messages)
		messages = mem_stream(&text, &size);
	/* The message quotes the argument unescaped. glibc writes it to the stream that `stderr` denotes at that time. */
	stderr = messages;
	c = getopt_long(argc, argv, shorts, longs, NULL);
	stderr = terminal;
	if (!ftell(messages))
		return c;
	mem_stream_close(messages, &text);
	messages = NULL;
	text[size - 1] = 0; /* removes the newline */
	option_error(argv[0], text, longs);
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
	const char *before;
	char list[256] = "";
	size_t n = 0;
	int i;

	for (i = 0; words[i]; i++) {
		if (!strcmp(words[i], text))
			return i;
		before = words[i + 1] ? ", " : " or ";
		n += (size_t)snprintf(list + n, sizeof(list) - n, "%s%s", i ? before : "", words[i]);
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

int processors(void)
{
	cpu_set_t set;

	return sched_getaffinity(0, sizeof(set), &set) ? 1 : CPU_COUNT(&set);
}
