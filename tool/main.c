/* SPDX-License-Identifier: MIT */
/* The command line of etch: runs the function of a command, prints the help text, and flushes the output. */
#include "command.h"
#include "report/text.h"
#include "support/typed_name.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#ifndef ETCH_VERSION
#define ETCH_VERSION "unversioned"
#endif

static const struct command commands[] = {
	{"rewrite", "add unwind tables; turn settings into constants in the code", cmd_rewrite},
	{"check", "find wrong unwind data, unbalanced stacks and other faults", cmd_check},
	{"inspect", "see what a file contains: code and its frames, unwind rows, variables", cmd_inspect},
	{"diff", "see what changed between two builds, function by function", cmd_diff},
	{"stat", "measure a command, or compare two and tell the difference from noise", cmd_stat},
	{"objtool", "build a Linux kernel without objtool", cmd_objtool},
	{"profile", "see where a program spends its time, in a table or a flame graph", cmd_profile},
	{"heap", "see which code allocates memory, and what is never freed", cmd_heap},
	{"tables", "keep unwind tables for all programs of a system", cmd_tables},
	{NULL, NULL, NULL},
};
#define COMMANDS (sizeof(commands) / sizeof(commands[0]) - 1)

static void usage(FILE *out)
{
	size_t i;

	fprintf(out, "Usage: etch COMMAND [OPTION...] FILE...\n"
	             "Profiles unmodified x86-64 programs, checks and shows their code, adds unwind tables to\n"
	             "them, and turns a program's settings into constants in its instructions, which libetch\n"
	             "can change while the program runs.\n\n"
	             "Commands:\n");
	for (i = 0; i < COMMANDS; i++)
		fprintf(out, "  %-9s %s\n", commands[i].name, commands[i].summary);
	fprintf(out, "\n"
	             "  etch COMMAND --help   print help on a command (also etch help COMMAND)\n"
	             "  etch --version        print the version (also etch version)\n\n"
	             "Examples:\n"
	             "  etch profile -o profile.svg ./app        where does the time go?\n"
	             "  etch check app                           is its code sound?\n"
	             "  cc app.c -letch -o app && etch rewrite app && etch inspect app\n\n"
	             "Exit status: 0 done; 1 findings (check, rewrite --werror), differences (diff), or a\n"
	             "command that failed (stat); 2 a file could not be used or written, or the command\n"
	             "line is wrong. profile and heap return the exit status of their command.\n");
}

/*
 * Opens /dev/null for each of the descriptors 0 to 2 that is closed. Otherwise the next file that is opened would get
 * the number, and messages would be written into the file. The descriptor is opened for the wrong direction, so that
 * using it fails as before.
 */
static void standard_streams_open(void)
{
	int fd;

	for (fd = STDIN_FILENO; fd <= STDERR_FILENO; fd++)
		if (fcntl(fd, F_GETFD) < 0)
			open("/dev/null", fd == STDIN_FILENO ? O_WRONLY : O_RDONLY);
}

/*
 * Flushes standard output, and reports an error, since a full disk must not look like success. Returns the exit status.
 */
static int output_finish(int status)
{
	if (!fflush(stdout) && !ferror(stdout))
		return status;
	/* If an earlier write failed, its errno may be lost. Another write fails in the same way, and sets errno again. */
	if (write(STDOUT_FILENO, "\n", 1) == 1)
		errno = EIO;
	text_error("standard output", "cannot write: %s", strerror(errno));
	return EXIT_UNUSABLE;
}

static int command_run(int argc, char **argv)
{
	char name[64]; /* the word with which the messages of getopt_long() begin: "etch NAME" */
	const char *meant;
	size_t i;

	for (i = 0; i < COMMANDS; i++) {
		if (strcmp(argv[0], commands[i].name))
			continue;
		snprintf(name, sizeof(name), "etch %s", commands[i].name);
		argv[0] = name;
		return commands[i].run(argc, argv);
	}
	meant = nearest_word(argv[0], &commands[0].name, sizeof(commands[0]));
	text_error(NULL, "unknown command '%s'%s%s%s; see etch --help", argv[0], meant ? " (did you mean " : "",
	           meant ? meant : "", meant ? "?)" : "");
	return EXIT_UNUSABLE;
}

int main(int argc, char **argv)
{
	char help[] = "--help";

	standard_streams_open();
	if (argc < 2) {
		usage(stderr);
		return EXIT_UNUSABLE;
	}
	if (!strcmp(argv[1], "help") && argc > 2)
		return output_finish(command_run(2, (char *[]){argv[2], help, NULL}));
	if (!strcmp(argv[1], "--help") || !strcmp(argv[1], "-h") || !strcmp(argv[1], "help")) {
		usage(stdout);
		return output_finish(EXIT_CLEAN);
	}
	if (!strcmp(argv[1], "--version") || !strcmp(argv[1], "-V") || !strcmp(argv[1], "version")) {
		printf("etch " ETCH_VERSION "\n");
		return output_finish(EXIT_CLEAN);
	}
	return output_finish(command_run(argc - 1, argv + 1));
}
