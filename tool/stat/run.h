/* SPDX-License-Identifier: MIT */
/*
 * One run of a command: started in two steps, so that counters can be opened for a process
 * that has not begun.
 *
 * The command is in etch's process group, as under perf: ^C reaches both, and the terminal
 * is the command's. Signals that would end etch are taken while it waits: one that a
 * terminal sent has the command, too; one that was sent to etch alone is passed on.
 */
#ifndef STAT_RUN_H
#define STAT_RUN_H

#include <stdbool.h>
#include <sys/resource.h>
#include <sys/types.h>

#include "report/error.h"

struct run_options {
	int cpu;           /* the command runs there only; -1: anywhere */
	int out;           /* its standard output; -1: etch's */
	const char *input; /* file of its standard input; null: see input_keep */
	bool input_keep;   /* etch's standard input, from where it was before the first run; else nothing */
};

struct run {
	pid_t pid;
	int go, failed; /* pipes: the command begins; why it could not */
};

struct run_end {
	int status;           /* as of wait4() */
	struct rusage usage;
	double elapsed;       /* ms */
};

/* Before the first run and after the last: signals, and what standard input is. */
void runs_begin(void);
void runs_end(void);
/* The signal that asks etch to stop, 0 if none has come. */
int runs_stopped(void);
/* Standard input can be read by every run: it is a terminal, a file or nothing. */
bool runs_share_input(void);

/* A process that waits for run_go(). 0, or -1 and a message. */
int run_start(struct run *r, char **argv, const struct run_options *o, struct error *e);
/* Lets it begin and waits for its end; `tick` is called now and then. 0, or -1 and a message:
 * the command could not be executed. */
int run_go(struct run *r, struct run_end *out, void (*tick)(void *), void *context, struct error *e);

/* Is there such a command? 0, or -1 and the reason. */
int command_check(const char *name, struct error *e);

#endif
