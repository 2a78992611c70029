/* SPDX-License-Identifier: MIT */
/* Runs a command with the recorder (lib/heap) preloaded, and gathers the recordings of its processes. */
#ifndef HEAP_HEAP_SESSION_H
#define HEAP_HEAP_SESSION_H

#include "heap/heap_profile.h"

struct heap_options {
	char **command;
	uint64_t sample;       /* bytes; 0: every allocation */
	const char *directory; /* the directory for recordings; null: /dev/shm, $TMPDIR or /tmp */
	bool follow;           /* record child processes too */
	bool frame_pointers;   /* walks follow rbp in code made at run time */
	bool to_stderr;        /* the command's standard output goes to standard error */
};

struct heap_end {
	int status;       /* the command's exit status as a shell reports it; 0 if there is no command */
	int signal;       /* the signal that ended the command; 0: none */
	int stopped;      /* the signal that ended etch's waiting; 0: none */
	uint64_t running; /* processes that were still running */
};

/* Checks that this command can be run with a preloaded library. Returns 0, or -1 and the reason. */
int heap_command_check(const char *name, struct error *e);
/* Runs the command and records its allocations. Returns 0, or -1 and a message. */
int heap_run(const struct heap_options *o, struct heap_profile *h, struct heap_end *end, struct error *e);

#endif
