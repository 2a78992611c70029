/* SPDX-License-Identifier: MIT */
/* Records a profile: runs the command, or attaches to a process, and reads the kernel's samples meanwhile. */
#ifndef PROFILE_SESSION_H
#define PROFILE_SESSION_H

#include "profile/profile.h"

struct session_options {
	struct perf_options perf;
	char **command; /* null: the process `pid` is recorded */
	pid_t pid;
	double seconds;      /* how long a process is recorded; 0: until it ends */
	bool frame_pointers; /* becomes profile.frame_pointers */
	bool by_thread;      /* becomes profile.by_thread */
	bool to_stderr;      /* the command's standard output goes to standard error */
};

struct session_end {
	int status;  /* the command's exit status as a shell reports it; 0 if there is no command */
	int signal;  /* the signal that ended the command; 0: none */
	int stopped; /* the signal that ended the recording; 0: none */
};

/* Checks that this command can be run and sampled. Returns 0, or -1 and the reason. */
int session_command_check(const char *name, struct error *e);
/* Records the profile. Returns 0, or -1 and a message. */
int session_run(const struct session_options *o, struct profile *p, struct session_end *end, struct error *e);

#endif
