/* SPDX-License-Identifier: MIT */
/*
 * The jobserver of the GNU make that runs this program: a pipe or a named pipe that holds one byte for each free job
 * slot (GNU make manual, "POSIX Jobserver Interaction").
 */
#ifndef SUPPORT_JOBSERVER_H
#define SUPPORT_JOBSERVER_H

#include <stdbool.h>

struct jobserver {
	int in, out; /* -1: no jobserver */
};

/* Opens the jobserver that MAKEFLAGS names. There is none if make has closed the pipe, as it does for commands that it
 * does not recognise as a make. */
void jobserver_open(struct jobserver *j);
void jobserver_close(struct jobserver *j);
/* Does a make that runs this program share its jobs, whether or not this program can take part in that? */
bool jobserver_above(void);
static inline bool jobserver_is(const struct jobserver *j) { return j->in >= 0; }
/* Takes a token without waiting. Returns false if none is available. */
bool jobserver_take(struct jobserver *j, char *token);
/* Returns a token. */
void jobserver_give(struct jobserver *j, char token);

#endif
