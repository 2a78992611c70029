/* SPDX-License-Identifier: MIT */
/*
 * Runs a command once, in two steps, so that counters can be opened for a process that has not
 * started yet.
 *
 * The command is in etch's process group, as under perf: ^C reaches both, and the command owns
 * the terminal. While etch waits, signals that would end it are caught: a signal from the
 * terminal has reached the command too; a signal sent to etch alone is forwarded.
 */
#ifndef SUPPORT_RUN_H
#define SUPPORT_RUN_H

#include <stdbool.h>
#include <sys/resource.h>
#include <sys/types.h>

#include "support/error.h"

struct run_options {
	int cpu;           /* run the command on this processor only; -1: on any */
	int out;           /* its standard output; -1: inherit etch's */
	const char *input; /* file for its standard input; null: see input_keep */
	long tick_ns;      /* at least this often `tick` of run_go() is called; 0: a quarter of a second */
	bool input_keep;   /* inherit etch's standard input, from its position before the first run; else /dev/null */
};

struct run {
	pid_t pid;
	int go, failed; /* pipes: `go` starts the command; `failed` reports why it could not start */
	long tick_ns;
};

struct run_end {
	int status; /* wait status, as from wait4() */
	struct rusage usage;
	double elapsed; /* ms */
};

/* Call before the first run and after the last one: sets up signals and standard input. */
void runs_begin(void);
void runs_end(void);
/* The signal that asked etch to stop, or 0. */
int runs_stopped(void);
/* Can every run read standard input? Yes if it is a terminal, a file or /dev/null. */
bool runs_share_input(void);

/* Creates a process that waits for run_go(). 0, or -1 and a message. */
int run_start(struct run *r, char **argv, const struct run_options *o, struct error *e);
/* Starts the command and waits for its end; `tick` is called periodically. 0, or -1 and a message
 * if the command could not be executed. */
int run_go(struct run *r, struct run_end *out, void (*tick)(void *), void *context, struct error *e);
/* The exit status that a shell has for a wait status: the command's own, 128+N where signal N ended it. */
int run_exit_status(int status);
/* Ends the process of run_start() before it has executed the command. */
void run_drop(struct run *r);

/* Does the command exist? 0, or -1 and the reason. */
int command_check(const char *name, struct error *e);

#endif
