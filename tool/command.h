/* SPDX-License-Identifier: MIT */
/* Declares the commands of etch: one function for each word that may follow `etch`. */
#ifndef COMMAND_H
#define COMMAND_H

#include "support/exit_code.h"

struct command {
	const char *name;
	const char *summary;               /* the line about the command in `etch --help` */
	int (*run)(int argc, char **argv); /* argv[0]: "etch NAME" */
};

int cmd_rewrite(int argc, char **argv);
int cmd_stat(int argc, char **argv);
int cmd_profile(int argc, char **argv);
int cmd_heap(int argc, char **argv);
int cmd_inspect(int argc, char **argv);
int cmd_check(int argc, char **argv);
int cmd_objtool(int argc, char **argv);
int cmd_diff(int argc, char **argv);
int cmd_tables(int argc, char **argv);

#endif
