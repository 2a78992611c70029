/* SPDX-License-Identifier: MIT */
/*
 * Runs a command once, in two steps, so that counters can be opened for a process before it executes the command.
 *
 * The command is in etch's process group, as under perf, so ^C reaches both and the command owns the terminal. While
 * etch waits, it catches signals that would end it. A signal from the terminal has already reached the command too; a
 * signal that was sent to etch alone is forwarded.
 */
#ifndef SUPPORT_RUN_H
#define SUPPORT_RUN_H

#include <limits.h>
#include <stdbool.h>
#include <sys/resource.h>
#include <sys/types.h>

#include "support/error.h"

/* How a command is run. */
struct run_options {
	int cpu;           /* the only processor to run the command on; -1: any */
	int out;           /* the command's standard output; -1: inherit etch's */
	const char *input; /* file for its standard input; null: see input_keep */
	long tick_ns;      /* run_go() calls `tick` at least this often; 0: every quarter of a second */
	bool input_keep;   /* inherit etch's standard input, from its position before the first run; else /dev/null */
};

struct run {
	pid_t pid;
	int go, failed; /* pipes: `go` starts the command; `failed` reports why it could not start */
	long tick_ns;
};

/* How a run ended. */
struct run_end {
	int status; /* wait status, as from wait4() */
	struct rusage usage;
	double elapsed; /* ms */
};

/* Call these before the first run and after the last one: they set up signals and standard input, and restore the
 * signals. */
void runs_begin(void);
void runs_end(void);
/* Returns the signal that asked etch to stop, or 0. */
int runs_stopped(void);
/* Can every run read standard input? It can if that is a terminal, a file or /dev/null. */
bool runs_share_input(void);

/* Creates a process that waits for run_go(). Returns 0, or -1 and a message. */
int run_start(struct run *r, char **argv, const struct run_options *o, struct error *e);
/* Starts the command, waits for its end, and calls `tick` periodically. Returns 0, or -1 and a message if the command
 * could not be executed. */
int run_go(struct run *r, struct run_end *out, void (*tick)(void *), void *context, struct error *e);
/* Returns the exit status that a shell reports for a wait status: the command's own, or 128+N if signal N ended it. */
int run_exit_status(int status);
/* Ends the process that run_start() created before it has executed the command. */
void run_drop(struct run *r);

/* Checks that the command exists. Returns 0, or -1 and the reason. */
int command_check(const char *name, struct error *e);
/* Finds the file that execvp(3) would run. Returns false if there is none. */
bool command_path(const char *name, char out[PATH_MAX]);

/* The ways in which a program gets privileges that its user does not have. */
enum command_rights {
	RIGHTS_NONE,
	RIGHTS_SET_ID,       /* set-user-ID, set-group-ID */
	RIGHTS_CAPABILITIES, /* capabilities of the file (capabilities(7)) */
};

/* Returns the privileges that the program at a path would have beyond those of its user. */
enum command_rights command_rights(const char *path);

#endif
