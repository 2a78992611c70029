/* SPDX-License-Identifier: MIT */
/* What the commands share: the list of them, and the exit codes. */
#ifndef COMMAND_H
#define COMMAND_H

enum exit_code {
	EXIT_CLEAN = 0,
	EXIT_FINDINGS = 1, /* --werror, or a check that found something */
	EXIT_UNUSABLE = 2, /* bad input, bad arguments, or output that could not be written */
};

struct command {
	const char *name;
	const char *summary; /* one line of `etch --help` */
	int (*run)(int argc, char **argv); /* argv[0]: "etch NAME" */
};

int cmd_rewrite(int argc, char **argv);
int cmd_stat(int argc, char **argv);
int cmd_inspect(int argc, char **argv);
int cmd_check(int argc, char **argv);
int cmd_diff(int argc, char **argv);

#endif
